// What functions are traced with: bound inputs, containers, structs, defaults; and what they return.
#include "fxx/trace/concrete.hpp"

#include <doctest/doctest.h>

#include <map>
#include <unordered_map>

#include "fxx/ops/operation.hpp"
#include "fxx/trace/hana.hpp"
#include "trace/recorded.hpp"

using namespace fxx;
using test::body_of;
using test::fault_of;
using test::text_of;

namespace {

/// A struct of inputs, over proxies while tracing and tensors otherwise.
template <class T>
struct Batch {
  BOOST_HANA_DEFINE_STRUCT(Batch, (T, image), (T, mask));
};
/// One that Hana is told about from outside, with members of several kinds.
template <class T>
struct Result {
  std::vector<T> boxes;
  T score;
  int count;
};
/// A struct of plain settings.
struct Settings {
  BOOST_HANA_DEFINE_STRUCT(Settings, (bool, flip), (double, scale));
};

std::string types_of(const Graph& g) {
  std::string text;
  for (const Node* n : g.nodes()) text += std::string(n->type()) + ";";
  return text;
}
/// A tracer that notes types, as the LibTorch wing's does.
struct Typing : Tracer {
  bool annotates_types() const override { return true; }
};

}  // namespace

BOOST_HANA_ADAPT_STRUCT(Result<fxx::Proxy>, boxes, score, count);
BOOST_HANA_ADAPT_STRUCT(Result<fxx::PlaceholderOf<fxx::Proxy>>, boxes, score, count);

// --- bound to constants ----------------------------------------------------------------------------------------------

TEST_CASE("an input bound to a constant stays an input, decides branches, and is checked") {
  const auto f = [](auto x, bool twice) { return twice ? x * 2 : x; };
  const Graph yes = symbolic_graph(f, concrete_args(PH, true)),
              no = symbolic_graph(f, concrete_args(input("x"), input("flag", false)));
  CHECK(
      text_of(yes) ==
      "input arg0\ninput arg1\ncheck_equal = fxx::check_equal(%arg1, True, \"input 'arg1' was "
      "specialised to the value True when the graph was traced, but got another one\")\nmul = aten::mul.Scalar(%arg0, "
      "2)\nreturn %mul\n");
  CHECK(body_of(no).starts_with("check_equal = fxx::check_equal(%flag, False, \"input 'flag' was"));
  CHECK(body_of(no).ends_with("return %x\n"));
  CHECK(yes.signature() == nullptr);
  yes.lint();
}

TEST_CASE("every kind of constant binds; None is checked as None; what a graph cannot hold is used as it is") {
  int called = 0;
  const auto f = [&](auto x, int n, double d, const std::string& s, std::optional<Proxy> none, Dtype type,
                     auto change) {
    CHECK(n == 3);
    CHECK(d == 0.5);
    CHECK(s == "mean");
    CHECK_FALSE(none.has_value());
    CHECK(type == Dtype::float16);
    return change(x);
  };
  const auto change = [&](const Proxy& x) {
    ++called;
    return relu(x);
  };
  const Graph g = symbolic_graph(
      f, concrete_args(PH, 3, 0.5, "mean", std::optional<PlaceholderOf<Proxy>>(), Dtype::float16, change));
  CHECK(called == 1);
  std::string checked;
  for (const Node* n : g.find_nodes(Opcode::call_function))
    if (n->operation()->name == "fxx::check_equal") checked += to_string(n->arg(1)) + ";";
  CHECK(checked == "3;0.5;'mean';None;torch.float16;");
  const std::vector<Node*> inputs = g.find_nodes(Opcode::placeholder);
  REQUIRE(inputs.size() == 7);
  REQUIRE(inputs[6]->args().size() == 1);  // a function may be left out when the graph is called
  CHECK(inputs[6]->arg(0).is_none());
  CHECK(inputs[1]->args().empty());
  g.lint();
}

TEST_CASE("inputs that are not described are tensors") {
  const Graph g = symbolic_graph([](double d, auto x, auto y) { return x * d + y; }, concrete_args(2.5));
  CHECK(g.find_nodes(Opcode::placeholder).size() == 3);
  CHECK(body_of(g).find("aten::mul.Scalar(%arg1, 2.5)") != std::string::npos);
}

TEST_CASE("a placeholder has a default, a type and values noted on it, which do not replace those that are there") {
  const Graph g =
      Typing().trace([](auto x, auto scale) { return x * scale; },
                     concrete_args(PH.with_meta("stage", 1).with_meta("unit", std::string("pixels")).typed("my::Image"),
                                   input("scale", PH_NUMBER.with_default(2))));
  const Node& x = *g.nodes().front();
  const Node& scale = *x.next();
  CHECK(x.type() == "my::Image");
  REQUIRE(x.meta().custom.size() == 2);
  CHECK(std::any_cast<std::string>(x.meta().custom[1].second) == "pixels");
  CHECK(scale.arg(0) == Argument(2));
  CHECK(scale.type() == "int64_t");
  CHECK(body_of(g) == "mul = aten::mul.Scalar(%arg0, %scale)\nreturn %mul\n");

  struct Noting : Tracer {
    Node* create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                      std::source_location where) override {
      Node* node = Tracer::create_node(std::move(op), args, kwargs, name, where);
      node->meta().custom.emplace_back("stage", 7);
      return node;
    }
  };
  const Graph noted = Noting().trace([](auto x) { return x; }, concrete_args(PH.with_meta("stage", 1)));
  REQUIRE(noted.nodes().front()->meta().custom.size() == 1);
  CHECK(std::any_cast<int>(noted.nodes().front()->meta().custom[0].second) == 7);
}

// --- containers ------------------------------------------------------------------------------------------------------

TEST_CASE("a container is one input of the signature and one placeholder for each leaf") {
  const auto f = [](const std::vector<Proxy>& xs, const std::map<std::string, Proxy>& by_name,
                    const std::tuple<Proxy, int>& pair) {
    return cat(xs) + by_name.at("a") * by_name.at("b") + std::get<0>(pair) * std::get<1>(pair);
  };
  const Graph g =
      symbolic_graph(f, concrete_args(input("xs", std::vector{PH, PH, PH}),
                                      input("named", std::map<std::string, PlaceholderOf<Proxy>>{{"b", PH}, {"a", PH}}),
                                      input("pair", std::tuple(PH, 3))));
  std::vector<std::string> inputs;
  for (const Node* n : g.find_nodes(Opcode::placeholder)) inputs.push_back(n->target());
  CHECK(inputs == std::vector<std::string>{"xs_1", "xs_2", "xs_3", "named_1", "named_2", "pair_1", "pair_2"});
  CHECK(body_of(g).find("fxx::check_equal(%pair_2, 3, \"input 'pair_2'") != std::string::npos);
  CHECK(body_of(g).find("aten::mul.Tensor(%named_1, %named_2)") != std::string::npos);
  REQUIRE(g.signature());
  const Signature& s = *g.signature();
  REQUIRE(s.inputs.size() == 3);
  CHECK(s.inputs[0].name == "xs");
  CHECK(s.inputs[0].structure.kind == Structure::Kind::list);
  CHECK(s.inputs[1].structure.kind == Structure::Kind::dict);
  CHECK(s.inputs[1].structure.keys == std::vector<Argument>{"a", "b"});
  CHECK(s.inputs[2].structure.kind == Structure::Kind::tuple);
  CHECK(s.leaves() == std::vector<std::string_view>(inputs.begin(), inputs.end()));
  g.lint();
}

TEST_CASE("containers nest, and optionals, pairs and arrays are inputs") {
  using Nested = std::vector<std::pair<Proxy, std::array<Proxy, 2>>>;
  const auto f = [](const Nested& xs, const std::optional<Proxy>& mask) {
    Proxy sum = *mask;
    for (const auto& [a, bc] : xs) sum = sum + a * bc[0] * bc[1];
    return sum;
  };
  const std::pair item(PH, std::array{PH, PH});
  const Graph g = symbolic_graph(f, concrete_args(input("xs", std::vector{item, item}), std::optional(PH)));
  CHECK(g.find_nodes(Opcode::placeholder).size() == 7);
  REQUIRE(g.signature());
  const Structure& xs = g.signature()->inputs[0].structure;
  REQUIRE(xs.items.size() == 2);
  CHECK(xs.items[1].items[1].items[1].placeholder == "xs_6");
  CHECK(g.signature()->inputs[1].structure.placeholder == "arg1");
}

TEST_CASE("structs that Hana knows are inputs and results, as dictionaries of their members") {
  const auto f = [](const auto& batch, const Settings& settings) {
    using T = std::remove_cvref_t<decltype(batch.image)>;
    CHECK(settings.flip);
    return Batch<T>{batch.image * batch.mask * settings.scale, batch.mask};
  };
  const Graph g = symbolic_graph(
      f, concrete_args(input("batch", Batch<PlaceholderOf<Proxy>>{PH, PH}), input("settings", Settings{true, 0.5})));
  REQUIRE(g.signature());
  const Structure& batch = g.signature()->inputs[0].structure;
  CHECK(batch.kind == Structure::Kind::dict);
  CHECK(batch.keys == std::vector<Argument>{"image", "mask"});
  CHECK(batch.items[1].placeholder == "batch_2");
  CHECK(body_of(g).find("fxx::check_equal(%settings_2, 0.5, ") != std::string::npos);
  CHECK(body_of(g).ends_with("return {'image': %mul_1, 'mask': %batch_2}\n"));

  const Graph result = symbolic_graph([](auto x) { return Result<Proxy>{{x, relu(x)}, x.sum(), 2}; });
  CHECK(body_of(result).ends_with("return {'boxes': [%x, %relu], 'score': %sum, 'count': 2}\n"));
  Tracer tracer;
  const Graph taken = tracer.trace([](const auto& r) { return cat(r.boxes) * r.score; },
                                   concrete_args(Result<PlaceholderOf<Proxy>>{{PH, PH}, PH, 3}));
  CHECK(taken.find_nodes(Opcode::placeholder).size() == 4);
}

TEST_CASE("names come from the caller, and inputs have them where nothing else is said") {
  const auto f = [](auto x, auto y, auto z) { return x + y + z; };
  const Graph g = symbolic_graph(f, concrete_args(PH, input("mask")));
  std::vector<std::string> names;
  for (const Node* n : g.find_nodes(Opcode::placeholder)) names.push_back(n->target());
  CHECK(names == std::vector<std::string>{"arg0", "mask", "arg2"});
  const auto fault = fault_of<TraceError>([&] { symbolic_graph(f, {"a", "b", "c", "d"}); });
  CHECK(fault.id == 305);
  CHECK(fault.says("4 input names were given; the function takes 3 inputs"));
  const auto twice = fault_of<TraceError>([&] {
    symbolic_graph([](const std::vector<Proxy>& xs, const std::vector<Proxy>& ys) { return xs[0] + ys[0]; },
                   concrete_args(input("x", std::vector{PH}), input("x", std::vector{PH})));
  });
  CHECK(twice.says("two inputs have the name 'x_1'"));
}

TEST_CASE("a function of any number of inputs is traced with as many as are described") {
  const auto sum = [](const auto& first, const auto&... more) { return (first + ... + more); };
  CHECK(body_of(symbolic_graph(sum, concrete_args(PH, PH, PH))) ==
        "add = aten::add.Tensor(%arg0, %arg1)\nadd_1 = aten::add.Tensor(%add, %arg2)\nreturn %add_1\n");
}

// --- results ---------------------------------------------------------------------------------------------------------

TEST_CASE("results of every kind") {
  const auto returned = [](auto&& f) {
    const Graph g = symbolic_graph(f);
    g.lint();
    return to_string(g.output_node()->arg(0));
  };
  CHECK(returned([](auto) { return "done"; }) == "'done'");
  CHECK(returned([](auto) { return std::string("done"); }) == "'done'");
  CHECK(returned([](auto) { return 3; }) == "3");
  CHECK(returned([](auto) { return 2.5; }) == "2.5");
  CHECK(returned([](auto) { return true; }) == "True");
  CHECK(returned([](auto) {}) == "None");
  CHECK(returned([](auto) { return std::nullopt; }) == "None");
  CHECK(returned([](auto x) { return std::optional(x); }) == "%x");
  CHECK(returned([](auto x) { return std::pair(x, 1); }) == "(%x, 1)");
  CHECK(returned([](auto x) { return std::vector{x, x}; }) == "[%x, %x]");
  CHECK(returned([](auto x) { return std::array{x, x}; }) == "[%x, %x]");
  CHECK(returned([](auto x) { return std::map<std::string, Proxy>{{"a", x}}; }) == "{'a': %x}");
  CHECK(returned([](auto x) { return std::map<int, std::tuple<Proxy, int>>{{4, {x, 5}}}; }) == "{4: (%x, 5)}");
  CHECK(returned([](auto x) { return x.size(0); }) == "%size");
  CHECK(returned([](auto x) { return x.chunk(2); }) == "%chunk");
  CHECK(returned([] { return 1; }) == "1");
  CHECK(to_string(symbolic_graph([] {})) == "graph():\n    return None");
}

TEST_CASE("types are noted where C++ knows them") {
  Typing tracer;
  CHECK(types_of(tracer.trace([](auto x) { return relu(x); })) == "torch::Tensor;;torch::Tensor;");
  const auto result_type = [&](auto&& f) { return std::string(tracer.trace(f).output_node()->type()); };
  CHECK(result_type([](auto x) { return std::tuple(x, x.chunk(2)); }) ==
        "std::tuple<torch::Tensor, std::vector<torch::Tensor>>");
  CHECK(result_type([](auto x) {
          return std::map<std::string, std::vector<Proxy>>{{"a", {x}}};
        }) == "std::map<std::string, std::vector<torch::Tensor>>");
  CHECK(result_type([](auto) { return std::pair(1, std::string("a")); }) == "std::tuple<int64_t, std::string>");
  CHECK(result_type([](auto x) { return std::tuple(x, x.size(0)); }).empty());  // an integer, or a real number?
  CHECK(result_type([](auto) { return std::tuple<>(); }) == "std::tuple<>");
  CHECK(result_type([](auto) {}).empty());
  const Graph g = tracer.trace([](auto x, auto n, auto list, bool) { return x * n + list[0]; },
                               concrete_args(PH, PH_NUMBER, PH_LIST, true));
  CHECK(types_of(g).starts_with("torch::Tensor;double;std::vector<torch::Tensor>;bool;"));
}

// --- back to C++ -----------------------------------------------------------------------------------------------------

TEST_CASE("an argument becomes the value of C++ that it was, and parts of one node become its items") {
  Graph g;
  Tracer tracer(g);
  const Proxy x = tracer.placeholder("x"), y = tracer.placeholder("y");
  const auto round_trip = [&]<class T>(const T& value) {
    return to_string(to_argument(tracer, from_argument<T>(tracer, to_argument(tracer, value))));
  };
  CHECK(round_trip(std::tuple(x, std::vector{x, y}, std::optional(y), 3, true, std::string("s"))) ==
        "(%x, [%x, %y], %y, 3, True, 's')");
  CHECK(round_trip(std::map<std::string, std::array<Proxy, 2>>{{"k", {x, y}}}) == "{'k': [%x, %y]}");
  CHECK(round_trip(Batch<Proxy>{x, y}) == "{'image': %x, 'mask': %y}");
  CHECK(round_trip(std::optional<Proxy>()) == "None");

  const auto [a, b] = from_argument<std::tuple<Proxy, std::pair<Proxy, Proxy>>>(tracer, x.node());
  CHECK(body_of(g) == "getitem = operator::getitem(%x, 1)\n");  // `a` is not used yet
  CHECK(text_of(*(a + b.second).node()) == "aten::add.Tensor(%getitem_1, %getitem_2)");
  CHECK(text_of(*from_argument<Batch<Proxy>>(tracer, y.node()).mask.node()) == "operator::getitem(%y, 'mask')");

  CHECK(fault_of<TraceError>([&] { (void)from_argument<std::vector<Proxy>>(tracer, x.node()); }).id == 302);
  const auto wrong = fault_of<TraceError>([&] { (void)from_argument<Proxy>(tracer, Argument::list({x.node()})); });
  CHECK(wrong.id == 306);
  CHECK(wrong.says("[%x] stands where one traced value is expected"));
  CHECK(fault_of<TraceError>([&] {
          (void)from_argument<std::tuple<Proxy, Proxy>>(tracer, Argument::tuple({x.node()}));
        }).says("a tuple of another length"));
  CHECK(fault_of<TraceError>([&] {
          (void)from_argument<Batch<Proxy>>(tracer, Argument::dict({{"image", x.node()}}));
        }).says("a struct of other members"));
}
