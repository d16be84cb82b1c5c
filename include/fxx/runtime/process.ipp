// Bodies of runtime/process.hpp.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "fxx/error.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/process.hpp"

extern "C" char** environ;

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE double monotonic_seconds() {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

FXX_INLINE void sleep_seconds(double seconds) {
  struct timespec pause {};
  pause.tv_sec = static_cast<time_t>(seconds);
  pause.tv_nsec = static_cast<long>(1e9 * (seconds - static_cast<double>(pause.tv_sec)));
  ::nanosleep(&pause, nullptr);
}

/// Seconds without needless digits: "10", "0.25".
FXX_INLINE std::string seconds_text(double seconds) {
  const auto thousandths = static_cast<long long>(1000 * seconds + 0.5);
  std::string text = std::to_string(thousandths / 1000);
  if (thousandths % 1000) {
    std::string fraction = std::to_string(1000 + thousandths % 1000).substr(1);
    fraction.erase(fraction.find_last_not_of('0') + 1);
    text += '.' + fraction;
  }
  return text;
}

FXX_INLINE bool is_program(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

/// Keeps the first and the last part of what is appended.
class OutputKeeper {
 public:
  explicit OutputKeeper(std::size_t limit) : head_limit_(limit - limit / 2), tail_limit_(limit / 2) {}

  void append(const char* data, std::size_t size) {
    size_ += size;
    const std::size_t first = std::min(size, head_limit_ - head_.size());
    head_.append(data, first);
    tail_.append(data + first, size - first);
    if (tail_.size() > 2 * tail_limit_ + 4096) tail_.erase(0, tail_.size() - tail_limit_);
  }
  std::size_t size() const { return size_; }
  std::string take() {
    if (tail_.size() > tail_limit_) tail_.erase(0, tail_.size() - tail_limit_);
    const std::size_t left_out = size_ - head_.size() - tail_.size();
    if (left_out) head_ += "\n[... " + std::to_string(left_out) + " bytes left out ...]\n";
    return std::move(head_ += tail_);
  }

 private:
  std::size_t head_limit_, tail_limit_, size_ = 0;
  std::string head_, tail_;
};

/// What posix_spawn is told, freed again.
struct SpawnSettings {
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

/// A started program, the leader of its process group. One that is not reaped in the end is killed with its group.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (reaped_) return;
    signal_group(SIGKILL);
    int status = 0;
    reap(status);
  }

  /// Has it ended? It is not reaped here: as long as it is not, its number cannot become another group's.
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == id_;
  }
  void signal_group(int number) const { ::kill(-id_, number); }
  /// False when somebody else has taken the status.
  bool reap(int& status) {
    reaped_ = true;
    pid_t got = 0;
    do got = ::waitpid(id_, &status, 0);
    while (got < 0 && errno == EINTR);
    return got == id_;
  }

 private:
  pid_t id_;
  bool reaped_ = false;
};

/// Reads what there is. False at the end of the stream. At most `rounds` pieces, for a writer that never stops.
FXX_INLINE bool read_available(int pipe, OutputKeeper& output, int rounds = 16) {
  char buffer[16384];
  for (; rounds > 0; --rounds) {
    const ssize_t got = ::read(pipe, buffer, sizeof buffer);
    if (got > 0) output.append(buffer, static_cast<std::size_t>(got));
    else if (got == 0) return false;
    else if (errno != EINTR) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

/// The variables that we have, with `changes` on top. The texts belong to us and to `changes` and `kept`.
FXX_INLINE std::vector<char*> merged_environment(const std::vector<std::pair<std::string, std::string>>& changes,
                                                 std::vector<std::string>& kept) {
  for (const auto& [name, value] : changes) kept.push_back(name + "=" + value);
  std::vector<char*> out;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (std::none_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == name; }))
      out.push_back(*entry);
  }
  for (std::string& entry : kept) out.push_back(entry.data());
  out.push_back(nullptr);
  return out;
}

[[noreturn]] FXX_INLINE void process_failed(const std::string& text) {
  throw CompileError(ErrorId::process_failed, "run_process: " + text);
}

FXX_INLINE pid_t spawn(const std::string& program, const std::vector<std::string>& argv, const ProcessOptions& options,
                       int output) {
  SpawnSettings settings;
  auto& actions = settings.actions;
  int error = ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  if (!error) error = ::posix_spawn_file_actions_adddup2(&actions, output, 2);
  if (!error && !options.working_directory.empty())
    error = ::posix_spawn_file_actions_addchdir_np(&actions, options.working_directory.c_str());
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
  // Files that other code opened without close-on-exec: a server that the program leaves behind would hold them open.
  if (!error) error = ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
#endif
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::sigdelset(&all, SIGKILL);
  ::sigdelset(&all, SIGSTOP);
  auto& attributes = settings.attributes;
  if (!error) error = ::posix_spawnattr_setpgroup(&attributes, 0);
  if (!error) error = ::posix_spawnattr_setsigmask(&attributes, &none);
  if (!error) error = ::posix_spawnattr_setsigdefault(&attributes, &all);
  if (!error)
    error =
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<std::string> kept;
  kept.reserve(options.environment.size());
  const std::vector<char*> variables = merged_environment(options.environment, kept);
  pid_t id = -1;
  if (!error) error = ::posix_spawn(&id, program.c_str(), &actions, &attributes, words.data(), variables.data());
  if (error)
    process_failed("'" + argv[0] + "' cannot be started: " + files::error_text(error) + "; " + program +
                   " must be a program of this machine. Command: " + command_line(argv).substr(0, 2000));
  return id;
}

/// The file to start for argv[0].
FXX_INLINE std::string program_of(const std::vector<std::string>& argv, const ProcessOptions& options) {
  if (argv.empty() || argv[0].empty()) process_failed("no program is named; argv needs a first word");
  const auto has_zero = [](const std::string& text) { return text.find('\0') != text.npos; };
  if (std::any_of(argv.begin(), argv.end(), has_zero) || has_zero(options.working_directory))
    process_failed("a word for '" + std::string(argv[0].c_str()) + "' holds a zero byte; no program can receive one");
  for (const auto& [name, value] : options.environment)
    if (name.empty() || name.find('=') != name.npos || has_zero(name) || has_zero(value))
      process_failed(
          "'" + std::string(name.c_str()) +
          "' cannot be an environment variable; a name has no '=' and is not empty, and neither it nor the value "
          "holds a zero byte");
  if (!options.working_directory.empty() && !files::is_folder(options.working_directory))
    process_failed("the working directory '" + options.working_directory + "' is not a folder; create it first");
  std::optional<std::string> program = find_program(argv[0]);
  if (program) return files::absolute_path(*program);
  if (argv[0].find('/') != argv[0].npos) {
    struct stat status {};
    process_failed("'" + argv[0] + "' cannot be started: " +
                   (::stat(argv[0].c_str(), &status) != 0 ? files::error_text(errno) : "it is not an executable file") +
                   "; give the path of a program");
  }
  const char* path = ::getenv("PATH");
  process_failed("'" + argv[0] + "' cannot be started: no program of this name is in PATH=" +
                 (path ? path : "(not set)") + "; install it or give its path");
}

}  // namespace detail

FXX_INLINE std::optional<std::string> find_program(std::string_view name) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != name.npos) {
    std::string path(name);
    return detail::is_program(path) ? std::optional(std::move(path)) : std::nullopt;
  }
  const char* variable = ::getenv("PATH");
  std::string_view folders = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const std::size_t colon = folders.find(':');
    const std::string_view folder = folders.substr(0, colon);
    folders = colon == folders.npos ? std::string_view{} : folders.substr(colon + 1);
    if (folder.empty()) continue;
    std::string path(folder);
    if (!path.ends_with('/')) path += '/';
    path += name;
    if (detail::is_program(path)) return path;
  }
  return std::nullopt;
}

FXX_INLINE std::string command_line(const std::vector<std::string>& argv) {
  std::string out;
  for (const std::string& word : argv) {
    if (!out.empty()) out += ' ';
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+=./,:@%") == word.npos;
    if (plain) {
      out += word;
      continue;
    }
    out += '\'';
    for (char c : word) c == '\'' ? out += "'\\''" : out += c;
    out += '\'';
  }
  return out;
}

FXX_INLINE std::string describe(const ProcessResult& result) {
  if (result.timed_out)
    return "ran over its time limit and was stopped after " + detail::seconds_text(result.seconds) + " s";
  if (result.signal == 0) return "ended with status " + std::to_string(result.exit_status);
  const char* name = ::strsignal(result.signal);
  return "was ended by signal " + std::to_string(result.signal) + (name ? " (" + std::string(name) + ")" : "");
}

FXX_INLINE int available_processors() {
#if defined(__linux__)
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (::sched_getaffinity(0, sizeof processors, &processors) == 0) return std::max(1, CPU_COUNT(&processors));
#endif
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

namespace detail {

/// A program from its start to its result.
class Running {
 public:
  Running(const std::vector<std::string>& argv, const ProcessOptions& options)
      : program_(argv.empty() ? "" : argv[0]), output_(options.output_limit) {
    const std::string program = program_of(argv, options);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
      process_failed("'" + argv[0] + "' cannot be started: no pipe for its output, " + files::error_text(errno) +
                     "; close files or raise their limit");
    from_program_ = files::Descriptor(ends[0]);
    const files::Descriptor to_us(ends[1]);
    ::fcntl(from_program_.get(), F_SETFL, O_NONBLOCK);
    start_ = monotonic_seconds();
    child_.emplace(spawn(program, argv, options, to_us.get()));
  }

  bool running() const { return running_; }
  bool has_ended() const { return child_->has_ended(); }
  /// Where there may be something to read, or -1 when its output is closed.
  int pipe() const { return open_ ? from_program_.get() : -1; }
  void read() { open_ = read_available(from_program_.get(), output_); }
  const ProcessResult& result() const { return result_; }
  ProcessResult& result() { return result_; }

  bool is_late(double now, double limit) const { return limit > 0 && now - start_ >= limit; }
  bool is_stopped() const { return result_.timed_out || result_.cancelled; }
  /// First politely, so that a compiler removes its temporary files.
  void stop(double now) {
    stopped_ = now;
    child_->signal_group(SIGTERM);
  }
  /// Ends one that does not heed that.
  void press(double now) {
    constexpr double grace = 0.5;
    if (is_stopped() && now - stopped_ >= grace) child_->signal_group(SIGKILL);
  }
  /// Of one that has ended.
  void finish() {
    running_ = false;
    if (is_stopped()) child_->signal_group(SIGKILL);  // those of the group that did not heed the first signal
    read_available(from_program_.get(), output_, 128);
    int status = 0;
    if (!child_->reap(status))
      process_failed("the exit status of '" + program_ +
                     "' was taken by other code; this process must not ignore SIGCHLD, nor wait for children that it "
                     "did not start");
    from_program_.close();
    result_.seconds = monotonic_seconds() - start_;
    if (WIFEXITED(status)) result_.exit_status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
    result_.output_size = output_.size();
    result_.output = output_.take();
  }

 private:
  std::string program_;
  files::Descriptor from_program_;
  double start_ = 0, stopped_ = 0;
  bool open_ = true, running_ = true;
  ProcessResult result_;
  OutputKeeper output_;
  std::optional<Child> child_;
};

}  // namespace detail

FXX_INLINE ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  return std::move(run_processes({argv}, options)[0]);
}

FXX_INLINE std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands,
                                                    const ProcessOptions& options) {
  std::deque<detail::Running> all;
  for (const auto& argv : commands) all.emplace_back(argv, options);

  constexpr double shortest_pause = 50e-6, longest_pause = 10e-3;
  double pause = shortest_pause;
  for (;;) {
    bool failed = false;
    for (detail::Running& one : all) {
      if (one.running() && one.has_ended()) {
        one.finish();
        pause = shortest_pause;
      }
      failed = failed || (!one.running() && !one.result().ok()) || one.result().timed_out;
    }
    const double now = detail::monotonic_seconds();
    std::vector<struct pollfd> events;
    bool waits_for_end = false, done = true;
    for (detail::Running& one : all) {
      if (!one.running()) continue;
      done = false;
      if (!one.is_stopped()) {
        if (one.is_late(now, options.timeout_seconds)) {
          one.result().timed_out = failed = true;
          one.stop(now);
        } else if (failed) {
          one.result().cancelled = true;
          one.stop(now);
        }
      }
      one.press(now);
      if (one.pipe() >= 0) events.push_back({one.pipe(), POLLIN, 0});
      else waits_for_end = true;
    }
    if (done) break;
    if (waits_for_end) {
      // An output is closed, so the end is near.
      detail::sleep_seconds(pause);
      pause = std::min(2 * pause, longest_pause);
    }
    if (events.empty() ||
        ::poll(events.data(), events.size(), waits_for_end ? 0 : static_cast<int>(1000 * longest_pause)) <= 0)
      continue;
    for (const struct pollfd& event : events)
      if (event.revents != 0)
        for (detail::Running& one : all)
          if (one.running() && one.pipe() == event.fd) one.read();
  }
  std::vector<ProcessResult> results;
  for (detail::Running& one : all) results.push_back(std::move(one.result()));
  return results;
}

}  // namespace fxx::inline FXX_ABI
