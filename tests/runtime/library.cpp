// runtime/library.hpp: loading, names, unloading, faults.
#include "fxx/runtime/library.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "fxx/runtime/toolchain.hpp"
#include "support.hpp"

using fxx::ErrorId;
using fxx::Library;
using fxx::LoadError;
using support::contains;
using support::fault_of;

namespace {

/// A small library, built once.
const std::string& built() {
  static const support::TemporaryFolder folder;
  static const std::string path = [] {
    fxx::Toolchain::find().build({.source = R"(
      extern "C" {
      int add(int a, int b) { return a + b; }
      extern const int answer = 42;
      int* on_unload = nullptr;
      }
      int hidden_by_mangling(int x) { return x; }
      struct Last { ~Last() { if (on_unload) ++*on_unload; } } last;
    )"},
                                 folder.path());
    return folder / "module.so";
  }();
  return path;
}

}  // namespace

TEST_CASE("functions and objects are found by name, with their types") {
  const Library library(built());
  CHECK(library);
  CHECK(library.path() == built());
  CHECK(library.symbol<int(int, int)>("add")(2, 3) == 5);
  CHECK(*library.symbol<const int>("answer") == 42);
  CHECK(bool(library.find_symbol<int(int, int)>("add") == library.symbol<int(int, int)>("add")));
}

TEST_CASE("a missing name is a fault, or null when that is asked for") {
  const Library library(built());
  const LoadError error = fault_of<LoadError>([&] { (void)library.symbol<int()>("hidden_by_mangling"); });
  CHECK(error.id() == ErrorId::load_failed);
  CHECK(contains(error.what(), built() + "' has no 'hidden_by_mangling'"));
  CHECK(contains(error.what(), "undefined symbol"));
  CHECK(!library.find_symbol<int()>("hidden_by_mangling"));
}

TEST_CASE("a library that cannot be loaded is a fault with the linker's reason") {
  const support::TemporaryFolder folder;
  const auto reason = [](const std::string& path) {
    const LoadError error = fault_of<LoadError>([&] { (void)Library(path); });
    CHECK(error.id() == ErrorId::load_failed);
    CHECK(contains(error.what(), "'" + path + "' cannot be loaded"));
    return std::string(error.what());
  };
  CHECK(contains(reason(folder / "missing.so"), "No such file"));
  CHECK(contains(reason(folder.file("text.so", "this is no library, but long enough for a header of one ............")),
                 "ELF header"));
  CHECK(contains(reason(folder.file("empty.so", "")), "file too short"));
  CHECK(contains(reason(""), "the path is empty"));
  // Half of a library, as a full disk leaves it.
  const std::string whole = support::content_of(built());
  CHECK(contains(reason(folder.file("half.so", std::string_view(whole).substr(0, 100))), "half.so"));
}

TEST_CASE("what is undefined is found when loading, not when calling") {
  const support::TemporaryFolder folder;
  fxx::Toolchain::find().build({.source = "void nobody_has_this(); extern \"C\" void f() { nobody_has_this(); }"},
                               folder.path());
  const LoadError error = fault_of<LoadError>([&] { (void)Library(folder / "module.so"); });
  CHECK(contains(error.what(), "nobody_has_this"));
}

TEST_CASE("a library stays loaded as long as its object, wherever that moves") {
  int unloaded = 0;
  const auto is_loaded = [] {
    void* handle = ::dlopen(built().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle) ::dlclose(handle);
    return handle != nullptr;
  };
  REQUIRE(!is_loaded());
  {
    Library outer;
    CHECK(!outer);
    {
      Library inner(built());
      *inner.symbol<int*>("on_unload") = &unloaded;
      Library moved(std::move(inner));
      CHECK(!inner);
      outer = std::move(moved);
      CHECK(!moved);
    }
    CHECK(outer);
    CHECK(outer.path() == built());
    CHECK(is_loaded());
    CHECK(unloaded == 0);
  }
  CHECK(!is_loaded());
  CHECK(unloaded == 1);
}

TEST_CASE("names of one library are not seen by others") {
  const Library library(built());
  CHECK(::dlsym(RTLD_DEFAULT, "add") == nullptr);
}

TEST_CASE("an empty object has no names") {
  const Library library;
  CHECK(!library.find_symbol<int()>("add"));
  CHECK(contains(fault_of<LoadError>([&] { (void)library.symbol<int()>("add"); }).what(), "no library is loaded"));
}
