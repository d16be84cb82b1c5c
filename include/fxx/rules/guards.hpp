// Questions that guards of shipped rules ask of the values they matched.
// Cost: light.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "fxx/ops/sharing.hpp"
#include "fxx/rewrite/matcher.hpp"

namespace fxx::inline FXX_ABI::rules {

/// What is known of a value's shape and dtype; null when nothing is.
const TensorMeta* meta_of(const Argument& value);
/// Number of dimensions where it is known, else -1.
std::int64_t rank_of(const Argument& value);
/// Do `a` and `b` name the last two dimensions of `value`, in either order?
bool are_last_two(const Argument& a, const Argument& b, const Argument& value);
/// Of floating-point values, as far as is known.
bool may_be_floating(const Argument& value);
/// Of one dtype, as far as is known; what is no tensor does not count.
bool may_be_of_one_type(std::initializer_list<Argument> values);
/// Known to be no vector of so many elements.
bool is_other_than_vector(const Argument& value, std::int64_t size);
/// May the value lie in memory in another order, or with gaps? Not where somebody takes it apart by strides, or writes
/// to it or to what may be a copy of it or itself. Views may, when they become reshapes. Of modules the owner tells.
bool layout_is_free(Node& value);
/// Before the value becomes one that lies in another order: `view` may not reach over gaps; `reshape` does the same and
/// copies where it must. Where results of the graph lie as the value does, they go on lying so: by a copy, but where the dimensions
/// of the value are in order and those of its replacement are as well (`in_order`).
void views_become_reshapes(Node& value, bool in_order = false);
/// Of floating-point values for certain.
bool is_floating_value(const Argument& value);
/// Whether the value may have another dtype where LibTorch's default dtype is another: `arange(4) / 2` has, what is
/// made of floats that are inputs or weights does not. Looks at 256 nodes at most.
bool may_follow_default_dtype(const Argument& value);
/// Dimension `dim` of a value of that rank, counted from the front; -1 when it is none, or not known.
std::int64_t dimension_of(const Argument& dim, std::int64_t rank);
/// A list of integers, or one integer; nothing when something else is in it.
std::optional<std::vector<std::int64_t>> integers_of(const Argument& value);
/// Its dimensions, all different and counted from the front; nothing when they are not known.
std::optional<std::vector<std::int64_t>> dimensions_of(const Argument& value, std::int64_t rank);
/// Does a value of shape `small` broadcast to `large` without making it larger?
bool broadcasts_into(const TensorMeta& small, const TensorMeta& large);
/// Do the elements lie one after the other, in whatever order of the dimensions?
bool is_dense(const TensorMeta& meta);
/// Known to lie in the order of its dimensions, without gaps.
bool lies_in_order(const Argument& value);
/// Is what a pointwise operator makes of both laid out the same, whichever of them comes first? As far as is known.
bool lie_alike(const Argument& a, const Argument& b);
/// Does nobody look at how the value lies in memory? `view` does, which may not reach over gaps, and whoever gets a
/// result of the graph.
bool nobody_sees_layout(Node& value);
/// Of 32 or 64 bits: fewer round a value on the way where one operator does not.
bool is_single_or_double(const Argument& value);
/// The softmax, or the exponentials of one, that the product goes into behind what may scale and mask it; null when
/// there is none.
const Node* softmax_behind(const Node& product);
/// None, or a value that the inputs do not reach.
bool is_constant_or_none(const Argument& value);

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/guards.ipp"
#endif
