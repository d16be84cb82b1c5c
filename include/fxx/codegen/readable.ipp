// Bodies of codegen/readable.hpp: one class, which writes a graph as statements and expressions.
#pragma once

#include <algorithm>
#include <set>

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/inputs.hpp"
#include "fxx/codegen/members.hpp"
#include "fxx/codegen/readable.hpp"
#include "fxx/codegen/types.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/numbers.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/expand_functions.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

[[noreturn]] FXX_INLINE void no_cpp(const Node& node, const std::string& what) {
  throw CodegenError(ErrorId::no_cpp_spelling, "forward_code: " + what, {format_node(node), node.source()});
}

// --- writing ---------------------------------------------------------------------------------------------------------

/// A piece of an expression and how tightly it binds.
struct Expression {
  enum Strength { comparison = 1, bit_or, bit_xor, bit_and, sum, product, unary, primary };
  std::string text;
  int strength = primary;
};

class ForwardWriter {
 public:
  ForwardWriter(const Graph& graph, const Owner& owner, const Members& members, const CodeOptions& options)
      : graph_(graph), owner_(owner), members_(members), options_(options), types_(graph, owner), inputs_(graph) {
    for (const Node* node : graph.nodes()) names_.insert(node->name());
  }

  /// "torch::Tensor x, double p = 0.5", without defaults in a definition.
  std::string parameters(bool with_defaults) const {
    std::string list;
    std::set<std::string_view> known;  // leaves of containers, and inputs that are one value
    if (const Signature* signature = graph_.signature()) {
      for (const std::string_view target : signature->leaves()) known.insert(target);
      for (const Signature::Input& input : signature->inputs) {
        const bool leaf = input.structure.kind == Structure::Kind::leaf;
        const Node* node = leaf ? inputs_.placeholder(input.structure.placeholder) : nullptr;
        if (leaf && !node) continue;  // it was erased
        list += (list.empty() ? "" : ", ") +
                (leaf ? parameter(*node, with_defaults) : inputs_.type(input.structure) + " " + input_name(input));
      }
    }
    for (const Node* node : graph_.nodes())
      if (node->opcode() == Opcode::placeholder && !known.contains(node->target()))
        list += (list.empty() ? "" : ", ") + parameter(*node, with_defaults);
    return list;
  }

  std::string result_type() const {
    const Node* output = graph_.output_node();
    if (!output->type().empty() && is_cpp_type(output->type())) return std::string(output->type());
    return output->arg(0).is_none() ? "void" : types_.of(output->arg(0));
  }

  std::string body(const std::string& indent) {
    plan_releases();
    std::string text;
    if (const Signature* signature = graph_.signature())
      for (const Signature::Input& input : signature->inputs) {
        if (input.structure.kind == Structure::Kind::leaf) continue;
        std::vector<std::string> lines;
        inputs_.unpack(input.structure, input_name(input), lines);
        for (const std::string& line : lines) text += indent + line + "\n";
      }
    for (const Node* node : graph_.nodes()) {
      const std::string line = statement(*node);
      if (!line.empty()) text += indent + line + "\n";
    }
    return text;
  }

 private:
  /// "double p = 0.5".
  std::string parameter(const Node& node, bool with_default) const {
    if (!node.target().empty() && node.target()[0] == '*')
      no_cpp(node, "a variadic input has no C++ form; give the inputs one by one");
    std::string type(node.type());
    if (type.empty()) type = node.args().empty() || node.arg(0).is_none() ? "torch::Tensor" : types_.of(node.arg(0));
    if (!is_cpp_type(type))
      no_cpp(node, "the type " + repr(std::string_view(type)) + " of input '" + std::string(node.name()) +
                       "' is no C++ type");
    std::string text = type + " " + std::string(node.name());
    if (with_default && !node.args().empty())
      text += " = " + (node.arg(0).is_none() ? "{}" : immediate(node.arg(0), {}, node));
    return text;
  }
  /// The name of an input that is a container: one that no node has.
  std::string input_name(const Signature::Input& input) const {
    std::string name = snake_case(input.name);
    while (is_reserved_name(name) || names_.contains(name)) name += '_';
    return name;
  }

  // --- statements ----------------------------------------------------------------------------------------------------

  void plan_releases() {
    last_user_.assign(graph_.index_bound(), nullptr);
    has_effect_after_.assign(graph_.index_bound(), false);
    barrier_of_.assign(graph_.index_bound(), 0);
    occurrences_.assign(graph_.index_bound(), 0);
    std::size_t barriers = 0;
    for (const Node* node : graph_.nodes()) {
      for (Node* input : node->all_input_nodes()) last_user_[input->index()] = node;
      const auto count = [&](Node* input) { ++occurrences_[input->index()]; };
      for (const Argument& a : node->args()) for_each_node(a, count);
      for (const KeywordArgument& k : node->kwargs()) for_each_node(k.value, count);
      barrier_of_[node->index()] = barriers;
      has_effect_after_[node->index()] = is_barrier(*node) || (node->operation() && node->operation()->mutates);
      if (has_effect_after_[node->index()]) ++barriers;
    }
  }

  /// Does an operator write to the value? It takes a variable then, no expression.
  static bool is_written(const Node& node) {
    for (const Node* user : node.users()) {
      const Operator* op = operator_of(*user);
      for (int i = 0; op && op->mutates && i < op->arity(); ++i) {
        const Argument* given =
            op->parameters[static_cast<std::size_t>(i)].written ? argument_of(*user, *op, i) : nullptr;
        if (given && *given == Argument(const_cast<Node*>(&node))) return true;
      }
    }
    return false;
  }
  bool nests(const Node& node) const {
    if (options_.nest_expressions && is_written(node)) return false;
    if (node.opcode() == Opcode::get_attr) return options_.nest_expressions;
    if (!options_.nest_expressions || node.opcode() == Opcode::placeholder || node.num_users() != 1 ||
        occurrences_[node.index()] != 1)
      return false;
    const Node& user = *node.users().front();
    if (has_effect_after_[node.index()] || barrier_of_[user.index()] != barrier_of_[node.index()]) return false;
    const Operator* op = operator_of(node);
    if (op && has(op->traits, Trait::random)) return false;
    if (node.opcode() == Opcode::call_module || !op) {
      // A module may hold anything; it is nested only into what directly follows it.
      if (node.next() != &user && owner_.find_module(node.target()) && !owner_.find_module(node.target())->operation)
        return false;
    }
    return types_.of(node) == "torch::Tensor";
  }

  std::string statement(const Node& node) {
    if (node.opcode() == Opcode::placeholder) return {};
    if (node.opcode() == Opcode::output)
      return node.arg(0).is_none() ? std::string() : "return " + returned(node.arg(0), node) + ";";
    Expression made = expression(node);
    if (nests(node) && (node.opcode() == Opcode::get_attr || made.text.size() <= 72)) {
      nested_[&node] = std::move(made);
      return {};
    }
    std::string line =
        node.num_users() ? "auto " + std::string(node.name()) + " = " + made.text + ";" : made.text + ";";
    if (options_.release_values) line += releases(node);
    return line;
  }

  std::string releases(const Node& node) const {
    std::string text;
    for (const Node* input : node.all_input_nodes()) {
      if (last_user_[input->index()] != &node || nested_.contains(input)) continue;
      const std::string type = input->opcode() == Opcode::placeholder && !input->type().empty()
                                   ? std::string(input->type())
                                   : types_.of(*input);
      if (type == "torch::Tensor") text += " " + std::string(input->name()) + ".reset();";
      else if (type.starts_with("std::vector<torch::Tensor") || type.starts_with("std::tuple<"))
        text += " " + std::string(input->name()) + " = {};";
    }
    return text.empty() ? text : " " + text;
  }

  // --- expressions ---------------------------------------------------------------------------------------------------

  std::string text_of(const Node& node, int least = 0) const {
    const auto nested = nested_.find(&node);
    if (nested == nested_.end()) return std::string(node.name());
    return nested->second.strength < least ? "(" + nested->second.text + ")" : nested->second.text;
  }
  std::string operand(const Argument& argument, const Type& type, const Node& node, int least) const {
    if (argument.is_node()) return text_of(*argument.node(), least);
    const std::string text = this->argument(argument, type, node);
    return text.starts_with('-') && least > Expression::unary ? "(" + text + ")" : text;
  }

  Expression expression(const Node& node) const {
    return match(
        node.op(), [&](const Placeholder&) { return Expression{std::string(node.name())}; },
        [&](const GetAttr& o) { return Expression{members_.expression(o.target)}; },
        [&](const CallFunction& o) {
          if (const auto* function = std::get_if<const UserFunction*>(&o.target)) {
            if (!is_cpp_name((*function)->name)) no_cpp(node, "'" + (*function)->name + "' is no C++ name");
            // From the outermost scope: a variable of this function may have the same name.
            return Expression{"::" + (*function)->name + "(" + arguments(node, node.args()) + ")"};
          }
          return call(node, *std::get<const Operator*>(o.target), false);
        },
        [&](const CallMethod& o) {
          if (!is_cpp_name(o.target) || o.target.find(':') != std::string::npos)
            no_cpp(node, repr(std::string_view(o.target)) + " is no name of a method");
          if (const Operator* op = operator_of(node)) return call(node, *op, true);
          if (node.args().empty() || !node.arg(0).is_node())
            no_cpp(node, "a method needs an object as its first argument");
          return Expression{text_of(*node.arg(0).node(), Expression::primary) + "." + o.target + "(" +
                            arguments(node, node.args().subspan(1)) + ")"};
        },
        [&](const CallModule& o) {
          return Expression{members_.expression(o.target) + "(" + arguments(node, node.args()) + ")"};
        },
        [&](const Output&) { return Expression{}; });
  }

  std::string arguments(const Node& node, std::span<const Argument> args) const {
    std::string list;
    for (const Argument& a : args) list += (list.empty() ? "" : ", ") + argument(a, {}, node);
    for (const KeywordArgument& k : node.kwargs()) list += (list.empty() ? "" : ", ") + argument(k.value, {}, node);
    return list;
  }

  /// Infix operators where C++'s means exactly the operator.
  std::optional<Expression> infix(const Node& node, const Operator& op) const {
    struct Infix {
      std::string_view base, symbol;
      int strength;
      std::size_t arity;
    };
    static constexpr Infix table[] = {{"add", "+", Expression::sum, 2},
                                      {"sub", "-", Expression::sum, 2},
                                      {"mul", "*", Expression::product, 2},
                                      {"div", "/", Expression::product, 2},
                                      {"lt", "<", Expression::comparison, 2},
                                      {"le", "<=", Expression::comparison, 2},
                                      {"gt", ">", Expression::comparison, 2},
                                      {"ge", ">=", Expression::comparison, 2},
                                      {"eq", "==", Expression::comparison, 2},
                                      {"ne", "!=", Expression::comparison, 2},
                                      {"bitwise_and", "&", Expression::bit_and, 2},
                                      {"bitwise_or", "|", Expression::bit_or, 2},
                                      {"bitwise_xor", "^", Expression::bit_xor, 2}};
    if (!node.kwargs().empty() || node.args().size() != 2 || !node.arg(0).is_node()) return std::nullopt;
    const std::string_view overload = op.overload_name();
    const bool python = op.name_space() == "operator";
    if (!python && overload != "Tensor" && overload != "Scalar") return std::nullopt;
    for (const Infix& i : table) {
      if (op.base_name() != i.base) continue;
      // The right side binds tighter: a - (b - c).
      return Expression{operand(node.arg(0), op.parameters[0].type, node, i.strength) + " " + std::string(i.symbol) +
                            " " + operand(node.arg(1), op.parameters[1].type, node, i.strength + 1),
                        i.strength};
    }
    return std::nullopt;
  }

  Expression call(const Node& node, const Operator& op, bool as_method) const {
    const std::string_view space = op.name_space();
    if (op.name == "fxx::check_equal") return {check_equal(node)};
    if (op.name == "fxx::identity") return {argument(node.arg(0), {}, node), Expression::primary};
    if (op.name == "operator::getitem") return {get_item(node)};
    if (op.name == "operator::floordiv" || op.name == "operator::mod" || op.name == "std::divides" ||
        op.name == "std::modulus")
      return division(node, op);
    if (!as_method)
      if (auto made = infix(node, op)) return *made;
    if (space == "operator" && op.base_name() == "neg")
      return {"-" + operand(node.arg(0), {}, node, Expression::primary), Expression::unary};
    if (space == "operator" && op.base_name() == "truediv")
      return {"static_cast<double>(" + operand(node.arg(0), {}, node, 0) + ") / " +
                  operand(node.arg(1), {}, node, Expression::unary),
              Expression::product};
    if (op.name == "operator::abs") return {"std::abs(" + argument(node.arg(0), {}, node) + ")"};
    if (space == "operator") return {scalar_infix(node, op)};
    if (space == "math" || space == "std" || space == "builtins") return {number_function(node, op)};
    if (space == "prim") return {property(node, op)};
    if (op.name == "fxx::to_int") return {"static_cast<int64_t>(" + argument(node.arg(0), {}, node) + ")"};
    if (op.base_name() == "_assert_scalar" || op.name == "aten::_assert_async.msg") {
      const std::string condition = argument(node.arg(0), {}, node), message = argument(node.arg(1), {}, node);
      return {"TORCH_CHECK(" +
              (op.base_name() == "_assert_scalar" ? condition : "torch::is_nonzero(" + condition + ")") + ", " +
              message + ")"};
    }
    if (space != "aten") return {dispatcher_call(node, op)};
    if (op.name == "aten::neg" && !as_method)
      return {"-" + operand(node.arg(0), {}, node, Expression::primary), Expression::unary};
    if (op.base_name() == "index" || op.base_name() == "index_put" || op.base_name() == "index_put_")
      return {indexed(node, op)};
    const bool function = has(op.traits, Trait::function), method = has(op.traits, Trait::method);
    if (as_method ? method : (method && !function)) {
      const Argument* self = argument_of(node, op, 0);
      if (self && self->is_node())
        return {text_of(*self->node(), Expression::primary) + "." + std::string(op.base_name()) + "(" +
                schema_arguments(node, op, 1) + ")"};
    }
    if (function) return {"torch::" + std::string(op.base_name()) + "(" + schema_arguments(node, op, 0) + ")"};
    return {exact_call(node, op)};
  }
  /// An input that was bound to a constant has that value.
  std::string check_equal(const Node& node) const {
    const std::string value = operand(node.arg(0), {}, node, Expression::unary);
    const std::string condition = node.arg(1).is_none()
                                      ? "!" + value + ".defined()"
                                      : value + " == " + operand(node.arg(1), {}, node, Expression::unary);
    return "TORCH_CHECK(" + condition + ", " + argument(node.arg(2), {}, node) + ")";
  }
  /// Of numbers: C++'s own, or Python's, which is the same where nothing is negative.
  Expression division(const Node& node, const Operator& op) const {
    const bool real = types_.of(node) == "double", positive = is_never_negative(node.arg(1));
    const std::string a = operand(node.arg(0), {}, node, Expression::product),
                      b = operand(node.arg(1), {}, node, Expression::unary);
    if (op.name_space() == "operator" && (real || !positive || !is_never_negative(node.arg(0))))
      return {cpp_rounded_down(op.base_name(), a, b, {.real = real, .positive_divisor = positive}), Expression::sum};
    if (real && op.base_name() == "modulus") return {"std::fmod(" + a + ", " + b + ")"};
    if (!node.arg(0).is_node()) return {scalar_infix(node, op)};
    return {a + " " + std::string(number_symbol(op.base_name())) + " " + b, Expression::product};
  }
  std::string scalar_infix(const Node& node, const Operator& op) const {
    return "(" + operand(node.arg(0), {}, node, 0) + " " + std::string(number_symbol(op.base_name())) + " " +
           operand(node.arg(1), {}, node, Expression::primary) + ")";
  }
  /// A function of <cmath> or <algorithm>.
  std::string number_function(const Node& node, const Operator& op) const {
    const bool both = op.name_space() == "builtins";
    std::string text = "std::" + std::string(op.base_name()) + (both ? "<" + types_.of(node) + ">" : "") + "(";
    for (std::size_t i = 0; i < node.args().size(); ++i) text += (i ? ", " : "") + argument(node.arg(i), {}, node);
    return op.returns[0].type.base == ValueType::integer ? "static_cast<int64_t>(" + text + "))" : text + ")";
  }
  /// What a tensor says of itself.
  std::string property(const Node& node, const Operator& op) const {
    const std::string_view base = op.base_name();
    const std::string call = operand(node.arg(0), {}, node, Expression::primary) + "." +
                             (base == "dtype" ? "scalar_type" : std::string(base)) + "()";
    if (base == "sizes" || base == "strides") return call + ".vec()";
    return base == "itemsize" || base == "nbytes" ? "static_cast<int64_t>(" + call + ")" : call;
  }

  /// Arguments of a function of LibTorch's C++ API from parameter `first` on; trailing defaults are left out, dtype,
  /// layout, device and pin_memory become TensorOptions.
  std::string schema_arguments(const Node& node, const Operator& op, int first) const {
    std::vector<std::string> list;
    std::size_t needed = 0;
    for (int i = first; i < op.arity(); ++i) {
      const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
      if (parameter.type.base == ValueType::generator) continue;
      const Argument* given = argument_of(node, op, i);
      if (parameter.name == "dtype" && i + 3 < op.arity() &&
          op.parameters[static_cast<std::size_t>(i) + 3].name == "pin_memory") {
        bool any = false;
        list.push_back(tensor_options(node, op, i, any));
        if (any) needed = list.size();
        i += 3;
        continue;
      }
      const bool standard =
          !given || (parameter.has_default() && same_value(*given, parameter.standard, parameter.type));
      if (!given && !parameter.has_default())
        no_cpp(node, "argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
      list.push_back(argument(given ? *given : to_argument(parameter.standard, parameter.type), parameter.type, node));
      if (!standard || !parameter.has_default()) needed = list.size();
    }
    std::string text;
    for (std::size_t i = 0; i < needed; ++i) text += (i ? ", " : "") + list[i];
    return text;
  }
  /// `torch::kFloat32`, `torch::kCPU`, `torch::dtype(torch::kFloat32).device(torch::kCPU)`.
  std::string tensor_options(const Node& node, const Operator& op, int first, bool& any) const {
    static constexpr const char* setters[] = {"dtype(", "layout(", "device(", "pinned_memory("};
    const bool like_another = op.parameters[0].type.base == ValueType::tensor;
    std::string text, only;
    for (int i = 0; i < 4; ++i) {
      const Argument* given = argument_of(node, op, first + i);
      if (!given || given->is_none()) continue;
      if (i == 1 && !like_another && *given == Argument(Layout::strided)) continue;
      if (i == 3 && given->kind() == Argument::Kind::boolean && !given->boolean()) continue;
      const std::string value = argument(*given, op.parameters[static_cast<std::size_t>(first + i)].type, node);
      only = any || i % 2 ? std::string() : value;
      text += (any ? "." : "torch::") + std::string(setters[i]) + value + ")";
      any = true;
    }
    // A node's value may be an optional, which is no TensorOptions by itself.
    if (!only.empty() && only.starts_with("torch::k")) return only;
    return text.empty() ? "torch::TensorOptions()" : text;
  }

  /// The operator itself, every argument given: for what the C++ API has no name of its own.
  std::string exact_call(const Node& node, const Operator& op) const {
    std::string name(op.base_name());
    if (!op.overload_name().empty()) name += "_" + std::string(op.overload_name());
    if (!is_cpp_name(name)) no_cpp(node, "'" + std::string(op.name) + "' is no C++ name");
    return "at::_ops::" + name + "::call(" + all_arguments(node, op) + ")";
  }
  /// An operator that somebody registered: it has no function of its own, but the dispatcher knows it.
  std::string dispatcher_call(const Node& node, const Operator& op) const {
    std::string result, parameters;
    for (const Return& r : op.returns)
      result +=
          (result.empty() ? "" : ", ") + std::string(r.written ? "at::Tensor&" : signature_type(node, op, r.type));
    if (op.returns.size() != 1) result = result.empty() ? "void" : "std::tuple<" + result + ">";
    for (const Parameter& p : op.parameters)
      parameters += (parameters.empty() ? "" : ", ") +
                    std::string(p.written ? "at::Tensor&" : signature_type(node, op, p.type, true));
    const std::string name = std::string(op.name_space()) + "::" + std::string(op.base_name());
    return "c10::Dispatcher::singleton().findSchemaOrThrow(" + cpp_string(name) + ", " +
           cpp_string(op.overload_name()) + ").typed<" + result + "(" + parameters + ")>().call(" +
           all_arguments(node, op) + ")";
  }
  /// How the dispatcher's C++ signatures spell a type.
  std::string signature_type(const Node& node, const Operator& op, const Type& type, bool parameter = false) const {
    std::string base;
    switch (type.base) {
      case ValueType::tensor: base = "at::Tensor"; break;
      case ValueType::scalar: base = "at::Scalar"; break;
      case ValueType::integer: base = type.symbolic ? "c10::SymInt" : "int64_t"; break;
      case ValueType::real: base = "double"; break;
      case ValueType::boolean: base = "bool"; break;
      case ValueType::string: base = parameter ? "std::string_view" : "std::string"; break;
      case ValueType::dtype: base = "at::ScalarType"; break;
      case ValueType::layout: base = "at::Layout"; break;
      case ValueType::device: base = "at::Device"; break;
      case ValueType::memory_format: base = "at::MemoryFormat"; break;
      default: no_cpp(node, "'" + std::string(op.name) + "' has a parameter or a result of a type without a C++ form");
    }
    const bool by_reference = parameter && !type.list && (base == "at::Tensor" || base == "at::Scalar");
    if (type.list && type.optional_items) base = "const c10::List<std::optional<" + base + ">>&";
    else if (type.list)
      base = !parameter              ? "std::vector<" + base + ">"
             : base == "c10::SymInt" ? "c10::SymIntArrayRef"
                                     : "at::ArrayRef<" + base + ">";
    if (type.optional) base = "std::optional<" + base + ">";
    return by_reference ? "const " + base + "&" : base;
  }
  std::string all_arguments(const Node& node, const Operator& op) const {
    std::string text;
    for (int i = 0; i < op.arity(); ++i) {
      const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
      const Argument* given = argument_of(node, op, i);
      if (!given && !parameter.has_default())
        no_cpp(node, "argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
      text += (i ? ", " : "") +
              argument(given ? *given : to_argument(parameter.standard, parameter.type), parameter.type, node);
    }
    return text;
  }

  std::string index_part(const Argument& part, bool none_is_slice, const Node& node) const {
    switch (part.kind()) {
      case Argument::Kind::none: return none_is_slice ? "torch::indexing::Slice()" : "torch::indexing::None";
      case Argument::Kind::ellipsis: return "torch::indexing::Ellipsis";
      case Argument::Kind::slice: {
        const auto end = [&](const Argument& a) {
          return a.is_none() ? std::string("torch::indexing::None") : argument(a, {}, node);
        };
        const Slice& slice = part.slice();
        if (slice.start.is_none() && slice.stop.is_none() && slice.step.is_none()) return "torch::indexing::Slice()";
        return "torch::indexing::Slice(" + end(slice.start) + ", " + end(slice.stop) +
               (slice.step.is_none() ? "" : ", " + end(slice.step)) + ")";
      }
      default: return argument(part, {}, node);
    }
  }
  std::string index_list(const Argument& index, bool none_is_slice, const Node& node) const {
    std::string text = "{";
    if (!index.is_sequence()) return text + index_part(index, none_is_slice, node) + "}";
    for (const Argument& part : index.items())
      text += (text.size() > 1 ? ", " : "") + index_part(part, none_is_slice, node);
    return text + "}";
  }
  std::string indexed(const Node& node, const Operator& op) const {
    std::string text = operand(argument_or_default(node, op, 0), op.parameters[0].type, node, Expression::primary) +
                       "." + std::string(op.base_name()) + "(" +
                       index_list(argument_or_default(node, op, 1), true, node);
    for (int i = 2; i < op.arity() && i < 4; ++i)
      text += ", " + argument(argument_or_default(node, op, i), op.parameters[static_cast<std::size_t>(i)].type, node);
    return text + ")";
  }
  std::string get_item(const Node& node) const {
    const Node& container = *node.arg(0).node();
    const Argument& index = node.arg(1);
    const std::string type = types_.of(container), object = text_of(container, Expression::primary);
    if (type.starts_with("std::tuple<"))
      return "std::get<" + cpp_integer(index.integer()) + ">(" + text_of(container) + ")";
    if (type.starts_with("std::vector<") && index.kind() == Argument::Kind::integer && index.integer() < 0)
      return object + ".end()[" + argument(index, {}, node) + "]";
    if (type.starts_with("std::vector<") || (index.kind() == Argument::Kind::integer && type == "torch::Tensor"))
      return object + "[" + argument(index, {}, node) + "]";
    if (type == "torch::Tensor") return object + ".index(" + index_list(index, false, node) + ")";
    no_cpp(node, "what '" + std::string(container.name()) + "' is in C++ is not known, so neither is an item of it");
  }

  std::string argument(const Argument& argument, const Type& type, const Node& node) const {
    if (argument.is_node()) return text_of(*argument.node());
    return immediate(argument, type, node);
  }
  /// A constant, or a container that may hold nodes, for a parameter of this type.
  std::string immediate(const Argument& value, const Type& type, const Node& node) const {
    const Type item{.base = type.base, .optional = type.optional_items};
    if (type.list && !value.is_sequence() && !value.is_none()) return "{" + immediate(value, item, node) + "}";
    const auto items = [&](std::span<const Argument> list) {
      std::string text;
      for (const Argument& a : list) text += (text.empty() ? "" : ", ") + argument(a, item, node);
      return text;
    };
    return visit(
        value,
        [&](None) -> std::string {
          return type.base == ValueType::tensor || type.base == ValueType::other ? "{}" : "std::nullopt";
        },
        [&](Node* n) { return text_of(*n); }, [](bool v) { return std::string(v ? "true" : "false"); },
        [&](std::int64_t v) {
          return type.base == ValueType::real ? cpp_double(static_cast<double>(v)) : cpp_integer(v);
        },
        [](double v) { return cpp_double(v); }, [](Dtype v) { return cpp_dtype(v); },
        [](Layout v) { return "c10::Layout::" + std::string(c10_name_of(v)); },
        [](MemoryFormat v) { return "c10::MemoryFormat::" + std::string(c10_name_of(v)); },
        [](Device v) {
          static constexpr DeviceType named[] = {DeviceType::cpu, DeviceType::cuda, DeviceType::xpu, DeviceType::mps,
                                                 DeviceType::meta};
          const bool short_name = std::find(std::begin(named), std::end(named), v.type) != std::end(named);
          const std::string type = (short_name ? "torch::k" : "c10::DeviceType::") + std::string(c10_name_of(v.type));
          if (v.index < 0) return short_name ? type : "torch::Device(" + type + ")";
          return "torch::Device(" + type + ", " + std::to_string(v.index) + ")";
        },
        [](Ellipsis) { return std::string("torch::indexing::Ellipsis"); },
        [](Complex v) { return "c10::complex<double>(" + cpp_double(v.real) + ", " + cpp_double(v.imag) + ")"; },
        [](const std::string& v) { return cpp_string(v); },
        [&](const Enumerator& v) {
          if (!is_cpp_name(v.type) || (!v.name.empty() && !is_cpp_name(v.name)))
            no_cpp(node, "the enumerator " + to_string(Argument(v)) + " is no C++ name");
          if (v.name.empty()) return "static_cast<" + v.type + ">(" + cpp_integer(v.value) + ")";
          return v.type + "::" + v.name;
        },
        [&](const Range&) -> std::string { no_cpp(node, "a range has no C++ form; give the list of its numbers"); },
        [&](const Slice&) { return index_part(value, false, node); },
        [&](ListView list) -> std::string {
          if (type.list && type.optional_items)
            return "c10::List<std::optional<at::Tensor>>({" + items(list.items) + "})";
          if (list.items.empty() && type.list)
            return type.base == ValueType::tensor ? "at::TensorList()" : "at::IntArrayRef()";
          const std::string text = "{" + items(list.items) + "}";
          // A leading 0 is a null pointer to overloads that take names of dimensions.
          if (type.list && type.optional && text.starts_with("{0")) return "at::IntArrayRef(" + text + ")";
          if (!type.list) return types_.of(value) + text;
          return text;
        },
        [&](TupleView tuple) -> std::string {
          return type.list ? "{" + items(tuple.items) + "}" : "std::make_tuple(" + items(tuple.items) + ")";
        },
        [&](DictView dict) {
          std::string text;
          const std::string made = types_.of(value);
          if (made.starts_with("std::tuple<")) {
            for (const DictEntry& entry : dict.entries)
              text += (text.empty() ? "" : ", ") + argument(entry.value, {}, node);
            return "std::make_tuple(" + text + ")";
          }
          for (const DictEntry& entry : dict.entries)
            text += (text.empty() ? "{" : ", {") + immediate(entry.key, {}, node) + ", " +
                    argument(entry.value, {}, node) + "}";
          return made + "{" + text + "}";
        });
  }

  std::string returned(const Argument& value, const Node& node) const { return argument(value, {}, node); }

  const Graph& graph_;
  const Owner& owner_;
  const Members& members_;
  CodeOptions options_;
  CppTypes types_;
  InputCode inputs_;
  std::set<std::string_view> names_;
  std::vector<const Node*> last_user_;
  std::vector<bool> has_effect_after_;
  std::vector<std::size_t> barrier_of_, occurrences_;
  std::map<const Node*, Expression> nested_;
};

}  // namespace detail

FXX_INLINE std::string forward_code(const Graph& graph, const Owner& owner, const CodeOptions& options) {
  if (has_expansions(graph)) return forward_code(expanded(graph), owner, options);
  const Members members(graph, owner);
  detail::ForwardWriter writer(graph, owner, members, options);
  return writer.result_type() + " forward(" + writer.parameters(true) + ") {\n" + writer.body("  ") + "}\n";
}

}  // namespace fxx::inline FXX_ABI
