// Symbolic tracing of a callable: run it once with proxies, keep what it did as a graph.
//
// Main names: symbolic_graph, Tracer::trace. The LibTorch wing adds modules, attributes and a GraphModule on top
// (torch/symbolic_trace.hpp). Inputs that are no tensors are described by concrete_args (trace/concrete.hpp), results
// are what trace/structure.hpp lists.
// Cost: light, plus what the callable's own templates cost. After torch.fx _symbolic_trace.py, 2.13.
#pragma once

#include "fxx/trace/concrete.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

template <std::size_t>
using ProxyAt = const Proxy&;

template <class F, class Indices, class... First>
inline constexpr bool takes_proxies = false;
template <class F, std::size_t... I, class... First>
inline constexpr bool takes_proxies<F, std::index_sequence<I...>, First...> =
    std::is_invocable_v<F, First..., ProxyAt<I>...>;

inline constexpr int max_inputs = 16;
/// How many proxies the callable takes, after the values that it is given; -1 when it takes no number of them up to
/// max_inputs.
template <class F, class... First, int N = 0>
consteval int proxy_arity(std::integral_constant<int, N> = {}) {
  if constexpr (N > max_inputs) return -1;
  else if constexpr (takes_proxies<F, std::make_index_sequence<N>, First...>) return N;
  else return proxy_arity<F, First...>(std::integral_constant<int, N + 1>());
}
/// Does a callable that takes none take any number of inputs?
template <class F>
inline constexpr bool is_variadic = takes_proxies<F, std::make_index_sequence<max_inputs>> &&
                                    takes_proxies<F, std::make_index_sequence<max_inputs + 1>>;

/// Given names, x for one input, arg0, arg1 ... for several: C++ keeps no names of parameters. Those from
/// `first_spare` on are dropped when there are too many.
std::vector<std::string> input_names(std::span<const std::string> given, std::size_t count,
                                     std::size_t first_spare = static_cast<std::size_t>(-1));
/// The placeholders of a trace, by the tracer's hook, and what checks that bound inputs are given their constants.
/// Notes what the hook named them in the signature.
std::vector<Node*> make_inputs(Tracer& tracer, std::span<const InputLeaf> leaves, Signature& signature);
void make_output(Tracer& tracer, Argument value, const std::string& type);
/// Keeps a signature that is more than the placeholders.
void keep_signature(Graph& graph, Signature signature);

}  // namespace detail

template <class F, class... V>
Graph Tracer::trace(F&& function, const ConcreteArgs<V...>& inputs) {
  constexpr int more = detail::proxy_arity<F, const detail::bound_t<V>&...>();
  static_assert(more >= 0 || sizeof...(V) > 0,
                "fxx::symbolic_trace: the function cannot be called with proxies; take its tensors as `auto`, as a "
                "template parameter, or as fxx::Proxy");
  static_assert(
      more >= 0 || sizeof...(V) == 0,
      "fxx::symbolic_trace: the function cannot be called with what concrete_args describes: a proxy for each "
      "PH, each constant as it is, containers of them, and proxies for the rest");
  if constexpr (sizeof...(V) == 0 && more == 0)
    static_assert(!detail::is_variadic<F>,
                  "fxx::symbolic_trace: the function takes any number of inputs; say how many with "
                  "concrete_args(PH, PH)");
  Graph graph;
  if constexpr (more >= 0) {
    Session session(*this, graph);
    const std::vector<std::string> names =
        detail::input_names(inputs.names, sizeof...(V) + more, inputs.first_spare_name);
    detail::InputReader reader;
    Signature signature;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (signature.inputs.push_back({names[I], reader.read(std::get<I>(inputs.values), names[I])}), ...);
    }(std::index_sequence_for<V...>());
    for (std::size_t i = sizeof...(V); i < names.size(); ++i)
      signature.inputs.push_back({names[i], reader.read(PH, names[i])});
    const std::vector<Node*> nodes = detail::make_inputs(*this, reader.leaves, signature);
    detail::InputBinder binder(*this, nodes);
    [&]<std::size_t... I, std::size_t... M>(std::index_sequence<I...>, std::index_sequence<M...>) {
      const std::tuple<detail::bound_t<V>...> given{binder.bind(std::get<I>(inputs.values))...};
      const std::array<Proxy, sizeof...(M)> rest{(static_cast<void>(M), Proxy(*this, binder.next()))...};
      using Result = std::remove_cvref_t<decltype(function(std::get<I>(given)..., rest[M]...))>;
      if constexpr (std::is_void_v<Result>) {
        function(std::get<I>(given)..., rest[M]...);
        detail::make_output(*this, {}, {});
      } else {
        const Result result = function(std::get<I>(given)..., rest[M]...);
        detail::make_output(*this, to_argument(*this, result), detail::cpp_type_name<Result>());
      }
    }(std::index_sequence_for<V...>(), std::make_index_sequence<static_cast<std::size_t>(more)>());
    session.finish();
    detail::keep_signature(graph, std::move(signature));
    graph.set_tracer(factory());
  }
  return graph;
}

template <class F>
Graph Tracer::trace(F&& function, std::vector<std::string> names) {
  ConcreteArgs<> inputs;
  inputs.names = std::move(names);
  return trace(std::forward<F>(function), inputs);
}

/// The graph of a callable over proxies: `symbolic_graph([](auto x, auto y) { return relu(x + y); }, {"x", "y"})`.
/// Throws TraceError when the callable branches on traced values.
template <class F>
Graph symbolic_graph(F&& f, std::vector<std::string> names = {}) {
  return Tracer().trace(std::forward<F>(f), std::move(names));
}
template <class F, class... V>
Graph symbolic_graph(F&& f, const ConcreteArgs<V...>& inputs) {
  return Tracer().trace(std::forward<F>(f), inputs);
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/symbolic.ipp"
#endif
