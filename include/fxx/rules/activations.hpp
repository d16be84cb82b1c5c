// Activations that were written by hand, recognised.
// Main names: rules::activations. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace activation_rules {
using namespace pattern;
inline constexpr auto d = value<"d">;
inline constexpr auto halves = value<"halves">;
bool is_floating(const Match& m);
bool positive_factor(const Match& m);
/// Below zero the larger of x and s x is s x.
bool is_slope(const Match& m);
/// log_sigmoid lays its result out in order, whatever x does, which somebody may see.
bool is_log_sigmoid(const Match& m);
/// And where softplus leaves off the logarithm, that is below what rounding takes.
bool is_exact_softplus(const Match& m);
inline constexpr auto linear_from = scalar<"linear from">;
/// Two equal halves of the dimension.
bool is_halved(const Match& m, bool chunk);
template <bool Chunk>
inline constexpr auto halved = [](const Match& m) { return is_halved(m, Chunk); };
}  // namespace activation_rules

/// Law: gelu(x) = x/2 (1 + erf(x / sqrt 2)); gelu(x, tanh) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); silu(x) = x
/// sigmoid(x) = x / (1 + exp(-x)); sigmoid(x) = 1 / (1 + exp(-x)) = (1 + tanh(x/2)) / 2; tanh(x) = 2 sigmoid(2x) - 1;
/// relu6(x) = min(max(x, 0), 6); hardsigmoid(x) = relu6(x + 3) / 6; hardswish(x) = x hardsigmoid(x); softplus(x) =
/// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)); mish(x) = x tanh(softplus(x)); log_sigmoid(x) = log(sigmoid(x)) =
/// -softplus(-x); elu(x, a) = x if x > 0, a (exp(x) - 1) else; celu(x, a) = max(x, 0) + min(a (exp(x/a) - 1), 0);
/// selu(x) = 1.05... elu(x, 1.67...); leaky_relu(x, a) = x if x > 0, a x else; glu([a, b]) = a sigmoid(b). Equal up to
/// rounding; the written form may overflow, or round to zero or minus infinity, where the operator does not; at a
/// corner the gradient is one of the two slopes. x > 0 ? x : 0 is no relu: it makes 0 of nan. Where LibTorch leaves
/// gelu to oneDNN, that makes nan of infinity. Needs: floating-point values, which is what x is taken for when its
/// dtype is not known; the operators know no others. Factors are finite, those of elu and leaky_relu above
/// zero. glu: a known even size.
inline constexpr auto activations = [] {
  using namespace pattern;
  using namespace activation_rules;
  constexpr auto half = mul(x, 0.5_c) | div(x, 2_c);
  // erf(x / sqrt(2)), divided or multiplied
  constexpr auto erf_part = add(erf(div(x, near(1.4142135623730951_c)) | mul(x, near(0.7071067811865475_c))), 1_c);
  constexpr auto cube = pow(x, 3_c) | mul(mul(x, x), x);
  constexpr auto squared = pow(x, 2_c) | mul(x, x) | square(x);
  constexpr auto part = near(0.044715_c);
  constexpr auto part_of_cube =
      mul(cube, part) | mul(mul(squared, part), x) | mul(squared, mul(x, part)) | mul(mul(mul(x, part), x), x);
  constexpr auto part_of_square = mul(squared, part) | mul(mul(x, part), x);
  constexpr auto tanh_part = add(tanh(mul(add(x, part_of_cube), near(0.7978845608028654_c))), 1_c);
  constexpr auto factored_part =
      add(tanh(mul(mul(x, near(0.7978845608028654_c)), add(part_of_square, 1_c)) |
               mul(mul(x, add(part_of_square, 1_c)), near(0.7978845608028654_c))),
          1_c);
  constexpr auto six = relu6(add(x, 3_c)) | clamp(add(x, 3_c), 0_c, 6_c);
  // The first forms keep what is small beside 1, the second ones round it to zero.
  constexpr auto log_one_plus_exp = log1p(exp(x));
  constexpr auto rounded_log = log(add(exp(x), 1_c));
  constexpr auto exp_minus_one = expm1(x);
  constexpr auto rounded_exp = sub(exp(x), 1_c);
  constexpr auto below = add(exp(neg(x)), 1_c).as<"below">();  // 1 / (...) is recorded as full_like and div
  constexpr auto first = getitem(chunk(x, 2_c, d).as<"parts">(), 0_c);
  constexpr auto second = getitem(chunk(x, 2_c, d).as<"parts">(), 1_c);
  constexpr auto first_half = getitem(split(x, halves, d).as<"parts">(), 0_c);
  constexpr auto second_half = getitem(split(x, halves, d).as<"parts">(), 1_c);
  return ruleset(
      rule<"gelu", law::formula>(mul(half, erf_part) >> gelu(x), is_floating),
      rule<"gelu, halved last", law::no_overflow | law::formula>((mul(mul(x, erf_part), 0.5_c) | div(mul(x, erf_part), 2_c)) >> gelu(x), is_floating),
      rule<"gelu, half of the sum", law::formula>(mul(x, mul(erf_part, 0.5_c)) >> gelu(x), is_floating),
      rule<"gelu, tanh">(mul(half, tanh_part) >> gelu(x, arg<"approximate">(text<"tanh">)), is_floating),
      rule<"gelu, tanh, halved last", law::no_overflow>(
          (mul(mul(x, tanh_part), 0.5_c) | div(mul(x, tanh_part), 2_c)) >> gelu(x, arg<"approximate">(text<"tanh">)),
          is_floating),
      rule<"gelu, tanh, factored">(mul(half, factored_part) >> gelu(x, arg<"approximate">(text<"tanh">)), is_floating),
      rule<"gelu, tanh, half of the sum">(mul(x, mul(tanh_part, 0.5_c)) >> gelu(x, arg<"approximate">(text<"tanh">)),
                                          is_floating),
      rule<"silu">(mul(x, sigmoid(x)) >> silu(x), is_floating),
      rule<"silu, divided">(div(x, add(exp(neg(x)), 1_c)) >> silu(x), is_floating),
      rule<"sigmoid">(reciprocal(add(exp(neg(x)), 1_c)) >> sigmoid(x), is_floating),
      rule<"sigmoid, one over">(
          (mul(reciprocal(add(exp(neg(x)), 1_c)), 1_c) | div(full_like(below, 1_c), below)) >> sigmoid(x), is_floating),
      rule<"sigmoid by tanh", law::no_overflow>((mul(add(tanh(half), 1_c), 0.5_c) | div(add(tanh(half), 1_c), 2_c)) >> sigmoid(x),
                              is_floating),
      rule<"tanh by sigmoid", law::no_overflow>(sub(mul(sigmoid(mul(x, 2_c)), 2_c), 1_c) >> tanh(x), is_floating),
      rule<"relu by clamp">((clamp_min(x, 0_c) | clamp(x, 0_c)) >> relu(x), is_floating),
      rule<"relu by threshold", law::unsigned_zero>(threshold(x, 0_c, 0_c) >> relu(x), is_floating),
      rule<"relu6">((clamp(x, 0_c, 6_c) | hardtanh(x, 0_c, 6_c) | clamp_max(relu(x), 6_c)) >> relu6(x), is_floating),
      rule<"hardsigmoid">((div(six, 6_c) | mul(six, near(0.16666666666666666_c))) >> hardsigmoid(x), is_floating),
      rule<"hardsigmoid, divided first">(
          clamp(add(div(x, 6_c) | mul(x, near(0.16666666666666666_c)), 0.5_c), 0_c, 1_c) >> hardsigmoid(x),
          is_floating),
      rule<"hardswish">(mul(x, hardsigmoid(x)) >> hardswish(x), is_floating),
      rule<"hardswish, divided last">(
          (div(mul(x, six), 6_c) | mul(mul(x, six), near(0.16666666666666666_c))) >> hardswish(x), is_floating),
      rule<"mish">(mul(x, tanh(softplus(x, 1_c, 20_c | 40_c))) >> mish(x), is_floating),
      rule<"mish, by hand">(mul(x, tanh(log_one_plus_exp)) >> mish(x), is_floating),
      rule<"mish, by hand, rounded", law::no_overflow>(mul(x, tanh(rounded_log)) >> mish(x), is_floating),
      rule<"softplus", law::no_overflow>((log_one_plus_exp | rounded_log) >> softplus(x, 1_c, 40_c), is_floating),
      rule<"softplus with a factor", law::no_overflow>(div(log1p(exp(mul(x, s))), s) >> softplus(x, s, 40_c), positive_factor),
      rule<"softplus, both ways">(
          add(relu(x), log1p(exp(neg(abs(x)))) | softplus(neg(abs(x)), 1_c, 40_c)) >> softplus(x, 1_c, 40_c), is_floating),
      rule<"softplus, both ways, rounded", law::no_overflow>(
          add(relu(x), log(add(exp(neg(abs(x))), 1_c))) >> softplus(x, 1_c, 40_c), is_floating),
      rule<"log_sigmoid", law::no_overflow>(log(sigmoid(x)) >> log_sigmoid(x), is_log_sigmoid),
      rule<"log_sigmoid by softplus", law::no_overflow>(neg(softplus(neg(x), 1_c, linear_from)) >> log_sigmoid(x), is_exact_softplus),
      rule<"elu">(where(gt(x, 0_c) | ge(x, 0_c), x, exp_minus_one) >> elu(x), is_floating),
      rule<"elu, the other way round">(where(lt(x, 0_c) | le(x, 0_c), exp_minus_one, x) >> elu(x), is_floating),
      rule<"elu with a factor">(where(gt(x, 0_c) | ge(x, 0_c), x, mul(exp_minus_one, s)) >> elu(x, s), positive_factor),
      rule<"elu with a factor, the other way round">(
          where(lt(x, 0_c) | le(x, 0_c), mul(exp_minus_one, s), x) >> elu(x, s), positive_factor),
      rule<"elu, rounded", law::no_overflow>((where(gt(x, 0_c) | ge(x, 0_c), x, rounded_exp) |
                                              where(lt(x, 0_c) | le(x, 0_c), rounded_exp, x)) >>
                                                 elu(x),
                                             is_floating),
      rule<"elu with a factor, rounded", law::no_overflow>((where(gt(x, 0_c) | ge(x, 0_c), x, mul(rounded_exp, s)) |
                                                            where(lt(x, 0_c) | le(x, 0_c), mul(rounded_exp, s), x)) >>
                                                               elu(x, s),
                                                           positive_factor),
      rule<"elu by sum">(add(relu(x), clamp_max(exp_minus_one, 0_c)) >> elu(x), is_floating),
      rule<"elu by sum, rounded", law::no_overflow>(add(relu(x), clamp_max(rounded_exp, 0_c)) >> elu(x), is_floating),
      rule<"celu">(add(relu(x), clamp_max(mul(expm1(div(x, s)), s), 0_c)) >> celu(x, s), positive_factor),
      rule<"celu, rounded", law::no_overflow>(
          add(relu(x), clamp_max(mul(sub(exp(div(x, s)), 1_c), s), 0_c)) >> celu(x, s), positive_factor),
      rule<"selu">(mul(elu(x, near(1.6732632423543772_c)), near(1.0507009873554805_c)) >> selu(x), is_floating),
      rule<"leaky_relu">(where(gt(x, 0_c) | ge(x, 0_c), x, mul(x, s)) >> leaky_relu(x, s), positive_factor),
      rule<"leaky_relu, the other way round">(where(lt(x, 0_c) | le(x, 0_c), mul(x, s), x) >> leaky_relu(x, s),
                                              positive_factor),
      rule<"leaky_relu by maximum">((maximum(x, mul(x, s)) | max(x, mul(x, s))) >> leaky_relu(x, s), is_slope),
      rule<"leaky_relu by difference">(sub(relu(x), mul(relu(neg(x)), s)) >> leaky_relu(x, s), positive_factor),
      rule<"glu by chunk">(mul(first, sigmoid(second)) >> glu(x, d), halved<true>),
      rule<"glu by split">(mul(first_half, sigmoid(second_half)) >> glu(x, d), halved<false>));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/activations.ipp"
#endif
