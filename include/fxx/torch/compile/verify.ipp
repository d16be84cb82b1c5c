// Whether a compiled module gives the graph's results: each step by itself, and all of it; for torch/compile.ipp.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fxx/torch/compile/call.ipp"
#include "fxx/torch/compile/verify_steps.ipp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void CompiledModule::after_step(kernels::ModuleCall* call, int steps) {
  Host& host = *static_cast<Host*>(call->host);
  if (host.observer->exception) return;
  try {
    host.observer->after_step(host, steps);
  } catch (...) {
    host.observer->exception = std::current_exception();
  }
}

FXX_INLINE void CompiledModule::spoil_memory(const Host& host) const {
  for (const plans::Buffer& buffer : kernels_.buffers)  // what lies between them is a sanitizer's
    if (buffer.kind == plans::Buffer::Kind::arena && buffer.offset >= 0)
      std::memset(host.memory + buffer.offset, 0xff, static_cast<std::size_t>(buffer.bytes()));
    else if (buffer.kind == plans::Buffer::Kind::output)
      std::memset(host.outputs[buffer.number], 0xff, static_cast<std::size_t>(buffer.bytes()));
}

namespace detail {
/// Throws what a step was refused with. Other errors are the check's own, of operators that cannot be run as it runs them:
/// the results as a whole decide then.
FXX_INLINE void refuse_or_pass(const std::exception_ptr& met) {
  try {
    std::rethrow_exception(met);
  } catch (const LoadError&) {
    throw;
  } catch (const std::exception&) {
  }
}
}  // namespace detail

FXX_INLINE bool CompiledModule::can_be_verified_with(const std::vector<at::Tensor>& example_inputs) const {
  return !changes_something_ && std::ranges::none_of(example_inputs, [](const at::Tensor& t) { return is_fake(t); });
}

FXX_INLINE c10::IValue CompiledModule::interpreted_results(const std::vector<at::Tensor>& example_inputs) {
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> inputs(example_inputs.begin(), example_inputs.end());
  Graph reference(graph());
  reference.set_owning_module(graph().owning_module());
  if (keep_order_of_equals(reference, Orders::sorts_and_tops) > 0) return Plan(reference, owner()).run(inputs);
  return GraphModule::run_flat(std::move(inputs));
}

FXX_INLINE void CompiledModule::verify(const std::vector<at::Tensor>& example_inputs, const c10::IValue& expected,
                                       const CompileOptions& options) {
  const double tolerance = options.tolerance.value_or(options.accuracy == Accuracy::fast ? 0.05 : 1e-4);
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> inputs(example_inputs.begin(), example_inputs.end());
  c10::IValue got;
  bool each_step_is_right = false;
  if (std::isinf(tolerance)) {
    got = run_with_kernels(inputs);
  } else {
    detail::StepCheck check(*prepared_, kernels_, example_inputs, options.accuracy);
    Observer observer;
    observer.times.resize(kernels_.steps.size() + 1);
    observer.after_step = [&](const Host& host, int steps) {
      if (steps == 0) spoil_memory(host);
      check.after(steps, [&](const plans::View& view) { return borrowed_at(host, view); });
    };
    got = run_with_kernels(inputs, &observer);
    if (observer.exception) detail::refuse_or_pass(observer.exception);
    each_step_is_right = !observer.exception && check.is_complete();
  }
  max_error_ = detail::relative_error(got, expected);
  if (max_error_ <= tolerance) return;
  // Rewriting or a decision on the way made the difference. Where each step is right, only rewriting can have made a wrong
  // one. Where the interpreter differs as much by roundings alone, so may any program. Each result counts by itself,
  // beside its own magnitude.
  const c10::IValue at_rest = Interpreter(*prepared_).run(inputs);
  const std::vector<double> met = detail::errors_of_tensors(got, expected, expected),
                            by_rewriting = detail::errors_of_tensors(at_rest, expected, expected);
  std::vector<double> explained(met.size());
  std::size_t worst = 0;
  const auto beyond = [&](std::size_t i) {
    const bool is_rewritten_right =
        each_step_is_right && !options.tolerance && by_rewriting.size() == met.size() && by_rewriting[i] <= tolerance;
    return !is_rewritten_right && !(met[i] <= tolerance + 4 * explained[i]);
  };
  const auto enough = [&] {
    for (worst = 0; worst < met.size() && !beyond(worst);) ++worst;
    return worst == met.size();
  };
  double unit = options.accuracy == Accuracy::fast ? 0x1p-8 : 0x1p-21;
  for (const KernelStep& step : kernels_.steps)
    unit = std::max(unit, detail::error_of_step(step, options.accuracy).rounding);
  at::Generator generator = at::detail::createCPUGenerator(1);
  for (int sample = 0; sample < 16 && !enough(); ++sample) {
    std::vector<c10::IValue> near = inputs;
    const c10::IValue moved = detail::RoundingInterpreter(*prepared_, unit, generator).run(std::move(near));
    const std::vector<double> by = detail::errors_of_tensors(moved, at_rest, expected);
    for (std::size_t i = 0; i < explained.size() && by.size() == explained.size(); ++i)
      explained[i] = std::max(explained[i], by[i]);
  }
  if (!enough())
    throw LoadError(ErrorId::result_differs, "compile: the compiled module differs from the interpreter by " +
                                                 repr(met[worst]) +
                                                 " of the largest magnitude, where roundings in every operator make " +
                                                 repr(explained[worst]) + "; the tolerance is " + repr(tolerance) +
                                                 " (CompileOptions::tolerance). The library is at " + library_.path());
}

}  // namespace fxx::inline FXX_ABI
