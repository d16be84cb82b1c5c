// Bodies of rules/einsum.hpp.
#pragma once

#include "fxx/rules/einsum.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace einsum_rules {

FXX_INLINE bool is_product(const Match& m) {
  const TensorMeta *first = meta_of(m[x]), *second = meta_of(m[y]);
  if (!first || !second || m[equation].kind() != Argument::Kind::string) return false;
  const auto product = product_of(m[equation].string());
  return product && sizes_fit(*product, *first, *second) && layout_is_free(*m.root());
}

FXX_INLINE Argument build_product(const Match& m) {
  const Product p = *product_of(m[equation].string());
  views_become_reshapes(*m.root());
  const Argument left = arranged(m, p.swapped ? m[y] : m[x], p.operands[0], p.wanted[0]);
  const Argument right = arranged(m, p.swapped ? m[x] : m[y], p.operands[1], p.wanted[1]);
  return arranged(m, m.call(ops::matmul, {left, right}), p.made, p.result);
}

}  // namespace einsum_rules

}  // namespace fxx::inline FXX_ABI::rules
