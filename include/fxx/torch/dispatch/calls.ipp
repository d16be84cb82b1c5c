// An operator call while a trace runs: it is run, recorded, and what it gives is wrapped.
#pragma once

#include "fxx/torch/dispatch/implementation.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The same value with every traced tensor replaced by what `open(tensor)` returns. Lists are copied: they may be the
/// caller's own.
template <class F>
void replace_traced(c10::IValue& value, F&& open) {
  if (value.isTensor()) {
    if (traced(value.toTensor())) value = open(value.toTensor());
  } else if (value.isList()) {
    bool any = false;
    for (const c10::IValue& item : value.toListRef()) any = any || (item.isTensor() && traced(item.toTensor()));
    if (!any) return;
    c10::impl::GenericList list = value.toList().copy();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const c10::IValue item = list.get(i);
      if (item.isTensor() && traced(item.toTensor())) list.set(i, open(item.toTensor()));
    }
    value = std::move(list);
  }
}

}  // namespace detail

FXX_INLINE void DispatchTracer::Implementation::record(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  refuse_foreign();
  const Operator& op = operator_of(handle);
  const Running running(*this, op);
  const std::size_t count = handle.schema().arguments().size();
  if (takes_constants_alone(stack, count) && detail::in_script_compiler()) {
    const FakeScope real(false);
    return handle.callBoxed(stack);
  }
  // What set_data() asks first, also that of a tensor which is no traced one.
  if (op.name == "aten::_has_compatible_shallow_copy_type" && own(stack.back().toTensor())) refuse_alias();
  if (answers_data_question(handle, op, stack, count)) return;
  refuse_modes(&op);

  // Everything about the arguments is read before the call, which consumes them.
  const bool with_gradients = records_gradients();
  if (with_gradients && !gradients_) refuse_gradients(op);
  c10::IValue* const values = stack.data() + (stack.size() - count);
  // What changes the sizes of its tensor, and no elements, has to do so to the tensor itself.
  const bool detached = gradients_ && !with_gradients && !handle.hasTag(at::Tag::inplace_view);
  Call call{.op = op, .values = {values, count}, .detached = detached};
  if (has(op.traits, Trait::random)) call.depending = ~0u;
  const std::optional<detail::ElementSizes::Decided> decided = element_sizes_.dim_decided(handle, stack);
  std::vector<KeywordArgument> kwargs;
  std::vector<Argument> all(count);
  std::size_t written = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& parameter = op.parameters[i];
    call.at = i;
    all[i] = argument(values[i], parameter, call);
    const bool standard = parameter.has_default() &&
                          (same_value(all[i], parameter.standard, parameter.type) || is_default(values[i], handle, i));
    if (!standard && !parameter.keyword_only) written = i + 1;
    if (!standard && parameter.keyword_only) kwargs.push_back({parameter.name, all[i]});
    detail::replace_traced(values[i], [&](const at::Tensor& t) { return inner_of(t); });
  }
  Backtrace where;
  if (options_.places) where = Backtrace::capture(2);

  std::vector<std::pair<c10::DimVector, c10::DimVector>> before;  // sizes that it may change in place
  if (calls_ && op.mutates)
    for (const Given& given : call.given) before.emplace_back(given.inner.sizes(), given.inner.strides());
  run(handle, stack, call);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (const at::Tensor& now = call.given[i].inner;
        now.sizes() != before[i].first || now.strides() != before[i].second)
      calls_->refuse();
  if (op.mutates) note_written(call);
  // Known to the graph when somebody uses it, as a constant.
  if (options_.freeze_random && has(op.traits, Trait::random) && call.given.empty()) return;

  // A copy that `to` or `contiguous` made of fresh memory is as unknown to the graph.
  call.gives_fresh = op.name.starts_with("aten::empty") || op.name.starts_with("aten::new_empty");
  if (has(op.traits, Trait::fresh_view) && op.aliases && !call.given.empty())
    if (const FreshMemory* fresh = fresh_memory(call.given.front().inner)) {
      call.gives_fresh = true;
      call.copies_filled = fresh->filled();
    }

  call.decided_before = call.decided;
  call.as_before = decided && op.base_name().find("unique") != std::string_view::npos;  // where each element went
  if (decided && (decided->by < 0 ? call.depends() : (call.elements >> decided->by & 1) != 0))
    call.decided = detail::ElementSizes::size_of(stack[stack.size() - handle.schema().returns().size()], decided->dim);
  Node* node = tracer_.create_node(CallFunction{&op}, std::span<const Argument>(all.data(), written), kwargs);
  if (call.modules) node->set_module_stack(*call.modules);
  if (options_.places) places_.emplace_back(node, where);
  if (calls_) calls_->call(node, call.detached, op.returns.size() == 1 && op.returns[0].type.list);
  if (calls_ && call.gives_fresh) calls_->refuse();
  int item = op.returns.size() > 1 ? 0 : -1;
  for (std::size_t at = stack.size() - handle.schema().returns().size(); at < stack.size(); ++at) {
    c10::IValue& result = stack[at];
    if (result.isTensor()) {
      if (result.toTensor().defined()) {
        if (result.toTensor().is_nested())
          throw TraceError(ErrorId::unsupported_argument,
                           "trace: '" + std::string(op.name) +
                               "' gives a nested tensor, which graphs do not have; use padded tensors and masks",
                           here());
        if (item < 0) node->set_tensor_meta(tensor_meta_of(detail::bare(result.toTensor())));
        result = traced_result(result.toTensor(), value_of(call, node, item), call);
      }
      if (calls_) note_result(result.toTensor(), call);
    } else if (result.isTensorList()) {
      int k = 0;
      c10::List<at::Tensor> list;
      Node* whole = nullptr;  // the list, which may be one of several results
      for (const at::Tensor& tensor : result.toTensorVector()) {
        if (!whole) whole = item < 0 ? node : tracer_.item(node, item);
        list.push_back(traced_result(tensor, value_of(call, whole, k++), call));
      }
      if (calls_ && op.returns.size() > 1) calls_->refuse();
      if (calls_)
        for (const at::Tensor& tensor : list) note_result(tensor, call);
      result = std::move(list);
    } else {
      if (is_object(result)) objects_.emplace_back(result, item < 0 ? node : tracer_.item(node, item));
      const bool number = result.isScalar() || result.isIntList() || result.isDoubleList() || result.isBoolList();
      if (number && call.depends() && counts_elements(op)) refuse_question(op, node);
      if (calls_) calls_->refuse();
    }
    if (item >= 0) ++item;
  }
  forget_dead();
}

FXX_INLINE void DispatchTracer::Implementation::run(const c10::OperatorHandle& handle, torch::jit::Stack& stack,
                                                    const Call& call) {
  const at::NoGradGuard no_grad;
  // What belongs to a trace around this one is recorded there.
  const bool outer = previous_ && std::any_of(call.given.begin(), call.given.end(),
                                              [](const Given& g) { return detail::traced(g.inner) != nullptr; });
  std::vector<BufferWatch::Buffer*> buffers;
  if (!buffers_.empty())
    for (const Given& given : call.given)
      if (call.op.mutates || !own(given.passed)) buffers_.find(detail::storage_of(given.inner), buffers);
  for (const BufferWatch::Buffer* buffer : buffers)
    if (buffer->was_written()) BufferWatch::refuse(*buffer, here());
  try {
    const detail::AutogradWatch::Pause unwatched(*autograd_);
    if (outer) previous_->record(handle, stack);
    else handle.callBoxed(stack);
  } catch (c10::Error& error) {
    if (outer) throw;
    const ErrorContext place = here();
    error.add_context("While tracing '" + std::string(call.op.name) + "'" +
                      (place.source.empty() ? "" : ", called by " + place.source) +
                      (place.modules.empty() ? "" : ", in " + place.modules));
    throw;
  }
  // Batch norm writes to its statistics without its schema saying so.
  buffers_.recorded(buffers);
}

FXX_INLINE at::Tensor DispatchTracer::Implementation::alias_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  if (!detail::traced(tensor)) return at::_ops::alias::call(tensor);
  torch::jit::Stack stack{tensor};
  previous_->record(c10::Dispatcher::singleton().findSchemaOrThrow("aten::alias", ""), stack);
  return stack[0].toTensor();
}

FXX_INLINE void DispatchTracer::Implementation::track(const at::Tensor& tensor, const Value& value) {
  const at::Tensor& inside = detail::bare(tensor);
  if (!inside.has_storage()) return;
  const c10::StorageImpl* storage = inside.storage().unsafeGetStorageImpl();
  if (attribute_storages_.contains(storage) || storages_.contains(storage)) return;
  const bool input = value.node && value.node->opcode() == Opcode::placeholder;
  storages_.emplace(storage, TrackedMemory{inside.storage().getWeakStorageImpl(), value.depends_on_inputs,
                                           input ? value.node : nullptr});
}

FXX_INLINE void DispatchTracer::Implementation::note_written(const Call& call) {
  if (!call.depends()) return;
  for (const Given& given : call.given) {
    const c10::StorageImpl* storage = given.written ? detail::storage_of(given.inner) : nullptr;
    if (const auto known = storages_.find(storage); known != storages_.end()) known->second.depends_on_inputs = true;
    else if (storage) written_attributes_.insert(storage);
  }
}

FXX_INLINE at::Tensor DispatchTracer::Implementation::traced_result(at::Tensor tensor, const Value& value,
                                                                    const Call& call) {
  for (const Given& given : call.given) {
    if (!given.inner.is_same(tensor)) continue;
    if (!call.op.mutates) {
      // `contiguous()` of a contiguous tensor is the tensor itself. As a value of its own it keeps the two apart.
      tensor = alias_of(tensor);
      break;
    }
    // Written without gradients, its own history stays what it was.
    if (!call.detached) {
      Value now = value;
      now.decided = find(given.passed).decided;  // it is as large as it was
      rebind(given.passed, now);
    }
    return given.passed;
  }
  if (call.gives_fresh && tensor.numel() > 0) note_fresh(tensor, value.node, call.copies_filled);
  return wrap(tensor, value);
}

FXX_INLINE void DispatchTracer::Implementation::note_result(const at::Tensor& result, const Call& call) {
  if (call.op.mutates)
    for (std::size_t i = 0; i < call.given.size(); ++i)
      if (call.given[i].passed.is_same(result)) return calls_->gives_back(i);
  const TracedTensor* t = own(result);
  calls_->gives(t ? t->inner() : result);
}

FXX_INLINE void DispatchTracer::Implementation::note_fresh(const at::Tensor& tensor, Node* node, bool copied) {
  const c10::StorageImpl* storage = detail::storage_of(tensor);
  if (!storage || storages_.contains(storage) || attribute_storages_.contains(storage)) return;
  fresh_.add(storage, node, detail::bare(tensor), copied);
}

FXX_INLINE void DispatchTracer::Implementation::forget_dead() {
  if (storages_.size() < next_sweep_) return;
  fresh_.forget_dead();
  std::erase_if(storages_, [](const auto& entry) { return entry.second.storage.use_count() == 0; });
  next_sweep_ = std::max<std::size_t>(1024, 2 * storages_.size());
}

}  // namespace fxx::inline FXX_ABI
