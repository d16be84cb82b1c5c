// Ways of computing steps: their text, which of them are tried, and that all of them give what double precision gives.
#include "fxx/codegen/trials.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "codegen/loaded.hpp"
#include "codegen/lowered.hpp"
#include "fxx/codegen/alternatives.hpp"

using namespace fxx;
using plans::Way;
using test::Net;

namespace {

using Numbers = std::vector<double>;
struct Image {
  int channels, height, width;
};

/// All that a convolution may be; `w` is [outputs, channels of a group, r, s].
Numbers convolved(const Numbers& x, Image in, const std::vector<float>& w, Image out, int side, int stride, int padding,
                  int groups = 1) {
  const int of_group = in.channels / groups, outputs = out.channels / groups;
  Numbers y;
  for (int o = 0; o < out.channels; ++o)
    for (int i = 0; i < out.height; ++i)
      for (int j = 0; j < out.width; ++j) {
        double sum = 0;
        for (int c = 0; c < of_group; ++c)
          for (int r = 0; r < side; ++r)
            for (int s = 0; s < side; ++s) {
              const int h = i * stride + r - padding, v = j * stride + s - padding, from = o / outputs * of_group + c;
              if (h >= 0 && v >= 0 && h < in.height && v < in.width)
                sum += x[static_cast<std::size_t>((from * in.height + h) * in.width + v)] *
                       double(w[static_cast<std::size_t>(((o * of_group + c) * side + r) * side + s)]);
            }
        y.push_back(sum);
      }
  return y;
}
void add_to_channels(Numbers& y, const std::vector<float>& bias) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += double(bias[i / (y.size() / bias.size())]);
}
void relu(Numbers& y) {
  for (double& v : y) v = std::max(v, 0.);
}

/// Positive, since inputs of trials go through a relu.
std::vector<float> positive(std::size_t count, std::uint64_t seed) {
  std::vector<float> result = test::numbers(count, seed);
  for (float& x : result) x = std::abs(x) + 0.01f;
  return result;
}

/// Where element number `i` of the tensor lies.
std::size_t place_of(std::size_t i, const plans::View& view) {
  auto rest = static_cast<std::int64_t>(i);
  std::int64_t at = view.offset;
  for (std::size_t d = view.sizes.size(); d-- > 0;) {
    at += rest % view.sizes[d] * view.strides[d];
    rest /= view.sizes[d];
  }
  return static_cast<std::size_t>(at);
}
std::vector<float> laid_out(const std::vector<float>& elements, const plans::View& view) {
  std::vector<float> result(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) result[place_of(i, view)] = elements[i];
  return result;
}

/// Runs all ways of the first shape that begins like this, and compares what they give with `wanted`. `memory`: inputs
/// and attributes by name. Returns the ways.
std::vector<std::string> check_ways(const Net& net, std::string_view kind, const Target& target,
                                    const std::map<std::string, std::vector<float>>& memory, const Numbers& wanted,
                                    double tolerance = 1e-5, std::optional<bool> alone = {}) {
  const LowerOptions options{.accuracy = target.accuracy, .alone = alone};
  const KernelPlan plan = net.plan(options);
  std::vector<TrialSite> sites = trial_sites(plan);
  std::erase_if(sites, [&](const TrialSite& site) { return !site.shape.starts_with(kind); });
  REQUIRE(sites.size() == 1);
  const std::string shape = sites[0].shape;
  for (const KernelStep& step : plan.steps)
    if (step.shape == shape) sites[0].ways = alternatives(step, target);
  std::erase_if(sites[0].ways, [](const Way& way) { return way.method == Way::Method::library; });
  CHECK(sites[0].ways.at(0) == Way{});
  const TrialPlan trials = trial_plan(net.graph, net.owner, options, sites, 1 << 20, false);
  std::vector<const void*> attributes, inputs;
  for (const std::string& name : trials.plan.attributes) attributes.push_back(memory.at(name).data());
  const std::vector<float> between(1 << 18, 1.f);
  std::vector<std::vector<float>> given_inputs;
  for (const plans::View& input : trials.plan.inputs) {
    const std::string& name = test::buffer_of(trials.plan, input).name;
    given_inputs.push_back(name == "memory" ? between : laid_out(memory.at(name), input));
    inputs.push_back(given_inputs.back().data());
  }
  std::vector<std::vector<float>> results;
  std::vector<void*> outputs;
  for (const PlanOutput& output : trials.plan.outputs) {
    REQUIRE(output.buffer >= 0);
    results.emplace_back(static_cast<std::size_t>(test::buffer_of(trials.plan, output.view).elements), -77.f);
  }
  for (std::vector<float>& result : results) outputs.push_back(result.data());
  test::Loaded(trials.plan, attributes).run(inputs, outputs);

  CHECK(trials.trials.size() == sites[0].ways.size());
  std::vector<std::string> ways;
  for (const Trial& trial : trials.trials) {
    const std::string text = sites[0].ways[trial.way].to_string();
    CAPTURE(shape);
    CAPTURE(text);
    ways.push_back(text);
    CHECK(trial.site == 0);
    CHECK(!trial.steps.empty());
    for (const int number : trial.steps) {
      const KernelStep& step = trials.plan.steps[static_cast<std::size_t>(number)];
      CHECK(step.expected >= 0);
      using Method = plans::Convolution::Method;
      const auto* k = std::get_if<plans::Convolution>(&step.kernel);
      if (k && text.starts_with("winograd_2")) CHECK(k->method == Method::winograd_2);
      if (k && text.starts_with("winograd_4")) CHECK(k->method == Method::winograd_4);
    }
    const auto result = static_cast<std::size_t>(trial.result);
    const plans::View& view = trials.plan.outputs.at(result).view;
    std::vector<float> given;
    for (std::size_t i = 0; i < wanted.size(); ++i) given.push_back(results[result][place_of(i, view)]);
    test::check_near(given, wanted, tolerance);
  }
  return ways;
}
bool has(const std::vector<std::string>& ways, std::string_view word) {
  return std::ranges::any_of(ways, [&](const std::string& way) { return way.find(word) != way.npos; });
}

}  // namespace

TEST_CASE("ways as text, and back; any other text is none") {
  using Method = Way::Method;
  const Way ways[] = {{},
                      {.method = Method::winograd_4, .tile = {14, 2}},
                      {.method = Method::direct, .distance = Way::Distance::near},
                      {.tile = {1, 8}, .by_rows = true},
                      {.method = Method::winograd_2, .at_once = 24},
                      {.alone = true, .packed = Way::Packed::float32},
                      {.method = Method::library},
                      {.method = Method::joined, .distance = Way::Distance::far, .packed = Way::Packed::bfloat16},
                      {.method = Method::apart}};
  std::set<std::string> texts;
  for (const Way& way : ways) {
    CAPTURE(way.to_string());
    CHECK(texts.insert(way.to_string()).second);
    REQUIRE(way_of_text(way.to_string()));
    CHECK(*way_of_text(way.to_string()) == way);
  }
  CHECK(ways[0].to_string() == "estimated");
  CHECK(ways[1].to_string() == "winograd_4 14x2");
  CHECK(ways[4].to_string() == "winograd_2 24_at_once");
  for (const std::string_view text : {"", " ", "winograd_8", "winograd_4 14x2 ", "winograd_4  14x2", "14x", "x2",
                                      "14x2x3", "0x2", "-1x2", "near far", "99999999999x2", "2x99999999999", "17x2",
                                      "direct direct", "alone by_rows", "estimated direct", "direct estimated"}) {
    CAPTURE(text);
    CHECK(!way_of_text(text));
  }
}

TEST_CASE("the tiles that are tried fit the registers, and are few") {
  for (const int lanes : {4, 8, 16})
    for (const std::int64_t rows : {1, 2, 7, 49, 128, 12544})
      for (const std::int64_t columns : {1, 10, 64, 96, 1000}) {
        Net net;
        Node* x = net.input("x", {rows, 96});
        const KernelPlan plan =
            net.plan_of(net.call(ops::linear, {x, net.weight("w", {columns, 96})}, {rows, columns}));
        const std::vector<Way> ways = alternatives(plan.steps.at(0), {.lanes = lanes, .threads = 2});
        REQUIRE(!ways.empty());
        CHECK(ways[0] == Way{});
        CHECK(ways.size() <= 12);
        for (std::size_t i = 0; i < ways.size(); ++i) {
          CHECK(std::ranges::count(ways, ways[i]) == 1);
          const kernels::TileShape tile = ways[i].tile;
          if (tile.rows == 0) continue;
          CHECK(tile.rows <= rows);
          CHECK((tile.vectors - 1) * lanes < columns);
          CHECK(kernels::fits_registers(tile, lanes == 16 ? 32 : 16));
        }
      }
  // What has one way has no shape.
  Net net;
  Node* x = net.input("x", {4, 4});
  const KernelPlan plan = net.plan_of(net.call(ops::softmax_int, {x, 1}, {4, 4}));
  CHECK(alternatives(plan.steps.at(0), {}).empty());
  CHECK(trial_sites(plan).empty());
}

TEST_CASE("equal shapes are one site; accuracy, and few weights, make it another") {
  const auto shapes = [](Accuracy accuracy, bool many) {
    Net net;
    Node* x = net.input("x", {8, 64});
    for (int i = 0; i < 3; ++i) x = net.call(ops::linear, {x, net.weight("w" + std::to_string(i), {64, 64})}, {8, 64});
    if (many) net.weight("large", {1024, 1024});
    std::vector<std::string> result;
    for (const TrialSite& site : trial_sites(net.plan_of(x, {.accuracy = accuracy}))) result.push_back(site.shape);
    return result;
  };
  using Strings = std::vector<std::string>;
  CHECK(shapes(Accuracy::standard, true) == Strings{"product 8 x 64 -> 64"});
  CHECK(shapes(Accuracy::standard, false) == Strings{"product 8 x 64 -> 64, few weights"});
  CHECK(shapes(Accuracy::exact, true) == Strings{"product 8 x 64 -> 64, exact"});
  CHECK(shapes(Accuracy::fast, false) == Strings{"product 8 x 64 -> 64, fast, few weights"});
}

TEST_CASE("products: all ways give what double precision gives") {
  for (const int rows : {1, 5, 67})
    for (const bool fast : {false, true}) {
      CAPTURE(rows);
      const int depth = 45, columns = 83;
      Net net;
      Node* x = net.input("x", {rows, depth});
      Node* y =
          net.call(ops::linear, {x, net.weight("w", {columns, depth}), net.weight("b", {columns})}, {rows, columns});
      net.graph.output(net.call(ops::relu, {y}, {rows, columns}));
      const auto in = positive(static_cast<std::size_t>(rows * depth), 1);
      const auto w = test::numbers(static_cast<std::size_t>(columns * depth), 2), b = test::numbers(columns, 3);
      Numbers wanted;
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
          double sum = double(b[static_cast<std::size_t>(j)]);
          for (int k = 0; k < depth; ++k)
            sum += double(in[static_cast<std::size_t>(i * depth + k)]) *
                   double(w[static_cast<std::size_t>(j * depth + k)]);
          wanted.push_back(std::max(sum, 0.));
        }
      const auto ways =
          check_ways(net, "product", {.threads = 2, .accuracy = fast ? Accuracy::fast : Accuracy::standard},
                     {{"x", in}, {"w", w}, {"b", b}}, wanted, fast ? 0.01 : 1e-5);
      CHECK(has(ways, "far"));
      CHECK(has(ways, "by_rows") == (rows == 67));
      CHECK((has(ways, "bfloat16") || has(ways, "float32")) == fast);
    }
}

TEST_CASE("convolutions: all ways give what double precision gives") {
  struct Case {
    int channels, outputs, side, stride;
    std::string_view word;
  };
  for (const Case& c :
       {Case{20, 35, 3, 1, "winograd_4"}, {20, 35, 3, 2, "near"}, {24, 18, 1, 1, "direct"}, {64, 2, 1, 1, "direct"}}) {
    CAPTURE(c.side);
    CAPTURE(c.stride);
    const Image in{c.channels, 13, 9};
    const Image out{c.outputs, (13 + c.stride - 1) / c.stride, (9 + c.stride - 1) / c.stride};
    Net net;
    Node* x = net.input("x", {1, in.channels, in.height, in.width});
    Node* y = net.call(ops::conv2d,
                       {x, net.weight("w", {c.outputs, c.channels, c.side, c.side}), net.weight("b", {c.outputs}),
                        c.stride, c.side / 2},
                       {1, out.channels, out.height, out.width});
    Node* r = net.input("r", {1, out.channels, out.height, out.width});
    net.graph.output(
        net.call(ops::add_Tensor, {net.call(ops::relu, {y}, y->tensor_meta()->shape), r}, y->tensor_meta()->shape));
    const auto a = positive(static_cast<std::size_t>(in.channels * 117), 1),
               w = test::numbers(static_cast<std::size_t>(c.outputs * c.channels * c.side * c.side), 2),
               b = test::numbers(static_cast<std::size_t>(c.outputs), 3),
               added = positive(static_cast<std::size_t>(out.channels * out.height * out.width), 4);
    Numbers wanted = convolved({a.begin(), a.end()}, in, w, out, c.side, c.stride, c.side / 2);
    add_to_channels(wanted, b);
    relu(wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += double(added[i]);
    const auto ways =
        check_ways(net, "convolution", {}, {{"x", a}, {"w", w}, {"b", b}, {"r", added}}, wanted, 1e-5, false);
    CHECK(has(ways, c.word));
    if (c.word == "winograd_4") {
      const auto alone = check_ways(net, "convolution", {}, {{"x", a}, {"w", w}, {"b", b}, {"r", added}}, wanted);
      CHECK(has(alone, "winograd_2"));
      CHECK_FALSE(has(alone, "winograd_4"));
    }
    if (c.side > 1) {
      const auto exact = check_ways(net, "convolution", {.accuracy = Accuracy::exact},
                                    {{"x", a}, {"w", w}, {"b", b}, {"r", added}}, wanted);
      CHECK_FALSE(has(exact, "winograd"));
    }
  }
}

TEST_CASE("transposed convolutions and products of computed matrices: all ways give what double precision gives") {
  Net images;
  Node* x = images.input("x", {1, 6, 8, 5});
  images.graph.output(
      images.call(ops::conv_transpose2d_input, {x, images.weight("w", {6, 40, 2, 2}), Argument{}, 2}, {1, 40, 16, 10}));
  const auto a = positive(240, 1), w = test::numbers(960, 2);
  Numbers wanted(40 * 160);
  for (int o = 0; o < 40; ++o)
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 10; ++j)
        for (int c = 0; c < 6; ++c)
          wanted[static_cast<std::size_t>((o * 16 + i) * 10 + j)] +=
              double(a[static_cast<std::size_t>((c * 8 + i / 2) * 5 + j / 2)]) *
              double(w[static_cast<std::size_t>(((c * 40 + o) * 2 + i % 2) * 2 + j % 2)]);
  CHECK(check_ways(images, "transposed", {}, {{"x", a}, {"w", w}}, wanted).size() > 1);

  Net products;
  Node* p = products.input("p", {3, 11, 20});
  Node* q = products.input("q", {3, 20, 37});
  products.graph.output(products.call(ops::bmm, {p, q}, {3, 11, 37}));
  const auto left = positive(660, 3), right = positive(2220, 4);
  Numbers result;
  for (int m = 0; m < 3; ++m)
    for (int i = 0; i < 11; ++i)
      for (int j = 0; j < 37; ++j) {
        double sum = 0;
        for (int k = 0; k < 20; ++k)
          sum += double(left[static_cast<std::size_t>((m * 11 + i) * 20 + k)]) *
                 double(right[static_cast<std::size_t>((m * 20 + k) * 37 + j)]);
        result.push_back(sum);
      }
  CHECK(check_ways(products, "3 products", {}, {{"p", left}, {"q", right}}, result).size() > 1);
}

TEST_CASE("a depthwise convolution joined with its products, and apart") {
  const Image in{8, 12, 9}, wide{40, 12, 9}, out{12, 12, 9};
  Net net;
  Node* x = net.input("x", {1, 8, 12, 9});
  Node* a = net.call(ops::relu, {net.call(ops::conv2d, {x, net.weight("w1", {40, 8, 1, 1})}, {1, 40, 12, 9})},
                     {1, 40, 12, 9});
  Node* b = net.call(ops::conv2d, {a, net.weight("w2", {40, 1, 3, 3}), Argument{}, 1, 1, 1, 40}, {1, 40, 12, 9});
  b = net.call(ops::relu, {b}, {1, 40, 12, 9});
  net.graph.output(net.call(ops::conv2d, {b, net.weight("w3", {12, 40, 1, 1})}, {1, 12, 12, 9}));
  const auto x_in = positive(864, 1), w1 = test::numbers(320, 2), w2 = test::numbers(360, 3),
             w3 = test::numbers(480, 4);
  Numbers wanted = convolved({x_in.begin(), x_in.end()}, in, w1, wide, 1, 1, 0);
  relu(wanted);
  wanted = convolved(wanted, wide, w2, wide, 3, 1, 1, 40);
  relu(wanted);
  wanted = convolved(wanted, wide, w3, out, 1, 1, 0);
  const KernelPlan plan = net.plan();
  std::vector<TrialSite> sites = trial_sites(plan);
  const auto site = std::ranges::find_if(sites, [](const TrialSite& s) { return s.shape.starts_with("depthwise"); });
  REQUIRE(site != sites.end());
  CHECK(site->nodes.size() == 5);
  CHECK(check_ways(net, "depthwise", {}, {{"x", x_in}, {"w1", w1}, {"w2", w2}, {"w3", w3}}, wanted) ==
        std::vector<std::string>{"estimated", "joined"});
}
