// Rule sets applied one after the other, each to its fixed point: normalise first, then fuse, then clean up.
//
// Within a set all rules are tried together and the first that matches wins; phases keep rules apart that would
// disturb each other.
// Main names: phases(sets...), Phases. Cost: light.
#pragma once

#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/unpack.hpp>

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
}  // namespace detail

/// `phases(normalise, fuse)`; phases may be parts of phases.
template <class... Sets>
constexpr auto phases(Sets... sets) {
  constexpr bool all = (detail::is_ruleset<Sets> && ...);
  static_assert(all, "fxx::phases: an argument is not a rule set; write phases(ruleset(...), ruleset(...))");
  if constexpr (all) return Phases<Sets...>(sets...);
  else return mistake{};
}

}  // namespace fxx::inline FXX_ABI::rewrite
