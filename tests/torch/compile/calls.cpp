// Specialised modules: what is checked and noticed when they are called and compiled, by one thread and by many.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "fxx/ops/operation.hpp"
#include "fxx/torch/fake.hpp"
#include "not_checked.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
using support::TemporaryFolder;
using support::Variable;

namespace {

/// Two convolutions, a batch norm, dropout, a linear layer.
struct SmallImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)));
  torch::nn::BatchNorm2d bn = register_module("bn", torch::nn::BatchNorm2d(16));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(16, 5));
  Tensor forward(Tensor image) { return fc(drop(torch::relu(bn(conv(image))).mean({2, 3}))); }
};
TORCH_MODULE(Small);
struct SmallCase {
  Small net;
  Tensor x = torch::randn({2, 3, 8, 8});
  std::shared_ptr<GraphModule> gm;
  std::shared_ptr<CompiledModule> compiled;
  SmallCase() {
    net->eval();
    gm = trace(net, {x});
    compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  }
  double error() {
    const torch::NoGradGuard no_grad;
    return relative_difference(compiled->run({x}), c10::IValue(net->forward(x)));
  }
};

TEST_CASE("inputs of another dtype, size or number are one error that names the input; other strides are converted") {
  SmallCase c;
  const torch::NoGradGuard no_grad;
  for (const Tensor& wrong :
       {c.x.to(torch::kDouble), torch::randn({2, 3, 8, 9}), torch::randn({2, 3, 8}), torch::randn({1, 3, 8, 8}),
        torch::empty({2, 3, 8, 8}, torch::kMeta), c.x.to_sparse(), c.x.to(torch::kHalf), torch::empty({0})}) {
    const Fault fault = fault_of<RunError>([&] { c.compiled->run({wrong}); });
    CHECK(fault.id == 701);
    CHECK(fault.says("'" + std::string(c.gm->graph().find_nodes(Opcode::placeholder)[0]->name()) + "'"));
    if (wrong.layout() != torch::kStrided) CHECK(fault.says("Sparse"));  // sizes and dtype are right
    CHECK(c.error() <= 1e-5);
  }
  CHECK(fault_of<RunError>([&] { c.compiled->run({}); }).id == 701);
  CHECK(fault_of<RunError>([&] { c.compiled->run({c.x, c.x}); }).id == 701);
  CHECK(fault_of<RunError>([&] { c.compiled->run({Tensor()}); }).id == 701);
  CHECK(fault_of<RunError>([&] { fxx::compile(*c.gm, {}, {.cache_folder = cache()}); }).id == 701);
  CHECK(fault_of<RunError>([&] { fxx::compile(*c.gm, {c.x, c.x}, {.cache_folder = cache()}); }).id == 701);
  for (const Tensor& other : {transposed_copy(c.x), sliced_copy(c.x), c.x.to(at::MemoryFormat::ChannelsLast),
                              torch::randn({1, 3, 1, 1}).expand({2, 3, 8, 8}), torch::_neg_view(c.x),
                              at::_efficientzerotensor({2, 3, 8, 8}, c.x.options())})
    CHECK(relative_difference(c.compiled->run({other}), c10::IValue(c.net->forward(other))) <= 1e-5);
  {
    const c10::InferenceMode inference;
    const Tensor other = torch::randn({2, 3, 8, 8});
    CHECK(relative_difference(c.compiled->run({other}), c10::IValue(c.net->forward(other))) <= 1e-5);
    CHECK(relative_difference(c.compiled->run({transposed_copy(other)}), c10::IValue(c.net->forward(other))) <= 1e-5);
  }
}

TEST_CASE("inputs keep their names where modules are traced through to be compiled") {
  struct Recurrent : torch::nn::Module {
    torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 4)));
    Tensor forward(Tensor tokens, Tensor state) { return std::get<0>(lstm(tokens)) + state; }
  } net;
  const Tensor tokens = torch::randn({5, 2, 3}), state = torch::randn({4});
  const auto gm = trace(net, {tokens, state}, {.input_names = {"tokens", "state"}});
  REQUIRE(gm->graph().find_nodes(Opcode::call_module).size() == 1);
  const auto compiled = fxx::compile(*gm, {tokens, state}, {.cache_folder = cache()});
  const auto words = [&](const Tensor& first, const Tensor& second) {
    const Fault fault = fault_of<RunError>([&] { compiled->run({first, second}); });
    CHECK(fault.id == 701);
    return fault;
  };
  CHECK(words(torch::randn({5, 2, 4}), state).says("input 'tokens'"));
  CHECK(words(tokens, torch::randn({5})).says("input 'state'"));
}

TEST_CASE("an input that has a default may be left out, also by an undefined tensor in front of others") {
  Graph graph;
  Node* const x = graph.placeholder("x");
  Node* const least = graph.placeholder("least", Argument());
  Node* const most = graph.placeholder("most");
  graph.output(graph.call_function(ops::clamp_Tensor, {x, least, most}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  const Tensor t = torch::randn({3, 4}), low = torch::zeros({3, 4}), high = torch::ones({3, 4});
  const auto compiled = fxx::compile(gm, {t, low, high}, {.cache_folder = cache()});
  const torch::NoGradGuard no_grad;
  CHECK(relative_difference(compiled->run({t, low, high}), c10::IValue(t.clamp(0, 1))) == 0);
  CHECK(relative_difference(compiled->run({t, Tensor(), high}), c10::IValue(t.clamp_max(1))) == 0);
  CHECK_THROWS_WITH_AS(compiled->run({Tensor(), low, high}), doctest::Contains("input 'x' (number 0) is missing"),
                       RunError);
}

TEST_CASE("inputs that want a gradient run interpreted, and get it") {
  SmallCase c;
  const Tensors in{torch::randn({2, 3, 8, 8})};
  const auto given = gradients(forward_of(*c.compiled), *c.net, in),
             expected = gradients(forward_of(*c.net), *c.net, in);
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(given[i].first);
    CHECK(difference(given[i].second, expected[i].second) < 1e-5);
  }
}

TEST_CASE("fakes, and inputs with a tangent, run interpreted") {
  SmallCase c;
  {
    const FakeScope fakes;
    const Tensor shape = c.compiled->run({fake_like(c.x)}).toTensor();
    CHECK(is_fake(shape));
    CHECK(shape.sizes() == at::IntArrayRef({2, 5}));
  }
  const std::uint64_t entered = torch::autograd::ForwardADLevel::get_next_idx();
  {
    const Tensor direction = torch::randn({2, 3, 8, 8});
    const Tensor dual = torch::_make_dual(c.x, direction, 0);
    const Tensor given = std::get<1>(torch::_unpack_dual(c.compiled->run({dual}).toTensor(), 0)),
                 expected = std::get<1>(torch::_unpack_dual(c.net->forward(dual), 0));
    REQUIRE(given.defined());
    CHECK(relative_difference(given, expected) <= 1e-5);
    const torch::NoGradGuard no_grad;  // which forward mode does not ask for
    CHECK(same(std::get<1>(torch::_unpack_dual(c.compiled->run({dual}).toTensor(), 0)), given));
  }
  torch::autograd::ForwardADLevel::release_idx(entered);
}

TEST_CASE(
    "what it was made for has changed: parameters, buffers, training, the graph; it is noticed, and results are "
    "right") {
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    CHECK(c.compiled->is_current());
    c.net->fc->weight.mul_(2);
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.net->bn->running_mean.add_(1);
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.net->fc->weight.set_data(torch::randn({5, 16}));
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.net->to(torch::kDouble);
    c.x = c.x.to(torch::kDouble);
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() <= 1e-5);
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    c.compiled->train();
    CHECK_FALSE(c.compiled->is_current());
    const c10::IValue one = c.compiled->run({c.x}), two = c.compiled->run({c.x});
    CHECK(relative_difference(one, two) > 0);  // dropout draws
    c.compiled->eval();
    CHECK(c.error() <= 1e-5);  // whatever the batch norm's buffers are by now
  }
  {
    SmallCase c;
    const torch::NoGradGuard no_grad;
    for (Node* node : c.compiled->graph().nodes().snapshot())
      if (const Operator* op = operator_of(*node); op && op->base_name() == "relu")
        node->set_op(CallFunction{&ops::neg.info()});
    CHECK_FALSE(c.compiled->is_current());
    CHECK(c.error() > 1e-3);
    CHECK(relative_difference(c.gm->run({c.x}), c10::IValue(c.net->forward(c.x))) == 0);
    const auto copy = std::dynamic_pointer_cast<CompiledModule>(c.compiled->clone());
    REQUIRE(copy);
    CHECK(copy->is_current());  // compiled from the graph as it is now
    CHECK(relative_difference(copy->run({c.x}), c.compiled->run({c.x})) <= 1e-5);
  }
}

TEST_CASE("many threads call at once; each gets its own result") {
  SmallCase c;
  const torch::NoGradGuard no_grad;
  Tensors inputs, expected;
  for (int i = 0; i < 6; ++i) {
    inputs.push_back(torch::randn({2, 3, 8, 8}));
    expected.push_back(c.net->forward(inputs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 30; ++i)
        wrong += !(relative_difference(c.compiled->run({inputs[t]}), c10::IValue(expected[t])) <= 1e-5);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("many threads call what writes to its buffers: one after the other, and nothing is lost") {
  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor forward(Tensor t) {
      count.add_(1);
      return t * 0 + count;
    }
  } counts;
  counts.eval();
  const Tensor x = torch::randn({3});
  const auto gm = trace(counts, {x});
  counts.count.zero_();
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  std::mutex mutex;
  std::set<float> seen;
  std::atomic<int> stale = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 25; ++i) {
        const Tensor got = compiled->run({x}).toTensor();
        stale += !compiled->is_current();
        const std::lock_guard lock(mutex);
        seen.insert(got[0].item<float>());
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(stale == 0);
  CHECK(same(counts.count, torch::full({3}, 100, torch::kFloat)));
  CHECK(seen.size() == 100);
}
TEST_CASE("packing what the graph wrote does not make other changes look packed") {
  struct Scaled : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor scale = register_parameter("scale", torch::ones({3}));
    Tensor forward(Tensor t) {
      count.add_(1);
      return t * (scale * 2) + count;  // scale * 2 is folded
    }
  } scaled;
  scaled.eval();
  const Tensor x = torch::randn({3});
  Tensor y = torch::empty({3});
  const auto gm = trace(scaled, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const void* const in[] = {x.const_data_ptr()};
  void* const out[] = {y.data_ptr()};
  compiled->run_raw(in, out);
  CHECK(compiled->is_current());
  scaled.scale.set_data(torch::full({3}, 5, torch::kFloat));
  CHECK_FALSE(compiled->is_current());
  compiled->run_raw(in, out);  // packs count
  CHECK_FALSE(compiled->is_current());
}
TEST_CASE("small work has one thread unless more are asked for") {
  const Tensor x = torch::randn({16}), large = torch::randn({1 << 16});
  const auto gm = traced([](const Tensors& in) { return in[0].relu() + 1; }, {x});
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  CHECK(fxx::compile(*gm, {x}, {.cache_folder = cache()})->threads() == 1);
  CHECK(fxx::compile(*gm, {x}, {.threads = 3, .cache_folder = cache()})->threads() == 3);
  const auto wide = traced([](const Tensors& in) { return in[0].relu() + 1; }, {large});
  CHECK(fxx::compile(*wide, {large}, {.cache_folder = cache()})->threads() == 2);
  at::set_num_threads(before);
}
TEST_CASE("for a processor that can do less: the same results from shorter vectors; one that nobody knows is refused") {
  torch::manual_seed(36);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({19, 37});
  net->function = [=](const Tensors& in) {
    return all_of({torch::linear(in[0], w).relu(), in[1].cumsum(1), in[1].cumsum(0)});
  };
  const Tensors inputs = {torch::randn({11, 37}), torch::randint(9, {11, 3}, torch::kInt)};
  const auto gm = traced_net(*net, inputs);
  const torch::NoGradGuard no_grad;
#if defined(__x86_64__)
  for (const auto& [march, lanes] : {std::pair<std::string, int>{"x86-64", 4}, {"haswell", 8}}) {
    CAPTURE(march);
    if (!has_vectors_of(lanes)) {
      not_checked("modules for " + march + ": this processor has no vectors of so many floats");
      continue;
    }
    const auto compiled = fxx::compile(*gm, inputs, {.threads = 1, .march = march, .cache_folder = cache()});
    CHECK(fxx::Library(compiled->library_path()).symbol<const kernels::ModuleInfo>("fxx_module")->lanes == lanes);
    CHECK(error_of(compiled->run(boxed(inputs)), in_double(*net, inputs)) <= 1e-6);
  }
#endif
  CHECK(fault_of<Error>([&] {
          fxx::compile(*gm, inputs, {.march = "no-such-processor", .cache_folder = cache()});
        }).id == 602);
  CHECK_FALSE(has_vectors_of(64));
}

TEST_CASE("without tensors: pointers in the order of inputs and results") {
  torch::manual_seed(19);
  const auto gm = traced(
      [](const Tensors& in) {
        return all_of({in[0] * 2 + in[1], (in[0] > 0), in[1].cumsum(0), in[0].t().contiguous()});
      },
      {torch::randn({3, 4}), torch::randn({4})});
  const auto compiled =
      fxx::compile(*gm, {torch::randn({3, 4}), torch::randn({4})}, {.threads = 2, .cache_folder = cache()});
  const Tensor x = torch::randn({3, 4}), y = torch::randn({4});
  Tensor sum = torch::empty({3, 4}), mask = torch::empty({3, 4}, torch::kBool), summed = torch::empty({4}),
         turned = torch::empty({4, 3});
  const void* const in[] = {x.const_data_ptr(), y.const_data_ptr()};
  void* const out[] = {sum.data_ptr(), mask.data_ptr(), summed.data_ptr(), turned.data_ptr()};
  compiled->run_raw(in, out);
  const Tensors expected = tensors_of(gm->run({x, y}));
  CHECK(relative_difference(sum, expected[0]) <= 1e-6);
  CHECK(same(mask, expected[1]));
  CHECK(relative_difference(summed, expected[2]) <= 1e-6);
  CHECK(same(turned, expected[3]));
}

// tests/sanitized.py runs it with kernels that are broken on purpose.
TEST_CASE("buffers between kernels, and packed weights, whose sizes fill no vector") {
  Net net;
  const Tensor w = net.parameter({37, 45}), v = net.parameter({29, 37}), b = net.parameter({29});
  net.function = [=](const Tensors& in) {
    const Tensor y = torch::softmax(torch::linear(in[0], w), -1);
    return all_of({torch::linear(y, v, b), torch::tanh(in[0]) * in[0]});
  };
  check(net, {torch::randn({5, 45})});
}

TEST_CASE("profile: seconds of each step, which the plan prints") {
  SmallCase c;
  const std::vector<double> seconds = c.compiled->profile({c.x});
  REQUIRE(seconds.size() == c.compiled->kernel_plan().steps.size());
  for (const double s : seconds) CHECK((s >= 0 && s < 1));
  const std::string text = c.compiled->kernel_plan().to_string(seconds);
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == seconds.size() + 2);
  const std::string head = text.substr(0, text.find('\n'));
  CHECK(head.find("expected us") < head.rfind(" us"));
  CHECK(fault_of<Error>([&] { c.compiled->profile({torch::randn({1, 3, 8, 8})}); }).id == 701);
  CHECK(fault_of<Error>([&] { c.compiled->profile({}); }).id == 701);
  CHECK(fault_of<Error>([&] { c.compiled->profile({c.x, c.x}); }).id == 701);
  CHECK(fault_of<Error>([&] { c.compiled->profile({Tensor()}); }).id == 701);
}
TEST_CASE("the nodes that a plan names live as long as the module, in one graph") {
  const SmallCase c;
  const Graph* graph = nullptr;
  for (const KernelStep& step : c.compiled->kernel_plan().steps)
    for (const Node* node : step.nodes) {
      if (!graph) graph = &node->graph();
      CHECK(&node->graph() == graph);
      CHECK_FALSE(node->is_erased());
      CHECK(node->tensor_meta());
    }
  REQUIRE(graph);
  CHECK(graph != &c.compiled->graph());
  CHECK(graph->index_bound() == graph->size());
}
TEST_CASE("the compiler fails, or the cache cannot be written: an error with the log, and the module works as before") {
  const Tensor x = torch::randn({3});
  const auto gm = traced([](const Tensors& in) { return in[0].relu() + 1; }, {x});
  const std::string text = to_string(gm->graph());
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& compiler, CompileOptions options) {
    const Variable variable("FXX_CXX", compiler);
    const Fault fault = fault_of<Error>([&] { fxx::compile(*gm, {x}, options); });
    CHECK(to_string(gm->graph()) == text);
    CHECK(same((*gm)(x), torch::relu(x) + 1));
    return fault;
  };
  CHECK(refusal("false", {.cache_folder = folder / "a"}).id == 602);
  CHECK(refusal(folder / "no-such-compiler", {.cache_folder = folder / "b"}).id == 601);
  Fault fault = refusal(support::failing_compiler(folder), {.cache_folder = folder / "c"});
  CHECK(fault.id == 602);
  CHECK(fault.says("line of the log"));
  fault = refusal(support::sleeping_compiler(folder), {.cache_folder = folder / "d", .timeout_seconds = 0.5});
  CHECK(fault.id == 603);
  CHECK(refusal(support::compiler_of_rubbish(folder), {.cache_folder = folder / "e"}).id == 605);
  {
    const Fault no_cache =
        fault_of<CompileError>([&] { fxx::compile(*gm, {x}, {.cache_folder = folder.file("a file", "") + "/cache"}); });
    CHECK(no_cache.id == 604);
    CHECK(no_cache.says("a file"));
  }
  {
    const Variable variable("FXX_INCLUDE", folder / "nothing");
    const Fault none = fault_of<CompileError>([&] { fxx::compile(*gm, {x}, {.cache_folder = folder / "f"}); });
    CHECK(none.id == 601);  // no others take their place
    CHECK(none.says(folder / "nothing"));
  }
}

TEST_CASE("two threads compile the same graph at once") {
  SmallCase c;
  const TemporaryFolder fresh;
  const auto compiles_and_is_right = [&] {
    const torch::NoGradGuard no_grad;
    const auto compiled = fxx::compile(*c.gm, {c.x}, {.threads = 1, .cache_folder = fresh.path()});
    return relative_difference(compiled->run({c.x}), c10::IValue(c.net->forward(c.x))) <= 1e-5;
  };
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) threads.emplace_back([&] { right += compiles_and_is_right(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 2);
}

TEST_CASE("names that hold code come out as names; the same graph gives the same text") {
  struct Odd : torch::nn::Module {
    Tensor a, b;
    Odd() : torch::nn::Module("*/ int x = system(\"true\"); /*\n#error \\") {
      a = register_parameter("w\"); abort(); (\"", torch::randn({4, 4}));
      b = register_parameter("w*/ #error\n#error", torch::randn({4}));
    }
    Tensor forward(Tensor x) { return torch::linear(x, a, b).cumsum(0) * a; }
  } odd;
  const Tensor x = torch::randn({4, 4});
  const auto gm = trace(odd, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  CHECK(relative_difference(compiled->run({x}), gm->run({x})) <= 1e-5);
  const auto again = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  CHECK(again->was_cached());
  CHECK(again->source_code() == compiled->source_code());
  // What is written anew for who asks is what was compiled.
  const std::string& library = compiled->library_path();
  CHECK(support::content_of(library.substr(0, library.rfind('/')) + "/source.cpp") == compiled->source_code());
  const auto traced_again = trace(odd, {x});
  CHECK(fxx::compile(*traced_again, {x}, {.cache_folder = cache()})->source_code() == compiled->source_code());
}

TEST_CASE("graphs of nothing: no operators, no elements, numbers, one element") {
  torch::manual_seed(20);
  check([](const Tensors& in) { return in[0]; }, {torch::randn({3})});
  check([](const Tensors& in) { return all_of({in[0], in[0]}); }, {torch::randn({3})});
  check(
      [](const Tensors& in) {
        return all_of({in[0] + 1, torch::cat({in[0], in[1]}, 0), in[0].relu().t(), in[1].sum(0)});
      },
      {torch::randn({0, 4}), torch::randn({3, 4})});
  check(
      [](const Tensors& in) {
        return all_of({in[0] * 2, in[0].exp() + in[1], in[0].reshape({1, 1}) + 1, in[1].sum(), in[0].expand({2, 3}) * 2,
                       in[0] > 0});
      },
      {torch::randn({}), torch::randn({5})});
  check(
      [](const Tensors& in) {
        return all_of({torch::conv2d(in[0], in[1]) + 1, in[0].softmax(1), in[0].mean({2, 3})});
      },
      {torch::randn({0, 3, 5, 5}), torch::randn({2, 3, 3, 3})},
      {.called_back = {"aten::conv2d", "aten::softmax.int", "aten::mean.dim"}});
  check([](const Tensors& in) { return torch::scaled_dot_product_attention(in[0], in[0], in[1]) * 2; },
        {torch::randn({1, 2, 3, 0}), torch::randn({1, 2, 3, 4})},
        {.called_back = {"aten::scaled_dot_product_attention"}});
}

TEST_CASE("a list, a dictionary, nothing among the results") {
  const Tensor x = torch::randn({4, 6});
  const auto gm = trace(
      [](Tensor t) {
        return std::tuple(torch::split(t * 2, 2, 1), std::map<std::string, Tensor>{{"a", t + 1}, {"b", t}}, t.exp());
      },
      {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const c10::IValue given = compiled->run({x});
  CHECK(relative_difference(given, gm->run({x})) <= 1e-6);
  CHECK(given.toTupleRef().elements()[1].toGenericDict().contains("b"));
}

TEST_CASE("a module that holds a compiled one is traced through it") {
  SmallCase c;
  struct Outer : torch::nn::Module {
    std::shared_ptr<CompiledModule> inner;
    Tensor forward(Tensor image) { return inner->run({image}).toTensor() * 2; }
  } outer;
  outer.inner = outer.register_module("inner", c.compiled);
  outer.eval();
  const auto gm = trace(outer, {c.x});
  const torch::NoGradGuard no_grad;
  CHECK(relative_difference(gm->run({c.x}), c10::IValue(c.net->forward(c.x) * 2)) <= 1e-5);
}

TEST_CASE("in a child of fork() a module of several threads gives the same, also while others call it") {
  SmallCase c;  // of two threads
  const torch::NoGradGuard no_grad;
  const auto x = c.x.contiguous();
  Tensor expected = torch::empty({2, 5});
  const void* const in[] = {x.const_data_ptr()};
  void* const out[] = {expected.data_ptr()};
  c.compiled->run_raw(in, out);
  std::atomic<bool> done = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&] {
      Tensor own = torch::empty({2, 5});
      void* const to[] = {own.data_ptr()};
      while (!done) c.compiled->run_raw(in, to);
    });
  int good = 0;
  for (int i = 0; i < 20; ++i) {
    Tensor result = torch::zeros({2, 5});
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      void* const to[] = {result.data_ptr()};
      bool right = true;
      for (int call = 0; call < 3; ++call) {
        c.compiled->run_raw(in, to);
        right = right && std::memcmp(result.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()) == 0;
      }
      c.compiled.reset();  // ends without waiting for threads that are not there
      _exit(right ? 0 : 1);
    }
    int status = 0;
    good += waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  done = true;
  for (std::thread& caller : callers) caller.join();
  CHECK(good == 20);
}
TEST_CASE("many callers at once: results are right, threads are bounded, and memory is given back") {
  SmallCase c;
  const torch::NoGradGuard no_grad;
  const c10::IValue expected = c.compiled->run({c.x});
  constexpr int callers = 60;
  std::atomic<int> wrong = 0, arrived = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&] {
      const torch::NoGradGuard off;
      ++arrived;
      while (arrived < callers) std::this_thread::yield();
      for (int call = 0; call < 20; ++call) wrong += relative_difference(c.compiled->run({c.x}), expected) != 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(c.compiled->workspaces() <= 17);
  c.compiled->free_workspaces();
  CHECK(c.compiled->workspaces() == 0);
  CHECK(relative_difference(c.compiled->run({c.x}), expected) == 0);
  CHECK(c.compiled->workspaces() == 1);
}

}  // namespace
