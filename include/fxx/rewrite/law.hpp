// What a rule needs of the numbers in tensors: a part of its type.
//
//   fxx::rule<"log softmax", fxx::law::no_overflow>(log(softmax(x, dim)) >> log_softmax(x, dim))
//
// Both sides of a rule that says nothing are equal on every input: the same up to rounding, with nan, infinities and
// zeros in the same places. `RewriteOptions::assume` leaves out the rules that need more than may be taken for granted,
// and `verify` tests each rule on just what its law leaves.
// Main names: Law, law::exact, law::no_overflow, law::finite. Cost: light.
#pragma once

#include <cstdint>
#include <string>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Some needs, each of which leaves out inputs. Both sides are equal on all others.
enum class Law : std::uint8_t {};
constexpr Law operator|(Law a, Law b) {
  return static_cast<Law>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr Law operator&(Law a, Law b) {
  return static_cast<Law>(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}
constexpr Law operator~(Law a) { return static_cast<Law>(static_cast<std::uint8_t>(~static_cast<std::uint8_t>(a))); }

namespace law {

/// Every input.
inline constexpr Law exact{0};
/// No number on the way overflows, or rounds to zero, where the other side has one: log(softmax(x)) is minus infinity
/// next to a score that is larger by 200, log_softmax(x) is -200.
inline constexpr Law no_overflow{1};
/// No nan and no infinity goes in.
inline constexpr Law finite{2};
/// Only the elements that the pattern makes finite are equal.
inline constexpr Law finite_results{4};
/// No sum of products overflows before all of it is added up, or before it is multiplied. Any two programs that add up
/// in another order differ there.
inline constexpr Law sums{8};
/// Weights and statistics are finite: those that are not are multiplied in another order.
inline constexpr Law finite_weights{16};
/// Every query of attention sees a key. One that sees none gets nan of softmax and zeros of LibTorch's
/// scaled_dot_product_attention; that hides keys by adding minus infinity, under which a nan stays one.
inline constexpr Law visible{32};
/// The operator computes its formula. Some that LibTorch leaves to oneDNN make nan of an infinity.
inline constexpr Law formula{64};
/// Zero has no sign: x + 0 is 0 where x is -0, and one over them are two infinities.
inline constexpr Law unsigned_zero{128};

/// All of them: nothing is left out.
inline constexpr Law any =
    no_overflow | finite | finite_results | sums | finite_weights | visible | formula | unsigned_zero;
/// What holds of a model whose weights are finite, whatever numbers go in: what all programs share that add up in an
/// order of their own.
inline constexpr Law ordinary = sums | finite_weights | formula;

}  // namespace law

/// Does a rule that needs `needs` hold where `assumed` may be taken for granted?
constexpr bool holds(Law needs, Law assumed) { return (needs & ~assumed) == law::exact; }
/// "no overflow, finite inputs"; empty for law::exact.
std::string to_string(Law law);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/law.ipp"
#endif
