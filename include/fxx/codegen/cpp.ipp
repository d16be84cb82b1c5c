// Bodies of codegen/cpp.hpp.
#pragma once

#include <limits>

#include "fxx/codegen/cpp.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
FXX_INLINE bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Whether the name is written as macros are: in capitals, or with a beginning that headers have for theirs.
FXX_INLINE bool looks_like_macro(std::string_view name) {
  bool capital = false, lower = false;
  for (const char c : name) {
    capital = capital || (c >= 'A' && c <= 'Z');
    lower = lower || (c >= 'a' && c <= 'z');
  }
  if (!capital) return false;
  if (!lower) return name.size() > 1 || name == "I";  // <complex.h>; matrices have other letters
  for (const std::string_view beginning : {"C10_", "CAFFE2_", "TORCH_", "PYTORCH_", "FXX_", "SYS_", "PRI", "SCN", "bit_",
                                           "signature_", "L_ctermid", "L_cuserid", "L_tmpnam", "P_tmpdir"})
    if (name.starts_with(beginning)) return true;
  // M_PIf64, and a template parameter of LibTorch's.
  return (name.starts_with("M_") && name.size() > 2 && !(name[2] >= 'a' && name[2] <= 'z')) || name == "MaxTypeIndex";
}

/// As cpp_identifier, without regard to macros.
FXX_INLINE std::string identifier_of(std::string_view name) {
  std::string out;
  for (char c : name) {
    const char next = detail::is_name_character(c) ? c : '_';
    if (next == '_' && out.ends_with('_')) continue;  // two underscores belong to the compiler
    out += next;
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9') ||
      (out[0] == '_' && out.size() > 1 && out[1] >= 'A' && out[1] <= 'Z'))
    out.insert(0, "m_");
  if (is_reserved_name(out)) out += '_';
  return out;
}
}  // namespace detail

FXX_INLINE std::string cpp_identifier(std::string_view name) {
  std::string out = detail::identifier_of(name);
  if (detail::looks_like_macro(out)) out += out.ends_with('_') ? "m" : "_m";
  return out;
}

FXX_INLINE bool is_cpp_class_name(std::string_view name) {
  static constexpr std::string_view macros =
      " "
#include "fxx/codegen/macros.inc"
      ;
  if (name.empty() || detail::identifier_of(name) != name) return false;
  if (name.find_first_of("abcdefghijklmnopqrstuvwxyz") != name.npos) return !detail::looks_like_macro(name);
  std::string word(1, ' ');
  ((word += name) += ' ');
  return macros.find(word) == macros.npos;
}

FXX_INLINE std::string cpp_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (code >= 0x20 && code < 0x7f && c != '?') out += c;  // no trigraphs
    else
      ((((out += '\\') += static_cast<char>('0' + (code >> 6))) += static_cast<char>('0' + ((code >> 3) & 7))) +=
       static_cast<char>('0' + (code & 7)));
  }
  return out += '"';
}

FXX_INLINE std::string cpp_double(double value) {
  if (value != value) return "std::numeric_limits<double>::quiet_NaN()";
  if (value > std::numeric_limits<double>::max()) return "std::numeric_limits<double>::infinity()";
  if (value < std::numeric_limits<double>::lowest()) return "-std::numeric_limits<double>::infinity()";
  return repr(value);
}

FXX_INLINE std::string cpp_integer(std::int64_t value) {
  // The smallest number has no literal of its own.
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807 - 1)";
  return std::to_string(value);
}

FXX_INLINE std::string cpp_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::uint8: return "torch::kUInt8";
    case Dtype::int8: return "torch::kInt8";
    case Dtype::int16: return "torch::kInt16";
    case Dtype::int32: return "torch::kInt32";
    case Dtype::int64: return "torch::kInt64";
    case Dtype::float16: return "torch::kFloat16";
    case Dtype::float32: return "torch::kFloat32";
    case Dtype::float64: return "torch::kFloat64";
    case Dtype::bfloat16: return "torch::kBFloat16";
    case Dtype::boolean: return "torch::kBool";
    default: return "c10::ScalarType::" + std::string(c10_name_of(dtype));
  }
}

FXX_INLINE std::string_view number_symbol(std::string_view operation) {
  static constexpr std::string_view symbols[][2] = {{"add", "+"},     {"sub", "-"}, {"mul", "*"}, {"mod", "%"},
                                                    {"modulus", "%"}, {"eq", "=="}, {"ne", "!="}, {"lt", "<"},
                                                    {"le", "<="},     {"gt", ">"},  {"ge", ">="}};
  for (const auto& [name, symbol] : symbols)
    if (name == operation) return symbol;
  return "/";
}
FXX_INLINE std::string cpp_rounded_down(std::string_view operation, const std::string& a, const std::string& b,
                                        RoundedDown how) {
  const bool quotient = operation == "floordiv";
  // Of real numbers std::floor(a / b) is not that: 1 / 0.1 rounds to 10, though nine times fit.
  const std::string rest = how.real ? "std::fmod(" + a + ", " + b + ")" : a + " % " + b;
  const std::string divided = how.real ? "std::round((" + a + " - " + rest + ") / " + b + ")" : a + " / " + b;
  const std::string below = how.positive_divisor ? rest + " < 0" : rest + " != 0 && (" + a + " < 0) != (" + b + " < 0)";
  return quotient ? divided + " - (" + below + ")" : rest + " + (" + below + " ? " + b + " : 0)";
}
FXX_INLINE bool is_cpp_name(std::string_view text) {
  for (;;) {
    const std::size_t colons = text.find("::");
    const std::string_view part = text.substr(0, colons);
    if (part.empty() || (part[0] >= '0' && part[0] <= '9')) return false;
    for (char c : part)
      if (!detail::is_name_character(c)) return false;
    if (colons == text.npos) return true;
    text.remove_prefix(colons + 2);
  }
}
FXX_INLINE std::string cpp_comment(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == '\\' || c == '?') c = ' ';  // `??/` is a backslash to old compilers
  return line;
}
FXX_INLINE bool is_cpp_type(std::string_view text) {
  if (text.empty()) return false;
  int depth = 0;
  for (char c : text) {
    if (!detail::is_name_character(c) && std::string_view(":<>,&* ").find(c) == std::string_view::npos) return false;
    depth += (c == '<') - (c == '>');
    if (depth < 0 || (c == ',' && depth == 0)) return false;
  }
  return depth == 0;
}

}  // namespace fxx::inline FXX_ABI
