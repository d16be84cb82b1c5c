// Bodies of torch/fold_constants.hpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

// after the tensor's own header
#include <ATen/ops/empty_ops.h>

#include <algorithm>
#include <unordered_map>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/sharing.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/written_memory.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

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
  /// Of a node that asks its inputs for nothing but their sizes and dtypes.
  void evaluate_from_sizes(Node& node) {
    Environment values;
    for (Node* input : node.all_input_nodes()) {
      const TensorMeta& meta = *input->tensor_meta();
      values.emplace(input, at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(meta.shape),
                                                                static_cast<at::ScalarType>(meta.dtype), {}, {}, {}, {}));
    }
    known_[&node] = run_one(node, std::move(values));
  }

 private:
  std::unordered_map<const Node*, c10::IValue> known_;
};

/// All elements are one value.
FXX_INLINE bool is_filling(const Operator& op) {
  static constexpr std::string_view names[] = {"zeros",      "ones",      "full",      "zeros_like", "ones_like",
                                               "full_like", "new_zeros", "new_ones", "new_full"};
  return std::ranges::find(names, op.base_name()) != std::end(names);
}
/// A tensor of one value, or of no more than what arguments say; of inputs only sizes and dtype matter.
FXX_INLINE bool is_factory(const Node& node, const Operator& op, const FoldOptions& options) {
  if (!options.known_sizes || !node.tensor_meta() || node.tensor_meta()->is_dynamic() ||
      node.tensor_meta()->numel() > (std::int64_t{1} << 22))
    return false;
  const std::string_view name = op.base_name();
  if (op.name_space() != "aten" || name.starts_with("empty") || name.starts_with("new_empty")) return false;
  for (const Node* input : node.all_input_nodes())
    if (!is_filling(op) || node.all_input_nodes().size() != 1 || !input->tensor_meta() ||
        input->tensor_meta()->is_dynamic())
      return false;
  return op.returns.size() == 1 && op.returns[0].type == Type{.base = ValueType::tensor};
}
/// Does it take one of its tensors as weights, packed? Others read one value as a number, which is faster than memory.
FXX_INLINE bool takes_weights(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op) return false;
  const std::string_view name = op->base_name();
  static constexpr std::string_view products[] = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm"};
  return name.starts_with("conv") || std::ranges::find(products, name) != std::end(products);
}

}  // namespace detail

FXX_INLINE std::size_t fold_constants(GraphModule& module, const FoldOptions& options) {
  module.follow_members();
  Graph& graph = module.graph();
  const detail::WrittenMemory written(module);
  // What is made of floats that are one value is folded for those alone that take it as weights.
  std::vector<bool> constant(graph.index_bound()), of_fillings(graph.index_bound());
  std::vector<Node*> to_fold, factories;
  for (Node* node : graph.nodes()) {
    if (node->opcode() == Opcode::get_attr) {
      constant[node->index()] = !written.holds(*node);
      continue;
    }
    const Operator* op = operator_of(*node);
    if (!op || has_effect(*node) || has(op->traits, Trait::random)) continue;
    if (detail::is_factory(*node, *op, options) && !written.holds(*node)) {
      constant[node->index()] = true;
      of_fillings[node->index()] = detail::is_filling(*op) && node->tensor_meta()->dtype == Dtype::float32;
      factories.push_back(node);
      continue;
    }
    if (node->all_input_nodes().empty()) continue;
    bool all = !written.holds(*node), fillings = false;
    for (const Node* input : node->all_input_nodes()) {
      all = all && constant[input->index()];
      fillings = fillings || of_fillings[input->index()];
    }
    constant[node->index()] = all;
    of_fillings[node->index()] = fillings;
  }
  const std::vector<Node*> nodes = graph.nodes().snapshot();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (of_fillings[(*node)->index()])
      constant[(*node)->index()] = constant[(*node)->index()] && std::ranges::any_of((*node)->users(), [&](Node* user) {
                                     return constant[user->index()] || detail::takes_weights(*user);
                                   });
  for (Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (!constant[node->index()] || node->opcode() == Opcode::get_attr) continue;
    // Tensors only; a tuple or list is folded by the items that are taken from it.
    if (op->name != "operator::getitem" &&
        (op->returns.size() != 1 || op->returns[0].type != Type{.base = ValueType::tensor}))
      continue;
    for (const Node* user : node->users())
      if (!constant[user->index()] && (!of_fillings[node->index()] || detail::takes_weights(*user))) {
        to_fold.push_back(node);
        break;
      }
  }
  if (to_fold.empty()) return 0;
  std::vector<bool> needed(graph.index_bound());
  for (std::vector<const Node*> todo(to_fold.begin(), to_fold.end()); !todo.empty();) {
    const Node* node = todo.back();
    todo.pop_back();
    if (needed[node->index()]) continue;
    needed[node->index()] = true;
    for (const Node* input : node->all_input_nodes()) todo.push_back(input);
  }

  // All values first: when one cannot be computed, nothing has changed.
  const c10::InferenceMode off(false);  // the module keeps them, and may train later
  const at::NoGradGuard no_grad;
  detail::ConstantEvaluator evaluator(module, graph);
  for (Node* node : factories)
    if (needed[node->index()]) evaluator.evaluate_from_sizes(*node);
  std::vector<std::pair<Node*, at::Tensor>> folded;
  for (Node* node : to_fold) {
    const c10::IValue value = evaluator.evaluate(*node);
    // What is taken from a list may be a number, a size say.
    // Who reads the memory sees no bit that says that the elements are others.
    if (value.isTensor() && value.toTensor().defined())
      folded.emplace_back(node, value.toTensor().contiguous().resolve_conj().resolve_neg());
  }
  if (folded.empty()) return 0;

  for (const auto& [node, value] : folded) {
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
    module.register_attribute(name, value);
    const InsertPoint point = graph.inserting_before(node);
    Node* read = graph.get_attr(name);
    read->set_tensor_meta(tensor_meta_of(value));
    // Who gets a result may write to it, as to any fresh tensor.
    if (reaches_output(*node)) {
      read = graph.call_function(ops::clone, {read});
      read->set_tensor_meta(tensor_meta_of(value));
    }
    node->replace_all_uses_with(
        read, [&](Node* user) { return user->index() >= constant.size() || !constant[user->index()]; });
  }
  eliminate_dead_code(graph);
  module.delete_all_unused_submodules();
  return folded.size();
}

FXX_INLINE std::string OptimizeReport::to_string() const {
  std::string text;
  for (const Stage& stage : stages)
    text += stage.name + ": " + std::to_string(stage.nodes_before) + " -> " + std::to_string(stage.nodes_after) +
            " nodes" + (stage.fired.empty() ? "" : ", " + stage.fired) + "\n";
  if (needs != law::exact) text += "holds with " + fxx::to_string(needs) + "\n";
  return text;
}
FXX_INLINE OptimizeReport optimize_for_inference(GraphModule& module, Law assume) {
  OptimizeReport report;
  const auto apply = [&](const char* name, const auto& rules) {
    const rewrite::RewriteReport r = rules.apply(module, {.assume = assume});
    report.needs = report.needs | r.needs;
    report.stages.push_back({name, r.nodes_before, r.nodes_after, r.to_string()});
  };
  apply("inference", rules::inference);
  apply("activations", rules::activations);
  apply("attention", rules::attention);
  apply("merge linears", phases(rules::merge_activation, rules::merge_linear));
  const std::size_t before = module.graph().size(), folded = fold_constants(module);
  report.stages.push_back(
      {"fold constants", before, module.graph().size(), folded ? "folded: " + std::to_string(folded) : ""});
  return report;
}

}  // namespace fxx::inline FXX_ABI
