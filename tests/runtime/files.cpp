// runtime/files.hpp: reading, writing, making and removing, with the reasons when that cannot be.
#include "fxx/runtime/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "fxx/runtime/identity.hpp"
#include "support.hpp"

namespace files = fxx::files;
using support::TemporaryFolder;

TEST_CASE("a file is read whole, whatever it holds") {
  const TemporaryFolder folder;
  const std::string all = std::string("a\0b\n", 4) + std::string(300000, 'x');
  CHECK(files::read_file(folder.file("some", all)) == all);
  CHECK(files::read_file(folder.file("empty", "")) == "");
  // Files of /proc say that their size is 0.
  CHECK(files::read_file("/proc/self/status").value_or("").starts_with("Name:"));
}

TEST_CASE("what cannot be read is nothing, with the reason in errno") {
  const TemporaryFolder folder;
  CHECK(!files::read_file(folder / "missing"));
  CHECK(errno == ENOENT);
  CHECK(!files::read_file(folder.path()));
  CHECK(errno == EISDIR);
  CHECK(!files::read_file(folder.file("long", "12345"), 4));
  CHECK(errno == EFBIG);
  CHECK(files::read_file(folder / "long", 5) == "12345");
  // However large: it takes no memory.
  folder.file("huge", "");
  REQUIRE(::truncate((folder / "huge").c_str(), off_t{1} << 42) == 0);
  CHECK(!files::read_file(folder / "huge", 100));
  CHECK(errno == EFBIG);
  // A pipe without a writer would be waited for without end.
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(!files::read_file(folder / "pipe"));
}

TEST_CASE("writing makes or replaces a file, or says why not") {
  const TemporaryFolder folder;
  CHECK(files::write_file(folder / "new", "long text") == 0);
  CHECK(files::write_file(folder / "new", "text") == 0);
  CHECK(support::content_of(folder / "new") == "text");
  CHECK(files::write_file(folder / "missing/new", "text") == ENOENT);
  CHECK(files::write_file(folder.path(), "text") == EISDIR);
  CHECK(files::write_file("/dev/full", "text") == ENOSPC);
  CHECK(files::sync_file(folder / "new") == 0);
  CHECK(files::sync_file(folder / "missing") == ENOENT);
}

TEST_CASE("folders are made with those above them") {
  const TemporaryFolder folder;
  CHECK(files::make_folders(folder / "a/b/c", 0700) == 0);
  CHECK(files::is_folder(folder / "a/b/c"));
  struct stat status {};
  ::stat((folder / "a/b/c").c_str(), &status);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(files::make_folders(folder / "a/b/c", 0755) == 0);
  CHECK(files::make_folders(folder / "a//b/c/d/", 0755) == 0);
  folder.file("file", "");
  CHECK(files::make_folders(folder / "file/x") == ENOTDIR);
  CHECK(files::make_folders(folder / "file") == ENOTDIR);
}

TEST_CASE("removing takes all inside and follows no link") {
  const TemporaryFolder folder;
  folder.file("outside/kept", "");
  folder.file("inside/deep/file", "");
  folder.file("inside/other", "");
  std::filesystem::create_directory_symlink(folder / "outside", folder / "inside/link");
  files::remove_tree(folder / "inside");
  CHECK(!std::filesystem::exists(folder / "inside"));
  CHECK(std::filesystem::exists(folder / "outside/kept"));
  std::filesystem::create_directory_symlink(folder / "outside", folder / "link");
  files::remove_tree(folder / "link");
  CHECK(!std::filesystem::exists(std::filesystem::symlink_status(folder / "link")));
  CHECK(std::filesystem::exists(folder / "outside/kept"));
  files::remove_tree(folder / "missing");
  files::remove_tree(folder / "outside/kept");
  CHECK(!std::filesystem::exists(folder / "outside/kept"));
}

TEST_CASE("paths are made absolute and resolved") {
  const TemporaryFolder folder;
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path(folder.path());
  CHECK(files::absolute_path("a/b") == folder / "a/b");
  CHECK(files::absolute_path("") == folder.path());
  CHECK(files::absolute_path(".") == folder.path());
  CHECK(files::absolute_path("/a") == "/a");
  std::filesystem::current_path("/");
  CHECK(files::absolute_path("a") == "/a");
  std::filesystem::current_path(here);
  folder.file("real", "");
  std::filesystem::create_symlink("real", folder / "link");
  CHECK(files::resolved_path(folder / "link") == folder / "real");
  CHECK(files::resolved_path(folder / "missing") == folder / "missing");
}

TEST_CASE("a descriptor closes itself once") {
  const int before = support::open_descriptors();
  {
    files::Descriptor one(::open("/dev/null", O_RDONLY));
    CHECK(one);
    files::Descriptor two(std::move(one));
    CHECK(!one);
    CHECK(two);
    one = std::move(two);
    CHECK(one);
    CHECK(support::open_descriptors() == before + 1);
    one.close();
    CHECK(!one);
    CHECK(support::open_descriptors() == before);
  }
  CHECK(support::open_descriptors() == before);
}

TEST_CASE("errors have words") { CHECK(files::error_text(ENOENT) == "No such file or directory"); }

TEST_CASE("no link is followed where a file is written or a lock is taken") {
  const TemporaryFolder folder;
  const std::string victim = folder.file("victim", "before");
  REQUIRE(::symlink(victim.c_str(), (folder / "link").c_str()) == 0);
  CHECK(files::write_file(folder / "link", "after") == ELOOP);
  CHECK(support::content_of(victim) == "before");
  REQUIRE(::symlink((folder / "made").c_str(), (folder / "lock").c_str()) == 0);
  CHECK(!files::lock_folder(folder.path()));
  CHECK(errno == ELOOP);
  CHECK(::access((folder / "made").c_str(), F_OK) != 0);
}

TEST_CASE("a lock is waited for as long as was said, and no longer") {
  const TemporaryFolder folder;
  files::Descriptor first = files::lock_folder(folder.path());
  REQUIRE(first);
  CHECK(!files::lock_folder(folder.path(), 0.05));
  CHECK(errno == EWOULDBLOCK);
  first.close();
  CHECK(files::lock_folder(folder.path(), 0.05));
}

TEST_CASE("variables are those of the environment") {
  const support::Variable set("FXX_OF_A_TEST", "value"), unset("FXX_OF_ANOTHER", std::nullopt);
  CHECK(!files::is_privileged());
  CHECK(std::string(files::variable("FXX_OF_A_TEST")) == "value");
  CHECK(files::variable("FXX_OF_ANOTHER") == nullptr);
}

TEST_CASE("texts are told apart by FNV-1a of 128 bits, files by their content, processors by what they are") {
  CHECK(fxx::wide_hash("") == "6c62272e07bb014262b821756295c58d");
  CHECK(fxx::wide_hash("a") == "d228cb696f1a8caf78912b704e4a8964");
  CHECK(fxx::wide_hash("foobar") == "343e1662793c64bf6f0d3597ba446f18");
  CHECK(fxx::wide_hash(std::string("a\0", 2)) != fxx::wide_hash("a"));
  const TemporaryFolder folder;
  CHECK(fxx::hash_of_file(folder.file("some", std::string("a\0b", 3))) == fxx::wide_hash(std::string("a\0b", 3)));
  CHECK(fxx::hash_of_file(folder.file("empty", "")) == fxx::wide_hash(""));
  CHECK(fxx::hash_of_file(folder / "missing") == "");
  CHECK(fxx::hash_of_file(folder.path()) == "");
  const std::string& identity = fxx::processor_identity();
  CHECK(&identity == &fxx::processor_identity());
  // Of one processor only, and nothing that changes while it runs, as its frequency does.
  CHECK_MESSAGE(!identity.empty(), "/proc/cpuinfo names neither flags nor features");
  CHECK(identity.find("MHz") == std::string::npos);
  const std::size_t flags = identity.find("flags");
  if (flags != std::string::npos) CHECK(identity.find("flags", flags + 5) == std::string::npos);
}
