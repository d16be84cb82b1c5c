// Fake tensors and their memory, and the tensors among an operator's arguments.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <memory>

#include "fxx/torch/fake.hpp"
#include "fxx/torch/fake/operators.ipp"

namespace fxx::inline FXX_ABI::detail {

/// Autograd asks for the current device and stream, also in a LibTorch, or on a machine, without CUDA: there it is told
/// of one that does nothing.
FXX_INLINE void ensure_cuda_guard() {
  static const bool ensured = [] {
    using Guard = c10::impl::DeviceGuardImplInterface;
    std::atomic<const Guard*>& guard = c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::kCUDA)];
    const Guard* known = guard.load();
    if (!known || known->deviceCount() == 0) guard.store(new c10::impl::NoOpDeviceGuardImpl<c10::kCUDA>);
    return true;
  }();
  (void)ensured;
}

FXX_INLINE c10::Storage fake_storage(std::size_t bytes, c10::Device device) {
  if (device.is_cuda()) ensure_cuda_guard();
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                       static_cast<std::int64_t>(bytes), c10::DataPtr(nullptr, device),
                                                       c10::GetAllocator(c10::kMeta), /*resizable=*/true);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "fxx: this is a fake tensor: it has sizes and a dtype, but no elements, so C++ cannot read or write them "
      "(data_ptr, accessor, printing, saving). Make the tensor outside the fxx::fake scope where its values matter");
  return c10::Storage(std::move(storage));
}

/// A fake tensor in the memory given, of the shape of another tensor.
FXX_INLINE at::Tensor fake_tensor(c10::Storage storage, const at::Tensor& shape) {
  // The backend's own key first, for what asks about layout and device. That of Meta goes before it: by it, composite
  // operators and formulas of gradients leave out their shortcuts that look at elements.
  const auto backend = c10::computeDispatchKey(shape.scalar_type(), c10::kStrided, storage.device());
  const c10::DispatchKeySet keys = c10::DispatchKeySet({backend, c10::DispatchKey::Meta, fake_key, fake_entry_key}) |
                                   c10::getAutocastRelatedKeySetFromBackend(c10::toBackendComponent(backend));
  at::Tensor fake = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, shape.dtype());
  c10::TensorImpl* impl = fake.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(shape.sizes(), shape.strides(), shape.storage_offset());
  if (shape.is_conj()) impl->_set_conj(true);
  if (shape.is_neg()) impl->_set_neg(true);
  return fake;
}

FXX_INLINE bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_quantized() && !tensor.is_nested() && tensor.has_storage();
}

/// Bytes from a tensor's first element to its last.
FXX_INLINE std::size_t bytes_reached(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<std::size_t>(last + 1) * tensor.itemsize();
}

/// Of a deleter, so that real memory which was made in a scope is known by it.
FXX_INLINE void delete_made_in_scope(void* context) { delete static_cast<c10::DataPtr*>(context); }
FXX_INLINE bool is_made_in_scope(const at::Tensor& tensor) {
  return tensor.has_storage() && !is_fake(tensor) && tensor.storage().data_ptr().get_deleter() == &delete_made_in_scope;
}
FXX_INLINE void mark_made_in_scope(const at::Tensor& tensor) {
  if (!tensor.defined() || is_fake(tensor) || !tensor.has_storage() || !tensor.is_cpu() || is_made_in_scope(tensor))
    return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->has_materializer()) return;  // its memory is another's until it is written to
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  void* const address = data.get();
  const c10::Device device = data.device();
  auto owner = std::make_unique<c10::DataPtr>(std::move(data));
  data = c10::DataPtr(address, owner.release(), &delete_made_in_scope, device);
}

template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (const at::Tensor& tensor = value.toTensor(); tensor.defined()) f(tensor);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) f(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor() && item.toTensor().defined()) f(item.toTensor());
  }
}
/// The value with each tensor replaced, in lists and tuples of them too.
template <class F>
c10::IValue map_tensors(const c10::IValue& value, F&& f) {
  if (value.isTuple()) {
    std::vector<c10::IValue> items;
    for (const c10::IValue& item : value.toTupleRef().elements()) items.push_back(map_tensors(item, f));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(f(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensor.defined() ? f(tensor) : tensor);
    return list;
  }
  if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isNone()) {
        list.push_back(std::nullopt);
      } else if (!item.isTensor()) {
        return value;
      } else {
        const at::Tensor& tensor = item.toTensor();
        list.push_back(tensor.defined() ? f(tensor) : tensor);
      }
    }
    return list;
  }
  return value;
}

}  // namespace fxx::inline FXX_ABI::detail
