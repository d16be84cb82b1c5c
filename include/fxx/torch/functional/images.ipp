// Padding, resizing, sampling of torch/functional.hpp.
#pragma once

#include "fxx/torch/functional/lowered.ipp"

namespace fxx::inline FXX_ABI::nn::functional {

FXX_INLINE Proxy pad(const TensorArg& input, const PadFuncOptions& options) {
  const auto& mode = options.mode();
  const char* name = std::holds_alternative<lowered::e::kReflect>(mode)     ? "reflect"
                     : std::holds_alternative<lowered::e::kReplicate>(mode) ? "replicate"
                     : std::holds_alternative<lowered::e::kCircular>(mode)  ? "circular"
                                                                            : "constant";
  if (options.value() != 0) return lowered::f::pad(input, options.pad(), name, options.value());
  return lowered::f::pad(input, options.pad(), name);
}
FXX_INLINE Proxy pixel_shuffle(const TensorArg& input, const PixelShuffleFuncOptions& options) {
  return lowered::f::pixel_shuffle(input, options.upscale_factor());
}
FXX_INLINE Proxy pixel_unshuffle(const TensorArg& input, const PixelUnshuffleFuncOptions& options) {
  return lowered::f::pixel_unshuffle(input, options.downscale_factor());
}
namespace lowered {
FXX_INLINE Proxy record(OperatorIndex index, std::initializer_list<const Operand*> operands) {
  return f::detail::make_tensor(index, operands, false);
}
}  // namespace lowered
FXX_INLINE Proxy interpolate(const TensorArg& input, const InterpolateFuncOptions& options) {
  using lowered::f::IntArg, lowered::f::IntListArg, lowered::f::OptionalRealArg, lowered::f::BoolArg;
  const auto& scales = options.scale_factor();
  if (options.size().has_value() == scales.has_value())
    lowered::refuse("interpolate", "either a size or a scale factor has to be given, and not both; give one of them");
  const std::size_t dims = options.size() ? options.size()->size() : scales->size();
  const auto& mode = options.mode();
  const auto is = [&]<class Mode>(std::type_identity<Mode>) { return std::holds_alternative<Mode>(mode); };
  const bool nearest = is(std::type_identity<lowered::e::kNearest>()),
             exact = is(std::type_identity<lowered::e::kNearestExact>()),
             area = is(std::type_identity<lowered::e::kArea>()), linear = is(std::type_identity<lowered::e::kLinear>()),
             bilinear = is(std::type_identity<lowered::e::kBilinear>()),
             bicubic = is(std::type_identity<lowered::e::kBicubic>()),
             trilinear = is(std::type_identity<lowered::e::kTrilinear>());
  const std::size_t needed = linear ? 1 : bilinear || bicubic ? 2 : trilinear ? 3 : dims;
  if (dims != needed || dims < 1 || dims > 3)
    lowered::refuse("interpolate",
                    "the mode is for another number of dimensions than the size or the scale factors have");
  if (options.antialias() && !bilinear && !bicubic)
    lowered::refuse("interpolate", "only bilinear and bicubic resizing can be anti-aliased; leave antialias out");
  if ((nearest || area) && options.align_corners())
    lowered::refuse("interpolate", "align_corners is for linear and cubic modes only; leave it out");

  // The size of the result, and the scales as the operator takes them: none where the size decides.
  const Proxy x = lowered::proxy_of(input);
  std::vector<ScalarProxy> computed;
  std::vector<IntArg> size;
  std::vector<OptionalRealArg> scale(3, OptionalRealArg(std::nullopt));
  computed.reserve(dims);
  for (std::size_t i = 0; i < dims; ++i) {
    if (options.size()) {
      size.emplace_back((*options.size())[i], std::source_location());
    } else {
      computed.push_back(
          lowered::f::to_int(lowered::f::floor(x.size(static_cast<int>(i) - static_cast<int>(dims)) * (*scales)[i])));
      size.emplace_back(computed.back(), std::source_location());
      if (!options.recompute_scale_factor().value_or(false)) scale[i] = OptionalRealArg((*scales)[i]);
    }
  }
  const TensorArg self(x);
  const IntListArg sizes(size);
  const BoolArg corners(options.align_corners().value_or(false));
  using Op = OperatorIndex;
  using lowered::record;
  if (area)
    return dims == 1   ? record(Op::adaptive_avg_pool1d, {&self, &sizes})
           : dims == 2 ? record(Op::adaptive_avg_pool2d, {&self, &sizes})
                       : record(Op::adaptive_avg_pool3d, {&self, &sizes});
  if (nearest || exact) {
    if (dims == 1)
      return record(exact ? Op::_upsample_nearest_exact1d : Op::upsample_nearest1d, {&self, &sizes, &scale[0]});
    if (dims == 2)
      return record(exact ? Op::_upsample_nearest_exact2d : Op::upsample_nearest2d,
                    {&self, &sizes, &scale[0], &scale[1]});
    return record(exact ? Op::_upsample_nearest_exact3d : Op::upsample_nearest3d,
                  {&self, &sizes, &scale[0], &scale[1], &scale[2]});
  }
  if (linear) return record(Op::upsample_linear1d, {&self, &sizes, &corners, &scale[0]});
  if (trilinear) return record(Op::upsample_trilinear3d, {&self, &sizes, &corners, &scale[0], &scale[1], &scale[2]});
  const OperatorIndex index = options.antialias() ? (bicubic ? Op::_upsample_bicubic2d_aa : Op::_upsample_bilinear2d_aa)
                                                  : (bicubic ? Op::upsample_bicubic2d : Op::upsample_bilinear2d);
  return record(index, {&self, &sizes, &corners, &scale[0], &scale[1]});
}
FXX_INLINE Proxy affine_grid(const TensorArg& theta, const IntListOrOneArg& size, bool align_corners) {
  return lowered::f::affine_grid_generator(theta, size, align_corners);
}
FXX_INLINE Proxy grid_sample(const TensorArg& input, const TensorArg& grid, const GridSampleFuncOptions& options) {
  const int mode = std::holds_alternative<lowered::e::kBilinear>(options.mode())  ? 0
                   : std::holds_alternative<lowered::e::kNearest>(options.mode()) ? 1
                                                                                  : 2;
  const int padding = std::holds_alternative<lowered::e::kZeros>(options.padding_mode())    ? 0
                      : std::holds_alternative<lowered::e::kBorder>(options.padding_mode()) ? 1
                                                                                            : 2;
  return lowered::f::grid_sampler(input, grid, mode, padding, options.align_corners().value_or(false));
}

}  // namespace fxx::inline FXX_ABI::nn::functional
