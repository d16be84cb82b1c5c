// runtime/backtrace.hpp: functions that the dynamic linker does not know, source lines, whose frames, broken files.
#include "fxx/runtime/backtrace.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "fxx/runtime/detail/elf.hpp"
#include "fxx/runtime/detail/function_names.hpp"
#include "fxx/runtime/library.hpp"
#include "fxx/runtime/toolchain.hpp"
#include "not_checked.hpp"
#include "support.hpp"

// Functions whose frames are looked at. Each does something after its call, so that it keeps a frame.
#if defined(__clang__)
#define FXX_TEST_FUNCTION __attribute__((noinline))
#else
#define FXX_TEST_FUNCTION __attribute__((noinline, noclone))
#endif

namespace {

volatile int after = 0;

FXX_TEST_FUNCTION fxx::Backtrace in_unnamed_namespace(int skip) {
  const fxx::Backtrace backtrace = fxx::Backtrace::capture(skip);
  after = after + 1;
  return backtrace;
}

}  // namespace

FXX_TEST_FUNCTION static fxx::Backtrace static_function(int skip, double) {
  const fxx::Backtrace backtrace = in_unnamed_namespace(skip);
  after = after + 1;
  return backtrace;
}

namespace at {
FXX_TEST_FUNCTION static fxx::Backtrace library_function(const std::function<fxx::Backtrace()>& call) {
  const fxx::Backtrace backtrace = call();
  after = after + 1;
  return backtrace;
}
}  // namespace at

namespace user {
struct Net {
  template <class T>
  FXX_TEST_FUNCTION T forward(const std::function<T()>& call) const {
    const T result = call();
    after = after + 1;
    return result;
  }
};
}  // namespace user

namespace {

using fxx::Backtrace;
using fxx::Frame;
using fxx::SourceLines;
using support::contains;
using support::TemporaryFolder;
using support::Variable;

std::vector<std::string> functions_of(const std::vector<Frame>& frames) {
  std::vector<std::string> names;
  for (const Frame& frame : frames) names.push_back(frame.function);
  return names;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

/// A library with debug information whose static function calls back, and what was captured in the call.
struct Debugged {
  explicit Debugged(const std::vector<std::string>& flags) {
    std::filesystem::create_directories(folder / "build");
    const std::string source =
        "namespace at { struct Tensor { void (*call)(); static int n;\n"
        "inline void relu() const { call(); ++n; } }; int Tensor::n = 0; }\n"
        "namespace model {\n"
        "static int __attribute__((noinline)) block(at::Tensor x) {\n"
        "  int before = at::Tensor::n;\n"
        "  x.relu();  // line 6\n"
        "  return before + at::Tensor::n;\n"
        "}\n"
        "}\n"
        "extern \"C\" int run(void (*call)()) {\n"
        "  const int before = at::Tensor::n;\n"
        "  return model::block({call}) + before;  // line 12\n"
        "}\n";
    fxx::Toolchain::find().build({.source = source, .flags = flags}, folder / "build");
    library = fxx::Library(folder / "build/module.so");
    library.symbol<int(void (*)())>("run")(+[] {
      captured() = Backtrace::capture();
      after = after + 1;
    });
  }
  static Backtrace& captured() {
    static Backtrace backtrace;
    return backtrace;
  }
  TemporaryFolder folder;
  fxx::Library library;
};

}  // namespace

TEST_CASE("functions get their names though the program was not linked with -rdynamic") {
  const std::vector<Frame> frames = fxx::symbolise(static_function(0, 1.5), SourceLines::none);
  REQUIRE(frames.size() >= 3);
  CHECK(frames[0].function == "(anonymous namespace)::in_unnamed_namespace(int)");
  CHECK(frames[1].function == "static_function(int, double)");
  CHECK(frames[1].symbol == "_ZL15static_functionid");
  CHECK(frames[1].object == std::filesystem::canonical("/proc/self/exe").string());
  CHECK(frames[1].file.empty());
  // The dynamic linker does not know it, or this test would show nothing.
  Dl_info info{};
  CHECK((!::dladdr(reinterpret_cast<void*>(&static_function), &info) || info.dli_sname == nullptr));
}

TEST_CASE("frames can be skipped") {
  const auto all = static_function(0, 0).addresses(), rest = static_function(1, 0).addresses();
  CHECK(all.size() == rest.size() + 1);
  CHECK(fxx::symbolise(static_function(1, 0), SourceLines::none).at(0).function == "static_function(int, double)");
  CHECK(static_function(-5, 0).addresses().size() == all.size());
  CHECK(static_function(1000, 0).addresses().empty());
  CHECK(fxx::symbolise(static_function(1000, 0)).empty());
}

TEST_CASE("a deep stack keeps its innermost frames") {
  struct Deep {
    FXX_TEST_FUNCTION static Backtrace call(int depth) {
      const Backtrace backtrace = depth == 0 ? static_function(0, 0) : call(depth - 1);
      after = after + 1;
      return backtrace;
    }
  };
  const Backtrace backtrace = Deep::call(200);
  CHECK(backtrace.addresses().size() == Backtrace::max_frames);
  CHECK(fxx::symbolise(backtrace, SourceLines::none).at(1).function == "static_function(int, double)");
}

TEST_CASE("functions of the C library have names from the dynamic linker") {
  static Backtrace backtrace;
  int numbers[] = {2, 1};
  ::qsort(numbers, 2, sizeof(int), [](const void* a, const void* b) {
    backtrace = Backtrace::capture();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  const std::vector<std::string> names = functions_of(fxx::symbolise(backtrace, SourceLines::none));
  CHECK(std::any_of(names.begin(), names.end(), [](const std::string& name) { return contains(name, "qsort"); }));
}

TEST_CASE("addresses that lie nowhere have no names") {
  int local = 0;
  void* addresses[] = {nullptr, reinterpret_cast<void*>(1), &local, reinterpret_cast<void*>(UINTPTR_MAX)};
  for (const Frame& frame : fxx::symbolise(addresses)) {
    CHECK(frame.function.empty());
    CHECK(frame.file.empty());
    CHECK(!fxx::is_user_frame(frame));
    CHECK(fxx::format_frame(frame).ends_with("+0x0"));
  }
  CHECK(fxx::symbolise(std::span<void* const>()).empty());
}

TEST_CASE("an address asked for twice is answered twice, in order") {
  const Backtrace backtrace = static_function(0, 0);
  void* addresses[] = {backtrace.addresses()[1], backtrace.addresses()[0], nullptr, backtrace.addresses()[1]};
  const std::vector<Frame> frames = fxx::symbolise(addresses, SourceLines::none);
  REQUIRE(frames.size() == 4);
  CHECK(frames[0].function == "static_function(int, double)");
  CHECK(frames[1].function == "(anonymous namespace)::in_unnamed_namespace(int)");
  CHECK(frames[2].function == "");
  CHECK(frames[3].function == "static_function(int, double)");
  CHECK(frames[3].address == addresses[3]);
}

TEST_CASE("the user's frames are those outside of the libraries") {
  const user::Net net;
  const Backtrace backtrace =
      net.forward<Backtrace>([] { return at::library_function([] { return static_function(0, 0); }); });
  std::vector<std::string> names = functions_of(fxx::user_frames(backtrace, SourceLines::none));
  std::erase_if(names, [](const std::string& name) { return contains(name, "operator()"); });  // the lambdas
  REQUIRE(names.size() >= 3);
  CHECK(names[0] == "(anonymous namespace)::in_unnamed_namespace(int)");
  CHECK(names[1] == "static_function(int, double)");
  CHECK(contains(names[2], "user::Net::forward<"));
  for (const std::string& name : names) {
    CHECK(!name.starts_with("at::"));
    CHECK(!contains(name, "std::_Function_handler"));
    CHECK(name != "_start");
  }
  // All of them are there when all are asked for.
  const std::vector<std::string> all = functions_of(fxx::symbolise(backtrace, SourceLines::none));
  CHECK(std::any_of(all.begin(), all.end(),
                    [](const std::string& name) { return name.starts_with("at::library_function("); }));
}

TEST_CASE("the library a frame lies in tells whose it is") {
  Frame frame{.address = nullptr, .object = "/x/libmodel.so", .symbol = "f", .function = "f"};
  CHECK(fxx::is_user_frame(frame));
  for (const char* object : {"libcool.so", "libtool.so", "libcurl.so.4", "program"}) {
    frame.object = std::string("/usr/lib/") + object;
    CHECK_MESSAGE(fxx::is_user_frame(frame), object);
  }
  for (const char* object :
       {"libtorch_cpu.so", "libtorch.so", "libc10.so", "libc10_cuda.so", "libc.so.6", "libc-2.31.so", "libstdc++.so.6",
        "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libm.so.6", "linux-vdso.so.1"}) {
    frame.object = std::string("/usr/lib/") + object;
    CHECK_MESSAGE(!fxx::is_user_frame(frame), object);
  }
}

TEST_CASE("the outermost namespace is read from the mangled name") {
  using fxx::detail::outermost_name;
  CHECK(outermost_name("_ZN2at6Tensor3addEv") == "at");
  CHECK(outermost_name("_ZNK2at6Tensor3addEv") == "at");
  CHECK(outermost_name("_ZN3c106detail1fEv") == "c10");
  CHECK(outermost_name("_ZN5torch2nn6Module5trainEb") == "torch");
  CHECK(outermost_name("_ZZN3Net7forwardEN2at6TensorEENKUlvE_clEv") == "Net");  // a lambda in Net::forward
  CHECK(outermost_name("_Z5blockIN2at6TensorEET_S2_") == "block");  // at::Tensor block<at::Tensor>(at::Tensor)
  CHECK(outermost_name("_ZSt13__invoke_implIvRZ4mainEUlvE_JEET_St14__invoke_otherOT0_DpOT1_") == "std");
  CHECK(outermost_name("_ZNSt17_Function_handlerIFvvEZ4mainEUlvE_E9_M_invokeERKSt9_Any_data") == "std");
  CHECK(outermost_name("_ZNSsC1Ev") == "std");
  CHECK(outermost_name("_ZN9__gnu_cxx1fEv") == "__gnu_cxx");
  CHECK(outermost_name("_ZThn16_N2at6TensorD0Ev") == "at");
  CHECK(outermost_name("_ZTv0_n24_N3Net7forwardEv") == "Net");
  CHECK(outermost_name("_ZL5blockv") == "block");
  CHECK(outermost_name("_ZN12_GLOBAL__N_15blockEv") == "_GLOBAL__N_1");
  CHECK(outermost_name("main") == "main");
  CHECK(outermost_name("at") == "at");
  for (const char* broken :
       {"", "_Z", "_ZN", "_ZNK", "_ZN2a", "_ZTh", "_ZTv0", "_ZZ", "_ZL", "_ZN99999999999999999999999x"})
    CHECK(outermost_name(broken).size() <= std::strlen(broken));
  // A function that is called as a namespace is not in it.
  CHECK(fxx::is_user_frame({.object = "/program", .symbol = "at", .function = "at"}));
  CHECK(!fxx::is_user_frame({.object = "/program", .symbol = "_ZN2at1fEv", .function = "at::f()"}));
  CHECK(!fxx::is_user_frame({.object = "/program", .symbol = "_ZN3fxx5v0_15traceEv", .function = "fxx::trace()"}));
}

TEST_CASE("functions are shortened to what tells them apart") {
  const auto text = [](const std::string& function) {
    return fxx::format_frame({.object = "/x/model", .function = function});
  };
  CHECK(text("main") == "main");
  CHECK(text("Net::forward(at::Tensor)") == "Net::forward(...)");
  CHECK(text("Net::size() const") == "Net::size() const");
  CHECK(text("at::Tensor block<at::Tensor>(at::Tensor, int)") == "block<at::Tensor>(...)");
  CHECK(text("unsigned long f<int>(int)") == "f<int>(...)");
  CHECK(text("(anonymous namespace)::f(int)") == "(anonymous namespace)::f(...)");
  CHECK(text("std::pair<int, int> user::f<int, int>(std::pair<int, int>)") == "user::f<int, int>(...)");
  CHECK(text("f(int)::{lambda(int)#1}::operator()(int) const") == "f(...)::{lambda(int)#1}::operator()(...) const");
  CHECK(text("A::operator<(A const&) const") == "A::operator<(...) const");
  CHECK(text("operator<<(A const&, int)") == "operator<<(...)");
  CHECK(text("A::operator()()") == "A::operator()()");
  CHECK(text("A::operator bool() const") == "A::operator bool() const");
  CHECK(text("A::operator unsigned long() const") == "A::operator unsigned long() const");
  CHECK(text("A::operator->() const") == "A::operator->() const");
  CHECK(text("operator new(unsigned long)") == "operator new(...)");
  CHECK(text("f(int) [clone .isra.0]") == "f(...)");
  CHECK(text("cooperator(int)") == "cooperator(...)");
  for (const char* broken : {"f(", "f)", "f<", "f>>>", "((((", "operator", "operator(", "{", " "}) (void)text(broken);
}

TEST_CASE("a frame without a name is given by its place") {
  CHECK(fxx::format_frame({.object = "/x/model", .offset = 0x11f4}) == "model+0x11f4");
  CHECK(fxx::format_frame({.object = "/x/model", .function = "f()", .file = "/src/a/model.cpp", .line = 41}) ==
        "f() at model.cpp:41");
  CHECK(fxx::format_frame({}) == "unknown+0x0");
}

TEST_CASE("source lines are found where there is debug information") {
  if (!fxx::find_program("addr2line") && !fxx::find_program("llvm-addr2line")) {
    fxx::test::not_checked("source lines of frames: addr2line is not installed");
    return;
  }
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-g", "-O0"}, std::vector<std::string>{"-g", "-O2"}}) {
    CAPTURE(flags[1]);
    const Debugged debugged(flags);
    const std::vector<Frame> frames = fxx::user_frames(Debugged::captured());
    std::vector<std::string> texts;
    for (const Frame& frame : frames)
      if (frame.object == debugged.folder / "build/module.so") texts.push_back(fxx::format_frame(frame));
    // The inline wrapper of the operator, in namespace at, is passed over whether it has a frame or not.
    CHECK(joined(texts) == "model::block(...) at source.cpp:6\nrun at source.cpp:12\n");
    CHECK(contains(fxx::user_stack(Debugged::captured()), "run at source.cpp:12\nmodel::block(...) at source.cpp:6"));
    for (const Frame& frame : fxx::symbolise(Debugged::captured(), SourceLines::none)) CHECK(frame.file.empty());
    // Many at once are what each is alone.
    const Backtrace here = Backtrace::capture(), none;
    const Backtrace* const all[] = {&Debugged::captured(), &here, &none, &Debugged::captured()};
    const std::vector<std::vector<Frame>> each = fxx::user_frames(all);
    REQUIRE(each.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(fxx::user_stack(each[i]) == fxx::user_stack(*all[i]));
    CHECK(each[2].empty());
    CHECK(contains(fxx::user_stack(each[3]), "run at source.cpp:12"));
  }
}

TEST_CASE("without debug information, or without addr2line, there are names and no lines") {
  const auto check_names = [](const Debugged& debugged) {
    std::vector<std::string> names;
    for (const Frame& frame : fxx::user_frames(Debugged::captured())) {
      if (frame.object != debugged.folder / "build/module.so") continue;
      CHECK(frame.file.empty());
      CHECK(frame.line == 0);
      names.push_back(frame.function);
    }
    CHECK(joined(names) == "model::block(at::Tensor)\nrun\n");
  };
  check_names(Debugged({"-O0", "-g0"}));
  const Debugged debugged({"-O0", "-g"});
  const Variable path("PATH", "/fxx/no/such");
  check_names(debugged);
}

TEST_CASE("rubbish from addr2line does no harm") {
  const Debugged debugged({"-O0", "-g"});
  const TemporaryFolder folder;
  const auto lines_with = [&](const std::string& body) {
    folder.script("addr2line", body);
    const Variable path("PATH", folder.path());
    std::vector<std::string> lines;
    for (const Frame& frame : fxx::user_frames(Debugged::captured()))
      if (frame.object == debugged.folder / "build/module.so")
        lines.push_back(frame.file + ":" + std::to_string(frame.line));
    return joined(lines);
  };
  const std::string none = ":0\n:0\n";
  CHECK(lines_with("exit 1") == none);
  CHECK(lines_with("echo 0x; echo 0xzz; echo x:1; echo 0x1; echo f; echo y:2") == none);
  CHECK(lines_with("for word; do echo $word; done") == none);
  CHECK(lines_with("for word; do echo $word; echo f; echo ??:0; done") == none);
  CHECK(lines_with("for word; do echo $word; echo f; echo ??:?; done") == none);
  CHECK(lines_with("for word; do echo $word; echo f; echo :7; echo a:-3; echo b:99999999999999999999; done") == none);
  CHECK(lines_with("for word; do echo $word; echo '?? complaint'; echo f; echo 'file.cpp:7 (discriminator 2)'; done") ==
        "file.cpp:7\nfile.cpp:7\nfile.cpp:7\n");  // the wrapper too: f may be a function of the user's inlined there
  CHECK(lines_with("kill -SEGV $$") == none);
}

TEST_CASE("a symbol table that lies is read without harm") {
  // A small library, and the addresses of its functions as the mapped one has them.
  const TemporaryFolder folder;
  fxx::Toolchain::find().build({.source = "static int __attribute__((noinline, used)) f(int x) { return x + 1; }\n"
                                          "extern \"C\" int g(int x) { return f(x) * 2; }",
                                .flags = {"-O1", "-g"}},
                               folder.path());
  const std::string good = support::content_of(folder / "module.so");
  const auto names_of = [&](const std::string& content) {
    const std::string path = folder.file("mutant.so", content);
    const fxx::detail::ElfFile file(path);
    (void)file.has_source_lines();
    std::vector<std::uintptr_t> addresses(512);
    std::iota(addresses.begin(), addresses.end(), std::uintptr_t{0x1000});
    const std::vector<std::string> names = file.functions_at(addresses);
    CHECK(names.size() == addresses.size());
    return std::set<std::string>(names.begin(), names.end());
  };
  REQUIRE(names_of(good).count("_ZL1fi") == 1);
  CHECK(names_of("") == std::set<std::string>{""});
  CHECK(names_of("\177ELF") == std::set<std::string>{""});
  for (std::size_t size = 0; size < good.size(); size += 97) (void)names_of(good.substr(0, size));

  std::mt19937 random(1);
  std::size_t header = 0;
  std::memcpy(&header, good.data() + 40, 8);  // e_shoff of a 64-bit file
  for (int round = 0; round < 1500; ++round) {
    std::string bad = good;
    for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
      // Mostly in the file's header and the table of sections, where all the counts and offsets are.
      const std::size_t places[] = {random() % 64, header + random() % (good.size() - header), random() % good.size()};
      const std::size_t at = places[random() % 3];
      static constexpr unsigned char extremes[] = {0, 1, 0x7f, 0x80, 0xff};
      bad[at % bad.size()] = static_cast<char>(random() % 2 ? extremes[random() % 5] : random() % 256);
    }
    (void)names_of(bad);
  }
  CHECK(names_of(good).count("_ZL1fi") == 1);
  const fxx::detail::ElfFile missing(folder / "missing"), directory(folder.path());
  CHECK(!missing.has_source_lines());
  CHECK(!directory.has_source_lines());
}

TEST_CASE("symbolising leaves no descriptor open") {
  const int before = support::open_descriptors();
  (void)fxx::symbolise(static_function(0, 0));
  CHECK(support::open_descriptors() == before);
}
