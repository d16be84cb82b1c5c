// What the choice of kernels has to know of the processor that they are for.
//
// Main names: Processor, this_processor, has_vectors_of. Cost: none.
#pragma once

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

struct Processor {
  /// Multiplications and additions that a core does in a second.
  double flops_per_second = 1e11;
  /// Multiplications and additions that a core does in the time in which it reads a byte of weights that is in no cache
  /// of its own. Winograd's algorithm saves the ones and reads more of the others; which is faster is estimated by this.
  double flops_per_byte = 5;
  /// Are products of bfloat16 faster than those of floats?
  bool bfloat16_products = false;
  /// Are four products of bytes one instruction (VNNI)?
  bool byte_products = false;
  /// Does it read what lies behind each other from memory as fast as it can without being asked for it ahead?
  bool reads_ahead = false;
};

/// The one that runs this. Zen 4: 118e9 a second, 4 to 5 in the time of a byte, and twice as many products of bfloat16;
/// Emerald Rapids: 178e9, 14, and half as many where there are no tiles (AMX). Both measured with one core in use; others
/// are taken to be like them.
Processor this_processor();

/// Can it run kernels with so many floats in a vector (kernels/vector.hpp)?
bool has_vectors_of(int floats);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/processor.ipp"
#endif
