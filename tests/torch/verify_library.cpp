// The shipped rule sets, checked by running; those of algebra are in verify_algebra.cpp, those of convolutions in
// verify_convolutions.cpp.
#include <functional>
#include <limits>
#include <numeric>

#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/layout.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/normalisation.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/rules/spellings.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;

namespace {
const VerifyOptions shipped = {.gradients = true, .cases = 100};
const VerifyOptions fewer = {.gradients = true, .cases = 60};  // attention runs the longest
/// A capture of this name holds what `make` says.
VerifyInputs holding(std::string_view name, double (*make)(VerifyRandom& random)) {
  return [=](std::string_view capture, VerifyRandom& random) {
    return capture == name ? std::optional<c10::IValue>(make(random)) : std::nullopt;
  };
}
using Shape = std::vector<std::int64_t>;
/// Shapes of which the usual choice finds none: x, seen as batch, groups and the rest. Of a group of one number, which
/// is its mean, both sides keep nothing but rounding.
std::map<std::string, VerifyInputs> norms_of_groups() {
  struct Choice {
    std::int64_t batch, groups, each;  // channels of a group
    Shape places;                      // behind the channels
    explicit Choice(VerifyRandom& r)
        : batch(r.pick<std::int64_t>({1, 2, 3})), groups(r.pick<std::int64_t>({1, 2, 3})),
          each(r.pick<std::int64_t>({2, 3, 4})) {
      for (std::size_t n = r.below(3); n > 0; --n) places.push_back(r.pick<std::int64_t>({1, 3, 4}));
    }
    Shape before(Shape first) const {
      first.insert(first.end(), places.begin(), places.end());
      return first;
    }
  };
  const auto by_view = [](bool one) {
    return fxx::test::together("x", [one](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
      const Choice c(r);
      const Shape shape = c.before({c.batch, c.groups * c.each});
      Shape sizes = c.before({c.each});
      if (r.chance(50)) sizes = {std::accumulate(sizes.begin(), sizes.end(), std::int64_t(1), std::multiplies<>())};
      Shape parts = one ? Shape{1, c.batch * c.groups} : Shape{c.batch, c.groups};
      parts.insert(parts.end(), sizes.begin(), sizes.end());
      return {{"x", fxx::test::VerifyTensors(r)(shape)}, {"parts", parts}, {"sizes", sizes}, {"eps", 1e-5},
              {"shape", shape}, {"momentum", 0.1}};
    });
  };
  const auto of_channels = [](const char* name) {
    return fxx::test::together("x", [name](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
      const Choice c(r);
      const std::int64_t channels = c.groups * c.each;
      fxx::test::VerifyTensors tensor(r);
      Shape numbers(c.places.size() + 1, 1);
      numbers[0] = channels;
      if (r.chance(50)) numbers.insert(numbers.begin(), 1);
      // An eps that numbers which are nearly the mean of their group are not blown up by, and their rounding with them.
      return {{"x", tensor(c.before({c.batch, channels}))}, {"groups", c.groups}, {"eps", 0.1},
              {"weight", tensor({channels})}, {name, tensor(numbers)}};
    });
  };
  const VerifyInputs row = fxx::test::together("x", [](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
    const Shape shape = {r.pick<std::int64_t>({1, 2, 3}), r.pick<std::int64_t>({1, 2, 5})};
    return {{"x", fxx::test::VerifyTensors(r)(shape)}, {"dim", r.pick<std::int64_t>({-1, 0, 1})}};
  });
  const VerifyInputs centred = fxx::test::together("x", [](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
    const auto n = r.pick<std::int64_t>({2, 3, 8});
    fxx::test::VerifyTensors tensor(r);
    return {{"x", tensor({r.pick<std::int64_t>({1, 2, 3}), n})}, {"dims", Shape{r.chance(50) ? 1 : -1}},
            {"sizes", Shape{n}}, {"weight", r.chance(60) ? c10::IValue(tensor({n})) : c10::IValue()}, {"eps", 1e-5}};
  });
  return {{"log of softmax", row},
          {"layer norm by rms norm", centred},
          {"group norm", by_view(false)},
          {"group norm by batch norm", by_view(true)},
          {"group norm takes its weight", of_channels("weight")},
          {"group norm takes its bias", of_channels("bias")}};
}
}  // namespace

TEST_CASE("activations hold") {
  VerifyOptions options = shipped;
  options.inputs["log_sigmoid by softplus"] =
      holding("linear from", [](VerifyRandom& random) { return random.pick({20., 25., 40., 88.}); });
  all_hold("activations", rules::activations, options);
}
TEST_CASE("re-rolled operators hold") {
  VerifyOptions options = shipped;
  for (const char* rule : {"pad, reflecting", "pad, replicating", "pad, around"})
    options.inputs[rule] = fxx::test::together("x", [](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
      const auto size = [&] { return r.pick<std::int64_t>({3, 4, 5}); };
      const auto by = [&] { return r.pick<std::int64_t>({0, 1, 2}); };
      Shape shape = {r.pick<std::int64_t>({1, 2}), r.pick<std::int64_t>({1, 3}), size()}, sizes = {by(), by()};
      if (r.chance(60)) shape.push_back(size()), sizes.insert(sizes.end(), {by(), by()});
      return {{"x", fxx::test::VerifyTensors(r)(shape)}, {"sizes", sizes}};
    });
  all_hold("reroll", rules::reroll, options);
}
TEST_CASE("spellings hold") { all_hold("spellings", rules::spellings, shipped); }
TEST_CASE("conversions of layouts hold") { all_hold("layout", rules::layout, shipped); }
TEST_CASE("merged linears hold where numbers do not overflow") {
  all_hold("merge_linear", rules::merge_linear, shipped);
}
TEST_CASE("activations of one value, put together, hold") {
  all_hold("merge_activation", rules::merge_activation, shipped);
}

TEST_CASE("normalisations, softmaxes and means hold where numbers do not overflow") {
  VerifyOptions options = shipped;
  options.inputs = norms_of_groups();
  all_hold("normalisation", rules::normalisation, options);
}

TEST_CASE("attention holds, as a call of what is written and, where all queries see a key, of the operator") {
  VerifyOptions options = fewer;
  for (const char* rule : {"attention, divided, hidden", "attention, scaled query, hidden",
                           "attention, divided query, hidden", "attention, scaled, hidden", "attention, divided, seen",
                           "attention, scaled, seen",
                           "attention, scaled query, seen", "attention, divided query, seen", "attention, bmm, hidden",
                           "attention, bmm, divided, hidden"})
    options.inputs[rule] = holding("s", [](VerifyRandom&) { return -std::numeric_limits<double>::infinity(); });
  for (const char* rule : {"attention, filled", "attention, divided, filled", "attention, scaled query, filled",
                           "attention, divided query, filled"})
    options.inputs[rule] = fxx::test::together("q", [](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
      const auto queries = r.pick<std::int64_t>({1, 3}), keys = r.pick<std::int64_t>({1, 2, 4});
      const auto size = r.pick<std::int64_t>({1, 4}), heads = r.pick<std::int64_t>({1, 2, 3});
      fxx::test::VerifyTensors tensor(r);
      const at::Tensor q = tensor({heads, queries, size}), k = tensor({heads, keys, size});
      const at::Tensor mask = tensor(r.chance(50) ? Shape{queries, keys} : Shape{1, 1, keys}).gt(r.pick({-3.0, 0.0}));
      return {{"q", q}, {"k", k}, {"v", tensor({heads, keys, size})}, {"mask", mask}, {"order", Shape{0, 2, 1}},
              {"s", r.pick({-1e9, -1e12, -3e38})}, {"scale", r.pick({0.5, 2.0})}, {"i", std::int64_t(-1)},
              {"j", std::int64_t(r.chance(50) ? 1 : -2)}, {"dim", std::int64_t(r.chance(50) ? 2 : -1)}};
    });
  for (const char* rule : {"attention, grouped keys, repeated", "attention, grouped keys, expanded"})
    options.inputs[rule] = fxx::test::together("q", [](VerifyRandom& r) -> std::map<std::string, c10::IValue> {
      const auto batch = r.pick<std::int64_t>({1, 2}), heads = r.pick<std::int64_t>({1, 2, 3});
      const auto copies = r.pick<std::int64_t>({2, 3}), queries = r.pick<std::int64_t>({1, 3});
      const auto keys = r.pick<std::int64_t>({1, 2, 4}), size = r.pick<std::int64_t>({1, 4});
      const bool causal = r.chance(30);
      fxx::test::VerifyTensors tensor(r);
      const at::Tensor q = tensor({batch, heads * copies, queries, size}), k = tensor({batch, heads, keys, size});
      const at::Tensor v = tensor({batch, heads, keys, size});
      return {{"q", q}, {"k", k}, {"v", v}, {"repeats", copies}, {"dim", std::int64_t(r.chance(50) ? 1 : -3)},
              {"mask", !causal && r.chance(50) ? c10::IValue(tensor({queries, keys})) : c10::IValue()},
              {"causal", causal}, {"given scale", r.chance(50) ? c10::IValue(0.5) : c10::IValue()},
              {"at", std::int64_t(r.chance(50) ? 2 : -3)}, {"sizes", Shape{batch, heads, copies, keys, size}},
              {"shape", Shape{batch, heads * copies, keys, size}}};
    });
  all_hold("attention", rules::attention, options);
  // LibTorch's operator, for queries that all see a key.
  options.assume = law::visible | law::formula;
  all_hold("attention", rules::attention, options);
}

TEST_CASE("scores of attention hold in the form that it wants them") {
  VerifyOptions options = shipped;
  for (const char* rule : {"scale before the mask", "scale before the mask, divided", "scale before the mask, seen",
                           "scale before the mask, seen, divided"})
    options.inputs[rule] = holding("s", [](VerifyRandom&) { return -std::numeric_limits<double>::infinity(); });
  all_hold("attention_scores", rules::attention_scores, options);
}

TEST_CASE("attention with dropout holds where all weights are dropped, or none") {
  VerifyOptions options = fewer;
  for (const char* rule : {"attention, divided, dropout", "attention, scaled query, dropout",
                           "attention, divided query, dropout", "attention, dropout"})
    options.inputs[rule] = holding("rate", [](VerifyRandom& random) { return random.chance(80) ? 0.0 : 1.0; });
  all_hold("attention_dropout", rules::attention_dropout, options);
}
