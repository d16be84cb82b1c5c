// What the tests of runtime/, io/ and viz/ share: folders that go away again, variables that are set back, faults as
// values.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "fxx/error.hpp"

namespace support {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fxx-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = std::filesystem::canonical(name).string();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// Path of a new file with this content.
  std::string file(std::string_view name, std::string_view content) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  /// Path of a new shell script that can be run.
  std::string script(std::string_view name, std::string_view body) const {
    const std::string path = file(name, "#!/bin/sh\n" + std::string(body));
    ::chmod(path.c_str(), 0755);
    return path;
  }

 private:
  std::string path_;
};

// Compilers that tell their version and do nothing else right, for FXX_CXX.

inline std::string failing_compiler(const TemporaryFolder& folder) {
  return folder.script("fails", "[ \"$1\" = --version ] && exit 0\necho 'line of the log' >&2\nexit 3\n");
}
inline std::string sleeping_compiler(const TemporaryFolder& folder) {
  return folder.script("late", "[ \"$1\" = --version ] && exit 0\nsleep 30\n");
}
/// What it writes is no library.
inline std::string compiler_of_rubbish(const TemporaryFolder& folder) {
  return folder.script("rubbish",
                       "[ \"$1\" = --version ] && exit 0\n"
                       "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo rubbish > \"$2\"; shift; done\n");
}

/// An environment variable with another value, or none, as long as the object lives.
class Variable {
 public:
  Variable(std::string name, const std::optional<std::string>& value) : name_(std::move(name)) {
    if (const char* old = ::getenv(name_.c_str())) old_ = old;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(old_); }

 private:
  void set(const std::optional<std::string>& value) const {
    if (value) ::setenv(name_.c_str(), value->c_str(), 1);
    else ::unsetenv(name_.c_str());
  }
  std::string name_;
  std::optional<std::string> old_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// How many entries a folder has whose names begin so.
inline int count_entries(const std::string& folder, std::string_view prefix = "") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().filename().string().starts_with(prefix);
  return count;
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// The folder of a cache's entry becomes a copy of another one's, with its own key: nothing tells the cache that it is
/// not what was built for that.
inline void put_in_place_of_entry(const std::string& entry, const std::string& other) {
  const std::string key = content_of(entry + "/key");
  std::filesystem::remove_all(entry);
  std::filesystem::copy(other, entry, std::filesystem::copy_options::recursive);
  std::ofstream(entry + "/key", std::ios::binary) << key;
}

/// Descriptors that this process has open.
inline int open_descriptors() { return count_entries("/proc/self/fd"); }

/// The fault of this class that `f` throws; the test fails when it throws none or another.
template <class Fault, class F>
Fault fault_of(F&& f) {
  try {
    f();
  } catch (const Fault& fault) {
    return fault;
  }
  FAIL("nothing was thrown");
  throw 0;  // not reached
}

}  // namespace support
