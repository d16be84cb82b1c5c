// Which nodes of several traces are one, and whether they say the same.
#pragma once

#include <algorithm>

#include "fxx/trace/detail/size_solver.ipp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE void SizeSolver::align() {
  const std::size_t traces = traces_.size();
  std::vector<std::vector<Node*>> all;
  std::vector<std::size_t> next(traces, 0);
  for (const SizedTrace& trace : traces_) {
    all.push_back(trace.graph.nodes().snapshot());
    places_.emplace_back(trace.graph.index_bound(), nowhere);
  }
  nodes_.resize(traces);
  const std::vector<Node*> copies = result_.nodes().snapshot();
  const auto current = [&](std::size_t t) { return next[t] < all[t].size() ? all[t][next[t]] : nullptr; };
  while (true) {
    place_ = out_.size();
    bool ended = true, same_op = true;
    const Node* slice = nullptr;  // the one of the first dimension
    for (std::size_t t = 0; t < traces; ++t) {
      const Node* const node = current(t);
      ended = ended && !node;
      same_op = same_op && !node == !current(0) && (!node || node->op() == current(0)->op());
      if (node && slices(*node) && (!slice || node->arg(1).integer() < slice->arg(1).integer())) slice = node;
    }
    if (ended) return;
    if (slice) {
      for (std::size_t t = 0; t < traces; ++t)
        same_op = same_op && current(t) && slices(*current(t)) && current(t)->arg(1) == slice->arg(1);
    }
    for (std::size_t t = 0; t < traces; ++t) nodes_[t].push_back(current(t));
    if (same_op) {
      for (std::size_t t = 0; t < traces; ++t) take(t, *all[t][next[t]++]);
      out_.push_back(copies[next[0] - 1]);
      continue;
    }
    if (!slice || !may_take_all(*slice)) {
      for (std::size_t t = 1; t < traces; ++t)
        if (!current(t) != !current(0) || (current(t) && !(current(t)->op() == current(0)->op())))
          differ(t, "what is called");
      differ(1, "the dimension that is sliced");
    }
    add_slices(*slice, all, next, copies);
  }
}

FXX_INLINE void SizeSolver::add_slices(const Node& slice, const std::vector<std::vector<Node*>>& all,
                                       std::vector<std::size_t>& next, const std::vector<Node*>& copies) {
  const std::int64_t dim = slice.arg(1).integer();
  std::size_t owner = 0;
  while (&slice.graph() != &traces_[owner].graph) ++owner;
  const std::uint32_t sliced = places(owner, *slice.arg(0).node()).back();
  for (std::size_t t = 0; t < traces_.size(); ++t) {
    const Node* const node = nodes_[t].back();
    if (node && slices(*node) && node->arg(1) == slice.arg(1)) {
      take(t, *all[t][next[t]++]);
      if (t == 0) out_.push_back(copies[next[0] - 1]);
      continue;
    }
    const Node* const whole = nodes_[t][sliced];
    const TensorMeta* const meta = whole->tensor_meta();
    const std::int64_t d = meta && dim < 0 ? dim + meta->dim() : dim;
    if (!meta || d < 0 || d >= meta->dim()) differ(t ? t : owner, "what is called");
    // An end beyond all sizes, which Slice(start, None) has, is the same number in all traces.
    const std::int64_t size = slice.arg(3).integer() > largest_size ? slice.arg(3).integer()
                                                                     : meta->shape[static_cast<std::size_t>(d)];
    const bool alias = node && node->calls(table_operator(OperatorIndex::alias)) && node->arg(0).is_node() &&
                       node->arg(0).node() == whole;
    added_[{t, place_}] = {const_cast<Node*>(whole), dim, 0, size};
    take(t, alias ? *all[t][next[t]++] : *whole);
    if (t > 0) continue;
    // The result is a copy of the first trace: the slice has to be in it.
    const std::array<Argument, 4> args = {out_[sliced], dim, 0, size};
    Node* made = alias ? copies[next[0] - 1] : nullptr;
    if (alias) {
      made->set_op(CallFunction{&table_operator(OperatorIndex::slice_Tensor)});
      made->set_args(std::span<const Argument>(args));
    } else {
      const InsertPoint before = result_.inserting_before(next[0] < copies.size() ? copies[next[0]] : nullptr);
      made = result_.call_function(table_operator(OperatorIndex::slice_Tensor), std::span<const Argument>(args));
      made->set_tensor_meta(*meta);
      made->set_location(slice.location());
      made->set_module_stack(slice.module_stack());
    }
    out_.push_back(made);
  }
}

FXX_INLINE void SizeSolver::complete() {
  completed_.clear();
  std::size_t longest = args(0).size(), other = 0;
  bool keywords = false;
  for (std::size_t t = 1; t < traces_.size(); ++t) {
    longest = std::max(longest, args(t).size());
    const bool same_keys = std::equal(kwargs(0).begin(), kwargs(0).end(), kwargs(t).begin(), kwargs(t).end(),
                                      [](const auto& a, const auto& b) { return a.key == b.key; });
    if (other > 0 || (same_keys && args(0).size() == args(t).size())) continue;
    other = t;
    keywords = args(0).size() == args(t).size();
  }
  if (other == 0) return;
  Node& out = *out_[place_];
  const Operator* op = operator_of(out);
  for (std::size_t t = 0; t < traces_.size() && op; ++t) {
    const Operator* of = added_.contains({t, place_}) ? op : operator_of(node(t));
    if (!of || !(*of == *op)) op = nullptr;
  }
  const auto refuse = [&] { differ(other, keywords ? "the keyword arguments" : "the number of arguments"); };
  if (!op || longest > op->parameters.size()) refuse();
  const auto given = [&](std::size_t t, std::size_t i) -> const Argument* {
    if (i < args(t).size()) return &args(t)[i];
    for (const KeywordArgument& k : kwargs(t))
      if (k.key == op->parameters[i].name) return &k.value;
    return nullptr;
  };
  std::vector<Completed> whole(traces_.size());
  Completed result;
  for (std::size_t i = 0; i < op->parameters.size(); ++i) {
    const Parameter& parameter = op->parameters[i];
    const Argument* known = nullptr;
    for (std::size_t t = 0; t < traces_.size() && !known; ++t) known = given(t, i);
    if (!known) continue;
    Argument standard = to_argument(parameter.standard, parameter.type);
    if (standard.kind() == Argument::Kind::integer && known->kind() == Argument::Kind::real)
      standard = standard.number();
    // One number for all dimensions, or one for each, as the others have it.
    if (parameter.type.list_size > 0 && known->kind() == Argument::Kind::list) {
      const bool listed = standard.kind() == Argument::Kind::list && !standard.items().empty();
      const Argument item = listed ? standard.items()[0] : standard;
      const auto is_it = [&](const Argument& a) { return a == item; };
      if (listed ? std::all_of(standard.items().begin(), standard.items().end(), is_it) : standard.is_number())
        standard = Argument::list(std::vector<Argument>(known->items().size(), item));
    }
    const auto add = [&](Completed& to, const Argument* argument) {
      if (!argument && !parameter.has_default()) refuse();
      if (i < longest) to.args.push_back(argument ? *argument : standard);
      else to.kwargs.push_back({parameter.name, argument ? *argument : standard});
    };
    for (std::size_t t = 0; t < traces_.size(); ++t) add(whole[t], given(t, i));
    add(result, argument_of(out, *op, static_cast<int>(i)));
  }
  completed_ = std::move(whole);
  out.set_args_kwargs(result.args, result.kwargs);
}

FXX_INLINE void SizeSolver::merge_node() {
  complete();
  operands_known_ = false;
  const Operator* op = operator_of(*out_[place_]);
  std::vector<const Argument*> values(traces_.size());
  for (std::size_t i = 0; i < args(0).size(); ++i) {
    const auto argument = [&](std::size_t t) -> const Argument& { return args(t)[i]; };
    if (all_same(argument)) continue;
    for (std::size_t t = 0; t < traces_.size(); ++t) values[t] = &argument(t);
    path_ = out_[place_]->opcode() == Opcode::output ? "the returned value" : "argument " + std::to_string(i);
    if (op && i < op->parameters.size()) path_ += " (" + std::string(op->parameters[i].name) + ")";
    out_[place_]->update_arg(i, merge(values));
  }
  for (std::size_t k = 0; k < kwargs(0).size(); ++k) {
    const auto argument = [&](std::size_t t) -> const Argument& { return kwargs(t)[k].value; };
    if (all_same(argument)) continue;
    for (std::size_t t = 0; t < traces_.size(); ++t) values[t] = &argument(t);
    path_ = "argument '" + std::string(kwargs(0)[k].key) + "'";
    out_[place_]->update_kwarg(kwargs(0)[k].key, merge(values));
  }
}

FXX_INLINE bool SizeSolver::same(const Argument& a, const Argument& b, std::size_t t) const {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Argument::Kind::node: {
      const auto x = places(0, *a.node()), y = places(t, *b.node());
      return x.size() == 1 && y.size() == 1 && x[0] == y[0];
    }
    case Argument::Kind::list:
    case Argument::Kind::tuple: {
      const auto x = a.items(), y = b.items();
      if (x.size() != y.size()) return false;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!same(x[i], y[i], t)) return false;
      return true;
    }
    case Argument::Kind::dict: {
      const auto x = a.entries(), y = b.entries();
      if (x.size() != y.size()) return false;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!(x[i].key == y[i].key) || !same(x[i].value, y[i].value, t)) return false;
      return true;
    }
    case Argument::Kind::slice:
      return same(a.slice().start, b.slice().start, t) && same(a.slice().stop, b.slice().stop, t) &&
             same(a.slice().step, b.slice().step, t);
    default: return a == b;
  }
}

}  // namespace fxx::inline FXX_ABI::detail
