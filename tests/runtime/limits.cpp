// runtime/limits.hpp: limits of control groups of both versions, read from made-up trees.
#include "fxx/runtime/limits.hpp"

#include <doctest/doctest.h>

#include "fxx/runtime/process.hpp"
#include "support.hpp"

using fxx::ResourceLimits;
using support::TemporaryFolder;

namespace {
constexpr std::uint64_t megabyte = 1 << 20;

struct Tree {
  TemporaryFolder folder;
  void groups(std::string_view text) const { folder.file("proc/self/cgroup", text); }
  void mounts(std::string_view text) const { folder.file("proc/self/mountinfo", text); }
  void file(const std::string& name, std::string_view text) const { folder.file("sys/fs/cgroup/" + name, text); }
  ResourceLimits limits() const { return fxx::resource_limits(folder.path()); }
};
constexpr std::string_view version_2 = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
}  // namespace

TEST_CASE("version 2: the tightest of the group and of those above it") {
  Tree tree;
  tree.groups("0::/user.slice/app.scope\n");
  tree.mounts(std::string("24 1 8:1 / / rw - ext4 /dev/sda rw\n") += version_2);
  CHECK(tree.limits().processors == 0);
  CHECK(tree.limits().memory == ResourceLimits::no_limit);
  tree.file("user.slice/app.scope/cpu.max", "max 100000\n");
  tree.file("user.slice/app.scope/memory.max", "max\n");
  tree.file("user.slice/app.scope/memory.current", "12345\n");
  CHECK(tree.limits().processors == 0);
  CHECK(tree.limits().memory == ResourceLimits::no_limit);
  tree.file("user.slice/cpu.max", "150000 100000\n");
  tree.file("user.slice/memory.max", std::to_string(500 * megabyte) + "\n");
  tree.file("user.slice/memory.current", std::to_string(200 * megabyte) + "\n");
  CHECK(tree.limits().processors == 1.5);
  CHECK(tree.limits().memory == 300 * megabyte);
  // What lies there for files is given back before anything fails.
  tree.file("user.slice/memory.stat", "anon 1\ninactive_file " + std::to_string(50 * megabyte) + "\nactive_file 7\n");
  CHECK(tree.limits().memory == 350 * megabyte);
  tree.file("user.slice/app.scope/cpu.max", "50000 100000");
  tree.file("user.slice/app.scope/memory.high", std::to_string(10 * megabyte));
  CHECK(tree.limits().processors == 0.5);
  CHECK(tree.limits().memory == 10 * megabyte - 12345);
  tree.file("user.slice/app.scope/memory.current", std::to_string(11 * megabyte));  // beyond its limit
  CHECK(tree.limits().memory == 0);
}

TEST_CASE("version 1: each controller where it is mounted") {
  Tree tree;
  tree.groups("7:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/\n1:name=systemd:/docker/abc\n");
  tree.mounts(
      "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n"
      "36 31 0:33 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  tree.file("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  tree.file("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  tree.file("memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.file("memory/memory.usage_in_bytes", "4096\n");
  CHECK(tree.limits().processors == 0);
  CHECK(tree.limits().memory > (std::uint64_t{1} << 60));
  tree.file("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "400000\n");
  tree.file("memory/docker/abc/memory.limit_in_bytes", std::to_string(256 * megabyte));
  tree.file("memory/docker/abc/memory.usage_in_bytes", std::to_string(200 * megabyte));
  tree.file("memory/docker/abc/memory.stat", "cache 5\ntotal_inactive_file " + std::to_string(megabyte) + "\n");
  CHECK(tree.limits().processors == 4);
  CHECK(tree.limits().memory == 57 * megabyte);
}

TEST_CASE("inside a container the group is the root of what is mounted there") {
  Tree tree;
  // The host's name of the group, which the mount does not show; the mount's root says so, or nothing does.
  for (const char* root : {"/docker/abc", "/"}) {
    tree.groups("2:memory:/docker/abc\n");
    tree.mounts("35 31 0:32 " + std::string(root) + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    tree.file("memory/memory.limit_in_bytes", std::to_string(64 * megabyte));
    CHECK(tree.limits().memory == 64 * megabyte);
  }
  tree.groups("0::/../elsewhere\n");
  tree.mounts(version_2);
  tree.file("cpu.max", "200000 100000\n");
  CHECK(tree.limits().processors == 2);
}

TEST_CASE("what is not there, or makes no sense, is no limit") {
  Tree tree;
  const auto free = [&] { return tree.limits().processors == 0 && tree.limits().memory == ResourceLimits::no_limit; };
  CHECK(free());
  for (const char* groups : {"", "\n", "0::", "::", "0:/", "x", "0::/a\n0::/a/b\n"})
    for (const char* mounts : {"", "\n", " - ", "a b c d e - cgroup2 x", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 c rw"}) {
      tree.groups(groups);
      tree.mounts(mounts);
      for (const char* text : {"", "max", "0", "x 1", "1000", "100000 0", "-1 100000", "99999999999999999999999 1"}) {
        tree.file("cpu.max", text);
        CHECK(free());
      }
    }
}

TEST_CASE("memory is what the system has free, and no more than the limit leaves") {
  Tree tree;
  CHECK(fxx::available_memory(tree.folder.path()) == ResourceLimits::no_limit);
  tree.folder.file("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    4096 kB\nBuffers: 1 kB\n");
  CHECK(fxx::available_memory(tree.folder.path()) == 4 * megabyte);
  tree.groups("0::/\n");
  tree.mounts(version_2);
  tree.file("memory.max", std::to_string(megabyte));
  CHECK(fxx::available_memory(tree.folder.path()) == megabyte);
  CHECK(fxx::available_memory() > megabyte);  // this machine
  const double quota = fxx::resource_limits().processors;
  if (quota > 0) CHECK(fxx::available_processors() < quota + 1);
}
