// Names of enums and enumerators, as the compiler spells them in the signature of a function.
//
// Main names: type_name, enumerator_name. Enumerators with values 0 to 31 of an enum class, or of an enum with a given
// underlying type, have names here; others are numbers.
// Cost: light.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// What stands after "T = " or "V = " in the signature of the function that asks.
constexpr std::string_view template_argument(std::string_view signature) {
  const std::size_t from = signature.find("= ") + 2;
  return signature.substr(from, signature.find_last_of(']') - from);
}
/// The first argument only, for the compiler that lists the types of aliases after it.
constexpr std::string_view first_argument(std::string_view list) { return list.substr(0, list.find(';')); }

template <auto V>
constexpr std::string_view spelled_value() {
  return first_argument(template_argument(__PRETTY_FUNCTION__));
}
/// Has the enum a fixed underlying type? Others cannot be asked for all numbers.
template <class T>
concept FixedEnum = requires { T{0}; };

}  // namespace detail

/// "geometry::Color".
template <class T>
constexpr std::string_view type_name() {
  return detail::first_argument(detail::template_argument(__PRETTY_FUNCTION__));
}

/// "red" of geometry::Color::red; empty for a value without a name, or out of 0 to 31.
template <class T>
  requires std::is_enum_v<T>
constexpr std::string_view enumerator_name(T value) {
  if constexpr (!detail::FixedEnum<T>) return {};
  else {
    constexpr int count = 32;
    constexpr auto names = []<int... I>(std::integer_sequence<int, I...>) {
      return std::array<std::string_view, count>{detail::spelled_value<static_cast<T>(I)>()...};
    }(std::make_integer_sequence<int, count>());
    const auto number = static_cast<std::underlying_type_t<T>>(value);
    if (number < 0 || static_cast<unsigned long long>(number) >= count) return {};
    const std::string_view name = names[static_cast<std::size_t>(number)];
    // A value without a name is spelled as a cast of a number.
    const std::string_view last = name.substr(name.find_last_of(":)") + 1);
    return last[0] >= '0' && last[0] <= '9' ? std::string_view() : last;
  }
}

}  // namespace fxx::inline FXX_ABI
