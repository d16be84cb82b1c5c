// An operator's schema, parsed at compile time: "aten::relu(Tensor self) -> Tensor" becomes an Operator.
//
// The same constexpr code parses the schemas that arrive while the program runs (ops/registry.hpp).
// Main names: SchemaSize, measure_schema, parse_schema, parse_literal. Linear in the text. Cost: light.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

#include "fxx/ir/operator.hpp"
#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/synonyms.hpp"

namespace fxx::inline FXX_ABI {

struct SchemaSize {
  std::size_t parameters = 0, returns = 0;
  bool well_formed = false;
};

namespace detail {

// What follows reads characters by pointer and looks them up in tables: the compiler runs it for every operator in use,
// and a call of a string_view's member costs it as much as a dozen comparisons.

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// By a character, as a number without a sign. Read where they are asked for: a function would be called a letter.
struct Letters {
  bool word[256]{};     // letters, digits and underscores, of which names are
  bool type[256]{};     // those of a name and the dot, of which types are: `__torch__.torch.classes.c10d.Work`
  bool special[256]{};  // brackets, quotes, commas and backslashes, at which pieces may end or go on
  constexpr Letters() {
    for (int c = 0; c < 26; ++c) word['a' + c] = word['A' + c] = true;
    for (int c = '0'; c <= '9'; ++c) word[c] = true;
    word[static_cast<int>('_')] = true;
    for (int c = 0; c < 256; ++c) type[c] = word[c];
    type[static_cast<int>('.')] = true;
    for (const char c : {'(', ')', '[', ']', '"', '\'', ',', '\\'}) special[static_cast<int>(c)] = true;
  }
};
inline constexpr Letters letters;

/// End of the piece that starts at `from`: the next comma or closing bracket at the same depth, quotes respected.
constexpr std::size_t end_of_piece(std::string_view text, std::size_t from) {
  const char* const s = text.data();
  const std::size_t size = text.size();
  int depth = 0;
  char quote = 0;
  for (std::size_t i = from; i < size; ++i) {
    if (!letters.special[static_cast<unsigned char>(s[i])]) continue;  // most of them
    const char c = s[i];
    if (quote) {
      if (c == '\\') ++i;
      else if (c == quote) quote = 0;
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
  const char *first = text.data(), *last = first + text.size();
  while (first != last && *first == ' ') ++first;
  while (first != last && last[-1] == ' ') --last;
  return {first, static_cast<std::size_t>(last - first)};
}

/// Does the text of that size begin with these letters? The compiler counts neither.
template <std::size_t N>
constexpr bool begins_with(const char* text, std::size_t size, const char (&letters)[N]) {
  if (size < N - 1) return false;
  for (std::size_t i = 0; i + 1 < N; ++i)
    if (text[i] != letters[i]) return false;
  return true;
}

inline constexpr std::uint64_t hash_of_sym_int = hash_of("SymInt");
/// By the hash of its name.
constexpr ValueType value_type(std::uint64_t name) {
  switch (name) {
    case hash_of("Tensor"): return ValueType::tensor;
    case hash_of("Scalar"): return ValueType::scalar;
    case hash_of("int"):
    case hash_of_sym_int: return ValueType::integer;
    case hash_of("float"): return ValueType::real;
    case hash_of("bool"): return ValueType::boolean;
    case hash_of("str"): return ValueType::string;
    case hash_of("ScalarType"): return ValueType::dtype;
    case hash_of("Layout"): return ValueType::layout;
    case hash_of("MemoryFormat"): return ValueType::memory_format;
    case hash_of("Device"): return ValueType::device;
    case hash_of("Generator"): return ValueType::generator;
    default: return ValueType::other;
  }
}

/// Whether brackets after the name of this hash hold types, as of `Dict(str, Tensor)`, and no aliases.
constexpr bool takes_types(std::uint64_t name) {
  switch (name) {
    case hash_of("Dict"):
    case hash_of("Future"):
    case hash_of("RRef"):
    case hash_of("Await"):
    case hash_of("Union"): return true;
    default: return false;
  }
}

/// Moves the cursor from an opening bracket to behind the one that closes it. False where none does.
constexpr bool skip_brackets(std::string_view text, std::size_t& at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '"' || text[at] == '\'') return false;
    if (text[at] == '(' || text[at] == '[') ++depth;
    if ((text[at] == ')' || text[at] == ']') && --depth == 0) return ++at, true;
  }
  return false;
}

/// `Tensor(a!)?[]`: reads type and alias, leaves the cursor behind them. What is no value of an argument, such as the
/// name of a class or a tuple of types, is ValueType::other.
constexpr bool parse_type(std::string_view text, std::size_t& at, Type& type, char& alias, bool& written) {
  const char* const s = text.data();
  const std::size_t size = text.size(), start = at;
  std::size_t i = at;
  std::uint64_t name = hash_of_nothing;
  for (; i < size && letters.type[static_cast<unsigned char>(s[i])]; ++i)
    name = (name ^ static_cast<unsigned char>(s[i])) * hash_factor;
  type.base = value_type(name);
  if (type.base == ValueType::other && i < size && s[i] == '(' && (i == start || takes_types(name)) &&
      !skip_brackets(text, i))
    return false;
  if (i == start) return false;
  if (name == hash_of_sym_int) type.symbolic = true;
  for (; i < size; ++i) {
    const char c = s[i];
    if (c == '(') {
      if (i + 1 < size && s[i + 1] != ')') alias = s[i + 1];
      for (++i; i < size && s[i] != ')'; ++i) {
        const char of_alias = s[i];  // no brackets and quotes, which would hide where the parameter ends
        if (of_alias == '!') written = true;
        else if (of_alias == '(' || of_alias == '[' || of_alias == ']' || of_alias == '"' || of_alias == '\'') return false;
      }
      if (i == size) return false;
    } else if (c == '[') {
      type.list = true;
      type.optional_items = type.optional;
      type.optional = false;
      for (++i; i < size && is_digit(s[i]); ++i)
        type.list_size = static_cast<std::uint8_t>(type.list_size * 10 + (s[i] - '0'));
      if (i == size || s[i] != ']') return false;
    } else if (c == '?') {
      type.optional = true;
    } else {
      break;
    }
  }
  at = i;
  return true;
}

/// What stands behind `->`: one type, or several in brackets, each with a name or without. Calls `f(type, alias,
/// written, name, text of the type)` for each; false when the text is nothing of the kind.
template <class F>
constexpr bool parse_results(std::string_view text, F&& f) {
  const char* const s = text.data();
  const std::size_t size = text.size();
  if (size == 2 && s[0] == '(' && s[1] == ')') return true;
  const bool several = size > 0 && s[0] == '(';
  for (std::size_t at = several ? 1 : 0;; ++at) {
    while (several && at < size && s[at] == ' ') ++at;
    Type type;
    char alias = 0;
    bool written = false;
    const std::size_t from = at;
    if (!parse_type(text, at, type, alias, written)) return false;
    const std::size_t to = at;
    std::size_t name = at;
    if (at < size && s[at] == ' ')
      for (name = ++at; at < size && letters.word[static_cast<unsigned char>(s[at])];) ++at;
    if (!several && name == at && at > 0 && s[at - 1] == ' ') return false;
    f(type, alias, written, std::string_view(s + name, at - name), std::string_view(s + from, to - from));
    if (!several || at >= size) return !several && at == size;
    if (s[at] == ')') return at + 1 == size;
    if (s[at] != ',') return false;
  }
}

}  // namespace detail

namespace detail {

/// A whole number of up to 5120 bits, for digits that a double does not hold exactly.
struct BigNumber {
  static constexpr int capacity = 160;
  std::uint32_t words[capacity] = {};
  int size = 0;  // words in use

  constexpr void multiply_add(std::uint32_t factor, std::uint32_t added) {
    std::uint64_t carry = added;
    for (int i = 0; i < size; ++i) {
      carry += std::uint64_t{words[i]} * factor;
      words[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words[size++] = static_cast<std::uint32_t>(carry);
  }
  constexpr void times_power_of_ten(int power) {
    for (; power >= 9; power -= 9) multiply_add(1'000'000'000, 0);
    for (; power > 0; --power) multiply_add(10, 0);
  }
  constexpr int bits() const { return size == 0 ? 0 : size * 32 - std::countl_zero(words[size - 1]); }
  constexpr void shift_left(int by) {
    if (size == 0) return;
    const int whole = by / 32, rest = by % 32, before = size;
    size = (bits() + by + 31) / 32;
    for (int i = size - 1; i >= 0; --i) {
      const auto at = [&](int k) { return k >= 0 && k < before ? std::uint64_t{words[k]} : 0; };
      const std::uint64_t both = (at(i - whole) << 32) | at(i - whole - 1);
      words[i] = static_cast<std::uint32_t>(both >> (32 - rest));
    }
  }
  constexpr void halve() {
    for (int i = 0; i < size; ++i) words[i] = (words[i] >> 1) | (i + 1 < size ? words[i + 1] << 31 : 0);
    if (size > 0 && words[size - 1] == 0) --size;
  }
  constexpr int compare(const BigNumber& other) const {
    if (size != other.size) return size < other.size ? -1 : 1;
    for (int i = size - 1; i >= 0; --i)
      if (words[i] != other.words[i]) return words[i] < other.words[i] ? -1 : 1;
    return 0;
  }
  constexpr void subtract(const BigNumber& other) {
    std::int64_t borrow = 0;
    for (int i = 0; i < size; ++i) {
      borrow += std::int64_t{words[i]} - (i < other.size ? std::int64_t{other.words[i]} : 0);
      words[i] = static_cast<std::uint32_t>(borrow);
      borrow >>= 32;
    }
    while (size > 0 && words[size - 1] == 0) --size;
  }
};

/// The double nearest to digits * 10^power, the even one of two: infinity beyond the largest. `digits` may hold a point
/// and separators, which count for nothing. Exact in one operation where the digits and the power are small.
constexpr double nearest_double(std::string_view digits, int power) {
  constexpr int most_digits = 800;  // no two doubles need more to be told apart: further ones only break ties
  BigNumber top, bottom;
  std::uint64_t small = 0;
  int count = 0;
  bool rest = false;
  for (const char c : digits) {
    if (c < '0' || c > '9' || (c == '0' && count == 0)) continue;
    if (++count <= 19) small = small * 10 + static_cast<std::uint64_t>(c - '0');
    if (count > most_digits) {
      ++power;
      rest = rest || c != '0';
    }
  }
  if (count == 0) return 0;
  if (count <= 19 && small <= (std::uint64_t{1} << 53) && power >= -22 && power <= 22) {
    double scale = 1;  // exact
    for (int k = power < 0 ? -power : power; k > 0; --k) scale *= 10;
    return power < 0 ? static_cast<double>(small) / scale : static_cast<double>(small) * scale;
  }
  const int kept = count < most_digits ? count : most_digits;
  if (kept + power > 310) return std::bit_cast<double>(std::uint64_t{0x7ff} << 52);
  if (kept + power < -330) return 0;
  int taken = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9' || (c == '0' && taken == 0)) continue;
    if (taken++ < most_digits) top.multiply_add(10, static_cast<std::uint32_t>(c - '0'));
  }
  if (rest) {
    top.multiply_add(10, 1);
    --power;
  }
  bottom.multiply_add(0, 1);
  if (power > 0) top.times_power_of_ten(power);
  else bottom.times_power_of_ten(-power);
  // Where the leading bit of the quotient is, and the last one that a double keeps.
  int leading = top.bits() - bottom.bits();
  {
    BigNumber shifted_top = top, shifted_bottom = bottom;
    if (leading > 0) shifted_bottom.shift_left(leading);
    else shifted_top.shift_left(-leading);
    if (shifted_top.compare(shifted_bottom) < 0) --leading;
  }
  const int last = leading - 52 > -1074 ? leading - 52 : -1074;
  if (last > 0) bottom.shift_left(last);
  else top.shift_left(-last);
  std::uint64_t quotient = 0;
  bottom.shift_left(53);
  for (int k = 53;; --k) {
    quotient <<= 1;
    if (top.compare(bottom) >= 0) {
      top.subtract(bottom);
      quotient |= 1;
    }
    if (k == 0) break;
    bottom.halve();
  }
  top.shift_left(1);
  const int half = top.compare(bottom);
  if (half > 0 || (half == 0 && (quotient & 1) != 0)) ++quotient;
  const std::uint64_t bits = (static_cast<std::uint64_t>(last + 1074) << 52) + quotient;
  constexpr std::uint64_t infinite = std::uint64_t{0x7ff} << 52;
  return std::bit_cast<double>(bits < infinite ? bits : infinite);
}

/// The digits behind the letter of an exponent, with a sign or without: false when there are none, or something else.
/// Beyond a hundred thousand all exponents are alike.
constexpr bool parse_exponent(std::string_view text, int& exponent) {
  const bool down = text.starts_with('-');
  if (down || text.starts_with('+')) text.remove_prefix(1);
  exponent = 0;
  bool digits = false;
  for (const char c : text) {
    if (c == '\'' && digits) continue;
    if (!is_digit(c)) return false;
    digits = true;
    if (exponent < 100'000) exponent = exponent * 10 + (c - '0');
  }
  if (down) exponent = -exponent;
  return digits;
}

constexpr int hexadecimal_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// Reads what stands behind `0x` in a floating-point literal of C++, `1.8p-3`: the double nearest to it, the even one of
/// two. Infinity beyond the largest; nan when the text is nothing of the kind.
constexpr double parse_hexadecimal(std::string_view text) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t leading = 0;  // up to 61 bits; whether further ones are set is all that counts of them
  int power = 0;
  bool rest = false, point = false, digits = false;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != 'p' && text[i] != 'P'; ++i) {
    const char c = text[i];
    if (c == '\'' && digits) continue;
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    const int digit = hexadecimal_digit(c);
    if (digit < 0) return none;
    digits = true;
    if (leading >> 57 == 0) {
      leading = leading << 4 | static_cast<std::uint64_t>(digit);
      if (point) power -= 4;
    } else {
      rest = rest || digit != 0;
      if (!point) power += 4;
    }
  }
  int exponent = 0;
  if (!digits || i == text.size() || !parse_exponent(text.substr(i + 1), exponent)) return none;
  if (leading == 0) return 0;
  power += exponent;
  const int bits = 64 - std::countl_zero(leading);
  if (bits + power > 1024) return std::numeric_limits<double>::infinity();
  // The power of two of the last bit that the double keeps.
  const int last = bits + power - 53 > -1074 ? bits + power - 53 : -1074, dropped = last - power;
  if (dropped > 62) return 0;
  std::uint64_t kept = dropped > 0 ? leading >> dropped : leading << -dropped;
  if (dropped > 0) {
    const std::uint64_t below = leading & ((std::uint64_t{1} << dropped) - 1), half = std::uint64_t{1} << (dropped - 1);
    if (below > half || (below == half && (rest || (kept & 1) != 0))) ++kept;
  }
  return std::bit_cast<double>((static_cast<std::uint64_t>(last + 1074) << 52) + kept);
}

}  // namespace detail

/// A default value or a number in a pattern: None, True, 3, -1.5e-3, 0x1.8p-3, "text", [1, 1]. Anything else is
/// Kind::other, as are integers beyond 64 bits and real numbers beyond the largest double.
constexpr Literal parse_literal(std::string_view text) {
  using Kind = Literal::Kind;
  const char* const s = text.data();
  const std::size_t size = text.size();
  const char first = size > 0 ? s[0] : '\0', last = size > 0 ? s[size - 1] : '\0';
  const auto is = [&](const auto& letters) {
    return size + 1 == sizeof letters && detail::begins_with(s, size, letters);
  };
  if (first == 'N' && is("None")) return {.kind = Kind::none};
  if (first == 'T' && is("True")) return Literal::of(true);
  if (first == 'F' && is("False")) return Literal::of(false);
  if (size >= 2 && (first == '"' || first == '\'') && last == first)
    return Literal::of(std::string_view(s + 1, size - 2));
  if (size >= 2 && first == '[' && last == ']') {
    Literal list{.kind = Kind::integers};
    for (std::size_t at = 1; at + 1 < size;) {
      const std::size_t end = detail::end_of_piece(text, at);
      const Literal item = parse_literal(detail::trimmed(text.substr(at, end - at)));
      if (item.kind != Kind::integer || list.count == Literal::max_items) return {.kind = Kind::other};
      list.items[list.count++] = item.integer;
      at = end + 1;
    }
    return list;
  }
  std::size_t i = 0;
  const bool negative = first == '-';
  if (negative) ++i;
  if (i == size) return {.kind = Kind::other};
  if (size - i > 2 && s[i] == '0' && (s[i + 1] == 'x' || s[i + 1] == 'X')) {
    const double value = detail::parse_hexadecimal(text.substr(i + 2));
    if (!(value <= std::numeric_limits<double>::max())) return {.kind = Kind::other};
    return Literal::of(negative ? -value : value);
  }
  // Digits with a power of ten apart, so that 0.1 is the double nearest to 0.1.
  const std::size_t begin = i;
  std::size_t end = size;
  std::uint64_t whole = 0;
  const std::uint64_t largest = static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  int power = 0;
  bool real = false, fraction = false, digits = false, fits = true;
  for (; i < size; ++i) {
    const char c = s[i];
    if (detail::is_digit(c)) {
      digits = true;
      const auto digit = static_cast<std::uint64_t>(c - '0');
      fits = fits && (whole < largest / 10 || (whole == largest / 10 && digit <= largest % 10));
      if (fits) whole = whole * 10 + digit;
      if (fraction) --power;
    } else if (c == '.' && !real) {
      real = fraction = true;
    } else if (c == '\'' && digits) {
      continue;
    } else if (c == 'e' || c == 'E') {
      real = true;
      end = i;
      int exponent = 0;
      if (!detail::parse_exponent(text.substr(i + 1), exponent)) return {.kind = Kind::other};
      power += exponent;
      break;
    } else {
      return {.kind = Kind::other};
    }
  }
  if (!digits || (!real && !fits)) return {.kind = Kind::other};
  if (!real) return Literal::of(static_cast<std::int64_t>(negative ? -whole : whole));
  const double value = detail::nearest_double(text.substr(begin, end - begin), power);
  if (value > 1.7976931348623157e308) return {.kind = Kind::other};
  return Literal::of(negative ? -value : value);
}

/// How many parameters and returns a schema has, and whether it is one.
constexpr SchemaSize measure_schema(std::string_view text) {
  const char* const s = text.data();
  const std::size_t length = text.size();
  SchemaSize size;
  std::size_t at = 0, colons = 0;
  for (; at < length && s[at] != '('; ++at) {
    if (detail::letters.word[static_cast<unsigned char>(s[at])]) continue;
    if (s[at] == ':' && colons == 0 && at + 1 < length && s[at + 1] == ':') colons = at;
    if (s[at] != ':' && s[at] != '.') return size;
  }
  if (at == length || colons == 0 || colons + 2 >= at) return size;
  for (++at; at < length && s[at] != ')';) {
    const std::size_t end = detail::end_of_piece(text, at);
    if (end == text.npos || s[end] == ']') return size;
    while (s[at] == ' ') ++at;
    std::size_t last = end;
    while (last > at && s[last - 1] == ' ') --last;
    const bool mark = (last == at + 1 && s[at] == '*') || (last == at + 3 && detail::begins_with(s + at, 3, "..."));
    if (!mark) ++size.parameters;
    at = s[end] == ',' ? end + 1 : end;
  }
  if (at >= length || !detail::begins_with(s + at, length - at, ") -> ")) return size;
  size.well_formed = detail::parse_results(text.substr(at + 5), [&](auto&&...) { ++size.returns; });
  return size;
}

namespace detail {
/// Whether objects of the class only hold packed weights, so that an operator that takes one changes nothing by that.
/// The list is that of PyTorch 2.13.
constexpr bool holds_weights(std::string_view type_text) {
  switch (hash_of(type_text)) {
    case hash_of("__torch__.torch.classes.quantized.Conv2dPackedParamsBase"):
    case hash_of("__torch__.torch.classes.quantized.Conv3dPackedParamsBase"):
    case hash_of("__torch__.torch.classes.quantized.EmbeddingPackedParamsBase"):
    case hash_of("__torch__.torch.classes.quantized.LinearPackedParamsBase"):
    case hash_of("__torch__.torch.classes.xnnpack.Conv2dOpContext"):
    case hash_of("__torch__.torch.classes.xnnpack.LinearOpContext"):
    case hash_of("__torch__.torch.classes.xnnpack.TransposeConv2dOpContext"): return true;
    default: return false;
  }
}
/// Effects that follow from what the operator is called: collectives, ranges of the profiler, checks.
constexpr Trait effect_of_name(std::string_view name) {
  const char* const s = name.data();
  const std::size_t size = name.size();
  if (begins_with(s, size, "aten::"))
    return begins_with(s, size, "aten::_functional_assert") || begins_with(s, size, "aten::_functional_sym_constrain")
               ? Trait::ordered
               : Trait::none;
  std::uint64_t name_space = hash_of_nothing;
  for (std::size_t i = 0; i < size && s[i] != ':'; ++i)
    name_space = (name_space ^ static_cast<unsigned char>(s[i])) * hash_factor;
  switch (name_space) {
    case hash_of("_c10d_functional"):
    case hash_of("_c10d_functional_autograd"):
    case hash_of("c10d_functional"):
    case hash_of("_dtensor"):
    case hash_of("profiler"): return Trait::ordered;
    // Schemas of these do not say what they write to.
    case hash_of("c10d"):
    case hash_of("symm_mem"):
    case hash_of("fsdp"):
    case hash_of("streams"): return Trait::impure;
    default: return hash_of(name) == hash_of("ao::wait_tensor") ? Trait::ordered : Trait::none;
  }
}
/// parse_schema, but for the lists of `op`; says how long they are.
constexpr SchemaSize read_schema(std::string_view text, Trait traits, Parameter* parameters, Return* returns,
                                 Operator& op) {
  const char* const s = text.data();
  std::size_t at = 0, count = 0;  // never beyond the text: measure_schema has found the brackets
  op.id = hash_of_nothing;
  for (; s[at] != '('; ++at) op.id = (op.id ^ static_cast<unsigned char>(s[at])) * hash_factor;
  op.schema = text;
  op.name = {s, at};
  op.traits = traits | effect_of_name(op.name);
  op.means = has(traits, Trait::synonym) ? hash_of(meaning_of(op.name)) : op.id;
  op.family = static_cast<std::uint8_t>(op.means % 63);
  bool keyword_only = false;
  for (++at; s[at] != ')'; at += s[at] == ',') {
    while (s[at] == ' ') ++at;
    if (s[at] == '*') {
      keyword_only = true;
      for (++at; s[at] == ' ';) ++at;
      if (s[at] != ',' && s[at] != ')') return {};
      continue;
    }
    if (s[at] == '.' && begins_with(s + at, text.size() - at, "...")) {  // any number of values, of which none has a name
      for (at += 3; s[at] == ' ';) ++at;
      if (s[at] != ',' && s[at] != ')') return {};
      continue;
    }
    Parameter& p = parameters[count++];
    p.keyword_only = keyword_only;
    const std::size_t type = at;
    if (!parse_type(text, at, p.type, p.alias, p.written) || s[at] != ' ') return {};
    p.type_text = {s + type, at - type};
    const std::size_t name = ++at;
    while (letters.word[static_cast<unsigned char>(s[at])]) ++at;
    p.name = {s + name, at - name};
    if (at == name) return {};
    if (s[at] == '=') {
      const std::size_t from = at + 1;
      std::size_t end = at = end_of_piece(text, from);
      while (end > from && s[end - 1] == ' ') --end;
      p.default_text = {s + from, end - from};
      p.standard = parse_literal(p.default_text);
    } else {
      while (s[at] == ' ') ++at;
      if (s[at] != ',' && s[at] != ')') return {};
      op.required = static_cast<std::uint8_t>(count);
    }
    if (!keyword_only) op.positional = static_cast<std::uint8_t>(count);
    op.mutates |= p.written;
    if (p.type.base == ValueType::generator) op.traits = op.traits | Trait::random;
    if (names_class(p.type_text) && !holds_weights(p.type_text)) op.traits = op.traits | Trait::impure;
    if (count == 2) op.second_is_tensor = p.type.base == ValueType::tensor && !p.type.list && !p.type.optional;
  }
  std::size_t results = 0;
  const auto add = [&](const Type& type, char alias, bool written, std::string_view name, std::string_view text) {
    returns[results++] = {name, type, written, alias, text};
    op.aliases |= alias != 0;
  };
  if (!parse_results(text.substr(at + 5), add)) return {};
  return {.parameters = count, .returns = results, .well_formed = true};
}
}  // namespace detail
/// Fills `op`, `parameters` and `returns`, which have the room that measure_schema told. False when the text is no
/// schema.
constexpr bool parse_schema(std::string_view text, Trait traits, Parameter* parameters, Return* returns, Operator& op) {
  const SchemaSize read = detail::read_schema(text, traits, parameters, returns, op);
  if (!read.well_formed) return false;
  op.parameters = {parameters, read.parameters};
  op.returns = {returns, read.returns};
  return true;
}

}  // namespace fxx::inline FXX_ABI
