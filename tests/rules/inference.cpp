// rules::inference: batch norm folds into what stands before it where all is constant; dropout and identity go.
#include "fxx/rules/inference.hpp"

#include <doctest/doctest.h>

#include <cmath>

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

TEST_CASE("output channels of a transposed convolution are the second dimension of its weight, of each group") {
  const auto transposed = [](std::int64_t groups, std::int64_t channels = 8) {
    return rewritten_graph(rules::inference, [=](Graph& g) {
      Node *x = g.placeholder("x"), *weight = attribute(g, "weight", {4, channels, 3, 3});
      Node* conv = g.call_function(ops::conv_transpose2d_input, {x, weight, {}, 2, 1, 1, groups});
      return batch_norm_of(g, conv, {.affine = false});
    });
  };
  CHECK(transposed(1).find("aten::view(%rsqrt, [1, -1, 1, 1])") != std::string::npos);
  CHECK(transposed(1).find("aten::conv_transpose2d.input(%x, %mul, %mul_1, 2, 1, 1, 1, [1, 1])") != std::string::npos);
  CHECK(transposed(2).find("batch_norm") != std::string::npos);  // it has 16, which are not what is normalised
  CHECK(transposed(2, 4).find("aten::view(%rsqrt, [2, 1, 4, 1, 1])") != std::string::npos);
  CHECK(transposed(2, 4).find("aten::reshape(%weight, [2, 2, 4, 3, 3])") != std::string::npos);
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

namespace {

/// A value of this shape, and a layer over what `change(Graph&, x)` makes of it.
template <class Change>
auto before(const Operator& op, std::vector<std::int64_t> input, std::vector<std::int64_t> weight, Change change,
            std::vector<Argument> options = {}) {
  return [=, &op](Graph& g) {
    Node* x = shaped(g.placeholder("x"), input);
    std::vector<Argument> args = {change(g, x), attribute(g, "weight", weight), attribute(g, "bias", {8})};
    args.insert(args.end(), options.begin(), options.end());
    return g.call_function(op, args);
  };
}
/// `change` of a layer over x.
template <class Change>
auto behind(const Operator& op, std::vector<std::int64_t> weight, Change change, std::vector<Argument> options = {},
            bool biased = true) {
  return [=, &op](Graph& g) {
    Node* x = g.placeholder("x");
    std::vector<Argument> args = {x, attribute(g, "weight", weight), biased ? attribute(g, "bias", {8}) : Argument()};
    args.insert(args.end(), options.begin(), options.end());
    return change(g, g.call_function(op, args));
  };
}
/// Calls `op` on the value and a constant of this shape.
auto with_constant(const Operator& op, std::vector<std::int64_t> shape, Dtype dtype = Dtype::float32) {
  return [=, &op](Graph& g, Node* n) { return g.call_function(op, {n, attribute(g, "c", shape, dtype)}); };
}
auto with_number(const Operator& op, Argument number) {
  return [=, &op](Graph& g, Node* n) { return g.call_function(op, {n, number}); };
}
template <class Make>
std::string fired(Make make) {
  return fired_on(rules::inference, make);
}

}  // namespace

TEST_CASE("a scale and a shift behind a convolution go into its weight and its bias") {
  CHECK(rewritten_graph(
            rules::inference,
            behind(ops::conv2d, {8, 3, 3, 3},
                   [](Graph& g, Node* n) {
                     return with_constant(ops::add_Tensor, {8, 1, 1})(g, with_constant(ops::mul_Tensor, {1, 1})(g, n));
                   },
                   {Argument::list({2, 2}), 1})) == R"(weight = attribute weight
bias = attribute bias
c = attribute c
reshape = aten::reshape(%c, [-1])
view = aten::view(%reshape, [-1, 1, 1, 1])
mul_1 = aten::mul.Tensor(%weight, %view)
mul_2 = aten::mul.Tensor(%bias, %reshape)
c_1 = attribute c
reshape_1 = aten::reshape(%c_1, [-1])
add_1 = aten::add.Tensor(%mul_2, %reshape_1)
conv2d = aten::conv2d(%x, %mul_1, %add_1, [2, 2], 1)
return %conv2d
)");
}

TEST_CASE("numbers, divisions and differences fold, with a bias and without, into every kind of layer") {
  CHECK(fired(behind(ops::linear, {8, 3}, with_number(ops::mul_Scalar, 2))) == "fold scale: 1");
  CHECK(fired(behind(ops::linear, {8, 3}, with_number(ops::mul_Tensor, 2.5))) == "fold scale: 1");
  CHECK(fired(behind(ops::linear, {8, 3}, with_constant(ops::div_Tensor, {8}))) == "fold scale: 1");
  CHECK(rewritten_graph(rules::inference,
                        behind(ops::linear, {8, 3}, with_number(ops::true_divide_Scalar, 2), {}, false))
            .find("aten::div.Scalar(%weight, 2)") != std::string::npos);
  for (const char* method : {"true_divide_", "divide_", "div_"}) {
    CAPTURE(method);
    const std::string text = rewritten_graph(rules::inference, behind(ops::conv1d, {8, 3, 1}, [&](Graph& g, Node* n) {
                                               return g.call_method(method, {shaped(n, {2, 8, 5}), 2});
                                             }));
    CHECK(text.find("aten::div.Scalar(%weight, 2)") != std::string::npos);
    CHECK(text.find("aten::mul") == std::string::npos);
  }
  CHECK(rewritten_graph(rules::inference, behind(ops::linear, {8, 3}, with_number(ops::subtract_Scalar, 2)))
            .find("aten::sub.Scalar(%bias, 2)") != std::string::npos);
  // In place it might be of another dtype; of one that is known it is not.
  const auto scaled_in_place = with_constant(ops::mul__Tensor, {8, 1});
  CHECK(fired(behind(ops::conv1d, {8, 3, 1}, scaled_in_place)) == "");
  CHECK(fired(behind(ops::conv1d, {8, 3, 1}, [=](Graph& g, Node* n) {
          return scaled_in_place(g, shaped(n, {2, 8, 5}));
        })) == "fold scale: 1");
  CHECK(fired(behind(ops::conv3d, {8, 3, 1, 1, 1}, with_constant(ops::sub_Tensor, {}))) == "fold shift: 1");
  CHECK(fired(behind(ops::conv_transpose2d_input, {3, 8, 3, 3}, with_constant(ops::mul_Tensor, {8, 1, 1}))) ==
        "fold scale: 1");
  CHECK(rewritten_graph(rules::inference, behind(ops::linear, {8, 3}, with_number(ops::sub_Scalar, 2), {}, false)) ==
        R"(weight = attribute weight
new_full = aten::new_full(%weight, [8], -2.0)
linear = aten::linear(%x, %weight, %new_full)
return %linear
)");
  CHECK(rewritten_graph(rules::inference,
                        behind(ops::conv_transpose1d, {3, 8, 2}, with_constant(ops::sub_Tensor, {8, 1}), {}, false)) ==
        R"(weight = attribute weight
c = attribute c
reshape = aten::reshape(%c, [-1])
expand = aten::expand(%reshape, [8])
neg = aten::neg(%expand)
conv_transpose1d = aten::conv_transpose1d(%x, %weight, %neg)
return %conv_transpose1d
)");
}

TEST_CASE("a scale before a layer goes into the input channels of its weight, padded or not") {
  const auto c = with_constant(ops::mul_Tensor, {3, 1, 1});
  CHECK(rewritten_graph(rules::inference, before(ops::conv2d, {2, 3, 9, 9}, {8, 3, 3, 3}, c,
                                                 {Argument::list({1, 1}), Argument::list({1, 1})})) ==
        R"(c = attribute c
weight = attribute weight
bias = attribute bias
reshape = aten::reshape(%c, [-1])
view = aten::view(%reshape, [1, -1, 1, 1])
mul_1 = aten::mul.Tensor(%weight, %view)
conv2d = aten::conv2d(%x, %mul_1, %bias, [1, 1], [1, 1])
return %conv2d
)");
  CHECK(fired(before(ops::conv_transpose2d_input, {2, 4, 9, 9}, {4, 4, 3, 3}, with_constant(ops::mul_Tensor, {4, 1, 1}),
                     {1, 0, 0, 2})) == "fold scale before: 1");
  CHECK(fired(before(ops::linear, {2, 5, 3}, {8, 3}, with_constant(ops::div_Tensor, {3}))) == "fold scale before: 1");
  CHECK(fired(before(ops::conv2d, {2, 4, 9, 9}, {8, 2, 3, 3}, with_number(ops::div_Scalar, 2), {1, 0, 1, 2})) ==
        "fold scale before: 1");
}

TEST_CASE("a shift before a layer goes into its bias where nothing is padded") {
  const auto c = with_constant(ops::sub_Tensor, {1, 3, 1, 1});
  CHECK(rewritten_graph(rules::inference, before(ops::conv2d, {2, 3, 9, 9}, {8, 3, 3, 3}, c)) ==
        R"(c = attribute c
weight = attribute weight
bias = attribute bias
reshape = aten::reshape(%c, [-1])
view = aten::view(%reshape, [1, -1, 1, 1])
mul = aten::mul.Tensor(%weight, %view)
sum = aten::sum.dim_IntList(%mul, [1, 2, 3])
sub_1 = aten::sub.Tensor(%bias, %sum)
conv2d = aten::conv2d(%x, %weight, %sub_1)
return %conv2d
)");
  CHECK(fired(before(ops::conv2d, {2, 3, 9, 9}, {8, 3, 3, 3}, c, {1, Argument::list({0, 1})})) == "");
  CHECK(fired(before(ops::conv_transpose2d_input, {2, 3, 9, 9}, {3, 8, 3, 3}, c)) == "");
  CHECK(fired(before(ops::linear, {2, 3}, {8, 3}, with_number(ops::add_Scalar, 1))) == "fold shift before: 1");
}

TEST_CASE("what is no scale of channels stays") {
  const auto scaled = [](std::vector<std::int64_t> c, Dtype dtype = Dtype::float32,
                         std::vector<Argument> options = {}) {
    return fired(behind(ops::conv2d, {8, 3, 3, 3}, with_constant(ops::mul_Tensor, c, dtype), options));
  };
  CHECK(scaled({8, 1, 1}) == "fold scale: 1");
  CHECK(scaled({8, 1}) == "");        // a row each
  CHECK(scaled({2, 8, 1, 1}) == "");  // more than one batch may come of it
  CHECK(scaled({1, 8, 1, 1}) == "");  // without a batch the result would get one
  CHECK(scaled({8, 1, 1}, Dtype::float64) == "");
  CHECK(fired(behind(ops::linear, {8, 3}, with_constant(ops::mul_Tensor, {1, 8}))) == "");
  CHECK(fired(behind(ops::linear, {1, 3}, with_constant(ops::mul_Tensor, {8}), {}, false)) == "");  // makes it wider
  CHECK(fired(behind(ops::conv_transpose2d_input, {4, 4, 3, 3}, with_constant(ops::mul_Tensor, {8, 1, 1}),
                     {1, 0, 0, 2})) == "");
  CHECK(fired(behind(ops::linear, {8, 3}, with_number(ops::mul_Scalar, INFINITY))) == "");
  CHECK(fired(behind(ops::linear, {8, 3}, [](Graph& g, Node* n) {  // not a constant
          return g.call_function(ops::mul_Tensor, {n, shaped(g.placeholder("y"), {8})});
        })) == "");
  CHECK(fired(behind(ops::linear, {8, 3}, [](Graph& g, Node* n) {  // somebody else sees what is not scaled
          g.call_function(ops::relu, {n});
          return g.call_function(ops::mul_Scalar, {n, 2});
        })) == "");
  CHECK(fired(behind(ops::linear, {8, 3}, [](Graph& g, Node* n) {  // a second weight would be made beside the first
          g.call_function(ops::relu, {n->args()[1]});
          return g.call_function(ops::mul_Scalar, {n, 2});
        })) == "");
  const auto c = with_constant(ops::mul_Tensor, {3, 1, 1});
  CHECK(fired(before(ops::conv2d, {2, 1, 9, 9}, {8, 3, 3, 3}, c)) == "");  // the product makes the channels
  CHECK(fired(before(ops::conv2d, {2, 6, 9, 9}, {8, 3, 3, 3}, with_constant(ops::mul_Tensor, {6, 1, 1}),
                     {1, 0, 1, 2})) == "");
  CHECK(fired(before(ops::linear, {2, 3}, {8, 3}, with_number(ops::div_Scalar, 0))) == "");
}

TEST_CASE("a batch norm without a convolution before it folds into the one behind it") {
  const auto normalised = [](Graph& g, Node* x) { return batch_norm_of(g, x); };
  CHECK(fired(before(ops::conv2d, {2, 8, 9, 9}, {8, 8, 1, 1}, normalised)) == "fold batch norm into what follows: 1");
  CHECK(fired(before(ops::linear, {2, 8}, {8, 8}, normalised)) == "fold batch norm into what follows: 1");
  CHECK(fired(before(ops::linear, {2, 8, 8}, {8, 8}, normalised)) == "");
  CHECK(fired(before(ops::conv2d, {2, 8, 9, 9}, {8, 8, 3, 3}, normalised, {1, 1})) == "");
  CHECK(fired(before(ops::conv2d, {2, 8, 9, 9}, {8, 1, 1, 1}, normalised, {1, 0, 1, 8})) == "");
  CHECK(rewritten_graph(rules::inference, before(ops::linear, {2, 8}, {8, 8}, normalised)) ==
        R"(bn_weight = attribute bn.weight
bn_bias = attribute bn.bias
bn_running_mean = attribute bn.running_mean
bn_running_var = attribute bn.running_var
weight = attribute weight
bias = attribute bias
add = aten::add.Scalar(%bn_running_var, 1e-05)
rsqrt = aten::rsqrt(%add)
mul = aten::mul.Tensor(%rsqrt, %bn_weight)
mul_1 = aten::mul.Tensor(%bn_running_mean, %mul)
neg = aten::neg(%mul_1)
add_1 = aten::add.Tensor(%neg, %bn_bias)
mul_2 = aten::mul.Tensor(%weight, %mul)
mul_3 = aten::mul.Tensor(%weight, %add_1)
sum = aten::sum.dim_IntList(%mul_3, [1])
add_2 = aten::add.Tensor(%bias, %sum)
linear = aten::linear(%x, %mul_2, %add_2)
return %linear
)");
}

TEST_CASE("a batch norm folds through padding that makes no values of its own") {
  const auto padded = [](Argument sizes, const char* mode) {
    return folds([=](Graph& g) {
      Node* x = shaped(g.placeholder("x"), {2, 3, 9, 9});
      Node* conv = g.call_function(ops::conv2d, {x, attribute(g, "conv.weight", {8, 3, 3, 3})});
      return g.call_function(ops::pad, {conv, sizes, mode});
    });
  };
  const std::string both = "fold batch norm, conv2d: 1, batch norm before pad: 1";
  CHECK(padded(Argument::list({1, 1, 1, 1}), "reflect") == both);
  CHECK(padded(Argument::list({1, 1, 1, 1}), "circular") == both);
  CHECK(padded(Argument::list({-1, 0}), "constant") == both);
  CHECK(padded(Argument::list({1, 0}), "constant") == "");               // zeros are not normalised zeros
  CHECK(padded(Argument::list({0, 0, 0, 0, -1, 0}), "constant") == "");  // takes channels away
}

TEST_CASE("a batch norm goes to the parts of what was joined, where most are of convolutions") {
  const auto joined = [](std::int64_t of_convolution, Argument dim, std::int64_t users = 1) {
    return [=](Graph& g) {
      Node* x = shaped(g.placeholder("x"), {2, 3, 9, 9});
      Node* conv = g.call_function(ops::conv2d, {x, attribute(g, "conv.weight", {of_convolution, 3, 1, 1})});
      shaped(conv, {2, of_convolution, 9, 9});
      if (users > 1) g.call_function(ops::relu, {conv});
      Node* other = shaped(g.placeholder("y"), {2, 8 - of_convolution, 9, 9});
      return g.call_function(ops::cat, {Argument::list({conv, other}), dim});
    };
  };
  CHECK(folds(joined(6, 1)) == "fold batch norm, conv2d: 1, batch norm before cat: 1");
  CHECK(folds(joined(6, -3)) == "fold batch norm, conv2d: 1, batch norm before cat: 1");
  CHECK(folds(joined(6, 0)) == "");
  CHECK(folds(joined(2, 1)) == "");
  CHECK(folds(joined(6, 1, 2)) == "");
  const std::string text =
      rewritten_graph(rules::inference, [&](Graph& g) { return batch_norm_of(g, joined(6, 1)(g), {.affine = false}); });
  CHECK(text.find("aten::narrow(%bn_running_mean, 0, 6, 2)") != std::string::npos);
  CAPTURE(text);
  CHECK(text.ends_with("aten::cat([%conv2d, %batch_norm_1], 1)\nreturn %cat\n"));
  // Of convolutions that no batch norm folds into it stays behind the cat, where it is one call.
  CHECK(folds([](Graph& g) {
          Node* x = shaped(g.placeholder("x"), {9, 2, 3});
          Node* conv = shaped(g.call_function(ops::conv_tbc, {x, attribute(g, "weight", {1, 3, 6}),
                                                              attribute(g, "bias", {6})}), {9, 6, 6});
          Node* other = shaped(g.placeholder("y"), {9, 2, 6});
          return g.call_function(ops::cat, {Argument::list({conv, other}), 1});
        }) == "");
}
