// How a step is computed where there are several ways that give the same: what is measured and kept when a module is
// tuned, and as text, "winograd_4 14x2".
//
// Steps that have ways have a shape, "product 128 x 256 -> 1024": what tells such steps apart, and no others. Equal
// shapes have one way.
// Main names: Way, Ways, way_of_text. Cost: light.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fxx/config.hpp"
#include "fxx/kernels/tile.hpp"

namespace fxx::inline FXX_ABI {

namespace plans {

/// What is not said is estimated.
struct Way {
  enum class Method : std::uint8_t {
    estimated,
    direct,  // of convolutions
    winograd_2,
    winograd_4,
    joined,   // a depthwise convolution with the pixelwise products around it
    apart,    // or each a step
    library,  // LibTorch is called
  };
  /// What is known of weights before they are read: are they in a core's own caches, or is to be asked for them ahead?
  enum class Distance : std::uint8_t { estimated, near, far };
  /// What weights are packed as, in fast mode.
  enum class Packed : std::uint8_t { estimated, float32, bfloat16 };
  Method method = Method::estimated;
  kernels::TileShape tile = {};  // of sums that stay in registers
  int at_once = 0;               // tiles of Winograd's algorithm
  bool by_rows = false;          // of a product: the rows are the outer loop, not the panels of weights
  bool alone = false;            // by one thread, while the others wait
  Distance distance = Distance::estimated;
  Packed packed = Packed::estimated;

  bool operator==(const Way&) const = default;
  /// "winograd_4 14x2 24_at_once"; "estimated" when nothing is said.
  std::string to_string() const;
};

/// By the shape of the step.
using Ways = std::map<std::string, Way, std::less<>>;

}  // namespace plans

/// The way that Way::to_string() has written; nothing for any other text.
std::optional<plans::Way> way_of_text(std::string_view text);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/way.ipp"
#endif
