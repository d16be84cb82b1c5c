// Memory of plans: buffers, the views in which values lie, parts of a cat that lie in the whole, and the steps that write
// them there.
#pragma once

#include <numeric>

#include "fxx/codegen/lower/aliases.ipp"
#include "fxx/codegen/lower/terms.ipp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE int Lowering::add_buffer(Buffer::Kind kind, const Node& node, Dtype dtype, std::int64_t elements) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.name = node.name();
  buffer.dtype = dtype;
  buffer.elements = elements;
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<int>(plan_.buffers.size()) - 1;
}

FXX_INLINE int Lowering::add_constant(const Node& node, const std::string& name, Dtype dtype, std::int64_t elements) {
  const auto [known, fresh] = attributes_.try_emplace(name, static_cast<int>(plan_.attributes.size()));
  if (fresh) plan_.attributes.push_back(name);
  const int buffer = add_buffer(Buffer::Kind::constant, node, dtype, elements);
  plan_.buffers.back().number = known->second;
  return buffer;
}

FXX_INLINE View Lowering::add_dense(const Node& node, const Sizes& sizes) {
  return {add_buffer(Buffer::Kind::arena, node, meta_of(node).dtype, product(sizes)), 0, sizes, dense_strides(sizes)};
}

/// Images, and sequences, which are images of one row.
FXX_INLINE bool is_image(const Sizes& sizes) { return sizes.size() == 3 || sizes.size() == 4; }
FXX_INLINE Sizes image_sizes(Sizes sizes) {
  if (sizes.size() == 3) sizes.insert(sizes.begin() + 2, 1);
  return sizes;
}
/// The sequence as an image of one row, and the same of its weights.
FXX_INLINE View with_row(View view) {
  if (view.sizes.size() != 3) return view;
  view.strides.insert(view.strides.begin() + 2, view.sizes[2] * view.strides[2]);
  view.sizes.insert(view.sizes.begin() + 2, 1);
  return view;
}

/// Channels behind each other, pixels behind each other in a row. Many a tensor of three dimensions lies so that is no
/// sequence: those are where a kernel of images wrote one.
FXX_INLINE bool Lowering::lies_channels_last(const View& view) const {
  if (view.sizes.size() == 3 && (view.buffer < 0 || buffer_of(view.buffer).image.empty())) return false;
  return is_image(view.sizes) && view.strides[1] == 1 && view.sizes[1] > 1 && view.strides.back() >= view.sizes[1];
}

FXX_INLINE View Lowering::place_image(const Node& node, const Sizes& of, const Buffer::Border& border, Dtype dtype) {
  const Sizes sizes = image_sizes(of);
  const std::int64_t rows = border.top + sizes[2] + border.bottom, pixels = border.left + sizes[3] + border.right;
  const int buffer = add_buffer(Buffer::Kind::arena, node, dtype, sizes[0] * rows * pixels * sizes[1]);
  Buffer& made = plan_.buffers.back();
  made.border = border;
  made.image = {sizes[0], rows, pixels, sizes[1]};
  View view{buffer,
            (border.top * pixels + border.left) * sizes[1],
            of,
            {rows * pixels * sizes[1], 1, pixels * sizes[1], sizes[1]}};
  if (of.size() == 3) view.strides.erase(view.strides.begin() + 2);
  return view;
}

/// Where the part number `i` lies in the result of a cat or stack.
struct PartOfWhole {
  std::size_t dim = 0;
  std::int64_t at = 0;
  bool stacked = false;
};
FXX_INLINE View part_of(const View& whole, const PartOfWhole& part, const Sizes& sizes) {
  View view = whole;
  view.offset += part.at * whole.strides[part.dim];
  if (part.stacked) {
    view.sizes.erase(view.sizes.begin() + static_cast<std::ptrdiff_t>(part.dim));
    view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(part.dim));
  } else {
    view.sizes[part.dim] = sizes[part.dim];
  }
  return view;
}
/// Is the node a cat or stack of floats that has `input` once among its parts? Then where.
FXX_INLINE std::optional<PartOfWhole> place_among(const Node& node, const Node& input) {
  const Operator* op = known_operator(node);
  if (!op || (op->name != "aten::cat" && op->name != "aten::stack")) return {};
  const TensorMeta* meta = node.tensor_meta();
  const Argument list = argument_or_default(node, *op, 0), dim = argument_or_default(node, *op, 1);
  if (!meta || meta->is_dynamic() || meta->dtype != Dtype::float32 || !is_countable(node) || !list.is_sequence() ||
      dim.kind() != Argument::Kind::integer)
    return {};
  PartOfWhole part;
  part.stacked = op->name == "aten::stack";
  part.dim = static_cast<std::size_t>(dim.integer() < 0 ? dim.integer() + meta->dim() : dim.integer());
  if (part.dim >= meta->shape.size()) return {};
  bool found = false;
  std::int64_t at = 0;
  for (const Argument& item : list.items()) {
    if (!item.is_node() || !item.node()->tensor_meta() || item.node()->tensor_meta()->dtype != Dtype::float32 ||
        item.node()->tensor_meta()->dim() != meta->dim() - (part.stacked ? 1 : 0))
      return {};
    if (item.node() == &input) {
      if (found) return {};
      found = true;
      part.at = at;
    }
    at += part.stacked ? 1 : item.node()->tensor_meta()->shape[part.dim];
  }
  if (!found) return {};
  return part;
}

FXX_INLINE const Lowering::Whole& Lowering::whole_of(const Node& node, bool image) {
  if (const auto known = wholes_.find(&node); known != wholes_.end()) return known->second;
  const Sizes& sizes = sizes_of(node);
  Whole whole;
  whole.image = image && is_image(sizes);
  if (whole.image) {
    // With the border that convolutions of the whole read, and those of its parts.
    Buffer::Border border = border_wanted(node);
    for (const Node* part : node.all_input_nodes()) border = border.around(border_wanted(*part));
    whole.view = place_image(node, sizes, border);
  } else {
    // The whole may be a part itself, or leave the graph.
    Value value;
    value.kind = Value::Kind::pending;
    value.dtype = meta_of(node).dtype;
    value.term = number_of(0);
    whole.view = place(node, value);
  }
  return wholes_.emplace(&node, std::move(whole)).first->second;
}

FXX_INLINE std::optional<View> Lowering::place_in_whole(const Node& node, bool image) {
  for (const Node* user : users_of(node)) {
    const std::optional<PartOfWhole> part = place_among(*user, node);
    if (!part || is_written(*user)) continue;
    // Images lie beside each other along their channels; else pixels of one are not at one distance.
    if (image && (part->stacked || part->dim != 1)) continue;
    const Whole& whole = whole_of(*user, image);
    if (whole.image != image) continue;
    return part_of(whole.view, *part, sizes_of(node));
  }
  return {};
}

FXX_INLINE Sizes Lowering::strides_in_memory(const Node& node) const {
  const TensorMeta& meta = meta_of(node);
  if (meta.stride.size() != meta.shape.size() || meta.numel() == 0) return dense_strides(meta.shape);
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride and size
  for (std::size_t d = 0; d < meta.shape.size(); ++d)
    if (meta.shape[d] != 1) dims.emplace_back(meta.stride[d], meta.shape[d]);
  std::sort(dims.begin(), dims.end());
  std::int64_t next = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != next) return dense_strides(meta.shape);
    next *= size;
  }
  return meta.stride;
}

/// The order of memory in which all that a term reads as a whole lies, the outermost dimension first; nothing where some
/// lie otherwise, or none is dense.
FXX_INLINE std::optional<Sizes> order_of_loads(const Term& term, const Sizes& sizes) {
  std::optional<Sizes> order;
  bool same = true;
  for_each_load(term, [&](const Term& load) {
    if (load.kind != Term::Kind::load || load.view.sizes != sizes) return;
    Sizes found(sizes.size());
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1 && load.view.strides[d] == 0) return;
    std::iota(found.begin(), found.end(), 0);
    std::ranges::stable_sort(found, [&](std::int64_t a, std::int64_t b) {
      return load.view.strides[static_cast<std::size_t>(a)] > load.view.strides[static_cast<std::size_t>(b)];
    });
    same = same && (!order || *order == found);
    order = std::move(found);
  });
  return same ? order : std::nullopt;
}

/// Is what the node gives written to in place, itself or by way of a view? Then it has memory of its own, which lies as
/// LibTorch's does, so that views are views.
FXX_INLINE bool Lowering::is_written(const Node& node) const {
  if (written_.empty()) return false;
  const Memory memory = memory_of(node);
  return std::any_of(written_.begin(), written_.end(), [&](const Memory& w) { return may_overlap(w, memory); });
}

FXX_INLINE void Lowering::lie_as_written(const Node& node) {
  const Value& value = value_of(node);
  if (value.kind != Value::Kind::view || value.view.numel() == 0 || !is_written(node)) return;
  const View from = value.view;
  const Dtype dtype = value.dtype;
  const Sizes strides = strides_in_memory(node);
  bool same = true;
  for (std::size_t d = 0; d < from.sizes.size(); ++d)
    same = same && (from.sizes[d] == 1 || from.strides[d] == strides[d]);
  if (same) return;
  const View to{add_buffer(Buffer::Kind::arena, node, dtype, from.numel()), 0, from.sizes, strides};
  copy_to(node, from, to);
  set_view(node, to, dtype);
}

FXX_INLINE View Lowering::place(const Node& node, const Value& value) {
  const Sizes& sizes = sizes_of(node);
  if (is_written(node)) {
    const int buffer = add_buffer(Buffer::Kind::arena, node, value.dtype, product(sizes));
    return {buffer, 0, sizes, strides_in_memory(node)};
  }
  const bool is_float = value.dtype == Dtype::float32;
  // What only leaves the graph goes where the caller wants it. Only kernels clear a border around what they write.
  const bool bordered = is_image(sizes) && is_float && value.kind == Value::Kind::pending;
  const Buffer::Border border = bordered ? border_wanted(node) : Buffer::Border{};
  bool leaves = false, stays = false;
  for (const Node* user : node.users()) (user->opcode() == Opcode::output ? leaves : stays) = true;
  if (leaves && border.empty()) {
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      PlanOutput& output = plan_.outputs[i];
      if (output.view.buffer != -2 - static_cast<int>(node.index())) continue;
      const int buffer = add_buffer(Buffer::Kind::output, node, value.dtype, product(sizes));
      plan_.buffers.back().number = static_cast<int>(i);
      output.buffer = buffer;
      output.view = {buffer, 0, sizes, strides_in_memory(node)};
      return output.view;
    }
  }
  if (is_float && value.kind == Value::Kind::pending) {
    bool looks_up = false, image = value.root && is_image_kernel(*value.root);
    if (!value.root)
      for_each_load(*value.term, [&](const Term& term) {
        looks_up = looks_up || term.kind != Term::Kind::load;
        image = image || lies_channels_last(term.view);
      });
    if (!looks_up)
      if (const std::optional<View> part = place_in_whole(node, is_image(sizes) && image)) return *part;
  }
  if (is_image(sizes) && is_float) {
    bool image = !border.empty();
    if (value.root) {
      image = image || is_image_kernel(*value.root) || (sizes.size() == 3 && !value.root->order.empty());
    } else if (value.term) {
      for_each_load(*value.term, [&](const Term& term) { image = image || lies_channels_last(term.view); });
    }
    if (image) return place_image(node, sizes, border);
  }
  const int buffer = add_buffer(Buffer::Kind::arena, node, value.dtype, product(sizes));
  View view{buffer, 0, sizes, dense_strides(sizes)};
  Sizes order;
  if (value.root) order = value.root->order;
  // Volumes, of which kernels of images write one channel behind the other, stay as they lie.
  else if (sizes.size() == 5 && value.term) order = order_of_loads(*value.term, sizes).value_or(Sizes());
  if (order.size() == sizes.size()) {
    std::int64_t step = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(order[i]);
      view.strides[d] = step;
      step *= sizes[d];
    }
  }
  return view;
}

FXX_INLINE const View& Lowering::view_of(const Node& node) {
  Value& value = value_of(node);
  if (value.kind == Value::Kind::view) return value.view;
  if (value.kind != Value::Kind::pending) throw NoKernel{"'" + std::string(node.name()) + "' is not one tensor"};
  Value pending = std::move(value);
  value = {};
  value.kind = Value::Kind::view;
  value.dtype = pending.dtype;
  value.view = place(node, pending);
  const View to = value.view;
  emit(std::move(pending), to);
  value_of(node).steps = steps();
  return value_of(node).view;
}

FXX_INLINE void Lowering::add_step(KernelStep step) {
  const int number = static_cast<int>(plan_.steps.size());
  for_each_view(step, [&](const View& view) {
    if (view.buffer < 0) return;
    Buffer& buffer = plan_.buffers[static_cast<std::size_t>(view.buffer)];
    if (buffer.first < 0) buffer.first = number;
    buffer.last = number;
    step.bytes += static_cast<double>(view.numel() * element_size(buffer.dtype));
  });
  // Of the table so many rows.
  if (const auto* k = std::get_if<Bags>(&step.kernel))
    step.bytes += static_cast<double>(4 * (k->count * k->columns - k->table.numel()));
  plan_.steps.push_back(std::move(step));
}

FXX_INLINE void Lowering::emit(Value value, View to) {
  KernelStep step;
  step.nodes = std::move(value.nodes);
  if (value.root) {
    step.kernel = value.root->kernel;
    step.frame = value.root->frame;
    step.flops = value.root->flops;
    step.shape = value.root->shape;
    step.way = value.root->way;
  } else {
    step.kernel = Pointwise{};
    step.frame.sizes = to.sizes;
    step.flops = static_cast<double>(computed_calls_in(*value.term)) * static_cast<double>(to.numel());
  }
  step.stores.push_back({std::move(to), std::move(value.term)});
  add_step(std::move(step));
}

}  // namespace fxx::inline FXX_ABI::plans
