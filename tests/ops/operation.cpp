// ops/operation.hpp: operators as constants.
#include "fxx/ops/operation.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/registry.hpp"

using namespace fxx;

TEST_CASE("operators of the table are compile-time constants") {
  static_assert(info_of<ops::relu>.name == "aten::relu");
  static_assert(info_of<ops::add_Tensor>.overload_name() == "Tensor");
  static_assert(info_of<ops::add_Tensor>.arity() == 3);
  static_assert(info_of<ops::add_Tensor>.positional == 2);
  static_assert(info_of<ops::add_Tensor>.required == 2);
  static_assert(has(info_of<ops::add_Tensor>.traits, Trait::commutative));
  static_assert(info_of<ops::add_Tensor>.parameters[2].standard == Literal::of(1));
  static_assert(info_of<ops::conv2d>.index_of("stride") == 3);
  static_assert(info_of<ops::relu_>.mutates && !info_of<ops::relu>.mutates);
  static_assert(info_of<ops::view>.aliases && info_of<ops::view>.pure());
  static_assert(info_of<ops::max_dim>.returns[1].name == "indices");
  static_assert(has(info_of<ops::dropout>.traits, Trait::random) && info_of<ops::dropout>.pure());
  CHECK(true);
}

TEST_CASE("an operation is a number that becomes an operator") {
  static_assert(sizeof(ops::relu) == sizeof(OperatorIndex));
  static_assert(std::is_same_v<decltype(ops::relu), decltype(ops::relu_)>);
  const Operator& relu = ops::relu;
  CHECK(&relu == &get_operator("aten::relu"));
  CHECK(&relu == &ops::relu.info());
  CHECK(relu == info_of<ops::relu>);
  CHECK(relu.parameters[0].name == info_of<ops::relu>.parameters[0].name);
  CHECK_FALSE(relu == info_of<ops::neg>);
  Graph g;
  CHECK(g.call_function(ops::relu, {g.placeholder("x")})->operation() == &relu);
}

TEST_CASE("all operators of the table convert to the one of their name") {
  std::size_t checked = 0;
#define FXX_OP(function_, name_, schema_, traits_) \
  checked += static_cast<const Operator&>(ops::name_).schema == schema_;
#include "fxx/ops/table.inc"
#undef FXX_OP
  CHECK(checked > 1000);
  CHECK(checked == static_cast<std::size_t>(std::size(detail::table::rows)));
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
