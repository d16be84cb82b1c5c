// Bodies of torch/compile.hpp; from the graph to the library, and calls of it, in files of their own.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <sys/mman.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <cstdlib>
#include <filesystem>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/passes/stable_order.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/limits.hpp"
#include "fxx/runtime/process.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/compile/tune.ipp"
#include "fxx/torch/compile/verify.ipp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/results.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE bool has_kernel_headers(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "fxx" / "kernels" / "gemm.hpp", ignored);
}

/// The folder of headers that a compiler names in one of them, `file`, so many folders below it. Nothing for a relative
/// path: it was one from the folder that the compiler ran in, and whatever lies there when the program runs is not ours.
FXX_INLINE std::optional<std::filesystem::path> folder_of_headers(std::string_view file, int below) {
  std::filesystem::path folder(file);
  if (!folder.is_absolute()) return std::nullopt;
  for (; below > 0; --below) folder = folder.parent_path();
  return folder;
}

/// What is free in the heap of the program, to the system. Passes, folded constants and the interpreter's run leave tens
/// of megabytes in it, which the C library would keep, more than many models have in weights. Takes 1 to 6 ms for what
/// they leave, and 60 ms for each gigabyte that the program had given free before.
FXX_INLINE void give_back_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace detail

FXX_INLINE std::string kernel_headers_folder() {
  std::vector<std::filesystem::path> folders;
  if (const char* named = files::variable("FXX_INCLUDE"); named && *named) {
    // Others must not take its place unnoticed.
    if (!detail::has_kernel_headers(named))
      throw CompileError(ErrorId::compiler_missing, "compile: FXX_INCLUDE names '" + std::string(named) +
                                                        "', which holds no fxx/kernels. The module keeps working "
                                                        "interpreted");
    folders.emplace_back(named);
  }
#if defined(FXX_INCLUDE_FOLDER)
  if (const auto built_with = detail::folder_of_headers(FXX_INCLUDE_FOLDER, 0)) folders.push_back(*built_with);
#endif
  if (const auto included = detail::folder_of_headers(__FILE__, 3)) folders.push_back(*included);
  folders.insert(folders.end(), {"/usr/local/include", "/usr/include"});
  for (const std::filesystem::path& folder : folders)
    if (detail::has_kernel_headers(folder)) return std::filesystem::absolute(folder).lexically_normal().string();
  throw CompileError(ErrorId::compiler_missing,
                     "compile: the headers of fxx's kernels were not found; set FXX_INCLUDE to the folder that holds "
                     "fxx/kernels. The module keeps working interpreted");
}

FXX_INLINE CompiledModule::Memory::Memory(std::size_t bytes) : size(bytes) {
  if (bytes == 0) return;
  // Pages of two megabytes, when it is worth one: fewer misses of the address cache. Where the last would be empty by
  // more than a hundredth of all, the rest lies in small ones.
  const auto rounded = [&](std::size_t page) { return (bytes + page - 1) / page * page; };
  const std::size_t page = bytes >= (std::size_t{1} << 20) ? std::size_t{1} << 21 : 64;
  const std::size_t whole = rounded(page) - bytes <= bytes / 100 ? rounded(page) : rounded(64);
  if (posix_memalign(&data, page, whole) != 0) throw std::bad_alloc();
  if (const std::size_t large = whole / page * page; page > 64 && large > 0) madvise(data, large, MADV_HUGEPAGE);
}
FXX_INLINE CompiledModule::Memory::~Memory() { std::free(data); }

FXX_INLINE CompiledModule::CompiledModule(GraphModule& source, const std::vector<at::Tensor>& example_inputs,
                                          const CompileOptions& options)
    : GraphModule(source, detail::compact_copy(source.graph()), source.class_name()), options_(options) {
  detail::know_graph_module<CompiledModule>();
  if (options.threads < 0 || options.threads > kernels::most_threads)
    throw RunError(ErrorId::input_mismatch, "compile: threads = " + std::to_string(options.threads) + "; at most " +
                                                std::to_string(kernels::most_threads) +
                                                ", and 0 for as many as LibTorch uses");
  if (!(options.timeout_seconds >= 0))
    throw RunError(ErrorId::input_mismatch,
                   "compile: timeout_seconds = " + repr(options.timeout_seconds) + "; 0 is no limit");
  if (options.tolerance && !(*options.tolerance >= 0))
    throw RunError(ErrorId::input_mismatch,
                   "compile: tolerance = " + repr(*options.tolerance) + "; it is what results may differ by, 0 or more");
  threads_ = options.threads;
  processors_ = available_processors();
  if (threads_ == 0) {
    threads_ = std::min(at::get_num_threads(), kernels::most_threads);
    // LibTorch counts processors, and knows nothing of quotas.
    if (const double quota = resource_limits().processors; quota > 0)
      threads_ = std::clamp(static_cast<int>(std::ceil(std::min(quota, 1e6))), 1, threads_);
  }
  specialise(example_inputs, options);
}

FXX_INLINE std::shared_ptr<torch::nn::Module> CompiledModule::clone(const std::optional<torch::Device>& device) const {
  auto copy = std::dynamic_pointer_cast<GraphModule>(GraphModule::clone(device));
  if (device && !device->is_cpu()) return copy;
  std::vector<at::Tensor> examples;
  for (const plans::View& input : kernels_.inputs) {
    const FakeScope fakes;  // not while compiling
    const auto dtype = static_cast<at::ScalarType>(kernels_.buffers[static_cast<std::size_t>(input.buffer)].dtype);
    examples.push_back(at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(input.sizes),
                                                     c10::fromIntArrayRefSlow(input.strides), dtype, {}, at::kCPU, {}));
  }
  const auto compiled = compile(*copy, std::move(examples), options_);
  if (compiled->source_hash_ == source_hash_) compiled->max_error_ = max_error_;  // the same program, of other memory
  return compiled;
}

FXX_INLINE std::string CompiledModule::source_code() const { return specialised_source(kernels_, class_name()).text; }

FXX_INLINE std::shared_ptr<CompiledModule> compile(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                                   const CompileOptions& options) {
  // Calls under autocast are interpreted: kernels are for all others.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  module.graph().lint();
  detail::refuse_kept_state(module, "compile");
  const std::size_t takes = module.graph().find_nodes(Opcode::placeholder).size();
  if (example_inputs.size() != takes)
    throw RunError(ErrorId::input_mismatch, "compile: " + std::to_string(example_inputs.size()) +
                                                " example inputs were given; the graph takes " + std::to_string(takes));
  std::size_t next = 0;
  for (const Node* input : module.graph().find_nodes(Opcode::placeholder)) {
    const at::Tensor& example = example_inputs[next++];
    const bool fake = example.defined() && is_fake(example);
    const bool dense = example.defined() && example.layout() == at::kStrided && !example.is_quantized();
    if (dense && (fake || example.is_cpu())) continue;
    const std::string what = !example.defined() ? "an undefined tensor"
                             : dense            ? "on " + example.device().str() + "; it has to be on the CPU"
                                                : c10::str(example.layout(), " of ", c10::toString(example.scalar_type()),
                                                           "; it has to be a dense tensor that is not quantised");
    throw RunError(ErrorId::input_mismatch, "compile: the example for '" + std::string(input->name()) + "' is " + what);
  }
  const detail::ScriptWatch scripts;  // what runs here is no call of the caller's
  auto compiled = std::make_shared<CompiledModule>(module, example_inputs, options);
  compiled->forget_plan();  // the interpreter's, which few will ask for again
  detail::give_back_free_memory();
  return compiled;
}

}  // namespace fxx::inline FXX_ABI
