// A value in a node's args or kwargs: a node, an immediate of any kind, or a container of such values.
//
// Main names: Argument, Slice, Range, Enumerator, KeywordArgument, visit, for_each_node, map_nodes.
// Invariant: what an Argument refers to never changes; containers are shared and immutable, so copying one costs O(1),
// and assigning a new argument to a node is the only way to change it (torch.fx: immutable_list, immutable_dict).
// 16 bytes. Cost: light. After torch.fx node.py Argument, 2.13.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/ir/dtype.hpp"
#include "fxx/ir/fwd.hpp"
#include "fxx/meta/match.hpp"

namespace fxx::inline FXX_ABI {

class Argument;
struct DictEntry;

/// A complex number. Not std::complex: <complex> brings in <sstream>, half a second of every file.
struct Complex {
  double real = 0, imag = 0;
  constexpr bool operator==(const Complex&) const = default;
};
/// `...` in an index.
struct Ellipsis {
  constexpr bool operator==(const Ellipsis&) const = default;
};
/// Python's range: integers from start, below stop (above it when step is negative).
struct Range {
  std::int64_t start = 0, stop = 0, step = 1;
  constexpr bool operator==(const Range&) const = default;
};
/// A value of a user's enum: type and enumerator as C++ spells them, and the number.
struct Enumerator {
  std::string type, name;
  std::int64_t value = 0;
  bool operator==(const Enumerator&) const = default;
};

namespace detail {
/// Shared immutable payload of the larger kinds. Counted atomically, since graphs in two threads may share one; by the
/// compilers' built-ins, because <atomic> costs as much to include as all else here together.
struct Box {
  mutable std::uint32_t references = 1;
  std::uint32_t depth = 0;  // of containers in each other; 1 for one of plain values
  void retain() const { __atomic_fetch_add(&references, 1u, __ATOMIC_RELAXED); }
  /// True when the last reference is gone.
  bool drop() const { return __atomic_fetch_sub(&references, 1u, __ATOMIC_ACQ_REL) == 1; }
};
template <class T>
struct BoxOf : Box {
  T value;
  explicit BoxOf(T v) : value(std::move(v)) {}
};
}  // namespace detail

class Argument {
 public:
  /// How deep containers may be nested in each other: what text can hold, and what recursion over them can take.
  static constexpr std::uint32_t most_nested = 64;

  enum class Kind : std::uint8_t {
    none,
    node,
    boolean,
    integer,
    real,
    dtype,
    layout,
    memory_format,
    device,
    ellipsis,
    // from here on the payload is a Box
    complex,
    string,
    enumerator,
    range,
    slice,
    list,
    tuple,
    dict,
  };

  constexpr Argument() = default;
  constexpr Argument(std::nullopt_t) {}
  constexpr Argument(std::nullptr_t) = delete;  // a null Node* would read as None
  Argument(Node* node) : Argument(Kind::node, reinterpret_cast<std::uintptr_t>(node)) {}
  template <std::integral T>
  constexpr Argument(T value)
      : Argument(std::same_as<T, bool> ? Kind::boolean : Kind::integer, static_cast<std::uint64_t>(value)) {}
  template <std::floating_point T>
  constexpr Argument(T value) : Argument(Kind::real, std::bit_cast<std::uint64_t>(static_cast<double>(value))) {}
  constexpr Argument(Dtype value) : Argument(Kind::dtype, static_cast<std::uint8_t>(value)) {}
  constexpr Argument(Layout value) : Argument(Kind::layout, static_cast<std::uint8_t>(value)) {}
  constexpr Argument(MemoryFormat value) : Argument(Kind::memory_format, static_cast<std::uint8_t>(value)) {}
  constexpr Argument(Device value) : Argument(Kind::device, std::bit_cast<std::uint16_t>(value)) {}
  constexpr Argument(Ellipsis) : Argument(Kind::ellipsis, std::uint64_t{0}) {}
  Argument(Complex value) : Argument(Kind::complex, new detail::BoxOf<Complex>(value)) {}
  Argument(std::string value) : Argument(Kind::string, new detail::BoxOf<std::string>(std::move(value))) {}
  Argument(std::string_view value) : Argument(std::string(value)) {}
  Argument(const char* value) : Argument(std::string(value)) {}
  Argument(Enumerator value) : Argument(Kind::enumerator, new detail::BoxOf<Enumerator>(std::move(value))) {}
  Argument(Range value) : Argument(Kind::range, new detail::BoxOf<Range>(value)) {}
  inline Argument(Slice value);
  template <class T>
  Argument(const std::optional<T>& value) : Argument(value ? Argument(*value) : Argument()) {}

  // Containers and slices throw GraphError (E113) when they are nested more than most_nested deep.
  static Argument list(std::vector<Argument> items);
  static Argument tuple(std::vector<Argument> items);
  /// Keys are strings, numbers or booleans. Throws GraphError (E110) when a key holds a node.
  static Argument dict(std::vector<DictEntry> entries);

  constexpr Argument(const Argument& other) : bits_(other.bits_), kind_(other.kind_) {
    if (boxed()) box()->retain();
  }
  constexpr Argument(Argument&& other) noexcept : bits_(other.bits_), kind_(std::exchange(other.kind_, Kind::none)) {}
  constexpr Argument& operator=(Argument other) noexcept {
    swap(other);
    return *this;
  }
  constexpr ~Argument() {
    if (boxed()) release();
  }
  constexpr void swap(Argument& other) noexcept {
    std::swap(bits_, other.bits_);
    std::swap(kind_, other.kind_);
  }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_none() const { return kind_ == Kind::none; }
  constexpr bool is_node() const { return kind_ == Kind::node; }
  /// A boolean, an integer or a real: what a Scalar parameter takes besides complex numbers.
  constexpr bool is_number() const { return kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::boolean; }
  constexpr bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  constexpr bool is_container() const { return kind_ >= Kind::slice; }

  // The value of a given kind. Each throws GraphError (E112) that names both kinds when it is another.
  Node* node() const { return require(Kind::node), as_node(); }
  bool boolean() const { return require(Kind::boolean), bits_ != 0; }
  std::int64_t integer() const { return require(Kind::integer), as_integer(); }
  double real() const { return require(Kind::real), as_real(); }
  Complex complex() const { return unbox<Complex>(Kind::complex); }
  const std::string& string() const { return unbox<std::string>(Kind::string); }
  Dtype dtype() const { return require(Kind::dtype), static_cast<Dtype>(bits_); }
  Layout layout() const { return require(Kind::layout), static_cast<Layout>(bits_); }
  MemoryFormat memory_format() const { return require(Kind::memory_format), static_cast<MemoryFormat>(bits_); }
  Device device() const { return require(Kind::device), std::bit_cast<Device>(static_cast<std::uint16_t>(bits_)); }
  const Enumerator& enumerator() const { return unbox<Enumerator>(Kind::enumerator); }
  const Range& range() const { return unbox<Range>(Kind::range); }
  inline const Slice& slice() const;
  /// Items of a list or a tuple.
  std::span<const Argument> items() const;
  /// Entries of a dict, in order of insertion.
  std::span<const DictEntry> entries() const;
  /// The number in a boolean, integer or real.
  double number() const;

  /// Same kind and same value; nan equals nan, so that text which parses back compares equal. 1 and 1.0 differ.
  friend bool operator==(const Argument& a, const Argument& b) {
    return a.is_node() ? b.is_node() && a.bits_ == b.bits_ : a.equals(b);
  }

 private:
  constexpr Argument(Kind kind, std::uint64_t bits) : bits_(bits), kind_(kind) {}
  Argument(Kind kind, const detail::Box* box) : bits_(reinterpret_cast<std::uintptr_t>(box)), kind_(kind) {}

  Node* as_node() const { return reinterpret_cast<Node*>(static_cast<std::uintptr_t>(bits_)); }
  constexpr std::int64_t as_integer() const { return static_cast<std::int64_t>(bits_); }
  constexpr double as_real() const { return std::bit_cast<double>(bits_); }
  const detail::Box* box() const { return reinterpret_cast<const detail::Box*>(static_cast<std::uintptr_t>(bits_)); }
  constexpr bool boxed() const { return kind_ >= Kind::complex; }
  std::uint32_t depth() const { return is_container() ? box()->depth : 0; }
  /// The depth of a container of something that is so deep; throws when that is too deep.
  static std::uint32_t depth_around(std::uint32_t inner) {
    if (inner >= most_nested) [[unlikely]]
      nested_too_deep();
    return inner + 1;
  }
  [[noreturn]] static void nested_too_deep();
  static Argument sequence(Kind kind, std::vector<Argument> items);
  /// A new box, already at its depth.
  template <class T>
  static const detail::Box* boxed_at(std::uint32_t depth, T value) {
    auto* const made = new detail::BoxOf<T>(std::move(value));
    made->depth = depth;
    return made;
  }
  void require(Kind kind) const {
    if (kind_ != kind) [[unlikely]]
      wrong_kind(kind);
  }
  template <class T>
  const T& unbox(Kind kind) const {
    require(kind);
    return static_cast<const detail::BoxOf<T>*>(box())->value;
  }
  void release();
  bool equals(const Argument& other) const;
  [[noreturn]] void wrong_kind(Kind wanted) const;

  std::uint64_t bits_ = 0;  // the value, or the address of a node or a Box
  Kind kind_ = Kind::none;
};
static_assert(sizeof(Argument) == 16);

/// Python's slice; each end is None, an integer or a node.
struct Slice {
  Argument start = {}, stop = {}, step = {};
  bool operator==(const Slice&) const = default;
};
struct DictEntry {
  Argument key, value;
  bool operator==(const DictEntry&) const = default;
};
/// A named argument. Inside a node the key's text belongs to the graph; elsewhere to whoever made it.
struct KeywordArgument {
  std::string_view key;
  Argument value;
  bool operator==(const KeywordArgument&) const = default;
};

inline Argument::Argument(Slice value) {
  std::uint32_t depth = 0;
  for (const Argument* end : {&value.start, &value.stop, &value.step})
    depth = end->depth() > depth ? end->depth() : depth;
  depth = depth_around(depth);
  bits_ = reinterpret_cast<std::uintptr_t>(boxed_at(depth, std::move(value)));
  kind_ = Kind::slice;
}
inline const Slice& Argument::slice() const { return unbox<Slice>(Kind::slice); }

/// "integer", "memory format": the kind as messages name it.
std::string_view name_of(Argument::Kind kind);

// What visit hands over for None and for containers.
struct None {};
struct ListView {
  std::span<const Argument> items;
};
struct TupleView {
  std::span<const Argument> items;
};
struct DictView {
  std::span<const DictEntry> entries;
};

/// Calls the overload for the kind that `argument` has: None, Node*, bool, int64_t, double, Dtype, Layout,
/// MemoryFormat, Device, Ellipsis, Complex, const string&, const Enumerator&, const Range&, const Slice&, ListView,
/// TupleView, DictView. A kind that no overload takes is a compile error.
template <class... Fs>
decltype(auto) visit(const Argument& argument, Fs&&... fs) {
  overloaded f{std::forward<Fs>(fs)...};
  using Kind = Argument::Kind;
  switch (argument.kind()) {
    case Kind::node: return f(argument.node());
    case Kind::boolean: return f(argument.boolean());
    case Kind::integer: return f(argument.integer());
    case Kind::real: return f(argument.real());
    case Kind::dtype: return f(argument.dtype());
    case Kind::layout: return f(argument.layout());
    case Kind::memory_format: return f(argument.memory_format());
    case Kind::device: return f(argument.device());
    case Kind::ellipsis: return f(Ellipsis{});
    case Kind::complex: return f(argument.complex());
    case Kind::string: return f(argument.string());
    case Kind::enumerator: return f(argument.enumerator());
    case Kind::range: return f(argument.range());
    case Kind::slice: return f(argument.slice());
    case Kind::list: return f(ListView{argument.items()});
    case Kind::tuple: return f(TupleView{argument.items()});
    case Kind::dict: return f(DictView{argument.entries()});
    default: return f(None{});
  }
}

/// Calls `f(Node*)` for every node in `argument`, nested ones too, from left to right, repeats included. O(size).
template <class F>
void for_each_node(const Argument& argument, F&& f) {
  using Kind = Argument::Kind;
  switch (argument.kind()) {
    case Kind::node: f(argument.node()); break;
    case Kind::list:
    case Kind::tuple:
      for (const Argument& item : argument.items()) for_each_node(item, f);
      break;
    case Kind::dict:
      for (const DictEntry& entry : argument.entries()) for_each_node(entry.value, f);
      break;
    case Kind::slice:
      for_each_node(argument.slice().start, f);
      for_each_node(argument.slice().stop, f);
      for_each_node(argument.slice().step, f);
      break;
    default: break;
  }
}

/// The same structure with every node replaced by what `f(Node*) -> Argument` returns (torch.fx: map_arg). O(size).
/// Containers without nodes are shared, not copied.
template <class F>
Argument map_nodes(const Argument& argument, F&& f) {
  using Kind = Argument::Kind;
  if (argument.is_node()) return f(argument.node());
  if (!argument.is_container()) return argument;
  bool any = false;
  for_each_node(argument, [&](Node*) { any = true; });
  if (!any) return argument;
  switch (argument.kind()) {
    case Kind::list:
    case Kind::tuple: {
      std::vector<Argument> items;
      items.reserve(argument.items().size());
      for (const Argument& item : argument.items()) items.push_back(map_nodes(item, f));
      return argument.kind() == Kind::list ? Argument::list(std::move(items)) : Argument::tuple(std::move(items));
    }
    case Kind::dict: {
      std::vector<DictEntry> entries;
      entries.reserve(argument.entries().size());
      for (const DictEntry& entry : argument.entries()) entries.push_back({entry.key, map_nodes(entry.value, f)});
      return Argument::dict(std::move(entries));
    }
    default: {
      const Slice& slice = argument.slice();
      return Slice{map_nodes(slice.start, f), map_nodes(slice.stop, f), map_nodes(slice.step, f)};
    }
  }
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/argument.ipp"
#endif
