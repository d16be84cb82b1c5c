// Recurrent modules of torch::nn out of the operators that they call: lstm, gru and rnn with the module's weights
// become the call of the module, which follows train() and eval(), and makes its initial state for any batch.
//
// Main names: reroll_recurrent. Cost: heavy (torch/nn/module.h); linear in the nodes.
#pragma once

#include <map>
#include <string>

#include "fxx/ir/graph.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI {

/// Turns calls of lstm, gru, rnn_tanh and rnn_relu whose weights are those of one LSTM, GRU or RNN module, all in
/// order, into calls of the module. An initial state of zeros that nobody else uses goes: the module makes the same.
/// `known` is that of reroll_modules: a node that it maps to "" has a flag of its own, and stays. Returns how many
/// calls were turned.
std::size_t reroll_recurrent(Graph& graph, const ModuleOwner& owner,
                             const std::map<std::string, std::string, std::less<>>& known = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/recurrent.ipp"
#endif
