// The tensor that traced code gets to see: it stands for a real or fake one, and tells the tracer what C++ does with
// it.
//
// Every operator on it reaches the tracer, on any thread, since the tracer's dispatch key is among its own. Sizes are
// those of the tensor inside; that C++ asks for them is noted. Elements are out of reach: data_ptr() and accessor()
// throw TraceError (E320) where a plain tensor would let their values slip into the graph as constants. When the trace
// ends, it becomes an ordinary tensor, so code may keep it. One that stands for a sparse or quantised tensor, which is
// of a class of its own, goes on doing so, and operators get the tensor inside.
// Main names: TracedTensor, SharedTrace, traced. Cost: tensor (ATen/core/Tensor.h); about 0.2 us to make one.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fxx/ir/node.hpp"
#include "fxx/runtime/backtrace.hpp"

namespace fxx::inline FXX_ABI::detail {

class TracedTensor;

/// The mode key that the tracer listens on: free in every LibTorch build, above autograd.
inline constexpr c10::DispatchKey trace_key = c10::DispatchKey::DeferredInit;

/// A tensor's place in a graph.
struct TracedValue {
  Node* node = nullptr;
  int item = -1;                   // of a node with several results
  bool depends_on_inputs = false;  // or on parameters, or on random numbers
  bool without_gradient = false;   // computed under a NoGradGuard of the traced code
  std::int64_t decided = -1;       // by elements: how many nonzero gave, or a mask; the sizes that are it are so too
  const ModuleStack* modules = nullptr;  // of a parameter or buffer: the modules that own it
};

/// C++ code asked a traced tensor for a number that follows from its sizes.
struct TracedRead {
  enum class Of : unsigned char { size, numel, stride };
  Node* node;
  int item;
  Of of;
  bool implied;                // a size that the answer is made of, not the answer
  std::int64_t dim, value;     // dim: -1 for numel
  std::uint32_t nodes_before;  // how many nodes the graph had by then
  bool from_values;            // elements decide it, or a size that it is made of
  Backtrace where;
  bool varies = false;  // was another in another run of a dynamic trace
};

/// What the traced tensors of one trace share with it. Outlives the trace when code keeps traced tensors.
class SharedTrace {
 public:
  /// Sizes that elements decide are noted always, the others when they are watched.
  SharedTrace(const Graph& graph, bool watch_sizes);

  bool on_this_thread() const { return thread_ == std::this_thread::get_id(); }
  /// Another thread called an operator with a tensor of this trace; the trace fails when it next looks.
  void note_foreign(std::string_view op, const Backtrace& where);
  bool foreign() const { return foreign_.load(std::memory_order_relaxed); }
  /// The sentence for the first such call, and where it was.
  std::pair<std::string, Backtrace> foreign_call() const;
  /// `dim`: -1 for all.
  void note_read(const TracedValue& value, const at::Tensor& inner, TracedRead::Of of, std::int64_t dim = -1);
  const std::vector<TracedRead>& reads() const { return reads_; }
  /// Operators have written to this memory: its elements are out of C++'s reach from now on.
  void close(const c10::Storage& storage);
  /// The trace is over: its tensors become ordinary ones, where they can.
  void release();
  bool live() const { return graph_ != nullptr; }
  /// The nodes of traced tensors that somebody still holds, the latest first.
  std::vector<const Node*> held() const;

 private:
  friend class TracedTensor;
  const Graph* graph_;  // null when the trace is over
  bool watch_sizes_;
  c10::Storage closed_;  // of tensors whose elements are out of reach, refuses to give them
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<TracedRead> reads_;
  std::atomic<bool> foreign_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::string foreign_op_;
  Backtrace foreign_place_;
  TracedTensor* first_ = nullptr;
};

class TracedTensor final : public c10::TensorImpl {
 public:
  TracedTensor(at::Tensor inner, TracedValue value, std::shared_ptr<SharedTrace> state, bool open);
  ~TracedTensor() override;

  /// The tensor that it stands for.
  const at::Tensor& inner() const { return inner_; }
  SharedTrace& state() const { return *state_; }
  TracedValue value;
  bool has_storage() const override;
  const c10::Storage& storage() const override;
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  std::int64_t size_custom(std::int64_t dim) const override;
  std::int64_t dim_custom() const override { return inner_.dim(); }
  std::int64_t numel_custom() const override;
  std::int64_t storage_offset_custom() const override { return inner_.storage_offset(); }
  c10::SymIntArrayRef sym_sizes_custom() const override;
  c10::SymInt sym_size_custom(std::int64_t dim) const override { return size_custom(dim); }
  c10::SymIntArrayRef sym_strides_custom() const override;
  c10::SymInt sym_numel_custom() const override { return numel_custom(); }
  c10::SymInt sym_storage_offset_custom() const override { return storage_offset_custom(); }
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;
  bool is_strides_like_custom(at::MemoryFormat format) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_change) const override;
  /// What .data() and variable_data() give: in a trace, what detach() does.
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;
  void release_resources() override;

 private:
  friend class SharedTrace;
  void become_plain();
  void link(std::shared_ptr<SharedTrace> state);
  void unlink();
  [[noreturn]] void refuse_data() const;
  [[noreturn]] void refuse_alias() const;
  c10::intrusive_ptr<c10::TensorImpl> detached() const;

  at::Tensor inner_;
  std::shared_ptr<SharedTrace> state_;
  TracedTensor *previous_ = nullptr, *next_ = nullptr;
  bool open_;  // its elements are written by nobody yet, so C++ may fill them: true after torch::empty
  bool linked_ = false;
};

/// The traced tensor behind a handle; null for any other tensor.
inline TracedTensor* traced(const at::Tensor& tensor) {
  // Only its class has the tracer's key.
  return tensor.defined() && tensor.key_set().has(trace_key) ? static_cast<TracedTensor*>(tensor.unsafeGetTensorImpl())
                                                             : nullptr;
}

/// With no wrapper around it, that of a trace around this one either.
inline const at::Tensor& bare(const at::Tensor& tensor) {
  const TracedTensor* t = traced(tensor);
  return t ? bare(t->inner()) : tensor;
}
/// The memory behind all wrappers; null when there is none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  const at::Tensor& t = bare(tensor);
  return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

/// "Net::forward(...) at net.cpp:41": the innermost function of the user's, as far as symbols tell.
std::string user_place(const Backtrace& where);
std::string user_place(std::span<const Frame> user_frames);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/traced_tensor.ipp"
#endif
