// Dynamic dimensions: code that computes with plain C++ integers is traced at several sizes, and the one graph of them
// has to be what the code does at other sizes.
#include "fxx/trace/sizes.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "trace/recorded.hpp"

using namespace fxx;
using test::fault_of;
using test::text_of;

namespace {

/// One run of the code: the sizes as C++ has them, and what the code tells of its tensors.
struct Run {
  const SizeSet& sizes;
  std::vector<SizedTrace::Read> reads;

  std::int64_t operator[](std::size_t i) const { return sizes[i]; }
  /// The code asks for a size of an intermediate tensor, and is told this.
  std::int64_t read(const Proxy& x, std::int64_t dim, std::int64_t value) {
    reads.push_back({x.node(), -1, dim, value});
    return value;
  }
  /// The same of an item of a node with several results.
  std::int64_t read_item(const Proxy& x, int item, std::int64_t dim, std::int64_t value) {
    reads.push_back({x.node(), item, dim, value});
    return value;
  }
  static Proxy shaped(const Proxy& x, std::vector<std::int64_t> shape, Dtype dtype = Dtype::float32) {
    TensorMeta meta{.shape = std::move(shape), .stride = {}, .dtype = dtype};
    for (std::size_t i = 0; i < meta.shape.size(); ++i) {
      std::int64_t stride = 1;
      for (std::size_t j = i + 1; j < meta.shape.size(); ++j) stride *= meta.shape[j];
      meta.stride.push_back(stride);
    }
    x.node()->set_tensor_meta(meta);
    return x;
  }
};

template <class F>
SizedTrace trace_at(F&& f, const SizeSet& sizes) {
  SizedTrace trace{{}, sizes, {}};
  Run run{trace.sizes, {}};
  trace.graph = symbolic_graph([&](Proxy x, Proxy y) { return f(run, x, y); }, {"x", "y"});
  trace.reads = run.reads;
  return trace;
}

struct Solved {
  Graph graph;
  std::vector<SizedTrace> traces;
};

/// Traces at all the sizes that are asked for, and solves. Every graph is checked, and survives printing.
template <class F>
Solved solve(F&& f, const std::vector<DynamicDim>& dims, const std::vector<SizeSet>& given = {}) {
  Solved solved;
  for (const SizeSet& sizes : sizes_to_trace(dims, given)) solved.traces.push_back(trace_at(f, sizes));
  for (int round = 0;; ++round) {
    const std::vector<SizeSet> more = more_sizes_to_trace(solved.traces, dims);
    if (more.empty()) break;
    REQUIRE(round < 20);
    for (const SizeSet& sizes : more) {
      for (const SizedTrace& known : solved.traces) REQUIRE(known.sizes != sizes);
      solved.traces.push_back(trace_at(f, sizes));
    }
  }
  solved.graph = solve_sizes(solved.traces, dims);
  solved.graph.lint();
  const Graph again = parse_graph(to_string(solved.graph));
  CHECK(to_string(again) == to_string(solved.graph));
  CHECK(same_structure(again, solved.graph));
  return solved;
}

/// Runs the graph's arithmetic: every other node as text, with numbers in place of the nodes that compute them. A size
/// of a placeholder is taken from `sizes` by the name of its node, other sizes from `reads` by the text of the tensor.
std::vector<std::string> specialised(const Graph& graph, const std::map<std::string, std::int64_t>& sizes,
                                     const std::map<std::pair<std::string, std::int64_t>, std::int64_t>& reads) {
  std::map<const Node*, Argument> numbers;
  std::map<const Node*, std::string> names;
  std::vector<std::string> lines;
  const auto plain = [](const Argument& a) {
    if (a.kind() != Argument::Kind::real) return to_string(a);
    char text[40];
    std::snprintf(text, sizeof text, "%.12g", a.real());  // equal up to rounding
    return "real " + std::string(text);
  };
  const auto substituted = [&](const Argument& a, auto&& self) -> std::string {
    switch (a.kind()) {
      case Argument::Kind::node: {
        const auto number = numbers.find(a.node());
        return number != numbers.end() ? plain(number->second) : names.at(a.node());
      }
      case Argument::Kind::list:
      case Argument::Kind::tuple: {
        std::string text = a.kind() == Argument::Kind::list ? "[" : "(";
        for (const Argument& item : a.items()) text += self(item, self) + ", ";
        return text + "]";
      }
      case Argument::Kind::dict: {
        std::string text = "{";
        for (const DictEntry& e : a.entries()) text += to_string(e.key) + ": " + self(e.value, self) + ", ";
        return text + "}";
      }
      case Argument::Kind::slice:
        return "slice(" + self(a.slice().start, self) + ", " + self(a.slice().stop, self) + ", " +
               self(a.slice().step, self) + ")";
      default: return plain(a);
    }
  };
  for (const Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    const std::string_view space = op ? op->name_space() : "";
    if (op && op->name == "aten::size.int") {
      const Node& tensor = *node->arg(0).node();
      const std::int64_t dim = node->arg(1).integer();
      if (tensor.opcode() == Opcode::placeholder) numbers[node] = sizes.at(std::string(node->name()));
      else numbers[node] = reads.at({names.at(&tensor), dim});
      continue;
    }
    if (op && (space == "operator" || space == "math" || space == "builtins") && op->base_name() != "getitem") {
      const auto value = [&](std::size_t i) {
        return node->arg(i).is_node() ? numbers.at(node->arg(i).node()) : node->arg(i);
      };
      const Argument a = value(0), b = op->arity() > 1 ? value(1) : Argument();
      const std::string_view name = op->base_name();
      const bool integers = a.kind() == Argument::Kind::integer && b.kind() != Argument::Kind::real;
      const double x = a.number(), y = b.is_none() ? 0 : b.number();
      if (name == "sqrt") numbers[node] = std::sqrt(x);
      else if (name == "truediv") numbers[node] = x / y;
      else if (name == "add") numbers[node] = integers ? Argument(a.integer() + b.integer()) : Argument(x + y);
      else if (name == "sub") numbers[node] = integers ? Argument(a.integer() - b.integer()) : Argument(x - y);
      else if (name == "mul") numbers[node] = integers ? Argument(a.integer() * b.integer()) : Argument(x * y);
      else if (name == "neg") numbers[node] = -a.integer();
      else if (name == "min") numbers[node] = std::min(a.integer(), b.integer());
      else if (name == "max") numbers[node] = std::max(a.integer(), b.integer());
      else {
        // C++ and Python divide differently where something is negative, and the library's users have both.
        REQUIRE(a.integer() >= 0);
        REQUIRE(b.integer() > 0);
        if (name == "floordiv") numbers[node] = a.integer() / b.integer();
        else if (name == "mod") numbers[node] = a.integer() % b.integer();
        else FAIL(name);
      }
      continue;
    }
    std::string text = std::string(name_of(node->opcode())) + " " + node->target();
    for (const Argument& a : node->args()) text += ", " + substituted(a, substituted);
    for (const KeywordArgument& k : node->kwargs())
      text += ", " + std::string(k.key) + "=" + substituted(k.value, substituted);
    names[node] = "%" + std::to_string(names.size());
    lines.push_back(names[node] + " = " + text);
  }
  return lines;
}

/// Is the graph what the code does at these sizes?
template <class F>
void check_at(F&& f, const Graph& graph, const std::vector<DynamicDim>& dims, const SizeSet& sizes) {
  const SizedTrace expected = trace_at(f, sizes);
  std::map<std::string, std::int64_t> by_name;
  for (std::size_t i = 0; i < sizes.size(); ++i) by_name[size_names(dims)[i]] = sizes[i];
  std::map<const Node*, std::string> names;
  for (const Node* node : expected.graph.nodes()) names[node] = "%" + std::to_string(names.size());
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> reads;
  for (const SizedTrace::Read& read : expected.reads) reads[{names.at(read.node), read.dim}] = read.value;
  for (const Node* node : expected.graph.nodes())
    if (const TensorMeta* meta = node->tensor_meta())
      for (std::size_t d = 0; d < meta->shape.size(); ++d)
        reads[{names.at(node), static_cast<std::int64_t>(d)}] = meta->shape[d];
  CAPTURE(to_string(graph));
  CAPTURE(to_string(expected.graph));
  CHECK(specialised(graph, by_name, reads) == specialised(expected.graph, {}, {}));
}

const std::vector<DynamicDim> batch = {{0, 0, "batch"}};
const std::vector<DynamicDim> image = {{0, 0, "batch"}, {0, 2, "h"}, {0, 3, "w"}};

/// Solves, compares with the code at all sizes of one symbol up to 300, and gives the graph's lines.
template <class F>
std::string solved_batch(F&& f, const std::vector<SizeSet>& given = {}, std::vector<DynamicDim> dims = batch) {
  const Solved solved = solve(f, dims, given);
  for (std::int64_t n = std::max<std::int64_t>(2, dims[0].minimum); n < 300;
       n += n < 70 ? test::repeats(1, 4) : test::repeats(7, 29))
    if (n % dims[0].multiple_of == 0 && (dims[0].maximum == 0 || n <= dims[0].maximum))
      check_at(f, solved.graph, dims, {n});
  return test::body_of(solved.graph);
}
/// What a view gets for one number that the code computed from one size.
template <class F>
std::string number_of(F&& f, const std::vector<SizeSet>& given = {}, std::vector<DynamicDim> dims = batch) {
  return solved_batch([&](Run& run, Proxy x, Proxy) { return x.view({f(run[0]), 3}); }, given, std::move(dims));
}
const std::string size_line = "batch = .size(%x, 0)\n", end_line = "return %view\n";

}  // namespace

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

// --- sizes of intermediate tensors -----------------------------------------------------------------------------------

namespace {
/// Something that no expression over the input's size gives: the number of primes up to it.
std::int64_t odd_size(std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 2; i <= n; ++i) {
    bool prime = true;
    for (std::int64_t j = 2; j * j <= i; ++j) prime = prime && i % j != 0;
    count += prime;
  }
  return count;
}
}  // namespace

TEST_CASE("a size that follows from no input is read from the tensor that the code asked") {
  CHECK(solved_batch([](Run& run, Proxy x, Proxy y) {
          const Proxy found = relu(x);
          const Proxy later = sigmoid(found);
          const std::int64_t n = run.read(found, 1, odd_size(run[0]));
          const Proxy first = later.view({n, 2}), second = y.view({2 * n + 1, run[0] * n, n * n, 3 * run[0] * n * n});
          return first + second;
        }) ==
        "batch = .size(%x, 0)\n"
        "relu = aten::relu(%x)\n"
        "relu_size_1 = .size(%relu, 1)\n"
        "sigmoid = aten::sigmoid(%relu)\n"
        "view = .view(%sigmoid, [%relu_size_1, 2])\n"
        "mul = operator::mul(%relu_size_1, 2)\n"
        "add_1 = operator::add(%mul, 1)\n"
        "mul_1 = operator::mul(%batch, %relu_size_1)\n"
        "mul_2 = operator::mul(%relu_size_1, %relu_size_1)\n"
        "mul_3 = operator::mul(%mul_1, %relu_size_1)\n"
        "mul_4 = operator::mul(%mul_3, 3)\n"
        "view_1 = .view(%y, [%add_1, %mul_1, %mul_2, %mul_4])\n"
        "add = aten::add.Tensor(%view, %view_1)\n"
        "return %add\n");
  // Two of them.
  solved_batch([](Run& run, Proxy x, Proxy y) {
    const std::int64_t n = run.read(relu(x), 0, odd_size(run[0])), m = run.read(sigmoid(y), 2, odd_size(3 * run[0]));
    return x.view({n + m, n * m, 16 * n * m, run[0] * n * m, n - m + 5});
  });
}

TEST_CASE("sizes of inputs come before sizes that are read, those before divisions that would have to be guessed") {
  CHECK(solved_batch([](Run& run, Proxy x, Proxy) {
          const Proxy y = relu(x);
          return y.view({run.read(y, 0, run[0]), run.read(y, 1, 4 * run[0])});
        }) ==
        "batch = .size(%x, 0)\nrelu = aten::relu(%x)\nmul = operator::mul(%batch, 4)\n"
        "view = .view(%relu, [%batch, %mul])\nreturn %view\n");
  CHECK(solved_batch([](Run& run, Proxy x, Proxy) {
          const Proxy y = relu(x);
          return y.view({run.read(y, 1, run[0] / 8)});
        }) ==
        "relu = aten::relu(%x)\nrelu_size_1 = .size(%relu, 1)\nview = .view(%relu, [%relu_size_1])\nreturn %view\n");
  // Nobody asked, but the shapes of the traces tell where the number comes from.
  CHECK(solved_batch([](Run& run, Proxy x, Proxy) {
          const Proxy y = Run::shaped(relu(x), {odd_size(run[0]), 5, run[0]});
          return y.view({run[0], 5 * odd_size(run[0])});
        }) ==
        "batch = .size(%x, 0)\nrelu = aten::relu(%x)\nrelu_size_0 = .size(%relu, 0)\n"
        "mul = operator::mul(%relu_size_0, 5)\nview = .view(%relu, [%batch, %mul])\nreturn %view\n");
}

TEST_CASE("of intermediate tensors with one size, one that the code asked serves, else the last before the use") {
  const auto code = [](bool asks) {
    return [=](Run& run, Proxy x, Proxy y) {
      const std::int64_t n = odd_size(run[0]);
      const Proxy convolved = Run::shaped(relu(x), {n, 4}), normalised = Run::shaped(sigmoid(convolved), {n, 4});
      Run::shaped(tanh(normalised), {n, 4});
      if (asks) run.read(normalised, 0, n);
      return y.view({4 * n});
    };
  };
  const auto text = [&](bool asks) { return test::body_of(solve(code(asks), batch).graph); };
  CHECK(text(false).find("tanh_size_0 = .size(%tanh, 0)\nmul = ") != std::string::npos);
  CHECK(text(true).find("sigmoid_size_0 = .size(%sigmoid, 0)\n") != std::string::npos);
}

TEST_CASE("what is computed from intermediate sizes: differences, remainders, padding to a multiple") {
  // A skip connection of a U-Net, and the windows of a Swin transformer after its patches.
  const auto code = [](Run& run, Proxy x, Proxy y) {
    const std::int64_t h = run[0], half = h / 2, quarter = half / 2;
    const Proxy skip = Run::shaped(relu(x), {1, half}), up = Run::shaped(sigmoid(skip), {1, 2 * quarter});
    const Proxy joined = up.narrow(1, 0, half - 2 * quarter);
    const Proxy patches = Run::shaped(tanh(y), {1, (h - 4) / 4 + 1});
    const std::int64_t size = (h - 4) / 4 + 1, missing = (7 - size % 7) % 7;
    return std::make_tuple(joined, patches.narrow(1, 0, missing), patches.view({(size + missing) / 7, 7, size % 3}));
  };
  const std::vector<DynamicDim> dims = {{0, 2, "h", 8}};
  const Solved solved = solve(code, dims, {{90}});
  for (std::int64_t h = 8; h < 300; ++h) check_at(code, solved.graph, dims, {h});
}

TEST_CASE("sizes are read from items of a node with several results") {
  const auto code = [](Run& run, Proxy x, Proxy) {
    const auto [values, indices] = x.topk(3);
    const std::int64_t n = run.read_item(Proxy(x.tracer(), x.tracer().graph().nodes().back()), 1, 2, odd_size(run[0]));
    const Proxy between = relu(x);
    return std::make_tuple(between.view({n}), values, indices);
  };
  // The tracer makes items when they are first asked for: here behind the use of the size.
  const Graph graph = solve(code, batch).graph;
  CHECK(test::body_of(graph) ==
        "topk = .topk(%x, 3)\n"
        "getitem_1 = operator::getitem(%topk, 1)\n"
        "getitem_1_size_2 = .size(%getitem_1, 2)\n"
        "relu = aten::relu(%x)\n"
        "view = .view(%relu, [%getitem_1_size_2])\n"
        "getitem = operator::getitem(%topk, 0)\n"
        "return (%view, %getitem, %getitem_1)\n");
  // And where nobody takes the item, one is made.
  const auto untaken = [](Run& run, Proxy x, Proxy) {
    const auto [values, indices] = x.topk(3);
    const std::int64_t n = run.read_item(Proxy(x.tracer(), x.tracer().graph().nodes().back()), 1, 2, odd_size(run[0]));
    return values.view({n});
  };
  CHECK(test::body_of(solve(untaken, batch).graph)
            .find("getitem_1 = operator::getitem(%topk, 1)\n"
                  "getitem_1_size_2 = .size(%getitem_1, 2)\n") != std::string::npos);
}

TEST_CASE("what only some traces read, or read elsewhere, is not used") {
  const auto fault = fault_of<TraceError>([] {
    solve(
        [](Run& run, Proxy x, Proxy) {
          const Proxy a = relu(x), b = sigmoid(a);
          const std::int64_t n = odd_size(run[0]);
          run.read(run[0] % 2 ? a : b, 0, n);
          return b.view({n});
        },
        batch);
  });
  CHECK(fault.id == 310);
}

// --- slices that LibTorch leaves out ---------------------------------------------------------------------------------

namespace {
/// x.index({Slice(0, sizes[0]), Slice(0, sizes[1]), ...}) as LibTorch records it: what takes everything is left out,
/// and `alias` when that is all.
Proxy cut(const Proxy& x, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> shape = x.node()->tensor_meta()->shape;
  Proxy y = x;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] >= shape[d]) continue;
    y = fxx::functional::slice(y, static_cast<std::int64_t>(d), 0, sizes[d]);
    shape[d] = sizes[d];
    Run::shaped(y, shape);
  }
  return y.node() == x.node() ? Run::shaped(alias(x), shape) : y;
}
}  // namespace

TEST_CASE("a slice that takes everything at some of the sizes is there at all of them") {
  const std::vector<DynamicDim> dims = {{0, 0, "h", 2, 96}, {0, 1, "w", 2, 96}};
  const auto code = [](Run& run, Proxy x, Proxy y) {
    const std::int64_t h = run[0], w = run[1];
    const auto up = [](std::int64_t n) { return (n + 7) / 8 * 8; };
    Run::shaped(x, {h, w});
    const Proxy mask = cut(Run::shaped(y, {96, 96, 2}), {h, w});                  // of a largest size
    const Proxy padded = Run::shaped(x.reshape({up(h), up(w)}), {up(h), up(w)});  // to a multiple
    const Proxy same = relu(cut(padded, {h, w}));
    return std::make_tuple(same, mask, sigmoid(padded));
  };
  const auto always = [](Run& run, Proxy x, Proxy y) {
    const auto up = [](std::int64_t n) { return (n + 7) / 8 * 8; };
    const Proxy mask = fxx::functional::slice(fxx::functional::slice(y, 0, 0, run[0]), 1, 0, run[1]);
    const Proxy padded = x.reshape({up(run[0]), up(run[1])});
    const Proxy same = fxx::functional::slice(fxx::functional::slice(padded, 0, 0, run[0]), 1, 0, run[1]);
    const Proxy used = relu(same);
    return std::make_tuple(used, mask, sigmoid(padded));
  };
  // The first trace has all of the slices, or some, or none.
  for (const SizeSet& given :
       std::initializer_list<SizeSet>{{20, 30}, {24, 30}, {20, 32}, {24, 32}, {96, 40}, {96, 96}}) {
    CAPTURE(given[0]);
    CAPTURE(given[1]);
    const Solved solved = solve(code, dims, {given, {24, 30}, {20, 32}, {96, 96}, {40, 96}});
    for (std::int64_t h = 2; h <= 96; h += 5)
      for (std::int64_t w = 2; w <= 96; w += 7) check_at(always, solved.graph, dims, {h, w});
    check_at(always, solved.graph, dims, {96, 96});
    check_at(always, solved.graph, dims, {96, 8});
  }
  // Where no size cuts anything, nothing is cut.
  const auto whole = [](Run& run, Proxy x, Proxy) { return relu(cut(Run::shaped(x, {run[0], 3}), {run[0], 3})); };
  CHECK(solved_batch(whole) == "alias = aten::alias(%x)\nrelu = aten::relu(%alias)\nreturn %relu\n");
  // What is no slice from the start stays a difference.
  const auto other = [](Run& run, Proxy x, Proxy) {
    Run::shaped(x, {run[0], 3});
    return run[0] == 2 ? alias(x) : fxx::functional::slice(x, 0, 1, run[0]);
  };
  CHECK(fault_of<TraceError>([&] { solve(other, batch); }).id == 309);
  const auto unknown = [](Run& run, Proxy x, Proxy) {
    return run[0] == 2 ? alias(x) : fxx::functional::slice(x, 0, 0, 2);
  };
  CHECK(fault_of<TraceError>([&] { solve(unknown, batch); }).id == 309);
}

// --- shapes ----------------------------------------------------------------------------------------------------------

TEST_CASE("shapes that change say so: equal sizes are equal numbers, with a text for people") {
  const auto code = [](Run& run, Proxy x, Proxy y) {
    const std::int64_t b = run[0], s = run[1];
    Run::shaped(x, {b, s, 64});
    Run::shaped(y, {3, 4});
    const Proxy flat = Run::shaped(x.view({b * s, 64}), {b * s, 64});
    const Proxy odd = Run::shaped(relu(flat), {odd_size(b), 2 * b + 1, b * s});
    return Run::shaped(odd.view({b, -1}), {b, 5});
  };
  const std::vector<DynamicDim> dims = {{0, 0, "b"}, {0, 1, "s"}};
  const Graph graph = solve(code, dims).graph;
  std::map<std::string, const TensorMeta*> metas;
  for (const Node* node : graph.nodes()) metas[std::string(node->name())] = node->tensor_meta();
  REQUIRE(metas["x"]);
  CHECK(metas["x"]->shape_text() == "b, s, 64");
  CHECK(metas["x"]->is_dynamic());
  CHECK(metas["x"]->numel() == -1);
  CHECK(metas["x"]->dim() == 3);
  CHECK(metas["x"]->shape[2] == 64);
  CHECK(metas["x"]->stride.empty());  // a size is part of it
  CHECK(metas["y"]->shape_text() == "3, 4");
  CHECK(metas["y"]->symbols.empty());
  CHECK_FALSE(metas["y"]->is_dynamic());
  CHECK(metas["view"]->shape_text() == "b*s, 64");
  CHECK(metas["view"]->stride == std::vector<std::int64_t>{64, 1});
  CHECK(metas["relu"]->shape_text() == "?, 2*b + 1, b*s");
  CHECK(metas["view_1"]->shape_text() == "b, 5");
  // Sizes below 0 are compared like others.
  CHECK(metas["view"]->shape[0] == metas["relu"]->shape[2]);
  CHECK(metas["x"]->shape[0] == metas["view_1"]->shape[0]);
  std::set<std::int64_t> different = {metas["x"]->shape[0], metas["x"]->shape[1], metas["view"]->shape[0],
                                      metas["relu"]->shape[0], metas["relu"]->shape[1]};
  CHECK(different.size() == 5);
  CHECK(*different.rbegin() < 0);
  CHECK(metas["b"] == nullptr);
  // No other graph has the same numbers.
  const Graph other = solve(code, dims).graph;
  CHECK(different.count(other.nodes().front()->tensor_meta()->shape[0]) == 0);
}

TEST_CASE("a shape that is not known in some trace is not known") {
  const auto code = [](Run& run, Proxy x, Proxy) {
    const Proxy y = relu(x);
    if (run[0] != 5) Run::shaped(y, {run[0]});
    return y;
  };
  const Graph graph = solve(code, batch).graph;
  for (const Node* node : graph.nodes()) CHECK(node->tensor_meta() == nullptr);
}

TEST_CASE("expressions in shapes read as people write them") {
  const auto text = [](auto f) {
    const std::vector<DynamicDim> dims = {{0, 2, "h"}, {0, 3, "w"}};
    const Graph graph = solve([&](Run& run, Proxy x, Proxy) { return Run::shaped(relu(x), {f(run[0], run[1])}); }, dims,
                              {{20, 24}, {30, 12}})
                            .graph;
    return graph.nodes().back()->prev()->tensor_meta()->shape_text();
  };
  CHECK(text([](auto h, auto) { return 2 * h; }) == "2*h");
  CHECK(text([](auto h, auto) { return 100 - h; }) == "100 - h");
  CHECK(text([](auto h, auto) { return -h + 0; }) == "-h");
  CHECK(text([](auto h, auto) { return (h + 1) / 2; }) == "(h + 1)//2");
  CHECK(text([](auto h, auto) { return 3 * (h / 2); }) == "3*(h//2)");
  CHECK(text([](auto h, auto) { return h % 4; }) == "h % 4");
  CHECK(text([](auto h, auto) { return (8 - h % 8) % 8; }) == "(8 - h % 8) % 8");
  CHECK(text([](auto h, auto w) { return 6 * h * w; }) == "6*h*w");
  CHECK(text([](auto h, auto w) { return h - w; }) == "h - w");
  CHECK(text([](auto h, auto w) { return (h + 3) * (w - 1); }) == "(h + 3)*(w - 1)");
  CHECK(text([](auto h, auto w) { return std::min(h, w); }) == "min(h, w)");
  CHECK(text([](auto h, auto w) { return 2 * std::max(h, w) + 1; }) == "2*max(h, w) + 1");
}

// --- what cannot be one graph ----------------------------------------------------------------------------------------

namespace {
Proxy branch_on_size(Run& run, Proxy x, Proxy y) { return run[0] > 12 ? relu(x) : y.view({run[0]}); }
Proxy loop_over_size(Run& run, Proxy x, Proxy) {
  for (std::int64_t i = 0; i < run[0]; ++i) x = x.select(0, i);
  return x;
}
Proxy other_input(Run& run, Proxy x, Proxy y) { return relu(run[0] % 2 ? x : y); }
Proxy more_arguments(Run& run, Proxy x, Proxy) { return run[0] > 2 ? x.flatten(1, 2) : x.flatten(1); }
Proxy other_kind(Run& run, Proxy x, Proxy) { return run[0] > 2 ? x.slice(0, 1, 9) : x.slice(0, std::nullopt, 9); }
Proxy longer_list(Run& run, Proxy x, Proxy) {
  return x.view(std::vector<std::int64_t>(static_cast<std::size_t>(run[0]), 1));
}
Proxy flag_of_size(Run& run, Proxy x, Proxy) { return x.sum(0, run[0] > 11); }
Proxy dtype_of_size(Run& run, Proxy x, Proxy) { return x.to(run[0] > 12 ? Dtype::float64 : Dtype::float16); }
Proxy dtype_of_result(Run& run, Proxy x, Proxy) {
  return Run::shaped(relu(x), {2}, run[0] > 12 ? Dtype::float64 : Dtype::float32);
}
Proxy rank_of_result(Run& run, Proxy x, Proxy) {
  return Run::shaped(relu(x), std::vector<std::int64_t>(run[0] > 12 ? 2 : 1, 3));
}
Proxy other_keyword(Run& run, Proxy x, Proxy) {
  Tracer& tracer = x.tracer();
  const UserFunction& function = register_function("tests::sizes_function");
  return Proxy(tracer, run[0] > 12 ? tracer.graph().call_function(function, {x.node()}, {{"a", 1}})
                                   : tracer.graph().call_function(function, {x.node()}, {{"b", 1}}));
}
Proxy other_text(Run& run, Proxy x, Proxy) {
  const UserFunction& function = register_function("tests::sizes_function");
  return Proxy(x.tracer(), x.tracer().graph().call_function(function, {x.node(), std::to_string(run[0])}));
}
Proxy other_range(Run& run, Proxy x, Proxy) {
  const UserFunction& function = register_function("tests::sizes_function");
  return Proxy(x.tracer(), x.tracer().graph().call_function(function, {x.node(), Range{0, run[0], 1}}));
}
Proxy other_dict(Run& run, Proxy x, Proxy) {
  const UserFunction& function = register_function("tests::sizes_function");
  return Proxy(x.tracer(),
               x.tracer().graph().call_function(function, {x.node(), Argument::dict({{run[0] > 12 ? "a" : "b", 1}})}));
}
}  // namespace

TEST_CASE("traces that differ in more than numbers are refused, with both sides, their sizes and lines") {
  struct Case {
    Proxy (*code)(Run&, Proxy, Proxy);
    const char* name;
    std::vector<std::string> says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {branch_on_size,
            "branch",
            {"first in what is called", "at batch=2 there is `%view", "at batch=24 there is `%relu", "sizes.cpp:"}},
           {loop_over_size, "loop", {"at batch=2 there is `return select_1`", "at batch=24 there is `%select_2"}},
           {other_input, "input", {"argument 0 (self)", "(%y,)", "(%x,)"}},
           {more_arguments, "arguments", {"the number of arguments", "(%x, 1, 2)"}},
           {other_kind, "kind", {"argument 2 (start)", "(%x, 0, None, 9)"}},
           {longer_list, "list", {"argument 1 (size), the number of items"}},
           {flag_of_size, "flag", {"argument 2 (keepdim)", "True", "False"}},
           {dtype_of_size, "dtype", {"argument 1 (dtype)", "torch.float64", "torch.float16"}},
           {dtype_of_result, "result", {"the dtype of the result", "`%relu"}},
           {rank_of_result, "rank", {"the number of dimensions of the result"}},
           {other_keyword, "keyword", {"the keyword arguments", "{a: 1}", "{b: 1}"}},
           {other_text, "text", {"argument 1", "'2'", "'24'"}},
           {other_range, "range", {"argument 1", "range(0, 2, 1)", "range(0, 24, 1)"}},
           {other_dict, "dict", {"argument 1, the keys", "{'b': 1}"}}}) {
    CAPTURE(c.name);
    const auto fault = fault_of<TraceError>([&] { solve(c.code, batch); });
    CAPTURE(fault.text);
    CHECK(fault.id == 309);
    CHECK(fault.says("different things at different sizes"));
    CHECK(fault.says("A branch on a size"));
    CHECK(fault.says("[E309, node "));
    for (const std::string& words : c.says) {
      CAPTURE(words);
      CHECK(fault.says(words));
    }
  }
  // Ends of graphs that have no output.
  std::vector<SizedTrace> traces;
  for (const std::int64_t n : {2, 11, 13}) {
    SizedTrace trace{{}, {n}, {}};
    Node* x = trace.graph.placeholder("x");
    for (int i = 0; i < (n == 13 ? 2 : 1); ++i) x = trace.graph.call_function(get_operator("aten::relu"), {x});
    traces.push_back(std::move(trace));
  }
  auto fault = fault_of<TraceError>([&] { solve_sizes(traces, batch); });
  CHECK(fault.id == 309);
  CHECK(fault.says("at batch=2 there is nothing, at batch=13 there is `%relu_1"));
  std::swap(traces[0], traces[2]);
  fault = fault_of<TraceError>([&] { solve_sizes(traces, batch); });
  CHECK(fault.id == 309);
  CHECK(fault.says("at batch=13 there is `%relu_1"));
}

TEST_CASE("one size at a time changes first, so that the difference names its cause") {
  const auto fault = fault_of<TraceError>([&] {
    solve([](Run& run, Proxy x, Proxy) { return run[2] > 224 ? relu(x) : sigmoid(x); }, image, {{1, 224, 224}});
  });
  CHECK(fault.id == 309);
  CHECK(fault.says("at batch=2, h=224, w=224 there is `%sigmoid"));
  CHECK(fault.says("at batch=2, h=224, w=288 there is `%relu"));
}

TEST_CASE("an example with a size of 1 is traced at another size, unless 1 is asked for") {
  // Code that is special at 1 only, as broadcasting is.
  const auto code = [](Run& run, Proxy x, Proxy y) { return run[0] == 1 ? x + y : x + y.expand({run[0], 4}); };
  const Graph graph = solve(code, batch, {{1}}).graph;
  CHECK(test::body_of(graph).find("[%batch, 4]") != std::string::npos);
  const auto fault = fault_of<TraceError>([&] { solve(code, {{0, 0, "batch", 1}}, {{1}}); });
  CHECK(fault.id == 309);
  CHECK(fault.says("raise the minimum of 'batch' to 2"));
  // Code that is not special may be traced there.
  const auto plain = [](Run& run, Proxy x, Proxy) { return x.view({2 * run[0]}); };
  const std::vector<DynamicDim> from_one = {{0, 0, "batch", 1}};
  const Solved solved = solve(plain, from_one, {{1}});
  CHECK(solved.traces[0].sizes == SizeSet{1});
  check_at(plain, solved.graph, from_one, {1});
  check_at(plain, solved.graph, from_one, {50});
}

TEST_CASE("numbers that no expression gives are refused, with their place, their values and their line") {
  auto fault = fault_of<TraceError>([] {
    solve([](Run& run, Proxy x, Proxy y) { return relu(x).view({3, odd_size(run[0])}) + y; }, batch);
  });
  CHECK(fault.id == 310);
  for (const char* words :
       {"argument 1 (size), item 1 changes with the sizes", "1 at batch=2, 9 at batch=24, 2 at batch=3",
        "no expression over them", "node %view", "sizes.cpp:"}) {
    CAPTURE(words);
    CHECK(fault.says(words));
  }
  // A number that differs without the sizes.
  int call = 0;
  fault = fault_of<TraceError>([&] {
    solve([&](Run&, Proxy x, Proxy) { return x.view({++call, 7}).view({odd_size(20 * call)}); }, batch);
  });
  CHECK(fault.id == 310);
  fault = fault_of<TraceError>([] { solve([](Run& run, Proxy x, Proxy) { return x * std::log(run[0]); }, batch); });
  CHECK(fault.id == 310);
  CHECK(fault.says("0.6931471805599453 at batch=2"));
  fault = fault_of<TraceError>([] {
    solve([](Run& run, Proxy x, Proxy) { return x.sum(0) + std::nan(std::to_string(run[0]).c_str()) * run[0]; }, batch);
  });
  CHECK(fault.id == 0);  // nan is nan, whatever it was computed from
  fault = fault_of<TraceError>([] {
    solve([](Run& run, Proxy x, Proxy) { return x.view({run[0] == 2 ? INT64_MIN : INT64_MAX - run[0], -1}); }, batch);
  });
  CHECK(fault.id == 310);
}

TEST_CASE("numbers near the ends of their range are computed with as they are") {
  solved_batch(
      [](Run& run, Proxy x, Proxy) { return x.slice(0, -run[0], INT64_MAX - run[0]).slice(1, INT64_MIN + run[0]); });
}

TEST_CASE("a constant whose shape changes is refused: the graph would keep one of them") {
  std::vector<SizedTrace> traces;
  for (const std::int64_t n : {2, 11, 13}) {
    SizedTrace trace{{}, {n}, {}};
    Node* x = trace.graph.placeholder("x");
    Node* constant = trace.graph.get_attr("_tensor_constant0");
    constant->set_tensor_meta({.shape = {3, n}, .stride = {}});
    trace.graph.output(trace.graph.call_function(get_operator("aten::add.Tensor"), {x, constant}));
    traces.push_back(std::move(trace));
  }
  const auto fault = fault_of<TraceError>([&] { solve_sizes(traces, batch); });
  CHECK(fault.id == 310);
  CHECK(fault.says("the constant '_tensor_constant0', size 1, changes"));
  CHECK(fault.says("arange"));
}

TEST_CASE("expressions that the traces do not tell apart are refused, with the sizes that would") {
  std::vector<SizedTrace> traces;
  const auto code = [](Run& run, Proxy x, Proxy) { return x.view({run[0] / 7}); };
  for (const std::int64_t n : {2, 23, 25, 48}) traces.push_back(trace_at(code, {n}));
  const std::vector<SizeSet> more = more_sizes_to_trace(traces, batch);
  REQUIRE(more.size() == 1);
  const auto fault = fault_of<TraceError>([&] { solve_sizes(traces, batch); });
  CAPTURE(fault.text);
  CHECK(fault.id == 310);
  CHECK(fault.says("batch//7 and "));
  CHECK(fault.says("Trace at batch=" + std::to_string(more[0][0]) + " as well"));
  // Nothing of the caller's changes.
  CHECK(traces[0].graph.nodes().size() == 4);
}

TEST_CASE("dimensions, sizes and traces have to belong together") {
  const auto code = [](Run& run, Proxy x, Proxy) { return Run::shaped(x, {run[0], 3}).view({run[0]}); };
  const auto traced = [&](std::vector<SizeSet> sets) {
    std::vector<SizedTrace> traces;
    for (const SizeSet& set : sets) traces.push_back(trace_at(code, set));
    return traces;
  };
  const auto says = [](auto&& f, const char* words) {
    const auto fault = fault_of<TraceError>(f);
    CAPTURE(fault.text);
    CAPTURE(words);
    CHECK(fault.id == 311);
    CHECK(fault.says(words));
  };
  const std::vector<SizedTrace> good = traced({{2}, {11}, {13}});
  CHECK_NOTHROW((void)solve_sizes(good, batch));
  says([&] { (void)solve_sizes(good, std::vector<DynamicDim>{}); }, "there is no dynamic dimension");
  says([&] { (void)solve_sizes(good, std::vector<DynamicDim>{{0, 0, ""}}); }, "has no name");
  says(
      [&] {
        (void)solve_sizes(good, std::vector<DynamicDim>{{2, 0, "b"}});
      },
      "dimension 0 of input 2, 'b', does not exist; the graph has 2 inputs");
  says([&] { (void)solve_sizes(good, std::vector<DynamicDim>{{0, 2, "b"}}); }, "the input has 2 dimensions");
  says([&] { (void)solve_sizes(good, std::vector<DynamicDim>{{0, -3, "b"}}); }, "the input has 2 dimensions");
  says([&] { (void)solve_sizes(good, std::vector<DynamicDim>{{0, 1, "b"}}); }, "is 3 in the trace at b=2");
  says(
      [&] {
        (void)solve_sizes(good, std::vector<DynamicDim>{{0, 0, "b"}, {1, 0, "c"}});
      },
      "a trace has 1 sizes; there are 2");
  says([&] { (void)solve_sizes(traced({{2}, {11}}), batch); }, "2 traces are too few");
  says([&] { (void)solve_sizes(std::vector<SizedTrace>{}, batch); }, "0 traces are too few");
  says([&] { (void)more_sizes_to_trace(traced({{2}, {2}, {2}}), batch); }, "one name follows from the others");
  const auto bounds = [](DynamicDim dim) { return [dim] { (void)sizes_to_trace(std::vector{dim}, {}); }; };
  says(bounds({0, 0, "b", 5, 5}), "leave one size only");
  says(bounds({0, 0, "b", 5, 4}), "leave no size");
  says(bounds({0, 0, "b", 5, 11, 6}), "leave one size only");
  says(bounds({0, 0, "b", 0, 1}), "");
  says(bounds({0, 0, "b", -1}), "minimum -1");
  says(bounds({0, 0, "b", 2, -1}), "maximum -1");
  says(bounds({0, 0, "b", 2, 0, 0}), "multiple_of 0");
  says(
      [] {
        (void)sizes_to_trace(std::vector<DynamicDim>{{0, 0, "b", 2, 9}, {1, 0, "b", 9, 20}}, {});
      },
      "leave one size only");
  says(
      [] {
        (void)sizes_to_trace(std::vector<DynamicDim>{{0, 0, "b", 2, 0, std::int64_t{1} << 39}, {1, 0, "b", 2, 0, 3}},
                             {});
      },
      "leave no size");
  says([] { (void)sizes_to_trace(batch, std::vector<SizeSet>{{1, 2}}); }, "a given set has 2 sizes; there are 1");
}

// --- the sizes to trace at -------------------------------------------------------------------------------------------

TEST_CASE("sizes to trace at keep to their bounds, are distinct, and change one name at a time first") {
  test::Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<DynamicDim> dims;
    SizeSet given;
    for (std::size_t i = 0; i <= random.below(4); ++i) {
      DynamicDim dim{0, static_cast<std::int64_t>(i), "d" + std::to_string(i)};
      dim.multiple_of = random.chance(3) ? static_cast<std::int64_t>(1 + random.below(32)) : 1;
      dim.minimum = static_cast<std::int64_t>(random.below(40));
      if (random.chance(2))
        dim.maximum = dim.minimum + 3 * dim.multiple_of + static_cast<std::int64_t>(random.below(300));
      dims.push_back(dim);
      given.push_back(static_cast<std::int64_t>(random.below(random.chance(4) ? 1000000 : 300)));
    }
    const std::vector<SizeSet> sets = sizes_to_trace(dims, std::vector<SizeSet>{given});
    CHECK(sets == sizes_to_trace(dims, std::vector<SizeSet>{given}));
    CHECK(std::set<SizeSet>(sets.begin(), sets.end()).size() == sets.size());
    REQUIRE(sets.size() >= dims.size() + 2);
    for (const SizeSet& set : sets)
      for (std::size_t i = 0; i < dims.size(); ++i) {
        CHECK(set[i] >= dims[i].minimum);
        if (dims[i].maximum) CHECK(set[i] <= dims[i].maximum);
        CHECK(set[i] % dims[i].multiple_of == 0);
        if (set[i] < 2) CHECK(set[i] == given[i]);
      }
    for (const std::size_t t : {sets.size() - 1, sets.size() - 2}) {
      double work = 1;
      for (std::size_t i = 0; i < dims.size() && sets[0][i] > 8; ++i)
        work *= static_cast<double>(sets[t][i]) / static_cast<double>(sets[0][i]);
      CHECK(work <= 16);
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const bool allowed = given[i] >= dims[i].minimum && (!dims[i].maximum || given[i] <= dims[i].maximum) &&
                           given[i] % dims[i].multiple_of == 0;
      if (allowed) CHECK(sets[0][i] == given[i]);
      for (std::size_t j = 0; j < dims.size(); ++j) CHECK((sets[1 + i][j] != sets[0][j]) == (i == j));
    }
  }
}

TEST_CASE("dimensions of few sizes are solved from those") {
  const std::vector<DynamicDim> two = {{0, 0, "batch", 2, 3}}, even = {{0, 0, "batch", 2, 0, 2}},
                                wide = {{0, 0, "batch", 32, 512, 32}};
  number_of([](auto n) { return 7 * n - 3; }, {}, two);
  number_of([](auto n) { return n / 2; }, {}, even);
  number_of([](auto n) { return n / 32; }, {{224}}, wide);
  number_of([](auto n) { return (n / 32) * (n / 32); }, {{224}}, wide);
  number_of([](auto n) { return n / 64 + 3; }, {{224}}, wide);
  const std::vector<DynamicDim> both = {{0, 0, "a", 2, 3}, {0, 1, "b", 2}};
  const auto code = [](Run& run, Proxy x, Proxy) { return x.view({run[0] * run[1], 2 * run[0] + run[1]}); };
  const Solved solved = solve(code, both);
  for (std::int64_t b = 2; b < 40; ++b)
    for (const std::int64_t a : {2, 3}) check_at(code, solved.graph, both, {a, b});
}

TEST_CASE("graphs of real traces: windows of a vision transformer, with padding") {
  const auto code = [](Run& run, Proxy x, Proxy) {
    const std::int64_t window = 7, channels = 96, b = run[0], h = run[1], w = run[2];
    const std::int64_t bottom = (window - h % window) % window, right = (window - w % window) % window;
    Proxy y = constant_pad_nd(x, {0, 0, 0, right, 0, bottom});
    const std::int64_t padded_h = h + bottom, padded_w = w + right;
    y = y.view({b, padded_h / window, window, padded_w / window, window, channels});
    y = y.permute({0, 1, 3, 2, 4, 5})
            .reshape({b * (padded_h / window) * (padded_w / window), window * window, channels});
    y = relu(y).view({b, padded_h / window, padded_w / window, window, window, channels});
    y = y.permute({0, 1, 3, 2, 4, 5}).reshape({b, padded_h, padded_w, channels});
    return y.slice(1, 0, h).slice(2, 0, w).reshape({b, h * w, channels});
  };
  const Solved solved = solve(code, image, {{1, 56, 56}});
  CHECK(solved.traces.size() <= 12);
  test::Random random(5);
  for (int i = 0; i < 60; ++i)
    check_at(code, solved.graph, image,
             {static_cast<std::int64_t>(2 + random.below(20)), static_cast<std::int64_t>(2 + random.below(300)),
              static_cast<std::int64_t>(2 + random.below(300))});
}
