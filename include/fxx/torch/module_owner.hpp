// What a real module owns, as graphs see it: tensors and leaf modules by qualified name, and the way back by identity.
//
// Main names: ModuleOwner. Built in one walk over the module; a tensor or module reachable by several names has the first one.
// Cost: heavy (torch/nn/module.h).
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "fxx/ir/owner.hpp"
#include "fxx/torch/leaf_modules.hpp"

namespace fxx::inline FXX_ABI {

class ModuleOwner final : public Owner {
 public:
  /// Reads names; keeps tensors and submodules alive, not the root.
  explicit ModuleOwner(const torch::nn::Module& root, std::string class_name = {});

  const AttributeInfo* find_attribute(std::string_view name) const override;
  /// The training flag is the module's present one.
  const ModuleInfo* find_module(std::string_view name) const override;
  std::vector<const ModuleInfo*> leaf_modules() const override;
  std::string class_name() const override { return class_name_; }

  /// Undefined when there is none of that name.
  at::Tensor tensor(std::string_view name) const;
  /// Null when there is none of that name; the root is "".
  std::shared_ptr<torch::nn::Module> module(std::string_view name) const;
  /// Empty when the tensor is none of the module's.
  std::string name_of(const at::Tensor& tensor) const;
  /// Null when it is not in the hierarchy; the root's name is "".
  const std::string* name_of(const torch::nn::Module* module) const;
  /// Every tensor with its first name, parameters before buffers.
  const std::vector<std::pair<std::string, at::Tensor>>& tensors() const { return tensors_; }

 private:
  const ModuleInfo& describe(const std::string& name, const torch::nn::Module& module) const;

  std::string class_name_;
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
  std::map<std::string, AttributeInfo, std::less<>> attributes_;  // by every name
  std::map<std::string, at::Tensor, std::less<>> by_name_;
  std::unordered_map<const c10::TensorImpl*, std::string> tensor_names_;
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> modules_;
  std::map<std::string, std::shared_ptr<torch::nn::Module>, std::less<>> modules_by_name_;
  std::unordered_map<const torch::nn::Module*, std::string> module_names_;
  mutable std::mutex mutex_;  // guards infos_
  mutable std::map<std::string, ModuleInfo, std::less<>> infos_;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/module_owner.ipp"
#endif
