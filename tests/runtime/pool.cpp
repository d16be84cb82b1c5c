// What is taken is one caller's alone, comes back, and is not made more often than it has to be; from many threads, also
// with the thread sanitizer.
#include "fxx/runtime/pool.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

using fxx::Pool;

namespace {
struct Thing {
  static inline std::atomic<int> alive = 0;
  int number = 0;  // no atomic: only who has the thing touches it
  Thing() { ++alive; }
  ~Thing() { --alive; }
};
std::unique_ptr<Thing> make() { return std::make_unique<Thing>(); }
}  // namespace

TEST_CASE("what was given back is taken again; what somebody has, nobody else gets") {
  Pool<Thing> pool;
  Thing* first = pool.take(make);
  Thing* second = pool.take(make);
  CHECK(first != second);
  pool.give(first);
  CHECK(pool.take(make) == first);
  pool.give(second);
  pool.give(first);
  CHECK(std::set{pool.take(make), pool.take(make)} == std::set{first, second});
  CHECK(pool.size() == 2);
  CHECK(Thing::alive == 2);
}

TEST_CASE("many are given back and taken; some are kept, the others end; all with the pool, or when it is cleared") {
  {
    Pool<Thing> pool;
    std::set<Thing*> taken;
    for (int i = 0; i < 40; ++i) taken.insert(pool.take(make));
    CHECK(taken.size() == 40);
    CHECK(pool.taken() == 40);
    for (Thing* thing : taken) pool.give(thing);
    const std::size_t kept = Pool<Thing>::most_idle + 1;  // and the one in the place of this thread
    CHECK(pool.size() == kept);
    CHECK(pool.taken() == 0);
    CHECK(Thing::alive == static_cast<int>(kept));
    std::set<Thing*> again;
    for (std::size_t i = 0; i < kept; ++i) again.insert(pool.take(make));
    CHECK(pool.size() == kept);  // none was made
    for (Thing* thing : again) CHECK(taken.contains(thing));
    Thing* const one_more = pool.take(make);
    for (Thing* thing : again) pool.give(thing);
    pool.trim();
    CHECK(pool.size() == 1);
    CHECK(pool.taken() == 1);
    CHECK(Thing::alive == 1);
    pool.give(one_more);
    pool.clear();
    CHECK(Thing::alive == 0);
    CHECK(pool.size() == 0);
    pool.give(pool.take(make));
    CHECK(Thing::alive == 1);
  }
  CHECK(Thing::alive == 0);
}

TEST_CASE("when none can be made, the error passes and the pool is as before") {
  Pool<Thing> pool;
  Thing* only = pool.take(make);
  CHECK_THROWS_AS(pool.take([]() -> std::unique_ptr<Thing> { throw std::runtime_error("no memory"); }),
                  std::runtime_error);
  CHECK(pool.size() == 1);
  pool.give(only);
  CHECK(pool.take(make) == only);
}

TEST_CASE("one thread after the other: one thing does for all of them") {
  Pool<Thing> pool;
  for (int i = 0; i < 50; ++i) std::thread([&] { pool.give(pool.take(make)); }).join();
  CHECK(pool.size() == 1);
}

TEST_CASE("many threads at once: each has its own, and nobody's count is lost") {
  Pool<Thing> pool;
  constexpr int threads = 12, turns = 3000;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      for (int i = 0; i < turns; ++i) {
        Thing* thing = pool.take(make);
        ++thing->number;
        pool.give(thing);
      }
    });
  for (std::thread& worker : workers) worker.join();
  const std::size_t size = pool.size();
  CHECK(size <= threads + 8);
  int sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += pool.take(make)->number;
  CHECK(pool.size() == size);  // all had been given back
  CHECK(sum == threads * turns);
}

TEST_CASE("a child of fork() takes and gives, whatever other threads of the parent did meanwhile") {
  Pool<Thing> pool;
  std::atomic<bool> done = false;
  std::vector<std::thread> workers;
  for (int t = 0; t < 4; ++t)
    workers.emplace_back([&] {
      while (!done) {
        Thing* many[12];
        for (Thing*& thing : many) thing = pool.take(make);  // more than have a place: the lock is taken all the time
        for (Thing* thing : many) pool.give(thing);
      }
    });
  int ended = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      Thing* things[20];
      for (Thing*& thing : things) thing = pool.take(make);
      for (Thing* thing : things) pool.give(thing);
      ::_exit(0);
    }
    int status = 0;
    ended += ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  done = true;
  for (std::thread& worker : workers) worker.join();
  CHECK(ended == 50);
}
