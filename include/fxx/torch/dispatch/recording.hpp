// One run of the user's code under the tracer, and further runs of it that leave no trace on its modules.
//
// Main names: detail::TracedCode, record_run, FurtherRuns. Cost: heavy (torch/nn/module.h), with the runs of the code.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/util/DimVector.h>
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fxx/torch/dispatch/dispatch_tracer.hpp"
#include "fxx/torch/dispatch/script_watch.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI::detail {

/// The code on traced tensors.
using RunTraced = std::function<c10::IValue(std::span<const at::Tensor>)>;
/// Takes the members of the module as they are now, and returns what puts them back.
using TakeMembers = std::function<std::function<void()>()>;

/// What is traced.
struct TracedCode {
  torch::nn::Module& root;
  bool is_module;  // of the user's; else the root is an empty one, for a callable
  const ModuleOwner& owner;
  const RunTraced& run;
  std::span<const std::string> input_names;
  const TakeMembers& take_members;  // may be empty
};

/// The members of C++ as they are, and again when it ends.
class MemberState {
 public:
  explicit MemberState(const TracedCode& code) {
    if (code.take_members) put_back_ = code.take_members();
  }
  MemberState(const MemberState&) = delete;
  MemberState& operator=(const MemberState&) = delete;
  ~MemberState() { put_back(); }
  /// Now as well.
  void put_back() const {
    if (put_back_) put_back_();
  }

 private:
  std::function<void()> put_back_;
};

/// What one run of the code left.
struct Recording {
  Graph graph;
  std::map<std::string, GraphModule::Attribute> constants;
  std::vector<TracedRead> reads;
  std::vector<std::pair<Node*, Backtrace>> places;
  std::shared_ptr<const RecordedCalls> calls;
  std::string kept;     // "%sum, %view": values of the trace that the code holds on to
  /// Nodes (by name) whose training flag stays when those of all modules are turned, as far as notes_of found out.
  std::vector<std::string> literal_flags;
  int state_note = -1;  // among those of notes_of: what says that a further run does not do the same
  bool seeded = false;  // the code gave the generator of random numbers another seed
  /// Constants that are tensors of the code's which it wrote to and goes on holding: the graph writes to them, too.
  std::map<std::string, at::Tensor> written;
  std::set<std::string> copied;  // constants that the graph has copies of
  std::string script_state;  // an attribute of a TorchScript object that the run gave another value, or empty
  std::vector<c10::IValue> script_objects;  // those that the run met
  std::string member_state;  // likewise what tells that the code keeps something else for its next run
};

/// Runs the code on its inputs. Objects of TorchScript have their attributes back afterwards, unless `keeps_script`.
/// Throws TraceError, and the code's own errors.
Recording record_run(const TracedCode& code, std::vector<at::Tensor> inputs, RecordOptions options,
                     bool keeps_script = false);

/// Buffers and the random numbers to come, as they were: for further runs of code that writes to them; parameters only
/// where the recorded code writes to some, since they are most of a model. A trace around this one learns nothing of it.
class ModuleState {
 public:
  /// `run`: whose constants, tensors that nobody registered, are kept where the recorded code writes to them.
  ModuleState(const ModuleOwner& owner, const Graph& recorded, const Recording* run = nullptr);
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;
  ~ModuleState();

 private:
  struct Buffer {
    at::Tensor tensor;
    at::Tensor before = {};  // undefined when its bytes are kept instead
    c10::DimVector sizes = {};
    at::ScalarType type = {};
    std::size_t at = 0;  // in bytes_
    bool is_as_before(const char* bytes) const;
  };
  ScriptWatch scripts_;  // attributes of TorchScript objects
  at::Generator generator_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<char[]> bytes_;
};

/// Runs the code again, for its graph in other modes, with fake tensors where it takes them: nothing is computed then.
/// Code that keeps values of one run for the next gets real ones. What the runs do to the module is undone.
class FurtherRuns {
 public:
  /// `graph`: what was recorded, wherever it is by now.
  FurtherRuns(const TracedCode& code, const std::vector<at::Tensor>& inputs, const Recording& recorded,
              const Graph& graph, bool freeze_random);
  Recording operator()();
  Recording with_fakes();

 private:
  const TracedCode& code_;
  const std::vector<at::Tensor>& inputs_;
  RecordOptions options_;
  ModuleState state_;
  MemberState members_;
  bool fakes_;
};

/// Do two runs hold the same constant? Fake ones have no values to compare.
bool same_constant(const GraphModule::Attribute& a, const GraphModule::Attribute& b);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/recording.ipp"
#endif
