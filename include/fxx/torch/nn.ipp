// Bodies of torch/nn.hpp.
#pragma once

#include <map>
#include <mutex>
#include <typeindex>

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
  return {tracer, tracer.record_module(module, {}, arguments_of(tracer, operands))};
}

class Recorders {
 public:
  static Recorders& instance() {
    static Recorders recorders;
    return recorders;
  }
  void add(std::type_index type, RecordModule record) {
    std::lock_guard lock(mutex_);
    all_.emplace(type, record);
  }
  RecordModule find(const torch::nn::Module& module) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(typeid(module));
    return found == all_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::type_index, RecordModule> all_;
};
FXX_INLINE void register_recorder(const std::type_info& type, RecordModule record) {
  Recorders::instance().add(type, record);
}
FXX_INLINE Argument record_module_with(torch::nn::Module& module, Tracer& tracer, const ModuleForward& forward,
                                       std::span<const Argument> args) {
  return module_tracer_of(tracer, module, "called").record_module(module, forward, args);
}
FXX_INLINE Argument record_any_module(torch::nn::Module& module, Tracer& tracer, std::span<const Argument> args) {
  if (const RecordModule record = Recorders::instance().find(module)) return record(module, tracer, args);
  (void)module_call_of(module);  // a graph could not call it
  return record_module_with(module, tracer, {}, args);
}

FXX_INLINE Argument module_argument(Tracer& tracer, const torch::nn::Module& module) {
  ModuleTracer& owner = module_tracer_of(tracer, module, "passed to a function");
  return owner.create_proxy(GetAttr{owner.path_of_module(module)}, {});
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
