// Convolutions and pooling: of one image as of a batch of one; of volumes as of images.
//
// A volume's convolution is one of images whose channels are those of all the depths that it reads. Pooling goes along
// the height and width first, then along the depth: the largest of the largest, and the mean of means of as many, are
// the same.
#pragma once

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace images {

using Sizes = std::vector<std::int64_t>;
/// Which dimensions of a volume those of an image are.
struct Sides {
  int height, width;
};

/// The call's arguments with another input.
FXX_INLINE std::vector<Argument> with_input(const Composite& c, Argument input) {
  std::vector<Argument> arguments{std::move(input)};
  for (int i = 1; i < static_cast<int>(c.op().parameters.size()); ++i) arguments.push_back(c[i]);
  return arguments;
}
/// An image or a sequence without a batch, with one of one.
template <std::int64_t Rank>
Parts alone(const Composite& c) {
  if (!c.is_tensor(c[0]) || c.rank(c[0]) != Rank) return {};
  const Argument result = c(c.op(), with_input(c, c.unsqueeze(c[0], 0)));
  const auto without = [&](Argument batched) { return c(ops::squeeze_dim, {std::move(batched), 0}); };
  if (c.op().returns.size() == 1) return {without(result)};
  Parts parts;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(c.op().returns.size()); ++i)
    parts.push_back(without(c(ops::operator_getitem, {result, i})));
  return parts;
}

// --- volumes ---------------------------------------------------------------------------------------------------------

/// A number for each dimension of a volume: one stands for all; nothing where there are others.
FXX_INLINE std::optional<Sizes> three(const Composite& c, std::string_view name) {
  auto given = c.integers(name);
  if (given && given->size() == 1) given->resize(3, (*given)[0]);
  if (!given || given->size() != 3) return {};
  return given;
}
/// Channels last, as kernels of images want them, so that no copy is between these and those.
FXX_INLINE Argument last(const Composite& c, Argument x) { return c.permute(std::move(x), {0, 2, 3, 4, 1}); }
/// [images, height, width, channels] in memory as an image of such sizes.
FXX_INLINE Argument image(const Composite& c, Argument rows, const Sizes& sizes) {
  return c.permute(c.reshape(std::move(rows), sizes), {0, 3, 1, 2});
}
FXX_INLINE Argument rows_of(const Composite& c, Argument images) { return c.permute(std::move(images), {0, 2, 3, 1}); }
/// The rows of all depths as volumes again, of these sizes.
FXX_INLINE Argument volumes(const Composite& c, Argument rows, const Sizes& of) {
  return c.permute(c.reshape(std::move(rows), {of[0], of[2], of[3], of[4], of[1]}), {0, 4, 1, 2, 3});
}
FXX_INLINE Argument last_two(const Sizes& of) { return Composite::list({of[1], of[2]}); }
/// Sizes of the call's result; null where they are not known, as of what LibTorch refuses.
FXX_INLINE const Sizes* result_sizes(const Composite& c) {
  const TensorMeta* meta = c.node().tensor_meta();
  return meta && !meta->is_dynamic() ? &meta->shape : nullptr;
}

FXX_INLINE Parts convolution(const Composite& c) {
  const Argument x = c["input"], weight = c["weight"];
  const auto stride = three(c, "stride"), dilation = three(c, "dilation");
  const auto groups = c.integer("groups");
  const Sizes* out = result_sizes(c);
  if (!c.is_tensor(x) || c.rank(x) != 5 || !c.is_tensor(weight) || c.numel(x) == 0 || !stride || !dilation || !groups ||
      !out)
    return {};
  const Sizes &in = c.sizes(x), &kernel = c.sizes(weight);
  const std::int64_t taps = kernel[2], reach = (*dilation)[0] * (taps - 1);
  Argument padding = c["padding"];
  std::int64_t front = 0, back = 0;
  const bool named = padding.kind() == Argument::Kind::string;
  if (named) {
    if (padding.string() == "same") back = reach - (front = reach / 2);
    else if (padding.string() != "valid") return {};
  } else {
    const auto numbers = three(c, "padding");
    if (!numbers) return {};
    front = back = (*numbers)[0];
    padding = last_two(*numbers);
  }
  const std::int64_t room = in[2] + front + back - reach - 1;
  if (room < 0) return {};
  const std::int64_t depth = room / (*stride)[0] + 1, of_group = in[1] / *groups;

  Argument padded = last(c, x);
  if (front > 0 || back > 0) padded = c(ops::constant_pad_nd, {padded, c.list({0, 0, 0, 0, 0, 0, front, back}), 0});
  std::vector<Argument> read;  // channels: [groups, taps, channels of a group]
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t first = tap * (*dilation)[0];
    const std::int64_t end = first + (depth - 1) * (*stride)[0] + 1;
    const Argument part = c(ops::slice_Tensor, {padded, 1, first, end, (*stride)[0]});
    read.push_back(*groups == 1 ? part : c.reshape(part, {in[0], depth, in[3], in[4], *groups, 1, of_group}));
  }
  const Argument all = taps == 1 ? read[0] : c(ops::cat, {Argument::list(std::move(read)), *groups == 1 ? 4 : 5});
  const Argument images = image(c, all, {in[0] * depth, in[3], in[4], taps * in[1]});
  const Argument flat =
      c.reshape(c.permute(weight, {0, 2, 1, 3, 4}), {kernel[0], taps * of_group, kernel[3], kernel[4]});
  const Argument result = c(named ? ops::conv2d_padding.info() : ops::conv2d.info(),
                            {images, flat, c["bias"], last_two(*stride), padding, last_two(*dilation), *groups});
  return {volumes(c, rows_of(c, result), *out)};
}
/// Whose depths do not meet: each depth of the input makes as many as the kernel has.
FXX_INLINE Parts transposed_convolution(const Composite& c) {
  const Argument x = c["input"], weight = c["weight"];
  const auto stride = three(c, "stride"), padding = three(c, "padding"), more = three(c, "output_padding"),
             dilation = three(c, "dilation");
  const auto groups = c.integer("groups");
  if (!c.is_tensor(x) || c.rank(x) != 5 || !c.is_tensor(weight) || c.numel(x) == 0 || !stride || !padding || !more ||
      !dilation || groups != 1 || !result_sizes(c))
    return {};
  const Sizes &in = c.sizes(x), &kernel = c.sizes(weight);
  const std::int64_t taps = kernel[2], made = kernel[1];
  if (taps != (*stride)[0] || (*padding)[0] != 0 || (*more)[0] != 0 || ((*dilation)[0] != 1 && taps != 1)) return {};
  const Argument images = image(c, last(c, x), {in[0] * in[2], in[3], in[4], in[1]});
  const Argument flat = c.reshape(c.permute(weight, {0, 2, 1, 3, 4}), {in[1], taps * made, kernel[3], kernel[4]});
  const Argument bias = c["bias"].is_none() ? c["bias"] : c(ops::repeat, {c["bias"], c.list({taps})});
  const Argument result = c(ops::conv_transpose2d_input, {images, flat, bias, last_two(*stride), last_two(*padding),
                                                          last_two(*more), 1, last_two(*dilation)});
  const Sizes& out = *result_sizes(c);
  const Argument apart = c.reshape(result, {in[0] * in[2], taps, made, out[3], out[4]});
  return {volumes(c, c.permute(apart, {0, 1, 3, 4, 2}), out)};
}

/// Sizes of the first result; nothing where nobody takes it.
FXX_INLINE std::optional<Sizes> first_sizes(const Composite& c) {
  if (c.op().returns.size() == 1) {
    const Sizes* sizes = result_sizes(c);
    return sizes ? std::optional<Sizes>(*sizes) : std::nullopt;
  }
  for (const Node* user : c.node().users())
    if (item_taken(*user) == 0 && user->tensor_meta() && !user->tensor_meta()->is_dynamic())
      return user->tensor_meta()->shape;
  return {};
}
/// Along height and width, then along the depth, which is the height of images then: `along(x, sides)` is the call for
/// images of which these are the dimensions, of the three of the volume; -1 is one that stays as it is.
template <typename Along>
Parts apart(const Composite& c, const Along& along) {
  const Argument x = c[0];
  const std::optional<Sizes> out = first_sizes(c);
  if (!c.is_tensor(x) || c.rank(x) != 5 || c.numel(x) == 0 || !out || out->size() != 5) return {};
  const Sizes& in = c.sizes(x);
  const std::int64_t pixels = (*out)[3] * (*out)[4];
  const Argument flat = along(image(c, last(c, x), {in[0] * in[2], in[3], in[4], in[1]}), Sides{1, 2},
                              Sizes{(*out)[3], (*out)[4]});
  const Argument deep = along(image(c, rows_of(c, flat), {in[0], in[2], pixels, in[1]}), Sides{0, -1},
                              Sizes{(*out)[2], pixels});
  return {volumes(c, rows_of(c, deep), *out)};
}
/// The numbers for these dimensions; `otherwise` for one that stays as it is.
FXX_INLINE Argument picked(const Sizes& of, Sides sides, std::int64_t otherwise) {
  const auto pick = [&](int side) { return side < 0 ? otherwise : of[static_cast<std::size_t>(side)]; };
  return Composite::list({pick(sides.height), pick(sides.width)});
}

FXX_INLINE Parts max_pool(const Composite& c) {
  const auto kernel = three(c, "kernel_size"), padding = three(c, "padding"), dilation = three(c, "dilation");
  const auto stride = three(c, c.integers("stride").value_or(Sizes()).empty() ? "kernel_size" : "stride");
  if (!kernel || !stride || !padding || !dilation) return {};
  return apart(c, [&](Argument x, Sides sides, const Sizes&) {
    return c(ops::max_pool2d, {std::move(x), picked(*kernel, sides, 1), picked(*stride, sides, 1),
                               picked(*padding, sides, 0), picked(*dilation, sides, 1), c["ceil_mode"]});
  });
}
FXX_INLINE Parts average_pool(const Composite& c) {
  const auto kernel = three(c, "kernel_size"), padding = three(c, "padding");
  const auto stride = three(c, c.integers("stride").value_or(Sizes()).empty() ? "kernel_size" : "stride");
  if (!kernel || !stride || !padding) return {};
  const Argument divisor = c["divisor_override"];
  return apart(c, [&](Argument x, Sides sides, const Sizes&) {
    // Of sums the last is divided.
    const Argument divided = divisor.is_none() || sides.height == 0 ? divisor : Argument(1);
    return c(ops::avg_pool2d, {std::move(x), picked(*kernel, sides, 1), picked(*stride, sides, 1),
                               picked(*padding, sides, 0), c["ceil_mode"], c["count_include_pad"], divided});
  });
}
FXX_INLINE Parts adaptive_average_pool(const Composite& c) {
  return apart(c, [&](Argument x, Sides, const Sizes& to) {
    return c(ops::adaptive_avg_pool2d, {std::move(x), c.list(to)});
  });
}
FXX_INLINE Parts adaptive_max_pool(const Composite& c) {
  return apart(c, [&](Argument x, Sides, const Sizes& to) {
    return c(ops::operator_getitem, {c(ops::adaptive_max_pool2d, {std::move(x), c.list(to)}), 0});
  });
}

/// The factor that was given for a dimension; None where the sizes say it.
FXX_INLINE Argument factor(const Composite& c, int side) {
  if (side < 0) return {};
  static constexpr std::string_view names[] = {"scales_d", "scales_h", "scales_w"};
  if (c.op().index_of("scale_factors") < 0) return c[names[side]];
  const Argument given = c["scale_factors"];
  return given.is_sequence() && given.items().size() == 3 ? given.items()[static_cast<std::size_t>(side)] : Argument();
}
FXX_INLINE Parts nearest(const Composite& c) {
  return apart(c, [&](Argument x, Sides sides, const Sizes& to) {
    return c(ops::upsample_nearest2d, {std::move(x), c.list(to), factor(c, sides.height), factor(c, sides.width)});
  });
}
FXX_INLINE Parts trilinear(const Composite& c) {
  return apart(c, [&](Argument x, Sides sides, const Sizes& to) {
    return c(ops::upsample_bilinear2d,
             {std::move(x), c.list(to), c["align_corners"], factor(c, sides.height), factor(c, sides.width)});
  });
}

/// Of a volume; of one without a batch as of a batch of one, which is taken apart after it.
template <Decomposition Of>
Parts volume(const Composite& c) {
  return c.is_tensor(c[0]) && c.rank(c[0]) == 4 ? alone<4>(c) : Of(c);
}

inline constexpr NamedDecomposition all[] = {
    {"aten::conv1d", alone<2>},
    {"aten::conv1d.padding", alone<2>},
    {"aten::conv2d", alone<3>},
    {"aten::conv2d.padding", alone<3>},
    {"aten::conv_transpose1d", alone<2>},
    {"aten::conv_transpose2d.input", alone<3>},
    {"aten::max_pool1d", alone<2>},
    {"aten::max_pool2d", alone<3>},
    {"aten::avg_pool1d", alone<2>},
    {"aten::avg_pool2d", alone<3>},
    {"aten::adaptive_avg_pool1d", alone<2>},
    {"aten::adaptive_avg_pool2d", alone<3>},
    {"aten::adaptive_max_pool1d", alone<2>},
    {"aten::adaptive_max_pool2d", alone<3>},
    {"aten::conv3d", volume<convolution>},
    {"aten::conv3d.padding", volume<convolution>},
    {"aten::conv_transpose3d.input", volume<transposed_convolution>},
    {"aten::max_pool3d", volume<max_pool>},
    {"aten::max_pool3d_with_indices", volume<max_pool>},
    {"aten::avg_pool3d", volume<average_pool>},
    {"aten::adaptive_avg_pool3d", volume<adaptive_average_pool>},
    {"aten::adaptive_max_pool3d", volume<adaptive_max_pool>},
    {"aten::upsample_nearest3d", nearest},
    {"aten::upsample_nearest3d.vec", nearest},
    {"aten::upsample_trilinear3d", trilinear},
    {"aten::upsample_trilinear3d.vec", trilinear},
};
}  // namespace images

}  // namespace fxx::inline FXX_ABI::detail
