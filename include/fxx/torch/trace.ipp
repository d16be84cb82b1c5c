// Bodies of torch/trace.hpp.
#pragma once

#include <ATen/Context.h>
#include <torch/nn/modules/dropout.h>

// after the tensor's own header
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/equal_ops.h>
#include <ATen/ops/index_select_ops.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/recurrent.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/torch/traced_constants.hpp"
#include "fxx/torch/training_flags.hpp"
#include "fxx/trace/scope.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Empty, or what to tell of constants that look like parameters: somebody forgot to register them.
FXX_INLINE std::string unregistered_parameters(const Graph& graph, const TracedConstants& constants) {
  std::string list;
  std::size_t count = 0;
  for (const Node* node : graph.nodes()) {
    const auto* attribute = std::get_if<GetAttr>(&node->op());
    const auto found = attribute ? constants.find(attribute->target) : constants.end();
    const auto* tensor = found == constants.end() ? nullptr : std::get_if<at::Tensor>(&found->second);
    if (!tensor || !tensor->requires_grad() || node->num_users() == 0 || ++count > 4) continue;
    list += (list.empty() ? "'" : ", '") + attribute->target + "' of " + format_node(*node->users().front());
  }
  if (count == 0) return {};
  if (count > 4) list += " and " + std::to_string(count - 4) + " more";
  return "trace: tensors that require gradients belong to no registered module, so they are constants of the graph, "
         "which its parameters() lacks: " +
         list + ". Register them with register_module or register_parameter";
}

/// What is traced.
struct TracedCode {
  torch::nn::Module& root;
  bool is_module;  // of the user's; else the root is an empty one, for a callable
  const ModuleOwner& owner;
  const RunTraced& run;
  std::span<const std::string> input_names;
};

/// What one run of the code left.
struct Recording {
  Graph graph;
  std::map<std::string, GraphModule::Attribute> constants;
  std::vector<TracedRead> reads;
  std::vector<std::pair<Node*, Backtrace>> places;
  std::vector<std::string> notes;
  std::string kept;     // "%sum, %view": values of the trace that the code holds on to
  bool seeded = false;  // the code gave the generator of random numbers another seed
};

FXX_INLINE std::string list_held(const std::vector<const Node*>& held) {
  std::vector<std::string_view> names;
  for (const Node* node : held)
    if (node && std::find(names.begin(), names.end(), node->name()) == names.end()) names.push_back(node->name());
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < 4; ++i) list += (i ? ", %" : "%") + std::string(names[i]);
  if (names.size() > 4) list += " and " + std::to_string(names.size() - 4) + " more";
  return list;
}

FXX_INLINE std::uint64_t seed_of_default_generator() {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

FXX_INLINE Recording record_run(const TracedCode& code, std::vector<at::Tensor> inputs, RecordOptions options) {
  Recording out;
  const std::uint64_t seed = seed_of_default_generator();
  DispatchTracer tracer(out.graph, code.owner, options);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = tracer.input(inputs[i], code.input_names[i]);
  try {
    const c10::IValue result = code.run(inputs);
    out.graph.output(tracer.argument_for(result));
    inputs.clear();
  } catch (const c10::Error& error) {
    // Autograd is asked without the dispatcher, and finds values without gradients.
    const std::string_view what = error.what_without_backtrace();
    if (what.find("does not require grad") == what.npos) throw;
    throw TraceError(ErrorId::gradient_in_forward,
                     "trace: the traced code asks for gradients, which a graph of operators does not have. Trace the "
                     "part before it; autograd goes through the GraphModule");
  }
  out.kept = list_held(tracer.held());
  out.seeded = seed_of_default_generator() != seed;
  tracer.stop();
  out.reads = tracer.reads();
  out.places = tracer.places();
  for (const auto& [name, tensor] : tracer.constants()) out.constants.emplace(name, tensor);
  return out;
}

/// Buffers and the random numbers to come, as they were: for further runs of code that writes to them. A trace around
/// this one learns nothing of it.
class ModuleState {
 public:
  explicit ModuleState(const ModuleOwner& owner) : generator_(at::globalContext().defaultGenerator(at::kCPU).clone()) {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
    for (const ModuleOwner::Tensor& entry : owner.tensors())
      if (entry.kind == AttributeInfo::Kind::buffer && !is_fake(entry.tensor))
        buffers_.emplace_back(entry.tensor, at::_ops::clone::call(entry.tensor, std::nullopt));
  }
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;
  ~ModuleState() {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
    for (auto& [buffer, before] : buffers_) {
      try {
        // To write what is there already would count as a write, for autograd. Batch norm's do not count.
        if (!at::_ops::equal::call(buffer, before)) at::_ops::copy_::call(buffer, before, false);
      } catch (const c10::Error& error) {
        TORCH_WARN("trace: a buffer could not be put back to what it was: ", error.what_without_backtrace());
      }
    }
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const std::lock_guard lock(generator.mutex());
    generator.set_state(generator_.get_state());
  }

 private:
  at::Generator generator_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

// --- sizes that became numbers ---------------------------------------------------------------------------------------

FXX_INLINE bool holds(const Argument& argument, std::int64_t size) {
  if (argument.is_number()) return argument.number() == static_cast<double>(size);
  if (!argument.is_sequence()) return false;
  return std::any_of(argument.items().begin(), argument.items().end(),
                     [&](const Argument& item) { return holds(item, size); });
}

/// What C++ asked for, and where the answers turn up again among the sizes that operators were called with.
FXX_INLINE std::vector<TraceReport::Size> sizes_read(const Graph& graph, const std::vector<TracedRead>& reads) {
  // These have symbolic types in the schemas, but never follow from sizes.
  static const std::unordered_set<std::string_view> options = {"stride", "padding",        "dilation",
                                                               "groups", "output_padding", "kernel_size"};
  struct Use {
    const Node* node;
    const Parameter* parameter;
    const Argument* value;
  };
  // Sizes where there are sizes, and numbers to compute with: x / x.size(0). A factor of 2 is no size, though.
  const auto is_use = [](const Parameter& p) {
    return (p.type.symbolic && !options.contains(p.name)) || p.type.base == ValueType::scalar;
  };
  std::vector<Use> uses;
  for (const Node* node : graph.nodes()) {
    if (node->opcode() != Opcode::call_function || !node->operation()) continue;
    const Operator& op = *node->operation();
    for (std::size_t i = 0; i < node->args().size(); ++i)
      if (is_use(op.parameters[i])) uses.push_back({node, &op.parameters[i], &node->args()[i]});
    for (const KeywordArgument& k : node->kwargs())
      if (const int i = op.index_of(k.key); i >= 0 && is_use(op.parameters[static_cast<std::size_t>(i)]))
        uses.push_back({node, &op.parameters[static_cast<std::size_t>(i)], &k.value});
  }
  std::vector<TraceReport::Size> sizes;
  std::map<std::string, std::size_t> known;  // the same size asked for at the same place is one
  std::vector<const Backtrace*> backtraces;
  for (const TracedRead& read : reads) backtraces.push_back(&read.where);
  const std::vector<std::vector<Frame>> frames = user_frames(backtraces);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const TracedRead& read = reads[i];
    TraceReport::Size size;
    size.size = read.value;
    size.source = user_place(frames[i]);
    size.value = std::string(read.node->name()) + (read.item < 0 ? "" : "[" + std::to_string(read.item) + "]") +
                 ".size(" + std::to_string(read.dim) + ")";
    const auto [at, fresh] = known.emplace(size.value + " " + size.source, sizes.size());
    if (!fresh) continue;
    for (const Use& use : uses)
      if (use.node->index() >= read.nodes_before && (use.parameter->type.symbolic || read.value > 2) &&
          holds(*use.value, read.value))
        size.used_by.push_back("%" + std::string(use.node->name()) + "(" + std::string(use.parameter->name) + ")");
    sizes.push_back(std::move(size));
  }
  return sizes;
}

FXX_INLINE std::string describe_size(const TraceReport::Size& size) {
  std::string text = size.value + " = " + std::to_string(size.size);
  if (!size.source.empty()) text += ", read by " + size.source;
  for (std::size_t i = 0; i < size.used_by.size() && i < 4; ++i) text += (i ? ", " : ", is in ") + size.used_by[i];
  if (size.used_by.size() > 4) text += " and " + std::to_string(size.used_by.size() - 4) + " more";
  return text;
}

FXX_INLINE void refuse_baked(const std::vector<TraceReport::Size>& sizes) {
  std::string list;
  std::size_t count = 0;
  for (const TraceReport::Size& size : sizes)
    if (!size.used_by.empty() && ++count <= 8) list += (count > 1 ? "; " : "") + describe_size(size);
  if (count == 0) return;
  if (count > 8) list += "; and " + std::to_string(count - 8) + " more";
  throw TraceError(ErrorId::sizes_baked,
                   "trace: the graph would hold for these sizes only: " + list +
                       ". Declare the dimensions dynamic, use -1 where a size is inferred, or trace without strict");
}

/// Empty, or what to tell of sizes that elements decide.
FXX_INLINE std::string sizes_of_elements(const Graph& graph, std::vector<TracedRead> reads) {
  std::erase_if(reads, [](const TracedRead& read) { return !read.from_values; });
  const std::vector<TraceReport::Size> sizes = sizes_read(graph, reads);
  if (sizes.empty()) return {};
  std::string list;
  for (std::size_t i = 0; i < sizes.size() && i < 4; ++i) list += (i ? "; " : "") + describe_size(sizes[i]);
  if (sizes.size() > 4) list += "; and " + std::to_string(sizes.size() - 4) + " more";
  return "trace: the code reads sizes that the elements of tensors decide: " + list +
         ". The graph keeps what the code made of them, for other elements too. Use operators that need no such size "
         "(masked_fill, torch::where, -1 in view)";
}

// --- what to tell ---------------------------------------------------------------------------------------------------

/// Runs the code again, for its graph in other modes, with fake tensors where it takes them: nothing is computed then.
/// Code that keeps values of one run for the next gets real ones. What the runs do to the module is undone.
class FurtherRuns {
 public:
  FurtherRuns(const TracedCode& code, const std::vector<at::Tensor>& inputs, const Recording& recorded,
              const TraceOptions& options)
      : code_(code),
        inputs_(inputs),
        options_{.freeze_random = options.freeze_random},
        state_(code.owner),
        fakes_(recorded.kept.empty()) {}
  Graph operator()() {
    if (fakes_) try {
        return with_fakes();
      } catch (const TraceError&) {
        fakes_ = false;  // an operator without a shape rule
      } catch (const c10::Error&) {
        fakes_ = false;
      }
    return record_run(code_, inputs_, options_).graph;
  }
  Graph with_fakes() {
    std::vector<at::Tensor> given;
    for (const at::Tensor& input : inputs_) given.push_back(fake_like(input));
    return record_run(code_, given, options_).graph;
  }

 private:
  const TracedCode& code_;
  const std::vector<at::Tensor>& inputs_;
  RecordOptions options_;
  ModuleState state_;
  bool fakes_;
};

/// Empty, or what to tell of code that does something else in the other mode. It runs once more, with fake tensors, and
/// where that differs a second time in the mode that it is in: code that is never twice the same says nothing of modes.
FXX_INLINE std::string branch_on_mode(const TracedCode& code, const Graph& graph, FurtherRuns& runs) {
  try {
    const Graph other = graph_in_other_mode(code.root, [&] { return runs.with_fakes(); });
    const auto [here, there] = first_difference(graph, other);
    if (!here || first_difference(graph, runs.with_fakes()).first) return {};
    const std::string now = code.root.is_training() ? "train" : "eval",
                      then = code.root.is_training() ? "eval" : "train";
    return "trace: the code asks whether it trains: " + format_node(*here) + " in " + now + " mode is " +
           (there ? format_node(*there) : "nothing") + " in " + then + " mode. The graph is that of " + now +
           " mode, whatever train() and eval() say; trace once in each mode";
  } catch (const TraceError&) {
    return {};  // the other mode cannot be traced, so nobody uses it; or not with fake tensors
  } catch (const std::exception&) {
    return {};
  }
}

/// The graph knows the module as it was before the run.
FXX_INLINE void refuse_registered(const TracedCode& code) {
  if (!code.is_module) return;
  const ModuleOwner now(code.root);
  for (const ModuleOwner::Tensor& entry : now.tensors())
    if (!code.owner.tensor(entry.name).is_same(entry.tensor))
      throw TraceError(ErrorId::module_changed,
                       "trace: forward registers '" + entry.name +
                           "' or replaces it, so the graph would make it anew in every run. Run the module once before "
                           "it is traced, or register it in the constructor");
}

/// What else to tell of a run.
FXX_INLINE std::vector<std::string> notes_of(const TracedCode& code, const Graph& graph, const Recording& run,
                                             const TraceOptions& options, FurtherRuns* runs) {
  std::vector<std::string> notes;
  const auto note = [&](std::string text) {
    if (!text.empty()) notes.push_back(std::move(text));
  };
  const std::string sizes = sizes_of_elements(graph, run.reads);
  if (options.strict && !options.report && !sizes.empty()) throw TraceError(ErrorId::sizes_baked, sizes);
  note(sizes);
  if (!run.kept.empty())
    note("trace: the code holds on to " + run.kept +
         " after the run, in members or globals. If its next run goes on from there, the graph does not: it starts as "
         "this run did. State belongs into registered buffers that operators write to");
  if (run.seeded)
    note(
        "trace: the code seeds the generator of random numbers (torch::manual_seed), which the graph does not. Seed "
        "it before the graph runs");
  // Under a trace around this one, further runs would be recorded there.
  if (runs && run.kept.empty() && !c10::impl::tls_is_dispatch_key_included(trace_key))
    note(branch_on_mode(code, graph, *runs));
  return notes;
}

// --- dynamic dimensions ----------------------------------------------------------------------------------------------

/// The input with another size: its own slices again and again, so that values stay what the code can work with.
FXX_INLINE at::Tensor resized(const at::Tensor& input, std::int64_t dim, std::int64_t size) {
  const std::int64_t before = input.size(dim);
  if (before == size) return input;
  if (before == 0)
    throw TraceError(ErrorId::dynamic_dim_invalid,
                     "trace: a dynamic dimension of an input has size 0; give an example that is not empty");
  at::Tensor index;
  {
    const c10::impl::ExcludeDispatchKeyGuard real(c10::DispatchKey::Fake);
    index = at::_ops::empty_memory_format::call({size}, at::kLong, std::nullopt, at::kCPU, std::nullopt, std::nullopt);
    auto* const from = index.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < size; ++i) from[i] = i % before;
  }
  const at::NoGradGuard no_grad;
  return at::_ops::index_select::call(input, dim, index);
}

/// Fake ones have no values to compare.
FXX_INLINE bool same_constant_tensor(const at::Tensor& a, const at::Tensor& b) {
  if (is_fake(a) || is_fake(b)) return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  return a.scalar_type() == b.scalar_type() && at::_ops::equal::call(a, b);
}

/// The code's graph for all sizes: traced at several, solved.
FXX_INLINE Recording record_dynamic(const TracedCode& code, const std::vector<at::Tensor>& inputs,
                                    const TraceOptions& options) {
  const std::vector<std::string> size_of = size_names(options.dynamic);
  SizeSet given(size_of.size(), -1);
  std::vector<std::size_t> which;  // the name of each dimension
  std::vector<std::int64_t> dims;
  for (const DynamicDim& d : options.dynamic) {
    if (d.input >= inputs.size() || d.dim >= inputs[d.input].dim() || d.dim < -inputs[d.input].dim())
      throw TraceError(ErrorId::dynamic_dim_invalid, "trace: dynamic dimension '" + d.name + "' is dimension " +
                                                         std::to_string(d.dim) + " of input " +
                                                         std::to_string(d.input) + ", which there is not");
    dims.push_back(d.dim < 0 ? d.dim + inputs[d.input].dim() : d.dim);
    for (std::size_t i = 0; i + 1 < dims.size(); ++i)
      if (options.dynamic[i].input == d.input && dims[i] == dims.back())
        throw TraceError(ErrorId::dynamic_dim_invalid,
                         "trace: dimension " + std::to_string(dims.back()) + " of input " + std::to_string(d.input) +
                             " is declared twice, as '" + options.dynamic[i].name + "' and as '" + d.name + "'");
    which.push_back(static_cast<std::size_t>(std::find(size_of.begin(), size_of.end(), d.name) - size_of.begin()));
    const std::int64_t size = inputs[d.input].size(dims.back());
    std::int64_t& known = given[which.back()];
    if (known >= 0 && known != size)
      throw TraceError(ErrorId::dynamic_dim_invalid, "trace: dynamic dimension '" + d.name + "' is " +
                                                         std::to_string(known) + " and " + std::to_string(size) +
                                                         " in the example inputs; equal names are equal sizes");
    known = size;
  }

  std::vector<Recording> recordings;
  std::vector<SizedTrace> traces;
  std::vector<at::Tensor> first_inputs;
  const auto record = [&](const SizeSet& sizes) {
    std::vector<at::Tensor> sized = inputs;
    for (std::size_t i = 0; i < options.dynamic.size(); ++i) {
      at::Tensor& input = sized[options.dynamic[i].input];
      input = resized(input, dims[i], sizes[which[i]]);
    }
    if (recordings.empty()) first_inputs = sized;
    recordings.push_back(
        record_run(code, std::move(sized), {.places = true, .reads = true, .freeze_random = options.freeze_random}));
    SizedTrace trace{std::move(recordings.back().graph), sizes, {}};
    for (const TracedRead& r : recordings.back().reads) trace.reads.push_back({r.node, r.item, r.dim, r.value});
    traces.push_back(std::move(trace));
  };
  const std::vector<SizeSet> first{given};
  std::vector<std::string> notes;
  for (const SizeSet& sizes : sizes_to_trace(options.dynamic, first)) {
    if (traces.empty()) {
      record(sizes);
      refuse_registered(code);
      std::optional<FurtherRuns> runs;
      if (code.is_module && options.training_flags) runs.emplace(code, first_inputs, recordings[0], options);
      notes = notes_of(code, traces[0].graph, recordings[0], options, runs ? &*runs : nullptr);
      continue;
    }
    // The first run is the one that counts; what the others do to the module is undone.
    const ModuleState state(code.owner);
    try {
      record(sizes);
    } catch (const c10::Error& error) {
      const std::string what = error.what_without_backtrace();
      throw TraceError(ErrorId::dynamic_dim_invalid,
                       "trace: the code runs at " + sizes_text(size_of, traces[0].sizes) + " and fails at " +
                           sizes_text(size_of, sizes) + ": " + what.substr(0, what.find('\n')) +
                           ". Dimensions that have to be equal need one name; a dimension that weights or the code fix "
                           "is not dynamic, or has bounds (minimum, maximum, multiple_of)");
    }
  }
  for (const SizeSet& sizes : smallest_sizes(options.dynamic, traces[0].sizes)) {
    const ModuleState state(code.owner);
    try {
      record(sizes);
    } catch (const TraceError&) {
      throw;
    } catch (const std::exception&) {
      // The code refuses that size, so the graph need not hold for it.
    }
  }
  const auto with_lines = [&](auto solve) {
    try {
      return solve();
    } catch (const TraceError&) {
      // Symbols are looked up only now that somebody reads them.
      std::vector<std::pair<Node*, Backtrace>> places;
      for (const Recording& r : recordings) places.insert(places.end(), r.places.begin(), r.places.end());
      write_stack_traces(places);
      return solve();
    }
  };
  for (;;) {
    const auto more = with_lines([&] { return more_sizes_to_trace(traces, options.dynamic); });
    if (more.empty()) break;
    const ModuleState state(code.owner);
    for (const SizeSet& sizes : more) record(sizes);
  }
  if (options.record_stack_traces) write_stack_traces(recordings[0].places);
  Graph solved = with_lines([&] { return solve_sizes(traces, options.dynamic); });

  Recording out = std::move(recordings[0]);
  out.notes = std::move(notes);
  for (const auto& [name, value] : out.constants)
    for (std::size_t i = 1; i < recordings.size(); ++i) {
      const auto other = recordings[i].constants.find(name);
      if (other != recordings[i].constants.end() &&
          same_constant_tensor(std::get<at::Tensor>(value), std::get<at::Tensor>(other->second)))
        continue;
      throw TraceError(
          ErrorId::traces_differ,
          "trace: the constant '" + name +
              "', which C++ code fills, has other values at other sizes, so it cannot be one. Make it with "
              "operators (torch::arange, torch::full) of the sizes");
    }
  out.graph = std::move(solved);
  out.reads.clear();
  out.places.clear();
  return out;
}

// --- training flags --------------------------------------------------------------------------------------------------

/// A module that does what a dropout operator does; null for any other operator.
FXX_INLINE std::shared_ptr<torch::nn::Module> dropout_module(const Node& node) {
  const Operator& op = *node.operation();
  const std::string_view name = op.name;
  const bool in_place = name.ends_with("_");
  const int at = op.index_of("p");
  if (at < 0) return nullptr;
  const Argument p = argument_or_default(node, op, at);
  if (!p.is_number()) return nullptr;
  const auto options = torch::nn::DropoutOptions(p.number()).inplace(in_place);
  const auto is = [&](std::string_view base) {
    return op.base_name() == base || (in_place && op.base_name().substr(0, op.base_name().size() - 1) == base);
  };
  if (is("dropout")) return torch::nn::Dropout(options).ptr();
  if (is("alpha_dropout")) return torch::nn::AlphaDropout(options).ptr();
  if (is("feature_alpha_dropout")) return torch::nn::FeatureAlphaDropout(options).ptr();
  if (is("feature_dropout")) return torch::nn::Dropout2d(options).ptr();
  return nullptr;
}

/// Lets dropout be the call of a module again, whose flag follows train() and eval(). `uses` are those of the recorded
/// operators, before they were put together.
FXX_INLINE void follow_training_flags(const TracedCode& code, Recording& recorded, const std::vector<FlagUse>& uses,
                                      FurtherRuns* runs, std::vector<std::string>& notes) {
  const ModuleOwner& owner = code.owner;
  Graph& graph = recorded.graph;
  std::map<std::string_view, Node*> open;
  for (Node* node : graph.nodes())
    if (node->opcode() == Opcode::call_function && node->operation() && flag_parameter(*node->operation()) >= 0)
      open.emplace(node->name(), node);
  if (open.empty()) return;
  std::vector<FlagOwner> owners(uses.size(), {FlagOwner::Kind::unknown});
  std::string why = "the code is no module's, so nothing says whose flag it is";
  if (runs) {
    try {
      FlagOwners found = find_flag_owners(code.root, owner, uses, [&] { return flag_uses((*runs)()); });
      owners = std::move(found.of_uses);
      if (found.own_train)
        notes.push_back(
            "trace: train() of the module leaves some training flags as they are; GraphModule::train() sets them all, "
            "so parts that stay frozen have to be put in eval mode after it");
      why = "it is made of several training flags";
    } catch (const TraceError& error) {
      why = error.what();
    } catch (const std::exception& error) {
      const auto* torch = dynamic_cast<const c10::Error*>(&error);
      why = "the code fails when it is run with other training flags: " +
            std::string(torch ? torch->what_without_backtrace() : error.what()).substr(0, 200);
    }
  }
  std::map<std::string, std::string, std::less<>> calls;
  std::size_t made = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto found = open.find(uses[i].name);
    if (found == open.end() || owners[i].kind == FlagOwner::Kind::literal) continue;
    Node* node = found->second;
    if (owners[i].kind == FlagOwner::Kind::module) {
      const ModuleInfo* info = owner.find_module(owners[i].module);
      if (info && info->operation && *info->operation == *node->operation()) {
        calls.emplace(node->name(), owners[i].module);
        continue;
      }
      // A functional call that is given a module's flag: a module of its own beside it has the same.
      if (std::shared_ptr<torch::nn::Module> dropout = dropout_module(*node)) {
        const std::string path = owners[i].module.empty() ? "" : owners[i].module + ".";
        std::string name;
        do name = path + "_dropout" + std::to_string(made++);
        while (owner.find_module(name));
        dropout->train(uses[i].value);
        recorded.constants.emplace(name, std::move(dropout));
        const Argument input = node->arg(0);
        node->set_op(CallModule{name});
        node->set_args_kwargs({input}, {});
        continue;
      }
    }
    notes.push_back("trace: the training flag of " + format_node(*node) + " stays " +
                    (uses[i].value ? "true" : "false") + " whatever train() and eval() say: " + why);
  }
  reroll_modules(graph, owner, calls);
  for (const Node* node : graph.nodes())
    if (const auto call = calls.find(node->name()); call != calls.end() && node->opcode() == Opcode::call_function &&
                                                    node->operation() && flag_parameter(*node->operation()) >= 0)
      notes.push_back("trace: the training flag of " + format_node(*node) +
                      " stays what it is whatever train() and eval() say: the operators around it are not those of a "
                      "call of '" +
                      call->second + "'");
}

}  // namespace detail

FXX_INLINE std::string TraceReport::to_string() const {
  std::string text;
  for (const Size& size : sizes) text += detail::describe_size(size) + "\n";
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

FXX_INLINE std::shared_ptr<GraphModule> detail::trace_module(torch::nn::Module& root, bool is_module,
                                                             const RunTraced& run, std::vector<at::Tensor> inputs,
                                                             const TraceOptions& options) {
  const ModuleOwner owner(root, class_name_of(root));
  const std::vector<std::string> names = input_names(options.input_names, inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined())
      throw TraceError(ErrorId::unsupported_argument,
                       "trace: input '" + names[i] +
                           "' is an undefined tensor; give an example of it, or trace a callable that calls forward "
                           "without it: [&](torch::Tensor x) { return net->forward(x, {}); }");
  const std::string type = owner.class_name();
  const TracingScope tracing(nullptr, type);
  TraceReport report;
  const TracedCode code{root, is_module, owner, run, names};
  const bool watch = options.strict || options.report;
  Recording recorded =
      options.dynamic.empty()
          ? record_run(code, inputs,
                       {.places = options.record_stack_traces, .reads = watch, .freeze_random = options.freeze_random})
          : record_dynamic(code, inputs, options);
  write_stack_traces(recorded.places);
  Graph& graph = recorded.graph;
  std::optional<FurtherRuns> runs;
  if (code.is_module && options.training_flags) runs.emplace(code, inputs, recorded, options);
  if (options.dynamic.empty()) {
    refuse_registered(code);
    recorded.notes = notes_of(code, graph, recorded, options, runs ? &*runs : nullptr);
  }
  report.notes = std::move(recorded.notes);
  if (watch) {
    report.sizes = sizes_read(graph, recorded.reads);
    if (options.strict && !options.report) refuse_baked(report.sizes);
  }
  const std::vector<FlagUse> uses = flag_uses(graph);
  fold_filled_lists(graph, owner, recorded.constants);
  copy_written_constants(graph, recorded.constants);
  if (options.reroll_operators) rules::reroll.apply(graph);
  if (options.leaf_modules) {
    reroll_modules(graph, owner);
    reroll_recurrent(graph, owner);
  }
  if (options.leaf_modules && options.training_flags && !uses.empty()) {
    follow_training_flags(code, recorded, uses, runs ? &*runs : nullptr, report.notes);
  }
  // Left over: memory that became a constant, reads that re-rolling made needless.
  erase_unread_memory(graph);
  for (Node* node : graph.nodes().reversed()) {
    const bool memory = node->operation() && node->operation()->base_name() == "empty";
    if ((memory || node->opcode() == Opcode::get_attr) && node->num_users() == 0) graph.erase_node(node);
  }
  if (std::string note = is_module ? unregistered_parameters(graph, recorded.constants) : ""; !note.empty())
    report.notes.push_back(std::move(note));
  if (options.check_mutable_operations)
    for (const Node* node : graph.nodes())
      if (const Operator* op = operator_of(*node); op && op->mutates)
        throw TraceError(ErrorId::mutable_operation,
                         "trace: '" + std::string(op->name) +
                             "' writes to its argument, which check_mutable_operations refuses; use the operator that "
                             "gives a new tensor",
                         {format_node(*node), node->source(), type});
  if (options.report) *options.report = std::move(report);
  else
    for (const std::string& note : report.notes) TORCH_WARN(note);
  return std::make_shared<GraphModule>(owner, root.is_training(), std::move(graph), recorded.constants);
}

}  // namespace fxx::inline FXX_ABI
