// The six opcodes. Each is a struct that carries its own typed target; `Op` is the variant of the six.
//
// Main names: Placeholder, GetAttr, CallFunction, CallMethod, CallModule, Output, Op, Opcode, Function, UserFunction,
// Expansion.
// Match on them with `match(node.op(), [](const CallFunction& c) {...}, ...)`: a forgotten opcode does not compile.
// Cost: light. After torch.fx node.py, 2.13.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "fxx/ir/fwd.hpp"
#include "fxx/ir/operator.hpp"
#include "fxx/meta/match.hpp"

namespace fxx::inline FXX_ABI {

/// What a function computes, as operators. The function writes to nothing, and its result is memory of its own. Objects
/// live till the program ends.
class Expansion {
 public:
  virtual ~Expansion() = default;
  /// How many arguments the function takes, all by position.
  virtual std::size_t arity() const = 0;
  /// So many are given, whoever calls. Puts operators that compute the function of these arguments where the graph inserts, and returns the result.
  virtual Argument write(Graph& graph, std::span<const Argument> args) const = 0;
};

/// A function of the user's that tracing records instead of following (torch.fx: wrap). One object per function, made
/// by the registry and alive till the program ends.
struct UserFunction {
  std::string name;     // as C++ spells it from outside: "geometry::rotate"
  std::string header;   // what generated code includes for it, with its quotes or brackets; may be empty
  bool impure = false;  // never removed as dead code
  const Expansion* expansion = nullptr;  // null where only the function itself knows what it computes
};

/// What a call_function node calls.
using Function = std::variant<const Operator*, const UserFunction*>;

/// An input; the target is the parameter's name. Its only argument, when there is one, is the default value.
struct Placeholder {
  std::string target;
  bool operator==(const Placeholder&) const = default;
};
/// Reads a parameter, buffer or submodule by its qualified name.
struct GetAttr {
  std::string target;
  bool operator==(const GetAttr&) const = default;
};
/// Calls an operator or a wrapped function.
struct CallFunction {
  Function target;
  bool operator==(const CallFunction& other) const {
    const Operator* const* a = std::get_if<const Operator*>(&target);
    const Operator* const* b = std::get_if<const Operator*>(&other.target);
    return a && b ? **a == **b : target == other.target;
  }
};
/// Calls a method of the first argument.
struct CallMethod {
  std::string target;
  bool operator==(const CallMethod&) const = default;
};
/// Calls a submodule by its qualified name.
struct CallModule {
  std::string target;
  bool operator==(const CallModule&) const = default;
};
/// Returns its only argument. The last node of a graph.
struct Output {
  bool operator==(const Output&) const = default;
};

using Op = std::variant<Placeholder, GetAttr, CallFunction, CallMethod, CallModule, Output>;

/// The index of `Op`, for switches and tables that need no target.
enum class Opcode : unsigned char { placeholder, get_attr, call_function, call_method, call_module, output };

/// "call_function".
constexpr std::string_view name_of(Opcode opcode) {
  constexpr std::string_view names[] = {"placeholder", "get_attr",    "call_function",
                                        "call_method", "call_module", "output"};
  return names[static_cast<int>(opcode)];
}

}  // namespace fxx::inline FXX_ABI
