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
/// Of a module that is called and may write, or is given to what may, that is all that the module has.
class WrittenMemory {
 public:
  explicit WrittenMemory(const GraphModule& module) : module_(module) {
    for (const Node* node : module.graph().nodes()) {
      const Memory memory = memory_written_by(*node);
      anywhere_ = anywhere_ || memory.anywhere;
      for (const Node* maker : memory.makers) {
        makers_.insert(maker);
        add_storages(*maker);
      }
      if (memory.shared && node->opcode() == Opcode::call_module) add_storages(*node);
    }
  }
  bool holds(const Node& node) const {
    if (anywhere_) return true;
    if (makers_.empty() && storages_.empty()) return false;
    const Memory memory = memory_of(node);
    return memory.anywhere || std::any_of(memory.makers.begin(), memory.makers.end(), [&](const Node* maker) {
             const void* storage = storage_of(*maker);
             return makers_.contains(maker) || (storage && storages_.contains(storage));
           });
  }

 private:
  static const void* storage_of(const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  const void* storage_of(const Node& node) const {
    const auto* attribute = std::get_if<GetAttr>(&node.op());
    return attribute ? storage_of(module_.owner().tensor(attribute->target)) : nullptr;
  }
  /// Of the tensor, or of all tensors of the module, that the node names.
  void add_storages(const Node& node) {
    if (const void* storage = storage_of(node)) storages_.insert(storage);
    if (node.opcode() != Opcode::get_attr && node.opcode() != Opcode::call_module) return;
    const auto named = module_.submodule(node.target());
    if (!named) return;
    for (const auto& tensors : {named->parameters(), named->buffers()})
      for (const at::Tensor& tensor : tensors)
        if (const void* storage = storage_of(tensor)) storages_.insert(storage);
  }
  const GraphModule& module_;
  std::unordered_set<const Node*> makers_;
  std::unordered_set<const void*> storages_;
  bool anywhere_ = false;
};

}  // namespace fxx::inline FXX_ABI::detail
