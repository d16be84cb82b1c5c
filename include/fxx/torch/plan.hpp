// A graph made ready to run: operator handles looked up, immediates boxed, registers assigned, last uses known.
//
// What GraphModule runs on. A plan holds for one version of a graph, which outlives it, and is immutable, so threads
// may share it.
// Main names: Plan. Making one: O(nodes); running: the operators plus some ten nanoseconds a node; calls that have to
// be boxed cost 0.2 us.
// Cost: heavy (torch/nn/module.h, ATen/core/dispatch/Dispatcher.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/module_owner.hpp"
#include "fxx/torch/unboxed.hpp"

namespace fxx::inline FXX_ABI {

class Plan {
 public:
  /// Throws RunError (E702), naming the node, when something in the graph cannot be run.
  Plan(const Graph& graph, const ModuleOwner& owner);

  /// Runs the graph. Inputs beyond those with defaults must be there; throws RunError (E701) naming the input
  /// otherwise. Values are freed after their last use. What an operator throws gets the node that it came from.
  c10::IValue run(std::span<c10::IValue> inputs) const;

  std::size_t inputs() const { return inputs_.size(); }
  std::uint64_t version() const { return version_; }

 private:
  /// Where an argument comes from.
  struct Source {
    enum class Kind : std::uint8_t { constant, fresh, value, last_use, list, tuple, dict, index };
    Kind kind = Kind::constant;
    int at = -1;  // register of a value
    c10::IValue constant = {};
    Type type = {};  // of a list; of a parameter that a value is made to fit
    std::vector<Source> items = {};
    Argument argument = {};  // index: of getitem; fresh: a list or the like, made anew for each run
  };
  /// What runs boxed, or outside the dispatcher.
  struct Call {
    enum class Kind : std::uint8_t { dispatch, host, module, user, method, item };
    Kind kind = Kind::host;
    std::optional<c10::OperatorHandle> handle = {};
    HostCall host = nullptr;
    const UserFunction* function = nullptr;
    std::shared_ptr<torch::nn::Module> module = {};
    const ModuleCall* module_call = nullptr;
    std::string method = {};
    std::vector<Source> args = {};
    std::vector<int> results = {};  // a register for each result of the operator, or one for all; -1: not used
  };
  /// One node. Small, since ten thousand of them are walked in a row.
  struct Step {
    UnboxedOperator::Call unboxed = nullptr;  // null: calls_[call]
    const void* handle = nullptr;
    std::uint32_t call = 0;                        // or the first of its arguments in args_
    std::uint32_t releases = 0, releases_end = 0;  // registers, in releases_, that are read for the last time
    std::int32_t result = -1;
  };
  struct Input {
    std::string name;
    int at;
    bool has_default;
    Source standard;
    bool takes_the_rest;  // of all inputs, as a list: `*args`
    /// When the graph was made. Negative: any, and equal numbers are equal sizes, as in TensorMeta.
    std::optional<std::vector<std::int64_t>> sizes = {};
    std::string sizes_text = {};
  };
  using GivenSizes = c10::SmallVector<std::int64_t, 16>;  // for each tensor: how many, and the sizes
  class Maker;

  c10::IValue load(const Source& source, std::vector<c10::IValue>& registers) const;
  void execute(const Call& call, std::vector<c10::IValue>& registers, std::vector<c10::IValue>& stack) const;
  [[noreturn]] void explain(const Node& node, const GivenSizes& given) const;

  std::shared_ptr<const Graph> expanded_;  // where functions run as operators: the graph that has these
  std::vector<Input> inputs_;
  std::vector<Step> steps_;
  std::vector<const Node*> nodes_;  // of the steps, for messages
  std::vector<Call> calls_;
  std::vector<std::int32_t> args_, releases_;
  std::vector<Constant> constants_;
  std::vector<std::shared_ptr<const void>> handles_;
  Source output_;
  int registers_ = 0;
  std::uint64_t version_;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/plan.ipp"
#endif
