// Bodies of torch/execute.hpp.
#pragma once

#include <ATen/TensorIndexing.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/execute.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A truth is the whole number 0 or 1, as it is in C++ and in Python.
FXX_INLINE bool is_whole(const c10::IValue& v) { return v.isInt() || v.isBool(); }
FXX_INLINE std::int64_t whole(const c10::IValue& v) { return v.isBool() ? v.toBool() : v.toInt(); }
FXX_INLINE c10::IValue as_number(const c10::IValue& v) { return v.isBool() ? c10::IValue(whole(v)) : v; }
FXX_INLINE bool both_integers(const Values& v) { return is_whole(v[0]) && is_whole(v[1]); }
FXX_INLINE double number(const c10::IValue& v) {
  return v.isInt() ? static_cast<double>(v.toInt()) : v.isBool() ? v.toBool() : v.toDouble();
}

/// Of whole numbers, rounded down as Python does or towards zero as C++ does.
struct Quotient {
  std::int64_t quotient, remainder;
};
FXX_INLINE Quotient divide(const Values& v, bool down, const char* name) {
  const std::int64_t a = whole(v[0]), b = whole(v[1]);
  if (b == 0)
    throw RunError(ErrorId::run_failed, std::string(name) + ": division of " + std::to_string(a) + " by zero");
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min())
    throw RunError(ErrorId::run_failed, std::string(name) + ": division of " + std::to_string(a) +
                                            " by -1, the result of which is too large for 64 bits");
  Quotient made = {a / b, a % b};
  if (down && made.remainder != 0 && (made.remainder < 0) != (b < 0)) --made.quotient, made.remainder += b;
  return made;
}

/// Of real numbers, as Python does: the remainder is exact, and has the sign of the divisor.
struct RealQuotient {
  double quotient, remainder;
};
FXX_INLINE RealQuotient divide_down(const Values& v) {
  const double a = number(v[0]), b = number(v[1]), rest = std::fmod(a, b);
  const bool below = rest != 0 && (a < 0) != (b < 0);
  return {std::round((a - rest) / b) - below, rest + (below ? b : 0)};
}

/// Methods that no operator of the dispatcher stands for.
FXX_INLINE HostCall find_host_method(std::string_view name) {
  static const std::map<std::string_view, HostCall> calls = {
      {"size",
       [](Values& v) {
         return v.size() > 1 ? c10::IValue(v[0].toTensor().size(v[1].toInt()))
                             : c10::IValue(v[0].toTensor().sizes().vec());
       }},
  };
  const auto found = calls.find(name);
  return found == calls.end() ? nullptr : found->second;
}

FXX_INLINE void adapt(c10::IValue& value, const Type& type) {
  if (value.isNone() || value.isTensor()) return;
  if (type.list) {
    if (value.isTuple()) {
      const auto& elements = value.toTupleRef().elements();
      value = to_list(Values(elements.begin(), elements.end()), type);
    } else if (!value.isList() && type.list_size > 0) value = to_list(Values(type.list_size, value), type);
    else if (value.isList() && value.toListRef().empty()) value = to_list({}, type);
    else if (value.isList() && type.base == ValueType::real && !value.isDoubleList())
      value = to_list(value.toListRef().vec(), type);
  } else if (type.base == ValueType::real && !value.isDouble()) {
    value = number(value);
  } else if (type.base == ValueType::tensor && (value.isInt() || value.isDouble() || value.isBool())) {
    value = to_ivalue(to_argument(value, Type{}), type);
  }
}

FXX_INLINE at::indexing::TensorIndex tensor_index(const Argument& index,
                                                  const std::function<c10::IValue(Node*)>& value_of) {
  using at::indexing::TensorIndex;
  const auto end = [&](const Argument& a) -> std::optional<c10::SymInt> {
    if (a.is_none()) return std::nullopt;
    return c10::SymInt(a.is_node() ? value_of(a.node()).toInt() : a.integer());
  };
  switch (index.kind()) {
    case Argument::Kind::none: return at::indexing::None;
    case Argument::Kind::ellipsis: return at::indexing::Ellipsis;
    case Argument::Kind::boolean: return TensorIndex(index.boolean());
    case Argument::Kind::integer: return TensorIndex(index.integer());
    case Argument::Kind::slice:
      return at::indexing::Slice(end(index.slice().start), end(index.slice().stop), end(index.slice().step));
    case Argument::Kind::node: {
      const c10::IValue value = value_of(index.node());
      return value.isTensor() ? TensorIndex(value.toTensor()) : TensorIndex(value.toInt());
    }
    default:
      throw RunError(ErrorId::input_mismatch,
                     "operator.getitem: " + to_string(index) +
                         " cannot index a tensor; use numbers, slices, None, Ellipsis or tensors");
  }
}

/// An input that was bound to a constant when the graph was traced has that value.
FXX_INLINE c10::IValue check_equal(Values& v) {
  const c10::IValue &value = v[0], &expected = v[1];
  bool same = value.tagKind() == expected.tagKind();
  // As C++ and Python compare: 1 is 1.0; an input left out is None.
  if (value.isTensor() && !value.toTensor().defined()) same = expected.isNone();
  else if ((value.isInt() || value.isDouble() || value.isBool()) &&
           (expected.isInt() || expected.isDouble() || expected.isBool()))
    same =
        number(value) == number(expected) || (number(value) != number(value) && number(expected) != number(expected));
  else if (same) same = value == expected;
  if (!same) throw RunError(ErrorId::check_failed, "check: " + v[2].toStringRef() + " (" + describe(value) + ")");
  return {};
}

class UserCalls {
 public:
  static UserCalls& instance() {
    static UserCalls calls;
    return calls;
  }
  void add(const UserFunction& function, UserCall call) {
    std::lock_guard lock(mutex_);
    calls_[&function] = std::move(call);
  }
  UserCall find(const UserFunction& function) {
    std::lock_guard lock(mutex_);
    const auto found = calls_.find(&function);
    return found == calls_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const UserFunction*, UserCall> calls_;
};

}  // namespace detail

FXX_INLINE HostCall find_host_call(std::string_view name) {
  static const std::map<std::string_view, HostCall> calls = {
      {"fxx::check_equal", detail::check_equal},
      {"operator::add",
       [](Values& v) {
         return detail::both_integers(v) ? c10::IValue(detail::whole(v[0]) + detail::whole(v[1]))
                                         : c10::IValue(detail::number(v[0]) + detail::number(v[1]));
       }},
      {"operator::sub",
       [](Values& v) {
         return detail::both_integers(v) ? c10::IValue(detail::whole(v[0]) - detail::whole(v[1]))
                                         : c10::IValue(detail::number(v[0]) - detail::number(v[1]));
       }},
      {"operator::mul",
       [](Values& v) {
         return detail::both_integers(v) ? c10::IValue(detail::whole(v[0]) * detail::whole(v[1]))
                                         : c10::IValue(detail::number(v[0]) * detail::number(v[1]));
       }},
      {"operator::truediv", [](Values& v) { return c10::IValue(detail::number(v[0]) / detail::number(v[1])); }},
      {"operator::floordiv",
       [](Values& v) {
         if (!detail::both_integers(v)) return c10::IValue(detail::divide_down(v).quotient);
         return c10::IValue(detail::divide(v, true, "operator.floordiv").quotient);
       }},
      {"operator::mod",
       [](Values& v) {
         if (!detail::both_integers(v)) return c10::IValue(detail::divide_down(v).remainder);
         return c10::IValue(detail::divide(v, true, "operator.mod").remainder);
       }},
      {"std::divides",
       [](Values& v) {
         return detail::both_integers(v) ? c10::IValue(detail::divide(v, false, "std::divides").quotient)
                                         : c10::IValue(detail::number(v[0]) / detail::number(v[1]));
       }},
      {"std::modulus",
       [](Values& v) {
         return detail::both_integers(v) ? c10::IValue(detail::divide(v, false, "std::modulus").remainder)
                                         : c10::IValue(std::fmod(detail::number(v[0]), detail::number(v[1])));
       }},
      {"operator::neg",
       [](Values& v) {
         return detail::is_whole(v[0]) ? c10::IValue(-detail::whole(v[0])) : c10::IValue(-detail::number(v[0]));
       }},
      {"operator::abs",
       [](Values& v) {
         return detail::is_whole(v[0]) ? c10::IValue(std::abs(detail::whole(v[0])))
                                       : c10::IValue(std::abs(detail::number(v[0])));
       }},
      {"builtins::min",
       [](Values& v) { return detail::as_number(v[detail::number(v[1]) < detail::number(v[0]) ? 1 : 0]); }},
      {"builtins::max",
       [](Values& v) { return detail::as_number(v[detail::number(v[0]) < detail::number(v[1]) ? 1 : 0]); }},
#define FXX_COMPARISON(name, symbol)                                                                  \
  {"operator::" name, [](Values& v) {                                                                 \
     return detail::both_integers(v) ? c10::IValue(detail::whole(v[0]) symbol detail::whole(v[1]))    \
                                     : c10::IValue(detail::number(v[0]) symbol detail::number(v[1])); \
   }},
      FXX_COMPARISON("eq", ==) FXX_COMPARISON("ne", !=) FXX_COMPARISON("lt", <) FXX_COMPARISON("le", <=)
      FXX_COMPARISON("gt", >) FXX_COMPARISON("ge", >=)
#undef FXX_COMPARISON
#define FXX_MATH(name) {"math::" #name, [](Values& v) { return c10::IValue(std::name(detail::number(v[0]))); }},
      FXX_MATH(sqrt) FXX_MATH(exp) FXX_MATH(exp2) FXX_MATH(expm1) FXX_MATH(log) FXX_MATH(log2) FXX_MATH(log10)
      FXX_MATH(log1p) FXX_MATH(sin) FXX_MATH(cos) FXX_MATH(tan) FXX_MATH(asin) FXX_MATH(acos) FXX_MATH(atan)
      FXX_MATH(sinh) FXX_MATH(cosh) FXX_MATH(tanh)
#undef FXX_MATH
#define FXX_MATH(name) \
  {"math::" #name, [](Values& v) { return c10::IValue(std::name(detail::number(v[0]), detail::number(v[1]))); }},
      FXX_MATH(pow) FXX_MATH(fmod) FXX_MATH(atan2) FXX_MATH(hypot)
#undef FXX_MATH
      {"math::floor",
       [](Values& v) { return c10::IValue(static_cast<std::int64_t>(std::floor(detail::number(v[0])))); }},
      {"math::ceil", [](Values& v) { return c10::IValue(static_cast<std::int64_t>(std::ceil(detail::number(v[0])))); }},
#define FXX_ROUNDING(name) {"std::" #name, [](Values& v) { return c10::IValue(std::name(detail::number(v[0]))); }},
      FXX_ROUNDING(floor) FXX_ROUNDING(ceil) FXX_ROUNDING(round) FXX_ROUNDING(trunc)
#undef FXX_ROUNDING
#define FXX_PROPERTY(name, ...)             \
  {"prim::" #name, [](Values& v) {          \
     const at::Tensor& x = v[0].toTensor(); \
     return c10::IValue(__VA_ARGS__);       \
   }},
      FXX_PROPERTY(sizes, x.sizes().vec()) FXX_PROPERTY(strides, x.strides().vec())
      FXX_PROPERTY(dtype, x.scalar_type()) FXX_PROPERTY(layout, x.layout()) FXX_PROPERTY(device, x.device())
      FXX_PROPERTY(is_cpu, x.is_cpu()) FXX_PROPERTY(is_cuda, x.is_cuda())
      FXX_PROPERTY(requires_grad, x.requires_grad())
      FXX_PROPERTY(itemsize, static_cast<std::int64_t>(x.itemsize()))
      FXX_PROPERTY(nbytes, static_cast<std::int64_t>(x.nbytes()))
#undef FXX_PROPERTY
      {"fxx::to_int",
       [](Values& v) {
         return v[0].isInt() ? std::move(v[0]) : c10::IValue(static_cast<std::int64_t>(detail::number(v[0])));
       }},
      {"fxx::identity", [](Values& v) { return std::move(v[0]); }},
  };
  const auto found = calls.find(name);
  return found == calls.end() ? nullptr : found->second;
}

FXX_INLINE std::optional<c10::OperatorHandle> find_handle(const Operator& op) {
  const std::string_view name = op.name;
  return c10::Dispatcher::singleton().findSchema(
      {std::string(name.substr(0, name.find('.'))), std::string(op.overload_name())});
}

namespace detail {
/// What the dispatcher knows of an operator beside its schema.
FXX_INLINE Trait traits_of(const c10::OperatorHandle& handle) {
  Trait traits = Trait::none;
  if (handle.hasTag(at::Tag::nondeterministic_seeded)) traits = traits | Trait::random;
  if (handle.hasTag(at::Tag::pointwise)) traits = traits | Trait::pointwise;
  // The result may be the input itself, which schemas of composite operators do not say.
  if (handle.hasTag(at::Tag::maybe_aliasing_or_mutating)) traits = traits | Trait::fresh_view;
  bool statistics = false, told = false;
  for (const c10::Argument& argument : handle.schema().arguments()) {
    const bool written = argument.alias_info() && argument.alias_info()->isWrite();
    statistics = statistics || (argument.name() == "running_mean" && !written);
    told = told || argument.name() == "training" || argument.name() == "train" || argument.name() == "use_input_stats";
  }
  return statistics && told ? traits | Trait::updates_statistics : traits;
}
FXX_INLINE const Operator* operator_of_dispatcher(std::string_view name) {
  const std::size_t dot = name.find('.');
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {std::string(name.substr(0, dot)), std::string(dot == name.npos ? "" : name.substr(dot + 1))});
  return handle ? &register_operator(c10::str(handle->schema()), traits_of(*handle)) : nullptr;
}
}  // namespace detail
FXX_INLINE bool detail::know_dispatcher() {
  set_operator_source(operator_of_dispatcher);
  return true;
}

FXX_INLINE const Operator& operator_of(const c10::OperatorHandle& handle) {
  // By the address of the schema, which stays as long as the operator is registered.
  thread_local std::unordered_map<const void*, const Operator*> known;
  const c10::FunctionSchema& schema = handle.schema();
  const Operator*& op = known[&schema];
  if (op) return *op;
  std::string name = schema.name();
  if (!schema.overload_name().empty()) name += "." + schema.overload_name();
  return *(op = &get_operator(name));
}

FXX_INLINE c10::IValue call_operator(const Operator& op, Values args, const KeywordValues& kwargs) {
  const HostCall host = find_host_call(op.name);
  const std::optional<c10::OperatorHandle> handle = host ? std::nullopt : find_handle(op);
  if (!host && !handle)
    throw RunError(ErrorId::run_failed, "call_operator: LibTorch has no operator '" + std::string(op.name) +
                                            "'; load the library that registers it before the graph runs");
  const auto mismatch = [&](const std::string& what) {
    throw RunError(ErrorId::input_mismatch, "call_operator: " + what + "; the schema is " + std::string(op.schema));
  };
  if (args.size() > op.parameters.size())
    mismatch(std::to_string(args.size()) + " arguments were given to '" + std::string(op.name) + "', which takes " +
             std::to_string(op.parameters.size()));
  std::vector<bool> given(op.parameters.size());
  for (std::size_t i = 0; i < args.size(); ++i) given[i] = true;
  args.resize(op.parameters.size());
  for (const auto& [key, value] : kwargs) {
    const int i = op.index_of(key);
    if (i < 0 || given[static_cast<std::size_t>(i)])
      mismatch("'" + key + "' is not a parameter of '" + std::string(op.name) + "', or is given twice");
    args[static_cast<std::size_t>(i)] = value;
    given[static_cast<std::size_t>(i)] = true;
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Parameter& parameter = op.parameters[i];
    std::optional<c10::IValue> standard;
    if (given[i]) detail::adapt(args[i], parameter.type);
    else if (handle) standard = handle->schema().arguments()[i].default_value();
    else if (parameter.has_default()) standard = to_ivalue(to_argument(parameter.standard), parameter.type);
    if (standard) args[i] = *std::move(standard);
    else if (!given[i]) mismatch("'" + std::string(parameter.name) + "' is missing");
  }
  if (host) return host(args);
  handle->callBoxed(args);
  if (args.size() == 1) return std::move(args[0]);
  if (args.empty()) return {};
  return c10::ivalue::Tuple::create(std::move(args));
}

namespace detail {
/// A method of an object of TorchScript, or of a class that somebody bound to it (torch::class_); null when the value
/// is no object, or has no such method.
FXX_INLINE torch::jit::Function* find_object_method(const c10::IValue& value, const std::string& name) {
  return value.isObject() ? value.toObject()->type()->findMethod(name) : nullptr;
}
}  // namespace detail

FXX_INLINE c10::IValue call_method(const std::string& name, Values args, const KeywordValues& kwargs) {
  if (!args.empty())
    if (torch::jit::Function* method = detail::find_object_method(args[0], name)) {
      std::unordered_map<std::string, c10::IValue> named(kwargs.begin(), kwargs.end());
      method->getSchema().checkAndNormalizeInputs(args, named);
      method->run(args);
      return std::move(args.back());
    }
  // The overload follows from what the values are: immediates as they are, tensors as nodes of unknown producers.
  Graph scratch;
  const auto stand_in = [&](const c10::IValue& value, auto&& self) -> Argument {
    if (value.isTensor()) return scratch.get_attr("t");
    if (value.isList()) {
      std::vector<Argument> items;
      for (const c10::IValue& v : value.toListRef()) items.push_back(self(v, self));
      return Argument::list(std::move(items));
    }
    return to_argument(value, Type{});
  };
  std::vector<Argument> kinds;
  std::vector<KeywordArgument> keywords;
  for (const c10::IValue& v : args) kinds.push_back(stand_in(v, stand_in));
  for (const auto& [key, value] : kwargs) keywords.push_back({key, stand_in(value, stand_in)});
  if (const Operator* op = resolve_overload("aten::" + name, kinds, keywords))
    return call_operator(*op, std::move(args), kwargs);
  if (HostCall call = detail::find_host_method(name)) return call(args);
  std::string given;
  for (const c10::IValue& v : args) given += (given.empty() ? "" : ", ") + describe(v);
  throw RunError(ErrorId::run_failed,
                 "call_method: no method '" + name + "' takes (" + given + "); check the name and the arguments");
}

FXX_INLINE c10::IValue get_item(const c10::IValue& container, const Argument& index,
                                const std::function<c10::IValue(Node*)>& value_of) {
  if (container.isTensor()) {
    std::vector<at::indexing::TensorIndex> indices;
    if (index.is_sequence())
      for (const Argument& item : index.items()) indices.push_back(detail::tensor_index(item, value_of));
    else indices.push_back(detail::tensor_index(index, value_of));
    return container.toTensor().index(indices);
  }
  const c10::IValue key = index.is_node() ? value_of(index.node()) : to_ivalue(index);
  if (container.isGenericDict()) {
    const auto dict = container.toGenericDict();
    const auto found = dict.find(key);
    if (found == dict.end())
      throw RunError(ErrorId::input_mismatch, "operator.getitem: the dictionary has no key " + to_string(index));
    return found->value();
  }
  const std::int64_t size = static_cast<std::int64_t>(container.isTuple() ? container.toTupleRef().elements().size()
                                                                          : container.toListRef().size());
  const std::int64_t given = key.toInt(), at = given < 0 ? given + size : given;
  if (at < 0 || at >= size)
    throw RunError(ErrorId::input_mismatch, "operator.getitem: index " + std::to_string(given) +
                                                " is outside a container of " + std::to_string(size) + " items");
  if (container.isTuple()) return container.toTupleRef().elements()[static_cast<std::size_t>(at)];
  return container.toListRef()[static_cast<std::size_t>(at)];
}

FXX_INLINE void register_user_call(const UserFunction& function, UserCall call) {
  detail::UserCalls::instance().add(function, std::move(call));
}
FXX_INLINE bool runs_as_operators(const UserFunction& function) {
  return function.expansion && !detail::UserCalls::instance().find(function);
}

namespace detail {
/// Writes the operators down and runs them, one by one. Plans have them in the place of the call (torch/plan.ipp).
FXX_INLINE c10::IValue run_expansion(const Expansion& expansion, const Values& args) {
  if (args.size() != expansion.arity())
    throw RunError(ErrorId::input_mismatch, "a function that takes " + std::to_string(expansion.arity()) +
                                                " arguments was called with " + std::to_string(args.size()));
  Graph graph;
  std::unordered_map<const Node*, c10::IValue> values;
  std::vector<Argument> given;
  for (const c10::IValue& value : args) {
    if (value.isTensor()) values.emplace(graph.placeholder("x"), value);
    given.push_back(value.isTensor() ? Argument(graph.nodes().back()) : to_argument(value, {}));
  }
  const Argument result = expansion.write(graph, given);
  const std::function<c10::IValue(Node*)> value_of = [&](Node* node) { return values.at(node); };
  const auto value = [&](const Argument& a, const Type& type) -> c10::IValue {
    if (a.is_node()) return values.at(a.node());
    if (!a.is_sequence() || type.base != ValueType::tensor) return to_ivalue(a, type);
    Values items;
    for (const Argument& item : a.items()) items.push_back(item.is_node() ? values.at(item.node()) : c10::IValue());
    return to_list(std::move(items), type);
  };
  for (Node* node : graph.nodes()) {
    if (node->opcode() == Opcode::placeholder) continue;
    const Operator& op = *operator_of(*node);
    if (op.name == "operator::getitem") {
      values[node] = get_item(value(node->args()[0], {}), node->args()[1], value_of);
      continue;
    }
    Values positional;
    KeywordValues by_name;
    for (std::size_t i = 0; i < node->args().size(); ++i)
      positional.push_back(value(node->args()[i], op.parameters[i].type));
    for (const KeywordArgument& k : node->kwargs())
      by_name.emplace_back(k.key, value(k.value, op.parameters[static_cast<std::size_t>(op.index_of(k.key))].type));
    values[node] = call_operator(op, std::move(positional), by_name);
  }
  return values.at(result.node());
}
}  // namespace detail

FXX_INLINE c10::IValue call_user_function(const UserFunction& function, Values args) {
  if (const UserCall call = detail::UserCalls::instance().find(function)) return call(std::move(args));
  if (function.expansion) return detail::run_expansion(*function.expansion, args);
  throw RunError(ErrorId::run_failed, "call_user_function: nothing says how to run '" + function.name +
                                          "'; wrap the function with fxx::wrap in this program");
}

FXX_INLINE std::string detail::while_executing(const Node& node) {
  const std::string source = node.meta().stack_trace.empty() ? node.source() : node.meta().stack_trace;
  return "While executing " + format_node(node) + (source.empty() ? "" : "\nOriginal code: " + source);
}

}  // namespace fxx::inline FXX_ABI
