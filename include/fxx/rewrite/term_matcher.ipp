// Bodies of rewrite/term_matcher.hpp.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/spelling.hpp"
#include "fxx/rewrite/term_matcher.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

FXX_INLINE std::string words_for(const Term& t) {
  using K = Term::Kind;
  const auto capture = [&](const char* kind) { return std::string(kind) + "<\"" + std::string(t.name) + "\">"; };
  switch (t.kind) {
    case K::call: return "a call of " + std::string(t.op->name);
    case K::alternatives: return "one of " + std::to_string(t.children) + " alternatives";
    case K::list: return "a list of " + std::to_string(t.children);
    case K::tensor: return "a tensor (" + capture("tensor") + ")";
    case K::optional: return "a tensor or None (" + capture("optional") + ")";
    case K::constant: return "a tensor that the inputs do not reach (" + capture("constant") + ")";
    case K::scalar: return "a number (" + capture("scalar") + ")";
    case K::sequence: return "a list (" + capture("sequence") + ")";
    case K::size: return "a size (" + capture("sym_int") + ")";
    case K::literal:
    case K::standard:
      if (t.value->kind == Literal::Kind::other || t.value->kind == Literal::Kind::absent) return "its default";
      return to_string(to_argument(*t.value)) + (t.kind == K::standard ? ", its default" : "");
    case K::near: return "a number near " + to_string(to_argument(*t.value));
    case K::operands: return "a chain of " + std::string(t.op->name);
    case K::chain: return "a chain of " + std::to_string(t.least) + " or more";
    case K::module: return "a call of a module " + std::string(t.name);
    default: return "a value";
  }
}
FXX_INLINE std::string words_for(const Node& node) {
  const Operator* op = operator_of(node);
  const ModuleInfo* info = module_info(node);
  std::string words = "%" + std::string(node.name());
  if (op) words.append(" = ").append(op->name);
  if (info) words += ", a call of a module " + info->type;
  if (op || info) return words;
  switch (node.opcode()) {
    case Opcode::placeholder: return words + ", an input";
    case Opcode::output: return words + ", the output";
    case Opcode::get_attr: return words + ", the attribute " + node.target();
    case Opcode::call_module: return words + ", a call of the module " + node.target();
    default: return words + ", a call of " + node.target();
  }
}
FXX_INLINE std::string words_for(const Argument* value) {
  if (!value) return "left out";
  return value->is_node() ? words_for(*value->node()) : to_string(*value);
}
/// The operands of the call, when it is a link of the chain: the operator is one of `t`'s, and nothing besides the two
/// is given.
FXX_INLINE bool is_link(const Term* t, const Node& node) {
  const Operator* op = operator_of(node);
  if (!op) return false;
  bool one = false;
  for (std::uint64_t i = 0; i < t->id; ++i) one = one || calls_operator(node, t[1 + i].id);
  if (!one) return false;
  for (int i = 2; i < op->arity(); ++i) {
    const Parameter& p = op->parameters[static_cast<std::size_t>(i)];
    if (const Argument* given = argument_of(node, *op, i); given && !same_value(*given, p.standard, p.type))
      return false;
  }
  return true;
}

/// How many calls at most lie between the root of the pattern and what is below it.
FXX_INLINE std::size_t call_levels(const Term* t) {
  std::size_t calls = 0;
  for (int i = 0; i < t->size; ++i) {
    if (t[i].kind == Term::Kind::chain || t[i].kind == Term::Kind::operands) return ~std::size_t{0};
    calls += t[i].kind == Term::Kind::call || t[i].kind == Term::Kind::module;
  }
  return calls;
}
/// Is the name of an item of the group one value for all of its items?
FXX_INLINE bool is_shared(const Term* group, std::uint64_t name) {
  const Term* item = group + 1;
  return std::any_of(item, item + item->size, [&](const Term& t) { return t.shared && t.id == name; });
}
FXX_INLINE bool bind_the_same(std::span<const Found::Binding> a, std::span<const Found::Binding> b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const Found::Binding& one) {
           return std::any_of(b.begin(), b.end(), [&](const Found::Binding& other) {
             return one.id == other.id && one.value == other.value;
           });
         });
}
/// Does the pattern have a call of what the node calls?
FXX_INLINE bool may_be_part_of(const Term* t, const Node& node) {
  for (int i = 0; i < t->size; ++i) {
    const bool call = t[i].op || t[i].kind == Term::Kind::module;
    if (call && calls_operator(node, t[i].id)) return true;
  }
  return false;
}

}  // namespace detail

template <class Words>
bool TermMatcher::fail(Words&& words) {
  if (!explain_) return false;
  // What matched says how far the search came.
  if (const long here = progress_here(); here > progress_) {
    progress_ = here;
    reason_ = words();
  }
  return false;
}

FXX_INLINE void TermMatcher::back_to(const Mark& m) {
  found_.bindings.resize(m.bindings);
  found_.items.resize(m.items);
  found_.nodes.resize(m.nodes);
  found_.roots.resize(m.roots);
  passed_ = m.passed;
}

FXX_INLINE Argument TermMatcher::value_of(Subject s) const {
  if (s.value) return *s.value;
  return s.parameter ? to_argument(s.parameter->standard, s.parameter->type) : Argument();
}

FXX_INLINE bool TermMatcher::bind(std::uint64_t id, const Argument& value, std::string_view name, Continue go_on,
                                  bool constant) {
  for (const Found::Binding& known : found_.bindings)
    if (known.id == id) {
      // A constant of the pattern is what it says: 2 and 2.0.
      const bool counts = (constant || known.constant) && value.is_number() && known.value.is_number() &&
                          value.kind() != Argument::Kind::boolean && known.value.kind() != Argument::Kind::boolean;
      if (known.value == value || (counts && equal_numbers(known.value, value))) return go_on();
      return fail([&] {
        return "'" + std::string(name) + "' is " + detail::words_for(&known.value) + " in one place and " +
               detail::words_for(&value) + " in another";
      });
    }
  found_.bindings.push_back({id, value, constant});
  if (go_on()) return true;
  found_.bindings.pop_back();
  return false;
}

FXX_INLINE bool TermMatcher::match_root(const Term* t, Node* root, Continue go_on) {
  const Argument as_value(root);
  if (t->kind == Term::Kind::outputs) {
    const auto others = [&] {
      const Term* rest = t + 1;
      return match_outputs(rest + rest->size, t->children - 1, go_on);
    };
    return match_root(t + 1, root, others);
  }
  found_.roots.push_back(root);
  if (match(t, {&as_value, nullptr, nullptr}, go_on)) return true;
  found_.roots.pop_back();
  return false;
}

FXX_INLINE std::string TermMatcher::name_of(const Subject& s) {
  if (!s.user) return "the value";
  return (s.parameter ? "argument '" + std::string(s.parameter->name) + "'" : "an operand") + " of %" +
         std::string(s.user->name());
}

FXX_INLINE bool TermMatcher::match(const Term* t, Subject s, Continue go_on) {
  using K = Term::Kind;
  const auto where = [&]() -> std::string {
    return s.user ? name_of(s) + " is " + detail::words_for(s.value) : detail::words_for(s.value);
  };
  const auto wanted = [&] { return where() + "; the pattern wants " + detail::words_for(*t); };
  const auto node = [&]() -> Node* { return s.value && s.value->is_node() ? s.value->node() : nullptr; };
  switch (t->kind) {
    case K::any: return go_on();
    case K::where: {
      const auto then = [&] {
        if (t->condition->holds(value_of(s))) return pass(go_on);
        return fail([&] { return where() + ", which is not " + std::string(t->condition->name); });
      };
      return match(t + 1, s, then);
    }
    case K::named: {
      const auto then = [&] {
        return bind(t->id, value_of(s), t->name, go_on);
      };
      return match(t + 1, s, then);
    }
    case K::bound: {
      const auto then = [&] { return bind(t->id, to_argument(*t->value), t->name, go_on, true); };
      return match(t + 1, s, then);
    }
    case K::literal:
    case K::standard: {
      const bool default_fits =
          !s.value && s.parameter && (t->kind == K::standard || is_default(*s.parameter, *t->value));
      if (default_fits || (s.value && same_value(*s.value, *t->value, s.parameter ? s.parameter->type : Type{})))
        return t->kind == K::literal ? pass(go_on) : go_on();  // a default that is left out says little
      return fail(wanted);
    }
    case K::near: {
      const Argument value = value_of(s);
      return value.is_number() && is_near(value.number(), t->value->number()) ? pass(go_on) : fail(wanted);
    }
    case K::alternatives: {
      const Term* member = t + 1;
      for (int i = 0; i < t->children; ++i, member += member->size)
        if (match(member, s, go_on)) return true;
      return false;
    }
    case K::list: {
      if (!s.value && s.parameter && is_default(*s.parameter, t)) return pass(go_on);
      if (!s.value || !s.value->is_sequence()) return fail(wanted);
      return match_items(t + 1, t->children, s.value->items(), s, go_on);
    }
    case K::call: {
      Node* n = node();
      if (n && calls_operator(*n, t->id)) return match_call(t, n, go_on);
      return fail([&] {
        const std::string_view why = n ? why_no_twin(*n, t->id) : std::string_view();
        return wanted().append(why.empty() ? "" : ", and ").append(why);
      });
    }
    case K::operands: {
      Node* n = node();
      return n && detail::is_link(t, *n) ? match_operands(t, n, go_on) : fail(wanted);
    }
    case K::module: {
      Node* n = node();
      return n && n->opcode() == Opcode::call_module && operator_id(*n) == t->id ? match_module(t, n, go_on)
                                                                                 : fail(wanted);
    }
    case K::chain: return match_chain(t, s, go_on);
    case K::hole:
      if (!s.value) return fail(wanted);
      if (hole_) {  // the next link stands in two places
        if (*hole_ == *s.value) return go_on();
        return fail([&] { return where() + "; elsewhere in the link stands " + detail::words_for(hole_); });
      }
      hole_ = s.value;
      hole_user_ = s.user;
      if (go_on()) return true;
      hole_ = nullptr;
      return false;
    case K::tensor:
    case K::optional:
    case K::constant:
    case K::scalar:
    case K::sequence:
    case K::size:
    case K::value: return match_capture(t, s, go_on);
    case K::rest:
    case K::each:
    case K::outputs: return false;  // stand in lists, and at the root
  }
  return false;
}

FXX_INLINE bool TermMatcher::match_capture(const Term* t, Subject s, Continue go_on) {
  const Argument value = value_of(s);
  if (!detail::is_of_kind(t->kind, value))
    return fail([&] {
      return name_of(s) + " is " + detail::words_for(&value) + "; the pattern wants " + detail::words_for(*t);
    });
  return bind(t->id, value, t->name, go_on);
}

FXX_INLINE bool TermMatcher::match_call(const Term* t, Node* node, Continue go_on) {
  if (t->once && node->num_users() != 1)
    return fail([&] {
      return "%" + std::string(node->name()) + " has " + std::to_string(node->num_users()) +
             " users; the pattern wants one";
    });
  found_.nodes.push_back(node);
  if (match_arguments(t + 1, 0, t, node, false, go_on)) return true;
  if (two_orders(t) && match_arguments(t + 1, 0, t, node, true, go_on)) return true;
  found_.nodes.pop_back();
  return false;
}

FXX_INLINE bool TermMatcher::match_arguments(const Term* next, int at, const Term* call, Node* node, bool changed_over,
                                             Continue go_on) {
  if (at == call->children) return go_on();
  const Operator& op = *operator_of(*node);
  const int parameter = changed_over && at < 2 ? 1 - at : at;
  const Subject s{argument_of(*node, op, parameter), node, &op.parameters[static_cast<std::size_t>(parameter)]};
  const auto others = [&] { return match_arguments(next + next->size, at + 1, call, node, changed_over, go_on); };
  return match(next, s, others);
}

/// Puts what the item bound for itself alone into a group; names that are one value for all items stay.
FXX_INLINE bool TermMatcher::match_item(const Term* group, Step& step) {
  hole_ = nullptr;
  const auto read = [&] { return group->kind != Term::Kind::chain || hole_; };
  if (!match(group + 1, step.at, read)) {
    back_to(step.before);
    return false;
  }
  step.next = {hole_, hole_user_, nullptr};
  Found::Item item{group->id, {}};
  std::size_t kept = step.before.bindings;
  for (std::size_t i = kept; i < found_.bindings.size(); ++i) {
    Found::Binding& b = found_.bindings[i];
    if (!detail::is_shared(group, b.id)) item.bindings.push_back(std::move(b));
    else if (kept++ != i) found_.bindings[kept - 1] = std::move(b);
  }
  found_.bindings.resize(kept);
  found_.items.push_back(std::move(item));
  return true;
}

/// All ways; of those that are alike a few, since nobody but `accept` can tell them apart.
FXX_INLINE std::vector<TermMatcher::Way> TermMatcher::ways_of(const Term* group, Subject s) {
  const Mark before = mark();
  std::vector<Way> ways;
  int all_alike = 0;
  const auto keep = [&] {
    if (group->kind == Term::Kind::chain && !hole_) return false;
    Way way{.shared = {}, .own = {}, .nodes = {}, .next = {hole_, hole_user_, nullptr}, .alike = false};
    for (std::size_t i = before.bindings; i < found_.bindings.size(); ++i) {
      const Found::Binding& b = found_.bindings[i];
      (detail::is_shared(group, b.id) ? way.shared : way.own).push_back(b);
    }
    way.alike = std::any_of(ways.begin(), ways.end(), [&](const Way& earlier) {
      const bool goes_on = !hole_ || *earlier.next.value == *hole_;
      return !earlier.alike && goes_on && detail::bind_the_same(earlier.shared, way.shared);
    });
    if (way.alike && ++all_alike > most_declined) return false;
    way.nodes.assign(found_.nodes.begin() + static_cast<std::ptrdiff_t>(before.nodes), found_.nodes.end());
    ways.push_back(std::move(way));
    return false;
  };
  hole_ = nullptr;
  match(group + 1, s, keep);
  back_to(before);
  return ways;
}

/// Reads the item in the next way that might make a difference. What has been found is that from before the item.
FXX_INLINE bool TermMatcher::match_item_again(const Term* group, Step& step) {
  if (step.left) return false;
  const bool asked = declined_ > step.declined && declined_ < most_declined;
  if (step.ways.empty()) {
    bool differ = asked || (group->kind == Term::Kind::chain && !is_plain_link(group + 1));
    const Term* item = group + 1;
    for (int i = 0; !differ && i < item->size; ++i)
      differ = item[i].shared && std::none_of(found_.bindings.begin(), found_.bindings.end(),
                                               [&](const Found::Binding& b) { return b.id == item[i].id; });
    if (!differ) return false;
    step.ways = ways_of(group, step.at);
  }
  while (++step.taken < step.ways.size()) {
    const Way& way = step.ways[step.taken];
    if (way.alike && !asked) continue;
    found_.bindings.insert(found_.bindings.end(), way.shared.begin(), way.shared.end());
    found_.nodes.insert(found_.nodes.end(), way.nodes.begin(), way.nodes.end());
    found_.items.push_back({group->id, way.own});
    step.next = way.next;
    step.since = declined_;
    return true;
  }
  return false;
}

template <class Next, class Then>
bool TermMatcher::match_group(const Term* group, bool may_leave, const Next& next, const Then& then) {
  const std::size_t names_before = found_.bindings.size();
  std::vector<Step> steps;
  // Where links can be left in several ways, many of them come together again: nodes from which nothing was found, with
  // how many links there were, as far as that counts, and the shared names.
  struct Failure {
    std::size_t links;
    std::vector<Found::Binding> shared;
  };
  const bool remembers = group->kind == Term::Kind::chain && !is_plain_link(group + 1);
  std::unordered_map<const Node*, std::vector<Failure>> failures;
  const auto here = [&]() -> const Node* {
    const Argument* at = remembers && !steps.empty() ? steps.back().next.value : nullptr;
    return at && at->is_node() ? at->node() : nullptr;
  };
  const auto links_here = [&] { return std::min(steps.size(), static_cast<std::size_t>(group->least)); };
  const auto shared_here = [&] { return std::span<const Found::Binding>(found_.bindings).subspan(names_before); };
  const auto failed_before = [&] {
    const auto known = failures.find(here());
    return known != failures.end() && std::any_of(known->second.begin(), known->second.end(), [&](const Failure& f) {
             return links_here() <= f.links && detail::bind_the_same(f.shared, shared_here());
           });
  };
  bool back = false;
  for (;;) {
    while (!back) {
      const std::optional<Subject> at = next(steps);
      if (!at) break;
      Step step{.before = mark(), .at = *at, .next = {}, .declined = declined_, .since = declined_};
      step.left = !match_item(group, step);
      if (step.left && !may_leave) break;
      steps.push_back(std::move(step));
      back = failed_before();
    }
    for (;;) {
      if (!back && then(steps)) return true;
      back = false;
      if (steps.empty()) return false;
      Step& last = steps.back();
      if (const Node* node = here(); node && (declined_ == last.since || declined_ >= most_declined))
        failures[node].push_back({links_here(), {shared_here().begin(), shared_here().end()}});
      back_to(last.before);
      if (match_item_again(group, last)) {
        back = failed_before();
        if (!back) break;
        continue;
      }
      // An operand that binds something whichever way it is read may also be left to others.
      if (may_leave && !last.left && !last.ways.empty() &&
          std::none_of(last.ways.begin(), last.ways.end(), [](const Way& way) { return way.shared.empty(); })) {
        last.left = true;
        break;
      }
      steps.pop_back();
    }
  }
}

FXX_INLINE bool TermMatcher::match_items(const Term* next, int left, std::span<const Argument> items, Subject s,
                                         Continue go_on) {
  using K = Term::Kind;
  if (left == 0)
    return items.empty() ? go_on() : fail([&] {
      return name_of(s) + " has " + std::to_string(items.size()) + " items more than the pattern";
    });
  const Term* after = next + next->size;
  if (next->kind == K::rest) {
    for (std::size_t taken = items.size() + 1; taken-- > 0;) {
      const auto others = [&] { return match_items(after, left - 1, items.subspan(taken), s, go_on); };
      if (bind(next->id, Argument::list({items.begin(), items.begin() + static_cast<std::ptrdiff_t>(taken)}),
               next->name, others))
        return true;
    }
    return false;
  }
  if (next->kind == K::each) {
    const auto item = [&](const std::vector<Step>& read) {
      return read.size() < items.size() ? std::optional<Subject>({&items[read.size()], s.user, s.parameter})
                                        : std::nullopt;
    };
    const auto others = [&](const std::vector<Step>& read) {
      return match_items(after, left - 1, items.subspan(read.size()), s, go_on);
    };
    return match_group(next, false, item, others);
  }
  if (items.empty())
    return fail([&] {
      return name_of(s) + " ends; the pattern wants " + detail::words_for(*next) + " more";
    });
  const auto others = [&] { return match_items(after, left - 1, items.subspan(1), s, go_on); };
  return match(next, {&items[0], s.user, s.parameter}, others);
}

FXX_INLINE bool TermMatcher::match_operands(const Term* t, Node* node, Continue go_on) {
  // The chain begins where nothing else of it goes on, so that it is found once, and whole.
  if (node->num_users() == 1 && found_.roots.size() == 1 && found_.nodes.empty())
    if (detail::is_link(t, **node->users().begin()))
      return fail([&] { return "%" + std::string(node->name()) + " is inside of a longer chain"; });
  const Mark before = mark();
  std::vector<Subject> operands;
  // Depth first and left before right, so that the operands stand as they were written.
  std::vector<Subject> pending;
  const auto open = [&](Node* link) {
    const Operator& op = *operator_of(*link);
    found_.nodes.push_back(link);
    for (int i : {1, 0})
      pending.push_back({argument_of(*link, op, i), link, &op.parameters[static_cast<std::size_t>(i)]});
  };
  open(node);
  while (!pending.empty()) {
    const Subject s = pending.back();
    pending.pop_back();
    Node* inner = s.value && s.value->is_node() ? s.value->node() : nullptr;
    // One that is added to itself is an operand twice: each doubling would double the operands.
    const auto is_both = [&] {
      const Operator& op = *operator_of(*s.user);
      const Argument *a = argument_of(*s.user, op, 0), *b = argument_of(*s.user, op, 1);
      return a && b && *a == *b;
    };
    if (inner && inner->num_users() == 1 && detail::is_link(t, *inner) && !is_both()) open(inner);
    else operands.push_back(s);
  }
  // The open ones take what the others leave, so those come last, and of them those that take whatever is there.
  std::vector<const Term*> members;
  const Term* member = t + 1 + t->id;
  for (int i = static_cast<int>(t->id); i < t->children; ++i, member += member->size) members.push_back(member);
  std::ranges::stable_sort(members, {}, [](const Term* m) {
    return m->kind == Term::Kind::rest ? 2 : m->kind == Term::Kind::each ? 1 : 0;
  });
  std::vector<bool> used(operands.size());
  if (assign_operands(members, operands, used, go_on)) return true;
  back_to(before);
  return false;
}

FXX_INLINE bool TermMatcher::assign_operands(std::span<const Term* const> members, const std::vector<Subject>& operands,
                                             std::vector<bool>& used, Continue go_on) {
  using K = Term::Kind;
  if (members.empty())
    return std::find(used.begin(), used.end(), false) == used.end() ? go_on() : fail([&] {
      return "the chain has " + std::to_string(std::count(used.begin(), used.end(), false)) +
             " operands more than the pattern";
    });
  const Term* next = members.front();
  const auto others = [&] { return assign_operands(members.subspan(1), operands, used, go_on); };
  if (next->kind == K::rest) {
    std::vector<Argument> left;
    const std::vector<bool> before = used;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!used[i]) left.push_back(value_of(operands[i]));
    used.assign(used.size(), true);
    if (bind(next->id, Argument::list(std::move(left)), next->name, others)) return true;
    used = before;
    return false;
  }
  if (next->kind == K::each) {
    const std::vector<bool> before = used;
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!used[i]) free.push_back(i);
    const auto operand = [&](const std::vector<Step>& read) {
      return read.size() < free.size() ? std::optional<Subject>(operands[free[read.size()]]) : std::nullopt;
    };
    const auto then = [&](const std::vector<Step>& read) {
      if (read.size() < free.size()) return false;
      for (std::size_t i = 0; i < free.size(); ++i) used[free[i]] = !read[i].left;
      if (others()) return true;
      used = before;
      return false;
    };
    return match_group(next, true, operand, then);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (used[i]) continue;
    used[i] = true;
    if (match(next, operands[i], others)) return true;
    used[i] = false;
  }
  if (std::find(used.begin(), used.end(), false) != used.end()) return false;
  return fail([&] {
    return "the chain has " + std::to_string(operands.size()) + " operands; the pattern wants " +
           detail::words_for(*next) + " more";
  });
}

FXX_INLINE bool TermMatcher::match_chain(const Term* t, Subject s, Continue go_on) {
  const Term* end = t + 1 + t[1].size;
  const auto at = [&](const std::vector<Step>& read) { return read.empty() ? s : read.back().next; };
  const auto next = [&](const std::vector<Step>& read) { return std::optional<Subject>(at(read)); };
  const auto inside = [&](const std::vector<Step>& read) {
    if (read.size() >= static_cast<std::size_t>(t->least)) return match(end, at(read), go_on);
    return fail([&] {
      return "the chain has " + std::to_string(read.size()) + " links; the pattern wants " + std::to_string(t->least) +
             " or more";
    });
  };
  return match_group(t, false, next, inside);
}

FXX_INLINE bool TermMatcher::match_module(const Term* t, Node* node, Continue go_on) {
  if (node->args().size() + node->kwargs().size() != t->children)
    return fail([&] {
      return "%" + std::string(node->name()) + " is called with " +
             std::to_string(node->args().size() + node->kwargs().size()) + " arguments; the pattern wants " +
             std::to_string(t->children);
    });
  found_.nodes.push_back(node);
  if (match_module_arguments(t + 1, 0, t->children, node, go_on)) return true;
  found_.nodes.pop_back();
  return false;
}
FXX_INLINE bool TermMatcher::match_module_arguments(const Term* next, std::size_t at, std::size_t left, Node* node,
                                                    Continue go_on) {
  if (left == 0) return go_on();
  const Argument& given = at < node->args().size() ? node->args()[at] : node->kwargs()[at - node->args().size()].value;
  const auto others = [&] { return match_module_arguments(next + next->size, at + 1, left - 1, node, go_on); };
  return match(next, {&given, node, nullptr}, others);
}

FXX_INLINE bool TermMatcher::match_outputs(const Term* next, int left, Continue go_on) {
  if (left == 0) return go_on();
  // Users, and users of users, of what the pattern's names hold, as far up as the pattern goes and where it has such
  // calls at all; all nodes where it shares no name.
  std::vector<Node*> candidates;
  for (const Found::Binding& b : found_.bindings) {
    bool used = false;
    for (int i = 0; i < next->size; ++i) used = used || (binds_name(next[i]) && next[i].id == b.id);
    if (!used || !b.value.is_node()) continue;
    candidates = {b.value.node()};
    break;
  }
  if (candidates.empty()) {
    for (Node* n : found_.roots[0]->graph().nodes()) candidates.push_back(n);
  } else {
    std::unordered_set<const Node*> known(candidates.begin(), candidates.end());
    std::size_t levels = detail::call_levels(next);
    for (std::size_t i = 0, level_end = 1; i < candidates.size() && levels > 0; ++i) {
      for (Node* user : candidates[i]->users())
        if (detail::may_be_part_of(next, *user) && known.insert(user).second) candidates.push_back(user);
      if (i + 1 < level_end) continue;
      level_end = candidates.size();
      --levels;
    }
  }
  for (Node* candidate : candidates) {
    if (std::find(found_.roots.begin(), found_.roots.end(), candidate) != found_.roots.end()) continue;
    const auto others = [&] { return match_outputs(next + next->size, left - 1, go_on); };
    if (match_root(next, candidate, others)) return true;
  }
  // Says more than why the last candidate is not it, unless one of them came further.
  if (progress_ == progress_here()) --progress_;
  return fail([&] { return "nothing matches another output of the pattern, " + detail::words_for(*next); });
}

}  // namespace fxx::inline FXX_ABI::rewrite
