// Specialised modules: pooling, images and sequences of other sizes, padding by what is inside; beside LibTorch in double
// precision.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

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

TEST_CASE("images are resized by the factor that was given, where their sizes would be reached by another") {
  torch::manual_seed(44);
  const Forward f = [](const Tensors& in) {
    using Options = F::InterpolateFuncOptions;
    Tensors results;
    for (const std::vector<double>& factors : {std::vector{1.3, 1.15}, {1., 2.1}, {1., 2.}})
      results.push_back(F::interpolate(in[0], Options().scale_factor(factors).mode(torch::kNearestExact)));
    results.push_back(F::interpolate(in[0], Options().scale_factor(std::vector{1., 2.}).mode(torch::kNearest)));
    results.push_back(F::interpolate(in[0], Options().scale_factor(std::vector{1.3, 1.15}).mode(torch::kBilinear)));
    results.push_back(F::interpolate(in[0], Options().scale_factor(std::vector{1., 2.1}).mode(torch::kNearest)));
    return all_of(results);
  };
  check(f, {torch::randn({2, 3, 3, 5})}, {.called_back = {"aten::upsample_nearest2d"}});
}

TEST_CASE("an image that lies beside another is resized where it lies") {
  torch::manual_seed(45);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({5, 3, 3, 3}, 0.2);
  net->function = [=](const Tensors& in) {
    const Tensor x = torch::conv2d(in[0], w, {}, 1, 1).relu();
    return all_of({torch::upsample_nearest2d(x, {24, 20}), torch::upsample_bilinear2d(x, {19, 15}, false),
                   torch::cat({x, in[0]}, 1)});
  };
  check(*net, {torch::randn({2, 3, 12, 10})});
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

}  // namespace
