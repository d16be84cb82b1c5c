// What the tests that check rules by running share. Narrow headers of LibTorch only: a rule set takes the compiler long
// enough.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/torch/verify_rules.hpp"
#include "torch/doctest.hpp"

namespace fxx::test {

/// Some rules of a set need an option that the others do not.
struct Weaker {
  std::vector<std::string_view> rules;
  VerifyOptions options;
};

/// Every rule of the set is verified, on inputs of every kind.
template <class... Rules>
void all_hold(const rewrite::Ruleset<Rules...>& set, const VerifyOptions& options,
              const std::vector<Weaker>& but = {}) {
  std::size_t weaker = 0;
  const auto check = [](const VerifyReport& report) {
    const VerifyReport::Rule& r = report.rules[0];
    CAPTURE(r.name);
    CAPTURE(r.counter_example);
    CHECK(r.difference == "");
    CHECK(r.verified());
    CHECK(r.compared >= 50);
    CHECK(r.seen.contains("not contiguous"));
    // Bitwise operators take no floating-point numbers.
    const bool real = r.seen.contains("float32");
    CHECK(r.seen.contains(real ? "float64" : "bool"));
    CHECK(r.seen.contains("gradients") == real);
    CHECK_NOTHROW(report.check());
  };
  const auto options_of = [&](std::string_view rule) -> const VerifyOptions& {
    for (const Weaker& w : but)
      if (std::find(w.rules.begin(), w.rules.end(), rule) != w.rules.end()) return ++weaker, w.options;
    return options;
  };
  boost::hana::unpack(set.rules, [&](const auto&... rule) {
    (check(verify(rule, options_of(std::decay_t<decltype(rule)>::name))), ...);
  });
  std::size_t named = 0;
  for (const Weaker& w : but) named += w.rules.size();
  CHECK(weaker == named);  // all of those names are rules
}

}  // namespace fxx::test
