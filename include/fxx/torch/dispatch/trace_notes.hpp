// What a trace fixed that the code computes: found, told, or refused.
//
// Main names: detail::sizes_read, notes_of, refuse_baked, refuse_registered, unregistered_parameters. Cost: heavy
// (torch/nn/module.h); some run the code again.
#pragma once

#include <string>
#include <vector>

#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/dispatch/traced_constants.hpp"
#include "fxx/torch/trace_options.hpp"

namespace fxx::inline FXX_ABI::detail {

/// What C++ asked for while `graph` was recorded, and where the answers turn up again among the sizes that operators of
/// `now` are called with: the same graph, or what was made of it, with its names.
std::vector<TraceReport::Size> sizes_read(const Graph& graph, const Graph& now, const std::vector<TracedRead>& reads);
/// "x.size(1) = 7, read by ..., is in %view(size)".
std::string describe_size(const TraceReport::Size& size);
/// Throws TraceError (E322) when the graph holds one of the sizes.
void refuse_baked(const std::vector<TraceReport::Size>& sizes);
/// The graph knows the module as it was before the run. Throws TraceError (E327) when the run gave it another parameter
/// or buffer.
void refuse_registered(const TracedCode& code);
/// Empty, or what to tell of constants that look like parameters: somebody forgot to register them, or traced a
/// callable without their module.
std::string unregistered_parameters(const Graph& graph, const TracedConstants& constants, bool is_module);
/// Throws TraceError (E328) when methods of TorchScript objects gave attributes other values, and these decide what later
/// runs do: the code runs twice then, which is undone.
void refuse_script_state(const TracedCode& code, const std::vector<at::Tensor>& inputs, const Recording& run,
                         const Graph& graph, const TraceOptions& options);
/// What else to tell of a run, whose graph may have moved on; finds its literal_flags. `runs`: null when the code is to
/// run no more. Throws TraceError (E322) for sizes that elements decide, under `strict`.
std::vector<std::string> notes_of(const TracedCode& code, const Graph& graph, Recording& run,
                                  const TraceOptions& options, FurtherRuns* runs);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/trace_notes.ipp"
#endif
