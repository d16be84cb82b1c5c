// Dynamic dimensions: code that computes with plain C++ integers is traced at several sizes, and the one graph of them
// has to be what the code does at other sizes.
#include "fxx/trace/sizes.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "trace/sized.hpp"

using namespace fxx;
using namespace fxx::test;

TEST_CASE("numbers that follow from one size become arithmetic on it") {
  const auto lines = [](const std::string& text) { return size_line + text + end_line; };
  CHECK(number_of([](auto n) { return n; }) == lines("view = .view(%x, [%batch, 3])\n"));
  CHECK(number_of([](auto n) { return 2 * n; }) ==
        lines("mul = operator::mul(%batch, 2)\nview = .view(%x, [%mul, 3])\n"));
  CHECK(number_of([](auto n) { return n + 1; }) ==
        lines("add = operator::add(%batch, 1)\nview = .view(%x, [%add, 3])\n"));
  CHECK(number_of([](auto n) { return n - 4; }) ==
        lines("sub = operator::sub(%batch, 4)\nview = .view(%x, [%sub, 3])\n"));
  CHECK(number_of([](auto n) { return 3 * n + 7; }) ==
        lines("mul = operator::mul(%batch, 3)\nadd = operator::add(%mul, 7)\nview = .view(%x, [%add, 3])\n"));
  CHECK(number_of([](auto n) { return 512 - n; }) ==
        lines("sub = operator::sub(512, %batch)\nview = .view(%x, [%sub, 3])\n"));
  CHECK(number_of([](auto n) { return -n; }) == lines("neg = operator::neg(%batch)\nview = .view(%x, [%neg, 3])\n"));
  CHECK(number_of([](auto n) { return -2 * n - 1; }) ==
        lines("mul = operator::mul(%batch, -2)\nsub = operator::sub(%mul, 1)\nview = .view(%x, [%sub, 3])\n"));
  CHECK(number_of([](auto n) { return n * n; }) ==
        lines("mul = operator::mul(%batch, %batch)\nview = .view(%x, [%mul, 3])\n"));
  CHECK(number_of([](auto n) { return n / 2; }) ==
        lines("floordiv = operator::floordiv(%batch, 2)\nview = .view(%x, [%floordiv, 3])\n"));
  CHECK(number_of([](auto n) { return n % 5; }) ==
        lines("mod = operator::mod(%batch, 5)\nview = .view(%x, [%mod, 3])\n"));
  CHECK(number_of([](auto n) { return std::min<std::int64_t>(n, 20); }) ==
        lines("min = builtins::min(%batch, 20)\nview = .view(%x, [%min, 3])\n"));
  CHECK(number_of([](auto n) { return std::max<std::int64_t>(n, 12); }) ==
        lines("max = builtins::max(%batch, 12)\nview = .view(%x, [%max, 3])\n"));
}

TEST_CASE("every form of number is what C++ computes, at sizes that were never traced") {
  number_of([](auto n) { return n * (n + 1) / 2; });
  number_of([](auto n) { return 5 * n * n - 3 * n + 2; });
  number_of([](auto n) { return (n + 1) * (n - 1); });
  number_of([](auto n) { return n * n * n; });
  for (const std::int64_t k : {2, 3, 4, 5, 7, 8, 9, 12, 14, 16, 32, 60}) {
    CAPTURE(k);
    // What no traced size shows cannot be seen: n / 32 is 0 for all of 2, 11, 13, 24.
    const std::vector<SizeSet> given = {{k < 10 ? 2 : 3 * k}};
    const auto solved = [&](auto f) { number_of(f, given); };
    solved([&](auto n) { return n / k; });
    solved([&](auto n) { return (n + k - 1) / k; });
    solved([&](auto n) { return n % k; });
    solved([&](auto n) { return (k - n % k) % k; });      // padding to a multiple
    solved([&](auto n) { return (n + k - 1) / k * k; });  // the padded size
    solved([&](auto n) { return n / k * 64; });
    solved([&](auto n) { return n / k * n; });
    solved([&](auto n) { return (n / k) * (n / k) + 1; });  // patches and a token
    for (const std::int64_t kernel : {1, 3, 7})
      solved([&](auto n) { return (n + 2 * (kernel / 2) - kernel + k) / k; });  // a convolution with this stride
  }
  number_of([](auto n) { return ((n - 1) / 2 + 1 - 1) / 2 + 1; });  // two of them
  number_of([](auto n) { return 3 * n / 4; });
  number_of([](auto n) { return n - n / 2; });
  number_of([](auto n) { return 1000 - n / 2; });
}

TEST_CASE("examples of the user's are traced first, whatever they are") {
  for (const std::int64_t given : {1, 2, 3, 4, 7, 10, 16, 31, 32, 64, 100, 224}) {
    CAPTURE(given);
    number_of([](auto n) { return n / 8; }, {{given}});
    number_of([](auto n) { return (n + 3) / 7 + 1; }, {{given}});
    number_of([](auto n) { return 2 * n + 1; }, {{given}, {given + 5}});
  }
}

TEST_CASE("several sizes at once") {
  const std::vector<DynamicDim> dims = {{0, 0, "b"}, {0, 1, "s"}, {1, 1, "t"}};
  const auto check = [&](auto f) {
    const auto code = [&](Run& run, Proxy x, Proxy) { return x.view({f(run[0], run[1], run[2])}); };
    const Solved solved = solve(code, dims, {{2, 10, 30}});
    test::Random random(7);
    for (int i = 0; i < 40; ++i)
      check_at(code, solved.graph, dims,
               {static_cast<std::int64_t>(2 + random.below(90)), static_cast<std::int64_t>(2 + random.below(90)),
                static_cast<std::int64_t>(2 + random.below(90))});
    return test::body_of(solved.graph);
  };
  CHECK(check([](auto b, auto s, auto) { return b * s; }) ==
        "b = .size(%x, 0)\ns = .size(%x, 1)\nmul = operator::mul(%b, %s)\nview = .view(%x, [%mul])\nreturn %view\n");
  CHECK(check([](auto, auto s, auto t) { return s + t; }) ==
        "s = .size(%x, 1)\nt = .size(%y, 1)\nadd = operator::add(%s, %t)\nview = .view(%x, [%add])\nreturn %view\n");
  check([](auto, auto s, auto t) { return s - t + 100; });
  check([](auto b, auto s, auto t) { return 3 * b + 5 * s - 7 * t + 11; });
  check([](auto b, auto s, auto) { return 12 * b * s; });
  check([](auto b, auto s, auto t) { return b * s * t; });
  check([](auto b, auto s, auto t) { return b * (s + t); });
  check([](auto b, auto s, auto t) { return b * (s * t + 1); });
  check([](auto b, auto s, auto) { return b * (s + 1); });
  check([](auto, auto s, auto t) { return 3 * (s + 2) * (t - 1); });
  check([](auto b, auto s, auto t) { return b * (s + 2) * (t + 2); });
  check([](auto b, auto s, auto) { return b * (s / 4); });
  check([](auto, auto s, auto t) { return (s / 4) * (t / 4); });
  check([](auto, auto s, auto t) { return (s / 2) * (t / 2) * 256 + 1; });
  check([](auto b, auto s, auto t) { return b * ((s + 7) / 8) * ((t + 7) / 8); });
  check([](auto, auto s, auto t) { return (s + t) / 2; });
  check([](auto b, auto s, auto) { return b * s / 2; });
  check([](auto, auto s, auto t) { return std::min(s, t); });
  check([](auto, auto s, auto t) { return std::max(s, t); });
}

TEST_CASE("random expressions are found, or refused; none is taken for another") {
  test::Random random(11);
  const std::vector<DynamicDim> dims = {{0, 0, "a"}, {0, 1, "b"}};
  int found = 0, refused = 0;
  for (int i = 0; i < test::repeats(400, 60); ++i) {
    const auto small = [&] { return static_cast<std::int64_t>(random.below(9)) - 2; };
    const std::int64_t p = small(), q = small(), r = small(), k = 2 + static_cast<std::int64_t>(random.below(15));
    const std::size_t form = random.below(8);
    const auto number = [&](std::int64_t a, std::int64_t b) -> std::int64_t {
      switch (form) {
        case 0: return p * a + q * b + r;
        case 1: return p * a * b + q * a + r;
        case 2: return (a + k) / k + r;
        case 3: return (a * (p + 3)) * (b / k);
        case 4: return (a + p + 2) * (b + q + 2);
        case 5: return a % k + r;
        case 6: return (a / k) * (b / (k + 1)) * (p + 3);
        default: return std::min(a, b) * k + r;
      }
    };
    CAPTURE(form);
    CAPTURE(p);
    CAPTURE(q);
    CAPTURE(r);
    CAPTURE(k);
    const auto code = [&](Run& run, Proxy x, Proxy) { return x.view({number(run[0], run[1])}); };
    try {
      // What no traced size shows cannot be seen: a quotient that is 0 for all of them, or which one is the smaller of
      // two that are far apart.
      const SizeSet given = {static_cast<std::int64_t>(2 + random.below(form == 7 ? 15 : 40)), form == 6 ? 20 : 9};
      const Solved solved = solve(code, dims, {given});
      ++found;
      for (int j = 0; j < 30; ++j)
        check_at(code, solved.graph, dims,
                 {static_cast<std::int64_t>(2 + random.below(400)), static_cast<std::int64_t>(2 + random.below(400))});
    } catch (const TraceError& e) {
      CHECK(e.id() == ErrorId::size_not_solved);
      CHECK(form >= 5);  // a remainder and more, an extreme and more
      ++refused;
    }
  }
  CHECK(found > 4 * refused);
}

TEST_CASE("real numbers: roots, quotients and multiples of sizes") {
  const auto real_of = [](auto f) {
    return solved_batch([&](Run& run, Proxy x, Proxy) { return x * f(static_cast<double>(run[0])); });
  };
  const std::string mul = "return %mul\n";
  CHECK(real_of([](double n) { return std::sqrt(n); }) ==
        size_line + "sqrt = math::sqrt(%batch)\nmul = aten::mul.Scalar(%x, %sqrt)\n" + mul);
  CHECK(real_of([](double n) { return 1 / n; }) ==
        size_line + "truediv = operator::truediv(1.0, %batch)\nmul = aten::mul.Scalar(%x, %truediv)\n" + mul);
  CHECK(real_of([](double n) { return 1 / std::sqrt(n); }) == size_line +
                                                                  "sqrt = math::sqrt(%batch)\n"
                                                                  "truediv = operator::truediv(1.0, %sqrt)\n"
                                                                  "mul = aten::mul.Scalar(%x, %truediv)\n" +
                                                                  mul);
  CHECK(real_of([](double n) { return n / 2; }) ==
        size_line + "truediv = operator::truediv(%batch, 2.0)\nmul = aten::mul.Scalar(%x, %truediv)\n" + mul);
  // Whole numbers that are real stay real: an operator may do something else with an integer.
  CHECK(real_of([](double n) { return n; }) ==
        size_line + "truediv = operator::truediv(%batch, 1.0)\nmul = aten::mul.Scalar(%x, %truediv)\n" + mul);
  real_of([](double n) { return 2 / n; });
  real_of([](double n) { return 0.1 * n; });
  real_of([](double n) { return n * 0.3 + 0.25; });
  real_of([](double n) { return 1 / (n + 1); });
  real_of([](double n) { return (n - 1) / 2; });
  real_of([](double n) { return 1 / std::sqrt(2 * n); });
  real_of([](double n) { return std::sqrt(n) / 3; });
  real_of([](double n) { return 0.7 / std::sqrt(n); });
  real_of([](double n) { return 1 / (n * n); });
  real_of([](double n) { return n - 11; });  // also where it is 0

  const auto ratio = [](Run& run, Proxy x, Proxy) {
    return x * (static_cast<double>(run[2]) / static_cast<double>(run[1]));
  };
  const Solved solved = solve(ratio, image, {{1, 32, 48}});
  check_at(ratio, solved.graph, image, {2, 100, 37});
  CHECK(test::body_of(solved.graph) ==
        "h = .size(%x, 2)\nw = .size(%x, 3)\ntruediv = operator::truediv(%w, %h)\n"
        "mul = aten::mul.Scalar(%x, %truediv)\nreturn %mul\n");

  // In single precision the graph computes what the code does up to that precision.
  const auto single = [](Run& run, Proxy x, Proxy) {
    return x * static_cast<double>(1 / std::sqrt(static_cast<float>(run[0])));
  };
  CHECK(test::body_of(solve(single, batch).graph) == size_line +
                                                         "sqrt = math::sqrt(%batch)\n"
                                                         "truediv = operator::truediv(1.0, %sqrt)\n"
                                                         "mul = aten::mul.Scalar(%x, %truediv)\n" +
                                                         mul);
}

TEST_CASE("numbers are found wherever arguments hold them") {
  const auto code = [](Run& run, Proxy x, Proxy y) {
    const std::int64_t n = run[0];
    Graph& graph = x.tracer().graph();
    const Proxy sliced = x.index({Slice{0, 2 * n, n}, Ellipsis{}, std::nullopt, n - 1});
    const Proxy ends = x.slice(0, n, INT64_MAX, 1);
    const Proxy kept = y.view({n, -1});
    const UserFunction& function = register_function("tests::sizes_function");
    Node* user = graph.call_function(
        function,
        {Argument::tuple({n, Argument::list({x.node(), n + 1})}), Argument::dict({{"width", 3 * n}, {"name", "text"}})},
        {{"count", n}, {"scale", Complex{1, 2}}});
    return std::make_tuple(sliced, ends, kept, Proxy(x.tracer(), user), n * 2);
  };
  const Solved solved = solve(code, batch);
  for (std::int64_t n = 2; n < 60; ++n) check_at(code, solved.graph, batch, {n});
  const std::string text = to_string(solved.graph);
  CAPTURE(text);
  CHECK(text.find("slice(0, %mul, %batch), Ellipsis, None, %sub)") != text.npos);
  CHECK(text.find("(%x, 0, %batch, 9223372036854775807, 1)") != text.npos);
  CHECK(text.find("[%batch, -1]") != text.npos);
  CHECK(text.find("((%batch, [%x, %add]), {'width': %mul_1, 'name': 'text'})") != text.npos);
  CHECK(text.find("kwargs = {count: %batch, scale: (1+2j)}") != text.npos);
  CHECK(text.ends_with("return (getitem, slice_1, view, sizes_function, mul)"));
}

TEST_CASE("a number that is the schema's default at one of the sizes is a number like any other") {
  // As tracers record it: what is the default is left out.
  const auto diagonal = [](Run& run, Proxy x, Proxy) { return run[0] == 2 ? x.tril() : x.tril(run[0] - 2); };
  const Solved triangle = solve(diagonal, batch, {{2}});
  CHECK(test::body_of(triangle.graph) ==
        "batch = .size(%x, 0)\nsub = operator::sub(%batch, 2)\ntril = .tril(%x, %sub)\nreturn %tril\n");
  const auto alpha = [](Run& run, Proxy x, Proxy y) { return run[0] == 3 ? x.add(y) : x.add(y, run[0] - 2); };
  const std::vector<DynamicDim> from_three = {{0, 0, "batch", 3}};
  const Graph sum = solve(alpha, from_three, {{3}}).graph;
  for (const std::int64_t n : {4, 7, 50}) {
    check_at(diagonal, triangle.graph, batch, {n});
    check_at(alpha, sum, from_three, {n});
  }
}

TEST_CASE("what is computed twice is computed once, before its first use, and what nobody needs is not there") {
  const auto code = [](Run& run, Proxy x, Proxy y) {
    const std::int64_t b = run[0], s = run[1];
    const Proxy first = relu(x);
    const Proxy second = first.view({b * s, 2 * s + 1});
    return second.view({2 * s, b * s}) + y;
  };
  const std::vector<DynamicDim> dims = {{0, 0, "b"}, {0, 1, "s"}, {1, 0, "never asked for"}};
  CHECK(test::body_of(solve(code, dims).graph) ==
        "b = .size(%x, 0)\n"
        "s = .size(%x, 1)\n"
        "relu = aten::relu(%x)\n"
        "mul = operator::mul(%b, %s)\n"
        "mul_1 = operator::mul(%s, 2)\n"
        "add_1 = operator::add(%mul_1, 1)\n"
        "view = .view(%relu, [%mul, %add_1])\n"
        "view_1 = .view(%view, [%mul_1, %mul])\n"
        "add = aten::add.Tensor(%view_1, %y)\n"
        "return %add\n");
}

TEST_CASE("sizes are read from the first input that has the name; names are made fit for C++") {
  const auto code = [](Run& run, Proxy x, Proxy y) {
    const Proxy first = x.view({run[0]}), second = y.view({run[1], run[0]});
    return first + second;
  };
  const std::vector<DynamicDim> dims = {{1, -2, "x"}, {0, 0, "batch size"}, {0, 1, "x"}};
  const auto shaped = [&](Run& run, Proxy x, Proxy y) {
    Run::shaped(x, {run[1], run[0]});
    Run::shaped(y, {run[0], 7});
    return code(run, x, y);
  };
  CHECK(test::body_of(solve(shaped, dims).graph) ==
        "x_1 = .size(%y, 0)\n"
        "batch_size = .size(%x, 0)\n"
        "view = .view(%x, [%x_1])\n"
        "view_1 = .view(%y, [%batch_size, %x_1])\n"
        "add = aten::add.Tensor(%view, %view_1)\n"
        "return %add\n");
}
