// Specialised modules: operators that are called back, and graphs that write to attributes and inputs.
#include "fxx/ops/operation.hpp"
#include "fxx/torch/wrap.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
namespace F = torch::nn::functional;

namespace {

TEST_CASE("operators without a kernel run between the kernels, on whatever lies where, and are told") {
  torch::manual_seed(17);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({8, 5, 3, 3}, 0.3), b = net->parameter({8}), lin = net->parameter({6, 9}),
               counts = net->constant(torch::arange(5));
  net->function = [=](const Tensors& in) {
    const Tensor &x = in[0], &n = in[1], &m = in[2];  // [2, 5, 7, 9] floats, [4, 5] int64, [4, 5] booleans
    const auto [values, indices] = torch::topk(torch::linear(x, lin), 3, -1);
    const auto [sorted, order] = (x * 2).select(0, 0).sort(0);
    const Tensor image = torch::conv2d(x, w, b, 1, 1).relu();
    const Tensor other = x.i0();
    return all_of({values + 1,
                   indices,
                   sorted,
                   order,
                   order.transpose(0, 1),
                   image.i0().sigmoid(),
                   torch::conv2d(other, w, b, 1, 1),
                   torch::conv2d(other.exp(), w),
                   torch::conv2d(image.i0().slice(1, 0, 5), w, b, 1, 2),
                   n + 1,
                   n * counts,
                   (n + 1).t(),
                   n.t(),
                   n.reshape({20}),
                   n,
                   n.to(x.scalar_type()) * 0.5,
                   n.t().to(x.scalar_type()) + 1,
                   n.sum(),
                   n.max(),
                   m.to(x.scalar_type()) * 2,
                   m.t().to(x.scalar_type()),
                   m.t(),
                   m.logical_not().t().contiguous(),
                   m.sum(),
                   m & (n > 2),
                   x.to(torch::kInt),
                   x.to(torch::kHalf),
                   x.to(torch::kHalf).transpose(1, 2),
                   x.argmax(-1),
                   x.argmax(-1)[0].t().slice(1, 0, 2).unsqueeze(0),
                   torch::einsum("bchw,dw->bchd", {x, lin}),
                   x.diagonal(0, 2, 3),
                   x.unfold(3, 4, 2),
                   torch::as_strided(image, {3, 4}, {7, 2}),
                   image.as_strided({2, 5}, {9, 3}, 4) * 2,
                   image.view(torch::kInt),
                   torch::view_as_complex(image.slice(3, 0, 8).reshape({2, 8, 7, 4, 2}).contiguous()).abs(),
                   x.var({2, 3}),
                   x.std(1),
                   image.var({2, 3}, false, true),
                   torch::gather(x, 3, indices.slice(1, 0, 5)),
                   x.index_select(1, counts.slice(0, 1, 3)),
                   torch::tril(x),
                   x.i0() + 1,
                   x.prod(2),
                   x.pow(2.5),
                   x.abs().pow(0.3),
                   torch::logsumexp(x, 1),
                   x.repeat({1, 2, 1, 1}) * 2,
                   torch::cdist(x[0], x[1]),
                   torch::bucketize(x, torch::linspace(-1, 1, 5).to(x.scalar_type())),
                   x.median(),
                   F::pad(x, F::PadFuncOptions({1, 2, 1, 1}).mode(torch::kReflect)) + 1,
                   F::instance_norm(x),
                   F::normalize(x, F::NormalizeFuncOptions().dim(1)),
                   torch::pixel_shuffle(image, 2),
                   torch::conv1d(x[0], lin.slice(1, 0, 7).unsqueeze(2)),
                   image.select(0, 1).argmax(0),
                   torch::avg_pool1d(image[0], 2),
                   torch::addcmul(x, x, x, 2),
                   torch::lerp(x, x * 2, 0.3),
                   torch::nan_to_num(x / 0),
                   x.frac(),
                   torch::where(n > 2, n, n * 2),
                   n.t() * 2,
                   torch::one_hot(n, 6),
                   torch::logit(x.sigmoid()),
                   torch::glu(image, 1)});
  };
  Tensors in{torch::randn({2, 5, 7, 9}), torch::randint(5, {4, 5}), torch::rand({4, 5}) > 0.5};
  const auto gm = traced_net(*net, in);
  for (const int threads : {1, 3}) {
    const auto compiled = fxx::compile(*gm, in, {.threads = threads, .tolerance = infinite, .cache_folder = cache()});
    const std::set<std::string> called = called_back_operators(*compiled);
    for (const char* name : {"aten::i0", "aten::view.dtype"}) CHECK(called.contains(name));
    CHECK(compiled->called_back().size() >= called.size());
    for (const auto& [name, why] : compiled->called_back()) {
      CAPTURE(name);
      CHECK_FALSE(why.empty());
      CHECK(contains(compiled->kernel_plan().to_string(), name));
    }
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < 3; ++i) {
      const Tensors other =
          i == 0   ? in
          : i == 1 ? Tensors{torch::randn({2, 5, 7, 9}), torch::randint(5, {4, 5}), torch::rand({4, 5}) > 0.5}
                   : Tensors{transposed_copy(in[0]), transposed_copy(in[1]), transposed_copy(in[2])};
      const Tensors given = tensors_of(compiled->run(boxed(other))), wanted = tensors_of(gm->run(boxed(other)));
      REQUIRE(given.size() == wanted.size());
      for (std::size_t k = 0; k < given.size(); ++k) {
        CAPTURE(k);
        CHECK(relative_difference(given[k], wanted[k]) <= 1e-5);
      }
    }
  }
}

TEST_CASE(
    "an exception of an operator that is called back reaches the caller, naming it; the module works afterwards") {
  torch::manual_seed(18);
  const Tensor good = torch::eye(4) * 3 + 0.1, bad = good - 5;
  const auto gm =
      traced([](const Tensors& in) { return all_of({torch::linalg_cholesky(in[0] * 2) * 2, in[0].relu()}); }, {good});
  for (const int threads : {1, 3}) {
    const auto compiled = fxx::compile(*gm, {good}, {.threads = threads, .cache_folder = cache()});
    CHECK(called_back_operators(*compiled) == std::set<std::string>{"aten::linalg_cholesky"});
    for (int i = 0; i < 3; ++i) {
      std::string text;
      try {
        compiled->run({bad});
      } catch (const c10::Error& e) {
        text = e.what();
      }
      CHECK(contains(text, "not positive-definite"));
      CHECK(contains(text, "While executing %linalg_cholesky"));
      CHECK(relative_difference(compiled->run({good}), gm->run({good})) <= 1e-6);
    }
  }
}

TEST_CASE("of two operators that are called back in a row the second fails: no thread waits for one that has left") {
  const Tensor good = torch::eye(4) * 3 + 0.1;
  const auto gm =
      traced([](const Tensors& in) { return all_of({torch::linalg_cholesky(torch::linalg_inv(in[0]))}); }, {good});
  const auto compiled = fxx::compile(*gm, {good}, {.threads = 6, .cache_folder = cache()});
  CHECK(called_back_operators(*compiled).size() >= 2);
  for (int i = 0; i < 300; ++i) CHECK_THROWS(compiled->run({-good}));
  CHECK(relative_difference(compiled->run({good}), gm->run({good})) <= 1e-6);
}

TEST_CASE("what is traced through to be compiled leaves buffers, inputs and random numbers as they were") {
  struct Counting : torch::nn::Module {
    Tensor steps = register_buffer("steps", torch::zeros({1}));
    torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 4).batch_first(true)));
    Tensor forward(Tensor x, Tensor state) {
      steps.add_(1);
      state.mul_(2);
      return std::get<0>(lstm(torch::dropout(x, 0.5, true))) + steps + state;
    }
  };
  torch::manual_seed(31);
  Counting net;
  const Tensor x = torch::randn({2, 5, 3}), state = torch::ones({4});
  const auto gm = trace(net, {x, state});
  REQUIRE(gm->graph().find_nodes(Opcode::call_module).size() == 1);
  net.steps.zero_();
  state.fill_(1);
  torch::manual_seed(32);
  const auto compiled = fxx::compile(*gm, {x, state}, {.cache_folder = cache()});
  CHECK(same(net.steps, torch::zeros({1})));
  CHECK(same(state, torch::ones({4})));
  const Tensor drawn = torch::rand({3});
  torch::manual_seed(32);
  CHECK(same(drawn, torch::rand({3})));
}

double gain = 1;
int counts = 0;
const auto scaled = fxx::wrap<"called_back::scaled">([](const Tensor& t) { return t * gain; });
const auto counted = fxx::wrap<"called_back::counted">([](const Tensor& t) { return ++counts, t + 1; }, {}, true);
const auto layered = fxx::wrap<"called_back::layered">([](torch::nn::Linear fc, const Tensor& t) { return fc(t); });

TEST_CASE("functions of the user's are called beside modules that are traced through, and do what they do now") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(33);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(3, 4));
  torch::nn::Linear fc(4, 2);
  const auto module_of = [&](bool counts_calls) {
    Graph graph;
    Node* const x = graph.placeholder("x");
    Node* const all = graph.call_module("lstm", {x});
    Node* const y = graph.call_function(scaled.target(), {graph.call_function(ops::operator_getitem, {all, 0})});
    Node* const z = graph.call_function(layered.target(), {graph.get_attr("fc"), y});
    graph.output(graph.call_function(ops::tanh, {counts_calls ? graph.call_function(counted.target(), {z}) : z}));
    const std::map<std::string, GraphModule::Attribute> modules{{"lstm", lstm.ptr()}, {"fc", fc.ptr()}};
    return std::make_shared<GraphModule>(modules, graph);
  };
  const Tensor x = torch::randn({5, 2, 3});
  const auto gm = module_of(false);
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  CHECK(compiled->is_current());
  CHECK(compiled->called_back().size() == 2);  // the functions; of the LSTM there are kernels
  for (const double now : {1., 2., 1.}) {
    gain = now;
    CHECK(relative_difference(compiled->run({x}), gm->run({x})) <= 1e-5);
  }
  fc->weight.mul_(2);
  CHECK(relative_difference(compiled->run({x}), gm->run({x})) <= 1e-5);
  const auto counting = module_of(true);
  const auto compiled_counting = fxx::compile(*counting, {x}, {.cache_folder = cache()});
  for (int call = 0; call < 3; ++call) {
    const int before = counts;
    const c10::IValue given = compiled_counting->run({x});
    CHECK(counts == before + 1);
    CHECK(relative_difference(given, counting->run({x})) <= 1e-5);
  }
}

/// Asks how its input lies, which leaves no mark in a trace.
struct Flat : torch::nn::Module {
  Tensor forward(Tensor x) { return x.contiguous().view({-1}); }
};

TEST_CASE("modules are traced through with tensors that lie in memory as those that they are given") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(34);
  register_leaf<Flat>();
  const std::map<std::string, GraphModule::Attribute> modules{{"flat", std::make_shared<Flat>()}};
  const Tensor x = torch::randn({3, 4});
  for (const bool beside : {true, false}) {  // a function of the user's
    CAPTURE(beside);
    Graph graph;
    Node* const x_node = graph.placeholder("x");
    Node* const y =
        beside ? graph.call_function(scaled.target(), {x_node}) : graph.call_function(ops::neg, {x_node});
    Node* const one_more = graph.call_function(ops::unsqueeze, {y, 0});
    Node* const given[] = {y, graph.call_function(ops::transpose_int, {y, 0, 1}),
                           graph.call_function(ops::slice_Tensor, {y, 1, 0, 2}),
                           graph.call_function(ops::expand, {one_more, Argument::list({2, 3, 4})})};
    std::vector<Argument> results;
    for (Node* node : given)
      results.emplace_back(graph.call_function(ops::tanh, {graph.call_module("flat", {node})}));
    graph.output(Argument::tuple(std::move(results)));
    GraphModule gm(modules, graph);
    const auto compiled = fxx::compile(gm, {x}, {.cache_folder = cache()});
    CHECK(relative_difference(compiled->run({x}), gm.run({x})) <= 1e-5);
  }
  // Inputs of the graph may be cut out of others.
  Graph graph;
  graph.output(graph.call_function(ops::tanh, {graph.call_module("flat", {graph.placeholder("x")})}));
  GraphModule gm(modules, graph);
  const Tensor part = x.slice(1, 0, 2);
  const auto compiled = fxx::compile(gm, {part}, {.cache_folder = cache()});
  for (const Tensor& given : {part, part.contiguous()})
    CHECK(relative_difference(compiled->run({given}), gm.run({given})) <= 1e-5);
}

TEST_CASE("graphs that write to attributes and inputs, that draw numbers, that return inputs and parameters") {
  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor scale = register_parameter("scale", torch::ones({3}));
    std::tuple<Tensor, Tensor, Tensor> forward(Tensor t) {
      count.add_(1);
      return {t * scale + count, scale, count.clone()};
    }
  } counts;
  counts.eval();
  const Tensor x = torch::randn({3});
  const auto gm = trace(counts, {x});
  counts.count.zero_();
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  CHECK(same(counts.count, torch::zeros({3})));
  for (int i = 1; i < 4; ++i) {
    const Tensors got = tensors_of(compiled->run({x}));
    CHECK(compiled->is_current());
    CHECK(same(got[0], x + i));
    CHECK(same(got[1], torch::ones({3})));
    CHECK(same(got[2], torch::full({3}, i, torch::kFloat)));
    got[1].fill_(7);
    CHECK(same(counts.count, torch::full({3}, i, torch::kFloat)));
  }
  CHECK(same(counts.scale, torch::ones({3})));  // who gets a result may write to it
  counts.scale.mul_(2);
  CHECK_FALSE(compiled->is_current());
  CHECK(same(tensors_of(compiled->run({x}))[0], x * 2 + 4));

  const auto random = traced(
      [](const Tensors& in) {
        const Tensor &x = in[0], twice = torch::dropout(x, 0.5, true) * 2;
        return all_of({x, twice, torch::rand({3}) + 1, x + 0, x.view({1, 3})});
      },
      {x});
  const auto drawn = fxx::compile(*random, {x}, {.cache_folder = cache()});
  CHECK(std::isnan(drawn->max_error()));
  torch::manual_seed(4);
  const c10::IValue expected = random->run({x});
  torch::manual_seed(4);
  const c10::IValue given = drawn->run({x});
  CHECK(relative_difference(given, expected) == 0);
  CHECK(tensors_of(given)[0].is_same(x));
  for (const int i : {3, 4}) CHECK_FALSE(tensors_of(given)[static_cast<std::size_t>(i)].is_alias_of(x));
  {
    // An input that lies otherwise gets what was written to its copy, and only then: nobody could write to this one.
    const c10::InferenceMode inference;
    const Tensor wide = torch::randn({1}).expand({3});
    torch::manual_seed(4);
    const c10::IValue of_wide = random->run({wide});
    torch::manual_seed(4);
    CHECK(relative_difference(drawn->run({wide}), of_wide) == 0);
    const Tensor x = torch::randn({3}).repeat(2), mine = x.clone().slice(0, 0, 6, 2), theirs = x.slice(0, 0, 6, 2);
    const auto writing = traced([](const Tensors& in) { return in[0].add_(1) * 2; }, {torch::randn({3})});
    const auto writes = fxx::compile(*writing, {torch::randn({3})}, {.cache_folder = cache()});
    CHECK(relative_difference(writes->run({mine}), writing->run({theirs})) == 0);
    CHECK(same(mine, theirs));
  }
}

TEST_CASE("inputs in the same memory, of each other or of attributes, that the graph writes to: results are its own") {
  struct Adds : torch::nn::Module {
    Tensor sum = register_buffer("sum", torch::zeros({4, 5}));
    std::tuple<Tensor, Tensor> forward(Tensor a, Tensor b) {
      a.add_(1);
      sum.add_(b);
      return {a * b, sum * a};
    }
  } adds;
  const auto gm = trace(adds, {torch::randn({4, 5}), torch::randn({4, 5})});
  const auto compiled = fxx::compile(*gm, {torch::randn({4, 5}), torch::randn({4, 5})}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  const Tensor memory = torch::randn({9, 5}), before = torch::randn({4, 5});
  // The row at which each input starts in the memory; none: it is the attribute.
  using Row = std::optional<std::int64_t>;
  const std::vector<std::pair<Row, Row>> rows{{0, 0}, {0, 3}, {3, 0}, {{}, 0}, {0, {}}, {0, 5}};
  for (const auto& [first, second] : rows) {
    CAPTURE(first.value_or(-1));
    CAPTURE(second.value_or(-1));
    const auto run = [&](GraphModule& module) {
      adds.sum.copy_(before);
      const Tensor mine = memory.clone();
      const auto input = [&](Row row) { return row ? mine.narrow(0, *row, 4) : adds.sum; };
      Tensors seen = tensors_of(module.run({input(first), input(second)}));
      seen.insert(seen.end(), {mine, adds.sum.clone()});
      return all_of(seen);
    };
    const c10::IValue expected = run(*gm);
    CHECK(relative_difference(run(*compiled), expected) <= 1e-6);
    CHECK(compiled->is_current());
  }
}

TEST_CASE("attributes that the graph writes to: who reads them behind it, or gets them, sees what they hold then") {
  struct Written : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({2, 3}));
    Tensor places = register_buffer("places", torch::zeros({3}, torch::kLong));
    Tensor noise = register_buffer("noise", torch::zeros({3, 3}));
    Tensors forward(Tensor t) {
      const Tensor row = noise.select(0, 1);
      const Tensor before = t + noise;
      noise.normal_();
      const Tensor between = t.matmul(noise) + row;
      row.uniform_();
      count.add_(t.sum());
      places.add_(torch::arange(3)).remainder_(3);
      return {count, count.t(), places, t.index_select(1, places), before, between, noise.relu(), row * 2, noise};
    }
  } written;
  written.eval();
  const Tensor x = torch::randn({3, 3});
  const auto gm = trace(written, {x});
  const torch::NoGradGuard no_grad;
  const auto reset = [&] {
    for (const Tensor& tensor : written.buffers()) tensor.zero_();
    torch::manual_seed(5);
  };
  reset();
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  const auto run = [&](GraphModule& module) {
    reset();
    std::vector<c10::IValue> results;
    for (int i = 0; i < 3; ++i)
      for (const Tensor& tensor : tensors_of(module.run({x}))) results.push_back(tensor.clone());
    return c10::IValue(c10::ivalue::Tuple::create(std::move(results)));
  };
  const Tensors expected = tensors_of(run(*gm)), given = tensors_of(run(*compiled));
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(given[i], expected[i]) <= 1e-6);
  }
  CHECK(compiled->is_current());
}

}  // namespace
