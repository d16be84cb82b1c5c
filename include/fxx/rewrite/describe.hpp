// The decision tree of a rule set as text: which tests are made of a node, in which order, and where rules wait.
// Main names: describe. Linear in the tree. Cost: light.
#pragma once

#include <span>
#include <string>

#include "fxx/rewrite/ruleset.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {
/// A fused rule set without its types, so that the printing is compiled once.
struct TreeView {
  std::span<const State> states;
  std::span<const Branch> edges, roots;
  std::span<const CapturePlace> captures;
  std::span<const Entry* const> rules;
  int tests_before;
};
std::string describe_tree(const TreeView& tree);
}  // namespace detail

/// One line a test, those that follow when it holds indented below it; `=> name` where a rule matches, with what its
/// captures hold. %0 is the node that is looked at, %1 and up are what was found below it.
template <class... Rules>
std::string describe(const Ruleset<Rules...>&) {
  using F = detail::fused<Rules...>;
  return detail::describe_tree({F::data.tree.states,
                                {F::data.tree.edges, F::size.edges},
                                F::data.tree.roots,
                                {F::data.tree.captures, F::size.captures},
                                F::entries,
                                F::size.tests_before});
}

}  // namespace fxx::inline FXX_ABI::rewrite

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/describe.ipp"
#endif
