// A graph made ready to run: operator handles looked up, immediates boxed, registers assigned, last uses known.
//
// What GraphModule runs on. A plan holds for one version of a graph, which outlives it, and is immutable, so threads may
// share it.
// Main names: Plan. Making one: O(nodes); running: the operators plus some tens of nanoseconds a node.
// Cost: heavy (torch/nn/module.h, ATen/core/dispatch/Dispatcher.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI {

class Plan {
 public:
  /// Throws RunError (E702), naming the node, when something in the graph cannot be run.
  Plan(const Graph& graph, const ModuleOwner& owner);

  /// Runs the graph. Inputs beyond those with defaults must be there; throws RunError (E701) naming the input otherwise. Values are
  /// freed after their last use. What an operator throws gets the node that it came from.
  c10::IValue run(std::span<c10::IValue> inputs) const;

  std::size_t inputs() const { return inputs_.size(); }
  std::uint64_t version() const { return version_; }

 private:
  /// Where an argument comes from.
  struct Source {
    enum class Kind : std::uint8_t { constant, value, last_use, list, tuple, dict, index };
    Kind kind = Kind::constant;
    int at = -1;                 // register of a value
    c10::IValue constant = {};
    Type type = {};              // of a list
    std::vector<Source> items = {};
    Argument argument = {};      // index: of getitem
  };
  struct Step {
    enum class Kind : std::uint8_t { dispatch, host, module, user, method, item };
    Kind kind = Kind::host;
    std::optional<c10::OperatorHandle> handle = {};
    HostCall host = nullptr;
    const UserFunction* function = nullptr;
    std::shared_ptr<torch::nn::Module> module = {};
    std::string method = {};
    std::vector<Source> args = {};
    std::vector<int> results = {};  // a register for each result of the operator, or one for all; -1: not used
    const Node* node = nullptr;     // for messages
  };
  struct Input {
    std::string name;
    int at;
    bool has_default;
    c10::IValue standard;
  };
  class Maker;

  c10::IValue load(const Source& source, std::vector<c10::IValue>& registers) const;
  void execute(const Step& step, std::vector<c10::IValue>& registers, std::vector<c10::IValue>& stack) const;
  [[noreturn]] void explain(const Step& step) const;

  std::vector<Input> inputs_;
  std::vector<Step> steps_;
  Source output_;
  int registers_ = 0;
  std::uint64_t version_;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/plan.ipp"
#endif
