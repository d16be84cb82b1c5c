// An operator's schema, parsed at compile time: "aten::relu(Tensor self) -> Tensor" becomes an Operator.
//
// The same constexpr code parses the schemas that arrive while the program runs (ops/registry.hpp).
// Main names: SchemaSize, measure_schema, parse_schema, parse_literal. Linear in the text. Cost: light.
#pragma once

#include <cstdint>
#include <string_view>

#include "fxx/ir/operator.hpp"
#include "fxx/meta/fixed_string.hpp"

namespace fxx::inline FXX_ABI {

struct SchemaSize {
  std::size_t parameters = 0, returns = 0;
  bool well_formed = false;
};

namespace detail {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

/// End of the piece that starts at `from`: the next comma or closing bracket at the same depth, quotes respected.
constexpr std::size_t end_of_piece(std::string_view text, std::size_t from) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      if (depth-- == 0) return i;
    } else if (c == ',' && depth == 0) {
      return i;
    }
  }
  return text.npos;
}
constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// `Tensor(a!)?[]`: reads type and alias, leaves the cursor behind them.
constexpr bool parse_type(std::string_view text, std::size_t& at, Type& type, char& alias, bool& written) {
  const std::size_t start = at;
  while (at < text.size() && is_word(text[at])) ++at;
  const std::string_view name = text.substr(start, at - start);
  if (name.empty()) return false;
  if (name == "Tensor") type.base = ValueType::tensor;
  else if (name == "Scalar") type.base = ValueType::scalar;
  else if (name == "int" || name == "SymInt") type.base = ValueType::integer, type.symbolic = name == "SymInt";
  else if (name == "float") type.base = ValueType::real;
  else if (name == "bool") type.base = ValueType::boolean;
  else if (name == "str") type.base = ValueType::string;
  else if (name == "ScalarType") type.base = ValueType::dtype;
  else if (name == "Layout") type.base = ValueType::layout;
  else if (name == "MemoryFormat") type.base = ValueType::memory_format;
  else if (name == "Device") type.base = ValueType::device;
  else if (name == "Generator") type.base = ValueType::generator;
  else type.base = ValueType::other;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '(') {
      const std::size_t close = text.find(')', at);
      if (close == text.npos) return false;
      const std::string_view set = text.substr(at + 1, close - at - 1);
      if (!set.empty()) alias = set[0];
      written = set.find('!') != set.npos;
      at = close + 1;
    } else if (c == '[') {
      type.list = true;
      type.optional_items = type.optional;
      type.optional = false;
      for (++at; at < text.size() && is_digit(text[at]); ++at)
        type.list_size = static_cast<std::uint8_t>(type.list_size * 10 + (text[at] - '0'));
      if (at == text.size() || text[at] != ']') return false;
      ++at;
    } else if (c == '?') {
      type.optional = true;
      ++at;
    } else {
      break;
    }
  }
  return true;
}

/// What stands behind `->`: one type, or several in brackets, each with a name or without. Calls `f(type, alias,
/// written, name)` for each; false when the text is nothing of the kind.
template <class F>
constexpr bool parse_results(std::string_view text, F&& f) {
  if (text == "()") return true;
  const bool several = !text.empty() && text[0] == '(';
  for (std::size_t at = several ? 1 : 0;; ++at) {
    while (several && at < text.size() && text[at] == ' ') ++at;
    Type type;
    char alias = 0;
    bool written = false;
    if (!parse_type(text, at, type, alias, written)) return false;
    std::size_t name = at;
    if (several && at < text.size() && text[at] == ' ')
      for (name = ++at; at < text.size() && is_word(text[at]);) ++at;
    f(type, alias, written, text.substr(name, at - name));
    if (!several || at >= text.size()) return !several && at == text.size();
    if (text[at] == ')') return at + 1 == text.size();
    if (text[at] != ',') return false;
  }
}

}  // namespace detail

/// A default value or a number in a pattern: None, True, 3, -1.5e-3, "text", [1, 1]. Anything else is Kind::other.
constexpr Literal parse_literal(std::string_view text) {
  using Kind = Literal::Kind;
  const Literal unreadable{.kind = Kind::other};
  if (text == "None") return {.kind = Kind::none};
  if (text == "True") return Literal::of(true);
  if (text == "False") return Literal::of(false);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    return Literal::of(text.substr(1, text.size() - 2));
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    Literal list{.kind = Kind::integers};
    for (std::size_t at = 1; at + 1 < text.size();) {
      const std::size_t end = detail::end_of_piece(text, at);
      const Literal item = parse_literal(detail::trimmed(text.substr(at, end - at)));
      if (item.kind != Kind::integer || list.count == Literal::max_items) return unreadable;
      list.items[list.count++] = item.integer;
      at = end + 1;
    }
    return list;
  }
  std::size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) ++i;
  if (i == text.size()) return unreadable;
  // Digits as a whole number with a power of ten apart, so that 0.1 is the double nearest to 0.1.
  std::int64_t whole = 0;
  int power = 0;
  bool real = false, fraction = false, digits = false;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (detail::is_digit(c)) {
      digits = true;
      if (whole > 900'000'000'000'000'000) return unreadable;
      whole = whole * 10 + (c - '0');
      if (fraction) --power;
    } else if (c == '.' && !real) {
      real = fraction = true;
    } else if ((c == 'e' || c == 'E') && i + 1 < text.size()) {
      real = true;
      const bool down = text[i + 1] == '-';
      int exponent = 0;
      for (i += down || text[i + 1] == '+' ? 2 : 1; i < text.size(); ++i) {
        if (!detail::is_digit(text[i]) || exponent > 400) return unreadable;
        exponent = exponent * 10 + (text[i] - '0');
      }
      power += down ? -exponent : exponent;
    } else {
      return unreadable;
    }
  }
  if (!digits) return unreadable;
  if (!real) return Literal::of(negative ? -whole : whole);
  double scale = 1;
  for (int k = power < 0 ? -power : power; k > 0; --k) scale *= 10;
  const double value = power < 0 ? static_cast<double>(whole) / scale : static_cast<double>(whole) * scale;
  return Literal::of(negative ? -value : value);
}

/// How many parameters and returns a schema has, and whether it is one.
constexpr SchemaSize measure_schema(std::string_view text) {
  SchemaSize size;
  const std::size_t open = text.find('('), space = text.find("::");
  if (open == text.npos || space == text.npos || space == 0 || space + 2 >= open || space > open) return size;
  for (char c : text.substr(0, open))
    if (!detail::is_word(c) && c != ':' && c != '.') return size;
  std::size_t at = open + 1;
  while (at < text.size() && text[at] != ')') {
    const std::size_t end = detail::end_of_piece(text, at);
    if (end == text.npos || text[end] == ']') return size;
    if (detail::trimmed(text.substr(at, end - at)) != "*") ++size.parameters;
    at = text[end] == ',' ? end + 1 : end;
  }
  if (at >= text.size() || !text.substr(at).starts_with(") -> ")) return size;
  size.well_formed = detail::parse_results(text.substr(at + 5), [&](auto&&...) { ++size.returns; });
  return size;
}

/// Fills `op`, `parameters` and `returns`, which have the room that measure_schema told. False when the text is no
/// schema.
constexpr bool parse_schema(std::string_view text, Trait traits, Parameter* parameters, Return* returns, Operator& op) {
  op.schema = text;
  op.traits = traits;
  op.name = text.substr(0, text.find('('));
  op.id = hash_of(op.name);
  op.family = static_cast<std::uint8_t>(op.id % 63);
  std::size_t at = op.name.size() + 1, count = 0;
  bool keyword_only = false;
  while (at < text.size() && text[at] != ')') {
    while (text[at] == ' ') ++at;
    const std::size_t end = detail::end_of_piece(text, at);
    const std::string_view piece = detail::trimmed(text.substr(at, end - at));
    at = text[end] == ',' ? end + 1 : end;
    if (piece == "*") {
      keyword_only = true;
      continue;
    }
    Parameter& p = parameters[count++];
    p.keyword_only = keyword_only;
    std::size_t cursor = 0;
    if (!detail::parse_type(piece, cursor, p.type, p.alias, p.written)) return false;
    if (cursor >= piece.size() || piece[cursor] != ' ') return false;
    const std::string_view rest = piece.substr(cursor + 1);
    const std::size_t equals = rest.find('=');
    p.name = rest.substr(0, equals);
    for (char c : p.name)
      if (!detail::is_word(c)) return false;
    if (p.name.empty()) return false;
    if (equals != rest.npos) {
      p.default_text = rest.substr(equals + 1);
      p.standard = parse_literal(p.default_text);
    } else {
      op.required = static_cast<std::uint8_t>(count);
    }
    if (!keyword_only) op.positional = static_cast<std::uint8_t>(count);
    op.mutates |= p.written;
    op.second_is_tensor |= count == 2 && p.type == Type{.base = ValueType::tensor};
  }
  std::size_t results = 0;
  const auto add = [&](const Type& type, char alias, bool written, std::string_view name) {
    returns[results++] = {name, type, written, alias};
    op.aliases |= alias != 0;
  };
  if (!detail::parse_results(text.substr(at + 5), add)) return false;
  op.parameters = {parameters, count};
  op.returns = {returns, results};
  return true;
}

}  // namespace fxx::inline FXX_ABI
