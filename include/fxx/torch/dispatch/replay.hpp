// The code run again beside what it did in a run that was recorded, to see whether it does the same in another mode.
//
// No operator runs and no graph is made: as long as each call is the one that was recorded, what it gives is known to
// be of the same sizes. A call costs a tenth of what recording it with fake tensors does. The first call that is another
// ends the run.
// Main names: detail::does_the_same. Cost: heavy (torch/nn/module.h), with a run of the code.
#pragma once

#include <string>
#include <vector>

#include "fxx/torch/dispatch/recording.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Runs the code again, in whatever mode its module is now. True when it calls the operators that it called, with the
/// same arguments but for training flags and the counting of batches, and gives the same; and when the run fails by
/// itself. False when it does not, or when that cannot be told without running operators. `kept`: the names of the
/// recorded nodes whose training flag is the same this time.
bool does_the_same(const TracedCode& code, const Recording& run, std::vector<std::string>& kept);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/replay.ipp"
#endif
