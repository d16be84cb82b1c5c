// How the inputs of a module are put together from the placeholders of its graph, where they are more than one tensor
// each: a list of three tensors is one input and three placeholders.
//
// A graph has a signature only when some input is a container. Text of a graph does not show it.
// Main names: Structure, Signature. Cost: light. After torch.fx graph.py _PyTreeInfo, 2.13.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/ir/argument.hpp"

namespace fxx::inline FXX_ABI {

/// One value, or a container of such.
struct Structure {
  enum class Kind : std::uint8_t { leaf, tuple, list, dict };
  Kind kind = Kind::leaf;
  std::string placeholder = {};  // of a leaf: the target of the placeholder that takes it
  std::vector<Structure> items = {};
  std::vector<Argument> keys = {};  // of a dict, one an item
  bool operator==(const Structure&) const = default;

  /// Calls `f(leaf)` for every leaf, from left to right.
  template <class F>
  void for_each_leaf(F&& f) const {
    if (kind == Kind::leaf) return f(*this);
    for (const Structure& item : items) item.for_each_leaf(f);
  }
  template <class F>
  void for_each_leaf(F&& f) {
    if (kind == Kind::leaf) return f(*this);
    for (Structure& item : items) item.for_each_leaf(f);
  }
};

struct Signature {
  struct Input {
    std::string name;
    Structure structure;
    bool operator==(const Input&) const = default;
  };
  std::vector<Input> inputs;
  bool operator==(const Signature&) const = default;

  /// Is every input one value? Then placeholders are the inputs, and no signature is needed.
  bool flat() const {
    for (const Input& input : inputs)
      if (input.structure.kind != Structure::Kind::leaf) return false;
    return true;
  }
  /// Targets of the placeholders, in order.
  std::vector<std::string_view> leaves() const {
    std::vector<std::string_view> targets;
    for (const Input& input : inputs)
      input.structure.for_each_leaf([&](const Structure& leaf) { targets.push_back(leaf.placeholder); });
    return targets;
  }
};

/// Values for placeholders out of those for inputs: containers are taken apart by `part(const V& container, const
/// Structure&, index)`, which checks that it fits. `targets` are those of the placeholders in their order; what the
/// signature does not name takes the inputs that follow. A placeholder that no input was given for gets none; inputs
/// left over come last.
template <class V, class Part>
std::vector<std::optional<V>> take_apart(const Signature& signature, std::span<const std::string> targets,
                                         std::span<const V> inputs, Part&& part) {
  std::vector<std::pair<std::string_view, V>> leaves;
  const auto add = [&](const auto& self, const Structure& structure, const V& value) -> void {
    if (structure.kind == Structure::Kind::leaf) leaves.emplace_back(structure.placeholder, value);
    for (std::size_t i = 0; i < structure.items.size(); ++i) self(self, structure.items[i], part(value, structure, i));
  };
  const std::size_t known = inputs.size() < signature.inputs.size() ? inputs.size() : signature.inputs.size();
  for (std::size_t i = 0; i < known; ++i) add(add, signature.inputs[i].structure, inputs[i]);
  const std::vector<std::string_view> named = signature.leaves();
  std::vector<std::optional<V>> out;
  std::size_t next = known;
  std::size_t guess = 0;  // leaves mostly stand in the order of the placeholders
  for (const std::string& target : targets) {
    std::size_t at = guess;
    if (at >= leaves.size() || leaves[at].first != target)
      for (at = 0; at < leaves.size() && leaves[at].first != target;) ++at;
    if (at < leaves.size()) {
      out.push_back(leaves[at].second);
      guess = at + 1;
      continue;
    }
    bool of_signature = false;
    for (std::string_view name : named) of_signature = of_signature || name == target;
    if (!of_signature && next < inputs.size()) out.push_back(inputs[next++]);
    else out.emplace_back();
  }
  for (; next < inputs.size(); ++next) out.push_back(inputs[next]);
  return out;
}

}  // namespace fxx::inline FXX_ABI
