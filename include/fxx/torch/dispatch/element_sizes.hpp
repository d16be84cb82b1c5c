// Sizes that elements decide: how many nonzero() finds, or a mask lets through.
//
// Main names: detail::ElementSizes. Cost: includes <ATen/core/dispatch/Dispatcher.h>; an operator's class is looked up
// once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace fxx::inline FXX_ABI::detail {

class ElementSizes {
 public:
  struct Decided {
    std::int64_t dim;  // of the first result, counted from the end where it is negative
    int by;            // the argument whose elements decide; -1 for all together
  };
  /// The dimension of the operator's result whose size elements of its arguments decide; none for most operators. The
  /// arguments are the last of the stack.
  std::optional<Decided> dim_decided(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  /// The size of that dimension; -1 where the result has no such dimension.
  static std::int64_t size_of(const c10::IValue& result, std::int64_t dim);

 private:
  enum class DecidedBy { none, values, classes, repeats, mask, selected, sections, lengths };
  std::unordered_map<const c10::FunctionSchema*, DecidedBy> known_;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/element_sizes.ipp"
#endif
