// What tells texts, files and processors apart, for what is kept on disk.
// Main names: wide_hash, hash_of_file, processor_identity. Cost: light.
#pragma once

#include <string>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// FNV-1a of 128 bits, as 32 hexadecimal digits.
std::string wide_hash(std::string_view text);
/// Of its content; empty when it cannot be read.
std::string hash_of_file(const std::string& path);
/// What tells processors apart for a compiler that is told to use all of the one it runs on.
const std::string& processor_identity();

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/identity.ipp"
#endif
