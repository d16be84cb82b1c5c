// Views as steps that can be taken again from another tensor, and back: the value that a tensor has after its view got
// a new one. For passes/functionalise.ipp only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/ops/numbers.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::detail::views {

/// What a step does to a tensor, which says how it is taken back.
enum class Kind : std::uint8_t {
  same,   // nothing, or nothing to values: detach
  shape,  // other sizes, the elements in the same order
  swap,   // two dimensions change places: its own inverse
  permute,
  slice,
  select,
  diagonal,
  strided,  // of contiguous memory that is the whole
  dtype,    // the same bytes
  to_real,
  to_complex,
  other,  // no inverse is known
  never,  // cannot even be taken again from another tensor
};

/// One operator that makes a view: its arguments behind the tensor, and the tensors before and after, where known.
struct Step {
  Kind kind = Kind::other;
  const Operator* op = nullptr;  // null: the tensor as it is
  std::vector<Argument> args = {};
  std::vector<KeywordArgument> kwargs = {};
  std::optional<TensorMeta> from = {}, to = {};
};

/// What an operator returns.
enum class Sharing : std::uint8_t { fresh, view, maybe };
/// A view as the steps to it.
struct View {
  Sharing sharing = Sharing::view;
  std::vector<Step> steps = {};
};

using Meta = std::optional<TensorMeta>;

FXX_INLINE std::optional<std::int64_t> integer_of(const Argument& a) {
  if (a.kind() != Argument::Kind::integer) return {};
  return a.integer();
}
FXX_INLINE bool is_static(const Meta& meta) { return meta && !meta->is_dynamic(); }
FXX_INLINE Argument shape_argument(const TensorMeta& meta) {
  return Argument::list({meta.shape.begin(), meta.shape.end()});
}
FXX_INLINE std::vector<std::int64_t> contiguous_stride(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> stride(shape.size());
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0; next *= std::max<std::int64_t>(shape[i], 1)) stride[i] = next;
  return stride;
}
/// Are the elements known to lie in order, without gaps? None when strides are not known.
FXX_INLINE std::optional<bool> is_contiguous(const Meta& meta) {
  if (!is_static(meta) || meta->stride.size() != meta->shape.size()) return {};
  const std::vector<std::int64_t> wanted = contiguous_stride(meta->shape);
  if (meta->numel() == 0) return true;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (meta->shape[i] != 1 && meta->stride[i] != wanted[i]) return false;
  return true;
}
/// Has the tensor a view of this shape? None when strides are not known. After ATen's computeStride.
FXX_INLINE std::optional<bool> is_viewable(const Meta& meta, const std::vector<std::int64_t>& shape) {
  if (!is_static(meta) || meta->stride.size() != meta->shape.size()) return {};
  if (meta->numel() == 0) return {};
  const auto& old = meta->shape;
  if (old.empty()) return true;
  std::ptrdiff_t at = static_cast<std::ptrdiff_t>(shape.size()) - 1;
  std::int64_t chunk = meta->stride.back(), old_count = 1, new_count = 1;
  for (std::ptrdiff_t d = static_cast<std::ptrdiff_t>(old.size()) - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    old_count *= old[i];
    if (d == 0 || (old[i - 1] != 1 && meta->stride[i - 1] != old_count * chunk)) {
      while (at >= 0 && (new_count < old_count || shape[static_cast<std::size_t>(at)] == 1))
        new_count *= shape[static_cast<std::size_t>(at--)];
      if (new_count != old_count) return false;
      if (d > 0) {
        chunk = meta->stride[i - 1];
        old_count = new_count = 1;
      }
    }
  }
  return at == -1;
}
/// A tensor of this shape that is like `meta` in all else; strides are not known.
FXX_INLINE Meta reshaped(const TensorMeta& meta, std::vector<std::int64_t> shape) {
  TensorMeta out = meta;
  out.shape = std::move(shape);
  out.stride.clear();
  out.symbols.clear();
  return out;
}
/// Dimension `dim` of the tensor, counted from the front; none when out of range.
FXX_INLINE std::optional<std::size_t> dimension(const TensorMeta& meta, std::int64_t dim) {
  if (dim < 0) dim += meta.dim();
  if (dim < 0 || dim >= meta.dim()) return {};
  return static_cast<std::size_t>(dim);
}
FXX_INLINE std::optional<std::int64_t> size_of(const Meta& meta, std::int64_t dim) {
  const auto at = meta ? dimension(*meta, dim) : std::nullopt;
  if (!at || meta->shape[*at] < 0) return {};
  return meta->shape[*at];
}

FXX_INLINE Step step(Kind kind, const Operator& op, std::vector<Argument> args, Meta from, Meta to = {}) {
  return {.kind = kind, .op = &op, .args = std::move(args), .from = std::move(from), .to = std::move(to)};
}
FXX_INLINE Step slice(std::int64_t dim, Argument start, Argument end, Argument by, const Meta& from) {
  Meta to;
  const auto size = size_of(from, dim), every = integer_of(by);
  const auto bound = [&](const Argument& a, std::int64_t otherwise) -> std::optional<std::int64_t> {
    if (a.is_none()) return otherwise;
    const auto given = integer_of(a);
    if (!given || !size) return {};
    return std::clamp<std::int64_t>(*given < 0 ? *given + *size : *given, 0, *size);
  };
  if (size && every && *every > 0) {
    const auto first = bound(start, 0), last = bound(end, *size);
    if (first && last) {
      std::vector<std::int64_t> shape = from->shape;
      shape[*dimension(*from, dim)] = *last > *first ? (*last - *first + *every - 1) / *every : 0;
      to = reshaped(*from, std::move(shape));
    }
  }
  return step(Kind::slice, ops::slice_Tensor, {dim, std::move(start), std::move(end), std::move(by)}, from, to);
}
FXX_INLINE Step select(std::int64_t dim, Argument index, const Meta& from) {
  Meta to;
  if (const auto at = from ? dimension(*from, dim) : std::nullopt) {
    std::vector<std::int64_t> shape = from->shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
    to = reshaped(*from, std::move(shape));
  }
  return step(Kind::select, ops::select_int, {dim, std::move(index)}, from, to);
}

/// Item `i` of what an operator makes of a tensor by cutting it up; none when that is not known.
FXX_INLINE std::optional<Step> item(const Node& list, const Operator& op, std::int64_t i, const Meta& from) {
  const std::string_view name = op.base_name();
  const auto given = [&](std::string_view parameter) {
    const int at = op.index_of(parameter);
    return at < 0 ? Argument() : argument_or_default(list, op, at);
  };
  const auto integers = [](const Argument& a) -> std::optional<std::vector<std::int64_t>> {
    if (!a.is_sequence()) return {};
    std::vector<std::int64_t> out;
    for (const Argument& x : a.items()) {
      if (x.kind() != Argument::Kind::integer) return {};
      out.push_back(x.integer());
    }
    return out;
  };
  std::int64_t dim = 0;
  if (op.index_of("dim") >= 0) {
    const auto d = integer_of(given("dim"));
    if (!d) return {};
    dim = *d;
  } else if (name == "hsplit" || name == "dsplit" || name == "vsplit") {
    if (!from) return {};
    dim = name == "vsplit" ? 0 : name == "dsplit" ? 2 : from->dim() == 1 ? 0 : 1;
  }
  const auto size = size_of(from, dim);
  const auto sizes_of_parts = [&](const std::vector<std::int64_t>& sizes) -> std::optional<Step> {
    const auto count = static_cast<std::int64_t>(sizes.size());
    const std::int64_t at = i < 0 ? i + count : i;
    if (at < 0 || at >= count) return {};
    std::int64_t start = 0;
    for (std::int64_t k = 0; k < at; ++k) start += sizes[static_cast<std::size_t>(k)];
    return slice(dim, start, start + sizes[static_cast<std::size_t>(at)], 1, from);
  };
  const auto parts_of = [&](std::int64_t each) -> std::optional<Step> {
    if (each <= 0 || (!size && i < 0)) return {};
    const std::int64_t at = i < 0 ? i + (*size + each - 1) / each : i;
    if (at < 0 || (size && at * each >= *size && at != 0)) return {};
    return slice(dim, at * each, size ? std::min((at + 1) * each, *size) : (at + 1) * each, 1, from);
  };
  if (name == "unbind") return select(dim, i, from);
  if (name == "split" || name == "split_with_sizes") {
    const Argument by = given(name == "split" ? "split_size" : "split_sizes");
    if (const auto each = integer_of(by)) return parts_of(*each);
    if (const auto sizes = integers(by)) return sizes_of_parts(*sizes);
    return {};
  }
  if (name == "chunk") {
    const auto chunks = integer_of(given("chunks"));
    if (!chunks || *chunks <= 0 || !size || *size == 0) return {};
    return parts_of((*size + *chunks - 1) / *chunks);
  }
  if (name == "tensor_split" || name == "hsplit" || name == "vsplit" || name == "dsplit") {
    if (const auto sections = integer_of(given("sections"))) {
      if (!size || *sections <= 0) return {};
      const std::int64_t at = i < 0 ? i + *sections : i, each = *size / *sections, longer = *size % *sections;
      if (at < 0 || at >= *sections) return {};
      return slice(dim, at * each + std::min(at, longer), (at + 1) * each + std::min(at + 1, longer), 1, from);
    }
    if (const auto at = integers(given("indices"))) {
      const auto count = static_cast<std::int64_t>(at->size()) + 1;
      const std::int64_t k = i < 0 ? i + count : i;
      if (k < 0 || k >= count) return {};
      return slice(dim, k == 0 ? Argument(0) : Argument((*at)[static_cast<std::size_t>(k - 1)]),
                   k + 1 == count ? Argument() : Argument((*at)[static_cast<std::size_t>(k)]), 1, from);
    }
  }
  return {};
}

/// Is the node's value a number for certain?
FXX_INLINE bool gives_number(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || op->returns.size() != 1 || op->returns[0].type.list) return false;
  const ValueType base = op->returns[0].type.base;
  return base != ValueType::tensor && base != ValueType::other;
}
/// A whole number, or a node that computes one.
FXX_INLINE bool is_whole_number(const Argument& a) {
  if (a.kind() == Argument::Kind::integer) return true;
  if (!a.is_node() || a.node()->tensor_meta()) return false;
  const Operator* op = operator_of(*a.node());
  return op && op->returns.size() == 1 &&
         op->returns[0].type == Type{.base = ValueType::integer, .symbolic = op->returns[0].type.symbolic};
}

/// `x[index]`, the index as Python has it.
FXX_INLINE View indexed(const Node& node, const Operator& op, const Argument& index, const Meta& from) {
  using Which = Argument::Kind;
  const View as_it_is{Sharing::view, {step(Kind::other, op, {index}, from)}};
  std::vector<Argument> items;
  if (index.kind() == Which::tuple) items.assign(index.items().begin(), index.items().end());
  else items.push_back(index);
  bool gathers = false, unsure = false;
  std::int64_t used = 0;
  for (const Argument& i : items) {
    if (i.is_none() || i.kind() == Which::ellipsis) continue;
    ++used;
    if (i.kind() == Which::slice || is_whole_number(i)) continue;
    // A tensor of more than one number, or a list of numbers, gathers: the result is a copy.
    gathers = gathers || i.kind() == Which::list ||
              (i.is_node() && i.node()->tensor_meta() && i.node()->tensor_meta()->dim() > 0);
    unsure = true;
  }
  if (gathers) return {Sharing::fresh, {}};
  if (unsure) return {Sharing::maybe, as_it_is.steps};
  if (from && used > from->dim()) return as_it_is;  // refused when it runs
  View view;
  Meta now = from;
  const auto add = [&](Step s) {
    now = s.to;
    view.steps.push_back(std::move(s));
  };
  std::int64_t dim = 0;
  for (const Argument& i : items) {
    if (i.kind() == Which::ellipsis) {
      if (!from) {
        // Counted from the end, the last first.
        dim = -1;
        for (const Argument* k = &items.back(); k != &i; --k) {
          if (k->is_none() || k->kind() == Which::ellipsis) return as_it_is;
          if (k->kind() != Which::slice) add(views::select(dim, *k, now));
          else if (const Slice& s = k->slice(); true)
            add(views::slice(dim--, s.start, s.stop, s.step.is_none() ? Argument(1) : s.step, now));
        }
        break;
      }
      dim += from->dim() - used;
    } else if (i.is_none()) {
      Meta to;
      if (now) {
        std::vector<std::int64_t> shape = now->shape;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(std::min<std::int64_t>(dim, now->dim())), 1);
        to = reshaped(*now, std::move(shape));
      }
      add(step(Kind::shape, ops::unsqueeze, {dim}, now, to));
      ++dim;
    } else if (i.kind() == Which::slice) {
      const Slice& s = i.slice();
      if (!s.start.is_none() || !s.stop.is_none() || !s.step.is_none())
        add(views::slice(dim, s.start, s.stop, s.step.is_none() ? Argument(1) : s.step, now));
      ++dim;
    } else {
      add(views::select(dim, i, now));
    }
  }
  if (view.steps.empty()) view.steps.push_back({.kind = Kind::same, .from = from, .to = from});
  if (node.tensor_meta()) view.steps.back().to = *node.tensor_meta();
  return view;
}

/// Is there such a view of tensors with some strides only?
FXX_INLINE bool minds_strides(const Step& s) {
  return s.kind == Kind::strided || s.kind == Kind::to_complex ||
         (s.kind == Kind::other && s.op && s.op->name == "aten::view.dtype");
}

/// Do the elements of such a view lie apart, within `count` elements?
FXX_INLINE bool lie_apart(const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& stride,
                          std::int64_t offset, std::int64_t count) {
  std::vector<std::pair<std::int64_t, std::int64_t>> by_stride;
  std::int64_t last = offset;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] < 1 || stride[i] < 0) return false;
    last += (size[i] - 1) * stride[i];
    if (size[i] > 1) by_stride.emplace_back(stride[i], size[i]);
  }
  std::sort(by_stride.begin(), by_stride.end());
  std::int64_t reach = 1;
  for (const auto& [each, n] : by_stride) {
    if (each < reach) return false;
    reach = each * n;
  }
  return offset >= 0 && last < count;
}

/// The view that an operator makes of its first argument, a tensor `from`. `root`: that tensor is all of its memory,
/// which the graph made.
FXX_INLINE View view_of(const Node& node, const Operator& op, const Meta& from, bool whole, bool root) {
  const std::string_view name = op.base_name();
  const Meta to = node.tensor_meta() ? Meta(*node.tensor_meta()) : Meta();
  const auto given = [&](std::string_view parameter) {
    const int at = op.index_of(parameter);
    return at < 0 ? Argument() : argument_or_default(node, op, at);
  };
  Step as_given{.op = &op, .from = from, .to = to};
  if (!node.args().empty()) as_given.args.assign(node.args().begin() + 1, node.args().end());
  as_given.kwargs.assign(node.kwargs().begin(), node.kwargs().end());
  const auto as = [&](Kind kind, Sharing sharing = Sharing::view) {
    as_given.kind = kind;
    return View{sharing, {as_given}};
  };
  const Step nothing{.kind = Kind::same, .from = from, .to = to};
  const auto identity = [&](Sharing sharing = Sharing::view) { return View{sharing, {nothing}}; };
  const bool same_shape = from && to && from->shape == to->shape;
  const bool real = from && !is_complex(from->dtype);
  if (op.name_space() == "operator" && name == "getitem") return indexed(node, op, given("b"), from);
  if (op.name_space() == "fxx" && name == "identity") return identity();
  if (op.name_space() != "aten")
    return as(Kind::other, has(op.traits, Trait::fresh_view) ? Sharing::maybe : Sharing::view);

  if (name == "alias" || name == "lift_fresh" || name == "positive") return identity();
  if (name == "detach") return as(Kind::same);
  if (name == "view" && op.overload_name() == "dtype")
    return as(from && to && element_size(from->dtype) == element_size(to->dtype) ? Kind::dtype : Kind::other);
  if (name == "view" || name == "view_as" || name == "unsqueeze" || name == "squeeze" || name == "unflatten" ||
      name == "atleast_1d" || name == "atleast_2d" || name == "atleast_3d")
    return as(op.parameters[0].type.list ? Kind::other : Kind::shape,
              op.parameters[0].type.list ? Sharing::maybe : Sharing::view);
  if (name == "reshape" || name == "reshape_as" || name == "flatten") {
    if (same_shape) return identity();
    const auto viewable = is_static(to) ? is_viewable(from, to->shape) : std::nullopt;
    return as(Kind::shape, !viewable ? Sharing::maybe : *viewable ? Sharing::view : Sharing::fresh);
  }
  if (name == "ravel") {
    const auto contiguous = is_contiguous(from);
    return as(Kind::shape, !contiguous ? Sharing::maybe : *contiguous ? Sharing::view : Sharing::fresh);
  }
  if (name == "contiguous") {
    const auto contiguous = is_contiguous(from);
    const bool plain = given("memory_format") == Argument(MemoryFormat::contiguous_format);
    return identity(!plain || !contiguous ? Sharing::maybe : *contiguous ? Sharing::view : Sharing::fresh);
  }
  if (name == "to" || name == "type_as") {
    const Argument copy = given("copy"), format = given("memory_format");
    if (copy.kind() == Argument::Kind::boolean && copy.boolean()) return {Sharing::fresh, {}};
    const bool plain = format.is_none() || format == Argument(MemoryFormat::preserve_format);
    if (from && to && (from->dtype != to->dtype || from->device.type != to->device.type)) return {Sharing::fresh, {}};
    if (from && to && plain && from->device == to->device && given("layout").is_none() && given("pin_memory").is_none())
      return identity();
    return as(Kind::other, Sharing::maybe);
  }
  if ((name == "conj" || name == "resolve_conj" || name == "resolve_neg" || name == "real") && real) return identity();
  if (name == "dropout" || name == "feature_dropout" || name == "alpha_dropout" || name == "feature_alpha_dropout") {
    const Argument train = given("train");
    if (train.kind() != Argument::Kind::boolean) return as(Kind::other, Sharing::maybe);
    return train.boolean() ? View{Sharing::fresh, {}} : identity();
  }
  if (name == "expand" || name == "expand_as" || name == "broadcast_to")
    return same_shape ? identity() : as(Kind::other);
  if (name == "sum_to_size") {
    if (!from || !to) return as(Kind::other, Sharing::maybe);
    return same_shape ? identity() : View{Sharing::fresh, {}};
  }
  if (name == "transpose" || name == "swapaxes" || name == "swapdims" || name == "t" || name == "mT" ||
      name == "numpy_T")
    return as(Kind::swap);
  if (name == "adjoint" || name == "mH" || name == "matrix_H") return as(real ? Kind::swap : Kind::other);
  if (name == "movedim" || name == "moveaxis" || name == "permute") {
    if (name == "permute") return as(Kind::permute);
    const Argument source = given("source"), destination = given("destination");
    if (!from) return as(Kind::other);
    // As the permutation that it is.
    const auto listed = [&](const Argument& a) -> std::optional<std::vector<std::int64_t>> {
      std::vector<std::int64_t> out;
      const std::vector<Argument> items =
          a.is_sequence() ? std::vector<Argument>(a.items().begin(), a.items().end()) : std::vector<Argument>{a};
      for (const Argument& i : items) {
        const auto d = integer_of(i);
        const auto at = d ? dimension(*from, *d) : std::nullopt;
        if (!at) return {};
        out.push_back(static_cast<std::int64_t>(*at));
      }
      return out;
    };
    const auto s = listed(source), d = listed(destination);
    if (!s || !d || s->size() != d->size()) return as(Kind::other);
    std::vector<std::int64_t> order(from->shape.size(), -1), rest;
    for (std::size_t i = 0; i < s->size(); ++i) order[static_cast<std::size_t>((*d)[i])] = (*s)[i];
    for (std::int64_t i = 0; i < from->dim(); ++i)
      if (std::find(s->begin(), s->end(), i) == s->end()) rest.push_back(i);
    auto next = rest.begin();
    for (std::int64_t& i : order)
      if (i < 0 && next != rest.end()) i = *next++;
    return {Sharing::view,
            {step(Kind::permute, ops::permute, {Argument::list({order.begin(), order.end()})}, from, to)}};
  }
  const auto dim = integer_of(given("dim"));
  if (name == "select" && dim) {
    Step s = select(*dim, given("index"), from);
    if (to) s.to = to;
    return {Sharing::view, {std::move(s)}};
  }
  if (name == "slice" && dim) {
    Step s = slice(*dim, given("start"), given("end"), given("step"), from);
    if (to) s.to = to;
    return {Sharing::view, {std::move(s)}};
  }
  if (name == "narrow" && dim && op.overload_name().empty()) {
    const auto start = integer_of(given("start")), length = integer_of(given("length"));
    const auto size = size_of(from, *dim);
    if (!start || !length || (*start < 0 && !size)) return as(Kind::other);
    const std::int64_t first = *start < 0 ? *start + *size : *start;
    Step s = slice(*dim, first, first + *length, 1, from);
    if (to) s.to = to;
    return {Sharing::view, {std::move(s)}};
  }
  if (name == "diagonal" || name == "linalg_diagonal") {
    return {Sharing::view,
            {step(Kind::diagonal, ops::diagonal, {given("offset"), given("dim1"), given("dim2")}, from, to)}};
  }
  if (name == "view_as_real") return as(Kind::to_real);
  if (name == "view_as_complex") return as(Kind::to_complex);
  if (name == "as_strided") {
    // It speaks of memory, of which only a whole tensor without gaps tells enough.
    const Argument size = given("size"), stride = given("stride"), offset = given("storage_offset");
    std::vector<std::int64_t> lists[2];
    bool known = whole && is_contiguous(from) == true && size.is_sequence() && stride.is_sequence() &&
                 size.items().size() == stride.items().size() &&
                 (offset.is_none() || (root && offset.kind() == Argument::Kind::integer));
    if (known)
      for (int k = 0; k < 2; ++k)
        for (const Argument& i : (k ? stride : size).items()) {
          known = known && i.kind() == Argument::Kind::integer;
          if (known) lists[k].push_back(i.integer());
        }
    if (!known || !lie_apart(lists[0], lists[1], offset.is_none() ? 0 : offset.integer(), from->numel()))
      return as(Kind::never);
    return as(Kind::strided);
  }
  if (name == "to_dense" || name == "_conj" || name == "_neg_view") return as(Kind::never);
  return as(Kind::other, has(op.traits, Trait::fresh_view) ? Sharing::maybe : Sharing::view);
}

/// Does taking the step back need what the tensor was before?
FXX_INLINE bool needs_before(const Step& s) {
  switch (s.kind) {
    case Kind::slice:
    case Kind::select:
    case Kind::diagonal:
    case Kind::strided: return true;
    case Kind::shape: return s.op->base_name() != "unsqueeze" && !is_static(s.from);
    case Kind::permute: return false;
    default: return false;
  }
}
/// Is what comes of taking it back the tensor's own memory, in the tensor's own order, whatever the view's was?
FXX_INLINE bool writes_into_copy(const Step& s) {
  return s.kind == Kind::slice || s.kind == Kind::select || s.kind == Kind::diagonal || s.kind == Kind::strided;
}
/// The dimensions that take a permute back; none when those it is given are not all there are, each once.
FXX_INLINE std::optional<std::vector<Argument>> inverse_permutation(const Step& s) {
  if (s.args.size() + s.kwargs.size() != 1) return {};
  const Argument& dims = s.args.empty() ? s.kwargs[0].value : s.args[0];
  if (!dims.is_sequence()) return {};
  const auto rank = static_cast<std::int64_t>(dims.items().size());
  std::vector<Argument> inverse(dims.items().size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const auto given = integer_of(dims.items()[static_cast<std::size_t>(i)]);
    if (!given || *given < -rank || *given >= rank) return {};
    Argument& at = inverse[static_cast<std::size_t>(*given < 0 ? *given + rank : *given)];
    if (!at.is_none()) return {};
    at = i;
  }
  return inverse;
}
FXX_INLINE bool has_inverse(const Step& s) {
  if (s.kind == Kind::other || s.kind == Kind::never) return false;
  return s.kind != Kind::permute || inverse_permutation(s);
}

inline std::vector<Argument> before(Node* first, const std::vector<Argument>& rest) {
  std::vector<Argument> args = {first};
  args.insert(args.end(), rest.begin(), rest.end());
  return args;
}

/// Takes the step from `base`. `call(op, args, kwargs, meta)` makes a node. `same_memory`: the base has the strides
/// that it had when the view was taken first.
template <class Call>
Node* apply(const Step& s, Node* base, Call&& call, bool same_memory = false) {
  if (!s.op) return base;
  Meta to = s.to;
  if (to) to->stride.clear();
  if (same_memory) return call(*s.op, before(base, s.args), s.kwargs, s.to);
  // The new tensor's strides may be others, of which there is no such view.
  if (s.kind == Kind::shape && s.op->base_name() != "unsqueeze" && s.op->base_name() != "squeeze") {
    if (is_static(to)) return call(ops::reshape.info(), {base, shape_argument(*to)}, {}, to);
    if (s.op->base_name() == "view" && s.args.size() == 1) return call(ops::reshape.info(), {base, s.args[0]}, {}, to);
    if (s.op->base_name() == "view_as" && s.args.size() == 1)
      return call(ops::reshape_as.info(), {base, s.args[0]}, {}, to);
  }
  // Where a dimension has one element, `contiguous` leaves its stride as it is.
  if (s.op->name == "aten::view.dtype" && s.kind == Kind::other)
    base = call(ops::clone.info(), {base}, {{"memory_format", MemoryFormat::contiguous_format}}, s.from);
  else if (minds_strides(s)) base = call(ops::contiguous.info(), {base}, {}, s.from);
  return call(*s.op, before(base, s.args), s.kwargs, to);
}

/// The tensor whose view by this step is `value`; `old` gives the tensor as it was.
template <class Old, class Call>
Node* take_back(const Step& s, Old&& old, Node* value, Call&& call) {
  Meta from = s.from;
  if (from) from->stride.clear();
  switch (s.kind) {
    case Kind::shape:
      if (s.op->base_name() == "unsqueeze") return call(ops::squeeze_dim.info(), before(value, s.args), s.kwargs, from);
      if (s.from && s.to && s.from->shape == s.to->shape) return value;
      if (is_static(s.from)) return call(ops::reshape.info(), {value, shape_argument(*s.from)}, {}, from);
      return call(ops::reshape_as.info(), {value, old()}, {}, from);
    case Kind::swap: return call(*s.op, before(value, s.args), s.kwargs, from);
    case Kind::permute:
      return call(ops::permute.info(), {value, Argument::list(*inverse_permutation(s))}, {}, from);
    case Kind::slice:
      return call(ops::slice_scatter.info(), {old(), value, s.args[0], s.args[1], s.args[2], s.args[3]}, {}, s.from);
    case Kind::select: return call(ops::select_scatter.info(), {old(), value, s.args[0], s.args[1]}, {}, s.from);
    case Kind::diagonal:
      return call(ops::diagonal_scatter.info(), {old(), value, s.args[0], s.args[1], s.args[2]}, {}, s.from);
    case Kind::strided: {
      Node* whole = call(ops::contiguous.info(), {old()}, {}, s.from);
      std::vector<Argument> args = {whole, value};
      args.insert(args.end(), s.args.begin(), s.args.end());
      return call(ops::as_strided_scatter.info(), args, s.kwargs, s.from);
    }
    case Kind::dtype: return call(ops::view_dtype.info(), {value, s.from->dtype}, {}, from);
    case Kind::to_real:
      return call(ops::view_as_complex.info(), {call(ops::contiguous.info(), {value}, {}, s.to)}, {}, from);
    case Kind::to_complex: return call(ops::view_as_real.info(), {value}, {}, from);
    default: return value;
  }
}

}  // namespace fxx::inline FXX_ABI::detail::views
