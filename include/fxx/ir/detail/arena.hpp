// Memory for the nodes of one graph: taken in chunks, given back by size class, freed with the graph.
// Main names: Arena. Allocation and release: O(1). Cost: light.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::detail {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (std::byte* chunk : chunks_) ::operator delete(chunk);
  }

  /// Uninitialised memory, aligned for every type used here. 0 bytes give null.
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
  static constexpr std::size_t alignment = 16, first_chunk = 4096, largest_chunk = std::size_t{1} << 20;

  void* take(std::size_t bytes) {
    if (left_ < bytes) refill(bytes);
    void* block = at_;
    at_ += bytes;
    left_ -= bytes;
    return block;
  }
  void refill(std::size_t bytes) {
    const std::size_t size = bytes > next_chunk_ ? bytes : next_chunk_;
    at_ = static_cast<std::byte*>(::operator new(size));
    left_ = size;
    chunks_.push_back(at_);
    if (next_chunk_ < largest_chunk) next_chunk_ *= 2;
  }

  std::byte* at_ = nullptr;
  std::size_t left_ = 0, next_chunk_ = first_chunk;
  std::vector<std::byte*> chunks_;
  std::vector<Free*> free_;
};

}  // namespace fxx::inline FXX_ABI::detail
