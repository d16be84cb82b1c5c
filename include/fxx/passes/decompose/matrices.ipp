// Products with vectors, sums of products, distances.
#pragma once

#include <algorithm>

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace matrices {

/// matmul of tensors with any number of dimensions.
FXX_INLINE Parts product(const Composite& c, const Argument& a, const Argument& b) {
  if (!c.is_tensor(a) || !c.is_tensor(b)) return {};
  const std::int64_t left = c.rank(a), right = c.rank(b);
  if (left == 0 || right == 0) return {};
  if (right == 1) return {c.sum_as(a, c.mul(a, b), {-1})};
  if (left == 1) return {c(ops::select_int, {c(ops::matmul, {c.unsqueeze(a, 0), b}), -2, 0})};
  return {c(ops::matmul, {a, b})};
}
FXX_INLINE Parts matmul(const Composite& c) {
  const Argument a = c[0], b = c[1];
  if (!c.is_tensor(a) || !c.is_tensor(b) || (c.rank(a) > 1 && c.rank(b) > 1)) return {};
  return product(c, a, b);
}
FXX_INLINE Parts mv(const Composite& c) { return product(c, c["self"], c["vec"]); }
FXX_INLINE Parts dot(const Composite& c) { return {c.sum_as(c[0], c.mul(c[0], c[1]), {0})}; }
FXX_INLINE Parts addmv(const Composite& c) {
  return {c.added(c.sum_as(c["mat"], c.mul(c["mat"], c["vec"]), {-1}))};
}
FXX_INLINE Parts addr(const Composite& c) {
  return {c.added(c.mul(c.unsqueeze(c["vec1"], 1), c.unsqueeze(c["vec2"], 0)))};
}
FXX_INLINE Parts outer(const Composite& c) { return {c.mul(c.unsqueeze(c["self"], 1), c.unsqueeze(c["vec2"], 0))}; }
FXX_INLINE Parts inner(const Composite& c) {
  const Argument a = c["self"], b = c["other"];
  if (!c.is_tensor(a) || !c.is_tensor(b)) return {};
  if (c.rank(a) == 0 || c.rank(b) == 0) return {c.mul(a, b)};
  if (c.rank(a) == 1 || c.rank(b) == 1) return {c.sum_as(a, c.mul(a, b), {-1})};
  if (c.numel(a) == 0 || c.numel(b) == 0) return {};
  // Rows of both, each with each.
  const std::int64_t depth = c.sizes(a).back();
  std::vector<std::int64_t> to = c.sizes(a);
  to.pop_back();
  to.insert(to.end(), c.sizes(b).begin(), c.sizes(b).end() - 1);
  return {c.reshape(c(ops::mm, {c.reshape(a, {-1, depth}), c(ops::t, {c.reshape(b, {-1, depth})})}), to)};
}
FXX_INLINE Parts baddbmm(const Composite& c) { return {c.added(c(ops::bmm, {c["batch1"], c["batch2"]}))}; }
FXX_INLINE Parts addbmm(const Composite& c) {
  return {c.added(c.sum_as(c["batch1"], c(ops::bmm, {c["batch1"], c["batch2"]}), {0}))};
}
FXX_INLINE Parts vecdot(const Composite& c) { return {c.sum(c.mul(c["x"], c["y"]), *c.integer("dim"))}; }
/// In the order that multiplies the fewest numbers, as LibTorch does.
FXX_INLINE Argument cheapest_product(const Composite& c, const std::vector<Argument>& matrices,
                                     const std::vector<std::int64_t>& sizes) {
  const std::size_t count = matrices.size();
  // Of the matrices from i to j: what their product costs, and which is the first of its right side.
  std::vector<std::vector<double>> cost(count, std::vector<double>(count, 0));
  std::vector<std::vector<std::size_t>> cut(count, std::vector<std::size_t>(count, 0));
  const auto size = [&](std::size_t i) { return static_cast<double>(sizes[i]); };
  for (std::size_t length = 2; length <= count; ++length)
    for (std::size_t i = 0, j = length - 1; j < count; ++i, ++j)
      for (std::size_t k = i + 1; k <= j; ++k) {
        const double made = cost[i][k - 1] + cost[k][j] + size(i) * size(k) * size(j + 1);
        if (k > i + 1 && made >= cost[i][j]) continue;
        cost[i][j] = made;
        cut[i][j] = k;
      }
  const auto product = [&](const auto& self, std::size_t i, std::size_t j) -> Argument {
    if (i == j) return matrices[i];
    Argument left = self(self, i, cut[i][j] - 1), right = self(self, cut[i][j], j);
    return c(ops::mm, {std::move(left), std::move(right)});
  };
  return product(product, 0, count - 1);
}
FXX_INLINE Parts chain(const Composite& c) {
  const auto given = c.tensors(c.op().parameters[0].name);
  if (!given || given->empty()) return {};
  if (given->size() == 1) return {given->front()};
  // The ends may be vectors: a row and a column.
  std::vector<Argument> matrices;
  std::vector<std::int64_t> sizes;  // matrix i is sizes[i] x sizes[i + 1]
  for (const Argument& x : *given) {
    const bool vector = c.rank(x) == 1, first = matrices.empty();
    if (c.rank(x) != 2 && !(vector && (first || &x == &given->back()))) return {};
    sizes.push_back(vector ? (first ? 1 : c.numel(x)) : c.sizes(x)[0]);
    matrices.push_back(vector ? c.unsqueeze(x, first ? 0 : 1) : x);
  }
  sizes.push_back(c.rank(given->back()) == 1 ? 1 : c.sizes(given->back())[1]);
  const Argument result = cheapest_product(c, matrices, sizes);
  const bool rows = c.rank(given->front()) > 1, columns = c.rank(given->back()) > 1;
  const Argument as_column = columns ? result : c(ops::select_int, {result, 1, 0});
  return {rows ? as_column : c(ops::select_int, {as_column, 0, 0})};
}
FXX_INLINE Parts tensordot(const Composite& c) {
  const Argument a = c["self"], b = c["other"];
  const auto first = c.integers("dims_self"), second = c.integers("dims_other");
  if (!first || !second || first->size() != second->size() || !c.is_tensor(a) || !c.is_tensor(b) || c.numel(a) == 0 ||
      c.numel(b) == 0)
    return {};
  struct Side {
    std::vector<std::int64_t> summed, kept, sizes;  // sizes of those that are kept
  };
  const auto side = [&](const Argument& of, const std::vector<std::int64_t>& dims) {
    Side result;
    for (std::int64_t d : dims) result.summed.push_back(c.place_of(d, c.rank(of)));
    for (std::int64_t d = 0; d < c.rank(of); ++d)
      if (std::find(result.summed.begin(), result.summed.end(), d) == result.summed.end()) {
        result.kept.push_back(d);
        result.sizes.push_back(c.sizes(of)[static_cast<std::size_t>(d)]);
      }
    return result;
  };
  Side left = side(a, *first), right = side(b, *second);
  std::int64_t depth = 1;
  for (std::size_t i = 0; i < left.summed.size(); ++i) {
    if (left.summed[i] < 0 || right.summed[i] < 0) return {};
    const std::int64_t size = c.sizes(a)[static_cast<std::size_t>(left.summed[i])];
    if (size != c.sizes(b)[static_cast<std::size_t>(right.summed[i])]) return {};  // one of them is stretched
    depth *= size;
  }
  std::vector<std::int64_t> rows = left.kept, columns = right.summed, to = left.sizes;
  rows.insert(rows.end(), left.summed.begin(), left.summed.end());
  columns.insert(columns.end(), right.kept.begin(), right.kept.end());
  to.insert(to.end(), right.sizes.begin(), right.sizes.end());
  return {c.reshape(
      c(ops::mm, {c.reshape(c.permute(a, rows), {-1, depth}), c.reshape(c.permute(b, columns), {depth, -1})}), to)};
}
/// x1[..., i] weight[o, i, j] x2[..., j]: a product with the first, and sums of products with the second.
FXX_INLINE Parts bilinear(const Composite& c) {
  const Argument a = c["input1"], b = c["input2"], weight = c["weight"];
  if (!c.is_tensor(a) || !c.is_tensor(b) || !c.is_tensor(weight) || c.numel(a) == 0 || c.numel(b) == 0) return {};
  const std::vector<std::int64_t>& w = c.sizes(weight);
  std::vector<std::int64_t> sizes(c.sizes(a).begin(), c.sizes(a).end() - 1);
  sizes.insert(sizes.end(), {w[0], w[2]});
  const Argument columns = c.reshape(c.permute(weight, {1, 0, 2}), {w[1], w[0] * w[2]});
  const Argument rows = c.reshape(c(ops::matmul, {a, columns}), sizes);
  const Argument result = c.sum(c.mul(rows, c.unsqueeze(b, -2)), -1);
  return {c["bias"].is_none() ? result : c.add(result, c["bias"])};
}
FXX_INLINE Parts cross(const Composite& c) {
  const Argument a = c["self"], b = c["other"];
  const Argument given = c["dim"];
  if (!c.is_tensor(a) || !c.is_tensor(b) || (given.is_none() && c.sizes(a) != c.sizes(b))) return {};
  const std::int64_t rank = std::max(c.rank(a), c.rank(b));
  std::int64_t dim = -1;
  if (given.is_none()) {
    const std::vector<std::int64_t>& sizes = c.sizes(a);
    dim = std::find(sizes.begin(), sizes.end(), 3) - sizes.begin();
  } else {
    dim = c.place_of(given.integer(), rank);
  }
  if (dim < 0 || dim >= rank) return {};
  dim -= rank;  // counted from the end it is the same in both
  const auto at = [&](const Argument& of, int i) { return c(ops::select_int, {of, dim, i}); };
  std::vector<Argument> parts;
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(c.sub(c.mul(at(a, j), at(b, k)), c.mul(at(a, k), at(b, j))));
  }
  return {c(ops::stack, {Argument::list(std::move(parts)), dim})};
}
FXX_INLINE Parts trace(const Composite& c) { return {c.sum(c(ops::diagonal, {c["self"]}), 0)}; }

FXX_INLINE Argument vector_norm(const Composite& c, const Argument& x, const Argument& p, std::int64_t dim, bool keep) {
  return c(ops::linalg_vector_norm, {x, p, c.list({dim}), keep});
}
FXX_INLINE Parts pairwise_distance(const Composite& c) {
  const Argument apart = c(ops::add_Scalar, {c.sub(c["x1"], c["x2"]), c["eps"]});
  return {vector_norm(c, apart, c["p"], -1, c.flag("keepdim"))};
}
FXX_INLINE Parts dist(const Composite& c) {
  return {c(ops::linalg_vector_norm, {c.sub(c["self"], c["other"]), c["p"], Argument(), false})};
}
FXX_INLINE Parts cosine_similarity(const Composite& c) {
  const Argument a = c["x1"], b = c["x2"];
  if (!c.is_tensor(a) || !c.is_tensor(b) || c.rank(a) != c.rank(b)) return {};
  // LibTorch converts whole numbers first; of them there is no norm.
  if (!is_floating_point(c.dtype(a)) || !is_floating_point(c.dtype(b))) return {};
  const std::int64_t dim = *c.integer("dim"), place = c.place_of(dim, c.rank(a));
  if (place < 0) return {};
  const auto at = static_cast<std::size_t>(place);
  // Norms are of what is broadcast.
  const auto unit = [&](Argument x, const Argument& other) {
    if (const std::int64_t size = c.sizes(other)[at]; c.sizes(x)[at] != size && size != 1) {
      std::vector<std::int64_t> sizes(c.sizes(x).size(), -1);
      sizes[at] = size;
      x = c(ops::expand, {x, c.list(sizes)});
    }
    return c.div(x, c(ops::clamp_min, {vector_norm(c, x, 2, dim, true), c["eps"]}));
  };
  return {c.sum(c.mul(unit(a, b), unit(b, a)), dim)};
}
/// Of each row of one with each of the other. Where there are many, of their products, as LibTorch does.
FXX_INLINE Parts cdist(const Composite& c) {
  const Argument a = c["x1"], b = c["x2"], mode = c["compute_mode"];
  if (!c.is_tensor(a) || !c.is_tensor(b) || c.rank(a) < 2 || c.rank(b) < 2 || c.numel(a) == 0 || c.numel(b) == 0)
    return {};
  const std::int64_t rows = c.sizes(a)[c.sizes(a).size() - 2], others = c.sizes(b)[c.sizes(b).size() - 2];
  const std::int64_t chosen = mode.kind() == Argument::Kind::integer ? mode.integer() : 0;
  const bool by_products = c.is_number(c["p"], 2) && (chosen == 1 || (chosen == 0 && (rows > 25 || others > 25)));
  if (!by_products) return {vector_norm(c, c.sub(c.unsqueeze(a, -2), c.unsqueeze(b, -3)), c["p"], -1, false)};
  const auto squares = [&](const Argument& x) { return c.sum(c(ops::square, {x}), -1); };
  const Argument products = c(ops::matmul, {a, c(ops::transpose_int, {b, -2, -1})});
  const Argument sums = c.add(c.unsqueeze(squares(a), -1), c.unsqueeze(squares(b), -2));
  return {c(ops::sqrt, {c(ops::clamp_min, {c.sub(sums, c.times(products, 2)), 0})})};
}

/// Of all elements, or along dimensions.
FXX_INLINE Parts norm_with_dtype(const Composite& c) {
  if (!c["dtype"].is_none() && c.is_tensor(c["self"]) && c["dtype"].kind() == Argument::Kind::dtype &&
      c["dtype"].dtype() != c.dtype(c["self"]))
    return {};
  const Argument p = c["p"].is_none() ? Argument(2) : c["p"];
  return {c(ops::linalg_vector_norm, {c["self"], p, c["dim"], c.flag("keepdim")})};
}
FXX_INLINE Parts linalg_norm(const Composite& c) {
  if (!c["dtype"].is_none() || !c.is_tensor(c["self"])) return {};
  const Argument ord = c["ord"];
  const auto dims = c.integers("dim");
  if (!ord.is_none() && !ord.is_number()) return {};
  const std::size_t count = dims ? dims->size() : static_cast<std::size_t>(c.rank(c["self"]));
  if (!ord.is_none() && count != 1) return {};  // of a matrix, or of all elements in another way
  return {c(ops::linalg_vector_norm, {c["self"], ord.is_none() ? Argument(2) : ord, c["dim"], c.flag("keepdim")})};
}
FXX_INLINE Parts frobenius(const Composite& c) {
  const Argument ord = c["ord"];
  if (!ord.is_none() && (ord.kind() != Argument::Kind::string || ord.string() != "fro")) return {};
  if (!c["dtype"].is_none()) return {};
  return {c(ops::linalg_vector_norm, {c["self"], 2, c["dim"], c.flag("keepdim")})};
}

inline constexpr NamedDecomposition all[] = {
    {"aten::matmul", matmul},
    {"aten::linalg_matmul", matmul},
    {"aten::mv", mv},
    {"aten::dot", dot},
    {"aten::vdot", dot},
    {"aten::addmv", addmv},
    {"aten::addr", addr},
    {"aten::outer", outer},
    {"aten::ger", outer},
    {"aten::inner", inner},
    {"aten::baddbmm", baddbmm},
    {"aten::addbmm", addbmm},
    {"aten::linalg_vecdot", vecdot},
    {"aten::chain_matmul", chain},
    {"aten::linalg_multi_dot", chain},
    {"aten::tensordot", tensordot},
    {"aten::bilinear", bilinear},
    {"aten::cross", cross},
    {"aten::linalg_cross", cross},
    {"aten::trace", trace},
    {"aten::pairwise_distance", pairwise_distance},
    {"aten::dist", dist},
    {"aten::cosine_similarity", cosine_similarity},
    {"aten::cdist", cdist},
    {"aten::norm.ScalarOpt_dim_dtype", norm_with_dtype},
    {"aten::norm.ScalarOpt_dtype", norm_with_dtype},
    {"aten::linalg_norm", linalg_norm},
    {"aten::linalg_norm.ord_str", frobenius},
    {"aten::linalg_matrix_norm.str_ord", frobenius},
    {"aten::frobenius_norm.dim", frobenius},
};
}  // namespace matrices

}  // namespace fxx::inline FXX_ABI::detail
