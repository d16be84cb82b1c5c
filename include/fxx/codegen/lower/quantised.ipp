// Lowering of quantised values: as the floats that they stand for, and as bytes where products of integers read them.
#pragma once

#include "fxx/codegen/lower/images.ipp"
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
    if (quantise(result, *given)) return;
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

FXX_INLINE Lowering::Bytes Lowering::bytes_for(const Node& node) const {
  const Operator* op = operator_of(node);
  if (options_.accuracy == Accuracy::exact || !op ||
      std::ranges::find(options_.quantised, node.name()) == options_.quantised.end())
    return Bytes::impossible;
  const Node *input = nullptr, *weight = nullptr;
  const std::optional<ConvolutionCall> call = convolution_call(node);
  if (call && !is_transposed(node)) {
    input = call->input;
    weight = call->weight;
  } else if (op->name == "aten::linear") {
    input = &operand(node, *op, "input");
    weight = &operand(node, *op, "weight");
    // Theirs lie channels last.
    for (const Node* user : users_of(*input))
      if (is_convolution(*user) && bytes_for(*user) != Bytes::impossible) return Bytes::impossible;
  } else {
    return Bytes::impossible;
  }
  const Sizes &out = sizes_of(node), &w = sizes_of(*weight);
  if (weight->opcode() != Opcode::get_attr || product(sizes_of(*input)) == 0 || product(out) == 0 || w.size() < 2 ||
      product(w) == 0 || !fake_quantize_of(*input))
    return Bytes::impossible;
  const std::int64_t depth = product(w) / w[0], columns = w[0] / (call ? call->groups : 1);
  // Sums of more products would not fit into 32 bits; of single channels nothing is multiplied four at a time.
  if (depth > 65000 || (call && call->groups > 1 && w[1] < 4)) return Bytes::impossible;
  return fewer_bits_pay(product(out) / w[0], columns, depth, options_.processor.byte_products) ? Bytes::faster
                                                                                               : Bytes::possible;
}
/// What a linear layer or a convolution takes, its weight and its bias aside; null for other nodes.
FXX_INLINE const Node* input_of_layer(const Node& node) {
  if (const auto call = convolution_call(node)) return call->input;
  const Operator* op = operator_of(node);
  const Argument input = op && op->name == "aten::linear" ? argument_or_default(node, *op, 0) : Argument();
  return input.is_node() ? input.node() : nullptr;
}
FXX_INLINE bool Lowering::takes_bytes(const Node& node) const {
  const Bytes own = bytes_for(node);
  if (own != Bytes::possible) return own == Bytes::faster;
  // The bytes are there for another layer.
  return std::ranges::any_of(users_of(*input_of_layer(node)),
                             [&](const Node* user) { return bytes_for(*user) == Bytes::faster; });
}

FXX_INLINE Quantised Lowering::quantised_layer(const Node& node, const Node& input, std::int64_t columns) {
  const FakeQuantize given = *fake_quantize_of(input);
  const int scales = add_constant(node, scales_name(node.name()), Dtype::float32, columns);
  return {given.scale, given.zero - given.lowest, {scales, 0, {columns}, {1}}};
}

FXX_INLINE bool Lowering::quantise(const Node& value, const FakeQuantize& given) {
  bool image = false, any = false;
  for (const Node* user : users_of(value)) {
    if (input_of_layer(*user) != &value || !takes_bytes(*user)) continue;
    any = true;
    image = image || is_convolution(*user);
  }
  if (!any) return false;
  using F = kernels::Function;
  const Sizes& sizes = sizes_of(value);
  Joined joined = join({given.input}, sizes);
  Value bytes;
  bytes.kind = Value::Kind::pending;
  bytes.dtype = Dtype::uint8;
  bytes.root = joined.root;
  bytes.term = call_of(F::subtract, {quantised_term(term_of(*given.input, sizes), given), whole_number(given.lowest)});
  bytes.nodes = std::move(joined.nodes);
  bytes.nodes.push_back(&value);
  const std::int64_t zero = given.zero - given.lowest;
  View to;
  if (image) {
    to = place_image(value, sizes, border_wanted(value, Dtype::uint8), Dtype::uint8);
    plan_.buffers.back().zero = static_cast<int>(zero);
  } else {
    to = {add_buffer(Buffer::Kind::arena, value, Dtype::uint8, product(sizes)), 0, sizes, dense_strides(sizes)};
  }
  emit(std::move(bytes), to);
  bytes_[&value] = to;
  plan_.values.push_back({&value, to, steps(), given.scale, zero});
  TermPointer integer = load_of(std::move(to));
  if (zero != 0) integer = call_of(F::subtract, {std::move(integer), whole_number(zero)});
  set_pending(value, {}, call_of(F::multiply, {std::move(integer), number_of(static_cast<float>(given.scale))}));
  return true;
}

}  // namespace fxx::inline FXX_ABI::plans
