// Bodies of torch/dispatch/traced_tensor.hpp.
#pragma once

#include <ATen/ops/detach_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/ir/graph.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string user_place(const Backtrace& where) { return user_place(user_frames(where)); }
FXX_INLINE std::string user_place(std::span<const Frame> frames) {
  return frames.empty() ? std::string() : format_frame(frames.front());
}

inline constexpr const char* data_refusal =
    "trace: C++ code reads or writes the elements of a traced tensor (data_ptr, accessor, storage, printing), so the "
    "graph would "
    "keep the values of this run as constants. Use operators, or make the function that needs the elements an operator "
    "of your own (TORCH_LIBRARY); fxx::symbolic_trace takes it wrapped with fxx::wrap";

// --- what a trace's tensors share ------------------------------------------------------------------------------------

FXX_INLINE SharedTrace::SharedTrace(const Graph& graph, bool watch_sizes)
    : graph_(&graph),
      watch_sizes_(watch_sizes),
      closed_(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                    at::DataPtr(nullptr, c10::DeviceType::CPU), nullptr, false)) {
  static const std::string refusal = TraceError(ErrorId::traced_data_access, data_refusal).what();
  closed_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(refusal);
}

FXX_INLINE void SharedTrace::note_foreign(std::string_view op, const Backtrace& where) {
  const std::lock_guard lock(mutex_);
  if (foreign_.exchange(true)) return;
  foreign_op_ = op;
  foreign_place_ = where;
}
FXX_INLINE std::pair<std::string, Backtrace> SharedTrace::foreign_call() const {
  const std::lock_guard lock(mutex_);
  return {foreign_op_, foreign_place_};
}

FXX_INLINE void SharedTrace::note_read(const TracedValue& value, const at::Tensor& inner, TracedRead::Of of,
                                       std::int64_t dim) {
  if (!(watch_sizes_ || value.decided >= 0) || !graph_ || !on_this_thread() || !value.node) return;
  using Of = TracedRead::Of;
  const auto nodes = static_cast<std::uint32_t>(graph_->size());
  const c10::IntArrayRef sizes = inner.sizes();
  const auto note = [&](Of kind, std::int64_t d, std::int64_t number, bool decided) {
    if (!watch_sizes_ && !decided) return;
    const bool implied = kind != of;
    // A loop over the sizes reads them again and again.
    for (std::size_t i = reads_.size(); i-- > 0 && reads_[i].nodes_before == nodes;)
      if (TracedRead& r = reads_[i]; r.node == value.node && r.item == value.item && r.of == kind && r.dim == d) {
        r.implied = r.implied && implied;
        return;
      }
    reads_.push_back({value.node, value.item, kind, implied, d, number, nodes, decided, Backtrace::capture(3)});
  };
  const auto count = static_cast<std::int64_t>(sizes.size());
  const auto is_decided = [&](c10::IntArrayRef of_sizes) {
    return value.decided >= 0 && std::find(of_sizes.begin(), of_sizes.end(), value.decided) != of_sizes.end();
  };
  if (of == Of::numel) note(of, -1, inner.numel(), is_decided(sizes));
  for (std::int64_t d = dim < 0 ? 0 : dim; d < (dim < 0 ? count : dim + 1); ++d) {
    const std::int64_t size = sizes[static_cast<std::size_t>(d)];
    if (of == Of::stride) note(of, d, inner.stride(d), is_decided(sizes.slice(static_cast<std::size_t>(d) + 1)));
    note(Of::size, d, size, size == value.decided);
  }
}

FXX_INLINE void SharedTrace::close(const c10::Storage& storage) {
  const std::lock_guard lock(mutex_);
  for (TracedTensor* tensor = first_; tensor; tensor = tensor->next_) {
    // is_alias_of would ask for the data of fake tensors.
    if (!tensor->open_ || tensor->storage_.unsafeGetStorageImpl() != storage.unsafeGetStorageImpl()) continue;
    tensor->open_ = false;
    tensor->storage_ = closed_;
  }
}

FXX_INLINE std::vector<const Node*> SharedTrace::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Node*> nodes;
  for (const TracedTensor* tensor = first_; tensor; tensor = tensor->next_) nodes.push_back(tensor->value.node);
  return nodes;
}

FXX_INLINE void SharedTrace::release() {
  const std::lock_guard lock(mutex_);
  graph_ = nullptr;
  while (first_) {
    TracedTensor* tensor = first_;
    tensor->unlink();
    tensor->become_plain();  // may move it to another trace, which has a lock of its own
  }
}

// --- the tensor ------------------------------------------------------------------------------------------------------

FXX_INLINE TracedTensor::TracedTensor(at::Tensor inner, TracedValue place, std::shared_ptr<SharedTrace> state,
                                      bool open)
    : c10::TensorImpl(inner.key_set(), inner.dtype(), inner.device()),
      value(place),
      inner_(std::move(inner)),
      open_(open) {
  key_set_ = inner_.key_set().add(trace_key);
  set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
  storage_ = open_ ? inner_.storage() : state->closed_;
  if (open_) storage_offset_ = inner_.storage_offset();
  link(std::move(state));
}

FXX_INLINE void TracedTensor::link(std::shared_ptr<SharedTrace> state) {
  state_ = std::move(state);
  const std::lock_guard lock(state_->mutex_);
  previous_ = nullptr;
  next_ = state_->first_;
  if (next_) next_->previous_ = this;
  state_->first_ = this;
  linked_ = true;
}

FXX_INLINE TracedTensor::~TracedTensor() {
  const std::lock_guard lock(state_->mutex_);
  unlink();
}
FXX_INLINE void TracedTensor::unlink() {
  if (!linked_) return;
  linked_ = false;
  (previous_ ? previous_->next_ : state_->first_) = next_;
  if (next_) next_->previous_ = previous_;
}
FXX_INLINE void TracedTensor::release_resources() {
  {
    const std::lock_guard lock(state_->mutex_);
    unlink();
  }
  inner_.reset();
  c10::TensorImpl::release_resources();
}

FXX_INLINE void TracedTensor::become_plain() {
  const TracedTensor* const outer = traced(inner_);
  // Kernels take a sparse or quantised tensor to be of a class of its own.
  if (!outer && (inner_.layout() != at::kStrided || inner_.is_quantized())) return;
  const at::Tensor inner = std::move(inner_);
  if (outer) {
    // A tensor of a trace around this one goes on as that.
    value = outer->value;
    open_ = outer->open_;
    storage_ = outer->storage_;
    inner_ = outer->inner_;
    link(outer->state_);
    return;
  }
  open_ = false;
  c10::TensorImpl* plain = inner.unsafeGetTensorImpl();
  copy_tensor_metadata(plain, this, plain->version_counter(), true);
  set_custom_sizes_strides(SizesStridesPolicy::Default);
}

FXX_INLINE void TracedTensor::refuse_data() const {
  throw TraceError(ErrorId::traced_data_access, data_refusal,
                   {value.node ? format_node(*value.node) : "", user_place(Backtrace::capture(2)), traced_modules()});
}
FXX_INLINE void TracedTensor::refuse_alias() const {
  throw TraceError(ErrorId::untraced_alias,
                   "trace: a traced tensor gets or gives its memory without the dispatcher (set_data(), or .data() of "
                   "another thread), so the graph would freeze its contents. Use detach(), or operators, instead",
                   {value.node ? format_node(*value.node) : "", user_place(Backtrace::capture(2)), traced_modules()});
}

/// The same memory under a handle without gradient. A version counter of its own, which .data() has besides, decides
/// only which errors autograd finds. Code that cannot be changed does this: TorchScript has it as prim::data.
FXX_INLINE c10::intrusive_ptr<c10::TensorImpl> TracedTensor::detached() const {
  if (c10::impl::tls_is_dispatch_key_excluded(trace_key)) refuse_alias();  // the tracer would not hear of it
  const at::Tensor self(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<TracedTensor*>(this)));
  return at::_ops::detach::call(self).getIntrusivePtr();
}

FXX_INLINE bool TracedTensor::has_storage() const {
  if (inner_.defined() && !open_) refuse_data();
  return c10::TensorImpl::has_storage();
}
FXX_INLINE const c10::Storage& TracedTensor::storage() const {
  if (inner_.defined() && !open_) refuse_data();
  return c10::TensorImpl::storage();
}
FXX_INLINE c10::intrusive_ptr<c10::TensorImpl> TracedTensor::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_change) const {
  if (inner_.defined()) return detached();
  return c10::TensorImpl::shallow_copy_and_detach(version, allow_change);
}
FXX_INLINE c10::intrusive_ptr<c10::TensorImpl> TracedTensor::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                                     bool allow_change) const {
  if (inner_.defined()) return detached();
  return c10::TensorImpl::shallow_copy_and_detach(std::move(version), allow_change);
}
FXX_INLINE void TracedTensor::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  if (inner_.defined()) refuse_alias();
  c10::TensorImpl::shallow_copy_from(impl);
}

FXX_INLINE c10::IntArrayRef TracedTensor::sizes_custom() const {
  state_->note_read(value, inner_, TracedRead::Of::size);
  return inner_.sizes();
}
FXX_INLINE c10::IntArrayRef TracedTensor::strides_custom() const {
  state_->note_read(value, inner_, TracedRead::Of::stride);
  return inner_.strides();
}
FXX_INLINE std::int64_t TracedTensor::size_custom(std::int64_t dim) const {
  const std::int64_t at = c10::maybe_wrap_dim(dim, inner_.dim(), false);
  state_->note_read(value, inner_, TracedRead::Of::size, at);
  return inner_.sizes()[static_cast<std::size_t>(at)];
}
FXX_INLINE std::int64_t TracedTensor::numel_custom() const {
  state_->note_read(value, inner_, TracedRead::Of::numel);
  return inner_.numel();
}
FXX_INLINE c10::SymIntArrayRef TracedTensor::sym_sizes_custom() const {
  return c10::fromIntArrayRefKnownNonNegative(sizes_custom());
}
FXX_INLINE c10::SymIntArrayRef TracedTensor::sym_strides_custom() const {
  return c10::fromIntArrayRefKnownNonNegative(strides_custom());
}
FXX_INLINE c10::SymBool TracedTensor::sym_is_contiguous_custom(at::MemoryFormat format) const {
  return inner_.is_contiguous(format);
}
FXX_INLINE c10::SymBool TracedTensor::sym_is_non_overlapping_and_dense_custom() const {
  return inner_.is_non_overlapping_and_dense();
}
FXX_INLINE bool TracedTensor::is_strides_like_custom(at::MemoryFormat format) const {
  return inner_.unsafeGetTensorImpl()->is_strides_like(format);
}

}  // namespace fxx::inline FXX_ABI::detail
