// Pixels and channels that were moved by hand, recognised: pixel_shuffle, pixel_unshuffle, channel_shuffle.
// Main names: rules::rearrangement. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace rearrangement_rules {
using namespace pattern;
inline constexpr auto parts = value<"parts">;
inline constexpr auto order = value<"order">;
inline constexpr auto shape = value<"shape">;
inline constexpr auto split = value<"split">;
inline constexpr auto i = value<"i">;
inline constexpr auto j = value<"j">;

using Shape = std::vector<std::int64_t>;
/// The shapes of x, of x with its dimensions split, and of the result; those of one more than the first two are empty
/// when one is not known.
struct Shapes {
  Shape from, split, to;
};
inline Shapes shapes_of(const Match& m) {
  const TensorMeta *from = meta_of(m[x]), *parts = meta_of(m[rearrangement_rules::split]), *to = meta_of(m.root());
  if (!from || !parts || !to || !layout_is_free(*m.root())) return {};
  return {Shape(from->shape.begin(), from->shape.end()), Shape(parts->shape.begin(), parts->shape.end()),
          Shape(to->shape.begin(), to->shape.end())};
}
/// The factor where (..., C r r, H, W) is split into (..., C, r, r, H, W) and ends as (..., C, H r, W r), or the other
/// way round for `Back`; 0 where it is not. What stands before the channels may be any number of dimensions.
template <bool Back>
inline std::int64_t factor_of(const Match& m) {
  const Shapes s = shapes_of(m);
  const Shape &small = Back ? s.to : s.from, &large = Back ? s.from : s.to;
  if (s.from.size() < 3 || s.to.size() != s.from.size() || s.split.size() != s.from.size() + 2) return 0;
  const std::size_t first = s.from.size() - 3;  // the channels
  const auto order_of_dimensions = dimensions_of(m[order], static_cast<std::int64_t>(s.split.size()));
  if (!order_of_dimensions || order_of_dimensions->size() != s.split.size()) return 0;
  for (std::size_t at = 0; at < first; ++at)
    if (s.from[at] != s.split[at] || s.from[at] != s.to[at]) return 0;
  constexpr int shuffle[] = {0, 3, 1, 4, 2}, unshuffle[] = {0, 2, 4, 1, 3};
  for (std::size_t at = 0; at < s.split.size(); ++at) {
    const std::size_t wanted =
        at < first ? at : first + static_cast<std::size_t>((Back ? unshuffle : shuffle)[at - first]);
    if ((*order_of_dimensions)[at] != static_cast<std::int64_t>(wanted)) return 0;
  }
  const std::int64_t channels = large[first], height = small[first + 1], width = small[first + 2];
  if (channels <= 0 || height <= 0 || width <= 0) return 0;
  const std::int64_t r = large[first + 1] / height;
  const Shape expected = Back ? Shape{channels, height, r, width, r} : Shape{channels, r, r, height, width};
  const bool fits = r > 1 && large[first + 1] == height * r && large[first + 2] == width * r &&
                    small[first] == channels * r * r &&
                    std::equal(expected.begin(), expected.end(), s.split.end() - 5);
  return fits ? r : 0;
}
/// Into how many groups the channels are split; 0 where the groups and what is in them are not exchanged.
inline std::int64_t exchanged_groups(const Match& m) {
  const Shapes s = shapes_of(m);
  // LibTorch's operator knows none with fewer dimensions.
  if (s.from.size() < 3 || s.split.size() < 4 || s.from != s.to || s.from[0] != s.split[0] || s.split[1] <= 1) return 0;
  const auto rank = static_cast<std::int64_t>(s.split.size());
  if (m[order].is_none()) {
    const std::int64_t a = dimension_of(m[i], rank), b = dimension_of(m[j], rank);
    if (std::min(a, b) != 1 || std::max(a, b) != 2) return 0;
  } else {
    const auto dims = dimensions_of(m[order], rank);
    if (!dims || dims->size() != s.split.size()) return 0;
    for (std::int64_t at = 0; at < rank; ++at)
      if ((*dims)[static_cast<std::size_t>(at)] != (at == 1 ? 2 : at == 2 ? 1 : at)) return 0;
  }
  return s.split[2] > 0 && s.split[1] * s.split[2] == s.from[1] ? s.split[1] : 0;
}
template <std::int64_t (*Number)(const Match&)>
inline constexpr auto is_one = [](const Match& m) { return Number(m) > 0; };
template <auto Op, std::int64_t (*Number)(const Match&)>
inline constexpr auto build = [](const Match& m) -> Argument {
  views_become_reshapes(*m.root());
  return m.call(Op, {m[x], Number(m)});
};
inline constexpr auto reshaped = [](auto p, auto to) { return any_of<ops::view, ops::reshape>(p, to); };
inline constexpr auto maybe_contiguous = [](auto p) { return maybe([](auto q) { return contiguous(q); }, p); };
}  // namespace rearrangement_rules

/// Law: pixel_shuffle, pixel_unshuffle and channel_shuffle split dimensions, put them in another order, and join them.
/// Exact. Needs: the shapes of x, of x with its dimensions split, and of the result; for the pixels only the dimensions
/// before the channels may be unknown, for the channels all but these.
inline constexpr auto rearrangement = [] {
  using namespace pattern;
  using namespace rearrangement_rules;
  constexpr auto apart = reshaped(x, parts).as<"split">();
  constexpr auto permuted = reshaped(maybe_contiguous(permute(apart, order)), shape);
  constexpr auto exchanged = reshaped(maybe_contiguous(transpose(apart, i, j) | permute(apart, order)), shape);
  return ruleset(
      rule<"pixel shuffle">(permuted >> build<ops::pixel_shuffle, factor_of<false>>, is_one<factor_of<false>>),
      rule<"pixel unshuffle">(permuted >> build<ops::pixel_unshuffle, factor_of<true>>, is_one<factor_of<true>>),
      rule<"channel shuffle">(exchanged >> build<ops::channel_shuffle, exchanged_groups>, is_one<exchanged_groups>));
}();

}  // namespace fxx::inline FXX_ABI::rules
