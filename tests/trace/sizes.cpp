// Dynamic dimensions: code that computes with plain C++ integers is traced at several sizes, and the one graph of them
// has to be what the code does at other sizes.
#include "fxx/trace/sizes.hpp"

#include <doctest/doctest.h>

#include <cmath>
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
  const auto substituted = [&](const Argument& a, auto&& self) -> std::string {
    switch (a.kind()) {
      case Argument::Kind::node: {
        const auto number = numbers.find(a.node());
        return number != numbers.end() ? to_string(number->second) : names.at(a.node());
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
      default: return to_string(a);
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
  for (std::int64_t n = std::max<std::int64_t>(2, dims[0].minimum); n < 300; n += n < 70 ? 1 : 7)
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
      // Which of the two is the smaller one shows when they are not far apart.
      const Solved solved = solve(code, dims, {{static_cast<std::int64_t>(2 + random.below(form == 7 ? 15 : 40)), 9}});
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
