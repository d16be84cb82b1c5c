// The cache of compiled modules: what does not match is refused and built again, builders at the same time all succeed,
// and what was killed leaves nothing that would be taken.
#include <signal.h>
#include <sys/wait.h>

#include "fxx/kernels/features.hpp"
#include "fxx/runtime/cache.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/compile.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

namespace fxx::inline FXX_ABI::detail {
// In torch/compile.ipp, for nobody else.
std::optional<std::filesystem::path> folder_of_headers(std::string_view file, int below);
}  // namespace fxx::inline FXX_ABI::detail

using namespace fxx;
using namespace fxx::test;
using support::contains;
using support::content_of;
using support::count_entries;
using support::TemporaryFolder;
using support::Variable;
using torch::Tensor;

namespace {

struct Small : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  explicit Small(std::int64_t seed) {
    torch::manual_seed(seed);
    first = register_module("first", torch::nn::Linear(7, 33));
    second = register_module("second", torch::nn::Linear(33, 5));
  }
  Tensor forward(Tensor x) { return torch::softmax(second(torch::relu(first(x))), 1); }
};
/// A net, its graph, and compiling it in a folder of its own.
struct Place {
  TemporaryFolder folder;
  Small net;
  Tensor x = torch::randn({3, 7});
  std::shared_ptr<GraphModule> gm;
  explicit Place(std::int64_t seed = 1) : net(seed) { gm = trace(net, {x}); }
  std::string cache() const { return folder / "cache"; }
  std::shared_ptr<CompiledModule> compile() const {
    return fxx::compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
  }
  double error(CompiledModule& compiled) {
    const torch::NoGradGuard no_grad;
    return relative_difference(compiled.forward(x), net.forward(x));
  }
  /// Compiles, and is right: was it in the cache?
  bool is_cached() {
    const auto compiled = compile();
    CHECK(compiled->is_current());
    CHECK(error(*compiled) <= 1e-5);
    return compiled->was_cached();
  }
};
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string replaced(std::string text, const std::string& words, const std::string& by) {
  const std::size_t at = text.find(words);
  REQUIRE(at != text.npos);
  return text.replace(at, words.size(), by);
}
/// A compiler that is the real one, but first does what the lines say; `$out` is what is to be built.
std::string compiler_that(const TemporaryFolder& folder, const std::string& name, const std::string& lines) {
  std::string words;
  const Toolchain real = Toolchain::find();
  for (const std::string& word : real.command()) words += word + " ";
  return folder.script(name, "case \"$*\" in *--version) exec " + words +
                                 "--version;; esac\nout=; next=; for word; do [ -n \"$next\" ] && { out=$word; "
                                 "next=; }; [ \"$word\" = -o ] && next=1; done\n" +
                                 lines + "\nexec " + words + "\"$@\"\n");
}

}  // namespace

TEST_CASE("the same graph with other weights has the same library, and its own results") {
  Place one(1);
  CHECK_FALSE(one.is_cached());
  const auto first = one.compile();
  CHECK(first->was_cached());
  Small other(2);
  const auto gm = trace(other, {one.x});
  const auto second = fxx::compile(*gm, {one.x}, {.threads = 1, .cache_folder = one.cache()});
  CHECK(second->was_cached());
  CHECK(second->library_path() == first->library_path());
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 2; ++i) {
    CHECK(relative_difference(second->forward(one.x), other.forward(one.x)) <= 1e-5);
    CHECK(one.error(*first) <= 1e-5);
    // Weights that change are seen at once, and packed when it is compiled again.
    other.first->weight.mul_(-1);
    CHECK_FALSE(second->is_current());
    CHECK(relative_difference(second->forward(one.x), other.forward(one.x)) <= 1e-5);
  }
  CHECK(count_entries(one.cache()) == 2);  // the entry and the lock
}

TEST_CASE("an entry that is damaged is built again") {
  Place place;
  CHECK_FALSE(place.is_cached());
  const auto rebuilt_after = [&](const char* what, const std::function<std::string(std::string)>& damaged) {
    CAPTURE(what);
    REQUIRE(place.is_cached());
    const std::string path = place.compile()->library_path(), bytes = damaged(content_of(path));
    std::filesystem::remove(path);  // the one that may still be loaded stays as it is
    if (!bytes.empty()) std::ofstream(path, std::ios::binary) << bytes;
    CHECK_FALSE(place.is_cached());
    CHECK(place.is_cached());
    CHECK(count_entries(place.cache()) == 2);
  };
  rebuilt_after("cut off", [](std::string bytes) { return bytes.substr(0, bytes.size() / 2); });
  rebuilt_after("zeros in its place", [](std::string bytes) { return std::string(bytes.size(), '\0'); });
  rebuilt_after("one bit of its code", [](std::string bytes) {
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    return bytes;
  });
  rebuilt_after("gone", [](const std::string&) { return std::string(); });
}

TEST_CASE("kernels that have changed are noticed, also in a folder of the system's, of which compilers say nothing") {
  const TemporaryFolder headers;
  std::filesystem::create_directories(headers / "fxx");
  std::filesystem::copy(kernel_headers_folder() + "/fxx/kernels", headers / "fxx" + "/kernels");
  const Variable include("FXX_INCLUDE", headers.path()), system("CPLUS_INCLUDE_PATH", headers.path());
  Place p;
  CHECK_FALSE(p.is_cached());
  CHECK(p.is_cached());
  for (const char* header : {"vector.hpp", "functions.inc"}) {
    CAPTURE(header);
    std::ofstream(headers / "fxx" + "/kernels/" + header, std::ios::app) << "// another\n";
    CHECK_FALSE(p.is_cached());
    CHECK(p.is_cached());
  }
}

TEST_CASE("a library of which the compiler warned, and was forgiven, is none where warnings are faults") {
  Place p;
  {
    const Variable lenient("FXX_STRICT_BUILD", std::nullopt);
    CHECK_FALSE(p.is_cached());
  }
  const Variable strict("FXX_STRICT_BUILD", "1");
  CHECK_FALSE(p.is_cached());
  CHECK(p.is_cached());
}

TEST_CASE("a library of another graph, version, interface or processor is refused, and built again") {
  Place place;
  const std::string text = place.compile()->source_code();
  const auto rebuilt_with = [&](const char* what, const std::string& source) {
    CAPTURE(what);
    REQUIRE(place.is_cached());
    // Built properly, for something else.
    const TemporaryFolder elsewhere;
    const BuildRequest request{.source = source,
                               .flags = {"-std=c++20", "-O1", "-march=native", "-fvisibility=hidden"},
                               .include_folders = {kernel_headers_folder()}};
    const std::string other = folder_of(BuildCache(elsewhere.path()).get_or_build(request)),
                      entry = folder_of(place.compile()->library_path());
    support::put_in_place_of_entry(entry, other);
    CHECK_FALSE(place.is_cached());
    CHECK(place.is_cached());
    CHECK(count_entries(place.cache()) == 2);
  };
  const std::string info = "fxx_module = {module_abi, lanes, compiled_features, ";
  rebuilt_with("another interface", replaced(text, info, "fxx_module = {module_abi - 1, lanes, compiled_features, "));
  rebuilt_with("another version", replaced(text, info + "\"", info + "\"x"));
  rebuilt_with("another source", replaced(text, "u, arena_bytes", "0u, arena_bytes"));
  rebuilt_with("vectors that no processor has",
               replaced(text, info, "fxx_module = {module_abi, 64, compiled_features, "));
  rebuilt_with("instructions that no processor has",
               replaced(text, info, "fxx_module = {module_abi, lanes, ~std::uint64_t{0}, "));
  rebuilt_with("no module at all", "extern \"C\" __attribute__((visibility(\"default\"))) int fxx_other = 1;");
  rebuilt_with("half a module", replaced(text, "void* fxx_open(", "void* fxx_open_it("));
  {
    Small other(3);
    const auto gm = trace(other, {torch::randn({4, 7})});
    rebuilt_with("another graph",
                 fxx::compile(*gm, {torch::randn({4, 7})}, {.threads = 1, .cache_folder = place.folder / "other"})
                     ->source_code());
  }
}

#if defined(__x86_64__)
TEST_CASE("for a processor with other instructions: refused before any of it runs, each time") {
  Place place;
  // Of different makers and times: no processor has the instructions of both.
  int refused = 0;
  for (const char* march : {"bdver4", "sapphirerapids"}) {
    CAPTURE(march);
    for (int i = 0; i < 2; ++i) {
      const Fault fault = fault_of<LoadError>(
          [&] { fxx::compile(*place.gm, {place.x}, {.threads = 1, .march = march, .cache_folder = place.cache()}); });
      if (fault.id == 0) continue;  // that is the processor here
      ++refused;
      CHECK(fault.id == 605);
      CHECK(fault.says(march));
      CHECK(fault.says("this processor does not"));
    }
  }
  CHECK(refused >= 2);
  CHECK_FALSE(place.is_cached());
}
#endif

TEST_CASE("a built module whose entry holds something else is built again") {
  Place place;
  const torch::NoGradGuard no_grad;
  const auto build = [&] { return fxx::build(*place.gm, {place.x}, {.cache_folder = place.cache()}); };
  CHECK_FALSE(build()->was_cached());
  REQUIRE(build()->was_cached());
  std::string entry;
  for (const auto& file : std::filesystem::directory_iterator(place.cache()))
    if (file.is_directory()) entry = file.path().string();
  const TemporaryFolder elsewhere;
  support::put_in_place_of_entry(
      entry,
      folder_of(BuildCache(elsewhere.path()).get_or_build({.source = "extern \"C\" int other() { return 1; }"})));
  const auto built = build();
  CHECK_FALSE(built->was_cached());
  CHECK(relative_difference(built->forward(place.x), place.net.forward(place.x)) <= 1e-6);
  CHECK(build()->was_cached());
}

TEST_CASE("two processes compile the same graph at the same moment: both have it, and one entry stays") {
  Place place;
  const TemporaryFolder folder;
  const torch::NoGradGuard no_grad;
  const Tensor expected = place.net.forward(place.x);
  // Neither compiler starts before the other has been called.
  const Variable compiler(
      "FXX_CXX",
      compiler_that(folder, "both",
                    "mkdir -p " + (folder / "started") + "; : > " + (folder / "started") + "/$$\nwhile [ $(ls " +
                        (folder / "started") + " | wc -l) -lt 2 ]; do sleep 0.01; done"));
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(300);
    at::set_num_threads(1);  // those of LibTorch stayed behind
    bool is_right = false;
    try {
      const auto compiled = place.compile();
      is_right = !compiled->was_cached() && relative_difference(compiled->forward(place.x), expected) <= 1e-5;
    } catch (...) {
    }
    _exit(is_right ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(count_entries(folder / "started") == 2);
  CHECK(place.is_cached());
  CHECK(count_entries(place.cache()) == 2);  // the entry and the lock
}

TEST_CASE("a compiler that is killed half-way is an error that says so, and leaves nothing") {
  Place place;
  const TemporaryFolder folder;
  {
    const Variable compiler(
        "FXX_CXX",
        compiler_that(folder, "dies", "printf half > \"$out\"; [ -e " + (folder / "lives") + " ] || kill -9 $$"));
    for (int i = 0; i < 2; ++i) {
      const Fault fault = fault_of<CompileError>([&] { place.compile(); });
      CHECK(fault.id == 602);
      CHECK(fault.says("signal 9"));
    }
    CHECK(count_entries(place.cache(), "aside-") == 0);
    CHECK(count_entries(place.cache(), "failed-") == 1);  // its source and log
    folder.file("lives", "");
    CHECK_FALSE(place.is_cached());
    CHECK(place.is_cached());
  }
  CHECK(relative_difference(place.gm->forward(place.x), place.net.forward(place.x)) == 0);
}

TEST_CASE("a program that is killed while it compiles leaves nothing that would be taken") {
  Place place;
  const TemporaryFolder folder;
  const Variable compiler(
      "FXX_CXX", compiler_that(folder, "waits",
                               "[ -e " + (folder / "go") + " ] || { printf half > \"$out\"; : > " + (folder / "half") +
                                   "; while [ -e " + (folder / "half") + " ]; do sleep 0.01; done; exit 1; }"));
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);
    try {
      place.compile();
    } catch (...) {
    }
    _exit(0);
  }
  while (!std::filesystem::exists(folder / "half")) usleep(1000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(count_entries(place.cache(), "aside-") == 1);
  folder.file("go", "");
  CHECK_FALSE(place.is_cached());
  CHECK(place.is_cached());
  std::filesystem::remove(folder / "half");  // ends the compiler that was left
  BuildCache(place.cache()).remove_leftovers(-1);
  CHECK(count_entries(place.cache(), "aside-") == 0);
  CHECK(place.is_cached());
}

TEST_CASE("headers of kernels come from where they were when the program was built, never from the current folder") {
  using fxx::detail::folder_of_headers;
  CHECK(folder_of_headers("/a/include/fxx/torch/compile.ipp", 3) == std::filesystem::path("/a/include"));
  CHECK(folder_of_headers("/a/include", 0) == std::filesystem::path("/a/include"));
  for (const char* relative : {"include/fxx/torch/compile.ipp", "./fxx/torch/compile.ipp", "../fxx/torch/compile.ipp", "x", ""})
    CHECK_FALSE(folder_of_headers(relative, 3));
  // Somebody's folder with headers of the same names changes nothing.
  const std::string before = kernel_headers_folder(), here = std::filesystem::current_path().string();
  CHECK(before.starts_with("/"));
  const TemporaryFolder folder;
  for (const char* at : {"", "include/", "fxx/include/", "../include/"}) folder.file("in/" + std::string(at) + "fxx/kernels/gemm.hpp", "#error\n");
  std::filesystem::current_path(folder / "in");
  CHECK(kernel_headers_folder() == before);
  std::filesystem::current_path(here);
}
