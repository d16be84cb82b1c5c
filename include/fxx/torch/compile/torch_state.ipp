// LibTorch's global state that decides results, as a number to compare; for torch/compile/call.ipp.
#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>

#include "fxx/torch/compile.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"

namespace fxx::inline FXX_ABI::detail {

/// The thread's rounding of floats, and whether it takes denormal numbers for zero (at::set_flush_denormal). 5 ns.
inline std::uint64_t rounding_of_thread() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & 0xe040u;  // flush to zero, the direction of rounding, denormals are zeros
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control >> 8 & 0x1f800u;  // FZ16, the direction of rounding, FZ
#else
  return 0;
#endif
}

/// Modes of the thread under which operators do something else whatever their inputs are.
inline bool in_mode_of_thread() {
  constexpr c10::DispatchKeySet modes({trace_key, c10::DispatchKey::Fake, c10::DispatchKey::Functionalize,
                                       c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                       c10::DispatchKey::FuncTorchVmapMode, c10::DispatchKey::VmapMode,
                                       c10::DispatchKey::Python, c10::DispatchKey::Tracer});
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(modes);
}

/// Whether LibTorch fills memory that nobody has written to: with nan, or with the largest integer.
inline bool fills_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

/// Everything that the kernels of a module were made for and do not ask for themselves, in one number. The list is in
/// docs/compile.md. `reduced`: whether there are operators that LibTorch may compute with fewer bits when it is told so.
FXX_INLINE std::uint64_t torch_state(bool reduced) {
  const at::Context& context = at::globalContext();
  std::uint64_t state = rounding_of_thread() << 8 | static_cast<std::uint64_t>(c10::get_default_dtype_as_scalartype());
  const auto add = [&](int at, std::uint64_t bits) { state |= bits << (32 + at); };
  if (context.deterministicAlgorithms())
    add(0, 1u | std::uint64_t{context.deterministicAlgorithmsWarnOnly()} << 1 |
               std::uint64_t{context.deterministicFillUninitializedMemory()} << 2);
  if (reduced) {
    const auto precision = [&](at::Float32Op op) {
      return static_cast<std::uint64_t>(context.float32Precision(at::Float32Backend::MKLDNN, op));
    };
    add(3, precision(at::Float32Op::MATMUL) | precision(at::Float32Op::CONV) << 3 | precision(at::Float32Op::RNN) << 6);
    add(12, std::uint64_t{context.allowFP16ReductionCPU()} |
                std::uint64_t{context.allowFP16BF16ReductionMathSDP()} << 1 |
                std::uint64_t{context.userEnabledFlashSDP()} << 2 | std::uint64_t{context.userEnabledMathSDP()} << 3);
  }
  return state;
}

}  // namespace fxx::inline FXX_ABI::detail
