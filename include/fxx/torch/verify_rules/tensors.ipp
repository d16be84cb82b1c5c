// Tensors as what they are made of, so that a counter-example can be made smaller and written down.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "fxx/ir/print.hpp"
#include "fxx/torch/types.hpp"
#include "fxx/torch/verify_rules.hpp"

namespace fxx::inline FXX_ABI::detail {

/// A tensor: its elements, and how it lies in memory.
struct TensorRecipe {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape = {};
  std::vector<std::size_t> order = {};   // dimensions, from the one with the largest stride on; empty: as they stand
  std::vector<std::int64_t> steps = {};  // 0: expanded, 2: every other element; empty: 1 everywhere
  std::int64_t offset = 0;               // elements of the memory in front of it
  std::vector<double> values = {};       // in the order of the shape; expanded dimensions have one element
  std::vector<double> imaginary = {};    // of complex ones

  std::int64_t step(std::size_t dim) const { return steps.empty() ? 1 : steps[dim]; }
  /// Elements in memory along a dimension.
  std::int64_t stored(std::size_t dim) const {
    return step(dim) == 0 ? std::min<std::int64_t>(1, shape[dim]) : shape[dim];
  }
  std::int64_t numel() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  std::size_t stored_numel() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) n *= stored(d);
    return static_cast<std::size_t>(n);
  }
  bool is_plain() const { return order.empty() && steps.empty() && offset == 0; }
  bool is_expanded() const {
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (step(d) == 0 && shape[d] > 1) return true;
    return false;
  }

  std::vector<std::int64_t> strides() const {
    std::vector<std::int64_t> out(shape.size(), 1);
    std::int64_t running = 1;
    for (std::size_t i = shape.size(); i--;) {
      const std::size_t d = order.empty() ? i : order[i];
      out[d] = step(d) * running;
      running *= std::max<std::int64_t>(1, step(d)) * std::max<std::int64_t>(1, stored(d));
    }
    return out;
  }
  /// The elements of the memory; gaps are what nobody may read.
  std::vector<double> memory(const std::vector<double>& elements) const {
    const std::vector<std::int64_t> strides = this->strides();
    std::vector<std::int64_t> at(shape.size(), 0);
    std::vector<double> out(static_cast<std::size_t>(offset), gap());
    if (elements.empty()) return out;
    for (const double element : elements) {
      std::int64_t place = offset;
      for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
      if (static_cast<std::size_t>(place) >= out.size()) out.resize(static_cast<std::size_t>(place) + 1, gap());
      out[static_cast<std::size_t>(place)] = element;
      for (std::size_t d = at.size(); d-- && ++at[d] >= stored(d);) at[d] = 0;
    }
    return out;
  }
  double gap() const {
    return at::isFloatingType(dtype) || at::isComplexType(dtype) ? std::numeric_limits<double>::quiet_NaN()
                                                                 : static_cast<double>(dtype != at::kBool);
  }

  at::Tensor make() const {
    const auto filled = [](const std::vector<double>& from) {
      at::Tensor t = at::_ops::empty_memory_format::call({static_cast<std::int64_t>(from.size())}, at::kDouble,
                                                         std::nullopt, std::nullopt, std::nullopt, std::nullopt);
      std::copy(from.begin(), from.end(), t.mutable_data_ptr<double>());
      return t;
    };
    at::Tensor flat;
    if (at::isComplexType(dtype)) {
      const std::vector<double> real = memory(values), imag = memory(imaginary);
      flat = at::_ops::empty_memory_format::call({static_cast<std::int64_t>(real.size())}, at::kComplexDouble,
                                                 std::nullopt, std::nullopt, std::nullopt, std::nullopt);
      auto* out = flat.mutable_data_ptr<c10::complex<double>>();
      for (std::size_t i = 0; i < real.size(); ++i) out[i] = {real[i], imag[i]};
    } else {
      flat = filled(memory(values));
    }
    flat = flat.to(dtype);
    return flat.as_strided(shape, strides(), offset);
  }

  /// A tensor's own recipe.
  static TensorRecipe of(const at::Tensor& tensor) {
    TensorRecipe r;
    r.dtype = tensor.scalar_type();
    r.shape = tensor.sizes().vec();
    if (!tensor.is_contiguous()) {
      r.order.resize(r.shape.size());
      std::iota(r.order.begin(), r.order.end(), std::size_t{0});
      std::stable_sort(r.order.begin(), r.order.end(), [&](std::size_t a, std::size_t b) {
        return tensor.stride(static_cast<std::int64_t>(a)) > tensor.stride(static_cast<std::int64_t>(b));
      });
      r.steps.assign(r.shape.size(), 1);
      for (std::size_t d = 0; d < r.shape.size(); ++d)
        if (r.shape[d] > 1 && tensor.stride(static_cast<std::int64_t>(d)) == 0) r.steps[d] = 0;
    }
    at::Tensor one = tensor.detach();
    for (std::size_t d = 0; d < r.shape.size(); ++d)
      if (r.step(d) == 0) one = one.narrow(static_cast<std::int64_t>(d), 0, 1);
    if (at::isComplexType(r.dtype)) {
      one = one.to(at::kComplexDouble).contiguous();
      const auto* from = one.const_data_ptr<c10::complex<double>>();
      for (std::int64_t i = 0; i < one.numel(); ++i)
        r.values.push_back(from[i].real()), r.imaginary.push_back(from[i].imag());
    } else {
      one = one.to(at::kDouble).contiguous();
      r.values.assign(one.const_data_ptr<double>(), one.const_data_ptr<double>() + one.numel());
    }
    return r;
  }

  /// A part of the tensor, of the same rank: its first elements in every dimension, or its last.
  TensorRecipe cut(const std::vector<std::int64_t>& smaller, bool last) const {
    TensorRecipe r = *this;
    r.shape = smaller;
    r.values.clear(), r.imaginary.clear();
    std::vector<std::int64_t> at(shape.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      bool inside = true;
      for (std::size_t d = 0; d < at.size(); ++d) {
        const std::int64_t from = last ? stored(d) - r.stored(d) : 0;
        inside = inside && at[d] >= from && at[d] < from + r.stored(d);
      }
      if (inside) {
        r.values.push_back(values[i]);
        if (!imaginary.empty()) r.imaginary.push_back(imaginary[i]);
      }
      for (std::size_t d = at.size(); d-- && ++at[d] >= stored(d);) at[d] = 0;
    }
    return r;
  }
  /// The same elements, one behind the other.
  TensorRecipe plain() const {
    TensorRecipe r;
    r.dtype = dtype;
    r.shape = shape;
    const auto spread = [&](const std::vector<double>& from) {
      std::vector<double> to;
      if (from.empty()) return to;
      std::vector<std::int64_t> at(shape.size(), 0);
      for (std::int64_t n = numel(); n--;) {
        std::int64_t place = 0;
        for (std::size_t d = 0; d < at.size(); ++d) place = place * stored(d) + (step(d) == 0 ? 0 : at[d]);
        to.push_back(from[static_cast<std::size_t>(place)]);
        for (std::size_t d = at.size(); d-- && ++at[d] >= shape[d];) at[d] = 0;
      }
      return to;
    };
    r.values = spread(values), r.imaginary = spread(imaginary);
    return r;
  }

  /// `torch::tensor({1.0, double(NAN)}, torch::kFloat).view({2, 1})`.
  std::string code() const {
    const std::string options = "torch::k" + std::string(c10_name_of(to_dtype(dtype)));
    const auto listed = [](const std::vector<std::int64_t>& v) {
      std::string text = "{";
      for (std::size_t i = 0; i < v.size(); ++i) text += (i ? ", " : "") + std::to_string(v[i]);
      return text + "}";
    };
    if (numel() == 0) return "torch::empty(" + listed(shape) + ", " + options + ")";
    const bool complex = at::isComplexType(dtype);
    const auto all_same = [](const std::vector<double>& v) {
      return std::all_of(v.begin(), v.end(), [&](double x) { return is_same(x, v[0]); });
    };
    if (is_plain() && !complex && values.size() > 1 && all_same(values))
      return "torch::full(" + listed(shape) + ", " + number(values[0]) + ", " + options + ")";
    if (is_plain() && !complex && shape.empty()) return "torch::tensor(" + number(values[0]) + ", " + options + ")";
    const std::string laid_out =
        is_plain() ? (shape.size() == 1 ? "" : ".view(" + listed(shape) + ")")
                   : ".as_strided(" + listed(shape) + ", " + listed(strides()) + ", " + std::to_string(offset) + ")";
    const auto flat = [&](const std::vector<double>& from, const std::string& type) {
      std::string text = "torch::tensor({";
      const std::vector<double> all = memory(from);
      for (std::size_t i = 0; i < all.size(); ++i) text += (i ? ", " : "") + number(all[i]);
      return text + "}, " + type + ")";
    };
    if (complex)
      return "torch::complex(" + flat(values, "torch::kDouble") + ", " + flat(imaginary, "torch::kDouble") + ").to(" +
             options + ")" + laid_out;
    return flat(values, options) + laid_out;
  }
  static bool is_same(double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  }
  std::string number(double v) const {
    if (dtype == at::kBool) return v != 0 ? "true" : "false";
    if (at::isIntegralType(dtype, false)) return std::to_string(static_cast<std::int64_t>(v));
    // Both are floats, which torch::tensor does not take beside doubles.
    if (std::isnan(v)) return "double(NAN)";
    if (std::isinf(v)) return v < 0 ? "-double(INFINITY)" : "double(INFINITY)";
    return repr(v);
  }
};

/// What a trial's elements are like.
enum class Flavour : std::uint8_t { usual, small_integers, special, extreme, wide, constant };

/// What a tensor of that dtype holds of a number; the reference in float64 is to see the same.
FXX_INLINE double rounded_to(at::ScalarType dtype, double v) {
  switch (dtype) {
    case at::kHalf: return static_cast<float>(at::Half(static_cast<float>(v)));
    case at::kBFloat16: return static_cast<float>(at::BFloat16(static_cast<float>(v)));
    case at::kFloat:
    case at::kComplexFloat: return static_cast<float>(v);
    default: return v;
  }
}

/// Random elements of a dtype.
FXX_INLINE double random_element(VerifyRandom& random, at::ScalarType dtype, Flavour flavour) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (dtype == at::kBool) return static_cast<double>(random.below(2));
  if (at::isIntegralType(dtype, false)) {
    const bool is_unsigned = dtype == at::kByte;
    if ((flavour == Flavour::special || flavour == Flavour::extreme) && random.chance(20)) {
      if (is_unsigned) return random.pick({0.0, 255.0});
      if (dtype == at::kChar) return random.pick({-127.0, 127.0, 0.0});
      if (dtype == at::kShort) return random.pick({-32767.0, 32767.0, 0.0});
      return random.pick({-2147483647.0, 2147483647.0, 0.0});
    }
    const double v = static_cast<double>(random.below(11)) - 5;
    return is_unsigned ? std::abs(v) : v;
  }
  const double usual = std::round((random.real() + random.real() + random.real() - 1.5) * 3 * 1024) / 1024;
  switch (flavour) {
    case Flavour::small_integers: return static_cast<double>(random.below(7)) - 3;
    case Flavour::wide: return usual * std::exp2(static_cast<double>(random.below(25)) - 12);
    case Flavour::special:
    case Flavour::extreme: {
      if (!random.chance(35)) return usual;
      // Complex products of infinities depend on the order in which parts are multiplied, in C++ as in LibTorch.
      if (at::isComplexType(dtype)) return random.pick({0.0, -0.0, 1.0, -1.0});
      double largest = 3.4028234663852886e38, least = 1.1754943508222875e-38;
      if (dtype == at::kDouble) largest = 1.7976931348623157e308, least = 2.2250738585072014e-308;
      if (dtype == at::kHalf) largest = 65504, least = 6.103515625e-05;
      if (dtype == at::kBFloat16) largest = 3.3895313892515355e38;
      // A number of any magnitude: between those that overflow in a function and those that do by themselves.
      if (flavour == Flavour::extreme && random.chance(15))
        return rounded_to(dtype, std::exp2((random.real() * 1.9 - 0.95) * std::log2(largest)) * random.pick({1.0, -1.0}));
      return random.pick({0.0, -0.0, infinite, -infinite, std::numeric_limits<double>::quiet_NaN(), least / 4,
                          -least / 4, least, largest, -largest, 1.0, -1.0});
    }
    case Flavour::constant: return random.pick({0.0, 1.0, -1.0, 0.5});
    case Flavour::usual: break;
  }
  return usual;
}

}  // namespace fxx::inline FXX_ABI::detail
