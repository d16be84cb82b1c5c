// Bodies of ir/module_stack.hpp.
#pragma once

#include "fxx/ir/argument.hpp"
#include "fxx/ir/module_stack.hpp"

namespace fxx::inline FXX_ABI {

struct ModuleStack::Link : detail::Box {
  ModuleStack outer;
  ModuleFrame frame;
  Link(const ModuleStack& o, ModuleFrame f) : outer(o), frame(std::move(f)) {}
};

FXX_INLINE std::string ModuleFrame::key() const { return call ? name + "@" + std::to_string(call) : name; }

FXX_INLINE ModuleStack::ModuleStack(const ModuleStack& outer, ModuleFrame frame)
    : top_(new Link(outer, std::move(frame))) {}
FXX_INLINE void ModuleStack::retain() const { top_->retain(); }
FXX_INLINE void ModuleStack::release() {
  if (top_->drop()) delete top_;
}
FXX_INLINE const ModuleFrame& ModuleStack::innermost() const { return top_->frame; }
FXX_INLINE const ModuleStack& ModuleStack::outer() const { return top_->outer; }
FXX_INLINE std::vector<ModuleFrame> ModuleStack::frames() const {
  std::vector<ModuleFrame> out;
  if (top_) (out = outer().frames()).push_back(innermost());
  return out;
}
FXX_INLINE std::string ModuleStack::text() const {
  if (!top_) return {};
  const std::string around = outer().text();
  return around.empty() ? innermost().key() : around + " > " + innermost().key();
}
FXX_INLINE bool ModuleStack::equals(const ModuleStack& other) const {
  return top_ && other.top_ && top_->frame == other.top_->frame && top_->outer == other.top_->outer;
}

}  // namespace fxx::inline FXX_ABI
