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
#include <charconv>
#include <cstdint>

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
    if (const char* value = files::variable(name)) add(name, value);
  const auto native = [](const std::string& flag) { return flag.find("=native") != flag.npos; };
  if (std::any_of(request.flags.begin(), request.flags.end(), native) ||
      std::any_of(toolchain.command().begin(), toolchain.command().end(), native))
    add("processor", processor_identity());
  add("source", request.source);
  return key;
}

// --- an entry --------------------------------------------------------------------------------------------------------

/// The headers in a rule for make, `library: source.cpp /a/b.hpp \`, with blanks and others escaped by backslashes. The
/// compiler leaves ends of lines in names as they are; the rule itself ends none of its lines without a backslash.
FXX_INLINE std::vector<std::string> headers_of_rule(std::string_view rule) {
  std::vector<std::string> out;
  std::string word;
  const auto finish = [&] {
    if (word.starts_with('/')) out.push_back(word);  // the source itself has no folder
    word.clear();
  };
  for (std::size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i], next = i + 1 < rule.size() ? rule[i + 1] : '\0';
    if (c == '\\' && (next == ' ' || next == '\t' || next == '#' || next == '\\' || next == ':')) word += rule[++i];
    else if (c == '$' && next == '$') word += rule[++i];
    else if (c == '\\' && next == '\n') finish();
    else if (c == '\n' && next != '\0') word += c;
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') finish();
    else word += c;
  }
  finish();
  return out;
}

/// A path as one word of one line, and back again.
FXX_INLINE std::string in_one_line(std::string_view path) {
  std::string out;
  for (const char c : path) c == '\n' ? out += "\\n" : c == '\\' ? out += "\\\\" : out += c;
  return out;
}
FXX_INLINE std::string from_one_line(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\\' && i + 1 < text.size()) out += text[++i] == 'n' ? '\n' : text[i];
    else out += text[i];
  return out;
}

inline constexpr std::string_view manifest_begin = "fxx entry 3\n";

/// The last file written into an entry: what a look-up checks.
///   fxx entry 3
///   library 0123456789abcdef0123456789abcdef module-a1b2.so
///   header 0123456789abcdef0123456789abcdef /path/of/header.hpp
///   end
FXX_INLINE std::string manifest_of(const std::string& folder, const std::string& library) {
  struct stat source {};
  ::stat((folder + "/source.cpp").c_str(), &source);
  std::string out(manifest_begin);
  out += "library " + hash_of_file(folder + "/" + library) + " " + library + "\n";
  for (const std::string& header : headers_of_rule(files::read_file(folder + "/headers.d").value_or(""))) {
    struct stat status {};
    const bool there = ::stat(header.c_str(), &status) == 0;
    // One that changed while the compiler ran may have been read before that, so it counts as changed ever after.
    const bool changed =
        !there || status.st_mtim.tv_sec > source.st_mtim.tv_sec ||
        (status.st_mtim.tv_sec == source.st_mtim.tv_sec && status.st_mtim.tv_nsec > source.st_mtim.tv_nsec);
    out += "header " + (changed ? "changed" : hash_of_file(header)) + " " + in_one_line(header) + "\n";
  }
  return out + "end\n";
}

/// The library of an entry; nothing when the entry is missing, damaged, of another key, or its headers have changed.
FXX_INLINE std::optional<std::string> valid_library(const std::string& entry, const std::string& key) {
  const std::optional<std::string> manifest = files::read_file(entry + "/manifest");
  if (!manifest || !manifest->starts_with(manifest_begin) || !manifest->ends_with("\nend\n"))
    return std::nullopt;
  std::string library;
  std::string_view lines = *manifest;
  for (lines.remove_prefix(lines.find('\n') + 1); !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    if (line == "end") break;
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == line.npos) return std::nullopt;
    const std::string_view value = line.substr(first + 1, second - first - 1);
    std::string name = from_one_line(line.substr(second + 1));
    if (line.starts_with("library ")) name = library = entry + "/" + name;
    if (hash_of_file(name) != value) return std::nullopt;
  }
  if (library.empty() || files::read_file(entry + "/key") != key) return std::nullopt;
  return library;
}

/// Whether the variable is set by which the user says that others may write to the cache, and are trusted.
FXX_INLINE bool is_shared() {
  const char* value = files::variable("FXX_CACHE_SHARED");
  return value && *value && std::string_view(value) != "0";
}

/// Why somebody else than this user and the system's administrator may change a file, or put files into a folder; empty
/// when nobody may. `above`: it is a folder above the one that is asked about, in which others may be allowed to make
/// files of their own.
FXX_INLINE std::string who_else_writes(const std::string& path, const struct stat& status, bool above) {
  const std::string whose = "'" + path + "' ";
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return whose + "belongs to user " + std::to_string(status.st_uid);
  if (S_ISLNK(status.st_mode)) return "";  // a link cannot be written to, only replaced where it lies
  if (above && (status.st_mode & S_ISVTX) != 0) return "";  // only their own files may others remove
  if ((status.st_mode & S_IWOTH) != 0) return whose + "may be written to by all users";
  // Many systems give each user a group of his own, of the same number, which may write to his folders.
  if ((status.st_mode & S_IWGRP) != 0 && !(above && status.st_gid == status.st_uid))
    return whose + "may be written to by group " + std::to_string(status.st_gid);
  return "";
}

/// The same of a folder that may not be there yet, of the folders above it, and of every link on the way: who may write
/// where a link lies may let it lead elsewhere.
FXX_INLINE std::string who_else_reaches(const std::string& folder) {
  constexpr int most_links = 40;  // as the system
  std::string here, left = folder;
  for (int links = 0;;) {
    const std::size_t start = left.find_first_not_of('/');
    struct stat status {};
    const std::string path = here.empty() ? "/" : here;
    if (::lstat(path.c_str(), &status) != 0) return "";
    if (S_ISLNK(status.st_mode)) {
      if (std::string why = who_else_writes(path, status, true); !why.empty()) return why;
      std::string to(4096, '\0');
      const ssize_t length = ::readlink(path.c_str(), to.data(), to.size());
      if (length <= 0 || ++links > most_links) return "";  // nothing can be opened there
      to.resize(static_cast<std::size_t>(length));
      here = to.starts_with('/') ? "" : here.substr(0, here.rfind('/'));
      left = to + "/" + left;
      continue;
    }
    const bool last = start == left.npos;
    if (std::string why = who_else_writes(path, status, !last); last || !why.empty()) return why;
    left.erase(0, start);
    const std::string name = left.substr(0, left.find('/'));
    left.erase(0, name.size());
    if (name == "..") here = here.substr(0, std::min(here.rfind('/'), here.size()));
    else if (name != ".") here += "/" + name;
  }
}

/// What is loaded from a cache runs as this user. Throws E604 where others may write to it, or to a folder above it,
/// unless the user has said that he knows.
FXX_INLINE void require_trusted(const std::string& cache) {
  if (is_shared()) return;
  const std::string why = who_else_reaches(cache);
  if (why.empty()) return;
  throw CompileError(ErrorId::cache_unwritable,
                     "BuildCache: the folder " + cache + " is not used, because " + why +
                         ", who could put code there that runs as this user. Take that right away (chmod go-w), name "
                         "another folder in FXX_CACHE_DIR, or set FXX_CACHE_SHARED=1 to trust all who may write there");
}
/// Whether nobody else may change it. The folder of an entry has the rights that the cache had when it was made.
FXX_INLINE bool is_of_this_user(const std::string& path, mode_t kind) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind &&
         who_else_writes(path, status, false).empty();
}
/// The library of an entry that was made by this user or the administrator, or by anybody where others are trusted.
FXX_INLINE std::optional<std::string> trusted_library(const std::string& entry, const std::string& key) {
  if (is_shared()) return valid_library(entry, key);
  if (!is_of_this_user(entry, S_IFDIR) || !is_of_this_user(entry + "/manifest", S_IFREG)) return std::nullopt;
  std::optional<std::string> library = valid_library(entry, key);
  return library && is_of_this_user(*library, S_IFREG) ? library : std::nullopt;
}
/// Takes from others what the mask of the user may have left them: to write to files of an entry.
FXX_INLINE void keep_for_this_user(const std::string& path) {
  struct stat status {};
  if (!is_shared() && ::stat(path.c_str(), &status) == 0 && (status.st_mode & 022) != 0)
    ::chmod(path.c_str(), status.st_mode & 0755);
}

/// The names in a folder; none when it cannot be read.
FXX_INLINE std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const entries = ::opendir(folder.c_str());
  if (!entries) return names;
  while (const dirent* entry = ::readdir(entries))
    if (const std::string_view name(entry->d_name); name != "." && name != "..") names.emplace_back(name);
  ::closedir(entries);
  return names;
}

/// What the entries of a cache may take on the disk, in bytes: the variable FXX_CACHE_MEGABYTES, else 2 GB.
FXX_INLINE std::uint64_t limit_of_cache() {
  constexpr std::uint64_t usual = 2048, none = 0;
  const char* text = files::variable("FXX_CACHE_MEGABYTES");
  std::uint64_t megabytes = usual;
  if (text && *text) {
    const char* const end = text + std::char_traits<char>::length(text);
    const auto [last, error] = std::from_chars(text, end, megabytes);
    if (error != std::errc() || last != end) megabytes = usual;
  }
  return megabytes == none || megabytes > (UINT64_MAX >> 20) ? UINT64_MAX : megabytes << 20;
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
  // One at a time, so that a broken entry, once seen, is still the one that is moved away. Where there are no locks, or
  // somebody does not give his back, the worst is that a good entry is replaced by an equal one.
  const files::Descriptor lock = files::lock_folder(cache);
  if (!lock && errno != EWOULDBLOCK) cache_unwritable(cache, errno);
  if (std::optional<std::string> earlier = trusted_library(entry, key)) return *earlier;

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
    const char* value = files::variable(name);
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
  detail::require_trusted(folder_);
  const std::string key = detail::cache_key(toolchain, request), entry = folder_ + "/" + wide_hash(key);
  return detail::trusted_library(entry, key);
}

FXX_INLINE std::string BuildCache::get_or_build(const Toolchain& toolchain, const BuildRequest& request,
                                                bool* was_hit) const {
  const std::string key = detail::cache_key(toolchain, request), name = wide_hash(key), entry = folder_ + "/" + name;
  detail::require_trusted(folder_);
  std::optional<std::string> there = detail::trusted_library(entry, key);
  if (was_hit) *was_hit = there.has_value();
  if (there) {
    // What was used last goes last when the cache is full. A cache that cannot be written does not become full.
    ::utimensat(AT_FDCWD, (entry + "/manifest").c_str(), nullptr, 0);
    return *there;
  }

  if (const int error = files::make_folders(folder_, 0700)) detail::cache_unwritable(folder_, error);
  detail::require_trusted(folder_);  // somebody may have been faster
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
  for (const std::string& file : {library, std::string("key"), std::string("manifest")})
    detail::keep_for_this_user(aside.path() + "/" + file);
  std::string published = detail::publish(aside, folder_, entry, key, library);
  shrink(detail::limit_of_cache(), name);
  return published;
}

FXX_INLINE void BuildCache::shrink(std::uint64_t bytes, std::string_view kept) const {
  struct Entry {
    std::string name;
    std::uint64_t bytes;
    struct timespec used;
  };
  std::vector<Entry> entries;
  std::uint64_t all = 0;
  for (const std::string& name : detail::names_in(folder_)) {
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (name.size() != 32 || !std::all_of(name.begin(), name.end(), is_hex)) continue;
    Entry entry{name, 0, {}};
    const std::string path = folder_ + "/" + name;
    for (const std::string& file : detail::names_in(path)) {
      struct stat status {};
      if (::lstat((path + "/" + file).c_str(), &status) != 0) continue;
      entry.bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
      if (file == "manifest") entry.used = status.st_mtim;
    }
    all += entry.bytes;
    entries.push_back(std::move(entry));
  }
  if (all <= bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
  });
  const files::Descriptor lock = files::lock_folder(folder_);
  if (!lock) return;
  for (const Entry& entry : entries) {
    if (all <= bytes) break;
    if (entry.name == kept) continue;
    // Who has its library loaded keeps that; who has just found it builds it again.
    const std::string path = folder_ + "/" + entry.name,
                      old = folder_ + "/aside-" + entry.name.substr(0, 8) + "-" + std::to_string(::getpid()) + "-full";
    if (::rename(path.c_str(), old.c_str()) != 0) continue;
    files::remove_tree(old);
    all -= entry.bytes;
  }
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
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  for (const std::string& name : detail::names_in(folder_)) {
    if (!name.starts_with("aside-") && !name.starts_with("failed-")) continue;
    const std::string path = folder_ + "/" + name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && static_cast<double>(now.tv_sec - status.st_mtim.tv_sec) > seconds)
      files::remove_tree(path);
  }
}

}  // namespace fxx::inline FXX_ABI
