// Bodies of trace/symbolic.hpp.
#pragma once

#include "fxx/error.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::vector<std::string> detail::input_names(std::span<const std::string> given, std::size_t count) {
  if (given.size() > count)
    throw TraceError(ErrorId::unsupported_argument, "symbolic_trace: " + std::to_string(given.size()) +
                                                        " input names were given; the function takes " +
                                                        std::to_string(count) + " inputs");
  std::vector<std::string> names(given.begin(), given.end());
  for (std::size_t i = names.size(); i < count; ++i) names.push_back(count == 1 ? "x" : "arg" + std::to_string(i));
  return names;
}

}  // namespace fxx::inline FXX_ABI
