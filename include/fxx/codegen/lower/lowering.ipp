// The class that lowers: values of nodes, memory for them, steps. Families of operators stand beside this file.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "fxx/codegen/kernel_forms.hpp"
#include "fxx/codegen/lower.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE std::int64_t product(const Sizes& sizes) {
  std::int64_t n = 1;
  for (std::int64_t size : sizes) n *= size;
  return n;
}
/// The same elements with other sizes, where strides can say so.
FXX_INLINE std::optional<View> reshaped(const View& view, const Sizes& sizes) {
  View result{view.buffer, view.offset, sizes, Sizes(sizes.size())};
  if (product(sizes) != view.numel()) return {};
  if (view.numel() == 0) {
    result.strides = dense_strides(sizes);
    return result;
  }
  // Dimensions of the old that lie behind each other are one; each must be cut where the new sizes end.
  std::size_t to = sizes.size();
  std::size_t from = view.sizes.size();
  while (from > 0) {
    std::int64_t stride = view.strides[from - 1], count = view.sizes[from - 1];
    --from;
    while (from > 0 && (view.sizes[from - 1] == 1 || count == 1 || view.strides[from - 1] == stride * count)) {
      if (count == 1) stride = view.strides[from - 1];
      count *= view.sizes[from - 1];
      --from;
    }
    while (to > 0 && (count > 1 || sizes[to - 1] == 1)) {
      if (count % sizes[to - 1] != 0) return {};
      --to;
      result.strides[to] = stride;
      stride *= sizes[to];
      count /= sizes[to];
    }
    if (count != 1) return {};
  }
  while (to > 0) result.strides[--to] = 1;  // of size 1
  return result;
}
/// The view as it is read where `sizes` are wanted: dimensions of size 1, and those that it has not, have stride 0.
FXX_INLINE std::optional<View> broadcast(const View& view, const Sizes& sizes) {
  if (view.sizes.size() > sizes.size()) return {};
  View result{view.buffer, view.offset, sizes, Sizes(sizes.size(), 0)};
  const std::size_t missing = sizes.size() - view.sizes.size();
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == sizes[missing + i]) result.strides[missing + i] = view.sizes[i] == 1 ? 0 : view.strides[i];
    else if (view.sizes[i] != 1) return {};
  }
  return result;
}

FXX_INLINE TermPointer load_of(View view, bool mask = false) {
  Term term;
  term.kind = Term::Kind::load;
  term.mask = mask;
  term.view = std::move(view);
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE TermPointer number_of(double value) {
  Term term;
  term.kind = Term::Kind::number;
  term.number = value;
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE TermPointer call_of(kernels::Function function, std::vector<TermPointer> operands) {
  Term term;
  term.kind = Term::Kind::call;
  term.function = function;
  term.mask = function >= kernels::Function::less && function <= kernels::Function::logical_not;
  term.operands = std::move(operands);
  return std::make_shared<const Term>(std::move(term));
}
FXX_INLINE const TermPointer& result_term() {
  static const TermPointer term = std::make_shared<const Term>();
  return term;
}
FXX_INLINE int calls_in(const Term& term) {
  int count = term.kind == Term::Kind::call || term.kind == Term::Kind::lookup;
  for (const TermPointer& operand : term.operands) count += calls_in(*operand);
  return count;
}
template <class F>
void for_each_load(const Term& term, const F& f) {
  if (term.kind == Term::Kind::load || term.kind == Term::Kind::lookup) f(term);
  for (const TermPointer& operand : term.operands) for_each_load(*operand, f);
}

/// Thrown by a handler: there is no kernel for this call, for this reason.
struct NoKernel {
  std::string why;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Owner& owner, const LowerOptions& options)
      : graph_(graph), owner_(owner), options_(options), values_(graph.index_bound()) {}
  KernelPlan lower();

 private:
  /// A kernel that has not been placed yet: what comes behind it may still go into its loop.
  struct Root {
    Kernel kernel;
    Frame frame;
    double flops = 0;
    int number = 0;    // in order of creation
    Sizes order = {};  // dimensions of the result from the outermost in memory; empty: as they come
  };
  static bool is_image_kernel(const Root& root) {
    return std::holds_alternative<Convolution>(root.kernel) || std::holds_alternative<Pooling>(root.kernel) ||
           std::holds_alternative<GroupNorm>(root.kernel) || std::holds_alternative<Resize>(root.kernel);
  }
  /// What a node gives.
  struct Value {
    enum class Kind : std::uint8_t { none, view, pending, tuple };
    Kind kind = Kind::none;
    Dtype dtype = Dtype::float32;
    View view = {};
    // pending: computed when somebody reads it
    std::shared_ptr<const Root> root = {};
    TermPointer term = {};
    std::vector<const Node*> nodes = {};
    // tuple
    std::vector<Value> items = {};
  };
  using Handler = void (Lowering::*)(const Node&, const Operator&);
  static const std::unordered_map<std::string_view, Handler>& handlers();

  // --- lowering.ipp --------------------------------------------------------------------------------------------------
  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw CodegenError(ErrorId::no_cpp_spelling, "lower: " + what, {format_node(node), node.source()});
  }
  const TensorMeta& meta_of(const Node& node) const {
    const TensorMeta* meta = node.tensor_meta();
    if (!meta) fail(node, "shape and dtype of '" + std::string(node.name()) + "' are not known");
    if (meta->is_dynamic()) fail(node, "a size of '" + std::string(node.name()) + "' changes from call to call");
    return *meta;
  }
  const Sizes& sizes_of(const Node& node) const { return meta_of(node).shape; }
  Value& value_of(const Node& node) { return values_[node.index()]; }
  void placeholder(const Node& node);
  void attribute(const Node& node, const GetAttr& target);
  void call(const Node& node);
  void call_back(const Node& node, const std::string& why);
  void output(const Node& node);
  int add_buffer(Buffer::Kind kind, const Node& node, Dtype dtype, std::int64_t elements);
  /// Memory for a value of the node, as those who read it want it.
  View place(const Node& node, const Value& value);
  /// Of a tensor that the caller has or gets: LibTorch's where they leave no gap, else dense ones.
  Sizes strides_in_memory(const Node& node) const;
  Buffer::Border border_wanted(const Node& node) const;
  /// The place of a value within what it is put beside others in, so that nothing needs to be copied then; nothing when
  /// it must lie elsewhere.
  std::optional<View> place_in_whole(const Node& node, bool image);
  struct Whole {
    View view;
    bool image = false;
  };
  /// Memory for the result of a cat or stack.
  const Whole& whole_of(const Node& node, bool image);
  View place_image(const Node& node, const Sizes& sizes, const Buffer::Border& border);
  bool lies_channels_last(const View& view) const;
  /// Where the value lies; it is computed now if it was not.
  const View& view_of(const Node& node);
  void emit(Value value, View to);
  void add_step(KernelStep step);
  /// The argument for a parameter, or its default.
  static Argument argument(const Node& node, const Operator& op, std::string_view name) {
    const int i = op.index_of(name);
    if (i < 0) throw NoKernel{"no parameter " + std::string(name)};
    return argument_or_default(node, op, i);
  }
  static const Node& operand(const Node& node, const Operator& op, std::string_view name) {
    const Argument value = argument(node, op, name);
    if (!value.is_node()) throw NoKernel{std::string(name) + " is not a tensor"};
    return *value.node();
  }
  static const Node* optional_operand(const Node& node, const Operator& op, std::string_view name) {
    const Argument value = argument(node, op, name);
    if (value.is_none()) return nullptr;
    if (!value.is_node()) throw NoKernel{std::string(name) + " is not a tensor"};
    return value.node();
  }
  static std::int64_t integer(const Argument& value) {
    if (value.kind() != Argument::Kind::integer) throw NoKernel{"a size that is not a constant"};
    return value.integer();
  }
  static Sizes integers(const Argument& value, std::size_t count = 0) {
    Sizes result;
    if (value.kind() == Argument::Kind::integer) result.assign(count ? count : 1, value.integer());
    else if (value.is_sequence())
      for (const Argument& item : value.items()) result.push_back(integer(item));
    else throw NoKernel{"sizes that are not constants"};
    if (count && result.size() == 1) result.assign(count, result[0]);
    return result;
  }
  static std::size_t dimension(std::int64_t dim, std::size_t dims) {
    const auto n = static_cast<std::int64_t>(dims);
    if (dim < -n || dim >= std::max<std::int64_t>(n, 1)) throw NoKernel{"a dimension that the tensor has not"};
    return static_cast<std::size_t>(dim < 0 ? dim + n : dim);
  }
  void require_float(const Node& node) const {
    if (meta_of(node).dtype != Dtype::float32) throw NoKernel{std::string(name_of(meta_of(node).dtype))};
  }
  void set_view(const Node& node, View view, Dtype dtype) {
    Value& value = value_of(node);
    value.kind = Value::Kind::view;
    value.dtype = dtype;
    value.view = std::move(view);
  }
  void set_pending(const Node& node, std::shared_ptr<const Root> root, TermPointer term,
                   std::vector<const Node*> nodes = {}) {
    Value& value = value_of(node);
    value.kind = Value::Kind::pending;
    value.dtype = meta_of(node).dtype;
    value.root = std::move(root);
    value.term = std::move(term);
    value.nodes = std::move(nodes);
    value.nodes.push_back(&node);
    pending_.push_back(&node);
  }
  void set_root(const Node& node, Kernel kernel, Frame frame, double flops, Sizes order = {},
                TermPointer term = result_term(), std::vector<const Node*> nodes = {}) {
    auto root = std::make_shared<Root>();
    root->kernel = std::move(kernel);
    root->frame = std::move(frame);
    root->flops = flops;
    root->number = roots_++;
    root->order = std::move(order);
    set_pending(node, std::move(root), std::move(term), std::move(nodes));
  }
  /// The value as a term of something of these sizes. `root`: the kernel it may be part of; others are placed first.
  TermPointer term_of(const Node& node, const Sizes& sizes);
  /// What takes part in one expression: all pending values whose kernel is not the last one are computed.
  struct Joined {
    std::shared_ptr<const Root> root;
    std::vector<const Node*> nodes;
  };
  Joined join(std::initializer_list<const Node*> operands, const Sizes& sizes);
  TermPointer bias_term(const Node& bias, const Sizes& sizes, std::size_t dim);
  std::int64_t stored_bytes(const View& view) const {
    return view.numel() * plan_.buffers[static_cast<std::size_t>(view.buffer)].bytes() /
           std::max<std::int64_t>(1, plan_.buffers[static_cast<std::size_t>(view.buffer)].elements);
  }

  // --- views.ipp -----------------------------------------------------------------------------------------------------
  void same(const Node& node, const Operator& op);
  void reshape(const Node& node, const Operator& op);
  void permute(const Node& node, const Operator& op);
  void transpose(const Node& node, const Operator& op);
  void unsqueeze(const Node& node, const Operator& op);
  void expand(const Node& node, const Operator& op);
  void slice(const Node& node, const Operator& op);
  void narrow(const Node& node, const Operator& op);
  void select(const Node& node, const Operator& op);
  void split(const Node& node, const Operator& op);
  void unbind(const Node& node, const Operator& op);
  void concatenate(const Node& node, const Operator& op);
  void get_item(const Node& node);
  void scatter_slice(const Node& node, const Operator& op);
  void pad(const Node& node, const Operator& op);
  void roll(const Node& node, const Operator& op);
  void copy_to(const Node& node, const View& from, View to);
  void set_copy(const Node& node, const View& view);
  // --- pointwise.ipp -------------------------------------------------------------------------------------------------
  bool pointwise(const Node& node, const Operator& op);
  void masked_fill(const Node& node, const Operator& op);
  void embedding(const Node& node, const Operator& op);
  void constant(const Node& node, const Operator& op);
  void fill(const Node& node, const Operator& op);
  void logic(const Node& node, const Operator& op);
  void elu(const Node& node, const Operator& op);
  // --- products.ipp --------------------------------------------------------------------------------------------------
  View matrix_rows(const Node& node, std::int64_t& stride, const Sizes& sizes);
  void linear(const Node& node, const Operator& op);
  void addmm(const Node& node, const Operator& op);
  void matmul(const Node& node, const Operator& op);
  // --- images.ipp ----------------------------------------------------------------------------------------------------
  View image_of(const Node& node, const Buffer::Border& border);
  void convolution(const Node& node, const Operator& op);
  void pool(const Node& node, const Operator& op);
  void adaptive_pool(const Node& node, const Operator& op);
  void transposed_convolution(const Node& node, const Operator& op);
  void resize(const Node& node, const Operator& op);
  void batch_norm(const Node& node, const Operator& op);
  void group_norm(const Node& node, const Operator& op);
  bool mean_of_image(const Node& node, const Node& input, const Sizes& dims);
  // --- rows.ipp ------------------------------------------------------------------------------------------------------
  void row_function(const Node& node, const Node& input, const Sizes& dims, Rows::Kind kind, double eps,
                    const Node* weight, const Node* bias);
  void softmax(const Node& node, const Operator& op);
  void layer_norm(const Node& node, const Operator& op);
  void reduce(const Node& node, const Operator& op);
  void norm(const Node& node, const Operator& op);
  // --- attention.ipp -------------------------------------------------------------------------------------------------
  void attention(const Node& node, const Operator& op);
  // --- recurrent.ipp -------------------------------------------------------------------------------------------------
  void recurrent(const Node& node, const Operator& op);

  const Graph& graph_;
  const Owner& owner_;
  LowerOptions options_;
  KernelPlan plan_;
  std::vector<Value> values_;
  std::vector<const Node*> pending_;  // some of them are placed by now
  std::unordered_map<std::string, int> attributes_;
  struct PlacedImage {
    Buffer::Border border;
    View view;
  };
  std::unordered_map<const Node*, PlacedImage> images_;  // copies with the border that a convolution wants
  std::unordered_map<const Node*, Whole> wholes_;        // results of cat and stack that have memory
  int roots_ = 0;
  bool writes_ = false;  // some node writes to its inputs, so copies must be copies
};

// --- memory ----------------------------------------------------------------------------------------------------------

FXX_INLINE int Lowering::add_buffer(Buffer::Kind kind, const Node& node, Dtype dtype, std::int64_t elements) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.name = node.name();
  buffer.dtype = dtype;
  buffer.elements = elements;
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<int>(plan_.buffers.size()) - 1;
}

/// Channels behind each other, pixels behind each other in a row.
FXX_INLINE bool Lowering::lies_channels_last(const View& view) const {
  return view.sizes.size() == 4 && view.strides[1] == 1 && view.sizes[1] > 1 && view.strides[3] >= view.sizes[1];
}

FXX_INLINE View Lowering::place_image(const Node& node, const Sizes& sizes, const Buffer::Border& border) {
  const std::int64_t rows = border.top + sizes[2] + border.bottom, pixels = border.left + sizes[3] + border.right;
  const int buffer = add_buffer(Buffer::Kind::arena, node, Dtype::float32, sizes[0] * rows * pixels * sizes[1]);
  Buffer& made = plan_.buffers.back();
  made.border = border;
  made.image = {sizes[0], rows, pixels, sizes[1]};
  return {buffer,
          (border.top * pixels + border.left) * sizes[1],
          sizes,
          {rows * pixels * sizes[1], 1, pixels * sizes[1], sizes[1]}};
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
  const Operator* op = operator_of(node);
  if (!op || (op->name != "aten::cat" && op->name != "aten::concat" && op->name != "aten::stack")) return {};
  const TensorMeta* meta = node.tensor_meta();
  const Argument list = argument_or_default(node, *op, 0), dim = argument_or_default(node, *op, 1);
  if (!meta || meta->is_dynamic() || meta->dtype != Dtype::float32 || !list.is_sequence() ||
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
  whole.image = image && sizes.size() == 4;
  if (whole.image) {
    // With the border that convolutions of the whole read, and those of its parts.
    Buffer::Border border = border_wanted(node);
    for (const Node* part : node.all_input_nodes()) {
      const Buffer::Border wanted = border_wanted(*part);
      border = {std::max(border.top, wanted.top), std::max(border.left, wanted.left),
                std::max(border.bottom, wanted.bottom), std::max(border.right, wanted.right)};
    }
    whole.view = place_image(node, sizes, border);
  } else {
    // The whole may be a part itself, or leave the graph.
    Value value;
    value.kind = Value::Kind::pending;
    value.term = number_of(0);
    whole.view = place(node, value);
  }
  return wholes_.emplace(&node, std::move(whole)).first->second;
}

FXX_INLINE std::optional<View> Lowering::place_in_whole(const Node& node, bool image) {
  for (const Node* user : node.users()) {
    const std::optional<PartOfWhole> part = place_among(*user, node);
    if (!part) continue;
    // Images lie beside each other along their channels; else pixels of one are not at one distance.
    if (image && (part->stacked || part->dim != 1)) continue;
    // Rows of what others read must lie at one distance: a matrix stays whole where only the first dimensions are cut.
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

FXX_INLINE View Lowering::place(const Node& node, const Value& value) {
  const Sizes& sizes = sizes_of(node);
  const bool is_float = value.dtype == Dtype::float32;
  // What only leaves the graph goes where the caller wants it. Only kernels clear a border around what they write.
  const bool bordered = sizes.size() == 4 && is_float && value.kind == Value::Kind::pending;
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
        looks_up = looks_up || term.kind == Term::Kind::lookup;
        image = image || lies_channels_last(term.view);
      });
    if (!looks_up)
      if (const std::optional<View> part = place_in_whole(node, sizes.size() == 4 && image)) return *part;
  }
  if (sizes.size() == 4 && is_float) {
    bool image = !border.empty();
    if (value.root) {
      image = image || is_image_kernel(*value.root);
    } else if (value.term) {
      for_each_load(*value.term, [&](const Term& term) { image = image || lies_channels_last(term.view); });
    }
    if (image) return place_image(node, sizes, border);
  }
  const int buffer = add_buffer(Buffer::Kind::arena, node, value.dtype, product(sizes));
  View view{buffer, 0, sizes, dense_strides(sizes)};
  if (value.root && value.root->order.size() == sizes.size()) {
    std::int64_t step = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(value.root->order[i]);
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
  return value_of(node).view;
}

// --- steps -----------------------------------------------------------------------------------------------------------

FXX_INLINE void Lowering::add_step(KernelStep step) {
  const int number = static_cast<int>(plan_.steps.size());
  const auto use = [&](const View& view, bool written) {
    if (view.buffer < 0) return;
    Buffer& buffer = plan_.buffers[static_cast<std::size_t>(view.buffer)];
    if (buffer.first < 0) buffer.first = number;
    buffer.last = number;
    if (buffer.kind == Buffer::Kind::constant && written) buffer.last = number;
    step.bytes += static_cast<double>(stored_bytes(view));
  };
  const auto use_term = [&](const TermPointer& term) {
    if (term) for_each_load(*term, [&](const Term& load) { use(load.view, false); });
  };
  const auto use_all = overloaded{
      [&](const Pointwise&) {},
      [&](const MatrixProduct& k) { use(k.a, false), use(k.weights.view, false); },
      [&](const Convolution& k) { use(k.in, false), use(k.weights, false); },
      [&](const Pooling& k) { use(k.in, false); },
      [&](const Rows& k) { use_term(k.input); },
      [&](const plans::Attention& k) { use(k.q, false), use(k.k, false), use(k.v, false), use_term(k.mask); },
      [&](const Recurrent& k) {
        for (const View* view :
             {&k.in, &k.input_weights, &k.state_weights, &k.input_bias, &k.state_bias, &k.h, &k.c, &k.h_out, &k.c_out})
          use(*view, false);
      },
      [&](const GroupNorm& k) { use_term(k.input); },
      [&](const Resize& k) { use(k.in, false); },
      [&](const CallBack& k) {
        for (const View& view : k.inputs) use(view, false);
        for (const View& view : k.outputs) use(view, true);
      }};
  match(step.kernel, use_all);
  for (const Store& store : step.stores) {
    use_term(store.value);
    use(store.to, true);
  }
  plan_.steps.push_back(std::move(step));
}

FXX_INLINE void Lowering::emit(Value value, View to) {
  KernelStep step;
  step.nodes = std::move(value.nodes);
  if (value.root) {
    step.kernel = value.root->kernel;
    step.frame = value.root->frame;
    step.flops = value.root->flops;
  } else {
    step.kernel = Pointwise{};
    step.frame.sizes = to.sizes;
    step.flops = static_cast<double>(calls_in(*value.term)) * static_cast<double>(to.numel());
  }
  step.stores.push_back({std::move(to), std::move(value.term)});
  add_step(std::move(step));
}

FXX_INLINE Lowering::Joined Lowering::join(std::initializer_list<const Node*> operands, const Sizes& sizes) {
  Joined joined;
  for (const Node* operand : operands) {
    if (!operand) continue;
    const Value& value = value_of(*operand);
    if (value.kind != Value::Kind::pending || sizes_of(*operand) != sizes || !value.root) continue;
    if (!joined.root || value.root->number > joined.root->number) joined.root = value.root;
  }
  int calls = 0;
  for (const Node* operand : operands) {
    if (!operand || value_of(*operand).kind != Value::Kind::pending) continue;
    const Value& value = value_of(*operand);
    calls += calls_in(*value.term);
    if (sizes_of(*operand) != sizes || (value.root && value.root != joined.root) || calls > 64) view_of(*operand);
  }
  const Node* before = nullptr;
  for (const Node* operand : operands) {
    if (!operand || operand == before || value_of(*operand).kind != Value::Kind::pending) continue;
    before = operand;  // x * x computes x by the same nodes
    const auto& nodes = value_of(*operand).nodes;
    joined.nodes.insert(joined.nodes.end(), nodes.begin(), nodes.end());
  }
  // The kernel itself may have been placed for the sake of the limit.
  bool has_root = false;
  for (const Node* operand : operands)
    has_root = has_root || (operand && value_of(*operand).kind == Value::Kind::pending && value_of(*operand).root);
  if (!has_root) joined.root.reset();
  return joined;
}

FXX_INLINE TermPointer Lowering::term_of(const Node& node, const Sizes& sizes) {
  const Value& value = value_of(node);
  if (value.dtype != Dtype::float32 && value.dtype != Dtype::boolean) throw NoKernel{std::string(name_of(value.dtype))};
  if (value.dtype == Dtype::boolean && value.kind == Value::Kind::view && product(value.view.sizes) == 0)
    throw NoKernel{"a mask of nothing"};
  if (value.kind == Value::Kind::pending && sizes_of(node) == sizes) return value.term;
  const std::optional<View> view = broadcast(view_of(node), sizes);
  if (!view) throw NoKernel{"sizes that do not fit"};
  return load_of(*view, value_of(node).dtype == Dtype::boolean);
}

FXX_INLINE TermPointer Lowering::bias_term(const Node& bias, const Sizes& sizes, std::size_t dim) {
  require_float(bias);
  const View& view = view_of(bias);
  if (view.sizes.size() != 1 || view.sizes[0] != sizes[dim]) throw NoKernel{"a bias of other sizes"};
  View wide{view.buffer, view.offset, sizes, Sizes(sizes.size(), 0)};
  wide.strides[dim] = view.strides[0];
  return load_of(std::move(wide));
}

// --- nodes -----------------------------------------------------------------------------------------------------------

FXX_INLINE void Lowering::placeholder(const Node& node) {
  const TensorMeta& meta = meta_of(node);
  const int buffer = add_buffer(Buffer::Kind::input, node, meta.dtype, meta.numel());
  plan_.buffers.back().number = static_cast<int>(plan_.inputs.size());
  const View view{buffer, 0, meta.shape, strides_in_memory(node)};
  plan_.inputs.push_back(view);
  set_view(node, view, meta.dtype);
}

FXX_INLINE void Lowering::attribute(const Node& node, const GetAttr& target) {
  if (owner_.find_module(target.target)) return;
  const AttributeInfo* info = owner_.find_attribute(target.target);
  const TensorMeta& meta = info ? info->meta : meta_of(node);
  const auto [known, fresh] = attributes_.try_emplace(target.target, static_cast<int>(plan_.attributes.size()));
  if (fresh) plan_.attributes.push_back(target.target);
  const int buffer = add_buffer(Buffer::Kind::constant, node, meta.dtype, meta.numel());
  plan_.buffers.back().number = known->second;
  // Whoever packs it sees it dense.
  set_view(node, {buffer, 0, meta.shape, dense_strides(meta.shape)}, meta.dtype);
}

/// Operators whose result depends on where in memory the elements are.
FXX_INLINE bool looks_at_memory(const Operator& op) {
  return op.base_name().starts_with("as_strided") || op.base_name().starts_with("view_as_") ||
         op.name == "aten::view.dtype";
}

FXX_INLINE void Lowering::call_back(const Node& node, const std::string& why) {
  // What writes to its inputs must find all readers before it served.
  const Operator* op = operator_of(node);
  if (!op || op->mutates)
    for (std::size_t i = 0; i < pending_.size(); ++i)
      if (value_of(*pending_[i]).kind == Value::Kind::pending) view_of(*pending_[i]);
  CallBack kernel;
  kernel.node = &node;
  kernel.why = why;
  for (const Node* input : node.all_input_nodes()) {
    Value& value = value_of(*input);
    if (value.kind == Value::Kind::tuple) {
      fail(node, "'" + std::string(input->name()) + "' is not a tensor");
    } else if (value.kind == Value::Kind::none) {
      if (input->opcode() != Opcode::get_attr)
        fail(node, "'" + std::string(input->name()) + "' is not a tensor, and needed to call back");
      kernel.inputs.push_back({});  // a module
    } else {
      View view = view_of(*input);
      if (op && looks_at_memory(*op)) {
        const Operator* maker = operator_of(*input);
        const Sizes strides = strides_in_memory(*input);
        if (op->base_name().starts_with("as_strided") && ((maker && maker->aliases) || meta_of(*input).stride != strides))
          fail(node, "reads the memory around '" + std::string(input->name()) + "', which is a part of another tensor");
        if (view.strides != strides) {
          const Dtype dtype = value_of(*input).dtype;
          const View dense{add_buffer(Buffer::Kind::arena, node, dtype, view.numel()), 0, view.sizes, strides};
          Value copy;
          copy.dtype = dtype;
          copy.term = load_of(view, dtype == Dtype::boolean);
          copy.nodes = {input};
          emit(std::move(copy), dense);
          view = dense;
        }
      }
      kernel.inputs.push_back(std::move(view));
    }
  }
  KernelStep step;
  step.nodes = {&node};
  const auto result = [&](const Node& of) {
    const TensorMeta& meta = meta_of(of);
    Value value;
    value.dtype = meta.dtype;
    View view = place(of, value);
    kernel.outputs.push_back(view);
    Value made;
    made.kind = Value::Kind::view;
    made.dtype = meta.dtype;
    made.view = std::move(view);
    return made;
  };
  if (node.tensor_meta()) {
    value_of(node) = result(node);
  } else {
    // Results are taken apart by getitem; those that nobody takes are dropped.
    Value tuple;
    tuple.kind = Value::Kind::tuple;
    for (const Node* user : node.users()) {
      const auto* item = std::get_if<CallFunction>(&user->op());
      const auto* target = item ? std::get_if<const Operator*>(&item->target) : nullptr;
      if (!target || (*target)->base_name() != "getitem" || user->args().size() != 2 ||
          user->arg(1).kind() != Argument::Kind::integer || user->arg(1).integer() < 0)
        fail(node, "'" + std::string(node.name()) + "' is not a tensor, and used as a whole");
      const auto i = static_cast<std::size_t>(user->arg(1).integer());
      if (tuple.items.size() <= i) tuple.items.resize(i + 1);
    }
    kernel.outputs.assign(tuple.items.size(), {});
    for (const Node* user : node.users()) {
      const auto i = static_cast<std::size_t>(user->arg(1).integer());
      if (tuple.items[i].kind != Value::Kind::none) continue;
      std::vector<View> before = std::move(kernel.outputs);
      kernel.outputs.clear();
      tuple.items[i] = result(*user);
      before[i] = kernel.outputs.back();
      kernel.outputs = std::move(before);
    }
    value_of(node) = std::move(tuple);
  }
  step.kernel = std::move(kernel);
  add_step(std::move(step));
}

FXX_INLINE void Lowering::call(const Node& node) {
  const Operator* op = operator_of(node);
  std::string why;
  try {
    if (node.opcode() == Opcode::call_module || !op) throw NoKernel{"not an operator"};
    if (op->base_name() == "getitem") return get_item(node);
    const auto known = handlers().find(op->name);
    if (known != handlers().end()) {
      (this->*known->second)(node, *op);
    } else if (!pointwise(node, *op)) {
      throw NoKernel{"no kernel"};
    }
    // Computed once, for all who read it.
    if (value_of(node).kind == Value::Kind::pending && node.num_users() > 1) view_of(node);
    return;
  } catch (const NoKernel& reason) {
    why = reason.why;
  }
  call_back(node, why);
}

FXX_INLINE void Lowering::output(const Node& node) {
  // plan_.outputs were laid out at the start; here they are filled.
  std::size_t next = 0;
  for_each_node(node.arg(0), [&](Node* result) {
    PlanOutput& output = plan_.outputs[next++];
    if (output.input >= 0 || output.attribute >= 0) return;
    const Value::Kind kind = value_of(*result).kind;
    if (kind != Value::Kind::view && kind != Value::Kind::pending)
      fail(node, "'" + std::string(result->name()) + "' is not one tensor");
    const View from = view_of(*result);
    if (plan_.outputs[next - 1].buffer >= 0) return;
    const TensorMeta& meta = meta_of(*result);
    const int buffer = add_buffer(Buffer::Kind::output, *result, meta.dtype, meta.numel());
    plan_.buffers.back().number = static_cast<int>(next - 1);
    PlanOutput& made = plan_.outputs[next - 1];
    made.buffer = buffer;
    made.view = {buffer, 0, meta.shape, strides_in_memory(*result)};
    Value copy;
    copy.dtype = meta.dtype;
    copy.term = load_of(from, meta.dtype == Dtype::boolean);
    copy.nodes = {result};
    emit(std::move(copy), made.view);
  });
}

FXX_INLINE KernelPlan Lowering::lower() {
  if (const Node* result = graph_.output_node()) {
    std::unordered_map<const Node*, int> inputs;
    int number = 0;
    for (const Node* node : graph_.nodes())
      if (node->opcode() == Opcode::placeholder) inputs[node] = number++;
    std::vector<const Node*> seen;
    for_each_node(result->arg(0), [&](Node* node) {
      PlanOutput output;
      if (const auto input = inputs.find(node); input != inputs.end()) output.input = input->second;
      // The first to ask gets the memory, the others a copy: marked by the node's number until it has some.
      else if (std::find(seen.begin(), seen.end(), node) == seen.end())
        output.view.buffer = -2 - static_cast<int>(node->index());
      seen.push_back(node);
      plan_.outputs.push_back(std::move(output));
    });
  }
  for (const Node* node : graph_.nodes()) {
    const Operator* op = operator_of(*node);
    writes_ = writes_ || (op ? op->mutates
                             : node->opcode() == Opcode::call_module || node->opcode() == Opcode::call_function ||
                                   node->opcode() == Opcode::call_method);
  }
  for (const Node* node : graph_.nodes())
    match(
        node->op(), [&](const Placeholder&) { placeholder(*node); },
        [&](const GetAttr& target) { attribute(*node, target); }, [&](const CallFunction&) { call(*node); },
        [&](const CallMethod&) { call(*node); }, [&](const CallModule&) { call(*node); },
        [&](const Output&) { output(*node); });
  return std::move(plan_);
}

}  // namespace fxx::inline FXX_ABI::plans
