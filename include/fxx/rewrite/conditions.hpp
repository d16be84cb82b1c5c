// Conditions on a value that a pattern matches: `x.where(rank_is<4>, floating)`, `scalar<"s"> > 0_c`.
//
// A condition is a type without data, so it costs nothing until a value is looked at. What is not known of a value
// (its shape, its dtype) fulfils no condition about it.
// Main names: floating, integral, boolean, complex_valued, dtype_is, rank_is, rank_from, shape_is, size_is, device_is,
// memory_is, option_is, in_train_mode, in_eval_mode, a_constant, one_user, between. Cost: light.
#pragma once

#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "fxx/ir/node.hpp"
#include "fxx/meta/fixed_string.hpp"
#include "fxx/rewrite/spelling.hpp"
#include "fxx/rewrite/term.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

template <class F, class A>
concept Answers = requires(const F& f, const A& a) {
  { f(a) } -> std::same_as<bool>;
};
/// A callable that converts its own argument would take whatever an Argument is made of.
template <class F>
inline constexpr bool is_condition =
    std::is_empty_v<F> && std::is_default_constructible_v<F> &&
    (Answers<F, Argument> || Answers<F, TensorMeta> || Answers<F, Node> || Answers<F, double>);

/// Asks a condition what a value of this kind can answer? A number has no shape, and a tensor is no number.
template <class F>
consteval bool may_hold(Term::Kind kind) {
  using K = Term::Kind;
  if (Answers<F, Argument>) return true;
  if (kind == K::scalar) return Answers<F, double>;
  if (kind == K::tensor || kind == K::constant || kind == K::call) return Answers<F, Node> || Answers<F, TensorMeta>;
  return true;
}
template <class F, Term::Kind Kind>
consteval void condition_fits() {
  constexpr bool callable = is_condition<F>;
  static_assert(
      callable,
      "fxx::where: a condition is a callable without captures that takes an Argument, a Node, a TensorMeta or "
      "a double and says true or false");
  if constexpr (callable) {
    constexpr bool holds_ever = may_hold<F>(Kind);
    static_assert(holds_ever,
                  "fxx::where: the condition is one on numbers and the value a tensor, or the other way round, so it "
                  "would never hold; ask it of what it is about");
  }
}

template <class F>
bool holds(const Argument& value) {
  if constexpr (!is_condition<F>) {
    return false;
  } else if constexpr (Answers<F, Argument>) {  // first, since a number makes an Argument, too
    return F{}(value);
  } else if constexpr (Answers<F, TensorMeta>) {
    const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
    return meta && F{}(*meta);
  } else if constexpr (Answers<F, Node>) {
    return value.is_node() && F{}(static_cast<const Node&>(*value.node()));
  } else {
    return value.is_number() && F{}(value.number());
  }
}
template <class F>
constexpr Condition make_condition() {
  if constexpr (requires { F::name; })
    return {&holds<F>, F::name, requires { F::counts_users; }, requires { F::looks_behind; }};
  else return {&holds<F>, "a condition of the rule's"};
}

}  // namespace detail

template <class F>
inline constexpr Condition condition_of = detail::make_condition<F>();

namespace conditions {

/// What a condition is called, "rank_is<4>", put together while compiling.
struct Words {
  char text[96]{};
  std::size_t size = 0;

  constexpr explicit Words(std::string_view first) { add(first); }
  constexpr std::string_view view() const { return {text, size}; }
  constexpr Words& add(std::string_view more) {
    for (char c : more)
      if (size < sizeof text) text[size++] = c;
    return *this;
  }
  constexpr Words& add(std::int64_t number, int least_digits = 1) {
    if (number < 0) add("-");
    char digits[20]{};
    int count = 0;
    for (std::int64_t n = number < 0 ? -(number / 10) : number / 10; n > 0; n /= 10) ++count;
    const int all = ++count < least_digits ? least_digits : count;
    for (int i = all; i-- > 0; number /= 10)
      digits[i] = static_cast<char>('0' + (number < 0 ? -(number % 10) : number % 10));
    return add(std::string_view(digits, static_cast<std::size_t>(all)));
  }
  /// Up to seven digits that count.
  constexpr Words& add(double number) {
    if (number != number) return add("nan");
    if (number < 0) add("-");
    double size_of = number < 0 ? -number : number;
    if (size_of > 1.7976931348623157e308) return add("inf");
    int exponent = 0;
    if (size_of >= 1e15 || (size_of > 0 && size_of < 1e-4)) {
      for (; size_of >= 10; size_of /= 10) ++exponent;
      for (; size_of < 1; size_of *= 10) --exponent;
    }
    int decimals = 0;
    std::int64_t scale = 1;
    for (; size_of * static_cast<double>(scale) < 1e6 && decimals < 12; ++decimals) scale *= 10;
    auto digits = static_cast<std::int64_t>(size_of * static_cast<double>(scale) + 0.5);
    for (; decimals > 0 && digits % 10 == 0; --decimals) digits /= 10, scale /= 10;
    add(digits / scale);
    if (decimals) add(".").add(digits % scale, decimals);
    return exponent ? add("e").add(static_cast<std::int64_t>(exponent)) : *this;
  }
  template <class T>
  constexpr Words& in_brackets(std::initializer_list<T> items) {
    bool first = true;
    for (const T& item : items) add(std::exchange(first, false) ? "<" : ", ").add(item);
    return add(first ? "<>" : ">");
  }
};

/// What all conditions have in common: they are no functions of patterns and no truth values, and say so.
template <class Self>
struct condition {
  using is_condition = Self;
  template <bool Called = true>
  consteval Self operator()() const {
    static_assert(!Called, "fxx::where: a condition is not called; write x.where(floating), x.where(rank_is<4>)");
    return {};
  }
  template <class P>
    requires requires { P::form; }
  consteval P operator()(P p) const {
    static_assert(sizeof(P) == 0, "fxx::where: a condition is no function of a pattern; write x.where(floating)");
    return p;
  }
};
template <class C>
concept ACondition = requires { typename C::is_condition; };
template <class C>
consteval C put_together() {
  static_assert(!ACondition<C>,
                "fxx::where: conditions are not put together by !, && and ||; x.where(a, b) asks for both, and for "
                "anything else write a callable, [](const fxx::TensorMeta& m) { return ...; }");
  return {};
}
template <ACondition C>
consteval C operator!(C) {
  return put_together<C>();
}
template <ACondition C, class Other>
consteval C operator&&(C, Other) {
  return put_together<C>();
}
template <ACondition C, class Other>
consteval C operator||(C, Other) {
  return put_together<C>();
}

struct floating_t : condition<floating_t> {
  using condition<floating_t>::operator();
  static constexpr std::string_view name = "floating";
  bool operator()(const TensorMeta& m) const { return is_floating_point(m.dtype); }
};
struct integral_t : condition<integral_t> {
  using condition<integral_t>::operator();
  static constexpr std::string_view name = "integral";
  bool operator()(const TensorMeta& m) const {
    return !is_floating_point(m.dtype) && !is_complex(m.dtype) && m.dtype != Dtype::boolean;
  }
};
struct boolean_t : condition<boolean_t> {
  using condition<boolean_t>::operator();
  static constexpr std::string_view name = "boolean";
  bool operator()(const TensorMeta& m) const { return m.dtype == Dtype::boolean; }
};
struct complex_t : condition<complex_t> {
  using condition<complex_t>::operator();
  static constexpr std::string_view name = "complex_valued";
  bool operator()(const TensorMeta& m) const { return is_complex(m.dtype); }
};
template <Dtype... Types>
struct dtype_t : condition<dtype_t<Types...>> {
  using condition<dtype_t<Types...>>::operator();
  static constexpr Words words = Words("dtype_is").in_brackets<std::string_view>({name_of(Types)...});
  static constexpr std::string_view name = words.view();
  bool operator()(const TensorMeta& m) const { return ((m.dtype == Types) || ...); }
};
template <int Least, int Most>
struct rank_t : condition<rank_t<Least, Most>> {
  using condition<rank_t<Least, Most>>::operator();
  static constexpr Words words = Words(Least == Most ? "rank_is" : "rank_from").in_brackets<std::int64_t>({Least});
  static constexpr std::string_view name = words.view();
  bool operator()(const TensorMeta& m) const { return m.dim() >= Least && m.dim() <= Most; }
};
template <int Least, int Most>
consteval rank_t<(Least < 0 ? 0 : Least), Most> rank() {
  static_assert(Least >= 0, "fxx::rank_is: no tensor has fewer than zero dimensions; give a rank from 0 on");
  return {};
}
template <std::int64_t... Sizes>
struct shape_t : condition<shape_t<Sizes...>> {
  using condition<shape_t<Sizes...>>::operator();
  static constexpr Words words = Words("shape_is").in_brackets<std::int64_t>({Sizes...});
  static constexpr std::string_view name = words.view();
  bool operator()(const TensorMeta& m) const {
    std::size_t i = 0;
    return m.shape.size() == sizeof...(Sizes) && (... && (++i, Sizes < 0 || m.shape[i - 1] == Sizes));
  }
};
template <int Dim, std::int64_t Size>
struct size_at_t : condition<size_at_t<Dim, Size>> {
  using condition<size_at_t<Dim, Size>>::operator();
  static constexpr Words words = Words("size_is").in_brackets<std::int64_t>({Dim, Size});
  static constexpr std::string_view name = words.view();
  bool operator()(const TensorMeta& m) const {
    const std::int64_t at = Dim < 0 ? m.dim() + Dim : Dim;
    return at >= 0 && at < m.dim() && m.shape[static_cast<std::size_t>(at)] == Size;
  }
};
template <DeviceType Type>
struct device_t : condition<device_t<Type>> {
  using condition<device_t<Type>>::operator();
  static constexpr Words words = Words("device_is").in_brackets<std::string_view>({name_of(Type)});
  static constexpr std::string_view name = words.view();
  bool operator()(const TensorMeta& m) const { return m.device.type == Type; }
};
/// Are the elements laid out in the order of `order`, the last one of stride one? Sizes of one may have any stride.
inline bool lies_in_order(const TensorMeta& m, const int* order) {
  if (m.stride.size() != m.shape.size()) return false;
  std::int64_t step = 1;
  for (std::size_t i = m.shape.size(); i-- > 0;) {
    const auto at = static_cast<std::size_t>(order ? order[i] : static_cast<int>(i));
    if (m.shape[at] != 1 && m.stride[at] != step) return false;
    if (m.shape[at] < 0) return i == 0;
    step *= m.shape[at];
  }
  return true;
}
template <MemoryFormat Format>
struct memory_t : condition<memory_t<Format>> {
  using condition<memory_t<Format>>::operator();
  static constexpr Words words = Words("memory_is").in_brackets<std::string_view>({name_of(Format)});
  static constexpr std::string_view name = words.view();
  bool operator()(const TensorMeta& m) const {
    constexpr int four[] = {0, 2, 3, 1}, five[] = {0, 2, 3, 4, 1};
    if constexpr (Format == MemoryFormat::channels_last) return m.dim() == 4 && lies_in_order(m, four);
    else if constexpr (Format == MemoryFormat::channels_last_3d) return m.dim() == 5 && lies_in_order(m, five);
    else return lies_in_order(m, nullptr);
  }
};
struct constant_t : condition<constant_t> {
  using condition<constant_t>::operator();
  static constexpr std::string_view name = "a_constant";
  static constexpr bool looks_behind = true;
  bool operator()(const Argument& a) const { return !a.is_node() || is_constant_value(*a.node()); }
};
struct one_user_t : condition<one_user_t> {
  using condition<one_user_t>::operator();
  static constexpr std::string_view name = "one_user";
  static constexpr bool counts_users = true;
  bool operator()(const Node& n) const { return n.num_users() == 1; }
};
template <bool Trains>
struct mode_t : condition<mode_t<Trains>> {
  using condition<mode_t<Trains>>::operator();
  static constexpr std::string_view name = Trains ? "in_train_mode" : "in_eval_mode";
  bool operator()(const Node& n) const { return trains(n) == Trains; }
};
template <fixed_string Option, fixed_string... Values>
struct option_t : condition<option_t<Option, Values...>> {
  using condition<option_t<Option, Values...>>::operator();
  static constexpr Words words = Words("option_is").in_brackets<std::string_view>({Option.view(), Values.view()...});
  static constexpr std::string_view name = words.view();
  bool operator()(const Node& n) const {
    const std::string_view given = module_option(n, Option.view());
    return (false || ... || (given == Values.view()));
  }
};
enum class Relation : std::uint8_t { less, less_equal, greater, greater_equal, unequal };
/// `Than` is a literal of the pattern language.
template <Relation How, class Than>
struct compared : condition<compared<How, Than>> {
  using condition<compared<How, Than>>::operator();
  static constexpr Words words = Words(How == Relation::less            ? "less than "
                                       : How == Relation::less_equal    ? "at most "
                                       : How == Relation::greater       ? "greater than "
                                       : How == Relation::greater_equal ? "at least "
                                                                        : "unequal to ")
                                     .add(Than::value.number());
  static constexpr std::string_view name = words.view();
  bool operator()(double v) const {
    constexpr double than = Than::value.number();
    if constexpr (How == Relation::less) return v < than;
    else if constexpr (How == Relation::less_equal) return v <= than;
    else if constexpr (How == Relation::greater) return v > than;
    else if constexpr (How == Relation::greater_equal) return v >= than;
    else return v != than;
  }
};
template <class Low, class High>
struct between_t : condition<between_t<Low, High>> {
  using condition<between_t<Low, High>>::operator();
  static constexpr Words words = Words("between ").add(Low::value.number()).add(" and ").add(High::value.number());
  static constexpr std::string_view name = words.view();
  bool operator()(double v) const { return v >= Low::value.number() && v <= High::value.number(); }
};

}  // namespace conditions

inline constexpr conditions::floating_t floating{};
inline constexpr conditions::integral_t integral{};
inline constexpr conditions::boolean_t boolean{};
inline constexpr conditions::complex_t complex_valued{};
/// Of one of these dtypes.
template <Dtype... Types>
inline constexpr conditions::dtype_t<Types...> dtype_is{};
template <int Rank>
inline constexpr auto rank_is = conditions::rank<Rank, Rank>();
/// Of so many dimensions or more.
template <int Least>
inline constexpr auto rank_from = conditions::rank<Least, 1 << 20>();
/// A negative size is any.
template <std::int64_t... Sizes>
inline constexpr conditions::shape_t<Sizes...> shape_is{};
/// One dimension's size; negative dimensions count from the end.
template <int Dim, std::int64_t Size>
inline constexpr conditions::size_at_t<Dim, Size> size_is{};
template <DeviceType Type>
inline constexpr conditions::device_t<Type> device_is{};
/// Laid out so, as far as the strides are known: contiguous, channels_last, channels_last_3d.
template <MemoryFormat Format>
inline constexpr conditions::memory_t<Format> memory_is{};
/// The value of a module whose options say so, as C++ spells them: `option_is<"stride", "2">` of what was made with
/// `Conv2dOptions(3, 64, 7).stride(2)`. Of several values any; "" where the option was not set.
template <fixed_string Option, fixed_string... Values>
inline constexpr conditions::option_t<Option, Values...> option_is{};
/// The value of a module or operator with a training flag, which is set, or is not.
inline constexpr conditions::mode_t<true> in_train_mode{};
inline constexpr conditions::mode_t<false> in_eval_mode{};
/// That the inputs of the graph do not reach.
inline constexpr conditions::constant_t a_constant{};
inline constexpr conditions::one_user_t one_user{};

}  // namespace fxx::inline FXX_ABI::rewrite
