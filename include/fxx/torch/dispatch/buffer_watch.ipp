// Bodies of torch/dispatch/buffer_watch.hpp.
#pragma once

#include "fxx/torch/dispatch/buffer_watch.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE BufferWatch::BufferWatch(const ModuleOwner& owner) {
  for (const ModuleOwner::Tensor& entry : owner.tensors()) {
    if (entry.kind != AttributeInfo::Kind::buffer || !entry.tensor.has_storage() || entry.tensor.is_inference())
      continue;
    of_storage_.emplace(storage_of(entry.tensor), buffers_.size());
    buffers_.push_back({&entry, storage_of(entry.tensor), entry.tensor._version()});
  }
}

FXX_INLINE void BufferWatch::find(const c10::StorageImpl* storage, std::vector<Buffer*>& found) {
  const auto [first, last] = of_storage_.equal_range(storage);
  for (auto at = first; at != last; ++at) found.push_back(&buffers_[at->second]);
}

FXX_INLINE void BufferWatch::recorded(const std::vector<Buffer*>& buffers) {
  for (Buffer* buffer : buffers) {
    buffer->version = buffer->tensor->tensor._version();
    const c10::StorageImpl* storage = storage_of(buffer->tensor->tensor);
    if (storage == buffer->storage) continue;
    const auto index = static_cast<std::size_t>(buffer - buffers_.data());
    const auto [first, last] = of_storage_.equal_range(buffer->storage);
    for (auto at = first; at != last; ++at)
      if (at->second == index) {
        of_storage_.erase(at);
        break;
      }
    of_storage_.emplace(buffer->storage = storage, index);
  }
}

FXX_INLINE const BufferWatch::Buffer* BufferWatch::written() const {
  for (const Buffer& buffer : buffers_)
    if (buffer.was_written()) return &buffer;
  return nullptr;
}

FXX_INLINE void BufferWatch::refuse(const Buffer& buffer, ErrorContext place) {
  throw TraceError(ErrorId::traced_on_other_thread,
                   "trace: the buffer '" + buffer.tensor->name +
                       "' was written to while the code was traced, by no operator that the trace has seen: on "
                       "another thread, in a trace inside this one, or where tracing is switched off. Trace code that "
                       "runs on one thread",
                   std::move(place));
}

}  // namespace fxx::inline FXX_ABI::detail
