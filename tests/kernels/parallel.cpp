// Parts cover everything once, and threads meet where they should; also built for ThreadSanitizer.
#include "fxx/kernels/parallel.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

using namespace fxx::kernels;

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
