// Bodies of torch/plan.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <unordered_map>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/expand_functions.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/module_owner.hpp"
#include "fxx/torch/plan.hpp"

namespace fxx::inline FXX_ABI {

/// Makes a plan from a graph in two walks: who uses what last, then one step a node.
class Plan::Maker {
 public:
  Maker(Plan& plan, const Graph& graph, const ModuleOwner& owner) : plan_(plan), graph_(graph), owner_(owner) {
    registers_.assign(graph.index_bound(), -1);
    last_use_.assign(graph.index_bound(), nullptr);
    uses_left_.assign(graph.index_bound(), 0);
  }

  void make() {
    for (const Node* node : graph_.nodes()) {
      // Inputs are stored before the first step, so none has a register that a step in front of it gives free.
      if (node->opcode() == Opcode::placeholder) register_of(*node);
      for (Node* input : node->all_input_nodes()) last_use_[input->index()] = node;
    }
    for (const Node* node : graph_.nodes()) {
      node_ = node;
      add(*node);
    }
    plan_.registers_ = next_register_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw RunError(ErrorId::run_failed, "GraphModule: " + what, {format_node(*node_), node_->source()});
  }
  int register_of(const Node& node) {
    int& at = registers_[node.index()];
    if (at < 0) {
      if (free_.empty()) at = next_register_++;
      else at = free_.back(), free_.pop_back();
    }
    return at;
  }

  Source value_of(const Node& node) {
    if (const auto* attribute = std::get_if<GetAttr>(&node.op())) {
      // Tensors of a module keep their identity when they are moved or trained, so the handle is as good as the name.
      if (auto module = owner_.module(attribute->target))
        return {.kind = Source::Kind::constant, .constant = detail::hold_module(std::move(module))};
      const at::Tensor tensor = owner_.tensor(attribute->target);
      if (!tensor.defined())
        fail("the module has no tensor '" + attribute->target + "'; register it before the graph runs");
      return {.kind = Source::Kind::constant, .constant = tensor};
    }
    const bool last = last_use_[node.index()] == node_ && --uses_left_[node.index()] == 0;
    const int at = register_of(node);
    if (last) free_.push_back(at);  // for the results of this step, which are stored when all arguments are loaded
    return {.kind = last ? Source::Kind::last_use : Source::Kind::value, .at = at};
  }

  Source source(const Argument& argument, const Type& type) {
    bool any = false;
    for_each_node(argument, [&](Node*) { any = true; });
    if (!any) return immediate(argument, type);
    if (argument.is_node()) {
      if (type.list && type.list_size > 0 && node_is_number(*argument.node())) {
        // One number for all of `int[2]`, known only at run time.
        Source list{.kind = Source::Kind::list, .type = type};
        for (int i = 0; i < type.list_size; ++i)
          list.items.push_back({.kind = Source::Kind::value, .at = register_of(*argument.node())});
        return list;
      }
      Source made = value_of(*argument.node());
      if (type.base == ValueType::real || type.list ||
          (type.base == ValueType::tensor && may_be_number(*argument.node())))
        made.type = type;
      return made;
    }
    Source made;
    const Type item{.base = type.base, .optional = type.optional_items};
    const bool anything = type.base == ValueType::other;
    switch (argument.kind()) {
      case Argument::Kind::list:
      case Argument::Kind::tuple:
        if (!anything && !type.list) break;
        made.kind = type.list || argument.kind() == Argument::Kind::list ? Source::Kind::list : Source::Kind::tuple;
        made.type = type;
        for (const Argument& a : argument.items()) made.items.push_back(source(a, type.list ? item : Type{}));
        return made;
      case Argument::Kind::dict:
        if (!anything) break;
        made.kind = Source::Kind::dict;
        for (const DictEntry& entry : argument.entries()) {
          made.items.push_back({.kind = Source::Kind::constant, .constant = to_ivalue(entry.key)});
          made.items.push_back(source(entry.value, {}));
        }
        return made;
      default: break;
    }
    fail("an argument of kind '" + std::string(name_of(argument.kind())) + "' that holds nodes cannot be passed here");
  }
  static Source immediate(const Argument& argument, const Type& type) {
    c10::IValue value = to_ivalue(argument, type);
    // Operators only read their lists. Who reads one as it comes may change it, so each run makes its own.
    if (type.base == ValueType::other && (value.isList() || value.isTuple() || value.isGenericDict()))
      return {.kind = Source::Kind::fresh, .argument = argument};
    return {.kind = Source::Kind::constant, .constant = std::move(value)};
  }
  /// Whether a number may come where a tensor is expected: from a method of an object, or from an item of what one gave.
  static bool may_be_number(const Node& node) {
    const Node* from = &node;
    while (from->operation() && from->operation()->name == "operator::getitem" && !from->args().empty() &&
           from->arg(0).is_node())
      from = from->arg(0).node();
    return (from->opcode() == Opcode::call_method && !operator_of(*from)) || node_is_number(node);
  }
  static bool node_is_list(const Node& node) {
    const Operator* op = operator_of(node);
    return op && op->returns.size() == 1 && op->returns[0].type.list;
  }
  static bool node_is_number(const Node& node) {
    const Operator* op = operator_of(node);
    return op && op->returns.size() == 1 && !op->returns[0].type.list &&
           op->returns[0].type.base != ValueType::tensor && op->returns[0].type.base != ValueType::other;
  }

  /// Arguments in the order of the schema, defaults filled in by the dispatcher's own.
  void bind(Call& step, const Node& node, const Operator& op) {
    if (node.args().size() > op.parameters.size())
      fail("'" + std::string(op.name) + "' takes " + std::to_string(op.parameters.size()) +
           " arguments; the node has " + std::to_string(node.args().size()));
    for (const KeywordArgument& k : node.kwargs())
      if (const int i = op.index_of(k.key); i < 0 || static_cast<std::size_t>(i) < node.args().size())
        fail("'" + std::string(k.key) + "' is not a parameter of '" + std::string(op.name) +
             "', or is given twice; the schema is " + std::string(op.schema));
    for (int i = 0; i < op.arity(); ++i) {
      const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
      if (const Argument* given = argument_of(node, op, i)) {
        step.args.push_back(source(*given, parameter.type));
      } else if (step.handle) {
        const auto& standard = step.handle->schema().arguments()[static_cast<std::size_t>(i)].default_value();
        if (!standard)
          fail("argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
        step.args.push_back({.kind = Source::Kind::constant, .constant = *standard});
      } else if (parameter.has_default()) {
        step.args.push_back(
            {.kind = Source::Kind::constant, .constant = to_ivalue(to_argument(parameter.standard), parameter.type)});
      } else {
        fail("argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
      }
    }
  }

  void add(const Node& node) {
    count_uses(node);
    Call step;
    match(
        node.op(),
        [&](const Placeholder& o) {
          Input input{o.target, register_of(node), !node.args().empty(), {}, o.target.starts_with('*')};
          if (input.has_default) input.standard = immediate(node.arg(0), {});
          if (const TensorMeta* meta = node.tensor_meta(); meta && !input.takes_the_rest) {
            input.sizes.emplace(meta->shape.begin(), meta->shape.end());
            input.sizes_text = "[" + meta->shape_text() + "]";
          }
          plan_.inputs_.push_back(std::move(input));
        },
        [](const GetAttr&) {},
        [&](const CallFunction& o) {
          if (const auto* function = std::get_if<const UserFunction*>(&o.target)) {
            step.kind = Call::Kind::user;
            step.function = *function;
            positional(step, node);
            finish(std::move(step), node);
          } else {
            call(std::move(step), node, *std::get<const Operator*>(o.target));
          }
        },
        [&](const CallMethod& o) {
          if (const Operator* op = operator_of(node)) return call(std::move(step), node, *op);
          step.kind = Call::Kind::method;
          step.method = o.target;
          positional(step, node);
          finish(std::move(step), node);
        },
        [&](const CallModule& o) {
          step.kind = Call::Kind::module;
          step.module = owner_.module(o.target);
          if (!step.module) fail("there is no module '" + o.target + "'; add it before the graph runs");
          step.module_call = &module_call_of(*step.module);
          positional(step, node);
          finish(std::move(step), node);
        },
        [&](const Output&) { plan_.output_ = source(node.arg(0), {}); });
  }

  void positional(Call& step, const Node& node) {
    if (!node.kwargs().empty())
      fail("keyword arguments are known for operators only; pass '" + std::string(node.kwargs()[0].key) +
           "' by position");
    for (const Argument& a : node.args()) step.args.push_back(source(a, {}));
  }

  void call(Call step, const Node& node, const Operator& op) {
    if (op.name == "operator::getitem") {
      if (node.args().size() != 2) fail("getitem takes a container and an index");
      const Node* container = node.arg(0).is_node() ? node.arg(0).node() : nullptr;
      if (container && taken_apart(*container)) return;  // the producer writes the item's register itself
      step.kind = Call::Kind::item;
      step.args.push_back(source(node.arg(0), {}));
      step.args.push_back({.kind = Source::Kind::index, .argument = node.arg(1)});
      // Nodes in an index are read through their registers when the step runs.
      for_each_node(node.arg(1), [&](Node* n) {
        step.args.push_back(value_of(*n));
        step.args.back().argument = Argument(n);
      });
      return finish(std::move(step), node);
    }
    if (HostCall host = find_host_call(op.name)) {
      step.host = host;
      step.kind = Call::Kind::host;
      bind(step, node, op);
      return finish(std::move(step), node);
    }
    step.kind = Call::Kind::dispatch;
    step.handle = find_handle(op);
    if (step.handle && unboxed(*step.handle, node, op)) return;
    if (!step.handle)
      fail("LibTorch has no operator '" + std::string(op.name) +
           "'; load the library that registers it before the graph runs");
    bind(step, node, op);
    if (op.returns.size() > 1 && taken_apart(node)) {
      step.results.assign(op.returns.size(), -1);
      for (const Node* user : node.users()) {
        const auto item = static_cast<std::size_t>(user->arg(1).integer());
        step.results[item] = register_of(*user);
      }
      return add_call(std::move(step));
    }
    finish(std::move(step), node);
  }

  /// Are all users of a node with several results getitem calls with a number, each item taken once?
  static bool taken_apart(const Node& node) {
    const Operator* op = operator_of(node);
    if (!op || op->returns.size() < 2 || node.num_users() == 0) return false;
    std::vector<bool> taken(op->returns.size());
    for (const Node* user : node.users()) {
      const Operator* get = user->operation();
      if (!get || get->name != "operator::getitem" || user->args().size() != 2 ||
          !(user->arg(0) == Argument(const_cast<Node*>(&node))) || user->arg(1).kind() != Argument::Kind::integer)
        return false;
      const std::int64_t item = user->arg(1).integer();
      if (item < 0 || item >= static_cast<std::int64_t>(taken.size()) || taken[static_cast<std::size_t>(item)])
        return false;
      taken[static_cast<std::size_t>(item)] = true;
    }
    return true;
  }

  void finish(Call step, const Node& node) {
    step.results = {node.num_users() ? register_of(node) : -1};
    add_call(std::move(step));
  }
  void add_call(Call step) {
    plan_.steps_.push_back({.call = static_cast<std::uint32_t>(plan_.calls_.size())});
    plan_.calls_.push_back(std::move(step));
    plan_.nodes_.push_back(node_);
  }

  std::int32_t constant(c10::IValue value) {
    const auto add = [&] {
      Constant constant{.value = std::move(value)};
      if (constant.value.isIntList()) constant.integers = constant.value.toIntVector();
      if (constant.value.isTensor()) constant.tensor = constant.value.toTensor();
      plan_.constants_.push_back(std::move(constant));
      return static_cast<std::int32_t>(plan_.constants_.size() - 1);
    };
    std::pair<int, std::uint64_t> key;
    if (value.isNone()) key = {0, 0};
    else if (value.isBool()) key = {1, value.toBool()};
    else if (value.isInt()) key = {2, static_cast<std::uint64_t>(value.toInt())};
    else if (value.isDouble()) key = {3, std::bit_cast<std::uint64_t>(value.toDouble())};
    else return add();
    const auto [at, fresh] = plain_constants_.try_emplace(key);
    if (fresh) at->second = add();
    return at->second;
  }

  /// A step that calls the operator without boxing; false when it has no such form.
  bool unboxed(const c10::OperatorHandle& handle, const Node& node, const Operator& op) {
    // Handles and plain constants are shared: what ten thousand steps read should fit into the cache.
    const auto known = unboxed_.try_emplace(&op);
    if (known.second) {
      known.first->second = find_unboxed(handle, op);
      plan_.handles_.push_back(known.first->second.handle);
    }
    const UnboxedOperator& call = known.first->second;
    if (!call) return false;
    // What may turn out to be one number, or a tuple, is made a list of where values are boxed.
    for (int i = 0; i < op.arity(); ++i) {
      const Type& type = op.parameters[static_cast<std::size_t>(i)].type;
      const Argument* given =
          type.list || type.base == ValueType::tensor ? argument_of(node, op, i) : nullptr;
      if (given && given->is_node() && !type.list && may_be_number(*given->node())) return false;
      if (given && type.list && given->is_node() && !node_is_list(*given->node()) &&
          !(type.list_size > 0 && node_is_number(*given->node())))
        return false;
    }
    Call bound;
    bound.handle = handle;
    bind(bound, node, op);
    Step step{
        .unboxed = call.call, .handle = call.handle.get(), .call = static_cast<std::uint32_t>(plan_.args_.size())};
    step.result = node.num_users() ? register_of(node) : -1;
    step.releases = static_cast<std::uint32_t>(plan_.releases_.size());
    for (Source& source : bound.args) {
      const std::int32_t at = unboxed_argument(source, step);
      plan_.args_.push_back(at);
    }
    step.releases_end = static_cast<std::uint32_t>(plan_.releases_.size());
    plan_.steps_.push_back(step);
    plan_.nodes_.push_back(node_);
    return true;
  }

  /// The place of an argument: a register, or ~constant.
  std::int32_t unboxed_argument(Source& source, const Step& step) {
    if (source.kind == Source::Kind::constant) return ~constant(std::move(source.constant));
    if (source.kind == Source::Kind::list) {  // of integers, some of which are known only at run time
      Constant list;
      for (Source& item : source.items) list.items.push_back(unboxed_argument(item, step));
      plan_.constants_.push_back(std::move(list));
      return ~static_cast<std::int32_t>(plan_.constants_.size() - 1);
    }
    // Storing the result releases what was in its place.
    if (source.kind == Source::Kind::last_use && source.at != step.result) plan_.releases_.push_back(source.at);
    return source.at;
  }

  /// How often each input stands among the arguments: only the last occurrence may move the value.
  void count_uses(const Node& node) {
    for (const Node* input : node.all_input_nodes()) uses_left_[input->index()] = 0;
    const auto count = [&](Node* input) { ++uses_left_[input->index()]; };
    for (const Argument& a : node.args()) for_each_node(a, count);
    for (const KeywordArgument& k : node.kwargs()) for_each_node(k.value, count);
  }

  Plan& plan_;
  const Graph& graph_;
  const ModuleOwner& owner_;
  const Node* node_ = nullptr;
  std::vector<int> registers_;
  std::vector<const Node*> last_use_;
  std::vector<int> uses_left_;
  std::vector<int> free_;  // registers whose value was read for the last time
  int next_register_ = 0;
  std::unordered_map<const Operator*, UnboxedOperator> unboxed_;
  std::map<std::pair<int, std::uint64_t>, std::int32_t> plain_constants_;
};

FXX_INLINE Plan::Plan(const Graph& graph, const ModuleOwner& owner) : version_(graph.version()) {
  if (has_expansions(graph, runs_as_operators))
    expanded_ = std::make_shared<const Graph>(expanded(graph, runs_as_operators));
  Maker(*this, expanded_ ? *expanded_ : graph, owner).make();
}

FXX_INLINE c10::IValue Plan::load(const Source& source, std::vector<c10::IValue>& registers) const {
  const auto fitted = [&](c10::IValue value) {
    if (source.type.base != ValueType::other) detail::adapt(value, source.type);
    return value;
  };
  switch (source.kind) {
    case Source::Kind::constant: return source.constant;
    case Source::Kind::fresh: return to_ivalue(source.argument);
    case Source::Kind::value: return fitted(registers[static_cast<std::size_t>(source.at)]);
    case Source::Kind::last_use: return fitted(std::move(registers[static_cast<std::size_t>(source.at)]));
    case Source::Kind::dict: {
      c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
      for (std::size_t i = 0; i < source.items.size(); i += 2)
        dict.insert(load(source.items[i], registers), load(source.items[i + 1], registers));
      return dict;
    }
    default: {
      std::vector<c10::IValue> items;
      items.reserve(source.items.size());
      for (const Source& item : source.items) items.push_back(load(item, registers));
      if (source.kind == Source::Kind::tuple) return c10::ivalue::Tuple::create(std::move(items));
      return to_list(std::move(items), source.type);
    }
  }
}

FXX_INLINE void Plan::execute(const Call& call, std::vector<c10::IValue>& registers,
                              std::vector<c10::IValue>& stack) const {
  const auto only = [&](c10::IValue result) {
    stack.clear();
    stack.push_back(std::move(result));
  };
  stack.clear();
  if (call.kind == Call::Kind::item) {
    const auto value_of = [&](Node* node) -> c10::IValue {
      for (std::size_t i = 2; i < call.args.size(); ++i)
        if (call.args[i].argument == Argument(node)) return load(call.args[i], registers);
      return {};
    };
    const c10::IValue container = load(call.args[0], registers);
    stack.push_back(get_item(container, call.args[1].argument, value_of));
  } else {
    for (const Source& arg : call.args) stack.push_back(load(arg, registers));
    switch (call.kind) {
      case Call::Kind::dispatch: call.handle->callBoxed(stack); break;
      case Call::Kind::host: only(call.host(stack)); break;
      case Call::Kind::module: only((*call.module_call)(*call.module, std::move(stack))); break;
      case Call::Kind::user: only(call_user_function(*call.function, std::move(stack))); break;
      default: only(call_method(call.method, std::move(stack)));
    }
  }
  if (call.results.size() == 1) {
    if (call.results[0] < 0) return;
    if (stack.size() > 1) {
      c10::IValue tuple = c10::ivalue::Tuple::create(std::move(stack));
      stack.clear();
      registers[static_cast<std::size_t>(call.results[0])] = std::move(tuple);
    } else {  // nothing is None
      registers[static_cast<std::size_t>(call.results[0])] = stack.empty() ? c10::IValue() : std::move(stack[0]);
    }
    return;
  }
  for (std::size_t i = 0; i < call.results.size(); ++i)
    if (call.results[i] >= 0) registers[static_cast<std::size_t>(call.results[i])] = std::move(stack[i]);
}

/// Adds the node to the exception that is in flight, and inputs that are not as large as those of the trace.
FXX_INLINE void Plan::explain(const Node& node, const GivenSizes& given) const {
  const std::string text = format_node(node);
  std::string where = detail::while_executing(node);
  const std::int64_t* at = given.begin();
  std::map<std::int64_t, std::int64_t> dynamic;  // what the first dimension of each name has
  for (const Input& input : inputs_) {
    if (!input.sizes || at == given.end()) continue;
    const c10::IntArrayRef sizes(at + 1, static_cast<std::size_t>(std::max<std::int64_t>(*at, 0)));
    bool fixed = sizes.size() != input.sizes->size(), named = false;
    for (std::size_t d = 0; !fixed && d < sizes.size(); ++d) {
      const std::int64_t size = (*input.sizes)[d];
      if (size >= 0) fixed = sizes[d] != size;
      else named = dynamic.emplace(size, sizes[d]).first->second != sizes[d] || named;
    }
    if (*at >= 0 && (fixed || named))
      where += "\nInput '" + input.name + "' has the sizes " + c10::str(sizes) + "; the graph was made with " +
               input.sizes_text +
               (fixed ? ", and sizes that fxx::trace read are fixed in it unless they were declared dynamic"
                      : ", and dimensions of one name have one size");
    at += 1 + sizes.size();
  }
  try {
    throw;
  } catch (c10::Error& e) {
    e.add_context(where);
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw RunError(ErrorId::run_failed, "GraphModule: " + std::string(e.what()), {text, node.source()});
  }
}

FXX_INLINE c10::IValue Plan::run(std::span<c10::IValue> inputs) const {
  const detail::NestedCall call("GraphModule: calls of graph modules");
  if (inputs.size() > inputs_.size() && std::ranges::none_of(inputs_, &Input::takes_the_rest))
    throw RunError(ErrorId::input_mismatch, "GraphModule: " + std::to_string(inputs.size()) +
                                                " inputs were given; the graph takes " +
                                                std::to_string(inputs_.size()));
  std::vector<c10::IValue> registers(static_cast<std::size_t>(registers_));
  GivenSizes sizes;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].takes_the_rest) {
      const auto rest = inputs.subspan(std::min(i, inputs.size()));
      registers[static_cast<std::size_t>(inputs_[i].at)] =
          to_list(Values(std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end())), {});
      inputs = {};
      continue;
    }
    const bool given = i < inputs.size() && !(inputs[i].isTensor() && !inputs[i].toTensor().defined());
    if (!given && !inputs_[i].has_default)
      throw RunError(ErrorId::input_mismatch, "GraphModule: input '" + inputs_[i].name + "' (number " +
                                                  std::to_string(i) + ") is missing or undefined; the graph takes " +
                                                  std::to_string(inputs_.size()) + " inputs");
    if (inputs_[i].sizes) {
      // To ask a traced tensor is what a trace takes note of.
      const bool known = given && inputs[i].isTensor() && !detail::traced(inputs[i].toTensor()) &&
                         !inputs[i].toTensor().is_nested() &&
                         !inputs[i].toTensor().unsafeGetTensorImpl()->has_symbolic_sizes_strides();
      sizes.push_back(known ? inputs[i].toTensor().dim() : -1);
      if (known) sizes.append(inputs[i].toTensor().sizes().begin(), inputs[i].toTensor().sizes().end());
    }
    registers[static_cast<std::size_t>(inputs_[i].at)] =
        given ? std::move(inputs[i]) : load(inputs_[i].standard, registers);
  }
  std::vector<c10::IValue> stack;
  std::size_t at = 0;
  try {
    for (; at < steps_.size(); ++at) {
      const Step& step = steps_[at];
      if (!step.unboxed) {
        execute(calls_[step.call], registers, stack);
        continue;
      }
      c10::IValue result = step.unboxed(step.handle, args_.data() + step.call, {registers.data(), constants_.data()});
      for (std::uint32_t i = step.releases; i < step.releases_end; ++i)
        registers[static_cast<std::size_t>(releases_[i])] = c10::IValue();
      if (step.result >= 0) registers[static_cast<std::size_t>(step.result)] = std::move(result);
    }
  } catch (...) {
    explain(*nodes_[at], sizes);
  }
  return load(output_, registers);
}

}  // namespace fxx::inline FXX_ABI
