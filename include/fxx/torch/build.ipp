// Bodies of torch/build.hpp.
#pragma once

#include <dlfcn.h>
#include <torch/version.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/expand_functions.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/runtime/abi.hpp"
#include "fxx/runtime/built_library.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/results.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE bool is_torch_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "include" / "ATen" / "core" / "Tensor.h", ignored);
}

class InstalledHeaders final : public HeaderFinder {
 public:
  explicit InstalledHeaders(const std::string& torch) : include_(torch + "/include/") {}
  bool has(const std::string& name) const override {
    std::error_code ignored;
    return std::filesystem::exists(include_ + name, ignored);
  }

 private:
  std::string include_;
};

/// One node of a built graph, run here: what fxx_forward calls back for.
class NodeRunner : public Interpreter {
 public:
  NodeRunner(std::shared_ptr<const ModuleOwner> owner, Graph& graph) : Interpreter(std::move(owner), graph) {}
  c10::IValue run_with(Node& node, const void* const* inputs) {
    Environment values;
    std::size_t i = 0;
    for (Node* input : node.all_input_nodes()) {
      const auto* attribute = std::get_if<GetAttr>(&input->op());
      if (attribute && owner().module(attribute->target)) values.emplace(input, get_attr(*attribute));
      else values.emplace(input, *static_cast<const at::Tensor*>(inputs[i++]));
    }
    return run_one(node, std::move(values));
  }
};

FXX_INLINE c10::IValue assemble(const ResultShape& shape, std::vector<std::vector<at::Tensor>>& values,
                                std::size_t& next) {
  using Kind = ResultShape::Kind;
  switch (shape.kind) {
    case Kind::tensor: return std::move(values[next++][0]);
    case Kind::list_of_tensors: return std::move(values[next++]);
    case Kind::none: return {};
    case Kind::constant: return to_ivalue(shape.constant);
    case Kind::dict: {
      c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
      for (std::size_t i = 0; i < shape.items.size(); ++i)
        dict.insert(to_ivalue(shape.keys[i]), assemble(shape.items[i], values, next));
      return dict;
    }
    default: {
      std::vector<c10::IValue> items;
      for (const ResultShape& item : shape.items) items.push_back(assemble(item, values, next));
      if (shape.kind == Kind::tuple) return c10::ivalue::Tuple::create(std::move(items));
      return to_list(std::move(items), {});
    }
  }
}

}  // namespace detail

FXX_INLINE std::string torch_folder() {
  // The library that the tensor type lives in tells where the headers are.
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(static_cast<void (*)(const char*, const char*, std::uint32_t, const char*)>(
                 &c10::detail::torchCheckFail)),
             &info) &&
      info.dli_fname) {
    std::error_code ignored;
    const auto library = std::filesystem::canonical(info.dli_fname, ignored);
    if (!ignored && detail::is_torch_folder(library.parent_path().parent_path()))
      return library.parent_path().parent_path().string();
  }
  for (const char* variable : {"Torch_DIR", "CMAKE_PREFIX_PATH"}) {
    const char* value = files::variable(variable);
    for (std::filesystem::path folder = value ? value : ""; !folder.empty() && folder.has_relative_path();
         folder = folder.parent_path())
      if (detail::is_torch_folder(folder)) return folder.string();
  }
  throw CompileError(ErrorId::compiler_missing,
                     "torch_folder: LibTorch's headers were not found beside the library that is loaded; set Torch_DIR "
                     "to the folder that holds include/ATen. "
                     "The module keeps working interpreted");
}

FXX_INLINE BuiltModule::BuiltModule(GraphModule& source, const BuildOptions& options)
    : GraphModule(source, source.graph(), source.class_name()) {
  detail::know_graph_module<BuiltModule>();
  expanded_ = graph();
  std::set<std::string> linear_modules;
  for (const Node* node : expanded_.nodes()) {
    const auto* call = std::get_if<CallModule>(&node->op());
    const ModuleInfo* module = call ? owner().find_module(call->target) : nullptr;
    if (module && module->type == "torch::nn::Linear") linear_modules.insert(std::string(node->name()));
  }
  expand_modules(expanded_, owner());
  expand_functions(expanded_, runs_as_operators);
  built_owner_ = std::make_shared<ModuleOwner>(*this, class_name());
  expanded_.set_owning_module(built_owner_.get());

  const std::string torch = torch_folder();
  built_ = built_source(expanded_, *built_owner_, detail::InstalledHeaders(torch), linear_modules);
  for (const std::string& name : built_.attributes) attributes_.push_back(attribute(name));
  for (const Node* node : graph().nodes()) {
    placeholders_ += node->opcode() == Opcode::placeholder;
    if (const auto* call = std::get_if<CallModule>(&node->op())) {
      const auto module = submodule(call->target);
      training_flags_.emplace_back(module, module->is_training());
      for (const detail::TensorMember& member : detail::tensor_members(*module))
        members_.emplace_back(member.member, *member.member);
    }
    if (const auto* read = std::get_if<GetAttr>(&node->op()))
      if (const at::Tensor* member = member_read(read->target)) members_.emplace_back(member, *member);
  }

  BuildRequest request;
  request.source = built_.text;
  request.flags = {"-std=c++20", "-O1", "-w", "-D_GLIBCXX_USE_CXX11_ABI=" + std::to_string(_GLIBCXX_USE_CXX11_ABI)};
  request.include_folders = {torch + "/include"};
  request.library_folders = {torch + "/lib"};
  request.libraries = {"torch_cpu", "c10"};
  request.rpaths = {torch + "/lib"};
  request.extra = {"forward abi " + std::to_string(forward_abi_version), "LibTorch " TORCH_VERSION};
  request.timeout_seconds = options.timeout_seconds;
  const BuildCache cache = options.cache_folder.empty() ? BuildCache() : BuildCache(options.cache_folder);
  const auto start = std::chrono::steady_clock::now();
  library_ = load_or_build(cache, request, &was_cached_,
                           [](const Library& library) { library.symbol<int(void*)>(forward_symbol); });
  forward_ = library_.symbol<int(void*)>(forward_symbol);
  build_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  built_version_ = graph().version();
}

FXX_INLINE std::vector<std::string> BuiltModule::called_back() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < built_.nodes.size(); ++i)
    if (built_.called_back[i]) names.emplace_back(built_.nodes[i]->name());
  return names;
}

FXX_INLINE bool BuiltModule::is_current() const {
  if (graph().version() != built_version_) return false;
  for (const auto& [module, training] : training_flags_)
    if (module->is_training() != training) return false;
  for (const auto& [member, tensor] : members_)
    if (!member->is_same(tensor)) return false;
  return true;
}

FXX_INLINE c10::IValue BuiltModule::run_flat(std::vector<c10::IValue> inputs) {
  bool tensors = inputs.size() == placeholders_;
  for (const c10::IValue& input : inputs) tensors = tensors && input.isTensor() && input.toTensor().defined();
  // Inputs left out, and all else that the library was not made for, are the interpreter's business.
  return tensors && is_current() ? run_built(inputs) : GraphModule::run_flat(std::move(inputs));
}

FXX_INLINE c10::IValue BuiltModule::run_built(std::vector<c10::IValue>& inputs) {
  std::vector<const void*> input_pointers, attribute_pointers;
  input_pointers.reserve(inputs.size());
  for (const c10::IValue& input : inputs) input_pointers.push_back(&input.toTensor());
  attribute_pointers.reserve(attributes_.size());
  for (const at::Tensor& attribute : attributes_) attribute_pointers.push_back(&attribute);
  std::vector<std::vector<at::Tensor>> results;
  std::exception_ptr exception;
  ForwardCall call{input_pointers.data(), attribute_pointers.data(), &results, nullptr, this, &exception, 0};
  call.call_back = [](ForwardCall* call, int node, const void* const* inputs, void* results) -> int {
    try {
      auto& self = *static_cast<BuiltModule*>(call->host);
      std::vector<at::Tensor> values;
      detail::flatten(detail::NodeRunner(self.built_owner_, self.expanded_)
                          .run_with(const_cast<Node&>(*self.built_.nodes[static_cast<std::size_t>(node)]), inputs),
                      values);
      *static_cast<std::vector<at::Tensor>*>(results) = std::move(values);
      return 0;
    } catch (...) {
      *static_cast<std::exception_ptr*>(call->exception) = std::current_exception();
      return 1;
    }
  };
  if (forward_(&call) != 0) {
    const Node& node = *built_.nodes[static_cast<std::size_t>(call.node)];
    try {
      std::rethrow_exception(exception);
    } catch (c10::Error& e) {
      e.add_context(detail::while_executing(node));
      throw;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      throw RunError(ErrorId::run_failed, "BuiltModule: " + std::string(e.what()), {format_node(node), node.source()});
    }
  }
  std::size_t next = 0;
  return detail::assemble(built_.result, results, next);
}

FXX_INLINE void BuiltModule::verify(const std::vector<at::Tensor>& example_inputs, double tolerance) {
  for (const Node* node : expanded_.nodes()) {
    if (!is_barrier(*node)) continue;
    for (const Node* input : node->all_input_nodes())
      if (input->opcode() == Opcode::get_attr) return;  // running twice would change the attribute twice
    if (node->opcode() != Opcode::call_module && !operator_of(*node)) return;  // nobody knows what it changes
  }
  const auto is_fake_one = [](const at::Tensor& tensor) { return is_fake(tensor); };
  if (std::ranges::any_of(attributes_, is_fake_one) || std::ranges::any_of(example_inputs, is_fake_one)) return;
  const at::NoGradGuard no_grad;
  // Both runs read the same statistics and draw the same random numbers.
  const auto run = [&](bool interpreted) {
    const detail::ModuleState before(owner(), graph());
    std::vector<c10::IValue> inputs;
    for (const at::Tensor& input : example_inputs)
      inputs.emplace_back(input.clone());  // the graph may write to its inputs
    return interpreted ? GraphModule::run_flat(std::move(inputs)) : run_built(inputs);
  };
  const c10::IValue expected = run(true), got = run(false);
  max_error_ = detail::relative_error(got, expected);
  if (!(max_error_ <= tolerance))
    throw LoadError(ErrorId::result_differs, "build: the built module differs from the interpreter by " +
                                                 repr(max_error_) + " of the largest magnitude; the tolerance is " +
                                                 repr(tolerance) + ". The library is at " + library_.path());
}

FXX_INLINE std::shared_ptr<BuiltModule> build(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                              const BuildOptions& options) {
  module.graph().lint();
  detail::refuse_kept_state(module, "build");
  const std::size_t takes = module.graph().find_nodes(Opcode::placeholder).size();
  if (example_inputs.size() != takes)
    throw RunError(ErrorId::input_mismatch, "build: " + std::to_string(example_inputs.size()) +
                                                " example inputs were given; the graph takes " + std::to_string(takes));
  auto compiled = std::make_shared<BuiltModule>(module, options);
  compiled->verify(example_inputs, options.tolerance);
  return compiled;
}

}  // namespace fxx::inline FXX_ABI
