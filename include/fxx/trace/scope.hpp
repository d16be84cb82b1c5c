// What a thread is tracing at the moment, whichever tracer does it: whether at all, within which modules, and what is
// to be noted on the nodes that it makes.
//
// Tracers open scopes; nodes and faults take what they say of themselves from the innermost ones. A scope lives on the
// stack of the thread that opened it, and ends in the reverse order.
// Main names: is_tracing, annotate, ModuleScope, traced_modules; detail::TracingScope for tracers. Cost: light; a scope
// costs a few stores, a node within one a reference count.
#pragma once

#include <any>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/config.hpp"
#include "fxx/ir/module_stack.hpp"

namespace fxx::inline FXX_ABI {

class Annotation;
class ModuleScope;
class Node;
namespace detail {
class OriginScope;
}
class Tracer;

namespace detail {
struct TraceState {
  int depth = 0;                           // traces that run, one within another
  Tracer* tracer = nullptr;                // of the innermost; null when it traces at the dispatcher
  const ModuleScope* module = nullptr;     // the innermost
  const Annotation* annotation = nullptr;  // the innermost
  const OriginScope* origin = nullptr;     // the innermost
  std::string_view root = {};              // the class of the module that is traced
};
inline constinit thread_local TraceState trace_state;
}  // namespace detail

/// Is the calling thread tracing, symbolically or at the dispatcher (torch.fx: is_fx_symbolic_tracing)?
inline bool is_tracing() { return detail::trace_state.depth > 0; }

/// The forward of a submodule, from here to the end of the scope: nodes made in it have it on their module_stack().
/// Tracers open one for each call of a submodule that they see; code that calls a submodule in a way that they cannot
/// see (`net->block->forward(x)`) may open one itself.
class [[nodiscard]] ModuleScope {
 public:
  /// `name`: qualified; `type`: as messages spell it; `call`: how many calls of it came before in this trace. Both
  /// texts outlive the scope.
  explicit ModuleScope(std::string_view name, std::string_view type = {}, std::uint32_t call = 0)
      : name_(name), type_(type), call_(call), outer_(detail::trace_state.module) {
    detail::trace_state.module = this;
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;
  ~ModuleScope() { detail::trace_state.module = outer_; }

  std::string_view name() const { return name_; }
  std::string_view type() const { return type_; }
  /// The scope around this one; null for the outermost.
  const ModuleScope* outer() const { return outer_; }
  /// This call within those around it; made once.
  const ModuleStack& stack() const;

 private:
  std::string_view name_, type_;
  std::uint32_t call_;
  const ModuleScope* outer_;
  mutable ModuleStack stack_;
};

/// See annotate().
class [[nodiscard]] Annotation {
 public:
  using Entries = std::vector<std::pair<std::string, std::any>>;
  explicit Annotation(Entries entries) : entries_(std::move(entries)), outer_(detail::trace_state.annotation) {
    detail::trace_state.annotation = this;
  }
  Annotation(const Annotation&) = delete;
  Annotation& operator=(const Annotation&) = delete;
  ~Annotation() { detail::trace_state.annotation = outer_; }

  const Entries& entries() const { return entries_; }
  const Annotation* outer() const { return outer_; }

 private:
  Entries entries_;
  const Annotation* outer_;
};

/// Notes values on every node that is made from here to the end of the scope, in its meta().custom (torch.fx:
/// fx_traceback.annotate): `const auto stage = fxx::annotate({{"stage", 1}});`. Inner scopes add to outer ones; under
/// one key the innermost value holds. Where nothing is recorded it does nothing.
inline Annotation annotate(Annotation::Entries entries) { return Annotation(std::move(entries)); }

/// "Net > encoder (Encoder) > encoder.0 (Layer)": the modules whose forward is traced in this thread, for ErrorContext.
/// Empty when nothing is traced.
std::string traced_modules();

namespace detail {

/// A trace, from its start to its end. Scopes of what is around it are hidden for that time.
class [[nodiscard]] TracingScope {
 public:
  /// `root`: the class of the module that is traced, for messages; outlives the scope.
  explicit TracingScope(Tracer* tracer = nullptr, std::string_view root = {}) : before_(trace_state) {
    trace_state = {before_.depth + 1, tracer, nullptr, nullptr, nullptr, root};
  }
  TracingScope(const TracingScope&) = delete;
  TracingScope& operator=(const TracingScope&) = delete;
  ~TracingScope() { trace_state = before_; }

 private:
  TraceState before_;
};

/// A node that is being recorded again: what was noted of it is noted on the nodes that take its place.
class [[nodiscard]] OriginScope {
 public:
  explicit OriginScope(const Node& node)
      : node_(node), around_(trace_state.module), outer_(std::exchange(trace_state.origin, this)) {}
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;
  ~OriginScope() { trace_state.origin = outer_; }

  const Node& node() const { return node_; }
  /// The module that the node's graph is inlined into; null for none.
  const ModuleScope* around() const { return around_; }

 private:
  const Node& node_;
  const ModuleScope* around_;
  const OriginScope* outer_;
};

/// Is there anything to note on a node that is made now?
inline bool in_scope() { return trace_state.module || trace_state.annotation || trace_state.origin; }
/// Notes it.
void note_scope(Node& node);

}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/scope.ipp"
#endif
