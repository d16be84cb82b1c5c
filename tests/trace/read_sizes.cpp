// Dynamic dimensions: sizes that are read from intermediate tensors, slices that LibTorch leaves out, shapes.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "fxx/trace/sizes.hpp"
#include "trace/sized.hpp"

using namespace fxx;
using namespace fxx::test;

// --- sizes of intermediate tensors -----------------------------------------------------------------------------------

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
  // A slice may start anywhere, but not from 1 at all sizes and from 0 at one of them: no expression is both.
  const auto other = [](Run& run, Proxy x, Proxy) {
    Run::shaped(x, {run[0], 3});
    return run[0] == 2 ? alias(x) : fxx::functional::slice(x, 0, 1, run[0]);
  };
  CHECK(fault_of<TraceError>([&] { solve(other, batch); }).id == 310);
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
