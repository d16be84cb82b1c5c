// einsum, as products of matrices where two tensors share what is summed, else as products and sums of elements.
#pragma once

#include <algorithm>
#include <string>

#include "fxx/passes/decompose/composite.ipp"

namespace fxx::inline FXX_ABI::detail {

namespace einsum {

/// An operand: each dimension has a letter. Those of an ellipsis are named by characters that are none.
struct Operand {
  Argument value;
  std::string letters;
};
FXX_INLINE bool has(const std::string& letters, char c) { return letters.find(c) != letters.npos; }
/// The letters of `from` that `keep` holds for, in their order.
template <class F>
std::string those(const std::string& from, const F& keep) {
  std::string result;
  for (const char c : from)
    if (keep(c)) result += c;
  return result;
}

class Equation {
 public:
  explicit Equation(const Composite& c) : c_(c) {}

  /// Nothing where the equation is not understood: LibTorch may have an error for it.
  std::optional<Argument> result() {
    if (!read()) return {};
    for (Operand& operand : operands_) take_diagonals(operand);
    Operand sum = operands_[0];
    for (std::size_t i = 1; i < operands_.size(); ++i) {
      std::string needed = output_;
      for (std::size_t k = i + 1; k < operands_.size(); ++k) needed += operands_[k].letters;
      sum = product(sum, operands_[i], needed);
    }
    sum = summed(sum, output_);
    if (sum.letters.size() != output_.size()) return {};
    return arranged(sum, output_);
  }

 private:
  static constexpr char first_of_ellipsis = '\x01';  // the last of its dimensions; those before it count on

  bool read() {
    const Argument given = c_["equation"];
    const auto tensors = c_.tensors("tensors");
    if (given.kind() != Argument::Kind::string || !tensors || tensors->empty()) return false;
    std::string text(given.string());
    std::erase(text, ' ');
    const std::size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow), right = arrow == text.npos ? "" : text.substr(arrow + 2);
    std::vector<std::string> parts(1);
    for (const char c : left) {
      if (c == ',') parts.emplace_back();
      else parts.back() += c;
    }
    if (parts.size() != tensors->size()) return false;
    std::size_t most = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto rank = static_cast<std::size_t>(c_.rank((*tensors)[i]));
      const std::size_t dots = parts[i].find("...");
      if (dots != std::string::npos) {
        if (parts[i].size() - 3 > rank) return false;
        const std::size_t count = rank - (parts[i].size() - 3);
        parts[i].replace(dots, 3, ellipsis(count));
        most = std::max(most, count);
      }
      if (parts[i].size() != rank) return false;
      for (std::size_t d = 0; d < rank; ++d) {
        const char c = parts[i][d];
        if (!is_letter(c)) return false;
        std::int64_t& size = size_of_[static_cast<unsigned char>(c)];
        const std::int64_t own = c_.sizes((*tensors)[i])[d];
        if (size == 0) size = own;
        else if (size != own) return false;  // one of them is stretched, or it is an error
        if (own == 0) return false;
      }
      operands_.push_back({(*tensors)[i], parts[i]});
    }
    if (arrow == text.npos) {
      // What stands once, in the order of the alphabet.
      right = ellipsis(most);
      for (int c = 'A'; c <= 'z'; ++c) {
        std::size_t times = 0;
        for (const std::string& part : parts)
          times += static_cast<std::size_t>(std::count(part.begin(), part.end(), c));
        if (times == 1) right += static_cast<char>(c);
      }
    } else if (const std::size_t dots = right.find("..."); dots != std::string::npos) {
      right.replace(dots, 3, ellipsis(most));
    }
    for (std::size_t i = 0; i < right.size(); ++i)
      if (!is_letter(right[i]) || size_of_[static_cast<unsigned char>(right[i])] == 0 || right.find(right[i]) != i)
        return false;
    output_ = right;
    return true;
  }
  static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= first_of_ellipsis && c < ' ');
  }
  static std::string ellipsis(std::size_t count) {
    std::string result;
    for (std::size_t i = count; i-- > 0;) result += static_cast<char>(first_of_ellipsis + i);
    return result;
  }
  std::int64_t size(const std::string& letters) const {
    std::int64_t n = 1;
    for (const char c : letters) n *= size_of_[static_cast<unsigned char>(c)];
    return n;
  }
  std::vector<std::int64_t> sizes(const std::string& letters) const {
    std::vector<std::int64_t> result;
    for (const char c : letters) result.push_back(size_of_[static_cast<unsigned char>(c)]);
    return result;
  }

  /// "ii" is read along the diagonal.
  void take_diagonals(Operand& operand) const {
    for (std::size_t i = 0; i < operand.letters.size();) {
      const std::size_t again = operand.letters.find(operand.letters[i], i + 1);
      if (again == std::string::npos) {
        ++i;
        continue;
      }
      // The diagonal comes last.
      operand.value =
          c_(ops::diagonal, {operand.value, 0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(again)});
      const char c = operand.letters[i];
      operand.letters.erase(again, 1);
      operand.letters.erase(i, 1);
      operand.letters += c;
    }
  }
  /// Without the letters that nobody needs.
  Operand summed(const Operand& operand, const std::string& needed) const {
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < operand.letters.size(); ++d)
      if (!has(needed, operand.letters[d])) dims.push_back(static_cast<std::int64_t>(d));
    if (dims.empty()) return operand;
    return {c_(ops::sum_dim_IntList, {operand.value, Composite::list(dims)}),
            those(operand.letters, [&](char c) { return has(needed, c); })};
  }
  /// With the dimensions in this order.
  Argument arranged(const Operand& operand, const std::string& letters) const {
    std::vector<std::int64_t> order;
    for (const char c : letters) order.push_back(static_cast<std::int64_t>(operand.letters.find(c)));
    return c_.permute(operand.value, order);
  }
  /// With all dimensions of `letters`: of size one where the operand has none.
  Argument stretched(const Operand& operand, const std::string& letters) const {
    Argument value = arranged(operand, those(letters, [&](char c) { return has(operand.letters, c); }));
    for (std::size_t d = 0; d < letters.size(); ++d)
      if (!has(operand.letters, letters[d])) value = c_.unsqueeze(value, static_cast<std::int64_t>(d));
    return value;
  }

  /// Of two; `needed`: the letters of the result and of what is multiplied later.
  Operand product(Operand a, Operand b, const std::string& needed) const {
    a = summed(a, needed + b.letters);
    b = summed(b, needed + a.letters);
    const std::string both = those(a.letters, [&](char c) { return has(b.letters, c); });
    const std::string depth = those(both, [&](char c) { return !has(needed, c); });
    const std::string shared = those(both, [&](char c) { return has(needed, c); });
    std::string rows = those(a.letters, [&](char c) { return !has(both, c); });
    std::string columns = those(b.letters, [&](char c) { return !has(both, c); });
    if (depth.empty() || rows.empty() || columns.empty()) {
      // Nothing that a product of matrices does better: each with each, and sums over what lies last.
      std::string all = shared + rows + columns;
      if (!output_.empty() && std::is_permutation(all.begin(), all.end(), output_.begin(), output_.end()))
        all = output_;
      const std::string wide = all + depth;
      Argument value = c_.mul(stretched(a, wide), stretched(b, wide));
      std::vector<std::int64_t> last;
      for (std::size_t d = all.size(); d < wide.size(); ++d) last.push_back(static_cast<std::int64_t>(d));
      if (!last.empty()) value = c_.sum_as(c_["tensors"].items()[0], value, last);
      return {value, all};
    }
    // Columns are what stands last in the result, where that can be.
    if (!output_.empty() && has(rows, output_.back())) {
      std::swap(a, b);
      std::swap(rows, columns);
    }
    const Argument left = grouped(a, shared, rows, depth), right = grouped(b, shared, depth, columns);
    Argument value = c_(ops::matmul, {left, right});
    const std::string made = shared + rows + columns;
    if (rows.size() != 1 || columns.size() != 1) value = c_.reshape(value, sizes(made));
    return {value, made};
  }
  /// [shared..., first, second], the letters of both as one dimension each.
  Argument grouped(const Operand& operand, const std::string& shared, const std::string& first,
                   const std::string& second) const {
    const Argument value = arranged(operand, shared + first + second);
    if (first.size() == 1 && second.size() == 1) return value;
    std::vector<std::int64_t> to = sizes(shared);
    to.insert(to.end(), {size(first), size(second)});
    return c_.reshape(value, to);
  }

  const Composite& c_;
  std::vector<Operand> operands_;
  std::string output_;
  std::int64_t size_of_[128] = {};
};

FXX_INLINE Parts decomposed(const Composite& c) {
  const std::optional<Argument> result = Equation(c).result();
  if (!result) return {};
  return {*result};
}

inline constexpr NamedDecomposition all[] = {{"aten::einsum", decomposed}};
}  // namespace einsum

}  // namespace fxx::inline FXX_ABI::detail
