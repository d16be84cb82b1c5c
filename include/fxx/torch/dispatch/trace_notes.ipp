// Bodies of torch/dispatch/trace_notes.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/replay.hpp"
#include "fxx/torch/dispatch/script_watch.hpp"
#include "fxx/torch/dispatch/trace_notes.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI::detail {

// --- sizes that became numbers ---------------------------------------------------------------------------------------

FXX_INLINE bool holds(const Argument& argument, std::int64_t size) {
  if (argument.is_number()) return argument.number() == static_cast<double>(size);
  if (!argument.is_sequence()) return false;
  return std::any_of(argument.items().begin(), argument.items().end(),
                     [&](const Argument& item) { return holds(item, size); });
}

/// May the number be a size, or made of one? Sizes where there are sizes, and numbers to compute with: x / x.size(0).
FXX_INLINE bool may_be_size(const Operator& op, const Parameter& parameter) {
  // Numbers that never are.
  static const std::unordered_set<std::string_view> others = {"axis",
                                                              "axis0",
                                                              "axis1",
                                                              "blank",
                                                              "compute_mode",
                                                              "correction",
                                                              "decimals",
                                                              "dim",
                                                              "dim0",
                                                              "dim1",
                                                              "dim2",
                                                              "dimension",
                                                              "dims",
                                                              "dims_other",
                                                              "end_dim",
                                                              "dims_self",
                                                              "destination",
                                                              "dilation",
                                                              "group",
                                                              "groups",
                                                              "interpolation_mode",
                                                              "mode",
                                                              "num_groups",
                                                              "num_layers",
                                                              "output_padding",
                                                              "padding",
                                                              "padding_idx",
                                                              "padding_mode",
                                                              "pow",
                                                              "reduction",
                                                              "source",
                                                              "start_dim",
                                                              "upscale_factor",
                                                              "downscale_factor",
                                                              "stride"};
  // The window of a pooling over all there is.
  if (parameter.name == "kernel_size") return op.base_name().starts_with("avg_pool");
  // Of memory (as_strided), not of a window.
  if (parameter.name == "stride" && op.index_of("size") >= 0) return true;
  const ValueType base = parameter.type.base;
  return base == ValueType::scalar || (base == ValueType::integer && !others.contains(parameter.name));
}

FXX_INLINE std::vector<TraceReport::Size> sizes_read(const Graph& graph, const Graph& now,
                                                     const std::vector<TracedRead>& reads) {
  struct Use {
    const Node* node;
    std::uint32_t index;  // when it was recorded
    const Parameter* parameter;
    const Argument* value;
  };
  std::unordered_map<std::string_view, std::uint32_t> indices;
  for (const Node* node : graph.nodes()) indices.emplace(node->name(), node->index());
  std::vector<Use> uses;
  for (const Node* node : now.nodes()) {
    const auto index = indices.find(node->name());
    if (node->opcode() != Opcode::call_function || !node->operation() || index == indices.end()) continue;
    const Operator& op = *node->operation();
    const auto add = [&](const Parameter& parameter, const Argument& value) {
      if (may_be_size(op, parameter)) uses.push_back({node, index->second, &parameter, &value});
    };
    for (std::size_t i = 0; i < node->args().size(); ++i) add(op.parameters[i], node->args()[i]);
    for (const KeywordArgument& k : node->kwargs())
      if (const int i = op.index_of(k.key); i >= 0) add(op.parameters[static_cast<std::size_t>(i)], k.value);
  }
  std::vector<TraceReport::Size> sizes;
  std::map<std::string, std::size_t> known;  // the same size asked for at the same place is one
  std::vector<const Backtrace*> backtraces;
  for (const TracedRead& read : reads) backtraces.push_back(&read.where);
  const std::vector<std::vector<Frame>> frames = user_frames(backtraces);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const TracedRead& read = reads[i];
    if (read.implied) continue;
    TraceReport::Size size;
    size.size = read.value;
    size.source = user_place(frames[i]);
    size.value = std::string(read.node->name()) + (read.item < 0 ? "" : "[" + std::to_string(read.item) + "]") +
                 (read.of == TracedRead::Of::numel
                      ? ".numel()"
                      : (read.of == TracedRead::Of::size ? ".size(" : ".stride(") + std::to_string(read.dim) + ")");
    const auto [at, fresh] = known.emplace(size.value + " " + size.source, sizes.size());
    if (!fresh) continue;
    // A factor of 2 is no size, though, nor is a stride of 1 a size of 1.
    const bool small = read.value <= 2;
    for (const Use& use : uses)
      if (!read.varies && use.index >= read.nodes_before &&
          (!small || (use.parameter->type.symbolic && read.of != TracedRead::Of::stride)) &&
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
  if (reads.empty()) return {};
  const std::vector<TraceReport::Size> sizes = sizes_read(graph, graph, reads);
  if (sizes.empty()) return {};
  std::string list;
  for (std::size_t i = 0; i < sizes.size() && i < 4; ++i) list += (i ? "; " : "") + describe_size(sizes[i]);
  if (sizes.size() > 4) list += "; and " + std::to_string(sizes.size() - 4) + " more";
  return "trace: the code reads sizes that the elements of tensors decide: " + list +
         ". The graph keeps what the code made of them, for other elements too. Use operators that need no such size "
         "(masked_fill, torch::where, -1 in view)";
}

// --- what modules do -------------------------------------------------------------------------------------------------

FXX_INLINE std::string unregistered_parameters(const Graph& graph, const TracedConstants& constants, bool is_module) {
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
         list +
         (is_module ? ". Register them with register_module or register_parameter"
                    : ". Pass their module beside the callable: trace(net, [&](torch::Tensor x) { return "
                      "net->forward(x, 2.0); }, {x})");
}

FXX_INLINE void refuse_registered(const TracedCode& code) {
  if (!code.is_module || code.owner.knows_tensors_of(code.root)) return;
  const ModuleOwner now(code.root);
  for (const ModuleOwner::Tensor& entry : now.tensors())
    if (!code.owner.tensor(entry.name).is_same(entry.tensor))
      throw TraceError(ErrorId::module_changed,
                       "trace: forward registers '" + entry.name +
                           "' or replaces it, so the graph would make it anew in every run. Run the module once before "
                           "it is traced, or register it in the constructor",
                       {{}, {}, traced_modules()});
}

/// Where a run did something else than the one that counts: empty texts when it did the same.
struct Difference {
  std::string here, there;  // "%relu : ...", "nothing"
};
FXX_INLINE Difference difference(const Graph& graph, const Recording& run, const Recording& other,
                                 const TraceOptions& options) {
  const auto text = [](const Node* node) { return node ? format_node(*node) : "nothing"; };
  if (const auto [here, there] = first_difference(graph, other.graph); here || there) return {text(here), text(there)};
  if (options.freeze_random) return {};  // such constants are others in every run
  for (const auto& [name, value] : run.constants)
    if (const auto found = other.constants.find(name);
        found != other.constants.end() && !same_constant(value, found->second))
      return {"the constant '" + name + "'", "one of other values"};
  return {};
}

FXX_INLINE void refuse_script_state(const TracedCode& code, const std::vector<at::Tensor>& inputs, const Recording& run,
                                    const Graph& graph, const TraceOptions& options) {
  if (run.script_state.empty()) return;
  // What is written and never read, or set once, changes no results.
  if (!c10::impl::tls_is_dispatch_key_included(trace_key)) try {
      const ScriptWatch as_before;
      const ModuleState state(code.owner, graph, &run);
      const auto again = [&] {
        std::vector<at::Tensor> given;
        for (const at::Tensor& input : inputs) given.push_back(is_fake(input) ? input : copy_of(input));
        return record_run(code, std::move(given), {.freeze_random = options.freeze_random}, true);
      };
      const Recording first = again(), second = again();
      if (second.script_state.empty() && difference(first.graph, first, second, options).here.empty()) return;
    } catch (const std::exception&) {
      // The second run cannot go on from where the first one left.
    }
  throw TraceError(ErrorId::keeps_state,
                   "trace: the code keeps state from run to run: it gives the attribute " + run.script_state +
                       " another value in every run, and a graph would do in each what it did in this one. Make the "
                       "state an input and a result of forward, or a tensor that operators write to in place "
                       "(self.count.add_(1))",
                   {{}, {}, traced_modules()});
}

/// Empty, or what to tell of code that does something else in the other mode, or whenever it runs again. It runs once
/// more, in replay; where that differs with fake tensors, and where these do so too, in the mode that it is in. `place`:
/// the number of the note.
FXX_INLINE std::string other_runs(const TracedCode& code, const Graph& graph, Recording& run,
                                  const TraceOptions& options, FurtherRuns& runs, std::size_t place) {
  try {
    bool same = false;
    in_other_mode(code.root, [&](bool all_turned) {
      same = does_the_same(code, run, run.literal_flags);
      if (!same || !all_turned) run.literal_flags.clear();
    });
    if (same) return {};
    Recording other;
    in_other_mode(code.root, [&](bool) { other = runs.with_fakes(); });
    const Difference by_mode = difference(graph, run, other, options);
    if (by_mode.here.empty()) return {};
    if (const Difference again = difference(graph, run, runs.with_fakes(), options); !again.here.empty()) {
      run.member_state = again.here + " is " + again.there + " when it runs again";
      run.state_note = static_cast<int>(place);
      return "trace: the code does something else when it runs again: " + again.here + " is " + again.there +
             " then. The graph does in every run what the code did in this one; state belongs into registered buffers "
             "that operators write to, random numbers into operators";
    }
    const std::string now = code.root.is_training() ? "train" : "eval",
                      then = code.root.is_training() ? "eval" : "train";
    return "trace: the code asks whether it trains: " + by_mode.here + " in " + now + " mode is " + by_mode.there +
           " in " + then + " mode. The graph is that of " + now +
           " mode, whatever train() and eval() say; trace once in each mode";
  } catch (const std::exception&) {
    run.literal_flags.clear();
    return {};  // the other mode cannot be traced, so nobody uses it; or not with fake tensors
  }
}

FXX_INLINE std::vector<std::string> notes_of(const TracedCode& code, const Graph& graph, Recording& run,
                                             const TraceOptions& options, FurtherRuns* runs) {
  std::vector<std::string> notes;
  const auto note = [&](std::string text) {
    if (!text.empty()) notes.push_back(std::move(text));
  };
  const std::string sizes = sizes_of_elements(graph, run.reads);
  if (options.strict && !options.report && !sizes.empty()) throw TraceError(ErrorId::sizes_baked, sizes);
  note(sizes);
  if (!run.kept.empty()) {
    run.state_note = static_cast<int>(notes.size());
    note("trace: the code holds on to " + run.kept +
         " after the run, in members or globals. If its next run goes on from there, the graph does not: it starts as "
         "this run did. State belongs into registered buffers that operators write to");
  }
  if (run.seeded)
    note(
        "trace: the code seeds the generator of random numbers (torch::manual_seed), which the graph does not. Seed "
        "it before the graph runs");
  // Under a trace around this one, further runs would be recorded there.
  if (runs && run.kept.empty() && !c10::impl::tls_is_dispatch_key_included(trace_key))
    note(other_runs(code, graph, run, options, *runs, notes.size()));
  return notes;
}

}  // namespace fxx::inline FXX_ABI::detail
