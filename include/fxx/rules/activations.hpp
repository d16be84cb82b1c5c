// Activations that were written by hand, recognised.
// Main names: rules::activations. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

/// Law: gelu(x) = x/2 (1 + erf(x / sqrt 2)); gelu(x, tanh) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); silu(x) = x
/// sigmoid(x) = x / (1 + exp(-x)). Equal up to rounding; the written form may overflow where the operator does not.
/// Needs: floating-point values, which is what x is taken for when its dtype is not known; the operators know no
/// others.
inline constexpr auto activations = [] {
  using namespace pattern;
  constexpr auto half = mul(x, 0.5_c) | div(x, 2_c);
  // erf(x / sqrt(2)), divided or multiplied
  constexpr auto erf_part = add(erf(div(x, near(1.4142135623730951_c)) | mul(x, near(0.7071067811865475_c))), 1_c);
  constexpr auto cube = pow(x, 3_c) | mul(mul(x, x), x);
  constexpr auto tanh_part = add(tanh(mul(add(x, mul(cube, near(0.044715_c))), near(0.7978845608028654_c))), 1_c);
  constexpr auto floating = [](const Match& m) { return may_be_floating(m[x]); };
  return ruleset(
      rule<"gelu">(mul(half, erf_part) >> gelu(x), floating),
      rule<"gelu, halved last">((mul(mul(x, erf_part), 0.5_c) | div(mul(x, erf_part), 2_c)) >> gelu(x), floating),
      rule<"gelu, half of the sum">(mul(x, mul(erf_part, 0.5_c)) >> gelu(x), floating),
      rule<"gelu, tanh">(mul(half, tanh_part) >> gelu(x, arg<"approximate">(text<"tanh">)), floating),
      rule<"gelu, tanh, halved last">(
          (mul(mul(x, tanh_part), 0.5_c) | div(mul(x, tanh_part), 2_c)) >> gelu(x, arg<"approximate">(text<"tanh">)),
          floating),
      rule<"silu">(mul(x, sigmoid(x)) >> silu(x), floating),
      rule<"silu, divided">(div(x, add(exp(neg(x)), 1_c)) >> silu(x), floating));
}();

}  // namespace fxx::inline FXX_ABI::rules
