// Rules checked by running: the shipped ones hold, wrong ones are caught, and what was not shown is not claimed.
#include "fxx/torch/verify_rules.hpp"

#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/reroll.hpp"
#include "../support.hpp"

// LibTorch's logging has macros of these names, which end the program where doctest's fail a test.
#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE
#include <doctest/doctest.h>

using namespace fxx;
using namespace fxx::test;
using namespace fxx::pattern;

namespace {

/// The one rule of a report.
[[maybe_unused]] const VerifyReport::Rule& only(const VerifyReport& report) {
  REQUIRE(report.rules.size() == 1);
  return report.rules[0];
}
[[maybe_unused]] bool has(const std::string& text, std::string_view words) { return text.find(words) != text.npos; }

void all_hold(const VerifyReport& report) {
  MESSAGE(report.to_string());
  for (const VerifyReport::Rule& r : report.rules) {
    CAPTURE(r.name);
    CHECK(r.difference == "");
    CHECK(r.enough);
  }
  CHECK(report.ok());
}

TEST_CASE("the shipped activations hold") { all_hold(verify(rules::activations, {.gradients = true})); }
TEST_CASE("the shipped rules for inference hold") { all_hold(verify(rules::inference, {.finite_only = true, .moderate = true, .gradients = true})); }
TEST_CASE("the shipped attention holds where the written form gives numbers") {
  all_hold(verify(rules::attention, {.finite_only = true, .moderate = true, .gradients = true}));
}
TEST_CASE("merged linears hold") { all_hold(verify(rules::merge_linear, {.moderate = true, .gradients = true})); }
TEST_CASE("re-rolled operators hold") { all_hold(verify(rules::reroll, {.gradients = true})); }

TEST_CASE("a law that only numbers obey is caught by nan") {
  const VerifyReport report = verify(rule<"nothing times zero">(mul(x, 0_c) >> zeros_like(x)));
  MESSAGE(report.to_string());
}
TEST_CASE("a law of real numbers is caught by integers") {
  const VerifyReport report = verify(rule<"there and back">(mul(div(x, s, arg<"rounding_mode">(text<"floor">)), s) >> x));
  MESSAGE(report.to_string());
}
TEST_CASE("halves") {
  const VerifyReport report = verify(rule<"half">(div(x, 2_c) >> mul(x, 0.5_c)));
  MESSAGE(report.to_string());
  MESSAGE(verify(rule<"one">(mul(x, 1_c) >> x)).to_string());
  MESSAGE(verify(rule<"broadcast">(add(sub(x, y), y) >> x)).to_string());
  MESSAGE(verify(rule<"max">(relu(add(x, y)) >> add(relu(x), relu(y)))).to_string());
  MESSAGE(verify(rule<"t">(matmul(t(x), t(y)) >> t(matmul(x, y)))).to_string());
}

}  // namespace
