// Running one node's operation on boxed values.
//
// Main names: find_handle, call_operator, call_method, get_item, call_user_function, register_user_call. Operators of
// Python's operator and math modules, and the library's own, run here; all others at the dispatcher.
// Cost: tensor (ATen/core/dispatch/Dispatcher.h).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fxx/ir/op.hpp"
#include "fxx/torch/values.hpp"

namespace fxx::inline FXX_ABI {

using Values = std::vector<c10::IValue>;
using KeywordValues = std::vector<std::pair<std::string, c10::IValue>>;

/// How an operator runs that is none of the dispatcher's: Python's on numbers, the library's own. Null for all others.
using HostCall = c10::IValue (*)(Values&);
HostCall find_host_call(std::string_view operator_name);

/// The dispatcher's entry for an operator; none for those that the dispatcher does not have.
std::optional<c10::OperatorHandle> find_handle(const Operator& op);
/// An operator that LibTorch has registered, from its handle: taken from the registry, or put there.
const Operator& operator_of(const c10::OperatorHandle& handle);

/// Calls an operator with positional values in the order of its schema, then by name; defaults fill the rest. Several
/// results come as one tuple. Throws RunError (E701) when the values do not fit the schema, what LibTorch throws when
/// it fails.
c10::IValue call_operator(const Operator& op, Values args, const KeywordValues& kwargs = {});
/// Calls a method of the first value by name, choosing the overload by the values.
c10::IValue call_method(const std::string& name, Values args, const KeywordValues& kwargs = {});
/// `container[index]` as Python means it: tuples, lists, dicts, and tensors with numbers, slices, `...`, None and
/// tensors.
c10::IValue get_item(const c10::IValue& container, const Argument& index,
                     const std::function<c10::IValue(Node*)>& value_of);

/// What a wrapped function of the user's does with boxed values.
using UserCall = std::function<c10::IValue(Values)>;
void register_user_call(const UserFunction& function, UserCall call);
/// Nobody registered a call: what the function computes, where it says that, has to be run as operators.
bool runs_as_operators(const UserFunction& function);
/// Runs the call, or else the operators. Throws RunError (E702) when there are neither.
c10::IValue call_user_function(const UserFunction& function, Values args);

namespace detail {
/// Lets find_operator, and with it parse_graph, know every operator of the dispatcher. Returns true.
bool know_dispatcher();
inline const bool dispatcher_is_known = know_dispatcher();

/// A value made to fit its parameter as LibTorch's own callers would: 1 for a float, one number for `int[2]`.
void adapt(c10::IValue& value, const Type& type);
/// "While executing %relu : ...", with the user's lines where they are known: what runners add to what an operator
/// throws.
std::string while_executing(const Node& node);
}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/execute.ipp"
#endif
