// Computing once what does not depend on the inputs.
//
// Main names: fold_constants, optimize_for_inference. Cost: heavy (torch/nn/module.h). After torch.fx
// experimental/const_fold.py and experimental/optimization.py, 2.13.
#pragma once

#include <string>
#include <vector>

#include "fxx/rewrite/law.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

struct FoldOptions {
  /// Also what is made of nothing (arange, a full tensor of integers) and what only asks for a tensor's known sizes
  /// (zeros_like), so that the module serves the sizes in its tensor_meta alone. Fillings of float32 are left alone:
  /// who lowers the graph has them for nothing.
  bool known_sizes = false;
};
/// Evaluates every largest expression of parameters, buffers and constants, keeps its value as a buffer
/// `_folded.<user>_<parameter>`, and drops what the graph no longer refers to. Random operators and attributes that the
/// graph writes to are left alone. The folded values no longer follow the parameters they came from. Returns how many
/// expressions were folded. When an operator fails, its exception passes and the module is as it was.
std::size_t fold_constants(GraphModule& module, const FoldOptions& options = {});

struct OptimizeReport {
  struct Stage {
    std::string name;
    std::size_t nodes_before = 0, nodes_after = 0;
    std::string fired;  // "dropout: 13, gelu: 6"
  };
  std::vector<Stage> stages;
  /// What the rules that fired need of the numbers in tensors; the module gives what it gave before where that holds.
  Law needs = law::exact;
  /// A line a stage: "inference: 71 -> 311 nodes, fold batch norm: 20"; and "holds with queries that see a key", what
  /// the rules that fired need, where that is something.
  std::string to_string() const;
};
/// The rules for inference, activations, attention and merged linears, then constants folded: what a module in eval
/// mode can do without. Results stay equal up to rounding where `assume` holds; rules that need more are left out.
/// Sizes and strides of results stay what they are.
OptimizeReport optimize_for_inference(GraphModule& module, Law assume = law::ordinary | law::visible);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/fold_constants.ipp"
#endif
