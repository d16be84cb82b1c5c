// The shipped rule sets, checked by running; those of algebra are in verify_algebra.cpp, those of convolutions in
// verify_convolutions.cpp.
#include <limits>

#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/layout.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/normalisation.hpp"
#include "fxx/rules/reroll.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;

namespace {
const VerifyOptions shipped = {.gradients = true, .cases = 100};
const VerifyOptions moderate = {.moderate = true, .gradients = true, .cases = 100};
/// Attention runs the longest.
const VerifyOptions finite_results = {.finite_only = true, .moderate = true, .gradients = true, .cases = 60};
/// A capture of this name holds what `make` says.
VerifyInputs holding(std::string_view name, double (*make)(VerifyRandom& random)) {
  return [=](std::string_view capture, VerifyRandom& random) {
    return capture == name ? std::optional<c10::IValue>(make(random)) : std::nullopt;
  };
}
}  // namespace

TEST_CASE("activations hold") { all_hold(rules::activations, shipped); }
TEST_CASE("re-rolled operators hold") { all_hold(rules::reroll, shipped); }
TEST_CASE("conversions of layouts hold") { all_hold(rules::layout, shipped); }
TEST_CASE("merged linears hold where numbers do not overflow") { all_hold(rules::merge_linear, moderate); }
TEST_CASE("activations of one value, put together, hold") { all_hold(rules::merge_activation, shipped); }

TEST_CASE("normalisations, softmaxes and means hold where numbers do not overflow") {
  // exp(x) / sum(exp(x)) keeps an infinite element to itself, and so does the logarithm of the sum; the operators make
  // nan of the whole row.
  VerifyOptions finite = moderate;
  finite.finite_inputs = true;
  all_hold(rules::normalisation, moderate, {{{"softmax", "log softmax", "log softmax, by hand"}, finite}});
}

TEST_CASE("attention holds where the written form gives numbers and does not overflow") {
  // Of a query that is masked from all keys the operator makes zeros.
  // A mask that fills in minus infinity hides keys that are nan; the operator adds minus infinity to them.
  VerifyOptions hiding = finite_results;
  hiding.finite_inputs = true;
  const std::vector<std::string_view> hidden = {"attention, divided, hidden",       "attention, scaled query, hidden",
                                                "attention, divided query, hidden", "attention, scaled, hidden",
                                                "attention, divided, seen",         "attention, scaled, seen"};
  for (const std::string_view rule : hidden)
    hiding.inputs[std::string(rule)] =
        holding("s", [](VerifyRandom&) { return -std::numeric_limits<double>::infinity(); });
  all_hold(rules::attention, finite_results, {{hidden, hiding}});
}

TEST_CASE("attention with dropout holds where all weights are dropped, or none") {
  VerifyOptions options = finite_results;
  // What is dropped in between is the same only on average.
  for (const char* rule : {"attention, divided, dropout", "attention, scaled query, dropout",
                           "attention, divided query, dropout", "attention, dropout"})
    options.inputs[rule] = holding("rate", [](VerifyRandom& random) { return random.chance(80) ? 0.0 : 1.0; });
  all_hold(rules::attention_dropout, options);
}
