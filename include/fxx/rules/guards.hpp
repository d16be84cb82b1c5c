// Questions that guards of shipped rules ask of the values they matched.
// Cost: light.
#pragma once

#include "fxx/rewrite/matcher.hpp"

namespace fxx::inline FXX_ABI::rules {

/// Number of dimensions where it is known, else -1.
inline std::int64_t rank_of(const Argument& value) {
  const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
  return meta ? meta->dim() : -1;
}

/// Is `dim` the last dimension of `value`, counted from either end?
inline bool is_last_dimension(const Argument& dim, const Argument& value) {
  if (dim.kind() != Argument::Kind::integer) return false;
  return dim.integer() == -1 || (rank_of(value) > 0 && dim.integer() == rank_of(value) - 1);
}

/// Do `a` and `b` name the last two dimensions of `value`, in either order?
inline bool are_last_two(const Argument& a, const Argument& b, const Argument& value) {
  if (a.kind() != Argument::Kind::integer || b.kind() != Argument::Kind::integer) return false;
  const std::int64_t rank = rank_of(value);
  const auto from_end = [&](std::int64_t dim) { return dim < 0 ? dim : rank < 0 ? 0 : dim - rank; };
  const std::int64_t first = from_end(a.integer()), second = from_end(b.integer());
  return (first == -1 && second == -2) || (first == -2 && second == -1);
}

/// Of floating-point values, as far as is known.
inline bool may_be_floating(const Argument& value) {
  const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
  return !meta || is_floating_point(meta->dtype);
}

/// None, or a value that the inputs do not reach.
inline bool is_constant_or_none(const Argument& value) {
  return value.is_none() || (value.is_node() && rewrite::is_constant_value(*value.node()));
}

}  // namespace fxx::inline FXX_ABI::rules
