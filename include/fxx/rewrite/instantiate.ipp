// Bodies of rewrite/instantiate.hpp.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "fxx/error.hpp"
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
      case K::sequence:
      case K::size:
      case K::value: return ++t, captured(self, hole, Wants::anything);
      case K::any: return ++t, answers_.fill(graph_, hole);
      case K::where: return ++t, make(t, hole);  // who applies the rule sees whether the condition holds
      case K::named: {
        t = &self + self.size;
        if (const Argument* known = find(self.id)) return *known;
        const Term* inner = &self + 1;
        Argument value = make(inner, hole);
        bound_.emplace_back(self.id, value);
        return value;
      }
      case K::bound:
        if (!find(self.id)) bound_.emplace_back(self.id, to_argument(*self.value));
        return ++t, make(t, hole);
      case K::operands: return operands(t, hole);
      case K::chain: return chain(t, hole);
      case K::hole: return ++t, hole_;
      case K::module:
        throw RuleError(ErrorId::rule_not_verified, "instantiate: the pattern calls a module of class '" +
                                                        std::string(self.name) +
                                                        "', which cannot be made from its name");
      case K::rest:
      case K::each:
      case K::outputs: break;  // of lists and chains, and of the root
      case K::near: return ++t, to_argument(*self.value);
      case K::literal:
      case K::standard: return ++t, spelled(*self.value, hole.type);
    }
    return {};
  }

  Argument captured(const Term& term, const Hole& hole, Hole::Wants wants) {
    if (const Argument* known = find(term.id)) return *known;
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
    std::vector<Argument> items;
    for (int i = 0; i < self.children; ++i)
      add_item(items, t, [&] {
        Hole inside = hole;
        inside.item = static_cast<int>(items.size());
        inside.items = items;
        inside.type = {.base = hole.type.base, .optional = hole.type.optional_items};
        return inside;
      });
    return Argument::list(std::move(items));
  }
  /// What a term stands for among others: one value, or any number for `rest` and `each`.
  template <class HoleOf>
  void add_item(std::vector<Argument>& items, const Term*& t, HoleOf&& hole) {
    const Term& self = *t;
    if (self.kind == Term::Kind::rest) {
      ++t;
      std::vector<Argument> others;
      for (std::size_t n = answers_.choose(3); n--;) {
        Hole open = hole();
        open.wants = open.type.base == ValueType::tensor ? Hole::Wants::node : Hole::Wants::anything;
        others.push_back(answers_.fill(graph_, open));
        items.push_back(others.back());
      }
      bound_.emplace_back(self.id, Argument::list(std::move(others)));
    } else if (self.kind == Term::Kind::each) {
      // One as a rule, or some, or none.
      const std::size_t chosen = answers_.choose(4);
      for (std::size_t n = chosen == 3 ? 0 : 1 + chosen; n--;) {
        const Term* inner = &self + 1;
        items.push_back(alone(inner, hole()));
      }
      t = &self + self.size;
    } else {
      items.push_back(make(t, hole()));
    }
  }
  /// One item of several: its names are bound for it alone, but for those that are one value for all.
  Argument alone(const Term* t, const Hole& hole) {
    const Term* inner = t;
    const std::size_t before = bound_.size();
    Argument value = make(inner, hole);
    std::size_t kept = before;
    for (std::size_t i = before; i < bound_.size(); ++i)
      for (int k = 0; k < t->size; ++k)
        if (t[k].shared && t[k].id == bound_[i].first) {
          std::swap(bound_[kept++], bound_[i]);
          break;
        }
    bound_.resize(kept);
    return value;
  }

  Argument operands(const Term*& t, const Hole& outer) {
    const Term& self = *t;
    t += 1 + self.id;
    const Operator& op = *self.op;
    std::vector<Argument> values;
    const auto hole = [&] {
      return Hole{.op = &op,
                  .parameter = values.empty() ? 0 : 1,
                  .type = op.parameters[0].type,
                  .before = values,
                  .outer = outer.op ? &outer : nullptr};
    };
    for (int i = static_cast<int>(self.id); i < self.children; ++i) add_item(values, t, hole);
    if (answers_.choose(2) == 1) std::reverse(values.begin(), values.end());
    std::vector<Node*> links;
    Argument value = call_chain(graph_, op, values, links);
    for (Node* link : links) answers_.made(*link);
    return value;
  }

  Argument chain(const Term*& t, const Hole& outer) {
    const Term& self = *t;
    const Term *link = &self + 1, *end = link + link->size;
    const Term* first = link;
    while (!first->op) ++first;  // in wrappers and alternatives
    const Hole hole{.op = first->op, .type = first->op->parameters[0].type, .outer = outer.op ? &outer : nullptr};
    Argument value = make(end, hole);
    for (std::size_t n = static_cast<std::size_t>(self.least) + answers_.choose(3); n--;) {
      hole_ = value;
      value = alone(link, outer);
    }
    t = &self + self.size;
    return value;
  }

  const Argument* find(std::uint64_t id) const {
    for (const auto& [known, value] : bound_)
      if (known == id) return &value;
    return nullptr;
  }

  Graph& graph_;
  Instantiation& answers_;
  std::vector<std::pair<std::uint64_t, Argument>> bound_;
  Argument hole_;  // of a chain: what the next link goes around
};

}  // namespace detail

FXX_INLINE Argument call_chain(Graph& graph, const Operator& op, std::span<Argument> operands,
                               std::vector<Node*>& made) {
  std::stable_partition(operands.begin(), operands.end(), [](const Argument& a) { return a.is_node(); });
  std::string name(op.name_space());
  name.append("::").append(op.base_name());
  Argument chain = operands[0];
  for (const Argument& operand : operands.subspan(1)) {
    const Argument both[] = {chain, operand};
    const Operator* fitting = operand.is_node() ? &op : resolve_overload(name, both, {});
    made.push_back(graph.call_function(fitting ? *fitting : op, {chain, operand}));
    chain = made.back();
  }
  return chain;
}

FXX_INLINE std::vector<Argument> instantiate(Graph& graph, const Term* pattern, std::uint64_t shared,
                                             Instantiation& answers) {
  detail::PatternMaker maker(graph, answers);
  std::vector<Argument> roots;
  if (pattern->kind == Term::Kind::outputs) {
    const Term* next = pattern + 1;
    for (int i = 0; i < pattern->children; ++i, next += next->size) roots.push_back(maker.make_root(next));
    return roots;
  }
  roots.push_back(maker.make_root(pattern));
  if (!shared) return roots;
  for (std::size_t more = 1 + answers.choose(2); more--;) {
    maker.forget_all_but(shared);
    roots.push_back(maker.make_root(pattern));
  }
  return roots;
}

}  // namespace fxx::inline FXX_ABI::rewrite
