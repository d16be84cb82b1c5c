// Bodies of rewrite/matcher.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "fxx/error.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/matcher.hpp"
#include "fxx/rewrite/rule.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {
/// What has been matched so far.
struct Registers {
  Node* nodes[max_registers];
  std::uint32_t changed_over = 0;
};
// Plain `inline` where calls are hot: with -fPIC, what others may replace when linking is not inlined.
inline int parameter_at(Place place, std::uint32_t changed_over) {
  return place.arg < 2 && ((changed_over >> place.reg) & 1) ? 1 - place.arg : place.arg;
}
inline const Argument* argument_at(const Node& n, const Operator& op, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at < n.args().size() ? &n.args()[at] : n.kwargs().empty() ? nullptr : argument_of(n, op, i);
}
/// The argument at a place; null when it was left out, or there is no such item.
inline const Argument* at(Place place, Node* const* nodes, std::uint32_t changed_over) {
  const Node& n = *nodes[place.reg];
  const Argument* whole = argument_at(n, *n.operation(), parameter_at(place, changed_over));
  if (place.item == Place::whole || !whole) return whole;
  if (!whole->is_sequence() || place.item >= whole->items().size()) return nullptr;
  return &whole->items()[place.item];
}
inline const Argument* at(Place place, const Registers& regs) { return at(place, regs.nodes, regs.changed_over); }
FXX_INLINE Argument value_at(Place place, Node* const* nodes, std::uint32_t changed_over) {
  if (place.arg == Place::self) return nodes[place.reg];
  if (const Argument* a = at(place, nodes, changed_over)) return *a;
  const Parameter& p =
      nodes[place.reg]->operation()->parameters[static_cast<std::size_t>(parameter_at(place, changed_over))];
  return place.item == Place::whole ? to_argument(p.standard, p.type) : Argument();
}
inline Node* operand(const Test& t, const Registers& regs) {
  const Argument* a = at(t.place(), regs);
  return a && a->is_node() ? a->node() : nullptr;
}
FXX_INLINE bool holds(const Test& t, const Registers& regs) {
  using K = Test::Kind;
  if (t.kind() == K::once) return regs.nodes[t.place().reg]->num_users() == 1;
  if (t.kind() == K::equal)
    return value_at(t.place(), regs.nodes, regs.changed_over) == value_at(t.other(), regs.nodes, regs.changed_over);
  if (t.kind() == K::condition) return t.condition->holds(value_at(t.place(), regs.nodes, regs.changed_over));
  const Argument* a = at(t.place(), regs);
  if (!a) return t.left_out;
  switch (t.kind()) {
    case K::number:
      if (a->kind() == Argument::Kind::boolean) return false;
      // x - 0 is x, and x - -0 is not.
      if (a->kind() == Argument::Kind::real && a->real() == 0 && std::signbit(a->real()) != std::signbit(t.literal->number()))
        return false;
      if (a->kind() == Argument::Kind::real && t.literal->kind == Literal::Kind::real) return a->real() == t.literal->real;
      if (a->kind() == Argument::Kind::integer) return *t.literal == Literal::of(a->integer());
      if (a->kind() == Argument::Kind::real) return *t.literal == Literal::of(a->real());
      [[fallthrough]];  // a list of one number over and over
    case K::literal:
      return same_value(*a, *t.literal, regs.nodes[t.place().reg]->operation()->parameters[t.place().arg].type);
    case K::near: return a->is_number() && is_near(a->number(), std::bit_cast<double>(t.payload));
    case K::node: return is_of_kind(Term::Kind::tensor, *a);
    case K::optional: return is_of_kind(Term::Kind::optional, *a);
    case K::constant: return is_of_kind(Term::Kind::constant, *a);
    case K::scalar: return is_of_kind(Term::Kind::scalar, *a);
    case K::sequence: return is_of_kind(Term::Kind::sequence, *a);
    case K::size: return is_of_kind(Term::Kind::size, *a);
    case K::list: return a->is_sequence() && a->items().size() == t.payload;
    default: return false;
  }
}
}  // namespace detail

FXX_INLINE Argument Match::value_of(const CapturePlace& capture) const {
  if (capture.constant) return to_argument(*capture.constant);
  return detail::value_at(capture.place(), nodes_, changed_over_);
}
FXX_INLINE Argument Match::get(std::uint64_t capture) const {
  if (found_) return found_->get(capture);
  for (int i = 0; i < captures_count_; ++i)
    if (captures_[i].id == capture) return value_of(captures_[i]);
  return {};
}
namespace detail {
/// A callable asks for a name that nothing can have a value for.
[[noreturn]] FXX_INLINE void no_such_name(const Term* pattern, std::uint64_t id, std::string_view name, Node* root) {
  const bool inside = bound_in_groups_only(pattern, id);
  std::string names, group;
  for (int i = 0; i < pattern->size; ++i) {
    const Term& t = pattern[i];
    if (t.kind == Term::Kind::each || t.kind == Term::Kind::chain) {
      const int last = i + (t.kind == Term::Kind::each ? t.size : 1 + pattern[i + 1].size);
      for (int k = i + 1; k < last; ++k)
        if (binds_name(pattern[k]) && pattern[k].id == id) group = t.name;
    }
    if (!binds_name(t) || names.find('\'' + std::string(t.name) + '\'') != std::string::npos) continue;
    names.append(names.empty() ? "'" : ", '").append(t.name).append("'");
  }
  throw RuleError(
      ErrorId::no_such_name,
      "Match: the pattern of the rule " +
          (inside ? "binds '" + std::string(name) + "' once an item; read it by group<\"" + group +
                        "\">()[i], item by item"
                  : "does not bind '" + std::string(name) + "'; it binds " + (names.empty() ? "no names" : names)),
      {format_node(*root)});
}
constexpr bool binds_anywhere(const Term* pattern, std::uint64_t id) {
  for (int i = 0; i < pattern->size; ++i)
    if (binds_name(pattern[i]) && pattern[i].id == id) return true;
  return false;
}
}  // namespace detail
// What is bound is looked for first, so that only a name without a value costs a look at the pattern.
FXX_INLINE Argument Match::get(std::uint64_t capture, std::string_view name) const {
  if (found_) {
    for (const Found::Binding& b : found_->bindings)
      if (b.id == capture) return b.value;
  } else {
    for (int i = 0; i < captures_count_; ++i)
      if (captures_[i].id == capture) return value_of(captures_[i]);
  }
  if (pattern_ && (!detail::binds_anywhere(pattern_, capture) || detail::bound_in_groups_only(pattern_, capture)))
    detail::no_such_name(pattern_, capture, name, root());
  return {};
}
FXX_INLINE Argument Match::get_beside(const Found::Item& item, std::uint64_t capture, std::string_view name) const {
  for (const Term* group = pattern_; group && group < pattern_ + pattern_->size; ++group)
    if ((group->kind == Term::Kind::each || group->kind == Term::Kind::chain) && group->id == item.group)
      for (const Term* t = group + 1; t < group + 1 + group[1].size; ++t)
        if (binds_name(*t) && t->id == capture && !t->shared) return {};  // in an alternative that is not there
  return get(capture, name);
}

FXX_INLINE std::vector<Argument> Match::captures() const {
  std::vector<Argument> values;
  if (found_)
    for (const Found::Binding& b : found_->bindings) values.push_back(b.value);
  else
    for (int i = 0; i < captures_count_; ++i) values.push_back(value_of(captures_[i]));
  return values;
}

FXX_INLINE std::vector<const Found::Item*> Match::group_items(std::uint64_t name) const {
  std::vector<const Found::Item*> items;
  if (found_)
    for (const Found::Item& item : found_->items)
      if (item.group == name) items.push_back(&item);
  return items;
}

FXX_INLINE std::vector<const Found::Item*> Match::group_items(std::uint64_t hash, std::string_view name) const {
  std::vector<const Found::Item*> items = group_items(hash);
  if (!items.empty() || !pattern_) return items;
  std::string groups;
  for (int i = 0; i < pattern_->size; ++i) {
    const Term& t = pattern_[i];
    if (t.kind != Term::Kind::each && t.kind != Term::Kind::chain) continue;
    if (t.id == hash) return items;
    groups.append(groups.empty() ? "'" : ", '").append(t.name).append("'");
  }
  throw RuleError(ErrorId::no_such_name,
                  "Match: the pattern of the rule has no each or chain of the name '" + std::string(name) +
                      "'; it has " + (groups.empty() ? "none" : groups),
                  {format_node(*root())});
}

FXX_INLINE void Regions::survey(const Graph& graph) {
  if (std::exchange(surveyed_, true) || !graph.may_have_effects()) return;
  bool visible = false;
  for (const Node* n : graph.nodes()) {
    if (!has_effect(*n) || n->opcode() == Opcode::placeholder || n->opcode() == Opcode::output) continue;
    effects_.insert(effects_.end(), n);
    visible = visible || is_barrier(*n);
  }
  if (!visible) return;
  numbers_.resize(graph.index_bound());
  std::uint32_t region = 0;
  for (const Node* n : graph.nodes()) {
    region += is_barrier(*n);
    numbers_[n->index()] = region;
  }
}
FXX_INLINE void Regions::place(const Node& fresh, const Node& beside) {
  if (has_effect(fresh)) effects_.insert(&fresh);
  if (none()) return;
  if (fresh.index() >= numbers_.size()) numbers_.resize(fresh.index() + 1);
  numbers_[fresh.index()] = numbers_[beside.index()];
}

FXX_INLINE bool used_within(const Node& node, std::span<Node* const> nodes) {
  for (const Node* user : node.users())
    if (std::find(nodes.begin(), nodes.end(), user) == nodes.end()) return false;
  return true;
}

/// Nothing visible happens between the nodes or in them, and what they do to temporaries goes with them: of the nodes
/// below the root, one that mutates and all that come after it are used by no others.
FXX_INLINE bool MatchEngine::can_be_taken_out(std::span<Node* const> nodes) const {
  if (regions_.effects().empty()) return true;
  const Node* first_effect = nullptr;
  // A module that a pattern names is what the rule says it is, whatever it might do otherwise.
  const auto is_module = [](const Node* n) { return n->opcode() == Opcode::call_module; };
  for (const Node* n : nodes) {
    if (!regions_.none() && regions_.of(*n) != regions_.of(*nodes[0])) {
      const auto between = std::count_if(nodes.begin(), nodes.end(), [&](const Node* m) {
        return is_module(m) && is_barrier(*m) && n->is_before(*m);
      });
      if (regions_.of(*n) + static_cast<std::uint32_t>(between) != regions_.of(*nodes[0])) return false;
    }
    if (is_module(n) || !has_effect(*n)) continue;
    if (is_barrier(*n)) return false;
    if (n != nodes[0] && (!first_effect || n->is_before(*first_effect))) first_effect = n;
  }
  if (!first_effect) return true;
  return std::all_of(nodes.begin() + 1, nodes.end(),
                     [&](const Node* n) { return n->is_before(*first_effect) || used_within(*n, nodes); });
}

/// Draws some node below the roots random numbers that somebody else sees too? A replacement would draw others, unless
/// it takes those that the pattern names.
FXX_INLINE bool MatchEngine::shares_draws(std::span<Node* const> nodes, std::span<Node* const> roots,
                                          const Match& match) {
  const auto among = [](std::span<Node* const> all, const Node* n) {
    return std::find(all.begin(), all.end(), n) != all.end();
  };
  for (Node* n : nodes) {
    const Operator* op = n->operation();
    if (op && !has(op->traits, Trait::random)) continue;
    if (!draws_numbers(*n) || among(roots, n) || used_within(*n, nodes)) continue;
    const std::vector<Argument> names = match.captures();
    if (std::find(names.begin(), names.end(), Argument(n)) == names.end()) return true;
  }
  return false;
}

FXX_INLINE bool MatchEngine::accept(const RuleTable& table, const State& state, const detail::Registers& regs, int rule,
                                    const Argument* shared, Match& match) {
  if ((asked_ >= 0 && rule != asked_) || rule <= after_) return false;
  regions_.survey(graph_);
  if (table.rules[state.rule].searched) {
    const Term* pattern = table.rules[state.rule].pattern;
    resolve_methods();
    Match candidate;
    candidate.graph_ = &graph_;
    candidate.nodes_[0] = regs.nodes[0];
    candidate.nodes_count_ = 1;
    candidate.rule_ = rule;
    candidate.assumed_ = rules_.assumed;
    candidate.pattern_ = pattern;
    return accept_search(pattern, candidate, match);
  }
  const int registers = state.other().reg;
  if (!can_be_taken_out({regs.nodes, static_cast<std::size_t>(registers)})) return false;
  Match candidate;
  candidate.graph_ = &graph_;
  std::copy(regs.nodes, regs.nodes + registers, candidate.nodes_);
  candidate.nodes_count_ = registers;
  candidate.changed_over_ = regs.changed_over;
  candidate.captures_ = table.captures + state.payload;
  candidate.captures_count_ = state.other().arg;
  candidate.pattern_ = rules_.rules[rule].pattern;
  candidate.rule_ = rule;
  candidate.assumed_ = rules_.assumed;
  if (shares_draws(candidate.nodes(), candidate.nodes().first(1), candidate)) return false;
  if (shared) {
    if (!(candidate.get(rules_.rules[rule].shared) == *shared)) return false;
  } else {
    if (rules_.rules[rule].alone && !collect_siblings(candidate, rule)) return false;
    if (!rules_.agrees(rule, candidate)) return false;
    if (candidate.group_) {
      group_.swap(candidates_);
      candidate.group_ = &group_;
    }
  }
  match = candidate;
  return true;
}

namespace detail {
/// Is the name one of a capture that the result is made of, as far as can be told? A callable may take each.
FXX_INLINE bool takes_captured(const RuleFacts& facts, std::uint64_t id) {
  const auto names = [&](const Term* terms) {
    return std::any_of(terms, terms + terms->size, [&](const Term& t) { return is_capture(t) && t.id == id; });
  };
  return names(facts.pattern) && (!facts.result || names(facts.result));
}
/// Of several outputs: does the result use what the name stands for, an output itself, elsewhere than in its place?
/// What a callable makes of it is looked at when it is made.
FXX_INLINE bool uses_elsewhere(const RuleFacts& facts, std::uint64_t id, std::size_t output) {
  const Term* result = facts.result;
  if (!result || result->kind != Term::Kind::outputs) return false;
  const Term* own = result + 1;
  for (; output > 0; --output) own += own->size;
  return std::any_of(result, result + result->size,
                     [&](const Term& t) { return &t != own && is_capture(t) && t.id == id; });
}
}  // namespace detail

/// Of a pattern of several outputs: puts a match for each of them into candidates_. False when what their names hold
/// cannot be computed before the first of them.
FXX_INLINE bool MatchEngine::stands_together(const Found& found, Match& candidate) {
  candidate.found_ = &found;
  candidates_.clear();
  if (found.roots.size() < 2) return true;
  for (Node* root : found.roots) {
    Match output = candidate;
    output.nodes_[0] = root;
    candidates_.push_back(output);
  }
  const Node& first = **std::min_element(found.roots.begin(), found.roots.end(),
                                         [](const Node* a, const Node* b) { return a->is_before(*b); });
  const auto among = [](const std::vector<Node*>& all, const Node* n) {
    return std::find(all.begin(), all.end(), n) != all.end();
  };
  // What was matched below the roots may stay, and goes where it is needed with what it is computed from.
  const auto can_stand_early = [&](const auto& self, const Node& n) -> bool {
    if (n.is_before(first)) return true;
    if (among(found.roots, &n)) return false;
    if (!among(found.nodes, &n)) return can_move_before(n, first, found.nodes, regions_);
    const auto inputs = n.all_input_nodes();
    return std::all_of(inputs.begin(), inputs.end(), [&](const Node* input) { return self(self, *input); });
  };
  const RuleFacts& facts = rules_.rules[candidate.rule_];
  bool early = true;
  const auto add = [&](const Found::Binding& b) {
    for_each_node(b.value, [&](const Node* n) {
      const auto root = std::find(found.roots.begin(), found.roots.end(), n);
      if (root == found.roots.end() || detail::takes_captured(facts, b.id)) {
        early = early && can_stand_early(can_stand_early, *n);
        return;
      }
      // A root is named for the guard to look at it, or to stay what it is. Where others are made of it, it moves too.
      if (!detail::uses_elsewhere(facts, b.id, static_cast<std::size_t>(root - found.roots.begin()))) return;
      const auto inputs = n->all_input_nodes();
      early = early && !has_effect(*n) && std::all_of(inputs.begin(), inputs.end(), [&](const Node* input) {
                return can_stand_early(can_stand_early, *input);
              });
    });
  };
  for (const Found::Binding& b : found.bindings) add(b);
  for (const Found::Item& item : found.items) std::for_each(item.bindings.begin(), item.bindings.end(), add);
  if (early) candidate.group_ = &candidates_;
  return early;
}
FXX_INLINE bool MatchEngine::accept_search(const Term* pattern, Match& candidate, Match& match) {
  TermMatcher search;
  const bool found = search.match(pattern, candidate.root(), [&](const Found& so_far) {
    return can_be_taken_out(so_far.nodes) && stands_together(so_far, candidate) &&
           !shares_draws(so_far.nodes, so_far.roots, candidate) && rules_.agrees(candidate.rule_, candidate);
  });
  if (!found) return false;
  found_ = search.take();
  candidate.found_ = &found_;
  if (candidate.group_) {
    group_.swap(candidates_);
    for (Match& output : group_) output.found_ = &found_;
    candidate.group_ = &group_;
  }
  match = candidate;
  return true;
}

/// Methods are matched as the operators that they mean. The first that is met resolves all, in the order of the graph:
/// from the end, each would resolve those that it reads, one inside the other.
FXX_INLINE void MatchEngine::resolve_methods() {
  if (std::exchange(methods_resolved_, true)) return;
  for (const Node* n : graph_.nodes())
    if (n->opcode() == Opcode::call_method) operator_of(*n);
}
inline std::uint64_t MatchEngine::operator_id(const Node& node) {
  if (node.family() < Node::no_call) [[likely]]
    return node.operation()->means;
  if (!node.operation() && node.opcode() == Opcode::call_method) resolve_methods();
  return rewrite::operator_id(node);
}

FXX_INLINE bool MatchEngine::collect_siblings(Match& match, int rule, const Node** speaker) {
  const Argument shared = match.get(rules_.rules[rule].shared);
  if (!shared.is_node()) return false;
  // Is what it captures not there yet at the place of the other, nor a constant that can be moved there?
  const auto comes_late = [](const Match& member, const Node& place) {
    bool late = false;
    for (const Argument& bound : member.captures())
      for_each_node(bound, [&](const Node* n) { late = late || (!n->is_before(place) && !is_constant_value(*n)); });
    return late;
  };
  const RuleTable& alone = *rules_.rules[rule].alone;
  // The first member speaks for all, so that one group is found once. Users mostly stand in the order of the graph, so
  // any other member sees the first at once.
  const Node* first = match.root();
  std::vector<Match>& found = candidates_;
  found.clear();
  for (Node* user : shared.node()->users()) {
    const std::uint16_t pc = alone.root(operator_id(*user));
    Match member;
    if (!pc || !run(alone, pc, user, member, rule, &shared)) continue;
    if (!regions_.none() && regions_.of(*user) != regions_.of(*first)) continue;
    if (user->is_before(*first)) {
      // That one speaks for all of its family, unless what this one captures comes too late for it.
      if (comes_late(match, *user)) continue;
      if (speaker) *speaker = user;
      return false;
    }
    found.push_back(member);
  }
  // What takes the place of all stands before the first, so the captures of the others must be there, or be constants
  // that can be moved there.
  std::sort(found.begin(), found.end(), [](const Match& a, const Match& b) { return a.root()->is_before(*b.root()); });
  std::erase_if(found, [&](const Match& member) { return comes_late(member, *first); });
  if (found.size() < 2 || found[0].root() != first) return false;
  match.group_ = &found;
  return true;
}

namespace detail {
/// The family of what a method stands for, as far as somebody has resolved it.
inline std::uint8_t family_of_method(const Node& node) {
  const bool resolved = node.opcode() == Opcode::call_method && node.operation();
  return resolved ? node.family_as(*node.operation()) : Node::any_call;
}
/// Is among the operands what some rule of the family wants? Without branches that depend on what comes next in a
/// graph.
inline bool passes(const Sieve& sieve, const Node& root, std::uint8_t family) {
  static_assert(Sieve::any == std::uint64_t{1} << Node::no_call);  // so that what is no call adds nothing
  std::uint64_t operands = Sieve::any;
  for (const Node* input : root.all_input_nodes()) {
    std::uint8_t of_input = input->family();
    if (of_input == Node::any_call) [[unlikely]] {
      of_input = family_of_method(*input);
      if (of_input == Node::any_call) return true;
    }
    operands |= std::uint64_t{1} << of_input;
  }
  return operands & sieve.operands[family];
}
}  // namespace detail
/// The state of the operator itself, or of its functional twin when only that begins a rule.
FXX_INLINE std::uint16_t MatchEngine::state_for(const Node& root) {
  const std::uint8_t family = root.family();
  // Where the operator alone tells whether a rule begins with it, that comes first: nothing but the node is looked at.
  if (family < Node::no_call) [[likely]] {
    const std::uint16_t state = rules_.root(root.operation()->means);
    return state && detail::passes(*rules_.sieve, root, family) ? state : std::uint16_t{0};
  }
  if (family == Node::no_call) return 0;
  if (const std::uint8_t method = detail::family_of_method(root);
      method != Node::any_call && !detail::passes(*rules_.sieve, root, method))
    return 0;
  const std::uint16_t state = rules_.root(operator_id(root));
  if (state || !root.operation() || !root.operation()->mutates) [[likely]]
    return state;
  const std::uint64_t twin = functional_id(root);
  return twin ? rules_.root(twin) : std::uint16_t{0};
}
FXX_INLINE bool MatchEngine::match_node(std::uint16_t state, Node* root, Match& match, int after) {
  after_ = after;
  bool found = run(rules_, state, root, match, -1, nullptr);
  if (root->operation() && root->operation()->mutates) [[unlikely]] {
    const std::uint64_t twin = functional_id(*root);
    const std::uint16_t other = twin ? rules_.root(twin) : std::uint16_t{0};
    if (other && other != state && run(rules_, other, root, match, -1, nullptr, found ? match.rule() : 1 << 16))
      found = true;
  }
  return found;
}

/// Why a rule whose pattern is all there does not match, or is not applied.
FXX_INLINE std::string MatchEngine::why_declined(int rule, const Found& found) {
  const RuleFacts& facts = rules_.rules[rule];
  if (!can_be_taken_out(found.nodes))
    return "all of it is there, but between its nodes memory is written to, or what they write somebody else sees";
  Match match;
  match.graph_ = &graph_;
  match.nodes_[0] = found.roots[0];
  match.nodes_count_ = 1;
  match.rule_ = rule;
  match.assumed_ = rules_.assumed;
  match.pattern_ = facts.pattern;
  match.found_ = &found;
  if (facts.alone) {
    const Node* speaker = nullptr;
    if (!collect_siblings(match, rule, &speaker))
      return speaker ? "it is replaced together with its siblings, of which %" + std::string(speaker->name()) +
                           " is the first; ask why that does not match"
                     : "it has no siblings that match too";
  } else if (!stands_together(found, match))
    return "all of it is there, but its outputs cannot be computed in one place";
  if (shares_draws(found.nodes, found.roots, match))
    return "all of it is there, but somebody else uses the random numbers that it draws";
  if (!holds(facts.needs, rules_.assumed))
    return "all of it is there, but it needs what may not be taken for granted here: " +
           to_string(facts.needs & ~rules_.assumed);
  if (!rules_.agrees(rule, match)) return "all of it is there, but its guard declines";
  if (facts.build) return "all of it is there, but its callable declines";
  return regions_.effects().empty() ? "all of it is there, and its result is what stands there already"
                                    : "all of it is there, but its result shares memory that is written to";
}
/// The reason when more of the pattern is there than the search has seen before, otherwise "". `whole`: all of it is.
FXX_INLINE std::string MatchEngine::why_not(int rule, Node* root, TermMatcher& search, bool& whole) {
  const RuleFacts& facts = rules_.rules[rule];
  const long before = search.progress();
  std::string why;
  search.match_next(facts.pattern, root, [&](const Found& found) {
    whole = true;
    why = why_declined(rule, found);
    return true;
  });
  if (!whole && search.progress() == before) return {};
  return "rule '" + std::string(facts.name) + "' does not match %" + std::string(root->name()) + ": " +
         (whole ? why : search.reason());
}
FXX_INLINE std::string MatchEngine::explain(int rule, Node* root) {
  Match match;
  asked_ = rule;
  resolve_methods();
  regions_.survey(graph_);
  if (const std::uint16_t state = state_for(*root); state && match_node(state, root, match)) return {};
  TermMatcher search(true);
  bool whole = false;
  const std::string why = why_not(rule, root, search, whole);
  if (!why.empty()) return why;
  return "rule '" + std::string(rules_.rules[rule].name) + "' does not match %" + std::string(root->name());
}
FXX_INLINE std::string MatchEngine::nearest(int rule, Node*& node) {
  resolve_methods();
  regions_.survey(graph_);
  TermMatcher search(true);
  bool whole = false;
  std::string why;
  node = nullptr;
  after_ = -1;
  for (Node* n : graph_.nodes()) {
    if (n->opcode() == Opcode::placeholder || n->opcode() == Opcode::output) continue;
    std::string here = why_not(rule, n, search, whole);
    if (here.empty()) continue;
    why = std::move(here);
    node = n;
    if (whole) return why;
  }
  if (search.progress() > 0) return why;
  node = nullptr;
  const Term* first = rules_.rules[rule].pattern;
  while (is_wrapper(*first) || first->kind == Term::Kind::outputs) ++first;
  return "rule '" + std::string(rules_.rules[rule].name) + "' does not match: no node is " + detail::words_for(*first);
}
FXX_INLINE std::string explain_match(const RuleTable& rules, int rule, Node* root) {
  Regions regions;
  return MatchEngine(root->graph(), rules, regions).explain(rule, root);
}
FXX_INLINE int number_of_rule(const RuleTable& rules, std::string_view name) {
  std::vector<std::string_view> names;
  for (int i = 0; i < rules.count; ++i) {
    if (rules.rules[i].name == name) return i;
    names.push_back(rules.rules[i].name);
  }
  detail::no_such_rule("the set has no rule", name, names);
}
namespace detail {
FXX_INLINE void no_such_rule(std::string_view what, std::string_view name, std::span<const std::string_view> rules) {
  std::string list;
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    if (std::find(rules.begin(), rule, *rule) != rule) continue;
    list.append(list.empty() ? "'" : ", '").append(*rule).append("'");
  }
  throw RuleError(ErrorId::no_such_rule,
                  "explain: " + std::string(what) + " '" + std::string(name) + "'; the rules are " + list);
}
}  // namespace detail

FXX_INLINE bool MatchEngine::run(const RuleTable& table, std::uint16_t pc, Node* root, Match& match, int only,
                                 const Argument* shared, int below) {
  using K = Test::Kind;
  detail::Registers regs;
  regs.nodes[0] = root;
  int best = below;
  for (;;) {
    const State& s = table.states[pc];
    switch (s.kind()) {
      case K::op: {
        Node* n = s.rule < best ? detail::operand(s, regs) : nullptr;
        if (n && (operator_id(*n) == s.payload || is_twin(*n, s.payload))) {
          regs.nodes[s.other().reg] = n;
          ++pc;
        } else {
          pc = s.fail;
        }
        continue;
      }
      case K::select: {
        Node* n = detail::operand(s, regs);
        pc = s.fail;
        if (!n) continue;
        const Branch *first = table.edges + s.payload, *last = first + s.edges;
        const auto branch = [&](std::uint64_t id) {
          const Branch* at =
              std::lower_bound(first, last, id, [](const Branch& b, std::uint64_t op) { return b.op < op; });
          return at != last && at->op == id ? at : last;
        };
        const Branch* found = branch(operator_id(*n));
        if (found == last && n->operation() && n->operation()->mutates) [[unlikely]]
          found = branch(functional_id(*n));
        if (found != last) {
          regs.nodes[s.other().reg] = n;
          pc = found->state;
        }
        continue;
      }
      case K::order:
        regs.changed_over &= ~(1u << s.place().reg);
        pc = s.rule < best ? static_cast<std::uint16_t>(pc + 1) : s.fail;
        continue;
      case K::again:
        regs.changed_over ^= 1u << s.place().reg;
        pc = (regs.changed_over >> s.place().reg) & 1 ? s.fail : static_cast<std::uint16_t>(pc + 1);
        continue;
      case K::jump: pc = s.fail; continue;
      case K::halt: return best < below;
      case K::accept:
        ++pc;
        if (s.rule < best && accept(table, s, regs, only >= 0 ? only : s.rule, shared, match)) best = s.rule;
        continue;
      case K::constant: resolve_methods(); [[fallthrough]];  // it looks at what the value is computed from
      default: pc = s.rule < best && detail::holds(s, regs) ? static_cast<std::uint16_t>(pc + 1) : s.fail;
    }
  }
}

}  // namespace fxx::inline FXX_ABI::rewrite
