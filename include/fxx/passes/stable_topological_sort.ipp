// Bodies of passes/stable_topological_sort.hpp.
#pragma once

#include <string>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/passes/stable_topological_sort.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::size_t stable_topological_sort(Graph& graph) {
  std::vector<Node*> order;
  order.reserve(graph.size());
  std::vector<bool> placed(graph.index_bound());
  std::vector<std::vector<Node*>> waiting(graph.index_bound());  // for the node of that index
  std::vector<Node*> ready;                                      // the next one last
  Node* output = nullptr;
  for (Node* next : graph.nodes()) {
    if (next->opcode() == Opcode::output) {
      output = next;
      continue;
    }
    ready.push_back(next);
    while (!ready.empty()) {
      Node* node = ready.back();
      ready.pop_back();
      const Node* missing = nullptr;
      for (const Node* input : node->all_input_nodes())
        if (!placed[input->index()]) missing = input;
      if (missing) {
        waiting[missing->index()].push_back(node);
        continue;
      }
      placed[node->index()] = true;
      order.push_back(node);
      std::vector<Node*>& released = waiting[node->index()];
      ready.insert(ready.end(), released.rbegin(), released.rend());
      released.clear();
    }
  }
  if (order.size() + (output ? 1 : 0) != graph.size()) {
    std::string names;
    std::size_t shown = 0;
    const Node* first = nullptr;
    for (const Node* node : graph.nodes()) {
      if (placed[node->index()] || node == output) continue;
      if (!first) first = node;
      if (++shown <= 5) names += (names.empty() ? "'" : ", '") + std::string(node->name()) + "'";
    }
    throw GraphError(ErrorId::used_before_defined,
                     "stable_topological_sort: " + names + (shown > 5 ? " and others" : "") +
                         " need each other, so that none of them can run first; take one of their arguments away",
                     {format_node(*first)});
  }
  std::size_t moved = 0;
  Node* at = graph.nodes().front();
  for (Node* node : order) {
    if (node == at) {
      at = at->next();
      continue;
    }
    at->prepend(node);
    ++moved;
  }
  return moved;
}

}  // namespace fxx::inline FXX_ABI
