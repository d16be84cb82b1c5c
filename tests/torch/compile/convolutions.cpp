// Specialised modules: convolutions of images and sequences, transposed ones, with whatever comes before and behind;
// beside LibTorch in double precision.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

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
                                   {16, 1, 1, 5, 3, 2, 1, true, true, 2}, {7, 7, 1, 3, 4, 0, 2, false, true},
                                   {1, 5, 1, 7, 1, 3, 1, true, false},    {1, 40, 1, 4, 1, 0, 3, false, false},
                                   {80, 41, 1, 1, 1, 0, 1, true, false},  {6, 6, 6, 9, 4, 4, 1, true, false},
                                   {5, 5, 5, 4, 2, 9, 2, true, false},    {7, 7, 7, 15, 1, 14, 1, false, false}};
  for (const std::array<std::int64_t, 2>& size : std::vector<std::array<std::int64_t, 2>>{{3, 19}, {1, 40}, {2, 1100}}) {
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

TEST_CASE("what convolutions of single channels read is copied or computed by rows, padding and all") {
  torch::manual_seed(13);
  struct Case {
    std::int64_t batch, channels, height, width, kernel, stride, padding, dilation;
    bool computed;
  };
  const std::vector<Case> cases = {{1, 64, 70, 83, 3, 1, 1, 1, false},
                                   {2, 33, 91, 67, 5, 2, 2, 1, true},
                                   {1, 48, 80, 80, 3, 1, 4, 4, true},
                                   {3, 16, 75, 90, 3, 3, 0, 2, false},
                                   {1, 7, 230, 201, 7, 1, 3, 1, true}};
  for (const Case& c : cases) {
    CAPTURE(c.channels);
    auto net = std::make_shared<Net>();
    const Tensor w = net->parameter({c.channels, 1, c.kernel, c.kernel}, 0.3), b = net->parameter({c.channels}),
                 scale = net->parameter({c.channels, 1, 1});
    net->function = [=](const Tensors& in) -> c10::IValue {
      const Tensor x = c.computed ? torch::silu(in[0] * scale + in[0]) : in[0];
      return torch::relu(torch::conv2d(x, w, b, c.stride, c.padding, c.dilation, c.channels));
    };
    const auto last = [&] {
      return torch::randn({c.batch, c.channels, c.height, c.width}).contiguous(at::MemoryFormat::ChannelsLast);
    };
    Tensor x = last();
    const auto compiled = check(*net, {x}, {.more = {{last()}}});
    int blocks = 0;
    for (const KernelStep& step : compiled->kernel_plan().steps)
      blocks += std::holds_alternative<plans::DepthwiseBlock>(step.kernel);
    CHECK(blocks == (c.padding > 0 || c.computed));
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

/// Of images, with a number for both dimensions or two.
Tensor convolved(const Tensor& x, const Tensor& w, const Tensor& bias = {}, std::vector<std::int64_t> stride = {1},
                 std::vector<std::int64_t> padding = {0}, std::int64_t dilation = 1, std::int64_t groups = 1) {
  return torch::conv2d(x, w, bias, stride, padding, dilation, groups);
}

TEST_CASE("of a convolution whose slice alone is read that is computed") {
  torch::manual_seed(74);
  auto net = std::make_shared<Net>();
  std::vector<Tensor> layers;
  for (int i = 0; i < 3; ++i) layers.push_back(net->parameter({17, 17, 3}, 0.2));
  const Tensor w = net->parameter({18, 3, 3, 3}, 0.3), v = net->parameter({20, 18, 3, 3}, 0.2),
               b = net->parameter({20}), d = net->parameter({18, 1, 4, 1}), tall = net->parameter({6, 1, 5, 1}),
               same = net->parameter({18, 3, 1, 1});
  net->function = [=](const Tensors& in) {
    Tensor x = in[0];
    for (std::int64_t i = 0, dilation = 1; i < 3; ++i, dilation *= 2) {
      const Tensor y = torch::conv1d(x, layers[static_cast<std::size_t>(i)], {}, at::IntArrayRef{1},
                                     at::IntArrayRef{2 * dilation}, at::IntArrayRef{dilation});
      x = (y.slice(2, 0, -2 * dilation).relu() + x).slice(2, 0, 1000);
    }
    const auto made = [&](double shift) { return convolved(in[1] + shift, w, {}, {1}, {2}); };
    const Tensor twice = convolved(made(3), v);
    return all_of({x, convolved(made(0), v, b, {1}, {1}).relu().slice(2, 2, 9),
                   convolved(made(1), v, b, {2}, {1}).narrow(3, 1, 4),
                   (convolved(in[1], same) + made(2).slice(2, 1, -1).slice(3, 2, 12)).slice(2, 3), twice.slice(2, 1),
                   twice.slice(3, 0, 2), convolved(made(4), d, {}, {2, 1}, {3, 0}, 1, 18).slice(2, 1, -1),
                   convolved(in[1].slice(1, 0, 1).slice(3, 0, 1), tall, {}, {1}, {4, 0}).slice(2, 2, 7),
                   convolved(made(6), v, b).slice(1, 3, 9).slice(0, 1), convolved(made(7), v, b).slice(2, 0, 9, 2)});
  };
  const Tensor x = torch::randn({2, 17, 23}), y = torch::randn({2, 3, 11, 10});
  const auto compiled =
      check(*net, {x, y}, {.tolerance = 2e-5, .more = {{x, y.contiguous(at::MemoryFormat::ChannelsLast)}}});
  CHECK(std::ranges::any_of(compiled->kernel_plan().steps, [](const KernelStep& step) {
    const auto* k = std::get_if<plans::Convolution>(&step.kernel);
    return k && k->out_channels == 20 && k->stride_width == 2 && k->out_width == 4;
  }));
}

/// How many steps copy or fill, and compute nothing.
std::size_t copies_in(const KernelPlan& plan) {
  return static_cast<std::size_t>(std::ranges::count_if(plan.steps, [](const KernelStep& step) {
    return std::holds_alternative<plans::Pointwise>(step.kernel) && step.flops == 0;
  }));
}

TEST_CASE(
    "zeros around an image are the border of what computes it: causal layers, one side only, pools, what others read") {
  torch::manual_seed(71);
  {
    CAPTURE("causal layers, each dilated more");
    auto net = std::make_shared<Net>();
    std::vector<std::array<Tensor, 2>> layers;
    for (int i = 0; i < 4; ++i) layers.push_back({net->parameter({17, 17, 3}, 0.2), net->parameter({17})});
    net->function = [=](const Tensors& in) {
      Tensor x = in[0];
      for (std::int64_t i = 0, dilation = 1; i < 4; ++i, dilation *= 2) {
        const Tensor padded =
            i % 2 ? F::pad(x, F::PadFuncOptions({2 * dilation, 0})) : torch::constant_pad_nd(x, {2 * dilation, 0});
        const Tensor y =
            torch::conv1d(padded, layers[static_cast<std::size_t>(i)][0], layers[static_cast<std::size_t>(i)][1],
                          at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{dilation});
        x = y.relu() + x;
      }
      return c10::IValue(x);
    };
    for (const auto& [batch, length] : {std::pair{1, 50}, {3, 7}}) {
      const auto compiled =
          check(*net, {torch::randn({batch, 17, length})}, {.more = {{torch::randn({batch, 17, length})}}});
      CHECK(copies_in(compiled->kernel_plan()) <=
            2);  // the input with its border, and the result as the caller wants it
    }
  }
  {
    CAPTURE("images");
    auto net = std::make_shared<Net>();
    const Tensor w = net->parameter({17, 3, 3, 3}), v = net->parameter({5, 17, 3, 3}),
                 d = net->parameter({17, 1, 3, 3}), g = net->parameter({17, 1, 5, 2}),
                 one = net->parameter({6, 17, 1, 1}), wide = net->parameter({17, 17, 3, 3}),
                 up = net->parameter({17, 4, 3, 3});
    net->function = [=](const Tensors& in) {
      const auto pad = [](const Tensor& x, std::vector<std::int64_t> by, double value = 0) {
        return torch::constant_pad_nd(x, by, value);
      };
      const auto made = [&](double shift) { return convolved(in[0] + shift, w, {}, {1}, {1}).relu(); };
      const Tensor a = made(0), b = made(1), c = made(2), e = made(3), shared = pad(made(4), {1, 2, 3, 0});
      const Tensor parts = torch::cat({made(5), made(6).slice(1, 0, 4)}, 1);
      return all_of({convolved(pad(a, {0, 1, 0, 1}), d, {}, {2}, {0}, 1, 17),
                     convolved(pad(b, {1, 2}), v, {}, {1, 2}, {2, 0}),
                     torch::max_pool2d(pad(-c, {0, 1, 1, 0}), 3, 2),
                     torch::avg_pool2d(pad(e, {2, 1, 0, 1}), 2),
                     shared,
                     convolved(shared, g, {}, {1}, {0}, 1, 17),
                     convolved(shared, one),
                     convolved(pad(pad(made(7), {1, 0, 0, 2}), {0, 3}), wide, {}, {1}, {1}),
                     convolved(pad(made(8), {1, 1, 1, 1}).sigmoid(), v),
                     convolved(pad(made(9), {1, 0, 1, 0}, 2), v),
                     convolved(pad(made(10), {-1, 2, 1, -2}), v),
                     convolved(pad(parts, {1, 1, 0, 2}).slice(1, 2, 19), v),
                     convolved(pad(in[0], {0, 1, 2, 0}), w),
                     convolved(pad(in[0].slice(2, 1, 9), {2, 0}), w, {}, {1}, {1}),
                     a,
                     parts,
                     torch::conv_transpose2d(pad(made(11), {1, 0, 0, 1}), up, {}, {2}, {1}),
                     convolved(pad(made(12), {0, 0, 0, 1}).slice(2, 1, 9), wide, {}, {1}, {1}),
                     pad(made(13), {1, 1, 1, 1}).mean({2, 3}),
                     convolved(pad(made(14), {0, 0, 0, 0, 0, 0}), v)});
    };
    const Tensor x = torch::randn({2, 3, 11, 10});
    check(*net, {x}, {.tolerance = 2e-5, .more = {{x.contiguous(at::MemoryFormat::ChannelsLast)}}});
  }
  {
    CAPTURE("a wide image before a filter of single channels, joined with the product that makes it");
    auto net = std::make_shared<Net>();
    const Tensor expand = net->parameter({96, 16, 1, 1}), filter = net->parameter({96, 1, 3, 3}),
                 back = net->parameter({24, 96, 1, 1});
    net->function = [=](const Tensors& in) {
      const Tensor wide = convolved(in[0], expand).relu();
      return c10::IValue(
          convolved(convolved(torch::constant_pad_nd(wide, {0, 1, 0, 1}), filter, {}, {2}, {0}, 1, 96).relu(), back));
    };
    const auto compiled = check(*net, {torch::randn({1, 16, 60, 61})});
    CHECK(std::ranges::any_of(compiled->kernel_plan().steps, [](const KernelStep& step) {
      const auto* block = std::get_if<plans::DepthwiseBlock>(&step.kernel);
      return block && block->expand;
    }));
  }
}

TEST_CASE("images one pixel wide, lines of one channel, and filters larger than what they are laid on") {
  torch::manual_seed(72);
  struct Case {
    std::vector<std::int64_t> in, weight;
    std::int64_t stride, padding, dilation, groups;
    std::vector<std::int64_t> zeros = {};
    std::int64_t padding_width = 0;
  };
  const std::vector<Case> cases = {
      {{3, 1, 301, 1}, {20, 1, 64, 1}, 4, 31, 1, 1},      {{1, 20, 40, 1}, {9, 20, 16, 1}, 1, 0, 1, 1, {0, 0, 7, 8}},
      {{2, 17, 31, 1}, {33, 17, 5, 1}, 2, 2, 3, 1},       {{2, 18, 13, 1}, {18, 1, 3, 1}, 1, 1, 2, 18},
      {{2, 18, 13, 1}, {12, 6, 4, 1}, 3, 2, 1, 3},        {{1, 5, 8, 1}, {7, 5, 64, 1}, 1, 0, 1, 1, {0, 0, 31, 32}},
      {{2, 5, 1, 1}, {7, 5, 9, 1}, 1, 6, 1, 1},           {{2, 1, 23, 14}, {6, 1, 3, 14}, 1, 2, 1, 1},
      {{3, 1, 9, 7}, {33, 1, 4, 7}, 2, 0, 2, 1},          {{1, 17, 1, 1}, {33, 17, 3, 3}, 1, 1, 1, 1, {}, 1},
      {{2, 33, 2, 3}, {17, 33, 5, 5}, 1, 2, 1, 1, {}, 2}, {{1, 6, 4, 4}, {8, 6, 3, 3}, 1, 6, 6, 1, {}, 6},
      {{1, 6, 4, 5}, {8, 6, 3, 3}, 1, 7, 6, 1, {}, 5},    {{1, 6, 4, 4}, {6, 1, 3, 3}, 2, 12, 12, 6, {}, 12},
      {{2, 16, 1, 9}, {16, 16, 3, 3}, 1, 1, 1, 1, {}, 1}, {{1, 4, 6, 1}, {4, 4, 1, 1}, 1, 1, 1, 1},
      {{2, 16, 2, 2}, {16, 16, 3, 3}, 1, 3, 1, 1, {}, 3}, {{1, 3, 2, 2}, {5, 3, 2, 2}, 1, 4, 4, 1, {}, 4}};
  auto net = std::make_shared<Net>();
  std::vector<std::array<Tensor, 2>> weights;
  Tensors inputs, last;
  for (const Case& c : cases) {
    weights.push_back({net->parameter(c.weight, 0.3), net->parameter({c.weight[0]})});
    inputs.push_back(torch::randn(c.in));
    last.push_back(inputs.back().contiguous(at::MemoryFormat::ChannelsLast));
  }
  const auto layer = [=](std::size_t i, const Tensor& in) {
    const Case& c = cases[i];
    const Tensor x = c.zeros.empty() ? in : torch::constant_pad_nd(in, c.zeros);
    return torch::conv2d(x, weights[i][0], weights[i][1], at::IntArrayRef{c.stride, c.stride},
                         at::IntArrayRef{c.padding, c.padding_width},
                         at::IntArrayRef{c.dilation, c.in[3] == 1 || c.weight[3] == c.in[3] ? 1 : c.dilation},
                         c.groups);
  };
  net->function = [=](const Tensors& in) {
    Tensors results;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      results.push_back(layer(i, in[i]));                 // of what the caller has
      results.push_back(layer(i, in[i] * 2 + 1).relu());  // of what is made before
      if (cases[i].in[3] == 1)
        results.push_back(layer(i, (in[i].squeeze(3).transpose(1, 2) + 1).transpose(1, 2).unsqueeze(3)));
    }
    return all_of(results);
  };
  check(*net, inputs, {.more = {last}});

  // What multiplies zeros only is left out, unless that is nan.
  torch::NoGradGuard no_grad;
  auto odd = std::make_shared<Net>();
  Tensor w = odd->parameter({3, 2, 5}), v = odd->parameter({3, 2, 5, 1});
  w.index_put_({0, 0, 0}, infinite);
  v.index_put_({1, 1, 4, 0}, not_a_number);
  odd->function = [=](const Tensors& in) {
    return all_of({torch::conv1d(torch::constant_pad_nd(in[0], {2, 2}), w), convolved(in[1], v, {}, {1}, {2, 0})});
  };
  const Tensors in = {torch::randn({1, 2, 1}), torch::randn({1, 2, 2, 1})};
  const auto compiled =
      fxx::compile(*traced_net(*odd, in), in, {.threads = 1, .tolerance = infinite, .cache_folder = cache()});
  const Tensors given = tensors_of(compiled->run(boxed(in))), wanted = in_double(*odd, in);
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(torch::equal(given[i].isnan(), wanted[i].isnan()));
}

}  // namespace
