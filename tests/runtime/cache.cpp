// runtime/cache.hpp: hits and misses, damaged entries, builders at the same time, folders that cannot be written.
#include "fxx/runtime/cache.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <set>
#include <thread>

#include "fxx/runtime/files.hpp"
#include "fxx/runtime/library.hpp"
#include "not_checked.hpp"
#include "support.hpp"

namespace {

using fxx::BuildCache;
using fxx::BuildError;
using fxx::BuildRequest;
using fxx::CompileError;
using fxx::ErrorId;
using fxx::Toolchain;
using support::contains;
using support::count_entries;
using support::fault_of;
using support::TemporaryFolder;
using support::Variable;

/// A folder with a cache and a script in the place of a compiler, which writes down its runs.
struct Workplace {
  /// `body` builds $out; the usual one copies the source.
  explicit Workplace(const std::string& body = "cp source.cpp \"$out\"")
      : compiler(folder.script("compiler", "case \"$*\" in *--version) echo version >> " + (folder / "runs") +
                                               "; echo fake 1.0; exit 0;; esac\necho build >> " + (folder / "runs") +
                                               "\nout=; next=; for word; do [ -n \"$next\" ] && { out=$word; next=; }; "
                                               "[ \"$word\" = -o ] && next=1; done\n" +
                                               body + "\n")),
        toolchain({compiler}),
        cache(folder / "cache") {}

  /// The content of the library and whether it was there already.
  std::pair<std::string, bool> get(const BuildRequest& request) {
    bool hit = false;
    const std::string path = cache.get_or_build(toolchain, request, &hit);
    CHECK(path.starts_with(cache.folder() + "/" + BuildCache::entry_name(toolchain, request) + "/"));
    return {support::content_of(path), hit};
  }
  bool hits(const BuildRequest& request) { return get(request).second; }
  int builds() const {
    int count = 0;
    const std::string runs = support::content_of(folder / "runs");
    for (std::size_t at = 0; (at = runs.find("build\n", at)) != runs.npos; ++at) ++count;
    return count;
  }
  std::string entry(const BuildRequest& request) const {
    return cache.folder() + "/" + BuildCache::entry_name(toolchain, request);
  }
  /// The library in an entry.
  std::string library(const BuildRequest& request) const {
    for (const auto& file : std::filesystem::directory_iterator(entry(request)))
      if (file.path().extension() == ".so") return file.path().string();
    return "";
  }

  TemporaryFolder folder;
  std::string compiler;
  Toolchain toolchain;
  BuildCache cache;
};

/// Runs `work` in so many processes; how many of them ended well.
int run_in_processes(int count, const std::function<void(int)>& work) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        work(i);
        ::_exit(0);
      } catch (...) {
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  int good = 0;
  for (const pid_t child : children) {
    int status = 0;
    good += ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

/// A body of a compiler that waits until `count` of them run, so that they overlap for certain.
std::string all_at_once(const TemporaryFolder& folder, int count) {
  return "mkdir -p " + (folder / "started") + "; : > " + (folder / "started") +
         "/$$; "
         "while [ $(ls " +
         (folder / "started") + " | wc -l) -lt " + std::to_string(count) +
         " ]; do sleep 0.01; done; "
         "cp source.cpp \"$out\"";
}

void make_older(const std::string& path, double seconds) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() -
                                             std::chrono::milliseconds(static_cast<long>(1000 * seconds)));
}

}  // namespace

TEST_CASE("what was built once is found again without the compiler") {
  Workplace place;
  const BuildRequest request{.source = "text"};
  CHECK(!place.cache.find(place.toolchain, request));
  CHECK(!std::filesystem::exists(place.cache.folder()));  // looking creates nothing
  CHECK(place.get(request) == std::pair<std::string, bool>("text", false));
  CHECK(place.builds() == 1);
  const std::string runs = support::content_of(place.folder / "runs");
  CHECK(place.get(request) == std::pair<std::string, bool>("text", true));
  CHECK(place.cache.find(place.toolchain, request) == place.library(request));
  // Another object, as another process would have it.
  const BuildCache again(place.folder / "cache/");
  CHECK(again.get_or_build(Toolchain({place.compiler}), request) == place.library(request));
  CHECK(support::content_of(place.folder / "runs") == runs);
  CHECK(again.get_or_build(place.toolchain, request, nullptr) == place.library(request));
}

TEST_CASE("an entry keeps source and log beside the library") {
  Workplace place("echo some warning; cp source.cpp \"$out\"");
  const BuildRequest request{.source = "text"};
  place.get(request);
  CHECK(support::content_of(place.entry(request) + "/source.cpp") == "text");
  CHECK(contains(support::content_of(place.entry(request) + "/log"), "some warning"));
}

TEST_CASE("all that decides the result is part of the key") {
  Workplace place;
  const BuildRequest base{.source = "text", .flags = {"-a", "-b"}, .extra = {"x"}};
  std::set<std::string> names = {BuildCache::entry_name(place.toolchain, base)};
  const auto differs = [&](const BuildRequest& request) {
    CHECK_MESSAGE(names.insert(BuildCache::entry_name(place.toolchain, request)).second, "change number ",
                  names.size());
  };
  const auto changed = [&](auto change) {
    BuildRequest request = base;
    change(request);
    differs(request);
  };
  changed([](BuildRequest& r) { r.source = "text "; });
  changed([](BuildRequest& r) { r.flags = {"-b", "-a"}; });
  changed([](BuildRequest& r) { r.flags = {"-a-b"}; });
  changed([](BuildRequest& r) { r.flags = {"-a", "-b", ""}; });
  changed([](BuildRequest& r) { r.flags = {"-a", "-b", "-march=native"}; });
  changed([](BuildRequest& r) { r.include_folders = {"/x"}; });
  changed([](BuildRequest& r) { r.library_folders = {"/x"}; });
  changed([](BuildRequest& r) { r.libraries = {"x"}; });
  changed([](BuildRequest& r) { r.rpaths = {"/x"}; });
  changed([](BuildRequest& r) { r.extra = {"x", "y"}; });
  changed([](BuildRequest& r) { r.extra = {"xy"}; });
  changed([](BuildRequest& r) { r.extra = {}; });
  // A text that looks like the next field is still part of this one, whether fields tell their length or not.
  changed([](BuildRequest& r) { r.extra = {"x\nextra 1\ny"}; });
  changed([](BuildRequest& r) { r.extra = {"x\nextra \ny"}; });
  for (const char* name : {"CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"}) {
    const Variable variable(name, "/fxx/test");
    differs(base);
  }
  const std::string other = place.folder.script("other", "echo fake 1.0");
  CHECK(names.insert(BuildCache::entry_name(Toolchain({other}), base)).second);
  CHECK(names.insert(BuildCache::entry_name(Toolchain({place.compiler, "-x"}), base)).second);

  place.folder.script("other", "echo fake 1.0  # a newer one");
  CHECK(names.insert(BuildCache::entry_name(Toolchain({other}), base)).second);

  BuildRequest patient = base;
  patient.timeout_seconds = 1;
  CHECK(names.count(BuildCache::entry_name(place.toolchain, patient)) == 1);
  // In how many parts it is built makes no other library.
  BuildRequest divided = base;
  divided.parts = 4;
  CHECK(names.count(BuildCache::entry_name(place.toolchain, divided)) == 1);
  CHECK(BuildCache::entry_name(place.toolchain, base).size() == 32);
}

TEST_CASE("a module for the processor it is built on is found on such processors only") {
  Workplace place;
  const BuildRequest general{.source = "text", .flags = {"-O3"}},
      native{.source = "text", .flags = {"-O3", "-march=native"}};
  place.get(general);
  place.get(native);
  CHECK(!contains(support::content_of(place.entry(general) + "/key"), "\nprocessor "));
  CHECK(contains(support::content_of(place.entry(native) + "/key"), "\nprocessor "));
}

TEST_CASE("different requests give different libraries") {
  Workplace place;
  CHECK(place.get({.source = "one"}).first == "one");
  CHECK(place.get({.source = "two"}).first == "two");
  CHECK(place.get({.source = "one"}) == std::pair<std::string, bool>("one", true));
  CHECK(place.builds() == 2);
}

TEST_CASE("a damaged entry is built again") {
  Workplace place;
  const BuildRequest request{.source = "text"};
  const auto rebuilt_after = [&](const char* what, const std::function<void()>& damage) {
    CAPTURE(what);
    place.get(request);
    REQUIRE(place.hits(request));
    damage();
    CHECK(!place.cache.find(place.toolchain, request));
    CHECK(place.get(request) == std::pair<std::string, bool>("text", false));
    CHECK(place.hits(request));
    CHECK(count_entries(place.cache.folder(), "aside-") == 0);
  };
  const std::string entry = place.entry(request);
  rebuilt_after("no library", [&] { std::filesystem::remove(place.library(request)); });
  rebuilt_after("empty library", [&] { std::filesystem::resize_file(place.library(request), 0); });
  rebuilt_after("truncated library", [&] { std::filesystem::resize_file(place.library(request), 3); });
  rebuilt_after("longer library", [&] { std::filesystem::resize_file(place.library(request), 5); });
  rebuilt_after("other content of the same length", [&] { std::ofstream(place.library(request)) << "next"; });
  rebuilt_after("another key", [&] {
    place.folder.file("cache/" + BuildCache::entry_name(place.toolchain, request) + "/key", "other");
  });
  rebuilt_after("no key", [&] { std::filesystem::remove(entry + "/key"); });
  rebuilt_after("no manifest", [&] { std::filesystem::remove(entry + "/manifest"); });
  const auto manifest = [&](const std::string& text) {
    place.folder.file("cache/" + BuildCache::entry_name(place.toolchain, request) + "/manifest", text);
  };
  const std::string name = std::filesystem::path(place.library(request)).filename().string();
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("rubbish\n"), std::string("fxx entry 3\nlibrary "),
        std::string("fxx entry 3\nlibrary \nend\n"), std::string("fxx entry 3\nlibrary 4\nend\n"),
        std::string("fxx entry 2\nlibrary 4 x.so\nend\n"), "fxx entry 3\nlibrary 4 " + name + "\n",
        "fxx entry 3\nlibrary 4 " + name + "\nheader 00 \nend\n"})
    rebuilt_after(text.c_str(), [&] { manifest(text); });
  rebuilt_after("a file in the place of the entry", [&] {
    std::filesystem::remove_all(entry);
    place.folder.file("cache/" + BuildCache::entry_name(place.toolchain, request), "file");
  });
  rebuilt_after("an empty folder", [&] {
    std::filesystem::remove_all(entry);
    std::filesystem::create_directory(entry);
  });
  rebuilt_after("no entry", [&] { std::filesystem::remove_all(entry); });
}

TEST_CASE("an entry that turned out to be of no use is removed, unless somebody has built it again") {
  Workplace place;
  const BuildRequest request{.source = "text"}, other{.source = "other"};
  place.get(request);
  place.get(other);
  const std::string library = place.library(request);
  place.cache.discard(library);
  CHECK(!place.cache.find(place.toolchain, request));
  CHECK(place.hits(other));
  CHECK(count_entries(place.cache.folder()) == 2);  // the other entry and the lock
  CHECK(!place.hits(request));
  CHECK(place.library(request) != library);
  place.cache.discard(library);  // is not there any more
  place.cache.discard("/usr/lib/of/somebody/else.so");
  place.cache.discard("");
  CHECK(place.hits(request));
  std::filesystem::remove_all(place.cache.folder());
  place.cache.discard(library);
  CHECK(!std::filesystem::exists(place.cache.folder()));
}

TEST_CASE("an entry is stale when a header that it included has changed") {
  // The compiler says which headers it read, as make wants to know it.
  Workplace place(
      "cp \"$FXX_TEST_HEADER\" \"$out\"\n"
      "printf '%s: source.cpp \\\\\\n %s\\n' \"$out\" \"$FXX_TEST_ESCAPED\" > headers.d");
  const std::string header = place.folder.file("a folder/of#$many.hpp", "first");
  std::string escaped = place.folder / "a\\ folder/of\\#$$many.hpp";
  const Variable path("FXX_TEST_HEADER", header), words("FXX_TEST_ESCAPED", escaped);
  const BuildRequest request{.source = "text"};
  CHECK(place.get(request) == std::pair<std::string, bool>("first", false));
  CHECK(place.get(request) == std::pair<std::string, bool>("first", true));
  const std::string before = place.library(request);
  place.folder.file("a folder/of#$many.hpp", "other");
  CHECK(place.get(request) == std::pair<std::string, bool>("other", false));
  CHECK(place.hits(request));
  // A loader that knows the old library by its path must not take the new one for it.
  CHECK(place.library(request) != before);
  // The same text at another time is the same header.
  make_older(header, 1000);
  CHECK(place.hits(request));
  std::filesystem::remove(header);
  CHECK(!place.cache.find(place.toolchain, request));
}

TEST_CASE("a header that changes while the compiler runs makes the entry stale") {
  Workplace place(
      "cp \"$FXX_TEST_HEADER\" \"$out\"; sleep 0.05; printf later > \"$FXX_TEST_HEADER\"\n"
      "printf '%s: source.cpp %s\\n' \"$out\" \"$FXX_TEST_HEADER\" > headers.d");
  const std::string header = place.folder.file("header.hpp", "first");
  const Variable path("FXX_TEST_HEADER", header);
  CHECK(place.get({.source = "text"}).first == "first");
  CHECK(!place.cache.find(place.toolchain, {.source = "text"}));
}

TEST_CASE("a module built anew is loaded anew in the same process") {
  const TemporaryFolder folder;
  folder.file("value.hpp", "#define VALUE 1\n");
  const BuildCache cache(folder / "cache");
  const BuildRequest request{.source = "#include \"value.hpp\"\nextern \"C\" int value() { return VALUE; }",
                             .include_folders = {folder.path()}};
  const fxx::Library first(cache.get_or_build(request));
  folder.file("value.hpp", "#define VALUE 2\n");
  bool hit = true;
  const fxx::Library second(cache.get_or_build(request, &hit));
  CHECK(!hit);
  CHECK(first.symbol<int()>("value")() == 1);
  CHECK(second.symbol<int()>("value")() == 2);
  const fxx::Library third(cache.get_or_build(request, &hit));
  CHECK(hit);
  CHECK(third.symbol<int()>("value")() == 2);
}

TEST_CASE("processes that build the same thing at once all get it") {
  constexpr int count = 6;
  const TemporaryFolder folder;
  Workplace place(all_at_once(folder, count));
  const BuildRequest request{.source = "text"};
  CHECK(run_in_processes(count, [&](int) {
          if (place.get(request).first != "text") throw 0;
        }) == count);
  CHECK(place.builds() == count);  // they did overlap
  CHECK(place.get(request) == std::pair<std::string, bool>("text", true));
  CHECK(count_entries(place.cache.folder(), "aside-") == 0);
  CHECK(count_entries(place.cache.folder()) == 2);  // the entry and the lock
}

TEST_CASE("processes that find the same damaged entry all get it built") {
  constexpr int count = 6;
  const TemporaryFolder folder;
  Workplace place(all_at_once(folder, count));
  const BuildRequest request{.source = "text"};
  std::filesystem::create_directories(place.entry(request));
  place.folder.file("cache/" + BuildCache::entry_name(place.toolchain, request) + "/manifest", "half a manif");
  CHECK(run_in_processes(count, [&](int) {
          if (place.get(request).first != "text") throw 0;
        }) == count);
  CHECK(place.hits(request));
  CHECK(count_entries(place.cache.folder()) == 2);
}

TEST_CASE("threads build the same thing and different things at once") {
  constexpr int count = 6;
  const TemporaryFolder folder;
  Workplace place(all_at_once(folder, count));
  std::vector<std::thread> threads;
  std::vector<std::string> results(count);
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        const std::string path = place.cache.get_or_build(place.toolchain, {.source = i % 2 ? "odd" : "even"});
        results[static_cast<std::size_t>(i)] = support::content_of(path);
      } catch (const std::exception& error) {
        results[static_cast<std::size_t>(i)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) CHECK(results[static_cast<std::size_t>(i)] == (i % 2 ? "odd" : "even"));
  CHECK(count_entries(place.cache.folder()) == 3);
}

TEST_CASE("a builder that is killed leaves nothing that would be taken") {
  const TemporaryFolder folder;
  // The compiler has written half of its result when the process that waits for it dies.
  Workplace place("printf half > \"$out\"; [ -e " + (folder / "go") + " ] || { : > " + (folder / "half") +
                  "; while :; do sleep 0.01; [ -e " + (folder / "half") +
                  " ] || exit 1; done; }; cp source.cpp \"$out\"");
  const BuildRequest request{.source = "text"};
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      place.cache.get_or_build(place.toolchain, request);
    } catch (...) {
    }
    ::_exit(0);
  }
  while (!std::filesystem::exists(folder / "half")) ::usleep(1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(count_entries(place.cache.folder(), "aside-") == 1);
  CHECK(!place.cache.find(place.toolchain, request));
  folder.file("go", "");
  CHECK(place.get(request) == std::pair<std::string, bool>("text", false));
  std::filesystem::remove(folder / "half");  // ends the compiler that was left
}

TEST_CASE("a compile that fails leaves no entry, but its source and log") {
  Workplace place("echo wrong; grep good source.cpp > \"$out\"");
  const BuildRequest bad{.source = "bad"};
  const BuildError error = fault_of<BuildError>([&] { place.cache.get_or_build(place.toolchain, bad); });
  CHECK(error.id() == ErrorId::compile_failed);
  CHECK(error.folder().starts_with(place.cache.folder() + "/failed-"));
  CHECK(support::content_of(error.source_path()) == "bad");
  CHECK(contains(support::content_of(error.folder() + "/log"), "wrong"));
  CHECK(contains(error.what(), error.source_path()));
  CHECK(!place.cache.find(place.toolchain, bad));
  // Failing again does not pile up.
  CHECK(fault_of<BuildError>([&] { place.cache.get_or_build(place.toolchain, bad); }).source_path() ==
        error.source_path());
  CHECK(count_entries(place.cache.folder(), "failed-") == 1);
  CHECK(count_entries(place.cache.folder(), "aside-") == 0);
  CHECK(place.get({.source = "good"}).first == "good\n");
}

TEST_CASE("a compile that takes too long leaves no entry") {
  Workplace place("printf half > \"$out\"; while :; do sleep 1; done");
  const BuildRequest request{.source = "text", .timeout_seconds = 0.2};
  CHECK(fault_of<BuildError>([&] { place.cache.get_or_build(place.toolchain, request); }).id() ==
        ErrorId::compile_timeout);
  CHECK(!place.cache.find(place.toolchain, request));
  CHECK(count_entries(place.cache.folder(), "aside-") == 0);
}

TEST_CASE("a cache that cannot be written is a fault that names the folder and the remedy") {
  Workplace place;
  const std::string file = place.folder.file("file", "");
  const auto fault = [&](const BuildCache& cache) {
    const CompileError error = fault_of<CompileError>([&] { cache.get_or_build(place.toolchain, {.source = "text"}); });
    CHECK(error.id() == ErrorId::cache_unwritable);
    CHECK(contains(error.what(), "FXX_CACHE_DIR"));
    return std::string(error.what());
  };
  CHECK(contains(fault(BuildCache(file + "/x")), file + "/x cannot be written, Not a directory"));
  CHECK(contains(fault(BuildCache(file)), file + " cannot be written"));
  const Variable variable("FXX_CACHE_DIR", file + "/y");
  CHECK(contains(fault(BuildCache()), file + "/y cannot be written"));
  CHECK(place.builds() == 0);
}

TEST_CASE("without a compiler the fault is that of the tool chain") {
  const TemporaryFolder folder;
  const Variable compiler("FXX_CXX", "/fxx/no/such/compiler");
  const CompileError error = fault_of<CompileError>([&] { BuildCache(folder.path()).get_or_build({.source = ""}); });
  CHECK(error.id() == ErrorId::compiler_missing);
}

TEST_CASE("what old builds left behind is removed, entries and what is new stay") {
  Workplace place;
  place.get({.source = "kept"});
  for (const char* name : {"aside-1-old", "aside-2-old-old", "failed-old", "aside-new", "failed-new"})
    place.folder.file(std::string("cache/") + name + "/file", "");
  for (const char* name : {"aside-1-old", "aside-2-old-old", "failed-old"})
    make_older(place.cache.folder() + "/" + name, 25 * 3600);
  make_older(place.cache.folder() + "/aside-new", 23 * 3600);
  make_older(place.entry({.source = "kept"}), 1000 * 3600);
  place.get({.source = "other"});
  CHECK(count_entries(place.cache.folder(), "aside-") == 1);
  CHECK(count_entries(place.cache.folder(), "failed-") == 1);
  CHECK(place.hits({.source = "kept"}));
  place.cache.remove_leftovers(-1);
  CHECK(count_entries(place.cache.folder()) == 3);
  CHECK(place.hits({.source = "kept"}));
  BuildCache(place.folder / "nowhere").remove_leftovers(-1);
}

TEST_CASE("the folder comes from the environment") {
  const Variable cache("FXX_CACHE_DIR", "/one"), xdg("XDG_CACHE_HOME", "/two"), home("HOME", "/three");
  CHECK(BuildCache::default_folder() == "/one");
  CHECK(BuildCache().folder() == "/one");
  const Variable no_cache("FXX_CACHE_DIR", "");
  CHECK(BuildCache::default_folder() == "/two/fxx");
  {
    const Variable relative("XDG_CACHE_HOME", "two");
    CHECK(BuildCache::default_folder() == "/three/.cache/fxx");
  }
  const Variable no_xdg("XDG_CACHE_HOME", std::nullopt);
  CHECK(BuildCache::default_folder() == "/three/.cache/fxx");
}

TEST_CASE("without a home the folder is one in /tmp that nobody else may enter") {
  const Variable cache("FXX_CACHE_DIR", std::nullopt), xdg("XDG_CACHE_HOME", std::nullopt), home("HOME", std::nullopt);
  const std::string expected = "/tmp/fxx-" + std::to_string(::geteuid());
  if (std::filesystem::exists(std::filesystem::symlink_status(expected))) {
    fxx::test::not_checked("how the cache's folder in /tmp is made: it is there already");
    CHECK(BuildCache::default_folder() == expected);
    return;
  }
  struct Remover {
    ~Remover() { std::filesystem::remove(path); }
    std::string path;
  } remover{expected};
  CHECK(BuildCache::default_folder() == expected);
  struct stat status {};
  CHECK(::stat(expected.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK(BuildCache::default_folder() == expected);
  const auto refused = [&] {
    const CompileError error = fault_of<CompileError>([] { (void)BuildCache::default_folder(); });
    CHECK(error.id() == ErrorId::cache_unwritable);
    CHECK(contains(error.what(), expected + " is not a folder that only this user may enter"));
  };
  ::chmod(expected.c_str(), 0750);
  refused();
  std::filesystem::remove(expected);
  const TemporaryFolder elsewhere;  // its own rights are fine
  std::filesystem::create_directory_symlink(elsewhere.path(), expected);
  refused();
  std::filesystem::remove(expected);
}

TEST_CASE("a relative folder stays where it was") {
  const TemporaryFolder folder;
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path(folder.path());
  const BuildCache cache("relative");
  std::filesystem::current_path(here);
  CHECK(cache.folder() == folder / "relative");
}

TEST_CASE("the cache is the user's alone, and entries have its rights") {
  Workplace place;
  const BuildRequest request{.source = "text"};
  place.get(request);
  const auto mode = [](const std::string& path) {
    return static_cast<int>(std::filesystem::status(path).permissions());
  };
  CHECK(mode(place.cache.folder()) == 0700);
  CHECK(mode(place.entry(request)) == 0700);
  std::filesystem::permissions(place.cache.folder(), std::filesystem::perms(0755));
  place.get({.source = "other"});
  CHECK(mode(place.entry({.source = "other"})) == 0755);
}

TEST_CASE("no descriptor is left open") {
  Workplace place;
  place.get({.source = "text"});
  const int before = support::open_descriptors();
  place.get({.source = "text"});
  place.get({.source = "other"});
  CHECK(support::open_descriptors() == before);
}

TEST_CASE("a cache that others may write to is refused, unless the user says that they are trusted") {
  Workplace place;
  const BuildRequest request{.source = "text"};
  place.get(request);
  const std::string cache = place.cache.folder();
  const auto refused = [&](const BuildCache& by, const std::string& folder, const std::string& why) {
    for (const bool builds : {false, true}) {
      const CompileError error = fault_of<CompileError>([&] {
        if (builds) by.get_or_build(place.toolchain, request);
        else (void)by.find(place.toolchain, request);
      });
      CHECK(error.id() == ErrorId::cache_unwritable);
      CHECK(contains(error.what(), "'" + folder + "' " + why));
      CHECK(contains(error.what(), "FXX_CACHE_SHARED=1"));
    }
  };
  for (const mode_t mode : {0777, 01777, 0722, 0770, 0775, 0702, 0720}) {
    CAPTURE(mode);
    ::chmod(cache.c_str(), mode);
    refused(place.cache, cache, "may be written to by");
    {
      const Variable shared("FXX_CACHE_SHARED", "1");
      CHECK(place.hits(request));
    }
    const Variable not_shared("FXX_CACHE_SHARED", "0");
    refused(place.cache, cache, "may be written to by");
  }
  for (const mode_t mode : {0700, 0755, 0750, 0711, 0500}) {
    ::chmod(cache.c_str(), mode);
    CHECK(place.hits(request));
  }
  ::chmod(cache.c_str(), 0700);
  // A folder above it: whoever may write there may put another one in its place.
  const std::string above = place.folder / "above";
  const BuildCache inside(above + "/a/cache");
  inside.get_or_build(place.toolchain, request);
  ::chmod(above.c_str(), 0777);
  refused(inside, above, "may be written to by all users");
  ::chmod(above.c_str(), 01777);  // as /tmp: only their own
  CHECK(inside.find(place.toolchain, request));
  ::chmod(above.c_str(), 0755);
  CHECK(inside.find(place.toolchain, request));
  // Also where a link leads, and where the link itself lies.
  ::chmod(above.c_str(), 0777);
  std::filesystem::create_directory_symlink(above + "/a/cache", place.folder / "to_it");
  refused(BuildCache(place.folder / "to_it"), above, "may be written to by all users");
  std::filesystem::create_directory_symlink(cache, above + "/from_there");
  refused(BuildCache(above + "/from_there"), above, "may be written to by all users");
  // A link that leads to a link there, which leads back to a folder that nobody else may write to.
  std::filesystem::create_directory_symlink(above + "/from_there", place.folder / "through");
  refused(BuildCache(place.folder / "through"), above, "may be written to by all users");
  std::filesystem::create_directory_symlink("above/../above/from_there", place.folder / "relative");
  refused(BuildCache(place.folder / "relative"), above, "may be written to by all users");
  std::filesystem::create_directory_symlink("circle", place.folder / "circle");
  CHECK(fault_of<CompileError>([&] { BuildCache(place.folder / "circle").get_or_build(place.toolchain, request); }).id() ==
        ErrorId::cache_unwritable);
  // Nothing is made in such a place either.
  refused(BuildCache(above + "/new"), above, "may be written to by all users");
  CHECK(!std::filesystem::exists(above + "/new"));
}

TEST_CASE("an entry that others may write to is built again, in a cache that is the user's") {
  Workplace place;
  const BuildRequest request{.source = "text"};
  place.get(request);
  ::chmod(place.cache.folder().c_str(), 0755);
  const auto built_again = [&](const std::string& file, mode_t mode) {
    CAPTURE(file);
    CHECK(place.hits(request));
    REQUIRE(::chmod((file.empty() ? place.entry(request) : file).c_str(), mode) == 0);
    CHECK(!place.cache.find(place.toolchain, request));
    CHECK(!place.hits(request));
    CHECK(place.hits(request));
  };
  built_again("", 0777);
  built_again("", 01777);
  built_again(place.entry(request) + "/manifest", 0666);
  built_again(*place.cache.find(place.toolchain, request), 0722);
  // What a mask leaves to others is taken from them.
  const mode_t before = ::umask(0);
  const BuildRequest other{.source = "other"};
  place.get(other);
  ::umask(before);
  CHECK(place.hits(other));
}

TEST_CASE("what belongs to another user is not trusted") {
  if (::geteuid() != 0) {
    std::puts("note: what belongs to another user is tested by the administrator only");
    return;
  }
  constexpr uid_t other = 12345;
  Workplace place;
  const BuildRequest request{.source = "text"};
  place.get(request);
  // An entry that somebody put there while others could write: built again.
  REQUIRE(::chown(place.entry(request).c_str(), other, other) == 0);
  CHECK(!place.cache.find(place.toolchain, request));
  CHECK(!place.hits(request));
  CHECK(place.hits(request));
  REQUIRE(::chown(place.entry(request).c_str(), other, other) == 0);
  {
    const Variable shared("FXX_CACHE_SHARED", "yes");
    CHECK(place.hits(request));
  }
  CHECK(!place.hits(request));
  // A link of another user's, though it leads to a folder of this one.
  std::filesystem::create_directory_symlink(place.cache.folder(), place.folder / "link");
  CHECK(BuildCache(place.folder / "link").find(place.toolchain, request));
  REQUIRE(::lchown((place.folder / "link").c_str(), other, other) == 0);
  CHECK(contains(fault_of<CompileError>([&] { (void)BuildCache(place.folder / "link").find(place.toolchain, request); }).what(),
                 "link' belongs to user 12345"));
  REQUIRE(::chown(place.cache.folder().c_str(), other, other) == 0);
  const CompileError error = fault_of<CompileError>([&] { place.cache.get_or_build(place.toolchain, request); });
  CHECK(error.id() == ErrorId::cache_unwritable);
  CHECK(contains(error.what(), "belongs to user 12345"));
}

TEST_CASE("a program with more rights than its user looks at no variables of his") {
  if (::geteuid() != 0) {
    std::puts("note: programs with the rights of another user are tested by the administrator only");
    return;
  }
  const TemporaryFolder folder;
  const BuildRequest request{
      .source = "#include <cstdio>\n#include <cstdlib>\n#include \"fxx/runtime/cache.hpp\"\n"
                "int main() {\n"
                "  try { std::printf(\"%s \", fxx::BuildCache::default_folder().c_str()); } catch (...) {}\n"
                "  const auto found = fxx::find_program(\"only_here\");\n"
                "  std::printf(\"%d %d %s\\n\", int(fxx::files::is_privileged()), int(found.has_value()),\n"
                "    fxx::run_process({\"/usr/bin/env\"}).output.c_str());\n}\n"};
  folder.file("program.cpp", request.source);
  const std::string program = folder / "program";
  std::vector<std::string> build = Toolchain::find().command();
  for (const std::string& word : {std::string("-std=c++20"), "-I" + std::string(std::getenv("FXX_SOURCE_DIR")) + "/include",
                                  folder / "program.cpp", std::string("-o"), program})
    build.push_back(word);
  const fxx::ProcessResult built = fxx::run_process(build);
  REQUIRE_MESSAGE(built.ok(), built.output);
  folder.script("only_here", "exit 0\n");
  ::chmod(folder.path().c_str(), 0755);
  const auto output = [&] {
    const Variable cache("FXX_CACHE_DIR", "/of/the/user"), path("PATH", folder.path() + ":/usr/bin:/bin");
    return fxx::run_process({program}).output;
  };
  const std::string plain = output();
  CHECK(plain.starts_with("/of/the/user 0 1 "));
  CHECK(contains(plain, "FXX_CACHE_DIR=/of/the/user"));
  REQUIRE(::chown(program.c_str(), 12345, 12345) == 0);
  REQUIRE(::chmod(program.c_str(), 04755) == 0);
  const std::string privileged = output();
  CHECK(contains(privileged, "1 0 "));
  CHECK(!contains(privileged, "/of/the/user"));
  CHECK(!contains(privileged, folder.path() + ":"));
  std::filesystem::remove_all("/tmp/fxx-12345");
}

TEST_CASE("a full cache gives up what was used least lately, never what was just built") {
  Workplace place;
  const auto request = [](int i) { return BuildRequest{.source = std::string(100000, 'x') + std::to_string(i)}; };
  for (int i = 0; i < 6; ++i) {
    place.get(request(i));
    make_older(place.entry(request(i)) + "/manifest", 1000 - i);
  }
  CHECK(place.hits(request(0)));  // which makes it the newest
  const auto there = [&] {
    std::string all;
    for (int i = 0; i < 8; ++i)
      if (place.cache.find(place.toolchain, request(i))) all += static_cast<char>('0' + i);
    return all;
  };
  CHECK(there() == "012345");
  place.cache.shrink(std::uint64_t{1} << 40);
  CHECK(there() == "012345");
  place.cache.shrink(1 << 20);  // source and library of 100 kB, and the key: 0.3 MB each
  CHECK(there() == "045");
  {
    const Variable limit("FXX_CACHE_MEGABYTES", "1");
    place.get(request(6));
    CHECK(there() == "056");
    const Variable no_limit("FXX_CACHE_MEGABYTES", "0"), usual("FXX_CACHE_MEGABYTES", "many");
    place.get(request(7));
    CHECK(there() == "0567");
  }
  place.cache.shrink(0);
  CHECK(there() == "");
  CHECK(count_entries(place.cache.folder(), "aside-") == 0);
  place.cache.shrink(0);
  BuildCache(place.folder / "nowhere").shrink(0);
  const Variable tiny("FXX_CACHE_MEGABYTES", "1");
  const BuildRequest huge{.source = std::string(2 << 20, 'x')};
  place.get(huge);
  CHECK(place.hits(huge));
}

TEST_CASE("headers may have any name") {
  const TemporaryFolder folder;
  Workplace place;
  int number = 0;
  for (const std::string name : {"plain", "two\nlines", "a blank", "back\\slash", "back\\n", "dollar$", "#hash", "colon:",
                                 "end\\\n", "tab\t"}) {
    CAPTURE(name);
    folder.file(name + "/value.hpp", "#define VALUE 1\n");
    const Toolchain toolchain = Toolchain::find();
    const BuildRequest request{.source = "#include \"value.hpp\"\nint value_" + std::to_string(++number) + " = VALUE;\n",
                               .include_folders = {folder / name}};
    bool hit = true;
    place.cache.get_or_build(toolchain, request, &hit);
    CHECK_FALSE(hit);
    // Compilers cannot write every name in a rule for make so that it can be read. These are built each time.
    place.cache.get_or_build(toolchain, request, &hit);
    CHECK(hit == (name != "end\\\n"));
    folder.file(name + "/value.hpp", "#define VALUE 2\n");
    place.cache.get_or_build(toolchain, request, &hit);
    CHECK_FALSE(hit);
  }
}

TEST_CASE("whoever holds the lock of the cache holds nobody up for ever") {
  // The wait itself is tested with the lock.
  Workplace place;
  place.get({.source = "text"});
  const fxx::files::Descriptor lock = fxx::files::lock_folder(place.cache.folder());
  REQUIRE(lock);
  CHECK(place.hits({.source = "text"}));  // takes none
}
