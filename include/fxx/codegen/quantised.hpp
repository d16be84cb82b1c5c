// Values that stand for integers: what a fake_quantize makes of its input.
//
// Main names: FakeQuantize, fake_quantize_of, scales_name. Cost: light.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fxx/ir/node.hpp"

namespace fxx::inline FXX_ABI {

/// clamp(round(x / scale) + zero, lowest, highest), of which (that - zero) scale becomes the value.
struct FakeQuantize {
  const Node* input = nullptr;
  double scale = 1;
  std::int64_t zero = 0, lowest = 0, highest = 0;
};
/// Of aten::fake_quantize_per_tensor_affine whose numbers the graph knows, or of that with a mask, or of what is taken
/// from its results first; nothing for all else, and for integers that are not 256 or fewer.
std::optional<FakeQuantize> fake_quantize_of(const Node& value);

/// The node that calls the operator whose first result the value is: itself, or what it is taken from.
const Node& maker_of(const Node& value);

/// The attribute with the scales of a layer's weights, a float for each column.
inline std::string scales_name(std::string_view layer) { return "_scales." + std::string(layer); }

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/quantised.ipp"
#endif
