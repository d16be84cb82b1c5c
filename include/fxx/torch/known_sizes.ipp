// Bodies of torch/known_sizes.hpp.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/empty_ops.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "fxx/ops/registry.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/fake/tensors.ipp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/written_memory.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

inline constexpr int size_trials = 4;
/// Elements to try: of which all count, none does, all but one do (and as many as can be are different), a part does.
/// `site` makes parts of two tensors differ.
FXX_INLINE at::Tensor made_up(const at::Tensor& like, int trial, std::int64_t site) {
  const at::Tensor whole = at::_ops::empty_memory_format::call(like.sym_sizes(), at::kLong, {}, {}, {}, {});
  std::int64_t* elements = whole.mutable_data_ptr<std::int64_t>();
  const std::int64_t count = whole.numel();
  const bool is_mask = like.scalar_type() == at::kBool, counts = at::isFloatingType(like.scalar_type());
  for (std::int64_t i = 0; i < count; ++i)
    elements[i] = trial == 0   ? 1
                  : trial == 1 ? 0
                  : trial == 3 ? (i + site) % (2 + site % 3) == 0
                  : is_mask    ? i != site % count
                  : counts     ? i + site
                               : (i + site) % 32;  // that it can stand for an index, or a number of repeats
  return whole.to(like.scalar_type());
}
/// Are both tensors of the same sizes and dtype, or as many of these? Numbers are none.
FXX_INLINE bool have_same_sizes(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() && b.isTensor()) {
    const at::Tensor &x = a.toTensor(), &y = b.toTensor();
    return x.defined() && y.defined() && x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type();
  }
  const bool tuples = a.isTuple() && b.isTuple();
  if (!tuples && !(a.isList() && b.isList())) return false;
  const auto items = [&](const c10::IValue& value) {
    return tuples ? c10::ArrayRef<c10::IValue>(value.toTupleRef().elements()).vec() : value.toListRef().vec();
  };
  const std::vector<c10::IValue> x = items(a), y = items(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), &have_same_sizes);
}

/// Runs node by node, as far as fake tensors tell.
class SizeFinder : public Interpreter {
 public:
  SizeFinder(const GraphModule& module, Graph& graph, const KnownSizeOptions& options)
      : Interpreter(module, graph), written_(module), options_(options) {}

  std::unordered_set<const Node*> find(const std::vector<at::Tensor>& example_inputs) {
    const FakeScope fakes;
    const at::NoGradGuard no_grad;
    std::size_t next = 0;
    for (Node* node : graph().nodes()) {
      if (node->opcode() == Opcode::output) break;
      Found& found = found_[node];
      if (node->opcode() == Opcode::placeholder) {
        found.values[0] = next < example_inputs.size() ? c10::IValue(fake_like(example_inputs[next])) : c10::IValue();
        ++next;
      } else {
        found = value_of(*node);
      }
      settle(*node, found);
    }
    for (const auto& [node, number] : numbers_) {
      const auto put = [&](Node* n) { return n == node ? number : Argument(n); };
      for (Node* user : node->users().snapshot()) {
        std::vector<Argument> args;
        std::vector<KeywordArgument> kwargs;
        for (const Argument& a : user->args()) args.push_back(map_nodes(a, put));
        for (const KeywordArgument& k : user->kwargs()) kwargs.push_back({k.key, map_nodes(k.value, put)});
        user->set_args_kwargs(args, kwargs);
      }
    }
    return unknown_;
  }

 private:
  /// What a node gives: one value; or, where elements decide, one for each trial, without those in which it cannot run.
  struct Found {
    std::array<std::optional<c10::IValue>, size_trials> values;
    bool tried = false;    // there are several
    bool guessed = false;  // known, or computed of what is known, since it was the same in all trials
    const std::optional<c10::IValue>& at(int trial) const {
      return values[tried ? static_cast<std::size_t>(trial) : 0];
    }
  };

  Found value_of(Node& node) {
    Found found;
    for (const Node* input : node.all_input_nodes()) {
      found.tried = found.tried || found_[input].tried;
      found.guessed = found.guessed || found_[input].guessed;
    }
    if (!found.tried) {
      if ((found.values[0] = run(node, 0))) return found;
      found.tried = true;  // what it does depends on elements, or it fails, which it may do when it runs
    }
    if (!options_.behind_elements) return found;
    ++site_;
    for (int trial = 0; trial < size_trials; ++trial) {
      std::optional<c10::IValue>& value = found.values[static_cast<std::size_t>(trial)];
      value = run(node, trial);
      if (!value) value = run_with_elements(node, trial);
    }
    return found;
  }
  std::optional<Environment> inputs_of(const Node& node, int trial) const {
    Environment values;
    for (const Node* input : node.all_input_nodes()) {
      const std::optional<c10::IValue>& value = found_.at(input).at(trial);
      if (!value) return {};
      values.emplace(input, *value);
    }
    return values;
  }
  std::optional<c10::IValue> run(Node& node, int trial) {
    std::optional<Environment> values = inputs_of(node, trial);
    if (!values) return {};
    try {
      c10::IValue value = run_one(node, std::move(*values));
      // What it holds now says nothing of the next call.
      if (node.opcode() == Opcode::get_attr && value.isTensor() && written_.holds(node))
        return fake_like(value.toTensor());
      return value;
    } catch (const std::exception&) {
      return {};
    }
  }
  /// Operators of LibTorch check what they are given, so that they may be given anything.
  std::optional<c10::IValue> run_with_elements(Node& node, int trial) {
    const Operator* op = operator_of(node);
    if (!op || op->name_space() != "aten" || has_effect(node) || has(op->traits, Trait::random)) return {};
    std::optional<Environment> values = inputs_of(node, trial);
    if (!values) return {};
    const FakeScope real(false);
    try {
      for (auto& [input, value] : *values)
        value = map_tensors(
            value, [&](const at::Tensor& tensor) { return is_fake(tensor) ? made_up(tensor, trial, site_) : tensor; });
      return map_tensors(run_one(node, std::move(*values)), &fake_like);
    } catch (const std::exception&) {
      return {};
    }
  }

  /// Is it known, now?
  void settle(Node& node, Found& found) {
    node.clear_tensor_meta();
    if (found.tried) {
      const c10::IValue* first = nullptr;
      int same = 0;
      for (const std::optional<c10::IValue>& value : found.values) {
        if (!value) continue;
        if (!first) first = &*value;
        if (!have_same_sizes(*value, *first)) {
          unknown_.insert(&node);
          return;
        }
        ++same;
      }
      if (same < 2) {
        unknown_.insert(&node);
        return;
      }
      const c10::IValue value = *first;
      found = {.values = {value}, .guessed = true};
    }
    const c10::IValue& value = *found.values[0];
    if (value.isTensor() && value.toTensor().defined()) node.set_tensor_meta(tensor_meta_of(value.toTensor()));
    if (std::optional<Argument> number = number_of(value)) {
      if (found.guessed) unknown_.insert(&node);
      else numbers_.emplace_back(&node, std::move(*number));
    }
  }
  static std::optional<Argument> number_of(const c10::IValue& value) {
    if (value.isInt()) return Argument(value.toInt());
    if (value.isBool()) return Argument(value.toBool());
    if (value.isDouble()) return Argument(value.toDouble());
    if (value.isIntList()) {
      std::vector<Argument> items;
      for (std::int64_t item : value.toIntVector()) items.emplace_back(item);
      return Argument::list(std::move(items));
    }
    return {};
  }

  const WrittenMemory written_;
  KnownSizeOptions options_;
  std::unordered_map<const Node*, Found> found_;
  std::vector<std::pair<Node*, Argument>> numbers_;
  std::unordered_set<const Node*> unknown_;
  std::int64_t site_ = 0;
};

}  // namespace detail

FXX_INLINE std::unordered_set<const Node*> note_known_sizes(GraphModule& module,
                                                            const std::vector<at::Tensor>& example_inputs,
                                                            const KnownSizeOptions& options) {
  return detail::SizeFinder(module, module.graph(), options).find(example_inputs);
}

}  // namespace fxx::inline FXX_ABI
