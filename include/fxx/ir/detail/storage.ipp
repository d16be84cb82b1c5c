// Bodies of ir/detail/storage.hpp: arguments and their users, and the order of nodes.
#pragma once

#include <algorithm>
#include <atomic>

#include "fxx/error.hpp"
#include "fxx/ir/detail/storage.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

FXX_INLINE std::uint64_t first_version() {
  static std::atomic<std::uint64_t> graphs = 0;
  return graphs.fetch_add(1, std::memory_order_relaxed) << 32;
}

FXX_INLINE GraphStorage::GraphStorage(Graph* owner_graph) : graph(owner_graph) {
  root.previous_ = root.next_ = &root;
  root.cold_ = &cold_root;
  cold_root.storage = this;
  root.is_root_ = true;
  before = &root;
}
FXX_INLINE GraphStorage::~GraphStorage() {
  for (Node* n = root.next_; n != &root;) {
    Node* next = n->next_;
    destroy(n);
    n = next;
  }
  for (Node* n : erased) destroy(n);
}

FXX_INLINE void GraphStorage::check_input(const Node* user, const Node* input) const {
  const auto fail = [&](ErrorId id, const char* what, const char* advice) {
    throw GraphError(id, "Node: argument '" + std::string(input ? input->name() : "null") + "' of node '" +
                             std::string(user ? user->name() : "(new)") + "' " + what + "; " + advice);
  };
  if (!input || input->cold_->storage != this)
    fail(ErrorId::node_not_in_graph, "does not belong to this Graph",
         "copy the node into this graph first, or map it with node_copy or graph_copy");
  if (input->erased_) fail(ErrorId::node_erased, "was erased", "use a node that is still in the graph");
}

FXX_INLINE void GraphStorage::collect_inputs(Node* user, std::span<const Argument> args,
                                             std::span<const KeywordArgument> kwargs, std::vector<Node*>& found) {
  found.clear();
  ++epoch;
  const auto visit_node = [&](Node* input) {
    check_input(user, input);
    if (input->mark_ == epoch) return;
    input->mark_ = epoch;
    found.push_back(input);
  };
  for (const Argument& a : args) for_each_node(a, visit_node);
  for (const KeywordArgument& k : kwargs) for_each_node(k.value, visit_node);
}

FXX_INLINE void GraphStorage::drop_arguments(Node* node) {
  for (std::uint32_t i = 0; i < node->edges_size_; ++i) unlink(node->edges()[i]);
  for (std::uint32_t i = 0; i < node->args_size_; ++i) node->args_[i].~Argument();
  const std::span<const KeywordArgument> kwargs = node->kwargs();
  for (std::size_t i = 0; i < kwargs.size(); ++i) node->own_kwargs()[i].~KeywordArgument();
  argument_arena.release(node->args_, size_of_arguments(node->args_size_, node->edges_size_, kwargs.size()));
  node->args_ = nullptr;
  node->args_size_ = node->edges_size_ = 0;
  node->has_kwargs_ = false;
}

FXX_INLINE void GraphStorage::assign(Node* node, std::span<const Argument> args,
                                     std::span<const KeywordArgument> kwargs) {
  collect_inputs(node, args, kwargs, inputs);
  ++version;
  auto* new_args = static_cast<Argument*>(
      argument_arena.allocate(size_of_arguments(args.size(), inputs.size(), kwargs.size())));
  auto* new_kwargs =
      reinterpret_cast<KeywordArgument*>(reinterpret_cast<Edge*>(new_args + args.size()) + inputs.size());
  std::uninitialized_copy(args.begin(), args.end(), new_args);  // before the old ones go: they may be the same
  for (std::size_t i = 0; i < kwargs.size(); ++i)
    new (new_kwargs + i)
        KeywordArgument{kwargs[i].key.empty() ? std::string_view() : intern(kwargs[i].key), kwargs[i].value};
  if (node->args_size_ || node->has_kwargs_) drop_arguments(node);
  node->args_ = new_args;
  node->args_size_ = static_cast<std::uint32_t>(args.size());
  if (!kwargs.empty()) {
    node->has_kwargs_ = true;
    node->cold_->kwargs_size = static_cast<std::uint32_t>(kwargs.size());
  }
  link_inputs(node);
  note_family(*node);
}

FXX_INLINE void GraphStorage::note_family(Node& node) {
  const Operator* op = node.opcode() == Opcode::call_function ? node.operation_ : nullptr;
  const bool no_call = node.opcode() == Opcode::placeholder || node.opcode() == Opcode::get_attr;
  node.family_ = op ? node.family_as(*op) : no_call ? Node::no_call : Node::any_call;
}

FXX_INLINE void GraphStorage::link_inputs(Node* node) {
  node->edges_size_ = static_cast<std::uint32_t>(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    link(*new (node->edges() + i) Edge{inputs[i], node, nullptr, nullptr});
}

// Positions are kept as 62-bit labels (order maintenance after Bender, Cole, Demaine, Farach-Colton, Zito 2002): a node
// between two others takes a label between theirs; where there is none, the smallest crowded stretch is spread out
// again, which costs O(log nodes) amortised.
FXX_INLINE void GraphStorage::make_room(Node* after) {
  constexpr std::uint64_t top = std::uint64_t{1} << 62;
  const std::uint64_t center = after == &root ? 0 : after->cold_->order;
  Node *first = after == &root ? root.next_ : after, *last = first;
  std::uint64_t count = 1;
  double capacity = 1;
  for (std::uint64_t width = 2; width <= top; width *= 2) {
    capacity *= 4.0 / 3.0;
    const std::uint64_t low = center & ~(width - 1), high = low + width;
    while (first->previous_ != &root && first->previous_->cold_->order >= low) first = first->previous_, ++count;
    while (last->next_ != &root && last->next_->cold_->order < high) last = last->next_, ++count;
    // Twice as many labels as nodes at least, one of them free in front.
    if (static_cast<double>(count + 1) > capacity || width / (count + 1) < 2) continue;
    const std::uint64_t step = width / (count + 1);
    std::uint64_t label = low;
    for (Node* n = first;; n = n->next_) {
      n->cold_->order = label += step;
      if (n == last) return;
    }
  }
  throw InternalError("Graph: no position labels are left");
}

FXX_INLINE void GraphStorage::insert_before(Node* node, Node* place) {
  ++version;
  constexpr std::uint64_t top = std::uint64_t{1} << 62, step = std::uint64_t{1} << 20, room_before_output = step << 20;
  node->next_ = place;
  node->previous_ = place->previous_;
  for (int attempt = 0;; ++attempt) {
    const std::uint64_t low = node->previous_ == &root ? 0 : node->previous_->cold_->order;
    const std::uint64_t high = place == &root ? top : place->cold_->order;
    if (high - low >= 2) {
      // What is appended, or put before the output, counts up in equal steps; all else goes halfway.
      const std::uint64_t gap = node == output && place == &root ? room_before_output : step;
      const bool growing = place == &root || place == output;
      node->cold_->order = low + (growing && high - low > 2 * gap ? gap : (high - low) / 2);
      break;
    }
    if (attempt) throw InternalError("Graph: position labels are broken");
    make_room(node->previous_);
  }
  node->previous_->next_ = node;
  place->previous_ = node;
}

FXX_INLINE const TensorMeta* GraphStorage::keep(const TensorMeta& meta) {
  // Neighbours mostly have equal shapes, so the last few are shared.
  constexpr std::size_t window = 8;
  for (std::size_t i = 0; i < std::min(window, metas.size()); ++i)
    if (const TensorMeta& known = metas[metas.size() - 1 - i]; known == meta) return &known;
  return &metas.emplace_back(meta);
}

FXX_INLINE const std::string_view& GraphStorage::intern(std::string_view text) {
  if (auto known = texts.find(text); known != texts.end()) return *known;
  return *texts.insert(arena.store(text)).first;
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
