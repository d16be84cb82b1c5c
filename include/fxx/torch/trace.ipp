// Bodies of torch/trace.hpp.
#pragma once

#include <torch/nn/modules/dropout.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/torch/dispatch/dynamic_trace.hpp"
#include "fxx/torch/dispatch/size_probe.hpp"
#include "fxx/torch/dispatch/trace_notes.hpp"
#include "fxx/torch/dispatch/traced_constants.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"
#include "fxx/torch/recurrent.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A module that does what a dropout operator does; null for any other operator, and where LibTorch has none.
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
  // These two never work in place, whatever their options say.
  if (!in_place && is("alpha_dropout")) return torch::nn::AlphaDropout(options).ptr();
  if (!in_place && is("feature_alpha_dropout")) return torch::nn::FeatureAlphaDropout(options).ptr();
  if (is("feature_dropout")) {
    // Of an input of other dimensions each of these makes a batch of one first.
    const TensorMeta* input = node.arg(0).is_node() ? node.arg(0).node()->tensor_meta() : nullptr;
    if (input && input->dim() == 4) return torch::nn::Dropout2d(options).ptr();
    if (input && input->dim() == 5) return torch::nn::Dropout3d(options).ptr();
  }
  return nullptr;
}

/// Lets dropout be the call of a module again, whose flag follows train() and eval(). `uses` are those of the recorded
/// operators, before they were put together; `calls`: the nodes that have a flag of their own.
FXX_INLINE void follow_training_flags(const TracedCode& code, Recording& recorded, const std::vector<FlagUse>& uses,
                                      FurtherRuns* runs, std::map<std::string, std::string, std::less<>> calls,
                                      std::vector<std::string>& notes) {
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
      FlagOwners found = find_flag_owners(code.root, owner, uses, [&] { return flag_uses((*runs)().graph); });
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
    const std::string& whose = owners[i].module;
    notes.push_back("trace: the training flag of " + format_node(*node) + " stays " +
                    (uses[i].value ? "true" : "false") + " whatever train() and eval() say: " +
                    (owners[i].kind != FlagOwner::Kind::module
                         ? why
                         : "it is that of " + (whose.empty() ? "the module itself" : "'" + whose + "'") +
                               ", which does not call this operator as a module of torch::nn does. Use the module for "
                               "it, or trace once in each mode"));
  }
  reroll_modules(graph, owner, calls);
  for (const Node* node : graph.nodes())
    if (const auto call = calls.find(node->name());
        call != calls.end() && !call->second.empty() && node->opcode() == Opcode::call_function && node->operation() &&
        flag_parameter(*node->operation()) >= 0)
      notes.push_back("trace: the training flag of " + format_node(*node) +
                      " stays what it is whatever train() and eval() say: the operators around it are not those of a "
                      "call of '" +
                      call->second + "'");
}

/// May modules of the hierarchy have members of C++ that nobody puts back? LibTorch's own have none that a run changes.
FXX_INLINE bool may_keep_members(const torch::nn::Module& root, bool restored) {
  bool may = false;
  root.apply([&](const torch::nn::Module& module) {
    if (restored && &module == &root) return;
    may = may || !std::string_view(typeid(module).name()).starts_with("N5torch2nn");
  });
  return may;
}
FXX_INLINE std::string times_run(const TraceReport& report) {
  return "the code ran " + std::to_string(report.runs) + " times in the trace; " +
         (report.members_restored
              ? "what the further runs did was undone, but for what members of C++ point to"
              : "registered tensors are as after one run, and other members of C++, such as a count of calls, as after " +
                    std::to_string(report.runs) +
                    ". Those of a class that is a torch::nn::Cloneable are put back, and training_flags = false needs "
                    "one run alone");
}

/// Repeated calls of one leaf module get numbers in their frames; the dispatcher cannot see where a call begins.
FXX_INLINE void number_calls(Graph& graph) {
  std::map<std::string_view, std::uint32_t> calls;
  for (Node* node : graph.nodes()) {
    const auto* call = std::get_if<CallModule>(&node->op());
    const ModuleStack stack = node->module_stack();
    if (!call || stack.empty() || stack.innermost().name != call->target) continue;
    const std::uint32_t before = calls[call->target]++;
    if (before) node->set_module_stack(ModuleStack(stack.outer(), {call->target, stack.innermost().type, before}));
  }
}

}  // namespace detail

FXX_INLINE std::string TraceReport::to_string() const {
  std::string text;
  for (const Size& size : sizes) text += detail::describe_size(size) + "\n";
  for (const std::string& note : notes) text += note + "\n";
  if (runs > 1) text += detail::times_run(*this) + "\n";
  return text;
}

FXX_INLINE std::shared_ptr<GraphModule> detail::trace_module(torch::nn::Module& root, bool is_module,
                                                             const RunTraced& run_code,
                                                             std::vector<at::Tensor> inputs,
                                                             const TraceOptions& options,
                                                             const TakeMembers& take_members) {
  const ModuleOwner owner(root, class_name_of(root));
  const std::vector<std::string> names = input_names(options.input_names, inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined())
      throw TraceError(ErrorId::unsupported_argument,
                       "trace: input '" + names[i] +
                           "' is an undefined tensor; give an example of it, or pass a callable that does without it "
                           "beside the module: trace(net, [&](torch::Tensor x) { return net->forward(x, {}); }, {x})");
  const std::string type = owner.class_name();
  const TracingScope tracing(nullptr, type);
  TraceReport report;
  // Also of a trace that fails: the code has run by then.
  struct Told {
    const TraceOptions& options;
    TraceReport& report;
    const bool all_restored;
    bool is_told = false;
    ~Told() {
      if (is_told || !options.report) return;
      report.members_restored = report.runs <= 1 || all_restored;
      *options.report = std::move(report);
    }
  } told{options, report, is_module && !may_keep_members(root, take_members != nullptr)};
  const RunTraced run = [&](std::span<const at::Tensor> given) {
    ++report.runs;
    return run_code(given);
  };
  const TracedCode code{root, is_module, owner, run, names, take_members};
  const bool watch = options.strict || options.report;
  const bool is_dynamic = !options.dynamic.empty();
  Recording recorded = is_dynamic ? record_dynamic(code, inputs, options, report)
                                  : record_run(code, inputs,
                                               {.places = options.record_stack_traces,
                                                .reads = watch,
                                                .calls = code.is_module && options.training_flags,
                                                .freeze_random = options.freeze_random});
  write_stack_traces(recorded.places);
  Graph& graph = recorded.graph;
  refuse_script_state(code, inputs, recorded, graph, options);
  std::optional<FurtherRuns> runs;
  if (code.is_module && options.training_flags) runs.emplace(code, inputs, recorded, graph, options.freeze_random);
  if (!is_dynamic) {
    refuse_registered(code);
    report.notes = notes_of(code, graph, recorded, options, runs ? &*runs : nullptr);
    recorded.calls.reset();
    if (watch) report.sizes = sizes_read(graph, graph, recorded.reads);
    if (options.strict) add_probed_sizes(code, inputs, graph, recorded, options, report.sizes);
  }
  if (options.strict && !options.report) refuse_baked(report.sizes);
  const std::vector<FlagUse> uses = flag_uses(graph);
  fold_filled_lists(graph, owner, recorded.constants);
  copy_made_constants(graph, recorded.constants, recorded.written);
  if (options.reroll_operators) rules::reroll.apply(graph);
  if (options.leaf_modules) {
    std::map<std::string, std::string, std::less<>> own;
    for (const std::string& name : recorded.literal_flags) own.emplace(name, "");
    reroll_modules(graph, owner, own);
    reroll_recurrent(graph, owner, own);
    if (options.training_flags && !uses.empty())
      follow_training_flags(code, recorded, uses, runs ? &*runs : nullptr, std::move(own), report.notes);
  }
  // Left over: memory that became a constant, reads that re-rolling made needless.
  erase_unread_memory(graph);
  for (Node* node : graph.nodes().reversed()) {
    const bool memory = node->operation() && node->operation()->base_name() == "empty";
    if ((memory || node->opcode() == Opcode::get_attr) && node->num_users() == 0) graph.erase_node(node);
  }
  number_calls(graph);
  if (std::string note = unregistered_parameters(graph, recorded.constants, is_module); !note.empty())
    report.notes.push_back(std::move(note));
  if (is_module)
    if (std::string note = note_of_members(root, "trace", "the graph does so, too"); !note.empty())
      report.notes.push_back(std::move(note));
  if (options.check_mutable_operations)
    for (const Node* node : graph.nodes())
      if (const Operator* op = operator_of(*node); op && op->mutates)
        throw TraceError(ErrorId::mutable_operation,
                         "trace: '" + std::string(op->name) +
                             "' writes to its argument, which check_mutable_operations refuses; use the operator that "
                             "gives a new tensor",
                         {format_node(*node), node->source(), type});
  runs.reset();  // all is put back
  report.members_restored = report.runs <= 1 || told.all_restored;
  if (recorded.state_note >= 0 && report.runs > 1)
    report.notes[static_cast<std::size_t>(recorded.state_note)] += ". Besides, " + times_run(report);
  told.is_told = true;
  if (options.report) *options.report = std::move(report);
  else
    for (const std::string& note : report.notes) TORCH_WARN(note);
  auto made = std::make_shared<GraphModule>(owner, root.is_training(), std::move(graph), recorded.constants);
  made->set_kept_state(std::move(recorded.member_state));
  return made;
}

}  // namespace fxx::inline FXX_ABI
