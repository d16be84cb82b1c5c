// Shape rules of pooling, padding, sampling of a grid, pixels and sliding windows.
#pragma once

#include <algorithm>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// Sizes of all dimensions but the last ones, then `sizes`, which these get.
FXX_INLINE Sizes with_last(const Tensor& t, at::IntArrayRef sizes) {
  return joined(without_last(t, static_cast<std::int64_t>(sizes.size())), sizes);
}
FXX_INLINE void check_spatial(const Tensor& t, std::int64_t dims, const char* op, bool channels = true) {
  TORCH_CHECK(t.dim() == dims + 1 || t.dim() == dims + 2, op, "(): Expected ", dims + 1, "D or ", dims + 2,
              "D tensor, but got ", t.sizes());
  for (std::int64_t d = t.dim() - dims - channels; d < t.dim(); ++d)
    TORCH_CHECK(t.size(d) > 0, op, "(): Expected input to have non-zero size for non-batch dimensions, but input has ",
                "sizes ", t.sizes(), " with dimension ", d, " being empty");
}

// --- pooling --------------------------------------------------------------------------------------------------------

template <std::int64_t Dims>
void adaptive_average_pool(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const Sizes out = c.integers(1);
  TORCH_CHECK(out.size() == Dims, "adaptive_avg_pool: output_size must be ", Dims, " integers");
  for (std::int64_t size : out) TORCH_CHECK(size >= 0, "adaptive_avg_pool: output_size must be non-negative");
  check_spatial(x, Dims, "adaptive_avg_pool", false);
  if (x.numel() > 0 && product(out) > 0) check_floating(x, "adaptive_avg_pool");
  if (x.dim() == Dims + 2) c.restride();
  c.give(meta_tensor(with_last(x, out), x.scalar_type(),
                     Dims == 2 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous));
}

FXX_INLINE std::int64_t pooled(std::int64_t in, std::int64_t kernel, std::int64_t padding, std::int64_t stride,
                               std::int64_t dilation, bool ceil) {
  TORCH_CHECK(kernel > 0 && stride > 0 && dilation > 0, "kernel size, stride and dilation should be greater than zero");
  TORCH_CHECK(padding >= 0 && padding <= ((kernel - 1) * dilation + 1) / 2,
              "pad should be at most half of effective kernel size, but got pad=", padding, ", kernel_size=", kernel);
  const std::int64_t space = in + 2 * padding - dilation * (kernel - 1) - 1;
  std::int64_t out = (space + (ceil ? stride - 1 : 0)) / stride + 1;
  if (space + (ceil ? stride - 1 : 0) < 0) out = 0;  // rounded down
  if (ceil && (out - 1) * stride >= in + padding) --out;
  TORCH_CHECK(out >= 1, "Output size is too small for input size ", in);
  return out;
}
/// self, kernel_size, stride, padding, dilation, ceil_mode.
FXX_INLINE void max_pool3d(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  check_spatial(x, 3, "max_pool3d");
  const Sizes kernel = expanded(c.integers(1), 3, "kernel_size");
  const Sizes stride = c.integers(2).empty() ? kernel : expanded(c.integers(2), 3, "stride");
  const Sizes padding = expanded(c.integers(3), 3, "padding"), dilation = expanded(c.integers(4), 3, "dilation");
  Sizes out;
  for (std::size_t d = 0; d < 3; ++d)
    out.push_back(pooled(x.size(x.dim() - 3 + static_cast<std::int64_t>(d)), kernel[d], padding[d], stride[d],
                         dilation[d], c.flag(5)));
  const Sizes sizes = with_last(x, out);
  c.give(meta_tensor(sizes, x.scalar_type(), x.suggest_memory_format()));
  c.give(meta_tensor(sizes, at::kLong, x.suggest_memory_format()));
}
template <std::int64_t Dims>
void max_unpool(ShapeCall& c) {
  const Tensor x = c.tensor(0), indices = c.tensor(1);
  const Sizes out = c.integers(2);
  TORCH_CHECK(out.size() == Dims, "There should be exactly ", Dims, " elements in output_size, but got ", out.size());
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(x.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              x.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  check_spatial(x, Dims, "max_unpool");
  c.give(meta_tensor(with_last(x, out), x.scalar_type(),
                     Dims == 2 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous));
}

// --- padding --------------------------------------------------------------------------------------------------------

/// self, padding: (left, right, top, bottom).
FXX_INLINE void reflection_pad2d(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const Sizes pad = c.integers(1);
  if (x.dim() == 4) c.restride();
  TORCH_CHECK(pad.size() == 4, "padding size is expected to be 4, but got ", pad.size());
  check_spatial(x, 2, "reflection_pad2d");
  const std::int64_t height = x.size(-2), width = x.size(-1);
  TORCH_CHECK(pad[0] < width && pad[1] < width && pad[2] < height && pad[3] < height,
              "Padding size should be less than the corresponding input dimension, but got: padding ",
              at::IntArrayRef(pad), " of input ", x.sizes());
  const Sizes out = {height + pad[2] + pad[3], width + pad[0] + pad[1]};
  TORCH_CHECK(out[0] >= 1 || out[1] >= 1, "input ", x.sizes(), " is too small for padding ", at::IntArrayRef(pad));
  c.give(meta_tensor(with_last(x, out), x.scalar_type(), x.suggest_memory_format()));
}

template <std::size_t Dims>
void replication_pad(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const Sizes pad = c.integers(1);
  TORCH_CHECK(pad.size() == 2 * Dims, "padding size is expected to be ", 2 * Dims, ", but got ", pad.size());
  check_spatial(x, Dims, "replication_pad");
  Sizes out;
  for (std::size_t d = 0; d < Dims; ++d) {
    const std::size_t at = 2 * (Dims - 1 - d);
    out.push_back(x.size(x.dim() - static_cast<std::int64_t>(Dims - d)) + pad[at] + pad[at + 1]);
  }
  TORCH_CHECK(std::any_of(out.begin(), out.end(), [](std::int64_t size) { return size >= 1; }), "input ", x.sizes(),
              " is too small for padding ", at::IntArrayRef(pad));
  c.give(meta_tensor(with_last(x, out), x.scalar_type(), x.suggest_memory_format()));
}

// --- pixels, grids, windows -----------------------------------------------------------------------------------------

/// self, factor: channels become pixels, or back.
FXX_INLINE void give_shuffled_pixels(ShapeCall& c, bool back) {
  const Tensor x = c.tensor(0);
  const std::int64_t r = c.integer(1);
  TORCH_CHECK(x.dim() >= 3 && r > 0,
              "pixel_shuffle expects input to have at least 3 dimensions and a positive factor, but"
              " got input with ",
              x.dim(), " dimension(s) and ", r);
  TORCH_CHECK(x.suggest_memory_format() != at::MemoryFormat::ChannelsLast3d,
              "Unsupported memory format. Supports only ChannelsLast, Contiguous");
  const std::int64_t channels = x.size(-3), height = x.size(-2), width = x.size(-1);
  TORCH_CHECK(back ? height % r == 0 && width % r == 0 : channels % (r * r) == 0,
              "pixel_shuffle expects its input to be divisible by the factor ", r, ", but got ", x.sizes());
  const Sizes out =
      back ? Sizes{channels * r * r, height / r, width / r} : Sizes{channels / r / r, height * r, width * r};
  c.give(meta_tensor(with_last(x, out), x.scalar_type(), x.suggest_memory_format()));
}
FXX_INLINE void pixel_shuffle(ShapeCall& c) { give_shuffled_pixels(c, false); }
FXX_INLINE void pixel_unshuffle(ShapeCall& c) { give_shuffled_pixels(c, true); }

/// input, grid: (N, C, [D,] H, W), (N, [D,] H, W, dims).
template <std::int64_t Dims>
void grid_sampler(ShapeCall& c) {
  const Tensor x = c.tensor(0), grid = c.tensor(1);
  TORCH_CHECK(x.dim() == Dims + 2 && grid.dim() == x.dim(), "grid_sampler(): expected ", Dims + 2,
              "D input and grid with same number of dimensions, but got input with sizes ", x.sizes(),
              " and grid with sizes ", grid.sizes());
  TORCH_CHECK(x.size(0) == grid.size(0) && grid.size(-1) == Dims,
              "grid_sampler(): expected grid and input to have same batch size, and grid to have size ", Dims,
              " in last dimension, but got input with sizes ", x.sizes(), " and grid with sizes ", grid.sizes());
  Sizes sizes = {x.size(0), x.size(1)};
  for (std::int64_t d = 1; d <= Dims; ++d) sizes.push_back(grid.size(d));
  const bool computes = product(sizes) > 0;
  if (computes || Dims == 3) check_floating(x, "grid_sampler");
  if (computes) check_same_dtype(x, grid, "grid_sampler");
  c.give(meta_tensor(sizes, x.scalar_type()));
}
/// grad_output, input, grid, ..., mask.
FXX_INLINE void grid_sampler_backward(ShapeCall& c) {
  c.give(c[6].toBoolList()[0] ? contiguous_like(c.tensor(1)) : Tensor());
  c.give(contiguous_like(c.tensor(2)));
}

/// The number of places where a window fits.
FXX_INLINE std::int64_t windows(std::int64_t in, std::int64_t kernel, std::int64_t dilation, std::int64_t padding,
                                std::int64_t stride) {
  TORCH_CHECK(kernel > 0 && dilation > 0 && stride > 0 && padding >= 0,
              "kernel size, dilation and stride should be greater than zero, padding non-negative");
  const std::int64_t space = in + 2 * padding - (dilation * (kernel - 1) + 1);
  TORCH_CHECK(space >= 0, "the sliding blocks do not fit an input of size ", in);
  return space / stride + 1;
}
/// self, kernel_size, dilation, padding, stride.
FXX_INLINE void im2col(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, "Expected 3D or 4D (batch mode) tensor for input, but got: ", x.sizes());
  for (std::int64_t d = x.dim() == 4; d < x.dim(); ++d)
    TORCH_CHECK(x.size(d) > 0, "Expected non-zero dimensions for input, but got: ", x.sizes());
  const Sizes k = c.integers(1), dilation = c.integers(2), padding = c.integers(3), stride = c.integers(4);
  TORCH_CHECK(k.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "im2col: expected two numbers of each kind");
  Sizes sizes = {x.size(-3) * product(k), windows(x.size(-2), k[0], dilation[0], padding[0], stride[0]) *
                                              windows(x.size(-1), k[1], dilation[1], padding[1], stride[1])};
  if (x.dim() == 4) sizes.insert(sizes.begin(), x.size(0));
  else c.restride();
  c.give(meta_tensor(sizes, x.scalar_type()));
}
/// self, output_size, kernel_size, dilation, padding, stride.
FXX_INLINE void col2im(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, "Expected 2D or 3D (batch mode) tensor for input, but got: ", x.sizes());
  const Sizes out = c.integers(1), k = c.integers(2), dilation = c.integers(3), padding = c.integers(4),
              stride = c.integers(5);
  TORCH_CHECK(out.size() == 2 && k.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "col2im: expected two numbers of each kind");
  const std::int64_t blocks = windows(out[0], k[0], dilation[0], padding[0], stride[0]) *
                              windows(out[1], k[1], dilation[1], padding[1], stride[1]);
  TORCH_CHECK(x.size(-2) % product(k) == 0, "Expected size of input's dimension 1 to be divisible by the product of ",
              "kernel_size, but got input.size(1)=", x.size(-2));
  TORCH_CHECK(x.size(-1) == blocks, "Given output_size=", at::IntArrayRef(out), ", expected size of input's last ",
              "dimension to match the calculated number of sliding blocks ", blocks, ", but got ", x.size(-1));
  Sizes sizes = {x.size(-2) / product(k), out[0], out[1]};
  if (x.dim() == 3) sizes.insert(sizes.begin(), x.size(0));
  c.give(meta_tensor(sizes, x.scalar_type()));
}

// clang-format off
inline constexpr ShapeRuleOf spatial_rules[] = {
    {"_adaptive_avg_pool2d", adaptive_average_pool<2>},
    {"adaptive_avg_pool2d.out", adaptive_average_pool<2>},
    {"_adaptive_avg_pool3d", adaptive_average_pool<3>},
    {"adaptive_avg_pool3d.out", adaptive_average_pool<3>},
    {"_adaptive_avg_pool2d_backward", formatted_like_argument<1>},
    {"_adaptive_avg_pool3d_backward", contiguous_like_argument<1>},
    {"adaptive_avg_pool3d_backward.grad_input", contiguous_like_argument<1>},
    {"max_pool3d_with_indices", max_pool3d},
    {"max_pool3d_with_indices_backward", formatted_like_argument<1>},
    {"fractional_max_pool3d_backward", contiguous_like_argument<1>},
    {"max_unpool2d", max_unpool<2>},                {"max_unpool3d", max_unpool<3>},
    {"reflection_pad2d", reflection_pad2d},         {"reflection_pad2d_backward", formatted_like_argument<1>},
    {"replication_pad2d", replication_pad<2>},      {"replication_pad3d", replication_pad<3>},
    {"pixel_shuffle", pixel_shuffle},               {"pixel_unshuffle", pixel_unshuffle},
    {"replication_pad2d_backward", formatted_like_argument<1>},
    {"replication_pad3d_backward", formatted_like_argument<1>},
    {"grid_sampler_2d", grid_sampler<2>},           {"grid_sampler_2d_backward", grid_sampler_backward},
    {"grid_sampler_3d", grid_sampler<3>},           {"grid_sampler_3d_backward", grid_sampler_backward},
    {"im2col", im2col},                             {"col2im", col2im},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
