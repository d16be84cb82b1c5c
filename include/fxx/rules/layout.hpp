// Conversions of memory formats that meet, or do nothing.
// Main names: rules::layout. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace layout_rules {
using namespace pattern;
inline constexpr auto format = value<"format">;
inline constexpr auto first_format = value<"first format">;
inline constexpr auto sizes = value<"sizes">;
/// Does the value lie so already, as far as its strides are known? A size of one lies both ways, and then LibTorch may
/// still give the result other strides, which somebody must not see.
bool lies_so(const Match& m);
/// `contiguous` refuses preserve_format, but not where it has nothing to do.
bool is_format(const Match& m);
bool unseen(const Match& m);
}  // namespace layout_rules

/// Law: contiguous() of what lies so already is the value itself; of two conversions the last one counts; a reshape
/// makes its own copy where it needs one. Exact. Needs: strides, or nobody who sees the layout.
inline constexpr auto layout = [] {
  using namespace pattern;
  using namespace layout_rules;
  constexpr auto converted = [](auto p, auto to) { return contiguous(p, arg<"memory_format">(to)); };
  return ruleset(
      rule<"contiguous already">(contiguous(x.where(memory_is<MemoryFormat::contiguous_format>)) >> x),
      rule<"in this format already">(converted(x, format) >> x, lies_so),
      rule<"contiguous twice">(contiguous(contiguous(x)) >> contiguous(x)),
      rule<"converted twice">(
          converted(converted(x, first_format).once(), format) >> contiguous(x, arg<"memory_format">(format)),
          is_format),
      rule<"view of contiguous">(view(contiguous(x).once(), sizes) >> reshape(x, sizes), unseen),
      rule<"reshape of contiguous">(reshape(contiguous(x).once(), sizes) >> reshape(x, sizes), unseen),
      rule<"flatten of contiguous">(
          flatten(contiguous(x).once(), value<"i">, value<"j">) >> flatten(x, value<"i">, value<"j">), unseen));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/layout.ipp"
#endif
