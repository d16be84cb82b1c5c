// Which sizes of a graph are known when those of its inputs are, which depend on the elements of tensors, and which do
// not although they come of such. What is compiled of such graphs: compile/pieces.cpp.
#include "fxx/torch/known_sizes.hpp"

#include <torch/torch.h>

#include "fxx/ops/operation.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

struct Picks : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Picks() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(7, 33));
    second = register_module("second", torch::nn::Linear(33, 5));
  }
  /// Kernels, then rows that the elements choose, then more of what would have kernels.
  Tensor forward(Tensor x) {
    const Tensor y = torch::relu(first(x));
    const Tensor chosen = y.index({y.select(1, 0) > 0.1});
    return torch::softmax(second(chosen), 1);
  }
};

std::string names_of(const GraphModule& module, const std::unordered_set<const Node*>& nodes) {
  std::string names;
  for (const Node* node : module.graph().nodes())
    if (nodes.contains(node)) names += (names.empty() ? "" : " ") + std::string(node->name());
  return names;
}

}  // namespace

TEST_CASE("a graph with dynamic sizes is compiled for those of the examples") {
  const torch::NoGradGuard no_grad;
  Picks net;
  const Tensor x = torch::randn({11, 7});
  const auto gm = trace(net,
                        [&](Tensor in) {
                          return net.second(torch::relu(net.first(in)).reshape({in.size(0) * 3, 11}).reshape({-1, 33}));
                        },
                        {x}, {.leaf_modules = false, .dynamic = {{0, 0, "batch"}}});
  for (const std::int64_t batch : {2, 11, 16}) {
    const Tensor in = torch::randn({batch, 7});
    const auto compiled = compile(*gm, {in});
    CHECK(compiled->is_current());
    CHECK(compiled->interpreted().empty());
    CHECK(compiled->called_back().empty());
    CHECK(relative_difference(compiled->forward(in), gm->forward(in)) < 1e-5);
    CHECK(fault_of<RunError>([&] { compiled->forward(torch::randn({batch + 1, 7})); }).id == 701);
  }
}

TEST_CASE("what needs elements is told, and what uses it") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({6, 4});
  const auto gm = traced(
      [](const Tensors& in) { return fxx::detail::box_result(torch::nonzero(in[0]).to(torch::kFloat) + in[0].sum()); },
      {x});
  CHECK(names_of(*gm, note_known_sizes(*gm, {x})) == "nonzero to add");
  // Looking behind it changes nothing here.
  CHECK(names_of(*gm, note_known_sizes(*gm, {x}, {.behind_elements = true})) == "nonzero to add");
  for (const Node* node : gm->graph().nodes())
    if (node->name() == "sum_1") CHECK(node->tensor_meta() != nullptr);
}

TEST_CASE("sizes that are the same whatever the elements are found behind those that depend on them") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({9, 4});
  struct Case {
    std::string_view name;
    std::function<Tensor(const Tensor&, const Tensor&)> f;  // of x and of the rows of it that a mask lets through
    bool known;
    std::vector<std::int64_t> sizes = {};
  };
  const std::vector<Case> cases = {
      {"sum", [](const Tensor&, const Tensor& r) { return r.sum(0); }, true, {4}},
      {"all of it", [](const Tensor&, const Tensor& r) { return r.sum(); }, true, {}},
      {"product", [](const Tensor&, const Tensor& r) { return r.t().matmul(r); }, true, {4, 4}},
      {"largest", [](const Tensor&, const Tensor& r) { return r.amax(0); }, true, {4}},
      {"the largest three", [](const Tensor&, const Tensor& r) { return std::get<0>(r.topk(3, 0)); }, true, {3, 4}},
      {"one row", [](const Tensor&, const Tensor& r) { return r.select(0, 0); }, true, {4}},
      {"at most five", [](const Tensor&, const Tensor& r) { return r.slice(0, 0, 5); }, false},
      {"at most as many as there can be", [](const Tensor&, const Tensor& r) { return r.slice(0, 0, 9); }, false},
      {"filled up",
       [](const Tensor& x, const Tensor& r) {
         return torch::cat({r, x}).slice(0, 0, 9);
       },
       true,
       {9, 4}},
      {"with the rest",
       [](const Tensor& x, const Tensor& r) {
         return torch::cat({r, x.index({x.select(1, 0) <= 0})});
       },
       false},
      {"put back", [](const Tensor& x, const Tensor& r) { return x.index_put({x.select(1, 0) > 0}, r); }, true, {9, 4}},
      {"put back as it comes",
       [](const Tensor& x, const Tensor& r) { return x.masked_scatter(x > 0, r.exp()); },
       true,
       {9, 4}},
      {"added back",
       [](const Tensor& x, const Tensor& r) {
         return torch::zeros_like(x).index_add(0, torch::nonzero(x.select(1, 0) > 0).squeeze(1), r);
       },
       true,
       {9, 4}},
      {"two of unknown sizes", [](const Tensor& x, const Tensor& r) { return r * x.index({x.select(1, 0) > 0}); },
       false},
      {"different values", [](const Tensor& x, const Tensor&) { return std::get<0>(torch::_unique(x)); }, false},
      {"as many as a tensor says",
       [](const Tensor& x, const Tensor&) { return x.repeat_interleave((x.select(1, 0) > 0).to(torch::kLong), 0); },
       false},
      {"how often", [](const Tensor& x, const Tensor&) { return torch::bincount((x > 0).to(torch::kLong).flatten()); },
       false},
      {"classes", [](const Tensor& x, const Tensor&) { return torch::one_hot((x > 0).to(torch::kLong), -1); }, false},
      {"turned, and where the largest is", [](const Tensor&, const Tensor& r) { return r.t().argmax(1); }, true, {4}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    TraceReport report;
    const auto gm = traced(
        [&](const Tensors& in) { return fxx::detail::box_result(c.f(in[0], in[0].index({in[0].select(1, 0) > 0}))); },
        {x}, {.report = &report});
    const Node* result = gm->graph().output_node()->arg(0).node();
    note_known_sizes(*gm, {x});
    CHECK(result->tensor_meta() == nullptr);
    const auto unknown = note_known_sizes(*gm, {x}, {.behind_elements = true});
    CHECK(unknown.contains(result) == !c.known);
    REQUIRE((result->tensor_meta() != nullptr) == c.known);
    if (c.known) CHECK(result->tensor_meta()->shape == c.sizes);
  }
}

TEST_CASE("numbers are taken from sizes that follow from those of the inputs, and from no others") {
  Graph graph;
  Node *x = graph.placeholder("x"), *rows = graph.call_function(ops::nonzero, {x});
  Node* sum = graph.call_function(ops::sum_dim_IntList, {rows, Argument::list({0})});
  Node* sure = graph.call_function(ops::sym_size_int, {x, 0});
  Node* tried = graph.call_function(ops::sym_size_int, {sum, 0});
  Node* never = graph.call_function(ops::sym_size_int, {rows, 0});
  Node* result = graph.call_function(ops::full, {Argument::list({sure, tried}), 1.0});
  graph.output(Argument::tuple({result, graph.call_function(ops::full, {Argument::list({never}), 1.0})}));
  GraphModule module(std::map<std::string, GraphModule::Attribute>(), std::move(graph), "Numbers");
  const auto unknown = note_known_sizes(module, {torch::randn({6, 4})}, {.behind_elements = true});
  CHECK(names_of(module, unknown) == "nonzero sym_size_1 sym_size_2 full_1");
  CHECK(result->arg(0).items()[0] == Argument(6));
  CHECK(result->arg(0).items()[1] == Argument(tried));
  REQUIRE(result->tensor_meta());
  CHECK(result->tensor_meta()->shape == std::vector<std::int64_t>{6, 2});
}

TEST_CASE("elements of an attribute are known unless the graph writes to it") {
  struct Masked : torch::nn::Module {
    Tensor mask = register_buffer("mask", torch::tensor({true, false, true}));
    bool writes = false;
    Tensor forward(Tensor x) {
      const Tensor rows = x.index({mask});
      if (writes) mask.logical_not_();
      return rows;
    }
  } net;
  const Tensor x = torch::randn({3, 2});
  for (const bool writes : {false, true}) {
    net.writes = writes;
    const auto gm = trace(net, {x});
    CHECK(note_known_sizes(*gm, {x}, {.behind_elements = true}).empty() == !writes);
  }
}
