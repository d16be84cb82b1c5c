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
    FXX_FORM("floor_divide.Scalar", floor_divide),
    FXX_FORM("isnan", is_nan),
    FXX_FORM("isinf", is_infinite),
    FXX_FORM("isfinite", is_finite),
    FXX_FORM("max.other", maximum),
    FXX_FORM("min.other", minimum),
    FXX_FORM("where.Scalar", select),
    FXX_FORM("pow.Scalar", power),
    FXX_FORM("remainder.Scalar_Tensor", remainder),
    FXX_FORM("copysign.Tensor", copy_sign),
    FXX_FORM("copysign.Scalar", copy_sign),
    FXX_FORM("bitwise_left_shift.Tensor", shift_left),
    FXX_FORM("bitwise_left_shift.Tensor_Scalar", shift_left),
    FXX_FORM("bitwise_left_shift.Scalar_Tensor", shift_left),
    FXX_FORM("bitwise_right_shift.Tensor", shift_right),
    FXX_FORM("bitwise_right_shift.Tensor_Scalar", shift_right),
    FXX_FORM("bitwise_right_shift.Scalar_Tensor", shift_right),
#undef FXX_FORM
};
FXX_INLINE detail::KernelForm form_of(std::string_view name) {
  for (const detail::KernelForm& form : detail::kernel_forms)
    if (form.name == name) return form;
  for (const detail::KernelForm& more : more_forms)
    if (more.name == name) return more;
  return {};
}
FXX_INLINE bool divides_integers(kernels::Function function) {
  using F = kernels::Function;
  return function == F::floor_divide || function == F::remainder || function == F::rest_of_division;
}

/// Does the function exist of integers? Those that divide do, by tensors, and by numbers other than 0, of which LibTorch
/// throws.
FXX_INLINE bool has_integers(const detail::KernelForm& form, const std::vector<Argument>& given) {
  using Form = detail::KernelForm::Form;
  using F = kernels::Function;
  switch (form.form) {
    case Form::alpha:
    case Form::alpha_first:
    case Form::clamp: return true;
    case Form::power: return given[1].kind() == Argument::Kind::integer && given[1].integer() >= 0;
    case Form::plain: break;
    default: return false;
  }
  switch (form.function) {
    case F::floor_divide:
    case F::remainder:
    case F::rest_of_division:
      return given[1].is_node() || (given[1].kind() == Argument::Kind::integer && given[1].integer() != 0);
    case F::shift_left:
    case F::shift_right:
    case F::negate:
    case F::absolute:
    case F::square:
    case F::relu:
    case F::sign:
    case F::multiply:
    case F::maximum:
    case F::minimum:
    case F::select: return true;
    default: return form.function >= F::less && form.function <= F::not_equal;
  }
}

/// What LibTorch makes of functions of two masks, which is logic; nothing for what it has not.
FXX_INLINE std::optional<kernels::Function> function_of_masks(const detail::KernelForm& form) {
  using F = kernels::Function;
  if (form.form != detail::KernelForm::Form::plain && form.form != detail::KernelForm::Form::alpha) return {};
  switch (form.function) {
    case F::add:
    case F::maximum: return F::logical_or;
    case F::multiply:
    case F::minimum: return F::logical_and;
    case F::select: return F::select;
    default: return {};
  }
}
/// x to a power that is a number.
FXX_INLINE TermPointer power_of(const TermPointer& x, double exponent) {
  using F = kernels::Function;
  if (x->elements == Elements::integer) {
    auto rest = static_cast<std::uint64_t>(exponent);
    TermPointer result, factor = x;
    for (; rest > 0; rest >>= 1) {
      if (rest & 1) result = result ? call_of(F::multiply, {result, factor}) : factor;
      if (rest > 1) factor = call_of(F::square, {factor});
    }
    return result ? result : integer_of(1);
  }
  if (exponent == 1) return x;
  if (exponent == 2) return call_of(F::square, {x});
  if (exponent == 3) return call_of(F::multiply, {call_of(F::square, {x}), x});
  if (exponent == 4) return call_of(F::square, {call_of(F::square, {x})});
  if (exponent == 0.5) return call_of(F::square_root, {x});
  if (exponent == -0.5) return call_of(F::reciprocal_root, {x});
  if (exponent == -1) return call_of(F::reciprocal, {x});
  if (exponent == -2) return call_of(F::reciprocal, {call_of(F::square, {x})});
  return call_of(F::power, {x, number_of(exponent)});
}

/// One or the other by a mask. Of masks, which are all ones or none, by logic.
FXX_INLINE TermPointer choice_of(const TermPointer& mask, TermPointer chosen, TermPointer other) {
  using F = kernels::Function;
  if (other->elements != Elements::mask) return call_of(F::select, {mask, std::move(chosen), std::move(other)});
  return call_of(F::logical_or, {call_of(F::logical_and, {mask, std::move(chosen)}),
                                 call_of(F::logical_and, {call_of(F::logical_not, {mask}), std::move(other)})});
}

/// x * y + z, rounded once, as LibTorch's kernels compute it within an operator. Of integers it is two calls.
FXX_INLINE TermPointer multiplied_and_added(TermPointer x, TermPointer y, TermPointer z) {
  using F = kernels::Function;
  if (z->elements == Elements::real) return call_of(F::multiply_add, {std::move(x), std::move(y), std::move(z)});
  return call_of(F::add, {std::move(z), call_of(F::multiply, {std::move(x), std::move(y)})});
}

FXX_INLINE VectorsOfLibtorch Lowering::vectors_of_libtorch(const Node& node, std::initializer_list<const Node*> operands,
                                                           std::int64_t at_once) const {
  const TensorMeta& meta = meta_of(node);
  const std::int64_t count = meta.numel();
  if (at_once <= 0 || count < at_once || meta.stride.size() != meta.shape.size()) return {};
  for (const Node* operand : operands) {
    if (!operand || meta_of(*operand).numel() == 1) continue;
    if (meta_of(*operand).shape != meta.shape || meta_of(*operand).stride != meta.stride) return {};
  }
  // The largest place is the last of them all where no memory lies between two elements.
  std::int64_t last = 0;
  Term place;
  place.kind = Term::Kind::position;
  place.elements = Elements::integer;
  place.view = {-1, 0, meta.shape, Sizes(meta.stride.begin(), meta.stride.end())};
  for (std::size_t d = 0; d < meta.shape.size(); ++d) {
    last += (meta.shape[d] - 1) * meta.stride[d];
    if (meta.shape[d] == 1) place.view.strides[d] = 0;
  }
  if (last != count - 1) return {};
  const std::int64_t whole = count / at_once * at_once;
  if (whole == count) return {true, true};
  return {true, false,
          call_of(kernels::Function::less, {std::make_shared<const Term>(std::move(place)), integer_of(whole)})};
}

/// softplus, which is infinite where LibTorch's e^x is: a threshold beyond that leaves it such numbers.
FXX_INLINE TermPointer endless_softplus(TermPointer result) {
  using F = kernels::Function;
  const TermPointer &x = result->operands[0], &beta = result->operands[1], &threshold = result->operands[2];
  const bool harmless = threshold->kind == Term::Kind::number && threshold->number < 88.7;
  if (harmless) return result;
  const TermPointer z = call_of(F::multiply, {x, beta});
  const TermPointer overflows = call_of(F::logical_and, {call_of(F::greater_or_equal, {z, number_of(88.72283935546875)}),
                                                         call_of(F::less_or_equal, {z, threshold})});
  return call_of(F::select, {overflows, call_of(F::divide, {number_of(INFINITY), beta}), result});
}

FXX_INLINE TermPointer Lowering::as_in_vectors(const Node& node, const std::vector<const Node*>& operands,
                                               TermPointer result) const {
  using F = kernels::Function;
  const F function = result->function;
  if (result->kind == Term::Kind::call && function == F::softplus) return endless_softplus(std::move(result));
  const bool hyperbolic = function == F::hyperbolic_sine || function == F::hyperbolic_cosine;
  if (result->kind != Term::Kind::call) return result;
  if (!hyperbolic && function != F::rest_of_division && function != F::remainder) return result;
  // Kernels that LibTorch has not built for AVX-512 take vectors of AVX2.
  const std::int64_t lanes = std::min(options_.libtorch_lanes, hyperbolic ? 16 : 8);
  const VectorsOfLibtorch vectors =
      vectors_of_libtorch(node, {operands[0], operands.size() > 1 ? operands[1] : nullptr}, 2 * lanes);
  if (!vectors.somewhere) return result;
  const TermPointer& x = result->operands[0];
  TermPointer overflows, other;
  if (hyperbolic) {
    // Where e^x does, though half of that would not.
    overflows = call_of(F::greater_or_equal, {call_of(F::absolute, {x}), number_of(88.72283935546875)});
    other = number_of(INFINITY);
    if (function == F::hyperbolic_sine) other = call_of(F::copy_sign, {other, x});
  } else {
    overflows = call_of(F::is_infinite, {call_of(F::divide, {x, result->operands[1]})});
    other = number_of(NAN);
  }
  if (!vectors.everywhere) overflows = call_of(F::logical_and, {vectors.where, overflows});
  return call_of(F::select, {overflows, other, result});
}

FXX_INLINE kernels::Function Lowering::gelu_of(const Node& node, const Argument& input) const {
  using F = kernels::Function;
  if (!options_.gelu_of_onednn || !input.is_node() || std::ranges::count(options_.gelu_formulas, node.name())) return F::gelu;
  const TensorMeta& meta = meta_of(*input.node());
  if (meta.stride.size() != meta.shape.size() || meta.numel() == 1) return F::gelu;
  std::int64_t step = 1;
  for (std::size_t d = meta.shape.size(); d-- > 0; step *= meta.shape[d])
    if (meta.shape[d] != 1 && meta.stride[d] != step) return F::gelu;
  return F::gelu_of_onednn;
}

/// True when the operator has a form in kernel_forms; the node's value is an expression then.
FXX_INLINE bool Lowering::pointwise(const Node& node, const Operator& op) {
  using detail::KernelForm;
  using Form = KernelForm::Form;
  using F = kernels::Function;
  const KernelForm form = form_of(op.name);
  if (form.form == Form::none) return false;
  const Sizes& sizes = sizes_of(node);
  const Dtype dtype = meta_of(node).dtype;
  const bool compares = form.form == Form::plain && form.function >= F::less && form.function <= F::is_finite;
  const std::optional<F> of_masks = dtype == Dtype::boolean && !compares ? function_of_masks(form) : std::nullopt;
  require_elements(node);
  if ((dtype == Dtype::boolean) != compares && !of_masks) throw NoKernel{std::string(name_of(dtype))};

  std::vector<Argument> given;
  for (int i = 0; i < op.arity(); ++i) given.push_back(argument_or_default(node, op, i));
  // Beside integers hardtanh cuts its limits to integers; by other functions real numbers make the result real.
  if (op.base_name().starts_with("hardtanh") && is_integer(dtype))
    for (std::size_t i = 1; i < given.size(); ++i)
      if (given[i].kind() == Argument::Kind::real && std::abs(given[i].real()) <= 1e9)
        given[i] = static_cast<std::int64_t>(given[i].real());
  if (of_masks && (form.form == Form::alpha || form.form == Form::alpha_first) && !(given[2] == Argument(1)))
    throw NoKernel{std::string(name_of(dtype))};
  std::size_t count = given.size();
  if (form.form == Form::power) count = 1;
  else if (form.form == Form::gelu || form.form == Form::relu6) count = 1;
  std::vector<const Node*> nodes;
  // What it is computed with: what the result is, of comparisons what LibTorch makes of both sides.
  const auto chooses = [&](std::size_t i) { return form.form == Form::plain && form.function == F::select && i == 0; };
  bool real = dtype == Dtype::float32 || form.function == F::is_nan || form.function == F::is_infinite ||
              form.function == F::is_finite,
       masks = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i].is_none() && form.form == Form::clamp) continue;
    if (given[i].is_node()) {
      const Dtype kind = meta_of(*given[i].node()).dtype;
      require_elements(*given[i].node());
      if (chooses(i) && kind != Dtype::boolean) throw NoKernel{std::string(name_of(kind))};
      real = real || kind == Dtype::float32;
      masks = masks && kind == Dtype::boolean;
      nodes.push_back(given[i].node());
    } else if (!given[i].is_number()) {
      throw NoKernel{"an argument that is not a number"};
    } else {
      real = real || given[i].kind() == Argument::Kind::real;
      masks = masks && given[i].kind() == Argument::Kind::boolean;
    }
  }
  // 0 and 1 compare as floats do.
  const Elements elements = of_masks                      ? Elements::mask
                            : real || (compares && masks) ? Elements::real
                                                          : Elements::integer;
  const Dtype together = is_integer(dtype) ? dtype : integers_together(nodes);
  if (elements == Elements::integer)
    for (std::size_t i = 0; i < count; ++i) given[i] = as_operand(given[i], together);
  if (elements == Elements::integer && !has_integers(form, given)) throw NoKernel{std::string(name_of(dtype))};
  if (elements == Elements::real && (form.function >= F::bitwise_and || is_integer(dtype)))
    throw NoKernel{std::string(name_of(dtype))};
  Joined joined;
  switch (nodes.size()) {
    case 0: throw NoKernel{"no tensor"};
    case 1: joined = join({nodes[0]}, sizes); break;
    case 2: joined = join({nodes[0], nodes[1]}, sizes); break;
    default: joined = join({nodes[0], nodes[1], nodes[2]}, sizes); break;
  }
  const auto term = [&](std::size_t i) {
    if (!given[i].is_node()) return scalar_of(given[i], elements);
    TermPointer operand = converted(term_of(*given[i].node(), sizes), chooses(i) ? Elements::mask : elements);
    if (elements != Elements::integer || chooses(i)) return operand;
    return as_operand(std::move(operand), meta_of(*given[i].node()).dtype, together);
  };
  TermPointer result;
  if (of_masks && form.function != F::select) {
    result = call_of(*of_masks, {term(0), term(1)});
  } else if (form.form == Form::plain) {
    std::vector<TermPointer> operands;
    for (std::size_t i = 0; i < count; ++i) operands.push_back(term(i));
    if (elements == Elements::integer && divides_integers(form.function) && given[1].is_node())
      operands[1] = call_of(F::checked_divisor, {operands[1]});
    result = form.function == F::select ? choice_of(operands[0], operands[1], operands[2])
                                        : call_of(form.function, std::move(operands));
    if (elements == Elements::real) result = as_in_vectors(node, nodes, std::move(result));
  } else if (form.form == Form::alpha || form.form == Form::alpha_first) {
    TermPointer left = term(0), right = term(1);
    if (form.form == Form::alpha_first) std::swap(left, right);
    const bool once = given[2].number() == 1;
    if (elements == Elements::real && !once) {
      const double factor = form.function == F::add ? given[2].number() : -given[2].number();
      result = multiplied_and_added(right, number_of(factor), left);
    } else {
      if (!once) right = call_of(F::multiply, {right, scalar_of(given[2], elements)});
      result = call_of(form.function, {left, right});
    }
  } else if (form.form == Form::power) {
    if (!given[1].is_number()) throw NoKernel{"a power with this exponent"};
    result = power_of(term(0), given[1].number());
  } else if (form.form == Form::clamp) {
    result = term(0);
    if (!given[1].is_none()) result = call_of(F::maximum, {result, term(1)});
    if (!given[2].is_none()) result = call_of(F::minimum, {result, term(2)});
  } else if (form.form == Form::relu6) {
    result = call_of(F::minimum, {call_of(F::relu, {term(0)}), number_of(6)});
  } else {
    const bool tanh = given[1].kind() == Argument::Kind::string && given[1].string() == "tanh";
    result = call_of(tanh ? F::gelu_by_tanh : gelu_of(node, given[0]), {term(0)});
  }
  const bool stays = form.form == Form::clamp ||
                     (form.form == Form::plain && (form.function == F::select || form.function == F::maximum ||
                                                   form.function == F::minimum || form.function == F::relu));
  if (!stays) result = wrapped(std::move(result), dtype);
  set_pending(node, joined.root, std::move(result), std::move(joined.nodes));
  return true;
}

FXX_INLINE bool Lowering::is_pointwise(const Node& node) const {
  const Operator* op = known_operator(node);
  if (!op || !node.tensor_meta() || regions_.contains(&node)) return false;
  const auto known = handlers().find(op->name);
  if (known == handlers().end()) return form_of(op->name).form != detail::KernelForm::Form::none;
  return known->second == &Lowering::masked_fill || known->second == &Lowering::logic ||
         known->second == &Lowering::divide;
}

/// Does all that is computed of the pending value meet in one pointwise operator again, with nothing but pointwise
/// operators of as many elements on the way and nobody else who reads those? Then one loop computes it all, and the value
/// need not be written. Nothing on the way may be placed before, or the value would be computed again: other operands have
/// no kernel that waits for its loop, and the expression stays within join's limit. Nor does it pay to join loops of many
/// long functions, unless they are in a kernel's loop: a processor looks ahead over some two hundred operations, which is
/// several elements of each loop, but less than two of both behind each other.
FXX_INLINE bool Lowering::read_within_expression(const Node& node) {
  const int most_transcendental = many_ ? most_calls : 2, most = many_ ? most_calls_of_many : most_calls;
  const Sizes& sizes = sizes_of(node);
  const Value& shared = value_of(node);
  int transcendental = transcendental_calls_in(*shared.term);
  std::unordered_map<const Node*, int> calls{{&node, calls_in(*shared.term)}};
  std::unordered_set<const Node*> readers;
  for (const Node* user : node.users()) readers.insert(user);
  for (const Node* next = node.next(); next; next = next->next()) {
    if (!readers.contains(next)) continue;
    if (!is_pointwise(*next) || sizes_of(*next) != sizes) return false;
    transcendental += is_transcendental(form_of(known_operator(*next)->name).function);
    int count = 0;
    bool alone = true;
    const auto read = [&](const Node* input) {
      if (const auto known = calls.find(input); known != calls.end()) {
        count += known->second;
        return;
      }
      const Value& value = value_of(*input);
      if (value.kind == Value::Kind::pending) {
        count += calls_in(*value.term);
        transcendental += transcendental_calls_in(*value.term);
      }
      alone = alone && !value.root && (value.kind != Value::Kind::none || input->opcode() == Opcode::get_attr);
    };
    for (const Argument& argument : next->args()) for_each_node(argument, read);
    for (const auto& [name, argument] : next->kwargs()) for_each_node(argument, read);
    if (!alone || count > most) return false;
    if (!shared.root && transcendental > most_transcendental) return false;
    if (readers.size() == 1) return true;
    calls[next] = count + 2;
    readers.erase(next);
    for (const Node* user : next->users()) readers.insert(user);
  }
  return false;
}

FXX_INLINE void Lowering::masked_fill(const Node& node, const Operator& op) {
  require_elements(node);
  const Node& self = operand(node, op, "self");
  const Node& mask = operand(node, op, "mask");
  const Elements elements = elements_of(meta_of(node).dtype);
  const Argument given = argument(node, op, "value");
  const Node* filling = given.is_node() ? given.node() : nullptr;
  if (filling) require_elements(*filling);
  const Sizes& sizes = sizes_of(node);
  Joined joined = join({&self, &mask, filling}, sizes);
  const Dtype dtype = meta_of(node).dtype;
  const TermPointer value =
      filling ? as_operand(converted(term_of(*filling, sizes), elements), meta_of(*filling).dtype, dtype)
              : scalar_of(as_operand(given, dtype), elements);
  TermPointer result = choice_of(term_of(mask, sizes), value, term_of(self, sizes));
  set_pending(node, joined.root, std::move(result), std::move(joined.nodes));
}

/// zeros, ones, full and their like: a number wherever it is read. What is empty is soon filled.
FXX_INLINE void Lowering::constant(const Node& node, const Operator& op) {
  require_elements(node);
  if (options_.fills_memory && op.base_name().find("empty") != std::string_view::npos)
    throw NoKernel{"memory that LibTorch fills"};
  Argument value = op.base_name().find("ones") != std::string_view::npos ? 1 : 0;
  if (op.index_of("fill_value") >= 0) value = argument(node, op, "fill_value");
  const Dtype dtype = meta_of(node).dtype;
  set_pending(node, nullptr, scalar_of(as_operand(value, dtype), elements_of(dtype)));
}

FXX_INLINE void Lowering::fill(const Node& node, const Operator& op) {
  require_elements(node);
  const Dtype dtype = meta_of(node).dtype;
  const Elements elements = elements_of(dtype);
  const Argument value = argument(node, op, "value");
  if (value.is_number()) return set_pending(node, nullptr, scalar_of(as_operand(value, dtype), elements));
  const Node& from = operand(node, op, "value");
  require_elements(from);
  view_of(from);
  TermPointer term = converted(term_of(from, sizes_of(node)), elements);
  set_pending(node, nullptr, as_operand(std::move(term), meta_of(from).dtype, dtype));
}

/// and, or, xor, not: of comparisons, and bit by bit of integers.
FXX_INLINE void Lowering::logic(const Node& node, const Operator& op) {
  using F = kernels::Function;
  require_elements(node);
  const Dtype dtype = meta_of(node).dtype;
  const Elements elements = elements_of(dtype);
  if (elements == Elements::real) throw NoKernel{std::string(name_of(dtype))};
  const std::string_view name = op.base_name();
  const bool masks = elements == Elements::mask;
  const F function = name.ends_with("and")   ? masks ? F::logical_and : F::bitwise_and
                     : name.ends_with("xor") ? masks ? F::logical_xor : F::bitwise_xor
                     : name.ends_with("or")  ? masks ? F::logical_or : F::bitwise_or
                     : masks                 ? F::logical_not
                                             : F::bitwise_not;
  std::vector<Argument> given = {argument(node, op, "self")};
  if (function != F::logical_not && function != F::bitwise_not) given.push_back(argument(node, op, "other"));
  const auto tensor = [&](std::size_t i) { return i < given.size() && given[i].is_node() ? given[i].node() : nullptr; };
  for (const Node* input : {tensor(0), tensor(1)})
    if (input) require_elements(*input);
  const Sizes& sizes = sizes_of(node);
  Joined joined = join({tensor(0), tensor(1)}, sizes);
  std::vector<TermPointer> operands;
  for (std::size_t i = 0; i < given.size(); ++i)
    operands.push_back(tensor(i) ? as_operand(converted(term_of(*tensor(i), sizes), elements), meta_of(*tensor(i)).dtype, dtype)
                                 : scalar_of(as_operand(given[i], dtype), elements));
  TermPointer result = call_of(function, std::move(operands));
  if (function == F::bitwise_not) result = wrapped(std::move(result), dtype);
  set_pending(node, joined.root, std::move(result), std::move(joined.nodes));
}

/// Division that rounds, down or to zero.
FXX_INLINE void Lowering::divide(const Node& node, const Operator& op) {
  using F = kernels::Function;
  require_elements(node);
  const Elements elements = elements_of(meta_of(node).dtype);
  const Dtype dtype = meta_of(node).dtype;
  const Argument mode = argument(node, op, "rounding_mode"), other = as_operand(argument(node, op, "other"), dtype);
  const bool down = mode.kind() == Argument::Kind::string && mode.string() == "floor";
  if (!down && (mode.kind() != Argument::Kind::string || mode.string() != "trunc")) throw NoKernel{"no rounding"};
  // As other divisions: by 0 LibTorch throws.
  if (elements == Elements::integer && !other.is_node() &&
      (other.kind() != Argument::Kind::integer || other.integer() == 0))
    throw NoKernel{std::string(name_of(dtype))};
  const Node& self = operand(node, op, "self");
  const Node* divisor = other.is_node() ? other.node() : nullptr;
  for (const Node* input : {&self, divisor})
    if (input) require_elements(*input);
  const Sizes& sizes = sizes_of(node);
  Joined joined = join({&self, divisor}, sizes);
  const auto operand_of = [&](const Node& tensor) {
    return as_operand(converted(term_of(tensor, sizes), elements), meta_of(tensor).dtype, dtype);
  };
  const TermPointer left = operand_of(self);
  TermPointer right = divisor ? operand_of(*divisor) : scalar_of(other, elements);
  if (divisor && elements == Elements::integer) right = call_of(F::checked_divisor, {right});
  TermPointer result = call_of(down ? F::floor_divide : F::divide, {left, right});
  if (!down && elements == Elements::real) result = call_of(F::truncated, {result});
  set_pending(node, joined.root, wrapped(std::move(result), dtype), std::move(joined.nodes));
}

/// triu, tril: zeros on one side of a diagonal.
FXX_INLINE void Lowering::triangle(const Node& node, const Operator& op) {
  using F = kernels::Function;
  require_elements(node);
  const Node& self = operand(node, op, "self");
  const std::int64_t diagonal = integer(argument(node, op, "diagonal"));
  const Sizes& sizes = sizes_of(node);
  if (sizes.size() < 2 || product(sizes) == 0) throw NoKernel{"no matrix"};
  Joined joined = join({&self}, sizes);
  const TermPointer stays = call_of(op.base_name() == "triu" ? F::greater_or_equal : F::less_or_equal,
                                    {column_less_row(sizes), integer_of(diagonal)});
  const Elements elements = elements_of(meta_of(node).dtype);
  const TermPointer x = term_of(self, sizes);
  set_pending(node, joined.root,
              elements == Elements::mask ? call_of(F::logical_and, {stays, x})
                                         : call_of(F::select, {stays, x, scalar_of(0, elements)}),
              std::move(joined.nodes));
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
