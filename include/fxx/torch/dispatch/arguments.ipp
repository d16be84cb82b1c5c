// Which value a tensor among the arguments is: a node, an attribute of the module, a constant.
#pragma once

#include <cmath>

#include "fxx/torch/dispatch/implementation.ipp"

namespace fxx::inline FXX_ABI {

FXX_INLINE Argument DispatchTracer::Implementation::argument_for(const c10::IValue& value) {
  if (value.isTensor()) return argument(value.toTensor());
  if (value.isTuple()) {
    std::vector<Argument> items;
    for (const c10::IValue& v : value.toTupleRef().elements()) items.push_back(argument_for(v));
    return collapse(value, Argument::tuple(std::move(items)));
  }
  if (value.isGenericDict()) {
    std::vector<DictEntry> entries;
    for (const auto& entry : value.toGenericDict())
      entries.push_back({to_argument(entry.key(), Type{}), argument_for(entry.value())});
    return Argument::dict(std::move(entries));
  }
  if (value.isList()) {
    std::vector<Argument> items;
    for (const c10::IValue& v : value.toListRef()) items.push_back(argument_for(v));
    return Argument::list(std::move(items));
  }
  if (is_object(value))
    if (Node* known = find_object(value)) return known;
  if (value.isCapsule() || value.isObject() || value.isPyObject())
    throw TraceError(ErrorId::unsupported_output,
                     "trace: the code returns an object of a class that graphs do not know. Describe its members with "
                     "BOOST_HANA_DEFINE_STRUCT or BOOST_HANA_ADAPT_STRUCT (fxx/trace/hana.hpp), or return tensors, "
                     "tuples, vectors or maps of them",
                     {{}, {}, traced_modules()});
  return to_argument(value, Type{});
}

FXX_INLINE Node* DispatchTracer::Implementation::find_object(const c10::IValue& object) const {
  const auto found = std::find_if(objects_.begin(), objects_.end(), [&](const auto& o) { return o.first.is(object); });
  return found == objects_.end() ? nullptr : found->second;
}

FXX_INLINE Argument DispatchTracer::Implementation::argument(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return node_of(read(tensor));
}

FXX_INLINE DispatchTracer::Implementation::Value DispatchTracer::Implementation::find(const at::Tensor& tensor,
                                                                                      bool detaches) {
  if (const TracedTensor* t = own(tensor)) return t->value;
  if (const auto known = plain_.find(tensor.unsafeGetTensorImpl()); known != plain_.end()) return known->second.value;
  refuse_transformed(tensor);
  const auto found = [&](Value value) {
    plain_.insert_or_assign(tensor.unsafeGetTensorImpl(), Plain{value, tensor});
    if (calls_) calls_->meet(tensor, value.node);
    track(tensor, value);
    return value;
  };
  const std::string name = owner_.name_of(tensor);
  if (!name.empty()) {
    Value value{get_attr(name, tensor), -1, true, !tensor.requires_grad()};
    const std::size_t dot = name.rfind('.');
    if (dot != name.npos) value.modules = &modules_of(name.substr(0, dot));
    return found(value);
  }
  const c10::StorageImpl* storage = detail::storage_of(tensor);
  if (const auto parameter = attribute_storages_.find(storage); storage && parameter != attribute_storages_.end()) {
    // Parameter::data() and the like: the same memory under a new handle.
    const at::Tensor& original = parameter->second->tensor;
    if (original.sizes() == tensor.sizes() && original.strides() == tensor.strides() &&
        original.storage_offset() == tensor.storage_offset())
      return found({detach(get_attr(parameter->second->name, tensor)), -1, true, true});
  }
  // Memory that the inputs do not reach may be a constant: torch::tensor({1, 2}) fills an empty tensor behind the
  // dispatcher.
  if (const auto memory = storages_.find(storage);
      storage && memory != storages_.end() && memory->second.depends_on_inputs) {
    if (!memory->second.input) refuse_alias();
    const std::string input = memory->second.input->target();
    throw TraceError(ErrorId::untraced_alias,
                     "trace: a tensor that the code captured, or got without the dispatcher (.data(), another thread), "
                     "shares its memory with input '" + input +
                         "', so the graph cannot tell what it holds. Give clone() of one of the two, or use the input "
                         "itself",
                     here());
  }
  if (tensor.requires_grad() && !tensor.is_leaf() && !detaches)
    throw TraceError(
        ErrorId::constant_is_intermediate,
        "trace: a tensor is used that was computed from parameters before the trace, or on another thread, "
        "so the graph would keep its present values and pass no gradients on. Compute it in forward, on "
        "the thread that traces, or pass it as an input",
        here());
  return found({get_attr(constants_.add(inner_of(tensor), false), tensor), -1, false});
}

FXX_INLINE bool DispatchTracer::Implementation::overwrites(const Call& call, const Parameter& parameter,
                                                           const at::Tensor& tensor) {
  static const std::unordered_set<std::string_view> names = {
      "fill_",   "zero_",        "copy_",      "uniform_", "normal_",    "bernoulli_",
      "random_", "exponential_", "geometric_", "cauchy_",  "log_normal_"};
  if (parameter.name != "out" && !names.contains(call.op.base_name())) return false;
  // What it writes may be made of them: c.fill_(c[0]).
  const auto shares = [storage = detail::storage_of(tensor)](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && detail::storage_of(value.toTensor()) == storage;
  };
  return std::count_if(call.values.begin(), call.values.end(), shares) == 1;
}

FXX_INLINE bool DispatchTracer::Implementation::freeze(FreshMemory& fresh, const at::Tensor& tensor) {
  if (fresh.is_frozen()) return fresh.is_as_frozen();
  const std::string name = constants_.add(fresh.tensor, true);
  fresh.freeze();
  TracedTensor* traced = own(tensor);
  if (traced && traced->value.node == fresh.node && fresh.node->num_users() == 0) {
    traced->value = {fresh.node = get_attr(name, fresh.tensor), -1, false};
  } else {
    fresh.node->set_op(GetAttr{name});
    fresh.node->set_args_kwargs({}, {});
  }
  return true;
}

FXX_INLINE DispatchTracer::Implementation::Value DispatchTracer::Implementation::read(const at::Tensor& tensor,
                                                                                      bool detaches) {
  FreshMemory* fresh = fresh_memory(tensor);
  // C++ may fill the same memory again and again, and does so under handles that the trace has not seen.
  if (fresh && (fresh->is_frozen() || fresh->filled()) && !(own(tensor) && freeze(*fresh, tensor)))
    return {get_attr(constants_.add(tensor, true), tensor), -1, false};
  return find(tensor, detaches);
}

FXX_INLINE void DispatchTracer::Implementation::written(const at::Tensor& tensor, const Parameter& parameter,
                                                        const Call& call) {
  if (FreshMemory* fresh = fresh_memory(tensor)) {
    const bool whole = detail::bare(tensor).numel() == fresh->tensor.numel() && overwrites(call, parameter, tensor);
    if (!whole && fresh->filled() && !freeze(*fresh, tensor))
      throw TraceError(ErrorId::traced_data_access,
                       "trace: an operator writes to memory that C++ code (data_ptr, accessor) filled a second time "
                       "after operators had read it; the graph has no word for that. Make a tensor for each filling",
                       here());
    fresh_.erase(detail::storage_of(tensor));
    state_->close(detail::bare(tensor).storage());
  }
  // Constants that are views of a buffer follow it, in the graph as in the code.
  const c10::StorageImpl* storage = detail::storage_of(tensor);
  if (!attribute_storages_.contains(storage)) constants_.keep_those_in(storage);
}

FXX_INLINE const ModuleStack& DispatchTracer::Implementation::modules_of(const std::string& name) {
  const auto known = module_stacks_.find(name);
  if (known != module_stacks_.end()) return known->second;
  const std::size_t dot = name.rfind('.');
  const ModuleStack outer = dot == name.npos ? ModuleStack() : modules_of(name.substr(0, dot));
  const std::shared_ptr<torch::nn::Module> module = owner_.module(name);
  return module_stacks_.emplace(name, ModuleStack(outer, {name, module ? module_type_name(*module) : ""}))
      .first->second;
}

FXX_INLINE Node* DispatchTracer::Implementation::get_attr(const std::string& name, const at::Tensor& tensor) {
  Node* node = tracer_.create_node(GetAttr{name}, {});
  node->set_tensor_meta(tensor_meta_of(detail::bare(tensor)));
  return node;
}

FXX_INLINE Node* DispatchTracer::Implementation::detach(Node* node) {
  Node*& known = detached_[node];
  if (!known) {
    known = tracer_.create_node(CallFunction{&table_operator(OperatorIndex::detach)}, {node});
    if (node->tensor_meta()) known->set_tensor_meta(*node->tensor_meta());
  }
  return known;
}

FXX_INLINE Argument DispatchTracer::Implementation::argument(const c10::IValue& value, const Parameter& parameter,
                                                             Call& call) {
  const auto tensor = [&](const at::Tensor& t) -> Argument {
    if (!t.defined()) return {};
    if (parameter.written) written(t, parameter, call);
    // C++ may read it behind the dispatcher, which a replay does not write for.
    if (calls_ && parameter.written && !own(t) && !owner_.name_of(t).ends_with(detail::batch_count)) calls_->refuse();
    const bool detaches = call.op.base_name() == "detach";
    // A view leaves it open who fills the memory, and what is written to was looked at.
    const bool unread = parameter.written || (parameter.alias != 0 && !call.op.mutates);
    Value v = unread ? find(t, detaches) : read(t, detaches);
    // A view of a parameter or buffer that was made before the trace: the graph has no name for it.
    if (parameter.written && !v.depends_on_inputs && !own(t) && attribute_storages_.contains(detail::storage_of(t)))
      refuse_alias();
    if (!v.depends_on_inputs) v.depends_on_inputs = holds_inputs(t);
    call.given.push_back({inner_of(t), t, parameter.written});
    if (v.depends_on_inputs) {
      if (call.at < 32) call.elements |= 1u << call.at;
      if (call.item >= 0 && call.item < 64 && element_reads_.each_by_itself(call.op)) call.items |= 1ull << call.item;
      else call.depending |= element_reads_.results_that_read(call.op, call.at, v.decided >= 0);
    }
    if (v.decided >= 0) call.decided = v.decided;
    if (v.modules) call.modules = last_modules_ = v.modules;
    Node* node = node_of(v);
    return call.detached && v.depends_on_inputs && !v.without_gradient ? detach(node) : node;
  };
  if (value.isTensor()) return tensor(value.toTensor());
  if (parameter.type.base == ValueType::tensor && value.isList()) {
    std::vector<Argument> items;
    for (const c10::IValue& v : value.toListRef()) {
      ++call.item;
      items.push_back(v.isNone() ? Argument() : tensor(v.toTensor()));
    }
    call.item = -1;
    return Argument::list(std::move(items));
  }
  if (is_object(value)) {
    if (calls_) calls_->refuse();
    if (Node* known = find_object(value)) return known;
    Node* node = tracer_.create_node(GetAttr{constants_.add_object(value)}, {});
    objects_.emplace_back(value, node);
    return node;
  }
  if (value.isGenerator()) {
    const at::Generator& generator = value.toGenerator();
    if (generator.defined() && generator != at::globalContext().defaultGenerator(generator.device()))
      throw TraceError(ErrorId::unsupported_argument,
                       "trace: '" + std::string(call.op.name) +
                           "' draws random numbers from a generator of its own, which a graph has no name for; "
                           "seed the default generator",
                       here());
    return {};
  }
  return to_argument(value, parameter.type);
}

FXX_INLINE bool DispatchTracer::Implementation::takes_constants_alone(const torch::jit::Stack& stack,
                                                                      std::size_t count) const {
  const auto is_constant = [&](const c10::IValue& value) {
    return !value.isTensor() || !value.toTensor().defined() ||
           (!detail::traced(value.toTensor()) && owner_.name_of(value.toTensor()).empty());
  };
  return std::all_of(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end(), [&](const c10::IValue& value) {
    if (!value.isTensorList()) return is_constant(value);
    const c10::ArrayRef<c10::IValue> items = value.toListRef();
    return std::all_of(items.begin(), items.end(), is_constant);
  });
}

FXX_INLINE bool DispatchTracer::Implementation::is_default(const c10::IValue& value, const c10::OperatorHandle& handle,
                                                           std::size_t i) {
  const auto& standard = handle.schema().arguments()[i].default_value();
  if (!standard || value.isTensor() || standard->isTensor() || value.isList() ||
      value.tagKind() != standard->tagKind() || value != *standard)
    return false;
  return !value.isDouble() || std::signbit(value.toDouble()) == std::signbit(standard->toDouble());
}

}  // namespace fxx::inline FXX_ABI
