// rules::reroll: linears and differences that LibTorch took apart are whole again.
#include "fxx/rules/reroll.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using test::attribute;
using test::fired_on;
using test::rewritten_graph;
using test::shaped;

namespace {
/// The way of writing a linear over `x` with weights of 4 x 8 and a bias of this shape, by the operator that adds it.
std::string linear_with(const Operator& add, std::vector<std::int64_t> bias, Dtype dtype = Dtype::float32) {
  return rewritten_graph(rules::reroll, [&](Graph& g) {
    Node *x = g.placeholder("x"), *w = attribute(g, "w", {4, 8}), *b = attribute(g, "b", bias, dtype);
    Node* t = g.call_function(ops::t, {w});
    if (add == ops::addmm.info()) return g.call_function(add, {b, x, t});
    return g.call_function(add, {g.call_function(ops::matmul, {x, t}), b});
  });
}
const std::string linear = "w = attribute w\nb = attribute b\nlinear = aten::linear(%x, %w, %b)\nreturn %linear\n";
}  // namespace

TEST_CASE("a linear, as the dispatcher sees it for inputs of two dimensions, of more, and as people write it") {
  CHECK(linear_with(ops::addmm, {4}) == linear);
  CHECK(linear_with(ops::add__Tensor, {4}) == linear);
  CHECK(linear_with(ops::add_Tensor, {4}) == linear);
}

TEST_CASE("what is added is a bias only when it is one number a row, of the same type") {
  CHECK(linear_with(ops::addmm, {1}).find("addmm") != std::string::npos);
  CHECK(linear_with(ops::addmm, {3, 4}).find("addmm") != std::string::npos);
  CHECK(linear_with(ops::addmm, {4}, Dtype::float64).find("addmm") != std::string::npos);
  // The product alone is a linear all the same.
  CHECK(linear_with(ops::add_Tensor, {3, 4}) ==
        "w = attribute w\nb = attribute b\nlinear = aten::linear(%x, %w)\n"
        "add = aten::add.Tensor(%linear, %b)\nreturn %add\n");
}

TEST_CASE("a linear without bias") {
  for (const Operator* op : {&ops::matmul.info(), &ops::mm.info()})
    CHECK(rewritten_graph(rules::reroll, [&](Graph& g) {
            Node* x = g.placeholder("x");
            return g.call_function(*op, {x, g.call_function(ops::t, {g.get_attr("w")})});
          }) == "w = attribute w\nlinear = aten::linear(%x, %w)\nreturn %linear\n");
}

TEST_CASE("a linear by every transpose of its weight, but not what may be attention") {
  const auto made = [](const Operator& op, std::vector<Argument> rest, bool constant = true, bool weights = false) {
    return fired_on(rules::reroll, [&](Graph& g) {
      Node* x = shaped(g.placeholder("x"), {5, 8});
      Node* w = constant ? attribute(g, "w", {4, 8}) : shaped(g.placeholder("w"), {4, 8});
      std::vector<Argument> arguments{w};
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      Node* product = g.call_function(ops::matmul, {x, g.call_function(op, arguments)});
      if (!weights) return product;
      return g.call_function(ops::softmax_int, {g.call_function(ops::div_Scalar, {product, 2}), -1});
    });
  };
  const std::string linear = "linear without bias: 1";
  CHECK(made(ops::transpose_int, {0, 1}) == linear);
  CHECK(made(ops::transpose_int, {-1, -2}) == linear);
  CHECK(made(ops::transpose_int, {0, 0}) == "");
  CHECK(made(ops::mT, {}) == linear);
  CHECK(made(ops::numpy_T, {}) == linear);
  CHECK(made(ops::permute, {Argument::list({1, 0})}) == linear);
  CHECK(made(ops::permute, {Argument::list({0, 1})}) == "");
  CHECK(made(ops::transpose_int, {0, 1}, false) == linear);
  CHECK(made(ops::transpose_int, {0, 1}, false, true) == "");
  CHECK(made(ops::transpose_int, {0, 1}, true, true) == linear);
}

TEST_CASE("scaled sums and products that are used elsewhere too are not taken for one") {
  CHECK(fired_on(rules::reroll, [](Graph& g) {
          Node *x = g.placeholder("x"), *t = g.call_function(ops::t, {attribute(g, "w", {4, 8})});
          return g.call_function(ops::addmm, {attribute(g, "b", {4}), x, t}, {{"alpha", 2}});
        }) == "");
  CHECK(fired_on(rules::reroll, [](Graph& g) {
          Node *x = g.placeholder("x"), *t = g.call_function(ops::t, {attribute(g, "w", {4, 8})});
          Node* product = g.call_function(ops::matmul, {x, t});
          return Argument::list({g.call_function(ops::add_Tensor, {product, attribute(g, "b", {4})}), product});
        }) == "linear without bias: 1");
}

TEST_CASE("a number minus a tensor") {
  const auto difference = [](Dtype dtype) {
    return rewritten_graph(rules::reroll, [=](Graph& g) {
      Node* y = shaped(g.placeholder("y"), {3}, dtype);
      Node* memory = g.call_function(ops::empty_like, {y}, {{"memory_format", MemoryFormat::preserve_format}});
      return g.call_function(ops::sub__Tensor, {g.call_function(ops::fill__Scalar, {memory, 2}), y});
    });
  };
  CHECK(difference(Dtype::float32) == "rsub = aten::rsub.Scalar(%y, 2)\nreturn %rsub\n");
  CHECK(difference(Dtype::int64).find("rsub") == std::string::npos);
  const auto quotient = [](double number, Dtype dtype) {
    return fired_on(rules::reroll, [=](Graph& g) {
      Node* y = shaped(g.placeholder("y"), {3}, dtype);
      Node* memory = g.call_function(ops::empty_like, {y}, {{"memory_format", MemoryFormat::preserve_format}});
      return g.call_function(ops::div__Tensor, {g.call_function(ops::fill__Scalar, {memory, number}), y});
    });
  };
  CHECK(quotient(1, Dtype::float32) == "one over tensor: 1");
  CHECK(quotient(2, Dtype::float32) == "");
  CHECK(quotient(1, Dtype::float16) == "");
}

TEST_CASE("a number minus a tensor, in a temporary that lies otherwise than it") {
  const auto fired = [](MemoryFormat format, std::vector<std::int64_t> stride, bool viewed) {
    return fired_on(rules::reroll, [=](Graph& g) {
      Node* y = g.placeholder("y");
      y->set_tensor_meta({.shape = {3, 4}, .stride = stride, .dtype = Dtype::float32});
      Node* memory = g.call_function(ops::empty_like, {y}, {{"memory_format", format}});
      Node* difference = g.call_function(ops::sub__Tensor, {g.call_function(ops::fill__Scalar, {memory, 2}), y});
      return viewed ? g.call_function(ops::view, {difference, Argument::list({12})}) : difference;
    });
  };
  const std::string one = "number minus tensor: 1";
  CHECK(fired(MemoryFormat::preserve_format, {1, 3}, true) == one);
  CHECK(fired(MemoryFormat::contiguous_format, {4, 1}, true) == one);
  CHECK(fired(MemoryFormat::contiguous_format, {1, 3}, true) == "");
  CHECK(fired(MemoryFormat::contiguous_format, {1, 3}, false) == one);
}

TEST_CASE("padding by the number of its mode, as torch::nn::functional::pad calls it") {
  const auto padded = [](std::int64_t mode, Argument value) {
    return rewritten_graph(rules::reroll, [&](Graph& g) {
      Node* x = g.placeholder("x");
      std::vector<Argument> arguments{x, Argument::list({1, 0}), mode};
      if (!value.is_none()) arguments.push_back(value);
      return g.call_function(ops::_pad_enum, arguments);
    });
  };
  const auto expected = [](const std::string& rest) {
    return "pad = aten::pad(%x, [1, 0]" + rest + ")\nreturn %pad\n";
  };
  CHECK(padded(3, {}) == expected(""));
  CHECK(padded(3, 0.5) == expected(", 'constant', 0.5"));
  CHECK(padded(0, {}) == expected(", 'reflect'"));
  CHECK(padded(1, {}) == expected(", 'replicate'"));
  CHECK(padded(2, {}) == expected(", 'circular'"));
  CHECK(padded(4, {}).find("_pad_enum") != std::string::npos);
}

TEST_CASE("slices without an end, which torch::indexing::Slice spells as the largest number") {
  const auto sliced = [](std::vector<Argument> rest) {
    return rewritten_graph(rules::reroll, [&](Graph& g) {
      rest.insert(rest.begin(), Argument(g.placeholder("x")));
      return g.call_function(ops::slice_Tensor, rest);
    });
  };
  CHECK(sliced({1, 2, 4611686018427387903}) == "slice_1 = aten::slice.Tensor(%x, 1, 2)\nreturn %slice_1\n");
  CHECK(sliced({1, 2, 4611686018427387903, 2}) == "slice_1 = aten::slice.Tensor(%x, 1, 2, None, 2)\nreturn %slice_1\n");
  CHECK(sliced({1, 2, 5}) == "slice_1 = aten::slice.Tensor(%x, 1, 2, 5)\nreturn %slice_1\n");
}
