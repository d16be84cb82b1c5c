// Things of which each is one caller's at a time, kept for the next: what a call needs and would be dear to make anew.
//
// A thread that comes again finds what it gave back in a place of its own, with an atomic exchange each way and no lock
// (10 ns together). There are as many things as callers at the same time, of which races can make a few more: eight
// at most.
// Main names: Pool. Cost: light.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Any number of threads may take and give back.
template <class T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// One that nobody has; else what `make` returns, a std::unique_ptr. What that throws, passes.
  template <class Make>
  T* take(const Make& make) {
    if (T* mine = place_of_thread().exchange(nullptr, std::memory_order_acquire)) [[likely]]
      return mine;
    if (T* other = take_any()) return other;
    auto made = make();
    const std::lock_guard lock(mutex_);
    idle_.reserve(all_.size() + 1);  // so that give() throws nothing
    all_.push_back(std::move(made));
    return all_.back().get();
  }
  /// Of what take() returned, once.
  void give(T* thing) {
    T* nothing = nullptr;
    if (place_of_thread().compare_exchange_strong(nothing, thing, std::memory_order_release, std::memory_order_relaxed))
        [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(thing);
  }
  /// Ends all of them; nobody has one.
  void clear() {
    for (Place& place : places_) place.idle.store(nullptr, std::memory_order_relaxed);
    idle_.clear();
    all_.clear();
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  static constexpr unsigned bits = 3;
  struct alignas(64) Place {  // a line of the cache
    std::atomic<T*> idle = nullptr;
  };
  std::atomic<T*>& place_of_thread() {
    // Threads' own variables lie apart, so where one lies tells the thread.
    static thread_local char own;
    const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&own)) >> 6;
    return places_[number * 0x9e3779b97f4a7c15u >> (64 - bits)].idle;
  }
  /// Also what other threads gave back.
  T* take_any() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        T* thing = idle_.back();
        idle_.pop_back();
        return thing;
      }
    }
    for (Place& place : places_)
      if (T* thing = place.idle.exchange(nullptr, std::memory_order_acquire)) return thing;
    return nullptr;
  }

  Place places_[1u << bits];
  mutable std::mutex mutex_;  // guards the two below
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> idle_;
};

}  // namespace fxx::inline FXX_ABI
