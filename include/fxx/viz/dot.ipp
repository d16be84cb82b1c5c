// Bodies of viz/dot.hpp.
#pragma once

#include <algorithm>

#include "fxx/ir/print.hpp"
#include "fxx/viz/dot.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Bytes of the well-formed UTF-8 character that `text` begins with; 0 when there is none. After RFC 3629, section 4.
FXX_INLINE std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xc2 && first < 0xe0   ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // No longer forms than needed, no surrogates, nothing above U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
      (first == 0xf4 && byte(1) > 0x8f))
    return 0;
  return size;
}

/// At most `longest` bytes of whole characters.
FXX_INLINE std::string shortened(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t size = std::max<std::size_t>(utf8_length(text.substr(end)), 1);
    if (end + size > longest) break;
    end += size;
  }
  return std::string(text.substr(0, end)) + "...";
}

/// Text inside the quotes of a label. Graphviz reads escapes there, and entities of HTML.
FXX_INLINE std::string dot_escaped(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_length(text);
    const auto code = static_cast<unsigned char>(text[0]);
    if (code == '"' || code == '\\') (out += '\\') += text[0];
    else if (code == '&') out += "&amp;";
    else if (code == '\n') out += "\\\\n";
    else if (code == '\t') out += "\\\\t";
    else if (code == '\r') out += "\\\\r";
    else if (size == 0 || code < 0x20 || code == 0x7f) ((out += "\\\\x") += hex[code >> 4]) += hex[code & 15];
    else out += text.substr(0, size);
    text.remove_prefix(size ? size : 1);
  }
  return out;
}

/// An argument with `_` in the place of every node.
FXX_INLINE std::string without_nodes(const Argument& argument) {
  bool any = false;
  for_each_node(argument, [&](Node*) { any = true; });
  if (!any) return to_string(argument);
  const auto joined = [](std::span<const Argument> items) {
    std::string out;
    for (const Argument& item : items) out += (out.empty() ? "" : ", ") + without_nodes(item);
    return out;
  };
  switch (argument.kind()) {
    case Argument::Kind::list: return '[' + joined(argument.items()) + ']';
    case Argument::Kind::tuple: return '(' + joined(argument.items()) + (argument.items().size() == 1 ? ",)" : ")");
    case Argument::Kind::dict: {
      std::string out;
      for (const DictEntry& entry : argument.entries())
        out += (out.empty() ? "" : ", ") + to_string(entry.key) + ": " + without_nodes(entry.value);
      return "{" + out + "}";
    }
    case Argument::Kind::slice: {
      const Slice& slice = argument.slice();
      return "slice(" + without_nodes(slice.start) + ", " + without_nodes(slice.stop) + ", " +
             without_nodes(slice.step) + ")";
    }
    default: return "_";
  }
}

FXX_INLINE bool holds_immediate(const Argument& argument) {
  switch (argument.kind()) {
    case Argument::Kind::node: return false;
    case Argument::Kind::list:
    case Argument::Kind::tuple:
      for (const Argument& item : argument.items())
        if (holds_immediate(item)) return true;
      return argument.items().empty();
    default: return true;
  }
}

/// The arguments of a call; empty when they are all nodes.
FXX_INLINE std::string immediates_of(const Node& node) {
  bool any = false;
  std::string out;
  for (const Argument& argument : node.args()) {
    any |= holds_immediate(argument);
    out += (out.empty() ? "" : ", ") + without_nodes(argument);
  }
  for (const KeywordArgument& keyword : node.kwargs()) {
    any |= holds_immediate(keyword.value);
    out += (out.empty() ? "" : ", ") + std::string(keyword.key) + "=" + without_nodes(keyword.value);
  }
  return any ? "(" + out + ")" : "";
}

FXX_INLINE std::string_view fill_colour(Opcode opcode) {
  constexpr std::string_view colours[] = {"#d7e8fb", "#eeeeee", "#ffffff", "#fdf3d0", "#dff2d8", "#c9e4e7"};
  return colours[static_cast<int>(opcode)];
}

FXX_INLINE std::string dot_label(const Node& node, const DotOptions& options) {
  std::string label = dot_escaped(node.name());
  const auto add_line = [&](const std::string& text) {
    label += "\\n" + dot_escaped(shortened(text, options.longest_line));
  };
  const Opcode opcode = node.opcode();
  std::string target = node.target();
  if (target.starts_with("torch.ops.")) target.erase(0, 10);
  if (opcode != Opcode::output && target != node.name()) add_line(target);
  if (options.immediates) {
    const std::string immediates = immediates_of(node);
    if (!immediates.empty()) add_line(opcode == Opcode::placeholder ? "= " + without_nodes(node.arg(0)) : immediates);
  }
  if (!node.type().empty()) add_line(std::string(node.type()));
  if (const TensorMeta* meta = node.tensor_meta(); meta && options.shapes)
    add_line(std::string(name_of(meta->dtype)) + "[" + meta->shape_text() + "]");
  return label;
}

}  // namespace detail

FXX_INLINE std::string to_dot(const Graph& graph, const DotOptions& options) {
  const auto drawn = [&](const Node* node) { return options.attributes || node->opcode() != Opcode::get_attr; };
  std::string out =
      "digraph \"" + detail::dot_escaped(options.title) + "\" {\n  charset=\"UTF-8\"\n  ordering=\"in\"\n";
  if (options.left_to_right) out += "  rankdir=\"LR\"\n";
  if (!options.title.empty()) out += "  label=\"" + detail::dot_escaped(options.title) + "\"\n  labelloc=\"t\"\n";
  out +=
      "  node [shape=box, style=\"filled,rounded\", color=\"#666666\", fontname=\"Helvetica\", fontsize=11, "
      "margin=\"0.12,0.05\"]\n"
      "  edge [color=\"#666666\", arrowsize=0.6]\n";
  for (const Node* node : graph.nodes()) {
    if (!drawn(node)) continue;
    const std::string name = 'n' + std::to_string(node->index());
    out += "  " + name + " [label=\"" + detail::dot_label(*node, options) + "\", fillcolor=\"" +
           std::string(detail::fill_colour(node->opcode())) + "\"";
    if (node->opcode() == Opcode::get_attr)
      out += ", shape=note, style=filled, fontsize=8, height=0.2, margin=\"0.06,0.03\"";
    out += "]\n";
    const auto draw_edge = [&](Node* input) {
      if (drawn(input)) out += "  n" + std::to_string(input->index()) + " -> " + name + "\n";
    };
    for (const Argument& argument : node->args()) for_each_node(argument, draw_edge);
    for (const KeywordArgument& keyword : node->kwargs()) for_each_node(keyword.value, draw_edge);
  }
  return out + "}\n";
}

}  // namespace fxx::inline FXX_ABI
