// Bodies of torch/nn.hpp.
#pragma once

#include "fxx/error.hpp"
#include "fxx/torch/nn.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE ModuleTracer& module_tracer_of(Tracer& tracer, const torch::nn::Module& module, const char* what) {
  if (auto* found = dynamic_cast<ModuleTracer*>(&tracer)) return *found;
  throw TraceError(ErrorId::module_not_in_root,
                   "nn::leaf: a " + module_type_name(module) + " is " + what +
                       " while a plain callable is traced; trace a module that it is registered in",
                   Tracer::context());
}

FXX_INLINE TracedArgument record_leaf_call(torch::nn::Module& module, std::span<const Operand* const> operands) {
  ModuleTracer& tracer = module_tracer_of(tracer_of(operands), module, "called");
  std::vector<Argument> args;
  for (const Operand* operand : operands) args.push_back(tracer.create_arg(*operand));
  return {tracer, tracer.record_module(module, {}, args)};
}

FXX_INLINE Argument module_argument(Tracer& tracer, const torch::nn::Module& module) {
  ModuleTracer& owner = module_tracer_of(tracer, module, "passed to a function");
  return owner.create_proxy(GetAttr{owner.path_of_module(module)}, {});
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
