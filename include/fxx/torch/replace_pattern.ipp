// Bodies of torch/replace_pattern.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/torch/replace_pattern.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE std::vector<std::string> names_in(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node* node : graph.nodes())
    if (node->opcode() == Opcode::get_attr || node->opcode() == Opcode::call_module) names.push_back(node->target());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

FXX_INLINE rewrite::detail::GraphOf opened_pattern(const GraphModule& module, const GraphAndModule& pattern) {
  // A graph without modules is searched for as it is, so that its nodes are those that matches speak of.
  if (!pattern.module && pattern.graph->find_nodes(Opcode::call_module).empty())
    return rewrite::detail::GraphOf(*pattern.graph);
  const Owner* owner = pattern.graph->owning_module() ? pattern.graph->owning_module() : module.graph().owning_module();
  Graph opened(*pattern.graph);
  opened.set_owning_module(owner);
  if (owner) expand_modules(opened, *owner);
  return rewrite::detail::GraphOf(std::move(opened));
}

FXX_INLINE void check_names(const GraphModule& module, const GraphAndModule& replacement) {
  if (replacement.module) return;
  for (const Node* node : replacement.graph->nodes()) {
    if (node->opcode() != Opcode::get_attr && node->opcode() != Opcode::call_module) continue;
    const std::string name = node->target();
    const bool known =
        module.owner().module(name) || (node->opcode() == Opcode::get_attr && module.owner().tensor(name).defined());
    if (!known)
      throw GraphError(ErrorId::attribute_missing,
                       "replace_pattern: the replacement refers to '" + name + "', which " + module.class_name() +
                           " does not have; register it there first, or give the replacement as a module",
                       {format_node(*node)});
  }
}

FXX_INLINE rewrite::detail::GraphOf adopted(GraphModule& module, const GraphAndModule& replacement) {
  if (!replacement.module) return rewrite::detail::GraphOf(*replacement.graph);
  const ModuleOwner& from = replacement.module->owner();
  Graph graph(*replacement.graph);
  std::map<std::string, std::string> roots;  // first parts of names, as they are called in the module
  const auto name_for = [&](const std::string& name) {
    const std::size_t dot = name.find('.');
    const std::string root = name.substr(0, dot);
    auto known = roots.find(root);
    if (known == roots.end()) {
      const bool taken = module.owner().module(root) || module.owner().tensor(root).defined();
      const std::size_t end = root.find_last_not_of("0123456789");
      const std::string stem = end == root.npos ? root + "_" : root.substr(0, end + 1);
      known = roots.emplace(root, taken ? module.fresh_name(stem) : root).first;
    }
    return dot == name.npos ? known->second : known->second + name.substr(dot);
  };
  std::vector<Node*> modules, tensors;
  for (Node* node : graph.nodes()) {
    const bool calls = node->opcode() == Opcode::call_module;
    if (!calls && node->opcode() != Opcode::get_attr) continue;
    if (!calls && from.tensor(node->target()).defined()) tensors.push_back(node);
    else if (from.module(node->target())) modules.push_back(node);
    else
      throw GraphError(ErrorId::attribute_missing,
                       "replace_pattern: the replacement refers to '" + node->target() + "', which " +
                           from.class_name() + " does not have; register it there",
                       {format_node(*node)});
  }
  // Modules first, each before those inside of it: what a module has comes with it, and has the name that it has there.
  std::ranges::stable_sort(modules, {}, [](const Node* node) { return node->target(); });
  for (Node* node : modules) {
    const auto submodule = from.module(node->target());
    const std::string* known = module.owner().name_of(submodule.get());
    const std::string here = known ? *known : name_for(node->target());
    if (!known) module.add_submodule(here, submodule);
    if (node->opcode() == Opcode::call_module) node->set_op(CallModule{here});
    else node->set_op(GetAttr{here});
  }
  for (Node* node : tensors) {
    const std::string name = node->target();
    const at::Tensor tensor = from.tensor(name);
    std::string here = module.owner().name_of(tensor);
    if (here.empty()) {
      here = name_for(name);
      const bool trains = tensor.requires_grad();
      module.register_attribute(here, tensor, from.is_parameter(name));
      if (tensor.requires_grad() != trains) tensor.set_requires_grad(trains);
    }
    node->set_op(GetAttr{here});
  }
  return rewrite::detail::GraphOf(std::move(graph));
}

FXX_INLINE void finish_replacing(GraphModule& module, const std::vector<std::string>& names_before) {
  const std::vector<std::string> names = names_in(module.graph());
  if (!std::includes(names.begin(), names.end(), names_before.begin(), names_before.end()))
    module.delete_all_unused_submodules();
  module.recompile();
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
