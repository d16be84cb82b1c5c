// Bodies of ir/print.hpp.
#pragma once

#include <charconv>
#include <ostream>

#include "fxx/ir/graph.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A target is printed bare when that cannot be misread.
FXX_INLINE bool plain_target(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
          c == ':' || c == '*'))
      return false;
  return true;
}

FXX_INLINE void append(std::string& out, const Argument& argument, std::string_view prefix);

FXX_INLINE void append_items(std::string& out, std::span<const Argument> items, std::string_view prefix) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append(out, items[i], prefix);
  }
}

FXX_INLINE std::string complex_repr(Complex value) {
  const auto part = [](double v) {
    std::string text = fxx::repr(v);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  };
  std::string imaginary = part(value.imag);
  if (imaginary[0] != '-') imaginary.insert(0, "+");
  return "(" + part(value.real) + imaginary + "j)";
}

FXX_INLINE void append(std::string& out, const Argument& argument, std::string_view prefix) {
  visit(
      argument, [&](None) { out += "None"; }, [&](Node* node) { (out += prefix) += node->name(); },
      [&](bool value) { out += value ? "True" : "False"; }, [&](std::int64_t value) { out += std::to_string(value); },
      [&](double value) { out += fxx::repr(value); }, [&](Dtype value) { (out += "torch.") += name_of(value); },
      [&](Layout value) { (out += "torch.") += name_of(value); },
      [&](MemoryFormat value) { (out += "torch.") += name_of(value); },
      [&](Device value) {
        ((out += "device(type='") += name_of(value.type)) += '\'';
        if (value.index >= 0) (out += ", index=") += std::to_string(static_cast<int>(value.index));
        out += ')';
      },
      [&](Ellipsis) { out += "Ellipsis"; }, [&](Complex value) { out += complex_repr(value); },
      [&](const std::string& value) { out += fxx::repr(std::string_view(value)); },
      [&](const Enumerator& value) {
        out += "enum(" + fxx::repr(std::string_view(value.type)) + ", " + fxx::repr(std::string_view(value.name)) +
               ", " + std::to_string(value.value) + ")";
      },
      [&](const Range& value) {
        out += "range(" + std::to_string(value.start) + ", " + std::to_string(value.stop) + ", " +
               std::to_string(value.step) + ")";
      },
      [&](const Slice& value) {
        out += "slice(";
        append(out, value.start, prefix);
        out += ", ";
        append(out, value.stop, prefix);
        out += ", ";
        append(out, value.step, prefix);
        out += ')';
      },
      [&](ListView list) {
        out += '[';
        append_items(out, list.items, prefix);
        out += ']';
      },
      [&](TupleView tuple) {
        out += '(';
        append_items(out, tuple.items, prefix);
        out += tuple.items.size() == 1 ? ",)" : ")";
      },
      [&](DictView dict) {
        out += '{';
        for (std::size_t i = 0; i < dict.entries.size(); ++i) {
          if (i) out += ", ";
          append(out, dict.entries[i].key, prefix);
          out += ": ";
          append(out, dict.entries[i].value, prefix);
        }
        out += '}';
      });
}

FXX_INLINE void append_target(std::string& out, const Op& op) {
  const std::string text = target_text(op);
  out += plain_target(text) ? text : fxx::repr(std::string_view(text));
}

FXX_INLINE void append_node(std::string& out, const Node& node) {
  const std::string_view type = node.type();
  if (node.opcode() == Opcode::output) {
    out += "return ";
    if (!node.args().empty()) append(out, node.args()[0], "");  // messages print broken graphs too
    if (!type.empty()) (out += " : ") += type;
    return;
  }
  ((out += '%') += node.name()) += " : ";
  if (!type.empty()) (out += type) += ' ';
  ((out += "[num_users=") += std::to_string(node.num_users())) += "] = ";
  (out += name_of(node.opcode())) += "[target=";
  append_target(out, node.op());
  out += ']';
  switch (node.opcode()) {
    case Opcode::placeholder:
      if (!node.args().empty()) {
        out += "(default=";
        append(out, node.arg(0), "%");
        out += ')';
      }
      break;
    case Opcode::get_attr: break;
    default:
      out += "(args = (";
      append_items(out, node.args(), "%");
      out += node.args().size() == 1 ? ",), kwargs = {" : "), kwargs = {";
      for (std::size_t i = 0; i < node.kwargs().size(); ++i) {
        if (i) out += ", ";
        (out += node.kwargs()[i].key) += ": ";
        append(out, node.kwargs()[i].value, "%");
      }
      out += "})";
  }
}

}  // namespace detail

FXX_INLINE std::string repr(double value) {
  if (value != value) return "nan";
  if (value > 1.7976931348623157e308) return "inf";
  if (value < -1.7976931348623157e308) return "-inf";
  // The shortest digits come from to_chars; where the point goes is Python's rule: exponents from -4 to 15 without "e".
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  std::string_view all(text, static_cast<std::size_t>(end - text));
  const bool negative = all[0] == '-';
  if (negative) all.remove_prefix(1);
  const std::size_t e = all.find('e');
  int exponent = 0;
  for (char c : all.substr(e + 2)) exponent = exponent * 10 + (c - '0');
  if (all[e + 1] == '-') exponent = -exponent;
  std::string digits;
  for (char c : all.substr(0, e))
    if (c != '.') digits += c;
  std::string out = negative ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) (out += '.') += digits.substr(1);
    const int size = exponent < 0 ? -exponent : exponent;
    ((out += 'e') += exponent < 0 ? '-' : '+') += size < 10 ? "0" + std::to_string(size) : std::to_string(size);
  } else if (exponent < 0) {
    ((out += "0.") += std::string(static_cast<std::size_t>(-exponent - 1), '0')) += digits;
  } else if (count <= exponent + 1) {
    ((out += digits) += std::string(static_cast<std::size_t>(exponent + 1 - count), '0')) += ".0";
  } else {
    ((out += digits.substr(0, static_cast<std::size_t>(exponent + 1))) += '.') +=
        digits.substr(static_cast<std::size_t>(exponent + 1));
  }
  return out;
}

FXX_INLINE std::string repr(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') (out += '\\') += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (code < 0x20 || code == 0x7f) ((out += "\\x") += hex[code >> 4]) += hex[code & 15];
    else out += c;
  }
  return out += quote;
}

FXX_INLINE std::string target_text(const Op& op) {
  return match(
      op, [](const Placeholder& o) { return o.target; }, [](const GetAttr& o) { return o.target; },
      [](const CallFunction& o) {
        if (const auto* function = std::get_if<const UserFunction*>(&o.target)) return (*function)->name;
        const Operator& target = *std::get<const Operator*>(o.target);
        const std::string space(target.name_space()), base(target.base_name()), overload(target.overload_name());
        // Python's own modules keep their names; everything else is an operator of torch.ops.
        if (space == "operator" || space == "math" || space == "builtins") return space + "." + base;
        return "torch.ops." + space + "." + base + "." + (overload.empty() ? "default" : overload);
      },
      [](const CallMethod& o) { return o.target; }, [](const CallModule& o) { return o.target; },
      [](const Output&) { return std::string("output"); });
}

FXX_INLINE std::string_view name_candidate(const Op& op) {
  const auto bare = [](std::string_view text) {  // "__and__" -> "and", "ns::f" -> "f"
    if (const std::size_t colon = text.rfind(':'); colon != text.npos) text.remove_prefix(colon + 1);
    if (text.starts_with("__") && text.ends_with("__") && text.size() > 4) text = text.substr(2, text.size() - 4);
    return text;
  };
  return match(
      op, [](const Placeholder& o) -> std::string_view { return o.target; },
      [](const GetAttr& o) -> std::string_view { return o.target; },
      [&](const CallFunction& o) -> std::string_view {
        if (const auto* function = std::get_if<const UserFunction*>(&o.target)) return bare((*function)->name);
        return bare(std::get<const Operator*>(o.target)->base_name());
      },
      [&](const CallMethod& o) -> std::string_view { return bare(o.target); },
      [](const CallModule& o) -> std::string_view { return o.target; },
      [](const Output&) -> std::string_view { return "output"; });
}

FXX_INLINE std::string to_string(const Argument& argument, std::string_view node_prefix) {
  std::string out;
  detail::append(out, argument, node_prefix);
  return out;
}
FXX_INLINE std::string format_node(const Node& node) {
  std::string out;
  detail::append_node(out, node);
  return out;
}
FXX_INLINE std::string to_string(const Graph& graph) {
  std::string out = "graph():";
  for (const Node* node : graph.nodes()) {
    out += "\n    ";
    detail::append_node(out, *node);
  }
  return out;
}

FXX_INLINE std::ostream& operator<<(std::ostream& out, const Graph& graph) { return out << to_string(graph); }
FXX_INLINE std::ostream& operator<<(std::ostream& out, const Node& node) { return out << format_node(node); }
FXX_INLINE std::ostream& operator<<(std::ostream& out, const Argument& argument) { return out << to_string(argument); }

FXX_INLINE void Graph::print_tabular(std::ostream& out) const {
  constexpr std::size_t columns = 5;
  std::vector<std::string> cells = {"opcode", "name", "target", "args", "kwargs"};
  for (const Node* node : nodes()) {
    std::string args = "(", kwargs = "{";
    detail::append_items(args, node->args(), "");
    args += node->args().size() == 1 ? ",)" : ")";
    for (std::size_t i = 0; i < node->kwargs().size(); ++i) {
      if (i) kwargs += ", ";
      (kwargs += repr(node->kwargs()[i].key)) += ": ";
      detail::append(kwargs, node->kwargs()[i].value, "");
    }
    std::string target = node->target();
    if (target.starts_with("torch.ops.")) target.erase(0, 10);
    cells.insert(cells.end(),
                 {std::string(name_of(node->opcode())), std::string(node->name()), target, args, kwargs + "}"});
  }
  std::size_t width[columns] = {};
  for (std::size_t i = 0; i < cells.size(); ++i) width[i % columns] = std::max(width[i % columns], cells[i].size());
  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns; ++c) {
      text += cell(c);
      if (c + 1 < columns) text += std::string(width[c] - cell(c).size() + 2, ' ');
    }
    out << text << '\n';
  };
  for (std::size_t row = 0; row < cells.size(); row += columns) {
    line([&](std::size_t c) -> const std::string& { return cells[row + c]; });
    if (row == 0) line([&](std::size_t c) { return std::string(width[c], '-'); });
  }
}

}  // namespace fxx::inline FXX_ABI
