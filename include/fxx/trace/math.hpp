// Functions of numbers, in a trace and outside: `fxx::math::sqrt(x.size(1))` is recorded of a traced number, and
// computed of a plain one.
//
// They mean what <cmath> and <algorithm> mean by these names. `using std::sqrt; sqrt(n)` does the same where a name is
// used often.
// Main names: math::sqrt and so on, math::to_int. Cost: light.
#pragma once

#include <cmath>
#include <cstdlib>

#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI::math {

#define FXX_MATH(name, index)                                                        \
  template <functional::detail::Number T>                                            \
  auto name(const T& value) {                                                        \
    if constexpr (std::derived_from<T, ScalarProxy>) return functional::name(value); \
    else return std::name(value);                                                    \
  }
FXX_NUMBER_FUNCTIONS(FXX_MATH)
#undef FXX_MATH
#define FXX_MATH(name, ...)                                                               \
  template <functional::detail::Number A, functional::detail::Number B>                   \
  auto name(const A& a, const B& b) {                                                     \
    if constexpr (std::derived_from<A, ScalarProxy> || std::derived_from<B, ScalarProxy>) \
      return functional::name(a, b);                                                      \
    else return __VA_ARGS__;                                                              \
  }
FXX_MATH(pow, std::pow(a, b))
FXX_MATH(fmod, std::fmod(a, b))
FXX_MATH(atan2, std::atan2(a, b))
FXX_MATH(hypot, std::hypot(a, b))
FXX_MATH(min, b < a ? std::common_type_t<A, B>(b) : std::common_type_t<A, B>(a))
FXX_MATH(max, a < b ? std::common_type_t<A, B>(b) : std::common_type_t<A, B>(a))
#undef FXX_MATH

/// The number without its fraction: for sizes that are computed with real numbers, where `static_cast<int64_t>` would
/// need the number.
template <functional::detail::Number T>
auto to_int(const T& value) {
  if constexpr (std::derived_from<T, ScalarProxy>) return functional::to_int(value);
  else return static_cast<std::int64_t>(value);
}

}  // namespace fxx::inline FXX_ABI::math
