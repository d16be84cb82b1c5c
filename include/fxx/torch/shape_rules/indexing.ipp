// Shape rules of embeddings, indices, and operators that move elements.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/cat_ops.h>

#include <algorithm>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

// --- embeddings and indices -----------------------------------------------------------------------------------------

FXX_INLINE void check_index(const Tensor& index, const char* op) {
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op,
              ": Expected dtype int32 or int64 for index, but got ", index.scalar_type());
}
/// self, dim, index.
FXX_INLINE void index_select(ShapeCall& c) {
  const Tensor x = c.tensor(0), index = c.tensor(2);
  check_index(index, "index_select()");
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  const std::int64_t dim = wrapped(c.integer(1), x.dim());
  TORCH_CHECK(x.dim() > 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK_INDEX(x.dim() == 0 || x.size(dim) > 0 || index.numel() == 0, "index out of range in self");
  Sizes sizes = x.sizes().vec();
  if (x.dim() > 0) sizes[static_cast<std::size_t>(dim)] = index.numel();
  c.give(meta_tensor(sizes, x.scalar_type()));
}
FXX_INLINE void take(ShapeCall& c) {
  const Tensor x = c.tensor(0), index = c.tensor(1);
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK_INDEX(x.numel() > 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  c.give(contiguous_like(index, x.scalar_type()));
}
/// self, dim, index, value.
FXX_INLINE void index_fill(ShapeCall& c) {
  const Tensor x = c.tensor(0), index = c.tensor(2);
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK_INDEX(index.dim() <= 1, "Index has to be a vector/scalar");
  const std::int64_t dim = wrapped(c.integer(1), x.dim());
  TORCH_CHECK_INDEX(x.dim() == 0 || x.size(dim) > 0 || index.numel() == 0, "index is out of bounds for dimension ", dim,
                    " with size 0");
  if (c[3].isTensor())
    TORCH_CHECK(c.tensor(3).dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                c.tensor(3).dim(), " dimension(s).");
  c.give(like(x));
}
FXX_INLINE void itself(ShapeCall& c) { c.give(c.tensor(0)); }
/// grad_output, indices, num_weights, ...
FXX_INLINE void embedding_backward(ShapeCall& c) {
  const Tensor grad = c.tensor(0);
  check_index(c.tensor(1), "embedding_backward");
  c.give(meta_tensor({c.integer(2), grad.size(-1)}, grad.scalar_type()));
}
/// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx.
FXX_INLINE void embedding_bag(ShapeCall& c) {
  const Tensor weight = c.tensor(0), indices = c.tensor(1), offsets = c.tensor(2), scales = c.tensor(6);
  const std::int64_t mode = c.integer(4);  // 0 sum, 1 mean, 2 max
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  check_index(indices, "embedding_bag");
  check_index(offsets, "embedding_bag");
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2, "input has to be a 1D or 2D Tensor");
  TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor");
  const bool last = c.flag(7);
  TORCH_CHECK(!last || offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
  TORCH_CHECK(!scales.defined() || (mode == 0 && scales.dim() == 1 && scales.numel() == indices.numel()),
              "embedding_bag: per_sample_weights goes with mode 'sum' and has one weight for each index");
  const std::int64_t bags = offsets.size(0) - last;
  const ScalarType type = weight.scalar_type(), index = indices.scalar_type();
  const bool fast = mode == 0 && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) &&
                    weight.stride(1) == 1 && c.integer(8) < 0 && (!scales.defined() || scales.stride(0) == 1);
  const std::int64_t counted = mode == 0 ? offsets.size(0) : bags;
  c.give(meta_tensor({bags, weight.size(1)}, type));
  c.give(meta_tensor({fast ? 0 : indices.size(0)}, index));
  c.give(meta_tensor({counted}, index));
  if (mode == 2) c.give(meta_tensor({bags, weight.size(1)}, index));
  else c.give(meta_tensor({counted}, index));
}
/// grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...
FXX_INLINE void embedding_bag_dense_backward(ShapeCall& c) {
  c.give(meta_tensor({c.integer(5), c.tensor(0).size(1)}, c.tensor(0).scalar_type()));
}
/// grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse, ...
FXX_INLINE void embedding_bag_backward(ShapeCall& c) {
  TORCH_CHECK(!c.flag(9), "embedding_bag: a sparse gradient cannot be fake");
  c.give(meta_tensor({c.integer(6), c.tensor(0).size(1)}, c.tensor(0).scalar_type()));
}
FXX_INLINE void embedding_bag_weights_backward(ShapeCall& c) {
  c.give(meta_tensor({c.tensor(2).numel()}, c.tensor(0).scalar_type()));
}
/// repeats, output_size.
FXX_INLINE void repeat_interleave(ShapeCall& c) {
  if (!c.has(1)) refuse_elements(c.op().operator_name());
  TORCH_CHECK(c.tensor(0).dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  c.give(meta_tensor({c.integer(1)}, c.tensor(0).scalar_type()));
}
/// self, size, fill_value.
FXX_INLINE void nonzero_static(ShapeCall& c) {
  TORCH_CHECK(c.integer(1) >= 0, "nonzero_static: 'size' must be an non-negative integer");
  c.give(meta_tensor({c.integer(1), c.tensor(0).dim()}, at::kLong));
}
FXX_INLINE void unfold_backward(ShapeCall& c) { c.give(meta_tensor(c.integers(1), c.tensor(0).scalar_type())); }

// --- moving elements ------------------------------------------------------------------------------------------------

FXX_INLINE Tensor rolled(const Tensor& x, const Sizes& shifts, const Sizes& dims) {
  if (dims.empty() && shifts.size() == 1) return rolled(x.flatten(), shifts, {0}).view(x.sizes());
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  if (x.numel() == 0) return like(x);
  Tensor out = x;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    // Where the tensor is cut; the parts change places.
    const std::int64_t dim = wrapped(dims[i], x.dim()), size = x.size(dim);
    const std::int64_t start = ((size - shifts[i]) % size + size) % size;
    out = at::_ops::cat::call({{out.narrow(dim, start, size - start), out.narrow(dim, 0, start)}}, dim);
  }
  return out;
}
FXX_INLINE void roll(ShapeCall& c) { c.give(rolled(c.tensor(0), c.integers(1), c.integers(2))); }
FXX_INLINE void flip(ShapeCall& c) {
  reduced(c.tensor(0), c.integers(1), false);  // checks the dims
  c.give(like(c.tensor(0)));
}
FXX_INLINE void channel_shuffle(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", x.sizes());
  TORCH_CHECK(c.integer(1) > 0 && x.size(1) % c.integer(1) == 0,
              "Number of groups to divide channels in must be positive"
              " and divide the channels. Value of groups:",
              c.integer(1));
  c.give(formatted_like(x));
}
/// self, dim, start, length.
FXX_INLINE void narrow_copy(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  Sizes sizes = x.sizes().vec();
  const std::int64_t dim = wrapped(c.integer(1), x.dim());
  std::int64_t start = c.integer(2), length = c.integer(3);
  TORCH_CHECK(x.dim() > 0 && length >= 0,
              "narrow() cannot be applied to a 0-dim tensor, and length must be non-negative.");
  if (start != x.size(dim)) start = c10::maybe_wrap_dim(start, x.size(dim));
  TORCH_CHECK(start + length <= x.size(dim), "start (", start, ") + length (", length, ") exceeds dimension size (",
              x.size(dim), ").");
  sizes[static_cast<std::size_t>(dim)] = length;
  c.give(meta_tensor(sizes, x.scalar_type()));
}
/// row, col, offset, dtype.
FXX_INLINE void give_triangle(ShapeCall& c, bool lower) {
  const std::int64_t rows = c.integer(0), columns = c.integer(1), offset = c.integer(2);
  TORCH_CHECK(rows >= 0 && columns >= 0, "row and col must be non-negative, got ", rows, " and ", columns);
  std::int64_t below = 0;  // pairs with column <= row + bound
  const std::int64_t bound = lower ? offset : offset - 1;
  for (std::int64_t r = 0; r < rows; ++r) below += std::clamp<std::int64_t>(r + bound + 1, 0, columns);
  c.give(meta_tensor({2, lower ? below : rows * columns - below}, c.dtype(3, at::kLong)));
}
FXX_INLINE void lower_triangle(ShapeCall& c) { give_triangle(c, true); }
FXX_INLINE void upper_triangle(ShapeCall& c) { give_triangle(c, false); }

// clang-format off
inline constexpr ShapeRuleOf indexing_rules[] = {
    {"index_select", index_select},                 {"take", take},
    {"index_fill.int_Scalar", index_fill},          {"index_fill.int_Tensor", index_fill},
    {"index_fill_.int_Scalar", index_fill},         {"index_fill_.int_Tensor", index_fill},
    {"embedding_renorm_", itself},                  {"embedding_dense_backward", embedding_backward},
    {"_embedding_bag", embedding_bag},              {"_embedding_bag_forward_only", embedding_bag},
    {"_embedding_bag_backward", embedding_bag_backward},
    {"_embedding_bag_dense_backward", embedding_bag_dense_backward},
    {"_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward},
    {"repeat_interleave.Tensor", repeat_interleave},
    {"nonzero_static", nonzero_static},             {"unfold_backward", unfold_backward},
    {"roll", roll},                                 {"flip", flip},
    {"channel_shuffle", channel_shuffle},           {"narrow_copy.out", narrow_copy},
    {"tril_indices", lower_triangle},               {"triu_indices", upper_triangle},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
