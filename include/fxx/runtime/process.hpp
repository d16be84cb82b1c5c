// Runs other programs and waits for them: what they printed, how they ended, all within a time limit.
//
// A program is a list of words and is started directly. No shell takes part, so no word needs quoting. It gets an empty
// standard input, none of our open files, default signals, and a process group of its own, which is what a time-out
// ends. That group also ends when this process does, whatever ended it: a shell with a fixed script watches for that,
// one for each call of run_process or run_processes. Safe beside other threads: nothing but system calls runs between
// vfork and exec. Other threads must not change environment variables meanwhile, as for all that reads these.
// Main names: run_process, run_processes, ProcessOptions, ProcessResult, find_program, command_line. Cost: light.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Work of the caller's: `call(data)`, or nothing.
struct Meanwhile {
  void (*call)(void* data) = nullptr;
  void* data = nullptr;
};

struct ProcessOptions {
  std::string working_directory = {};  // empty: ours
  /// Variables set for the program beside those it inherits, or in their place.
  std::vector<std::pair<std::string, std::string>> environment = {};
  double timeout_seconds = 0;                       // 0: no limit
  std::size_t output_limit = std::size_t{1} << 20;  // bytes kept: half from the start, half from the end
  /// Called once, when all programs have been started, and before they are waited for. What it throws ends them. Their
  /// time limit runs on; one that has ended when this returns was in time.
  Meanwhile meanwhile = {};
};

struct ProcessResult {
  int exit_status = -1;  // -1 when a signal ended it
  int signal = 0;        // that signal, or 0
  bool timed_out = false;
  bool cancelled = false;       // it was stopped since another one that ran beside it had failed
  std::string output;           // standard output and error as they came; a line tells of what is left out
  std::size_t output_size = 0;  // bytes printed in all
  double seconds = 0;

  bool ok() const { return exit_status == 0 && !timed_out; }
};

/// Runs `argv` to its end. argv[0] is a path, seen from our current folder, or a name looked for in PATH.
/// A process that the program leaves running behind it is not waited for, nor read from any more.
/// Errors: process_failed (E606) when it cannot be started (it does not exist, is no program, the working directory is
/// missing), or when other code of this process took its exit status. A program that runs and fails is no error.
/// Cost: about 2 ms; no polling while the program prints, a check every 10 ms while it is silent.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// Runs all of them at the same time, each as run_process does, and returns when all have ended: results in their order.
/// As soon as one fails (it ends with another status than 0, by a signal, or runs over the time limit) the others are
/// stopped as a time-out stops them.
/// Errors: as run_process; those that run already are killed then.
std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands,
                                         const ProcessOptions& options = {});

/// How many processors this process may use, at least 1: those of its affinity, no more than the quota of its control
/// groups, rounded up.
int available_processors();

/// Path of an executable file: `name` itself when it has a slash, else the first of that name in PATH. Empty elements
/// of PATH are passed over: no program is ever taken from the current folder because of a stray colon.
std::optional<std::string> find_program(std::string_view name);

/// The words as one would type them in a shell, for messages.
std::string command_line(const std::vector<std::string>& argv);

/// "ended with status 1", "was ended by signal 11 (Segmentation fault)", "ran over its time limit and was
/// stopped after 10 s".
std::string describe(const ProcessResult& result);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/process.ipp"
#endif
