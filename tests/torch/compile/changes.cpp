// Specialised modules: what they were not made for. Members of layers that are others now, autocast, wrong inputs on
// the way to the interpreter, wrong examples and options; copies; results that the last place of a sum decides;
// LibTorch's global state.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <random>

#include "fxx/ops/operation.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/results.hpp"
#include "not_checked.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

struct Layers : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 8)),
                    second = register_module("second", torch::nn::Linear(8, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  Layers() : torch::nn::Module("Layers") { eval(); }
  Tensor forward(Tensor x) { return second->forward(norm->forward(first->forward(x)).relu()); }
};
struct Compiled {
  std::shared_ptr<Layers> net = std::make_shared<Layers>();
  Tensor x = torch::randn({4, 6});
  std::shared_ptr<GraphModule> gm = trace(*net, {x});
  std::shared_ptr<CompiledModule> module = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});

  double error() {
    const torch::NoGradGuard no_grad;
    return relative_difference(module->run({x}), c10::IValue(net->forward(x)));
  }
};
template <class F>
std::string words_of_run(const F& call) {
  try {
    call();
  } catch (const RunError& error) {
    CHECK(error.id() == ErrorId::input_mismatch);
    return error.what();
  }
  return "no RunError";
}
bool says(const std::string& words, const std::string& what) { return words.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("another tensor assigned to a layer's member is noticed, which LibTorch does not register") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(91);
  {
    Compiled c;
    CHECK(c.error() <= 1e-5);
    c.net->first->weight = torch::randn({8, 6});
    CHECK_FALSE(c.module->is_current());
    CHECK(c.error() == 0);
  }
  {
    Compiled c;
    c.net->second->bias = Tensor();
    CHECK_FALSE(c.module->is_current());
    CHECK(c.error() == 0);
  }
  {
    Compiled c;
    c.net->norm->running_mean = torch::randn({8});
    CHECK(c.error() == 0);
  }
  {
    Compiled c;
    c.net->first->weight = torch::randn({8, 6});
    // Compiled again it has that one; what is written to it later is noticed as well.
    const auto again = compile(*c.gm, {c.x}, {.threads = 1, .cache_folder = cache()});
    CHECK(again->is_current());
    CHECK(relative_difference(again->run({c.x}), c10::IValue(c.net->forward(c.x))) <= 1e-5);
    c.net->first->weight.mul_(2);
    CHECK(relative_difference(again->run({c.x}), c10::IValue(c.net->forward(c.x))) <= 1e-5);
  }
}

TEST_CASE("under autocast the graph decides what is computed with fewer bits") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(92);
  Compiled c;
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor given = c.module->run({c.x}).toTensor(), expected = c.net->forward(c.x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  CHECK((given.scalar_type() == expected.scalar_type()));
  CHECK((given.scalar_type() == torch::kBFloat16));
  CHECK(c.error() <= 1e-5);
}

TEST_CASE("compiled under autocast, it is what it is without") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(96);
  const auto net = std::make_shared<Layers>();
  const Tensor x = torch::randn({4, 6}), expected = net->forward(x);
  const auto gm = trace(*net, {x});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto compiled = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
  const auto copy = std::dynamic_pointer_cast<CompiledModule>(compiled->clone());
  const bool still_enabled = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  CHECK(still_enabled);
  REQUIRE(copy);
  for (CompiledModule* module : {compiled.get(), copy.get()}) {
    const Tensor given = module->run({x}).toTensor();
    CHECK((given.scalar_type() == torch::kFloat));
    CHECK(relative_difference(given, expected) <= 1e-5);
  }
}

TEST_CASE("edits of the graph of a module inside are noticed") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({3, 4});
  const auto inside = traced([](const Tensors& in) { return c10::IValue(in[0].relu()); }, {x});
  Graph graph;
  Node* const input = graph.placeholder("x");
  graph.output(graph.call_module("inside", {input}));
  GraphModule outer(
      std::map<std::string, GraphModule::Attribute>{{"inside", std::shared_ptr<torch::nn::Module>(inside)}}, graph);
  const auto compiled = compile(outer, {x}, {.cache_folder = cache()});
  CHECK(compiled->is_current());
  CHECK(same(compiled->run({x}).toTensor(), x.relu()));
  for (Node* node : inside->graph().nodes().snapshot())
    if (node->opcode() == Opcode::call_function) node->set_op(CallFunction{&ops::neg.info()});
  CHECK_FALSE(compiled->is_current());
  CHECK(same(compiled->run({x}).toTensor(), -x));
}

TEST_CASE("wrong inputs are one error that names them, on every way that a call may take") {
  torch::manual_seed(93);
  Compiled c;
  for (const bool gradients : {false, true}) {
    CAPTURE(gradients);
    const torch::AutoGradMode mode(gradients);
    const auto run = [&](c10::IValue input) { return words_of_run([&] { c.module->run_flat({std::move(input)}); }); };
    const Tensor more = torch::randn({5, 6}).requires_grad_(gradients),
                 wide = torch::randn({4, 6}, torch::kDouble).requires_grad_(gradients);
    CHECK(says(run(more), "input 'x' is Float[5, 6] on cpu; it was compiled for Float[4, 6] on cpu"));
    CHECK(says(run(wide), "input 'x' is Double[4, 6]"));
    CHECK(says(run(c.x.to_sparse()), "Sparse"));
    CHECK(says(run(3), "input 'x' is Int; it was compiled for"));
    CHECK(says(run(c10::IValue()), "input 'x' is None"));
    CHECK(says(run(Tensor()), "input 'x' (number 0) is missing or undefined"));
  }
  CHECK(c.error() <= 1e-5);
  // What is no longer what was compiled takes what the graph takes.
  const torch::NoGradGuard no_grad;
  c.net->to(torch::kDouble);
  const Tensor wide = c.x.to(torch::kDouble);
  CHECK(relative_difference(c.module->run({wide}), c10::IValue(c.net->forward(wide))) == 0);
}

TEST_CASE("examples and options that cannot be are refused before anything is built") {
  Compiled c;
  const auto words = [&](Tensor example, CompileOptions options) {
    options.cache_folder = cache();
    return words_of_run([&] { compile(*c.gm, {std::move(example)}, options); });
  };
  CHECK(says(words(Tensor(), {}), "the example for 'x' is an undefined tensor"));
  CHECK(says(words(torch::empty({4, 6}, torch::kMeta), {}), "the example for 'x' is on meta"));
  CHECK(says(words(torch::quantize_per_tensor(c.x, 0.1, 0, torch::kQInt8), {}),
             "is Strided of QInt8; it has to be a dense"));
  CHECK(says(words(c.x.to_sparse(), {}), "is Sparse of Float; it has to be a dense tensor"));
  CHECK(says(words(c.x, {.threads = -1}), "threads = -1; at most 256"));
  CHECK(says(words(c.x, {.threads = 257}), "threads = 257"));
  CHECK(says(words(c.x, {.timeout_seconds = -1}), "timeout_seconds = -1"));
  CHECK(says(words(c.x, {.timeout_seconds = not_a_number}), "timeout_seconds"));
  CHECK(says(words(c.x, {.tolerance = -1}), "tolerance = -1"));
  CHECK(says(words(c.x, {.tolerance = not_a_number}), "tolerance = nan"));
  CHECK(c.error() <= 1e-5);
}

TEST_CASE("a copy is compiled, of tensors of its own") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(94);
  Compiled c;
  const auto copy = std::dynamic_pointer_cast<CompiledModule>(c.module->clone());
  REQUIRE(copy);
  CHECK(copy->is_current());
  CHECK(copy->was_cached());
  CHECK(copy->threads() == 1);
  CHECK(copy->max_error() == c.module->max_error());
  const c10::IValue before = copy->run({c.x});
  CHECK(relative_difference(before, c.module->run({c.x})) == 0);
  c.net->first->weight.mul_(3);
  CHECK(relative_difference(copy->run({c.x}), before) == 0);
  CHECK(copy->is_current());
  CHECK_FALSE(c.module->is_current());
  // Of one that is not current, the copy is of what it is now.
  const auto later = std::dynamic_pointer_cast<CompiledModule>(c.module->clone(torch::Device(torch::kCPU)));
  REQUIRE(later);
  CHECK(later->is_current());
  CHECK(relative_difference(later->run({c.x}), c10::IValue(c.net->forward(c.x))) <= 1e-5);
}

TEST_CASE("where a graph rounds or compares, what the last place decides is no fault; anything else is") {
  torch::manual_seed(95);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({256, 256});
  net->function = [=](const Tensors& in) {
    const Tensor product = torch::linear(in[0], w);
    return all_of({(product * 4).round(), product / 3 * 3 == product, product.floor() + 1});
  };
  const Tensors in{torch::randn({256, 256})};
  const auto compiled = compile(*traced_net(*net, in), in, {.cache_folder = cache()});
  CHECK(compiled->is_current());
  CHECK(compiled->max_error() > 0.5);  // x / 3 * 3 is x where constants are joined, and not always in the interpreter
  // One value of the results would not be what the graph gives, whatever the last places are.
  const Tensor base = torch::randn({64}), other = base.clone();
  other[5] += 1;
  using fxx::detail::error_beside;
  const std::vector<c10::IValue> samples{base, base + 1e-3};
  CHECK(error_beside(base + 5e-4, samples) == 0);
  CHECK(error_beside(other, samples) > 0.1);
  CHECK(error_beside(base.round().to(torch::kLong), {base.round().to(torch::kLong)}) == 0);
  CHECK(error_beside(torch::tensor({1}), {torch::tensor({0}), torch::tensor({2})}) == infinite);
  CHECK(error_beside(torch::full({2}, not_a_number), {torch::ones({2})}) == infinite);
  CHECK(error_beside(torch::full({2}, not_a_number), {torch::ones({2}), torch::full({2}, not_a_number)}) == 0);
  CHECK(error_beside(torch::full({2}, infinite), {torch::ones({2})}) == infinite);
}

TEST_CASE("of integers every difference counts, and of complex numbers both parts do") {
  using fxx::detail::error_beside;
  using fxx::detail::relative_error;
  const Tensor indices = torch::arange(30000), other = indices.clone();
  other[7] += 3;
  CHECK(relative_error(indices, indices) == 0);
  CHECK(relative_error(other, indices) >= 1);
  CHECK(relative_error(other, torch::zeros_like(other)) >= 1);
  const std::int64_t large = std::int64_t{1} << 60;  // a double has not all of its digits
  CHECK(relative_error(torch::tensor({large + 1}), torch::tensor({large})) >= 1);
  CHECK(error_beside(torch::tensor({large + 1}), {torch::tensor({large})}) == infinite);
  CHECK(relative_error(torch::tensor({true, false}), torch::tensor({true, true})) >= 1);
  const Tensor numbers = torch::complex(torch::ones({4}), torch::full({4}, 2.F));
  CHECK(relative_error(numbers, numbers) == 0);
  CHECK(relative_error(numbers.conj(), numbers) >= 1);
  CHECK(relative_error(numbers.conj(), numbers.conj().resolve_conj()) == 0);
  CHECK(error_beside(numbers.conj(), {numbers}) >= 1);
}

namespace {

/// LibTorch's global state as it was, whatever a test does to it.
struct StateOfTorch {
  c10::ScalarType dtype = c10::get_default_dtype_as_scalartype();
  at::Context& context = at::globalContext();
  bool deterministic = context.deterministicAlgorithms(), warns = context.deterministicAlgorithmsWarnOnly(),
       fills = context.deterministicFillUninitializedMemory();
  at::Float32Precision products = context.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL),
                       convolutions = context.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::CONV);
  int threads = at::get_num_threads();
  StateOfTorch() = default;
  StateOfTorch(const StateOfTorch&) = delete;
  StateOfTorch& operator=(const StateOfTorch&) = delete;
  ~StateOfTorch() { back(); }
  void back() {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
    context.setDeterministicAlgorithms(deterministic, warns);
    context.setDeterministicFillUninitializedMemory(fills);
    context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, products);
    context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::CONV, convolutions);
    context.setUserEnabledMkldnn(true);
    context.setDeterministicMkldnn(false);
    context.setUserEnabledNNPACK(true);
    context.setSDPUseFlash(true);
    context.setSDPUseMath(true);
    context.setAllowFP16BF16ReductionMathSDP(false);
    at::globalContext().setFlushDenormal(false);
    at::set_num_threads(threads);
  }
};

/// Factories and operators whose dtype follows from the default, on integers and floats.
Tensor of_default_dtype(std::mt19937& random, const Tensor& integers) {
  const auto choose = [&](int count) { return std::uniform_int_distribution<int>(0, count - 1)(random); };
  const auto leaf = [&]() -> Tensor {
    switch (choose(8)) {
      case 0: return torch::arange(4) / 2;
      case 1: return torch::arange(0., 4.);
      case 2: return torch::full({4}, 1.25);
      case 3: return torch::linspace(0, 1, 4);
      case 4: return torch::ones({4}) / 3;
      case 5: return torch::eye(4).select(0, 1) * 0.1;
      case 6: return integers / 3;
      default: return integers.to(torch::kInt).sigmoid();
    }
  };
  Tensor x = leaf();
  for (int i = choose(3); i > 0; --i) switch (choose(5)) {
      case 0: x = x + leaf(); break;
      case 1: x = x * 1.5; break;
      case 2: x = integers.sqrt() - x; break;
      case 3: x = torch::where(integers > 1, x, leaf()); break;
      default: x = torch::atan2(integers + 1, integers + 2) * x;
    }
  return x;
}

}  // namespace

TEST_CASE("another default dtype: the graph, what is built of it and what is compiled give what eager gives") {
  const torch::NoGradGuard no_grad;
  StateOfTorch state;
  const Tensor x = torch::arange(4);
  for (int group = 0; group < 4; ++group) {
    // Many drawn results a library, since each costs the compiler a second.
    const auto eager = [&](const Tensors& in) {
      std::mt19937 random(static_cast<unsigned>(100 + group));
      std::vector<Tensor> results;
      for (int i = 0; i < 50; ++i) results.push_back(of_default_dtype(random, in[0]));
      return c10::IValue(results);
    };
    const bool doubles_first = group % 2 == 1;
    const auto dtype = [&](bool other) { return other != doubles_first ? torch::kDouble : torch::kFloat; };
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype(false)));
    const auto gm = traced(eager, {x});
    const auto compiled = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
    for (const bool other : {false, true, false}) {
      CAPTURE(group);
      CAPTURE(other);
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype(other)));
      CHECK(compiled->is_current() != other);
      const Tensors expected = tensors_of(eager({x})), of_graph = tensors_of(gm->run({x})),
                    given = tensors_of(compiled->run({x})),
                    one_by_one = tensors_of(Interpreter(*gm).run({x}));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK((of_graph[i].scalar_type() == expected[i].scalar_type()));
        CHECK((one_by_one[i].scalar_type() == expected[i].scalar_type()));
        CHECK((given[i].scalar_type() == expected[i].scalar_type()));
        CHECK(same(of_graph[i], expected[i]));
        CHECK(relative_difference(given[i], expected[i]) <= (other ? 0 : 1e-6));
      }
    }
  }
}

TEST_CASE("state of LibTorch that results follow is watched, and comes back") {
  const torch::NoGradGuard no_grad;
  StateOfTorch state;
  Compiled c;
  const auto noticed = [&](const auto& change) {
    change();
    const bool current = c.module->is_current();
    const double error = c.error();
    state.back();
    CHECK(c.module->is_current());
    return !current && error == 0;
  };
  CHECK(noticed([] { c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kDouble)); }));
  CHECK(noticed([&] { state.context.setDeterministicAlgorithms(true, false); }));
  CHECK(noticed([&] { state.context.setDeterministicAlgorithms(true, true); }));
  CHECK(noticed([&] {
    state.context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, at::Float32Precision::BF16);
  }));
  CHECK(noticed([&] {
    state.context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::CONV, at::Float32Precision::BF16);
  }));
  CHECK(noticed([&] { state.context.setSDPUseMath(false); }));
  CHECK(noticed([&] { state.context.setSDPUseFlash(false); }));
  CHECK(noticed([&] { state.context.setAllowFP16BF16ReductionMathSDP(true); }));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  CHECK_FALSE(c.module->is_current());
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(c.module->is_current());
  {
    const fake scope;
    CHECK_FALSE(c.module->is_current());
  }
  CHECK(c.module->is_current());
  // Each of these decides nothing but the order of sums in LibTorch, or what is cached: kernels are what they are.
  const auto passed_over = [&](const auto& change) {
    const Tensor before = c.module->run({c.x}).toTensor();
    change();
    CHECK(c.module->is_current());
    CHECK(same(c.module->run({c.x}).toTensor(), before));
    CHECK(c.error() <= 1e-5);
    state.back();
  };
  passed_over([&] { state.context.setUserEnabledMkldnn(false); });
  passed_over([&] { state.context.setDeterministicMkldnn(true); });
  passed_over([&] { state.context.setUserEnabledNNPACK(false); });
  passed_over([&] { at::set_num_threads(2); });
  passed_over([&] { state.context.setDeterministicFillUninitializedMemory(false); });
  passed_over([&] { at::autocast::set_autocast_dtype(at::kCPU, torch::kHalf); });
  at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
  passed_over([&] { at::autocast::set_autocast_cache_enabled(false); });
  at::autocast::set_autocast_cache_enabled(true);
}

TEST_CASE("compiled in another state it is current there, and nowhere else") {
  const torch::NoGradGuard no_grad;
  StateOfTorch state;
  state.context.setDeterministicAlgorithms(true, false);
  Compiled c;
  CHECK(c.module->is_current());
  CHECK(c.error() <= 1e-5);
  state.back();
  CHECK_FALSE(c.module->is_current());
  CHECK(c.error() == 0);
  // What takes no products does not ask how LibTorch computes them.
  const Tensor x = torch::randn({8});
  const auto gm = traced([](const Tensors& in) { return c10::IValue(in[0].exp() * 2); }, {x});
  const auto compiled = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
  state.context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, at::Float32Precision::BF16);
  CHECK(compiled->is_current());
}

TEST_CASE("denormal numbers are zero where the thread takes them for that") {
  const torch::NoGradGuard no_grad;
  StateOfTorch state;
  const Tensor x = torch::tensor({1e-40f, 3e-39f, -2e-42f, 1e-20f, 0.f, 5.f});
  const auto eager = [](const Tensors& in) {
    return c10::IValue(std::vector<Tensor>{in[0] * 0.5, in[0] + 1e-41, in[0] * in[0], (in[0] * 1e-3).sum()});
  };
  const auto gm = traced(eager, {x});
  for (const bool flushed_first : {false, true}) {
    if (!at::globalContext().setFlushDenormal(flushed_first)) {
      not_checked("numbers that are flushed to zero: this processor has no such mode");
      return;
    }
    const auto compiled = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
    for (const bool flushed : {flushed_first, !flushed_first, flushed_first}) {
      CAPTURE(flushed_first);
      CAPTURE(flushed);
      at::globalContext().setFlushDenormal(flushed);
      CHECK(compiled->is_current() == (flushed == flushed_first));
      const Tensors expected = tensors_of(eager({x})), given = tensors_of(compiled->run({x})),
                    of_graph = tensors_of(gm->run({x}));
      at::globalContext().setFlushDenormal(false);  // to compare
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(torch::equal(given[i], expected[i]));
        CHECK(torch::equal(of_graph[i], expected[i]));
      }
    }
  }
}

TEST_CASE("in inference mode and with gradients on, results are the same numbers and tensors of the mode") {
  StateOfTorch state;
  Compiled c;
  const Tensor expected = [&] {
    const torch::NoGradGuard no_grad;
    return c.module->run({c.x}).toTensor();
  }();
  {
    const c10::InferenceMode mode;
    CHECK(c.module->is_current());
    const Tensor given = c.module->run({c.x}).toTensor();
    CHECK(same(given, expected));
    CHECK(given.is_inference() == c.net->forward(c.x).is_inference());
    const auto inside = compile(*c.gm, {c.x}, {.threads = 1, .cache_folder = cache()});
    CHECK(inside->is_current());
    CHECK(same(inside->run({c.x}).toTensor(), expected));
  }
  const torch::AutoGradMode gradients(true);
  CHECK(c.module->is_current());
  CHECK(same(c.module->run({c.x}).toTensor(), expected));
}

TEST_CASE("memory that nobody has written to is filled where deterministic algorithms want it") {
  const torch::NoGradGuard no_grad;
  StateOfTorch state;
  const Tensor x = torch::randn({3, 4});
  const auto eager = [](const Tensors& in) {
    return all_of({torch::empty({4}), torch::empty({5}, torch::kLong), torch::empty({3}, torch::kBool),
                   torch::empty_like(in[0]), in[0].new_empty({2, 3}), torch::empty_strided({2, 3}, {1, 2}),
                   torch::empty({3, 4}) + in[0], torch::empty({2, 4}).sum(), torch::empty_like(in[0]).copy_(in[0])});
  };
  for (const bool traced_so : {false, true}) {
    state.context.setDeterministicAlgorithms(traced_so, false);
    const auto gm = traced(eager, {x});
    for (const bool compiled_so : {false, true}) {
      CAPTURE(traced_so);
      CAPTURE(compiled_so);
      state.context.setDeterministicAlgorithms(compiled_so, false);
      const auto compiled =
          compile(*gm, {x}, {.threads = 1, .tolerance = compiled_so ? 1e-4 : infinite, .cache_folder = cache()});
      state.context.setDeterministicAlgorithms(true, false);
      CHECK(compiled->is_current() == compiled_so);
      const c10::IValue expected = eager({x});
      CHECK(relative_difference(gm->run({x}), expected) == 0);
      CHECK(relative_difference(compiled->run({x}), expected) == 0);
      // Without the filling, kernels may give what they like there.
      state.context.setDeterministicFillUninitializedMemory(false);
      CHECK_FALSE(compiled->is_current());
      state.context.setDeterministicFillUninitializedMemory(true);
    }
  }
}
