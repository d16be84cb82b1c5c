// What passes between a specialised module, built as a shared library, and the program that loads it.
//
// The library has five C names: `fxx_module` says what it is, `fxx_pack` fills its weights, `fxx_open(threads,
// processors)` and `fxx_close` make and end the threads of one caller at a time, `fxx_run` is one forward. Nothing here
// needs anything but a compiler; C++ exceptions do not cross.
// Main names: ModuleCall, Fault, ModuleInfo, module_abi, most_threads. Cost: none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fxx::kernels {

/// Changes with every change below.
inline constexpr int module_abi = 5;

/// Of one caller.
inline constexpr int most_threads = 256;

/// Why a forward gives no result.
enum Fault : int {
  no_fault,
  fault_of_index,      // it is out of range
  fault_of_call_back,  // the program could not run the operator of ModuleCall::step
  fault_of_division,   // an integer by zero
};

/// One forward. Pointers are to dense memory, laid out as the module was made for.
struct ModuleCall {
  const void* const* inputs;
  void* const* outputs;
  unsigned char* memory;  // ModuleInfo::memory(threads) bytes at a multiple of 64
  const float* weights;   // what fxx_pack filled
  /// Runs the operator of step `step` in the program. Not 0: it failed, and the forward ends.
  int (*call_back)(ModuleCall* call, int step);
  void* host;
  int fault;  // a Fault
  int step;   // of the call back that failed; -1 as long as none has
  std::int64_t* times = nullptr;  // null, or a place for the start and the end of every step, in nanoseconds
  /// Null, or called where `times` is given when so many steps have run, while all threads wait.
  void (*after_step)(ModuleCall* call, int steps) = nullptr;
};

/// What a library is, and the memory that it needs.
struct ModuleInfo {
  int abi;                    // first, in all versions
  int lanes;                  // floats in a vector: what the processor must have
  std::uint64_t features;     // and which instructions (kernels/features.hpp)
  const char* version;        // of fxx
  std::uint64_t source;       // of what text it was made
  std::size_t arena_bytes;    // between kernels
  std::size_t scratch_bytes;  // of each thread
  std::size_t weights;        // floats
  std::size_t memory(int threads) const { return arena_bytes + scratch_bytes * static_cast<std::size_t>(threads); }
};

}  // namespace fxx::kernels
