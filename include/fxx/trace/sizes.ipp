// Bodies of trace/sizes.hpp.
#pragma once

#include <algorithm>
#include <numeric>

#include "fxx/error.hpp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A dynamic size: what the dimensions of one name have in common.
struct SizeSymbol {
  std::string name;
  std::int64_t minimum, maximum, multiple_of;
  std::size_t input;  // the first dimension that has it
  std::int64_t dim;

  bool allows(std::int64_t size) const { return size >= minimum && size <= maximum && size % multiple_of == 0; }
};

/// Sizes are not larger than this, so that a few of them can be multiplied.
inline constexpr std::int64_t largest_size = std::int64_t{1} << 40;

FXX_INLINE std::string describe(const DynamicDim& dim) {
  return "dimension " + std::to_string(dim.dim) + " of input " + std::to_string(dim.input) + ", '" + dim.name + "',";
}

FXX_INLINE std::vector<SizeSymbol> size_symbols(std::span<const DynamicDim> dims, const char* call) {
  const auto fail = [&](const std::string& what) {
    throw TraceError(ErrorId::dynamic_dim_invalid, std::string(call) + ": " + what);
  };
  if (dims.empty()) fail("there is no dynamic dimension; name at least one, {0, 0, \"batch\"}");
  std::vector<SizeSymbol> symbols;
  for (const DynamicDim& dim : dims) {
    if (dim.name.empty()) fail(describe(dim) + " has no name; give it one, {0, 0, \"batch\"}");
    if (dim.minimum < 0 || dim.minimum > largest_size || dim.maximum < 0 || dim.multiple_of < 1 ||
        dim.multiple_of > largest_size)
      fail(describe(dim) + " has minimum " + std::to_string(dim.minimum) + ", maximum " + std::to_string(dim.maximum) +
           ", multiple_of " + std::to_string(dim.multiple_of) +
           "; sizes are not negative and below 2^40, and multiples are of 1 or more");
    const std::int64_t maximum = dim.maximum ? std::min(dim.maximum, largest_size) : largest_size;
    const auto known = std::find_if(symbols.begin(), symbols.end(), [&](auto& s) { return s.name == dim.name; });
    if (known == symbols.end()) {
      symbols.push_back({dim.name, dim.minimum, maximum, dim.multiple_of, dim.input, dim.dim});
      continue;
    }
    known->minimum = std::max(known->minimum, dim.minimum);
    known->maximum = std::min(known->maximum, maximum);
    // At most 2^40 times 2^40 over what they share: too large is as good as contradicting.
    const std::int64_t factor = dim.multiple_of / std::gcd(known->multiple_of, dim.multiple_of);
    known->multiple_of = factor > largest_size / known->multiple_of ? largest_size + 1 : known->multiple_of * factor;
  }
  for (SizeSymbol& s : symbols) {
    // Up and down to the sizes that are really there.
    s.minimum = (s.minimum + s.multiple_of - 1) / s.multiple_of * s.multiple_of;
    s.maximum = s.maximum / s.multiple_of * s.multiple_of;
    if (s.minimum >= s.maximum)
      fail("the bounds of '" + s.name + "' leave " + (s.minimum > s.maximum ? "no size" : "one size only") +
           "; a size that changes needs two at least. Widen the bounds, or leave the dimension out");
  }
  return symbols;
}

/// Picks sizes of one symbol, each another one as long as there are any.
class SizePicker {
 public:
  explicit SizePicker(const SizeSymbol& symbol) : symbol_(symbol) {}

  void use(std::int64_t size) { used_.push_back(size); }
  /// The nearest allowed size that is not used yet: upwards, then downwards; what was used first when all are.
  std::int64_t pick(std::int64_t wanted) {
    const std::int64_t step = symbol_.multiple_of, lowest = std::max(symbol_.minimum, (2 + step - 1) / step * step);
    wanted = std::clamp((wanted + step - 1) / step * step, lowest, std::max(lowest, symbol_.maximum));
    for (std::int64_t size = wanted; size <= symbol_.maximum; size += step)
      if (fresh(size)) return used_.emplace_back(size);
    for (std::int64_t size = wanted; size >= lowest; size -= step)
      if (fresh(size)) return used_.emplace_back(size);
    return used_.empty() ? used_.emplace_back(symbol_.maximum) : used_.front();
  }

 private:
  bool fresh(std::int64_t size) const { return std::find(used_.begin(), used_.end(), size) == used_.end(); }

  const SizeSymbol& symbol_;
  std::vector<std::int64_t> used_;
};

}  // namespace detail

FXX_INLINE std::vector<std::string> size_names(std::span<const DynamicDim> dims) {
  std::vector<std::string> names;
  for (const DynamicDim& dim : dims)
    if (std::find(names.begin(), names.end(), dim.name) == names.end()) names.push_back(dim.name);
  return names;
}

FXX_INLINE std::vector<SizeSet> sizes_to_trace(std::span<const DynamicDim> dims, std::span<const SizeSet> given) {
  const std::vector<detail::SizeSymbol> symbols = detail::size_symbols(dims, "sizes_to_trace");
  const std::size_t count = symbols.size();
  std::vector<detail::SizePicker> pickers(symbols.begin(), symbols.end());
  std::vector<SizeSet> sets;
  for (const SizeSet& set : given) {
    if (set.size() != count)
      throw TraceError(ErrorId::dynamic_dim_invalid, "sizes_to_trace: a given set has " + std::to_string(set.size()) +
                                                         " sizes; there are " + std::to_string(count) +
                                                         " distinct names of dynamic dimensions");
    SizeSet& allowed = sets.emplace_back(set);
    for (std::size_t i = 0; i < count; ++i)
      if (symbols[i].allows(set[i])) pickers[i].use(set[i]);
      else allowed[i] = pickers[i].pick(set[i]);
  }
  if (sets.empty()) {
    sets.emplace_back();
    for (std::size_t i = 0; i < count; ++i) sets[0].push_back(pickers[i].pick(0));
  }
  const SizeSet base = sets[0];

  // One below and one above a multiple of many numbers, and such a multiple: n / k changes its value between them.
  SizeSet below, above, multiple;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t step = symbols[i].multiple_of, n = std::min(base[i], detail::largest_size / 2) / step;
    const std::int64_t many = step > 1 ? 1 : n < 16 ? 12 : n < 64 ? 24 : 64;
    // Different symbols are different numbers, also where they started as the same.
    const std::int64_t k = (n + 1) / many + 1 + static_cast<std::int64_t>(i / 2);
    const std::int64_t first = step > 1 ? k + 1 : many * k - 1, second = step > 1 ? k + 2 : many * k + 1;
    below.push_back(pickers[i].pick((i % 2 ? second : first) * step));
    above.push_back(pickers[i].pick((i % 2 ? first : second) * step));
    multiple.push_back(
        pickers[i].pick((many * (k + 1 + static_cast<std::int64_t>(i % 2)) + (step > 1 ? 3 : 0)) * step));
  }
  for (std::size_t i = 0; i < count; ++i) {
    sets.push_back(base);
    sets.back()[i] = below[i];
  }
  sets.push_back(above);
  sets.push_back(multiple);
  std::vector<SizeSet> distinct;
  for (SizeSet& set : sets)
    if (std::find(distinct.begin(), distinct.end(), set) == distinct.end()) distinct.push_back(std::move(set));
  return distinct;
}

}  // namespace fxx::inline FXX_ABI
