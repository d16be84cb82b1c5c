// Specialised modules of random graphs: whatever operators meet, results are those of LibTorch in double precision, or
// as near to them as LibTorch's own floats are; in each accuracy, for processors that can do less, with nan and
// infinities.
//
// One long file: each that includes LibTorch takes 20 s and 1.3 GB to compile.
//
// A graph is a function of a seed. It reads sizes and dtypes only, so that it is the same function each time it runs.
#include <string_view>

#include "fxx/codegen/processor.hpp"
#include "not_checked.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;
namespace F = torch::nn::functional;

namespace {

using Sizes = std::vector<std::int64_t>;

/// Modules of one kind, made by the first run and found by all later ones.
template <class Holder>
struct Layers {
  std::vector<Holder> made;
  std::size_t next = 0;

  template <class Make>
  Holder take(Net& net, Make&& make) {
    if (next == made.size()) made.push_back(net.module(make()));
    return made[next++];
  }
};

/// Runs the graph of a seed: draws operators and what they are given.
class RandomGraph {
 public:
  RandomGraph(Net& net, std::uint64_t seed) : net_(net), seed_(seed), random_(seed) {}

  /// All values, first those given: integers and booleans come of integers and booleans only, so they have one result.
  Tensors run(const Tensors& given);

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(most - least + 1)));
  }
  bool chance(std::size_t one_in) { return random_.chance(one_in); }
  std::int64_t dim_of(const Tensor& x) { return between(0, x.dim() - 1); }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

  /// A value for which this holds, often the last one; undefined when there is none.
  template <class Fits>
  Tensor value(Fits&& fits) {
    Tensors fitting;
    for (const Tensor& value : values_)
      if (fits(value)) fitting.push_back(value);
    if (fitting.empty()) return {};
    return chance(2) ? fitting.back() : fitting[random_.below(fitting.size())];
  }
  Tensor floats(std::int64_t least_dims = 1) {
    return value([&](const Tensor& t) { return t.is_floating_point() && t.dim() >= least_dims; });
  }
  /// Floats as a tensor of so many dimensions, the first of them joined, or ones put before.
  Tensor floats_of(std::int64_t dims) {
    Tensor x = floats();
    if (x.dim() > dims) x = x.flatten(0, x.dim() - dims);
    while (x.dim() < dims) x = x.unsqueeze(0);
    return x;
  }
  Tensor integers() {
    return value([](const Tensor& t) { return t.scalar_type() == torch::kLong || t.scalar_type() == torch::kInt; });
  }
  Tensor booleans() {
    return value([](const Tensor& t) { return t.scalar_type() == torch::kBool; });
  }
  /// What can be broadcast to the sizes of `x`, which itself can.
  Tensor partner(const Tensor& x) {
    return value([&](const Tensor& t) {
      if (t.scalar_type() != x.scalar_type() || t.dim() > x.dim()) return false;
      for (std::int64_t i = 1; i <= t.dim(); ++i)
        if (t.size(-i) != x.size(-i) && t.size(-i) != 1) return false;
      return true;
    });
  }

  /// A parameter, scaled such that products with it are about as large as what they are of.
  Tensor weight(const Sizes& sizes) {
    if (next_weight_ == weights_.size()) {
      double terms = 1;
      for (std::size_t i = 1; i < sizes.size(); ++i) terms *= static_cast<double>(sizes[i]);
      weights_.push_back(net_.parameter(sizes, 1 / std::sqrt(terms)));
    }
    return weights_[next_weight_++];
  }
  torch::nn::LSTM lstm(const torch::nn::LSTMOptions& options) {
    return lstms_.take(net_, [&] { return torch::nn::LSTM(options); });
  }
  torch::nn::GRU gru(const torch::nn::GRUOptions& options) {
    return grus_.take(net_, [&] { return torch::nn::GRU(options); });
  }

 private:
  Net& net_;
  std::uint64_t seed_;
  Random random_;
  Tensors values_, weights_;
  std::size_t next_weight_ = 0;
  Layers<torch::nn::LSTM> lstms_;
  Layers<torch::nn::GRU> grus_;
};

// --- families of operators: each gives what it made, nothing where nothing fits --------------------------------------

Tensors pointwise(RandomGraph& g) {
  const Tensor x = g.floats();
  using Function = Tensor (*)(const Tensor&);
  return {g.one_of<Function>({
      [](const Tensor& t) { return t.relu(); },
      [](const Tensor& t) { return t.sigmoid() + 1; },
      [](const Tensor& t) { return t.tanh() * 2; },
      [](const Tensor& t) { return torch::gelu(t); },
      [](const Tensor& t) { return torch::gelu(t, "tanh"); },
      [](const Tensor& t) { return torch::silu(t); },
      [](const Tensor& t) { return torch::mish(t); },
      [](const Tensor& t) { return torch::elu(t, 0.3); },
      [](const Tensor& t) { return torch::softshrink(t, 0.3); },
      [](const Tensor& t) { return torch::hardswish(t); },
      [](const Tensor& t) { return t.clamp_max(2).exp(); },
      [](const Tensor& t) { return (t.abs() + 0.1).log(); },
      [](const Tensor& t) { return (t * t + 1).rsqrt(); },
      [](const Tensor& t) { return t.sin(); },
      [](const Tensor& t) { return t.erf(); },
      [](const Tensor& t) { return t.atan(); },
      [](const Tensor& t) { return t.tanh().pow(3); },
      [](const Tensor& t) { return t.clamp(-0.5, 1.2); },
      [](const Tensor& t) { return t.masked_fill(t > 0.7, 0.7); },
      [](const Tensor& t) { return t.slice(0, 0, 1).expand_as(t) - t; },
  })(x)};
}
Tensors of_two(RandomGraph& g) {
  const Tensor x = g.floats(), y = g.partner(x);
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  return {g.one_of<Function>({
      [](const Tensor& a, const Tensor& b) { return a + b; },
      [](const Tensor& a, const Tensor& b) { return torch::sub(b, a, 0.7); },
      [](const Tensor& a, const Tensor& b) { return a * b.tanh(); },
      [](const Tensor& a, const Tensor& b) { return a / (b.abs() + 0.5); },
      [](const Tensor& a, const Tensor& b) { return torch::maximum(a, b); },
      [](const Tensor& a, const Tensor& b) { return torch::minimum(b, a); },
      [](const Tensor& a, const Tensor& b) { return torch::where(a > b, a, b); },
      [](const Tensor& a, const Tensor& b) { return torch::hypot(a, b); },
      [](const Tensor& a, const Tensor& b) { return torch::lerp(a, b, 0.3); },
      [](const Tensor& a, const Tensor& b) { return torch::logaddexp(a, b); },
  })(x, y)};
}

Tensor activated(RandomGraph& g, const Tensor& x) {
  switch (g.between(0, 4)) {
    case 0: return x.relu();
    case 1: return torch::silu(x);
    case 2: return torch::gelu(x);
    default: return x;
  }
}
/// Numbers for the dimensions of a window, half the time the same.
Sizes window(RandomGraph& g, std::int64_t dims, std::int64_t least, std::int64_t most) {
  Sizes sizes;
  const bool same = g.chance(2);
  for (std::int64_t d = 0; d < dims; ++d) sizes.push_back(same && d > 0 ? sizes[0] : g.between(least, most));
  return sizes;
}
std::int64_t divisor(RandomGraph& g, std::int64_t number) {
  Sizes divisors;
  for (std::int64_t i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(i);
  return divisors[static_cast<std::size_t>(g.between(0, static_cast<std::int64_t>(divisors.size()) - 1))];
}
/// Whether a window, dilated, lies within the padded sizes behind the first two.
bool window_fits(const Tensor& x, const Sizes& kernel, const Sizes& padding, const Sizes& dilation) {
  for (std::size_t d = 0; d < kernel.size(); ++d)
    if (x.size(static_cast<std::int64_t>(d) + 2) + 2 * padding[d] < dilation[d] * (kernel[d] - 1) + 1) return false;
  return true;
}
Tensors convolution(RandomGraph& g) {
  const std::int64_t dims = g.between(1, 2);
  const Tensor x = g.floats_of(dims + 2);
  const std::int64_t channels = x.size(1);
  const Sizes kernel = window(g, dims, 1, 4), stride = window(g, dims, 1, 2), padding = window(g, dims, 0, 2),
              dilation = window(g, dims, 1, 2);
  const std::int64_t groups = g.chance(2) ? divisor(g, channels) : 1, out = groups * g.between(1, groups > 4 ? 2 : 19);
  if (channels > 40 || !window_fits(x, kernel, padding, dilation)) return {};
  Sizes sizes = {out, channels / groups};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  const Tensor weight = g.weight(sizes), bias = g.chance(2) ? g.weight({out}) : Tensor();
  return {activated(g, dims == 1 ? torch::conv1d(x, weight, bias, stride, padding, dilation, groups)
                                 : torch::conv2d(x, weight, bias, stride, padding, dilation, groups))};
}
Tensors transposed_convolution(RandomGraph& g) {
  const std::int64_t dims = g.between(1, 2);
  const Tensor x = g.floats_of(dims + 2);
  const std::int64_t channels = x.size(1);
  const Sizes kernel = window(g, dims, 2, 4), stride = window(g, dims, 1, 3), padding = window(g, dims, 0, 1),
              dilation = window(g, dims, 1, 2);
  const Sizes more(static_cast<std::size_t>(dims), stride[0] > 1 && stride.back() > 1);
  const std::int64_t groups = g.chance(2) ? divisor(g, channels) : 1, out = g.between(1, 5);
  if (channels > 40 || x.numel() > 3000) return {};
  Sizes sizes = {channels, out};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  const Tensor weight = g.weight(sizes), bias = g.chance(2) ? g.weight({out * groups}) : Tensor();
  for (std::int64_t d = 0; d < dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if ((x.size(d + 2) - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + more[i] < 0) return {};
  }
  return {activated(g, dims == 1 ? torch::conv_transpose1d(x, weight, bias, stride, padding, more, groups, dilation)
                                 : torch::conv_transpose2d(x, weight, bias, stride, padding, more, groups, dilation))};
}

Tensors pooling(RandomGraph& g) {
  const std::int64_t dims = g.between(1, 2);
  const Tensor x = g.floats_of(dims + 2);
  const Sizes kernel = window(g, dims, 1, 4), stride = window(g, dims, 1, 3), dilation = window(g, dims, 1, 2);
  Sizes padding;
  for (const std::int64_t k : kernel) padding.push_back(g.between(0, k / 2));
  const bool ceil = g.chance(2), count_padding = g.chance(2);
  if (!window_fits(x, kernel, padding, dilation)) return {};
  switch (g.between(0, 2)) {
    case 0:
      return {dims == 1 ? torch::max_pool1d(x, kernel, stride, padding, dilation, ceil)
                        : torch::max_pool2d(x, kernel, stride, padding, dilation, ceil)};
    case 1:
      return {dims == 1 ? torch::avg_pool1d(x, kernel, stride, padding, ceil, count_padding)
                        : torch::avg_pool2d(x, kernel, stride, padding, ceil, count_padding)};
    default: {
      const Sizes out = window(g, dims, 1, 5);
      return {dims == 1 ? torch::adaptive_avg_pool1d(x, out) : torch::adaptive_avg_pool2d(x, out)};
    }
  }
}
/// Places of the largest among small whole numbers, where there is no rounding.
Tensors pooling_with_places(RandomGraph& g) {
  const Tensor whole = g.integers();
  const Sizes kernel = window(g, 2, 1, 3), stride = window(g, 2, 1, 2), dilation = window(g, 2, 1, 2);
  const Sizes padding = {kernel[0] / 2, kernel[1] / 2};
  const Tensor x = whole.remainder(100).reshape({1, 1, -1, whole.size(-1)}).to(g.floats().scalar_type());
  if (!window_fits(x, kernel, padding, dilation)) return {};
  const auto [values, places] = torch::max_pool2d_with_indices(x, kernel, stride, padding, dilation, g.chance(2));
  return {values, places};
}

Tensors normalisation(RandomGraph& g) {
  const Tensor x = g.floats(2);
  const std::int64_t channels = x.size(1);
  const bool scaled = g.chance(2);
  const auto parameter = [&](const Sizes& sizes) { return scaled ? g.weight(sizes) : Tensor(); };
  switch (g.between(0, 4)) {
    case 0: {
      const Tensor mean = g.weight({channels}), variance = g.weight({channels}).abs() + 0.5;
      const Tensor factor = parameter({channels}), bias = parameter({channels});
      return {torch::batch_norm(x, factor, bias, mean, variance, false, 0.1, 1e-3, false)};
    }
    case 1: {
      const Sizes sizes = x.sizes().slice(static_cast<std::size_t>(g.dim_of(x))).vec();
      return {torch::layer_norm(x, sizes, parameter(sizes), parameter(sizes), 0.1)};
    }
    case 2: return {torch::group_norm(x, divisor(g, channels), parameter({channels}), parameter({channels}), 0.1)};
    case 3:
      if (x.dim() < 3 || x.numel() == x.size(0) * channels) return {};
      return {torch::instance_norm(x, parameter({channels}), parameter({channels}), {}, {}, true, 0.1, 0.1, false)};
    default: {
      const Tensor factor = parameter({x.size(-1)});
      return {torch::rms_norm(x, {x.size(-1)}, scaled ? std::optional<Tensor>(factor) : std::nullopt, 0.1)};
    }
  }
}
Tensors normalised_along_one(RandomGraph& g) {
  const Tensor x = g.floats();
  const std::int64_t d = g.dim_of(x);
  switch (g.between(0, 2)) {
    case 0: return {x.softmax(d)};
    case 1: return {x.log_softmax(d)};
    default: return {F::normalize(x, F::NormalizeFuncOptions().dim(d).eps(0.1))};
  }
}

Tensors attention(RandomGraph& g) {
  const Tensor x = g.floats_of(g.between(3, 4)), memory = g.chance(2) ? x : x.slice(-2, 0, g.between(1, 9)) * 0.5;
  const std::int64_t width = x.size(-1), size = g.between(1, 24), value_size = g.chance(2) ? size : g.between(1, 24);
  if (x.numel() > 4000) return {};
  const Tensor query = torch::linear(x, g.weight({size, width})), key = torch::linear(memory, g.weight({size, width})),
               value = torch::linear(memory, g.weight({value_size, width}));
  const std::int64_t mask_kind = g.between(0, 3);
  std::optional<Tensor> mask;
  if (mask_kind == 1) mask = g.weight({x.size(-2), memory.size(-2)});
  if (mask_kind == 2) mask = (torch::arange(memory.size(-2)).remainder(3) != 1).unsqueeze(0);
  const std::optional<double> scale = g.chance(2) ? std::optional<double>(0.37) : std::nullopt;
  return {torch::scaled_dot_product_attention(query, key, value, mask, 0, mask_kind == 3, scale)};
}
Tensors recurrent(RandomGraph& g) {
  const Tensor x = g.floats_of(3);
  const std::int64_t width = x.size(2), size = g.between(1, 18), layers = g.between(1, 2);
  const bool both = g.chance(2), batch_first = g.chance(2), bias = !g.chance(4);
  if (x.numel() > 3000 || x.size(batch_first ? 1 : 0) > 20) return {};
  if (g.chance(2)) {
    auto layer = g.lstm(
        torch::nn::LSTMOptions(width, size).num_layers(layers).bidirectional(both).bias(bias).batch_first(batch_first));
    const auto [output, state] = layer->forward(x);
    return {output, std::get<0>(state), std::get<1>(state)};
  }
  auto layer = g.gru(
      torch::nn::GRUOptions(width, size).num_layers(layers).bidirectional(both).bias(bias).batch_first(batch_first));
  const auto [output, state] = layer->forward(x);
  return {output, state};
}

Tensors places(RandomGraph& g) {
  const Tensor x = g.floats(), whole = g.integers();
  const std::int64_t d = g.dim_of(x), size = x.size(d);
  const Tensor flat = whole.flatten().to(torch::kLong), row = flat.remainder(size);
  Sizes one_row(static_cast<std::size_t>(x.dim()), 1);
  one_row[static_cast<std::size_t>(d)] = row.size(0);
  const Tensor along = row.view(one_row);
  switch (g.between(0, 5)) {
    case 0: return {torch::embedding(g.weight({7, g.between(1, 33)}), whole.to(torch::kLong).remainder(7))};
    case 1: return {x.index_select(d, row)};
    case 2: {
      Sizes sizes = x.sizes().vec();
      sizes[static_cast<std::size_t>(d)] = row.size(0);
      return {x.gather(d, along.expand(sizes))};
    }
    case 3: return {x.scatter_add(d, along, along.to(x.scalar_type()) * 0.1)};
    case 4: return {x.index({whole.to(torch::kLong).remainder(x.size(0)) - x.size(0)})};
    default: {
      const Tensor mask = torch::arange(x.size(-1)).remainder(3) == flat.select(0, 0).remainder(3);
      return {torch::where(mask, x, x * 0.5 + 1)};
    }
  }
}

Tensors joined(RandomGraph& g) {
  const Tensor x = g.value([](const Tensor& t) { return t.dim() < 5; });
  const std::int64_t d = g.dim_of(x);
  const Tensor other = g.partner(x).expand_as(x);
  switch (g.between(0, 2)) {
    case 0: return {torch::cat({x, other, x}, d)};
    case 1: return {torch::stack({x, other.flip({d})}, d)};
    default: return {torch::cat({other.slice(d, 0, 1), x}, d)};
  }
}
Tensors rearranged(RandomGraph& g) {
  const Tensor x = g.value([](const Tensor& t) { return t.dim() < 5; });
  const std::int64_t d = g.dim_of(x), e = g.dim_of(x), size = x.size(d);
  switch (g.between(0, 11)) {
    case 0: return {x.transpose(d, e)};
    case 1: {
      const std::int64_t first = g.between(0, size - 1), step = g.between(1, 3);
      return {x.slice(d, first, size, step)};
    }
    case 2: return x.dim() > 1 ? Tensors{x.select(d, g.between(0, size - 1))} : Tensors{};
    case 3: return {x.unsqueeze(d)};
    case 4: return {x.flip({d})};
    case 5: return {torch::roll(x, {2, -1}, {d, e})};
    // A copy, since whether a flattened tensor is a view depends on its strides.
    case 6: return {x.flatten(0, d).clone()};
    case 7: return size > 1 ? x.chunk(2, d) : Tensors{};
    case 8: return {torch::constant_pad_nd(x, {g.between(0, 2), g.between(0, 3)}, 1)};
    case 9: return {torch::repeat_interleave(x, 2, d)};
    case 10: return {x.movedim(0, -1)};
    default: return x.dim() > 1 ? Tensors{torch::tril(x, g.between(-1, 1))} : Tensors{};
  }
}

Tensors reduced(RandomGraph& g) {
  const Tensor x = g.floats();
  const std::int64_t d = g.dim_of(x), e = g.dim_of(x);
  const bool keep = g.chance(2);
  const Sizes dims = d == e ? Sizes{d} : Sizes{d, e};
  switch (g.between(0, 9)) {
    case 0: return {x.sum(dims, keep) * 0.3};
    case 1: return {x.mean(dims, keep)};
    case 2: return {x.amax(dims, keep)};
    case 3: return {x.amin(dims, keep)};
    case 4: return {x.var(at::OptionalIntArrayRef(dims), std::optional<at::Scalar>(0), keep)};
    case 5: return {x.logsumexp(dims, keep)};
    case 6: return {x.cumsum(d) * 0.3};
    case 7: return {x.tanh().prod(d, keep)};
    case 8: return {std::get<0>(x.sort(d, keep))};
    default: return {std::get<0>(x.max(d, keep))};
  }
}
Tensors of_integers(RandomGraph& g) {
  const Tensor x = g.integers(), y = g.partner(x);
  const std::int64_t d = g.dim_of(x);
  switch (g.between(0, 11)) {
    case 0: return {(x + y * 3).remainder(50)};
    case 1: return {torch::div(x - 3, y.abs() + 1, "floor")};
    case 2: return {torch::div(x - 3, y.abs() + 1, "trunc")};
    case 3: return {torch::fmod(x - 7, y.abs() + 2)};
    case 4: return {x ^ y};
    case 5: return {x.sum(d).remainder(40)};
    case 6: return {x.amax({d}, true), x.argmax(d, g.chance(2))};
    case 7: return {x.cumsum(d).remainder(30)};
    case 8: return {x > 2, x == y};
    case 9: return {x.to(g.chance(2) ? torch::kInt : torch::kLong).clamp(-2, 5)};
    case 10: return {x.remainder(9).to(g.floats().scalar_type()) * 0.1};
    default: return {torch::minimum(x, y)};
  }
}
Tensors of_booleans(RandomGraph& g) {
  const Tensor x = g.booleans(), y = g.partner(x);
  const std::int64_t d = g.dim_of(x);
  switch (g.between(0, 6)) {
    case 0: return {x & y};
    case 1: return {torch::logical_xor(x, y)};
    case 2: return {~x};
    case 3: return {x.any(d, g.chance(2))};
    case 4: return {x.all(d, g.chance(2))};
    case 5: return {x.sum(d)};
    default: return {torch::where(x, 2, -1)};
  }
}

Tensors product(RandomGraph& g) {
  const Tensor x = g.floats();
  const std::int64_t width = x.size(-1), out = g.between(1, 40);
  if (x.numel() > 6000) return {};
  switch (g.between(0, 5)) {
    case 0: {
      const Tensor weight = g.weight({out, width}), bias = g.chance(2) ? g.weight({out}) : Tensor();
      return {activated(g, torch::linear(x, weight, bias))};
    }
    case 1: return {x.matmul(g.weight({out, width}).t())};
    case 2: return {x.dim() > 1 ? g.weight({out, x.size(-2)}).matmul(x) : g.weight({out, width}).matmul(x)};
    case 3: return x.dim() > 1 ? Tensors{x.matmul(x.transpose(-1, -2)) * 0.1} : Tensors{};
    case 4: {
      const Tensor batch = g.floats_of(3);
      return {torch::bmm(batch.transpose(1, 2), batch.tanh()) * 0.2};
    }
    default: {
      const Tensor rows = g.floats_of(2).slice(0, 0, g.between(1, 40));
      return {torch::addmm(g.weight({out}), rows, g.weight({out, rows.size(1)}).t(), 0.5, 0.7)};
    }
  }
}
Tensors interpolated(RandomGraph& g) {
  const std::int64_t dims = g.between(1, 2);
  const Tensor x = g.floats_of(dims + 2);
  if (x.numel() > 3000) return {};
  Sizes out;
  for (std::int64_t d = 2; d < x.dim(); ++d) out.push_back(g.between(1, 2 * x.size(d) + 1));
  const bool corners = g.chance(2);
  switch (g.between(0, 2)) {
    case 0: return {dims == 1 ? torch::upsample_nearest1d(x, out) : torch::upsample_nearest2d(x, out)};
    case 1:
      return {dims == 1 ? torch::upsample_linear1d(x, out, corners) : torch::upsample_bilinear2d(x, out, corners)};
    default: return {dims == 2 ? torch::upsample_bicubic2d(x, out, corners) : torch::replication_pad1d(x, {1, 2})};
  }
}

/// Writes to what earlier operators made, or to inputs, directly or through views; then reads it.
Tensors written(RandomGraph& g) {
  const Tensor x = g.value([](const Tensor& t) {
    return t.is_floating_point() && std::find(t.strides().begin(), t.strides().end(), 0) == t.strides().end();
  });
  if (!x.defined()) return {};
  const std::int64_t d = g.dim_of(x), size = x.size(d);
  switch (g.between(0, 10)) {
    case 0: x.add_(0.3); break;
    case 1: x.mul_(x.tanh()); break;
    case 2: x.relu_(); break;
    case 3: x.select(d, 0).mul_(0.5); break;
    case 4: x.slice(d, 0, size, 2).zero_(); break;
    case 5: x.transpose(0, d).clamp_(-0.7, 0.9); break;
    case 6: x.narrow(d, 0, size / 2).copy_(x.narrow(d, size - size / 2, size / 2)); break;
    case 7: x.sub_(x.mean(-1, true)); break;
    case 8: x.chunk(2, d)[0].neg_(); break;
    case 9: x.index_put_({torch::zeros({1}, torch::kLong)}, torch::full({1}, 0.6, x.options()), true); break;
    default: x.select(d, size - 1).fill_(0.25); break;
  }
  return {x * 1.5};
}
Tensors written_integers(RandomGraph& g) {
  const Tensor x = g.value([](const Tensor& t) {
    return t.scalar_type() == torch::kLong && std::find(t.strides().begin(), t.strides().end(), 0) == t.strides().end();
  });
  if (!x.defined()) return {};
  x.select(g.dim_of(x), 0).add_(1);
  return {x * 2};
}

using Family = Tensors (*)(RandomGraph&);
constexpr Family families[] = {
    pointwise,   pointwise,        of_two,        convolution, convolution,         transposed_convolution,
    pooling,     attention,        normalisation, recurrent,   pooling_with_places, normalised_along_one,
    places,      places,           joined,        rearranged,  rearranged,          reduced,
    of_integers, of_booleans,      product,       product,     interpolated,        written,
    written,     written_integers,
};

bool is_small(const Tensor& t) { return t.numel() > 0 && t.numel() < 12000 && t.dim() > 0 && t.dim() < 6; }

Tensors RandomGraph::run(const Tensors& given) {
  random_ = Random(seed_);
  values_ = given;
  next_weight_ = lstms_.next = grus_.next = 0;
  const std::int64_t wanted = between(8, 14);
  for (std::int64_t made = 0, tries = 0; made < wanted && tries < 100; ++tries) {
    const Tensors results = families[random_.below(std::size(families))](*this);
    if (results.empty() || !std::all_of(results.begin(), results.end(), is_small)) continue;
    values_.insert(values_.end(), results.begin(), results.end());
    ++made;
  }
  return std::exchange(values_, {});
}

// --- what has to hold ------------------------------------------------------------------------------------------------

/// A graph with inputs, and what they and all values are in the end.
struct Case {
  NetPointer net = std::make_shared<Net>();
  std::shared_ptr<RandomGraph> graph;
  bool special = false;
  Tensors inputs;
  Tensors in_floats;

  explicit Case(std::uint64_t seed, bool with_special = false) : special(with_special) {
    torch::manual_seed(seed);
    Random random(seed * 77);
    const auto size = [&](std::size_t most) { return static_cast<std::int64_t>(1 + random.below(most)); };
    inputs = {torch::randn({size(2), size(12), size(11), size(13)}),
              torch::randn({size(4), size(9), size(24)}),
              torch::randn({size(40), size(40)}),
              torch::randint(0, 9, {size(4), size(6)}, torch::kLong),
              torch::randint(-3, 9, {size(9)}, torch::kInt),
              torch::rand({size(5), size(7)}) > 0.4};
    if (special)
      for (std::size_t i = 0; i < 3; ++i) {
        const double values[] = {not_a_number, infinite, -infinite};
        inputs[i].view(-1)[size(static_cast<std::size_t>(inputs[i].numel())) - 1] = values[random.below(3)];
      }
    graph = std::make_shared<RandomGraph>(*net, seed);
    net->function = [graph = graph](const Tensors& given) { return all_of(graph->run(given)); };
    net->eval();
    in_floats = cloned(tensors_of(net->function(cloned(inputs))));
  }
  /// In double precision, but from inputs and parameters that were rounded to bfloat16.
  Tensors from_rounded() const {
    const auto rounded = [](const Tensor& t) { return t.to(torch::kBFloat16).to(torch::kFloat); };
    Tensors in = cloned(inputs), kept;
    for (Tensor& t : in)
      if (t.is_floating_point()) t = rounded(t);
    for (Tensor& t : net->parameters()) {
      kept.push_back(t.detach().clone());
      t.copy_(rounded(t));
    }
    const Tensors result = in_double(*net, in);
    for (std::size_t i = 0; i < kept.size(); ++i) net->parameters()[i].copy_(kept[i]);
    return result;
  }
};

/// The error of one result relative to its largest value; integers and booleans are right, or wrong without bound.
double error_of_one(const Tensor& given, const Tensor& expected) {
  if (!given.is_floating_point()) return torch::equal(given, expected) ? 0 : infinite;
  return relative_difference(given.to(torch::kDouble), expected.to(torch::kDouble));
}
/// Floats as LibTorch gives them, or in double precision where those have nan or an infinity which the result has too:
/// LibTorch's vectors make nan of the gelu of an infinity, and its scalars do not.
Tensor special_values(const Tensor& in_floats, const Tensor& in_doubles, const Tensor& given) {
  if (!given.is_floating_point()) return in_floats;
  const Tensor exact = in_doubles.to(torch::kFloat), alike = (given == exact) | (given.isnan() & exact.isnan());
  return torch::where(~alike | (in_floats.isfinite() & exact.isfinite()), in_floats, exact);
}
/// The error that each result may have: where LibTorch itself is far from double precision, a multiple of that.
std::vector<double> bounds_of(const Case& c, const Tensors& expected, Accuracy accuracy) {
  if (c.special) return std::vector<double>(expected.size(), 1e-4);
  std::vector<double> bounds;
  const bool fast = accuracy == Accuracy::fast;
  const Tensors rounded = fast ? c.from_rounded() : expected;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double of_floats = 30 * error_of_one(c.in_floats[i], expected[i]);
    const double of_rounding = 4 * error_of_one(rounded[i], expected[i]);
    bounds.push_back(std::max({fast ? 0.06 : 2e-5, of_floats, of_rounding}));
    CHECK(bounds.back() < 0.5);  // else it would hold whatever is computed
  }
  return bounds;
}
void check_results(const Case& c, const Tensors& given, const Tensors& expected, const std::vector<double>& bounds) {
  REQUIRE(given.size() <= expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(i);
    CAPTURE(c10::str(given[i].scalar_type(), expected[i].sizes()));
    CHECK((given[i].scalar_type() != torch::kDouble));
    const Tensor wanted = c.special ? special_values(c.in_floats[i], expected[i], given[i]) : expected[i];
    CHECK(error_of_one(given[i], wanted) <= bounds[i]);
  }
}
/// Runs it with these inputs and checks all results, and what it left in the inputs, which come first among them.
Tensors check_call(const Case& c, CompiledModule& compiled, const Tensors& given, const Tensors& expected,
                   const std::vector<double>& bounds) {
  const Tensors results = cloned(tensors_of(compiled.run(boxed(given))));
  REQUIRE(results.size() == expected.size());
  check_results(c, results, expected, bounds);
  check_results(c, given, expected, bounds);
  return results;
}
Tensors in_other_places(const Tensors& inputs) {
  Tensors copies;
  for (const Tensor& t : inputs) copies.push_back(copies.size() % 2 ? sliced_copy(t) : transposed_copy(t));
  return copies;
}

void check_case(const Case& c, const Tensors& expected, const CompileOptions& options) {
  const std::vector<double> bounds = bounds_of(c, expected, options.accuracy);
  try {
    const auto gm = traced_net(*c.net, c.inputs);
    const auto compiled = fxx::compile(*gm, cloned(c.inputs), options);
    CHECK(compiled->is_current());
    CHECK(compiled->interpreted().empty());
    const Tensors first = check_call(c, *compiled, cloned(c.inputs), expected, bounds);
    const Tensors second = check_call(c, *compiled, cloned(c.inputs), expected, bounds);
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(difference(second[i], first[i]) == 0);
    check_call(c, *compiled, in_other_places(c.inputs), expected, bounds);
  } catch (const std::exception& e) {
    FAIL_CHECK(std::string(e.what()));
  }
}

TEST_CASE("random graphs compute what LibTorch does in double precision") {
  const torch::NoGradGuard no_grad;
  for (std::uint64_t seed = 1; seed <= 27; ++seed) {
    CAPTURE(seed);
    const Case c(seed);
    const Accuracy accuracies[] = {Accuracy::exact, Accuracy::standard, Accuracy::fast};
    check_case(c, in_double(*c.net, c.inputs),
               {.accuracy = accuracies[seed % 3],
                .threads = static_cast<int>(1 + seed / 3 % 3),
                .tolerance = infinite,
                .cache_folder = cache()});
  }
}
#if defined(__x86_64__)
TEST_CASE("random graphs for processors that can do less compute the same") {
  const torch::NoGradGuard no_grad;
  for (const auto& [march, lanes] : {std::pair<std::string, int>{"x86-64", 4}, {"haswell", 8}}) {
    CAPTURE(march);
    if (!has_vectors_of(lanes)) {
      not_checked("modules for " + march + ": this processor has no vectors of so many floats");
      continue;
    }
    for (std::uint64_t seed = 101; seed <= 104; ++seed) {
      CAPTURE(seed);
      const Case c(seed);
      check_case(c, in_double(*c.net, c.inputs),
                 {.accuracy = seed % 2 ? Accuracy::exact : Accuracy::standard,
                  .threads = static_cast<int>(1 + seed % 3),
                  .tolerance = infinite,
                  .march = march,
                  .cache_folder = cache()});
    }
  }
}
#endif
TEST_CASE("random graphs have nan and infinities where LibTorch has them") {
  const torch::NoGradGuard no_grad;
  for (std::uint64_t seed = 201; seed <= 206; ++seed) {
    CAPTURE(seed);
    const Case c(seed, true);
    check_case(c, in_double(*c.net, c.inputs),
               {.accuracy = Accuracy::exact,
                .threads = static_cast<int>(1 + seed % 3),
                .tolerance = infinite,
                .cache_folder = cache()});
  }
}

}  // namespace
