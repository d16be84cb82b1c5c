// Lowering of operators that only look at their input otherwise, and of those that put tensors beside each other.
#pragma once

#include "fxx/codegen/lower/memory.ipp"

namespace fxx::inline FXX_ABI::plans {

/// The value itself: contiguous(), clone(), detach(), a dropout that is off.
FXX_INLINE void Lowering::same(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, op.parameters[0].name);
  if (op.index_of("train") >= 0 && argument(node, op, "train").boolean()) throw NoKernel{"a dropout in training"};
  const Dtype from = meta_of(input).dtype;
  if (is_complex(from) && (op.base_name().find("conj") != std::string_view::npos || op.base_name() == "real"))
    throw NoKernel{std::string(name_of(from))};
  if (from != meta_of(node).dtype) return convert(node, input);
  Value value = value_of(input);
  if (value.kind == Value::Kind::tuple || value.kind == Value::Kind::none) throw NoKernel{"not one tensor"};
  if (writes_ && value.kind == Value::Kind::view) {
    const std::string_view name = op.base_name();
    const bool told = op.index_of("copy") >= 0 && argument(node, op, "copy") == Argument(true);
    const bool lies_otherwise = meta_of(input).stride != meta_of(node).stride;
    if (name == "clone" || name == "_to_copy" || told || (has(op.traits, Trait::fresh_view) && lies_otherwise))
      return set_copy(node, value.view);
  }
  if (value.kind == Value::Kind::pending) {
    value.nodes.push_back(&node);
    pending_.push_back(&node);
  }
  value_of(node) = std::move(value);
}

/// To another dtype. Halves and doubles pass through floats where that is exact, but for what is rounded twice in LibTorch
/// as well; what they are rounded to is theirs only in memory.
FXX_INLINE void Lowering::convert(const Node& node, const Node& input) {
  const Dtype from = meta_of(input).dtype, to = meta_of(node).dtype;
  const Sizes& sizes = sizes_of(node);
  const bool stored = is_read_as_float(from);
  const bool fits_float = from != Dtype::int32 && from != Dtype::int64;
  if (!(has_elements(from) || (stored && (from != Dtype::float64 || to == Dtype::float32 || is_read_as_float(to)))) ||
      !(has_elements(to) || (is_read_as_float(to) && (to != Dtype::float64 || fits_float))))
    throw NoKernel{"a conversion"};
  if (stored) view_of(input);
  Joined joined = join({&input}, sizes);
  TermPointer value = stored ? load_of(view_of(input)) : term_of(input, sizes);
  const bool narrow = to == Dtype::int8 || to == Dtype::int16 || to == Dtype::int32;
  value = wrapped(converted(std::move(value), elements_of(to), narrow), to);
  set_pending(node, joined.root, std::move(value), std::move(joined.nodes));
}

/// A copy that later writes to the view do not reach.
FXX_INLINE void Lowering::set_copy(const Node& node, const View& view) {
  set_pending(node, nullptr, load_of(view, elements_of(meta_of(node).dtype)));
}

FXX_INLINE void Lowering::reshape(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, op.parameters[0].name);
  const Sizes& sizes = sizes_of(node);
  if (const std::optional<View> view = reshaped(view_of(input), sizes)) {
    const TensorMeta& meta = meta_of(input);
    if (writes_ && meta.stride.size() == meta.shape.size() && !reshaped({-1, 0, meta.shape, meta.stride}, sizes))
      return set_copy(node, *view);
    return set_view(node, *view, value_of(input).dtype);
  }
  // The elements in order, once more.
  const View from = view_of(input);
  const View dense = add_dense(node, from.sizes);
  copy_to(node, from, dense);
  set_view(node, {dense.buffer, 0, sizes, dense_strides(sizes)}, meta_of(node).dtype);
}

FXX_INLINE void Lowering::permute(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, op.parameters[0].name);
  const Sizes dims = integers(argument(node, op, "dims"));
  View view = view_of(input);
  const View from = view;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = dimension(dims[i], from.sizes.size());
    view.sizes[i] = from.sizes[d];
    view.strides[i] = from.strides[d];
  }
  set_view(node, std::move(view), value_of(input).dtype);
}

FXX_INLINE void Lowering::transpose(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, op.parameters[0].name);
  View view = view_of(input);
  if (view.sizes.size() < 2) return set_view(node, view, value_of(input).dtype);
  const bool named = op.index_of("dim0") >= 0;
  const std::size_t a = dimension(named ? integer(argument(node, op, "dim0")) : 0, view.sizes.size());
  const std::size_t b = dimension(named ? integer(argument(node, op, "dim1")) : 1, view.sizes.size());
  std::swap(view.sizes[a], view.sizes[b]);
  std::swap(view.strides[a], view.strides[b]);
  set_view(node, std::move(view), value_of(input).dtype);
}

/// Along two dimensions at once, which become one, the last.
FXX_INLINE void Lowering::diagonal(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, op.parameters[0].name);
  View view = view_of(input);
  const std::size_t rank = view.sizes.size();
  const std::int64_t far = integer(argument(node, op, "offset"));
  const std::size_t a = dimension(integer(argument(node, op, "dim1")), rank);
  const std::size_t b = dimension(integer(argument(node, op, "dim2")), rank);
  const Sizes& sizes = sizes_of(node);
  if (sizes.back() > 0) view.offset += far >= 0 ? far * view.strides[b] : -far * view.strides[a];
  const std::int64_t stride = view.strides[a] + view.strides[b];
  for (const std::size_t d : {std::max(a, b), std::min(a, b)})
    view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(d));
  view.strides.push_back(stride);
  view.sizes = sizes;
  set_view(node, std::move(view), value_of(input).dtype);
}

/// Windows along a dimension, each a row of a dimension more, the last.
FXX_INLINE void Lowering::unfold(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  View view = view_of(input);
  if (view.sizes.empty()) throw NoKernel{"windows of a number"};
  const std::size_t d = dimension(integer(argument(node, op, "dimension")), view.sizes.size());
  view.strides.push_back(view.strides[d]);
  view.strides[d] *= integer(argument(node, op, "step"));
  view.sizes = sizes_of(node);
  set_view(node, std::move(view), value_of(input).dtype);
}

FXX_INLINE void Lowering::expand(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, op.parameters[0].name);
  const std::optional<View> view = broadcast(view_of(input), sizes_of(node));
  if (!view) throw NoKernel{"sizes that do not fit"};
  set_view(node, *view, value_of(input).dtype);
}

FXX_INLINE void Lowering::slice(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const std::size_t d = dimension(integer(argument(node, op, "dim")), sizes_of(input).size());
  const Argument first = argument(node, op, "start");
  const std::int64_t size = sizes_of(input)[d], step = integer(argument(node, op, "step"));
  std::int64_t start = first.is_none() ? 0 : integer(first);
  start = std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
  if (step == 1 && convolve_slice(node, input, d, start)) return;
  View view = view_of(input);
  view.offset += start * view.strides[d];
  view.strides[d] *= step;
  view.sizes = sizes_of(node);
  set_view(node, std::move(view), value_of(input).dtype);
}

FXX_INLINE void Lowering::narrow(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const std::size_t d = dimension(integer(argument(node, op, "dim")), sizes_of(input).size());
  std::int64_t start = integer(argument(node, op, "start"));
  if (start < 0) start += sizes_of(input)[d];
  if (convolve_slice(node, input, d, start)) return;
  View view = view_of(input);
  view.offset += start * view.strides[d];
  view.sizes = sizes_of(node);
  set_view(node, std::move(view), value_of(input).dtype);
}

FXX_INLINE void Lowering::select(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  View view = view_of(input);
  const std::size_t d = dimension(integer(argument(node, op, "dim")), view.sizes.size());
  const std::int64_t index = integer(argument(node, op, "index"));
  view.offset += (index < 0 ? index + view.sizes[d] : index) * view.strides[d];
  view.sizes.erase(view.sizes.begin() + static_cast<std::ptrdiff_t>(d));
  view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(d));
  set_view(node, std::move(view), value_of(input).dtype);
}

/// split, split_with_sizes, chunk: parts along one dimension.
FXX_INLINE void Lowering::split(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  const View view = view_of(input);
  const std::size_t d = dimension(integer(argument(node, op, "dim")), view.sizes.size());
  const std::int64_t size = view.sizes[d];
  Sizes parts;
  if (op.base_name() == "split_with_sizes") {
    parts = integers(argument(node, op, "split_sizes"));
  } else {
    std::int64_t step;
    if (op.base_name() == "chunk") {
      const std::int64_t chunks = integer(argument(node, op, "chunks"));
      step = (size + chunks - 1) / chunks;
    } else {
      const Argument given = argument(node, op, "split_size");
      if (given.is_sequence()) {
        parts = integers(given);
        step = 0;
      } else {
        step = integer(given);
      }
    }
    if (parts.empty() && step <= 0) throw NoKernel{"parts of no size"};
    for (std::int64_t at = 0; parts.empty() || at < size; at += step) {
      if (step == 0) break;
      parts.push_back(std::min(step, size - at));
    }
  }
  Value tuple;
  tuple.kind = Value::Kind::tuple;
  std::int64_t at = 0;
  for (std::int64_t part : parts) {
    Value item;
    item.kind = Value::Kind::view;
    item.dtype = value_of(input).dtype;
    item.view = view;
    item.view.offset += at * view.strides[d];
    item.view.sizes[d] = part;
    tuple.items.push_back(std::move(item));
    at += part;
  }
  value_of(node) = std::move(tuple);
}

FXX_INLINE void Lowering::unbind(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  View view = view_of(input);
  const std::size_t d = dimension(integer(argument(node, op, "dim")), view.sizes.size());
  const std::int64_t count = view.sizes[d], stride = view.strides[d];
  view.sizes.erase(view.sizes.begin() + static_cast<std::ptrdiff_t>(d));
  view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(d));
  Value tuple;
  tuple.kind = Value::Kind::tuple;
  for (std::int64_t i = 0; i < count; ++i) {
    Value item;
    item.kind = Value::Kind::view;
    item.dtype = value_of(input).dtype;
    item.view = view;
    item.view.offset += i * stride;
    tuple.items.push_back(std::move(item));
  }
  value_of(node) = std::move(tuple);
}

FXX_INLINE void Lowering::get_item(const Node& node) {
  if (node.args().size() != 2 || !node.arg(0).is_node() || node.arg(1).kind() != Argument::Kind::integer)
    throw NoKernel{"an index that is not a number"};
  if (value_of(node).kind != Value::Kind::none) {  // computed with what it is an item of
    lie_as_written(node);
    return compute_once(node);
  }
  const Value& tuple = value_of(*node.arg(0).node());
  std::int64_t i = node.arg(1).integer();
  if (i < 0) i += static_cast<std::int64_t>(tuple.items.size());
  if (tuple.kind != Value::Kind::tuple || i < 0 || i >= static_cast<std::int64_t>(tuple.items.size()))
    throw NoKernel{"an item of what is no tuple"};
  value_of(node) = tuple.items[static_cast<std::size_t>(i)];
  value_of(node).steps = steps();
}

/// cat and stack: every part is written where it belongs.
FXX_INLINE void Lowering::concatenate(const Node& node, const Operator& op) {
  require_elements(node);
  const Dtype dtype = meta_of(node).dtype;
  const Argument list = argument(node, op, "tensors");
  if (!list.is_sequence()) throw NoKernel{"no list"};
  const bool stacked = op.base_name() == "stack";
  const Sizes& sizes = sizes_of(node);
  const std::size_t d = dimension(integer(argument(node, op, "dim")), sizes.size());
  for (const Argument& item : list.items()) {
    if (!item.is_node()) throw NoKernel{"a list of other things than tensors"};
    if (meta_of(*item.node()).dtype != dtype) throw NoKernel{"a conversion"};
  }
  // Channels last when a part is.
  bool image = false;
  const bool may_be_image = is_image(sizes) && !stacked && dtype == Dtype::float32 && !is_written(node);
  for (const Argument& item : list.items()) {
    const Value& part = value_of(*item.node());
    if (!may_be_image) break;
    if (part.kind == Value::Kind::view) image = image || lies_channels_last(part.view);
    if (part.kind == Value::Kind::pending) image = image || (part.root && is_image_kernel(*part.root));
  }
  const View whole = whole_of(node, image).view;
  PartOfWhole place{d, 0, stacked};
  for (const Argument& item : list.items()) {
    const Node& part = *item.node();
    if (sizes_of(part).size() == 1 && sizes_of(part)[0] == 0 && sizes.size() != 1)
      continue;  // an old way to say nothing
    const View to = part_of(whole, place, sizes_of(part));
    place.at += stacked ? 1 : sizes_of(part)[d];
    if (to.numel() == 0) continue;
    Value value = value_of(part);
    if (value.kind == Value::Kind::pending && part.num_users() == 1) {
      value.nodes.push_back(&node);
      emit(value, to);
      value_of(part).kind = Value::Kind::view;  // there, and nobody else reads it
      value_of(part).view = to;
      value_of(part).steps = steps();
    } else if (value.kind == Value::Kind::view && value.view == to) {
      continue;  // was written there
    } else {
      copy_to(node, view_of(part), to);
    }
  }
  set_view(node, whole, dtype);
}

/// A step of its own.
FXX_INLINE void Lowering::write(const Node& node, TermPointer term, View to) {
  if (to.numel() == 0) return;
  Value value;
  value.term = std::move(term);
  value.nodes = {&node};
  emit(std::move(value), std::move(to));
}
FXX_INLINE void Lowering::copy_to(const Node& node, const View& from, View to) {
  TermPointer term = load_of(from, elements_of(buffer_of(to.buffer).dtype));
  write(node, std::move(term), std::move(to));
}

/// slice_scatter and select_scatter: the first, with the second in some of its places.
FXX_INLINE void Lowering::scatter_slice(const Node& node, const Operator& op) {
  require_elements(node);
  const Node& self = operand(node, op, "self");
  const Node& source = operand(node, op, "src");
  if (meta_of(source).dtype != meta_of(node).dtype) throw NoKernel{"a conversion"};
  const View from = view_of(self), part = view_of(source);
  const View whole = add_dense(node, from.sizes);
  View to = whole;
  const std::size_t d = dimension(integer(argument(node, op, "dim")), to.sizes.size());
  if (op.base_name() == "select_scatter") {
    const std::int64_t index = integer(argument(node, op, "index"));
    to.offset += (index < 0 ? index + to.sizes[d] : index) * to.strides[d];
    to.sizes.erase(to.sizes.begin() + static_cast<std::ptrdiff_t>(d));
    to.strides.erase(to.strides.begin() + static_cast<std::ptrdiff_t>(d));
  } else {
    const Argument first = argument(node, op, "start");
    std::int64_t start = first.is_none() ? 0 : integer(first);
    start = std::clamp<std::int64_t>(start < 0 ? start + to.sizes[d] : start, 0, to.sizes[d]);
    to.offset += start * to.strides[d];
    to.strides[d] *= integer(argument(node, op, "step"));
    to.sizes = part.sizes;
  }
  if (to.sizes != part.sizes) throw NoKernel{"sizes that do not fit"};
  copy_to(node, from, whole);
  copy_to(node, part, to);
  set_view(node, whole, meta_of(node).dtype);
}

/// repeat, tile, repeat_interleave: a copy with a dimension more for each that is repeated, read with stride 0.
FXX_INLINE void Lowering::repeat(const Node& node, const Operator& op) {
  require_elements(node);
  const View from = view_of(operand(node, op, "self"));
  const bool each = op.base_name() == "repeat_interleave";
  Sizes times(from.sizes.size(), 1);
  if (each) {
    const Argument dim = argument(node, op, "dim");
    if (dim.is_none() && from.sizes.size() != 1) throw NoKernel{"all elements repeated"};
    times[dimension(dim.is_none() ? 0 : integer(dim), from.sizes.size())] = integer(argument(node, op, "repeats"));
  } else {
    times = integers(argument(node, op, op.index_of("repeats") >= 0 ? "repeats" : "dims"));
    if (times.size() < from.sizes.size()) times.insert(times.begin(), from.sizes.size() - times.size(), 1);
  }
  View wide{from.buffer, from.offset, {}, {}};
  const auto add = [&](std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    wide.sizes.push_back(size);
    wide.strides.push_back(stride);
  };
  const std::size_t missing = times.size() - from.sizes.size();
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!each) add(times[i], 0);
    if (i >= missing) add(from.sizes[i - missing], from.strides[i - missing]);
    if (each) add(times[i], 0);
  }
  if (wide.sizes.size() > 8) throw NoKernel{"more than eight dimensions"};
  const View whole = add_dense(node, wide.sizes);
  copy_to(node, wide, whole);
  const Sizes& sizes = sizes_of(node);
  set_view(node, {whole.buffer, 0, sizes, dense_strides(sizes)}, meta_of(node).dtype);
}

/// Padding with a constant: that everywhere, and the input within.
FXX_INLINE void Lowering::pad(const Node& node, const Operator& op) {
  require_elements(node);
  if (becomes_border(node)) return pad_by_border(node);
  const Node& self = operand(node, op, "self");
  if (op.index_of("mode") >= 0) {
    const Argument mode = argument(node, op, "mode");
    if (mode.kind() != Argument::Kind::string) throw NoKernel{"padding of another kind"};
    if (mode.string() != "constant")
      return pad_with_own(node, self, integers(argument(node, op, "pad")), mode.string());
  }
  const Argument value = argument(node, op, "value");
  if (!value.is_none() && !value.is_number()) throw NoKernel{"a value that is not a number"};
  Sizes amounts = integers(argument(node, op, "pad"));
  View from = view_of(self);
  const Sizes& sizes = sizes_of(node);
  const View whole = add_dense(node, sizes);
  View to = whole;
  to.sizes = from.sizes;
  for (std::size_t i = 0; i + 1 < amounts.size(); i += 2) {
    const std::size_t d = sizes.size() - 1 - i / 2;
    // A negative amount cuts off.
    const std::int64_t before = amounts[i], after = amounts[i + 1];
    to.offset += std::max<std::int64_t>(before, 0) * to.strides[d];
    from.offset += std::max<std::int64_t>(-before, 0) * from.strides[d];
    from.sizes[d] += std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    to.sizes[d] = from.sizes[d];
  }
  Value fill;
  fill.term = scalar_of(value.is_none() ? Argument(0) : value, elements_of(meta_of(node).dtype));
  fill.nodes = {&node};
  if (whole.numel() > 0) emit(std::move(fill), whole);
  copy_to(node, from, to);
  set_view(node, whole, meta_of(node).dtype);
}

/// reflection_pad2d and the like.
FXX_INLINE void Lowering::pad_around(const Node& node, const Operator& op) {
  pad_with_own(node, operand(node, op, "self"), integers(argument(node, op, "padding")),
               op.base_name().starts_with("reflection") ? "reflect" : "replicate");
}
/// Padding with elements of the input: along each dimension what is before it, itself, and what is behind.
FXX_INLINE void Lowering::pad_with_own(const Node& node, const Node& input, const Sizes& amounts,
                                       std::string_view mode) {
  require_elements(node);
  const View from = view_of(input);
  const Sizes& sizes = sizes_of(node);
  if (amounts.size() % 2 != 0 || amounts.size() / 2 > sizes.size() || from.numel() == 0)
    throw NoKernel{"padding of another kind"};
  if (amounts.size() > 4) throw NoKernel{"padding of more than two dimensions by what is inside"};
  struct Piece {
    std::int64_t start, step, count, to;
  };
  std::vector<std::pair<std::size_t, std::vector<Piece>>> dims;
  for (std::size_t i = 0; i + 1 < amounts.size(); i += 2) {
    const std::size_t d = sizes.size() - 1 - i / 2;
    const std::int64_t before = amounts[i], after = amounts[i + 1], size = from.sizes[d];
    if (before < 0 || after < 0) throw NoKernel{"padding that cuts off"};
    Piece first{0, 0, before, 0}, last{size - 1, 0, after, before + size};  // of "replicate"
    if (mode == "reflect") {
      first = {before, -1, before, 0};
      last = {size - 2, -1, after, before + size};
    } else if (mode == "circular") {
      first = {size - before, 1, before, 0};
      last = {0, 1, after, before + size};
    } else if (mode != "replicate") {
      throw NoKernel{"padding of another kind"};
    }
    dims.emplace_back(d, std::vector<Piece>{first, {0, 1, size, before}, last});
  }
  const View whole = add_dense(node, sizes);
  const auto copy = [&](const auto& self, std::size_t i, View piece, View to) {
    if (i == dims.size()) return copy_to(node, piece, to);
    const auto& [d, pieces] = dims[i];
    for (const Piece& p : pieces) {
      View part = piece, place = to;
      part.offset += p.start * from.strides[d];
      part.strides[d] *= p.step;
      place.offset += p.to * whole.strides[d];
      part.sizes[d] = place.sizes[d] = p.count;
      if (p.count > 0) self(self, i + 1, std::move(part), std::move(place));
    }
  };
  View all = whole;
  all.sizes = from.sizes;
  copy(copy, 0, from, std::move(all));
  set_view(node, whole, meta_of(node).dtype);
}

/// flip, fliplr, flipud: read from the end. Only terms have strides below 0, so that no kernel is handed such memory.
FXX_INLINE void Lowering::flip(const Node& node, const Operator& op) {
  View view = view_of(operand(node, op, "self"));
  const std::string_view name = op.base_name();
  if (view.numel() == 0) return set_view(node, std::move(view), meta_of(node).dtype);
  for (const std::int64_t dim :
       name == "flip" ? integers(argument(node, op, "dims")) : Sizes{name == "fliplr" ? 1 : 0}) {
    if (view.sizes.empty()) break;
    const std::size_t d = dimension(dim, view.sizes.size());
    view.offset += (view.sizes[d] - 1) * view.strides[d];
    view.strides[d] *= -1;
  }
  set_copy(node, view);
}

FXX_INLINE void Lowering::roll(const Node& node, const Operator& op) {
  require_elements(node);
  const Node& self = operand(node, op, "self");
  const Sizes by = integers(argument(node, op, "shifts")), along = integers(argument(node, op, "dims"));
  if (along.size() != by.size() || along.empty() || along.size() > 4) throw NoKernel{"a roll of all elements"};
  const View from = view_of(self);
  Sizes dims, shifts;  // each dimension once
  for (std::size_t i = 0; i < along.size(); ++i) {
    const auto d = static_cast<std::int64_t>(dimension(along[i], from.sizes.size()));
    const auto known = std::find(dims.begin(), dims.end(), d);
    if (known != dims.end()) {
      shifts[static_cast<std::size_t>(known - dims.begin())] += by[i];
    } else {
      dims.push_back(d);
      shifts.push_back(by[i]);
    }
  }
  const View whole = add_dense(node, from.sizes);
  // Along each dimension two pieces change places.
  for (unsigned pieces = 0; pieces < 1u << dims.size(); ++pieces) {
    View piece = from, to = whole;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto d = static_cast<std::size_t>(dims[i]);
      const std::int64_t size = from.sizes[d], shift = size ? (shifts[i] % size + size) % size : 0;
      const bool second = pieces >> i & 1;
      piece.sizes[d] = to.sizes[d] = second ? shift : size - shift;
      (second ? piece : to).offset += (second ? size - shift : shift) * (second ? piece : to).strides[d];
    }
    copy_to(node, piece, to);
  }
  set_view(node, whole, meta_of(node).dtype);
}

}  // namespace fxx::inline FXX_ABI::plans
