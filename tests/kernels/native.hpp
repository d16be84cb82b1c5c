// What the tests of kernels for one processor share: numbers to compute with.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "fxx/kernels/vector.hpp"

namespace fxx::test {

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

}  // namespace fxx::test
