// Which module's training flag an operator's flag came from: dropout(x, p, train) alone does not say.
//
// The code is run again with other training flags, every module with a pattern of its own over the runs; the pattern
// that an operator's flag then shows names the module. With n modules that takes 2 log2(n) runs.
// Main names: FlagUse, flag_uses, find_flag_owners, TrainingFlags, in_other_mode. Cost: heavy (torch/nn/module.h), with
// the runs of the code.
#pragma once

#include <torch/nn/module.h>

#include <algorithm>
#include <functional>
#include <memory>
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

/// Training flags of a hierarchy, which are as they were afterwards; each on its own: Module::train() sets those below
/// too, so parents come first.
class TrainingFlags {
 public:
  explicit TrainingFlags(torch::nn::Module& root) : root_(&root), root_before_(root.is_training()) {
    for (const auto& item : root.named_modules({}, false))
      below_.push_back({item.value(), item.value()->is_training()});
  }
  TrainingFlags(const TrainingFlags&) = delete;
  TrainingFlags& operator=(const TrainingFlags&) = delete;
  ~TrainingFlags() {
    root_->train(root_before_);
    for (const auto& [module, before] : below_) module->train(before);
  }
  /// Were all that of the root?
  bool are_alike() const {
    return std::all_of(below_.begin(), below_.end(), [&](const auto& flag) { return flag.second == root_before_; });
  }
  /// `flag(module)` for every module. False when one has a train() of its own that does something else.
  template <class F>
  bool set(F&& flag) {
    root_->train(flag(root_));
    for (const auto& [module, before] : below_) own_train_ = own_train_ || module->is_training() != flag(root_);
    for (const auto& [module, before] : below_) module->train(flag(module.get()));
    bool as_asked = root_->is_training() == flag(root_);
    for (const auto& [module, before] : below_) as_asked = as_asked && module->is_training() == flag(module.get());
    return as_asked;
  }
  /// Did train() of the root leave other flags than it was asked for?
  bool own_train() const { return own_train_; }

 private:
  torch::nn::Module* root_;
  bool root_before_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> below_;
  bool own_train_ = false;
};

/// Calls `run` where the root and all below it are in the mode that the root is not in now, with whether that turned all
/// flags there are. They are as they were afterwards.
void in_other_mode(torch::nn::Module& root, const std::function<void(bool)>& run);

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
