// Which operator a node means, however it is spelled: as a function, a method, by another of its names, with a number
// for a tensor, in place on a temporary that nobody else sees, as a call of a module.
// Main names: operator_id, functional_id, why_no_twin, calls_operator, is_size_value, module_info, module_option,
// trains. Cost: light.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// The id of the operator that the node calls; of a call_module the hash of the module's class, as its owner spells it.
/// 0 for all else. `mul.Tensor(x, 2)`, as torch.fx and torch.export write it, is mul.Scalar, and so is `multiply`.
std::uint64_t operator_id(const Node& node);
/// For a call that writes to a temporary that only it uses, `relu_(x + y)`: the id of its functional twin, relu. Nobody
/// can tell the two apart. Else 0, also where the twin would give another dtype, as far as dtypes are known.
std::uint64_t functional_id(const Node& node);
inline bool is_twin(const Node& node, std::uint64_t id) {
  return node.operation() && node.operation()->mutates && id && functional_id(node) == id;
}
/// Whether the node calls this operator, under either id.
inline bool calls_operator(const Node& node, std::uint64_t id) { return operator_id(node) == id || is_twin(node, id); }
/// An integer, or a size that a node computes.
bool is_size_value(const Argument& value);
/// What the graph's owner knows of the module that a node calls; null for all other nodes. For conditions on options:
/// `module<"torch::nn::LSTM">(x).where([](const Node& n) { return module_info(n)->construct == ...; })`.
const ModuleInfo* module_info(const Node& node);
/// What an option of the module that a node calls was set to, as C++ spells it: "2" of "stride" for
/// `Conv2dOptions(3, 64, 7).stride(2)`. Empty where it was not set, and for all other nodes. O(text of the options).
std::string_view module_option(const Node& node, std::string_view option);
/// Whether the node computes as in training: the training flag of the module that it calls, or the `train` or `training`
/// that its operator is given. None where there is no such flag.
std::optional<bool> trains(const Node& node);
/// Does the value depend on parameters, buffers and constants alone? Looks through a bounded number of pure operators.
bool is_constant_value(const Node& node);

}  // namespace fxx::inline FXX_ABI::rewrite

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/spelling.ipp"
#endif
