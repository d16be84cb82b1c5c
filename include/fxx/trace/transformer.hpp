// A graph from a graph: every node is recorded again, by functions that can be overridden, one per opcode.
//
//   struct Swap : fxx::Transformer {
//     using Transformer::Transformer;
//     Argument call_function(const CallFunction& op, Arguments args, KeywordArguments kwargs) override {
//       if (node().calls(ops::sigmoid)) return neg(proxy(args.span()[0])).node();
//       return Transformer::call_function(op, args, kwargs);
//     }
//   };
//   Graph swapped = Swap(graph).transform();
//
// What an override records in place of a node takes over what was noted of it; its sizes, and the overload that was
// meant, only with the arguments that it had.
// Main names: Transformer. O(nodes). Cost: light. After torch.fx interpreter.py Transformer, 2.13.
#pragma once

#include <vector>

#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

class Transformer {
 public:
  /// Reads `graph`, which outlives it.
  explicit Transformer(const Graph& graph) : graph_(&graph) {}
  virtual ~Transformer() = default;

  /// The graph that comes out. The signature, and the tracer that the graph remembers, stay.
  Graph transform();
  /// Records the nodes by `tracer`, with these values for the placeholders; gives the value that the graph returns.
  /// Values left out are the defaults. Throws TraceError (E305) when there are too many or too few.
  Argument inline_into(Tracer& tracer, std::span<const Argument> inputs);

  // --- override these ------------------------------------------------------------------------------------------------
  /// Records one node: maps its arguments, and calls the function for its opcode. The value stands for the node in what
  /// follows.
  virtual Argument run_node(const Node& node);
  virtual Argument placeholder(const Placeholder& op, Arguments args);
  virtual Argument get_attr(const GetAttr& op);
  virtual Argument call_function(const CallFunction& op, Arguments args, KeywordArguments kwargs);
  virtual Argument call_method(const CallMethod& op, Arguments args, KeywordArguments kwargs);
  virtual Argument call_module(const CallModule& op, Arguments args, KeywordArguments kwargs);
  /// The value that is returned.
  virtual Argument output(const Output& op, Arguments args);

 protected:
  /// The node that is being recorded again, of the old graph.
  const Node& node() const { return *node_; }
  const Graph& graph() const { return *graph_; }
  Tracer& tracer() const { return *tracer_; }
  /// A value to compute on. Throws GraphError (E112) when it is no node.
  Proxy proxy(const Argument& value) const { return {*tracer_, value.node()}; }
  /// What stands for a node of the old graph.
  const Argument& value_of(const Node& node) const { return values_[node.index()]; }
  /// Records a node like the present one, under its name when that is free.
  Node* record(Op op, Arguments args, KeywordArguments kwargs);

 private:
  Argument run();

  const Graph* graph_;
  Tracer* tracer_ = nullptr;
  const Node* node_ = nullptr;
  std::vector<Argument> values_;  // by index
  std::span<const Argument> inputs_;
  std::size_t next_input_ = 0;
  bool inlines_ = false;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/transformer.ipp"
#endif
