// io/file.hpp: mapping what is there, writing so that the old file stays until the new one is whole.
#include "fxx/io/file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>

#include "../runtime/support.hpp"

namespace {

using fxx::AsideFile;
using fxx::ErrorId;
using fxx::FileError;
using fxx::MappedFile;
using support::contains;
using support::count_entries;
using support::fault_of;
using support::TemporaryFolder;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TEST_CASE("a mapped file has the bytes of the file") {
  const TemporaryFolder folder;
  const std::string all = std::string("a\0b", 3) + std::string(100000, 'x');
  MappedFile file(folder.file("some", all));
  CHECK(text_of(file) == all);
  std::filesystem::remove(folder / "some");  // what is mapped stays
  const std::byte* place = file.bytes().data();
  MappedFile moved(std::move(file));
  CHECK(file.bytes().empty());
  CHECK(moved.bytes().data() == place);
  file = std::move(moved);
  CHECK(text_of(file) == all);
  CHECK(MappedFile(folder.file("empty", "")).bytes().empty());
  CHECK(MappedFile().bytes().empty());
}

TEST_CASE("what cannot be read is a fault with the reason") {
  const TemporaryFolder folder;
  const auto reason = [](const std::string& path) {
    const FileError error = fault_of<FileError>([&] { MappedFile file(path, "load"); });
    CHECK(error.id() == ErrorId::file_unreadable);
    CHECK(contains(error.what(), "fxx::load: '" + path + "' cannot be read, "));
    return std::string(error.what());
  };
  CHECK(contains(reason(folder / "missing"), "No such file or directory"));
  CHECK(contains(reason(folder.file("file", "") + "/x"), "Not a directory"));
  CHECK(contains(reason(folder.path()), "it is a folder"));
  CHECK(contains(reason("/dev/null"), "no regular file"));
  CHECK(contains(reason(""), "No such file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(contains(reason(folder / "pipe"), "no regular file"));
}

TEST_CASE("mapping leaves no descriptor open") {
  const TemporaryFolder folder;
  folder.file("some", "text");
  const int before = support::open_descriptors();
  const MappedFile file(folder / "some");
  CHECK_THROWS(MappedFile(folder / "missing"));
  CHECK(support::open_descriptors() == before);
}

TEST_CASE("a new file takes its place when it is whole") {
  const TemporaryFolder folder;
  folder.file("some", "old");
  AsideFile file(folder / "some");
  file.write("new ");
  file.write("text");
  CHECK(support::content_of(folder / "some") == "old");
  CHECK(count_entries(folder.path()) == 2);
  file.commit();
  CHECK(support::content_of(folder / "some") == "new text");
  CHECK(count_entries(folder.path()) == 1);
  AsideFile(folder / "empty").commit();
  CHECK(std::filesystem::file_size(folder / "empty") == 0);
}

TEST_CASE("a file that is given up leaves what was there") {
  const TemporaryFolder folder;
  folder.file("some", "old");
  const int before = support::open_descriptors();
  { AsideFile(folder / "some").write("half"); }
  CHECK(support::content_of(folder / "some") == "old");
  CHECK(count_entries(folder.path()) == 1);
  CHECK(support::open_descriptors() == before);
}

TEST_CASE("two writers of one file do not meet") {
  const TemporaryFolder folder;
  AsideFile one(folder / "some"), two(folder / "some");
  one.write("one");
  two.write("two");
  one.commit();
  CHECK(support::content_of(folder / "some") == "one");
  two.commit();
  CHECK(support::content_of(folder / "some") == "two");
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("what cannot be written is a fault with the reason, and nothing is left") {
  const TemporaryFolder folder;
  const auto reason = [](const std::string& path) {
    const FileError error = fault_of<FileError>([&] {
      AsideFile file(path, "save");
      file.write("text");
      file.commit();
    });
    CHECK(error.id() == ErrorId::file_unwritable);
    CHECK(contains(error.what(), "fxx::save: '" + path + "' cannot be written, "));
    return std::string(error.what());
  };
  CHECK(contains(reason(folder / "missing/file"), "No such file or directory"));
  CHECK(contains(reason(folder.file("file", "") + "/x"), "Not a directory"));
  std::filesystem::create_directories(folder / "taken/inside");
  CHECK(contains(reason(folder / "taken"), "directory"));
  CHECK(count_entries(folder.path()) == 2);
}

TEST_CASE("a disk without room is a fault, and the old file stays") {
  const TemporaryFolder folder;
  folder.file("some", "old");
  // A limit on the size of files does what a full disk does: the write that passes it fails.
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {100000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    AsideFile file(folder / "some");
    file.write(std::string(300000, 'x'));
    file.commit();
  } catch (const FileError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(message, "cannot be written, File too large"));
  CHECK(support::content_of(folder / "some") == "old");
  CHECK(count_entries(folder.path()) == 1);
}
