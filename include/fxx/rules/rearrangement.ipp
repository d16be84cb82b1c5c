// Bodies of rules/rearrangement.hpp.
#pragma once

#include <algorithm>

#include "fxx/rules/rearrangement.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace rearrangement_rules {

using Shape = std::vector<std::int64_t>;
/// The shapes of x, of x with its dimensions split, and of the result; those of one more than the first two are empty
/// when one is not known.
struct Shapes {
  Shape from, split, to;
};
FXX_INLINE Shapes shapes_of(const Match& m) {
  const TensorMeta *from = meta_of(m[x]), *parts = meta_of(m[rearrangement_rules::split]), *to = meta_of(m.root());
  if (!from || !parts || !to || !layout_is_free(*m.root())) return {};
  return {Shape(from->shape.begin(), from->shape.end()), Shape(parts->shape.begin(), parts->shape.end()),
          Shape(to->shape.begin(), to->shape.end())};
}

FXX_INLINE std::int64_t factor(const Match& m, bool back) {
  const Shapes s = shapes_of(m);
  const Shape &small = back ? s.to : s.from, &large = back ? s.from : s.to;
  if (s.from.size() < 3 || s.to.size() != s.from.size() || s.split.size() != s.from.size() + 2) return 0;
  const std::size_t first = s.from.size() - 3;  // the channels
  const auto order_of_dimensions = dimensions_of(m[order], static_cast<std::int64_t>(s.split.size()));
  if (!order_of_dimensions || order_of_dimensions->size() != s.split.size()) return 0;
  for (std::size_t at = 0; at < first; ++at)
    if (s.from[at] != s.split[at] || s.from[at] != s.to[at]) return 0;
  constexpr int shuffle[] = {0, 3, 1, 4, 2}, unshuffle[] = {0, 2, 4, 1, 3};
  for (std::size_t at = 0; at < s.split.size(); ++at) {
    const std::size_t wanted =
        at < first ? at : first + static_cast<std::size_t>((back ? unshuffle : shuffle)[at - first]);
    if ((*order_of_dimensions)[at] != static_cast<std::int64_t>(wanted)) return 0;
  }
  const std::int64_t channels = large[first], height = small[first + 1], width = small[first + 2];
  if (channels <= 0 || height <= 0 || width <= 0) return 0;
  const std::int64_t r = large[first + 1] / height;
  const Shape expected = back ? Shape{channels, height, r, width, r} : Shape{channels, r, r, height, width};
  const bool fits = r > 1 && large[first + 1] == height * r && large[first + 2] == width * r &&
                    small[first] == channels * r * r && std::equal(expected.begin(), expected.end(), s.split.end() - 5);
  return fits ? r : 0;
}

FXX_INLINE std::int64_t exchanged_groups(const Match& m) {
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

FXX_INLINE Argument built(const Match& m, const Operator& op, std::int64_t number) {
  views_become_reshapes(*m.root());
  return m.call(op, {m[x], number});
}

}  // namespace rearrangement_rules

}  // namespace fxx::inline FXX_ABI::rules
