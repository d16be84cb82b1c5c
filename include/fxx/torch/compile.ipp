// Bodies of torch/compile.hpp; from the graph to the library, and calls of it, in files of their own.
#pragma once

#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/passes/stable_order.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/compile/tune.ipp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/results.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE bool has_kernel_headers(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "fxx" / "kernels" / "gemm.hpp", ignored);
}

}  // namespace detail

FXX_INLINE std::string kernel_headers_folder() {
  std::vector<std::filesystem::path> folders;
  if (const char* named = std::getenv("FXX_INCLUDE")) folders.emplace_back(named);
#if defined(FXX_INCLUDE_FOLDER)
  folders.emplace_back(FXX_INCLUDE_FOLDER);
#endif
  folders.push_back(std::filesystem::path(__FILE__).parent_path().parent_path().parent_path());
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
  // more than a sixteenth of all, the rest lies in small ones.
  const auto rounded = [&](std::size_t page) { return (bytes + page - 1) / page * page; };
  const std::size_t page = bytes >= (std::size_t{1} << 20) ? std::size_t{1} << 21 : 64;
  const std::size_t whole = rounded(page) - bytes <= bytes / 16 ? rounded(page) : rounded(64);
  if (posix_memalign(&data, page, whole) != 0) throw std::bad_alloc();
  if (const std::size_t large = whole / page * page; page > 64 && large > 0) madvise(data, large, MADV_HUGEPAGE);
}
FXX_INLINE CompiledModule::Memory::~Memory() { std::free(data); }

FXX_INLINE CompiledModule::CompiledModule(GraphModule& source, const std::vector<at::Tensor>& example_inputs,
                                          const CompileOptions& options)
    : GraphModule(source, source.graph(), source.class_name()) {
  detail::know_graph_module<CompiledModule>();
  threads_ = options.threads > 0 ? options.threads : at::get_num_threads();
  specialise(example_inputs, options);
}

FXX_INLINE void CompiledModule::verify(const std::vector<at::Tensor>& example_inputs, double tolerance) {
  if (changes_something_) return;
  const auto is_fake_one = [](const at::Tensor& tensor) { return is_fake(tensor); };
  if (std::ranges::any_of(example_inputs, is_fake_one)) return;
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> inputs(example_inputs.begin(), example_inputs.end()), taken = inputs;  // a plan takes them
  Graph reference(graph());
  reference.set_owning_module(graph().owning_module());
  const bool orders = keep_order_of_equals(reference, Orders::sorts_and_tops) > 0;
  const c10::IValue expected = orders ? Plan(reference, owner()).run(taken) : GraphModule::run_flat(inputs);
  const c10::IValue got = run_with_kernels(inputs);
  max_error_ = detail::relative_error(got, expected);
  if (!(max_error_ <= tolerance))
    throw LoadError(ErrorId::result_differs, "compile: the compiled module differs from the interpreter by " +
                                                 repr(max_error_) + " of the largest magnitude; the tolerance is " +
                                                 repr(tolerance) + ". The library is at " + library_.path());
}

FXX_INLINE std::shared_ptr<CompiledModule> compile(GraphModule& module, std::vector<at::Tensor> example_inputs,
                                                   const CompileOptions& options) {
  module.graph().lint();
  const std::size_t takes = module.graph().find_nodes(Opcode::placeholder).size();
  if (example_inputs.size() != takes)
    throw RunError(ErrorId::input_mismatch, "compile: " + std::to_string(example_inputs.size()) +
                                                " example inputs were given; the graph takes " + std::to_string(takes));
  auto compiled = std::make_shared<CompiledModule>(module, example_inputs, options);
  compiled->verify(example_inputs, options.tolerance.value_or(options.accuracy == Accuracy::fast ? 0.05 : 1e-4));
  return compiled;
}

}  // namespace fxx::inline FXX_ABI
