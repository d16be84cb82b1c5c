// Values of C++ that hold proxies, as arguments of a graph and back: tuples, pairs, vectors, arrays, maps, optionals
// and structs of the user's.
//
// A struct takes part when record_traits names its members: include fxx/trace/hana.hpp for structs that Boost.Hana
// knows (BOOST_HANA_DEFINE_STRUCT, BOOST_HANA_ADAPT_STRUCT), or specialise it. In the graph it is a dictionary of its
// members.
// Main names: to_argument, from_argument. Cost: light.
#pragma once

#include <map>
#include <type_traits>

#include "fxx/trace/proxy.hpp"
#include "fxx/trace/record.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

template <class T>
inline constexpr bool is_tuple = requires { std::tuple_size<T>::value; };
template <class T>
concept OptionalLike = requires(const T& t) {
  t.has_value();
  *t;
} && !HasTraits<T>;
template <class T>
concept MapLike = requires { typename T::mapped_type; };
/// A value that is one literal in a graph.
template <class T>
concept UserEnum = std::is_enum_v<T> && !HasTraits<T> && !std::constructible_from<Argument, T>;
template <class T>
concept Immediate = std::is_arithmetic_v<T> || UserEnum<T> || StringLike<T> || std::same_as<T, Argument> ||
                    std::same_as<T, std::nullopt_t> || requires(const T& t) { argument_traits<T>::convert(t); } ||
                    (requires { value_kind<T>::value; } && std::constructible_from<Argument, const T&>);

template <Immediate T>
Argument immediate_argument(const T& value) {
  if constexpr (requires { argument_traits<T>::convert(value); }) return argument_traits<T>::convert(value);
  else if constexpr (UserEnum<T>)
    return Enumerator{std::string(type_name<T>()), std::string(enumerator_name(value)),
                      static_cast<std::int64_t>(value)};
  else if constexpr (StringLike<T>) return std::string_view(value);
  else return Argument(value);
}

/// How generated code spells the type; empty when that is not known before the graph is.
template <class T>
std::string cpp_type_name() {
  if constexpr (std::same_as<T, ListProxy>) {
    return "std::vector<torch::Tensor>";
  } else if constexpr (requires { requires T::proxy_type == ValueType::tensor; } || ExternalTensor<T>) {
    return "torch::Tensor";
  } else if constexpr (std::derived_from<T, ProxyBase> || OptionalLike<T> || Record<T>) {
    return {};
  } else if constexpr (std::same_as<T, bool>) {
    return "bool";
  } else if constexpr (std::integral<T>) {
    return "int64_t";
  } else if constexpr (std::floating_point<T>) {
    return "double";
  } else if constexpr (StringLike<T>) {
    return "std::string";
  } else if constexpr (MapLike<T>) {
    const std::string key = cpp_type_name<typename T::key_type>(), mapped = cpp_type_name<typename T::mapped_type>();
    return key.empty() || mapped.empty() ? std::string() : "std::map<" + key + ", " + mapped + ">";
  } else if constexpr (Sequence<T> && !HasTraits<T>) {
    const std::string item = cpp_type_name<typename T::value_type>();
    return item.empty() ? item : "std::vector<" + item + ">";
  } else if constexpr (is_tuple<T>) {
    std::string items;
    bool known = true;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      [[maybe_unused]] const auto add = [&](const std::string& item) {
        known = known && !item.empty();
        items += (items.empty() ? "" : ", ") + item;
      };
      (add(cpp_type_name<std::remove_cv_t<std::tuple_element_t<I, T>>>()), ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
    return known ? "std::tuple<" + items + ">" : std::string();
  } else {
    return {};
  }
}

[[noreturn]] void wrong_structure(const Argument& value, const char* wanted);
/// The node that takes one item out of a dictionary.
Node* named_item(Tracer& tracer, Node* node, std::string_view key);
/// The values for the placeholders of a graph out of those for its inputs; see Signature.
std::vector<Argument> flatten_inputs(Tracer& tracer, const Graph& graph, std::span<const Argument> inputs);
/// The entry of that key, or null.
const Argument* find_entry(const Argument& dict, const Argument& key);

}  // namespace detail

/// The argument for a value that a traced function returns: proxies, numbers, text, None for void, and tuples, pairs,
/// vectors, arrays, optionals, maps and structs of them.
template <class T>
Argument to_argument(Tracer& tracer, const T& value) {
  if constexpr (std::derived_from<T, ProxyBase>) {
    return value.defined() ? tracer.node_of(value) : Argument();
  } else if constexpr (detail::ExternalTensor<T>) {
    if constexpr (requires { argument_traits<T>::defined(value); })
      if (!argument_traits<T>::defined(value)) return Argument();
    return tracer.attribute(&value);
  } else if constexpr (detail::HasCreateArg<T>) {
    return fx_create_arg(tracer, value);
  } else if constexpr (detail::Immediate<T>) {
    return detail::immediate_argument(value);
  } else if constexpr (detail::Record<T>) {
    return record_traits<T>::apply(value, [&](const auto&... members) {
      std::size_t i = 0;
      return Argument::dict({DictEntry{record_traits<T>::names[i++], to_argument(tracer, members)}...});
    });
  } else if constexpr (detail::OptionalLike<T>) {
    return value ? to_argument(tracer, *value) : Argument();
  } else if constexpr (detail::MapLike<T>) {
    std::vector<DictEntry> entries;
    for (const auto& [key, mapped] : value) entries.push_back({Argument(key), to_argument(tracer, mapped)});
    return Argument::dict(std::move(entries));
  } else if constexpr (detail::Sequence<T>) {
    std::vector<Argument> items;
    for (const auto& item : value) items.push_back(to_argument(tracer, item));
    return Argument::list(std::move(items));
  } else if constexpr (detail::is_tuple<T>) {
    return std::apply(
        [&](const auto&... items) {
          if constexpr ((std::derived_from<std::remove_cvref_t<decltype(items)>, ProxyBase> && ...) &&
                        sizeof...(items) > 0) {
            const ProxyBase* const proxies[] = {&items...};
            return tracer.collapse_items(proxies);
          } else {
            return Argument::tuple({to_argument(tracer, items)...});
          }
        },
        value);
  } else {
    static_assert(
        std::same_as<T, void>,
        "fxx::symbolic_trace: the function returns a type that a graph cannot hold; "
        "return tensors, numbers, text, tuples, vectors and maps of them, or a struct that fxx/trace/hana.hpp "
        "knows");
    return {};
  }
}

/// The other way: a value of C++ over the nodes of an argument. Parts of a single node become its items. Throws
/// TraceError (E306) where the structures differ, (E302) for a list whose length is not known.
template <class T>
T from_argument(Tracer& tracer, const Argument& value) {
  if constexpr (std::derived_from<T, ProxyBase>) {
    if (!value.is_node()) detail::wrong_structure(value, "one traced value");
    return T(tracer, value.node());
  } else if constexpr (std::same_as<T, Argument>) {
    return value;
  } else if constexpr (std::same_as<T, bool>) {
    return value.boolean();
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (!value.is_number()) detail::wrong_structure(value, "a number");
    return std::integral<T> ? static_cast<T>(value.integer()) : static_cast<T>(value.number());
  } else if constexpr (detail::StringLike<T>) {
    return T(value.string());
  } else if constexpr (detail::Record<T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto member = [&]<class M>(std::type_identity<M>, std::string_view name) {
        if (value.is_node()) return from_argument<M>(tracer, detail::named_item(tracer, value.node(), name));
        const Argument* found = detail::find_entry(value, Argument(name));
        if (!found) detail::wrong_structure(value, "a struct of other members");
        return from_argument<M>(tracer, *found);
      };
      return T{member(std::type_identity<std::tuple_element_t<I, detail::member_types_t<T>>>(),
                      record_traits<T>::names[I])...};
    }(std::make_index_sequence<record_traits<T>::names.size()>());
  } else if constexpr (detail::OptionalLike<T>) {
    if (value.is_none()) return {};
    return from_argument<typename T::value_type>(tracer, value);
  } else if constexpr (detail::MapLike<T>) {
    if (value.kind() != Argument::Kind::dict) detail::wrong_structure(value, "a map");
    T out;
    for (const DictEntry& entry : value.entries())
      out.emplace(from_argument<typename T::key_type>(tracer, entry.key),
                  from_argument<typename T::mapped_type>(tracer, entry.value));
    return out;
  } else if constexpr (detail::is_tuple<T>) {
    constexpr std::size_t size = std::tuple_size_v<T>;
    if (!value.is_node() && !(value.is_sequence() && value.items().size() == size))
      detail::wrong_structure(value, "a tuple of another length");
    const auto item = [&]<class Item>(std::type_identity<Item>, std::size_t i) {
      if (value.is_sequence()) return from_argument<Item>(tracer, value.items()[i]);
      // Made into a node only when it is used.
      if constexpr (std::derived_from<Item, ProxyBase>) return Item(tracer, value.node(), static_cast<int>(i));
      else return from_argument<Item>(tracer, tracer.item(value.node(), static_cast<int>(i)));
    };
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return T{item(std::type_identity<std::remove_cv_t<std::tuple_element_t<I, T>>>(), I)...};
    }(std::make_index_sequence<size>());
  } else if constexpr (detail::Sequence<T>) {
    if (value.is_node()) tracer.iter(ListProxy(tracer, value.node()));
    if (!value.is_sequence()) detail::wrong_structure(value, "a list");
    T out;
    for (const Argument& item : value.items())
      out.insert(out.end(), from_argument<typename T::value_type>(tracer, item));
    return out;
  } else {
    static_assert(
        std::same_as<T, void>,
        "fxx: a traced value cannot be given as this type; use proxies, numbers, text, or tuples, vectors and "
        "maps of them");
  }
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/structure.ipp"
#endif
