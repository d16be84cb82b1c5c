// What could not be checked on this machine: tests/summary.py prints it below the counts.
#pragma once

#include <cstdio>
#include <string>

namespace fxx::test {

/// Says that something was not checked, and why, once for each text.
inline void not_checked(const std::string& why) {
  static std::string said;
  if (said.find(why + '\n') != said.npos) return;
  said += why + '\n';
  std::printf("note: not checked: %s\n", why.c_str());
}

}  // namespace fxx::test
