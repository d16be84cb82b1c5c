// Containers of modules in a templated forward: Sequential, and calls of modules out of lists whose type is not
// spelled.
//
//   fxx::nn::Sequential layers{Block(8), fxx::nn::Linear(8, 4), torch::nn::ReLU()};  // layers(x), with tensors and proxies
//   for (const auto& layer : *list) x = fxx::nn::call(layer, x);                     // of a ModuleList, a ModuleDict
//
// A Sequential is traced through, as in torch.fx: each module in it is one call_module node, or traced through itself.
// Unlike LibTorch's, this one also holds modules whose forward is a template. ModuleList, ModuleDict, ParameterList and
// ParameterDict are LibTorch's own.
// Main names: nn::Sequential, nn::call. Cost: heavy (torch/nn/modules.h).
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/parameterdict.h>
#include <torch/nn/modules/container/parameterlist.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fxx/torch/box.hpp"
#include "fxx/torch/nn.hpp"

namespace fxx::inline FXX_ABI {

namespace nn {

/// The call of a module whose type is not spelled, out of a list of modules say: with tensors its forward runs, with
/// proxies it is recorded. `R` is what forward returns, in a trace with proxies for tensors. Throws RunError (E702) for
/// a module whose forward is a template and that was never put into a holder of FXX_MODULE or a fxx::nn::Sequential.
template <class R = void, class... A>
auto call(torch::nn::Module& module, const A&... inputs) {
  if constexpr ((fxx::detail::holds_proxies<A> || ...)) {
    const fxx::detail::AnyOperands operands(inputs...);
    Tracer& tracer = fxx::detail::tracer_of(operands);
    const Argument value = fxx::detail::record_any_module(module, tracer, fxx::detail::arguments_of(tracer, operands));
    return from_argument<std::conditional_t<std::is_void_v<R>, Proxy, R>>(tracer, value);
  } else {
    return fxx::detail::unbox<std::conditional_t<std::is_void_v<R>, at::Tensor, R>>(
        call_module(module, {fxx::detail::box_input(inputs)...}), "nn::call");
  }
}
template <class R = void, std::derived_from<torch::nn::Module> M, class... A>
auto call(const std::shared_ptr<M>& module, const A&... inputs) {
  return call<R>(*module, inputs...);
}

class SequentialImpl : public torch::nn::Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<torch::nn::Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<torch::nn::Module>>::const_iterator;

  /// A module with the name that it is registered by: `Sequential({{"fc", Linear(3, 4)}, {"act", ReLU()}})`.
  struct Named {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    template <class M>
    Named(std::string name, M&& module) : name(std::move(name)), module(known(std::forward<M>(module))) {}
  };

  SequentialImpl() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && (!std::same_as<std::remove_cvref_t<M>, SequentialImpl> && ...))
  explicit SequentialImpl(M&&... modules) {
    (push_back(std::forward<M>(modules)), ...);
  }
  explicit SequentialImpl(std::initializer_list<Named> modules) {
    for (const Named& named : modules) add(named.name, named.module);
  }

  /// The first module gets all inputs, each of the others what the one before it gave. `R` is what the last one
  /// returns, a tensor when it is not given.
  template <class R = void, class First, class... More>
  auto forward(const First& first, const More&... more) {
    TORCH_CHECK(!is_empty(), "Cannot call forward() on an empty Sequential");
    if constexpr ((fxx::detail::holds_proxies<First> || ... || fxx::detail::holds_proxies<More>)) {
      const fxx::detail::AnyOperands operands(first, more...);
      Tracer& tracer = fxx::detail::tracer_of(operands);
      std::vector<Argument> args = fxx::detail::arguments_of(tracer, operands);
      for (const auto& module : modules_) args = {fxx::detail::record_any_module(*module, tracer, args)};
      return from_argument<std::conditional_t<std::is_void_v<R>, Proxy, R>>(tracer, args[0]);
    } else {
      std::vector<c10::IValue> args{fxx::detail::box_input(first), fxx::detail::box_input(more)...};
      for (const auto& module : modules_) {
        c10::IValue value = call_module(*module, std::move(args));
        args = {std::move(value)};
      }
      return fxx::detail::unbox<std::conditional_t<std::is_void_v<R>, at::Tensor, R>>(args[0], "Sequential::forward");
    }
  }

  template <class M>
    requires(!std::convertible_to<const M&, std::string>)
  void push_back(M&& module) {
    add(std::to_string(size()), known(std::forward<M>(module)));
  }
  template <class M>
  void push_back(std::string name, M&& module) {
    add(std::move(name), known(std::forward<M>(module)));
  }
  /// Everything in another container of modules.
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }

  std::size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }
  Iterator begin() { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator begin() const { return modules_.begin(); }
  ConstIterator end() const { return modules_.end(); }
  std::shared_ptr<torch::nn::Module> ptr(std::size_t index) const {
    TORCH_CHECK(index < size(), "Index out of range");
    return modules_[index];
  }
  std::shared_ptr<torch::nn::Module> operator[](std::size_t index) const { return ptr(index); }
  /// The module as what it is; throws c10::Error when it is something else.
  template <class M>
  std::shared_ptr<M> ptr(std::size_t index) const {
    auto module = std::dynamic_pointer_cast<M>(ptr(index));
    TORCH_CHECK(module, "the module is a ", module_type_name(*ptr(index)));
    return module;
  }
  template <class M>
  M& at(std::size_t index) const {
    return *ptr<M>(index);
  }

  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

 private:
  /// The module in a holder, a pointer, or by value; how its type is called is known from then on.
  template <class M>
  static std::shared_ptr<torch::nn::Module> known(M&& module) {
    using Plain = std::remove_cvref_t<M>;
    if constexpr (requires { module.ptr(); }) {
      fxx::detail::know_module<typename Plain::ContainedType>();
      return module.ptr();
    } else if constexpr (requires { typename Plain::element_type; }) {
      fxx::detail::know_module<typename Plain::element_type>();
      return module;
    } else {
      static_assert(std::derived_from<Plain, torch::nn::Module>,
                    "fxx::nn::Sequential: only modules go into it; wrap a function in torch::nn::Functional");
      fxx::detail::know_module<Plain>();
      return std::make_shared<Plain>(std::forward<M>(module));
    }
  }
  void add(std::string name, std::shared_ptr<torch::nn::Module> module);

  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
};

class Sequential : public leaf<torch::nn::ModuleHolder<SequentialImpl>> {
 public:
  using Impl = SequentialImpl;
  using leaf<torch::nn::ModuleHolder<SequentialImpl>>::leaf;
  Sequential() = default;
  Sequential(std::initializer_list<SequentialImpl::Named> modules) : leaf(std::make_shared<SequentialImpl>(modules)) {}
};

using torch::nn::ModuleDict;
using torch::nn::ModuleList;
using torch::nn::ParameterDict;
using torch::nn::ParameterList;

}  // namespace nn

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/containers.ipp"
#endif
