// Names of functions as linkers and compilers write them: whose they are, and how to show them. Private to runtime/.
// Main names: demangled, outermost_name, is_library_name, short_function. Linear in the text. Cost: light.
#pragma once

#include <string>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::detail {

/// As C++ spells it; the symbol itself when it is no name of C++.
std::string demangled(const std::string& symbol);
/// The outermost namespace or class in a mangled name, or the function itself: "at" of _ZN2at6Tensor3addEv. The mangled
/// name tells it plainly, where the demangled one may begin with a return type. After the Itanium C++ ABI, 5.1.
std::string_view outermost_name(std::string_view symbol);
/// Of LibTorch, this library or the standard library.
bool is_library_name(std::string_view symbol);
/// The same of a header. Functions of C that are inlined from one have no namespace to tell.
bool is_library_header(std::string_view file);
/// The same of a shared library.
bool is_library_object(std::string_view path);
/// "void f<int>(int, float) const" -> "f<int>(...) const".
std::string short_function(std::string_view function);
/// What follows the last slash.
std::string_view file_name(std::string_view path);

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/detail/function_names.ipp"
#endif
