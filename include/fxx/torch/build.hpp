// A graph built into a shared library and loaded: a torch::nn::Module again.
//
// The forward is generated as C++ over handed-in parameters, compiled by the machine's compiler behind a cache, and
// called through one C function. Autograd goes through it, parameters stay shared. When something it was built for
// changes (the graph, a training flag, the tensor that is a leaf module's weight), it runs interpreted instead, so
// results are always the graph's.
// Main names: build, BuildOptions, BuiltModule. Cost: heavy (torch/nn/module.h).
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "fxx/codegen/built.hpp"
#include "fxx/runtime/library.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

struct BuildOptions {
  /// Largest error against the interpreter on the example inputs, relative to the largest magnitude of each result;
  /// beyond it, build throws. The built operators are the same as the interpreted ones, so 0 is met by deterministic
  /// ones.
  double tolerance = 1e-6;
  /// Where built libraries are kept; the default folder of BuildCache when empty.
  std::string cache_folder = {};
  double timeout_seconds = 300;
};

class BuiltModule : public GraphModule {
 public:
  /// Use build().
  BuiltModule(GraphModule& source, const BuildOptions& options);

  c10::IValue run_flat(std::vector<c10::IValue> inputs) override;
  /// Will the next call go through the built library?
  bool is_current() const;

  /// Largest error against the interpreter, as in BuildOptions::tolerance; nan when it could not be measured, since
  /// running the graph changes its attributes or calls functions that have effects, or some of the attributes or of the
  /// example inputs are fake. What modules change that the graph calls, a batch norm's statistics, is put back.
  double max_error() const { return max_error_; }
  bool was_cached() const { return was_cached_; }
  /// Seconds from the start of the compiler to the loaded library.
  double build_seconds() const { return build_seconds_; }
  const std::string& source_code() const { return built_.text; }
  const std::string& library_path() const { return library_.path(); }
  /// Nodes that run in this program, since they have no narrow header.
  std::vector<std::string> called_back() const;

 private:
  friend std::shared_ptr<BuiltModule> build(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                            const BuildOptions& options);
  c10::IValue run_built(std::vector<c10::IValue>& inputs);
  void verify(const std::vector<at::Tensor>& example_inputs, double tolerance);

  Graph expanded_;  // what was built; its nodes are called back
  BuiltSource built_;
  Library library_;
  int (*forward_)(void*) = nullptr;
  std::vector<at::Tensor> attributes_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> training_flags_;
  std::vector<std::pair<const at::Tensor*, at::Tensor>> members_;  // of layers, and what they were
  std::shared_ptr<const ModuleOwner> built_owner_;
  std::uint64_t built_version_ = 0;
  std::size_t placeholders_ = 0;
  double max_error_ = std::nan(""), build_seconds_ = 0;
  bool was_cached_ = false;
};

/// Generates, builds, loads, checks. Errors, after which `module` works as before: CodegenError (E501) for a graph that
/// has no such form; CompileError for a missing compiler (E601), a failed (E602) or late (E603) compile, a cache that
/// cannot be written (E604), with the log; LoadError (E605), (E607) when results differ more than the tolerance.
std::shared_ptr<BuiltModule> build(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                   const BuildOptions& options = {});

/// Where the running LibTorch is installed: the folder with `include` and `lib`. Throws CompileError (E601) when that
/// cannot be told from the loaded libraries; the variable Torch_DIR or CMAKE_PREFIX_PATH then names it.
std::string torch_folder();

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/build.ipp"
#endif
