// Bodies of trace/sizes.hpp. Traces are walked in step by one class, in detail/size_solver.ipp; which sizes to trace at
// is chosen in detail/size_choice.ipp.
#pragma once

#include "fxx/trace/detail/size_nodes.ipp"
#include "fxx/trace/detail/size_solver.ipp"
#include "fxx/trace/detail/size_steps.ipp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::vector<SizeSet> more_sizes_to_trace(std::span<const SizedTrace> traces,
                                                    std::span<const DynamicDim> dims,
                                                    std::span<const SizeSet> refused) {
  std::vector<SizeSet> wanted;
  detail::SizeSolver(traces, dims, refused).solve(&wanted);
  return wanted;
}

FXX_INLINE Graph solve_sizes(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims) {
  return detail::SizeSolver(traces, dims).solve(nullptr);
}

}  // namespace fxx::inline FXX_ABI
