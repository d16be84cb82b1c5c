// Recording: turns operations on proxies into nodes of a graph.
//
// Main names: Tracer, GraphAppendingTracer. Everything that is recorded passes through the virtual functions, whose
// names are torch.fx's; override them to change what tracing does.
// Cost: light; recording one call costs well under a microsecond. After torch.fx proxy.py TracerBase, 2.13.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/trace/operand.hpp"

namespace fxx::inline FXX_ABI {

class Proxy;

class Tracer {
 public:
  explicit Tracer(Graph& graph) : graph_(&graph) {}
  virtual ~Tracer() = default;

  Graph& graph() const { return *graph_; }

  // --- hooks ---------------------------------------------------------------------------------------------------------
  /// Makes every node that tracing makes.
  virtual Node* create_node(Op op, Arguments args, KeywordArguments kwargs = {}, std::string_view name = {},
                            std::source_location where = {});
  /// The argument for a value: the node of a proxy, a list of arguments, an immediate, or the attribute of a tensor.
  virtual Argument create_arg(const Operand& value);
  /// The get_attr node of a tensor of the host library. Throws TraceError (E305) here: a bare tracer has no module.
  virtual Node* attribute(const void* tensor);
  /// A proxy stands where C++ wants a bool: `if (x.sum() > 0)`. Throws TraceError (E301) that names the user's
  /// function; an override may decide instead.
  virtual bool to_bool(const ProxyBase& value);
  /// A proxy is iterated or asked for its length. Throws TraceError (E302) that names the user's function.
  virtual void iter(const ProxyBase& value);
  /// A proxy stands where C++ wants a number: `int64_t n = x.size(0)`, `x.size(0) > 1`. Throws TraceError (E301) that
  /// names the user's function; an override may know the number.
  virtual Argument to_number(const ProxyBase& value);

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

 protected:
  /// Where a fault happens: the node of a value, the user's function or line, the modules being traced.
  static ErrorContext context(const Node* value = nullptr);
  /// "user_function(...) at model.cpp:41", as far as symbols tell; else with the line that made `value`, when that is
  /// known.
  static std::string user_source(const Node* value = nullptr);

 private:
  void bind(const Operator* op, std::span<const Operand* const> operands, std::vector<Argument>& args,
            std::vector<KeywordArgument>& kwargs);

  Graph* graph_;
  std::unordered_map<std::uint64_t, Node*> items_;  // by node index and item
};

/// Appends what is done with its proxies to an existing graph, at its insertion point (torch.fx: GraphAppendingTracer).
class GraphAppendingTracer : public Tracer {
 public:
  using Tracer::Tracer;
};

namespace detail {
/// The tracer of a call: that of its first proxy. Throws TraceError (E308) when there is none, (E304) when there are
/// two.
Tracer& tracer_of(std::span<const Operand* const> operands);
Node* record_function(const Operator& op, std::initializer_list<const Operand*> operands);
Node* record_method(std::string_view name, const Operator& op, std::initializer_list<const Operand*> operands,
                    std::source_location where);
}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/proxy.hpp"  // which includes the bodies of both
#endif
