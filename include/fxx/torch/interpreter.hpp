// Running a graph node by node, with one overridable function per opcode.
//
// For analyses and experiments: overrides see every value. GraphModule's own forward runs a prepared plan instead,
// which is faster and does the same.
// Main names: Interpreter, ShapeProp. Cost: heavy (torch/nn/module.h). After torch.fx interpreter.py, 2.13.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

class Interpreter {
 public:
  /// Runs the module's own graph. The module outlives the interpreter.
  explicit Interpreter(GraphModule& module);
  /// Runs another graph against a module.
  Interpreter(const torch::nn::Module& module, Graph& graph);
  virtual ~Interpreter() = default;

  using Environment = std::unordered_map<const Node*, c10::IValue>;

  /// Runs every node in order and returns what the output returns. Nodes in `initial` are not run, their values are
  /// taken from there. Values are dropped after their last use when `garbage_collect_values` is set. Throws RunError
  /// (E701) when inputs are too many, or naming the one that is missing. What LibTorch throws in a node gets "While
  /// executing %node"; what a function of the user's throws becomes a RunError (E702) of the node.
  c10::IValue run(Values inputs, Environment initial = {});
  bool garbage_collect_values = true;

  // --- override these ------------------------------------------------------------------------------------------------
  /// Runs one node: fetches its arguments and calls the function for its opcode.
  virtual c10::IValue run_node(Node& node);
  /// The next input, or the default.
  virtual c10::IValue placeholder(const Placeholder& op, Values args);
  virtual c10::IValue get_attr(const GetAttr& op);
  virtual c10::IValue call_function(const CallFunction& op, Values args, KeywordValues kwargs);
  virtual c10::IValue call_method(const CallMethod& op, Values args, KeywordValues kwargs);
  virtual c10::IValue call_module(const CallModule& op, Values args, KeywordValues kwargs);
  virtual c10::IValue output(const Output& op, Values args);

 protected:
  // --- for overrides -------------------------------------------------------------------------------------------------
  /// Runs a graph against a module whose names were read before, which takes a walk over the whole module.
  Interpreter(std::shared_ptr<const ModuleOwner> owner, Graph& graph) : owner_(std::move(owner)), graph_(&graph) {}
  Graph& graph() { return *graph_; }
  const ModuleOwner& owner() const { return *owner_; }
  /// The node that runs.
  Node& node() { return *node_; }
  /// The tensor of that name. Throws RunError (E702) that names it when there is none.
  at::Tensor fetch_attr(const std::string& name) const;
  /// The value of an argument, nodes replaced by their values; for a parameter of this type.
  c10::IValue value_of(const Argument& argument, const Type& type = {}) const;
  const Environment& environment() const { return values_; }
  /// Runs one node by itself; `values` holds its inputs.
  c10::IValue run_one(Node& node, Environment values);

 private:
  /// Throws RunError (E702) when there are any.
  void refuse_keywords(const KeywordValues& kwargs) const;

  std::shared_ptr<const ModuleOwner> owner_;
  Graph* graph_;
  Environment values_;
  Values inputs_;
  std::size_t next_input_ = 0;
  Node* node_ = nullptr;
};

/// Runs a graph with real inputs and notes shape, dtype and strides of every tensor on its node (torch.fx: ShapeProp).
class ShapeProp : public Interpreter {
 public:
  using Interpreter::Interpreter;
  c10::IValue propagate(Values inputs) { return run(std::move(inputs)); }
  c10::IValue run_node(Node& node) override;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/interpreter.ipp"
#endif
