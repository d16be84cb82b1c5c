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
  if (meta_of(index).dtype != Dtype::int64)
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
