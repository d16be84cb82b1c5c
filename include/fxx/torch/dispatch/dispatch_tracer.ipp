// Bodies of torch/dispatch/dispatch_tracer.hpp. The step from an operator call to a node is one class, in
// implementation.ipp; its parts, and what it keeps account of, lie in the files beside it.
#pragma once

#include <torch/library.h>

#include "fxx/torch/dispatch/arguments.ipp"
#include "fxx/torch/dispatch/calls.ipp"
#include "fxx/torch/dispatch/dispatch_tracer.hpp"
#include "fxx/torch/dispatch/implementation.ipp"
#include "fxx/torch/dispatch/questions.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE void trace_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// The fallback is registered once per process, when the first trace starts.
FXX_INLINE void register_trace_fallback() {
  static torch::Library* library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "_", trace_key, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&trace_fallback>());
    return made;  // stays for the life of the process, as the dispatcher does
  }();
  (void)library;
}

}  // namespace detail

FXX_INLINE void detail::trace_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  // Below this, operators run as if nobody watched.
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  if (OperatorCalls* calls = current_calls()) return calls->record(op, *stack);
  // A traced tensor on another thread: the operator runs, and the trace learns of it.
  const std::size_t count = op.schema().arguments().size();
  for (std::size_t i = stack->size() - count; i < stack->size(); ++i)
    replace_traced((*stack)[i], [&](const at::Tensor& tensor) {
      const at::Tensor* inner = &tensor;
      while (const TracedTensor* t = traced(*inner)) {
        t->state().note_foreign(op.operator_name().name, Backtrace::capture(2));
        inner = &t->inner();
      }
      return *inner;
    });
  op.callBoxed(stack);
}

FXX_INLINE DispatchTracer::DispatchTracer(Graph& graph, const ModuleOwner& owner, RecordOptions options)
    : implementation_((detail::register_trace_fallback(), std::make_unique<Implementation>(graph, owner, options))) {}
FXX_INLINE DispatchTracer::~DispatchTracer() = default;
FXX_INLINE at::Tensor DispatchTracer::input(const at::Tensor& tensor, const std::string& name) {
  return implementation_->input(tensor, name);
}
FXX_INLINE void DispatchTracer::stop() {
  implementation_->stop();
  implementation_->refuse_foreign();
  implementation_->refuse_written_buffers();
}
FXX_INLINE Argument DispatchTracer::argument_for(const c10::IValue& value) {
  return implementation_->argument_for(value);
}
FXX_INLINE const std::vector<std::pair<std::string, at::Tensor>>& DispatchTracer::constants() const {
  return implementation_->constants();
}
FXX_INLINE const std::vector<std::string>& DispatchTracer::copied_constants() const {
  return implementation_->copied_constants();
}
FXX_INLINE std::vector<detail::MetConstants::Written> DispatchTracer::written_constants() {
  return std::move(implementation_->written_constants());
}
FXX_INLINE std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> DispatchTracer::objects() const {
  return {implementation_->objects().begin(), implementation_->objects().end()};
}
FXX_INLINE const std::vector<detail::TracedRead>& DispatchTracer::reads() const { return implementation_->reads(); }
FXX_INLINE const std::vector<std::pair<Node*, Backtrace>>& DispatchTracer::places() const {
  return implementation_->places();
}
FXX_INLINE std::shared_ptr<const detail::RecordedCalls> DispatchTracer::calls() const {
  return implementation_->calls();
}
FXX_INLINE std::vector<const Node*> DispatchTracer::held() const { return implementation_->held(); }

FXX_INLINE void write_stack_traces(std::span<const std::pair<Node*, Backtrace>> places) {
  if (places.empty()) return;
  std::vector<const Backtrace*> backtraces;
  for (const auto& [node, where] : places) backtraces.push_back(&where);
  const std::vector<std::vector<Frame>> frames = user_frames(backtraces);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (Node* node = places[i].first; !node->is_erased()) node->meta().stack_trace = user_stack(frames[i]);
}

}  // namespace fxx::inline FXX_ABI
