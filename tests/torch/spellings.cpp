// Group norms, grouped keys, rotary embeddings, rearrangements and einsums as models write them: traced, rewritten, run.
#include "fxx/rules/attention.hpp"
#include "fxx/rules/einsum.hpp"
#include "fxx/rules/normalisation.hpp"
#include "fxx/rules/rearrangement.hpp"
#include "fxx/rules/rotary.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/interpreter.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

/// What fires on the traced function, whose numbers are compared before and after.
template <class Rules>
std::string fired(const Rules& rules, const Forward& f, const Tensors& inputs) {
  const auto gm = traced(f, inputs);
  const std::string before = to_string(gm->graph());
  CAPTURE(before);
  const std::string report = rules.apply(*gm).to_string();
  const std::string after = to_string(gm->graph());
  CAPTURE(after);
  gm->graph().lint();
  CHECK(relative_difference(gm->run(boxed(inputs)), f(inputs)) <= 1e-12);
  return report;
}
Tensor of(const c10::IValue& value) { return value.toTensor(); }
Tensor randn(std::vector<std::int64_t> sizes) { return torch::randn(sizes, torch::kDouble); }

/// Each head n times, as Hugging Face's models have it.
Tensor repeat_kv(const Tensor& x, std::int64_t n) {
  using torch::indexing::Slice, torch::indexing::None;
  return x.index({Slice(), Slice(), None, Slice(), Slice()})
      .expand({x.size(0), x.size(1), n, x.size(2), x.size(3)})
      .reshape({x.size(0), x.size(1) * n, x.size(2), x.size(3)});
}
Tensor rotate_half(const Tensor& x) {
  using torch::indexing::Slice, torch::indexing::None;
  const Tensor first = x.index({"...", Slice(None, x.size(-1) / 2)}), second = x.index({"...", Slice(x.size(-1) / 2)});
  return torch::cat({-second, first}, -1);
}
Tensor rotate_every_two(const Tensor& x) {
  using torch::indexing::Slice, torch::indexing::None;
  const Tensor even = x.index({"...", Slice(None, None, 2)}), odd = x.index({"...", Slice(1, None, 2)});
  return torch::stack({-odd, even}, -1).flatten(-2);
}
const Forward by_halves = [](const Tensors& in) { return in[0] * in[1] + rotate_half(in[0]) * in[2]; };

}  // namespace

TEST_CASE("group norm as papers write it") {
  const Forward f = [](const Tensors& in) {
    Tensor x = in[0].view({2, 3, -1});
    x = (x - x.mean(-1, true)) / torch::sqrt(x.var(-1, false, true) + 1e-5);
    return x.view(in[0].sizes()) * in[1].view({1, -1, 1, 1}) + in[2].view({1, -1, 1, 1});
  };
  CHECK(fired(rules::normalisation, f, {randn({2, 6, 4, 5}), randn({6}), randn({6})}) ==
        "layer norm, divided: 1, group norm: 1, group norm takes its weight: 1, group norm takes its bias: 1");
}

TEST_CASE("pixels and channels that change places") {
  CHECK(fired(rules::rearrangement,
              [](const Tensors& in) {
                return in[0].view({2, 3, 2, 2, 5, 7}).permute({0, 1, 4, 2, 5, 3}).contiguous().view({2, 3, 10, 14});
              },
              {randn({2, 12, 5, 7})}) == "pixel shuffle: 1");
  CHECK(fired(rules::rearrangement,
              [](const Tensors& in) {
                return in[0].reshape({2, 3, 5, 2, 7, 2}).permute({0, 1, 3, 5, 2, 4}).reshape({2, 12, 5, 7});
              },
              {randn({2, 3, 10, 14})}) == "pixel unshuffle: 1");
  CHECK(fired(rules::rearrangement,
              [](const Tensors& in) {
                return in[0].view({2, 3, 4, 5, 7}).transpose(1, 2).contiguous().view({2, -1, 5, 7});
              },
              {randn({2, 12, 5, 7})}) == "channel shuffle: 1");
}

TEST_CASE("attention with grouped keys, by hand and by the operator") {
  const Forward by_hand = [](const Tensors& in) {
    const Tensor k = repeat_kv(in[1], 4), v = repeat_kv(in[2], 4);
    return torch::matmul(torch::softmax(torch::matmul(in[0], k.transpose(2, 3)) * 0.25, -1), v);
  };
  const Forward by_operator = [](const Tensors& in) {
    return at::scaled_dot_product_attention(in[0], in[1].repeat_interleave(4, 1), in[2].repeat_interleave(4, 1));
  };
  const Tensors inputs = {randn({2, 8, 5, 16}), randn({2, 2, 7, 16}), randn({2, 2, 7, 16})};
  CHECK(fired(rules::attention, by_hand, inputs) ==
        "attention, scaled: 1, attention, grouped keys, expanded: 1");
  CHECK(fired(rules::attention, by_operator, inputs) == "attention, grouped keys, repeated: 1");
}

TEST_CASE("attention by einsum") {
  const Forward f = [](const Tensors& in) {
    const Tensor scores = torch::einsum("bqhd,bkhd->bhqk", {in[0], in[1]}) / 4;
    return torch::einsum("bhqk,bkhd->bqhd", {torch::softmax(scores, -1), in[2]});
  };
  CHECK(fired(rewrite::phases(rules::einsums, rules::attention), f,
              {randn({2, 5, 3, 16}), randn({2, 7, 3, 16}), randn({2, 7, 3, 16})}) ==
        "matrix product by einsum: 2, attention, divided: 1");
}

TEST_CASE("rotary embeddings") {
  const Tensors inputs = {randn({2, 4, 5, 8}), randn({5, 8}), randn({5, 8})};
  CHECK(fired(rules::rotary, by_halves, inputs) == "rotary embedding, halves: 1");
  CHECK(fired(rules::rotary, [](const Tensors& in) { return in[0] * in[1] + rotate_every_two(in[0]) * in[2]; },
              inputs) == "rotary embedding, pairs: 1");
  CHECK(fired(rules::rotary,
              [](const Tensors& in) {
                const auto parts = in[0].chunk(2, -1);
                return torch::cat({parts[0] * in[1] - parts[1] * in[2], parts[1] * in[1] + parts[0] * in[2]}, -1);
              },
              {inputs[0], randn({5, 4}), randn({5, 4})}) == "rotary embedding, both halves: 1");
  CHECK(fired(rules::rotary,
              [](const Tensors& in) {
                const Tensor x = torch::view_as_complex(in[0].reshape({2, 5, 4, -1, 2}));
                return torch::view_as_real(x * in[1]).flatten(3);
              },
              {randn({2, 5, 4, 8}), torch::view_as_complex(randn({5, 1, 4, 2}))}) == "rotary embedding, complex: 1");
}

TEST_CASE("a rotary embedding runs as its operators, wherever it runs") {
  const Tensors inputs = {randn({2, 4, 5, 8}), randn({5, 8}), randn({5, 8})};
  const auto gm = traced(by_halves, inputs);
  CHECK(rules::rotary.apply(*gm).rewrites == 1);
  const Tensor wanted = inputs[0] * inputs[1] + rotate_half(inputs[0]) * inputs[2];
  CHECK(same(of(gm->run(boxed(inputs))), wanted));
  CHECK(same(of(Interpreter(*gm).run(boxed(inputs))), wanted));
  CHECK(gm->code().find("fxx::rotary") == std::string::npos);
  const auto again = traced([&](const Tensors& in) { return gm->run(boxed(in)); }, inputs);
  CHECK(rules::rotary.apply(*again).rewrites == 1);
  const support::TemporaryFolder folder;
  const auto built = build(*gm, inputs, {.tolerance = 0, .cache_folder = folder.path()});
  CHECK(built->called_back().empty());
  CHECK(same(of(built->run(boxed(inputs))), wanted));
  const Tensor unreal = of(gm->run({fake_like(inputs[0]), fake_like(inputs[1]), fake_like(inputs[2])}));
  CHECK(is_fake(unreal));
  CHECK((unreal.sizes() == at::IntArrayRef({2, 4, 5, 8})));
}
