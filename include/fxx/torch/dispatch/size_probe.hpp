// Sizes that a graph follows without holding them as they were read: `x.size(0) / 2`, a loop over a size, a branch on
// one. Found by running the code at other sizes, with fake tensors.
//
// Main names: detail::add_probed_sizes. Cost: heavy (torch/nn/module.h); a run of the code for every dimension of the
// inputs.
#pragma once

#include <vector>

#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/trace_options.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Adds to `sizes`, those that the code was seen to read, what of `graph` is different when a dimension of an input that
/// is not declared dynamic has twice its size. Nothing where the code does not take fake tensors, or keeps values of one
/// run for the next. What the runs do to the module is undone.
void add_probed_sizes(const TracedCode& code, const std::vector<at::Tensor>& inputs, const Graph& graph,
                      const Recording& run, const TraceOptions& options, std::vector<TraceReport::Size>& sizes);

/// Where two runs have other numbers ("%view(size)"), up to the first node that is another ("%exp"); and constants.
std::vector<std::string> differing(const Graph& a, const Graph& b, const Recording& of_a, const Recording& of_b);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/size_probe.ipp"
#endif
