// Bodies of rules/einsum.hpp.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/rules/einsum.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace einsum_rules {

/// How the operands are laid out for matmul, and its result for the equation.
struct Product {
  bool swapped = false;                              // the second operand comes first
  std::string operands[2], wanted[2], made, result;  // letters: as they are, as matmul takes them, as it gives them
};
FXX_INLINE bool all_different(std::string_view letters) {
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (!((letters[i] | 32) >= 'a' && (letters[i] | 32) <= 'z') || letters.find(letters[i]) != i) return false;
  return true;
}

/// "bij,bjk->bik" and the like: one letter is summed, one is each operand's own, all others are in both and in the
/// result; or the second operand is a matrix for all: "abi,ij->abj".
FXX_INLINE std::optional<Product> product_of(std::string_view equation) {
  std::string text(equation);
  std::erase(text, ' ');
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == text.npos || arrow == text.npos || comma > arrow) return std::nullopt;
  Product p{false, {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)}, {}, {}, text.substr(arrow + 2)};
  if (!all_different(p.operands[0]) || !all_different(p.operands[1]) || !all_different(p.result)) return std::nullopt;
  const auto in = [](const std::string& letters, char c) { return letters.find(c) != letters.npos; };
  // What stands last in the result are the columns, which are the second operand's.
  if (p.result.empty()) return std::nullopt;
  p.swapped = !in(p.operands[1], p.result.back());
  if (p.swapped) std::swap(p.operands[0], p.operands[1]);
  std::string shared, summed, rows, columns;
  for (const char c : p.result) {
    if (!in(p.operands[0], c) && !in(p.operands[1], c)) return std::nullopt;
    (!in(p.operands[1], c) ? rows : !in(p.operands[0], c) ? columns : shared) += c;
  }
  for (const std::string& operand : p.operands)
    for (const char c : operand) {
      if (in(p.result, c)) continue;
      if (!in(p.operands[0], c) || !in(p.operands[1], c)) return std::nullopt;  // summed alone
      if (!in(summed, c)) summed += c;
    }
  if (summed.size() != 1 || columns.size() != 1 || rows.empty() || (rows.size() > 1 && !shared.empty()))
    return std::nullopt;
  p.wanted[0] = shared + rows + summed;
  p.wanted[1] = shared + summed + columns;
  p.made = shared + rows + columns;
  return p;
}

/// A letter is one size; einsum would stretch a one.
FXX_INLINE bool sizes_fit(const Product& p, const TensorMeta& first, const TensorMeta& second) {
  const TensorMeta* metas[] = {p.swapped ? &second : &first, p.swapped ? &first : &second};
  for (int i = 0; i < 2; ++i)
    if (static_cast<std::size_t>(metas[i]->dim()) != p.operands[i].size()) return false;
  for (std::size_t at = 0; at < p.operands[0].size(); ++at) {
    const std::size_t other = p.operands[1].find(p.operands[0][at]);
    if (other != std::string::npos && metas[0]->shape[at] != metas[1]->shape[other]) return false;
  }
  return first.dtype == second.dtype && is_floating_point(first.dtype);
}

/// The value with its dimensions in this order. Where the last two change places, that comes last, as a transpose:
/// so keys are transposed that rules::attention looks for.
FXX_INLINE Argument arranged(const Match& m, const Argument& value, std::string_view from, std::string to) {
  if (from == to) return value;
  const std::size_t n = to.size();
  const bool crossed = from.find(to[n - 2]) > from.find(to[n - 1]);
  if (crossed) std::swap(to[n - 2], to[n - 1]);
  Argument made = value;
  if (from != to) {
    std::vector<Argument> order;
    for (const char c : to) order.emplace_back(static_cast<std::int64_t>(from.find(c)));
    made = m.call(ops::permute, {made, Argument::list(std::move(order))});
  }
  return crossed ? Argument(m.call(ops::transpose_int, {made, -2, -1})) : made;
}

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
