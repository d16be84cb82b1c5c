// Numbers that are known only when the graph runs: what is recorded of them, and that nothing of C++ can look at them.
#include <doctest/doctest.h>

#include <cmath>

#include "trace/recorded.hpp"

using namespace fxx;
using test::fault_of;
using test::recorded;

TEST_CASE("sizes, strides and counts are nodes") {
  CHECK(recorded([](auto x) {
          const auto a = x.size(-1);
          const auto b = x.stride(0);
          const auto c = x.dim();
          const auto d = x.numel();
          return std::make_tuple(a, b, c, d);
        }) ==
        "size = .size(%x, -1)\nstride = .stride(%x, 0)\ndim = .dim(%x)\nnumel = .numel(%x)\nreturn (%size, %stride, "
        "%dim, %numel)\n");
}

TEST_CASE("arithmetic on numbers records Python's operators, on either side of a constant") {
  const auto with_size = [](auto f) { return recorded([f](auto x) { return f(x.size(0)); }); };
  CHECK(with_size([](auto n) { return n + 1; }) == "size = .size(%x, 0)\nadd = operator::add(%size, 1)\nreturn %add\n");
  CHECK(with_size([](auto n) { return 1 + n; }) == "size = .size(%x, 0)\nadd = operator::add(1, %size)\nreturn %add\n");
  CHECK(with_size([](auto n) { return n - n; }) ==
        "size = .size(%x, 0)\nsub = operator::sub(%size, %size)\nreturn %sub\n");
  CHECK(with_size([](auto n) { return n * 2.5; }) ==
        "size = .size(%x, 0)\nmul = operator::mul(%size, 2.5)\nreturn %mul\n");
  CHECK(with_size([](auto n) { return n % 4; }) == "size = .size(%x, 0)\nmod = operator::mod(%size, 4)\nreturn %mod\n");
  CHECK(with_size([](auto n) { return -n; }) == "size = .size(%x, 0)\nneg = operator::neg(%size)\nreturn %neg\n");
  CHECK(with_size([](auto n) { return sqrt(n); }) == "size = .size(%x, 0)\nsqrt = math::sqrt(%size)\nreturn %sqrt\n");
  CHECK(with_size([](auto n) {
          n += 1;
          n -= 2;
          n *= n;
          n /= 3;
          return n;
        }) ==
        "size = .size(%x, 0)\nadd = operator::add(%size, 1)\nsub = operator::sub(%add, 2)\nmul = operator::mul(%sub, "
        "%sub)\n"
        "divides = std::divides(%mul, 3)\nreturn %divides\n");
}

TEST_CASE("division is C++'s: of integers without a remainder, of real numbers exact") {
  const auto divides = [](auto f) {
    return recorded([f](auto x) { return f(x.size(0)); }).find("operator::floordiv(") != std::string::npos;
  };
  CHECK(divides([](auto n) { return n / 2; }));
  CHECK(divides([](auto n) { return 100 / n; }));
  CHECK(divides([](auto n) { return (n * 3 + n) / (n % 5); }));
  CHECK_FALSE(divides([](auto n) { return n / 2.0; }));
  CHECK_FALSE(divides([](auto n) { return 1.0 / n; }));
  CHECK_FALSE(divides([](auto n) { return 1 / sqrt(n); }));
  CHECK_FALSE(divides([](auto n) { return (n * 0.5) / 2; }));
  CHECK_FALSE(divides([](auto n) { return n / (-(n + 0.5f) % 3); }));
  CHECK_FALSE(divides([](auto n) { return max(n * 0.5, 4) / 2; }));
  // What was divided exactly is real from then on.
  CHECK(recorded([](auto x) { return 1.0 / x.size(0) / 2; }) ==
        "size = .size(%x, 0)\ntruediv = operator::truediv(1.0, %size)\ntruediv_1 = operator::truediv(%truediv, "
        "2)\nreturn %truediv_1\n");
}

TEST_CASE("`/` and `%` are Python's operators of what is never negative, and C++'s of what may be") {
  // Which operator the last node calls, of a size and a number that nothing is known of.
  const auto last = [](auto f) {
    Graph g;
    Tracer tracer(g);
    const ScalarProxy n = tracer.placeholder("x").size(0), any(tracer, g.placeholder("any"));
    return std::string(f(n, any).node()->operation()->name);
  };
  const auto floors = [&](auto f) {
    const bool divides = last([f](auto n, auto any) { return f(n, any) / 2; }) == "operator::floordiv";
    CHECK(divides == (last([f](auto n, auto any) { return f(n, any) % 2; }) == "operator::mod"));
    CHECK(divides == (last([f](auto n, auto any) { return 7 / f(n, any); }) == "operator::floordiv"));
    CHECK(divides == (last([f](auto n, auto any) { return 7 % f(n, any); }) == "operator::mod"));
    return divides;
  };
  using std::abs, std::ceil, std::max, std::min, std::sqrt;
  CHECK(floors([](auto n, auto) { return n; }));
  CHECK(floors([](auto n, auto) { return (n + 1) * n / 3 % 4; }));
  CHECK(floors([](auto n, auto) { return min(n, 4) + max(n, 2 * n); }));
  CHECK(floors([](auto n, auto) { return max(n - 10, 0); }));
  CHECK(floors([](auto n, auto) { return to_int(ceil(n * 0.5) + sqrt(n)); }));
  CHECK_FALSE(floors([](auto, auto any) { return any; }));
  // Not negative, but 1.5 perhaps.
  CHECK_FALSE(floors([](auto, auto any) { return abs(any); }));
  CHECK_FALSE(floors([](auto, auto any) { return max(any, 0); }));
  CHECK_FALSE(floors([](auto n, auto any) { return n + abs(any); }));
  CHECK_FALSE(floors([](auto n, auto) { return n - 10; }));
  CHECK_FALSE(floors([](auto n, auto) { return -n; }));
  CHECK_FALSE(floors([](auto n, auto) { return n + -1; }));
  CHECK_FALSE(floors([](auto n, auto) { return n * -2; }));
  CHECK_FALSE(floors([](auto n, auto any) { return n * any + n; }));
  CHECK_FALSE(floors([](auto n, auto any) { return min(n, any); }));
  CHECK_FALSE(floors([](auto n, auto) { return max(n - 10, -3); }));
  CHECK_FALSE(floors([](auto n, auto any) { return n / any; }));
  CHECK_FALSE(floors([](auto n, auto) { return to_int(n * -0.5); }));
  CHECK_FALSE(floors([](auto, auto any) { return any % 5; }));
  CHECK(floors([](auto n, auto) { return n % (n - 9); }));  // the sign is that of what was divided
  // A negative literal on either side.
  CHECK(last([](auto n, auto) { return n / -2; }) == "std::divides");
  CHECK(last([](auto n, auto) { return n % -2; }) == "std::modulus");
  CHECK(last([](auto n, auto) { return -2 / n; }) == "std::divides");
  CHECK(last([](auto n, auto) { return -2 % n; }) == "std::modulus");
  // The text of either reads back.
  const Graph g = symbolic_graph([](auto x) { return x * ((x.size(0) - 10) / 4) + (x.size(0) - 10) % 4; });
  CHECK(same_structure(parse_graph(to_string(g)), g));
  // Sizes are sizes whichever way they are asked for.
  CHECK(recorded([](auto x) {
          return x.sizes()[0] / 2;
        }).ends_with("floordiv = operator::floordiv(%getitem, 2)\nreturn %floordiv\n"));
  CHECK(recorded([](auto x) { return (x.numel() + x.stride(0)) % x.dim(); }).find("operator::mod(") !=
        std::string::npos);
}

TEST_CASE("functions of <cmath> and <algorithm> are recorded of traced numbers, and computed of others") {
  const auto with_size = [](auto f) { return recorded([f](auto x) { return f(x.size(0)); }).substr(20); };
  using std::abs, std::sqrt, std::exp, std::log, std::pow, std::floor, std::max, std::min, std::round;
  CHECK(with_size([](auto n) { return exp(n); }) == "exp = math::exp(%size)\nreturn %exp\n");
  CHECK(with_size([](auto n) { return log(n); }) == "log = math::log(%size)\nreturn %log\n");
  CHECK(with_size([](auto n) { return abs(n); }) == "abs = operator::abs(%size)\nreturn %abs\n");
  CHECK(with_size([](auto n) { return pow(n, 0.5); }) == "pow = math::pow(%size, 0.5)\nreturn %pow\n");
  CHECK(with_size([](auto n) { return pow(2, n); }) == "pow = math::pow(2, %size)\nreturn %pow\n");
  CHECK(with_size([](auto n) { return max(n, 4); }) == "max = builtins::max(%size, 4)\nreturn %max\n");
  CHECK(with_size([](auto n) { return min(n, n); }) == "min = builtins::min(%size, %size)\nreturn %min\n");
  CHECK(with_size([](auto n) { return to_int(n * 0.5); }) ==
        "mul = operator::mul(%size, 0.5)\nto_int = fxx::to_int(%mul)\nreturn %to_int\n");
  // As in C++, what is rounded stays real: dividing it is exact.
  CHECK(with_size([](auto n) { return floor(n * 0.5) / 2; }) ==
        "mul = operator::mul(%size, 0.5)\nfloor = std::floor(%mul)\ntruediv = operator::truediv(%floor, 2)\nreturn "
        "%truediv\n");
  CHECK(with_size([](auto n) { return round(n * 0.5); }).find("std::round") != std::string::npos);
  CHECK(with_size([](auto) { return sqrt(4); }) == "return 2.0\n");
  CHECK(with_size([](auto) { return max(2, 3); }) == "return 3\n");
}

TEST_CASE("comparisons are recorded; what is returned or passed on is the answer") {
  const auto with_size = [](auto f) { return recorded([f](auto x) { return f(x.size(0)); }).substr(20); };
  CHECK(with_size([](auto n) { return n == 3; }) == "eq = operator::eq(%size, 3)\nreturn %eq\n");
  CHECK(with_size([](auto n) { return n != n; }) == "ne = operator::ne(%size, %size)\nreturn %ne\n");
  CHECK(with_size([](auto n) { return 3 < n; }) == "lt = operator::lt(3, %size)\nreturn %lt\n");
  CHECK(with_size([](auto n) { return n <= 2.5; }) == "le = operator::le(%size, 2.5)\nreturn %le\n");
  // The compiler chooses which side is computed first.
  const std::string both = with_size([](auto n) { return (n > 1) == (n >= 2); });
  const std::string ge = "ge = operator::ge(%size, 2)\n", gt = "gt = operator::gt(%size, 1)\n",
                    eq = "eq = operator::eq(%gt, %ge)\nreturn %eq\n";
  CHECK((both == ge + gt + eq || both == gt + ge + eq));
  CHECK(recorded([](auto x) {
          return dropout(x, 0.5, x.size(0) > 3);
        }).ends_with("dropout = aten::dropout(%x, 0.5, %gt)\nreturn %dropout\n"));
}

TEST_CASE("a tracer that knows numbers need not know comparisons") {
  struct Knowing : Tracer {
    using Tracer::Tracer;
    Argument to_number(const ProxyBase&) override { return 3; }
  };
  Graph g;
  Knowing tracer(g);
  const Proxy x = tracer.placeholder("x");
  CHECK(x.size(0) > 2);
  CHECK(x.size(0) == 3.0);
  CHECK_FALSE(4 <= x.size(0));
  CHECK_FALSE(x.size(0) != x.size(1));
  CHECK(fault_of<TraceError>([&] { (void)(x.sum() > 0 ? 1 : 2); }).id == 301);
}

TEST_CASE("a long chain of numbers is looked through once, not along every path") {
  const Graph g = symbolic_graph([](auto x) {
    auto a = x.size(0), b = x.size(1);
    for (int i = 0; i < 200; ++i) {
      const auto sum = a + b;
      a = b, b = sum;
    }
    return b / 2;
  });
  CHECK(g.output_node()->arg(0).node()->operation()->name == "operator::floordiv");
}

TEST_CASE("numbers go where operators take numbers") {
  CHECK(recorded([](auto x) { return x * x.size(0); }) ==
        "size = .size(%x, 0)\nmul = aten::mul.Scalar(%x, %size)\nreturn %mul\n");
  CHECK(recorded([](auto x) { return x.size(0) - x; }) ==
        "size = .size(%x, 0)\nrsub = aten::rsub.Scalar(%x, %size)\nreturn %rsub\n");
  CHECK(recorded([](auto x) { return x.narrow(0, 0, x.size(0) / 2); }) ==
        "size = .size(%x, 0)\nfloordiv = operator::floordiv(%size, 2)\nnarrow = .narrow(%x, 0, 0, %floordiv)\nreturn "
        "%narrow\n");
  CHECK(recorded([](auto x) { return x.slice(0, std::nullopt, x.size(0)); }) ==
        "size = .size(%x, 0)\nslice_1 = .slice(%x, 0, None, %size)\nreturn %slice_1\n");
}

// --- what cannot be recorded -----------------------------------------------------------------------------------------

namespace {
// Functions with names and lines, so that messages can be checked for both.
Proxy branch_on_tensor(Proxy x) {
  if (x.sum() > 0) return x;
  return -x;
}
Proxy negate_tensor(Proxy x) { return !x ? x : -x; }
Proxy size_as_number(Proxy x) {
  const std::int64_t n = x.size(0);
  return x.view({n});
}
Proxy loop_to_size(Proxy x) {
  for (int i = 0; i < x.size(0); ++i) x = relu(x);
  return x;
}
Proxy compare_sizes(Proxy x) { return x.size(0) == x.size(1) ? x : -x; }
Proxy number_of_item(Proxy x) { return x * x.item<double>(); }
Proxy round_a_size(Proxy x) { return x * std::sqrt(static_cast<double>(x.size(0))); }
Proxy walk_over_list(Proxy x) {
  for (const Proxy& part : x.chunk(2)) x = x + part;
  return x;
}
Proxy count_list(Proxy x) { return x * static_cast<double>(x.chunk(2).size()); }
Proxy list_as_condition(Proxy x) { return x.dim() ? x : -x; }
}  // namespace

TEST_CASE("C++ that needs a traced value is told so, with the function, the line that made the value, and what to do") {
  struct Case {
    Proxy (*function)(Proxy);
    const char* name;
    int id;
    std::vector<std::string> says;
  };
  const std::string here = "scalar.cpp:";  // with its folder, or without where it comes from debug information
  for (const Case& c : std::initializer_list<Case>{
           {branch_on_tensor, "branch_on_tensor", 301, {"control flow", "where()", "node %gt", here}},
           {negate_tensor, "negate_tensor", 301, {"control flow", "node %x"}},
           {size_as_number, "size_as_number", 301, {"a number of C++", "auto n = x.size(0)", "node %size", here}},
           {loop_to_size, "loop_to_size", 301, {"a number of C++", "node %size", here}},
           {compare_sizes, "compare_sizes", 301, {"a number of C++", "decide before tracing", here}},
           {number_of_item, "number_of_item", 301, {"a number of C++", "select with where()", "node %x"}},
           {round_a_size, "round_a_size", 301, {"a number of C++", here}},
           {list_as_condition, "list_as_condition", 301, {"node %dim", here}},
           {walk_over_list, "walk_over_list", 302, {"cannot be iterated", "unpack<N>()", "node %chunk", here}},
           {count_list, "count_list", 302, {"cannot be iterated", "length", "node %chunk", here}}}) {
    CAPTURE(c.name);
    const auto fault = fault_of<TraceError>([&] { (void)symbolic_graph(c.function); });
    CAPTURE(fault.text);
    CHECK(fault.id == c.id);
    CHECK(fault.says(std::string(c.name) + "("));
    for (const std::string& words : c.says) {
      CAPTURE(words);
      CHECK(fault.says(words));
    }
  }
}

TEST_CASE("every comparison with a number of C++ is one that needs the number") {
  const auto refused = [](auto f) {
    return fault_of<TraceError>([&] { (void)symbolic_graph([f](auto x) { return f(x.size(0)) ? x : -x; }); }).id == 301;
  };
  CHECK(refused([](auto n) { return n < 3; }));
  CHECK(refused([](auto n) { return n <= 3; }));
  CHECK(refused([](auto n) { return n > 3L; }));
  CHECK(refused([](auto n) { return n >= 3u; }));
  CHECK(refused([](auto n) { return n == 3; }));
  CHECK(refused([](auto n) { return n != 3.5; }));
  CHECK(refused([](auto n) { return 3 < n; }));
  CHECK(refused([](auto n) { return 3 == n; }));
  CHECK(refused([](auto n) { return n == n; }));
  CHECK(refused([](auto n) { return static_cast<bool>(n); }));
}
