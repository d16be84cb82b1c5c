// Text as a template argument, and the hash that names operators, captures and rules.
// Main names: fixed_string, hash_of. Cost: light.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Text usable as a template argument: `rule<"silu">`.
template <std::size_t N>
struct fixed_string {
  char text[N]{};
  consteval fixed_string(const char (&source)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = source[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

inline constexpr std::uint64_t hash_of_nothing = 0xcbf29ce484222325ull, hash_factor = 0x100000001b3ull;
/// FNV-1a, 64 bits. 0 never names anything: it stands for "no operator". A text's hash goes on from that of its
/// beginning.
constexpr std::uint64_t hash_of(std::string_view name, std::uint64_t beginning = hash_of_nothing) {
  std::uint64_t hash = beginning;
  const char* const text = name.data();
  for (std::size_t i = 0, n = name.size(); i < n; ++i)
    hash = (hash ^ static_cast<unsigned char>(text[i])) * hash_factor;
  return hash;
}

}  // namespace fxx::inline FXX_ABI
