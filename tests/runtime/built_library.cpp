// runtime/built_library.hpp: libraries that cannot be loaded, or are refused, are built again when they came out of the
// cache.
#include "fxx/runtime/built_library.hpp"

#include <doctest/doctest.h>

#include "support.hpp"

namespace {

using fxx::BuildCache;
using fxx::BuildRequest;
using fxx::ErrorId;
using fxx::Library;
using fxx::LoadError;
using support::contains;
using support::count_entries;
using support::fault_of;
using support::TemporaryFolder;
using support::Variable;

BuildRequest request_of(int value) {
  return {.source = "extern \"C\" int value() { return " + std::to_string(value) + "; }"};
}
/// One that gives another number is refused.
struct Wants {
  int value;
  void operator()(const Library& library) const {
    if (library.symbol<int()>("value")() != value) throw LoadError(ErrorId::load_failed, "another value");
  }
};

std::string entry_of(const BuildCache& cache, const BuildRequest& request) {
  return cache.folder() + "/" + BuildCache::entry_name(fxx::Toolchain::find(), request);
}

}  // namespace

TEST_CASE("what is built is loaded, then found, and looked at each time") {
  const TemporaryFolder folder;
  const BuildCache cache(folder / "cache");
  bool hit = true;
  const Library first = load_or_build(cache, request_of(1), &hit, Wants{1});
  CHECK(!hit);
  const Library second = load_or_build(cache, request_of(1), &hit, Wants{1});
  CHECK(hit);
  CHECK(second.path() == first.path());
  CHECK(load_or_build(cache, request_of(1), nullptr, Wants{1}).symbol<int()>("value")() == 1);
}

TEST_CASE("a library of another request in the place of an entry is refused, and built") {
  const TemporaryFolder folder;
  const BuildCache cache(folder / "cache");
  load_or_build(cache, request_of(1), nullptr, Wants{1});
  load_or_build(cache, request_of(2), nullptr, Wants{2});
  support::put_in_place_of_entry(entry_of(cache, request_of(1)), entry_of(cache, request_of(2)));
  bool hit = true;
  CHECK(cache.find(fxx::Toolchain::find(), request_of(1)));  // the cache cannot know
  const Library built = load_or_build(cache, request_of(1), &hit, Wants{1});
  CHECK(!hit);
  CHECK(built.symbol<int()>("value")() == 1);
  load_or_build(cache, request_of(1), &hit, Wants{1});
  CHECK(hit);
  CHECK(count_entries(cache.folder()) == 3);  // two entries and the lock
}

TEST_CASE("what is refused when it was built just now is an error, each time, and does not stay") {
  const TemporaryFolder folder;
  const BuildCache cache(folder / "cache");
  for (int i = 0; i < 2; ++i) {
    CHECK(contains(fault_of<LoadError>([&] { load_or_build(cache, request_of(1), nullptr, Wants{2}); }).what(),
                   "another value"));
    CHECK(count_entries(cache.folder()) == 1);
  }
  const Variable compiler("FXX_CXX", support::compiler_of_rubbish(folder));
  for (int i = 0; i < 2; ++i) {
    CHECK(fault_of<LoadError>([&] { load_or_build(cache, request_of(1), nullptr, Wants{1}); }).id() ==
          ErrorId::load_failed);
    CHECK(count_entries(cache.folder()) == 1);
  }
}

TEST_CASE("a library without what is asked of it is refused") {
  const TemporaryFolder folder;
  const BuildCache cache(folder / "cache");
  const BuildRequest other{.source = "extern \"C\" int nothing() { return 1; }"};
  CHECK(contains(fault_of<LoadError>([&] { load_or_build(cache, other, nullptr, Wants{1}); }).what(), "no 'value'"));
}
