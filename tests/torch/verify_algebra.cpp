// rules::algebra, checked by running.
#include "fxx/rules/algebra.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;

namespace {
const VerifyOptions shipped = {.gradients = true, .cases = 400};
}  // namespace

TEST_CASE("identities hold") { all_hold("identities", rules::identities, shipped); }
TEST_CASE("chains of numbers hold") {
  all_hold("number_chains", rules::number_chains, shipped);
  VerifyOptions moderate = shipped;
  moderate.assume = law::no_overflow;
  all_hold("number_chains", rules::number_chains, moderate);
}
TEST_CASE("casts hold") { all_hold("casts", rules::casts, shipped); }
TEST_CASE("transposes, reshapes and slices hold") { all_hold("shapes", rules::shapes, shipped); }
TEST_CASE("cats and splits hold") { all_hold("joins", rules::joins, shipped); }
TEST_CASE("strength reduction holds") { all_hold("strength_reduction", rules::strength_reduction, shipped); }
