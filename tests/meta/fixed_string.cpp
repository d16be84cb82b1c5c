// meta/fixed_string.hpp: text as a template argument, and the hash of names.
#include "fxx/meta/fixed_string.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace fxx;

namespace {
template <fixed_string Name>
struct named {
  static constexpr std::string_view name = Name.view();
};
}  // namespace

TEST_CASE("a fixed_string keeps its text without the terminator") {
  static_assert(named<"silu">::name == "silu");
  static_assert(named<"">::name.empty());
  static_assert(named<"a\0b">::name.size() == 3);
}

TEST_CASE("equal texts are one template argument, different ones two") {
  static_assert(std::is_same_v<named<"relu">, named<"relu">>);
  static_assert(!std::is_same_v<named<"relu">, named<"selu">>);
  static_assert(!std::is_same_v<named<"relu">, named<"relu6">>);
}

TEST_CASE("hash_of is FNV-1a, the same at compile time and at run time") {
  // The published test vectors of the 64-bit hash.
  static_assert(hash_of("") == 0xcbf29ce484222325ull);
  static_assert(hash_of("a") == 0xaf63dc4c8601ec8cull);
  static_assert(hash_of("foobar") == 0x85944171f73967e8ull);
  const std::string_view text = "foobar";
  CHECK(hash_of(text) == 0x85944171f73967e8ull);
  static_assert(hash_of("\xff") != hash_of("\x7f"), "characters count as unsigned on every machine");
}
