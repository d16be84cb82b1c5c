// Notices writes to a module's buffers that no recorded operator made: another thread's, or where tracing is switched
// off.
//
// The version counter of a buffer has to be what recorded operators left.
// Main names: detail::BufferWatch. Cost: includes <torch/nn/module.h>; a lookup for each tensor that an operator gets.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI::detail {

class BufferWatch {
 public:
  /// A buffer, and its version as far as recorded operators have written to it.
  struct Buffer {
    const ModuleOwner::Tensor* tensor;
    const c10::StorageImpl* storage;
    std::int64_t version;
    bool was_written() const { return tensor->tensor._version() != version; }
  };
  /// `owner` has to outlive it.
  explicit BufferWatch(const ModuleOwner& owner);

  bool empty() const { return buffers_.empty(); }
  /// Adds the buffers in this memory; views share theirs.
  void find(const c10::StorageImpl* storage, std::vector<Buffer*>& found);
  /// An operator that may have written to these was recorded; `set_` may have given one other memory.
  void recorded(const std::vector<Buffer*>& buffers);
  /// The first that something else has written to; null when there is none.
  const Buffer* written() const;
  /// Throws TraceError (E321).
  [[noreturn]] static void refuse(const Buffer& buffer, ErrorContext place);

 private:
  std::vector<Buffer> buffers_;
  std::unordered_multimap<const c10::StorageImpl*, std::size_t> of_storage_;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/buffer_watch.ipp"
#endif
