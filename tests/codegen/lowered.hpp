// Graphs with sizes and weights set by hand, and the plans made of them, for tests of lowering and of its source.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fxx/codegen/lower.hpp"
#include "fxx/ops/operation.hpp"
#include "listed_owner.hpp"

namespace fxx::test {

using plans::Sizes;

inline TensorMeta meta_of(Sizes shape, Dtype dtype = Dtype::float32) {
  TensorMeta meta{.shape = shape, .stride = plans::dense_strides(shape), .dtype = dtype};
  return meta;
}

/// A graph whose nodes have sizes, and the module that it belongs to.
struct Net {
  Graph graph;
  ListedOwner owner;

  Node* sized(Node* node, Sizes shape, Dtype dtype = Dtype::float32) {
    node->set_tensor_meta(meta_of(std::move(shape), dtype));
    return node;
  }
  Node* input(std::string_view name, Sizes shape, Dtype dtype = Dtype::float32) {
    return sized(graph.placeholder(name), std::move(shape), dtype);
  }
  Node* weight(const std::string& name, Sizes shape, Dtype dtype = Dtype::float32) {
    owner.add({.name = name, .kind = AttributeInfo::Kind::parameter, .meta = meta_of(shape, dtype)});
    return sized(graph.get_attr(name), std::move(shape), dtype);
  }
  Node* call(const Operator& op, std::vector<Argument> arguments, Sizes shape, Dtype dtype = Dtype::float32) {
    return sized(graph.call_function(op, std::move(arguments)), std::move(shape), dtype);
  }
  /// A result that is several tensors, such as that of split.
  Node* calls(const Operator& op, std::vector<Argument> arguments) {
    return graph.call_function(op, std::move(arguments));
  }
  Node* item(Node* tuple, int i, Sizes shape, Dtype dtype = Dtype::float32) {
    return call(ops::operator_getitem, {tuple, i}, std::move(shape), dtype);
  }
  /// A 3 x 3 convolution that keeps the size, or one of 1 x 1.
  Node* convolution(Node* x, std::int64_t channels, int side = 3, std::int64_t groups = 1) {
    const Sizes in = x->tensor_meta()->shape;
    Node* w = weight("conv" + std::to_string(++convolutions_) + ".weight", {channels, in[1] / groups, side, side});
    Node* b = weight("conv" + std::to_string(convolutions_) + ".bias", {channels});
    return call(ops::conv2d, {x, w, b, 1, side / 2, 1, groups}, {in[0], channels, in[2], in[3]});
  }
  /// Behind layers of single pixels that keep the size, of few weights: in groups of 64 channels, or of so many.
  Node* behind_layers(Node* x, int layers = 5, std::int64_t depth = 64) {
    const std::int64_t channels = x->tensor_meta()->shape[1];
    while (layers-- > 0) x = convolution(x, channels, 1, std::max<std::int64_t>(channels / depth, 1));
    return x;
  }
  KernelPlan plan(const LowerOptions& options = {}) const { return lower(graph, owner, options); }
  KernelPlan plan_of(Argument result, const LowerOptions& options = {}) {
    graph.output(std::move(result));
    return plan(options);
  }

 private:
  int convolutions_ = 0;
};

inline Argument listed(std::vector<Argument> items) { return Argument::list(std::move(items)); }

template <class Kernel>
const Kernel& kernel_of(const KernelStep& step) {
  const auto* kernel = std::get_if<Kernel>(&step.kernel);
  REQUIRE(kernel);
  return *kernel;
}

/// "add(relu(v), x)": `v` is what the kernel computed, tensors have the names of their buffers.
inline std::string text_of(const KernelPlan& plan, const plans::Term& term) {
  using Kind = plans::Term::Kind;
  static constexpr std::pair<kernels::Function, const char*> names[] = {
      {kernels::Function::add, "add"},           {kernels::Function::subtract, "subtract"},
      {kernels::Function::multiply, "multiply"}, {kernels::Function::relu, "relu"},
      {kernels::Function::gelu, "gelu"},         {kernels::Function::select, "select"},
      {kernels::Function::greater, "greater"},   {kernels::Function::exponential, "exponential"},
      {kernels::Function::multiply_add, "multiply_add"}};
  const auto of_buffer = [&] { return plan.buffers[static_cast<std::size_t>(term.view.buffer)].name; };
  std::string text;
  for (const plans::TermPointer& operand : term.operands) text += (text.empty() ? "" : ", ") + text_of(plan, *operand);
  switch (term.kind) {
    case Kind::result: return "v";
    case Kind::load: return of_buffer();
    case Kind::number:
      if (term.elements == plans::Elements::integer) return std::to_string(term.integer);
      return term.number == static_cast<int>(term.number) ? std::to_string(static_cast<int>(term.number))
                                                          : std::to_string(term.number);
    case Kind::position: return "position";
    case Kind::lookup: return of_buffer() + "[" + text + "]";
    case Kind::search: return "place of " + text + " in " + of_buffer();
    case Kind::convert: return (term.elements == plans::Elements::real ? "real(" : "integer(") + text + ")";
    case Kind::call: break;
  }
  std::string function = "function " + std::to_string(static_cast<int>(term.function));
  for (const auto& [known, name] : names)
    if (known == term.function) function = name;
  return function + "(" + text + ")";
}
/// Calls `f` with each view that the term reads.
template <class F>
void for_each_load(const plans::Term& term, const F& f) {
  using Kind = plans::Term::Kind;
  if (term.kind == Kind::load || term.kind == Kind::lookup || term.kind == Kind::search) f(term.view);
  for (const plans::TermPointer& operand : term.operands) for_each_load(*operand, f);
}
inline int calls_in(const plans::Term& term) {
  int count = term.kind == plans::Term::Kind::call;
  for (const plans::TermPointer& operand : term.operands) count += calls_in(*operand);
  return count;
}
/// What the step stores in its first place.
inline std::string stored(const KernelPlan& plan, std::size_t step) {
  REQUIRE(step < plan.steps.size());
  REQUIRE(plan.steps[step].stores.size() == 1);
  return text_of(plan, *plan.steps[step].stores[0].value);
}
inline const plans::Buffer& buffer_of(const KernelPlan& plan, const plans::View& view) {
  REQUIRE(view.buffer >= 0);
  return plan.buffers[static_cast<std::size_t>(view.buffer)];
}
/// "linear relu, add": the nodes of each step.
inline std::string nodes_of(const KernelPlan& plan) {
  std::string text;
  for (const KernelStep& step : plan.steps) {
    text += text.empty() ? "" : ", ";
    for (std::size_t i = 0; i < step.nodes.size(); ++i) text += (i ? " " : "") + std::string(step.nodes[i]->name());
  }
  return text;
}

}  // namespace fxx::test
