// Bodies of codegen/types.hpp.
#pragma once

#include <algorithm>
#include <set>

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/types.hpp"
#include "fxx/meta/match.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE std::string cpp_type_of(const Type& type) {
  std::string base;
  switch (type.base) {
    case ValueType::tensor: base = "torch::Tensor"; break;
    case ValueType::integer: base = "int64_t"; break;
    case ValueType::real: base = "double"; break;
    case ValueType::boolean: base = "bool"; break;
    case ValueType::scalar: base = "torch::Scalar"; break;
    case ValueType::string: base = "std::string"; break;
    case ValueType::dtype: base = "torch::Dtype"; break;
    case ValueType::layout: base = "torch::Layout"; break;
    case ValueType::device: base = "torch::Device"; break;
    default: return "auto";
  }
  return type.list ? "std::vector<" + base + ">" : base;
}

/// What a call of the operator returns: several results are a tuple.
FXX_INLINE std::string cpp_result_of(const Operator& op) {
  if (op.returns.size() == 1) return cpp_type_of(op.returns[0].type);
  std::string tuple;
  for (const Return& r : op.returns) tuple += (tuple.empty() ? "std::tuple<" : ", ") + cpp_type_of(r.type);
  return tuple.empty() ? "void" : tuple + ">";
}

FXX_INLINE std::int64_t tuple_size(const std::string& type) {
  if (type == "std::tuple<>") return 0;
  std::int64_t items = 1;
  int depth = 0;
  for (const char c : type) {
    depth += (c == '<') - (c == '>');
    items += c == ',' && depth == 1;
  }
  return items;
}

FXX_INLINE std::string item_type(const std::string& container, std::int64_t index) {
  if (container.starts_with("std::vector<")) return container.substr(12, container.size() - 13);
  if (!container.starts_with("std::tuple<")) return container;  // a tensor's part is a tensor
  if (index < 0) index += tuple_size(container);
  int depth = 0;
  std::size_t start = 11;
  for (std::size_t i = start; i < container.size(); ++i) {
    const char c = container[i];
    depth += (c == '<') - (c == '>');
    if ((c == ',' && depth == 0) || depth < 0) {
      if (index-- == 0) return container.substr(start, i - start);
      start = i + 2;
    }
  }
  return "auto";
}

FXX_INLINE bool gives_references(const Operator* op) {
  return op && op->mutates && op->returns.size() > 1 &&
         std::all_of(op->returns.begin(), op->returns.end(),
                     [](const Return& r) { return r.type == Type{.base = ValueType::tensor}; });
}

}  // namespace detail

FXX_INLINE CppTypes::CppTypes(const Graph& graph, const Owner& owner) : types_(graph.index_bound()) {
  for (const Node* node : graph.nodes()) types_[node->index()] = find(*node, owner);
}

FXX_INLINE std::string CppTypes::find(const Node& node, const Owner& owner) const {
  // What stands beside a node may be any text, from a file too.
  const auto annotated = [&](const char* otherwise) {
    if (node.type().empty()) return std::string(otherwise);
    return is_cpp_type(node.type()) ? std::string(node.type()) : std::string("auto");
  };
  return match(
      node.op(), [&](const Placeholder&) { return annotated("torch::Tensor"); },
      [&](const GetAttr& attribute) {
        const ModuleInfo* module = owner.find_module(attribute.target);
        return module ? module->type : std::string("torch::Tensor");
      },
      [&](const CallFunction&) -> std::string {
        const Operator* op = node.operation();
        if (!op) return annotated("auto");
        if (op->name == "operator::getitem" && node.args().size() == 2 && node.arg(0).is_node())
          return detail::item_type(of(*node.arg(0).node()),
                                   node.arg(1).kind() == Argument::Kind::integer ? node.arg(1).integer() : 0);
        if (op->name == "fxx::identity" && !node.args().empty() && node.arg(0).is_node())
          return of(*node.arg(0).node());
        // Arithmetic on numbers: real when one side is.
        if (op->returns.size() == 1 && op->returns[0].type == Type{.base = ValueType::scalar} &&
            op->name_space() != "aten") {
          for (const Argument& argument : node.args())
            if (of(argument) == "double") return "double";
          return op->base_name() == "truediv" ? "double" : "int64_t";
        }
        return detail::cpp_result_of(*op);
      },
      [&](const CallMethod& call) -> std::string {
        if (const Operator* op = operator_of(node)) return detail::cpp_result_of(*op);
        if (call.target == "size" && node.args().size() == 1) return "std::vector<int64_t>";
        return annotated("torch::Tensor");
      },
      [&](const CallModule& call) {
        const ModuleInfo* module = owner.find_module(call.target);
        return module ? module->result : std::string("torch::Tensor");
      },
      [](const Output&) { return std::string("void"); });
}

FXX_INLINE std::string CppTypes::of(const Argument& value) const {
  return visit(
      value, [](None) { return std::string("torch::Tensor"); }, [&](Node* node) { return of(*node); },
      [](bool) { return std::string("bool"); }, [](std::int64_t) { return std::string("int64_t"); },
      [](double) { return std::string("double"); }, [](Dtype) { return std::string("torch::Dtype"); },
      [](Layout) { return std::string("torch::Layout"); },
      [](MemoryFormat) { return std::string("torch::MemoryFormat"); },
      [](Device) { return std::string("torch::Device"); }, [](Ellipsis) { return std::string("auto"); },
      [](Complex) { return std::string("c10::complex<double>"); },
      [](const std::string&) { return std::string("std::string"); },
      [](const Enumerator& e) { return is_cpp_name(e.type) ? e.type : std::string("auto"); },
      [](const Range&) { return std::string("auto"); }, [](const Slice&) { return std::string("auto"); },
      [&](ListView list) {
        // Items of one type make a vector; others have only a tuple.
        std::set<std::string> types;
        std::string tuple;
        for (const Argument& item : list.items) {
          const std::string type = of(item);
          types.insert(type);
          tuple += (tuple.empty() ? "" : ", ") + type;
        }
        return types.size() <= 1
                   ? "std::vector<" + (types.empty() ? std::string("torch::Tensor") : *types.begin()) + ">"
                   : "std::tuple<" + tuple + ">";
      },
      [&](TupleView view) {
        std::string tuple;
        for (const Argument& item : view.items) tuple += (tuple.empty() ? "" : ", ") + of(item);
        return "std::tuple<" + tuple + ">";
      },
      [&](DictView dict) {
        const std::string type = dict.entries.empty() ? "torch::Tensor" : of(dict.entries[0].value);
        std::string tuple;  // values of several types: a struct of the user's, whose members come in order
        bool same = true;
        for (const DictEntry& entry : dict.entries) {
          const std::string item = of(entry.value);
          same = same && item == type;
          tuple += (tuple.empty() ? "" : ", ") + item;
        }
        if (!same) return "std::tuple<" + tuple + ">";
        const std::string key = dict.entries.empty() ? "std::string" : of(dict.entries[0].key);
        return "std::map<" + key + ", " + type + ">";
      });
}

}  // namespace fxx::inline FXX_ABI
