// Lowering of what writes elements to places that other tensors tell: scatter, index_add, index_put and their like.
#pragma once

#include <limits>

#include "fxx/codegen/lower/lookups.ipp"
#include "fxx/codegen/lower/pointwise.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Memory for the node that holds what `self` does, to be written to: the memory of `self` where nobody else reads it.
FXX_INLINE View Lowering::own_copy(const Node& node, const Node& self) {
  const bool alone = self.num_users() == 1 && only_once(node, self);
  if (value_of(self).kind == Value::Kind::view && alone && own_.contains(&self)) {
    const bool leaves = std::ranges::any_of(node.users(), [](const Node* n) { return n->opcode() == Opcode::output; });
    if (!leaves) return value_of(self).view;
  }
  Value own;
  own.kind = Value::Kind::pending;
  own.dtype = meta_of(node).dtype;
  own.term = number_of(0);
  if (value_of(self).kind != Value::Kind::pending) view_of(self);
  const View to = place(node, own);
  Value value = value_of(self);
  if (value.kind == Value::Kind::pending && alone) {
    value.nodes.push_back(&node);
    if (to.numel() > 0) emit(std::move(value), to);
    value_of(self).kind = Value::Kind::view;
    value_of(self).view = to;
    value_of(self).steps = steps();
  } else {
    copy_to(node, view_of(self), to);
  }
  return to;
}
FXX_INLINE bool Lowering::only_once(const Node& node, const Node& input) {
  int times = 0;
  const auto count = [&](const Node* n) { times += n == &input; };
  for (const Argument& a : node.args()) for_each_node(a, count);
  for (const KeywordArgument& k : node.kwargs()) for_each_node(k.value, count);
  return times == 1;
}

FXX_INLINE void Lowering::scatter_term(const Node& node, const ScatterTo& where, Scatter::Kind kind, TermPointer value,
                                       std::vector<const Node*> nodes) {
  const Sizes& sizes = where.to.sizes;
  if (product(sizes) == 0) return;
  for (const Term::Dimension& dimension : where.looked_up)
    if (dimension.size == 0) throw NoKernel{"places in nothing"};
  KernelStep step;
  Scatter kernel;
  kernel.kind = kind;
  for (const View& index : where.indices) kernel.indices.push_back(load_of(index, Elements::integer));
  kernel.looked_up = where.looked_up;
  step.frame.sizes = sizes;
  step.frame.dims.resize(sizes.size());
  std::int64_t steps[3] = {1, 1, 1};  // of groups, rows, columns
  for (std::size_t d = sizes.size(); d-- > 0;) {
    const int axis = d < where.first ? 0 : d < where.first + where.count ? 1 : 2;
    step.frame.dims[d] = {axis, steps[axis]};
    steps[axis] *= sizes[d];
  }
  if (std::ranges::any_of(steps, [](std::int64_t size) { return size > most_elements; }))
    throw NoKernel{"more elements than an int counts"};
  step.frame.axes = {{"group", steps[0]}, {"row", steps[1]}, {"column", steps[2]}};
  if (steps[2] == 1) {
    // Vectors are of rows.
    step.frame.axes.pop_back();
    for (std::size_t d = where.first + where.count; d < sizes.size(); ++d) step.frame.dims[d] = {0, 1};
  }
  step.kernel = std::move(kernel);
  step.flops = static_cast<double>(product(sizes)) * (1 + computed_calls_in(*value));
  step.stores.push_back({where.to, std::move(value)});
  step.nodes = std::move(nodes);
  step.nodes.push_back(&node);
  add_step(std::move(step));
}

/// Of scatter and its like along one dimension: an index for each element, or (`whole` false) for each row.
FXX_INLINE ScatterTo Lowering::places_along(const View& to, std::size_t dim, const View& index, const Sizes& sizes,
                                            bool whole, bool from_end) const {
  ScatterTo where;
  where.first = dim;
  where.to = to;
  where.to.sizes = sizes;
  where.looked_up = {{to.sizes[dim], to.strides[dim], from_end}};
  where.to.strides[dim] = 0;
  View wide{index.buffer, index.offset, sizes, Sizes(sizes.size(), 0)};
  if (whole)
    for (std::size_t d = 0; d < sizes.size(); ++d) wide.strides[d] = index.sizes[d] == 1 ? 0 : index.strides[d];
  else if (!index.sizes.empty()) wide.strides[dim] = index.strides[0];
  where.indices = {std::move(wide)};
  return where;
}

/// What is put together of the elements that meet.
FXX_INLINE ScatterReduction Lowering::scatter_reduction_of(const Node& node, const Operator& op) {
  using Kind = Scatter::Kind;
  const std::string_view name = op.base_name();
  if (name == "scatter_add" || name == "index_add") return {Kind::add};
  ScatterReduction result;
  if (op.index_of("include_self") >= 0) result.with_self = argument(node, op, "include_self").boolean();
  if (op.index_of("reduce") < 0) return result;
  const Argument given = argument(node, op, "reduce");
  const std::string_view reduce = given.kind() == Argument::Kind::string ? given.string() : std::string_view();
  static constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"sum", Kind::add},           {"add", Kind::add},      {"mean", Kind::add},     {"prod", Kind::multiply},
      {"multiply", Kind::multiply}, {"amax", Kind::largest}, {"amin", Kind::smallest}};
  const auto known = std::ranges::find(kinds, reduce, &std::pair<std::string_view, Kind>::first);
  if (known == std::end(kinds)) throw NoKernel{"a reduction of another kind"};
  result.kind = known->second;
  result.mean = reduce == "mean";
  return result;
}
/// What a reduction begins with, in the elements of the dtype.
FXX_INLINE TermPointer neutral_of(Scatter::Kind kind, Dtype dtype) {
  using Kind = Scatter::Kind;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (dtype == Dtype::float32)
    return number_of(kind == Kind::multiply   ? 1
                     : kind == Kind::largest  ? -infinite
                     : kind == Kind::smallest ? infinite
                                              : 0);
  const int bits = 8 * element_size(dtype);
  const bool natural = dtype == Dtype::uint8;
  const std::int64_t most = natural ? 255 : std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return integer_of(kind == Kind::multiply   ? 1
                    : kind == Kind::largest  ? (natural ? 0 : -most - 1)
                    : kind == Kind::smallest ? most
                                             : 0);
}

/// The steps that put elements together in `where.to`, a copy of the node's `self`.
FXX_INLINE void Lowering::scatter_reduced(const Node& node, const ScatterTo& where, const View& whole,
                                          const ScatterReduction& how, TermPointer value,
                                          std::vector<const Node*> nodes) {
  using Kind = Scatter::Kind;
  const Dtype dtype = meta_of(node).dtype;
  if (!how.with_self && how.kind != Kind::replace)
    scatter_term(node, where, Kind::replace, neutral_of(how.kind, dtype), {});
  scatter_term(node, where, how.kind, std::move(value), std::move(nodes));
  if (!how.mean || product(where.to.sizes) == 0) return;
  // How many met where, of which there are none where nothing came.
  const View counts = add_dense(node, whole.sizes);
  const Elements elements = elements_of(dtype);
  write(node, scalar_of(how.with_self ? 1 : 0, elements), counts);
  ScatterTo counted = where;
  counted.to.buffer = counts.buffer;
  counted.to.offset = 0;
  for (std::size_t d = 0; d < counts.sizes.size(); ++d)
    if (d < where.first || d >= where.first + where.count) counted.to.strides[d] = counts.strides[d];
  counted.looked_up[0].stride = counts.strides[where.first];
  scatter_term(node, counted, Kind::add, scalar_of(1, elements), {});
  using F = kernels::Function;
  // A narrow dtype may have counted past its end, as LibTorch does: only none is one.
  const TermPointer met = load_of(counts, elements);
  const TermPointer none = call_of(F::equal, {met, scalar_of(0, elements)});
  const TermPointer count = call_of(F::select, {none, scalar_of(1, elements), met});
  write(node, call_of(elements == Elements::integer ? F::floor_divide : F::divide, {load_of(whole, elements), count}),
        whole);
}

/// scatter, scatter_add, scatter_reduce, index_add, index_copy, index_fill, index_reduce.
FXX_INLINE void Lowering::scatter(const Node& node, const Operator& op) {
  require_elements(node);
  const Node& self = operand(node, op, "self");
  const View index = index_view(operand(node, op, "index"));
  const std::string_view name = op.base_name();
  const bool whole = name.starts_with("scatter");
  const ScatterReduction how = scatter_reduction_of(node, op);
  const Dtype dtype = meta_of(node).dtype;
  const Elements elements = elements_of(dtype);
  const Sizes& own = sizes_of(node);
  if (own.empty()) throw NoKernel{"places in a number"};
  if (own.size() > 8) throw NoKernel{"more than eight dimensions"};
  const std::size_t dim = dimension(integer(argument(node, op, "dim")), own.size());
  Sizes sizes = own;
  if (whole) sizes = index.sizes;
  else sizes[dim] = index.sizes.empty() ? 1 : index.sizes[0];
  if (sizes.size() != own.size() || index.sizes.size() > (whole ? own.size() : 1))
    throw NoKernel{"sizes that do not fit"};
  // What goes there: a number, or a tensor of which the indices may leave out some.
  const char* from = op.index_of("src") >= 0 ? "src" : op.index_of("source") >= 0 ? "source" : "value";
  const Argument given = argument(node, op, from);
  TermPointer value;
  std::vector<const Node*> nodes;
  if (given.is_node()) {
    const Node& source = *given.node();
    if (meta_of(source).dtype != dtype) throw NoKernel{"a conversion"};
    const bool one = product(sizes_of(source)) == 1;
    if (sizes_of(source) == sizes) {
      nodes = join_without_root(source);
      value = term_of(source, sizes);
    } else {
      View part = view_of(source);
      if (one && !whole) {
        part.sizes = sizes;
        part.strides.assign(sizes.size(), 0);
      } else if (part.sizes.size() == sizes.size()) {
        for (std::size_t d = 0; d < sizes.size(); ++d)
          if (part.sizes[d] < sizes[d]) throw NoKernel{"sizes that do not fit"};
        part.sizes = sizes;
      } else {
        throw NoKernel{"sizes that do not fit"};
      }
      value = load_of(std::move(part), elements);
    }
  } else {
    value = scalar_of(given, elements);
  }
  if (op.index_of("alpha") >= 0) {
    const Argument alpha = argument(node, op, "alpha");
    if (!alpha.is_number()) throw NoKernel{"alpha is not a number"};
    if (alpha.number() != 1)
      value = call_of(kernels::Function::multiply, {std::move(value), scalar_of(alpha, elements)});
  }
  if (elements == Elements::mask && how.kind != Scatter::Kind::replace) throw NoKernel{"bool"};
  const View to = own_copy(node, self);
  scatter_reduced(node, places_along(to, dim, index, sizes, whole, name == "index_fill"), to, how, std::move(value),
                  std::move(nodes));
  own_.insert(&node);
  set_view(node, to, dtype);
}

/// index_put: at tensors of integers, or everywhere a mask says.
FXX_INLINE void Lowering::index_put(const Node& node, const Operator& op) {
  require_elements(node);
  const Node& self = operand(node, op, "self");
  const Node& values = operand(node, op, "values");
  const Dtype dtype = meta_of(node).dtype;
  if (meta_of(values).dtype != dtype) throw NoKernel{"a conversion"};
  const Argument list = argument(node, op, "indices");
  const Sizes& own = sizes_of(node);
  if (!list.is_sequence() || list.items().size() > own.size()) throw NoKernel{"no list"};
  const bool adds = argument(node, op, "accumulate").boolean();
  std::vector<std::size_t> dims;
  std::vector<const Node*> given;
  for (std::size_t d = 0; d < list.items().size(); ++d) {
    const Argument& item = list.items()[d];
    if (item.is_none()) continue;
    if (!item.is_node()) throw NoKernel{"an index that is no tensor"};
    dims.push_back(d);
    given.push_back(item.node());
  }
  if (dims.empty()) throw NoKernel{"no index"};
  const Elements elements = elements_of(dtype);
  if (given.size() == 1 && meta_of(*given[0]).dtype == Dtype::boolean && product(sizes_of(values)) == 1 && !adds) {
    // One number for all of them: a choice. The mask has some of the dimensions.
    View mask = view_of(*given[0]), one = view_of(values);
    if (mask.sizes.size() + dims[0] > own.size()) throw NoKernel{"sizes that do not fit"};
    mask = standing_at(mask, dims[0], own);
    one.sizes = own;
    one.strides.assign(own.size(), 0);
    Joined joined = join({&self}, own);
    return set_pending(
        node, joined.root,
        choice_of(load_of(std::move(mask), Elements::mask), load_of(std::move(one), elements), term_of(self, own)),
        std::move(joined.nodes));
  }
  // Dimensions of the value: those of the indices stand where the first does, or in front when others are between them.
  Sizes shape;  // of the indices together
  std::vector<View> indices;
  for (const Node* index : given) {
    indices.push_back(index_view(*index));
    const Sizes& sizes = indices.back().sizes;
    if (sizes.size() > shape.size()) shape.insert(shape.begin(), sizes.size() - shape.size(), 1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t& size = shape[shape.size() - sizes.size() + i];
      if (size == 1) size = sizes[i];
      else if (sizes[i] != 1 && sizes[i] != size) throw NoKernel{"sizes that do not fit"};
    }
  }
  const bool together = dims.back() - dims.front() + 1 == dims.size();
  ScatterTo where;
  where.first = together ? dims.front() : 0;
  where.count = shape.size();
  Sizes sizes;
  std::vector<std::size_t> from;  // dimensions of self
  for (std::size_t d = 0; d < own.size(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) from.push_back(d);
  for (std::size_t d : from) sizes.push_back(own[d]);
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(where.first), shape.begin(), shape.end());
  if (sizes.size() > 8) throw NoKernel{"more than eight dimensions"};
  // The value may be of fewer dimensions.
  std::vector<const Node*> nodes;
  TermPointer value;
  if (sizes_of(values) == sizes) {
    nodes = join_without_root(values);
    value = term_of(values, sizes);
  } else {
    const std::optional<View> wide = broadcast(view_of(values), sizes);
    if (!wide) throw NoKernel{"sizes that do not fit"};
    value = load_of(*wide, elements);
  }
  if (elements == Elements::mask && adds) throw NoKernel{"bool"};
  const View to = own_copy(node, self);
  where.to = {to.buffer, to.offset, sizes, Sizes(sizes.size(), 0)};
  for (std::size_t i = 0; i < from.size(); ++i)
    where.to.strides[i < where.first ? i : i + where.count] = to.strides[from[i]];
  for (std::size_t i = 0; i < dims.size(); ++i) {
    where.looked_up.push_back({own[dims[i]], to.strides[dims[i]], true});
    where.indices.push_back(standing_at(*broadcast(indices[i], shape), where.first, sizes));
  }
  scatter_term(node, where, adds ? Scatter::Kind::add : Scatter::Kind::replace, std::move(value),
               std::move(nodes));
  own_.insert(&node);
  set_view(node, to, dtype);
}

}  // namespace fxx::inline FXX_ABI::plans
