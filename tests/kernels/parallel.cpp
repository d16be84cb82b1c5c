// Parts cover everything once, and threads meet where they should; also built for ThreadSanitizer.
#include "fxx/kernels/parallel.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

using namespace fxx::kernels;

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer cannot follow threads that a child of fork() starts while its parent has some.
constexpr bool children_start_threads = false;
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#elif defined(FXX_EMULATED)
// The emulator, too, ends on an assertion of its own (qemu_plugin_vcpu_init_hook, QEMU 7.2).
constexpr bool children_start_threads = false;
#else
constexpr bool children_start_threads = true;
#endif

TEST_CASE("parts cover all items once, in whole grains, and differ by one grain at most") {
  for (int items = 0; items < 70; ++items)
    for (int grain = 1; grain < 9; ++grain)
      for (int count = 1; count < 9; ++count) {
        int end = 0, least = 1000, most = 0;
        for (int index = 0; index < count; ++index) {
          const Range range = Part{index, count}.of(items, grain);
          CHECK(range.begin == end);
          CHECK(range.end >= range.begin);
          if (range.end != items) CHECK(range.end % grain == 0);
          const int grains = (range.end - range.begin + grain - 1) / grain;
          least = grains < least ? grains : least;
          most = grains > most ? grains : most;
          end = range.end;
        }
        CHECK(end == items);
        CHECK(most - least <= 1);
      }
  static_assert(Part{}.of(17, 4).end == 17);
}

TEST_CASE("a team runs every part once, and the caller's memory is theirs") {
  for (const int threads : {1, 2, 3, 8}) {
    Team team(threads);
    REQUIRE(team.size() == threads);
    std::vector<int> runs(threads);
    for (int i = 0; i < 300; ++i)
      team.run([&](Part part) {
        if (part.count == threads) ++runs[part.index];
      });
    CHECK(runs == std::vector<int>(threads, 300));
  }
}

TEST_CASE("behind the barrier every thread sees what all wrote, also when there are more than processors") {
  for (const int threads : {1, 2, 3, 8}) {
    CAPTURE(threads);
    Team team(threads);
    const int steps = threads == 8 ? 50 : 500;
    std::vector<int> values(threads * 64), wrong(threads);
    for (int i = 0; i < 5; ++i) {
      values.assign(values.size(), 0);
      team.run([&](Part part) {
        for (int step = 1; step <= steps; ++step) {
          values[part.index * 64] = step;
          team.barrier.wait();
          for (int other = 0; other < part.count; ++other) wrong[part.index] += values[other * 64] != step;
          team.barrier.wait();
        }
      });
    }
    CHECK(wrong == std::vector<int>(threads));
  }
}

TEST_CASE("threads that fell asleep are woken, at the start, at a barrier and at the end") {
  Team team(3);
  for (const int late : {0, 1, 2}) {
    int count = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.run([&](Part part) {
      if (part.index == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      team.barrier.wait();
      if (part.index == 0) count = 1;
      team.barrier.wait();
      if (part.index == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (part.index == 1) ++count;
    });
    CHECK(count == 2);
  }
}

TEST_CASE("teams that never ran, and many after each other, end") {
  for (int i = 0; i < 30; ++i) Team team(1 + i % 8);
}

TEST_CASE("parts of as many items as an int counts cover them all") {
  for (const int items : {INT_MAX, INT_MAX - 1, INT_MAX - 15, INT_MAX - 16, INT_MAX - 65536, 1 << 30})
    for (const int grain : {1, 3, 8, 16, 64, 4096})
      for (const int count : {1, 2, 3, 7, 64, 256}) {
        long long covered = 0;
        int end = 0;
        for (int index = 0; index < count; ++index) {
          const Range range = Part{index, count}.of(items, grain);
          if (range.begin != end || range.end < range.begin) FAIL("parts of ", items, " by ", grain, " leave a hole");
          end = range.end;
          covered += range.end - range.begin;
        }
        CHECK(covered == items);
      }
}

namespace {
/// Waits until all other threads sleep. AddressSanitizer holds locks of its own while a thread starts: a child that is
/// made then finds them locked, and nobody there who would unlock them. (The C library unlocks its own in a child.)
void wait_for_other_threads() {
#if defined(__linux__)
  for (int asleep = 0, i = 0; asleep < 3 && i < 2000; ++i) {
    bool all = true;
    DIR* const tasks = ::opendir("/proc/self/task");
    while (const dirent* task = tasks ? ::readdir(tasks) : nullptr) {
      const std::string id = task->d_name;
      std::ifstream file("/proc/self/task/" + id + "/stat");
      std::string line;
      if (id.front() == '.' || id == std::to_string(::syscall(SYS_gettid)) || !std::getline(file, line)) continue;
      all = all && line[line.rfind(')') + 2] == 'S';
    }
    if (tasks) ::closedir(tasks);
    asleep = all ? asleep + 1 : 0;
    ::usleep(all ? 100 : 1000);
  }
#endif
}
/// Whether `f` ends in a child of this process, before the alarm, and is right there.
template <class F>
bool runs_in_child(const F& f) {
  wait_for_other_threads();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(f() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
/// Whether a team computes a sum over steps rightly, however many threads it has.
bool sums_up(Team& team) {
  std::vector<int> values(640), sums(640);
  for (int run = 1; run <= 3; ++run) {
    team.run([&](Part part) {
      const Range mine = part.of(640);
      for (int i = mine.begin; i < mine.end; ++i) values[i] = i * run;
      team.barrier.wait();
      for (int i = mine.begin; i < mine.end; ++i) sums[i] = values[i] + values[639 - i];
    });
    for (const int sum : sums)
      if (sum != 639 * run) return false;
  }
  return true;
}
}  // namespace

TEST_CASE("in a child of fork() a team computes alone, with equal results, and ends") {
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    Team used(threads), unused(threads);
    CHECK(sums_up(used));
    CHECK(runs_in_child([&] {
      // A grandchild, too; and a team of the child's own has all its threads.
      const bool right = sums_up(used) && sums_up(unused) && used.size() == 1;
      const int own_threads = children_start_threads ? threads : 1;
      Team own(own_threads);
      return right && sums_up(own) && own.size() == own_threads &&
             runs_in_child([&] { return sums_up(used) && sums_up(own); });
    }));
    CHECK(runs_in_child([&] {
      Team* const team = new Team(children_start_threads ? threads : 1);
      // Destructors wait for no thread that is not there.
      return runs_in_child([&] {
        used.~Team();
        delete team;
        return true;
      });
    }));
    CHECK(used.size() == threads);
    CHECK(sums_up(used));
    CHECK(sums_up(unused));
  }
}

TEST_CASE("threads of a team block the program's signals, but not those of their own faults, nor the profiler's") {
  Team team(2);
  sigset_t blocked[2];
  team.run([&](Part part) { pthread_sigmask(SIG_SETMASK, nullptr, &blocked[part.index]); });
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
    CHECK(sigismember(&blocked[1], own) == 0);
  for (const int others : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGIO})
    CHECK(sigismember(&blocked[1], others) == 1);
  sigset_t now;  // the caller's are as they were
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  for (int signal = 1; signal < SIGRTMAX; ++signal) CHECK(sigismember(&now, signal) == sigismember(&blocked[0], signal));
}

TEST_CASE("a fault in any thread of a team reaches the handler of the program") {
  for (const int index : {0, 1})
    CHECK(runs_in_child([&] {
      // A new team: those of the parent have no threads here.
      Team team(2);
      struct sigaction action {};
      action.sa_handler = [](int) { ::_exit(0); };
      ::sigaction(SIGFPE, &action, nullptr);
      team.run([&](Part part) {
        if (part.index == index) ::raise(SIGFPE);
        team.barrier.wait();
      });
      return false;
    }));
}
