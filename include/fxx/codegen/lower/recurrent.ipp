// Lowering of LSTM and GRU layers.
#pragma once

#include "fxx/codegen/lower/memory.ipp"

namespace fxx::inline FXX_ABI::plans {

/// lstm.input and gru.input: layers one after the other.
FXX_INLINE void Lowering::recurrent(const Node& node, const Operator& op) {
  const bool lstm = op.base_name() == "lstm";
  const std::int64_t gates = lstm ? 4 : 3;
  const Node& input = operand(node, op, "input");
  require_float(input);
  const bool biases = argument(node, op, "has_biases").boolean(),
             bidirectional = argument(node, op, "bidirectional").boolean();
  const bool batch_first = argument(node, op, "batch_first").boolean();
  const std::int64_t layers = integer(argument(node, op, "num_layers")), directions = bidirectional ? 2 : 1;
  if (argument(node, op, "train").boolean() && argument(node, op, "dropout").number() != 0 && layers > 1)
    throw NoKernel{"dropout"};
  const Argument params = argument(node, op, "params"), states = argument(node, op, "hx");
  std::vector<const Node*> weights, initial;
  for (const Argument& item : params.items()) weights.push_back(item.node());
  if (states.is_node()) initial.push_back(states.node());
  else if (states.is_sequence())
    for (const Argument& item : states.items()) initial.push_back(item.node());
  const std::size_t each = biases ? 4 : 2;
  if (weights.size() != static_cast<std::size_t>(layers * directions) * each || initial.size() != (lstm ? 2u : 1u))
    throw NoKernel{"weights of another kind, such as projections"};
  for (const Node* weight : weights) {
    require_float(*weight);
    if (plan_.buffers[static_cast<std::size_t>(view_of(*weight).buffer)].kind != Buffer::Kind::constant)
      throw NoKernel{"weights that are computed"};
  }
  const Sizes in = sizes_of(input);
  if (in.size() != 2 && in.size() != 3) throw NoKernel{"sequences of these sizes"};
  // [step, batch, feature], as views of whatever order.
  View x = view_of(input);
  if (in.size() == 2) {
    x.sizes.insert(x.sizes.begin() + 1, 1);
    x.strides.insert(x.strides.begin() + 1, 0);
  } else if (batch_first) {
    std::swap(x.sizes[0], x.sizes[1]);
    std::swap(x.strides[0], x.strides[1]);
  }
  const std::int64_t steps = x.sizes[0], batch = x.sizes[1];
  if (product(in) == 0) throw NoKernel{"sequences of nothing"};
  std::optional<View> rows = reshaped(x, {steps * batch, x.sizes[2]});
  if (!rows || (rows->strides[1] != 1 && x.sizes[2] != 1)) {
    const int buffer = add_buffer(Buffer::Kind::arena, node, Dtype::float32, product(x.sizes));
    copy_to(node, x, {buffer, 0, x.sizes, dense_strides(x.sizes)});
    rows = View{buffer, 0, {steps * batch, x.sizes[2]}, {x.sizes[2], 1}};
  }
  const std::int64_t size = sizes_of(*weights[1])[1];
  for (const Node* state : initial) require_float(*state);
  View h0 = view_of(*initial[0]), c0 = lstm ? view_of(*initial[1]) : View{};
  // [layer and direction, batch, size]
  const auto three = [](View view) {
    if (view.sizes.size() == 2) {
      view.sizes.insert(view.sizes.begin() + 1, 1);
      view.strides.insert(view.strides.begin() + 1, 0);
    }
    return view;
  };
  h0 = three(h0);
  if (lstm) c0 = three(c0);
  const auto fresh = [&](Sizes sizes) {
    const int buffer = add_buffer(Buffer::Kind::arena, node, Dtype::float32, product(sizes));
    return View{buffer, 0, sizes, dense_strides(sizes)};
  };
  const View h_n = fresh({layers * directions, batch, size}),
             c_n = lstm ? fresh({layers * directions, batch, size}) : View{};
  // States of a sequence lie behind each other, those of the next one at a distance that h and c have in common.
  const bool whole = size == 1 || (h0.strides[2] == 1 && (!lstm || c0.strides[2] == 1));
  if (!whole || (lstm && batch > 1 && h0.strides[1] != c0.strides[1])) {
    const auto copied = [&](const View& view) {
      View dense = fresh(view.sizes);
      copy_to(node, view, dense);
      return dense;
    };
    h0 = copied(h0);
    if (lstm) c0 = copied(c0);
  }
  const auto state = [&](const View& all, std::int64_t number) {
    return View{all.buffer, all.offset + number * all.strides[0], {batch, size}, {all.strides[1], all.strides[2]}};
  };
  View out;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    Recurrent kernel;
    kernel.kind = lstm ? Recurrent::Kind::lstm : Recurrent::Kind::gru;
    kernel.steps = steps;
    kernel.batch = batch;
    kernel.size = size;
    kernel.in_size = rows->sizes[1];
    kernel.in = *rows;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::int64_t number = layer * directions + direction;
      const auto first = static_cast<std::size_t>(number) * each;
      Recurrent::Direction own;
      own.backward = direction == 1;
      own.input_weights = view_of(*weights[first]);
      own.state_weights = view_of(*weights[first + 1]);
      if (biases) {
        own.input_bias = view_of(*weights[first + 2]);
        own.state_bias = view_of(*weights[first + 3]);
      }
      own.h = state(h0, number);
      own.h_out = state(h_n, number);
      if (lstm) {
        own.c = state(c0, number);
        own.c_out = state(c_n, number);
      }
      kernel.directions.push_back(std::move(own));
    }
    out = fresh({steps, batch, directions * size});
    KernelStep step;
    step.flops = 2. * static_cast<double>(steps * batch * directions * gates * size * (size + kernel.in_size));
    step.frame.axes = {{"direction", directions}, {"step", steps}, {"row", batch}, {"column", size}};
    step.frame.dims = {{1, 1}, {2, 1}, {0, 1}, {3, 1}};
    step.frame.sizes = {steps, batch, directions, size};
    step.stores.push_back({{out.buffer, 0, step.frame.sizes, dense_strides(step.frame.sizes)}, result_term()});
    step.kernel = std::move(kernel);
    step.nodes = {&node};
    add_step(std::move(step));
    rows = View{out.buffer, 0, {steps * batch, directions * size}, {directions * size, 1}};
  }
  Value tuple;
  tuple.kind = Value::Kind::tuple;
  const auto item = [&](View view) {
    Value value;
    value.kind = Value::Kind::view;
    value.view = std::move(view);
    tuple.items.push_back(std::move(value));
  };
  if (in.size() == 2) {
    out.sizes.erase(out.sizes.begin() + 1);
    out.strides.erase(out.strides.begin() + 1);
  } else if (batch_first) {
    std::swap(out.sizes[0], out.sizes[1]);
    std::swap(out.strides[0], out.strides[1]);
  }
  item(out);
  for (View view : {h_n, c_n}) {
    if (view.buffer < 0) continue;
    if (in.size() == 2) {
      view.sizes.erase(view.sizes.begin() + 1);
      view.strides.erase(view.strides.begin() + 1);
    }
    item(std::move(view));
  }
  value_of(node) = std::move(tuple);
}

}  // namespace fxx::inline FXX_ABI::plans
