// Memory for the nodes of one graph: taken in chunks, given back by size class, freed with the graph (large chunks are
// kept for the next graph). Main names: Arena. Allocation and release: O(1). Cost: light.
#pragma once

#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::detail {

/// A piece of memory that arenas take their blocks from.
struct Chunk {
  std::byte* at;
  std::size_t size;
};

/// Large chunks of graphs that are gone, at most 64 of them, for the next ones: memory that is fresh from the system
/// costs a page fault each 4 kB, a third of what rewriting costs in a new graph. Safe from any thread.
class Chunks {
 public:
  static constexpr std::size_t large = std::size_t{1} << 20;
  static constexpr std::align_val_t line{64};  // of a cache, which a node fills

  static Chunks& shared() {
    static Chunks* const chunks = new Chunks;  // never destroyed: graphs in static variables may outlive it
    return *chunks;
  }
  Chunk take(std::size_t size) {
    if (size == large) {
      const std::lock_guard lock(mutex_);
      if (!kept_.empty()) {
        std::byte* const at = kept_.back();
        kept_.pop_back();
        return {at, size};
      }
    }
    return {static_cast<std::byte*>(::operator new(size, line)), size};
  }
  void give_back(const Chunk& chunk) {
    if (chunk.size == large) {
      const std::lock_guard lock(mutex_);
      if (kept_.size() < kept_.capacity()) {
        kept_.push_back(chunk.at);
        return;
      }
    }
    ::operator delete(chunk.at, line);
  }

 private:
  Chunks() {
#if !defined(__SANITIZE_ADDRESS__)  // which has to see what is freed as freed
    kept_.reserve(64);
#endif
  }

  std::mutex mutex_;
  std::vector<std::byte*> kept_;
};

class Arena {
 public:
  /// The first piece of memory that it takes has so many bytes; each next one twice as many, up to Chunks::large.
  explicit Arena(std::size_t first_chunk) : next_chunk_(first_chunk) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (const Chunk& chunk : chunks_) Chunks::shared().give_back(chunk);
  }

  /// Uninitialised memory, aligned for every type used here, and to a cache line where all blocks are multiples of one.
  /// 0 bytes give null.
  void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    const std::size_t unit = (bytes + alignment - 1) / alignment;
    if (unit < free_.size() && free_[unit]) {
      Free* block = free_[unit];
      free_[unit] = block->next;
      return block;
    }
    return take(unit * alignment);
  }
  /// `bytes` as it was allocated.
  void release(void* block, std::size_t bytes) {
    if (!block) return;
    const std::size_t unit = (bytes + alignment - 1) / alignment;
    if (unit >= free_.size()) free_.resize(unit + 1, nullptr);
    free_[unit] = new (block) Free{free_[unit]};
  }
  /// The next so many bytes come from one chunk of just that size: of the usual ones, the last has up to half of all
  /// left. For who knows nearly how much will be taken, before anything is; what is taken beyond it begins small.
  void expect(std::size_t bytes) {
    if (bytes <= left_) return;
    chunks_.push_back(Chunks::shared().take(bytes));
    at_ = chunks_.back().at;
    left_ = bytes;
    next_chunk_ = 1024;
  }
  /// What allocate() takes for so many bytes.
  static constexpr std::size_t taken_by(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
  /// A copy of `text` that lives as long as the arena.
  std::string_view store(std::string_view text) {
    if (text.empty()) return {};
    if (left_ < text.size()) refill(text.size());
    char* to = reinterpret_cast<char*>(at_ + left_ - text.size());  // text from the back, so that it needs no padding
    left_ -= text.size();
    std::memcpy(to, text.data(), text.size());
    return {to, text.size()};
  }
  /// A copy of both, one behind the other.
  std::string_view store(std::string_view text, std::string_view ending) {
    const std::size_t size = text.size() + ending.size();
    if (size == 0) return {};
    if (left_ < size) refill(size);
    char* to = reinterpret_cast<char*>(at_ + left_ - size);
    left_ -= size;
    std::memcpy(to, text.data(), text.size());
    std::memcpy(to + text.size(), ending.data(), ending.size());
    return {to, size};
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t alignment = 16, largest_chunk = Chunks::large;

  void* take(std::size_t bytes) {
    if (left_ < bytes) refill(bytes);
    void* block = at_;
    at_ += bytes;
    left_ -= bytes;
    return block;
  }
  void refill(std::size_t bytes) {
    const std::size_t size = bytes > next_chunk_ ? bytes : next_chunk_;
    chunks_.push_back(Chunks::shared().take(size));
    at_ = chunks_.back().at;
    left_ = size;
    if (next_chunk_ < largest_chunk) next_chunk_ *= 2;
  }

  std::byte* at_ = nullptr;
  std::size_t left_ = 0, next_chunk_;
  std::vector<Chunk> chunks_;
  std::vector<Free*> free_;
};

}  // namespace fxx::inline FXX_ABI::detail
