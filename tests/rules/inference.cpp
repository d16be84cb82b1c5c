// rules::inference: batch norm folds into what stands before it where all is constant; dropout and identity go.
#include "fxx/rules/inference.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using namespace fxx::functional;
using test::attribute;
using test::fired_on;
using test::fires;
using test::rewritten;
using test::rewritten_graph;
using test::shaped;

namespace {

struct Norm {
  bool training = false, affine = true;
  Argument eps = 1e-5;
};
Node* batch_norm_of(Graph& g, Node* x, Norm norm = {}) {
  const Argument gamma = norm.affine ? attribute(g, "bn.weight", {8}) : Argument();
  const Argument beta = norm.affine ? attribute(g, "bn.bias", {8}) : Argument();
  Node *mean = attribute(g, "bn.running_mean", {8}), *var = attribute(g, "bn.running_var", {8});
  return g.call_function(ops::batch_norm, {x, gamma, beta, mean, var, norm.training, 0.1, norm.eps, true});
}
Node* conv2d_of(Graph& g, std::vector<Argument> more = {}, Dtype dtype = Dtype::float32) {
  std::vector<Argument> args = {g.placeholder("x"), attribute(g, "conv.weight", {8, 3, 3, 3}, dtype)};
  args.insert(args.end(), more.begin(), more.end());
  return g.call_function(ops::conv2d, args);
}
/// Which rule fires on the batch norm of what `make(Graph&)` builds.
template <class Make>
std::string folds(Make make, Norm norm = {}) {
  return fired_on(rules::inference, [&](Graph& g) { return batch_norm_of(g, make(g), norm); });
}

}  // namespace

TEST_CASE("a convolution takes over the batch norm behind it, and keeps its name and its other arguments") {
  CHECK(rewritten_graph(rules::inference, [](Graph& g) {
          Node* bias = attribute(g, "conv.bias", {8});
          Node* conv = conv2d_of(g, {bias, Argument::list({2, 2}), 1, 1, 1});
          conv->rename("stem");
          return batch_norm_of(g, conv);
        }) == R"(conv_bias = attribute conv.bias
conv_weight = attribute conv.weight
bn_weight = attribute bn.weight
bn_bias = attribute bn.bias
bn_running_mean = attribute bn.running_mean
bn_running_var = attribute bn.running_var
add = aten::add.Scalar(%bn_running_var, 1e-05)
rsqrt = aten::rsqrt(%add)
mul = aten::mul.Tensor(%rsqrt, %bn_weight)
view = aten::view(%mul, [-1, 1, 1, 1])
mul_1 = aten::mul.Tensor(%conv_weight, %view)
sub = aten::sub.Tensor(%conv_bias, %bn_running_mean)
mul_2 = aten::mul.Tensor(%sub, %mul)
add_1 = aten::add.Tensor(%mul_2, %bn_bias)
stem = aten::conv2d(%x, %mul_1, %add_1, [2, 2], 1, 1, 1)
return %stem
)");
}

TEST_CASE("without bias, without affine parameters, in another type") {
  CHECK(rewritten_graph(rules::inference, [](Graph& g) {
          return batch_norm_of(g, conv2d_of(g, {}, Dtype::float16), {.affine = false});
        }) == R"(conv_weight = attribute conv.weight
bn_running_mean = attribute bn.running_mean
bn_running_var = attribute bn.running_var
add = aten::add.Scalar(%bn_running_var, 1e-05)
rsqrt = aten::rsqrt(%add)
view = aten::view(%rsqrt, [-1, 1, 1, 1])
mul = aten::mul.Tensor(%conv_weight, %view)
neg = aten::neg(%bn_running_mean)
mul_1 = aten::mul.Tensor(%neg, %rsqrt)
to = aten::to.dtype(%mul, torch.float16)
to_1 = aten::to.dtype(%mul_1, torch.float16)
conv2d = aten::conv2d(%x, %to, %to_1, [1, 1], [0, 0], [1, 1], 1)
return %conv2d
)");
}

TEST_CASE("every convolution and a linear over two dimensions fold") {
  const auto call = [](const Operator& op, std::vector<std::int64_t> weight) {
    return [&op, weight](Graph& g) {
      return g.call_function(op, {g.placeholder("x"), attribute(g, "weight", weight)});
    };
  };
  CHECK(folds(call(ops::conv1d, {8, 3, 3})) == "fold batch norm, conv1d: 1");
  CHECK(folds(call(ops::conv2d, {8, 3, 3, 3})) == "fold batch norm, conv2d: 1");
  CHECK(folds(call(ops::conv3d, {8, 3, 3, 3, 3})) == "fold batch norm, conv3d: 1");
  CHECK(folds(call(ops::conv_transpose1d, {3, 8, 3})) == "fold batch norm, conv_transpose1d: 1");
  CHECK(folds(call(ops::conv_transpose2d_input, {3, 8, 3, 3})) == "fold batch norm, conv_transpose2d: 1");
  CHECK(folds(call(ops::conv_transpose3d_input, {3, 8, 3, 3, 3})) == "fold batch norm, conv_transpose3d: 1");
  const auto linear = [](std::vector<std::int64_t> shape) {
    return [shape](Graph& g) {
      Node* x = g.placeholder("x");
      return g.call_function(ops::linear, {shape.empty() ? x : shaped(x, shape), attribute(g, "weight", {8, 3})});
    };
  };
  CHECK(folds(linear({2, 3})) == "fold batch norm, linear: 1");
  CHECK(folds(linear({2, 4, 3})) == "");  // the channels of the batch norm are not the linear's
  CHECK(folds(linear({})) == "");
}

TEST_CASE("output channels of a transposed convolution are the second dimension of its weight, in one group") {
  const auto transposed = [](std::int64_t groups) {
    return rewritten_graph(rules::inference, [=](Graph& g) {
      Node *x = g.placeholder("x"), *weight = attribute(g, "weight", {4, 8, 3, 3});
      Node* conv = g.call_function(ops::conv_transpose2d_input, {x, weight, {}, 2, 1, 1, groups});
      return batch_norm_of(g, conv, {.affine = false});
    });
  };
  CHECK(transposed(1).find("aten::view(%rsqrt, [1, -1, 1, 1])") != std::string::npos);
  CHECK(transposed(1).find("aten::conv_transpose2d.input(%x, %mul, %mul_1, 2, 1, 1, 1, [1, 1])") != std::string::npos);
  CHECK(transposed(2).find("batch_norm") != std::string::npos);
}

TEST_CASE("what must not fold") {
  const auto conv = [](Graph& g) { return conv2d_of(g); };
  CHECK(folds(conv) == "fold batch norm, conv2d: 1");
  CHECK(folds(conv, {.training = true}) == "");
  CHECK(folds([](Graph& g) {  // somebody else sees the convolution
          Node* n = conv2d_of(g);
          g.call_function(ops::relu, {n});
          return n;
        }) == "");
  CHECK(folds([](Graph& g) {  // its weight is computed from the input
          Node* x = g.placeholder("x");
          return g.call_function(ops::conv2d, {x, x});
        }) == "");
  CHECK(folds([](Graph& g) {
          Node* bias = g.placeholder("bias");
          return conv2d_of(g, {bias});
        }) == "");
  CHECK(folds([](Graph& g) { return g.call_function(ops::relu, {conv2d_of(g)}); }) == "");
  // A batch norm of nothing takes statistics of any size and type; the fold would not.
  CHECK(folds([](Graph& g) { return conv2d_of(g, {attribute(g, "one", {1})}); }) == "");
  CHECK(folds([](Graph& g) { return conv2d_of(g, {attribute(g, "one", {})}); }) == "");
  CHECK(folds([](Graph& g) { return conv2d_of(g, {}, Dtype::int64); }) == "");
  CHECK(folds([](Graph& g) {
          Node* x = shaped(g.placeholder("x"), {0, 3, 9, 9}, Dtype::int64);
          return g.call_function(ops::conv2d, {x, attribute(g, "weight", {8, 3, 3, 3})});
        }) == "");
  CHECK(folds([](Graph& g) {
          Node* x = shaped(g.placeholder("x"), {0, 3, 9, 9}, Dtype::float64);
          return g.call_function(ops::conv2d, {x, attribute(g, "weight", {8, 3, 3, 3})});
        }) == "");
  CHECK(folds([](Graph& g) {
          return g.call_function(ops::conv2d, {g.placeholder("x"), attribute(g, "weight", {4, 3, 3, 3})});
        }) == "");
  CHECK(
      folds([](Graph& g) {
        return g.call_function(ops::conv_transpose2d_input, {g.placeholder("x"), attribute(g, "weight", {8, 4, 3, 3})});
      }) == "");
  CHECK(folds([](Graph& g) {  // something happens between the two that others see
          Node* n = conv2d_of(g);
          g.call_function(ops::relu_, {g.placeholder("other")});
          return n;
        }) == "");
}

TEST_CASE("what follows in place stays behind the folded convolution") {
  const std::string text = rewritten_graph(
      rules::inference, [](Graph& g) { return g.call_function(ops::relu_, {batch_norm_of(g, conv2d_of(g))}); });
  CHECK(text.find("batch_norm") == std::string::npos);
  CHECK(text.ends_with("relu_ = aten::relu_(%conv2d)\nreturn %relu_\n"));
}

TEST_CASE("dropout goes where it is idle, of every kind, and stays where it trains") {
  const auto gone = [](auto f) { return rewritten(rules::inference, f) == "return %x\n"; };
  CHECK(gone([](auto x) { return dropout(x, 0.5, false); }));
  CHECK(gone([](auto x) { return dropout_(x, 0.5, false); }));
  CHECK(gone([](auto x) { return feature_dropout(alpha_dropout(x, 0.2, false), 0.3, false); }));
  CHECK(gone([](auto x) { return feature_dropout_(alpha_dropout_(x, 0.2, false), 0.3, false); }));
  CHECK(gone([](auto x) { return feature_alpha_dropout_(feature_alpha_dropout(x, 0.2, false), 0.3, false); }));
  CHECK_FALSE(fires(rules::inference, [](auto x) { return dropout(x, 0.5, true); }));
  CHECK_FALSE(fires(rules::inference, [](auto x) { return dropout_(x, 0.5, true); }));
}

TEST_CASE("dropout before something in place goes only where that changes nothing else") {
  CHECK(rewritten(rules::inference, [](auto x) { return relu_(dropout(x * 2, 0.5, false)); }) ==
        "mul = aten::mul.Scalar(%x, 2)\nrelu_ = aten::relu_(%mul)\nreturn %relu_\n");
  CHECK_FALSE(fires(rules::inference, [](auto x) {
    const auto y = x * 2;
    const auto z = relu_(dropout(y, 0.5, false));
    return y + z;
  }));
}
