// From a graph whose sizes are known to a plan of kernels.
//
// What is computed element by element goes into the loop of the kernel before it, or of the one behind it; views are
// other strides on the same memory; images lie channels last, with the zeros around them that the convolutions behind
// them read. What no kernel covers becomes a CallBack, alone.
// Main names: lower, LowerOptions, Accuracy. Linear in the graph. Cost: light.
#pragma once

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

enum class Accuracy : std::uint8_t {
  exact,     // convolutions are computed directly: nothing but the order of sums differs
  standard,  // and by Winograd's algorithm where that is faster: errors stay within five times those of eager float32
  fast,      // and with bfloat16 weights and products, where the processor has them
};

struct LowerOptions {
  Accuracy accuracy = Accuracy::standard;
  /// Multiplications and additions that the processor does in the time in which it reads a byte of weights. Winograd's
  /// algorithm saves the ones and reads more of the others; which is faster is estimated by this. 4 to 5 for Zen 4, 14
  /// for Emerald Rapids, measured with one core of each.
  double flops_per_byte = 5;
};

/// `graph`: pure operators (functionalise) without calls of modules that are operators, with the tensor_meta of every
/// tensor. Throws CodegenError (E501) naming the node for a tensor whose sizes are not known, or a value that is no
/// tensor where a kernel or a call back would need it.
KernelPlan lower(const Graph& graph, const Owner& owner, const LowerOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/lower.ipp"
#endif
