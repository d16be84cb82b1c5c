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
  check_alike(
      [=](const Tensors& in) {
        const Tensor y = torch::cat({torch::conv2d(in[0], w, {}, 1, 1), in[0]}, 1);
        y.view({1, -1}).bernoulli_(1.0);
        return c10::IValue(y * 3);
      },
      {torch::randn({1, 3, 5, 5})});
}

TEST_CASE("views of what is written to are views, also of what kernels would lay out as rows or with room around it") {
  check_alike(
      [](const Tensors& in) {
        const auto [values, places] = in[0].sort(0);
        values.view(-1).bernoulli_(1.0);
        places.view(-1).bernoulli_(0.0);
        return all_of({values * 3, places + 1});
      },
      {torch::randn({3, 4})});
  check_alike(
      [](const Tensors& in) {
        const Tensor places = in[0].argsort(std::int64_t(0));
        places.view(-1).bernoulli_(0.0);
        return all_of({places + 1, std::get<0>(in[0].topk(2, 0))});
      },
      {torch::randn({3, 4})});
  check_alike(
      [](const Tensors& in) {
        const Tensor y = torch::col2im(in[0], {4, 4}, {2, 2}, {1, 1}, {1, 1}, {2, 2});
        y.view(-1).bernoulli_(1.0);
        return c10::IValue(y * 3);
      },
      {torch::randn({1, 8, 9})});
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
  // Nobody noted sizes in a graph that was made by hand.
  Graph graph;
  graph.output(graph.call_method("add_", {graph.placeholder("x"), 1}));
  GraphModule by_hand(std::map<std::string, GraphModule::Attribute>{}, graph);
  const auto compiled_by_hand = fxx::compile(by_hand, {torch::randn({3})}, {.cache_folder = cache()});
  CHECK(compiled_by_hand->run({x}).toTensor().is_same(x));
  CHECK(x.equal(torch::full({3}, 2.f)));
  // What only holds the same values is not.
  const auto copied = traced([](const Tensors& in) { return c10::IValue(torch::zeros({3}).copy_(in[0])); }, {x});
  const auto copy = fxx::compile(*copied, {x}, {.cache_folder = cache()});
  CHECK_FALSE(copy->run({x}).toTensor().is_alias_of(x));
}

TEST_CASE("numbers among the results do not change which of them are inputs") {
  const auto gm = symbolic_trace([](auto x) { return std::tuple(x.size(0), x, x + 0); });
  const auto compiled = fxx::compile(*gm, {torch::randn({3, 4})}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({3, 4});
  const c10::IValue result = compiled->run({x});
  const auto& items = result.toTupleRef().elements();
  REQUIRE(items.size() == 3);
  CHECK(items[0].toInt() == 3);
  CHECK(items[1].toTensor().is_same(x));
  CHECK_FALSE(items[2].toTensor().is_alias_of(x));
  CHECK(items[2].toTensor().equal(x));
}

TEST_CASE("statistics that are inputs are written to, however these lie") {
  torch::manual_seed(44);
  const auto f = [](const Tensors& in) {
    return c10::IValue(torch::batch_norm(in[0], {}, {}, in[1], in[2], true, 0.1, 1e-5, false));
  };
  const Tensor x = torch::randn({8, 4}) + 3;
  const auto gm = traced(f, {x, torch::zeros({4}), torch::ones({4})});
  const auto compiled = fxx::compile(*gm, {x, torch::zeros({4}), torch::ones({4})}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  const Tensor mean = torch::zeros({4, 2}).select(1, 0), var = torch::ones({4});
  const Tensor expected_mean = torch::zeros({4}), expected_var = torch::ones({4});
  for (int call = 0; call < 2; ++call) {
    const c10::IValue given = compiled->run({x, mean, var});
    CHECK(relative_difference(given, f({x, expected_mean, expected_var})) <= 1e-5);
    CHECK(relative_difference(mean, expected_mean) <= 1e-6);
    CHECK(relative_difference(var, expected_var) <= 1e-6);
  }
  CHECK(mean.min().item<float>() > 0.1f);
}

namespace {
// Writes through a pointer, which no version counts.
Tensor& bump_on_cpu(Tensor& x) {
  float* const elements = x.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < x.size(0); ++i) elements[i * x.stride(0)] += 1;
  return x;
}
void bump(Tensor x) {
  c10::Dispatcher::singleton().findSchemaOrThrow("fxx_written_test::bump_", "").typed<Tensor&(Tensor&)>().call(x);
}
}  // namespace
TORCH_LIBRARY(fxx_written_test, m) { m.def("bump_(Tensor(a!) x) -> Tensor(a!)"); }
TORCH_LIBRARY_IMPL(fxx_written_test, CPU, m) { m.impl("bump_", &bump_on_cpu); }

TEST_CASE("what an operator of somebody's writes through a pointer is written") {
  struct M : torch::nn::Module {
    Tensor scale = register_buffer("scale", torch::ones({4}));
    Tensor forward(Tensor x) {
      const Tensor y = x * scale;
      bump(scale);
      return y;
    }
  } m;
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::full({4}, 2.f);
  const auto gm = trace(m, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  m.scale.fill_(1);
  for (const float expected : {2.f, 4.f, 6.f}) CHECK(compiled->run({x}).toTensor().equal(torch::full({4}, expected)));

  const auto of_input = traced(
      [](const Tensors& in) {
        bump(in[0]);
        return c10::IValue(in[0] * 2);
      },
      {x});
  for (const Tensor& example : {x, torch::zeros({4, 2}).select(1, 0)}) {
    const auto compiled_of_input = fxx::compile(*of_input, {example}, {.cache_folder = cache()});
    for (const Tensor& given : {torch::zeros({4}), torch::zeros({4, 2}).select(1, 0)}) {
      CHECK(compiled_of_input->run({given}).toTensor().equal(torch::full({4}, 2.f)));
      CHECK(given.equal(torch::ones({4})));
    }
  }
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
  const torch::NoGradGuard no_grad;
  const auto check_drawn = [](const auto& f, const Tensor& x) {
    const auto gm = traced(f, {x});
    const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
    torch::manual_seed(4);
    const c10::IValue expected = gm->run({x});
    torch::manual_seed(4);
    CHECK(relative_difference(compiled->run({x}), expected) <= 1e-5);
  };
  check_drawn(
      [=](const Tensors& in) {
        const Tensor y = torch::conv2d(in[0], w, {}, 1, 1);
        return c10::IValue(y + torch::randn_like(y));
      },
      torch::randn({1, 3, 5, 5}));
  // In place: what is written to has LibTorch's layout, whoever computed it.
  check_drawn(
      [=](const Tensors& in) {
        Tensor y = torch::cat({torch::conv2d(in[0], w, {}, 1, 1), in[0]}, 1);
        y.uniform_();
        return c10::IValue(y * 2);
      },
      torch::randn({1, 3, 5, 5}));
  check_drawn(
      [](const Tensors& in) {
        const Tensor y = std::get<0>(in[0].sort(0));
        y.uniform_();
        return c10::IValue(y * 2);
      },
      torch::randn({3, 4}));
}

TEST_CASE("results that are larger than the example's are interpreted, whoever computes them") {
  const auto f = [](const Tensors& in) { return c10::IValue(torch::bincount(in[0], {}, 40) + 1); };
  const auto gm = traced(f, {torch::randint(40, {9})});
  const auto compiled = fxx::compile(*gm, {torch::randint(40, {9})}, {.cache_folder = cache()});
  const Tensor more = torch::tensor({3, 120, 1, 5, 6, 7, 8, 9, 120});
  CHECK(compiled->run({more}).toTensor().equal(torch::bincount(more, {}, 40) + 1));
}
