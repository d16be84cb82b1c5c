// Specialised modules: views and copies of all kinds, and what is written in place; beside LibTorch.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

TEST_CASE("views, copies, parts put beside each other, padding, rolling, numbers") {
  torch::manual_seed(4);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &y = in[1];  // [6, 5, 7], [6, 7]
    const Tensor twice = x * 2, other = y.exp();
    Tensors results = {x.contiguous(),
                       x.clone(),
                       x.detach() * 1,
                       torch::dropout(x, 0.5, false) + 1,
                       torch::feature_dropout(x, 0.5, false),
                       x.reshape({30, 7}) + 1,
                       x.view({6, 1, 5, 7}) + 1,
                       x.reshape({5, 6, 7}),
                       x.transpose(0, 1).reshape({30, 7}) * 2,
                       twice.transpose(0, 2).reshape({7, 30}),
                       twice.contiguous().view({-1}),
                       x.flatten(1) + 0.5,
                       twice.flatten(),
                       x.unflatten(0, {2, 3}).sum(-1),
                       x.unsqueeze(1) + y.unsqueeze(1).unsqueeze(1),
                       twice.select(1, 2).unsqueeze(0).squeeze(0),
                       x.narrow(1, 2, 1).squeeze(1) * y,
                       x.narrow(0, 3, 1).squeeze(),
                       x.permute({2, 0, 1}),
                       twice.permute({1, 2, 0}) + 1,
                       x.transpose(-1, -2) * 3,
                       y.t(),
                       other.t() + 1,
                       y.unsqueeze(1).expand({6, 5, 7}) + x,
                       y.unsqueeze(1).expand_as(x),
                       x.slice(1, 1, 5, 2),
                       twice.slice(2, -3),
                       x.slice(0, 4, 100) - 1,
                       x.narrow(2, 1, 3),
                       twice.narrow(0, -2, 2),
                       x.select(0, -1),
                       x.select(2, 3) * other.select(1, 3).unsqueeze(1),
                       x.split(2, 1)[2],
                       twice.split(4, 0)[1],
                       torch::split_with_sizes(x, {1, 4, 2}, -1)[1] + 1,
                       x.split({2, 3}, 1)[1],
                       x.chunk(4, 2)[3],
                       twice.chunk(2, 0)[1],
                       x.unbind(1)[4],
                       twice.unbind(-1)[0] + 1,
                       torch::cat({x, twice}, 0),
                       torch::cat({x, twice.slice(1, 0, 2), x.sigmoid()}, 1),
                       torch::cat({x.select(2, 0), y}, -1),
                       torch::cat({x, x}, 2),
                       torch::cat({torch::cat({x + 1, x + 2}, 1), torch::cat({x + 3, x + 4}, 1)}, 0),
                       torch::stack({y, other, y * 2}, 0),
                       torch::stack({y + 3, other + 2}, 1),
                       torch::stack({y, y}, -1),
                       torch::stack({x.mean(), y.mean()}, 0),
                       torch::slice_scatter(x, y.unsqueeze(1) * 2, 1, 3, 4),
                       torch::slice_scatter(twice, x.slice(2, 0, 3), 2, 1, 6, 2),
                       torch::select_scatter(x, y, 1, -2),
                       torch::constant_pad_nd(x, {1, 2}, 3),
                       torch::constant_pad_nd(twice, {0, 1, 2, 0, 1, 1}),
                       torch::constant_pad_nd(x, {-1, 2, 1, -2}, -1),
                       F::pad(y, F::PadFuncOptions({2, 3}).value(infinite)),
                       F::pad(y, F::PadFuncOptions({0, 0, 1, 1})),
                       torch::roll(x, {2}, {1}),
                       torch::roll(twice, {-1, 3}, {0, 2}),
                       torch::roll(x, {9, -8, 1}, {0, 1, 2}),
                       torch::roll(x, {1, 2}, {1, 1}),
                       torch::roll(y, {0}, {0}),
                       torch::zeros({3}, x.options()),
                       torch::ones({2, 2}, x.options()) + y[0][0],
                       torch::full({2}, 4.5, x.options()),
                       torch::zeros_like(x) + 1,
                       torch::ones_like(y) * other,
                       torch::full_like(y, 0.25),
                       x.new_zeros({4}),
                       x.new_ones({2}) * 3,
                       x.new_full({1, 2}, -2.),
                       x.new_empty({2, 3}).fill_(7),
                       x.reshape({1, 6, 1, 5, 7, 1}).squeeze() + 1,
                       x.unsqueeze(0).squeeze(at::IntArrayRef{0, 1}),
                       x.view_as(x) + 1,
                       x.reshape_as(twice) + 2,
                       x.flip({0}),
                       x.flip({2}).exp(),
                       x.flip({-1, 1}) + x,
                       twice.flip({0, 1, 2}),
                       twice.flip({0, 2}).reshape({30, 7}) * 2,
                       x.flip(at::IntArrayRef{}) * 2,
                       y.fliplr() * other,
                       y.flipud(),
                       other.flipud().t() + 1,
                       x.flip({2}).softmax(-1),
                       x.flip({1}).softmax(1),
                       twice.flip({2}).cumsum(-1) * 0.1,
                       x.flip({0}).mean(0),
                       x.slice(1, 1, 5, 2).flip({1}).slice(2, 1, 6, 3),
                       x.flip({1}).select(1, 0),
                       x.flip({0}).flip({2}).tanh(),
                       x.narrow(1, 2, 1).flip({1}) + 1,
                       y.unsqueeze(1).expand({6, 5, 7}).flip({1, 2}),
                       torch::cat({x.flip({1}), x, twice.flip({2})}, 1),
                       x.flip({2}).matmul(y.flip({0}).t()),
                       torch::layer_norm(x.flip({0, 2}), {7}),
                       x.index_select(1, x.flip({2}).argmax(1)[0].flip({0})),
                       x.slice(0, 0, 0).flip({0, 1}) + 1,
                       x.mean().flip(at::IntArrayRef{})};
    return all_of(results);
  };
  const Tensor x = torch::randn({6, 5, 7}), y = torch::randn({6, 7});
  check(f, {x, y}, {.more = {{transposed_copy(x), transposed_copy(y)}, {sliced_copy(x), y}}});
  const Forward wide = [](const Tensors& in) {
    const Tensor x = in[0];
    return all_of({x.reshape({30, 7}), x.transpose(0, 1).flatten(), x + 1, x.sum(-1), x.softmax(1),
                   torch::cat({x, x * 2}, 1), x.reshape({5, 6, 7}).exp(), x.mean(), x.amax({0, 1})});
  };
  check(wide, {transposed_copy(x)});
  check(wide, {sliced_copy(x)});
  check(wide, {torch::randn({6, 1, 7}).expand({6, 5, 7})});
}

TEST_CASE("slices that are written in place, and copies of what is written later") {
  torch::manual_seed(5);
  check(
      [](const Tensors& in) {
        Tensor x = in[0].clone(), y = in[1] * 1, whole = in[0] * 2;
        x.slice(1, 0, 3).mul_(2);
        x.select(0, 1).add_(y);
        const Tensor before = x.clone();
        x.slice(0, 2, 5, 2).slice(1, 1, 4).fill_(3);
        whole.slice(1, 2, 6) = whole.slice(1, 2, 6).copy_(in[0].slice(1, 0, 4));
        whole.transpose(0, 1).select(0, 0).zero_();
        const Tensor part = whole.slice(1, 1, 3);
        part.relu_();
        return all_of({x, before, whole, part, whole.sum(), y});
      },
      {torch::randn({6, 8}), torch::randn({8})});
  // Inputs that are written keep what was copied of them.
  const auto gm = traced(
      [](const Tensors& in) {
        const Tensor kept = in[0].clone(), turned = in[0].t().contiguous(), added = in[0] + 1;
        in[0].mul_(3);
        return all_of({kept, turned, added, in[0], in[0].t(), in[0].t() + 1});
      },
      {torch::randn({4, 5})});
  const auto compiled = fxx::compile(*gm, {torch::randn({4, 5})}, {.cache_folder = cache()});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = torch::randn({4, 5});
    Tensor one = i == 1 ? transposed_copy(x) : x.clone(), two = x.clone();
    CHECK(relative_difference(compiled->run({one}), gm->run({two})) <= 1e-6);
    CHECK(same(one, two));
  }
}

TEST_CASE("what is turned, with what stands before it: by squares of vectors where memory lies so, and where not") {
  torch::manual_seed(41);
  for (const auto& [n, c, t] : {std::tuple(1, 8, 16), std::tuple(3, 37, 50), std::tuple(2, 64, 17), std::tuple(9, 9, 33)}) {
    CAPTURE(c);
    const auto make = [n = n, c = c, t = t] {
      return Tensors{torch::randn({n, c, t}), torch::randn({c, 1}), torch::randn({t}), torch::randn({n, t, c}),
                     torch::rand({n, c, t}) > 0.5, torch::randint(-9, 10, {n, c, t})};
    };
    const auto f = [](const Tensors& in) {
      const Tensor &x = in[0], &column = in[1], &row = in[2], &other = in[3], &mask = in[4], &whole = in[5];
      return all_of({x.transpose(1, 2).contiguous(), (x * 2).relu().transpose(1, 2).contiguous(),
                     ((x + column) * row).transpose(1, 2).contiguous(), x.transpose(1, 2) + other,
                     torch::where(mask, x, x.exp()).transpose(1, 2).contiguous(),
                     (whole + x).transpose(1, 2).contiguous(), mask.transpose(1, 2).contiguous(),
                     whole.transpose(1, 2).contiguous(), x.flip({2}).transpose(1, 2).contiguous(),
                     x.transpose(0, 2).contiguous(), x.select(1, 3).t().contiguous(),
                     x.slice(2, 0, c10::nullopt, 2).transpose(1, 2).contiguous(),
                     x.unsqueeze(3).expand({-1, -1, -1, 5}).permute({0, 2, 3, 1}).contiguous()});
    };
    Tensors turned = make();
    for (Tensor& one : turned) one = transposed_copy(one);
    Tensors odd = make();
    odd[0][0][3] = not_a_number;
    odd[0][0][5] = infinite;
    check(f, make(), {.more = {turned, odd}});
    check(f, turned);
  }
}

TEST_CASE("triangles, repeats, division that rounds, filling with an element of a tensor") {
  torch::manual_seed(36);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &n = in[1], &m = in[2], &y = in[3];  // [2, 7, 19], [7, 19], [7, 19], [2, 7, 19]
    Tensors results;
    for (const std::int64_t k : {0, 1, -3, 25})
      for (const Tensor& t : {x.triu(k), (x * 2).tril(k).relu(), n.triu(k), m.tril(k), x.transpose(1, 2).triu(k),
                              x.select(0, 1).t().tril(k).softmax(-1), torch::full_like(n, 3).tril(k).sum(1)})
        results.push_back(t);
    for (const Tensor& t : {x.repeat({1, 2, 1}),
                            x.repeat({3, 1, 2, 1}) + 1,
                            n.repeat({2, 3}),
                            m.repeat({1, 1, 2}),
                            y.tile({2}),
                            y.tile({2, 1, 3}).exp(),
                            x.repeat_interleave(3, 1),
                            n.repeat_interleave(2, -1) + 1,
                            x.transpose(0, 2).repeat({2, 1, 2}),
                            n.select(0, 1).repeat_interleave(4),
                            (x * 2).repeat({1, 1, 1}),
                            x.select(2, 0).repeat({2, 2, 2}).sum(0),
                            torch::div(x * 5, y.abs() + 0.5, "floor"),
                            torch::div(x * 5, y.abs() + 0.5, "trunc"),
                            torch::div(x * 9, -1.5, "trunc"),
                            torch::div(n, 3, "floor"),
                            torch::div(n, -2, "trunc") + 1,
                            torch::div(n, 2.5, "floor"),
                            x.masked_fill(m, y.select(0, 0)[0][0] * 2),
                            n.masked_fill(m, n[1][2]),
                            x.masked_fill(m, n[0][0])})
      results.push_back(t);
    return all_of(results);
  };
  const auto make = [] {
    return Tensors{torch::randn({2, 7, 19}), torch::randint(-9, 10, {7, 19}), torch::rand({7, 19}) > 0.5,
                   torch::randn({2, 7, 19})};
  };
  Tensors turned = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  Tensors odd = make();
  odd[0][0][3] = not_a_number;
  odd[0][1][5] = infinite;
  check(f, make(), {.more = {turned, odd}});
  check(f, turned);
}

}  // namespace
