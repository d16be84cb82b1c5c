// Bodies of torch/verify_rules.hpp: one class, which tries a rule on cases until one tells its two sides apart. What a
// case is made of, how it is compared, made smaller and written down lies in torch/verify_rules/.
#pragma once

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "fxx/error.hpp"
#include "fxx/meta/fixed_string.hpp"
#include "fxx/rewrite/instantiate.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/verify_rules.hpp"
#include "fxx/torch/verify_rules/case_graph.ipp"
#include "fxx/torch/verify_rules/choices.ipp"
#include "fxx/torch/verify_rules/compare.ipp"
#include "fxx/torch/verify_rules/counter_example.ipp"
#include "fxx/torch/verify_rules/shrink.ipp"
#include "fxx/torch/verify_rules/tensors.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Thrown through everything that takes exceptions as answers: what the caller's own inputs threw.
struct FaultOfInputs {
  std::exception_ptr fault;
};

FXX_INLINE std::string first_line(const std::exception& fault) {
  const auto* torch = dynamic_cast<const c10::Error*>(&fault);
  std::string text = torch ? torch->what_without_backtrace() : fault.what();
  text = text.substr(0, text.find('\n'));
  return text.substr(0, text.find(" (While executing"));
}

class RuleVerifier {
 public:
  RuleVerifier(const RuleToVerify& rule, const VerifyOptions& options)
      : rule_(rule), options_(options), assumed_(rule.needs | options.assume) {
    const auto assumes = [&](Law law) { return (assumed_ & law) != law::exact; };
    options_.moderate = options_.moderate || assumes(law::no_overflow | law::sums);
    options_.finite_inputs = options_.finite_inputs || assumes(law::finite | law::formula);
    options_.signs_of_zeros = options_.signs_of_zeros && !assumes(law::unsigned_zero | law::sums | law::no_overflow);
    options_.finite_only = options_.finite_only || assumes(law::finite_results | law::finite_weights | law::visible);
    if (const auto own = options.inputs.find(std::string(rule.name)); own != options.inputs.end()) own_ = &own->second;
  }

  VerifyReport::Rule run() {
    report_.name = rule_.name;
    VerifyRandom random(options_.seed ^ hash_of(rule_.name));
    while (report_.tried < options_.tries && report_.compared < options_.cases) {
      ++report_.tried;
      Outcome outcome = attempt(random);
      report_.ran += outcome.ran;
      if (!outcome.fired) continue;
      ++report_.fired;
      remember(random);
      if (!outcome.comparable) continue;
      if (outcome.difference.empty() && options_.gradients) outcome.difference = gradients_differ(outcome);
      ++report_.compared;
      count_what_is_in(outcome.pattern->record);
      if (outcome.pattern->other_spelling) ++report_.seen["in place"];
      if (outcome.pattern->other_users) ++report_.seen["used elsewhere"];
      if (outcome.difference.empty()) continue;
      write_down(std::move(outcome));
      break;
    }
    report_.enough = report_.compared >= options_.least_cases;
    return std::move(report_);
  }

 private:
  // --- one case ------------------------------------------------------------------------------------------------------
  /// Everything that is chosen at random in a trial comes from one number a question, so that a trial can be made that
  /// is like an earlier one but for some of its answers.
  struct Trial {
    std::vector<std::uint64_t> seeds;
    std::size_t next = 0;
  };
  std::uint64_t seed_of(VerifyRandom& random, int percent_fresh) {
    const bool known = parent_ && trial_.next < parent_->size();
    const bool fresh = !known || random.chance(percent_fresh);
    trial_.seeds.push_back(fresh ? random.next() : (*parent_)[trial_.next]);
    ++trial_.next;
    return trial_.seeds.back();
  }
  void remember(VerifyRandom& random) {
    if (parents_.size() < 64) parents_.push_back(trial_.seeds);
    else parents_[random.below(parents_.size())] = trial_.seeds;
  }

  /// What the tensors of a trial have in common.
  struct Style {
    at::ScalarType dtype = at::kFloat;
    Flavour flavour = Flavour::usual;
    int strided = 0, constant = 0, mixed = 0;  // in a hundred
    std::int64_t rank = 2;
    std::vector<std::int64_t> pool;
  };

  Outcome attempt(VerifyRandom& random) {
    parent_ = !parents_.empty() && random.chance(65) ? &parents_[random.below(parents_.size())] : nullptr;
    trial_ = {};
    VerifyRandom of_numbers(seed_of(random, 60)), of_shapes(seed_of(random, 15));
    Style style;
    style.dtype = of_numbers.pick({at::kFloat, at::kFloat, at::kFloat, at::kFloat, at::kFloat, at::kFloat, at::kDouble,
                                   at::kDouble, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kLong, at::kInt,
                                   at::kByte, at::kBool, at::kComplexFloat});
    style.flavour = of_numbers.pick({Flavour::usual, Flavour::usual, Flavour::usual, Flavour::small_integers,
                                     Flavour::special, Flavour::special, Flavour::wide, Flavour::constant});
    // Where overflow is left out, large numbers beside infinities would be taken for infinities.
    if (style.flavour == Flavour::special && !options_.moderate) style.flavour = Flavour::extreme;
    style.mixed = of_numbers.chance(15) ? 40 : 0;
    style.strided = of_numbers.pick({0, 0, 30, 70});
    style.constant = of_shapes.pick({0, 50, 100});
    style.pool = {of_shapes.pick<std::int64_t>({1, 2, 3, 5}), of_shapes.pick<std::int64_t>({1, 2, 3, 4, 8})};
    if (of_shapes.chance(12)) style.pool.push_back(0);
    style.rank = of_shapes.pick<std::int64_t>({0, 1, 2, 2, 3, 3, 4, 4, 5});
    shapes_.clear();

    auto graph =
        std::make_unique<CaseGraph>([&](std::size_t among) { return VerifyRandom(seed_of(random, 20)).below(among); },
                                    [&](const rewrite::Hole& hole, CaseGraph& so_far) {
                                      VerifyRandom r(seed_of(random, 20));
                                      return give(hole, so_far, style, r);
                                    },
                                    Numbers::as_given);
    return judge(std::move(graph), [&](CaseGraph& g) { g.make(rule_); });
  }

  /// Runs the pattern, applies the rule, runs what came of it, compares.
  Outcome judge(std::unique_ptr<CaseGraph> graph, const std::function<void(CaseGraph&)>& make) {
    Outcome o;
    o.pattern = std::move(graph);
    try {
      seed_generator();
      make(*o.pattern);
    } catch (const std::exception&) {
      return o;
    }
    o.ran = true;
    return apply_and_compare(std::move(o));
  }
  Outcome judge(const Case& c) {
    Outcome o;
    try {
      seed_generator();
      o.pattern = replayed(rule_, c, Numbers::as_given);
    } catch (const std::exception&) {
      return o;
    }
    o.ran = true;
    return apply_and_compare(std::move(o));
  }
  Outcome apply_and_compare(Outcome o) {
    o.replacement.emplace(o.pattern->graph);
    try {
      if (rule_.apply(rule_.rule, *o.replacement, assumed_).rewrites == 0) return o;
      o.replacement->lint();
    } catch (const std::exception& fault) {
      o.fired = true;
      o.difference = "the rule throws: " + first_line(fault);
      o.replacement.reset();
      return o;
    }
    o.fired = true;
    const bool of_numbers = std::all_of(o.pattern->named().begin(), o.pattern->named().end(), [](const auto& one) {
      return std::all_of(one.recipe.values.begin(), one.recipe.values.end(), [](double v) { return std::isfinite(v); });
    });
    if ((options_.finite_inputs && !of_numbers) || (options_.moderate && overflows(o.pattern->values()))) {
      o.comparable = false;
      return o;
    }
    std::vector<at::Tensor> inputs;
    const CaseInterpreter::Attributes attributes = o.pattern->fresh_attributes();
    c10::IValue value;
    try {
      seed_generator();
      CaseInterpreter interpreter(*o.replacement, attributes);
      value = interpreter.run(o.pattern->fresh_inputs(&inputs));
      if (options_.moderate && overflows(interpreter.values())) {
        o.comparable = false;
        return o;
      }
    } catch (const std::exception& fault) {
      o.difference = "the pattern runs, the replacement throws: " + first_line(fault);
      return o;
    }
    std::optional<Reference> reference;
    const Comparison comparison(options_, [&] {
      if (!reference) reference = reference_of(*o.pattern);
      return &*reference;
    });
    o.difference = comparison.difference(results_in(o.pattern->result()), results_in(value));
    for (std::size_t i = 0; i < inputs.size() && o.difference.empty(); ++i) {
      o.difference = comparison.difference_of_inputs(o.pattern->inputs[i], inputs[i]);
      if (!o.difference.empty()) o.difference = "what is written to input " + std::to_string(i) + ": " + o.difference;
    }
    const auto& named = o.pattern->named();
    for (std::size_t i = 0; i < named.size() && o.difference.empty(); ++i) {
      if (!named[i].constant) continue;
      o.difference = comparison.difference_of_inputs(o.pattern->leaves()[i], attributes.at(named[i].name));
      if (!o.difference.empty()) o.difference = "what is written to constant '" + named[i].name + "': " + o.difference;
    }
    if (!o.difference.empty() && !repeats(*o.pattern)) {
      o.difference.clear();
      o.comparable = false;
    }
    return o;
  }
  /// Does the pattern give the same again? Some operators of LibTorch hand out memory that nobody wrote to, so it is
  /// run with such memory filled.
  bool repeats(const CaseGraph& pattern) const {
    struct Filled {
      at::Context& context = at::globalContext();
      bool before = context.deterministicAlgorithms(), warn = context.deterministicAlgorithmsWarnOnly();
      Filled() { context.setDeterministicAlgorithms(true, true); }
      ~Filled() { context.setDeterministicAlgorithms(before, warn); }
    };
    VerifyOptions bits;
    bits.law = VerifyOptions::Law::bits;
    try {
      seed_generator();
      const Filled filled;
      const auto second = replayed(rule_, pattern.record, Numbers::as_given);
      const Comparison comparison(bits, [] { return nullptr; });
      return comparison.difference(results_in(pattern.result()), results_in(second->result())).empty();
    } catch (const std::exception&) {
      return false;
    }
  }
  Reference reference_of(const CaseGraph& pattern) const {
    Reference reference;
    reference.pointwise = pattern.pointwise;
    try {
      const auto exact = replayed(rule_, pattern.record, Numbers::in_double);
      reference.exact = results_in(exact->result()).tensors;
      reference.on_the_way = exact->on_the_way;
      for (const Numbers numbers : {Numbers::in_double_changed, Numbers::in_double_parted})
        reference.changed.push_back(results_in(replayed(rule_, pattern.record, numbers)->result()).tensors);
    } catch (const std::exception&) {  // an operator that does not know float64: what is known so far must do
    }
    return reference;
  }
  static void seed_generator() {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(17);
  }

  // --- gradients -----------------------------------------------------------------------------------------------------
  static std::vector<at::Tensor> gradients_of(const c10::IValue& value, const std::vector<at::Tensor>& leaves) {
    std::vector<at::Tensor> wanted, outputs, weights;
    for (const at::Tensor& leaf : leaves)
      if (leaf.requires_grad()) wanted.push_back(leaf);
    for (const at::Tensor& t : results_in(value).tensors) {
      if (!t.defined() || !t.requires_grad()) continue;
      outputs.push_back(t);
      TensorRecipe weight;
      weight.dtype = t.scalar_type();
      weight.shape = t.sizes().vec();
      VerifyRandom random(3);
      for (std::int64_t i = 0; i < t.numel(); ++i) weight.values.push_back(random.real() - 0.4);
      if (t.is_complex()) weight.imaginary = weight.values;
      weights.push_back(weight.make());
    }
    if (outputs.empty() || wanted.empty()) return std::vector<at::Tensor>(wanted.size());
    return torch::autograd::grad(outputs, wanted, weights, std::nullopt, false, /*allow_unused=*/true);
  }
  std::string gradients_differ(const Outcome& o) {
    bool any = false;
    double largest = 1;
    for (const Given* g : const_cast<Case&>(o.pattern->record).tensors()) {
      if (!at::isFloatingType(g->tensor.dtype)) continue;
      any = true;
      // Where values overflow, or are no numbers, gradients follow the way that was taken.
      if (g->tensor.dtype != at::kDouble) return {};
      for (const double v : g->tensor.values) {
        if (!(std::abs(v) < 1e6)) return {};
        largest = std::max(largest, std::abs(v));
      }
    }
    if (!any) return {};
    const at::AutoGradMode enabled(true);
    std::vector<at::Tensor> expected, given;
    std::vector<std::string> names;
    for (const CaseGraph::Named& one : o.pattern->named())
      if (one.differentiable) names.push_back(one.name);
    try {
      const auto pattern = replayed(rule_, o.pattern->record, Numbers::with_gradients);
      expected = gradients_of(pattern->result(), pattern->leaves());
      std::vector<at::Tensor> leaves, inputs;
      const CaseInterpreter::Attributes attributes = pattern->fresh_attributes();
      Graph graph(*o.replacement);
      CaseInterpreter interpreter(graph, attributes);
      const c10::IValue value = interpreter.run(pattern->fresh_inputs(&inputs));
      // In the order of the pattern's leaves.
      std::size_t input = 0;
      for (const CaseGraph::Named& one : pattern->named())
        leaves.push_back(one.constant ? attributes.at(one.name) : inputs[input++]);
      given = gradients_of(value, leaves);
    } catch (const std::exception& fault) {
      return expected.empty() ? "" : "gradients: the replacement throws: " + first_line(fault);
    }
    ++report_.seen["gradients"];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::vector<double> a = expected[i].defined() ? elements_of(expected[i]) : std::vector<double>{};
      std::vector<double> b = given[i].defined() ? elements_of(given[i]) : std::vector<double>{};
      double size = 1e-3 * largest;  // what large values leave where they cancel is rounding
      for (const double v : a) size = std::isfinite(v) ? std::max(size, std::abs(v)) : size;
      for (std::size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
        const double x = k < a.size() ? a[k] : 0, y = k < b.size() ? b[k] : 0;  // none is zero
        if (!std::isfinite(x) || std::abs(x - y) <= 1e-6 * size) continue;
        if (has_corner(o, expected, i, k, std::abs(x - y))) return {};
        return "gradient of " + names[i] + ", number " + std::to_string(k) + ": the pattern gives " + repr(x) +
               ", the replacement " + repr(y);
      }
    }
    return {};
  }

  /// Do the pattern's gradients change when its inputs are nudged: at all, or number `k` of the one of leaf `leaf`, by
  /// a part of so much?
  bool has_corner(const Outcome& o, const std::vector<at::Tensor>& gradients, std::size_t leaf, std::size_t k,
                  double much) const {
    for (const Numbers nudged : {Numbers::nudged, Numbers::nudged_back}) {
      const auto beside = replayed(rule_, o.pattern->record, nudged);
      const std::vector<at::Tensor> there = gradients_of(beside->result(), beside->leaves());
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i].defined() != there[i].defined()) return true;
        if (!gradients[i].defined()) continue;
        if (!at::allclose(gradients[i], there[i], 1e-3, 1e-3)) return true;
        if (i != leaf) continue;
        const std::vector<double> before = elements_of(gradients[i]), after = elements_of(there[i]);
        if (k < before.size() && std::abs(before[k] - after[k]) > 0.1 * much) return true;
      }
    }
    return false;
  }

  // --- what holes are given ------------------------------------------------------------------------------------------
  Given give(const rewrite::Hole& hole, CaseGraph& so_far, const Style& style, VerifyRandom& random) {
    using Wants = rewrite::Hole::Wants;
    if (own_) {
      std::optional<c10::IValue> own;
      try {
        own = (*own_)(hole.name(), random);
      } catch (...) {
        throw FaultOfInputs{std::current_exception()};
      }
      if (own) return given_by(*own, hole, style, random);
    }
    Suggestions suggestions(random, style.pool, [&](const Argument& a) { return so_far.tensor_of(a); });
    const bool takes_tensor = hole.type.base == ValueType::tensor;
    const bool any = hole.wants == Wants::anything;
    if ((hole.wants == Wants::node_or_none || (any && takes_tensor && hole.type.optional)) && random.chance(30))
      return {};
    if (any && takes_tensor && hole.type.list) {
      Given list{.kind = Given::Kind::list};
      for (std::size_t n = 1 + random.below(3); n--;)
        list.items.push_back(tensor_for(hole, suggestions, style, random));
      for (Given& item : list.items)
        if (random.chance(60)) item.tensor = TensorRecipe(list.items[0].tensor);
      return list;
    }
    if (hole.wants == Wants::number || (any && !takes_tensor)) return {.value = suggestions.immediate(hole)};
    return tensor_for(hole, suggestions, style, random);
  }
  static Given given_by(const c10::IValue& value, const rewrite::Hole& hole, const Style& style, VerifyRandom& random) {
    if (value.isTensor()) {
      const bool constant = hole.wants == rewrite::Hole::Wants::constant || random.chance(style.constant);
      return {.kind = constant ? Given::Kind::constant : Given::Kind::tensor,
              .tensor = TensorRecipe::of(value.toTensor())};
    }
    if (value.isTensorList()) {
      Given list{.kind = Given::Kind::list};
      for (const at::Tensor& t : value.toTensorVector())
        list.items.push_back({.kind = Given::Kind::tensor, .tensor = TensorRecipe::of(t)});
      return list;
    }
    return {.value = to_argument(value, hole.type)};
  }

  Given tensor_for(const rewrite::Hole& hole, Suggestions& suggestions, const Style& style, VerifyRandom& random) {
    const Wanted wanted = random.chance(90) ? suggestions.tensor(hole) : Wanted{};
    TensorRecipe r;
    if (wanted.shape) {
      r.shape = *wanted.shape;
    } else if (wanted.rank || shapes_.empty() || random.chance(35)) {
      const std::int64_t rank = wanted.rank ? *wanted.rank : random.chance(70) ? style.rank : suggestions.rank();
      for (std::int64_t d = 0; d < rank; ++d) r.shape.push_back(suggestions.size());
    } else {
      r.shape = shapes_[random.below(shapes_.size())];
      if (random.chance(25)) r.shape = suggestions.broadcast(r.shape);
      else if (!r.shape.empty() && random.chance(30)) r.shape[random.below(r.shape.size())] = suggestions.size();
    }
    while (r.numel() > 600) *std::max_element(r.shape.begin(), r.shape.end()) = 2;
    r.dtype = style.dtype;
    if (random.chance(style.mixed))
      r.dtype = random.pick({at::kFloat, at::kDouble, at::kLong, at::kInt, at::kBool, at::kHalf, at::kBFloat16});
    if (wanted.dtype && random.chance(95)) r.dtype = *wanted.dtype;
    if (wanted.below) r.dtype = at::kLong;
    shapes_.push_back(r.shape);
    if (random.chance(style.strided)) lay_out(r, random);
    for (std::size_t n = r.stored_numel(); n--;) {
      double v = wanted.below ? static_cast<double>(random.below(static_cast<std::size_t>(wanted.below)))
                              : rounded_to(r.dtype, random_element(random, r.dtype, style.flavour));
      if (wanted.positive) v = std::abs(v);
      r.values.push_back(v);
      if (at::isComplexType(r.dtype))
        r.imaginary.push_back(rounded_to(r.dtype, random_element(random, r.dtype, style.flavour)));
    }
    const bool constant = hole.wants == rewrite::Hole::Wants::constant || random.chance(style.constant);
    return {.kind = constant ? Given::Kind::constant : Given::Kind::tensor, .tensor = std::move(r)};
  }
  /// Another order in memory, gaps, one element for all, something in front.
  static void lay_out(TensorRecipe& r, VerifyRandom& random) {
    const std::size_t rank = r.shape.size();
    if (rank == 4 && random.chance(30)) {
      r.order = {0, 2, 3, 1};  // channels last
      return;
    }
    if (rank > 1 && random.chance(60)) {
      r.order.resize(rank);
      for (std::size_t i = 0; i < rank; ++i) r.order[i] = i;
      for (std::size_t i = rank; i > 1; --i) std::swap(r.order[i - 1], r.order[random.below(i)]);
    }
    if (rank > 0 && random.chance(50)) {
      r.steps.assign(rank, 1);
      r.steps[random.below(rank)] = random.chance(50) ? 2 : 0;
    }
    if (random.chance(30)) r.offset = 1;
  }

  // --- what is reported ----------------------------------------------------------------------------------------------
  void count_what_is_in(Case& c) {
    std::set<std::string> seen;
    std::vector<std::int64_t> first;
    bool have_first = false;
    for (const Given* g : c.tensors()) {
      const TensorRecipe& r = g->tensor;
      seen.insert(std::string(name_of(to_dtype(r.dtype))));
      if (r.numel() == 0) seen.insert("empty");
      if (r.shape.empty()) seen.insert("0-d");
      if (r.is_expanded()) seen.insert("expanded");
      if (!r.is_plain()) seen.insert("not contiguous");
      if (std::exchange(have_first, true) ? r.shape != first : false) seen.insert("shapes that differ");
      if (seen.size() && first.empty()) first = r.shape;
      for (const double v : r.values)
        if (!std::isfinite(v)) seen.insert("nan or inf");
    }
    for (const std::string& what : seen) ++report_.seen[what];
  }

  /// Makes the case smaller as long as the two sides differ, and writes it as C++.
  void write_down(Outcome outcome) {
    const bool of_gradients = outcome.difference.starts_with("gradient");
    Case smallest = outcome.pattern->record;
    int left = 600;
    const auto still = [&](const Case& c) {
      if (left-- <= 0) return false;
      Outcome o = judge(c);
      if (o.fired && o.difference.empty() && of_gradients) o.difference = gradients_differ(o);
      if (!o.fired || o.difference.empty() || o.difference.starts_with("gradient") != of_gradients) return false;
      outcome = std::move(o);
      return true;
    };
    const auto attempt = [&](auto change) {
      Case smaller = smallest;
      if (!change(smaller) || !still(smaller)) return false;
      smallest = outcome.pattern->record;
      return true;
    };
    for (bool again = true; again && left > 0;) again = shrink(smallest, attempt);
    report_.difference = outcome.difference;
    report_.counter_example = code_of(rule_.name, outcome);
  }

  const RuleToVerify& rule_;
  VerifyOptions options_;
  const Law assumed_;
  const VerifyInputs* own_ = nullptr;
  VerifyReport::Rule report_;
  Trial trial_;
  const std::vector<std::uint64_t>* parent_ = nullptr;
  std::vector<std::vector<std::uint64_t>> parents_;
  std::vector<std::vector<std::int64_t>> shapes_;  // of the trial's tensors so far
};

/// The numbers that are drawn afterwards are those that would have been drawn without what was verified.
class GeneratorKept {
 public:
  GeneratorKept() {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;
  ~GeneratorKept() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_ = at::globalContext().defaultGenerator(at::kCPU);
  at::Tensor state_;
};

FXX_INLINE VerifyReport verify_rules(std::span<const RuleToVerify> rules, const VerifyOptions& options) {
  struct Silence final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silence;
  const c10::WarningUtils::WarningHandlerGuard no_warnings(&silence);
  const at::NoGradGuard no_grad;
  const GeneratorKept generator;
  VerifyReport report;
  try {
    for (const RuleToVerify& rule : rules) report.rules.push_back(RuleVerifier(rule, options).run());
  } catch (const FaultOfInputs& own) {
    std::rethrow_exception(own.fault);
  }
  return report;
}

}  // namespace detail

FXX_INLINE bool VerifyReport::ok() const {
  return std::all_of(rules.begin(), rules.end(), [](const Rule& r) { return r.verified(); });
}
FXX_INLINE const VerifyReport::Rule* VerifyReport::find(std::string_view rule) const {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == rule; });
  return found == rules.end() ? nullptr : &*found;
}
FXX_INLINE std::string VerifyReport::to_string() const {
  std::string text;
  std::size_t verified = 0;
  for (const Rule& r : rules) {
    verified += r.verified();
    text += r.name + ": " +
            (!r.difference.empty() ? "WRONG: " + r.difference
             : r.enough            ? "verified"
                                   : "NOT VERIFIED, too few cases") +
            " (" + std::to_string(r.tried) + " tried, ran " + std::to_string(r.ran) + ", fired " +
            std::to_string(r.fired) + ", compared " + std::to_string(r.compared) + ")\n" + r.counter_example;
  }
  return text + std::to_string(verified) + " of " + std::to_string(rules.size()) + " rules verified\n";
}
FXX_INLINE void VerifyReport::check() const {
  for (const Rule& r : rules)
    if (!r.difference.empty())
      throw RuleError(ErrorId::rule_wrong, "verify: rule '" + r.name + "' is wrong: " + r.difference +
                                               "; correct its replacement or its guard. The case as C++:\n" +
                                               r.counter_example);
  for (const Rule& r : rules)
    if (!r.enough)
      throw RuleError(ErrorId::rule_not_verified,
                      "verify: rule '" + r.name + "' fired on " + std::to_string(r.fired) + " of " +
                          std::to_string(r.tried) + " inputs, on " + std::to_string(r.ran) +
                          " of which its pattern ran; too few to say that it is right. Give it inputs that suit it: "
                          "VerifyOptions::inputs");
}

}  // namespace fxx::inline FXX_ABI
