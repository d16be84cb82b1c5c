// What is known of one operator: its schema, taken apart.
//
// Plain data, so that an Operator can be a compile-time constant (ops/operation.hpp), an entry made at run time from a
// schema that LibTorch or a user registered (ops/registry.hpp), and a thing that nodes point to.
// Main names: ValueType, Type, Literal, Parameter, Return, Operator. Two Operators are the same one when their ids are
// equal.
// Cost: light.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

enum class ValueType : std::uint8_t {
  tensor,
  scalar,  // a number: boolean, integer, real or complex
  integer,
  real,
  boolean,
  string,
  dtype,
  layout,
  memory_format,
  device,
  generator,
  other,
};

/// Type of a parameter or a result: `Tensor?[]` is {tensor, list, optional_items}, `int[2]?` {integer, list, optional,
/// size 2}.
struct Type {
  ValueType base = ValueType::other;
  bool list = false;
  bool optional = false;
  bool optional_items = false;
  bool symbolic = false;       // SymInt: what LibTorch's C++ takes as c10::SymInt
  std::uint8_t list_size = 0;  // of `int[2]`, where one number may stand for all; 0: any
  constexpr bool operator==(const Type&) const = default;
};

/// Whether an integer and a double are the same number. 2^53 + 1 and 2^53 are not, although one is the nearest double of
/// the other.
constexpr bool equal_numbers(std::int64_t whole, double real) {
  return real >= -0x1p63 && real < 0x1p63 && static_cast<std::int64_t>(real) == whole &&
         static_cast<double>(static_cast<std::int64_t>(real)) == real;
}

/// A constant that a schema or a pattern can hold.
struct Literal {
  enum class Kind : std::uint8_t { absent, none, boolean, integer, real, string, integers, other };
  static constexpr int max_items = 4;
  Kind kind = Kind::absent;
  std::uint8_t count = 0;  // of a list
  std::int64_t integer = 0;
  double real = 0;
  std::string_view string = {};
  std::int64_t items[max_items] = {};

  static constexpr Literal of(bool v) { return {.kind = Kind::boolean, .integer = v}; }
  static constexpr Literal of(std::int64_t v) { return {.kind = Kind::integer, .integer = v}; }
  static constexpr Literal of(int v) { return {.kind = Kind::integer, .integer = v}; }
  static constexpr Literal of(double v) { return {.kind = Kind::real, .real = v}; }
  static constexpr Literal of(std::string_view v) { return {.kind = Kind::string, .string = v}; }

  constexpr bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
  constexpr double number() const { return kind == Kind::real ? real : static_cast<double>(integer); }

  /// Equal as PyTorch sees it: 1 == 1.0; an unreadable default equals nothing.
  constexpr bool operator==(const Literal& other) const {
    if (kind == Kind::real && other.is_number())
      return other.kind == Kind::real ? real == other.real : equal_numbers(other.integer, real);
    if (kind == Kind::integer && other.kind == Kind::real) return equal_numbers(integer, other.real);
    if (kind != other.kind || kind == Kind::other || count != other.count) return false;
    for (int i = 0; i < count; ++i)
      if (items[i] != other.items[i]) return false;
    return integer == other.integer && (kind != Kind::string || string == other.string);
  }
};

/// Whether a schema's type is a class of TorchScript: `__torch__.torch.classes.c10d.ProcessGroup`, or an optional or a
/// list of it.
constexpr bool names_class(std::string_view type_text) { return type_text.starts_with("__torch__."); }

struct Parameter {
  std::string_view name = {};
  Type type = {};
  bool keyword_only = false;
  bool written = false;  // `Tensor(a!)`
  char alias = 0;        // `a` of `Tensor(a)`; 0 when the value aliases nothing
  std::string_view type_text = {};  // as the schema has it: `Tensor(a!)?[]`, or the class of an object
  std::string_view default_text = {};
  Literal standard = {};  // default value; Kind::absent when there is none
  constexpr bool has_default() const { return standard.kind != Literal::Kind::absent; }
};

struct Return {
  std::string_view name = {};
  Type type = {};
  bool written = false;
  char alias = 0;
  std::string_view type_text = {};
};

/// Properties that a schema does not tell. Combined with `|`.
enum class Trait : std::uint16_t {
  none = 0,
  commutative = 1,  // the first two arguments may change places
  pointwise = 2,    // one result element depends on one element of each (broadcast) input
  random = 4,       // draws from a generator, so two calls differ
  method = 8,       // torch::Tensor has a member of this name
  function = 16,    // at:: has a function of this name
  reduction = 32,
  fresh_view = 64,           // may return its input itself: contiguous, to, reshape
  impure = 128,              // has an effect that the schema does not show, and may write to any memory
  idle_in_eval = 512,        // does nothing when its `train` is false
  updates_statistics = 256,  // writes its running statistics when told that it is training
  synonym = 1024,            // another name of an operator (ops/synonyms.hpp)
  ordered = 2048,            // has an effect besides memory: it prints, checks, or talks to other processes
};
constexpr Trait operator|(Trait a, Trait b) { return static_cast<Trait>(static_cast<int>(a) | static_cast<int>(b)); }
constexpr bool has(Trait set, Trait one) { return (static_cast<int>(set) & static_cast<int>(one)) != 0; }

struct Operator {
  std::uint64_t id = 0;          // hash_of(name)
  std::uint64_t means = 0;       // id of the operator that it is by another name, else its own
  std::string_view name = {};    // "aten::add.Tensor"
  std::string_view schema = {};  // the whole text
  std::span<const Parameter> parameters = {};
  std::span<const Return> returns = {};
  std::uint8_t required = 0;    // leading parameters without a default
  std::uint8_t positional = 0;  // parameters before `*`
  Trait traits = Trait::none;
  bool mutates = false;           // some parameter is written to
  bool aliases = false;           // some result shares memory with a parameter
  bool second_is_tensor = false;  // the second parameter is one tensor, for which graphs may have a number
  std::uint8_t family = 0;        // 0 to 62, made of what it means: a first sieve for those who look for operators

  constexpr int arity() const { return static_cast<int>(parameters.size()); }
  /// No visible effect but drawing random numbers (Trait::random). An operator without results is called for its
  /// effect.
  constexpr bool pure() const {
    return !mutates && !returns.empty() && !has(traits, Trait::impure | Trait::ordered);
  }
  /// Does what it is told about training decide whether it has an effect?
  constexpr bool depends_on_training() const {
    return has(traits, Trait::updates_statistics) || has(traits, Trait::idle_in_eval);
  }
  /// Pure whatever its arguments are, as nearly all operators are.
  constexpr bool always_pure() const { return pure() && !depends_on_training(); }
  /// "aten" of "aten::add.Tensor".
  constexpr std::string_view name_space() const { return name.substr(0, name.find("::")); }
  /// "add" of "aten::add.Tensor".
  constexpr std::string_view base_name() const {
    const std::string_view rest = name.substr(name.find("::") + 2);
    return rest.substr(0, rest.find('.'));
  }
  /// "Tensor" of "aten::add.Tensor"; empty for the default overload.
  constexpr std::string_view overload_name() const {
    const std::size_t dot = name.find('.');
    return dot == name.npos ? std::string_view{} : name.substr(dot + 1);
  }
  /// Position of a parameter, or -1.
  constexpr int index_of(std::string_view parameter) const {
    for (int i = 0; i < arity(); ++i)
      if (parameters[static_cast<std::size_t>(i)].name == parameter) return i;
    return -1;
  }
  constexpr bool operator==(const Operator& other) const { return id == other.id; }
};

}  // namespace fxx::inline FXX_ABI
