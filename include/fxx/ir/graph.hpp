// A program as an ordered list of nodes: what a module's forward does.
//
// Semantics. Nodes run in list order; a node's arguments stand before it. Values are tensors, numbers and containers of
// them. Nothing may be reordered across a mutation of memory that it reads or writes; which nodes mutate follows from
// the operators' schemas. Results may alias their inputs when the schema says so. Arithmetic is what the operators say:
// no rewrite may assume that floating-point addition associates unless a rule states it.
//
// Main names: Graph, InsertPoint. Invariant: use-def links hold after every call, names are unique, at most one output,
// last. Creating, inserting, erasing, comparing positions: O(1) a node and argument. Copying, linting, printing:
// linear. A Graph moves in O(1); copying is deep. Nodes are addressed by pointer and never move.
// Cost: light. After torch.fx graph.py, 2.13.
#pragma once

#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/ir/detail/shared.hpp"
#include "fxx/ir/node.hpp"
#include "fxx/ir/owner.hpp"

namespace fxx::inline FXX_ABI {

/// Where a graph puts new nodes until this guard ends; then the place that was set before holds again.
class [[nodiscard]] InsertPoint {
 public:
  InsertPoint(InsertPoint&& other) noexcept;
  InsertPoint& operator=(InsertPoint&&) = delete;
  ~InsertPoint();

 private:
  friend class Graph;
  explicit InsertPoint(detail::GraphStorage* storage);
  detail::GraphStorage* storage_;
  Node* before_;  // what was set before, or what followed it when it was erased
};

/// As long as this lives, new nodes of its graph have no names; each gets one when somebody first asks for it. For who
/// makes nodes in another order than they stand in and removes some of them again: asked for in order at the end, names
/// count up without gaps. Ask for all before other threads read the graph, since the first to ask writes.
class [[nodiscard]] LateNames {
 public:
  LateNames(LateNames&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)), late_before_(other.late_before_) {}
  LateNames& operator=(LateNames&&) = delete;
  ~LateNames();

 private:
  friend class Graph;
  explicit LateNames(detail::GraphStorage* storage);
  detail::GraphStorage* storage_;
  bool late_before_;
};

/// The nodes of a graph in order. Erasing or inserting while iterating is safe.
class NodeList {
 public:
  template <bool Forward>
  class basic_iterator {
   public:
    using value_type = Node*;
    using difference_type = std::ptrdiff_t;
    basic_iterator() = default;
    explicit basic_iterator(Node* node) : node_(node) {}
    Node* operator*() const { return node_; }
    basic_iterator& operator++() {
      node_ = step(node_, Forward);
      return *this;
    }
    basic_iterator operator++(int) {
      basic_iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const basic_iterator&) const = default;

   private:
    Node* node_ = nullptr;
  };
  using iterator = basic_iterator<true>;

  class Reversed {
   public:
    explicit Reversed(Node* last) : last_(last) {}
    basic_iterator<false> begin() const { return basic_iterator<false>(last_); }
    basic_iterator<false> end() const { return {}; }

   private:
    Node* last_;
  };

  NodeList(Node* first, Node* last, std::size_t size) : first_(first), last_(last), size_(size) {}
  iterator begin() const { return iterator(first_); }
  iterator end() const { return {}; }
  Reversed reversed() const { return Reversed(last_); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// First and last node; null when there is none.
  Node* front() const { return first_; }
  Node* back() const { return last_; }
  /// A copy that stays the same while the graph is edited.
  std::vector<Node*> snapshot() const { return {begin(), end()}; }

 private:
  /// The next node that is still in the list; null at the end. An erased node keeps the neighbours that it had, so a
  /// walk that stands on it finds its way back.
  static Node* step(Node* node, bool forward) {
    do node = forward ? node->next() : node->prev();
    while (node && node->is_erased());
    if (node) node->fetch_ahead(forward);
    return node;
  }
  Node *first_, *last_;
  std::size_t size_;
};

class Graph;
namespace detail {
/// A copy in memory of just its size, without what erased nodes and values have left: for a graph that is kept for long
/// and may be edited, but hardly is.
Graph compact_copy(const Graph& graph);
}  // namespace detail

class Graph {
 public:
  Graph();
  /// Deep copy: nodes, names, meta, order. Nested immutable arguments are shared.
  Graph(const Graph& other);
  Graph& operator=(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  NodeList nodes() const;
  std::size_t size() const;
  /// Above every Node::index() of this graph.
  std::uint32_t index_bound() const;
  /// Changes with every edit and with set_owning_module, so that what was derived from the graph can tell whether it
  /// still holds. No two graphs have the same one.
  std::uint64_t version() const;
  /// False when all calls that were ever put here are of operators without effects, whatever they are given: nobody
  /// needs to look for any. O(1).
  bool may_have_effects() const;
  /// The output node. Throws GraphError (E107) when the last node is not one.
  Node* output_node() const;
  /// The nodes of one opcode, and of one target when it is given, in order. O(nodes).
  std::vector<Node*> find_nodes(Opcode opcode, std::string_view target = {}) const;

  // One node each, at the insertion point; the name is made from the target unless create_node is given one.
  /// An input. A default value becomes the node's only argument.
  Node* placeholder(std::string_view name, std::optional<Argument> default_value = {}, std::string_view type = {});
  Node* get_attr(std::string_view qualified_name);
  Node* call_function(const Operator& op, Arguments args = {}, KeywordArguments kwargs = {});
  Node* call_function(const UserFunction& function, Arguments args = {}, KeywordArguments kwargs = {});
  Node* call_method(std::string_view method, Arguments args = {}, KeywordArguments kwargs = {});
  Node* call_module(std::string_view qualified_name, Arguments args = {}, KeywordArguments kwargs = {});
  /// The value returned. Throws GraphError (E107) when the graph has an output already: unlike torch.fx, two are
  /// refused.
  Node* output(Argument value, std::string_view type = {});
  /// The general form. Throws GraphError when an argument is a node of another graph or an erased one.
  Node* create_node(Op op, Arguments args = {}, KeywordArguments kwargs = {}, std::string_view name = {});

  /// New nodes go before `node`; before the first node when it is null.
  InsertPoint inserting_before(Node* node);
  /// New nodes go after `node`; at the end when it is null.
  InsertPoint inserting_after(Node* node);
  /// New nodes that are given no name get theirs later.
  LateNames naming_late();

  /// Removes a node. Throws GraphError (E102) while it has users, (E101) when it is not in this graph, (E103) when it
  /// was erased before. O(arguments).
  void erase_node(Node* node);
  /// Frees the memory of erased nodes; pointers to them end here. Nothing else reuses their memory.
  void collect_erased();

  /// A copy of `node`, of this or another graph, with each input replaced by what `input(Node*) -> Argument` returns.
  /// Keeps type, meta, and the name when it is free.
  template <class F>
  Node* node_copy(const Node& node, F&& input) {
    std::vector<Argument> args;
    for (const Argument& a : node.args()) args.push_back(map_nodes(a, input));
    std::vector<KeywordArgument> kwargs;
    for (const KeywordArgument& k : node.kwargs()) kwargs.push_back({k.key, map_nodes(k.value, input)});
    return copy_attributes(node, create_node(node.op(), args, kwargs, node.name()));
  }
  /// Copies every node but the output at the insertion point; returns the value that `other` returns, in terms of the
  /// copies. Nodes already in `values` are taken from there instead, which inlines one graph into another.
  Argument graph_copy(const Graph& other, std::map<const Node*, Argument>& values);

  /// Checks every invariant. Throws GraphError that names the node, the argument, what is wrong and what to do.
  /// O(nodes). With an owner it also checks that attributes and modules exist.
  void lint() const;

  /// The module that this graph belongs to, or null. Another graph that is assigned here belongs to it then.
  const Owner* owning_module() const;
  void set_owning_module(const Owner* owner);

  /// How inputs are put together from placeholders; null when every input is one placeholder. Copied with the graph.
  const Signature* signature() const;
  /// A flat signature is none.
  void set_signature(const Signature& signature);
  /// What traces the graph again as it was traced (trace/tracer.hpp); null for a graph that was not traced. Copied with
  /// the graph.
  const detail::Shared<const TracerFactory>& tracer() const;
  void set_tracer(detail::Shared<const TracerFactory> tracer);

  /// Prints opcode, name, target, args and kwargs in columns.
  void print_tabular(std::ostream& out) const;

  /// The text for a key or a type that must live as long as the graph.
  std::string_view intern(std::string_view text);

 private:
  friend class Node;
  friend class InsertPoint;
  friend class LateNames;
  friend Graph detail::compact_copy(const Graph& graph);
  /// Everything of `other`, into an empty graph.
  void copy_from(const Graph& other);
  Node* copy_attributes(const Node& from, Node* to);
  detail::GraphStorage* storage_;
};

/// Every node has the same opcode, target, arguments (up to the correspondence of nodes), type; names may differ.
/// O(nodes).
bool same_structure(const Graph& a, const Graph& b);

}  // namespace fxx::inline FXX_ABI

#include "fxx/ir/print.hpp"  // who has a graph can print it

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/graph.ipp"
#endif
