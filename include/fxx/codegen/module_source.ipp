// Bodies of codegen/module_source.hpp.
#pragma once

#include "fxx/codegen/module_source.hpp"
#include "fxx/codegen/readable.ipp"  // writes forward

namespace fxx::inline FXX_ABI {

FXX_INLINE ModuleSource module_source(const Graph& graph, const Owner& owner, const std::string& name,
                                      const std::string& header_file) {
  if (!is_cpp_class_name(name))
    throw CodegenError(ErrorId::no_cpp_spelling,
                       "module_source: " + repr(std::string_view(name)) +
                           " cannot name a class; give a C++ identifier that is neither a keyword nor a macro of "
                           "LibTorch's headers or the system's");
  if (has_expansions(graph)) return module_source(expanded(graph), owner, name, header_file);
  const Members members(graph, owner, name + "Impl");
  detail::ForwardWriter writer(graph, owner, members, {.release_values = false, .nest_expressions = true});
  ModuleSource out;
  std::string declarations, registrations;
  for (const auto& member : members.all()) {
    if (member.module) {
      if (!member.module->type.starts_with("torch::nn::") || !is_cpp_name(member.module->type))
        throw CodegenError(ErrorId::no_cpp_spelling,
                           "module_source: module '" + member.name + "' is a " + member.module->type +
                               ", whose source is not known here; trace through it instead of keeping it as a leaf");
      if (member.module->construct_unknown)
        throw CodegenError(ErrorId::no_cpp_spelling,
                           "module_source: module '" + member.name + "' is a " + member.module->type +
                               " whose options have no C++ text; trace through it instead of keeping it as a leaf");
      declarations += "  " + member.module->type + " " + member.identifier + "{nullptr};\n";
      registrations += "  " + member.identifier + " = add(" + cpp_string(member.name) + ", " + member.module->type +
                       "(" + member.module->construct + "));\n";
    } else if (member.attribute) {
      const TensorMeta& meta = member.attribute->meta;
      std::string shape;
      for (std::int64_t size : meta.shape) shape += (shape.empty() ? "" : ", ") + cpp_integer(size);
      const bool parameter = member.attribute->kind == AttributeInfo::Kind::parameter;
      declarations += "  torch::Tensor " + member.identifier + ";\n";
      registrations += "  " + member.identifier + " = add_" + (parameter ? "parameter(" : "buffer(") +
                       cpp_string(member.name) + ", torch::empty({" + shape + "}, " + cpp_dtype(meta.dtype) + ")" +
                       (parameter ? std::string(", ") + (meta.requires_grad ? "true" : "false") : "") + ");\n";
    } else {
      throw CodegenError(ErrorId::no_cpp_spelling,
                         "module_source: " + owner.class_name() + " has no attribute or module '" + member.name + "'");
    }
  }
  std::set<std::string> includes;
  for (const Node* node : graph.nodes())
    if (const auto* call = std::get_if<CallFunction>(&node->op()))
      if (const auto* function = std::get_if<const UserFunction*>(&call->target);
          function && !(*function)->header.empty())
        includes.insert((*function)->header);
  out.includes.assign(includes.begin(), includes.end());

  const std::string result = writer.result_type();
  if (result.find("auto") != std::string::npos)
    throw CodegenError(ErrorId::no_cpp_spelling,
                       "module_source: the type that the graph returns is not known; annotate the output with set_type",
                       {format_node(*graph.output_node())});
  out.header = "// " + cpp_comment(owner.class_name()) +
               ", traced and written as C++.\n#pragma once\n\n#include <torch/torch.h>\n\n#include <map>\n#include "
               "<string>\n#include <tuple>\n#include <vector>\n\n";
  out.header += "struct " + name + "Impl : torch::nn::Module {\n  " + name + "Impl();\n  " + result + " forward(" +
                writer.parameters(true) + ");\n\n" + declarations;
  out.header +=
      "\n private:\n"
      "  /// Registers under a dotted path, making the modules in between.\n"
      "  template <class Holder>\n"
      "  Holder add(const std::string& path, Holder module) {\n"
      "    return parent(path).register_module(last(path), module), module;\n"
      "  }\n"
      "  torch::Tensor add_parameter(const std::string& path, torch::Tensor value, bool requires_grad);\n"
      "  torch::Tensor add_buffer(const std::string& path, torch::Tensor value);\n"
      "  torch::nn::Module& parent(const std::string& path);\n"
      "  static std::string last(const std::string& path) { return path.substr(path.rfind('.') + 1); }\n"
      "};\nTORCH_MODULE(" +
      name + ");\n";
  out.source = "#include \"" + header_file + "\"\n\n#include <algorithm>\n#include <cmath>\n#include <limits>\n";
  const auto is_registered = [](const Node* node) {
    const Operator* op = operator_of(*node);
    static constexpr std::string_view written[] = {"aten", "operator", "math", "builtins", "std", "prim", "fxx"};
    return op && std::find(std::begin(written), std::end(written), op->name_space()) == std::end(written);
  };
  const auto nodes = graph.nodes();
  if (std::any_of(nodes.begin(), nodes.end(), is_registered))
    out.source += "#include <ATen/core/dispatch/Dispatcher.h>\n";
  for (const std::string& include : out.includes) out.source += "#include " + include + "\n";
  out.source += "\n" + name + "Impl::" + name + "Impl() {\n" + registrations + "}\n\n";
  out.source +=
      result + " " + name + "Impl::forward(" + writer.parameters(false) + ") {\n" + writer.body("  ") + "}\n\n";
  out.source +=
      "torch::Tensor " + name +
      "Impl::add_parameter(const std::string& path, torch::Tensor value, bool requires_grad) {\n"
      "  return parent(path).register_parameter(last(path), value, requires_grad);\n}\n\n"
      "torch::Tensor " +
      name +
      "Impl::add_buffer(const std::string& path, torch::Tensor value) {\n"
      "  return parent(path).register_buffer(last(path), value);\n}\n\n"
      "torch::nn::Module& " +
      name +
      "Impl::parent(const std::string& path) {\n"
      "  torch::nn::Module* at = this;\n"
      "  for (size_t start = 0, dot; (dot = path.find('.', start)) != std::string::npos; start = dot + 1) {\n"
      "    const std::string step = path.substr(start, dot - start);\n"
      "    const auto children = at->named_children();\n"
      "    const auto* child = children.find(step);\n"
      "    at = child ? child->get() : at->register_module(step, std::make_shared<torch::nn::Module>()).get();\n"
      "  }\n"
      "  return *at;\n}\n";
  return out;
}

}  // namespace fxx::inline FXX_ABI
