// Recording: turns operations on proxies into nodes of a graph.
//
// Main names: Tracer, GraphAppendingTracer, TracerOptions, TracerFactory. Everything that is recorded passes through
// the virtual functions, whose names are torch.fx's; override them to change what tracing does.
// Cost: light; recording one call costs well under a microsecond. After torch.fx proxy.py TracerBase, 2.13.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/ir/tracer_factory.hpp"
#include "fxx/trace/operand.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI {

class Proxy;
template <class... V>
class ConcreteArgs;

struct TracerOptions {
  /// Notes the user's frames of every node in meta().stack_trace: 0.2 us a frame while tracing, and some 50 ms for the
  /// lines in the end.
  bool record_stack_traces = false;
  /// Refuses operators that write to their arguments: TraceError (E315).
  bool check_mutable_operations = false;
  bool operator==(const TracerOptions&) const = default;
};

struct InputLeaf;

namespace detail {
struct Backtraces;
}

class Tracer : detail::Box {  // counted only where a graph makes one
  friend class detail::Shared<Tracer>;

 public:
  /// Traces into graphs of its own: trace().
  Tracer() = default;
  /// Appends to `graph`, at its insertion point. The graph outlives the tracer.
  explicit Tracer(Graph& graph) : graph_(&graph) {}
  /// A copy has the settings, and no graph: a trace starts anew.
  Tracer(const Tracer& other) : options(other.options) {}
  Tracer& operator=(const Tracer& other) {
    options = other.options;
    return *this;
  }
  virtual ~Tracer();

  TracerOptions options;

  /// Runs `function` once with proxies and gives what it did: `Graph g = tracer.trace([](auto x) { return relu(x);
  /// });`. A tracer traces any number of functions, one after another. The names of inputs come in order;
  /// concrete_args() binds some of them. Throws TraceError when the function branches on traced values; the tracer can
  /// be used again then.
  template <class F>
  Graph trace(F&& function, std::vector<std::string> names = {});
  template <class F, class... V>
  Graph trace(F&& function, const ConcreteArgs<V...>& inputs);

  /// The graph that is recorded into. Throws TraceError (E308) when no trace runs.
  Graph& graph() const {
    if (!graph_) [[unlikely]]
      no_graph();
    return *graph_;
  }

  /// The tracer of the trace that the calling thread is in; null outside of one.
  static Tracer* current() { return detail::trace_state.tracer; }

  // --- hooks ---------------------------------------------------------------------------------------------------------
  /// Makes every node that tracing makes, and notes on it what is_tracing scopes say.
  virtual Node* create_node(Op op, Arguments args, KeywordArguments kwargs = {}, std::string_view name = {},
                            std::source_location where = {});
  /// Makes every node whose value the traced function gets to see: all but the output.
  virtual Node* create_proxy(Op op, Arguments args, KeywordArguments kwargs = {}, std::string_view name = {},
                             std::source_location where = {});
  /// The node that the traced function gets to see for `node`. (A Proxy is a value of C++ and cannot be replaced by one
  /// of a derived class; what it stands for can.)
  virtual Node* proxy(Node* node) { return node; }
  /// The argument for a value: the node of a proxy, a list of arguments, an immediate, or the attribute of a tensor.
  virtual Argument create_arg(const Operand& value);
  /// One placeholder for each input, in order. An override may name, type or order them in another way.
  virtual std::vector<Node*> create_args_for_root(std::span<const InputLeaf> inputs);
  /// The get_attr node of a tensor of the host library. Throws TraceError (E305) here: a bare tracer has no module.
  virtual Node* attribute(const void* tensor);
  /// A proxy stands where C++ wants a bool: `if (x.sum() > 0)`. Throws TraceError (E301) that names the user's
  /// function; an override may decide instead.
  virtual bool to_bool(const ProxyBase& value);
  /// A proxy is iterated or asked for its length. Throws TraceError (E302) that names the user's function.
  virtual void iter(const ProxyBase& value);
  /// A proxy is asked for its keys. Throws TraceError (E302) that names the user's function.
  virtual std::vector<std::string> keys(const ProxyBase& value);
  /// A proxy stands where C++ wants a number: `int64_t n = x.size(0)`, `x.size(0) > 1`. Throws TraceError (E301) that
  /// names the user's function; an override may know the number.
  virtual Argument to_number(const ProxyBase& value);
  /// What makes tracers like this one; graphs remember it. Null here for derived classes: symbolic_trace() knows their
  /// type and remembers them by itself, trace() asks here. `return remember(*this);` does.
  virtual detail::Shared<const TracerFactory> factory() const;
  /// Are the types of inputs and of the result noted as C++ spells them, "torch::Tensor"? Not here: only the LibTorch
  /// wing knows that there is LibTorch.
  virtual bool annotates_types() const { return false; }

  // --- recording -----------------------------------------------------------------------------------------------------
  Proxy placeholder(std::string_view name, std::optional<Argument> default_value = {}, std::string_view type = {});
  /// A call of an operator. Trailing operands that were left out are not recorded; after a gap the rest goes by name.
  Node* call_function(const Operator& op, std::span<const Operand* const> operands);
  Node* call_function(const UserFunction& function, std::span<const Operand* const> operands);
  /// A call of a method of the first operand.
  Node* call_method(std::string_view method, const Operator* resolved, std::span<const Operand* const> operands,
                    std::source_location where);
  /// The value of item `index` of a node that returns several. One getitem node an item, made when first asked for.
  Node* item(Node* node, int index);
  /// The node of a proxy of this trace. Throws TraceError (E304) for one of another.
  Node* node_of(const ProxyBase& value) const;
  /// The output of several items of one node, all of them in order, is the node itself, as in torch.fx.
  Argument collapse_items(std::span<const ProxyBase* const> values);

  /// Where a fault happens: the node of a value, the user's function or line, the modules being traced.
  static ErrorContext context(const Node* value = nullptr);

 protected:
  /// "user_function(...) at model.cpp:41", as far as symbols tell; else with the line that made `value`, when that is
  /// known.
  static std::string user_source(const Node* value = nullptr);
  /// The class of what is traced, for messages.
  virtual std::string root_name() const { return {}; }

  /// A graph that is traced into, while this lives.
  class [[nodiscard]] Session {
   public:
    Session(Tracer& tracer, Graph& graph);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();
    /// Writes down what was noted of the nodes, which is done once.
    void finish();

   private:
    Tracer& tracer_;
    Graph* before_;
    std::string root_;
    detail::TracingScope scope_;
  };

 private:
  [[noreturn]] void no_graph() const;
  void bind(const Operator* op, std::span<const Operand* const> operands, std::vector<Argument>& args,
            std::vector<KeywordArgument>& kwargs);
  void refuse_mutation(const Op& op, KeywordArguments kwargs) const;

  Graph* graph_ = nullptr;
  bool in_session_ = false;
  std::unordered_map<std::uint64_t, Node*> items_;  // by node index and item
  detail::Backtraces* backtraces_ = nullptr;        // made when the first is noted
};

/// Appends what is done with its proxies to an existing graph, at its insertion point (torch.fx: GraphAppendingTracer).
/// Names that the graph has are not used again. A copy appends to the same graph.
class GraphAppendingTracer : public Tracer {
 public:
  explicit GraphAppendingTracer(Graph& graph) : Tracer(graph) {}
  GraphAppendingTracer(const GraphAppendingTracer& other) : Tracer(other.graph()) { options = other.options; }
  GraphAppendingTracer& operator=(const GraphAppendingTracer&) = delete;
};

/// A factory of copies of `tracer`, by its own type: a tracer is copied with its settings, without its graph.
template <std::derived_from<Tracer> T>
detail::Shared<const TracerFactory> remember(const T& tracer) {
  class Copies final : public TracerFactory {
   public:
    explicit Copies(const T& tracer) : tracer_(tracer) {}
    detail::Shared<Tracer> make() const override { return detail::Shared<Tracer>(new T(tracer_)); }

   private:
    T tracer_;
  };
  return detail::Shared<const TracerFactory>(new Copies(tracer));
}

namespace detail {
/// The tracer of a call: that of its first proxy. Throws TraceError (E308) when there is none, (E304) when there are
/// two.
Tracer& tracer_of(std::span<const Operand* const> operands);
/// What a node for the call would have as arguments.
std::vector<Argument> arguments_of(Tracer& tracer, std::span<const Operand* const> operands);
}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/proxy.hpp"  // which includes the bodies of both
#endif
