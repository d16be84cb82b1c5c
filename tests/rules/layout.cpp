// rules::layout: conversions of memory formats that meet.
#include "fxx/rules/layout.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using test::rewritten_graph;
using test::shaped;

namespace {
std::string made(std::vector<std::int64_t> stride, auto f) {
  return rewritten_graph(rules::layout, [&](Graph& g) {
    Node* x = g.placeholder("x");
    x->set_tensor_meta({.shape = {2, 3, 4, 5}, .stride = stride, .dtype = Dtype::float32});
    return f(g, x);
  });
}
const std::vector<std::int64_t> first = {60, 20, 5, 1}, last = {60, 1, 15, 3};
const auto contiguous = [](Graph& g, Node* x) { return g.call_function(ops::contiguous, {x}); };
const auto channels_last = [](Graph& g, Node* x) {
  return g.call_function(ops::contiguous, {x}, {{"memory_format", MemoryFormat::channels_last}});
};
}  // namespace

TEST_CASE("what lies so already is not converted") {
  CHECK(made(first, contiguous) == "return %x\n");
  CHECK(made(last, channels_last) == "return %x\n");
  CHECK(made(last, contiguous) != "return %x\n");
  CHECK(made(first, channels_last) != "return %x\n");
  CHECK(made({}, contiguous) != "return %x\n");
}

TEST_CASE("of two conversions the last one counts") {
  CHECK(made({}, [](Graph& g, Node* x) { return contiguous(g, contiguous(g, x)); }) ==
        "contiguous_1 = aten::contiguous(%x)\nreturn %contiguous_1\n");
  CHECK(made({}, [](Graph& g, Node* x) {
          return channels_last(g, contiguous(g, x));
        }).find("= aten::contiguous(%x, memory_format=") != std::string::npos);
}

TEST_CASE("a reshape makes its own copy") {
  CHECK(made(last, [](Graph& g, Node* x) {
          return g.call_function(ops::view, {contiguous(g, x), Argument::list({2, 60})});
        }) == "reshape = aten::reshape(%x, [2, 60])\nreturn %reshape\n");
  CHECK(made(last, [](Graph& g, Node* x) {
          Node* copy = contiguous(g, x);
          Node* view = g.call_function(ops::view, {copy, Argument::list({2, 60})});
          return Argument::list({view, copy});
        }).find("reshape") == std::string::npos);
  // A pair of the transpose would not lie side by side.
  CHECK(test::fired_on(rules::layout, [](Graph& g) {
          Node* x = shaped(g.placeholder("x"), {2, 6, 4});
          Node* copy = contiguous(g, g.call_function(ops::transpose_int, {x, 1, 2}));
          Node* view = g.call_function(ops::view, {copy, Argument::list({2, 4, 3, 2})});
          return g.call_function(ops::view_as_complex, {view});
        }) == "");
}
