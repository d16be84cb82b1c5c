// Attention of one head, of sizes that are known: softmax(scale q k^T + mask) v.
//
// Keys are packed into panels once a head. Scores of some queries stand in the workspace, become weights there, and are
// multiplied with the values where those lie. Of causal attention only what can be seen is computed, to whole panels.
// Of more than `longest_scores` keys, blocks are taken in turn, all queries with each: largest score, sum and result of
// each query are carried on, so the scores of some queries with a block stay in the first cache.
//
//   constexpr AttentionShape heads = {.queries = 128, .keys = 128, .size = 64, .query_stride = 768, .key_stride = 768,
//                                     .value_stride = 768};
//   attention<heads>(q, k, v, 0.125f, workspace, no_mask,
//                    [&](int query, int column, real value, auto width) { ... });
//
// Keys and values of steps that were, which grow by one a step, stay as they are: `attention_over_cache` takes as many
// as there are, packs none and multiplies a few queries with them where they lie.
//
// With `reduced` both products are those of bfloat16, to which queries, keys, weights and values are rounded: on
// processors that have these (AVX512_BF16) twice as fast.
//
// Error: that of a sum over `size`, of softmax, and of a sum over the keys. Of normally distributed queries, keys and
// values, scale being 1 / sqrt(size), within 2e-7 of the largest value, in blocks and over a cache as well; with
// `reduced` within 1.2e-3 beside attention of what these are rounded to. Large scores are rounded by as much as they are
// large, and weights with them. A query that sees nothing gets nan, as softmax has it, or zeros, as LibTorch's
// scaled_dot_product_attention.
//
// nan and infinities come out where LibTorch's own kernel has them, which shows its blocks (`flash`): weights below
// 2^-125.5 are 0 but in the last keys, which fill no vector; a nan among those alone hides nothing, so a query all of whose
// other scores are minus infinity gets zeros; and values that are hidden by `causal` are multiplied by 0 as far as their
// block of 512 keys is read, which is nan of an infinity.
// Main names: AttentionShape, attention, attention_over_cache, no_mask, visible. Cost: light; it takes the compiler
// 0.3 s.
#pragma once

#include "fxx/kernels/matmul.hpp"
#include "fxx/kernels/rows.hpp"
#include "fxx/kernels/transpose.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// More keys than that are taken in blocks of half as many.
inline constexpr int longest_scores = 1024;

/// One head: sizes, how far rows lie apart, what is seen.
struct AttentionShape {
  int queries = 1, keys = 1;
  int size = 1, value_size = 0;  // floats of a query and a key; of a value, 0: as many
  int query_stride = 1, key_stride = 1, value_stride = 1;  // floats from one to the next
  bool causal = false;          // query i sees the keys up to i + keys - queries
  bool from_first = false;      // and with this up to i, as LibTorch's is_causal
  bool hidden_is_zero = false;  // what a query that sees nothing gets
  bool mask_replaces = false;   // where the mask is not 0 it stands in place of the score, whatever that is
  bool reduced = false;         // products of bfloat16
  int flash = 0;                // lanes of LibTorch's kernel for attention; 0: its operators one by one

  // Found by the compiler, never while the program runs.
  consteval int values() const { return value_size ? value_size : size; }
  consteval TileShape tile() const { return tile_shape(queries, vectors_of(keys)); }
  consteval int wide() const { return tile().vectors * lanes; }
  consteval int padded_keys() const { return vectors_of(keys) * lanes; }
  /// Are keys taken in blocks, and of how many, in whole panels.
  consteval bool in_blocks() const { return keys > longest_scores; }
  consteval int block() const { return in_blocks() ? longest_scores / 2 / wide() * wide() : padded_keys(); }
  consteval int most_at_once() const { return in_blocks() ? block() : keys; }
  /// Floats from one query's scores to the next's.
  consteval int score_stride() const { return block() + lanes; }
  consteval int padded_values() const { return vectors_of(values()) * lanes; }
  /// Vectors of values that are multiplied at once.
  consteval int value_vectors() const { return tile_shape(tile().rows, vectors_of(values())).vectors; }
  /// Elements of a query that is rounded: pairs of them.
  consteval int even_size() const { return (size + 1) / 2 * 2; }
  /// Floats that take the keys and values of a block, which are packed, and some queries that are rounded.
  consteval std::size_t key_floats() const {
    return static_cast<std::size_t>(block()) * (reduced ? even_size() / 2 : size);
  }
  consteval std::size_t value_floats() const {
    return reduced ? static_cast<std::size_t>(block()) * padded_values() / 2 : 0;
  }
  consteval std::size_t query_floats() const {
    return reduced ? static_cast<std::size_t>(vectors_of(tile().rows * even_size() / 2)) * lanes : 0;
  }
  /// Floats of the workspace: keys, values, queries, scores, and what is carried on.
  consteval std::size_t workspace() const {
    return key_floats() + value_floats() + query_floats() + static_cast<std::size_t>(tile().rows * score_stride()) +
           (in_blocks() ? static_cast<std::size_t>(queries) * (padded_values() + 2) : 0);
  }
  /// That of attention_over_cache.
  consteval std::size_t cache_workspace() const { return static_cast<std::size_t>(padded_keys()); }
  /// Keys that query 0 sees if it is causal, of so many.
  constexpr int ahead(int count) const { return from_first ? 1 : count - queries + 1; }
  /// Keys from which on LibTorch's kernel takes one at a time.
  constexpr int end_of_vectors() const { return flash ? keys / flash * flash : 0; }
  /// Keys whose values LibTorch multiplies for a query, if it is causal, those that are hidden too.
  constexpr int multiplied_by(int query) const {
    const int at_once = queries >= 768 ? 256 : queries >= 192 ? 64 : 32, block = 512;  // as cpu_flash_attention has them
    const int last = query / at_once * at_once + at_once, end = (last + block - 1) / block * block;
    return end < keys ? end : keys;
  }
  /// Whether values that a query does not see may make a nan of its result.
  consteval bool shows_hidden_values() const { return causal && from_first && flash && !reduced; }
};

/// For scores to which nothing is added.
struct NoMask {};
inline constexpr NoMask no_mask{};
/// What a mask of booleans adds, where it holds nothing, else minus infinity: `visible(load_mask(mask + key, width))`.
FXX_KERNEL real visible(integer mask) { return mask ? splat(0.f) : splat(-__builtin_inff()); }

namespace detail_of_attention {

template <bool Reduced>
struct ElementOf {
  using type = float;
};
template <>
struct ElementOf<true> {
  using type = Bfloat16;
};
/// What is multiplied.
template <AttentionShape Shape>
using Element = typename ElementOf<Shape.reduced>::type;

/// Keys as a panel: element by element of a key. Of `count` keys; zeros behind them.
template <AttentionShape Shape, int Wide>
FXX_KERNEL void pack_panel(const float* __restrict keys, int count, Element<Shape>* __restrict packed) {
  for (int first = 0; first < Wide; first += lanes) {
    const float* const from = keys + static_cast<std::ptrdiff_t>(first) * Shape.key_stride;
    const int left = count - first;
    const auto turn = [&](const auto& put) __attribute__((always_inline)) {
      if (left >= lanes)
        transpose<lanes, Shape.size>(
            [&](int j, int c, auto width) __attribute__((always_inline)) {
              return load_some<width>(from + static_cast<std::ptrdiff_t>(j) * Shape.key_stride + c);
            },
            put);
      else
        transpose<lanes, Shape.size>(
            [&](int j, int c, auto width) __attribute__((always_inline)) {
              return j < left ? load_some<width>(from + static_cast<std::ptrdiff_t>(j) * Shape.key_stride + c) : real{};
            },
            put);
    };
    if constexpr (Shape.reduced) {
      real columns[Shape.even_size()];
      columns[Shape.even_size() - 1] = real{};
      turn([&](int c, int, real value, auto) __attribute__((always_inline)) { columns[c] = value; });
      for (int c = 0; c < Shape.even_size(); c += 2)
        store_bfloat16_pairs(packed + static_cast<std::ptrdiff_t>(c) * Wide + 2 * first, columns[c], columns[c + 1]);
    } else {
      turn([&](int c, int, real value, auto) __attribute__((always_inline)) {
        store(packed + static_cast<std::ptrdiff_t>(c) * Wide + first, value);
      });
    }
  }
}
/// Elements of a packed key.
template <AttentionShape Shape>
inline constexpr int packed_key = Shape.reduced ? Shape.even_size() : Shape.size;
/// Keys from `first` on as panels, a block of them. What is left of all keys is one panel more, in the last block.
template <AttentionShape Shape>
FXX_KERNEL void pack_keys(const float* __restrict keys, int first, Element<Shape>* __restrict packed) {
  constexpr int wide = Shape.wide(), whole = Shape.padded_keys() / wide * wide;
  const int end = first + Shape.block() < whole ? first + Shape.block() : whole;
  for (int key = first; key < end; key += wide)
    pack_panel<Shape, wide>(keys + static_cast<std::ptrdiff_t>(key) * Shape.key_stride, Shape.keys - key,
                            packed + static_cast<std::ptrdiff_t>(key - first) * packed_key<Shape>);
  if constexpr (Shape.padded_keys() > whole)
    if (first + Shape.block() > whole)
      pack_panel<Shape, Shape.padded_keys() - whole>(
          keys + static_cast<std::ptrdiff_t>(whole) * Shape.key_stride, Shape.keys - whole,
          packed + static_cast<std::ptrdiff_t>(whole - first) * packed_key<Shape>);
}
/// Calls `each(first column, vectors, elements of the last)` for the values that are multiplied at once.
template <AttentionShape Shape, int Vectors, class Each>
FXX_KERNEL void for_values(const Each& each) {
  constexpr int wide = Vectors * lanes, whole = Shape.values() / wide * wide;
  for (int column = 0; column < whole; column += wide) each(column, Width<Vectors>{}, Width<lanes>{});
  if constexpr (Shape.values() > whole) {
    constexpr int left = vectors_of(Shape.values() - whole);
    each(whole, Width<left>{}, Width<Shape.values() - whole - (left - 1) * lanes>{});
  }
}
/// `count` values from `first` on, a block of them, as pairs of keys: those of some vectors of columns behind each other.
template <AttentionShape Shape>
FXX_KERNEL void pack_values(const float* __restrict values, int first, int count, Bfloat16* __restrict packed) {
  for_values<Shape, Shape.value_vectors()>([&](int column, auto vectors, auto last) __attribute__((always_inline)) {
    Bfloat16* to = packed + static_cast<std::ptrdiff_t>(column) * Shape.block();
    for (int key = 0; key < count; key += 2) {
      const float* const even = values + static_cast<std::ptrdiff_t>(first + key) * Shape.value_stride + column;
      const float* const odd = even + Shape.value_stride;
      const auto pair = [&](int v, auto width) __attribute__((always_inline)) {
        store_bfloat16_pairs(to, load_some<width>(even + v * lanes),
                             key + 1 < count ? load_some<width>(odd + v * lanes) : real{});
        to += 2 * lanes;
      };
      for (int v = 0; v < vectors - 1; ++v) pair(v, Width<lanes>{});
      pair(vectors - 1, last);
    }
  });
}
/// Keys and values of a block where they are multiplied: both packed, or the values where they lie.
template <AttentionShape Shape>
struct Block {
  Element<Shape>* keys;
  const Element<Shape>* values;
  Element<Shape>* queries;  // room for some that are rounded
  float* scores;
  float* rest;  // of the workspace

  FXX_KERNEL explicit Block(float* workspace)
      : keys(reinterpret_cast<Element<Shape>*>(workspace)),
        values(nullptr),
        queries(reinterpret_cast<Element<Shape>*>(workspace + Shape.key_floats() + Shape.value_floats())),
        scores(workspace + Shape.key_floats() + Shape.value_floats() + Shape.query_floats()),
        rest(scores + Shape.tile().rows * Shape.score_stride()) {}
  /// The block from `first` on.
  FXX_KERNEL void pack(const float* __restrict all_keys, const float* __restrict all_values, int first) {
    pack_keys<Shape>(all_keys, first, keys);
    if constexpr (Shape.reduced) {
      Bfloat16* const packed = keys + 2 * Shape.key_floats();
      const int left = Shape.keys - first;
      pack_values<Shape>(all_values, first, left < Shape.block() ? left : Shape.block(), packed);
      values = packed;
    } else {
      values = all_values + static_cast<std::ptrdiff_t>(first) * Shape.value_stride;
    }
  }
  /// `Rows` queries as they are multiplied, and how far they lie apart.
  static constexpr int query_stride = Shape.reduced ? Shape.even_size() : Shape.query_stride;
  template <int Rows>
  FXX_KERNEL const Element<Shape>* some(const float* __restrict all_queries, int query) const {
    const float* const from = all_queries + static_cast<std::ptrdiff_t>(query) * Shape.query_stride;
    if constexpr (Shape.reduced) {
      for (int r = 0; r < Rows; ++r)
        detail_of_rows::for_each_vector<Shape.size>([&](int c, auto width) __attribute__((always_inline)) {
          store_bfloat16<width>(queries + r * query_stride + c, load_some<width>(from + r * Shape.query_stride + c));
        });
      return queries;
    } else {
      return from;
    }
  }
};

/// A score under its mask.
template <AttentionShape Shape>
FXX_KERNEL real masked(real score, real mask) {
  if constexpr (Shape.mask_replaces) return mask == splat(0.f) ? score : mask;
  else return score + mask;
}

/// Scores of `Rows` queries with the panel of keys from `key` on.
template <AttentionShape Shape, int Rows, int Vectors, class Mask>
FXX_KERNEL void scores_of_panel(const Element<Shape>* __restrict queries, const Element<Shape>* __restrict panel,
                                float scale, int query, int key, const Mask& mask, float* __restrict scores) {
  using Sums = TileOfDepth<Rows, Vectors, Shape.size, !Shape.reduced>;
  typename Sums::Totals totals;
  Sums tile(totals);
  tile.template add<Block<Shape>::query_stride>(queries, panel, Width<Shape.size>{});
  tile.complete();
  constexpr int last = Shape.keys % lanes;
  tile.template finish<lanes>([&](int r, int c, real sum, auto) __attribute__((always_inline)) {
    real score = sum * scale;
    if constexpr (!__is_same(Mask, NoMask)) {
      // Nobody asks the mask for keys that there are not.
      if (last == 0 || key + c + lanes <= Shape.keys) 
        score = masked<Shape>(score, mask(query + r, key + c, Width<lanes>{}));
      else if constexpr (last != 0) score = masked<Shape>(score, mask(query + r, key + c, Width<last>{}));
    }
    store(scores + r * Shape.score_stride() + c, score);
  });
}

/// Scores of `Rows` queries with the keys of a block from `first` on, as far as somebody sees them: up to `end`.
template <AttentionShape Shape, int Rows, class Mask>
FXX_KERNEL void scores_of_block(const float* __restrict queries, const Block<Shape>& block, float scale, int query,
                                int first, int end, const Mask& mask) {
  constexpr int wide = Shape.wide(), whole = Shape.padded_keys() / wide * wide;
  const Element<Shape>* const from = block.template some<Rows>(queries, query);
  const int end_of_whole = end < whole ? end : whole;
  for (int key = first; key < end_of_whole; key += wide)
    scores_of_panel<Shape, Rows, wide / lanes>(
        from, block.keys + static_cast<std::ptrdiff_t>(key - first) * packed_key<Shape>, scale, query, key, mask,
        block.scores + (key - first));
  if constexpr (Shape.padded_keys() > whole)
    if (end > whole)
      scores_of_panel<Shape, Rows, (Shape.padded_keys() - whole) / lanes>(
          from, block.keys + static_cast<std::ptrdiff_t>(whole - first) * packed_key<Shape>, scale, query, whole, mask,
          block.scores + (whole - first));
}
/// Keys that query `query` sees.
template <AttentionShape Shape>
FXX_KERNEL int seen_by(int query, int count) {
  if constexpr (!Shape.causal) return count;
  const int seen = query + Shape.ahead(count);
  return seen < 0 ? 0 : seen > count ? count : seen;
}
/// Weights of `Rows` queries, which stand in the block's scores, times `count` values: `put(row, column, sum, width)`.
template <AttentionShape Shape, int Rows, class Put>
FXX_KERNEL void values_of(const Block<Shape>& block, int count, const Put& put) {
  if constexpr (Shape.reduced)
    for (int r = 0; r < Rows; ++r) {
      float* const row = block.scores + r * Shape.score_stride();
      for (int i = 0; i < count; i += lanes) store_bfloat16<lanes>(reinterpret_cast<Bfloat16*>(row) + i, load(row + i));
    }
  constexpr int vectors = Shape.reduced ? Shape.value_vectors() : tile_shape(Rows, vectors_of(Shape.values())).vectors;
  for_values<Shape, vectors>([&](int column, auto wide, auto last) __attribute__((always_inline)) {
    using Sums = TileOfDepth<Rows, wide, Shape.most_at_once(), !Shape.reduced>;
    typename Sums::Totals totals;
    Sums tile(totals);
    if constexpr (Shape.reduced)
      tile.template add<2 * Shape.score_stride()>(reinterpret_cast<const Bfloat16*>(block.scores),
                                                  block.values + static_cast<std::ptrdiff_t>(column) * Shape.block(),
                                                  count);
    else
      tile.template add<Shape.score_stride(), Shape.value_stride, last>(block.scores, block.values + column, count);
    tile.complete();
    tile.template finish<last>([&](int r, int c, real sum, auto width)
                                   __attribute__((always_inline)) { put(r, column + c, sum, width); });
  });
}
/// Scores from key `first` on become powers; their sum. All are minus infinity where a mask hides every key, and `top`
/// with them: that gives nan, or zeros.
template <AttentionShape Shape>
FXX_KERNEL float powers_of_scores(float* scores, int count, float top, int first = 0) {
  const bool nothing = Shape.hidden_is_zero && top == -__builtin_inff();
  return powers_in_place<Shape.flash != 0>(scores, count, nothing ? 0.f : top, Shape.end_of_vectors() - first);
}
/// The largest of scores from key `first` on among which is a nan: minus infinity where LibTorch's kernel finds no other
/// score and drops the nan, which are all minus infinity then.
template <AttentionShape Shape>
[[gnu::noinline, gnu::cold]] float top_beside_nan(float* scores, int count, int first) {
  for (int i = 0; i < count; ++i) {
    const bool dropped = first + i >= Shape.end_of_vectors() && scores[i] != scores[i];
    if (!dropped && scores[i] != -__builtin_inff()) return __builtin_nanf("");
  }
  for (int i = 0; i < count; ++i) scores[i] = -__builtin_inff();
  return -__builtin_inff();
}
/// The largest of a query's scores, which are `count` from key `first` on, and of `least`.
template <AttentionShape Shape, class Mask>
FXX_KERNEL float top_of_scores(float* scores, int count, int first = 0, float least = -__builtin_inff()) {
  const float top = top_of_row(scores, count, least);
  if constexpr (Shape.flash != 0 && Shape.keys != Shape.end_of_vectors() && __is_same(Mask, NoMask))
    if (__builtin_expect(top != top && least == -__builtin_inff(), 0)) return top_beside_nan<Shape>(scores, count, first);
  return top;
}
/// Whether no value is nan or infinite.
template <AttentionShape Shape>
FXX_KERNEL bool all_finite(const float* __restrict values) {
  real nothing[4] = {};
  for (int key = 0; key < Shape.keys; ++key) {
    const float* const from = values + static_cast<std::ptrdiff_t>(key) * Shape.value_stride;
    detail_of_rows::for_each_vector<Shape.values()>([&](int c, auto width) __attribute__((always_inline)) {
      real& sum = nothing[(c / lanes) % 4];
      sum = multiply_add(load_some<width>(from + c), 0.f, sum);
    });
  }
  return all((nothing[0] + nothing[1]) + (nothing[2] + nothing[3]) == 0.f);
}
/// What makes weights of powers with this sum.
template <AttentionShape Shape>
FXX_KERNEL float factor_of(float sum) {
  return Shape.hidden_is_zero && sum == 0.f ? 0.f : 1.f / sum;
}
/// `count` scores of a query; g++ would warn that what is never run writes too far.
template <AttentionShape Shape>
FXX_KERNEL int no_more_keys(int count) {
  if (count > Shape.keys) __builtin_unreachable();
  return count;
}

/// `Hidden`: for one query, multiplies the values that it does not see as LibTorch does.
template <AttentionShape Shape, int Rows, bool Hidden = false, class Mask, class Put>
FXX_KERNEL void some_queries(const float* __restrict queries, const Block<Shape>& block, float scale, int query,
                             const Mask& mask, const Put& put) {
  int seen = seen_by<Shape>(query + Rows - 1, Shape.keys);  // by any of them
  scores_of_block<Shape, Rows>(queries, block, scale, query, 0, seen, mask);
  // The largest of all rows, then the powers of all: what is done last in a row waits for each other, and so has other
  // rows between. What makes weights of powers is multiplied with the results, which are fewer.
  float tops[Rows], factors[Rows];
  for (int r = 0; r < Rows; ++r) {
    const int own = seen_by<Shape>(query + r, Shape.keys);
    if (own > 0)
      tops[r] = top_of_scores<Shape, Mask>(block.scores + r * Shape.score_stride(), no_more_keys<Shape>(own));
  }
  for (int r = 0; r < Rows; ++r) {
    float* row = block.scores + r * Shape.score_stride();
    const int own = seen_by<Shape>(query + r, Shape.keys);
    if (own <= 0) {
      for (int i = 0; i < Shape.padded_keys(); ++i) row[i] = Shape.hidden_is_zero ? 0.f : __builtin_nanf("");
      factors[r] = 1.f;
    } else {
      factors[r] = factor_of<Shape>(powers_of_scores<Shape>(row, no_more_keys<Shape>(own), tops[r]));
      for (int i = vectors_of(own) * lanes; i < vectors_of(seen) * lanes; ++i) row[i] = 0.f;
    }
  }
  if constexpr (Hidden) {
    static_assert(Rows == 1);
    const int end = Shape.multiplied_by(query);
    for (int i = vectors_of(seen) * lanes; i < vectors_of(end) * lanes; ++i) block.scores[i] = 0.f;
    seen = end;
  }
  if (Shape.causal && seen == 0) seen = 1;  // of rows that are all nan one key is enough
  values_of<Shape, Rows>(block, seen, [&](int r, int c, real sum, auto width) __attribute__((always_inline)) {
    put(query + r, c, unfused(sum * factors[r]), width);
  });
}

/// What is carried on from block to block, of each query.
struct Carried {
  float* results;  // padded_values() each
  float* largest;
  float* sums;
};
/// Scores of a query with a block of keys become weights relative to the largest score yet; returns what the results so
/// far are to be multiplied with.
template <AttentionShape Shape, class Mask>
FXX_KERNEL float carry_on(float* scores, int first, int count, float& largest_yet, float& sum_yet) {
  const float top = top_of_scores<Shape, Mask>(scores, count, first, largest_yet);
  const float shift = top == -__builtin_inff() ? 0.f : top;  // nothing was seen yet
  const float sum = powers_in_place<Shape.flash != 0>(scores, count, shift, Shape.end_of_vectors() - first);
  const float factor = detail_of_rows::vanishing_exponential(splat(largest_yet - shift))[0];
  largest_yet = top;
  sum_yet = sum_yet * factor + sum;
  return factor;
}
template <AttentionShape Shape, int Rows, bool Hidden = false, class Mask>
FXX_KERNEL void some_queries_of_block(const float* __restrict queries, const Block<Shape>& block, float scale,
                                      int query, int first, const Mask& mask, const Carried& carried) {
  const int block_end = first + Shape.block() < Shape.keys ? first + Shape.block() : Shape.keys;
  const int seen = Hidden ? Shape.multiplied_by(query) : seen_by<Shape>(query + Rows - 1, Shape.keys);
  const int end = seen < block_end ? seen : block_end;
  if (end <= first) return;
  scores_of_block<Shape, Rows>(queries, block, scale, query, first, end, mask);
  float factors[Rows];
  for (int r = 0; r < Rows; ++r) {
    float* row = block.scores + r * Shape.score_stride();
    const int sees = seen_by<Shape>(query + r, Shape.keys), own = sees < end ? sees : end;
    const int count = own > first ? own - first : 0;
    factors[r] = count > 0 ? carry_on<Shape, Mask>(row, first, count, carried.largest[query + r], carried.sums[query + r]) : 1.f;
    for (int i = vectors_of(count) * lanes; i < vectors_of(end - first) * lanes; ++i) row[i] = 0.f;
  }
  float* const results = carried.results + static_cast<std::ptrdiff_t>(query) * Shape.padded_values();
  values_of<Shape, Rows>(block, end - first, [&](int r, int c, real sum, auto) __attribute__((always_inline)) {
    float* const at = results + r * Shape.padded_values() + c;
    store(at, multiply_add(load(at), factors[r], sum));
  });
}
template <AttentionShape Shape, class Mask, class Put>
FXX_KERNEL void attention_in_blocks(const float* __restrict queries, const float* __restrict keys,
                                    const float* __restrict values, float scale, float* __restrict workspace,
                                    const Mask& mask, const Put& put) {
  Block<Shape> block(workspace);
  constexpr int rows = Shape.tile().rows, whole = Shape.queries / rows * rows;
  Carried carried;
  carried.results = block.rest;
  carried.largest = carried.results + static_cast<std::ptrdiff_t>(Shape.queries) * Shape.padded_values();
  carried.sums = carried.largest + Shape.queries;
  for (int i = 0; i < Shape.queries; ++i) {
    carried.largest[i] = -__builtin_inff();
    carried.sums[i] = 0.f;
    for (int c = 0; c < Shape.padded_values(); c += lanes)
      store(carried.results + static_cast<std::ptrdiff_t>(i) * Shape.padded_values() + c, splat(0.f));
  }
  bool hidden = false;
  if constexpr (Shape.shows_hidden_values()) hidden = !all_finite<Shape>(values);
  for (int first = 0; first < Shape.keys; first += Shape.block()) {
    block.pack(keys, values, first);
    if constexpr (Shape.shows_hidden_values())
      if (__builtin_expect(hidden, 0)) {
        for (int query = 0; query < Shape.queries; ++query)
          some_queries_of_block<Shape, 1, true>(queries, block, scale, query, first, mask, carried);
        continue;
      }
    for (int query = 0; query < whole; query += rows)
      some_queries_of_block<Shape, rows>(queries, block, scale, query, first, mask, carried);
    if constexpr (Shape.queries > whole)
      some_queries_of_block<Shape, Shape.queries - whole>(queries, block, scale, whole, first, mask, carried);
  }
  for (int query = 0; query < Shape.queries; ++query) {
    const float factor = factor_of<Shape>(carried.sums[query]);
    detail_of_rows::for_each_vector<Shape.values()>([&](int c, auto width) __attribute__((always_inline)) {
      const float* const at = carried.results + static_cast<std::ptrdiff_t>(query) * Shape.padded_values() + c;
      put(query, c, unfused(load(at) * factor), width);
    });
  }
}

}  // namespace detail_of_attention

/// `mask(query, key, width)` gives what is added to `width` scores, or replaces them, or is `no_mask`. `put(query, column, value, width)`
/// gets the results. `workspace` has Shape.workspace() floats. Errors as above. Keys are packed first, which takes as
/// long as some five queries (512 keys, Zen 5).
template <AttentionShape Shape, class Mask, class Put>
FXX_KERNEL void attention(const float* __restrict queries, const float* __restrict keys, const float* __restrict values,
                          float scale, float* __restrict workspace, const Mask& mask, const Put& put) {
  using namespace detail_of_attention;
  if constexpr (Shape.in_blocks()) {
    attention_in_blocks<Shape>(queries, keys, values, scale, workspace, mask, put);
  } else {
    Block<Shape> block(workspace);
    block.pack(keys, values, 0);
    if constexpr (Shape.shows_hidden_values())
      if (__builtin_expect(!all_finite<Shape>(values), 0)) {
        for (int query = 0; query < Shape.queries; ++query)
          some_queries<Shape, 1, true>(queries, block, scale, query, mask, put);
        return;
      }
    constexpr int rows = Shape.tile().rows, whole = Shape.queries / rows * rows;
    for (int query = 0; query < whole; query += rows)
      some_queries<Shape, rows>(queries, block, scale, query, mask, put);
    if constexpr (Shape.queries > whole)
      some_queries<Shape, Shape.queries - whole>(queries, block, scale, whole, mask, put);
  }
}

/// The same over `count` of the Shape.keys keys and values that there is room for: packs nothing, so for a few queries
/// only. Causal queries are those of the last steps. `workspace` has Shape.cache_workspace() floats; nothing behind the
/// last key and value is read.
template <AttentionShape Shape, class Mask, class Put>
FXX_KERNEL void attention_over_cache(const float* __restrict queries, const float* __restrict keys,
                                     const float* __restrict values, int count, float scale,
                                     float* __restrict workspace, const Mask& mask, const Put& put) {
  using namespace detail_of_attention;
  for (int query = 0; query < Shape.queries; ++query) {
    int seen = seen_by<Shape>(query, count);
    const float* const own = queries + static_cast<std::ptrdiff_t>(query) * Shape.query_stride;
    for (int key = 0; key < seen; key += lanes) {
      const int last = seen - key < lanes ? seen - key - 1 : lanes - 1;
      real scores = detail_of_gemm::row_by_others<Shape.size, Shape.key_stride, lanes>(
          own, keys + static_cast<std::ptrdiff_t>(key) * Shape.key_stride, [&](int j) __attribute__((always_inline)) {
            return j < last ? j : last;  // nothing is read behind the last key
          });
      scores = scores * scale;
      if constexpr (!__is_same(Mask, NoMask)) {
        if (key + lanes <= seen) scores = masked<Shape>(scores, mask(query, key, Width<lanes>{}));
        else
          for (int j = 0; key + j < seen; ++j)
            scores[j] = masked<Shape>(splat(scores[j]), mask(query, key + j, Width<1>{}))[0];
      }
      store(workspace + key, scores);
    }
    float factor = 1.f;
    if (seen > 0) {
      no_more_keys<Shape>(seen);
      factor = factor_of<Shape>(powers_of_scores<Shape>(workspace, seen, top_of_scores<Shape, Mask>(workspace, seen)));
    }
    const float nothing = seen > 0 || Shape.hidden_is_zero ? 0.f : __builtin_nanf("");
    if constexpr (Shape.shows_hidden_values())
      for (const int end = Shape.multiplied_by(query); seen < end && seen < count; ++seen) workspace[seen] = 0.f;
    detail_of_rows::for_each_group<Shape.values()>([&]<int Vectors, int Last>(int column, Width<Vectors>, Width<Last>)
                                                       __attribute__((always_inline)) {
      using detail_of_rows::with_width;
      constexpr int chains = Vectors > 2 ? 2 : 4;
      real sums[chains][Vectors];
#pragma GCC unroll 4
      for (int chain = 0; chain < chains; ++chain)
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sums[chain][v] = splat(nothing);
      real before[Vectors];  // sums of chains that are done
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) before[v] = splat(nothing);
      const auto add = [&](int key, int chain) __attribute__((always_inline)) {
        const float* const from = values + static_cast<std::ptrdiff_t>(key) * Shape.value_stride + column;
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
          const real value = with_width<Vectors, Last>(
              v, [&](auto width) __attribute__((always_inline)) { return load_some<width>(from + v * lanes); });
          sums[chain][v] = multiply_add(splat(workspace[key]), value, sums[chain][v]);
        }
      };
      int key = 0;
      const auto add_until = [&](int end) __attribute__((always_inline)) {
        for (; key + chains <= end; key += chains)
#pragma GCC unroll 4
          for (int chain = 0; chain < chains; ++chain) add(key + chain, chain);
      };
      if constexpr (Shape.keys > longest_chain) {
        while (key + chains <= seen) {
          add_until(seen - key > longest_chain ? key + longest_chain : seen);
#pragma GCC unroll 4
          for (int chain = 0; chain < chains; ++chain)
#pragma GCC unroll 4
            for (int v = 0; v < Vectors; ++v) before[v] = before[v] + sums[chain][v], sums[chain][v] = real{};
        }
      } else {
        add_until(seen);
      }
      for (; key < seen; ++key) add(key, 0);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        real total = sums[0][v];
#pragma GCC unroll 4
        for (int chain = 1; chain < chains; ++chain) total = total + sums[chain][v];
        if constexpr (Shape.keys > longest_chain) total = before[v] + total;
        with_width<Vectors, Last>(v, [&](auto width) __attribute__((always_inline)) {
          put(query, column + v * lanes, unfused(total * factor), width);
        });
      }
    });
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
