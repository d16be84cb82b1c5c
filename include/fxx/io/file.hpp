// Large files of models: read where they lie, written so that the old one stays until the new one is whole.
// Main names: MappedFile, AsideFile, kind_of_file. Cost: light.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// A file in memory as long as the object lives, read by the system as it is used. The file must not shrink meanwhile: to
/// read what has been cut off ends the program by SIGBUS, as with any mapped file. Who replaces such a file writes
/// another one and renames it, as AsideFile does; then the old one stays whole for those who have it.
class MappedFile {
 public:
  MappedFile() = default;
  /// `call` begins the message of the fault.
  /// Errors: FileError file_unreadable (E801) when it does not exist, may not be read, or is no regular file.
  explicit MappedFile(const std::string& path, std::string_view call = "MappedFile");
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile();

  /// Begins at a page, so it is aligned for every type.
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A kind of file that is known by its first bytes.
struct FileKind {
  std::string_view what;     // "a zip archive, as torch.save writes (.pt, .pth)"
  std::string_view readers;  // a sentence: what reads it, or makes of it what was wanted
};
/// Returns what a file is that begins so, or nothing. At most the first 512 bytes are looked at.
std::optional<FileKind> kind_of_file(std::span<const std::byte> bytes);

/// A file written beside `path` and put in its place by commit(); without that, nothing stays of it.
/// Errors, of all members: FileError file_unwritable (E805) with the system's reason.
class AsideFile {
 public:
  explicit AsideFile(std::string path, std::string_view call = "AsideFile");
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;
  ~AsideFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Waits until the content is on the disk, then takes the place of what was there. Called once, last.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_, aside_, call_;
  int file_ = -1;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/io/file.ipp"
#endif
