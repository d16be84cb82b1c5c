// What a node may be called.
// Main names: snake_case, is_made_from, is_reserved_name. Cost: light.
#pragma once

#include <string>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// "SelfAttention.fc1" -> "self_attention_fc1": lower case, what no identifier may hold becomes `_`. Not unique.
std::string snake_case(std::string_view text);
/// Is `name` what a node gets to be called when nobody names it, for a target of this base: "relu", "relu_3"?
bool is_made_from(std::string_view name, std::string_view base);
/// Words that generated C++, or the graph's own text, cannot use as a variable.
bool is_reserved_name(std::string_view name);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/names.ipp"
#endif
