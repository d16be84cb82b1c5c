// Regions in plans: one step each, over memory and over what the program keeps; kernels beside them as without them.
#include "fxx/passes/regions.hpp"

#include "codegen/lowered.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "support.hpp"

using namespace fxx;
using namespace fxx::test;
using plans::CallBack;
using plans::Convolution;
using plans::MatrixProduct;
using plans::Pointwise;
using plans::View;
using Kind = plans::Buffer::Kind;

namespace {

struct Pieces : Net {
  std::unordered_set<const Node*> unknown;

  Node* unknown_call(const Operator& op, std::vector<Argument> arguments) {
    Node* node = calls(op, std::move(arguments));
    unknown.insert(node);
    return node;
  }
  KernelPlan plan_in_pieces(Argument result, LowerOptions options = {}) {
    graph.output(std::move(result));
    options.regions = gather_regions(graph, unknown);
    return lower(graph, owner, options);
  }
};
std::vector<const Node*> nodes_of(const std::vector<CallBack::Value>& values) {
  std::vector<const Node*> nodes;
  for (const CallBack::Value& value : values) nodes.push_back(value.node);
  return nodes;
}
/// "pointwise, interpreted, product".
std::string kernels_of(const KernelPlan& plan) {
  std::string text;
  for (const KernelStep& step : plan.steps)
    text += (text.empty() ? "" : ", ") +
            std::string(std::get_if<CallBack>(&step.kernel)
                            ? std::get<CallBack>(step.kernel).is_region() ? "interpreted" : "call back"
                        : std::get_if<Pointwise>(&step.kernel)     ? "pointwise"
                        : std::get_if<MatrixProduct>(&step.kernel) ? "product"
                        : std::get_if<Convolution>(&step.kernel)   ? "convolution"
                                                                   : "other");
  return text;
}

}  // namespace

TEST_CASE("a region is one step: it reads memory, what others read of it has memory where sizes are known") {
  Pieces net;
  Node *x = net.input("x", {6, 8}), *w = net.weight("w", {5, 8}), *shift = net.weight("shift", {5});
  Node* hidden = net.call(ops::relu, {net.call(ops::linear, {x, w}, {6, 5})}, {6, 5});
  Node* mask = net.call(ops::gt_Scalar, {hidden, 0}, {6, 5}, Dtype::boolean);
  Node* chosen = net.unknown_call(ops::masked_select, {hidden, mask});
  Node* doubled = net.unknown_call(ops::exp, {chosen});
  Node* sum = net.call(ops::sum, {doubled}, {});
  Node* scaled = net.call(ops::mul_Tensor, {hidden, sum}, {6, 5});
  Node* result = net.call(ops::relu, {net.call(ops::add_Tensor, {scaled, shift}, {6, 5})}, {6, 5});
  const KernelPlan plan = net.plan_in_pieces(Argument::tuple({result, doubled}));
  CHECK(kernels_of(plan) == "product, pointwise, interpreted, pointwise");
  const auto& region = kernel_of<CallBack>(plan.steps[2]);
  CHECK(region.nodes == std::vector<const Node*>{chosen, doubled, sum});
  CHECK(nodes_of(region.inputs) == std::vector<const Node*>{hidden, mask});
  CHECK(nodes_of(region.outputs) == std::vector<const Node*>{doubled, sum});
  CHECK(region.outputs[0].kept == 0);
  CHECK(region.outputs[0].view.buffer == -1);
  CHECK(region.outputs[1].kept == -1);
  CHECK(buffer_of(plan, region.outputs[1].view).kind == Kind::arena);
  CHECK(plan.kept == 1);
  REQUIRE(plan.outputs.size() == 2);
  CHECK(plan.outputs[1].kept == 0);
  CHECK(plan.outputs[1].buffer == -1);
  CHECK(plan.outputs[0].kept == -1);
  CHECK(buffer_of(plan, plan.outputs[0].view).kind == Kind::output);
  CHECK(stored(plan, 3) == "relu(add(multiply(relu, sum), shift))");
  CHECK(plan.called_back().empty());
  CHECK(plan.interpreted() ==
        std::vector<std::pair<std::string, std::string>>{{"masked_select", "its sizes depend on elements"},
                                                         {"exp", "its sizes depend on elements"},
                                                         {"sum", "reads 'exp', whose sizes depend on elements"}});
  const std::string table = plan.to_string();
  CHECK(table.find("sum ") != table.npos);
  CHECK(table.find("interpreted") != table.npos);
  CHECK(table.find("masked_select, exp, sum") != table.npos);
  const std::string text = specialised_source(plan, "Net").text;
  CHECK(text.find("// interpreted: masked_select, exp, sum") != text.npos);
  CHECK(text.find("call_back(call, 2)") != text.npos);
}

TEST_CASE("a region does not end the loop that is open: kernels before it take what comes behind") {
  Pieces net;
  Node *x = net.input("x", {6, 8}), *w = net.weight("w", {5, 8});
  Node* product = net.call(ops::linear, {x, w}, {6, 5});
  Node* chosen = net.unknown_call(ops::nonzero, {x});
  Node* sum = net.call(ops::sum, {chosen}, {});
  Node* result = net.call(ops::relu, {net.call(ops::add_Tensor, {product, sum}, {6, 5})}, {6, 5});
  const KernelPlan plan = net.plan_in_pieces(result);
  CHECK(kernels_of(plan) == "interpreted, product");
  CHECK(stored(plan, 1) == "relu(add(v, sum))");
  CHECK(buffer_of(plan, plan.steps[1].stores[0].to).kind == Kind::output);
}

TEST_CASE("what a region gives to another past kernels is kept until the last has read it") {
  Pieces net;
  Node *x = net.input("x", {6}), *y = net.input("y", {6});
  Node* first = net.unknown_call(ops::nonzero, {x});
  Node* count = net.call(ops::sum, {first}, {});
  Node* between = net.call(ops::mul_Tensor, {y, count}, {6});
  Node* second = net.unknown_call(ops::masked_select, {between, between});
  Node* both = net.unknown_call(ops::cat, {listed({first, second})});
  Node* third = net.call(ops::relu, {net.call(ops::sum, {both}, {})}, {});
  Node* last = net.unknown_call(ops::add_Tensor, {first, third});
  const KernelPlan plan = net.plan_in_pieces(Argument::tuple({last, last, third}));
  CHECK(kernels_of(plan) == "interpreted, pointwise, interpreted, pointwise, interpreted");
  const auto &a = kernel_of<CallBack>(plan.steps[0]), &b = kernel_of<CallBack>(plan.steps[2]),
             &c = kernel_of<CallBack>(plan.steps[4]);
  CHECK(nodes_of(a.outputs) == std::vector<const Node*>{first, count});
  CHECK(nodes_of(b.inputs) == std::vector<const Node*>{between, first});
  CHECK(b.inputs[1].kept == a.outputs[0].kept);
  CHECK_FALSE(b.inputs[1].last);
  CHECK(nodes_of(c.inputs) == std::vector<const Node*>{first, third});
  CHECK(c.inputs[0].kept == a.outputs[0].kept);
  CHECK(c.inputs[0].last);
  CHECK(plan.kept == 2);
  CHECK(plan.outputs[0].kept == c.outputs[0].kept);
  CHECK(plan.outputs[1].kept == c.outputs[0].kept);
  CHECK(plan.outputs[2].kept == -1);
}

TEST_CASE("what regions give goes to the caller's memory, and to several at once") {
  Pieces net;
  Node* x = net.input("x", {6, 4});
  Node* chosen = net.unknown_call(ops::nonzero, {x});
  Node* best = net.calls(ops::topk, {chosen, 2});
  Node *values = net.item(best, 0, {3, 2}), *places = net.item(best, 1, {3, 2}, Dtype::int64);
  const KernelPlan plan =
      net.plan_in_pieces(Argument::tuple({values, places, net.call(ops::relu, {values}, {3, 2}), values}));
  CHECK(kernels_of(plan) == "interpreted, pointwise, pointwise");
  const auto& region = kernel_of<CallBack>(plan.steps[0]);
  CHECK(nodes_of(region.outputs) == std::vector<const Node*>{values, places});
  for (const CallBack::Value& output : region.outputs) CHECK(buffer_of(plan, output.view).kind == Kind::output);
  CHECK(plan.kept == 0);
}

TEST_CASE("layouts are chosen for kernels, whatever regions would do with the value") {
  Pieces net;
  Node *x = net.input("x", {1, 8, 6, 6}), *image = net.convolution(x, 8);
  Node* chosen = net.unknown_call(ops::nonzero, {x});
  // Convolutions that are interpreted: their weights have no known sizes, or neither have they.
  Node* unknown = net.unknown_call(ops::conv2d, {image, chosen, Argument(), 1, 3});
  Node* known = net.call(ops::conv2d, {image, chosen, Argument(), 1, 3}, {1, 8, 6, 6});
  Node* whole = net.call(ops::cat, {listed({image, known}), 1}, {1, 16, 6, 6});
  Node* joined = net.unknown_call(ops::cat, {listed({image, chosen}), 1});
  const KernelPlan plan = net.plan_in_pieces(Argument::tuple({unknown, whole, joined, net.convolution(image, 8, 1)}),
                                             {.quantised = {"conv2d_1", "conv2d_2"}});
  for (const plans::Buffer& buffer : plan.buffers) CHECK(buffer.border.left <= 1);
  const auto step = std::find_if(plan.steps.begin(), plan.steps.end(),
                                 [](const KernelStep& s) { return std::holds_alternative<CallBack>(s.kernel); });
  REQUIRE(step != plan.steps.end());
  CHECK(std::get<CallBack>(step->kernel).nodes == std::vector<const Node*>{chosen, unknown, known, joined});
}

TEST_CASE("attributes that a region writes to, and who reads them behind it") {
  Pieces net;
  Node *x = net.input("x", {6}), *count = net.weight("count", {6});
  Node* before = net.call(ops::add_Tensor, {x, count}, {6});
  Node* chosen = net.unknown_call(ops::nonzero, {x});
  Node* written = net.call(ops::masked_scatter_, {count, x, chosen}, {6});
  Node* after = net.call(ops::mul_Tensor, {x, count}, {6});
  const KernelPlan plan = net.plan_in_pieces(Argument::tuple({before, after, net.call(ops::exp, {written}, {6})}));
  CHECK(kernels_of(plan) == "pointwise, interpreted, pointwise, pointwise");
  const auto& region = kernel_of<CallBack>(plan.steps[1]);
  CHECK(region.nodes == std::vector<const Node*>{chosen, written});
  REQUIRE(region.renewed.size() == 1);
  CHECK(buffer_of(plan, region.renewed[0].first).kind == Kind::constant);
  const int copy = region.renewed[0].second.buffer;
  CHECK(plan.buffers[static_cast<std::size_t>(copy)].kind == Kind::arena);
  const auto reads = [&](std::size_t step) {
    bool found = false;
    for_each_load(*plan.steps[step].stores[0].value, [&](const View& view) { found = found || view.buffer == copy; });
    return found;
  };
  CHECK_FALSE(reads(0));
  CHECK(reads(2));
  CHECK(reads(3));
  CHECK(region.outputs.empty());
}
