// Threads that compute parts of the same kernels, and the barrier between two steps.
//
// A kernel takes a `Part` and computes its share; the parts of all threads are the whole, Part{} is everything. What is
// loaded owns a Team, which lives as long:
//
//   Team team(2);
//   team.run([&](Part part) {
//     gemm<M, N, K, K>(part, a, weights, ...);   // each thread some rows
//     team.barrier.wait();                       // the next step reads what all of them wrote
//     gemm<M, P, N, N>(part, b, more, ...);
//   });
//
// Who waits spins for some microseconds, so that a barrier takes a tenth of one and starting the team about one; then
// it lets others run, then sleeps. So more threads than processors are slow and do not hang. One thread at a time may
// run a team. A child of fork() has none of its threads: there the caller computes all parts alone, with equal results.
// Main names: Range, Part, Barrier, Team. Cost: light; no headers but the system's.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "fxx/kernels/module.hpp"
#include "fxx/kernels/processor.hpp"

#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// From `begin` up to, and without, `end`.
struct Range {
  int begin, end;
};

/// The share of a thread: number `index` of `count` that are about the same.
struct Part {
  int index = 0, count = 1;

  /// Which of so many items, in whole grains but for the last.
  FXX_KERNEL constexpr Range of(int items, int grain = 1) const {
    if (count == 1) return {0, items};
    const long long grains = (static_cast<long long>(items) + grain - 1) / grain;
    const long long begin = grains * index / count * grain, end = grains * (index + 1) / count * grain;
    return {begin < items ? static_cast<int>(begin) : items, end < items ? static_cast<int>(end) : items};
  }
};

namespace detail_of_parallel {

FXX_KERNEL void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// A number that only grows, and threads that wait until it is large enough.
class alignas(128) Counter {
 public:
  std::uint64_t add() { return __atomic_add_fetch(&value_, 1, __ATOMIC_SEQ_CST); }
  /// After `add`, by whoever reached what others wait for.
  void wake() {
    // Sequentially consistent, as `add` and what sleepers do: either they are seen here, or they see the new number.
    if (__atomic_load_n(&sleepers_, __ATOMIC_SEQ_CST) != 0) wake_sleepers();
  }
  void wait(std::uint64_t target, int spins) {
    // Who waited in vain may share its processor with whom it waits for, so for some times it does not wait long.
    const int short_waits = __atomic_load_n(&short_waits_, __ATOMIC_RELAXED);
    if (short_waits > 0) {
      spins = spins < 72 ? spins : 72;
      __atomic_store_n(&short_waits_, short_waits - 1, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < spins; ++i) {
      if (reached(target)) return;
      if (i >= 64) pause();  // which takes as long as all the rest when the others are nearly there
    }
    if (short_waits <= 0) __atomic_store_n(&short_waits_, 64, __ATOMIC_RELAXED);
    for (int i = 0; i < 50; ++i) {
      if (reached(target)) return;
      sched_yield();
    }
    while (!reached(target)) sleep(target);
  }

 private:
  bool reached(std::uint64_t target) const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE) >= target; }
#if defined(__linux__)
  /// The half of the number that changes with every addition.
  std::uint32_t* changing() {
    return reinterpret_cast<std::uint32_t*>(&value_) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1);
  }
  void sleep(std::uint64_t target) {
    __atomic_add_fetch(&sleepers_, 1, __ATOMIC_SEQ_CST);
    const std::uint64_t now = __atomic_load_n(&value_, __ATOMIC_SEQ_CST);
    if (now < target)
      syscall(SYS_futex, changing(), FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(now), nullptr, nullptr, 0);
    __atomic_sub_fetch(&sleepers_, 1, __ATOMIC_SEQ_CST);
  }
  void wake_sleepers() { syscall(SYS_futex, changing(), FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0); }
#else
  void sleep(std::uint64_t) { sched_yield(); }
  void wake_sleepers() {}
#endif

  std::uint64_t value_ = 0;
  std::uint32_t sleepers_ = 0;
  int short_waits_ = 0;
};

/// Returns how often a thread looks before it lets others run: for about 10 us, and once where there are fewer processors
/// than threads, because the thread that is waited for may need this processor. `processors`: as many as the caller knows
/// that it may use, by a quota for example; 0: it does not know.
inline int spins_for(int threads, int processors = 0) {
  if (processors > 0 && processors < threads) return 1;
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < threads) return 1;
#endif
  return 500;
}

/// Knows whether this is the process that made it, or a child of that one by fork(), which has none of its threads.
/// Asking costs a load: the kernel gives children an empty page in place of this one. Where it cannot, asking costs a
/// system call.
class Birthplace {
 public:
  Birthplace() = default;
  /// This process is the one.
  void note() {
    process_ = getpid();
#if defined(__linux__) && defined(MADV_WIPEONFORK)
    void* const page = mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    // Emulators accept every advice and heed none: one that does not exist tells them from kernels.
    constexpr int no_advice = -1;
    if (madvise(page, 1, no_advice) != 0 && madvise(page, 1, MADV_WIPEONFORK) == 0) {
      mark_ = static_cast<volatile char*>(page);
      *mark_ = 1;
    } else {
      munmap(page, 1);
    }
#endif
  }
  ~Birthplace() {
#if defined(__linux__)
    if (mark_) munmap(const_cast<char*>(mark_), 1);
#endif
  }
  Birthplace(const Birthplace&) = delete;
  Birthplace& operator=(const Birthplace&) = delete;
  bool is_here() const { return mark_ ? *mark_ != 0 : getpid() == process_; }

 private:
  volatile char* mark_ = nullptr;
  pid_t process_ = 0;
};

/// Blocks the signals of the program in this thread, and in those that it starts, until the end of the scope. Those that
/// tell of a fault of the thread itself stay, so that the program's handlers see it, and SIGPROF stays for profilers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    constexpr int of_the_thread[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    for (const int signal : of_the_thread) sigdelset(&blocked, signal);
    done_ = pthread_sigmask(SIG_BLOCK, &blocked, &before_) == 0;
  }
  ~SignalsBlocked() {
    if (done_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
  bool done_;
};

}  // namespace detail_of_parallel

/// All of so many threads wait for each other; what they wrote before, all see behind it.
class Barrier {
 public:
  explicit Barrier(int threads = 1) : threads_(threads), spins_(detail_of_parallel::spins_for(threads)) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  FXX_KERNEL void wait() {
    if (threads_ != 1) wait_for_others();
  }

 private:
  friend class Team;
  void wait_for_others() {
    const std::uint64_t threads = static_cast<std::uint64_t>(threads_), arrived = counter_.add();
    const std::uint64_t target = (arrived + threads - 1) / threads * threads;
    if (arrived == target) counter_.wake();
    else counter_.wait(target, spins_);
  }

  detail_of_parallel::Counter counter_;
  int threads_, spins_;
};

/// Threads that wait for work: the caller's and `threads` - 1 of its own, fewer where they cannot be started. They end
/// in the destructor. In a child of fork() there is the caller alone.
class Team {
 public:
  static constexpr int most = most_threads;

  /// Between steps of what runs.
  Barrier barrier;

  /// `processors`: how many there are to run on, by a quota for example; 0: as many as the system says.
  explicit Team(int threads, int processors = 0) {
    threads = threads < most ? threads : most;
    if (threads < 2) return;
    birthplace_.note();
    barrier.spins_ = detail_of_parallel::spins_for(threads, processors);
    const detail_of_parallel::SignalsBlocked blocked;
    while (barrier.threads_ < threads) {
      Worker& worker = workers_[barrier.threads_ - 1];
      worker.team = this;
      worker.index = barrier.threads_;
      if (pthread_create(&worker.thread, nullptr, &Team::work, &worker) != 0) break;
      ++barrier.threads_;  // none of them looks before there is something to run
    }
  }
  ~Team() {
    if (is_alone()) return;
    body_ = nullptr;
    start_.add();
    start_.wake();
    for (int i = 0; i < size() - 1; ++i) pthread_join(workers_[i].thread, nullptr);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Threads, with the caller's.
  int size() const { return barrier.threads_; }

  /// Runs `body(part, data)` on all threads, and returns when all are done. It throws nothing.
  void run(void (*body)(Part, void*), void* data) {
    if (is_alone()) return body(Part{}, data);
    body_ = body;
    data_ = data;
    ++runs_;
    start_.add();
    start_.wake();
    body(Part{0, size()}, data);
    done_.wait(runs_ * static_cast<std::uint64_t>(size() - 1), barrier.spins_);
  }
  /// The same with whatever can be called with a part.
  template <class Body>
  void run(const Body& body) {
    run([](Part part, void* data) { (*static_cast<const Body*>(data))(part); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  /// Whether the caller has no other threads. A child of fork() forgets those that it does not have.
  bool is_alone() {
    if (barrier.threads_ == 1) return true;
    if (birthplace_.is_here()) [[likely]]
      return false;
    barrier.threads_ = 1;
    return true;
  }
  struct Worker {
    Team* team;
    int index;
    pthread_t thread;
  };
  static void* work(void* data) {
    const Worker& worker = *static_cast<const Worker*>(data);
    Team& team = *worker.team;
    for (std::uint64_t run = 1;; ++run) {
      team.start_.wait(run, team.barrier.spins_);
      if (!team.body_) return nullptr;
      const int threads = team.size();
      team.body_(Part{worker.index, threads}, team.data_);
      if (team.done_.add() == run * static_cast<std::uint64_t>(threads - 1)) team.done_.wake();
    }
  }

  detail_of_parallel::Counter start_, done_;
  detail_of_parallel::Birthplace birthplace_;
  void (*body_)(Part, void*) = nullptr;
  void* data_ = nullptr;
  std::uint64_t runs_ = 0;
  Worker workers_[most - 1];
};

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA
