// How large a tile of sums is that stays in registers: what products and convolutions are made of, and what they take.
//
// Found from sizes alone, for any number of registers, so that whoever writes kernels can weigh tiles of a processor
// that is not this one.
// Main names: TileShape, Distance, best_tile, product_tile, time_of_tiles, fits_registers, longest_chain, chain_of,
// units_of_sum. Cost: none.
#pragma once

#include <cstdint>

namespace fxx::kernels {

/// Where weights are when they are read: in the caches that a core has for itself, or in none of them; streamed: in none,
/// but a processor that looks ahead by itself fetches them in time.
enum class Distance : std::uint8_t { near, far, streamed };

/// Rows and vectors of sums that stay in registers.
struct TileShape {
  int rows = 0, vectors = 0;
  bool operator==(const TileShape&) const = default;
};

/// Registers for an element of each row. For AArch64 g++ loads them all before it multiplies, and stores sums meanwhile
/// when they do not fit; elsewhere one is loaded where it is multiplied.
constexpr int registers_of_elements([[maybe_unused]] int rows) {
#if defined(__aarch64__)
  return rows;
#else
  return 1;
#endif
}
/// Of more products than that a sum is made of several chains of additions: what rounding leaves grows with the root of
/// a chain's length, and with that of their number. Of 256 it is 1 to 3 times what LibTorch's sums leave.
inline constexpr int longest_chain = 256;
/// Products of each chain of a sum of so many: as few chains as there can be, of the same length but for the last.
constexpr int chain_of(int depth) {
  const int chains = (depth + longest_chain - 1) / longest_chain;
  return (depth + chains - 1) / chains;
}
/// What the sum may be off by, whatever the numbers are, in units of 2^-23 of the sum of magnitudes: half a one for
/// each addition. Where products come in runs, chains are longer than half of the longest.
constexpr double units_of_sum(int depth) {
  return depth <= longest_chain ? depth / 2. : (longest_chain + depth / (longest_chain / 2.)) / 2;
}

/// A vector of weights takes `weight_registers`.
constexpr bool fits_registers(TileShape tile, int registers, int weight_registers = 1) {
  const int sums = tile.rows * tile.vectors, weights = tile.vectors * weight_registers;
  return sums + weights + registers_of_elements(tile.rows) <= registers;
}

/// What so many rows and vectors take in such tiles, for each k, in sixteenths of a cycle. A processor loads as often
/// as it multiplies, and for each k a tile loads its vectors and an element of every row; ten multiplications hide how
/// long one takes.
constexpr long time_of_tiles(int rows, int vectors, TileShape tile) {
  const auto cycles = [](int r, int v) {
    if (r * v == 0) return 0;
    const int loads = v + r, products = r * v;
    const int most = loads > products ? loads : products;
    return (most > 10 ? most : 10) * 16 + 8;  // and what starting and ending a tile takes
  };
  const long whole_rows = rows / tile.rows, whole_panels = vectors / tile.vectors;
  const int last_row = rows % tile.rows, last_panel = vectors % tile.vectors;
  return whole_panels * (whole_rows * cycles(tile.rows, tile.vectors) + cycles(last_row, tile.vectors)) +
         whole_rows * cycles(tile.rows, last_panel) + cycles(last_row, last_panel);
}
/// The tile that takes the least time.
constexpr TileShape best_tile(int rows, int vectors, int most_rows, int weight_registers, int registers) {
  TileShape best{1, 1};
  long least = -1;
  for (int v = 1; v <= 4 && v <= vectors; ++v)
    for (int r = 1; r <= most_rows && r <= rows; ++r) {
      if (!fits_registers({r, v}, registers, weight_registers)) break;
      const long time = time_of_tiles(rows, vectors, {r, v});
      if (least < 0 || time <= least) {
        least = time;
        best = {r, v};
      }
    }
  return best;
}

/// That of a product of `rows` rows that lie `stride` floats apart, with weights of `weight_bytes` bytes each. Rows that
/// lie a multiple of 4096 bytes apart share one set of the cache, so there are no more of them than it has ways. Weights
/// that are made floats need registers for that. One row of floats is as fast as memory, which two lines of the cache a k
/// are read from faster than four (Zen 4: 32 GB/s, not 25). Where weights are `near`, in a core's own caches, two sums would
/// wait for each other, and four lines are as fast as that cache (Zen 5: 62 bytes a cycle; two 38, eight 60).
constexpr TileShape product_tile(int rows, int vectors, int stride, int weight_bytes, int lanes, int registers,
                                 Distance from = Distance::far) {
  if (rows == 1 && weight_bytes == 4 && from != Distance::near)
    return best_tile(1, vectors < 32 / lanes ? vectors : 32 / lanes, 1, 1, registers);
  const int weight_registers = weight_bytes == 4 ? 1 : weight_bytes == 2 && rows > 2 ? 3 : 2;
  return best_tile(rows, vectors, stride % 1024 == 0 ? 8 : 14, weight_registers, registers);
}

}  // namespace fxx::kernels
