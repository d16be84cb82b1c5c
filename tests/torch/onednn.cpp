// rules::onednn with numbers: each rule verified on layers that fit, and traced modules against float64, over sizes,
// windows and layouts that are easily got wrong; by the interpreter, as C++ that is built, compiled, and with fakes.
#include "fxx/rules/onednn.hpp"

#include "fxx/rules/inference.hpp"
#include "fxx/runtime/process.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/to_folder.hpp"
#include "torch/compile/compiled.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using namespace fxx::test;
using support::contains;
using Shape = std::vector<std::int64_t>;

namespace {

// --- verified --------------------------------------------------------------------------------------------------------

/// Between -2 and 2; in order, channels last, with gaps, or one number for all.
Tensor numbers(const Shape& shape, VerifyRandom& random) {
  Tensor tensor = torch::empty(shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data_ptr<float>()[i] = static_cast<float>(4 * random.real() - 2);
  if (shape.size() == 4 && random.chance(30)) return tensor.contiguous(at::MemoryFormat::ChannelsLast);
  if (random.chance(15)) return torch::stack({tensor, tensor}, -1).select(-1, 0);
  if (shape.size() == 1 && random.chance(15)) return tensor.slice(0, 0, 1).expand(shape);
  return tensor;
}
std::map<std::string, c10::IValue> of_activations(VerifyRandom& random) {
  return {{"slope", random.pick({0.0, 0.1, 2.5, -0.5})}, {"low", random.pick({-1.0, 0.0, -0.25})},
          {"high", random.pick({0.0, 1.0, 6.0})}, {"algorithm", random.pick<const char*>({"none", "tanh"})}};
}
std::map<std::string, c10::IValue> convolution(VerifyRandom& random, bool transposed) {
  const std::size_t dimensions = 2;
  const auto groups = random.pick<std::int64_t>({1, 1, 2, 3}), in = groups * random.pick<std::int64_t>({1, 2, 3}),
             out = groups * random.pick<std::int64_t>({1, 2, 3}), batch = random.pick<std::int64_t>({1, 2, 5});
  Shape x = {batch, in}, weight = {transposed ? in : out, (transposed ? out : in) / groups}, result = {batch, out},
        stride, padding, dilation, more;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto size = random.pick<std::int64_t>({4, 5, 7}), kernel = random.pick<std::int64_t>({1, 2, 3});
    stride.push_back(random.pick<std::int64_t>({1, 2, 3}));
    padding.push_back(random.pick<std::int64_t>({0, 1}));
    dilation.push_back(random.pick<std::int64_t>({1, 1, 2}));
    more.push_back(random.pick<std::int64_t>({0, 0, 1}));
    x.push_back(size);
    weight.push_back(kernel);
    const std::int64_t span = dilation[d] * (kernel - 1) + 1;
    result.push_back(transposed ? (size - 1) * stride[d] - 2 * padding[d] + span + more[d]
                                : (size + 2 * padding[d] - span) / stride[d] + 1);
  }
  auto all = of_activations(random);
  all.insert({{"x", numbers(x, random)}, {"weight", numbers(weight, random)}, {"stride", stride},
              {"padding", padding}, {"dilation", dilation}, {"output_padding", more}, {"groups", groups}});
  all["bias"] = random.chance(60) ? c10::IValue(numbers({out}, random)) : c10::IValue();
  if (std::ranges::all_of(result, [](std::int64_t size) { return size > 0; })) all["other"] = numbers(result, random);
  return all;
}
std::map<std::string, c10::IValue> linear(VerifyRandom& random) {
  Shape x;
  for (std::size_t d = 1 + random.below(3); d > 0; --d) x.push_back(random.pick<std::int64_t>({1, 2, 5}));
  Shape result = x;
  x.push_back(random.pick<std::int64_t>({1, 3, 8}));
  result.push_back(random.pick<std::int64_t>({1, 2, 8}));
  auto all = of_activations(random);
  all.insert({{"x", numbers(x, random)}, {"weight", numbers({result.back(), x.back()}, random)},
              {"other", numbers(result, random)}});
  all["bias"] = random.chance(60) ? c10::IValue(numbers({result.back()}, random)) : c10::IValue();
  return all;
}

}  // namespace

TEST_CASE("oneDNN's layers hold on numbers that are finite") {
  rules::onednn.for_each([](const auto& rule) {
    VerifyOptions options = {.cases = 150};
    const std::string_view name = rule.name;
    options.inputs[std::string(name)] = together("x", [name](VerifyRandom& random) {
      return name.starts_with("linear") ? linear(random) : convolution(random, name.starts_with("transposed"));
    });
    const VerifyReport report = verify(rule, options);
    const VerifyReport::Rule& r = report.rules[0];
    CAPTURE(r.name);
    CAPTURE(r.counter_example);
    CHECK(r.difference == "");
    CHECK(r.compared >= 50);
    CHECK(r.seen.contains("not contiguous"));
    CHECK(r.seen.contains("float32"));
    CHECK_NOTHROW(report.check());
  });
}

// --- in modules ------------------------------------------------------------------------------------------------------

namespace {

/// Layers of all kinds, with what may stand behind them, and the inputs of each in turn.
struct Layers {
  std::shared_ptr<Net> net = std::make_shared<Net>();
  Tensors inputs = {torch::randn({2, 4, 9, 7}), torch::randn({2, 3, 8})};
  std::size_t count = 0;

  Layers() {
    torch::manual_seed(31);
    Net& n = *net;
    const Tensor w = n.parameter({6, 4, 3, 3}, 0.3), of_groups = n.parameter({6, 2, 3, 2}, 0.3), b = n.parameter({6}),
                 turned = n.parameter({4, 3, 3, 3}, 0.3), lin = n.parameter({5, 8}, 0.3), lin_bias = n.parameter({5});
    n.function = [=](const Tensors& in) {
      const Tensor &x = in[0], &rows = in[1];
      const Tensor other = torch::conv2d(x, w, b, 1, 1).exp().clamp_max(3), rest = torch::linear(rows, lin).cos();
      return all_of({torch::conv2d(x, w, b, 2, {1, 2}).relu(),
                     torch::conv2d(x, of_groups, {}, 1, 1, 2, 2).sigmoid(),
                     torch::conv2d(x, w, b, {2, 1}, {1, 3}, {1, 2}).tanh(),
                     torch::hardswish(torch::conv2d(x, w, b, 2, 1)),
                     torch::hardsigmoid(torch::conv2d(x, w, b, 1, {1, 0})),
                     torch::silu(torch::conv2d(x, w)),
                     torch::leaky_relu(torch::conv2d(x, w), 0.2),
                     torch::relu6(torch::conv2d(x, w, b)),
                     torch::conv2d(x, w, b).clamp(-0.5, 0.25),
                     torch::gelu(torch::conv2d(x, w, b)),
                     torch::gelu(torch::conv2d(x, w, b), "tanh"),
                     torch::conv2d(x, w, b, 1, 1).add(other),
                     (other + torch::conv2d(x, w, b, 1, 1)).relu(),
                     torch::conv2d(x, w, b, 1, 1) - other,
                     torch::relu(torch::conv2d(x, w, b, 1, 1) * other),
                     torch::conv_transpose2d(x, turned, b, 2, 1, 1, 2, {1, 2}).relu(),
                     torch::sigmoid(torch::conv_transpose2d(x, turned, {}, 2)),
                     torch::conv_transpose2d(x, turned, b, {1, 2}, 1, {0, 1}, 2).tanh(),
                     torch::gelu(torch::linear(rows, lin, lin_bias)),
                     torch::linear(rows, lin).relu(),
                     torch::linear(rows, lin, lin_bias) + rest,
                     torch::linear(rows, lin, lin_bias) * rest});
    };
    count = 22;
  }
  static std::size_t fused_in(const Graph& graph) {
    return static_cast<std::size_t>(std::ranges::count_if(graph.nodes(), [](const Node* node) {
      const Operator* op = operator_of(*node);
      return op && op->name_space() == "mkldnn";
    }));
  }
  std::shared_ptr<GraphModule> fused(const Tensors& in) {
    const auto gm = traced_net(*net, in);
    rules::onednn.apply(*gm);
    gm->graph().lint();
    CHECK(fused_in(gm->graph()) == count);
    return gm;
  }
};
/// The inputs as they are; with channels last; in other places.
std::vector<Tensors> laid_out(const Tensors& in) {
  Tensors last = cloned(in), sliced, turned;
  last[0] = in[0].contiguous(at::MemoryFormat::ChannelsLast);
  for (const Tensor& t : in) {
    sliced.push_back(sliced_copy(t));
    turned.push_back(transposed_copy(t));
  }
  return {in, last, sliced, turned};
}

}  // namespace

TEST_CASE("layers of all kinds with what is behind them are one call each, and give the same numbers") {
  Layers layers;
  const torch::NoGradGuard no_grad;
  for (const Tensors& traced_on : laid_out(layers.inputs)) {
    const auto gm = layers.fused(traced_on);
    for (const Tensors& in : laid_out(layers.inputs))
      CHECK(error_of(gm->run(boxed(in)), in_double(*layers.net, in)) < 1e-5);
    const std::string text = to_string(gm->graph());
    CHECK(to_string(parse_graph(text)) == text);
  }
}

TEST_CASE("strides stay what they were where values lie in order") {
  Layers layers;
  const torch::NoGradGuard no_grad;
  const Tensors before = tensors_of(traced_net(*layers.net, layers.inputs)->run(boxed(layers.inputs)));
  const Tensors after = tensors_of(layers.fused(layers.inputs)->run(boxed(layers.inputs)));
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(i);
    CHECK(before[i].strides() == after[i].strides());
  }
}

TEST_CASE("a bias that does not lie in order is brought into it, as oneDNN takes it to be") {
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({6, 8}), k = net->parameter({6, 4, 3, 3}), turned = net->parameter({4, 6, 2, 2}),
               own_w = net->parameter({6, 8}), own_k = net->parameter({6, 4, 3, 3}),  // with sums that go into biases
               one = net->parameter({1}), two = net->parameter({6, 2});
  net->function = [=](const Tensors& in) {
    const Tensor all = one.expand({6}), gaps = two.select(1, 0), other = torch::conv2d(in[1], k).cos();
    return all_of({torch::linear(in[0], w, all).relu(), torch::gelu(torch::linear(in[0], w, gaps)),
                   (torch::linear(in[0], own_w) + one).relu(), (torch::conv2d(in[1], own_k) + one).relu(),
                   torch::conv2d(in[1], k, gaps).tanh(), torch::conv2d(in[1], k, all) + other,
                   torch::conv_transpose2d(in[1], turned, gaps).relu()});
  };
  const torch::NoGradGuard no_grad;
  for (const Tensor& image : {torch::randn({2, 4, 7, 5}),
                              torch::randn({2, 4, 7, 5}).contiguous(at::MemoryFormat::ChannelsLast)}) {
    const Tensors in{torch::randn({3, 8}), image};
    const auto gm = traced_net(*net, in);
    rules::inference.apply(*gm);  // which makes biases of sums
    CHECK(note_known_sizes(*gm, in).empty());
    CHECK(rules::onednn.apply(*gm).rewrites == 7);
    CHECK(error_of(gm->run(boxed(in)), in_double(*net, in)) < 1e-5);
  }
}

TEST_CASE("nan and infinity reach no other rows, and leaky_relu keeps them, which oneDNN's relu does not") {
  auto net = std::make_shared<Net>();
  const Tensor w = net->constant(torch::eye(4));
  net->function = [=](const Tensors& in) { return c10::IValue(torch::leaky_relu(torch::linear(in[0], w), 0.1)); };
  const Tensor x = torch::randn({3, 4});
  const auto gm = traced_net(*net, {x});
  CHECK(rules::onednn.apply(*gm).to_string() == "linear, activated: 1");
  Tensor odd = x.clone();
  odd[0][0] = not_a_number;
  odd[1][1] = infinite;
  const torch::NoGradGuard no_grad;
  CHECK(same(gm->run({odd}).toTensor().isnan(), torch::leaky_relu(torch::linear(odd, w), 0.1).isnan()));
  CHECK(relative_difference(gm->run({odd}).toTensor()[2], torch::leaky_relu(odd[2], 0.1)) < 1e-6);
}

TEST_CASE("values of fakes have the sizes and strides of real ones") {
  Layers layers;
  const torch::NoGradGuard no_grad;
  for (const Tensors& in : laid_out(layers.inputs)) {
    const auto gm = layers.fused(in);
    for (Node* node : gm->graph().nodes()) node->clear_tensor_meta();
    CHECK(note_known_sizes(*gm, in).empty());
    const Tensors real = tensors_of(gm->run(boxed(in)));
    const Argument results = gm->graph().output_node()->arg(0);
    REQUIRE(results.items().size() == real.size());
    for (std::size_t i = 0; i < real.size(); ++i) {
      CAPTURE(i);
      const TensorMeta* meta = results.items()[i].node()->tensor_meta();
      REQUIRE(meta != nullptr);
      CHECK(meta->shape == real[i].sizes().vec());
      CHECK(meta->stride == real[i].strides().vec());
    }
  }
}

TEST_CASE("compiled, they are kernels of ours: nothing is called back") {
  Layers layers;
  const torch::NoGradGuard no_grad;
  const auto gm = layers.fused(layers.inputs);
  const auto compiled =
      fxx::compile(*gm, layers.inputs, {.threads = 2, .tolerance = infinite, .cache_folder = cache()});
  for (const std::string& name : called_back_operators(*compiled)) CHECK_FALSE(contains(name, "mkldnn"));
  CHECK(compiled->interpreted().empty());
  CHECK(error_of(compiled->run(boxed(layers.inputs)), in_double(*layers.net, layers.inputs)) < 1e-5);
}

TEST_CASE("built, they are called as they are") {
  Layers layers;
  const torch::NoGradGuard no_grad;
  const auto gm = layers.fused(layers.inputs);
  const auto built = fxx::build(*gm, layers.inputs, {.tolerance = 0, .cache_folder = cache()});
  CHECK(error_of(built->run(boxed(layers.inputs)), in_double(*layers.net, layers.inputs)) < 1e-5);
}

TEST_CASE("they stand in readable C++, whose program finds the results as expected") {
  Layers layers;
  const torch::NoGradGuard no_grad;
  const auto gm = layers.fused(layers.inputs);
  for (const char* name : {"_convolution_pointwise\", \"\"", "_convolution_pointwise\", \"binary\"",
                           "_convolution_transpose_pointwise", "_linear_pointwise\", \"binary\""})
    CHECK(contains(gm->code(), "mkldnn::" + std::string(name)));
  const TemporaryFolder folder;
  const std::string to = folder / "layers";
  to_folder(*gm, to, "Layers", {.example_inputs = layers.inputs});
  std::vector<std::string> meson = {"meson"};
  if (const char* python = std::getenv("FXX_PYTHON")) meson = {python, "-m", "mesonbuild.mesonmain"};
  const auto run = [&](std::vector<std::string> before, const std::vector<std::string>& words) {
    before.insert(before.end(), words.begin(), words.end());
    const ProcessResult result = run_process(before, {.working_directory = to, .timeout_seconds = 600});
    CAPTURE(command_line(before));
    CAPTURE(result.output.substr(0, 3000));
    CHECK(result.ok());
    return result.output;
  };
  run(meson, {"setup", "build", "-Dtorch=" + torch_folder(), "-Doptimization=0"});
  run(meson, {"compile", "-C", "build"});
  const std::string said = run({to + "/build/layers"}, {});
  std::size_t expected = 0;
  for (std::size_t at = 0; (at = said.find(", as expected", at)) != std::string::npos; ++at) ++expected;
  CHECK(expected == layers.count);
}
