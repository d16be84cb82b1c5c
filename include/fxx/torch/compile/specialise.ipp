// From a graph to a library that is loaded, with its weights packed; for torch/compile.ipp.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "fxx/codegen/processor.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/error.hpp"
#include "fxx/kernels/features.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/decompose.hpp"
#include "fxx/passes/expand_functions.hpp"
#include "fxx/passes/functionalise.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/passes/regions.hpp"
#include "fxx/passes/stable_order.hpp"
#include "fxx/rules/library.hpp"
#include "fxx/runtime/built_library.hpp"
#include "fxx/runtime/identity.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/compile/quantised.ipp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/version.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The graph once more, with modules that are more than one operator traced through: recurrent layers, and whatever a
/// user registered. Where that cannot be, they stay calls.
FXX_INLINE std::shared_ptr<GraphModule> opened(const std::shared_ptr<GraphModule>& module,
                                               const std::vector<at::Tensor>& example_inputs) {
  // A trace runs the module, which may write to its buffers and its inputs, and draw numbers.
  const ModuleState before(module->owner(), module->graph());
  std::vector<at::Tensor> given;
  for (const at::Tensor& input : example_inputs) given.push_back(is_fake(input) ? input : copy_of(input));
  try {
    return trace_module(*module, true,
                        [&](std::span<const at::Tensor> inputs) {
                          return module->run_flat(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
                        },
                        std::move(given), {.leaf_modules = false, .training_flags = false});
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
/// Tells versions of the kernels apart.
FXX_INLINE std::string hash_of_kernels() {
  const std::string folder = kernel_headers_folder() + "/fxx/kernels";
  std::vector<std::string> names;
  if (DIR* entries = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(entries)) names.emplace_back(entry->d_name);
    ::closedir(entries);
  }
  std::ranges::sort(names);
  std::string all;
  for (const std::string& name : names)
    if (name.ends_with(".hpp") || name.ends_with(".inc")) all += name + " " + hash_of_file(folder + "/" + name) + "\n";
  return wide_hash(all);
}

FXX_INLINE BuildRequest request_for(const SpecialisedSource& source, const CompileOptions& options) {
  BuildRequest request;
  request.source = source.text;
  request.parts = source.parts;
  request.flags = {"-std=c++20",
                   "-O2",
                   "-march=" + options.march,
                   "-fno-math-errno",
                   "-fno-trapping-math",
                   "-fvisibility=hidden",
                   "-Wall",
                   "-Wextra",
                   "-Werror"};
  request.include_folders = {kernel_headers_folder()};
  // In a folder of the system's the compiler does not list headers among those that a library depends on.
  request.extra = {"module abi " + std::to_string(kernels::module_abi), "kernels " + hash_of_kernels()};
  request.timeout_seconds = options.timeout_seconds;
  request.forgive_warnings = !std::getenv("FXX_STRICT_BUILD");
  if (!request.forgive_warnings) request.extra.push_back("strict");
  return request;
}
FXX_INLINE BuildCache cache_of(const CompileOptions& options) {
  return options.cache_folder.empty() ? BuildCache() : BuildCache(options.cache_folder);
}

/// The same graph in memory without what the passes left of erased nodes: a module keeps its graph as long as it lives.
/// Nodes get other addresses.
FXX_INLINE void close_gaps(Graph& graph) {
  const Owner* const owner = graph.owning_module();
  graph = Graph(graph);
  graph.set_owning_module(owner);
}

}  // namespace detail

FXX_INLINE void CompiledModule::specialise(const std::vector<at::Tensor>& example_inputs,
                                           const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (const Node* node : graph().nodes()) {
    if (const auto* call = std::get_if<CallModule>(&node->op())) {
      for (const auto& module : submodule(call->target)->modules())
        training_flags_.emplace_back(module, module->is_training());
    }
    if (const auto* attribute = std::get_if<GetAttr>(&node->op()); attribute && !submodule(attribute->target))
      watched_.push_back({this->attribute(attribute->target)});
  }
  for (const auto& [module, training] : training_flags_) {
    for (const at::Tensor& tensor : module->parameters(false)) watched_.push_back({tensor});
    for (const at::Tensor& tensor : module->buffers(false)) watched_.push_back({tensor});
    for (const at::Tensor* member : detail::operation_tensors(*module)) {
      members_.emplace_back(member, *member);
      const auto same = [&](const at::Tensor& tensor) { return tensor.is_same(*member); };
      if (std::ranges::none_of(watched_, same, &Watched::tensor))
        watched_.push_back({*member});  // that the module does not register
    }
  }

  std::vector<bool> is_input;  // the results that are inputs, and no copies of them
  for_each_node(graph().output_node()->arg(0), [&](const Node* node) {
    while (const Node* self = written_operand(*node)) node = self;  // x.add_(1) is x
    is_input.push_back(node->opcode() == Opcode::placeholder);
  });
  prepared_ = std::make_shared<GraphModule>(*this, graph(), class_name());
  expand_modules(prepared_->graph(), prepared_->owner());
  const auto nodes = prepared_->graph().nodes();
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->opcode() == Opcode::call_module; }))
    prepared_ = detail::opened(prepared_, example_inputs);
  Graph& prepared = prepared_->graph();
  expand_functions(prepared, runs_as_operators);
  note_known_sizes(*prepared_, example_inputs);
  functionalise(prepared, &prepared_->owner());
  if (options.accuracy == Accuracy::exact) rules::apply_exact(*prepared_);
  else rules::apply_all(*prepared_);
  expand_modules(prepared, prepared_->owner());
  expand_functions(prepared);
  eliminate_dead_code(prepared);
  detail::close_gaps(prepared);
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
  keep_order_of_equals(prepared, Orders::sorts);
  while (decompose(prepared) > 0) note_known_sizes(*prepared_, example_inputs);  // some become what is one themselves
  const auto quantised = detail::quantised_layers(*prepared_);  // which folding would hide
  fold_constants(*prepared_, {.known_sizes = true});
  const auto known = [&] { return note_known_sizes(*prepared_, example_inputs, {.behind_elements = true}); };
  auto unknown = known();
  // What is interpreted has no kernel that keeps the order.
  std::vector<Node*> interpreted;
  for (Node* node : prepared.nodes())
    if (std::ranges::any_of(node->all_input_nodes(), [&](const Node* input) { return unknown.contains(input); }))
      interpreted.push_back(node);
  if (keep_order_of_equals(prepared, Orders::sorts_and_tops, interpreted) > 0) unknown = known();
  eliminate_dead_code(prepared);  // what computed numbers
  std::vector<Region> regions = gather_regions(prepared, unknown);
  for (const Node* node : prepared.nodes()) {
    changes_something_ = changes_something_ || is_barrier(*node) || draws_numbers(*node);
    if (!is_barrier(*node)) continue;
    const auto memory = memory_written_by(*node);
    for (const Node* maker : memory.makers) {
      const auto* attribute = std::get_if<GetAttr>(&maker->op());
      if (!attribute || prepared_->submodule(attribute->target)) continue;
      const at::Tensor tensor = prepared_->attribute(attribute->target);
      const Operator* op = operator_of(*node);
      const bool uncounted = op && has(op->traits, Trait::updates_statistics);
      for (Watched& w : watched_) {
        if (!w.tensor.is_same(tensor)) continue;
        w.written = true;
        w.uncounted = w.uncounted || uncounted;
      }
    }
    // Who knows what it writes to.
    if (memory.anywhere || node->opcode() == Opcode::call_module)
      for (Watched& w : watched_) w.written = true;
  }
  const LowerOptions lowering{.accuracy = options.accuracy,
                              .processor = options.march == "native" ? this_processor() : Processor{},
                              .quantised = detail::with_scales(*prepared_, quantised),
                              .regions = std::move(regions)};
  KernelPlan plan = lower(prepared, prepared_->owner(), lowering);
  double work = 0;
  for (const KernelStep& step : plan.steps) work += step.flops + 4 * step.bytes;
  if (options.threads <= 0 && work < 2e5)
    threads_ = 1;  // a microsecond or two, in which others cannot be told what to do
  if (options.tune) plan = tuned(std::move(plan), prepared, lowering, example_inputs, options);
  take(std::move(plan), options);
  if (!changes_something_) forget_constants();
  kernels_ = KernelPlan(std::as_const(kernels_));  // no room to grow, and fewer gaps in the heap
  built_version_ = graph().version();
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

FXX_INLINE void CompiledModule::take(KernelPlan plan, const CompileOptions& options) {
  workspaces_.clear();
  operators_.clear();

  kernels_ = std::move(plan);
  const SpecialisedSource source = specialised_source(kernels_, class_name());
  source_hash_ = source.hash;
  const BuildRequest request = detail::request_for(source, options);
  const auto check = [&](const Library& library) {
    const auto refuse = [&](const std::string& why) {
      throw LoadError(ErrorId::load_failed, "compile: " + library.path() + why);
    };
    const auto* info = library.symbol<const kernels::ModuleInfo>("fxx_module");
    if (info->abi != kernels::module_abi || info->version != std::string_view(FXX_VERSION_TEXT) ||
        info->source != source.hash)
      refuse(" was not built from this graph by this version of fxx");
    if (!has_vectors_of(info->lanes))
      refuse(" is for '" + options.march + "', whose vectors of " + std::to_string(info->lanes) +
             " floats this processor does not have");
    if (const char* missing = kernels::missing_feature(info->features))
      refuse(" is for '" + options.march + "', whose instructions this processor does not all have: " + missing);
    for (const char* name : {"fxx_pack", "fxx_open", "fxx_close", "fxx_run"}) library.symbol<void()>(name);
  };
  bool found = false;
  const auto build_start = std::chrono::steady_clock::now();
  library_ = load_or_build(detail::cache_of(options), request, &found, check);
  built_ = built_ || !found;
  build_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - build_start).count();
  const auto* info = library_.symbol<const kernels::ModuleInfo>("fxx_module");
  open_ = library_.symbol<void*(int)>("fxx_open");
  close_ = library_.symbol<void(void*)>("fxx_close");
  run_ = library_.symbol<void(void*, kernels::ModuleCall*)>("fxx_run");
  workspace_bytes_ = info->memory(threads_);
  weights_ = Memory(info->weights * sizeof(float));
  pack();

  prepare_call_backs();
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
                     "compile: '" + name +
                         "' is a fake tensor, which has no elements to pack; give it real memory (set_data) "
                         "before it is compiled");
    dense.push_back(attributes_.back().detach().contiguous());
    pointers.push_back(dense.back().const_data_ptr());
  }
  library_.symbol<void(const void* const*, float*)>("fxx_pack")(pointers.data(), static_cast<float*>(weights_.data));
  for (Watched& w : watched_) w.look();
}

FXX_INLINE void CompiledModule::forget_constants() {
  std::vector<bool> read(attributes_.size(), false);
  for (const KernelStep& step : kernels_.steps) {
    const auto* back = std::get_if<plans::CallBack>(&step.kernel);
    if (!back) continue;
    for (const plans::CallBack::Value& input : back->inputs) {
      if (input.view.buffer < 0) continue;
      const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(input.view.buffer)];
      if (buffer.kind == plans::Buffer::Kind::constant) read[static_cast<std::size_t>(buffer.number)] = true;
    }
  }
  for (std::size_t i = 0; i < attributes_.size(); ++i)
    if (!read[i]) attributes_[i].reset();
  // The nodes stay where they are; plans hold the tensors and modules that they read.
  auto bare = std::make_shared<GraphModule>(std::map<std::string, Attribute>(), Graph(), class_name());
  bare->graph() = std::move(prepared_->graph());
  bare->graph().set_owning_module(nullptr);
  prepared_ = std::move(bare);
}

FXX_INLINE void CompiledModule::pack_what_it_wrote() {
  if (std::ranges::none_of(watched_, [](const Watched& w) { return w.written && !w.is_of_version(); })) return;
  const std::vector<Watched> before = watched_;
  pack();
  // Of the others, what was packed into other weights is what it was. The tensors stay: others may be looking at them.
  for (std::size_t i = 0; i < watched_.size(); ++i)
    if (!watched_[i].written) watched_[i].go_back_to(before[i]);
}

}  // namespace fxx::inline FXX_ABI
