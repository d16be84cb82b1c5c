// What a control group leaves this process: processors by a quota of time, and memory. Containers set these, and neither
// the number of processors nor the system's free memory shows them.
// Main names: resource_limits, available_memory. Cost: light. Source: Linux, cgroup-v1 and cgroup-v2.
#pragma once

#include <cstdint>
#include <string>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

struct ResourceLimits {
  static constexpr std::uint64_t no_limit = UINT64_MAX;
  double processors = 0;            // 1.5: three halves of one's time; 0: no limit
  std::uint64_t memory = no_limit;  // bytes that are left until the limit; what files occupy counts as free
};

/// Returns the tightest limits of the groups that this process is in, of both versions. What cannot be read is no limit.
/// `root`: a folder that stands for /, for tests. Cost: some files are read, 0.1 ms.
ResourceLimits resource_limits(const std::string& root = "");

/// Returns the bytes that this process may still take: what the system has free, and what its groups leave.
/// ResourceLimits::no_limit when nobody says. Cost: as resource_limits.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/limits.ipp"
#endif
