// From a graph whose sizes are known to a plan of kernels.
//
// What is computed element by element goes into the loop of the kernel before it, or of the one behind it; views are
// other strides on the same memory; images lie channels last, with the zeros around them that the convolutions behind
// them read. What no kernel covers becomes a CallBack, alone; regions (passes/regions.hpp) become one each.
// Main names: lower, LowerOptions, Accuracy. Linear in the graph. Cost: light.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/codegen/processor.hpp"
#include "fxx/ir/graph.hpp"
#include "fxx/passes/region.hpp"

namespace fxx::inline FXX_ABI {

enum class Accuracy : std::uint8_t {
  exact,     // convolutions are direct, factors stay outside of weights: nothing but the order of sums differs
  standard,  // and by Winograd's algorithm where that is faster: some times the error of eager float32
  fast,      // and with weights of matrix products as bfloat16, and products of bfloat16 where those are faster
};

/// Why a node is called back that has a kernel (plans::Way::Method::library).
inline constexpr std::string_view left_to_library = "tuned: LibTorch is faster";

/// A call of scaled_dot_product_attention that stands for fxx::softmax_attention: a query that sees no key gets nan, and
/// where the mask of booleans says that a key is not seen, the score is the fill.
struct WrittenAttention {
  std::string node;
  double fill;
};

struct LowerOptions {
  Accuracy accuracy = Accuracy::standard;
  Processor processor = {};
  /// How steps of these shapes (KernelStep::shape) are computed, instead of as is estimated.
  plans::Ways ways = {};
  /// Do a core's own caches keep all weights from call to call? Nothing: that follows from those of the graph.
  std::optional<bool> weights_stay = {};
  /// Do convolutions stand nearly alone in their graph (Convolution::alone)? Nothing: that is looked up.
  std::optional<bool> alone = {};
  /// Names of linear layers that may be computed with integers, but in exact mode: their input comes out of a
  /// fake_quantize, their weights are integers of 8 bits times a scale for each column, which is in the attribute
  /// scales_name(node).
  std::vector<std::string> quantised = {};
  /// Whether every buffer of the arena has memory of its own with a gap behind it, for a sanitizer (place_buffers).
  bool guarded = false;
  /// Are all weights finite? From others Winograd's algorithm makes nan of what is none.
  bool finite_weights = true;
  /// Names of the attributes that are not: convolutions do not multiply them with the zeros around images.
  std::vector<std::string> endless_weights = {};
  /// Does LibTorch fill memory that nobody has written to (deterministic algorithms)? Then it makes that memory.
  bool fills_memory = false;
  /// Attention that rules made of softmax.
  std::vector<WrittenAttention> attention = {};
  /// Names of calls of gelu that stand for their formula; of others LibTorch leaves some to oneDNN, which may make nan of
  /// an infinity.
  std::vector<std::string> gelu_formulas = {};
  /// Whether it does.
  bool gelu_of_onednn = true;
  /// Floats in a vector of LibTorch's kernels, where it has some for this processor; else 0. What overflows may come out
  /// of a vector another way than of a single element.
  int libtorch_lanes = 16;
  /// What is interpreted, as gather_regions found it.
  std::vector<Region> regions = {};
};

/// `graph`: pure operators (functionalise) without calls of modules that are operators, with the tensor_meta of every
/// tensor, but for those that only regions read. Throws CodegenError (E501) naming the node for a tensor whose sizes are
/// not known, or a value that is no tensor where a kernel or a call back would need it.
KernelPlan lower(const Graph& graph, const Owner& owner, const LowerOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/lower.ipp"
#endif
