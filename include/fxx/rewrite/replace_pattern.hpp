// Replacing every occurrence of one graph in another, while the program runs.
//
//   replace_pattern(graph, [](auto x, auto y) { return relu(x + y); }, [](auto x, auto y) { return x.add(y).gelu(); });
//
// Pattern and replacement are callables over proxies, or Graphs; inputs and results correspond by position. What a match
// is stands in rewrite/subgraph_matcher.hpp. Names, shapes, source lines, module stacks and meta data carry over as with
// rules. A match is left alone where the graph writes to memory in place and the replacement would show something else.
// What only the replaced nodes used goes with them, but for what has an effect or draws random numbers. Where a pattern
// returns one of its inputs and the replacement something else in its place, the other users of that value get it: all
// for which it can be computed in time, and that it is not computed from.
// Main names: replace_pattern, replace_pattern_with_filters, replace_with_graph, replace_by_example, erase_nodes,
// ReplacedPatterns, MatchFilter. GraphModules: torch/replace_pattern.hpp. Cost: light, plus what the callables' own
// templates cost. After torch.fx subgraph_rewriter.py, 2.13; differs: filters are asked before overlaps are removed, so
// a match that one declines hides no other.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "fxx/rewrite/subgraph_matcher.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// Does a match count? A callable that takes the match, or the match, the graph and the pattern.
class MatchFilter {
 public:
  template <class F>
    requires(std::is_invocable_r_v<bool, const F&, const InternalMatch&> ||
             std::is_invocable_r_v<bool, const F&, const InternalMatch&, const Graph&, const Graph&>)
  MatchFilter(F filter) : question_(new Asked<F>(std::move(filter))) {}
  bool operator()(const InternalMatch& match, const Graph& original, const Graph& pattern) const {
    return question_->ask(match, original, pattern);
  }

 private:
  struct Question : ::fxx::detail::Box {
    virtual ~Question() = default;
    virtual bool ask(const InternalMatch&, const Graph&, const Graph&) const = 0;
  };
  template <class F>
  struct Asked final : Question {
    explicit Asked(F f) : filter(std::move(f)) {}
    bool ask(const InternalMatch& match, const Graph& original, const Graph& pattern) const override {
      if constexpr (std::is_invocable_v<const F&, const InternalMatch&>) return filter(match);
      else return filter(match, original, pattern);
    }
    F filter;
  };
  ::fxx::detail::Shared<const Question> question_;
};

/// One occurrence that was replaced.
struct ReplacedPatterns {
  /// The node by which it was found; erased by now.
  Node* anchor = nullptr;
  /// What the pattern's nodes stood for: erased nodes, and for inputs of the pattern the present values.
  NodesMap nodes_map;
  /// The nodes that took the place, in the order of the graph; none where the replacement gives back an input.
  std::vector<Node*> replacements;
  /// The pattern, where it was made of a callable: nodes_map refers to it.
  ::fxx::detail::Shared<const ::fxx::detail::BoxOf<Graph>> pattern;
};

namespace detail {

/// A pattern or a replacement as a graph: the caller's, or one that was traced.
struct GraphOf {
  const Graph* graph = nullptr;
  ::fxx::detail::Shared<const ::fxx::detail::BoxOf<Graph>> own = {};

  GraphOf() = default;
  GraphOf(const Graph& g) : graph(&g) {}
  GraphOf(Graph&& g) : own(new ::fxx::detail::BoxOf<Graph>(std::move(g))) { graph = &own->value; }
};
template <class P>
GraphOf graph_of(const P& pattern) {
  if constexpr (std::is_same_v<P, Graph>) return GraphOf(pattern);
  else return GraphOf(symbolic_graph(pattern));
}

/// Does it make a graph for each match? Asked of what is no template alone: a generic lambda is one over proxies, and
/// asking it would compile its body.
template <class R>
inline constexpr bool is_callback = [] {
  if constexpr (std::is_pointer_v<R> || requires { &R::operator(); })
    return std::is_invocable_v<const R&, const InternalMatch&, const Graph&, const Graph&>;
  else return false;
}();

/// The steps of replace_pattern: find, look at every replacement before the first is made, replace.
class PatternReplacement {
 public:
  /// Throws RuleError (E403) for what is no pattern, and what filters throw.
  PatternReplacement(Graph& graph, GraphOf pattern, std::span<const MatchFilter> filters = {},
                     bool ignore_literals = false);
  PatternReplacement(Graph& graph, const SubgraphMatcher& matcher, std::vector<InternalMatch> matches);
  const std::vector<InternalMatch>& matches() const { return matches_; }
  const Graph& pattern() const { return *pattern_.graph; }
  /// Throws RuleError (E402) when the graph cannot take the place of the pattern, or of one match.
  void check(const Graph& replacement) const;
  void check(const Graph& replacement, const InternalMatch& match) const;
  /// The module that a pattern of our own belongs to may be gone when somebody looks at the results.
  void forget_owner() {
    if (pattern_.own) const_cast<Graph*>(pattern_.graph)->set_owning_module(nullptr);
  }
  /// By one graph for all matches, or one for each. All have been checked.
  std::vector<ReplacedPatterns> apply(std::span<const GraphOf> replacements);

 private:
  Graph& graph_;
  GraphOf pattern_;
  SubgraphMatcher matcher_;
  std::vector<InternalMatch> matches_;
};

/// The graphs that a replacement gives: one, or what a callback returns for each match.
template <class R>
std::vector<GraphOf> replacements_of(const PatternReplacement& found, const Graph& graph, const R& replacement) {
  std::vector<GraphOf> made;
  if constexpr (is_callback<R>) {
    for (const InternalMatch& match : found.matches()) {
      made.push_back(GraphOf(Graph(replacement(match, graph, found.pattern()))));
      found.check(*made.back().graph);
      found.check(*made.back().graph, match);
    }
  } else {
    made.push_back(graph_of(replacement));
    found.check(*made.back().graph);
    for (const InternalMatch& match : found.matches()) found.check(*made.back().graph, match);
  }
  return made;
}

}  // namespace detail

/// Replaces what matches `pattern` and passes all filters, from the first to the last; matches that share a node with
/// an earlier one are passed over. `replacement` is a callable over proxies, a Graph, or a callback that makes a Graph
/// for each match, `Graph(const InternalMatch&, const Graph& original, const Graph& pattern)`; callbacks run before
/// anything is replaced. A pattern may return a map of names last, which filters and callbacks find in
/// `match.name_node_map`. Throws RuleError (E403) for what is no pattern, (E402) for a replacement that does not fit it,
/// TraceError, and what filters and callbacks throw; the graph is as it was then.
/// O(nodes x size of the pattern + replaced nodes) for a pattern that hangs together.
template <class P, class R>
std::vector<ReplacedPatterns> replace_pattern_with_filters(Graph& graph, const P& pattern, const R& replacement,
                                                           const std::vector<MatchFilter>& filters = {},
                                                           bool ignore_literals = false) {
  detail::PatternReplacement found(graph, detail::graph_of(pattern), filters, ignore_literals);
  return found.apply(detail::replacements_of(found, graph, replacement));
}
template <class P, class R>
std::vector<ReplacedPatterns> replace_pattern(Graph& graph, const P& pattern, const R& replacement) {
  return replace_pattern_with_filters(graph, pattern, replacement);
}

/// Replaces one match that was found in `graph` by a matcher of `pattern`, and is still there. Gives nothing where the
/// graph writes to memory in a way that forbids it. Throws RuleError (E402) when the replacement does not fit.
std::optional<ReplacedPatterns> replace_with_graph(Graph& graph, const SubgraphMatcher& matcher, InternalMatch match,
                                                   const Graph& replacement);
/// The same by a callable over proxies.
template <class F>
std::optional<ReplacedPatterns> replace_by_example(Graph& graph, const SubgraphMatcher& matcher, InternalMatch match,
                                                   const F& replacement) {
  return replace_with_graph(graph, matcher, std::move(match), symbolic_graph(replacement));
}
/// Erases the nodes that a match is made of, once nobody else uses them, and attributes that only they used. Throws
/// GraphError (E102) when one has users outside; the graph is as it was then.
void erase_nodes(Graph& graph, const InternalMatch& match);

}  // namespace fxx::inline FXX_ABI::rewrite

namespace fxx::inline FXX_ABI {
using rewrite::erase_nodes;
using rewrite::MatchFilter;
using rewrite::replace_by_example;
using rewrite::replace_pattern;
using rewrite::replace_pattern_with_filters;
using rewrite::replace_with_graph;
using rewrite::ReplacedPatterns;
}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/replace_pattern.ipp"
#endif
