// What the tests of shipped rules share: graphs whose values have shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "rewrite/rewritten.hpp"

namespace fxx::test {

/// Says which shape a value has, and gives it back.
inline Node* shaped(Node* node, std::vector<std::int64_t> shape, Dtype dtype = Dtype::float32) {
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  node->set_tensor_meta({.shape = shape, .stride = stride, .dtype = dtype});
  return node;
}
inline Node* attribute(Graph& graph, std::string_view name, std::vector<std::int64_t> shape,
                       Dtype dtype = Dtype::float32) {
  return shaped(graph.get_attr(name), std::move(shape), dtype);
}

/// What the rules make of the graph that `make(Graph&)` builds and whose result it returns.
template <class Rules, class Make>
std::string rewritten_graph(const Rules& rules, Make make) {
  Graph graph;
  graph.output(make(graph));
  graph.lint();
  return rewritten(rules, graph);
}
template <class Rules, class Make>
std::string fired_on(const Rules& rules, Make make) {
  Graph graph;
  graph.output(make(graph));
  return rules.apply(graph).to_string();
}

}  // namespace fxx::test
