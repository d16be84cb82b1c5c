// What modules give back, as the tensors in it.
//
// Main names: detail::flatten, detail::relative_error, detail::error_beside. Cost: tensor (ATen/core/ivalue.h).
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Appends the tensors in tuples, lists and dictionaries, in their order.
void flatten(const c10::IValue& value, std::vector<at::Tensor>& out);

/// As doubles, of complex numbers both parts; integers and booleans as the widest integers, which keep all of them.
at::Tensor comparable(const at::Tensor& tensor);

/// Largest difference of two sets of results, relative to the largest magnitude of the second; infinite when they do
/// not compare. nan beside nan and an infinity beside the same one are no difference; of integers and booleans any is 1
/// or more.
double relative_error(const c10::IValue& given, const c10::IValue& expected);
/// Largest difference of each tensor of two results, relative to the largest magnitude of the same tensor of a third. One
/// number that is infinite where the results do not have the same number of tensors.
std::vector<double> errors_of_tensors(const c10::IValue& given, const c10::IValue& expected, const c10::IValue& like);

/// The same beside results of which one is as good as another: each element counts by how far it is outside of what they
/// span, integers and booleans by whether one of them has it. There has to be one.
double error_beside(const c10::IValue& given, const std::vector<c10::IValue>& samples);

}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/results.ipp"
#endif
