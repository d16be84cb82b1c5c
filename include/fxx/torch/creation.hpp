// LibTorch's functions beside those of trace/factories.inc, so that one spelling means both in a templated forward:
//
//   auto positions = fxx::arange(x.size(1), torch::kLong);            // recorded when x is a proxy
//   return fxx::cat({x, fxx::zeros({x.size(0), 1}, x.options())}, 1);
//
// Where no argument is traced, the tensor is made at once. In a trace it is a constant then, random ones too, as in
// torch.fx: `fxx::rand({3, 4})` gives the same numbers in every run, `fxx::rand({3, 4}, x.options())` is recorded.
// Main names: zeros, ones, full, empty, rand, randn, randint, randperm, arange, linspace, eye, cat, stack, einsum,
// check. Cost: heavy (torch's factories, ATen/ops of each function).
#pragma once

#include <torch/types.h>

#include <vector>

#include "fxx/torch/types.hpp"
#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A number that is known while tracing: traced ones do not convert, so that the function over proxies is taken.
struct PlainInt {
  std::int64_t value;
  template <std::integral T>
  PlainInt(T v) : value(static_cast<std::int64_t>(v)) {}
  operator std::int64_t() const { return value; }
};
/// Sizes that are known while tracing.
class PlainSizes {
 public:
  PlainSizes(std::initializer_list<PlainInt> sizes) {
    for (const PlainInt& size : sizes) sizes_.push_back(size.value);
  }
  PlainSizes(at::IntArrayRef sizes) : sizes_(sizes.begin(), sizes.end()) {}
  PlainSizes(const std::vector<std::int64_t>& sizes) : sizes_(sizes) {}
  template <std::integral T>
  PlainSizes(T size) : sizes_{static_cast<std::int64_t>(size)} {}
  operator at::IntArrayRef() const { return sizes_; }

 private:
  std::vector<std::int64_t> sizes_;
};

}  // namespace detail

#define FXX_FACTORY(name, standard, parameters, ...)                                           \
  inline at::Tensor name(FXX_UNPACK parameters, const at::TensorOptions& options = standard) { \
    return torch::name(__VA_ARGS__, options);                                                  \
  }
#define FXX_UNPACK(...) __VA_ARGS__
FXX_FACTORY(zeros, {}, (const detail::PlainSizes& size), size)
FXX_FACTORY(ones, {}, (const detail::PlainSizes& size), size)
FXX_FACTORY(empty, {}, (const detail::PlainSizes& size), size)
FXX_FACTORY(empty_strided, {}, (const detail::PlainSizes& size, const detail::PlainSizes& stride), size, stride)
FXX_FACTORY(full, {}, (const detail::PlainSizes& size, const at::Scalar& fill_value), size, fill_value)
FXX_FACTORY(rand, {}, (const detail::PlainSizes& size), size)
FXX_FACTORY(randn, {}, (const detail::PlainSizes& size), size)
FXX_FACTORY(randint, at::kLong, (detail::PlainInt high, const detail::PlainSizes& size), high, size)
FXX_FACTORY(randint, at::kLong, (detail::PlainInt low, detail::PlainInt high, const detail::PlainSizes& size), low,
            high, size)
FXX_FACTORY(randperm, at::kLong, (detail::PlainInt n), n)
FXX_FACTORY(normal, {}, (double mean, double std, const detail::PlainSizes& size), mean, std, size, std::nullopt)
FXX_FACTORY(eye, {}, (detail::PlainInt n), n)
FXX_FACTORY(eye, {}, (detail::PlainInt n, detail::PlainInt m), n, m)
FXX_FACTORY(linspace, {}, (const at::Scalar& start, const at::Scalar& end, detail::PlainInt steps), start, end, steps)
FXX_FACTORY(tril_indices, at::kLong, (detail::PlainInt row, detail::PlainInt col), row, col, 0)
FXX_FACTORY(tril_indices, at::kLong, (detail::PlainInt row, detail::PlainInt col, detail::PlainInt offset), row, col,
            offset)
FXX_FACTORY(triu_indices, at::kLong, (detail::PlainInt row, detail::PlainInt col), row, col, 0)
FXX_FACTORY(triu_indices, at::kLong, (detail::PlainInt row, detail::PlainInt col, detail::PlainInt offset), row, col,
            offset)
FXX_FACTORY(hann_window, {}, (detail::PlainInt window_length), window_length)
FXX_FACTORY(hann_window, {}, (detail::PlainInt window_length, bool periodic), window_length, periodic)
FXX_FACTORY(hamming_window, {}, (detail::PlainInt window_length), window_length)
FXX_FACTORY(hamming_window, {}, (detail::PlainInt window_length, bool periodic), window_length, periodic)
FXX_FACTORY(blackman_window, {}, (detail::PlainInt window_length), window_length)
FXX_FACTORY(blackman_window, {}, (detail::PlainInt window_length, bool periodic), window_length, periodic)
FXX_FACTORY(bartlett_window, {}, (detail::PlainInt window_length), window_length)
FXX_FACTORY(bartlett_window, {}, (detail::PlainInt window_length, bool periodic), window_length, periodic)
#undef FXX_FACTORY
#undef FXX_UNPACK
inline at::Tensor logspace(const at::Scalar& start, const at::Scalar& end, detail::PlainInt steps, double base = 10,
                           const at::TensorOptions& options = {}) {
  return torch::logspace(start, end, steps, base, options);
}
using torch::arange;
using torch::scalar_tensor;

// Lists of tensors in braces.
using at::block_diag;
using at::broadcast_tensors;
using at::cartesian_prod;
using at::cat;
using at::chain_matmul;
using at::column_stack;
using at::concat;
using at::concatenate;
using at::dstack;
using at::einsum;
using at::hstack;
using at::linalg_multi_dot;
using at::meshgrid;
using at::pad_sequence;
using at::row_stack;
using at::stack;
using at::vstack;

/// The function of numbers and tensors that check() of proxies records. Throws c10::Error with the message.
inline void check(bool condition, std::string_view message = {}) { TORCH_CHECK(condition, message); }
inline void check(const at::Tensor& condition, std::string_view message = {}) {
  TORCH_CHECK(condition.is_nonzero(), message);
}

}  // namespace fxx::inline FXX_ABI
