// What the graph of a module writes to: whether a value stays what it was when it was computed.
//
// Main names: detail::WrittenMemory. Making one: O(nodes). Cost: heavy (torch/nn/module.h).
#pragma once

#include <algorithm>
#include <unordered_set>

#include "fxx/ops/effects.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI::detail {

/// What the graph writes to: nodes that make memory, and storages of attributes, which several attributes may share.
class WrittenMemory {
 public:
  explicit WrittenMemory(const GraphModule& module) : module_(module) {
    for (const Node* node : module.graph().nodes()) {
      const Memory memory = memory_written_by(*node);
      anywhere_ = anywhere_ || memory.anywhere;
      for (const Node* maker : memory.makers) {
        makers_.insert(maker);
        if (const void* storage = storage_of(*maker)) storages_.insert(storage);
      }
    }
  }
  bool holds(const Node& node) const {
    if (anywhere_) return true;
    if (makers_.empty()) return false;
    const Memory memory = memory_of(node);
    return memory.anywhere || std::any_of(memory.makers.begin(), memory.makers.end(), [&](const Node* maker) {
             const void* storage = storage_of(*maker);
             return makers_.contains(maker) || (storage && storages_.contains(storage));
           });
  }

 private:
  const void* storage_of(const Node& node) const {
    const auto* attribute = std::get_if<GetAttr>(&node.op());
    const at::Tensor tensor = attribute ? module_.owner().tensor(attribute->target) : at::Tensor();
    return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  const GraphModule& module_;
  std::unordered_set<const Node*> makers_;
  std::unordered_set<const void*> storages_;
  bool anywhere_ = false;
};

}  // namespace fxx::inline FXX_ABI::detail
