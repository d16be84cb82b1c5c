// Specialised modules: elements that go to places which tensors tell, bags of rows, one-hot rows; beside LibTorch in double
// precision, over sizes, dtypes and strides, with places that are none.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
namespace F = torch::nn::functional;

namespace {

/// The module's error for a place that is none, after which it works as before.
void check_out_of_range(CompiledModule& compiled, const Tensors& good, const Tensors& bad, const Tensors& expected) {
  const Fault fault = fault_of<RunError>([&] { compiled.run(boxed(bad)); });
  CHECK(fault.id == 701);
  CHECK(fault.says("out of range"));
  CHECK(error_of(compiled.run(boxed(good)), expected) <= 1e-5);
}

TEST_CASE("scatter and its reductions: along each dimension, of tensors and numbers, with what was there and without") {
  torch::manual_seed(50);
  auto net = std::make_shared<Net>();
  net->function = [](const Tensors& in) {
    const Tensor &x = in[0], &source = in[1], &first = in[2], &last = in[3], &one = in[4];
    // [6, 5, 19], [4, 5, 19], [4, 3, 17] up to 5, [6, 4, 7] up to 18, [13] up to 5
    const Tensor wide = one.view({13, 1, 1}).expand({13, 5, 19}), rows = torch::ones({13, 5, 19}, x.options());
    return all_of(
        {x.scatter(0, first, source),
         x.scatter(0, first, 3) + 1,
         (x * 2).scatter(2, last, source.select(0, 0).slice(0, 0, 4).slice(1, 0, 7).expand({6, 4, 7})),
         x.scatter(1, first.remainder(5), source.relu()),
         x.scatter_add(0, first, source),
         x.scatter_add(2, last, x.exp()),
         torch::zeros_like(x).scatter_add(0, wide, rows * x.select(0, 1)),
         torch::zeros({6}, x.options()).scatter_add(0, one, torch::ones({13}, x.options())),
         torch::zeros({6, 5}, x.options()).scatter_add(0, one.view({13, 1}).expand({13, 5}), rows.select(2, 0)),
         x.scatter(0, first, source, "add"),
         x.scatter(0, first, source, "multiply"),
         x.scatter(2, last, 0.5, "multiply"),
         x.scatter_reduce(0, first, source, "sum"),
         x.scatter_reduce(0, first, source, "sum", false),
         x.scatter_reduce(0, first, source, "prod"),
         x.scatter_reduce(0, first, source, "mean"),
         x.scatter_reduce(2, last, x, "mean", false),
         x.scatter_reduce(0, first, source, "amax"),
         x.scatter_reduce(0, first, source, "amax", false),
         x.scatter_reduce(2, last, x.neg(), "amin"),
         x.scatter_reduce(2, last, x.neg(), "amin", false),
         x.transpose(0, 2).scatter_add(2, first.transpose(0, 2), source.transpose(0, 2)),
         x.scatter_add(0, first, source).softmax(-1),
         x.scatter_add(0, first, source).scatter_add(2, last, x).scatter(1, first.remainder(5), 7),
         x.scatter_add(0, first, x.slice(0, 1, 5) * 3)});
  };
  const auto make = [] {
    return Tensors{torch::randn({6, 5, 19}), torch::randn({4, 5, 19}), torch::randint(6, {4, 3, 17}),
                   torch::randint(19, {6, 4, 7}), torch::randint(6, {13})};
  };
  const Tensors in = make();
  Tensors turned = make(), special = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  turned[4] = sliced_copy(turned[4]);
  special[1].index_put_({1, 2}, infinite);
  special[1].index_put_({0, 1}, not_a_number);
  special[0].index_put_({3, 0}, -infinite);
  const auto compiled = check(*net, in, {.more = {make(), turned, special}});
  const Tensors expected = in_double(*net, in);
  for (const std::int64_t wrong : {std::int64_t(19), std::int64_t(-1), std::int64_t(1) << 40}) {
    Tensors bad = cloned(in);
    bad[3][2][1][6] = wrong;
    check_out_of_range(*compiled, in, bad, expected);
  }
}
TEST_CASE("index_add, index_copy, index_fill, index_reduce: rows, columns, single elements") {
  torch::manual_seed(51);
  auto net = std::make_shared<Net>();
  const Tensor table = net->parameter({6, 5, 19});
  net->function = [=](const Tensors& in) {
    const Tensor &x = in[0], &rows = in[1], &few = in[2],
                 &n = in[3];  // [6, 5, 19], [8, 5, 19], [8] up to 4, [6, 5, 19]
    const Tensor columns = rows.select(0, 0).slice(0, 0, 5), ids = few.to(torch::kInt);
    return all_of({x.index_add(0, few, rows),
                   x.index_add(0, ids, rows.relu(), 0.5),
                   torch::zeros({6, 19}, x.options()).index_add(0, few, rows.select(1, 2)),
                   torch::zeros({6}, x.options()).index_add(0, few, rows.select(2, 3).select(1, 2)),
                   x.index_add(1, few, rows.permute({1, 0, 2}).repeat({2, 1, 1}).slice(0, 0, 6)) * 2,
                   x.transpose(0, 2).index_add(2, few, rows.transpose(0, 2)),
                   x.index_add(2, few, x.slice(2, 0, 8)).argmax(-1),
                   x.index_copy(0, few, rows),
                   x.index_copy(1, few, x.slice(1, 0, 1).expand({6, 8, 19})),
                   x.index_fill(0, few, 3),
                   x.index_fill(2, few - 5, -infinite).softmax(-1).nan_to_num(2),
                   x.index_fill(1, few, x.select(0, 0).select(0, 0)[0]),
                   x.index_reduce(0, few, rows, "prod"),
                   x.index_reduce(0, few, rows, "mean"),
                   x.index_reduce(0, few, rows, "mean", false),
                   x.index_reduce(0, few, rows, "amax", false),
                   x.index_reduce(0, few, rows, "amin"),
                   table.index_add(0, few, rows),
                   n.index_add(0, few, n.slice(0, 0, 1).expand({8, 5, 19}), 3),
                   n.index_copy(0, few, n.slice(0, 0, 1).expand({8, 5, 19})),
                   n.index_fill(1, few, 7),
                   (n > 0).index_fill(1, few, true),
                   n.to(torch::kInt).index_add(2, few, n.to(torch::kInt).slice(2, 0, 8)),
                   n.to(torch::kByte).index_add(2, few, n.to(torch::kByte).slice(2, 0, 8)),
                   torch::one_hot(few, 6),
                   torch::one_hot(few.view({2, 4}), 5).to(x.scalar_type()) * 2,
                   torch::one_hot(few, 23).sum(0),
                   torch::linear(torch::one_hot(few, 19).to(x.scalar_type()), table[0])});
  };
  const auto make = [] {
    return Tensors{torch::randn({6, 5, 19}), torch::randn({8, 5, 19}), torch::randint(5, {8}),
                   torch::randint(-9, 9, {6, 5, 19})};
  };
  const Tensors in = make();
  Tensors turned = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  turned[2] = sliced_copy(turned[2]);
  const auto compiled = check(*net, in, {.more = {make(), turned}});
  const Tensors expected = in_double(*net, in);
  for (const std::int64_t wrong : {std::int64_t(6), std::int64_t(-1), std::int64_t(1) << 40}) {
    Tensors bad = cloned(in);
    bad[2][7] = wrong;
    check_out_of_range(*compiled, in, bad, expected);
  }
}

TEST_CASE("tensors put at tensors of integers, added there, and everywhere a mask says") {
  torch::manual_seed(52);
  const Forward f = [](const Tensors& in) {
    using torch::indexing::Slice;
    const Tensor &x = in[0], &few = in[1], &row = in[2], &v = in[3], &m = in[4], &n = in[5];
    // [6, 5, 19], [3] of 0 to 3, [2, 1] of -4 to 3, [2, 3, 19], [6, 5] of booleans, [6, 5, 19] of integers
    const auto none = std::optional<Tensor>();
    const Tensor one = torch::full({}, 3., x.options());
    Tensor kept = x.clone();
    kept.index_put_({few}, x.index({few + 1}) * 2);
    kept.index_put_({Slice(), few}, 5);
    kept.index_put_({m}, 9);
    kept.slice(2, 3, 7).copy_(x.slice(2, 0, 4));
    return all_of({x.index_put({few}, v.select(0, 0).unsqueeze(1).expand({3, 5, 19})),
                   x.index_put({few}, v.sum()),
                   x.index_put({row, few}, v),
                   x.index_put({row, few}, v.relu(), true),
                   torch::index_put(x, {none, few, none}, v.select(0, 0)),
                   torch::index_put(x, {none, none, few}, v.slice(2, 0, 3).slice(1, 0, 1).sum(0)),
                   torch::index_put(x, {few, none, few}, v.select(2, 0).slice(0, 0, 1).t().expand({3, 5}), true),
                   torch::index_put(x, {row, row, few}, v.select(2, 0), true) * 2,
                   x.index_put({few, few, few}, one.expand({3}), true),
                   x.index_put({m}, one),
                   x.index_put({x > 0}, one),
                   x.index_put({m.select(1, 0)}, v.select(0, 0).select(0, 0)[0]),
                   torch::index_put(x, {none, m.t().slice(1, 0, 1).squeeze(1)}, one),
                   n.index_put({few}, n.select(0, 0).slice(0, 0, 1), true),
                   (n > 0).index_put({few}, n.select(0, 0) > 2),
                   kept,
                   x.take(few * 100 - 3),
                   torch::put(x, few * 100 - 3, v.select(2, 0).select(0, 0)),
                   torch::put(x, row, v.select(2, 0).slice(1, 0, 1), true),
                   torch::take_along_dim(x, row.view({1, 2, 1}).abs(), 1),
                   torch::take_along_dim(x.contiguous(), few)});
  };
  const auto make = [] {
    return Tensors{torch::randn({6, 5, 19}), torch::randint(4, {3}),    torch::randint(-4, 4, {2, 1}),
                   torch::randn({2, 3, 19}), torch::rand({6, 5}) > 0.5, torch::randint(-9, 9, {6, 5, 19})};
  };
  const Tensors in = make();
  Tensors turned = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  const auto compiled = check(f, in, {.more = {make(), turned}});
  const Tensors expected = in_double(*net_of(f), in);
  for (const std::int64_t wrong : {std::int64_t(6), std::int64_t(-7), std::int64_t(1) << 40}) {
    Tensors bad = cloned(in);
    bad[2][1][0] = wrong;
    check_out_of_range(*compiled, in, bad, expected);
  }
}

TEST_CASE("bags of rows: sums, means and largest, weights, rows left out, offsets, in place of parts of a whole") {
  torch::manual_seed(53);
  auto net = std::make_shared<Net>();
  const Tensor table = net->parameter({11, 17}), wide = net->parameter({7, 70});
  const auto bag = [&](std::int64_t mode) {
    torch::nn::EmbeddingBagOptions options(11, 16);
    if (mode == 0) options.mode(torch::kSum);
    if (mode == 1) options.mode(torch::kMean);
    if (mode == 2) options.mode(torch::kMax);
    return net->module(torch::nn::EmbeddingBag(options));
  };
  const auto sums = bag(0), means = bag(1), most = bag(2);
  const auto padded =
      net->module(torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(11, 5).mode(torch::kMean).padding_idx(3)));
  net->function = [=](const Tensors& in) {
    const Tensor &ids = in[0], &offsets = in[1], &weights = in[2], &square = in[3];  // [23], [6], [23], [4, 5]
    const auto of = [&](const Tensor& table, const Tensor& offsets, std::int64_t mode, bool last = false,
                        const Tensor& weights = {}) {
      return std::get<0>(torch::embedding_bag(table, ids, offsets, false, mode, false,
                                              weights.defined() ? std::optional(weights) : std::nullopt, last));
    };
    const Tensor ends = torch::cat({offsets, torch::full({1}, 23, offsets.options())});
    return all_of(
        {sums.ptr()->forward(ids, offsets), means.ptr()->forward(ids, offsets) * 2,
         most.ptr()->forward(ids, offsets).relu(), padded.ptr()->forward(ids, offsets), sums.ptr()->forward(square),
         means.ptr()->forward(square).softmax(-1), sums.ptr()->forward(ids, offsets, weights),
         of(table, offsets, 0, false, weights.tanh()), of(table, ends, 1, true), of(table, ends, 2, true),
         of(table.slice(1, 1, 9), offsets, 0), of(table.t().contiguous().t(), offsets, 0), of(table * 2, offsets, 0),
         std::get<0>(torch::embedding_bag(wide, ids.remainder(7).to(torch::kInt), offsets.to(torch::kInt))),
         torch::cat({sums.ptr()->forward(ids, offsets), means.ptr()->forward(ids, offsets), of(table, offsets, 0)},
                    1)});
  };
  const auto make = [](Tensor offsets) {
    return Tensors{torch::randint(11, {23}), std::move(offsets), torch::randn({23}), torch::randint(11, {4, 5})};
  };
  const Tensors in = make(torch::tensor({0, 0, 3, 4, 17, 20}));
  Tensors other = make(torch::tensor({0, 1, 2, 2, 2, 20}));
  other[0] = sliced_copy(other[0]);
  other[3] = transposed_copy(other[3]);
  const auto compiled = check(*net, in, {.more = {other}});
  const Tensors expected = in_double(*net, in);
  {
    Tensors bad = cloned(in);
    bad[1][0] = 2;  // what stands before the first bag is in none
    bad[1][1] = 2;
    check_out_of_range(*compiled, in, bad, expected);
  }
  for (const std::int64_t wrong : {std::int64_t(11), std::int64_t(-1), std::int64_t(1) << 40}) {
    Tensors bad = cloned(in);
    bad[0][21] = wrong;
    check_out_of_range(*compiled, in, bad, expected);
    bad = cloned(in);
    bad[1][2] = wrong > 0 ? wrong + 13 : wrong;
    check_out_of_range(*compiled, in, bad, expected);
  }
}

TEST_CASE("attention over the edges of a graph, as graph networks have it") {
  torch::manual_seed(54);
  auto net = std::make_shared<Net>();
  const Tensor source_weight = net->parameter({3, 5}), target_weight = net->parameter({3, 5});
  net->function = [=](const Tensors& in) {
    const Tensor &x = in[0], &edges = in[1];  // [11, 3, 5], [2, 40]
    const Tensor source = edges[0], target = edges[1];
    const Tensor scores = torch::leaky_relu(torch::einsum("nhd,hd->nh", {x, source_weight}).index_select(0, source) +
                                                (x * target_weight).sum(-1).index_select(0, target),
                                            0.2);
    const Tensor index = target.unsqueeze(-1).expand_as(scores);
    const Tensor most = torch::full({11, 3}, -infinite, x.options()).scatter_reduce(0, index, scores, "amax");
    const Tensor weights = (scores - most.index_select(0, target)).exp();
    const Tensor sums = torch::zeros({11, 3}, x.options()).scatter_add(0, index, weights);
    const Tensor attention = weights / (sums.index_select(0, target) + 1e-16);
    Tensor degree = torch::zeros({11}, x.options());
    degree.scatter_add_(0, target, torch::ones({40}, x.options()));
    const Tensor norm = degree.pow(-0.5).masked_fill(degree == 0, 0);
    return all_of({torch::zeros_like(x).index_add_(0, target, x.index_select(0, source) * attention.unsqueeze(-1)),
                   torch::zeros({11, 15}, x.options())
                       .index_add_(0, target,
                                   x.flatten(1).index_select(0, source) *
                                       (norm.index_select(0, source) * norm.index_select(0, target)).unsqueeze(-1))});
  };
  check(*net, {torch::randn({11, 3, 5}), torch::randint(11, {2, 40})},
        {.more = {{torch::randn({11, 3, 5}), torch::randint(5, {2, 40})}}});
}

TEST_CASE("means of narrow integers: of more of them than their dtype counts") {
  torch::manual_seed(57);
  const Forward f = [](const Tensors& in) {
    Tensors results;
    for (const bool with_self : {true, false})
      for (const std::size_t i : {0, 1}) {
        const Tensor &x = in[i], &places = in[i + 2], first = x.slice(1, 0, 1);
        results.push_back(first.scatter_reduce(1, places, x, "mean", with_self));
        results.push_back(first.index_reduce(1, places.select(0, 0), x, "mean", with_self));
      }
    return all_of(std::move(results));
  };
  const Tensors places = {torch::zeros({1, 200}, torch::kLong), torch::zeros({1, 40000}, torch::kLong)};
  const auto with = [&](const Tensor& bytes, const Tensor& words) {
    return Tensors{bytes.to(torch::kChar), words.to(torch::kShort), places[0], places[1]};
  };
  check(f, with(torch::ones({1, 200}), torch::ones({1, 40000})),
        {.more = {with(torch::randint(-100, 100, {1, 200}), torch::randint(-100, 100, {1, 40000}))}});
}

TEST_CASE("places in nothing, of nothing, and a graph that writes to what it was given") {
  check(
      [](const Tensors& in) {
        const Tensor none = in[1].slice(0, 0, 0);
        return all_of({in[0].index_add(0, none, in[0].slice(0, 0, 0)), in[0].scatter(1, none.view({0, 1}), 3),
                       in[0].index_fill(0, none, 2), in[0].slice(1, 0, 0).index_add(0, in[1], in[0].slice(1, 0, 0))});
      },
      {torch::randn({3, 4}), torch::tensor({0, 2, 1})});
  // A cache of keys, as decoders keep it.
  const Forward step = [](const Tensors& in) {
    in[0].index_copy_(1, in[2], in[1]);
    return c10::IValue(in[0].sum(1));
  };
  const auto gm = traced_net(*net_of(step), {torch::randn({2, 6, 3}), torch::randn({2, 1, 3}), torch::tensor({4})});
  const auto compiled = fxx::compile(*gm, {torch::randn({2, 6, 3}), torch::randn({2, 1, 3}), torch::tensor({4})},
                                     {.threads = 2, .cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  for (int at = 0; at < 6; ++at) {
    const Tensor cache = torch::randn({2, 6, 3}), fresh = torch::randn({2, 1, 3}), given = cache.clone();
    const Tensor sum = compiled->run({given, fresh, torch::full({1}, at, torch::kLong)}).toTensor();
    const Tensor wanted = cache.index_copy(1, torch::full({1}, at, torch::kLong), fresh);
    CHECK(relative_difference(given, wanted) == 0);
    CHECK(relative_difference(sum, wanted.sum(1)) <= 1e-6);
  }
  // What fails writes nothing.
  const Tensor cache = torch::randn({2, 6, 3}), given = cache.clone();
  CHECK_THROWS_WITH_AS(compiled->run({given, torch::randn({2, 1, 3}), torch::tensor({6})}),
                       doctest::Contains("out of range"), RunError);
  CHECK(relative_difference(given, cache) == 0);
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

}  // namespace
