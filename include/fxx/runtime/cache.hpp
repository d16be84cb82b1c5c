// Built libraries kept on disk, found again by all that decides what the compiler makes.
//
// An entry is a folder named by a hash of its key: the source, the flags, the compiler, the version of this library,
// the variables that compilers read, the processor when the flags ask for the native one, and the caller's extra texts.
// The whole key is stored and compared, and so are hashes of the library and of the headers that the source included, so
// no entry is taken for another one, nor one that is damaged for a good one. Entries are built aside and renamed into
// place: any number of threads and processes may ask for the same one at once, and one that is killed leaves nothing that
// would be taken for an entry. Beside the library lie source.cpp and log. When entries take more room than
// FXX_CACHE_MEGABYTES says (2048 without it, 0: no limit), those that were used least lately are removed.
//
// What is loaded from a cache runs as this user. A cache that others may write to, or to a folder above it, is refused
// unless the variable FXX_CACHE_SHARED is set; entries that others made are built again. Programs with more rights than
// their user (setuid) look at none of these variables.
// Main names: BuildCache. Invariant: a folder with an entry's name was complete when it got that name. Cost: light.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fxx/runtime/toolchain.hpp"

namespace fxx::inline FXX_ABI {

class BuildCache {
 public:
  /// The folder of default_folder().
  BuildCache() : BuildCache(default_folder()) {}
  /// Nothing is created before something is built.
  explicit BuildCache(std::string folder);

  /// The variable FXX_CACHE_DIR; else fxx in XDG_CACHE_HOME; else .cache/fxx in HOME; else a folder in /tmp that
  /// belongs to this user alone.
  /// Errors: cache_unwritable (E604) when that last one belongs to somebody else.
  static std::string default_folder();

  const std::string& folder() const { return folder_; }

  /// Path of the built library, built now unless an entry is there; `was_hit` tells which. The compiler is not started
  /// for an entry that is there, nor is anything written but the time of its use.
  /// Errors: BuildError (E602, E603), whose folder keeps source and log; cache_unwritable (E604), also for a folder that
  /// others may write to; as Toolchain::find.
  /// Cost of a hit: library and headers are read, 1.4 ms a megabyte: 0.8 ms for a small module of kernels.
  std::string get_or_build(const BuildRequest& request, bool* was_hit = nullptr) const {
    return get_or_build(Toolchain::find(), request, was_hit);
  }
  std::string get_or_build(const Toolchain& toolchain, const BuildRequest& request, bool* was_hit = nullptr) const;
  /// Removes the entry of a library that get_or_build gave and that turned out to be of no use, so that the next call
  /// builds it again. Where somebody else has built it again since then, or the folder cannot be written, nothing happens.
  void discard(const std::string& library) const;
  /// Path of the built library, or nothing when it would have to be built. Errors: cache_unwritable (E604) for a folder
  /// that others may write to.
  std::optional<std::string> find(const Toolchain& toolchain, const BuildRequest& request) const;

  /// The folder, in folder(), of the entry for a request, whether it is there or not.
  static std::string entry_name(const Toolchain& toolchain, const BuildRequest& request);

  /// Removes what builds that were killed or failed left behind, when it is older than `seconds`. get_or_build does so
  /// for what is older than a day.
  void remove_leftovers(double seconds) const;
  /// Removes entries, those first that were used least lately, until the others take no more than `bytes` of the disk;
  /// not the one called `kept`. get_or_build does so after each build. Cost: 10 us a file.
  void shrink(std::uint64_t bytes, std::string_view kept = {}) const;

 private:
  std::string folder_;  // absolute
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/cache.ipp"
#endif
