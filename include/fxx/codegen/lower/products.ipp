// Lowering of matrix products.
#pragma once

#include "fxx/codegen/lower/memory.ipp"
#include "fxx/codegen/lower/ways.ipp"

namespace fxx::inline FXX_ABI::plans {

/// In fast mode weights of more than a few columns are bfloat16 where that pays; the rows as well, where products of
/// bfloat16 are faster. A matrix that is made while running is multiplied with where it lies, or packed. `way`: of the
/// product, if something was said of it.
FXX_INLINE void Lowering::choose_weights(MatrixProduct& kernel, const Way& way) const {
  Weights& weights = kernel.weights;
  const bool products = options_.processor.bfloat16_products;
  // What is packed for each matrix at every run is read soon after.
  const bool near = weights.constant ? weights_stay_ : kernel.columns * kernel.depth <= 1 << 16;
  if (options_.accuracy == Accuracy::fast && weights.constant && kernel.batch == 1 && !kernel.quantised)
    weights.reduced = way.packed == Way::Packed::estimated
                          ? fewer_bits_pay(kernel.rows, kernel.columns, kernel.depth, products)
                          : way.packed == Way::Packed::bfloat16;
  // Of few rows: the processor is through with a line of weights so soon that asking for others only costs time.
  const bool streamed =
      options_.processor.reads_ahead && weights.constant && !weights.reduced && !kernel.quantised && kernel.rows <= 4;
  using kernels::Distance;
  if (way.distance == Way::Distance::estimated)
    weights.distance = near ? Distance::near : streamed ? Distance::streamed : Distance::far;
  else weights.distance = way.distance == Way::Distance::near ? Distance::near : Distance::far;
  kernel.reduced_rows = weights.reduced && products && kernel.rows >= 4 && kernel.depth % 2 == 0;
  // Packing takes longer than a product of few rows; a tile is what it is packed for.
  using Reading = MatrixProduct::Reading;
  const Sizes& strides = weights.view.strides;
  kernel.reading = Reading::packed;
  if (weights.constant || way.tile.rows) return;
  if (strides[1] == 1 && kernel.rows <= 4) kernel.reading = Reading::by_columns;
  else if (strides[0] == 1 && kernel.rows <= 32) kernel.reading = Reading::by_rows;
}

/// The tensor as a matrix of rows of its last dimension: rows at one stride, elements behind each other. Copied when it
/// does not lie so.
FXX_INLINE View Lowering::matrix_rows(const Node& node, std::int64_t& stride, const Sizes& sizes) {
  View view = view_of(node);
  const std::int64_t depth = sizes.back(), rows = depth ? product(sizes) / depth : 0;
  std::optional<View> matrix = view.strides.back() == 1 || depth == 1 ? reshaped(view, {rows, depth}) : std::nullopt;
  if (!matrix || (depth > 1 && matrix->strides[1] != 1)) {
    const int buffer = add_buffer(Buffer::Kind::arena, node, Dtype::float32, product(sizes));
    Value copy;
    copy.term = load_of(view);
    copy.nodes = {&node};
    const View dense{buffer, 0, sizes, dense_strides(sizes)};
    emit(std::move(copy), dense);
    matrix = View{buffer, 0, {rows, depth}, {depth, 1}};
  }
  stride = rows > 1 ? matrix->strides[0] : depth;
  return *matrix;
}

/// Rows of the result are counted by one axis, its last dimension by another.
FXX_INLINE Frame rows_and_columns(const Sizes& sizes) {
  Frame frame;
  frame.sizes = sizes;
  frame.dims.resize(sizes.size());
  frame.dims.back() = {1, 1};
  std::int64_t rows = 1;
  for (std::size_t i = sizes.size() - 1; i-- > 0;) {
    frame.dims[i] = {0, rows};
    rows *= sizes[i];
  }
  frame.axes = {{"row", rows}, {"column", sizes.back()}};
  return frame;
}

FXX_INLINE void Lowering::linear(const Node& node, const Operator& op) {
  require_float(node);
  const Node& input = operand(node, op, "input");
  const Node& weight = operand(node, op, "weight");
  const Node* bias = optional_operand(node, op, "bias");
  require_float(input);
  require_float(weight);
  const Sizes &in = sizes_of(input), &out = sizes_of(node), &w = sizes_of(weight);
  if (w.size() != 2 || in.empty() || product(out) == 0 || w[1] == 0) throw NoKernel{"a product of nothing"};
  MatrixProduct kernel;
  kernel.columns = w[0];
  kernel.depth = w[1];
  kernel.rows = product(in) / w[1];
  kernel.weights.view = view_of(weight);
  kernel.weights.constant = buffer_of(kernel.weights.view.buffer).kind == Buffer::Kind::constant;
  if (takes_bytes(node)) {
    kernel.a = bytes_.at(&input);
    kernel.a_row = kernel.depth;
    kernel.quantised = quantised_layer(node, input, kernel.columns);
  } else {
    require_no_library(kernel);
    kernel.a = matrix_rows(input, kernel.a_row, in);
  }
  choose_weights(kernel, way_of(shape_of(kernel)));
  TermPointer term = result_term();
  if (bias) term = call_of(kernels::Function::add, {term, bias_term(*bias, out, out.size() - 1)});
  const double flops = 2. * static_cast<double>(kernel.rows * kernel.columns * kernel.depth);
  set_root(node, std::move(kernel), rows_and_columns(out), flops, {}, std::move(term));
}

/// addmm(bias, a, b) = beta bias + alpha a b, and mm(a, b).
FXX_INLINE void Lowering::addmm(const Node& node, const Operator& op) {
  require_float(node);
  const bool adds = op.base_name() == "addmm";
  const Node& a = operand(node, op, adds ? "mat1" : "self");
  const Node& b = operand(node, op, "mat2");
  require_float(a);
  require_float(b);
  const Sizes &left = sizes_of(a), &out = sizes_of(node);
  if (product(out) == 0 || left[1] == 0) throw NoKernel{"a product of nothing"};
  MatrixProduct kernel;
  kernel.rows = left[0];
  kernel.depth = left[1];
  kernel.columns = out[1];
  view_of(a);
  const View weights = view_of(b);
  kernel.weights.view = {
      weights.buffer, weights.offset, {weights.sizes[1], weights.sizes[0]}, {weights.strides[1], weights.strides[0]}};
  kernel.weights.constant = buffer_of(weights.buffer).kind == Buffer::Kind::constant;
  require_no_library(kernel);
  kernel.a = matrix_rows(a, kernel.a_row, left);
  TermPointer term = result_term();
  if (adds) {
    const Node& self = operand(node, op, "self");
    require_float(self);
    const double alpha = argument(node, op, "alpha").number(), beta = argument(node, op, "beta").number();
    if (alpha == 0) throw NoKernel{"a product that is left out, whatever it is"};
    if (alpha != 1) term = call_of(kernels::Function::multiply, {term, number_of(alpha)});
    view_of(self);  // its own kernel comes before
    TermPointer added = term_of(self, out);
    if (beta != 1) added = call_of(kernels::Function::multiply, {added, number_of(beta)});
    if (beta != 0) term = call_of(kernels::Function::add, {term, added});
  }
  choose_weights(kernel, way_of(shape_of(kernel)));
  const double flops = 2. * static_cast<double>(kernel.rows * kernel.columns * kernel.depth);
  set_root(node, std::move(kernel), rows_and_columns(out), flops, {}, std::move(term));
}

/// matmul and bmm: matrices, or batches of them.
FXX_INLINE void Lowering::matmul(const Node& node, const Operator& op) {
  require_float(node);
  const Node& a = operand(node, op, "self");
  const Node& b = operand(node, op, op.base_name() == "bmm" ? "mat2" : "other");
  require_float(a);
  require_float(b);
  const Sizes &left = sizes_of(a), &right = sizes_of(b), &out = sizes_of(node);
  if (left.size() < 2 || right.size() < 2 || product(out) == 0 || left.back() == 0)
    throw NoKernel{"a product with a vector"};
  MatrixProduct kernel;
  kernel.depth = left.back();
  kernel.columns = right.back();
  const View other = view_of(b);
  if (right.size() == 2) {
    kernel.rows = product(left) / left.back();
    kernel.weights.view = {other.buffer, other.offset, {right[1], right[0]}, {other.strides[1], other.strides[0]}};
    kernel.weights.constant = buffer_of(other.buffer).kind == Buffer::Kind::constant;
    require_no_library(kernel);
    kernel.a = matrix_rows(a, kernel.a_row, left);
    choose_weights(kernel, way_of(shape_of(kernel)));
    const double flops = 2. * static_cast<double>(kernel.rows * kernel.columns * kernel.depth);
    return set_root(node, std::move(kernel), rows_and_columns(out), flops);
  }
  const std::size_t n = out.size();
  kernel.rows = left[left.size() - 2];
  kernel.batch = product(out) / (kernel.rows * kernel.columns);
  kernel.weights.constant = false;
  require_no_library(kernel);
  View first = view_of(a);
  if (first.strides.back() != 1 && first.sizes.back() != 1) {
    std::int64_t stride = 0;
    const View copy = matrix_rows(a, stride, left);
    first = {copy.buffer, copy.offset, left, dense_strides(left)};
  }
  kernel.a_row = first.strides[left.size() - 2];
  Sizes batch(out.begin(), out.end() - 2);
  const auto offsets = [&](const View& view) {
    const View one{view.buffer, 0, Sizes(view.sizes.begin(), view.sizes.end() - 2),
                   Sizes(view.strides.begin(), view.strides.end() - 2)};
    const std::optional<View> wide = broadcast(one, batch);
    if (!wide) throw NoKernel{"batches that do not fit"};
    Sizes result(static_cast<std::size_t>(product(batch)), 0);
    for (std::size_t i = 0; i < result.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      for (std::size_t d = batch.size(); d-- > 0;) {
        result[i] += rest % batch[d] * wide->strides[d];
        rest /= batch[d];
      }
    }
    return result;
  };
  kernel.a = first;
  kernel.a_batch = offsets(first);
  kernel.weights.view = {other.buffer,
                         other.offset,
                         {right.back(), right[right.size() - 2]},
                         {other.strides.back(), other.strides[right.size() - 2]}};
  kernel.weights_batch = offsets(other);
  choose_weights(kernel, way_of(shape_of(kernel)));
  Frame frame;
  frame.sizes = out;
  frame.axes = {{"matrix", kernel.batch}, {"row", kernel.rows}, {"column", kernel.columns}};
  frame.dims.resize(n);
  std::int64_t step = 1;
  for (std::size_t i = n - 2; i-- > 0;) {
    frame.dims[i] = {0, step};
    step *= out[i];
  }
  frame.dims[n - 2] = {1, 1};
  frame.dims[n - 1] = {2, 1};
  const double flops = 2. * static_cast<double>(kernel.batch * kernel.rows * kernel.columns * kernel.depth);
  set_root(node, std::move(kernel), std::move(frame), flops);
}

}  // namespace fxx::inline FXX_ABI::plans
