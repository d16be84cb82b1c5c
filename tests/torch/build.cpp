// What goes through files. Graphs as C++ that a compiler builds, loaded into this program or as a project of its own in
// a folder; weights; and all of it on a pretrained sentence encoder, against embeddings that an independent PyTorch
// program computed (oracle/minilm.py). What goes wrong says so once, with the log, and leaves modules as they were.
//
// Reads minilm.json from FXX_ORACLE_DIR and the model from FXX_MODEL_DIR. Without a model, which `tools/setup --model`
// fetches, what needs one is skipped, and counted so. FXX_PYTHON runs Meson. One long file: each that includes LibTorch
// takes 20 s and 1.3 GB to compile.
#include "fxx/torch/build.hpp"

#include <random>
#include <sstream>
#include <thread>

#include "../examples/sentence_search/bert.hpp"
#include "fxx/io/safetensors.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/runtime/process.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rules/library.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/quantise.hpp"
#include "fxx/torch/to_folder.hpp"
#include "fxx/torch/weights.hpp"
#include "fxx/torch/wrap.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "codegen/macros.hpp"
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
using support::TemporaryFolder;
using support::Variable;
using torch::Tensor;
namespace F = torch::nn::functional;

namespace {

/// Built libraries of all tests, so that the same graph is built once.
const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path();
}
std::shared_ptr<BuiltModule> built(GraphModule& module, const Tensors& inputs) {
  return fxx::build(module, inputs, {.tolerance = 0, .cache_folder = cache()});
}

/// Leaf modules, parameters, buffers, several results of several kinds, in-place operators, numbers that no literal
/// spells, texts.
struct ManyImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1)));
  torch::nn::BatchNorm2d bn = register_module("bn", torch::nn::BatchNorm2d(4));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(4, 5));
  Tensor scale = register_parameter("scale", torch::randn({4, 1, 1}));
  Tensor shift = register_buffer("shift", torch::randn({5}));
  std::tuple<Tensor, std::vector<Tensor>, std::map<std::string, Tensor>, Tensor> forward(Tensor x) {
    Tensor y = bn(conv(x)) * scale;
    y.clamp_(-std::numeric_limits<double>::infinity(), 1e3);
    Tensor z = fc(F::gelu(y, F::GELUFuncOptions().approximate("tanh")).mean({2, 3})) + shift;
    auto [values, indices] = z.topk(2);
    const Tensor masked = z.masked_fill(z < 0, -std::numeric_limits<float>::infinity());
    return {torch::einsum("bi,bj->bij", {z, values}), torch::split(z, {2, 3}, 1), {{"a \"key\"\n", indices}}, masked};
  }
};
TORCH_MODULE(Many);

TEST_CASE("a built module computes what the graph does, for inputs of other sizes, strides and kinds too") {
  torch::manual_seed(1);
  Many net;
  net->eval();
  const auto gm = trace(net, {torch::randn({2, 3, 8, 8})});
  const auto compiled = built(*gm, {torch::randn({2, 3, 8, 8})});
  CHECK(compiled->is_current());
  CHECK(compiled->max_error() == 0);
  CHECK(contains(compiled->source_code(), "fxx_forward"));
  CHECK(std::filesystem::exists(compiled->library_path()));
  const torch::NoGradGuard no_grad;
  const Tensor image = torch::randn({3, 3, 10, 6});
  for (const Tensor& in :
       {image, image.transpose(2, 3), image.slice(3, 0, 6, 2), image.to(at::MemoryFormat::ChannelsLast),
        torch::randn({1, 3, 1, 1}), torch::randn({0, 3, 4, 4}), torch::randn({1, 3, 4, 4}).expand({5, 3, 4, 4})}) {
    CAPTURE(in.sizes());
    CHECK(relative_difference(compiled->run({in}), gm->run({in})) == 0);
    CHECK(relative_difference(compiled->run({in}), fxx::detail::box_result(net->forward(in))) == 0);
  }
  const c10::IValue result = compiled->run({image});
  CHECK(result.toTupleRef().elements()[2].toGenericDict().contains("a \"key\"\n"));
  CHECK(relative_difference(result.toTupleRef().elements()[0], std::get<0>(net->forward(image))) == 0);

  // The same errors as interpreted.
  CHECK(fault_of<RunError>([&] { compiled->run({}); }).id == 701);
  CHECK(fault_of<RunError>([&] { compiled->run({image, image}); }).id == 701);
  CHECK(fault_of<RunError>([&] { compiled->run({Tensor()}); }).id == 701);
  for (const Tensor& wrong : {torch::randn({2, 4, 8, 8}), torch::randn({3}), image.to(torch::kDouble)}) {
    std::string text;
    try {
      compiled->run({wrong});
    } catch (const c10::Error& e) {
      text = e.what();
    }
    CHECK(contains(text, "While executing %conv"));
  }
  CHECK(relative_difference(compiled->run({image}), gm->run({image})) == 0);
}

TEST_CASE("a linear module of any number of dimensions is built of the calls that it makes itself") {
  torch::manual_seed(5);
  for (const bool bias : {true, false}) {
    torch::nn::Sequential net(torch::nn::Linear(torch::nn::LinearOptions(37, 53).bias(bias)), torch::nn::GELU(),
                              torch::nn::Linear(torch::nn::LinearOptions(53, 29).bias(bias)));
    net->eval();
    const Tensor first = torch::randn({3, 11, 37});
    const auto gm = trace(*net, {first});
    const auto module = built(*gm, {first});
    CHECK(module->max_error() == 0);
    const std::vector<std::vector<std::int64_t>> all = {{37}, {6, 37}, {1, 37}, {2, 5, 37}, {2, 3, 4, 37}};
    for (const auto& sizes : all) {
      const Tensor x = torch::randn(sizes);
      CHECK(torch::equal(module->forward(x), net->forward(x)));
      const Tensor strided = x.transpose(0, -1).contiguous().transpose(0, -1);
      CHECK(torch::equal(module->forward(strided), net->forward(strided)));
    }
  }
}

TEST_CASE("gradients pass through a built module; parameters stay those of the module") {
  torch::manual_seed(2);
  Many net;
  net->eval();
  const auto gm = trace(net, {torch::randn({2, 3, 8, 8})});
  const auto compiled = built(*gm, {torch::randn({2, 3, 8, 8})});
  CHECK(compiled->was_cached());  // the text knows nothing of the weights
  const Tensors in{torch::randn({2, 3, 5, 5})};
  const auto given = gradients(forward_of(*compiled), *net, in), expected = gradients(forward_of(*net), *net, in);
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(given[i].first);
    CHECK(difference(given[i].second, expected[i].second) < 1e-5);
  }
  {
    const torch::NoGradGuard no_grad;
    net->scale.mul_(3);
  }
  CHECK(compiled->is_current());
  CHECK(relative_difference(compiled->run(boxed(in)), forward_of(*net)(in)) == 0);
  net->to(torch::kDouble);
  const Tensors in_double{in[0].to(torch::kDouble)};
  CHECK(relative_difference(compiled->run(boxed(in_double)), forward_of(*net)(in_double)) < 1e-12);
}

TEST_CASE("what it was built for has changed: it runs interpreted, and is right") {
  torch::manual_seed(3);
  Many net;
  net->eval();
  const Tensors in{torch::randn({4, 3, 8, 8})};
  const auto gm = trace(net, in);
  const auto compiled = built(*gm, in);
  const c10::IValue before = compiled->run(boxed(in));
  compiled->train();
  CHECK_FALSE(compiled->is_current());
  // The batch norm's buffers follow; the twin's start from the same.
  CHECK_FALSE(relative_difference(compiled->run(boxed(in)), before) < 1e-3);
  CHECK(net->bn->num_batches_tracked.item<std::int64_t>() == 1);
  compiled->eval();
  CHECK(compiled->is_current());
  CHECK(relative_difference(compiled->run(boxed(in)), gm->run(boxed(in))) == 0);
  for (Node* node : compiled->graph().find_nodes(Opcode::call_function))
    if (*node->operation() == ops::mul_Tensor) node->set_op(CallFunction{&ops::add_Tensor.info()});
  CHECK_FALSE(compiled->is_current());
  CHECK_FALSE(relative_difference(compiled->run(boxed(in)), gm->run(boxed(in))) < 1e-3);
  CHECK(relative_difference(gm->run(boxed(in)), forward_of(*net)(in)) == 0);  // the source has its own graph
  const auto copy = std::dynamic_pointer_cast<GraphModule>(compiled->clone());
  CHECK(relative_difference(copy->run(boxed(in)), compiled->run(boxed(in))) == 0);
}

TEST_CASE("another tensor or module in the place of a weight or a leaf module: it runs interpreted, and is right") {
  torch::manual_seed(3);
  Many net;
  net->eval();
  const Tensors in{torch::randn({4, 3, 8, 8})};
  const auto gm = trace(net, in);
  const auto compiled = built(*gm, in);
  CHECK(compiled->is_current());
  net->fc->weight = torch::zeros({5, 4});
  CHECK_FALSE(compiled->is_current());
  CHECK(relative_difference(compiled->run(boxed(in)), forward_of(*net)(in)) == 0);
  const auto other = built(*gm, in);
  const torch::nn::Linear fc(4, 5);
  other->replace_module("fc", fc);
  CHECK_FALSE(other->is_current());
  net->fc->weight = fc->weight;
  net->fc->bias = fc->bias;
  CHECK(relative_difference(other->run(boxed(in)), forward_of(*net)(in)) == 0);
}

TEST_CASE("a built module follows LibTorch's global state, as eager code does") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::arange(6), y = torch::tensor({1e-40f, 3e-39f, 1.f});
  const auto eager = [](const Tensors& in) {
    return c10::IValue(std::vector<Tensor>{torch::arange(4) / 2, in[0] / 3, in[0].sqrt() + torch::full({6}, 0.1),
                                           torch::ones({6}) / 3 + in[0], torch::linspace(0, 1, 6), in[0].sigmoid(),
                                           in[1] * 0.5});
  };
  const auto gm = traced(eager, {x, y});
  const auto module = built(*gm, {x, y});
  for (const bool doubles : {true, false})
    for (const bool flushed : {true, false}) {
      CAPTURE(doubles);
      CAPTURE(flushed);
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(doubles ? torch::kDouble : torch::kFloat));
      at::globalContext().setFlushDenormal(flushed);
      const Tensors expected = tensors_of(eager({x, y})), given = tensors_of(module->run({x, y}));
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kFloat));
      at::globalContext().setFlushDenormal(false);
      CHECK(module->is_current());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK((given[i].scalar_type() == expected[i].scalar_type()));
        CHECK(torch::equal(given[i], expected[i]));
      }
    }
}

TEST_CASE("a batch norm that trains has counted no batch when it is built, and the results were compared") {
  struct Net : torch::nn::Module {
    torch::nn::BatchNorm1d bn = register_module("bn", torch::nn::BatchNorm1d(3));
    Tensor forward(Tensor x) { return torch::relu(bn(x)); }
  } net;
  const Tensor x = torch::randn({4, 3});
  const auto gm = trace(net, {x});
  const Tensor mean = net.bn->running_mean.clone();
  const auto counted = net.bn->num_batches_tracked.item<std::int64_t>();
  const auto compiled = built(*gm, {x});
  CHECK(compiled->max_error() == 0);
  CHECK(same(net.bn->running_mean, mean));
  CHECK(net.bn->num_batches_tracked.item<std::int64_t>() == counted);
  CHECK(same((*compiled)(x), (*gm)(x)));
  CHECK(net.bn->num_batches_tracked.item<std::int64_t>() == counted + 2);
  CHECK_FALSE(same(net.bn->running_mean, mean));
}

TEST_CASE("a function with effects is not called to compare results") {
  static int calls = 0;
  const auto counted = fxx::wrap<"tests::counted">([](const Tensor& t) { return ++calls, t * 2; }, "", true);
  const auto gm = symbolic_trace([&](auto t) { return counted(t) + 1; });
  const Tensor x = torch::randn({3});
  const auto compiled = build(*gm, {x}, {.cache_folder = cache()});
  CHECK(std::isnan(compiled->max_error()));
  CHECK(calls == 0);
  CHECK(same((*compiled)(x), x * 2 + 1));
  CHECK(calls == 1);
}

TEST_CASE("graphs that write: to their input, to a buffer; that return their input; that draw random numbers") {
  const Tensor x = torch::randn({3});
  const auto writes = trace([](Tensor t) { return t.mul_(2) + 1; }, {x.clone()});
  const auto compiled_writes = built(*writes, {x.clone()});
  Tensor given = x.clone();
  CHECK(same((*compiled_writes)(given), x * 2 + 1));
  CHECK(same(given, x * 2));

  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    Tensor forward(Tensor t) { return t + count.add_(1); }
  } counts;
  const auto counting = trace(counts, {x});
  counts.count.zero_();
  const auto compiled_counts = build(*counting, {x}, {.cache_folder = cache()});
  CHECK(std::isnan(compiled_counts->max_error()));
  CHECK(same(counts.count, torch::zeros({3})));  // building did not count
  CHECK(same((*compiled_counts)(x), x + 1));
  CHECK(same((*compiled_counts)(x), x + 2));

  // What is written to is let go before the results are taken, which C++ gives as references.
  const auto outs = trace(
      [](Tensor t) {
        Tensor values = torch::empty({1}), indices = torch::empty({1}, torch::kLong);
        const auto both = torch::max_out(values, indices, t.view({1, 3}), 1);
        const Tensor largest = std::get<0>(both) * 2;
        return std::tuple(largest, std::get<1>(both) + 1);
      },
      {x});
  const c10::IValue of_outs = outs->run({x});
  CHECK(relative_difference(built(*outs, {x})->run({x}), of_outs) == 0);
  CHECK(same(of_outs.toTupleRef().elements()[0].toTensor(), x.max().view({1}) * 2));
  CAPTURE(outs->code());
  CHECK(contains(outs->code(), "std::tuple<torch::Tensor, torch::Tensor> "));

  const auto random =
      trace([](Tensor t) { return std::tuple(t, torch::dropout(t, 0.5, true) + torch::rand({3})); }, {x});
  const auto compiled_random = built(*random, {x});
  torch::manual_seed(4);
  const c10::IValue expected = random->run({x});
  torch::manual_seed(4);
  const c10::IValue drawn = compiled_random->run({x});
  CHECK(relative_difference(drawn, expected) == 0);
  CHECK(drawn.toTupleRef().elements()[0].toTensor().is_alias_of(x));
}

TEST_CASE("several threads build the same graph and run it") {
  Many net;
  net->eval();
  const Tensor x = torch::randn({2, 3, 8, 8});
  const auto gm = trace(net, {x});
  const TemporaryFolder fresh;
  const c10::IValue expected = gm->run({x});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const auto compiled = build(*gm, {x}, {.cache_folder = fresh.path()});
      for (int i = 0; i < 20; ++i) wrong += relative_difference(compiled->run({x}), expected) != 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// --- what can go wrong ---------------------------------------------------------------------------------------------

/// build() with this compiler in a cache of its own: what it says. The module works before and after.
template <class Class>
Fault build_refusal(const std::string& compiler, BuildOptions options = {}) {
  const TemporaryFolder folder;
  if (options.cache_folder.empty()) options.cache_folder = folder.path();
  const Variable variable("FXX_CXX", compiler);
  const Tensor x = torch::randn({3});
  const auto gm = trace([](Tensor t) { return torch::relu(t) + 1; }, {x});
  const auto text = to_string(gm->graph());
  const Fault fault = fault_of<Class>([&] { build(*gm, {x}, options); });
  CHECK(to_string(gm->graph()) == text);
  CHECK(same((*gm)(x), torch::relu(x) + 1));
  return fault;
}

TEST_CASE("no compiler, one that fails, one that is late, one that writes rubbish, a cache that cannot be written") {
  const TemporaryFolder folder;
  Fault fault = build_refusal<CompileError>(folder / "no-such-compiler");
  CHECK(fault.id == 601);
  CHECK(fault.says("no-such-compiler"));

  fault = build_refusal<CompileError>(support::failing_compiler(folder));
  CHECK(fault.id == 602);
  CHECK(fault.says("line of the log"));
  CHECK(fault.says("status 3"));

  fault = build_refusal<CompileError>(support::sleeping_compiler(folder), {.timeout_seconds = 0.5});
  CHECK(fault.id == 603);

  fault = build_refusal<Error>(support::compiler_of_rubbish(folder));
  CHECK(fault.id == 605);

  const std::string compiler = folder.script("unused", "exit 0\n");
  fault = build_refusal<CompileError>(compiler, {.cache_folder = folder.file("a file", "") + "/cache"});
  CHECK(fault.id == 604);
  CHECK(fault.says("a file"));
}

inline const auto doubled = fxx::wrap<"example::doubled">([](const Tensor& x) { return x * 2; });

TEST_CASE("inputs may be called like what the built function has itself") {
  const auto f = [](auto input, auto attribute, auto give, auto call, auto given, auto doubled_results) {
    return relu(doubled(given) + doubled_results) + input * attribute - give * call;
  };
  const auto gm = symbolic_trace(f, {"input", "attribute", "give", "call", "given", "doubled_results"});
  Tensors in;
  for (int i = 0; i < 6; ++i) in.push_back(torch::randn({3}));
  const auto compiled = build(*gm, in, {.tolerance = 0, .cache_folder = cache()});
  CHECK(compiled->called_back() == std::vector<std::string>{"doubled"});
  CHECK(same((*compiled)(in[0], in[1], in[2], in[3], in[4], in[5]), f(in[0], in[1], in[2], in[3], in[4], in[5])));
}

inline const auto refuses_negative = fxx::wrap<"example::refuses_negative">([](const Tensor& x) {
  if (x.lt(0).any().item<bool>()) throw std::runtime_error("that is negative");
  return x * 2;
});

TEST_CASE("what a function throws that is called back names its node") {
  const auto gm = symbolic_trace([](Proxy x) { return relu(refuses_negative(x)); });
  const auto compiled = build(*gm, {torch::ones({3})}, {.tolerance = 0, .cache_folder = cache()});
  CHECK(compiled->called_back() == std::vector<std::string>{"refuses_negative"});
  CHECK(same((*compiled)(torch::ones({3})), torch::full({3}, 2.0)));
  const Fault fault = fault_of<RunError>([&] { (*compiled)(-torch::ones({3})); });
  CHECK(fault.id == 702);
  CHECK(fault.says("that is negative"));
  CHECK(contains(fault.node, "%refuses_negative"));
}

TEST_CASE("example inputs that do not fit, and graphs that a built module cannot be") {
  const Tensor x = torch::randn({3});
  const auto gm = trace([](Tensor t) { return torch::relu(t) + 1; }, {x});
  CHECK(fault_of<RunError>([&] { build(*gm, {}, {.cache_folder = cache()}); }).id == 701);
  CHECK(fault_of<RunError>([&] { build(*gm, {x, x}, {.cache_folder = cache()}); }).id == 701);
  CHECK(same((*gm)(x), torch::relu(x) + 1));
  // An input that is a number.
  Graph graph;
  Node* a = graph.placeholder("a");
  Node* n = graph.placeholder("n");
  n->set_type("int64_t");
  graph.output(graph.call_function(ops::mul_Scalar, {a, n}));
  GraphModule scaled(std::map<std::string, GraphModule::Attribute>{}, graph);
  const Fault fault = fault_of<CodegenError>([&] { build(scaled, {x, x}, {.cache_folder = cache()}); });
  CHECK(fault.id == 501);
  CHECK(fault.says("'n'"));
  CHECK(same(scaled(x, 2), x * 2));
}

inline const auto drifts = fxx::wrap<"example::drifts">([](const Tensor& x) {
  static int calls = 0;
  return x + ++calls;
});

TEST_CASE("results that differ beyond the tolerance are refused") {
  const auto gm = symbolic_trace([](Proxy x) { return relu(drifts(x)); });
  const Fault fault = fault_of<LoadError>([&] { build(*gm, {torch::ones({3})}, {.cache_folder = cache()}); });
  CHECK(fault.id == 607);
  CHECK(fault.says("the tolerance is"));
  const auto loose = build(*gm, {torch::ones({3})}, {.tolerance = 10, .cache_folder = cache()});
  CHECK(loose->max_error() > 0);
  CHECK(loose->called_back() == std::vector<std::string>{"drifts"});
}

// --- names that hold code, and the folder --------------------------------------------------------------------------

/// A class that could not be written in C++: names of members are whatever a file of weights says.
struct HostileImpl : torch::nn::Module {
  std::string module_name, parameter_name, buffer_name;
  torch::nn::Linear fc{nullptr}, last = register_module("last", torch::nn::Linear(4, 4));
  Tensor add = register_parameter("add", torch::randn({4})), eval_rows = register_buffer("eval", torch::tensor({1, 0}));
  torch::nn::Sequential children = register_module(
      "int", torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 2)));
  Tensor parameter, buffer;
  /// LibTorch's files of weights cannot hold quotes, backslashes and line ends.
  explicit HostileImpl(bool storable)
      : module_name(storable ? "fc'); std::abort(); //" : "fc\"); std::abort(); //"),
        parameter_name(storable ? "*/ } int main() { return 7; } /*" : "*/ } int main() { return 7; } /*\n#error \\"),
        buffer_name(storable ? "?\?/ \xc3\xa9" : "?\?/\t") {
    fc = register_module(module_name, torch::nn::Linear(3, 4));
    parameter = register_parameter(parameter_name, torch::randn({2}));
    buffer = register_buffer(buffer_name, torch::randn({2}));
  }
  std::tuple<Tensor, std::vector<Tensor>, std::map<std::string, Tensor>> forward(Tensor x, Tensor y) {
    Tensor h = last(fc(x)) + add;
    h.clamp_(-2, 2);
    using torch::indexing::Slice;
    h.index_put_({Slice(), eval_rows}, h.index({Slice(), eval_rows.flip(0)}) * 2);
    const Tensor z = children->forward(F::gelu(h)) * parameter + buffer;
    const Tensor masked = z.masked_fill(z < 0, -std::numeric_limits<float>::infinity());
    // Functions that have the name of others, and arguments that those would take.
    const Tensor place = eval_rows.select(0, 0);
    const std::vector<Tensor> overloads = {z.var(1, true),
                                           z.std(-1, true),
                                           torch::std(z, at::IntArrayRef({0}), std::optional<at::Scalar>(2)),
                                           std::get<0>(z.sort(std::optional<bool>(true), 0, false)),
                                           torch::tensor_split(z, at::IntArrayRef({2}))[1],
                                           torch::count_nonzero(z, at::IntArrayRef({1})).to(z.scalar_type()),
                                           torch::linalg_pinv(z, std::optional<double>(0.5), std::optional<double>(0.01)),
                                           torch::index(z, c10::List<std::optional<Tensor>>({place}))};
    std::vector<Tensor> rows;
    for (const Tensor& t : overloads) rows.push_back(t.flatten());
    return {z + y, {torch::tensor({1.5f, -2.5f}) * z, masked}, {{"a \"key\"\n", z > 0}, {"b", torch::cat(rows)}}};
  }
};

const std::vector<std::string> hostile_inputs = {"x); std::abort(); (", "class"};

TEST_CASE("names that hold code stay names: in the text of a graph, in its C++, in what is built of it") {
  HostileImpl net(false);
  net.eval();
  const Tensors in{torch::randn({5, 3}), torch::randn({5, 2})};
  const auto gm = trace(net, in, {.input_names = hostile_inputs});
  CHECK(called_modules(gm->graph()) == std::set<std::string>{net.module_name, "last", "int.0", "int.1", "int.2"});
  CHECK(same(gm->attribute(net.parameter_name), net.parameter));
  const std::string code = gm->code();
  for (const char* part : {"std::abort", "int main", "#error"}) {
    CAPTURE(part);
    CHECK_FALSE(contains(code, part));
  }
  check_forward(forward_of(net), &net, *gm, {in});
  const auto compiled = build(*gm, in, {.tolerance = 0, .cache_folder = cache()});
  CHECK(relative_difference(compiled->run(boxed(in)), forward_of(net)(in)) == 0);
  const TemporaryFolder folder;
  const Fault fault = fault_of<CodegenError>([&] { to_folder(*gm, folder / "net", "Net"); });
  CHECK(fault.id == 501);
  CHECK(fault.says("file of weights"));
  CHECK(support::count_entries(folder.path()) == 0);
}

TEST_CASE("a folder that Meson builds computes the same, and says when it does not") {
  torch::manual_seed(5);
  HostileImpl net(true);
  net.children[1]->as<torch::nn::BatchNorm1d>()->running_mean.uniform_(-1, 1);
  net.eval();
  const Tensors in{torch::randn({5, 3}), torch::randn({5, 2})};
  const auto gm = trace(net, in, {.input_names = hostile_inputs});
  const TemporaryFolder folder;
  const std::string to = folder / "a folder/of it's own";
  // The system has a header of that name.
  to_folder(*gm, to, "Features", {.example_inputs = in});
  for (const char* file : {"features.h", "features.cpp", "main.cpp", "weights.pt", "meson.build", "meson.options",
                           "README.md", "example_inputs.pt", "example_outputs.pt"}) {
    CAPTURE(file);
    CHECK(std::filesystem::exists(to + "/" + file));
  }
  CHECK(support::count_entries(to) == 9);
  CHECK_FALSE(contains(support::content_of(to + "/features.cpp"), "\n#error"));

  std::vector<std::string> meson = {"meson"};
  if (const char* python = std::getenv("FXX_PYTHON")) meson = {python, "-m", "mesonbuild.mesonmain"};
  const auto run = [&](std::vector<std::string> argv) {
    const ProcessResult result = run_process(argv, {.working_directory = to, .timeout_seconds = 600});
    CAPTURE(command_line(argv));
    CAPTURE(result.output.substr(0, 3000));
    CHECK(result.ok());
    return result.output;
  };
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), meson.begin(), meson.end());
    return words;
  };
  run(with({"setup", "build", "-Dtorch=" + torch_folder(), "-Doptimization=0"}));
  run(with({"compile", "-C", "build"}));
  const std::string said = run({to + "/build/features"});
  CHECK(contains(said, "loaded 12 parameters"));
  CHECK(contains(said, "result 0: [5, 2], as expected"));
  CHECK(contains(said, "result 2: [5, 2], as expected"));
  CHECK(contains(said, "result 3: [5, 2], as expected"));
  CHECK(contains(said, "result 4: [45], as expected"));

  // Other weights give other results, and the program says so.
  {
    const torch::NoGradGuard no_grad;
    net.parameter.add_(1);
  }
  torch::serialize::OutputArchive archive;
  gm->save(archive);
  archive.save_to(to + "/weights.pt");
  const ProcessResult other = run_process({to + "/build/features"}, {.working_directory = to});
  CHECK(other.exit_status == 1);
  CHECK(contains(other.output, "the results differ"));
  std::filesystem::resize_file(to + "/weights.pt", 100);
  CHECK(run_process({to + "/build/features"}, {.working_directory = to}).exit_status == 1);
}

TEST_CASE("a folder expects what the module gives in eval mode, as its program runs it; the flags are as before") {
  struct Net : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 4));
    torch::nn::Dropout dropped = register_module("dropped", torch::nn::Dropout());
    Tensor forward(Tensor x) { return dropped(fc(x)); }
  } net;
  net.fc->eval();
  const Tensor x = torch::randn({5, 3});
  const auto gm = trace(net, {x});
  REQUIRE(gm->graph().find_nodes(Opcode::call_module).size() == 2);
  const TemporaryFolder folder;
  to_folder(*gm, folder / "net", "Net", {.example_inputs = {x}});
  Tensors expected;
  torch::load(expected, folder / "net" + "/example_outputs.pt");
  REQUIRE(expected.size() == 1);
  CHECK(same(expected[0], net.fc(x)));
  CHECK(gm->is_training());
  CHECK(net.dropped->is_training());
  CHECK_FALSE(net.fc->is_training());
}

TEST_CASE("a folder keeps the buffers as they were before its example ran, and expects what they give") {
  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    std::tuple<Tensor, Tensor> forward(Tensor t) {
      count.add_(1);
      return {t + count, count};
    }
  } net;
  const Tensor x = torch::randn({3});
  const auto gm = trace(net, {x});
  net.count.zero_();
  const TemporaryFolder folder;
  torch::manual_seed(6);
  const Tensor random = torch::rand({3});
  torch::manual_seed(6);
  to_folder(*gm, folder / "net", "Counts", {.example_inputs = {x}});
  CHECK(same(torch::rand({3}), random));
  CHECK(same(net.count, torch::zeros({3})));
  Tensors expected;
  torch::load(expected, folder / "net" + "/example_outputs.pt");
  REQUIRE(expected.size() == 2);
  CHECK(same(expected[0], x + 1));
  CHECK(same(expected[1], torch::ones({3})));
  Counts loaded;
  loaded.count.fill_(7);
  torch::serialize::InputArchive archive;
  archive.load_from(folder / "net" + "/weights.pt");
  loaded.load(archive);
  CHECK(same(loaded.count, torch::zeros({3})));
}

// --- other tensors in the members of layers --------------------------------------------------------------------------

namespace {

struct Layers : torch::nn::Module {
  torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(4, 8, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::LayerNorm scale = register_module("scale", torch::nn::LayerNorm(std::vector<std::int64_t>{6}));
  torch::nn::Sequential inside =
      register_module("inside", torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::PReLU(), torch::nn::Linear(8, 5)));
  Layers() : torch::nn::Module("Layers") { eval(); }
  Tensor forward(Tensor x) {
    x = scale(norm(conv(x)));
    // What is read without its layer is followed as well.
    return inside->forward(x * norm->running_var.unsqueeze(1));
  }

  /// Another tensor for a drawn member.
  void assign(std::mt19937& random) {
    const auto other = [](Tensor& member) { member = torch::rand_like(member) + 0.5; };
    switch (std::uniform_int_distribution<int>(0, 8)(random)) {
      case 0: return other(conv->weight);
      case 1: return other(conv->bias);
      case 2: return other(norm->running_mean);
      case 3: return other(norm->running_var);
      case 4: return other(norm->weight);
      case 5: return other(scale->bias);
      case 6: return other(inside[0]->as<torch::nn::Linear>()->weight);
      case 7: return other(inside[1]->as<torch::nn::PReLU>()->weight);
      default: return other(inside[2]->as<torch::nn::Linear>()->bias);
    }
  }
};

/// All that takes the tensors of a module takes those that forward reads.
void check_taken(Layers& net, GraphModule& gm, const Tensor& x) {
  const Tensor expected = net.forward(x);
  CHECK(same(gm.forward(x), expected));
  const auto copy = std::dynamic_pointer_cast<GraphModule>(gm.clone());
  CHECK(same(copy->forward(x), expected));
  for (const auto& [name, member] : fxx::detail::differing_members(*copy)) {
    CAPTURE(name);
    CHECK(false);
  }
  const TemporaryFolder folder;
  to_folder(gm, folder / "net", "Layers", {.example_inputs = {x}});
  Tensors of_folder;
  torch::load(of_folder, folder / "net" + "/example_outputs.pt");
  CHECK(same(of_folder[0], expected));
  Layers fresh;
  const auto loaded = trace(fresh, {x});
  torch::serialize::InputArchive archive;
  archive.load_from(folder / "net" + "/weights.pt");
  loaded->load(archive);
  CHECK(same(loaded->forward(x), expected));
  CHECK(relative_difference(Interpreter(gm).run({x}).toTensor(), expected) == 0);
  CHECK(relative_difference(quantise(gm, {{x}})->forward(x), expected) < 0.1);
}

}  // namespace

TEST_CASE("another tensor assigned to a member is what is saved, copied, quantised, written into folders and run") {
  const torch::NoGradGuard no_grad;
  std::mt19937 random(7);
  torch::manual_seed(7);
  const Tensor x = torch::randn({3, 4, 8});
  for (int draw = 0; draw < 24; ++draw) {
    CAPTURE(draw);
    Layers net;
    if (draw % 3 == 1) net.assign(random);  // before the trace
    TraceReport report;
    const auto gm = trace(net, {x}, {.report = &report});
    CHECK((report.notes.size() == 1) == (draw % 3 == 1));
    if (draw % 3 == 1) CHECK(contains(report.notes[0], "other tensors were assigned to members"));
    CHECK(called_modules(gm->graph()).contains("norm"));
    (void)gm->code();  // what is known of the layers is kept
    if (draw % 2) (void)gm->forward(x);
    for (int i = 0; i < 1 + draw % 3; ++i) {
      net.assign(random);
      check_taken(net, *gm, x);
    }
    // Rules read the same, and so does what they leave.
    const Tensor expected = net.forward(x);
    const auto rewritten = std::make_shared<GraphModule>(*gm, gm->graph());
    optimize_for_inference(*rewritten);
    CHECK(relative_difference(rewritten->forward(x), expected) < 1e-5);
  }
}

TEST_CASE("members that are assigned after building and compiling are followed, also where the layer was opened") {
  const torch::NoGradGuard no_grad;
  std::mt19937 random(8);
  torch::manual_seed(8);
  const Tensor x = torch::randn({3, 4, 8});
  for (int draw = 0; draw < 8; ++draw) {
    CAPTURE(draw);
    Layers net;
    const auto gm = trace(net, {x});
    if (draw % 2) expand_modules(gm->graph(), gm->owner());  // reads tensors without their layers
    const auto module = built(*gm, {x});
    const auto compiled = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
    CHECK(module->is_current());
    CHECK(compiled->is_current());
    for (int i = 0; i < 2; ++i) {
      net.assign(random);
      const Tensor expected = net.forward(x);
      CHECK_FALSE(module->is_current());
      CHECK_FALSE(compiled->is_current());
      CHECK(same(gm->forward(x), expected));
      CHECK(same(module->forward(x), expected));
      CHECK(same(compiled->forward(x), expected));
    }
  }
}

TEST_CASE("a bias that is taken from a layer, or given to one without, is so in copies and folders") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(9);
  struct Two : torch::nn::Module {
    torch::nn::Linear biased = register_module("biased", torch::nn::Linear(4, 4)),
                      plain = register_module(
                          "plain", torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(false)));
    Tensor forward(Tensor x) { return plain(biased(x)); }
  } net;
  const Tensor x = torch::randn({3, 4});
  const auto gm = trace(net, {x});
  const auto compiled = compile(*gm, {x}, {.threads = 1, .cache_folder = cache()});
  net.biased->bias = Tensor();
  net.plain->bias = torch::randn({4});
  const Tensor expected = net.forward(x);
  CHECK(same(gm->forward(x), expected));
  CHECK(same(compiled->forward(x), expected));
  CHECK(same(std::dynamic_pointer_cast<GraphModule>(gm->clone())->forward(x), expected));
  const TemporaryFolder folder;
  to_folder(*gm, folder / "net", "Two", {.example_inputs = {x}});
  const std::string header = support::content_of(folder / "net" + "/two.h") + support::content_of(folder / "net" + "/two.cpp");
  CAPTURE(header);
  CHECK(contains(header, "torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(false))"));
  CHECK(contains(header, "torch::nn::Linear(4, 4)"));
  torch::serialize::InputArchive archive;
  archive.load_from(folder / "net" + "/weights.pt");
  torch::serialize::InputArchive plain;
  archive.read("plain", plain);
  Tensor bias;
  plain.read("bias", bias);
  CHECK(same(bias, net.plain->bias));
}

TEST_CASE("state that is loaded, and another dtype, reach the members that forward reads") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(10);
  const Tensor x = torch::randn({3, 4, 8});
  Layers net, other;
  const auto gm = trace(net, {x}), from = trace(other, {x});
  net.norm->running_mean = torch::rand({8});
  net.inside[0]->as<torch::nn::Linear>()->weight = torch::rand({8, 6});
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  from->save(out);
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  gm->load(in);
  CHECK(same(gm->forward(x), other.forward(x)));
  CHECK(same(net.forward(x), other.forward(x)));
  net.conv->bias = torch::rand({8});
  gm->to(torch::kDouble);
  CHECK((gm->forward(x.to(torch::kDouble)).scalar_type() == torch::kDouble));
  CHECK(same(net.forward(x.to(torch::kDouble)), gm->forward(x.to(torch::kDouble))));
}

TEST_CASE("weights that are tied by a member stay tied, without a note") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(11);
  struct Tied : torch::nn::Module {
    torch::nn::Linear out = register_module("out", torch::nn::Linear(torch::nn::LinearOptions(4, 9).bias(false)));
    torch::nn::Embedding table = register_module("table", torch::nn::Embedding(9, 4));
    Tied() : torch::nn::Module("Tied") { out->weight = table->weight; }
    Tensor forward(Tensor ids) { return out(table(ids)); }
  } net;
  const Tensor ids = torch::tensor({1, 5, 8});
  TraceReport report;
  const auto gm = trace(net, {ids}, {.report = &report});
  CHECK(report.notes.empty());
  CHECK(same(gm->forward(ids), net.forward(ids)));
  CHECK(gm->parameters().size() == 1);
  const auto copy = std::dynamic_pointer_cast<GraphModule>(gm->clone());
  CHECK(same(copy->forward(ids), net.forward(ids)));
  CHECK(copy->parameters().size() == 1);
}

TEST_CASE("a folder's class may be called like its program, or like what Meson calls its own targets") {
  const auto gm = trace([](Tensor t) { return torch::relu(t) + 1; }, {torch::randn({3})});
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> names = {{"Main", "main_model"},
                                                                  {"MAIN", "main_model"},
                                                                  {"Test", "test_model"},
                                                                  {"Install", "install_model"},
                                                                  {"MainNet", "main_net"}};
  for (const auto& [name, file] : names) {
    CAPTURE(name);
    const std::string to = folder / name;
    to_folder(*gm, to, name);
    CHECK(contains(support::content_of(to + "/main.cpp"), "int main"));
    CHECK(contains(support::content_of(to + "/main.cpp"), "#include \"" + file + ".h\""));
    CHECK(contains(support::content_of(to + "/" + file + ".cpp"), name + "Impl"));
    CHECK(contains(support::content_of(to + "/meson.build"), "executable('" + file + "'"));
  }
}

TEST_CASE("names that are macros of LibTorch's headers, or of the system's, do not reach generated code as they are") {
  const std::string include = torch_folder() + "/include";
  const TemporaryFolder folder;
  folder.file("all.cpp",
              "#include <torch/torch.h>\n#include <ATen/core/dispatch/Dispatcher.h>\n#include <algorithm>\n#include "
              "<cmath>\n#include <exception>\n#include <iostream>\n#include <limits>\n#include <map>\n");
  const std::vector<std::string> compiler = {"g++", "-std=c++20", "-isystem", include, "-isystem",
                                             include + "/torch/csrc/api/include"};
  const auto run = [&](const std::vector<std::string>& words) {
    std::vector<std::string> argv = compiler;
    argv.insert(argv.end(), words.begin(), words.end());
    const ProcessResult result =
        run_process(argv, {.working_directory = folder.path(), .output_limit = std::size_t{64} << 20});
    REQUIRE_MESSAGE(result.ok(), result.output.substr(0, 3000));
    return result.output;
  };
  test::check_macros(run({"-dM", "-E", "all.cpp"}), 3000);

  // Attributes, inputs, modules of such names, in all kinds of code.
  struct Named : torch::nn::Module {
    std::vector<Tensor> tensors;
    torch::nn::Linear layer = register_module("EXIT_SUCCESS", torch::nn::Linear(4, 4));
    Named() {
      for (const char* name : {"EOF", "NULL", "M_PI", "errno", "assert", "stdin", "INFINITY", "NAN", "BUFSIZ", "RAND_MAX",
                               "INT_MAX", "M_PIf64", "TORCH_CHECK", "C10_UTIL_FLAGS_H", "SIGINT", "linux", "alloca",
                               "_mm_prefetch", "W", "offsetof"})
        tensors.push_back(register_parameter(name, torch::randn({4})));
    }
    Tensor forward(Tensor a, Tensor b, Tensor c, Tensor d) {
      Tensor sum = layer(a * b + c * d);
      for (const Tensor& tensor : tensors) sum = sum + tensor;
      return sum;
    }
  } net;
  const Tensors in{torch::randn({2, 4}), torch::randn({2, 4}), torch::randn({2, 4}), torch::randn({2, 4})};
  const auto gm = trace(net, in, {.input_names = {"EOF", "stdin", "errno", "_mm_prefetch"}});
  const torch::NoGradGuard no_grad;
  const Tensor expected = net.forward(in[0], in[1], in[2], in[3]);
  CHECK(same(gm->forward(in[0], in[1], in[2], in[3]), expected));
  CHECK(same(build(*gm, in, {.cache_folder = cache()})->forward(in[0], in[1], in[2], in[3]), expected));
  const auto compiled = fxx::compile(*gm, in, {.cache_folder = cache()});
  CHECK(compiled->called_back().empty());
  CHECK(relative_difference(compiled->forward(in[0], in[1], in[2], in[3]), expected) < 1e-5);
  to_folder(*gm, folder / "net", "MLP", {.example_inputs = in});
  run({"-fsyntax-only", folder / "net/mlp.cpp"});
  for (const char* name : {"EOF", "NULL", "INFINITY", "M_PI", "stdin", "TORCH_CHECK"}) {
    const Fault fault = fault_of<CodegenError>([&] { to_folder(*gm, folder / "other", name); });
    CHECK(fault.id == 501);
    CHECK(fault.says("macro"));
  }
}

TEST_CASE("what to_folder writes goes through no link, and replaces what an earlier run left") {
  const Tensor x = torch::randn({3});
  const auto gm = trace([](Tensor t) { return torch::relu(t) + 1; }, {x});
  const TemporaryFolder folder;
  const std::string victim = folder.file("victim", "before");
  std::filesystem::create_directory(folder / "net");
  for (const char* file : {"net.h.new", "net.cpp.new", "main.cpp.new", "weights.pt.new", "meson.build.new", "README.md.new"})
    std::filesystem::create_symlink(victim, folder / ("net/" + std::string(file)));
  folder.file("net/meson.options.new", "left");
  to_folder(*gm, folder / "net", "Net");
  CHECK(support::content_of(victim) == "before");
  CHECK_FALSE(std::filesystem::is_symlink(std::filesystem::symlink_status(folder / "net/net.cpp")));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "net"))
    CHECK(entry.path().extension() != ".new");
}

TEST_CASE("a folder that cannot be, or cannot be written: one error, and nothing of it is there") {
  const Tensor x = torch::randn({3});
  const auto gm = trace([](Tensor t) { return torch::relu(t) + 1; }, {x});
  const TemporaryFolder folder;
  for (const std::string name : {"", "a b", "7up", "class", "N(){}; struct M", "../Up", "Net\n"}) {
    CAPTURE(name);
    CHECK(fault_of<CodegenError>([&] { to_folder(*gm, folder / "net", name); }).id == 501);
  }
  {
    const fxx::fake on;
    torch::nn::Sequential net(torch::nn::Linear(3, 2));
    const auto without_weights = trace(net, {torch::zeros({1, 3})});
    const Fault fault = fault_of<CodegenError>([&] { to_folder(*without_weights, folder / "net", "Net"); });
    CHECK(fault.id == 501);
    CHECK(fault.says("'0.weight' is a fake tensor"));
  }
  CHECK(support::count_entries(folder.path()) == 0);
  CHECK(fault_of<RunError>([&] { build(*gm, {}); }).says("0 example inputs were given; the graph takes 1"));
  const std::string file = folder.file("file", "content");
  Fault fault = fault_of<CodegenError>([&] { to_folder(*gm, file, "Net"); });
  CHECK(fault.id == 502);
  CHECK(fault.says(file));
  CHECK(fault_of<CodegenError>([&] { to_folder(*gm, file + "/deeper", "Net"); }).id == 502);
  CHECK(support::content_of(file) == "content");
  std::filesystem::create_directories(folder / "taken/weights.pt");
  fault = fault_of<CodegenError>([&] { to_folder(*gm, folder / "taken", "Net"); });
  CHECK(fault.id == 502);
  CHECK_FALSE(std::filesystem::exists(folder / "taken/weights.pt.new"));
  for (const char* aside : {"weights.pt.new", "example_inputs.pt.new", "example_outputs.pt.new", "net.cpp.new"}) {
    CAPTURE(aside);
    std::filesystem::create_directories(folder / "aside" + "/" + aside);
    fault = fault_of<CodegenError>([&] { to_folder(*gm, folder / "aside", "Net", {.example_inputs = {x}}); });
    CHECK(fault.id == 502);
    CHECK_MESSAGE(fault.says("cannot be written"), fault.text);
    std::filesystem::remove(folder / "aside" + "/" + aside);
  }
  CHECK(same((*gm)(x), torch::relu(x) + 1));
}

// --- the pretrained encoder ----------------------------------------------------------------------------------------

std::string folder(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}
std::string model_file(const char* name) { return folder("FXX_MODEL_DIR") + "/" + name; }
bool have_model() { return std::filesystem::exists(model_file("model.safetensors")); }

struct Case {
  at::Tensor ids, embedding;  // [1, length] of int64; [1, hidden] of float64
  at::Tensor mask() const { return torch::ones_like(ids); }
  /// Ids and mask, padded to a length.
  Tensors padded(std::int64_t length) const {
    const auto by = torch::nn::functional::PadFuncOptions({0, length - ids.size(1)});
    return {torch::nn::functional::pad(ids, by), torch::nn::functional::pad(mask(), by)};
  }
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::ifstream file(folder("FXX_ORACLE_DIR") + "/minilm.json");
    REQUIRE(file);
    std::vector<Case> out;
    const auto json = nlohmann::json::parse(file);
    for (const auto& entry : json.at("cases"))
      out.push_back({torch::tensor(entry.at("ids").get<std::vector<std::int64_t>>()).unsqueeze(0),
                     torch::tensor(entry.at("embedding").get<std::vector<double>>(), torch::kDouble).unsqueeze(0)});
    REQUIRE(out.size() >= 10);
    return out;
  }();
  return all;
}

SentenceEncoder pretrained() {
  SentenceEncoder encoder(BertConfig::read(model_file("config.json")));
  load_safetensors(*encoder, model_file("model.safetensors"), {.allow_unused = true});
  encoder->eval();
  return encoder;
}

TEST_CASE("embeddings in single precision: eager, traced, rewritten, compiled, padded and not" *
          doctest::skip(!have_model())) {
  const torch::NoGradGuard no_grad;
  SentenceEncoder encoder = pretrained();
  constexpr std::int64_t length = 64;
  const auto traced = trace(encoder, cases()[0].padded(length));
  const auto optimised = trace(encoder, cases()[1].padded(length));
  const OptimizeReport report = optimize_for_inference(*optimised);
  CHECK(report.stages[0].fired == "dropout: 19");
  CHECK(report.stages[1].fired == "gelu: 6");
  CHECK(report.stages[2].fired == "attention, divided, masked: 6");
  CHECK(report.stages[3].fired == "merge linears: 6");
  const TemporaryFolder cache;
  const auto compiled = build(*optimised, cases()[2].padded(length), {.cache_folder = cache.path()});
  CHECK(compiled->is_current());
  CHECK(compiled->max_error() < 1e-6);
  const auto specialised = compile(*traced, cases()[2].padded(length), {.cache_folder = cache.path()});
  CHECK(specialised->called_back().empty());

  double largest = 0, padding = 0;
  for (const Case& c : cases()) {
    CAPTURE(c.ids.size(1));
    const auto difference_of = [&](const at::Tensor& given) {
      return difference(given.to(torch::kDouble), c.embedding);
    };
    const at::Tensor eager = encoder(c.ids, c.mask());
    CHECK(difference_of(eager) < 1e-5);
    CHECK(difference_of((*trace(encoder, {c.ids, c.mask()}))(c.ids, c.mask())) < 1e-5);
    largest = std::max(largest, difference_of(eager));
    if (c.ids.size(1) > length) continue;
    const Tensors in = c.padded(length);
    padding = std::max(padding, difference(encoder(in[0], in[1]), eager));
    CHECK(difference_of((*traced)(in[0], in[1])) < 1e-5);
    CHECK(difference_of((*specialised)(in[0], in[1])) < 1e-5);
    CHECK(difference_of((*optimised)(in[0], in[1])) < 1e-5);
    CHECK(difference_of((*compiled)(in[0], in[1])) < 1e-5);
  }
  CHECK(padding < 1e-6);
  CHECK(largest > 0);  // the oracle computes in double precision, so it cannot be the same numbers
}

TEST_CASE("embeddings in double precision: eager, traced and rewritten" * doctest::skip(!have_model())) {
  const torch::NoGradGuard no_grad;
  SentenceEncoder encoder = pretrained();
  encoder->to(torch::kDouble);
  for (const Case& c : cases()) {
    CAPTURE(c.ids.size(1));
    CHECK(difference(encoder(c.ids, c.mask()), c.embedding) < 1e-9);
    const auto traced = trace(encoder, {c.ids, c.mask()});
    CHECK(difference((*traced)(c.ids, c.mask()), c.embedding) < 1e-9);
    optimize_for_inference(*traced);
    CHECK(difference((*traced)(c.ids, c.mask()), c.embedding) < 1e-9);
  }
}

// --- weights that do not fit ---------------------------------------------------------------------------------------

struct SmallImpl : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 2));
  at::Tensor steps = register_buffer("steps", torch::tensor({5, 6}));
};

/// Entries of tensors, which must be contiguous and outlive them.
std::vector<SafetensorsEntry> entries_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, t] : tensors)
    entries.push_back({name,
                       to_dtype(t.scalar_type()),
                       t.sizes().vec(),
                       {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  return entries;
}
using Named = std::vector<std::pair<std::string, at::Tensor>>;
Named fitting() {
  return {{"fc.weight", torch::randn({2, 3})}, {"fc.bias", torch::randn({2})}, {"steps", torch::tensor({7, 8})}};
}

/// What loading the file says; the module must be as it was.
Fault load_refusal(const std::string& path, const LoadOptions& options = {}) {
  SmallImpl module;
  const auto before = cloned({module.fc->weight, module.fc->bias, module.steps});
  const Fault fault = fault_of<FileError>([&] { load_safetensors(module, path, options); });
  CHECK(same(module.fc->weight, before[0]));
  CHECK(same(module.fc->bias, before[1]));
  CHECK(same(module.steps, before[2]));
  CHECK(fault.says(path));
  return fault;
}

TEST_CASE("weights that fit are copied into the parameters that are there, and converted") {
  const TemporaryFolder folder;
  Named tensors = fitting();
  tensors[1].second = tensors[1].second.to(torch::kHalf);
  tensors[2].second = tensors[2].second.to(torch::kInt32);
  write_safetensors(folder / "weights", entries_of(tensors));
  SmallImpl module;
  const at::Tensor weight = module.fc->weight;
  CHECK(load_safetensors(module, folder / "weights").empty());
  CHECK(module.fc->weight.is_same(weight));
  CHECK(weight.requires_grad());
  CHECK(same(weight, tensors[0].second));
  CHECK(same(module.fc->bias, tensors[1].second.to(torch::kFloat)));
  CHECK(same(module.steps, torch::tensor({7, 8})));
}

TEST_CASE(
    "files of weights that are missing, cut off, or hold other weights: one clear error, and nothing is changed") {
  const TemporaryFolder folder;
  const auto written = [&](const Named& tensors) {
    write_safetensors(folder / "weights", entries_of(tensors));
    return folder / "weights";
  };
  CHECK(load_refusal(folder / "nowhere").id == 801);
  CHECK(load_refusal(folder.path()).id == 801);
  const std::string whole = support::content_of(written(fitting()));
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{40}, whole.size() - 1}) {
    CAPTURE(size);
    CHECK(load_refusal(folder.file("cut", whole.substr(0, size))).id == 802);
  }

  Named tensors = fitting();
  tensors[0].second = torch::randn({3, 2});
  Fault fault = load_refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("'fc.weight' with shape [3, 2]"));
  CHECK(fault.says("[2, 3]"));

  tensors = fitting();
  tensors.erase(tensors.begin());
  fault = load_refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("fc.weight"));
  {
    SmallImpl module;
    const at::Tensor before = module.fc->weight.detach().clone();
    CHECK(load_safetensors(module, folder / "weights", {.allow_missing = true}).empty());
    CHECK(same(module.fc->weight, before));
    CHECK(same(module.fc->bias, tensors[0].second));
  }

  tensors = fitting();
  tensors.emplace_back("more.weight", torch::ones({1}));
  fault = load_refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("more.weight"));
  {
    SmallImpl module;
    CHECK(load_safetensors(module, folder / "weights", {.allow_unused = true}) ==
          std::vector<std::string>{"more.weight"});
    CHECK(same(module.fc->weight, tensors[0].second));
  }

  // Numbers that the module's type cannot hold.
  tensors = fitting();
  tensors[2].second = torch::tensor({7.5, 8.5});
  fault = load_refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("steps"));
  CHECK(fault.says("float32"));
}

TEST_CASE("the model's own file, cut off or with a weight of another shape" * doctest::skip(!have_model())) {
  BertConfig config = BertConfig::read(model_file("config.json"));
  const TemporaryFolder folder;
  std::filesystem::copy_file(model_file("model.safetensors"), folder / "cut");
  std::filesystem::resize_file(folder / "cut", 50'000'000);
  config.num_hidden_layers = 1;
  SentenceEncoder encoder(config);
  const at::Tensor before = encoder->embeddings->layer_norm->weight.detach().clone();
  Fault fault = fault_of<FileError>([&] { load_safetensors(*encoder, folder / "cut", {.allow_unused = true}); });
  CHECK(fault.id == 802);
  CHECK(fault.says(folder / "cut"));
  fault = fault_of<FileError>([&] { load_safetensors(*encoder, model_file("model.safetensors")); });
  CHECK(fault.id == 803);
  config.intermediate_size = 1000;
  SentenceEncoder narrow(config);
  fault =
      fault_of<FileError>([&] { load_safetensors(*narrow, model_file("model.safetensors"), {.allow_unused = true}); });
  CHECK(fault.id == 803);
  CHECK(fault.says("encoder.layer.0.intermediate.dense.weight"));
  CHECK(same(encoder->embeddings->layer_norm->weight, before));
}

}  // namespace
