// Bodies of rewrite/law.hpp.
#pragma once

#include <utility>

#include "fxx/rewrite/law.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::string to_string(Law law) {
  static constexpr std::pair<Law, const char*> words[] = {{law::no_overflow, "no overflow"},
                                                          {law::sums, "no sum that overflows"},
                                                          {law::finite, "finite inputs"},
                                                          {law::finite_weights, "finite weights"},
                                                          {law::finite_results, "finite results"},
                                                          {law::visible, "queries that see a key"},
                                                          {law::formula, "the operator's formula"},
                                                          {law::unsigned_zero, "zeros without a sign"}};
  std::string text;
  for (const auto& [need, word] : words)
    if ((law & need) != law::exact) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

}  // namespace fxx::inline FXX_ABI
