// What a trace at the dispatcher is asked for, and what it tells.
//
// Main names: TraceOptions, TraceReport. Cost: light, no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

/// What a trace fixed that the code computes.
struct TraceReport {
  /// C++ code asked a traced tensor for a size: a plain number from then on.
  struct Size {
    std::string value;  // "x.size(1)": the node and the dimension
    std::int64_t size = 0;
    std::string source;                // "Net::forward(at::Tensor) at net.cpp:41", as far as symbols tell
    std::vector<std::string> used_by;  // "%view(size)": operators that are given that number. None when it only
                                       // decided something, or was computed with
  };
  std::vector<Size> sizes;
  /// What stays as it is without the code saying so, a sentence each: training flags, branches on them, sizes that
  /// elements decide, values that the code keeps for its next run, parameters of modules that nobody registered.
  std::vector<std::string> notes;
  /// How often the code ran: once to be recorded, and again for training flags, dynamic sizes and `strict`. A trace
  /// that throws tells it, too.
  std::size_t runs = 0;
  /// Whether all that the further runs did was undone, the members of C++ too: where there were none, and for classes
  /// that are a torch::nn::Cloneable, as far as the members are of the module itself.
  bool members_restored = true;

  std::string to_string() const;
};

struct TraceOptions {
  /// Names of the inputs; C++ keeps none. x for a single one, arg0, arg1, ... otherwise.
  std::vector<std::string> input_names = {};
  /// Turns what LibTorch's front end takes apart (t and addmm) back into what the user wrote (linear).
  bool reroll_operators = true;
  /// Turns operators back into calls of the leaf modules whose parameters they use.
  bool leaf_modules = true;
  /// Tells of code that asks whether it trains, and lets dropout follow the training flag of its module, which the
  /// operator does not name. A module runs once more for that, in the other mode, where its operators are compared and
  /// not computed; with fake tensors where that cannot tell, and several times when it calls dropout. What this does to
  /// flags, buffers and random numbers is undone. Nobody else may use the module meanwhile. Where the module cannot be
  /// told, the flag stays as it is, and a warning, or `report`, says so. TraceReport::runs says how often it ran.
  bool training_flags = true;
  /// Tensors of random numbers that are made of no other tensor (torch::randn({3, 4})) become constants, as torch.fx
  /// has them; else they are drawn in every run, as the code does.
  bool freeze_random = false;
  /// Throws TraceError (E315) when the graph has an operator that writes to its argument.
  bool check_mutable_operations = false;
  /// Notes the user's source line of every node: 20 us a node for symbols.
  bool record_stack_traces = false;
  /// Throws TraceError (E322) when a size of a traced tensor became a plain number of the graph, naming the lines. The
  /// code runs again for every dimension of the inputs, with fake tensors.
  bool strict = false;
  /// Dimensions that may change from call to call; the code is run at several sizes. Throws TraceError (E309, E310)
  /// when the graphs cannot be made one.
  std::vector<DynamicDim> dynamic = {};
  /// Filled with what the trace fixed; with it, `strict` has nothing more to say.
  TraceReport* report = nullptr;
};

}  // namespace fxx::inline FXX_ABI
