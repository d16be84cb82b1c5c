// Bodies of ir/graph.hpp: creating, ordering, copying. What it is made of has files of its own: the nodes, their storage,
// their names.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "fxx/error.hpp"
#include "fxx/ir/detail/storage.hpp"
#include "fxx/ir/detail/storage.ipp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/names.ipp"
#include "fxx/ir/node.ipp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

// --- insertion point -------------------------------------------------------------------------------------------------

FXX_INLINE InsertPoint::InsertPoint(detail::GraphStorage* storage) : storage_(storage), before_(storage->before) {
  storage->points.push_back(this);
}
FXX_INLINE InsertPoint::InsertPoint(InsertPoint&& other) noexcept
    : storage_(std::exchange(other.storage_, nullptr)), before_(other.before_) {
  if (storage_) std::replace(storage_->points.begin(), storage_->points.end(), &other, this);
}
FXX_INLINE InsertPoint::~InsertPoint() {
  if (!storage_) return;
  storage_->before = before_;
  std::erase(storage_->points, this);
}

FXX_INLINE LateNames::LateNames(detail::GraphStorage* storage)
    : storage_(storage), late_before_(std::exchange(storage->names_are_late, true)) {}
FXX_INLINE LateNames::~LateNames() {
  if (storage_) storage_->names_are_late = late_before_;
}

FXX_INLINE Graph::Graph() : storage_(new detail::GraphStorage(this)) {}
FXX_INLINE Graph::~Graph() { delete storage_; }
FXX_INLINE Graph::Graph(Graph&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {
  if (storage_) storage_->graph = this;
}
FXX_INLINE Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(storage_, other.storage_);
  if (storage_) storage_->graph = this;
  if (other.storage_) other.storage_->graph = &other;
  if (storage_ && other.storage_ && other.storage_->owner) storage_->owner = other.storage_->owner;
  return *this;
}
FXX_INLINE Graph::Graph(const Graph& other) : Graph() { copy_from(other); }
FXX_INLINE void Graph::copy_from(const Graph& other) {
  // Arguments stand before their users, so one walk maps them all.
  std::vector<Node*> copies(other.index_bound());
  for (Node* n : other.nodes())
    copies[n->index()] = node_copy(*n, [&](Node* input) { return Argument(copies[input->index()]); });
  storage_->signature = other.storage_->signature;
  storage_->tracer = other.storage_->tracer;
}
FXX_INLINE Graph detail::compact_copy(const Graph& graph) {
  std::size_t arguments = 0, rest = 0;
  for (const Node* n : graph.nodes()) {
    arguments += Arena::taken_by(
        GraphStorage::size_of_arguments(n->args().size(), n->all_input_nodes().size(), n->kwargs().size()));
    rest += (n->has_meta() ? Arena::taken_by(sizeof(NodeMeta)) : 0) + n->name().size();
  }
  Graph copy;
  GraphStorage& s = *copy.storage_;
  s.node_arena.expect(graph.size() * Arena::taken_by(sizeof(Node)));
  s.cold_arena.expect(graph.size() * Arena::taken_by(sizeof(ColdNode)));
  s.argument_arena.expect(arguments);
  s.arena.expect(rest);
  copy.copy_from(graph);
  s.names.rest();
  std::vector<Node*>().swap(s.inputs);
  return copy;
}
FXX_INLINE Graph& Graph::operator=(const Graph& other) {
  if (this != &other) *this = Graph(other);
  return *this;
}

FXX_INLINE NodeList Graph::nodes() const {
  const Node& root = storage_->root;
  return storage_->size ? NodeList(root.next_, root.previous_, storage_->size) : NodeList(nullptr, nullptr, 0);
}
FXX_INLINE std::size_t Graph::size() const { return storage_->size; }
FXX_INLINE std::uint64_t Graph::version() const { return storage_->version; }
FXX_INLINE std::uint32_t Graph::index_bound() const { return storage_->next_index; }
FXX_INLINE bool Graph::may_have_effects() const { return storage_->may_have_effects; }

FXX_INLINE Node* Graph::output_node() const {
  if (!storage_->output)
    throw GraphError(ErrorId::output_misplaced, "Graph::output_node: the graph has no output; call output(value) once");
  return storage_->output;
}

FXX_INLINE std::vector<Node*> Graph::find_nodes(Opcode opcode, std::string_view target) const {
  std::vector<Node*> found;
  for (Node* n : nodes())
    if (n->opcode() == opcode && (target.empty() || n->target() == target)) found.push_back(n);
  return found;
}

FXX_INLINE Node* Graph::placeholder(std::string_view name, std::optional<Argument> default_value,
                                    std::string_view type) {
  Node* n = default_value ? create_node(Placeholder{std::string(name)}, {*default_value})
                          : create_node(Placeholder{std::string(name)});
  n->set_type(type);
  return n;
}
FXX_INLINE Node* Graph::get_attr(std::string_view qualified_name) {
  return create_node(GetAttr{std::string(qualified_name)});
}
FXX_INLINE Node* Graph::call_function(const Operator& op, Arguments args, KeywordArguments kwargs) {
  return create_node(CallFunction{&op}, args, kwargs);
}
FXX_INLINE Node* Graph::call_function(const UserFunction& function, Arguments args, KeywordArguments kwargs) {
  return create_node(CallFunction{&function}, args, kwargs);
}
FXX_INLINE Node* Graph::call_method(std::string_view method, Arguments args, KeywordArguments kwargs) {
  return create_node(CallMethod{std::string(method)}, args, kwargs);
}
FXX_INLINE Node* Graph::call_module(std::string_view qualified_name, Arguments args, KeywordArguments kwargs) {
  return create_node(CallModule{std::string(qualified_name)}, args, kwargs);
}
FXX_INLINE Node* Graph::output(Argument value, std::string_view type) {
  Node* n = create_node(Output{}, {std::move(value)});
  n->set_type(type);
  return n;
}

FXX_INLINE Node* Graph::create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name) {
  detail::GraphStorage& s = *storage_;
  const bool is_output = std::holds_alternative<Output>(op);
  if (is_output && s.output)
    throw GraphError(ErrorId::output_misplaced,
                     "Graph::output: the graph has an output already; change its argument instead",
                     {format_node(*s.output)});
  Node* place = is_output || (s.output && s.before == &s.root) ? &s.root : s.before;
  if (!is_output && s.output && place == &s.root) place = s.output;  // nothing follows the output
  Node* node = s.allocate();
  detail::ColdNode& cold = *node->cold_;
  try {
    cold.op = std::move(op);
    node->opcode_ = static_cast<Opcode>(cold.op.index());
    if (const auto* call = std::get_if<CallFunction>(&cold.op))
      if (const auto* target = std::get_if<const Operator*>(&call->target)) node->operation_ = *target;
    s.assign(node, args.span(), kwargs.span());
    if (!name.empty() || !s.names_are_late)
      cold.set_name(s.names.create(name.empty() ? name_candidate(cold.op) : name, s.arena));
  } catch (...) {
    s.drop_arguments(node);
    s.destroy(node);
    s.release(node);
    throw;
  }
  if (is_output) s.output = node;
  s.note_effects(*node);
  node->index_ = s.next_index++;
  s.insert_before(node, place);
  ++s.size;
  return node;
}

FXX_INLINE InsertPoint Graph::inserting_before(Node* node) {
  if (node) storage_->check_input(nullptr, node);
  InsertPoint old(storage_);
  storage_->before = node ? node : storage_->root.next_;
  return old;
}
FXX_INLINE InsertPoint Graph::inserting_after(Node* node) {
  if (node) storage_->check_input(nullptr, node);
  InsertPoint old(storage_);
  storage_->before = node ? node->next_ : &storage_->root;
  return old;
}

FXX_INLINE LateNames Graph::naming_late() { return LateNames(storage_); }

FXX_INLINE void Graph::erase_node(Node* node) {
  detail::GraphStorage& s = *storage_;
  if (!node || node->cold_->storage != &s)
    throw GraphError(ErrorId::node_not_in_graph,
                     "Graph::erase_node: the node does not belong to this Graph; erase it through its own graph");
  if (node->erased_)
    throw GraphError(ErrorId::node_erased, "Graph::erase_node: the node was erased before",
                     {std::string(node->name())});
  if (node->users_size_) {
    std::string names;
    std::size_t shown = 0;
    for (Node* user : node->users()) {
      if (shown++ == 5) break;
      names += (names.empty() ? "" : ", ") + std::string(user->name());
    }
    if (node->users_size_ > 5) names += ", ...";
    throw GraphError(ErrorId::node_has_users,
                     "Graph::erase_node: '" + std::string(node->name()) + "' still has " +
                         std::to_string(node->users_size_) + " user(s) in the graph (" + names +
                         "); a node must have none. Replace its uses first",
                     {format_node(*node)});
  }
  ++s.version;
  if (s.before == node) s.before = node->next_;
  for (InsertPoint* point : s.points)
    if (point->before_ == node) point->before_ = node->next_;
  s.drop_arguments(node);
  s.take_out(node);
  node->erased_ = true;
  if (s.output == node) s.output = nullptr;
  s.erased.push_back(node);
  --s.size;
}

FXX_INLINE void Graph::collect_erased() {
  for (Node* n : storage_->erased) {
    storage_->destroy(n);
    storage_->release(n);
  }
  storage_->erased.clear();
}

FXX_INLINE Node* Graph::copy_attributes(const Node& from, Node* to) {
  to->set_type(from.type());
  if (from.tensor_meta()) to->set_tensor_meta(*from.tensor_meta());
  to->cold_->location = from.cold_->location;
  to->cold_->module_stack = from.cold_->module_stack;
  to->operation_ = from.operation_;
  if (from.cold_->meta) to->meta() = *from.cold_->meta;
  return to;
}

FXX_INLINE Argument Graph::graph_copy(const Graph& other, std::map<const Node*, Argument>& values) {
  const auto value_of = [&](Node* n) { return values.at(n); };
  for (Node* n : other.nodes()) {
    if (n->opcode() == Opcode::output) return map_nodes(n->arg(0), value_of);
    if (!values.contains(n)) values.emplace(n, node_copy(*n, value_of));
  }
  return {};
}

FXX_INLINE const Owner* Graph::owning_module() const { return storage_->owner; }
FXX_INLINE void Graph::set_owning_module(const Owner* owner) {
  ++storage_->version;
  storage_->owner = owner;
}
FXX_INLINE const Signature* Graph::signature() const {
  return storage_->signature ? &storage_->signature->value : nullptr;
}
FXX_INLINE void Graph::set_signature(const Signature& signature) {
  ++storage_->version;
  storage_->signature = {};
  if (!signature.flat())
    storage_->signature = detail::Shared<const detail::BoxOf<Signature>>(new detail::BoxOf<Signature>(signature));
}
FXX_INLINE const detail::Shared<const TracerFactory>& Graph::tracer() const { return storage_->tracer; }
FXX_INLINE void Graph::set_tracer(detail::Shared<const TracerFactory> tracer) { storage_->tracer = std::move(tracer); }
FXX_INLINE std::string_view Graph::intern(std::string_view text) {
  return text.empty() ? text : storage_->intern(text);
}

FXX_INLINE bool same_structure(const Graph& a, const Graph& b) {
  if (a.size() != b.size()) return false;
  std::vector<Node*> partner(a.index_bound());
  const auto translated = [&](const Argument& x) {
    return map_nodes(x, [&](Node* n) { return Argument(partner[n->index()]); });
  };
  for (auto x = a.nodes().begin(), y = b.nodes().begin(); x != a.nodes().end(); ++x, ++y) {
    const Node &p = **x, &q = **y;
    if (!(p.op() == q.op()) || p.type() != q.type() || p.args().size() != q.args().size() ||
        p.kwargs().size() != q.kwargs().size())
      return false;
    for (std::size_t i = 0; i < p.args().size(); ++i)
      if (!(translated(p.args()[i]) == q.args()[i])) return false;
    for (std::size_t i = 0; i < p.kwargs().size(); ++i)
      if (p.kwargs()[i].key != q.kwargs()[i].key || !(translated(p.kwargs()[i].value) == q.kwargs()[i].value))
        return false;
    partner[p.index()] = *y;
  }
  return true;
}

}  // namespace fxx::inline FXX_ABI

#include "fxx/ir/lint.ipp"
