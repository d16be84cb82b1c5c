// The way back from a pattern to a graph: nodes that the pattern matches, in any of its readings.
//
// Whoever asks decides what the pattern leaves open: which alternative, which order, whether an argument that has its
// default is written, and what captures and wildcards hold. All switching over kinds of terms is here.
// Main names: Hole, Instantiation, instantiate, call_chain. Cost: light.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/rewrite/survey.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// A place that a pattern leaves open: a capture where it stands for the first time, or a wildcard.
struct Hole {
  enum class Wants : std::uint8_t {
    node,          // a tensor
    constant,      // a tensor that does not depend on the inputs
    node_or_none,  // a tensor or None
    number,
    anything,  // what the operator takes there
  };
  Wants wants = Wants::anything;
  std::string_view capture = {};          // empty for a wildcard
  const Operator* op = nullptr;           // the call whose argument it is
  int parameter = 0;                      // which argument
  int item = -1;                          // in a list that the pattern spells out; else -1
  Type type = {};                         // what the operator takes in this place
  std::span<const Argument> before = {};  // the arguments of the call that stand before this one, or this list
  std::span<const Argument> items = {};   // the items of the list that stand before this one
  const Hole* outer = nullptr;            // the place of the call itself; null at the root

  /// The capture's name; of a wildcard the parameter's.
  std::string_view name() const {
    return capture.empty() ? op->parameters[static_cast<std::size_t>(parameter)].name : capture;
  }
};

/// Answers what a pattern leaves open.
class Instantiation {
 public:
  virtual ~Instantiation() = default;
  /// A number below `among`. 0 is always the plainest reading.
  virtual std::size_t choose(std::size_t among) = 0;
  /// The argument for a hole: a node that was put into the graph, or an immediate. Asked once a capture.
  virtual Argument fill(Graph& graph, const Hole& hole) = 0;
  /// A call was made; its arguments stand before it.
  virtual void made(Node& call) = 0;
};

/// Puts nodes that `pattern` matches at the end of the graph. Returns their root; for siblings, which share the capture
/// `shared`, two or three roots; for several outputs a root each. Conditions are not looked at. Throws RuleError (E411)
/// for a pattern with a module; what `answers` throws passes. O(size of the pattern).
std::vector<Argument> instantiate(Graph& graph, const Term* pattern, std::uint64_t shared, Instantiation& answers);

/// Calls `op` on one operand or more from the left, `a + b + c`, numbers last: operators take them second. Gives the
/// value, and adds the calls to `made`; of one operand alone there are none.
Argument call_chain(Graph& graph, const Operator& op, std::span<Argument> operands, std::vector<Node*>& made);

}  // namespace fxx::inline FXX_ABI::rewrite

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/instantiate.ipp"
#endif
