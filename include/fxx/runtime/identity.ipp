// Bodies of runtime/identity.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "fxx/runtime/files.hpp"
#include "fxx/runtime/identity.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
FXX_INLINE std::string hex_text(std::uint64_t value) {
  std::string out(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}
}  // namespace detail

FXX_INLINE std::string wide_hash(std::string_view text) {
  __extension__ using Wide = unsigned __int128;
  const Wide prime = (Wide{1} << 88) + 0x13b;
  Wide hash = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  return detail::hex_text(static_cast<std::uint64_t>(hash >> 64)) + detail::hex_text(static_cast<std::uint64_t>(hash));
}

FXX_INLINE std::string hash_of_file(const std::string& path) {
  const std::optional<std::string> content = files::read_file(path);
  return content ? wide_hash(*content) : "";
}

FXX_INLINE const std::string& processor_identity() {
  static const std::string identity = [] {
    const std::string all = files::read_file("/proc/cpuinfo").value_or("");
    const std::string_view first = std::string_view(all).substr(0, all.find("\n\n"));
    std::string out;
    for (std::size_t at = 0; at < first.size();) {
      const std::size_t end = std::min(first.find('\n', at), first.size());
      const std::string_view line = first.substr(at, end - at);
      const std::string_view name = line.substr(0, line.find_first_of("\t:"));
      for (std::string_view wanted : {"vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer",
                                      "CPU variant", "CPU part", "isa", "cpu"})
        if (name == wanted) (out += line) += '\n';
      at = end + 1;
    }
    return out;
  }();
  return identity;
}

}  // namespace fxx::inline FXX_ABI
