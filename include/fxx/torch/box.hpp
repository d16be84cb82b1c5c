// Values of C++ as boxed values, and back: tensors, numbers, text, optionals, tuples, pairs, vectors, arrays, maps and
// structs of them (trace/hana.hpp). A struct is a dict of its members.
//
// Main names: detail::box_input, detail::unbox. Cost: heavy (torch/nn/module.h).
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "fxx/torch/leaf_modules.hpp"

namespace fxx::inline FXX_ABI::detail {

/// An input of a graph. What a graph cannot hold (a function, say) can only be an input that tracing was given as it
/// is, and is left out.
template <class T>
c10::IValue box_input(const T& value) {
  constexpr bool container =
      Record<T> || requires { std::tuple_size<T>::value; } || requires { typename T::allocator_type; };
  if constexpr (container && !std::is_same_v<T, std::string>) return box_result(value);
  else if constexpr (std::is_same_v<T, std::nullopt_t>) return {};
  else if constexpr (std::is_constructible_v<c10::IValue, const T&>) return c10::IValue(value);
  else return {};
}

[[noreturn]] void cannot_unbox(const c10::IValue& value, const char* where, const std::string& wanted);
/// A value of a dict of text.
const c10::IValue* find_member(const c10::IValue& dict, std::string_view name);

/// The value that a graph returned, as C++ wants it. A graph has None for an undefined tensor, which comes back as one,
/// and as an empty optional. Throws RunError (E701) when it is something else.
template <class R>
R unbox(const c10::IValue& value, const char* where) {
  if constexpr (std::is_same_v<R, c10::IValue>) {
    return value;
  } else if constexpr (std::is_same_v<R, at::Tensor>) {
    if (value.isNone()) return {};  // an undefined tensor
    if (!value.isTensor()) cannot_unbox(value, where, "one tensor");
    return value.toTensor();
  } else if constexpr (std::is_arithmetic_v<R>) {
    if (!value.isInt() && !value.isDouble() && !value.isBool()) cannot_unbox(value, where, "a number");
    return Unboxed<R>(value).get();
  } else if constexpr (std::is_same_v<R, std::string>) {
    if (!value.isString()) cannot_unbox(value, where, "text");
    return value.toStringRef();
  } else if constexpr (Record<R>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto member = [&]<class M>(std::type_identity<M>, std::string_view name) {
        const c10::IValue* found = find_member(value, name);
        if (!found) cannot_unbox(value, where, "a struct with the member '" + std::string(name) + "'");
        return unbox<M>(*found, where);
      };
      return R{member(std::type_identity<std::tuple_element_t<I, member_types_t<R>>>(), record_traits<R>::names[I])...};
    }(std::make_index_sequence<record_traits<R>::names.size()>());
  } else if constexpr (requires {
                         typename R::mapped_type;
                         typename R::allocator_type;
                       }) {
    if (!value.isGenericDict()) cannot_unbox(value, where, "a map");
    R out;
    for (const auto& entry : value.toGenericDict())
      out.emplace(unbox<typename R::key_type>(entry.key(), where),
                  unbox<typename R::mapped_type>(entry.value(), where));
    return out;
  } else if constexpr (requires { std::tuple_size<R>::value; }) {
    constexpr std::size_t size = std::tuple_size_v<R>;
    const auto wrong = [&] { cannot_unbox(value, where, "a tuple of " + std::to_string(size)); };
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if (value.isTuple()) {
        const auto& elements = value.toTupleRef().elements();
        if (elements.size() != size) wrong();
        return R{unbox<std::remove_cv_t<std::tuple_element_t<I, R>>>(elements[I], where)...};
      }
      if (!value.isList() || value.toListRef().size() != size) wrong();
      return R{unbox<std::remove_cv_t<std::tuple_element_t<I, R>>>(c10::IValue(value.toListRef()[I]), where)...};
    }(std::make_index_sequence<size>());
  } else if constexpr (requires { typename R::allocator_type; }) {
    R out;
    if (value.isTuple())
      for (const c10::IValue& item : value.toTupleRef().elements())
        out.insert(out.end(), unbox<typename R::value_type>(item, where));
    else if (value.isList())
      for (const c10::IValue& item : value.toListRef())
        out.insert(out.end(), unbox<typename R::value_type>(item, where));
    else cannot_unbox(value, where, "a list");
    return out;
  } else if constexpr (requires {
                         typename R::value_type;
                         requires std::is_same_v<R, std::optional<typename R::value_type>>;
                       }) {
    if (value.isNone() || (value.isTensor() && !value.toTensor().defined())) return std::nullopt;
    return unbox<typename R::value_type>(value, where);
  } else {
    constexpr bool boxed = std::is_constructible_v<c10::IValue, const R&>;
    static_assert(boxed,
                  "fxx::call: no graph returns this type; of a struct the members have to be named by "
                  "BOOST_HANA_ADAPT_STRUCT, with fxx/trace/hana.hpp included");
    if constexpr (boxed) return value.to<R>();
    else cannot_unbox(value, where, "another type");
  }
}

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/box.ipp"
#endif
