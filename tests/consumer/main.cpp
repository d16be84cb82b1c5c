// A user's program on the light layers: builds a graph, prints it, reads it back.
#include <cstdio>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

int main() {
  fxx::Graph graph;
  fxx::Node* x = graph.placeholder("x");
  graph.output(graph.call_function(fxx::ops::relu, {x}));
  graph.lint();
  const std::string text = fxx::to_string(graph);
  std::puts(text.c_str());
  return fxx::same_structure(graph, fxx::parse_graph(text)) ? 0 : 1;
}
