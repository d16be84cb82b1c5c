// Constants that a trace met, made what they are in every run of the code.
// Main names: detail::fold_filled_lists, detail::copy_made_constants. Linear in the graph. Cost: includes
// <ATen/core/Tensor.h>.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "fxx/ir/graph.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

using TracedConstants = std::map<std::string, GraphModule::Attribute>;

/// Lets torch::tensor({1, 2, 3}) be one of the constants. What a trace records is how LibTorch makes it, one element at
/// a time: empty, select, fill_. Lists that hold sizes of dynamic dimensions stay as they are.
void fold_filled_lists(Graph& graph, const ModuleOwner& owner, TracedConstants& constants);

/// Whether the graph alone holds the constant. Who captured a tensor gets that one back, and may write to it.
bool is_held_by_graph_alone(const GraphModule::Attribute& constant);

/// A constant that the code made is made anew in every run, where that can be told: the graph writes to a copy of it,
/// and a copy is what the caller gets.
/// `held`: those that are tensors of the code's, which the graph writes to as the code does.
void copy_made_constants(Graph& graph, const TracedConstants& constants, const std::map<std::string, at::Tensor>& held);

}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/traced_constants.ipp"
#endif
