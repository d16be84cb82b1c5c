// Finding a graph within a graph, while the program runs: the pattern is any Graph.
//
// A node matches one that computes the same: operators in any spelling, function, method, positional, keyword, defaults
// given or not; wrapped functions; modules of the same type and options, or, where nobody knows the modules, of the same
// name; any attribute. Numbers match by value, as in rules. Inputs of the pattern match anything, literals and lists
// too. The first two arguments of a commutative operator match in either order.
// A match is one that can be replaced: nobody outside uses what is inside (but for what the pattern returns), no path
// leaves it and comes back, and no write that others can see lies within it.
// Main names: SubgraphMatcher, SubgraphMatcherWithNameNodeMap, SubgraphMatcherOptions, InternalMatch, NodesMap, explain.
// O(nodes x size of the pattern) for a pattern that hangs together; one in parts costs as many candidates for each
// anchor as it has in the worst case. Nothing recurses over the depth of a graph. Rules (rewrite/rule.hpp) are checked
// by the compiler and a thousand times as fast. Cost: light. After torch.fx passes/utils/matcher_utils.py, 2.13.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/rewrite/matcher.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// What nodes of a pattern stand for: nodes of the graph, or for an input of the pattern any value.
class NodesMap {
 public:
  struct Entry {
    const Node* pattern_node;
    Argument value;
  };
  /// In the order in which the pattern's nodes were made.
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }

  /// Null for a node that stands for nothing: an input that the pattern does not use. O(log size).
  const Argument* find(const Node* pattern_node) const;
  /// The same by the name that the node has in the pattern. O(size).
  const Argument* find(std::string_view pattern_name) const;
  /// Throw GraphError (E101) when the node stands for nothing.
  const Argument& operator[](const Node* pattern_node) const;
  const Argument& operator[](std::string_view pattern_name) const;
  /// The node; throws GraphError (E112) besides when it stands for something else.
  Node* node(const Node* pattern_node) const { return (*this)[pattern_node].node(); }
  Node* node(std::string_view pattern_name) const { return (*this)[pattern_name].node(); }

  /// For those who make one; entries come in the order of Node::index().
  std::vector<Entry> entries_;
};

struct InternalMatch {
  /// The nodes of the graph by which the match was found: for each of the pattern's anchors, those results that nobody
  /// in the pattern uses, one.
  std::vector<Node*> anchors;
  NodesMap nodes_map;
  /// What each input of the pattern stands for, in order; None for one that it does not use.
  std::vector<Argument> placeholder_nodes;
  /// The nodes whose values the pattern computes and returns, each once, in the order of its output.
  std::vector<Node*> returning_nodes;
  /// Nodes by the names that the pattern gives them (SubgraphMatcherWithNameNodeMap).
  std::map<std::string, Argument, std::less<>> name_node_map;

  /// The nodes that the match is made of, in the order of the graph: no inputs, no attributes, not the output.
  std::vector<Node*> nodes() const;
};

struct SubgraphMatcherOptions {
  /// The pattern's output has to be the graph's.
  bool match_output = false;
  /// The pattern's inputs have to be inputs of the graph.
  bool match_placeholder = false;
  /// Of matches that share a node only the first counts, in the order of the graph.
  bool remove_overlapping_matches = true;
  /// Literals need not be equal; lists of literals neither.
  bool ignore_literals = false;
};

namespace detail {
/// What a search asks of every match that it finds: take it?
struct MatchQuestion {
  const void* object;
  bool (*ask)(const void* object, const InternalMatch&);
};
class SubgraphSearch;
}  // namespace detail

class SubgraphMatcher {
 public:
  /// Reads `pattern`, which outlives the matcher and its matches. Throws RuleError (E403) for a pattern that is empty,
  /// has no output, computes nothing, or has nodes that its results do not depend on.
  explicit SubgraphMatcher(const Graph& pattern, SubgraphMatcherOptions options = {})
      : SubgraphMatcher(pattern, options, false) {}
  explicit SubgraphMatcher(Graph&& pattern, SubgraphMatcherOptions options = {}) = delete;

  /// All matches, in the order of the graph.
  std::vector<InternalMatch> match(const Graph& graph) const { return search(graph, nullptr); }
  /// Those that `accept(const InternalMatch&)` agrees to; one that it declines hides no other.
  template <class F>
    requires std::is_invocable_r_v<bool, const F&, const InternalMatch&>
  std::vector<InternalMatch> match(const Graph& graph, const F& accept) const {
    const detail::MatchQuestion question{&accept, [](const void* object, const InternalMatch& m) -> bool {
                                           return (*static_cast<const F*>(object))(m);
                                         }};
    return search(graph, &question);
  }

  const Graph& pattern() const { return *pattern_; }
  const SubgraphMatcherOptions& options() const { return options_; }
  std::span<const Node* const> pattern_placeholder_nodes() const { return placeholders_; }
  /// What the pattern computes and returns, each once.
  std::span<const Node* const> pattern_returning_nodes() const { return returning_; }
  std::span<const Node* const> pattern_anchors() const { return anchors_; }
  /// What the pattern returns: without the map of names, when it has one.
  const Argument& pattern_result() const { return result_; }

 protected:
  SubgraphMatcher(const Graph& pattern, SubgraphMatcherOptions options, bool with_names);

 private:
  friend class detail::SubgraphSearch;
  /// How to come from what the earlier anchors found to candidates for this one: from a node of the pattern up through
  /// users.
  struct Link {
    const Node* from = nullptr;
    std::vector<const Node*> steps;  // the anchor last
  };
  void take_output(bool with_names);
  void reach_from_anchors();
  [[noreturn]] void refuse(const std::string& why, const Node* node = nullptr) const;
  std::vector<InternalMatch> search(const Graph& graph, const detail::MatchQuestion* question) const;

  const Graph* pattern_;
  SubgraphMatcherOptions options_;
  std::vector<const Node*> placeholders_, returning_, anchors_;
  std::vector<Link> links_;     // one an anchor
  std::vector<bool> returned_;  // by the index of the pattern's node
  Argument result_;
  std::vector<std::pair<std::string, const Node*>> names_;
};

/// A pattern that names nodes for those who look at matches: its last result is a map of names,
/// `return std::tuple{y, std::map<std::string, Proxy>{{"product", product}}};`. The map is no part of what is matched.
class SubgraphMatcherWithNameNodeMap : public SubgraphMatcher {
 public:
  /// Throws RuleError (E403) besides when the last result is no map of names.
  explicit SubgraphMatcherWithNameNodeMap(const Graph& pattern, SubgraphMatcherOptions options = {})
      : SubgraphMatcher(pattern, options, true) {}
  explicit SubgraphMatcherWithNameNodeMap(Graph&& pattern, SubgraphMatcherOptions options = {}) = delete;
};

/// Why the pattern is not found where `node` is the first of its anchors, in one sentence: what failed after most of the
/// pattern had matched. "" when it matches there. Overlaps with other matches are not looked at. O(nodes).
std::string explain(const SubgraphMatcher& matcher, Node* node);

namespace detail {

/// Is the last of several results a map of names?
bool returns_names(const Graph& pattern);
/// Is it neither an input, whose value is only passed on, nor an attribute, nor the output?
bool computes(const Node& node);
/// Do two values without nodes say the same to a parameter of this type? 1 == 1.0; a number is a list of `int[2]`.
bool same_literal(const Argument& a, const Argument& b, Type type);

}  // namespace detail

}  // namespace fxx::inline FXX_ABI::rewrite

namespace fxx::inline FXX_ABI {
using rewrite::explain;
using rewrite::InternalMatch;
using rewrite::NodesMap;
using rewrite::SubgraphMatcher;
using rewrite::SubgraphMatcherOptions;
using rewrite::SubgraphMatcherWithNameNodeMap;
}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/subgraph_matcher.ipp"
#endif
