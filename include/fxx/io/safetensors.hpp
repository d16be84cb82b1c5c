// Weights in the safetensors format: names, dtypes and shapes in a JSON header, then the data.
//
// A file is untrusted. Everything in it is compared with its size before it is used: a SafetensorsFile that exists has
// only entries whose data lies in the file, without gaps or overlaps, as long as shape and dtype say.
// Main names: SafetensorsFile, SafetensorsEntry, write_safetensors. Reading is linear in the header and copies no data.
// Cost: light; header-only 2 s for the JSON parser. Source: the format as of safetensors 0.8; its dtypes of less than a
// byte, and F8_E8M0, have no Dtype here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/io/file.hpp"
#include "fxx/ir/dtype.hpp"

namespace fxx::inline FXX_ABI {

struct SafetensorsEntry {
  std::string name = {};
  Dtype dtype = Dtype::float32;
  std::vector<std::int64_t> shape = {};  // elements; the data is contiguous, the last axis fastest
  std::span<const std::byte> data = {};  // little-endian; in a file of another writer perhaps not aligned for its dtype
};

/// Texts that a file carries beside its tensors, such as {"format", "pt"}.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

class SafetensorsFile {
 public:
  /// Errors: FileError file_unreadable (E801) with the reason; file_malformed (E802), which says what and where.
  explicit SafetensorsFile(const std::string& path);
  /// The same from memory, which must outlive the object; `name` stands for it in messages.
  /// Errors: FileError file_malformed (E802).
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string_view name = "memory");

  /// In the order of the header. Their data lives as long as this object.
  std::span<const SafetensorsEntry> entries() const { return entries_; }
  /// Null when there is none. O(log entries).
  const SafetensorsEntry* find(std::string_view name) const;
  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;
  void read(std::span<const std::byte> bytes, std::string_view name);

  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::uint32_t> by_name_;  // indices of entries_, sorted
  SafetensorsMetadata metadata_;
};

/// Writes entries, in this order, the data of each aligned for its dtype. The file is written aside and renamed.
/// Errors: FileError file_unwritable (E805); file_malformed (E802) when no such file can be: a name twice, or one that
/// is not UTF-8, a dtype that the format does not have, data that is not as long as shape and dtype say.
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/io/safetensors.ipp"
#endif
