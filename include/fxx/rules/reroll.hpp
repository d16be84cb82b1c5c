// Back to what the user wrote: operators that LibTorch's C++ front end takes apart before the dispatcher sees them.
//
// The dispatcher tracer applies these to every trace. Each replacement computes what the pattern computes; a linear of
// no 2-D value rounds once where the pattern rounds twice, which half precision shows.
// Main names: rules::reroll. Cost: light; about 60 ms to compile.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace reroll_rules {
using namespace pattern;
inline constexpr auto bias = tensor<"bias">;
inline constexpr auto sizes = value<"sizes">;
inline constexpr auto number = value<"number">;
inline constexpr auto dimension = value<"dimension">;
inline constexpr auto start = value<"start">;
inline constexpr auto step = value<"step">;
inline constexpr auto i = value<"i">;
inline constexpr auto j = value<"j">;
inline constexpr auto order = value<"order">;
inline constexpr auto format = value<"format">;
/// The weight with its two dimensions exchanged.
inline constexpr auto flipped =
    t(w) | transpose(w, i, j) | with<"i">(-1_c, with<"j">(-2_c, mT(w) | numpy_T(w))) | permute(w, order);
/// torch::indexing::Slice without an end.
inline constexpr auto to_the_end = 4611686018427387903_c;

/// `flipped` is what it is called: t always, the others of a matrix. What may be the keys of attention is left to it.
bool is_flipped(const Match& m);
/// The bias of a linear is one number an output feature; anything else that is added is no bias.
bool is_bias(const Match& m);
/// The temporary lies as y does, and y's layout is that of the result, or nobody sees another.
bool lies_as_y(const Match& m);
/// In floating point; integers would round where the pattern fills its temporary. From a bool nothing is subtracted.
bool is_floating(const Match& m);
/// In floating point of 32 or 64 bits: of others the reciprocal rounds otherwise.
bool is_real(const Match& m);
}  // namespace reroll_rules

/// torch::nn::Linear reaches the dispatcher as `t` and `addmm` (2-D inputs) or `t`, `matmul` and `add_`; `2 - x` as
/// `empty_like`, `fill_` and `sub_`; torch::nn::functional::pad with a number for its mode; a slice to the end with the
/// largest size there is.
/// Law: linear(x, w, bias) = x w^T + bias; rsub(y, s) = s - y; reciprocal(y) = 1 / y. Needs: shapes of weights and
/// biases on their nodes; a weight that is transposed otherwise than by t is a constant, or its product goes into no
/// softmax: that may be attention.
inline constexpr auto reroll = [] {
  using namespace pattern;
  using namespace reroll_rules;
  constexpr auto product = any_of<ops::matmul, ops::mm>(x, flipped);
  constexpr auto product_once = matmul(x, flipped).once() | mm(x, flipped).once();
  return ruleset(
      rule<"linear, 2-D">(addmm(bias, x, flipped) >> linear(x, w, bias), is_bias),
      rule<"linear, n-D", law::sums | law::finite | law::finite_results>(add_(product_once, bias) >> linear(x, w, bias), is_bias),
      rule<"linear, out of place", law::sums | law::finite | law::finite_results>(add(product_once, bias) >> linear(x, w, bias), is_bias),
      rule<"linear without bias">(product >> linear(x, w), is_flipped),
      rule<"number minus tensor">(sub_(fill_(empty_like(y, arg<"memory_format">(format)), s), y) >> rsub(y, s),
                                  is_floating),
      rule<"one over tensor">(div_(fill_(empty_like(y, arg<"memory_format">(format)), 1_c), y) >> reciprocal(y),
                              is_real),
      rule<"pad with zeros">(_pad_enum(x, sizes, 3_c) >> pad(x, sizes)),
      rule<"pad with a number">(_pad_enum(x, sizes, 3_c, number) >> pad(x, sizes, text<"constant">, number)),
      rule<"pad, reflecting">(_pad_enum(x, sizes, 0_c) >> pad(x, sizes, text<"reflect">)),
      rule<"pad, replicating">(_pad_enum(x, sizes, 1_c) >> pad(x, sizes, text<"replicate">)),
      rule<"pad, around">(_pad_enum(x, sizes, 2_c) >> pad(x, sizes, text<"circular">)),
      rule<"slice to the end">(slice(x, dimension, start, to_the_end) >> slice(x, dimension, start)),
      rule<"slice to the end, in steps">(slice(x, dimension, start, to_the_end, step) >>
                                         slice(x, dimension, start, none, step)));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/reroll.ipp"
#endif
