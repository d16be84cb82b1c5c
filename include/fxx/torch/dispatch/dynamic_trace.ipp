// Bodies of torch/dispatch/dynamic_trace.hpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

// after the tensor's own header
#include <ATen/ops/contiguous_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/index_select_ops.h>

#include <optional>

#include "fxx/error.hpp"
#include "fxx/torch/dispatch/dynamic_trace.hpp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/size_probe.hpp"
#include "fxx/torch/dispatch/trace_notes.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/trace/sizes.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI::detail {

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
  const at::Tensor other = at::_ops::index_select::call(input, dim, index);
  // Code may ask for the layout, which is the same at all sizes.
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? other : at::_ops::contiguous::call(other, format);
}

/// With the values that they have now: C++ may fill the same memory again, at other sizes.
FXX_INLINE TracedConstants with_values_of_now(TracedConstants constants) {
  for (auto& [name, constant] : constants)
    if (auto* tensor = std::get_if<at::Tensor>(&constant); tensor && !traced(*tensor) && tensor->has_storage())
      *tensor = copy_of(*tensor);
  return constants;
}

FXX_INLINE Recording record_dynamic(const TracedCode& code, std::vector<at::Tensor>& inputs,
                                    const TraceOptions& options, TraceReport& report) {
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
  TracedConstants first_constants;
  const auto add = [&](Recording recording, const SizeSet& sizes) {
    recordings.push_back(std::move(recording));
    if (recordings.size() == 1) first_constants = with_values_of_now(recordings[0].constants);
    SizedTrace trace{std::move(recordings.back().graph), sizes, {}, true};
    for (const TracedRead& r : recordings.back().reads)
      if (r.of == TracedRead::Of::size) trace.reads.push_back({r.node, r.item, r.dim, r.value});
    traces.push_back(std::move(trace));
  };
  const auto record = [&](const SizeSet& sizes) {
    std::vector<at::Tensor> sized = inputs;
    for (std::size_t i = 0; i < options.dynamic.size(); ++i) {
      at::Tensor& input = sized[options.dynamic[i].input];
      input = resized(input, dims[i], sizes[which[i]]);
    }
    // The code may write to its inputs: the caller's see the first run alone.
    if (recordings.empty()) first_inputs = sized;
    else
      for (std::size_t i = 0; i < sized.size(); ++i)
        if (sized[i].is_same(inputs[i]) && !traced(sized[i])) sized[i] = copy_of(sized[i]);
    add(record_run(code, std::move(sized), {.places = true, .reads = true, .freeze_random = options.freeze_random}),
        sizes);
  };
  // Further runs start from the members that the first one had, so that a count of calls is the same in all of them.
  const std::function<void()> members_before = code.take_members ? code.take_members() : nullptr;
  std::optional<MemberState> members_after;
  const auto record_again = [&](const SizeSet& sizes) {
    if (members_before) members_before();
    record(sizes);
  };
  const std::vector<SizeSet> first{given};
  for (const SizeSet& sizes : sizes_to_trace(options.dynamic, first)) {
    if (traces.empty()) {
      record(sizes);
      refuse_registered(code);
      std::optional<FurtherRuns> runs;
      if (code.is_module && options.training_flags)
        runs.emplace(code, first_inputs, recordings[0], traces[0].graph, options.freeze_random);
      report.notes = notes_of(code, traces[0].graph, recordings[0], options, runs ? &*runs : nullptr);
      runs.reset();
      members_after.emplace(code);
      continue;
    }
    // The first run is the one that counts; what the others do to the module is undone.
    const ModuleState state(code.owner, traces[0].graph, &recordings[0]);
    try {
      record_again(sizes);
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
    const ModuleState state(code.owner, traces[0].graph, &recordings[0]);
    try {
      record_again(sizes);
    } catch (const TraceError&) {
      throw;
    } catch (const std::exception&) {
      // The code refuses that size, so the graph need not hold for it.
    }
  }
  // Tests of expressions are large, and only shapes count: fake tensors, where the code takes them.
  const auto with_fakes = [&](const SizeSet& sizes) {
    // The whole run is in the scope: what the code makes from sizes alone (a mask of n * n) would be real otherwise.
    const FakeScope on;
    std::vector<at::Tensor> given;
    for (std::size_t i = 0; i < first_inputs.size(); ++i) {
      const at::Tensor& input = first_inputs[i];
      std::vector<std::int64_t> shape = input.sizes().vec();
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (options.dynamic[d].input == i) shape[static_cast<std::size_t>(dims[d])] = sizes[which[d]];
      given.push_back(at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(shape), input.scalar_type(),
                                                          at::kStrided, input.device(), std::nullopt,
                                                          input.suggest_memory_format()));
    }
    return record_run(code, std::move(given), {.places = true, .reads = true, .freeze_random = options.freeze_random});
  };
  std::optional<bool> takes_fakes;
  std::vector<SizeSet> refused;  // by the code, or too large to be run with real tensors
  const auto test = [&](const SizeSet& sizes) {
    const ModuleState state(code.owner, traces[0].graph, &recordings[0]);
    if (members_before) members_before();
    try {
      if (!takes_fakes) {
        // Under a trace around this one, fake runs would be recorded there.
        takes_fakes = false;
        if (recordings[0].kept.empty() && !c10::impl::tls_is_dispatch_key_included(trace_key)) {
          const Recording again = with_fakes(traces[0].sizes);
          takes_fakes = differing(traces[0].graph, again.graph, recordings[0], again).empty();
          if (members_before) members_before();
        }
      }
    } catch (const std::exception&) {
    }
    try {
      if (*takes_fakes) return add(with_fakes(sizes), sizes);
      constexpr double most_work = 10, always = 1100;
      double work = 1, elements = 1;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        work *= static_cast<double>(sizes[i]) / static_cast<double>(std::max<std::int64_t>(traces[0].sizes[i], 1));
        elements *= static_cast<double>(sizes[i]);
      }
      if (work <= most_work || elements <= always) return record(sizes);
    } catch (const std::exception&) {
      // The code refuses that size, so the graph need not hold for it.
    }
    refused.push_back(sizes);
  };
  const auto with_lines = [&](auto solve) {
    try {
      return solve();
    } catch (const TraceError&) {
      // Symbols are looked up only now that somebody reads them.
      std::vector<std::pair<Node*, Backtrace>> places;
      for (const Recording& r : recordings) places.insert(places.end(), r.places.begin(), r.places.end());
      write_stack_traces(places);
    }
    try {
      return solve();
    } catch (const TraceError& error) {
      std::string kept;
      for (const Recording& r : recordings)
        if (kept.empty()) kept = r.kept;
      if (kept.empty()) throw;
      const std::string what = error.what();
      throw TraceError(error.id(),
                       "trace: forward keeps " + kept +
                           ", made by one run, for the next: a later run, at other sizes, takes the cached tensor "
                           "instead of making its own, so the traces differ. Make the tensor in every run, or before "
                           "the trace for the largest size, and slice it. The first difference: " +
                           what.substr(0, what.find("; one graph has one course")));
    }
  };
  for (;;) {
    const auto more = with_lines([&] { return more_sizes_to_trace(traces, options.dynamic, refused); });
    if (more.empty()) break;
    for (const SizeSet& sizes : more) test(sizes);
  }
  if (options.record_stack_traces) write_stack_traces(recordings[0].places);
  Graph solved = with_lines([&] { return solve_sizes(traces, options.dynamic); });

  Recording out = std::move(recordings[0]);
  for (const auto& [name, value] : first_constants)
    for (std::size_t i = 1; i < recordings.size(); ++i) {
      const auto other = recordings[i].constants.find(name);
      if (other != recordings[i].constants.end() && same_constant(value, other->second)) continue;
      throw TraceError(
          ErrorId::traces_differ,
          "trace: the constant '" + name +
              "', which C++ code fills, has other values at other sizes, so it cannot be one. Make it with "
              "operators (torch::arange, torch::full) of the sizes");
    }
  for (const Recording& other : recordings)
    for (std::size_t i = 0; i < out.reads.size() && other.reads.size() == out.reads.size(); ++i)
      if (other.reads[i].value != out.reads[i].value) out.reads[i].varies = true;
  if (options.strict || options.report) report.sizes = sizes_read(traces[0].graph, solved, out.reads);
  if (options.strict) add_probed_sizes(code, first_inputs, traces[0].graph, out, options, report.sizes);
  inputs = std::move(first_inputs);
  out.graph = std::move(solved);
  out.reads.clear();
  out.places.clear();
  return out;
}

}  // namespace fxx::inline FXX_ABI::detail
