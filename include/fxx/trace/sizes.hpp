// Dynamic dimensions: several traces of one code, taken at several sizes, become one graph with symbolic sizes.
//
// C++ that computes with sizes leaves plain numbers in a trace. Traced at several sizes, the numbers that change show
// how they follow from the sizes; where everything else is equal, one graph serves all sizes. A number becomes an
// expression over the dynamic sizes only when that agrees with every trace, and no other expression of its kind does.
// Main names: DynamicDim, SizedTrace, sizes_to_trace, smallest_sizes, more_sizes_to_trace,
// solve_sizes. Cost: light; linear in nodes
// times traces, and a few milliseconds for each number that changes in a way of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// A dimension of an input that may change from call to call (torch.export: Dim).
struct DynamicDim {
  std::size_t input = 0;  // which placeholder
  std::int64_t dim = 0;   // from the end when negative
  std::string name = {};  // equal names are equal sizes: {0, 0, "batch"}, {1, 0, "batch"}
  /// What sizes it may have. Below 2 much code does something else (a dimension of 1 broadcasts), so 1 has to be asked
  /// for. Of dimensions with one name the strictest bounds hold.
  std::int64_t minimum = 2;
  std::int64_t maximum = 0;  // 0: none
  std::int64_t multiple_of = 1;
};

/// A size for every distinct name of the dimensions, in order of first appearance.
using SizeSet = std::vector<std::int64_t>;

/// The distinct names, in order of first appearance: what the numbers of a SizeSet belong to.
std::vector<std::string> size_names(std::span<const DynamicDim> dims);

namespace detail {

/// "batch=5, seq=7".
std::string sizes_text(std::span<const std::string> names, const SizeSet& sizes);

}  // namespace detail

/// One trace of the code.
struct SizedTrace {
  /// A size that the code asked a traced tensor for. Sizes that do not follow from those of the inputs are taken from
  /// there when the graph runs.
  struct Read {
    const Node* node = nullptr;
    int item = -1;           // of a node with several results; -1: the node's own
    std::int64_t dim = 0;    // not negative
    std::int64_t value = 0;  // what the code was told
  };

  Graph graph;              // the nodes' tensor_meta has the shapes of this trace, where it is known
  SizeSet sizes;            // that the inputs had
  std::vector<Read> reads;  // in order; may be empty
  bool all_reads = false;   // whether `reads` has every size that the code asked for
};

/// Sizes to trace at: those given, then as many more as the solver needs, two more than there are names. A given size
/// that its dimension does not allow (an example with a batch of 1, say) is replaced by one that it does. Chosen sizes
/// are larger than the given ones where the bounds allow it, and never 0 or 1. First one name at a time takes a size
/// far from the given one, so that a difference has one cause; then all change a little. Throws TraceError (E311) when
/// bounds contradict each other, or leave less than two sizes.
std::vector<SizeSet> sizes_to_trace(std::span<const DynamicDim> dims, std::span<const SizeSet> given);

/// Sizes to trace at besides, where the code may do something else: one name at a time takes its smallest size, the
/// others keep those of `base`. Code that refuses them need not be traced there. Throws as sizes_to_trace.
std::vector<SizeSet> smallest_sizes(std::span<const DynamicDim> dims, const SizeSet& base);

/// Further sizes to trace at: those that leave the fewest of the expressions that fit all traces (n / 7 and n / 8 agree
/// on many n), a few that test every solution (small, odd and large ones), and those where an expression with another
/// constant, another rounding or a side of min or max less would differ. Numbers that no expression gives are looked for
/// at more and more sizes, some sixty at most. Empty when there is no doubt. Ask again with the new traces added.
///
/// Sums and products need six to eight sizes more; divisions, remainders and bounds seven to twelve beside these. Some
/// twenty more test what a further bound or remainder may hide behind: min and max, a quotient or remainder that is
/// mostly one number, division by a size, and sizes that no number of the graph follows although the code may have
/// computed with them. `refused`: sizes that the code does not take, which are not asked for again. Throws as
/// solve_sizes.
std::vector<SizeSet> more_sizes_to_trace(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims,
                                         std::span<const SizeSet> refused = {});

/// One graph for all sizes: the first trace, with sizes of inputs as nodes (`batch`) and numbers that follow from them
/// computed from those. Shapes that change are marked in tensor_meta (TensorMeta::is_dynamic).
///
/// Throws TraceError: (E309) when the traces differ in more than numbers, a branch on a size or a loop over one; (E310)
/// when a number changes and no expression, or more than one, fits; (E311) when traces and dimensions do not belong
/// together. Messages name the node, its line, and what it is at which sizes.
///
/// Attributes correspond by their names, which are the same in all traces. What a constant holds is not known here: who
/// has the tensors compares those of equal names. A constant whose shape changes is refused (E310).
Graph solve_sizes(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/sizes.ipp"
#endif
