// Modules and objects of TorchScript in a templated forward: `fxx::nn::Script encoder =
// torch::jit::load("encoder.pt");`, `fxx::nn::ScriptObject table = c10::make_intrusive<Table>(100);`.
//
// The script module is a real submodule: its parameters are registered under their names and shared, it trains, moves
// and is put in eval mode with the rest. Called with a proxy it is one call_module node.
// Attributes that its methods assign are its state, which stays the script's: graphs run it, compile() refuses it (E328).
// An object is a submodule too, so that graphs have a name for it. Its methods, called with proxies, are call_method
// nodes on its get_attr.
// Main names: nn::Script, nn::ScriptObject. Cost: heavy (torch/csrc/jit/api/module.h).
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/custom_class.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fxx/torch/box.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/nn.hpp"

namespace fxx::inline FXX_ABI {
namespace detail {
/// A number, or a list of numbers: a trace has proxies of its own for these.
template <class R>
inline constexpr bool is_number_or_list = std::is_arithmetic_v<R>;
template <class T>
inline constexpr bool is_number_or_list<std::vector<T>> = std::is_arithmetic_v<T>;
}  // namespace detail
}  // namespace fxx::inline FXX_ABI

namespace fxx::inline FXX_ABI::nn {

class ScriptImpl : public torch::nn::Module {
 public:
  explicit ScriptImpl(torch::jit::Module module);

  /// Runs forward of the script on boxed values.
  c10::IValue run(std::vector<c10::IValue> inputs);
  const torch::jit::Module& script() const { return module_; }

  /// Of the script itself, whoever set it. Its submodules are submodules here, each with a flag of its own.
  void train(bool on = true) override;
  bool is_training() const noexcept override;
  void pretty_print(std::ostream& stream) const override;
  /// A copy of the script, with parameters of its own.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

 private:
  torch::jit::Module module_;
};

class Script : public torch::nn::ModuleHolder<ScriptImpl> {
 public:
  using Impl = ScriptImpl;
  using torch::nn::ModuleHolder<ScriptImpl>::ModuleHolder;
  Script(torch::jit::Module module) : ModuleHolder(std::make_shared<ScriptImpl>(std::move(module))) {}

  /// What forward of the script returns: `R`, a tensor when it is not given; in a trace with proxies for tensors.
  template <class R = void, class... A>
  auto operator()(const A&... inputs) {
    return call<R>(inputs...);
  }
  template <class R = void, class... A>
  auto call(const A&... inputs) {
    if constexpr ((fxx::detail::holds_proxies<A> || ...)) {
      const auto made = fxx::detail::record_leaf_call(*get(), fxx::detail::AnyOperands(inputs...));
      return from_argument<std::conditional_t<std::is_void_v<R>, Proxy, R>>(made.tracer, made.value);
    } else {
      return fxx::detail::unbox<std::conditional_t<std::is_void_v<R>, at::Tensor, R>>(
          get()->run({fxx::detail::box_input(inputs)...}), "nn::Script");
    }
  }
};

class ScriptObjectImpl : public torch::nn::Module, public fxx::detail::HeldValue {
 public:
  explicit ScriptObjectImpl(c10::IValue object);

  const c10::IValue& object() const { return object_; }
  c10::IValue held_value() const override { return object_; }
  void pretty_print(std::ostream& stream) const override;
  /// Of the same object.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

 private:
  c10::IValue object_;
};

/// An object of a class that is bound to TorchScript (torch::class_), or of one that is written in it.
class ScriptObject : public torch::nn::ModuleHolder<ScriptObjectImpl> {
 public:
  using Impl = ScriptObjectImpl;
  using torch::nn::ModuleHolder<ScriptObjectImpl>::ModuleHolder;
  /// Throws RunError (E701) when the value is no object.
  ScriptObject(c10::IValue object) : ModuleHolder(std::make_shared<ScriptObjectImpl>(std::move(object))) {}
  template <class T>
    requires std::is_base_of_v<torch::CustomClassHolder, T>
  ScriptObject(c10::intrusive_ptr<T> object) : ScriptObject(c10::IValue(std::move(object))) {}

  /// What the method returns: `R`, a tensor when it is not given; in a trace with proxies for tensors. A number as a
  /// tensor is one of no dimensions, which takes no part in type promotion. What the schema of the method says of its
  /// result becomes the type of the node, so that operators take it as the number, the text or the list that it is.
  template <class R = void, class... A>
  auto call(const std::string& method, const A&... inputs) {
    if constexpr ((fxx::detail::holds_proxies<A> || ...)) {
      Tracer& tracer = fxx::detail::tracer_of(fxx::detail::AnyOperands(inputs...));
      const Proxy made =
          from_argument<Proxy>(tracer, fxx::detail::module_argument(tracer, *get())).call(method, inputs...);
      note_result(method, *made.node());
      if constexpr (fxx::detail::is_number_or_list<R>) return fxx::detail::traced_result<R>(tracer, made.node());
      else return from_argument<std::conditional_t<std::is_void_v<R>, Proxy, R>>(tracer, Argument(made.node()));
    } else {
      c10::IValue result = call_method(method, {get()->object(), fxx::detail::box_input(inputs)...});
      if constexpr (std::is_void_v<R>) fxx::detail::adapt(result, {.base = ValueType::tensor});
      return fxx::detail::unbox<std::conditional_t<std::is_void_v<R>, at::Tensor, R>>(result, "nn::ScriptObject");
    }
  }

 private:
  /// Gives the node of a call the C++ type of what the method returns, where that is no tensor.
  void note_result(const std::string& method, Node& node) const;
};

}  // namespace fxx::inline FXX_ABI::nn

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/script.ipp"
#endif
