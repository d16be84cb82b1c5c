// What a function is traced with: which inputs are placeholders, which are bound to constants, which are containers.
//
//   concrete_args(PH, 3)                       two inputs, the second always 3
//   concrete_args(std::vector{PH, PH}, PH)     a list of two tensors, and a tensor
//   concrete_args(input("x"), input("scale", PH_NUMBER.with_default(2.0)))
//
// Inputs that are not mentioned are tensors. A bound input stays an input, and the graph checks that it is given that
// value (E703). A container is one input of the module, and one placeholder for each tensor in it.
// Main names: PH, PH_NUMBER, PH_LIST, input, concrete_args. Cost: light. After torch.fx _symbolic_trace.py PH,
// concrete_args, 2.13.
#pragma once

#include <any>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fxx/ir/signature.hpp"
#include "fxx/meta/fixed_string.hpp"
#include "fxx/trace/input.hpp"
#include "fxx/trace/structure.hpp"

namespace fxx::inline FXX_ABI {

/// A place where tracing puts a proxy of type `P`.
template <class P>
class PlaceholderOf {
 public:
  constexpr PlaceholderOf() = default;

  /// The value of the input when the caller leaves it out.
  PlaceholderOf with_default(Argument value) const {
    return changed([&](InputLeaf& leaf) { leaf.default_value = std::move(value); });
  }
  /// Its type as C++ spells it, for generated code.
  PlaceholderOf typed(std::string type) const {
    return changed([&](InputLeaf& leaf) { leaf.type = std::move(type); });
  }
  /// Noted on the placeholder, in meta().custom, where nothing of that key is noted already (torch.fx: PHWithMeta).
  PlaceholderOf with_meta(std::string key, std::any value) const {
    return changed([&](InputLeaf& leaf) { leaf.meta.emplace_back(std::move(key), std::move(value)); });
  }
  InputLeaf leaf() const { return leaf_ ? leaf_->value : InputLeaf(); }

 private:
  using Leaf = detail::Shared<const detail::BoxOf<InputLeaf>>;
  template <class F>
  PlaceholderOf changed(F&& change) const {
    InputLeaf leaf = this->leaf();
    change(leaf);
    PlaceholderOf out;
    out.leaf_ = Leaf(new detail::BoxOf<InputLeaf>(std::move(leaf)));
    return out;
  }
  Leaf leaf_;
};

inline constinit const PlaceholderOf<Proxy> PH;               // a tensor
inline constinit const PlaceholderOf<ScalarProxy> PH_NUMBER;  // a number; traced, it stays symbolic
inline constinit const PlaceholderOf<ListProxy> PH_LIST;      // a list of tensors, of any length

namespace detail {

template <class V>
struct NamedInput {
  std::string name;
  V value;
};
template <fixed_string Name, class V>
struct InputOfName {
  V value;
};

/// What the traced function gets for a value: proxies in the places of PH, all else as it is.
template <class V>
struct bound_type {
  using type = V;
};
template <class V>
using bound_t = typename bound_type<V>::type;
template <class V>
struct bound_type<const V> {
  using type = const bound_t<V>;
};
template <class T, std::size_t N>
struct bound_type<std::array<T, N>> {
  using type = std::array<bound_t<T>, N>;
};
template <template <class...> class Template, class... A>
struct bound_type<Template<A...>> {
  using type = Template<bound_t<A>...>;
};
template <class P>
struct bound_type<PlaceholderOf<P>> {
  using type = P;
};

template <class V>
concept InputContainer = !Immediate<V> && !HasTraits<V> && (Record<V> || OptionalLike<V> || Sequence<V> || is_tuple<V>);

/// Is it more than one leaf?
template <class V>
constexpr bool is_nested() {
  if constexpr (!InputContainer<V>) return false;
  else if constexpr (!Record<V> && OptionalLike<V>) return is_nested<typename V::value_type>();
  else return true;
}

/// Takes an input apart into leaves, and notes how.
class InputReader {
 public:
  std::vector<InputLeaf> leaves;

  template <class V>
  Structure read(const V& value, const std::string& name) {
    name_ = &name;
    number_ = 0;
    nested_ = is_nested<V>();
    return read(value);
  }

 private:
  template <class V>
  Structure read(const V& value) {
    if constexpr (requires { value.leaf(); }) {
      InputLeaf leaf = value.leaf();
      if (leaf.type.empty()) leaf.type = type_of(value);
      return add(std::move(leaf));
    } else if constexpr (Immediate<V>) {
      InputLeaf leaf{.type = cpp_type_name<V>(), .bound = true, .constant = immediate_argument(value), .checked = true};
      if (leaf.constant.is_none()) leaf.default_value = leaf.constant;  // None may be said by saying nothing
      return add(std::move(leaf));
    } else if constexpr (!InputContainer<V>) {
      static_assert(!ExternalTensor<V>,
                    "fxx::concrete_args: an input cannot be bound to a tensor; trace a callable that captures the "
                    "tensor, [&](auto x) { return net->forward(x, mask); }");
      return add({.default_value = Argument(), .bound = true});
    } else if constexpr (Record<V>) {
      Structure out{.kind = Structure::Kind::dict};
      for (std::string_view name : record_traits<V>::names) out.keys.push_back(name);
      record_traits<V>::apply(value, [&](const auto&... members) { (out.items.push_back(read(members)), ...); });
      return out;
    } else if constexpr (OptionalLike<V>) {
      return value ? read(*value) : read(std::nullopt);
    } else if constexpr (MapLike<V>) {
      Structure out{.kind = Structure::Kind::dict};
      for (const auto& [key, mapped] : value) {
        out.keys.push_back(Argument(key));
        out.items.push_back(read(mapped));
      }
      return out;
    } else if constexpr (Sequence<V>) {
      Structure out{.kind = Structure::Kind::list};
      for (const auto& item : value) out.items.push_back(read(item));
      return out;
    } else {
      Structure out{.kind = Structure::Kind::tuple};
      std::apply([&](const auto&... items) { (out.items.push_back(read(items)), ...); }, value);
      return out;
    }
  }
  template <class P>
  static std::string type_of(const PlaceholderOf<P>& value) {
    std::string type = cpp_type_name<P>();
    if (!type.empty() || !std::same_as<P, ScalarProxy>) return type;
    const InputLeaf leaf = value.leaf();
    return leaf.default_value && leaf.default_value->kind() == Argument::Kind::integer ? "int64_t" : "double";
  }
  Structure add(InputLeaf leaf);

  const std::string* name_ = nullptr;
  int number_ = 0;
  bool nested_ = false;
};

/// Puts proxies of the placeholders into an input, from left to right.
class InputBinder {
 public:
  InputBinder(Tracer& tracer, std::span<Node* const> nodes) : tracer_(tracer), nodes_(nodes) {}

  template <class V>
  bound_t<V> bind(const V& value) {
    using Bound = bound_t<V>;
    if constexpr (requires { value.leaf(); }) {
      return Bound(tracer_, nodes_[next_++]);
    } else if constexpr (!InputContainer<V>) {
      ++next_;
      return value;
    } else if constexpr (Record<V>) {
      return record_traits<V>::apply(value, [&](const auto&... members) { return Bound{bind(members)...}; });
    } else if constexpr (OptionalLike<V>) {
      if (value) return Bound(bind(*value));
      ++next_;
      return Bound();
    } else if constexpr (MapLike<V>) {
      Bound out;
      for (const auto& [key, mapped] : value) out.emplace(key, bind(mapped));
      return out;
    } else if constexpr (is_tuple<V>) {  // arrays too
      return std::apply([&](const auto&... items) { return Bound{bind(items)...}; }, value);
    } else {
      Bound out;
      for (const auto& item : value) out.insert(out.end(), bind(item));
      return out;
    }
  }
  Node* next() { return nodes_[next_++]; }

 private:
  Tracer& tracer_;
  std::span<Node* const> nodes_;
  std::size_t next_ = 0;
};

/// Strings are kept, not pointed to.
template <class V>
auto kept_input(const V& value) {
  if constexpr (std::convertible_to<const V&, std::string_view>) return std::string(std::string_view(value));
  else return value;
}

}  // namespace detail

/// Inputs by position; see concrete_args().
template <class... V>
class ConcreteArgs {
 public:
  std::tuple<V...> values;
  std::vector<std::string> names = {};  // as far as given; empty: none
  /// Names from this one on are the module's: there may be more of them than inputs, of which C++ decides some by their
  /// defaults.
  std::size_t first_spare_name = static_cast<std::size_t>(-1);
};

/// An input with a name: `input("x")`, `input("flag", true)`. The name is that of the placeholder.
inline auto input(std::string name) { return detail::NamedInput<PlaceholderOf<Proxy>>{std::move(name), PH}; }
template <class V>
auto input(std::string name, const V& value) {
  return detail::NamedInput<decltype(detail::kept_input(value))>{std::move(name), detail::kept_input(value)};
}
/// An input bound by its name alone, whatever its position: `input<"flag">(true)`. For modules that name their inputs,
/// `static constexpr auto input_names = fxx::input_names("x", "flag");`.
template <fixed_string Name, class V>
auto input(const V& value) {
  return detail::InputOfName<Name, decltype(detail::kept_input(value))>{detail::kept_input(value)};
}
/// Names of the inputs of a module's forward, in order.
template <class... Names>
constexpr std::array<std::string_view, sizeof...(Names)> input_names(Names... names) {
  return {std::string_view(names)...};
}

namespace detail {
template <class V>
auto value_of(const V& value) {
  return kept_input(value);
}
template <class V>
V value_of(const NamedInput<V>& input) {
  return input.value;
}
template <class V>
std::string name_of_input(const V&) {
  return {};
}
template <class V>
std::string name_of_input(const NamedInput<V>& input) {
  return input.name;
}
template <class V>
inline constexpr bool is_by_name = false;
template <fixed_string Name, class V>
inline constexpr bool is_by_name<InputOfName<Name, V>> = true;
}  // namespace detail

/// What a function is traced with, by position: PH for an input that stays one, a value for one that is bound to it, a
/// container of those.
template <class... V>
auto concrete_args(const V&... inputs) {
  ConcreteArgs<decltype(detail::value_of(inputs))...> out{{detail::value_of(inputs)...}};
  out.names = {detail::name_of_input(inputs)...};
  return out;
}

namespace detail {

template <class V>
struct input_name {
  static constexpr std::string_view value = {};
};
template <fixed_string Name, class V>
struct input_name<InputOfName<Name, V>> {
  static constexpr std::string_view value = Name.view();
};

/// Which of the given values stands at a position: one by position first, then by name. `none` when it is left to PH.
template <class Module, class... V>
struct ByName {
  static constexpr std::size_t none = static_cast<std::size_t>(-1), given = sizeof...(V);
  static constexpr std::array<std::string_view, given> wanted = {input_name<V>::value...};
  static constexpr std::array<bool, given> named = {is_by_name<V>...};

  static consteval std::size_t at(std::size_t position) {
    if (position < given && !named[position]) {
      bool first = true;  // by position: before all by name
      for (std::size_t i = 0; i < position; ++i) first = first && !named[i];
      if (first) return position;
    }
    for (std::size_t i = 0; i < given; ++i)
      if (named[i] && wanted[i] == Module::input_names[position]) return i;
    return none;
  }
  static consteval std::size_t length() {
    std::size_t last = 0;
    for (std::size_t p = 0; p < Module::input_names.size(); ++p)
      if (at(p) != none) last = p + 1;
    return last;
  }
  static consteval bool all_known() {
    std::size_t found = 0;
    for (std::size_t p = 0; p < Module::input_names.size(); ++p) found += at(p) != none;
    return found == given;
  }
};

/// The inputs of a module's forward in their order, with the names that the module gives them.
template <class Module, class... V>
auto in_order(const ConcreteArgs<V...>& inputs) {
  if constexpr (!(is_by_name<V> || ...)) {
    ConcreteArgs<V...> out = inputs;
    if constexpr (requires { Module::input_names[0]; }) {
      out.first_spare_name = out.names.size();
      for (std::size_t i = 0; i < Module::input_names.size(); ++i) {
        if (i >= out.names.size()) out.names.emplace_back();
        if (out.names[i].empty()) out.names[i] = std::string(Module::input_names[i]);
      }
    }
    return out;
  } else if constexpr (!requires { Module::input_names[0]; }) {
    static_assert(
        requires { Module::input_names[0]; },
        "fxx::input: the module does not name its inputs; add `static constexpr auto input_names = "
        "fxx::input_names(\"x\", \"flag\");` to it, or bind by position");
    return ConcreteArgs<>();
  } else {
    using Places = ByName<Module, V...>;
    static_assert(Places::all_known(),
                  "fxx::input: an input is bound by a name that the module does not have in its input_names, or twice");
    return [&]<std::size_t... P>(std::index_sequence<P...>) {
      const auto at = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
        if constexpr (I == Places::none) return PlaceholderOf<Proxy>();
        else if constexpr (Places::named[I]) return std::get<I>(inputs.values).value;
        else return std::get<I>(inputs.values);
      };
      ConcreteArgs<decltype(at(std::integral_constant<std::size_t, Places::at(P)>()))...> out{
          {at(std::integral_constant<std::size_t, Places::at(P)>())...}};
      for (std::string_view name : Module::input_names) out.names.emplace_back(name);
      out.first_spare_name = 0;
      return out;
    }(std::make_index_sequence < Places::all_known() ? Places::length() : 0 > ());
  }
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
