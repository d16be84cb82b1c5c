// Sets of nodes as submodules of a GraphModule.
#include "fxx/torch/fuse_by_partitions.hpp"

#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {
struct NetImpl : torch::nn::Module {
  nn::Linear first{4, 4}, last{4, 2};
  torch::Tensor scale = register_parameter("scale", torch::rand({4}));
  NetImpl() {
    register_module("first", first);
    register_module("last", last);
  }
  template <class T>
  T forward(T x) {
    const T y = relu(first(x)) * scale;
    return last(y + x).tanh();
  }
};
FXX_MODULE(Net);

std::vector<Node*> computing(const GraphModule& module) {
  std::vector<Node*> nodes;
  for (Node* node : module.graph().nodes())
    if (node->opcode() != Opcode::placeholder && node->opcode() != Opcode::output) nodes.push_back(node);
  return nodes;
}
}  // namespace

TEST_CASE("partitions become submodules, in any order of nodes, and results stay") {
  const at::Tensor x = torch::rand({3, 4});
  Net net;
  const at::Tensor expected = net->forward(x);
  const auto all = computing(*symbolic_trace(net)).size();
  for (std::size_t from = 0; from < all; ++from)
    for (std::size_t to = from + 1; to <= all; ++to) {
      CAPTURE(from);
      CAPTURE(to);
      const auto gm = symbolic_trace(net);
      const std::vector<Node*> nodes = computing(*gm);
      std::vector<Node*> part(nodes.begin() + static_cast<std::ptrdiff_t>(from),
                              nodes.begin() + static_cast<std::ptrdiff_t>(to));
      std::reverse(part.begin(), part.end());
      const auto made = fuse_by_partitions(*gm, {part});
      REQUIRE(made.size() == 1);
      gm->graph().lint();
      made[0]->graph().lint();
      CHECK(gm->submodule("fused_0") == made[0]);
      CHECK(test::same(gm->forward(x), expected));
    }
}

TEST_CASE("several partitions, with parameters that move along and stay the same tensors") {
  const at::Tensor x = torch::rand({3, 4});
  Net net;
  const auto gm = symbolic_trace(net);
  const std::vector<Node*> nodes = computing(*gm);
  const std::size_t half = nodes.size() / 2;
  const std::vector<Node*> first(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(half)),
      second(nodes.begin() + static_cast<std::ptrdiff_t>(half), nodes.end());
  const auto made = fuse_by_partitions(*gm, {second, first}, "part", true);
  CHECK(made.size() == 2);
  CHECK(test::called_modules(gm->graph()) == std::set<std::string>{"part0", "part1"});
  CHECK(test::same(gm->forward(x), net->forward(x)));
  CHECK(gm->parameters().size() == 5);
  {
    const torch::NoGradGuard no_grad;
    net->scale.fill_(0.5);
    net->last->weight.fill_(0.25);
  }
  CHECK(test::same(gm->forward(x), net->forward(x)));
}

TEST_CASE("what cannot be fused leaves the module as it was") {
  Net net;
  const auto gm = symbolic_trace(net);
  const std::string before = to_string(gm->graph());
  const std::vector<Node*> nodes = computing(*gm);
  CHECK(fault_of<GraphError>([&] { fuse_by_partitions(*gm, {nodes, {nodes[0]}}); }).id == 404);
  CHECK(fault_of<GraphError>([&] { fuse_by_partitions(*gm, {{nodes.front(), nodes.back()}}); }).id == 404);
  CHECK(fault_of<GraphError>([&] { fuse_by_partitions(*gm, {{}}); }).id == 404);
  CHECK(fuse_by_partitions(*gm, {}).empty());
  CHECK(to_string(gm->graph()) == before);
  CHECK_FALSE(gm->submodule("fused_0"));
}
