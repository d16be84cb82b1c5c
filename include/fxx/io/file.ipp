// Bodies of io/file.hpp.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <system_error>

#include "fxx/error.hpp"
#include "fxx/io/file.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE MappedFile::MappedFile(const std::string& path, std::string_view call) {
  const auto fail = [&](const std::string& reason) {
    throw FileError(ErrorId::file_unreadable, std::string(call) + ": '" + path + "' cannot be read, " + reason +
                                                  "; the path of a file was expected");
  };
  // O_NONBLOCK: opening a named pipe by mistake must not wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(std::generic_category().message(errno));
  struct stat status {};
  int error = ::fstat(file, &status) == 0 ? 0 : errno;
  const bool regular = !error && S_ISREG(status.st_mode);
  if (regular && static_cast<std::uint64_t>(status.st_size) > SIZE_MAX / 2) error = EFBIG;
  if (regular && !error && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) error = errno;
    else data_ = static_cast<const std::byte*>(data);
  }
  ::close(file);
  if (error) fail(std::generic_category().message(error));
  if (!regular) fail(S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file");
}

FXX_INLINE MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

FXX_INLINE AsideFile::AsideFile(std::string path, std::string_view call) : path_(std::move(path)), call_(call) {
  // O_EXCL and a number that no other of our files has: two writers of one path never share a file.
  static std::uint32_t count = 0;
  for (int attempt = 0; file_ < 0; ++attempt) {
    aside_ = path_ + ".aside-" + std::to_string(::getpid()) + "-" +
             std::to_string(__atomic_add_fetch(&count, 1u, __ATOMIC_RELAXED));
    file_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && (errno != EEXIST || attempt == 100)) {
      const int error = errno;
      aside_.clear();
      fail(error);
    }
  }
}

FXX_INLINE AsideFile::~AsideFile() {
  if (file_ >= 0) ::close(file_);
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

FXX_INLINE void AsideFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t at_once = std::size_t{1} << 30;  // what one call writes at most on any system
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size() < at_once ? bytes.size() : at_once);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FXX_INLINE void AsideFile::commit() {
  // Devices and some network file systems do not know how to wait; they say EINVAL.
  if (::fsync(file_) != 0 && errno != EINVAL) fail(errno);
  if (::close(std::exchange(file_, -1)) != 0) fail(errno);
  if (::rename(aside_.c_str(), path_.c_str()) != 0) fail(errno);
  aside_.clear();
}

FXX_INLINE void AsideFile::fail(int error) const {
  throw FileError(ErrorId::file_unwritable,
                  call_ + ": '" + path_ + "' cannot be written, " + std::generic_category().message(error) +
                      "; nothing has been changed. Make room, or choose a place that can be written");
}

}  // namespace fxx::inline FXX_ABI
