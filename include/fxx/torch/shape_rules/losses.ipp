// Shape rules of losses and their backward passes.
#pragma once

#include <algorithm>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// Sums, and elements of a loss, by reduction: 0 none, 1 mean, 2 sum.
FXX_INLINE void loss(ShapeCall& c, const Tensor& elements, std::int64_t reduction) {
  c.give(reduction == 0 ? elements : meta_tensor({}, elements.scalar_type()));
}
/// self, target, weight, reduction.
FXX_INLINE void cross_entropy_of_bits(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  check_floating(x, "binary_cross_entropy");
  check_same_dtype(x, target, "binary_cross_entropy");
  at::infer_size(x.squeeze().sizes(), target.squeeze().sizes());  // throws where they do not broadcast
  loss(c, like(x), c.integer(3));
}
/// self, target, reduction, delta.
FXX_INLINE void huber_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  TORCH_CHECK(c.number(3).toDouble() > 0, "huber_loss does not support non-positive values for delta.");
  const Tensor elements = pointwise({x, target}, Promotion::common);
  check_floating(elements, "huber_cpu");
  TORCH_CHECK(c10::canCast(elements.scalar_type(), x.scalar_type()), "result type ", elements.scalar_type(),
              " can't be cast to the desired output type ", x.scalar_type());
  const bool fits = elements.sizes() == x.sizes();
  loss(c, fits ? like(x) : meta_tensor(elements.sizes(), elements.strides(), x.scalar_type()), c.integer(2));
}
/// grad_output, self, target, all of one dtype.
FXX_INLINE void loss_backward(ShapeCall& c) {
  pointwise({c.tensor(0), c.tensor(1), c.tensor(2)});  // throws where they do not broadcast
  contiguous_like_argument<1>(c);
}
FXX_INLINE void check_long(const Tensor& target) {
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
}
FXX_INLINE void check_float_or_double(const Tensor& t, const char* op) {
  refuse_dtype(t, t.scalar_type() != at::kFloat && t.scalar_type() != at::kDouble, op);
}
/// self (N, C) or (C), target, p, margin, weight, reduction.
FXX_INLINE void multi_margin_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  TORCH_CHECK(x.dim() <= 2 && (x.dim() == 0 || x.size(-1) > 0),
              "Expected non-empty vector or matrix with optional 0-dim"
              " batch size, but got: ",
              x.sizes());
  const std::int64_t n = x.dim() == 2 ? x.size(0) : 1;
  TORCH_CHECK(target.dim() <= 1 && target.numel() == n, "inconsistent target size, expected ", n, " but got ",
              target.sizes());
  if (x.numel() > 0) {
    check_float_or_double(x, "multi_margin_loss");
    check_long(target);
    if (c.has(4)) check_same_dtype(x, c.tensor(4), "multi_margin_loss");
  }
  TORCH_CHECK(!c.has(4) || c.tensor(4).numel() == (x.dim() == 0 ? 1 : x.size(-1)),
              "inconsistent weight size, expected ", x.dim() == 0 ? 1 : x.size(-1));
  c.give(meta_tensor(c.integer(5) == 0 && target.dim() > 0 ? Sizes{n} : Sizes{}, x.scalar_type()));
}
/// self (N, C) or (C), target of the same sizes, reduction.
FXX_INLINE void multilabel_margin_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  TORCH_CHECK(x.dim() == 0 || x.size(-1) > 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but "
              "got: ",
              x.sizes());
  if (x.numel() > 0) {
    check_float_or_double(x, "multilabel_margin_loss");
    check_long(target);
  }
  TORCH_CHECK(x.dim() <= 2 && x.sizes() == target.sizes(), "inconsistent target size: ", target.sizes(),
              " for input of size: ", x.sizes());
  c.give(meta_tensor(c.integer(2) == 0 && x.dim() == 2 ? Sizes{x.size(0)} : Sizes{}, x.scalar_type()));
  c.give(contiguous_like(target, x.scalar_type()));
}
/// self (N, C, H, W), target (N, H, W), weight, reduction, ignore_index.
FXX_INLINE void nll_loss2d(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1), weight = c.tensor(2);
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(x.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", x.dim());
  TORCH_CHECK(!weight.defined() || weight.numel() == x.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(x.size(0) == target.size(0) && x.size(2) == target.size(1) && x.size(3) == target.size(2),
              "size mismatch (got input: ", x.sizes(), " , target: ", target.sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
              "expected target dtype to be Long or Byte, but got ", target.scalar_type());
  if (target.numel() > 0 || c.integer(3) == 0) check_long(target);
  check_floating(x, "nll_loss2d");
  if (weight.defined()) check_same_dtype(x, weight, "nll_loss2d");
  loss(c, contiguous_like(target, x.scalar_type()), c.integer(3));
  one_element(c);
}
/// log_probs (T, N, C), targets, input_lengths, target_lengths, ...
FXX_INLINE void ctc_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), targets = c.tensor(1);
  TORCH_CHECK(x.dim() == 3, "ctc_loss: expected log_probs of 3 dimensions, but got ", x.sizes());
  check_float_or_double(x, "ctc_loss");
  TORCH_CHECK(targets.scalar_type() == at::kLong || targets.scalar_type() == at::kInt,
              "ctc_loss: expected targets of type Long or Int but found ", targets.scalar_type());
  std::int64_t longest = targets.dim() == 2 ? targets.size(1) : targets.numel();
  if (c[3].isIntList()) {
    const Sizes in = c.integers(2), out = c.integers(3);
    TORCH_CHECK(static_cast<std::int64_t>(in.size()) == x.size(1) && in.size() == out.size(),
                "input_lengths and target_lengths must be of size batch_size ", x.size(1));
    for (std::int64_t length : in)
      TORCH_CHECK(length <= x.size(0), "Expected input_lengths to have value at most ", x.size(0), ", but got value ",
                  length);
    longest = out.empty() ? 0 : *std::max_element(out.begin(), out.end());
  }
  c.give(meta_tensor({x.size(1)}, x.scalar_type()));
  c.give(meta_tensor({x.size(1), x.size(0), 2 * longest + 1}, x.scalar_type()));
}

// clang-format off
inline constexpr ShapeRuleOf loss_rules[] = {
    {"binary_cross_entropy", cross_entropy_of_bits},
    {"binary_cross_entropy_backward", like_argument<1>},
    {"huber_loss", huber_loss},                     {"huber_loss_backward.out", loss_backward},
    {"mse_loss_backward", contiguous_like_argument<1>},
    {"smooth_l1_loss_backward.grad_input", contiguous_like_argument<1>},
    {"multi_margin_loss", multi_margin_loss},       {"multi_margin_loss_backward", contiguous_like_argument<1>},
    {"multilabel_margin_loss_forward", multilabel_margin_loss},
    {"multilabel_margin_loss_backward", contiguous_like_argument<1>},
    {"nll_loss2d_forward", nll_loss2d},             {"nll_loss2d_backward", contiguous_like_argument<1>},
    {"_ctc_loss", ctc_loss},                        {"_ctc_loss.Tensor", ctc_loss},
    {"_ctc_loss_backward", contiguous_like_argument<1>},
    {"_ctc_loss_backward.Tensor", contiguous_like_argument<1>},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
