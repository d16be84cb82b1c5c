// Bodies of trace/scope.hpp.
#pragma once

#include <vector>

#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::string traced_modules() {
  std::vector<const ModuleScope*> scopes;
  for (const ModuleScope* scope = detail::trace_state.module; scope; scope = scope->outer()) scopes.push_back(scope);
  std::string text;
  for (std::size_t i = scopes.size(); i-- > 0;) {
    const std::string_view name = scopes[i]->name(), type = scopes[i]->type();
    if (!text.empty()) text += " > ";
    text += name.empty() ? type : name;
    if (!name.empty() && !type.empty()) text.append(" (").append(type).append(")");
  }
  return text;
}

}  // namespace fxx::inline FXX_ABI
