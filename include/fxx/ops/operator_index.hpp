// Places of the operators in the table, for look-up without a hash.
// Main names: OperatorIndex, table_operator. Cost: light.
#pragma once

#include <cstdint>

#include "fxx/ir/operator.hpp"

namespace fxx::inline FXX_ABI {

enum class OperatorIndex : std::uint16_t {
#define FXX_OP(function_, name_, schema_, traits_) name_,
#include "fxx/ops/table.inc"
#undef FXX_OP
};
/// The operator at that place. O(1). In ops/registry.ipp.
const Operator& table_operator(OperatorIndex index);

}  // namespace fxx::inline FXX_ABI
