// Bodies of runtime/process.hpp.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>

#include "fxx/error.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/limits.hpp"
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

/// Copies of the variables that we have, with `changes` on top, as "name=value". A program with more rights than its user
/// passes on none of the user's: compilers load what some of them name. Where another thread changes variables at this
/// time, no program can read them safely; copies make that time short.
FXX_INLINE std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> out;
  const auto is_changed = [&](std::string_view name) {
    return std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == name; });
  };
  const bool privileged = files::is_privileged();
  for (char** entry = environ; !privileged && entry && *entry; ++entry) {
    const std::string_view text(*entry);
    if (!is_changed(text.substr(0, text.find('=')))) out.emplace_back(text);
  }
  if (privileged && !is_changed("PATH")) out.emplace_back("PATH=/usr/local/bin:/usr/bin:/bin");
  for (const auto& [name, value] : changes) out.push_back(name + "=" + value);
  return out;
}

/// Pointers to texts, with a null behind them, as exec wants them.
FXX_INLINE std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

[[noreturn]] FXX_INLINE void process_failed(const std::string& text) {
  throw CompileError(ErrorId::process_failed, "run_process: " + text);
}

/// All that a new process needs to become a program, made before it is there.
struct Start {
  const char* program;
  char* const* words;
  char* const* variables;
  const char* folder;  // null: ours
  int input = -1;      // -1: an empty one
  int output = -1;     // also for errors; -1: nowhere
  int supervisor = -1;  // is told the number of the process, or -1
};

/// What the new process does, which shares our memory until it is a program: system calls, and nothing else. Returns the
/// error of the one that failed.
FXX_INLINE int become(const Start& start) {
  if (::setpgid(0, 0) != 0) return errno;
  // Signals are blocked, so no handler of ours runs here.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &usual, nullptr);
  if (start.supervisor >= 0) {
    // "+1234": before anything else of it can be left behind.
    char text[16], *at = text + sizeof text;
    *--at = '\n';
    for (auto id = static_cast<unsigned>(::getpid()); id != 0; id /= 10) *--at = static_cast<char>('0' + id % 10);
    *--at = '+';
    ::send(start.supervisor, at, static_cast<std::size_t>(text + sizeof text - at), MSG_NOSIGNAL);
  }
  // Ours may have the numbers 0 to 2: these are moved out of the way first.
  const auto away = [](int file) { return file >= 0 && file < 3 ? ::fcntl(file, F_DUPFD_CLOEXEC, 3) : file; };
  int input = away(start.input), output = away(start.output);
  if (input < 0) input = ::open("/dev/null", O_RDONLY);
  if (output < 0) output = ::open("/dev/null", O_WRONLY);
  if (input < 0 || output < 0) return errno;
  // dup2 to the same number would keep close-on-exec.
  input = away(input);
  output = away(output);
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) return errno;
  if (start.folder && ::chdir(start.folder) != 0) return errno;
  // Files that other code opened without close-on-exec: a server that the program leaves behind would hold them open.
#if defined(SYS_close_range)
  if (::syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
#endif
    for (int file = 3; file < 1024; ++file) ::close(file);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(start.program, start.words, start.variables);
  return errno;
}

/// Starts the process; its number, or minus an errno. This thread waits until it is a program. vfork, as posix_spawn does
/// inside, because forking a large program is slow, and because the process must say who it is before it becomes the
/// program, which posix_spawn cannot.
[[gnu::noinline]] FXX_INLINE pid_t start_process(const Start* start, volatile int* error) {
  const pid_t id = ::vfork();
  if (id == 0) {
    *error = become(*start);
    ::_exit(127);
  }
  return id < 0 ? -errno : id;
}

/// Tells a supervisor that a group is to be left alone, before its number can become another one's.
FXX_INLINE void forget_group(int supervisor, pid_t group) {
  if (supervisor < 0) return;
  const std::string text = "-" + std::to_string(group) + "\n";
  ::send(supervisor, text.data(), text.size(), MSG_NOSIGNAL);
}

FXX_INLINE pid_t start_process(const Start& start) {
  sigset_t all, before;
  ::sigfillset(&all);
  volatile int error = 0;
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t id = start_process(&start, &error);
  if (error != 0) {
    int status = 0;
    forget_group(start.supervisor, id);
    while (::waitpid(id, &status, 0) < 0 && errno == EINTR) continue;
    id = -error;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return id;
}

/// A small program that ends the process groups of a run when this process is no more, however it ended: an interrupt
/// from the terminal reaches only this process, and being killed leaves it no time. It learns the groups from the
/// processes themselves, before they are programs, and reads what it is told to the end before it acts, so none is
/// missed. It waits on a socket whose other end closes with this process. Where it cannot be started, all else works.
class Supervisor {
 public:
  Supervisor() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    files::Descriptor ours(ends[0]);
    const files::Descriptor its(ends[1]);
    // Signals from the terminal are not for it: it has to outlive what it looks after.
    static const std::string script =
        "trap '' HUP INT QUIT TERM; groups=\n"
        "while read -r word; do case $word in\n"
        "+*) groups=\"$groups -${word#+}\";;\n"
        "-*) left=; for group in $groups; do [ \"$group\" = \"$word\" ] || left=\"$left $group\"; done; groups=$left;;\n"
        "esac; done\n"
        "[ -n \"$groups\" ] || exit 0\n"
        "kill -s TERM -- $groups; sleep 1; kill -s KILL -- $groups\n";
    const std::vector<std::string> words = {"/bin/sh", "-c", script}, variables = {"PATH=/usr/bin:/bin"};
    const std::vector<char*> argv = pointers_to(words), environment = pointers_to(variables);
    id_ = start_process({.program = "/bin/sh",
                         .words = argv.data(),
                         .variables = environment.data(),
                         .folder = "/",
                         .input = its.get()});
    if (id_ > 0) socket_ = std::move(ours);
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
  }
  /// For the processes to say who they are, or -1.
  int socket() const { return socket_.get(); }

 private:
  pid_t id_ = -1;
  files::Descriptor socket_;
};

FXX_INLINE pid_t spawn(const std::string& program, const std::vector<std::string>& argv, const ProcessOptions& options,
                       int output, const Supervisor& supervisor) {
  const std::vector<char*> words = pointers_to(argv);
  const std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> variables = pointers_to(environment);
  const pid_t id = start_process(
      {.program = program.c_str(),
       .words = words.data(),
       .variables = variables.data(),
       .folder = options.working_directory.empty() ? nullptr : options.working_directory.c_str(),
       .output = output,
       .supervisor = supervisor.socket()});
  if (id < 0)
    process_failed("'" + argv[0] + "' cannot be started: " + files::error_text(-id) + "; " + program +
                   " must be a program of this machine. Command: " + command_line(argv).substr(0, 2000));
  return id;
}

/// A started program, the leader of its process group. One that is not reaped in the end is killed with its group.
class Child {
 public:
  Child(pid_t id, const Supervisor& supervisor) : id_(id), supervisor_(supervisor) {}
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
    forget_group(supervisor_.socket(), id_);
    pid_t got = 0;
    do got = ::waitpid(id_, &status, 0);
    while (got < 0 && errno == EINTR);
    return got == id_;
  }

 private:
  pid_t id_;
  const Supervisor& supervisor_;
  bool reaped_ = false;
};

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
  const char* path = files::variable("PATH");
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
  const char* variable = files::variable("PATH");
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
  long count = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
#if defined(__linux__)
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (::sched_getaffinity(0, sizeof processors, &processors) == 0) count = std::max(1, CPU_COUNT(&processors));
#endif
  if (const double quota = resource_limits().processors; quota > 0)
    count = std::clamp(static_cast<long>(std::ceil(std::min(quota, 1e6))), 1L, count);
  return static_cast<int>(count);
}

namespace detail {

/// A program from its start to its result.
class Running {
 public:
  Running(const std::vector<std::string>& argv, const ProcessOptions& options, const Supervisor& supervisor)
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
    child_.emplace(spawn(program, argv, options, to_us.get(), supervisor), supervisor);
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
  const detail::Supervisor supervisor;  // ends after all of them
  std::deque<detail::Running> all;
  for (const auto& argv : commands) all.emplace_back(argv, options, supervisor);
  if (options.meanwhile.call) options.meanwhile.call(options.meanwhile.data);

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
