// Results lie in memory as those of eager code, and share memory with inputs where those do: the graph, what passes and
// rules make of it, and what is built.
#include <random>

#include "fxx/ops/operation.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/merge_equal.hpp"
#include "fxx/rules/all.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

std::string layout_difference(const Tensor& given, const Tensor& wanted) {
  if (given.sizes() != wanted.sizes()) return c10::str("sizes ", given.sizes(), " for ", wanted.sizes());
  if (given.scalar_type() != wanted.scalar_type()) return "dtype";
  if (given.strides() != wanted.strides()) return c10::str("strides ", given.strides(), " for ", wanted.strides(), " of ", wanted.sizes());
  return relative_difference(given, wanted) < 1e-4 ? "" : "values";
}
/// Which input's memory it lies in; -1: none.
int lies_in(const Tensor& result, const Tensors& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (result.storage().is_alias_of(inputs[i].storage())) return static_cast<int>(i);
  return -1;
}

Tensors drawn_results(unsigned seed, const Tensors& in, const Tensor& w, const Tensor& b, std::string* text) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t n) { return static_cast<int64_t>(random() % n); };
  std::vector<Tensor> values(in.begin(), in.end());
  for (int i = 0; i < 14; ++i) {
    const auto from = pick(values.size());
    Tensor x = values[static_cast<std::size_t>(from)];
    if (!x.is_floating_point()) x = x.to(torch::kFloat);
    const int64_t d = x.dim() ? pick(static_cast<std::size_t>(x.dim())) : 0, e = x.dim() ? pick(static_cast<std::size_t>(x.dim())) : 0;
    const auto op = pick(48);
    if (text) *text += " " + std::to_string(values.size()) + "=" + std::to_string(op) + "(" + std::to_string(from) + ")";
    Tensor y;
    switch (op) {
      case 0: y = x.dim() ? x.transpose(d, e) : x; break;
      case 1: y = x.dim() > 1 ? x.transpose(0, 1).transpose(1, 0) : x * 2; break;
      case 2: y = x.dim() < 5 ? x.unsqueeze(d) : x + 1; break;
      case 3: y = x.squeeze(); break;
      case 4: y = x.dim() && x.size(d) > 1 ? x.select(d, 1) : x.neg(); break;
      case 5: y = x.dim() && x.size(d) > 2 ? x.slice(d, 1) : x.abs(); break;
      case 6: y = x.dim() && x.size(d) > 2 ? x.slice(d, 0, x.size(d), 2) : x.neg().neg(); break;
      case 7: y = x.dim() && x.size(d) ? x.narrow(d, 0, x.size(d)).select(d, 0) : x; break;
      case 8: y = x.dim() < 4 && x.dim() > 0 ? x.unsqueeze(0).expand([&] { auto s = x.sizes().vec(); s.insert(s.begin(), 3); return s; }()) : x.relu(); break;
      case 9: y = x.reshape({-1}); break;
      case 10: y = x.flatten(); break;
      case 11: y = x.contiguous(); break;
      case 12: y = torch::relu(x); break;
      case 13: y = x * 1; break;
      case 14: y = x + 0; break;
      case 15: y = x.to(torch::kFloat); break;
      case 16: y = x.clone(); break;
      case 17: y = x.dim() ? torch::cat({x}, d) : x / 1; break;
      case 18: y = x.dim() ? torch::cat({x, x.neg()}, d) : x.exp(); break;
      case 19: y = x.dim() < 4 ? torch::stack({x, x}, d) : x.tanh(); break;
      case 20: y = x.dim() ? x.sum({d}, true) : x; break;
      case 21: y = x.dim() ? x.softmax(d) : x; break;
      case 22: y = torch::where(x > 0, x, x * 0.1); break;
      case 23: y = x * torch::sigmoid(x); break;
      case 24: y = x.dim() ? x.flip({d}) : x.pow(2); break;
      case 25: y = x.dim() ? x.flip({d}).flip({d}) : x.pow(2); break;
      case 26: y = torch::maximum(x, x); break;
      case 27: y = x.dim() ? x.movedim(d, e) : x; break;
      case 28: y = x.dim() == 4 && x.size(1) == 4 && x.size(2) > 2 && x.size(3) > 2 ? torch::conv2d(x, w, b, at::IntArrayRef({1, 1}), at::IntArrayRef({1, 1})) : x * 3; break;
      case 29: y = x.dim() == 4 && x.size(1) == 4 ? torch::batch_norm(x, b, b, b, b.abs() + 1, false, 0.1, 1e-5, false) : -x; break;
      case 30: y = torch::dropout(x, 0.5, false); break;
      case 31: y = x.dim() ? x.repeat(std::vector<int64_t>(static_cast<std::size_t>(x.dim()), 1)) : x; break;
      case 32: y = x.view_as(x); break;
      case 33: y = x.expand_as(x); break;
      case 34: y = x.dim() ? x.narrow(d, 0, x.size(d)) : x; break;
      case 35: y = x.dim() ? x.chunk(2, d)[0] : x; break;
      case 36: y = (x - x.mean()) / torch::sqrt(x.var() + 1); break;
      case 37: y = x + x.transpose(0, -1).transpose(-1, 0); break;
      case 38: y = x.dim() ? torch::matmul(x.unsqueeze(-1), x.unsqueeze(-2)).sum(-1) : x; break;
      case 39: y = x.dim() > 1 && x.size(-1) == x.size(-2) ? x.mT() + x : x.dim() > 1 ? x.mT() * 2 : x; break;
      case 40: y = x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x.sin(); break;
      case 41: y = x.dim() > 1 ? x.permute([&] { std::vector<int64_t> p; for (int64_t k = 0; k < x.dim(); ++k) p.push_back(x.dim() - 1 - k); return p; }()) : x; break;
      case 42: y = x.clamp_min(0).clamp_max(6); break;
      case 43: y = x.dim() > 1 ? x.flatten(0, 1) : x; break;
      case 44: y = torch::empty_like(x).fill_(2) * x; break;
      case 45: y = x.exp() - 1; break;
      case 46: y = x.dim() ? torch::layer_norm(x, {x.size(-1)}) : x; break;
      default: y = x.masked_fill(x > 1, 0);
    }
    if (y.numel() > 4000) y = y.flatten().slice(0, 0, 50);
    values.push_back(y);
  }
  return {values.end() - 8, values.end()};
}

}  // namespace

TEST_CASE("drawn results lie in memory as those of eager code, and share it with inputs where those do") {
  std::mt19937 random(77);
  const torch::NoGradGuard no_grad;
  for (int graph = 0; graph < 300; ++graph) {
    const unsigned seed = random();
    CAPTURE(seed);
    torch::manual_seed(seed);
    const Tensor w = torch::randn({4, 4, 3, 3}), b = torch::rand({4});
    const Tensors inputs = {torch::randn({2, 3, 4}),
                            torch::randn({4, 2, 3}).transpose(0, 1),
                            torch::randn({2, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast),
                            torch::randn({1, 3, 1}).expand({2, 3, 4}),
                            torch::randn({1, 5, 1}),
                            torch::randn({0, 3}),
                            torch::randn({6, 10}).slice(1, 1, 9, 2)};
    std::string text;
    const Tensors wanted = drawn_results(seed, inputs, w, b, &text);
    CAPTURE(text);
    torch::nn::Module root("Function");
    const auto gm = fxx::detail::trace_module(
        root, false,
        [&](std::span<const Tensor> in) {
          return all_of(drawn_results(seed, {in.begin(), in.end()}, w, b, nullptr));
        },
        inputs, {});
    const auto check = [&](const std::string& what, const c10::IValue& value) {
      CAPTURE(what);
      const Tensors given = tensors_of(value);
      REQUIRE(given.size() == wanted.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        CAPTURE(i);
        CHECK(layout_difference(given[i], wanted[i]) == "");
        CHECK(lies_in(given[i], inputs) == lies_in(wanted[i], inputs));
        // Of results that are no views of each other in eager code, writing to one leaves the other as it is.
        for (std::size_t k = 0; k < i; ++k)
          CHECK((given[i].is_alias_of(given[k]) && !wanted[i].is_alias_of(wanted[k])) == false);
      }
    };
    check("graph", gm->run(boxed(inputs)));
    check("interpreter", Interpreter(*gm).run(boxed(inputs)));
    if (graph % 100 == 0) check("built", fxx::build(*gm, inputs, {.cache_folder = cache()})->run(boxed(inputs)));
    GraphModule ruled(*gm, gm->graph()), optimised(*gm, gm->graph());
    merge_equal(gm->graph());
    eliminate_dead_code(gm->graph());
    check("merged", gm->run(boxed(inputs)));
    optimize_for_inference(optimised);
    check("optimised", optimised.run(boxed(inputs)));
    rules::all.apply(ruled);
    check("rules::all", ruled.run(boxed(inputs)));
  }
}

TEST_CASE("what rules leave out stays a copy where somebody gets it, and only there") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({3, 4});
  struct Case {
    Forward function;
    std::size_t copies;  // that rules::all leaves
  };
  const std::vector<Case> cases = {
      {[](const Tensors& in) -> c10::IValue { return in[0] + 0; }, 1},
      {[](const Tensors& in) -> c10::IValue { return in[0] * 1; }, 1},
      {[](const Tensors& in) -> c10::IValue { return in[0].flip({1}).flip({1}); }, 1},
      {[](const Tensors& in) -> c10::IValue { return (in[0] * 1).t(); }, 1},
      {[](const Tensors& in) -> c10::IValue { return (in[0] * 1).exp(); }, 0},
      {[](const Tensors& in) -> c10::IValue { return in[0].exp() * 1; }, 0},
      {[](const Tensors& in) -> c10::IValue {
         const Tensor y = in[0].exp();
         return all_of({y, y * 1});
       },
       1},
      {[](const Tensors& in) -> c10::IValue {
         const Tensor y = in[0].exp();
         return all_of({y.t(), (y * 1).view({-1})});
       },
       1},
      {[](const Tensors& in) -> c10::IValue {
         const Tensor y = in[0] * 1;
         return all_of({y, y.sin(), y.cos()});
       },
       1},
      {[](const Tensors& in) -> c10::IValue { return all_of({in[0], in[0].view_as(in[0]), in[0].contiguous()}); }, 0},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto gm = traced(cases[i].function, {x});
    rules::all.apply(*gm);
    const std::string text = to_string(gm->graph());
    CAPTURE(text);
    CHECK(count_of(gm->graph(), ops::clone) == cases[i].copies);
    const Tensor input = x.clone();
    const Tensors wanted = tensors_of(cases[i].function({input})), given = tensors_of(gm->run({input}));
    for (std::size_t k = 0; k < given.size(); ++k) {
      CAPTURE(k);
      CHECK(layout_difference(given[k], wanted[k]) == "");
      CHECK(given[k].is_alias_of(input) == wanted[k].is_alias_of(input));
      for (std::size_t l = 0; l < k; ++l) CHECK(given[k].is_alias_of(given[l]) == wanted[k].is_alias_of(wanted[l]));
    }
  }
}

TEST_CASE("casts stay that are none only under the default dtype that there was") {
  const torch::NoGradGuard no_grad;
  struct Back {
    ~Back() { c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kFloat)); }
  } back;
  const Tensor integers = torch::arange(4), floats = torch::randn({4});
  const auto eager = [](const Tensors& in) {
    const Tensor quotient = in[0] / 3;
    return all_of({(torch::arange(4) / 2).to(torch::kFloat), torch::linspace(0, 1, 4).to(torch::kFloat) + 1,
                   (in[1] * torch::ones({4})).to(torch::kFloat), quotient.type_as(in[1]),
                   in[0].sqrt().to(torch::kFloat).exp(), quotient.to(torch::kFloat).to(torch::kDouble),
                   in[1].exp().to(torch::kFloat), in[0].sum().to(torch::kLong)});
  };
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
    const auto gm = traced(eager, {integers, floats});
    const std::size_t before = gm->graph().size();
    rules::all.apply(*gm);
    CHECK(gm->graph().size() < before);  // exp of floats is one of floats
    for (const auto other : {torch::kDouble, torch::kFloat}) {
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(other));
      const Tensors expected = tensors_of(eager({integers, floats})), given = tensors_of(gm->run({integers, floats}));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK((given[i].scalar_type() == expected[i].scalar_type()));
        CHECK(relative_difference(given[i], expected[i]) < 1e-6);
      }
    }
  }
}
