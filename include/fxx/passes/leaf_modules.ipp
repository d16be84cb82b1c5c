// Bodies of passes/leaf_modules.hpp.
#pragma once

#include <algorithm>
#include <optional>

#include "fxx/ir/names.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/leaf_modules.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

using Part = ModuleInfo::Part;

FXX_INLINE std::size_t input_count(const ModuleInfo& module) {
  return static_cast<std::size_t>(std::count_if(module.parts.begin(), module.parts.end(),
                                                [](const Part& p) { return p.kind == Part::Kind::input; }));
}
FXX_INLINE const std::string* first_attribute(const ModuleInfo& module) {
  for (const Part& part : module.parts)
    if (part.kind == Part::Kind::attribute) return &part.attribute;
  return nullptr;
}
FXX_INLINE Argument value_of(const Part& part, const ModuleInfo& module) {
  return part.kind == Part::Kind::training ? Argument(module.training) : part.constant;
}
FXX_INLINE bool follows_training(const ModuleInfo& module) {
  return std::any_of(module.parts.begin(), module.parts.end(),
                     [](const Part& part) { return part.kind == Part::Kind::training; });
}
/// Is the module's forward its operation and no more, for such an input? Of other dimensions than these a batch norm
/// makes an error; the rest add one in front first, or make an error too. Nothing where the input's are not known.
FXX_INLINE std::optional<bool> is_operation_of(const ModuleInfo& module, const Argument& input) {
  struct Dims {
    std::string_view type;
    std::int64_t lowest, highest;
    bool adds;
  };
  static constexpr Dims all[] = {
      {"torch::nn::BatchNorm1d", 2, 3, false},   {"torch::nn::BatchNorm2d", 4, 4, false},
      {"torch::nn::BatchNorm3d", 5, 5, false},   {"torch::nn::InstanceNorm1d", 3, 3, true},
      {"torch::nn::InstanceNorm2d", 4, 4, true}, {"torch::nn::InstanceNorm3d", 5, 5, true},
      {"torch::nn::Dropout2d", 4, 4, true},      {"torch::nn::Dropout3d", 5, 5, true}};
  const auto dims = std::find_if(std::begin(all), std::end(all), [&](const Dims& d) { return d.type == module.type; });
  if (dims == std::end(all)) return true;
  const TensorMeta* meta = input.is_node() ? input.node()->tensor_meta() : nullptr;
  if (meta) return dims->lowest <= meta->dim() && meta->dim() <= dims->highest;
  return dims->adds ? std::optional<bool>() : true;
}
/// Does parameter `i` have its default, so that it need not be written?
FXX_INLINE bool is_default(const ModuleInfo& module, std::size_t i) {
  const Part& part = module.parts[i];
  const Parameter& parameter = module.operation->parameters[i];
  if (part.kind == Part::Kind::input || part.kind == Part::Kind::attribute || !parameter.has_default()) return false;
  return same_value(value_of(part, module), parameter.standard, parameter.type);
}

/// The same value, as far as the operator can tell: `2` for `[2, 2]`, defaults written out or not.
FXX_INLINE bool same_constant(const Argument& a, const Argument& b, Type type) {
  if (a == b || (a.is_number() && b.is_number() && a.kind() != Argument::Kind::boolean &&
                 b.kind() != Argument::Kind::boolean && equal_numbers(a, b)))
    return true;
  if (!type.list) return false;
  const auto item = [](const Argument& list, std::size_t i) -> const Argument& {
    if (!list.is_sequence()) return list;
    return list.items()[list.items().size() == 1 ? 0 : i];
  };
  const auto size = [](const Argument& list) { return list.is_sequence() ? list.items().size() : std::size_t{1}; };
  if ((size(a) != size(b) && size(a) != 1 && size(b) != 1) || size(a) == 0 || size(b) == 0) return false;
  if (type.list_size == 0 && size(a) != size(b)) return false;
  for (std::size_t i = 0; i < std::max(size(a), size(b)); ++i)
    if (!(item(a, i) == item(b, i))) return false;
  return true;
}

/// Is `node`, a call of `module.operation`, what calling the module does? Fills the inputs.
FXX_INLINE bool calls_like(const Node& node, const ModuleInfo& module, std::vector<Argument>& inputs) {
  inputs.clear();
  const Operator& op = *node.operation();
  for (std::size_t i = 0; i < module.parts.size(); ++i) {
    const Part& part = module.parts[i];
    const Argument given = argument_or_default(node, op, static_cast<int>(i));
    switch (part.kind) {
      case Part::Kind::input: inputs.push_back(given); break;
      case Part::Kind::attribute: {
        if (!given.is_node()) return false;
        const auto* attribute = std::get_if<GetAttr>(&given.node()->op());
        if (!attribute || attribute->target != part.attribute) return false;
        break;
      }
      default:
        if (!same_constant(given, value_of(part, module), op.parameters[i].type)) return false;
    }
  }
  return true;
}

/// The node that adds one to the counter, just in front of the operation; null when there is none.
FXX_INLINE Node* count_before(const Node& node, const std::string& counter) {
  Node* count = node.prev();
  while (count && count->opcode() == Opcode::get_attr) count = count->prev();
  const Operator* op = count ? operator_of(*count) : nullptr;
  if (!op || op->base_name() != "add_" || count->num_users() != 0 || count->args().size() != 2) return nullptr;
  const Argument &target = count->arg(0), &by = count->arg(1);
  const auto* attribute = target.is_node() ? std::get_if<GetAttr>(&target.node()->op()) : nullptr;
  return attribute && attribute->target == counter && by.is_number() && by.number() == 1 ? count : nullptr;
}

template <class Which>
std::size_t expand_calls(Graph& graph, const Owner& owner, Which which) {
  using Kind = ModuleInfo::Part::Kind;
  std::size_t expanded = 0;
  for (Node* node : graph.nodes()) {
    const auto* call = std::get_if<CallModule>(&node->op());
    const ModuleInfo* module = call ? owner.find_module(call->target) : nullptr;
    if (!module || !which(*module) || !module->operation || !module->counter.empty() || !node->kwargs().empty() ||
        node->args().size() != input_count(*module))
      continue;
    // Dropout that does not train gives back its input, whatever that is.
    const bool idle = has(module->operation->traits, Trait::random) && !module->training;
    if (!idle && !node->args().empty() && !is_operation_of(*module, node->args()[0]).value_or(false)) continue;
    const InsertPoint point = graph.inserting_before(node);
    std::vector<Argument> args;
    std::vector<KeywordArgument> kwargs;
    std::size_t input = 0, last = 0;
    for (std::size_t i = 0; i < module->parts.size(); ++i)
      if (!is_default(*module, i)) last = i + 1;
    for (std::size_t i = 0; i < last; ++i) {
      const ModuleInfo::Part& part = module->parts[i];
      const Parameter& parameter = module->operation->parameters[i];
      Argument value;
      if (part.kind == Kind::input) {
        value = node->args()[input++];
      } else if (part.kind == Kind::attribute) {
        Node* attribute = graph.get_attr(part.attribute);
        if (const AttributeInfo* info = owner.find_attribute(part.attribute)) attribute->set_tensor_meta(info->meta);
        value = attribute;
      } else {
        value = value_of(part, *module);
      }
      if (parameter.keyword_only) kwargs.push_back({parameter.name, std::move(value)});
      else args.push_back(std::move(value));
    }
    node->set_op(CallFunction{module->operation});
    node->set_args_kwargs(args, kwargs);
    ++expanded;
  }
  return expanded;
}

}  // namespace detail

FXX_INLINE std::size_t expand_modules(Graph& graph, const Owner& owner, std::span<const std::string_view> but) {
  return detail::expand_calls(graph, owner, [&](const ModuleInfo& module) {
    return std::find(but.begin(), but.end(), module.type) == but.end();
  });
}
FXX_INLINE std::size_t expand_borrowing_modules(Graph& graph, const Owner& owner) {
  return detail::expand_calls(graph, owner, [](const ModuleInfo& module) {
    return module.borrows && !detail::follows_training(module);
  });
}

FXX_INLINE std::map<std::string, std::string, std::less<>> parameterless_calls(const Graph& graph, const Owner& owner) {
  std::map<std::string, std::string, std::less<>> calls;
  for (const Node* node : graph.nodes())
    if (const auto* call = std::get_if<CallModule>(&node->op())) {
      if (const ModuleInfo* module = owner.find_module(call->target);
          module && module->operation && !detail::first_attribute(*module))
        calls.emplace(node->name(), call->target);
    } else if (const Operator* op = node->operation(); op && has(op->traits, Trait::updates_statistics)) {
      calls.emplace(node->name(), "");
    }
  return calls;
}

FXX_INLINE std::size_t reroll_modules(Graph& graph, const Owner& owner,
                                      const std::map<std::string, std::string, std::less<>>& known) {
  std::multimap<std::string_view, const ModuleInfo*> by_attribute;
  for (const ModuleInfo* module : owner.leaf_modules())
    if (module->operation && !module->borrows)
      if (const std::string* attribute = detail::first_attribute(*module)) by_attribute.emplace(*attribute, module);

  std::size_t rerolled = 0;
  std::vector<Argument> inputs;
  for (Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (!op) continue;
    const auto turn = [&](const ModuleInfo& module) {
      if (!(*module.operation == *op) || !detail::calls_like(*node, module, inputs)) return false;
      if (!inputs.empty() && !detail::is_operation_of(module, inputs[0]).value_or(true)) return false;
      std::vector<Node*> before(node->all_input_nodes().snapshot());
      if (!module.counter.empty()) {
        Node* count = detail::count_before(*node, module.counter);
        if (!count) return false;
        before.push_back(count->arg(0).node());
        graph.erase_node(count);
      }
      // A name that only says which operator it was gives way to the module's.
      if (is_made_from(node->name(), op->base_name())) node->rename(module.name);
      node->set_op(CallModule{module.name});
      node->set_args_kwargs(inputs, {});
      for (Node* input : before)
        if (input->opcode() == Opcode::get_attr && input->num_users() == 0) graph.erase_node(input);
      ++rerolled;
      return true;
    };
    const auto told = known.find(node->name());
    const bool literal = told != known.end() && told->second.empty();
    if (told != known.end() && !literal) {
      if (const ModuleInfo* module = owner.find_module(told->second); module && module->operation && !module->borrows)
        turn(*module);
      continue;
    }
    bool done = false;
    for (Node* input : node->all_input_nodes().snapshot()) {
      const auto* attribute = done || input->is_erased() ? nullptr : std::get_if<GetAttr>(&input->op());
      if (!attribute) continue;
      const auto [first, last] = by_attribute.equal_range(attribute->target);
      for (auto at = first; at != last && !done; ++at)
        done = !(literal && detail::follows_training(*at->second)) && turn(*at->second);
    }
  }
  return rerolled;
}

}  // namespace fxx::inline FXX_ABI
