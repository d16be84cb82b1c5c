// Small files and folders, by POSIX calls: what running programs, building and caching need of them.
//
// Not <filesystem>, which costs half a second of every file that includes it. Nothing here throws but for lack of
// memory: a call gives 0 or an errno, and error_text says it in words.
// Main names: Descriptor, variable, read_file, write_file, make_folders, remove_tree, lock_folder, absolute_path.
// Cost: light.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::files {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void close() noexcept;

 private:
  int number_ = -1;
};

/// The value of an environment variable, or null: what std::getenv gives, but in a program that runs with more rights
/// than the user who started it (setuid, setgid, capabilities), whose variables are then not trusted.
const char* variable(const char* name);
/// Whether this program runs with more rights than the user who started it.
bool is_privileged();

/// "No such file or directory". Safe in several threads.
std::string error_text(int error);

/// The whole of a regular file; nothing, with errno set, when it cannot be read. `limit`: largest size read, in bytes.
std::optional<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);
/// Makes or overwrites a file and waits until it is on the disk, so that a rename after it never shows an empty one. A
/// link in the place of the file is not followed: ELOOP.
[[nodiscard]] int write_file(const std::string& path, std::string_view content);
/// The same to a file that is open.
[[nodiscard]] int write_file(const Descriptor& file, std::string_view content);
[[nodiscard]] int sync_file(const std::string& path);

/// Makes a folder and those above it; the last gets `mode`, as far as the umask lets it. One that exists stays.
[[nodiscard]] int make_folders(const std::string& path, unsigned mode = 0777);
/// Removes a file, or a folder with all in it; links are removed, not followed. What cannot be removed stays.
void remove_tree(const std::string& path) noexcept;
bool is_folder(const std::string& path);
/// Waits until nobody else holds the lock of the folder, a file in it, and holds it as long as the result lives; nothing,
/// with errno set, where there can be none, and with EWOULDBLOCK when somebody held it all of `seconds`: whoever may read
/// the file may lock it.
Descriptor lock_folder(const std::string& path, double seconds = 30);

/// As seen from the current folder; nothing is resolved.
std::string absolute_path(std::string_view path);
/// The path without the links in it; the path itself when there is nothing there.
std::string resolved_path(const std::string& path);

}  // namespace fxx::inline FXX_ABI::files

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/files.ipp"
#endif
