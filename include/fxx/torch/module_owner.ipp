// Bodies of torch/module_owner.hpp.
#pragma once

#include <algorithm>
#include <utility>

#include "fxx/error.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE void require_depth(const std::string& name, std::string_view class_name) {
  if (name.size() <= 2 * most_nested_modules ||
      static_cast<std::size_t>(std::count(name.begin(), name.end(), '.')) < most_nested_modules)
    return;
  throw GraphError(ErrorId::nested_too_deep, "ModuleOwner: " + std::string(class_name) +
                                                 " has submodules nested more than " +
                                                 std::to_string(most_nested_modules) + " deep ('" + name.substr(0, 60) +
                                                 "...'), so one of them holds itself; register each module below "
                                                 "modules that it does not hold");
}

FXX_INLINE void NestedCall::nested_too_deep(const char* what) {
  throw GraphError(ErrorId::nested_too_deep, std::string(what) + " are nested more than " +
                                                 std::to_string(most_nested_modules) +
                                                 " deep, so a module calls itself, or one that calls it; take that call "
                                                 "out of its graph, or the module from among its own submodules");
}

FXX_INLINE bool holds(const torch::nn::Module& tree, const torch::nn::Module& wanted) {
  bool found = &tree == &wanted;
  const std::string type = module_type_name(tree);
  if (!found)
    tree.apply([&](const std::string& name, const torch::nn::Module& module) {
      require_depth(name, type);
      found = found || &module == &wanted;
    });
  return found;
}

}  // namespace detail

FXX_INLINE ModuleOwner::ModuleOwner(const torch::nn::Module& root, std::string class_name)
    : class_name_(class_name.empty() ? module_type_name(root) : std::move(class_name)), root_(&root) {
  // The root's own tensors are read now, since it may be gone later; submodules are kept.
  for (const auto& item : detail::registered_parameters(root))
    root_tensors_.push_back({item.key(), item.value(), item.value(), AttributeInfo::Kind::parameter});
  for (const auto& item : detail::registered_buffers(root))
    root_tensors_.push_back({item.key(), item.value(), item.value(), AttributeInfo::Kind::buffer});
  for (const detail::TensorMember& member : detail::tensor_members(root))
    for (RootTensor& tensor : root_tensors_)
      if (tensor.name == member.name) tensor.tensor = *member.member;
  // What named_modules() gives, which copies every name into a dictionary.
  for (const auto& child : root.named_children())
    child.value()->apply(
        [this](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
          detail::require_depth(name, class_name_);
          modules_.push_back(Submodule{name, module, true});
        },
        child.key());
  by_module_.reserve(modules_.size());
  for (Submodule& submodule : modules_) submodule.first = by_module_.emplace(submodule.module.get(), &submodule).second;
}

FXX_INLINE void ModuleOwner::read_tensors() const {
  std::call_once(read_, [this] {
    std::unordered_map<const Submodule*, std::vector<detail::TensorMember>> members;
    for (const Submodule& submodule : modules_)
      if (auto found = detail::tensor_members(*submodule.module); !found.empty())
        members.emplace(&submodule, std::move(found));
    std::vector<Tensor> other;
    const auto read = [&](std::string name, const at::Tensor& member, const at::Tensor& registered, auto kind) {
      if (member.is_same(registered)) insert({std::move(name), member, kind, registered});
      else other.push_back({std::move(name), member, kind, registered});
    };
    for_each_tensor([&](const Submodule* submodule, const std::string& own, const at::Tensor& registered, auto kind) {
      if (!submodule) {
        const auto root = std::find_if(root_tensors_.begin(), root_tensors_.end(),
                                       [&](const RootTensor& tensor) { return tensor.name == own; });
        return read(own, root->tensor, registered, kind);
      }
      std::string name = submodule->name + "." + own;
      if (const auto found = members.find(submodule); found != members.end())
        for (const detail::TensorMember& member : found->second)
          if (member.name == own) {
            members_.push_back({name, member.member, *member.member});
            return read(std::move(name), *member.member, registered, kind);
          }
      read(std::move(name), registered, registered, kind);
    });
    // A tensor that is registered elsewhere, as tied weights are, keeps the name that it has there.
    for (Tensor& entry : other) insert(std::move(entry));
    is_read_ = true;
  });
}
template <class F>
void ModuleOwner::for_each_tensor(F&& f) const {
  for (const auto kind : {AttributeInfo::Kind::parameter, AttributeInfo::Kind::buffer}) {
    for (const RootTensor& tensor : root_tensors_)
      if (tensor.kind == kind) f(nullptr, tensor.name, tensor.registered, kind);
    for (const Submodule& submodule : modules_)
      for (const auto& item : kind == AttributeInfo::Kind::parameter
                                  ? detail::registered_parameters(*submodule.module)
                                  : detail::registered_buffers(*submodule.module))
        f(&submodule, item.key(), item.value(), kind);
  }
}
FXX_INLINE bool ModuleOwner::knows_tensors_of(const torch::nn::Module& root) const {
  read_tensors();
  const ModuleOwner now(root, class_name_);
  // In the same order, nearly always.
  bool same = true;
  auto known = tensors_.begin();
  now.for_each_tensor([&](const Submodule* submodule, const std::string& own, const at::Tensor& tensor, auto) {
    if (!tensor.defined()) return;
    const std::size_t path = submodule ? submodule->name.size() + 1 : 0;
    same = same && known != tensors_.end() && known->registered.is_same(tensor) &&
           known->name.size() == path + own.size() && known->name.ends_with(own) &&
           (!submodule || known->name.starts_with(submodule->name));
    if (same) ++known;
  });
  if (same) return true;
  return std::all_of(now.tensors().begin(), now.tensors().end(), [&](const Tensor& entry) {
    const auto before = by_name_.find(entry.name);
    return !entry.registered.defined() ||
           (before != by_name_.end() && before->second->registered.is_same(entry.registered));
  });
}
FXX_INLINE bool ModuleOwner::is_current() const {
  if (!is_read_) return true;
  bool same = true;
  for (const MemberRead& member : members_) same &= member.place->is_same(member.was);
  return same;
}
FXX_INLINE const at::Tensor* ModuleOwner::member(std::string_view name) const {
  read_tensors();
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const MemberRead& member) { return member.name == name; });
  return found == members_.end() ? nullptr : found->place;
}
FXX_INLINE void ModuleOwner::insert(Tensor given) const {
  if (!given.tensor.defined()) return;
  const Tensor& entry = tensors_.emplace_back(std::move(given));
  by_name_.emplace(entry.name, &entry);
  by_tensor_.emplace(entry.tensor.unsafeGetTensorImpl(), &entry);
}
FXX_INLINE void ModuleOwner::add(const std::string& name, const at::Tensor& tensor, AttributeInfo::Kind kind) {
  read_tensors();
  if (!by_name_.contains(name)) insert({name, tensor, kind, tensor});
}
FXX_INLINE ModuleOwner::Submodule* ModuleOwner::find(std::string_view name) const {
  std::call_once(named_, [this] {
    modules_by_name_.reserve(modules_.size());
    for (Submodule& submodule : modules_) modules_by_name_.emplace(submodule.name, &submodule);
  });
  const auto found = modules_by_name_.find(name);
  return found == modules_by_name_.end() ? nullptr : found->second;
}

FXX_INLINE const AttributeInfo* ModuleOwner::find_attribute(std::string_view name) const {
  read_tensors();
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  const Tensor& entry = *found->second;
  std::lock_guard lock(mutex_);
  const auto [known, fresh] = infos_.try_emplace(entry.name);
  AttributeInfo& info = known->second;
  if (fresh) info.name = entry.name, info.kind = entry.kind;
  // The module may have been converted or frozen since.
  if (TensorMeta meta = tensor_meta_of(entry.tensor); info.meta != meta) info.meta = std::move(meta);
  return &info;
}
FXX_INLINE const ModuleInfo* ModuleOwner::find_module(std::string_view name) const {
  Submodule* found = find(name);
  return found ? &describe(*found) : nullptr;
}
FXX_INLINE std::vector<const ModuleInfo*> ModuleOwner::leaf_modules() const {
  std::vector<const ModuleInfo*> leaves;
  for (Submodule& submodule : modules_)
    if (submodule.first && is_leaf_module(*submodule.module)) leaves.push_back(&describe(submodule));
  return leaves;
}

FXX_INLINE const ModuleInfo& ModuleOwner::describe(Submodule& submodule) const {
  std::lock_guard lock(mutex_);
  const auto is_as_described = [&] {
    return std::all_of(submodule.described.begin(), submodule.described.end(),
                       [](const auto& member) { return member.first->is_same(member.second); });
  };
  if (submodule.info && submodule.info->training == submodule.module->is_training() && is_as_described())
    return *submodule.info;
  submodule.described.clear();
  for (const detail::TensorMember& member : detail::tensor_members(*submodule.module))
    submodule.described.emplace_back(member.member, *member.member);
  // Members of a shared module carry the names under which they were met first.
  ModuleInfo info =
      describe_module(*submodule.module, submodule.name, [&](const at::Tensor& tensor) { return name_of(tensor); });
  const auto registers = [&](const at::Tensor& tensor) {
    const auto is_tensor = [&](const auto& own) { return own.value().is_same(tensor); };
    const auto& parameters = detail::registered_parameters(*submodule.module);
    const auto& buffers = detail::registered_buffers(*submodule.module);
    return std::any_of(parameters.begin(), parameters.end(), is_tensor) ||
           std::any_of(buffers.begin(), buffers.end(), is_tensor);
  };
  for (const ModuleInfo::Part& part : info.parts) {
    if (part.kind != ModuleInfo::Part::Kind::attribute) continue;
    if (part.attribute.empty()) info.operation = nullptr;  // replaced behind our back
    else if (!part.attribute.starts_with(submodule.name + ".") && !registers(tensor(part.attribute)))
      info.borrows = true;
  }
  return submodule.info.emplace(std::move(info));
}

FXX_INLINE at::Tensor ModuleOwner::tensor(std::string_view name) const {
  read_tensors();
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? at::Tensor() : found->second->tensor;
}
FXX_INLINE bool ModuleOwner::is_parameter(std::string_view name) const {
  read_tensors();
  const auto found = by_name_.find(name);
  return found != by_name_.end() && found->second->kind == AttributeInfo::Kind::parameter;
}
FXX_INLINE std::shared_ptr<torch::nn::Module> ModuleOwner::module(std::string_view name) const {
  const Submodule* found = find(name);
  return found ? found->module : nullptr;
}
FXX_INLINE std::string ModuleOwner::name_of(const at::Tensor& tensor) const {
  read_tensors();
  const auto found = by_tensor_.find(tensor.unsafeGetTensorImpl());
  return found == by_tensor_.end() ? std::string() : found->second->name;
}
FXX_INLINE const std::string* ModuleOwner::name_of(const torch::nn::Module* module) const {
  if (module == root_) return &root_name_;
  const auto found = by_module_.find(module);
  return found == by_module_.end() ? nullptr : &found->second->name;
}
FXX_INLINE bool ModuleOwner::may_borrow() const {
  return std::any_of(modules_.begin(), modules_.end(), [](const Submodule& submodule) {
    return submodule.first && detail::uses_unregistered(*submodule.module);
  });
}
FXX_INLINE std::string ModuleOwner::fresh_name(std::string_view prefix, std::size_t& next) const {
  std::string name;
  do name = std::string(prefix) + std::to_string(next++);
  while (tensor(name).defined() || find(name));
  return name;
}

}  // namespace fxx::inline FXX_ABI
