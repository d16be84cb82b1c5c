// Bodies of codegen/quantised.hpp.
#pragma once

#include <cmath>

#include "fxx/codegen/quantised.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE const Node& maker_of(const Node& value) {
  const Operator* op = operator_of(value);
  return op && op->base_name() == "getitem" && value.arg(0).is_node() && value.arg(1) == Argument(0)
             ? *value.arg(0).node()
             : value;
}

FXX_INLINE std::optional<FakeQuantize> fake_quantize_of(const Node& value) {
  const Node* node = &maker_of(value);
  const Operator* op = operator_of(*node);
  if (!op || (op->name != "aten::fake_quantize_per_tensor_affine" &&
              op->name != "aten::fake_quantize_per_tensor_affine_cachemask"))
    return {};
  const auto argument = [&](std::string_view name) { return argument_or_default(*node, *op, op->index_of(name)); };
  const Argument self = argument("self"), scale = argument("scale"), zero = argument("zero_point"),
                 lowest = argument("quant_min"), highest = argument("quant_max");
  using Kind = Argument::Kind;
  if (!self.is_node() || !scale.is_number() || zero.kind() != Kind::integer || lowest.kind() != Kind::integer ||
      highest.kind() != Kind::integer)
    return {};
  const FakeQuantize given{self.node(), scale.number(), zero.integer(), lowest.integer(), highest.integer()};
  if (given.lowest > given.highest || given.highest - given.lowest > 255 || given.zero < given.lowest ||
      given.zero > given.highest || !std::isnormal(static_cast<float>(given.scale)) || given.scale < 0)
    return {};
  return given;
}

}  // namespace fxx::inline FXX_ABI
