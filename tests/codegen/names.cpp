// Names in the functions of steps: whatever a graph's inputs and weights are called, and however many a step reads, no
// parameter is what the function declares itself, and the results are right.
#include <doctest/doctest.h>

#include <deque>
#include <regex>
#include <set>

#include "codegen/loaded.hpp"
#include "codegen/lowered.hpp"

using namespace fxx;
using plans::Sizes;
using test::check_near;
using test::listed;
using test::Loaded;
using test::Net;
using test::numbers;

namespace {

/// What loops count with, and what else functions of steps declare. More than there are letters for what a step reads.
const std::vector<std::string> indices = {"i", "j", "k",      "l",    "m",     "n",     "o",      "p",        "row",
                                          "y", "x", "column", "head", "image", "key",   "query",  "group",    "channel",
                                          "e", "v", "width",  "part", "step",  "pixel", "matrix", "direction"};

std::size_t elements_of(const Sizes& sizes) {
  std::size_t count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
  return count;
}

/// "pointwise_step_1: i": parameters that the body of their function declares again.
std::vector<std::string> declared_again(const std::string& source) {
  static const std::regex function(R"(\[\[gnu::noinline\]\] void (\w+)\(([^\n]*)\) \{\n)"),
      parameter(R"((\w+)(?:,|$))"),
      declaration(R"(\b(?:int|auto|real|integer|integer_64|Range|float\*|Bfloat16\*|const) (\w+)(?= ?[,;=)\[{]))");
  std::vector<std::string> result;
  for (std::sregex_iterator at(source.begin(), source.end(), function), end; at != end; ++at) {
    std::set<std::string> parameters;
    const std::string of = (*at)[2];
    for (std::sregex_iterator p(of.begin(), of.end(), parameter); p != end; ++p) parameters.insert((*p)[1]);
    const auto begin = static_cast<std::size_t>(at->position() + at->length());
    const std::string body = source.substr(begin, source.find("\n}\n", begin) - begin);
    for (std::sregex_iterator d(body.begin(), body.end(), declaration); d != end; ++d)
      if (parameters.contains((*d)[1])) result.push_back((*at)[1].str() + ": " + (*d)[1].str());
  }
  return result;
}

struct Input {
  Sizes sizes;
  Dtype dtype = Dtype::float32;  // or int64: places below 5, in order
};

/// Of what `make(net, inputs)` adds to a graph, and of the same with a sum of inputs of all those names: added to its
/// result of these sizes, to images one for each pixel; or, with `summed`, in place of this input.
template <class Make>
void check(std::string_view kind, const std::vector<Input>& inputs, const Sizes& out, const Make& make, int summed = -1,
           bool to_pixels = false) {
  CAPTURE(kind);
  Net net;
  std::deque<std::vector<float>> floats;
  std::deque<std::vector<std::int64_t>> integers;
  std::vector<const void*> data;
  std::vector<Node*> plain;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [sizes, dtype] = inputs[i];
    plain.push_back(net.input("plain_" + std::to_string(i), sizes, dtype));
    const std::size_t count = elements_of(sizes);
    if (dtype == Dtype::int64) {
      for (integers.emplace_back(); integers.back().size() < count;)
        integers.back().push_back(static_cast<std::int64_t>(integers.back().size() / 2 % 5));
      data.push_back(integers.back().data());
    } else {
      data.push_back(floats.emplace_back(numbers(count, i + 1)).data());
    }
  }
  const Sizes& whole = summed < 0 ? out : inputs[static_cast<std::size_t>(summed)].sizes;
  Sizes sizes = whole;
  if (to_pixels) sizes[1] = 1;
  std::vector<Node*> added;
  std::vector<double> sums(elements_of(sizes));
  for (const std::string& name : indices) {
    added.push_back(net.input(name, sizes));
    CHECK(added.back()->name() == name);
    data.push_back(floats.emplace_back(numbers(sums.size(), 100 + added.size())).data());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += floats.back()[i];
  }
  const auto sum = [&](Node* of, std::size_t first) {
    for (std::size_t i = first; i < added.size(); ++i) of = net.call(ops::add_Tensor, {of, added[i]}, whole);
    return of;
  };
  std::vector<Node*> named = plain;
  if (summed >= 0) {
    const auto at = static_cast<std::size_t>(summed);
    // Inputs of floats come first.
    std::copy(sums.begin(), sums.end(), floats[at].begin());
    named[at] = sum(added[0], 1);
  }
  Node* one = make(net, plain);
  Node* other = make(net, named);
  if (summed < 0) other = sum(other, 0);
  const KernelPlan plan = net.plan_of(Argument::tuple({one, other}));
  const std::string source = specialised_source(plan, "Net").text;
  CHECK(plan.called_back().empty());
  CHECK(source.find("const float* a20") != source.npos);  // all letters were used
  CHECK(declared_again(source) == std::vector<std::string>{});
  std::vector<const void*> weights;
  for (const std::string& name : plan.attributes) {
    const AttributeInfo* info = net.owner.find_attribute(name);
    REQUIRE(info);
    weights.push_back(floats.emplace_back(numbers(elements_of(info->meta.shape), 50 + weights.size())).data());
  }
  std::vector<float> first(elements_of(out)), second(first.size());
  Loaded(plan, weights).run(data, {first.data(), second.data()});
  std::vector<double> wanted(first.begin(), first.end());
  if (summed < 0)
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::size_t pixels = sums.size() / static_cast<std::size_t>(out[0]);
      wanted[i] += sums[to_pixels ? i / (wanted.size() / static_cast<std::size_t>(out[0])) * pixels + i % pixels : i];
    }
  check_near(second, wanted, 1e-4);
}

}  // namespace

TEST_CASE("no parameter of a step is called like an index of its loops: elements and products") {
  using Nodes = std::vector<Node*>;
  check("pointwise", {{{3, 7, 5, 2}}}, {3, 5, 7, 2}, [](Net& net, const Nodes& in) {
    Node* turned = net.call(ops::transpose_int, {in[0], 1, 2}, {3, 5, 7, 2});
    return net.call(ops::relu, {turned}, {3, 5, 7, 2});
  });
  check("lookup", {{{5}, Dtype::int64}}, {5, 20}, [](Net& net, const Nodes& in) {
    return net.call(ops::embedding, {net.weight("table", {9, 20}), in[0]}, {5, 20});
  });
  check("product", {{{2, 32}}}, {2, 20}, [](Net& net, const Nodes& in) {
    return net.call(ops::linear, {in[0], net.weight("row", {20, 32}), net.weight("column", {20})}, {2, 20});
  });
  for (const std::int64_t rows : {2, 5})  // where it lies, and packed
    check("product of two", {{{3, rows, 8}}, {{3, 20, 8}}}, {3, rows, 20}, [&](Net& net, const Nodes& in) {
      Node* turned = net.call(ops::transpose_int, {in[1], 1, 2}, {3, 8, 20});
      return net.call(ops::bmm, {in[0], turned}, {3, rows, 20});
    });
  for (const std::int64_t queries : {1, 3})  // over a cache, and with packed keys
    for (const int summed : {-1, 3}) {
      const auto attention = [&](Net& net, const Nodes& in) {
        return net.call(ops::scaled_dot_product_attention, {in[0], in[1], in[2], in[3]}, {1, 2, queries, 8});
      };
      check("attention", {{{1, 2, queries, 8}}, {{1, 2, 9, 8}}, {{1, 2, 9, 8}}, {{1, 2, queries, 9}}},
            {1, 2, queries, 8}, attention, summed);
    }
  check("recurrent", {{{2, 4, 6}}, {{1, 2, 5}}, {{1, 2, 5}}}, {2, 4, 5}, [](Net& net, const Nodes& in) {
    Node* weights[] = {net.weight("direction", {20, 6}), net.weight("step", {20, 5}), net.weight("row", {20}),
                       net.weight("column", {20})};
    Node* all = net.calls(
        ops::lstm_input, {in[0], listed({in[1], in[2]}), listed({weights[0], weights[1], weights[2], weights[3]}), true,
                          1, 0., false, false, true});
    return net.item(all, 0, {2, 4, 5});
  });
}

TEST_CASE("no parameter of a step is called like an index of its loops: images") {
  using Nodes = std::vector<Node*>;
  const auto check_images = [](std::string_view kind, const Sizes& in, const Sizes& out, const auto& make) {
    check(kind, {{in}}, out, make, -1, true);
  };
  const auto convolution = [](Net& net, Node* x, std::int64_t channels, int side, std::int64_t groups = 1) {
    const Sizes in = x->tensor_meta()->shape;
    Node* w = net.weight("channel" + std::to_string(in[1]), {channels, in[1] / groups, side, side});
    return net.call(ops::conv2d, {x, w, {}, 1, side / 2, 1, groups}, {in[0], channels, in[2], in[3]});
  };
  const auto layer = [&](std::int64_t channels, int side, std::int64_t groups) {
    return [=](Net& net, const Nodes& in) { return convolution(net, in[0], channels, side, groups); };
  };
  check_images("convolution", {1, 3, 2, 3}, {1, 8, 2, 3}, layer(8, 3, 1));
  check_images("winograd", {1, 16, 24, 24}, {1, 16, 24, 24}, layer(16, 3, 1));
  check_images("pixelwise", {2, 16, 2, 3}, {2, 8, 2, 3}, layer(8, 1, 1));
  check_images("depthwise", {2, 16, 2, 3}, {2, 16, 2, 3}, layer(16, 3, 16));
  // The result of the first has a border.
  check_images("border", {1, 4, 2, 3}, {1, 8, 2, 3}, [&](Net& net, const Nodes& in) {
    return convolution(net, net.call(ops::relu, {convolution(net, in[0], 8, 3)}, {1, 8, 2, 3}), 8, 3);
  });
  check_images("transposed", {1, 4, 2, 3}, {1, 8, 4, 6}, [](Net& net, const Nodes& in) {
    return net.call(ops::conv_transpose2d_input, {in[0], net.weight("image", {4, 8, 2, 2}), {}, 2}, {1, 8, 4, 6});
  });
  check_images("largest", {2, 8, 6, 8}, {2, 8, 3, 4}, [](Net& net, const Nodes& in) {
    return net.call(ops::max_pool2d, {in[0], 2}, {2, 8, 3, 4});
  });
  check_images("mean", {2, 8, 6, 8}, {2, 8, 3, 4}, [](Net& net, const Nodes& in) {
    return net.call(ops::avg_pool2d, {in[0], 2}, {2, 8, 3, 4});
  });
  check_images("resize", {2, 8, 6, 8}, {2, 8, 12, 16}, [](Net& net, const Nodes& in) {
    return net.call(ops::upsample_bilinear2d, {in[0], listed({12, 16}), false}, {2, 8, 12, 16});
  });
  check_images("group norm", {2, 8, 6, 8}, {2, 8, 6, 8}, [](Net& net, const Nodes& in) {
    return net.call(ops::group_norm, {in[0], 2}, {2, 8, 6, 8});
  });
  check(
      "group norm of a sum", {{{2, 8, 6, 8}}}, {2, 8, 6, 8},
      [](Net& net, const Nodes& in) {
        return net.call(ops::group_norm, {in[0], 2}, {2, 8, 6, 8});
      },
      0);
}

TEST_CASE("no parameter of a step is called like an index of its loops: products around a convolution, of bfloat16") {
  Net net;
  Node* x = net.input("row", {1, 16, 8, 8});
  Node* wide = net.call(ops::relu, {net.convolution(x, 32, 1)}, {1, 32, 8, 8});
  Node* y = net.convolution(net.call(ops::relu, {net.convolution(wide, 32, 3, 32)}, {1, 32, 8, 8}), 16, 1);
  for (const std::string& name : indices)
    y = net.call(ops::add_Tensor, {y, net.input(name == "row" ? "rows" : name, {1, 1, 8, 8})}, {1, 16, 8, 8});
  const KernelPlan apart = net.plan_of(y);
  LowerOptions options;
  for (const KernelStep& step : apart.steps)
    if (step.shape.starts_with("depthwise")) options.ways[step.shape] = {.method = plans::Way::Method::joined};
  const KernelPlan joined = net.plan(options);
  REQUIRE(joined.steps.size() < apart.steps.size());
  CHECK(declared_again(specialised_source(joined, "Net").text) == std::vector<std::string>{});

  Net product;
  Node* z = product.call(ops::linear, {product.input("i", {8, 64}), product.weight("row", {64, 64})}, {8, 64});
  for (const std::string& name : indices)
    if (name != "i") z = product.call(ops::add_Tensor, {z, product.input(name, {8, 64})}, {8, 64});
  const KernelPlan plan = product.plan_of(z, {.accuracy = Accuracy::fast, .processor = {.bfloat16_products = true}});
  CHECK(std::get<plans::MatrixProduct>(plan.steps.at(0).kernel).reduced_rows);
  CHECK(declared_again(specialised_source(plan, "Net").text) == std::vector<std::string>{});
}

TEST_CASE("no parameter of a step is called like an index of its loops: rows and places") {
  using Nodes = std::vector<Node*>;
  for (const int summed : {-1, 0}) {
    CAPTURE(summed);
    for (const int dim : {0, 1}) {
      CAPTURE(dim);
      const Sizes left = {dim == 0 ? 21 : 6};
      check(
          "softmax", {{{6, 21}}}, {6, 21},
          [&](Net& net, const Nodes& in) {
            return net.call(ops::softmax_int, {in[0], dim}, {6, 21});
          },
          summed);
      check(
          "sum", {{{6, 21}}}, left,
          [&](Net& net, const Nodes& in) {
            return net.call(ops::sum_dim_IntList, {in[0], listed({dim})}, left);
          },
          summed);
    }
    check(
        "layer norm", {{{6, 21}}}, {6, 21},
        [](Net& net, const Nodes& in) {
          return net.call(ops::layer_norm, {in[0], listed({21})}, {6, 21});
        },
        summed);
  }
  check(
      "scatter", {{{5, 8}}, {{4, 8}}, {{4}, Dtype::int64}}, {5, 8},
      [](Net& net, const Nodes& in) {
        return net.call(ops::index_add, {in[0], 0, in[2], in[1]}, {5, 8});
      },
      1);
  check("bags", {{{7}, Dtype::int64}, {{3}, Dtype::int64}}, {3, 20}, [](Net& net, const Nodes& in) {
    Node* all = net.calls(ops::embedding_bag, {net.weight("row", {9, 20}), in[0], in[1]});
    return net.item(all, 0, {3, 20});
  });
}
