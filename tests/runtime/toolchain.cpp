// runtime/toolchain.hpp: which compiler is taken, what it is told, and how its failures arrive.
#include "fxx/runtime/toolchain.hpp"

#include <doctest/doctest.h>
#include <utime.h>

#include <algorithm>

#include "fxx/runtime/files.hpp"
#include "fxx/runtime/library.hpp"
#include "not_checked.hpp"
#include "support.hpp"

namespace {

using fxx::BuildError;
using fxx::BuildRequest;
using fxx::CompileError;
using fxx::ErrorId;
using fxx::Toolchain;
namespace files = fxx::files;
using support::contains;
using support::fault_of;
using support::TemporaryFolder;
using support::Variable;

/// A script in the place of a compiler: it answers --version, else does `body`, in which $out is the file to build.
std::string fake_compiler(const TemporaryFolder& folder, const std::string& name, const std::string& body,
                          const std::string& version = "fake 1.0") {
  return folder.script(
      name,
      "case \"$*\" in *--version) echo '" + version +
          "'; echo second line; exit 0;; esac\n"
          "out=; next=; for word; do [ -n \"$next\" ] && { out=$word; next=; }; [ \"$word\" = -o ] && next=1; done\n" +
          body + "\n");
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

/// Whether a build of several parts has one here, since there is one processor.
bool has_one_part() {
  if (fxx::available_processors() > 1) return false;
  fxx::test::not_checked("builds of several parts: there is one processor");
  return true;
}

}  // namespace

TEST_CASE("the compiler that FXX_CXX names goes first, then CXX, then those in PATH") {
  const TemporaryFolder folder;
  const std::string one = fake_compiler(folder, "one", ""), two = fake_compiler(folder, "two", "");
  const std::string clang = fake_compiler(folder, "path/clang++", "");
  const Variable path("PATH", (folder / "path") + ":/bin:/usr/bin");
  {
    const Variable fxx_cxx("FXX_CXX", "  " + one + "  --first\t-m64 "), cxx("CXX", two);
    CHECK(Toolchain::find().command() == std::vector<std::string>{one, "--first", "-m64"});
  }
  {
    const Variable fxx_cxx("FXX_CXX", std::nullopt), cxx("CXX", two);
    CHECK(Toolchain::find().command() == std::vector<std::string>{two});
  }
  {
    const Variable fxx_cxx("FXX_CXX", " \t"), cxx("CXX", two);
    CHECK(Toolchain::find().command() == std::vector<std::string>{two});
  }
  const Variable fxx_cxx("FXX_CXX", std::nullopt);
  const Variable only("PATH", folder / "path");
  const auto in_path = [&] { return Toolchain::find().command().at(0); };
  // The scripts need /bin/sh only, which is named by its path.
  {
    const Variable cxx("CXX", "fxx-no-such-compiler");
    CHECK(in_path() == "clang++");
  }
  const Variable cxx("CXX", std::nullopt);
  CHECK(in_path() == "clang++");
  fake_compiler(folder, "path/g++", "");
  CHECK(in_path() == "g++");
  fake_compiler(folder, "path/c++", "");
  CHECK(in_path() == "c++");
}

TEST_CASE("a warning that -Werror makes an error is forgiven where that was asked for, a fault of the source never") {
  const TemporaryFolder folder;
  const Toolchain toolchain = Toolchain::find();
  BuildRequest request;
  request.source = "int made(int x) { int unused; return x; }\n";
  request.flags = {"-std=c++20", "-Wall", "-Wextra", "-Werror"};
  const BuildError strict = fault_of<BuildError>([&] { toolchain.build(request, folder.path(), "strict.so"); });
  CHECK(contains(strict.log(), "unused"));
  request.forgive_warnings = true;
  int calls = 0;  // of what the caller does meanwhile: not again the second time
  request.meanwhile = {[](void* data) { ++*static_cast<int*>(data); }, &calls};
  toolchain.build(request, folder.path(), "forgiven.so");
  CHECK(calls == 1);
  CHECK(files::read_file(folder / "forgiven.so"));
  const std::string log = files::read_file(folder / "log").value();
  CHECK(contains(log, " -Werror"));
  CHECK(contains(log, " warning: "));  // of the second time
  request.source += "int broken() { return nothing; }\n";
  const BuildError broken = fault_of<BuildError>([&] { toolchain.build(request, folder.path(), "broken.so"); });
  CHECK(contains(broken.log(), "nothing"));
  CHECK_FALSE(files::read_file(folder / "broken.so"));
}

TEST_CASE("a warning is forgiven within the time that the first attempt leaves") {
  const TemporaryFolder folder;
  const Variable fxx_cxx("FXX_CXX", fake_compiler(folder, "slow",
                                                  "sleep 0.7\n"
                                                  "case \"$*\" in *-Werror*) echo 'x.cpp:1:1: error: unused "
                                                  "[-Werror=unused]'; exit 1;; esac\n"
                                                  "echo built > \"$out\""));
  const Toolchain toolchain = Toolchain::find();
  BuildRequest request{.source = "", .flags = {"-Werror"}, .timeout_seconds = 1};
  request.forgive_warnings = true;
  const BuildError error = fault_of<BuildError>([&] { toolchain.build(request, folder.path(), "late.so"); });
  CHECK(error.id() == ErrorId::compile_timeout);
  request.timeout_seconds = 100;
  toolchain.build(request, folder.path(), "forgiven.so");
  CHECK(files::read_file(folder / "forgiven.so") == "built\n");
}

TEST_CASE("without a compiler the fault says what was looked for and what to do") {
  const TemporaryFolder folder;
  const Variable path("PATH", folder.path());
  const auto message = [](const std::optional<std::string>& fxx_cxx_value,
                          const std::optional<std::string>& cxx_value) {
    const Variable fxx_cxx("FXX_CXX", fxx_cxx_value), cxx("CXX", cxx_value);
    const CompileError error = fault_of<CompileError>([] { (void)Toolchain::find(); });
    CHECK(error.id() == ErrorId::compiler_missing);
    CHECK(contains(error.what(), "FXX_CXX; until then modules keep working, interpreted [E601]"));
    return std::string(error.what());
  };
  const std::string none = message(std::nullopt, std::nullopt);
  CHECK(contains(none, "FXX_CXX (not set), CXX (not set), and c++, g++ and clang++ in PATH=" + folder.path()));
  CHECK(contains(message(std::nullopt, "gone --x"), "CXX=gone --x (no program)"));
  // What the user named is not replaced unnoticed, whatever else there is.
  const std::string other = fake_compiler(folder, "g++", "");
  CHECK(contains(message("/no/such/compiler -m32", other), "FXX_CXX=/no/such/compiler -m32, which is no program"));
}

TEST_CASE("a compiler that cannot be run is missing too") {
  const TemporaryFolder folder;
  const std::string broken = folder.file("broken", "#!/fxx/no/such/interpreter\n");
  std::filesystem::permissions(broken, std::filesystem::perms::owner_all);
  const CompileError error = fault_of<CompileError>([&] { (void)Toolchain({broken}); });
  CHECK(error.id() == ErrorId::compiler_missing);
  CHECK(contains(error.what(), "'" + broken + "' cannot be run"));
  CHECK(fault_of<CompileError>([] { (void)Toolchain(std::vector<std::string>{}); }).id() == ErrorId::compiler_missing);
  CHECK(fault_of<CompileError>([] { (void)Toolchain({""}); }).id() == ErrorId::compiler_missing);
  CHECK(fault_of<CompileError>([&] { (void)Toolchain({folder.path()}); }).id() == ErrorId::compiler_missing);
}

TEST_CASE("the identity holds command, version and files of all programs in the command") {
  const TemporaryFolder folder;
  const std::string compiler = fake_compiler(folder, "real", ""), wrapper = folder.script("wrapper", "exec \"$@\"");
  std::filesystem::create_symlink("real", folder / "link");
  const Toolchain toolchain({wrapper, folder / "link", "-m64"});
  CHECK(toolchain.version() == "fake 1.0");
  CHECK(contains(toolchain.identity(), wrapper + " " + (folder / "link") + " -m64; fake 1.0; "));
  for (const std::string& program : {wrapper, compiler})
    CHECK(contains(toolchain.identity(),
                   program + " " + std::to_string(std::filesystem::file_size(program)) + " bytes, changed "));
  CHECK(Toolchain({wrapper, folder / "link"}).identity() != toolchain.identity());
  CHECK(Toolchain({wrapper, folder / "link", "-m64"}).identity() == toolchain.identity());
}

TEST_CASE("the identity changes with the compiler's file") {
  const TemporaryFolder folder;
  const std::string compiler = fake_compiler(folder, "cc", "");
  const std::string first = Toolchain({compiler}).identity();
  const struct utimbuf times = {1000000000, 1000000000};
  REQUIRE(::utime(compiler.c_str(), &times) == 0);
  const std::string second = Toolchain({compiler}).identity();
  CHECK(second != first);
  CHECK(contains(second, "changed 1000000000.0"));
  fake_compiler(folder, "cc", "# longer", "fake 2.0");
  REQUIRE(::utime(compiler.c_str(), &times) == 0);
  CHECK(Toolchain({compiler}).identity() != second);
  CHECK(Toolchain({compiler}).version() == "fake 2.0");
}

TEST_CASE("--version is run once for each compiler") {
  const TemporaryFolder folder;
  const std::string compiler = folder.script("cc", "echo \"$LC_ALL\" >> " + (folder / "runs") + "\necho fake 3");
  for (int i = 0; i < 5; ++i) CHECK(Toolchain({compiler}).version() == "fake 3");
  CHECK(support::content_of(folder / "runs") == "C\n");
}

TEST_CASE("a compiler without --version is known by its file") {
  const TemporaryFolder folder;
  const Toolchain toolchain({folder.script("cc", "echo unknown option; exit 1")});
  CHECK(toolchain.version() == "");
  CHECK(contains(toolchain.identity(), (folder / "cc") + " "));
}

TEST_CASE("the real compiler builds a library that works") {
  const TemporaryFolder folder;
  folder.file("include folder/header.hpp", "inline int from_header() { return 40; }\n");
  folder.file("more/second.hpp", "");
  const Toolchain toolchain = Toolchain::find();
  CHECK(!toolchain.version().empty());
  std::filesystem::create_directories(folder / "other");
  toolchain.build({.source = "extern \"C\" int other() { return 1; }"}, folder / "other", "libother.so");
  std::filesystem::create_directories(folder / "main");
  toolchain.build({.source = "#include \"header.hpp\"\n#include <second.hpp>\nextern \"C\" int other();\n"
                             "extern \"C\" int run() { return from_header() + other() + EXTRA; }",
                   .flags = {"-std=c++20", "-O1", "-DEXTRA=1", "-I" + (folder / "more")},
                   .include_folders = {folder / "include folder"},
                   .library_folders = {folder / "other"},
                   .libraries = {"other", folder / "other/libother.so"},
                   .rpaths = {folder / "other", folder / "comma,folder", "$ORIGIN"}},
                  folder / "main");
  const fxx::Library library(folder / "main/module.so");
  CHECK(library.symbol<int()>("run")() == 42);
  CHECK(support::content_of(folder / "main/source.cpp").starts_with("#include \"header.hpp\""));
  CHECK(support::content_of(folder / "main/log").starts_with(fxx::command_line(toolchain.command())));
  CHECK(contains(support::content_of(folder / "main/headers.d"), "include\\ folder/header.hpp"));
}

TEST_CASE("the command holds every part of the request, paths made absolute") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc", ""), "-m64"});
  const std::string here = std::filesystem::current_path().string();
  const std::vector<std::string> command = toolchain.build_command({.source = "",
                                                                    .flags = {"-O3", "a flag"},
                                                                    .include_folders = {"/a b", "relative"},
                                                                    .library_folders = {"/l", "m"},
                                                                    .libraries = {"torch", "/x/liby.so", "./z.so"},
                                                                    .rpaths = {"/r,s", "$ORIGIN/lib", "t"}},
                                                                   "out.so");
  CHECK(command == std::vector<std::string>{folder / "cc", "-m64",       "-shared",        "-fPIC",
                                            "-O3",         "a flag",     "-I/a b",         "-I" + here + "/relative",
                                            "-MMD",        "-MF",        "headers.d",      "source.cpp",
                                            "-o",          "out.so",     "-L/l",           "-L" + here + "/m",
                                            "-ltorch",     "/x/liby.so", here + "/./z.so", "-Xlinker",
                                            "-rpath",      "-Xlinker",   "/r,s",           "-Xlinker",
                                            "-rpath",      "-Xlinker",   "$ORIGIN/lib",    "-Xlinker",
                                            "-rpath",      "-Xlinker",   here + "/t"});
}

TEST_CASE("a compile that fails carries all that is needed to look into it") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc",
                                           "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23; "
                                           "do echo \"complaint $i\" >&2; done; exit 3")});
  const BuildError error = fault_of<BuildError>([&] { toolchain.build({.source = "int x = y;"}, folder.path()); });
  CHECK(error.id() == ErrorId::compile_failed);
  CHECK(error.exit_status() == 3);
  CHECK(error.result().exit_status == 3);
  CHECK(error.argv() == toolchain.build_command({.source = ""}, "module.so"));
  CHECK(error.folder() == folder.path());
  CHECK(error.source_path() == folder / "source.cpp");
  CHECK(support::content_of(error.source_path()) == "int x = y;");
  CHECK(contains(error.log(), "complaint 1\n"));
  CHECK(contains(error.log(), "complaint 23\n"));
  CHECK(last_line(support::content_of(folder / "log")) == "complaint 23");
  const std::string message = error.what();
  CHECK(message.starts_with("fxx::Toolchain::build: the compiler ended with status 3; "));
  CHECK(message.ends_with(" [E602]"));
  CHECK(contains(message, folder / "source.cpp"));
  CHECK(contains(message, fxx::command_line(error.argv())));
  CHECK(contains(message, "\ncomplaint 20\n... and 3 more lines\n"));
  CHECK(!contains(message, "complaint 21"));
  // Seen as its base, it has the lines of the message.
  const CompileError& base = error;
  CHECK(last_line(base.log()) == "... and 3 more lines");
}

TEST_CASE("a compiler that finds the disk full: an error of the folder, not of the source") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(
      folder, "cc", "echo \"fatal error: error writing to /t/cc1.s: No space left on device\" >&2; exit 1")});
  const CompileError error = fault_of<CompileError>([&] { toolchain.build({.source = "int x;"}, folder.path()); });
  CHECK(error.id() == ErrorId::cache_unwritable);
  CHECK(contains(error.what(), folder.path()));
  CHECK(contains(error.what(), "make room"));
  CHECK(contains(error.log(), "cc1.s"));
}

TEST_CASE("a line without end does not fill the message") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc", "head -c 100000 /dev/zero | tr '\\0' x; exit 1")});
  const BuildError error = fault_of<BuildError>([&] { toolchain.build({.source = ""}, folder.path()); });
  CHECK(error.log().size() == 100000);
  CHECK(std::string_view(error.what()).size() < 2000);
}

TEST_CASE("a real mistake is reported with the compiler's words") {
  const TemporaryFolder folder;
  const BuildError error = fault_of<BuildError>(
      [&] { Toolchain::find().build({.source = "int f() { return unknown_name; }\n"}, folder.path()); });
  CHECK(error.id() == ErrorId::compile_failed);
  CHECK(contains(error.what(), "source.cpp:1:"));
  CHECK(contains(error.what(), "unknown_name"));
}

TEST_CASE("a compile that takes too long is stopped") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc", "echo started; while :; do sleep 1; done")});
  const BuildError error =
      fault_of<BuildError>([&] { toolchain.build({.source = "int x;", .timeout_seconds = 0.2}, folder.path()); });
  CHECK(error.id() == ErrorId::compile_timeout);
  CHECK(error.result().timed_out);
  CHECK(contains(error.what(), "time limit"));
  CHECK(contains(error.what(), "timeout_seconds"));
  CHECK(support::content_of(error.source_path()) == "int x;");
}

TEST_CASE("a compiler that is killed, or builds nothing, has failed") {
  const TemporaryFolder folder;
  const auto failure = [&](const std::string& body) {
    const Toolchain toolchain({fake_compiler(folder, "cc", body)});
    const BuildError error = fault_of<BuildError>([&] { toolchain.build({.source = ""}, folder.path()); });
    CHECK(error.id() == ErrorId::compile_failed);
    return std::string(error.what());
  };
  CHECK(contains(failure("kill -KILL $$"), "was ended by signal 9"));
  CHECK(contains(failure("kill -KILL $$"), "memory"));
  CHECK(contains(failure("exit 0"), "reported success but wrote no library"));
  CHECK(contains(failure(": > \"$out\""), "reported success but wrote no library"));
  CHECK(contains(failure("rm -f \"$out\"; mkdir \"$out\""), "reported success but wrote no library"));
}

TEST_CASE("temporary files of the compiler go to the folder") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc", "echo \"$TMPDIR\" > \"$out\"")});
  std::filesystem::create_directories(folder / "build");
  toolchain.build({.source = ""}, folder / "build");
  CHECK(support::content_of(folder / "build/module.so") == (folder / "build") + "\n");
}

// --- parts -----------------------------------------------------------------------------------------------------------

TEST_CASE("the commands of the parts differ in the part alone, and the last links what they leave") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc", ""), "-m64"});
  const BuildRequest request{.source = "",
                             .flags = {"-O3"},
                             .include_folders = {"/i"},
                             .library_folders = {"/l"},
                             .libraries = {"torch"},
                             .rpaths = {"/r"},
                             .parts = 8};
  const auto commands = toolchain.part_commands(request, 2);
  REQUIRE(commands.size() == 2);
  CHECK(commands[0] == std::vector<std::string>{folder / "cc", "-m64", "-c", "-fPIC", "-O3", "-I/i", "-DFXX_PARTS=2",
                                                "-DFXX_PART=0", "-MMD", "-MF", "headers.d", "source.cpp", "-o",
                                                "part0.o"});
  CHECK(commands[1] == std::vector<std::string>{folder / "cc", "-m64", "-c", "-fPIC", "-O3", "-I/i", "-DFXX_PARTS=2",
                                                "-DFXX_PART=1", "source.cpp", "-o", "part1.o"});
  CHECK(toolchain.link_command(request, 2, "out.so") ==
        std::vector<std::string>{folder / "cc", "-m64", "-shared", "-fPIC", "-O3", "-I/i", "part0.o", "part1.o", "-o",
                                 "out.so", "-L/l", "-ltorch", "-Xlinker", "-rpath", "-Xlinker", "/r"});
}

TEST_CASE("a source in parts becomes one library, and leaves nothing else") {
  const TemporaryFolder folder;
  folder.file("value.hpp", "#pragma once\n#define VALUE 40\n");
  int calls = 0;
  const BuildRequest request{.source =
                                 "#include \"value.hpp\"\n"
                                 "#if !defined(FXX_PARTS)\n#define FXX_PARTS 1\n#define FXX_PART 0\n#endif\n"
                                 "__attribute__((visibility(\"hidden\"))) int other();\n"
                                 "#if FXX_PART == 0\n"
                                 "extern \"C\" int parts() { return FXX_PARTS; }\n"
                                 "extern \"C\" int run() { return other() + VALUE; }\n#endif\n"
                                 "#if FXX_PART == FXX_PARTS - 1\nint other() { return 2; }\n#endif\n",
                             .include_folders = {folder.path()},
                             .parts = 3,
                             .meanwhile = {[](void* data) { ++*static_cast<int*>(data); }, &calls}};
  std::filesystem::create_directories(folder / "build");
  Toolchain::find().build(request, folder / "build");
  CHECK(calls == 1);  // and not when the parts are linked
  const fxx::Library library(folder / "build/module.so");
  CHECK(library.symbol<int()>("run")() == 42);
  CHECK(library.symbol<int()>("parts")() == std::min(3, fxx::available_processors()));
  CHECK(contains(support::content_of(folder / "build/headers.d"), "value.hpp"));
  CHECK(support::count_entries(folder / "build") == 4);  // with source.cpp and log
  const std::string log = support::content_of(folder / "build/log");
  if (fxx::available_processors() > 1)
    CHECK((contains(log, "-DFXX_PART=0") && contains(log, "-DFXX_PART=1") && contains(log, "part1.o -o module.so")));
}

TEST_CASE("a part that fails is the error, and the others are stopped") {
  if (has_one_part()) return;
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc",
                                           "case \"$*\" in *PART=1*) until [ -e started ]; do sleep 0.01; done; "
                                           "echo 'complaint of the second'; exit 5;; esac\n"
                                           "echo half > \"$out\"; touch started; sleep 1000")});
  const BuildError error =
      fault_of<BuildError>([&] { toolchain.build({.source = "", .timeout_seconds = 100, .parts = 2}, folder.path()); });
  CHECK(error.id() == ErrorId::compile_failed);
  CHECK(error.exit_status() == 5);
  CHECK(error.argv() == toolchain.part_commands({.source = "", .parts = 2}, 2).at(1));
  CHECK(error.log() == "complaint of the second\n");
  CHECK(contains(error.what(), "complaint of the second"));
  CHECK(last_line(support::content_of(folder / "log")) == "complaint of the second");
  CHECK(!std::filesystem::exists(folder / "part0.o"));
  CHECK(!std::filesystem::exists(folder / "module.so"));

  // A mistake that stands in the second part alone, found by the real compiler.
  const BuildError real = fault_of<BuildError>([&] {
    Toolchain::find().build({.source = "#if FXX_PART == 1\nint f() { return unknown_name; }\n#endif\n", .parts = 2},
                            folder.path());
  });
  CHECK(real.id() == ErrorId::compile_failed);
  CHECK(contains(real.what(), "unknown_name"));
  CHECK(contains(real.what(), "source.cpp:2:"));
  CHECK(contains(real.what(), "-DFXX_PART=1"));
}

TEST_CASE("the time limit is one for all parts and for linking them") {
  if (has_one_part()) return;
  const TemporaryFolder folder;
  const auto late = [&](const std::string& body) {
    const Toolchain toolchain({fake_compiler(folder, "cc", body)});
    const BuildError error = fault_of<BuildError>(
        [&] { toolchain.build({.source = "", .timeout_seconds = 0.3, .parts = 2}, folder.path()); });
    CHECK(error.id() == ErrorId::compile_timeout);
    CHECK(contains(error.what(), "time limit"));
    CHECK(!std::filesystem::exists(folder / "part0.o"));
    CHECK(!std::filesystem::exists(folder / "part1.o"));
    return error;
  };
  const std::string here = "echo half > \"$out\"; ";
  CHECK(contains(fxx::command_line(late(here + "while :; do sleep 1; done").argv()), "-DFXX_PART="));
  CHECK(contains(fxx::command_line(late(here + "case \"$*\" in *PART=1*) while :; do sleep 1; done;; esac").argv()),
                 "-DFXX_PART=1"));
  CHECK(contains(fxx::command_line(late(here + "case \"$*\" in *-shared*) while :; do sleep 1; done;; esac").argv()),
                 "-o module.so"));
}

TEST_CASE("a part that is killed, and one that leaves nothing to link, have failed") {
  if (has_one_part()) return;
  const TemporaryFolder folder;
  const auto failure = [&](const std::string& body) {
    const Toolchain toolchain({fake_compiler(folder, "cc", body)});
    const BuildError error = fault_of<BuildError>([&] { toolchain.build({.source = "", .parts = 2}, folder.path()); });
    CHECK(error.id() == ErrorId::compile_failed);
    return std::string(error.what());
  };
  CHECK(contains(failure("case \"$*\" in *PART=1*) kill -KILL $$;; esac"), "was ended by signal 9"));
  CHECK(contains(failure("case \"$*\" in *-shared*) echo no part; [ -e part1.o ] || exit 1;; esac"), "no part"));
}

TEST_CASE("a folder that cannot be written is a fault") {
  const TemporaryFolder folder;
  const Toolchain toolchain({fake_compiler(folder, "cc", "")});
  const CompileError error =
      fault_of<CompileError>([&] { toolchain.build({.source = ""}, folder.file("file", "") + "/x"); });
  CHECK(error.id() == ErrorId::cache_unwritable);
  CHECK(contains(error.what(), folder / "file/x/source.cpp"));
}

TEST_CASE("a path of the compiler may have blanks, as it is or in quotes") {
  const TemporaryFolder folder;
  const auto make = [&](const std::string& name) {
    return folder.script(name, "[ \"$1\" = --version ] && echo spaced 1.0\n");
  };
  const std::string spaced = make("my tools/g++ 12/cc"), plain = make("plain"), quoted = make("it's \"one\"/cc");
  const auto words_of = [](const char* name, const std::string& value) {
    const Variable cxx("CXX", std::nullopt), fxx_cxx("FXX_CXX", std::nullopt), set(name, value);
    return Toolchain::find().command();
  };
  using Words = std::vector<std::string>;
  for (const char* name : {"FXX_CXX", "CXX"}) {
    CHECK(words_of(name, spaced) == Words{spaced});
    CHECK(words_of(name, " " + spaced + "  -m64 -DA=1 ") == Words{spaced, "-m64", "-DA=1"});
    CHECK(words_of(name, "\"" + spaced + "\" -m64") == Words{spaced, "-m64"});
    CHECK(words_of(name, "'" + spaced + "' '-DA=b c'") == Words{spaced, "-DA=b c"});
    CHECK(words_of(name, quoted + " -m64") == Words{quoted, "-m64"});
    CHECK(words_of(name, plain + " " + spaced) == Words{plain, folder / "my", "tools/g++", "12/cc"});  // no quotes
    CHECK(words_of(name, plain + " \"" + spaced + "\"") == Words{plain, spaced});
    CHECK(words_of(name, plain + " -DTEXT=\\\"a\\ b\\\"") == Words{plain, "-DTEXT=\"a b\""});
  }
  // The longest is not looked for where the shortest is a program.
  make("my");
  CHECK(words_of("FXX_CXX", spaced) == Words{folder / "my", "tools/g++", "12/cc"});
}
