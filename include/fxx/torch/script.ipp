// Bodies of torch/script.hpp.
#pragma once

#include <ostream>

#include "fxx/torch/script.hpp"

namespace fxx::inline FXX_ABI::nn {

namespace detail {
/// Registers what a script module has, by name and depth.
FXX_INLINE void mirror(const torch::jit::Module& from, torch::nn::Module& to) {
  for (const auto& parameter : from.named_parameters(false))
    to.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  for (const auto& buffer : from.named_buffers(false)) to.register_buffer(buffer.name, buffer.value);
  for (const auto& child : from.named_children()) {
    auto part = std::make_shared<torch::nn::Module>("Script");
    mirror(child.value, *part);
    to.register_module(child.name, std::move(part));
  }
}
}  // namespace detail

FXX_INLINE ScriptImpl::ScriptImpl(torch::jit::Module module) : torch::nn::Module("Script"), module_(std::move(module)) {
  static const bool known = [] {
    fxx::detail::register_module_call(typeid(ScriptImpl), [](torch::nn::Module& m, std::vector<c10::IValue> args) {
      return dynamic_cast<ScriptImpl&>(m).run(std::move(args));
    });
    return true;
  }();
  (void)known;
  detail::mirror(module_, *this);
  torch::nn::Module::train(module_.is_training());
}

FXX_INLINE c10::IValue ScriptImpl::run(std::vector<c10::IValue> inputs) { return module_.forward(std::move(inputs)); }

FXX_INLINE void ScriptImpl::train(bool on) {
  torch::nn::Module::train(on);
  module_.train(on);
}

FXX_INLINE void ScriptImpl::pretty_print(std::ostream& stream) const {
  stream << "fxx::nn::Script(" << module_.type()->name()->qualifiedName() << ")";
}

FXX_INLINE std::shared_ptr<torch::nn::Module> ScriptImpl::clone(const std::optional<torch::Device>& device) const {
  torch::jit::Module copy = module_.clone();
  if (device) copy.to(*device);
  return std::make_shared<ScriptImpl>(std::move(copy));
}

FXX_INLINE ScriptObjectImpl::ScriptObjectImpl(c10::IValue object)
    : torch::nn::Module("ScriptObject"), object_(std::move(object)) {
  if (!object_.isObject()) fxx::detail::throw_not_held(object_, "object of TorchScript");
}

FXX_INLINE void ScriptObjectImpl::pretty_print(std::ostream& stream) const {
  stream << "fxx::nn::ScriptObject(" << object_.toObjectRef().type()->name()->qualifiedName() << ")";
}

FXX_INLINE std::shared_ptr<torch::nn::Module> ScriptObjectImpl::clone(const std::optional<torch::Device>&) const {
  return std::make_shared<ScriptObjectImpl>(object_);
}

}  // namespace fxx::inline FXX_ABI::nn
