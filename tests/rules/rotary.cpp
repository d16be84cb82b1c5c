// rules::rotary: spellings of rotary position embedding, what is none, and what becomes of the function.
#include "fxx/rules/rotary.hpp"

#include <doctest/doctest.h>

#include "fxx/passes/expand_functions.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using test::shaped;

namespace {

using Shape = std::vector<std::int64_t>;
const Shape usual = {2, 4, 5, 8};
/// f(graph, x, cos, sin), whose angles have this many for a place, rewritten.
template <class F>
std::string made(F f, std::int64_t angles = 8, Shape shape = usual, Dtype type = Dtype::float32) {
  return test::rewritten_graph(rules::rotary, [&](Graph& g) {
    Node* x = g.placeholder("x");
    if (!shape.empty()) shaped(x, shape, type);
    Node *cos = shaped(g.placeholder("cos"), {5, angles}), *sin = shaped(g.placeholder("sin"), {5, angles});
    return f(g, x, cos, sin);
  });
}
Node* call(Graph& g, const Operator& op, std::initializer_list<Argument> args) {
  return g.call_function(op, std::vector<Argument>(args));
}
Node* sum(Graph& g, Node* x, Node* cos, Node* turned, Node* sin) {
  return call(g, ops::add_Tensor, {call(g, ops::mul_Tensor, {x, cos}), call(g, ops::mul_Tensor, {turned, sin})});
}
/// x1 and x2 of x.
using Halves = std::pair<Node*, Node*> (*)(Graph&, Node*);
std::pair<Node*, Node*> items(Graph& g, Node* parts) {
  return {call(g, ops::operator_getitem, {parts, 0}), call(g, ops::operator_getitem, {parts, 1})};
}
std::pair<Node*, Node*> by_slices(Graph& g, Node* x) {
  return {call(g, ops::slice_Tensor, {x, -1, 0, 4}), call(g, ops::slice_Tensor, {x, 3, 4, {}})};
}
std::pair<Node*, Node*> by_chunk(Graph& g, Node* x) { return items(g, call(g, ops::chunk, {x, 2, -1})); }
std::pair<Node*, Node*> by_split(Graph& g, Node* x) { return items(g, call(g, ops::split_Tensor, {x, 4, -1})); }
std::pair<Node*, Node*> by_sizes(Graph& g, Node* x) {
  return items(g, call(g, ops::split_with_sizes, {x, Argument::list({4, 4}), 3}));
}
std::pair<Node*, Node*> by_uneven_slices(Graph& g, Node* x) {
  return {call(g, ops::slice_Tensor, {x, -1, 0, 2}), call(g, ops::slice_Tensor, {x, -1, 2, {}})};
}
std::pair<Node*, Node*> of_places(Graph& g, Node* x) {
  return {call(g, ops::slice_Tensor, {x, -1, 0, {}, 2}), call(g, ops::slice_Tensor, {x, -1, 1, {}, 2})};
}
/// x cos + [-x2, x1] sin
auto turning(Halves halves, bool negative_first = true, std::int64_t dim = -1) {
  return [=](Graph& g, Node* x, Node* cos, Node* sin) {
    const auto [first, second] = halves(g, x);
    Node* negative = call(g, ops::neg, {negative_first ? second : first});
    Node* other = negative_first ? first : second;
    const std::vector<Argument> parts = negative_first ? std::vector<Argument>{negative, other}
                                                       : std::vector<Argument>{other, negative};
    return sum(g, x, cos, call(g, ops::cat, {Argument::list(parts), dim}), sin);
  };
}
/// [x1 cos - x2 sin, x2 cos + x1 sin]
std::pair<Node*, Node*> both(Graph& g, std::pair<Node*, Node*> x, Node* cos, Node* sin) {
  const auto product = [&](Node* a, Node* b) { return call(g, ops::mul_Tensor, {a, b}); };
  return {call(g, ops::sub_Tensor, {product(x.first, cos), product(x.second, sin)}),
          call(g, ops::add_Tensor, {product(x.first, sin), product(x.second, cos)})};
}
const std::string whole = "rotary_embedding = fxx::rotary_embedding(%x, %cos, %sin, False)\nreturn %rotary_embedding\n";
bool stays(const std::string& text) { return text.find("rotary") == std::string::npos; }

}  // namespace

TEST_CASE("halves that are turned, by slices, chunk and split") {
  CHECK(made(turning(by_slices)) == whole);
  CHECK(made(turning(by_chunk)) == whole);
  CHECK(made(turning(by_split)) == whole);
  CHECK(made(turning(by_sizes), 8, usual, Dtype::bfloat16) == whole);
  CHECK(made(turning(by_chunk, true, 3), 8, {-2, 4, -3, 8}) == whole);
}

TEST_CASE("pairs that are turned") {
  const auto pairs = [](bool by_view) {
    return [=](Graph& g, Node* x, Node* cos, Node* sin) {
      const auto [even, odd] = of_places(g, x);
      Node* stacked = call(g, ops::stack, {Argument::list({call(g, ops::neg, {odd}), even}), -1});
      if (!by_view) return sum(g, x, cos, call(g, ops::flatten_using_ints, {stacked, -2}), sin);
      Node* joined = call(g, ops::view, {stacked, Argument::list({2, 4, 5, 8})});
      return sum(g, x, cos, shaped(joined, usual), sin);
    };
  };
  const std::string expected =
      "rotary_embedding = fxx::rotary_embedding(%x, %cos, %sin, True)\nreturn %rotary_embedding\n";
  CHECK(made(pairs(false)) == expected);
  CHECK(made(pairs(true)) == expected);
}

TEST_CASE("both halves, or both of each pair, with angles for one of them") {
  CHECK(made(
            [](Graph& g, Node* x, Node* cos, Node* sin) {
              const auto [first, second] = both(g, by_chunk(g, x), cos, sin);
              return call(g, ops::cat, {Argument::list({first, second}), -1});
            },
            4) ==
        "cat_1 = aten::cat([%cos, %cos], -1)\ncat_2 = aten::cat([%sin, %sin], -1)\n"
        "rotary_embedding = fxx::rotary_embedding(%x, %cat_1, %cat_2, False)\nreturn %rotary_embedding\n");
  CHECK(made(
            [](Graph& g, Node* x, Node* cos, Node* sin) {
              const auto [first, second] = both(g, of_places(g, x), cos, sin);
              return call(g, ops::flatten_using_ints,
                          {call(g, ops::stack, {Argument::list({first, second}), -1}), 3, 4});
            },
            4).find("repeat_interleave.self_int(%sin, 2, -1)\nrotary_embedding = ") != std::string::npos);
}

TEST_CASE("every other place, by a view as pairs") {
  const auto of_pairs = [](Shape seen, std::int64_t dim, bool parts, std::int64_t place) {
    return made([=](Graph& g, Node* x, Node*, Node*) {
      Node* pairs = shaped(call(g, ops::view, {x, Argument::list({2, 4, 5, -1, 2})}), seen);
      if (!parts) return call(g, ops::select_int, {pairs, dim, place});
      return call(g, ops::operator_getitem, {call(g, ops::unbind_int, {pairs, dim}), place});
    });
  };
  const auto slice = [](const char* from) {
    return std::string("slice_1 = aten::slice.Tensor(%x, -1, ") + from + ", None, 2)\nreturn %slice_1\n";
  };
  CHECK(of_pairs({2, 4, 5, 4, 2}, -1, false, 0) == slice("0"));
  CHECK(of_pairs({2, 4, 5, 4, 2}, 4, true, 1) == slice("1"));
  CHECK(stays(of_pairs({2, 4, 5, 4, 2}, -2, false, 0)));
  CHECK(stays(of_pairs({2, 4, 5, 2, 4}, -1, false, 0)));
  CHECK(stays(of_pairs({2, 4, 5, 4, 2}, -1, false, 2)));
}

TEST_CASE("complex numbers that are turned") {
  const auto by_complex = [](Dtype factor) {
    return test::rewritten_graph(rules::rotary, [&](Graph& g) {
      Node *x = shaped(g.placeholder("x"), usual), *f = shaped(g.placeholder("f"), {5, 4}, factor);
      Node* pairs = shaped(call(g, ops::reshape, {x, Argument::list({2, 4, 5, -1, 2})}), {2, 4, 5, 4, 2});
      Node* turned = call(g, ops::mul_Tensor, {call(g, ops::view_as_complex, {pairs}), f});
      return call(g, ops::flatten_using_ints, {call(g, ops::view_as_real, {turned}), 3});
    });
  };
  const std::string expected = "fxx::rotary_embedding(%x, %repeat_interleave, %repeat_interleave_1, True)";
  CHECK(by_complex(Dtype::complex64).find(expected) != std::string::npos);
  CHECK(stays(by_complex(Dtype::float32)));
}

TEST_CASE("what turns otherwise, or is not known, stays") {
  CHECK(stays(made(turning(by_slices, false))));        // [x2, -x1]
  CHECK(stays(made(turning(by_uneven_slices))));
  CHECK(stays(made(turning(by_chunk, true, -2))));
  CHECK(stays(made(turning(of_places))));
  CHECK(stays(made(turning(by_split), 8, {2, 4, 5, 6})));
  CHECK(stays(made(turning(by_chunk), 8, {2, 4, 5, 7})));
  CHECK(stays(made(turning(by_chunk), 8, {2, 4, 5, -9})));
  CHECK(stays(made(turning(by_chunk), 8, {})));
  CHECK(stays(made(turning(by_chunk), 8, usual, Dtype::int64)));
  CHECK(stays(made([](Graph& g, Node* x, Node* cos, Node* sin) {
    const auto [first, second] = both(g, by_chunk(g, x), cos, sin);  // angles for all, or one for all
    return call(g, ops::cat, {Argument::list({first, second}), -1});
  }, 1)));
}

TEST_CASE("the function is known by its name, and expanded where it is written as code") {
  Graph graph = parse_graph(
      "graph():\n"
      "    %x : [num_users=1] = placeholder[target=x]\n"
      "    %c : [num_users=1] = placeholder[target=c]\n"
      "    %s : [num_users=1] = placeholder[target=s]\n"
      "    %rotary_embedding : [num_users=1] = call_function[target=fxx::rotary_embedding](args = (%x, %c, %s, False), "
      "kwargs = {})\n"
      "    return %rotary_embedding");
  CHECK(expand_functions(graph) == 1);
  graph.lint();
  CHECK(test::body_of(graph) ==
        "chunk = aten::chunk(%x, 2, -1)\ngetitem = operator::getitem(%chunk, 0)\n"
        "getitem_1 = operator::getitem(%chunk, 1)\nneg = aten::neg(%getitem_1)\ncat = aten::cat([%neg, %getitem], -1)\n"
        "mul = aten::mul.Tensor(%x, %c)\nmul_1 = aten::mul.Tensor(%cat, %s)\n"
        "rotary_embedding = aten::add.Tensor(%mul, %mul_1)\nreturn %rotary_embedding\n");
}

TEST_CASE("a call of the function with too few arguments, too many, or by name is refused, and the graph stays") {
  for (const char* call : {"(%x, %x), kwargs = {}", "(%x, %x, %x, False, False), kwargs = {}", "(), kwargs = {}",
                           "(%x, %x, %x), kwargs = {interleaved: False}"}) {
    CAPTURE(call);
    Graph graph = parse_graph(
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %one : [num_users=1] = call_function[target=fxx::rotary_embedding](args = (%x, %x, %x, True), kwargs = {})\n"
        "    %bad : [num_users=1] = call_function[target=fxx::rotary_embedding](args = " +
        std::string(call) + ")\n    return (%one, %bad)");
    const std::string before = to_string(graph);
    try {
      expand_functions(graph);
      FAIL("was not refused");
    } catch (const OperatorError& error) {
      CHECK(error.id() == ErrorId::arguments_mismatch);
      CHECK(std::string(error.what()).find("%bad") != std::string::npos);
    }
    CHECK(to_string(graph) == before);
  }
}
