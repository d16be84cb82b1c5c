// Shape rules of reductions and order: sums, extremes, medians, histograms, searches.
#pragma once

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

FXX_INLINE Sizes optional_dims(const ShapeCall& c, std::size_t i) { return c.has(i) ? c.integers(i) : Sizes{}; }
FXX_INLINE ScalarType sum_dtype(ScalarType type) { return at::isIntegralType(type, true) ? at::kLong : type; }

FXX_INLINE void give_values_and_indices(ShapeCall& c, const Sizes& sizes) {
  c.give(meta_tensor(sizes, c.tensor(0).scalar_type()));
  c.give(meta_tensor(sizes, at::kLong));
}
FXX_INLINE void check_reduced(const Tensor& t, std::int64_t dim, const char* op) {
  TORCH_CHECK_INDEX(t.dim() == 0 || t.size(wrapped(dim, t.dim())) > 0, op, "(): Expected reduction dim ", dim,
                    " to have non-zero size.");
}
/// self, dim, keepdim: values and indices.
FXX_INLINE void select_over_dim(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  check_reduced(x, c.integer(1), "median or mode");
  refuse_dtype(x, x.is_complex() && x.dim() > 0 && x.numel() > 0, "median or mode");
  give_values_and_indices(c, reduced(c.tensor(0), {c.integer(1)}, c.flag(2)));
}
FXX_INLINE void median_over_dim(ShapeCall& c) {
  refuse_dtype(c.tensor(0), is_bool_or_complex(c.tensor(0)), "median_out");
  select_over_dim(c);
}
/// self, k, dim, keepdim.
FXX_INLINE void kthvalue(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, is_bool_or_complex(x) && x.dim() > 0, "kthvalue_cpu");
  const std::int64_t dim = wrapped(c.integer(2), x.dim()), size = x.dim() ? x.size(dim) : 1;
  TORCH_CHECK(c.integer(1) >= 1 && c.integer(1) <= size, "kthvalue(): selected number k out of range for dimension ",
              dim);
  give_values_and_indices(c, reduced(x, {dim}, c.flag(3)));
}
FXX_INLINE void median(ShapeCall& c) {
  refuse_dtype(c.tensor(0), is_bool_or_complex(c.tensor(0)) && c.tensor(0).numel() > 0, "median_cpu");
  one_element(c);
}
FXX_INLINE void largest(ShapeCall& c) {
  c.allow_cast();
  check_ordered(c.tensor(0), "max_all");
  TORCH_CHECK(c.tensor(0).numel() > 0,
              "max(): Expected reduction dim to be specified for input.numel() == 0. Specify "
              "the reduction dim with the 'dim' argument.");
  one_element(c);
}
FXX_INLINE void smallest_and_largest(ShapeCall& c) {
  largest(c);
  one_element(c);
}
FXX_INLINE void smallest_and_largest_over_dim(ShapeCall& c) {
  const Sizes sizes = reduced(c.tensor(0), {c.integer(1)}, c.flag(2));
  for (int i = 0; i < 2; ++i) c.give(meta_tensor(sizes, c.tensor(0).scalar_type()));
}
/// self, dtype.
FXX_INLINE void product_of_all(ShapeCall& c) {
  c.give(meta_tensor({}, c.dtype(1, sum_dtype(c.tensor(0).scalar_type()))));
}
/// self, dim, keepdim, dtype.
FXX_INLINE void nansum(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  c.allow_cast();
  TORCH_CHECK(!x.is_complex(), "nansum does not support complex inputs");
  c.give(meta_tensor(reduced(x, optional_dims(c, 1), c.flag(2)), c.dtype(3, sum_dtype(x.scalar_type()))));
}
FXX_INLINE void give_deviation(ShapeCall& c, bool mean) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(at::isFloatingType(x.scalar_type()) || x.is_complex(),
              "std and var only support floating point and complex dtypes");
  c.allow_cast();
  const Sizes sizes = reduced(x, optional_dims(c, 1), c.flag(3));
  c.give(meta_tensor(sizes, real_type(x)));
  if (mean) c.give(meta_tensor(sizes, x.scalar_type()));
}
/// self, dim, correction, keepdim.
FXX_INLINE void deviation(ShapeCall& c) { give_deviation(c, false); }
FXX_INLINE void deviation_and_mean(ShapeCall& c) { give_deviation(c, true); }
/// self, dim.
FXX_INLINE void cumulative(ShapeCall& c) {
  check_floating_or_complex(c.tensor(0), "logcumsumexp_out_cpu");
  wrapped(c.integer(1), c.tensor(0).dim());
  contiguous_like_argument<0>(c);
}
FXX_INLINE void count_nonzero(ShapeCall& c) {
  c.give(meta_tensor(reduced(c.tensor(0), c.integers(1), false), at::kLong));
}
/// data, reduce, lengths, indices, offsets, axis.
FXX_INLINE void segment_reduce(ShapeCall& c) {
  const Tensor x = c.tensor(0), lengths = c.tensor(2), offsets = c.tensor(4);
  const std::int64_t axis = wrapped(c.integer(5), x.dim());
  TORCH_CHECK(lengths.defined() || offsets.defined(), "segment_reduce(): Either lengths or offsets must be defined.");
  const Tensor& segments = lengths.defined() ? lengths : offsets;
  TORCH_CHECK(axis == segments.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of lengths or "
              "offsets but got ",
              axis);
  Sizes sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(axis)] = segments.size(axis) - !lengths.defined();
  c.give(meta_tensor(sizes, x.scalar_type()));
}
FXX_INLINE void trace_of_matrix(ShapeCall& c) {
  refuse_dtype(c.tensor(0), is_bool(c.tensor(0)), "trace");
  TORCH_CHECK(c.tensor(0).dim() == 2, "trace: expected a matrix, but got tensor with dim ", c.tensor(0).dim());
  c.give(meta_tensor({}, sum_dtype(c.tensor(0).scalar_type())));
}
/// self, bins, min, max.
FXX_INLINE void histc(ShapeCall& c) {
  check_floating(c.tensor(0), "histc");
  TORCH_CHECK(c.integer(1) > 0, "histc(): bins must be > 0");
  c.give(meta_tensor({c.integer(1)}, c.tensor(0).scalar_type()));
}
FXX_INLINE void histogram(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, is_half(x) ? x.numel() > 0 : !at::isFloatingType(x.scalar_type()), "histogramdd");
  TORCH_CHECK(!c[1].isTensor() || c.tensor(1).dim() == 1, "torch.histogram: bins tensor should have one dimension");
  const ScalarType type = c.tensor(0).scalar_type();
  const std::int64_t bins = c[1].isTensor() ? c.tensor(1).numel() - 1 : c.integer(1);
  TORCH_CHECK(bins > 0, "histogram(): expected at least one bin");
  c.give(meta_tensor({bins}, type));
  c.give(meta_tensor({bins + 1}, type));
}
/// The dtype of the indices that a search gives. Tensors among the first two arguments are those that it compares.
FXX_INLINE ScalarType searched_dtype(const ShapeCall& c) {
  for (std::size_t i = 0; i < 2; ++i)
    if (c[i].isTensor() && c.tensor(i).numel() > 0) check_ordered(c.tensor(i), "searchsorted_out_cpu");
  return c.flag(2) ? at::kInt : at::kLong;
}
/// (Tensor or number, boundaries, out_int32, ...): an index for each.
FXX_INLINE void bucketize(ShapeCall& c) {
  const ScalarType type = searched_dtype(c);
  const Tensor boundaries = c.tensor(1);
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
  c.give(c[0].isTensor() ? contiguous_like(c.tensor(0), type) : meta_tensor({}, type));
}
/// sorted_sequence, self, out_int32, right, side, sorter.
FXX_INLINE void searchsorted(ShapeCall& c) {
  const ScalarType type = searched_dtype(c);
  const Tensor sorted = c.tensor(0);
  if (!c[1].isTensor()) {
    TORCH_CHECK(sorted.dim() == 1,
                "searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1");
    c.give(meta_tensor({}, type));
    return;
  }
  const Tensor x = c.tensor(1);
  TORCH_CHECK(
      sorted.dim() == 1 ||
          (sorted.dim() == x.dim() && sorted.dim() > 0 && without_last(sorted, 1) == without_last(x, 1)),
      "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
      "and input value tensor must match, but we got boundaries tensor ",
      sorted.sizes(), " and input value tensor ", x.sizes());
  c.give(contiguous_like(x, type));
}

// clang-format off
inline constexpr ShapeRuleOf reduction_rules[] = {
    {"max", largest},                               {"min", largest},
    {"max.unary_out", largest},                     {"min.unary_out", largest},
    {"_aminmax", smallest_and_largest},             {"_aminmax.dim", smallest_and_largest_over_dim},
    {"median", median},                             {"nanmedian", median},
    {"median.dim_values", median_over_dim},         {"nanmedian.dim_values", median_over_dim},
    {"mode", select_over_dim},                      {"mode.values", select_over_dim},
    {"kthvalue.values", kthvalue},                  {"prod", product_of_all},
    {"nansum", nansum},                             {"std.correction", deviation},
    {"var.correction", deviation},                  {"std_mean.correction", deviation_and_mean},
    {"var_mean.correction", deviation_and_mean},    {"count_nonzero.dim_IntList", count_nonzero},
    {"trace", trace_of_matrix},                     {"histc", histc},
    {"histogram.bin_ct", histogram},                {"histogram.bins_tensor", histogram},
    {"bucketize.Tensor", bucketize},                {"bucketize.Scalar", bucketize},
    {"searchsorted.Tensor", searchsorted},          {"searchsorted.Scalar", searchsorted},
    {"_logcumsumexp", cumulative},                  {"segment_reduce", segment_reduce},
    {"_segment_reduce_backward", contiguous_like_argument<2>},
    {"_cummax_helper", nothing},                    {"_cummin_helper", nothing},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
