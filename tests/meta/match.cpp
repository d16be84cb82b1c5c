// meta/match.hpp: matching on variants by overloads.
#include "fxx/meta/match.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

using namespace fxx;

namespace {
template <int N>
struct alternative {
  int value = N;
};
using Eight = std::variant<alternative<0>, alternative<1>, alternative<2>, alternative<3>, alternative<4>,
                           alternative<5>, alternative<6>, alternative<7>>;
}  // namespace

TEST_CASE("match calls the overload of the alternative that is held") {
  using Variant = std::variant<int, std::string>;
  const auto describe = [](const Variant& v) {
    return match(
        v, [](int i) { return "int " + std::to_string(i); }, [](const std::string& s) { return "text " + s; });
  };
  CHECK(describe(3) == "int 3");
  CHECK(describe("a") == "text a");
}

TEST_CASE("every one of eight alternatives is reached") {
  const auto value = [](const Eight& v) { return match(v, [](const auto& a) { return a.value; }); };
  CHECK(value(alternative<0>{}) == 0);
  CHECK(value(alternative<1>{}) == 1);
  CHECK(value(alternative<2>{}) == 2);
  CHECK(value(alternative<3>{}) == 3);
  CHECK(value(alternative<4>{}) == 4);
  CHECK(value(alternative<5>{}) == 5);
  CHECK(value(alternative<6>{}) == 6);
  CHECK(value(alternative<7>{}) == 7);
}

TEST_CASE("every one of twenty alternatives is reached") {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    using Twenty = std::variant<alternative<I>...>;
    CHECK(sizeof...(I) == detail::max_alternatives);
    const auto value = [](const Twenty& v) { return match(v, [](const auto& a) { return a.value; }); };
    CHECK(((value(alternative<I>{}) == static_cast<int>(I)) && ...));
  }(std::make_index_sequence<20>());
}

TEST_CASE("match works in constant expressions") {
  constexpr std::variant<int, char> v = 'x';
  static_assert(match(
                    v, [](int) { return 1; }, [](char) { return 2; }) == 2);
}

TEST_CASE("match gives a reference when the overloads do, and can change what is held") {
  std::variant<int, int*> v = 1;
  match(
      v, [](int& i) { i = 7; }, [](int*&) {});
  CHECK(std::get<int>(v) == 7);
  int& inside = match(
      v, [](int& i) -> int& { return i; }, [](int*& p) -> int& { return *p; });
  CHECK(&inside == std::get_if<int>(&v));
}

TEST_CASE("overloads that cannot be copied are taken by move") {
  std::variant<int, char> v = 1;
  CHECK(match(
            v, [p = std::make_unique<int>(5)](int) { return *p; }, [](char) { return 0; }) == 5);
}
