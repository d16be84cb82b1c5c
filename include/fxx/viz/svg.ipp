// Bodies of viz/svg.hpp.
#pragma once

#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "fxx/error.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/process.hpp"
#include "fxx/viz/svg.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void write_svg(const Graph& graph, const std::string& path, const DotOptions& options,
                          double timeout_seconds) {
  const auto fail = [&](const std::string& problem) {
    throw FileError(ErrorId::drawing_failed, "write_svg: '" + path + "' is not drawn: " + problem);
  };
  const std::optional<std::string> dot = find_program("dot");
  if (!dot)
    fail(
        "there is no program 'dot' in PATH; drawing needs Graphviz. Install graphviz, or draw the text that to_dot "
        "gives "
        "elsewhere");

  // Both files go beside the result, so that renaming works, and away again whatever happens.
  struct Aside {
    explicit Aside(const std::string& name) : text(name + ".dot"), drawing(name + ".svg") {}
    ~Aside() {
      ::unlink(text.c_str());
      ::unlink(drawing.c_str());
    }
    std::string text, drawing;
  };
  static unsigned count = 0;
  // Absolute, so that no name can look like an option.
  const std::string target = files::absolute_path(path);
  const Aside aside(target + ".aside-" + std::to_string(::getpid()) + "-" +
                    std::to_string(__atomic_add_fetch(&count, 1u, __ATOMIC_RELAXED)));
  const auto cannot_write = [&](int error) {
    fail("it cannot be written, " + files::error_text(error) + "; choose a folder that exists and can be written");
  };
  if (const int error = files::write_file(aside.text, to_dot(graph, options))) cannot_write(error);

  ProcessResult result;
  try {
    result = run_process({*dot, "-Tsvg", "-o", aside.drawing, aside.text},
                         {.timeout_seconds = timeout_seconds, .output_limit = 4096});
  } catch (const CompileError& error) {
    fail(std::string("'dot' cannot be run, ") + error.what() +
         "; install graphviz, or draw the text that to_dot gives elsewhere");
  }
  if (!result.ok())
    fail("'dot' " + describe(result) + (result.output.empty() ? "" : ", saying: " + result.output) +
         "; a drawing was expected. Draw a smaller graph, or the text that to_dot gives elsewhere");
  if (const int error = files::sync_file(aside.drawing)) cannot_write(error);
  if (::rename(aside.drawing.c_str(), target.c_str()) != 0) cannot_write(errno);
}

}  // namespace fxx::inline FXX_ABI
