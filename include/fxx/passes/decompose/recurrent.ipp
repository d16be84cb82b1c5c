// Recurrent layers as products and cells, step by step: simple ones, and LSTM and GRU of many sequences at once, of which a
// step is a product that fills the processor.
#pragma once

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace recurrent {

/// So many sequences have a kernel for all steps of one (codegen/lower/recurrent.ipp).
inline constexpr std::int64_t most_single_sequences = 16;
/// Longer ones would make a graph that takes the compiler long.
inline constexpr std::int64_t most_steps = 512;

/// Layers and directions of one operator.
class Layers {
 public:
  enum class Kind : std::uint8_t { lstm, gru, tanh, relu };

  Layers(const Composite& c, Kind kind) : c_(c), kind_(kind) {}

  Parts result() {
    const bool lstm = kind_ == Kind::lstm;
    const Argument x = c_["input"], given = c_["hx"];
    const auto params = c_.tensors("params");
    const auto layers = c_.integer("num_layers");
    if (!c_.is_tensor(x) || c_.numel(x) == 0 || !params || !layers || (c_.rank(x) != 2 && c_.rank(x) != 3)) return {};
    if (c_.flag("train") && !c_.is_number(c_["dropout"], 0) && *layers > 1) return {};
    std::vector<Argument> states;
    if (given.is_node()) states = {given};
    else if (const auto list = c_.tensors("hx")) states = *list;
    const std::int64_t directions = c_.flag("bidirectional") ? 2 : 1;
    const std::size_t each = c_.flag("has_biases") ? 4 : 2;
    if (states.size() != (lstm ? 2u : 1u) || params->size() != static_cast<std::size_t>(*layers * directions) * each)
      return {};
    // [step, batch, feature]
    const bool batched = c_.rank(x) == 3, first = batched && c_.flag("batch_first");
    Argument in = batched ? x : c_.unsqueeze(x, 1);
    if (first) in = c_(ops::transpose_int, {in, 0, 1});
    steps_ = c_.sizes(x)[first ? 1 : 0];
    const std::int64_t batch = batched ? c_.sizes(x)[first ? 0 : 1] : 1;
    if ((lstm || kind_ == Kind::gru) && batch <= most_single_sequences) return {};
    if (steps_ * *layers * directions > most_steps) return {};
    size_ = c_.sizes((*params)[1])[1];
    std::vector<Argument> last, last_cells;
    for (std::int64_t layer = 0; layer < *layers; ++layer) {
      std::vector<Argument> sides;
      for (std::int64_t direction = 0; direction < directions; ++direction) {
        const std::int64_t number = layer * directions + direction;
        const auto from = params->begin() + number * static_cast<std::int64_t>(each);
        const auto state = [&](const Argument& all) {
          const Argument own = c_(ops::select_int, {all, 0, number});
          return batched ? own : c_.unsqueeze(own, 0);
        };
        const Run run = {in,
                         from[0],
                         from[1],
                         each == 4 ? from[2] : Argument(),
                         each == 4 ? from[3] : Argument(),
                         state(states[0]),
                         lstm ? state(states[1]) : Argument()};
        sides.push_back(over(run, direction == 1));
        last.push_back(h_);
        if (lstm) last_cells.push_back(cell_);
      }
      in = directions == 1 ? sides[0] : c_(ops::cat, {Argument::list(sides), -1});
    }
    if (first) in = c_(ops::transpose_int, {in, 0, 1});
    if (!batched) in = c_(ops::squeeze_dim, {in, 1});
    const auto together = [&](std::vector<Argument> all) {
      const Argument stacked = c_(ops::stack, {Argument::list(std::move(all)), 0});
      return batched ? stacked : c_(ops::squeeze_dim, {stacked, 1});
    };
    Parts parts = {in, together(last)};
    if (lstm) parts.push_back(together(last_cells));
    return parts;
  }

 private:
  struct Run {
    Argument in, input_weights, state_weights, input_bias, state_bias, h, cell;
  };
  Argument gate(const Argument& gates, std::int64_t i) const { return c_.narrow(gates, -1, i * size_, size_); }
  Argument open(const Argument& gates) const { return c_(ops::sigmoid, {gates}); }

  /// One layer in one direction: the states of all steps. `h_` and `cell_` are the last.
  Argument over(const Run& run, bool backward) {
    // What the inputs add to the gates is one product for all steps.
    const Argument from_input = c_(ops::linear, {run.in, run.input_weights, run.input_bias});
    std::vector<Argument> states(static_cast<std::size_t>(steps_));
    h_ = run.h;
    cell_ = run.cell;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t step = backward ? steps_ - 1 - i : i;
      const Argument given = c_(ops::select_int, {from_input, 0, step});
      const Argument own = c_(ops::linear, {h_, run.state_weights, run.state_bias});
      if (kind_ == Kind::gru) {
        const Argument reset = open(c_.add(gate(given, 0), gate(own, 0))),
                       update = open(c_.add(gate(given, 1), gate(own, 1)));
        const Argument fresh = c_(ops::tanh, {c_.add(gate(given, 2), c_.mul(reset, gate(own, 2)))});
        h_ = c_.add(c_.mul(update, c_.sub(h_, fresh)), fresh);
      } else if (kind_ == Kind::lstm) {
        const Argument gates = c_.add(own, given);
        cell_ =
            c_.add(c_.mul(open(gate(gates, 1)), cell_), c_.mul(open(gate(gates, 0)), c_(ops::tanh, {gate(gates, 2)})));
        h_ = c_.mul(open(gate(gates, 3)), c_(ops::tanh, {cell_}));
      } else {
        h_ = c_(kind_ == Kind::tanh ? ops::tanh : ops::relu, {c_.add(own, given)});
      }
      states[static_cast<std::size_t>(step)] = h_;
    }
    return c_(ops::stack, {Argument::list(std::move(states)), 0});
  }

  const Composite& c_;
  Kind kind_;
  std::int64_t steps_ = 0, size_ = 0;
  Argument h_, cell_;
};

template <Layers::Kind Kind>
FXX_INLINE Parts layers(const Composite& c) {
  return Layers(c, Kind).result();
}

inline constexpr NamedDecomposition all[] = {
    {"aten::lstm.input", layers<Layers::Kind::lstm>},
    {"aten::gru.input", layers<Layers::Kind::gru>},
    {"aten::rnn_tanh.input", layers<Layers::Kind::tanh>},
    {"aten::rnn_relu.input", layers<Layers::Kind::relu>},
};
}  // namespace recurrent

}  // namespace fxx::inline FXX_ABI::detail
