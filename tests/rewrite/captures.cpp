// Captures of sizes, lists and modules: what they match, and what the right side makes of them.
#include <doctest/doctest.h>

#include "listed_owner.hpp"
#include "rewrite/rewritten.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::rewritten;
using test::rewritten_graph;

TEST_CASE("sym_int takes an integer or a size that a node computes, and gives it on") {
  constexpr auto n = sym_int<"n">;
  constexpr auto rules = ruleset(rule<"first">(narrow(x, 0_c, 0_c, n) >> slice(x, 0_c, 0_c, n)));
  CHECK(rewritten_graph(rules, [](Graph& g) {
          return g.call_function(ops::narrow, {g.placeholder("x"), 0, 0, 4});
        }) == "slice_1 = aten::slice.Tensor(%x, 0, 0, 4)\nreturn %slice_1\n");
  CHECK(rewritten_graph(rules, [](Graph& g) {
          Node *x = g.placeholder("x"), *y = g.placeholder("y");
          return g.call_function(ops::narrow, {x, 0, 0, g.call_function(ops::sym_size_int, {y, 0})});
        }) == "sym_size = aten::sym_size.int(%y, 0)\nslice_1 = aten::slice.Tensor(%x, 0, 0, %sym_size)\n"
              "return %slice_1\n");
  // A tensor is no size.
  CHECK(rewritten_graph(rules, [](Graph& g) {
          Node* x = g.placeholder("x");
          return g.call_function(ops::narrow, {x, 0, 0, g.call_function(ops::relu, {x})});
        }).starts_with("relu = aten::relu(%x)\nnarrow = aten::narrow("));
}

TEST_CASE("the same sym_int twice is the same size") {
  constexpr auto n = sym_int<"n">;
  constexpr auto rules = ruleset(rule<"twice">(narrow(narrow(x, 0_c, 0_c, n), 1_c, 0_c, n) >> neg(x)));
  const auto made = [&](std::int64_t first, std::int64_t second) {
    return rewritten_graph(rules, [&](Graph& g) {
      return g.call_function(ops::narrow,
                             {g.call_function(ops::narrow, {g.placeholder("x"), 0, 0, first}), 1, 0, second});
    });
  };
  CHECK(made(3, 3) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(made(3, 4).starts_with("narrow = "));
}

TEST_CASE("a size that the pattern names by its call is a size on the right") {
  constexpr auto rules = ruleset(
      rule<"named">(view(x, list(sym_size(x, 0_c).as<"n">(), -1_c)) >> reshape(x, list(sym_int<"n">, -1_c))));
  CHECK(rewritten_graph(rules, [](Graph& g) {
          Node* x = g.placeholder("x");
          return g.call_function(ops::view, {x, Argument::list({g.call_function(ops::sym_size_int, {x, 0}), -1})});
        }) ==
        "sym_size = aten::sym_size.int(%x, 0)\nreshape = aten::reshape(%x, [%sym_size, -1])\nreturn %reshape\n");
}

TEST_CASE("a call that gives a number stands where an operator takes one, on both sides") {
  constexpr auto rules = ruleset(
      rule<"whole">(narrow(x, 0_c, 0_c, sym_size(x, 0_c)) >> alias(x)),
      rule<"part">(narrow(x, 1_c, 0_c, sym_size(y, 0_c)) >> slice(x, 1_c, 0_c, sym_size(y, 0_c))),
      rule<"computed">(narrow(x, 1_c, 0_c, sym_size(x, 1_c) * 2_c) >> neg(x)),
      rule<"scaled">(sym_size(x, 0_c).once() * relu(x) >> neg(x)));
  const auto narrowed = [&](std::int64_t dim, bool of_x, bool doubled) {
    return rewritten_graph(rules, [&](Graph& g) {
      Node *x = g.placeholder("x"), *y = g.placeholder("y");
      Node* size = g.call_function(ops::sym_size_int, {of_x ? x : y, doubled ? 1 : 0});
      if (doubled) size = g.call_function(ops::operator_mul, {size, 2});
      return g.call_function(ops::narrow, {x, dim, 0, size});
    });
  };
  CHECK(narrowed(0, true, false).ends_with("alias = aten::alias(%x)\nreturn %alias\n"));
  CHECK(narrowed(0, false, false).find("narrow") != std::string::npos);  // the size of another
  CHECK(narrowed(1, false, false) ==
        "sym_size_1 = aten::sym_size.int(%y, 0)\nslice_1 = aten::slice.Tensor(%x, 1, 0, %sym_size_1)\nreturn %slice_1\n");
  CHECK(narrowed(1, true, true).ends_with("return %neg\n"));
  // Times a size is times a number.
  CHECK(rewritten_graph(rules, [](Graph& g) {
          Node* x = g.placeholder("x");
          return g.call_function(ops::mul_Scalar,
                                 {g.call_function(ops::relu, {x}), g.call_function(ops::sym_size_int, {x, 0})});
        }).ends_with("return %neg\n"));
}

TEST_CASE("sequence takes a list as it is, of numbers or of nodes, and the same name twice is the same list") {
  constexpr auto shape = sequence<"l">;
  constexpr auto rules = ruleset(rule<"view">(view(relu(x), shape) >> reshape(x, shape)),
                                 rule<"joined">(stack(sequence<"parts">, 0_c) >> cat(sequence<"parts">, 0_c)),
                                 rule<"twice">(permute(permute(x, shape), shape) >> neg(x)));
  CHECK(rewritten_graph(rules, [](Graph& g) {
          Node* relu = g.call_function(ops::relu, {g.placeholder("x")});
          return g.call_function(ops::view, {relu, Argument::list({2, -1})});
        }) == "reshape = aten::reshape(%x, [2, -1])\nreturn %reshape\n");
  CHECK(rewritten_graph(rules, [](Graph& g) {
          Node *x = g.placeholder("x"), *y = g.placeholder("y");
          return g.call_function(ops::stack, {Argument::list({x, y}), 0});
        }) == "cat = aten::cat([%x, %y], 0)\nreturn %cat\n");
  const auto permuted = [&](std::vector<Argument> outer) {
    return rewritten_graph(rules, [&](Graph& g) {
      Node* inner = g.call_function(ops::permute, {g.placeholder("x"), Argument::list({1, 0, 2})});
      return g.call_function(ops::permute, {inner, Argument::list(outer)});
    });
  };
  CHECK(permuted({1, 0, 2}) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(permuted({0, 1, 2}).starts_with("permute = "));
}

TEST_CASE("a callable reads what sym_int and sequence hold") {
  constexpr auto rules = ruleset(rule<"r">(narrow(view(x, sequence<"l">), 0_c, 0_c, sym_int<"n">) >>
                                           [](const Match& m) -> Argument {
                                             const auto sizes = m[sequence<"l">].items();
                                             if (m[sym_int<"n">] != sizes[0]) return {};
                                             return m.call(ops::view, {m[pattern::x], m[sequence<"l">]});
                                           }));
  const auto made = [&](std::int64_t size) {
    return rewritten_graph(rules, [&](Graph& g) {
      Node* view = g.call_function(ops::view, {g.placeholder("x"), Argument::list({4, 2})});
      return g.call_function(ops::narrow, {view, 0, 0, size});
    });
  };
  CHECK(made(4) == "view = aten::view(%x, [4, 2])\nreturn %view\n");
  CHECK(made(3).ends_with("return %narrow\n"));
}

namespace {
/// Modules with options, as the wing describes those of torch::nn.
struct Blocks {
  test::ListedOwner owner;
  Graph graph;
  Node* x;
  Blocks() {
    owner.add({.name = "small", .type = "my::Block", .construct = "my::BlockOptions(3, 8).stride(2).pad({1, 1})"});
    owner.add({.name = "large", .type = "my::Block", .construct = "my::BlockOptions(64, 64)"});
    owner.add({.name = "unknown", .type = "my::Block", .construct = {}, .construct_unknown = true});
    graph.set_owning_module(&owner);
    x = graph.placeholder("x");
  }
  template <class Rules>
  std::string fired(const Rules& rules, std::string_view name) {
    graph.output(graph.call_module(name, {graph.call_function(ops::relu, {x})}));
    const std::string text = rules.apply(graph).to_string();
    graph.lint();
    return text;
  }
};
}  // namespace

TEST_CASE("the options of a module are a condition") {
  constexpr auto rules = ruleset(rule<"strided">(module<"my::Block">(x).where(option_is<"stride", "2">) >> neg(x)),
                                 rule<"plain">(module<"my::Block">(x).where(option_is<"stride", "1", "">) >> exp(x)));
  CHECK(Blocks().fired(rules, "small") == "strided: 1");
  CHECK(Blocks().fired(rules, "large") == "plain: 1");
  CHECK(Blocks().fired(rules, "unknown") == "");  // it may be set to anything
  Blocks blocks;
  CHECK(blocks.fired(rules, "large") == "plain: 1");
  Blocks other;
  Node* call = other.graph.call_module("large", {other.x});
  other.graph.output(call);
  CHECK(explain(rules, "strided", call) ==
        "rule 'strided' does not match %large: %large, a call of a module my::Block, which is not option_is<stride, "
        "2>");
}

TEST_CASE("an option is the text between its brackets, on the outermost level") {
  Blocks blocks;
  const Node& small = *blocks.graph.call_module("small", {blocks.x});
  CHECK(module_option(small, "stride") == "2");
  CHECK(module_option(small, "pad") == "{1, 1}");
  CHECK(module_option(small, "strid") == "");
  CHECK(module_option(small, "groups") == "");
  CHECK(module_option(*blocks.x, "stride") == "");
  blocks.owner.add({.name = "nested", .type = "my::Block", .construct = "my::Of(Options().stride(3)).stride((1 + 1))"});
  CHECK(module_option(*blocks.graph.call_module("nested", {blocks.x}), "stride") == "(1 + 1)");
}

TEST_CASE("a guard and a callable read the options of a module that the pattern names") {
  constexpr auto block = module<"my::Block">(x).as<"m">();
  constexpr auto rules =
      ruleset(rule<"strided">(block >> [](const Match& m) -> Argument {
                const std::string_view stride = module_option(*m.node(tensor<"m">), "stride");
                if (stride.empty()) return {};
                return m.call(ops::mul_Scalar, {m[pattern::x], std::stoi(std::string(stride))});
              }));
  Blocks small;
  CHECK(small.fired(rules, "small") == "strided: 1");
  CHECK(body_of(small.graph) == "relu = aten::relu(%x)\nmul = aten::mul.Scalar(%relu, 2)\nreturn %mul\n");
  CHECK(Blocks().fired(rules, "large") == "");
  constexpr auto guarded = ruleset(rule<"large">(block >> neg(x), [](const Match& m) {
    return module_info(*m.node(tensor<"m">))->construct == "my::BlockOptions(64, 64)";
  }));
  CHECK(Blocks().fired(guarded, "large") == "large: 1");
  CHECK(Blocks().fired(guarded, "small") == "");
}

TEST_CASE("a module that the pattern names twice is called once") {
  constexpr auto block = module<"my::Block">(x).as<"m">();
  constexpr auto rules = ruleset(rule<"r">(mul(block, sigmoid(tensor<"m">)) >> silu(tensor<"m">)));
  Blocks blocks;
  Node* call = blocks.graph.call_module("small", {blocks.x});
  blocks.graph.output(
      blocks.graph.call_function(ops::mul_Tensor, {call, blocks.graph.call_function(ops::sigmoid, {call})}));
  CHECK(rules.apply(blocks.graph).rewrites == 1);
  CHECK(body_of(blocks.graph) == "small = small(%x)\nsilu = aten::silu(%small)\nreturn %silu\n");
}
