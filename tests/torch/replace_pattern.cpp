// Patterns made at run time, in real modules: results stay right, attributes and submodules follow.
#include "fxx/torch/replace_pattern.hpp"

#include "fxx/passes/leaf_modules.hpp"
#include "fxx/passes/source_partitions.hpp"
#include "support.hpp"

using namespace fxx;
using test::difference;
using test::fault_of;

namespace {

struct BlockImpl : torch::nn::Module {
  nn::Linear fc1{4, 4}, fc2{4, 4};
  BlockImpl() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  template <class T>
  T forward(T x) {
    const T y = fc1(x);
    return fc2(y * sigmoid(y));
  }
};
FXX_MODULE(Block);

struct ShiftImpl : torch::nn::Module {
  torch::Tensor a, b;
  ShiftImpl() : a(register_buffer("a", torch::tensor({1.0f}))), b(register_buffer("b", torch::tensor({2.0f}))) {}
  template <class T>
  T forward(T x) {
    return x + a - b;
  }
};
FXX_MODULE(Shift);
struct AddsImpl : torch::nn::Module {
  torch::Tensor a = register_buffer("a", torch::tensor({5.0f}));
  template <class T>
  T forward(T x) {
    return x + a;
  }
};
FXX_MODULE(Adds);
struct SubtractsImpl : torch::nn::Module {
  torch::Tensor c = register_buffer("c", torch::tensor({7.0f}));
  template <class T>
  T forward(T x) {
    return x - c;
  }
};
FXX_MODULE(Subtracts);

struct LinearOnlyImpl : torch::nn::Module {
  nn::Linear fc{4, 4};
  LinearOnlyImpl() { register_module("fc", fc); }
  template <class T>
  T forward(T x) {
    return fc(x);
  }
};
FXX_MODULE(LinearOnly);
struct HeadImpl : torch::nn::Module {
  nn::Linear fc1{4, 4};
  torch::Tensor scale = register_parameter("scale", torch::full({4}, 2.0));
  HeadImpl() { register_module("fc1", fc1); }
  template <class T>
  T forward(T x) {
    return fc1(x) * scale;
  }
};
FXX_MODULE(Head);

/// Calls a module and reads its weight, one before the other.
struct ReadsImpl : torch::nn::Module {
  bool calls_first;
  nn::Linear lin{4, 4};
  explicit ReadsImpl(bool calls_first) : calls_first(calls_first) { register_module("lin", lin); }
  template <class T>
  T forward(T x) {
    if (!calls_first) return lin(matmul(x, lin->weight));
    const T y = lin(x);
    return matmul(y, lin->weight);
  }
};
FXX_MODULE(Reads);

struct SigmoidsImpl : torch::nn::Module {
  nn::Sigmoid s1, s2, s3;
  SigmoidsImpl() {
    register_module("s1", s1);
    register_module("s2", s2);
    register_module("s3", s3);
  }
  template <class T>
  T forward(T x) {
    return s3(s2(s1(x)));
  }
};
FXX_MODULE(Sigmoids);

const at::Tensor sample = torch::linspace(-2, 2, 12).reshape({3, 4});
const auto silu_pattern = [](auto x) { return x * sigmoid(x); };
const auto silu_call = [](auto x) { return silu(x); };

/// The text of the graph and the names that the module has.
std::string state_of(GraphModule& module) {
  std::string text = to_string(module.graph());
  for (const auto& item : module.named_parameters()) text += item.key() + "\n";
  for (const auto& item : module.named_buffers()) text += item.key() + "\n";
  for (const auto& item : module.named_modules()) text += item.key() + "\n";
  return text;
}

/// last(act(first(first(x)))), as it is and after its modules were opened; each tracer has its own words for the two.
void check_partitions(GraphModule& gm, const std::string& linear_name, const std::string& relu_name) {
  for (const bool opened : {false, true}) {
    if (opened) expand_modules(gm.graph(), gm.owner());
    CAPTURE(opened);
    const auto found = get_source_partitions(gm.graph(), {linear_name, relu_name});
    REQUIRE(found.size() == 2);
    const auto &linear = found.at(linear_name), &relu = found.at(relu_name);
    REQUIRE(linear.size() == 3);
    REQUIRE(relu.size() == 1);
    CHECK(linear[1].name == "first@1");
    CHECK(linear[0].params.size() == (opened ? 2 : 0));
    CHECK_FALSE(check_subgraphs_connected(linear[0], relu[0]));
    CHECK(check_subgraphs_connected(linear[1], relu[0]));
    CHECK_FALSE(check_subgraphs_connected(linear[2], relu[0]));
  }
}
}  // namespace

TEST_CASE("a pattern is replaced, leaf modules beside it stay calls, and results are the same") {
  Block net;
  const auto gm = symbolic_trace(net);
  const at::Tensor expected = net->forward(sample);
  const auto done = replace_pattern(*gm, silu_pattern, silu_call);
  CHECK(done.size() == 1);
  gm->graph().lint();
  CHECK(test::called_modules(gm->graph()) == std::set<std::string>{"fc1", "fc2"});
  CHECK(test::count_of(gm->graph(), ops::silu) == 1);
  CHECK(test::count_of(gm->graph(), ops::sigmoid) == 0);
  CHECK(difference(gm->forward(sample), expected) < 1e-6);
  CHECK(gm->parameters().size() == 4);
}

TEST_CASE("a pattern replaced by itself changes neither results nor names") {
  Block net;
  const auto gm = symbolic_trace(net);
  const std::string before = state_of(*gm);
  CHECK(replace_pattern(*gm, silu_pattern, silu_pattern).size() == 1);
  CHECK(state_of(*gm) == before);
  CHECK(test::same(gm->forward(sample), net->forward(sample)));
}

TEST_CASE("modules, traced modules, callables and graphs are patterns and replacements") {
  const auto with = [](auto&& pattern, auto&& replacement) {
    Shift net;
    const auto gm = symbolic_trace(net);
    CHECK(replace_pattern(*gm, pattern, replacement).size() == 1);
    gm->graph().lint();
    return gm->forward(sample);
  };
  const at::Tensor expected = sample - 7 - 2;
  Adds adds;
  Subtracts subtracts;
  CHECK(test::same(with(adds, subtracts), expected));
  CHECK(test::same(with(symbolic_trace(adds), symbolic_trace(subtracts)), expected));
  const auto traced = symbolic_trace(subtracts);
  CHECK(test::same(with(*symbolic_trace(adds), *traced), expected));
  CHECK(test::same(with(adds, [](auto x) { return x - 7; }), expected));
  CHECK(test::same(with(symbolic_trace(adds)->graph(), symbolic_graph([](auto x) { return x - 7; })), expected));
}

TEST_CASE("a pattern's own tensors stand for the module's, which have other shapes") {
  struct Scaled : torch::nn::Module {
    torch::Tensor weight;
    explicit Scaled(std::vector<std::int64_t> shape)
        : weight(register_parameter("weight", torch::full(shape, 3.0))) {}
    torch::Tensor forward(torch::Tensor x) { return torch::relu(x * weight); }
  };
  const auto net = std::make_shared<Scaled>(std::vector<std::int64_t>{4});
  const at::Tensor input = torch::tensor({{-1.0f, 0.5f, 1.0f, 2.0f}});
  const auto gm = trace(*net, {input});
  const auto pattern = trace(*std::make_shared<Scaled>(std::vector<std::int64_t>{2, 3}), {torch::ones({2, 3})});
  const auto done = replace_pattern(*gm, *pattern, [](auto x) { return x.neg(); });
  CHECK(done.size() == 1);
  CHECK(test::same((*gm)(input), -input));
}

TEST_CASE("what the replacement has becomes the module's, what nobody uses any more goes") {
  Shift net;
  const auto gm = symbolic_trace(net);
  Adds adds;
  Head head;
  CHECK(replace_pattern(*gm, adds, head).size() == 1);
  CHECK(test::same(gm->attribute("scale"), torch::full({4}, 2.0)));
  CHECK(gm->submodule("fc1"));
  CHECK(gm->named_parameters().contains("scale"));
  CHECK(gm->named_parameters().contains("fc1.weight"));
  CHECK(test::called_modules(gm->graph()) == std::set<std::string>{"fc1"});
  CHECK(test::same(gm->forward(sample), head->forward(sample) - 2));
  // Shared, not copied.
  {
    const torch::NoGradGuard no_grad;
    head->scale.fill_(3);
  }
  CHECK(test::same(gm->forward(sample), head->forward(sample) - 2));

  Block block;
  const auto other = symbolic_trace(block);
  Graph pattern;
  pattern.output(pattern.call_module("fc2", {pattern.placeholder("x")}));
  CHECK(replace_pattern(*other, pattern, [](auto x) { return x.relu(); }).size() == 2);
  CHECK(other->parameters().empty());
  CHECK_FALSE(other->submodule("fc1"));
}

TEST_CASE("a replacement reads a module's weight and calls the module: both are the module's, whichever comes first") {
  for (const bool calls_first : {false, true}) {
    CAPTURE(calls_first);
    const auto gm = symbolic_trace([](auto x) { return x.sigmoid(); });
    Reads reads(calls_first);
    CHECK(replace_pattern(*gm, [](auto x) { return x.sigmoid(); }, reads).size() == 1);
    CHECK(gm->parameters().size() == 2);
    CHECK(test::called_modules(gm->graph()) == std::set<std::string>{"lin"});
    CHECK(gm->graph().find_nodes(Opcode::get_attr, "lin.weight").size() == 1);
    CHECK(test::same(gm->forward(sample), reads->forward(sample)));
  }
}

TEST_CASE("a name that the graph has already is another one in the replacement, which gets its own") {
  Shift net;
  const auto gm = symbolic_trace(net);
  Adds adds, other;  // whose buffer is called a, as the graph's
  other->a.fill_(10);
  CHECK(replace_pattern(*gm, adds, other).size() == 1);
  CHECK(test::same(gm->forward(sample), sample + 10 - 2));

  Block block;
  const auto traced = symbolic_trace(block);
  Head head;
  CHECK(replace_pattern(*traced, silu_pattern, head).size() == 1);  // both have an fc1
  traced->graph().lint();
  const at::Tensor hidden = block->fc1->forward(sample);
  CHECK(test::same(traced->forward(sample), block->fc2->forward(head->forward(hidden))));
  CHECK(test::called_modules(traced->graph()).size() == 3);
}

TEST_CASE("the replacement may use what the module has: the same tensors keep their names") {
  Block net;
  const auto gm = symbolic_trace(net);
  const auto count = gm->named_parameters().size();
  const torch::Tensor weight = net->fc1->weight;
  CHECK(replace_pattern(*gm, silu_pattern, [&](auto x) { return matmul(x, weight); }).size() == 1);
  gm->graph().lint();
  CHECK(gm->named_parameters().size() == count);
  CHECK(gm->graph().find_nodes(Opcode::get_attr, "fc1.weight").size() == 1);
  CHECK(difference(gm->forward(sample), net->fc2->forward(matmul(net->fc1->forward(sample), weight))) < 1e-6);
}

TEST_CASE("a bare graph names what the module has, and is refused where it does not") {
  Block net;
  const auto gm = symbolic_trace(net);
  Graph good, bad;
  good.output(good.call_module("fc1", {good.placeholder("x")}));
  bad.output(bad.call_function(ops::add_Tensor, {bad.placeholder("x"), bad.get_attr("nowhere")}));
  const std::string before = state_of(*gm);
  const auto fault = fault_of<GraphError>([&] { replace_pattern(*gm, silu_pattern, bad); });
  CHECK(fault.id == 108);
  CHECK(fault.says("'nowhere'"));
  CHECK(state_of(*gm) == before);
  CHECK(test::same(gm->forward(sample), net->forward(sample)));
  CHECK(replace_pattern(*gm, silu_pattern, good).size() == 1);
  CHECK(test::same(gm->forward(sample), net->fc2->forward(net->fc1->forward(net->fc1->forward(sample)))));
}

TEST_CASE("calls of leaf modules are found as what they do, whatever they are called") {
  Block net;
  const auto gm = symbolic_trace(net);
  LinearOnly pattern;  // fc, of 4 to 4
  const auto done = replace_pattern(*gm, pattern, [](auto x) { return x.tanh(); });
  CHECK(done.size() == 2);
  const at::Tensor y = sample.tanh();
  CHECK(difference(gm->forward(sample), (y * y.sigmoid()).tanh()) < 1e-6);
  CHECK(gm->parameters().empty());
  // Attributes match whatever their sizes: a Linear of other sizes is one too.
  LinearOnly wide;
  wide->fc = nn::Linear(8, 2);
  wide->replace_module("fc", wide->fc);
  CHECK(replace_pattern(*symbolic_trace(net), wide, [](auto x) { return x.tanh(); }).size() == 2);
}

TEST_CASE("modules in a chain are all replaced") {
  Sigmoids net;
  const auto gm = symbolic_trace(net);
  CHECK(replace_pattern(
            *gm, [](auto x) { return x.sigmoid(); }, [](auto x) { return x.exp(); })
            .size() == 3);
  gm->graph().lint();
  CHECK(difference(gm->forward(sample), sample.exp().exp().exp()) == 0);
  CHECK(test::called_modules(gm->graph()).empty());
  CHECK_FALSE(gm->submodule("s1"));
}

TEST_CASE("filters see the graph opened, callbacks may give graphs and modules") {
  Block net;
  const auto gm = symbolic_trace(net);
  LinearOnly pattern, replacement;
  const auto second = [](const InternalMatch& match, const Graph& graph, const Graph&) {
    CHECK(graph.find_nodes(Opcode::call_module).empty());
    return match.nodes_map["x"].node()->opcode() != Opcode::placeholder;
  };
  const auto made = [&](const InternalMatch&, const Graph&, const Graph&) { return symbolic_trace(replacement); };
  CHECK(replace_pattern_with_filters(*gm, pattern, made, {second}).size() == 1);
  const at::Tensor y = net->fc1->forward(sample);
  CHECK(difference(gm->forward(sample), replacement->fc->forward(y * y.sigmoid())) < 1e-6);
  const auto graphs = [](const InternalMatch&, const Graph&, const Graph&) {
    return symbolic_graph([](auto x) { return x.relu(); });
  };
  CHECK(replace_pattern_with_filters(*gm, pattern, graphs).size() == 2);
  gm->graph().lint();
  CHECK(difference(gm->forward(sample), [&] {
          const at::Tensor r = sample.relu();
          return (r * r.sigmoid()).relu();
        }()) < 1e-6);
}

TEST_CASE("a replacement that does not fit leaves the module as it was") {
  Block net;
  const auto gm = symbolic_trace(net);
  const std::string before = state_of(*gm);
  CHECK(fault_of<RuleError>([&] { replace_pattern(*gm, silu_pattern, [](auto x, auto y) { return x + y; }); }).id ==
        402);
  CHECK(fault_of<RuleError>([&] {
          replace_pattern(
              *gm, [](auto x) { return x; }, silu_call);
        }).id == 403);
  CHECK(state_of(*gm) == before);
  Head head;
  CHECK(replace_pattern(
            *gm, [](auto x) { return x.tanh(); }, head)
            .empty());
  CHECK(state_of(*gm) == before);
}

TEST_CASE("a graph that writes in place keeps its results") {
  const auto pattern = [](auto x) { return -(-x); };
  const auto itself = [](auto x) { return x; };
  const auto check = [&](auto function, std::size_t times) {
    const auto gm = symbolic_trace(function);
    const at::Tensor expected = function(sample.clone());
    CHECK(replace_pattern(*gm, pattern, itself).size() == times);
    at::Tensor given = sample.clone(), other = sample.clone();
    CHECK(difference(gm->forward(given), expected) < 1e-6);
    function(other);
    CHECK(test::same(given, other));
  };
  check([](auto x) { return (-(-x)).add_(1); }, 0);
  check([](auto x) { return (-(-x)).add(1).mul_(2); }, 1);
  check(
      [](auto x) {
        auto y = -(-x);
        x.mul_(3);
        return y + x;
      },
      0);
  check(
      [](auto x) {
        x.mul_(3);
        return -(-x);
      },
      1);
}

TEST_CASE("source partitions of linear layers, one of which is called twice, after they were opened") {
  struct NetImpl : torch::nn::Module {
    nn::Linear first{4, 4}, last{4, 4};
    nn::ReLU act;
    NetImpl() {
      register_module("first", first);
      register_module("last", last);
      register_module("act", act);
    }
    Proxy forward(const Proxy& x) { return last(act(first(first(x)))); }
  };
  NetImpl net;
  check_partitions(*symbolic_trace(net), "torch::nn::Linear", "torch::nn::ReLU");
}

TEST_CASE("source partitions of what was traced at the dispatcher") {
  struct NetImpl : torch::nn::Module {
    torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 4));
    torch::nn::Linear last = register_module("last", torch::nn::Linear(4, 4));
    torch::nn::ReLU act = register_module("act", torch::nn::ReLU());
    at::Tensor forward(at::Tensor x) { return last(act(first(first(x)))); }
  };
  NetImpl net;
  check_partitions(*trace(net, {torch::rand({2, 4})}), "Linear", "relu");
}

TEST_CASE("source partitions of functions that were traced at the dispatcher") {
  struct NetImpl : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::rand({3, 3, 2, 2}));
    at::Tensor forward(at::Tensor x) { return torch::conv2d(torch::relu(torch::conv2d(x, weight)), weight); }
  };
  NetImpl net;
  const auto gm = trace(net, {torch::rand({1, 3, 5, 5})});
  const auto found = get_source_partitions(gm->graph(), {"conv2d"});
  REQUIRE(found.size() == 1);
  const auto& convolutions = found.at("conv2d");
  REQUIRE(convolutions.size() == 2);
  for (const SourcePartition& partition : convolutions) {
    CHECK(partition.nodes.size() == 1);
    CHECK(partition.input_nodes.size() == 1);
    CHECK(partition.output_nodes.size() == 1);
    CHECK(partition.params.size() == 1);
  }
  CHECK_FALSE(check_subgraphs_connected(convolutions[0], convolutions[1]));
}
