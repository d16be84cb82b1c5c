// Bodies of torch/dispatch/size_probe.hpp.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/empty_ops.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/dispatch/size_probe.hpp"
#include "fxx/torch/fake.hpp"

namespace fxx::inline FXX_ABI::detail {

enum class Likeness { same, other_numbers, other_form };

/// `of_b`: the nodes of the other graph for those before.
FXX_INLINE Likeness likeness(const Argument& x, const Argument& y,
                             const std::unordered_map<const Node*, const Node*>& of_b) {
  if (x.is_node() && y.is_node()) {
    const auto known = of_b.find(x.node());
    return known != of_b.end() && known->second == y.node() ? Likeness::same : Likeness::other_form;
  }
  if (x.is_number() && y.is_number()) return x == y ? Likeness::same : Likeness::other_numbers;
  if (x.kind() != y.kind()) return Likeness::other_form;
  if (!x.is_sequence()) {
    bool nodes = false;
    for_each_node(x, [&](const Node*) { nodes = true; });
    return nodes || x == y ? Likeness::same : Likeness::other_form;
  }
  if (x.items().size() != y.items().size()) return Likeness::other_form;
  Likeness all = Likeness::same;
  for (std::size_t i = 0; i < x.items().size(); ++i) all = std::max(all, likeness(x.items()[i], y.items()[i], of_b));
  return all;
}

FXX_INLINE std::vector<std::string> differing(const Graph& a, const Graph& b, const Recording& of_a,
                                              const Recording& of_b) {
  std::vector<std::string> found;
  std::unordered_map<const Node*, const Node*> counterpart;
  auto x = a.nodes().begin(), y = b.nodes().begin();
  for (; x != a.nodes().end() && y != b.nodes().end(); ++x, ++y) {
    const Node &left = **x, &right = **y;
    const Operator* op = left.operation();
    const std::string name = "%" + std::string(left.name());
    bool same_form = left.opcode() == right.opcode() && op == right.operation() &&
                     (op || (left.target() == right.target() && left.args().size() == right.args().size()));
    for (std::size_t i = 0; same_form && i < (op ? op->parameters.size() : left.args().size()); ++i) {
      const auto at = static_cast<int>(i);
      const Likeness like =
          op ? likeness(argument_or_default(left, *op, at), argument_or_default(right, *op, at), counterpart)
             : likeness(left.args()[i], right.args()[i], counterpart);
      if (like == Likeness::other_numbers)
        found.push_back(op ? name + "(" + std::string(op->parameters[i].name) + ")" : name);
      same_form = like != Likeness::other_form;
    }
    if (!same_form) {
      found.push_back(name);
      break;
    }
    counterpart.emplace(&left, &right);
  }
  for (const auto& [name, value] : of_a.constants)
    if (const auto other = of_b.constants.find(name);
        other != of_b.constants.end() && !same_constant(value, other->second))
      found.push_back(name);
  return found;
}

FXX_INLINE void add_probed_sizes(const TracedCode& code, const std::vector<at::Tensor>& inputs, const Graph& graph,
                                 const Recording& run, const TraceOptions& options,
                                 std::vector<TraceReport::Size>& sizes) {
  // Under a trace around this one, the runs would be recorded there.
  if (!run.kept.empty() || c10::impl::tls_is_dispatch_key_included(trace_key)) return;
  using Shapes = std::vector<std::vector<std::int64_t>>;
  Shapes shapes;
  for (const at::Tensor& input : inputs) shapes.push_back(input.sizes().vec());
  const ModuleState state(code.owner, graph, &run);
  const MemberState members(code);
  const auto run_at = [&](const Shapes& at) -> std::optional<Recording> {
    std::vector<at::Tensor> given;
    {
      const FakeScope on;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        given.push_back(at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(at[i]), inputs[i].scalar_type(),
                                                            at::kStrided, inputs[i].device(), std::nullopt,
                                                            inputs[i].suggest_memory_format()));
    }
    members.put_back();
    try {
      return record_run(code, std::move(given), {.freeze_random = options.freeze_random});
    } catch (const std::exception&) {
      return std::nullopt;  // no such size, or no fake tensors
    }
  };
  const std::optional<Recording> again = run_at(shapes);
  if (!again || !differing(graph, again->graph, run, *again).empty()) return;

  struct Dim {
    std::size_t input;
    std::int64_t dim, size;
  };
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::int64_t d = 0; d < inputs[i].dim(); ++d) {
      const bool declared = std::any_of(options.dynamic.begin(), options.dynamic.end(), [&](const DynamicDim& dynamic) {
        return dynamic.input == i && (dynamic.dim == d || dynamic.dim + inputs[i].dim() == d);
      });
      if (!declared && inputs[i].size(d) > 0) dims.push_back({i, d, inputs[i].size(d)});
    }
  for (const Dim& dim : dims) {
    Shapes other = shapes;
    std::optional<Recording> at_twice;
    other[dim.input][static_cast<std::size_t>(dim.dim)] = 2 * dim.size;
    at_twice = run_at(other);
    if (!at_twice) {
      // Sizes that have to be equal change together.
      for (const Dim& equal : dims)
        if (equal.size == dim.size) other[equal.input][static_cast<std::size_t>(equal.dim)] = 2 * dim.size;
      at_twice = run_at(other);
    }
    if (!at_twice) continue;
    const std::vector<std::string> used_by = differing(graph, at_twice->graph, run, *at_twice);
    if (used_by.empty()) continue;
    const std::string value = std::string(code.input_names[dim.input]) + ".size(" + std::to_string(dim.dim) + ")";
    auto known =
        std::find_if(sizes.begin(), sizes.end(), [&](const TraceReport::Size& size) { return size.value == value; });
    if (known == sizes.end()) {
      sizes.push_back({value, dim.size, {}, {}});
      known = sizes.end() - 1;
    }
    for (const std::string& use : used_by)
      if (std::find(known->used_by.begin(), known->used_by.end(), use) == known->used_by.end())
        known->used_by.push_back(use);
  }
}

}  // namespace fxx::inline FXX_ABI::detail
