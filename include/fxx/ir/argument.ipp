// Bodies of ir/argument.hpp.
#pragma once

#include <algorithm>
#include <bit>

#include "fxx/error.hpp"
#include "fxx/ir/argument.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
using Items = std::vector<Argument>;
using Entries = std::vector<DictEntry>;
}  // namespace detail

FXX_INLINE void Argument::nested_too_deep() {
  throw GraphError(ErrorId::nested_too_deep, "Argument: containers are nested more than " +
                                                 std::to_string(most_nested) +
                                                 " deep, which is what the text of a graph can hold; flatten them");
}
FXX_INLINE Argument Argument::sequence(Kind kind, std::vector<Argument> items) {
  std::uint32_t depth = 0;
  for (const Argument& item : items) depth = std::max(depth, item.depth());
  depth = depth_around(depth);
  return {kind, boxed_at(depth, std::move(items))};
}
FXX_INLINE Argument Argument::list(std::vector<Argument> items) { return sequence(Kind::list, std::move(items)); }
FXX_INLINE Argument Argument::tuple(std::vector<Argument> items) { return sequence(Kind::tuple, std::move(items)); }
FXX_INLINE Argument Argument::dict(std::vector<DictEntry> entries) {
  std::uint32_t depth = 0;
  for (const DictEntry& entry : entries) {
    depth = std::max({depth, entry.key.depth(), entry.value.depth()});
    bool holds_node = false;
    for_each_node(entry.key, [&](Node*) { holds_node = true; });
    if (holds_node)
      throw GraphError(
          ErrorId::dict_key_is_node,
          "Argument::dict: a key of a dictionary cannot contain a Node; keys are strings, numbers or booleans");
  }
  depth = depth_around(depth);
  return {Kind::dict, boxed_at(depth, std::move(entries))};
}

FXX_INLINE std::span<const Argument> Argument::items() const {
  if (!is_sequence()) wrong_kind(Kind::list);
  return static_cast<const detail::BoxOf<detail::Items>*>(box())->value;
}
FXX_INLINE std::span<const DictEntry> Argument::entries() const { return unbox<detail::Entries>(Kind::dict); }
FXX_INLINE double Argument::number() const {
  if (!is_number()) wrong_kind(Kind::real);
  return kind_ == Kind::real ? as_real() : static_cast<double>(as_integer());
}

FXX_INLINE void Argument::release() {
  if (!box()->drop()) return;
  switch (kind_) {
    case Kind::complex: delete static_cast<const detail::BoxOf<Complex>*>(box()); break;
    case Kind::string: delete static_cast<const detail::BoxOf<std::string>*>(box()); break;
    case Kind::enumerator: delete static_cast<const detail::BoxOf<Enumerator>*>(box()); break;
    case Kind::range: delete static_cast<const detail::BoxOf<Range>*>(box()); break;
    case Kind::slice: delete static_cast<const detail::BoxOf<Slice>*>(box()); break;
    case Kind::list:
    case Kind::tuple: delete static_cast<const detail::BoxOf<detail::Items>*>(box()); break;
    default: delete static_cast<const detail::BoxOf<detail::Entries>*>(box()); break;
  }
}

FXX_INLINE bool Argument::equals(const Argument& other) const {
  if (kind_ != other.kind_) return false;
  if (boxed() && bits_ == other.bits_) return true;
  const auto same_real = [](double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (a != a && b != b);
  };
  switch (kind_) {
    case Kind::none:
    case Kind::ellipsis: return true;
    case Kind::real: return same_real(as_real(), other.as_real());
    case Kind::complex:
      return same_real(complex().real, other.complex().real) && same_real(complex().imag, other.complex().imag);
    case Kind::string: return string() == other.string();
    case Kind::enumerator: return enumerator() == other.enumerator();
    case Kind::range: return range() == other.range();
    case Kind::slice: return slice() == other.slice();
    case Kind::list:
    case Kind::tuple: {
      const auto a = items(), b = other.items();
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    case Kind::dict: {
      const auto a = entries(), b = other.entries();
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    default: return bits_ == other.bits_;
  }
}

FXX_INLINE void Argument::wrong_kind(Kind wanted) const {
  throw GraphError(ErrorId::wrong_argument_kind, "Argument: it is of kind '" + std::string(name_of(kind_)) + "'; '" +
                                                     std::string(name_of(wanted)) + "' was asked for");
}

FXX_INLINE std::string_view name_of(Argument::Kind kind) {
  constexpr std::string_view names[] = {"none",       "node",          "boolean", "integer",  "real",    "dtype",
                                        "layout",     "memory format", "device",  "ellipsis", "complex", "string",
                                        "enumerator", "range",         "slice",   "list",     "tuple",   "dict"};
  return names[static_cast<int>(kind)];
}

}  // namespace fxx::inline FXX_ABI
