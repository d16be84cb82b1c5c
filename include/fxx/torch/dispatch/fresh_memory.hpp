// Memory that torch::empty gave the traced code and no recorded operator has written since.
//
// C++ may fill it (data_ptr, accessor) where nobody sees: it is marked when it is made, and looked at before an
// operator reads it or writes to a part of it.
// Main names: detail::FreshMemory, FreshMemories. Cost: includes <ATen/core/Tensor.h>; marking and looking take as long
// as filling it.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fxx/ir/node.hpp"
#include "fxx/torch/fake.hpp"

namespace fxx::inline FXX_ABI::detail {

class FreshMemory {
 public:
  /// Of the tensor that the node made, under no wrapper. `copied`: from memory that C++ had filled.
  FreshMemory(Node* made_by, const at::Tensor& made, bool copied) : node(made_by), tensor(made), copied_(copied) {
    if (!copied) std::memset(bytes().data(), mark, bytes().size());
  }
  /// Has C++ written to it?
  bool filled() const {
    const std::span<unsigned char> all = bytes();
    // All are the mark when the first is and each is the next.
    return copied_ || (!all.empty() && (all[0] != mark || std::memcmp(&all[0], &all[0] + 1, all.size() - 1) != 0));
  }
  /// It is a constant of the graph from now on.
  void freeze() { frozen_.emplace(bytes().begin(), bytes().end()); }
  bool is_frozen() const { return frozen_.has_value(); }
  /// Does it hold what it held then?
  bool is_as_frozen() const { return std::equal(bytes().begin(), bytes().end(), frozen_->begin(), frozen_->end()); }

  std::size_t size() const { return bytes().size(); }
  /// Does nobody else hold the memory?
  bool is_dead() const { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

  Node* node;
  at::Tensor tensor;

 private:
  static constexpr unsigned char mark = 0xa5;
  /// None where C++ has no reach: on other devices, and of fake tensors.
  std::span<unsigned char> bytes() const {
    if (!tensor.device().is_cpu() || is_fake(tensor)) return {};
    const c10::Storage& storage = tensor.storage();
    return {static_cast<unsigned char*>(storage.mutable_data()), storage.nbytes()};
  }

  bool copied_;
  std::optional<std::vector<unsigned char>> frozen_;
};

/// That of a trace, by its storage.
class FreshMemories {
 public:
  bool empty() const { return of_storage_.empty(); }
  FreshMemory* find(const c10::StorageImpl* storage) {
    const auto found = of_storage_.find(storage);
    return found == of_storage_.end() ? nullptr : &found->second;
  }
  void add(const c10::StorageImpl* storage, Node* made_by, const at::Tensor& made, bool copied) {
    const auto [fresh, added] = of_storage_.try_emplace(storage, made_by, made, copied);
    if (added) bytes_ += fresh->second.size();
    if (bytes_ > most_bytes_) forget_dead();
  }
  void erase(const c10::StorageImpl* storage) { of_storage_.erase(storage); }
  /// Memory is held strongly, so not for long.
  void forget_dead() {
    std::erase_if(of_storage_, [](const auto& entry) { return entry.second.is_dead(); });
    bytes_ = 0;
    for (const auto& [storage, fresh] : of_storage_) bytes_ += fresh.size();
    most_bytes_ = std::max(most_bytes_, 2 * bytes_);
  }

 private:
  std::unordered_map<const c10::StorageImpl*, FreshMemory> of_storage_;
  std::size_t bytes_ = 0, most_bytes_ = std::size_t{64} << 20;
};

}  // namespace fxx::inline FXX_ABI::detail
