// Where the buffers of a plan lie in its arena: those that are never alive together may share memory.
// Main names: place_buffers. Cost: light.
#pragma once

#include "fxx/codegen/kernel_plan.hpp"

namespace fxx::inline FXX_ABI {

/// Gives every buffer of kind arena an offset, a multiple of 64 bytes, and the plan its size. The largest come first,
/// each at the lowest place that no buffer alive with it has. O(n^2) in buffers. `guarded`: no two buffers share memory,
/// and `guard_bytes` lie free behind each, so that a sanitizer can tell a kernel that reads or writes too far.
void place_buffers(KernelPlan& plan, bool guarded = false);
inline constexpr std::int64_t guard_bytes = 128;

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/arena.ipp"
#endif
