// meta/boxed.hpp: a value elsewhere in memory, which may be missing.
#include "fxx/meta/boxed.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <utility>

using namespace fxx;

TEST_CASE("a box has a value or none, and takes one pointer") {
  static_assert(sizeof(Boxed<std::string>) == sizeof(void*));
  static_assert(std::is_nothrow_move_constructible_v<Boxed<std::string>>);
  Boxed<std::string> box;
  CHECK_FALSE(box);
  box = std::string("text");
  REQUIRE(box);
  CHECK(*box == "text");
  CHECK(box->size() == 4);
  box.reset();
  CHECK_FALSE(box);
}

TEST_CASE("a copy of a box has a value of its own; a moved one has the value itself") {
  Boxed<std::string> box = std::string("text"), copy = box;
  *copy += "s";
  CHECK(*box == "text");
  const std::string* const at = &*copy;
  Boxed<std::string> moved = std::move(copy);
  CHECK(&*moved == at);
  copy = box;
  CHECK(*copy == "text");
  const Boxed<std::string>& itself = copy;
  copy = itself;
  CHECK(*copy == "text");
  copy = Boxed<std::string>();
  CHECK_FALSE(copy);
  CHECK(*moved == "texts");
}
