// One operation of a graph: an opcode with its target, arguments, and the nodes that use its result.
//
// Main names: Node, NodeRange, NodeMeta, Arguments, KeywordArguments. Invariant: for every node in `all_input_nodes()`
// this node is among its `users()`, exactly once, and the reverse. A Node belongs to one Graph and lives as long as it:
// a pointer stays valid even after erase_node, flagged is_erased().
// Cost: light; a node of a binary operator takes 288 bytes and its name. After torch.fx node.py, 2.13.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/ir/argument.hpp"
#include "fxx/ir/module_stack.hpp"
#include "fxx/ir/op.hpp"
#include "fxx/ir/tensor_meta.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// A list borrowed for the length of a call, from braces, a vector or a span.
template <class T>
class Borrowed {
 public:
  Borrowed() = default;
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  Borrowed(std::initializer_list<T> list) : data_(list.begin()), size_(list.size()) {}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  Borrowed(const std::vector<T>& vector) : data_(vector.data()), size_(vector.size()) {}
  Borrowed(std::span<const T> span) : data_(span.data()), size_(span.size()) {}
  std::span<const T> span() const { return {data_, size_}; }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};
}  // namespace detail

/// Positional arguments of a call: `{x, 2, true}`.
using Arguments = detail::Borrowed<Argument>;
/// Keyword arguments of a call: `{{"dim", -1}, {"keepdim", true}}`.
using KeywordArguments = detail::Borrowed<KeywordArgument>;

/// What passes hang on a node besides its arguments. Copied with the node.
struct NodeMeta {
  std::string stack_trace;                               // the user's lines, innermost last; empty when not recorded
  std::vector<std::pair<std::string, std::any>> custom;  // what fxx::annotate, or a pass, said of it
  std::string_view rule;                                 // the rewrite that made it last; empty for what the user wrote
  // The name of the node that it stands for, as it was before the first rewrite; empty where the same run of rewrites
  // made that one.
  std::string from;
};

namespace detail {
struct GraphStorage;

/// One link of the use-def chain: `user` has `input` among its arguments, however often.
struct Edge {
  Node* input;
  Node* user;
  Edge* previous;  // among the users of `input`, in order of insertion
  Edge* next;
};

/// The part of a node that walks and matchers seldom read. It lies elsewhere, since large graphs do not fit into caches.
struct ColdNode {
  GraphStorage* storage = nullptr;
  std::uint64_t order = 0;
  Edge *first_user = nullptr, *last_user = nullptr;
  const char* name_text = nullptr;  // null until somebody asks, while names are given late
  std::uint32_t name_size = 0, kwargs_size = 0;
  NodeMeta* meta = nullptr;
  const TensorMeta* tensor_meta = nullptr;
  Op op;
  const std::string_view* type = nullptr;
  std::source_location location = {};
  ModuleStack module_stack;

  std::string_view name() const { return {name_text, name_size}; }
  void set_name(std::string_view name) {
    name_text = name.data();
    name_size = static_cast<std::uint32_t>(name.size());
  }
};
static_assert(sizeof(void*) != 8 || sizeof(ColdNode) <= 128);
}  // namespace detail

/// The nodes at one end of some edges, in order.
template <bool Users>
class NodeRange {
 public:
  class iterator {
   public:
    using value_type = Node*;
    using difference_type = std::ptrdiff_t;
    iterator() = default;
    explicit iterator(const detail::Edge* edge) : edge_(edge) {}
    Node* operator*() const { return Users ? edge_->user : edge_->input; }
    iterator& operator++() {
      edge_ = Users ? edge_->next : edge_ + 1;
      return *this;
    }
    iterator operator++(int) {
      iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const iterator&) const = default;

   private:
    const detail::Edge* edge_ = nullptr;
  };
  NodeRange(const detail::Edge* first, const detail::Edge* last, std::size_t size)
      : first_(first), last_(last), size_(size) {}
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(last_); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Node* front() const { return *begin(); }
  bool contains(const Node* node) const {
    for (Node* n : *this)
      if (n == node) return true;
    return false;
  }
  /// A copy that stays the same while the graph is edited.
  std::vector<Node*> snapshot() const { return {begin(), end()}; }

 private:
  const detail::Edge *first_, *last_;
  std::size_t size_;
};

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const Op& op() const { return cold_->op; }
  Opcode opcode() const { return opcode_; }
  /// Changes what the node does; arguments stay. Throws GraphError (E107) when it would make or unmake an output.
  void set_op(Op op);

  /// The target as text: "x", "linear.weight", "torch.ops.aten.add.Tensor", "output".
  std::string target() const;
  /// Unique within the graph; a valid C++ identifier. The text lives as long as the graph.
  std::string_view name() const { return cold_->name_text ? cold_->name() : name_now(); }
  /// False where it gets its name later (LateNames), and nobody has asked yet.
  bool has_name() const { return cold_->name_text != nullptr; }
  /// Gives the name, or `name_1` and so on when it is taken.
  void rename(std::string_view name);
  /// Exchanges the names of two nodes of one graph, erased ones too: who replaces a node can go on under its name.
  void swap_names(Node& other);

  std::span<const Argument> args() const { return {args_, args_size_}; }
  std::span<const KeywordArgument> kwargs() const {
    return has_kwargs_ ? std::span<const KeywordArgument>(own_kwargs(), cold_->kwargs_size)
                       : std::span<const KeywordArgument>();
  }
  // Setters keep the use-def links right. Throw GraphError when an argument is a node of another graph or an erased
  // one. O(arguments).
  void set_args(Arguments args);
  void set_kwargs(KeywordArguments kwargs);
  void set_args_kwargs(Arguments args, KeywordArguments kwargs);
  /// Throws GraphError (E109) when there is no such position.
  void update_arg(std::size_t index, Argument value);
  void insert_arg(std::size_t index, Argument value);
  /// Sets or adds one keyword argument.
  void update_kwarg(std::string_view key, Argument value);
  /// Positional argument `i`. Throws GraphError (E109) naming the node when there is none.
  const Argument& arg(std::size_t i) const;
  /// Keyword argument of this name, or null.
  const Argument* kwarg(std::string_view key) const;

  /// Nodes that use the result, each once, in order of insertion.
  NodeRange<true> users() const { return {cold_->first_user, nullptr, users_size_}; }
  /// Nodes among the arguments, each once, in order of appearance.
  NodeRange<false> all_input_nodes() const { return {edges(), edges() + edges_size_, edges_size_}; }
  std::size_t num_users() const { return users_size_; }

  /// Every use of this node becomes a use of `replacement`; returns the changed users in order. O(their arguments).
  std::vector<Node*> replace_all_uses_with(Node* replacement);
  /// Likewise for the users that `filter(Node*)` approves.
  template <class Filter>
  std::vector<Node*> replace_all_uses_with(Node* replacement, Filter&& filter) {
    std::vector<Node*> changed;
    for (Node* user : users().snapshot())
      if (filter(user)) {
        user->replace_input_with(this, replacement);
        changed.push_back(user);
      }
    return changed;
  }
  /// Every occurrence of `old_input` among the arguments becomes `new_input`.
  void replace_input_with(Node* old_input, Node* new_input);

  Graph& graph() const;
  /// Neighbours in the list; null at the ends.
  Node* next() const { return next_->is_root_ ? nullptr : next_; }
  Node* prev() const { return previous_->is_root_ ? nullptr : previous_; }
  /// Moves `node` before / after this one. Moving a node before itself changes nothing. O(1).
  void prepend(Node* node);
  void append(Node* node);
  /// Earlier in the list than `other`? O(1).
  bool is_before(const Node& other) const { return cold_->order < other.cold_->order; }
  friend bool operator<(const Node& a, const Node& b) { return a.is_before(b); }
  bool is_erased() const { return erased_; }
  /// Number of the node in its graph, in order of creation: below graph().index_bound(), never given twice. For tables
  /// beside the graph: a vector indexed by it.
  std::uint32_t index() const { return index_; }

  /// Type annotation as C++ spells it; empty when there is none.
  std::string_view type() const { return cold_->type ? *cold_->type : std::string_view(); }
  void set_type(std::string_view type);
  /// Shape and dtype of the value, or null when unknown.
  const TensorMeta* tensor_meta() const { return cold_->tensor_meta; }
  void set_tensor_meta(const TensorMeta& meta);
  void clear_tensor_meta() { cold_->tensor_meta = nullptr; }
  /// Where the user's code made it; line 0 when unknown.
  std::source_location location() const { return cold_->location; }
  void set_location(std::source_location where) { cold_->location = where; }
  /// The user's line as text, the innermost of the stack trace, or the location; empty when neither is known.
  std::string source() const;
  /// The calls of modules that it came from; empty in the root, and when not recorded.
  const ModuleStack& module_stack() const { return cold_->module_stack; }
  void set_module_stack(ModuleStack stack) { cold_->module_stack = std::move(stack); }
  bool has_meta() const { return cold_->meta != nullptr; }
  NodeMeta& meta();
  const NodeMeta& meta() const;

  /// Ask the memory for the node, or for all that it points to, for who comes here soon: a processor guesses what lies
  /// side by side, but not where a pointer leads.
  void fetch() const { __builtin_prefetch(this); }
  void fetch_rest() const {
    __builtin_prefetch(args_);
    __builtin_prefetch(edges());
    for (std::size_t at = 0; at < sizeof(detail::ColdNode); at += 64)
      __builtin_prefetch(reinterpret_cast<const std::byte*>(cold_) + at);
  }
  /// Or for what its users change.
  void fetch_links() const { __builtin_prefetch(cold_); }
  /// Likewise for the nodes that a walk forward, or back, comes to soon: most lie in memory in the order of the list,
  /// and so do their arguments. No processor guesses that from the chain of pointers.
  void fetch_ahead(bool forward) const {
    const auto near = [&](const void* at) {
      constexpr std::uintptr_t distance = 4096;  // 64 nodes, the arguments of some 40
      __builtin_prefetch(
          reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + (forward ? distance : -distance)));
    };
    near(this);
    near(args_);
    near(edges());
  }

  /// The operator that a call stands for: the target of a call_function, or what a call_method was resolved to. Null
  /// for all else, and for a method that nobody has resolved yet (ops/registry.hpp does).
  const Operator* operation() const { return operation_; }
  /// Is it a call of this operator, `node->calls(ops::relu)`? One operator may be at two addresses, so pointers do not
  /// tell.
  bool calls(const Operator& op) const { return operation_ && *operation_ == op; }
  /// Remembers which operator a call_method means; forgotten when the node changes.
  void set_resolved(const Operator* op) const { operation_ = op; }

  /// The family of `operation()` (Operator::family), where the node is a call that can be nothing but that operator:
  /// not in place, and no number where a tensor may stand. `no_call` for placeholders and attributes; `any_call` for
  /// all else, methods too. What a matcher asks first: one byte, and no look at operator or arguments.
  static constexpr std::uint8_t no_call = 63, any_call = 64;
  std::uint8_t family() const { return family_; }
  /// What that is of a call of `op` with the arguments of this node.
  std::uint8_t family_as(const Operator& op) const {
    // A number makes another operator of `add.Tensor`; by name it may stand anywhere.
    const bool number = has_kwargs_ || (args_size_ > 1 && args_[1].is_number());
    return op.mutates || (op.second_is_tensor && number) ? any_call : op.family;
  }

 private:
  friend class Graph;
  friend struct detail::GraphStorage;
  Node() = default;
  std::string_view name_now() const;
  detail::Edge* edges() const { return reinterpret_cast<detail::Edge*>(args_ + args_size_); }
  KeywordArgument* own_kwargs() const { return reinterpret_cast<KeywordArgument*>(edges() + edges_size_); }

  // What walks and matchers read: 64 bytes, a cache line of most processors.
  Node *previous_ = nullptr, *next_ = nullptr;
  mutable const Operator* operation_ = nullptr;
  Argument* args_ = nullptr;  // behind them stand the edges, and behind these what kwargs() are
  detail::ColdNode* cold_ = nullptr;
  std::uint32_t index_ = 0, mark_ = 0;
  std::uint32_t args_size_ = 0, edges_size_ = 0, users_size_ = 0;
  std::uint8_t family_ = any_call;
  Opcode opcode_ = {};  // of cold_->op
  bool erased_ : 1 = false, is_root_ : 1 = false, has_kwargs_ : 1 = false;
};
static_assert(sizeof(void*) != 8 || sizeof(Node) == 64);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/graph.hpp"  // whose bodies serve nodes too
#endif
