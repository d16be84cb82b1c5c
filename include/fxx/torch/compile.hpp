// A graph as a module specialised to its sizes and weights: kernels of its own, built and loaded, a torch::nn::Module
// again.
//
// Rules for inference, functionalise, constants folded, lowered to a plan of kernels (codegen/lower.hpp), written as
// C++, compiled behind a cache, weights packed. What no kernel covers runs here as the operator that it is, and what has
// sizes that depend on elements is interpreted between the kernels. It infers: when an input wants a gradient, or what
// it was made for has changed (the graph, a training flag, a parameter), the graph runs interpreted instead, so results
// are always the graph's.
// Main names: compile, CompileOptions, CompiledModule. Cost: heavy (torch/nn/module.h).
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fxx/codegen/lower.hpp"
#include "fxx/codegen/trials.hpp"
#include "fxx/kernels/module.hpp"
#include "fxx/runtime/library.hpp"
#include "fxx/runtime/notebook.hpp"
#include "fxx/runtime/pool.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/plan.hpp"

namespace fxx::inline FXX_ABI {

struct Meanwhile;

struct CompileOptions {
  Accuracy accuracy = Accuracy::standard;
  /// Threads of one call, at most 256; 0: as many as LibTorch uses now, no more than a quota of processors (of a container)
  /// leaves, and one where all work is done in a microsecond or two.
  int threads = 0;
  /// Largest error against the interpreter on the example inputs, relative to the largest magnitude of each result;
  /// beyond it, compile throws, unless roundings in the interpreter's operators make a fourth of it: where a graph
  /// rounds or compares. Each step is compared by itself besides, within its own bound (docs/reliability.md), unless
  /// this is infinite. Nothing: 1e-4, in fast mode 0.05, beyond which steps that are right may make the difference, too.
  std::optional<double> tolerance = {};
  /// Measures the ways in which products, convolutions and attention may be computed (tile, Winograd's algorithm or
  /// directly, joined with their neighbours or not, LibTorch itself), for each shape once, and takes the fastest; else
  /// that is estimated. What was found is kept beside the libraries, for all models with such layers.
  bool tune = false;
  /// The processor that the library is for, as the compiler's -march names it: this one, or one that can do less, such as
  /// "haswell" or "x86-64-v3". It must run here too: its result is verified.
  std::string march = "native";
  /// Where built libraries are kept; the default folder of BuildCache when empty.
  std::string cache_folder = {};
  double timeout_seconds = 300;  // of the compiler; 0: no limit
};

class CompiledModule : public GraphModule {
 public:
  /// Use compile().
  CompiledModule(GraphModule& source, const std::vector<at::Tensor>& example_inputs, const CompileOptions& options);

  /// Tensors of the dtypes and sizes that it was made for, in any layout; throws RunError (E701) naming the input that
  /// is another, as long as it is current: else it is the graph, which may take others. Any number of threads may call.
  c10::IValue run_flat(std::vector<c10::IValue> inputs) override;
  /// Of tensors of its own, compiled again for the same sizes, which is found in the cache. For another device a
  /// GraphModule.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;
  /// The same without tensors, for programs that have memory of their own: a pointer for each input and each tensor of
  /// the result, whose elements lie as those of the examples did. Does not look whether it is current. What is called
  /// back sees tensors over that memory. Throws RunError (E702) when a result has no known size.
  void run_raw(const void* const* inputs, void* const* outputs);

  /// Will the next call go through the kernels? Not when the graph, its modules or tensors have changed since it was
  /// made, nor while LibTorch's global state (docs/compile.md has the list) is another than it was then.
  bool is_current() const;
  /// Largest error against the interpreter, as in CompileOptions::tolerance; nan when it could not be measured, since
  /// running the graph changes its attributes, or draws random numbers, or the example inputs are fake.
  double max_error() const { return max_error_; }
  /// Was there no need for the compiler?
  bool was_cached() const { return !built_; }
  /// Seconds from the graph to the loaded module with its weights packed; of these, the compiler.
  double seconds() const { return seconds_; }
  double build_seconds() const { return build_seconds_; }
  /// The library's C++, written anew: O(steps).
  std::string source_code() const;
  const std::string& library_path() const { return library_.path(); }
  /// The steps: `std::cout << compiled->kernel_plan().to_string();`
  const KernelPlan& kernel_plan() const { return kernels_; }
  /// Runs with tensors as run_flat and measures: seconds of each step, the least of `calls`, for
  /// `kernel_plan().to_string(compiled->profile(inputs))`. Throws RunError (E702) for inputs whose call would be
  /// interpreted, since a region gives other sizes.
  std::vector<double> profile(const std::vector<at::Tensor>& inputs, int calls = 10);
  /// Nodes that run in this program, since no kernel covers them, with the reason.
  std::vector<std::pair<std::string, std::string>> called_back() const { return kernels_.called_back(); }
  /// Nodes that run interpreted between the kernels, with the reason: their sizes depend on the elements of tensors, or
  /// they read what has such sizes. All of the graph where the order of writes to memory could not be kept otherwise.
  std::vector<std::pair<std::string, std::string>> interpreted() const { return kernels_.interpreted(); }
  int threads() const { return threads_; }
  /// Bytes of packed weights; of memory between kernels, for each thread that calls at the same time. The module keeps
  /// no more: parameters are those of the module it was made of, and constants that were folded are there packed alone,
  /// unless the graph writes to its attributes, or an operator that is called back reads them.
  std::size_t weight_bytes() const { return weights_.size; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// How many of these memories, each with its threads, there are now; at most 17 are kept when nobody calls.
  std::size_t workspaces() const { return workspaces_.size(); }
  /// Gives back those that no call has now. The next call makes one anew.
  void free_workspaces() { workspaces_.trim(); }

 private:
  friend std::shared_ptr<CompiledModule> compile(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                                 const CompileOptions& options);
  /// Memory at a multiple of 64 bytes, in large pages where there are any.
  struct Memory {
    void* data = nullptr;
    std::size_t size = 0;
    Memory() = default;
    explicit Memory(std::size_t bytes);
    Memory(Memory&& other) noexcept : data(std::exchange(other.data, nullptr)), size(other.size) {}
    Memory& operator=(Memory&& other) noexcept {
      std::swap(data, other.data);
      std::swap(size, other.size);
      return *this;
    }
    ~Memory();
  };
  struct Observer;
  /// What one caller needs at a time.
  struct Workspace {
    Memory memory;
    void* team = nullptr;
    int threads = 1;  // of the team
    void (*close)(void*) = nullptr;
    Workspace() = default;
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    ~Workspace() {
      if (team) close(team);
    }
    /// Takes another team in the place of the one that it has.
    void change_team(void* other, int threads_of_other) {
      if (team) close(team);
      team = other;
      threads = threads_of_other;
    }
  };
  /// What a step calls back, ready to run.
  struct CalledBack {
    std::unique_ptr<const Graph> graph;
    std::unique_ptr<const Plan> plan;
  };
  /// One call, as call backs see it.
  struct Host {
    CompiledModule* self;
    const void* const* inputs;
    void* const* outputs;
    unsigned char* memory;
    std::vector<at::Tensor>* tensors;  // the inputs as the caller gave them; null: there are none
    std::vector<c10::IValue> kept;     // what regions gave each other, and give to the caller
    std::exception_ptr exception;
    Observer* observer;                // null: nobody looks
  };
  /// Who looks at a call: the time at the end of each step, and what is in memory then.
  struct Observer {
    std::vector<std::int64_t> times;  // a place for the start and each step
    std::function<void(const Host&, int steps)> after_step = {};
    std::exception_ptr exception = {};  // of that
  };
  /// A region gave other sizes than were found when it was compiled.
  struct OtherSizes : RunError {
    using RunError::RunError;
  };
  void specialise(const std::vector<at::Tensor>& example_inputs, const CompileOptions& options);
  // --- tune.ipp: the libraries that are tried are taken one after the other ------------------------------------------
  /// The plan with the ways that are the fastest.
  KernelPlan tuned(KernelPlan plan, const Graph& graph, LowerOptions lowering,
                   const std::vector<at::Tensor>& example_inputs, const CompileOptions& options);
  /// The fastest way of each of these sites of the plan, as notes.
  Notebook::Notes measured(const KernelPlan& plan, const Graph& graph, const LowerOptions& lowering,
                           std::vector<TrialSite> sites, const CompileOptions& options);
  /// Seconds of each trial, the least of several.
  std::vector<double> seconds_of(TrialPlan trials, const CompileOptions& options);
  /// Of these ways those that are faster in the module as well: all, some or none. A note about that.
  std::string proven(const KernelPlan& plan, const Graph& graph, LowerOptions lowering,
                     const std::vector<at::Tensor>& example_inputs, const CompileOptions& options);
  /// From the plan to a library that is loaded, with its weights packed; instead of the one before.
  /// `meanwhile`: called where a compiler has to be waited for.
  void take(KernelPlan plan, const CompileOptions& options, const Meanwhile* meanwhile = nullptr);
  void pack();
  /// Lets go of the constants that are packed and not read otherwise.
  void forget_constants();
  /// Packs again what the graph itself has written to.
  void pack_what_it_wrote();
  // --- verify.ipp ----------------------------------------------------------------------------------------------------
  /// Whether a call with these tells something, and leaves nothing behind.
  bool can_be_verified_with(const std::vector<at::Tensor>& example_inputs) const;
  /// What the graph gives, as it was before anything was done for compiling.
  c10::IValue interpreted_results(const std::vector<at::Tensor>& example_inputs);
  /// Throws LoadError (E607) where a step, or all of it, differs from the interpreter by more than roundings explain.
  /// `expected`: interpreted_results.
  void verify(const std::vector<at::Tensor>& example_inputs, const c10::IValue& expected, const CompileOptions& options);
  /// Fills the memory of a call, so that what no step writes is seen: nan as floats.
  void spoil_memory(const Host& host) const;
  static void after_step(kernels::ModuleCall* call, int steps);
  std::unique_ptr<Workspace> workspace() const;
  /// Threads for one more caller: all that were asked for, or one where callers at this time have four times as many
  /// threads as there are processors. Results do not depend on it.
  int threads_of_caller(std::size_t callers) const;
  /// Gives it the threads that a caller now gets, where it has fewer.
  void widen(Workspace& workspace) const;
  /// Forbids AddressSanitizer, where the kernels run under it, what lies between the buffers of an arena.
  void guard(const Memory& arena) const;
  void prepare_call_backs();
  /// Returns what regions gave that the call kept.
  std::vector<c10::IValue> run_kernels(const void* const* inputs, void* const* outputs,
                                       std::vector<at::Tensor>* tensors, Observer* observer = nullptr);
  /// The tensor that the caller or the module has, or a part of it; undefined for other memory.
  at::Tensor owned_at(const Host& host, const plans::View& view) const;
  /// A tensor over memory of the call.
  at::Tensor borrowed_at(const Host& host, const plans::View& view) const;
  static int call_back(kernels::ModuleCall* call, int step);
  void run_called_back(Host& host, std::size_t step) const;
  c10::IValue result_of(const Argument& argument, std::vector<c10::IValue>& outputs, std::size_t& next) const;
  /// Throws E701 naming the first that is no tensor of the dtype, sizes and device that it was compiled for.
  void check_inputs(const std::vector<c10::IValue>& inputs) const;
  /// As is_current(), but for autocast: under it, inputs are looked at all the same.
  bool is_made_for_now() const;
  /// Has one of them elements of another, or of an attribute? What is written to one is then written to both.
  bool share_elements(const std::vector<c10::IValue>& inputs) const;
  c10::IValue run_specialised(std::vector<c10::IValue>& inputs, Observer* observer = nullptr);
  /// Likewise, and interpreted where a region gives other sizes than were found.
  c10::IValue run_with_kernels(std::vector<c10::IValue>& inputs, Observer* observer = nullptr);

  CompileOptions options_;
  std::shared_ptr<GraphModule> prepared_;  // the graph that was lowered; its constants until they are packed
  KernelPlan kernels_;
  std::uint64_t source_hash_ = 0;
  Library library_;
  void* (*open_)(int, int) = nullptr;
  void (*close_)(void*) = nullptr;
  void (*run_)(void*, kernels::ModuleCall*) = nullptr;
  Memory weights_;
  std::vector<at::Tensor> attributes_;  // by number of a constant
  /// A parameter, a buffer or an attribute, and what it was when it was packed.
  struct Watched {
    at::Tensor tensor;
    bool written = false;    // by the graph itself
    bool uncounted = false;  // as batch norm writes its statistics: the version stays
    bool versioned = false;
    std::uint32_t version = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> memory{c10::intrusive_ptr<c10::StorageImpl>()};

    void look();
    void go_back_to(const Watched& before);
    bool is_of_version() const;
    bool has_its_memory() const;
  };
  std::vector<Watched> watched_;
  std::vector<std::pair<const at::Tensor*, at::Tensor>> members_;  // of leaf modules, and what they were
  std::vector<CalledBack> operators_;                              // by step
  /// Held in calls of graphs with effects: what they write to attributes is packed for the next.
  mutable std::mutex writing_mutex_;
  Pool<Workspace> workspaces_;
  std::size_t workspace_bytes_ = 0;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> training_flags_;
  std::vector<std::pair<const GraphModule*, std::uint64_t>> graphs_inside_;  // of those modules, and their versions
  std::vector<bool> uncounted_inputs_;  // that may be written to without a change of their versions
  std::uint64_t built_version_ = 0;
  std::uint64_t made_under_ = 0;     // LibTorch's state
  bool multiplies_floats_ = false;  // so that it matters whether LibTorch may do so with fewer bits
  int threads_ = 1, processors_ = 1;
  bool changes_something_ = false;  // attributes or inputs are written to, or numbers are drawn
  double max_error_ = std::nan(""), build_seconds_ = 0, seconds_ = 0;
  bool built_ = false;  // by the compiler
};

/// Optimises, lowers, generates, builds, loads, packs, checks. Errors, after which `module` works as before:
/// CodegenError (E501) for a graph whose sizes are not known or that has other values than tensors where kernels need
/// them; CompileError for a missing compiler (E601), a failed (E602) or late (E603) compile, a cache that cannot be
/// written (E604), with the log; LoadError (E605), (E607) when a step or all of it differs from the interpreter; RunError
/// (E701) for too few or too many example inputs, one that is undefined or not on the CPU, a fake parameter or buffer,
/// and for options that cannot be. At its end the free heap of the program goes back to the system (malloc_trim of glibc).
std::shared_ptr<CompiledModule> compile(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                        const CompileOptions& options = {});

/// The folder with fxx/kernels/: what the variable FXX_INCLUDE names, else where these headers came from. Throws
/// CompileError (E601) when they are not there.
std::string kernel_headers_folder();

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/compile.ipp"
#endif
