// A value that may be missing, like std::optional, but elsewhere in memory: what has one is 8 bytes larger, however
// large the value. For what few have of many.
//
// Main names: Boxed. Copied with its value. Cost: light.
#pragma once

#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

template <class T>
class Boxed {
 public:
  constexpr Boxed() = default;
  Boxed(T value) : value_(new T(std::move(value))) {}
  Boxed(const Boxed& other) : value_(other.value_ ? new T(*other.value_) : nullptr) {}
  Boxed(Boxed&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Boxed& operator=(Boxed other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Boxed() { delete value_; }

  void reset() { *this = Boxed(); }
  explicit operator bool() const { return value_ != nullptr; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_; }
  const T* operator->() const { return value_; }

 private:
  T* value_ = nullptr;
};

}  // namespace fxx::inline FXX_ABI
