// What shape rules of several families use: forms of results, checks, and rules that fit any operator.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>

#include <functional>
#include <numeric>

#include "fxx/torch/shape_rules.hpp"

namespace fxx::inline FXX_ABI::detail::shapes {

using at::ScalarType;
using at::Tensor;

/// An operator, or one overload of it: without "aten::", but with "mkldnn::". Every family has a list of these.
struct ShapeRuleOf {
  std::string_view name;
  ShapeRule rule;
};

// --- what results are -----------------------------------------------------------------------------------------------

/// As empty_like: of the same strides where these leave no holes.
FXX_INLINE Tensor like(const Tensor& tensor, std::optional<ScalarType> dtype = {}) {
  const ScalarType type = dtype.value_or(tensor.scalar_type());
  if (tensor.is_non_overlapping_and_dense()) return meta_tensor(tensor.sizes(), tensor.strides(), type);
  return meta_tensor(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), type);
}
FXX_INLINE Tensor contiguous_like(const Tensor& tensor, std::optional<ScalarType> dtype = {}) {
  return meta_tensor(tensor.sizes(), dtype.value_or(tensor.scalar_type()));
}
/// Contiguous in the memory format that the tensor's strides suggest.
FXX_INLINE Tensor formatted_like(const Tensor& tensor, std::optional<ScalarType> dtype = {}) {
  return meta_tensor(tensor.sizes(), dtype.value_or(tensor.scalar_type()), tensor.suggest_memory_format());
}

enum class Promotion {
  none,      // all inputs have one dtype, and so has the result
  common,    // the inputs' common dtype
  to_float,  // the same, and a floating one for integers
  boolean,   // a boolean
};
/// What an elementwise operator gives: sizes are broadcast, strides follow the inputs'.
FXX_INLINE Tensor pointwise(std::initializer_list<Tensor> inputs, Promotion promotion = Promotion::none,
                            std::optional<ScalarType> dtype = {}) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).add_owned_output(Tensor());
  for (const Tensor& input : inputs)
    if (input.defined()) config.add_owned_const_input(input);
  if (promotion != Promotion::none) config.allow_cpu_scalars(true).promote_inputs_to_common_dtype(true);
  if (promotion == Promotion::to_float) config.promote_integer_inputs_to_float(true);
  if (promotion == Promotion::boolean) dtype = at::kBool;
  if (dtype) config.check_all_same_dtype(false).declare_static_dtype(*dtype);
  else if (promotion != Promotion::none) config.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
  return config.build().output();
}

// --- sizes ----------------------------------------------------------------------------------------------------------

/// All sizes but the last `count`.
FXX_INLINE at::IntArrayRef without_last(const Tensor& t, std::int64_t count) {
  return t.sizes().slice(0, static_cast<std::size_t>(t.dim() - count));
}
FXX_INLINE Sizes joined(at::IntArrayRef front, at::IntArrayRef back) {
  Sizes sizes(front.begin(), front.end());
  sizes.insert(sizes.end(), back.begin(), back.end());
  return sizes;
}
/// The list, or its only item as often as is asked for.
FXX_INLINE Sizes expanded(Sizes list, std::size_t count, const char* name) {
  if (list.size() == 1) list.resize(count, list[0]);
  TORCH_CHECK(list.size() == count, "expected ", name, " to be a single integer value or a list of ", count,
              " values, but got ", at::IntArrayRef(list));
  return list;
}
FXX_INLINE std::int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}
FXX_INLINE std::int64_t wrapped(std::int64_t dim, std::int64_t dims) { return c10::maybe_wrap_dim(dim, dims); }
/// Those of a reduction over some dimensions, or over all when none is given.
FXX_INLINE Sizes reduced(const Tensor& t, Sizes dims, bool keep) {
  std::vector<bool> gone(static_cast<std::size_t>(t.dim()), dims.empty());
  if (t.dim() == 0) gone.resize(1);  // as of one dimension
  for (std::int64_t d : dims) {
    const std::int64_t at = wrapped(d, t.dim());
    TORCH_CHECK(!gone[static_cast<std::size_t>(at)], "dim ", at, " appears multiple times in the list of dims");
    gone[static_cast<std::size_t>(at)] = true;
  }
  Sizes sizes;
  for (std::int64_t d = 0; d < t.dim(); ++d) {
    if (!gone[static_cast<std::size_t>(d)]) sizes.push_back(t.size(d));
    else if (keep) sizes.push_back(1);
  }
  return sizes;
}

// --- dtypes ---------------------------------------------------------------------------------------------------------

/// Refuses the dtypes that the operator's kernel does not know. Some operators call it for tensors that have elements.
FXX_INLINE void refuse_dtype(const Tensor& t, bool refused, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(!refused, "\"", op, "\" not implemented for '", c10::toString(t.scalar_type()), "'");
}
FXX_INLINE bool is_bool(const Tensor& t) { return t.scalar_type() == at::kBool; }
FXX_INLINE bool is_bool_or_complex(const Tensor& t) { return is_bool(t) || t.is_complex(); }
FXX_INLINE bool is_half(const Tensor& t) { return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16; }
/// The complex dtype for a real one, and the real one for a complex one.
FXX_INLINE ScalarType complex_type(const Tensor& t) { return c10::toComplexType(t.scalar_type()); }
FXX_INLINE ScalarType real_type(const Tensor& t) { return c10::toRealValueType(t.scalar_type()); }
FXX_INLINE void check_floating(const Tensor& t, const char* op) {
  refuse_dtype(t, !at::isFloatingType(t.scalar_type()), op);
}
FXX_INLINE void check_floating_or_complex(const Tensor& t, const char* op) {
  refuse_dtype(t, !at::isFloatingType(t.scalar_type()) && !t.is_complex(), op);
}
FXX_INLINE void check_ordered(const Tensor& t, const char* op) { refuse_dtype(t, t.is_complex(), op); }
FXX_INLINE void check_same_dtype(const Tensor& a, const Tensor& b, const char* op) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected tensors of one dtype, but got ", a.scalar_type(),
              " and ", b.scalar_type());
}

// --- rules that fit any operator ------------------------------------------------------------------------------------

FXX_INLINE void nothing(ShapeCall&) {}
/// Of the size of argument `I`: gradients, say.
template <std::size_t I>
void like_argument(ShapeCall& c) {
  c.give(like(c.tensor(I)));
}
template <std::size_t I>
void formatted_like_argument(ShapeCall& c) {
  c.give(formatted_like(c.tensor(I)));
}
/// A result for each `I`.
template <std::size_t... I>
void contiguous_like_argument(ShapeCall& c) {
  (c.give(contiguous_like(c.tensor(I))), ...);
}
/// One element: a median, the largest.
FXX_INLINE void one_element(ShapeCall& c) { c.give(meta_tensor({}, c.tensor(0).scalar_type())); }
/// Two tensors of one dtype, element by element.
FXX_INLINE void binary_same(ShapeCall& c) { c.give(pointwise({c.tensor(0), c.tensor(1)})); }

}  // namespace fxx::inline FXX_ABI::detail::shapes
