// Specialised modules: images and sequences without a batch, and volumes, as images; beside LibTorch in double precision.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

TEST_CASE("one image or sequence without a batch: convolutions and pooling are those of a batch of one") {
  torch::manual_seed(81);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({8, 6, 3, 3}, 0.2), b = net->parameter({8}), up = net->parameter({8, 5, 2, 2}, 0.3);
  const Tensor v = net->parameter({6, 3, 5}, 0.3), grown = net->parameter({6, 4, 3}, 0.3);
  net->function = [=](const Tensors& in) {
    const Tensor &image = in[0], &line = in[1];  // [6, 8, 12], [6, 14]
    const Tensor features = torch::conv2d(image, w, b, 1, 1).relu();
    return all_of({features, torch::conv2d(image, w, b, 2, c10::string_view("valid")),
                   torch::conv_transpose2d(features, up, {}, 2), torch::max_pool2d(features, 2) + 1,
                   torch::avg_pool2d(image, {3, 2}, {2, 1}, 1), torch::adaptive_avg_pool2d(features, {2, 3}),
                   std::get<0>(torch::adaptive_max_pool2d(features, {4, 4})),
                   std::get<0>(torch::max_pool2d_with_indices(image, 2)),
                   torch::conv1d(line, v, {}, 1, 2, 1, 2).tanh(), torch::conv1d(line, v, {}, 1, "same", 1, 2),
                   torch::conv_transpose1d(line, grown, {}, 2, 1), torch::max_pool1d(line, 3, 2),
                   torch::avg_pool1d(line, 4), torch::adaptive_avg_pool1d(line, 7),
                   std::get<0>(torch::adaptive_max_pool1d(line, 2))});
  };
  const Tensor image = torch::randn({6, 8, 12}), line = torch::randn({6, 14});
  check(*net, {image, line}, {.more = {{transposed_copy(image), sliced_copy(line)}}});
}

TEST_CASE("weights that forward makes of one value are constants") {
  torch::manual_seed(86);
  auto net = std::make_shared<Net>();
  const Tensor scale = net->parameter({4, 1, 1, 1});
  net->function = [=](const Tensors& in) {
    const Tensor& x = in[0];  // [2, 4, 6, 7]
    const auto ones = [&](std::vector<std::int64_t> sizes) { return torch::ones(sizes, x.options()); };
    return all_of({torch::conv2d(x, ones({4, 1, 3, 3}) / 9, {}, 1, 1, 1, 4),
                   torch::conv2d(x, torch::exp(scale) * (ones({4, 4, 1, 1}) * 0.5)), x * (ones({7}) * 3) + 1,
                   torch::conv2d(x, ones({2, 4, 2, 2})), x + torch::exp(scale).view({4, 1, 1}) * ones({4, 6, 7})});
  };
  check(*net, {torch::randn({2, 4, 6, 7})});  // weights that are computed would be called back
}

TEST_CASE("pooling to any size, with windows that reach beyond the padding, and with a divisor") {
  torch::manual_seed(84);
  const Forward forward = [](const Tensors& in) {
    const Tensor &x = in[0], &line = in[1];  // [2, 5, 7, 10], [3, 4, 11]
    return all_of({torch::adaptive_avg_pool2d(x, {3, 4}), torch::adaptive_avg_pool2d(x, {9, 3}),
                   std::get<0>(torch::adaptive_max_pool2d(x, {2, 4})) + 1, torch::adaptive_avg_pool1d(line, 4),
                   std::get<0>(torch::adaptive_max_pool1d(line, 3)), torch::avg_pool2d(x, 3, 2, 1, true, true),
                   torch::avg_pool2d(x, 2, 2, 0, true, false), torch::avg_pool2d(x, {3, 4}, {3, 2}, {1, 2}, true, false),
                   torch::avg_pool2d(x, 3, 1, 1, false, true, 7), torch::avg_pool2d(x, {7, 10}, 1, 0, false, true, -3),
                   torch::avg_pool1d(line, 4, 3, 1, true), torch::avg_pool2d(x, 3, 2, 0, true, false, 2).relu()});
  };
  const Tensor x = torch::randn({2, 5, 7, 10}), line = torch::randn({3, 4, 11});
  check(forward, {x, line}, {.more = {{transposed_copy(x), sliced_copy(line)}}});
}

TEST_CASE("convolutions of volumes: groups, dilation, strides, paddings by name, depths of one, without a batch") {
  torch::manual_seed(82);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({8, 6, 3, 3, 3}, 0.1), b = net->parameter({8}), flat = net->parameter({4, 6, 1, 3, 2}, 0.2);
  const Tensor deep = net->parameter({5, 6, 3, 1, 1}, 0.3), two = net->parameter({8, 3, 2, 3, 3}, 0.2);
  const Tensor each = net->parameter({6, 1, 3, 3, 3}, 0.3), one = net->parameter({7, 6, 1, 1, 1}, 0.4);
  const Tensor up = net->parameter({8, 5, 2, 2, 2}, 0.3), wide = net->parameter({8, 3, 1, 4, 4}, 0.3);
  const Tensor bias = net->parameter({5});
  net->function = [=](const Tensors& in) {
    const Tensor& x = in[0];  // [2, 6, 5, 7, 9]
    const Tensor features = torch::conv3d(x, w, b, 1, 1).relu();
    return all_of({features,
                   torch::conv3d(x, w, b, 2, 1),
                   torch::conv3d(x, w, {}, {1, 2, 1}, {2, 0, 1}, {2, 1, 3}),
                   torch::conv3d(x, w, b, 1, c10::string_view("same"), 2),
                   torch::conv3d(x, two, {}, 1, c10::string_view("same"), 1, 2),
                   torch::conv3d(x, two, b, {2, 1, 1}, {1, 1, 1}, 1, 2),
                   torch::conv3d(x, w, b, 1, c10::string_view("valid")),
                   torch::conv3d(x, flat, {}, 1, {0, 1, 1}),
                   torch::conv3d(x, deep, {}, 1, {1, 0, 0}) * 2,
                   torch::conv3d(x, each, {}, 1, 1, 1, 6),
                   torch::conv3d(x, one),
                   torch::conv3d(x[1], w, b, 1, 1).sigmoid(),
                   torch::conv_transpose3d(features, up, bias, 2),
                   torch::conv_transpose3d(features, up, {}, 2).add(1),
                   torch::conv_transpose3d(features, wide, {}, {1, 2, 2}, {0, 1, 1}),
                   torch::conv_transpose3d(features[0], up, bias, 2)});
  };
  const Tensor x = torch::randn({2, 6, 5, 7, 9});
  check(*net, {x}, {.more = {{transposed_copy(x)}, {sliced_copy(x)}}});
}

TEST_CASE("volumes that LibTorch refuses it refuses, after the graph was traced with others") {
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({8, 3, 3, 3, 3}, 0.1), up = net->parameter({3, 5, 2, 2, 2}, 0.3);
  for (const Forward& forward :
       {Forward([=](const Tensors& in) { return all_of({torch::conv3d(in[0], w)}); }),
        Forward([=](const Tensors& in) { return all_of({torch::conv_transpose3d(in[0], up, {}, 2)}); }),
        Forward([](const Tensors& in) { return all_of({torch::avg_pool3d(in[0], 9)}); }),
        Forward([](const Tensors& in) { return all_of({torch::max_pool3d(in[0], 9)}); })}) {
    net->function = forward;
    const auto gm = traced_net(*net, {torch::randn({1, 3, 9, 9, 9})});
    CHECK_THROWS(fxx::compile(*gm, {torch::randn({1, 4, 8, 8, 8})}, {.cache_folder = cache()}));
  }
}

TEST_CASE("pooling and resizing of volumes, with nan and infinities") {
  torch::manual_seed(83);
  const Forward forward = [](const Tensors& in) {
    const Tensor &x = in[0], &even = in[1];  // [2, 3, 5, 7, 9], [1, 4, 4, 6, 8]
    const auto resized = [&](const Tensor& of, F::InterpolateFuncOptions options) { return F::interpolate(of, options); };
    const auto by = [](std::vector<double> factors) { return F::InterpolateFuncOptions().scale_factor(factors); };
    const auto to = [](std::vector<std::int64_t> sizes) { return F::InterpolateFuncOptions().size(sizes); };
    return all_of({torch::max_pool3d(x, 2),
                   torch::max_pool3d(x, {3, 2, 3}, {1, 2, 2}, {1, 0, 1}, {1, 2, 1}),
                   torch::max_pool3d(x, 3, 2, 1, 1, true),
                   std::get<0>(at::max_pool3d_with_indices(x, 2)),
                   torch::max_pool3d(x[0], 2) * 2,
                   torch::avg_pool3d(x, 2),
                   torch::avg_pool3d(x, {3, 3, 2}, {2, 1, 2}, 1),
                   torch::avg_pool3d(x, 3, 2, 1, true, false),
                   torch::avg_pool3d(x, 3, 2, 1, true, true),
                   torch::avg_pool3d(x, {2, 3, 3}, 2, {1, 1, 0}, false, false, 5),
                   torch::adaptive_avg_pool3d(even, {2, 3, 2}),
                   torch::adaptive_avg_pool3d(even, {1, 1, 1}),
                   std::get<0>(torch::adaptive_max_pool3d(even, {2, 2, 4})),
                   resized(even, by({2, 2, 2})),
                   resized(even, to({5, 3, 9})),
                   resized(even, by({2, 2, 2}).mode(torch::kTrilinear).align_corners(false)),
                   resized(even, to({7, 9, 4}).mode(torch::kTrilinear).align_corners(true))});
  };
  const Tensor x = torch::randn({2, 3, 5, 7, 9}), even = torch::randn({1, 4, 4, 6, 8});
  const auto compiled = check(forward, {x, even}, {.more = {{sliced_copy(x), transposed_copy(even)}}});
  // What is largest and what is a mean, of what no number is.
  const auto pools = [](const Tensors& in) {
    return all_of({torch::max_pool3d(in[0], 2), torch::avg_pool3d(in[0], {3, 3, 2}, {2, 1, 2}, 1)});
  };
  Tensor odd = x.clone();
  odd.view({-1}).index_put_({torch::tensor({3, 200, 777})}, not_a_number);
  odd.view({-1}).index_put_({torch::tensor({50, 1000})}, infinite);
  odd.view({-1}).index_put_({torch::tensor({60, 1001})}, -infinite);
  check(pools, {odd});
}
