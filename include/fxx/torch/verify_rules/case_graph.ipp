// The graph of a case: a reading of a pattern, what its holes were given, and the values of all of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/instantiate.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/verify_rules.hpp"
#include "fxx/torch/verify_rules/compare.ipp"
#include "fxx/torch/verify_rules/tensors.ipp"

namespace fxx::inline FXX_ABI::detail {

/// What a hole of a pattern was given.
struct Given {
  enum class Kind : std::uint8_t { immediate, tensor, constant, list };
  Kind kind = Kind::immediate;
  Argument value = {};       // an immediate
  TensorRecipe tensor = {};  // an input of the graph, or a constant
  std::vector<Given> items = {};
  bool is_tensor() const { return kind == Kind::tensor || kind == Kind::constant; }
};
/// One reading of a pattern with all that it leaves open: enough to make the graph again.
struct Case {
  std::vector<std::size_t> choices;
  std::vector<Given> given;

  /// Every tensor, in order.
  std::vector<Given*> tensors() {
    std::vector<Given*> out;
    for (Given& g : given) {
      if (g.is_tensor()) out.push_back(&g);
      for (Given& item : g.items)
        if (item.is_tensor()) out.push_back(&item);
    }
    return out;
  }
};

/// An interpreter whose attributes come from a map.
class CaseInterpreter : public Interpreter {
 public:
  using Attributes = std::unordered_map<std::string, at::Tensor>;
  CaseInterpreter(Graph& graph, const Attributes& attributes)
      : Interpreter(no_module(), graph), attributes_(attributes) {
    garbage_collect_values = false;
  }
  c10::IValue run_alone(Node& node, Environment values) { return run_one(node, std::move(values)); }
  /// All values of the last run.
  const Environment& values() const { return environment(); }
  c10::IValue get_attr(const GetAttr& op) override {
    const auto found = attributes_.find(op.target);
    return found == attributes_.end() ? Interpreter::get_attr(op) : c10::IValue(found->second);
  }

 private:
  static const torch::nn::Module& no_module() {
    static const torch::nn::Module none("verify");
    return none;
  }
  const Attributes& attributes_;
};

/// How tensors are made of their recipes.
enum class Numbers : std::uint8_t {
  as_given,
  in_double,
  in_double_changed,
  in_double_parted,  // numbers beside each other are changed in opposite directions
  with_gradients,
  nudged,
  nudged_back
};
constexpr bool is_changed(Numbers n) { return n == Numbers::in_double_changed || n == Numbers::in_double_parted; }
constexpr bool with_gradients(Numbers n) { return n >= Numbers::with_gradients; }

/// Makes the graph of a case and runs it as it grows: what is chosen next may depend on the values so far.
class CaseGraph : public rewrite::Instantiation {
 public:
  using Choose = std::function<std::size_t(std::size_t among)>;
  using Fill = std::function<Given(const rewrite::Hole&, CaseGraph&)>;
  CaseGraph(Choose choose, Fill fill, Numbers numbers)
      : choose_(std::move(choose)), fill_(std::move(fill)), numbers_(numbers), runner_(graph, attributes_) {}
  CaseGraph(const CaseGraph&) = delete;
  CaseGraph& operator=(const CaseGraph&) = delete;

  /// What the graph is made of, all in order.
  Graph graph;
  Case record;
  std::vector<c10::IValue> results;
  std::vector<at::Tensor> inputs;      // a placeholder each; written to when the pattern writes
  std::vector<at::Tensor> on_the_way;  // values of calls and inputs
  bool pointwise = true, random = false;
  bool other_spelling = false, other_users = false;  // a call is written in place; the graph returns what lies inside

  void make(const RuleToVerify& rule) {
    const std::vector<Argument> roots = rewrite::instantiate(graph, rule.pattern, rule.shared, *this);
    std::vector<Argument> outputs = roots;
    if (Node* const inner = used_elsewhere(roots)) outputs.emplace_back(inner);
    for (const Argument& output : outputs) results.push_back(values_.at(output.node()));
    graph.output(outputs.size() == 1 ? outputs[0] : Argument::list(outputs));
  }
  c10::IValue result() const {
    return results.size() == 1 ? results[0] : c10::IValue(c10::ivalue::Tuple::create(results));
  }
  /// The value of a node that stands in the graph; undefined when it is no tensor.
  at::Tensor tensor_of(const Argument& a) const {
    if (!a.is_node()) return {};
    const auto found = values_.find(a.node());
    return found != values_.end() && found->second.isTensor() ? found->second.toTensor() : at::Tensor();
  }
  /// Inputs and attributes made anew, for another run.
  std::vector<c10::IValue> fresh_inputs(std::vector<at::Tensor>* kept = nullptr) const {
    std::vector<c10::IValue> out;
    for (const Named& one : named_) {
      if (one.constant) continue;
      out.emplace_back(made_of(one));
      if (kept) kept->push_back(out.back().toTensor());
    }
    return out;
  }
  CaseInterpreter::Attributes fresh_attributes() const {
    CaseInterpreter::Attributes out;
    for (const Named& one : named_)
      if (one.constant) out.emplace(one.name, made_of(one));
    return out;
  }
  struct Named {
    std::string name;
    TensorRecipe recipe;
    bool constant;        // an attribute of the graph; else an input
    bool differentiable;  // gradients are asked of it
  };
  /// Inputs and attributes, in the order in which they were asked for.
  const std::vector<Named>& named() const { return named_; }
  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  const Interpreter::Environment& values() const { return values_; }

  // --- Instantiation -------------------------------------------------------------------------------------------------
  std::size_t choose(std::size_t among) override {
    record.choices.push_back(among > 1 ? choose_(among) % among : 0);
    return record.choices.back();
  }
  Argument fill(Graph&, const rewrite::Hole& hole) override {
    Given given = fill_(hole, *this);
    Argument value = put(given, hole);
    // A type that the pattern converts to is that of all numbers here.
    if ((numbers_ == Numbers::in_double || is_changed(numbers_)) &&
        value.kind() == Argument::Kind::dtype && is_floating_point(value.dtype()))
      value = Dtype::float64;
    record.given.push_back(std::move(given));
    return value;
  }
  void made(Node& call) override {
    if (!first_) first_ = &call;
    if (const Operator* op = operator_of(call)) {
      pointwise = pointwise && has(op->traits, Trait::pointwise);
      random = random || has(op->traits, Trait::random);
      if (const Operator* twin = in_place_twin(*op, call); twin && choose(one_in) == one_in - 1) {
        call.set_op(CallFunction{twin});
        other_spelling = true;
      }
    }
    Interpreter::Environment inputs;
    for (Node* input : call.all_input_nodes()) inputs.emplace(input, values_.at(input));
    keep(call, runner_.run_alone(call, std::move(inputs)));
  }

 private:
  at::Tensor made_of(const Named& named) const {
    TensorRecipe recipe = named.recipe;
    if (numbers_ != Numbers::as_given) {
      if (at::isFloatingType(recipe.dtype)) recipe.dtype = at::kDouble;
      if (at::isComplexType(recipe.dtype)) recipe.dtype = at::kComplexDouble;
    }
    if (is_changed(numbers_) && !at::isIntegralType(recipe.dtype, true)) {
      VerifyRandom random(recipe.values.size());
      bool up = false;
      for (double& v : recipe.values) {
        up = numbers_ == Numbers::in_double_parted ? !up : random.chance(50);
        v *= 1 + (up ? Reference::change : -Reference::change);
      }
      for (double& v : recipe.imaginary) v *= 1 + (random.chance(50) ? Reference::change : -Reference::change);
    }
    // Gradients of some operators are wrong for tensors with gaps or expanded ones, in LibTorch itself.
    if (with_gradients(numbers_)) recipe = recipe.plain();
    if ((numbers_ == Numbers::nudged || numbers_ == Numbers::nudged_back) && at::isFloatingType(recipe.dtype)) {
      // Each number its own way, so that equal ones part.
      VerifyRandom random(recipe.values.size() + 1);
      for (double& v : recipe.values)
        v += (random.chance(50) == (numbers_ == Numbers::nudged) ? 1e-6 : -1e-6) * (1 + random.real()) *
             (1 + std::abs(v));
    }
    at::Tensor tensor = recipe.make();
    if (with_gradients(numbers_) && named.differentiable) tensor.set_requires_grad(true);
    return tensor;
  }

  /// The operator that writes the call's value over its first argument, where another call made that: `add_` of `add`.
  static const Operator* in_place_twin(const Operator& op, const Node& call) {
    if (op.mutates || call.args().empty() || !call.arg(0).is_node()) return nullptr;
    if (call.arg(0).node()->opcode() != Opcode::call_function) return nullptr;
    std::string name(op.name_space());
    name.append("::").append(op.base_name()).append("_");
    if (!op.overload_name().empty()) name.append(".").append(op.overload_name());
    const Operator* const twin = find_operator(name);
    const bool same = twin && !twin->parameters.empty() && twin->parameters[0].written &&
                      std::ranges::equal(op.parameters, twin->parameters, {}, &Parameter::name, &Parameter::name);
    return same ? twin : nullptr;
  }
  /// In some cases a tensor that the pattern computes on the way and that somebody else uses; null in the others.
  Node* used_elsewhere(const std::vector<Argument>& roots) {
    std::vector<Node*> inner;
    for (Node* n : graph.nodes())
      if (n->opcode() == Opcode::call_function && tensor_of(n).defined() &&
          std::find(roots.begin(), roots.end(), Argument(n)) == roots.end())
        inner.push_back(n);
    if (inner.empty() || choose(one_in) != one_in - 1) return nullptr;
    other_users = true;
    return inner[choose(inner.size())];
  }

  Argument put(const Given& given, const rewrite::Hole& hole) {
    if (given.kind == Given::Kind::immediate) return given.value;
    if (given.kind == Given::Kind::list) {
      std::vector<Argument> items;
      for (const Given& item : given.items) items.push_back(put(item, hole));
      return Argument::list(std::move(items));
    }
    std::string name(hole.name());
    for (int i = 1; std::any_of(named_.begin(), named_.end(), [&](const auto& other) { return other.name == name; });
         ++i)
      name = std::string(hole.name()) + "_" + std::to_string(i);
    const bool constant = given.kind == Given::Kind::constant;
    // Running statistics have no gradients in LibTorch.
    const bool differentiable =
        at::isFloatingType(given.tensor.dtype) &&
        !hole.op->parameters[static_cast<std::size_t>(hole.parameter)].name.starts_with("running_");
    named_.push_back({name, given.tensor, constant, differentiable});
    leaves_.push_back(made_of(named_.back()));
    Node* node;
    if (constant) {
      node = graph.get_attr(name);
      if (!first_) first_ = node;
      attributes_.emplace(name, leaves_.back());
    } else {
      std::optional<InsertPoint> point;
      if (first_) point.emplace(graph.inserting_before(first_));
      node = graph.placeholder(name);
      inputs.push_back(leaves_.back());
    }
    keep(*node, leaves_.back());
    return node;
  }
  void keep(Node& node, c10::IValue value) {
    if (value.isTensor() && value.toTensor().defined()) {
      const at::Tensor& tensor = value.toTensor();
      node.set_tensor_meta(tensor_meta_of(tensor));
      if (numbers_ == Numbers::in_double && (tensor.is_floating_point() || tensor.is_complex()))
        on_the_way.push_back(tensor.detach().clone());
    }
    values_.insert_or_assign(&node, std::move(value));
  }

  static constexpr std::size_t one_in = 8;  // cases of the rarer kinds
  Choose choose_;
  Fill fill_;
  const Numbers numbers_;
  Interpreter::Environment values_;
  CaseInterpreter::Attributes attributes_;
  std::vector<Named> named_;
  std::vector<at::Tensor> leaves_;
  Node* first_ = nullptr;  // of those that are no placeholders
  CaseInterpreter runner_;
};

/// The graph of a recorded case.
FXX_INLINE std::unique_ptr<CaseGraph> replayed(const RuleToVerify& rule, const Case& from, Numbers numbers) {
  std::size_t choice = 0, hole = 0;
  auto graph = std::make_unique<CaseGraph>(
      [&](std::size_t) { return choice < from.choices.size() ? from.choices[choice++] : 0; },
      [&](const rewrite::Hole&, CaseGraph&) { return hole < from.given.size() ? from.given[hole++] : Given{}; },
      numbers);
  graph->make(rule);
  return graph;
}

/// Is some value on the way finite, and its square not; or infinite, or no number, though all inputs and the pattern's
/// own numbers are such?
FXX_INLINE bool overflows(const Interpreter::Environment& values) {
  bool of_numbers = true, large = false, infinite = false;
  for (const auto& [node, value] : values) {
    for (const Argument& a : node->args())
      if (a.is_number() && !std::isfinite(a.number())) of_numbers = false;
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& t = value.toTensor();
    if (!t.is_floating_point() && !t.is_complex()) continue;
    const double limit = std::sqrt(precision_of(t.scalar_type()).largest);
    bool finite = true;
    for (const double v : elements_of(t)) {
      finite = finite && std::isfinite(v);
      large = large || (std::isfinite(v) && std::abs(v) > limit);
    }
    const bool given = node->opcode() == Opcode::placeholder || node->opcode() == Opcode::get_attr;
    (given ? of_numbers : infinite) = given ? of_numbers && finite : infinite || !finite;
  }
  return large || (infinite && of_numbers);
}

/// What became of a case.
struct Outcome {
  bool ran = false, fired = false;
  bool comparable = true;  // false: it says nothing about the rule
  std::string difference;
  std::unique_ptr<CaseGraph> pattern;
  std::optional<Graph> replacement;
};

}  // namespace fxx::inline FXX_ABI::detail
