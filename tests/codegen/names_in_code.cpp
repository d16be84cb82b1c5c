// Readable forward functions: what comes from a model, names, types and texts, never becomes code.
#include <doctest/doctest.h>

#include <optional>

#include "fxx/codegen/module_source.hpp"
#include "fxx/codegen/readable.hpp"
#include "fxx/ops/onednn.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {

const test::ListedOwner nobody;

/// The number of the fault and whether it speaks of the name.
bool refused(const Graph& g, std::string_view words) {
  const auto fault = fault_of<CodegenError>([&] { (void)forward_code(g, nobody); });
  return fault.id == 501 && fault.says(words);
}

}  // namespace

TEST_CASE("names of nodes and attributes that hold code, keywords, quotes and line ends are plain identifiers") {
  const char* evil[] = {"x; std::abort()", "int",   "a\"b", "a\nb", "a//b", "a\\", "if",
                        "forward",         "torch", "R\"(", "",     "this"};
  test::ListedOwner owner;
  for (const char* name : evil) owner.add(AttributeInfo{.name = name, .kind = AttributeInfo::Kind::buffer, .meta = {}});
  Graph g;
  Node* sum = g.placeholder("x; evil()");
  for (const char* name : evil) {
    Node* attribute = g.get_attr(name);
    sum = g.create_node(CallFunction{&ops::add_Tensor.info()}, {sum, attribute}, {}, name);
  }
  g.output(sum);
  const std::string text = forward_code(g, owner, {.release_values = false});
  CAPTURE(text);
  CHECK(text.find("abort()") == std::string::npos);
  CHECK(text.find("evil()") == std::string::npos);
  CHECK(text.find_first_of("\"\\/") == std::string::npos);
  std::size_t lines = 0;
  for (char c : text) lines += c == '\n';
  CHECK(lines == 3 + 2 * std::size(evil));
  for (const char* keyword :
       {"auto int ", "auto if ", "auto this ", "this->int ", "this->int;", "this->if;", "this->forward;"})
    CHECK(text.find(keyword) == std::string::npos);
}

TEST_CASE("targets and types that are no C++ names are refused, with the node") {
  const auto with = [](auto make) {
    Graph g;
    Node* x = g.placeholder("x");
    g.output(make(g, x));
    return g;
  };
  CHECK(refused(with([](Graph& g, Node* x) { return g.call_method("relu(); evil", {x}); }),
                "'relu(); evil' is no name of a method"));
  CHECK(refused(with([](Graph& g, Node* x) { return g.call_method("a::b", {x}); }), "is no name of a method"));
  CHECK(refused(with([](Graph& g, Node*) { return g.call_method("own", {3}); }), "a method needs an object"));
  CHECK(refused(with([](Graph& g, Node* x) { return g.call_function(register_function("evil(); f"), {x}); }),
                "is no C++ name"));
  CHECK(refused(with([](Graph& g, Node* x) {
                  return g.call_function(register_operator("tests::code(Tensor x, Generator? g=None) -> Tensor"), {x});
                }),
                "has a parameter or a result of a type without a C++ form"));
  CHECK(refused(with([](Graph& g, Node* x) { return g.placeholder("y", {}, "int; evil()"), x; }), "is no C++ type"));
  CHECK(refused(with([](Graph& g, Node* x) { return g.create_node(Placeholder{"*args"}), x; }), "a variadic input"));
  CHECK(refused(
      with([](Graph& g, Node* x) {
        return g.call_function(register_function("f"), {x, Enumerator{.type = "A", .name = "b(); evil", .value = 1}});
      }),
      "is no C++ name"));
}

TEST_CASE("types of nodes that are no C++ types never get into the text") {
  const std::string evil = "(system(\"id\"), 0); torch::Tensor";
  const auto made = [&](auto call) {
    Graph g;
    Node* made = call(g, g.placeholder("x"));
    made->set_type(evil);
    g.output(Argument::tuple({made, Argument::list({made})}));
    return g;
  };
  for (const Graph& g :
       {made([](Graph& graph, Node* x) { return graph.call_method("unknown", {x}); }),
        made([](Graph& graph, Node* x) { return graph.call_function(register_function("tests::typed"), {x}); })}) {
    CHECK(forward_code(g, nobody).find("system") == std::string::npos);
    CHECK(fault_of<CodegenError>([&] { (void)module_source(g, nobody, "Net", "net.h"); }).id == 501);
  }
  Graph g;
  g.placeholder("x", {}, evil);
  g.output(Enumerator{.type = evil, .name = "A", .value = 1});
  CHECK(fault_of<CodegenError>([&] { (void)forward_code(g, nobody); }).id == 501);
}

TEST_CASE("members are called like nothing that their class has itself") {
  test::ListedOwner owner;
  std::vector<std::string> names = {"add", "add_parameter", "add_buffer", "parent", "last",
                                    "eval", "parameters", "train", "to", "NetImpl"};
  Graph g;
  Node* sum = g.placeholder("x");
  for (const std::string& name : names) {
    ModuleInfo& module = owner.add(ModuleInfo{.name = name, .type = "torch::nn::ReLU", .construct = {}});
    module.operation = find_operator("aten::relu");
    module.parts = {test::input()};
    sum = g.call_module(name, {sum});
  }
  g.output(sum);
  const ModuleSource source = module_source(g, owner, "Net", "net.h");
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(source.header.find("torch::nn::ReLU " + name + "_1{nullptr};") != std::string::npos);
    CHECK(source.source.find(name + "_1 = add(\"" + name + "\", torch::nn::ReLU());") != std::string::npos);
  }
}

TEST_CASE("an operator that somebody registered is asked of the dispatcher, by its signature") {
  Graph g;
  Node* x = g.placeholder("x");
  const Operator& mix = register_operator(
      "tests::mix.two(Tensor x, Tensor? y, float[] w, SymInt[2] size, str mode=\"a\", *, int? k=None) -> (Tensor, "
      "int)");
  g.output(g.call_function(mix, {x, Argument(), Argument::list({0.5, 1.5}), Argument::list({2, 3})}));
  CHECK(
      forward_code(g, test::ListedOwner())
          .find("c10::Dispatcher::singleton().findSchemaOrThrow(\"tests::mix\", \"two\").typed<std::tuple<at::Tensor, "
                "int64_t>(const at::Tensor&, const std::optional<at::Tensor>&, at::ArrayRef<double>, "
                "c10::SymIntArrayRef, std::string_view, std::optional<int64_t>)>().call(x, ") != std::string::npos);
}

TEST_CASE("optional numbers, and lists of them, are given by value where the kernels of oneDNN take them so") {
  Graph g;
  Node *x = g.placeholder("x"), *weight = g.placeholder("weight");
  g.output(g.call_function(ops::onednn_linear, {x, weight, {}, "hardtanh", Argument::list({0.0, 6.0}), {}}));
  const std::string code = forward_code(g, test::ListedOwner());
  CAPTURE(code);
  CHECK(code.find("std::string_view, c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>)>()") !=
        std::string::npos);
  CHECK(code.find("c10::List<std::optional<at::Scalar>>({0.0, 6.0})") != std::string::npos);
}

TEST_CASE("a wrapped function is called from the outermost scope, so that no variable hides it") {
  Graph g;
  Node* x = g.placeholder("mine");
  g.output(g.call_function(register_function("mine"), {x, "text\""}));
  CHECK(forward_code(g, nobody, {.release_values = false}).find("::mine(mine, \"text\\\"\")") != std::string::npos);
}
