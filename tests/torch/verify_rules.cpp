// Rules checked by running: wrong ones are caught, and what was not shown is not claimed. The shipped
// rules are checked in verify_algebra.cpp and verify_library.cpp.
#include "fxx/torch/verify_rules.hpp"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>

#include "../support.hpp"
#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"
#include "torch/doctest.hpp"

using namespace fxx;
using namespace fxx::test;
using namespace fxx::pattern;

namespace {

bool says(const std::string& text, std::string_view words) { return text.find(words) != text.npos; }

/// The one rule of a report, which is wrong.
VerifyReport::Rule refuted(const VerifyReport& report) {
  REQUIRE(report.rules.size() == 1);
  CAPTURE(report.to_string());
  CHECK_FALSE(report.ok());
  CHECK(report.rules[0].difference != "");
  CHECK(says(report.to_string(), ": WRONG: " + report.rules[0].difference));
  CHECK(says(report.to_string(), report.rules[0].counter_example));
  CHECK(says(report.to_string(), "0 of 1 rules verified\n"));
  return report.rules[0];
}
constexpr auto of_floats = [](const Match& m) { return rules::may_be_floating(m[x]); };

}  // namespace

TEST_CASE("a law that holds for numbers is refuted by what is none") {
  const auto wrong = rule<"nothing", fxx::law::unsigned_zero>(mul(x, 0_c) >> zeros_like(x), of_floats);
  const VerifyReport::Rule r = refuted(verify(wrong));
  CHECK(says(r.difference, "the pattern gives nan, the replacement 0.0"));
  CHECK((says(r.counter_example, "NAN") || says(r.counter_example, "INFINITY")));
  CHECK(verify(wrong, {.finite_only = true}).ok());
}

TEST_CASE("a law of floating-point numbers is refuted by integers") {
  // 0.0 makes floating-point numbers of integers.
  const auto wrong = rule<"plus nothing", fxx::law::unsigned_zero>(add(x, 0_c) >> x);
  const VerifyReport::Rule r = refuted(verify(wrong));
  CHECK(says(r.difference, "dtype: the pattern gives "));
  CHECK(verify(rule<"plus nothing", fxx::law::unsigned_zero>(add(x, 0_c) >> x, of_floats)).ok());

  const auto quotients = rule<"quotients">(add(div(x, z), div(y, z)) >> div(add(x, y), z));
  const VerifyReport::Rule wraps = refuted(verify(quotients, {.finite_only = true, .signs_of_zeros = false, .moderate = true}));
  CHECK((says(wraps.counter_example, "torch::kByte") || says(wraps.counter_example, "torch::kBool") ||
         says(wraps.counter_example, "torch::kInt")));
}

TEST_CASE("random numbers that are drawn afterwards are those that would have been drawn without it") {
  at::manual_seed(1);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(1);
  CHECK(verify(rule<"minus nothing">(sub(x, 0_c) >> x, of_floats)).ok());
  CHECK(at::equal(at::rand({4}), expected));
}

TEST_CASE("a law of equal shapes is refuted by a broadcast") {
  const auto wrong = rule<"absorbed">(maximum(x, minimum(x, y)) >> x);
  const VerifyReport::Rule r = refuted(verify(wrong, {.finite_only = true}));
  CHECK((says(r.difference, "shape: the pattern gives [") || says(r.difference, "dtype: ")));
  const auto of_equal_shapes = [](const Match& m) {
    const TensorMeta *a = m.node(x)->tensor_meta(), *b = m.node(y)->tensor_meta();
    return a && b && a->shape == b->shape && a->dtype == b->dtype;
  };
  CHECK(verify(rule<"absorbed">(maximum(x, minimum(x, y)) >> x, of_equal_shapes), {.finite_only = true}).ok());
}

TEST_CASE("a law of contiguous tensors is refuted by a view with other strides") {
  constexpr auto size = value<"size">;
  const VerifyReport::Rule r = refuted(verify(rule<"view">(reshape(x, size) >> view(x, size))));
  CHECK(says(r.difference, "the pattern runs, the replacement throws: view size is not compatible"));
  CHECK(says(r.counter_example, ".as_strided({"));
}

TEST_CASE("a law of some elements is refuted by none, and a callable is run as in rewriting") {
  const auto mean_by_sum = [](const Match& m) -> Argument {
    const std::int64_t numel = m.node(x)->tensor_meta()->numel();
    return m.call(ops::div_Scalar, {m.call(ops::sum, {m[x]}), numel > 0 ? numel : 1});
  };
  const VerifyReport::Rule r = refuted(verify(rule<"mean">(mean(x) >> mean_by_sum, [](const Match& m) {
    return m.node(x)->tensor_meta()->dtype == Dtype::float32;  // a sum of others may overflow where the mean does not
  })));
  CHECK(r.difference == "the pattern gives nan, the replacement 0.0");
  CHECK(says(r.counter_example, "= torch::empty({0"));
}

TEST_CASE("a law that forgets gradients is refuted by them alone") {
  const auto wrong = rule<"constant">(relu(x) >> clamp_min(detach(x), 0_c));
  CHECK(verify(wrong).ok());
  const VerifyReport::Rule r = refuted(verify(wrong, {.gradients = true}));
  CHECK(says(r.difference, "gradient of "));
  CHECK(says(r.counter_example, "torch::detach(x)"));
}

TEST_CASE("what a rule writes to its inputs is compared") {
  const VerifyReport::Rule r = refuted(verify(rule<"in place">(relu(x) >> relu_(x))));
  CHECK(says(r.difference, "what is written to input 0: "));
  CHECK(says(r.counter_example, "torch::relu_(x)"));
}

TEST_CASE("calls of a pattern are written in place too, and what lies inside is used elsewhere too") {
  const VerifyReport report = verify(rule<"thrice">(relu(relu(abs(x))) >> relu(abs(x))));
  CAPTURE(report.to_string());
  CHECK(report.ok());
  CHECK(report.rules[0].seen.at("in place") > 0);
  CHECK(report.rules[0].seen.at("used elsewhere") > 0);
  // One call alone has nothing inside.
  CHECK_FALSE(verify(rule<"relu">(relu(x) >> clamp_min(x, 0_c))).rules[0].seen.contains("used elsewhere"));
}

TEST_CASE("a result that writes over what lies inside is refuted by who else uses it") {
  const auto over = [](const Match& m) -> Argument { return m.call(ops::neg_, {m.nodes()[1]}); };
  const VerifyReport::Rule r = refuted(verify(rule<"over">(neg(cos(x)) >> over)));
  CHECK(says(r.difference, "result 1: "));
  CHECK(says(r.counter_example, "torch::neg_("));
}

TEST_CASE("bits tell the two zeros apart, values do not") {
  using Law = VerifyOptions::Law;
  const auto law = rule<"plus nothing">(add(x, 0_c) >> x, of_floats);
  CHECK(verify(law, {.law = Law::values}).ok());
  for (const Law how : {Law::bits, Law::rounding}) {
    const VerifyReport::Rule r = refuted(verify(law, {.law = how}));
    CHECK(says(r.difference, "the pattern gives 0.0, the replacement -0.0"));
  }
  CHECK(verify(law, {.signs_of_zeros = false}).ok());
  CHECK(verify(law, {.assume = fxx::law::unsigned_zero}).ok());
}

TEST_CASE("rules that are wrong for nothing but nan, infinities, zeros, overflow or what is all hidden are refuted") {
  const auto refute = [](const auto& law) {
    const VerifyReport report = verify(law);
    CAPTURE(report.to_string());
    CHECK(report.rules[0].difference != "");
  };
  // nan.
  refute(rule<"maximum">(maximum(x, y) >> where(gt(x, y), x, y), of_floats));
  refute(rule<"relu">(relu(x) >> where(gt(x, 0_c), x, zeros_like(x)), of_floats));
  refute(rule<"not less">(logical_not(lt(x, y)) >> ge(x, y), of_floats));
  refute(rule<"nan to zero">(where(ne(x, x), zeros_like(x), x) >> x, of_floats));
  // Infinities.
  refute(rule<"relu by product">(relu(x) >> mul(x, gt(x, 0_c)), of_floats));
  refute(rule<"difference">(sub(x, x) >> mul(x, 0_c), of_floats));
  refute(rule<"sigmoid">(sigmoid(x) >> div(exp(x), add(exp(x), 1_c)), of_floats));
  refute(rule<"sign">(sign(x) >> div(x, abs(x)), of_floats));
  // Signs of zeros.
  refute(rule<"zero minus">(sub(zeros_like(x), x) >> neg(x), of_floats));
  refute(rule<"turned difference">(neg(sub(x, y)) >> sub(y, x), of_floats));
  refute(rule<"magnitude">(abs(x) >> where(lt(x, 0_c), neg(x), x), of_floats));
  refute(rule<"one over">(reciprocal(add(x, 0_c)) >> reciprocal(x), of_floats));
  // What overflows, is too small, or saturates.
  refute(rule<"root of square">(sqrt(mul(x, x)) >> abs(x), of_floats));
  refute(rule<"far and back">(mul(mul(x, 1e30_c), 1e-30_c) >> x, of_floats));
  refute(rule<"halves">(div(add(x, y), 2_c) >> add(div(x, 2_c), div(y, 2_c)), of_floats));
  refute(rule<"log of exp">(log(exp(x)) >> x, of_floats));
  refute(rule<"log sigmoid">(log(sigmoid(x)) >> log_sigmoid(x), of_floats));
  refute(rule<"tanh">(tanh(x) >> div(sub(exp(x), exp(neg(x))), add(exp(x), exp(neg(x)))), of_floats));
  refute(rule<"large ones">(mul(x, 1_c) >> where(gt(x, 1e30_c), mul(x, 1e30_c), x), of_floats));
  refute(rule<"small ones">(mul(x, 1_c) >> where(lt(abs(x), 1e-30_c), mul(x, 0_c), x), of_floats));
  // Rows that are hidden, or have gaps.
  refute(rule<"hidden">(softmax(masked_fill(x, tensor<"m">, s), -1_c) >>
                            softmax(masked_fill(x, tensor<"m">, -1e9_c), -1_c),
                        [](const Match& m) {
                          return rules::may_be_floating(m[x]) &&
                                 m[s].number() == -std::numeric_limits<double>::infinity();
                        }));
  refute(rule<"log of softmax">(log(softmax(x, -1_c)) >> log_softmax(x, -1_c), of_floats));
}

TEST_CASE("rounding is told from another law") {
  constexpr auto sixth = 0.16666666666666666_c;
  CHECK(verify(rule<"sixth">(div(x, 6_c) >> mul(x, sixth), of_floats)).ok());
  CHECK_FALSE(verify(rule<"sixth">(div(x, 6_c) >> mul(x, sixth), of_floats), {.law = VerifyOptions::Law::values}).ok());
  CHECK_FALSE(verify(rule<"a sixth, nearly">(div(x, 6_c) >> mul(x, 0.1666667_c), of_floats)).ok());
}

TEST_CASE("strides are compared when they matter") {
  const auto law = rule<"contiguous">(contiguous(x) >> x);
  CHECK(verify(law).ok());
  const VerifyReport::Rule r = refuted(verify(law, {.strides = true}));
  CHECK(says(r.difference, "strides: the pattern gives ["));
}

TEST_CASE("a guard or a callable that throws makes the rule wrong") {
  const auto bound =
      rule<"bias">(linear(x, w, b) >> linear(x, w), [](const Match& m) { return m.node(b)->name() == ""; });
  CHECK(says(refuted(verify(bound)).difference, "the rule throws: fxx::"));
}

TEST_CASE("counter-examples are small, and C++ to paste") {
  const VerifyReport::Rule r = refuted(verify(rule<"no relu">(relu(x) >> x)));
  CAPTURE(r.counter_example);
  CHECK(r.counter_example.starts_with("// rule \"no relu\": "));
  CHECK(says(r.counter_example,
             "torch::Tensor pattern(torch::Tensor x) {\n  return torch::relu(x);\n}\n"
             "torch::Tensor replacement(torch::Tensor x) {\n  return x;\n}\n"
             "const torch::Tensor x = torch::tensor(-"));
  CHECK(r.counter_example.ends_with(
      "std::cout << pattern(x) << std::endl;\nstd::cout << replacement(x) << std::endl;\n"));
}

TEST_CASE("a rule that hardly ever fires is not verified, and says so") {
  const auto never = rule<"never">(relu(relu(x)) >> relu(x), [](const Match&) { return false; });
  const VerifyReport report = verify(never, {.tries = 300});
  REQUIRE(report.rules.size() == 1);
  const VerifyReport::Rule& r = report.rules[0];
  CHECK(r.difference == "");
  CHECK(r.tried == 300);
  CHECK(r.ran > 200);
  CHECK(r.fired == 0);
  CHECK_FALSE(r.verified());
  CHECK_FALSE(report.ok());
  CHECK(says(report.to_string(), "never: NOT VERIFIED, too few cases (300 tried, ran "));
  const Fault fault = fault_of<RuleError>([&] { report.check(); });
  CHECK(fault.id == 411);
  CHECK(fault.says("rule 'never' fired on 0 of 300 inputs"));
}

TEST_CASE("check throws what was found") {
  const VerifyReport report = verify(ruleset(rule<"right">(relu(relu(x)) >> relu(x)), rule<"no relu">(neg(x) >> x)));
  REQUIRE(report.find("right"));
  CHECK(report.find("right")->verified());
  CHECK_FALSE(report.find("no relu")->verified());
  CHECK(report.find("another") == nullptr);
  const Fault fault = fault_of<RuleError>([&] { report.check(); });
  CHECK(fault.id == 410);
  CHECK(fault.says("rule 'no relu' is wrong: "));
  CHECK(fault.says("return -x;"));
  CHECK(says(report.to_string(), "1 of 2 rules verified\n"));
}

TEST_CASE("own inputs reach what random ones do not") {
  const auto picky =
      rule<"picky">(mul(x, s) >> mul(mul(x, 12345.5_c), 1_c), [](const Match& m) { return m[s].number() == 12345.5; });
  CHECK_FALSE(verify(picky, {.tries = 500}).ok());
  VerifyOptions options;
  options.inputs["picky"] = [](std::string_view capture, VerifyRandom& random) -> std::optional<c10::IValue> {
    if (capture != "s" || random.chance(10)) return std::nullopt;
    return 12345.5;
  };
  CHECK(verify(picky, options).ok());
  options.inputs["picky"] = [](std::string_view, VerifyRandom&) -> std::optional<c10::IValue> {
    throw std::range_error("mine");
  };
  CHECK_THROWS_WITH_AS(verify(picky, options), "mine", std::range_error);
}

TEST_CASE("the same seed gives the same report, another seed other cases") {
  const auto law = rule<"twice">(relu(relu(x)) >> relu(x));
  CHECK(verify(law).rules[0].seen == verify(law).rules[0].seen);
  CHECK(verify(law).rules[0].seen != verify(law, {.seed = 2}).rules[0].seen);
}

TEST_CASE("phases are verified rule by rule, those inside of phases too") {
  constexpr auto first = ruleset(rule<"twice">(relu(relu(x)) >> relu(x)));
  constexpr auto second = ruleset(rule<"wrong">(neg(x) >> abs(x)));
  const VerifyReport report = verify(phases(first, phases(second)));
  REQUIRE(report.rules.size() == 2);
  CHECK(report.rules[0].verified());
  CHECK(report.rules[1].name == "wrong");
  CHECK_FALSE(report.rules[1].difference.empty());
}

TEST_CASE("infinity is nothing but infinity; groups may be empty; constants are not written to") {
  const auto of_singles = [](const Match& m) { return m.node(x)->tensor_meta()->dtype == Dtype::float32; };
  const auto finite = rule<"finite">(abs(x) >> clamp_max(maximum(x, neg(x)), 3.402823e38_c), of_singles);
  CHECK_FALSE(verify(finite).ok());
  constexpr auto p = tensor<"p">;
  const auto parts = rule<"parts">(
      relu(cat(list(x, each<"parts">(exp(p))))) >> cat(list(relu(x), cat(list(each<"parts">(exp(p)))))), of_singles);
  CHECK_FALSE(verify(parts).ok());
  const auto writes = rule<"writes">(add(x, exp(constant<"w">)) >> add(x, exp_(constant<"w">)), of_singles);
  CHECK_FALSE(verify(writes).ok());
}
