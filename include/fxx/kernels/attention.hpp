// Attention of one head, of sizes that are known: softmax(scale q k^T + mask) v.
//
// Keys are packed into panels once a head. Scores of some queries stand in the workspace, become weights there, and are
// multiplied with the values where those lie. Of causal attention only what can be seen is computed, to whole panels.
//
//   constexpr AttentionShape heads = {.queries = 128, .keys = 128, .size = 64, .query_stride = 768, .key_stride = 768,
//                                     .value_stride = 768};
//   attention<heads>(q, k, v, 0.125f, workspace, no_mask,
//                    [&](int query, int column, real value, auto width) { ... });
//
// Error: that of a sum over `size`, of softmax, and of a sum over the keys. A query that sees nothing gets nan.
// Main names: AttentionShape, attention, no_mask. Cost: light; it takes the compiler 0.3 s.
#pragma once

#include "fxx/kernels/rows.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

struct AttentionShape {
  int queries = 1, keys = 1;
  int size = 1, value_size = 0;  // floats of a query and a key; of a value, 0: as many
  int query_stride = 1, key_stride = 1, value_stride = 1;  // floats from one to the next
  bool causal = false;                                     // query i sees the keys up to i + keys - queries

  // Found by the compiler, never while the program runs.
  consteval int values() const { return value_size ? value_size : size; }
  consteval TileShape tile() const { return tile_shape(queries, vectors_of(keys)); }
  consteval int wide() const { return tile().vectors * lanes; }
  consteval int padded_keys() const { return vectors_of(keys) * lanes; }
  /// Floats from one query's scores to the next's.
  consteval int score_stride() const { return padded_keys() + lanes; }
  /// Floats of the workspace.
  consteval std::size_t workspace() const {
    return static_cast<std::size_t>(padded_keys() * size + tile().rows * score_stride());
  }
};

/// For scores to which nothing is added.
struct NoMask {};
inline constexpr NoMask no_mask{};

namespace detail_of_attention {

/// Keys as panels of the tile's width: panel by panel, element by element of a key.
template <AttentionShape Shape>
FXX_KERNEL void pack_keys(const float* __restrict keys, float* __restrict packed) {
  for (int first = 0; first < Shape.keys; first += Shape.wide()) {
    const int left = Shape.padded_keys() - first, width = left < Shape.wide() ? left : Shape.wide();
    for (int j = 0; j < width; ++j)
      for (int c = 0; c < Shape.size; ++c)
        packed[c * width + j] =
            first + j < Shape.keys ? keys[static_cast<std::ptrdiff_t>(first + j) * Shape.key_stride + c] : 0.f;
    packed += width * Shape.size;
  }
}

/// Scores of `Rows` queries with one panel of keys.
template <AttentionShape Shape, int Rows, int Vectors, class Mask>
FXX_KERNEL void scores_of_panel(const float* __restrict queries, const float* __restrict panel, float scale, int query,
                                int key, const Mask& mask, float* __restrict scores) {
  Tile<Rows, Vectors> tile;
  tile.template add<Shape.query_stride>(queries, panel, Shape.size);
  constexpr int last = Shape.keys % lanes;
  tile.template finish<lanes>([&](int r, int c, real sum, auto) __attribute__((always_inline)) {
    real score = sum * scale;
    if constexpr (!__is_same(Mask, NoMask)) {
      // Nobody asks the mask for keys that there are not.
      if (last == 0 || key + c + lanes <= Shape.keys) score = score + mask(query + r, key + c, Width<lanes>{});
      else if constexpr (last != 0) score = score + mask(query + r, key + c, Width<last>{});
    }
    store(scores + r * Shape.score_stride() + key + c, score);
  });
}

template <AttentionShape Shape, int Rows, class Mask, class Put>
FXX_KERNEL void some_queries(const float* __restrict queries, const float* __restrict packed,
                             const float* __restrict values, float scale, float* __restrict scores, int query,
                             const Mask& mask, const Put& put) {
  constexpr int wide = Shape.wide(), whole = Shape.padded_keys() / wide * wide;
  constexpr int ahead = Shape.keys - Shape.queries + 1;  // keys that the first query sees
  const float* from = queries + static_cast<std::ptrdiff_t>(query) * Shape.query_stride;
  int seen = Shape.keys;  // by any of them
  if constexpr (Shape.causal) {
    seen = query + Rows - 1 + ahead;
    seen = seen < 0 ? 0 : seen > Shape.keys ? Shape.keys : seen;
  }
  for (int key = 0; key < whole && key < seen; key += wide)
    scores_of_panel<Shape, Rows, wide / lanes>(from, packed + static_cast<std::ptrdiff_t>(key) * Shape.size, scale, query,
                                               key, mask, scores);
  if constexpr (Shape.padded_keys() > whole)
    if (whole < seen)
      scores_of_panel<Shape, Rows, (Shape.padded_keys() - whole) / lanes>(
          from, packed + static_cast<std::ptrdiff_t>(whole) * Shape.size, scale, query, whole, mask, scores);
  for (int r = 0; r < Rows; ++r) {
    float* row = scores + r * Shape.score_stride();
    int own = seen;
    if constexpr (Shape.causal) own = query + r + ahead < seen ? query + r + ahead : seen;
    if (own <= 0) {
      for (int i = 0; i < Shape.padded_keys(); ++i) row[i] = __builtin_nanf("");
    } else {
      softmax_in_place(row, own);
      for (int i = vectors_of(own) * lanes; i < vectors_of(seen) * lanes; ++i) row[i] = 0.f;
    }
  }
  if (Shape.causal && seen == 0) seen = 1;  // of rows that are all nan one key is enough
  const auto columns = [&]<int Vectors, int Last>(Width<Vectors>, Width<Last>, int column)
                           __attribute__((always_inline)) {
    Tile<Rows, Vectors> tile;
    tile.template add<Shape.score_stride(), Shape.value_stride, Last>(scores, values + column, seen);
    tile.template finish<Last>([&](int r, int c, real sum, auto width) __attribute__((always_inline)) {
      put(query + r, column + c, sum, width);
    });
  };
  constexpr int vectors = tile_shape(Rows, vectors_of(Shape.values())).vectors, value_wide = vectors * lanes;
  constexpr int value_whole = Shape.values() / value_wide * value_wide;
  for (int column = 0; column < value_whole; column += value_wide) columns(Width<vectors>{}, Width<lanes>{}, column);
  if constexpr (Shape.values() > value_whole) {
    constexpr int left = vectors_of(Shape.values() - value_whole);
    columns(Width<left>{}, Width<Shape.values() - value_whole - (left - 1) * lanes>{}, value_whole);
  }
}

}  // namespace detail_of_attention

/// `mask(query, key, width)` gives what is added to `width` scores, or is `no_mask`. `put(query, column, value, width)`
/// gets the results. `workspace` has Shape.workspace() floats.
template <AttentionShape Shape, class Mask, class Put>
FXX_KERNEL void attention(const float* __restrict queries, const float* __restrict keys, const float* __restrict values,
                          float scale, float* __restrict workspace, const Mask& mask, const Put& put) {
  float* const scores = workspace + static_cast<std::ptrdiff_t>(Shape.padded_keys()) * Shape.size;
  detail_of_attention::pack_keys<Shape>(keys, workspace);
  constexpr int rows = Shape.tile().rows, whole = Shape.queries / rows * rows;
  for (int query = 0; query < whole; query += rows)
    detail_of_attention::some_queries<Shape, rows>(queries, workspace, values, scale, scores, query, mask, put);
  if constexpr (Shape.queries > whole)
    detail_of_attention::some_queries<Shape, Shape.queries - whole>(queries, workspace, values, scale, scores, whole,
                                                                    mask, put);
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
