// Names of enums and enumerators at run time.
#include "fxx/meta/enum_name.hpp"

#include <doctest/doctest.h>

namespace geometry {
enum class Color : unsigned char { red, green = 5, far = 40 };
enum class Signed : int { below = -1, zero, last = 31 };
enum Plain { one, two };
enum Typed : short { three, four };
struct Shape {
  enum class Kind { round, square };
};
}  // namespace geometry

using namespace fxx;

TEST_CASE("types are named with their namespaces and classes") {
  CHECK(type_name<geometry::Color>() == "geometry::Color");
  CHECK(type_name<geometry::Shape::Kind>() == "geometry::Shape::Kind");
  CHECK(type_name<geometry::Plain>() == "geometry::Plain");
  CHECK(type_name<int>() == "int");
}

TEST_CASE("enumerators are named from 0 to 31, others and values without a name are not") {
  CHECK(enumerator_name(geometry::Color::red) == "red");
  CHECK(enumerator_name(geometry::Color::green) == "green");
  CHECK(enumerator_name(geometry::Color::far).empty());
  CHECK(enumerator_name(static_cast<geometry::Color>(3)).empty());
  CHECK(enumerator_name(geometry::Signed::below).empty());
  CHECK(enumerator_name(geometry::Signed::zero) == "zero");
  CHECK(enumerator_name(geometry::Signed::last) == "last");
  CHECK(enumerator_name(geometry::Shape::Kind::square) == "square");
  CHECK(enumerator_name(geometry::four) == "four");
}

TEST_CASE("an enum whose underlying type is not given has numbers only") {
  CHECK(enumerator_name(geometry::one).empty());
  CHECK(enumerator_name(geometry::two).empty());
}
