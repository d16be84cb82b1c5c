// What operators give, by their arguments' sizes alone: rules for those of LibTorch's that have no meta kernel.
//
// A rule is a function of a ShapeCall: it reads arguments by position and gives results. Tensors are on the meta
// device, so a rule may call operators, and what it gives is made by meta_tensor and the like. It refuses what the
// operator refuses (TORCH_CHECK). One rule serves an operator and its overload that writes to `out`.
// Main names: ShapeCall, ShapeRule, find_shape_rule. Cost: tensor (ATen/core/Tensor.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/config.hpp"
#include "fxx/error.hpp"

namespace fxx::inline FXX_ABI::detail {

using Sizes = std::vector<std::int64_t>;

/// A tensor on the meta device. Contiguous, in a memory format, or of the strides given.
at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype);
at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format);
at::Tensor meta_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);
/// The same in memory that exists.
at::Tensor meta_tensor(c10::Storage storage, at::IntArrayRef sizes, at::IntArrayRef strides, std::int64_t offset,
                       caffe2::TypeMeta dtype);
c10::Storage meta_storage(std::size_t bytes);

/// One call of an operator, as a rule sees it.
class ShapeCall {
 public:
  ShapeCall(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) : op_(op), arguments_(arguments) {}

  const c10::OperatorHandle& op() const { return op_; }
  /// Is there a value, that is not None?
  bool has(std::size_t i) const { return !arguments_[i].isNone(); }
  const c10::IValue& operator[](std::size_t i) const { return arguments_[i]; }
  /// Undefined for None.
  at::Tensor tensor(std::size_t i) const { return has(i) ? arguments_[i].toTensor() : at::Tensor(); }
  std::int64_t integer(std::size_t i) const { return arguments_[i].toInt(); }
  bool flag(std::size_t i) const { return arguments_[i].toBool(); }
  at::Scalar number(std::size_t i) const { return arguments_[i].toScalar(); }
  Sizes integers(std::size_t i) const { return arguments_[i].toIntVector(); }
  /// The dtype given, or else `standard`.
  at::ScalarType dtype(std::size_t i, at::ScalarType standard) const {
    return has(i) ? arguments_[i].toScalarType() : standard;
  }

  /// Does it write to an argument `out`?
  bool has_out() const { return !op_.schema().arguments().empty() && op_.schema().arguments().back().is_out(); }
  /// `out` may be of another dtype that the result casts to, as iterators over elements allow.
  void allow_cast() { casts_ = true; }
  bool casts() const { return casts_; }

  /// `out` gets the strides of the result though it has its size.
  void restride() { restrides_ = true; }
  bool restrides() const { return restrides_; }

  void give(c10::IValue result) { results_.push_back(std::move(result)); }
  std::vector<c10::IValue>& results() { return results_; }

 private:
  const c10::OperatorHandle& op_;
  c10::ArrayRef<c10::IValue> arguments_;
  std::vector<c10::IValue> results_;
  bool casts_ = false, restrides_ = false;
};

using ShapeRule = void (*)(ShapeCall& call);

/// All rules, by the operator's name: without "aten::", but with "mkldnn::".
const std::unordered_map<std::string_view, ShapeRule>& shape_rules();
/// The rule for an operator, or null.
ShapeRule find_shape_rule(const c10::OperatorName& name);
/// For an operator that writes to `out`, the rule for the one that does not; or null.
ShapeRule find_shape_rule_without_out(const c10::OperatorName& name);
/// Do the sizes of the operator's results, or its results that are no tensors, depend on elements?
bool is_data_dependent(const c10::OperatorName& name);
/// Throws TraceError (E301), naming the operator and the user's function.
[[noreturn]] void refuse_elements(const c10::OperatorName& name);

/// "aten::add.Tensor".
std::string text_of(const c10::OperatorName& name);
/// The user's function that called.
ErrorContext user_context();

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/shape_rules.ipp"
#endif
