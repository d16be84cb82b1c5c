// Shape, dtype and strides of a node's value where they are known (torch.fx: node.meta["tensor_meta"]).
// Filled by the dispatcher tracer and by shape propagation; sizes that change from call to call by trace/sizes.hpp.
// Cost: light.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fxx/ir/dtype.hpp"

namespace fxx::inline FXX_ABI {

struct TensorMeta {
  /// Elements. A negative number stands for a size that changes from call to call: it is not known, and equal numbers
  /// are equal sizes, in all graphs of the program. So sizes may be compared with each other; who computes with one
  /// looks at its sign first.
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;  // elements; empty when unknown
  Dtype dtype = Dtype::float32;
  Device device = {};
  bool requires_grad = false;
  /// Where some size changes, what each is: "batch", "2*batch", "64"; "?" when nobody knows. Else empty.
  std::vector<std::string> symbols = {};

  std::int64_t dim() const { return static_cast<std::int64_t>(shape.size()); }
  /// Does some size change from call to call?
  bool is_dynamic() const {
    for (std::int64_t size : shape)
      if (size < 0) return true;
    return false;
  }
  /// -1 when some size changes from call to call.
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t size : shape) {
      if (size < 0) return -1;
      n *= size;
    }
    return n;
  }
  /// "2, 64", "batch, 64": the shape for people.
  std::string shape_text() const {
    std::string text;
    for (std::size_t i = 0; i < shape.size(); ++i)
      text += (i ? ", " : "") + (i < symbols.size() ? symbols[i] : shape[i] < 0 ? "?" : std::to_string(shape[i]));
    return text;
  }
  bool operator==(const TensorMeta&) const = default;
};

}  // namespace fxx::inline FXX_ABI
