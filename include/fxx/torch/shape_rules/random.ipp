// Shape rules of random numbers.
#pragma once

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// Random numbers, of the size of the first tensor.
FXX_INLINE void drawn(ShapeCall& c) {
  check_floating(c.tensor(0), "random numbers");
  contiguous_like_argument<0>(c);
}
FXX_INLINE void drawn_bits(ShapeCall& c) {
  if (c.tensor(0).numel() > 0) check_floating(c.tensor(0), "bernoulli_tensor_cpu_p_");
  contiguous_like_argument<0>(c);
}
FXX_INLINE void multinomial(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const std::int64_t samples = c.integer(1);
  TORCH_CHECK(x.dim() == 1 || x.dim() == 2, "prob_dist must be 1 or 2 dim");
  check_floating(x, "multinomial");
  TORCH_CHECK(x.size(-1) <= (1 << 24), "number of categories cannot exceed 2^24");
  TORCH_CHECK(x.size(-1) > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(c.flag(2) || samples <= x.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  c.give(x.dim() == 1 ? meta_tensor({samples}, at::kLong) : meta_tensor({x.size(0), samples}, at::kLong));
}
/// n, generator, out.
FXX_INLINE void randperm(ShapeCall& c) {
  TORCH_CHECK(c.integer(0) >= 0, "n must be non-negative, got", c.integer(0));
  c.give(meta_tensor({c.integer(0)}, c.tensor(2).scalar_type()));
}

// clang-format off
inline constexpr ShapeRuleOf random_rules[] = {
    {"bernoulli", drawn_bits},                      {"bernoulli.out", drawn_bits},
    {"poisson", drawn},                             {"binomial", drawn},
    {"_standard_gamma", drawn},                     {"_standard_gamma_grad", binary_same},
    {"_sample_dirichlet", drawn},                   {"_dirichlet_grad", drawn},
    {"multinomial", multinomial},                   {"randperm.generator_out", randperm},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
