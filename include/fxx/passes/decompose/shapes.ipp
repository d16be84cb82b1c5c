// Rearrangements: other views, parts, and what is put beside each other.
#pragma once

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace shapes {

using Sizes = std::vector<std::int64_t>;

/// The last two dimensions change places.
FXX_INLINE Parts last_two(const Composite& c) {
  if (!c.is_tensor(c[0]) || c.rank(c[0]) < 2) return {};
  return {c(ops::transpose_int, {c[0], -2, -1})};
}
FXX_INLINE Parts reversed(const Composite& c) {
  if (!c.is_tensor(c[0])) return {};
  Sizes order;
  for (std::int64_t d = c.rank(c[0]); d-- > 0;) order.push_back(d);
  return {c(ops::permute, {c[0], c.list(order)})};
}
FXX_INLINE Parts swapped(const Composite& c) { return {c(ops::transpose_int, {c[0], c[1], c[2]})}; }
FXX_INLINE Parts moved(const Composite& c) {
  const Argument x = c["self"];
  const auto source = c.integers("source"), destination = c.integers("destination");
  if (!c.is_tensor(x) || !source || !destination || source->size() != destination->size()) return {};
  Sizes order(static_cast<std::size_t>(c.rank(x)), -1);
  std::vector<bool> taken(order.size(), false);
  for (std::size_t i = 0; i < source->size(); ++i) {
    const std::int64_t from = c.place_of((*source)[i], c.rank(x)), to = c.place_of((*destination)[i], c.rank(x));
    if (from < 0 || to < 0 || order[static_cast<std::size_t>(to)] >= 0 || taken[static_cast<std::size_t>(from)])
      return {};  // nowhere, or twice
    order[static_cast<std::size_t>(to)] = from;
    taken[static_cast<std::size_t>(from)] = true;
  }
  std::size_t next = 0;
  for (std::int64_t& from : order) {
    if (from >= 0) continue;
    while (taken[next]) ++next;
    from = static_cast<std::int64_t>(next++);
  }
  return {c(ops::permute, {x, c.list(order)})};
}
FXX_INLINE Parts flattened(const Composite& c) { return {c.reshape(c[0], {-1})}; }
FXX_INLINE Parts broadcast_to(const Composite& c) { return {c(ops::expand, {c["self"], c["size"]})}; }
FXX_INLINE Parts broadcast_tensors(const Composite& c) {
  const auto given = c.tensors("tensors");
  if (!given) return {};
  Sizes to;
  for (const Argument& x : *given) {
    const Sizes& sizes = c.sizes(x);
    if (sizes.size() > to.size()) to.insert(to.begin(), sizes.size() - to.size(), 1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t& size = to[to.size() - sizes.size() + i];
      if (size == 1) size = sizes[i];
    }
  }
  Parts result;
  for (const Argument& x : *given) result.push_back(c(ops::expand, {x, c.list(to)}));
  return result;
}

/// With dimensions of one in front, or behind as atleast_3d has it.
FXX_INLINE Argument at_least(const Composite& c, Argument x, std::int64_t rank) {
  const std::int64_t own = c.rank(x);
  if (own >= rank) return x;
  if (rank == 3 && own == 2) return c.unsqueeze(x, 2);
  for (std::int64_t d = own; d < std::min<std::int64_t>(rank, 2); ++d) x = c.unsqueeze(x, 0);
  return rank == 3 ? c.unsqueeze(x, 2) : x;
}
template <std::int64_t Rank>
FXX_INLINE Parts at_least(const Composite& c) {
  if (!c.is_tensor(c[0])) return {};
  return {at_least(c, c[0], Rank)};
}
template <std::int64_t Rank>
FXX_INLINE Parts each_at_least(const Composite& c) {
  const auto given = c.tensors("tensors");
  if (!given) return {};
  Parts result;
  for (const Argument& x : *given) result.push_back(at_least(c, x, Rank));
  return result;
}
FXX_INLINE Parts beside(const Composite& c, std::int64_t rank, std::int64_t dim) {
  const auto given = c.tensors("tensors");
  if (!given || given->empty()) return {};
  std::vector<Argument> parts;
  for (const Argument& x : *given) parts.push_back(at_least(c, x, rank));
  if (rank == 1 && c.rank(given->front()) < 2) dim = 0;
  return {c(ops::cat, {Argument::list(std::move(parts)), dim})};
}
FXX_INLINE Parts hstack(const Composite& c) { return beside(c, 1, 1); }
FXX_INLINE Parts vstack(const Composite& c) { return beside(c, 2, 0); }
FXX_INLINE Parts dstack(const Composite& c) { return beside(c, 3, 2); }
FXX_INLINE Parts column_stack(const Composite& c) {
  const auto given = c.tensors("tensors");
  if (!given || given->empty()) return {};
  std::vector<Argument> parts;
  for (const Argument& x : *given) parts.push_back(c.rank(x) >= 2 ? x : c.reshape(x, {c.numel(x), 1}));
  return {c(ops::cat, {Argument::list(std::move(parts)), 1})};
}
FXX_INLINE Parts meshgrid(const Composite& c) {
  const auto given = c.tensors("tensors");
  if (!given) return {};
  const Argument indexing = c["indexing"];
  const bool swaps = indexing.kind() == Argument::Kind::string && indexing.string() == "xy" && given->size() > 1;
  Sizes to;
  for (const Argument& x : *given) to.push_back(c.numel(x));
  if (swaps) std::swap(to[0], to[1]);
  Parts result;
  for (std::size_t i = 0; i < given->size(); ++i) {
    Sizes one(given->size(), 1);
    const std::size_t at = swaps && i < 2 ? 1 - i : i;
    one[at] = to[at];
    result.push_back(c(ops::expand, {c.reshape((*given)[i], one), c.list(to)}));
  }
  return result;
}

/// Parts from each of these places to the next.
FXX_INLINE Parts cut(const Composite& c, const Argument& x, std::int64_t dim, const Sizes& places) {
  dim = c.place_of(dim, c.rank(x));
  if (dim < 0) return {};
  const std::int64_t size = c.sizes(x)[static_cast<std::size_t>(dim)];
  const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  Parts result;
  std::int64_t from = 0;
  for (std::size_t i = 0; i <= places.size(); ++i) {
    const std::int64_t to = i < places.size() ? within(places[i]) : size;
    result.push_back(c.narrow(x, dim, from, std::max<std::int64_t>(to - from, 0)));
    from = to;
  }
  return result;
}
/// So many parts, the first of which are one longer where they are not of one size.
FXX_INLINE Parts cut_evenly(const Composite& c, const Argument& x, std::int64_t dim, std::int64_t count) {
  dim = c.place_of(dim, c.rank(x));
  if (dim < 0 || count < 1) return {};
  const std::int64_t size = c.sizes(x)[static_cast<std::size_t>(dim)];
  Sizes places;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i + 1 < count; ++i) places.push_back(at += size / count + (i < size % count));
  return cut(c, x, dim, places);
}
/// By the number of parts, or by the places between them.
FXX_INLINE Parts split(const Composite& c, const Argument& x, std::int64_t dim) {
  if (const auto count = c.integer("sections")) return cut_evenly(c, x, dim, *count);
  const auto places = c.integers("indices");
  return places ? cut(c, x, dim, *places) : Parts{};
}
FXX_INLINE Parts tensor_split(const Composite& c) {
  const Argument x = c["self"];
  return c.is_tensor(x) ? split(c, x, c.integer("dim").value_or(0)) : Parts{};
}
template <std::int64_t Dim>
FXX_INLINE Parts split_along(const Composite& c) {
  const Argument x = c["self"];
  return c.is_tensor(x) ? split(c, x, Dim == 1 && c.rank(x) == 1 ? 0 : Dim) : Parts{};
}
FXX_INLINE Parts narrow_copy(const Composite& c) {
  return {c(ops::clone, {c(ops::narrow, {c["self"], c["dim"], c["start"], c["length"]})})};
}

FXX_INLINE Parts take_along_dim(const Composite& c) {
  const Argument x = c["self"], index = c["indices"];
  if (!c.is_tensor(x) || !c.is_tensor(index)) return {};
  const auto given = c.integer("dim");
  if (!given) return {c(ops::gather, {c.reshape(x, {-1}), 0, c.reshape(index, {-1})})};
  const std::int64_t dim = c.place_of(*given, c.rank(x));
  if (dim < 0 || c.rank(x) != c.rank(index)) return {};
  // All dimensions but that one are stretched to each other's.
  Sizes from = c.sizes(x), to = c.sizes(index);
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (static_cast<std::int64_t>(d) == dim) continue;
    from[d] = to[d] = from[d] == 1 ? to[d] : from[d];
  }
  const auto stretched = [&](const Argument& of, const Sizes& sizes) {
    return c.sizes(of) == sizes ? of : c(ops::expand, {of, c.list(sizes)});
  };
  return {c(ops::gather, {stretched(x, from), dim, stretched(index, to)})};
}
FXX_INLINE Parts take(const Composite& c) {
  return {c(ops::index_Tensor, {c.reshape(c["self"], {-1}), Argument::list({c["index"]})})};
}
FXX_INLINE Parts put(const Composite& c) {
  const Argument x = c["self"], index = c["index"], source = c["source"];
  if (!c.is_tensor(x) || !c.is_tensor(index)) return {};
  return {c.reshape(c(ops::index_put, {c.reshape(x, {-1}), Argument::list({c.reshape(index, {-1})}),
                                       c.reshape(source, {-1}), c["accumulate"]}),
                    c.sizes(x))};
}
FXX_INLINE Parts repeat_interleave(const Composite& c) {
  if (!c["dim"].is_none()) return {};
  return {c(ops::repeat_interleave_self_int, {c.reshape(c["self"], {-1}), c["repeats"], 0})};
}

FXX_INLINE Parts diff(const Composite& c) {
  const Argument given = c["self"];
  const auto times = c.integer("n"), along = c.integer("dim");
  if (!c.is_tensor(given) || !times || *times < 1 || !along || c.dtype(given) == Dtype::boolean) return {};
  const std::int64_t dim = c.place_of(*along, c.rank(given));
  if (dim < 0) return {};
  Argument x = given;
  std::int64_t size = c.sizes(given)[static_cast<std::size_t>(dim)];
  std::vector<Argument> parts;
  for (const char* name : {"prepend", "self", "append"}) {
    if (c[name].is_none()) continue;
    if (!c.is_tensor(c[name]) || c.rank(c[name]) != c.rank(given)) return {};
    if (std::string_view(name) != "self") size += c.sizes(c[name])[static_cast<std::size_t>(dim)];
    parts.push_back(c[name]);
  }
  if (parts.size() > 1) x = c(ops::cat, {Argument::list(std::move(parts)), dim});
  if (size <= *times) return {};
  for (std::int64_t i = 0; i < *times; ++i, --size)
    x = c.sub(c.narrow(x, dim, 1, size - 1), c.narrow(x, dim, 0, size - 1));
  return {x};
}
FXX_INLINE Parts rot90(const Composite& c) {
  const auto dims = c.integers("dims"), k = c.integers("k");
  if (!dims || dims->size() != 2 || !k) return {};
  const std::int64_t turns = ((*k)[0] % 4 + 4) % 4, a = (*dims)[0], b = (*dims)[1];
  const Argument x = c["self"];
  if (turns == 0) return {c(ops::clone, {x})};
  if (turns == 2) return {c(ops::flip, {x, c.list({a, b})})};
  return {c(ops::transpose_int, {c(ops::flip, {x, c.list({turns == 1 ? b : a})}), a, b})};
}

/// A vector along a diagonal of zeros, `far` from the middle.
FXX_INLINE Argument on_diagonal(const Composite& c, const Argument& x, std::int64_t far) {
  // [n] -> n rows of size + 1: the vector in the first column; what is cut off the end makes rows of size.
  const std::int64_t n = c.sizes(x).back(), size = n + (far < 0 ? -far : far);
  Sizes front(c.sizes(x).begin(), c.sizes(x).end() - 1);
  Sizes flat = front, square = front;
  flat.push_back(n * (size + 1));
  square.insert(square.end(), {n, size});
  const Argument rows = c(ops::constant_pad_nd, {c.unsqueeze(x, -1), c.list({0, size})});
  const Argument cut = c.narrow(c.reshape(rows, flat), -1, 0, n * size);
  const Argument diagonal = c.reshape(cut, square);  // columns 0 to n of n rows
  if (far == 0) return diagonal;
  // Below it, or to the right.
  if (far < 0) return c(ops::constant_pad_nd, {diagonal, c.list({0, 0, -far, 0})});
  return c(ops::constant_pad_nd, {c(ops::roll, {diagonal, c.list({far}), c.list({-1})}), c.list({0, 0, 0, far})});
}
FXX_INLINE Parts diag(const Composite& c) {
  const Argument x = c["self"];
  const auto far = c.integer("diagonal");
  if (!c.is_tensor(x) || !far || c.numel(x) == 0) return {};
  if (c.rank(x) == 2) return {c(ops::clone, {c(ops::diagonal, {x, *far, 0, 1})})};
  return c.rank(x) == 1 ? Parts{on_diagonal(c, x, *far)} : Parts{};
}
FXX_INLINE Parts diag_embed(const Composite& c) {
  const Argument x = c["self"];
  const auto far = c.integer("offset");
  if (!c.is_tensor(x) || !far || c.rank(x) < 1 || c.numel(x) == 0) return {};
  const std::int64_t rank = c.rank(x) + 1;
  const std::int64_t a = c.place_of(c.integer("dim1").value_or(-2), rank);
  const std::int64_t b = c.place_of(c.integer("dim2").value_or(-1), rank);
  if (a != rank - 2 || b != rank - 1) return {};
  return {on_diagonal(c, x, *far)};
}
FXX_INLINE Parts diagflat(const Composite& c) {
  const Argument x = c["self"];
  const auto far = c.integer("offset");
  if (!c.is_tensor(x) || !far || c.numel(x) == 0 || c.rank(x) != 1) return {};
  return {on_diagonal(c, x, *far)};
}

/// Channels in groups, of which each gives one in turn.
FXX_INLINE Parts channel_shuffle(const Composite& c) {
  const Argument x = c["self"];
  const auto groups = c.integer("groups");
  if (!c.is_tensor(x) || !groups || *groups < 1 || c.rank(x) < 3 || c.numel(x) == 0) return {};
  const Sizes& sizes = c.sizes(x);
  Sizes apart = sizes;
  apart[1] /= *groups;
  apart.insert(apart.begin() + 1, *groups);
  return {c.reshape(c(ops::transpose_int, {c.reshape(x, apart), 1, 2}), sizes)};
}

inline constexpr NamedDecomposition all[] = {
    {"aten::mT", last_two},
    {"aten::mH", last_two},
    {"aten::adjoint", last_two},
    {"aten::numpy_T", reversed},
    {"aten::matrix_H", reversed},
    {"aten::swapaxes", swapped},
    {"aten::movedim.int", moved},
    {"aten::movedim.intlist", moved},
    {"aten::moveaxis.int", moved},
    {"aten::moveaxis.intlist", moved},
    {"aten::ravel", flattened},
    {"aten::broadcast_to", broadcast_to},
    {"aten::broadcast_tensors", broadcast_tensors},
    {"aten::atleast_1d", at_least<1>},
    {"aten::atleast_2d", at_least<2>},
    {"aten::atleast_3d", at_least<3>},
    {"aten::atleast_1d.Sequence", each_at_least<1>},
    {"aten::atleast_2d.Sequence", each_at_least<2>},
    {"aten::atleast_3d.Sequence", each_at_least<3>},
    {"aten::hstack", hstack},
    {"aten::vstack", vstack},
    {"aten::row_stack", vstack},
    {"aten::dstack", dstack},
    {"aten::column_stack", column_stack},
    {"aten::meshgrid", meshgrid},
    {"aten::meshgrid.indexing", meshgrid},
    {"aten::tensor_split.sections", tensor_split},
    {"aten::tensor_split.indices", tensor_split},
    {"aten::hsplit.int", split_along<1>},
    {"aten::hsplit.array", split_along<1>},
    {"aten::vsplit.int", split_along<0>},
    {"aten::vsplit.array", split_along<0>},
    {"aten::dsplit.int", split_along<2>},
    {"aten::dsplit.array", split_along<2>},
    {"aten::narrow_copy", narrow_copy},
    {"aten::take_along_dim", take_along_dim},
    {"aten::take", take},
    {"aten::put", put},
    {"aten::repeat_interleave.self_int", repeat_interleave},
    {"aten::diff", diff},
    {"aten::rot90", rot90},
    {"aten::diag", diag},
    {"aten::diag_embed", diag_embed},
    {"aten::diagflat", diagflat},
    {"aten::channel_shuffle", channel_shuffle},
};
}  // namespace shapes

}  // namespace fxx::inline FXX_ABI::detail
