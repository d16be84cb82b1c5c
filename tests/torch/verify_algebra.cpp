// rules::algebra, checked by running.
#include "fxx/rules/algebra.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;

namespace {
const VerifyOptions shipped = {.gradients = true, .cases = 80};
}  // namespace

TEST_CASE("identities hold") { all_hold(rules::identities, shipped); }
TEST_CASE("chains of numbers hold") { all_hold(rules::number_chains, shipped); }
TEST_CASE("casts hold") { all_hold(rules::casts, shipped); }
TEST_CASE("transposes, reshapes and slices hold") { all_hold(rules::shapes, shipped); }
TEST_CASE("cats and splits hold") { all_hold(rules::joins, shipped); }
TEST_CASE("strength reduction holds") {
  VerifyOptions moderate = shipped, finite = shipped;
  moderate.moderate = true;     // 1 / y overflows for a y that is nearly zero, and x y does not
  finite.finite_inputs = true;  // lerp starts from y when that is nearer, and an infinite y makes nan of it
  all_hold(rules::strength_reduction, shipped, {{{"by the reciprocal"}, moderate}, {{"lerp"}, finite}});
}
