// Bodies of torch/symbolic_trace.hpp.
#pragma once

#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>

#include "fxx/error.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/torch/symbolic_trace.hpp"
#include "fxx/torch/values.hpp"
#include "fxx/trace/transformer.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The graph of a GraphModule, recorded again by a tracer whose root it is or lies within: what it refers to gets the
/// names that the root has for it.
class Inliner final : public Transformer {
 public:
  Inliner(const GraphModule& module, ModuleTracer& tracer)
      : Transformer(module.graph()), module_(module), tracer_(tracer) {}

  Argument get_attr(const GetAttr& op) override {
    const at::Tensor tensor = module_.owner().tensor(op.target);
    if (tensor.defined()) return tracer_.attribute(&tensor);
    return record(GetAttr{tracer_.path_of_module(*find(op.target))}, {}, {});
  }
  Argument call_module(const CallModule& op, Arguments args, KeywordArguments kwargs) override {
    const std::shared_ptr<torch::nn::Module> module = find(op.target);
    if (!kwargs.span().empty()) return record(CallModule{tracer_.path_of_module(*module)}, args, kwargs);
    ModuleForward forward;
    if (const auto* graph_module = dynamic_cast<const GraphModule*>(module.get()))
      forward = [&tracer = tracer_, graph_module](std::span<const Argument> given) {
        return Inliner(*graph_module, tracer).inline_into(tracer, flatten_inputs(tracer, graph_module->graph(), given));
      };
    return tracer_.record_module(*module, forward, args.span());
  }

 private:
  std::shared_ptr<torch::nn::Module> find(const std::string& name) const {
    if (auto module = module_.owner().module(name)) return module;
    throw TraceError(ErrorId::module_not_in_root,
                     "symbolic_trace: the graph refers to '" + name + "', which " + module_.class_name() +
                         " does not have; add it to the module before the graph is traced again",
                     Tracer::context(&node()));
  }

  const GraphModule& module_;
  ModuleTracer& tracer_;
};

FXX_INLINE const torch::nn::Module& function_root() {
  static const torch::nn::Module root("Function");
  return root;
}

FXX_INLINE std::shared_ptr<GraphModule> graph_module_of(const ModuleTracer& tracer, Graph graph, bool training) {
  if (tracer.owner().may_borrow()) expand_borrowing_modules(graph, tracer.owner());
  return std::make_shared<GraphModule>(tracer.owner(), training, std::move(graph), tracer.constants());
}

FXX_INLINE void KnownCalls::add(const KnownCall& call) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const KnownCall& known) { return known.arguments == call.arguments; };
  if (std::none_of(calls_.begin(), calls_.end(), same)) calls_.push_back(call);
}
FXX_INLINE c10::IValue KnownCalls::run(torch::nn::Module& module, std::vector<c10::IValue>& args) {
  c10::IValue (*call)(torch::nn::Module&, std::vector<c10::IValue>&) = nullptr;
  {
    const std::lock_guard lock(mutex_);
    int least = -1;
    for (const KnownCall& known : calls_) {
      const int conversion = known.conversion(args);
      if (conversion < 0 || (call && conversion >= least)) continue;
      least = conversion;
      call = known.call;
    }
  }
  if (call) return call(module, args);
  std::string values;
  for (const c10::IValue& value : args) values += (values.empty() ? "" : ", ") + describe(value);
  throw RunError(ErrorId::run_failed, "call_module: " + module_type_name(module) + " was never traced with (" + values +
                                          "), so a graph cannot call it so");
}

FXX_INLINE Argument inline_graph_module(const GraphModule& module, Tracer& tracer, std::span<const Argument> inputs) {
  auto* module_tracer = dynamic_cast<ModuleTracer*>(&tracer);
  if (!module_tracer)
    throw TraceError(ErrorId::module_not_in_root,
                     "symbolic_trace: a GraphModule of " + module.class_name() +
                         " is called while a plain callable is traced; trace a module that it is registered in",
                     Tracer::context());
  const ModuleForward forward = [&](std::span<const Argument> given) {
    return Inliner(module, *module_tracer).inline_into(tracer, flatten_inputs(tracer, module.graph(), given));
  };
  return module_tracer->record_module(const_cast<GraphModule&>(module), forward, inputs);
}

}  // namespace detail

// --- hooks -----------------------------------------------------------------------------------------------------------

FXX_INLINE ModuleTracer::ModuleTracer(Graph& graph, const torch::nn::Module& root) : Tracer(graph) { begin(root); }

FXX_INLINE bool ModuleTracer::is_leaf_module(const torch::nn::Module& module, const std::string&) {
  return fxx::is_leaf_module(module);
}

FXX_INLINE std::string ModuleTracer::path_of_module(const torch::nn::Module& module) {
  if (const std::string* name = owner().name_of(&module)) return *name;
  throw TraceError(ErrorId::module_not_in_root,
                   "ModuleTracer::path_of_module: a " + module_type_name(module) +
                       " is called that is not installed as a submodule of " + owner().class_name() +
                       "; register it with register_module",
                   context());
}

FXX_INLINE Argument ModuleTracer::call_module(torch::nn::Module& module, const ModuleForward& forward,
                                              std::span<const Argument> args) {
  const std::string name = path_of_module(module);
  if (!is_leaf_module(module, name) && forward) return forward(args);
  return create_proxy(CallModule{name}, args);
}

FXX_INLINE const std::string& ModuleTracer::type_name_of(const torch::nn::Module& module) {
  if (typeid(module) == typeid(GraphModule)) return static_cast<const GraphModule&>(module).class_name();
  std::string& name = type_names_[typeid(module)];
  if (name.empty()) name = detail::class_name_of(module);
  return name;
}

FXX_INLINE Argument ModuleTracer::record_module(torch::nn::Module& module, const ModuleForward& forward,
                                                std::span<const Argument> args) {
  const std::string name = path_of_module(module);
  Called& called = called_[&module];
  if (!called.type) called.type = &type_name_of(module);
  const ModuleScope scope(name, *called.type, called.calls++);
  return call_module(module, forward, args);
}

FXX_INLINE std::string ModuleTracer::get_fresh_qualname(std::string_view prefix) {
  // A name that was given is given again, until something has it.
  std::size_t& first = next_names_[std::string(prefix)];
  for (std::size_t next = first;; first = next)
    if (std::string name = owner().fresh_name(prefix, next); !constants_.contains(name)) return name;
}

FXX_INLINE Node* ModuleTracer::attribute(const void* pointer) {
  const at::Tensor& tensor = *static_cast<const at::Tensor*>(pointer);
  if (!tensor.defined())
    throw TraceError(ErrorId::unsupported_argument,
                     "ModuleTracer::attribute: an undefined tensor is passed to an operator; leave the argument out",
                     context());
  Node*& node = attributes_[tensor.unsafeGetTensorImpl()];
  if (node && !node->is_erased()) return node;
  std::string name = owner().name_of(tensor);
  if (name.empty()) {
    if (tensor.requires_grad() && !tensor.is_leaf())
      throw TraceError(ErrorId::constant_is_intermediate,
                       "ModuleTracer::attribute: C++ computed a tensor from parameters alone, so the graph would keep "
                       "its present values and pass no gradients on. Compute it from a value of the trace, "
                       "T(weight) * 2 with T the type of the input, or detach() it",
                       context());
    name = get_fresh_qualname(detail::constant_prefix);
    constants_.emplace(name, tensor);
  }
  node = create_proxy(GetAttr{name}, {});
  if (node->opcode() == Opcode::get_attr) node->set_tensor_meta(tensor_meta_of(tensor));
  return node;
}

namespace detail {
/// Does it change the sizes, the memory or the history of its tensor, and no elements? LibTorch's inplace_view.
FXX_INLINE bool changes_handle(const Op& op) {
  static constexpr std::string_view names[] = {"as_strided_", "detach_",    "resize_",   "resize_as_",
                                               "set_",        "squeeze_",   "swapaxes_", "swapdims_",
                                               "t_",          "transpose_", "unsqueeze_"};
  std::string_view name;
  if (const auto* method = std::get_if<CallMethod>(&op)) {
    name = method->target;
  } else if (const auto* call = std::get_if<CallFunction>(&op)) {
    if (const auto* called = std::get_if<const Operator*>(&call->target)) name = (*called)->base_name();
  }
  return name.ends_with('_') && std::find(std::begin(names), std::end(names), name) != std::end(names);
}
}  // namespace detail

FXX_INLINE Node* ModuleTracer::create_proxy(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                                            std::source_location where) {
  const bool plain = c10::GradMode::is_enabled() == gradients_ || ignore_gradient_mode;
  if (plain && detached_.empty()) [[likely]]
    return Tracer::create_proxy(std::move(op), args, kwargs, name, where);
  // Those have to be done to the tensor itself, and what was detached from it before does not follow.
  const bool of_handle = (plain || gradients_) && detail::changes_handle(op);
  if (of_handle) std::erase_if(detached_, [](const auto& known) { return known.first != known.second; });
  if (plain || of_handle) return Tracer::create_proxy(std::move(op), args, kwargs, name, where);
  return create_detached(std::move(op), args, kwargs, name, where);
}

FXX_INLINE bool ModuleTracer::is_tensor(const Node& node) const {
  const auto of_module = [&](const std::string& name) {
    const ModuleInfo* info = owner().find_module(name);
    return info && info->result == "torch::Tensor";
  };
  if (const auto* call = std::get_if<CallModule>(&node.op())) return of_module(call->target);
  if (const auto* attribute = std::get_if<GetAttr>(&node.op())) return owner().module(attribute->target) == nullptr;
  if (node.opcode() == Opcode::placeholder || !node.operation()) return node.type() == "torch::Tensor";
  const Operator& op = *node.operation();
  if (op.name == "operator::getitem" && node.arg(0).is_node()) {
    const Node& container = *node.arg(0).node();
    const Operator* maker = container.operation();
    return is_tensor(container) ||
           (maker && !maker->returns.empty() && maker->returns[0].type.base == ValueType::tensor);
  }
  return op.returns.size() == 1 && op.returns[0].type.base == ValueType::tensor && !op.returns[0].type.list;
}

FXX_INLINE Node* ModuleTracer::detached(Node* node) {
  if (!is_tensor(*node)) return node;
  if (const auto known = detached_.find(node); known != detached_.end() && !known->second->is_erased())
    return known->second;
  Node* made = Tracer::create_proxy(CallFunction{&table_operator(OperatorIndex::detach)}, {node});
  return detached_[node] = detached_[made] = made;
}

FXX_INLINE Node* ModuleTracer::create_detached(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                                               std::source_location where) {
  const auto refuse = [&](const std::string& what) {
    throw TraceError(
        ErrorId::gradients_switched,
        "ModuleTracer::create_proxy: the traced code switched gradients " + std::string(gradients_ ? "off" : "on") +
            ", and calls '" + target_text(op) + "', " + what +
            ". Put the guard around the call of the whole module, or set ignore_gradient_mode of the tracer",
        context());
  };
  if (!gradients_) refuse("but gradients were off when the trace started; a graph cannot switch them on");
  std::vector<Argument> detached_args;
  std::vector<KeywordArgument> detached_kwargs;
  const auto without = [&](Node* node) { return Argument(detached(node)); };
  for (const Argument& a : args.span()) detached_args.push_back(map_nodes(a, without));
  for (const KeywordArgument& k : kwargs.span()) detached_kwargs.push_back({k.key, map_nodes(k.value, without)});
  // Parameters of a leaf module cannot be detached, but its result can.
  const auto* call = std::get_if<CallModule>(&op);
  const auto module = call ? owner().module(call->target) : nullptr;
  const bool has_parameters = module && !module->parameters().empty();
  Node* node = nullptr;
  if (has_parameters) {
    const ModuleInfo* info = owner().find_module(call->target);
    if (!info || info->result != "torch::Tensor") refuse("a module with parameters and several results");
  }
  const bool reads = std::holds_alternative<GetAttr>(op);
  node = Tracer::create_proxy(std::move(op), detached_args, detached_kwargs, name, where);
  if (has_parameters) return detached(node);
  // An item of what was there before the guard has its gradients; everything computed here has none.
  const bool item = node->operation() && node->operation()->name == "operator::getitem" && node->arg(0).is_node() &&
                    !is_tensor(*node->arg(0).node()) && !detached_.contains(node->arg(0).node());
  if (!reads && !item) detached_[node] = node;
  return node;
}

FXX_INLINE detail::Shared<const TracerFactory> ModuleTracer::factory() const {
  if (typeid(*this) != typeid(ModuleTracer)) return {};
  return remember(*this);
}

// --- tracing ---------------------------------------------------------------------------------------------------------

FXX_INLINE const ModuleOwner& ModuleTracer::owner() const {
  if (!owner_)
    throw TraceError(ErrorId::no_tracer, "ModuleTracer::owner: nothing was traced yet; trace() sets the root",
                     context());
  return *owner_;
}

FXX_INLINE void ModuleTracer::begin(const torch::nn::Module& root) {
  owner_.emplace(root, detail::class_name_of(root));
  gradients_ = c10::GradMode::is_enabled();
  attributes_.clear();
  detached_.clear();
  constants_.clear();
  called_.clear();
  next_names_.clear();
}

FXX_INLINE Graph ModuleTracer::trace_graph_module(GraphModule& module, std::vector<InputLeaf> leaves,
                                                  Signature signature) {
  const Graph& old = module.graph();
  Graph graph;
  Session session(*this, graph);
  const std::vector<Node*> placeholders = old.find_nodes(Opcode::placeholder);
  const bool as_it_was = signature.inputs.empty();
  if (as_it_was && old.signature()) signature = *old.signature();
  if (!as_it_was && leaves.size() > placeholders.size())
    throw TraceError(ErrorId::unsupported_argument,
                     "symbolic_trace: concrete_args describes " + std::to_string(leaves.size()) +
                         " inputs; the graph takes " + std::to_string(placeholders.size()),
                     context());
  for (std::size_t i = leaves.size(); i < placeholders.size(); ++i) {
    const Node& node = *placeholders[i];
    InputLeaf leaf{.name = node.target(), .type = std::string(node.type())};
    if (!node.args().empty()) leaf.default_value = node.arg(0);
    if (node.has_meta()) leaf.meta = node.meta().custom;
    leaves.push_back(std::move(leaf));
    if (!as_it_was) signature.inputs.push_back({node.target(), {}});
  }
  std::vector<Node*> nodes;
  if (as_it_was) {
    // Leaves of a signature are found by name, whatever became of the placeholders since.
    Signature flat;
    for (const InputLeaf& leaf : leaves) flat.inputs.push_back({leaf.name, {}});
    nodes = detail::make_inputs(*this, leaves, flat);
    for (Signature::Input& input : signature.inputs)
      input.structure.for_each_leaf([&](Structure& leaf) {
        for (std::size_t i = 0; i < nodes.size(); ++i)
          if (placeholders[i]->target() == leaf.placeholder) return void(leaf.placeholder = nodes[i]->target());
      });
  } else {
    nodes = detail::make_inputs(*this, leaves, signature);
  }
  std::vector<Argument> inputs;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (placeholders[i]->tensor_meta()) nodes[i]->set_tensor_meta(*placeholders[i]->tensor_meta());
    inputs.push_back(leaves[i].bound && leaves[i].checked ? leaves[i].constant : Argument(nodes[i]));
  }
  const Argument result = detail::Inliner(module, *this).inline_into(*this, inputs);
  detail::make_output(*this, result, std::string(old.output_node()->type()));
  session.finish();
  detail::keep_signature(graph, std::move(signature));
  graph.set_tracer(factory());
  return graph;
}

}  // namespace fxx::inline FXX_ABI
