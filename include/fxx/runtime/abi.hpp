// What passes between a program and the forward function that it built: the one C function of such a library.
//
// Tensors cross by pointer, so both sides must be built against one LibTorch; the cache sees to that. Exceptions do not
// cross: they are handed over as values.
// Main names: ForwardCall, forward_symbol. Cost: light.
#pragma once

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Changes with every change of ForwardCall; part of what the build cache compares.
inline constexpr int forward_abi_version = 1;
/// `extern "C" int fxx_forward(ForwardCall*)`: 0 when it ran, 1 when `exception` was set.
inline constexpr const char* forward_symbol = "fxx_forward";

/// The generated source declares the same struct in the same words.
struct ForwardCall {
  const void* const* inputs;      // const at::Tensor*, one for each placeholder
  const void* const* attributes;  // const at::Tensor*, in the order that the source was made with
  void* results;  // std::vector<std::vector<at::Tensor>>*: one list for each value that the graph returns
  /// Runs node `node` in the program that loaded the library. 0, or 1 when `exception` was set.
  int (*call_back)(ForwardCall* call, int node, const void* const* inputs, void* results);
  void* host;       // for call_back
  void* exception;  // std::exception_ptr*
  int node;         // the node that runs, for messages
};

}  // namespace fxx::inline FXX_ABI
