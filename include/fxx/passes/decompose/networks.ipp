// Layers that are others, cells of recurrent networks, losses, reductions.
#pragma once

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace networks {

// --- layers ----------------------------------------------------------------------------------------------------------

FXX_INLINE Parts prelu(const Composite& c) {
  const Argument x = c["self"];
  Argument weight = c["weight"];
  if (!c.is_tensor(x) || !c.is_tensor(weight)) return {};
  // One for all, or one for each channel.
  std::vector<std::int64_t> to(static_cast<std::size_t>(std::max<std::int64_t>(c.rank(x), 1)), 1);
  if (c.numel(weight) != 1) to[to.size() > 1 ? 1 : 0] = c.numel(weight);
  if (c.rank(x) == 0) to.clear();
  weight = c.reshape(weight, to);
  return {c(ops::where_self, {c(ops::gt_Scalar, {x, 0}), x, c.mul(x, weight)})};
}
FXX_INLINE Parts instance_norm(const Composite& c) {
  const Argument x = c["input"];
  if (!c.is_tensor(x) || c.rank(x) < 3) return {};
  if (!c.flag("use_input_stats"))
    return {c(ops::batch_norm, {x, c["weight"], c["bias"], c["running_mean"], c["running_var"], false, c["momentum"],
                                c["eps"], c["cudnn_enabled"]})};
  if (!c["running_mean"].is_none()) return {};  // which it would write to
  return {c(ops::group_norm, {x, c.sizes(x)[1], c["weight"], c["bias"], c["eps"], c["cudnn_enabled"]})};
}
FXX_INLINE Parts layer_norm(const Composite& c) {
  return {c(ops::layer_norm, {c["input"], c["normalized_shape"], c["weight"], c["bias"], c["eps"]})};
}
FXX_INLINE Parts group_norm(const Composite& c) {
  return {c(ops::group_norm, {c["input"], c["group"], c["weight"], c["bias"], c["eps"]})};
}
FXX_INLINE Parts batch_norm(const Composite& c) {
  if (c.flag("training")) return {};
  return {c(ops::batch_norm, {c["input"], c["weight"], c["bias"], c["running_mean"], c["running_var"], false,
                              c["momentum"], c["eps"], false})};
}
/// Of statistics that are constants: one factor and one summand a channel, which are constants too, as LibTorch computes
/// it. Where the result lies otherwise than the input, a sum of both would lie as the input.
FXX_INLINE Parts inferring_batch_norm(const Composite& c) {
  const Argument x = c["input"], weight = c["weight"], bias = c["bias"], mean = c["running_mean"],
                 variance = c["running_var"];
  const auto is_constant = [&](const Argument& value) {
    return c.is_tensor(value) && value.node()->opcode() == Opcode::get_attr;
  };
  if (c.flag("training") || !c.is_tensor(x) || c.rank(x) < 2 || !is_constant(mean) || !is_constant(variance)) return {};
  for (const Argument& one : {weight, bias})
    if (!one.is_none() && !is_constant(one)) return {};
  const TensorMeta* result = c.node().tensor_meta();
  if (!result || result->stride != x.node()->tensor_meta()->stride) return {};
  std::vector<std::int64_t> channels(static_cast<std::size_t>(c.rank(x)) - 1, 1);
  channels[0] = c.sizes(x)[1];
  Argument factor = c(ops::rsqrt, {c(ops::add_Scalar, {variance, c["eps"]})});
  if (!weight.is_none()) factor = c.mul(factor, weight);
  const Argument centre = c.mul(mean, factor);
  const Argument summand = bias.is_none() ? c(ops::neg, {centre}) : c.sub(bias, centre);
  const Argument scaled = c.mul(x, c.reshape(factor, channels));
  return {c.add(scaled, c.reshape(summand, channels))};
}
FXX_INLINE Parts max_pool(const Composite& c) {
  return {c(ops::max_pool2d, {c["self"], c["kernel_size"], c["stride"], c["padding"], c["dilation"], c["ceil_mode"]})};
}

// --- cells -----------------------------------------------------------------------------------------------------------

/// What the input and the state add to the gates.
struct Gates {
  Argument input, state;
};
FXX_INLINE Gates gates_of(const Composite& c, const Argument& state) {
  return {c(ops::linear, {c["input"], c["w_ih"], c["b_ih"]}), c(ops::linear, {state, c["w_hh"], c["b_hh"]})};
}
FXX_INLINE Parts lstm_cell(const Composite& c) {
  const auto state = c.tensors("hx");
  if (!state || state->size() != 2) return {};
  const std::int64_t size = c.sizes((*state)[0]).back();
  const Gates both = gates_of(c, (*state)[0]);
  const Argument gates = c.add(both.input, both.state);
  const auto gate = [&](std::int64_t i) { return c.narrow(gates, -1, i * size, size); };
  const auto open = [&](std::int64_t i) { return c(ops::sigmoid, {gate(i)}); };
  const Argument cell = c.add(c.mul(open(1), (*state)[1]), c.mul(open(0), c(ops::tanh, {gate(2)})));
  return {c.mul(open(3), c(ops::tanh, {cell})), cell};
}
FXX_INLINE Parts gru_cell(const Composite& c) {
  const Argument state = c["hx"];
  if (!c.is_tensor(state)) return {};
  const std::int64_t size = c.sizes(state).back();
  const Gates both = gates_of(c, state);
  const auto part = [&](const Argument& of, std::int64_t i) { return c.narrow(of, -1, i * size, size); };
  const auto open = [&](std::int64_t i) { return c(ops::sigmoid, {c.add(part(both.input, i), part(both.state, i))}); };
  const Argument fresh = c(ops::tanh, {c.add(part(both.input, 2), c.mul(open(0), part(both.state, 2)))});
  return {c.add(c.mul(open(1), c.sub(state, fresh)), fresh)};
}
FXX_INLINE Argument simple_cell(const Composite& c) {
  const Gates both = gates_of(c, c["hx"]);
  return c.add(both.input, both.state);
}
FXX_INLINE Parts tanh_cell(const Composite& c) { return {c(ops::tanh, {simple_cell(c)})}; }
FXX_INLINE Parts relu_cell(const Composite& c) { return {c(ops::relu, {simple_cell(c)})}; }

// --- reductions ------------------------------------------------------------------------------------------------------

/// Along the dimension that is named, or of all elements.
FXX_INLINE Parts count_nonzero(const Composite& c) {
  const Argument found = c(ops::ne_Scalar, {c["self"], 0});
  const auto dims = c.integers("dim");
  if (!dims) return {c(ops::sum, {found})};
  return {c(ops::sum_dim_IntList, {found, c.list(*dims)})};
}
FXX_INLINE Argument without_nan(const Composite& c) {
  return c(ops::masked_fill_Scalar, {c["self"], c(ops::isnan, {c["self"]}), 0});
}
FXX_INLINE Parts nansum(const Composite& c) {
  if (!c["dtype"].is_none()) return {};
  return {c(ops::sum_dim_IntList, {without_nan(c), c["dim"], c["keepdim"]})};
}
FXX_INLINE Parts nanmean(const Composite& c) {
  if (!c["dtype"].is_none()) return {};
  const Argument sum = c(ops::sum_dim_IntList, {without_nan(c), c["dim"], c["keepdim"]});
  const Argument numbers = c(ops::logical_not, {c(ops::isnan, {c["self"]})});
  return {c.div(sum, c(ops::sum_dim_IntList, {numbers, c["dim"], c["keepdim"]}))};
}
FXX_INLINE Parts aminmax(const Composite& c) {
  const auto dim = c.integers("dim");
  const Argument dims = c.list(dim ? *dim : std::vector<std::int64_t>());
  return {c(ops::amin, {c["self"], dims, c["keepdim"]}), c(ops::amax, {c["self"], dims, c["keepdim"]})};
}

/// Of a row in order; places of equal elements are not LibTorch's.
FXX_INLINE Argument in_order(const Composite& c, const Argument& x, std::int64_t dim) {
  return c(ops::operator_getitem, {c(ops::sort, {x, dim, false}), 0});
}
FXX_INLINE Parts msort(const Composite& c) { return {in_order(c, c["self"], 0)}; }
FXX_INLINE Parts element(const Composite& c, const Argument& x, std::int64_t dim, std::int64_t at) {
  if (c.flag("keepdim")) return {c.narrow(x, dim, at, 1)};
  return {c(ops::select_int, {x, dim, at})};
}
FXX_INLINE Parts kthvalue(const Composite& c) {
  const Argument x = c["self"];
  const auto k = c.integer("k"), given = c.integer("dim");
  if (!c.is_tensor(x) || !k || !given || c.rank(x) == 0 || c.numel(x) == 0) return {};
  const std::int64_t dim = c.place_of(*given, c.rank(x));
  if (dim < 0) return {};
  return element(c, in_order(c, x, dim), dim, *k - 1);
}
/// The lower of two in the middle; nan where one is, which stands last.
FXX_INLINE Parts median(const Composite& c) {
  Argument x = c["self"];
  if (!c.is_tensor(x) || c.numel(x) == 0) return {};
  std::int64_t dim = 0, size = c.numel(x);
  if (const auto given = c.integer("dim")) {
    dim = c.place_of(*given, c.rank(x));
    if (dim < 0) return {};
    size = c.sizes(x)[static_cast<std::size_t>(dim)];
  } else {
    x = c.reshape(x, {-1});
  }
  const Argument sorted = in_order(c, x, dim);
  const Argument middle = element(c, sorted, dim, (size - 1) / 2)[0];
  if (c.dtype(c["self"]) != Dtype::float32) return {middle};
  const Argument last = element(c, sorted, dim, size - 1)[0];
  return {c(ops::where_self, {c(ops::isnan, {last}), last, middle})};
}

// --- losses ----------------------------------------------------------------------------------------------------------

/// All of them, their mean, or their sum.
FXX_INLINE Parts reduced(const Composite& c, const Argument& losses) {
  const auto reduction = c.integer("reduction");
  if (!reduction) return {};
  return {*reduction == 0 ? losses : *reduction == 1 ? c(ops::mean, {losses}) : c(ops::sum, {losses})};
}
FXX_INLINE Argument distance(const Composite& c) { return c(ops::abs, {c.sub(c["self"], c["target"])}); }
FXX_INLINE Parts mse_loss(const Composite& c) { return reduced(c, c(ops::square, {c.sub(c["self"], c["target"])})); }
FXX_INLINE Parts l1_loss(const Composite& c) { return reduced(c, distance(c)); }
FXX_INLINE Parts smooth_l1_loss(const Composite& c) {
  const Argument z = distance(c);
  const double beta = c["beta"].number();
  if (beta == 0) return reduced(c, z);
  const Argument near = c.times(c(ops::square, {z}), 0.5 / beta), far = c(ops::sub_Scalar, {z, 0.5 * beta});
  return reduced(c, c(ops::where_self, {c(ops::lt_Scalar, {z, beta}), near, far}));
}
FXX_INLINE Parts huber_loss(const Composite& c) {
  const Argument z = distance(c);
  const double delta = c["delta"].number();
  const Argument near = c.times(c(ops::square, {z}), 0.5);
  const Argument far = c.times(c(ops::sub_Scalar, {z, 0.5 * delta}), delta);
  return reduced(c, c(ops::where_self, {c(ops::le_Scalar, {z, delta}), near, far}));
}
FXX_INLINE Parts weighted(const Composite& c, const Argument& losses) {
  return reduced(c, c["weight"].is_none() ? losses : c.mul(losses, c["weight"]));
}
/// LibTorch refuses values outside of 0 to 1; its own decomposition computes with them, as this one.
FXX_INLINE Parts binary_cross_entropy(const Composite& c) {
  const Argument x = c["self"], target = c["target"];
  const auto bounded = [&](const Argument& log) { return c(ops::clamp_min, {log, -100}); };
  const Argument wrong = c.mul(c(ops::sub_Scalar, {target, 1}), bounded(c(ops::log1p, {c(ops::neg, {x})})));
  return weighted(c, c.sub(wrong, c.mul(target, bounded(c(ops::log, {x})))));
}
FXX_INLINE Parts binary_cross_entropy_with_logits(const Composite& c) {
  const Argument x = c["self"], target = c["target"];
  Argument log = c(ops::log_sigmoid, {x});
  if (!c["pos_weight"].is_none()) {
    const Argument more = c(ops::sub_Scalar, {c["pos_weight"], 1});
    log = c.mul(c(ops::add_Scalar, {c.mul(more, target), 1}), log);
  }
  return weighted(c, c.sub(c.mul(c(ops::rsub_Scalar, {target, 1}), x), log));
}
FXX_INLINE Parts kl_div(const Composite& c) {
  const Argument x = c["self"], target = c["target"];
  if (c.flag("log_target")) return reduced(c, c.mul(c(ops::exp, {target}), c.sub(target, x)));
  return reduced(c, c.sub(c(ops::xlogy_Tensor, {target, target}), c.mul(target, x)));
}
/// Of logarithms, classes along dimension 1.
FXX_INLINE Parts negative_log(const Composite& c, const Argument& log, const Argument& x) {
  const Argument target = c["target"];
  const auto ignored = c.integer("ignore_index"), reduction = c.integer("reduction");
  if (!c["weight"].is_none() || !c.is_tensor(target) || !ignored || !reduction || c.dtype(target) != Dtype::int64 ||
      c.rank(x) < 2 || c.rank(target) != c.rank(x) - 1)
    return {};
  const Argument counts = c(ops::ne_Scalar, {target, *ignored});
  const Argument place = c.unsqueeze(c(ops::where_ScalarOther, {counts, target, 0}), 1);
  const Argument own = c(ops::neg, {c(ops::squeeze_dim, {c(ops::gather, {log, 1, place}), 1})});
  const Argument losses = c(ops::where_ScalarOther, {counts, own, 0});
  if (*reduction == 0) return {losses};
  const Argument sum = c(ops::sum, {losses});
  return {*reduction == 2 ? sum : c.div(sum, c(ops::sum, {counts}))};
}
FXX_INLINE Parts nll_loss(const Composite& c) {
  if (!c.is_tensor(c["self"])) return {};
  return negative_log(c, c["self"], c["self"]);
}
FXX_INLINE Parts cross_entropy_loss(const Composite& c) {
  const Argument x = c["self"];
  if (!c.is_tensor(x) || !c.is_number(c["label_smoothing"], 0)) return {};
  return negative_log(c, c(ops::log_softmax_int, {x, 1}), x);
}

/// The halves of the dimension, the first times the sigmoid of the second.
FXX_INLINE Parts glu(const Composite& c) {
  const Argument x = c["self"];
  const auto given = c.integer("dim");
  if (!c.is_tensor(x) || !given) return {};
  const std::int64_t dim = c.place_of(*given, c.rank(x));
  if (dim < 0) return {};
  const std::int64_t half = c.sizes(x)[static_cast<std::size_t>(dim)] / 2;
  return {c.mul(c.narrow(x, dim, 0, half), c(ops::sigmoid, {c.narrow(x, dim, half, half)}))};
}

inline constexpr NamedDecomposition all[] = {
    {"aten::glu", glu},
    {"aten::prelu", prelu},
    {"aten::instance_norm", instance_norm},
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_group_norm", group_norm},
    {"aten::batch_norm", inferring_batch_norm},
    {"aten::native_batch_norm", batch_norm},
    {"aten::max_pool2d_with_indices", max_pool},
    {"aten::lstm_cell", lstm_cell},
    {"aten::gru_cell", gru_cell},
    {"aten::rnn_tanh_cell", tanh_cell},
    {"aten::rnn_relu_cell", relu_cell},
    {"aten::count_nonzero", count_nonzero},
    {"aten::count_nonzero.dim_IntList", count_nonzero},
    {"aten::nansum", nansum},
    {"aten::nanmean", nanmean},
    {"aten::aminmax", aminmax},
    {"aten::msort", msort},
    {"aten::kthvalue", kthvalue},
    {"aten::median", median},
    {"aten::median.dim", median},
    {"aten::mse_loss", mse_loss},
    {"aten::l1_loss", l1_loss},
    {"aten::smooth_l1_loss", smooth_l1_loss},
    {"aten::huber_loss", huber_loss},
    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"aten::kl_div", kl_div},
    {"aten::nll_loss", nll_loss},
    {"aten::nll_loss_nd", nll_loss},
    {"aten::nll_loss2d", nll_loss},
    {"aten::cross_entropy_loss", cross_entropy_loss},
};
}  // namespace networks

}  // namespace fxx::inline FXX_ABI::detail
