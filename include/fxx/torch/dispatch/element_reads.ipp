// Bodies of torch/dispatch/element_reads.hpp.
#pragma once

#include <string_view>

#include "fxx/torch/dispatch/element_reads.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::uint32_t ElementReads::results_that_read(const Operator& op, std::size_t argument,
                                                         bool sized_by_elements) {
  const Less& less = known(op);
  if (less.argument != static_cast<int>(argument)) return ~0u;
  return sized_by_elements && less.sizes ? ~0u : less.results;
}

FXX_INLINE bool ElementReads::each_by_itself(const Operator& op) { return known(op).each_by_itself; }

FXX_INLINE const ElementReads::Less& ElementReads::known(const Operator& op) {
  const auto [known, fresh] = known_.try_emplace(&op);
  if (fresh) known->second = less_of(op);
  return known->second;
}

FXX_INLINE ElementReads::Less ElementReads::less_of(const Operator& op) {
  if (op.name_space() != "aten") return {};
  const std::string_view name = op.base_name();
  // Factories with the sizes given, dtype and device those of a tensor.
  if (name.starts_with("new_")) return {op.index_of("self"), 0, false};
  if (name.ends_with("_like")) return {op.index_of("self"), 0};
  if (name == "_shape_as_tensor") return {op.index_of("self"), 0};
  if (name == "_dim_arange") return {op.index_of("like"), 0};
  // The second tensor gives a dtype or sizes to the first.
  if (name == "type_as" || (name == "to" && op.overload_name() == "other")) return {op.index_of("other"), 0, false};
  if (name == "view_as" || name == "reshape_as" || name == "expand_as") return {op.index_of("other"), 0};
  if (name == "resize_as_" || name == "resize_as") return {op.index_of("the_template"), 0};
  const bool gives_list = op.returns.size() == 1 && op.returns[0].type.list;
  if (gives_list && (name == "broadcast_tensors" || name == "meshgrid" || name.starts_with("atleast_") ||
                     name.starts_with("_foreach_")))
    return {.each_by_itself = true};
  // How many sequences take each step, and their lengths, follow from the lengths alone.
  if (name == "_pack_padded_sequence") return {op.index_of("input"), 1};
  if (name == "_pad_packed_sequence") return {op.index_of("data"), 1};
  return {};
}

}  // namespace fxx::inline FXX_ABI::detail
