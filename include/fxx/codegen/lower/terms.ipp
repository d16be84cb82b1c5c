// Terms of plans: how expressions are put together, and which nodes of the graph take part in one.
#pragma once

#include "fxx/codegen/lower/lowering.ipp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE TermPointer load_of(View view, bool mask = false) {
  Term term;
  term.kind = Term::Kind::load;
  term.mask = mask;
  term.view = std::move(view);
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE TermPointer number_of(double value) {
  Term term;
  term.kind = Term::Kind::number;
  term.number = value;
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE TermPointer call_of(kernels::Function function, std::vector<TermPointer> operands) {
  Term term;
  term.kind = Term::Kind::call;
  term.function = function;
  term.mask = function >= kernels::Function::less && function <= kernels::Function::logical_not;
  term.operands = std::move(operands);
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE const TermPointer& result_term() {
  static const TermPointer term = std::make_shared<const Term>();
  return term;
}
FXX_INLINE int calls_in(const Term& term) {
  int count = term.kind == Term::Kind::call || term.kind == Term::Kind::lookup;
  for (const TermPointer& operand : term.operands) count += calls_in(*operand);
  return count;
}
template <class F>
void for_each_load(const Term& term, const F& f) {
  if (term.kind == Term::Kind::load || term.kind == Term::Kind::lookup) f(term);
  for (const TermPointer& operand : term.operands) for_each_load(*operand, f);
}

FXX_INLINE Lowering::Joined Lowering::join(std::initializer_list<const Node*> operands, const Sizes& sizes) {
  Joined joined;
  for (const Node* operand : operands) {
    if (!operand) continue;
    const Value& value = value_of(*operand);
    if (value.kind != Value::Kind::pending || sizes_of(*operand) != sizes || !value.root) continue;
    if (!joined.root || value.root->number > joined.root->number) joined.root = value.root;
  }
  int calls = 0;
  for (const Node* operand : operands) {
    if (!operand || value_of(*operand).kind != Value::Kind::pending) continue;
    const Value& value = value_of(*operand);
    calls += calls_in(*value.term);
    if (sizes_of(*operand) != sizes || (value.root && value.root != joined.root) || calls > 64) view_of(*operand);
  }
  const Node* before = nullptr;
  for (const Node* operand : operands) {
    if (!operand || operand == before || value_of(*operand).kind != Value::Kind::pending) continue;
    before = operand;  // x * x computes x by the same nodes
    const auto& nodes = value_of(*operand).nodes;
    joined.nodes.insert(joined.nodes.end(), nodes.begin(), nodes.end());
  }
  // The kernel itself may have been placed for the sake of the limit.
  bool has_root = false;
  for (const Node* operand : operands)
    has_root = has_root || (operand && value_of(*operand).kind == Value::Kind::pending && value_of(*operand).root);
  if (!has_root) joined.root.reset();
  return joined;
}

FXX_INLINE TermPointer Lowering::term_of(const Node& node, const Sizes& sizes) {
  const Value& value = value_of(node);
  if (value.dtype != Dtype::float32 && value.dtype != Dtype::boolean) throw NoKernel{std::string(name_of(value.dtype))};
  if (value.dtype == Dtype::boolean && value.kind == Value::Kind::view && product(value.view.sizes) == 0)
    throw NoKernel{"a mask of nothing"};
  if (value.kind == Value::Kind::pending && sizes_of(node) == sizes) return value.term;
  const std::optional<View> view = broadcast(view_of(node), sizes);
  if (!view) throw NoKernel{"sizes that do not fit"};
  return load_of(*view, value_of(node).dtype == Dtype::boolean);
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
