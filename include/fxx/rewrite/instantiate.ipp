// Bodies of rewrite/instantiate.hpp.
#pragma once

#include <utility>

#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/instantiate.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

class PatternMaker {
 public:
  PatternMaker(Graph& graph, Instantiation& answers) : graph_(graph), answers_(answers) {}

  Argument make_root(const Term* t) { return make(t, {}); }
  /// Other members of a family of siblings have captures of their own, but for the one that they share.
  void forget_all_but(std::uint64_t shared) {
    std::erase_if(bound_, [&](const auto& bound) { return bound.first != shared; });
  }

 private:
  /// Makes what stands at `t`; `t` is behind it afterwards.
  Argument make(const Term*& t, const Hole& hole) {
    using K = Term::Kind;
    using Wants = Hole::Wants;
    const Term& self = *t;
    switch (self.kind) {
      case K::call: return call(t, hole);
      case K::list: return list(t, hole);
      case K::alternatives: {
        const Term* chosen = ++t;
        for (std::size_t k = answers_.choose(self.children); k--;) chosen += chosen->size;
        t = &self + self.size;
        return make(chosen, hole);
      }
      case K::tensor: return ++t, captured(self, hole, Wants::node);
      case K::constant: return ++t, captured(self, hole, Wants::constant);
      case K::optional: return ++t, captured(self, hole, Wants::node_or_none);
      case K::scalar: return ++t, captured(self, hole, Wants::number);
      case K::value: return ++t, captured(self, hole, Wants::anything);
      case K::any: return ++t, answers_.fill(graph_, hole);
      case K::near: return ++t, to_argument(self.value);
      case K::literal:
      case K::standard: return ++t, spelled(self.value, hole.type);
    }
    return {};
  }

  Argument captured(const Term& term, const Hole& hole, Hole::Wants wants) {
    for (const auto& [id, value] : bound_)
      if (id == term.id) return value;
    Hole named = hole;
    named.wants = wants;
    named.capture = term.name;
    bound_.emplace_back(term.id, answers_.fill(graph_, named));
    return bound_.back().second;
  }

  /// A constant in one of the ways that say the same: 2 or 2.0, [2, 2] or 2.
  Argument spelled(const Literal& value, const Type& type) {
    const bool any_number = type.base == ValueType::scalar || type.base == ValueType::real;
    if (value.kind == Literal::Kind::integer && any_number && !type.list && answers_.choose(2) == 1)
      return static_cast<double>(value.integer);
    if (value.kind == Literal::Kind::integers && value.count > 0 && type.list_size > 0) {
      bool all = true;
      for (int i = 1; i < value.count; ++i) all = all && value.items[i] == value.items[0];
      if (all && answers_.choose(2) == 1) return value.items[0];
    }
    return to_argument(value, type);
  }

  Argument call(const Term*& t, const Hole& outer) {
    const Term& self = *t++;
    const Operator& op = *self.op;
    std::vector<Argument> values(self.children);
    std::vector<bool> given(self.children, true);
    for (std::size_t i = 0; i < self.children; ++i) {
      const Parameter& p = op.parameters[i];
      if (t->kind == Term::Kind::standard) {
        const bool readable = p.standard.kind != Literal::Kind::other && p.standard.kind != Literal::Kind::absent;
        given[i] = readable && answers_.choose(2) == 1;
      }
      const Hole hole{.op = &op,
                      .parameter = static_cast<int>(i),
                      .type = p.type,
                      .before = {values.data(), i},
                      .outer = outer.op ? &outer : nullptr};
      if (given[i]) values[i] = make(t, hole);
      else values[i] = to_argument(p.standard, p.type), ++t;
    }
    if (two_orders(&self) && answers_.choose(2) == 1) std::swap(values[0], values[1]);
    std::vector<Argument> args;
    std::vector<KeywordArgument> kwargs;
    for (std::size_t i = 0; i < self.children; ++i) {
      if (!given[i]) continue;
      const Parameter& p = op.parameters[i];
      if (p.keyword_only || args.size() != i) kwargs.push_back({p.name, values[i]});  // after one left out, by name
      else args.push_back(values[i]);
    }
    Node* node = graph_.call_function(op, args, kwargs);
    answers_.made(*node);
    return node;
  }

  Argument list(const Term*& t, const Hole& hole) {
    const Term& self = *t++;
    std::vector<Argument> items(self.children);
    for (std::size_t i = 0; i < self.children; ++i) {
      Hole inside = hole;
      inside.item = static_cast<int>(i);
      inside.items = {items.data(), i};
      inside.type = {.base = hole.type.base, .optional = hole.type.optional_items};
      items[i] = make(t, inside);
    }
    return Argument::list(std::move(items));
  }

  Graph& graph_;
  Instantiation& answers_;
  std::vector<std::pair<std::uint64_t, Argument>> bound_;
};

}  // namespace detail

FXX_INLINE std::vector<Argument> instantiate(Graph& graph, const Term* pattern, std::uint64_t shared,
                                             Instantiation& answers) {
  detail::PatternMaker maker(graph, answers);
  std::vector<Argument> roots = {maker.make_root(pattern)};
  if (!shared) return roots;
  for (std::size_t more = 1 + answers.choose(2); more--;) {
    maker.forget_all_but(shared);
    roots.push_back(maker.make_root(pattern));
  }
  return roots;
}

}  // namespace fxx::inline FXX_ABI::rewrite
