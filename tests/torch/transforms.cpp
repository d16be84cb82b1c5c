// Function transforms of LibTorch (vmap, grad): what belongs to one cannot be traced, and tracing leaves no trace in
// them; graphs run inside them as any module does, with the values of a loop over the batch.
#include <ATen/ThreadLocalState.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>

#include "fxx/ops/operation.hpp"
#include "fxx/torch/creation.hpp"
#include "fxx/torch/indexing.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using at::functorch::RandomnessType;
using at::functorch::TransformType;
using torch::Tensor;

namespace {

/// A transform of this thread, until the end of its scope.
struct Level {
  explicit Level(std::int64_t batch)
      : id(at::functorch::initAndPushDynamicLayer(TransformType::Vmap, batch, RandomnessType::Error)) {}
  Level() : id(at::functorch::initAndPushDynamicLayer(TransformType::Grad, {}, {}, at::GradMode::is_enabled())) {}
  ~Level() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  const std::int64_t id;
};

using Single = std::function<Tensor(const Tensors&)>;

/// Python's `torch.func.vmap(f)(*inputs)`: f of every row of all inputs, at once.
Tensor vmap(const Single& f, const Tensors& inputs) {
  const Level level(inputs[0].size(0));
  Tensors rows;
  for (const Tensor& input : inputs) rows.push_back(at::functorch::makeBatched(input, 0, level.id));
  const Tensor result = f(rows);
  const auto* batched = at::functorch::maybeGetBatchedImpl(result);
  REQUIRE(batched);
  const Tensor value = batched->value();
  REQUIRE(batched->bdim() == 0);
  return value;
}
/// The same by a loop.
Tensor looped(const Single& f, const Tensors& inputs) {
  Tensors results;
  for (std::int64_t i = 0; i < inputs[0].size(0); ++i) {
    Tensors rows;
    for (const Tensor& input : inputs) rows.push_back(input[i].clone());
    results.push_back(f(rows));
  }
  return torch::stack(results);
}
/// Python's `torch.func.grad(f)(x)`, f of which is a number.
Tensor grad(const Single& f, const Tensor& x) {
  const Level level;
  const torch::AutoGradMode with_gradients(true);
  at::functorch::setInplaceRequiresGradAllowed(true);
  const Tensor wrapped = at::functorch::makeTensorWrapper(x, level.id).requires_grad_();
  at::functorch::setInplaceRequiresGradAllowed(false);
  const Tensor gradient = torch::autograd::grad({f({wrapped})}, {wrapped})[0];
  return at::functorch::maybeGetTensorWrapper(gradient)->value();
}

bool nothing_is_on() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return at::functorch::getDynamicLayerStack().empty() && !keys.included_.has(c10::DispatchKey::DeferredInit) &&
         !keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) && c10::GradMode::is_enabled();
}
/// Transforms do what they do: an operator of several inputs, a transform in a transform.
void check_transforms() {
  CHECK(nothing_is_on());
  const Tensor x = torch::rand({3, 4}), y = torch::rand({3, 4});
  CHECK(same(vmap([](const Tensors& t) { return t[0].sum(0) * t[1]; }, {x, y}), x.sum(1, true) * y));
  CHECK(
      same(vmap([](const Tensors& t) { return vmap([](const Tensors& u) { return u[0].exp(); }, t); }, {x}), x.exp()));
  CHECK(
      same(vmap([](const Tensors& t) { return grad([](const Tensors& u) { return (u[0] * u[0]).sum(); }, t[0]); }, {x}),
           2 * x));
  CHECK(nothing_is_on());
}

Tensor doubled(const Tensor& x) { return x * 2; }

// --- tracing ---------------------------------------------------------------------------------------------------------

TEST_CASE("code that is traced inside a function transform is refused, and the transform goes on undisturbed") {
  const auto fault_in = [](const auto&... batch) {
    const Tensor x = torch::ones({3});
    const Level level(batch...);
    const Fault fault = fault_of<TraceError>([&] { trace(doubled, {x}); });
    CHECK(same(x + x, torch::full({3}, 2.f)));
    CHECK(at::functorch::getDynamicLayerStack().size() == 1);
    return fault;
  };
  for (const Fault& fault : {fault_in(std::int64_t{3}), fault_in()}) {
    CHECK(fault.id == 323);
    CHECK(fault.says("function transform"));
    CHECK(fault.says("tracing starts"));
  }
  check_transforms();
}

TEST_CASE("a function transform inside forward is refused at its first operator") {
  const Tensor x = torch::rand({3, 4}), plain = torch::rand({3, 4});
  const auto fault = [&](const Single& f) {
    const Fault refused = fault_of<TraceError>([&] { trace([&](Tensor t) { return f({t}); }, {x}); });
    check_transforms();
    return refused;
  };
  const Fault of_value = fault([](const Tensors& t) { return vmap([](const Tensors& u) { return u[0].exp(); }, t); });
  CHECK(of_value.id == 323);
  CHECK(of_value.says("aten::exp"));
  CHECK(fault([](const Tensors& t) { return grad([](const Tensors& u) { return u[0].exp().sum(); }, t[0]); }).id ==
        323);
  // Tensors that are no traced ones, in a transform that no traced one is in.
  CHECK(fault([&](const Tensors& t) { return t[0] * vmap([](const Tensors& u) { return u[0].exp(); }, {plain}); }).id ==
        323);
  // Beside an operator before it, and in a trace within a trace.
  CHECK(fault([&](const Tensors& t) {
          const auto inner = trace(doubled, {torch::rand({2})});
          return vmap([](const Tensors& u) { return u[0].exp(); }, {t[0] * 2});
        }).id == 323);
}

TEST_CASE("tensors that belong to a function transform are refused as inputs, results and constants") {
  const Tensor x = torch::rand({4}), rows = torch::rand({3, 4});
  Tensor batched, wrapped;
  {
    const Level level(3);
    batched = at::functorch::makeBatched(rows, 0, level.id);
  }
  {
    const Level level;
    wrapped = at::functorch::makeTensorWrapper(x, level.id);
  }
  CHECK(fault_of<TraceError>([&] { trace(doubled, {batched}); }).id == 323);
  CHECK(fault_of<TraceError>([&] { trace(doubled, {wrapped}); }).id == 323);
  CHECK(fault_of<TraceError>([&] {
          trace([&](Tensor t) { return std::vector<Tensor>{t * 2, batched}; }, {x});
        }).id == 323);
  CHECK(fault_of<TraceError>([&] { trace([&](Tensor t) { return t * batched; }, {x}); }).id == 323);
  CHECK(fault_of<TraceError>([&] { trace([&](Tensor t) { return t * wrapped; }, {x}); }).id == 323);
  check_transforms();
}

TEST_CASE("function transforms work after a trace, and after one that threw") {
  check_transforms();
  const Tensor x = torch::rand({3});
  const auto gm = trace(doubled, {x});
  check_transforms();
  CHECK(same((*gm)(x), x * 2));
  CHECK(fault_of<TraceError>([&] { trace([](Tensor t) { return t.sum().item<float>() * t; }, {x}); }).id == 301);
  check_transforms();
  CHECK_THROWS_AS(trace(
                      [](Tensor t) -> Tensor {
                        throw std::runtime_error("mine");
                        return t;
                      },
                      {x}),
                  std::runtime_error);
  check_transforms();
}

TEST_CASE("a function transform that the code does not end is there after the trace, as it would be without one") {
  const Tensor x = torch::rand({3});
  const auto starts = [](Tensor t) {
    at::functorch::initAndPushDynamicLayer(TransformType::Vmap, 3, RandomnessType::Error);
    return t.exp();
  };
  CHECK(fault_of<TraceError>([&] { trace(starts, {x}); }).id == 323);
  REQUIRE(at::functorch::getDynamicLayerStack().size() == 1);
  CHECK(same(x + x, 2 * x));
  const Fault next = fault_of<TraceError>([&] { trace(doubled, {x}); });
  CHECK(next.says("tracing starts"));
  at::functorch::popDynamicLayerAndDeleteMetadata();
  check_transforms();
}

TEST_CASE("a function transform is seen on a thread whose state was handed on, and is not lost") {
  const Tensor x = torch::rand({3, 4});
  const Fault fault = fault_of<TraceError>([&] {
    trace(
        [](Tensor t) {
          const Level level(3);
          { const at::ThreadLocalStateGuard copied{at::ThreadLocalState()}; }
          REQUIRE(at::functorch::getDynamicLayerStack().size() == 1);
          return at::functorch::makeBatched(t, 0, level.id).exp();
        },
        {x});
  });
  CHECK(fault.id == 323);
  check_transforms();
  // An operator after it, when the transform is over and its state a copy.
  CHECK(fault_of<TraceError>([&] {
          trace(
              [](Tensor t) {
                { const Level level(3); }
                { const at::ThreadLocalStateGuard copied{at::ThreadLocalState()}; }
                return t.exp();
              },
              {x});
        }).id == 323);
}

// --- running ---------------------------------------------------------------------------------------------------------

/// Modules, sizes, views, several branches, an operator in place, a constant, a parameter.
struct BlockImpl : torch::nn::Module {
  fxx::nn::Linear fc = register_module("fc", fxx::nn::Linear(4, 4));
  fxx::nn::LayerNorm norm = register_module("norm", fxx::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
  Tensor scale = register_parameter("scale", torch::rand({4}));
  template <class T>
  T forward(T x, T y) {
    T z = norm(fc(x)).view({-1, x.size(0)}).t() * scale;
    z.add_(y);
    z = softmax(z, -1) + T(torch::arange(4.f));
    return fxx::cat({z.unsqueeze(0), relu(x + y).unsqueeze(0)}, 0).sum(0);
  }
};
FXX_MODULE(Block);

TEST_CASE(
    "a graph gives under vmap what a loop gives, traced either way, in a transform of a transform, and per sample") {
  torch::manual_seed(1);
  Block block;
  const Tensors batch{torch::randn({3, 2, 4}), torch::randn({3, 2, 4})};
  const Single by_module = [&](const Tensors& t) { return block->forward(t[0], t[1]); };
  const Tensor expected = looped(by_module, batch);
  REQUIRE(relative_difference(vmap(by_module, batch), expected) < 1e-6);
  for (const auto& gm : {trace(block, {batch[0][0], batch[1][0]}), symbolic_trace(block)}) {
    CAPTURE(to_string(gm->graph()));
    const Single by_graph = [&](const Tensors& t) { return (*gm)(t[0], t[1]); };
    CHECK(same(looped(by_graph, batch), expected));
    CHECK(relative_difference(vmap(by_graph, batch), expected) < 1e-6);
    // The plan that was made under a transform is good outside, and the other way round.
    CHECK(same(looped(by_graph, batch), expected));
    const Single nested = [&](const Tensors& t) { return vmap(by_graph, t); };
    const Tensors twice{torch::stack({batch[0], batch[1]}), torch::stack({batch[1], batch[0]})};
    CHECK(relative_difference(vmap(nested, twice),
                              looped([&](const Tensors& t) { return looped(by_module, t); }, twice)) < 1e-6);
    Interpreter interpreter(*gm);
    const Single interpreted = [&](const Tensors& t) { return interpreter.run(boxed(t)).toTensor(); };
    CHECK(relative_difference(vmap(interpreted, batch), expected) < 1e-6);
    // Gradients of every sample by itself.
    const auto gradient_of = [](const Single& f) {
      return [&f](const Tensors& t) {
        return grad([&](const Tensors& u) { return (f({u[0], t[1]}) * torch::arange(4.f)).sum(); }, t[0]);
      };
    };
    const Tensor gradients = vmap(gradient_of(by_graph), batch);
    for (std::int64_t i = 0; i < 3; ++i) {
      const Tensor x = batch[0][i].clone().requires_grad_();
      (by_module({x, batch[1][i].clone()}) * torch::arange(4.f)).sum().backward();
      CHECK(difference(gradients[i], x.grad()) < 1e-5);
    }
  }
  check_transforms();
}

TEST_CASE("tracing symbolically has nothing to do with tensors, so it works inside a function transform") {
  Block block;
  const std::string expected = to_string(symbolic_trace(block)->graph());
  const Level level(3);
  CHECK(to_string(symbolic_trace(block)->graph()) == expected);
}

}  // namespace
