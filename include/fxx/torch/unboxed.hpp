// Operators called as C++ code calls them: arguments in place, nothing packed into boxed values.
//
// A boxed call costs 0.1 to 0.2 us more than the operator itself. Most calls have one of a few dozen signatures; for
// each of those there is a function here. Others are called boxed.
// Main names: UnboxedOperator, find_unboxed. Cost: tensor (ATen/core/dispatch/Dispatcher.h).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fxx/ir/operator.hpp"

namespace fxx::inline FXX_ABI {

/// An immediate in all forms in which an operator may take it, or a list of integers that is put together for each
/// call.
struct Constant {
  c10::IValue value = {};
  std::vector<std::int64_t> integers = {};  // of a list of integers
  std::vector<std::int32_t> items =
      {};  // where the integers come from, when some are known only then: as in `args` below
  std::optional<at::Tensor> tensor = {};  // of a tensor
};

/// What an argument is read from: a register that holds a value, or a constant.
struct UnboxedFrame {
  const c10::IValue* registers;
  const Constant* constants;
};

struct UnboxedOperator {
  /// Calls the operator: argument i is register args[i], or constant ~args[i] when that is negative.
  using Call = c10::IValue (*)(const void* handle, const std::int32_t* args, UnboxedFrame frame);
  Call call = nullptr;
  std::shared_ptr<const void> handle = {};
  explicit operator bool() const { return call; }
};

/// Empty when no function has this operator's signature.
UnboxedOperator find_unboxed(const c10::OperatorHandle& handle, const Operator& op);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/unboxed.ipp"
#endif
