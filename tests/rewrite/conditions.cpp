// Conditions on what a pattern matches: `x.where(rank_is<4>)`, `s > 0_c`, callables.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::fires;
using test::rewritten;
using test::rewritten_graph;
using test::shaped;

namespace {
constexpr auto factor = scalar<"s">;
}  // namespace

TEST_CASE("a condition asks for rank, dtype, sizes, memory and device of a value whose meta data is known") {
  const auto fired = [](const auto& rules, std::vector<std::int64_t> shape, Dtype dtype = Dtype::float32) {
    Graph g;
    g.output(g.call_function(ops::relu, {shaped(g.placeholder("x"), shape, dtype)}));
    return rules.apply(g).rewrites == 1;
  };
  constexpr auto four = ruleset(rule<"r">(relu(x.where(rank_is<4>)) >> neg(x)));
  CHECK(fired(four, {1, 2, 3, 4}));
  CHECK_FALSE(fired(four, {2, 3, 4}));
  constexpr auto from_two = ruleset(rule<"r">(relu(x.where(rank_from<2>, floating)) >> neg(x)));
  CHECK(fired(from_two, {2, 3}));
  CHECK(fired(from_two, {2, 3, 4}));
  CHECK_FALSE(fired(from_two, {2}));
  CHECK_FALSE(fired(from_two, {2, 3}, Dtype::int64));
  constexpr auto types = ruleset(rule<"r">(relu(x.where(dtype_is<Dtype::int64, Dtype::boolean>)) >> neg(x)));
  CHECK(fired(types, {2}, Dtype::int64));
  CHECK(fired(types, {}, Dtype::boolean));
  CHECK_FALSE(fired(types, {2}));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(integral)) >> neg(x))), {2}, Dtype::uint8));
  CHECK_FALSE(fired(ruleset(rule<"r">(relu(x.where(integral)) >> neg(x))), {2}, Dtype::boolean));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(boolean)) >> neg(x))), {2}, Dtype::boolean));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(complex_valued)) >> neg(x))), {2}, Dtype::complex64));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(shape_is<-1, 3>)) >> neg(x))), {5, 3}));
  CHECK_FALSE(fired(ruleset(rule<"r">(relu(x.where(shape_is<-1, 3>)) >> neg(x))), {5, 4}));
  CHECK_FALSE(fired(ruleset(rule<"r">(relu(x.where(shape_is<-1, 3>)) >> neg(x))), {3}));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(size_is<-1, 3>)) >> neg(x))), {5, 3}));
  CHECK_FALSE(fired(ruleset(rule<"r">(relu(x.where(size_is<2, 3>)) >> neg(x))), {5, 3}));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(memory_is<MemoryFormat::contiguous_format>)) >> neg(x))), {5, 3}));
  CHECK(fired(ruleset(rule<"r">(relu(x.where(device_is<DeviceType::cpu>)) >> neg(x))), {5, 3}));
  CHECK_FALSE(fired(ruleset(rule<"r">(relu(x.where(device_is<DeviceType::cuda>)) >> neg(x))), {5, 3}));
  // What is not known fulfils nothing.
  CHECK_FALSE(fires(four, [](auto x) { return x.relu(); }));
}

TEST_CASE("channels last is told from contiguous by the strides") {
  const auto fired = [](const auto& rules, std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
    Graph g;
    Node* input = g.placeholder("x");
    input->set_tensor_meta({.shape = shape, .stride = stride, .dtype = Dtype::float32});
    g.output(g.call_function(ops::relu, {input}));
    return rules.apply(g).rewrites == 1;
  };
  constexpr auto last = ruleset(rule<"r">(relu(x.where(memory_is<MemoryFormat::channels_last>)) >> neg(x)));
  constexpr auto first = ruleset(rule<"r">(relu(x.where(memory_is<MemoryFormat::contiguous_format>)) >> neg(x)));
  CHECK(fired(last, {2, 3, 4, 5}, {60, 1, 15, 3}));
  CHECK_FALSE(fired(last, {2, 3, 4, 5}, {60, 20, 5, 1}));
  CHECK_FALSE(fired(last, {2, 3, 4}, {12, 4, 1}));
  CHECK_FALSE(fired(first, {2, 3, 4, 5}, {60, 1, 15, 3}));
  CHECK_FALSE(fired(first, {2, 3}, {}));
  // One channel lies both ways.
  CHECK(fired(last, {2, 1, 4, 5}, {20, 1, 5, 1}));
  CHECK(fired(first, {2, 1, 4, 5}, {20, 1, 5, 1}));
}

TEST_CASE("numbers are compared, taken from a range, and asked by a callable") {
  constexpr auto positive = ruleset(rule<"r">(mul(x, factor > 0_c) >> neg(x)));
  CHECK(fires(positive, [](auto x) { return x * 2; }));
  CHECK(fires(positive, [](auto x) { return x * 0.5; }));
  CHECK_FALSE(fires(positive, [](auto x) { return x * 0; }));
  CHECK_FALSE(fires(positive, [](auto x) { return x * -1; }));
  constexpr auto within = ruleset(rule<"r">(mul(x, factor.where(between(0_c, 1_c))) >> neg(x)));
  CHECK(fires(within, [](auto x) { return x * 1; }));
  CHECK_FALSE(fires(within, [](auto x) { return x * 1.5; }));
  CHECK(fires(ruleset(rule<"r">(mul(x, 1_c < factor) >> neg(x))), [](auto x) { return x * 1.5; }));
  CHECK_FALSE(fires(ruleset(rule<"r">(mul(x, factor != 2_c) >> neg(x))), [](auto x) { return x * 2; }));
  CHECK_FALSE(fires(ruleset(rule<"r">(mul(x, factor <= 1_c) >> neg(x))), [](auto x) { return x * 2; }));
  CHECK(fires(ruleset(rule<"r">(mul(x, factor >= 2_c) >> neg(x))), [](auto x) { return x * 2; }));
  constexpr auto power_of_two = [](double v) {
    for (; v > 1; v /= 2) {
    }
    return v == 1;
  };
  constexpr auto powers = ruleset(rule<"r">(mul(x, factor.where(power_of_two)) >> neg(x)));
  CHECK(fires(powers, [](auto x) { return x * 8; }));
  CHECK_FALSE(fires(powers, [](auto x) { return x * 6; }));
}

TEST_CASE("a condition stands at the root, in alternatives, and asks nodes and arguments") {
  constexpr auto lonely = ruleset(rule<"r">(relu(x).where(one_user) >> neg(x)));
  CHECK(fires(lonely, [](auto x) { return x.relu(); }));
  CHECK_FALSE(fires(lonely, [](auto x) {
    auto y = x.relu();
    return y + y.exp();
  }));
  constexpr auto named = [](const Node& n) { return n.name() == "x"; };
  CHECK(fires(ruleset(rule<"r">(relu(x.where(named)) >> neg(x))), [](auto x) { return x.relu(); }));
  CHECK_FALSE(fires(ruleset(rule<"r">(relu(x.where(named)) >> neg(x))), [](auto x) { return x.exp().relu(); }));
  constexpr auto two = [](const Argument& a) { return a.is_number() && a.number() == 2; };
  constexpr auto either_way = ruleset(rule<"r">((mul(x, factor) | div(x, factor.where(two))) >> neg(x)));
  CHECK(fires(either_way, [](auto x) { return x * 3; }));
  CHECK(fires(either_way, [](auto x) { return x / 2; }));
  CHECK_FALSE(fires(either_way, [](auto x) { return x / 3; }));
}

TEST_CASE("a condition on an argument is asked of tensors, calls, lists, and of numbers as they are") {
  constexpr auto node = [](const Argument& a) { return a.is_node(); };
  CHECK(fires(ruleset(rule<"r">(relu(x.where(node)) >> neg(x))), [](auto x) { return relu(x); }));
  CHECK(fires(ruleset(rule<"r">(relu(x).where(node) >> neg(x))), [](auto x) { return relu(x); }));
  constexpr auto three = [](const Argument& a) { return a.is_sequence() && a.items().size() == 3; };
  constexpr auto turned = ruleset(rule<"r">(permute(x, sequence<"dims">.where(three)) >> neg(x)));
  CHECK(fires(turned, [](auto x) { return x.permute({0, 2, 1}); }));
  CHECK_FALSE(fires(turned, [](auto x) { return x.permute({1, 0}); }));
  constexpr auto whole = [](const Argument& a) { return a.kind() == Argument::Kind::integer; };
  constexpr auto factors = ruleset(rule<"r">(mul(x, s.where(whole)) >> neg(x)));
  CHECK(fires(factors, [](auto x) { return x * 2; }));
  CHECK_FALSE(fires(factors, [](auto x) { return x * 2.5; }));
}

TEST_CASE("a rule with a condition does not shadow one without, and is shadowed by it") {
  constexpr auto rules = ruleset(rule<"four">(relu(x.where(rank_is<4>)) >> neg(x)), rule<"any">(relu(x) >> exp(x)));
  CHECK(rewritten(rules, [](auto x) { return x.relu(); }) == "exp = aten::exp(%x)\nreturn %exp\n");
  CHECK(rewritten_graph(rules, [](Graph& g) {
          return g.call_function(ops::relu, {shaped(g.placeholder("x"), {1, 2, 3, 4})});
        }) == "neg = aten::neg(%x)\nreturn %neg\n");
}
