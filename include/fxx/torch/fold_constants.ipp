// Bodies of torch/fold_constants.hpp.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/interpreter.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Attributes whose memory the graph writes to, directly or through views.
FXX_INLINE std::unordered_set<std::string> written_attributes(const Graph& graph) {
  std::unordered_map<const Node*, std::string> memory_of;  // what a node's value may share with an attribute
  std::unordered_set<std::string> written;
  for (const Node* node : graph.nodes()) {
    if (const auto* attribute = std::get_if<GetAttr>(&node->op())) memory_of[node] = attribute->target;
    const Operator* op = operator_of(*node);
    for (const Node* input : node->all_input_nodes()) {
      const auto memory = memory_of.find(input);
      if (memory == memory_of.end()) continue;
      if (op ? op->aliases || op->mutates : true) memory_of.emplace(node, memory->second);
      if (is_barrier(*node)) written.insert(memory->second);
    }
  }
  return written;
}

/// Evaluates nodes whose inputs are attributes, on demand.
class ConstantEvaluator : public Interpreter {
 public:
  ConstantEvaluator(const torch::nn::Module& module, Graph& graph) : Interpreter(module, graph) {}
  c10::IValue evaluate(Node& node) {
    const auto known = known_.find(&node);
    if (known != known_.end()) return known->second;
    Environment values;
    for (Node* input : node.all_input_nodes()) values.emplace(input, evaluate(*input));
    return known_[&node] = run_one(node, std::move(values));
  }

 private:
  std::unordered_map<const Node*, c10::IValue> known_;
};

}  // namespace detail

FXX_INLINE std::size_t fold_constants(GraphModule& module) {
  Graph& graph = module.graph();
  const std::unordered_set<std::string> written = detail::written_attributes(graph);
  std::vector<bool> constant(graph.index_bound());
  std::vector<Node*> to_fold;
  for (Node* node : graph.nodes()) {
    if (const auto* attribute = std::get_if<GetAttr>(&node->op())) {
      constant[node->index()] = !written.contains(attribute->target);
      continue;
    }
    const Operator* op = operator_of(*node);
    if (!op || is_impure(*node) || has(op->traits, Trait::random) || node->all_input_nodes().empty()) continue;
    bool all = true;
    for (const Node* input : node->all_input_nodes()) all = all && constant[input->index()];
    constant[node->index()] = all;
  }
  for (Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (!constant[node->index()] || node->opcode() == Opcode::get_attr) continue;
    // Tensors only; a tuple or list is folded by the items that are taken from it.
    if (op->name != "operator::getitem" &&
        (op->returns.size() != 1 || op->returns[0].type != Type{.base = ValueType::tensor}))
      continue;
    for (const Node* user : node->users())
      if (!constant[user->index()]) {
        to_fold.push_back(node);
        break;
      }
  }
  if (to_fold.empty()) return 0;

  // All values first: when one cannot be computed, nothing has changed.
  const at::NoGradGuard no_grad;
  detail::ConstantEvaluator evaluator(module, graph);
  std::vector<at::Tensor> values;
  for (Node* node : to_fold) values.push_back(evaluator.evaluate(*node).toTensor().contiguous());

  for (std::size_t i = 0; i < to_fold.size(); ++i) {
    Node* node = to_fold[i];
    // Named for what uses it: conv1_weight.
    std::string name = std::string(node->name());
    for (const Node* user : node->users()) {
      if (constant[user->index()]) continue;
      const Operator* op = operator_of(*user);
      for (int p = 0; op && p < op->arity(); ++p)
        if (const Argument* given = argument_of(*user, *op, p); given && given->is_node() && given->node() == node)
          name = std::string(user->name()) + "_" + std::string(op->parameters[static_cast<std::size_t>(p)].name);
      break;
    }
    name = "_folded." + name;
    if (module.owner().tensor(name).defined()) name = module.fresh_name(name + "_");
    module.register_attribute(name, values[i]);
    const InsertPoint point = graph.inserting_before(node);
    Node* read = graph.get_attr(name);
    read->set_tensor_meta(tensor_meta_of(values[i]));
    node->replace_all_uses_with(
        read, [&](Node* user) { return user->index() >= constant.size() || !constant[user->index()]; });
  }
  eliminate_dead_code(graph);
  module.delete_all_unused_submodules();
  return to_fold.size();
}

FXX_INLINE std::string OptimizeReport::to_string() const {
  std::string text;
  for (const Stage& stage : stages)
    text += stage.name + ": " + std::to_string(stage.nodes_before) + " -> " + std::to_string(stage.nodes_after) +
            " nodes" + (stage.fired.empty() ? "" : ", " + stage.fired) + "\n";
  return text;
}
FXX_INLINE OptimizeReport optimize_for_inference(GraphModule& module) {
  OptimizeReport report;
  const auto apply = [&](const char* name, const auto& rules) {
    const rewrite::RewriteReport r = rules.apply(module);
    report.stages.push_back({name, r.nodes_before, r.nodes_after, r.to_string()});
  };
  apply("inference", rules::inference);
  apply("activations", rules::activations);
  apply("attention", rules::attention);
  apply("merge linears", rules::merge_linear);
  const std::size_t before = module.graph().size(), folded = fold_constants(module);
  report.stages.push_back(
      {"fold constants", before, module.graph().size(), folded ? "folded: " + std::to_string(folded) : ""});
  return report;
}

}  // namespace fxx::inline FXX_ABI
