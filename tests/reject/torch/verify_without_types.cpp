// expect: an AnyRuleset no longer knows the types of its rules
#include "fxx/rewrite/functions.hpp"
#include "fxx/torch/verify_rules.hpp"

using namespace fxx::pattern;

inline constexpr auto rules = ruleset(fxx::rule<"r">(relu(x) >> clamp_min(x, 0_c)));

[[maybe_unused]] static bool holds(const fxx::rewrite::AnyRuleset& any) {
#ifdef FXX_CONTROL
  return fxx::verify(fxx::phases(rules, rules)).ok() && any.rule_names().size() == 1;
#else
  return fxx::verify(any).ok();
#endif
}
