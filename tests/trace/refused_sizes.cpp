// Dynamic dimensions: what cannot be one graph is refused, with both sides; the sizes to trace at.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "fxx/trace/sizes.hpp"
#include "trace/sized.hpp"

using namespace fxx;
using namespace fxx::test;

// --- what cannot be one graph ----------------------------------------------------------------------------------------

namespace {
Proxy branch_on_size(Run& run, Proxy x, Proxy y) { return run[0] > 12 ? relu(x) : y.view({run[0]}); }
Proxy loop_over_size(Run& run, Proxy x, Proxy) {
  for (std::int64_t i = 0; i < run[0]; ++i) x = x.select(0, i);
  return x;
}
Proxy other_input(Run& run, Proxy x, Proxy y) { return relu(run[0] % 2 ? x : y); }
Proxy more_arguments(Run& run, Proxy x, Proxy) {
  Graph& graph = x.tracer().graph();
  const UserFunction& function = register_function("tests::sizes_function");
  return Proxy(x.tracer(), run[0] > 12 ? graph.call_function(function, {x.node(), 1})
                                       : graph.call_function(function, {x.node()}));
}
Proxy no_default(Run& run, Proxy x, Proxy) { return run[0] > 2 ? x.slice(0, 1) : x.slice(0); }
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
           {more_arguments, "arguments", {"the number of arguments", "(%x, 1)"}},
           {no_default, "default", {"argument 2 (start)", "(%x, 0, 1)"}},
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
  CHECK(solved.traces.size() <= 20);
  test::Random random(5);
  for (int i = 0; i < 60; ++i)
    check_at(code, solved.graph, image,
             {static_cast<std::int64_t>(2 + random.below(20)), static_cast<std::int64_t>(2 + random.below(300)),
              static_cast<std::int64_t>(2 + random.below(300))});
}
