// Ways of writing that mean the same, as the one that the other sets look for.
// Main names: rules::spellings. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace spelling_rules {
using namespace pattern;
inline constexpr auto dims = value<"dims">;
inline constexpr auto unbiased = value<"unbiased">;
inline constexpr auto d = value<"d">;
inline constexpr auto keep = value<"keep">;

/// The one dimension over which is reduced is put back where it was.
bool puts_back(const Match& m);
Argument keep_dimension(const Match& m);
Argument reduced_over_one(const Match& m, const Operator& op);
template <auto Op>
inline constexpr auto over_one = [](const Match& m) { return reduced_over_one(m, Op); };
bool is_real(const Match& m);
}  // namespace spelling_rules

/// Law: unsqueeze(sum(x, d), d) = sum(x, d, keepdim), and so for other reductions; the values of max(x, d) = amax(x,
/// d); full_like(x, 1) / x = reciprocal(x); 1 / sqrt(x) = x^(-1/2) = rsqrt(x), x^(1/2) = sqrt(x). Up to rounding; of
/// equal largest elements amax shares the gradient out. Needs: a known rank, floating-point x for the quotients and
/// roots; nobody who uses the places of the largest.
inline constexpr auto spellings = [] {
  using namespace pattern;
  using namespace spelling_rules;
  constexpr auto reduced =
      any_of<ops::mean_dim, ops::sum_dim_IntList, ops::amax, ops::amin, ops::logsumexp>(x, dims, lit<false>) |
      var(x, dims, unbiased, lit<false>) |
      apply<ops::var_correction>(x, dims, arg<"correction">(unbiased), arg<"keepdim">(lit<false>));
  return ruleset(rule<"reduced dimension put back">(unsqueeze(reduced.as<"reduced">(), d) >> keep_dimension, puts_back),
                 rule<"largest alone">(getitem(apply<ops::max_dim>(x, d, keep).once(), 0_c) >> over_one<ops::amax>),
                 rule<"smallest alone">(getitem(apply<ops::min_dim>(x, d, keep).once(), 0_c) >> over_one<ops::amin>),
                 rule<"one over a value">(div(full_like(x, 1_c), x) >> reciprocal(x), is_real),
                 rule<"one over its root">(reciprocal(sqrt(x).once()) >> rsqrt(x), is_real),
                 rule<"root by a power">(pow(x, 0.5_c) >> sqrt(x), is_real),
                 rule<"one over its root, by a power">(pow(x, -0.5_c) >> rsqrt(x), is_real));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/spellings.ipp"
#endif
