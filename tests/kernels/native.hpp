// What the tests of kernels for one processor share: numbers to compute with, errors beside what is allowed.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "fxx/kernels/tile.hpp"
#include "fxx/kernels/vector.hpp"
#include "kernels/errors.hpp"

namespace fxx::test {

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}
/// The same without signs: their sums cancel nothing, so what each addition loses counts.
inline std::vector<float> positive_floats(std::size_t count, unsigned seed) {
  std::vector<float> numbers = random_floats(count, seed);
  for (float& x : numbers) x = x < 0 ? -x : x;
  return numbers;
}
/// Units of 2^-23 of the sum of magnitudes that a product of such numbers may be off by.
inline double units_without_signs(int depth) {
  return 1 + std::sqrt(depth < kernels::longest_chain ? depth : kernels::longest_chain) / 2.;
}

}  // namespace fxx::test
