// Bodies of ir/node.hpp and ir/graph.hpp: creating, linking, ordering, copying.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "fxx/error.hpp"
#include "fxx/ir/detail/storage.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

// --- names -----------------------------------------------------------------------------------------------------------

FXX_INLINE std::string snake_case(std::string_view text) {
  std::string out(2 * text.size(), '\0');  // at most an underscore before each
  char* end = out.data();
  bool after_lower = false;
  for (char c : text) {
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    if (upper && after_lower) *end++ = '_';
    *end++ = upper ? static_cast<char>(c - 'A' + 'a') : lower || digit ? c : '_';
    after_lower = lower;
  }
  out.resize(static_cast<std::size_t>(end - out.data()));
  // Two leading underscores belong to the compiler.
  const std::size_t first = out.find_first_not_of('_');
  if (first == out.npos) return "_unnamed";
  if (first >= 2) out.erase(0, first);
  if (out[0] >= '0' && out[0] <= '9') out.insert(0, "_");
  return out;
}

FXX_INLINE bool is_made_from(std::string_view name, std::string_view base) {
  const std::string stem = snake_case(base);
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name.empty() || (name.size() > 1 && name[0] == '_' && name.find_first_not_of("0123456789", 1) == name.npos);
}

FXX_INLINE bool is_reserved_name(std::string_view name) {
  static constexpr auto words = [] {
    std::array sorted = std::to_array<std::string_view>(
        {// C++ keywords and alternative tokens
         "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
         "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
         "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete",
         "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
         "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
         "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
         "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct",
         "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
         "typeof", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
         // names that generated code uses, and macros in lower case
         "assert", "at", "c10", "errno", "fxx", "forward", "int64_t", "linux", "main", "major", "makedev", "minor",
         "stderr", "stdin", "stdout", "std", "torch", "unix",
         // words of the printed form
         "device", "inf", "nan", "range", "slice"});
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }();
  // By size, the letters that such words begin with, as bits: nearly every name is let pass here.
  static constexpr auto letters = [] {
    std::array<std::uint32_t, 32> bits{};
    for (const std::string_view word : words) bits[word.size()] |= std::uint32_t{1} << (word[0] & 31);
    return bits;
  }();
  if (name.empty() || name.size() >= letters.size() || !(letters[name.size()] >> (name[0] & 31) & 1)) return false;
  return std::binary_search(words.begin(), words.end(), name);
}

namespace detail {

FXX_INLINE std::size_t NameTable::find(std::string_view name, std::uint32_t hash) const {
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at].text && !(slots_[at].hash == hash && std::string_view(slots_[at].text, slots_[at].size) == name))
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

FXX_INLINE void NameTable::insert(std::string_view name, std::uint64_t hash) {
  if (10 * (used_ + 1) > 7 * slots_.size()) {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.text) slots_[find({slot.text, slot.size}, slot.hash)] = slot;
  }
  const auto short_hash = static_cast<std::uint32_t>(hash);
  slots_[find(name, short_hash)] = {name.data(), static_cast<std::uint32_t>(name.size()), short_hash};
  ++used_;
}

/// Is it what snake_case makes of it? Most candidates are names of operators, which are.
FXX_INLINE bool is_snake_case(std::string_view text) {
  bool letters = false;
  for (char c : text) {
    const bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '_') return false;
    letters = letters || letter;
  }
  return letters && !(text[0] >= '0' && text[0] <= '9') && !text.starts_with("__");
}

FXX_INLINE std::string_view NameTable::create(std::string_view candidate, Arena& arena) {
  // Most candidates are names of operators that have had calls before: the next number, and nothing to look up.
  Recent& lately = recent(candidate.data());
  if (lately.base == candidate && lately.numbers && !lately.numbers->beyond) {
    Numbers& numbers = *lately.numbers;
    numbers.last = ++numbers.all;
    char ending[21] = "_";
    const char* const end = std::to_chars(ending + 1, std::end(ending), numbers.all).ptr;
    return arena.store(lately.base, {ending, static_cast<std::size_t>(end - ending)});
  }
  std::string made;
  if (!is_snake_case(candidate)) candidate = made = snake_case(candidate);
  // "x_3" is number 3 of the base "x". Whatever number a base had last, it counts on from there.
  std::string_view base = candidate;
  std::uint64_t number = 0;
  if (candidate.back() >= '0' && candidate.back() <= '9') {
    const std::size_t end = candidate.find_last_not_of("0123456789");
    if (end != candidate.npos && end > 0 && candidate[end] == '_' && candidate.size() - end < 19) {
      base = candidate.substr(0, end);
      for (char c : candidate.substr(end + 1)) number = number * 10 + static_cast<std::uint64_t>(c - '0');
    }
  }
  const bool numbered = base.size() != candidate.size();
  const bool plain = numbered && candidate[base.size() + 1] != '0';  // as it is written here; "x_03" is another name
  const std::uint64_t base_hash = hash_of(base);
  const auto hash_with = [&](std::string_view ending) { return hash_of(ending, base_hash); };
  std::uint64_t hash = hash_with(candidate.substr(base.size()));
  auto numbers = numbered ? numbers_.find({base, base_hash}) : numbers_.end();
  const bool known = plain ? numbers != numbers_.end() && (number <= numbers->second.all ||
                                                           (numbers->second.beyond && in_slots(candidate, hash)))
                           : in_slots(candidate, hash);
  if (!numbered && !known && !is_reserved_name(candidate)) {
    const std::string_view kept = arena.store(candidate);
    insert(kept, hash);
    return kept;
  }
  if (!numbered) numbers = numbers_.find({base, base_hash});
  if (numbers == numbers_.end()) numbers = numbers_.emplace(Base{arena.store(base), base_hash}, Numbers()).first;
  if (!numbered && made.empty()) lately = {numbers->first.text, &numbers->second};
  auto& [last, all, beyond] = numbers->second;
  std::string text;
  bool in_turn = plain && number == all + 1;
  if (!numbered || known) {
    number = last;
    text.assign(base) += '_';
    for (;;) {
      number = std::max(number, all) + 1;
      text.resize(base.size() + 1);
      char digits[20];
      text.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
      hash = hash_with(std::string_view(text).substr(base.size()));
      if (!beyond || !in_slots(text, hash)) break;
      if (number == all + 1) all = number;
    }
    candidate = text;
    in_turn = number == all + 1;
  }
  last = number;
  const std::string_view kept = arena.store(candidate);
  if (in_turn) {
    all = number;
  } else {
    insert(kept, hash);
    beyond = true;
  }
  return kept;
}

// --- storage ---------------------------------------------------------------------------------------------------------

FXX_INLINE void GraphStorage::check_input(const Node* user, const Node* input) const {
  const auto fail = [&](ErrorId id, const char* what, const char* advice) {
    throw GraphError(id, "Node: argument '" + std::string(input ? input->name() : "null") + "' of node '" +
                             std::string(user ? user->name() : "(new)") + "' " + what + "; " + advice);
  };
  if (!input || input->storage_ != this)
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
  for (std::uint32_t i = 0; i < node->edges_size_; ++i) unlink(node->edges_[i]);
  for (std::uint32_t i = 0; i < node->args_size_; ++i) node->args_[i].~Argument();
  for (std::uint32_t i = 0; i < node->kwargs_size_; ++i) node->kwargs_[i].~KeywordArgument();
  arena.release(node->args_, node->args_size_ * sizeof(Argument));
  arena.release(node->kwargs_, node->kwargs_size_ * sizeof(KeywordArgument));
  arena.release(node->edges_, node->edges_size_ * sizeof(Edge));
  node->args_ = nullptr;
  node->kwargs_ = nullptr;
  node->edges_ = nullptr;
  node->args_size_ = node->kwargs_size_ = node->edges_size_ = 0;
}

FXX_INLINE void GraphStorage::assign(Node* node, std::span<const Argument> args,
                                     std::span<const KeywordArgument> kwargs) {
  collect_inputs(node, args, kwargs, inputs);
  ++version;
  auto* new_args = static_cast<Argument*>(arena.allocate(args.size_bytes()));
  auto* new_kwargs = static_cast<KeywordArgument*>(arena.allocate(kwargs.size_bytes()));
  auto* new_edges = static_cast<Edge*>(arena.allocate(inputs.size() * sizeof(Edge)));
  std::uninitialized_copy(args.begin(), args.end(), new_args);  // before the old ones go: they may be the same
  for (std::size_t i = 0; i < kwargs.size(); ++i)
    new (new_kwargs + i) KeywordArgument{intern(kwargs[i].key), kwargs[i].value};
  if (node->args_size_ || node->kwargs_size_) drop_arguments(node);
  node->args_ = new_args;
  node->kwargs_ = new_kwargs;
  node->edges_ = new_edges;
  node->args_size_ = static_cast<std::uint32_t>(args.size());
  node->kwargs_size_ = static_cast<std::uint32_t>(kwargs.size()) & 0x3fffffffu;
  node->edges_size_ = static_cast<std::uint32_t>(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) link(*new (new_edges + i) Edge{inputs[i], node, nullptr, nullptr});
}

FXX_INLINE void GraphStorage::relink(Node* node) {
  collect_inputs(node, node->args(), node->kwargs(), inputs);
  auto* new_edges = static_cast<Edge*>(arena.allocate(inputs.size() * sizeof(Edge)));
  for (std::uint32_t i = 0; i < node->edges_size_; ++i) unlink(node->edges_[i]);
  arena.release(node->edges_, node->edges_size_ * sizeof(Edge));
  node->edges_ = new_edges;
  node->edges_size_ = static_cast<std::uint32_t>(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) link(*new (new_edges + i) Edge{inputs[i], node, nullptr, nullptr});
}

// Positions are kept as 62-bit labels (order maintenance after Bender, Cole, Demaine, Farach-Colton, Zito 2002): a node
// between two others takes a label between theirs; where there is none, the smallest crowded stretch is spread out
// again, which costs O(log nodes) amortised.
FXX_INLINE void GraphStorage::make_room(Node* after) {
  constexpr std::uint64_t top = std::uint64_t{1} << 62;
  const std::uint64_t center = after == &root ? 0 : after->order_;
  Node *first = after == &root ? root.next_ : after, *last = first;
  std::uint64_t count = 1;
  double capacity = 1;
  for (std::uint64_t width = 2; width <= top; width *= 2) {
    capacity *= 4.0 / 3.0;
    const std::uint64_t low = center & ~(width - 1), high = low + width;
    while (first->previous_ != &root && first->previous_->order_ >= low) first = first->previous_, ++count;
    while (last->next_ != &root && last->next_->order_ < high) last = last->next_, ++count;
    // Twice as many labels as nodes at least, one of them free in front.
    if (static_cast<double>(count + 1) > capacity || width / (count + 1) < 2) continue;
    const std::uint64_t step = width / (count + 1);
    std::uint64_t label = low;
    for (Node* n = first;; n = n->next_) {
      n->order_ = label += step;
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
    const std::uint64_t low = node->previous_ == &root ? 0 : node->previous_->order_;
    const std::uint64_t high = place == &root ? top : place->order_;
    if (high - low >= 2) {
      // What is appended, or put before the output, counts up in equal steps; all else goes halfway.
      const std::uint64_t gap = node == output && place == &root ? room_before_output : step;
      const bool growing = place == &root || place == output;
      node->order_ = low + (growing && high - low > 2 * gap ? gap : (high - low) / 2);
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

FXX_INLINE std::string_view GraphStorage::intern(std::string_view text) {
  if (text.empty()) return {};
  if (auto known = texts.find(text); known != texts.end()) return *known;
  return *texts.insert(arena.store(text)).first;
}

}  // namespace detail

// --- insertion point -------------------------------------------------------------------------------------------------

FXX_INLINE InsertPoint::~InsertPoint() {
  if (storage_) storage_->before = before_->is_erased() ? &storage_->root : before_;
}

FXX_INLINE LateNames::LateNames(detail::GraphStorage* storage)
    : storage_(storage), late_before_(std::exchange(storage->names_are_late, true)) {}
FXX_INLINE LateNames::~LateNames() {
  if (storage_) storage_->names_are_late = late_before_;
}

// --- Node ------------------------------------------------------------------------------------------------------------

FXX_INLINE Graph& Node::graph() const { return *storage_->graph; }

FXX_INLINE void Node::set_op(Op op) {
  if (std::holds_alternative<Output>(op) != std::holds_alternative<Output>(op_))
    throw GraphError(
        ErrorId::output_misplaced,
        "Node::set_op: an output cannot become another node, nor another node an output; erase it and create one",
        {format_node(*this)});
  ++storage_->version;
  op_ = std::move(op);
  operation_ = nullptr;
  if (const auto* call = std::get_if<CallFunction>(&op_))
    if (const auto* target = std::get_if<const Operator*>(&call->target)) operation_ = *target;
  storage_->note_effects(*this);
}

FXX_INLINE std::string Node::target() const { return target_text(op_); }

FXX_INLINE std::string_view Node::name_now() const {
  if (!is_root_) name_ = storage_->names.create(name_candidate(op_), storage_->arena);
  return name_;
}

FXX_INLINE void Node::rename(std::string_view name) {
  if (name != name_) name_ = storage_->names.create(name, storage_->arena);
}

FXX_INLINE void Node::swap_names(Node& other) {
  if (storage_ != other.storage_)
    throw GraphError(ErrorId::node_not_in_graph, "Node::swap_names: '" + std::string(other.name()) +
                                                     "' belongs to another graph than '" + std::string(name()) +
                                                     "'; names are exchanged within one");
  std::swap(name_, other.name_);
  ++storage_->version;
}

FXX_INLINE void Node::set_args(Arguments args) { set_args_kwargs(args, kwargs()); }
FXX_INLINE void Node::set_kwargs(KeywordArguments kwargs) { set_args_kwargs(args(), kwargs); }
FXX_INLINE void Node::set_args_kwargs(Arguments args, KeywordArguments kwargs) {
  if (erased_)
    throw GraphError(ErrorId::node_erased, "Node::set_args: the node was erased; only nodes in a graph can change",
                     {std::string(name())});
  storage_->assign(this, args.span(), kwargs.span());
  if (op_.index() == static_cast<std::size_t>(Opcode::call_method)) operation_ = nullptr;
}

FXX_INLINE const Argument& Node::arg(std::size_t i) const {
  if (i >= args_size_)
    throw GraphError(ErrorId::argument_out_of_range,
                     "Node::arg: there is no positional argument " + std::to_string(i) + "; the node has " +
                         std::to_string(args_size_),
                     {format_node(*this)});
  return args_[i];
}

FXX_INLINE const Argument* Node::kwarg(std::string_view key) const {
  for (const KeywordArgument& k : kwargs())
    if (k.key == key) return &k.value;
  return nullptr;
}

FXX_INLINE void Node::update_arg(std::size_t index, Argument value) {
  (void)arg(index);
  std::vector<Argument> args(args_, args_ + args_size_);
  args[index] = std::move(value);
  set_args(args);
}

FXX_INLINE void Node::insert_arg(std::size_t index, Argument value) {
  if (index > args_size_) (void)arg(index);
  std::vector<Argument> args(args_, args_ + args_size_);
  args.insert(args.begin() + static_cast<std::ptrdiff_t>(index), std::move(value));
  set_args(args);
}

FXX_INLINE void Node::update_kwarg(std::string_view key, Argument value) {
  std::vector<KeywordArgument> kwargs(kwargs_, kwargs_ + kwargs_size_);
  const auto found = std::find_if(kwargs.begin(), kwargs.end(), [&](const KeywordArgument& k) { return k.key == key; });
  if (found != kwargs.end()) found->value = std::move(value);
  else kwargs.push_back({key, std::move(value)});
  set_kwargs(kwargs);
}

FXX_INLINE void Node::replace_input_with(Node* old_input, Node* new_input) {
  storage_->check_input(this, new_input);
  if (old_input == new_input) return;
  const auto swap_node = [&](Node* n) { return Argument(n == old_input ? new_input : n); };
  detail::Edge* from = nullptr;
  bool joins = false;
  for (std::uint32_t i = 0; i < edges_size_; ++i) {
    if (edges_[i].input == old_input) from = edges_ + i;
    if (edges_[i].input == new_input) joins = true;
  }
  if (!from) return;
  ++storage_->version;
  for (std::uint32_t i = 0; i < args_size_; ++i)
    if (args_[i].is_node() || args_[i].is_container()) args_[i] = map_nodes(args_[i], swap_node);
  for (std::uint32_t i = 0; i < kwargs_size_; ++i)
    if (kwargs_[i].value.is_node() || kwargs_[i].value.is_container())
      kwargs_[i].value = map_nodes(kwargs_[i].value, swap_node);
  if (op_.index() == static_cast<std::size_t>(Opcode::call_method)) operation_ = nullptr;
  if (joins) return storage_->relink(this);
  storage_->unlink(*from);
  from->input = new_input;
  storage_->link(*from);
}

FXX_INLINE std::vector<Node*> Node::replace_all_uses_with(Node* replacement) {
  storage_->check_input(nullptr, replacement);
  std::vector<Node*> changed = users().snapshot();
  for (Node* user : changed) user->replace_input_with(this, replacement);
  return changed;
}

FXX_INLINE void Node::prepend(Node* node) {
  storage_->check_input(nullptr, this);
  storage_->check_input(this, node);
  if (node == this || node->next_ == this) return;
  if (node == storage_->output)
    throw GraphError(ErrorId::output_misplaced,
                     "Node::prepend: the output stays the last node; move the other node instead",
                     {format_node(*this)});
  storage_->take_out(node);
  storage_->insert_before(node, this);
}

FXX_INLINE void Node::append(Node* node) {
  storage_->check_input(nullptr, this);
  if (node == this) return;
  if (this == storage_->output)
    throw GraphError(ErrorId::output_misplaced, "Node::append: nothing can follow the output; use prepend",
                     {format_node(*this)});
  if (next_ == &storage_->root) {
    storage_->check_input(this, node);
    storage_->take_out(node);
    storage_->insert_before(node, &storage_->root);
  } else {
    next_->prepend(node);
  }
}

FXX_INLINE void Node::set_type(std::string_view type) { type_ = storage_->intern(type); }
FXX_INLINE void Node::set_tensor_meta(const TensorMeta& meta) { tensor_meta_ = storage_->keep(meta); }
FXX_INLINE std::string Node::source() const {
  std::string_view lines = meta().stack_trace;
  while (lines.ends_with('\n')) lines.remove_suffix(1);
  if (!lines.empty()) return std::string(lines.substr(lines.find_last_of('\n') + 1));  // npos + 1 is 0
  return location_.line() == 0 ? std::string()
                               : std::string(location_.file_name()) + ":" + std::to_string(location_.line());
}
FXX_INLINE NodeMeta& Node::meta() {
  if (!meta_) meta_ = new (storage_->arena.allocate(sizeof(NodeMeta))) NodeMeta;
  return *meta_;
}
FXX_INLINE const NodeMeta& Node::meta() const {
  static const NodeMeta none;
  return meta_ ? *meta_ : none;
}

// --- Graph -----------------------------------------------------------------------------------------------------------

FXX_INLINE Graph::Graph() : storage_(new detail::GraphStorage(this)) {}
FXX_INLINE Graph::~Graph() { delete storage_; }
FXX_INLINE Graph::Graph(Graph&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {
  if (storage_) storage_->graph = this;
}
FXX_INLINE Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(storage_, other.storage_);
  if (storage_) storage_->graph = this;
  if (other.storage_) other.storage_->graph = &other;
  return *this;
}
FXX_INLINE Graph::Graph(const Graph& other) : Graph() {
  // Arguments stand before their users, so one walk maps them all.
  std::vector<Node*> copies(other.index_bound());
  for (Node* n : other.nodes())
    copies[n->index()] = node_copy(*n, [&](Node* input) { return Argument(copies[input->index()]); });
  storage_->signature = other.storage_->signature;
  storage_->tracer = other.storage_->tracer;
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
  node->storage_ = &s;
  try {
    node->op_ = std::move(op);
    if (const auto* call = std::get_if<CallFunction>(&node->op_))
      if (const auto* target = std::get_if<const Operator*>(&call->target)) node->operation_ = *target;
    s.assign(node, args.span(), kwargs.span());
    if (!name.empty() || !s.names_are_late)
      node->name_ = s.names.create(name.empty() ? name_candidate(node->op_) : name, s.arena);
  } catch (...) {
    s.drop_arguments(node);
    node->~Node();
    s.arena.release(node, sizeof(Node));
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
  Node* old = storage_->before;
  if (node) storage_->check_input(nullptr, node);
  storage_->before = node ? node : storage_->root.next_;
  return {storage_, old};
}
FXX_INLINE InsertPoint Graph::inserting_after(Node* node) {
  Node* old = storage_->before;
  if (node) storage_->check_input(nullptr, node);
  storage_->before = node ? node->next_ : &storage_->root;
  return {storage_, old};
}

FXX_INLINE LateNames Graph::naming_late() { return LateNames(storage_); }

FXX_INLINE void Graph::erase_node(Node* node) {
  detail::GraphStorage& s = *storage_;
  if (!node || node->storage_ != &s)
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
    storage_->arena.release(n, sizeof(Node));
  }
  storage_->erased.clear();
}

FXX_INLINE Node* Graph::copy_attributes(const Node& from, Node* to) {
  to->set_type(from.type());
  if (from.tensor_meta()) to->set_tensor_meta(*from.tensor_meta());
  to->location_ = from.location_;
  to->module_stack_ = from.module_stack_;
  to->operation_ = from.operation_;
  if (from.meta_) to->meta() = *from.meta_;
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
FXX_INLINE void Graph::set_owning_module(const Owner* owner) { storage_->owner = owner; }
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
FXX_INLINE std::string_view Graph::intern(std::string_view text) { return storage_->intern(text); }

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
