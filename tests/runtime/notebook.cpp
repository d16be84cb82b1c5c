// runtime/notebook.hpp: notes that are found again, damaged files, several who write at once.
#include "fxx/runtime/notebook.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using fxx::Notebook;
using support::TemporaryFolder;
using Notes = Notebook::Notes;

}  // namespace

TEST_CASE("notes are found again; who was first is right") {
  const TemporaryFolder folder;
  const Notebook book(folder / "new" + "/notes");
  CHECK(book.read().empty());
  CHECK_FALSE(std::ifstream(book.path()).good());
  CHECK(book.add({{"a b", "1"}, {"c", ""}}) == Notes{{"a b", "1"}, {"c", ""}});
  CHECK(Notebook(book.path()).read() == Notes{{"a b", "1"}, {"c", ""}});
  CHECK(book.add({{"a b", "2"}, {"d", "x (y)"}}) == Notes{{"a b", "1"}, {"c", ""}, {"d", "x (y)"}});
  CHECK(Notebook(book.path()).read() == Notes{{"a b", "1"}, {"c", ""}, {"d", "x (y)"}});
  // The text is the same whatever came first.
  const std::string text = support::content_of(book.path());
  CHECK(text.starts_with("fxx notes 1\na b\t1\nc\t\nd\tx (y)\nend "));
  const Notebook other(folder / "other");
  other.add({{"d", "x (y)"}});
  other.add({{"c", ""}, {"a b", "1"}});
  CHECK(support::content_of(other.path()) == text);
}

TEST_CASE("who may use what lies in the folder may read the notes") {
  for (const mode_t rights : {0700, 0755, 0775}) {
    CAPTURE(rights);
    const TemporaryFolder folder;
    ::chmod(folder.path().c_str(), rights);
    const Notebook book(folder / "notes");
    book.add({{"key", "value"}});
    struct stat status {};
    REQUIRE(::stat(book.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == (rights & 0666));
  }
}

TEST_CASE("a file that is not whole counts as empty, and is written anew") {
  const TemporaryFolder folder;
  const Notebook book(folder / "notes");
  book.add({{"key", "value"}, {"other", "value"}});
  const std::string whole = support::content_of(book.path());
  std::vector<std::string> damaged = {
      "", "\n", "fxx notes 1\n", "key\tvalue\n", whole + "more", whole + whole, std::string(100, '\0')};
  for (std::size_t size = 1; size < whole.size(); size += 7) damaged.push_back(whole.substr(0, size));
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  for (const std::string& text : damaged) {
    CAPTURE(text);
    std::ofstream(book.path(), std::ios::binary) << text;
    CHECK(book.read().empty());
    CHECK(book.add({{"key", "new"}}) == Notes{{"key", "new"}});
    CHECK(book.read() == Notes{{"key", "new"}});
  }
}

TEST_CASE("where nothing can be written, notes are returned all the same") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const Notebook book(folder / "file" + "/notes");
  CHECK(book.add({{"a", "b"}}) == Notes{{"a", "b"}});
  CHECK(book.read().empty());
}

TEST_CASE("of several processes and threads that write at once, all notes are there") {
  const TemporaryFolder folder;
  const Notebook book(folder / "notes");
  const auto write = [&](int writer) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = std::to_string(writer) + "/" + std::to_string(i);
      const Notes all = book.add({{key, "own"}, {"shared " + std::to_string(i), std::to_string(writer)}});
      if (all.at(key) != "own" || book.read().size() < 2) return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int process = 0; process < 3; ++process) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(write(process) ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  for (int thread = 3; thread < 6; ++thread) threads.emplace_back([&, thread] { CHECK(write(thread)); });
  for (std::thread& thread : threads) thread.join();
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  CHECK(book.read().size() == 6 * 20 + 20);
  CHECK(support::count_entries(folder.path()) == 2);  // the notes and the lock
}
