// Lowering of what is computed element by element.
#pragma once

#include "fxx/codegen/kernel_forms.hpp"
#include "fxx/codegen/lower/terms.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Functions that fused kernels of rules do not have.
inline constexpr detail::KernelForm more_forms[] = {
#define FXX_FORM(name_, function_) \
  { "aten::" name_, detail::KernelForm::Form::plain, kernels::Function::function_ }
    FXX_FORM("sin", sine),
    FXX_FORM("cos", cosine),
    FXX_FORM("tan", tangent),
    FXX_FORM("asin", arc_sine),
    FXX_FORM("acos", arc_cosine),
    FXX_FORM("atan", arc_tangent),
    FXX_FORM("sinh", hyperbolic_sine),
    FXX_FORM("cosh", hyperbolic_cosine),
    FXX_FORM("asinh", inverse_hyperbolic_sine),
    FXX_FORM("acosh", inverse_hyperbolic_cosine),
    FXX_FORM("atanh", inverse_hyperbolic_tangent),
    FXX_FORM("exp2", exponential_2),
    FXX_FORM("log2", logarithm_2),
    FXX_FORM("log10", logarithm_10),
    FXX_FORM("log1p", logarithm_1_plus),
    FXX_FORM("erfc", complementary_error),
    FXX_FORM("round", rounded),
    FXX_FORM("floor", floor),
    FXX_FORM("ceil", ceiling),
    FXX_FORM("trunc", truncated),
    FXX_FORM("sign", sign),
    FXX_FORM("selu", selu),
    FXX_FORM("celu", celu),
    FXX_FORM("pow.Tensor_Tensor", power),
    FXX_FORM("atan2", arc_tangent_2),
    FXX_FORM("fmod.Tensor", rest_of_division),
    FXX_FORM("fmod.Scalar", rest_of_division),
    FXX_FORM("remainder.Tensor", remainder),
    FXX_FORM("remainder.Scalar", remainder),
    FXX_FORM("floor_divide", floor_divide),
    FXX_FORM("isnan", is_nan),
    FXX_FORM("isinf", is_infinite),
    FXX_FORM("isfinite", is_finite),
    FXX_FORM("max.other", maximum),
    FXX_FORM("min.other", minimum),
#undef FXX_FORM
};
FXX_INLINE detail::KernelForm form_of(const Operator& op) {
  const detail::KernelForm form = detail::kernel_form(op);
  if (form.form != detail::KernelForm::Form::none) return form;
  for (const detail::KernelForm& more : more_forms)
    if (more.name == op.name) return more;
  return {};
}

/// True when the operator has a form in kernel_forms; the node's value is an expression then.
FXX_INLINE bool Lowering::pointwise(const Node& node, const Operator& op) {
  using detail::KernelForm;
  using Form = KernelForm::Form;
  using F = kernels::Function;
  const KernelForm form = form_of(op);
  if (form.form == Form::none) return false;
  const Sizes& sizes = sizes_of(node);
  const Dtype dtype = meta_of(node).dtype;
  const bool compares = form.form == Form::plain && form.function >= F::less && form.function <= F::is_finite;
  if (dtype != (compares ? Dtype::boolean : Dtype::float32)) throw NoKernel{std::string(name_of(dtype))};

  std::vector<Argument> given;
  for (int i = 0; i < op.arity(); ++i) given.push_back(argument_or_default(node, op, i));
  std::size_t count = given.size();
  if (form.form == Form::power) count = 1;
  else if (form.form == Form::gelu || form.form == Form::relu6) count = 1;
  if (form.form == Form::plain && op.index_of("rounding_mode") >= 0) throw NoKernel{"division that rounds"};
  std::vector<const Node*> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i].is_none() && form.form == Form::clamp) continue;
    if (given[i].is_node()) {
      const Dtype kind = meta_of(*given[i].node()).dtype;
      const bool chooses = form.form == Form::plain && form.function == F::select && i == 0;
      if (kind != (chooses ? Dtype::boolean : Dtype::float32)) throw NoKernel{std::string(name_of(kind))};
      nodes.push_back(given[i].node());
    } else if (!given[i].is_number()) {
      throw NoKernel{"an argument that is not a number"};
    }
  }
  Joined joined;
  switch (nodes.size()) {
    case 0: throw NoKernel{"no tensor"};
    case 1: joined = join({nodes[0]}, sizes); break;
    case 2: joined = join({nodes[0], nodes[1]}, sizes); break;
    default: joined = join({nodes[0], nodes[1], nodes[2]}, sizes); break;
  }
  const auto term = [&](std::size_t i) {
    return given[i].is_node() ? term_of(*given[i].node(), sizes) : number_of(given[i].number());
  };
  TermPointer result;
  if (form.form == Form::plain) {
    std::vector<TermPointer> operands;
    for (std::size_t i = 0; i < count; ++i) operands.push_back(term(i));
    result = call_of(form.function, std::move(operands));
  } else if (form.form == Form::alpha || form.form == Form::alpha_first) {
    TermPointer left = term(0), right = term(1);
    if (form.form == Form::alpha_first) std::swap(left, right);
    const double alpha = given[2].number();
    if (alpha != 1) right = call_of(F::multiply, {right, number_of(alpha)});
    result = call_of(form.function, {left, right});
  } else if (form.form == Form::power) {
    if (!given[1].is_number() || !detail::has_power(given[1].number())) throw NoKernel{"a power with this exponent"};
    const double exponent = given[1].number();
    const TermPointer x = term(0);
    if (exponent == 1) result = x;
    else if (exponent == 2) result = call_of(F::square, {x});
    else if (exponent == 3) result = call_of(F::multiply, {call_of(F::square, {x}), x});
    else if (exponent == 4) result = call_of(F::square, {call_of(F::square, {x})});
    else if (exponent == 0.5) result = call_of(F::square_root, {x});
    else if (exponent == -0.5) result = call_of(F::reciprocal_root, {x});
    else if (exponent == -1) result = call_of(F::reciprocal, {x});
    else result = call_of(F::reciprocal, {call_of(F::square, {x})});
  } else if (form.form == Form::clamp) {
    result = term(0);
    if (!given[1].is_none()) result = call_of(F::maximum, {result, term(1)});
    if (!given[2].is_none()) result = call_of(F::minimum, {result, term(2)});
  } else if (form.form == Form::relu6) {
    result = call_of(F::minimum, {call_of(F::relu, {term(0)}), number_of(6)});
  } else {
    const bool tanh = given[1].kind() == Argument::Kind::string && given[1].string() == "tanh";
    result = call_of(tanh ? F::gelu_by_tanh : F::gelu, {term(0)});
  }
  set_pending(node, joined.root, std::move(result), std::move(joined.nodes));
  return true;
}

FXX_INLINE void Lowering::masked_fill(const Node& node, const Operator& op) {
  require_float(node);
  const Node& self = operand(node, op, "self");
  const Node& mask = operand(node, op, "mask");
  const Argument value = argument(node, op, "value");
  if (!value.is_number()) throw NoKernel{"a value that is not a number"};
  const Sizes& sizes = sizes_of(node);
  Joined joined = join({&self, &mask}, sizes);
  TermPointer result =
      call_of(kernels::Function::select, {term_of(mask, sizes), number_of(value.number()), term_of(self, sizes)});
  set_pending(node, joined.root, std::move(result), std::move(joined.nodes));
}

/// Rows of a table, which may be added to others, or normalised, where they are read.
FXX_INLINE void Lowering::embedding(const Node& node, const Operator& op) {
  require_float(node);
  const Node& table = operand(node, op, "weight");
  const Node& indices = operand(node, op, "indices");
  if (meta_of(indices).dtype != Dtype::int64)
    throw NoKernel{"indices that are " + std::string(name_of(meta_of(indices).dtype))};
  const View rows = view_of(table), index = view_of(indices);
  if (rows.strides[1] != 1) throw NoKernel{"a table whose rows do not lie behind each other"};
  Term term;
  term.kind = Term::Kind::lookup;
  term.view = rows;
  View wide = index;
  wide.sizes.push_back(rows.sizes[1]);
  wide.strides.push_back(0);
  term.operands = {load_of(std::move(wide))};
  set_pending(node, nullptr, std::make_shared<const Term>(std::move(term)));
}

/// zeros, ones, full and their like: a number wherever it is read. What is empty is soon filled.
FXX_INLINE void Lowering::constant(const Node& node, const Operator& op) {
  require_float(node);
  double value = op.base_name().find("ones") != std::string_view::npos ? 1 : 0;
  if (op.index_of("fill_value") >= 0) {
    const Argument given = argument(node, op, "fill_value");
    if (!given.is_number()) throw NoKernel{"a value that is not a number"};
    value = given.number();
  }
  set_pending(node, nullptr, number_of(value));
}

FXX_INLINE void Lowering::fill(const Node& node, const Operator& op) {
  require_float(node);
  const Argument value = argument(node, op, "value");
  if (value.is_number()) return set_pending(node, nullptr, number_of(value.number()));
  const Node& from = operand(node, op, "value");
  require_float(from);
  view_of(from);
  set_pending(node, nullptr, term_of(from, sizes_of(node)));
}

/// and, or, xor, not of comparisons.
FXX_INLINE void Lowering::logic(const Node& node, const Operator& op) {
  using F = kernels::Function;
  if (meta_of(node).dtype != Dtype::boolean) throw NoKernel{std::string(name_of(meta_of(node).dtype))};
  const std::string_view name = op.base_name();
  const F function = name.ends_with("and")   ? F::logical_and
                     : name.ends_with("xor") ? F::logical_xor
                     : name.ends_with("or")  ? F::logical_or
                                             : F::logical_not;
  const Node& first = operand(node, op, "self");
  const Node* second = function == F::logical_not ? nullptr : &operand(node, op, "other");
  for (const Node* input : {&first, second})
    if (input && meta_of(*input).dtype != Dtype::boolean) throw NoKernel{std::string(name_of(meta_of(*input).dtype))};
  const Sizes& sizes = sizes_of(node);
  Joined joined = join({&first, second}, sizes);
  std::vector<TermPointer> operands = {term_of(first, sizes)};
  if (second) operands.push_back(term_of(*second, sizes));
  set_pending(node, joined.root, call_of(function, std::move(operands)), std::move(joined.nodes));
}

FXX_INLINE void Lowering::elu(const Node& node, const Operator& op) {
  require_float(node);
  const Node& self = operand(node, op, "self");
  const Argument alpha = argument(node, op, "alpha"), scale = argument(node, op, "scale"),
                 inner = argument(node, op, "input_scale");
  if (!alpha.is_number() || !scale.is_number() || scale.number() != 1 || !inner.is_number() || inner.number() != 1)
    throw NoKernel{"elu with scales"};
  const Sizes& sizes = sizes_of(node);
  Joined joined = join({&self}, sizes);
  set_pending(node, joined.root, call_of(kernels::Function::elu, {term_of(self, sizes), number_of(alpha.number())}),
              std::move(joined.nodes));
}

}  // namespace fxx::inline FXX_ABI::plans
