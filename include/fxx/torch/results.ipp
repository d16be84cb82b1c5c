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

FXX_INLINE double relative_error(const c10::IValue& given, const c10::IValue& expected) {
  std::vector<at::Tensor> a, b;
  flatten(given, a);
  flatten(expected, b);
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return std::numeric_limits<double>::infinity();
    if (!a[i].defined()) continue;
    if (a[i].sizes() != b[i].sizes() || a[i].scalar_type() != b[i].scalar_type())
      return std::numeric_limits<double>::infinity();
    if (a[i].numel() == 0) continue;
    const at::Tensor x = comparable(a[i]), y = comparable(b[i]);
    if (!x.is_floating_point()) {
      if (x.equal(y)) continue;
      const at::Tensor wanted = y.to(at::kDouble);
      worst = std::max({worst, 1., largest_relative(x.to(at::kDouble).sub(wanted).abs(), wanted)});
      continue;
    }
    // nan where nan is expected is no difference, nor is the same infinity.
    const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
    const at::Tensor difference = x.sub(y).abs().masked_fill(same, 0);
    worst = std::max(worst, largest_relative(difference, y));
  }
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
