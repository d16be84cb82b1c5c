// Bodies of trace/scope.hpp.
#pragma once

#include <algorithm>

#include "fxx/ir/graph.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE const ModuleStack& ModuleScope::stack() const {
  if (stack_.empty())
    stack_ = ModuleStack(outer_ ? outer_->stack() : ModuleStack(), {std::string(name_), std::string(type_), call_});
  return stack_;
}

FXX_INLINE std::string traced_modules() {
  std::vector<const ModuleScope*> scopes;
  for (const ModuleScope* scope = detail::trace_state.module; scope; scope = scope->outer()) scopes.push_back(scope);
  std::string text(detail::trace_state.root);
  for (std::size_t i = scopes.size(); i-- > 0;) {
    if (!text.empty()) text += " > ";
    text += scopes[i]->name();
    if (!scopes[i]->type().empty()) text.append(" (").append(scopes[i]->type()).append(")");
  }
  return text;
}

FXX_INLINE void detail::note_scope(Node& node) {
  const auto add = [&](const std::string& key, const std::any& value) {
    auto& custom = node.meta().custom;
    const auto known = [&](const auto& entry) { return entry.first == key; };
    if (std::none_of(custom.begin(), custom.end(), known)) custom.emplace_back(key, value);
  };
  if (trace_state.origin) {
    // Modules of the graph that is recorded again lie within the one that it is inlined into.
    const Node& old = trace_state.origin->node();
    const ModuleScope* around = trace_state.origin->around();
    ModuleStack stack = around ? around->stack() : ModuleStack();
    if (!around) stack = old.module_stack();
    else
      for (const ModuleFrame& frame : old.module_stack().frames())
        stack = ModuleStack(stack, {std::string(around->name()) + "." + frame.name, frame.type, frame.call});
    node.set_module_stack(std::move(stack));
    if (old.location().line() != 0) node.set_location(old.location());
    if (old.has_meta()) {
      if (!old.meta().stack_trace.empty()) node.meta().stack_trace = old.meta().stack_trace;
      for (const auto& [key, value] : old.meta().custom) add(key, value);
    }
  } else if (trace_state.module) {
    node.set_module_stack(trace_state.module->stack());
  }
  for (const Annotation* annotation = trace_state.annotation; annotation; annotation = annotation->outer())
    for (const auto& [key, value] : annotation->entries()) add(key, value);
}

}  // namespace fxx::inline FXX_ABI
