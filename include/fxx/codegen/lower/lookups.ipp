// Lowering of what reads elements whose places other tensors tell: rows of tables, gather, tensors as indices.
#pragma once

#include "fxx/codegen/lower/memory.ipp"

namespace fxx::inline FXX_ABI::plans {

/// The view as one of more dimensions: dimension i stands at `first + i` of `sizes`, others have stride 0.
FXX_INLINE View standing_at(const View& view, std::size_t first, const Sizes& sizes) {
  View wide{view.buffer, view.offset, sizes, Sizes(sizes.size(), 0)};
  for (std::size_t d = 0; d < view.sizes.size(); ++d) wide.strides[first + d] = view.strides[d];
  return wide;
}

/// The elements of `table`, each at the places that the indices tell; these have the sizes of the result, as `table`
/// has. They are read where they are used: rows may be added to others, or normalised.
FXX_INLINE void Lowering::set_lookup(const Node& node, View table, std::vector<View> indices,
                                     std::vector<Term::Dimension> looked_up) {
  for (const Term::Dimension& dimension : looked_up)
    if (dimension.size == 0) throw NoKernel{"a table of nothing"};
  Term term;
  term.kind = Term::Kind::lookup;
  term.elements = elements_of(meta_of(node).dtype);
  term.view = std::move(table);
  for (View& index : indices) term.operands.push_back(load_of(std::move(index), Elements::integer));
  term.looked_up = std::move(looked_up);
  set_pending(node, nullptr, std::make_shared<const Term>(std::move(term)));
}
FXX_INLINE const View& Lowering::index_view(const Node& index) {
  // Bytes are masks there.
  if (!is_integer(meta_of(index).dtype) || meta_of(index).dtype == Dtype::uint8)
    throw NoKernel{"indices that are " + std::string(name_of(meta_of(index).dtype))};
  return view_of(index);
}

FXX_INLINE void Lowering::embedding(const Node& node, const Operator& op) {
  require_elements(node);
  const View table = view_of(operand(node, op, "weight")), index = index_view(operand(node, op, "indices"));
  const Sizes& sizes = sizes_of(node);
  View rows{table.buffer, table.offset, sizes, Sizes(sizes.size(), 0)};
  rows.strides.back() = table.strides[1];
  set_lookup(node, std::move(rows), {standing_at(index, 0, sizes)}, {{table.sizes[0], table.strides[0]}});
}

/// Rows of a table, combined in bags. Of its results only the first is computed.
FXX_INLINE void Lowering::embedding_bag(const Node& node, const Operator& op) {
  Bags kernel;
  const std::int64_t mode = integer(argument(node, op, "mode"));
  kernel.kind = mode == 0 ? Bags::Kind::sum : mode == 1 ? Bags::Kind::mean : Bags::Kind::largest;
  kernel.last_offset = argument(node, op, "include_last_offset").boolean();
  if (op.index_of("padding_idx") >= 0)
    if (const Argument padding = argument(node, op, "padding_idx"); !padding.is_none())
      kernel.left_out =
          integer(padding) < 0 ? integer(padding) + sizes_of(operand(node, op, "weight"))[0] : integer(padding);
  const Node& table = operand(node, op, "weight");
  require_float(table);
  const auto row = [&](const Node& of) {
    View view = index_view(of);
    if (view.sizes.size() != 1) throw NoKernel{"indices in more than one dimension"};
    if (view.strides[0] == 1 || view.sizes[0] <= 1) return view;
    const View dense = add_dense(of, view.sizes);
    copy_to(of, view, dense);
    return dense;
  };
  kernel.indices = row(operand(node, op, "indices"));
  kernel.offsets = row(operand(node, op, "offsets"));
  kernel.count = kernel.indices.sizes[0];
  kernel.bags = kernel.offsets.sizes[0] - (kernel.last_offset ? 1 : 0);
  kernel.table = view_of(table);
  if (kernel.table.sizes.size() != 2 || kernel.table.numel() == 0 || kernel.bags < 1)
    throw NoKernel{"a table of nothing"};
  kernel.columns = kernel.table.sizes[1];
  if (kernel.table.strides[1] != 1 && kernel.columns > 1) {
    const View dense = add_dense(table, kernel.table.sizes);
    copy_to(table, kernel.table, dense);
    kernel.table = dense;
  }
  if (const Node* weights = optional_operand(node, op, "per_sample_weights")) {
    require_float(*weights);
    kernel.weights = view_of(*weights);
    if (kernel.kind != Bags::Kind::sum || (kernel.weights.strides[0] != 1 && kernel.count > 1))
      throw NoKernel{"weights that do not lie behind each other"};
  }
  const auto nobody = [](const Node&) { throw NoKernel{"results beside the first"}; };
  with_results(node, {[&](const Node& result) {
                        Frame frame;
                        frame.axes = {{"row", kernel.bags}, {"column", kernel.columns}};
                        frame.sizes = {kernel.bags, kernel.columns};
                        frame.dims = {{0, 1}, {1, 1}};
                        const double flops = static_cast<double>(kernel.count * kernel.columns);
                        set_root(result, kernel, std::move(frame), flops);
                      },
                      nobody, nobody, nobody});
}

/// One element of each row is 1.
FXX_INLINE void Lowering::one_hot(const Node& node, const Operator& op) {
  using F = kernels::Function;
  require_elements(node);
  const Sizes& sizes = sizes_of(node);
  const View index = index_view(operand(node, op, "self"));
  const std::int64_t classes = sizes.back();
  if (classes == 0) throw NoKernel{"no class"};
  Term column;
  column.kind = Term::Kind::position;
  column.elements = Elements::integer;
  column.view = {-1, 0, sizes, Sizes(sizes.size(), 0)};
  column.view.strides.back() = 1;
  const TermPointer wanted =
      call_of(F::checked_place, {load_of(standing_at(index, 0, sizes), Elements::integer), integer_of(classes)});
  set_pending(node, nullptr,
              converted(call_of(F::equal, {wanted, std::make_shared<const Term>(std::move(column))}),
                        elements_of(meta_of(node).dtype)));
}

/// gather, index_select: the place in one dimension is told.
FXX_INLINE void Lowering::select_places(const Node& node, const Operator& op) {
  require_elements(node);
  View table = view_of(operand(node, op, "self"));
  const View& index = index_view(operand(node, op, "index"));
  const Sizes& sizes = sizes_of(node);
  if (table.sizes.empty() || table.sizes.size() != sizes.size()) throw NoKernel{"an index into a number"};
  const std::size_t d = dimension(integer(argument(node, op, "dim")), sizes.size());
  const Term::Dimension looked_up{table.sizes[d], table.strides[d]};
  table.sizes = sizes;
  table.strides[d] = 0;
  const bool whole = op.base_name() == "gather";
  if (whole && index.sizes != sizes) throw NoKernel{"sizes that do not fit"};
  set_lookup(node, std::move(table), {standing_at(index, whole ? 0 : d, sizes)}, {looked_up});
}

/// A tensor at tensors of integers: they stand where the first does, or in front when others stand between them.
FXX_INLINE void Lowering::index(const Node& node, const Operator& op) {
  require_elements(node);
  const View from = view_of(operand(node, op, "self"));
  const Argument list = argument(node, op, "indices");
  if (!list.is_sequence() || list.items().size() > from.sizes.size()) throw NoKernel{"no list"};
  std::vector<std::size_t> dims;
  std::vector<View> indices;
  std::vector<Term::Dimension> looked_up;
  for (std::size_t d = 0; d < list.items().size(); ++d) {
    const Argument& item = list.items()[d];
    if (item.is_none()) continue;
    if (!item.is_node()) throw NoKernel{"an index that is no tensor"};
    indices.push_back(index_view(*item.node()));
    dims.push_back(d);
    looked_up.push_back({from.sizes[d], from.strides[d], true});
  }
  const Sizes& sizes = sizes_of(node);
  if (dims.empty() || sizes.size() + dims.size() < from.sizes.size()) throw NoKernel{"no index"};
  const std::size_t first = dims.back() - dims.front() + 1 == dims.size() ? dims.front() : 0;
  const std::size_t count = sizes.size() + dims.size() - from.sizes.size();
  const auto begin = sizes.begin() + static_cast<std::ptrdiff_t>(first);
  const Sizes shape(begin, begin + static_cast<std::ptrdiff_t>(count));
  for (View& index : indices) {
    const std::optional<View> wide = broadcast(index, shape);
    if (!wide) throw NoKernel{"sizes that do not fit"};
    index = standing_at(*wide, first, sizes);
  }
  View table{from.buffer, from.offset, sizes, Sizes(sizes.size(), 0)};
  std::size_t to = first == 0 ? count : 0;
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    table.strides[to] = from.strides[d];
    if (++to == first && first > 0) to += count;
  }
  set_lookup(node, std::move(table), std::move(indices), std::move(looked_up));
}

}  // namespace fxx::inline FXX_ABI::plans
