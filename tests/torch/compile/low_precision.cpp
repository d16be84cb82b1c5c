// Specialised modules: weights of bfloat16, quantised values and layers computed with integers.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

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
TEST_CASE("a glu that would round twice, and norms of whole numbers, are called back as a whole") {
  torch::manual_seed(50);
  const auto net = net_of([](const Tensors& in) {
    const Tensor &x = in[0], &n = in[1];
    return all_of({torch::glu(x.to(torch::kBFloat16), 1), torch::glu(x.to(torch::kHalf), 1),
                   torch::glu(x.to(torch::kDouble), 1), torch::cosine_similarity(x, n)});
  });
  const Tensors inputs{torch::randn({64, 128}), torch::randint(2, {64, 128})};
  const auto gm = traced_net(*net, inputs);
  const auto compiled = fxx::compile(*gm, inputs, {.cache_folder = cache()});
  CHECK(compiled->max_error() < 1e-6);
  const std::set<std::string> called = called_back_operators(*compiled);
  CHECK(called.contains("aten::glu"));
  CHECK(called.contains("aten::cosine_similarity"));
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

}  // namespace
