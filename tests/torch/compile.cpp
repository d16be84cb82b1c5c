// Specialised modules: what kernels compute against the same module in double precision, over sizes, strides and numbers
// of threads that do not fit vectors; operators that are called back; what must be told, and what must be noticed.
//
// A module here has many operators and gives all their results, since each library costs the compiler a second or two.
// One long file: each that includes LibTorch takes 20 s and 1.3 GB to compile.
#include "fxx/torch/compile.hpp"

#include <atomic>
#include <mutex>
#include <thread>

#include "fxx/codegen/specialised_source.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/passes/functionalise.hpp"
#include "fxx/torch/fake.hpp"
#include "torch/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
using support::TemporaryFolder;
using support::Variable;
using torch::Tensor;
namespace F = torch::nn::functional;

namespace {

// --- element by element ----------------------------------------------------------------------------------------------

Tensors pointwise_of_one(const Tensor& x) {
  const Tensor y = x.abs() + 0.5, unit = x.tanh() * 0.9;
  return {x.neg(),
          x.abs(),
          x.square(),
          y.sqrt(),
          y.reciprocal(),
          y.rsqrt(),
          x.exp(),
          x.expm1(),
          y.log(),
          x.erf(),
          x.tanh(),
          x.sigmoid(),
          x.relu(),
          F::silu(x),
          torch::hardsigmoid(x),
          torch::hardswish(x),
          F::mish(x),
          torch::log_sigmoid(x),
          torch::leaky_relu(x, 0.2),
          F::softplus(x),
          x.sin(),
          x.cos(),
          unit.tan(),
          unit.asin(),
          unit.acos(),
          x.atan(),
          x.sinh(),
          x.cosh(),
          x.asinh(),
          (y + 1).acosh(),
          unit.atanh(),
          x.exp2(),
          y.log2(),
          y.log10(),
          y.log1p(),
          x.erfc(),
          (x * 7).round(),
          (x * 7).floor(),
          (x * 7).ceil(),
          (x * 7).trunc(),
          x.sign(),
          torch::selu(x),
          torch::celu(x, 1.5),
          torch::elu(x, 0.7),
          torch::gelu(x),
          torch::gelu(x, "tanh"),
          torch::relu6(x * 4),
          torch::hardtanh(x, -0.5, 0.75),
          x.clamp(-0.3, 0.4),
          x.clamp_min(0.1),
          x.clamp_max(0.2),
          x.pow(2),
          x.pow(3),
          y.pow(-2),
          y.pow(0.5),
          y.pow(-0.5),
          y.pow(-1),
          x.pow(4),
          y.pow(1)};
}
Tensors pointwise_of_two(const Tensor& x, const Tensor& y) {
  const Tensor positive = y.abs() + 0.5;
  return {x + y,
          torch::add(x, y, 2.5),
          x - y,
          torch::sub(x, y, -3),
          torch::rsub(x, y, 2),
          torch::rsub(x, 1.5, 2),
          x * y,
          x / positive,
          x * 3,
          2 / positive,
          x + 1,
          1 - x,
          torch::maximum(x, y),
          torch::minimum(x, y),
          torch::max(x, y),
          torch::min(x, y),
          positive.pow(x),
          torch::atan2(x, positive),
          torch::fmod(x * 5, positive),
          torch::fmod(x * 5, 1.5),
          torch::remainder(x * 5, positive),
          torch::remainder(x * 5, -1.5),
          torch::floor_divide(x * 5, positive),
          torch::where(x > y, x, y * 2),
          torch::where(x < 0.1, x, torch::full({}, 2., x.options())),
          x.masked_fill((x >= y) | (y < 0), 3),
          x.masked_fill(~((x <= y) & (y > 0)), -infinite),
          torch::clamp(x, y.minimum(x * 0.5), y),
          x.clamp_min(y),
          x.clamp_max(y),
          (x == y),
          (x != y),
          (x <= 0.5) ^ (y >= 0.25),
          torch::logical_not(x < y),
          x.eq(0),
          x.ne(0),
          ((x > y).to(x.scalar_type()) + 1) * y};
}

TEST_CASE("functions of one element, over sizes that fill no vector, and other strides") {
  torch::manual_seed(1);
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{{7, 19}, {1}}) {
    const Tensor x = torch::randn(sizes), z = torch::randn(sizes);
    check([](const Tensors& in) { return all_of(pointwise_of_one(in[0])); }, {x},
          {.more = {{z}, {transposed_copy(z)}, {sliced_copy(z)}, {torch::randn({1}).expand(sizes)}}});
  }
}
TEST_CASE("functions of two elements: of other sizes, numbers, and strides that they were compiled for") {
  torch::manual_seed(2);
  const Forward f = [](const Tensors& in) {
    Tensors results = pointwise_of_two(in[0], in[1]);
    for (const Tensor& t : pointwise_of_two(in[2], in[1])) results.push_back(t);
    for (const Tensor& t : pointwise_of_two(in[0], in[3])) results.push_back(t);
    results.push_back(in[2] + in[3]);
    results.push_back(in[0].t() > in[1].t());
    results.push_back((in[0].t() * in[1].t()).exp());
    results.push_back(in[0].t() * 2 + in[4]);
    return all_of(results);
  };
  const Tensor x = torch::randn({5, 17}), y = torch::randn({5, 17});
  y[2] = x[2];
  y[3][4] = 0;
  const Tensor row = torch::randn({17}), column = torch::randn({5, 1}), wide = torch::randn({3, 17, 5});
  check(
      f, {x, y, row, column, wide},
      {.more = {{transposed_copy(y), sliced_copy(x), row, column, wide.transpose(0, 1).contiguous().transpose(0, 1)}}});
  check(f, {transposed_copy(x), y, sliced_copy(row), column, sliced_copy(wide)});
}
TEST_CASE("nan and infinity pass through functions, softmax, sums and pooling") {
  torch::manual_seed(3);
  Tensor x = torch::randn({3, 5, 9, 7}), y = torch::randn({3, 5, 9, 7});
  x[0][1][2][3] = not_a_number;
  x[0][2][4][4] = infinite;
  x[1][0][0][0] = -infinite;
  y[0][0][1][1] = not_a_number;
  y[2][2][2][2] = infinite;
  check(
      [](const Tensors& in) {
        const Tensor &x = in[0], &y = in[1];
        return all_of({x.relu(),
                       x + y,
                       torch::maximum(x, y),
                       torch::minimum(x, y),
                       x.clamp(-1, 1),
                       torch::relu6(x),
                       x.clamp_min(0.5),
                       x.isnan(),
                       x.isinf(),
                       x.isfinite(),
                       x > y,
                       x == x,
                       x != x,
                       x.sigmoid(),
                       x.tanh(),
                       torch::gelu(x),
                       x.exp(),
                       F::silu(x),
                       torch::hardtanh(x),
                       torch::hardswish(x),
                       x.softmax(-1),
                       x.log_softmax(1),
                       x.sum(-1),
                       x.mean({2, 3}),
                       x.amax({1}),
                       x.sign(),
                       torch::max_pool2d(x, {2, 2}),
                       torch::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}),
                       torch::avg_pool2d(x, {2, 2}),
                       torch::adaptive_avg_pool2d(x, {1, 1}),
                       torch::hardsigmoid(x),
                       torch::leaky_relu(x, 0.1),
                       F::softplus(x),
                       x.round(),
                       x.floor(),
                       torch::elu(x),
                       torch::where(x > 0, x, y),
                       x.abs(),
                       x.reciprocal()});
      },
      {x, y});
}

// --- views and copies ------------------------------------------------------------------------------------------------

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

// --- products ----------------------------------------------------------------------------------------------------------

TEST_CASE("products of matrices: with weights, of two, in batches, with whatever comes behind") {
  torch::manual_seed(6);
  for (const auto& [rows, depth, columns] :
       std::vector<std::array<std::int64_t, 3>>{{5, 17, 33}, {1, 1, 1}, {19, 3, 1}, {2, 64, 16}}) {
    CAPTURE(rows);
    auto net = std::make_shared<Net>();
    const Tensor w = net->parameter({columns, depth}), b = net->parameter({columns}),
                 m = net->parameter({depth, columns}), back = net->parameter({depth, columns}),
                 skip = net->parameter({rows, columns});
    const std::int64_t n = columns, r = rows;
    net->function = [=](const Tensors& in) {
      const Tensor &x = in[0], &batch = in[1], &other = in[2];  // [r, d], [3, r, d], [3, d, n]
      const Tensor y = torch::linear(x, w, b);
      return all_of({y,
                     torch::linear(x, w),
                     torch::linear(batch, w, b).relu() + skip,
                     skip - torch::linear(batch, w),
                     torch::linear(x[0], w, b),
                     torch::addmm(b, x, m),
                     torch::addmm(skip, x, m, 0.5, 2),
                     torch::addmm(b, x, m, 0, 1),
                     torch::mm(x, m),
                     torch::mm(x, other[1]),
                     torch::mm(skip.t(), x),
                     torch::mm(x.t(), skip),
                     torch::bmm(batch, other),
                     torch::bmm(batch, other).sigmoid() * y,
                     torch::matmul(x, other),
                     torch::matmul(batch, other[0]),
                     torch::matmul(batch.unsqueeze(1), other.unsqueeze(0)),
                     torch::matmul(batch.transpose(1, 2), batch),
                     torch::matmul(other.transpose(1, 2).contiguous().transpose(1, 2).transpose(1, 2), m.t().t()),
                     torch::matmul(x.unsqueeze(0).expand({3, r, x.size(1)}), other),
                     torch::linear(x.unsqueeze(1).expand({r, 4, x.size(1)}), w),
                     torch::linear(torch::gelu(torch::linear(x, w, b)), back) + x,
                     torch::linear(x, other[0].t(), b),
                     torch::linear(x, w[0].unsqueeze(0).expand({n, x.size(1)})),
                     torch::linear(torch::cat({x, x}, 0), w, b).tanh(),
                     (torch::linear(x, w, b) * torch::linear(x, m.t())).sum(-1),
                     torch::linear(batch.transpose(0, 1), w, b).transpose(0, 1),
                     torch::linear(x.t().contiguous().t(), w).t(),
                     torch::linear(x.slice(1, 0, depth), w).masked_fill(skip > 0, 1)});
    };
    const Tensor x = torch::randn({rows, depth}), batch = torch::randn({3, rows, depth}),
                 other = torch::randn({3, depth, columns});
    check(*net, {x, batch, other}, {.more = {{transposed_copy(x), sliced_copy(batch), transposed_copy(other)}}});
  }
}

// --- rows --------------------------------------------------------------------------------------------------------------

TEST_CASE("softmax over each dimension, normalisation, sums, means and largest values") {
  torch::manual_seed(8);
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{{3, 5, 17}, {1, 4, 1}}) {
    auto net = std::make_shared<Net>();
    const Tensor g = net->parameter({sizes[2]}), b = net->parameter({sizes[2]}),
                 g2 = net->parameter({sizes[1], sizes[2]}), b2 = net->parameter({sizes[1], sizes[2]}),
                 gc = net->parameter({sizes[1]}), bc = net->parameter({sizes[1]});
    const Tensor mask = net->constant(torch::rand({sizes[2]}) > 0.3);
    net->function = [=](const Tensors& in) {
      const Tensor& x = in[0];
      const std::int64_t n = sizes[2], c = sizes[1];
      return all_of({x.softmax(0),
                     x.softmax(1),
                     x.softmax(2),
                     x.softmax(-1) * 2 + x,
                     (x * 3 + 1).softmax(-1),
                     (x * 3 + 1).softmax(0),
                     x.log_softmax(0),
                     x.log_softmax(1),
                     (x + b).log_softmax(-1),
                     torch::_softmax(x, 1, false),
                     torch::_log_softmax(x, 2, false),
                     torch::layer_norm(x, {n}, g, b),
                     torch::layer_norm(x, {n}),
                     torch::layer_norm(x * 2, {c, n}, g2, b2).relu(),
                     torch::layer_norm(x, {c, n}, g2),
                     torch::rms_norm(x, {n}, g, 1e-5),
                     torch::rms_norm(x, {c, n}),
                     x.sum(),
                     x.sum(0),
                     x.sum({1}),
                     x.sum({0, 2}),
                     x.sum(-1, true) + x,
                     x.sum({0, 1, 2}),
                     x.mean(),
                     x.mean(0),
                     x.mean({1, 2}, true),
                     (x * x).mean(-1),
                     x.amax(),
                     x.amax({1}),
                     x.amax({0, 2}, true),
                     (x - x.amax({-1}, true)).exp(),
                     x.masked_fill(mask, -infinite).softmax(-1),
                     x.masked_fill(mask, 0).sum(-1),
                     torch::layer_norm(x, {c, n}).masked_fill(mask, 1),
                     x.softmax(1).masked_fill(mask, 0),
                     torch::group_norm(x, 1, gc, bc),
                     torch::group_norm(x, c),
                     torch::group_norm(x, c, gc, {}).relu(),
                     torch::batch_norm(x, gc, bc, bc, gc.abs() + 1, false, 0.1, 1e-5, false),
                     torch::batch_norm(x, {}, {}, bc, gc.abs() + 1, false, 0.1, 1e-5, false) + x,
                     x.softmax(-1) > 0.1,
                     x.softmax(0) > 0.2,
                     torch::layer_norm(x, {c, n}) > 0,
                     x.sum(-1) > 0,
                     (x.amax({0}) > 0.5).logical_not(),
                     x.transpose(0, 2).softmax(-1),
                     torch::layer_norm(x.transpose(1, 2), {c}, gc, bc).transpose(1, 2),
                     x.transpose(0, 1).sum({1})});
    };
    const Tensor x = torch::randn(sizes);
    check(*net, {x}, {.more = {{transposed_copy(x)}, {sliced_copy(x)}}});
  }
}

/// Of each dimension, of several, of all, with what they leave behind and without.
Tensors reductions_of(const Tensor& x) {
  Tensors results = {x.argmax(), x.argmin(), x.prod(), x.any(), x.all(), x.max(), x.min(), x.var(), x.std(true)};
  const auto add = [&](const std::tuple<Tensor, Tensor>& pair) {
    results.push_back(std::get<0>(pair));
    results.push_back(std::get<1>(pair));
  };
  for (std::int64_t d = -1; d < x.dim(); ++d) {
    const bool keep = d % 2 == 0, several = x.size(d) > 1;  // of one element LibTorch warns
    for (const Tensor& t :
         {x.argmax(d, keep), x.argmin(d, !keep), x.prod(d, keep), x.any(d, keep), (x > 0.25).all(d, !keep),
          x.logsumexp(d, keep), x.cumsum(d), x.cumprod(d), x.var({d}, several, keep), x.std({d}, false, !keep),
          x.amin({d}, keep), std::get<0>(x.max(d, keep)), std::get<1>(x.min(d, keep)), (x.argmax(d) + 1) * 2,
          x.cumsum(d) > 0.5})
      results.push_back(t);
    add(x.max(d, !keep));
    add((x * 2).min(d, keep));
    add(torch::var_mean(x.exp(), at::IntArrayRef{d}, several));
    add(torch::std_mean(x, {d}, false, keep));
  }
  results.push_back(x.var({0, 1}));
  results.push_back(x.std({1, 0}, false, true));
  results.push_back(x.var({-1, 0}, 0.5, true));
  results.push_back(x.var(c10::nullopt, 0, true));
  results.push_back(x.logsumexp({0, 1}));
  results.push_back(x.logsumexp({-1, 0}, true));
  results.push_back(torch::any(x, {0, -1}));
  results.push_back(torch::all(x, {0, 1}, true));
  results.push_back((x * 3 - 1).argmax(-1));
  results.push_back(x.transpose(0, 1).argmax(0));
  results.push_back(x.argmax(0).to(x.scalar_type()) + x.amax({0}));
  return results;
}
TEST_CASE("places, products, variances, what is any and all, running sums: of each dimension, of several, of all") {
  torch::manual_seed(31);
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{3, 5, 17}, {2, 4, 1}, {7, 2}, {1, 2, 3, 37}}) {
    CAPTURE(sizes);
    const Tensor x = torch::randn(sizes);
    check([](const Tensors& in) { return all_of(reductions_of(in[0])); }, {x},
          {.more = {{transposed_copy(torch::randn(sizes))}, {sliced_copy(torch::randn(sizes))}}});
    if (sizes.size() == 3) check([](const Tensors& in) { return all_of(reductions_of(in[0])); }, {transposed_copy(x)});
  }
}
TEST_CASE("the first of several, and nan where one is: in places, extremes, products, running sums") {
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    Tensors results = {x.argmax(), x.argmin(), x.max(), x.min(), x.prod(), x.any(), x.all(), x.var()};
    for (std::int64_t d = 0; d < 2; ++d)
      for (const Tensor& t :
           {x.argmax(d), x.argmin(d), std::get<0>(x.max(d)), std::get<1>(x.max(d)), x.amin(d), x.prod(d), x.any(d),
            x.all(d), x.logsumexp(d), x.cumsum(d), x.cumprod(d), x.var({d}, false)})
        results.push_back(t);
    return all_of(results);
  };
  torch::manual_seed(32);
  const Tensor few = torch::randint(-2, 3, {19, 37}).to(torch::kFloat);
  Tensor odd = few.clone(), low = torch::full({19, 37}, -infinite), nans = torch::full({19, 37}, not_a_number);
  for (int i = 0; i < 19; ++i) odd[i][i * 5 % 37] = i % 3 == 0 ? not_a_number : i % 3 == 1 ? infinite : -infinite;
  odd[4][9] = not_a_number;
  odd[4][11] = not_a_number;
  check(f, {few}, {.more = {{odd}, {low}, {nans}, {torch::zeros({19, 37})}, {few.t().contiguous().t()}}});
}

// --- integers --------------------------------------------------------------------------------------------------------

Tensors functions_of_integers(const Tensor& n, const Tensor& k, const Tensor& m, const Tensor& x) {
  const Tensor rows = torch::arange(n.size(0), n.options()).unsqueeze(1);
  return {n + 1,
          n - k,
          3 - n,
          torch::add(n, k, 2),
          torch::rsub(n, k, -3),
          n * k,
          -n,
          n.abs(),
          n.square(),
          n.pow(3),
          n.sign(),
          n.relu(),
          n + m,
          m * n,
          m + 2,
          n.floor_divide(3),
          torch::floor_divide(n, -4),
          n.remainder(5),
          n % -3,
          n.fmod(4),
          n.fmod(-7),
          n.remainder(-1),
          n.floor_divide(-1),
          torch::maximum(n, k),
          torch::minimum(n, k),
          n.clamp(-2, 2),
          n.clamp_min(0),
          n.clamp_max(1) + k,
          torch::clamp(n, k, k + 3),
          n > k,
          n >= 1,
          n<k + 1, n <= -1, n == k, n != 2, n> 0.5,
          n < x,
          n.flip({1}),
          n.flip({0, 1}) + k,
          n.flip({0}).sum(0),
          m.flip({1}),
          (n > 0).flip({0}) & m,
          m.t().flip({1}),
          torch::where(m, n > 1, n < k),
          torch::where(n > k, m, m.logical_not()).flip({0}),
          torch::where(m, n > 1, true),
          torch::where(n > 0, false, m),
          torch::where(n.select(1, 0).unsqueeze(1) > 0, m, x > 0),
          torch::where(torch::where(m, n > 1, n < k), torch::where(n > 0, x > 0, m), m ^ (k > 0)),
          torch::where(torch::where(m, n > 1, n < k), x, -x),
          torch::where(m, n > 1, n < k).any(1),
          torch::where(m, n > 1, n < k).all(1),
          torch::where(m, n > 1, n < k).sum(1),
          m.masked_fill(n > 1, true),
          m.masked_fill(n > 1, 0),
          (n > k).masked_fill(m, (n > 2)[0][0]),
          torch::bitwise_and(n > 1, m),
          torch::bitwise_or(n > 1, m) | (x > 1),
          torch::bitwise_xor(n > 1, m),
          torch::bitwise_not(m),
          torch::bitwise_and(m, true),
          torch::bitwise_or(n > 1, true),
          torch::bitwise_xor(m, true),
          m.to(torch::kLong).masked_fill(m, 3),
          m == (n > 1),
          m != m.logical_not(),
          (n > 1) & m,
          n.logical_not(),
          torch::logical_and(n, x),
          torch::logical_xor(x > 0, n),
          torch::where(m, n, k * 2),
          torch::where(n > k, n, 7),
          torch::where(m, x, n),
          n.masked_fill(m, -9),
          n.masked_fill(n == 2, 1) + rows,
          n.to(x.scalar_type()) * 0.5,
          n + 0.5,
          n * x,
          n / k.abs().clamp_min(1),
          n.exp(),
          (n * 2).to(x.scalar_type()),
          (x * 5).to(torch::kLong),
          (x * 5).to(torch::kLong) + n,
          x.to(torch::kBool),
          n.to(torch::kBool),
          m.to(torch::kLong),
          (n > 0).to(torch::kLong) * 2,
          n.t() + k.t(),
          (n * 2).t().contiguous(),
          n.t().reshape({-1}),
          m.t().reshape({-1}),
          torch::cat({n, k + 1, n}, 1),
          torch::cat({n.t(), k.t()}, 0),
          torch::cat({m, n > 0}, 0),
          torch::stack({n, k}, 1),
          torch::constant_pad_nd(n, {1, 2}, -1),
          torch::constant_pad_nd(m, {1, 0, 0, 1}, true),
          torch::roll(n, {2}, {1}),
          torch::select_scatter(n, k.select(1, 0), 1, 2),
          torch::slice_scatter(n, k.slice(1, 0, 2), 1, 1, 3),
          torch::zeros_like(n) + k,
          torch::full({3}, 5, n.options()) * 2,
          torch::ones_like(m),
          n.new_full({2}, std::numeric_limits<std::int64_t>::min()),
          n.sum(),
          n.sum(0),
          n.sum({1}, true),
          m.sum(),
          m.sum(1) + 1,
          n.prod(1),
          n.max(),
          n.min(),
          n.amax({0}),
          std::get<0>(n.max(1)),
          std::get<1>(n.max(1)),
          std::get<1>(n.min(0)),
          n.argmax(1),
          n.argmin(0),
          n.argmax(),
          n.any(),
          n.all(1),
          m.any(0),
          m.all(),
          n.any(0, true),
          n.cumsum(1),
          n.cumsum(0),
          m.cumsum(1),
          m.to(torch::kLong).cumsum(-1) - 1,
          (m.cumsum(1) * m).to(torch::kLong) + 1,
          n.softmax(1, x.scalar_type())};
}
TEST_CASE("integers: arithmetic, comparisons, choices, conversions, copies, sums, over sizes and strides") {
  torch::manual_seed(33);
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{{5, 19}, {3, 4}, {2, 33}}) {
    const auto make = [&] {
      return Tensors{torch::randint(-9, 10, sizes), torch::randint(-9, 10, sizes), torch::rand(sizes) > 0.5,
                     torch::randn(sizes)};
    };
    const Tensors in = make();
    Tensors turned = make(), sliced = make(), large = make();
    for (Tensor& t : turned) t = transposed_copy(t);
    for (Tensor& t : sliced) t = sliced_copy(t);
    large[0] = large[0] * (std::int64_t(1) << 40) + 1;
    large[0][0][1] = std::numeric_limits<std::int64_t>::min();
    large[0][1][2] = std::numeric_limits<std::int64_t>::max();
    const Forward f = [](const Tensors& in) { return all_of(functions_of_integers(in[0], in[1], in[2], in[3])); };
    check(f, in, {.called_back = {"aten::softmax.int"}, .more = {turned, sliced}});
    if (sizes[0] == 5) check(f, turned, {.called_back = {"aten::softmax.int"}});
    // What integers alone give is exact.
    const Forward exact = [](const Tensors& in) {
      Tensors results;
      for (const Tensor& t : functions_of_integers(in[0], in[1], in[2], in[3]))
        if (!t.is_floating_point()) results.push_back(t);
      return all_of(results);
    };
    check(exact, in, {.more = {large}});
  }
}

// --- images --------------------------------------------------------------------------------------------------------

TEST_CASE(
    "convolutions: strides, dilations, groups, sizes of kernels, padding of each side, channels that fill no vector") {
  torch::manual_seed(9);
  struct Case {
    std::int64_t channels, out, groups;
    std::array<std::int64_t, 2> kernel, stride, padding, dilation;
    bool bias;
  };
  const std::vector<Case> cases = {
      {3, 17, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},    {17, 33, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {17, 33, 1, {3, 3}, {1, 1}, {0, 0}, {1, 1}, true},   {33, 17, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, true},
      {33, 1, 1, {1, 1}, {2, 1}, {0, 0}, {1, 1}, false},   {1, 3, 1, {5, 2}, {2, 3}, {2, 1}, {1, 1}, true},
      {3, 16, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true},    {17, 17, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},
      {33, 33, 33, {5, 3}, {2, 1}, {2, 0}, {1, 2}, false}, {6, 9, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},
      {34, 68, 2, {3, 3}, {1, 2}, {1, 0}, {2, 1}, true},   {3, 6, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},
      {16, 32, 1, {3, 3}, {1, 1}, {2, 0}, {2, 3}, true},   {16, 16, 1, {3, 3}, {1, 1}, {2, 2}, {1, 1}, true},
      {1, 1, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},     {33, 33, 1, {1, 3}, {1, 1}, {0, 1}, {1, 1}, true},
      {32, 16, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},   {5, 7, 1, {9, 11}, {1, 1}, {0, 0}, {1, 1}, true}};
  for (const std::array<std::int64_t, 3>& size :
       std::vector<std::array<std::int64_t, 3>>{{3, 13, 11}, {1, 9, 14}, {1, 24, 23}}) {
    CAPTURE(size[1]);
    auto net = std::make_shared<Net>();
    std::vector<std::array<Tensor, 2>> weights;
    Tensors inputs;
    for (const Case& c : cases) {
      weights.push_back({net->parameter({c.out, c.channels / c.groups, c.kernel[0], c.kernel[1]}, 0.2),
                         c.bias ? net->parameter({c.out}) : Tensor()});
      inputs.push_back(torch::randn({size[0], c.channels, size[1], size[2]}));
    }
    net->function = [=](const Tensors& in) {
      Tensors results;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case& c = cases[i];
        results.push_back(
            torch::conv2d(in[i], weights[i][0], weights[i][1], c.stride, c.padding, c.dilation, c.groups));
        if (i % 3 == 0) results.back() = results.back().relu();
        if (i % 4 == 1) results.push_back(results.back() > 0);
      }
      return all_of(results);
    };
    Tensors last, cut;
    for (const Tensor& t : inputs) {
      last.push_back(t.contiguous(at::MemoryFormat::ChannelsLast));
      cut.push_back(sliced_copy(t));
    }
    check(*net, inputs, {.more = {last, cut}});
    if (size[0] == 3) check(*net, last, {.more = {inputs}});
  }
}

TEST_CASE("convolutions of sequences: lengths, strides, dilations, groups, padding, however they lie") {
  torch::manual_seed(36);
  struct Case {
    std::int64_t channels, out, groups, kernel, stride, padding, dilation;
    bool bias, transposed;
    std::int64_t more = 0;
  };
  const std::vector<Case> cases = {{3, 17, 1, 3, 1, 1, 1, true, false},   {17, 33, 1, 3, 1, 1, 1, false, false},
                                   {33, 17, 1, 1, 1, 0, 1, true, false},  {33, 1, 1, 1, 2, 0, 1, false, false},
                                   {1, 5, 1, 7, 3, 2, 1, true, false},    {16, 32, 1, 3, 1, 4, 4, true, false},
                                   {17, 17, 17, 5, 1, 2, 1, true, false}, {33, 33, 33, 3, 2, 3, 3, false, false},
                                   {6, 9, 3, 3, 1, 1, 1, true, false},    {34, 68, 2, 2, 2, 1, 1, true, false},
                                   {5, 10, 5, 3, 1, 1, 1, true, false},   {8, 8, 1, 11, 1, 5, 1, true, false},
                                   {32, 16, 1, 1, 1, 2, 1, true, false},  {3, 17, 1, 3, 1, 1, 1, true, true},
                                   {17, 5, 1, 4, 2, 1, 1, false, true},   {33, 16, 1, 2, 2, 0, 1, true, true},
                                   {16, 1, 1, 5, 3, 2, 1, true, true, 2}, {7, 7, 1, 3, 4, 0, 2, false, true}};
  for (const std::array<std::int64_t, 2>& size : std::vector<std::array<std::int64_t, 2>>{{3, 19}, {1, 40}}) {
    CAPTURE(size[1]);
    auto net = std::make_shared<Net>();
    std::vector<std::array<Tensor, 2>> weights;
    Tensors inputs;
    for (const Case& c : cases) {
      const std::int64_t n = c.transposed ? c.channels : c.out, k = c.transposed ? c.out : c.channels / c.groups;
      weights.push_back({net->parameter({n, k, c.kernel}, 0.2), c.bias ? net->parameter({c.out}) : Tensor()});
      inputs.push_back(torch::randn({size[0], c.channels, size[1]}));
    }
    net->function = [=](const Tensors& in) {
      Tensors results;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case& c = cases[i];
        const auto& [w, b] = weights[i];
        results.push_back(c.transposed
                              ? torch::conv_transpose1d(in[i], w, b, c.stride, c.padding, c.more, c.groups, c.dilation)
                              : torch::conv1d(in[i], w, b, c.stride, c.padding, c.dilation, c.groups));
        if (i % 3 == 0) results.back() = results.back().relu();
        if (i % 4 == 1) results.push_back(results.back() > 0);
      }
      return all_of(results);
    };
    Tensors turned, cut;
    for (const Tensor& t : inputs) {
      turned.push_back(t.transpose(1, 2).contiguous().transpose(1, 2));
      cut.push_back(sliced_copy(t));
    }
    check(*net, inputs, {.more = {turned, cut}});
    if (size[0] == 3) check(*net, turned, {.more = {inputs}});
  }
}

TEST_CASE(
    "sequences together: residuals, parts of a cat, norms, means, tokens; of one element; padding that is named") {
  torch::manual_seed(37);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({17, 3, 3}, 0.3), b = net->parameter({17}), w2 = net->parameter({17, 17, 3}, 0.1),
               w4 = net->parameter({6, 17, 4}, 0.1), w1 = net->parameter({33, 17, 1}, 0.2),
               up = net->parameter({17, 8, 2}, 0.2), wcat = net->parameter({16, 25, 3}, 0.1),
               depth = net->parameter({17, 1, 5}, 0.3), g = net->parameter({17}), lin = net->parameter({9, 17}, 0.3),
               square = net->parameter({17, 17, 3, 3}, 0.1), row = net->parameter({17, 3, 1, 1}, 0.3);
  net->function = [=](const Tensors& in) {
    const Tensor& x = in[0];  // [2, 3, 26]
    const Tensor a = torch::conv1d(x, w, b, 1, 1).relu();
    const Tensor c = torch::conv1d(a, w2, b, 1, 2, 2) + a;
    const Tensor d = (c + torch::conv1d(c, w2, {}, 1, 1)).relu();
    const Tensor low = torch::conv1d(torch::max_pool1d(d, 2), w2, b, 1, 1).relu();
    const Tensor again = torch::conv_transpose1d(low, up, {}, 2);
    const Tensor joined = torch::cat({d, again}, 1);
    const Tensor narrow = torch::conv1d(torch::conv1d(a, w2, b), w1, {}, 30);  // [2, 33, 1]
    const Tensor tokens = torch::layer_norm(torch::conv1d(d, w2, b, 1, 1).transpose(1, 2), {17}, g, b);
    const Tensor line = torch::conv2d(x.slice(2, 0, 11).unsqueeze(2), row).relu();    // [2, 17, 1, 11]
    const Tensor column = torch::conv2d(x.slice(2, 0, 11).unsqueeze(3), row).relu();  // [2, 17, 11, 1]
    const Tensor one_line = line.slice(0, 0, 1), one_column = column.slice(0, 1, 2);
    const Tensor image = torch::conv2d(torch::conv2d(x.reshape({2, 3, 2, 13}), row), square, b, 1, 1);
    Tensors results = {
        a, c, d, d, low, again, joined, torch::conv1d(joined, wcat, {}, 1, 1).relu(), narrow,
        narrow.sigmoid() * torch::conv1d(a, w1), torch::conv1d(d, w4, {}, 1, 1), torch::conv1d(d, w2, b, 2),
        torch::conv1d(d, depth, b, 1, 2, 1, 17) + d,
        torch::conv1d(torch::silu(torch::conv1d(d, depth, {}, 1, 8, 4, 17)), w1), torch::cat({a, d}, 0),
        torch::cat({a, c}, 2), torch::stack({a, d}, 1), torch::conv1d(torch::cat({a, c}, 2), w2, b, 1, 1),
        torch::conv1d(torch::cat({a.slice(1, 0, 3), d.slice(1, 3, 17)}, 1), w2, b, 1, 1), d.mean(2), d.mean(-1, true),
        d.mean(1), d.sum(-1), d.amax({2}), d.softmax(1), d.softmax(2),
        d * torch::sigmoid(torch::adaptive_avg_pool1d(d, 1)),
        torch::batch_norm(torch::conv1d(a, w2), g, b, b, g.abs() + 1, false, 0.1, 1e-5, false).relu(),
        torch::batch_norm(d, g, b, b, g.abs() + 1, false, 0.1, 1e-5, false),
        torch::group_norm(torch::conv1d(a, w2), 17, g, b), torch::group_norm(d, 1, g, b).relu(),
        torch::conv1d(torch::group_norm(d, 1, g, b), w2, b, 1, 1), tokens, torch::linear(tokens, lin),
        torch::conv1d(tokens.transpose(1, 2), w2, b, 1, 1), d.transpose(1, 2).matmul(d), d.flatten(1).tanh(),
        d.unsqueeze(2) + 1, d.permute({2, 0, 1}) * 2, d.select(2, 3), d.slice(2, 1, 20, 3) + 1,
        torch::conv1d(d.slice(2, 1, 9), w2, {}, 1, 1), torch::conv1d(d.flip({2}), w2, b, 1, 1),
        torch::conv1d(torch::roll(d, {2}, {2}), w2, b, 1, 1), torch::conv1d(torch::constant_pad_nd(d, {2, 0}), w2),
        torch::conv1d(torch::reflection_pad1d(d, {3, 1}), w2, {}, 2),
        torch::conv1d(torch::replication_pad1d(x, {2, 5}), w),
        torch::conv1d(x.slice(0, 1, 2).slice(2, 3, 14), w, b, 1, 1), torch::conv1d(in[1].expand_as(x), w, b, 1, 1),
        torch::conv1d(d.slice(0, 0, 1).expand({3, 17, 26}), w2, b, 1, 1),
        torch::conv1d(low.slice(2, 0, 1).relu(), w2, b, 1, 1), torch::conv1d(image.flatten(2), w2, b, 1, 1),
        torch::conv1d(image.flatten(2), w1), torch::conv1d(image.select(2, 1), w2, b, 1, 1),
        torch::conv1d(line.select(2, 0), w2, b, 1, 1), torch::conv1d(column.select(3, 0).tanh(), w2, b, 1, 1),
        torch::conv2d(d.unsqueeze(2), square, b, 1, 1),
        // One row, one column or one image, read with strides of 0.
        torch::conv2d(line.expand({2, 17, 1, 11}), square, b, 1, 1),
        torch::conv2d(column.expand({2, 17, 11, 1}), square, b, 1, 1),
        torch::conv2d(image.slice(0, 1, 2).expand({3, 17, 2, 13}), square, b, 1, 1),
        torch::max_pool2d(image.slice(0, 1, 2).expand({3, 17, 2, 13}), 2),
        torch::conv2d(one_line.expand({2, 17, 1, 11}), square, b, 1, 1),
        torch::conv2d(one_column.expand({3, 17, 11, 1}), square, {}, 1, 1),
        F::conv1d(d, w4, F::Conv1dFuncOptions().padding(torch::kSame)),
        F::conv1d(d, w2, F::Conv1dFuncOptions().padding(torch::kSame).dilation(3).bias(b)).relu(),
        F::conv1d(d, w4, F::Conv1dFuncOptions().padding(torch::kValid)),
        F::conv2d(image, square.slice(3, 0, 2), F::Conv2dFuncOptions().padding(torch::kSame).dilation({2, 1})), d > c,
        torch::where(d > c, d, c)};
    return all_of(results);
  };
  const Tensor x = torch::randn({2, 3, 26}), y = torch::randn({2, 1, 1});
  check(*net, {x, y}, {.tolerance = 2e-5, .more = {{x.transpose(1, 2).contiguous().transpose(1, 2), y}}});
  check(
      [](const Tensors& in) {
        return all_of({torch::conv1d(in[0], in[1]), torch::conv1d(in[0][0], in[1]),
                       torch::conv_transpose1d(in[0], torch::ones({4, 2, 3}, in[0].options()), {}, 1, 0, 0, 2)});
      },
      {torch::randn({2, 4, 9}), torch::randn({3, 4, 2})}, {.called_back = {"aten::conv1d", "aten::conv_transpose1d"}});
}

TEST_CASE("products and convolutions of single channels by rows: strides, dilations, padding, batches, residuals") {
  torch::manual_seed(12);
  struct Case {
    std::int64_t batch, channels, wide, out, height, width;
    std::array<std::int64_t, 2> kernel, stride, padding, dilation;
    bool residual;
  };
  // Wide enough that rows are worth it: more than a megabyte between the kernels, before and behind the filter.
  const std::vector<Case> cases = {{1, 5, 33, 5, 97, 101, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},
                                   {3, 16, 100, 24, 61, 37, {5, 5}, {1, 1}, {2, 2}, {1, 1}, false},
                                   {2, 3, 130, 7, 83, 101, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
                                   {1, 24, 64, 24, 71, 89, {3, 2}, {1, 1}, {0, 3}, {2, 3}, false},
                                   {1, 8, 128, 1, 131, 40, {7, 1}, {1, 3}, {3, 0}, {1, 1}, false},
                                   {1, 12, 100, 12, 66, 50, {1, 5}, {1, 1}, {0, 1}, {1, 1}, false},
                                   {2, 9, 96, 9, 39, 42, {1, 3}, {2, 3}, {0, 3}, {2, 3}, false}};
  for (const Case& c : cases) {
    CAPTURE(c.wide);
    auto net = std::make_shared<Net>();
    const std::array<Tensor, 6> p = {net->parameter({c.wide, c.channels, 1, 1}, 0.3),
                                     net->parameter({c.wide}),
                                     net->parameter({c.wide, 1, c.kernel[0], c.kernel[1]}, 0.3),
                                     net->parameter({c.wide}),
                                     net->parameter({c.out, c.wide, 1, 1}, 0.1),
                                     net->parameter({c.out})};
    net->function = [=](const Tensors& in) -> c10::IValue {
      const Tensor expanded = torch::relu6(torch::conv2d(in[0], p[0], p[1]));
      const Tensor filtered = torch::silu(torch::conv2d(expanded, p[2], p[3], c.stride, c.padding, c.dilation, c.wide));
      const Tensor projected = torch::conv2d(filtered, p[4], p[5]);
      return c.residual ? projected + in[0] : projected;
    };
    Tensor x = torch::randn({c.batch, c.channels, c.height, c.width});
    const auto compiled = check(*net, {x}, {.more = {{x.contiguous(at::MemoryFormat::ChannelsLast)}}});
    int blocks = 0;
    for (const KernelStep& step : compiled->kernel_plan().steps)
      blocks += std::holds_alternative<plans::DepthwiseBlock>(step.kernel);
    CHECK(blocks == 1);
    // What is not a number stays one, and only where a window reaches it.
    x[0][0][c.height / 2][c.width / 2] = NAN;
    const torch::NoGradGuard no_grad;
    const Tensor given = compiled->run(boxed({x})).toTensor(), wanted = net->function({x}).toTensor();
    CHECK(torch::equal(given.isnan(), wanted.isnan()));
  }
}

TEST_CASE("transposed convolutions") {
  torch::manual_seed(10);
  struct Case {
    std::int64_t channels, out;
    std::array<std::int64_t, 2> kernel, stride, padding, more, dilation;
    bool bias;
  };
  const std::vector<Case> cases = {
      {3, 17, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, true},  {17, 5, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, false},
      {33, 16, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, true}, {16, 1, {3, 5}, {2, 3}, {1, 2}, {1, 2}, {1, 1}, true},
      {1, 3, {3, 3}, {3, 2}, {0, 1}, {2, 0}, {2, 1}, true},   {7, 7, {2, 3}, {3, 4}, {0, 0}, {0, 0}, {1, 2}, false},
      {16, 16, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, true}};
  for (const std::int64_t batch : {3, 1}) {
    auto net = std::make_shared<Net>();
    std::vector<std::array<Tensor, 2>> weights;
    Tensors inputs;
    for (const Case& c : cases) {
      weights.push_back({net->parameter({c.channels, c.out, c.kernel[0], c.kernel[1]}, 0.3),
                         c.bias ? net->parameter({c.out}) : Tensor()});
      inputs.push_back(torch::randn({batch, c.channels, 5, 7}));
    }
    net->function = [=](const Tensors& in) {
      Tensors results;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case& c = cases[i];
        results.push_back(
            torch::conv_transpose2d(in[i], weights[i][0], weights[i][1], c.stride, c.padding, c.more, 1, c.dilation)
                .tanh());
      }
      return all_of(results);
    };
    check(*net, inputs);
  }
}

TEST_CASE(
    "images together: skips, residuals in both orders, two convolutions with other padding, used again, returned "
    "twice") {
  torch::manual_seed(11);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({17, 3, 3, 3}, 0.3), b = net->parameter({17}),
               w2 = net->parameter({17, 17, 3, 3}, 0.1), w5 = net->parameter({6, 17, 5, 5}, 0.1),
               w1 = net->parameter({33, 17, 1, 1}, 0.2), up = net->parameter({17, 8, 2, 2}, 0.2),
               wcat = net->parameter({16, 25, 3, 3}, 0.1), depth = net->parameter({17, 1, 3, 3}, 0.3),
               g = net->parameter({17}), s = net->parameter({17, 17, 1, 1}, 0.2);
  net->function = [=](const Tensors& in) {
    const Tensor& x = in[0];
    const Tensor a = torch::conv2d(x, w, b, 1, 1).relu();
    const Tensor c = torch::conv2d(a, w2, b, 1, 1) + a;
    const Tensor d = (c + torch::conv2d(c, w2, {}, 1, 1)).relu();
    const Tensor e = torch::conv2d(d, w5, {}, 1, 2), e0 = torch::conv2d(d, w5), e3 = torch::conv2d(d, w2, b, 2, 1),
                 e4 = torch::conv2d(d, w2, b);
    const Tensor pooled = torch::max_pool2d(d, {2, 2});
    const Tensor low = torch::conv2d(pooled, w2, b, 1, 1).relu();
    const Tensor again = torch::conv_transpose2d(low, up, {}, 2);
    const Tensor joined = torch::cat({d.slice(2, 0, again.size(2)).slice(3, 0, again.size(3)), again}, 1);
    const Tensor out = torch::conv2d(joined, wcat, {}, 1, 1).relu();
    const Tensor dense = torch::cat({a, torch::conv2d(a, w2, b, 1, 1)}, 1);
    const Tensor denser = torch::cat({dense, dense.slice(1, 0, 3).sigmoid()}, 1);
    const Tensor squeezed = d * torch::sigmoid(torch::conv2d(torch::adaptive_avg_pool2d(d, {1, 1}), s));
    const Tensor two = torch::conv2d(x, w, b, 1, 1) * torch::conv2d(x, w, {}, 1, 1);
    const Tensor normal = torch::group_norm(d, 17, g, b),
                 norm1 = torch::group_norm(torch::conv2d(a, s), 1, g, b).relu();
    const Tensor deep = torch::conv2d(d, depth, b, 1, 1, 1, 17) + d;
    return all_of({a,
                   c,
                   d,
                   d,
                   e,
                   e0,
                   e3,
                   e4,
                   pooled,
                   low,
                   again,
                   joined,
                   out,
                   x,
                   dense,
                   denser,
                   squeezed,
                   two,
                   normal,
                   norm1,
                   deep,
                   torch::conv2d(denser.slice(1, 2, 19), w2, b, 1, 1),
                   torch::stack({a, d}, 0),
                   torch::stack({a, d}, 2),
                   torch::cat({a, d}, 0),
                   torch::cat({a, c}, 2),
                   torch::cat({a, d}, 3),
                   d.mean({2, 3}),
                   d.mean({2, 3}, true),
                   d.mean({1}),
                   d.mean({-1, -2}),
                   d.flatten(2).transpose(1, 2),
                   d.permute({0, 2, 3, 1}).sum(-1),
                   d.flatten(1).softmax(-1),
                   torch::linear(d.flatten(2).transpose(1, 2), w[0].reshape({27, 1}).slice(0, 0, 17).t()),
                   d.sum({1}),
                   d.amax({1}),
                   d.softmax(1),
                   d > c,
                   (d > 0.5).logical_and(c > 0.2),
                   torch::layer_norm(d.permute({0, 2, 3, 1}), {17}, g, b).permute({0, 3, 1, 2}),
                   torch::conv2d(d, w1).masked_fill((d.slice(1, 0, 1) > 1), 0),
                   torch::conv2d(in[1].expand_as(x), w, b, 1, 1),
                   torch::conv2d(x.transpose(2, 3), w, b, 1, 1),
                   torch::conv2d(x.slice(0, 1, 2).slice(2, 3, 10), w, b, 1, 1),
                   torch::conv2d(d.transpose(2, 3), w2, b, 1, 1),
                   torch::conv2d(torch::roll(d, {2, 3}, {2, 3}), w2, b, 1, 1),
                   torch::conv2d(torch::constant_pad_nd(d, {1, 0, 2, 1}), w2),
                   torch::conv2d(d.slice(2, 1, 9), w2, {}, 1, 1),
                   torch::batch_norm(d, g, b, b, g.abs() + 1, false, 0.1, 1e-5, false),
                   d.unsqueeze(1).expand({2, 2, 17, 13, 11}).reshape({4, 17, 13, 11}) + 1});
  };
  const Tensor x = torch::randn({2, 3, 13, 11}), y = torch::randn({2, 1, 1, 1});
  check(*net, {x, y}, {.tolerance = 2e-5, .more = {{x.contiguous(at::MemoryFormat::ChannelsLast), y}}});
}

TEST_CASE("pooling and images of other sizes") {
  torch::manual_seed(12);
  for (const std::int64_t channels : {5, 33, 1}) {
    auto net = std::make_shared<Net>();
    const Tensor w = net->parameter({channels, channels, 3, 3}, 0.2);
    net->function = [=](const Tensors& in) {
      const Tensor &x = in[0], y = torch::conv2d(x, w, {}, 1, 1);
      Tensors results;
      for (const Tensor& image : {x, y}) {
        for (const Tensor& t :
             {torch::max_pool2d(image, {3, 2}, {2, 1}, {1, 1}),
              torch::max_pool2d(image, {2, 2}, {2, 2}, {0, 0}, {2, 1}),
              torch::max_pool2d(image, 3, 2, 0, 1, true),
              torch::max_pool2d(image, {12, 10}),
              torch::avg_pool2d(image, 2),
              torch::avg_pool2d(image, {3, 2}, {1, 2}, {1, 0}),
              torch::avg_pool2d(image, 3, 2, 1, false, false),
              torch::avg_pool2d(image, {12, 10}),
              torch::adaptive_avg_pool2d(image, {1, 1}),
              torch::adaptive_avg_pool2d(image, {3, 5}),
              torch::adaptive_avg_pool2d(image, {12, 1}),
              torch::upsample_nearest2d(image, {24, 20}),
              torch::upsample_nearest2d(image, {7, 31}),
              torch::upsample_bilinear2d(image, {19, 15}, false),
              torch::upsample_bilinear2d(image, {24, 20}, true),
              torch::upsample_bilinear2d(image, {5, 3}, true),
              torch::upsample_bilinear2d(image, {1, 1}, true),
              torch::_upsample_nearest_exact2d(image, {17, 9}),
              F::interpolate(
                  image, F::InterpolateFuncOptions().scale_factor(std::vector<double>{1.7, 2.3}).mode(torch::kNearest)),
              F::interpolate(image, F::InterpolateFuncOptions()
                                        .scale_factor(std::vector<double>{1.5, 0.6})
                                        .mode(torch::kBilinear)
                                        .align_corners(false))})
          results.push_back(t);
      }
      return all_of(results);
    };
    check(*net, {torch::randn({2, channels, 12, 10})});
  }
  check(
      [](const Tensors& in) {
        return all_of({torch::avg_pool2d(in[0], 3, 2, 0, true),
                       torch::avg_pool2d(in[0], {2, 2}, {2, 2}, 0, false, true, 3),
                       torch::adaptive_avg_pool2d(in[0], {5, 3}), torch::max_pool2d(in[0][0], {2, 2})});
      },
      {torch::randn({2, 3, 12, 10})});
}

TEST_CASE("pooling of sequences, and sequences of another length") {
  torch::manual_seed(38);
  for (const std::int64_t channels : {5, 33, 1}) {
    auto net = std::make_shared<Net>();
    const Tensor w = net->parameter({channels, channels, 3}, 0.2);
    net->function = [=](const Tensors& in) {
      const Tensor &x = in[0], y = torch::conv1d(x, w, {}, 1, 1);
      Tensors results;
      for (const Tensor& line : {x, y}) {
        for (const Tensor& t :
             {torch::max_pool1d(line, 3, 2, 1),
              torch::max_pool1d(line, 2, 2, 0, 3),
              torch::max_pool1d(line, 4, 3, 0, 1, true),
              torch::max_pool1d(line, 24),
              torch::avg_pool1d(line, 2),
              torch::avg_pool1d(line, 5, 1, 2),
              torch::avg_pool1d(line, 3, 2, 1, false, false),
              torch::avg_pool1d(line, 24),
              torch::adaptive_avg_pool1d(line, 1),
              torch::adaptive_avg_pool1d(line, 8),
              std::get<0>(torch::adaptive_max_pool1d(line, 1)),
              std::get<0>(torch::adaptive_max_pool1d(line, 6)).relu(),
              torch::upsample_nearest1d(line, {48}),
              torch::upsample_nearest1d(line, {31}),
              torch::_upsample_nearest_exact1d(line, {17}),
              torch::upsample_linear1d(line, {19}, false),
              torch::upsample_linear1d(line, {48}, true),
              torch::upsample_linear1d(line, {1}, true),
              F::interpolate(line,
                             F::InterpolateFuncOptions().scale_factor(std::vector<double>{1.7}).mode(torch::kNearest)),
              F::interpolate(line, F::InterpolateFuncOptions()
                                       .scale_factor(std::vector<double>{0.6})
                                       .mode(torch::kLinear)
                                       .align_corners(false))})
          results.push_back(t);
      }
      results.push_back(std::get<0>(torch::adaptive_max_pool2d(x.unsqueeze(2).expand({2, channels, 4, 24}), {2, 3})));
      return all_of(results);
    };
    check(*net, {torch::randn({2, channels, 24})});
  }
  // Long rows: means whose sums do not swallow what is added last.
  check(
      [](const Tensors& in) {
        const Tensor& x = in[0];
        return all_of({torch::adaptive_avg_pool1d(x, 1), torch::max_pool1d(x, 7, 7).mean(-1)});
      },
      {torch::rand({1, 3, 100000}) + 1}, {.tolerance = 3e-6});
  check(
      [](const Tensors& in) {
        const auto [largest, places] = torch::adaptive_max_pool1d(in[0], 4);
        return all_of({torch::avg_pool1d(in[0], 3, 2, 0, true), torch::adaptive_avg_pool1d(in[0], 5), largest, places,
                       std::get<0>(torch::adaptive_max_pool1d(in[0], 5)), torch::max_pool1d(in[0][0], 2)});
      },
      {torch::randn({2, 3, 12})},
      {.called_back = {"aten::adaptive_max_pool1d"}});  // whose places are asked for
}

// --- attention, tables, recurrence ---------------------------------------------------------------------------------------

TEST_CASE(
    "attention: masks of numbers and of truth values, causal, other lengths, grouped heads, heads of a projection") {
  torch::manual_seed(13);
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                         bool causal = false, std::optional<double> scale = {}, bool grouped = false) {
    return at::scaled_dot_product_attention(q, k, v, mask.defined() ? std::optional<Tensor>(mask) : std::nullopt, 0,
                                            causal, scale, grouped);
  };
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({3 * 24, 24}, 0.3), wo = net->parameter({24, 24}, 0.3);
  net->function = [=](const Tensors& in) {
    const Tensor &q = in[0], &k = in[1], &v = in[2], &bias = in[3], &mask = in[4], &tokens = in[5];
    const Tensor qkv = torch::linear(tokens, w);
    const auto heads = [&](std::int64_t i) {
      return qkv.slice(-1, 24 * i, 24 * i + 24).view({2, 11, 3, 8}).transpose(1, 2);
    };
    const Tensor self = attend(heads(0), heads(1), heads(2), {}, true);
    return all_of({attend(q, k, v),
                   attend(q, k, v, bias),
                   attend(q, k, v, mask),
                   attend(q, k, v, bias[0][0]),
                   attend(q, k, v, mask.select(1, 0).unsqueeze(1)),
                   attend(q, q, q, {}, true),
                   attend(q, k, v, {}, false, 0.3) + 1,
                   attend(q, k.slice(1, 0, 2), v.slice(1, 0, 2), {}, false, {}, true),
                   attend(q, k.slice(0, 0, 1), v.slice(0, 0, 1)),
                   self,
                   torch::linear(self.transpose(1, 2).reshape({2, 11, 24}), wo) + tokens,
                   attend(q[0], k[0], v[0]),
                   attend(q[0][0], k[0][0], v[0][0]),
                   attend(k, q, q, bias.transpose(-1, -2)),
                   attend(q.transpose(-1, -2).contiguous().transpose(-1, -2), k, v),
                   attend(q, k, v, mask.slice(2, 0, 1)),
                   attend(q, k, v, (bias > 0).logical_and(mask)),
                   attend(q, k, v, bias * 2 - 1),
                   attend(q, k, v, bias.slice(-1, 0, 1)),
                   (q.matmul(k.transpose(-1, -2)) / std::sqrt(5.)).softmax(-1).matmul(v)});
  };
  Tensor mask = torch::rand({2, 4, 7, 13}) > 0.4;
  mask.select(-1, 3).fill_(true);
  const Tensor q = torch::randn({2, 4, 7, 5}), k = torch::randn({2, 4, 13, 5}), v = torch::randn({2, 4, 13, 6});
  check(*net, {q, k, v, torch::randn({2, 4, 7, 13}), mask, torch::randn({2, 11, 24})},
        {.more = {{transposed_copy(q), sliced_copy(k), v, torch::randn({2, 4, 7, 13}), transposed_copy(mask),
                   torch::randn({2, 11, 24})}}});
}
TEST_CASE("rows that attend to nothing are as LibTorch has them") {
  torch::manual_seed(14);
  Tensor mask = torch::ones({5, 6}, torch::kBool);
  mask[2].fill_(false);
  const Tensors in{torch::randn({3, 6, 4}), mask};
  const auto f = net_of([](const Tensors& in) {
    return all_of({at::scaled_dot_product_attention(in[0].slice(1, 0, 5), in[0], in[0], in[1])});
  });
  check(*f, in);
}

TEST_CASE("rows of tables, and an index that is none: one error, and the module works afterwards") {
  torch::manual_seed(15);
  auto net = std::make_shared<Net>();
  const Tensor table = net->parameter({11, 17}), thin = net->parameter({5, 1}), places = net->parameter({7, 17}),
               g = net->parameter({17}), b = net->parameter({17}), w = net->parameter({8, 17});
  net->function = [=](const Tensors& in) {
    const Tensor &ids = in[0], &few = in[1];  // [3, 7], [4]
    const Tensor e = torch::embedding(table, ids);
    return all_of({e,
                   torch::embedding(table, ids) + places,
                   torch::layer_norm(torch::embedding(table, ids) + places, {17}, g, b),
                   torch::embedding(thin, few),
                   torch::embedding(thin, few.view({2, 2})) * 2,
                   torch::embedding(table, few).t(),
                   torch::embedding(table, few).softmax(0),
                   torch::embedding(table, few).softmax(1),
                   torch::embedding(table, few).sum(0),
                   torch::embedding(table, few).sum(1),
                   torch::linear(torch::embedding(table, ids), w),
                   torch::embedding(table, few) +
                       torch::linear(e[0].slice(0, 0, 4), table.slice(0, 0, 1).t().matmul(table.slice(0, 1, 2))),
                   torch::embedding(table, few) * in[2].t(),
                   in[2].t() + torch::embedding(table, few),
                   torch::cat({torch::embedding(table, few), torch::embedding(table, few) * 2}, 1),
                   torch::stack({torch::embedding(table, few), places.slice(0, 0, 4)}),
                   torch::embedding(table, ids.t()),
                   torch::embedding(table, ids).transpose(1, 2) * 2,
                   torch::embedding(table, few, 1),
                   torch::embedding(table, few[0]),
                   torch::embedding(table, ids) > 0,
                   torch::embedding(table, few).unsqueeze(0).expand({2, 4, 17}) + 1,
                   torch::group_norm(torch::embedding(table, ids), 7),
                   torch::embedding(places, ids.slice(1, 0, 3).clamp(0, 6)),
                   torch::embedding(table, torch::arange(4)),
                   torch::embedding(table, ids.select(1, 2))});
  };
  const Tensor ids = torch::randint(11, {3, 7}), few = torch::randint(5, {4}), x = torch::randn({17, 4});
  const auto compiled = check(*net, {ids, few, x}, {.more = {{torch::randint(11, {7, 3}).t(), few, x}}});
  const Tensors expected = in_double(*net, {ids, few, x});
  for (const std::int64_t wrong : {std::int64_t(11), std::int64_t(-1), std::int64_t(1) << 40}) {
    Tensor bad = ids.clone();
    bad[2][5] = wrong;
    const Fault fault = fault_of<RunError>([&] { compiled->run({bad, few, x}); });
    CHECK(fault.id == 701);
    CHECK(fault.says("out of range"));
    CHECK(error_of(compiled->run({ids, few, x}), expected) <= 1e-5);
  }
}

TEST_CASE("elements at places that tensors tell: gather, index_select, tensors as indices; and places that are none") {
  torch::manual_seed(34);
  auto net = std::make_shared<Net>();
  const Tensor table = net->parameter({6, 5, 19}), flags = net->constant(torch::rand({6, 5, 19}) > 0.5);
  net->function = [=](const Tensors& in) {
    using torch::indexing::Slice;
    const Tensor &x = in[0], &deep = in[1], &few = in[2], &row = in[3],
                 &n = in[4];  // [6, 5, 19], [4, 5, 7], [3], [2, 1]
    const Tensor rows = torch::arange(5, few.options());
    return all_of({torch::gather(x, 0, deep),
                   torch::gather(x, 1, deep.slice(1, 1, 4)),
                   torch::gather(x, 2, deep) * 2 + 1,
                   torch::gather(table, -1, deep).relu(),
                   torch::gather(n, 0, deep) + 1,
                   torch::gather(flags, 2, deep),
                   torch::gather(x.transpose(0, 2), 2, deep.slice(0, 0, 3)),
                   torch::gather(x * 2, 2, deep).softmax(-1),
                   x.index_select(0, few),
                   x.index_select(1, few).exp(),
                   x.index_select(-1, few) + 1,
                   x.index_select(2, few[1]),
                   n.index_select(1, few) * 2,
                   flags.index_select(0, few).logical_not(),
                   x.transpose(0, 1).index_select(1, few),
                   torch::cat({x.index_select(0, few), x}, 0),
                   x.index({few}),
                   x.index({few - 4}) * 2,
                   x.index({Slice(), few}),
                   x.index({torch::indexing::Ellipsis, few}),
                   x.index({few, Slice(), few}),
                   x.index({few, few + 1}),
                   x.index({row, few}),
                   x.index({Slice(), row, few}).sum(0),
                   x.index({row, few, few}),
                   x.index({few.unsqueeze(1), rows, row.index({0})}),
                   n.index({few, few}) + 1,
                   table.index({row, Slice(), few}),
                   flags.index({few}),
                   x.index({few, rows.slice(0, 0, 3)}).argmax(-1),
                   torch::layer_norm(x.index({few}), {19}),
                   torch::embedding(table.select(1, 2), few),
                   torch::embedding(table.select(2, 2).t(), few),
                   x.index({x.select(1, 0).argmax(1).clamp_max(5)})});
  };
  const auto make = [&] {
    return Tensors{torch::randn({6, 5, 19}), torch::randint(5, {4, 5, 7}), torch::randint(4, {3}),
                   torch::randint(-4, 4, {2, 1}), torch::randint(-9, 9, {6, 5, 19})};
  };
  const Tensors in = make();
  Tensors turned = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  const auto compiled = check(*net, in, {.more = {make(), turned}});
  check(*net, turned);
  const Tensors expected = in_double(*net, in);
  for (const std::int64_t wrong : {std::int64_t(6), std::int64_t(-1), std::int64_t(1) << 40}) {
    Tensors bad = cloned(in);
    bad[1][3][4][6] = wrong;
    const Fault fault = fault_of<RunError>([&] { compiled->run(boxed(bad)); });
    CHECK(fault.id == 701);
    CHECK(fault.says("out of range"));
    CHECK(error_of(compiled->run(boxed(in)), expected) <= 1e-5);
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
TEST_CASE("a convolution writes into an image with a border behind and below only") {
  torch::manual_seed(52);
  auto net = std::make_shared<Net>();
  const Tensor one = net->parameter({1, 1, 2, 2}), up = net->parameter({1, 1, 2, 2});
  const Tensor first = net->parameter({5, 3, 3, 3}), second = net->parameter({4, 5, 2, 2});
  net->function = [=](const Tensors& in) {
    const Tensor small = torch::silu(torch::conv2d(in[0], one, {}, {2, 2}, {1, 0}));
    const Tensor wide = torch::silu(torch::conv2d(in[1], first));
    return all_of({small, torch::conv_transpose2d(small, up, {}, 2, 1, 1, 1, 2).relu(),
                   torch::conv2d(torch::constant_pad_nd(wide, {0, 1, 0, 1}), second)});
  };
  check(*net, {torch::randn({1, 1, 14, 37}), torch::randn({2, 3, 9, 8})});
}
TEST_CASE("lines between an infinity and a number are infinite, and not nan") {
  const Tensors in = {torch::randn({2, 3, 9})};
  in[0][1][2][4] = infinite;
  in[0][0][0][8] = -infinite;
  check([](const Tensors& in) { return all_of({torch::upsample_linear1d(in[0], {10}, false)}); }, in);
}
TEST_CASE("padding by what is inside") {
  torch::manual_seed(35);
  const Forward f = [&](const Tensors& in) {
    const Tensor &x = in[0], &y = in[1];
    Tensors results;
    for (const char* kind : {"reflect", "replicate", "circular"})
      for (const Tensor& t :
           {torch::pad(x, {1, 2, 3, 0}, kind), torch::pad(x * 2, {0, 4, 2, 1}, kind) + 1, torch::pad(y, {3, 2}, kind),
            torch::pad(x.transpose(2, 3), {2, 2, 1, 1}, kind), torch::pad(y, {0, 1}, kind).relu()})
        results.push_back(t);
    results.push_back(torch::reflection_pad1d(y, {2, 1}));
    results.push_back(torch::reflection_pad2d(x, {2, 1, 0, 3}));
    results.push_back(torch::replication_pad1d(y, {9, 1}));
    results.push_back(torch::replication_pad2d(x, {2, 1, 0, 7}));
    return all_of(results);
  };
  const Tensor x = torch::randn({2, 3, 5, 17}), y = torch::randn({3, 7});
  check(f, {x, y}, {.more = {{transposed_copy(x), transposed_copy(y)}}});
  check(f, {sliced_copy(x), sliced_copy(y)});
}

TEST_CASE("LSTM and GRU: two layers, both directions, batches first or second, with states and without") {
  torch::manual_seed(16);
  for (const std::int64_t size : {5, 16}) {
    auto net = std::make_shared<Net>();
    auto lstm = net->module(
        torch::nn::LSTM(torch::nn::LSTMOptions(7, size).num_layers(2).bidirectional(true).batch_first(true)));
    auto lstm2 = net->module(torch::nn::LSTM(torch::nn::LSTMOptions(7, size).bias(false)));
    auto gru = net->module(torch::nn::GRU(torch::nn::GRUOptions(7, size).num_layers(2).bidirectional(true)));
    auto gru2 = net->module(torch::nn::GRU(torch::nn::GRUOptions(7, size).batch_first(true).bias(false)));
    net->function = [=](const Tensors& in) mutable {
      const auto [a, ah] = lstm->forward(in[0]);
      const auto [b, bh] = lstm2->forward(
          in[0], std::tuple(in[1].slice(0, 0, 1).slice(1, 0, 6), in[1].slice(0, 1, 2).slice(1, 0, 6) * 2));
      const auto [c, ch] = gru->forward(in[0].transpose(0, 1), in[1].slice(1, 0, 3));
      const auto [d, dh] = gru2->forward(in[0]);
      const auto [e, eh] = lstm->forward(in[0].transpose(1, 2).contiguous().transpose(1, 2));
      return all_of({a, std::get<0>(ah), std::get<1>(ah), b, std::get<0>(bh), std::get<1>(bh), c, ch, d.relu() + 1, dh,
                     e * 2, std::get<0>(eh)});
    };
    check(*net, {torch::randn({3, 6, 7}), torch::randn({4, 6, size})});
  }
}

// --- operators that are called back ------------------------------------------------------------------------------------

TEST_CASE("operators without a kernel run between the kernels, on whatever lies where, and are told") {
  torch::manual_seed(17);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({8, 5, 3, 3}, 0.3), b = net->parameter({8}), lin = net->parameter({6, 9}),
               counts = net->constant(torch::arange(5));
  net->function = [=](const Tensors& in) {
    const Tensor &x = in[0], &n = in[1], &m = in[2];  // [2, 5, 7, 9] floats, [4, 5] int64, [4, 5] booleans
    const auto [values, indices] = torch::topk(torch::linear(x, lin), 3, -1);
    const auto [sorted, order] = (x * 2).select(0, 0).sort(0);
    const Tensor image = torch::conv2d(x, w, b, 1, 1).relu();
    const Tensor other = x.i0();
    return all_of({values + 1,
                   indices,
                   sorted,
                   order,
                   order.transpose(0, 1),
                   image.i0().sigmoid(),
                   torch::conv2d(other, w, b, 1, 1),
                   torch::conv2d(other.exp(), w),
                   torch::conv2d(image.i0().slice(1, 0, 5), w, b, 1, 2),
                   n + 1,
                   n * counts,
                   (n + 1).t(),
                   n.t(),
                   n.reshape({20}),
                   n,
                   n.to(x.scalar_type()) * 0.5,
                   n.t().to(x.scalar_type()) + 1,
                   n.sum(),
                   n.max(),
                   m.to(x.scalar_type()) * 2,
                   m.t().to(x.scalar_type()),
                   m.t(),
                   m.logical_not().t().contiguous(),
                   m.sum(),
                   m & (n > 2),
                   x.to(torch::kInt),
                   x.to(torch::kHalf),
                   x.to(torch::kHalf).transpose(1, 2),
                   x.argmax(-1),
                   x.argmax(-1)[0].t().slice(1, 0, 2).unsqueeze(0),
                   torch::einsum("bchw,dw->bchd", {x, lin}),
                   x.diagonal(0, 2, 3),
                   x.unfold(3, 4, 2),
                   torch::as_strided(image, {3, 4}, {7, 2}),
                   image.as_strided({2, 5}, {9, 3}, 4) * 2,
                   image.view(torch::kInt),
                   torch::view_as_complex(image.slice(3, 0, 8).reshape({2, 8, 7, 4, 2}).contiguous()).abs(),
                   x.var({2, 3}),
                   x.std(1),
                   image.var({2, 3}, false, true),
                   torch::gather(x, 3, indices.slice(1, 0, 5)),
                   x.index_select(1, counts.slice(0, 1, 3)),
                   torch::tril(x),
                   x.i0() + 1,
                   x.prod(2),
                   x.pow(2.5),
                   x.abs().pow(0.3),
                   torch::logsumexp(x, 1),
                   x.repeat({1, 2, 1, 1}) * 2,
                   torch::cdist(x[0], x[1]),
                   torch::bucketize(x, torch::linspace(-1, 1, 5).to(x.scalar_type())),
                   x.median(),
                   F::pad(x, F::PadFuncOptions({1, 2, 1, 1}).mode(torch::kReflect)) + 1,
                   F::instance_norm(x),
                   F::normalize(x, F::NormalizeFuncOptions().dim(1)),
                   torch::pixel_shuffle(image, 2),
                   torch::conv1d(x[0], lin.slice(1, 0, 7).unsqueeze(2)),
                   image.select(0, 1).argmax(0),
                   torch::avg_pool1d(image[0], 2),
                   torch::addcmul(x, x, x, 2),
                   torch::lerp(x, x * 2, 0.3),
                   torch::nan_to_num(x / 0),
                   x.frac(),
                   torch::where(n > 2, n, n * 2),
                   n.t() * 2,
                   torch::one_hot(n, 6),
                   torch::logit(x.sigmoid()),
                   torch::glu(image, 1)});
  };
  Tensors in{torch::randn({2, 5, 7, 9}), torch::randint(5, {4, 5}), torch::rand({4, 5}) > 0.5};
  const auto gm = traced_net(*net, in);
  for (const int threads : {1, 3}) {
    const auto compiled = fxx::compile(*gm, in, {.threads = threads, .tolerance = infinite, .cache_folder = cache()});
    const std::set<std::string> called = called_back_operators(*compiled);
    for (const char* name : {"aten::i0", "aten::view.dtype"}) CHECK(called.contains(name));
    CHECK(compiled->called_back().size() >= called.size());
    for (const auto& [name, why] : compiled->called_back()) {
      CAPTURE(name);
      CHECK_FALSE(why.empty());
      CHECK(contains(compiled->kernel_plan().to_string(), name));
    }
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < 3; ++i) {
      const Tensors other =
          i == 0   ? in
          : i == 1 ? Tensors{torch::randn({2, 5, 7, 9}), torch::randint(5, {4, 5}), torch::rand({4, 5}) > 0.5}
                   : Tensors{transposed_copy(in[0]), transposed_copy(in[1]), transposed_copy(in[2])};
      const Tensors given = tensors_of(compiled->run(boxed(other))), wanted = tensors_of(gm->run(boxed(other)));
      REQUIRE(given.size() == wanted.size());
      for (std::size_t k = 0; k < given.size(); ++k) {
        CAPTURE(k);
        CHECK(relative_difference(given[k], wanted[k]) <= 1e-5);
      }
    }
  }
}

TEST_CASE(
    "an exception of an operator that is called back reaches the caller, naming it; the module works afterwards") {
  torch::manual_seed(18);
  const Tensor good = torch::eye(4) * 3 + 0.1, bad = good - 5;
  const auto gm =
      traced([](const Tensors& in) { return all_of({torch::linalg_cholesky(in[0] * 2) * 2, in[0].relu()}); }, {good});
  for (const int threads : {1, 3}) {
    const auto compiled = fxx::compile(*gm, {good}, {.threads = threads, .cache_folder = cache()});
    CHECK(called_back_operators(*compiled) == std::set<std::string>{"aten::linalg_cholesky"});
    for (int i = 0; i < 3; ++i) {
      std::string text;
      try {
        compiled->run({bad});
      } catch (const c10::Error& e) {
        text = e.what();
      }
      CHECK(contains(text, "not positive-definite"));
      CHECK(contains(text, "While executing %linalg_cholesky"));
      CHECK(relative_difference(compiled->run({good}), gm->run({good})) <= 1e-6);
    }
  }
}

TEST_CASE("graphs that write to attributes and inputs, that draw numbers, that return inputs and parameters") {
  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor scale = register_parameter("scale", torch::ones({3}));
    std::tuple<Tensor, Tensor, Tensor> forward(Tensor t) {
      count.add_(1);
      return {t * scale + count, scale, count.clone()};
    }
  } counts;
  counts.eval();
  const Tensor x = torch::randn({3});
  const auto gm = trace(counts, {x});
  counts.count.zero_();
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  CHECK(same(counts.count, torch::zeros({3})));
  for (int i = 1; i < 4; ++i) {
    const Tensors got = tensors_of(compiled->run({x}));
    CHECK(compiled->is_current());
    CHECK(same(got[0], x + i));
    CHECK(same(got[1], torch::ones({3})));
    CHECK(same(got[2], torch::full({3}, i, torch::kFloat)));
    got[1].fill_(7);
    CHECK(same(counts.count, torch::full({3}, i, torch::kFloat)));
  }
  CHECK(same(counts.scale, torch::ones({3})));  // who gets a result may write to it
  counts.scale.mul_(2);
  CHECK_FALSE(compiled->is_current());
  CHECK(same(tensors_of(compiled->run({x}))[0], x * 2 + 4));

  const auto random = traced(
      [](const Tensors& in) {
        const Tensor &x = in[0], twice = torch::dropout(x, 0.5, true) * 2;
        return all_of({x, twice, torch::rand({3}) + 1, x + 0, x.view({1, 3})});
      },
      {x});
  const auto drawn = fxx::compile(*random, {x}, {.cache_folder = cache()});
  CHECK(std::isnan(drawn->max_error()));
  torch::manual_seed(4);
  const c10::IValue expected = random->run({x});
  torch::manual_seed(4);
  const c10::IValue given = drawn->run({x});
  CHECK(relative_difference(given, expected) == 0);
  CHECK(tensors_of(given)[0].is_same(x));
  for (const int i : {3, 4}) CHECK_FALSE(tensors_of(given)[static_cast<std::size_t>(i)].is_alias_of(x));
  {
    // An input that lies otherwise gets what was written to its copy, and only then: nobody could write to this one.
    const c10::InferenceMode inference;
    const Tensor wide = torch::randn({1}).expand({3});
    torch::manual_seed(4);
    const c10::IValue of_wide = random->run({wide});
    torch::manual_seed(4);
    CHECK(relative_difference(drawn->run({wide}), of_wide) == 0);
    const Tensor x = torch::randn({3}).repeat(2), mine = x.clone().slice(0, 0, 6, 2), theirs = x.slice(0, 0, 6, 2);
    const auto writing = traced([](const Tensors& in) { return in[0].add_(1) * 2; }, {torch::randn({3})});
    const auto writes = fxx::compile(*writing, {torch::randn({3})}, {.cache_folder = cache()});
    CHECK(relative_difference(writes->run({mine}), writing->run({theirs})) == 0);
    CHECK(same(mine, theirs));
  }
}

TEST_CASE("inputs in the same memory, of each other or of attributes, that the graph writes to: results are its own") {
  struct Adds : torch::nn::Module {
    Tensor sum = register_buffer("sum", torch::zeros({4, 5}));
    std::tuple<Tensor, Tensor> forward(Tensor a, Tensor b) {
      a.add_(1);
      sum.add_(b);
      return {a * b, sum * a};
    }
  } adds;
  const auto gm = trace(adds, {torch::randn({4, 5}), torch::randn({4, 5})});
  const auto compiled = fxx::compile(*gm, {torch::randn({4, 5}), torch::randn({4, 5})}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  const Tensor memory = torch::randn({9, 5}), before = torch::randn({4, 5});
  // The row at which each input starts in the memory; none: it is the attribute.
  using Row = std::optional<std::int64_t>;
  const std::vector<std::pair<Row, Row>> rows{{0, 0}, {0, 3}, {3, 0}, {{}, 0}, {0, {}}, {0, 5}};
  for (const auto& [first, second] : rows) {
    CAPTURE(first.value_or(-1));
    CAPTURE(second.value_or(-1));
    const auto run = [&](GraphModule& module) {
      adds.sum.copy_(before);
      const Tensor mine = memory.clone();
      const auto input = [&](Row row) { return row ? mine.narrow(0, *row, 4) : adds.sum; };
      Tensors seen = tensors_of(module.run({input(first), input(second)}));
      seen.insert(seen.end(), {mine, adds.sum.clone()});
      return all_of(seen);
    };
    const c10::IValue expected = run(*gm);
    CHECK(relative_difference(run(*compiled), expected) <= 1e-6);
    CHECK(compiled->is_current());
  }
}

TEST_CASE("attributes that the graph writes to: who reads them behind it, or gets them, sees what they hold then") {
  struct Written : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({2, 3}));
    Tensor places = register_buffer("places", torch::zeros({3}, torch::kLong));
    Tensor noise = register_buffer("noise", torch::zeros({3, 3}));
    Tensors forward(Tensor t) {
      const Tensor row = noise.select(0, 1);
      const Tensor before = t + noise;
      noise.normal_();
      const Tensor between = t.matmul(noise) + row;
      row.uniform_();
      count.add_(t.sum());
      places.add_(torch::arange(3)).remainder_(3);
      return {count, count.t(), places, t.index_select(1, places), before, between, noise.relu(), row * 2, noise};
    }
  } written;
  written.eval();
  const Tensor x = torch::randn({3, 3});
  const auto gm = trace(written, {x});
  const torch::NoGradGuard no_grad;
  const auto reset = [&] {
    for (const Tensor& tensor : written.buffers()) tensor.zero_();
    torch::manual_seed(5);
  };
  reset();
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  const auto run = [&](GraphModule& module) {
    reset();
    std::vector<c10::IValue> results;
    for (int i = 0; i < 3; ++i)
      for (const Tensor& tensor : tensors_of(module.run({x}))) results.push_back(tensor.clone());
    return c10::IValue(c10::ivalue::Tuple::create(std::move(results)));
  };
  const Tensors expected = tensors_of(run(*gm)), given = tensors_of(run(*compiled));
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(given[i], expected[i]) <= 1e-6);
  }
  CHECK(compiled->is_current());
}

TEST_CASE("long rows, many keys, many sequences, many dimensions") {
  torch::manual_seed(21);
  auto net = std::make_shared<Net>();
  auto lstm = net->module(torch::nn::LSTM(torch::nn::LSTMOptions(3, 5)));
  auto gru = net->module(torch::nn::GRU(torch::nn::GRUOptions(3, 5)));
  const Tensor w = net->parameter({70, 300}, 0.1), g = net->parameter({20000});
  net->function = [=](const Tensors& in) mutable {
    const Tensor &x = in[0], &q = in[1], &k = in[2], &s = in[3], &many = in[4];
    const auto [a, state] = lstm->forward(s);
    const auto [b, h] = gru->forward(s);
    return all_of({x.softmax(1),
                   x.sum(),
                   x.mean({1}),
                   torch::layer_norm(x, {20000}, g),
                   x.slice(1, 0, 16384).softmax(-1),
                   x.slice(1, 0, 16384).sum(-1),
                   x.amax({0}),
                   x.softmax(0),
                   at::scaled_dot_product_attention(q, k, k),
                   at::scaled_dot_product_attention(q, k, k, {}, 0, true),
                   at::scaled_dot_product_attention(k, k, k, {}, 0, true).slice(1, 0, 40),
                   at::scaled_dot_product_attention(q, k, k, in[5]),
                   a,
                   std::get<0>(state),
                   std::get<1>(state) + 1,
                   b * 2,
                   h,
                   many.permute({8, 1, 6, 3, 4, 5, 2, 7, 0}) + 1,
                   many.transpose(0, 8).exp(),
                   torch::linear(x.slice(1, 0, 300), w) + 1,
                   torch::linear(x.slice(1, 0, 19800).reshape({198, 300}), w).softmax(-1),
                   in[6].pow(2).sum({0, 2, 4}),
                   in[6].permute({4, 0, 3, 1, 2}).flatten(1, 2) * 2,
                   in[6].mean({1, 3}),
                   in[6].softmax(2),
                   torch::cat({in[6], in[6] + 1}, 2)});
  };
  Tensor mask = torch::rand({9, 1100}) > 0.9;
  mask[3].slice(0, 0, 700).fill_(false);
  mask[4].slice(0, 300, 1100).fill_(false);
  check(*net,
        {torch::randn({3, 20000}), torch::randn({2, 9, 8}), torch::randn({2, 1100, 8}), torch::randn({4, 17, 3}),
         torch::randn({2, 3, 2, 2, 3, 2, 2, 1, 2}), mask, torch::randn({3, 4, 5, 2, 7})},
        {.called_back = {"aten::softmax.int", "aten::layer_norm"}});
}

// --- what is checked, and noticed --------------------------------------------------------------------------------------

/// Two convolutions, a batch norm, dropout, a linear layer.
struct SmallImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)));
  torch::nn::BatchNorm2d bn = register_module("bn", torch::nn::BatchNorm2d(16));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(16, 5));
  Tensor forward(Tensor image) { return fc(drop(torch::relu(bn(conv(image))).mean({2, 3}))); }
};
TORCH_MODULE(Small);
struct SmallCase {
  Small net;
  Tensor x = torch::randn({2, 3, 8, 8});
  std::shared_ptr<GraphModule> gm;
  std::shared_ptr<CompiledModule> compiled;
  SmallCase() {
    net->eval();
    gm = trace(net, {x});
    compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  }
  double error() {
    const torch::NoGradGuard no_grad;
    return relative_difference(compiled->run({x}), c10::IValue(net->forward(x)));
  }
};

TEST_CASE("inputs of another dtype, size or number are one error that names the input; other strides are converted") {
  SmallCase c;
  const torch::NoGradGuard no_grad;
  for (const Tensor& wrong :
       {c.x.to(torch::kDouble), torch::randn({2, 3, 8, 9}), torch::randn({2, 3, 8}), torch::randn({1, 3, 8, 8}),
        torch::empty({2, 3, 8, 8}, torch::kMeta), c.x.to_sparse(), c.x.to(torch::kHalf), torch::empty({0})}) {
    const Fault fault = fault_of<RunError>([&] { c.compiled->run({wrong}); });
    CHECK(fault.id == 701);
    CHECK(fault.says("'" + std::string(c.gm->graph().find_nodes(Opcode::placeholder)[0]->name()) + "'"));
    if (wrong.layout() != torch::kStrided) CHECK(fault.says("Sparse"));  // sizes and dtype are right
    CHECK(c.error() <= 1e-5);
  }
  CHECK(fault_of<RunError>([&] { c.compiled->run({}); }).id == 701);
  CHECK(fault_of<RunError>([&] { c.compiled->run({c.x, c.x}); }).id == 701);
  CHECK(fault_of<RunError>([&] { c.compiled->run({Tensor()}); }).id == 701);
  CHECK(fault_of<RunError>([&] { fxx::compile(*c.gm, {}, {.cache_folder = cache()}); }).id == 701);
  CHECK(fault_of<RunError>([&] { fxx::compile(*c.gm, {c.x, c.x}, {.cache_folder = cache()}); }).id == 701);
  for (const Tensor& other : {transposed_copy(c.x), sliced_copy(c.x), c.x.to(at::MemoryFormat::ChannelsLast),
                              torch::randn({1, 3, 1, 1}).expand({2, 3, 8, 8}), torch::_neg_view(c.x)})
    CHECK(relative_difference(c.compiled->run({other}), c10::IValue(c.net->forward(other))) <= 1e-5);
  {
    const c10::InferenceMode inference;
    const Tensor other = torch::randn({2, 3, 8, 8});
    CHECK(relative_difference(c.compiled->run({other}), c10::IValue(c.net->forward(other))) <= 1e-5);
    CHECK(relative_difference(c.compiled->run({transposed_copy(other)}), c10::IValue(c.net->forward(other))) <= 1e-5);
  }
}

TEST_CASE("inputs that want a gradient run interpreted, and get it") {
  SmallCase c;
  const Tensors in{torch::randn({2, 3, 8, 8})};
  const auto given = gradients(forward_of(*c.compiled), *c.net, in),
             expected = gradients(forward_of(*c.net), *c.net, in);
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(given[i].first);
    CHECK(difference(given[i].second, expected[i].second) < 1e-5);
  }
}

TEST_CASE("fakes, and inputs with a tangent, run interpreted") {
  SmallCase c;
  {
    const FakeScope fakes;
    const Tensor shape = c.compiled->run({fake_like(c.x)}).toTensor();
    CHECK(is_fake(shape));
    CHECK(shape.sizes() == at::IntArrayRef({2, 5}));
  }
  const std::uint64_t entered = torch::autograd::ForwardADLevel::get_next_idx();
  {
    const Tensor direction = torch::randn({2, 3, 8, 8});
    const Tensor dual = torch::_make_dual(c.x, direction, 0);
    const Tensor given = std::get<1>(torch::_unpack_dual(c.compiled->run({dual}).toTensor(), 0)),
                 expected = std::get<1>(torch::_unpack_dual(c.net->forward(dual), 0));
    REQUIRE(given.defined());
    CHECK(relative_difference(given, expected) <= 1e-5);
  }
  torch::autograd::ForwardADLevel::release_idx(entered);
}

TEST_CASE(
    "what it was made for has changed: parameters, buffers, training, the graph; it is noticed, and results are "
    "right") {
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    CHECK(c.compiled->is_current());
    c.net->fc->weight.mul_(2);
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.net->bn->running_mean.add_(1);
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.net->fc->weight.set_data(torch::randn({5, 16}));
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.net->to(torch::kDouble);
    c.x = c.x.to(torch::kDouble);
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.compiled->train();
    CHECK_FALSE(c.compiled->is_current());
    const c10::IValue one = c.compiled->run({c.x}), two = c.compiled->run({c.x});
    CHECK(relative_difference(one, two) > 0);  // dropout draws
    c.compiled->eval();
    CHECK(c.error() <= 1e-5);  // whatever the batch norm's buffers are by now
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    for (Node* node : c.compiled->graph().nodes().snapshot())
      if (const Operator* op = operator_of(*node); op && op->base_name() == "relu")
        node->set_op(CallFunction{&ops::neg.info()});
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() > 1e-3);
    CHECK(relative_difference(c.gm->run({c.x}), c10::IValue(c.net->forward(c.x))) == 0);
    const auto copy = std::dynamic_pointer_cast<CompiledModule>(c.compiled->clone());
    REQUIRE(copy);
    CHECK(copy->is_current());  // compiled from the graph as it is now
    CHECK(relative_difference(copy->run({c.x}), c.compiled->run({c.x})) <= 1e-5);
  }
}

TEST_CASE("many threads call at once; each gets its own result") {
  SmallCase c;
  const torch::NoGradGuard no_grad;
  Tensors inputs, expected;
  for (int i = 0; i < 6; ++i) {
    inputs.push_back(torch::randn({2, 3, 8, 8}));
    expected.push_back(c.net->forward(inputs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 30; ++i)
        wrong += !(relative_difference(c.compiled->run({inputs[t]}), c10::IValue(expected[t])) <= 1e-5);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("many threads call what writes to its buffers: one after the other, and nothing is lost") {
  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor forward(Tensor t) {
      count.add_(1);
      return t * 0 + count;
    }
  } counts;
  counts.eval();
  const Tensor x = torch::randn({3});
  const auto gm = trace(counts, {x});
  counts.count.zero_();
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  std::mutex mutex;
  std::set<float> seen;
  std::atomic<int> stale = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 25; ++i) {
        const Tensor got = compiled->run({x}).toTensor();
        stale += !compiled->is_current();
        const std::lock_guard lock(mutex);
        seen.insert(got[0].item<float>());
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(stale == 0);
  CHECK(same(counts.count, torch::full({3}, 100, torch::kFloat)));
  CHECK(seen.size() == 100);
}
TEST_CASE("packing what the graph wrote does not make other changes look packed") {
  struct Scaled : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor scale = register_parameter("scale", torch::ones({3}));
    Tensor forward(Tensor t) {
      count.add_(1);
      return t * (scale * 2) + count;  // scale * 2 is folded
    }
  } scaled;
  scaled.eval();
  const Tensor x = torch::randn({3});
  Tensor y = torch::empty({3});
  const auto gm = trace(scaled, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const void* const in[] = {x.const_data_ptr()};
  void* const out[] = {y.data_ptr()};
  compiled->run_raw(in, out);
  CHECK(compiled->is_current());
  scaled.scale.set_data(torch::full({3}, 5, torch::kFloat));
  CHECK_FALSE(compiled->is_current());
  compiled->run_raw(in, out);  // packs count
  CHECK_FALSE(compiled->is_current());
}
TEST_CASE("small work has one thread unless more are asked for") {
  const Tensor x = torch::randn({16}), large = torch::randn({1 << 16});
  const auto gm = traced([](const Tensors& in) { return in[0].relu() + 1; }, {x});
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  CHECK(fxx::compile(*gm, {x}, {.cache_folder = cache()})->threads() == 1);
  CHECK(fxx::compile(*gm, {x}, {.threads = 3, .cache_folder = cache()})->threads() == 3);
  const auto wide = traced([](const Tensors& in) { return in[0].relu() + 1; }, {large});
  CHECK(fxx::compile(*wide, {large}, {.cache_folder = cache()})->threads() == 2);
  at::set_num_threads(before);
}
TEST_CASE("for a processor that can do less: the same results from shorter vectors; one that nobody knows is refused") {
  torch::manual_seed(36);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({19, 37});
  net->function = [=](const Tensors& in) {
    return all_of({torch::linear(in[0], w).relu(), in[1].cumsum(1), in[1].cumsum(0)});
  };
  const Tensors inputs = {torch::randn({11, 37}), torch::randint(9, {11, 3}, torch::kInt)};
  const auto gm = traced_net(*net, inputs);
  const torch::NoGradGuard no_grad;
#if defined(__x86_64__)
  for (const auto& [march, lanes] : {std::pair<std::string, int>{"x86-64", 4}, {"haswell", 8}}) {
    CAPTURE(march);
    if (!has_vectors_of(lanes)) {
      MESSAGE("not run: this processor has no vectors of ", lanes, " floats");
      continue;
    }
    const auto compiled = fxx::compile(*gm, inputs, {.threads = 1, .march = march, .cache_folder = cache()});
    CHECK(fxx::Library(compiled->library_path()).symbol<const kernels::ModuleInfo>("fxx_module")->lanes == lanes);
    CHECK(error_of(compiled->run(boxed(inputs)), in_double(*net, inputs)) <= 1e-6);
  }
#endif
  CHECK(fault_of<Error>([&] {
          fxx::compile(*gm, inputs, {.march = "no-such-processor", .cache_folder = cache()});
        }).id == 602);
  CHECK_FALSE(has_vectors_of(64));
}

TEST_CASE("without tensors: pointers in the order of inputs and results") {
  torch::manual_seed(19);
  const auto gm = traced(
      [](const Tensors& in) {
        return all_of({in[0] * 2 + in[1], (in[0] > 0), in[1].cumsum(0), in[0].t().contiguous()});
      },
      {torch::randn({3, 4}), torch::randn({4})});
  const auto compiled =
      fxx::compile(*gm, {torch::randn({3, 4}), torch::randn({4})}, {.threads = 2, .cache_folder = cache()});
  const Tensor x = torch::randn({3, 4}), y = torch::randn({4});
  Tensor sum = torch::empty({3, 4}), mask = torch::empty({3, 4}, torch::kBool), summed = torch::empty({4}),
         turned = torch::empty({4, 3});
  const void* const in[] = {x.const_data_ptr(), y.const_data_ptr()};
  void* const out[] = {sum.data_ptr(), mask.data_ptr(), summed.data_ptr(), turned.data_ptr()};
  compiled->run_raw(in, out);
  const Tensors expected = tensors_of(gm->run({x, y}));
  CHECK(relative_difference(sum, expected[0]) <= 1e-6);
  CHECK(same(mask, expected[1]));
  CHECK(relative_difference(summed, expected[2]) <= 1e-6);
  CHECK(same(turned, expected[3]));
}

TEST_CASE("fast: weights of products are bfloat16, half as large; the error is that of their rounding") {
  torch::manual_seed(41);
  const auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({48, 33}, 0.2), bias = net->parameter({48}),
               image = net->parameter({32, 32, 1, 1}, 0.2), table = net->parameter({256, 256}, 0.1);
  net->function = [=](const Tensors& in) {
    return all_of(
        {torch::linear(in[0], w, bias).relu(), torch::conv2d(in[1], image), torch::linear(in[2], table).tanh()});
  };
  const Tensors inputs{torch::randn({3, 33}), torch::randn({1, 32, 1, 3}), torch::randn({1, 256})};  // few rows
  const auto gm = traced_net(*net, inputs);
  const Tensors expected = in_double(*net, inputs);
  const torch::NoGradGuard no_grad;
  const auto compiled = [&](Accuracy accuracy, int threads) {
    return fxx::compile(*gm, inputs, {.accuracy = accuracy, .threads = threads, .cache_folder = cache()});
  };
  const auto standard = compiled(Accuracy::standard, 1), fast = compiled(Accuracy::fast, 1),
             of_two = compiled(Accuracy::fast, 2);
  CHECK(fast->called_back().empty());
  CHECK(2 * fast->weight_bytes() < standard->weight_bytes() + 16384);  // the bias, and tiles that are filled up
  CHECK(fast->max_error() > 1e-4);
  CHECK(fast->max_error() < 0.01);
  const c10::IValue given = fast->run(boxed(inputs));
  CHECK(relative_difference(of_two->run(boxed(inputs)), given) == 0);
  const Tensors results = tensors_of(given);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    const double error = relative_difference(results[i].to(torch::kDouble), expected[i].to(torch::kDouble));
    CHECK(error > 1e-4);  // what float32 would not have
    CHECK(error < 0.01);
  }
}
TEST_CASE("fast: convolutions are computed with bfloat16 where the processor multiplies it, and others read floats") {
  torch::manual_seed(49);
  const auto net = std::make_shared<Net>();
  const Tensor stem = net->parameter({40, 3, 7, 7}, 0.1), wide = net->parameter({48, 40, 3, 3}, 0.1),
               point = net->parameter({48, 40, 1, 1}, 0.2), line = net->parameter({33, 17, 5}, 0.2),
               bias = net->parameter({48});
  net->function = [=](const Tensors& in) {
    const Tensor x = torch::conv2d(in[0], stem, {}, 2, 3).relu();
    const Tensor y = torch::conv2d(x, wide, bias, 2, 1), z = torch::conv2d(x, point, bias, 2);
    return all_of({y + z, torch::conv2d((y * z).slice(1, 0, 40), wide, {}, {1, 2}, 2, 2).sigmoid(), x.mean({2, 3}),
                   torch::conv1d(in[1], line, {}, 3, 4, 2)});
  };
  const Tensors inputs{torch::randn({2, 3, 33, 30}), torch::randn({1, 17, 50})};
  const auto gm = traced_net(*net, inputs);
  const Tensors expected = in_double(*net, inputs);
  const torch::NoGradGuard no_grad;
  for (const int threads : {1, 2}) {
    const auto module =
        fxx::compile(*gm, inputs, {.accuracy = Accuracy::fast, .threads = threads, .cache_folder = cache()});
    CHECK(module->called_back().empty());
    int reduced = 0;
    for (const KernelStep& step : module->kernel_plan().steps)
      if (const auto* k = std::get_if<plans::Convolution>(&step.kernel)) reduced += k->reduced;
    CHECK(reduced == (this_processor().bfloat16_products ? 5 : 0));
    CHECK(error_of(module->run(boxed(inputs)), expected) < 0.02);
  }
}
TEST_CASE("quantised values are those of LibTorch, bit by bit") {
  torch::manual_seed(42);
  Tensor x = torch::randn({5, 37}) * 20;
  x.view(-1).slice(0, 0, 9).copy_(
      torch::tensor({0.f, -0.f, 0.125f, 0.375f, -0.125f, 1e30f, -1e30f, 3.1875f, -4.0625f}));
  x[2][3] = not_a_number, x[2][4] = infinite, x[2][5] = -infinite;
  const auto function = [](const Tensors& in) {
    const auto [values, mask] = torch::fake_quantize_per_tensor_affine_cachemask(in[0], 0.3, 5, 0, 255);
    return all_of({torch::fake_quantize_per_tensor_affine(in[0], 0.25, 0, -128, 127),
                   torch::fake_quantize_per_tensor_affine(in[0].relu(), 0.1, 255, 0, 255),
                   torch::fake_quantize_per_tensor_affine(in[0], 7.7, -3, -8, 7).exp(), values, mask});
  };
  const auto net = net_of(function);
  const torch::NoGradGuard no_grad;
  const Tensors expected = tensors_of(function({x}));
  for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard}) {
    const auto compiled = fxx::compile(*traced_net(*net, {x}), {x},
                                       {.accuracy = accuracy, .tolerance = infinite, .cache_folder = cache()});
    CHECK(compiled->called_back().empty());
    const Tensors given = tensors_of(compiled->run(boxed({x})));
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      if (i == 2) CHECK(difference(given[i], expected[i]) < 1e-5);
      else CHECK(difference(given[i].to(torch::kFloat), expected[i].to(torch::kFloat)) == 0);
    }
  }
}
TEST_CASE("quantised layers are computed with integers: weights are a quarter, results as right as with floats") {
  torch::manual_seed(44);
  const auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({50, 67}, 0.2), bias = net->parameter({50}), q = net->parameter({40, 50}, 0.1),
               k = net->parameter({40, 50}, 0.1), large = net->parameter({64, 1030}, 0.1);
  const Tensor scales = net->constant(torch::rand({50}) * 0.01 + 0.001),
               zeros = net->constant(torch::zeros({50}, torch::kInt));
  net->function = [=](const Tensors& in) {
    const auto bytes = [](const Tensor& x, double scale, std::int64_t zero, std::int64_t lowest) {
      return torch::fake_quantize_per_tensor_affine(x, scale, zero, lowest, lowest + 255);
    };
    const auto integers = [](const Tensor& weights, double scale) {
      return torch::fake_quantize_per_tensor_affine(weights, scale, 0, -128, 127);
    };
    const Tensor first = torch::linear(bytes(in[0], 0.02, 120, 0),
                                       torch::fake_quantize_per_channel_affine(w, scales, zeros, 0, -127, 127), bias)
                             .relu();
    const Tensor shared = bytes(first, 0.05, -128, -128);
    return all_of({torch::linear(shared, integers(q, 0.004)).tanh(), torch::linear(shared, integers(k, 0.003)) * 2,
                   torch::linear(bytes(in[1].transpose(0, 1), 1. / 256, 0, 0), integers(large, 1. / 512))});
  };
  // Values that are far from where rounding would tip over.
  const auto exact = [](const Tensor& x, double scale) { return (x / scale).round() * scale; };
  const Tensors inputs{exact(torch::randn({3, 67}), 0.02), exact(torch::rand({1030, 2}), 1. / 256)};
  const auto gm = traced_net(*net, inputs);
  const torch::NoGradGuard no_grad;
  const Tensors expected = tensors_of(net->function(inputs));
  const auto compiled = [&](Accuracy accuracy, int threads) {
    return fxx::compile(*gm, inputs, {.accuracy = accuracy, .threads = threads, .cache_folder = cache()});
  };
  const auto of_bytes = [](const CompiledModule& module) {
    int count = 0;
    for (const KernelStep& step : module.kernel_plan().steps)
      if (const auto* product = std::get_if<plans::MatrixProduct>(&step.kernel)) count += product->quantised.scale != 0;
    return count;
  };
  const auto floats = compiled(Accuracy::exact, 1), one = compiled(Accuracy::standard, 1),
             two = compiled(Accuracy::standard, 2), fast = compiled(Accuracy::fast, 2);
  CHECK(of_bytes(*floats) == 0);
  for (const auto& module : {one, two, fast}) {
    CHECK(module->called_back().empty());
    CHECK(of_bytes(*module) == 3);  // those of one input are one layer
    const c10::IValue given = module->run(boxed(inputs));
    CHECK(error_of(given, expected) <= 1e-6);
    CHECK(relative_difference(given, one->run(boxed(inputs))) == 0);
  }
  CHECK(3 * one->weight_bytes() < floats->weight_bytes());
  // Its sum is exact: integers of both, whose product with the scales is rounded once.
  const Tensor exact_sum = torch::linear((inputs[1].t() * 256).clamp(0, 255).to(torch::kDouble),
                                         (large * 512).round().clamp(-128, 127).to(torch::kDouble)) /
                           (256. * 512);
  CHECK(torch::equal(tensors_of(one->run(boxed(inputs)))[2], exact_sum.to(torch::kFloat)));

  SUBCASE("weights that are not around zero, or not of 8 bits, stay floats") {
    const auto other = std::make_shared<Net>();
    const Tensor v = other->parameter({32, 64}, 0.2);
    other->function = [=](const Tensors& in) {
      const Tensor x = torch::fake_quantize_per_tensor_affine(in[0], 0.02, 0, -128, 127);
      return all_of({torch::linear(x, torch::fake_quantize_per_tensor_affine(v, 0.004, 7, -128, 127)),
                     torch::linear(x, torch::fake_quantize_per_tensor_affine(v, 0.002, 0, 0, 255))});
    };
    const Tensors in{exact(torch::randn({2, 64}), 0.02)};
    const auto made = fxx::compile(*traced_net(*other, in), in, {.cache_folder = cache()});
    CHECK(of_bytes(*made) == 0);
    CHECK(error_of(made->run(boxed(in)), tensors_of(other->function(in))) <= 1e-6);
  }
}
TEST_CASE("quantised convolutions are computed with integers where the processor multiplies bytes") {
  torch::manual_seed(48);
  const auto net = std::make_shared<Net>();
  const auto bytes = [](const Tensor& x, double scale, std::int64_t zero) {
    return torch::fake_quantize_per_tensor_affine(x, scale, zero, 0, 255);
  };
  const auto integers = [&](const Tensor& weights) {
    const Tensor scales = net->constant(torch::rand({weights.size(0)}) * 0.01 + 0.001),
                 zeros = net->constant(torch::zeros({weights.size(0)}, torch::kInt));
    return [=] { return torch::fake_quantize_per_channel_affine(weights, scales, zeros, 0, -127, 127); };
  };
  const auto stem = integers(net->parameter({40, 3, 5, 5}, 0.2)), left = integers(net->parameter({48, 40, 1, 1}, 0.2)),
             right = integers(net->parameter({48, 40, 3, 3}, 0.1)), depth = integers(net->parameter({48, 1, 3, 3})),
             grouped = integers(net->parameter({64, 24, 3, 3}, 0.1)), line = integers(net->parameter({33, 40, 4}, 0.1));
  const Tensor bias = net->parameter({48}), head = net->parameter({10, 64}, 0.1);
  net->function = [=](const Tensors& in) {
    // Numbers whose rounding floats and integers agree about: each is far from the middle of two.
    const Tensor x = bytes(in[0], 0.02, 120);
    const Tensor y = bytes(torch::conv2d(x, stem(), {}, 2, 2).relu(), 0.25, 0);
    const Tensor sum = torch::conv2d(y, left(), bias) + torch::conv2d(y, right(), bias, 1, 1) + 2 * y.mean();
    const Tensor z = torch::max_pool2d(bytes(sum, 0.5, 100), {3, 3}, {1, 1}, {1, 1});
    const Tensor w = bytes(torch::conv2d(z, depth(), {}, 1, 1, 1, 48).clamp(-20, 20), 0.25, 128);
    const Tensor u = torch::conv2d(w, grouped(), {}, 2, {3, 2}, {2, 1}, 2);
    const Tensor sequence = bytes(in[1], 0.05, 7);
    return all_of({x, y, torch::conv2d(x, stem(), {}, 2, 2), z, torch::conv2d(w, grouped(), {}, 1, 1, 1, 2),
                   torch::linear(u.mean({2, 3}), head), torch::conv1d(sequence, line(), {}, 2, 3), sequence.flip(2)});
  };
  const Tensors inputs{torch::randn({2, 3, 23, 17}), torch::randn({2, 40, 29}).abs()};
  const auto gm = traced_net(*net, inputs);
  const torch::NoGradGuard no_grad;
  const auto compiled = [&](Accuracy accuracy, int threads) {
    return fxx::compile(*gm, inputs,
                        {.accuracy = accuracy, .threads = threads, .tolerance = infinite, .cache_folder = cache()});
  };
  const auto of_bytes = [](const CompiledModule& module) {
    int count = 0;
    for (const KernelStep& step : module.kernel_plan().steps) {
      if (const auto* k = std::get_if<plans::Convolution>(&step.kernel)) count += k->quantised.scale != 0;
      if (const auto* k = std::get_if<plans::MatrixProduct>(&step.kernel)) count += k->quantised.scale != 0;
    }
    return count;
  };
  const auto floats = compiled(Accuracy::exact, 1), one = compiled(Accuracy::standard, 1),
             two = compiled(Accuracy::standard, 2);
  CHECK(of_bytes(*floats) == 0);
  const Tensors expected = tensors_of(floats->run(boxed(inputs)));
  for (const auto& module : {one, two}) {
    CHECK(module->called_back().empty());
    if (this_processor().byte_products) CHECK(of_bytes(*module) >= 6);
    const Tensors given = tensors_of(module->run(boxed(inputs)));
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      // What is quantised behind a layer may be another integer where the sum is as good as in the middle of two.
      const Tensor wrong = (given[i] - expected[i]).abs() > 1e-5 * expected[i].abs().max();
      CHECK(wrong.to(torch::kDouble).mean().item<double>() < (i == 0 || i == 2 || i >= 6 ? 1e-9 : 0.02));
    }
    CHECK(relative_difference(module->run(boxed(inputs)), one->run(boxed(inputs))) == 0);
  }
}
TEST_CASE("profile: seconds of each step, which the plan prints") {
  SmallCase c;
  const std::vector<double> seconds = c.compiled->profile({c.x});
  REQUIRE(seconds.size() == c.compiled->kernel_plan().steps.size());
  for (const double s : seconds) CHECK((s >= 0 && s < 1));
  const std::string text = c.compiled->kernel_plan().to_string(seconds);
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == seconds.size() + 2);
  const std::string head = text.substr(0, text.find('\n'));
  CHECK(head.find("expected us") < head.rfind(" us"));
  CHECK(fault_of<Error>([&] { c.compiled->profile({torch::randn({1, 3, 8, 8})}); }).id == 701);
  CHECK(fault_of<Error>([&] { c.compiled->profile({}); }).id == 701);
  CHECK(fault_of<Error>([&] { c.compiled->profile({c.x, c.x}); }).id == 701);
  CHECK(fault_of<Error>([&] { c.compiled->profile({Tensor()}); }).id == 701);
}
TEST_CASE("the compiler fails, or the cache cannot be written: an error with the log, and the module works as before") {
  const Tensor x = torch::randn({3});
  const auto gm = traced([](const Tensors& in) { return in[0].relu() + 1; }, {x});
  const std::string text = to_string(gm->graph());
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& compiler, CompileOptions options) {
    const Variable variable("FXX_CXX", compiler);
    const Fault fault = fault_of<Error>([&] { fxx::compile(*gm, {x}, options); });
    CHECK(to_string(gm->graph()) == text);
    CHECK(same((*gm)(x), torch::relu(x) + 1));
    return fault;
  };
  CHECK(refusal("false", {.cache_folder = folder / "a"}).id == 602);
  CHECK(refusal(folder / "no-such-compiler", {.cache_folder = folder / "b"}).id == 601);
  Fault fault = refusal(support::failing_compiler(folder), {.cache_folder = folder / "c"});
  CHECK(fault.id == 602);
  CHECK(fault.says("line of the log"));
  fault = refusal(support::sleeping_compiler(folder), {.cache_folder = folder / "d", .timeout_seconds = 0.5});
  CHECK(fault.id == 603);
  CHECK(refusal(support::compiler_of_rubbish(folder), {.cache_folder = folder / "e"}).id == 605);
  {
    const Fault no_cache =
        fault_of<CompileError>([&] { fxx::compile(*gm, {x}, {.cache_folder = folder.file("a file", "") + "/cache"}); });
    CHECK(no_cache.id == 604);
    CHECK(no_cache.says("a file"));
  }
  {
    const Variable variable("FXX_INCLUDE", folder / "nothing");
    const Fault none = fault_of<CompileError>([&] { fxx::compile(*gm, {x}, {.cache_folder = folder / "f"}); });
    CHECK(none.id == 601);  // no others take their place
    CHECK(none.says(folder / "nothing"));
  }
}

TEST_CASE("two threads compile the same graph at once") {
  SmallCase c;
  const TemporaryFolder fresh;
  const auto compiles_and_is_right = [&] {
    const torch::NoGradGuard no_grad;
    const auto compiled = fxx::compile(*c.gm, {c.x}, {.threads = 1, .cache_folder = fresh.path()});
    return relative_difference(compiled->run({c.x}), c10::IValue(c.net->forward(c.x))) <= 1e-5;
  };
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) threads.emplace_back([&] { right += compiles_and_is_right(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 2);
}

TEST_CASE("names that hold code come out as names; the same graph gives the same text") {
  struct Odd : torch::nn::Module {
    Tensor a, b;
    Odd() : torch::nn::Module("*/ int x = system(\"true\"); /*\n#error \\") {
      a = register_parameter("w\"); abort(); (\"", torch::randn({4, 4}));
      b = register_parameter("w*/ #error\n#error", torch::randn({4}));
    }
    Tensor forward(Tensor x) { return torch::linear(x, a, b).cumsum(0) * a; }
  } odd;
  const Tensor x = torch::randn({4, 4});
  const auto gm = trace(odd, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  CHECK(relative_difference(compiled->run({x}), gm->run({x})) <= 1e-5);
  const auto again = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  CHECK(again->was_cached());
  CHECK(again->source_code() == compiled->source_code());
  const auto traced_again = trace(odd, {x});
  CHECK(fxx::compile(*traced_again, {x}, {.cache_folder = cache()})->source_code() == compiled->source_code());
}

TEST_CASE("graphs of nothing: no operators, no elements, numbers, one element") {
  torch::manual_seed(20);
  check([](const Tensors& in) { return in[0]; }, {torch::randn({3})});
  check([](const Tensors& in) { return all_of({in[0], in[0]}); }, {torch::randn({3})});
  check(
      [](const Tensors& in) {
        return all_of({in[0] + 1, torch::cat({in[0], in[1]}, 0), in[0].relu().t(), in[1].sum(0)});
      },
      {torch::randn({0, 4}), torch::randn({3, 4})});
  check(
      [](const Tensors& in) {
        return all_of({in[0] * 2, in[0].exp() + in[1], in[0].reshape({1, 1}) + 1, in[1].sum(), in[0].expand({2, 3}) * 2,
                       in[0] > 0});
      },
      {torch::randn({}), torch::randn({5})});
  check(
      [](const Tensors& in) {
        return all_of({torch::conv2d(in[0], in[1]) + 1, in[0].softmax(1), in[0].mean({2, 3})});
      },
      {torch::randn({0, 3, 5, 5}), torch::randn({2, 3, 3, 3})},
      {.called_back = {"aten::conv2d", "aten::softmax.int", "aten::mean.dim"}});
  check([](const Tensors& in) { return torch::scaled_dot_product_attention(in[0], in[0], in[1]) * 2; },
        {torch::randn({1, 2, 3, 0}), torch::randn({1, 2, 3, 4})},
        {.called_back = {"aten::scaled_dot_product_attention"}});
}

TEST_CASE("a list, a dictionary, nothing among the results") {
  const Tensor x = torch::randn({4, 6});
  const auto gm = trace(
      [](Tensor t) {
        return std::tuple(torch::split(t * 2, 2, 1), std::map<std::string, Tensor>{{"a", t + 1}, {"b", t}}, t.exp());
      },
      {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const c10::IValue given = compiled->run({x});
  CHECK(relative_difference(given, gm->run({x})) <= 1e-6);
  CHECK(given.toTupleRef().elements()[1].toGenericDict().contains("b"));
}

TEST_CASE("a module that holds a compiled one is traced through it") {
  SmallCase c;
  struct Outer : torch::nn::Module {
    std::shared_ptr<CompiledModule> inner;
    Tensor forward(Tensor image) { return inner->run({image}).toTensor() * 2; }
  } outer;
  outer.inner = outer.register_module("inner", c.compiled);
  outer.eval();
  const auto gm = trace(outer, {c.x});
  const torch::NoGradGuard no_grad;
  CHECK(relative_difference(gm->run({c.x}), c10::IValue(c.net->forward(c.x) * 2)) <= 1e-5);
}

}  // namespace
