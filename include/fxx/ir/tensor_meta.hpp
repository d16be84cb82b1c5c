// Shape, dtype and strides of a node's value where they are known (torch.fx: node.meta["tensor_meta"]).
// Filled by the dispatcher tracer and by shape propagation. Cost: light.
#pragma once

#include <cstdint>
#include <vector>

#include "fxx/ir/dtype.hpp"

namespace fxx::inline FXX_ABI {

struct TensorMeta {
  std::vector<std::int64_t> shape;   // elements
  std::vector<std::int64_t> stride;  // elements; empty when unknown
  Dtype dtype = Dtype::float32;
  Device device = {};
  bool requires_grad = false;

  std::int64_t dim() const { return static_cast<std::int64_t>(shape.size()); }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t size : shape) n *= size;
    return n;
  }
  bool operator==(const TensorMeta&) const = default;
};

}  // namespace fxx::inline FXX_ABI
