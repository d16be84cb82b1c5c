// A rule: pattern >> replacement, where the replacement is an expression or a callable that takes the match.
//
// Refused, in one sentence each: a capture in the replacement that the pattern, or one of its alternatives, does not
// bind, or binds to another kind of value; the value that is replaced as a part of its own replacement; a replacement
// with holes; a rule that its own result matches again.
// Main names: rule<"name">(pattern >> replacement, guard), rule<"name", law::finite>(...). Cost: light.
#pragma once

#include "fxx/ir/argument.hpp"
#include "fxx/rewrite/covers.hpp"
#include "fxx/rewrite/law.hpp"
#include "fxx/rewrite/pattern.hpp"

namespace fxx::inline FXX_ABI::rewrite {

class Match;

namespace detail {

/// Is the term inside of an `each` or a `chain` of the pattern, and only there?
constexpr bool bound_in_groups_only(const Term* p, std::uint64_t id) {
  bool inside = false;
  for (int i = 0; i < p->size; ++i) {
    if (p[i].kind == Term::Kind::each || p[i].kind == Term::Kind::chain) {
      const int last = i + (p[i].kind == Term::Kind::each ? p[i].size : 1 + p[i + 1].size);
      for (int k = i + 1; k < last; ++k) inside = inside || (binds_name(p[k]) && p[k].id == id && !p[k].shared);
      i = last - 1;
    } else if (binds_name(p[i]) && p[i].id == id) {
      return false;
    }
  }
  return inside;
}
/// Does `t` bind the name whichever of its alternatives is there?
constexpr bool binds_always(const Term* t, std::uint64_t id) {
  using K = Term::Kind;
  if (binds_name(*t) && t->id == id) return true;
  if (t->kind == K::each) return false;
  const Term* child = t + 1;
  const bool either = t->kind == K::alternatives;
  for (int i = 0; i < t->children; ++i, child += child->size) {
    if (t->kind == K::chain && i == 0) continue;  // of no links, perhaps
    if (binds_always(child, id) != either) return !either;
  }
  return either;
}
/// Does the name stand for what is replaced itself?
constexpr bool names_root(const Term* t, std::uint64_t id) {
  using K = Term::Kind;
  for (; is_wrapper(*t); ++t)
    if (t->kind == K::named && t->id == id) return true;
  if (t->kind == K::chain) return names_root(t + 1, id);  // the first link
  if (t->kind != K::alternatives) return false;
  const Term* child = t + 1;
  for (int i = 0; i < t->children; ++i, child += child->size)
    if (names_root(child, id)) return true;
  return false;
}
struct Misbuilt {
  enum class Kind : std::uint8_t { none, unbound, other_kind, in_one_reading, itself, asks, hole, no_node, outputs };
  Kind kind = Kind::none;
  int at = 0;  // the capture that is not bound, or bound to something else
};
/// Is the term at `at` an argument that may be None?
constexpr bool may_be_none(const Term* r, int at) {
  for (int i = 0; i < at; ++i) {
    if (r[i].kind != Term::Kind::call) continue;
    const Term* child = r + i + 1;
    for (std::size_t k = 0; k < r[i].children; ++k, child += child->size)
      if (child == r + at) return r[i].op->parameters[k].type.optional;
  }
  return false;
}
/// Is what the name stands for replaced by something else? One of several outputs may stay what it is.
constexpr bool is_replaced(const Term* p, const Term* r, std::uint64_t id) {
  if (p->kind != Term::Kind::outputs) return names_root(p, id);
  const Term *root = p + 1, *result = r + 1;
  for (int i = 0; i < p->children; ++i, root += root->size, result += result->size)
    if (names_root(root, id) && !(is_capture(*result) && result->id == id)) return true;
  return false;
}
/// The first name in `r` that some of the alternatives of `p` do not bind, and that has to be there; or that stands for
/// a value which is gone then.
constexpr Misbuilt first_missing(const Term* p, const Term* r) {
  using K = Term::Kind;
  bool either = false, named = false;
  for (int i = 0; i < p->size; ++i) {
    either = either || p[i].kind == K::alternatives;
    named = named || p[i].kind == K::named;
  }
  if (!either && !named) return {};
  int group_end = 0;
  const Term* member = nullptr;  // what one of the group is in the pattern
  for (int i = 0; i < r->size; ++i) {
    if (r[i].kind == K::each) {
      group_end = i + r[i].size;
      for (int k = 0; k < p->size; ++k)
        if ((p[k].kind == K::each || p[k].kind == K::chain) && p[k].id == r[i].id) member = p + k + 1;
    }
    if (!is_capture(r[i])) continue;
    if (named && is_replaced(p, r, r[i].id)) return {Misbuilt::Kind::itself, i};
    const bool needed = r[i].kind != K::optional && r[i].kind != K::value;
    const bool by_member = i < group_end && binds_always(member, r[i].id);
    if (either && needed && !by_member && !binds_always(p, r[i].id) && !may_be_none(r, i))
      return {Misbuilt::Kind::in_one_reading, i};
  }
  return {};
}
/// The first name in `r` that `p` does not bind, or binds to what it cannot be there. What an `each` of the pattern
/// binds, an `each` of the same name may use.
constexpr Misbuilt first_unbound(const Term* p, const Term* r) {
  using K = Term::Kind;
  int group_end = 0;
  for (int i = 0; i < r->size; ++i) {
    const bool group = r[i].kind == K::each;
    if (!group && !is_capture(r[i]) && r[i].kind != K::rest) continue;
    bool bound = false, fits = false;
    for (int k = 0; k < p->size && !fits; ++k) {
      if (p[k].id != r[i].id || !(group ? p[k].kind == K::each || p[k].kind == K::chain : binds_name(p[k]))) continue;
      bound = true;
      fits = p[k].kind == r[i].kind || group || are_of_one_sort(p + k, r + i);
    }
    if (!bound || (!group && i >= group_end && bound_in_groups_only(p, r[i].id))) return {Misbuilt::Kind::unbound, i};
    if (!fits) return {Misbuilt::Kind::other_kind, i};
    if (group) group_end = i + r[i].size;
  }
  return {};
}
constexpr bool has_hole(const Term* r) {
  using K = Term::Kind;
  for (int i = 0; i < r->size; ++i) {
    const K kind = r[i].kind;
    if (kind == K::any && !r[i].op) return true;
    if (kind == K::alternatives || kind == K::chain || kind == K::hole || kind == K::module ||
        (kind == K::outputs && i > 0))
      return true;
  }
  return false;
}
/// Is the result, or one of several, surely not a node?
constexpr bool is_no_node(const Term* r) {
  using K = Term::Kind;
  if (r->kind != K::outputs)
    return r->kind == K::scalar || r->kind == K::list || r->kind == K::rest || r->kind == K::each ||
           r->kind == K::near || is_constant(*r);
  const Term* output = r + 1;
  for (int i = 0; i < r->children; ++i, output += output->size)
    if (is_no_node(output)) return true;
  return false;
}
/// Does the result ask something of a value, as only patterns do?
constexpr bool asks_something(const Term* r) {
  for (int i = 0; i < r->size; ++i)
    if (r[i].once || is_wrapper(r[i])) return true;
  return false;
}
/// Might a result with lists of any length be what stands there already, some time? It holds nothing new then, but puts
/// in another order, leaves out or repeats what is there.
constexpr bool comes_to_rest(const Term* p, const Term* r) {
  bool open = false;
  for (int i = 1; i < r->size; ++i) {
    if (r[i].kind == Term::Kind::call) return false;
    open = open || is_open(r[i]);
  }
  return open && !same(p, r);
}
/// `p` covers the term at `at` of the result; does that mean that its rule goes on for ever?
constexpr bool goes_on(const Term* p, const Term* r, int at) {
  using K = Term::Kind;
  while (is_wrapper(*p)) ++p;
  if (at == 0 && comes_to_rest(p, r)) return false;
  if (p->kind == K::alternatives) return covers(p, r + at);
  if (p->kind != K::operands) return true;
  // A chain is matched where it begins, and what stands there already is not put there again.
  for (int i = 0; i < at; ++i)
    if (at < i + r[i].size && is_built_link(p, r + i)) return false;
  BuiltOperands all;
  all.add(p, r + at);
  return at > 0 || all.calls > 0 || all.count > 2;
}
constexpr int outputs_of(const Term* p) { return p->kind == Term::Kind::outputs ? p->children : 1; }
/// Is the output a value that the result leaves as it is, for nothing else, and that the pattern still matches then?
constexpr bool stays_as_it_is(const Term* output, const Term* result, const Term* all) {
  using K = Term::Kind;
  int uses = 0;
  for (int i = 0; i < all->size; ++i) uses += is_capture(all[i]) && all[i].id == result->id;
  if (uses != 1) return false;
  for (int i = 0; i < output->size; ++i)
    if (output[i].once || output[i].kind == K::where || output[i].kind == K::alternatives || output[i].kind >= K::rest)
      return false;
  return is_capture(*result) && names_root(output, result->id);
}
/// Does the result `r` hold all outputs of `p`, whatever the captures hold? `own`: it is that of the rule of `p`.
constexpr bool holds_outputs(const Term* p, const Term* r, bool own) {
  using K = Term::Kind;
  constexpr int most = 16;
  const Term* calls[most]{};
  int count = 0;
  for (int i = 0; i < r->size; ++i) {
    if (r[i].kind == K::each) i += r[i].size - 1;  // there may be none
    else if (r[i].kind == K::call && (r[i].op->mutates || has(r[i].op->traits, Trait::random))) return false;
    else if (r[i].kind == K::call && count < most) calls[count++] = r + i;
  }
  Choices c;
  do {
    Reading d;
    CaptureBinding bound[32];
    bool used[most]{}, all = count > 0;
    int n = 0;
    const Term *output = p + 1, *result = r + 1;
    for (int k = 0; k < p->children && all; ++k, output += output->size, result += own ? result->size : 0) {
      // A rule is looked for where its first output is new.
      if (own && k > 0 && stays_as_it_is(output, result, r)) {
        all = covers(output, output, c, d, bound, n);
        continue;
      }
      const int at = c.take(count);
      all = !used[at] && covers(output, calls[at], c, d, bound, n);
      used[at] = true;
    }
    if (all) return true;
  } while (c.advance());
  return false;
}
/// Some part of the result `r` is matched by `p` whatever the captures hold.
constexpr bool matches_own_result(const Term* p, const Term* r) {
  using K = Term::Kind;
  if (p->kind == K::outputs) return outputs_of(p) == outputs_of(r) && holds_outputs(p, r, true);
  for (int i = 0; i < r->size; ++i)
    if (r[i].kind == K::each) i += r[i].size - 1;  // there may be none
    else if ((r[i].kind == K::call || r[i].kind == K::operands) && covers(p, r + i, true, r) && goes_on(p, r, i))
      return true;
  return false;
}

template <std::size_t N>
struct word {
  char text[N + 1]{};
  constexpr word(std::string_view v) {
    for (std::size_t i = 0; i < N; ++i) text[i] = v[i];
  }
};
/// Their names show the capture in the compiler's message.
template <word Name, bool Bound>
consteval void capture_is_bound() {
  static_assert(Bound,
                "fxx::rule: the replacement uses a capture that the pattern does not bind; bind it in the pattern or "
                "drop it from the replacement");
}
template <word Name, bool SameKind>
consteval void capture_keeps_its_kind() {
  static_assert(SameKind,
                "fxx::rule: the replacement uses one name as another kind (tensor, number or list) than the pattern; "
                "write the capture as the pattern does");
}
template <word Name, bool Bound>
consteval void capture_is_bound_always() {
  static_assert(Bound,
                "fxx::rule: the replacement uses a capture that one of the pattern's alternatives does not bind; bind "
                "it there too, by with<\"name\">(1_c, ...) where it is a constant");
}
template <word Name, bool Another>
consteval void capture_is_not_replaced() {
  static_assert(Another,
                "fxx::rule: the replacement uses the value that it replaces; capture what that is computed from");
}
template <word Name, bool OneKind>
consteval void capture_has_one_kind() {
  static_assert(OneKind, "fxx::rule: the pattern uses one name for captures of two kinds; give each its own name");
}

template <bool WithCall>
consteval void begins_with_call() {
  static_assert(WithCall,
                "fxx::rule: the pattern does not start with an operator, so it would match everything; "
                "begin with a call");
}
// Expressions instead of std::is_invocable, which would take a dozen classes a callable.
template <class R>
concept Replacement = Pattern<R> || requires(const R& build, const Match& m) {
  requires std::is_constructible_v<Argument, decltype(build(m))>;
};
template <class Guard>
concept AGuard = requires(const Guard& guard, const Match& m) {
  requires std::is_same_v<std::remove_cvref_t<decltype(guard(m))>, bool>;
};

/// Says what is wrong with a pattern.
template <class P>
consteval void report_pattern() {
  constexpr int two = flat<P>.survey.two_kinds;
  if constexpr (two >= 0) {
    capture_has_one_kind<word<flat<P>[two].name.size()>(flat<P>[two].name), false>();
  } else {
    constexpr bool with_call = flat<P>.survey.with_call, nested = flat<P>.survey.nested;
    begins_with_call<with_call>();
    static_assert(!nested || !with_call, "fxx::rule: each and chain do not stand inside of each other");
    static_assert(P::form.keyword.empty() || nested || !with_call,
                  "fxx::rule: arg names an argument of a call; the pattern itself has no name");
  }
}
constexpr Misbuilt misbuilt(const Term* p, const Term* r) {
  if (const Misbuilt name = first_unbound(p, r); name.kind != Misbuilt::Kind::none) return name;
  if (asks_something(r)) return {Misbuilt::Kind::asks};
  if (has_hole(r)) return {Misbuilt::Kind::hole};
  if (is_no_node(r)) return {Misbuilt::Kind::no_node};
  if (outputs_of(p) == outputs_of(r))
    if (const Misbuilt name = first_missing(p, r); name.kind != Misbuilt::Kind::none) return name;
  return {outputs_of(p) == outputs_of(r) ? Misbuilt::Kind::none : Misbuilt::Kind::outputs};
}
/// Says what is wrong with a replacement.
template <class R, Misbuilt::Kind Kind, int At>
consteval void report_replacement() {
  using K = Misbuilt::Kind;
  if constexpr (Kind == K::unbound) capture_is_bound<word<flat<R>[At].name.size()>(flat<R>[At].name), false>();
  if constexpr (Kind == K::other_kind) capture_keeps_its_kind<word<flat<R>[At].name.size()>(flat<R>[At].name), false>();
  if constexpr (Kind == K::in_one_reading)
    capture_is_bound_always<word<flat<R>[At].name.size()>(flat<R>[At].name), false>();
  if constexpr (Kind == K::itself) capture_is_not_replaced<word<flat<R>[At].name.size()>(flat<R>[At].name), false>();
  static_assert(Kind != K::asks,
                "fxx::rule: the replacement holds once(), where, as or with, which say what is matched; they stand in "
                "the pattern alone");
  static_assert(Kind != K::hole,
                "fxx::rule: the replacement holds a wildcard or alternatives, so there is nothing definite to build; "
                "name a capture instead");
  static_assert(Kind != K::no_node,
                "fxx::rule: the replacement is a number or a list, which cannot take the place of a call; make a value "
                "of it, full_like(x, 0_c), stack(list(x, y))");
  static_assert(Kind != K::outputs,
                "fxx::rule: the replacement has another number of outputs than the pattern; outputs(...) stand on both "
                "sides, as many");
}

}  // namespace detail

template <class P, class R>
struct arrow {
  using pattern = P;
  using replacement = R;
  [[no_unique_address]] R value;
};
template <class A>
inline constexpr bool is_arrow = false;
template <class P, class R>
inline constexpr bool is_arrow<arrow<P, R>> = true;
/// Has a compiler said what is wrong with it?
template <class A>
inline constexpr bool is_mistaken = false;
template <Pattern P>
inline constexpr bool is_mistaken<P> = P::mistaken;
template <class R>
inline constexpr bool is_mistaken<arrow<mistake, R>> = true;

namespace detail {
/// Takes the place of what was refused, so that whatever uses it has nothing more to say.
struct refused {
  Argument operator()(const Match&) const { return {}; }
};
/// A variable, since clang evaluates a local one again whenever its function is called.
template <class P, class R>
inline constexpr Misbuilt misbuilt_between = misbuilt(flat<P>.terms, flat<R>.terms);
/// Is nothing wrong with the two sides, as far as they are looked at here? Says what is.
template <class P, class R>
consteval bool sides_fit() {
  if constexpr (P::mistaken) {
    return false;
  } else {
    constexpr const Survey& s = flat<P>.survey;
    if constexpr (s.two_kinds >= 0 || !s.with_call || s.nested || !P::form.keyword.empty()) {
      report_pattern<P>();
      return false;
    } else if constexpr (Pattern<R>) {
      if constexpr (R::mistaken) {
        return false;
      } else {
        constexpr const Misbuilt& m = misbuilt_between<P, R>;
        if constexpr (m.kind != Misbuilt::Kind::none) report_replacement<R, m.kind, m.at>();
        return m.kind == Misbuilt::Kind::none;
      }
    } else {
      return true;
    }
  }
}
}  // namespace detail

template <Pattern P, class R>
consteval auto operator>>(P, R r) {
  constexpr bool fit = detail::sides_fit<P, R>();  // clang evaluates what `if constexpr` asks twice
  if constexpr (fit) return arrow<P, R>{r};
  else return arrow<mistake, detail::refused>{};
}
template <class A, class R>
  requires is_arrow<A>
consteval A operator>>(A a, R) {
  if constexpr (!is_mistaken<A>) detail::misused<detail::Call::arrow, A, R>();
  return a;
}
/// `p | (q >> r)` is what `p | q >> r` means, and `(p >> q) | r` what `p >> q | r` does.
template <class A, class B>
  requires(Pattern<A> != Pattern<B>)
consteval auto operator|(A, B) {
  if constexpr (is_arrow<A> || is_arrow<B>) {
    static_assert(sizeof(A) == 0, "fxx::rule: >> binds more tightly than |; write (p | q) >> r");
    return arrow<mistake, detail::refused>{};
  } else {
    detail::not_a_pattern<std::conditional_t<Pattern<A>, B, A>>();
    return mistake{};
  }
}

struct always {};

template <fixed_string Name, class P, class R, class Guard, Law Needs = law::exact>
struct rule_of {
  using pattern = P;
  using replacement = R;
  using guard_type = Guard;
  static constexpr std::string_view name = Name.view();
  static constexpr Law needs = Needs;
  [[no_unique_address]] R build;
  [[no_unique_address]] Guard guard;
};

/// A callable builds the result.
template <class Rule>
concept Builds = !Pattern<typename Rule::replacement>;
template <class Rule>
concept Guarded = !__is_same(typename Rule::guard_type, always);

template <class R>
inline constexpr bool is_rule = false;
template <fixed_string Name, class P, class R, class Guard, Law Needs>
inline constexpr bool is_rule<rule_of<Name, P, R, Guard, Needs>> = true;

namespace detail {
template <fixed_string Name>
using refused_rule = rule_of<Name, call<OperatorIndex::relu, capture<"x", Term::Kind::tensor>>, refused, always>;

/// A variable for the same reason as misbuilt_between.
template <class P, class R>
inline constexpr bool matches_itself = matches_own_result(flat<P>.terms, flat<R>.terms);
/// Is nothing wrong with a rule of two sides that fit? Says what is.
template <class P, class R, class Guard>
consteval bool is_sound() {
  constexpr bool builds = Replacement<R>, asks = __is_same(Guard, always) || AGuard<Guard>;
  static_assert(builds,
                "fxx::rule: the replacement is neither a pattern nor a callable that takes the match "
                "and returns a value");
  static_assert(asks || !builds, "fxx::rule: the guard is not a callable that takes the match and says true or false");
  if constexpr (!builds || !asks) {
    return false;
  } else if constexpr (!Pattern<R>) {
    return true;
  } else {
    constexpr bool siblings = Siblings<P>;
    static_assert(!siblings,
                  "fxx::rule: siblings are replaced by a callable that returns one value each, not by an expression");
    if constexpr (siblings || !__is_same(Guard, always)) {
      return !siblings;
    } else {
      constexpr bool again = matches_itself<P, R>;
      static_assert(!again,
                    "fxx::rule: the rule matches its own replacement, so rewriting would never end; make the "
                    "replacement smaller or add a guard");
      return !again;
    }
  }
}
}  // namespace detail

/// One rewrite. The guard is a callable that takes the match and says whether the rule applies; the law says what the
/// rule needs of the numbers in tensors.
template <fixed_string Name, Law Needs = law::exact, class P, class R, class Guard = always>
consteval auto rule(arrow<P, R> a, Guard guard = {}) {
  if constexpr (P::mistaken) return detail::refused_rule<Name>{};
  else if constexpr (detail::is_sound<P, R, Guard>()) return rule_of<Name, P, R, Guard, Needs>{a.value, guard};
  else return detail::refused_rule<Name>{};
}
template <fixed_string Name, Law = law::exact, class... Args>
consteval detail::refused_rule<Name> rule(Args...) {
  static_assert((false || ... || __is_same(Args, mistake)),
                "fxx::rule: write rule<\"name\">(pattern >> replacement), and a guard behind it");
  return {};
}
template <class... Args>
consteval detail::refused_rule<"rule"> rule(Args...) {
  static_assert((false || ... || __is_same(Args, mistake)),
                "fxx::rule: a rule has a name; write rule<\"name\">(pattern >> replacement)");
  return {};
}

}  // namespace fxx::inline FXX_ABI::rewrite
