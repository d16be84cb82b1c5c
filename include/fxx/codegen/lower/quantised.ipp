// Lowering of quantised values: as the floats that they stand for, and as bytes where products of integers read them.
#pragma once

#include "fxx/codegen/lower/memory.ipp"
#include "fxx/codegen/quantised.hpp"

namespace fxx::inline FXX_ABI::plans {

/// The integers that x becomes, as floats.
FXX_INLINE TermPointer quantised_term(const TermPointer& x, const FakeQuantize& given) {
  // As LibTorch does: times the inverse in single precision.
  const float inverse = 1.f / static_cast<float>(given.scale);
  return call_of(kernels::Function::quantised,
                 {x, number_of(inverse), number_of(static_cast<double>(given.zero)),
                  number_of(static_cast<double>(given.lowest)), number_of(static_cast<double>(given.highest))});
}

/// fake_quantize_per_tensor_affine, and with the mask of what was in range.
FXX_INLINE void Lowering::fake_quantize(const Node& node, const Operator& op) {
  using F = kernels::Function;
  const std::optional<FakeQuantize> given = fake_quantize_of(node);
  if (!given) throw NoKernel{"a scale that is not a number"};
  const Node& input = *given->input;
  require_float(input);
  const Sizes& sizes = sizes_of(input);
  const TermPointer zero = number_of(static_cast<double>(given->zero));
  const auto values = [&](const Node& result) {
    require_float(result);
    Joined joined = join({&input}, sizes);
    TermPointer term = quantised_term(term_of(input, sizes), *given);
    term = call_of(F::multiply,
                   {call_of(F::subtract, {std::move(term), zero}), number_of(static_cast<float>(given->scale))});
    set_pending(result, joined.root, std::move(term), std::move(joined.nodes));
  };
  if (!op.base_name().ends_with("cachemask")) return values(node);
  if (node.num_users() > 1) view_of(input);
  with_results(
      node,
      {values, [&](const Node& result) {
         Joined joined = join({&input}, sizes);
         const TermPointer x = call_of(
             F::add, {call_of(F::rounded, {call_of(F::multiply, {term_of(input, sizes),
                                                                 number_of(1.f / static_cast<float>(given->scale))})}),
                      zero});
         set_pending(
             result, joined.root,
             call_of(F::logical_and, {call_of(F::greater_or_equal, {x, number_of(static_cast<double>(given->lowest))}),
                                      call_of(F::less_or_equal, {x, number_of(static_cast<double>(given->highest))})}),
             std::move(joined.nodes));
       }});
}

/// With few rows the time is that of reading the weights, a quarter of those of floats; with many that of the products.
FXX_INLINE bool Lowering::could_take_bytes(const Node& node) const {
  const auto known = options_.quantised.find(node.name());
  const Operator* op = operator_of(node);
  if (known == options_.quantised.end() || options_.accuracy == Accuracy::exact || !op || op->name != "aten::linear")
    return false;
  const Node &input = operand(node, *op, "input"), &weight = operand(node, *op, "weight");
  const Sizes &in = sizes_of(input), &w = sizes_of(weight);
  // Sums of more rows of weights would not fit into 32 bits.
  if (weight.opcode() != Opcode::get_attr || product(in) == 0 || w.size() != 2 || w[0] < 16 || w[1] < 32 ||
      w[1] > 65000)
    return false;
  const std::int64_t rows = product(in) / w[1];
  return (options_.processor.byte_products || rows < (weights_stay_ ? 4 : 16)) && fake_quantize_of(input);
}
FXX_INLINE bool Lowering::takes_bytes(const Node& linear) const {
  return could_take_bytes(linear) && std::ranges::all_of(operand(linear, *operator_of(linear), "input").users(),
                                                         [&](const Node* user) { return could_take_bytes(*user); });
}

FXX_INLINE bool Lowering::only_as_bytes(const Node& value) const {
  return !options_.quantised.empty() && fake_quantize_of(value) &&
         std::ranges::all_of(value.users(), [&](const Node* user) { return takes_bytes(*user); });
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
  bytes.term = quantised_term(term_of(*given.input, sizes), given);
  bytes.term =
      call_of(kernels::Function::subtract, {std::move(bytes.term), number_of(static_cast<double>(given.lowest))});
  bytes.nodes = std::move(joined.nodes);
  bytes.nodes.push_back(&value);
  const View to{add_buffer(Buffer::Kind::arena, value, Dtype::uint8, product(sizes)), 0, sizes, dense_strides(sizes)};
  emit(std::move(bytes), to);
  return bytes_[&value] = to;
}

FXX_INLINE View Lowering::scales_of(const Node& linear) {
  const std::string& name = options_.quantised.find(linear.name())->second;
  const std::int64_t columns = sizes_of(linear).back();
  const auto [known, fresh] = attributes_.try_emplace(name, static_cast<int>(plan_.attributes.size()));
  if (fresh) plan_.attributes.push_back(name);
  const View view{add_buffer(Buffer::Kind::constant, linear, Dtype::float32, columns), 0, {columns}, {1}};
  plan_.buffers.back().number = known->second;
  return view;
}

}  // namespace fxx::inline FXX_ABI::plans
