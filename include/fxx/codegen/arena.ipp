// Bodies of codegen/arena.hpp.
#pragma once

#include <algorithm>

#include "fxx/codegen/arena.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void place_buffers(KernelPlan& plan, bool guarded) {
  using plans::Buffer;
  plan.guarded = guarded;
  if (guarded) {
    plan.arena_bytes = guard_bytes;
    for (Buffer& buffer : plan.buffers)
      if (buffer.kind == Buffer::Kind::arena && buffer.first >= 0) {
        buffer.offset = plan.arena_bytes;
        plan.arena_bytes += (buffer.bytes() + 63) / 64 * 64 + guard_bytes;
      }
    plan.live_bytes = plan.arena_bytes;
    return;
  }
  const auto size = [](const Buffer& b) { return (b.bytes() + 63) / 64 * 64; };
  std::vector<Buffer*> wanted;
  for (Buffer& buffer : plan.buffers)
    if (buffer.kind == Buffer::Kind::arena && buffer.first >= 0) wanted.push_back(&buffer);
  std::stable_sort(wanted.begin(), wanted.end(), [&](const Buffer* a, const Buffer* b) { return size(*a) > size(*b); });
  // What is alive at once is the least that can be.
  std::vector<std::int64_t> change(plan.steps.size() + 1, 0);
  for (const Buffer* buffer : wanted) {
    change[static_cast<std::size_t>(buffer->first)] += size(*buffer);
    change[static_cast<std::size_t>(buffer->last) + 1] -= size(*buffer);
  }
  std::int64_t alive = 0;
  plan.live_bytes = 0;
  for (std::int64_t by : change) plan.live_bytes = std::max(plan.live_bytes, alive += by);

  // The gap that each fills best, in this order; returns the size of all.
  std::vector<const Buffer*> placed;  // by offset
  const auto place_all = [&] {
    std::int64_t total = 0;
    placed.clear();
    for (Buffer* buffer : wanted) {
      std::int64_t at = 0, best = -1, best_gap = 0;
      for (const Buffer* other : placed) {
        if (other->last < buffer->first || other->first > buffer->last) continue;
        if (const std::int64_t gap = other->offset - at; gap >= size(*buffer) && (best < 0 || gap < best_gap)) {
          best = at;
          best_gap = gap;
        }
        at = std::max(at, other->offset + size(*other));
      }
      buffer->offset = best >= 0 ? best : at;
      total = std::max(total, buffer->offset + size(*buffer));
      placed.insert(std::upper_bound(placed.begin(), placed.end(), buffer,
                                     [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; }),
                    buffer);
    }
    return total;
  };
  // What came to lie on top goes first the next time.
  plan.arena_bytes = place_all();
  std::vector<std::int64_t> offsets;
  const auto keep = [&] {
    offsets.clear();
    for (const Buffer& buffer : plan.buffers) offsets.push_back(buffer.offset);
  };
  keep();
  for (int i = 0; i < 100 && plan.arena_bytes > plan.live_bytes + plan.live_bytes / 50; ++i) {
    const auto top = std::max_element(wanted.begin(), wanted.end(), [&](const Buffer* a, const Buffer* b) {
      return a->offset + size(*a) < b->offset + size(*b);
    });
    std::rotate(wanted.begin(), top, top + 1);
    if (const std::int64_t total = place_all(); total < plan.arena_bytes) {
      plan.arena_bytes = total;
      keep();
    }
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) plan.buffers[i].offset = offsets[i];
}

}  // namespace fxx::inline FXX_ABI
