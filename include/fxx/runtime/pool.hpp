// Things of which each is one caller's at a time, kept for the next: what a call needs and would be dear to make anew.
//
// A thread that comes again finds what it gave back in a place of its own, with an atomic exchange each way and no lock
// (10 ns together). There are as many things as callers at the same time, of which races can make a few more: eight
// at most. When these have gone, `most_idle` are kept beside those in threads' places, and the others end.
// Main names: Pool. Cost: light.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Any number of threads may take and give back, also in a child of fork() while other threads of the parent did so.
template <class T>
class Pool {
 public:
  /// How many are kept that nobody has, beside one in each of the places of threads.
  static constexpr std::size_t most_idle = 8;

  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// One that nobody has; else what `make` returns, a std::unique_ptr. What that throws, passes.
  template <class Make>
  T* take(const Make& make) {
    if (T* mine = place_of_thread().exchange(nullptr, std::memory_order_acquire)) [[likely]]
      return mine;
    if (T* other = take_any()) return other;
    std::unique_ptr<T> made = make();
    const Lock lock(*this);
    idle_.reserve(most_idle);  // so that give() throws nothing
    all_.push_back(std::move(made));
    return all_.back().get();
  }
  /// Of what take() returned, once.
  void give(T* thing) {
    T* nothing = nullptr;
    if (place_of_thread().compare_exchange_strong(nothing, thing, std::memory_order_release, std::memory_order_relaxed))
        [[likely]]
      return;
    std::unique_ptr<T> one_too_many;  // ends after the lock
    const Lock lock(*this);
    if (idle_.size() < most_idle) idle_.push_back(thing);
    else one_too_many = removed(thing);
  }
  /// Ends those that nobody has.
  void trim() {
    std::vector<std::unique_ptr<T>> ended;  // after the lock
    ended.reserve(places + most_idle);
    const Lock lock(*this);
    for (Place& place : places_)
      if (T* thing = place.idle.exchange(nullptr, std::memory_order_acquire)) ended.push_back(removed(thing));
    for (T* thing : idle_) ended.push_back(removed(thing));
    idle_.clear();
  }
  /// Ends all of them; nobody has one.
  void clear() {
    for (Place& place : places_) place.idle.store(nullptr, std::memory_order_relaxed);
    idle_.clear();
    all_.clear();
  }
  std::size_t size() const {
    const Lock lock(*this);
    return all_.size();
  }
  /// How many somebody has now.
  std::size_t taken() const {
    const Lock lock(*this);
    std::size_t idle = idle_.size();
    for (const Place& place : places_) idle += place.idle.load(std::memory_order_relaxed) != nullptr;
    return all_.size() - std::min(all_.size(), idle);
  }

 private:
  static constexpr unsigned bits = 3, places = 1u << bits;
  struct alignas(64) Place {  // a line of the cache
    std::atomic<T*> idle = nullptr;
  };
  /// Held for some instructions. A child of fork() does not have the thread of its parent that may hold it. It takes the
  /// lock from that one, and leaves alone what it cannot know to be whole; nothing of that ends in the child.
  class Lock {
   public:
    explicit Lock(const Pool& pool) : holder_(pool.holder_) {
      const int self = static_cast<int>(::getpid());
      for (int holder = 0; !holder_.compare_exchange_weak(holder, self, std::memory_order_acquire);) {
        if (holder == 0 || holder == self) {
          holder = 0;
          ::sched_yield();
        } else if (holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) {
          new (&pool.all_) std::vector<std::unique_ptr<T>>();
          new (&pool.idle_) std::vector<T*>();
          return;
        } else {
          holder = 0;
        }
      }
    }
    ~Lock() { holder_.store(0, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic<int>& holder_;
  };
  /// Owned by the caller from now on; nothing where a child of fork() does not know it.
  std::unique_ptr<T> removed(T* thing) {
    const auto at = std::find_if(all_.begin(), all_.end(), [&](const auto& owned) { return owned.get() == thing; });
    if (at == all_.end()) return nullptr;
    std::unique_ptr<T> owned = std::move(*at);
    all_.erase(at);
    return owned;
  }
  std::atomic<T*>& place_of_thread() {
    // Threads' own variables lie apart, so where one lies tells the thread.
    static thread_local char own;
    const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&own)) >> 6;
    return places_[number * 0x9e3779b97f4a7c15u >> (64 - bits)].idle;
  }
  /// Also what other threads gave back.
  T* take_any() {
    {
      const Lock lock(*this);
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

  Place places_[places];
  mutable std::atomic<int> holder_ = 0;  // the process that has the lock of the two below, or 0
  mutable std::vector<std::unique_ptr<T>> all_;
  mutable std::vector<T*> idle_;
};

}  // namespace fxx::inline FXX_ABI
