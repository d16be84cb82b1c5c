// What the tests that check rules by running share. Narrow headers of LibTorch only: a rule set takes the compiler long
// enough.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/torch/verify_rules.hpp"
#include "rules/needs.hpp"
#include "torch/doctest.hpp"

namespace fxx::test {

/// Numbers between -2 and 2, in float64 or mostly float32, one case in three not contiguous; so that shapes alone are
/// left to choose. Tensors of one case have one dtype: it is taken from `random`, which they share.
class VerifyTensors {
 public:
  explicit VerifyTensors(VerifyRandom& random)
      : random_(random), dtype_(random.pick({at::kFloat, at::kFloat, at::kDouble})) {}
  at::Tensor operator()(std::vector<std::int64_t> shape) {
    const bool crossed = shape.size() > 1 && random_.chance(33);
    if (crossed) std::swap(shape[0], shape.back());
    at::Tensor tensor = at::empty(shape, at::kDouble);
    for (double *v = tensor.mutable_data_ptr<double>(), *end = v + tensor.numel(); v != end; ++v)
      *v = 4 * random_.real() - 2;
    tensor = tensor.to(dtype_);
    return crossed ? tensor.transpose(0, -1) : tensor;
  }

 private:
  VerifyRandom& random_;
  at::ScalarType dtype_;
};
/// Inputs that suit each other: `make` says by name what captures hold, when the pattern asks for `first`.
inline VerifyInputs together(std::string first,
                             std::function<std::map<std::string, c10::IValue>(VerifyRandom& random)> make) {
  const auto held = std::make_shared<std::map<std::string, c10::IValue>>();
  return [=, first = std::move(first), make = std::move(make)](std::string_view capture, VerifyRandom& random) {
    if (capture == first) *held = make(random);
    const auto found = held->find(std::string(capture));
    return found == held->end() ? std::nullopt : std::optional<c10::IValue>(found->second);
  };
}

inline bool lacks_a_kind(const VerifyReport::Rule& r) {
  const bool real = r.seen.contains("float32");
  return !r.seen.contains("not contiguous") || !r.seen.contains(real ? "float64" : "bool") ||
         r.seen.contains("gradients") != real || r.compared < 50;
}

/// Every rule of the set `rules::name` is verified, on inputs of every kind but those that its law leaves out.
template <class... Rules>
void all_hold(std::string_view name, const rewrite::Ruleset<Rules...>& set, const VerifyOptions& options) {
  const auto check = [](const VerifyReport& report) {
    const VerifyReport::Rule& r = report.rules[0];
    CAPTURE(r.name);
    CAPTURE(r.counter_example);
    CHECK(r.difference == "");
    CHECK(r.verified());
    CHECK(r.compared >= 50);
    CHECK(r.seen.contains("not contiguous"));
    // Bitwise operators take no floating-point numbers.
    const bool real = r.seen.contains("float32");
    CHECK(r.seen.contains(real ? "float64" : "bool"));
    CHECK(r.seen.contains("gradients") == real);
    CHECK_NOTHROW(report.check());
  };
  set.for_each([&](const auto& rule) {
    const Needs needs = needs_of(name, rule.name);
    VerifyOptions of_rule = options;
    if (needs.bits) of_rule.law = VerifyOptions::Law::bits;
    VerifyReport report = verify(rule, of_rule);
    // Where chance left out a kind of value that the rule is for, there are more cases.
    for (int more = 0; more < 4 && report.ok() && lacks_a_kind(report.rules[0]); ++more) {
      of_rule.seed += 1000;
      VerifyReport further = verify(rule, of_rule);
      for (const auto& [kind, count] : report.rules[0].seen) further.rules[0].seen[kind] += count;
      further.rules[0].compared += report.rules[0].compared;
      report = std::move(further);
    }
    check(report);
  });
}

}  // namespace fxx::test
