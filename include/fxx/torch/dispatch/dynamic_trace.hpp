// Graphs that hold for all sizes: the code is run at several, and the graphs are made one.
//
// Main names: detail::record_dynamic. Cost: heavy (torch/nn/module.h), with the runs of the code.
#pragma once

#include <vector>

#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/trace_options.hpp"

namespace fxx::inline FXX_ABI::detail {

/// The code's graph for all sizes of the dimensions that `options` declares, without reads or places; `report` gets the
/// sizes that C++ read and the notes on the run. `inputs` are then those of the run that counts, whose sizes the bounds
/// allow. Throws TraceError (E309, E310) when the graphs cannot be made one.
Recording record_dynamic(const TracedCode& code, std::vector<at::Tensor>& inputs, const TraceOptions& options,
                         TraceReport& report);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/dynamic_trace.ipp"
#endif
