// Bodies of torch/dispatch/recorded_calls.hpp.
#pragma once

#include <c10/util/hash.h>

#include "fxx/torch/dispatch/recorded_calls.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/fake.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE OperatorCalls*& current_calls() {
  thread_local OperatorCalls* calls = nullptr;
  return calls;
}

FXX_INLINE void RecordedCalls::call(Node* node, bool detached, bool list) {
  calls_.push_back({node, static_cast<std::uint32_t>(results_.size()), 0, detached, list});
}

FXX_INLINE void RecordedCalls::meet(const at::Tensor& tensor, Node* node) {
  met_.try_emplace(tensor.unsafeGetTensorImpl(), tensor, node);
}
FXX_INLINE Node* RecordedCalls::met(const at::Tensor& tensor) const {
  const auto found = met_.find(tensor.unsafeGetTensorImpl());
  return found == met_.end() ? nullptr : found->second.second;
}

FXX_INLINE std::uint32_t RecordedCalls::like(const at::Tensor& wrapped) {
  const at::Tensor& tensor = bare(wrapped);
  const auto is_like = [&](std::uint32_t i) {
    const at::Tensor& known = likes_[i];
    return known.sizes() == tensor.sizes() && known.strides() == tensor.strides() && known.dtype() == tensor.dtype() &&
           known.device() == tensor.device() && known.storage_offset() == tensor.storage_offset() &&
           known.is_conj() == tensor.is_conj() && known.is_neg() == tensor.is_neg();
  };
  if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested() || !tensor.has_storage()) {
    refuse();
    return undefined;
  }
  for (const std::uint32_t i : recent_)
    if (i != undefined && is_like(i)) return i;
  std::size_t hash = 0;
  for (const std::int64_t size : tensor.sizes()) hash = c10::hash_combine(hash, static_cast<std::size_t>(size));
  for (const std::int64_t stride : tensor.strides()) hash = c10::hash_combine(hash, static_cast<std::size_t>(stride));
  std::uint32_t& place = recent_[oldest_++ % recent_.size()];
  const auto [first, last] = by_sizes_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (is_like(at->second)) return place = at->second;
  at::Tensor made = tensor;
  if (!is_fake(tensor) && !tensor.is_meta()) {
    made = fake_like(tensor);
    made.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  }
  place = static_cast<std::uint32_t>(likes_.size());
  by_sizes_.emplace(hash, place);
  likes_.push_back(std::move(made));
  return place;
}

}  // namespace fxx::inline FXX_ABI::detail
