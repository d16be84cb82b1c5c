// Bodies of ir/node.hpp.
#pragma once

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/ir/detail/storage.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE Graph& Node::graph() const { return *cold_->storage->graph; }

FXX_INLINE void Node::set_op(Op op) {
  if (std::holds_alternative<Output>(op) != std::holds_alternative<Output>(cold_->op))
    throw GraphError(
        ErrorId::output_misplaced,
        "Node::set_op: an output cannot become another node, nor another node an output; erase it and create one",
        {format_node(*this)});
  ++cold_->storage->version;
  cold_->op = std::move(op);
  opcode_ = static_cast<Opcode>(cold_->op.index());
  operation_ = nullptr;
  if (const auto* call = std::get_if<CallFunction>(&cold_->op))
    if (const auto* target = std::get_if<const Operator*>(&call->target)) operation_ = *target;
  cold_->storage->note_effects(*this);
  cold_->storage->note_family(*this);
}

FXX_INLINE std::string Node::target() const { return target_text(cold_->op); }

FXX_INLINE std::string_view Node::name_now() const {
  if (!is_root_) cold_->set_name(cold_->storage->names.create(name_candidate(cold_->op), cold_->storage->arena));
  return cold_->name();
}

FXX_INLINE void Node::rename(std::string_view name) {
  if (name != cold_->name()) cold_->set_name(cold_->storage->names.create(name, cold_->storage->arena));
}

FXX_INLINE void Node::swap_names(Node& other) {
  if (cold_->storage != other.cold_->storage)
    throw GraphError(ErrorId::node_not_in_graph, "Node::swap_names: '" + std::string(other.name()) +
                                                     "' belongs to another graph than '" + std::string(name()) +
                                                     "'; names are exchanged within one");
  const std::string_view mine = cold_->name();
  cold_->set_name(other.cold_->name());
  other.cold_->set_name(mine);
  ++cold_->storage->version;
}

FXX_INLINE void Node::set_args(Arguments args) { set_args_kwargs(args, kwargs()); }
FXX_INLINE void Node::set_kwargs(KeywordArguments kwargs) { set_args_kwargs(args(), kwargs); }
FXX_INLINE void Node::set_args_kwargs(Arguments args, KeywordArguments kwargs) {
  if (erased_)
    throw GraphError(ErrorId::node_erased, "Node::set_args: the node was erased; only nodes in a graph can change",
                     {std::string(name())});
  cold_->storage->assign(this, args.span(), kwargs.span());
  if (opcode_ == Opcode::call_method) operation_ = nullptr;
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
  std::vector<KeywordArgument> kwargs(this->kwargs().begin(), this->kwargs().end());
  const auto found = std::find_if(kwargs.begin(), kwargs.end(), [&](const KeywordArgument& k) { return k.key == key; });
  if (found != kwargs.end()) found->value = std::move(value);
  else kwargs.push_back({key, std::move(value)});
  set_kwargs(kwargs);
}

FXX_INLINE void Node::replace_input_with(Node* old_input, Node* new_input) {
  cold_->storage->check_input(this, new_input);
  if (old_input == new_input) return;
  detail::Edge* from = nullptr;
  bool joins = false;
  for (std::uint32_t i = 0; i < edges_size_; ++i) {
    if (edges()[i].input == old_input) from = edges() + i;
    if (edges()[i].input == new_input) joins = true;
  }
  if (!from) return;
  ++cold_->storage->version;
  const auto replace_in = [&](Argument& value) {
    if (value.is_node()) {
      if (value.node() == old_input) value = new_input;
    } else if (value.is_container()) {
      value = map_nodes(value, [&](Node* n) { return Argument(n == old_input ? new_input : n); });
    }
  };
  for (std::uint32_t i = 0; i < args_size_; ++i) replace_in(args_[i]);
  for (std::uint32_t i = 0; has_kwargs_ && i < cold_->kwargs_size; ++i) replace_in(own_kwargs()[i].value);
  if (opcode_ == Opcode::call_method) operation_ = nullptr;
  if (joins) return cold_->storage->assign(this, args(), kwargs());  // of two edges there remains one
  cold_->storage->unlink(*from);
  from->input = new_input;
  cold_->storage->link(*from);
}

FXX_INLINE std::vector<Node*> Node::replace_all_uses_with(Node* replacement) {
  cold_->storage->check_input(nullptr, replacement);
  std::vector<Node*> changed = users().snapshot();
  for (Node* user : changed) user->replace_input_with(this, replacement);
  return changed;
}

FXX_INLINE void Node::prepend(Node* node) {
  cold_->storage->check_input(nullptr, this);
  cold_->storage->check_input(this, node);
  if (node == this || node->next_ == this) return;
  if (node == cold_->storage->output)
    throw GraphError(ErrorId::output_misplaced,
                     "Node::prepend: the output stays the last node; move the other node instead",
                     {format_node(*this)});
  cold_->storage->take_out(node);
  cold_->storage->insert_before(node, this);
}

FXX_INLINE void Node::append(Node* node) {
  cold_->storage->check_input(nullptr, this);
  if (node == this) return;
  if (this == cold_->storage->output)
    throw GraphError(ErrorId::output_misplaced, "Node::append: nothing can follow the output; use prepend",
                     {format_node(*this)});
  if (next_ == &cold_->storage->root) {
    cold_->storage->check_input(this, node);
    cold_->storage->take_out(node);
    cold_->storage->insert_before(node, &cold_->storage->root);
  } else {
    next_->prepend(node);
  }
}

FXX_INLINE void Node::set_type(std::string_view type) {
  cold_->type = type.empty() ? nullptr : &cold_->storage->intern(type);
}
FXX_INLINE void Node::set_tensor_meta(const TensorMeta& meta) { cold_->tensor_meta = cold_->storage->keep(meta); }
FXX_INLINE std::string Node::source() const {
  std::string_view lines = meta().stack_trace;
  while (lines.ends_with('\n')) lines.remove_suffix(1);
  if (!lines.empty()) return std::string(lines.substr(lines.find_last_of('\n') + 1));  // npos + 1 is 0
  const std::source_location& at = cold_->location;
  return at.line() == 0 ? std::string() : std::string(at.file_name()) + ":" + std::to_string(at.line());
}
FXX_INLINE NodeMeta& Node::meta() {
  if (!cold_->meta) cold_->meta = new (cold_->storage->arena.allocate(sizeof(NodeMeta))) NodeMeta;
  return *cold_->meta;
}
FXX_INLINE const NodeMeta& Node::meta() const {
  static const NodeMeta none;
  return cold_->meta ? *cold_->meta : none;
}

}  // namespace fxx::inline FXX_ABI
