// Bodies of rules/onednn.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "fxx/ops/onednn.hpp"
#include "fxx/rules/onednn.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace onednn_rules {

/// What is known of a value that oneDNN may be given; null for all else.
FXX_INLINE const TensorMeta* taken(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  const bool fits = meta && meta->dtype == Dtype::float32 && meta->device.type == DeviceType::cpu && meta->numel() > 0;
  return fits ? meta : nullptr;
}

/// Known to have the strides of its sizes, to the number: of a size of one these say which memory format LibTorch takes
/// the value for.
FXX_INLINE bool is_contiguous(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  if (!meta || meta->stride.size() != meta->shape.size()) return false;
  std::int64_t step = 1;
  for (std::size_t i = meta->shape.size(); i-- > 0; step *= meta->shape[i])
    if (meta->stride[i] != step) return false;
  return true;
}
/// Then the result lies in order, whether oneDNN computes all of it or a part.
FXX_INLINE bool all_contiguous(const Match& m, bool of_two) {
  return is_contiguous(m[x]) && is_contiguous(m[weight]) && (!of_two || is_contiguous(m[other]));
}

/// A layer over `x` of so many output channels, with what is known of its result.
FXX_INLINE bool layer_fits(const Match& m, std::int64_t channels) {
  const TensorMeta *value = taken(m[x]), *kernel = taken(m[weight]), *result = taken(m.root());
  if (!value || !kernel || !result || value->dim() < 2 || result->dim() != value->dim()) return false;
  if (!m[bias].is_none() && (!taken(m[bias]) || is_other_than_vector(m[bias], channels))) return false;
  return true;
}
/// The other value is as large as the result and not the layer's own, and layouts are free in all that follows where
/// they may change.
FXX_INLINE bool rest_fits(const Match& m, bool of_two) {
  if (of_two) {
    const TensorMeta* second = taken(m[other]);
    if (!second || second->shape != meta_of(m.root())->shape) return false;
    if (std::ranges::find(m.nodes(), m.node(other)) != m.nodes().end()) return false;
  }
  return all_contiguous(m, of_two) || layout_is_free(*m.root());
}

/// One number for each dimension of an image; nothing where they are not known.
FXX_INLINE std::optional<std::vector<std::int64_t>> spread(const Argument& value) {
  constexpr std::size_t dimensions = 2;
  auto numbers = integers_of(value);
  if (!numbers) return {};
  if (numbers->size() == 1) numbers->resize(dimensions, (*numbers)[0]);
  if (numbers->size() != dimensions) return {};
  return numbers;
}
/// Windows of known sizes, of a value that has a batch.
FXX_INLINE bool windows_fit(const Match& m) {
  const TensorMeta *value = meta_of(m[x]), *kernel = meta_of(m[weight]);
  if (value->dim() != kernel->dim() || m[groups].kind() != Argument::Kind::integer) return false;
  return spread(m[stride]) && spread(m[padding]) && spread(m[dilation]);
}

/// Numbers of an activation that oneDNN takes as LibTorch does.
FXX_INLINE bool activation_fits(const Match& m) {
  const std::string name = m[activation].string();
  if (name == "leaky_relu") return std::isfinite(m[slope].number());
  if (name == "hardtanh")
    return std::isfinite(m[low].number()) && std::isfinite(m[high].number()) && m[low].number() <= m[high].number();
  if (name == "gelu") return m[algorithm].kind() == Argument::Kind::string;
  return true;
}

// Which names a rule binds, its builder knows, so what only some rules bind is looked at there.

FXX_INLINE bool convolution_fits(const Match& m) {
  const TensorMeta* kernel = meta_of(m[weight]);
  return kernel && kernel->dim() == 4 && layer_fits(m, kernel->shape[0]) && windows_fit(m);
}

FXX_INLINE bool transposed_fits(const Match& m) {
  const TensorMeta* kernel = meta_of(m[weight]);
  if (!kernel || kernel->dim() != 4 || m[groups].kind() != Argument::Kind::integer) return false;
  if (!layer_fits(m, kernel->shape[1] * m[groups].integer()) || !windows_fit(m)) return false;
  const auto more = spread(m[output_padding]), steps = spread(m[stride]);
  // LibTorch leaves others to kernels of its own.
  return more && std::ranges::equal(*more, *steps, [](std::int64_t a, std::int64_t b) { return a < b; });
}

FXX_INLINE bool linear_fits(const Match& m) {
  const TensorMeta* kernel = meta_of(m[weight]);
  return kernel && kernel->dim() == 2 && layer_fits(m, kernel->shape[0]);
}

FXX_INLINE Argument list_of(const Argument& value) {
  const auto numbers = *spread(value);
  return Argument::list({numbers.begin(), numbers.end()});
}
/// oneDNN reads it as if its elements lay one behind the other.
FXX_INLINE Argument bias_of(const Match& m) {
  if (m[bias].is_none() || is_contiguous(m[bias])) return m[bias];
  return m.call(ops::contiguous, {m[bias]});
}
/// The activation's name, numbers and algorithm, as the operators take them.
FXX_INLINE void add_activation(const Match& m, std::vector<Argument>& args) {
  const Argument name = m[activation];
  std::vector<Argument> numbers;
  if (name.string() == "leaky_relu") numbers = {m[slope].number()};
  if (name.string() == "hardtanh") numbers = {m[low].number(), m[high].number()};
  args.insert(args.end(), {name, Argument::list(std::move(numbers)),
                           name.string() == "gelu" ? m[algorithm] : Argument()});
}
/// The call, whose result lies as it did where that is known.
FXX_INLINE Argument called(const Match& m, const Operator& op, const std::vector<Argument>& args, bool of_two) {
  if (!rest_fits(m, of_two)) return {};
  if (!all_contiguous(m, of_two)) views_become_reshapes(*m.root());
  Node* call = m.call(op, args);
  if (all_contiguous(m, of_two)) call->set_tensor_meta(*m.root()->tensor_meta());
  return call;
}

FXX_INLINE Argument fused_convolution(const Match& m) {
  if (!activation_fits(m)) return {};
  std::vector<Argument> args = {m[x],
                                m[weight],
                                bias_of(m),
                                list_of(m[padding]),
                                list_of(m[stride]),
                                list_of(m[dilation]),
                                m[groups]};
  add_activation(m, args);
  return called(m, ops::onednn_convolution, args, false);
}

FXX_INLINE Argument joined_by_call(const Match& m, const Argument& after) {
  return called(m, ops::onednn_convolution_binary,
                {m[x], m[other], m[weight], bias_of(m), list_of(m[padding]), list_of(m[stride]),
                 list_of(m[dilation]), m[groups], m[joined_by], Argument(), after, Argument::list({}), Argument()},
                true);
}
FXX_INLINE Argument joined_convolution(const Match& m) { return joined_by_call(m, {}); }
FXX_INLINE Argument activated_sum(const Match& m) { return joined_by_call(m, "relu"); }

FXX_INLINE Argument fused_transposed(const Match& m) {
  if (!activation_fits(m)) return {};
  std::vector<Argument> args = {m[x],
                                m[weight],
                                bias_of(m),
                                list_of(m[padding]),
                                list_of(m[output_padding]),
                                list_of(m[stride]),
                                list_of(m[dilation]),
                                m[groups]};
  add_activation(m, args);
  return called(m, ops::onednn_convolution_transpose, args, false);
}

FXX_INLINE Argument fused_linear(const Match& m) {
  if (!activation_fits(m)) return {};
  std::vector<Argument> args = {m[x], m[weight], bias_of(m)};
  add_activation(m, args);
  return called(m, ops::onednn_linear, args, false);
}
FXX_INLINE Argument joined_linear(const Match& m) {
  return called(m, ops::onednn_linear_binary, {m[x], m[other], m[weight], bias_of(m), m[joined_by]}, true);
}

}  // namespace onednn_rules

}  // namespace fxx::inline FXX_ABI::rules
