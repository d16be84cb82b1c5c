// Whether each step of a compiled module computes what the graph says; for torch/compile/verify.ipp.
//
// The compiled module runs once. After each step the values that it has stored are compared with the interpreter's,
// which computes them from the values that earlier steps stored. A step is therefore judged by what it was given, and a
// decision that came out otherwise before it (a rounding to an integer, a comparison) does not count again.
//
// A result passes when it is as near as rounding lets kernels be. Where it is not, the nodes of the step are computed
// in float64, with roundings put in at random and with decisions pushed both ways: the result has to lie among those.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
// after the tensor's own header
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/where_ops.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/fake/tensors.ipp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/results.hpp"

namespace fxx::inline FXX_ABI::detail {

/// What one step may differ by.
struct StepError {
  double relative = 2e-6;     // of the largest magnitude of the result, or of the element
  double rounding = 0x1p-22;  // of one operation, where sensitivity is measured
};
FXX_INLINE StepError larger_of(const StepError& a, const StepError& b) {
  return {std::max(a.relative, b.relative), std::max(a.rounding, b.rounding)};
}
/// Sums in another order and functions within some last places; Winograd's transforms lose digits with the tile.
FXX_INLINE StepError error_of_step(const KernelStep& step, Accuracy accuracy) {
  using Method = plans::Convolution::Method;
  if (accuracy == Accuracy::fast) return {2e-2, 0x1p-8};  // products of bfloat16
  if (const auto* k = std::get_if<plans::Convolution>(&step.kernel)) {
    if (k->method == Method::winograd_2) return {1e-5, 0x1p-20};
    if (k->method == Method::winograd_4) return {1e-4, 0x1p-17};
  }
  return {};
}
FXX_INLINE StepError error_of_dtype(at::ScalarType dtype) {
  if (dtype == at::kHalf) return {0x1p-8, 0x1p-10};
  if (dtype == at::kBFloat16) return {0x1p-5, 0x1p-7};
  return {};
}
/// Roundings that were met are this much smaller than what is allowed beyond what `StepError::rounding` does.
inline constexpr double step_error_factor = 24;

/// Floating-point tensors with each element times 1 + `unit` * something between -1 and 1.
FXX_INLINE c10::IValue with_roundings(const c10::IValue& value, double unit, at::Generator& generator) {
  return map_tensors(value, [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !(tensor.is_floating_point() || tensor.is_complex())) return tensor;
    const at::Tensor noise = at::detail::empty_cpu(tensor.sizes(), at::kDouble, false, std::nullopt);
    noise.uniform_(-unit, unit, generator).add_(1);
    return tensor.mul(noise.to(tensor.scalar_type()));
  });
}
FXX_INLINE c10::IValue in_float64(const c10::IValue& value) {
  return map_tensors(value, [](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (tensor.is_complex()) return tensor.to(at::kComplexDouble);
    return tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor;
  });
}

/// The interpreter, with a rounding more at every node: how far results move then.
class RoundingInterpreter : public Interpreter {
 public:
  RoundingInterpreter(GraphModule& module, double unit, at::Generator& generator)
      : Interpreter(module), unit_(unit), generator_(generator) {}
  c10::IValue run_node(Node& node) override {
    c10::IValue value = Interpreter::run_node(node);
    if (node.opcode() == Opcode::get_attr || node.opcode() == Opcode::output) return value;
    if (node.tensor_meta() == nullptr && !value.isTensor()) return value;
    return with_roundings(value, unit_, generator_);
  }

 private:
  double unit_;
  at::Generator& generator_;
};

/// What a step has stored, beside the interpreter's.
class StepCheck : private Interpreter {
 public:
  using MemoryAt = std::function<at::Tensor(const plans::View&)>;

  /// The module and the plan outlive it.
  StepCheck(GraphModule& module, const KernelPlan& plan, const std::vector<at::Tensor>& inputs, Accuracy accuracy)
      : Interpreter(module),
        module_(module),
        plan_(plan),
        accuracy_(accuracy),
        generator_(at::detail::createCPUGenerator(1)) {
    std::size_t bound = module.graph().index_bound(), next = 0;
    values_.resize(bound);
    for (Node* node : module.graph().nodes()) {
      Known& known = values_[node->index()];
      known.node = node;
      for (const Node* user : node->users()) known.users += user->opcode() != Opcode::output;
      if (node->opcode() != Opcode::placeholder) continue;
      known.value = inputs[next++];
      known.is_there = known.is_given = true;
    }
    for (const Node* node : module.graph().nodes())
      if (base_name(*node).starts_with("as_strided")) keep_memory_of(first_tensor(*node));
    for (const PlanValue& value : plan.values) ++values_[value.node->index()].stored;
    for (std::size_t i = 0; i < plan.values.size(); ++i) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return plan.values[i].steps; });
  }

  /// Compares what is there now that `steps` steps have run. Throws LoadError (E607), naming the step.
  void after(int steps, const MemoryAt& memory) {
    for (; next_ < order_.size() && plan_.values[order_[next_]].steps <= steps; ++next_) {
      const PlanValue& value = plan_.values[order_[next_]];
      Known& known = values_[value.node->index()];
      --known.stored;
      const plans::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(value.view.buffer)];
      // Another value may lie in memory that nobody reads any more.
      if (buffer.kind == plans::Buffer::Kind::output || buffer.last >= value.steps - 1) compare(value, memory);
      release(known);
    }
  }

  /// Whether every value that the module stores was looked at.
  bool is_complete() const { return next_ == order_.size(); }
  /// Environment that were compared, and those that needed float64.
  int compared() const { return compared_; }
  int looked_at_closely() const { return close_; }

 private:
  struct Known {
    Node* node = nullptr;
    c10::IValue value;
    int users = 0, stored = 0;  // that were not computed, not compared yet
    bool is_there = false;
    bool is_given = false;  // by the caller, or by a step: not by the interpreter
    bool keeps_memory = false;  // as_strided reads it by strides, also between the elements
  };

  Known& known(const Node* node) { return values_[node->index()]; }
  /// Of the value, and of those that it is a view of.
  void keep_memory_of(const Node* node) {
    if (!node || known(node).keeps_memory) return;
    known(node).keeps_memory = true;
    for (const Node* input : node->all_input_nodes())
      if (passes_on_memory(*node, *input)) keep_memory_of(input);
  }
  void release(Known& known) {
    if (known.is_there && known.users <= 0 && known.stored <= 0) known.value = {}, known.is_there = false;
  }

  /// Interprets the node and what it needs. Inputs are let go of by release_inputs.
  void compute(Node* wanted) {
    std::vector<Node*> stack{wanted};
    while (!stack.empty()) {
      Node* node = stack.back();
      if (known(node).is_there) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      Environment inputs;
      for (const Node* input : node->all_input_nodes()) {
        Known& other = known(input);
        if (!other.is_there) ready = false, stack.push_back(other.node);
        else if (ready) inputs.emplace(input, other.value);
      }
      if (!ready) continue;
      stack.pop_back();
      known(node).value = run_one(*node, std::move(inputs));
      known(node).is_there = true;
      computed_.push_back(node);
    }
  }
  void release_inputs() {
    for (Node* node : computed_)
      for (const Node* input : node->all_input_nodes()) --known(input).users, release(known(input));
    computed_.clear();
  }

  void compare(const PlanValue& stored, const MemoryAt& memory) {
    Node* node = known(stored.node).node;
    compute(node);
    const c10::IValue expected = known(node).value;
    if (!expected.isTensor()) return release_inputs();
    const at::Tensor wanted = expected.toTensor();
    at::Tensor given = memory(stored.view);
    if (given.sizes() != wanted.sizes())
      fail(stored,
           "has sizes " + c10::str(given.sizes()) + ", and " + c10::str(wanted.sizes()) + " when it is interpreted");
    // As the interpreter's lies, so that operators on views find what they expect.
    at::Tensor copy = wanted.is_non_overlapping_and_dense()
                          ? at::detail::empty_strided_cpu(wanted.sizes(), wanted.strides(), wanted.scalar_type())
                          : at::detail::empty_cpu(wanted.sizes(), wanted.scalar_type(), false, std::nullopt);
    if (stored.scale != 0) given = given.to(at::kFloat).sub(stored.zero).mul(static_cast<float>(stored.scale));
    at::_ops::copy_::call(copy, given, false);
    ++compared_;
    if (const StepError error = stated_error(stored, wanted.scalar_type()); !is_near(copy, wanted, error)) {
      ++close_;
      explain(stored, node, copy, wanted, error);
    }
    Known& here = known(node);
    if (!here.keeps_memory) here.value = std::move(copy), here.is_given = true;
    release_inputs();
  }

  StepError stated_error(const PlanValue& stored, at::ScalarType dtype) const {
    const StepError of_dtype = error_of_dtype(dtype);
    if (stored.steps == 0) return of_dtype;
    return larger_of(of_dtype, error_of_step(plan_.steps[static_cast<std::size_t>(stored.steps) - 1], accuracy_));
  }

  /// Both lie alike. Integers have to be equal, numbers as near as the step is expected to be.
  static bool is_near(const at::Tensor& given, const at::Tensor& wanted, const StepError& error) {
    if (given.numel() == 0 || given.equal(wanted)) return true;
    if (!wanted.is_floating_point() && !wanted.is_complex()) return false;
    if (wanted.scalar_type() == at::kFloat && wanted.is_non_overlapping_and_dense()) {
      const float *x = given.const_data_ptr<float>(), *y = wanted.const_data_ptr<float>();
      const std::int64_t count = given.numel();
      float largest = 0, difference = 0;
      bool others = false;
      for (std::int64_t i = 0; i < count; ++i) {
        const float size = std::fabs(y[i]), d = std::fabs(x[i] - y[i]);
        const bool finite = d <= std::numeric_limits<float>::max();
        others |= !finite && !(x[i] == y[i] || (x[i] != x[i] && y[i] != y[i]));
        largest = std::max(largest, finite ? size : 0.F);
        difference = std::max(difference, finite ? d : 0.F);
      }
      return !others && static_cast<double>(difference) <= error.relative * static_cast<double>(largest);
    }
    return relative_error(given, wanted) <= error.relative;
  }

  // --- closer -----------------------------------------------------------------------------------------------------
  static std::string_view base_name(const Node& node) {
    const Operator* op = operator_of(node);
    return op ? op->base_name() : std::string_view();
  }
  static bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  }
  static bool compares(const Node& node) {
    return is_one_of(base_name(node), {"lt", "gt", "le", "ge", "eq", "ne", "less", "greater", "less_equal",
                                       "greater_equal", "not_equal", "isclose"});
  }
  static bool is_decision(const Node& node, const at::Tensor& operand) {
    const std::string_view name = base_name(node);
    if (compares(node)) return true;
    if (is_one_of(name, {"round", "floor", "ceil", "trunc", "fix", "frac", "sign", "sgn", "heaviside", "floor_divide",
                         "remainder", "fmod", "bucketize", "searchsorted", "signbit", "isin"}) ||
        name.starts_with("fake_quantize"))
      return true;
    const Operator* op = operator_of(node);
    if (name == "div" && op->index_of("rounding_mode") >= 0) return true;
    const TensorMeta* meta = node.tensor_meta();
    return is_one_of(name, {"to", "_to_copy", "type_as", "logical_not", "logical_and", "logical_or"}) && meta &&
           !is_float(meta->dtype) && operand.is_floating_point();
  }
  static bool is_float(Dtype dtype) {
    const auto type = static_cast<at::ScalarType>(dtype);
    return c10::isFloatingType(type) || c10::isComplexType(type);
  }
  static const Node* first_tensor(const Node& node) {
    for (const Argument& argument : node.args())
      if (argument.is_node()) return argument.node();
    return nullptr;
  }

  /// The nodes between the value and those that were given, or whose operands are gone, in the order of the graph.
  std::vector<Node*> segment_of(Node* wanted) {
    std::vector<Node*> found, stack{wanted};
    std::vector<bool> seen(values_.size());
    seen[wanted->index()] = true;
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      found.push_back(node);
      for (const Node* input : node->all_input_nodes()) {
        Known& other = known(input);
        if (seen[input->index()] || other.is_given || input->opcode() == Opcode::get_attr) continue;
        const auto inputs = input->all_input_nodes();
        if (inputs.empty() || !std::ranges::all_of(inputs, [&](const Node* n) { return known(n).is_there; })) continue;
        seen[input->index()] = true;
        stack.push_back(other.node);
      }
    }
    std::vector<int> place(values_.size());
    int number = 0;
    for (const Node* node : module_.graph().nodes()) place[node->index()] = number++;
    std::ranges::sort(found, {}, [&](const Node* node) { return place[node->index()]; });
    return found;
  }

  /// In float64, where the operator has it.
  c10::IValue run_widely(Node& node, const Environment& inputs) {
    try {
      return in_float64(run_one(node, inputs));
    } catch (const std::exception&) {
      Environment narrow;
      for (const auto& [input, value] : inputs)
        narrow.emplace(input, map_tensors(value, [](const at::Tensor& tensor) {
                         if (!tensor.defined()) return tensor;
                         if (tensor.is_complex()) return tensor.to(at::kComplexFloat);
                         return tensor.scalar_type() == at::kDouble ? tensor.to(at::kFloat) : tensor;
                       }));
      return in_float64(run_one(node, std::move(narrow)));
    }
  }

  /// How far the operands of decisions may be from what they are, by node.
  using Margins = std::unordered_map<const Node*, at::Tensor>;
  enum class Push : std::uint8_t { no, up, down };
  /// The values of the nodes, with roundings of `unit`, with decisions pushed one way by margins, or as they are.
  Environment run_segment(const std::vector<Node*>& segment, const Environment& leaves, double unit, Push push,
                          const Margins& margins) {
    Environment values;
    for (const auto& [leaf, value] : leaves)
      values.emplace(leaf, unit > 0 ? with_roundings(value, unit, generator_) : value);
    for (Node* node : segment) {
      Environment inputs;
      for (const Node* input : node->all_input_nodes()) inputs.emplace(input, values.at(input));
      const auto margin = push == Push::no ? margins.end() : margins.find(node);
      c10::IValue result;
      if (margin == margins.end()) {
        result = run_widely(*node, inputs);
      } else if (compares(*node)) {
        const at::Tensor decided = run_widely(*node, inputs).toTensor();
        result =
            push == Push::up ? decided.logical_or(margin->second) : decided.logical_and(margin->second.logical_not());
      } else {
        c10::IValue& operand = inputs[first_tensor(*node)];
        const at::Tensor by = push == Push::up ? margin->second : margin->second.neg();
        operand = operand.toTensor().add(by);
        result = run_widely(*node, inputs);
      }
      values[node] = unit > 0 ? with_roundings(result, unit, generator_) : std::move(result);
    }
    return values;
  }

  /// Root of the mean of squares of the deviations of a node's values; deviations that are no numbers do not count.
  static at::Tensor deviation(const at::Tensor& from, const std::vector<at::Tensor>& samples) {
    at::Tensor sum;
    for (const at::Tensor& sample : samples) {
      const at::Tensor off = sample.sub(from).abs().nan_to_num(0, 0, 0).square();
      sum = sum.defined() ? sum.add(off) : off;
    }
    return sum.div(static_cast<double>(samples.size())).sqrt();
  }
  /// What a comparison compares its first operand with.
  static at::Tensor other_of(const Node& node, const Environment& values, const at::Tensor& like) {
    const Operator* op = operator_of(node);
    const Argument other = op ? argument_or_default(node, *op, 1) : Argument();
    if (other.is_node()) return in_float64(values.at(other.node())).toTensor();
    return other.is_number() ? like.new_full({}, other.number()) : at::Tensor();
  }

  Margins margins_of(const std::vector<Node*>& segment, const Environment& exact,
                     const std::vector<Environment>& samples, double unit) {
    Margins margins;
    for (Node* node : segment) {
      const Node* first = first_tensor(*node);
      if (!first || !exact.at(first).isTensor()) continue;
      const at::Tensor operand = exact.at(first).toTensor();
      if (!is_decision(*node, operand)) continue;
      const auto of = [&](const Environment& values) {
        at::Tensor tensor = in_float64(values.at(first)).toTensor();
        if (tensor.is_complex()) return at::Tensor();
        tensor = tensor.to(at::kDouble);
        if (!compares(*node)) return tensor;
        const at::Tensor other = other_of(*node, values, tensor);
        return other.defined() ? tensor.sub(other.to(at::kDouble)) : at::Tensor();
      };
      const at::Tensor at_rest = of(exact);
      const bool decides_floats =
          operand.is_floating_point() || (compares(*node) && other_of(*node, exact, operand).defined() &&
                                          other_of(*node, exact, operand).is_floating_point());
      if (!at_rest.defined() || !decides_floats) continue;
      std::vector<at::Tensor> moved;
      for (const Environment& sample : samples) moved.push_back(of(sample));
      const at::Tensor size = operand.to(at::kDouble).abs().nan_to_num(0, 0, 0);
      const at::Tensor margin = deviation(at_rest, moved).add(size.mul(unit)).mul(step_error_factor);
      margins[node] = compares(*node) ? at_rest.abs().le(margin) : margin;
    }
    return margins;
  }

  /// Accepts what roundings and decisions near their thresholds explain; throws for all else.
  void explain(const PlanValue& stored, Node* wanted, const at::Tensor& given, const at::Tensor& interpreted,
               StepError error) {
    const std::vector<Node*> segment = segment_of(wanted);
    Environment leaves;
    for (Node* node : segment) {
      if (const TensorMeta* meta = node->tensor_meta())
        error = larger_of(error, error_of_dtype(static_cast<at::ScalarType>(meta->dtype)));
      for (const Node* input : node->all_input_nodes())
        if (std::ranges::find(segment, known(input).node) == segment.end())
          leaves.emplace(input, in_float64(known(input).value));
    }
    const Environment exact = run_segment(segment, leaves, 0, Push::no, {});
    std::vector<Environment> samples;
    for (int i = 0; i < 6; ++i) samples.push_back(run_segment(segment, leaves, error.rounding, Push::no, {}));
    const Margins margins = margins_of(segment, exact, samples, error.rounding);
    std::vector<Environment> pushed;
    if (!margins.empty())
      for (const Push push : {Push::up, Push::down}) pushed.push_back(run_segment(segment, leaves, 0, push, margins));
    if (const std::optional<bool> places = same_elements(wanted, given, interpreted, exact, samples, error)) {
      if (!*places) refuse(stored, given, interpreted, at::Tensor());
      return;
    }
    const auto at_node = [&](const Environment& values) { return rounded(values.at(wanted).toTensor(), interpreted); };
    const at::Tensor x = comparable(given).to(at::kDouble), y = comparable(interpreted).to(at::kDouble);
    const at::Tensor centre = at_node(exact);
    std::vector<at::Tensor> moved;
    for (const Environment& sample : samples) moved.push_back(at_node(sample));
    // An operator of the interpreter's may overflow inside, where neither its operands nor its result do.
    const bool all_finite =
        std::ranges::all_of(segment, [&](const Node* node) { return holds_all(*node, exact.at(node)); });
    const at::Tensor known = all_finite ? at::_ops::where_self::call(y.isfinite(), y, centre) : y;
    at::Tensor low = centre.fmin(known), high = centre.fmax(known), finite = centre.isfinite(),
               endless = finite.logical_not();
    std::vector<at::Tensor> all = moved;
    for (const Environment& values : pushed) all.push_back(at_node(values));
    for (const at::Tensor& sample : all) {
      low = low.fmin(sample), high = high.fmax(sample);
      finite = finite.logical_or(sample.isfinite()), endless = endless.logical_or(sample.isfinite().logical_not());
    }
    const bool floats = interpreted.is_floating_point() || interpreted.is_complex();
    const at::Tensor size = known.abs().masked_fill(known.isfinite().logical_not(), 0);
    at::Tensor allowed = x.new_zeros(x.sizes());
    if (floats) allowed = deviation(centre, moved).mul(step_error_factor).add(size.max().mul(error.relative));
    const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
    const at::Tensor both_finite = x.isfinite().logical_and(known.isfinite());
    at::Tensor good;
    // An infinity or nan stands where the interpreter has one, unless a rounding decides that. What a sign decides (the
    // angle of -1, one over nothing) may be on the other side in few samples alone, so more are drawn before it is refused.
    constexpr int most = 32;
    for (int i = 0;; ++i) {
      const at::Tensor among = x.ge(low.sub(allowed)).logical_and(x.le(high.add(allowed)));
      good = same.logical_or(among.logical_and(both_finite)).logical_or(finite.logical_and(endless));
      if (i == most || !floats || good.all().item<bool>()) break;
      const bool large = i % 2 != 0;
      const Environment more =
          run_segment(segment, leaves, large ? error.rounding * step_error_factor : error.rounding, Push::no, {});
      const at::Tensor sample = at_node(more);
      if (!large) low = low.fmin(sample), high = high.fmax(sample);
      finite = finite.logical_or(sample.isfinite()), endless = endless.logical_or(sample.isfinite().logical_not());
    }
    if (!good.all().item<bool>()) refuse(stored, given, interpreted, good);
  }
  /// Whether the dtype of the node holds its value in float64, or values, as finite numbers.
  static bool holds_all(const Node& node, const c10::IValue& value) {
    const TensorMeta* meta = node.tensor_meta();
    if (!value.isTensor() || !meta || !is_float(meta->dtype)) return true;
    return comparable(value.toTensor().to(static_cast<at::ScalarType>(meta->dtype))).isfinite().all().item<bool>();
  }
  /// As doubles that the dtype of the result can hold.
  static at::Tensor rounded(const at::Tensor& value, const at::Tensor& like) {
    if (like.is_complex() || value.is_complex()) return comparable(value);
    return value.to(like.scalar_type()).to(at::kDouble);
  }

  /// Where places of elements are the result (of argmax, sort, topk): whether the elements there are as good. Nothing
  /// for other results.
  std::optional<bool> same_elements(const Node* wanted, const at::Tensor& given, const at::Tensor& interpreted,
                                    const Environment& exact, const std::vector<Environment>& samples,
                                    const StepError& error) {
    const Node* maker = wanted;
    if (base_name(*wanted) == "getitem" && wanted->arg(0).is_node()) maker = wanted->arg(0).node();
    if (given.scalar_type() != at::kLong ||
        !is_one_of(base_name(*maker), {"argmax", "argmin", "max", "min", "sort", "argsort", "topk", "kthvalue", "median",
                                          "nanmedian", "mode"}) ||
        !exact.contains(maker) || !first_tensor(*maker) || !exact.contains(first_tensor(*maker)))
      return {};
    const Operator* op = operator_of(*maker);
    const Node* source = first_tensor(*maker);
    at::Tensor from = exact.at(source).toTensor();
    at::Tensor near = from.new_zeros(from.sizes());  // of integers, those that are equal are as good
    if (from.is_floating_point()) {
      std::vector<at::Tensor> moved;
      for (const Environment& sample : samples) moved.push_back(sample.at(source).toTensor());
      near = deviation(from, moved).add(from.abs().nan_to_num(0, 0, 0).mul(error.rounding)).mul(step_error_factor);
    }
    const int index = op->index_of("dim");
    const Argument dim = index >= 0 ? argument_or_default(*maker, *op, index) : Argument();
    std::int64_t d = dim.kind() == Argument::Kind::integer ? dim.integer() : 0;
    at::Tensor x = given, y = interpreted;
    if (dim.kind() != Argument::Kind::integer) {
      from = from.flatten(), near = near.flatten(), x = x.flatten(), y = y.flatten();
    } else if (x.dim() < from.dim()) {
      x = x.unsqueeze(d < 0 ? d + from.dim() : d), y = y.unsqueeze(d < 0 ? d + from.dim() : d);
    }
    if (from.dim() == 0) return x.equal(y);
    if (x.lt(0).logical_or(x.ge(from.size(d))).any().item<bool>()) return false;
    if (x.size(d) > 1) {  // each place once
      const at::Tensor in_order = std::get<0>(x.sort(d));
      const std::int64_t rest = x.size(d) - 1;
      if (in_order.narrow(d, 0, rest).eq(in_order.narrow(d, 1, rest)).any().item<bool>()) return false;
    }
    const at::Tensor a = from.gather(d, x), b = from.gather(d, y);
    const at::Tensor apart = near.gather(d, x).add(near.gather(d, y));
    const at::Tensor same = a.eq(b).logical_or(a.isnan().logical_and(b.isnan()));
    if (!from.is_floating_point()) return same.all().item<bool>();
    return a.sub(b).abs().le(apart).logical_or(same).all().item<bool>();
  }

  [[noreturn]] void fail(const PlanValue& stored, const std::string& what) const {
    const KernelStep* step = stored.steps > 0 ? &plan_.steps[static_cast<std::size_t>(stored.steps) - 1] : nullptr;
    throw LoadError(
        ErrorId::result_differs,
        "compile: '" + std::string(stored.node->name()) + "', as " +
            (step ? "step " + std::to_string(stored.steps - 1) + " ('" + step->name() + "')" : "the module") +
            " computes it, " + what);
  }
  [[noreturn]] void refuse(const PlanValue& stored, const at::Tensor& given, const at::Tensor& interpreted,
                           const at::Tensor& good) const {
    const at::Tensor x = comparable(given).to(at::kDouble), y = comparable(interpreted).to(at::kDouble);
    std::string where;
    const at::Tensor bad = good.defined() ? good.logical_not() : x.ne(y);
    const at::Tensor place = bad.flatten().nonzero();
    if (place.numel() > 0) {
      const auto at = place.select(0, 0).select(0, 0).item<std::int64_t>();
      where = ": element " + std::to_string(at) + " is " + repr(x.flatten().select(0, at).item<double>()) +
              " and not " + repr(y.flatten().select(0, at).item<double>());
    }
    fail(stored, "differs from the interpreter, given the same operands, in " + std::to_string(place.numel()) + " of " +
                     std::to_string(x.numel()) + " elements by more than rounding explains" + where +
                     ". The kernel is wrong: report it with the graph. The module keeps working interpreted");
  }

  GraphModule& module_;
  const KernelPlan& plan_;
  Accuracy accuracy_;
  at::Generator generator_;
  std::vector<Known> values_;  // by index of the node
  std::vector<Node*> computed_;
  std::vector<std::size_t> order_;  // of the plan's values, by the steps that have to run
  std::size_t next_ = 0;
  int compared_ = 0, close_ = 0;
};

}  // namespace fxx::inline FXX_ABI::detail
