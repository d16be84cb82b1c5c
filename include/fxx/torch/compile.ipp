// Bodies of torch/compile.hpp.
#pragma once

#include <ATen/Parallel.h>
#include <sys/mman.h>

// after the tensor's own header
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/from_blob.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "fxx/codegen/processor.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/expand_functions.hpp"
#include "fxx/passes/functionalise.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rules/library.hpp"
#include "fxx/runtime/cache.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/results.hpp"
#include "fxx/torch/trace.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE bool has_kernel_headers(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "fxx" / "kernels" / "gemm.hpp", ignored);
}

/// The graph once more, with modules that are more than one operator traced through: recurrent layers, and whatever a
/// user registered. Where that cannot be, they stay calls.
FXX_INLINE std::shared_ptr<GraphModule> opened(const std::shared_ptr<GraphModule>& module,
                                               const std::vector<at::Tensor>& example_inputs) {
  try {
    return trace_module(
        *module, true,
        [&](std::span<const at::Tensor> inputs) {
          return module->run_flat(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
        },
        example_inputs, {.leaf_modules = false, .training_flags = false});
  } catch (const TraceError&) {
    return module;
  }
}

/// The memory of a tensor, so that nobody else gets its place as long as it is asked for.
FXX_INLINE c10::intrusive_ptr<c10::StorageImpl> memory_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return {};
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}
/// Not traced, nor batched, nor another of those whose elements only operators reach.
FXX_INLINE bool has_elements(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet others({trace_key, c10::DispatchKey::Fake, c10::DispatchKey::FuncTorchBatched,
                                        c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Batched,
                                        c10::DispatchKey::Functionalize, c10::DispatchKey::Python});
  return !tensor.key_set().has_any(others);
}

}  // namespace detail

FXX_INLINE std::string kernel_headers_folder() {
  std::vector<std::filesystem::path> folders;
  if (const char* named = std::getenv("FXX_INCLUDE")) folders.emplace_back(named);
#if defined(FXX_INCLUDE_FOLDER)
  folders.emplace_back(FXX_INCLUDE_FOLDER);
#endif
  folders.push_back(std::filesystem::path(__FILE__).parent_path().parent_path().parent_path());
  folders.insert(folders.end(), {"/usr/local/include", "/usr/include"});
  for (const std::filesystem::path& folder : folders)
    if (detail::has_kernel_headers(folder)) return std::filesystem::absolute(folder).lexically_normal().string();
  throw CompileError(ErrorId::compiler_missing,
                     "compile: the headers of fxx's kernels were not found; set FXX_INCLUDE to the folder that holds "
                     "fxx/kernels. The module keeps working interpreted");
}

FXX_INLINE CompiledModule::Memory::Memory(std::size_t bytes) : size(bytes) {
  // Whole pages of two megabytes, when it is worth one: fewer misses of the address cache.
  const std::size_t page = bytes >= (std::size_t{1} << 20) ? std::size_t{1} << 21 : 64;
  const std::size_t whole = (bytes + page - 1) / page * page;
  if (whole == 0) return;
  data = std::aligned_alloc(page, whole);
  if (!data) throw std::bad_alloc();
  if (page > 64) madvise(data, whole, MADV_HUGEPAGE);
}
FXX_INLINE CompiledModule::Memory::~Memory() { std::free(data); }

FXX_INLINE CompiledModule::CompiledModule(GraphModule& source, const std::vector<at::Tensor>& example_inputs,
                                          const CompileOptions& options)
    : GraphModule(source, source.graph(), source.class_name()) {
  detail::know_graph_module<CompiledModule>();
  threads_ = options.threads > 0 ? options.threads : at::get_num_threads();
  specialise(example_inputs, options);
}

FXX_INLINE CompiledModule::~CompiledModule() {
  for (const auto& workspace : workspaces_)
    if (workspace->team) close_(workspace->team);
}

FXX_INLINE void CompiledModule::specialise(const std::vector<at::Tensor>& example_inputs, const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (const Node* node : graph().nodes()) {
    if (const auto* call = std::get_if<CallModule>(&node->op())) {
      const auto module = submodule(call->target);
      training_flags_.emplace_back(module, module->is_training());
    }
    if (const auto* attribute = std::get_if<GetAttr>(&node->op()); attribute && !submodule(attribute->target))
      watched_.push_back(this->attribute(attribute->target));
  }
  for (const auto& [module, training] : training_flags_) {
    for (const at::Tensor& tensor : module->parameters()) watched_.push_back(tensor);
    for (const at::Tensor& tensor : module->buffers()) watched_.push_back(tensor);
  }

  written_.assign(watched_.size(), false);
  std::vector<bool> is_input;  // the results that are inputs, and no copies of them
  for_each_node(graph().output_node()->arg(0),
                [&](const Node* node) { is_input.push_back(node->opcode() == Opcode::placeholder); });
  prepared_ = std::make_shared<GraphModule>(*this, graph(), class_name());
  expand_modules(prepared_->graph(), prepared_->owner());
  const auto nodes = prepared_->graph().nodes();
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->opcode() == Opcode::call_module; }))
    prepared_ = detail::opened(prepared_, example_inputs);
  Graph& prepared = prepared_->graph();
  expand_functions(prepared, runs_as_operators);
  note_known_sizes(*prepared_, example_inputs);
  functionalise(prepared, &prepared_->owner());
  rules::apply_all(*prepared_);
  expand_modules(prepared, prepared_->owner());
  expand_functions(prepared);
  eliminate_dead_code(prepared);
  {
    // Rules know that x + 0 is x; who gets a result may write to it all the same.
    std::size_t next = 0;
    Node* const output = prepared.output_node();
    const InsertPoint point = prepared.inserting_before(output);
    Argument results = map_nodes(output->arg(0), [&](Node* node) -> Argument {
      const bool copied = next < is_input.size() && !is_input[next];
      ++next;
      return copied && node->opcode() == Opcode::placeholder ? prepared.call_function(ops::clone, {node}) : node;
    });
    output->set_args({std::move(results)});
  }
  note_known_sizes(*prepared_, example_inputs);  // of what the passes made
  fold_constants(*prepared_, {.known_sizes = true});
  Graph* to_lower = &prepared;
  if (const auto unknown = note_known_sizes(*prepared_, example_inputs); !unknown.empty()) {
    // Kernels for what has known sizes; what depends on elements is interpreted behind them, or all is.
    split_ = split_by_sizes(prepared, unknown);
    if (!split_) {
      interpreted_ = true;
      for (const Node* node : unknown) left_.push_back(std::string(node->name()));
      return;
    }
    for (const Node* node : split_->tail.nodes())
      if (node->opcode() != Opcode::placeholder && node->opcode() != Opcode::get_attr && node->opcode() != Opcode::output)
        left_.push_back(std::string(node->name()));
    split_->head.set_owning_module(prepared.owning_module());
    tail_ = std::make_unique<const Plan>(split_->tail, prepared_->owner());
    to_lower = &split_->head;
  }
  for (const Node* node : prepared.nodes()) {
    changes_something_ = changes_something_ || is_barrier(*node) || draws_numbers(*node);
    if (!is_barrier(*node)) continue;
    const auto memory = memory_written_by(*node);
    for (const Node* maker : memory.makers) {
      const auto* attribute = std::get_if<GetAttr>(&maker->op());
      if (!attribute || prepared_->submodule(attribute->target)) continue;
      const at::Tensor tensor = prepared_->attribute(attribute->target);
      for (std::size_t i = 0; i < watched_.size(); ++i) written_[i] = written_[i] || watched_[i].is_same(tensor);
    }
    // Who knows what it writes to.
    if (memory.anywhere || node->opcode() == Opcode::call_module) written_.assign(watched_.size(), true);
  }
  kernels_ = lower(*to_lower, prepared_->owner(), {.accuracy = options.accuracy, .processor = this_processor()});
  double work = 0;
  for (const KernelStep& step : kernels_.steps) work += step.flops + 4 * step.bytes;
  if (work < 2e5) threads_ = 1;  // a microsecond or two, in which others cannot be told what to do
  source_ = specialised_source(kernels_, class_name()).text;

  BuildRequest request;
  request.source = source_;
  request.flags = {"-std=c++20",          "-O2",   "-march=native", "-fno-math-errno", "-fno-trapping-math",
                   "-fvisibility=hidden", "-Wall", "-Wextra",       "-Werror"};
  request.include_folders = {kernel_headers_folder()};
  request.extra = {"module abi " + std::to_string(kernels::module_abi)};
  request.timeout_seconds = options.timeout_seconds;
  const BuildCache cache = options.cache_folder.empty() ? BuildCache() : BuildCache(options.cache_folder);
  const auto build_start = std::chrono::steady_clock::now();
  const auto load_library = [&] { library_ = Library(cache.get_or_build(request, &was_cached_)); };
  load_library();
  build_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - build_start).count();
  const auto* info = library_.symbol<const kernels::ModuleInfo>("fxx_module");
  if (info->abi != kernels::module_abi || info->arena_bytes != static_cast<std::size_t>(kernels_.arena_bytes))
    throw LoadError(ErrorId::load_failed,
                    "compile: " + library_.path() + " was not built from this graph by this version of fxx");
  open_ = library_.symbol<void*(int)>("fxx_open");
  close_ = library_.symbol<void(void*)>("fxx_close");
  run_ = library_.symbol<void(void*, kernels::ModuleCall*)>("fxx_run");
  workspace_bytes_ = info->memory(threads_);
  weights_ = Memory(info->weights * sizeof(float));
  pack();

  operators_.resize(kernels_.steps.size());
  for (std::size_t i = 0; i < kernels_.steps.size(); ++i) {
    const auto* back = std::get_if<plans::CallBack>(&kernels_.steps[i].kernel);
    if (!back) continue;
    auto one = std::make_unique<Graph>();
    std::unordered_map<const Node*, Node*> copies;
    for (Node* input : back->node->all_input_nodes()) {
      const auto* attribute = std::get_if<GetAttr>(&input->op());
      if (attribute && prepared_->owner().module(attribute->target))
        copies[input] = one->node_copy(*input, [](Node* n) { return n; });
      else copies[input] = one->placeholder(std::string(input->name()));
    }
    Node* copy = one->node_copy(*back->node, [&](Node* input) { return copies.at(input); });
    one->output(copy);
    operators_[i].plan = std::make_unique<const Plan>(*one, prepared_->owner());
    operators_[i].graph = std::move(one);
  }
  built_version_ = graph().version();
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

FXX_INLINE void CompiledModule::pack() {
  const at::NoGradGuard no_grad;
  attributes_.clear();
  std::vector<at::Tensor> dense;
  std::vector<const void*> pointers;
  for (const std::string& name : kernels_.attributes) {
    attributes_.push_back(prepared_->attribute(name));
    if (is_fake(attributes_.back()))
      throw RunError(ErrorId::input_mismatch,
                     "compile: '" + name + "' is a fake tensor, which has no elements to pack; give it real memory (set_data) "
                     "before it is compiled");
    dense.push_back(attributes_.back().detach().contiguous());
    pointers.push_back(dense.back().const_data_ptr());
  }
  library_.symbol<void(const void* const*, float*)>("fxx_pack")(pointers.data(), static_cast<float*>(weights_.data));
  versions_.clear();
  memory_.clear();
  for (const at::Tensor& tensor : watched_) {
    versions_.push_back(tensor.is_inference() ? 0 : tensor._version());
    memory_.emplace_back(detail::memory_of(tensor));
  }
}

FXX_INLINE void CompiledModule::pack_what_it_wrote() {
  bool changed = false;
  for (std::size_t i = 0; i < watched_.size(); ++i)
    changed = changed || (written_[i] && (watched_[i].is_inference() || watched_[i]._version() != versions_[i]));
  if (!changed) return;
  const std::vector<std::uint32_t> before = versions_;
  pack();
  for (std::size_t i = 0; i < watched_.size(); ++i)
    if (!written_[i]) versions_[i] = before[i];
}

FXX_INLINE bool CompiledModule::is_current() const {
  if (interpreted_ || graph().version() != built_version_) return false;
  for (const auto& [module, training] : training_flags_)
    if (module->is_training() != training) return false;
  std::unique_lock<std::mutex> alone;
  if (changes_something_) alone = std::unique_lock(writing_mutex_);
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (!written_[i] && !watched_[i].is_inference() && watched_[i]._version() != versions_[i]) return false;
    if (memory_[i]._unsafe_get_target() != detail::memory_of(watched_[i]).get()) return false;  // set_data, to(dtype)
  }
  return true;
}

FXX_INLINE CompiledModule::Workspace* CompiledModule::acquire() {
  {
    const std::lock_guard lock(pool_mutex_);
    if (!idle_.empty()) {
      Workspace* workspace = idle_.back();
      idle_.pop_back();
      return workspace;
    }
  }
  auto made = std::make_unique<Workspace>();
  made->memory = Memory(std::max<std::size_t>(workspace_bytes_, 64));
  made->team = open_(threads_);
  const std::lock_guard lock(pool_mutex_);
  workspaces_.push_back(std::move(made));
  return workspaces_.back().get();
}
FXX_INLINE void CompiledModule::release(Workspace* workspace) {
  const std::lock_guard lock(pool_mutex_);
  idle_.push_back(workspace);
}

FXX_INLINE at::Tensor CompiledModule::tensor_at(const Host& host, const plans::View& view) const {
  const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(view.buffer)];
  using Kind = plans::Buffer::Kind;
  const auto number = static_cast<std::size_t>(buffer.number);
  if (buffer.kind == Kind::constant || (buffer.kind == Kind::input && host.tensors)) {
    const at::Tensor& whole = buffer.kind == Kind::constant ? attributes_[number] : (*host.tensors)[number];
    // All of it: the tensor itself, which the operator may write to.
    const plans::View& all = buffer.kind == Kind::input ? kernels_.inputs[number] : view;
    if (view.offset == 0 && view.sizes == all.sizes && view.strides == all.strides &&
        whole.sizes() == at::IntArrayRef(view.sizes) &&
        (buffer.kind == Kind::input || view.strides == plans::dense_strides(view.sizes)))
      return whole;
    if (buffer.kind == Kind::constant)
      return at::_ops::as_strided::call(whole.contiguous(), c10::fromIntArrayRefSlow(view.sizes),
                                        c10::fromIntArrayRefSlow(view.strides), c10::SymInt(view.offset));
  }
  unsigned char* base = nullptr;
  if (buffer.kind == Kind::input) base = static_cast<unsigned char*>(const_cast<void*>(host.inputs[number]));
  else if (buffer.kind == Kind::output) base = static_cast<unsigned char*>(host.outputs[number]);
  else base = host.memory + buffer.offset;
  base += view.offset * element_size(buffer.dtype);
  return at::from_blob(base, view.sizes, view.strides,
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(buffer.dtype)));
}

FXX_INLINE int CompiledModule::call_back(kernels::ModuleCall* call, int step) {
  Host& host = *static_cast<Host*>(call->host);
  try {
    const CompiledModule& self = *host.self;
    const KernelStep& kernel = self.kernels_.steps[static_cast<std::size_t>(step)];
    const auto& back = std::get<plans::CallBack>(kernel.kernel);
    const at::NoGradGuard no_grad;
    std::vector<c10::IValue> inputs;
    for (const plans::View& view : back.inputs)
      if (view.buffer >= 0) inputs.emplace_back(self.tensor_at(host, view));
    std::vector<at::Tensor> values;
    detail::flatten(self.operators_[static_cast<std::size_t>(step)].plan->run(inputs), values);
    for (std::size_t i = 0; i < back.outputs.size() && i < values.size(); ++i)
      if (back.outputs[i].buffer >= 0) {
        at::Tensor to = self.tensor_at(host, back.outputs[i]);
        if (to.sizes() != values[i].sizes())
          throw RunError(ErrorId::run_failed, "compile: '" + std::string(back.node->name()) +
                                                  "' gave other sizes than when it was compiled");
        at::_ops::copy_::call(to, values[i], false);
      }
    return 0;
  } catch (...) {
    host.exception = std::current_exception();
    return 1;
  }
}

FXX_INLINE void CompiledModule::run_kernels(const void* const* inputs, void* const* outputs,
                                            std::vector<at::Tensor>* tensors, std::int64_t* times) {
  // What a call writes, the next one packs: one at a time.
  std::unique_lock<std::mutex> alone;
  if (changes_something_) {
    alone = std::unique_lock(writing_mutex_);
    pack_what_it_wrote();
  }
  struct Lease {
    CompiledModule& module;
    Workspace* workspace;
    ~Lease() { module.release(workspace); }
  } lease{*this, acquire()};
  Host host{this, inputs, outputs, static_cast<unsigned char*>(lease.workspace->memory.data), tensors, nullptr};
  kernels::ModuleCall call{
      inputs, outputs, host.memory, static_cast<const float*>(weights_.data), &CompiledModule::call_back, &host, 0, 0, times};
  run_(lease.workspace->team, &call);
  if (call.fault == 0) [[likely]]
    return;
  if (host.exception) {
    const Node& node = *std::get<plans::CallBack>(kernels_.steps[static_cast<std::size_t>(call.step)].kernel).node;
    try {
      std::rethrow_exception(host.exception);
    } catch (c10::Error& e) {
      e.add_context(detail::while_executing(node));
      throw;
    }
  }
  throw RunError(ErrorId::input_mismatch,
                 "compiled " + class_name() + ": an index is out of range of the table that it looks up");
}

FXX_INLINE void CompiledModule::run_raw(const void* const* inputs, void* const* outputs) {
  if (tail_ || interpreted_)
    throw RunError(ErrorId::run_failed, "compiled " + class_name() +
                                            ": sizes of '" + left_.front() + "' depend on the elements of tensors, so it runs with tensors alone");
  run_kernels(inputs, outputs, nullptr);
}

FXX_INLINE c10::IValue CompiledModule::result_of(const Argument& argument, std::vector<at::Tensor>& outputs,
                                                 std::size_t& next) const {
  using Kind = Argument::Kind;
  switch (argument.kind()) {
    case Kind::node: return outputs[next++];
    case Kind::list:
    case Kind::tuple: {
      std::vector<c10::IValue> items;
      for (const Argument& item : argument.items()) items.push_back(result_of(item, outputs, next));
      if (argument.kind() == Kind::tuple) return c10::ivalue::Tuple::create(std::move(items));
      return to_list(std::move(items), {});
    }
    case Kind::dict: {
      c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
      for (const DictEntry& entry : argument.entries())
        dict.insert(to_ivalue(entry.key), result_of(entry.value, outputs, next));
      return dict;
    }
    default: return to_ivalue(argument);
  }
}

FXX_INLINE c10::IValue CompiledModule::run_specialised(std::vector<c10::IValue>& inputs, std::int64_t* times) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors, seen, dense;  // as they were given, as the operators called back see them
  c10::SmallVector<const void*, 16> from;
  c10::SmallVector<void*, 16> to;
  tensors.reserve(inputs.size());
  dense.reserve(inputs.size());  // pointers into it are kept
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(inputs[i].toTensor());
    const at::Tensor& given = tensors.back();
    const plans::View& wanted = kernels_.inputs[i];
    const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(wanted.buffer)];
    if (given.scalar_type() != static_cast<at::ScalarType>(buffer.dtype) ||
        given.sizes() != at::IntArrayRef(wanted.sizes) || !given.device().is_cpu() || given.layout() != at::kStrided)
      throw RunError(ErrorId::input_mismatch, "compiled " + class_name() + ": input '" + buffer.name + "' is " +
                                                  c10::toString(given.scalar_type()) + c10::str(given.sizes()) +
                                                  " on " + given.device().str() + "; it was compiled for " +
                                                  c10::toString(static_cast<at::ScalarType>(buffer.dtype)) +
                                                  c10::str(at::IntArrayRef(wanted.sizes)) + " on cpu");
    if (given.strides() == at::IntArrayRef(wanted.strides) && !given.is_neg() && !given.is_conj()) {
      from.push_back(given.const_data_ptr());
    } else {
      dense.push_back(at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(wanted.sizes),
                                                    c10::fromIntArrayRefSlow(wanted.strides), given.scalar_type(), {},
                                                    at::kCPU, {}));
      at::_ops::copy_::call(dense.back(), given, false);
      from.push_back(dense.back().const_data_ptr());
      if (!changes_something_) continue;
      // What writes to the input writes to the copy; the input gets it at the end.
      seen.resize(inputs.size());
      seen[i] = dense.back();
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i].defined()) seen[i] = tensors[i];
  std::vector<at::Tensor> outputs;
  outputs.reserve(kernels_.outputs.size());
  for (const PlanOutput& output : kernels_.outputs) {
    if (output.input >= 0) {
      outputs.push_back(tensors[static_cast<std::size_t>(output.input)]);
      to.push_back(nullptr);
    } else {
      const Dtype dtype = kernels_.buffers[static_cast<std::size_t>(output.buffer)].dtype;
      outputs.push_back(at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(output.view.sizes),
                                                      c10::fromIntArrayRefSlow(output.view.strides),
                                                      static_cast<at::ScalarType>(dtype), {}, at::kCPU, {}));
      to.push_back(outputs.back().mutable_data_ptr());
    }
  }
  const auto version = [](const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); };
  std::vector<std::uint32_t> versions;
  for (const at::Tensor& tensor : seen) versions.push_back(version(tensor));
  run_kernels(from.data(), to.data(), seen.empty() ? &tensors : &seen, times);
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i].is_same(tensors[i]) && (seen[i].is_inference() || version(seen[i]) != versions[i]))
      at::_ops::copy_::call(tensors[i], seen[i], false);
  if (tail_) {
    std::vector<c10::IValue> values(tensors.begin(), tensors.end());
    values.insert(values.end(), outputs.begin(), outputs.end());
    return tail_->run(values);
  }
  std::size_t next = 0;
  return result_of(prepared_->graph().output_node()->arg(0), outputs, next);
}

FXX_INLINE c10::IValue CompiledModule::run_flat(std::vector<c10::IValue> inputs) {
  bool tensors = inputs.size() == kernels_.inputs.size(), gradient = false;
  for (const c10::IValue& input : inputs) {
    tensors = tensors && input.isTensor() && input.toTensor().defined();
    tensors = tensors && detail::has_elements(input.toTensor());
    gradient = gradient || (tensors && (input.toTensor().requires_grad() || input.toTensor()._fw_grad(0).defined()));
  }
  // Inputs left out, and all else that the kernels were not made for, are the interpreter's business.
  if (!tensors || (gradient && at::GradMode::is_enabled()) || !is_current())
    return GraphModule::run_flat(std::move(inputs));
  return run_specialised(inputs);
}

FXX_INLINE std::vector<double> CompiledModule::profile(const std::vector<at::Tensor>& inputs, int calls) {
  std::vector<double> seconds(kernels_.steps.size(), 0);
  if (interpreted_) return seconds;
  std::vector<std::int64_t> times(seconds.size() + 1);
  for (int call = 0; call < calls; ++call) {
    std::vector<c10::IValue> values(inputs.begin(), inputs.end());
    run_specialised(values, times.data());
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const double took = static_cast<double>(times[i + 1] - times[i]) * 1e-9;
      seconds[i] = call == 0 ? took : std::min(seconds[i], took);
    }
  }
  return seconds;
}

FXX_INLINE void CompiledModule::verify(const std::vector<at::Tensor>& example_inputs, double tolerance) {
  if (changes_something_ || interpreted_) return;
  const auto is_fake_one = [](const at::Tensor& tensor) { return is_fake(tensor); };
  if (std::ranges::any_of(example_inputs, is_fake_one)) return;
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> inputs(example_inputs.begin(), example_inputs.end());
  const c10::IValue expected = GraphModule::run_flat(inputs);
  const c10::IValue got = run_specialised(inputs);
  max_error_ = detail::relative_error(got, expected);
  if (!(max_error_ <= tolerance))
    throw LoadError(ErrorId::result_differs, "compile: the compiled module differs from the interpreter by " +
                                                 repr(max_error_) + " of the largest magnitude; the tolerance is " +
                                                 repr(tolerance) + ". The library is at " + library_.path());
}

FXX_INLINE std::shared_ptr<CompiledModule> compile(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                                   const CompileOptions& options) {
  module.graph().lint();
  const std::size_t takes = module.graph().find_nodes(Opcode::placeholder).size();
  if (example_inputs.size() != takes)
    throw RunError(ErrorId::input_mismatch, "compile: " + std::to_string(example_inputs.size()) +
                                                " example inputs were given; the graph takes " + std::to_string(takes));
  auto compiled = std::make_shared<CompiledModule>(module, example_inputs, options);
  compiled->verify(example_inputs, options.tolerance.value_or(options.accuracy == Accuracy::fast ? 0.05 : 1e-4));
  return compiled;
}

}  // namespace fxx::inline FXX_ABI
