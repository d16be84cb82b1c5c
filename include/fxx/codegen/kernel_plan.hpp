// What a specialised module does: kernels in order, each with the memory that it reads and writes.
//
// Lowering (codegen/lower.hpp) makes a plan of a graph whose sizes are known; codegen/specialised_source.hpp writes it
// as C++. A tensor is a View of a Buffer, whatever its layout. What is computed element by element is a Term, a tree
// that stands in the loop of the kernel that makes the elements: bias, activation and what is added need no pass of
// their own.
// Main names: KernelPlan, KernelStep, Kernel (variant), Buffer, View, Term. Cost: light.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "fxx/codegen/way.hpp"
#include "fxx/ir/node.hpp"
#include "fxx/kernels/expression.hpp"
#include "fxx/meta/boxed.hpp"
#include "fxx/meta/match.hpp"

namespace fxx::inline FXX_ABI {

namespace plans {

using Sizes = std::vector<std::int64_t>;
/// Strides of a tensor whose elements lie behind each other.
Sizes dense_strides(const Sizes& sizes);

/// Memory with a name.
struct Buffer {
  enum class Kind : std::uint8_t {
    input,     // the caller's
    constant,  // a parameter or buffer of the module; kernels read a packed copy
    arena,     // between kernels
    output,    // the caller gets it
  };
  Kind kind = Kind::arena;
  std::string name;  // of the node that it was made for
  Dtype dtype = Dtype::float32;
  std::int64_t elements = 0;
  int number = -1;            // among those of its kind: inputs, attributes, outputs
  int first = -1, last = -1;  // steps that write and read it
  std::int64_t offset = -1;   // bytes, in the arena
  /// Rows and pixels around an image that must be zero, or what stands for it: what convolutions read as padding.
  struct Border {
    std::int64_t top = 0, left = 0, bottom = 0, right = 0;
    bool operator==(const Border&) const = default;
    bool empty() const { return top == 0 && left == 0 && bottom == 0 && right == 0; }
    /// What contains both.
    Border around(const Border& other) const;
    /// This, and the other around it.
    Border outside(const Border& other) const;
  } border = {};
  int zero = 0;  // what stands for it, of images of bytes
  /// What is in it, with the border: images, rows, pixels, channels; empty for what is no image.
  Sizes image = {};
  std::int64_t bytes() const { return elements * element_size(dtype); }
};

/// A tensor in a buffer. Strides in elements; 0 where one element stands for all.
struct View {
  int buffer = -1;
  std::int64_t offset = 0;
  Sizes sizes, strides;
  bool operator==(const View&) const = default;
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t size : sizes) n *= size;
    return n;
  }
};

/// What the vectors of a kernel hold, lane by lane.
enum class Elements : std::uint8_t {
  real,     // float32
  mask,     // true or false
  integer,  // int64
};
struct Term;
using TermPointer = std::shared_ptr<const Term>;
/// A pointwise expression over the elements at one place.
struct Term {
  enum class Kind : std::uint8_t {
    result,  // what the kernel computed
    load,    // the element of a view; logical sizes are those of the step, broadcast by strides of 0
    number,
    call,      // of a function
    convert,   // of the operand's elements to these; of floats by way of 32 bits, where `narrow` says so
    position,  // where the element stands: the view's offset, were it read, which no memory belongs to; an integer
    lookup,    // an element of a table, whose place operands tell in some of its dimensions: `looked_up`
    search,    // the place of the operand in a row that is in order: `looked_up`, and where the row begins: the view
  };
  Kind kind = Kind::result;
  Elements elements = Elements::real;  // of a load: what it is read as, whatever lies in memory
  kernels::Function function = kernels::Function::add;
  double number = 0;         // where elements are real
  std::int64_t integer = 0;  // a number where elements are integers
  bool narrow = false;
  View view = {};            // of a lookup as well: with stride 0 where the element has no part in the place
  std::vector<TermPointer> operands = {};
  /// A dimension of a table, one for each operand; these are loads of integers.
  struct Dimension {
    std::int64_t size = 1, stride = 1;
    bool from_end = false;  // negative numbers count from the end; of a search: behind all that are equal
    bool operator==(const Dimension&) const = default;
  };
  std::vector<Dimension> looked_up = {};
};

/// How the elements of a step are counted. The last axis is that of vectors.
struct Frame {
  struct Axis {
    std::string name;  // of the variable in the generated code
    std::int64_t extent = 1;
  };
  /// The index of a logical dimension is (axis / divisor) % size.
  struct Place {
    int axis = 0;
    std::int64_t divisor = 1;
  };
  std::vector<Axis> axes;
  std::vector<Place> dims;
  Sizes sizes;  // of the logical dimensions
};

/// A matrix of weights, in a constant or computed.
struct Weights {
  View view;             // [columns, depth], with any strides
  bool constant = true;  // packed once; else at every run
  bool reduced = false;  // packed as bfloat16
  kernels::Distance distance = kernels::Distance::far;  // near: from the last call, or since they were packed
};

/// Of products of bytes and 8-bit integers, exact, until the sums become floats.
struct Quantised {
  double scale = 0;  // of the input: a byte stands for (byte - zero) scale; 0: they are floats
  std::int64_t zero = 0;
  View scales;  // of the weights: [columns], of a convolution [out channels]
  explicit operator bool() const { return scale != 0; }
};

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Elements of inputs alone, element by element.
struct Pointwise {};
/// out[row][column] = sum of a[row][k] w[column][k], for each of `batch` pairs of matrices.
struct MatrixProduct {
  std::int64_t batch = 1, rows = 1, columns = 1, depth = 1;
  View a;  // [batch..., rows, depth]; rows at one stride, depth at stride 1
  std::int64_t a_row = 0;
  Weights weights;                         // computed ones have the batch in front
  Quantised quantised = {};                // else `a` is bytes, the weights are integers times scales
  bool reduced_rows = false;               // `a` becomes bfloat16 too, before it is multiplied
  Sizes a_batch = {}, weights_batch = {};  // offsets of the matrices, when there is more than one

  /// How a matrix is multiplied with that is made while running: packed before, or where it lies.
  enum class Reading : std::uint8_t { packed, by_rows, by_columns };
  Reading reading = Reading::packed;
};
/// Channels last; the input's border is its padding.
struct Convolution {
  enum class Method : std::uint8_t {
    direct,
    winograd_2,
    winograd_4,
    depthwise,
    depthwise_sequences,  // whose times lie behind each other
    pixelwise,
    transposed
  };
  Method method = Method::direct;
  /// Has every channel a kernel of its own, however they lie?
  bool is_depthwise() const { return method == Method::depthwise || method == Method::depthwise_sequences; }
  std::int64_t images = 1, channels = 1, out_channels = 1, groups = 1;  // channels of all groups
  std::int64_t out_height = 1, out_width = 1, kernel_height = 1, kernel_width = 1;
  std::int64_t stride_height = 1, stride_width = 1, dilation_height = 1, dilation_width = 1;
  // Transposed: what is cut off; of made rows and sequences: what is before them.
  std::int64_t padding_height = 0, padding_width = 0;
  View in;                   // at its first pixel, padding included: [images, channels, height, width]
  View weights;              // [out channels, channels of a group, r, s]
  Quantised quantised = {};  // else `in` is bytes, and what is around it; the weights are integers times scales
  bool reduced = false;      // `in` and the weights are bfloat16
  bool alone = false;        // nearly, so that tiles of 4 are not accurate enough (lower/standing.ipp)
};
/// A depthwise convolution with the pixelwise products before and behind it, of which either may be missing: each row goes
/// through all of them before the next. Instead of a product there may be what is computed element by element.
/// What it has besides the filter is elsewhere: a step of a plan has room for the largest kernel there is, and hundreds
/// of steps are none of these.
struct DepthwiseBlock {
  Convolution filter;  // of made rows when there is `expanded`: its `in` has no buffer, but sizes and strides
  Boxed<MatrixProduct> expand, project;
  TermPointer expanded, filtered;  // what a sum becomes, without `expand` what is loaded; null where there is neither
  Boxed<Frame> expanded_frame, filtered_frame;  // missing where those are null
};
struct Pooling {
  enum class Kind : std::uint8_t { largest, mean, mean_of_valid };
  Kind kind = Kind::largest;
  std::int64_t images = 1, channels = 1, in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  std::int64_t kernel_height = 1, kernel_width = 1, stride_height = 1, stride_width = 1;
  std::int64_t padding_height = 0, padding_width = 0, dilation_height = 1, dilation_width = 1;
  bool adaptive = false;     // windows of several sizes, as many as there are outputs
  std::int64_t divisor = 0;  // of sums; 0: the elements
  View in;
};
/// Something of each row, or a row of each row.
struct Rows {
  enum class Kind : std::uint8_t {
    softmax,
    log_softmax,
    layer_norm,
    rms_norm,
    running_sum,
    running_product,
    sum,  // from here on reductions
    mean,
    largest,
    smallest,
    norm,
    product,
    any,  // a mask: is one not zero?
    all,
    arg_largest,  // an integer: where it stands in its row
    arg_smallest,
    variance,
    deviation,  // its root
    log_sum_exp,
  };
  Kind kind = Kind::softmax;
  std::int64_t rows = 1, length = 1;
  /// Not 0: of so many columns that lie behind each other, and whose rows are summed; a reduction. `rows` counts groups
  /// of them then.
  std::int64_t columns = 0;
  double eps = 0;
  double correction = 0;  // of these two: what its divisor is less than the length
  double p = 2;           // of the norm
  TermPointer input = {};
  Frame read = {};  // how the input's elements are counted; the step's own frame is that of the results
  bool reduces() const { return kind >= Kind::sum; }
  bool is_spread() const { return kind == Kind::variance || kind == Kind::deviation; }
};
/// softmax(scale q k^T + mask) v, for each head.
struct Attention {
  std::int64_t heads = 1, queries = 1, keys = 1, size = 1, value_size = 1;
  double scale = 1;
  bool causal = false;
  bool reduced = false;             // products of bfloat16
  bool softmax = false;             // a query that sees nothing gets nan; else zeros
  bool mask_replaces = false;       // where it is not 0 the mask stands in place of the score
  std::int64_t flash = 0;           // lanes of LibTorch's kernel for it; 0: LibTorch has none, but operators
  View q, k, v;                     // [heads, length, size], the heads at any offsets
  Sizes q_heads, k_heads, v_heads;  // offset of each head
  TermPointer mask;                 // over [heads, queries, keys]; null: none
  Frame mask_frame;
};
/// A layer of cells over some sequences, in one direction or both.
struct Recurrent {
  enum class Kind : std::uint8_t { lstm, gru };
  struct Direction {
    bool backward = false;
    View input_weights, state_weights;  // [gates * size, in_size], [gates * size, size]
    View input_bias, state_bias;        // [gates * size]; no buffer: none
    View h, c, h_out, c_out;            // [batch, size]; those behind lie behind each other
  };
  Kind kind = Kind::lstm;
  std::int64_t steps = 1, batch = 1, size = 1, in_size = 1;
  View in;  // [steps * batch, in_size], elements behind each other
  std::vector<Direction> directions;
};
/// Of the channels of an image that are one group, channels last.
struct GroupNorm {
  std::int64_t images = 1, pixels = 1, channels = 1, groups = 1;
  double eps = 0;
  TermPointer input;
  Frame read;
};
/// Images of another size, channels last.
struct Resize {
  enum class Kind : std::uint8_t { nearest, bilinear };
  Kind kind = Kind::nearest;
  std::int64_t images = 1, channels = 1, in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  bool align_corners = false, exact = false;
  double scale_height = 0, scale_width = 0;  // 0: that of the sizes
  View in;
};
/// What the step stores goes to places that tensors tell: `to` has strides of 0 where they do. The frame counts groups,
/// rows and columns; where there is one column, groups and rows. Only elements of different rows can meet.
struct Scatter {
  enum class Kind : std::uint8_t { replace, add, multiply, largest, smallest };
  Kind kind = Kind::replace;
  std::vector<TermPointer> indices;  // loads of integers
  std::vector<Term::Dimension> looked_up;
};
/// Rows of a table, combined in bags.
struct Bags {
  enum class Kind : std::uint8_t { sum, mean, largest };
  Kind kind = Kind::sum;
  std::int64_t bags = 1, columns = 1, count = 0;  // of all indices
  View table, indices, offsets;
  View weights;                // of each index; no buffer: none
  std::int64_t left_out = -1;  // a row that is as if it were not in any bag
  bool last_offset = false;    // offsets end with the end of the last bag
};
/// The elements of rows in order, or the first of them, and the places where they stood.
struct Sort {
  std::int64_t rows = 1, length = 1, count = 1;
  bool descending = false;
  bool by_best = false;  // the others are not sorted
  View in;               // [rows, length]
  View values, places;   // [rows..., count], one row behind the other; no buffer: nobody wants them
};
/// What no kernel covers: the program that loaded the library runs it. One operator, with the getitems that take its
/// results apart, or a region (passes/regions.hpp).
struct CallBack {
  /// What passes between it and the rest: a tensor in memory; or, where sizes are not known or it is none, what the
  /// program keeps for the time of a call.
  struct Value {
    const Node* node = nullptr;
    View view = {};
    int kept = -1;      // its number then
    bool last = false;  // nobody reads what is kept after this
  };
  std::vector<const Node*> nodes;  // in the order in which they run
  std::vector<Value> inputs;       // what they read of others, each once; modules are found by name
  std::vector<Value> outputs;      // what others read of them
  /// Attributes that it writes to and that kernels read later, and where to: kernels see attributes as they were packed.
  std::vector<std::pair<View, View>> renewed = {};
  std::string why;
  std::vector<std::string> reasons = {};  // of a region, for each node
  bool is_region() const { return !reasons.empty(); }
};

using Kernel = std::variant<Pointwise, MatrixProduct, Convolution, DepthwiseBlock, Pooling, Rows, GroupNorm, Attention,
                            Recurrent, Resize, Scatter, Bags, Sort, CallBack>;

struct Store {
  View to;
  TermPointer value;
  /// Not all: of the elements that meet where `to` has strides of 0, and of what lies there before, this one stays.
  enum class Kept : std::uint8_t { all, largest, smallest } kept = Kept::all;
};

/// Calls `of_view` with each view that the kernel reads, or writes beside what its step stores, and `of_term` with each
/// term; some have no buffer, or are null.
template <class AnyKernel, class OfView, class OfTerm>
void for_each_operand(AnyKernel& kernel, const OfView& of_view, const OfTerm& of_term) {
  match(kernel, [&](auto& k) {
    using K = std::remove_cvref_t<decltype(k)>;
    if constexpr (std::is_same_v<K, MatrixProduct>) {
      of_view(k.a), of_view(k.weights.view), of_view(k.quantised.scales);
    } else if constexpr (std::is_same_v<K, Convolution>) {
      of_view(k.in), of_view(k.weights), of_view(k.quantised.scales);
    } else if constexpr (std::is_same_v<K, DepthwiseBlock>) {
      of_view(k.filter.in), of_view(k.filter.weights), of_term(k.expanded), of_term(k.filtered);
      if (k.expand) of_view(k.expand->a), of_view(k.expand->weights.view);
      if (k.project) of_view(k.project->weights.view);
    } else if constexpr (std::is_same_v<K, Pooling> || std::is_same_v<K, Resize>) {
      of_view(k.in);
    } else if constexpr (std::is_same_v<K, Rows> || std::is_same_v<K, GroupNorm>) {
      of_term(k.input);
    } else if constexpr (std::is_same_v<K, Attention>) {
      of_view(k.q), of_view(k.k), of_view(k.v), of_term(k.mask);
    } else if constexpr (std::is_same_v<K, Recurrent>) {
      of_view(k.in);
      for (auto& d : k.directions)
        for (auto* view :
             {&d.input_weights, &d.state_weights, &d.input_bias, &d.state_bias, &d.h, &d.c, &d.h_out, &d.c_out})
          of_view(*view);
    } else if constexpr (std::is_same_v<K, Scatter>) {
      for (auto& index : k.indices) of_term(index);
    } else if constexpr (std::is_same_v<K, Bags>) {
      of_view(k.table), of_view(k.indices), of_view(k.offsets), of_view(k.weights);
    } else if constexpr (std::is_same_v<K, Sort>) {
      of_view(k.in), of_view(k.values), of_view(k.places);
    } else if constexpr (std::is_same_v<K, CallBack>) {
      for (auto& value : k.inputs) of_view(value.view);
      for (auto& value : k.outputs) of_view(value.view);
      for (auto& [from, to] : k.renewed) of_view(from), of_view(to);
    } else {
      static_assert(std::is_same_v<K, Pointwise>, "for_each_operand: a kernel whose operands are not listed");
    }
  });
}

}  // namespace plans

struct KernelStep {
  plans::Kernel kernel;
  plans::Frame frame;
  std::vector<plans::Store> stores;
  std::vector<const Node*> nodes;  // what it computes, in the order of the graph
  double flops = 0, bytes = 0;
  double expected = -1;               // seconds with one thread, estimated; negative: not known
  std::string shape;                  // where there are several ways; else empty
  plans::Way way;                     // what was found for the shape
  std::vector<const Node*> joinable;  // what else another way would compute in one step with it
  std::string name() const;           // of its last node
};

/// Does it keep one of the elements that meet?
inline bool keeps_extremes(const KernelStep& step) {
  for (const plans::Store& store : step.stores)
    if (store.kept != plans::Store::Kept::all) return true;
  return false;
}

/// What becomes of a value that the graph returns.
struct PlanOutput {
  int buffer = -1;  // an output, or
  int input = -1;   // this input itself, or
  int kept = -1;    // what a region gave
  plans::View view = {};
};

/// Where the plan stores a value of the graph; verification compares it there.
struct PlanValue {
  const Node* node = nullptr;
  plans::View view = {};
  int steps = 0;     // that have run when it is there, and before the next one may write to the same memory
  double scale = 0;  // not 0: the memory holds bytes, and a byte stands for (byte - zero) scale
  std::int64_t zero = 0;
};

struct KernelPlan {
  std::vector<plans::Buffer> buffers;
  std::vector<KernelStep> steps;
  std::vector<plans::View> inputs;      // by placeholder
  std::vector<std::string> attributes;  // by number of a constant
  std::vector<PlanOutput> outputs;      // the tensors of the result, in order, and what regions give to it
  std::vector<PlanValue> values;        // of nodes that have memory; only until the module is verified
  int kept = 0;                         // values that the program keeps for the time of a call
  std::int64_t arena_bytes = 0;
  std::int64_t live_bytes = 0;  // the most that is alive in any step: no arena can be smaller
  bool weights_stay = false;    // are they so few that a core's own caches keep them from call to call?
  bool guarded = false;         // whether buffers and packed constants have gaps between them, which a sanitizer watches.

  /// A table, a line a step: kernel, how it is computed where that was tuned, shapes, MFLOP, kB, microseconds that are
  /// expected; `seconds`, when given, are those measured, a number a step. Slow steps are marked, and named at the end.
  std::string to_string(const std::vector<double>& seconds = {}) const;
  /// The table, to standard output.
  void print(const std::vector<double>& seconds = {}) const;
  /// A step that took at least three times what was expected, and two microseconds more.
  struct SlowStep {
    std::size_t step = 0;
    double factor = 0;  // of what was expected
  };
  std::vector<SlowStep> slow_steps(const std::vector<double>& seconds) const;
  /// Nodes that are called back alone, with the reason.
  std::vector<std::pair<std::string, std::string>> called_back() const;
  /// Nodes of regions, with the reason.
  std::vector<std::pair<std::string, std::string>> interpreted() const;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/kernel_plan.ipp"
#endif
