// Bodies of ir/parse.hpp: a recursive-descent parser over the printed form.
#pragma once

#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/parse.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

class GraphParser {
 public:
  GraphParser(std::string_view text, const TargetResolver& targets) : text_(text), targets_(targets) {}

  Graph run() {
    skip_space();
    expect("graph():");
    if (at_end()) return std::move(graph_);  // how a graph without nodes prints
    for (;;) {
      skip_space();
      if (at_end()) fail("the text ends without a return line or a node; the graph is cut off", true);
      if (peek() == '%') {
        parse_node();
        if (rest_is_blank()) return std::move(graph_);
      } else if (take("return ")) {
        parse_return();
        skip_space();
        if (!at_end()) fail("text follows the return line");
        return std::move(graph_);
      } else {
        fail("expected a node ('%name : ...') or 'return'");
      }
    }
  }

 private:
  // --- characters ----------------------------------------------------------------------------------------------------
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("expected '" + std::string(word) + "'");
  }
  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r')) ++at_;
  }
  bool rest_is_blank() const { return text_.find_first_not_of(" \n\t\r", at_) == text_.npos; }
  [[noreturn]] void fail(const std::string& what, bool whole = false) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') ++line, column = 1;
    }
    const std::string near = whole || at_end() ? "" : ", at " + repr(text_.substr(at_, 24));
    throw GraphError(ErrorId::text_malformed, "parse_graph: line " + std::to_string(line) + ", column " +
                                                  std::to_string(column) + near + ": " + what);
  }
  std::string_view word() {
    const std::size_t start = at_;
    while (!at_end() && ((peek() >= 'a' && peek() <= 'z') || (peek() >= 'A' && peek() <= 'Z') ||
                         (peek() >= '0' && peek() <= '9') || peek() == '_'))
      ++at_;
    if (start == at_) fail("expected a name");
    return text_.substr(start, at_ - start);
  }

  // --- nodes ---------------------------------------------------------------------------------------------------------
  void parse_node() {
    expect("%");
    const std::size_t name_at = at_;
    const std::string_view name = word();
    if (nodes_.contains(name)) {
      at_ = name_at;
      fail("a node of this name stands further up already");
    }
    expect(" : ");
    // The type is free text up to the user count.
    const std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
    const std::size_t bracket = line.find("[num_users=");
    if (bracket == line.npos) fail("expected '[num_users='");
    std::string_view type = line.substr(0, bracket);
    while (type.ends_with(' ')) type.remove_suffix(1);
    at_ += bracket;
    expect("[num_users=");
    integer();
    expect("] = ");
    const std::string_view opcode = word();
    expect("[target=");
    std::string target = parse_target();
    expect("]");
    std::vector<Argument> args;
    std::vector<KeywordArgument> kwargs;
    Op op;
    if (opcode == "placeholder") {
      op = Placeholder{std::move(target)};
      if (take("(default=")) {
        args.push_back(parse_argument(0));
        expect(")");
      }
    } else if (opcode == "get_attr") {
      op = GetAttr{std::move(target)};
    } else {
      if (opcode == "call_function") op = CallFunction{find_function(target)};
      else if (opcode == "call_method") op = CallMethod{std::move(target)};
      else if (opcode == "call_module") op = CallModule{std::move(target)};
      else fail("unknown opcode '" + std::string(opcode) + "'");
      expect("(args = (");
      parse_items(')', args, 0);
      expect(", kwargs = {");
      std::unordered_set<std::string_view> keys;
      while (!take("}")) {
        if (!kwargs.empty()) expect(", ");
        const std::string_view key = word();
        if (!keys.insert(key).second) {
          at_ -= key.size();
          fail("keyword argument '" + std::string(key) + "' is given twice");
        }
        expect(": ");
        kwargs.push_back({key, parse_argument(0)});
      }
      expect(")");
    }
    Node* node = graph_.create_node(std::move(op), args, kwargs, name);
    if (node->name() != name) {
      at_ = name_at;
      fail("'" + std::string(name) +
           "' cannot name a node; a name is a lower-case C++ identifier that is not reserved");
    }
    node->set_type(type);
    nodes_.emplace(node->name(), node);
    if (!at_end() && peek() != '\n' && !rest_is_blank()) fail("expected the end of the line");
  }

  void parse_return() {
    in_return_ = true;
    Argument value = parse_argument(0);
    std::string_view type;
    if (take(" : ")) {
      const std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
      at_ += line.size();
      type = line;
      while (!type.empty() && (type.back() == ' ' || type.back() == '\r')) type.remove_suffix(1);
    }
    graph_.output(std::move(value), type);
  }

  std::string parse_target() {
    if (peek() == '\'' || peek() == '"') return parse_string();
    const std::size_t end = text_.find(']', at_);
    if (end == text_.npos) fail("expected ']' after the target");
    std::string target(text_.substr(at_, end - at_));
    at_ = end;
    return target;
  }

  Function find_function(std::string_view target) const {
    std::string name;
    for (std::string_view module : {"operator.", "math.", "builtins."})
      if (target.starts_with(module))
        name = std::string(module.substr(0, module.size() - 1)) + "::" + std::string(target.substr(module.size()));
    if (target.starts_with("torch.ops.")) {
      name = target.substr(10);
      const std::size_t first = name.find('.'), last = name.rfind('.');
      if (first == name.npos || first == last)
        fail("'" + std::string(target) + "' is not of the form torch.ops.namespace.name.overload");
      if (name.substr(last) == ".default") name.resize(last);
      name.replace(first, 1, "::");
    }
    if (!name.empty()) {
      if (const Operator* op = targets_.find_operator(name)) return op;
    } else if (const UserFunction* function = targets_.find_function(target)) {
      return function;
    }
    throw OperatorError(ErrorId::operator_unknown, "parse_graph: there is no operator or function '" +
                                                       std::string(target) + "'; register it before the text is read");
  }

  // --- values --------------------------------------------------------------------------------------------------------
  static constexpr int max_depth = Argument::most_nested;

  Argument parse_argument(int depth) {
    if (depth > max_depth) fail("containers are nested more than " + std::to_string(max_depth) + " deep");
    const char c = peek();
    if (c == '%') {
      ++at_;
      return node_of(word());
    }
    if (c == '\'' || c == '"') return parse_string();
    if (c == '[') {
      ++at_;
      std::vector<Argument> items;
      parse_items(']', items, depth + 1);
      return Argument::list(std::move(items));
    }
    if (c == '(') return parse_parenthesis(depth + 1);
    if (c == '{') {
      ++at_;
      std::vector<DictEntry> entries;
      while (!take("}")) {
        if (!entries.empty()) expect(", ");
        const std::size_t key_at = at_;
        Argument key = parse_argument(depth + 1);
        for_each_node(key, [&](Node*) {
          at_ = key_at;
          fail("a key of a dictionary cannot contain a node");
        });
        expect(": ");
        entries.push_back({std::move(key), parse_argument(depth + 1)});
      }
      return Argument::dict(std::move(entries));
    }
    if ((c >= '0' && c <= '9') || c == '-') return parse_number();
    return parse_word(depth);
  }

  Argument parse_word(int depth) {
    const std::size_t start = at_;
    const std::string_view name = word();
    if (name == "None") return {};
    if (name == "True") return true;
    if (name == "False") return false;
    if (name == "Ellipsis") return Ellipsis{};
    if (name == "inf") return infinity;
    if (name == "nan") return infinity - infinity;
    if (name == "torch" && take(".")) return parse_enum(start);
    if (name == "device") {
      expect("(type='");
      const std::string_view type = word();
      expect("'");
      std::int64_t index = -1;
      if (take(", index=")) index = integer();
      expect(")");
      if (index < -1 || index > 127) fail("a device index is between 0 and 127");
#define FXX_PARSE_ENUMERATOR(spelling, c10_name, number, ...) \
  if (type == #spelling) return Device{DeviceType::spelling, static_cast<std::int8_t>(index)};
      FXX_DEVICE_TYPES(FXX_PARSE_ENUMERATOR)
#undef FXX_PARSE_ENUMERATOR
      fail("there is no device type '" + std::string(type) + "'");
    }
    if (name == "slice") {
      expect("(");
      Slice slice;
      slice.start = parse_argument(depth + 1);
      expect(", ");
      slice.stop = parse_argument(depth + 1);
      expect(", ");
      slice.step = parse_argument(depth + 1);
      expect(")");
      return slice;
    }
    if (name == "range") {
      expect("(");
      Range range;
      range.start = integer();
      expect(", ");
      range.stop = integer();
      expect(", ");
      range.step = integer();
      expect(")");
      return range;
    }
    if (name == "enum") {
      expect("(");
      Enumerator value;
      value.type = parse_string();
      expect(", ");
      value.name = parse_string();
      expect(", ");
      value.value = integer();
      expect(")");
      return value;
    }
    at_ = start;
    if (in_return_) return node_of(word());
    fail("expected a value");
  }

  Argument parse_enum(std::size_t start) {
    const std::string_view name = word();
    if (name == "bool") return Dtype::boolean;
      // A name that both a layout and a device have is the layout: devices are written device(...).
#define FXX_PARSE_ENUMERATOR(spelling, c10_name, number, ...) \
  if (name == #spelling) return static_cast<Type_>(number);
    using Type_ = Dtype;
    FXX_DTYPES(FXX_PARSE_ENUMERATOR) {
      using Type_ = Layout;
      FXX_LAYOUTS(FXX_PARSE_ENUMERATOR)
    }
    {
      using Type_ = MemoryFormat;
      FXX_MEMORY_FORMATS(FXX_PARSE_ENUMERATOR)
    }
#undef FXX_PARSE_ENUMERATOR
    at_ = start;
    fail("torch has no dtype, layout or memory format of this name");
  }

  Node* node_of(std::string_view name) {
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) {
      at_ -= name.size();
      fail("node '" + std::string(name) + "' is used before it has been defined");
    }
    return found->second;
  }

  void parse_items(char close, std::vector<Argument>& items, int depth) {
    while (peek() != close) {
      if (!items.empty()) {
        expect(",");
        if (peek() == close) break;
        expect(" ");
      }
      items.push_back(parse_argument(depth));
    }
    ++at_;
  }

  /// A tuple, or a complex number: `(1+2j)`.
  Argument parse_parenthesis(int depth) {
    const std::size_t close = text_.find_first_of("(),[{'\" ", at_ + 1);
    if (close != text_.npos && text_[close] == ')' && text_[close - 1] == 'j') {
      ++at_;
      Complex value;
      value.real = real_number();
      take("+");
      value.imag = real_number();
      expect("j)");
      return value;
    }
    ++at_;
    std::vector<Argument> items;
    parse_items(')', items, depth);
    return Argument::tuple(std::move(items));
  }

  std::int64_t integer() {
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc{}) fail("expected an integer of 64 bits");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  Argument parse_number() {
    const bool negative = peek() == '-';
    const std::size_t digits = at_ + negative;
    if (text_.substr(digits).starts_with("inf")) return at_ = digits + 3, negative ? -infinity : infinity;
    if (text_.substr(digits).starts_with("nan")) return at_ = digits + 3, infinity - infinity;
    std::size_t end = digits;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
    if (end == text_.size() || (text_[end] != '.' && text_[end] != 'e')) return integer();
    return real_number();
  }
  /// Also inf and nan, and -0 with its sign.
  double real_number() {
    double value = 0;
    const auto [stop, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc{}) fail("expected a number");
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  std::string parse_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a quoted text");
    ++at_;
    std::string out;
    for (;;) {
      if (at_end() || peek() == '\n') fail("the text in quotes is not closed");
      const char c = text_[at_++];
      if (c == quote) return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      const char escaped = peek();
      ++at_;
      switch (escaped) {
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case '\\':
        case '\'':
        case '"': out += escaped; break;
        case 'x': {
          int code = 0;
          const std::string_view hex = text_.substr(at_ < text_.size() ? at_ : text_.size(), 2);
          const auto [end, status] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
          if (status != std::errc{} || hex.size() != 2 || end != hex.data() + 2)
            fail("expected two hexadecimal digits");
          out += static_cast<char>(code);
          at_ += 2;
          break;
        }
        default: --at_; fail("unknown escape in a quoted text");
      }
    }
  }

  static constexpr double infinity = __builtin_inf();
  std::string_view text_;
  const TargetResolver& targets_;
  std::size_t at_ = 0;
  bool in_return_ = false;
  Graph graph_;
  std::unordered_map<std::string_view, Node*> nodes_;
};

}  // namespace detail

FXX_INLINE Graph parse_graph(std::string_view text, const TargetResolver& targets) {
  return detail::GraphParser(text, targets).run();
}

}  // namespace fxx::inline FXX_ABI
