// Lowering of quantised values: as the floats that they stand for, and as bytes where products of integers read them.
#pragma once

#include "fxx/codegen/lower/memory.ipp"
#include "fxx/codegen/quantised.hpp"

namespace fxx::inline FXX_ABI::plans {

/// As floats.
FXX_INLINE TermPointer whole_number(std::int64_t value) { return number_of(static_cast<double>(value)); }
/// As LibTorch does: times the inverse in single precision.
FXX_INLINE TermPointer inverse_scale(const FakeQuantize& given) {
  return number_of(1.f / static_cast<float>(given.scale));
}
/// The integers that x becomes, as floats.
FXX_INLINE TermPointer quantised_term(const TermPointer& x, const FakeQuantize& given) {
  return call_of(kernels::Function::quantised, {x, inverse_scale(given), whole_number(given.zero),
                                                whole_number(given.lowest), whole_number(given.highest)});
}

/// fake_quantize_per_tensor_affine, and with the mask of what was in range.
FXX_INLINE void Lowering::fake_quantize(const Node& node, const Operator& op) {
  using F = kernels::Function;
  const std::optional<FakeQuantize> given = fake_quantize_of(node);
  if (!given) throw NoKernel{"integers that are no bytes"};
  const Node& input = *given->input;
  require_float(input);
  const Sizes& sizes = sizes_of(input);
  const auto values = [&](const Node& result) {
    require_float(result);
    Joined joined = join({&input}, sizes);
    const TermPointer integer = quantised_term(term_of(input, sizes), *given);
    set_pending(result, joined.root,
                call_of(F::multiply, {call_of(F::subtract, {integer, whole_number(given->zero)}),
                                      number_of(static_cast<float>(given->scale))}),
                std::move(joined.nodes));
  };
  const auto in_range = [&](const Node& result) {
    Joined joined = join({&input}, sizes);
    const TermPointer scaled = call_of(F::multiply, {term_of(input, sizes), inverse_scale(*given)});
    const TermPointer integer = call_of(F::add, {call_of(F::rounded, {scaled}), whole_number(given->zero)});
    set_pending(result, joined.root,
                call_of(F::logical_and, {call_of(F::greater_or_equal, {integer, whole_number(given->lowest)}),
                                         call_of(F::less_or_equal, {integer, whole_number(given->highest)})}),
                std::move(joined.nodes));
  };
  if (!op.base_name().ends_with("cachemask")) return values(node);
  if (node.num_users() > 1) view_of(input);
  with_results(node, {values, in_range});
}

FXX_INLINE bool Lowering::could_take_bytes(const Node& node) const {
  const Operator* op = operator_of(node);
  if (options_.accuracy == Accuracy::exact || !op || op->name != "aten::linear" ||
      std::ranges::find(options_.quantised, node.name()) == options_.quantised.end())
    return false;
  const Node &input = operand(node, *op, "input"), &weight = operand(node, *op, "weight");
  const Sizes &in = sizes_of(input), &w = sizes_of(weight);
  // Sums of more rows of weights would not fit into 32 bits.
  return weight.opcode() == Opcode::get_attr && product(in) > 0 && w.size() == 2 && w[1] <= 65000 &&
         fewer_bits_pay(product(in) / w[1], w[0], w[1], options_.processor.byte_products) && fake_quantize_of(input);
}
FXX_INLINE bool Lowering::only_as_bytes(const Node& value) const {
  return fake_quantize_of(value) &&
         std::ranges::all_of(value.users(), [&](const Node* user) { return could_take_bytes(*user); });
}
FXX_INLINE bool Lowering::takes_bytes(const Node& linear) const {
  return could_take_bytes(linear) && only_as_bytes(operand(linear, *operator_of(linear), "input"));
}

FXX_INLINE const View& Lowering::bytes_of(const Node& value) {
  if (const auto known = bytes_.find(&value); known != bytes_.end()) return known->second;
  const FakeQuantize given = *fake_quantize_of(value);
  const Sizes& sizes = sizes_of(value);
  Joined joined = join({given.input}, sizes);
  Value bytes;
  bytes.kind = Value::Kind::pending;
  bytes.dtype = Dtype::uint8;
  bytes.root = joined.root;
  bytes.term = call_of(kernels::Function::subtract,
                       {quantised_term(term_of(*given.input, sizes), given), whole_number(given.lowest)});
  bytes.nodes = std::move(joined.nodes);
  bytes.nodes.push_back(&value);
  const View to{add_buffer(Buffer::Kind::arena, value, Dtype::uint8, product(sizes)), 0, sizes, dense_strides(sizes)};
  emit(std::move(bytes), to);
  return bytes_[&value] = to;
}

}  // namespace fxx::inline FXX_ABI::plans
