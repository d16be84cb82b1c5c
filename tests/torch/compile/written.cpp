// Specialised modules of graphs that write to memory in place, where functionalise leaves the writes: what shares that
// memory, and what must not. Numbers that are drawn are certain here: probabilities are 0 and 1.
#include <algorithm>

#include "fxx/passes/functionalise.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

/// Of a function that writes to nothing outside: that the compiled one gives what the function does.
template <class F>
void check_alike(const F& f, const Tensors& inputs) {
  const auto copies = [&] {
    Tensors all;
    for (const Tensor& t : inputs) all.push_back(t.clone(at::MemoryFormat::Preserve));
    return all;
  };
  const torch::NoGradGuard no_grad;
  const auto gm = traced(f, copies());
  const auto compiled = fxx::compile(*gm, copies(), {.cache_folder = cache()});
  for (int call = 0; call < 2; ++call) {
    Tensors given = copies(), expected = copies();
    const c10::IValue result = compiled->run(boxed(given));
    CHECK(relative_difference(result, f(expected)) <= 1e-6);
    for (std::size_t i = 0; i < given.size(); ++i) CHECK(torch::equal(given[i], expected[i]));
  }
}

}  // namespace

TEST_CASE("a part and the whole that it is copied into have memory of their own where one of them is written to") {
  check_alike(
      [](const Tensors& in) {
        const Tensor y = in[0] * 2, c = torch::cat({y, in[0]}, 1);
        y.bernoulli_(0.0);
        return all_of({c + 1, y});
      },
      {torch::ones({3, 4})});
  check_alike(
      [](const Tensors& in) {
        const Tensor y = in[0] * 2, c = torch::cat({y, in[0]}, 1);
        c.bernoulli_(0.0);
        return all_of({y * 3, c});
      },
      {torch::ones({3, 4})});
}

TEST_CASE("views of what is written to are views, also of images that kernels would lay out channels last") {
  const Tensor w = torch::randn({8, 3, 3, 3});
  check_alike(
      [=](const Tensors& in) {
        const Tensor y = torch::conv2d(in[0], w, {}, 1, 1);
        y.view({1, -1}).bernoulli_(1.0);
        return c10::IValue(y * 3);
      },
      {torch::randn({1, 3, 5, 5})});
  check_alike(
      [=](const Tensors& in) {
        const Tensor y = torch::conv2d(in[0], w, {}, 1, 1);
        const Tensor half = y.slice(1, 0, 4);
        half.bernoulli_(1.0);
        return all_of({torch::max_pool2d(y, 2), half});
      },
      {torch::randn({1, 3, 6, 6})});
}

TEST_CASE("parts of inputs that are written to are parts of the caller's tensors, however these lie") {
  const auto f = [](const Tensors& in) {
    in[0].select(0, 0).bernoulli_(1.0);
    return c10::IValue(in[0] * 2);
  };
  check_alike(f, {torch::zeros({3, 4})});
  const auto gm = traced(f, {torch::zeros({3, 4})});
  const auto compiled = fxx::compile(*gm, {torch::zeros({3, 4})}, {.cache_folder = cache()});
  const Tensor x = torch::zeros({4, 3}).t();
  CHECK(compiled->run({x}).toTensor().select(0, 0).equal(torch::full({4}, 2.f)));
  CHECK(x.select(0, 0).equal(torch::ones({4})));
  CHECK(x.select(0, 1).equal(torch::zeros({4})));
}

TEST_CASE("parts of buffers that do not lie row by row are written to") {
  struct M : torch::nn::Module {
    Tensor noise = register_buffer("noise", torch::zeros({4, 3}).t());
    Tensor forward(Tensor x) {
      noise.select(0, 0).bernoulli_(1.0);
      return x + noise;
    }
  } m;
  const torch::NoGradGuard no_grad;
  const auto gm = trace(m, {torch::zeros({3, 4})});
  m.noise.zero_();
  const auto compiled = fxx::compile(*gm, {torch::zeros({3, 4})}, {.cache_folder = cache()});
  m.noise.zero_();
  for (int call = 0; call < 2; ++call) {
    CHECK(compiled->run({torch::zeros({3, 4})}).toTensor().select(0, 0).equal(torch::ones({4})));
    CHECK(m.noise.select(0, 0).equal(torch::ones({4})));
    CHECK(m.noise.select(0, 1).equal(torch::zeros({4})));
  }
}

TEST_CASE("statistics of a batch norm in training are those of the call before, counted or not") {
  struct M : torch::nn::Module {
    Tensor mean = register_buffer("mean", torch::zeros({4})), var = register_buffer("var", torch::ones({4}));
    std::tuple<Tensor, Tensor> forward(Tensor x) {
      const Tensor drift = x - mean;
      return {drift, torch::batch_norm(x, {}, {}, mean, var, true, 0.1, 1e-5, false)};
    }
  } m;
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::full({8, 4}, 10.f);
  const auto gm = trace(m, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  m.mean.zero_();
  m.var.fill_(1);
  for (const double drift : {10., 9., 8.1})
    CHECK((tensors_of(compiled->run({x}))[0] - drift).abs().max().item<double>() < 1e-5);
}

TEST_CASE("a copy that was asked for is one") {
  struct M : torch::nn::Module {
    Tensor noise = register_buffer("noise", torch::zeros({3}));
    Tensor forward(Tensor x) {
      const Tensor old = noise.to(torch::kFloat, false, /*copy=*/true);
      noise.bernoulli_(1.0);
      return x + old;
    }
  } m;
  const torch::NoGradGuard no_grad;
  const auto gm = trace(m, {torch::zeros({3})});
  m.noise.zero_();
  const auto compiled = fxx::compile(*gm, {torch::zeros({3})}, {.cache_folder = cache()});
  m.noise.zero_();
  CHECK(compiled->run({torch::zeros({3})}).toTensor().equal(torch::zeros({3})));
  CHECK(compiled->run({torch::zeros({3})}).toTensor().equal(torch::ones({3})));
}

TEST_CASE("an input that is written to and returned is that tensor") {
  const auto gm = traced([](const Tensors& in) { return c10::IValue(in[0].add_(1)); }, {torch::randn({3})});
  const auto compiled = fxx::compile(*gm, {torch::randn({3})}, {.cache_folder = cache()});
  const Tensor x = torch::zeros({3});
  CHECK(compiled->run({x}).toTensor().is_same(x));
  CHECK(x.equal(torch::ones({3})));
  // What only holds the same values is not.
  const auto copied = traced([](const Tensors& in) { return c10::IValue(torch::zeros({3}).copy_(in[0])); }, {x});
  const auto copy = fxx::compile(*copied, {x}, {.cache_folder = cache()});
  CHECK_FALSE(copy->run({x}).toTensor().is_alias_of(x));
}

TEST_CASE("what is put in the place of one value may be what stood for another") {
  const auto f = [](const Tensors& in) {
    const Tensor a = in[0] * 2, v = a.view({2, 3}), y = torch::zeros({2, 3});
    y.copy_(v);
    a.add_(1);
    return c10::IValue(y + v);
  };
  check_alike(f, {torch::randn({6})});
  const auto gm = traced(f, {torch::randn({6})});
  functionalise(gm->graph());
  gm->recompile();
  const Tensor x = torch::randn({6});
  CHECK(torch::allclose((*gm)(x), x.view({2, 3}) * 4 + 1));
}

TEST_CASE("numbers are drawn in the order of LibTorch's memory") {
  const Tensor w = torch::randn({8, 3, 3, 3});
  const auto f = [=](const Tensors& in) {
    const Tensor y = torch::conv2d(in[0], w, {}, 1, 1);
    return c10::IValue(y + torch::randn_like(y));
  };
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({1, 3, 5, 5});
  const auto gm = traced(f, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  torch::manual_seed(4);
  const c10::IValue expected = gm->run({x});
  torch::manual_seed(4);
  CHECK(relative_difference(compiled->run({x}), expected) <= 1e-5);
}

TEST_CASE("results that are larger than the example's are interpreted, whoever computes them") {
  const auto f = [](const Tensors& in) { return c10::IValue(torch::bincount(in[0], {}, 40) + 1); };
  const auto gm = traced(f, {torch::randint(40, {9})});
  const auto compiled = fxx::compile(*gm, {torch::randint(40, {9})}, {.cache_folder = cache()});
  const Tensor more = torch::tensor({3, 120, 1, 5, 6, 7, 8, 9, 120});
  CHECK(compiled->run({more}).toTensor().equal(torch::bincount(more, {}, 40) + 1));
}
