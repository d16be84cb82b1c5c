// Bodies of rules/layout.hpp.
#pragma once

#include "fxx/rules/layout.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace layout_rules {

FXX_INLINE bool lies_so(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  if (!meta || m[format].kind() != Argument::Kind::memory_format) return false;
  switch (m[format].memory_format()) {
    case MemoryFormat::contiguous_format:
      return rewrite::conditions::memory_t<MemoryFormat::contiguous_format>{}(*meta);
    case MemoryFormat::channels_last: return rewrite::conditions::memory_t<MemoryFormat::channels_last>{}(*meta);
    case MemoryFormat::channels_last_3d: return rewrite::conditions::memory_t<MemoryFormat::channels_last_3d>{}(*meta);
    default: return false;
  }
}

FXX_INLINE bool is_format(const Match& m) {
  return m[format].kind() == Argument::Kind::memory_format &&
         m[format].memory_format() != MemoryFormat::preserve_format;
}

FXX_INLINE bool unseen(const Match& m) { return nobody_sees_layout(*m.root()); }

}  // namespace layout_rules

}  // namespace fxx::inline FXX_ABI::rules
