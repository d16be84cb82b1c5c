// Macros of headers, as `g++ -dM -E` prints them, against the names that generated code makes.
#pragma once

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>

#include "fxx/codegen/cpp.hpp"
#include "fxx/ir/graph.hpp"
#include "fxx/ir/names.hpp"

namespace fxx::test {

/// For each macro, and what it may be called in a model: neither an attribute, nor a class, nor a node of that name is a
/// macro in the code. `least`: so many there are at least.
inline void check_macros(std::string_view text, std::size_t least) {
  std::set<std::string, std::less<>> macros;
  for (constexpr std::string_view define = "#define "; !text.empty();) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + (line.size() < text.size()));
    if (!line.starts_with(define)) continue;
    const std::string_view name = line.substr(define.size());
    macros.emplace(name.substr(0, name.find_first_of(" (")));
  }
  CHECK(macros.size() >= least);
  Graph graph;
  std::size_t bad = 0;
  for (const std::string& macro : macros) {
    const std::string lower = snake_case(macro);
    std::string node(graph.placeholder(macro)->name());
    for (const std::string& made :
         {cpp_identifier(macro), cpp_identifier(lower), cpp_identifier("layer." + macro), cpp_identifier(macro + "."),
          cpp_identifier(macro) + "_1", cpp_identifier(macro) + "_at", node})
      if (macros.contains(made) && ++bad < 20) CHECK_MESSAGE(false, macro, " becomes ", made);
    if (is_cpp_class_name(macro) && ++bad < 20) CHECK_MESSAGE(false, macro, " is taken for a class");
  }
  CHECK(bad == 0);
}

}  // namespace fxx::test
