// Bodies of torch/containers.hpp.
#pragma once

#include <ostream>

#include "fxx/torch/containers.hpp"

namespace fxx::inline FXX_ABI::nn {

FXX_INLINE void SequentialImpl::add(std::string name, std::shared_ptr<torch::nn::Module> module) {
  TORCH_CHECK(module, "an empty module holder cannot go into a Sequential");
  register_module(std::move(name), module);
  modules_.push_back(std::move(module));
}

FXX_INLINE void SequentialImpl::pretty_print(std::ostream& stream) const { stream << "fxx::nn::Sequential"; }

FXX_INLINE std::shared_ptr<torch::nn::Module> SequentialImpl::clone(const std::optional<torch::Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  copy->train(is_training());
  for (const auto& child : named_children()) copy->add(child.key(), child.value()->clone(device));
  return copy;
}

}  // namespace fxx::inline FXX_ABI::nn
