// Bodies of torch/fused.hpp.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/matcher.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/fused.hpp"
#include "fxx/torch/values.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Computes `t` and moves it behind: `capture(id)`, `literal(Literal, Type)`, `call(op, args, kwargs)`.
template <class Value, class Maker>
Value compute_terms(const Term*& t, const Type& type, const Maker& maker) {
  while (t->kind == Term::Kind::where || t->kind == Term::Kind::named) ++t;
  const Term& self = *t++;
  if (self.kind != Term::Kind::call)
    return is_kernel_capture(self) ? maker.capture(self.id) : maker.literal(*self.value, type);
  std::vector<Value> args;
  std::vector<std::pair<std::string_view, Value>> kwargs;
  bool gap = false;  // after a parameter left out, the rest goes by name
  for (std::size_t i = 0; i < self.children; ++i) {
    if (t->kind == Term::Kind::standard) {
      gap = true;
      ++t;
      continue;
    }
    const Parameter& p = self.op->parameters[i];
    Value value = compute_terms<Value>(t, p.type, maker);
    if (gap || p.keyword_only) kwargs.emplace_back(p.name, std::move(value));
    else args.push_back(std::move(value));
  }
  return maker.call(*self.op, std::move(args), std::move(kwargs));
}

struct SpellTerms {
  const std::vector<Term>& all;
  std::string capture(std::uint64_t id) const {
    for (const Term& t : all)
      if (is_kernel_capture(t) && t.id == id) return std::string(t.name);
    return {};
  }
  std::string literal(const Literal& value, const Type& type) const { return fxx::to_string(to_argument(value, type)); }
  std::string call(const Operator& op, std::vector<std::string> args,
                   std::vector<std::pair<std::string_view, std::string>> kwargs) const {
    if (args.size() == 2 && kwargs.empty())
      for (const auto& [name, symbol] : {std::pair("add", " + "), {"sub", " - "}, {"mul", " * "}, {"div", " / "}})
        if (op.base_name() == name) return "(" + args[0] + symbol + args[1] + ")";
    std::string text;
    for (const std::string& a : args) text += (text.empty() ? "" : ", ") + a;
    for (const auto& [name, value] : kwargs) text += (text.empty() ? "" : ", ") + std::string(name) + "=" + value;
    return std::string(op.base_name()) + "(" + text + ")";
  }
};

struct WriteTerms {
  Graph& graph;
  std::span<const std::uint64_t> captures;
  std::span<const Argument> args;
  Argument capture(std::uint64_t id) const {
    return args[static_cast<std::size_t>(std::find(captures.begin(), captures.end(), id) - captures.begin())];
  }
  Argument literal(const Literal& value, const Type& type) const { return to_argument(value, type); }
  Argument call(const Operator& op, std::vector<Argument> given,
                std::vector<std::pair<std::string_view, Argument>> by_name) const {
    std::vector<KeywordArgument> kwargs;
    for (auto& [name, value] : by_name) kwargs.push_back({name, std::move(value)});
    return graph.call_function(op, given, kwargs);
  }
};

struct RunTerms {
  std::span<const std::uint64_t> captures;
  std::span<const c10::IValue> args;
  c10::IValue capture(std::uint64_t id) const {
    return args[static_cast<std::size_t>(std::find(captures.begin(), captures.end(), id) - captures.begin())];
  }
  c10::IValue literal(const Literal& value, const Type& type) const {
    return to_ivalue(to_argument(value, type), type);
  }
  c10::IValue call(const Operator& op, std::vector<c10::IValue> given,
                   std::vector<std::pair<std::string_view, c10::IValue>> by_name) const {
    KeywordValues kwargs;
    for (auto& [name, value] : by_name) kwargs.emplace_back(std::string(name), std::move(value));
    return call_operator(op, std::move(given), kwargs);
  }
};

/// Nothing stands between the tensor and the CPU's own kernels: no gradient, no transform, no tracer, no other backend.
FXX_INLINE bool is_plain_float(const at::Tensor& t, bool with_gradients) {
  constexpr c10::DispatchKeySet plain({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU,
                                       c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCPU});
  if (!t.defined() || t.scalar_type() != at::kFloat || !t.device().is_cpu()) return false;
  // The difference of two sets keeps the backends.
  if ((t.key_set() - plain).raw_repr() & ~c10::full_backend_mask) return false;
  return !(with_gradients && t.requires_grad()) && !t._fw_grad(0).defined();
}

/// One fused expression: what stands behind the function of its name.
class FusedFunction : public Expansion {
 public:
  /// `literals` are those of the terms that the pattern does not keep.
  FusedFunction(std::vector<Term> terms, std::deque<Literal> literals, const kernels::Kernel* kernel)
      : terms_(std::move(terms)), literals_(std::move(literals)), kernel_(kernel) {
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if (is_kernel_capture(terms_[i]) && !stands_before(terms_.data(), static_cast<int>(i))) {
        captures_.push_back(terms_[i].id);
        is_tensor_.push_back(is_tensor_capture(terms_[i]));
      }
  }

  const std::vector<std::uint64_t>& captures() const { return captures_; }

  /// "fxx::fused<(Tensor x, Scalar s) tanh(x) * s>": with what it takes, since names alone do not tell.
  std::string name() const {
    std::string text;
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if (is_kernel_capture(terms_[i]) && !stands_before(terms_.data(), static_cast<int>(i)))
        text += (text.empty() ? "" : ", ") + std::string(is_tensor_capture(terms_[i]) ? "Tensor " : "Scalar ") +
                std::string(terms_[i].name);
    const Term* t = terms_.data();
    std::string expression = compute_terms<std::string>(t, {}, SpellTerms{terms_});
    if (expression.starts_with('(')) expression = expression.substr(1, expression.size() - 2);
    return "fxx::fused<(" + text + ") " + expression + ">";
  }

  std::size_t arity() const override { return captures_.size(); }
  Argument write(Graph& graph, std::span<const Argument> args) const override {
    const Term* t = terms_.data();
    return compute_terms<Argument>(t, {}, WriteTerms{graph, captures_, args});
  }

  c10::IValue run(const std::vector<c10::IValue>& args) const {
    if (args.size() != captures_.size())
      throw RunError(ErrorId::input_mismatch, name() + " takes " + std::to_string(captures_.size()) +
                                                  " arguments and got " + std::to_string(args.size()));
    at::Tensor result = run_kernel(args);
    if (result.defined()) return result;
    const Term* t = terms_.data();
    return compute_terms<c10::IValue>(t, {}, RunTerms{captures_, args});
  }

 private:
  /// Undefined where the operators have to be called.
  at::Tensor run_kernel(const std::vector<c10::IValue>& args) const {
    // Modes of a thread: tracers, autocast, function transforms.
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    if (!(local.included_ - c10::default_included_set).empty()) return {};
    const bool with_gradients = c10::GradMode::is_enabled();
    kernels::PointwiseLoop loop;
    const at::Tensor* tensors[kernels::max_inputs];
    int inputs = 0, numbers = 0;
    for (std::size_t i = 0; i < args.size(); ++i) {
      const c10::IValue& value = args[i];
      if (is_tensor_[i]) {
        if (!value.isTensor() || !is_plain_float(value.toTensor(), with_gradients)) return {};
        tensors[inputs++] = &value.toTensor();
      } else if (value.isDouble()) {
        loop.numbers[numbers++] = static_cast<float>(value.toDouble());
      } else if (value.isInt()) {
        loop.numbers[numbers++] = static_cast<float>(value.toInt());
      } else if (value.isBool()) {
        loop.numbers[numbers++] = value.toBool() ? 1.f : 0.f;
      } else {
        return {};
      }
    }
    at::Tensor result;
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false)
        .check_all_same_dtype(false)
        .declare_static_dtype_and_device(at::kFloat, at::kCPU)
        .add_owned_output(result);
    for (int k = 0; k < inputs; ++k) config.add_const_input(*tensors[k]);
    at::TensorIterator iterator = config.build();
    iterator.for_each([&](char** data, const std::int64_t* strides, std::int64_t columns, std::int64_t rows) {
      constexpr auto size = static_cast<std::int64_t>(sizeof(float));
      kernels::PointwiseLoop part = loop;
      part.count = static_cast<std::size_t>(columns);
      part.out_step = strides[0] / size;
      for (int k = 0; k < inputs; ++k) part.steps[k] = strides[1 + k] / size;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t* moves = strides + 1 + inputs;
        part.out = reinterpret_cast<float*>(data[0] + row * moves[0]);
        for (int k = 0; k < inputs; ++k)
          part.inputs[k] = reinterpret_cast<const float*>(data[1 + k] + row * moves[1 + k]);
        kernels::run_pointwise(*kernel_, part);
      }
    });
    return iterator.output();
  }

  std::vector<Term> terms_;
  std::deque<Literal> literals_;
  const kernels::Kernel* kernel_;
  std::vector<std::uint64_t> captures_;
  std::vector<bool> is_tensor_;
};

/// Fused functions by their terms; they live till the program ends.
class FusedFunctions {
 public:
  struct Known {
    const UserFunction* function;
    const FusedFunction* fused;
  };
  static FusedFunctions& instance() {
    static FusedFunctions* functions = new FusedFunctions;  // never destroyed: graphs point at what it has
    return *functions;
  }
  Known usual(const FusedPattern& pattern) {
    std::lock_guard lock(mutex_);
    Known& known = by_pattern_[pattern.terms];
    if (!known.function) known = add({pattern.terms, pattern.terms + pattern.terms->size}, {}, pattern.kernel);
    return known;
  }
  Known of(std::vector<Term> terms, std::deque<Literal> literals, const kernels::Kernel* kernel) {
    std::lock_guard lock(mutex_);
    return add(std::move(terms), std::move(literals), kernel);
  }

 private:
  Known add(std::vector<Term> terms, std::deque<Literal> literals, const kernels::Kernel* kernel) {
    auto fused = std::make_unique<FusedFunction>(std::move(terms), std::move(literals), kernel);
    const std::string name = fused->name();
    Known& known = by_name_[name];
    if (known.function) return known;
    const FusedFunction* made = fused.release();
    known = {&register_function(name, {}, false, made), made};
    register_user_call(*known.function, [made](Values args) { return made->run(args); });
    return known;
  }
  std::mutex mutex_;
  std::unordered_map<const Term*, Known> by_pattern_;
  std::unordered_map<std::string, Known> by_name_;
};

/// Walks pattern and match side by side and notes what the graph has for each literal; false where they part.
class LiteralsOfMatch {
 public:
  LiteralsOfMatch(const Term* all, const rewrite::Match& match) : all_(all), match_(match) {}
  bool align(int at, const Argument& given) {
    at = without_wrappers(all_, at);
    const Term& t = all_[at];
    if (is_kernel_capture(t)) return match_.get(t.id) == given;
    if (t.kind != Term::Kind::call) {
      if (is_number(t) && given.is_number()) found_.emplace_back(at, given);
      return true;
    }
    if (!given.is_node()) return false;
    const Node& node = *given.node();
    const Operator* op = operator_of(node);
    if (!op || !rewrite::calls_operator(node, t.id)) return false;
    const std::size_t before = found_.size();
    for (const bool swapped : {false, true}) {
      if (swapped && !rewrite::two_orders(&t)) break;
      bool all = true;
      for (int i = 0; all && i < t.children; ++i) {
        const int taken = swapped && i < 2 ? 1 - i : i;
        if (all_[argument_at(all_, at, i)].kind != Term::Kind::standard)
          all = align(argument_at(all_, at, i), argument_or_default(node, *op, taken));
      }
      if (all) return true;
      found_.resize(before, {0, {}});
    }
    return false;
  }
  const std::vector<std::pair<int, Argument>>& found() const { return found_; }

 private:
  const Term* all_;
  const rewrite::Match& match_;
  std::vector<std::pair<int, Argument>> found_;
};

FXX_INLINE Argument call_fused(const FusedPattern& pattern, const rewrite::Match& match) {
  FusedFunctions::Known known = FusedFunctions::instance().usual(pattern);
  // 2 matches 2.0, which makes another result of integers.
  LiteralsOfMatch literals(pattern.terms, match);
  if (literals.align(0, match.root())) {
    std::vector<Term> terms;
    std::deque<Literal> own;  // the terms point at them
    for (const auto& [at, given] : literals.found()) {
      const Literal::Kind kind = given.kind() == Argument::Kind::real ? Literal::Kind::real : Literal::Kind::integer;
      if (pattern.terms[at].value->kind == kind) continue;
      if (terms.empty()) terms.assign(pattern.terms, pattern.terms + pattern.terms->size);
      own.push_back(kind == Literal::Kind::real ? Literal::of(given.real()) : Literal::of(given.integer()));
      terms[static_cast<std::size_t>(at)].value = &own.back();
    }
    if (!terms.empty()) known = FusedFunctions::instance().of(std::move(terms), std::move(own), pattern.kernel);
  }
  std::vector<Argument> args;
  for (const std::uint64_t id : known.fused->captures()) args.push_back(match.get(id));
  Node* call = match.graph().create_node(CallFunction{known.function}, args, {}, "fused");
  call->set_type("torch::Tensor");
  return call;
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
