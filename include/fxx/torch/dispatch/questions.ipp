// Questions that code asks of tensors while a trace runs, and that are answered rather than recorded.
#pragma once

#include "fxx/torch/dispatch/implementation.ipp"

namespace fxx::inline FXX_ABI {

FXX_INLINE bool DispatchTracer::Implementation::answers_data_question(const c10::OperatorHandle& handle,
                                                                      const Operator& op, torch::jit::Stack& stack,
                                                                      std::size_t count) {
  static const std::unordered_set<std::string_view> questions = {"aten::item", "aten::_local_scalar_dense",
                                                                 "aten::is_nonzero", "aten::equal", "aten::allclose"};
  if (!questions.contains(op.name)) return false;
  c10::IValue* const args = stack.data() + (stack.size() - count);
  if (op.name == "aten::equal") {
    const at::Tensor a = args[0].toTensor(), b = args[1].toTensor();
    const bool known = a.is_same(b) || inner_of(a).sizes() != inner_of(b).sizes() ||
                       a.scalar_type() != b.scalar_type() || asked_by_attention();
    if (known) {
      if (calls_ && !a.is_same(b)) calls_->asked_by_attention();
      torch::jit::drop(stack, count);
      stack.emplace_back(a.is_same(b));
      return true;
    }
  }
  if (calls_) calls_->refuse();
  bool outer = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!args[i].isTensor() || !args[i].toTensor().defined()) continue;
    const at::Tensor tensor = args[i].toTensor();
    const bool known = own(tensor) || plain_.contains(tensor.unsafeGetTensorImpl()) || !owner_.name_of(tensor).empty();
    // Constants that the code made itself may be asked for; inputs, parameters and what follows from them may not, in
    // whichever view of the memory that they were written to.
    const Value value = known ? find(tensor) : Value();
    if (value.depends_on_inputs || holds_inputs(tensor)) refuse_question(op, value.node);
    detail::replace_traced(args[i], [&](const at::Tensor& t) { return inner_of(t); });
    outer = outer || detail::traced(args[i].toTensor());
  }
  if (outer && previous_) previous_->record(handle, stack);
  else handle.callBoxed(stack);
  return true;
}

FXX_INLINE bool DispatchTracer::Implementation::counts_elements(const Operator& op) {
  static const std::unordered_set<std::string_view> names = {"aten::_nnz", "aten::_choose_qparams_per_tensor",
                                                             "aten::fbgemm_linear_quantize_weight",
                                                             "aten::_nested_tensor_from_mask_left_aligned"};
  return op.name_space() != "aten" || names.contains(op.name);
}

FXX_INLINE bool DispatchTracer::Implementation::follows_from_packing(const Node& node) {
  const Node* from = &node;
  for (int steps = 0; steps < 16 && from->opcode() == Opcode::call_function; ++steps) {
    const Operator* op = from->operation();
    if (op && op->base_name() == "_pack_padded_sequence") return true;
    if (from->args().empty() || !from->arg(0).is_node()) return false;
    from = from->arg(0).node();
  }
  return false;
}

FXX_INLINE bool DispatchTracer::Implementation::asked_by_attention() {
  const Backtrace where = Backtrace::capture(2);
  std::size_t callers = 0;
  for (void* const address : where.addresses()) callers = callers * 31 + reinterpret_cast<std::uintptr_t>(address);
  static std::mutex mutex;
  static std::unordered_map<std::size_t, bool> known;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.emplace(callers, false);
  if (fresh)
    for (const Frame& frame : symbolise(where, SourceLines::none))
      at->second = at->second || frame.function.find("multi_head_attention_forward") != std::string::npos ||
                   frame.function.find("torch::nn::MultiheadAttentionImpl::forward") != std::string::npos;
  return at->second;
}

FXX_INLINE Argument DispatchTracer::Implementation::collapse(const c10::IValue& value, Argument tuple) const {
  const auto& elements = value.toTupleRef().elements();
  if (elements.size() < 2) return tuple;
  Node* producer = nullptr;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const TracedTensor* t = elements[i].isTensor() ? own(elements[i].toTensor()) : nullptr;
    if (!t || t->value.item != static_cast<int>(i) || (producer && t->value.node != producer)) return tuple;
    producer = t->value.node;
  }
  if (!producer->operation() || producer->operation()->returns.size() != elements.size()) return tuple;
  // The getitem nodes made for the tuple have no use then.
  for (const Argument& item : tuple.items())
    if (item.node()->num_users() == 0) producer->graph().erase_node(item.node());
  return producer;
}

}  // namespace fxx::inline FXX_ABI
