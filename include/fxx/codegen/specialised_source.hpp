// A plan of kernels as C++: templates of kernels/ with the plan's sizes, one function a kind of step, and the forward
// that calls them in order.
//
// The text depends on nothing but the plan, so the same model gives the same bytes. It includes only headers of
// kernels/, compiles without a warning, and exports the C names of kernels/module.hpp. One that takes the compiler long
// may be compiled in any number of parts (BuildRequest::parts), or in one.
// Main names: specialised_source, SpecialisedSource. Linear in the plan. Cost: light.
#pragma once

#include <cstdint>
#include <string>

#include "fxx/codegen/kernel_plan.hpp"

namespace fxx::inline FXX_ABI {

struct SpecialisedSource {
  std::string text;
  std::vector<std::string> headers;  // "fxx/kernels/gemm.hpp"
  int parts = 1;                     // the most that it is worth to compile it in
  std::uint64_t hash = 0;            // of the text before what it says of itself, which is ModuleInfo::source
};

/// `title`: whose forward it is, for the first comment.
SpecialisedSource specialised_source(const KernelPlan& plan, const std::string& title);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/specialised_source.ipp"
#endif
