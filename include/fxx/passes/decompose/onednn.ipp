// oneDNN's layers with what follows them (ops/onednn.hpp), as the layer and the operators behind it: who makes kernels
// joins these itself.
#pragma once

#include "fxx/ops/onednn.hpp"
#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace onednn {

/// An activation by oneDNN's name; nothing for names that are not known here, and numbers that are missing.
FXX_INLINE Parts activated(const Composite& c, Argument layer, const Argument& name, const Argument& scalars,
                           const Argument& algorithm) {
  static constexpr struct {
    std::string_view name;
    OperatorIndex of;
    std::size_t numbers;
  } known[] = {{"relu", OperatorIndex::relu, 0},
               {"sigmoid", OperatorIndex::sigmoid, 0},
               {"tanh", OperatorIndex::tanh, 0},
               {"hardswish", OperatorIndex::hardswish, 0},
               {"hardsigmoid", OperatorIndex::hardsigmoid, 0},
               {"swish", OperatorIndex::silu, 0},
               {"leaky_relu", OperatorIndex::leaky_relu, 1},
               {"hardtanh", OperatorIndex::hardtanh, 2}};
  if (name.is_none()) return {layer};
  if (name.kind() != Argument::Kind::string) return {};
  if (name.string() == "none") return {layer};
  if (name.string() == "gelu") {
    if (algorithm.kind() != Argument::Kind::string) return {};
    return {c(ops::gelu, {std::move(layer)}, {{"approximate", algorithm}})};
  }
  for (const auto& one : known) {
    if (one.name != name.string()) continue;
    std::vector<Argument> arguments{std::move(layer)};
    if (one.numbers > 0) {
      if (!scalars.is_sequence() || scalars.items().size() != one.numbers) return {};
      for (const Argument& number : scalars.items()) {
        if (!number.is_number()) return {};
        arguments.push_back(number);
      }
    }
    return {c(table_operator(one.of), std::move(arguments))};
  }
  return {};
}
/// The other value joined; nothing for what is not known here.
FXX_INLINE Argument joined(const Composite& c, Argument layer, const Argument& name) {
  if (name.kind() != Argument::Kind::string) return {};
  const Argument other = c["other"];
  if (name.string() == "add") return c.add(std::move(layer), other);
  if (name.string() == "sub") return c.sub(std::move(layer), other);
  if (name.string() == "mul") return c.mul(std::move(layer), other);
  if (name.string() == "div") return c.div(std::move(layer), other);
  return {};
}

/// None where the weight has no window of one, two or three dimensions.
FXX_INLINE Argument convolution_of(const Composite& c) {
  if (!c.is_tensor(c["W"]) || c.rank(c["W"]) < 3 || c.rank(c["W"]) > 5) return {};
  static constexpr OperatorIndex of[] = {OperatorIndex::conv1d, OperatorIndex::conv2d, OperatorIndex::conv3d};
  return c(table_operator(of[c.rank(c["W"]) - 3]),
           {c["X"], c["W"], c["B"], c["stride"], c["padding"], c["dilation"], c["groups"]});
}
FXX_INLINE Argument linear_of(const Composite& c) { return c(ops::linear, {c["X"], c["W"], c["B"]}); }

FXX_INLINE Parts convolution(const Composite& c) {
  const Argument layer = convolution_of(c);
  if (layer.is_none()) return {};
  return activated(c, layer, c["attr"], c["scalars"], c["algorithm"]);
}
FXX_INLINE Parts convolution_binary(const Composite& c) {
  const Argument layer = convolution_of(c);
  if (layer.is_none() || (!c["alpha"].is_none() && !c.is_number(c["alpha"], 1))) return {};
  const Argument sum = joined(c, layer, c["binary_attr"]);
  if (sum.is_none()) return {};
  return activated(c, sum, c["unary_attr"], c["unary_scalars"], c["unary_algorithm"]);
}
FXX_INLINE Parts convolution_transpose(const Composite& c) {
  if (!c.is_tensor(c["W"]) || c.rank(c["W"]) < 3 || c.rank(c["W"]) > 5) return {};
  static constexpr OperatorIndex of[] = {OperatorIndex::conv_transpose1d, OperatorIndex::conv_transpose2d_input,
                                         OperatorIndex::conv_transpose3d_input};
  const Argument layer = c(table_operator(of[c.rank(c["W"]) - 3]),
                           {c["X"], c["W"], c["B"], c["stride"], c["padding"], c["output_padding"], c["groups"],
                            c["dilation"]});
  return activated(c, layer, c["attr"], c["scalars"], c["algorithm"]);
}
FXX_INLINE Parts linear(const Composite& c) {
  return activated(c, linear_of(c), c["attr"], c["scalars"], c["algorithm"]);
}
FXX_INLINE Parts linear_binary(const Composite& c) {
  const Argument sum = joined(c, linear_of(c), c["attr"]);
  if (sum.is_none()) return {};
  return {sum};
}

inline constexpr NamedDecomposition all[] = {
    {"mkldnn::_convolution_pointwise", convolution},
    {"mkldnn::_convolution_pointwise.binary", convolution_binary},
    {"mkldnn::_convolution_transpose_pointwise", convolution_transpose},
    {"mkldnn::_linear_pointwise", linear},
    {"mkldnn::_linear_pointwise.binary", linear_binary},
};

}  // namespace onednn

}  // namespace fxx::inline FXX_ABI::detail
