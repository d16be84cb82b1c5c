// Bodies of torch/module_owner.hpp.
#pragma once

#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE ModuleOwner::ModuleOwner(const torch::nn::Module& root, std::string class_name)
    : class_name_(class_name.empty() ? module_type_name(root) : std::move(class_name)) {
  const auto add = [&](const std::string& name, const at::Tensor& tensor, AttributeInfo::Kind kind) {
    if (!tensor.defined()) return;
    by_name_.emplace(name, tensor);
    attributes_.emplace(name, AttributeInfo{name, kind, tensor_meta_of(tensor)});
    if (tensor_names_.emplace(tensor.unsafeGetTensorImpl(), name).second) tensors_.emplace_back(name, tensor);
  };
  for (const auto& item : root.named_parameters()) add(item.key(), item.value(), AttributeInfo::Kind::parameter);
  for (const auto& item : root.named_buffers()) add(item.key(), item.value(), AttributeInfo::Kind::buffer);
  module_names_.emplace(&root, "");
  for (const auto& item : root.named_modules({}, false)) {
    modules_by_name_.emplace(item.key(), item.value());
    if (module_names_.emplace(item.value().get(), item.key()).second) modules_.emplace_back(item.key(), item.value());
  }
}

FXX_INLINE const AttributeInfo* ModuleOwner::find_attribute(std::string_view name) const {
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? nullptr : &found->second;
}
FXX_INLINE const ModuleInfo* ModuleOwner::find_module(std::string_view name) const {
  const auto found = modules_by_name_.find(name);
  return found == modules_by_name_.end() ? nullptr : &describe(found->first, *found->second);
}
FXX_INLINE std::vector<const ModuleInfo*> ModuleOwner::leaf_modules() const {
  std::vector<const ModuleInfo*> leaves;
  for (const auto& [name, module] : modules_)
    if (is_leaf_module(*module)) leaves.push_back(&describe(name, *module));
  return leaves;
}

FXX_INLINE const ModuleInfo& ModuleOwner::describe(const std::string& name, const torch::nn::Module& module) const {
  std::lock_guard lock(mutex_);
  const auto known = infos_.find(name);
  if (known != infos_.end() && known->second.training == module.is_training()) return known->second;
  // Members of a shared module carry the names under which they were met first.
  ModuleInfo info = describe_module(module, name, [&](const at::Tensor& tensor) { return name_of(tensor); });
  for (const ModuleInfo::Part& part : info.parts)
    if (part.kind == ModuleInfo::Part::Kind::attribute && part.attribute.empty()) info.operation = nullptr;  // replaced behind our back
  return infos_[name] = std::move(info);
}

FXX_INLINE at::Tensor ModuleOwner::tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? at::Tensor() : found->second;
}
FXX_INLINE std::shared_ptr<torch::nn::Module> ModuleOwner::module(std::string_view name) const {
  const auto found = modules_by_name_.find(name);
  return found == modules_by_name_.end() ? nullptr : found->second;
}
FXX_INLINE std::string ModuleOwner::name_of(const at::Tensor& tensor) const {
  const auto found = tensor_names_.find(tensor.unsafeGetTensorImpl());
  return found == tensor_names_.end() ? std::string() : found->second;
}
FXX_INLINE const std::string* ModuleOwner::name_of(const torch::nn::Module* module) const {
  const auto found = module_names_.find(module);
  return found == module_names_.end() ? nullptr : &found->second;
}

}  // namespace fxx::inline FXX_ABI
