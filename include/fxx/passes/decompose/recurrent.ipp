// Simple recurrent layers as products, step by step. LSTM and GRU have a kernel for all steps (codegen/lower/recurrent.ipp).
#pragma once

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace recurrent {

/// Longer ones would make a graph that takes the compiler long.
inline constexpr std::int64_t most_steps = 512;

/// Layers and directions of one operator.
class Layers {
 public:
  Layers(const Composite& c, const Operator& function) : c_(c), function_(function) {}

  Parts result() {
    const Argument x = c_["input"], states = c_["hx"];
    const auto params = c_.tensors("params");
    const auto layers = c_.integer("num_layers");
    if (!c_.is_tensor(x) || c_.numel(x) == 0 || !params || !layers || (c_.rank(x) != 2 && c_.rank(x) != 3)) return {};
    if (c_.flag("train") && !c_.is_number(c_["dropout"], 0) && *layers > 1) return {};
    const std::int64_t directions = c_.flag("bidirectional") ? 2 : 1;
    const std::size_t each = c_.flag("has_biases") ? 4 : 2;
    if (!states.is_node() || params->size() != static_cast<std::size_t>(*layers * directions) * each) return {};
    // [step, batch, feature]
    const bool batched = c_.rank(x) == 3, first = batched && c_.flag("batch_first");
    Argument in = batched ? x : c_.unsqueeze(x, 1);
    if (first) in = c_(ops::transpose_int, {in, 0, 1});
    steps_ = c_.sizes(x)[first ? 1 : 0];
    if (steps_ * *layers * directions > most_steps) return {};
    std::vector<Argument> last;
    for (std::int64_t layer = 0; layer < *layers; ++layer) {
      std::vector<Argument> sides;
      for (std::int64_t direction = 0; direction < directions; ++direction) {
        const std::int64_t number = layer * directions + direction;
        const auto from = params->begin() + number * static_cast<std::int64_t>(each);
        const Argument own = c_(ops::select_int, {states, 0, number});
        const Run run = {in,
                         from[0],
                         from[1],
                         each == 4 ? from[2] : Argument(),
                         each == 4 ? from[3] : Argument(),
                         batched ? own : c_.unsqueeze(own, 0)};
        sides.push_back(over(run, direction == 1));
        last.push_back(h_);
      }
      in = directions == 1 ? sides[0] : c_(ops::cat, {Argument::list(sides), -1});
    }
    if (first) in = c_(ops::transpose_int, {in, 0, 1});
    if (!batched) in = c_(ops::squeeze_dim, {in, 1});
    const Argument stacked = c_(ops::stack, {Argument::list(std::move(last)), 0});
    return {in, batched ? stacked : c_(ops::squeeze_dim, {stacked, 1})};
  }

 private:
  struct Run {
    Argument in, input_weights, state_weights, input_bias, state_bias, h;
  };

  /// One layer in one direction: the states of all steps. `h_` is the last.
  Argument over(const Run& run, bool backward) {
    // What the inputs add is one product for all steps.
    const Argument from_input = c_(ops::linear, {run.in, run.input_weights, run.input_bias});
    std::vector<Argument> states(static_cast<std::size_t>(steps_));
    h_ = run.h;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t step = backward ? steps_ - 1 - i : i;
      const Argument given = c_(ops::select_int, {from_input, 0, step});
      const Argument own = c_(ops::linear, {h_, run.state_weights, run.state_bias});
      h_ = c_(function_, {c_.add(own, given)});
      states[static_cast<std::size_t>(step)] = h_;
    }
    return c_(ops::stack, {Argument::list(std::move(states)), 0});
  }

  const Composite& c_;
  const Operator& function_;
  std::int64_t steps_ = 0;
  Argument h_;
};

FXX_INLINE Parts of_tanh(const Composite& c) { return Layers(c, ops::tanh).result(); }
FXX_INLINE Parts of_relu(const Composite& c) { return Layers(c, ops::relu).result(); }

inline constexpr NamedDecomposition all[] = {
    {"aten::rnn_tanh.input", of_tanh},
    {"aten::rnn_relu.input", of_relu},
};
}  // namespace recurrent

}  // namespace fxx::inline FXX_ABI::detail
