// Records every operator that a thread calls, at LibTorch's dispatcher.
//
// A boxed fallback on one mode key, switched on for a thread by an include guard, sees every operator above autograd
// and before composite operators decompose. Traced code works on TracedTensors, which the recorder opens for the call.
// Main names: DispatchTracer. Cost: heavy (ATen/core/dispatch/Dispatcher.h); about 1.5 us an operator besides running
// it. After torch.fx experimental/proxy_tensor.py, 2.13.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
class RecordedCalls;
}

/// What a DispatchTracer notes besides the operators, a backtrace of 2 us each, and what it leaves out.
struct RecordOptions {
  bool places = false;         // where each node was made
  bool reads = false;          // sizes that C++ asked traced tensors for
  bool calls = false;          // what a replay needs, 0.1 us each (torch/dispatch/replay.hpp)
  bool freeze_random = false;  // tensors of random numbers that are made of no other tensor become constants
};

/// Records the operators that a thread calls, from construction to stop() or destruction.
class DispatchTracer {
 public:
  /// Tensors of `owner` become attributes by their names; all others that the trace did not make become constants.
  DispatchTracer(Graph& graph, const ModuleOwner& owner, RecordOptions options = {});
  ~DispatchTracer();
  DispatchTracer(const DispatchTracer&) = delete;
  DispatchTracer& operator=(const DispatchTracer&) = delete;

  /// A placeholder for the tensor; returns the traced tensor to call the code with. It shares the tensor's memory.
  at::Tensor input(const at::Tensor& tensor, const std::string& name);
  /// The argument for a value that the traced code returned.
  Argument argument_for(const c10::IValue& value);
  /// Stops recording; traced tensors that the code kept become ordinary ones. Throws TraceError (E321) when another
  /// thread called operators with traced tensors, or wrote to a buffer.
  void stop();

  /// Constants met on the way, with the names that get_attr nodes have for them.
  const std::vector<std::pair<std::string, at::Tensor>>& constants() const;
  /// The names of those that are copies.
  const std::vector<std::string>& copied_constants() const;
  /// Those among them that the code wrote to, after which the graph has a copy. They outlive the tracer.
  std::vector<detail::MetConstants::Written> written_constants();
  /// Objects of TorchScript classes that operators took, likewise.
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> objects() const;
  const std::vector<detail::TracedRead>& reads() const;
  /// Where the nodes were made, if asked for: what Node::source() does not tell.
  const std::vector<std::pair<Node*, Backtrace>>& places() const;
  /// To be asked after the run; null when nobody asked for it.
  std::shared_ptr<const detail::RecordedCalls> calls() const;
  /// What the code keeps beyond its results, the latest first. To be asked when these are gone, before stop().
  std::vector<const Node*> held() const;

  class Implementation;

 private:
  std::unique_ptr<Implementation> implementation_;
};

/// Writes the user's stack into Node::meta().stack_trace. 10 ms and more, whatever the number of nodes.
void write_stack_traces(std::span<const std::pair<Node*, Backtrace>> places);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/dispatch_tracer.ipp"
#endif
