// What calls on proxies record: functions, methods, operators, indices, lists, arguments left out.
#include <doctest/doctest.h>

#include <array>
#include <set>

#include "trace/recorded.hpp"

using namespace fxx;
using test::recorded;
using test::text_of;

// --- functions and methods -------------------------------------------------------------------------------------------

TEST_CASE("a function is recorded as call_function, a method as call_method") {
  CHECK(recorded([](auto x) { return relu(x); }) == "relu = aten::relu(%x)\nreturn %relu\n");
  CHECK(recorded([](auto x) { return x.relu(); }) == "relu = .relu(%x)\nreturn %relu\n");
  CHECK(recorded([](auto x, auto y) { return x.add(relu(y)); }, {"x", "y"}) ==
        "relu = aten::relu(%y)\nadd = .add(%x, %relu)\nreturn %add\n");
}

TEST_CASE("a recorded method knows its operator before anybody resolves it") {
  const Graph g = symbolic_graph([](auto x) { return x.softmax(-1).add(x).add(2); });
  std::vector<std::string> names;
  for (const Node* n : g.nodes())
    if (n->operation()) names.emplace_back(n->operation()->name);
  CHECK(names == std::vector<std::string>{"aten::softmax.int", "aten::add.Tensor", "aten::add.Scalar"});
}

TEST_CASE("an argument left out stays left out; what follows a gap goes by name") {
  CHECK(recorded([](auto x) { return x.sum(); }) == "sum = .sum(%x)\nreturn %sum\n");
  CHECK(recorded([](auto x) { return softmax(x, -1); }) == "softmax = aten::softmax.int(%x, -1)\nreturn %softmax\n");
  CHECK(recorded([](auto x) { return conv2d(x, x, {}, 2, 1); }) ==
        "conv2d = aten::conv2d(%x, %x, stride=2, padding=1)\nreturn %conv2d\n");
  CHECK(recorded([](auto x) {
          return conv2d(x, x, x, {2, 1});
        }) == "conv2d = aten::conv2d(%x, %x, %x, [2, 1])\nreturn %conv2d\n");
  // A default that is written out is an argument like any other.
  CHECK(recorded([](auto x) { return x.flatten(0, -1); }) == "flatten = .flatten(%x, 0, -1)\nreturn %flatten\n");
}

TEST_CASE("keyword-only parameters go by name") {
  CHECK(recorded([](auto x) { return gelu(x, "tanh"); }) ==
        "gelu = aten::gelu(%x, approximate='tanh')\nreturn %gelu\n");
  CHECK(recorded([](auto x) { return x.sum(Dtype::float64); }) == "sum = .sum(%x, dtype=torch.float64)\nreturn %sum\n");
  CHECK(recorded([](auto x) { return add(x, x, 2); }) == "add = aten::add.Tensor(%x, %x, alpha=2)\nreturn %add\n");
}

TEST_CASE("None is an argument, an empty pair of braces is none at all, unless the operator needs a list") {
  CHECK(recorded([](auto x) { return linear(x, x, std::nullopt); }) ==
        "linear = aten::linear(%x, %x, None)\nreturn %linear\n");
  CHECK(recorded([](auto x) { return linear(x, x, {}); }) == "linear = aten::linear(%x, %x)\nreturn %linear\n");
  CHECK(recorded([](auto x) { return x.reshape({}); }) == "reshape = .reshape(%x, [])\nreturn %reshape\n");
}

TEST_CASE("immediates of every kind keep their kind") {
  CHECK(recorded([](auto x) { return x.to(Dtype::bfloat16); }) == "to = .to(%x, torch.bfloat16)\nreturn %to\n");
  CHECK(recorded([](auto x) { return x.contiguous(MemoryFormat::channels_last); }) ==
        "contiguous = .contiguous(%x, memory_format=torch.channels_last)\nreturn %contiguous\n");
  CHECK(recorded([](auto x) { return x.mul(2).mul(2.0).mul(2.5f); }) ==
        "mul = .mul(%x, 2)\nmul_1 = .mul(%mul, 2.0)\nmul_2 = .mul(%mul_1, 2.5)\nreturn %mul_2\n");
  CHECK(recorded([](auto x) { return dropout(x, 0.5, true); }) ==
        "dropout = aten::dropout(%x, 0.5, True)\nreturn %dropout\n");
  CHECK(recorded([](auto x) { return x.clamp(std::nullopt, std::optional<double>(6.0)); }) ==
        "clamp = .clamp(%x, None, 6.0)\nreturn %clamp\n");
}

TEST_CASE("a method whose object is not the first parameter is recorded as the function") {
  CHECK(recorded([](auto x, auto c) { return x.where(c, x); }, {"x", "c"}) ==
        "where = aten::where.self(%c, %x, %x)\nreturn %where\n");
}

TEST_CASE("a function without a proxy among its arguments is recorded nowhere") {
  const auto fault = test::fault_of<TraceError>([] { (void)functional::cat(functional::TensorListArg{}); });
  CHECK(fault.id == 308);
  CHECK(fault.says("torch::"));
}

// --- operators -------------------------------------------------------------------------------------------------------

TEST_CASE("arithmetic between tensors, and with a number on the right") {
  CHECK(recorded([](auto x) { return ((x + x) - x) * x / x; }) ==
        "add = aten::add.Tensor(%x, %x)\nsub = aten::sub.Tensor(%add, %x)\nmul = aten::mul.Tensor(%sub, %x)\n"
        "div = aten::div.Tensor(%mul, %x)\nreturn %div\n");
  CHECK(recorded([](auto x) { return ((x + 1) - 2) * 3 / 4.5 % 2; }) ==
        "add = aten::add.Scalar(%x, 1)\nsub = aten::sub.Scalar(%add, 2)\nmul = aten::mul.Scalar(%sub, 3)\n"
        "div = aten::div.Scalar(%mul, 4.5)\nremainder = aten::remainder.Scalar(%div, 2)\nreturn %remainder\n");
}

TEST_CASE("a number on the left means what it means for a tensor") {
  CHECK(recorded([](auto x) { return 1 + x; }) == "add = aten::add.Scalar(%x, 1)\nreturn %add\n");
  CHECK(recorded([](auto x) { return 1 - x; }) == "rsub = aten::rsub.Scalar(%x, 1)\nreturn %rsub\n");
  CHECK(recorded([](auto x) { return 2 * x; }) == "mul = aten::mul.Scalar(%x, 2)\nreturn %mul\n");
  CHECK(recorded([](auto x) { return 2 / x; }) ==
        "full_like = aten::full_like(%x, 2)\ndiv = aten::div.Tensor(%full_like, %x)\nreturn %div\n");
  CHECK(recorded([](auto x) { return 7 % x; }) ==
        "remainder = aten::remainder.Scalar_Tensor(7, %x)\nreturn %remainder\n");
  CHECK(recorded([](auto x) { return 1 < x; }) == "gt = aten::gt.Scalar(%x, 1)\nreturn %gt\n");
  CHECK(recorded([](auto x) { return 1 <= x; }) == "ge = aten::ge.Scalar(%x, 1)\nreturn %ge\n");
  CHECK(recorded([](auto x) { return 1 > x; }) == "lt = aten::lt.Scalar(%x, 1)\nreturn %lt\n");
  CHECK(recorded([](auto x) { return 1 >= x; }) == "le = aten::le.Scalar(%x, 1)\nreturn %le\n");
  CHECK(recorded([](auto x) { return 1 == x; }) == "eq = aten::eq.Scalar(%x, 1)\nreturn %eq\n");
  CHECK(recorded([](auto x) { return 1 != x; }) == "ne = aten::ne.Scalar(%x, 1)\nreturn %ne\n");
  CHECK(recorded([](auto x) { return 6 & (3 ^ (2 | x)); }) ==
        "bitwise_or = aten::bitwise_or.Scalar(%x, 2)\nbitwise_xor = aten::bitwise_xor.Scalar(%bitwise_or, 3)\n"
        "bitwise_and = aten::bitwise_and.Scalar(%bitwise_xor, 6)\nreturn %bitwise_and\n");
}

TEST_CASE("a real number on the left takes the dtype of the tensor first, as LibTorch has it") {
  const auto minus = [](const std::string& number) {
    return "full_like = aten::full_like(%x, " + number + ")\nsub = aten::sub.Tensor(%full_like, %x)\nreturn %sub\n";
  };
  CHECK(recorded([](auto x) { return 1.5 - x; }) == minus("1.5"));
  CHECK(recorded([](auto x) { return x.size(0) * 0.5 - x; }).ends_with(minus("%mul")));
  CHECK(recorded([](auto x) { return 7.5 % x; }) ==
        "full_like = aten::full_like(%x, 7.5)\nremainder = aten::remainder.Tensor(%full_like, %x)\nreturn "
        "%remainder\n");
  CHECK(recorded([](auto x) { return 1.5 * x; }) == "mul = aten::mul.Scalar(%x, 1.5)\nreturn %mul\n");
  for (const Dtype dtype : {Dtype::float32, Dtype::int64}) {
    Graph g;
    Tracer tracer(g);
    Node* x = g.placeholder("x");
    x->set_tensor_meta({.shape = {2}, .stride = {1}, .dtype = dtype});
    CHECK((1.5 - Proxy(tracer, x)).node()->operation()->name ==
          (dtype == Dtype::float32 ? "aten::rsub.Scalar" : "aten::sub.Tensor"));
    CHECK((1.5 % Proxy(tracer, x)).node()->operation()->name ==
          (dtype == Dtype::float32 ? "aten::remainder.Scalar_Tensor" : "aten::remainder.Tensor"));
  }
}

TEST_CASE("what C++ has no operator for is a function, with a number on either side") {
  CHECK(recorded([](auto x, auto y) { return matmul(x, y); }, {"x", "y"}) ==
        "matmul = aten::matmul(%x, %y)\nreturn %matmul\n");
  CHECK(recorded([](auto x) { return pow(2, pow(x, 3)); }) ==
        "pow = aten::pow.Tensor_Scalar(%x, 3)\npow_1 = aten::pow.Scalar(2, %pow)\nreturn %pow_1\n");
  CHECK(recorded([](auto x) { return floor_divide(floor_divide(x, 2), x); }) ==
        "floor_divide = aten::floor_divide.Scalar(%x, 2)\n"
        "floor_divide_1 = aten::floor_divide(%floor_divide, %x)\nreturn %floor_divide_1\n");
  CHECK(recorded([](auto x) { return bitwise_right_shift(bitwise_left_shift(x, 3), x); }) ==
        "bitwise_left_shift = aten::bitwise_left_shift.Tensor_Scalar(%x, 3)\n"
        "bitwise_right_shift = aten::bitwise_right_shift.Tensor(%bitwise_left_shift, %x)\n"
        "return %bitwise_right_shift\n");
}

TEST_CASE("comparisons, bits and signs") {
  const auto two = [](auto f) { return recorded(f, {"x", "y"}); };
  CHECK(two([](auto x, auto y) { return x < y; }) == "lt = aten::lt.Tensor(%x, %y)\nreturn %lt\n");
  CHECK(two([](auto x, auto y) { return x <= y; }) == "le = aten::le.Tensor(%x, %y)\nreturn %le\n");
  CHECK(two([](auto x, auto y) { return x > y; }) == "gt = aten::gt.Tensor(%x, %y)\nreturn %gt\n");
  CHECK(two([](auto x, auto y) { return x >= y; }) == "ge = aten::ge.Tensor(%x, %y)\nreturn %ge\n");
  CHECK(two([](auto x, auto y) { return x == y; }) == "eq = aten::eq.Tensor(%x, %y)\nreturn %eq\n");
  CHECK(two([](auto x, auto y) { return x != y; }) == "ne = aten::ne.Tensor(%x, %y)\nreturn %ne\n");
  CHECK(two([](auto x, auto y) { return x & y; }) ==
        "bitwise_and = aten::bitwise_and.Tensor(%x, %y)\nreturn %bitwise_and\n");
  CHECK(two([](auto x, auto y) { return x | y; }) ==
        "bitwise_or = aten::bitwise_or.Tensor(%x, %y)\nreturn %bitwise_or\n");
  CHECK(two([](auto x, auto y) { return x ^ y; }) ==
        "bitwise_xor = aten::bitwise_xor.Tensor(%x, %y)\nreturn %bitwise_xor\n");
  CHECK(recorded([](auto x) { return (x & 1) | 2; }) ==
        "bitwise_and = aten::bitwise_and.Scalar(%x, 1)\nbitwise_or = aten::bitwise_or.Scalar(%bitwise_and, 2)\nreturn "
        "%bitwise_or\n");
  CHECK(recorded([](auto x) { return -x; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(recorded([](auto x) { return ~x; }) == "bitwise_not = aten::bitwise_not(%x)\nreturn %bitwise_not\n");
}

TEST_CASE("in place operators change their object, as in LibTorch, and the proxy goes on as the result") {
  CHECK(recorded([](auto x) { return x += 1; }) == "add_ = aten::add_.Scalar(%x, 1)\nreturn %add_\n");
  CHECK(recorded(
            [](auto x, auto y) {
              x -= y;
              x *= 2;
              x /= x;
              return x;
            },
            {"x", "y"}) ==
        "sub_ = aten::sub_.Tensor(%x, %y)\nmul_ = aten::mul_.Scalar(%sub_, 2)\ndiv_ = aten::div_.Tensor(%mul_, "
        "%mul_)\nreturn %div_\n");
  CHECK(recorded([](auto x, auto y) { return ((x &= y) |= y) ^= y; }, {"x", "y"}) ==
        "bitwise_and_ = aten::bitwise_and_.Tensor(%x, %y)\nbitwise_or_ = aten::bitwise_or_.Tensor(%bitwise_and_, %y)\n"
        "bitwise_xor_ = aten::bitwise_xor_.Tensor(%bitwise_or_, %y)\nreturn %bitwise_xor_\n");
  CHECK(recorded([](auto x) {
          x.add_(1);
          return x;
        }) == "add_ = .add_(%x, 1)\nreturn %x\n");
}

TEST_CASE("what is assigned to a part of a tensor goes into the tensor; a variable gets a new value") {
  CHECK(recorded(
            [](auto x, auto y) {
              x[0] = y;
              x[1] = 2.5;
              x = y;
              return x;
            },
            {"x", "y"}) ==
        "getitem = operator::getitem(%x, 0)\ncopy_ = .copy_(%getitem, %y)\ngetitem_1 = operator::getitem(%x, 1)\n"
        "fill_ = .fill_(%getitem_1, 2.5)\nreturn %y\n");
}

TEST_CASE("a literal zero is a number, not a pointer, with the functions brought in by name too") {
  using namespace fxx::functional;
  CHECK(recorded([](Proxy x) { return x.sum() > 0; }) == "sum = .sum(%x)\ngt = aten::gt.Scalar(%sum, 0)\nreturn %gt\n");
  CHECK(recorded([](Proxy x) { return 0 * x; }) == "mul = aten::mul.Scalar(%x, 0)\nreturn %mul\n");
}

// --- indices and lists -----------------------------------------------------------------------------------------------

TEST_CASE("an index of every kind is recorded as getitem") {
  CHECK(recorded([](auto x) { return x[3]; }) == "getitem = operator::getitem(%x, 3)\nreturn %getitem\n");
  CHECK(recorded([](auto x) { return x[-1]; }) == "getitem = operator::getitem(%x, -1)\nreturn %getitem\n");
  CHECK(recorded([](auto x) { return x[x > 0]; }) ==
        "gt = aten::gt.Scalar(%x, 0)\ngetitem = operator::getitem(%x, %gt)\nreturn %getitem\n");
  CHECK(recorded([](auto x) {
          return x[Slice{1, std::nullopt, 2}];
        }) == "getitem = operator::getitem(%x, slice(1, None, 2))\nreturn %getitem\n");
  CHECK(recorded([](auto x) {
          return x.index({Ellipsis{}, std::nullopt, 0, Slice{}, true});
        }) == "getitem = operator::getitem(%x, (Ellipsis, None, 0, slice(None, None, None), True))\nreturn %getitem\n");
  CHECK(recorded([](auto x) {
          const auto best = x.argmax();
          const auto n = x.size(0);
          return x.index({best, n, best});
        }) ==
        "argmax = .argmax(%x)\nsize = .size(%x, 0)\ngetitem = operator::getitem(%x, (%argmax, %size, %argmax))\nreturn "
        "%getitem\n");
}

TEST_CASE("lists of tensors from braces, vectors and arrays") {
  using functional::cat;
  const std::string expected = "relu = .relu(%x)\ncat = aten::cat([%x, %relu], 1)\nreturn %cat\n";
  CHECK(recorded([](auto x) {
          const auto y = x.relu();
          return cat({x, y}, 1);
        }) == expected);
  CHECK(recorded([](auto x) {
          const auto y = x.relu();
          return cat(std::vector{x, y}, 1);
        }) == expected);
  CHECK(recorded([](auto x) {
          const auto y = x.relu();
          return cat(std::array{x, y}, 1);
        }) == expected);
  CHECK(recorded([](auto x) { return cat(std::vector<Proxy>(3, x)); }) ==
        "cat = aten::cat([%x, %x, %x])\nreturn %cat\n");
}

TEST_CASE("lists of numbers may hold numbers that are known only when the graph runs") {
  CHECK(recorded([](auto x) {
          return x.view({x.size(0), -1});
        }) == "size = .size(%x, 0)\nview = .view(%x, [%size, -1])\nreturn %view\n");
  CHECK(recorded([](auto x) {
          return x.permute(std::vector<std::int64_t>{1, 0});
        }) == "permute = .permute(%x, [1, 0])\nreturn %permute\n");
}

TEST_CASE("one number stands for a list of fixed length, and is a list of one elsewhere") {
  CHECK(recorded([](auto x) { return max_pool2d(x, 3); }) ==
        "max_pool2d = aten::max_pool2d(%x, 3)\nreturn %max_pool2d\n");
  CHECK(recorded([](auto x) { return x.sum(1); }) == "sum = .sum(%x, 1)\nreturn %sum\n");
  CHECK(recorded([](auto x) {
          const auto n = x.size(0);
          return x.view(-1).expand(n);
        }) == "size = .size(%x, 0)\nview = .view(%x, [-1])\nexpand = .expand(%view, [%size])\nreturn %expand\n");
  CHECK(recorded([](auto x) { return x.split(2)[0]; }) ==
        "split = .split(%x, 2)\ngetitem = operator::getitem(%split, 0)\nreturn %getitem\n");
}

TEST_CASE("a list of tensors is indexed and unpacked; each item is taken once") {
  CHECK(recorded([](auto x) {
          const auto parts = x.chunk(2, 1);
          const auto [a, b] = parts.template unpack<2>();
          const auto first = a * parts[0];
          const auto second = b * parts.at(1);
          return first + second;
        }) ==
        "chunk = .chunk(%x, 2, 1)\ngetitem = operator::getitem(%chunk, 0)\nmul = aten::mul.Tensor(%getitem, %getitem)\n"
        "getitem_1 = operator::getitem(%chunk, 1)\nmul_1 = aten::mul.Tensor(%getitem_1, %getitem_1)\n"
        "add = aten::add.Tensor(%mul, %mul_1)\nreturn %add\n");
  CHECK(recorded([](auto x) { return cat(x.chunk(3)); }) ==
        "chunk = .chunk(%x, 3)\ncat = aten::cat(%chunk)\nreturn %cat\n");
}

TEST_CASE("several results: items that nobody uses make no node") {
  CHECK(recorded([](auto x) { return std::get<0>(x.max(1)); }) ==
        "max = .max(%x, 1)\ngetitem = operator::getitem(%max, 0)\nreturn %getitem\n");
  CHECK(recorded([](auto x) {
          const auto [values, indices] = topk(x, 3);
          return values.gather(0, indices);
        }) ==
        "topk = aten::topk(%x, 3)\ngetitem = operator::getitem(%topk, 0)\ngetitem_1 = operator::getitem(%topk, 1)\n"
        "gather = .gather(%getitem, 0, %getitem_1)\nreturn %gather\n");
}

// --- where it was recorded -------------------------------------------------------------------------------------------

TEST_CASE("every node knows the line of the user's that made it, and never one of this library's") {
  int line = 0;
  const Graph g = symbolic_graph([&](auto x) {
    line = __LINE__ + 2;
    // clang-format off
    return relu(x + 1).mul(x) / (2 / x.index({0})) + x.chunk(2)[0] + x.size(0) * 2 + sqrt(x.size(1)) - (x += 1).select(0, 0);
    // clang-format on
  });
  std::set<std::string> without;
  for (const Node* n : g.nodes()) {
    CAPTURE(format_node(*n));
    if (n->location().line() == 0) {
      without.insert(text_of(*n).substr(0, text_of(*n).find('(')));
    } else {
      CHECK(std::string_view(n->location().file_name()).ends_with("trace/record.cpp"));
      CHECK(static_cast<int>(n->location().line()) == line);
    }
  }
  // Inputs, the output, items of lists, arithmetic on numbers: nothing there could take a line.
  CHECK(without == std::set<std::string>{"input x", "return %sub", "operator::getitem", "operator::mul"});
}
