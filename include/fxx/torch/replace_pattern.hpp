// Replacing every occurrence of a pattern in a GraphModule.
//
//   fxx::replace_pattern(*gm, [](auto x) { return x * sigmoid(x); }, [](auto x) { return silu(x); });
//
// Pattern and replacement are modules, GraphModules, callables over proxies or Graphs. Leaf modules are opened for it, on
// both sides, and those that nothing touched are closed again: a pattern that calls an nn::Linear is found where the
// graph calls one, or the operator. Filters and callbacks see the graph opened.
// Main names: replace_pattern, replace_pattern_with_filters. Cost: heavy (torch/nn/module.h). After torch.fx
// subgraph_rewriter.py, 2.13; differs: a name that both the graph and the replacement have means the replacement's own
// in the replacement, which is then renamed; what it brings is shared with it, not copied.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "fxx/rewrite/replace_pattern.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/symbolic_trace.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A pattern or a replacement: a graph with the module that has what it names, or a bare one, which names what the
/// module has that is rewritten.
struct GraphAndModule {
  const Graph* graph = nullptr;
  std::shared_ptr<GraphModule> module = {};
};
template <class P>
GraphAndModule graph_and_module(P&& pattern) {
  using T = std::remove_cvref_t<P>;
  if constexpr (std::is_same_v<T, Graph>) {
    return {&pattern, nullptr};
  } else if constexpr (std::is_same_v<T, std::shared_ptr<GraphModule>>) {
    return {&pattern->graph(), pattern};
  } else if constexpr (std::derived_from<T, GraphModule>) {
    return {&pattern.graph(), std::shared_ptr<GraphModule>(std::shared_ptr<void>(), &pattern)};  // the caller's
  } else {
    const std::shared_ptr<GraphModule> traced = symbolic_trace(pattern);
    return {&traced->graph(), traced};
  }
}

/// The pattern with its leaf modules opened.
rewrite::detail::GraphOf opened_pattern(const GraphModule& module, const GraphAndModule& pattern);
/// Throws GraphError (E108) when a bare graph names what the module does not have.
void check_names(const GraphModule& module, const GraphAndModule& replacement);
/// The replacement as a graph of `module`, which gets what it names.
rewrite::detail::GraphOf adopted(GraphModule& module, const GraphAndModule& replacement);
/// Drops what the graph referred to before and does not now, and makes it ready to run.
void finish_replacing(GraphModule& module, const std::vector<std::string>& names_before);
std::vector<std::string> names_in(const Graph& graph);

}  // namespace detail

/// As replace_pattern_with_filters of a Graph; callbacks may give a Graph, whose names are those of `module`, or a
/// std::shared_ptr<GraphModule>. Attributes and submodules that the replacement uses become the module's, parameters as
/// parameters, under another name where theirs is taken; those that the graph no longer refers to are dropped when
/// something was replaced. Throws GraphError (E108) besides when a bare Graph names what the module does not have. The
/// module is as it was when something is thrown.
template <class P, class R>
std::vector<ReplacedPatterns> replace_pattern_with_filters(GraphModule& module, P&& pattern, R&& replacement,
                                                           const std::vector<MatchFilter>& filters = {},
                                                           bool ignore_literals = false) {
  const std::vector<std::string> names_before = detail::names_in(module.graph());
  std::vector<ReplacedPatterns> done;
  {
    const detail::GraphAndModule searched = detail::graph_and_module(pattern);
    const detail::ModuleExpansion expansion(module);
    rewrite::detail::PatternReplacement found(module.graph(), detail::opened_pattern(module, searched), filters,
                                              ignore_literals);
    found.forget_owner();
    std::vector<detail::GraphAndModule> sources;
    std::vector<Graph> graphs;  // of callbacks, which outlive their sources
    if constexpr (rewrite::detail::is_callback<std::remove_cvref_t<R>>) {
      graphs.reserve(found.matches().size());
      for (const InternalMatch& match : found.matches()) {
        auto made = replacement(match, std::as_const(module.graph()), found.pattern());
        if constexpr (std::is_same_v<decltype(made), Graph>)
          sources.push_back({&graphs.emplace_back(std::move(made)), nullptr});
        else sources.push_back(detail::graph_and_module(made));
        found.check(*sources.back().graph);
        found.check(*sources.back().graph, match);
      }
    } else {
      sources.push_back(detail::graph_and_module(replacement));
      found.check(*sources[0].graph);
      for (const InternalMatch& match : found.matches()) found.check(*sources[0].graph, match);
    }
    for (const detail::GraphAndModule& source : sources) detail::check_names(module, source);
    if (!found.matches().empty()) {
      std::vector<rewrite::detail::GraphOf> replacements;
      for (const detail::GraphAndModule& source : sources) replacements.push_back(detail::adopted(module, source));
      done = found.apply(replacements);
    }
  }
  if (!done.empty()) detail::finish_replacing(module, names_before);
  return done;
}
template <class P, class R>
std::vector<ReplacedPatterns> replace_pattern(GraphModule& module, P&& pattern, R&& replacement) {
  return replace_pattern_with_filters(module, pattern, replacement);
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/replace_pattern.ipp"
#endif
