// The quickly built form: one C function, narrow headers, call-backs for the rest.
#include "fxx/codegen/built.hpp"

#include <doctest/doctest.h>

#include <set>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;

namespace {

class Installed final : public HeaderFinder {
 public:
  explicit Installed(std::set<std::string> missing = {}) : missing_(std::move(missing)) {}
  bool has(const std::string& name) const override { return !missing_.contains(name) && !name.ends_with("__ops.h"); }

 private:
  std::set<std::string> missing_;
};
const test::ListedOwner nobody;

/// The statements of the function.
std::string body_of(const BuiltSource& source) {
  const std::size_t from = source.text.find("  try {\n") + 8, to = source.text.find("    return 0;\n");
  return source.text.substr(from, to - from);
}
template <class F>
BuiltSource built(F f, const Installed& headers = Installed()) {
  std::vector<std::string> names = {"x", "y"};
  names.resize(static_cast<std::size_t>(detail::proxy_arity<F>()));
  static Graph graph;
  graph = symbolic_graph(f, names);
  return built_source(graph, nobody, headers);
}

}  // namespace

TEST_CASE("operators are called by their narrow headers; each statement says which node runs") {
  const BuiltSource source = built([](auto x, auto y) { return relu(x.add(y)) * 2.5; });
  CHECK(source.headers == std::vector<std::string>{"ATen/ops/add_ops.h", "ATen/ops/mul_ops.h", "ATen/ops/relu_ops.h"});
  CHECK(body_of(source) ==
        "    at::Tensor x = Input(0);\n    at::Tensor y = Input(1);\n"
        "    Call->node = 2;  auto add = at::_ops::add_Tensor::call(x, y, 1); x.reset(); y.reset();\n"
        "    Call->node = 3;  auto relu = at::_ops::relu::call(add); add.reset();\n"
        "    Call->node = 4;  auto mul = at::_ops::mul_Scalar::call(relu, 2.5); relu.reset();\n"
        "    Give({mul}); \n");
  CHECK(source.text.starts_with("// Forward of Net, made by fxx"));
  CHECK(source.nodes.size() == 6);
  CHECK(source.result.kind == ResultShape::Kind::tensor);
}

TEST_CASE("attributes are handed in, each once") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* first = g.call_function(ops::linear, {x, g.get_attr("fc.weight"), g.get_attr("fc.bias")});
  g.output(g.call_function(ops::linear, {first, g.get_attr("fc.weight")}));
  const BuiltSource source = built_source(g, nobody, Installed());
  CHECK(source.attributes == std::vector<std::string>{"fc.weight", "fc.bias"});
  CHECK(body_of(source).find("at::Tensor fc_weight_1 = Attribute(0);") != std::string::npos);
}

TEST_CASE("what has no narrow header, modules and functions of the user's are called back") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* module = g.call_module("layer", {x});
  Node* own = g.call_function(register_function("tests::built"), {module, x});
  own->set_type("torch::Tensor");
  g.output(g.call_function(ops::relu, {own}));
  const BuiltSource source = built_source(g, nobody, Installed({"ATen/ops/relu_ops.h"}));
  CHECK(source.headers.empty());
  CHECK(source.called_back == std::vector<bool>{false, true, true, true, false});
  CHECK(
      body_of(source).find(
          "const void* const Given[] = {&layer, &x}; if (Call->call_back(Call, 2, Given, &builtResults)) return 1;") !=
      std::string::npos);
}

TEST_CASE(
    "in place operators are declared beside the others, cat under another name, lists of optional tensors nowhere") {
  CHECK(built([](auto x) { return x.relu_(); }).headers == std::vector<std::string>{"ATen/ops/relu_ops.h"});
  CHECK(built([](auto x) {
          return cat(std::vector{x, x});
        }).headers == std::vector<std::string>{"ATen/ops/concat_ops.h"});
  Graph g;
  Node* x = g.placeholder("x");
  g.output(g.call_function(ops::index_Tensor, {x, Argument::list({x})}));
  CHECK(built_source(g, nobody, Installed()).called_back[1]);
}

TEST_CASE("results of several kinds keep their shape") {
  const BuiltSource source = built([](auto x) {
    const auto parts = x.chunk(2);
    return std::make_tuple(x.relu(), parts, 3, "text", std::vector{x, x}, std::nullopt);
  });
  using Kind = ResultShape::Kind;
  REQUIRE(source.result.kind == Kind::tuple);
  std::vector<Kind> kinds;
  for (const ResultShape& item : source.result.items) kinds.push_back(item.kind);
  CHECK(kinds ==
        std::vector<Kind>{Kind::tensor, Kind::list_of_tensors, Kind::constant, Kind::constant, Kind::list, Kind::none});
  CHECK(body_of(source).ends_with("    Give({relu}); Give(chunk); Give({x}); Give({x}); \n"));
}

TEST_CASE("tuples within tuples come back as the tensors in them") {
  const Operator& getitem = *find_operator("operator::getitem");
  Graph g;
  Node* x = g.placeholder("x");
  Node* lstm = g.call_function(register_function("tests::built_lstm"), {x});
  lstm->set_type("std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>>");
  Node* state = g.call_function(getitem, {lstm, 1});
  g.output(Argument::tuple({lstm, g.call_function(getitem, {state, 0})}));
  const BuiltSource source = built_source(g, nobody, Installed());
  const std::string body = body_of(source);
  CAPTURE(body);
  CHECK(body.find("auto built_lstm = std::make_tuple(built_lstmResults[0], std::make_tuple(built_lstmResults[1], "
                  "built_lstmResults[2]));") != std::string::npos);
  CHECK(body.find("Give({std::get<0>(built_lstm)}); Give({std::get<0>(std::get<1>(built_lstm))}); "
                  "Give({std::get<1>(std::get<1>(built_lstm))}); Give({getitem_1}); ") != std::string::npos);
  REQUIRE(source.result.items.size() == 2);
  REQUIRE(source.result.items[0].items.size() == 2);
  CHECK(source.result.items[0].items[1].items.size() == 2);

  Graph lists;
  Node* made = lists.call_function(register_function("tests::built_lists"), {lists.placeholder("x")});
  made->set_type("std::tuple<torch::Tensor, std::vector<torch::Tensor>>");
  lists.output(lists.call_function(getitem, {made, 0}));
  CHECK_THROWS_AS(built_source(lists, nobody, Installed()), CodegenError);
}

TEST_CASE("numbers that the graph computes go from node to node") {
  const BuiltSource source = built([](auto x) { return x.view({x.dim() * 2 - 1, -1}); });
  CHECK(body_of(source).find("auto mul = (dim) * (2);") != std::string::npos);
  CHECK(body_of(source).find("auto sub = (mul) - (1);") != std::string::npos);
  CHECK(body_of(source).find("at::_ops::view::call(x, c10::SymIntArrayRef({sub, -1}))") != std::string::npos);
  // Division rounds towards zero where C++ recorded it, down where Python did.
  const BuiltSource divided = built([](auto x) {
    const auto half = x.size(0) / 2;
    return x * half * ((x.size(0) - 9) % 4);
  });
  CHECK(body_of(divided).find("auto floordiv = (size) / (2);") != std::string::npos);
  CHECK(body_of(divided).find("auto modulus = (sub) % (4);") != std::string::npos);
  Graph g;
  Node* x = g.placeholder("x");
  Node* sub = g.call_function(ops::operator_sub, {g.call_function(ops::numel, {x}), 9});
  Node* down = g.call_function(ops::operator_floordiv, {sub, 4});
  Node* rest = g.call_function(ops::operator_mod, {sub, 4});
  g.output(g.call_method("view", {x, Argument::list({down, rest})}));
  const std::string text = body_of(built_source(g, nobody, Installed()));
  CHECK(text.find("auto floordiv = (sub) / (4) - ((sub) % (4) < 0);") != std::string::npos);
  CHECK(text.find("auto mod = (sub) % (4) + ((sub) % (4) < 0 ? (4) : 0);") != std::string::npos);
}

TEST_CASE("inputs and results that are no tensors are refused, with the node") {
  const auto refused = [](const Graph& g, std::string_view words) {
    const auto fault = test::fault_of<CodegenError>([&] { (void)built_source(g, nobody, Installed()); });
    return fault.id == 501 && fault.says(words) && !fault.node.empty();
  };
  Graph number;
  number.placeholder("n", {}, "int64_t");
  number.output({});
  CHECK(refused(number, "input 'n' is a int64_t; a built module takes tensors"));
  Graph result;
  result.output(result.call_method("dim", {result.placeholder("x")}));
  CHECK(refused(result, "'dim' is a number; a built module returns tensors"));
  Graph missing;
  missing.output(missing.call_function(ops::softmax_int, {missing.placeholder("x")}));
  CHECK(refused(missing, "argument 'dim' of 'aten::softmax.int' is missing"));
}

TEST_CASE("no name of the function's own is one that a node can have") {
  Graph g;
  std::vector<Argument> inputs;
  for (const char* name : {"call", "input", "attribute", "give", "given", "f_results"})
    inputs.push_back(g.placeholder(name));
  Node* f = g.create_node(CallFunction{&register_function("tests::built_f")}, inputs, {}, "f");
  f->set_type("torch::Tensor");
  g.output(f);
  const BuiltSource source = built_source(g, nobody, Installed());
  CHECK(body_of(source) ==
        "    at::Tensor call = Input(0);\n    at::Tensor input = Input(1);\n    at::Tensor attribute = Input(2);\n"
        "    at::Tensor give = Input(3);\n    at::Tensor given = Input(4);\n    at::Tensor f_results = Input(5);\n"
        "    Call->node = 6;  std::vector<at::Tensor> fResults; { const void* const Given[] = {&call, &input, "
        "&attribute, &give, &given, &f_results}; if (Call->call_back(Call, 6, Given, &fResults)) return 1; } auto f = "
        "fResults[0]; call.reset(); input.reset(); attribute.reset(); give.reset(); given.reset(); "
        "f_results.reset();\n    Give({f}); \n");
}

TEST_CASE("nothing from a model becomes code") {
  class Named final : public test::ListedOwner {
   public:
    std::string class_name() const override { return "Net\n#include <evil>\\"; }
  };
  Graph g;
  Node* x = g.placeholder("x; evil()");
  Node* attribute = g.get_attr("w\"); evil(\"");
  Node* text =
      g.call_function(ops::gelu, {g.call_function(ops::add_Tensor, {x, attribute})}, {{"approximate", "no\"ne\n"}});
  g.output(text);
  const BuiltSource source = built_source(g, Named(), Installed());
  CHECK(source.text.find("evil()") == std::string::npos);
  CHECK(source.text.find("\n#include <evil>") == std::string::npos);
  CHECK(source.text.find(R"("no\"ne\012")") != std::string::npos);
  CHECK(source.attributes == std::vector<std::string>{"w\"); evil(\""});
}
