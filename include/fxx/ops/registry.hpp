// Operators by name while the program runs: those of the table, those that LibTorch knows beside them, the user's own.
//
// Main names: find_operator, overloads_of, register_operator, register_function, operator_of, resolve_overload,
// argument_of, parse_graph(text). Entries live until the program ends and are never changed, so pointers to them may be
// kept. All functions may be called from any thread. Lookup: O(1).
// Cost: light.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/ir/parse.hpp"
#include "fxx/ops/operator_index.hpp"

namespace fxx::inline FXX_ABI {

/// By qualified name ("aten::add.Tensor"); null when nobody registered it, and LibTorch, where the program is linked
/// to it, does not know it either.
const Operator* find_operator(std::string_view name);
/// By qualified name. Throws OperatorError (E201) that names it when there is none.
const Operator& get_operator(std::string_view name);
/// All overloads of "aten::add", those of the table first, in its order.
std::vector<const Operator*> overloads_of(std::string_view qualified_base_name);

/// Makes an operator known: "my::rotate(Tensor x, float angle=0) -> Tensor". Registering the same schema again gives
/// the first entry. Throws OperatorError (E202) when the text is no schema, (E204) when the name is taken by another
/// schema.
const Operator& register_operator(std::string_view schema, Trait traits = Trait::none);

/// Makes a function of the user's known by the name that C++ calls it with. The same name gives the same object.
const UserFunction& register_function(std::string_view name, std::string_view header = {}, bool impure = false,
                                      const Expansion* expansion = nullptr);
/// Null when nobody registered it.
const UserFunction* find_function(std::string_view name);

/// The overload of `qualified_base_name` that takes these arguments: the first in the table's order whose parameters
/// fit the kinds of the values; null when none does. A node fits by what its producer returns, or any parameter when
/// unknown.
const Operator* resolve_overload(std::string_view qualified_base_name, std::span<const Argument> args,
                                 std::span<const KeywordArgument> kwargs);

/// The operator that a node calls, whichever way it is spelled: the target of a call_function, or the aten operator
/// that a call_method means by its name and arguments (remembered in the node). Null for all else.
const Operator* operator_of(const Node& node);

/// The argument for parameter `i` of `op`, given by position or by name; null when it was left out.
const Argument* argument_of(const Node& node, const Operator& op, int i);
/// The argument for parameter `i`, or the default of the schema. Lists of the default are Argument::list.
Argument argument_or_default(const Node& node, const Operator& op, int i);
/// What a default of a schema says, for a parameter of this type: schemas write dtypes, layouts and memory formats as
/// numbers.
Argument to_argument(const Literal& literal, Type type = {});
/// Whether two numbers, booleans among them, are the same one: 1 and 1.0, but not 2^53 + 1 and 2^53.
bool equal_numbers(const Argument& a, const Argument& b);
/// Does `argument` say what `literal` says? 1 == 1.0, a number stands for a list of two of it when `type` has that
/// size.
bool same_value(const Argument& argument, const Literal& literal, Type type = {});
/// Could a value of this kind be passed for a parameter of this type?
bool fits(const Argument& argument, Type type);

namespace detail {
/// Registers an operator that others know by this name, and returns it; null when they do not.
using OperatorSource = const Operator* (*)(std::string_view name);
/// Makes find_operator ask the source for what is not registered. There is one source.
void set_operator_source(OperatorSource source);

/// What a node's value is, as far as its producer, or for a method the node's type, tells.
std::optional<Type> type_of(const Node& node);
/// Whether the value is one number for certain.
bool is_number(const Node& node);
/// The operator that takes these arguments where some that stand for tensors are known to be numbers: an overload for
/// numbers, for two numbers Python's operator. `op` itself where there is none; operands may change places.
const Operator& overload_for_numbers(const Operator& op, std::vector<Argument>& args,
                                     const std::vector<KeywordArgument>& kwargs);

bool has_effect_as_called(const Node& node);
}  // namespace detail
/// Whether running the node has an effect besides its result and the random numbers that it draws: outputs,
/// placeholders, mutations, operators without results, collectives, statistics of a batch norm that trains, user
/// functions marked impure. Calls of modules count as pure when their owner says which operator they are and that
/// operator is; else as impure.
inline bool has_effect(const Node& node) {
  const Operator* op = node.operation();
  return !(op && op->always_pure()) && detail::has_effect_as_called(node);
}

/// Whether the node draws random numbers when it runs: two runs of it differ, and it may not change places with another
/// that draws. Dropout that does not train, or drops nothing, draws none.
bool draws_numbers(const Node& node);

/// Whether the node must stay although nobody uses it: it has an effect, or draws random numbers, without which those
/// that are drawn after it would be others. `impure_random` false: drawing does not count. (torch.fx: is_impure.)
inline bool is_impure(const Node& node, bool impure_random = true) {
  return has_effect(node) || (impure_random && draws_numbers(node));
}

/// Which of several values a getitem takes, as it is given (-1: the last); nothing for any other node.
std::optional<std::int64_t> item_taken(const Node& node);

/// The resolver over the registry.
const TargetResolver& registered_targets();
/// Reads a printed graph; targets are looked up in the registry.
Graph parse_graph(std::string_view text);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/registry.ipp"
#endif
