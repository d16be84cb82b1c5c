// Bodies of runtime/detail/function_names.hpp.
#pragma once

#include <cxxabi.h>
#include <stdlib.h>

#include <algorithm>

#include "fxx/runtime/detail/function_names.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string demangled(const std::string& symbol) {
  int status = 0;
  char* text = symbol.starts_with("_Z") ? abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status) : nullptr;
  if (!text) return symbol;
  const std::string out(text);
  ::free(text);
  return out;
}

FXX_INLINE std::string_view outermost_name(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  symbol.remove_prefix(2);
  const auto skip_offset = [&] {  // "n16_" of a thunk
    const std::size_t end = symbol.find('_');
    symbol.remove_prefix(end == symbol.npos ? symbol.size() : end + 1);
  };
  if (symbol.starts_with("Th")) {
    skip_offset();
  } else if (symbol.starts_with("Tv")) {
    skip_offset();
    skip_offset();
  }
  // Z: inside a function; N: nested; then qualifiers of a member; L: internal linkage.
  while (symbol.starts_with('Z')) symbol.remove_prefix(1);
  if (symbol.starts_with('N')) {
    symbol.remove_prefix(1);
    symbol.remove_prefix(std::min(symbol.find_first_not_of("rVKRO"), symbol.size()));
  }
  if (symbol.starts_with('L')) symbol.remove_prefix(1);
  if (symbol.starts_with('S')) return "std";  // all abbreviations possible here are of std
  std::size_t size = 0;
  while (!symbol.empty() && symbol[0] >= '0' && symbol[0] <= '9' && size < 100000) {
    size = 10 * size + static_cast<std::size_t>(symbol[0] - '0');
    symbol.remove_prefix(1);
  }
  return symbol.substr(0, size);
}

FXX_INLINE bool is_library_name(std::string_view symbol) {
  const std::string_view outermost = outermost_name(symbol);
  for (std::string_view space : {"at", "c10", "torch", "fxx", "std", "__gnu_cxx", "__cxxabiv1"})
    if (outermost == space && symbol != space) return true;
  return false;
}

FXX_INLINE std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

FXX_INLINE bool is_library_header(std::string_view file) {
  if (file.starts_with("/usr/include/") || file.starts_with("/usr/lib/")) return true;
  for (std::string_view folder :
       {"/include/c++/", "/include/ATen/", "/include/c10/", "/include/torch/", "/include/fxx/"})
    if (file.find(folder) != file.npos) return true;
  return false;
}

FXX_INLINE bool is_library_object(std::string_view path) {
  const std::string_view object = file_name(path);
  for (std::string_view library :
       {"libtorch", "libc10", "libc.so", "libc-", "libm.so", "libpthread", "libdl.so", "libgcc_s", "libstdc++",
        "libc++", "libgomp", "libomp", "libiomp", "ld-", "ld.so", "linux-vdso"})
    if (object.starts_with(library)) return true;
  return false;
}

FXX_INLINE std::string short_function(std::string_view function) {
  function = function.substr(0, function.find(" [clone"));
  std::string out;
  std::size_t depth = 0, group = 0;  // of brackets; where the outermost one began
  bool seen_parameters = false, seen_operator = false;
  for (std::size_t i = 0; i < function.size(); ++i) {
    const char c = function[i];
    if (depth == 0 && function.substr(i).starts_with("operator") &&
        (i == 0 || function[i - 1] == ':' || function[i - 1] == ' ')) {
      // The symbols that follow are no brackets, and the words of a conversion no return type.
      std::size_t end = i + 8;
      if (function.substr(end).starts_with("()")) end += 2;
      while (end < function.size() && function[end] != '(' &&
             std::string_view("<>=!+-*/%^&|~,[]").find(function[end]) != function.npos)
        ++end;
      out += function.substr(i, end - i);
      i = end - 1;
      seen_operator = true;
      continue;
    }
    if (c == '(' || c == '<' || c == '{') {
      if (depth++ == 0) group = out.size();
    }
    if (c == ' ' && depth == 0 && !seen_parameters && !seen_operator) {
      out.clear();  // what stood before was the return type
      continue;
    }
    out += c;
    if ((c == ')' || c == '>' || c == '}') && depth > 0 && --depth == 0 && c == ')') {
      const std::string_view inside = std::string_view(out).substr(group);
      if (inside == "(anonymous namespace)") continue;
      seen_parameters = true;
      if (inside != "()") out.replace(group, out.npos, "(...)");
    }
  }
  return out;
}

}  // namespace fxx::inline FXX_ABI::detail
