// Bodies of codegen/built.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "fxx/codegen/built.hpp"
#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/types.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/numbers.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

class BuiltWriter {
 public:
  BuiltWriter(const Graph& graph, const Owner& owner, const HeaderFinder& headers,
              const std::set<std::string>& linear_modules)
      : graph_(graph), owner_(owner), finder_(headers), linear_modules_(linear_modules), types_(graph, owner) {}

  BuiltSource write() {
    last_user_.assign(graph_.index_bound(), nullptr);
    for (const Node* node : graph_.nodes())
      for (const Node* input : node->all_input_nodes()) last_user_[input->index()] = node;
    std::string body;
    for (const Node* node : graph_.nodes()) {
      node_ = node;
      out_.nodes.push_back(node);
      out_.called_back.push_back(false);
      const std::string line = statement(*node);
      if (!line.empty()) body += "    " + line + "\n";
    }
    out_.headers.assign(headers_.begin(), headers_.end());
    std::string text = "// Forward of " + cpp_comment(owner_.class_name()) +
                       ", made by fxx for a quick build. Parameters are handed in.\n#include <ATen/core/Tensor.h>\n\n";
    for (const std::string& header : out_.headers) text += "#include <" + header + ">\n";
    text +=
        "\n#include <algorithm>\n#include <cmath>\n#include <exception>\n#include <limits>\n#include <vector>\n\n"
        "struct ForwardCall {\n"
        "  const void* const* inputs;\n  const void* const* attributes;\n  void* results;\n"
        "  int (*call_back)(ForwardCall* call, int node, const void* const* inputs, void* results);\n"
        "  void* host;\n  void* exception;\n  int node;\n};\n\n"
        // Names with capitals, which no node has.
        "extern \"C\" int fxx_forward(ForwardCall* Call) noexcept {\n"
        "  const auto Input = [&](int i) -> const at::Tensor& { return *static_cast<const "
        "at::Tensor*>(Call->inputs[i]); };\n"
        "  const auto Attribute = [&](int i) -> const at::Tensor& { return *static_cast<const "
        "at::Tensor*>(Call->attributes[i]); };\n"
        "  const auto Give = [&](std::vector<at::Tensor> values) {\n"
        "    static_cast<std::vector<std::vector<at::Tensor>>*>(Call->results)->push_back(std::move(values));\n  };\n"
        "  (void)Input, (void)Attribute, (void)Give;\n"
        "  try {\n" +
        body +
        "    return 0;\n"
        "  } catch (...) {\n"
        "    *static_cast<std::exception_ptr*>(Call->exception) = std::current_exception();\n"
        "    return 1;\n  }\n}\n";
    out_.text = std::move(text);
    return std::move(out_);
  }

 private:
  enum class Value { tensor, tensors, tuple, numbers, number };

  [[noreturn]] void fail(const std::string& what) const {
    throw CodegenError(ErrorId::no_cpp_spelling, "built_source: " + what, {format_node(*node_), node_->source()});
  }
  Value value_of(const Node& node) const {
    const std::string type = types_.of(node);
    if (type == "torch::Tensor") return Value::tensor;
    if (type == "std::vector<torch::Tensor>") return Value::tensors;
    if (type.starts_with("std::tuple<")) return Value::tuple;
    if (type.starts_with("std::vector<int64_t")) return Value::numbers;
    return Value::number;
  }

  std::string statement(const Node& node) {
    const std::string at = "Call->node = " + std::to_string(out_.nodes.size() - 1) + ";  ", name(node.name());
    return match(
        node.op(),
        [&](const Placeholder&) {
          if (value_of(node) != Value::tensor)
            fail("input '" + name + "' is a " + std::string(node.type()) + "; a built module takes tensors");
          // A handle of its own, so that what in-place operators return can take its place.
          return "at::Tensor " + name + " = Input(" + std::to_string(inputs_++) + ");";
        },
        [&](const GetAttr& o) {
          if (owner_.find_module(o.target)) return std::string();  // the host passes it to what it runs
          const auto [known, fresh] = attributes_.try_emplace(o.target, out_.attributes.size());
          if (fresh) out_.attributes.push_back(o.target);
          return "at::Tensor " + name + " = Attribute(" + std::to_string(known->second) + ");";
        },
        [&](const CallFunction& o) {
          const auto* op = std::get_if<const Operator*>(&o.target);
          const std::string made = op ? expression(node, **op) : std::string();
          return made.empty() ? at + call_back(node) : at + assign(node, made);
        },
        [&](const CallMethod&) {
          const Operator* op = operator_of(node);
          const std::string made = op ? expression(node, *op) : std::string();
          return made.empty() ? at + call_back(node) : at + assign(node, made);
        },
        [&](const CallModule&) { return at + call_back(node); },
        [&](const Output&) {
          std::string text;
          out_.result = result(node.arg(0), text);
          return text;
        });
  }

  std::string assign(const Node& node, const std::string& expression) const {
    const Operator* op = operator_of(node);
    const std::string type = gives_references(op) ? tensors_type(op->returns.size()) : "auto";
    return (node.num_users() ? type + " " + std::string(node.name()) + " = " + expression + ";" : expression + ";") +
           releases(node);
  }
  static std::string tensors_type(std::size_t count) {
    std::string text = "std::tuple<at::Tensor";
    for (std::size_t i = 1; i < count; ++i) text += ", at::Tensor";
    return text + ">";
  }
  std::string releases(const Node& node) const {
    std::string text;
    for (const Node* input : node.all_input_nodes()) {
      if (last_user_[input->index()] != &node || input->opcode() == Opcode::get_attr) continue;
      if (value_of(*input) == Value::tensor) text += " " + std::string(input->name()) + ".reset();";
      else if (value_of(*input) != Value::number) text += " " + std::string(input->name()) + " = {};";
    }
    return text;
  }

  bool is_module(const Node& node) const {
    return node.opcode() == Opcode::get_attr && owner_.find_module(node.target()) != nullptr;
  }
  /// Runs the node in the host: tensors in, tensors out.
  std::string call_back(const Node& node) {
    std::string inputs;
    for (const Node* input : node.all_input_nodes()) {
      if (is_module(*input)) continue;
      if (value_of(*input) != Value::tensor)
        fail("it runs in the program itself, but its input '" + std::string(input->name()) + "' is no tensor");
      inputs += (inputs.empty() ? "&" : ", &") + std::string(input->name());
    }
    out_.called_back.back() = true;
    const std::string name(node.name()), given = name + "Results", index = std::to_string(out_.nodes.size() - 1);
    std::string text = "std::vector<at::Tensor> " + given + "; { const void* const Given[] = {" +
                       (inputs.empty() ? "nullptr" : inputs) + "}; if (Call->call_back(Call, " + index + ", Given, &" +
                       given + ")) return 1; }";
    if (!node.num_users()) return text;
    switch (value_of(node)) {
      case Value::tensor: text += " auto " + name + " = " + given + "[0];"; break;
      case Value::tensors: text += " auto& " + name + " = " + given + ";"; break;
      case Value::tuple: {
        std::size_t next = 0;
        text += " auto " + name + " = " + taken(types_.of(node), given, next) + ";";
        break;
      }
      default: {
        const Operator* const op = node.operation();
        if (op && std::ranges::any_of(op->returns, [](const Return& r) { return names_class(r.type_text); }))
          fail("'" + name +
               "' gives an object of a TorchScript class; a built module takes only tensors from what it calls back, so "
               "compile the graph, or run it interpreted");
        fail("'" + name +
             "' is a number that code of yours computes; a built module takes only tensors from it, so let it "
             "return one, or run the graph interpreted");
      }
    }
    return text + releases(node);
  }

  /// A value of the type, of the tensors in the list `given` from number `next` on.
  std::string taken(const std::string& type, const std::string& given, std::size_t& next) const {
    if (type == "torch::Tensor") return given + "[" + std::to_string(next++) + "]";
    if (!type.starts_with("std::tuple<"))
      fail("it returns a tuple with a part of type " + type +
           "; of what runs in the program a built module takes tensors, tuples of them, or one list of them");
    std::string parts;
    for (std::int64_t i = 0; item_type(type, i) != "auto"; ++i)
      parts += (i ? ", " : "") + taken(item_type(type, i), given, next);
    return "std::make_tuple(" + parts + ")";
  }
  /// The parts of a tuple named `name`, those of tuples in it too, are given as results.
  ResultShape tuple_result(const std::string& type, const std::string& name, std::string& text) const {
    using Kind = ResultShape::Kind;
    if (type == "torch::Tensor") {
      text += "Give({" + name + "}); ";
      return {.kind = Kind::tensor};
    }
    if (!type.starts_with("std::tuple<")) fail("a tuple that is returned has a part of type " + type);
    ResultShape shape{.kind = Kind::tuple};
    for (std::int64_t i = 0; item_type(type, i) != "auto"; ++i)
      shape.items.push_back(
          tuple_result(item_type(type, i), "std::get<" + std::to_string(i) + ">(" + name + ")", text));
    return shape;
  }

  ResultShape result(const Argument& value, std::string& text) {
    using Kind = ResultShape::Kind;
    const auto items = [&](std::span<const Argument> list, Kind kind) {
      ResultShape shape{.kind = kind};
      for (const Argument& item : list) shape.items.push_back(result(item, text));
      return shape;
    };
    switch (value.kind()) {
      case Argument::Kind::node: {
        const Node& node = *value.node();
        const std::string name(node.name());
        switch (value_of(node)) {
          case Value::tensor: text += "Give({" + name + "}); "; return {.kind = Kind::tensor};
          case Value::tensors: text += "Give(" + name + "); "; return {.kind = Kind::list_of_tensors};
          case Value::tuple: return tuple_result(types_.of(node), name, text);
          default: fail("'" + name + "' is a number; a built module returns tensors");
        }
      }
      case Argument::Kind::none: return {.kind = Kind::none};
      case Argument::Kind::list: return items(value.items(), Kind::list);
      case Argument::Kind::tuple: return items(value.items(), Kind::tuple);
      case Argument::Kind::dict: {
        ResultShape shape{.kind = Kind::dict};
        for (const DictEntry& entry : value.entries()) {
          shape.keys.push_back(entry.key);
          shape.items.push_back(result(entry.value, text));
        }
        return shape;
      }
      default: return {.kind = Kind::constant, .constant = value};
    }
  }

  // --- expressions ---------------------------------------------------------------------------------------------------

  /// Empty when the operator has no narrow header, or an argument no spelling with it.
  std::string expression(const Node& node, const Operator& op) {
    const std::string_view space = op.name_space();
    if (op.name == "fxx::identity" && node.args().size() == 1 && node.arg(0).is_node())
      return std::string(node.arg(0).node()->name());
    if (op.name == "operator::getitem") return get_item(node);
    if (op.name == "aten::dim" || op.name == "aten::numel")
      return argument(node.arg(0), {}) + "." + std::string(op.base_name()) + "()";
    if (space == "operator" || space == "math" || space == "std" || space == "builtins" || op.name == "fxx::to_int")
      return number(node, op);
    if (space == "prim") return property(node, op);
    if (space != "aten") return {};
    if (op.name == "aten::linear" && linear_modules_.contains(std::string(node.name()))) return linear_module(node, op);
    // The one operator whose narrow header needs a wide one besides; this is the same under another name.
    const std::string base(op.name == "aten::cat" ? "concat" : op.base_name());
    for (const Parameter& p : op.parameters)
      if (p.type.optional_items) return {};  // c10::List needs ivalue.h
    // In-place operators are declared beside the others: relu_ in relu_ops.h.
    std::string header = "ATen/ops/" + base + "_ops.h";
    if (!finder_.has(header) && base.ends_with('_')) header = "ATen/ops/" + base.substr(0, base.size() - 1) + "_ops.h";
    if (!is_cpp_name(base) || !finder_.has(header)) return {};
    headers_.insert(header);
    std::string text = "at::_ops::" + base;
    if (!op.overload_name().empty()) text += "_" + std::string(op.overload_name());
    text += "::call(";
    for (int i = 0; i < op.arity(); ++i) {
      const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
      const Argument* given = argument_of(node, op, i);
      if (!given && !parameter.has_default())
        fail("argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
      if (!given && parameter.standard.kind == Literal::Kind::other) return {};
      text +=
          (i ? ", " : "") + argument(given ? *given : to_argument(parameter.standard, parameter.type), parameter.type);
    }
    return text + ")";
  }

  /// As torch::nn::functional::linear.
  std::string linear_module(const Node& node, const Operator& op) {
    const std::string input = argument(argument_or_default(node, op, 0), {}),
                      weight = argument(argument_or_default(node, op, 1), {});
    const Argument given = argument_or_default(node, op, 2);
    for (const char* header : {"matmul", "t"}) headers_.insert("ATen/ops/" + std::string(header) + "_ops.h");
    const std::string turned = "at::_ops::t::call(" + weight + ")",
                      product = "at::_ops::matmul::call(" + input + ", " + turned + ")";
    if (!given.is_node()) return product;
    for (const char* header : {"addmm", "add"}) headers_.insert("ATen/ops/" + std::string(header) + "_ops.h");
    const std::string bias = argument(given, {});
    return "[&] { if (" + input + ".dim() == 2) return at::_ops::addmm::call(" + bias + ", " + input + ", " + turned +
           ", 1, 1); at::Tensor Product = " + product + "; at::_ops::add__Tensor::call(Product, " + bias +
           ", 1); return Product; }()";
  }

  std::string get_item(const Node& node) {
    if (node.args().size() != 2 || !node.arg(0).is_node() || node.arg(1).kind() != Argument::Kind::integer) return {};
    const Node& container = *node.arg(0).node();
    const std::string name(container.name()), index = cpp_integer(node.arg(1).integer());
    switch (value_of(container)) {
      case Value::tuple: return "std::get<" + index + ">(" + name + ")";
      case Value::tensors:
      case Value::numbers: return name + ".at(" + (node.arg(1).integer() < 0 ? name + ".size() " + index : index) + ")";
      case Value::tensor:
        headers_.insert("ATen/ops/select_ops.h");
        return "at::_ops::select_int::call(" + name + ", 0, " + index + ")";
      default: return {};
    }
  }

  std::string number(const Node& node, const Operator& op) const {
    const std::string_view base = op.base_name(), space = op.name_space();
    const std::string a = argument(node.arg(0), {});
    if (base == "neg") return "-(" + a + ")";
    if (base == "to_int") return "static_cast<int64_t>(" + a + ")";
    if (base == "abs") return "std::abs(" + a + ")";
    if (node.args().size() == 1) {
      const std::string text = "std::" + std::string(base) + "(static_cast<double>(" + a + "))";
      return op.returns[0].type.base == ValueType::integer ? "static_cast<int64_t>(" + text + ")" : text;
    }
    const std::string b = argument(node.arg(1), {});
    if (space == "builtins") return "std::" + std::string(base) + "<" + types_.of(node) + ">(" + a + ", " + b + ")";
    if (space == "math")
      return "std::" + std::string(base) + "(static_cast<double>(" + a + "), static_cast<double>(" + b + "))";
    if (base == "truediv") return "static_cast<double>(" + a + ") / (" + b + ")";
    const bool real = types_.of(node) == "double";
    if (base == "modulus" && real) return "std::fmod(" + a + ", " + b + ")";
    if (base == "floordiv" || base == "mod") {
      const bool positive = is_never_negative(node.arg(1));
      if (real || !positive || !is_never_negative(node.arg(0)))
        return cpp_rounded_down(base, "(" + a + ")", "(" + b + ")", {.real = real, .positive_divisor = positive});
    }
    return "(" + a + ") " + std::string(number_symbol(base)) + " (" + b + ")";
  }
  /// What a tensor says of itself.
  std::string property(const Node& node, const Operator& op) const {
    const std::string_view base = op.base_name();
    const std::string call =
        argument(node.arg(0), {}) + "." + (base == "dtype" ? "scalar_type" : std::string(base)) + "()";
    if (base == "sizes" || base == "strides") return call + ".vec()";
    return base == "itemsize" || base == "nbytes" ? "static_cast<int64_t>(" + call + ")" : call;
  }

  std::string argument(const Argument& value, const Type& type) const {
    const Type item{.base = type.base, .optional = type.optional_items, .symbolic = type.symbolic};
    if (type.list && !value.is_sequence() && !value.is_none() &&
        !(value.is_node() && (value_of(*value.node()) == Value::tensors || value_of(*value.node()) == Value::numbers)))
      return array({argument(value, item)}, type);  // one number for all
    return visit(
        value,
        [&](None) -> std::string { return type.base == ValueType::tensor && !type.list ? "{}" : "std::nullopt"; },
        [&](Node* node) {
          const std::string name(node->name());
          return type.list && type.symbolic && value_of(*node) == Value::numbers
                     ? "c10::fromIntArrayRefSlow(" + name + ")"
                     : name;
        },
        [](bool v) { return std::string(v ? "true" : "false"); },
        [&](std::int64_t v) {
          return type.base == ValueType::real ? cpp_double(static_cast<double>(v)) : cpp_integer(v);
        },
        [](double v) { return cpp_double(v); },
        [](Dtype v) { return "c10::ScalarType::" + std::string(c10_name_of(v)); },
        [](Layout v) { return "c10::Layout::" + std::string(c10_name_of(v)); },
        [](MemoryFormat v) { return "c10::MemoryFormat::" + std::string(c10_name_of(v)); },
        [](Device v) {
          return "c10::Device(c10::DeviceType::" + std::string(c10_name_of(v.type)) + ", " + std::to_string(v.index) +
                 ")";
        },
        [&](Ellipsis) -> std::string { fail("an Ellipsis cannot be passed to an operator"); },
        [](Complex v) { return "c10::complex<double>(" + cpp_double(v.real) + ", " + cpp_double(v.imag) + ")"; },
        [](const std::string& v) { return cpp_string(v); }, [&](const Enumerator& v) { return cpp_integer(v.value); },
        [&](const Range&) -> std::string { fail("a range cannot be passed to an operator"); },
        [&](const Slice&) -> std::string { fail("a slice cannot be passed to an operator"); },
        [&](ListView list) { return array(texts(list.items, item), type); },
        [&](TupleView list) { return array(texts(list.items, item), type); },
        [&](DictView) -> std::string { fail("a dictionary cannot be passed to an operator"); });
  }
  std::vector<std::string> texts(std::span<const Argument> items, const Type& item) const {
    std::vector<std::string> list;
    for (const Argument& a : items) list.push_back(argument(a, item));
    return list;
  }
  static std::string array(std::vector<std::string> items, const Type& type) {
    if (type.list_size > 1 && items.size() == 1) items.resize(type.list_size, std::string(items[0]));
    const char* array = type.base == ValueType::tensor    ? "at::TensorList"
                        : type.base == ValueType::real    ? "at::ArrayRef<double>"
                        : type.base == ValueType::boolean ? "at::ArrayRef<bool>"
                        : type.symbolic                   ? "c10::SymIntArrayRef"
                                                          : "at::IntArrayRef";
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
    if (type.base == ValueType::boolean && type.list_size > 0)
      return "std::array<bool, " + std::to_string(type.list_size) + ">{" + text + "}";
    return items.empty() ? std::string(array) + "()" : std::string(array) + "({" + text + "})";
  }

  const Graph& graph_;
  const Owner& owner_;
  const HeaderFinder& finder_;
  const std::set<std::string>& linear_modules_;
  CppTypes types_;
  const Node* node_ = nullptr;
  std::vector<const Node*> last_user_;
  std::set<std::string> headers_;
  std::size_t inputs_ = 0;
  std::map<std::string, std::size_t> attributes_;  // by name, their place
  BuiltSource out_;
};

}  // namespace detail

FXX_INLINE BuiltSource built_source(const Graph& graph, const Owner& owner, const HeaderFinder& headers,
                                    const std::set<std::string>& linear_modules) {
  return detail::BuiltWriter(graph, owner, headers, linear_modules).write();
}

}  // namespace fxx::inline FXX_ABI
