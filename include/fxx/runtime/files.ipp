// Bodies of runtime/files.hpp.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "fxx/runtime/files.hpp"

namespace fxx::inline FXX_ABI::files {

FXX_INLINE void Descriptor::close() noexcept {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

FXX_INLINE bool is_privileged() {
#if defined(__linux__)
  return ::getauxval(AT_SECURE) != 0;
#else
  return ::geteuid() != ::getuid() || ::getegid() != ::getgid();
#endif
}
FXX_INLINE const char* variable(const char* name) { return is_privileged() ? nullptr : ::getenv(name); }

FXX_INLINE std::string error_text(int error) { return std::generic_category().message(error); }

FXX_INLINE std::optional<std::string> read_file(const std::string& path, std::size_t limit) {
  // O_NONBLOCK: opening a named pipe by mistake must not wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode)) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    return std::nullopt;
  }
  // The size is a hint only: files of /proc have size 0, and others may grow.
  std::string content;
  const auto hint = static_cast<std::size_t>(status.st_size);
  for (std::size_t used = 0;;) {
    if (used > limit || hint > limit) {
      errno = EFBIG;
      return std::nullopt;
    }
    if (used == content.size()) content.resize(used < hint ? hint + 1 : used + 65536);
    const ssize_t got = ::read(file.get(), content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) {
      content.resize(used);
      return content;
    }
    used += static_cast<std::size_t>(got);
  }
}

FXX_INLINE int write_file(const std::string& path, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  return file ? write_file(file, content) : errno;
}
FXX_INLINE int write_file(const Descriptor& file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

FXX_INLINE int sync_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::fsync(file.get()) == 0 ? 0 : errno;
}

FXX_INLINE bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

FXX_INLINE Descriptor lock_folder(const std::string& path, double seconds) {
  Descriptor lock(::open((path + "/lock").c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  constexpr long pause = 2'000'000;  // nanoseconds
  for (double left = seconds; lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;  // where there are no locks
    if (left <= 0) {
      lock.close();
      errno = EWOULDBLOCK;
      break;
    }
    const struct timespec wait{0, pause};
    ::nanosleep(&wait, nullptr);
    left -= 1e-9 * pause;
  }
  return lock;
}

namespace detail {
FXX_INLINE int make_folder(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) == 0) return 0;
  const int error = errno;  // which of the errors comes first when the folder exists differs between systems
  if (is_folder(path)) return 0;
  return error == EEXIST ? ENOTDIR : error;
}
}  // namespace detail

FXX_INLINE int make_folders(const std::string& path, unsigned mode) {
  for (std::size_t end = path.find('/', 1); end != path.npos; end = path.find('/', end + 1))
    if (const int error = detail::make_folder(path.substr(0, end), 0777)) return error;
  return detail::make_folder(path, mode);
}

namespace detail {
// By descriptors, so that a link put in the place of a folder meanwhile is not followed.
FXX_INLINE void remove_entry(int folder, const char* name) noexcept {
  if (::unlinkat(folder, name, 0) == 0) return;
  const int inside = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inside < 0) return;
  DIR* entries = ::fdopendir(inside);
  if (!entries) {
    ::close(inside);
    return;
  }
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view text(entry->d_name);
    if (text != "." && text != "..") remove_entry(inside, entry->d_name);
  }
  ::closedir(entries);
  ::unlinkat(folder, name, AT_REMOVEDIR);
}
}  // namespace detail

FXX_INLINE void remove_tree(const std::string& path) noexcept { detail::remove_entry(AT_FDCWD, path.c_str()); }

FXX_INLINE std::string absolute_path(std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  std::vector<char> here(256);
  while (!::getcwd(here.data(), here.size())) {
    if (errno != ERANGE) return std::string(path);  // the current folder is gone
    here.resize(2 * here.size());
  }
  std::string out(here.data());
  if (path.empty() || path == ".") return out;
  if (!out.ends_with('/')) out += '/';
  return out += path;
}

FXX_INLINE std::string resolved_path(const std::string& path) {
  char* found = ::realpath(path.c_str(), nullptr);
  if (!found) return path;
  const std::string out(found);
  ::free(found);
  return out;
}

}  // namespace fxx::inline FXX_ABI::files
