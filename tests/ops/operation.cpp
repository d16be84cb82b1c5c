// ops/operation.hpp: operators as constants.
#include "fxx/ops/operation.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/registry.hpp"

using namespace fxx;

TEST_CASE("operators of the table are compile-time constants") {
  static_assert(ops::relu.info().name == "aten::relu");
  static_assert(ops::add_Tensor.info().overload_name() == "Tensor");
  static_assert(ops::add_Tensor.info().arity() == 3);
  static_assert(ops::add_Tensor.info().positional == 2);
  static_assert(ops::add_Tensor.info().required == 2);
  static_assert(has(ops::add_Tensor.info().traits, Trait::commutative));
  static_assert(ops::add_Tensor.info().parameters[2].standard == Literal::of(1));
  static_assert(ops::conv2d.info().index_of("stride") == 3);
  static_assert(ops::relu_.info().mutates && !ops::relu.info().mutates);
  static_assert(ops::view.info().aliases && ops::view.info().pure());
  static_assert(ops::max_dim.info().returns[1].name == "indices");
  static_assert(has(ops::dropout.info().traits, Trait::random) && ops::dropout.info().pure());
  CHECK(true);
}

TEST_CASE("an operation is an empty object that becomes an operator") {
  static_assert(std::is_empty_v<decltype(ops::relu)>);
  static_assert(!std::is_same_v<decltype(ops::relu), decltype(ops::relu_)>);
  const Operator& relu = ops::relu;
  CHECK(&relu == &ops::relu.info());
  CHECK(relu == get_operator("aten::relu"));
  CHECK_FALSE(relu == ops::neg.info());
  Graph g;
  CHECK(g.call_function(ops::relu, {g.placeholder("x")})->operation() == &relu);
}

TEST_CASE("an operator from its schema, with traits, is one constant") {
  constexpr const Operator& rotate = op<"my::rotate(Tensor x, float angle=0.5) -> Tensor", Trait::pointwise>;
  static_assert(rotate.name == "my::rotate");
  static_assert(rotate.parameters[1].standard.real == 0.5);
  static_assert(has(rotate.traits, Trait::pointwise));
  static_assert(rotate.overload_name().empty());
  CHECK(&rotate == &op<"my::rotate(Tensor x, float angle=0.5) -> Tensor", Trait::pointwise>.info());
  CHECK(std::string(rotate.schema) == "my::rotate(Tensor x, float angle=0.5) -> Tensor");
}

TEST_CASE("traits combine") {
  constexpr Trait both = Trait::method | Trait::function;
  static_assert(has(both, Trait::method) && has(both, Trait::function) && !has(both, Trait::random));
  static_assert(!has(Trait::none, Trait::impure));
  CHECK(true);
}
