// Which ways of computing steps are faster here, found by running them; for torch/compile.ipp.
#pragma once

#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "fxx/codegen/alternatives.hpp"
#include "fxx/codegen/trials.hpp"
#include "fxx/runtime/identity.hpp"
#include "fxx/runtime/notebook.hpp"
#include "fxx/torch/compile/call.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Where the ways are kept that were found with this compiler, these flags, kernels, processor and number of threads.
FXX_INLINE Notebook notebook_for(const CompileOptions& options, int threads) {
  std::string key = "fxx ways 1\n" FXX_VERSION_TEXT "\n" TORCH_VERSION "\n" + Toolchain::find().identity() + "\n";
  const BuildRequest request = request_for({}, options);
  for (const auto& words : {request.flags, request.extra})  // the latter tell the kernels apart
    for (const std::string& word : words) key += word + "\n";
  key += processor_identity() + std::to_string(threads);
  return Notebook(cache_of(options).folder() + "/ways-" + wide_hash(key).substr(0, 16));
}

/// "8x3 (12.1 us instead of 13.5)".
FXX_INLINE std::string note_of(const plans::Way& way, double seconds, double estimated) {
  char text[64];
  if (way == plans::Way{}) std::snprintf(text, sizeof text, " (%.3g us)", seconds * 1e6);
  else std::snprintf(text, sizeof text, " (%.3g us instead of %.3g)", seconds * 1e6, estimated * 1e6);
  return way.to_string() + text;
}
FXX_INLINE plans::Way way_of_note(std::string_view note) {
  return way_of_text(note.substr(0, note.find(" ("))).value_or(plans::Way{});
}

/// Bytes that are read between two calls of a step: weights, and what lies between steps.
FXX_INLINE std::int64_t bytes_of_call(const KernelPlan& plan) {
  std::int64_t bytes = plan.arena_bytes;
  for (const plans::Buffer& buffer : plan.buffers)
    if (buffer.kind != plans::Buffer::Kind::arena) bytes += buffer.bytes();
  return bytes;
}
/// More than caches hold.
FXX_INLINE std::int64_t bytes_of_no_cache() {
  const long last = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::clamp<std::int64_t>(2 * static_cast<std::int64_t>(last), 64 << 20, 512 << 20);
}

}  // namespace detail

FXX_INLINE std::vector<double> CompiledModule::seconds_of(TrialPlan trials, const CompileOptions& options) {
  take(std::move(trials.plan), options);
  // Inputs and outputs of the trials, which run one after the other, have the same memory.
  const Memory reals(static_cast<std::size_t>(trials.input_bytes)),
      others(static_cast<std::size_t>(trials.input_bytes)), results(static_cast<std::size_t>(trials.output_bytes));
  auto* const numbers = static_cast<float*>(reals.data);
  for (std::size_t i = 0; i < reals.size / sizeof(float); ++i) numbers[i] = 0.25f + static_cast<float>(i % 61) / 64;
  if (others.size > 0) std::memset(others.data, 0, others.size);
  if (results.size > 0) std::memset(results.data, 0, results.size);
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < trials.input_at.size(); ++i) {
    const auto buffer = static_cast<std::size_t>(kernels_.inputs[i].buffer);
    const Memory& memory = kernels_.buffers[buffer].dtype == Dtype::float32 ? reals : others;
    inputs.push_back(static_cast<const unsigned char*>(memory.data) + trials.input_at[i]);
  }
  for (const std::int64_t at : trials.output_at) outputs.push_back(static_cast<unsigned char*>(results.data) + at);

  Observer observer;
  std::vector<std::int64_t>& times = observer.times;
  times.resize(kernels_.steps.size() + 1);
  std::vector<double> least(trials.trials.size(), std::numeric_limits<double>::infinity());
  const auto seconds_since = [](std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  run_kernels(inputs.data(), outputs.data(), nullptr, &observer);
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; turn < 12 && (turn < 3 || seconds_since(start) < 6); ++turn) {
    run_kernels(inputs.data(), outputs.data(), nullptr, &observer);
    for (std::size_t i = 0; i < least.size(); ++i) {
      std::int64_t took = 0;
      for (const int step : trials.trials[i].steps)
        took += times[static_cast<std::size_t>(step) + 1] - times[static_cast<std::size_t>(step)];
      least[i] = std::min(least[i], static_cast<double>(took) * 1e-9);
    }
  }
  return least;
}

FXX_INLINE Notebook::Notes CompiledModule::measured(const KernelPlan& plan, const Graph& graph,
                                                    const LowerOptions& lowering, std::vector<TrialSite> sites,
                                                    const CompileOptions& options) {
  const int lanes = library_.symbol<const kernels::ModuleInfo>("fxx_module")->lanes;
  const Target target{.lanes = lanes,
                      .threads = threads_,
                      .flops_per_byte = plan.weights_stay ? 0 : lowering.processor.flops_per_byte,
                      .accuracy = options.accuracy};
  LowerOptions tried = lowering;
  tried.weights_stay = plan.weights_stay;
  const std::int64_t call = detail::bytes_of_call(plan), most = detail::bytes_of_no_cache();
  Notebook::Notes notes;
  for (std::size_t next = 0; next < sites.size();) {
    // A library of some trials, which hold their weights all at once.
    std::vector<TrialSite> some;
    double bytes = 0;
    for (std::size_t ways = 0; next < sites.size() && ways < 200 && bytes < 1 << 30; ++next) {
      const auto step = std::ranges::find(plan.steps, sites[next].shape, &KernelStep::shape);
      sites[next].ways = alternatives(*step, target);
      ways += sites[next].ways.size();
      bytes += step->bytes * static_cast<double>(sites[next].ways.size());
      some.push_back(std::move(sites[next]));
    }
    TrialPlan trials = trial_plan(graph, prepared_->owner(), tried, some, std::min(call, most), call >= most);
    const std::vector<Trial> of = trials.trials;
    const std::vector<double> seconds = seconds_of(std::move(trials), options);
    for (std::size_t s = 0; s < some.size(); ++s) {
      double estimated = std::numeric_limits<double>::infinity(), least = estimated;
      plans::Way best;
      for (std::size_t i = 0; i < of.size(); ++i) {
        if (of[i].site != s) continue;
        const plans::Way& way = some[s].ways[of[i].way];
        if (way == plans::Way{}) estimated = seconds[i];
        if (seconds[i] >= least) continue;
        least = seconds[i];
        best = way;
      }
      // What is hardly better may be so by chance.
      if (least > 0.97 * estimated) {
        best = {};
        least = estimated;
      }
      notes.emplace(some[s].shape, detail::note_of(best, least, estimated));
    }
  }
  return notes;
}

FXX_INLINE std::string CompiledModule::proven(const KernelPlan& plan, const Graph& graph, LowerOptions lowering,
                                              const std::vector<at::Tensor>& example_inputs,
                                              const CompileOptions& options) {
  // What the interpreter says of examples that cannot run names the node, and verify would say it later where no way is
  // better than the estimated one.
  {
    const at::NoGradGuard no_grad;
    GraphModule::run_flat({example_inputs.begin(), example_inputs.end()});
  }
  // Steps by the shape that they have without tuning: what computes these nodes belongs to it.
  std::map<std::string, std::string, std::less<>> shape_of_node;
  for (const KernelStep& step : plan.steps)
    for (const auto& nodes : {step.nodes, step.joinable})
      for (const Node* node : nodes)
        if (!step.shape.empty()) shape_of_node[std::string(node->name())] = step.shape;
  struct Timed {
    double all = 0;
    std::map<std::string, double, std::less<>> shapes;
  };
  const auto timed = [&](const KernelPlan& of) {
    take(of, options);
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> seconds = profile(example_inputs, 3);
    const double call = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 3;
    const std::vector<double> more = profile(example_inputs, std::clamp(static_cast<int>(0.2 / call), 5, 200));
    Timed result;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const double least = std::min(seconds[i], more[i]);
      result.all += least;
      std::string shape;
      for (const Node* node : kernels_.steps[i].nodes)
        if (const auto known = shape_of_node.find(node->name()); known != shape_of_node.end()) shape = known->second;
      result.shapes[shape] += least;
    }
    return result;
  };
  // In turns, since others may use the processor meanwhile.
  const auto compared = [&](const KernelPlan& other) {
    Timed before = timed(plan), after = timed(other);
    for (auto* which : {&before, &after}) {
      Timed again = timed(which == &before ? plan : other);
      which->all = std::min(which->all, again.all);
      for (auto& [shape, seconds] : which->shapes) seconds = std::min(seconds, again.shapes[shape]);
    }
    return std::pair(before, after);
  };
  constexpr double noise = 1.005;
  const auto [before, after] = compared(lower(graph, prepared_->owner(), lowering));
  std::string dropped;
  double lost = 0;
  for (const auto& [shape, seconds] : after.shapes) {
    const auto way = lowering.ways.find(shape);
    const auto known = before.shapes.find(shape);
    if (way == lowering.ways.end() || known == before.shapes.end()) continue;
    if (seconds <= known->second * noise) continue;
    lost += seconds - known->second;
    dropped += (dropped.empty() ? "" : "|") + shape;
    lowering.ways.erase(way);
  }
  if (after.all <= before.all * noise && lost < 0.005 * after.all) return "all";
  if (lowering.ways.empty() || dropped.empty()) return "none";
  const auto [untuned, rest] = compared(lower(graph, prepared_->owner(), lowering));
  if (rest.all <= untuned.all * noise) return "all but " + dropped;
  return after.all <= before.all * noise ? "all" : "none";
}

FXX_INLINE KernelPlan CompiledModule::tuned(KernelPlan plan, const Graph& graph, LowerOptions lowering,
                                            const std::vector<at::Tensor>& example_inputs,
                                            const CompileOptions& options) {
  std::vector<TrialSite> sites = trial_sites(plan);
  if (sites.empty()) return plan;
  const Notebook notebook = detail::notebook_for(options, threads_);
  Notebook::Notes notes = notebook.read();
  std::vector<TrialSite> unknown;
  for (const TrialSite& site : sites)
    if (!notes.contains(site.shape)) unknown.push_back(site);
  if (!unknown.empty()) {
    take(plan, options);
    // What was there before may be damaged by now.
    const Notebook::Notes before = std::move(notes);
    notes = notebook.add(measured(plan, graph, lowering, std::move(unknown), options));
    notes.insert(before.begin(), before.end());
  }
  std::string said;
  for (const TrialSite& site : sites)
    if (const plans::Way way = detail::way_of_note(notes.at(site.shape)); way != plans::Way{}) {
      lowering.ways[site.shape] = way;
      said += site.shape + "\t" + way.to_string() + "\n";
    }
  if (lowering.ways.empty()) return plan;
  if (!changes_something_) {  // what has an effect is not run more often than asked for
    const std::string key = "module " + wide_hash(specialised_source(plan, class_name()).text + said);
    const bool runs = std::ranges::none_of(example_inputs, [](const at::Tensor& tensor) { return is_fake(tensor); });
    if (runs && !notes.contains(key)) {
      try {
        notes = notebook.add({{key, proven(plan, graph, lowering, example_inputs, options)}});
      } catch (const OtherSizes&) {
        return plan;  // these examples are interpreted: there is no time of the kernels
      }
    }
    const auto found = notes.find(key);
    std::string_view note = found == notes.end() ? std::string_view() : std::string_view(found->second);
    if (note == "none") return plan;
    if (note.starts_with("all but "))
      for (note.remove_prefix(8); !note.empty(); note.remove_prefix(std::min(note.find('|'), note.size() - 1) + 1))
        if (const auto way = lowering.ways.find(note.substr(0, note.find('|'))); way != lowering.ways.end())
          lowering.ways.erase(way);
  }
  return lower(graph, prepared_->owner(), lowering);
}

}  // namespace fxx::inline FXX_ABI
