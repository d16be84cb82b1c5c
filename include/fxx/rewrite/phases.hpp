// Rule sets applied one after the other, each to its fixed point: normalise first, then fuse, then clean up.
//
// Within a set all rules are tried together and the first that matches wins; phases keep rules apart that would
// disturb each other.
// Main names: phases(sets...), Phases. Cost: light.
#pragma once

#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/unpack.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/rewrite/any_ruleset.hpp"
#include "fxx/rewrite/ruleset.hpp"

namespace fxx::inline FXX_ABI::rewrite {

template <class... Sets>
class Phases {
 public:
  boost::hana::basic_tuple<Sets...> sets;
  static constexpr bool always_ends = (true && ... && Sets::always_ends);

  constexpr explicit Phases(Sets... s) : sets(s...) {}

  /// Applies the sets in their order to a graph or a module. The report is that of all together; one that stopped at
  /// the limit does not keep the others from being applied.
  template <class Target>
  RewriteReport apply(Target& target, const RewriteOptions& options = {}) const {
    RewriteReport report;
    boost::hana::unpack(sets, [&](const auto&... set) { (report.add(set.apply(target, options)), ...); });
    return report;
  }
};

namespace detail {
template <class Set>
inline constexpr bool is_ruleset = false;
template <class... Rules>
inline constexpr bool is_ruleset<Ruleset<Rules...>> = true;
template <class... Sets>
inline constexpr bool is_ruleset<Phases<Sets...>> = true;
template <>
inline constexpr bool is_ruleset<AnyRuleset> = true;
template <class Set>
inline constexpr bool knows_its_rules = false;
template <class... Rules>
inline constexpr bool knows_its_rules<Ruleset<Rules...>> = true;
}  // namespace detail

template <class A, class B>
  requires(detail::is_ruleset<A> && detail::is_ruleset<B> &&
           !(detail::knows_its_rules<A> && detail::knows_its_rules<B>))
consteval auto operator+(const A&, const B&) {
  static_assert(sizeof(A) == 0,
                "fxx::ruleset: + joins two sets of rules; phases, and sets without the types of their rules, go one "
                "after the other: phases(a, b)");
  return detail::refused_set();
}

/// `phases(normalise, fuse)`; phases may be parts of phases.
template <class... Sets>
constexpr auto phases(Sets... sets) {
  constexpr bool all = (detail::is_ruleset<Sets> && ...);
  static_assert(all, "fxx::phases: an argument is not a rule set; write phases(ruleset(...), ruleset(...))");
  if constexpr (all) return Phases<Sets...>(sets...);
  else return mistake{};
}

namespace detail {
template <class... Rules>
void add_names(const Ruleset<Rules...>&, std::vector<std::string_view>& names) {
  for (const std::string_view name : {std::string_view(Rules::name)...}) names.push_back(name);
}
inline void add_names(const AnyRuleset& set, std::vector<std::string_view>& names) {
  for (const std::string_view name : set.rule_names()) names.push_back(name);
}
template <class... Sets>
void add_names(const Phases<Sets...>& phases, std::vector<std::string_view>& names) {
  boost::hana::unpack(phases.sets, [&](const auto&... set) { (add_names(set, names), ...); });
}
template <class Set>
bool has_rule(const Set& set, std::string_view rule) {
  std::vector<std::string_view> names;
  add_names(set, names);
  for (const std::string_view name : names)
    if (name == rule) return true;
  return false;
}
}  // namespace detail

inline std::string explain(const AnyRuleset& rules, std::string_view rule, Node* node) {
  return rules.explain(rule, node);
}
/// As of a set, by the first phase that has a rule of that name; on the graph as it is, which other phases may change
/// before. Throws RuleError (E405) when none has.
template <class... Sets>
std::string explain(const Phases<Sets...>& phases, std::string_view rule, Node* node) {
  std::string why;
  bool known = false;
  const auto ask = [&](const auto& set) {
    if (known || !detail::has_rule(set, rule)) return;
    known = true;
    why = explain(set, rule, node);
  };
  boost::hana::unpack(phases.sets, [&](const auto&... set) { (ask(set), ...); });
  if (!known) {
    std::vector<std::string_view> names;
    detail::add_names(phases, names);
    detail::no_such_rule("no phase has a rule", rule, names);
  }
  return why;
}

}  // namespace fxx::inline FXX_ABI::rewrite
