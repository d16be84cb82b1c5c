// Bodies of torch/script.hpp.
#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>

#include <map>
#include <ostream>

#include "fxx/torch/dispatch/script_watch.hpp"
#include "fxx/torch/script.hpp"

namespace fxx::inline FXX_ABI::nn {

namespace detail {
/// The training flag of a script module alone, without those of its submodules; null where it has none.
FXX_INLINE const c10::IValue* training_flag(const torch::jit::Module& module) {
  const auto slot = module._ivalue()->type()->findAttributeSlot("training");
  const c10::IValue* flag = slot ? &module._ivalue()->getSlot(*slot) : nullptr;
  return flag && flag->isBool() ? flag : nullptr;
}
FXX_INLINE void set_training_flag(const torch::jit::Module& module, bool on) {
  const c10::IValue* flag = training_flag(module);
  if (!flag || flag->toBool() == on) return;
  // A trace puts attributes back to what they were before its first call, or before this.
  fxx::detail::watch_script_objects(module._ivalue());
  module._ivalue()->setSlot(module._ivalue()->type()->getAttributeSlot("training"), on);
}

/// A submodule of a script, which has its training flag.
class ScriptPart final : public torch::nn::Module {
 public:
  explicit ScriptPart(torch::jit::Module module) : torch::nn::Module("Script"), module_(std::move(module)) {}
  void train(bool on = true) override {
    torch::nn::Module::train(on);
    set_training_flag(module_, on);
  }
  bool is_training() const noexcept override {
    const c10::IValue* flag = training_flag(module_);
    return flag ? flag->toBool() : torch::nn::Module::is_training();
  }

 private:
  torch::jit::Module module_;
};

/// Registers what a script module has, by name and depth. A submodule that has several names is one part.
using ScriptParts = std::map<const void*, std::shared_ptr<ScriptPart>>;
FXX_INLINE void mirror(const torch::jit::Module& from, torch::nn::Module& to, ScriptParts& parts) {
  for (const auto& parameter : from.named_parameters(false))
    to.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  for (const auto& buffer : from.named_buffers(false)) to.register_buffer(buffer.name, buffer.value);
  for (const auto& child : from.named_children()) {
    std::shared_ptr<ScriptPart>& part = parts[child.value._ivalue().get()];
    if (!part) {
      part = std::make_shared<ScriptPart>(child.value);
      mirror(child.value, *part, parts);
    }
    to.register_module(child.name, part);
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
  detail::ScriptParts parts;
  detail::mirror(module_, *this, parts);
}

FXX_INLINE c10::IValue ScriptImpl::run(std::vector<c10::IValue> inputs) { return module_.forward(std::move(inputs)); }

FXX_INLINE void ScriptImpl::train(bool on) {
  torch::nn::Module::train(on);
  detail::set_training_flag(module_, on);
}

FXX_INLINE bool ScriptImpl::is_training() const noexcept {
  const c10::IValue* flag = detail::training_flag(module_);
  return flag ? flag->toBool() : torch::nn::Module::is_training();
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

namespace detail {
/// The C++ type of a value of TorchScript; "auto" for those that graphs do not tell apart.
FXX_INLINE std::string cpp_type_of(const c10::Type& type) {
  const auto items = [&](const char* of) {
    std::string text;
    for (const c10::TypePtr& item : type.containedTypes()) text += (text.empty() ? "" : ", ") + cpp_type_of(*item);
    return of + ("<" + text + ">");
  };
  switch (type.kind()) {
    case c10::TypeKind::TensorType: return "torch::Tensor";
    case c10::TypeKind::FloatType: return "double";
    case c10::TypeKind::IntType: return "int64_t";
    case c10::TypeKind::BoolType: return "bool";
    case c10::TypeKind::NumberType: return "torch::Scalar";
    case c10::TypeKind::StringType: return "std::string";
    case c10::TypeKind::NoneType: return "void";
    case c10::TypeKind::ListType: return items("std::vector");
    case c10::TypeKind::TupleType: return items("std::tuple");
    case c10::TypeKind::OptionalType: return items("std::optional");
    default: return "auto";
  }
}
}  // namespace detail

FXX_INLINE void ScriptObject::note_result(const std::string& method, Node& node) const {
  const torch::jit::Function* function = get()->object().toObjectRef().type()->findMethod(method);
  if (!function || function->getSchema().returns().size() != 1) return;
  const std::string type = detail::cpp_type_of(*function->getSchema().returns()[0].type());
  if (type != "auto" && type != "torch::Tensor") node.set_type(type);
}

FXX_INLINE void ScriptObjectImpl::pretty_print(std::ostream& stream) const {
  stream << "fxx::nn::ScriptObject(" << object_.toObjectRef().type()->name()->qualifiedName() << ")";
}

FXX_INLINE std::shared_ptr<torch::nn::Module> ScriptObjectImpl::clone(const std::optional<torch::Device>&) const {
  return std::make_shared<ScriptObjectImpl>(object_);
}

}  // namespace fxx::inline FXX_ABI::nn
