// Tracing whole functions: inputs and their names, everything that may be returned.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <unordered_map>

#include "trace/recorded.hpp"

using namespace fxx;
using test::fault_of;
using test::recorded;
using test::text_of;

namespace {
Proxy plain(Proxy x, Proxy y) { return x - y; }
template <class T>
T templated(T x) {
  return x.relu();
}
struct Scaled {
  double factor;
  template <class T>
  T operator()(const T& x) const {
    return x * factor;
  }
};
}  // namespace

// --- inputs ----------------------------------------------------------------------------------------------------------

TEST_CASE("functions, templates, callable objects and generic lambdas are traced") {
  CHECK(recorded(plain, {"a", "b"}) == "sub = aten::sub.Tensor(%a, %b)\nreturn %sub\n");
  CHECK(recorded(templated<Proxy>) == "relu = .relu(%x)\nreturn %relu\n");
  CHECK(recorded(Scaled{0.5}) == "mul = aten::mul.Scalar(%x, 0.5)\nreturn %mul\n");
  const Scaled constant{2};
  CHECK(recorded(constant) == "mul = aten::mul.Scalar(%x, 2.0)\nreturn %mul\n");
  CHECK(recorded([](const auto& x) { return -x; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(recorded([](auto&& x) { return -x; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(recorded([](auto& x) { return -x; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  int calls = 0;
  CHECK(recorded([calls](auto x) mutable { return x + ++calls; }) == "add = aten::add.Scalar(%x, 1)\nreturn %add\n");
}

TEST_CASE("a function is run once, whatever it does besides") {
  int runs = 0;
  recorded([&](auto x) { return ++runs, x; });
  CHECK(runs == 1);
}

TEST_CASE("inputs are called as asked, x when there is one, arg0 and so on when there are several") {
  CHECK(text_of(symbolic_graph([](auto x) { return x; })) == "input x\nreturn %x\n");
  CHECK(text_of(symbolic_graph([](auto, auto b, auto) { return b; })) ==
        "input arg0\ninput arg1\ninput arg2\nreturn %arg1\n");
  CHECK(text_of(symbolic_graph([](auto, auto b) { return b; }, {"image"})) ==
        "input image\ninput arg1\nreturn %arg1\n");
  CHECK(text_of(symbolic_graph([] { return 1; })) == "return 1\n");
}

TEST_CASE("names that clash, or are no identifiers, still give inputs of their own") {
  const Graph same = symbolic_graph([](auto a, auto b) { return a - b; }, {"x", "x"});
  CHECK(text_of(same) == "input x\nx_1 = input x\nsub = aten::sub.Tensor(%x, %x_1)\nreturn %sub\n");
  const Graph odd = symbolic_graph([](auto a, auto b) { return a - b; }, {"x y; system()", "return"});
  odd.lint();
  for (const Node* n : odd.nodes())
    if (n->opcode() == Opcode::placeholder)
      CHECK(n->name().find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string_view::npos);
}

TEST_CASE("more names than inputs are refused") {
  const auto fault = fault_of<TraceError>([] { (void)symbolic_graph([](auto x) { return x; }, {"a", "b"}); });
  CHECK(fault.id == 305);
  CHECK(fault.says("2 input names"));
  CHECK(fault.says("takes 1 input"));
}

TEST_CASE("sixteen inputs are taken") {
  const auto sixteen = [](auto a, auto b, auto c, auto d, auto e, auto f, auto g, auto h, auto i, auto j, auto k,
                          auto l, auto m, auto n, auto o,
                          auto p) { return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p; };
  CHECK(symbolic_graph(sixteen).find_nodes(Opcode::placeholder).size() == 16);
}

TEST_CASE("loops and branches on what is no tensor run while tracing") {
  const auto network = [](int depth, bool negated) {
    return recorded([=](auto x) {
      for (int i = 0; i < depth; ++i) x = relu(x);
      return negated ? -x : x;
    });
  };
  CHECK(network(2, false) == "relu = aten::relu(%x)\nrelu_1 = aten::relu(%relu)\nreturn %relu_1\n");
  CHECK(network(0, true) == "neg = aten::neg(%x)\nreturn %neg\n");
}

TEST_CASE("what the function throws comes through, and no graph is left half-made") {
  CHECK_THROWS_AS((void)symbolic_graph([](auto x) -> Proxy { throw x.node() ? 7 : 8; }), int);
}

// --- outputs ---------------------------------------------------------------------------------------------------------

TEST_CASE("tensors, numbers, text and None are returned as they are") {
  CHECK(recorded([](auto x) { return x; }) == "return %x\n");
  CHECK(recorded([](auto) { return 2; }) == "return 2\n");
  CHECK(recorded([](auto) { return 2.0; }) == "return 2.0\n");
  CHECK(recorded([](auto) { return true; }) == "return True\n");
  CHECK(recorded([](auto) { return "it's"; }) == "return \"it's\"\n");
  CHECK(recorded([](auto) { return std::string("a\nb"); }) == "return 'a\\nb'\n");
  CHECK(recorded([](auto) { return std::nullopt; }) == "return None\n");
  CHECK(recorded([](auto) { return Argument(Dtype::float32); }) == "return torch.float32\n");
  CHECK(recorded([](auto x) { x.relu_(); }) == "relu_ = .relu_(%x)\nreturn None\n");
}

TEST_CASE("tuples, pairs, vectors, arrays, optionals and maps of them, nested") {
  CHECK(recorded([](auto x) { return std::make_tuple(x, 1); }) == "return (%x, 1)\n");
  CHECK(recorded([](auto x) { return std::make_pair(x, x); }) == "return (%x, %x)\n");
  CHECK(recorded([](auto) { return std::tuple<>(); }) == "return ()\n");
  CHECK(recorded([](auto x) { return std::vector{x, x}; }) == "return [%x, %x]\n");
  CHECK(recorded([](auto) { return std::vector<Proxy>(); }) == "return []\n");
  CHECK(recorded([](auto x) { return std::array{x, x}; }) == "return [%x, %x]\n");
  CHECK(recorded([](auto x) { return std::optional(x); }) == "return %x\n");
  CHECK(recorded([](auto) { return std::optional<Proxy>(); }) == "return None\n");
  CHECK(recorded([](auto x) {
          return std::map<std::string, Proxy>{{"b", x}, {"a", x}};
        }) == "return {'a': %x, 'b': %x}\n");
  CHECK(recorded([](auto x) { return std::unordered_map<std::string, Proxy>{{"a", x}}; }) == "return {'a': %x}\n");
  CHECK(recorded([](auto x) { return std::map<int, Proxy>{{3, x}}; }) == "return {3: %x}\n");
  CHECK(recorded([](auto x) {
          return std::make_tuple(std::vector<std::optional<Proxy>>{x, std::nullopt},
                                 std::map<std::string, std::vector<double>>{{"k", {0.5}}});
        }) == "return ([%x, None], {'k': [0.5]})\n");
}

TEST_CASE("lists and several results are returned whole; all items in order are the whole") {
  CHECK(recorded([](auto x) { return x.chunk(2); }) == "chunk = .chunk(%x, 2)\nreturn %chunk\n");
  CHECK(recorded([](auto x) { return x.max(1); }) == "max = .max(%x, 1)\nreturn %max\n");
  CHECK(recorded([](auto x) {
          const auto [values, indices] = x.max(1);
          return std::make_tuple(values, indices);
        }) == "max = .max(%x, 1)\nreturn %max\n");
  CHECK(recorded([](auto x) {
          const auto [values, indices] = x.max(1);
          return std::make_tuple(indices, values);
        }) ==
        "max = .max(%x, 1)\ngetitem = operator::getitem(%max, 1)\ngetitem_1 = operator::getitem(%max, 0)\nreturn "
        "(%getitem, %getitem_1)\n");
  CHECK(recorded([](auto x) { return std::make_tuple(std::get<0>(x.max(1))); }) ==
        "max = .max(%x, 1)\ngetitem = operator::getitem(%max, 0)\nreturn (%getitem,)\n");
  // Of a list nobody knows the length, so the first two items are not the whole.
  CHECK(recorded([](auto x) {
          const auto parts = x.chunk(2);
          return std::make_tuple(parts[0], parts[1]);
        }).ends_with("return (%getitem, %getitem_1)\n"));
}
