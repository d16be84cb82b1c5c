// The shipped rules of convolutions and their like, checked by running.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_convolution.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;

namespace {
/// Of numbers from 0.25 to 2.25 and their negatives; in the order of memory, or transposed.
at::Tensor random_tensor(const std::vector<std::int64_t>& shape, VerifyRandom& random, at::ScalarType dtype) {
  at::Tensor t = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data_ptr<double>()[i] = (0.25 + 2 * random.real()) * (random.chance(50) ? 1 : -1);
  t = t.to(dtype);
  return t.dim() > 1 && random.chance(30) ? t.transpose(-1, -2).contiguous().transpose(-1, -2) : t;
}
/// LibTorch's own convolutions as long as it lives. Those of oneDNN end the program on processors with AVX512_FP16: of
/// float16 with groups, channels last and padding, such as 5 groups of [5, 5, 2, 3, 1] by [25, 1, 1, 1, 2] padded by 1, in
/// brgemm_convolution_fwd_t<avx10_1_512>::perform_outwork (LibTorch 2.13).
class WithoutOneDnn {
 public:
  WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(false); }
  ~WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(before_); }

 private:
  bool before_ = at::globalContext().userEnabledMkldnn();
};
/// Convolutions of one value that mostly have the same windows.
VerifyInputs branches(std::size_t dimensions) {
  struct Chosen {
    at::ScalarType dtype = at::kFloat;
    std::int64_t channels = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
    bool biased = false;
  };
  return
      [dimensions, c = Chosen{}](std::string_view capture, VerifyRandom& random) mutable -> std::optional<c10::IValue> {
        if (capture == "x") {
          c = {random.pick({at::kFloat, at::kDouble, at::kHalf}),
               random.pick<std::int64_t>({1, 2, 3}),
               random.pick<std::int64_t>({1, 1, 2}),
               random.pick<std::int64_t>({1, 2}),
               random.pick<std::int64_t>({0, 1}),
               random.pick<std::int64_t>({1, 2}),
               random.chance(60)};
          std::vector<std::int64_t> shape(dimensions, 4);
          shape.insert(shape.begin(), c.channels);
          if (random.chance(80)) shape.insert(shape.begin(), random.pick<std::int64_t>({1, 2}));
          return random_tensor(shape, random, c.dtype);
        }
        if (random.chance(5)) return std::nullopt;
        if (capture == "weight") {
          std::vector<std::int64_t> shape(dimensions, c.kernel);
          shape.insert(shape.begin(), {2, c.channels});
          return random_tensor(shape, random, c.dtype);
        }
        if (capture == "bias") return c.biased ? c10::IValue(random_tensor({2}, random, c.dtype)) : c10::IValue();
        const std::int64_t size = capture == "stride" ? c.stride : capture == "padding" ? c.padding : c.dilation;
        if (random.chance(50)) return c10::IValue(size);
        return c10::IValue(std::vector<std::int64_t>(dimensions, size));
      };
}
/// Values, and factors of one number a channel that are finite and not 0: for a rule whose law says nothing of others.
VerifyInputs moderate_factors() {
  return [size = std::int64_t{1}, rank = std::size_t{2}, dtype = at::kFloat](
             std::string_view capture, VerifyRandom& random) mutable -> std::optional<c10::IValue> {
    std::vector<std::int64_t> shape;
    if (capture == "x") {
      size = random.pick<std::int64_t>({1, 2, 3});
      rank = 1 + random.below(5);
      dtype = random.pick({at::kFloat, at::kDouble, at::kDouble, at::kHalf});
      shape.assign(rank, size);
    } else if (capture == "factor") {
      shape.assign(1 + random.below(rank), 1);
      shape[random.below(shape.size())] = random.chance(80) ? size : 1;
    } else {
      return std::nullopt;
    }
    return random_tensor(shape, random, dtype);
  };
}
}  // namespace

TEST_CASE("merged convolutions hold") {
  const WithoutOneDnn guard;
  VerifyOptions options = {.gradients = true, .cases = 100};
  options.inputs["merge convolutions, 1d"] = branches(1);
  options.inputs["merge convolutions, 2d"] = options.inputs["merge convolutions of one pixel"] = branches(2);
  options.inputs["merge convolutions, 3d"] = branches(3);
  all_hold("merge_convolution", rules::merge_convolution, options);
}

TEST_CASE("what folds into weights, dropout and identity hold where numbers do not overflow") {
  const WithoutOneDnn guard;
  VerifyOptions options = {.gradients = true, .cases = 80};  // folds run the longest
  options.inputs["fold scale before"] = moderate_factors();
  all_hold("inference", rules::inference, options);
}
