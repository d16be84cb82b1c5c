// rules::onednn: layers with the activation or the sum behind them become one call of oneDNN, where nothing forbids it.
#include "fxx/rules/onednn.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/onednn.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using test::attribute;
using test::fired_on;
using test::rewritten_graph;
using test::shaped;

namespace {

using Shape = std::vector<std::int64_t>;

/// A convolution of images and what it may be made from otherwise.
struct Layer {
  Shape x = {2, 3, 8, 8}, weight = {4, 3, 3, 3};
  Dtype dtype = Dtype::float32;
  std::vector<Argument> more = {};  // behind the bias
  bool biased = true, constant = true;
};
Node* convolution_of(Graph& g, const Layer& layer = {}) {
  Node* x = shaped(g.placeholder("x"), layer.x, layer.dtype);
  Node* weight = layer.constant ? attribute(g, "weight", layer.weight, layer.dtype)
                                : shaped(g.placeholder("weight"), layer.weight, layer.dtype);
  std::vector<Argument> args = {x, weight, Argument()};
  if (layer.biased) args[2] = attribute(g, "bias", {layer.weight[0]}, layer.dtype);
  args.insert(args.end(), layer.more.begin(), layer.more.end());
  Shape sizes = layer.x;
  sizes[1] = layer.weight[0];
  return shaped(g.call_function(ops::conv2d, args), sizes, layer.dtype);
}
/// A pointwise call, which has the shape of its first argument.
Node* behind(Graph& g, const Operator& op, std::vector<Argument> args, std::vector<KeywordArgument> kwargs = {}) {
  Node* node = g.call_function(op, args, kwargs);
  node->set_tensor_meta(*args[0].node()->tensor_meta());
  return node;
}
std::string fires_on(const Layer& layer) {
  return fired_on(rules::onednn, [&](Graph& g) { return behind(g, ops::relu, {convolution_of(g, layer)}); });
}

constexpr const char* activated = "convolution, activated: 1";

}  // namespace

TEST_CASE("a convolution and the activation behind it are one call") {
  CHECK(rewritten_graph(rules::onednn, [](Graph& g) {
          return behind(g, ops::relu, {convolution_of(g, {.more = {2, Argument::list({1, 2}), 1, 1}})});
        }) == R"(weight = attribute weight
bias = attribute bias
_convolution_pointwise = mkldnn::_convolution_pointwise(%x, %weight, %bias, [1, 2], [2, 2], [1, 1], 1, 'relu', [], None)
return %_convolution_pointwise
)");
}

TEST_CASE("every activation has its name, numbers and algorithm") {
  const auto made = [](const Operator& op, std::vector<Argument> more, std::vector<KeywordArgument> kwargs = {}) {
    const std::string text = rewritten_graph(rules::onednn, [&](Graph& g) {
      std::vector<Argument> args = {convolution_of(g)};
      args.insert(args.end(), more.begin(), more.end());
      return behind(g, op, args, kwargs);
    });
    const std::size_t from = text.find(", 1, '");
    return from == text.npos ? text : text.substr(from + 5, text.find(")\n", from) - from - 5);
  };
  CHECK(made(ops::relu, {}) == "'relu', [], None");
  CHECK(made(ops::relu_, {}) == "'relu', [], None");
  CHECK(made(ops::sigmoid, {}) == "'sigmoid', [], None");
  CHECK(made(ops::tanh, {}) == "'tanh', [], None");
  CHECK(made(ops::hardswish, {}) == "'hardswish', [], None");
  CHECK(made(ops::hardsigmoid, {}) == "'hardsigmoid', [], None");
  CHECK(made(ops::silu, {}) == "'swish', [], None");
  CHECK(made(ops::leaky_relu, {0.25}) == "'leaky_relu', [0.25], None");
  CHECK(made(ops::leaky_relu, {}) == "'leaky_relu', [0.01], None");
  CHECK(made(ops::relu6, {}) == "'hardtanh', [0.0, 6.0], None");
  CHECK(made(ops::hardtanh, {}) == "'hardtanh', [-1.0, 1.0], None");
  CHECK(made(ops::clamp, {-2, 0.5}) == "'hardtanh', [-2.0, 0.5], None");
  CHECK(made(ops::gelu, {}) == "'gelu', [], 'none'");
  CHECK(made(ops::gelu, {}, {{"approximate", "tanh"}}) == "'gelu', [], 'tanh'");
  const std::string apart = "return %clamp\n";
  CHECK(made(ops::clamp, {2, 0.5}).ends_with(apart));  // LibTorch gives the smaller, oneDNN does not
  CHECK(made(ops::clamp, {0.5}).ends_with(apart));
}

TEST_CASE("sums take their place in the call, and the relu behind them too") {
  const auto made = [](const Operator& op, bool turned, bool relu) {
    return rewritten_graph(rules::onednn, [&](Graph& g) {
      Node* y = shaped(g.placeholder("y"), {2, 4, 8, 8});
      Node* layer = convolution_of(g, {.biased = false});
      std::vector<Argument> args = {layer, y};
      if (turned) std::swap(args[0], args[1]);
      Node* sum = behind(g, op, args);
      return relu ? behind(g, ops::relu, {sum}) : sum;
    });
  };
  const auto text = [](const std::string& joined, const std::string& unary) {
    return "weight = attribute weight\n_convolution_pointwise = mkldnn::_convolution_pointwise.binary(%x, %y, %weight, "
           "None, [0, 0], [1, 1], [1, 1], 1, '" + joined + "', None, " + unary + ", [], None)\n"
           "return %_convolution_pointwise\n";
  };
  CHECK(made(ops::add_Tensor, false, false) == text("add", "None"));
  CHECK(made(ops::add_Tensor, true, true) == text("add", "'relu'"));
  CHECK(made(ops::sub_Tensor, false, true) == text("sub", "'relu'"));
  CHECK(made(ops::mul_Tensor, true, false) == text("mul", "None"));
  CHECK(made(ops::sub_Tensor, true, false).find("mkldnn") == std::string::npos);  // y - layer
}

TEST_CASE("what is joined has the shape of the result, alpha is 1, and it is no second use of the layer") {
  const auto fires = [](Shape other, std::vector<Argument> alpha, Dtype dtype = Dtype::float32) {
    return fired_on(rules::onednn, [&](Graph& g) {
      std::vector<Argument> args = {convolution_of(g), shaped(g.placeholder("y"), other, dtype)};
      args.insert(args.end(), alpha.begin(), alpha.end());
      return behind(g, ops::add_Tensor, args);
    });
  };
  CHECK(fires({2, 4, 8, 8}, {}) == "convolution, joined: 1");
  CHECK(fires({2, 4, 8, 8}, {1}) == "convolution, joined: 1");
  CHECK(fires({2, 4, 8, 8}, {2}) == "");
  CHECK(fires({4, 1, 1}, {}) == "");
  CHECK(fires({1, 4, 8, 8}, {}) == "");
  CHECK(fires({2, 4, 8, 8}, {}, Dtype::float64) == "");
  CHECK(fired_on(rules::onednn, [](Graph& g) {
          Node* layer = convolution_of(g);
          return behind(g, ops::mul_Tensor, {layer, layer});
        }) == "");
}

TEST_CASE("convolutions of groups, with windows that are spelled either way") {
  CHECK(fires_on({.x = {2, 6, 8, 8}, .more = {1, 0, 1, 2}}) == activated);
  CHECK(fires_on({.more = {Argument::list({1}), 0, Argument::list({2, 1})}}) == activated);
}

TEST_CASE("a layer stays where it is trained, is of another type, has no batch, or nothing is known of it") {
  CHECK(fires_on({}) == activated);
  CHECK(fires_on({.constant = false}) == "");
  CHECK(fires_on({.dtype = Dtype::float64}) == "");
  CHECK(fires_on({.dtype = Dtype::bfloat16}) == "");
  CHECK(fires_on({.x = {3, 8, 8}, .more = {}}) == "");
  CHECK(fires_on({.x = {0, 3, 8, 8}}) == "");
  CHECK(fires_on({.x = {-1, 3, 8, 8}}) == "");
  const auto with = [](auto change) {
    return fired_on(rules::onednn, [&](Graph& g) {
      Node* layer = convolution_of(g);
      Node* result = behind(g, ops::relu, {layer});
      change(layer, result);
      return result;
    });
  };
  CHECK(with([](Node*, Node*) {}) == activated);
  CHECK(with([](Node* layer, Node*) { layer->arg(0).node()->clear_tensor_meta(); }) == "");
  CHECK(with([](Node*, Node* result) { result->clear_tensor_meta(); }) == "");
  CHECK(with([](Node* layer, Node*) {
          TensorMeta meta = *layer->arg(0).node()->tensor_meta();
          meta.device = {DeviceType::cuda, 0};
          layer->arg(0).node()->set_tensor_meta(meta);
        }) == "");
  CHECK(fired_on(rules::onednn, [](Graph& g) {  // somebody else uses it
          Node* layer = convolution_of(g);
          return behind(g, ops::add_Tensor, {behind(g, ops::relu, {layer}), behind(g, ops::exp, {layer})});
        }) == "");
}

TEST_CASE("where values do not lie in order for certain, nobody may see the layout, and views become reshapes") {
  const auto made = [](const Operator& reader, std::vector<Argument> more, bool last) {
    return rewritten_graph(rules::onednn, [&](Graph& g) {
      Node* layer = convolution_of(g);
      if (last) {
        TensorMeta meta = *layer->arg(0).node()->tensor_meta();
        meta.stride = {192, 1, 24, 3};
        layer->arg(0).node()->set_tensor_meta(meta);
      }
      std::vector<Argument> args = {behind(g, ops::relu, {layer})};
      args.insert(args.end(), more.begin(), more.end());
      return g.call_function(reader, args);
    });
  };
  const auto has = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  const Argument sizes = Argument::list({2, -1});
  CHECK(has(made(ops::view, {sizes}, false), "aten::view("));
  CHECK(has(made(ops::view, {sizes}, true), "aten::reshape("));
  const Argument of = Argument::list({2}), by = Argument::list({7});
  CHECK(has(made(ops::as_strided, {of, by}, false), "mkldnn::"));
  CHECK_FALSE(has(made(ops::as_strided, {of, by}, true), "mkldnn::"));
}

TEST_CASE("transposed convolutions") {
  const auto made = [](std::vector<Argument> more, Argument bias_size = 6) {
    return rewritten_graph(rules::onednn, [&](Graph& g) {
      Node *x = shaped(g.placeholder("x"), {2, 4, 8, 8}), *weight = attribute(g, "weight", {4, 3, 3, 3});
      std::vector<Argument> args = {x, weight, attribute(g, "bias", {bias_size.integer()})};
      args.insert(args.end(), more.begin(), more.end());
      return behind(g, ops::sigmoid, {shaped(g.call_function(ops::conv_transpose2d_input, args), {2, 6, 17, 17})});
    });
  };
  CHECK(made({2, 1, 1, 2, Argument::list({1, 2})})
            .find("mkldnn::_convolution_transpose_pointwise(%x, %weight, %bias, [1, 1], [1, 1], [2, 2], [1, 2], 2, "
                  "'sigmoid', [], None)") != std::string::npos);
  CHECK(made({2, 1, 2, 2, 3}).find("mkldnn") == std::string::npos);  // padded by a whole stride
  CHECK(made({2, 1, 1, 2, 1}, 3).find("mkldnn") == std::string::npos);
}

TEST_CASE("linears, over rows and batches of them") {
  const auto made = [](Shape shape, bool joined) {
    return rewritten_graph(rules::onednn, [&](Graph& g) {
      Node *x = shaped(g.placeholder("x"), shape), *weight = attribute(g, "weight", {5, 3});
      shape.back() = 5;
      Node* y = joined ? shaped(g.placeholder("y"), shape) : nullptr;
      Node* layer = shaped(g.call_function(ops::linear, {x, weight}), shape);
      return joined ? behind(g, ops::add_Tensor, {y, layer}) : behind(g, ops::gelu, {layer});
    });
  };
  CHECK(made({2, 3}, false) == R"(weight = attribute weight
_linear_pointwise = mkldnn::_linear_pointwise(%x, %weight, None, 'gelu', [], 'none')
return %_linear_pointwise
)");
  CHECK(made({2, 7, 3}, true) == R"(weight = attribute weight
_linear_pointwise = mkldnn::_linear_pointwise.binary(%x, %y, %weight, None, 'add')
return %_linear_pointwise
)");
  CHECK(made({3}, false).find("mkldnn") == std::string::npos);
}

TEST_CASE("the calls print and parse back, before anybody made one") {
  Graph graph;
  Node *x = graph.placeholder("x"), *weight = graph.get_attr("weight");
  graph.output(graph.call_function(ops::onednn_linear,
                                   {x, weight, {}, "hardtanh", Argument::list({0.0, 6.0}), {}}));
  const std::string printed = to_string(graph);
  CHECK(to_string(parse_graph(printed)) == printed);
  CHECK(parse_graph(printed).output_node()->arg(0).node()->calls(ops::onednn_linear));
}
