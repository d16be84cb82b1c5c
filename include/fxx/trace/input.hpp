// One input of a traced function, as the hook that makes placeholders sees it.
//
// Main names: InputLeaf. Cost: light.
#pragma once

#include <any>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fxx/ir/argument.hpp"

namespace fxx::inline FXX_ABI {

/// One input of the function that is traced, after containers were taken apart.
struct InputLeaf {
  std::string name = {};
  std::optional<Argument> default_value = {};
  std::string type = {};  // as C++ spells it
  std::vector<std::pair<std::string, std::any>> meta = {};
  bool bound = false;      // to a constant
  Argument constant = {};  // of a bound one: its value, when `checked`
  bool checked = false;    // the graph checks that it is given this value; others have a type that a graph cannot hold
};

}  // namespace fxx::inline FXX_ABI
