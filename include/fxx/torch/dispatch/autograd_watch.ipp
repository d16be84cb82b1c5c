// Bodies of torch/dispatch/autograd_watch.hpp.
#pragma once

#include <ATen/functorch/DynamicLayer.h>

#include <string>
#include <utility>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/torch/dispatch/autograd_watch.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Its first members are those of LibTorch's own class, which code of function transforms takes it for: a stack of
/// transforms, and two permissions that are not given.
class RefusingState final : public at::functorch::FuncTorchTLSBase {
 public:
  explicit RefusingState(std::shared_ptr<const std::atomic<bool>> active) : active_(std::move(active)) {}
  RefusingState(const RefusingState& other)
      : FuncTorchTLSBase(other),
        transforms_(other.transforms_),
        permissions_{other.permissions_[0], other.permissions_[1]},
        met_transform_(other.met_transform()),
        active_(other.active_) {}
  std::unique_ptr<FuncTorchTLSBase> deepcopy() const override { return std::make_unique<RefusingState>(*this); }
  std::int64_t checkSupportsSingleLevelAutogradFunction() const override { return 0; }
  void checkSupportsCppAutogradFunction() const override {
    refuse("a torch::autograd::Function", "its backward would be lost");
  }
  void checkSupportsInplaceRequiresGrad() const override {}
  void checkSupportsRetainGrad() const override { refuse("retain_grad()", "a graph has no gradients inside"); }

  const std::vector<at::functorch::DynamicLayer>& transforms() const noexcept { return transforms_; }
  /// A stack that was never used has no memory.
  bool met_transform() const noexcept { return met_transform_ || transforms_.capacity() > 0; }

 private:
  void refuse(const std::string& what, const std::string& why) const {
    if (!active_->load(std::memory_order_relaxed)) return;
    throw TraceError(ErrorId::gradient_in_forward,
                     "trace: the traced code uses " + what + ", and " + why +
                         ". Trace the part before it, or make it an operator with a kernel of its own for autograd "
                         "(TORCH_LIBRARY)",
                     {{}, user_place(Backtrace::capture(2)), traced_modules()});
  }

  std::vector<at::functorch::DynamicLayer> transforms_;
  bool permissions_[2] = {false, false};
  bool met_transform_ = false;
  std::shared_ptr<const std::atomic<bool>> active_;
};

FXX_INLINE AutogradWatch::AutogradWatch()
    : other_(std::exchange(at::functorch::functorchTLSAccessor(), std::make_unique<RefusingState>(active_))) {}
FXX_INLINE AutogradWatch::~AutogradWatch() {
  active_->store(false, std::memory_order_relaxed);
  swap();
  // Transforms that the code did not end go on, as they would have without a trace.
  const auto* state = dynamic_cast<const RefusingState*>(other_.get());
  if (!state || state->transforms().empty()) return;
  at::functorch::setDynamicLayerStack(state->transforms());
  at::functorch::setDynamicLayerFrontBackKeysIncluded(true);
}
FXX_INLINE bool AutogradWatch::met_transform() noexcept {
  const auto* state = dynamic_cast<const RefusingState*>(at::functorch::functorchTLSAccessor().get());
  return state && state->met_transform();
}

}  // namespace fxx::inline FXX_ABI::detail
