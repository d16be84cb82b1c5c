// einsum that is a matrix product, as one; rules::attention then finds attention that was written by einsum.
// Main names: rules::einsums. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace einsum_rules {
using namespace pattern;
inline constexpr auto equation = value<"equation">;

bool is_product(const Match& m);
Argument build_product(const Match& m);
}  // namespace einsum_rules

/// Law: einsum("bhqd,bhkd->bhqk", q, k) = matmul(q, k^T), likewise with other letters, and with dimensions in another
/// order, which are permuted; up to rounding. Needs: floating-point values of one dtype whose shapes are known, one
/// letter that is summed, an equation that spells out its result.
inline constexpr auto einsums = [] {
  using namespace pattern;
  using namespace einsum_rules;
  return ruleset(rule<"matrix product by einsum", law::sums>(einsum(equation, list(x, y)) >> build_product, is_product));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/einsum.ipp"
#endif
