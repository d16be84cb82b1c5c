// Bodies of torch/known_sizes.hpp.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "fxx/ops/effects.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/known_sizes.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Runs node by node, as far as fake tensors tell.
class SizeFinder : public Interpreter {
 public:
  SizeFinder(const torch::nn::Module& module, Graph& graph) : Interpreter(module, graph) {}

  std::unordered_set<const Node*> find(Graph& graph, const std::vector<at::Tensor>& example_inputs) {
    const FakeScope fakes;
    const at::NoGradGuard no_grad;
    std::size_t next = 0;
    std::vector<std::pair<Node*, Argument>> numbers;
    for (Node* node : graph.nodes()) {
      if (node->opcode() == Opcode::output) break;
      if (node->opcode() == Opcode::placeholder) {
        note(*node, next < example_inputs.size() ? c10::IValue(fake_like(example_inputs[next])) : c10::IValue());
        ++next;
        continue;
      }
      const auto inputs = node->all_input_nodes();
      bool known = std::none_of(inputs.begin(), inputs.end(), [&](Node* n) { return unknown_.contains(n); });
      if (known) {
        Environment values;
        for (Node* input : inputs) values.emplace(input, values_.at(input));
        try {
          c10::IValue value = run_one(*node, std::move(values));
          if (std::optional<Argument> number = number_of(value)) numbers.emplace_back(node, std::move(*number));
          note(*node, std::move(value));
        } catch (const std::exception&) {
          known = false;  // what it does depends on elements, or it fails, which it may do when it runs
        }
      }
      if (!known) {
        node->clear_tensor_meta();
        unknown_.insert(node);
      }
    }
    for (const auto& [node, number] : numbers) {
      const auto put = [&](Node* n) { return n == node ? number : Argument(n); };
      for (Node* user : node->users().snapshot()) {
        std::vector<Argument> args;
        std::vector<KeywordArgument> kwargs;
        for (const Argument& a : user->args()) args.push_back(map_nodes(a, put));
        for (const KeywordArgument& k : user->kwargs()) kwargs.push_back({k.key, map_nodes(k.value, put)});
        user->set_args_kwargs(args, kwargs);
      }
    }
    return unknown_;
  }

 private:
  void note(Node& node, c10::IValue value) {
    if (value.isTensor() && value.toTensor().defined()) node.set_tensor_meta(tensor_meta_of(value.toTensor()));
    else node.clear_tensor_meta();
    values_[&node] = std::move(value);
  }
  static std::optional<Argument> number_of(const c10::IValue& value) {
    if (value.isInt()) return Argument(value.toInt());
    if (value.isBool()) return Argument(value.toBool());
    if (value.isDouble()) return Argument(value.toDouble());
    if (value.isIntList()) {
      std::vector<Argument> items;
      for (std::int64_t item : value.toIntVector()) items.emplace_back(item);
      return Argument::list(std::move(items));
    }
    return {};
  }

  std::unordered_map<const Node*, c10::IValue> values_;
  std::unordered_set<const Node*> unknown_;
};

}  // namespace detail

FXX_INLINE std::unordered_set<const Node*> note_known_sizes(GraphModule& module,
                                                            const std::vector<at::Tensor>& example_inputs) {
  return detail::SizeFinder(module, module.graph()).find(module.graph(), example_inputs);
}

FXX_INLINE std::optional<SplitGraph> split_by_sizes(const Graph& graph,
                                                    const std::unordered_set<const Node*>& unknown) {
  bool computes = false;
  for (const Node* node : graph.nodes()) {
    // Effects, and random numbers, would change places.
    if (is_barrier(*node) || draws_numbers(*node)) return {};
    const bool call =
        node->opcode() != Opcode::placeholder && node->opcode() != Opcode::get_attr && node->opcode() != Opcode::output;
    computes = computes || (call && !unknown.contains(node) && node->tensor_meta());
  }
  if (!computes) return {};

  SplitGraph split;
  std::unordered_map<const Node*, Node*> in_head, in_tail;
  std::vector<Argument> passed;
  std::vector<std::pair<const Node*, Node*>> received;
  for (const Node* node : graph.nodes()) {
    if (unknown.contains(node) || node->opcode() == Opcode::output) continue;
    in_head[node] = split.head.node_copy(*node, [&](Node* n) { return in_head.at(n); });
    if (node->opcode() == Opcode::placeholder) in_tail[node] = split.tail.node_copy(*node, [](Node* n) { return n; });
  }
  // Placeholders of the tail stand before its other nodes, so what is passed is found first.
  std::unordered_set<const Node*> wanted;
  const auto want = [&](auto& self, const Node* node) -> void {
    if (unknown.contains(node) || in_tail.contains(node) || wanted.contains(node)) return;
    wanted.insert(node);
    // What is no tensor is computed once more where it is wanted.
    if (node->opcode() != Opcode::get_attr && !node->tensor_meta())
      for (const Node* input : node->all_input_nodes()) self(self, input);
  };
  for (const Node* node : graph.nodes())
    if (unknown.contains(node) || node->opcode() == Opcode::output)
      for (const Node* input : node->all_input_nodes()) want(want, input);
  for (const Node* node : graph.nodes())
    if (wanted.contains(node) && node->opcode() != Opcode::get_attr && node->tensor_meta()) {
      passed.emplace_back(in_head.at(node));
      in_tail[node] = split.tail.placeholder(std::string(node->name()));
    }
  for (const Node* node : graph.nodes()) {
    if (in_tail.contains(node)) continue;
    if (!unknown.contains(node) && !wanted.contains(node) && node->opcode() != Opcode::output) continue;
    in_tail[node] = split.tail.node_copy(*node, [&](Node* n) { return in_tail.at(n); });
  }
  split.head.output(Argument::list(std::move(passed)));
  eliminate_dead_code(split.head);
  return split;
}

}  // namespace fxx::inline FXX_ABI
