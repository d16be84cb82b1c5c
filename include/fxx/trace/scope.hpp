// What a thread is tracing at the moment, whichever tracer does it: whether at all, and within which modules.
//
// Tracers open scopes; nodes and faults take what they say of themselves from the innermost ones. A scope lives on the
// stack of the thread that opened it, and ends in the reverse order.
// Main names: is_tracing, ModuleScope, traced_modules; detail::TracingScope for tracers. Cost: light; a scope costs two
// stores.
#pragma once

#include <string>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

class ModuleScope;

namespace detail {
struct TraceState {
  int depth = 0;                        // traces that run, one within another
  const ModuleScope* module = nullptr;  // the innermost
};
inline constinit thread_local TraceState trace_state;
}  // namespace detail

/// Is the calling thread tracing, symbolically or at the dispatcher (torch.fx: is_fx_symbolic_tracing)?
inline bool is_tracing() { return detail::trace_state.depth > 0; }

/// The forward of a module, from here to the end of the scope. Tracers open one for each call of a submodule that they
/// see; code that calls a submodule in a way that they cannot see may open one itself. Does nothing outside of a trace.
class [[nodiscard]] ModuleScope {
 public:
  /// `name`: qualified, "" for the root; `type` as messages spell it. Both outlive the scope.
  explicit ModuleScope(std::string_view name, std::string_view type = {})
      : name_(name), type_(type), outer_(detail::trace_state.module) {
    detail::trace_state.module = this;
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;
  ~ModuleScope() { detail::trace_state.module = outer_; }

  std::string_view name() const { return name_; }
  std::string_view type() const { return type_; }
  /// The scope around this one; null for the outermost.
  const ModuleScope* outer() const { return outer_; }

 private:
  std::string_view name_, type_;
  const ModuleScope* outer_;
};

/// "Net > encoder (Encoder) > encoder.0 (Layer)": the modules whose forward runs in this thread, for ErrorContext.
/// Empty when no scope is open.
std::string traced_modules();

namespace detail {

/// A trace, from its start to its end. Scopes of a trace around it are hidden for that time.
class [[nodiscard]] TracingScope {
 public:
  TracingScope() : before_(trace_state) { trace_state = {before_.depth + 1, nullptr}; }
  TracingScope(const TracingScope&) = delete;
  TracingScope& operator=(const TracingScope&) = delete;
  ~TracingScope() { trace_state = before_; }

 private:
  TraceState before_;
};

}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/scope.ipp"
#endif
