// All sets of rules that ship, and what one applies to a model that only infers.
// Main names: rules::all. Cost: light; a set costs what it holds, and only where it is applied.
#pragma once

#include "fxx/rules/activations.hpp"
#include "fxx/rules/algebra.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/einsum.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/layout.hpp"
#include "fxx/rules/merge_convolution.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/normalisation.hpp"
#include "fxx/rules/rearrangement.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/rules/rotary.hpp"

namespace fxx::inline FXX_ABI::rules {

/// In phases: what is written with views and slices is recognised before these are merged with others, what does
/// nothing goes, hand-written operators are recognised, batch norms fold, linears and convolutions merge, and what is
/// left gets cheaper. In this order, because cheaper spellings are harder to recognise.
inline constexpr auto all = rewrite::phases(rearrangement + rotary, identities + casts + shapes + joins, inference,
                                            normalisation, activations, einsums, attention, merge_activation,
                                            merge_linear, merge_convolution, number_chains + strength_reduction,
                                            layout);

}  // namespace fxx::inline FXX_ABI::rules
