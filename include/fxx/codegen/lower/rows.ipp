// Lowering of softmax, normalisation and sums over the last dimensions.
#pragma once

#include "fxx/codegen/lower/terms.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Longer rows do not stand in the first cache, where the kernels keep them.
inline constexpr std::int64_t longest_row = 16384;

/// These dimensions are counted by the columns, the others by the rows.
FXX_INLINE Frame frame_of_rows(const Sizes& sizes, const Sizes& dims) {
  Frame frame;
  frame.sizes = sizes;
  frame.dims.resize(sizes.size());
  std::int64_t columns = 1, rows = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const bool column = std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(i)) != dims.end();
    frame.dims[i] = {column ? 1 : 0, column ? columns : rows};
    (column ? columns : rows) *= sizes[i];
  }
  frame.axes = {{"row", rows}, {"column", columns}};
  return frame;
}
/// The last `count` of so many dimensions.
FXX_INLINE Sizes last_dims(std::size_t all, std::size_t count) {
  Sizes dims;
  for (std::size_t i = count; i > 0; --i) dims.push_back(static_cast<std::int64_t>(all - i));
  return dims;
}

FXX_INLINE void Lowering::row_function(const Node& node, const Node& input, const Sizes& dims, Rows::Kind kind,
                                       double eps, const Node* weight, const Node* bias) {
  require_float(node);
  require_float(input);
  const Sizes in = sizes_of(input), out = sizes_of(node);
  if (product(in) == 0 || dims.size() > in.size() || (dims.empty() && !in.empty())) throw NoKernel{"rows of nothing"};
  Rows kernel;
  kernel.kind = kind;
  kernel.eps = eps;
  kernel.read = frame_of_rows(in, dims);
  kernel.rows = kernel.read.axes[0].extent;
  kernel.length = kernel.read.axes[1].extent;
  if (kernel.length > longest_row) throw NoKernel{"rows of more than " + std::to_string(longest_row) + " elements"};
  // What the input is computed of is read once, so it can be computed here unless it has a kernel of its own.
  std::vector<const Node*> nodes;
  const Value& value = value_of(input);
  if (value.kind == Value::Kind::pending &&
      (value.root || calls_in(*value.term) > 24 || dims != last_dims(in.size(), 1)))
    view_of(input);
  if (value.kind == Value::Kind::pending) nodes = value.nodes;
  kernel.input = term_of(input, in);
  // Reductions over dimensions before the last: vectors hold columns.
  const std::size_t n = in.size();
  bool before = !dims.empty() && dims.back() != static_cast<std::int64_t>(n - 1);
  for (std::size_t i = 1; i < dims.size(); ++i) before = before && dims[i] == dims[i - 1] + 1;
  if (kernel.reduces() && before && kind != Rows::Kind::norm) {
    const auto first = static_cast<std::size_t>(dims.front()), behind = static_cast<std::size_t>(dims.back()) + 1;
    // Groups, what is summed, what stays.
    std::int64_t steps[3] = {1, 1, 1};
    for (std::size_t d = n; d-- > 0;) {
      const int axis = d >= behind ? 2 : d >= first ? 1 : 0;
      kernel.read.dims[d] = {axis, steps[axis]};
      steps[axis] *= in[d];
    }
    kernel.rows = steps[0];
    kernel.columns = steps[2];
    kernel.read.axes = {{"row", kernel.rows}, {"k", kernel.length}, {"column", kernel.columns}};
  }
  Frame frame;
  if (kernel.reduces()) {
    frame.axes = {{"row", kernel.rows}, {"column", std::max<std::int64_t>(kernel.columns, 1)}};
    frame.sizes = out;
    frame.dims.resize(out.size());
    // The last sizes are the columns, until all of them are counted.
    std::int64_t step = 1;
    bool columns = kernel.columns > 1;
    for (std::size_t i = out.size(); i-- > 0;) {
      if (columns && step == kernel.columns) {
        columns = false;
        step = 1;
      }
      frame.dims[i] = {columns ? 1 : 0, step};
      step *= out[i];
    }
  } else {
    frame = kernel.read;
  }
  TermPointer term = result_term();
  const auto affine = [&](const Node& of, kernels::Function function) {
    const std::optional<View> view = broadcast(view_of(of), out);
    if (!view) throw NoKernel{"a scale of other sizes"};
    term = call_of(function, {term, load_of(*view)});
  };
  if (weight) affine(*weight, kernels::Function::multiply);
  if (bias) affine(*bias, kernels::Function::add);
  const double flops = static_cast<double>(product(in)) * (kernel.reduces() ? 1 : 5);
  set_root(node, std::move(kernel), std::move(frame), flops, {}, std::move(term), std::move(nodes));
}

FXX_INLINE void Lowering::softmax(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const std::size_t dims = sizes_of(input).size();
  if (dims == 0) throw NoKernel{"a softmax of a number"};
  const auto dim = static_cast<std::int64_t>(dimension(integer(argument(node, op, "dim")), dims));
  if (meta_of(input).dtype != meta_of(node).dtype) throw NoKernel{"a conversion"};
  const bool log = op.base_name().find("log") != std::string_view::npos;
  row_function(node, input, {dim}, log ? Rows::Kind::log_softmax : Rows::Kind::softmax, 0, nullptr, nullptr);
}

FXX_INLINE void Lowering::layer_norm(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "input");
  const Sizes shape = integers(argument(node, op, "normalized_shape"));
  const bool rms = op.base_name() == "rms_norm";
  const Argument eps = argument(node, op, "eps");
  if (!rms && !eps.is_number()) throw NoKernel{"no eps"};
  row_function(node, input, last_dims(sizes_of(input).size(), shape.size()),
               rms ? Rows::Kind::rms_norm : Rows::Kind::layer_norm,
               eps.is_number() ? eps.number() : 1.1920928955078125e-07, optional_operand(node, op, "weight"),
               rms ? nullptr : optional_operand(node, op, "bias"));
}

/// sum, mean, amax, amin over the last dimensions, or over all.
FXX_INLINE void Lowering::reduce(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  if (op.index_of("dtype") >= 0 && !argument(node, op, "dtype").is_none()) throw NoKernel{"a conversion"};
  const std::size_t count = sizes_of(input).size();
  Sizes dims;
  if (op.index_of("dim") >= 0 && !argument(node, op, "dim").is_none())
    for (std::int64_t d : integers(argument(node, op, "dim")))
      dims.push_back(static_cast<std::int64_t>(dimension(d, count)));
  if (dims.empty())
    for (std::size_t d = 0; d < count; ++d) dims.push_back(static_cast<std::int64_t>(d));
  std::sort(dims.begin(), dims.end());
  const std::string_view name = op.base_name();
  const Rows::Kind kind = name == "sum"    ? Rows::Kind::sum
                          : name == "mean" ? Rows::Kind::mean
                          : name == "amax" ? Rows::Kind::largest
                                           : Rows::Kind::smallest;
  if (kind == Rows::Kind::mean && mean_of_image(node, input, dims)) return;
  row_function(node, input, dims, kind, 0, nullptr, nullptr);
}

/// The square root of the sum of squares.
FXX_INLINE void Lowering::norm(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const Argument p = argument(node, op, op.index_of("p") >= 0 ? "p" : "ord");
  if (!p.is_none() && (!p.is_number() || p.number() != 2)) throw NoKernel{"a norm of another kind"};
  if (op.index_of("dtype") >= 0 && !argument(node, op, "dtype").is_none()) throw NoKernel{"a conversion"};
  const std::size_t count = sizes_of(input).size();
  Sizes dims;
  if (op.index_of("dim") >= 0 && !argument(node, op, "dim").is_none())
    for (std::int64_t d : integers(argument(node, op, "dim")))
      dims.push_back(static_cast<std::int64_t>(dimension(d, count)));
  if (dims.empty()) dims = last_dims(count, count);
  std::sort(dims.begin(), dims.end());
  row_function(node, input, dims, Rows::Kind::norm, 0, nullptr, nullptr);
}

}  // namespace fxx::inline FXX_ABI::plans
