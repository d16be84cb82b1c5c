// What is known of the members of a user's struct, so that it can hold inputs and outputs of graphs.
//
// Main names: record_traits. Boost.Hana's structs: fxx/trace/hana.hpp. Cost: light.
#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// The members of a struct. Specialise with
///   static constexpr std::array<std::string_view, N> names;
///   template <class Self, class F> static decltype(auto) apply(Self&& value, F&& f);  // f(value.a, value.b, ...)
/// A struct that is put together again is an aggregate with these members in this order.
template <class T>
struct record_traits {};

namespace detail {
template <class T>
concept Record = requires { record_traits<T>::names; };

/// A class, and no lambda: clang 16 takes none in an alias of a template.
struct MemberTypes {
  template <class... M>
  std::type_identity<std::tuple<std::remove_cvref_t<M>...>> operator()(M&&...) const {
    return {};
  }
};
/// The types of a struct's members, as a tuple.
template <Record T>
using member_types_t = typename decltype(record_traits<T>::apply(std::declval<T&>(), MemberTypes()))::type;
}  // namespace detail

}  // namespace fxx::inline FXX_ABI
