// The C++ compiler of this machine: finds it, knows which one it is, and builds shared libraries with it.
//
// The compiler is a child process with a time limit. What it prints is kept in a file beside the source. A source that
// says so is compiled in parts, by several processes side by side.
// Main names: Toolchain, BuildRequest, BuildError. Cost: light.
#pragma once

#include <string>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/runtime/process.hpp"

namespace fxx::inline FXX_ABI {

/// A shared library to be built from one source text. The compiler runs in a folder of its own: relative folders and
/// libraries in the lists are taken from our current folder; paths inside `flags` should be absolute.
struct BuildRequest {
  std::string source;                   // C++
  std::vector<std::string> flags = {};  // "-std=c++20", "-O3"; `-shared -fPIC` are always given
  std::vector<std::string> include_folders = {};
  std::vector<std::string> library_folders = {};
  std::vector<std::string> libraries = {};  // "torch_cpu", or a path, which has a slash
  std::vector<std::string> rpaths = {};     // may begin with $ORIGIN
  std::vector<std::string> extra = {};      // what else decides the result; only the cache reads it
  double timeout_seconds = 300;             // of all compilers together
  /// The most compilers that are worth running side by side. Where that is more than 1 and there are as many processors,
  /// and memory for them, the source is compiled several times, each with FXX_PARTS defined as how many times and FXX_PART as which (from 0),
  /// and linked. It must give the same library in any number of parts, and without these macros in one.
  int parts = 1;
  /// What fails for nothing but warnings that -Werror makes errors is compiled again without it: no compiler is known
  /// before it is met. The log has both.
  bool forgive_warnings = false;
  /// Called once while the compiler runs, as ProcessOptions says. It tells no requests apart.
  Meanwhile meanwhile = {};
};

/// The compiler ran and built nothing: compile_failed (E602) or compile_timeout (E603). The message holds the first 20
/// lines of the log.
class BuildError : public CompileError {
 public:
  /// `folder`: where source and log are.
  BuildError(std::vector<std::string> argv, ProcessResult result, std::string folder);

  /// As it was run, in `folder()`.
  const std::vector<std::string>& argv() const noexcept { return argv_; }
  /// -1 when a signal ended the compiler.
  int exit_status() const noexcept { return result_.exit_status; }
  const ProcessResult& result() const noexcept { return result_; }
  const std::string& folder() const noexcept { return folder_; }
  std::string source_path() const { return folder_ + "/source.cpp"; }
  /// All that the compiler printed, where CompileError::log() has the lines of the message.
  const std::string& log() const noexcept { return result_.output; }

 private:
  std::vector<std::string> argv_;
  ProcessResult result_;
  std::string folder_;
};

class Toolchain {
 public:
  /// The compiler that the variable FXX_CXX names; else CXX, when it names one that exists; else the first of c++, g++
  /// and clang++ in PATH. The variables may hold arguments, separated by blanks: "ccache g++ -m64". A path with blanks
  /// may stand as it is or in quotes: "/opt/my tools/g++ -m64". Programs with more rights than their user (setuid) do not
  /// look at variables, nor at PATH.
  /// Errors: compiler_missing (E601), which says what was looked for.
  /// Cost: a few file look-ups; once in a process and compiler, `--version` is run.
  static Toolchain find();
  /// A compiler by its words, as FXX_CXX would name it. Errors and cost as for find().
  explicit Toolchain(std::vector<std::string> command);

  const std::vector<std::string>& command() const { return command_; }
  /// First line of what `--version` prints; empty when it fails.
  const std::string& version() const { return version_; }
  /// Tells compilers apart: the command, the version, and for every program in the command its resolved path, size and
  /// time of change.
  const std::string& identity() const { return identity_; }

  /// The command that builds `library`, a file name, from source.cpp in the current folder, all parts in one. It also
  /// writes headers.d.
  std::vector<std::string> build_command(const BuildRequest& request, const std::string& library) const;
  /// The commands that build it in `parts` parts, to be run side by side: each compiles its own to a file that
  /// link_command names. The first also writes headers.d.
  std::vector<std::vector<std::string>> part_commands(const BuildRequest& request, int parts) const;
  /// The command that makes `library` of what these left.
  std::vector<std::string> link_command(const BuildRequest& request, int parts, const std::string& library) const;

  /// Writes source.cpp into `folder`, which exists, builds `library` there, and keeps the compiler's words in `log`. A
  /// part that fails stops the others; the error is about that one.
  /// Errors: BuildError; cache_unwritable (E604) when files cannot be written there.
  void build(const BuildRequest& request, const std::string& folder, const std::string& library = "module.so") const;

 private:
  std::vector<std::string> compiler_words(const BuildRequest& request, std::vector<std::string> mode) const;

  std::vector<std::string> command_;
  std::string version_, identity_;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/toolchain.ipp"
#endif
