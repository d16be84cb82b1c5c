// Arguments and shapes that change with the sizes: expressions over sizes, and the nodes that compute them.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include "fxx/trace/detail/size_solver.ipp"

namespace fxx::inline FXX_ABI::detail {

/// A new number for a size that changes from call to call; no two calls give the same.
FXX_INLINE std::int64_t next_dynamic_size() {
  static std::int64_t last = -1;
  return __atomic_sub_fetch(&last, 1, __ATOMIC_RELAXED);
}

FXX_INLINE Argument SizeSolver::merge(const std::vector<const Argument*>& values) {
  const Argument& first = *values[0];
  for (std::size_t t = 1; t < values.size(); ++t)
    if (values[t]->kind() != first.kind()) differ(t, path_);
  const auto parts = [&](auto&& part, const std::string& name) {
    const std::string outer = path_;
    std::vector<const Argument*> of(values.size());
    for (std::size_t t = 0; t < values.size(); ++t) of[t] = &part(*values[t]);
    path_ += ", " + name;
    Argument merged = merge(of);
    path_ = outer;
    return merged;
  };
  const auto equal_counts = [&](auto&& count) {
    for (std::size_t t = 1; t < values.size(); ++t)
      if (count(*values[t]) != count(first)) differ(t, path_ + ", the number of items");
  };
  switch (first.kind()) {
    case Argument::Kind::node: {
      const auto places_of_first = places(0, *first.node());
      std::vector<std::uint32_t> common(places_of_first.begin(), places_of_first.end());
      for (std::size_t t = 1; t < values.size(); ++t) {
        const auto of = places(t, *values[t]->node());
        std::erase_if(common, [&](auto place) { return std::find(of.begin(), of.end(), place) == of.end(); });
        if (common.empty()) differ(t, path_);
      }
      return out_[common.back()];
    }
    case Argument::Kind::integer: return integer(values);
    case Argument::Kind::real: return real(values);
    case Argument::Kind::list:
    case Argument::Kind::tuple: {
      equal_counts([](const Argument& a) { return a.items().size(); });
      std::vector<Argument> items;
      for (std::size_t i = 0; i < first.items().size(); ++i)
        items.push_back(
            parts([i](const Argument& a) -> const Argument& { return a.items()[i]; }, "item " + std::to_string(i)));
      return first.kind() == Argument::Kind::list ? Argument::list(std::move(items))
                                                  : Argument::tuple(std::move(items));
    }
    case Argument::Kind::dict: {
      equal_counts([](const Argument& a) { return a.entries().size(); });
      std::vector<DictEntry> entries;
      for (std::size_t i = 0; i < first.entries().size(); ++i) {
        const Argument& key = first.entries()[i].key;
        for (std::size_t t = 1; t < values.size(); ++t)
          if (!(values[t]->entries()[i].key == key)) differ(t, path_ + ", the keys");
        entries.push_back({key, parts([i](const Argument& a) -> const Argument& { return a.entries()[i].value; },
                                      "item " + to_string(key))});
      }
      return Argument::dict(std::move(entries));
    }
    case Argument::Kind::slice:
      return Slice{parts([](const Argument& a) -> const Argument& { return a.slice().start; }, "start"),
                   parts([](const Argument& a) -> const Argument& { return a.slice().stop; }, "stop"),
                   parts([](const Argument& a) -> const Argument& { return a.slice().step; }, "step")};
    default:
      for (std::size_t t = 1; t < values.size(); ++t)
        if (!(*values[t] == first)) differ(t, path_);
      return first;
  }
}

FXX_INLINE Argument SizeSolver::integer(const std::vector<const Argument*>& values) {
  SizeValues v;
  for (const Argument* a : values) v.push_back(a->integer());
  if (std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) == v.end()) return v[0];
  const SizeFit::Answer answer = fit_.integer(v, operands());
  if (answer.expression == none) {
    if (!wanted_ || (!want_held_back() && !want_survey() && wanted_->empty())) no_expression(v);
    return v[0];  // the next round knows more
  }
  if (!answer.ask.empty()) {
    if (!wanted_)
      unsolved(path_ + " changes with the sizes, and more than one expression gives it: " + text(answer.expression) +
               (answer.rival == none ? std::string(" fits, but one size alone shows it")
                                     : " and " + text(answer.rival) + " both fit") +
               "; values are " + seen(v) + ". Trace at " + sizes_text(names_, answer.ask) +
               " as well, which would tell");
    // What was asked for another number may do for this one too; if not, the next round asks again.
    if (wanted_->size() < 3 && !want_more(answer.ask) && wanted_->empty()) want_survey();
  }
  return argument(answer.expression);
}

FXX_INLINE Argument SizeSolver::real(const std::vector<const Argument*>& values) {
  std::vector<double> v;
  for (const Argument* a : values) v.push_back(a->real());
  if (std::find_if(values.begin(), values.end(), [&](auto* x) { return !(*x == *values[0]); }) == values.end())
    return *values[0];
  const std::optional<SizeReal> found = fit_.real(v, operands());
  if (!found) no_expression(v);
  using Factor = SizeReal::Factor;
  Argument x = argument(found->e);
  if (found->over != none) x = call(OperatorIndex::operator_truediv, {x, argument(found->over)});
  if (found->root) x = call(OperatorIndex::math_sqrt, {x});
  switch (found->use) {
    case Factor::none:
      // A whole number that was real stays so: operators tell the two apart.
      if (found->over == none && !found->root) x = call(OperatorIndex::operator_truediv, {x, 1.0});
      break;
    case Factor::times: x = call(OperatorIndex::operator_mul, {x, found->factor}); break;
    case Factor::divided_by: x = call(OperatorIndex::operator_truediv, {x, found->factor}); break;
    case Factor::divides: x = call(OperatorIndex::operator_truediv, {found->factor, x}); break;
  }
  return found->added == 0 ? x : call(OperatorIndex::operator_add, {x, found->added});
}

FXX_INLINE std::vector<int> SizeSolver::sizes_of(std::size_t place) {
  std::vector<int> sizes;
  std::vector<const TensorMeta*> metas;
  for (const auto& nodes : nodes_) {
    metas.push_back(nodes[place]->tensor_meta());
    if (!metas.back() || metas.back()->dim() != metas[0]->dim()) return {};
  }
  for (std::size_t d = 0; d < metas[0]->shape.size(); ++d) {
    SizeValues v;
    for (const TensorMeta* meta : metas) v.push_back(meta->shape[d]);
    if (std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) != v.end())
      sizes.push_back(leaf({place, -1, static_cast<std::int64_t>(d)}, std::move(v)));
  }
  return sizes;
}

FXX_INLINE std::span<const int> SizeSolver::operands() {
  if (operands_known_) return operands_;
  operands_known_ = true;
  operands_.clear();
  for (const Argument& argument : args(0))
    for_each_node(argument, [&](Node* input) {
      for (const int size : sizes_of(places(0, *input).back())) operands_.push_back(size);
    });
  return operands_;
}

FXX_INLINE Argument SizeSolver::call(OperatorIndex index, std::vector<Argument> args) {
  for (const auto& [op, made] : calls_[index])
    if (op == args) return made;
  const InsertPoint before = result_.inserting_before(out_[place_]);
  Node* made = result_.call_function(table_operator(index), args);
  made->set_location(out_[place_]->location());
  made->set_module_stack(out_[place_]->module_stack());
  if (out_[place_]->has_meta()) made->meta() = out_[place_]->meta();
  calls_[index].emplace_back(std::move(args), made);
  return made;
}

FXX_INLINE Argument SizeSolver::argument(int e) {
  const SizeExpressions::Term term = fit_.expressions().term(e);
  if (term.kind == Kind::constant) return term.value;
  if (const auto known = made_.find(e); known != made_.end()) return known->second;
  Argument made;
  switch (term.kind) {
    case Kind::symbol: made = symbol(static_cast<std::size_t>(term.value)); break;
    case Kind::read: made = read(reads_[static_cast<std::size_t>(term.value)]); break;
    case Kind::neg: made = call(OperatorIndex::operator_neg, {argument(term.a)}); break;
    default: {
      const OperatorIndex index = term.kind == Kind::add        ? OperatorIndex::operator_add
                                  : term.kind == Kind::sub      ? OperatorIndex::operator_sub
                                  : term.kind == Kind::mul      ? OperatorIndex::operator_mul
                                  : term.kind == Kind::floordiv ? OperatorIndex::operator_floordiv
                                  : term.kind == Kind::mod      ? OperatorIndex::operator_mod
                                  : term.kind == Kind::minimum  ? OperatorIndex::builtins_min
                                                                : OperatorIndex::builtins_max;
      const Argument a = argument(term.a);
      made = call(index, {a, argument(term.b)});
    }
  }
  made_.emplace(e, made);
  return made;
}

FXX_INLINE Node* SizeSolver::size_node(Node* tensor, std::int64_t dim, std::string_view name) {
  Node* node = result_.create_node(CallMethod{"size"}, {tensor, dim}, {}, name);
  node->set_resolved(&table_operator(OperatorIndex::size_int));
  return node;
}

FXX_INLINE Node* SizeSolver::symbol(std::size_t i) {
  Node *input = nullptr, *last = nullptr;
  std::size_t count = 0;
  for (Node* node : out_)
    if (node->opcode() == Opcode::placeholder) {
      last = node;
      if (count++ == symbols_[i].input) input = node;
    }
  for (const auto& [other, node] : symbol_nodes_)
    if (other < i) last = node;
  const InsertPoint behind = result_.inserting_after(last);
  std::int64_t dim = symbols_[i].dim;
  if (const TensorMeta* meta = input->tensor_meta(); meta && dim < 0) dim += meta->dim();
  return symbol_nodes_[i] = size_node(input, dim, names_[i]);
}

FXX_INLINE Node* SizeSolver::read(const ReadPlace& place) {
  Node* tensor = out_[place.place];
  if (place.item >= 0) {
    Node* item = nullptr;
    for (Node* user : tensor->users())
      if (user->calls(table_operator(OperatorIndex::operator_getitem)) && user->args().size() == 2 &&
          user->arg(0) == Argument(tensor) && user->arg(1) == Argument(place.item))
        item = user;
    if (item) {
      // The code may have taken it later than it asked for the size.
      tensor->append(item);
    } else {
      const InsertPoint behind = result_.inserting_after(tensor);
      item = result_.call_function(table_operator(OperatorIndex::operator_getitem), {tensor, place.item});
    }
    tensor = item;
  }
  const InsertPoint behind = result_.inserting_after(tensor);
  return size_node(tensor, place.dim, std::string(tensor->name()) + "_size_" + std::to_string(place.dim));
}

FXX_INLINE void SizeSolver::merge_meta() {
  std::vector<const TensorMeta*> metas;
  for (std::size_t t = 0; t < traces_.size(); ++t) metas.push_back(node(t).tensor_meta());
  if (std::find(metas.begin(), metas.end(), nullptr) != metas.end()) {
    if (metas[0]) out_[place_]->clear_tensor_meta();
    return;
  }
  bool changes = false;
  for (std::size_t t = 1; t < traces_.size(); ++t) {
    if (metas[t]->dtype != metas[0]->dtype) differ(t, "the dtype of the result");
    if (metas[t]->dim() != metas[0]->dim()) differ(t, "the number of dimensions of the result");
    changes = changes || metas[t]->shape != metas[0]->shape || metas[t]->stride != metas[0]->stride;
  }
  if (!changes) return;
  TensorMeta meta = *metas[0];
  for (const TensorMeta* other : metas)
    if (other->stride != meta.stride) meta.stride.clear();
  for (std::size_t d = 0; d < meta.shape.size(); ++d) {
    SizeValues v;
    for (const TensorMeta* other : metas) v.push_back(other->shape[d]);
    if (std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) == v.end()) continue;
    if (node(0).opcode() == Opcode::get_attr) {
      path_ = "the constant '" + node(0).target() + "', size " + std::to_string(d) + ",";
      unsolved(path_ + " changes with the sizes of the inputs: " + seen(v) +
               "; C++ made it, so the graph would keep one of them. Build it with operators (arange, zeros, full) "
               "that the trace sees, or leave the dimension out");
    }
    meta.symbols.resize(meta.shape.size());
    const int e = fit_.description(v);
    meta.symbols[d] = e == none ? "?" : text(e);
    meta.shape[d] = e == none ? next_dynamic_size() : size_number(v);
  }
  if (!meta.symbols.empty())
    for (std::size_t d = 0; d < meta.shape.size(); ++d)
      if (meta.shape[d] >= 0) meta.symbols[d] = std::to_string(meta.shape[d]);
  out_[place_]->set_tensor_meta(meta);
}

FXX_INLINE std::int64_t SizeSolver::size_number(const SizeValues& values) {
  const auto [at, fresh] = size_numbers_.try_emplace(values, 0);
  if (fresh) at->second = next_dynamic_size();
  return at->second;
}

}  // namespace fxx::inline FXX_ABI::detail
