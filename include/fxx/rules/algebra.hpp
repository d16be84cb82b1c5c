// Operators that do nothing, or the work of a cheaper one: identities, numbers put together, strength reduction, casts,
// transposes, reshapes, slices, cats.
//
// What a law needs to know of a value (its dtype, rank, shape) has to be known: where it is not, the rule stays away.
// A result that becomes an input of the graph shares that input's memory afterwards; values that somebody writes to, or
// whose layout somebody can see, stay what they are.
// Main names: rules::identities, number_chains, strength_reduction, casts, shapes, joins; rules::algebra is all of
// them. Cost: light.
#pragma once

#include <bit>
#include <cstdint>

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace algebra_rules {
using namespace pattern;
inline constexpr auto fx = x.where(floating);
inline constexpr auto fy = y.where(floating);
inline constexpr auto p = tensor<"p">;
inline constexpr auto c = tensor<"c">;
inline constexpr auto r = scalar<"r">;
inline constexpr auto d = value<"d">;
inline constexpr auto i = value<"i">;
inline constexpr auto j = value<"j">;
inline constexpr auto k = value<"k">;
inline constexpr auto l = value<"l">;
inline constexpr auto sizes = value<"sizes">;
inline constexpr auto type = value<"type">;
inline constexpr auto at = value<"at">;
inline constexpr auto size = value<"size">;
inline constexpr auto whole = tensor<"whole">;
/// Slices without an end: None, and what torch::indexing::Slice and torch.export put there.
inline constexpr auto the_end = none | (scalar<"end"> >= 4611686018427387903_c);

// --- may x stand where the result stood? -----------------------------------------------------------------------------

/// The result of a pointwise operator has its argument's layout, when that has no gaps.
bool same_layout(const Match& m);
/// The result was laid out anew.
bool free_layout(const Match& m);
/// A result is laid out as its first operand: x and y lie alike, or nobody sees which of them that is.
bool either_first(const Match& m);
/// Or x comes first in what is matched, as it does in the result.
bool x_first(const Match& m);
/// The condition tells how the result is laid out, or both sides do.
bool sides_exchange(const Match& m);
/// The condition does not make the result larger than x.
bool sides_alone(const Match& m);
/// Minus this is what it says: of unsigned integers it is not, nor may it wrap where the result is of a larger type.
inline constexpr auto has_sign = [](const TensorMeta& m) {
  return is_floating_point(m.dtype) || is_complex(m.dtype) || m.dtype == Dtype::int8 || m.dtype == Dtype::int16 ||
         m.dtype == Dtype::int32 || m.dtype == Dtype::int64;
};
/// x and y have the same dtype. Of two, the one of y may be rounded to fewer digits than the result has.
bool of_one_dtype(const Match& m);
/// And x comes first on both sides, or either may.
bool lerps(const Match& m);
/// Integers of one type wrap the same way on both sides.
bool signs_cancel(const Match& m);
/// Only y changes its sign, and x comes first on both sides, or either may; `sub` takes no booleans.
bool sign_moves(const Match& m);

// --- numbers ---------------------------------------------------------------------------------------------------------

/// x, or minus x, plus what the two numbers are together. In floating point only terms of one sign are put together,
/// whose sum the dtype holds: (x + 1e9) - 1e9 rounds x, and x + 0 does not.
Argument total_of(const Match& m, int first_sign, int second_sign, bool negative);
template <int First, int Second, bool Negative = false>
inline constexpr auto total = [](const Match& m) { return total_of(m, First, Second, Negative); };
/// x times, or by, what the two numbers are together.
Argument times_both(const Match& m);
Argument times_first_by_second(const Match& m);
Argument times_second_by_first(const Match& m);
Argument by_both(const Match& m);
/// LibTorch computes pow(x, 1/2) as sqrt(x), but for float16: there, as in C, it has a value for minus infinity.
inline constexpr auto has_pow_by_root = [](const TensorMeta& m) {
  return is_floating_point(m.dtype) && m.dtype != Dtype::float16;
};
Argument negated_number(const Match& m);
/// Of floating-point or complex numbers.
bool is_square(const Match& m);
Argument times_reciprocal(const Match& m);
/// Not over none, which means all.
bool over_some(const Match& m);

// --- casts -----------------------------------------------------------------------------------------------------------

bool already_there(const Match& m);
bool already_alike(const Match& m);
inline constexpr auto middle = value<"middle">;
/// Nothing is lost in the middle, and the end is one that rounds the same from there. Where that is x's dtype, x stands
/// for a copy without gaps.
bool loses_nothing(const Match& m);

// --- views -----------------------------------------------------------------------------------------------------------

/// The same two dimensions, twice.
bool same_pair(const Match& m);
bool of_a_matrix(const Match& m);
inline constexpr auto inner_sizes = value<"inner">;
Argument permute_permute(const Match& m);
Argument permute_transpose(const Match& m);
Argument transpose_permute(const Match& m);
bool permutes_nothing(const Match& m);
/// The sizes are those that the value has; -1 stands for any one of them.
bool own_sizes(const Match& m);
/// In `expand`, -1 is what the size is.
bool own_sizes_of_expand(const Match& m);
bool all_sizes_given(const Match& m);
bool own_shape(const Match& m);
/// A size that is known and is not 1.
bool not_one(const Match& m);
/// Where a reshape may have copied, what comes out may have had another layout.
bool unseen_layout(const Match& m);
bool has_dimensions(const Match& m);

// --- slices ----------------------------------------------------------------------------------------------------------

inline constexpr auto start = value<"start">;
inline constexpr auto stop = value<"stop">;
inline constexpr auto step = value<"step">;
inline constexpr auto inner_start = value<"inner_start">;
inline constexpr auto inner_stop = value<"inner_stop">;
inline constexpr auto inner_step = value<"inner_step">;
/// x[a:b:s][c:e:t] = x[a + s c : min(b, a + s e) : s t].
Argument slice_slice(const Match& m);
Argument select_slice(const Match& m);
Argument narrow_narrow(const Match& m);
/// The slice ends where the value does, or later.
bool whole_length(const Match& m);
bool all_zero(const Match& m);
bool all_ones(const Match& m);
/// A dimension is named, so the result has x's shape, laid out anew.
bool of_one_dimension(const Match& m);

// --- parts and wholes ------------------------------------------------------------------------------------------------

/// What `cat` or `stack` puts together along `d` was taken apart along it, and all parts are there, in order.
Argument put_together(const Match& m);
/// Values of one dtype, so that they are converted once.
bool inner_of_one_type(const Match& m);
/// One part of a cat that is split along its own seams.
Argument part_of_cat(const Match& m);

// --- clamps ----------------------------------------------------------------------------------------------------------

inline constexpr auto low = scalar<"low">;
inline constexpr auto high = scalar<"high">;
/// clamp(x, a, b) = min(max(x, a), b), also where a > b.
Argument clamp_clamp(const Match& m);
Argument bound_by(const Match& m, const Operator& op, bool larger);
template <auto Op, bool Larger>
inline constexpr auto one_bound = [](const Match& m) { return bound_by(m, Op, Larger); };
bool in_order(const Match& m);
/// Divided by it and multiplied with its reciprocal is the same, bit by bit.
inline constexpr auto power_of_two = [](double v) {
  // By its bits: <cmath> would cost who includes this a twentieth of a second.
  const auto bits = std::bit_cast<std::uint64_t>(v);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  return bits << 12 == 0 && exponent >= -12 && exponent <= 10 && exponent != 0;
};

}  // namespace algebra_rules

/// What leaves its argument as it is, or what it is already. Law: each side has the same elements; x + 0 is x where zeros
/// have no sign (law::unsigned_zero). Not among them, for they are not so: x * 0 = 0, x - x = 0, x / x = 1 (nan, inf), exp(log(x)) = x
/// (x < 0). Needs: floating-point x where a number stands beside it, since x + 0.0 turns integers into floats; known
/// shapes where a condition might broadcast.
inline constexpr auto identities = [] {
  using namespace pattern;
  using namespace algebra_rules;
  constexpr auto not_negative =
      any_of<ops::sigmoid, ops::exp, ops::relu6, ops::hardsigmoid, ops::softplus>(x) | abs(fx) | square(fx);
  constexpr auto rounding = any_of<ops::floor, ops::ceil, ops::round, ops::trunc>;
  return ruleset(
      rule<"plus zero", law::unsigned_zero>(add(fx, 0_c) >> x, same_layout), rule<"minus zero">(sub(fx, 0_c) >> x, same_layout),
      rule<"times one">(mul(fx, 1_c) >> x, same_layout), rule<"divided by one">(div(fx, 1_c) >> x, same_layout),
      rule<"to the power of one">(pow(fx, 1_c) >> x, same_layout),
      rule<"minus of minus">(neg(neg(x)) >> x, same_layout), rule<"positive">(positive(x) >> x),
      rule<"zero minus", law::unsigned_zero>(rsub(fx, 0_c) >> neg(x)), rule<"times minus one">(mul(fx, -1_c) >> neg(x)),
      rule<"divided by minus one">(div(fx, -1_c) >> neg(x)),
      rule<"minus of a difference", law::unsigned_zero>(neg(sub(x, y).once()) >> sub(y, x), either_first),
      rule<"plus minus">(add(x, neg(y)) >> sub(x, y), sign_moves),
      rule<"minus minus">(sub(x, neg(y)) >> add(x, y), sign_moves),
      rule<"minus times minus">(mul(neg(x), neg(y)) >> mul(x, y), signs_cancel),
      rule<"minus by minus">(div(neg(fx), neg(fy)) >> div(x, y)),  // not of complex numbers: by 0 the signs differ
      rule<"number minus minus">(rsub(neg(fx), s) >> add(x, s)),
      rule<"minus of number minus", law::unsigned_zero>(neg(rsub(fx, s).once()) >> sub(x, s)), rule<"abs of abs">(abs(abs(x)) >> abs(x)),
      rule<"abs of minus">(abs(neg(x.where(has_sign))) >> abs(x)),
      rule<"square of abs">(square(abs(fx) | neg(fx)) >> square(x)),
      rule<"cosine of minus">(cos(neg(fx) | abs(fx)) >> cos(x)), rule<"sign of sign">(sign(sign(x)) >> sign(x)),
      rule<"relu of relu">(relu(relu(x)) >> relu(x)),
      rule<"relu of what is not negative">(relu(not_negative.as<"p">()) >> p),
      rule<"rounded twice">(rounding(rounding(x).as<"p">()) >> p),
      rule<"not not">(logical_not(logical_not(x.where(boolean))) >> x, same_layout),
      rule<"bitwise not not">(bitwise_not(bitwise_not(x)) >> x, same_layout),
      rule<"not equal">(any_of<ops::logical_not, ops::bitwise_not>(eq(x, y).once()) >> ne(x, y)),
      rule<"not equal to a number">(any_of<ops::logical_not, ops::bitwise_not>(eq(x, s).once()) >> ne(x, s)),
      rule<"not unequal">(any_of<ops::logical_not, ops::bitwise_not>(ne(x, y).once()) >> eq(x, y)),
      rule<"not unequal to a number">(any_of<ops::logical_not, ops::bitwise_not>(ne(x, s).once()) >> eq(x, s)),
      rule<"larger of one">((maximum(x, x) | fmax(x, x) | max(x, x)) >> x, same_layout),
      rule<"smaller of one">((minimum(x, x) | fmin(x, x) | min(x, x)) >> x, same_layout),
      rule<"and with itself">((bitwise_and(x, x) | logical_and(x.where(boolean), x)) >> x, same_layout),
      rule<"or with itself">((bitwise_or(x, x) | logical_or(x.where(boolean), x)) >> x, same_layout),
      rule<"where, equal sides">(where(c, x, x) >> x, sides_alone),
      rule<"where not">(where(any_of<ops::logical_not, ops::bitwise_not>(c.where(boolean)), x, y) >> where(c, y, x),
                        sides_exchange),
      rule<"clamped twice">(clamp(clamp(fx, low, high), s, r) >> clamp_clamp),
      rule<"clamped twice from below">(clamp_min(clamp_min(fx, s), r) >> one_bound<ops::clamp_min, true>),
      rule<"clamped twice from above">(clamp_max(clamp_max(fx, s), r) >> one_bound<ops::clamp_max, false>),
      rule<"clamped from below, then above">(clamp_max(clamp_min(fx, low), high) >> clamp(x, low, high)),
      rule<"clamped from above, then below">(clamp_min(clamp_max(fx, high), low) >> clamp(x, low, high), in_order),
      rule<"clamp from below">(clamp(x, s) >> clamp_min(x, s)),
      rule<"clamp from above">(clamp(x, none, s) >> clamp_max(x, s)),
      rule<"dropout of nothing">(
          any_of<ops::dropout, ops::feature_dropout, ops::alpha_dropout, ops::feature_alpha_dropout>(x, 0_c, _) >> x),
      rule<"filled twice">(masked_fill(masked_fill(x, c, _), c, s) >> masked_fill(x, c, s)),
      rule<"flipped twice">(flip(flip(x, sizes), sizes) >> x, free_layout),
      rule<"upside down twice">(flipud(flipud(x)) >> x, free_layout),
      rule<"left to right twice">(fliplr(fliplr(x)) >> x, free_layout),
      rule<"lower triangle twice">(tril(tril(x, d), d) >> tril(x, d)),
      rule<"upper triangle twice">(triu(triu(x, d), d) >> triu(x, d)),
      rule<"detached twice">(detach(detach(x)) >> detach(x)), rule<"alias">(alias(x) >> x));
}();

/// Numbers that follow each other, put together. Law: (x + a) + b = x + (a + b), (x a) b = x (a b) and so on, up to
/// rounding. Where one factor makes x larger and the other smaller, what overflows on the way does not any more, so that
/// these are put together only where overflow may be left out of account (law::no_overflow). Needs: x of a known dtype; of integers, only sums, differences
/// and products with integers; the inner result used once; of floating-point values no sum with 0, which decides the
/// sign of a zero.
inline constexpr auto number_chains = [] {
  using namespace pattern;
  using namespace algebra_rules;
  return ruleset(rule<"plus a plus b">(add(add(x, s).once(), r) >> total<1, 1>),
                 rule<"plus a minus b">(sub(add(x, s).once(), r) >> total<1, -1>),
                 rule<"minus a plus b">(add(sub(x, s).once(), r) >> total<-1, 1>),
                 rule<"minus a minus b">(sub(sub(x, s).once(), r) >> total<-1, -1>),
                 rule<"b minus, plus a">(rsub(add(x, s).once(), r) >> total<-1, 1, true>),
                 rule<"b minus, minus a">(rsub(sub(x, s).once(), r) >> total<1, 1, true>),
                 rule<"a minus, plus b">(add(rsub(x, s).once(), r) >> total<1, 1, true>),
                 rule<"a minus, minus b">(sub(rsub(x, s).once(), r) >> total<1, -1, true>),
                 rule<"b minus a minus">(rsub(rsub(x, s).once(), r) >> total<-1, 1>),
                 rule<"times a times b">(mul(mul(x, s).once(), r) >> times_both),
                 rule<"times a by b">(div(mul(fx, s).once(), r) >> times_first_by_second),
                 rule<"by a times b">(mul(div(fx, s).once(), r) >> times_second_by_first),
                 rule<"by a by b">(div(div(fx, s).once(), r) >> by_both),
                 rule<"minus, then times">(mul(neg(x).once(), s) >> negated_number),
                 rule<"times, then minus">(neg(mul(x, s).once()) >> negated_number));
}();

/// Cheaper operators for the same. Law: pow(x, 2) = x x, pow(x, 1/2) = sqrt(x), x / sqrt(y) = x rsqrt(y), x / 2^n =
/// x 2^-n, exp(x) - 1 = expm1(x), log(1 + x) = log1p(x) and so on, up to rounding; the last two round better. pow of
/// these numbers is what LibTorch computes this way itself, but for roots of float16. What overflows on the way may not
/// any more. Needs: floating-point values; lerp: finite ones.
inline constexpr auto strength_reduction = [] {
  using namespace pattern;
  using namespace algebra_rules;
  return ruleset(
      rule<"square">(pow(x, 2_c) >> mul(x, x), is_square),
      rule<"square root">(pow(x.where(has_pow_by_root), 0.5_c) >> sqrt(x)),
      rule<"to the power of -1/2">(pow(x.where(has_pow_by_root), -0.5_c) >> rsqrt(x)),
      rule<"to the power of -1">(pow(fx, -1_c) >> reciprocal(x)),
      rule<"one over the root">(reciprocal(sqrt(fx).once()) >> rsqrt(x)),
      rule<"by a root">(div(fx, sqrt(fy).once()) >> mul(x, rsqrt(y)), of_one_dtype),
      rule<"times the reciprocal", law::no_overflow>(mul(fx, reciprocal(fy).once()) >> div(x, y), x_first),
      rule<"by the reciprocal", law::no_overflow | law::finite>(div(fx, reciprocal(fy).once()) >> mul(x, y)),
      rule<"by a power of two">(div(fx, s.where(power_of_two)) >> times_reciprocal),
      rule<"exp minus one", law::no_overflow>(sub(exp(fx).once(), 1_c) >> expm1(x)),
      rule<"log of one plus", law::no_overflow>(log(add(fx, 1_c).once()) >> log1p(x)), rule<"tangent">(div(sin(fx), cos(x)) >> tan(x)),
      rule<"log of the sum of exponentials", law::no_overflow>(log(sum(exp(fx).once(), sizes, k).once()) >> logsumexp(x, sizes, k),
                                             over_some),
      rule<"lerp", law::finite>(add(x, mul(sub(fy, fx).once(), s).once()) >> apply<ops::lerp_Scalar>(x, y, s), lerps));
}();

/// Casts to what a value is already, and casts on the way that lose nothing. Law: exact. Needs: the dtype of the value.
inline constexpr auto casts = [] {
  using namespace pattern;
  using namespace algebra_rules;
  constexpr auto cast = [](auto v, auto to) { return apply<ops::to_dtype>(v, to); };
  constexpr auto cast_by_name = [](auto v, auto to) { return apply<ops::to_dtype_layout>(v, arg<"dtype">(to)); };
  return ruleset(rule<"cast to the same">(cast(x, type) >> x, already_there),
                 rule<"cast to the same, by name">(cast_by_name(x, type) >> x, already_there),
                 rule<"cast to the same as another">((type_as(x, y) | apply<ops::to_other>(x, y)) >> x, already_alike),
                 rule<"cast twice">(cast(cast(x, middle), type) >> apply<ops::to_dtype>(x, type), loses_nothing),
                 rule<"cast twice, by name">(
                     cast_by_name(cast_by_name(x, middle), type) >> apply<ops::to_dtype>(x, type), loses_nothing));
}();

/// Transposes, permutes, reshapes and slices that meet, or do nothing. Law: exact. Needs: integers for dimensions and
/// sizes; the rank where dimensions are counted from different ends, sizes where a law speaks of them.
inline constexpr auto shapes = [] {
  using namespace pattern;
  using namespace algebra_rules;
  constexpr auto a_view = view(x, _) | unsqueeze(x, _) | squeeze(x) | squeeze(x, _);
  constexpr auto a_reshape = reshape(x, _) | flatten(x, _, _) | ravel(x) | unflatten(x, _, _);
  return ruleset(
      rule<"transposed twice">(transpose(transpose(x, i, j), k, l) >> x, same_pair), rule<"t twice">(t(t(x)) >> x),
      rule<"mT twice">(mT(mT(x)) >> x), rule<"T twice">(numpy_T(numpy_T(x)) >> x),
      rule<"transpose of t">(transpose(t(x), i, j) >> x, of_a_matrix),
      rule<"t of transpose">(t(transpose(x, i, j)) >> x, of_a_matrix),
      rule<"transpose of mT">((transpose(mT(x), -1_c, -2_c) | transpose(mT(x), -2_c, -1_c)) >> x),
      rule<"transpose of nothing">(transpose(x, i, i) >> x),
      rule<"permuted twice">(permute(permute(x, inner_sizes), sizes) >> permute_permute),
      rule<"permute of a transpose">(permute(transpose(x, i, j), sizes) >> permute_transpose),
      rule<"transpose of a permute">(transpose(permute(x, sizes), i, j) >> transpose_permute),
      rule<"permute of nothing">(permute(x, sizes) >> x, permutes_nothing),
      rule<"view to the same">(view(x, sizes) >> x, own_sizes),
      rule<"reshape to the same">(reshape(x, sizes) >> x, own_sizes),
      rule<"view of a view">(view(a_view, sizes) >> view(x, sizes)),
      rule<"view of a reshape">(view(a_reshape, sizes) >> reshape(x, sizes), unseen_layout),
      rule<"reshape of a reshape">(reshape(a_reshape, sizes) >> reshape(x, sizes), unseen_layout),
      rule<"reshape of a view">(reshape(a_view, sizes) >> reshape(x, sizes), unseen_layout),
      rule<"flatten of a reshape">(flatten(a_reshape) >> flatten(x), unseen_layout),
      rule<"flatten of a view">(flatten(a_view) >> flatten(x), unseen_layout),
      rule<"flatten of one dimension">(flatten(x.where(rank_is<1>), _, _) >> x),
      rule<"flatten of a dimension">(flatten(x, i, i) >> x, has_dimensions),
      rule<"squeeze of unsqueeze">(squeeze(unsqueeze(x, d), d) >> x),
      rule<"select of unsqueeze">(select(unsqueeze(x, d), d, 0_c | -1_c) >> x),
      rule<"squeeze of no one">(squeeze(x, d) >> x, not_one), rule<"squeezed twice">(squeeze(squeeze(x)) >> squeeze(x)),
      rule<"expanded twice">(expand(expand(x, _), sizes) >> expand(x, sizes), all_sizes_given),
      rule<"expand to the same">((expand(x, sizes) | broadcast_to(x, sizes)) >> x, own_sizes_of_expand),
      rule<"expand as the same">((expand_as(x, y) | view_as(x, y) | reshape_as(x, y)) >> x, own_shape),
      rule<"slice of everything">(slice(x, _, 0_c | none, the_end) >> x),
      rule<"slice to its length">(slice(x, d, 0_c | none, stop) >> x, whole_length),
      rule<"slice of a slice">(slice(slice(x, d, inner_start, inner_stop, inner_step), d, start, stop, step) >>
                               slice_slice),
      rule<"select of a slice">(select(slice(x, d, inner_start, _, inner_step), d, i) >> select_slice),
      rule<"narrow to its length">(narrow(x, d, 0_c, stop) >> x, whole_length),
      rule<"narrowed twice">(narrow(narrow(x, d, inner_start, _), d, start, stop) >> narrow_narrow),
      rule<"pad with nothing">((pad(x, sizes, _, _) | constant_pad_nd(x, sizes, _)) >> x, all_zero),
      rule<"repeated once">((repeat(x, sizes) | tile(x, sizes)) >> x, all_ones),
      rule<"repeat_interleave once">(repeat_interleave(x, 1_c, d) >> x, of_one_dimension));
}();

/// cat, stack and split that undo each other, or hold one thing only. Law: exact. Needs: sizes, where the number of
/// parts follows from them.
inline constexpr auto joins = [] {
  using namespace pattern;
  using namespace algebra_rules;
  constexpr auto all = value<"all">;
  constexpr auto parts = (apply<ops::split_Tensor>(x, size, at) | apply<ops::split_sizes>(x, size, at) |
                          split_with_sizes(x, size, at) | chunk(x, size, at))
                             .as<"whole">();
  constexpr auto slices = unbind(x, at).as<"whole">();
  constexpr auto one_by_one = [](auto parts) { return list(getitem(parts, 0_c), each<"parts">(getitem(whole, i))); };
  return ruleset(rule<"cat of one">((cat(list(x), _) | concat(list(x), _)) >> x, free_layout),
                 rule<"stack of one">(stack(list(x), d) >> unsqueeze(x, d), free_layout),
                 rule<"cat of a cat">(cat(list(rest<"before">, cat(list(rest<"inner">), d).once(), rest<"after">), d) >>
                                          cat(list(rest<"before">, rest<"inner">, rest<"after">), d),
                                      inner_of_one_type),
                 rule<"cat of a split">(cat(one_by_one(parts), d) >> put_together),
                 rule<"stack of unbind">(stack(one_by_one(slices), d) >> put_together),
                 rule<"split of a cat">((getitem(split_with_sizes(cat(all, d), sizes, d), i) |
                                         getitem(apply<ops::split_sizes>(cat(all, d), sizes, d), i)) >>
                                        part_of_cat));
}();

/// All of these: what one applies before and after everything else.
inline constexpr auto algebra = identities + number_chains + strength_reduction + casts + shapes + joins;

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/algebra.ipp"
#endif
