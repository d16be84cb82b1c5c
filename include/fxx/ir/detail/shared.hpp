// A shared owner of an object that counts its own references. Like std::shared_ptr, whose header costs 20 MB and a
// tenth of a second of every file.
//
// Main names: Shared. 8 bytes. Cost: light.
#pragma once

#include <utility>

#include "fxx/ir/argument.hpp"

namespace fxx::inline FXX_ABI::detail {

/// `T` derives from Box, and can be deleted as a T.
template <class T>
class Shared {
 public:
  constexpr Shared() = default;
  /// Takes the one reference that a new object has.
  explicit Shared(T* object) : object_(object) {}
  Shared(const Shared& other) : object_(other.object_) {
    if (object_) object_->retain();
  }
  Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Shared() {
    if (object_ && object_->drop()) delete object_;
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Shared& a, const Shared& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace fxx::inline FXX_ABI::detail
