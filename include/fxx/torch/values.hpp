// Between a graph's arguments and LibTorch's boxed values.
//
// Main names: to_ivalue, to_argument, IValueText. A schema type decides what an immediate becomes: 1 is an int for
// `int`, a double for `float`, [1, 1] for `int[2]`. Cost: tensor (ATen/core/ivalue.h).
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

#include "fxx/torch/types.hpp"

namespace fxx::inline FXX_ABI {

/// The boxed value of an argument without nodes, for a parameter of this type; ValueType::other: as it comes
/// (torch.fx's containers become lists, tuples and dicts). Throws RunError (E701) when the argument cannot be passed
/// there.
c10::IValue to_ivalue(const Argument& argument, const Type& type = {});

/// The boxed list for a parameter of this type out of its items, which are boxed already.
c10::IValue to_list(std::vector<c10::IValue> items, const Type& type);

/// The immediate that a boxed value is, for a parameter of this type. None for tensors: the caller knows their nodes.
Argument to_argument(const c10::IValue& value, const Type& type);
namespace detail {
Argument to_argument_inside(const c10::IValue& value, const Type& type, std::uint32_t depth);
}  // namespace detail

/// "Tensor [2, 3] float32", "int 3": for messages.
std::string describe(const c10::IValue& value);
std::string describe(const at::Tensor& tensor);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/values.ipp"
#endif
