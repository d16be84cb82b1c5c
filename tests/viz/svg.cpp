// viz/svg.hpp: drawing through the program dot, and its absence, failure and slowness.
#include "fxx/viz/svg.hpp"

#include <doctest/doctest.h>

#include "../runtime/support.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/runtime/process.hpp"
#include "not_checked.hpp"

namespace {

using fxx::ErrorId;
using fxx::FileError;
using fxx::Graph;
using support::contains;
using support::fault_of;
using support::TemporaryFolder;
using support::Variable;

Graph small_graph() {
  Graph graph;
  graph.output(graph.call_function(fxx::ops::relu, {graph.placeholder("x")}));
  return graph;
}

/// What is said when drawing to `path` fails.
std::string problem(const std::string& path, double timeout_seconds = 300) {
  const FileError error = fault_of<FileError>([&] { fxx::write_svg(small_graph(), path, {}, timeout_seconds); });
  CHECK(error.id() == ErrorId::drawing_failed);
  CHECK(contains(error.what(), "fxx::write_svg: '" + path + "' is not drawn: "));
  return error.what();
}

}  // namespace

TEST_CASE("a graph is drawn into a file") {
  if (!fxx::find_program("dot")) {
    fxx::test::not_checked("drawings: Graphviz is not installed");
    return;
  }
  const TemporaryFolder folder;
  folder.file("a b.svg", "old");
  fxx::write_svg(small_graph(), folder / "a b.svg", {.title = "the title"});
  const std::string svg = support::content_of(folder / "a b.svg");
  CHECK(contains(svg, "<svg"));
  CHECK(contains(svg, "aten.relu.default"));
  CHECK(contains(svg, "the title"));
  CHECK(support::count_entries(folder.path()) == 1);
  // A name that looks like an option, seen from the current folder.
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path(folder.path());
  fxx::write_svg(small_graph(), "-o.svg");
  std::filesystem::current_path(here);
  CHECK(contains(support::content_of(folder / "-o.svg"), "<svg"));
  CHECK(support::count_entries(folder.path()) == 2);
}

TEST_CASE("dot gets the text and the names of the files, and its result takes the place") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out");
  folder.script("dot", "[ \"$1 $2\" = '-Tsvg -o' ] && { echo drawn; /bin/cat \"$4\"; } > \"$3\"");
  const Variable path("PATH", folder.path());
  fxx::write_svg(small_graph(), folder / "out/graph.svg", {.title = "T"});
  CHECK(support::content_of(folder / "out/graph.svg") == "drawn\n" + fxx::to_dot(small_graph(), {.title = "T"}));
  CHECK(support::count_entries(folder / "out") == 1);
}

TEST_CASE("without Graphviz the fault says what to install and what else can be done") {
  const TemporaryFolder folder;
  folder.file("graph.svg", "old");
  const Variable path("PATH", folder.path());
  const std::string text = problem(folder / "graph.svg");
  CHECK(contains(text, "there is no program 'dot' in PATH"));
  CHECK(contains(text, "Install graphviz"));
  CHECK(contains(text, "to_dot"));
  CHECK(support::content_of(folder / "graph.svg") == "old");
  CHECK(support::count_entries(folder.path()) == 1);
}

TEST_CASE("a failure of dot is a fault with its words, and the old drawing stays") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out");
  folder.file("out/graph.svg", "old");
  const Variable path("PATH", (folder / "bin") + ":/bin:/usr/bin");
  const auto failing = [&](const std::string& body, double timeout_seconds = 300) {
    folder.script("bin/dot", body);
    const std::string text = problem(folder / "out/graph.svg", timeout_seconds);
    CHECK(support::content_of(folder / "out/graph.svg") == "old");
    CHECK(support::count_entries(folder / "out") == 1);
    return text;
  };
  const std::string text = failing("echo half > \"$3\"; echo 'syntax error in line 7' >&2; exit 1");
  CHECK(contains(text, "'dot' ended with status 1"));
  CHECK(contains(text, "syntax error in line 7"));
  CHECK(contains(failing("kill -SEGV $$"), "was ended by signal 11"));
  CHECK(contains(failing("exit 0"), "cannot be written, No such file"));
  CHECK(contains(failing("while :; do sleep 1; done", 0.2), "time limit"));
  folder.file("bin/dot", "#!/fxx/no/such/interpreter\n");
  CHECK(contains(problem(folder / "out/graph.svg"), "'dot' cannot be run"));
}

TEST_CASE("a place that cannot be written is a fault") {
  const TemporaryFolder folder;
  folder.script("dot", "echo drawn > \"$3\"");
  const Variable path("PATH", folder.path());
  CHECK(contains(problem(folder / "missing/graph.svg"), "cannot be written, No such file or directory"));
  std::filesystem::create_directories(folder / "taken/inside");
  CHECK(contains(problem(folder / "taken"), "cannot be written"));
  CHECK(support::count_entries(folder.path()) == 2);
}
