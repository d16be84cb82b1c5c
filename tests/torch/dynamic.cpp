// Sizes: which ones a trace fixed, and graphs for all of them.
#include "fxx/ops/operation.hpp"
#include "fxx/torch/build.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;
using torch::Tensor;

namespace {

/// What attention written by hand does with sizes.
struct Attention : torch::nn::Module {
  torch::nn::Linear qkv{16, 48}, out{16, 16};
  std::int64_t heads = 4;
  Attention() { register_module("qkv", qkv), register_module("out", out); }
  Tensor forward(Tensor x) {
    const std::int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
    const auto parts = qkv(x).view({batch, time, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor mask = torch::ones({time, time}, torch::kBool).tril();
    Tensor scores = parts[0].matmul(parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(width / heads));
    scores = scores.masked_fill(~mask, -1e9).softmax(-1);
    return out(scores.matmul(parts[2]).transpose(1, 2).reshape({batch, time, width})) +
           torch::arange(time).view({time, 1});
  }
};

TEST_CASE("strict names the sizes that became numbers, with their lines; the report lists them without failing") {
  Attention net;
  const Tensor x = torch::rand({2, 5, 16});
  const Fault fault = fault_of<TraceError>([&] { trace(net, {x}, {.strict = true}); });
  CHECK(fault.id == 322);
  CHECK(fault.says("x.size(0) = 2"));
  CHECK(fault.says("x.size(1) = 5"));
  CHECK(fault.says("Attention::forward"));
  CHECK(fault.says("view"));
  TraceReport report;
  const auto gm = trace(net, {x}, {.strict = true, .report = &report});
  CHECK(relative_difference(c10::IValue((*gm)(x)), c10::IValue(net.forward(x))) <= 1e-6);
  REQUIRE(report.sizes.size() >= 3);
  CHECK(report.sizes[0].value == "x.size(0)");
  CHECK(report.sizes[0].size == 2);
  CHECK(report.sizes[1].size == 5);
  CHECK(report.sizes[1].used_by.size() >= 3);
  CHECK(report.to_string().find("x.size(2) = 16") != std::string::npos);

  // Code that asks for no size, and one that only checks.
  const auto trace_strictly = [](auto f, const Tensor& input) { return trace(f, {input}, {.strict = true}); };
  trace_strictly([](Tensor t) { return (t * 2).flatten(1).relu(); }, x);
  trace_strictly(
      [](Tensor t) {
        TORCH_CHECK(t.dim() == 3, "rank");
        return t.view({-1, 16}).sum();
      },
      x);
  trace_strictly(
      [](Tensor t) {
        TORCH_CHECK(t.size(1) == 5, "five");
        return t.exp();
      },
      x);
  CHECK(fault_of<TraceError>([&] {
          trace_strictly([](Tensor t) { return t.new_zeros({t.size(1)}) + t.sum(); }, x);
        }).id == 322);
}

TEST_CASE("dynamic dimensions: the graph computes what the code does at sizes never traced") {
  Attention net;
  net.to(torch::kDouble);
  const auto gm = trace(net, {torch::rand({2, 5, 16}, torch::kDouble)}, {{0, 0, "batch"}, {0, 1, "time"}});
  CHECK(gm->graph().find_nodes(Opcode::call_function).size() > 10);
  const std::string text = to_string(gm->graph());
  CHECK(text.find("%batch") != std::string::npos);
  CHECK(text.find("%time") != std::string::npos);
  std::vector<Tensors> inputs;
  for (const auto& [batch, time] : {std::pair<int, int>{2, 5}, {3, 7}, {8, 2}, {1, 31}, {4, 1}})
    inputs.push_back({torch::rand({batch, time, 16}, torch::kDouble)});
  check_traced(net, *gm, inputs, 1e-12);
  // Compiled code, too.
  const auto compiled = build(*gm, {inputs[0][0]});
  for (const Tensors& in : inputs)
    CHECK(relative_difference(c10::IValue(compiled->forward(in[0])), c10::IValue(net.forward(in[0]))) <= 1e-12);
}

TEST_CASE("dynamic height and width through convolutions, pooling and upsampling") {
  struct Net : torch::nn::Module {
    torch::nn::Conv2d down{torch::nn::Conv2dOptions(3, 4, 3).stride(2).padding(1)},
        up{torch::nn::Conv2dOptions(4, 4, 3).padding(1)};
    Net() { register_module("down", down), register_module("up", up); }
    Tensor forward(Tensor x) {
      const Tensor low = torch::relu(down(x));
      Tensor high = F::interpolate(
          low, F::InterpolateFuncOptions().size(std::vector<std::int64_t>{x.size(2), x.size(3)}).mode(torch::kNearest));
      high = torch::cat({up(high), x}, 1);
      const Tensor pooled = torch::max_pool2d(high, 2).flatten(2);
      return pooled.view({x.size(0), pooled.size(1) * pooled.size(2)}).slice(1, 0, low.size(3));
    }
  } net;
  const Tensor x = torch::rand({1, 3, 16, 12});
  const auto gm = trace(net, {x}, {{.input = 0, .dim = 2, .name = "height"}, {.input = 0, .dim = 3, .name = "width"}});
  std::vector<Tensors> inputs;
  for (const auto& [h, w] : {std::pair<int, int>{16, 12}, {9, 9}, {31, 40}, {64, 5}})
    inputs.push_back({torch::rand({1, 3, h, w})});
  check_traced(net, *gm, inputs, 1e-5);
}

TEST_CASE(
    "a graph that differs between sizes names the node and its line; constants that differ, and wrong dimensions") {
  const Tensor x = torch::rand({2, 6});
  const auto fault = [&](auto f, std::vector<DynamicDim> dynamic) {
    TraceOptions options;
    options.dynamic = std::move(dynamic);
    return fault_of<TraceError>([&] { trace(f, {x}, options); });
  };
  const Fault branch = fault([](Tensor t) { return t.size(0) > 4 ? t.exp() : t.sin() * 2; }, {{0, 0, "batch"}});
  CHECK(branch.id == 309);
  CHECK(branch.says("exp"));
  CHECK(branch.says("sin"));
  CHECK(branch.says("operator()"));
  const Fault loop = fault(
      [](Tensor t) {
        Tensor sum = t[0] * 1;
        for (std::int64_t i = 1; i < t.size(0); ++i) sum = sum + t[i];
        return sum;
      },
      {{0, 0, "batch"}});
  CHECK(loop.id == 309);
  const Fault constant = fault(
      [](Tensor t) {
        const Tensor filled = torch::empty({2});
        filled.data_ptr<float>()[0] = static_cast<float>(t.size(0)), filled.data_ptr<float>()[1] = 2;
        return t.sum() + filled;
      },
      {{0, 0, "batch"}});
  CHECK(constant.id == 309);
  CHECK(constant.says("_tensor_constant0"));
  CHECK(fault([](Tensor t) { return t * 2; }, {{0, 2, "batch"}}).id == 311);
  CHECK(fault([](Tensor t) { return t * 2; }, {{1, 0, "batch"}}).id == 311);
  CHECK(fault([](Tensor t) { return t * 2; }, {{0, 0, "n"}, {0, 1, "n"}}).id == 311);
}

TEST_CASE("branches on a size are looked for at the smallest one too; what fails there is left out") {
  const auto branches = [](Tensor t) { return t.size(0) > 3 ? t * 2 : t; };
  const Tensor x = torch::rand({4, 8});
  const Fault branch = fault_of<TraceError>([&] { trace(branches, {x}, {{0, 0, "batch"}}); });
  CHECK(branch.id == 309);
  CHECK(branch.says("batch=2"));
  const auto from_four = trace(branches, {x}, {{0, 0, "batch", 4}});
  CHECK(same((*from_four)(torch::rand({4, 8}).fill_(1)), torch::full({4, 8}, 2.0)));
  const auto refuses = [](Tensor t) {
    TORCH_CHECK(t.size(0) > 3, "too few");
    return t.view({-1, t.size(0)});
  };
  check_traced(refuses, *trace(refuses, {x}, {{0, 0, "batch"}}), {{x}, {torch::rand({9, 8})}});
  const auto throws = [](Tensor t) {
    if (t.size(0) < 4) throw std::invalid_argument("too few");
    return t * 2;
  };
  check_traced(throws, *trace(throws, {x}, {{0, 0, "batch"}}), {{x}, {torch::rand({9, 8})}});
}

TEST_CASE("dimensions that are not dynamic: what the code does at sizes that nobody gave is told with these") {
  torch::nn::Linear fc(8, 3);
  const Fault fixed = fault_of<TraceError>([&] { trace(fc, {torch::rand({4, 8})}, {{0, 1, "width"}}); });
  CHECK(fixed.id == 311);
  CHECK(fixed.says("width=8"));
  CHECK(fixed.says("fails at width="));
  CHECK(fixed.says("shapes"));
  const auto add = [](Tensor a, Tensor b) { return a + b; };
  const Fault apart = fault_of<TraceError>([&] {
    trace(add, {torch::rand({4}), torch::rand({4})}, {{0, 0, "batch"}, {1, 0, "bacth"}});
  });
  CHECK(apart.id == 311);
  CHECK(apart.says("bacth=4"));
  const Fault twice = fault_of<TraceError>([&] {
    trace(add, {torch::rand({4}), torch::rand({4})}, {{0, 0, "n"}, {0, -1, "m"}});
  });
  CHECK(twice.id == 311);
  CHECK(twice.says("declared twice, as 'n' and as 'm'"));
}

TEST_CASE("strict refuses sizes that are computed with, and lets factors be") {
  const Tensor x = torch::rand({2, 5});
  const auto refused = [&](auto f) { return fault_of<TraceError>([&] { trace(f, {x}, {.strict = true}); }).id == 322; };
  CHECK(refused([](Tensor t) { return t.sum(1) / t.size(1); }));
  CHECK(refused([](Tensor t) { return t * static_cast<double>(t.size(1)); }));
  CHECK(refused([](Tensor t) { return t + torch::arange(t.size(1)); }));
  CHECK(refused([](Tensor t) { return torch::add(t, t, t.size(1)); }));
  // Numbers that follow from several sizes are numbers that were read, too, and so are those of operators whose schemas
  // have no word for sizes.
  CHECK(refused([](Tensor t) { return t.view({t.numel()}); }));
  CHECK(refused([](Tensor t) { return t.as_strided({2}, {t.stride(0)}); }));
  CHECK(refused([](Tensor t) { return t.view({t.sizes()[0], -1}); }));
  CHECK(refused([](Tensor t) { return t + torch::linspace(0, 1, t.size(-1)); }));
  CHECK(refused([](Tensor t) { return torch::cat(t.chunk(t.size(1), 1)); }));
  CHECK(refused([](Tensor t) { return t.unfold(1, t.size(1), 1); }));
  CHECK(refused([](Tensor t) { return t * torch::hann_window(t.size(1)); }));
  CHECK(refused([](Tensor t) { return torch::avg_pool1d(t, {t.size(1)}); }));
  CHECK(refused([](Tensor t) { return t.sum() + torch::tril_indices(t.size(1), 4); }));
  CHECK(refused([](Tensor t) { return t.sum() + torch::tensor({t.size(1)}); }));
  const auto gm = trace(
      [](Tensor t) {
        TORCH_CHECK(t.size(0) == 2, "two");
        return t * 2;
      },
      {x}, {.strict = true});
  CHECK(same((*gm)(x), x * 2));
  // What C++ made of a size, or did so often as it says, is found by what other sizes would make of it.
  const auto text_of = [&](auto f, std::vector<Tensor> inputs) {
    return fault_of<TraceError>([&] { trace(f, std::move(inputs), {.strict = true}); }).text;
  };
  const Tensor wide = torch::rand({6, 10});
  CHECK(text_of(
            [](Tensor t) {
              return t.view({t.size(0) / 2, -1});
            },
            {wide})
            .find("x.size(0) = 6, read by ") != std::string::npos);
  CHECK(text_of([](Tensor t) { return t.view({t.size(0) / 2, -1}); }, {wide}).find("%view(size)") != std::string::npos);
  CHECK(refused([](Tensor t) {
    Tensor sum = torch::zeros({});
    for (std::int64_t i = 0; i < t.size(0); ++i) sum = sum + t.select(0, i).sum();
    return sum;
  }));
  CHECK(text_of([](Tensor t) { return t.size(1) > 16 ? t.sin() : t.exp(); }, {wide}).find("x.size(1) = 10") !=
        std::string::npos);
  CHECK(text_of([](Tensor t) { return t * std::sqrt(static_cast<double>(t.size(1))); }, {wide}).find("%mul(other)") !=
        std::string::npos);
  CHECK(refused([](Tensor t) {
    const Tensor a = t.exp(), b = t.sin();
    return t.size(1) > 7 ? a + a : a + b;  // the same operators on other values
  }));
  // Sizes that have to be equal change together, and code that takes no other size may read it.
  CHECK(text_of(
            [](Tensor a, Tensor b) {
              return (a + b).view({a.size(0) / 3, -1});
            },
            {wide, wide})
            .find("arg0.size(0) = 6") != std::string::npos);
  trace([](Tensor t, Tensor u) { return (t.softmax(0) + u).flatten(); }, {wide, wide}, {.strict = true});
  torch::nn::Linear fc(10, 4);
  trace([&](Tensor t) { return fc(t) * static_cast<double>(std::min<std::int64_t>(t.size(0), 1)); }, {wide},
        {.strict = true});
  // Dimensions and groups are no sizes, whatever their numbers.
  const Tensor cube = torch::rand({3, 6, 4, 4, 4});
  const auto axes = [weight = torch::rand({3, 2, 3, 3, 3})](Tensor t) {
    TORCH_CHECK(t.size(0) == 3 && t.numel() > 0 && t.stride(-1) == 1, "three");
    t = torch::group_norm(torch::max_pool3d(t, 3, 1, 1), 3);
    return torch::conv3d(t.softmax(3).transpose(3, 4), weight, {}, 3, 3, 3, 3).sum(3);
  };
  CHECK(same((*trace(axes, {cube}, {.strict = true}))(cube), axes(cube)));
  // What was asked for is told, and not what the answer is made of.
  TraceReport report;
  trace([](Tensor t) { return t.view({t.numel()}); }, {x}, {.report = &report});
  CAPTURE(report.to_string());
  REQUIRE(report.sizes.size() == 1);
  CHECK(report.sizes[0].value == "x.numel()");
  CHECK(report.sizes[0].size == 10);
  CHECK(report.sizes[0].used_by == std::vector<std::string>{"%view(size)"});
  trace([](Tensor t) { return t.as_strided({1}, {t.stride(0)}); }, {x}, {.report = &report});
  REQUIRE(report.sizes.size() == 2);  // stride() asks for all of them
  CHECK(report.sizes[0].value == "x.stride(0)");
  CHECK(report.sizes[0].used_by == std::vector<std::string>{"%as_strided(stride)"});
  CHECK(report.sizes[1].used_by.empty());
}

TEST_CASE("strict beside dynamic dimensions: what is declared is no number, what is not is refused") {
  const Tensor x = torch::rand({2, 5, 4});
  const auto code = [](Tensor t) {
    if (t.size(2) > 3) t = t.exp();
    return t.view({t.size(0), t.size(1) * t.size(2)});
  };
  const auto rows = [](Tensor t) { return t.view({t.size(0), -1}) + torch::arange(t.size(0)).view({-1, 1}); };
  const auto gm = trace(rows, {x}, {.strict = true, .dynamic = {{0, 0, "batch"}}});
  const Tensor y = torch::rand({7, 5, 4});
  CHECK(same((*gm)(y), rows(y)));
  const Fault fault = fault_of<TraceError>([&] {
    trace(
        [](Tensor t) {
          return t.view({t.size(0), t.size(1), 1, -1});
        },
        {x}, {.strict = true, .dynamic = {{0, 0, "batch"}}});
  });
  CHECK(fault.id == 322);
  CHECK(fault.says("x.size(1) = 5"));
  CHECK(!fault.says("x.size(0)"));
  // A number that is what a dynamic size was in the first run, and stays when that changes, is no size.
  const Tensor four = torch::rand({4, 5, 8});
  const auto heads = [](Tensor t) { return t.view({t.size(0), 4, -1}); };
  CHECK(same((*trace(heads, {four}, {.strict = true, .dynamic = {{0, 0, "batch"}}}))(y), heads(y)));
  // With a callable beside its module, too.
  torch::nn::Linear fc(4, 4);
  const auto beside = trace(fc, [&](Tensor t) { return fc(t).view({t.size(0), -1}); }, {x}, {{0, 0, "batch"}});
  CHECK(beside->parameters().size() == 2);
  CHECK(same((*beside)(y), fc(y).view({7, -1})));
  // A branch on a size, which shows nowhere in the graph, is in the report.
  TraceReport report;
  const auto told = trace(code, {x}, {.dynamic = {{0, 0, "batch"}}, .report = &report});
  std::vector<std::string> values;
  for (const TraceReport::Size& size : report.sizes) {
    values.push_back(size.value);
    CHECK(size.used_by.empty());
  }
  CHECK(std::find(values.begin(), values.end(), "x.size(2)") != values.end());
  CHECK(same((*told)(y), code(y)));
}

TEST_CASE("parameters of modules that nobody registered are named") {
  struct Forgetful : torch::nn::Module {
    torch::nn::Linear known{5, 4}, forgotten{4, 3};
    Forgetful() { register_module("known", known); }
    Tensor forward(Tensor x) { return forgotten(known(x).relu()); }
  } net;
  TraceReport report;
  const Tensor x = torch::rand({2, 5});
  const auto gm = trace(net, {x}, {.report = &report});
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].find("register_module") != std::string::npos);
  CHECK(report.notes[0].find("'_tensor_constant0' of %linear") != std::string::npos);
  CHECK(same((*gm)(x), net.forward(x)));
  const auto callable = trace([&](Tensor t) { return net.forward(t); }, {x}, {.report = &report});
  REQUIRE(report.notes.size() == 1);  // of all the weights that the callable captured
  CHECK(report.notes[0].find("Pass their module beside the callable") != std::string::npos);
}

TEST_CASE("numbers that follow from sizes: in tensors made of C++ values, scales, ends of slices, repeats") {
  const auto f = [](Tensor t) {
    const std::int64_t n = t.size(0), m = t.size(1);
    const Tensor made = torch::tensor({static_cast<float>(n), static_cast<float>(m * 2)});
    const Tensor scaled = t / std::sqrt(static_cast<double>(m)) * (1.0 / static_cast<double>(n));
    const Tensor half = scaled.slice(0, 0, n / 2), rest = scaled.slice(0, n / 2).sum(0, true);
    return torch::cat({half, rest.repeat({n - 1, 1})}).sum() + made + torch::full({2}, static_cast<double>(n + m)) +
           torch::arange(0, 2 * m, m).to(torch::kFloat);
  };
  const auto gm = trace(f, {torch::rand({6, 4})}, {{0, 0, "n"}, {0, 1, "m"}});
  std::vector<Tensors> inputs;
  for (const auto& [n, m] : {std::pair<int, int>{6, 4}, {2, 3}, {7, 11}, {12, 2}})
    inputs.push_back({torch::rand({n, m})});
  check_traced(f, *gm, inputs, 1e-6);
}

TEST_CASE("tracing at several sizes leaves the module as one run does") {
  struct Net : torch::nn::Module {
    torch::nn::BatchNorm1d norm{4};
    torch::nn::Dropout drop{0.5};
    Net() { register_module("norm", norm), register_module("drop", drop); }
    Tensor forward(Tensor x) { return drop(norm(x)).view({x.size(0) * 2, 2}); }
  } net, other;
  const Tensor x = torch::rand({6, 4});
  torch::manual_seed(1);
  {
    const torch::NoGradGuard no_grad;
    other.forward(x);
  }
  const Tensor next = torch::rand({2});
  torch::manual_seed(1);
  const auto gm = trace(net, {x}, {{0, 0, "batch"}});
  CHECK(same(torch::rand({2}), next));
  CHECK(same(net.norm->running_mean, other.norm->running_mean));
  CHECK(called_modules(gm->graph()) == std::set<std::string>{"norm", "drop"});
  net.eval();
  gm->eval();
  for (const int batch : {2, 6, 9}) {
    const Tensor in = torch::rand({batch, 4});
    CHECK(same((*gm)(in), net.forward(in)));
  }
}

TEST_CASE("tracing at several sizes writes to the inputs that it is given once, as one run does") {
  const auto f = [](Tensor x, Tensor seen) {
    seen.add_(1);
    return x + seen;
  };
  const Tensor seen = torch::zeros({4}), x = torch::rand({3, 4});
  const auto gm = trace(f, {torch::rand({6, 4}), seen}, {{0, 0, "batch"}});
  CHECK(same(seen, torch::ones({4})));
  CHECK(same((*gm)(x, seen), x + 2));
}

TEST_CASE("one name over two inputs: one size of the graph, at sizes never traced; two sizes fail where they meet") {
  const auto f = [](Tensor a, Tensor b) {
    const std::int64_t n = b.size(0);
    return torch::cat({a, b}, 1).view({2 * n, 2}) / static_cast<double>(n);
  };
  const auto at = [](std::int64_t rows, std::int64_t others) {
    return Tensors{torch::rand({rows, 3}), torch::rand({others, 1})};
  };
  const auto gm = trace(f, at(4, 4), {{0, 0, "n"}, {1, 0, "n"}});
  const std::vector<Node*> inputs = gm->graph().find_nodes(Opcode::placeholder);
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0]->tensor_meta()->shape_text() == "n, 3");
  CHECK(inputs[1]->tensor_meta()->shape_text() == "n, 1");
  CHECK(inputs[0]->tensor_meta()->shape[0] == inputs[1]->tensor_meta()->shape[0]);
  CHECK(gm->graph().find_nodes(Opcode::call_method, "size").size() == 1);
  check_traced(f, *gm, {at(4, 4), at(1, 1), at(5, 5), at(97, 97)}, 1e-6);
  const auto text_of = [&](const Tensors& in) -> std::string {
    try {
      (*gm)(in[0], in[1]);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return {};
  };
  const std::string apart = text_of(at(5, 6));
  CAPTURE(apart);
  CHECK(apart.find("While executing %cat") != std::string::npos);
  CHECK(apart.find("Input 'arg1' has the sizes [6, 1]; the graph was made with [n, 1], and dimensions of one name have "
                   "one size") != std::string::npos);
  CHECK(apart.find("Input 'arg0'") == std::string::npos);
  // A dimension that is not dynamic is told as such, whatever the dynamic ones are.
  const std::string fixed = text_of({torch::rand({5, 2}), torch::rand({5, 1})});
  CAPTURE(fixed);
  CHECK(fixed.find("Input 'arg0' has the sizes [5, 2]; the graph was made with [n, 3], and sizes that") !=
        std::string::npos);
  CHECK(fixed.find("Input 'arg1'") == std::string::npos);
}

TEST_CASE("numbers that no expression of the sizes gives, and constants as large as an input, are refused") {
  const Tensor x = torch::rand({4, 3});
  const auto fault = [&](auto f) { return fault_of<TraceError>([&] { trace(f, {x}, {{0, 0, "batch"}}); }); };
  const auto says = [](const Fault& fault, std::initializer_list<const char*> words) {
    CAPTURE(fault.text);
    CHECK(fault.id == 310);
    for (const char* word : words) {
      CAPTURE(word);
      CHECK(fault.says(word));
    }
  };
  says(
      fault([](Tensor t) { return t * std::log(static_cast<double>(t.size(0))); }),
      {"argument 1 (other) changes with the sizes, and no expression over them gives it: 1.3862943611198906 at batch=4",
       "+, -, *, /, %, min, max or sqrt", "leave the dimension out", "node %mul", "operator()"});
  says(fault([](Tensor t) {
         const std::int64_t n = t.size(0);
         return t.repeat({n * n % 7 + n % 5, 1});
       }),
       {"argument 1 (repeats), item 0 changes with the sizes", "no expression over them gives it", "node %repeat"});
  says(fault([](Tensor t) {
         return t + torch::tensor(std::vector<float>(static_cast<std::size_t>(t.size(0)), 1.f)).unsqueeze(1);
       }),
       {"the constant '_tensor_constant0', size 0, changes with the sizes of the inputs: 4 at batch=4",
        "arange, zeros, full"});
  // So is one whose memory C++ fills anew in every run.
  const Tensor count = torch::zeros({1});
  const Fault refilled = fault([&](Tensor t) {
    count.data_ptr<float>()[0] = static_cast<float>(t.size(0));
    return t.sum(0) / count;
  });
  CHECK(refilled.id == 309);
  CHECK(refilled.says("'_tensor_constant0', which C++ code fills"));
}

TEST_CASE("dimensions from the end, with bounds: traced within them, right at all sizes that they allow") {
  std::set<std::int64_t> seen;
  const auto pairs = [&](Tensor t) {
    seen.insert(t.size(-1));
    return t.view({t.size(0), t.size(1) / 4, 4}).sum(1) * static_cast<double>(t.size(-1));
  };
  const auto gm = trace(pairs, {torch::rand({3, 8})}, {{0, -1, "width", 2, 16, 4}});
  CHECK(gm->graph().find_nodes(Opcode::placeholder)[0]->tensor_meta()->shape_text() == "3, width");
  CHECK(seen.size() >= 3);
  for (const std::int64_t size : seen) {
    CAPTURE(size);
    CHECK((size == 4 || size == 8 || size == 12 || size == 16));
  }
  check_traced(pairs, *gm,
               {{torch::rand({3, 4})}, {torch::rand({3, 8})}, {torch::rand({3, 12})}, {torch::rand({3, 16})}}, 1e-6);
  // Without multiple_of the code fails where 4 does not divide, which is told.
  const Fault odd = fault_of<TraceError>([&] { trace(pairs, {torch::rand({3, 8})}, {{0, -1, "width", 2, 16}}); });
  CHECK(odd.id == 311);
  CHECK(odd.says("multiple_of"));

  // A table of positions that ends.
  struct Positions : torch::nn::Module {
    Tensor table = register_buffer("table", torch::rand({10, 4}));
    Tensor forward(Tensor t) { return t + table.index({torch::indexing::Slice(0, t.size(-2))}); }
  } net;
  const Tensor x = torch::rand({2, 5, 4});
  CHECK(fault_of<TraceError>([&] { trace(net, {x}, {{0, -2, "time"}}); }).says("maximum"));
  const auto bounded = trace(net, {x}, {{0, -2, "time", 1, 10}});
  std::vector<Tensors> inputs;
  for (const std::int64_t time : {1, 2, 3, 5, 7, 9, 10}) inputs.push_back({torch::rand({2, time, 4})});
  check_traced(net, *bounded, inputs);
}

TEST_CASE("a number that is the schema's default at one of the traced sizes is computed at the others") {
  const auto causal = [](Tensor q, Tensor k) {
    return torch::ones({q.size(1), k.size(1)}).tril(k.size(1) - q.size(1)) + q.sum() + k.sum();
  };
  const auto gm = trace(causal, {torch::rand({2, 5}), torch::rand({2, 5})}, {{0, 1, "q"}, {1, 1, "k"}});
  std::vector<Tensors> inputs;
  for (const auto& [q, k] : {std::pair<int, int>{5, 5}, {3, 9}, {9, 4}})
    inputs.push_back({torch::rand({2, q}), torch::rand({2, k})});
  check_traced(causal, *gm, inputs, 1e-6);

  const Tensor weight = torch::rand({1, 1, 3, 3});
  const auto padded = [weight](Tensor x) {
    return torch::conv2d(x, weight, {}, 1, std::vector<std::int64_t>{x.size(2) - 5, 0});
  };
  const auto convolution = trace(padded, {torch::rand({1, 1, 5, 4})}, {{0, 2, "height", 5}});
  check_traced(padded, *convolution, {{torch::rand({1, 1, 5, 4})}, {torch::rand({1, 1, 8, 4})}}, 1e-6);
}

TEST_CASE("an example in channels_last is in that layout at all sizes") {
  const auto f = [](Tensor x) { return (x.contiguous() * 2).contiguous(x.suggest_memory_format()); };
  const auto images = [](std::int64_t batch) {
    return torch::rand({batch, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast);
  };
  const auto gm = trace(f, {images(2)}, {{0, 0, "batch"}});
  for (const std::int64_t batch : {2, 7}) {
    const Tensor x = images(batch), y = (*gm)(x);
    CHECK(same(y, x * 2));
    CHECK(y.is_contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

TEST_CASE("readable code of a dynamic graph takes sizes from its inputs") {
  const auto f = [](Tensor t) {
    const std::int64_t n = t.size(0), m = t.size(1);
    return t.view({n * m}).slice(0, 0, m / 2) / std::sqrt(static_cast<double>(n));
  };
  const auto gm = trace(f, {torch::rand({4, 6})}, {{0, 0, "rows"}, {0, -1, "columns"}});
  const std::string code = gm->code();
  CAPTURE(code);
  for (const char* words : {"rows = x.size(0)", "columns = x.size(1)", "rows * columns", "columns / 2"}) {
    CAPTURE(words);
    CHECK(code.find(words) != std::string::npos);
  }
  for (const char* number : {"24", "= 4", "6"}) {
    CAPTURE(number);
    CHECK(code.find(number) == std::string::npos);
  }
  check_traced(f, *gm, {{torch::rand({5, 9})}, {torch::rand({1, 2})}}, 1e-6);
}

TEST_CASE("sizes bounded, wrapped and centred by C++: right at sizes that no trace showed") {
  torch::NoGradGuard no_grad;
  const auto at_rows = [](auto f, std::int64_t traced, const std::vector<std::int64_t>& sizes) {
    const auto gm = trace(f, {torch::rand({traced, 3})}, {{0, 0, "n"}});
    CAPTURE(to_string(gm->graph()));
    for (const std::int64_t n : sizes) {
      CAPTURE(n);
      const Tensor x = torch::rand({n, 3});
      CHECK(same((*gm)(x), f(x)));
    }
  };
  const std::vector<std::int64_t> around_48 = {2, 10, 20, 47, 48, 49, 60, 96, 500, 3000};
  for (const std::int64_t traced : {3, 10, 48, 80}) {
    CAPTURE(traced);
    at_rows([](Tensor x) { return x.narrow(0, 0, std::min<std::int64_t>(48, x.size(0))); }, traced, around_48);
    at_rows([](Tensor x) { return std::get<0>(x.topk(std::min<std::int64_t>(48, x.size(0)), 0)); }, traced, around_48);
  }
  const auto at_columns = [](auto f, std::int64_t traced, const std::vector<std::int64_t>& sizes,
                             std::int64_t minimum = 2) {
    const auto gm = trace(f, {torch::rand({2, traced})}, {{0, 1, "n", minimum}});
    CAPTURE(to_string(gm->graph()));
    for (const std::int64_t n : sizes) {
      CAPTURE(n);
      const Tensor x = torch::rand({2, n});
      CHECK(same((*gm)(x), f(x)));
    }
  };
  const std::vector<std::int64_t> around_64 = {5, 63, 64, 65, 100, 127, 128, 129, 200, 640, 1000};
  for (const std::int64_t traced : {10, 64, 100}) {
    CAPTURE(traced);
    at_columns([](Tensor x) { return x.slice(1, x.size(1) % 64, x.size(1)); }, traced, around_64);
    at_columns(
        [](Tensor x) {
          const std::int64_t missing = (64 - x.size(1) % 64) % 64;
          return torch::constant_pad_nd(x, {missing / 2, missing - missing / 2});
        },
        traced, around_64);
  }
  // Centre crops: of a fixed size, of a half, and of what there is when that is less.
  const std::vector<std::int64_t> around_24 = {24, 25, 26, 31, 48, 99, 100, 500};
  at_columns([](Tensor x) { return x.narrow(1, (x.size(1) - 24) / 2, 24); }, 40, around_24, 24);
  at_columns([](Tensor x) { return x.narrow(1, x.size(1) / 4, x.size(1) / 2); }, 40, around_24);
  at_columns(
      [](Tensor x) {
        const std::int64_t n = x.size(1), size = std::min<std::int64_t>(n, 24), start = (n - size) / 2;
        return x.slice(1, start, start + size);
      },
      40, {2, 3, 10, 23, 24, 25, 26, 31, 48, 99, 500});
}

TEST_CASE("a grid that forward caches in a member: made anew for each size it is traced right, kept it is named") {
  struct Gridded : torch::nn::Module {
    bool grows = false;
    Tensor grid;
    Tensor forward(Tensor x) {
      const std::int64_t n = x.size(0);
      if (!grid.defined() || (grows ? grid.size(0) < n : grid.size(0) != n)) grid = torch::linspace(-1, 1, n);
      return x + grid.slice(0, 0, n).view({-1, 1});
    }
  };
  Gridded anew, fresh, kept;
  const auto gm = trace(anew, {torch::rand({6, 3})}, {{0, 0, "n"}});
  for (const std::int64_t n : {2, 6, 7, 40}) {
    const Tensor x = torch::rand({n, 3});
    CHECK(same((*gm)(x), fresh.forward(x)));
  }
  kept.grows = true;
  const Fault fault = fault_of<TraceError>([&] { trace(kept, {torch::rand({6, 3})}, {{0, 0, "n"}}); });
  CHECK(fault.id == 309);
  CAPTURE(fault.text);
  CHECK(fault.says("forward keeps"));
  CHECK(fault.says("for the next"));
  CHECK(!fault.says("A branch on a size"));
}

TEST_CASE("numbers that LibTorch leaves out at some of the sizes: starts of 0, steps of 1, whole slices, no padding") {
  torch::NoGradGuard no_grad;
  using torch::indexing::None;
  using torch::indexing::Slice;
  const auto check = [](const std::string& name, auto f, std::int64_t minimum = 2) {
    CAPTURE(name);
    for (const std::int64_t traced : {16, 47, 100}) {
      CAPTURE(traced);
      const auto gm = trace(f, {torch::rand({2, traced})}, {{0, 1, "n", minimum}});
      CAPTURE(to_string(gm->graph()));
      for (const std::int64_t n : {2, 3, 5, 8, 15, 16, 31, 47, 48, 49, 50, 63, 64, 65, 96, 100, 200, 501}) {
        if (n < minimum) continue;
        CAPTURE(n);
        const Tensor x = torch::rand({2, n});
        CHECK(same((*gm)(x), f(x)));
      }
    }
  };
  check("start of a slice", [](Tensor x) { return x.slice(1, x.size(1) % 2, x.size(1)); });
  check("start of an index", [](Tensor x) { return x.index({Slice(), Slice(x.size(1) % 3, None)}); });
  check("the last ones", [](Tensor x) { return x.slice(1, std::max<std::int64_t>(x.size(1) - 48, 0), x.size(1)); });
  check("step", [](Tensor x) { return x.slice(1, 0, x.size(1), 1 + x.size(1) / 50); });
  check("narrow", [](Tensor x) { return x.narrow(1, x.size(1) % 2, x.size(1) - x.size(1) % 2); });
  check("end from the end", [](Tensor x) { return x.index({"...", Slice(None, -(1 + x.size(1) % 4))}); }, 6);
  check("whole at even sizes", [](Tensor x) { return x.index({Slice(), Slice(None, x.size(1) / 2 * 2)}); });
  check("what is within", [](Tensor x) { return x.index({Slice(), Slice(x.size(1) / 4, x.size(1) - x.size(1) / 4)}); });
  check("roll", [](Tensor x) { return torch::roll(x, {x.size(1) % 5}, {1}); });
  check("both sides padded", [](Tensor x) {
    return torch::constant_pad_nd(x, {x.size(1) % 2, (8 - x.size(1) % 8) % 8});
  });
  check("padded to a multiple", [](Tensor x) { return F::pad(x, F::PadFuncOptions({0, (16 - x.size(1) % 16) % 16})); });
  check("zeros behind", [](Tensor x) {
    return torch::cat({x, x.new_zeros({2, (32 - x.size(1) % 32) % 32})}, 1);
  });
  check("triangle", [](Tensor x) { return x.tril(x.size(1) % 3); });
  check("repeat", [](Tensor x) { return x.repeat({1, 1 + x.size(1) % 2}); });
  check("unfold", [](Tensor x) { return x.unfold(1, 4, 1 + x.size(1) / 40); }, 4);
  check("centre of the largest multiple", [](Tensor x) {
    const std::int64_t size = x.size(1) / 16 * 16;
    return x.narrow(1, (x.size(1) - size) / 2, size);
  }, 16);
}

TEST_CASE("a table that code keeps outside of members is named when sizes differ, and traced when it is made anew") {
  for (const bool grows : {false, true}) {
    CAPTURE(grows);
    const auto make = [grows] {
      const auto table = std::make_shared<Tensor>();
      return [table, grows](Tensor x) {
        const std::int64_t n = x.size(0);
        if (!table->defined() || (grows ? table->size(0) < n : table->size(0) != n)) *table = torch::arange(n) * 0.5;
        return x + table->slice(0, 0, n).view({-1, 1});
      };
    };
    if (grows) {
      const Fault fault = fault_of<TraceError>([&] { trace(make(), {torch::rand({6, 3})}, {{0, 0, "n"}}); });
      CAPTURE(fault.text);
      CHECK(fault.id == 309);
      CHECK(!fault.says("A branch on a size"));
      continue;
    }
    const auto gm = trace(make(), {torch::rand({6, 3})}, {{0, 0, "n"}});
    for (const std::int64_t n : {2, 6, 7, 40}) {
      const Tensor x = torch::rand({n, 3});
      CHECK(same((*gm)(x), make()(x)));
    }
  }
}

/// Arithmetic on two sizes, as code writes it: each number is at least 1.
struct SizeCode {
  std::vector<std::size_t> choices;
  std::vector<std::int64_t> numbers;

  explicit SizeCode(test::Random& random) {
    for (int i = 0; i < 4; ++i) choices.push_back(random.below(12));
    for (int i = 0; i < 4; ++i) numbers.push_back(2 + static_cast<std::int64_t>(random.below(random.chance(2) ? 8 : 70)));
  }
  std::int64_t one(std::size_t i, std::int64_t n, std::int64_t m) const {
    const std::int64_t k = numbers[i];
    switch (choices[i]) {
      case 0: return n;
      case 1: return n / k + 1;
      case 2: return (n + k - 1) / k;
      case 3: return std::min(n, k);
      case 4: return std::max(n, k);
      case 5: return n % k + 1;
      case 6: return (k - n % k) % k + 1;
      case 7: return (n + k - 1) / k * k;
      case 8: return n + k;
      case 9: return std::min(n, m);
      case 10: return std::max<std::int64_t>(n - k, 1);
      default: return n * 2 / 3 + 1;
    }
  }
  std::int64_t operator()(std::size_t i, std::int64_t n, std::int64_t m) const {
    const std::int64_t first = one(i, n, m);
    return numbers[i] % 2 == 0 ? first : one((i + 1) % 4, first, m);
  }
};

TEST_CASE("drawn code that computes slices, pads, views and counts from sizes: as eager at sizes never traced") {
  torch::NoGradGuard no_grad;
  test::Random random(20);
  int compared = 0, refused = 0, total = 0;
  const int count = test::repeats(220, 220);
  for (int i = 0; i < count; ++i) {
    const SizeCode size(random);
    const std::vector<std::size_t> steps(1, random.below(5));
    const auto code = [&](Tensor x) {
      for (std::size_t s = 0; s < steps.size(); ++s) {
        const std::int64_t n = x.size(0), m = x.size(1), a = size(s, n, m), b = size(s + 2, m, n);
        switch (steps[s]) {
          case 0: x = x.slice(0, std::min(a, n) - 1, n); break;
          case 1: x = torch::constant_pad_nd(x, {b % 5, b / 4, 0, a % 7}); break;
          case 2: x = x.new_zeros({a, m}) + x.sum(0) * static_cast<double>(b); break;
          case 3: x = std::get<0>(x.topk(std::min(b, m), 1)); break;
          default: x = x.repeat({1, 2}).view({-1, 1, 2 * m}).narrow(2, std::min(b, m), m).reshape({n, m}); break;
        }
      }
      return x;
    };
    CAPTURE(i);
    const auto rows = static_cast<std::int64_t>(2 + random.below(60)), columns = static_cast<std::int64_t>(2 + random.below(60));
    const bool two = random.chance(2);
    std::vector<DynamicDim> dims = {{0, 0, "n"}};
    if (two) dims.push_back({0, 1, "m"});
    TraceOptions options;
    options.dynamic = dims;
    try {
      const auto gm = trace(code, {torch::rand({rows, columns})}, options);
      CAPTURE(to_string(gm->graph()));
      for (int j = 0; j < 8; ++j) {
        const auto other = [&] { return static_cast<std::int64_t>(2 + random.below(random.chance(2) ? 20 : 200)); };
        const Tensor x = torch::rand({other(), two ? other() : columns});
        CAPTURE(x.size(0));
        CAPTURE(x.size(1));
        const Tensor expected = code(x);
        CHECK(relative_difference((*gm)(x), expected) <= 1e-6);
        ++total;
      }
      ++compared;
    } catch (const TraceError& error) {
      CAPTURE(error.what());
      CHECK((error.id() == ErrorId::size_not_solved || error.id() == ErrorId::traces_differ));
      ++refused;
    }
  }
  MESSAGE(compared << " modules agree at " << total << " sizes, " << refused << " refused");
  CHECK(compared > 2 * refused);
}

}  // namespace
