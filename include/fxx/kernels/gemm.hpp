// Matrix products of sizes that are known: the micro-kernel, packed weights, the loop around them.
//
//   out[m][n] = finish(sum over k of a[m][k] w[k][n])
//
// The weights are packed once (pack_weights) into panels as wide as the tile; the last is filled up with zeros. What
// becomes of a sum is the caller's: `finish(row, column, sum, width)` gets `width` elements of it, from `column` on, and
// stores them, so bias, activation and what is added are computed before anything is written:
//
//   gemm<M, N, K, K>(part, a, weights, [&](int row, int column, real sum, auto width) {
//     store_some<width>(out + row * N + column, no_less(sum + load_some<width>(bias + column), 0.f));
//   });
//
// A part (kernels/parallel.hpp) is some of the rows, of few rows some of the columns. It changes no bit of a sum.
// Weights that are not in a core's own caches (Distance::far, gemm's last argument) are asked for ahead: read_ahead.
// A matrix that is made while the program runs is packed, or multiplied with where it lies, by kernels/matmul.hpp.
//
// Weights may be Bfloat16 or 8-bit integers, which take a half or a quarter of the memory and of the time where reading
// them is what takes it (few rows). They are made floats in registers. Integers are a column's weights divided by its
// scale, which pack_weights finds and the caller's `finish` multiplies with. Where `a` is Bfloat16 too the processor's
// own products are taken if it has them (AVX512_BF16): on Zen 4 twice as fast, on Xeons without AMX half as fast; denormal
// numbers count as zeros. Where `a` is bytes without a sign (std::uint8_t) products and sums are those of integers, which
// `finish` gets as a vector of them: exact, while a sum fits into 32 bits (K up to 65,000). AVX512_VNNI takes a quarter of
// the instructions of floats, others 16-bit products.
//
// Sums run over k in order, one rounding a product where the processor has it; those of more than 256 are made of
// chains of no more (longest_chain), which are added up. Errors are in units of 2^-23 sum |a w|, c being K, or 256 of
// more: within units_of_sum(K), which is K / 2, of several chains 128 + K / 256, whatever the numbers are; of normally
// distributed ones within 3, of such ones without signs, where nothing cancels, within 1 + sqrt(c) / 2. With weights of
// bfloat16, whose sums are one chain, within 3 beside the product of what they are rounded to (to 2^-9 of themselves),
// where `a` is as well within 1; with 8-bit integers within 2 (rounded to half a scale).
// The tile of AVX-512 reaches 95 to 99 % of the arithmetic peak, also where `a` and weights lie in no cache: blocks of k
// or of rows made nothing faster. Of a batch of matrices each is a product of its own, a part some of them.
// Main names: gemm, Tile, TileOfDepth, gemm_tile, Order, packed_size, pack_weights, Bfloat16, to_bfloat16, store_bfloat16,
// store_bfloat16_pairs, dequantised, Distance, read_ahead. Cost: light; a product takes the compiler 0.07 s.
#pragma once

#include "fxx/kernels/parallel.hpp"
#include "fxx/kernels/tile.hpp"
#include "fxx/kernels/vector.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// The upper half of a float, rounded.
enum class Bfloat16 : std::uint16_t {};

/// To nearest, to even; nan stays.
constexpr Bfloat16 to_bfloat16(float v) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, v);
  if (v != v) return static_cast<Bfloat16>((bits >> 16) | 0x40u);
  return static_cast<Bfloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
/// Exact.
constexpr float to_float(Bfloat16 v) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(v) << 16); }
/// Rounded to those, in the upper halves; what is in the lower ones is left over.
FXX_KERNEL natural rounded_to_bfloat16(real v) {
  const integer bits = bits_of(v), rounded = (integer)((natural)bits + 0x7fffu + (((natural)bits >> 16) & 1u));
  return (natural)(v != v ? bits | 0x400000 : rounded);
}
/// Rounds and writes the first `Count` elements.
template <int Count>
FXX_KERNEL void store_bfloat16(Bfloat16* to, real v) {
  typedef std::uint16_t halves __attribute__((vector_size(lanes * 2)));
  const halves narrow = __builtin_convertvector(rounded_to_bfloat16(v) >> 16, halves);
  __builtin_memcpy(to, &narrow, Count * sizeof(Bfloat16));
}
/// Rounds two vectors and writes an element of each in turn, as packed weights have those of two k.
FXX_KERNEL void store_bfloat16_pairs(Bfloat16* to, real even, real odd) {
  const natural pairs = (rounded_to_bfloat16(even) >> 16) | (rounded_to_bfloat16(odd) & 0xffff0000u);
  __builtin_memcpy(to, &pairs, sizeof pairs);
}

/// A number as a type, for arguments that choose what is compiled.
template <int N>
struct Width {
  static constexpr int value = N;
  constexpr operator int() const { return N; }
};

/// The tile that takes the least time for so many rows and vectors. A vector of weights takes `weight_registers`.
constexpr TileShape tile_shape(int rows, int vectors, int most_rows = 14, int weight_registers = 1) {
  return best_tile(rows, vectors, most_rows, weight_registers, FXX_KERNEL_REGISTERS);
}
/// Of a product of `m` rows that lie `stride` floats apart.
template <class Weight = float>
constexpr TileShape gemm_tile(int m, int n, int stride, Distance from = Distance::far) {
  return product_tile(m, vectors_of(n), stride, sizeof(Weight), lanes, FXX_KERNEL_REGISTERS, from);
}

namespace detail_of_weights {
/// Weights of so many k stand in 32 bits of a lane.
template <class Weight>
inline constexpr int together = static_cast<int>(sizeof(float) / sizeof(Weight));
constexpr int whole(int k, int together) { return (k + together - 1) / together * together; }

FXX_KERNEL float number(float v) { return v; }
FXX_KERNEL float number(Bfloat16 v) { return to_float(v); }
/// What sums of products with `expanded` weights are multiplied with: exact, and it saves shifts.
template <class Weight>
inline constexpr float unit = sizeof(Weight) == 1 ? 1.f / (1 << 24) : 1.f;
/// Number `j` of those in 32 bits.
template <class Weight>
FXX_KERNEL real expanded(integer bits, int j) {
  if constexpr (together<Weight> == 2) return j == 0 ? of_bits((integer)((natural)bits << 16)) : of_bits(bits & -65536);
  // An 8-bit integer stands in the upper bits.
  else if (j == 0) return __builtin_convertvector((integer)((natural)bits << 24), real);
  else return __builtin_convertvector((integer)((natural)bits << (24 - 8 * j)) & -16777216, real);
}
FXX_KERNEL void convert(float v, float& to) { to = v; }
FXX_KERNEL void convert(float v, Bfloat16& to) { to = to_bfloat16(v); }
FXX_KERNEL void convert(float v, std::int8_t& to) {
  to = static_cast<std::int8_t>(v < 0 ? double(v) - 0.5 : double(v) + 0.5);
}

/// Products of bytes and 8-bit integers.
template <class Element, class Weight>
inline constexpr bool of_integers = sizeof(Element) == 1 && sizeof(Weight) == 1;
/// Adds to each sum four products: of bytes without a sign in `row`, and with one in `weights`. Sums of integers stand in
/// the bits of floats: g++ keeps a vector in two registers that is one of integers in between, and has none left then.
FXX_KERNEL real add_fours(natural row, integer weights, real sum) {
#if defined(__AVX512VNNI__)
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(weights));
  return sum;
#elif defined(__AVXVNNI__)
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(row), "x"(weights));
  return sum;
#elif defined(__AVX2__)
  // The bytes at even places and at odd ones as 16 bits, of which pairs of products are added.
  typedef std::int16_t halves __attribute__((vector_size(lanes * 4)));
  const natural even = row & 0xff00ffu, odd = (row >> 8) & 0xff00ffu;
  const halves even_weights = ((halves)weights << 8) >> 8, odd_weights = (halves)weights >> 8;
  integer a, b;
  asm("vpmaddwd %2, %1, %0" : "=v"(a) : "v"(even), "v"(even_weights));
  asm("vpmaddwd %2, %1, %0" : "=v"(b) : "v"(odd), "v"(odd_weights));
  return of_bits(bits_of(sum) + a + b);
#else
  integer added = bits_of(sum);
#pragma GCC unroll 4
  for (int j = 0; j < 32; j += 8)
    added += (integer)((row >> j) & 0xffu) * ((integer)((natural)weights << (24 - j)) >> 24);
  return of_bits(added);
#endif
}

#if defined(__AVX512BF16__)
template <class Element, class Weight>
inline constexpr bool own_products = (sizeof(Element) == 2 && sizeof(Weight) == 2) || of_integers<Element, Weight>;
FXX_KERNEL real add_pairs(natural row, integer weights, real sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(row));
  return sum;
}
#else
template <class Element, class Weight>
inline constexpr bool own_products = of_integers<Element, Weight>;
FXX_KERNEL real add_pairs(natural, integer, real sum) { return sum; }
#endif
template <class Element>
FXX_KERNEL real add_own(natural row, integer weights, real sum) {
  if constexpr (sizeof(Element) == 1) return add_fours(row, weights, sum);
  else return add_pairs(row, weights, sum);
}
}  // namespace detail_of_weights

/// What is read after this, asked for meanwhile: at each step of a tile some lines of 64 bytes. Weights come once a call
/// from memory or the last cache, and processors by themselves look only some lines ahead.
template <int Lines, int Locality>
struct ReadAhead {
  const char* at;
  std::ptrdiff_t step;  // bytes
  FXX_KERNEL void next() {
#pragma GCC unroll 8
    for (int line = 0; line < Lines; ++line) __builtin_prefetch(at + line * 64, 0, Locality);
    at += step;
  }
};
/// Nothing is asked for.
struct NoReadAhead {
  FXX_KERNEL void next() {}
};

/// For a panel through which so many tiles (`Tiles` where nothing is shared out, or the fewest) take steps of `Bytes`,
/// with so many instructions for each line. Several tiles ask for the panel behind it, into the second cache; where they are very many
/// waiting for weights is a small part of the time. One alone asks for what lies 8 kB further, unless a line takes
/// so few that the processor sees as far itself.
template <int Bytes, int Tiles, int Instructions, Distance From = Distance::far>
FXX_KERNEL auto read_ahead(const void* panel, std::ptrdiff_t size, int tiles) {
  if constexpr (From != Distance::far || Tiles > Bytes || (Tiles == 1 && Instructions < 3)) {
    return NoReadAhead{};
  } else if constexpr (Tiles == 1) {
    return ReadAhead<(Bytes + 63) / 64, 3>{static_cast<const char*>(panel) + 8192, Bytes};
  } else {
    constexpr int lines = (Bytes + Tiles * 64 - 1) / (Tiles * 64);
    return ReadAhead<lines, 2>{static_cast<const char*>(panel) + size, tiles > 0 ? Bytes / tiles : 0};
  }
}

/// Nothing stays in a register across this where there are 16 of them. Otherwise g++ loads what `finish` needs (a bound, a
/// bias) before the loop over k and stores a sum in each step for want of a register: twice the time.
FXX_KERNEL void all_registers() {
#if defined(__x86_64__) && FXX_KERNEL_REGISTERS == 16
  asm volatile("" ::
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                     "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

/// `Rows` by `Vectors` vectors of sums in registers.
template <int Rows, int Vectors>
struct Tile {
  real sums[Rows][Vectors];

  /// What a DeepTile has beside it, and lives as long.
  struct Totals {};
  FXX_KERNEL explicit Tile(Totals&) : Tile() {}
  /// Behind the last product: `sums` are those of all.
  FXX_KERNEL void complete() {}

  FXX_KERNEL Tile() {
    all_registers();
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sums[r][v] = real{};
  }
  /// Adds products of rows of `a`, `Stride` elements apart, with `depth` rows of a panel, which lie `PanelStride` apart
  /// and whose last vector has `Last` elements.
  template <int Stride, int PanelStride = Vectors* lanes, int Last = lanes, class Ahead = NoReadAhead>
  FXX_KERNEL void add(const float* __restrict a, const float* __restrict panel, int depth, Ahead&& ahead = Ahead{}) {
#pragma GCC unroll 2
    for (int k = 0; k < depth; ++k) {
      ahead.next();
      // Where an element of one row is the next row's a few k later, g++ -O2 would hand all of them from k to k, in
      // registers that it does not have.
      if constexpr (Stride < 4) asm("" : "+r"(a));
      real weights[Vectors];
#pragma GCC unroll 8
      for (int v = 0; v < Vectors - 1; ++v) weights[v] = load(panel + v * lanes);
      weights[Vectors - 1] = load_some<Last>(panel + (Vectors - 1) * lanes);
      panel += PanelStride;
#pragma GCC unroll 32
      for (int r = 0; r < Rows; ++r) {
        const real row = splat(a[r * Stride + k]);
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) sums[r][v] = multiply_add(row, weights[v], sums[r][v]);
      }
    }
  }
  /// The same with weights of which several stand in 32 bits; sums count detail_of_weights::unit<Weight>.
  template <int Stride, class Element, class Weight, class Ahead = NoReadAhead>
    requires(sizeof(Weight) < sizeof(float))
  FXX_KERNEL void add(const Element* __restrict a, const Weight* __restrict panel, int depth, Ahead&& ahead = Ahead{}) {
    constexpr int together = detail_of_weights::together<Weight>;
    const auto some = [&]<int Count>(Width<Count>, int k) __attribute__((always_inline)) {
      ahead.next();
      integer bits[Vectors];
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v)
        bits[v] = bits_of(load(reinterpret_cast<const float*>(panel + v * lanes * together)));
      panel += Vectors * lanes * together;
      if constexpr (detail_of_weights::own_products<Element, Weight>) {
#pragma GCC unroll 32
        for (int r = 0; r < Rows; ++r) {
          std::uint32_t pair = 0;
          __builtin_memcpy(&pair, a + r * Stride + k, Count * sizeof(Element));
          const natural row = pair - natural{};
#pragma GCC unroll 8
          for (int v = 0; v < Vectors; ++v) sums[r][v] = detail_of_weights::add_own<Element>(row, bits[v], sums[r][v]);
        }
      } else {
#pragma GCC unroll 4
        for (int j = 0; j < Count; ++j) {
          real weights[Vectors];
#pragma GCC unroll 8
          for (int v = 0; v < Vectors; ++v) weights[v] = detail_of_weights::expanded<Weight>(bits[v], j);
#pragma GCC unroll 32
          for (int r = 0; r < Rows; ++r) {
            const real row = splat(detail_of_weights::number(a[r * Stride + k + j]));
#pragma GCC unroll 8
            for (int v = 0; v < Vectors; ++v) sums[r][v] = multiply_add(row, weights[v], sums[r][v]);
          }
        }
      }
    };
    int k = 0;
    for (; k + together <= depth; k += together) some(Width<together>{}, k);
    if constexpr (together == 2) {
      if (k < depth) some(Width<1>{}, k);
    } else {
      if (k + 2 < depth) some(Width<3>{}, k);
      else if (k + 1 < depth) some(Width<2>{}, k);
      else if (k < depth) some(Width<1>{}, k);
    }
  }
  /// Of the last vector, `Last` elements count.
  template <int Last, class Finish>
  FXX_KERNEL void finish(const Finish& finish) const {
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < Vectors - 1; ++v) finish(r, v * lanes, sums[r][v], Width<lanes>{});
      finish(r, (Vectors - 1) * lanes, sums[r][Vectors - 1], Width<Last>{});
    }
  }
};

/// A tile whose sums are of many products. Those of chains that are done are added up beside it: in registers where these
/// have room, else in memory that stays in the first cache.
template <int Rows, int Vectors>
struct DeepTile : Tile<Rows, Vectors> {
  using Tile<Rows, Vectors>::sums;
  struct Totals {
    real of[Rows][Vectors];
  };
  real (&totals)[Rows][Vectors];  // not in here: what is in memory in part is so as a whole
  int in_chain = 0;               // products that `sums` have
  // With 31 of 32 registers in use g++ keeps weights in memory for what `finish` reads.
  static constexpr bool in_registers =
      fits_registers({2 * Rows, Vectors}, FXX_KERNEL_REGISTERS == 32 ? 28 : FXX_KERNEL_REGISTERS);
  bool any = in_registers;  // do totals hold something? In memory, once the first chain has ended

  FXX_KERNEL explicit DeepTile(Totals& given) : totals(given.of) {
    if constexpr (in_registers) {
#pragma GCC unroll 32
      for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) totals[r][v] = real{};
    } else {
      asm("" : "=m"(totals));
    }
  }
  /// Of products of which some were added before, and put aside by `end_chain`; `given` are the totals.
  FXX_KERNEL DeepTile(real* given, bool first)
      : totals(*reinterpret_cast<real (*)[Rows][Vectors]>(given)), any(!first) {}
  /// As Tile's, of products that come in runs: `depth` is a Width, or an int.
  template <int Stride, int PanelStride = Vectors* lanes, int Last = lanes, class Length, class Ahead = NoReadAhead>
  FXX_KERNEL void add(const float* __restrict a, const float* __restrict panel, Length depth, Ahead&& ahead = Ahead{}) {
    int chain = longest_chain;
    bool whole = false;  // all chains are as long
    if constexpr (!__is_same(Length, int)) chain = chain_of(depth), whole = depth % chain_of(depth) == 0;
    for (int k = 0; k < depth; k += chain) {
      const int some = whole || depth - k > chain ? chain : depth - k;
      if (in_chain + some > longest_chain) end_chain();
      // g++ would keep where chains end as well, not know then how long they are, and copy the loop below once more.
      const float *row = a + k, *weights = panel + static_cast<std::ptrdiff_t>(k) * PanelStride;
      asm("" : "+r"(row), "+r"(weights));
      Tile<Rows, Vectors>::template add<Stride, PanelStride, Last>(row, weights, some, ahead);
      in_chain += some;
    }
  }
  FXX_KERNEL void end_chain() {
    complete();
    // Where registers have no room for totals g++ would keep some of them there all the same, and put sums aside.
    if constexpr (!in_registers) asm("" : "+m"(totals));
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) totals[r][v] = sums[r][v], sums[r][v] = real{};
    in_chain = 0;
    any = true;
  }
  FXX_KERNEL void complete() {
    if (any)
#pragma GCC unroll 32
      for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) sums[r][v] = totals[r][v] + sums[r][v];
  }
};
namespace detail_of_gemm {
template <int Rows, int Vectors, bool Deep>
struct TileOf {
  using type = Tile<Rows, Vectors>;
};
template <int Rows, int Vectors>
struct TileOf<Rows, Vectors, true> {
  using type = DeepTile<Rows, Vectors>;
};
}  // namespace detail_of_gemm
/// The tile for sums of up to `Depth` products; without `Floats`, where sums may be those of integers, one chain.
template <int Rows, int Vectors, int Depth, bool Floats = true>
using TileOfDepth = typename detail_of_gemm::TileOf<Rows, Vectors, (Floats && Depth > longest_chain)>::type;

namespace detail_of_gemm {
/// The rows of a panel that are this part's share of `Rows` rows and so many panels, in grains. Where there are enough
/// grains each part has the same rows of all panels, which it finds in its cache in the next step; else grains of all
/// panels are shared out.
template <int Rows, int Grain, int Panels>
FXX_KERNEL Range rows_of_panel(Part part, int panel) {
  constexpr int grains = (Rows + Grain - 1) / Grain;
  if (part.count == 1) return {0, Rows};
  if constexpr (grains >= 16 || Panels == 1) {
    return part.of(Rows, Grain);
  } else {
    const Range all = part.of(Panels * grains);
    const auto row = [&](int grain) __attribute__((always_inline)) {
      const int of_panel = grain - panel * grains;
      return of_panel <= 0 ? 0 : of_panel >= grains ? Rows : of_panel * Grain;
    };
    return {row(all.begin), row(all.end)};
  }
}
/// Calls `each(panel, first column, vectors, elements of the last)` for panels of `wide` columns.
template <int N, int Vectors, class Each>
FXX_KERNEL void for_each_panel(const Each& each) {
  constexpr int wide = Vectors * lanes, whole = N / wide;
  for (int panel = 0; panel < whole; ++panel) each(panel, panel * wide, Width<Vectors>{}, Width<lanes>{});
  if constexpr (N > whole * wide) {
    constexpr int left = N - whole * wide, vectors = vectors_of(left);
    each(whole, whole * wide, Width<vectors>{}, Width<left - (vectors - 1) * lanes>{});
  }
}
/// Calls `each(rows, first row)` for some of `M` rows in tiles of `Rows`; the last of all, which fill none, are one of
/// their own.
/// Where all rows are known (pixels of convolutions, queries of attention, sequences of recurrent layers) the loop is
/// written where it is: through this, such models take the compiler 1 % longer.
template <int M, int Rows, class Each>
FXX_KERNEL void for_row_tiles(Range rows, const Each& each) {
  constexpr int left = M % Rows;
  int row = rows.begin;
  for (; row + Rows <= rows.end; row += Rows) each(Width<Rows>{}, row);
  if constexpr (left > 0)
    if (row < rows.end) each(Width<left>{}, row);
}
/// Some rows of `a`, no more than `AtOnce`, in tiles of `Rows`, with one panel.
template <int M, int K, int Stride, int Rows, int Vectors, int Last, Distance From = Distance::far, int AtOnce = M,
          class Element, class Weight, class Finish>
FXX_KERNEL void panel_product(Range rows, const Element* __restrict a, const Weight* __restrict panel, int column,
                              const Finish& finish) {
  constexpr int together = detail_of_weights::together<Weight>;
  constexpr int bytes = Vectors * lanes * together * static_cast<int>(sizeof(Weight));
  constexpr int instructions = sizeof(Weight) < sizeof(float) ? (Rows + 2) * together : Rows + 1;
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(detail_of_weights::whole(K, together)) / together * bytes;
  auto ahead = read_ahead<bytes, (AtOnce + Rows - 1) / Rows, instructions, From>(
      panel, size, (rows.end - rows.begin + Rows - 1) / Rows);
  for_row_tiles<M, Rows>(
      rows, [&]<int Count>(Width<Count>, int row) __attribute__((always_inline)) {
        using Sums = TileOfDepth<Count, Vectors, K, sizeof(Weight) == sizeof(float)>;
        typename Sums::Totals totals;
        Sums tile(totals);
        tile.template add<Stride>(a + static_cast<std::ptrdiff_t>(row) * Stride, panel, Width<K>{}, ahead);
        tile.complete();
        tile.template finish<Last>([&](int r, int c, real sum, auto width) __attribute__((always_inline)) {
          constexpr float unit = detail_of_weights::unit<Weight>;
          if constexpr (detail_of_weights::of_integers<Element, Weight>)
            finish(row + r, column + c, bits_of(sum), width);
          else if constexpr (unit == 1.f) finish(row + r, column + c, sum, width);
          else finish(row + r, column + c, sum * unit, width);
        });
      });
}
}  // namespace detail_of_gemm

/// What the sums of a product of bytes and integers stand for: less what they have too much, times the columns' scales.
/// Within a unit.
template <int Count>
FXX_KERNEL real dequantised(integer sums, const std::int32_t* excess, const float* scales) {
  integer too_much{};
  __builtin_memcpy(&too_much, excess, Count * sizeof(std::int32_t));
  return __builtin_convertvector(sums - too_much, real) * load_some<Count>(scales);
}

/// Elements of packed weights: columns are filled up to whole vectors, k to what stands in 32 bits.
template <class Weight = float>
constexpr std::size_t packed_size(int n, int k) {
  return static_cast<std::size_t>(vectors_of(n)) * lanes *
         static_cast<std::size_t>(detail_of_weights::whole(k, detail_of_weights::together<Weight>));
}
/// Packs weights for `gemm` with this tile: `weights(column, k)` gives an element. Panels stand behind each other, each
/// k by k; the last has as many vectors as are left. Integers are rounded to.
template <class Weight, class Weights>
void pack_weights(Weight* packed, int n, int k, TileShape shape, const Weights& weights) {
  constexpr int together = detail_of_weights::together<Weight>;
  for (int first = 0; first < n; first += shape.vectors * lanes) {
    const int left = vectors_of(n - first), vectors = left < shape.vectors ? left : shape.vectors;
    for (int row = 0; row < k; row += together)
      for (int column = first; column < first + vectors * lanes; ++column)
        for (int i = row; i < row + together; ++i)
          detail_of_weights::convert(column < n && i < k ? static_cast<float>(weights(column, i)) : 0.f, *packed++);
  }
}
/// The same, divided by a scale for each column, which is found: the largest becomes 127.
template <class Weights>
void pack_weights(std::int8_t* packed, float* scales, int n, int k, TileShape shape, const Weights& weights) {
  for (int column = 0; column < n; ++column) {
    float most = 0;
    for (int i = 0; i < k; ++i) {
      const float w = weights(column, i), magnitude = w < 0 ? -w : w;
      most = magnitude > most ? magnitude : most;
    }
    scales[column] = most > 0 ? most / 127 : 1;
  }
  pack_weights(packed, n, k, shape, [&](int column, int i) { return weights(column, i) / scales[column]; });
}

/// What the outer loop of a product runs over. By panels, each is read once, and `a` once a panel; by rows, `a` is read
/// once, and all weights once a tile of rows.
enum class Order : bool { panels, rows };

/// `M` rows of `a`, `Stride` elements apart, times packed weights of `N` columns and K rows (packed_size<Weight>(N, K)
/// elements). The tile is that which they were packed with, gemm_tile<Weight>(M, N, Stride, From) when none is given.
/// `finish(row, column, sum, width)` gets every sum once. Errors as above. M N K multiplications and additions; `a` is
/// read once for each panel of weights, these once.
template <int M, int N, int K, int Stride, TileShape Given = TileShape{}, Distance From = Distance::far,
          Order By = Order::panels, class Element, class Weight, class Finish>
FXX_KERNEL void gemm(Part part, const Element* __restrict a, const Weight* __restrict packed, const Finish& finish) {
  constexpr TileShape shape = Given.rows ? Given : gemm_tile<Weight>(M, N, Stride, From);
  constexpr int panels = (vectors_of(N) + shape.vectors - 1) / shape.vectors;
  constexpr int depth = detail_of_weights::whole(K, detail_of_weights::together<Weight>);
  const auto product = [&](Range rows, int column, auto vectors, auto last) __attribute__((always_inline)) {
    constexpr int at_once = By == Order::rows ? shape.rows : M;
    detail_of_gemm::panel_product<M, K, Stride, shape.rows, vectors, last, From, at_once>(
        rows, a, packed + static_cast<std::ptrdiff_t>(column) * depth, column, finish);
  };
  if constexpr (By == Order::rows) {
    const Range all = part.of(M, shape.rows);
    for (int row = all.begin; row < all.end; row += shape.rows) {
      const Range rows = {row, row + shape.rows < all.end ? row + shape.rows : all.end};
      detail_of_gemm::for_each_panel<N, shape.vectors>(
          [&](int, int column, auto vectors, auto last)
              __attribute__((always_inline)) { product(rows, column, vectors, last); });
    }
  } else {
    detail_of_gemm::for_each_panel<N, shape.vectors>(
        [&](int panel, int column, auto vectors, auto last) __attribute__((always_inline)) {
          product(detail_of_gemm::rows_of_panel<M, shape.rows, panels>(part, panel), column, vectors, last);
        });
  }
}

/// The same, of which a part is some of the panels: for a `finish` that puts the sums of a column together.
template <int M, int N, int K, int Stride, TileShape Given = TileShape{}, Distance From = Distance::far, class Element,
          class Weight, class Finish>
FXX_KERNEL void gemm_by_panels(Part part, const Element* __restrict a, const Weight* __restrict packed,
                               const Finish& finish) {
  constexpr TileShape shape = Given.rows ? Given : gemm_tile<Weight>(M, N, Stride, From);
  constexpr int panels = (vectors_of(N) + shape.vectors - 1) / shape.vectors;
  constexpr int depth = detail_of_weights::whole(K, detail_of_weights::together<Weight>);
  const Range mine = part.of(panels);
  detail_of_gemm::for_each_panel<N, shape.vectors>([&](int panel, int column, auto vectors,
                                                       auto last) __attribute__((always_inline)) {
    if (panel < mine.begin || panel >= mine.end) return;
    detail_of_gemm::panel_product<M, K, Stride, shape.rows, vectors, last, From>(
        Range{0, M}, a, packed + static_cast<std::ptrdiff_t>(column) * depth, column, finish);
  });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
