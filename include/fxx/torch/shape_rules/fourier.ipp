// Shape rules of Fourier transforms.
#pragma once

#include <ATen/Context.h>

#include <algorithm>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// Whether MKL transforms, which leaves its own order of dimensions in memory. What is written to `out` is in order.
FXX_INLINE bool is_reordered(const ShapeCall& c) {
  static const bool has_mkl = at::globalContext().hasMKL();
  return has_mkl && !c.has_out();
}
/// A result whose batch dimensions lie outside, in the order of the input's strides, and transformed ones inside.
FXX_INLINE Tensor transformed(const Tensor& in, at::IntArrayRef sizes, const Sizes& dims, ScalarType dtype) {
  const std::int64_t n = in.dim();
  Sizes order;
  for (std::int64_t d = 0; d < n; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return in.stride(a) > in.stride(b); });
  order.insert(order.end(), dims.begin(), dims.end());
  Sizes strides(static_cast<std::size_t>(n));
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    strides[d] = step;
    step *= sizes[d];
  }
  return meta_tensor(sizes, strides, dtype);
}
FXX_INLINE Sizes wrapped_dims(const Tensor& t, Sizes dims) {
  for (std::int64_t& d : dims) d = wrapped(d, t.dim());
  return dims;
}
/// Dimensions to transform, the one of the largest stride first, but for the last of them.
FXX_INLINE Sizes sorted_dims(const Tensor& t, Sizes dims, bool but_last) {
  std::sort(dims.begin(), dims.end() - but_last,
            [&](std::int64_t a, std::int64_t b) { return t.stride(a) > t.stride(b); });
  return dims;
}
/// self, dim, normalization, forward.
FXX_INLINE void fft_c2c(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.is_complex(), "_fft_c2c: expected a complex tensor");
  const Sizes dims = wrapped_dims(x, c.integers(1));
  c.give(dims.empty()       ? like(x)
         : !is_reordered(c) ? contiguous_like(x)
                            : transformed(x, x.sizes(), sorted_dims(x, dims, false), x.scalar_type()));
}
/// self, dim, normalization, onesided.
FXX_INLINE void fft_r2c(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(at::isFloatingType(x.scalar_type()), "_fft_r2c: expected a floating tensor");
  const Sizes dims = wrapped_dims(x, c.integers(1));
  TORCH_CHECK(!dims.empty(), "_fft_r2c: expected a dimension to transform");
  Sizes sizes = x.sizes().vec();
  auto& last = sizes[static_cast<std::size_t>(dims.back())];
  if (c.flag(3)) last = last / 2 + 1;
  c.give(is_reordered(c) ? transformed(x, sizes, sorted_dims(x, dims, true), complex_type(x))
                         : meta_tensor(sizes, complex_type(x)));
}
/// self, dim, normalization, last_dim_size.
FXX_INLINE void fft_c2r(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.is_complex(), "_fft_c2r: expected a complex tensor");
  const Sizes dims = wrapped_dims(x, c.integers(1));
  TORCH_CHECK(!dims.empty() && c.integer(3) >= 1, "Invalid number of data points (", c.integer(3), ") specified");
  Sizes sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(dims.back())] = c.integer(3);
  const ScalarType type = real_type(x);
  if (!is_reordered(c)) return c.give(meta_tensor(sizes, type));
  // All dimensions but the last are transformed first.
  const Sizes others(dims.begin(), dims.end() - 1);
  const Tensor before = others.empty() ? x : transformed(x, x.sizes(), sorted_dims(x, others, false), x.scalar_type());
  c.give(transformed(before, sizes, {dims.back()}, type));
}

// clang-format off
inline constexpr ShapeRuleOf fourier_rules[] = {
    {"_fft_c2c", fft_c2c},                          {"_fft_r2c", fft_r2c},
    {"_fft_c2r", fft_c2r},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
