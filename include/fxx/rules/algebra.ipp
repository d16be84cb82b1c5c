// Bodies of rules/algebra.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "fxx/rules/algebra.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace algebra_rules {

FXX_INLINE bool of_one_dtype(const Match& m) {
  const TensorMeta *a = meta_of(m[x]), *b = meta_of(m[y]);
  return a && b && a->dtype == b->dtype;
}

FXX_INLINE bool is_real_or_complex(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta && (is_floating_point(meta->dtype) || is_complex(meta->dtype));
}

FXX_INLINE bool is_whole(const Argument& a) { return a.kind() == Argument::Kind::integer; }

FXX_INLINE bool is_small(const Argument& a) { return std::abs(a.number()) < 1e9; }

/// Floating-point values take any finite numbers, signed integers take integers.
FXX_INLINE bool takes(const Argument& value, const Argument& a, const Argument& b) {
  const TensorMeta* meta = meta_of(value);
  if (!meta || a.kind() == Argument::Kind::boolean || b.kind() == Argument::Kind::boolean) return false;
  if (is_floating_point(meta->dtype)) return std::isfinite(a.number()) && std::isfinite(b.number());
  const bool whole = meta->dtype == Dtype::int8 || meta->dtype == Dtype::int16 || meta->dtype == Dtype::int32 ||
                     meta->dtype == Dtype::int64;
  return whole && is_whole(a) && is_whole(b) && is_small(a) && is_small(b);
}

FXX_INLINE Argument number(const Argument& a, const Argument& b, double value) {
  if (is_whole(a) && is_whole(b) && std::abs(value) < 1e15 && value == std::trunc(value))
    return static_cast<std::int64_t>(value);
  return value;
}

/// Sums round the number that they add to the dtype first.
FXX_INLINE double largest_in(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 65504;
    case Dtype::bfloat16: return 0x1.FEp127;
    case Dtype::float32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

FXX_INLINE Argument total_of(const Match& m, int first_sign, int second_sign, bool negative) {
  if (!takes(m[x], m[s], m[r])) return {};
  const double first = first_sign * m[s].number(), second = second_sign * m[r].number();
  // A number that is zero decides the sign of a sum that is.
  if (is_floating_value(m[x]) &&
      (first * second <= 0 || !(std::abs(first + second) <= largest_in(meta_of(m[x])->dtype))))
    return {};
  const Operator& op = negative ? info_of<ops::rsub_Scalar> : info_of<ops::add_Scalar>;
  return m.call(op, {m[x], number(m[s], m[r], first + second)});
}

/// x times, or by, what the two numbers are together. Where one makes x larger and the other smaller, what is between
/// may overflow, or round to zero.
FXX_INLINE Argument scaled(const Match& m, const Operator& op, double factor, double first, double second) {
  const bool whole = !is_floating_value(m[x]);
  first = std::abs(first), second = std::abs(second);
  const bool one_way = (first >= 1 && second >= 1) || (first <= 1 && second <= 1);
  if (!whole && !one_way && !m.may_assume(law::no_overflow)) return {};
  if (!takes(m[x], m[s], m[r]) || (whole && op.id != info_of<ops::mul_Scalar>.id)) return {};
  if (!whole && !(std::isfinite(factor) && std::abs(factor) > 1e-30 && std::abs(factor) < 1e30)) return {};
  if (whole && !(std::abs(factor) < 1e15)) return {};  // beyond, the product would be a float
  return m.call(op, {m[x], number(m[s], m[r], factor)});
}

FXX_INLINE Argument times_both(const Match& m) { 
  return scaled(m, ops::mul_Scalar, m[s].number() * m[r].number(), m[s].number(), m[r].number());
}

FXX_INLINE Argument times_first_by_second(const Match& m) {
  return scaled(m, ops::mul_Scalar, m[s].number() / m[r].number(), m[s].number(), 1 / m[r].number());
}

FXX_INLINE Argument times_second_by_first(const Match& m) {
  return scaled(m, ops::mul_Scalar, m[r].number() / m[s].number(), 1 / m[s].number(), m[r].number());
}

FXX_INLINE Argument by_both(const Match& m) {
  return scaled(m, ops::div_Scalar, m[s].number() * m[r].number(), m[s].number(), m[r].number());
}

FXX_INLINE bool is_square(const Match& m) { return is_real_or_complex(m[x]); }

FXX_INLINE Argument times_reciprocal(const Match& m) { return m.call(ops::mul_Scalar, {m[x], 1 / m[s].number()}); }

using Integers = std::vector<std::int64_t>;
FXX_INLINE bool is_identity(const Integers& dims) {
  for (std::size_t at = 0; at < dims.size(); ++at)
    if (dims[at] != static_cast<std::int64_t>(at)) return false;
  return true;
}

FXX_INLINE Argument list_of(const Integers& values) {
  return Argument::list(std::vector<Argument>(values.begin(), values.end()));
}

/// How transpose(x, i, j) permutes.
FXX_INLINE std::optional<Integers> exchange(const Argument& a, const Argument& b, std::int64_t rank) {
  const std::int64_t first = dimension_of(a, rank), second = dimension_of(b, rank);
  if (first < 0 || second < 0) return std::nullopt;
  Integers dims(static_cast<std::size_t>(rank));
  for (std::size_t at = 0; at < dims.size(); ++at) dims[at] = static_cast<std::int64_t>(at);
  std::swap(dims[static_cast<std::size_t>(first)], dims[static_cast<std::size_t>(second)]);
  return dims;
}

FXX_INLINE Argument permuted(const Match& m, const std::optional<Integers>& inner,
                             const std::optional<Integers>& outer) {
  if (!inner || !outer || inner->size() != outer->size()) return {};
  Integers both;
  for (const std::int64_t at : *outer) both.push_back((*inner)[static_cast<std::size_t>(at)]);
  if (is_identity(both)) return m[x];
  return m.call(ops::permute, {m[x], list_of(both)});
}

/// permute says how many dimensions there are.
FXX_INLINE std::int64_t length_of(const Argument& list) {
  return list.is_sequence() ? static_cast<std::int64_t>(list.items().size()) : -1;
}

inline constexpr std::int64_t no_end = std::numeric_limits<std::int64_t>::max();
/// A number from 0 on, `missing` for None; -1 for all else.
FXX_INLINE std::int64_t bound_of(const Argument& a, std::int64_t missing) {
  if (a.is_none()) return missing;
  if (a.kind() != Argument::Kind::integer || a.integer() < 0) return -1;
  return a.integer() >= 4611686018427387903 ? no_end : a.integer();
}

FXX_INLINE Argument bound_by(const Match& m, const Operator& op, bool larger) {
  const bool second = (m[s].number() < m[r].number()) == larger;
  if (std::isnan(m[s].number()) || std::isnan(m[r].number())) return {};
  if (m[s].number() == m[r].number() && std::signbit(m[s].number()) != std::signbit(m[r].number())) return {};
  return m.call(op, {m[x], second ? m[r] : m[s]});
}

/// Whether the strides of x are those that the root is known to have. They may be others in dimensions of one element,
/// and where there are no elements.
FXX_INLINE bool has_strides_of_root(const Match& m) {
  const TensorMeta *before = m.root()->tensor_meta(), *after = meta_of(m[x]);
  return !before || !after || before->stride.size() != after->stride.size() || before->stride == after->stride;
}

FXX_INLINE bool strides_stay(const Match& m) { return has_strides_of_root(m) || nobody_sees_layout(*m.root()); }

FXX_INLINE bool same_layout(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  return (meta && is_dense(*meta) && has_strides_of_root(m)) || nobody_sees_layout(*m.root());
}

FXX_INLINE bool free_layout(const Match& m) {
  return (lies_in_order(m[x]) && has_strides_of_root(m)) || nobody_sees_layout(*m.root());
}

FXX_INLINE bool either_first(const Match& m) { return lie_alike(m[x], m[y]) || nobody_sees_layout(*m.root()); }

FXX_INLINE bool x_first(const Match& m) {
  return argument_or_default(*m.root(), *operator_of(*m.root()), 0) == m[x] || either_first(m);
}

FXX_INLINE bool lerps(const Match& m) { return of_one_dtype(m) && x_first(m); }

FXX_INLINE bool sides_exchange(const Match& m) {
  const TensorMeta *condition = meta_of(m[c]), *first = meta_of(m[x]), *second = meta_of(m[y]);
  const bool dense = condition && is_dense(*condition);  // so that its opposite lies as it does
  const bool whole =
      dense && first && second && broadcasts_into(*first, *condition) && broadcasts_into(*second, *condition);
  return whole || (dense && lie_alike(m[x], m[y])) || nobody_sees_layout(*m.root());
}

FXX_INLINE bool sides_alone(const Match& m) {
  const TensorMeta *condition = meta_of(m[c]), *meta = meta_of(m[x]);
  return condition && meta && broadcasts_into(*condition, *meta) && nobody_sees_layout(*m.root());
}

FXX_INLINE bool both_real_or_complex(const Match& m) { return is_real_or_complex(m[x]) && is_real_or_complex(m[y]); }

FXX_INLINE bool signs_cancel(const Match& m) {
  const TensorMeta *first = meta_of(m[x]), *second = meta_of(m[y]);
  return first && second && (first->dtype == second->dtype || both_real_or_complex(m));
}

FXX_INLINE bool sign_moves(const Match& m) {
  const TensorMeta *first = meta_of(m[x]), *second = meta_of(m[y]);
  return first && second && first->dtype != Dtype::boolean &&
         (first->dtype == second->dtype || is_real_or_complex(m[y])) && x_first(m);
}

FXX_INLINE Argument negated_number(const Match& m) {
  // What is multiplied with 0 is a zero with a sign, which the integer -0 does not have.
  if (!takes(m[x], m[s], m[s]) || (is_floating_value(m[x]) && m[s].number() == 0)) return {};
  return m.call(ops::mul_Scalar, {m[x], number(m[s], m[s], -m[s].number())});
}

FXX_INLINE bool already_there(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  return meta && m[type].kind() == Argument::Kind::dtype && m[type].dtype() == meta->dtype &&
         !may_follow_default_dtype(m[x]);
}

FXX_INLINE bool already_alike(const Match& m) {
  const TensorMeta *meta = meta_of(m[x]), *other = meta_of(m[y]);
  return meta && other && meta->dtype == other->dtype && meta->device == other->device &&
         !may_follow_default_dtype(m[x]) && !may_follow_default_dtype(m[y]);
}

FXX_INLINE bool loses_nothing(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  if (!meta || m[type].kind() != Argument::Kind::dtype || m[middle].kind() != Argument::Kind::dtype) return false;
  return holds_all(meta->dtype, m[middle].dtype()) &&
         (m[type].dtype() == meta->dtype ? same_layout(m) : is_floating_point(m[type].dtype())) &&
         !may_follow_default_dtype(m[x]);
}

FXX_INLINE bool same_pair(const Match& m) {
  if (m[i].kind() != Argument::Kind::integer || m[j].kind() != Argument::Kind::integer) return false;
  if ((m[i] == m[k] && m[j] == m[l]) || (m[i] == m[l] && m[j] == m[k])) return true;
  const std::int64_t rank = rank_of(m[x]);
  const std::int64_t a = dimension_of(m[i], rank), b = dimension_of(m[j], rank), e = dimension_of(m[k], rank),
                     f = dimension_of(m[l], rank);
  return a >= 0 && b >= 0 && ((a == e && b == f) || (a == f && b == e));
}

FXX_INLINE bool of_a_matrix(const Match& m) {
  const std::int64_t rank = rank_of(m[x]);
  const std::int64_t a = dimension_of(m[i], rank), b = dimension_of(m[j], rank);
  return rank == 2 && a >= 0 && b >= 0 && a != b;
}

FXX_INLINE Argument permute_permute(const Match& m) {
  return permuted(m, dimensions_of(m[inner_sizes], length_of(m[inner_sizes])),
                  dimensions_of(m[sizes], length_of(m[sizes])));
}

FXX_INLINE Argument permute_transpose(const Match& m) {
  return permuted(m, exchange(m[i], m[j], length_of(m[sizes])), dimensions_of(m[sizes], length_of(m[sizes])));
}

FXX_INLINE Argument transpose_permute(const Match& m) {
  return permuted(m, dimensions_of(m[sizes], length_of(m[sizes])), exchange(m[i], m[j], length_of(m[sizes])));
}

FXX_INLINE bool permutes_nothing(const Match& m) {
  const auto dims = dimensions_of(m[sizes], length_of(m[sizes]));
  return dims && is_identity(*dims);
}

FXX_INLINE bool own_sizes(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const auto wanted = integers_of(m[sizes]);
  if (!meta || !wanted || wanted->size() != meta->shape.size()) return false;
  for (std::size_t at = 0; at < wanted->size(); ++at)
    if (meta->shape[at] < 0 || ((*wanted)[at] != meta->shape[at] && (*wanted)[at] != -1)) return false;
  return meta->numel() > 0 && strides_stay(m);
}

FXX_INLINE bool own_sizes_of_expand(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const auto wanted = integers_of(m[sizes]);
  if (!meta || !wanted || wanted->size() != meta->shape.size()) return false;
  for (std::size_t at = 0; at < wanted->size(); ++at)
    if ((*wanted)[at] != -1 && (meta->shape[at] < 0 || (*wanted)[at] != meta->shape[at])) return false;
  return true;
}

FXX_INLINE bool all_sizes_given(const Match& m) {
  const auto wanted = integers_of(m[sizes]);
  return wanted && std::none_of(wanted->begin(), wanted->end(), [](std::int64_t size) { return size < 0; });
}

FXX_INLINE bool own_shape(const Match& m) {
  const TensorMeta *meta = meta_of(m[x]), *other = meta_of(m[y]);
  return meta && other && meta->shape == other->shape && strides_stay(m);
}

FXX_INLINE bool not_one(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const std::int64_t at = meta ? dimension_of(m[d], meta->dim()) : -1;
  return at >= 0 && meta->shape[static_cast<std::size_t>(at)] >= 0 && meta->shape[static_cast<std::size_t>(at)] != 1;
}

FXX_INLINE bool unseen_layout(const Match& m) { return free_layout(m); }

FXX_INLINE bool has_dimensions(const Match& m) { return rank_of(m[x]) > 0; }

FXX_INLINE Argument slice_slice(const Match& m) {
  constexpr std::int64_t large = std::int64_t{1} << 30;
  const std::int64_t a = bound_of(m[inner_start], 0), to = bound_of(m[inner_stop], no_end),
                     by = bound_of(m[inner_step], 1), c = bound_of(m[start], 0), e = bound_of(m[stop], no_end),
                     t = bound_of(m[step], 1);
  if (a < 0 || to < 0 || by < 1 || c < 0 || e < 0 || t < 1) return {};
  if (a > large || c > large || by > large || t > large || (e != no_end && e > large)) return {};
  const std::int64_t end = e == no_end ? to : std::min(to, a + by * e);
  const Argument last = end == no_end ? Argument() : Argument(end);
  return m.call(ops::slice_Tensor, {m[x], m[d], a + by * c, last, by * t});
}

FXX_INLINE Argument select_slice(const Match& m) {
  constexpr std::int64_t large = std::int64_t{1} << 30;
  const std::int64_t a = bound_of(m[inner_start], 0), by = bound_of(m[inner_step], 1), at = bound_of(m[i], -1);
  if (a < 0 || by < 1 || at < 0 || a > large || by > large || at > large) return {};
  return m.call(ops::select_int, {m[x], m[d], a + by * at});
}

FXX_INLINE Argument narrow_narrow(const Match& m) {
  const std::int64_t a = bound_of(m[inner_start], -1), c = bound_of(m[start], -1);
  if (a < 0 || c < 0 || a == no_end || c == no_end) return {};
  return m.call(ops::narrow, {m[x], m[d], a + c, m[stop]});
}

FXX_INLINE bool whole_length(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const std::int64_t at = meta ? dimension_of(m[d], meta->dim()) : -1;
  if (at < 0 || m[stop].kind() != Argument::Kind::integer) return false;
  const std::int64_t size = meta->shape[static_cast<std::size_t>(at)];
  return size >= 0 && m[stop].integer() >= size;
}

FXX_INLINE bool all_zero(const Match& m) {
  const auto amounts = integers_of(m[sizes]);
  return amounts && std::all_of(amounts->begin(), amounts->end(), [](std::int64_t n) { return n == 0; }) &&
         free_layout(m);
}

FXX_INLINE bool all_ones(const Match& m) {
  const auto times = integers_of(m[sizes]);
  return times && static_cast<std::int64_t>(times->size()) == rank_of(m[x]) &&
         std::all_of(times->begin(), times->end(), [](std::int64_t n) { return n == 1; }) && free_layout(m);
}

FXX_INLINE bool of_one_dimension(const Match& m) { return !m[d].is_none() && free_layout(m); }

FXX_INLINE bool over_some(const Match& m) {
  const auto over = integers_of(m[sizes]);
  return over && !over->empty();
}

FXX_INLINE Argument put_together(const Match& m) {
  const auto parts = m.group<"parts">();
  for (std::size_t n = 0; n < parts.size(); ++n)
    if (parts[n][i] != Argument(n + 1)) return {};
  const TensorMeta* meta = meta_of(m[x]);
  const std::int64_t dim = meta ? dimension_of(m[at], meta->dim()) : -1;
  if (dim < 0 || dim != dimension_of(m[d], meta->dim()) || !nobody_sees_layout(*m.root())) return {};
  const std::int64_t length = meta->shape[static_cast<std::size_t>(dim)];
  const auto count = static_cast<std::int64_t>(parts.size()) + 1;
  const std::string_view taken_by = operator_of(*m.node(whole))->base_name();
  if (taken_by == "unbind") return length == count ? m[x] : Argument();
  if (m[size].is_sequence()) return length_of(m[size]) == count ? m[x] : Argument();
  if (length <= 0 || m[size].kind() != Argument::Kind::integer || m[size].integer() < 1) return {};
  const std::int64_t given = m[size].integer(), part = taken_by == "chunk" ? (length + given - 1) / given : given;
  return (length + part - 1) / part == count ? m[x] : Argument();
}

FXX_INLINE bool inner_of_one_type(const Match& m) {
  const Argument inner = m[rewrite::rest<"inner">];
  const TensorMeta* first = nullptr;
  for (const Argument& value : inner.items()) {
    const TensorMeta* meta = meta_of(value);
    if (!meta || (first && first->dtype != meta->dtype)) return false;
    first = meta;
  }
  return true;
}

FXX_INLINE Argument part_of_cat(const Match& m) {
  const Argument all = m[value<"all">];
  const auto lengths = integers_of(m[sizes]);
  const std::int64_t at = bound_of(m[i], -1);
  if (!all.is_sequence() || !lengths || lengths->size() != all.items().size() || at < 0 || at >= length_of(all) ||
      !nobody_sees_layout(*m.root()))
    return {};
  for (std::size_t n = 0; n < lengths->size(); ++n) {
    const TensorMeta *meta = meta_of(all.items()[n]), *first = meta_of(all.items()[0]);
    const std::int64_t dim = meta ? dimension_of(m[d], meta->dim()) : -1;
    if (dim < 0 || meta->shape[static_cast<std::size_t>(dim)] != (*lengths)[n] || meta->dtype != first->dtype ||
        meta->dim() != first->dim())
      return {};
  }
  return all.items()[static_cast<std::size_t>(at)];
}

FXX_INLINE Argument clamp_clamp(const Match& m) {
  for (const Argument& bound : {m[low], m[high], m[s], m[r]})
    if (std::isnan(bound.number())) return {};
  const double first = std::min(std::max(m[low].number(), m[s].number()), m[r].number()),
               last = std::min(std::max(m[high].number(), m[s].number()), m[r].number());
  if (!(first < last)) return {};  // clamp(x, a, a) has a gradient at a, and the two clamps have none
  return m.call(ops::clamp, {m[x], first, last});
}

FXX_INLINE bool in_order(const Match& m) { return m[low].number() <= m[high].number(); }

}  // namespace algebra_rules

}  // namespace fxx::inline FXX_ABI::rules
