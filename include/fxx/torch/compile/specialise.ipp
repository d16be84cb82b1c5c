// From a graph to a library that is loaded, with its weights packed; for torch/compile.ipp.
#pragma once

#include <dirent.h>

#include <ATen/Version.h>
#include <ATen/ops/all_ops.h>
#include <ATen/ops/full_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/isfinite_ops.h>
#include <ATen/ops/sum_ops.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <unordered_map>

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
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/identity.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/compile/open_modules.ipp"
#include "fxx/torch/compile/quantised.ipp"
#include "fxx/torch/compile/torch_state.ipp"
#include "fxx/torch/compile/written_attention.ipp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/version.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Results, with copies of those that are inputs by now and were none: who gets one may write to it. `was_input` has a
/// boolean in the place of each node that there was.
FXX_INLINE Argument with_copies_of_inputs(Graph& graph, const Argument& result, const Argument& was_input) {
  using Kind = Argument::Kind;
  if (result.is_node()) {
    const bool is_that = was_input.kind() == Kind::boolean && was_input.boolean();
    const bool copied = result.node()->opcode() == Opcode::placeholder && !is_that;
    return copied ? Argument(graph.call_function(ops::clone, {result})) : result;
  }
  if (result.is_sequence()) {
    const bool fits = was_input.is_sequence() && was_input.items().size() == result.items().size();
    std::vector<Argument> items;
    for (std::size_t i = 0; i < result.items().size(); ++i)
      items.push_back(with_copies_of_inputs(graph, result.items()[i], fits ? was_input.items()[i] : Argument()));
    return result.kind() == Kind::list ? Argument::list(std::move(items)) : Argument::tuple(std::move(items));
  }
  if (result.kind() == Kind::dict) {
    const bool fits = was_input.kind() == Kind::dict && was_input.entries().size() == result.entries().size();
    std::vector<DictEntry> entries;
    for (std::size_t i = 0; i < result.entries().size(); ++i) {
      const DictEntry& entry = result.entries()[i];
      const Argument was = fits ? was_input.entries()[i].value : Argument();
      entries.push_back({entry.key, with_copies_of_inputs(graph, entry.value, was)});
    }
    return Argument::dict(std::move(entries));
  }
  return result;
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

/// Returns what FXX_KERNEL_FLAGS has: flags for the compiler of kernels behind all others, with blanks between them.
FXX_INLINE std::vector<std::string> kernel_flags() {
  std::vector<std::string> flags;
  const char* value = files::variable("FXX_KERNEL_FLAGS");
  std::istringstream words(value ? value : "");
  for (std::string word; words >> word;) flags.push_back(word);
  return flags;
}
/// Whether kernels are compiled with AddressSanitizer, so that buffers have gaps between them that it watches.
FXX_INLINE bool kernels_are_guarded() {
  for (const std::string& flag : kernel_flags())
    if (flag.starts_with("-fsanitize=") && flag.find("address") != flag.npos) return true;
  return false;
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
  for (std::string& flag : kernel_flags()) request.flags.push_back(std::move(flag));
  request.include_folders = {kernel_headers_folder()};
  // In a folder of the system's the compiler does not list headers among those that a library depends on.
  request.extra = {"module abi " + std::to_string(kernels::module_abi), "kernels " + hash_of_kernels()};
  request.timeout_seconds = options.timeout_seconds;
  request.forgive_warnings = !files::variable("FXX_STRICT_BUILD");
  if (!request.forgive_warnings) request.extra.push_back("strict");
  return request;
}
FXX_INLINE BuildCache cache_of(const CompileOptions& options) {
  return options.cache_folder.empty() ? BuildCache() : BuildCache(options.cache_folder);
}

/// A copy of the plan as a module keeps it: without room to grow, the terms beside each other, and of the nodes of
/// `copy`, a copy of the graph that it was made of.
FXX_INLINE KernelPlan kept_plan(const KernelPlan& plan, const Graph& graph, const Graph& copy) {
  KernelPlan kept = plan;
  std::vector<const Node*> copies(graph.index_bound());
  auto node = copy.nodes().begin();
  for (const Node* original : graph.nodes()) copies[original->index()] = *node, ++node;
  const auto move = [&](const Node*& at) {
    if (at) at = copies[at->index()];
  };
  std::unordered_map<const plans::Term*, plans::TermPointer> terms;  // that several steps share stay one
  const auto copy_of = [&](const auto& self, const plans::TermPointer& term) -> plans::TermPointer {
    if (!term) return term;
    if (const auto known = terms.find(term.get()); known != terms.end()) return known->second;
    const auto made = std::make_shared<plans::Term>(*term);
    for (plans::TermPointer& operand : made->operands) operand = self(self, operand);
    return terms[term.get()] = made;
  };
  const auto of_term = [&](plans::TermPointer& term) { term = copy_of(copy_of, term); };
  for (KernelStep& step : kept.steps) {
    std::ranges::for_each(step.nodes, move);
    std::ranges::for_each(step.joinable, move);
    plans::for_each_operand(step.kernel, [](const plans::View&) {}, of_term);
    for (plans::Store& store : step.stores) of_term(store.value);
    if (auto* back = std::get_if<plans::CallBack>(&step.kernel)) {
      std::ranges::for_each(back->nodes, move);
      for (plans::CallBack::Value& input : back->inputs) move(input.node);
      for (plans::CallBack::Value& output : back->outputs) move(output.node);
    }
  }
  return kept;
}

/// Floats in a vector of LibTorch's kernels, which it chooses when the program starts.
FXX_INLINE int lanes_of_libtorch() {
  const std::string capability = at::get_cpu_capability();
  return capability == "AVX512" ? 16 : capability == "DEFAULT" ? 0 : 8;
}
/// Whether LibTorch leaves gelu to oneDNN now, and that makes nan of an infinity, as it does on some processors.
FXX_INLINE bool gelu_of_infinity_is_nan() {
  const at::NoGradGuard no_grad;
  const at::Tensor endless = at::_ops::full::call({2}, INFINITY, at::kFloat, std::nullopt, std::nullopt, std::nullopt);
  return std::isnan(at::_ops::gelu::call(endless, "none").const_data_ptr<float>()[0]);
}
/// The calls of gelu, by name.
FXX_INLINE std::set<std::string, std::less<>> gelus_of(const Graph& graph) {
  std::set<std::string, std::less<>> names;
  for (const Node* node : graph.nodes())
    if (node->calls(ops::gelu)) names.emplace(node->name());
  return names;
}

/// Is no element nan or infinite? True of what has no elements yet.
FXX_INLINE bool all_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.layout() != at::kStrided || is_fake(tensor)) return true;
  const at::NoGradGuard no_grad;
  // The sum is read once; of large numbers it may overflow.
  return std::isfinite(at::_ops::sum::call(tensor, std::nullopt).item<double>()) ||
         at::_ops::all::call(at::_ops::isfinite::call(tensor)).item<bool>();
}

}  // namespace detail

FXX_INLINE void CompiledModule::specialise(const std::vector<at::Tensor>& example_inputs,
                                           const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t state = detail::torch_state(false), all_state = detail::torch_state(true);
  for (const Node* node : graph().nodes()) {
    if (node->opcode() != Opcode::call_module && node->opcode() != Opcode::get_attr) continue;
    if (const auto named = submodule(node->target())) {
      for (const auto& module : named->modules()) training_flags_.emplace_back(module, module->is_training());
    } else {
      watched_.push_back({attribute(node->target())});
      if (const at::Tensor* member = member_read(node->target())) members_.emplace_back(member, *member);
    }
  }
  for (const auto& [module, training] : training_flags_) {
    if (const auto* inside = dynamic_cast<const GraphModule*>(module.get()))
      graphs_inside_.emplace_back(inside, inside->graph().version());
    for (const at::Tensor& tensor : module->parameters(false)) watched_.push_back({tensor});
    for (const at::Tensor& tensor : module->buffers(false)) watched_.push_back({tensor});
    for (const detail::TensorMember& member : detail::tensor_members(*module)) {
      members_.emplace_back(member.member, *member.member);
      if (member.member->defined() && member.differs()) watched_.push_back({*member.member});
    }
  }

  prepared_ = std::make_shared<GraphModule>(*this, graph(), class_name());
  expand_modules(prepared_->graph(), prepared_->owner());
  const auto nodes = prepared_->graph().nodes();
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->opcode() == Opcode::call_module; })) {
    if (detail::calls_functions(*prepared_)) detail::open_each(*prepared_, example_inputs);
    else prepared_ = detail::opened(prepared_, example_inputs);
  }
  Graph& prepared = prepared_->graph();
  const auto calls_method = [](const Node* n) { return n->opcode() == Opcode::call_method; };
  if (std::ranges::any_of(prepared.nodes(), calls_method)) detail::refuse_script_state_of(*prepared_, example_inputs);
  expand_functions(prepared, runs_as_operators);
  note_known_sizes(*prepared_, example_inputs);
  // The results that are inputs, and no copies of them.
  const Argument is_input = map_nodes(prepared.output_node()->arg(0), [](const Node* node) {
    while (const Node* self = written_operand(*node)) node = self;  // x.add_(1) is x
    return Argument(node->opcode() == Opcode::placeholder);
  });
  functionalise(prepared, &prepared_->owner());
  // What the graph gives of nan, infinities and what overflows stays, but in fast mode.
  rewrite::RewriteOptions rewriting;
  rewriting.assume = (options.accuracy == Accuracy::fast ? law::any : law::ordinary) & ~law::visible;
  const auto is_finite = [](const Watched& w) { return detail::all_finite(w.tensor); };
  const bool finite_weights = options.accuracy == Accuracy::fast || std::ranges::all_of(watched_, is_finite);
  if (!finite_weights) rewriting.assume = rewriting.assume & ~law::finite_weights;
  const auto gelus = detail::gelus_of(prepared);
  if (options.accuracy == Accuracy::exact) rules::apply_exact(*prepared_, rewriting);
  else rules::apply_all(*prepared_, rewriting);
  std::vector<WrittenAttention> attention = detail::written_attention(prepared);
  if (!attention.empty()) {
    rules::find_in_library("attention")->apply(*prepared_, rewriting);  // keys that were repeated for several heads
    detail::follow(prepared, attention);
  }
  std::vector<std::string> gelu_formulas;  // that rules recognised
  for (const std::string& name : detail::gelus_of(prepared))
    if (!gelus.contains(name)) gelu_formulas.push_back(name);
  expand_modules(prepared, prepared_->owner());
  expand_functions(prepared);
  eliminate_dead_code(prepared);
  {
    // Rules know that x + 0 is x; who gets a result may write to it all the same.
    Node* const output = prepared.output_node();
    const InsertPoint point = prepared.inserting_before(output);
    output->set_args({detail::with_copies_of_inputs(prepared, output->arg(0), is_input)});
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
  const auto is_interpreted = [&](const Node* node) {
    return std::ranges::any_of(regions, [&](const Region& r) { return std::ranges::find(r.nodes, node) != r.nodes.end(); });
  };
  if (detail::write_out(prepared, attention, is_interpreted)) {
    unknown = known();
    regions = gather_regions(prepared, unknown);
  }
  const std::vector<Node*> inputs = prepared.find_nodes(Opcode::placeholder);
  uncounted_inputs_.assign(inputs.size(), false);
  for (const Node* node : prepared.nodes()) {
    changes_something_ = changes_something_ || is_barrier(*node) || draws_numbers(*node);
    if (!is_barrier(*node)) continue;
    const auto memory = memory_written_by(*node);
    // LibTorch counts what its own operators write, but for statistics. Others may write through pointers.
    const Operator* op = operator_of(*node);
    const bool uncounted = !op || has(op->traits, Trait::updates_statistics) ||
                           (op->name_space() != "aten" && !find_host_call(op->name));
    for (std::size_t i = 0; uncounted && i < inputs.size(); ++i)
      if (memory.anywhere || std::ranges::find(memory.makers, inputs[i]) != memory.makers.end())
        uncounted_inputs_[i] = true;
    for (const Node* maker : memory.makers) {
      const auto* attribute = std::get_if<GetAttr>(&maker->op());
      if (!attribute) continue;
      const auto named = prepared_->submodule(attribute->target);
      std::vector<at::Tensor> tensors;
      if (named) {
        tensors = named->parameters();
        for (const at::Tensor& buffer : named->buffers()) tensors.push_back(buffer);
      } else {
        tensors.push_back(prepared_->attribute(attribute->target));
      }
      for (Watched& w : watched_) {
        const auto is_it = [&](const at::Tensor& tensor) { return w.tensor.is_same(tensor); };
        if (std::ranges::none_of(tensors, is_it)) continue;
        w.written = true;
        w.uncounted = w.uncounted || (uncounted && !named);
      }
    }
    // Who knows what it writes to.
    if (memory.anywhere || node->opcode() == Opcode::call_module)
      for (Watched& w : watched_) {
        w.written = true;
        w.uncounted = w.uncounted || (memory.anywhere && uncounted);
      }
  }
  std::vector<std::string> endless_weights;
  if (!finite_weights)
    for (const Node* node : prepared.find_nodes(Opcode::get_attr)) {
      const std::string& name = std::get<GetAttr>(node->op()).target;
      if (!prepared_->submodule(name) && !detail::all_finite(prepared_->attribute(name))) endless_weights.push_back(name);
    }
  const LowerOptions lowering{.accuracy = options.accuracy,
                              .processor = options.march == "native" ? this_processor() : Processor{},
                              .quantised = detail::with_scales(*prepared_, quantised),
                              .guarded = detail::kernels_are_guarded(),
                              .finite_weights = finite_weights,
                              .endless_weights = std::move(endless_weights),
                              .fills_memory = detail::fills_memory(),
                              .attention = std::move(attention),
                              .gelu_formulas = std::move(gelu_formulas),
                              .gelu_of_onednn = detail::gelu_of_infinity_is_nan(),
                              .libtorch_lanes = detail::lanes_of_libtorch(),
                              .regions = std::move(regions)};
  KernelPlan plan = lower(prepared, prepared_->owner(), lowering);
  double work = 0;
  for (const KernelStep& step : plan.steps) work += step.flops + 4 * step.bytes;
  if (options.threads <= 0 && work < 2e5)
    threads_ = 1;  // a microsecond or two, in which others cannot be told what to do
  if (options.tune) plan = tuned(std::move(plan), prepared, lowering, example_inputs, options);
  // Compilers are processes of their own: what their work is compared with can be computed while they run.
  struct Reference {
    CompiledModule& module;
    const std::vector<at::Tensor>& inputs;
    std::optional<c10::IValue> results;
    void compute() {
      if (!results && module.can_be_verified_with(inputs)) results = module.interpreted_results(inputs);
    }
  } reference{*this, example_inputs, {}};
  const Meanwhile computes_it{[](void* data) { static_cast<Reference*>(data)->compute(); }, &reference};
  take(std::move(plan), options, &computes_it);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reference.compute();
  if (reference.results) verify(example_inputs, *reference.results, options);
  kernels_.values = {};
  const auto verified = std::chrono::steady_clock::now();
  if (!changes_something_) forget_constants();
  // Both stay as long as the module: copies without gaps, made when nearly all else of the heap is free again.
  Graph kept = detail::compact_copy(prepared_->graph());
  kept.set_owning_module(prepared_->graph().owning_module());
  kernels_ = detail::kept_plan(kernels_, prepared_->graph(), kept);
  prepared_->graph() = std::move(kept);
  built_version_ = graph().version();
  multiplies_floats_ = std::ranges::any_of(kernels_.steps, [](const KernelStep& step) {
    return std::holds_alternative<plans::MatrixProduct>(step.kernel) ||
           std::holds_alternative<plans::Convolution>(step.kernel) ||
           std::holds_alternative<plans::DepthwiseBlock>(step.kernel) ||
           std::holds_alternative<plans::Attention>(step.kernel) ||
           std::holds_alternative<plans::Recurrent>(step.kernel);
  });
  made_under_ = multiplies_floats_ ? all_state : state;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - verified).count();
}

FXX_INLINE void CompiledModule::take(KernelPlan plan, const CompileOptions& options, const Meanwhile* meanwhile) {
  workspaces_.clear();
  operators_.clear();

  kernels_ = std::move(plan);
  const SpecialisedSource source = specialised_source(kernels_, class_name());
  source_hash_ = source.hash;
  BuildRequest request = detail::request_for(source, options);
  if (meanwhile) request.meanwhile = *meanwhile;
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
  open_ = library_.symbol<void*(int, int)>("fxx_open");
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
    dense.push_back(attributes_.back().detach().contiguous().resolve_conj().resolve_neg());
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
