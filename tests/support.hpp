// What the tests share: faults as values to look at, and a repeatable source of random numbers.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

#include "fxx/error.hpp"

namespace fxx::test {

/// A fault that was thrown; `id` is 0 when nothing was.
struct Fault {
  int id = 0;
  std::string text, node;
  bool says(std::string_view words) const { return text.find(words) != text.npos; }
};

/// What `f` throws of this class. Anything else that it throws passes through and fails the test.
template <class Class = Error, class F>
Fault fault_of(F&& f) {
  try {
    f();
  } catch (const Class& e) {
    return {static_cast<int>(e.id()), e.what(), e.node()};
  }
  return {};
}

/// Numbers that are the same on every machine and in every run (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// At least 0, below `bound`.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

 private:
  std::uint64_t state_;
};

/// Whether `f` gives true in a process of its own: a crash there, or a loop without end, is false and stops no other
/// test.
template <class F>
bool holds_in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL})
      std::signal(signal, SIG_DFL);  // doctest would report it as its own
    alarm(300);
    _exit(f() ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// How often to repeat what would take too long under the sanitizers.
constexpr int repeats(int plain, int sanitized) {
#if defined(__SANITIZE_ADDRESS__)
  return sanitized + 0 * plain;
#else
  return plain + 0 * sanitized;
#endif
}

}  // namespace fxx::test
