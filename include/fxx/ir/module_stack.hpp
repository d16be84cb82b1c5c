// The chain of modules that a node came from, shared by all nodes of one call of a module.
//
// Main names: ModuleFrame, ModuleStack. Immutable; 8 bytes; pushing, copying: O(1). Cost: light. After torch.fx
// node.meta["nn_module_stack"], 2.13.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// One call of a module.
struct ModuleFrame {
  std::string name;        // qualified: "encoder.0"
  std::string type = {};   // as C++ spells it
  std::uint32_t call = 0;  // calls of this module that came before it in the trace

  /// Tells repeated calls apart as torch.fx does: "encoder.0", "encoder.0@1", "encoder.0@2".
  std::string key() const;
  bool operator==(const ModuleFrame&) const = default;
};

class ModuleStack {
 public:
  constexpr ModuleStack() = default;
  /// One call within those of `outer`.
  ModuleStack(const ModuleStack& outer, ModuleFrame frame);
  ModuleStack(const ModuleStack& other) : top_(other.top_) {
    if (top_) retain();
  }
  ModuleStack(ModuleStack&& other) noexcept : top_(std::exchange(other.top_, nullptr)) {}
  ModuleStack& operator=(ModuleStack other) noexcept {
    std::swap(top_, other.top_);
    return *this;
  }
  ~ModuleStack() {
    if (top_) release();
  }

  bool empty() const { return !top_; }
  /// The innermost call. The stack is not empty.
  const ModuleFrame& innermost() const;
  /// The calls around the innermost one. The stack is not empty.
  const ModuleStack& outer() const;
  /// All calls, outermost first.
  std::vector<ModuleFrame> frames() const;
  /// "encoder > encoder.0@1": the keys, outermost first.
  std::string text() const;

  friend bool operator==(const ModuleStack& a, const ModuleStack& b) { return a.top_ == b.top_ || a.equals(b); }

 private:
  struct Link;
  void retain() const;
  void release();
  bool equals(const ModuleStack& other) const;
  const Link* top_ = nullptr;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/module_stack.ipp"
#endif
