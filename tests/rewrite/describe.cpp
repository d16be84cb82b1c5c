// describe: the decision tree of a rule set as text.
#include "fxx/rewrite/describe.hpp"

#include <doctest/doctest.h>

#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

TEST_CASE("one rule is a line of tests") {
  constexpr auto rules = ruleset(rule<"flat">(sub(relu(x).once(), x) >> neg(x)));
  CHECK(describe(rules) == R"(1 rule on 1 operator: 6 tests in 8 states
%0 is aten::sub.Tensor
  %0.self = %1 is aten::relu
    %0.other is a node
      %0.alpha == 1.0 or left out
        %1 has one user
          %1.self is the same as %0.other
            => flat: x = %0.other
)");
}

TEST_CASE("tests that rules share are made once; commutative calls are tried in both orders") {
  constexpr auto rules =
      ruleset(rule<"silu">(mul(x, sigmoid(x)) >> silu(x)), rule<"square">(mul(sigmoid(x), sigmoid(x)) >> x),
              rule<"zero">(mul(x, 0_c) >> zeros_like(x)));
  CHECK(describe(rules) == R"(3 rules on 2 operators: 13 tests in 17 states
%0 is aten::mul.Scalar
  %0.self is a node
    %0.other == 0.0
      => zero: x = %0.self
%0 is aten::mul.Tensor
  %0 in both orders of its first two arguments
    %0.other = %1 is aten::sigmoid
      %0.self is a node
        %1.self is the same as %0.self
          => silu: x = %0.self
  %0.self = %1 is aten::sigmoid
    %0.other = %2 is aten::sigmoid
      %1.self is a node
        %2.self is the same as %1.self
          => square: x = %1.self
)");
}

TEST_CASE("every kind of test") {
  constexpr auto rules =
      ruleset(rule<"linear">(linear(x, constant<"w">, b) >> x, [](const Match&) { return true; }),
              rule<"cat">(cat(list(x, neg(y)), 1_c) >> x), rule<"scale">(div(x, near(1.5_c) | s) >> x),
              rule<"gelu">(gelu(x, arg<"approximate">(text<"tanh">)) >> x),
              rule<"pool">(max_pool2d(x, ints<2, 2>) >> x), rule<"any">(dropout(x, _, lit<false>) >> x),
              rule<"twice">(transpose(transpose(x, value<"a">, _), value<"a">, -1_c) >> x));
  CHECK(describe(rules) == R"(7 rules on 7 operators: 34 tests in 41 states
%0 is aten::cat
  %0.tensors is a list of 2
    %0.tensors[1] = %1 is aten::neg
      %0.tensors[0] is a node
        %0.dim == 1.0
          %1.self is a node
            => cat: x = %0.tensors[0], y = %1.self
%0 is aten::max_pool2d
  %0.self is a node
    %0.kernel_size == [2, 2]
      %0.stride == [] or left out
        %0.padding == 0.0 or left out
          %0.dilation == 1.0 or left out
            %0.ceil_mode == False or left out
              => pool: x = %0.self
%0 is aten::div.Scalar
  %0.self is a node
    %0.other is near 1.5
      => scale: x = %0.self
    %0.other is a number
      => scale: x = %0.self, s = %0.other
%0 is aten::dropout
  %0.input is a node
    %0.train == False
      => any: x = %0.input
%0 is aten::linear
  %0.input is a node
    %0.weight is a constant
      %0.bias is a node or None or left out
        => linear: x = %0.input, w = %0.weight, b = %0.bias, may decline
%0 is aten::transpose.int
  %0.self = %1 is aten::transpose.int
    %0.dim1 == -1.0
      %1.self is a node
        %1.dim0 is the same as %0.dim0
          => twice: a = %0.dim0, x = %1.self
%0 is aten::gelu
  %0.self is a node
    %0.approximate == 'tanh'
      => gelu: x = %0.self
)");
}

TEST_CASE("four operators and more of one argument are one choice") {
  constexpr auto rules =
      ruleset(rule<"1">(relu(neg(x)) >> x), rule<"2">(relu(abs(x)) >> x), rule<"3">(relu(exp(neg(x))) >> x),
              rule<"4">(relu(tanh(x)) >> x), rule<"5">(relu(y) >> abs(y)));
  CHECK(describe(rules) == R"(5 rules on 1 operator: 15 tests in 18 states
%0 is aten::relu
  %0.self = %1 is aten::neg
    %1.self is a node
      => 1: x = %1.self
  %0.self = %1 is aten::abs
    %1.self is a node
      => 2: x = %1.self
  %0.self = %1 is aten::exp
    %1.self = %2 is aten::neg
      %2.self is a node
        => 3: x = %2.self
  %0.self = %1 is aten::tanh
    %1.self is a node
      => 4: x = %1.self
  %0.self is a node
    => 5: y = %0.self
)");
}
