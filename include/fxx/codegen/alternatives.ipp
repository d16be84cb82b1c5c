// Bodies of codegen/alternatives.hpp.
#pragma once

#include <algorithm>
#include <tuple>

#include "fxx/codegen/alternatives.hpp"
#include "fxx/codegen/lower/estimate.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Writes down the ways of one step.
class Alternatives {
 public:
  Alternatives(const KernelStep& step, const Target& target) : step_(step), target_(target) {
#if defined(__aarch64__)
    registers_ = 32;
#else
    registers_ = target.lanes == 16 ? 32 : 16;
#endif
  }

  std::vector<plans::Way> all() && {
    add({});
    match(
        step_.kernel, [&](const plans::MatrixProduct& k) { product(k); },
        [&](const plans::Convolution& k) { convolution(k); }, [&](const plans::DepthwiseBlock&) { joined(); },
        [](const auto&) {});
    // A call back takes some microseconds by itself; LibTorch is no faster with what is small.
    if (step_.expected >= 1e-4 && !is_quantised() && !joins() && !is_softmax()) add({.method = Way::Method::library});
    return std::move(ways_);
  }

 private:
  using Way = plans::Way;
  using TileShape = kernels::TileShape;

  void add(const Way& way) {
    if (std::ranges::find(ways_, way) == ways_.end()) ways_.push_back(way);
  }
  bool joins() const { return std::holds_alternative<plans::DepthwiseBlock>(step_.kernel) || !step_.joinable.empty(); }
  /// LibTorch's operator gives another value to queries that see nothing.
  bool is_softmax() const {
    const auto* k = std::get_if<plans::Attention>(&step_.kernel);
    return k && k->softmax;
  }
  bool is_quantised() const {
    if (const auto* k = std::get_if<plans::MatrixProduct>(&step_.kernel)) return static_cast<bool>(k->quantised);
    if (const auto* k = std::get_if<plans::Convolution>(&step_.kernel)) return static_cast<bool>(k->quantised);
    return false;
  }
  int vectors_of(std::int64_t columns) const { return static_cast<int>((columns + target_.lanes - 1) / target_.lanes); }

  /// For each number of vectors the tile that takes the least time, and one of fewer rows; the estimated one left out.
  std::vector<TileShape> tiles(std::int64_t all_rows, std::int64_t columns, TileShape estimated, int weight_registers,
                               std::size_t count) const {
    const int rows = static_cast<int>(all_rows), vectors = vectors_of(columns);
    const auto time = [&](TileShape tile) { return kernels::time_of_tiles(rows, vectors, tile); };
    std::vector<TileShape> found;
    for (int v = 1; v <= std::min(vectors, rows <= 2 ? 8 : 4); ++v) {
      std::vector<TileShape> of_width;
      for (int r = std::min(rows, 28); r > 0; --r)
        if (kernels::fits_registers({r, v}, registers_, weight_registers)) of_width.push_back({r, v});
      std::ranges::stable_sort(of_width, {}, time);
      of_width.resize(std::min<std::size_t>(of_width.size(), 2));
      found.insert(found.end(), of_width.begin(), of_width.end());
    }
    std::erase(found, estimated);
    std::ranges::stable_sort(found, {}, time);
    const long most = time(estimated) + time(estimated) / 4;
    std::erase_if(found, [&](TileShape tile) { return rows > 2 && time(tile) > most; });
    found.resize(std::min(found.size(), count));
    return found;
  }

  /// With weights of floats, as ConvolutionShape and WinogradShape have it.
  std::vector<TileShape> tiles(std::int64_t rows, std::int64_t columns, std::size_t count) const {
    const TileShape estimated = kernels::best_tile(static_cast<int>(rows), vectors_of(columns), 14, 1, registers_);
    return tiles(rows, columns, estimated, 1, count);
  }

  void product(const plans::MatrixProduct& k) {
    const bool bytes = static_cast<bool>(k.quantised), halves = k.weights.reduced;
    const bool own = bytes || (halves && k.reduced_rows);
    const int weight_registers = own || !halves ? 1 : k.rows > 2 ? 3 : 2;
    const TileShape estimated =
        kernels::product_tile(static_cast<int>(k.rows), vectors_of(k.columns), static_cast<int>(k.a_row),
                              bytes ? 1 : halves ? 2 : 4, target_.lanes, registers_, k.weights.distance);
    const auto found = tiles(k.rows, k.columns, estimated, weight_registers, 5);
    if (k.reading != plans::MatrixProduct::Reading::packed) add({.tile = estimated});
    for (const TileShape tile : found) add({.tile = tile});
    if (k.batch > 1 || !k.weights.constant) return;
    const auto distance = k.weights.distance == kernels::Distance::far ? Way::Distance::near : Way::Distance::far;
    add({.distance = distance});
    // All weights once a tile of rows: where they stay in a core's second cache.
    const std::int64_t weights = k.columns * k.depth * (bytes ? 1 : halves ? 2 : 4);
    if (vectors_of(k.columns) > 2 && k.rows >= 56 && weights <= 1 << 19) {
      add({.by_rows = true, .distance = Way::Distance::near});
      for (const TileShape tile : found)
        if (tile.vectors >= 3) {
          add({.tile = tile, .by_rows = true, .distance = Way::Distance::near});
          break;
        }
    }
    if (target_.accuracy == Accuracy::fast && !bytes && k.columns >= 16 && k.depth >= 32)
      add({.packed = halves ? Way::Packed::float32 : Way::Packed::bfloat16});
    if (step_.shape.starts_with("convolution") && !bytes) add({.method = Way::Method::direct});
    if (target_.threads > 1 && step_.expected < 1e-5 && !halves) add({.alone = true});
  }

  void direct(const plans::Convolution& k, Way::Method method) {
    const bool transposed = k.method == plans::Convolution::Method::transposed;
    const std::int64_t rows = transposed ? (k.out_width + k.stride_width - 1) / k.stride_width : k.out_width;
    for (const TileShape tile : tiles(rows, k.out_channels / k.groups, 4)) add({.method = method, .tile = tile});
    if (!transposed) add({.method = method, .distance = Way::Distance::near});
    // Where a row needs all weights, they stay in a core's second cache.
    if (vectors_of(k.out_channels / k.groups) > 1 && k.images * k.out_height >= 16 && k.weights.numel() <= 1 << 17) {
      add({.method = method, .by_rows = true});
      if (!transposed) add({.method = method, .by_rows = true, .distance = Way::Distance::near});
    }
  }
  void winograd(const plans::Convolution& k, Way::Method method) {
    const std::int64_t side = method == Way::Method::winograd_4 ? 4 : 2, points = (side + 2) * (side + 2);
    const std::int64_t all = k.images * ((k.out_height + side - 1) / side) * ((k.out_width + side - 1) / side);
    // As WinogradShape::block has it, half of that and twice that.
    const std::int64_t fit = std::max<std::int64_t>((1 << 17) / (points * vectors_of(k.channels) * target_.lanes), 16);
    add({.method = method});
    for (const TileShape tile : tiles(std::min(fit, all), k.out_channels, 2))
      add({.method = method, .tile = tile});
    for (const std::int64_t at_once : {fit / 2, 2 * fit, all})
      if (at_once >= 8 && at_once <= all && at_once <= 4 * fit)
        add({.method = method, .at_once = static_cast<int>(at_once)});
  }

  void convolution(const plans::Convolution& k) {
    using Method = plans::Convolution::Method;
    if (k.method == Method::depthwise_sequences) return;
    if (k.method == Method::depthwise) return joined();
    if (k.method == Method::transposed) return direct(k, Way::Method::estimated);
    if (!plans::has_winograd(k) || target_.accuracy == Accuracy::exact) {
      direct(k, Way::Method::estimated);
    } else {
      // Tiles only of the methods that are nearly the fastest by the estimate.
      static constexpr std::tuple<Method, Way::Method> methods[] = {{Method::direct, Way::Method::direct},
                                                                    {Method::winograd_2, Way::Method::winograd_2},
                                                                    {Method::winograd_4, Way::Method::winograd_4}};
      const auto cost = [&](Method method) {
        plans::Convolution other = k;
        other.method = method;
        other.reduced = k.reduced && method == Method::direct;
        return plans::cost_of(other, target_.flops_per_byte);
      };
      double least = cost(Method::direct);
      for (const auto& [method, way] : methods) least = std::min(least, cost(method));
      for (const auto& [method, way] : methods) {
        if (method == Method::winograd_4 && k.alone) continue;
        if (method != k.method) add({.method = way});
        if (cost(method) > 1.4 * least) continue;
        if (method == Method::direct) direct(k, way);
        else winograd(k, way);
      }
      std::erase_if(ways_, [&](const Way& way) {
        return way.method == std::get<1>(methods[static_cast<std::size_t>(k.method)]) &&
               way == Way{.method = way.method};
      });
    }
    if (k.reduced) add({.method = Way::Method::direct, .packed = Way::Packed::float32});
  }

  void joined() {
    const bool all_apart = !std::holds_alternative<plans::DepthwiseBlock>(step_.kernel);
    if (!all_apart) add({.method = Way::Method::apart});
    if (!step_.joinable.empty()) add({.method = Way::Method::joined});
  }

  const KernelStep& step_;
  const Target& target_;
  int registers_;
  std::vector<Way> ways_;
};

}  // namespace detail

FXX_INLINE std::vector<plans::Way> alternatives(const KernelStep& step, const Target& target) {
  if (step.shape.empty()) return {};
  return detail::Alternatives(step, target).all();
}

}  // namespace fxx::inline FXX_ABI
