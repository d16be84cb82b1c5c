// Lowering of what orders the elements of rows, and of searches in rows that are in order.
#pragma once

#include "fxx/codegen/lower/rows.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Are so many of the first found without sorting the others? (kernels/sorting.hpp)
inline constexpr std::int64_t longest_top = 128;

/// The elements with one dimension as rows behind each other; copied where they do not lie so.
FXX_INLINE View Lowering::rows_along(const Node& node, const Node& input, std::size_t dim) {
  View view = view_of(input);
  const auto move_last = [&](Sizes& sizes) {
    const std::int64_t own = sizes[dim];
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
    sizes.push_back(own);
  };
  move_last(view.sizes);
  move_last(view.strides);
  const std::int64_t length = view.sizes.back(), rows = view.numel() / length;
  if (view.strides.back() == 1 || length == 1)
    if (const std::optional<View> all = reshaped(view, {rows, length})) return *all;
  const View dense = add_dense(input, view.sizes);
  copy_to(node, view, dense);
  return {dense.buffer, 0, {rows, length}, {length, 1}};
}

/// sort, argsort, msort, topk: elements and places, or one of them.
FXX_INLINE void Lowering::sort(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  require_elements(input);
  const Dtype dtype = meta_of(input).dtype;
  if (dtype == Dtype::boolean) throw NoKernel{"bool"};
  const Sizes& in = sizes_of(input);
  if (in.empty() || product(in) == 0) throw NoKernel{"an order of nothing"};
  const bool top = op.base_name() == "topk";
  const std::size_t dim = dimension(op.index_of("dim") >= 0 ? integer(argument(node, op, "dim")) : 0, in.size());
  Sort kernel;
  kernel.descending = argument(node, op, top ? "largest" : "descending").boolean();
  kernel.length = in[dim];
  kernel.rows = product(in) / kernel.length;
  kernel.count = top ? integer(argument(node, op, "k")) : kernel.length;
  if (kernel.count == 0) throw NoKernel{"an order of nothing"};
  kernel.by_best = kernel.count <= longest_top && kernel.count * 8 <= kernel.length;
  Sizes sizes = in;
  sizes[dim] = kernel.count;
  const auto result = [&](const Node& of, View& to) {
    // Rows behind each other; read in the order of the dimensions.
    Sizes wanted = sizes;
    wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(dim));
    wanted.push_back(kernel.count);
    View rows;
    // Not where the results of a sorted transpose leave the graph with strides of their own: these are copied there.
    if (dim + 1 == in.size() && strides_in_memory(of) == dense_strides(wanted)) {
      Value own;
      own.kind = Value::Kind::pending;
      own.dtype = meta_of(of).dtype;
      own.term = number_of(0);
      rows = place(of, own);
      if (rows.strides != dense_strides(rows.sizes)) rows = add_dense(of, wanted);
    } else {
      rows = add_dense(of, wanted);
    }
    to = rows;
    View view = rows;
    if (dim + 1 != in.size()) {
      const auto move_back = [&](Sizes& all) {
        const std::int64_t last = all.back();
        all.pop_back();
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(dim), last);
      };
      move_back(view.sizes);
      move_back(view.strides);
    }
    set_view(of, std::move(view), meta_of(of).dtype);
  };
  const auto values = [&](const Node& of) {
    if (meta_of(of).dtype != dtype) throw NoKernel{std::string(name_of(meta_of(of).dtype))};
    result(of, kernel.values);
  };
  const auto places = [&](const Node& of) { result(of, kernel.places); };
  kernel.in = rows_along(node, input, dim);
  if (op.base_name() == "argsort") places(node);
  else with_results(node, {values, places});
  KernelStep step;
  step.flops = static_cast<double>(product(in)) * (kernel.by_best ? 1 : 8);
  step.nodes = {&node};
  step.kernel = std::move(kernel);
  add_step(std::move(step));
}

/// bucketize and searchsorted: where an element would stand among those that are in order.
FXX_INLINE void Lowering::search(const Node& node, const Operator& op) {
  const bool buckets = op.base_name() == "bucketize";
  const Node& input = operand(node, op, "self");
  const Node& row = operand(node, op, buckets ? "boundaries" : "sorted_sequence");
  require_elements(input);
  require_elements(row);
  if (meta_of(input).dtype != meta_of(row).dtype || meta_of(row).dtype == Dtype::boolean)
    throw NoKernel{"a search among elements of another dtype"};
  if (!buckets && optional_operand(node, op, "sorter")) throw NoKernel{"a sorter"};
  bool right = argument(node, op, "right").boolean();
  if (!buckets)
    if (const Argument side = argument(node, op, "side"); side.kind() == Argument::Kind::string)
      right = side.string() == "right";
  const Sizes& sizes = sizes_of(node);
  const View from = view_of(row);
  if (from.sizes.empty() || from.numel() == 0 || product(sizes) == 0) throw NoKernel{"a search among nothing"};
  Term term;
  term.kind = Term::Kind::search;
  term.elements = Elements::integer;
  term.looked_up = {{from.sizes.back(), from.strides.back(), right}};
  term.view = {from.buffer, from.offset, sizes, Sizes(sizes.size(), 0)};
  if (from.sizes.size() > 1) {
    if (from.sizes.size() != sizes.size()) throw NoKernel{"sizes that do not fit"};
    for (std::size_t d = 0; d + 1 < sizes.size(); ++d) term.view.strides[d] = from.strides[d];
  }
  // The loop of a root may count the rows together with the elements in them.
  std::vector<const Node*> nodes = join_without_root(input);
  const Elements elements = elements_of(meta_of(row).dtype);
  term.operands = {converted(term_of(input, sizes), elements)};
  set_pending(node, nullptr, std::make_shared<const Term>(std::move(term)), std::move(nodes));
}

/// isin: is the element one of a few others?
FXX_INLINE void Lowering::is_in(const Node& node, const Operator& op) {
  using F = kernels::Function;
  const Node& input = operand(node, op, "elements");
  const Node& others = operand(node, op, "test_elements");
  require_elements(input);
  require_elements(others);
  const Sizes& sizes = sizes_of(node);
  const std::int64_t count = product(sizes_of(others));
  if (count < 1 || count > 24) throw NoKernel{"a search among many that are in no order"};
  const Elements elements = elements_of(meta_of(others).dtype);
  if (elements != elements_of(meta_of(input).dtype) || elements == Elements::mask)
    throw NoKernel{"a search among elements of another dtype"};
  const std::optional<View> row = reshaped(view_of(others), {count});
  if (!row) throw NoKernel{"a search among elements that lie apart"};
  Joined joined = join({&input}, sizes);
  const TermPointer x = term_of(input, sizes);
  TermPointer found;
  for (std::int64_t i = 0; i < count; ++i) {
    const View one{row->buffer, row->offset + i * row->strides[0], sizes, Sizes(sizes.size(), 0)};
    TermPointer same = call_of(F::equal, {x, load_of(one, elements)});
    found = found ? call_of(F::logical_or, {std::move(found), std::move(same)}) : std::move(same);
  }
  if (argument(node, op, "invert").boolean()) found = call_of(F::logical_not, {std::move(found)});
  set_pending(node, joined.root, std::move(found), std::move(joined.nodes));
}

}  // namespace fxx::inline FXX_ABI::plans
