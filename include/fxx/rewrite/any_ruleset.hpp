// A rule set whose rules are not part of its type: for lists of sets, and for sets that are compiled in another file.
//
// Main names: AnyRuleset. A call costs one jump through a pointer. Cost: light; what rules cost the compiler is paid
// where the object is made from them, and nowhere else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fxx/rewrite/rewriter.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {
/// In rewrite/erase_ruleset.hpp: what AnyRuleset calls.
struct RulesetCalls {
  RewriteReport (*apply)(const void* rules, Graph& graph, const RewriteOptions& options);
  std::string (*describe)(const void* rules);
  std::string (*explain)(const void* rules, std::string_view rule, Node* node);
  std::vector<std::string_view> (*rule_names)();
  std::vector<std::string_view> (*module_classes)();
};
}  // namespace detail

/// Refers to a rule set, which must outlive it: a constant, or a set that ships. `erase("name", rules)` makes one.
class AnyRuleset {
 public:
  static constexpr bool always_ends = false;  // nothing is known here

  constexpr AnyRuleset(std::string_view name, const void* rules, const detail::RulesetCalls& calls)
      : name_(name), rules_(rules), calls_(&calls) {}

  std::string_view name() const { return name_; }
  /// The same set under another name.
  constexpr AnyRuleset named(std::string_view name) const { return {name, rules_, *calls_}; }
  /// The names of its rules, in their order.
  std::vector<std::string_view> rule_names() const { return calls_->rule_names(); }
  std::vector<std::string_view> module_classes() const { return calls_->module_classes(); }
  std::string describe() const { return calls_->describe(rules_); }
  /// As `explain(rules, rule, node)`.
  std::string explain(std::string_view rule, Node* node) const { return calls_->explain(rules_, rule, node); }

  /// As Ruleset::apply.
  RewriteReport apply(Graph& graph, const RewriteOptions& options = {}) const {
    return calls_->apply(rules_, graph, options);
  }
  template <class Module>
    requires requires(Module& m, const AnyRuleset& s, const RewriteOptions& o) { apply_rules(m, s, o); }
  RewriteReport apply(Module& module, const RewriteOptions& options = {}) const {
    return apply_rules(module, *this, options);
  }

 private:
  std::string_view name_;
  const void* rules_;
  const detail::RulesetCalls* calls_;
};

}  // namespace fxx::inline FXX_ABI::rewrite
