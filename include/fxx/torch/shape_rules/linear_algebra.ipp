// Shape rules of products, distances, and factorisations of matrices.
#pragma once

#include <algorithm>
#include <string>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

// --- products, distances --------------------------------------------------------------------------------------------

FXX_INLINE void dot(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  one_element(c);
}
/// self, batch1, batch2.
FXX_INLINE void addbmm(ShapeCall& c) {
  const Tensor self = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "batch1 and batch2 must be 3D tensors");
  TORCH_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1), "addbmm: incompatible batches ", a.sizes(), " and ",
              b.sizes());
  check_same_dtype(a, b, "addbmm");
  const Sizes sizes = {a.size(1), b.size(2)};
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "addbmm: ", self.sizes(), " does not broadcast to ",
              at::IntArrayRef(sizes));
  c.give(meta_tensor(sizes, self.scalar_type()));
}
FXX_INLINE void give_matrix_product(ShapeCall& c, std::int64_t columns, ScalarType dtype) {
  c.give(meta_tensor({c.tensor(0).size(0), columns}, dtype));
}
FXX_INLINE void int_mm(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "_int_mm: expected matrices that fit, but got ",
              a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == at::kChar && b.scalar_type() == at::kChar, "_int_mm: expected int8 matrices");
  give_matrix_product(c, b.size(1), at::kInt);
}
FXX_INLINE void int8_weights_mm(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1),
              "_weight_int8pack_mm: expected matrices that fit");
  give_matrix_product(c, b.size(0), a.scalar_type());
}
/// x1 (..., P, M), x2 (..., R, M).
FXX_INLINE void cdist(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "cdist only supports at least 2D tensors, got: ", a.dim(), "D and ",
              b.dim(), "D");
  TORCH_CHECK(a.size(-1) == b.size(-1), "X1 and X2 must have the same number of columns. X1: ", a.size(-1),
              " X2: ", b.size(-1));
  TORCH_CHECK(c.number(2).toDouble() >= 0, "cdist only supports non-negative p values");
  check_same_dtype(a, b, "cdist");
  check_floating(a, "cdist");
  const Sizes batches = at::infer_size(without_last(a, 2), without_last(b, 2));
  c.give(meta_tensor(joined(batches, {a.size(-2), b.size(-2)}), a.scalar_type()));
}
FXX_INLINE void pdist(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() == 2, "pdist only supports 2D tensors, got: ", x.dim(), "D");
  const std::int64_t n = x.size(0);
  c.give(meta_tensor({n > 1 ? n * (n - 1) / 2 : 0}, x.scalar_type()));
}

// --- factorisations -------------------------------------------------------------------------------------------------

/// Batches of matrices whose columns are contiguous, as LAPACK wants them.
FXX_INLINE Tensor columns(at::IntArrayRef sizes, ScalarType dtype) {
  const c10::DimVector rows = c10::contiguous_strides(sizes);
  Sizes strides(rows.begin(), rows.end());
  const std::size_t n = sizes.size();
  strides[n - 2] = 1;
  strides[n - 1] = std::max<std::int64_t>(sizes[n - 2], 1);
  return meta_tensor(sizes, strides, dtype);
}
FXX_INLINE void check_square(const Tensor& t, const char* op) {
  TORCH_CHECK(t.dim() >= 2 && t.size(-1) == t.size(-2), op, ": A must be batches of square matrices, but they are ",
              t.sizes());
}
FXX_INLINE void eigenvalues(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  check_square(x, "linalg.eigvals");
  c.give(meta_tensor(without_last(x, 1), complex_type(x)));
}
FXX_INLINE void eigen(ShapeCall& c) {
  eigenvalues(c);
  c.give(columns(c.tensor(0).sizes(), complex_type(c.tensor(0))));
}
FXX_INLINE void cholesky(ShapeCall& c) {
  check_square(c.tensor(0), "cholesky");
  check_floating_or_complex(c.tensor(0), "cholesky");
  if (c.has_out()) contiguous_like_argument<0>(c);
  else c.give(columns(c.tensor(0).sizes(), c.tensor(0).scalar_type()));
}
FXX_INLINE void columns_like_first(ShapeCall& c) {
  check_floating_or_complex(c.tensor(0), "the factorisation");
  TORCH_CHECK(c.tensor(0).dim() >= 2, "expected matrices, but got ", c.tensor(0).sizes());
  c.give(columns(c.tensor(0).sizes(), c.tensor(0).scalar_type()));
}
FXX_INLINE void square_columns(ShapeCall& c) {
  check_square(c.tensor(0), "cholesky_inverse");
  columns_like_first(c);
}
FXX_INLINE void matrix_exponential(ShapeCall& c) {
  check_square(c.tensor(0), "linalg.matrix_exp");
  check_floating_or_complex(c.tensor(0), "linalg.matrix_exp");
  contiguous_like_argument<0>(c);
}
FXX_INLINE void geqrf(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  columns_like_first(c);
  Sizes tau = without_last(x, 1).vec();
  tau.back() = std::min(x.size(-1), x.size(-2));
  c.give(meta_tensor(tau, x.scalar_type()));
}
FXX_INLINE void householder_product(ShapeCall& c) {
  const Tensor x = c.tensor(0), tau = c.tensor(1);
  TORCH_CHECK(x.dim() >= 2 && x.size(-2) >= x.size(-1) && tau.dim() == x.dim() - 1 && tau.size(-1) <= x.size(-1),
              "torch.linalg.householder_product: expected matrices with at least as many rows as columns, and as many "
              "factors at most, but got ",
              x.sizes(), " and ", tau.sizes());
  check_same_dtype(x, tau, "linalg.householder_product");
  columns_like_first(c);
}
/// self, input2, input3.
FXX_INLINE void ormqr(ShapeCall& c) {
  const Tensor x = c.tensor(0), tau = c.tensor(1), other = c.tensor(2);
  TORCH_CHECK(x.dim() >= 2 && other.dim() == x.dim() && tau.dim() == x.dim() - 1,
              "torch.ormqr: expected matrices, but got ", x.sizes(), ", ", tau.sizes(), ", ", other.sizes());
  const std::int64_t side = other.size(c.flag(3) ? -2 : -1);
  TORCH_CHECK(x.size(-2) == side, "torch.ormqr: other.shape[", c.flag(3) ? -2 : -1,
              "] must be equal to input.shape[-2]");
  TORCH_CHECK(tau.size(-1) == std::min(side, x.size(-1)),
              "torch.ormqr: tau.shape[-1] must be equal to "
              "min(other.shape[",
              c.flag(3) ? -2 : -1, "], input.shape[-1])");
  check_floating_or_complex(x, "ormqr_cpu");
  check_same_dtype(x, tau, "torch.ormqr");
  check_same_dtype(x, other, "torch.ormqr");
  c.give(columns(other.sizes(), other.scalar_type()));
}
/// A, B, upper, left, unitriangular.
FXX_INLINE void solve_triangular(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  check_square(a, "linalg.solve_triangular");
  check_floating_or_complex(a, "triangular_solve_cpu");
  check_same_dtype(a, b, "linalg.solve_triangular");
  TORCH_CHECK(b.dim() >= 2 && a.size(-2) == (c.flag(3) ? b.size(-2) : b.size(-1)),
              "linalg.solve_triangular: Incompatible shapes of A and B for the equation ", a.sizes(), " ", b.sizes());
  const Sizes batches = at::infer_size(without_last(a, 2), without_last(b, 2));
  c.give(columns(joined(batches, {b.size(-2), b.size(-1)}), b.scalar_type()));
}

/// self (..., m, n), b (..., m[, k]), rcond, driver: solution, residuals, rank, singular values.
FXX_INLINE void least_squares(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  const std::string driver = c.has(3) ? c[3].toStringRef() : "gelsy";
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 1, "torch.linalg.lstsq: expected matrices, but got ", a.sizes(), " and ",
              b.sizes());
  check_floating_or_complex(a, "torch.linalg.lstsq");
  check_same_dtype(a, b, "torch.linalg.lstsq");
  const bool vector = b.dim() == 1 || (a.dim() - 1 == b.dim() && b.sizes() == without_last(a, 1));
  const std::int64_t m = a.size(-2), n = a.size(-1), k = vector ? 1 : b.size(-1);
  TORCH_CHECK(m == b.size(vector ? -1 : -2), "torch.linalg.lstsq: input.size(-2) should match other.size(",
              vector ? -1 : -2, ")");
  const Sizes batches = at::infer_size(without_last(a, 2), without_last(b, vector ? 1 : 2));
  // Residuals of these depend on the rank.
  if (m > n && (driver == "gelss" || driver == "gelsd")) refuse_elements(c.op().operator_name());
  // It lies where the right-hand sides were.
  const Tensor solution = columns(joined(batches, Sizes{std::max(m, n), k}), a.scalar_type()).narrow(-2, 0, n);
  const ScalarType real = real_type(a);
  c.give(vector ? solution.squeeze(-1) : solution);
  c.give(meta_tensor(m > n && driver == "gels" ? joined(batches, Sizes{k}) : Sizes{0}, real));
  c.give(meta_tensor(driver == "gels" ? Sizes{0} : batches, at::kLong));
  c.give(meta_tensor(driver == "gelss" || driver == "gelsd" ? joined(batches, Sizes{std::min(m, n)}) : Sizes{0}, real));
}

// clang-format off
inline constexpr ShapeRuleOf linear_algebra_rules[] = {
    {"dot", dot},                                   {"vdot", dot},
    {"addbmm", addbmm},                             {"_int_mm", int_mm},
    {"_weight_int8pack_mm", int8_weights_mm},       {"_cdist_forward", cdist},
    {"_cdist_backward", contiguous_like_argument<1>},
    {"_pdist_forward", pdist},                      {"_pdist_backward", contiguous_like_argument<1>},
    {"linalg_eig", eigen},                          {"_linalg_eigvals", eigenvalues},
    {"linalg_eigvals.out", eigenvalues},            {"cholesky", cholesky},
    {"cholesky_inverse", square_columns},           {"_cholesky_solve_helper", columns_like_first},
    {"geqrf", geqrf},                               {"linalg_householder_product", householder_product},
    {"ormqr", ormqr},                               {"linalg_solve_triangular", solve_triangular},
    {"linalg_matrix_exp", matrix_exponential},      {"linalg_lstsq.out", least_squares},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
