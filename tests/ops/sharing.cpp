// What is known of values before they run: which share memory, which lie alike, which numbers are never negative; names
// that mean one operator; dtypes that hold all values of another.
#include "fxx/ops/sharing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fxx/ops/numbers.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/synonyms.hpp"

using namespace fxx;

namespace {
std::set<const Node*> set_of(const std::vector<const Node*>& nodes) { return {nodes.begin(), nodes.end()}; }
}  // namespace

TEST_CASE("views, and views of views, lie in the memory of their value; what is computed does not") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* turned = g.call_function(ops::transpose_int, {x, 0, 1});
  Node* row = g.call_function(ops::select_int, {turned, 0, 0});
  Node* sum = g.call_function(ops::add_Tensor, {row, 1});
  Node* in_place = g.call_function(ops::relu_, {x});
  g.output(sum);
  CHECK(set_of(sharing_memory(*x)) == std::set<const Node*>{x, turned, row, in_place});
  CHECK(set_of(sharing_memory(*turned)) == std::set<const Node*>{turned, row});
  CHECK(sharing_memory(*x, 2).size() == 2);
  CHECK(sharing_memory(*x).front() == x);
  CHECK_FALSE(reaches_output(*x));
  CHECK(reaches_output(*sum));
}

TEST_CASE("a value leaves the graph by a view of it") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* made = g.call_function(ops::neg, {x});
  Node* view = g.call_function(ops::view, {made, Argument::list({-1})});
  g.output(view);
  CHECK(reaches_output(*made));
  CHECK_FALSE(reaches_output(*x));
}

TEST_CASE("pointwise operators and copies keep the layout that they meet, products make their own") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* y = g.call_function(ops::relu, {x});
  Node* copy = g.call_function(ops::clone, {y});
  Node* as = g.call_function(ops::clone, {y}, {{"memory_format", MemoryFormat::channels_last}});
  Node* product = g.call_function(ops::matmul, {copy, copy});
  Node* output = g.output(product);
  CHECK(keeps_layout(*y, *x));
  CHECK(keeps_layout(*copy, *y));
  CHECK_FALSE(keeps_layout(*as, *y));
  CHECK_FALSE(keeps_layout(*product, *copy));
  CHECK_FALSE(keeps_layout(*output, *product));
  const std::vector<Node*> alike = lying_alike(*x, 10);
  CHECK(std::set<Node*>(alike.begin(), alike.end()) == std::set<Node*>{x, y, copy});
  CHECK(lying_alike(*x, 2).size() == 2);
}

TEST_CASE("what keeps the order of contiguous tensors, and what makes it whatever it is given") {
  for (const Operator* op : {&ops::matmul.info(), &ops::linear.info(), &ops::bmm.info(), &ops::contiguous.info()}) {
    CAPTURE(op->name);
    CHECK(gives_order(*op));
    CHECK(keeps_order(*op));
  }
  for (const Operator* op : {&ops::relu.info(), &ops::softmax_int.info(), &ops::view.info(), &ops::layer_norm.info()}) {
    CAPTURE(op->name);
    CHECK_FALSE(gives_order(*op));
    CHECK(keeps_order(*op));
  }
  for (const Operator* op : {&ops::transpose_int.info(), &ops::permute.info(), &ops::conv2d.info()}) {
    CAPTURE(op->name);
    CHECK_FALSE(gives_order(*op));
    CHECK_FALSE(keeps_order(*op));
  }
}

TEST_CASE("numbers that are never negative: sizes, and arithmetic that keeps to them") {
  Graph g;
  Node* x = g.placeholder("x");
  const auto call = [&](const char* name, std::vector<Argument> args) {
    const Operator* op = find_operator(name);
    REQUIRE_MESSAGE(op, name);
    return g.call_function(*op, args);
  };
  Node* size = call("aten::size.int", {x, 0});
  CHECK(is_never_negative(Argument(0)));
  CHECK(is_never_negative(Argument(2.5)));
  CHECK_FALSE(is_never_negative(Argument(-1)));
  CHECK_FALSE(is_never_negative(Argument()));
  CHECK_FALSE(is_never_negative(Argument(x)));
  CHECK(is_never_negative(Argument(size)));
  CHECK(is_never_negative(Argument(call("operator::add", {size, 3}))));
  CHECK_FALSE(is_never_negative(Argument(call("operator::add", {size, -3}))));
  Node* less = call("operator::sub", {size, 3});
  CHECK_FALSE(is_never_negative(Argument(less)));
  CHECK_FALSE(is_never_negative(Argument(call("operator::mul", {less, 2}))));
  CHECK(is_never_negative(Argument(call("builtins::max", {less, 0}))));
  CHECK_FALSE(is_never_negative(Argument(call("builtins::max", {less, -1}))));
  // Python's remainder has the sign of the divisor, C++'s that of what is divided.
  CHECK(is_never_negative(Argument(call("operator::mod", {less, 4}))));
  CHECK_FALSE(is_never_negative(Argument(call("operator::mod", {size, -4}))));
  CHECK_FALSE(is_never_negative(Argument(call("std::modulus", {less, 4}))));
  CHECK(is_never_negative(Argument(call("std::modulus", {size, -4}))));
}

TEST_CASE("a synonym means an operator of the table with the same parameters, and is no name of one itself") {
  for (const Synonym& s : synonyms) {
    CAPTURE(s.name);
    CHECK(meaning_of(s.name) == s.meaning);
    CHECK(meaning_of(s.meaning) == s.meaning);
    const Operator *one = find_operator(s.name), *other = find_operator(s.meaning);
    REQUIRE(other);
    if (!one) continue;  // LibTorch has it, the table does not
    REQUIRE(one->arity() == other->arity());
    for (int i = 0; i < one->arity(); ++i)
      CHECK(one->parameters[static_cast<std::size_t>(i)].type == other->parameters[static_cast<std::size_t>(i)].type);
  }
  CHECK(meaning_of("aten::relu") == "aten::relu");
  CHECK(meaning_of("") == "");
}

namespace {
/// A dtype as numbers: integers from `low` to `high`, or floats of so many bits and exponents.
struct Kind {
  Dtype dtype;
  double low, high;     // exact in double, but for the largest int64, which only int64 itself needs
  int bits, exponents;  // of floats: of the mantissa, the largest exponent; 0: an integer
};
constexpr Kind kinds[] = {{Dtype::boolean, 0, 1, 0, 0},
                          {Dtype::uint8, 0, 255, 0, 0},
                          {Dtype::int8, -128, 127, 0, 0},
                          {Dtype::int16, -32768, 32767, 0, 0},
                          {Dtype::int32, -2147483648.0, 2147483647.0, 0, 0},
                          {Dtype::int64, -9223372036854775808.0, 9223372036854775807.0, 0, 0},
                          {Dtype::float16, 0, 0, 11, 15},
                          {Dtype::bfloat16, 0, 0, 8, 127},
                          {Dtype::float32, 0, 0, 24, 127},
                          {Dtype::float64, 0, 0, 53, 1023}};
bool exists_in(const Kind& small, const Kind& large) {
  if (small.dtype == large.dtype) return true;
  if (small.bits) return large.bits >= small.bits && large.exponents >= small.exponents;
  if (!large.bits) return large.low <= small.low && large.high >= small.high;
  // All integers up to 2^bits are floats, and the next one is not.
  return std::max(-small.low, small.high) <= std::exp2(large.bits);
}
}  // namespace

TEST_CASE("a dtype holds all values of another exactly where each of them exists in it") {
  for (const Kind& small : kinds)
    for (const Kind& large : kinds) {
      CAPTURE(name_of(small.dtype));
      CAPTURE(name_of(large.dtype));
      CHECK(holds_all(small.dtype, large.dtype) == exists_in(small, large));
    }
}
