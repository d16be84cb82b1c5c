// Compiled modules whose sizes depend in part on the elements of tensors: kernels before, between and behind what stays
// interpreted; and that these compute the same, whatever the elements. One long file: each that includes LibTorch takes
// 20 s and 1.3 GB to compile.
#include <atomic>
#include <thread>

#include "fxx/ops/operation.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
using support::TemporaryFolder;
using torch::Tensor;
namespace F = torch::nn::functional;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path();
}
c10::IValue all_of(Tensors results) {
  std::vector<c10::IValue> values(results.begin(), results.end());
  return c10::ivalue::Tuple::create(std::move(values));
}
Tensors in_double(Tensors tensors) {
  for (Tensor& tensor : tensors)
    if (tensor.is_floating_point()) tensor = tensor.to(torch::kDouble);
  return tensors;
}
/// The largest error beside what the function computes in float64, relative to the largest value of each result.
double error_of(const c10::IValue& given, const Forward& f, const Tensors& inputs) {
  const torch::NoGradGuard no_grad;
  const Tensors results = tensors_of(given), expected = tensors_of(f(in_double(cloned(inputs))));
  if (results.size() != expected.size()) return infinite;
  double worst = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    const bool floats = results[i].is_floating_point();
    const double error =
        floats ? relative_difference(results[i].to(torch::kDouble), expected[i]) : difference(results[i], expected[i]);
    if (error > 1e-5)
      MESSAGE("result ", i, " of sizes ", c10::str(results[i].sizes()), ", expected ", c10::str(expected[i].sizes()),
              ", differs by ", error);
    worst = std::max(worst, error);
  }
  return worst;
}
std::size_t regions_of(const CompiledModule& compiled) {
  std::size_t count = 0;
  for (const KernelStep& step : compiled.kernel_plan().steps)
    if (const auto* back = std::get_if<plans::CallBack>(&step.kernel)) count += back->is_region();
  return count;
}
std::size_t kernels_of(const CompiledModule& compiled) {
  std::size_t count = 0;
  for (const KernelStep& step : compiled.kernel_plan().steps)
    count += !std::holds_alternative<plans::CallBack>(step.kernel);
  return count;
}
/// "interpreted, product, pointwise": what the steps are, one after the other.
std::string steps_of(const CompiledModule& compiled) {
  std::string text;
  for (const KernelStep& step : compiled.kernel_plan().steps) {
    const auto* back = std::get_if<plans::CallBack>(&step.kernel);
    text += (text.empty() ? "" : ", ") + std::string(back ? back->is_region() ? "interpreted" : "call back" : "kernel");
  }
  return text;
}

struct Wanted {
  std::size_t regions = 1, kernels = 0;  // at least so many kernels
  std::vector<Tensors> more = {};
  double tolerance = 1e-5;
};
/// Compiles the function for these inputs and runs it on them and on more, with one thread and with three.
std::shared_ptr<CompiledModule> check(const Forward& f, const Tensors& inputs, const Wanted& wanted = {}) {
  const auto gm = traced(f, inputs);
  const torch::NoGradGuard no_grad;
  std::vector<Tensors> all = {inputs};
  all.insert(all.end(), wanted.more.begin(), wanted.more.end());
  std::shared_ptr<CompiledModule> last;
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    last = fxx::compile(*gm, inputs, {.threads = threads, .cache_folder = cache()});
    CAPTURE(last->kernel_plan().to_string());
    CHECK(last->is_current());
    CHECK(last->max_error() <= 1e-5);
    CHECK(regions_of(*last) == wanted.regions);
    CHECK(kernels_of(*last) >= wanted.kernels);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      const c10::IValue given = last->run(boxed(all[i]));
      CHECK(error_of(given, f, all[i]) <= wanted.tolerance);
      CHECK(relative_difference(given, gm->run(boxed(all[i]))) <= wanted.tolerance);
    }
  }
  return last;
}
/// Floats of which the masks of these tests let all through, none, one, and a part.
std::vector<Tensors> all_none_one(const Tensor& x) {
  Tensor one = torch::full_like(x, -1.5);
  one.flatten()[x.numel() / 2] = 1.25;
  return {{torch::full_like(x, 1.5)}, {torch::full_like(x, -1.5)}, {one}, {torch::randn_like(x)}};
}

}  // namespace

TEST_CASE("kernels before what depends on elements, and behind what brings it to known sizes again") {
  torch::manual_seed(1);
  const Tensor w = torch::randn({7, 33}), v = torch::randn({33, 5}), x = torch::randn({11, 7});
  const Forward f = [=](const Tensors& in) {
    const Tensor y = torch::relu(torch::matmul(in[0], w.to(in[0].scalar_type())));
    const Tensor chosen = in[0].index({in[0].select(1, 0) > 0});  // rows
    const Tensor sums = chosen.exp().sum(0);                      // of known sizes
    const Tensor z = torch::matmul(y * 0.5 + 1, v.to(in[0].scalar_type()));
    return all_of({torch::softmax(z + sums.slice(0, 0, 5), 1), sums, chosen});
  };
  const auto compiled = check(f, {x}, {.kernels = 4, .more = all_none_one(x)});
  CHECK(compiled->called_back().empty());
  CHECK_FALSE(compiled->interpreted().empty());
}

TEST_CASE("values of unknown sizes that are brought to known ones") {
  torch::manual_seed(2);
  const Tensor x = torch::randn({12, 5});
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    const Tensor mask = x.select(1, 0) > 0, rows = x.index({mask});
    const Tensor where = torch::nonzero(mask).squeeze(1);
    const Tensor padded = torch::cat({rows, torch::zeros({12, 5}, x.options())}).slice(0, 0, 12);
    const Tensor spread = torch::zeros_like(x).index_put({mask}, rows * 2);
    const Tensor scattered = torch::zeros_like(x).index_add(0, where, rows.tanh());
    const Tensor back = x.masked_scatter(x > 0, (x.masked_select(x > 0)).exp());
    const Tensor gram = torch::matmul(rows.t(), rows);
    const Tensor counts = torch::bincount(where, {}, 12).to(x.scalar_type());
    return all_of({padded.relu() + 1, spread.relu() + 1, scattered.relu() + 1, back.relu() + 1, gram.relu() + 1,
                   counts.relu() + 1, rows.sum().relu() + 1, rows.sum({0, 1}).relu() + 1,
                   torch::logsumexp(rows, 0).exp() + 1});
  };
  const auto compiled = check(f, {x}, {.kernels = 9, .more = all_none_one(x)});
}

TEST_CASE("two and three regions with kernels between, one reading past kernels what another gave") {
  torch::manual_seed(3);
  const Tensor w = torch::randn({6, 6}), x = torch::randn({9, 6});
  const Forward two = [=](const Tensors& in) {
    const Tensor weights = w.to(in[0].scalar_type());
    const Tensor first = in[0].index({in[0].select(1, 0) > 0});
    const Tensor y = torch::matmul(in[0] + first.sum(0), weights).tanh();
    const Tensor second = y.index({in[0].select(1, 1) > 0});
    return all_of({torch::cat({first, second}).sum(0).relu() + 1, torch::cat({second, first})});
  };
  auto compiled = check(two, {x}, {.regions = 2, .kernels = 4, .more = all_none_one(x)});
  const Forward three = [=](const Tensors& in) {
    const Tensor weights = w.to(in[0].scalar_type());
    const Tensor mask = in[0].select(1, 0) > 0, first = in[0].index({mask});
    const Tensor y = torch::matmul(in[0] + first.sum(0), weights).tanh();
    const Tensor second = y.index({mask}) + first;
    const Tensor z = torch::matmul(y * second.sum(0), weights).tanh();
    const Tensor third = z.index({mask}) * first - second;
    return all_of({third.sum(0).exp() + z, third, first.sum(1)});
  };
  compiled = check(three, {x}, {.regions = 3, .kernels = 6, .more = all_none_one(x)});
  CHECK(steps_of(*compiled).starts_with("kernel, interpreted, kernel"));
}

TEST_CASE("nothing but a region, and results of unknown sizes in lists, dictionaries and twice") {
  torch::manual_seed(4);
  const Tensor x = torch::randn({4, 3});
  const auto alone = check([](const Tensors& in) { return c10::IValue(torch::nonzero(in[0] > 0)); }, {x},
                           {.kernels = 0, .more = all_none_one(x)});
  CHECK(alone->kernel_plan().steps.back().name() == "nonzero");
  const Forward f = [](const Tensors& in) {
    const Tensor chosen = in[0].masked_select(in[0] > 0);
    c10::Dict<std::string, Tensor> named;
    named.insert("chosen", chosen * 2);
    named.insert("plain", in[0] * 2);
    return c10::IValue(c10::ivalue::Tuple::create(
        {c10::IValue(std::vector<Tensor>{chosen, in[0], in[0] + 1, chosen}), named, in[0].exp()}));
  };
  const auto compiled = check(f, {x}, {.kernels = 2, .more = all_none_one(x)});
  const torch::NoGradGuard no_grad;
  const Tensors results = tensors_of(compiled->run({x}));
  CHECK(results[0].is_same(results[3]));
  CHECK(results[1].is_same(x));
  const void* from = x.const_data_ptr();
  void* to[6] = {};
  const Fault fault = fault_of<RunError>([&] { compiled->run_raw(&from, to); });
  CHECK(fault.id == 702);
  CHECK(fault.says("depend on the elements"));
}

TEST_CASE("without tensors where all results have known sizes") {
  torch::manual_seed(5);
  const Tensor x = torch::randn({6, 4}), y = torch::randn({6, 4});
  const Forward f = [](const Tensors& in) {
    const Tensor rows = in[0].index({in[0].select(1, 0) > 0});
    const Tensor z = in[1] * rows.sum(0);
    return all_of({z.relu(), torch::cat({rows, z.index({z.select(1, 0) > 0})}).sum(0)});
  };
  const auto compiled = check(f, {x, y}, {.regions = 2, .kernels = 2});
  const void* from[] = {x.const_data_ptr(), y.const_data_ptr()};
  const Tensor first = torch::full({6, 4}, 7.f), second = torch::full({4}, 7.f);
  void* to[] = {first.mutable_data_ptr(), second.mutable_data_ptr()};
  compiled->run_raw(from, to);
  CHECK(error_of(all_of({first, second}), f, {x, y}) <= 1e-5);
}

TEST_CASE("what leaves a region does not lie in the memory between kernels") {
  // No trace has numbers that elements decide: a graph by hand.
  torch::manual_seed(6);
  Graph graph;
  Node *x = graph.placeholder("x"), *y = graph.call_function(ops::relu, {x});
  Node* count = graph.call_function(ops::sum, {graph.call_function(ops::gt_Scalar, {y, 0.5})});
  Node* number = graph.call_function(ops::item, {count});
  Node* part = graph.call_function(ops::slice_Tensor, {y, 0, 0, number});      // of what kernels made
  Node* of_input = graph.call_function(ops::slice_Tensor, {x, 0, 0, number});  // of the caller's
  Node* halves = graph.call_function(ops::chunk, {part, 2});                   // a list of such
  Node* total = graph.call_function(ops::sum, {part});
  // Kernels that use the memory again, and a region behind them that reads what the first gave.
  Node* z = graph.call_function(ops::mul_Tensor, {graph.call_function(ops::tanh, {x}), total});
  for (int i = 0; i < 4; ++i) z = graph.call_function(ops::sinc, {z});
  Node* again = graph.call_function(ops::mul_Tensor, {part, graph.call_function(ops::sum, {z})});
  graph.output(Argument::tuple({part, of_input, halves, total, z, again, number}));
  GraphModule module(std::map<std::string, GraphModule::Attribute>(), std::move(graph), "Slices");
  const Tensor example = torch::randn({64});
  const torch::NoGradGuard no_grad;
  const auto compiled = fxx::compile(module, {example}, {.threads = 1, .cache_folder = cache()});
  CAPTURE(compiled->kernel_plan().to_string());
  CHECK(compiled->max_error() <= 1e-5);
  CHECK(regions_of(*compiled) == 2);
  std::vector<std::pair<c10::IValue, c10::IValue>> results;
  for (const Tensor& in : {example, torch::randn({64}), torch::zeros({64}), torch::ones({64})})
    results.emplace_back(compiled->run({in}), module.run({in}));
  for (const auto& [given, expected] : results) {  // when all calls are over
    CHECK(relative_difference(given, expected) <= 1e-5);
    CHECK(given.toTupleRef().elements()[6].toInt() == expected.toTupleRef().elements()[6].toInt());
  }
  const Tensor in = torch::ones({64});
  CHECK(compiled->run({in}).toTupleRef().elements()[1].toTensor().is_alias_of(in));  // as the graph has it
}

TEST_CASE("an operator of a region that fails is named, and the module works afterwards; also from several threads") {
  torch::manual_seed(7);
  const Forward f = [](const Tensors& in) {
    const Tensor rows = in[0].index({in[0].select(1, 0) > 0});
    return all_of({(in[0] * 2).relu(), rows.amax(0).relu() + 1});  // of no row there is no largest
  };
  const Tensor x = torch::randn({5, 3}), none = torch::full({5, 3}, -1.f);
  const auto gm = traced(f, {x});
  const torch::NoGradGuard no_grad;
  for (const int threads : {1, 3}) {
    const auto compiled = fxx::compile(*gm, {x}, {.threads = threads, .cache_folder = cache()});
    CHECK(regions_of(*compiled) == 1);
    CHECK(kernels_of(*compiled) >= 2);
    for (int i = 0; i < 3; ++i) {
      std::string text;
      try {
        compiled->run({none});
      } catch (const c10::Error& e) {
        text = e.what();
      }
      CHECK(contains(text, "While executing %amax"));
      CHECK(text.find("While executing") == text.rfind("While executing"));
      CHECK(error_of(compiled->run({x}), f, {x}) <= 1e-5);
    }
    std::atomic<int> right = 0, failed = 0;
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t)
      callers.emplace_back([&, t] {
        const torch::NoGradGuard no_grad;
        for (int i = 0; i < 50; ++i) try {
            right += relative_difference(compiled->run({t % 2 ? none : x}), gm->run({x})) <= 1e-5;
          } catch (const c10::Error&) {
            ++failed;
          }
      });
    for (std::thread& caller : callers) caller.join();
    CHECK(right == 100);
    CHECK(failed == 100);
  }
}

TEST_CASE("many threads call at once; each gets what its elements give") {
  torch::manual_seed(8);
  const Tensor w = torch::randn({6, 6});
  const Forward f = [=](const Tensors& in) {
    const Tensor rows = in[0].index({in[0].select(1, 0) > 0});
    const Tensor y = torch::matmul(in[0], w.to(in[0].scalar_type())) + rows.sum(0);
    return all_of({y, torch::cat({rows, y.index({y.select(1, 1) > 0})})});
  };
  const Tensor x = torch::randn({16, 6});
  const auto gm = traced(f, {x});
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache()});
  CHECK(regions_of(*compiled) == 2);
  std::vector<Tensor> inputs;
  std::vector<c10::IValue> expected;
  for (int t = 0; t < 8; ++t) {
    const torch::NoGradGuard no_grad;
    inputs.push_back(torch::randn({16, 6}) + 0.5 * (t - 4));
    expected.push_back(gm->run({inputs.back()}));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (std::size_t t = 0; t < 8; ++t)
    callers.emplace_back([&, t] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 100; ++i) wrong += !(relative_difference(compiled->run({inputs[t]}), expected[t]) <= 1e-5);
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("inputs that want a gradient run interpreted, and get it") {
  torch::manual_seed(9);
  const Forward f = [](const Tensors& in) {
    return c10::IValue((in[0].relu() * in[0].masked_select(in[0] > 0).sum()).exp());
  };
  const Tensor x = torch::randn({5, 3}) * 0.1;
  const auto compiled = check(f, {x}, {.kernels = 2});
  const auto gradient_of = [&](const auto& forward) {
    const Tensor leaf = x.clone().set_requires_grad(true);
    tensors_of(forward(leaf))[0].sum().backward();
    return leaf.grad();
  };
  const Tensor given = gradient_of([&](const Tensor& in) { return compiled->run({in}); });
  REQUIRE(given.defined());
  CHECK(relative_difference(given, gradient_of([&](const Tensor& in) { return f({in}); })) <= 1e-6);
}

TEST_CASE("a graph with dynamic sizes is compiled in pieces for those of the examples") {
  torch::manual_seed(10);
  const Tensor w = torch::randn({7, 5});
  const Forward f = [=](const Tensors& in) {
    const Tensor y = torch::matmul(in[0], w.to(in[0].scalar_type())).relu();
    const Tensor rows = y.index({y.select(1, 0) > 0.1});
    return all_of({y + rows.sum(0), rows, (y.reshape({in[0].size(0) * 5}) * 2).tanh()});
  };
  const auto gm = traced(f, {torch::randn({11, 7})}, {.dynamic = {{0, 0, "batch"}}});
  const torch::NoGradGuard no_grad;
  for (const std::int64_t batch : {1, 4, 11, 13}) {
    const Tensor in = torch::randn({batch, 7});
    const auto compiled = fxx::compile(*gm, {in}, {.cache_folder = cache()});
    CHECK(compiled->is_current());
    CHECK(regions_of(*compiled) == 1);
    CHECK(kernels_of(*compiled) >= 3);
    CHECK(relative_difference(compiled->run({in}), f({in})) <= 1e-5);
    CHECK(fault_of<RunError>([&] { compiled->run({torch::randn({batch + 1, 7})}); }).id == 701);
  }
}

TEST_CASE("sizes that were the same in all trials, and are others in a call: the graph is interpreted") {
  torch::manual_seed(11);
  const Forward f = [](const Tensors& in) {
    const Tensor labels = in[1].masked_select(in[1] >= 0);
    const Tensor counts = torch::bincount(labels, {}, 40).to(in[0].scalar_type());
    return all_of({in[0].relu() + 1, counts.slice(0, 0, 40) * 2, counts + 1});
  };
  const Tensor x = torch::randn({5}), labels = torch::randint(40, {9});
  const auto gm = traced(f, {x, labels});
  const torch::NoGradGuard no_grad;
  const auto compiled = fxx::compile(*gm, {x, labels}, {.cache_folder = cache()});
  CHECK(kernels_of(*compiled) >= 3);
  for (const Tensor& more :
       {labels, torch::tensor({3, 120, -1, 5, 6, 7, 8, 9, 120}), torch::full({9}, -1, torch::kLong)}) {
    const Tensors given = tensors_of(compiled->run({x, more})), expected = tensors_of(gm->run({x, more}));
    REQUIRE(given.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(relative_difference(given[i], expected[i]) == 0);
  }
  // Of such a call there are no steps to measure.
  const Tensor more = torch::tensor({3, 120, -1, 5, 6, 7, 8, 9, 120});
  const Fault fault = fault_of<RunError>([&] { compiled->profile({x, more}, 1); });
  CHECK(fault.id == 702);
  CHECK(fault.says("compiled "));
}

TEST_CASE("were the sizes others where the graph writes to memory, it is an error, and what was written stays") {
  struct Counting : torch::nn::Module {
    Tensor calls = register_buffer("calls", torch::zeros({}));
    Tensor forward(Tensor labels) {
      calls.add_(1);
      return torch::bincount(labels.masked_select(labels >= 0), {}, 40) + calls;
    }
  } net;
  const Tensor labels = torch::randint(40, {9});
  const auto gm = trace(net, {labels});
  const torch::NoGradGuard no_grad;
  net.calls.zero_();
  const auto compiled = fxx::compile(*gm, {labels}, {.cache_folder = cache()});
  CHECK(regions_of(*compiled) == 1);
  for (int i = 0; i < 2; ++i) {
    const float before = net.calls.item<float>();
    CHECK(same(compiled->forward(labels), torch::bincount(labels, {}, 40) + before + 1));
    const Fault fault = fault_of<RunError>([&] { compiled->forward(labels * 10 + 50); });
    CHECK(fault.id == 702);
    CHECK(fault.says("'bincount' gave ["));
  }
}

TEST_CASE("operators in place, on values of unknown sizes and on what holds them") {
  torch::manual_seed(18);
  const Forward f = [](const Tensors& in) {
    Tensor rows = in[0].index({in[0].select(1, 0) > 0});
    rows.relu_();
    rows.slice(1, 0, 2).mul_(2);
    rows.add_(in[0].mean(0));
    Tensor all = in[0].tanh();
    all.index_put_({in[0].select(1, 0) > 0}, rows);
    all.mul_(rows.sum(0));
    return all_of({all + 1, rows, rows.sum(0)});
  };
  const Tensor x = torch::randn({6, 4});
  const auto compiled = check(f, {x}, {.kernels = 3, .more = all_none_one(x)});
  CHECK(compiled->called_back().empty());
}

TEST_CASE("random numbers are drawn, and memory is written to, in the order of the graph") {
  struct Counting : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({4}));
    Tensor seen = register_buffer("seen", torch::zeros({}, torch::kLong));
    Tensors forward(Tensor x) {
      const Tensor first = torch::dropout(x * 2, 0.5, true);
      const Tensor rows = x.index({x.select(1, 0) > 0});
      const Tensor noisy = rows + torch::rand_like(rows);
      const Tensor before = count + 1;
      count.add_(noisy.sum(0));
      seen.add_(torch::nonzero(x).sum());
      const Tensor second = torch::dropout(x + count, 0.3, true);
      const Tensor picked = count.masked_select(count > 0);
      x.mul_(2);
      return {first, noisy, before, second, torch::rand_like(picked), x + 1, count * 3, x.masked_select(x > 0), x};
    }
  } net;
  torch::manual_seed(12);
  const Tensor x = torch::randn({6, 4});
  const auto gm = trace(net, {x.clone()});
  const torch::NoGradGuard no_grad;
  const auto reset = [&] {
    for (const Tensor& tensor : net.buffers()) tensor.zero_();
    torch::manual_seed(5);
  };
  reset();
  for (const int threads : {1, 2}) {
    const auto compiled = fxx::compile(*gm, {x.clone()}, {.threads = threads, .cache_folder = cache()});
    CAPTURE(compiled->kernel_plan().to_string());
    CHECK(std::isnan(compiled->max_error()));
    CHECK(regions_of(*compiled) >= 1);
    CHECK(kernels_of(*compiled) >= 3);
    const auto run = [&](const std::function<c10::IValue(const Tensor&)>& forward) {
      reset();
      Tensors results;
      for (int i = 0; i < 4; ++i) {
        const Tensor in = i == 2 ? torch::full({6, 4}, -0.5f) : x.clone();
        for (const Tensor& tensor : tensors_of(forward(in))) results.push_back(tensor.clone());
        results.push_back(in.clone());
        for (const Tensor& tensor : net.buffers()) results.push_back(tensor.clone());
      }
      return all_of(std::move(results));
    };
    const Tensors given = tensors_of(run([&](const Tensor& in) { return compiled->run({in}); }));
    CHECK(compiled->is_current());
    const Tensors expected = tensors_of(run([&](const Tensor& in) { return gm->run({in}); }));
    const Tensors eager = tensors_of(run([&](const Tensor& in) { return all_of(net.forward(in)); }));
    REQUIRE(given.size() == expected.size());
    REQUIRE(given.size() == eager.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_difference(given[i], expected[i]) <= 1e-6);
      CHECK(relative_difference(given[i], eager[i]) <= 1e-6);
    }
    reset();
  }
}

TEST_CASE("inputs that a region writes to, in whatever layout") {
  torch::manual_seed(13);
  const Forward f = [](const Tensors& in) {
    const Tensor chosen = in[0].masked_select(in[0] > 0);
    in[1].masked_scatter_(in[0] > 0, chosen * 2);
    in[0].add_(chosen.sum());
    return all_of({in[1].exp(), in[0] * 2, in[1]});
  };
  const Tensor x = torch::randn({6, 4}), y = torch::randn({6, 4});
  const auto gm = traced(f, {x, y});
  const torch::NoGradGuard no_grad;
  const auto compiled = fxx::compile(*gm, {x.clone(), y.clone()}, {.cache_folder = cache()});
  CHECK(regions_of(*compiled) >= 1);
  for (int i = 0; i < 4; ++i) {
    const auto copies = [&] {
      Tensors in = {torch::randn({6, 4}), torch::randn({6, 4})};
      for (Tensor& tensor : in)
        if (i % 2) tensor = tensor.t().contiguous().t();
        else if (i == 2) tensor = torch::cat({tensor, tensor}, 1).slice(1, 0, 8, 2);
      return in;
    };
    torch::manual_seed(20 + i);
    const Tensors mine = copies();
    torch::manual_seed(20 + i);
    const Tensors theirs = copies();
    const Tensors given = tensors_of(compiled->run(boxed(mine))), expected = tensors_of(f(theirs));
    for (std::size_t k = 0; k < 3; ++k) CHECK(relative_difference(given[k], expected[k]) <= 1e-6);
    for (std::size_t k = 0; k < 2; ++k) CHECK(relative_difference(mine[k], theirs[k]) <= 1e-6);
  }
}

namespace {
// Operators that say nothing of their sizes, and one whose sizes depend on elements.
Tensor positive_rows(const Tensor& x) { return x.index({x.select(1, 0) > 0}); }
Tensor plainly_doubled(const Tensor& x) { return x * 2; }
}  // namespace
TORCH_LIBRARY(fxx_pieces_test, m) {
  m.def("positive_rows(Tensor x) -> Tensor");
  m.def("plainly_doubled(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(fxx_pieces_test, CPU, m) {
  m.impl("positive_rows", &positive_rows);
  m.impl("plainly_doubled", &plainly_doubled);
}

TEST_CASE("operators of which nobody knows what they give: all that does not need them has kernels") {
  torch::manual_seed(14);
  const auto call = [](const char* name, const Tensor& x) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Tensor(const Tensor&)>().call(x);
  };
  const Forward f = [=](const Tensors& in) {
    const Tensor rows = call("fxx_pieces_test::positive_rows", in[0].tanh());
    const Tensor more = call("fxx_pieces_test::plainly_doubled", in[0]);
    return all_of({rows.sum(0), in[0].relu().matmul(in[0].t()), more + 1});
  };
  const Tensor x = torch::randn({6, 4});
  const auto compiled = check(f, {x}, {.kernels = 3, .more = all_none_one(x)});
  CHECK(compiled->interpreted().size() == 4);
}

TEST_CASE("elements of attributes: those that stay are constants, those that the graph writes to are not") {
  struct Masked : torch::nn::Module {
    Tensor fixed = register_buffer("fixed", torch::tensor({true, false, true, true}));
    Tensor moving = register_buffer("moving", torch::tensor({true, false, false, false}));
    std::vector<Tensor> forward(Tensor x) {
      const Tensor y = x.index({fixed}).relu(), z = x.index({moving});
      moving.copy_(x.select(1, 0) > 0);
      return {y, z.sum(0) + 1, torch::nonzero(moving)};
    }
  } net;
  torch::manual_seed(15);
  const Tensor x = torch::randn({4, 3});
  const auto gm = trace(net, {x});
  const torch::NoGradGuard no_grad;
  const Tensor start = torch::tensor({true, false, false, false});
  net.moving.copy_(start);
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  CAPTURE(compiled->kernel_plan().to_string());
  CHECK(regions_of(*compiled) >= 1);
  const auto run = [&](const std::function<c10::IValue(const Tensor&)>& forward) {
    net.moving.copy_(start);
    Tensors results;
    for (const float shift : {0.f, 5.f, -5.f, 0.5f, -0.5f})
      for (const Tensor& tensor : tensors_of(forward(x + shift))) results.push_back(tensor.clone());
    return results;
  };
  const Tensors given = run([&](const Tensor& in) { return compiled->run({in}); }),
                expected = run([&](const Tensor& in) { return all_of(net.forward(in)); });
  CHECK(compiled->is_current());
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(given[i], expected[i]) <= 1e-6);
  }
}

TEST_CASE("where the order of writes cannot be kept, all is interpreted, with the reason") {
  Graph graph;
  Node *x = graph.placeholder("x"), *y = graph.call_function(ops::relu, {x});
  Node* number =
      graph.call_function(ops::item, {graph.call_function(ops::sum, {graph.call_function(ops::gt_Scalar, {x, 0})})});
  Node* part = graph.call_function(ops::slice_Tensor, {x, 0, 0, number});
  graph.call_function(ops::copy_, {x, graph.call_function(ops::mul_Tensor, {y, 2})});
  graph.output(Argument::tuple({part, y, x}));
  GraphModule module(std::map<std::string, GraphModule::Attribute>(), std::move(graph), "Shared");
  torch::manual_seed(16);
  const Tensor example = torch::randn({8});
  const torch::NoGradGuard no_grad;
  const auto compiled = fxx::compile(module, {example.clone()}, {.cache_folder = cache()});
  CHECK(compiled->is_current());
  CHECK(kernels_of(*compiled) == 0);
  CHECK(compiled->interpreted().size() >= 7);
  for (const auto& [name, why] : compiled->interpreted())
    CHECK(contains(why, "may write to memory that 'slice_1' shares"));
  for (int i = 0; i < 3; ++i) {
    const Tensor in = torch::randn({8}), mine = in.clone(), theirs = in.clone();
    const c10::IValue given = compiled->run({mine}), expected = module.run({theirs});
    CHECK(relative_difference(given, expected) == 0);
    CHECK(same(mine, theirs));
    CHECK(tensors_of(given)[0].is_alias_of(mine));
  }
}

TEST_CASE("strides into the memory of views, whose views are interpreted with them") {
  torch::manual_seed(91);
  const auto gm = traced(
      [](const Tensors& in) {
        const Tensor x = in[0] * 2, image = in[1];
        const Tensor slice = x.slice(0, 1, 4), turned = x.t();
        const std::vector<Tensor> parts = x.split(2), rows = image.unbind(1);
        return all_of({slice.as_strided({2, 3}, {7, 2}) + 1,
                       slice.as_strided({2, 3}, {1, 4}, 3).exp(),
                       turned.as_strided({4, 2}, {3, 5}),
                       turned.slice(0, 2, 5).unsqueeze(0).expand({2, 3, 6}).as_strided({3, 3}, {2, 4}) * 2,
                       parts[1].as_strided({5}, {2}) - 1,
                       rows[2].as_strided({2, 2}, {5, 1}),
                       in[0].select(1, 3).as_strided({4}, {7}),
                       image.view({3, 20}).narrow(1, 4, 8).as_strided({2, 4}, {11, 2}),
                       slice.relu().slice(1, 1, 3).as_strided({2, 2}, {3, 2}),
                       slice.contiguous().slice(1, 1, 3).as_strided({2, 2}, {3, 2}),
                       slice * 2 + parts[1].sum(),
                       torch::as_strided_scatter(x.slice(0, 1, 4), in[2], {2, 2}, {3, 5})});
      },
      {torch::randn({6, 7}), torch::randn({3, 4, 5}), torch::randn({2, 2})});
  for (const int threads : {1, 2}) {
    const auto compiled = fxx::compile(*gm, {torch::randn({6, 7}), torch::randn({3, 4, 5}), torch::randn({2, 2})},
                                       {.threads = threads, .cache_folder = cache()});
    CHECK(compiled->interpreted().size() >= 12);
    for (int i = 0; i < 3; ++i) {
      Tensors in = {torch::randn({6, 7}), torch::randn({3, 4, 5}), torch::randn({2, 2})};
      const Tensors given = tensors_of(compiled->run(boxed(in))), wanted = tensors_of(gm->run(boxed(in)));
      REQUIRE(given.size() == wanted.size());
      for (std::size_t k = 0; k < given.size(); ++k) {
        CAPTURE(k);
        CHECK(relative_difference(given[k], wanted[k]) <= 1e-6);
      }
    }
  }
}

TEST_CASE("strides into memory that is written to, before and behind, through them and around them") {
  torch::manual_seed(92);
  const Tensor weight = torch::randn({4, 3, 3, 3}), table = torch::randn({6, 7});
  const std::vector<std::pair<std::string, Forward>> cases = {
      {"written before",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2, y = x.slice(0, 1, 4);
         x.relu_();
         return all_of({y.as_strided({2, 3}, {7, 2}) + 1, x});
       }},
      {"written through",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2;
         x.slice(0, 1, 4).as_strided({2, 3}, {7, 2}).add_(1);
         return all_of({x * 2});
       }},
      {"written through, without views",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2;
         x.as_strided({2, 3}, {7, 2}).mul_(3);
         return all_of({x * 2});
       }},
      {"written behind",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2, y = x.slice(0, 1, 4).as_strided({2, 3}, {7, 2});
         x.slice(0, 0, 3).exp_();
         return all_of({y * 2, x});
       }},
      {"bits written",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2;
         x.view(torch::kInt).zero_();
         return all_of({x + in[0]});
       }},
      {"itself",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2, v = x.slice(0, 1, 4);
         v.as_strided_({2, 3}, {7, 2});
         return all_of({v + 1, x});
       }},
      {"of an image",
       [=](const Tensors& in) {
         const Tensor y = torch::conv2d(in[1], weight, {}, 1, 1).relu();
         return all_of({y.slice(1, 1, 3).as_strided({2, 5}, {20, 3}) * 2,
                        torch::conv2d(y.slice(1, 0, 3), weight, {}, 1, 1)});
       }},
      {"channels last",
       [=](const Tensors& in) {
         const Tensor image = in[1].contiguous(at::MemoryFormat::ChannelsLast);
         return all_of({torch::conv2d(image, weight, {}, 1, 1).slice(1, 1, 3).as_strided({2, 5}, {20, 3}) * 2});
       }},
      {"of a constant",
       [=](const Tensors& in) { return all_of({table.slice(0, 1, 4).as_strided({2, 3}, {7, 2}) + in[0].sum()}); }},
      {"twice, and nothing",
       [](const Tensors& in) {
         const Tensor x = in[0] * 2, y = x.slice(0, 1, 4).as_strided({3, 3}, {7, 2});
         return all_of({y.slice(0, 1, 3).as_strided({2, 2}, {2, 5}) + 1, y.as_strided({0, 3}, {7, 2}) + 1,
                        x.slice(0, 4, 6).as_strided({}, {}) + 1});
       }},
  };
  const Tensors in = {torch::randn({6, 7}), torch::randn({1, 3, 4, 5})};
  for (const auto& [name, f] : cases) {
    CAPTURE(name);
    const auto compiled = fxx::compile(*traced(f, in), in, {.cache_folder = cache()});
    for (int i = 0; i < 2; ++i) {
      const Tensors other = {torch::randn({6, 7}), torch::randn({1, 3, 4, 5})};
      CHECK(relative_difference(compiled->run(boxed(cloned(other))), f(cloned(other))) <= 1e-5);
    }
  }
}

TEST_CASE("profile and plan have a line for each region; was it edited, it runs interpreted") {
  torch::manual_seed(17);
  const Forward f = [](const Tensors& in) {
    const Tensor rows = in[0].index({in[0].select(1, 0) > 0});
    return all_of({in[0].tanh() * rows.sum(0), rows});
  };
  const Tensor x = torch::randn({6, 4});
  const auto compiled = check(f, {x}, {.kernels = 2});
  const std::vector<double> seconds = compiled->profile({x}, 3);
  REQUIRE(seconds.size() == compiled->kernel_plan().steps.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) CHECK(seconds[i] > 0);
  const std::string table = compiled->kernel_plan().to_string(seconds);
  CHECK(contains(table, "interpreted"));
  CHECK(contains(table, "index, sum"));
  CHECK(contains(compiled->source_code(), "interpreted: index, sum"));
  compiled->graph().output_node()->set_args({Argument::tuple({compiled->graph().nodes().front()})});
  CHECK_FALSE(compiled->is_current());
  CHECK(tensors_of(compiled->run({x}))[0].is_same(x));
}

TEST_CASE("random graphs in pieces compute what the interpreter does, whatever the elements") {
  std::size_t regions = 0, kernels = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    torch::manual_seed(static_cast<std::int64_t>(seed));
    const Tensor w = torch::randn({6, 6}) * 0.4, x = torch::randn({9, 6}), y = torch::randn({9, 6});
    const Forward f = [=](const Tensors& in) {
      test::Random random(seed);
      Tensors dense = {in[0], in[1]}, rows;  // [9, 6], and any number of rows of 6
      const auto any = [&](const Tensors& tensors) { return tensors[random.below(tensors.size())]; };
      Tensors results;
      for (int i = 0; i < 14; ++i) {
        const Tensor a = any(dense), b = any(dense);
        switch (random.below(rows.empty() ? 6 : 14)) {
          case 0: dense.push_back(torch::matmul(a, w.to(a.scalar_type())).tanh()); break;
          case 1: dense.push_back(a * b + 0.5); break;
          case 2: dense.push_back(torch::softmax(a, 1)); break;
          case 3:
          case 4:
          case 5: rows.push_back(a.index({b.select(1, static_cast<std::int64_t>(random.below(6))) > 0})); break;
          case 6: dense.push_back(a + any(rows).sum(0)); break;
          case 7: {
            const Tensor r = any(rows);
            dense.push_back(a * torch::matmul(r.t(), r).sum().tanh());
            break;
          }
          case 8: rows.push_back(torch::matmul(any(rows), w.to(a.scalar_type())).relu()); break;
          case 9: rows.push_back(torch::cat({any(rows), any(rows)})); break;
          case 10: dense.push_back(torch::cat({any(rows), a}).slice(0, 0, 9)); break;
          case 11: rows.push_back(any(rows) - any(dense).mean(0)); break;
          case 12: dense.push_back(std::get<0>(torch::cat({a, any(rows)}).topk(9, 0))); break;
          default: results.push_back(any(rows).sum(1));
        }
        if (dense.size() > 4) dense.erase(dense.begin());
      }
      results.insert(results.end(), dense.begin(), dense.end());
      results.insert(results.end(), rows.begin(), rows.end());
      return all_of(results);
    };
    TraceReport report;
    const auto gm = traced(f, {x, y}, {.report = &report});
    const torch::NoGradGuard no_grad;
    const auto compiled =
        fxx::compile(*gm, {x, y}, {.threads = 1 + static_cast<int>(seed % 3), .cache_folder = cache()});
    CAPTURE(compiled->kernel_plan().to_string());
    regions += regions_of(*compiled);
    kernels += kernels_of(*compiled);
    for (int i = 0; i < 4; ++i) {
      const float shift = i == 0 ? 0.f : i == 1 ? 9.f : i == 2 ? -9.f : 0.3f;
      const Tensors in = {torch::randn({9, 6}) + shift, torch::randn({9, 6}) + shift};
      CHECK(relative_difference(compiled->run(boxed(in)), gm->run(boxed(in))) <= 1e-5);
    }
  }
  CHECK(regions >= 15);
  CHECK(kernels >= 60);
}
