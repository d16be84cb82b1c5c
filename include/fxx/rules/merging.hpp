// One operator instead of several with weights of their own, and its result in parts.
// Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merging {
using namespace pattern;
inline constexpr auto weight = constant<"weight">;
inline constexpr auto bias = optional<"bias">;

/// Rows of a weight, which are the features or channels that come out; -1 when they are not known.
std::int64_t rows_of(const Match& member);
/// Are weights and biases constants that can stand in one tensor, and may each result be a part of a larger one, which
/// has gaps? One of the first member's kind has a bias, or has none.
bool may_join(const Match& member, const Match& first);
/// One weight and one bias, or none, of all members.
struct Joined {
  Node* weight;
  Argument bias;
};
Joined joined(const Match& m);
/// What each member had, from the result for all of them: parts along dimension `dim`.
Argument parts_of(const Match& m, Node* whole, std::int64_t dim);
}  // namespace merging

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/merging.ipp"
#endif
