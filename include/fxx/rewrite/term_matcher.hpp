// A pattern matched by search with backtracking: what the decision tree cannot tell, and why something does not match.
//
// Works on the terms of a pattern as they stand, so it also serves as the measure that the trees are tested against.
// Takes the first of all ways to match for which `accept` agrees. Alternatives are tried in their order, operands in
// the order of the chain; lists and chains give their open parts as much as they can.
// Main names: TermMatcher, Found, explain. Cost: light. Matching costs O(pattern) where nothing is open; operands in
// any order can cost the factorial of their number in the pattern, which is small.
// The items of an `each` are read again only where that makes a difference to what stands outside of them: where they
// bind names that others share. Of n items that can be read in r ways, with s shared names that nothing bound before,
// O((n r)^s) beginnings are tried, each of them O(n); without such names one. The links of a chain may go on in several
// places: each node is then walked from once for every value of the shared names. Readings that differ in nothing that
// is shared only `accept` can tell apart, so at most `most_declined` of these are shown to it, 64 a search.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/rewrite/spelling.hpp"
#include "fxx/rewrite/term.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// What a search found.
struct Found {
  struct Binding {
    std::uint64_t id;
    Argument value;
    bool constant = false;  // by `with`
  };
  /// What one item of an `each`, or one link of a `chain`, bound.
  struct Item {
    std::uint64_t group;
    std::vector<Binding> bindings;
  };
  std::vector<Binding> bindings;
  std::vector<Item> items;
  std::vector<Node*> nodes;  // that calls of the pattern matched, root first
  std::vector<Node*> roots;  // one for each output of the pattern

  /// None when the name is not bound.
  Argument get(std::uint64_t id) const {
    for (const Binding& b : bindings)
      if (b.id == id) return b.value;
    return {};
  }
};

namespace detail {
/// May a capture of this kind hold the value?
inline bool is_of_kind(Term::Kind capture, const Argument& value) {
  using K = Term::Kind;
  switch (capture) {
    case K::tensor: return value.is_node();
    case K::optional: return value.is_node() || value.is_none();
    case K::constant: return value.is_node() && is_constant_value(*value.node());
    case K::scalar: return value.is_number();
    case K::sequence: return value.is_sequence();
    case K::size: return is_size_value(value);
    default: return capture == K::value;
  }
}
/// For people: "%tanh = aten::tanh", "2", "left out".
std::string words_for(const Node& node);
std::string words_for(const Argument* value);
/// "a call of aten::sigmoid": a term without what is below it.
std::string words_for(const Term& t);

/// A callable borrowed for the length of a call.
class Continue {
 public:
  template <class F>
    requires(!std::same_as<F, Continue>)
  Continue(const F& f)
      : object_(&f), call_([](const void* o) { return static_cast<bool>((*static_cast<const F*>(o))()); }) {}
  bool operator()() const { return call_(object_); }

 private:
  const void* object_;
  bool (*call_)(const void*);
};
}  // namespace detail

class TermMatcher {
 public:
  /// With `explain` it remembers the failure that came after most of the pattern had matched.
  explicit TermMatcher(bool explain = false) : explain_(explain) {}

  /// Looks for a way to match for which `accept(found)` is true.
  template <class Accept>
  bool match(const Term* pattern, Node* root, Accept&& accept) {
    reason_.clear();
    progress_ = -1;
    return match_next(pattern, root, accept);
  }
  /// The same, but the reason stays that of an earlier search until this one comes further.
  template <class Accept>
  bool match_next(const Term* pattern, Node* root, Accept&& accept) {
    found_ = {};
    declined_ = 0;
    passed_ = 0;
    const auto agreed = [&] {
      if (accept(static_cast<const Found&>(found_))) return true;
      ++declined_;
      return false;
    };
    return match_root(pattern, root, agreed);
  }
  Found take() { return std::move(found_); }
  /// "%add = aten::add.Tensor: ...", why the search failed; empty when it did not, or explains nothing.
  const std::string& reason() const { return reason_; }
  /// How much of the pattern had matched then; 0: not even its first operator; -1 before the first search.
  long progress() const { return progress_; }

 private:
  using Continue = detail::Continue;
  /// A value of a node's: an argument, or null for one that was left out.
  struct Subject {
    const Argument* value;
    const Node* user;            // whose argument it is; null for a root
    const Parameter* parameter;  // null for operands of modules
  };
  struct Mark {
    std::size_t bindings, items, nodes, roots;
    long passed;
  };
  /// How one item of an `each`, or one link of a `chain`, can be read.
  struct Way {
    std::vector<Found::Binding> shared, own;  // what it binds: for all items, for itself
    std::vector<Node*> nodes;
    Subject next;  // where a chain goes on
    bool alike;    // like an earlier way, for all that stands outside of the item
  };
  /// An item that has been read.
  struct Step {
    Mark before;
    Subject at, next;
    int declined, since;         // how often `accept` had declined before the item, and before this way of reading it
    bool left = false;           // an operand, to others
    std::vector<Way> ways = {};  // all of them, once the first has led nowhere
    std::size_t taken = 0;       // which of them
  };
  static constexpr int most_declined = 64;

  bool match_root(const Term* t, Node* root, Continue go_on);
  bool match(const Term* t, Subject s, Continue go_on);
  bool match_capture(const Term* t, Subject s, Continue go_on);
  bool match_call(const Term* t, Node* node, Continue go_on);
  bool match_arguments(const Term* next, int at, const Term* call, Node* node, bool changed_over, Continue go_on);
  bool match_items(const Term* next, int left, std::span<const Argument> items, Subject s, Continue go_on);
  bool match_operands(const Term* t, Node* node, Continue go_on);
  bool assign_operands(std::span<const Term* const> members, const std::vector<Subject>& operands,
                       std::vector<bool>& used, Continue go_on);
  bool match_chain(const Term* t, Subject s, Continue go_on);
  bool match_module(const Term* t, Node* node, Continue go_on);
  bool match_module_arguments(const Term* next, std::size_t at, std::size_t left, Node* node, Continue go_on);
  bool match_outputs(const Term* next, int left, Continue go_on);
  /// Matches as many items of the `each` or `chain` as there are, and then `then(steps)`; where that fails, reads them
  /// in other ways, and fewer of them. `next(steps)` is the next item, if any; one that does not match is the end of
  /// them, or is left to others. Without recursion over the items.
  template <class Next, class Then>
  bool match_group(const Term* group, bool may_leave, const Next& next, const Then& then);
  bool match_item(const Term* group, Step& step);
  bool match_item_again(const Term* group, Step& step);
  std::vector<Way> ways_of(const Term* group, Subject s);

  bool bind(std::uint64_t id, const Argument& value, std::string_view name, Continue go_on, bool constant = false);
  Argument value_of(Subject s) const;
  /// "argument 'dim' of %sum", for people.
  static std::string name_of(const Subject& s);
  Mark mark() const {
    return {found_.bindings.size(), found_.items.size(), found_.nodes.size(), found_.roots.size(), passed_};
  }
  void back_to(const Mark& m);
  /// Goes on behind a constant or a condition that holds, which tells as much as a name that is bound.
  bool pass(Continue go_on) {
    ++passed_;
    if (go_on()) return true;
    --passed_;
    return false;
  }
  long progress_here() const {
    return static_cast<long>(found_.nodes.size() * 64 + found_.bindings.size()) + passed_;
  }
  template <class Words>
  bool fail(Words&& words);

  Found found_;
  const Argument* hole_ = nullptr;
  const Node* hole_user_ = nullptr;
  int declined_ = 0;  // by `accept`
  long passed_ = 0;   // constants and conditions that hold, of what has matched
  bool explain_;
  std::string reason_;
  long progress_ = -1;
};

}  // namespace fxx::inline FXX_ABI::rewrite

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/term_matcher.ipp"
#endif
