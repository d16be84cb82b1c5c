// What moves floats: rows, elements that lie apart, rows of a table by index, running sums and products, resized and
// padded images.
//
//   if (const std::ptrdiff_t bad = gather_rows<384>(ids, tokens, table, 30522, put); bad >= 0) ...  // ids[bad]
//   resize_bilinear<up>(in, [&](int y, int x, int channel, real value, auto width) { ... });
//
// Images are channels last, and every element of a result goes through `put`, so what stands behind is fused.
// Exact but for running sums and products and bilinear resizing, which say their error.
// Main names: copy_rows, roll, load_strided, store_strided, store_interleaved, gather_rows, gather, running_sum,
// running_product, column_running_sums, ResizeShape, resize_nearest, resize_bilinear, PadShape, pad. Cost: light; each
// takes the compiler 0.05 s.
#pragma once

#include "fxx/kernels/memory.hpp"
#include "fxx/kernels/reductions.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

// --- rows and elements -----------------------------------------------------------------------------------------------

/// `Rows` rows of `Size` floats, which lie so far apart: what slices, concatenations and expanded tensors are.
template <int Rows, int Size, int InStride = Size, int OutStride = Size>
FXX_KERNEL void copy_rows(const float* __restrict in, float* __restrict out) {
  if constexpr (InStride == Size && OutStride == Size) {
    __builtin_memcpy(out, in, static_cast<std::size_t>(Rows) * Size * sizeof(float));
  } else {
    for (int row = 0; row < Rows; ++row)
      detail_of_rows::for_each_vector<Size>([&](int c, auto width) __attribute__((always_inline)) {
        store_some<width>(out + static_cast<std::ptrdiff_t>(row) * OutStride + c,
                          load_some<width>(in + static_cast<std::ptrdiff_t>(row) * InStride + c));
      });
  }
}
/// Row i comes to stand at i + Shift, those that go beyond an end at the other, as torch::roll has it.
template <int Rows, int Size, int Shift>
FXX_KERNEL void roll(const float* __restrict in, float* __restrict out) {
  constexpr int shift = (Shift % Rows + Rows) % Rows;
  constexpr std::size_t first = static_cast<std::size_t>(Rows - shift) * Size;
  constexpr std::size_t last = static_cast<std::size_t>(shift) * Size;
  __builtin_memcpy(out + last, in, first * sizeof(float));
  if constexpr (shift != 0) __builtin_memcpy(out, in + first, last * sizeof(float));
}
/// Elements that lie `stride` apart, as floats; zeros behind them.
template <class T, int Count>
FXX_KERNEL real load_strided(const T* from, std::ptrdiff_t stride, Width<Count>) {
  real v{};
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) v[i] = to_single(from[i * stride]);
  return v;
}
/// Of a row in which each element of `from` stands `Each` times, the next one `stride` behind it: the elements from
/// `column` on, a multiple of the elements of a vector. Behind the first `Count` stands whatever.
template <int Each, int Count>
FXX_KERNEL real load_repeated(const float* row, int column, std::ptrdiff_t stride, Width<Count>) {
  const float* const from = row + column / Each * stride;
  if constexpr (Each % lanes == 0) {
    return splat(*from);
  } else if constexpr (lanes % Each == 0) {
    const auto repeated = [&]<int... I>(real v, kernels::detail::Indices<I...>) __attribute__((always_inline)) {
      return __builtin_shufflevector(v, v, (I / Each)...);
    };
    constexpr int different = (Count + Each - 1) / Each;
    const real some = stride == 1 ? load_some<different>(from) : load_strided(from, stride, Width<different>{});
    return repeated(some, kernels::detail::indices<lanes>());
  } else {
    real v{};
    for (int i = 0; i < Count; ++i) v[i] = row[(column + i) / Each * stride];
    return v;
  }
}
/// The first `Count` elements to places `stride` apart.
template <int Count>
FXX_KERNEL void store_strided(float* to, std::ptrdiff_t stride, real v, Width<Count>) {
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) to[i * stride] = v[i];
}

namespace detail_of_copies {
/// Vector `R` of `Parts` that are interleaved, with the elements of part `K` put in; of the first two at once.
template <int Parts, int R, int K, int... I>
FXX_KERNEL real with_part(real v, real part, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(v, part,
                                 ((R * lanes + I) % Parts == K ? lanes + (R * lanes + I) / Parts
                                  : K == 1                     ? (R * lanes + I) / Parts
                                                               : I)...);
}
}  // namespace detail_of_copies

/// Element 0 of each part, then element 1 of each: `each(k)` gives part k of 2 to 4, of which `Count` elements count.
template <int Parts, int Count, class Element, class Each>
FXX_KERNEL void store_interleaved(Element* to, const Each& each, Width<Count>) {
  static_assert(Parts >= 2 && Parts <= 4, "fxx::kernels: two to four parts are interleaved");
  const auto vector = [&]<int R, int... K>(Width<R>, const real* parts, kernels::detail::Indices<K...>)
                          __attribute__((always_inline)) {
                            constexpr int left = Parts * Count - R * lanes;
                            if constexpr (left > 0) {
                              real v = parts[0];
                              ((v = detail_of_copies::with_part<Parts, R, K + 1>(v, parts[K + 1],
                                                                                 kernels::detail::indices<lanes>())),
                               ...);
                              store_as(to + R * lanes, v, Width<(left < lanes ? left : lanes)>{});
                            }
                          };
  [&]<int... R>(kernels::detail::Indices<R...>) __attribute__((always_inline)) {
    const real parts[Parts] = {each(R)...};
    (vector(Width<R>{}, parts, kernels::detail::indices<Parts - 1>()), ...);
  }(kernels::detail::indices<Parts>());
}

// --- by index --------------------------------------------------------------------------------------------------------

namespace detail_of_copies {
/// Negative numbers count from the end, where they may. False: there is no such row.
template <bool FromEnd>
FXX_KERNEL bool in_range(std::int64_t& index, std::int64_t size) {
  if constexpr (FromEnd) index += index < 0 ? size : 0;
  return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(size);
}
}  // namespace detail_of_copies

/// Rows of a table of `size` rows of `Size` floats: `put(i, column, value, width)` gets those of `indices[i]`. Returns
/// -1, or the place of the first index that no row has; then rows before it are written. `FromEnd`: -1 is the last row,
/// as where tensors are indexed; an embedding has none of that.
template <int Size, int RowStride = Size, bool FromEnd = false, class Index, class Put>
FXX_KERNEL std::ptrdiff_t gather_rows(const Index* indices, std::ptrdiff_t count, const float* table, std::int64_t size,
                                      const Put& put) {
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    std::int64_t index = static_cast<std::int64_t>(indices[i]);
    if (!detail_of_copies::in_range<FromEnd>(index, size)) return i;
    const float* const row = table + index * RowStride;
    detail_of_rows::for_each_vector<Size>(
        [&](int c, auto width) __attribute__((always_inline)) { put(i, c, load_some<width>(row + c), width); });
  }
  return -1;
}
/// Elements of a row of `size`, `stride` apart: `put(i, value, width)` gets those of N indices. Returns as above.
template <int N, bool FromEnd = false, class Index, class Put>
FXX_KERNEL std::ptrdiff_t gather(const Index* indices, const float* row, std::int64_t size, std::ptrdiff_t stride,
                                 const Put& put) {
  std::ptrdiff_t bad = -1;
  detail_of_rows::for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    real v{};
    if (bad >= 0) return;
    for (int i = 0; i < width; ++i) {
      std::int64_t index = static_cast<std::int64_t>(indices[c + i]);
      if (!detail_of_copies::in_range<FromEnd>(index, size)) {
        bad = c + i;
        return;
      }
      v[i] = row[index * stride];
    }
    put(c, v, width);
  });
  return bad;
}

// --- running sums ----------------------------------------------------------------------------------------------------

namespace detail_of_copies {
template <int D, int... I>
FXX_KERNEL precise shifted_by(precise v, precise first, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(v, first, (I < D ? lanes / 2 : I - D)...);
}
struct AddPrecise {
  static constexpr double neutral = 0;
  FXX_KERNEL precise operator()(precise a, precise b) const { return a + b; }
};
struct MultiplyPrecise {
  static constexpr double neutral = 1;
  FXX_KERNEL precise operator()(precise a, precise b) const { return a * b; }
};
template <class Combine, int D = 1>
FXX_KERNEL precise running(precise v) {
  if constexpr (D >= lanes / 2) {
    return v;
  } else {
    const precise before = shifted_by<D>(v, precise{} + Combine::neutral, kernels::detail::indices<lanes / 2>());
    return running<Combine, 2 * D>(Combine{}(v, before));
  }
}
template <int N, class Combine, class Get, class Put>
FXX_KERNEL void row_running(const Get& get, const Put& put) {
  const Combine combine;
  double total = Combine::neutral;
  detail_of_rows::for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    const real v = get(c, width);
    const precise low = combine(running<Combine>(in_double(lower_half(v))), precise{} + total);
    const precise high = combine(running<Combine>(in_double(upper_half(v))), precise{} + low[lanes / 2 - 1]);
    total = high[lanes / 2 - 1];
    put(c, joined(in_single(low), in_single(high)), width);
  });
}
}  // namespace detail_of_copies

/// Element i becomes the sum of those up to it, added in double precision as in LibTorch: within half a unit of 2^-23 of
/// it, and 2^-52 (i + 1) of the sum of magnitudes, which is where most cancels. nan and infinities stay from where they
/// stand on.
template <int N, class Get, class Put>
FXX_KERNEL void running_sum(const Get& get, const Put& put) {
  detail_of_copies::row_running<N, detail_of_copies::AddPrecise>(get, put);
}
/// The product of those up to it, within 2^-24 + 2^-52 N of it, where neither it nor an element is denormal: eight of
/// those have a product that is no double.
template <int N, class Get, class Put>
FXX_KERNEL void running_product(const Get& get, const Put& put) {
  detail_of_copies::row_running<N, detail_of_copies::MultiplyPrecise>(get, put);
}
/// Sums of each column: `get(row, column, width)`, `put(row, column, value, width)`. Errors as running_sum's.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_running_sums(const Get& get, const Put& put) {
  detail_of_rows::for_each_vector<Columns>([&](int c, auto width) __attribute__((always_inline)) {
    precise low{}, high{};
    for (int row = 0; row < Rows; ++row) {
      const real v = get(row, c, width);
      low = low + in_double(lower_half(v));
      high = high + in_double(upper_half(v));
      put(row, c, joined(in_single(low), in_single(high)), width);
    }
  });
}

// --- images ----------------------------------------------------------------------------------------------------------

/// Sizes of an image before and after, [y][x][channel].
struct ResizeShape {
  int channels = 1;
  int in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  bool align_corners = false;                // of bilinear resizing
  bool exact = false;                        // of nearest: LibTorch's nearest-exact
  double scale_height = 0, scale_width = 0;  // a factor that was given, and is not to be that of the sizes
  int in_row = 0;                            // pixels from one row of the input to the next; 0: in_width
  int in_pixel = 0;                          // floats from one pixel of the input to the next; 0: `channels`

  // Found by the compiler, never while the program runs.
  consteval int row() const { return in_row ? in_row : in_width; }
  consteval int pixel() const { return in_pixel ? in_pixel : channels; }
  consteval float step(int in, int out, double scale) const {
    return scale > 0 ? static_cast<float>(1 / scale) : static_cast<float>(in) / static_cast<float>(out);
  }
  consteval float step_between_corners(int in, int out) const {
    return out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.f;
  }
};

namespace detail_of_copies {
/// In single precision, as LibTorch finds it.
template <int In, int Out, bool Exact>
FXX_KERNEL int nearest(int i, float step) {
  if (In == Out && !Exact) return i;
  if (Out == 2 * In && !Exact) return i / 2;
  const int at = static_cast<int>((static_cast<float>(i) + (Exact ? 0.5f : 0.f)) * step);
  return at < In - 1 ? at : In - 1;
}
/// Two neighbours, and the share of the second.
struct Between {
  int first, second;
  float share;
};
template <int In, int Out, bool AlignCorners>
FXX_KERNEL Between between(int i, float step) {
  if (In == Out) return {i, i, 0.f};
  float at = AlignCorners ? static_cast<float>(i) * step : (static_cast<float>(i) + 0.5f) * step - 0.5f;
  if (at < 0.f) at = 0.f;
  const int whole = static_cast<int>(at), first = whole < In - 1 ? whole : In - 1;
  const float share = at - static_cast<float>(first);
  return {first, first < In - 1 ? first + 1 : first, share < 1.f ? share : 1.f};
}
}  // namespace detail_of_copies

/// `put(y, x, channel, value, width)` gets the pixels of the result, row by row. Exact.
template <ResizeShape Shape, class Put>
FXX_KERNEL void resize_nearest(const float* __restrict in, const Put& put) {
  using namespace detail_of_copies;
  constexpr float down = Shape.step(Shape.in_height, Shape.out_height, Shape.scale_height);
  constexpr float along = Shape.step(Shape.in_width, Shape.out_width, Shape.scale_width);
  for (int y = 0; y < Shape.out_height; ++y) {
    const int row = nearest<Shape.in_height, Shape.out_height, Shape.exact>(y, down);
    for (int x = 0; x < Shape.out_width; ++x) {
      const int column = nearest<Shape.in_width, Shape.out_width, Shape.exact>(x, along);
      const float* const from = in + (static_cast<std::ptrdiff_t>(row) * Shape.row() + column) * Shape.pixel();
      detail_of_rows::for_each_vector<Shape.channels>(
          [&](int c, auto width) __attribute__((always_inline)) { put(y, x, c, load_some<width>(from + c), width); });
    }
  }
}
/// The same; within 2 units of 2^-23 of the largest magnitude of the four pixels, of places that are found in single
/// precision as LibTorch finds them.
template <ResizeShape Shape, class Put>
FXX_KERNEL void resize_bilinear(const float* __restrict in, const Put& put) {
  using namespace detail_of_copies;
  constexpr bool corners = Shape.align_corners;
  constexpr float down = corners ? Shape.step_between_corners(Shape.in_height, Shape.out_height)
                                 : Shape.step(Shape.in_height, Shape.out_height, Shape.scale_height);
  constexpr float along = corners ? Shape.step_between_corners(Shape.in_width, Shape.out_width)
                                  : Shape.step(Shape.in_width, Shape.out_width, Shape.scale_width);
  for (int y = 0; y < Shape.out_height; ++y) {
    const Between rows = between<Shape.in_height, Shape.out_height, corners>(y, down);
    const float* const upper = in + static_cast<std::ptrdiff_t>(rows.first) * Shape.row() * Shape.pixel();
    const float* const lower = in + static_cast<std::ptrdiff_t>(rows.second) * Shape.row() * Shape.pixel();
    for (int x = 0; x < Shape.out_width; ++x) {
      const Between columns = between<Shape.in_width, Shape.out_width, corners>(x, along);
      const std::ptrdiff_t left = static_cast<std::ptrdiff_t>(columns.first) * Shape.pixel();
      const std::ptrdiff_t right = static_cast<std::ptrdiff_t>(columns.second) * Shape.pixel();
      const float second = columns.share, first = 1.f - second, below = rows.share, above = 1.f - below;
      detail_of_rows::for_each_vector<Shape.channels>([&](int c, auto width) __attribute__((always_inline)) {
        const auto pixel = [&](const float* at) __attribute__((always_inline)) { return load_some<width>(at + c); };
        const real top = multiply_add(pixel(upper + right), splat(second), pixel(upper + left) * first);
        // Lines have no second row, of which none would still make nan of infinity.
        if constexpr (Shape.in_height == 1 && Shape.out_height == 1) return put(y, x, c, top, width);
        const real bottom = multiply_add(pixel(lower + right), splat(second), pixel(lower + left) * first);
        put(y, x, c, multiply_add(bottom, splat(below), top * above), width);
      });
    }
  }
}

/// What stands around an image, as torch::nn::functional::pad has it.
enum class Padding : std::uint8_t { constant, reflect, replicate, circular };
/// Negative amounts cut off, of a constant padding.
struct PadShape {
  int channels = 1;
  int height = 1, width = 1;
  int top = 0, bottom = 0, left = 0, right = 0;
  Padding padding = Padding::constant;

  constexpr int out_height() const { return height + top + bottom; }
  constexpr int out_width() const { return width + left + right; }
};

namespace detail_of_copies {
/// Where element `i` of `size` comes from, -1: from nowhere.
template <Padding Kind>
FXX_KERNEL int source(int i, int size) {
  if (static_cast<unsigned>(i) < static_cast<unsigned>(size)) return i;
  if constexpr (Kind == Padding::constant) return -1;
  else if constexpr (Kind == Padding::reflect) return i < 0 ? -i : 2 * size - 2 - i;
  else if constexpr (Kind == Padding::replicate) return i < 0 ? 0 : size - 1;
  else return i < 0 ? i + size : i - size;
}
}  // namespace detail_of_copies

/// `get(y, x, channel, width)` gives pixels of the input, `put(y, x, channel, value, width)` gets those of the result.
template <PadShape Shape, class Get, class Put>
FXX_KERNEL void pad(float constant, const Get& get, const Put& put) {
  for (int y = 0; y < Shape.out_height(); ++y) {
    const int row = detail_of_copies::source<Shape.padding>(y - Shape.top, Shape.height);
    for (int x = 0; x < Shape.out_width(); ++x) {
      const int column = detail_of_copies::source<Shape.padding>(x - Shape.left, Shape.width);
      detail_of_rows::for_each_vector<Shape.channels>([&](int c, auto width) __attribute__((always_inline)) {
        if (Shape.padding == Padding::constant && (row < 0 || column < 0)) put(y, x, c, splat(constant), width);
        else put(y, x, c, get(row, column, c, width), width);
      });
    }
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
