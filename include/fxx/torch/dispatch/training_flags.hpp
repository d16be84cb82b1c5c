// Which module's training flag an operator's flag came from: dropout(x, p, train) alone does not say.
//
// The code is run again with other training flags, every module with a pattern of its own over the runs; the pattern
// that an operator's flag then shows names the module. With n modules that takes 2 log2(n) runs.
// Main names: FlagUse, flag_uses, find_flag_owners, in_other_mode. Cost: heavy (torch/nn/module.h), with the runs
// of the code.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI::detail {

/// What batch norm calls the buffer of its count.
inline constexpr std::string_view batch_count = "num_batches_tracked";

/// An argument of a recorded operator that says whether the code trains.
struct FlagUse {
  std::string name;  // of the node
  std::uint64_t operation;
  bool value;
};

/// In order of the nodes.
std::vector<FlagUse> flag_uses(const Graph& graph);
/// The position of the parameter that says whether the code trains; -1 when there is none.
int flag_parameter(const Operator& op);

struct FlagOwner {
  enum class Kind { literal, module, unknown };  // unknown: made of several flags, or turned around
  Kind kind = Kind::literal;
  std::string module = {};  // qualified; "" is the root
};

struct FlagOwners {
  std::vector<FlagOwner> of_uses;
  bool own_train = false;  // train() sets other flags than it is asked to: parts stay frozen
};

/// For each use where its value comes from. `record()` runs the code and returns the uses of that run. Flags are as
/// they were afterwards. Throws TraceError (E326) when flags cannot be told from each other, and what `record` throws.
FlagOwners find_flag_owners(torch::nn::Module& root, const ModuleOwner& owner, const std::vector<FlagUse>& uses,
                            const std::function<std::vector<FlagUse>()>& record);

/// Calls `run` where the root and all below it are in the mode that the root is not in now. Flags are as they were
/// afterwards.
void in_other_mode(torch::nn::Module& root, const std::function<void()>& run);

/// Does the operator add one to the batches that a batch norm has seen, which it does while it trains? The graph has
/// that by the module.
bool counts_batches(const Node& node);

/// The first nodes that are not the same in both but for training flags and the counting of batches; null where one
/// graph has ended, both when there are none.
std::pair<const Node*, const Node*> first_difference(const Graph& a, const Graph& b);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/training_flags.ipp"
#endif
