// Symbolic tracing of a callable: run it once with proxies, keep what it did as a graph.
//
// Main names: symbolic_graph, to_argument (outputs), traceable. The LibTorch wing adds modules, attributes and a
// GraphModule on top (torch/symbolic_trace.hpp).
// Cost: light, plus what the callable's own templates cost. After torch.fx _symbolic_trace.py, 2.13.
#pragma once

#include <map>
#include <type_traits>

#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

template <class T>
inline constexpr bool is_tuple = requires { std::tuple_size<T>::value; };

template <std::size_t>
using ProxyAt = const Proxy&;

template <class F, class Indices>
inline constexpr bool takes_proxies = false;
template <class F, std::size_t... I>
inline constexpr bool takes_proxies<F, std::index_sequence<I...>> = std::is_invocable_v<F, ProxyAt<I>...>;

inline constexpr int max_inputs = 16;
/// How many proxies the callable takes; -1 when it takes no number of them up to max_inputs.
template <class F, int N = 0>
consteval int proxy_arity() {
  if constexpr (N > max_inputs) return -1;
  else if constexpr (takes_proxies<F, std::make_index_sequence<N>>) return N;
  else return proxy_arity<F, N + 1>();
}

}  // namespace detail

/// The argument for a value that a traced function returns: proxies, numbers, text, None for void, and tuples, pairs,
/// vectors, arrays, optionals and maps (with string keys) of them.
template <class T>
Argument to_argument(Tracer& tracer, const T& value) {
  if constexpr (std::derived_from<T, ProxyBase>) {
    return tracer.node_of(value);
  } else if constexpr (detail::ExternalTensor<T>) {
    return tracer.attribute(&value);
  } else if constexpr (requires { argument_traits<T>::convert(value); }) {
    return argument_traits<T>::convert(value);
  } else if constexpr (detail::StringLike<T>) {
    return std::string_view(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, Argument> || std::same_as<T, std::nullopt_t>) {
    return Argument(value);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    return value ? to_argument(tracer, *value) : Argument();
  } else if constexpr (requires { typename T::mapped_type; }) {
    std::vector<DictEntry> entries;
    for (const auto& [key, mapped] : value) entries.push_back({Argument(key), to_argument(tracer, mapped)});
    return Argument::dict(std::move(entries));
  } else if constexpr (detail::Sequence<T>) {
    std::vector<Argument> items;
    for (const auto& item : value) items.push_back(to_argument(tracer, item));
    return Argument::list(std::move(items));
  } else if constexpr (detail::is_tuple<T>) {
    return std::apply(
        [&](const auto&... items) {
          if constexpr ((std::derived_from<std::remove_cvref_t<decltype(items)>, ProxyBase> && ...) &&
                        sizeof...(items) > 0) {
            const ProxyBase* const proxies[] = {&items...};
            return tracer.collapse_items(proxies);
          } else {
            return Argument::tuple({to_argument(tracer, items)...});
          }
        },
        value);
  } else {
    static_assert(std::same_as<T, void>,
                  "fxx::symbolic_trace: the function returns a type that a graph cannot hold; "
                  "return tensors, numbers, text, or tuples, vectors and maps of them");
    return {};
  }
}

/// Calls `f` with `sizeof...(I)` placeholders named `names` and gives `tracer`'s graph its output.
template <class F, std::size_t... I>
void trace_into(Tracer& tracer, F&& f, [[maybe_unused]] std::span<const std::string> names, std::index_sequence<I...>) {
  const std::array<Proxy, sizeof...(I)> inputs{tracer.placeholder(names[I])...};
  using Result = std::invoke_result_t<F, detail::ProxyAt<I>...>;
  if constexpr (std::is_void_v<Result>) {
    f(inputs[I]...);
    tracer.create_node(Output{}, {Argument()});
  } else {
    const Result result = f(inputs[I]...);
    tracer.create_node(Output{}, {to_argument(tracer, result)});
  }
}

namespace detail {
/// Given names, or x for one input, arg0, arg1 ... for several: C++ keeps no names of parameters.
std::vector<std::string> input_names(std::span<const std::string> given, std::size_t count);
}  // namespace detail

/// The graph of a callable over proxies: `symbolic_graph([](auto x, auto y) { return relu(x + y); }, {"x", "y"})`.
/// Throws TraceError when the callable branches on traced values.
template <class F>
Graph symbolic_graph(F&& f, std::vector<std::string> names = {}) {
  constexpr int arity = detail::proxy_arity<F>();
  static_assert(arity >= 0,
                "fxx::symbolic_trace: the function cannot be called with proxies; take its tensors as `auto`, as a "
                "template parameter, or as fxx::Proxy");
  Graph graph;
  if constexpr (arity >= 0) {
    Tracer tracer(graph);
    trace_into(tracer, std::forward<F>(f), detail::input_names(names, arity), std::make_index_sequence<arity>());
  }
  return graph;
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/symbolic.ipp"
#endif
