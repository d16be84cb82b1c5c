// Containers and structs as inputs and results of generated code.
#include "fxx/codegen/inputs.hpp"

#include <doctest/doctest.h>

#include "fxx/codegen/module_source.hpp"
#include "fxx/codegen/readable.hpp"
#include "fxx/trace/concrete.hpp"
#include "fxx/trace/symbolic.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;

namespace {

using Named = std::map<std::string, PlaceholderOf<Proxy>>;

Graph nested() {
  return symbolic_graph(
      [](const auto& xs, const auto& named, const auto& pair, auto x) {
        const auto joined = cat(xs);
        const auto scaled = named.at("a \"b\"") * std::get<0>(pair) * std::get<1>(pair).at(3);
        return joined + scaled + x;
      },
      concrete_args(input("xs", std::vector{PH, PH}), input("named", Named{{"a \"b\"", PH}, {"unused", PH}}),
                    input("pair", std::tuple(PH_NUMBER, std::map<int, PlaceholderOf<Proxy>>{{3, PH}})), input("x")));
}

}  // namespace

TEST_CASE("containers are taken apart into the values that the graph uses") {
  Graph g = nested();
  for (Node* node : g.nodes())
    if (node->target() == "pair_1") node->set_type("double");
  const test::ListedOwner owner;
  CHECK(forward_code(g, owner, {.release_values = false}) ==
        "torch::Tensor forward(std::vector<torch::Tensor> xs, std::map<std::string, torch::Tensor> named, "
        "std::tuple<double, std::map<int64_t, torch::Tensor>> pair, torch::Tensor x) {\n"
        "  auto xs_1 = std::move(xs.at(0));\n"
        "  auto xs_2 = std::move(xs.at(1));\n"
        "  auto named_1 = std::move(named.at(\"a \\\"b\\\"\"));\n"
        "  auto pair_1 = std::move(std::get<0>(pair));\n"
        "  auto pair_2 = std::move(std::get<1>(pair).at(3));\n"
        "  auto cat = torch::cat({xs_1, xs_2});\n"
        "  auto mul = named_1 * pair_1;\n"
        "  auto mul_1 = mul * pair_2;\n"
        "  auto add = cat + mul_1;\n"
        "  auto add_1 = add + x;\n"
        "  return add_1;\n}\n");
  CHECK(forward_arguments(g, "in") ==
        "std::vector<torch::Tensor>{in[0], in[1]}, std::map<std::string, torch::Tensor>{{\"a \\\"b\\\"\", in[2]}, "
        "{\"unused\", in[3]}}, std::tuple<double, std::map<int64_t, torch::Tensor>>{in[4], std::map<int64_t, "
        "torch::Tensor>{{3, in[5]}}}, in[6]");
  const ModuleSource source = module_source(g, owner, "Net", "net.h");
  CHECK(source.header.find("forward(std::vector<torch::Tensor> xs, ") != std::string::npos);
  CHECK(source.source.find("auto xs_1 = std::move(xs.at(0));") != std::string::npos);
}

TEST_CASE("items of several types make a tuple, in a list and in a struct") {
  Graph g = symbolic_graph([](const auto& pair, auto x) { return pair.at("x") * pair.at("y") + x; },
                           concrete_args(input("named", Named{{"x", PH}, {"y", PH}}), input("x")));
  g.nodes().front()->set_type("double");
  g.output_node()->update_arg(0, Argument::dict({{"sum", g.output_node()->arg(0)}, {"count", 3}, {"name", "a"}}));
  const std::string code = forward_code(g, test::ListedOwner(), {.release_values = false});
  CHECK(
      code.starts_with("std::tuple<torch::Tensor, int64_t, std::string> forward(std::tuple<double, torch::Tensor> "
                       "named, torch::Tensor x) {\n  auto named_1 = std::move(std::get<0>(named));\n"));
  CHECK(code.find("return std::make_tuple(add, 3, \"a\");") != std::string::npos);
}

TEST_CASE("an input that a node has the name of is called something else, and one that is gone is left out") {
  Graph g = symbolic_graph([](const auto& add, auto x) { return add[0] + x; },
                           concrete_args(input("add", std::vector{PH, PH}), input("x")));
  CHECK(forward_code(g, test::ListedOwner(), {.release_values = false}) ==
        "torch::Tensor forward(std::vector<torch::Tensor> add_, torch::Tensor x) {\n  auto add_1 = "
        "std::move(add_.at(0));\n  auto add = add_1 + x;\n  return add;\n}\n");
  Node* x = g.find_nodes(Opcode::placeholder)[2];
  x->replace_all_uses_with(g.nodes().front());
  g.erase_node(x);
  CHECK(forward_code(g, test::ListedOwner()).starts_with("torch::Tensor forward(std::vector<torch::Tensor> add_) {"));
  const InsertPoint point = g.inserting_after(g.nodes().front());
  g.placeholder("more", {}, "double");
  CHECK(forward_code(g, test::ListedOwner())
            .starts_with("torch::Tensor forward(std::vector<torch::Tensor> add_, double more) {"));
}

TEST_CASE("a call of forward gives what its parameters are") {
  // One input is gone, one stands where it was, and an item of a list is gone, too.
  Graph g = symbolic_graph([](const auto& xs, auto x, auto y) { return xs[1] + y + x; },
                           concrete_args(input("xs", std::vector{PH, PH}), input("x"), input("y")));
  Node* x = g.find_nodes(Opcode::placeholder)[2];
  const InsertPoint point = g.inserting_before(x);
  x->replace_all_uses_with(g.placeholder("more"));
  g.erase_node(x);
  g.erase_node(g.nodes().front());
  const std::string parameters = "(std::vector<torch::Tensor> xs, torch::Tensor y, torch::Tensor more)";
  CHECK(forward_code(g, test::ListedOwner()).find(parameters) != std::string::npos);
  CHECK(forward_arguments(g, "in") == "std::vector<torch::Tensor>{torch::Tensor{}, in[0]}, in[2], in[1]");
}

TEST_CASE("the type of an item that is no C++ type is refused, with the node") {
  Graph g = symbolic_graph([](const auto& xs) { return xs[0] + xs[1]; },
                           concrete_args(input("xs", std::vector{PH, PH})));
  g.nodes().front()->set_type("int> y); void evil(std::vector<int");
  const auto fault = test::fault_of<CodegenError>([&] { (void)forward_code(g, test::ListedOwner()); });
  CHECK(fault.id == 501);
  CHECK(fault.says("of input 'xs_1' is no C++ type"));
  CHECK(test::fault_of<CodegenError>([&] { (void)forward_arguments(g, "in"); }).id == 501);
}
