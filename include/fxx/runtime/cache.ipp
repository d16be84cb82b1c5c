// Bodies of runtime/cache.hpp.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fxx/runtime/cache.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/identity.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

// --- the key ---------------------------------------------------------------------------------------------------------

/// Every field with its length, so that no two requests have one text.
FXX_INLINE std::string cache_key(const Toolchain& toolchain, const BuildRequest& request) {
  std::string key = "fxx build 1\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    ((((key += name) += ' ') += std::to_string(value.size())) += '\n') += value;
    key += '\n';
  };
  const auto add_all = [&](std::string_view name, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(name, value);
  };
  add("version", FXX_VERSION_TEXT);
  add("compiler", toolchain.identity());
  add_all("word", toolchain.build_command(request, "library"));  // holds flags, folders and libraries
  add_all("extra", request.extra);
  for (const char* name :
       {"CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "SDKROOT"})
    if (const char* value = ::getenv(name)) add(name, value);
  const auto native = [](const std::string& flag) { return flag.find("=native") != flag.npos; };
  if (std::any_of(request.flags.begin(), request.flags.end(), native) ||
      std::any_of(toolchain.command().begin(), toolchain.command().end(), native))
    add("processor", processor_identity());
  add("source", request.source);
  return key;
}

// --- an entry --------------------------------------------------------------------------------------------------------

/// The headers in a rule for make, `library: source.cpp /a/b.hpp \`, with blanks and others escaped by backslashes.
FXX_INLINE std::vector<std::string> headers_of_rule(std::string_view rule) {
  std::vector<std::string> out;
  std::string word;
  const auto finish = [&] {
    if (word.starts_with('/')) out.push_back(word);  // the source itself has no folder
    word.clear();
  };
  for (std::size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i], next = i + 1 < rule.size() ? rule[i + 1] : '\0';
    if (c == '\\' && (next == ' ' || next == '#' || next == '\\' || next == ':')) word += rule[++i];
    else if (c == '$' && next == '$') word += rule[++i];
    else if (c == '\\' && next == '\n') finish();
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') finish();
    else word += c;
  }
  finish();
  return out;
}

/// The last file written into an entry: what a look-up checks.
///   fxx entry 2
///   library 0123456789abcdef0123456789abcdef module-a1b2.so
///   header 0123456789abcdef0123456789abcdef /path/of/header.hpp
///   end
FXX_INLINE std::string manifest_of(const std::string& folder, const std::string& library) {
  struct stat source {};
  ::stat((folder + "/source.cpp").c_str(), &source);
  std::string out = "fxx entry 2\nlibrary " + hash_of_file(folder + "/" + library) + " " + library + "\n";
  for (const std::string& header : headers_of_rule(files::read_file(folder + "/headers.d").value_or(""))) {
    struct stat status {};
    const bool there = ::stat(header.c_str(), &status) == 0;
    // One that changed while the compiler ran may have been read before that, so it counts as changed ever after.
    const bool changed =
        !there || status.st_mtim.tv_sec > source.st_mtim.tv_sec ||
        (status.st_mtim.tv_sec == source.st_mtim.tv_sec && status.st_mtim.tv_nsec > source.st_mtim.tv_nsec);
    out += "header " + (changed ? "changed" : hash_of_file(header)) + " " + header + "\n";
  }
  return out + "end\n";
}

/// The library of an entry; nothing when the entry is missing, damaged, of another key, or its headers have changed.
FXX_INLINE std::optional<std::string> valid_library(const std::string& entry, const std::string& key) {
  const std::optional<std::string> manifest = files::read_file(entry + "/manifest");
  if (!manifest || !manifest->starts_with("fxx entry 2\nlibrary ") || !manifest->ends_with("\nend\n"))
    return std::nullopt;
  std::string library;
  std::string_view lines = *manifest;
  for (lines.remove_prefix(lines.find('\n') + 1); !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    if (line == "end") break;
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == line.npos) return std::nullopt;
    const std::string_view value = line.substr(first + 1, second - first - 1);
    std::string name(line.substr(second + 1));
    if (line.starts_with("library ")) name = library = entry + "/" + name;
    if (hash_of_file(name) != value) return std::nullopt;
  }
  if (files::read_file(entry + "/key") != key) return std::nullopt;
  return library;
}

[[noreturn]] FXX_INLINE void cache_unwritable(const std::string& folder, int error) {
  throw CompileError(ErrorId::cache_unwritable,
                     "BuildCache: the folder " + folder + " cannot be written, " + files::error_text(error) +
                         "; built modules are kept there. Make it writable, make room, or name another "
                         "folder in FXX_CACHE_DIR");
}

/// A folder of our own in the cache, with the rights that the cache has; removed unless it is kept.
class Aside {
 public:
  Aside(const std::string& cache, const std::string& entry_name) {
    path_ = cache + "/aside-" + entry_name.substr(0, 8) + "-XXXXXX";
    if (!::mkdtemp(path_.data())) cache_unwritable(cache, errno);
    struct stat status {};
    if (::stat(cache.c_str(), &status) == 0) ::chmod(path_.c_str(), (status.st_mode & 0777) | 0700);
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() {
    if (!path_.empty()) files::remove_tree(path_);
  }
  const std::string& path() const { return path_; }
  /// "a1b2c3": what no other aside has.
  std::string suffix() const { return path_.substr(path_.size() - 6); }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

/// Puts the finished folder in the place of the entry, and returns the library that is there then: ours, or that of
/// somebody who was earlier.
FXX_INLINE std::string publish(Aside& aside, const std::string& cache, const std::string& entry, const std::string& key,
                               const std::string& library) {
  // One at a time, so that a broken entry, once seen, is still the one that is moved away. Where there are no locks,
  // the worst is that a good entry is replaced by an equal one.
  const files::Descriptor lock = files::lock_folder(cache);
  if (!lock) cache_unwritable(cache, errno);
  if (std::optional<std::string> earlier = valid_library(entry, key)) return *earlier;

  const std::string old = aside.path() + "-old";
  for (int attempt = 0;; ++attempt) {
    if (::rename(aside.path().c_str(), entry.c_str()) == 0) break;
    const int error = errno;
    const bool taken = error == EEXIST || error == ENOTEMPTY || error == ENOTDIR;
    if (!taken || attempt == 3) cache_unwritable(cache, error);
    if (::rename(entry.c_str(), old.c_str()) != 0 && errno != ENOENT) cache_unwritable(cache, errno);
    files::remove_tree(old);
  }
  aside.keep();
  return entry + "/" + library;
}

}  // namespace detail

FXX_INLINE BuildCache::BuildCache(std::string folder) : folder_(files::absolute_path(folder)) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
}

FXX_INLINE std::string BuildCache::default_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = ::getenv(name);
    return value ? value : "";
  };
  if (std::string folder = variable("FXX_CACHE_DIR"); !folder.empty()) return folder;
  // A relative path in the other two means nothing, by the XDG base directory specification and by POSIX.
  if (const std::string folder = variable("XDG_CACHE_HOME"); folder.starts_with('/')) return folder + "/fxx";
  if (const std::string folder = variable("HOME"); folder.starts_with('/')) return folder + "/.cache/fxx";
  // What is loaded from here runs as this user, so a folder that another one made must not be used.
  const std::string folder = "/tmp/fxx-" + std::to_string(::geteuid());
  struct stat status {};
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) detail::cache_unwritable(folder, errno);
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & 077) != 0)
    throw CompileError(ErrorId::cache_unwritable,
                       "BuildCache: " + folder +
                           " is not a folder that only this user may enter; remove it, or name "
                           "another folder in FXX_CACHE_DIR");
  return folder;
}

FXX_INLINE std::string BuildCache::entry_name(const Toolchain& toolchain, const BuildRequest& request) {
  return wide_hash(detail::cache_key(toolchain, request));
}

FXX_INLINE std::optional<std::string> BuildCache::find(const Toolchain& toolchain, const BuildRequest& request) const {
  const std::string key = detail::cache_key(toolchain, request);
  return detail::valid_library(folder_ + "/" + wide_hash(key), key);
}

FXX_INLINE std::string BuildCache::get_or_build(const Toolchain& toolchain, const BuildRequest& request,
                                                bool* was_hit) const {
  const std::string key = detail::cache_key(toolchain, request), name = wide_hash(key), entry = folder_ + "/" + name;
  std::optional<std::string> there = detail::valid_library(entry, key);
  if (was_hit) *was_hit = there.has_value();
  if (there) return *there;

  if (const int error = files::make_folders(folder_, 0700)) detail::cache_unwritable(folder_, error);
  remove_leftovers(24 * 3600);
  detail::Aside aside(folder_, name);
  // A name of its own for each build: the dynamic linker takes a library of a name it knows for the one it has loaded.
  const std::string library = "module-" + aside.suffix() + ".so";
  try {
    toolchain.build(request, aside.path(), library);
  } catch (const BuildError& error) {
    // The last failure of each request is kept, for its source and log.
    const std::string failed = folder_ + "/failed-" + name, built_in = aside.path();
    aside.keep();
    files::remove_tree(failed);
    if (::rename(built_in.c_str(), failed.c_str()) != 0) throw;  // another thread was faster
    throw BuildError(error.argv(), error.result(), failed);
  }
  int error = files::sync_file(aside.path() + "/" + library);
  if (!error) error = files::write_file(aside.path() + "/key", key);
  if (!error) error = files::write_file(aside.path() + "/manifest", detail::manifest_of(aside.path(), library));
  if (error) detail::cache_unwritable(folder_, error);
  return detail::publish(aside, folder_, entry, key, library);
}

FXX_INLINE void BuildCache::discard(const std::string& library) const {
  const std::string entry = library.substr(0, library.rfind('/'));
  if (entry.substr(0, entry.rfind('/')) != folder_) return;
  const files::Descriptor lock = files::lock_folder(folder_);
  // Each build gives its library a name of its own.
  if (!lock || ::access(library.c_str(), F_OK) != 0) return;
  const std::string old =
      folder_ + "/aside-" + entry.substr(folder_.size() + 1, 8) + "-" + library.substr(entry.size() + 1) + "-old";
  if (::rename(entry.c_str(), old.c_str()) == 0) files::remove_tree(old);
}

FXX_INLINE void BuildCache::remove_leftovers(double seconds) const {
  DIR* entries = ::opendir(folder_.c_str());
  if (!entries) return;
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::vector<std::string> old;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with("aside-") && !name.starts_with("failed-")) continue;
    std::string path = folder_ + "/" + std::string(name);
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && static_cast<double>(now.tv_sec - status.st_mtim.tv_sec) > seconds)
      old.push_back(std::move(path));
  }
  ::closedir(entries);
  for (const std::string& path : old) files::remove_tree(path);
}

}  // namespace fxx::inline FXX_ABI
