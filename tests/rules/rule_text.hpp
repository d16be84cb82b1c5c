// A rule as one line of text, for docs/rules.md: "mul(x, sigmoid(x)) → silu(x)".
#pragma once

#include <string>

#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/matcher.hpp"
#include "fxx/rewrite/ruleset.hpp"

namespace fxx::test {

/// Prints the terms of a pattern. Conditions stand behind what they ask of, by their names; those without one are "?".
class TermText {
 public:
  explicit TermText(const rewrite::Term* t) { print(t); }
  std::string take() { return std::move(text_); }

 private:
  using Term = rewrite::Term;
  using K = Term::Kind;

  /// Names may have spaces: "given scale" is one word in the text.
  void name(std::string_view of) {
    for (const char c : of) text_ += c == ' ' ? '_' : c;
  }
  void members(const Term* first, int count, std::string_view between) {
    for (int i = 0; i < count; ++i, first += first->size) {
      if (i > 0) text_ += between;
      print(first);
    }
  }
  void call(const Term* t) {
    name(t->op->base_name());
    text_ += '(';
    bool first = true, gap = false;  // behind a parameter that is left out arguments have names
    const Term* child = t + 1;
    for (int i = 0; i < t->children; ++i, child += child->size) {
      if (child->kind == K::standard) {
        gap = true;
        continue;
      }
      if (!first) text_ += ", ";
      first = false;
      if (gap) text_ += std::string(t->op->parameters[static_cast<std::size_t>(i)].name) + "=";
      print(child);
    }
    text_ += t->once ? ").once" : ")";
  }
  /// Calls with the same arguments share them: "(floor | ceil)(x)".
  void alternatives(const Term* t) {
    std::string names, all, arguments;
    bool alike = true;
    const Term* child = t + 1;
    for (int i = 0; i < t->children; ++i, child += child->size) {
      const std::string one = TermText(child).take();
      const std::size_t bracket = child->kind == K::call ? one.find('(') : 0;
      if (i == 0) arguments = one.substr(bracket);
      alike = alike && bracket > 0 && one.substr(bracket) == arguments;
      names += (i ? " | " : "") + one.substr(0, bracket);
      all += (i ? " | " : "") + one;
    }
    text_ += alike ? "(" + names + ")" + arguments : "(" + all + ")";
  }
  void print(const Term* t) {
    switch (t->kind) {
      case K::call: return call(t);
      case K::alternatives: return alternatives(t);
      case K::list:
        text_ += '[';
        members(t + 1, t->children, ", ");
        text_ += ']';
        return;
      case K::outputs:
        text_ += "outputs(";
        members(t + 1, t->children, ", ");
        text_ += ')';
        return;
      case K::literal:
      case K::standard: text_ += to_string(fxx::to_argument(*t->value)); return;
      case K::near: text_ += "~" + to_string(fxx::to_argument(*t->value)); return;
      case K::where:
        print(t + 1);
        text_ += "{" + (t->condition->name.starts_with("a condition of") ? "?" : std::string(t->condition->name)) + "}";
        return;
      case K::named:
        name(t->name);
        text_ += ":";
        print(t + 1);
        return;
      case K::bound:
        print(t + 1);
        text_ += "{";
        name(t->name);
        text_ += " = " + to_string(fxx::to_argument(*t->value)) + "}";
        return;
      case K::rest:
        text_ += "...";
        name(t->name);
        return;
      case K::each:
        text_ += "each(";
        print(t + 1);
        text_ += ')';
        return;
      case K::operands: {
        name(t->op->base_name());
        text_ += "'s operands(";
        const int operators = static_cast<int>(t->id);
        members(t + 1 + operators, t->children - operators, ", ");
        text_ += ')';
        return;
      }
      case K::chain:
        text_ += "chain(";
        members(t + 1, 2, ", ");
        text_ += ')';
        return;
      case K::hole:
      case K::any: text_ += '_'; return;
      case K::module:
        name(t->name);
        text_ += '(';
        members(t + 1, t->children, ", ");
        text_ += ')';
        return;
      default: name(t->name);
    }
  }
  std::string text_;
};

template <class Rule>
std::string rule_text() {
  using P = typename Rule::pattern;
  std::string text = TermText(rewrite::flat<P>.data()).take();
  if constexpr (rewrite::Siblings<P>) text = "siblings " + text;
  text += " → ";
  if constexpr (rewrite::Builds<Rule>) return text + "built";
  else return text + TermText(rewrite::flat<typename Rule::replacement>.data()).take();
}

}  // namespace fxx::test
