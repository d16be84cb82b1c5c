// Symbolic tracing of LibTorch modules: a templated forward run once with proxies, without any input.
//
// Parameters and buffers become get_attr nodes by identity, drop-in leaf modules (torch/nn.hpp) call_module nodes; all
// other submodules are traced through. Sizes stay symbolic.
// Main names: symbolic_trace, ModuleTracer, LeafTypes. Cost: heavy (torch/nn/module.h); under a microsecond a node.
// After torch.fx _symbolic_trace.py, 2.13.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "fxx/torch/graph_module.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
template <class M>
auto forward_of(M& module) {
  return [&module](auto&&... inputs) -> decltype(module.forward(inputs...)) { return module.forward(inputs...); };
}
template <class M>
using unwrapped_t = std::remove_reference_t<decltype(unwrap_module(std::declval<M&>()))>;
template <class M>
concept ModuleLike = std::derived_from<std::remove_cv_t<unwrapped_t<std::remove_reference_t<M>>>, torch::nn::Module>;
}  // namespace detail

/// Is forward a template that proxies can be given to?
template <class M>
concept Traceable = detail::proxy_arity<decltype(detail::forward_of(std::declval<M&>()))>() >= 0;

/// Runs the forward of a module on arguments of a graph; empty for one whose forward takes tensors only.
using ModuleForward = std::function<Argument(std::span<const Argument>)>;

/// A tracer with a module. Derive from it to change what tracing does; names are torch.fx's.
class ModuleTracer : public Tracer {
 public:
  /// Traces modules: trace().
  ModuleTracer() = default;
  /// Appends to a graph of `root`. Both outlive the tracer.
  ModuleTracer(Graph& graph, const torch::nn::Module& root);
  /// Settings are copied, what was traced is not.
  ModuleTracer(const ModuleTracer& other) : Tracer(other), ignore_gradient_mode(other.ignore_gradient_mode) {}
  ModuleTracer& operator=(const ModuleTracer& other) = delete;

  /// Under a torch::NoGradGuard in forward, operators work on detached values, which is how a graph says the same. With
  /// this, what is recorded is as if the guard were not there: for graphs whose gradients do not matter.
  bool ignore_gradient_mode = false;

  /// The graph of a module's forward, or of a callable. A GraphModule is traced by running its graph with proxies.
  /// owner() and constants() then are what the graph refers to; GraphModule takes both:
  ///   Graph graph = tracer.trace(net);
  ///   auto gm = std::make_shared<GraphModule>(tracer.owner(), net.is_training(), std::move(graph), tracer.constants());
  template <class M>
  Graph trace(M&& module_or_callable, std::vector<std::string> names = {});
  template <class M, class... V>
  Graph trace(M&& module_or_callable, const ConcreteArgs<V...>& inputs);

  // --- hooks ---------------------------------------------------------------------------------------------------------
  /// Is the module one call_module node? By default every module of torch.nn but containers is. One whose forward takes
  /// tensors only is one whatever the answer: there is no way through it.
  virtual bool is_leaf_module(const torch::nn::Module& module, const std::string& qualified_name);
  /// The module's name under the root. Throws TraceError (E303) when it is not registered there.
  virtual std::string path_of_module(const torch::nn::Module& module);
  /// A submodule is called with these arguments. Gives the value of the call: a node, or containers of nodes. By
  /// default a call_module node for a leaf, and what `forward(args)` returns, which traces through it, for others.
  /// Within it the module is on traced_modules().
  virtual Argument call_module(torch::nn::Module& module, const ModuleForward& forward, std::span<const Argument> args);
  /// A name that the root, and what tracing added to it, does not have: `prefix`0, `prefix`1, ...
  virtual std::string get_fresh_qualname(std::string_view prefix);
  /// One get_attr node for each tensor and trace; a tensor that the root does not own is kept as `_tensor_constant<i>`.
  /// Throws TraceError (E324) for one that was computed from parameters.
  Node* attribute(const void* tensor) override;
  /// Where forward switched gradients off, arguments are detached. Throws TraceError (E316) where that cannot be said:
  /// a leaf module with several results, gradients switched on.
  Node* create_proxy(Op op, Arguments args, KeywordArguments kwargs = {}, std::string_view name = {},
                     std::source_location where = {}) override;
  detail::Shared<const TracerFactory> factory() const override;
  bool annotates_types() const override { return true; }

  // --- recording -----------------------------------------------------------------------------------------------------
  /// A call of a submodule, by the hook and within its scope.
  Argument record_module(torch::nn::Module& module, const ModuleForward& forward, std::span<const Argument> args);

  /// What is, or was last, traced.
  const ModuleOwner& owner() const;
  /// Tensors that the graph refers to and the root does not have.
  const std::map<std::string, GraphModule::Attribute>& constants() const { return constants_; }

 protected:
  std::string root_name() const override { return owner_ ? owner_->class_name() : std::string(); }

 private:
  void begin(const torch::nn::Module& root);
  const std::string& type_name_of(const torch::nn::Module& module);
  Node* create_detached(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                        std::source_location where);
  bool is_tensor(const Node& node) const;
  Node* detached(Node* node);
  Graph trace_graph_module(GraphModule& module, std::vector<InputLeaf> leaves, Signature signature);

  std::optional<ModuleOwner> owner_;
  bool gradients_ = true;                      // when the trace started
  std::unordered_map<Node*, Node*> detached_;  // what a guard made of a node; of its own results, themselves
  std::unordered_map<const c10::TensorImpl*, Node*> attributes_;
  std::map<std::string, GraphModule::Attribute> constants_;
  struct Called {
    const std::string* type = nullptr;
    std::uint32_t calls = 0;  // in this trace, so far
  };
  std::unordered_map<const torch::nn::Module*, Called> called_;
  std::map<std::string, std::size_t> next_names_;  // the numbers that get_fresh_qualname() tries first
  std::unordered_map<std::type_index, std::string> type_names_;
};

/// A tracer for which modules of these types (holders, or what they hold) are leaves beside those of torch.nn:
/// `symbolic_trace_with<LeafTypes<Block, Attention>>(net)`. What they derive from does not count.
template <class... Modules>
class LeafTypes : public ModuleTracer {
 public:
  using ModuleTracer::ModuleTracer;
  bool is_leaf_module(const torch::nn::Module& module, const std::string& qualified_name) override {
    return ((typeid(module) == typeid(detail::unwrapped_t<Modules>)) || ...) ||
           ModuleTracer::is_leaf_module(module, qualified_name);
  }
  detail::Shared<const TracerFactory> factory() const override { return remember(*this); }
};

namespace detail {

/// A root for callables, and what was traced, as a module.
const torch::nn::Module& function_root();
std::shared_ptr<GraphModule> graph_module_of(const ModuleTracer& tracer, Graph graph, bool training);

/// Gives the argument of a proxy back as one, all else as it was.
template <class A>
decltype(auto) rebuilt_input(Tracer& tracer, const A& original, const Argument& argument) {
  if constexpr (std::derived_from<A, ProxyBase>) return from_argument<A>(tracer, argument);
  else return (original);
}

}  // namespace detail

template <class M, class... V>
Graph ModuleTracer::trace(M&& module_or_callable, const ConcreteArgs<V...>& inputs) {
  if constexpr (detail::ModuleLike<M>) {
    auto& module = detail::unwrap_module(module_or_callable);
    using Module = std::remove_cvref_t<decltype(module)>;
    begin(module);
    if constexpr (std::derived_from<Module, GraphModule>) {
      detail::InputReader reader;
      Signature signature;
      std::vector<std::string> names = inputs.names;
      if (names.size() < sizeof...(V)) names.resize(sizeof...(V));
      names = detail::input_names(names, names.size());
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (signature.inputs.push_back({names[I], reader.read(std::get<I>(inputs.values), names[I])}), ...);
      }(std::index_sequence_for<V...>());
      for (std::size_t i = sizeof...(V); i < names.size(); ++i)
        signature.inputs.push_back({names[i], reader.read(PH, names[i])});
      return trace_graph_module(module, std::move(reader.leaves), std::move(signature));
    } else {
      constexpr bool traceable = sizeof...(V) > 0 || Traceable<Module>;
      static_assert(
          traceable,
          "fxx::symbolic_trace: forward cannot be called with proxies for all of its parameters; write it as a "
          "template, template <class T> T forward(T x), describe inputs that are no tensors with concrete_args, or use "
          "fxx::trace(module, inputs), which takes it as it is");
      if constexpr (traceable) return Tracer::trace(detail::forward_of(module), detail::in_order<Module>(inputs));
      else return {};
    }
  } else {
    begin(detail::function_root());
    return Tracer::trace(module_or_callable, inputs);
  }
}
template <class M>
Graph ModuleTracer::trace(M&& module_or_callable, std::vector<std::string> names) {
  ConcreteArgs<> inputs;
  inputs.names = std::move(names);
  return trace(module_or_callable, inputs);
}

/// Traces with a tracer of the caller's own, derived from ModuleTracer; the graph remembers a copy of it.
template <std::derived_from<ModuleTracer> TracerType, class M, class... V>
std::shared_ptr<GraphModule> symbolic_trace(M&& module_or_callable, TracerType& tracer,
                                            const ConcreteArgs<V...>& inputs) {
  Graph graph = tracer.trace(module_or_callable, inputs);
  if constexpr (std::copy_constructible<TracerType>) graph.set_tracer(remember(tracer));
  bool training = true;
  if constexpr (detail::ModuleLike<M>) training = detail::unwrap_module(module_or_callable).is_training();
  return detail::graph_module_of(tracer, std::move(graph), training);
}
template <std::derived_from<ModuleTracer> TracerType, class M>
std::shared_ptr<GraphModule> symbolic_trace(M&& module_or_callable, TracerType& tracer,
                                            std::vector<std::string> input_names = {}) {
  ConcreteArgs<> inputs;
  inputs.names = std::move(input_names);
  return symbolic_trace(module_or_callable, tracer, inputs);
}
/// Likewise by its type alone: `symbolic_trace_with<MyTracer>(net)`.
template <std::derived_from<ModuleTracer> TracerType, class M>
std::shared_ptr<GraphModule> symbolic_trace_with(M&& module_or_callable, std::vector<std::string> input_names = {}) {
  TracerType tracer;
  return symbolic_trace(module_or_callable, tracer, std::move(input_names));
}

/// The module as a graph: `auto gm = fxx::symbolic_trace(net);`. Or a callable; tensors that it captured become
/// constants: `fxx::symbolic_trace([](auto x) { return relu(x); })`. A GraphModule is traced again, by the tracer that
/// its graph remembers. Throws TraceError where forward branches on traced values.
template <class M, class... V>
std::shared_ptr<GraphModule> symbolic_trace(M&& module_or_callable, const ConcreteArgs<V...>& inputs) {
  if constexpr (detail::ModuleLike<M>) {
    auto& module = detail::unwrap_module(module_or_callable);
    if constexpr (std::derived_from<std::remove_cvref_t<decltype(module)>, GraphModule>) {
      const detail::Shared<const TracerFactory> factory = module.graph().tracer();
      const detail::Shared<Tracer> made = factory ? factory->make() : detail::Shared<Tracer>();
      if (auto* tracer = dynamic_cast<ModuleTracer*>(made.get())) {
        Graph graph = tracer->trace(module, inputs);
        graph.set_tracer(factory);
        return detail::graph_module_of(*tracer, std::move(graph), module.is_training());
      }
    }
  }
  ModuleTracer tracer;
  return symbolic_trace(module_or_callable, tracer, inputs);
}
template <class M>
std::shared_ptr<GraphModule> symbolic_trace(M&& module_or_callable, std::vector<std::string> input_names = {}) {
  ConcreteArgs<> inputs;
  inputs.names = std::move(input_names);
  return symbolic_trace(module_or_callable, inputs);
}

namespace detail {

/// The value of a GraphModule in a trace: that of its graph, or a call_module node.
Argument inline_graph_module(const GraphModule& module, Tracer& tracer, std::span<const Argument> inputs);

template <class T>
const ProxyBase* first_proxy(const T& value) {
  const ProxyBase* found = nullptr;
  if constexpr (std::derived_from<T, ProxyBase>) {
    found = &value;
  } else if constexpr (holds_proxies<T> && is_tuple<T>) {
    std::apply([&](const auto&... items) { ((found = found ? found : first_proxy(items)), ...); }, value);
  } else if constexpr (holds_proxies<T> && Sequence<T>) {
    for (const auto& item : value) found = found ? found : first_proxy(item);
  }
  return found;
}

template <class R, class... A>
R call_traced(GraphModule& module, const A&... inputs) {
  const ProxyBase* found = nullptr;
  ((found = found ? found : first_proxy(inputs)), ...);
  Tracer* tracer = found ? &found->tracer() : Tracer::current();
  if (!tracer)
    throw TraceError(ErrorId::no_tracer,
                     "GraphModule::call: lists of traced values are empty, so there is nothing to record into",
                     Tracer::context());
  const Argument args[] = {to_argument(*tracer, inputs)...};
  return from_argument<R>(*tracer, inline_graph_module(module, *tracer, args));
}

/// What a module is called with when the graph runs, where tracing calls it with this; void where that is not known.
template <class A>
struct run_type {
  using type = std::conditional_t<std::derived_from<A, ProxyBase>, void, A>;
};
template <StringLike A>
  requires(std::is_array_v<A> || std::is_pointer_v<A>)
struct run_type<A> {
  using type = std::string;
};
template <class A>
  requires requires { requires A::proxy_type == ValueType::tensor; }
struct run_type<A> {
  using type = at::Tensor;
};
template <>
struct run_type<ListProxy> {
  using type = std::vector<at::Tensor>;
};
template <class A>
struct run_type<std::vector<A>> {
  using type =
      std::conditional_t<std::is_void_v<typename run_type<A>::type>, void, std::vector<typename run_type<A>::type>>;
};

/// How far a boxed value is from one of type T: little for the same kind of value, more where it converts without a
/// loss, more than all others together where it is rounded or changes its kind, negative where it does not convert.
template <class T>
int conversion_of(const c10::IValue& value) {
  constexpr int other = -1, converts = 32, rounds = 1 << 16;
  if constexpr (std::same_as<T, at::Tensor>) {
    return value.isTensor() ? 0 : value.isNone() ? converts : other;
  } else if constexpr (std::same_as<T, bool>) {
    if (value.isBool()) return 0;
    return value.isInt() && (value.toInt() == 0 || value.toInt() == 1) ? rounds : other;
  } else if constexpr (std::is_arithmetic_v<T>) {
    // Among types that hold the number, the largest: the graph does not say which one the code had.
    constexpr int same = converts - static_cast<int>(sizeof(T));
    if (value.isBool()) return converts;
    if (value.isInt()) {
      const std::int64_t number = value.toInt();
      if (static_cast<long double>(static_cast<T>(number)) != static_cast<long double>(number))
        return std::is_integral_v<T> ? other : rounds;
      return std::is_integral_v<T> ? same : converts;
    }
    if (!value.isDouble() || std::is_integral_v<T>) return other;
    const double number = value.toDouble();
    return number != number || static_cast<double>(static_cast<T>(number)) == number ? same : rounds;
  } else if constexpr (StringLike<T>) {
    return value.isString() ? 0 : other;
  } else if constexpr (OptionalLike<T>) {
    return value.isNone() ? 0 : conversion_of<std::remove_cvref_t<typename T::value_type>>(value);
  } else if constexpr (Sequence<T> && !MapLike<T>) {
    int sum = value.isNone() ? converts : 0;
    const auto add = [&](const c10::IValue& item) {
      const int one = conversion_of<std::remove_cvref_t<typename T::value_type>>(item);
      sum = sum < 0 || one < 0 ? other : std::max(sum, one);
    };
    if (value.isTuple())
      for (const c10::IValue& item : value.toTupleRef().elements()) add(item);
    else if (value.isList())
      for (const c10::IValue& item : value.toListRef()) add(item);
    else if (!value.isNone()) return other;
    return sum;
  } else {
    return converts;  // the call says what it does not take
  }
}

/// One way to call a module whose forward is a template.
struct KnownCall {
  std::type_index arguments;
  /// The sum over all arguments; negative where one is of another kind, or there are more or less.
  int (*conversion)(std::span<const c10::IValue>);
  c10::IValue (*call)(torch::nn::Module&, std::vector<c10::IValue>&);
};
/// Those of one type of module. A graph takes the one whose kinds of values are those of the call.
class KnownCalls {
 public:
  void add(const KnownCall& call);
  c10::IValue run(torch::nn::Module& module, std::vector<c10::IValue>& args);

 private:
  std::mutex mutex_;
  std::vector<KnownCall> calls_;
};
template <class M>
KnownCalls& calls_of() {
  static KnownCalls calls;
  return calls;
}

/// Lets a graph call modules of this type, whose forward is a template, with values of the types A.
template <class M, class... A>
void know_call(const std::type_info& module) {
  const auto conversion = [](std::span<const c10::IValue> args) {
    if (args.size() != sizeof...(A)) return -1;
    int sum = 0;
    [[maybe_unused]] std::size_t i = 0;
    [[maybe_unused]] const auto add = [&](int one) { sum = sum < 0 || one < 0 ? -1 : sum + one; };
    (add(conversion_of<std::remove_cvref_t<A>>(args[i++])), ...);
    return sum;
  };
  const auto call = [](torch::nn::Module& m, std::vector<c10::IValue>& args) {
    return call_forward(dynamic_cast<M&>(m), args, std::type_identity<std::tuple<A...>>());
  };
  calls_of<M>().add({typeid(std::tuple<A...>), conversion, call});
  register_module_call(
      module, [](torch::nn::Module& m, std::vector<c10::IValue> args) { return calls_of<M>().run(m, args); });
}

/// Lets a graph call modules whose forward is a template, as a tracer may want for its leaves. Made when one is traced:
/// only then it is known what forward is called with.
template <class M, class... A>
void know_module_call(const M& module) {
  constexpr bool plain = requires { &M::forward; };
  if constexpr (!plain && !(std::is_void_v<typename run_type<A>::type> || ...)) {
    if constexpr (requires {
                    box_result(std::declval<M&>().forward(std::declval<typename run_type<A>::type&>()...));
                  })
      know_call<M, typename run_type<A>::type...>(typeid(module));
  }
}

/// Records the call of a submodule, for holders that are called with proxies (torch/nn.hpp). `Result` is what the
/// caller gets. `operands` are `inputs`, as operands.
template <class Result, class M, class... A>
Result record_module_call(M& module, std::span<const Operand* const> operands, const A&... inputs) {
  Tracer& tracer = tracer_of(operands);
  auto* module_tracer = dynamic_cast<ModuleTracer*>(&tracer);
  if (!module_tracer)
    throw TraceError(ErrorId::module_not_in_root,
                     "symbolic_trace: a " + module_type_name(module) +
                         " is called while a plain callable is traced; trace a module that it is registered in",
                     Tracer::context());
  const std::vector<Argument> args = arguments_of(tracer, operands);
  ModuleForward forward;
  know_module_call<M, A...>(module);
  if constexpr (requires { to_argument(tracer, module.forward(inputs...)); })
    forward = [&](std::span<const Argument> given) {
      if (given.size() != sizeof...(A))
        throw TraceError(ErrorId::unsupported_argument,
                         "ModuleTracer::call_module: forward is given " + std::to_string(given.size()) +
                             " arguments; it was called with " + std::to_string(sizeof...(A)),
                         Tracer::context());
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return to_argument(tracer, module.forward(rebuilt_input(tracer, inputs, given[I])...));
      }(std::index_sequence_for<A...>());
    };
  return from_argument<Result>(tracer, module_tracer->record_module(module, forward, args));
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/symbolic_trace.ipp"
#endif
