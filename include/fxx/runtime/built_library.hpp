// A library that is built behind a cache, loaded, and looked at before it is used.
//
// Main names: load_or_build. Cost: light.
#pragma once

#include <string>

#include "fxx/error.hpp"
#include "fxx/runtime/cache.hpp"
#include "fxx/runtime/library.hpp"

namespace fxx::inline FXX_ABI {

/// Loads what the request builds. `check(library)` throws LoadError when the library is not what was asked for. An entry
/// of the cache that cannot be loaded, or is refused, is removed; when it was there already, it is built again, once.
/// `was_hit`: was there no need to build?
/// Errors: LoadError (E605, or what `check` throws), as BuildCache::get_or_build.
template <class Check>
Library load_or_build(const BuildCache& cache, const BuildRequest& request, bool* was_hit, const Check& check) {
  for (bool again = false;; again = true) {
    bool hit = false;
    const std::string path = cache.get_or_build(request, &hit);
    try {
      Library library(path);
      check(static_cast<const Library&>(library));
      if (was_hit) *was_hit = hit;
      return library;
    } catch (const LoadError&) {
      cache.discard(path);
      if (!hit || again) throw;
    }
  }
}

}  // namespace fxx::inline FXX_ABI
