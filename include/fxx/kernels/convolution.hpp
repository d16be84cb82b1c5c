// Convolutions of sizes that are known, computed directly, channels last.
//
//   out[image][y][x][n] =
//       finish(sum over r, s, c of in[image][y stride + r dilation][x stride + s dilation][c] w[n][r][s][c])
//
// The input has its padding around it already, written by whoever made it, so no pixel is a special case. A row of
// output pixels times a panel of output channels is a tile of sums (kernels/gemm.hpp), and where pixels of the input
// lie behind each other a row of the kernel is one loop. `finish(image, y, x, channel, sum, width)` gets `width`
// channels. A part (kernels/parallel.hpp) is some of the rows, of few rows some of the channels.
//
//   constexpr ConvolutionShape stem = {.channels = 3, .out_channels = 64, .out_height = 112, .out_width = 112,
//                                      .kernel_height = 7, .kernel_width = 7, .stride_height = 2, .stride_width = 2,
//                                      .in_row = 230};
//   convolution<stem>(part, in, weights, [&](int image, int y, int x, int channel, real sum, auto width) { ... });
//
// Weights and input may be Bfloat16, which AVX512_BF16 multiplies two at a time (kernels/gemm.hpp says how it rounds).
// Of bytes without a sign (std::uint8_t), which stand for what is `zero` less, and 8-bit integers, sums are those of
// integers, which `finish` gets as a vector of them (kernels/gemm.hpp); what is around an image is bytes of `zero` then.
//
// One dimension is a height of 1. Groups that share a vector's lanes evenly are computed in one vector; others one after
// the other. Up to a quarter vector of outputs is computed with channels of the input in the lanes.
//
// Panels of outputs are the outer loop, or the rows are (Order, kernels/gemm.hpp).
//
// Sums run over r, s, c in order, those of few outputs in as many chains as there are lanes; of more than 256 products
// they are made of chains of no more (kernels/gemm.hpp). In units of 2^-23 sum |in w| they are within half of the
// products, of several chains within 128 and a 256th of the products; of normally distributed numbers within 2, of such
// without signs within 9; transposed ones as well.
// Main names: ConvolutionShape, convolution, pack_convolution, pack_excess, TransposedShape, transposed_convolution,
// pack_transposed; kernels/depthwise.hpp has those of single channels. Cost: light; a convolution takes the compiler 0.1 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Sizes of a convolution, and how its input lies: [image][y][x][channel of all groups].
struct ConvolutionShape {
  int channels = 1, out_channels = 1;  // of one group
  int out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride_height = 1, stride_width = 1;
  int dilation_height = 1, dilation_width = 1;
  int in_row = 1;    // pixels of a row of the input, with its padding
  int in_pixel = 0;  // floats from one pixel of the input to the next; 0: the channels of all groups
  int images = 1;
  int in_image = 0;  // floats from one image of the input to the next; 0: as many rows as are read
  int groups = 1;
  TileShape sums = {};  // pixels of a row by vectors of outputs; nothing: what takes the least time
  Distance weights = Distance::far;
  Order order = Order::panels;  // by rows, each row of the image is complete before the next

  constexpr int pixel() const { return in_pixel ? in_pixel : channels * groups; }
  /// Products in one element of the output.
  constexpr int depth() const { return kernel_height * kernel_width * channels; }
  constexpr std::ptrdiff_t image() const {
    if (in_image) return in_image;
    const int rows = (out_height - 1) * stride_height + (kernel_height - 1) * dilation_height + 1;
    return static_cast<std::ptrdiff_t>(rows) * in_row * pixel();
  }
  constexpr int rows() const { return images * out_height; }

  /// Do pixels of a row of the kernel lie behind each other? Then so many elements are one loop.
  constexpr bool dense() const { return (dilation_width == 1 || kernel_width == 1) && pixel() == channels; }
  constexpr int run() const { return dense() ? kernel_width * channels : channels; }
  /// So few outputs that elements of the input stand in the lanes.
  constexpr bool few_outputs() const { return groups == 1 && out_channels * 4 <= lanes && run() >= lanes; }
  /// Several groups in one vector.
  constexpr bool groups_in_vector() const {
    return groups > 1 && out_channels < lanes && lanes % out_channels == 0 && channels <= out_channels;
  }
  /// Products of one element, each loop filled up to what stands in 32 bits.
  template <class Weight>
  constexpr int packed_depth() const {
    return depth() / run() * detail_of_weights::whole(run(), detail_of_weights::together<Weight>);
  }
  /// Elements of packed weights.
  template <class Weight = float>
  constexpr std::size_t packed() const {
    if constexpr (sizeof(Weight) == sizeof(float)) {
      if (few_outputs()) return static_cast<std::size_t>(out_channels) * packed_size(run(), depth() / run());
      if (groups_in_vector()) return packed_size(groups * out_channels, depth());
    }
    return static_cast<std::size_t>(groups) * packed_size<Weight>(out_channels, packed_depth<Weight>());
  }
};

/// The tile of a convolution: pixels of a row by output channels. Pixels that lie a multiple of 4096 bytes apart share one
/// set of the cache, so there are no more of them than it has ways.
constexpr TileShape convolution_tile(const ConvolutionShape& shape) {
  if (shape.sums.rows) return shape.sums;
  const bool share = shape.out_width > 8 && shape.stride_width * shape.pixel() % 1024 == 0;
  return tile_shape(shape.out_width, vectors_of(shape.out_channels), share ? 8 : 14);
}

namespace detail_of_convolution {
/// Groups one after the other.
template <class Weight, class Weights>
void pack_groups(Weight* packed, const ConvolutionShape& shape, const Weights& weight) {
  const int run = shape.run(), whole = detail_of_weights::whole(run, detail_of_weights::together<Weight>);
  const int depth = shape.packed_depth<Weight>();
  for (int group = 0; group < shape.groups; ++group) {
    const int first = group * shape.out_channels;
    pack_weights(packed, shape.out_channels, depth, convolution_tile(shape), [&](int n, int k) {
      return k % whole < run ? weight(first + n, k / whole * run + k % whole) : 0.f;
    });
    packed += packed_size<Weight>(shape.out_channels, depth);
  }
}
}  // namespace detail_of_convolution

/// Weights for `convolution`, shape.packed<Weight>() elements: `weights(n, r, s, c)` gives one, where `n` counts the
/// outputs of all groups and `c` the channels of one.
template <class Weight, class Weights>
void pack_convolution(Weight* packed, const ConvolutionShape& shape, const Weights& weights) {
  const auto weight = [&](int n, int k) {
    const int c = k % shape.channels, pixel = k / shape.channels;
    return weights(n, pixel / shape.kernel_width, pixel % shape.kernel_width, c);
  };
  constexpr bool floats = sizeof(Weight) == sizeof(float);
  if (floats && shape.few_outputs()) {
    for (int first = 0; first < shape.depth(); first += shape.run())
      for (int k = 0; k < shape.run(); k += lanes)
        for (int n = 0; n < shape.out_channels; ++n)
          for (int i = k; i < k + lanes; ++i)
            detail_of_weights::convert(i < shape.run() ? weight(n, first + i) : 0.f, *packed++);
  } else if (floats && shape.groups_in_vector()) {
    const int all = shape.groups * shape.out_channels;
    for (int first = 0; first < all; first += lanes)
      for (int k = 0; k < shape.depth(); ++k)
        for (int n = first; n < first + lanes; ++n)
          detail_of_weights::convert(n < all ? weight(n, k) : 0.f, *packed++);
  } else {
    detail_of_convolution::pack_groups(packed, shape, weight);
  }
}
/// What sums of products of bytes have too much, output by output, where each byte is `zero` more than what it stands
/// for; `weights` gives integers.
template <class Weights>
void pack_excess(std::int32_t* excess, const ConvolutionShape& shape, std::int32_t zero, const Weights& weights) {
  for (int n = 0; n < shape.groups * shape.out_channels; ++n) {
    std::int32_t sum = 0;
    for (int r = 0; r < shape.kernel_height; ++r)
      for (int s = 0; s < shape.kernel_width; ++s)
        for (int c = 0; c < shape.channels; ++c) sum += static_cast<std::int32_t>(weights(n, r, s, c));
    excess[n] = zero * sum;
  }
}

namespace detail_of_convolution {
/// Calls `some(count, x)` for the pixels of a row, `Most` at a time.
template <int Pixels, int Most, class Some>
FXX_KERNEL void for_pixels(const Some& some) {
  constexpr int whole = Pixels / Most * Most;
  for (int x = 0; x < whole; x += Most) some(Width<Most>{}, x);
  if constexpr (Pixels > whole) some(Width<Pixels - whole>{}, whole);
}
/// Calls `each(image, y)` for rows of all images.
template <int Height, class Each>
FXX_KERNEL void for_rows(Range rows, const Each& each) {
  for (int row = rows.begin; row < rows.end; ++row) each(row / Height, row % Height);
}
/// Where the window of an output begins.
template <ConvolutionShape Shape, class Element>
FXX_KERNEL const Element* window(const Element* in, int image, int y, int x) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(y) * Shape.stride_height * Shape.in_row;
  return in + image * Shape.image() + (row + static_cast<std::ptrdiff_t>(x) * Shape.stride_width) * Shape.pixel();
}
/// Calls `each(offset)` for what the loops of a window begin with.
template <ConvolutionShape Shape, class Each>
FXX_KERNEL void for_runs(const Each& each) {
  for (int r = 0; r < Shape.kernel_height; ++r)
    for (int s = 0; s < (Shape.dense() ? 1 : Shape.kernel_width); ++s)
      each((static_cast<std::ptrdiff_t>(r) * Shape.dilation_height * Shape.in_row + s * Shape.dilation_width) *
           Shape.pixel());
}

/// Calls `each(rows, first column, vectors, elements of the last)` for this part of the rows and panels of columns.
template <int N, int Vectors, int Rows, Order By, class Each>
FXX_KERNEL void for_panels_of_rows(Part part, const Each& each) {
  constexpr int panels = (vectors_of(N) + Vectors - 1) / Vectors;
  if constexpr (By == Order::rows) {
    const Range all = part.of(Rows);
    for (int row = all.begin; row < all.end; ++row)
      detail_of_gemm::for_each_panel<N, Vectors>(
          [&](int, int column, auto vectors, auto last)
              __attribute__((always_inline)) { each(Range{row, row + 1}, column, vectors, last); });
  } else {
    detail_of_gemm::for_each_panel<N, Vectors>(
        [&](int number, int column, auto vectors, auto last) __attribute__((always_inline)) {
          each(detail_of_gemm::rows_of_panel<Rows, 1, panels>(part, number), column, vectors, last);
        });
  }
}

/// Where the loop number `run` of a window begins.
template <ConvolutionShape Shape>
FXX_KERNEL std::ptrdiff_t begin_of_run(int run) {
  constexpr int of_row = Shape.dense() ? 1 : Shape.kernel_width;
  return (static_cast<std::ptrdiff_t>(run / of_row) * Shape.dilation_height * Shape.in_row +
          run % of_row * Shape.dilation_width) *
         Shape.pixel();
}
/// So many bytes of weights stay in a core's own caches while tiles go through them; panels of more than four times that
/// are taken in pieces.
inline constexpr std::ptrdiff_t piece_of_panel = 1 << 18;
/// Some rows with one panel, of which a piece at a time is multiplied with as many tiles as have room for their sums.
template <ConvolutionShape Shape, int Vectors, int Last, class Finish>
FXX_KERNEL void panel_in_pieces(Range rows, const float* __restrict in, const float* __restrict weights, int channel,
                                const Finish& finish) {
  constexpr TileShape shape = convolution_tile(Shape);
  constexpr int wide = Vectors * lanes, bytes = wide * static_cast<int>(sizeof(float));
  constexpr int tiles_of_row = (Shape.out_width + shape.rows - 1) / shape.rows, left = Shape.out_width % shape.rows;
  constexpr int room = (1 << 15) / (shape.rows * bytes), most = room > 0 ? room : 1;
  constexpr int most_k = piece_of_panel / bytes, runs = Shape.depth() / Shape.run();
  constexpr int runs_at_once = Shape.run() >= most_k ? 1 : most_k / Shape.run();
  constexpr int pieces = (Shape.run() + most_k - 1) / most_k, length = (Shape.run() + pieces - 1) / pieces;
  real totals[most][shape.rows * Vectors];
  const int tiles = (rows.end - rows.begin) * tiles_of_row;
  for (int begin = 0; begin < tiles; begin += most) {
    const int end = begin + most < tiles ? begin + most : tiles;
    const float* panel = weights;
    for (int run = 0; run < runs; run += runs_at_once)
      for (int k = 0; k < Shape.run(); k += length) {
        const int some = k + length < Shape.run() ? length : Shape.run() - k;
        const int end_run = run + runs_at_once < runs ? run + runs_at_once : runs;
        const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(end_run - run) * some * wide;
        const bool first = run == 0 && k == 0, last = end_run == runs && k + some == Shape.run();
        auto ahead = read_ahead<bytes, most + 1, shape.rows + 1, Shape.weights>(
            panel, size * static_cast<std::ptrdiff_t>(sizeof(float)), end - begin);
        for (int t = begin; t < end; ++t) {
          const int row = rows.begin + t / tiles_of_row, x = t % tiles_of_row * shape.rows;
          const int image = row / Shape.out_height, y = row % Shape.out_height;
          const auto tile = [&](auto count) __attribute__((always_inline)) {
            DeepTile<count, Vectors> sums(totals[t - begin], first);
            const float *from = window<Shape>(in, image, y, x) + k, *of_run = panel;
            for (int r = run; r < end_run; ++r, of_run += static_cast<std::ptrdiff_t>(some) * wide)
              sums.template add<Shape.stride_width * Shape.pixel()>(from + begin_of_run<Shape>(r), of_run, some, ahead);
            if (!last) return sums.end_chain();
            sums.complete();
            sums.template finish<Last>([&](int p, int c, real sum, auto width) __attribute__((always_inline)) {
              finish(image, y, x + p, channel + c, sum, width);
            });
          };
          if constexpr (left == 0) tile(Width<shape.rows>{});
          else if (x + shape.rows > Shape.out_width) tile(Width<left>{});
          else if constexpr (tiles_of_row > 1) tile(Width<shape.rows>{});
        }
        panel += size;
      }
  }
}

/// All outputs of one group, `first` being the number of its first.
template <ConvolutionShape Shape, class Element, class Weight, class Finish>
FXX_KERNEL void group(Part part, const Element* __restrict in, const Weight* __restrict packed, int first,
                      const Finish& finish) {
  constexpr TileShape shape = convolution_tile(Shape);
  constexpr int together = detail_of_weights::together<Weight>, depth = Shape.packed_depth<Weight>();
  constexpr int run = detail_of_weights::whole(Shape.run(), together);
  // Some rows with one panel.
  const auto panel_of_rows = [&](Range rows, int channel, auto vectors, auto last) __attribute__((always_inline)) {
    const Weight* const weights = packed + static_cast<std::ptrdiff_t>(channel) * depth;
    constexpr int bytes = vectors * lanes * static_cast<int>(sizeof(float));
    constexpr int tiles_of_row = (Shape.out_width + shape.rows - 1) / shape.rows;
    constexpr int most_tiles = (Shape.order == Order::rows ? 1 : Shape.rows()) * tiles_of_row;
    auto ahead = read_ahead<bytes, most_tiles, shape.rows + 1, Shape.weights>(
        weights, static_cast<std::ptrdiff_t>(depth) / together * bytes, (rows.end - rows.begin) * tiles_of_row);
    for_rows<Shape.out_height>(rows, [&](int image, int y) __attribute__((always_inline)) {
      for_pixels<Shape.out_width, shape.rows>([&](auto count, int x) __attribute__((always_inline)) {
        const Element* from = window<Shape>(in, image, y, x);
        const Weight* panel = weights;
        using Sums = TileOfDepth<count, vectors, Shape.depth(), sizeof(Weight) == sizeof(float)>;
        typename Sums::Totals totals;
        Sums tile(totals);
        for_runs<Shape>([&](std::ptrdiff_t offset) __attribute__((always_inline)) {
          tile.template add<Shape.stride_width * Shape.pixel()>(from + offset, panel, Width<Shape.run()>{}, ahead);
          panel += run * vectors * lanes;
        });
        tile.complete();
        tile.template finish<last>([&](int p, int c, real sum, auto width) __attribute__((always_inline)) {
          if constexpr (detail_of_weights::of_integers<Element, Weight>)
            finish(image, y, x + p, first + channel + c, bits_of(sum), width);
          else finish(image, y, x + p, first + channel + c, sum, width);
        });
      });
    });
  };
  const auto rows_of_panel = [&](Range rows, int channel, auto vectors, auto last) __attribute__((always_inline)) {
    constexpr bool large = static_cast<std::ptrdiff_t>(depth) * vectors * lanes * 4 > 4 * piece_of_panel;
    constexpr bool several = (Shape.order == Order::rows ? 1 : Shape.rows()) * Shape.out_width > shape.rows;
    if constexpr (sizeof(Weight) == sizeof(float) && large && several)
      panel_in_pieces<Shape, vectors, last>(rows, in, packed + static_cast<std::ptrdiff_t>(channel) * depth,
                                            first + channel, finish);
    else panel_of_rows(rows, channel, vectors, last);
  };
  for_panels_of_rows<Shape.out_channels, shape.vectors, Shape.rows(), Shape.order>(part, rows_of_panel);
}

/// Some outputs of which each is a vector of sums, added up in the end.
template <ConvolutionShape Shape, class Finish>
FXX_KERNEL void few_outputs(Part part, const float* __restrict in, const float* __restrict packed,
                            const Finish& finish) {
  constexpr int outputs = Shape.out_channels, fit = FXX_KERNEL_REGISTERS * 3 / 4 / outputs, most = fit < 8 ? fit : 8;
  constexpr int step = Shape.stride_width * Shape.pixel();
  constexpr int whole = Shape.run() / lanes * lanes, left = Shape.run() - whole;
  for_rows<Shape.out_height>(part.of(Shape.rows()), [&](int image, int y) __attribute__((always_inline)) {
    for_pixels<Shape.out_width, (most < Shape.out_width ? most : Shape.out_width)>([&](auto count, int x)
                                                                                       __attribute__((always_inline)) {
      constexpr int pixels = count;
      const float* first = window<Shape>(in, image, y, x);
      const float* weights = packed;
      real sums[pixels][outputs] = {};
      constexpr bool deep = Shape.depth() > longest_chain * lanes;
      [[maybe_unused]] real totals[pixels][outputs] = {};  // of chains that are done, of which each lane has its own
      for_runs<Shape>([&](std::ptrdiff_t offset) __attribute__((always_inline)) {
        const float* from = first + offset;
        const auto add = [&](int k, auto width) __attribute__((always_inline)) {
#pragma GCC unroll 16
          for (int p = 0; p < pixels; ++p) {
            const real elements = load_some<width>(from + p * step + k);
#pragma GCC unroll 4
            for (int n = 0; n < outputs; ++n) sums[p][n] = multiply_add(elements, load(weights + n * lanes), sums[p][n]);
          }
          weights += outputs * lanes;
        };
        if constexpr (deep) {
          for (int k = 0; k < whole;) {
            const int end = whole - k < longest_chain * lanes ? whole : k + longest_chain * lanes;
            for (; k < end; k += lanes) add(k, Width<lanes>{});
#pragma GCC unroll 16
            for (int p = 0; p < pixels; ++p)
#pragma GCC unroll 4
              for (int n = 0; n < outputs; ++n) totals[p][n] = totals[p][n] + sums[p][n], sums[p][n] = real{};
          }
        } else {
          for (int k = 0; k < whole; k += lanes) add(k, Width<lanes>{});
        }
        if constexpr (left != 0) add(whole, Width<left>{});
      });
      if constexpr (deep)
#pragma GCC unroll 16
        for (int p = 0; p < pixels; ++p)
#pragma GCC unroll 4
          for (int n = 0; n < outputs; ++n) sums[p][n] = totals[p][n] + sums[p][n];
#pragma GCC unroll 16
      for (int p = 0; p < pixels; ++p) {
        real total{};
#pragma GCC unroll 4
        for (int n = 0; n < outputs; ++n) total[n] = sum(sums[p][n]);
        finish(image, y, x + p, 0, total, Width<outputs>{});
      }
    });
  });
}

/// Lane `n` of the result is element `Channel` of the group that output `n` is of.
template <int Outputs, int Channels, int Channel, int... I>
FXX_KERNEL real channel_of_groups(real v, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(v, v, (I / Outputs * Channels + Channel)...);
}
/// A vector of outputs of several groups, whose inputs are one vector too.
template <ConvolutionShape Shape, class Finish>
FXX_KERNEL void groups_in_vector(Part part, const float* __restrict in, const float* __restrict packed,
                                 const Finish& finish) {
  constexpr int outputs = Shape.groups * Shape.out_channels, most = FXX_KERNEL_REGISTERS == 32 ? 8 : 6;
  constexpr int step = Shape.stride_width * Shape.pixel();
  detail_of_gemm::for_each_panel<outputs, 1>([&](int number, int channel, auto, auto last)
                                                 __attribute__((always_inline)) {
    constexpr int given = last / Shape.out_channels * Shape.channels;
    const Range rows = detail_of_gemm::rows_of_panel<Shape.rows(), 1, vectors_of(outputs)>(part, number);
    for_rows<Shape.out_height>(rows, [&](int image, int y) __attribute__((always_inline)) {
      for_pixels<Shape.out_width, (most < Shape.out_width ? most : Shape.out_width)>([&](auto count, int x)
                                                                                         __attribute__((always_inline)) {
        const float* from = window<Shape>(in, image, y, x) + channel / Shape.out_channels * Shape.channels;
        const float* weights = packed + static_cast<std::ptrdiff_t>(channel) * Shape.depth();
        constexpr int pixels = count;
        real sums[pixels] = {};
        constexpr bool deep = Shape.depth() > longest_chain;
        [[maybe_unused]] real totals[pixels] = {};
        [[maybe_unused]] int in_chain = 0;
        for (int r = 0; r < Shape.kernel_height; ++r)
          for (int s = 0; s < Shape.kernel_width; ++s) {
            const std::ptrdiff_t offset =
                (static_cast<std::ptrdiff_t>(r) * Shape.dilation_height * Shape.in_row + s * Shape.dilation_width) *
                Shape.pixel();
            [&]<int... C>(kernels::detail::Indices<C...>) __attribute__((always_inline)) {
#pragma GCC unroll 16
              for (int p = 0; p < pixels; ++p) {
                const real elements = load_some<given>(from + offset + p * step);
                ((sums[p] = multiply_add(channel_of_groups<Shape.out_channels, Shape.channels, C>(
                                             elements, kernels::detail::indices<lanes>()),
                                         load(weights + C * lanes), sums[p])),
                 ...);
              }
            }(kernels::detail::indices<Shape.channels>());
            weights += Shape.channels * lanes;
            if constexpr (deep) {
              in_chain += Shape.channels;
              if (in_chain + Shape.channels <= longest_chain) continue;
              in_chain = 0;
#pragma GCC unroll 16
              for (int p = 0; p < pixels; ++p) totals[p] = totals[p] + sums[p], sums[p] = real{};
            }
          }
        if constexpr (deep)
#pragma GCC unroll 16
          for (int p = 0; p < pixels; ++p) sums[p] = totals[p] + sums[p];
#pragma GCC unroll 16
        for (int p = 0; p < pixels; ++p) finish(image, y, x + p, channel, sums[p], last);
      });
    });
  });
}
}  // namespace detail_of_convolution

/// The convolution of an image with its padding around it. `packed`: by pack_convolution, Shape.packed<Weight>() elements.
/// `finish(image, y, x, channel, sum, width)` gets every sum once. Errors as above. Weights are read once for each row of
/// a part, or once a tile of pixels (Order::rows).
template <ConvolutionShape Shape, class Element, class Weight, class Finish>
FXX_KERNEL void convolution(Part part, const Element* __restrict in, const Weight* __restrict packed,
                            const Finish& finish) {
  constexpr bool floats = sizeof(Weight) == sizeof(float);
  static_assert(sizeof(Element) == sizeof(Weight),
                "fxx::kernels: a convolution is one of floats, of Bfloat16, or of bytes and 8-bit integers");
  if constexpr (floats && Shape.few_outputs()) {
    detail_of_convolution::few_outputs<Shape>(part, in, packed, finish);
  } else if constexpr (floats && Shape.groups_in_vector()) {
    detail_of_convolution::groups_in_vector<Shape>(part, in, packed, finish);
  } else {
    constexpr std::size_t size = packed_size<Weight>(Shape.out_channels, Shape.packed_depth<Weight>());
    for (int group = 0; group < Shape.groups; ++group)
      detail_of_convolution::group<Shape>(part, in + group * Shape.channels,
                                          packed + static_cast<std::size_t>(group) * size,
                                          group * Shape.out_channels, finish);
  }
}

/// A transposed convolution: each pixel of the input adds its products with the whole kernel to the output.
///
///   out[y][x][n] = finish(sum over r, s, c with y + padding = i stride + r dilation, x + padding = j stride + s dilation
///                         of in[i][j][c] w[c][n][r][s])
///
/// Rows of the input have zeros around them, `before_width()` pixels and `after_width()` behind; `in` points to the
/// first. There are no rows of zeros.
struct TransposedShape {
  int channels = 1, out_channels = 1;
  int in_height = 1, in_width = 1, out_height = 1, out_width = 1;  // the input's without the zeros around it
  int kernel_height = 1, kernel_width = 1;
  int stride_height = 1, stride_width = 1;
  int dilation_height = 1, dilation_width = 1;
  int padding_height = 0, padding_width = 0;  // as LibTorch counts it: so much of the output is cut off
  int in_row = 1;                             // pixels of a row of the input, with the zeros
  int in_pixel = 0;                           // floats from one pixel of the input to the next; 0: `channels`
  int images = 1;
  int in_image = 0;  // floats from one image of the input to the next; 0: the rows lie behind each other
  TileShape sums = {};  // outputs of a row that lie a stride apart by vectors; nothing: what takes the least time
  Order order = Order::panels;

  constexpr int pixel() const { return in_pixel ? in_pixel : channels; }
  constexpr int before_width() const {
    const int beyond = (kernel_width - 1) * dilation_width - padding_width;
    return beyond > 0 ? beyond / stride_width : 0;
  }
  constexpr int after_width() const {
    const int beyond = (out_width - 1 + padding_width) / stride_width - (in_width - 1);
    return beyond > 0 ? beyond : 0;
  }
  constexpr std::ptrdiff_t image() const {
    return in_image ? in_image : static_cast<std::ptrdiff_t>(in_height) * in_row * pixel();
  }
  constexpr int rows() const { return images * out_height; }
  constexpr int depth() const { return kernel_height * kernel_width * channels; }
  /// Products in one element of the output, at most: of the kernel's pixels that lie a stride apart.
  constexpr int products() const {
    const auto most = [](int kernel, int stride, int dilation) {
      int apart = 1;
      while (apart * dilation % stride != 0) ++apart;
      return (kernel + apart - 1) / apart;
    };
    return most(kernel_height, stride_height, dilation_height) * most(kernel_width, stride_width, dilation_width) *
           channels;
  }
  /// Floats of packed weights.
  constexpr std::size_t packed() const { return packed_size(out_channels, depth()); }
  /// Outputs of a row that lie a stride apart.
  constexpr TileShape tile() const {
    if (sums.rows) return sums;
    return tile_shape((out_width + stride_width - 1) / stride_width, vectors_of(out_channels));
  }
};

/// Weights for `transposed_convolution`, shape.packed() floats: `weights(n, r, s, c)` gives an element.
template <class Weights>
void pack_transposed(float* packed, const TransposedShape& shape, const Weights& weights) {
  pack_weights(packed, shape.out_channels, shape.depth(), shape.tile(), [&](int n, int k) {
    const int c = k % shape.channels, pixel = k / shape.channels;
    return weights(n, pixel / shape.kernel_width, pixel % shape.kernel_width, c);
  });
}

/// `packed`: by pack_transposed, Shape.packed() floats. `finish(image, y, x, channel, sum, width)` gets every sum once.
/// Errors as above. Nothing is multiplied with zeros between pixels.
template <TransposedShape Shape, class Finish>
FXX_KERNEL void transposed_convolution(Part part, const float* __restrict in, const float* __restrict packed,
                                       const Finish& finish) {
  static_assert(Shape.in_row >= Shape.before_width() + Shape.in_width + Shape.after_width(),
                "fxx::kernels: a row of the input has zeros before and behind it");
  constexpr TileShape shape = Shape.tile();
  using namespace detail_of_convolution;
  for_panels_of_rows<Shape.out_channels, shape.vectors, Shape.rows(),
                     Shape.order>(part, [&](Range rows, int channel, auto vectors,
                                            auto last) __attribute__((always_inline)) {
    const float* panel = packed + static_cast<std::ptrdiff_t>(channel) * Shape.depth();
    for_rows<Shape.out_height>(rows, [&](int image, int y) __attribute__((always_inline)) {
      // Outputs a stride apart have the same pixels of the kernel, and their inputs lie behind each other.
      const auto outputs = [&]<int Count>(Width<Count>, int phase) __attribute__((always_inline)) {
        constexpr int most = shape.rows < Count ? shape.rows : Count;
        for_pixels<Count, most>([&](auto count, int first) __attribute__((always_inline)) {
          const int x = phase + first * Shape.stride_width;
          using Sums = TileOfDepth<count, vectors, Shape.products()>;
          typename Sums::Totals totals;
          Sums tile(totals);
          for (int r = 0; r < Shape.kernel_height; ++r) {
            const int row = y + Shape.padding_height - r * Shape.dilation_height;
            if (row % Shape.stride_height != 0) continue;
            const std::ptrdiff_t i = row / Shape.stride_height;
            if (i < 0 || i >= Shape.in_height) continue;
            for (int s = 0; s < Shape.kernel_width; ++s) {
              const int column = x + Shape.padding_width - s * Shape.dilation_width;
              if (column % Shape.stride_width != 0) continue;
              const std::ptrdiff_t j = column / Shape.stride_width + Shape.before_width();
              tile.template add<Shape.pixel()>(
                  in + image * Shape.image() + (i * Shape.in_row + j) * Shape.pixel(),
                  panel + static_cast<std::ptrdiff_t>(r * Shape.kernel_width + s) * Shape.channels * vectors * lanes,
                  Width<Shape.channels>{});
            }
          }
          tile.complete();
          tile.template finish<last>([&](int p, int c, real sum, auto width) __attribute__((always_inline)) {
            finish(image, y, x + p * Shape.stride_width, channel + c, sum, width);
          });
        });
      };
      constexpr int each = Shape.out_width / Shape.stride_width, longer = Shape.out_width % Shape.stride_width;
      for (int phase = 0; phase < longer; ++phase) outputs(Width<each + 1>{}, phase);
      if constexpr (each > 0)
        for (int phase = longer; phase < Shape.stride_width; ++phase) outputs(Width<each>{}, phase);
    });
  });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
