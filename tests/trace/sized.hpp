// Code that computes with plain C++ integers, traced at several sizes, and what its graph computes at others.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fxx/trace/sizes.hpp"
#include "trace/recorded.hpp"

namespace fxx::test {

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
    REQUIRE(round < 40);
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
inline std::vector<std::string> specialised(const Graph& graph, const std::map<std::string, std::int64_t>& sizes,
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

inline const std::vector<DynamicDim> batch = {{0, 0, "batch"}};
inline const std::vector<DynamicDim> image = {{0, 0, "batch"}, {0, 2, "h"}, {0, 3, "w"}};

/// Solves, compares with the code at all sizes of one symbol up to 300, and gives the graph's lines.
template <class F>
std::string solved_batch(F&& f, const std::vector<SizeSet>& given = {}, std::vector<DynamicDim> dims = batch) {
  const Solved solved = solve(f, dims, given);
  for (std::int64_t n = std::max<std::int64_t>(2, dims[0].minimum); n < 300;
       n += n < 70 ? repeats(1, 4) : repeats(7, 29))
    if (n % dims[0].multiple_of == 0 && (dims[0].maximum == 0 || n <= dims[0].maximum))
      check_at(f, solved.graph, dims, {n});
  return body_of(solved.graph);
}
/// What a view gets for one number that the code computed from one size.
template <class F>
std::string number_of(F&& f, const std::vector<SizeSet>& given = {}, std::vector<DynamicDim> dims = batch) {
  return solved_batch([&](Run& run, Proxy x, Proxy) { return x.view({f(run[0]), 3}); }, given, std::move(dims));
}
inline const std::string size_line = "batch = .size(%x, 0)\n", end_line = "return %view\n";

/// Something that no expression over the input's size gives: the number of primes up to it.
inline std::int64_t odd_size(std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 2; i <= n; ++i) {
    bool prime = true;
    for (std::int64_t j = 2; j * j <= i; ++j) prime = prime && i % j != 0;
    count += prime;
  }
  return count;
}

}  // namespace fxx::test
