// What a Graph owns. Private to ir/.
// Cost: light.
#pragma once

#include <deque>
#include <set>

#include "fxx/ir/detail/arena.hpp"
#include "fxx/ir/detail/names.hpp"
#include "fxx/ir/graph.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/ir/tracer_factory.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Above every version of the graphs before, so that another graph in the place of one is seen like an edit of it.
std::uint64_t first_version();

struct GraphStorage {
  explicit GraphStorage(Graph* owner_graph);
  GraphStorage(const GraphStorage&) = delete;
  GraphStorage& operator=(const GraphStorage&) = delete;
  ~GraphStorage();

  // --- links between nodes and their inputs ------------------------------------------------------------------------
  void link(Edge& edge) {
    ColdNode& input = *edge.input->cold_;
    edge.next = nullptr;
    edge.previous = input.last_user;
    (input.last_user ? input.last_user->next : input.first_user) = &edge;
    input.last_user = &edge;
    ++edge.input->users_size_;
  }
  void unlink(Edge& edge) {
    ColdNode& input = *edge.input->cold_;
    (edge.previous ? edge.previous->next : input.first_user) = edge.next;
    (edge.next ? edge.next->previous : input.last_user) = edge.previous;
    --edge.input->users_size_;
  }
  void check_input(const Node* user, const Node* input) const;
  static std::size_t size_of_arguments(std::size_t args, std::size_t inputs, std::size_t kwargs) {
    return args * sizeof(Argument) + inputs * sizeof(Edge) + kwargs * sizeof(KeywordArgument);
  }
  /// Gives `node` these arguments. What may throw happens before anything changes.
  void assign(Node* node, std::span<const Argument> args, std::span<const KeywordArgument> kwargs);
  void drop_arguments(Node* node);
  /// Makes an edge for each of `inputs`, for which there is room behind the arguments.
  void link_inputs(Node* node);
  void collect_inputs(Node* node, std::span<const Argument> args, std::span<const KeywordArgument> kwargs,
                      std::vector<Node*>& inputs);

  // --- the list ----------------------------------------------------------------------------------------------------
  void insert_before(Node* node, Node* place);
  void take_out(Node* node) {
    node->previous_->next_ = node->next_;
    node->next_->previous_ = node->previous_;
  }
  void make_room(Node* after);

  Node* allocate() {
    auto* cold = new (cold_arena.allocate(sizeof(ColdNode))) ColdNode;
    cold->storage = this;
    Node* node = new (node_arena.allocate(sizeof(Node))) Node();
    node->cold_ = cold;
    return node;
  }
  void destroy(Node* node) {
    ColdNode& cold = *node->cold_;
    for (std::uint32_t i = 0; i < node->args_size_; ++i) node->args_[i].~Argument();
    for (std::uint32_t i = 0; node->has_kwargs_ && i < cold.kwargs_size; ++i) node->own_kwargs()[i].~KeywordArgument();
    if (cold.meta) {
      cold.meta->~NodeMeta();
      arena.release(cold.meta, sizeof(NodeMeta));
    }
    cold.~ColdNode();
    node->~Node();
  }
  void release(Node* node) {
    cold_arena.release(node->cold_, sizeof(ColdNode));
    node_arena.release(node, sizeof(Node));
  }
  /// Notes whether an operation could have an effect.
  void note_effects(const Node& node) {
    const Opcode opcode = node.opcode();
    if (opcode == Opcode::placeholder || opcode == Opcode::get_attr || opcode == Opcode::output) return;
    if (!node.operation_ || !node.operation_->always_pure()) may_have_effects = true;
  }
  /// Whenever the operation or the arguments have changed.
  static void note_family(Node& node);
  const TensorMeta* keep(const TensorMeta& meta);
  /// The one copy of this text, which is not empty; lives as long as the graph.
  const std::string_view& intern(std::string_view text);

  // What walks and matchers read lies together: nodes in one arena, their arguments and edges in another.
  Arena node_arena{1024}, argument_arena{1024}, cold_arena{2048}, arena{1024};
  Graph* graph;
  const Owner* owner = nullptr;
  Shared<const BoxOf<Signature>> signature;
  Shared<const TracerFactory> tracer;
  Node root;                         // both ends of the list
  ColdNode cold_root;
  Node* before;                      // new nodes go before it
  std::vector<InsertPoint*> points;  // those that live
  Node* output = nullptr;
  std::size_t size = 0;
  std::uint32_t epoch = 0, next_index = 0;
  std::uint64_t version = first_version();
  bool may_have_effects = false, names_are_late = false;
  std::vector<Node*> erased;
  NameTable names;
  std::deque<TensorMeta> metas;
  std::set<std::string_view> texts;
  std::vector<Node*> inputs;  // scratch
};

}  // namespace fxx::inline FXX_ABI::detail
