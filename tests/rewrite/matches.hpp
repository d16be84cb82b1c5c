// What the tests of finding graphs in graphs share.
#pragma once

#include "fxx/rewrite/subgraph_matcher.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::test {

/// How often the pattern is found.
inline std::size_t matches(const Graph& pattern, const Graph& graph, SubgraphMatcherOptions options = {}) {
  return SubgraphMatcher(pattern, options).match(graph).size();
}
template <class P, class G>
std::size_t matches(P pattern, G graph, SubgraphMatcherOptions options = {}) {
  return matches(symbolic_graph(pattern), symbolic_graph(graph), options);
}

}  // namespace fxx::test
