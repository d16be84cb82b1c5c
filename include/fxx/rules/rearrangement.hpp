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

/// The factor where (..., C r r, H, W) is split into (..., C, r, r, H, W) and ends as (..., C, H r, W r), or the other
/// way round for `back`; 0 where it is not. What stands before the channels may be any number of dimensions.
std::int64_t factor(const Match& m, bool back);
template <bool Back>
std::int64_t factor_of(const Match& m) {
  return factor(m, Back);
}
/// Into how many groups the channels are split; 0 where the groups and what is in them are not exchanged.
std::int64_t exchanged_groups(const Match& m);
template <std::int64_t (*Number)(const Match&)>
inline constexpr auto is_one = [](const Match& m) { return Number(m) > 0; };
Argument built(const Match& m, const Operator& op, std::int64_t number);
template <auto Op, std::int64_t (*Number)(const Match&)>
inline constexpr auto build = [](const Match& m) { return built(m, Op, Number(m)); };
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

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/rearrangement.ipp"
#endif
