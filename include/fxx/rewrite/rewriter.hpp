// Applying a rule set to a graph until nothing matches.
//
// One sweep from the end, so that the largest pattern is seen first, then a work list of what the changes touched.
// Linear in nodes plus rewrites. Ends after `limit` rewrites at the latest; the graph is equivalent to what it was at
// every moment.
// Main names: RewriteOptions, RewriteReport, rewrite_graph. Cost: light.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fxx/ir/fwd.hpp"
#include "fxx/rewrite/law.hpp"

namespace fxx::inline FXX_ABI::rewrite {

struct RuleTable;

struct RewriteOptions {
  /// Rewrites after which to stop, and to ask no callable any more; 0: 1000 + 100 for every node.
  std::size_t limit = 0;
  /// Whether the report tells of every single rewrite, in RewriteReport::firings.
  bool record = false;
  /// Whether the report says of every rule that never fired where it came nearest to it, in RewriteReport::near_misses.
  /// Takes a search for each of them at all nodes that are left: O(rules x nodes).
  bool near_misses = false;
  /// What may be taken for granted of the numbers in tensors: rules whose law needs more are left out.
  Law assume = law::any;
};

struct RewriteReport {
  struct Fired {
    std::string rule;
    std::size_t times = 0;
  };
  /// One rewrite: `node`, of that line of the user's code, went. A node that the same run made has no name yet: it is
  /// called as what it stands for, or by its target.
  struct Firing {
    std::string rule, node, source;
  };
  /// A rule that never fired. `node` is the one of the graph, as it is in the end, at which most of the pattern is
  /// there, and `why` what `explain` says of it: the first condition that failed. No node, when none has the operator
  /// that the pattern begins with.
  struct NearMiss {
    std::string rule, node, why;
  };
  std::size_t rewrites = 0, visited = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
  bool stopped_at_limit = false;
  /// What the rules that fired need: the graph gives what it gave before for all inputs that this leaves.
  Law needs = law::exact;
  std::vector<Fired> fired;     // one per rule, in their order
  std::vector<Firing> firings;  // in the order in which they happened; only with RewriteOptions::record
  /// In the order of the rules; only with RewriteOptions::near_misses, and when the limit was not reached.
  std::vector<NearMiss> near_misses;

  /// How often the rule fired; 0 for a name that is not there.
  std::size_t operator[](std::string_view rule) const {
    for (const Fired& f : fired)
      if (f.rule == rule) return f.times;
    return 0;
  }
  /// "fold batch norm: 20, relu twice: 1": the rules that fired.
  std::string to_string() const;
  /// Throws RuleError (E401), which names the rules that fired most, when the limit stopped the rewriting.
  void check() const;
  /// Adds what a later run over the same graph reports. Rules of one name are one.
  void add(RewriteReport later);
};

/// Throws whatever a guard or a callable replacement throws, after removing what the callable built; RuleError (E402)
/// when a replacement returns something that cannot stand for the matched node.
RewriteReport rewrite_graph(Graph& graph, const RuleTable& rules, const RewriteOptions& options);

}  // namespace fxx::inline FXX_ABI::rewrite

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/rewriter.ipp"
#endif
