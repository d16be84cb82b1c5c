// Bodies of runtime/limits.hpp.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "fxx/runtime/files.hpp"
#include "fxx/runtime/limits.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Splits at every `separator`; between two of them stands an empty part.
FXX_INLINE std::vector<std::string_view> parts_between(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// The number that a text begins with; nothing for "max" and for what is negative.
FXX_INLINE std::optional<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}
FXX_INLINE std::optional<std::uint64_t> number_in(const std::string& path) {
  return leading_number(files::read_file(path, 1 << 20).value_or(""));
}
/// The number behind `name` in a file of lines "name number".
FXX_INLINE std::uint64_t number_called(std::string_view name, const std::string& path) {
  const std::string text = files::read_file(path, 1 << 20).value_or("");
  for (std::string_view line : parts_between(text, '\n')) {
    const std::size_t end = line.find_first_of(" \t:");
    if (end == line.npos || line.substr(0, end) != name) continue;
    line.remove_prefix(std::min(line.find_first_not_of(" \t:", end), line.size()));
    return leading_number(line).value_or(0);
  }
  return 0;
}

FXX_INLINE void tighten_memory(ResourceLimits& limits, std::optional<std::uint64_t> most, const std::string& used,
                               const std::string& group, std::string_view files) {
  if (!most) return;
  const std::uint64_t taken = number_in(group + used).value_or(0);
  // The system takes back what lies there for files that nobody reads now, before it lets an allocation fail.
  const std::uint64_t held = taken - std::min(taken, number_called(files, group + "/memory.stat"));
  limits.memory = std::min(limits.memory, *most - std::min(*most, held));
}
FXX_INLINE void tighten_processors(ResourceLimits& limits, std::optional<std::uint64_t> quota,
                                   std::optional<std::uint64_t> period) {
  if (!quota || !period || *period == 0) return;
  const double processors = static_cast<double>(*quota) / static_cast<double>(*period);
  if (limits.processors == 0 || processors < limits.processors) limits.processors = processors;
}

/// What one group says.
FXX_INLINE void tighten(ResourceLimits& limits, const std::string& group, std::string_view controller) {
  if (controller.empty()) {  // version 2
    const std::string processors = files::read_file(group + "/cpu.max", 4096).value_or("");
    const std::size_t blank = processors.find(' ');
    if (blank != processors.npos)
      tighten_processors(limits, leading_number(processors), leading_number(processors.c_str() + blank + 1));
    for (const char* most : {"/memory.max", "/memory.high"})
      tighten_memory(limits, number_in(group + most), "/memory.current", group, "inactive_file");
  } else if (controller == "cpu") {
    tighten_processors(limits, number_in(group + "/cpu.cfs_quota_us"), number_in(group + "/cpu.cfs_period_us"));
  } else {
    tighten_memory(limits, number_in(group + "/memory.limit_in_bytes"), "/memory.usage_in_bytes", group,
                   "total_inactive_file");
  }
}

/// The controllers of a hierarchy that set limits of ours, from "cpu,cpuacct"; "" stands for version 2.
FXX_INLINE bool has_controller(std::string_view list, std::string_view wanted) {
  const std::vector<std::string_view> names = parts_between(list, ',');
  return std::find(names.begin(), names.end(), wanted) != names.end();
}

}  // namespace detail

FXX_INLINE ResourceLimits resource_limits(const std::string& root) {
  ResourceLimits limits;
  const std::string groups = files::read_file(root + "/proc/self/cgroup", 1 << 20).value_or("");
  const std::string mounts = files::read_file(root + "/proc/self/mountinfo", 1 << 24).value_or("");
  // Lines "4:cpu,cpuacct:/path/of/the/group", and "0::/path" for version 2.
  for (const std::string_view line : detail::parts_between(groups, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view list = line.substr(first + 1, second - first - 1);
    for (const std::string_view controller : {"", "cpu", "memory"}) {
      if (controller.empty() ? !list.empty() : !detail::has_controller(list, controller)) continue;
      // Lines "31 24 0:27 /folder /mounted/at options [fields] - type source options".
      for (const std::string_view mount : detail::parts_between(mounts, '\n')) {
        const std::size_t dash = mount.find(" - ");
        if (dash == mount.npos) continue;
        const std::vector<std::string_view> before = detail::parts_between(mount.substr(0, dash), ' '),
                                            after = detail::parts_between(mount.substr(dash + 3), ' ');
        if (before.size() < 5 || after.size() < 3) continue;
        if (controller.empty() ? after[0] != "cgroup2"
                               : after[0] != "cgroup" || !detail::has_controller(after[2], controller))
          continue;
        std::string path(line.substr(second + 1));
        // A container sees its own group as the root, under the name that the host has for it or "/".
        if (before[3] != "/" && (path + '/').starts_with(std::string(before[3]) + '/')) path.erase(0, before[3].size());
        if (path.starts_with("/..")) path.clear();
        const std::string point = root + std::string(before[4]);
        for (;;) {  // a group has no more than those above it
          while (path.ends_with('/')) path.pop_back();
          detail::tighten(limits, point + path, controller);
          if (path.empty()) break;
          path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
        }
      }
    }
  }
  return limits;
}

FXX_INLINE std::uint64_t available_memory(const std::string& root) {
  const std::uint64_t kilobytes = detail::number_called("MemAvailable", root + "/proc/meminfo");
  const std::uint64_t left = resource_limits(root).memory;
  return kilobytes == 0 ? left : std::min(left, kilobytes * 1024);
}

}  // namespace fxx::inline FXX_ABI
