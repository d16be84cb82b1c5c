// Lowering of images whose pixels become channels and back: pixel_shuffle, im2col (torch::nn::Unfold) and their inverses.
// They are copies between views of more dimensions than the images have.
#pragma once

#include "fxx/codegen/lower/views.ipp"

namespace fxx::inline FXX_ABI::plans {

namespace patches {
/// The dimension as several, the last of which counts first.
FXX_INLINE View cut(View view, std::size_t d, const Sizes& sizes) {
  std::int64_t stride = view.strides[d];
  Sizes strides(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  const auto at = static_cast<std::ptrdiff_t>(d);
  view.sizes.erase(view.sizes.begin() + at);
  view.strides.erase(view.strides.begin() + at);
  view.sizes.insert(view.sizes.begin() + at, sizes.begin(), sizes.end());
  view.strides.insert(view.strides.begin() + at, strides.begin(), strides.end());
  return view;
}
FXX_INLINE View in_order(const View& view, const Sizes& order) {
  View result{view.buffer, view.offset, {}, {}};
  for (const std::int64_t d : order) {
    result.sizes.push_back(view.sizes[static_cast<std::size_t>(d)]);
    result.strides.push_back(view.strides[static_cast<std::size_t>(d)]);
  }
  return result;
}
}  // namespace patches

/// Memory for what the node copies out of `from`: channels last where that lies so.
FXX_INLINE View Lowering::place_of_copy(const Node& node, const View& from) {
  Value copy;
  copy.kind = Value::Kind::pending;
  copy.dtype = meta_of(node).dtype;
  copy.term = load_of(from, elements_of(copy.dtype));
  return place(node, copy);
}

/// pixel_shuffle and pixel_unshuffle.
FXX_INLINE void Lowering::shuffle_pixels(const Node& node, const Operator& op) {
  const bool apart = op.base_name() == "pixel_shuffle";
  const std::int64_t factor = integer(argument(node, op, apart ? "upscale_factor" : "downscale_factor"));
  View from = view_of(operand(node, op, "self"));
  if (from.sizes.size() != 4 || from.numel() == 0 || factor < 1) throw NoKernel{"images without a batch"};
  View to = place_of_copy(node, from);
  set_view(node, to, meta_of(node).dtype);
  // Both as [image, channel, row, row within, pixel, pixel within].
  View &many = apart ? from : to, &large = apart ? to : from;
  many = patches::in_order(patches::cut(many, 1, {large.sizes[1], factor, factor}), {0, 1, 4, 2, 5, 3});
  large = patches::cut(patches::cut(large, 3, {many.sizes[4], factor}), 2, {many.sizes[2], factor});
  copy_to(node, from, to);
}

/// What im2col and col2im are called with.
struct Windows {
  Sizes kernel, dilation, padding, stride;
  std::int64_t rows = 0, columns = 0;  // of windows
};
FXX_INLINE Windows Lowering::windows_of(const Node& node, const Operator& op, std::int64_t height, std::int64_t width) {
  Windows windows;
  windows.kernel = integers(argument(node, op, "kernel_size"), 2);
  windows.dilation = integers(argument(node, op, "dilation"), 2);
  windows.padding = integers(argument(node, op, "padding"), 2);
  windows.stride = integers(argument(node, op, "stride"), 2);
  const auto count = [&](std::size_t i, std::int64_t size) {
    return (size + 2 * windows.padding[i] - windows.dilation[i] * (windows.kernel[i] - 1) - 1) / windows.stride[i] + 1;
  };
  windows.rows = count(0, height);
  windows.columns = count(1, width);
  return windows;
}
/// The image as [image, channel, row in the window, pixel in it, row of windows, window].
FXX_INLINE View in_windows(const View& image, const Windows& w) {
  const Sizes& s = image.strides;
  return {image.buffer,
          image.offset,
          {image.sizes[0], image.sizes[1], w.kernel[0], w.kernel[1], w.rows, w.columns},
          {s[0], s[1], s[2] * w.dilation[0], s[3] * w.dilation[1], s[2] * w.stride[0], s[3] * w.stride[1]}};
}
/// An image with room around it, and the view of its inside.
FXX_INLINE std::pair<View, View> Lowering::padded(const Node& node, const Sizes& sizes, const Sizes& padding) {
  const Sizes all = {sizes[0], sizes[1], sizes[2] + 2 * padding[0], sizes[3] + 2 * padding[1]};
  const View whole{add_buffer(Buffer::Kind::arena, node, meta_of(node).dtype, product(all)), 0, all,
                   dense_strides(all)};
  View inside = whole;
  inside.sizes = sizes;
  inside.offset += padding[0] * whole.strides[2] + padding[1] * whole.strides[3];
  return {whole, inside};
}

FXX_INLINE void Lowering::im2col(const Node& node, const Operator& op) {
  require_elements(node);
  const Node& self = operand(node, op, "self");
  View from = view_of(self);
  if (from.sizes.size() != 4 || from.numel() == 0) throw NoKernel{"images without a batch"};
  const Windows windows = windows_of(node, op, from.sizes[2], from.sizes[3]);
  if (windows.padding[0] != 0 || windows.padding[1] != 0) {
    const auto [whole, inside] = padded(node, from.sizes, windows.padding);
    write(node, scalar_of(0, elements_of(meta_of(node).dtype)), whole);
    copy_to(node, from, inside);
    from = whole;
  }
  const View whole = place_of_copy(node, from);
  View to = patches::cut(patches::cut(whole, 2, {windows.rows, windows.columns}), 1,
                         {from.sizes[1], windows.kernel[0], windows.kernel[1]});
  copy_to(node, in_windows(from, windows), std::move(to));
  set_view(node, whole, meta_of(node).dtype);
}

/// The windows added where they overlap; copied where they do not.
FXX_INLINE void Lowering::col2im(const Node& node, const Operator& op) {
  require_float(node);
  const View given = view_of(operand(node, op, "self"));
  const Sizes& sizes = sizes_of(node);
  if (sizes.size() != 4 || given.sizes.size() != 3 || product(sizes) == 0) throw NoKernel{"images without a batch"};
  const Windows w = windows_of(node, op, sizes[2], sizes[3]);
  const View from = patches::cut(patches::cut(given, 2, {w.rows, w.columns}), 1, {sizes[1], w.kernel[0], w.kernel[1]});
  const auto [whole, inside] = padded(node, sizes, w.padding);
  const View to = in_windows(whole, w);
  const auto apart = [&](std::size_t i) { return w.stride[i] >= w.dilation[i] * (w.kernel[i] - 1) + 1; };
  const bool covered = w.rows * w.kernel[0] == whole.sizes[2] && w.columns * w.kernel[1] == whole.sizes[3];
  if (!apart(0) || !apart(1) || !covered) write(node, number_of(0), whole);
  if (apart(0) && apart(1)) {
    copy_to(node, from, to);
  } else {
    // One place of all windows after the other: these do not overlap.
    const auto place = [](const View& view, std::int64_t y, std::int64_t x) {
      View one = view;
      one.offset += y * view.strides[2] + x * view.strides[3];
      one.sizes.erase(one.sizes.begin() + 2, one.sizes.begin() + 4);
      one.strides.erase(one.strides.begin() + 2, one.strides.begin() + 4);
      return one;
    };
    for (std::int64_t y = 0; y < w.kernel[0]; ++y)
      for (std::int64_t x = 0; x < w.kernel[1]; ++x) {
        const View sum = place(to, y, x);
        write(node, call_of(kernels::Function::add, {load_of(sum), load_of(place(from, y, x))}), sum);
      }
  }
  set_view(node, inside, meta_of(node).dtype);
}

}  // namespace fxx::inline FXX_ABI::plans
