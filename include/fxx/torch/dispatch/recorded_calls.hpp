// What a run of traced code notes of its operators so that another can be compared with it (torch/dispatch/replay.hpp).
//
// Main names: detail::RecordedCalls, detail::OperatorCalls. A call is 16 bytes and more, and tensors of the same sizes
// are noted as one. Cost: tensor (ATen/core/dispatch/Dispatcher.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/ir/node.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Who learns of the operators that the thread calls with the tracer's key on.
class OperatorCalls {
 public:
  virtual void record(const c10::OperatorHandle& handle, torch::jit::Stack& stack) = 0;
  /// Another trace starts inside this one.
  virtual void meets_trace() = 0;

 protected:
  ~OperatorCalls() = default;
};
/// The innermost of the thread; null when nothing is traced.
OperatorCalls*& current_calls();

/// What a replay needs to know of a run besides its graph.
class RecordedCalls {
 public:
  /// A tensor that an operator gave.
  struct Result {
    std::int32_t given;  // one that it was given, by its place among these; -1 for another
    std::uint32_t like;  // of the same sizes as this one
  };
  struct Call {
    Node* node;
    std::uint32_t first;  // result
    std::uint32_t count;
    bool detached;
    bool list;  // the results are one list
  };
  static constexpr std::uint32_t undefined = ~0u;

  // --- recording -----------------------------------------------------------------------------------------------------
  /// The run did what only a run in earnest can tell of: it read elements, filled memory, changed sizes in place.
  void refuse() { usable_ = false; }
  bool usable() const { return usable_; }
  void input(Node* node, const at::Tensor& tensor) { inputs_.push_back({node, like(tensor)}); }
  void call(Node* node, bool detached, bool list);
  void gives(const at::Tensor& tensor) { add({-1, tensor.defined() ? like(tensor) : undefined}); }
  void gives_back(std::size_t given) { add({static_cast<std::int32_t>(given), undefined}); }
  /// A tensor that is no traced one was used first, as the value of the node.
  void meet(const at::Tensor& tensor, Node* node);
  bool has_met(const at::Tensor& tensor) const { return met_.contains(tensor.unsafeGetTensorImpl()); }
  void asked_by_attention() { asked_by_attention_ = true; }

  // --- replay --------------------------------------------------------------------------------------------------------
  const std::vector<Call>& calls() const { return calls_; }
  std::span<const Result> results_of(const Call& call) const { return {results_.data() + call.first, call.count}; }
  const std::vector<std::pair<Node*, std::uint32_t>>& inputs() const { return inputs_; }
  /// A fake tensor, or one on the meta device: many results share it.
  const at::Tensor& tensor(std::uint32_t like) const { return likes_[like]; }
  /// Null for a tensor that the run did not meet.
  Node* met(const at::Tensor& tensor) const;
  bool was_asked_by_attention() const { return asked_by_attention_; }

 private:
  void add(Result result) { results_.push_back(result), ++calls_.back().count; }
  std::uint32_t like(const at::Tensor& tensor);

  bool usable_ = true, asked_by_attention_ = false;
  std::vector<Call> calls_;
  std::vector<Result> results_;
  std::vector<std::pair<Node*, std::uint32_t>> inputs_;
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, Node*>> met_;  // held, so that addresses stay theirs
  std::vector<at::Tensor> likes_;
  std::unordered_multimap<std::size_t, std::uint32_t> by_sizes_;
  std::array<std::uint32_t, 4> recent_{undefined, undefined, undefined, undefined};
  std::size_t oldest_ = 0;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/recorded_calls.ipp"
#endif
