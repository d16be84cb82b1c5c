// What of a graph has known sizes when its inputs have those of the examples, and what depends on the elements of tensors.
//
// Main names: note_known_sizes, KnownSizeOptions. Cost: heavy (torch/nn/module.h).
#pragma once

#include <unordered_set>
#include <vector>

#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

struct KnownSizeOptions {
  /// Looks also at what reads values of unknown sizes: a sum over the dimension that is not known has known sizes. These
  /// are found by trying: operators whose sizes depend on elements run on elements that are made up, of which they find
  /// all, none, and some; what comes out the same each time is taken to be so always. Whoever relies on such sizes has to
  /// look at those that come. Numbers are taken from sizes only that follow from those of the inputs.
  bool behind_elements = false;
};

/// Runs the graph on fake tensors like the examples: notes sizes, dtypes and strides on the nodes, and puts numbers that
/// follow from sizes in the place of the nodes that compute them, so that the graph holds for these sizes alone. Returns
/// the nodes that are not known: those whose sizes, or whose being computed at all, depend on elements; and what uses
/// them, but for what `behind_elements` finds.
std::unordered_set<const Node*> note_known_sizes(GraphModule& module, const std::vector<at::Tensor>& example_inputs,
                                                 const KnownSizeOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/known_sizes.ipp"
#endif
