// Bodies of rewrite/describe.hpp.
#pragma once

#include <bit>

#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/describe.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

class TreePrinter {
 public:
  explicit TreePrinter(const TreeView& tree) : tree_(tree) {}

  std::string print() {
    const auto counted = [](std::size_t n, const std::string& what) {
      return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
    };
    text_ = counted(tree_.rules.size(), "rule") + " on " + counted(tree_.roots.size(), "operator") + ": " +
            counted(static_cast<std::size_t>(tree_.tests_before), "test") + " in " +
            counted(tree_.states.size(), "state") + "\n";
    for (const Branch& root : tree_.roots) {
      enter(0, root.op);
      line(0, "%0 is " + std::string(names_[0]));
      below(root.state, tree_.states.size(), 1);
    }
    return std::move(text_);
  }

 private:
  /// The states from `pc` on that are tried one after the other, up to the state `end`.
  void below(std::size_t pc, std::size_t end, std::size_t depth) {
    using K = Test::Kind;
    while (pc < end) {
      const State& s = tree_.states[pc];
      if (s.kind() == K::halt || s.kind() == K::jump || s.kind() == K::again) return;
      if (s.kind() == K::accept) {
        line(depth, "=> " + rule(s));
        ++pc;
        continue;
      }
      if (s.kind() == K::select) {
        for (const Branch& branch : tree_.edges.subspan(s.payload, s.edges)) {
          line(depth, operand(s, branch.op));
          below(branch.state, s.fail, depth + 1);
        }
      } else {
        line(depth, s.kind() == K::op ? operand(s, s.payload) : test(s));
        below(pc + 1, s.fail, depth + 1);
      }
      pc = s.fail;
    }
  }

  void line(std::size_t depth, const std::string& words) { text_ += std::string(2 * depth, ' ') + words + "\n"; }
  void enter(std::size_t reg, std::uint64_t op) {
    for (const Entry* rule : tree_.rules)
      for (int i = 0; i < rule->pattern->size; ++i)
        if (rule->pattern[i].id == op && (rule->pattern[i].op || rule->pattern[i].kind == Term::Kind::module)) {
          operators_[reg] = rule->pattern[i].op;
          names_[reg] = rule->pattern[i].op ? rule->pattern[i].op->name : rule->pattern[i].name;
        }
  }
  std::string operand(const State& s, std::uint64_t op) {
    enter(s.other().reg, op);
    return name(s.place()) + " = %" + std::to_string(s.other().reg) + " is " + std::string(names_[s.other().reg]);
  }
  /// "%1.input", "%0.tensors[2]".
  std::string name(Place place) const {
    if (place.arg == Place::self) return "%" + std::to_string(place.reg);
    const std::string parameter(operators_[place.reg]->parameters[place.arg].name);
    return "%" + std::to_string(place.reg) + "." + parameter +
           (place.item == Place::whole ? "" : "[" + std::to_string(place.item) + "]");
  }

  std::string test(const State& s) const {
    using K = Test::Kind;
    const auto number = [&] { return repr(std::bit_cast<double>(s.payload)); };
    const std::string left_out = s.left_out ? " or left out" : "";
    switch (s.kind()) {
      case K::order: return "%" + std::to_string(s.place().reg) + " in both orders of its first two arguments";
      case K::once: return "%" + std::to_string(s.place().reg) + " has one user";
      case K::number: return name(s.place()) + " == " + number() + left_out;
      case K::near: return name(s.place()) + " is near " + number();
      case K::literal:
        if (s.literal->kind == Literal::Kind::other || s.literal->kind == Literal::Kind::absent)
          return name(s.place()) + " left out";
        return name(s.place()) + " == " + to_string(to_argument(*s.literal)) + left_out;
      case K::node: return name(s.place()) + " is a node";
      case K::optional: return name(s.place()) + " is a node or None" + left_out;
      case K::constant: return name(s.place()) + " is a constant";
      case K::scalar: return name(s.place()) + " is a number" + left_out;
      case K::sequence: return name(s.place()) + " is a list" + left_out;
      case K::size: return name(s.place()) + " is a size" + left_out;
      case K::condition: return name(s.place()) + " is " + std::string(s.condition->name);
      case K::list: return name(s.place()) + " is a list of " + std::to_string(s.payload);
      case K::equal: return name(s.place()) + " is the same as " + name(s.other());
      default: return "?";
    }
  }
  /// "silu: x = %0.self"
  std::string rule(const State& s) const {
    const Entry& entry = *tree_.rules[s.rule];
    std::string captures;
    for (const CapturePlace& capture : tree_.captures.subspan(s.payload, s.other().arg))
      for (int i = 0; i < entry.pattern->size; ++i)
        if (binds_name(entry.pattern[i]) && entry.pattern[i].id == capture.id) {
          captures += (captures.empty() ? ": " : ", ") + std::string(entry.pattern[i].name) + " = " +
                      (capture.constant ? to_string(to_argument(*capture.constant)) : name(capture.place()));
          break;
        }
    return std::string(entry.name) + captures + (needs_search(entry.pattern) ? ", searches the rest" : "") +
           (entry.conditional ? ", may decline" : "");
  }

  const TreeView& tree_;
  const Operator* operators_[max_registers] = {};  // what was found on the way; null for a module
  std::string_view names_[max_registers] = {};
  std::string text_;
};

FXX_INLINE std::string describe_tree(const TreeView& tree) { return TreePrinter(tree).print(); }

}  // namespace detail

}  // namespace fxx::inline FXX_ABI::rewrite
