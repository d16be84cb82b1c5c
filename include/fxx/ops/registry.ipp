// Bodies of ops/registry.hpp.
#pragma once

#include <atomic>
#include <cmath>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/onednn.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/rotary_embedding.hpp"
#include "fxx/ops/softmax_attention.hpp"
#include "fxx/ops/schema.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  const Operator* find(std::string_view name) {
    std::lock_guard lock(mutex_);
    const auto found = by_id_.find(hash_of(name));
    return found == by_id_.end() || found->second->name != name ? nullptr : found->second;
  }
  /// The table is there from the start and stays, so no lock is needed.
  const Operator& of_table(OperatorIndex index) const { return *table_[static_cast<std::size_t>(index)]; }
  std::vector<const Operator*> overloads(std::string_view base) {
    std::lock_guard lock(mutex_);
    const auto found = by_base_.find(base);
    return found == by_base_.end() ? std::vector<const Operator*>{} : found->second;
  }
  const Operator& add(std::string_view schema, Trait traits) {
    std::lock_guard lock(mutex_);
    const auto known = by_id_.find(hash_of(schema.substr(0, schema.find('('))));
    if (known == by_id_.end()) return insert(schema, traits);
    if (known->second->schema == schema) return *known->second;
    throw OperatorError(ErrorId::operator_registered_twice, "register_operator: '" + std::string(known->second->name) +
                                                                "' is registered with another schema, " +
                                                                std::string(known->second->schema) +
                                                                "; choose another name or use that schema");
  }
  const UserFunction& add_function(std::string_view name, std::string_view header, bool impure,
                                   const Expansion* expansion) {
    std::lock_guard lock(mutex_);
    const auto known = functions_.find(name);
    if (known != functions_.end()) return *known->second;
    auto function =
        std::make_unique<UserFunction>(UserFunction{std::string(name), std::string(header), impure, expansion});
    const std::string_view key = function->name;
    return *functions_.emplace(key, std::move(function)).first->second;
  }
  const UserFunction* find_function(std::string_view name) {
    std::lock_guard lock(mutex_);
    const auto known = functions_.find(name);
    return known == functions_.end() ? nullptr : known->second.get();
  }

 private:
  struct Entry {
    std::string schema;
    std::unique_ptr<Parameter[]> parameters;
    std::unique_ptr<Return[]> returns;
    Operator op;
  };
  struct Line {
    std::string_view schema;
    Trait traits;
  };

  Registry() {
    using enum Trait;
    static constexpr Line table[] = {
#define FXX_OP(function_, name_, schema_, traits_) {schema_, traits_},
#include "fxx/ops/table.inc"
#undef FXX_OP
    };
    by_id_.reserve(2 * std::size(table));
    table_.reserve(std::size(table));
    for (const Line& line : table) table_.push_back(&insert(line.schema, line.traits));
    for (const Operator* op : {&ops::onednn_convolution.info(), &ops::onednn_convolution_binary.info(),
                               &ops::onednn_convolution_transpose.info(), &ops::onednn_linear.info(),
                               &ops::onednn_linear_binary.info()})
      insert(op->schema, op->traits);
  }

  const Operator& insert(std::string_view schema, Trait traits) {
    const SchemaSize size = measure_schema(schema);
    Entry entry;
    entry.schema = schema;
    entry.parameters = std::make_unique<Parameter[]>(size.parameters);
    entry.returns = std::make_unique<Return[]>(size.returns);
    Entry& kept = entries_.emplace_back(std::move(entry));
    if (!size.well_formed || !parse_schema(kept.schema, traits, kept.parameters.get(), kept.returns.get(), kept.op)) {
      entries_.pop_back();
      throw OperatorError(
          ErrorId::schema_malformed,
          "register_operator: " + repr(schema) + " is not of the form \"ns::name(Type arg=default, ...) -> Type\"");
    }
    by_id_.emplace(kept.op.id, &kept.op);
    by_base_[kept.op.name.substr(0, kept.op.name.find('.'))].push_back(&kept.op);
    return kept.op;
  }

  std::mutex mutex_;
  std::deque<Entry> entries_;
  std::vector<const Operator*> table_;
  std::unordered_map<std::uint64_t, const Operator*> by_id_;
  std::unordered_map<std::string_view, std::vector<const Operator*>> by_base_;
  std::unordered_map<std::string_view, std::unique_ptr<UserFunction>> functions_;
};

class RegisteredTargets final : public TargetResolver {
  const Operator* find_operator(std::string_view name) const override { return fxx::find_operator(name); }
  const UserFunction* find_function(std::string_view name) const override { return fxx::find_function(name); }
};

/// The kind of a value by its C++ type; nothing for types that are no single value of a graph.
FXX_INLINE std::optional<Type> type_of_cpp(std::string_view text) {
  bool list = false;
  if (text.starts_with("std::vector<") && text.ends_with('>')) {
    text = text.substr(12, text.size() - 13);
    list = true;
  }
  const auto of = [&](ValueType base) { return Type{.base = base, .list = list}; };
  if (text == "double" || text == "float") return of(ValueType::real);
  if (text == "int64_t" || text == "int") return of(ValueType::integer);
  if (text == "bool") return of(ValueType::boolean);
  if (text == "std::string") return of(ValueType::string);
  if (text == "torch::Tensor" || text == "at::Tensor") return of(ValueType::tensor);
  return std::nullopt;
}

FXX_INLINE std::optional<Type> type_of(const Node& node) {
  const Operator* op = node.opcode() == Opcode::call_method ? operator_of(node) : node.operation();
  if (!op) {
    if (node.opcode() == Opcode::get_attr) return Type{.base = ValueType::tensor};
    if (node.opcode() == Opcode::call_method) return type_of_cpp(node.type());
    return std::nullopt;
  }
  if (op->returns.size() != 1 || op->returns[0].type.base == ValueType::other) return std::nullopt;
  return op->returns[0].type;
}

FXX_INLINE bool is_number(const Node& node) {
  const std::optional<Type> type = type_of(node);
  return type && !type->list &&
         (type->base == ValueType::scalar || type->base == ValueType::integer || type->base == ValueType::real ||
          type->base == ValueType::boolean);
}

FXX_INLINE bool node_fits(const Node& node, Type type) {
  const std::optional<Type> given = type_of(node);
  if (!given || type.base == ValueType::other) return true;
  if (given->list != type.list) return false;
  const auto number = [](ValueType v) {
    return v == ValueType::scalar || v == ValueType::integer || v == ValueType::real || v == ValueType::boolean;
  };
  if (given->base == ValueType::scalar) return number(type.base);
  return given->base == type.base || (type.base == ValueType::scalar && number(given->base));
}

FXX_INLINE bool accepts(const Operator& op, std::span<const Argument> args, std::span<const KeywordArgument> kwargs) {
  if (args.size() > op.positional) return false;
  std::vector<bool> given(op.parameters.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!fits(args[i], op.parameters[i].type)) return false;
    given[i] = true;
  }
  for (const KeywordArgument& k : kwargs) {
    const int i = op.index_of(k.key);
    if (i < 0 || given[static_cast<std::size_t>(i)] || !fits(k.value, op.parameters[static_cast<std::size_t>(i)].type))
      return false;
    given[static_cast<std::size_t>(i)] = true;
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i] && !op.parameters[i].has_default()) return false;
  return true;
}

FXX_INLINE const Operator& overload_for_numbers(const Operator& op, std::vector<Argument>& args,
                                                const std::vector<KeywordArgument>& kwargs) {
  bool any = false;
  for (std::size_t i = 0; i < args.size() && i < op.parameters.size(); ++i)
    any = any || (op.parameters[i].type == Type{.base = ValueType::tensor} && args[i].is_node() &&
                  is_number(*args[i].node()));
  if (!any) return op;
  const std::string_view base = op.name.substr(0, op.name.find('.'));
  if (const Operator* other = resolve_overload(base, args, kwargs)) return *other;
  if (args.size() != 2) return op;
  if (has(op.traits, Trait::commutative)) {
    std::swap(args[0], args[1]);
    if (const Operator* other = resolve_overload(base, args, kwargs)) return *other;
    std::swap(args[0], args[1]);
  }
  const std::string_view name = op.base_name();
  const std::string python =
      "operator::" + std::string(name == "div" ? "truediv" : name == "remainder" ? "mod" : name);
  const Operator* other = op.name_space() == "aten" ? Registry::instance().find(python) : nullptr;
  return other && accepts(*other, args, kwargs) ? *other : op;
}

}  // namespace detail

namespace detail {
FXX_INLINE std::atomic<OperatorSource>& operator_source() {
  static constinit std::atomic<OperatorSource> source = nullptr;
  return source;
}
}  // namespace detail
FXX_INLINE void detail::set_operator_source(OperatorSource source) { operator_source() = source; }
FXX_INLINE const Operator* find_operator(std::string_view name) {
  if (const Operator* known = detail::Registry::instance().find(name)) return known;
  const detail::OperatorSource source = detail::operator_source();
  return source ? source(name) : nullptr;
}
FXX_INLINE const Operator& table_operator(OperatorIndex index) { return detail::Registry::instance().of_table(index); }
FXX_INLINE const Operator& get_operator(std::string_view name) {
  if (const Operator* op = find_operator(name)) return *op;
  throw OperatorError(ErrorId::operator_unknown, "get_operator: there is no operator '" + std::string(name) +
                                                     "'; register it with register_operator");
}
FXX_INLINE std::vector<const Operator*> overloads_of(std::string_view base) {
  return detail::Registry::instance().overloads(base);
}
FXX_INLINE const Operator& register_operator(std::string_view schema, Trait traits) {
  return detail::Registry::instance().add(schema, traits);
}
FXX_INLINE const UserFunction& register_function(std::string_view name, std::string_view header, bool impure,
                                                 const Expansion* expansion) {
  return detail::Registry::instance().add_function(name, header, impure, expansion);
}
FXX_INLINE const UserFunction* find_function(std::string_view name) {
  if (name == "fxx::rotary_embedding") return &rotary_embedding_function();  // there before somebody asks for it
  if (name == "fxx::softmax_attention") return &softmax_attention_function();
  return detail::Registry::instance().find_function(name);
}

FXX_INLINE bool fits(const Argument& argument, Type type) {
  using Kind = Argument::Kind;
  if (argument.is_node()) {
    if (!type.list) return detail::node_fits(*argument.node(), type);
    // One number for `int[2]`, or a value that is a list itself.
    return detail::node_fits(*argument.node(), type) ||
           (type.list_size > 0 && detail::node_fits(*argument.node(), {.base = type.base}));
  }
  if (argument.is_none()) return type.optional;
  if (type.list) {
    if (argument.is_sequence()) {
      const Type item{.base = type.base, .optional = type.optional_items};
      for (const Argument& a : argument.items())
        if (!fits(a, item)) return false;
      return true;
    }
    return type.list_size > 0 && fits(argument, {.base = type.base});
  }
  switch (type.base) {
    case ValueType::scalar: return argument.is_number() || argument.kind() == Kind::complex;
    case ValueType::integer: return argument.kind() == Kind::integer;
    case ValueType::real: return argument.kind() == Kind::real || argument.kind() == Kind::integer;
    case ValueType::boolean: return argument.kind() == Kind::boolean;
    case ValueType::string: return argument.kind() == Kind::string;
    case ValueType::dtype: return argument.kind() == Kind::dtype;
    case ValueType::layout: return argument.kind() == Kind::layout;
    case ValueType::memory_format: return argument.kind() == Kind::memory_format;
    case ValueType::device: return argument.kind() == Kind::device;
    case ValueType::other: return true;
    default: return false;
  }
}

FXX_INLINE const Operator* resolve_overload(std::string_view base, std::span<const Argument> args,
                                            std::span<const KeywordArgument> kwargs) {
  for (const Operator* op : overloads_of(base))
    if (detail::accepts(*op, args, kwargs)) return op;
  return nullptr;
}

FXX_INLINE const Operator* operator_of(const Node& node) {
  if (node.operation() || node.opcode() != Opcode::call_method) return node.operation();
  const Operator* op = resolve_overload("aten::" + std::get<CallMethod>(node.op()).target, node.args(), node.kwargs());
  if (op) node.set_resolved(op);
  return op;
}

FXX_INLINE const Argument* argument_of(const Node& node, const Operator& op, int i) {
  const auto at = static_cast<std::size_t>(i);
  if (at < node.args().size()) return &node.args()[at];
  if (node.kwargs().empty()) return nullptr;
  return node.kwarg(op.parameters[at].name);
}

FXX_INLINE Argument to_argument(const Literal& literal, Type type) {
  using Kind = Literal::Kind;
  switch (literal.kind) {
    case Kind::boolean: return literal.integer != 0;
    case Kind::integer:
      switch (type.base) {
        case ValueType::dtype: return static_cast<Dtype>(literal.integer);
        case ValueType::layout: return static_cast<Layout>(literal.integer);
        case ValueType::memory_format: return static_cast<MemoryFormat>(literal.integer);
        default: return literal.integer;
      }
    case Kind::real: return literal.real;
    case Kind::string: return literal.string;
    case Kind::integers: return Argument::list({literal.items, literal.items + literal.count});
    default: return {};
  }
}
FXX_INLINE Argument argument_or_default(const Node& node, const Operator& op, int i) {
  if (const Argument* given = argument_of(node, op, i)) return *given;
  const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
  return to_argument(parameter.standard, parameter.type);
}

FXX_INLINE bool equal_numbers(const Argument& a, const Argument& b) {
  const auto literal = [](const Argument& number) {
    if (number.kind() == Argument::Kind::real) return Literal::of(number.real());
    return Literal::of(number.kind() == Argument::Kind::boolean ? std::int64_t{number.boolean()} : number.integer());
  };
  return literal(a) == literal(b);
}

FXX_INLINE bool same_value(const Argument& argument, const Literal& literal, Type type) {
  using Kind = Literal::Kind;
  switch (literal.kind) {
    case Kind::none: return argument.is_none();
    case Kind::boolean:
      return argument.kind() == Argument::Kind::boolean && argument.boolean() == (literal.integer != 0);
    case Kind::integer:
    case Kind::real:
      if (argument.is_number() && argument.kind() != Argument::Kind::boolean)
        return equal_numbers(argument, to_argument(literal)) &&
               std::signbit(argument.number()) == std::signbit(literal.number());
      if (type.base == ValueType::dtype || type.base == ValueType::layout || type.base == ValueType::memory_format)
        return argument == to_argument(literal, type);
      if (!argument.is_sequence() || type.list_size == 0) return false;
      for (const Argument& item : argument.items())
        if (!same_value(item, literal)) return false;
      return !argument.items().empty();
    case Kind::string: return argument.kind() == Argument::Kind::string && argument.string() == literal.string;
    case Kind::integers: {
      if (argument.kind() == Argument::Kind::integer && type.list_size > 0) {
        for (int i = 0; i < literal.count; ++i)
          if (argument.integer() != literal.items[i]) return false;
        return literal.count > 0;
      }
      if (!argument.is_sequence()) return false;
      const auto items = argument.items();
      // `stride=[2]` says the same as `stride=[2, 2]`, and never what the empty list does.
      const bool repeated = items.size() == 1 && type.list_size > 1 && literal.count > 0;
      if (!repeated && items.size() != literal.count) return false;
      for (std::size_t i = 0; i < literal.count; ++i) {
        const Argument& item = items[repeated ? 0 : i];
        if (item.kind() != Argument::Kind::integer || item.integer() != literal.items[i]) return false;
      }
      return true;
    }
    default: return false;
  }
}

FXX_INLINE std::optional<std::int64_t> item_taken(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || op->name != "operator::getitem" || node.args().size() != 2) return {};
  const Argument& item = node.arg(1);
  return item.kind() == Argument::Kind::integer ? std::optional(item.integer()) : std::nullopt;
}

FXX_INLINE bool detail::has_effect_as_called(const Node& node) {
  const auto operator_is_impure = [&](const Operator& op, auto&& argument) {
    if (!op.depends_on_training()) return !op.pure();
    // Without running statistics there is nothing to update. Of modules it is not known here.
    const int mean = op.index_of("running_mean"), var = op.index_of("running_var");
    if (node.opcode() != Opcode::call_module && mean >= 0 && var >= 0 && argument(mean).is_none() &&
        argument(var).is_none())
      return false;
    for (const char* name : {"training", "use_input_stats", "train"})
      if (const int i = op.index_of(name); i >= 0) {
        const Argument flag = argument(i);
        return !(flag.kind() == Argument::Kind::boolean && !flag.boolean());
      }
    return true;
  };
  return match(
      node.op(), [](const Placeholder&) { return true; }, [](const GetAttr&) { return false; },
      [&](const CallFunction& call) {
        if (const auto* function = std::get_if<const UserFunction*>(&call.target)) return (*function)->impure;
        const Operator& op = *std::get<const Operator*>(call.target);
        return operator_is_impure(op, [&](int i) { return argument_or_default(node, op, i); });
      },
      [&](const CallMethod& call) {
        if (const Operator* op = operator_of(node))
          return operator_is_impure(*op, [&](int i) { return argument_or_default(node, *op, i); });
        // An object that a module holds may do anything.
        const Owner* owner = node.graph().owning_module();
        const Node* object = !node.args().empty() && node.arg(0).is_node() ? node.arg(0).node() : nullptr;
        if (owner && object && object->opcode() == Opcode::get_attr && owner->find_module(object->target())) return true;
        return call.target.ends_with('_');  // an unknown method that says it works in place
      },
      [&](const CallModule& call) {
        const Owner* owner = node.graph().owning_module();
        const ModuleInfo* module = owner ? owner->find_module(call.target) : nullptr;
        if (!module || !module->operation) return true;
        return operator_is_impure(*module->operation, [&](int i) { return module->argument(i); });
      },
      [](const Output&) { return true; });
}

FXX_INLINE bool draws_numbers(const Node& node) {
  const Owner* owner = node.opcode() == Opcode::call_module ? node.graph().owning_module() : nullptr;
  const ModuleInfo* module = owner ? owner->find_module(node.target()) : nullptr;
  const Operator* op = module ? module->operation : operator_of(node);
  if (!op || !has(op->traits, Trait::random)) return false;
  const auto given = [&](const char* name) {
    const int i = op->index_of(name);
    if (i < 0) return Argument();
    return module ? module->argument(i) : argument_or_default(node, *op, i);
  };
  for (const char* name : {"train", "training"})
    if (const Argument flag = given(name); flag.kind() == Argument::Kind::boolean && !flag.boolean()) return false;
  // With a probability of 0 dropout does not look; bernoulli and native_dropout do, and leave the generator in another
  // state.
  const bool looks = op->index_of("train") < 0 || op->name.starts_with("aten::native_");
  for (const char* name : {looks ? "dropout_p" : "p", "dropout_p", "dropout"})
    if (const Argument p = given(name); p.is_number() && p.number() == 0) return false;
  return true;
}

FXX_INLINE const TargetResolver& registered_targets() {
  static const detail::RegisteredTargets targets;
  return targets;
}
FXX_INLINE Graph parse_graph(std::string_view text) { return parse_graph(text, registered_targets()); }

}  // namespace fxx::inline FXX_ABI
