// The class that lowers: what is known of each node's value, and the arguments of operators as handlers ask for them.
// Terms, memory and the families of operators stand beside this file.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "fxx/codegen/lower.hpp"
#include "fxx/codegen/lower/strides.ipp"
#include "fxx/codegen/quantised.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::plans {

/// What the kernel computed; for the class, which comes before terms.ipp.
const TermPointer& result_term();

struct ConvolutionCall;
struct Windows;
/// Elements that go to `to`, which has their sizes: its strides are 0 where indices tell the place. These are `count`
/// dimensions from `first` on.
struct ScatterTo {
  View to;
  std::vector<View> indices;
  std::vector<Term::Dimension> looked_up;
  std::size_t first = 0, count = 1;
};
/// What becomes of elements that meet.
struct ScatterReduction {
  Scatter::Kind kind = Scatter::Kind::replace;
  bool mean = false;
  bool with_self = true;  // what stands there already is one of them
};
/// What becomes of the results of a kernel of rows.
struct Affine {
  const Node* weight = nullptr;
  const Node* bias = nullptr;
};

/// Thrown by a handler: there is no kernel for this call, for this reason.
struct NoKernel {
  std::string why;
};

/// The most elements of a kernel's tensor. Kernels count elements by int, from the first in memory to the last, and look
/// as far ahead as a block is large: `i + block <= end` does not overflow below this.
inline constexpr std::int64_t most_elements = std::numeric_limits<int>::max() - (1 << 16);

FXX_INLINE bool is_countable(const Node& node) {
  const TensorMeta* meta = node.tensor_meta();
  if (!meta) return true;
  std::int64_t reach = meta->numel();
  for (std::size_t i = 0; reach > 0 && i < meta->stride.size() && i < meta->shape.size(); ++i)
    reach = i == 0 ? 1 + (meta->shape[0] - 1) * meta->stride[0] : reach + (meta->shape[i] - 1) * meta->stride[i];
  return std::max(reach, meta->numel()) <= most_elements;
}

/// Where LibTorch computes the elements of a node in vectors.
struct VectorsOfLibtorch {
  bool somewhere = false, everywhere = false;
  TermPointer where = nullptr;  // a mask, unless everywhere
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Owner& owner, const LowerOptions& options)
      : graph_(graph), owner_(owner), options_(options), values_(graph.index_bound()) {
    std::int64_t elements = 0;
    for (const Node* node : graph.nodes())
      if (node->opcode() == Opcode::get_attr && node->tensor_meta()) elements += node->tensor_meta()->numel();
    weights_stay_ = options.weights_stay.value_or(elements < 3 << 17);  // 1.5 MB
    if (graph.size() >= 1000) {
      const auto nodes = graph.nodes();
      many_ = std::ranges::count_if(nodes, [&](const Node* node) { return is_pointwise(*node); }) >= 1000;
    }
  }
  KernelPlan lower();

 private:
  /// A kernel that has not been placed yet: what comes behind it may still go into its loop.
  struct Root {
    Kernel kernel;
    Frame frame;
    double flops = 0;
    int number = 0;    // in order of creation
    Sizes order = {};  // dimensions of the result from the outermost in memory; empty: as they come
    std::string shape = {};
    Way way = {};
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
    int steps = -1;  // that have run when the view holds it; negative: not known
    // pending: computed when somebody reads it
    std::shared_ptr<const Root> root = {};
    TermPointer term = {};
    std::vector<const Node*> nodes = {};
    // tuple
    std::vector<Value> items = {};
  };
  using Handler = void (Lowering::*)(const Node&, const Operator&);
  static const std::unordered_map<std::string_view, Handler>& handlers();

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
  const Buffer& buffer_of(int number) const { return plan_.buffers[static_cast<std::size_t>(number)]; }
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
  void require_countable(const Node& node) const;
  void require_float(const Node& node) const {
    if (meta_of(node).dtype != Dtype::float32) throw NoKernel{std::string(name_of(meta_of(node).dtype))};
  }
  /// float32, integers or bool: what vectors hold.
  void require_elements(const Node& node) const;
  void set_view(const Node& node, View view, Dtype dtype) {
    Value& value = value_of(node);
    value.kind = Value::Kind::view;
    value.dtype = dtype;
    value.view = std::move(view);
    value.steps = steps();
  }
  /// How many steps there are.
  int steps() const { return static_cast<int>(plan_.steps.size()); }
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
  /// `shape`: what it is called in LowerOptions::ways, if that does not follow from the kernel.
  void set_root(const Node& node, Kernel kernel, Frame frame, double flops, Sizes order = {},
                TermPointer term = result_term(), std::vector<const Node*> nodes = {}, std::string shape = {}) {
    auto root = std::make_shared<Root>();
    root->shape = shape.empty() ? shape_of(kernel) : std::move(shape);
    root->way = way_of(root->shape);
    root->kernel = std::move(kernel);
    root->frame = std::move(frame);
    root->flops = flops;
    root->number = roots_++;
    root->order = std::move(order);
    set_pending(node, std::move(root), std::move(term), std::move(nodes));
  }
  // --- lower.ipp -----------------------------------------------------------------------------------------------------
  void placeholder(const Node& node);
  void attribute(const Node& node, const GetAttr& target);
  void call(const Node& node);
  /// Those that do not read it in a region: who make kernels.
  std::vector<const Node*> users_of(const Node& node) const {
    std::vector<const Node*> users;
    for (const Node* user : node.users())
      if (!regions_.contains(user)) users.push_back(user);
    return users;
  }
  /// For all who read it, if there are several and no expression has them all.
  void compute_once(const Node& node) {
    if (value_of(node).kind != Value::Kind::pending || node.num_users() < 2 || bytes_.contains(&node)) return;
    if (read_within_expression(node)) return;
    if (only_reduced(node)) reduced_image(node);
    else view_of(node);
  }
  void output(const Node& node);
  // --- called_back.ipp -----------------------------------------------------------------------------------------------
  /// The node and, where it gives several values, those who take them apart.
  std::vector<const Node*> with_items(const Node& node) const;
  void interpret(const Region& region);
  /// `kernel`: its nodes and reasons.
  void call_back(CallBack kernel);
  /// What an as_strided of the kernel reads is more than its operand: the views between that and the value whose memory
  /// it is become nodes of the kernel. Gives these values.
  std::vector<const Node*> add_views(CallBack& kernel) const;
  /// What the kernel reads of others; nothing when it is a module. `in_memory`: with the strides that it has in the
  /// graph; `with_all_around`: those must say all of its memory.
  std::optional<CallBack::Value> given(const Node& input, bool in_memory, bool with_all_around);
  /// Of attributes that the kernel may write to and somebody reads behind it, what they hold then is copied, and read.
  void renew_attributes(CallBack& kernel);
  void note_last_readers();
  void note_values();
  // --- ways.ipp ------------------------------------------------------------------------------------------------------
  /// What it is called in LowerOptions::ways; empty where there is one way.
  std::string shape_of(const Kernel& kernel) const;
  const Way& way_of(const std::string& shape) const;
  bool is_left_to_library(const Kernel& kernel) const {
    return !options_.ways.empty() && way_of(shape_of(kernel)).method == Way::Method::library;
  }
  void require_no_library(const Kernel& kernel) const;
  // --- terms.ipp -----------------------------------------------------------------------------------------------------
  /// The value as a term of something of these sizes, with the elements of its dtype; it is computed now if its own
  /// sizes are others.
  TermPointer term_of(const Node& node, const Sizes& sizes);
  /// What takes part in one expression: all pending values whose kernel is not the last one are computed.
  struct Joined {
    std::shared_ptr<const Root> root;
    std::vector<const Node*> nodes;
  };
  Joined join(std::initializer_list<const Node*> operands, const Sizes& sizes);
  /// For a loop of its own, which no kernel can be the root of: the nodes that are computed in it.
  std::vector<const Node*> join_without_root(const Node& operand);
  TermPointer bias_term(const Node& bias, const Sizes& sizes, std::size_t dim);
  // --- memory.ipp ----------------------------------------------------------------------------------------------------
  int add_buffer(Buffer::Kind kind, const Node& node, Dtype dtype, std::int64_t elements);
  /// An attribute, for a node that reads it.
  int add_constant(const Node& node, const std::string& name, Dtype dtype, std::int64_t elements);
  /// Memory of its own for a tensor of the node's dtype.
  View add_dense(const Node& node, const Sizes& sizes);
  /// Memory for a value of the node, as those who read it want it.
  View place(const Node& node, const Value& value);
  bool is_written(const Node& node) const;
  /// Memory that lies as LibTorch's, with what the node has in other memory of its own, where that is written to.
  void lie_as_written(const Node& node);
  /// Of a tensor that the caller has or gets: LibTorch's where they leave no gap, else dense ones.
  Sizes strides_in_memory(const Node& node) const;
  /// The place of a value within what it is put beside others in, so that nothing needs to be copied then; nothing when
  /// it must lie elsewhere.
  std::optional<View> place_in_whole(const Node& node, bool image);
  struct Whole {
    View view;
    bool image = false;
  };
  /// Memory for the result of a cat or stack.
  const Whole& whole_of(const Node& node, bool image);
  bool lies_channels_last(const View& view) const;
  /// An image, or a sequence, with this border.
  View place_image(const Node& node, const Sizes& of, const Buffer::Border& border, Dtype dtype = Dtype::float32);
  /// Where the value lies; it is computed now if it was not.
  const View& view_of(const Node& node);
  void emit(Value value, View to);
  void add_step(KernelStep step);
  // --- views.ipp -----------------------------------------------------------------------------------------------------
  void same(const Node& node, const Operator& op);
  void convert(const Node& node, const Node& input);
  void reshape(const Node& node, const Operator& op);
  void permute(const Node& node, const Operator& op);
  void transpose(const Node& node, const Operator& op);
  void diagonal(const Node& node, const Operator& op);
  void unfold(const Node& node, const Operator& op);
  void expand(const Node& node, const Operator& op);
  void slice(const Node& node, const Operator& op);
  void narrow(const Node& node, const Operator& op);
  void select(const Node& node, const Operator& op);
  void split(const Node& node, const Operator& op);
  void unbind(const Node& node, const Operator& op);
  void concatenate(const Node& node, const Operator& op);
  void get_item(const Node& node);
  void scatter_slice(const Node& node, const Operator& op);
  void repeat(const Node& node, const Operator& op);
  void pad(const Node& node, const Operator& op);
  void pad_around(const Node& node, const Operator& op);
  void pad_with_own(const Node& node, const Node& input, const Sizes& amounts, std::string_view mode);
  void roll(const Node& node, const Operator& op);
  void flip(const Node& node, const Operator& op);
  void write(const Node& node, TermPointer term, View to);
  void copy_to(const Node& node, const View& from, View to);
  void set_copy(const Node& node, const View& view);
  // --- patches.ipp ---------------------------------------------------------------------------------------------------
  View place_of_copy(const Node& node, const View& from);
  void shuffle_pixels(const Node& node, const Operator& op);
  static Windows windows_of(const Node& node, const Operator& op, std::int64_t height, std::int64_t width);
  std::pair<View, View> padded(const Node& node, const Sizes& sizes, const Sizes& padding);
  void im2col(const Node& node, const Operator& op);
  void col2im(const Node& node, const Operator& op);
  // --- pointwise.ipp -------------------------------------------------------------------------------------------------
  bool pointwise(const Node& node, const Operator& op);
  /// With the operands, `at_once` elements at a time; the rest of them, and what does not lie in one piece, one by one.
  VectorsOfLibtorch vectors_of_libtorch(const Node& node, std::initializer_list<const Node*> operands, std::int64_t at_once) const;
  /// What LibTorch's vectors make of a function where it overflows.
  TermPointer as_in_vectors(const Node& node, const std::vector<const Node*>& operands, TermPointer result) const;
  kernels::Function gelu_of(const Node& node, const Argument& input) const;
  bool is_pointwise(const Node& node) const;
  bool read_within_expression(const Node& node);
  void masked_fill(const Node& node, const Operator& op);
  void constant(const Node& node, const Operator& op);
  void fill(const Node& node, const Operator& op);
  void logic(const Node& node, const Operator& op);
  void divide(const Node& node, const Operator& op);
  void triangle(const Node& node, const Operator& op);
  void elu(const Node& node, const Operator& op);
  // --- composed.ipp --------------------------------------------------------------------------------------------------
  bool composed(const Node& node, const Operator& op);
  // --- quantised.ipp -------------------------------------------------------------------------------------------------
  void fake_quantize(const Node& node, const Operator& op);
  /// Can the node be a linear layer or convolution of bytes, and is that faster than one of floats?
  enum class Bytes : std::uint8_t { impossible, possible, faster };
  Bytes bytes_for(const Node& node) const;
  /// Is it computed with bytes? Where they are there, all read them who can.
  bool takes_bytes(const Node& node) const;
  /// Computes the bytes of what a fake_quantize makes if a layer takes them; who reads floats reads those then.
  bool quantise(const Node& value, const FakeQuantize& given);
  Quantised quantised_layer(const Node& node, const Node& input, std::int64_t columns);
  // --- lookups.ipp ---------------------------------------------------------------------------------------------------
  void set_lookup(const Node& node, View table, std::vector<View> indices, std::vector<Term::Dimension> looked_up);
  const View& index_view(const Node& index);
  void embedding(const Node& node, const Operator& op);
  void select_places(const Node& node, const Operator& op);
  void index(const Node& node, const Operator& op);
  void embedding_bag(const Node& node, const Operator& op);
  void one_hot(const Node& node, const Operator& op);
  // --- scatter.ipp ---------------------------------------------------------------------------------------------------
  View own_copy(const Node& node, const Node& self);
  static bool only_once(const Node& node, const Node& input);
  void scatter_term(const Node& node, const ScatterTo& where, Scatter::Kind kind, TermPointer value,
                    std::vector<const Node*> nodes);
  ScatterTo places_along(const View& to, std::size_t dim, const View& index, const Sizes& sizes, bool whole,
                         bool from_end) const;
  static ScatterReduction scatter_reduction_of(const Node& node, const Operator& op);
  void scatter_reduced(const Node& node, const ScatterTo& where, const View& whole, const ScatterReduction& how,
                       TermPointer value, std::vector<const Node*> nodes);
  void scatter(const Node& node, const Operator& op);
  void index_put(const Node& node, const Operator& op);
  // --- products.ipp --------------------------------------------------------------------------------------------------
  /// Do weights of fewer bits pay? With few rows the time is that of reading them, fewer where they are near; with many it
  /// is that of the products, which the processor may have as fast ones of that kind.
  bool fewer_bits_pay(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool fast_products) const {
    return columns >= 16 && depth >= 32 && (fast_products || rows < (weights_stay_ ? 4 : 16));
  }
  void choose_weights(MatrixProduct& kernel, const Way& way) const;
  View matrix_rows(const Node& node, std::int64_t& stride, const Sizes& sizes);
  void linear(const Node& node, const Operator& op);
  void addmm(const Node& node, const Operator& op);
  void matmul(const Node& node, const Operator& op);
  // --- images.ipp ----------------------------------------------------------------------------------------------------
  /// What is computed of the call that a node makes, when there is a kernel for it.
  std::optional<ConvolutionCall> call_of_convolution(const Node& node) const;
  double flops_per_byte() const { return weights_stay_ ? 0 : options_.processor.flops_per_byte; }
  /// All but its method, and what it reads.
  Convolution convolution_of(const Node& node, const ConvolutionCall& call) const;
  /// Are tiles of 4 not accurate enough for it?
  bool is_alone(const Node& convolution) const;
  Convolution::Method method_of(const Node& node, const ConvolutionCall& call) const;
  bool is_read_as_image(const Node& node, int depth) const;
  /// Is it zeros around an image, which can be its input with its border?
  bool becomes_border(const Node& pad) const;
  void pad_by_border(const Node& node);
  /// Around an image, by all convolutions that read it as such elements.
  Buffer::Border border_wanted(const Node& node, Dtype as = Dtype::float32) const;
  /// Is it left to LibTorch?
  /// Whether the weights are an attribute with nan or infinities.
  bool is_endless(const Node& weight) const;
  bool calls_library(const Node& node, const ConvolutionCall& call) const;
  /// In fast mode, were it computed directly?
  bool could_be_reduced(const ConvolutionCall& call) const;
  /// Floats, bfloat16 or bytes: what the convolution reads its image as.
  Dtype read_as(const Node& convolution) const;
  /// Do only convolutions of bfloat16 read the image?
  bool only_reduced(const Node& node) const;
  /// The image as bfloat16, with the border that is wanted.
  View reduced_image(const Node& node);
  /// A sequence as an image of one row, which has the distance of the rows that there would be.
  View as_image(const View& of) const;
  View image_of(const Node& node, const Buffer::Border& border);
  View image_weights(const Node& node);
  bool is_only_given(const Node& node, int depth) const;
  bool filter_where_it_lies(const Node& node, const ConvolutionCall& call);
  bool convolution_where_it_lies(const Node& node, const ConvolutionCall& call);
  void convolution(const Node& node, const Operator& op);
  void pool(const Node& node, const Operator& op);
  void adaptive_pool(const Node& node, const Operator& op);
  void adaptive_max_pool(const Node& node, const Operator& op);
  void pool_to_size(const Node& node, const Node& input, Pooling::Kind kind);
  bool convolve_slice(const Node& node, const Node& input, std::size_t dim, std::int64_t start);
  void transposed_convolution(const Node& node, const Operator& op);
  void resize(const Node& node, const Operator& op);
  void batch_norm(const Node& node, const Operator& op);
  void group_norm(const Node& node, const Operator& op);
  bool mean_of_image(const Node& node, const Node& input, const Sizes& dims);
  // --- join_rows.ipp -------------------------------------------------------------------------------------------------
  void join_rows();
  // --- rows.ipp ------------------------------------------------------------------------------------------------------
  /// `kernel`: its kind and its numbers.
  void row_function(const Node& node, const Node& input, const Sizes& dims, Rows kernel, const Affine& affine = {});
  bool keep_extremes(const Node& node, const Node& input, const Sizes& dims, Rows::Kind kind);
  Sizes reduced_dims(const Node& node, const Operator& op, const Node& input) const;
  void require_no_conversion(const Node& node, const Operator& op, const Node& input) const;
  void softmax(const Node& node, const Operator& op);
  void layer_norm(const Node& node, const Operator& op);
  void reduce(const Node& node, const Operator& op);
  void norm(const Node& node, const Operator& op);
  void running(const Node& node, const Operator& op);
  using ItemHandler = std::function<void(const Node&)>;
  /// Several results, each computed where it is taken: `results` gets the nodes that take them.
  void with_results(const Node& node, std::initializer_list<ItemHandler> results);
  void extremes(const Node& node, const Operator& op);
  void variance(const Node& node, const Operator& op);
  // --- sorting.ipp ---------------------------------------------------------------------------------------------------
  View rows_along(const Node& node, const Node& input, std::size_t dim);
  void sort(const Node& node, const Operator& op);
  void search(const Node& node, const Operator& op);
  void is_in(const Node& node, const Operator& op);
  // --- attention.ipp -------------------------------------------------------------------------------------------------
  void attention(const Node& node, const Operator& op);
  // --- recurrent.ipp -------------------------------------------------------------------------------------------------
  void recurrent(const Node& node, const Operator& op);

  const Graph& graph_;
  const Owner& owner_;
  LowerOptions options_;
  bool weights_stay_ = false;  // all together are so few that a core's own caches keep them from call to call
  bool many_ = false;          // thousands of functions of elements, of which few loops are to be made
  KernelPlan plan_;
  std::vector<Value> values_;
  std::vector<const Node*> pending_;  // some of them are placed by now
  std::unordered_map<std::string, int> attributes_;
  /// Buffers with what attributes that are written to hold now, and those of the attributes.
  std::map<int, int> renewed_;
  mutable std::unordered_map<const Node*, bool> alone_;     // what was found of convolutions
  std::unordered_map<const Node*, View> images_;            // copies with the border that a convolution wants
  std::unordered_map<const Node*, View> bytes_;             // of what fake_quantize makes, where layers take them
  std::unordered_map<const Node*, View> reduced_;           // images of bfloat16
  std::unordered_map<const Node*, Whole> wholes_;           // results of cat and stack that have memory
  std::unordered_map<const Node*, const Region*> regions_;  // of each node in one, at the first of them; else null
  std::unordered_set<const Node*> items_;                   // that were taken where what they are items of was called
  std::unordered_map<const Node*, int> kept_;               // values of regions that have no memory
  std::unordered_set<const Node*> own_;                     // have memory that nobody else has, and may be written to
  int roots_ = 0;
  bool writes_ = false;  // some node writes to its inputs, so copies must be copies
  std::vector<Memory> written_;
};

}  // namespace fxx::inline FXX_ABI::plans
