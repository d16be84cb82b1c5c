// Where buffers lie: never two that are alive together in one place, and little more memory than there must be.
#include "fxx/codegen/arena.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/lowered.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/codegen/trials.hpp"
#include "support.hpp"

using namespace fxx;
using plans::Buffer;

namespace {

void add(KernelPlan& plan, int first, int last, std::int64_t elements) {
  Buffer& buffer = plan.buffers.emplace_back();
  buffer.elements = elements;
  buffer.first = first;
  buffer.last = last;
  if (static_cast<int>(plan.steps.size()) <= last) plan.steps.resize(static_cast<std::size_t>(last) + 1);
}
std::int64_t whole(const Buffer& buffer) { return (buffer.bytes() + 63) / 64 * 64; }

/// Places the buffers and looks at all pairs.
void check_places(KernelPlan& plan) {
  place_buffers(plan);
  std::int64_t end = 0, most = 0;
  std::vector<std::int64_t> alive(plan.steps.size());
  bool overlap = false;
  for (const Buffer& a : plan.buffers) {
    if (a.kind != Buffer::Kind::arena || a.first < 0) {
      CHECK(a.offset == -1);
      continue;
    }
    CHECK(a.offset >= 0);
    CHECK(a.offset % 64 == 0);
    end = std::max(end, a.offset + whole(a));
    for (int i = a.first; i <= a.last; ++i) alive[static_cast<std::size_t>(i)] += whole(a);
    for (const Buffer& b : plan.buffers)
      overlap = overlap || (&a != &b && b.offset >= 0 && a.first <= b.last && b.first <= a.last &&
                            a.offset < b.offset + whole(b) && b.offset < a.offset + whole(a));
  }
  CHECK_FALSE(overlap);
  for (std::int64_t bytes : alive) most = std::max(most, bytes);
  CHECK(plan.arena_bytes == end);
  CHECK(plan.live_bytes == most);
  CHECK(plan.arena_bytes >= plan.live_bytes);
}

}  // namespace

TEST_CASE("guarded buffers have memory of their own, with a gap in front and behind") {
  KernelPlan plan;
  for (const int elements : {1, 16, 17, 1000}) add(plan, 0, 0, elements);
  add(plan, 1, 1, 5);
  place_buffers(plan, /*guarded=*/true);
  std::int64_t end = 0;
  for (const Buffer& buffer : plan.buffers) {
    CHECK(buffer.offset % 64 == 0);
    CHECK(buffer.offset >= end + guard_bytes);
    end = buffer.offset + buffer.bytes();
  }
  CHECK(plan.arena_bytes >= end + guard_bytes);
}

TEST_CASE("constants of a guarded plan have gaps behind them; ways are tried with guards, too") {
  test::Net net;
  Node* const x = net.input("x", {5, 70});
  Node* const y = net.call(ops::linear, {x, net.weight("w", {30, 70}), net.weight("b", {30})}, {5, 30});
  net.graph.output(net.call(ops::softmax_int, {y, 1}, {5, 30}));
  const auto has = [](const KernelPlan& plan, const char* words) {
    return specialised_source(plan, "Net").text.find(words) != std::string::npos;
  };
  const KernelPlan plain = net.plan(), guarded = net.plan({.guarded = true});
  for (const char* words : {"kernels/guard.hpp", " + guarded(", "guard(weights + w_at", "guard(weights + b_at"}) {
    CAPTURE(words);
    CHECK_FALSE(has(plain, words));
    CHECK(has(guarded, words));
  }
  std::vector<TrialSite> sites = trial_sites(plain);
  REQUIRE(sites.size() == 1);
  sites[0].ways = {{}};
  CHECK_FALSE(trial_plan(net.graph, net.owner, {}, sites, 1 << 20, false).plan.guarded);
  const KernelPlan trial = trial_plan(net.graph, net.owner, {.guarded = true}, sites, 1 << 20, false).plan;
  CHECK(trial.guarded);
  for (const Buffer& a : trial.buffers)
    for (const Buffer& b : trial.buffers)
      if (&a != &b && a.kind == Buffer::Kind::arena && b.kind == a.kind && a.first >= 0 && b.first >= 0)
        CHECK((a.offset >= b.offset + b.bytes() + guard_bytes || b.offset >= a.offset + a.bytes() + guard_bytes));
}

TEST_CASE("buffers that are alive together never overlap, whatever their lifetimes") {
  test::Random random(7);
  for (int round = 0; round < test::repeats(200, 50); ++round) {
    KernelPlan plan;
    const std::size_t steps = 1 + random.below(40), count = random.below(60);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t first = random.below(steps), length = random.below(random.chance(4) ? steps : 4);
      add(plan, static_cast<int>(first), static_cast<int>(std::min(first + length, steps - 1)),
          static_cast<std::int64_t>(random.below(random.chance(3) ? 100000 : 500)));
      // Some are elsewhere, some nobody uses.
      if (random.chance(8)) plan.buffers.back().kind = Buffer::Kind::output;
      if (random.chance(8)) plan.buffers.back().first = plan.buffers.back().last = -1;
    }
    check_places(plan);
  }
}

TEST_CASE("one after the other share memory, and nothing takes none") {
  KernelPlan plan;
  check_places(plan);
  CHECK(plan.arena_bytes == 0);
  for (int i = 0; i < 10; ++i) add(plan, 2 * i, 2 * i + 1, 1000);
  check_places(plan);
  CHECK(plan.arena_bytes == 4032);
}

TEST_CASE("what networks usually have takes at most a tenth more than is alive at once") {
  KernelPlan images, skips, blocks, dense;
  // Images: in stages, each of half the size; without and with what goes around each block.
  for (int i = 0; i < 40; ++i) {
    const std::int64_t size = std::int64_t{1} << (20 - i / 10);
    add(images, i, i + 1, size);
    add(skips, i, i % 2 ? i + 1 : i + 3, size);
  }
  // Transformers: one value lives on, some are made beside each other and go.
  for (int block = 0; block < 12; ++block) {
    const int at = block * 6;
    add(blocks, at, at + 6, 4096);
    for (int i = 0; i < 3; ++i) add(blocks, at + i, at + 4, 4096);
    add(blocks, at + 4, at + 5, 16384);
  }
  // All layers of a block read what those before them gave.
  for (int block = 0; block < 3; ++block)
    for (int i = 0; i < 8; ++i) {
      add(dense, block * 16 + 2 * i, block * 16 + 16, 1024 << (2 - block));
      add(dense, block * 16 + 2 * i, block * 16 + 2 * i + 1, 4096 << (2 - block));
    }
  for (KernelPlan* plan : {&images, &skips, &blocks, &dense}) {
    check_places(*plan);
    CHECK(static_cast<double>(plan->arena_bytes) <= 1.1 * static_cast<double>(plan->live_bytes));
  }
}

TEST_CASE("buffers of a lowered graph are placed") {
  test::Net net;
  Node* x = net.input("x", {1, 16, 20, 20});
  for (int i = 0; i < 6; ++i) {
    Node* y = net.call(ops::relu, {net.convolution(x, 16)}, {1, 16, 20, 20});
    x = net.call(ops::add_Tensor, {net.convolution(y, 16), x}, {1, 16, 20, 20});
  }
  KernelPlan plan = net.plan_of(x);
  const std::int64_t bytes = plan.arena_bytes;
  for (Buffer& buffer : plan.buffers) buffer.offset = -1;
  check_places(plan);
  CHECK(plan.arena_bytes == bytes);
  CHECK(static_cast<double>(bytes) <= 1.1 * static_cast<double>(plan.live_bytes));
}
