// Bodies of torch/results.hpp.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/view_as_real_ops.h>

#include <algorithm>
#include <limits>

#include "fxx/torch/results.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE void flatten(const c10::IValue& value, std::vector<at::Tensor>& out) {
  if (value.isTensor()) out.push_back(value.toTensor());
  else if (value.isTuple())
    for (const c10::IValue& v : value.toTupleRef().elements()) flatten(v, out);
  else if (value.isList())
    for (const c10::IValue& v : value.toListRef()) flatten(v, out);
  else if (value.isGenericDict())
    for (const auto& entry : value.toGenericDict()) flatten(entry.value(), out);
}

FXX_INLINE at::Tensor comparable(const at::Tensor& tensor) {
  const at::Tensor t = tensor.detach();
  if (t.is_complex()) return at::_ops::view_as_real::call(t.to(at::kComplexDouble).resolve_conj());
  return t.to(t.is_floating_point() ? at::kDouble : at::kLong);
}

/// The largest of the differences, relative to the largest finite magnitude of what they are from; infinite for nan.
FXX_INLINE double largest_relative(const at::Tensor& differences, const at::Tensor& from) {
  const double error = differences.max().item<double>();
  const double size = from.abs().masked_fill(from.isfinite().logical_not(), 0).max().item<double>();
  return error != error ? std::numeric_limits<double>::infinity() : size > 0 ? error / size : error;
}

/// The largest difference of two tensors, relative to the largest magnitude of a third.
FXX_INLINE double error_of_tensor(const at::Tensor& given, const at::Tensor& expected, const at::Tensor& like) {
  constexpr double none = std::numeric_limits<double>::infinity();
  if (given.defined() != expected.defined()) return none;
  if (!given.defined()) return 0;
  if (given.sizes() != expected.sizes() || given.scalar_type() != expected.scalar_type()) return none;
  if (given.numel() == 0) return 0;
  const at::Tensor x = comparable(given), y = comparable(expected);
  const at::Tensor from = like.defined() && like.numel() > 0 ? comparable(like) : y;
  if (!x.is_floating_point())
    return x.equal(y) ? 0 : std::max(1., largest_relative(x.to(at::kDouble).sub(y.to(at::kDouble)).abs(), from.to(at::kDouble)));
  // nan where nan is expected is no difference, nor is the same infinity.
  const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
  return largest_relative(x.sub(y).abs().masked_fill(same, 0), from);
}

FXX_INLINE std::vector<double> errors_of_tensors(const c10::IValue& given, const c10::IValue& expected,
                                                 const c10::IValue& like) {
  std::vector<at::Tensor> a, b, c;
  flatten(given, a);
  flatten(expected, b);
  flatten(like, c);
  if (a.size() != b.size() || a.size() != c.size()) return {std::numeric_limits<double>::infinity()};
  std::vector<double> errors;
  for (std::size_t i = 0; i < a.size(); ++i) errors.push_back(error_of_tensor(a[i], b[i], c[i]));
  return errors;
}

FXX_INLINE double relative_error(const c10::IValue& given, const c10::IValue& expected) {
  double worst = 0;
  for (const double error : errors_of_tensors(given, expected, expected)) worst = std::max(worst, error);
  return worst;
}

FXX_INLINE double error_beside(const c10::IValue& given, const std::vector<c10::IValue>& samples) {
  const double none = std::numeric_limits<double>::infinity();
  std::vector<at::Tensor> results;
  flatten(given, results);
  std::vector<std::vector<at::Tensor>> beside(samples.size());
  for (std::size_t s = 0; s < samples.size(); ++s) {
    flatten(samples[s], beside[s]);
    if (beside[s].size() != results.size()) return none;
    for (std::size_t i = 0; i < results.size(); ++i)
      if (beside[s][i].defined() != results[i].defined()) return none;
  }
  double worst = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    const at::Tensor x = comparable(results[i]);
    if (x.numel() == 0) continue;
    const bool floats = x.is_floating_point();
    at::Tensor met = x.ne(x), low, high;
    met.fill_(false);
    if (floats) low = x.new_full(x.sizes(), none), high = low.neg();
    for (const std::vector<at::Tensor>& tensors : beside) {
      if (tensors[i].sizes() != x.sizes() || tensors[i].scalar_type() != results[i].scalar_type()) return none;
      const at::Tensor y = comparable(tensors[i]);
      met = met.logical_or(x.eq(y)).logical_or(x.isnan().logical_and(y.isnan()));
      if (!floats) continue;
      low = low.fmin(y);
      high = high.fmax(y);
    }
    if (!floats) {
      if (!met.all().item<bool>()) return none;
      continue;
    }
    // An element that is nothing but rounding, as the sum of a normalised row, differs by as much from one sample to the
    // next: it may be off by that much more.
    const at::Tensor spread = high.sub(low).nan_to_num(0, 0, 0);
    const at::Tensor outside = low.sub(x).maximum(x.sub(high)).sub(spread).clamp_min(0).masked_fill(met, 0);
    worst = std::max(worst, largest_relative(outside, comparable(beside[0][i])));
  }
  return worst;
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
