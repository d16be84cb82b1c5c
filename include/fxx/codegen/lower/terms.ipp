// Terms of plans: how expressions are put together, and which nodes of the graph take part in one.
#pragma once

#include "fxx/codegen/lower/lowering.ipp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE bool is_integer(Dtype dtype) { return dtype >= Dtype::uint8 && dtype <= Dtype::int64; }
/// What tensors of the dtype are computed with; those of dtypes without arithmetic are copied, whatever this says.
FXX_INLINE Elements elements_of(Dtype dtype) {
  return dtype == Dtype::boolean ? Elements::mask : is_integer(dtype) ? Elements::integer : Elements::real;
}
FXX_INLINE bool has_elements(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::boolean || is_integer(dtype);
}
/// Without arithmetic, but floats are read from them and written to them.
FXX_INLINE bool is_read_as_float(Dtype dtype) {
  return dtype == Dtype::float64 || dtype == Dtype::float16 || dtype == Dtype::bfloat16;
}
FXX_INLINE TermPointer load_of(View view, Elements elements = Elements::real) {
  Term term;
  term.kind = Term::Kind::load;
  term.elements = elements;
  term.view = std::move(view);
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE TermPointer number_of(double value) {
  Term term;
  term.kind = Term::Kind::number;
  term.number = value;
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE TermPointer integer_of(std::int64_t value) {
  Term term;
  term.kind = Term::Kind::number;
  term.elements = Elements::integer;
  term.integer = value;
  return std::make_shared<const Term>(std::move(term));
}
/// By how many an element of a matrix lies right of the diagonal.
FXX_INLINE TermPointer column_less_row(const Sizes& sizes) {
  Term term;
  term.kind = Term::Kind::position;
  term.elements = Elements::integer;
  term.view = {-1, 0, sizes, Sizes(sizes.size(), 0)};
  term.view.strides[sizes.size() - 1] = 1;
  term.view.strides[sizes.size() - 2] = -1;
  return std::make_shared<const Term>(std::move(term));
}
/// Operands have the same elements, but for what `select` chooses by.
FXX_INLINE TermPointer call_of(kernels::Function function, std::vector<TermPointer> operands) {
  Term term;
  term.kind = Term::Kind::call;
  term.function = function;
  term.elements = function >= kernels::Function::less && function <= kernels::Function::logical_not
                      ? Elements::mask
                      : operands.back()->elements;
  term.operands = std::move(operands);
  return std::make_shared<const Term>(std::move(term));
}
/// A number of the graph as such elements. Throws NoKernel for what is none of them.
FXX_INLINE TermPointer scalar_of(const Argument& value, Elements elements) {
  if (!value.is_number()) throw NoKernel{"an argument that is not a number"};
  if (elements == Elements::real) return number_of(value.number());
  if (elements == Elements::mask)
    return call_of(kernels::Function::not_equal, {number_of(value.number()), number_of(0)});
  if (value.kind() == Argument::Kind::real) throw NoKernel{"a number that is no integer"};
  return integer_of(value.kind() == Argument::Kind::integer ? value.integer() : value.boolean());
}
FXX_INLINE const TermPointer& result_term() {
  static const TermPointer term = std::make_shared<const Term>();
  return term;
}
FXX_INLINE TermPointer result_of(Elements elements) {
  if (elements == Elements::real) return result_term();
  Term term;
  term.elements = elements;
  return std::make_shared<const Term>(std::move(term));
}
/// The term as such elements, as a conversion of LibTorch's has them. `narrow`: to an integer with a sign, of 32 bits
/// or fewer.
FXX_INLINE TermPointer converted(TermPointer term, Elements to, bool narrow = false) {
  if (term->elements == to) return term;
  using F = kernels::Function;
  const auto is = [&](std::int64_t value) {
    return to == Elements::integer || term->elements == Elements::integer ? integer_of(value)
                                                                          : number_of(static_cast<double>(value));
  };
  if (term->elements == Elements::mask) return call_of(F::select, {term, is(1), is(0)});
  if (to == Elements::mask) return call_of(F::not_equal, {term, is(0)});
  Term result;
  if (term->kind == Term::Kind::load && to == Elements::real) {
    result = *term;  // integers are read as floats
  } else {
    result.kind = Term::Kind::convert;
    result.narrow = narrow;
    result.operands = {std::move(term)};
  }
  result.elements = to;
  return std::make_shared<const Term>(std::move(result));
}
/// An integer with the bits that the dtype has for it, as arithmetic of that dtype leaves them.
FXX_INLINE TermPointer wrapped(TermPointer term, Dtype dtype) {
  using F = kernels::Function;
  if (term->elements != Elements::integer || !is_integer(dtype) || dtype == Dtype::int64) return term;
  if (dtype == Dtype::uint8) return call_of(F::bitwise_and, {std::move(term), integer_of(255)});
  const TermPointer unused = integer_of(64 - 8 * element_size(dtype));
  return call_of(F::shift_right, {call_of(F::shift_left, {std::move(term), unused}), unused});
}
/// An operand as LibTorch computes with it: of the dtype that all of them have together, in which it may be another
/// number. -1 is 255 beside bytes.
FXX_INLINE TermPointer as_operand(TermPointer term, Dtype dtype, Dtype together) {
  return holds_all(dtype, together) ? term : wrapped(std::move(term), together);
}
FXX_INLINE Argument as_operand(const Argument& number, Dtype together) {
  if (number.kind() != Argument::Kind::integer) return number;
  switch (together) {
    case Dtype::uint8: return static_cast<std::int64_t>(static_cast<std::uint8_t>(number.integer()));
    case Dtype::int8: return static_cast<std::int64_t>(static_cast<std::int8_t>(number.integer()));
    case Dtype::int16: return static_cast<std::int64_t>(static_cast<std::int16_t>(number.integer()));
    case Dtype::int32: return static_cast<std::int64_t>(static_cast<std::int32_t>(number.integer()));
    default: return number;
  }
}
/// The integer dtype that tensors and numbers have together: tensors with dimensions decide, then those without, then
/// numbers.
FXX_INLINE Dtype integers_together(const std::vector<const Node*>& tensors) {
  const auto of = [&](bool with_dimensions) {
    Dtype together = Dtype::boolean;
    for (const Node* tensor : tensors) {
      const TensorMeta& meta = *tensor->tensor_meta();
      if ((meta.dim() > 0) != with_dimensions || !is_integer(meta.dtype) || holds_all(meta.dtype, together)) continue;
      if (together == Dtype::boolean || holds_all(together, meta.dtype)) together = meta.dtype;
      else together = Dtype::int16;  // bytes with a sign and without
    }
    return together;
  };
  Dtype together = of(true);
  if (together == Dtype::boolean) together = of(false);
  return together == Dtype::boolean ? Dtype::int64 : together;
}
/// An expression has no more, so that it stays quick to compile and in registers. What is read several times counts as
/// often.
inline constexpr int most_calls = 64;
/// What counts as often as it is read, where loops are to be few: of these no more than `most_calls` are computed.
inline constexpr int most_calls_of_many = 512;
FXX_INLINE int calls_in(const Term& term, std::unordered_set<const Term*>* seen = nullptr) {
  using Kind = Term::Kind;
  if (seen && !seen->insert(&term).second) return 0;
  int count = term.kind == Kind::call || term.kind == Kind::convert || term.kind == Kind::lookup;
  if (term.kind == Kind::search) count = 16;
  for (const TermPointer& operand : term.operands) count += calls_in(*operand, seen);
  return count;
}
/// Is it some twenty operations, each of which waits for the one before?
FXX_INLINE bool is_transcendental(kernels::Function function) {
  using F = kernels::Function;
  switch (function) {
    case F::silu:
    case F::gelu:
    case F::gelu_of_onednn:
    case F::gelu_by_tanh:
    case F::mish:
    case F::log_sigmoid:
    case F::selu:
    case F::elu:
    case F::celu:
    case F::power:
    case F::arc_tangent_2:
    case F::softplus: return true;
    default:
      return (function >= F::exponential && function <= F::sigmoid) ||
             (function >= F::sine && function <= F::complementary_error);
  }
}
FXX_INLINE int transcendental_calls_in(const Term& term) {
  int count = term.kind == Term::Kind::call && is_transcendental(term.function);
  for (const TermPointer& operand : term.operands) count += transcendental_calls_in(*operand);
  return count;
}
/// As the generated code has them: what is read several times is computed once.
FXX_INLINE int computed_calls_in(const Term& term) {
  std::unordered_set<const Term*> seen;
  return calls_in(term, &seen);
}
template <class F>
void for_each_load(const Term& term, const F& f) {
  if (term.kind == Term::Kind::load || term.kind == Term::Kind::lookup || term.kind == Term::Kind::search) f(term);
  for (const TermPointer& operand : term.operands) for_each_load(*operand, f);
}
/// Calls `f` with each view that the step reads or writes.
template <class F>
void for_each_view(const KernelStep& step, const F& f) {
  const auto of_term = [&](const TermPointer& term) {
    if (term) for_each_load(*term, [&](const Term& load) { f(load.view); });
  };
  for_each_operand(step.kernel, f, of_term);
  for (const Store& store : step.stores) {
    of_term(store.value);
    f(store.to);
  }
}

FXX_INLINE void Lowering::require_elements(const Node& node) const {
  if (!has_elements(meta_of(node).dtype)) throw NoKernel{std::string(name_of(meta_of(node).dtype))};
}

FXX_INLINE Lowering::Joined Lowering::join(std::initializer_list<const Node*> operands, const Sizes& sizes) {
  Joined joined;
  for (const Node* operand : operands) {
    if (!operand) continue;
    const Value& value = value_of(*operand);
    if (value.kind != Value::Kind::pending || sizes_of(*operand) != sizes || !value.root) continue;
    if (!joined.root || value.root->number > joined.root->number) joined.root = value.root;
  }
  int calls = 0, computed = 0;
  std::unordered_set<const Term*> seen;
  for (const Node* operand : operands) {
    if (!operand || value_of(*operand).kind != Value::Kind::pending) continue;
    const Value& value = value_of(*operand);
    calls += calls_in(*value.term);
    if (many_) computed += calls_in(*value.term, &seen);
    const bool too_many = many_ ? calls > most_calls_of_many || computed > most_calls : calls > most_calls;
    if (sizes_of(*operand) != sizes || (value.root && value.root != joined.root) || too_many) view_of(*operand);
  }
  for (const Node* operand : operands) {
    if (!operand || value_of(*operand).kind != Value::Kind::pending) continue;
    for (const Node* node : value_of(*operand).nodes)
      if (std::ranges::find(joined.nodes, node) == joined.nodes.end()) joined.nodes.push_back(node);
  }
  // The kernel itself may have been placed for the sake of the limit.
  bool has_root = false;
  for (const Node* operand : operands)
    has_root = has_root || (operand && value_of(*operand).kind == Value::Kind::pending && value_of(*operand).root);
  if (!has_root) joined.root.reset();
  return joined;
}

FXX_INLINE std::vector<const Node*> Lowering::join_without_root(const Node& operand) {
  Joined joined = join({&operand}, sizes_of(operand));
  if (!joined.root) return std::move(joined.nodes);
  view_of(operand);
  return {};
}

FXX_INLINE TermPointer Lowering::term_of(const Node& node, const Sizes& sizes) {
  const Value& value = value_of(node);
  if (!has_elements(value.dtype)) throw NoKernel{std::string(name_of(value.dtype))};
  if (value.dtype == Dtype::boolean && value.kind == Value::Kind::view && product(value.view.sizes) == 0)
    throw NoKernel{"a mask of nothing"};
  if (value.kind == Value::Kind::pending && sizes_of(node) == sizes) return value.term;
  const std::optional<View> view = broadcast(view_of(node), sizes);
  if (!view) throw NoKernel{"sizes that do not fit"};
  return load_of(*view, elements_of(value_of(node).dtype));
}

FXX_INLINE TermPointer Lowering::bias_term(const Node& bias, const Sizes& sizes, std::size_t dim) {
  require_float(bias);
  const View& view = view_of(bias);
  if (view.sizes.size() != 1 || view.sizes[0] != sizes[dim]) throw NoKernel{"a bias of other sizes"};
  View wide{view.buffer, view.offset, sizes, Sizes(sizes.size(), 0)};
  wide.strides[dim] = view.strides[0];
  return load_of(std::move(wide));
}

}  // namespace fxx::inline FXX_ABI::plans
