// Bodies of codegen/members.hpp.
#pragma once

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/members.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// Members that the class has itself, and those of torch::nn::Module that whoever has one calls.
inline constexpr const char* members_of_class[] = {
    "forward", "add", "add_parameter", "add_buffer", "parent", "last",
    "apply", "as", "buffers", "children", "clone", "eval", "is_serializable", "is_training", "load", "modules", "name",
    "named_buffers", "named_children", "named_modules", "named_parameters", "parameters", "pretty_print",
    "register_buffer", "register_module", "register_parameter", "replace_module", "save", "shared_from_this", "to",
    "train", "unregister_module", "weak_from_this", "zero_grad"};
}  // namespace detail

FXX_INLINE Members::Members(const Graph& graph, const Owner& owner, const std::string& class_name)
    : taken_(std::begin(detail::members_of_class), std::end(detail::members_of_class)) {
  taken_.insert(class_name);
  for (const Node* node : graph.nodes())
    if (const auto* call = std::get_if<CallModule>(&node->op()))
      add(call->target, owner.find_module(call->target), nullptr);
  for (const Node* node : graph.nodes())
    if (const auto* get = std::get_if<GetAttr>(&node->op())) {
      const AttributeInfo* attribute = owner.find_attribute(get->target);
      if (!holder(get->target)) add(get->target, owner.find_module(get->target), attribute);
      else if (attribute && attribute->kind != AttributeInfo::Kind::parameter) inner_buffers_.insert(get->target);
    }
}

FXX_INLINE std::string Members::expression(const std::string& name) const {
  if (const Member* own = find(name)) return "this->" + own->identifier;
  const Member& module = *holder(name);
  const std::string inner = name.substr(module.name.size() + 1);
  // Members of the modules that are one operator are public and named as they are registered.
  if (module.module && module.module->operation && is_cpp_name(inner))
    return "this->" + module.identifier + "->" + inner;
  return "torch::Tensor(this->" + module.identifier + "->named_" +
         (inner_buffers_.contains(name) ? "buffers" : "parameters") + "()[" + cpp_string(inner) + "])";
}

FXX_INLINE const Members::Member* Members::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}
FXX_INLINE const Members::Member* Members::holder(std::string_view name) const {
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
    if (const Member* member = find(name.substr(0, dot)); member && member->module) return member;
  return nullptr;
}
FXX_INLINE void Members::add(const std::string& name, const ModuleInfo* module, const AttributeInfo* attribute) {
  if (find(name)) return;
  std::string identifier = cpp_identifier(name);
  for (int i = 1; !taken_.insert(identifier).second; ++i) identifier = cpp_identifier(name) + "_" + std::to_string(i);
  by_name_.emplace(name, members_.size());
  members_.push_back({name, identifier, module, attribute});
}

}  // namespace fxx::inline FXX_ABI
