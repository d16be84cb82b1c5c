// C++ spellings of names and constants. Whatever text they are given, what they return is one token or one literal:
// names that come from a model file cannot become code.
// Main names: cpp_identifier, is_cpp_class_name, cpp_string, cpp_double, cpp_comment, is_cpp_name, is_cpp_type. Cost: light.
#pragma once

#include <string>
#include <string_view>

#include "fxx/ir/dtype.hpp"

namespace fxx::inline FXX_ABI {

/// "layer1.0.conv1" -> "layer1_0_conv1": a valid identifier, `_` for what an identifier may not hold. Not unique. What is
/// written as macros are gets an ending that no macro has, whichever headers the code includes: "EOF" -> "EOF_m".
std::string cpp_identifier(std::string_view name);
/// Is the text an identifier that a class may have: no keyword, and no macro of the headers that generated code includes?
/// Classes are often named in capitals, so these alone are no reason.
bool is_cpp_class_name(std::string_view name);
/// A string literal with its quotes: every byte but plain ASCII is an octal escape.
std::string cpp_string(std::string_view text);
/// A literal that reads back as the same double: 1.0, 1e-05, -std::numeric_limits<double>::infinity().
std::string cpp_double(double value);
/// An integer literal of 64 bits: 3, -9223372036854775807 - 1.
std::string cpp_integer(std::int64_t value);
/// "torch::kFloat32".
std::string cpp_dtype(Dtype dtype);
/// What may stand behind `//`: nothing in it ends the line or runs on to the next.
std::string cpp_comment(std::string_view text);
/// How C++ writes an operator on numbers: "%" for mod and modulus, "<" for lt; "/" for one that is unknown.
std::string_view number_symbol(std::string_view operation);
/// Division that rounds down, as Python's floordiv and mod do and C++'s `/` and `%` do not. `a` and `b` are names or
/// literals, written more than once. A sum or a difference.
struct RoundedDown {
  bool real = false;  // one of them is
  bool positive_divisor = false;
};
std::string cpp_rounded_down(std::string_view operation, const std::string& a, const std::string& b, RoundedDown how);
/// Is the text a name, with or without qualification: "a", "std::abs"? Nothing else.
bool is_cpp_name(std::string_view text);
/// Is the text made only of what types are made of: names, `::`, `<`, `>`, `,`, `&`, `*`, blanks?
bool is_cpp_type(std::string_view text);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/cpp.ipp"
#endif
