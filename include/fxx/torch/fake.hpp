// Fake tensors: sizes, strides, dtype and device of a tensor, and no memory. A model made of them is built and traced
// without memory and without computing.
//
// A fake tensor carries the dispatch key `Fake`, which is free in every build of LibTorch. A fallback on it, below
// autograd, runs operators on the meta device, with shape rules where LibTorch has no meta kernels, and gives tensors
// that claim the device that they would be on. docs/fake_tensors.md is the page for users.
// Main names: FakeScope (fxx::fake), fake_like, is_fake, to_fake, register_shape_rule.
// Cost: tensor (ATen/core/Tensor.h, boxing); an operator on fakes takes about 2 us. After torch._subclasses
// FakeTensorMode, 2.13.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/op_registration/infer_schema.h>

#include <string>
#include <type_traits>
#include <utility>

#include "fxx/config.hpp"

namespace torch::nn {
class Module;
}

namespace fxx::inline FXX_ABI {

/// From construction to destruction, what the thread makes is fake: `const fxx::fake on; net = Net(4096);`
///
/// In the scope operators that take no tensor (factories, and so the constructors of modules) give fake tensors. An
/// operator that is given a fake tensor acts fake in the scope and outside, on any thread. What is made of C++ values
/// (torch::tensor, from_blob) stays real, and so does what is computed from real tensors alone. A real tensor that was
/// not made in the scope is not written to: the operator gives it back as it was.
/// `const fxx::fake off(false);` leaves a scope for a while.
class [[nodiscard]] FakeScope {
 public:
  explicit FakeScope(bool enabled = true);
  ~FakeScope();
  FakeScope(const FakeScope&) = delete;
  FakeScope& operator=(const FakeScope&) = delete;

 private:
  bool before_;
};
using fake = FakeScope;

/// Is a fake scope on in this thread?
bool is_fake_scope() noexcept;

/// Has the tensor sizes but no memory?
inline bool is_fake(const at::Tensor& tensor) noexcept {
  return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Fake);
}

/// A fake tensor of the same sizes, strides, dtype, device and requires_grad, in memory of its own; that of a tensor on
/// the meta device claims the CPU. Undefined for an undefined tensor. Throws TraceError (E305) for sparse and quantised
/// tensors.
at::Tensor fake_like(const at::Tensor& tensor);

/// Replaces the memory of all parameters, buffers and gradients of a module by none: they are the same tensors, now
/// fake, and those that shared memory still do. The memory is freed unless somebody else holds it.
void to_fake(torch::nn::Module& module);

namespace detail {
void add_shape_rule(const std::string& op, c10::KernelFunction rule, c10::FunctionSchema schema);
}  // namespace detail

/// Says what an operator gives for fake tensors, in a function with the operator's signature:
///
///     fxx::register_shape_rule("my::pool", [](const at::Tensor& x, std::int64_t k) {
///       return x.new_empty({x.size(0), x.size(1) / k});
///     });
///
/// The tensors that it is given are on the meta device: they have sizes and no elements. What it returns, of any
/// device, becomes fake. A name with an overload, "my::pool.out", means that overload; a rule goes before the
/// operator's own kernels for meta tensors. The last rule for a name holds. Throws OperatorError (E203) when the
/// signature is not the operator's.
template <class F>
void register_shape_rule(const std::string& op, F rule) {
  using Function = c10::guts::infer_function_traits_t<F>;
  detail::add_shape_rule(op, c10::KernelFunction::makeFromUnboxedLambda<false>(std::move(rule)),
                         c10::inferFunctionSchemaFlattenedReturns<typename Function::func_type>());
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/fake.ipp"
#endif
