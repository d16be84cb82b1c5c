// What the tests of tracing share.
#pragma once

#include <string>
#include <vector>

#include "fxx/trace/symbolic.hpp"
#include "graph_text.hpp"
#include "support.hpp"

namespace fxx::test {

/// What a function of proxies records, without its inputs. Every recorded graph is checked.
template <class F>
std::string recorded(F&& f, std::vector<std::string> names = {}) {
  const Graph graph = symbolic_graph(std::forward<F>(f), std::move(names));
  graph.lint();
  return body_of(graph);
}

}  // namespace fxx::test
