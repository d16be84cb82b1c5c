// Bodies of torch/symbolic_trace.hpp.
#pragma once

#include "fxx/error.hpp"
#include "fxx/torch/symbolic_trace.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE bool ModuleTracer::is_leaf_module(const torch::nn::Module& module, const std::string&) {
  return fxx::is_leaf_module(module);
}

FXX_INLINE std::string ModuleTracer::path_of_module(const torch::nn::Module& module) {
  if (const std::string* name = owner_.name_of(&module)) return *name;
  throw TraceError(ErrorId::module_not_in_root,
                   "ModuleTracer::path_of_module: a " + module_type_name(module) +
                       " is called that is not installed as a submodule of " + owner_.class_name() +
                       "; register it with register_module",
                   context());
}

FXX_INLINE Node* ModuleTracer::call_module(const std::string& qualified_name,
                                           std::span<const Operand* const> operands) {
  std::vector<Argument> args;
  for (const Operand* operand : operands) args.push_back(create_arg(*operand));
  return create_node(CallModule{qualified_name}, args, {}, {},
                     operands.empty() ? std::source_location() : operands[0]->location());
}

FXX_INLINE Node* ModuleTracer::attribute(const void* pointer) {
  const at::Tensor& tensor = *static_cast<const at::Tensor*>(pointer);
  if (!tensor.defined())
    throw TraceError(ErrorId::unsupported_argument,
                     "ModuleTracer::attribute: an undefined tensor is passed to an operator; leave the argument out",
                     context());
  Node*& node = attributes_[tensor.unsafeGetTensorImpl()];
  if (node) return node;
  std::string name = owner_.name_of(tensor);
  if (name.empty()) {
    std::size_t i = 0;
    do name = "_tensor_constant" + std::to_string(i++);
    while (owner_.tensor(name).defined() || constants_.contains(name));
    constants_.emplace(name, tensor);
  }
  node = create_node(GetAttr{name}, {});
  node->set_tensor_meta(tensor_meta_of(tensor));
  return node;
}

}  // namespace fxx::inline FXX_ABI
