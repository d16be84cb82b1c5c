// Lowering of operators that are written down as others, element by element.
//
// Each is a line of a table: what it is of its arguments' elements. Values are LibTorch's, at infinities and nan too.
#pragma once

#include <cmath>
#include <limits>

#include "fxx/codegen/lower/pointwise.ipp"
#include "fxx/codegen/lower/terms.ipp"

namespace fxx::inline FXX_ABI::plans {

/// The arguments of a call: `term(i)` of tensors and numbers, as what the operator is computed with.
struct ComposedCall {
  std::vector<Argument> given;
  std::vector<TermPointer> terms;

  const TermPointer& term(std::size_t i) const {
    if (!terms[i]) throw NoKernel{"an argument that is not a number"};
    return terms[i];
  }
  bool has(std::size_t i) const { return !given[i].is_none(); }
  double number(std::size_t i) const {
    if (!given[i].is_number()) throw NoKernel{"an argument that is not a number"};
    return given[i].number();
  }
  VectorsOfLibtorch vectors = {};  // where LibTorch computes with those of AVX2
  bool flag(std::size_t i) const { return given[i].kind() == Argument::Kind::boolean && given[i].boolean(); }
};

namespace composing {
using F = kernels::Function;
using T = TermPointer;
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double pi = 3.14159265358979323846;

/// A number of the elements of `like`.
FXX_INLINE T number(double value, const T& like) {
  return like->elements == Elements::integer ? integer_of(static_cast<std::int64_t>(value)) : number_of(value);
}
FXX_INLINE T of(F function, T x) { return call_of(function, {std::move(x)}); }
FXX_INLINE T of(F function, T x, T y) { return call_of(function, {std::move(x), std::move(y)}); }
FXX_INLINE T of(F function, T x, double y) {
  T right = number(y, x);
  return call_of(function, {std::move(x), std::move(right)});
}
FXX_INLINE T add(T x, T y) { return of(F::add, std::move(x), std::move(y)); }
FXX_INLINE T less(T x, T y) { return of(F::subtract, std::move(x), std::move(y)); }
FXX_INLINE T times(T x, T y) { return of(F::multiply, std::move(x), std::move(y)); }
FXX_INLINE T by(T x, T y) { return of(F::divide, std::move(x), std::move(y)); }
FXX_INLINE T both(T x, T y) { return of(F::logical_and, std::move(x), std::move(y)); }
FXX_INLINE T either(T x, T y) { return of(F::logical_or, std::move(x), std::move(y)); }
FXX_INLINE T choose(T where, T yes, T no) {
  return call_of(F::select, {std::move(where), std::move(yes), std::move(no)});
}
/// 1 - x.
FXX_INLINE T rest_of_one(const T& x) { return less(number_of(1), x); }

FXX_INLINE T nan_to_num(const ComposedCall& c) {
  const T& x = c.term(0);
  const double most = std::numeric_limits<float>::max();
  const auto or_else = [&](std::size_t i, double otherwise) { return number_of(c.has(i) ? c.number(i) : otherwise); };
  const T finite =
      choose(of(F::equal, x, infinite), or_else(2, most), choose(of(F::equal, x, -infinite), or_else(3, -most), x));
  return choose(of(F::is_nan, x), or_else(1, 0), finite);
}
FXX_INLINE T logit(const ComposedCall& c) {
  T x = c.term(0);
  if (c.has(1)) {
    // Above a half the limits have changed places; the first that holds is taken.
    const double low = c.number(1), high = 1.f - static_cast<float>(low);
    x = choose(of(F::less, x, low), number_of(low), choose(of(F::greater, x, high), number_of(high), x));
  }
  return of(F::logarithm, by(x, rest_of_one(x)));
}
FXX_INLINE T sinc(const ComposedCall& c) {
  const T x = c.term(0), turned = of(F::multiply, x, static_cast<float>(pi));
  return choose(of(F::equal, x, 0), number_of(1), by(of(F::sine, turned), turned));
}
FXX_INLINE T rounded_to_decimals(const ComposedCall& c) {
  const double places = c.number(1), ten = std::pow(10., std::abs(places));
  if (places == 0) return of(F::rounded, c.term(0));
  if (places > 0) return of(F::divide, of(F::rounded, of(F::multiply, c.term(0), ten)), ten);
  return of(F::multiply, of(F::rounded, of(F::divide, c.term(0), ten)), ten);
}
FXX_INLINE T softshrink(const ComposedCall& c) {
  const T& x = c.term(0);
  const double by = c.number(1);
  // What is cut off keeps its sign but in vectors; nan is nan.
  T none = of(F::multiply, x, 0);
  const T zero = of(F::absolute, none);
  if (c.vectors.somewhere) none = c.vectors.everywhere ? zero : choose(c.vectors.where, zero, none);
  return choose(of(F::greater, x, by), of(F::subtract, x, by), choose(of(F::less, x, -by), of(F::add, x, by), none));
}
FXX_INLINE T hypotenuse(const ComposedCall& c) {
  const T x = of(F::absolute, c.term(0)), y = of(F::absolute, c.term(1));
  const T most = of(F::maximum, x, y), ratio = by(of(F::minimum, x, y), most);
  const T size = times(most, of(F::square_root, of(F::add, of(F::square, ratio), 1)));
  return choose(of(F::equal, most, 0), number_of(0),
                choose(either(of(F::equal, x, infinite), of(F::equal, y, infinite)), number_of(infinite), size));
}
/// fmax and fmin: nan only where both are.
template <F Extreme>
FXX_INLINE T extreme_number(const ComposedCall& c) {
  const T &x = c.term(0), &y = c.term(1);
  if (x->elements == Elements::integer) return of(Extreme, x, y);
  return choose(of(F::is_nan, y), x, choose(of(F::is_nan, x), y, of(Extreme, y, x)));  // of two zeros the first
}
FXX_INLINE T lerp(const ComposedCall& c) {
  const T &x = c.term(0), &end = c.term(1), &weight = c.term(2);
  const T way = less(end, x);
  const auto near = [&] { return multiplied_and_added(weight, way, x); };
  const auto far = [&] { return multiplied_and_added(way, of(F::subtract, weight, 1), end); };
  if (weight->kind == Term::Kind::number) return std::abs(static_cast<float>(weight->number)) < 0.5f ? near() : far();
  return choose(of(F::less, of(F::absolute, weight), 0.5), near(), far());
}
FXX_INLINE T log_add_exp(const ComposedCall& c) {
  const T &x = c.term(0), &y = c.term(1);
  const T rest = of(F::logarithm_1_plus, of(F::exponential, of(F::negate, of(F::absolute, less(x, y)))));
  return choose(both(of(F::equal, x, y), of(F::is_infinite, x)), x, add(of(F::maximum, x, y), rest));
}
FXX_INLINE T log_add_exp_2(const ComposedCall& c) {
  const T &x = c.term(0), &y = c.term(1);
  const T rest = of(F::logarithm_1_plus, of(F::exponential_2, of(F::negate, of(F::absolute, less(x, y)))));
  return choose(both(of(F::equal, x, y), of(F::is_infinite, x)), x,
                multiplied_and_added(rest, number_of(1.4426950408889634), of(F::maximum, x, y)));
}
/// x times the logarithm of y, or of 1 + y; 0 where x is.
template <F Logarithm>
FXX_INLINE T x_log_y(const ComposedCall& c) {
  const T &x = c.term(0), &y = c.term(1);
  return choose(of(F::is_nan, y), y, choose(of(F::equal, x, 0), number_of(0), times(x, of(Logarithm, y))));
}
FXX_INLINE T entropy(const ComposedCall& c) {
  const T& x = c.term(0);
  const T inside = of(F::negate, times(x, of(F::logarithm, x)));
  return choose(of(F::is_nan, x), x,
                choose(of(F::greater, x, 0), inside, choose(of(F::equal, x, 0), number_of(0), number_of(-infinite))));
}
FXX_INLINE T is_close(const ComposedCall& c) {
  const T &x = c.term(0), &y = c.term(1);
  T close = of(F::equal, x, y);
  if (c.flag(4)) close = either(close, both(of(F::is_nan, x), of(F::is_nan, y)));
  if (c.number(2) == 0 && c.number(3) == 0) return close;
  const T allowed = of(F::add, of(F::absolute, of(F::multiply, y, c.number(2))), c.number(3));
  const T differs = of(F::absolute, less(x, y));
  return either(close, both(of(F::is_finite, differs), of(F::less_or_equal, differs, allowed)));
}
FXX_INLINE T addcmul(const ComposedCall& c) {
  T left = c.term(1);
  if (c.number(3) != 1) left = times(left, c.term(3));
  return multiplied_and_added(left, c.term(2), c.term(0));
}
FXX_INLINE T addcdiv(const ComposedCall& c) {
  T above = c.term(1);
  if (c.number(3) != 1) above = times(c.term(3), above);
  return add(c.term(0), by(above, c.term(2)));
}
}  // namespace composing

struct Composition {
  std::string_view name;
  TermPointer (*of)(const ComposedCall&);
  bool integers = false;  // does it exist of integers?
};
FXX_INLINE const Composition* composition_of(const Operator& op) {
  using namespace composing;
  using C = const ComposedCall&;
  static constexpr Composition all[] = {
      {"aten::addcmul", addcmul, true},
      {"aten::addcdiv", addcdiv},
      {"aten::lerp.Scalar", lerp},
      {"aten::lerp.Tensor", lerp},
      {"aten::threshold", [](C c) { return choose(of(F::less_or_equal, c.term(0), c.term(1)), c.term(2), c.term(0)); },
       true},
      {"aten::hardshrink",
       [](C c) {
         return choose(
             both(of(F::greater_or_equal, c.term(0), -c.number(1)), of(F::less_or_equal, c.term(0), c.number(1))),
             number_of(0), c.term(0));
       }},
      {"aten::softshrink", softshrink},
      {"aten::rrelu",
       [](C c) {
         if (c.flag(3)) throw NoKernel{"random numbers"};
         return of(F::leaky_relu, c.term(0), (c.number(1) + c.number(2)) / 2);
       }},
      {"aten::nan_to_num", nan_to_num},
      {"aten::logit", logit},
      {"aten::sinc", sinc},
      {"aten::frac", [](C c) { return less(c.term(0), of(F::truncated, c.term(0))); }},
      {"aten::deg2rad", [](C c) { return of(F::multiply, c.term(0), pi / 180); }},
      {"aten::rad2deg", [](C c) { return of(F::multiply, c.term(0), 180 / pi); }},
      {"aten::round.decimals", rounded_to_decimals},
      {"aten::angle",
       [](C c) {
         return choose(of(F::less, c.term(0), 0.), number_of(pi),
                       choose(of(F::is_nan, c.term(0)), c.term(0), number_of(0)));
       }},
      {"aten::hypot", hypotenuse},
      {"aten::fmax", extreme_number<F::maximum>, true},
      {"aten::fmin", extreme_number<F::minimum>, true},
      {"aten::ldexp.Tensor", [](C c) { return times(c.term(0), of(F::exponential_2, c.term(1))); }},
      {"aten::logaddexp", log_add_exp},
      {"aten::logaddexp2", log_add_exp_2},
      {"aten::xlogy.Tensor", x_log_y<F::logarithm>},
      {"aten::xlogy.Scalar_Other", x_log_y<F::logarithm>},
      {"aten::xlogy.Scalar_Self", x_log_y<F::logarithm>},
      {"aten::special_xlog1py", x_log_y<F::logarithm_1_plus>},
      {"aten::special_xlog1py.other_scalar", x_log_y<F::logarithm_1_plus>},
      {"aten::special_xlog1py.self_scalar", x_log_y<F::logarithm_1_plus>},
      {"aten::special_entr", entropy},
      {"aten::special_ndtr",
       [](C c) {
         return of(F::multiply, of(F::add, of(F::error, of(F::multiply, c.term(0), 0.70710678118654752)), 1), 0.5);
       }},
      {"aten::heaviside",
       [](C c) {
         return choose(of(F::equal, c.term(0), 0.), c.term(1),
                       choose(of(F::greater, c.term(0), 0.), number_of(1), number_of(0)));
       }},
      {"aten::signbit", [](C c) { return of(F::less, of(F::copy_sign, number_of(1), c.term(0)), 0.); }},
      {"aten::isposinf", [](C c) { return of(F::equal, c.term(0), infinite); }},
      {"aten::isneginf", [](C c) { return of(F::equal, c.term(0), -infinite); }},
      {"aten::isclose", is_close},
      {"aten::isin.Tensor_Scalar", [](C c) { return of(c.flag(3) ? F::not_equal : F::equal, c.term(0), c.term(1)); },
       true},
  };
  for (const Composition& one : all)
    if (one.name == op.name) return &one;
  return nullptr;
}

/// True when the operator is one of those above; the node's value is an expression then.
FXX_INLINE bool Lowering::composed(const Node& node, const Operator& op) {
  const Composition* composition = composition_of(op);
  if (!composition) return false;
  require_elements(node);
  const Dtype dtype = meta_of(node).dtype;
  const Sizes& sizes = sizes_of(node);
  ComposedCall call;
  std::vector<const Node*> nodes;
  bool real = dtype == Dtype::float32;
  for (int i = 0; i < op.arity(); ++i) {
    call.given.push_back(argument_or_default(node, op, i));
    if (!call.given.back().is_node()) continue;
    nodes.push_back(call.given.back().node());
    require_elements(*nodes.back());
    real = real || meta_of(*nodes.back()).dtype == Dtype::float32;
  }
  const Elements elements = real ? Elements::real : Elements::integer;
  if (nodes.empty() || nodes.size() > 3) throw NoKernel{"no tensor"};
  if (elements == Elements::integer && !composition->integers)
    throw NoKernel{std::string(name_of(meta_of(*nodes[0]).dtype))};
  nodes.resize(3, nullptr);
  Joined joined = join({nodes[0], nodes[1], nodes[2]}, sizes);
  const bool integers = elements == Elements::integer && is_integer(dtype);
  for (Argument& given : call.given) {
    if (integers) given = as_operand(given, dtype);
    TermPointer term;
    if (given.is_node()) {
      term = converted(term_of(*given.node(), sizes), elements);
      if (integers) term = as_operand(std::move(term), meta_of(*given.node()).dtype, dtype);
    } else if (given.is_number() && (real || given.kind() != Argument::Kind::real)) {
      term = scalar_of(given, elements);
    }
    call.terms.push_back(std::move(term));
  }
  if (op.name == "aten::softshrink") call.vectors = vectors_of_libtorch(node, {nodes[0]}, 16);
  TermPointer result = wrapped(converted(composition->of(call), elements_of(dtype)), dtype);
  set_pending(node, joined.root, std::move(result), std::move(joined.nodes));
  return true;
}

}  // namespace fxx::inline FXX_ABI::plans
