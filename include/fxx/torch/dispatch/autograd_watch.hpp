// Refuses what autograd does without the dispatcher while a thread traces: torch::autograd::Function, whose forward
// would be recorded, and whose backward would be lost.
//
// A function asks the thread's state of function transforms first whether it may run, so that state is one that says
// no. It also tells of transforms that the code starts itself, which no dispatch key shows where operators are
// recorded.
// Main names: detail::AutogradWatch. Cost: includes <ATen/FuncTorchTLS.h>; 0.1 us to make one.
#pragma once

#include <ATen/FuncTorchTLS.h>

#include <atomic>
#include <memory>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::detail {

/// From construction to destruction, on the thread that makes it and those it hands its state to.
class AutogradWatch {
 public:
  AutogradWatch();
  ~AutogradWatch();
  AutogradWatch(const AutogradWatch&) = delete;
  AutogradWatch& operator=(const AutogradWatch&) = delete;

  /// Whether the code started a function transform since. The transform leaves the thread while it calls the operators
  /// that it makes of one, so those look like any other.
  static bool met_transform() noexcept;

  /// While an operator runs: kernels of the user's own may well be autograd functions.
  class Pause {
   public:
    explicit Pause(AutogradWatch& watch) : watch_(watch) { watch_.swap(); }
    ~Pause() { watch_.swap(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    AutogradWatch& watch_;
  };

 private:
  void swap() noexcept { at::functorch::functorchTLSAccessor().swap(other_); }

  std::shared_ptr<std::atomic<bool>> active_ = std::make_shared<std::atomic<bool>>(true);
  /// The state that was there before; in a pause the one that refuses.
  std::unique_ptr<at::functorch::FuncTorchTLSBase> other_;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/autograd_watch.ipp"
#endif
