// The ways in which a step may be computed that are worth measuring.
// Main names: alternatives, Target. Cost: light.
#pragma once

#include <vector>

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/codegen/lower.hpp"

namespace fxx::inline FXX_ABI {

/// What a plan is computed by.
struct Target {
  int lanes = 16;  // floats in a vector
  int threads = 1;
  /// What reading a byte of weights takes, in multiplications and additions; 0 where they stay in a core's own caches.
  double flops_per_byte = Processor{}.flops_per_byte;
  Accuracy accuracy = Accuracy::standard;
};

/// Ways of a step that has a shape, the estimated one first: tiles that fit the registers and take nearly the least
/// time by their count of instructions, and what else the kernel can. None for a step without a shape. O(1).
std::vector<plans::Way> alternatives(const KernelStep& step, const Target& target);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/alternatives.ipp"
#endif
