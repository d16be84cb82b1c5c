// Specialised modules: what is reduced along dimensions, and long rows; beside LibTorch in double precision.
#include <numeric>
#include <random>

#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

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
/// Some of the dimensions, at least one, in order.
std::vector<std::int64_t> drawn_dims(std::int64_t count, std::mt19937& drawn) {
  std::vector<std::int64_t> dims;
  while (dims.empty())
    for (std::int64_t d = 0; d < count; ++d)
      if (drawn() % 2) dims.push_back(d);
  return dims;
}
TEST_CASE("drawn reductions over any dimensions of tensors whose memory lies anyhow") {
  std::mt19937 drawn(41);
  torch::manual_seed(41);
  const std::int64_t lengths[] = {1, 2, 3, 5, 8, 16, 33, 48};
  for (int round = 0; round < 7; ++round) {
    CAPTURE(round);
    std::vector<std::int64_t> sizes(2 + drawn() % 4), order(sizes.size());
    std::int64_t elements = 1;
    for (std::int64_t& size : sizes) {
      size = lengths[drawn() % 8];
      if (elements * size > 30000) size = 1;
      elements *= size;
    }
    if (round == 0) sizes = {300, 150};
    if (round == 1) sizes = {2, 70, 37};
    order.resize(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), drawn);
    CAPTURE(sizes);
    CAPTURE(order);
    // As in memory another tensor would lie whose dimensions are in this order.
    const auto lying = [&](const Tensor& t) {
      std::vector<std::int64_t> back(order.size());
      for (std::size_t i = 0; i < order.size(); ++i)
        back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
      return t.permute(order).contiguous().permute(back);
    };
    struct Call {
      unsigned operation;
      std::vector<std::int64_t> dims;
      bool keep, integers, before;
    };
    std::vector<Call> calls;
    for (unsigned i = 0; i < 32; ++i)
      calls.push_back({i % 16, drawn_dims(static_cast<std::int64_t>(sizes.size()), drawn), drawn() % 2 == 0,
                       drawn() % 4 == 0, drawn() % 3 == 0});
    const Forward f = [=](const Tensors& in) {
      Tensors results;
      for (const Call& call : calls) {
        const bool exact = call.operation < 8;
        Tensor x = exact && call.integers ? in[1] : in[0];
        if (call.before) x = x * 2 - 1;
        const std::vector<std::int64_t>& dims = call.dims;
        const std::int64_t d = dims[0];
        switch (call.operation) {
          case 0: results.push_back(x.amax(dims, call.keep)); break;
          case 1: results.push_back(x.amin(dims, call.keep)); break;
          case 2: results.push_back(x.argmax(d, call.keep)); break;
          case 3: results.push_back(x.argmin(d, call.keep)); break;
          case 4: results.push_back(x.sum(dims, call.keep)); break;
          case 5: results.push_back(torch::any(x > 1, dims, call.keep)); break;
          case 6: results.push_back(torch::all(x > -2, dims, call.keep)); break;
          case 7: results.push_back(call.keep ? x.argmax() : std::get<1>(x.max(d))); break;
          case 8: results.push_back(x.mean(dims, call.keep)); break;
          case 9: results.push_back((x * 0.1 + 1).prod(d, call.keep)); break;
          case 10: results.push_back(x.var(dims, call.keep, call.keep)); break;
          case 11: results.push_back(x.std(dims, !call.keep, call.keep)); break;
          case 12: results.push_back(torch::linalg_vector_norm(x, 2, dims, call.keep)); break;
          case 13: results.push_back(torch::linalg_vector_norm(x, call.keep ? 1 : infinite, dims, call.keep)); break;
          case 14: results.push_back(x.logsumexp(dims, call.keep)); break;
          default: results.push_back(x.relu().sum(dims, call.keep) + 1); break;
        }
      }
      return all_of(results);
    };
    const Tensor x = torch::randn(sizes), n = torch::randint(-9, 9, sizes);
    Tensor odd = x.clone(), ties = torch::randint(-1, 2, sizes).to(torch::kFloat);
    odd.view(-1)[static_cast<std::int64_t>(drawn()) % odd.numel()] = not_a_number;
    odd.view(-1)[static_cast<std::int64_t>(drawn()) % odd.numel()] = infinite;
    check(f, {lying(x), lying(n)},
          {.more = {{lying(odd), lying(n)}, {lying(ties), lying(n)}, {x, n}, {sliced_copy(x), lying(n)}}});
  }
}
TEST_CASE("points whose channels lie behind each other are reduced along memory") {
  torch::manual_seed(42);
  auto net = std::make_shared<Net>();
  const auto layer = net->module(torch::nn::Conv1d(torch::nn::Conv1dOptions(16, 256, 1)));
  net->function = [=](const Tensors& in) {
    auto convolution = layer;
    const Tensor x = convolution(in[0]).relu();
    return all_of({x.amax({2}), std::get<1>(x.max(2)), x.sum(2), x.std(2), x.logsumexp(2)});
  };
  const auto compiled = check(*net, {torch::randn({2, 16, 300})});
  int columns = 0;
  for (const KernelStep& step : compiled->kernel_plan().steps)
    if (const auto* rows = std::get_if<plans::Rows>(&step.kernel)) columns += rows->columns == 256;
  CHECK(columns == 5);
}
TEST_CASE("the extremes of a product's rows are kept while it is computed") {
  torch::manual_seed(73);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({200, 17}, 0.3), b = net->parameter({200}),
               pixel = net->parameter({160, 17, 1, 1}, 0.3), point = net->parameter({144, 17, 1}, 0.3),
               last = net->parameter({5, 200});
  net->function = [=](const Tensors& in) {
    const auto rows = [&](double factor) { return torch::linear(in[0] * factor, w, b); };
    const auto image = [&](double factor) { return torch::conv2d(in[1] * factor, pixel); };
    const Tensor twice = rows(7);
    return all_of({rows(1).amax(1), rows(2).relu().amin({1}, true), torch::linear(rows(3).tanh().amax({0, 1}), last),
                   rows(4).amax({0}), std::get<0>(rows(5).max(1)), twice.amax(1), twice.sum(1), rows(6).amax(2),
                   std::get<0>(rows(8).min(0, true)), std::get<1>(rows(9).max(1)), image(1).amax({2, 3}),
                   image(2).relu().amax({0, 3}), image(3).amin({2}, true),
                   torch::conv1d(in[1].flatten(2), point).amax(2), (rows(10) > 0).any(1),
                   torch::linear(in[0].slice(1, 0, 3), w).amax(1)});
  };
  const Tensor x = torch::randn({3, 37, 17}), y = torch::randn({2, 17, 9, 7});
  const auto compiled = check(*net, {x, y}, {.more = {{-x, y.contiguous(at::MemoryFormat::ChannelsLast)}}});
  CHECK(std::ranges::count_if(compiled->kernel_plan().steps, [](const KernelStep& s) { return keeps_extremes(s); }) ==
        6);

  // nan stays, and infinities do.
  torch::NoGradGuard no_grad;
  auto odd = std::make_shared<Net>();
  const Tensor v = odd->parameter({130, 4});
  odd->function = [=](const Tensors& in) {
    const Tensor made = torch::linear(in[0], v), other = torch::linear(in[0] * 2, v);
    return all_of({made.amax(0), other.amin(0)});
  };
  for (const double number : {not_a_number, infinite, -infinite}) {
    Tensor in = torch::randn({40, 4});
    in.index_put_({17, 2}, number);
    const auto of =
        fxx::compile(*traced_net(*odd, {in}), {in}, {.threads = 2, .tolerance = infinite, .cache_folder = cache()});
    const Tensors given = tensors_of(of->run(boxed({in}))), wanted = in_double(*odd, {in});
    CHECK(std::ranges::count_if(of->kernel_plan().steps, [](const KernelStep& s) { return keeps_extremes(s); }) == 2);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      CHECK(torch::allclose(given[i], wanted[i].to(torch::kFloat), 1e-5, 1e-5, /*equal_nan=*/true));
  }
}

TEST_CASE("any and all over no dimension are of each element") {
  const Forward f = [](const Tensors& in) {
    return all_of({torch::any(in[0], at::IntArrayRef{}), torch::all(in[0], at::IntArrayRef{}),
                   torch::any(in[0], at::IntArrayRef{}, true) * 2, in[0].sum(at::IntArrayRef{})});
  };
  check(f, {torch::tensor({0., 1., -2., 0., 3., 0.}).to(torch::kFloat).view({2, 3})},
        {.called_back = {"aten::any.dims", "aten::all.dims"}});
}
TEST_CASE("the mean over the pixels of images that are no floats") {
  torch::manual_seed(32);
  const Forward f = [](const Tensors& in) {
    return all_of({in[0].mean({2, 3}), in[1].permute({0, 3, 1, 2}).mean({2, 3}, true)});
  };
  check(f, {torch::randn({2, 8, 5, 6}, torch::kDouble).contiguous(at::MemoryFormat::ChannelsLast),
            torch::randn({2, 5, 6, 8}).to(torch::kHalf)},
        {.called_back = {"aten::mean.dim"}});
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

}  // namespace

TEST_CASE("what is of one value throughout has norms and deviations of zero") {
  const Forward f = [](const Tensors& in) {
    const Tensor x = in[0].unsqueeze(0);
    return all_of({torch::layer_norm(in[0], {in[0].size(-1)}), torch::group_norm(x, 1),
                   torch::instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false), x.var(-1), x.std(1), x.var(),
                   x.std({1, 2}, false)});
  };
  for (const std::int64_t n : {7, 64, 768, 1000}) {
    CAPTURE(n);
    const Tensors constant{torch::full({3, n}, 1000.3F)};
    const auto compiled = check(f, {torch::randn({3, n})}, {.more = {{torch::full({3, n}, 3.F)}}});
    for (const Tensor& t : tensors_of(compiled->run(boxed(constant)))) CHECK(t.abs().max().item<float>() < 1e-6);
  }
}

TEST_CASE("deviations of numbers whose squares are no floats") {
  const auto all = [](const Tensor& x) { return all_of({x.std(-1), x.std({0}), x.std(), x.std({1}, 0, true)}); };
  for (const double scale : {1e-25, 1e20}) {
    torch::manual_seed(21);
    const Tensor x = torch::randn({5, 19}) * scale;
    const auto compiled = fxx::compile(*traced([&](const Tensors& in) { return all(in[0]); }, {x}), {x},
                                       {.cache_folder = cache()});
    CHECK(compiled->called_back().empty());
    const Tensors given = tensors_of(compiled->run({x})), wanted = tensors_of(all(x.to(torch::kDouble)));
    for (std::size_t i = 0; i < given.size(); ++i)
      CHECK(relative_difference(given[i].to(torch::kDouble) / scale, wanted[i] / scale) <= 1e-6);
  }
}

TEST_CASE("a result that is nothing but rounding is no reason to refuse a module") {
  const Forward f = [](const Tensors& in) {
    return all_of({torch::layer_norm(in[0], {10}).mean(1), (in[0] - in[0].mean(1, true)).sum(1)});
  };
  for (int seed = 0; seed < 6; ++seed) {
    torch::manual_seed(seed);
    const Tensor x = torch::randn({3, 10});
    const auto gm = traced_net(*net_of(f), {x});
    CHECK_NOTHROW(fxx::compile(*gm, {x}, {.threads = 1, .cache_folder = cache()}));
  }
}
