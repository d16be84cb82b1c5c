// Where two results differ, by what a rule promises.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/ops/view_as_real.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fxx/torch/values.hpp"
#include "fxx/torch/verify_rules/tensors.ipp"

namespace fxx::inline FXX_ABI::detail {

/// The tensors in a value, in order, and everything else as text.
struct Results {
  std::vector<at::Tensor> tensors;
  std::string others;
};
FXX_INLINE void gather(const c10::IValue& value, Results& into) {
  if (value.isTensor()) {
    into.tensors.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& v : value.toTupleRef().elements()) gather(v, into);
  } else if (value.isList()) {
    for (const c10::IValue& v : value.toListRef()) gather(v, into);
  } else {
    into.others += describe(value) + ", ";
  }
}
FXX_INLINE Results results_in(const c10::IValue& value) {
  Results r;
  gather(value, r);
  return r;
}

/// What floating-point numbers of a dtype can tell apart, and where they end.
struct Precision {
  double eps, largest, least;
};
FXX_INLINE Precision precision_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf: return {0x1p-10, 65504, 0x1p-24};
    case at::kBFloat16: return {0x1p-7, 3.3895313892515355e38, 0x1p-133};
    case at::kFloat:
    case at::kComplexFloat: return {0x1p-23, 3.4028234663852886e38, 0x1p-149};
    default: return {0x1p-52, std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()};
  }
}

/// The elements as doubles, one behind the other; a complex one is two.
FXX_INLINE std::vector<double> elements_of(const at::Tensor& tensor) {
  at::Tensor t = tensor.detach();
  if (t.is_complex()) t = at::_ops::view_as_real::call(t.to(at::kComplexDouble).resolve_conj());
  t = t.to(at::kDouble).contiguous();
  return {t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel()};
}

/// The pattern in float64: its results, those for inputs changed by one part in a million, once each in a direction of
/// its own and once beside each other in opposite ones, and the values on the way.
struct Reference {
  static constexpr double change = 1e-6;
  std::vector<at::Tensor> exact, on_the_way;
  std::vector<std::vector<at::Tensor>> changed;
  bool pointwise = false;
};
using ReferenceOf = std::function<const Reference*()>;

class Comparison {
 public:
  Comparison(const VerifyOptions& options, ReferenceOf reference)
      : options_(options), reference_(std::move(reference)) {}

  /// Empty when the replacement's results do.
  std::string difference(const Results& pattern, const Results& replacement) const {
    if (pattern.tensors.size() != replacement.tensors.size() || pattern.others != replacement.others)
      return "the pattern gives " + std::to_string(pattern.tensors.size()) + " tensors" + beside(pattern.others) +
             ", the replacement " + std::to_string(replacement.tensors.size()) + beside(replacement.others);
    for (std::size_t i = 0; i < pattern.tensors.size(); ++i) {
      std::string found = difference(i, pattern.tensors[i], replacement.tensors[i]);
      if (!found.empty()) return (pattern.tensors.size() > 1 ? "result " + std::to_string(i) + ": " : "") + found;
    }
    return {};
  }
  /// The same of what was written to an input.
  std::string difference_of_inputs(const at::Tensor& pattern, const at::Tensor& replacement) const {
    return difference(std::size_t(-1), pattern, replacement);
  }

 private:
  static std::string beside(const std::string& others) {
    return others.empty() ? "" : " and " + others.substr(0, others.size() - 2);
  }
  static std::string listed(at::IntArrayRef values) {
    std::string text = "[";
    for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return text + "]";
  }
  static std::string two(const std::string& what, const std::string& pattern, const std::string& replacement) {
    return what + "the pattern gives " + pattern + ", the replacement " + replacement;
  }

  std::string difference(std::size_t result, const at::Tensor& p, const at::Tensor& r) const {
    if (!p.defined() || !r.defined())
      return p.defined() == r.defined() ? "" : two("", p.defined() ? "a tensor" : "none", r.defined() ? "one" : "none");
    if (p.sizes() != r.sizes()) return two("shape: ", listed(p.sizes()), listed(r.sizes()));
    if (p.scalar_type() != r.scalar_type())
      return two("dtype: ", std::string(name_of(to_dtype(p.scalar_type()))),
                 std::string(name_of(to_dtype(r.scalar_type()))));
    if (options_.strides && p.strides() != r.strides())
      return two("strides: ", listed(p.strides()), listed(r.strides()));
    if (p.numel() == 0) return {};
    return at::isIntegralType(p.scalar_type(), true) ? of_integers(p, r) : of_reals(result, p, r);
  }

  static std::string place(const at::Tensor& t, std::size_t i) {
    if (t.dim() == 0) return "";
    std::vector<std::int64_t> at(t.sizes().size());
    for (std::size_t d = at.size(); d--;) {
      const auto n = static_cast<std::size_t>(t.sizes()[d]);
      at[d] = static_cast<std::int64_t>(i % n);
      i /= n;
    }
    return "element " + listed(at) + ": ";
  }

  static std::string of_integers(const at::Tensor& p, const at::Tensor& r) {
    const at::Tensor a = p.to(at::kLong).contiguous(), b = r.to(at::kLong).contiguous();
    const auto *x = a.const_data_ptr<std::int64_t>(), *y = b.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < a.numel(); ++i)
      if (x[i] != y[i]) {
        const auto text = [&](std::int64_t v) {
          return p.scalar_type() == at::kBool ? std::string(v ? "true" : "false") : std::to_string(v);
        };
        return two(place(p, static_cast<std::size_t>(i)), text(x[i]), text(y[i]));
      }
    return {};
  }

  std::string of_reals(std::size_t result, const at::Tensor& p, const at::Tensor& r) const {
    const std::vector<double> a = elements_of(p), b = elements_of(r);
    const Precision precision = precision_of(p.scalar_type());
    std::optional<Bounds> bounds;
    const bool signs = options_.law == VerifyOptions::Law::bits ||
                       (options_.law == VerifyOptions::Law::rounding && options_.signs_of_zeros && !p.is_complex());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = a[i], y = b[i];
      if (options_.finite_only && !std::isfinite(x)) continue;
      if (std::isnan(x) && std::isnan(y)) continue;
      if (x == y && (!signs || std::signbit(x) == std::signbit(y))) continue;
      if (options_.law == VerifyOptions::Law::rounding && x != y) {
        if (std::isfinite(x) && std::abs(x - y) <= 4 * precision.eps * std::abs(x)) continue;
        if (!bounds) bounds = bounds_for(result, p, a);
        if (bounds->admit(i, x, y, precision, options_.factor)) continue;
      }
      return two(place(p, i / (p.is_complex() ? 2 : 1)), repr(x), repr(y));
    }
    return {};
  }

  /// What the error of the replacement may be.
  struct Bounds {
    std::vector<double> exact;  // empty: not known
    std::vector<double> error;  // of the pattern itself
    std::vector<double> size;   // times eps, what it may be: of the values on the way, and by what inputs are rounded

    bool admit(std::size_t i, double x, double y, const Precision& p, double factor) const {
      const double truth = exact.empty() ? x : exact[i];
      if (!std::isfinite(truth)) return false;  // and the pattern says so too, or nothing is known
      if (!std::isfinite(y)) return std::isfinite(x) ? std::abs(truth) > 0.99 * p.largest : std::abs(truth) > p.largest;
      const double allowed = factor * ((std::isfinite(x) ? error[i] : 0) + p.eps * size[i] + p.least);
      return std::abs(y - truth) <= allowed || (std::isfinite(x) && std::abs(y - x) <= allowed);
    }
  };
  Bounds bounds_for(std::size_t result, const at::Tensor& p, const std::vector<double>& a) const {
    Bounds b;
    b.error.assign(a.size(), 0);
    b.size.assign(a.size(), 0);
    const Reference* reference = reference_();
    const bool known = reference && result < reference->exact.size() && reference->exact[result].sizes() == p.sizes() &&
                       reference->exact[result].is_complex() == p.is_complex();
    if (!known) {
      for (std::size_t i = 0; i < a.size(); ++i) b.size[i] = std::abs(a[i]);
      return b;
    }
    b.exact = elements_of(reference->exact[result]);
    for (std::size_t i = 0; i < a.size(); ++i) {
      b.error[i] = distance(a[i], b.exact[i]);
      b.size[i] = std::isfinite(b.exact[i]) ? std::abs(b.exact[i]) : 0;
    }
    for (const std::vector<at::Tensor>& results : reference->changed) {
      if (result >= results.size() || results[result].sizes() != p.sizes()) continue;
      const std::vector<double> changed = elements_of(results[result]);
      for (std::size_t i = 0; i < a.size(); ++i)
        b.size[i] = std::max(b.size[i], distance(changed[i], b.exact[i]) / Reference::change);
    }
    for (const at::Tensor& value : reference->on_the_way) {
      if (p.is_complex() || value.is_complex() || !reference->pointwise ||
          !at::is_expandable_to(value.sizes(), p.sizes())) {
        const double most = largest(elements_of(value));
        for (double& size : b.size) size = std::max(size, most);
      } else {
        const std::vector<double> elements = elements_of(value.expand(p.sizes()));
        for (std::size_t i = 0; i < a.size(); ++i)
          if (std::isfinite(elements[i])) b.size[i] = std::max(b.size[i], std::abs(elements[i]));
      }
    }
    if (!reference->pointwise) {
      std::fill(b.error.begin(), b.error.end(), largest(b.error));
      std::fill(b.size.begin(), b.size.end(), largest(b.size));
    }
    return b;
  }
  static double distance(double a, double b) { return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : 0; }
  static double largest(const std::vector<double>& values) {
    double most = 0;
    for (const double v : values)
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
    return most;
  }

  const VerifyOptions& options_;
  ReferenceOf reference_;
};

}  // namespace fxx::inline FXX_ABI::detail
