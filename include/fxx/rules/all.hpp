// All sets of rules that ship, and what one applies to a model that only infers.
// Main names: rules::all, rules::exact. Cost: light; a set costs what it holds, and only where it is applied.
#pragma once

#include "fxx/rules/activations.hpp"
#include "fxx/rules/algebra.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/einsum.hpp"
#include "fxx/rules/equal_calls.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/layout.hpp"
#include "fxx/rules/merge_convolution.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/normalisation.hpp"
#include "fxx/rules/rearrangement.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/rules/rotary.hpp"
#include "fxx/rules/spellings.hpp"

namespace fxx::inline FXX_ABI::rules {

/// What views and slices express, which is recognised before they are merged with others.
inline constexpr auto rearrangements = rearrangement + rotary;
/// What does nothing goes.
inline constexpr auto cleaning = identities + casts + shapes + joins;
/// Cheaper spellings, last because they are harder to recognise.
inline constexpr auto cheaper = number_chains + strength_reduction;

/// In phases: what was written twice is computed once, what was written by hand is recognised, batch norms fold,
/// linears and convolutions merge, and what is left gets cheaper.
inline constexpr auto all =
    rewrite::phases(equal_calls, rearrangements, cleaning, inference, spellings, normalisation, activations, einsums,
                    attention_scores, attention, merge_activation, merge_linear, merge_convolution, cheaper, layout);

/// Those of `all` that leave numbers multiplied and added as they were written: no batch norm or factor goes into
/// weights, and no two numbers become one, but those that queries and keys are multiplied with.
inline constexpr auto exact =
    rewrite::phases(equal_calls, rearrangements, cleaning, spellings, normalisation, activations, einsums,
                    attention_scores, attention, merge_activation, merge_linear, merge_convolution, strength_reduction,
                    layout);

}  // namespace fxx::inline FXX_ABI::rules
