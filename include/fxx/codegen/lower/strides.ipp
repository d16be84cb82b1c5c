// Sizes and strides: the same elements read as a tensor of other sizes.
#pragma once

#include <optional>

#include "fxx/codegen/kernel_plan.hpp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE std::int64_t product(const Sizes& sizes) {
  std::int64_t n = 1;
  for (std::int64_t size : sizes) n *= size;
  return n;
}
/// The same elements with other sizes, where strides can say so.
FXX_INLINE std::optional<View> reshaped(const View& view, const Sizes& sizes) {
  View result{view.buffer, view.offset, sizes, Sizes(sizes.size())};
  if (product(sizes) != view.numel()) return {};
  if (view.numel() == 0) {
    result.strides = dense_strides(sizes);
    return result;
  }
  // Dimensions of the old that lie behind each other are one; each must be cut where the new sizes end.
  std::size_t to = sizes.size();
  std::size_t from = view.sizes.size();
  while (from > 0) {
    std::int64_t stride = view.strides[from - 1], count = view.sizes[from - 1];
    --from;
    while (from > 0 && (view.sizes[from - 1] == 1 || count == 1 || view.strides[from - 1] == stride * count)) {
      if (count == 1) stride = view.strides[from - 1];
      count *= view.sizes[from - 1];
      --from;
    }
    while (to > 0 && (count > 1 || sizes[to - 1] == 1)) {
      if (count % sizes[to - 1] != 0) return {};
      --to;
      result.strides[to] = stride;
      stride *= sizes[to];
      count /= sizes[to];
    }
    if (count != 1) return {};
  }
  while (to > 0) result.strides[--to] = 1;  // of size 1
  return result;
}
/// The view as it is read where `sizes` are wanted: dimensions of size 1, and those that it has not, have stride 0.
FXX_INLINE std::optional<View> broadcast(const View& view, const Sizes& sizes) {
  if (view.sizes.size() > sizes.size()) return {};
  View result{view.buffer, view.offset, sizes, Sizes(sizes.size(), 0)};
  const std::size_t missing = sizes.size() - view.sizes.size();
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == sizes[missing + i]) result.strides[missing + i] = view.sizes[i] == 1 ? 0 : view.strides[i];
    else if (view.sizes[i] != 1) return {};
  }
  return result;
}

}  // namespace fxx::inline FXX_ABI::plans
