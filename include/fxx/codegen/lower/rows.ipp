// Lowering of softmax, normalisation, running sums and reductions.
#pragma once

#include <algorithm>
#include <numeric>

#include "fxx/codegen/lower/memory.ipp"
#include "fxx/codegen/lower/terms.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Longer rows do not stand in the first cache, where the kernels keep them.
inline constexpr std::int64_t longest_row = 16384;
/// Of reductions nothing is kept; of longer rows LibTorch's have all threads for one.
inline constexpr std::int64_t longest_reduced_row = 1 << 20;

/// These dimensions are counted by the columns, the others by the rows: both along `order`, the outermost first.
FXX_INLINE Frame frame_of_rows(const Sizes& sizes, const Sizes& dims, const Sizes& order) {
  Frame frame;
  frame.sizes = sizes;
  frame.dims.resize(sizes.size());
  std::int64_t columns = 1, rows = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    const bool column = std::find(dims.begin(), dims.end(), order[i]) != dims.end();
    frame.dims[d] = {column ? 1 : 0, column ? columns : rows};
    (column ? columns : rows) *= sizes[d];
  }
  frame.axes = {{"row", rows}, {"column", columns}};
  return frame;
}
FXX_INLINE Sizes in_order(std::size_t dims) {
  Sizes order(dims);
  std::iota(order.begin(), order.end(), 0);
  return order;
}
/// The order in which the dimensions lie in memory, the outermost first; that of the sizes where one element stands for
/// several. Dimensions of one element stay where they are.
FXX_INLINE Sizes order_in_memory(const View& view) {
  Sizes all = in_order(view.sizes.size()), large;
  for (const std::int64_t d : all) {
    const auto i = static_cast<std::size_t>(d);
    if (view.sizes[i] == 1) continue;
    if (view.strides[i] == 0) return all;
    large.push_back(d);
  }
  std::ranges::stable_sort(large, std::ranges::greater(), [&](std::int64_t d) {
    return std::abs(view.strides[static_cast<std::size_t>(d)]);
  });
  std::size_t next = 0;
  for (std::int64_t& d : all)
    if (view.sizes[static_cast<std::size_t>(d)] != 1) d = large[next++];
  return all;
}
/// The last `count` of so many dimensions.
FXX_INLINE Sizes last_dims(std::size_t all, std::size_t count) {
  Sizes dims;
  for (std::size_t i = count; i > 0; --i) dims.push_back(static_cast<std::int64_t>(all - i));
  return dims;
}

/// Is there a kernel of columns, where vectors hold columns?
FXX_INLINE bool has_columns(Rows::Kind kind) {
  using Kind = Rows::Kind;
  return kind == Kind::softmax || kind == Kind::log_softmax || kind >= Kind::sum;
}
/// Columns that softmax keeps; of longer ones it asks three times for each element.
inline constexpr std::int64_t longest_kept_column = 128;
/// Rows that fill no vector are read as columns, where there are many.
FXX_INLINE bool are_short(std::int64_t rows, std::int64_t length) { return length <= 16 && rows >= 64; }

/// The largest or smallest of a product's rows, kept while it is computed, so that nothing is stored of it. With so few
/// columns threads, which share these, would have nothing to do.
inline constexpr std::int64_t least_columns_of_extremes = 128;
FXX_INLINE bool Lowering::keep_extremes(const Node& node, const Node& input, const Sizes& dims, Rows::Kind kind) {
  if (kind != Rows::Kind::largest && kind != Rows::Kind::smallest) return false;
  const Value& value = value_of(input);
  const auto* matrices = value.root ? std::get_if<MatrixProduct>(&value.root->kernel) : nullptr;
  if (value.kind != Value::Kind::pending || !matrices || value.dtype != Dtype::float32 ||
      meta_of(node).dtype != Dtype::float32 || matrices->batch != 1 || !matrices->weights.constant ||
      matrices->weights.reduced || matrices->quantised || matrices->columns < least_columns_of_extremes)
    return false;
  const Node& reader = **input.users().begin();  // of which the node may be an item
  const Frame& frame = value.root->frame;
  const Sizes& in = sizes_of(input);
  if (input.num_users() != 1 || (&reader != &node && reader.num_users() != 1) || frame.sizes != in) return false;
  std::int64_t reduced = 1;
  std::optional<std::size_t> column;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const bool is_reduced = std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
    if (is_reduced) reduced *= in[d];
    if (in[d] == 1 || frame.dims[d].axis == 0) continue;
    if (is_reduced || column) return false;
    column = d;
  }
  if (!column || in[*column] != matrices->columns || reduced < 16) return false;
  // Columns lie behind each other, wherever else the result is wanted: it is small.
  View result = add_dense(node, sizes_of(node)), to{result.buffer, 0, in, Sizes(in.size(), 0)};
  const bool keeps_dims = result.sizes.size() == in.size();
  std::int64_t step = matrices->columns;
  for (std::size_t d = in.size(), next = result.sizes.size(); d-- > 0;) {
    const bool is_reduced = std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
    if (is_reduced && !keeps_dims) continue;
    --next;
    result.strides[next] = d == *column ? 1 : step;
    if (is_reduced) continue;
    to.strides[d] = result.strides[next];
    if (d != *column) step *= in[d];
  }
  const double none = std::numeric_limits<double>::infinity();
  write(node, number_of(kind == Rows::Kind::largest ? -none : none), result);
  Value pending = std::move(value_of(input));
  value_of(input) = {};
  pending.nodes.push_back(&node);
  emit(std::move(pending), std::move(to));
  KernelStep& made = plan_.steps.back();
  made.stores[0].kept = kind == Rows::Kind::largest ? Store::Kept::largest : Store::Kept::smallest;
  made.bytes -= static_cast<double>(4 * (product(in) - result.numel()));
  set_view(node, result, Dtype::float32);
  return true;
}

FXX_INLINE void Lowering::row_function(const Node& node, const Node& input, const Sizes& dims, Rows kernel,
                                       const Affine& affine) {
  using Kind = Rows::Kind;
  require_elements(node);
  require_elements(input);
  const Sizes in = sizes_of(input), out = sizes_of(node);
  if (product(in) == 0 || dims.size() > in.size() || (dims.empty() && !in.empty())) throw NoKernel{"rows of nothing"};
  // What kernels read and give: masks are counted as floats, which hold these numbers exactly.
  const Kind kind = kernel.kind;
  const bool chooses = kind == Kind::any || kind == Kind::all;
  const bool finds = kind == Kind::arg_largest || kind == Kind::arg_smallest;
  const bool adds = kind == Kind::sum || kind == Kind::running_sum || kind == Kind::product;
  const Elements given = elements_of(meta_of(input).dtype), wanted = elements_of(meta_of(node).dtype);
  const bool integers =
      given == Elements::integer && (adds || finds || kind == Kind::largest || kind == Kind::smallest);
  if (given != Elements::real && !integers && !chooses && !(given == Elements::mask && adds))
    throw NoKernel{std::string(name_of(meta_of(input).dtype))};
  const bool byte = chooses && meta_of(node).dtype == Dtype::uint8;  // what LibTorch gives of bytes
  if (wanted !=
      (chooses && !byte ? Elements::mask : byte || finds || given != Elements::real ? Elements::integer : Elements::real))
    throw NoKernel{std::string(name_of(meta_of(node).dtype))};
  const std::size_t n = in.size();
  kernel.read = frame_of_rows(in, dims, in_order(n));
  kernel.rows = kernel.read.axes[0].extent;
  kernel.length = kernel.read.axes[1].extent;
  const bool kept = !kernel.reduces() && kind != Kind::running_sum && kind != Kind::running_product;
  if (const std::int64_t longest = kept ? longest_row : longest_reduced_row; kernel.length > longest)
    throw NoKernel{"rows of more than " + std::to_string(longest) + " elements"};
  const auto is_reduced = [&](std::int64_t d) { return std::ranges::find(dims, d) != dims.end(); };
  bool together = !dims.empty();
  for (std::size_t i = 1; i < dims.size(); ++i) together = together && dims[i] == dims[i - 1] + 1;
  // Elements behind each other that are not reduced, when the dimensions lie in this order.
  const auto inner_of = [&](const Sizes& order) {
    std::int64_t inner = 1;
    for (std::size_t i = n; i-- > 0;) {
      const std::int64_t size = in[static_cast<std::size_t>(order[i])];
      if (size == 1) continue;
      if (is_reduced(order[i])) break;
      inner *= size;
    }
    return inner;
  };
  // Reductions over what is not innermost in memory, and of short rows: vectors hold columns.
  const auto in_groups = [&](std::int64_t inner) { return kernel.reduces() ? inner > 1 : together && inner >= 8; };
  const auto holds_columns = [&](std::int64_t inner) {
    return has_columns(kind) &&
           (in_groups(inner) || (!integers && together && are_short(kernel.rows, kernel.length)));
  };
  Sizes order = in_order(n);
  bool columns = holds_columns(inner_of(order));
  // What the input is computed of is read once, so it can be computed here unless it has a kernel of its own.
  const bool again = kernel.is_spread() || (columns && kept && kernel.length > longest_kept_column) ||
                     (columns && kind == Kind::log_sum_exp);
  if (affine.weight == nullptr && affine.bias == nullptr && keep_extremes(node, input, dims, kind)) return;
  std::vector<const Node*> nodes;
  const Value& value = value_of(input);
  if (value.kind == Value::Kind::pending &&
      (value.root || calls_in(*value.term) > (again ? 0 : 24) || dims != last_dims(in.size(), 1)))
    view_of(input);
  if (value.kind == Value::Kind::pending) nodes = value.nodes;
  if (kernel.reduces()) {
    View lies{-1, 0, in, dense_strides(in)};
    if (value.kind != Value::Kind::pending) lies = view_of(input);
    else if (const std::optional<Sizes> loads = order_of_loads(*value.term, in))
      for (std::int64_t step = 1, i = static_cast<std::int64_t>(n); i-- > 0;) {
        const auto d = static_cast<std::size_t>((*loads)[static_cast<std::size_t>(i)]);
        lies.strides[d] = step;
        step *= in[d];
      }
    order = order_in_memory(lies);
  }
  const bool turned = order != in_order(n);
  const std::int64_t inner = inner_of(order);
  columns = holds_columns(inner);
  kernel.input = term_of(input, in);
  if (chooses) kernel.input = converted(kernel.input, Elements::mask);
  if (!integers) kernel.input = converted(kernel.input, Elements::real);
  // Places are counted as the sizes say, sums as the elements lie.
  if (turned && !finds) kernel.read = frame_of_rows(in, dims, order);
  else if (turned)
    for (std::int64_t step = 1, i = static_cast<std::int64_t>(n); i-- > 0;) {
      const std::int64_t d = order[static_cast<std::size_t>(i)];
      if (is_reduced(d)) continue;
      kernel.read.dims[static_cast<std::size_t>(d)].divisor = step;
      step *= in[static_cast<std::size_t>(d)];
    }
  if (columns) {
    // Groups, what is reduced, what stays. Of short rows there is one group.
    const bool groups = in_groups(inner);
    std::int64_t steps[3] = {1, 1, 1};
    bool behind = true;  // all that is reduced
    for (std::size_t i = n; i-- > 0;) {
      const std::int64_t d = order[i], size = in[static_cast<std::size_t>(d)];
      Frame::Place& place = kernel.read.dims[static_cast<std::size_t>(d)];
      if (is_reduced(d)) {
        behind = behind && size == 1;
        place.axis = 1;
      } else {
        const int axis = behind || !groups ? 2 : 0;
        place = {axis, steps[axis]};
        steps[axis] *= size;
      }
    }
    kernel.rows = steps[0];
    kernel.columns = steps[2];
    kernel.read.axes = {{"row", kernel.rows}, {"k", kernel.length}, {"column", kernel.columns}};
  }
  Frame frame;
  Sizes order_of_result;
  if (kernel.reduces()) {
    frame.axes = {{"row", kernel.rows}, {"column", std::max<std::int64_t>(kernel.columns, 1)}};
    frame.sizes = out;
    frame.dims.resize(out.size());
    // What stays is counted as in the input.
    std::vector<std::int64_t> of_input(n, -1);  // the dimension that it becomes
    std::size_t next = 0;
    for (std::size_t d = 0; d < n; ++d) {
      const bool gone = is_reduced(static_cast<std::int64_t>(d));
      if (gone && out.size() != n) continue;
      of_input[d] = static_cast<std::int64_t>(next);
      const Frame::Place& place = kernel.read.dims[d];
      frame.dims[next++] = gone ? Frame::Place{0, 1} : Frame::Place{place.axis == 2 ? 1 : 0, place.divisor};
    }
    if (turned)
      for (const std::int64_t d : order)
        if (const std::int64_t to = of_input[static_cast<std::size_t>(d)]; to >= 0) order_of_result.push_back(to);
    if (order_of_result == in_order(order_of_result.size())) order_of_result.clear();
  } else {
    frame = kernel.read;
  }
  TermPointer term = result_of(chooses ? Elements::mask : finds || integers ? Elements::integer : Elements::real);
  term = converted(term, wanted);
  term = wrapped(std::move(term), meta_of(node).dtype);  // kernels add and multiply int64
  const auto with = [&](const Node& of, kernels::Function function) {
    const std::optional<View> view = broadcast(view_of(of), out);
    if (!view) throw NoKernel{"a scale of other sizes"};
    term = call_of(function, {term, load_of(*view)});
  };
  if (affine.weight) with(*affine.weight, kernels::Function::multiply);
  if (affine.bias) with(*affine.bias, kernels::Function::add);
  const double flops = static_cast<double>(product(in)) * (kept ? 5 : 1);
  set_root(node, std::move(kernel), std::move(frame), flops, std::move(order_of_result), std::move(term),
           std::move(nodes));
}

FXX_INLINE void Lowering::softmax(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const std::size_t dims = sizes_of(input).size();
  if (dims == 0) throw NoKernel{"a softmax of a number"};
  const auto dim = static_cast<std::int64_t>(dimension(integer(argument(node, op, "dim")), dims));
  if (meta_of(input).dtype != meta_of(node).dtype) throw NoKernel{"a conversion"};
  const bool log = op.base_name().find("log") != std::string_view::npos;
  row_function(node, input, {dim}, {.kind = log ? Rows::Kind::log_softmax : Rows::Kind::softmax});
}

FXX_INLINE void Lowering::layer_norm(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "input");
  const Sizes shape = integers(argument(node, op, "normalized_shape"));
  const bool rms = op.base_name() == "rms_norm";
  const Argument eps = argument(node, op, "eps");
  if (!rms && !eps.is_number()) throw NoKernel{"no eps"};
  row_function(
      node, input, last_dims(sizes_of(input).size(), shape.size()),
      {.kind = rms ? Rows::Kind::rms_norm : Rows::Kind::layer_norm,
       .eps = eps.is_number() ? eps.number() : 1.1920928955078125e-07},
      {.weight = optional_operand(node, op, "weight"), .bias = rms ? nullptr : optional_operand(node, op, "bias")});
}

/// The dimensions that a reduction is over, in order: all, where none are named.
FXX_INLINE Sizes Lowering::reduced_dims(const Node& node, const Operator& op, const Node& input) const {
  const std::size_t count = sizes_of(input).size();
  Sizes dims;
  if (op.index_of("dim") >= 0 && !argument(node, op, "dim").is_none())
    for (std::int64_t d : integers(argument(node, op, "dim")))
      if (count > 0) dims.push_back(static_cast<std::int64_t>(dimension(d, count)));
  if (dims.empty()) return last_dims(count, count);
  std::sort(dims.begin(), dims.end());
  return dims;
}
/// The dtype that was asked for is that of the result, which `row_function` looks at; integers are not added as floats.
FXX_INLINE void Lowering::require_no_conversion(const Node& node, const Operator& op, const Node& input) const {
  if (op.index_of("dtype") < 0 || argument(node, op, "dtype").is_none()) return;
  const Dtype from = meta_of(input).dtype, to = meta_of(node).dtype;
  if (from != to && !(from == Dtype::boolean && to == Dtype::int64)) throw NoKernel{"a conversion"};
}

/// sum, mean, prod, amax, argmax, any and the like, over any dimensions.
FXX_INLINE void Lowering::reduce(const Node& node, const Operator& op) {
  using Kind = Rows::Kind;
  static constexpr std::pair<std::string_view, Kind> kinds[] = {{"sum", Kind::sum},
                                                                {"mean", Kind::mean},
                                                                {"prod", Kind::product},
                                                                {"amax", Kind::largest},
                                                                {"max", Kind::largest},
                                                                {"amin", Kind::smallest},
                                                                {"min", Kind::smallest},
                                                                {"argmax", Kind::arg_largest},
                                                                {"argmin", Kind::arg_smallest},
                                                                {"any", Kind::any},
                                                                {"all", Kind::all},
                                                                {"logsumexp", Kind::log_sum_exp}};
  const Node& input = operand(node, op, "self");
  require_no_conversion(node, op, input);
  const Sizes dims = reduced_dims(node, op, input);
  const auto known =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& kind) { return kind.first == op.base_name(); });
  if (known == std::end(kinds)) throw NoKernel{"a reduction of another kind"};
  // For any and all an empty list of dimensions is none of them, for the others all.
  if ((known->second == Kind::any || known->second == Kind::all) && op.index_of("dim") >= 0)
    if (const Argument given = argument(node, op, "dim"); given.is_sequence() && given.items().empty())
      throw NoKernel{"over no dimension"};
  if (known->second == Kind::mean && mean_of_image(node, input, dims)) return;
  row_function(node, input, dims, {.kind = known->second});
}

/// The p-th root of the sum of p-th powers of magnitudes.
FXX_INLINE void Lowering::norm(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const Argument p = argument(node, op, op.index_of("p") >= 0 ? "p" : "ord");
  if (!p.is_none() && !p.is_number()) throw NoKernel{"a norm of another kind"};
  require_no_conversion(node, op, input);
  row_function(node, input, reduced_dims(node, op, input),
               {.kind = Rows::Kind::norm, .p = p.is_none() ? 2. : p.number()});
}

/// cumsum, cumprod.
FXX_INLINE void Lowering::running(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  require_no_conversion(node, op, input);
  const std::size_t count = sizes_of(input).size();
  Sizes dims;
  if (count > 0) dims.push_back(static_cast<std::int64_t>(dimension(integer(argument(node, op, "dim")), count)));
  row_function(node, input, dims,
               {.kind = op.base_name() == "cumsum" ? Rows::Kind::running_sum : Rows::Kind::running_product});
}

FXX_INLINE void Lowering::with_results(const Node& node, std::initializer_list<ItemHandler> results) {
  std::vector<const Node*> taken(results.size());
  for (const Node* user : node.users()) {
    const std::optional<std::int64_t> item = item_taken(*user);
    if (!item) throw NoKernel{"results that are not taken apart"};
    const std::int64_t i = *item < 0 ? *item + static_cast<std::int64_t>(taken.size()) : *item;
    if (i < 0 || i >= static_cast<std::int64_t>(taken.size()) || taken[static_cast<std::size_t>(i)])
      throw NoKernel{"results that are taken twice"};
    taken[static_cast<std::size_t>(i)] = user;
  }
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (taken[i]) results.begin()[i](*taken[i]);
  value_of(node).kind = Value::Kind::tuple;
}

/// max and min along a dimension, with the places.
FXX_INLINE void Lowering::extremes(const Node& node, const Operator& op) {
  using Kind = Rows::Kind;
  const Node& input = operand(node, op, "self");
  const Sizes dims = reduced_dims(node, op, input);
  const bool most = op.base_name() == "max";
  if (node.num_users() > 1) view_of(input);
  with_results(node, {[&](const Node& values) {
                        row_function(values, input, dims, {.kind = most ? Kind::largest : Kind::smallest});
                      },
                      [&](const Node& places) {
                        row_function(places, input, dims, {.kind = most ? Kind::arg_largest : Kind::arg_smallest});
                      }});
}

/// var, std, var_mean, std_mean.
FXX_INLINE void Lowering::variance(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const Sizes dims = reduced_dims(node, op, input);
  const std::string_view name = op.base_name();
  Rows kernel{.kind = name.starts_with("std") ? Rows::Kind::deviation : Rows::Kind::variance, .correction = 1};
  if (op.index_of("unbiased") >= 0) {
    kernel.correction = argument(node, op, "unbiased").boolean() ? 1 : 0;
  } else if (const Argument correction = argument(node, op, "correction"); !correction.is_none()) {
    if (!correction.is_number()) throw NoKernel{"a correction that is not a number"};
    kernel.correction = correction.number();
  }
  const auto spread = [&](const Node& result) { row_function(result, input, dims, kernel); };
  if (!name.ends_with("_mean")) return spread(node);
  view_of(input);
  with_results(node,
               {spread, [&](const Node& result) { row_function(result, input, dims, {.kind = Rows::Kind::mean}); }});
}

}  // namespace fxx::inline FXX_ABI::plans
