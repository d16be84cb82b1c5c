// One kernel for a whole pattern of pointwise operators, compiled with the program:
//
//   rule<"gate">(tanh(x) * sigmoid(y) >> fused)
//
// What matches becomes one call of a function whose name spells the expression and which takes what the pattern
// captures. On float32 tensors of the CPU, where no gradient is wanted, it is one vectorised loop
// (kernels/pointwise.hpp) over contiguous, broadcast or strided inputs, on several threads from 32,768 elements on. In
// every other case it calls the operators of the pattern, so dtypes, devices, gradients, fake tensors and tracing are
// theirs. Generated code has the operators.
// Main names: fused, pattern >> fused. Cost: light in a compiled build; a kernel takes the compiler a quarter of a
// second.
#pragma once

#include <array>
#include <bit>

#include "fxx/codegen/kernel_forms.hpp"
#include "fxx/kernels/pointwise.hpp"
#include "fxx/rewrite/functions.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

using rewrite::Term;
/// The term itself, without what stands around it.
constexpr int without_wrappers(const Term* all, int at) {
  while (all[at].kind == Term::Kind::where || all[at].kind == Term::Kind::named) ++at;
  return at;
}
/// Argument `i` of the call at `at`.
constexpr int argument_at(const Term* all, int at, int i) {
  int child = at + 1;
  for (; i > 0; --i) child += all[child].size;
  return without_wrappers(all, child);
}
constexpr bool is_tensor_capture(const Term& t) {
  return t.kind == Term::Kind::tensor || t.kind == Term::Kind::constant;
}
constexpr bool is_kernel_capture(const Term& t) { return is_tensor_capture(t) || t.kind == Term::Kind::scalar; }
constexpr bool is_number(const Term& t) {
  return (rewrite::is_constant(t) || t.kind == Term::Kind::near) && t.value->is_number();
}
constexpr bool is_none(const Term& t) { return rewrite::is_constant(t) && t.value->kind == Literal::Kind::none; }
constexpr bool stands_before(const Term* all, int at) {
  for (int i = 0; i < at; ++i)
    if (is_kernel_capture(all[i]) && all[i].id == all[at].id) return true;
  return false;
}
/// The number of the capture at `at` among the tensors, or among the numbers.
constexpr int number_of(const Term* all, int at) {
  int number = 0, first = 0;
  while (!is_kernel_capture(all[first]) || all[first].id != all[at].id) ++first;
  for (int i = 0; i < first; ++i)
    if (is_kernel_capture(all[i]) && is_tensor_capture(all[i]) == is_tensor_capture(all[at]) && !stands_before(all, i))
      ++number;
  return number;
}
constexpr int count_captures(const Term* all, bool tensors) {
  int count = 0;
  for (int i = 0; i < all->size; ++i)
    if (is_kernel_capture(all[i]) && is_tensor_capture(all[i]) == tensors && !stands_before(all, i)) ++count;
  return count;
}
constexpr bool is_comparison(kernels::Function f) {
  return f >= kernels::Function::less && f <= kernels::Function::not_equal;
}

struct KernelFault {
  enum class What : std::uint8_t { none, open, no_kernel };
  What what = What::none;
  int at = 0;
};
/// The first thing that a kernel cannot have in the term at `at`, where a comparison is wanted or a number.
constexpr KernelFault kernel_fault(const Term* all, int at, bool comparison) {
  using What = KernelFault::What;
  using Form = KernelForm::Form;
  at = without_wrappers(all, at);
  const Term& t = all[at];
  if (t.kind != Term::Kind::call) {
    if (is_number(t) || is_kernel_capture(t)) return {comparison ? What::open : What::none, at};
    return {What::open, at};
  }
  const KernelForm form = kernel_form(*t.op);
  const KernelFault no_kernel{What::no_kernel, at};
  if (form.form == Form::none) return no_kernel;
  if ((form.form == Form::plain && is_comparison(form.function)) != comparison) return no_kernel;
  int checked = t.children;
  if (form.form == Form::power) {
    const Term& exponent = all[argument_at(all, at, 1)];
    if (!is_number(exponent) || !has_power(exponent.value->number())) return no_kernel;
    checked = 1;
  } else if (form.form == Form::gelu) {
    const Term& how = all[argument_at(all, at, 1)];
    if (!rewrite::is_constant(how) || (how.value->string != "none" && how.value->string != "tanh")) return no_kernel;
    checked = 1;
  }
  for (int i = 0; i < checked; ++i) {
    const int argument = argument_at(all, at, i);
    if (form.form == Form::clamp && i > 0 && is_none(all[argument])) continue;
    const bool chooses = i == 0 && form.form == Form::plain && form.function == kernels::Function::select;
    const KernelFault fault = kernel_fault(all, argument, chooses);
    if (fault.what != What::none) return fault;
  }
  return {};
}

template <class P, int At>
consteval auto kernel_expression();
template <class P, int Call, int I>
consteval auto kernel_argument() {
  return kernel_expression<P, argument_at(rewrite::flat<P>.data(), Call, I)>();
}
template <kernels::Function F, class... A>
consteval kernels::Apply<F, A...> apply_kernel(A...) {
  return {};
}
template <class P, int Call, kernels::Function F, int... I>
consteval auto plain_kernel(kernels::detail::Indices<I...>) {
  return apply_kernel<F>(kernel_argument<P, Call, I>()...);
}
/// The type in kernels/expression.hpp of the term at `At`, which is without faults.
template <class P, int At>
consteval auto kernel_expression() {
  using Form = KernelForm::Form;
  using F = kernels::Function;
  constexpr const Term* all = rewrite::flat<P>.data();
  constexpr int at = without_wrappers(all, At);
  if constexpr (is_tensor_capture(all[at])) {
    return kernels::Input<number_of(all, at)>{};
  } else if constexpr (all[at].kind == Term::Kind::scalar) {
    return kernels::Number<number_of(all, at)>{};
  } else if constexpr (all[at].kind != Term::Kind::call) {
    return kernels::Constant<std::bit_cast<std::uint32_t>(static_cast<float>(all[at].value->number()))>{};
  } else {
    constexpr KernelForm form = kernel_form(*all[at].op);
    constexpr int second = all[at].children > 1 ? argument_at(all, at, 1) : at;
    constexpr int third = all[at].children > 2 ? argument_at(all, at, 2) : at;
    if constexpr (form.form == Form::plain) {
      return plain_kernel<P, at, form.function>(kernels::detail::indices<int(all[at].children)>());
    } else if constexpr (form.form == Form::alpha || form.form == Form::alpha_first) {
      constexpr int left = form.form == Form::alpha ? 0 : 1;
      if constexpr (is_number(all[third]) && all[third].value->number() == 1)
        return apply_kernel<form.function>(kernel_argument<P, at, left>(), kernel_argument<P, at, 1 - left>());
      else if constexpr (form.function == F::add)
        return apply_kernel<F::multiply_add>(kernel_argument<P, at, 1 - left>(), kernel_argument<P, at, 2>(),
                                             kernel_argument<P, at, left>());
      else
        return apply_kernel<F::multiply_add>(kernel_argument<P, at, 1 - left>(),
                                             apply_kernel<F::negate>(kernel_argument<P, at, 2>()),
                                             kernel_argument<P, at, left>());
    } else if constexpr (form.form == Form::power) {
      constexpr double exponent = all[second].value->number();
      constexpr auto base = kernel_argument<P, at, 0>();
      if constexpr (exponent == 1) return base;
      else if constexpr (exponent == 2) return apply_kernel<F::square>(base);
      else if constexpr (exponent == 3) return apply_kernel<F::multiply>(apply_kernel<F::square>(base), base);
      else if constexpr (exponent == 4) return apply_kernel<F::square>(apply_kernel<F::square>(base));
      else if constexpr (exponent == 0.5) return apply_kernel<F::square_root>(base);
      else if constexpr (exponent == -0.5) return apply_kernel<F::reciprocal_root>(base);
      else if constexpr (exponent == -1) return apply_kernel<F::reciprocal>(base);
      else return apply_kernel<F::reciprocal>(apply_kernel<F::square>(base));
    } else if constexpr (form.form == Form::clamp) {
      constexpr bool low = !is_none(all[second]), high = !is_none(all[third]);
      constexpr auto base = kernel_argument<P, at, 0>();
      if constexpr (low && high)
        return apply_kernel<F::minimum>(apply_kernel<F::maximum>(base, kernel_argument<P, at, 1>()),
                                        kernel_argument<P, at, 2>());
      else if constexpr (low) return apply_kernel<F::maximum>(base, kernel_argument<P, at, 1>());
      else if constexpr (high) return apply_kernel<F::minimum>(base, kernel_argument<P, at, 2>());
      else return base;
    } else if constexpr (form.form == Form::relu6) {
      return apply_kernel<F::minimum>(apply_kernel<F::relu>(kernel_argument<P, at, 0>()),
                                      kernels::Constant<std::bit_cast<std::uint32_t>(6.f)>{});
    } else {
      if constexpr (all[second].value->string == "tanh")
        return apply_kernel<F::gelu_by_tanh>(kernel_argument<P, at, 0>());
      else return apply_kernel<F::gelu>(kernel_argument<P, at, 0>());
    }
  }
}

template <rewrite::detail::word Name, bool HasKernel>
consteval void operator_has_kernel() {
  static_assert(HasKernel,
                "fxx::fused: an operator of the pattern has no kernel in this form; docs/writing_rules.md lists those "
                "that have, and a callable on the right may build anything");
}
template <class P>
consteval bool check_fused() {
  constexpr const Term* all = rewrite::flat<P>.data();
  constexpr KernelFault fault = kernel_fault(all, 0, false);
  if constexpr (fault.what == KernelFault::What::no_kernel) {
    constexpr std::string_view name = all[fault.at].op->name;
    operator_has_kernel<rewrite::detail::word<name.size()>(name), false>();
    return false;
  } else {
    constexpr bool open = fault.what == KernelFault::What::open;
    static_assert(!open,
                  "fxx::fused: the pattern leaves open what is computed; a kernel is made of one expression over "
                  "tensor<\"x\">, scalar<\"s\"> and numbers");
    constexpr int tensors = open ? 1 : count_captures(all, true), numbers = open ? 0 : count_captures(all, false);
    constexpr bool fits = tensors >= 1 && tensors <= kernels::max_inputs && numbers <= kernels::max_numbers;
    static_assert(fits, "fxx::fused: a kernel takes one to eight tensors, and no more than eight numbers");
    return !open && fits;
  }
}

/// A pattern that is computed by a kernel.
struct FusedPattern {
  const Term* terms;
  const kernels::Kernel* kernel;
};
template <class P>
inline constexpr FusedPattern fused_pattern = {rewrite::flat<P>.data(),
                                               &kernels::kernel<decltype(kernel_expression<P, 0>())>};
/// The call that takes the place of what was matched.
Argument call_fused(const FusedPattern& pattern, const rewrite::Match& match);

}  // namespace detail

namespace rewrite {
struct fused_marker {};
/// The replacement of `pattern >> fused`.
template <class P>
struct fused_by {
  Argument operator()(const Match& match) const {
    return fxx::detail::call_fused(fxx::detail::fused_pattern<P>, match);
  }
};
struct not_fused {
  Argument operator()(const Match&) const;
};

/// The pattern as one kernel.
template <Pattern P>
consteval auto operator>>(P p, fused_marker) {
  if constexpr (P::mistaken) {
    return p >> not_fused{};
  } else {
    constexpr bool sound = fxx::detail::check_fused<P>();
    if constexpr (sound) return p >> fused_by<P>{};
    else return p >> not_fused{};
  }
}
}  // namespace rewrite

namespace pattern {
/// Stands on the right of a rule: what the pattern computes, as one kernel.
inline constexpr rewrite::fused_marker fused{};
}  // namespace pattern

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/fused.ipp"
#endif
