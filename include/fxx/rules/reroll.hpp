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
/// torch::indexing::Slice without an end.
inline constexpr auto to_the_end = 4611686018427387903_c;

/// The bias of a linear is one number an output feature; anything else that is added is no bias.
bool is_bias(const Match& m);
/// In floating point; integers would round where the pattern fills its temporary. From a bool nothing is subtracted.
bool is_floating(const Match& m);
}  // namespace reroll_rules

/// torch::nn::Linear reaches the dispatcher as `t` and `addmm` (2-D inputs) or `t`, `matmul` and `add_`; `2 - x` as
/// `empty_like`, `fill_` and `sub_`; torch::nn::functional::pad with a number for its mode; a slice to the end with the
/// largest size there is.
/// Law: linear(x, w, bias) = x w^T + bias; rsub(y, s) = s - y. Needs: shapes of weights and biases on their nodes.
inline constexpr auto reroll = [] {
  using namespace pattern;
  using namespace reroll_rules;
  return ruleset(
      rule<"linear, 2-D">(addmm(bias, x, t(w)) >> linear(x, w, bias), is_bias),
      rule<"linear, n-D">(add_(matmul(x, t(w)).once(), bias) >> linear(x, w, bias), is_bias),
      rule<"linear, out of place">(add(matmul(x, t(w)).once(), bias) >> linear(x, w, bias), is_bias),
      rule<"linear without bias">(any_of<ops::matmul, ops::mm>(x, t(w)) >> linear(x, w)),
      rule<"number minus tensor">(sub_(fill_(empty_like(y, arg<"memory_format">(_)), s), y) >> rsub(y, s), is_floating),
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
