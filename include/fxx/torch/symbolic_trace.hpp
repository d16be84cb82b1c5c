// Symbolic tracing of LibTorch modules: a templated forward run once with proxies, without any input.
//
// Parameters and buffers become get_attr nodes by identity, drop-in leaf modules (torch/nn.hpp) call_module nodes; all
// other submodules are traced through. Sizes stay symbolic.
// Main names: symbolic_trace, ModuleTracer. Cost: heavy (torch/nn/module.h); under a microsecond a node. After torch.fx
// _symbolic_trace.py, 2.13.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fxx/torch/graph_module.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI {

/// A tracer with a module. Derive from it to change what tracing does; names are torch.fx's.
class ModuleTracer : public Tracer {
 public:
  /// Both outlive the tracer.
  ModuleTracer(Graph& graph, const torch::nn::Module& root) : Tracer(graph), owner_(root) {}

  /// Is the module one call_module node? By default every module of torch.nn but containers is. One whose forward takes
  /// tensors only is one whatever the answer: there is no way through it.
  virtual bool is_leaf_module(const torch::nn::Module& module, const std::string& qualified_name);
  /// The module's name under the root. Throws TraceError (E303) when it is not registered there.
  virtual std::string path_of_module(const torch::nn::Module& module);
  /// The call_module node of a leaf.
  virtual Node* call_module(const std::string& qualified_name, std::span<const Operand* const> operands);

  /// One get_attr node for each tensor and trace; a tensor that the root does not own is kept as `_tensor_constant<i>`.
  Node* attribute(const void* tensor) override;

  const ModuleOwner& owner() const { return owner_; }
  const std::map<std::string, GraphModule::Attribute>& constants() const { return constants_; }

 private:
  ModuleOwner owner_;
  std::unordered_map<const c10::TensorImpl*, Node*> attributes_;
  std::map<std::string, GraphModule::Attribute> constants_;
};

namespace detail {
template <class M>
auto forward_of(M& module) {
  return [&module](auto&&... inputs) -> decltype(module.forward(inputs...)) { return module.forward(inputs...); };
}
}  // namespace detail

/// Is forward a template that proxies can be given to?
template <class M>
concept Traceable = detail::proxy_arity<decltype(detail::forward_of(std::declval<M&>()))>() >= 0;

/// Traces with a tracer of the caller's own, derived from ModuleTracer: `symbolic_trace_with<MyTracer>(net)`.
template <class TracerType, class M>
std::shared_ptr<GraphModule> symbolic_trace_with(M&& module_or_holder, std::vector<std::string> input_names = {}) {
  auto& module = detail::unwrap_module(module_or_holder);
  constexpr bool traceable = Traceable<std::remove_reference_t<decltype(module)>>;
  static_assert(
      traceable,
      "fxx::symbolic_trace: forward cannot be called with proxies for all of its parameters; write it as a "
      "template, template <class T> T forward(T x), or use fxx::trace(module, inputs), which takes it as it is");
  if constexpr (traceable) {
    constexpr int arity = detail::proxy_arity<decltype(detail::forward_of(module))>();
    Graph graph;
    TracerType tracer(graph, module);
    trace_into(tracer, detail::forward_of(module), detail::input_names(input_names, arity),
               std::make_index_sequence<arity>());
    for (Node* node : graph.nodes())
      if (node->opcode() == Opcode::placeholder && node->type().empty()) node->set_type("torch::Tensor");
    return std::make_shared<GraphModule>(tracer.owner(), module.is_training(), std::move(graph), tracer.constants());
  } else {
    return nullptr;
  }
}

/// The module as a graph: `auto gm = fxx::symbolic_trace(net);`. Throws TraceError where forward branches on traced
/// values.
template <class M>
  requires std::derived_from<std::remove_reference_t<decltype(detail::unwrap_module(std::declval<M&>()))>,
                             torch::nn::Module>
std::shared_ptr<GraphModule> symbolic_trace(M&& module, std::vector<std::string> input_names = {}) {
  return symbolic_trace_with<ModuleTracer>(detail::unwrap_module(module), std::move(input_names));
}

/// A callable as a graph; tensors that it captured become constants: `fxx::symbolic_trace([](auto x) { return relu(x);
/// })`.
template <class F>
  requires(!std::derived_from<std::remove_reference_t<decltype(detail::unwrap_module(std::declval<F&>()))>,
                              torch::nn::Module>)
std::shared_ptr<GraphModule> symbolic_trace(F&& function, std::vector<std::string> input_names = {}) {
  constexpr int arity = detail::proxy_arity<F&>();
  static_assert(arity >= 0,
                "fxx::symbolic_trace: the function cannot be called with proxies; take its tensors as `auto`, as a "
                "template parameter, or as fxx::Proxy");
  const torch::nn::Module root("Function");
  Graph graph;
  ModuleTracer tracer(graph, root);
  if constexpr (arity >= 0)
    trace_into(tracer, function, detail::input_names(input_names, arity), std::make_index_sequence<arity>());
  return std::make_shared<GraphModule>(root, std::move(graph), "Function", tracer.constants());
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/symbolic_trace.ipp"
#endif
