// Bodies of torch/dispatch/training_flags.hpp.
#pragma once

#include <algorithm>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE int flag_parameter(const Operator& op) {
  for (const std::string_view name : {"train", "training", "use_input_stats"})
    if (const int i = op.index_of(name); i >= 0) return i;
  return -1;
}

FXX_INLINE std::vector<FlagUse> flag_uses(const Graph& graph) {
  std::vector<FlagUse> uses;
  for (const Node* node : graph.nodes()) {
    if (node->opcode() != Opcode::call_function || !node->operation()) continue;
    const Operator& op = *node->operation();
    const int i = flag_parameter(op);
    if (i < 0) continue;
    bool idle = false;  // dropout of nothing
    for (const std::string_view name : {"p", "dropout"})
      if (const int p = op.index_of(name); p >= 0) {
        const Argument probability = argument_or_default(*node, op, p);
        idle = idle || (probability.is_number() && probability.number() == 0);
      }
    if (idle) continue;
    const Argument value = argument_or_default(*node, op, i);
    if (value.kind() == Argument::Kind::boolean) uses.push_back({std::string(node->name()), op.id, value.boolean()});
  }
  return uses;
}

FXX_INLINE FlagOwners find_flag_owners(torch::nn::Module& root, const ModuleOwner& owner,
                                       const std::vector<FlagUse>& uses,
                                       const std::function<std::vector<FlagUse>()>& record) {
  const auto unclear = [](const std::string& why) {
    throw TraceError(ErrorId::training_flag_unknown,
                     "trace: which training flags the operators follow cannot be told, " + why);
  };
  // Whose flag may be asked for: all but modules that are one operator which has none. Codes count from 1, since no
  // change at all is that of a literal.
  std::vector<std::string> names{""};
  std::vector<bool> flags_before{root.is_training()};
  std::unordered_map<const torch::nn::Module*, std::size_t> codes{{&root, 1}};
  for (const auto& item : root.named_modules({}, false)) {
    const ModuleInfo* info = is_leaf_module(*item.value()) ? owner.find_module(item.key()) : nullptr;
    const bool follows = !info || !info->operation ||
                         std::any_of(info->parts.begin(), info->parts.end(), [](const ModuleInfo::Part& part) {
                           return part.kind == ModuleInfo::Part::Kind::training;
                         });
    if (!follows || !codes.emplace(item.value().get(), names.size() + 1).second) continue;
    names.push_back(item.key());
    flags_before.push_back(item.value()->is_training());
  }

  std::vector<std::size_t> spelled(uses.size());
  std::vector<bool> turns(uses.size(), true), changes(uses.size(), false);
  TrainingFlags flags(root);
  std::size_t bit = 0;
  for (; (names.size() >> bit) > 0; ++bit) {
    std::vector<bool> shown(uses.size());
    // The second run has every flag turned: a flag made from several does not turn with them.
    for (const bool turned : {false, true}) {
      if (!flags.set([&](const torch::nn::Module* module) {
            const auto code = codes.find(module);
            return ((code == codes.end() ? 0 : code->second >> bit & 1) != 0) != turned;
          }))
        unclear("a module's train() sets other flags than it is asked to");
      const std::vector<FlagUse> now = record();
      if (now.size() != uses.size()) unclear("the code calls other operators when it trains");
      for (std::size_t i = 0; i < uses.size(); ++i) {
        if (now[i].operation != uses[i].operation) unclear("the code calls other operators when it trains");
        if (!turned) shown[i] = now[i].value;
        else if (now[i].value == shown[i]) turns[i] = false;
        if (now[i].value != uses[i].value) changes[i] = true;
      }
    }
    for (std::size_t i = 0; i < uses.size(); ++i) spelled[i] |= static_cast<std::size_t>(shown[i]) << bit;
  }
  FlagOwners out{std::vector<FlagOwner>(uses.size()), flags.own_train()};
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (!changes[i]) continue;
    out.of_uses[i].kind = FlagOwner::Kind::unknown;
    if (!turns[i] || spelled[i] < 1 || spelled[i] > names.size() || flags_before[spelled[i] - 1] != uses[i].value)
      continue;
    out.of_uses[i] = {FlagOwner::Kind::module, names[spelled[i] - 1]};
  }
  return out;
}

// --- the other mode --------------------------------------------------------------------------------------------------

FXX_INLINE void in_other_mode(torch::nn::Module& root, const std::function<void(bool)>& run) {
  const bool trains = !root.is_training();
  TrainingFlags flags(root);
  const bool alike = flags.are_alike(), as_asked = flags.set([&](const torch::nn::Module*) { return trains; });
  run(alike && as_asked);
}

FXX_INLINE bool counts_batches(const Node& node) {
  const Node* counter = &node;
  while (counter->operation() && counter->operation()->base_name() == "add_" && counter->arg(0).is_node())
    counter = counter->arg(0).node();
  const auto* attribute = std::get_if<GetAttr>(&counter->op());
  return attribute && attribute->target.ends_with(batch_count);
}

FXX_INLINE std::pair<const Node*, const Node*> first_difference(const Graph& a, const Graph& b) {
  std::unordered_map<const Node*, const Node*> of_b;
  const auto same_node = [&](const Node* x, const Node* y) {
    const auto known = of_b.find(x);
    return known != of_b.end() && known->second == y;
  };
  const auto same = [&](const auto& self, const Argument& x, const Argument& y) -> bool {
    if (x.is_node() && y.is_node()) return same_node(x.node(), y.node());
    if (x.kind() != y.kind()) return false;
    if (!x.is_sequence()) {
      // Of dictionaries and slices that hold nodes, the nodes alone.
      std::vector<const Node*> left, right;
      for_each_node(x, [&](const Node* node) { left.push_back(node); });
      for_each_node(y, [&](const Node* node) { right.push_back(node); });
      if (left.empty() && right.empty()) return x == y;
      return std::equal(left.begin(), left.end(), right.begin(), right.end(), same_node);
    }
    const auto xs = x.items(), ys = y.items();
    return std::equal(xs.begin(), xs.end(), ys.begin(), ys.end(),
                      [&](const Argument& i, const Argument& j) { return self(self, i, j); });
  };
  auto x = a.nodes().begin(), y = b.nodes().begin();
  for (;; ++x, ++y) {
    while (x != a.nodes().end() && counts_batches(**x)) ++x;
    while (y != b.nodes().end() && counts_batches(**y)) ++y;
    const Node* left = x == a.nodes().end() ? nullptr : *x;
    const Node* right = y == b.nodes().end() ? nullptr : *y;
    if (!left || !right) return {left, right};
    const std::pair<const Node*, const Node*> found{left, right};
    const Operator* op = left->operation();
    if (left->opcode() != right->opcode() || op != right->operation()) return found;
    if (op) {
      const int flag = flag_parameter(*op);
      for (int i = 0; i < static_cast<int>(op->parameters.size()); ++i)
        if (i != flag && !same(same, argument_or_default(*left, *op, i), argument_or_default(*right, *op, i)))
          return found;
    } else if (left->target() != right->target() || left->args().size() != right->args().size() ||
               !std::equal(left->args().begin(), left->args().end(), right->args().begin(),
                           [&](const Argument& i, const Argument& j) { return same(same, i, j); })) {
      return found;
    }
    of_b.emplace(left, right);
  }
}

}  // namespace fxx::inline FXX_ABI::detail
