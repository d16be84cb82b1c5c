// Bodies of torch/dispatch/met_constants.hpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

// after the tensor's own header
#include <ATen/ops/allclose_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/detach_ops.h>
#include <ATen/ops/equal_ops.h>

#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE at::Tensor copy_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  const at::Tensor& inside = bare(tensor);
  return at::_ops::clone::call(at::_ops::detach::call(inside), std::nullopt).set_requires_grad(inside.requires_grad());
}

FXX_INLINE bool same_values(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_floating_point() && !a.is_complex()) return at::_ops::equal::call(a, b);
  return a.sizes() == b.sizes() && at::_ops::allclose::call(a, b, 0, 0, true);
}

FXX_INLINE std::string MetConstants::add(const at::Tensor& tensor, bool copied) {
  std::string name = owner_.fresh_name(constant_prefix, next_);
  const at::Tensor& inside = bare(tensor);
  copied = copied || (inside.has_storage() && !inside.storage().resizable());
  if (copied) copied_.push_back(name);
  if (!copied && inside.has_storage()) not_copied_[storage_of(tensor)].push_back(constants_.size());
  constants_.emplace_back(name, copied ? copy_of(tensor) : tensor);
  return name;
}

FXX_INLINE std::string MetConstants::add_object(const c10::IValue& object) {
  std::string name = owner_.fresh_name("_object", next_object_);
  objects_.emplace_back(name, std::make_shared<HeldObject>(object));
  return name;
}

FXX_INLINE void MetConstants::keep_those_in(const c10::StorageImpl* storage) {
  const auto found = not_copied_.find(storage);
  if (found == not_copied_.end()) return;
  for (std::size_t i : found->second) {
    auto& [name, tensor] = constants_[i];
    written_.push_back({name, decltype(Written::tensor)(tensor.getIntrusivePtr())});
    tensor = copy_of(tensor);
    copied_.push_back(name);
  }
  not_copied_.erase(found);
}

}  // namespace fxx::inline FXX_ABI::detail
