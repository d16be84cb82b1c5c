// Graph::lint: every invariant of a graph, checked in one walk.
#pragma once

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/ir/detail/storage.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void Graph::lint() const {
  const detail::GraphStorage& s = *storage_;
  std::vector<bool> seen(s.next_index);
  std::vector<std::uint32_t> uses(s.next_index);
  std::vector<const Node*> last_user(s.next_index);
  std::set<std::string_view> names;
  std::size_t count = 0;
  const Node* before = nullptr;

  for (const Node* node : nodes()) {
    const auto fail = [&](ErrorId id, const std::string& text) {
      throw GraphError(id, "Graph::lint: " + text, {format_node(*node)});
    };
    const std::string quoted = "'" + std::string(node->name()) + "'";
    if (&node->graph() != this)
      fail(ErrorId::node_not_in_graph, "node " + quoted + " does not belong to this Graph; copy it with node_copy");
    if (node->is_erased()) fail(ErrorId::node_erased, "node " + quoted + " was erased but is still in the list");
    if (before && !before->is_before(*node))
      fail(ErrorId::broken_links, "the position of node " + quoted + " is not after its predecessor's");
    before = node;
    ++count;
    if (!names.insert(node->name()).second)
      fail(ErrorId::duplicate_name, "two nodes are called " + quoted + "; rename one of them");

    // Inputs: in this graph, defined earlier, linked exactly once.
    std::vector<const Node*> inputs;
    const auto check_input = [&](Node* input) {
      s.check_input(node, input);
      if (!seen[input->index()])
        fail(ErrorId::used_before_defined,
             "argument '" + std::string(input->name()) + "' of node " + quoted +
                 " was used before it has been defined; move its definition up or the use down");
      if (std::exchange(last_user[input->index()], node) != node) inputs.push_back(input);
    };
    for (const Argument& a : node->args()) for_each_node(a, check_input);
    for (const KeywordArgument& k : node->kwargs()) for_each_node(k.value, check_input);
    const auto linked = node->all_input_nodes();
    if (!std::equal(inputs.begin(), inputs.end(), linked.begin(), linked.end()))
      fail(ErrorId::broken_links, "the links of node " + quoted + " to its inputs differ from its arguments");
    for (const Node* input : inputs) ++uses[input->index()];
    seen[node->index()] = true;

    if (node->opcode() == Opcode::output) {
      if (node->next()) fail(ErrorId::output_misplaced, "the output is not the last node");
      if (node->args().size() != 1)
        fail(ErrorId::output_misplaced,
             "the output has " + std::to_string(node->args().size()) + " arguments; it takes one");
    }
    if (s.owner) {
      const auto missing = [&](const std::string& target, const char* what) {
        fail(ErrorId::attribute_missing, "node " + quoted + " refers to " + what + " '" + target + "', which " +
                                             s.owner->class_name() +
                                             " does not have; register it or change the target");
      };
      match(
          node->op(), [](const Placeholder&) {},
          [&](const GetAttr& o) {
            if (!s.owner->find_attribute(o.target) && !s.owner->find_module(o.target)) missing(o.target, "attribute");
          },
          [](const CallFunction&) {}, [](const CallMethod&) {},
          [&](const CallModule& o) {
            if (!s.owner->find_module(o.target)) missing(o.target, "module");
          },
          [](const Output&) {});
    }
  }
  if (count != s.size)
    throw GraphError(ErrorId::broken_links, "Graph::lint: the graph counts " + std::to_string(s.size) +
                                                " nodes but holds " + std::to_string(count));
  for (const Node* node : nodes()) {
    std::size_t listed = 0;
    for (const detail::Edge* edge = node->cold_->first_user; edge; edge = edge->next) {
      ++listed;
      // One of the user's own links, which were compared with its arguments above.
      const Node* user = edge->user;
      if (edge->input != node || edge < user->edges() || edge >= user->edges() + user->edges_size_)
        throw GraphError(
            ErrorId::broken_links,
            "Graph::lint: '" + std::string(user->name()) + "' is listed as a user but does not use this node",
            {format_node(*node)});
    }
    if (listed != node->num_users() || listed != uses[node->index()])
      throw GraphError(ErrorId::broken_links,
                       "Graph::lint: the node lists " + std::to_string(listed) + " users but " +
                           std::to_string(uses[node->index()]) + " nodes use it",
                       {format_node(*node)});
  }
}

}  // namespace fxx::inline FXX_ABI
