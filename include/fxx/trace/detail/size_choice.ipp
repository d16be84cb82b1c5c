// Of trace/sizes.hpp: the sizes to trace at.
#pragma once

#include <algorithm>
#include <numeric>

#include "fxx/error.hpp"
#include "fxx/trace/detail/size_fit.hpp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Sizes are not larger than this, so that a few of them can be multiplied.
inline constexpr std::int64_t largest_size = std::int64_t{1} << 40;

FXX_INLINE std::string dim_text(const DynamicDim& dim) {
  return "dimension " + std::to_string(dim.dim) + " of input " + std::to_string(dim.input) + ", '" + dim.name + "',";
}

FXX_INLINE std::vector<SizeSymbol> size_symbols(std::span<const DynamicDim> dims) {
  const auto fail = [&](const std::string& what) { throw TraceError(ErrorId::dynamic_dim_invalid, "trace: " + what); };
  if (dims.empty()) fail("there is no dynamic dimension; name at least one, {0, 0, \"batch\"}");
  std::vector<SizeSymbol> symbols;
  for (const DynamicDim& dim : dims) {
    if (dim.name.empty()) fail(dim_text(dim) + " has no name; give it one, {0, 0, \"batch\"}");
    if (dim.minimum < 0 || dim.minimum > largest_size || dim.maximum < 0 || dim.multiple_of < 1 ||
        dim.multiple_of > largest_size)
      fail(dim_text(dim) + " has minimum " + std::to_string(dim.minimum) + ", maximum " + std::to_string(dim.maximum) +
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
    if (s.minimum >= s.maximum || s.maximum < 2)
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
    return used_.empty() ? used_.emplace_back(symbol_.maximum) : used_.back();
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

FXX_INLINE std::string detail::sizes_text(std::span<const std::string> names, const SizeSet& sizes) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + names[i] + "=" + std::to_string(sizes[i]);
  return text;
}

FXX_INLINE std::vector<SizeSet> sizes_to_trace(std::span<const DynamicDim> dims, std::span<const SizeSet> given) {
  const std::vector<detail::SizeSymbol> symbols = detail::size_symbols(dims);
  const std::size_t count = symbols.size();
  std::vector<detail::SizePicker> pickers(symbols.begin(), symbols.end());
  std::vector<SizeSet> sets;
  for (const SizeSet& set : given) {
    if (set.size() != count)
      throw TraceError(ErrorId::dynamic_dim_invalid, "trace: a given set has " + std::to_string(set.size()) +
                                                         " sizes; there are " + std::to_string(count) +
                                                         " distinct names of dynamic dimensions");
    SizeSet& allowed = sets.emplace_back(set);
    for (std::size_t i = 0; i < count; ++i)
      if (symbols[i].allows(set[i])) pickers[i].use(set[i]);
      else allowed[i] = pickers[i].pick(std::clamp<std::int64_t>(set[i], 0, detail::largest_size));
  }
  if (sets.empty()) {
    sets.emplace_back();
    for (std::size_t i = 0; i < count; ++i) sets[0].push_back(pickers[i].pick(0));
  }
  const SizeSet base = sets[0];

  // A size far away, which shows most; and one below and one above a multiple of several numbers, where n / k changes.
  // Different symbols are different numbers, also where they started as the same.
  SizeSet far(count), below(count), above(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t step = symbols[i].multiple_of, n = std::min(base[i], detail::largest_size / 4) / step;
    const std::int64_t many = n < 8 ? 4 : n < 32 ? 8 : n < 100 ? 16 : n < 400 ? 32 : 64, odd = i % 2;
    const std::int64_t k = ((n + 1) / many + 1) * many, apart = static_cast<std::int64_t>(i / 2) * many;
    const std::int64_t distant = n < 32 ? 4 * n : n < 100 ? 2 * n : n + n / 4;
    far[i] = pickers[i].pick(
        (step > 1 ? std::max(n + 3, 2 * n) : std::max<std::int64_t>(24, (distant / many + 1) * many)) * step);
    below[i] = pickers[i].pick((step > 1 ? n + 1 + odd : k - 1 + 2 * odd + apart) * step);
    above[i] = pickers[i].pick((step > 1 ? n + 2 - odd : k + 1 - 2 * odd + apart) * step);
  }
  // One at a time, so that a difference has one cause.
  for (std::size_t i = 0; i < count; ++i) {
    sets.push_back(base);
    sets.back()[i] = far[i];
  }
  // Where all change, the work is bounded: what has grown most takes a smaller size again.
  for (SizeSet* all : {&below, &above}) {
    constexpr double most_work = 10;
    const auto growth = [&](std::size_t i) {
      return static_cast<double>((*all)[i]) / static_cast<double>(std::max<std::int64_t>(base[i], 1));
    };
    for (std::size_t tries = 0; tries < count; ++tries) {
      double work = 1;
      std::size_t largest = 0;
      for (std::size_t i = 0; i < count; ++i) {
        work *= growth(i);
        if (growth(i) > growth(largest)) largest = i;
      }
      if (work <= most_work || count == 1) break;
      (*all)[largest] = std::min((*all)[largest], pickers[largest].pick(base[largest] + symbols[largest].multiple_of));
    }
    sets.push_back(*all);
  }
  std::vector<SizeSet> distinct;
  for (SizeSet& set : sets)
    if (std::find(distinct.begin(), distinct.end(), set) == distinct.end()) distinct.push_back(std::move(set));
  return distinct;
}

FXX_INLINE std::vector<SizeSet> smallest_sizes(std::span<const DynamicDim> dims, const SizeSet& base) {
  std::vector<SizeSet> sets;
  const std::vector<detail::SizeSymbol> symbols = detail::size_symbols(dims);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const auto& [name, minimum, maximum, step, input, dim] = symbols[i];
    const std::int64_t smallest = (std::max<std::int64_t>(minimum, 0) + step - 1) / step * step;
    if (smallest > maximum || smallest == base[i]) continue;
    sets.push_back(base);
    sets.back()[i] = smallest;
  }
  return sets;
}

}  // namespace fxx::inline FXX_ABI
