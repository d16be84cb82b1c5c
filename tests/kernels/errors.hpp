// How far results of kernels are from double precision, beside what their docstrings allow.
//
// With FXX_ERRORS set a program of tests says at its end how much of each bound was reached, so that whoever changes a
// kernel can tell whether what its docstring says still is near:
//
//   FXX_ERRORS=1 build/tests/tests/test_kernels
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace fxx::test {

class Errors {
 public:
  static Errors& all() {
    static Errors errors;
    return errors;
  }
  Errors() = default;
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;
  ~Errors() {
    if (std::getenv("FXX_ERRORS") == nullptr) return;
    for (const auto& [what, part] : parts_) std::printf("error: %.3f of what is allowed: %s\n", part, what.c_str());
  }
  void add(const char* what, double part) {
    double& most = parts_[what];
    if (!(part <= most)) most = part;
  }

 private:
  std::map<std::string, double> parts_;
};

/// Is an error no more than that? nan is.
inline bool within(const char* what, double error, double bound) {
  const double part = error == 0 ? 0 : error / bound;
  Errors::all().add(what, part);
  return part <= 1;
}

}  // namespace fxx::test
