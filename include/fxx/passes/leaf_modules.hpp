// Between calls of leaf modules and the operators that they amount to.
//
// `conv1(x)` and `conv2d(x, conv1.weight, conv1.bias, [2, 2], ...)` say the same. Rules are written over operators,
// people read and train modules: expand_modules goes one way, reroll_modules back wherever an operator still is what a
// module of the owner does. Nodes keep their identity and name.
// Main names: expand_modules, expand_borrowing_modules, reroll_modules. O(nodes + leaf modules). Cost: light.
#pragma once

#include <span>
#include <string_view>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Turns every call_module of a module that is one operator into a call_function with get_attr nodes for its
/// parameters. What depends on the training flag is taken as it is now. InstanceNorm, and Dropout2d and Dropout3d that
/// train, are one operator for a batch alone, so their calls stay where tensor_meta does not say that the input is one.
/// Modules whose class, as ModuleInfo::type spells it, is among `but` stay calls. Returns how many calls were turned.
std::size_t expand_modules(Graph& graph, const Owner& owner, std::span<const std::string_view> but = {});

/// Those calls alone whose module uses tensors that are registered elsewhere (ModuleInfo::borrows), as tied weights
/// are: a copy of the module would use others. Those with a training flag stay, for it.
std::size_t expand_borrowing_modules(Graph& graph, const Owner& owner);

/// Turns every operator call whose attributes and constants are those of one leaf module into a call_module; attributes
/// that are no longer used go, and so does the count in front of a batch norm in training. Inputs that a norm or
/// dropout of channels would refuse, or see a batch of one in, are no such call. Modules without parameters leave no
/// trace to tell them by, so calls of them stay operators unless `known` maps the operator's node (by name) to the
/// module, as it was before expand_modules. A node that it maps to "" has a training flag of its own: it becomes no
/// call of a module whose flag train() sets.
std::size_t reroll_modules(Graph& graph, const Owner& owner,
                           const std::map<std::string, std::string, std::less<>>& known = {});

/// What reroll_modules cannot find out: names of the nodes that call a module without attributes, with the module's
/// name, and of the norms that are operators, with "".
std::map<std::string, std::string, std::less<>> parameterless_calls(const Graph& graph, const Owner& owner);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/leaf_modules.ipp"
#endif
