// What the tests of the LibTorch wing share: comparing values, and what holds for every traced module.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "../support.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/nn.hpp"
#include "fxx/torch/symbolic_trace.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/doctest.hpp"

namespace fxx::test {

using Tensors = std::vector<at::Tensor>;

/// Largest difference. Infinite when size or dtype differ, or one value is nan, or infinite, where the other is not.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (!a.defined() || !b.defined()) return a.defined() == b.defined() ? 0 : infinite;
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return infinite;
  if (a.numel() == 0) return 0;
  const torch::NoGradGuard no_grad;
  const at::Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  const at::Tensor same = (x == y) | (x.isnan() & y.isnan());
  const double largest = (x - y).abs().masked_fill(same, 0).max().item<double>();
  return largest == largest ? largest : infinite;
}
/// The same numbers, bit for bit, but for the sign of zero and what kind of nan.
inline bool same(const at::Tensor& a, const at::Tensor& b) { return difference(a, b) == 0; }
/// The largest difference in units of the largest finite magnitude of the second.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const double largest = difference(a, b);
  if (largest == 0 || b.numel() == 0) return largest;
  const at::Tensor y = b.detach().to(torch::kDouble).abs();
  const double size = y.masked_fill(~y.isfinite(), 0).max().item<double>();
  return size > 0 ? largest / size : largest;
}

/// The tensors in a value, in order.
inline Tensors tensors_of(const c10::IValue& value) {
  Tensors out;
  const auto add = [&](const c10::IValue& v) {
    const Tensors more = tensors_of(v);
    out.insert(out.end(), more.begin(), more.end());
  };
  if (value.isTensor()) {
    out.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& v : value.toTupleRef().elements()) add(v);
  } else if (value.isList()) {
    for (const c10::IValue& v : value.toListRef()) add(v);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) add(entry.value());
  }
  return out;
}
/// The largest relative difference among all tensors of two values; infinite when their numbers differ.
inline double relative_difference(const c10::IValue& a, const c10::IValue& b) {
  const Tensors x = tensors_of(a), y = tensors_of(b);
  if (x.size() != y.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, relative_difference(x[i], y[i]));
  return largest;
}

inline std::vector<c10::IValue> boxed(const Tensors& inputs) { return {inputs.begin(), inputs.end()}; }
/// Copies that gradients pass through.
inline Tensors cloned(const Tensors& inputs) {
  Tensors copies;
  for (const at::Tensor& input : inputs) copies.push_back(input.clone());
  return copies;
}

/// A forward of any inputs and results. One type for all modules, so that what follows is compiled once a file.
using Forward = std::function<c10::IValue(const Tensors&)>;

/// A function traced with copies of the inputs.
inline std::shared_ptr<GraphModule> traced(const Forward& f, const Tensors& inputs, const TraceOptions& options = {}) {
  torch::nn::Module root("Function");
  return fxx::detail::trace_module(
      root, false,
      [&](std::span<const at::Tensor> in) {
        return f({in.begin(), in.end()});
      },
      cloned(inputs), options);
}

/// Calls a module, a callable or a graph with copies of the inputs: in-place operators write to those.
template <class M>
Forward forward_of(M& module) {
  return [&module](const Tensors& inputs) {
    const Tensors copies = cloned(inputs);
    if constexpr (requires { module.run(std::vector<c10::IValue>()); }) {
      return module.run(boxed(copies));
    } else {
      c10::IValue result;
      REQUIRE(fxx::detail::call_with_tensors(module, copies, result));
      return result;
    }
  };
}

/// Gradients of a sum over all results for every parameter that requires one, by name, and for every input.
inline std::vector<std::pair<std::string, at::Tensor>> gradients(const Forward& forward,
                                                                 const torch::nn::Module& module,
                                                                 const Tensors& inputs) {
  for (const at::Tensor& p : module.parameters()) p.mutable_grad() = at::Tensor();
  Tensors leaves;
  for (const at::Tensor& t : inputs) leaves.push_back(t.detach().set_requires_grad(t.is_floating_point()));
  at::Tensor loss;
  const Tensors results = tensors_of(forward(leaves));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].requires_grad()) continue;
    // Weights that differ from element to element, or a normalised result would have no gradient at all.
    const at::Tensor weights =
        torch::linspace(-1, 1 + 0.1 * static_cast<double>(i), results[i].numel(), results[i].options());
    const at::Tensor part = (results[i].reshape({-1}) * weights).sum();
    loss = loss.defined() ? loss + part : part;
  }
  if (loss.defined()) loss.backward();
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& gradient = item.value().grad();
    out.emplace_back(item.key(), gradient.defined() ? gradient.clone() : gradient);
    item.value().mutable_grad() = at::Tensor();
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) out.emplace_back("input " + std::to_string(i), leaves[i].grad());
  return out;
}

/// Names of the modules that a graph calls.
inline std::set<std::string> called_modules(const Graph& graph) {
  std::set<std::string> names;
  for (const Node* node : graph.find_nodes(Opcode::call_module)) names.insert(node->target());
  return names;
}
/// How many nodes call this operator, whichever way.
inline std::size_t count_of(const Graph& graph, const Operator& op) {
  std::size_t count = 0;
  for (const Node* node : graph.nodes()) {
    const Operator* called = operator_of(*node);
    count += called && *called == op;
  }
  return count;
}

/// What holds for every traced module: the graph is sound, its text reads back, it has C++, results and gradients are
/// the module's on all inputs.
inline void check_forward(const Forward& forward, const torch::nn::Module* module, GraphModule& traced,
                          const std::vector<Tensors>& inputs, double tolerance = 0) {
  traced.graph().lint();
  const std::string text = to_string(traced.graph());
  CHECK(same_structure(parse_graph(text), traced.graph()));
  CHECK(to_string(parse_graph(text)) == text);
  CHECK(traced.code().find(" forward(") != std::string::npos);
  const Forward by_graph = forward_of(traced);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    {
      const torch::NoGradGuard no_grad;
      const c10::IValue expected = forward(inputs[i]);
      REQUIRE(!tensors_of(expected).empty());
      CHECK(relative_difference(by_graph(inputs[i]), expected) <= tolerance);
      Interpreter interpreter(traced);
      CHECK(relative_difference(interpreter.run(boxed(cloned(inputs[i]))), expected) <= tolerance);
    }
    if (!module) continue;
    const auto given = gradients(by_graph, *module, inputs[i]), expected = gradients(forward, *module, inputs[i]);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      CAPTURE(expected[k].first);
      CHECK(difference(given[k].second, expected[k].second) <= 1e-5);
    }
  }
}
template <class M>
void check_traced(M& module, GraphModule& traced, const std::vector<Tensors>& inputs, double tolerance = 0) {
  if constexpr (std::derived_from<M, torch::nn::Module>)
    check_forward(forward_of(module), &module, traced, inputs, tolerance);
  else check_forward(forward_of(module), nullptr, traced, inputs, tolerance);
}

}  // namespace fxx::test
