// Bodies of torch/unboxed.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/torch/unboxed.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

struct UnboxedArgument {
  UnboxedFrame frame;
  std::int32_t at;

  bool is_constant() const { return at < 0; }
  const Constant& constant() const { return frame.constants[~at]; }
  const c10::IValue& value() const { return at < 0 ? frame.constants[~at].value : frame.registers[at]; }
};

/// A list of integers, and the place for those that are known only when the call runs.
struct Integers {
  explicit Integers(const UnboxedArgument& argument) {
    if (!argument.is_constant()) {
      for (const c10::IValue& item : argument.value().toListRef()) gathered.push_back(item.toInt());
    } else if (const Constant& constant = argument.constant(); constant.items.empty()) {
      all = constant.integers;
      return;
    } else {
      for (std::int32_t at : constant.items) gathered.push_back(UnboxedArgument{argument.frame, at}.value().toInt());
    }
    all = at::IntArrayRef(gathered.data(), gathered.size());
  }
  Integers(const Integers&) = delete;

  c10::SmallVector<std::int64_t, 6> gathered;
  at::IntArrayRef all;
  operator at::IntArrayRef() const { return all; }
  operator c10::SymIntArrayRef() const { return c10::fromIntArrayRefSlow(all); }
};

/// One letter of a signature: the type that the operator takes, and how it is read.
template <char>
struct Slot;
#define FXX_SLOT(letter, Type, ...)                                           \
  template <>                                                                 \
  struct Slot<letter> {                                                       \
    using type = Type;                                                        \
    static type read(const UnboxedArgument& argument) { return __VA_ARGS__; } \
  };
FXX_SLOT('T', const at::Tensor&, argument.value().toTensor())
FXX_SLOT('S', at::Scalar, argument.value().toScalar())
FXX_SLOT('s', std::optional<at::Scalar>,
         argument.value().isNone() ? std::nullopt : std::optional(argument.value().toScalar()))
FXX_SLOT('i', std::int64_t, argument.value().toInt())
FXX_SLOT('I', c10::SymInt, argument.value().toInt())
FXX_SLOT('n', std::optional<std::int64_t>,
         argument.value().isNone() ? std::nullopt : std::optional(argument.value().toInt()))
FXX_SLOT('N', std::optional<c10::SymInt>,
         argument.value().isNone() ? std::nullopt : std::optional(c10::SymInt(argument.value().toInt())))
FXX_SLOT('b', bool, argument.value().toBool())
FXX_SLOT('d', double, argument.value().toScalar().toDouble())  // a number that is computed may be an integer
FXX_SLOT('e', std::optional<double>,
         argument.value().isNone() ? std::nullopt : std::optional(argument.value().toScalar().toDouble()))
FXX_SLOT('D', std::optional<at::ScalarType>, argument.value().toOptional<at::ScalarType>())
FXX_SLOT('t', at::ScalarType, argument.value().toScalarType())
FXX_SLOT('m', at::MemoryFormat, argument.value().toMemoryFormat())
FXX_SLOT('M', std::optional<at::MemoryFormat>, argument.value().toOptional<at::MemoryFormat>())
FXX_SLOT('c', std::string_view, argument.value().toStringRef())
#undef FXX_SLOT
template <>
struct Slot<'l'> {
  using type = at::IntArrayRef;
  static Integers read(const UnboxedArgument& argument) { return Integers(argument); }
};
template <>
struct Slot<'L'> {
  using type = c10::SymIntArrayRef;
  static Integers read(const UnboxedArgument& argument) { return Integers(argument); }
};
template <>
struct Slot<'o'> {
  using type = at::OptionalIntArrayRef;
  struct Held {
    std::optional<Integers> integers;
    explicit Held(const UnboxedArgument& argument) {
      if (!argument.is_constant() || !argument.constant().items.empty() || !argument.value().isNone())
        integers.emplace(argument);
    }
    operator at::OptionalIntArrayRef() const {
      return integers ? at::OptionalIntArrayRef(integers->all) : at::OptionalIntArrayRef();
    }
  };
  static Held read(const UnboxedArgument& argument) { return Held(argument); }
};
template <>
struct Slot<'w'> {
  using type = at::Tensor&;
  static at::Tensor& read(const UnboxedArgument& argument) {
    // The operator writes to what the handle refers to, never to the handle.
    return const_cast<at::Tensor&>(argument.value().toTensor());
  }
};
template <>
struct Slot<'O'> {
  using type = const std::optional<at::Tensor>&;
  static std::optional<at::Tensor> read(const UnboxedArgument& argument) {
    if (argument.is_constant()) return argument.constant().tensor;
    return argument.value().isNone() ? std::nullopt : std::optional(argument.value().toTensor());
  }
};
/// Scalars are passed by reference.
template <char Letter>
using SlotType = std::conditional_t<
    Letter == 'S', const at::Scalar&,
    std::conditional_t<Letter == 's', const std::optional<at::Scalar>&, typename Slot<Letter>::type>>;

inline constexpr char no_letter = '?';

constexpr char letter_of(const Parameter& p) {
  using V = ValueType;
  const Type& t = p.type;
  if (t.list) {
    if (t.base != V::integer || t.optional_items) return no_letter;
    return t.symbolic ? (t.optional ? no_letter : 'L') : t.optional ? 'o' : 'l';
  }
  switch (t.base) {
    case V::tensor: return p.written ? (t.optional ? no_letter : 'w') : t.optional ? 'O' : 'T';
    case V::scalar: return t.optional ? 's' : 'S';
    case V::integer: return t.optional ? (t.symbolic ? 'N' : 'n') : t.symbolic ? 'I' : 'i';
    case V::boolean: return t.optional ? no_letter : 'b';
    case V::real: return t.optional ? 'e' : 'd';
    case V::dtype: return t.optional ? 'D' : 't';
    case V::memory_format: return t.optional ? 'M' : 'm';
    case V::string: return t.optional ? no_letter : 'c';
    default: return no_letter;
  }
}

/// "TTS" for add.Tensor; in place, "wTS".
inline std::string letters_of(const Operator& op) {
  const bool in_place = !op.parameters.empty() && op.parameters[0].written;
  if (op.returns.size() != 1 || op.returns[0].type != Type{.base = ValueType::tensor} ||
      op.returns[0].written != in_place)
    return {};
  std::string letters;
  for (const Parameter& p : op.parameters) letters += letter_of(p);
  return letters.find(no_letter) == letters.npos ? letters : std::string();
}

template <fixed_string Letters>
struct UnboxedSignature {
  static constexpr std::size_t size = Letters.view().size();
  static constexpr std::string_view letters = Letters.view();
  using Return = std::conditional_t<letters[0] == 'w', at::Tensor&, at::Tensor>;

  template <class>
  struct On;
  template <std::size_t... I>
  struct On<std::index_sequence<I...>> {
    using Handle = c10::TypedOperatorHandle<Return(SlotType<letters[I]>...)>;
    static c10::IValue call(const void* handle, const std::int32_t* args, UnboxedFrame frame) {
      return static_cast<const Handle*>(handle)->call(Slot<letters[I]>::read({frame, args[I]})...);
    }
    static std::shared_ptr<const void> make(const c10::OperatorHandle& handle) {
      return std::make_shared<const Handle>(handle.typed<Return(SlotType<letters[I]>...)>());
    }
  };
  using Function = On<std::make_index_sequence<size>>;
};

struct UnboxedEntry {
  std::string_view letters;
  UnboxedOperator::Call call;
  std::shared_ptr<const void> (*make)(const c10::OperatorHandle&);
};
template <fixed_string... Letters>
constexpr auto unboxed_entries() {
  return std::array{UnboxedEntry{UnboxedSignature<Letters>::letters, &UnboxedSignature<Letters>::Function::call,
                                 &UnboxedSignature<Letters>::Function::make}...};
}

}  // namespace detail

FXX_INLINE UnboxedOperator find_unboxed(const c10::OperatorHandle& handle, const Operator& op) {
  // The signatures that two operators of the table or more have, and those of the operators that models spend most
  // calls on.
  static constexpr auto entries =
      detail::unboxed_entries<"T", "TT", "TTT", "TS", "TTS", "TSS", "ST", "Tss", "Ti", "Tii", "Tiii", "TI", "TL", "Tl",
                              "TLb", "Tb", "Tc", "Tdb", "w", "wT", "wS", "wTS", "wSS", "wTT", "wss", "wi", "TTO",
                              "TTOL", "TTi", "TTIbb", "TTSS", "TTTS", "TTTSS", "TiI", "TiD", "TD", "TobD", "Tlb", "Tib",
                              "Tm", "TtbbM", "TiT", "TiTT", "TiTb", "TiNNI", "TTOLLLI", "TTOLLLIL", "TOOOObddb",
                              "TLOOdb", "TiOOdb", "TTTOdbeb", "Tllllb", "Tlllbbn">();
  const std::string letters = detail::letters_of(op);
  if (letters.empty()) return {};
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const detail::UnboxedEntry& e) { return e.letters == letters; });
  if (found == entries.end()) return {};
  try {
    return {found->call, found->make(handle)};
  } catch (const c10::Error&) {
    return {};  // registered by someone with another C++ signature
  }
}

}  // namespace fxx::inline FXX_ABI
