// Rule sets that want shapes that suit each other, checked by running: rules::rearrangement, rules::einsums.
#include "fxx/rules/einsum.hpp"
#include "fxx/rules/rearrangement.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;
using fxx::test::together;
using fxx::test::VerifyTensors;

namespace {
using Shape = std::vector<std::int64_t>;
using Captures = std::map<std::string, c10::IValue>;
const VerifyOptions exact = {.law = VerifyOptions::Law::bits, .gradients = true, .cases = 100};

/// x, split, in another order, joined; the dimensions before the channels stand before all of it.
Captures moved(VerifyRandom& r, Shape from, Shape parts, Shape order, Shape shape, std::size_t most_before) {
  for (std::size_t n = r.below(most_before + 1); n > 0; --n) {
    const auto size = r.pick<std::int64_t>({1, 2, 3});
    for (Shape* s : {&from, &parts, &shape}) s->insert(s->begin(), size);
    for (std::int64_t& at : order) ++at;
    order.insert(order.begin(), 0);
  }
  return {{"x", VerifyTensors(r)(from)}, {"parts", parts}, {"order", order}, {"shape", shape}};
}
}  // namespace

TEST_CASE("rearrangements hold") {
  VerifyOptions options = exact;
  const auto size = [](VerifyRandom& r) { return r.pick<std::int64_t>({1, 2, 3}); };
  options.inputs["pixel shuffle"] = together("x", [=](VerifyRandom& r) {
    const std::int64_t c = size(r), h = size(r), w = size(r), k = r.pick<std::int64_t>({2, 2, 3});
    return moved(r, {c * k * k, h, w}, {c, k, k, h, w}, {0, 3, 1, 4, 2}, {c, h * k, w * k}, 2);
  });
  options.inputs["pixel unshuffle"] = together("x", [=](VerifyRandom& r) {
    const std::int64_t c = size(r), h = size(r), w = size(r), k = r.pick<std::int64_t>({2, 2, 3});
    return moved(r, {c, h * k, w * k}, {c, h, k, w, k}, {0, 2, 4, 1, 3}, {c * k * k, h, w}, 2);
  });
  options.inputs["channel shuffle"] = together("x", [=](VerifyRandom& r) {
    const std::int64_t n = size(r), g = r.pick<std::int64_t>({2, 3}), c = size(r), h = size(r), w = size(r);
    Captures given = moved(r, {n, g * c, h, w}, {n, g, c, h, w}, {0, 2, 1, 3, 4}, {n, g * c, h, w}, 0);
    given["i"] = std::int64_t(r.pick({1, -4}));
    given["j"] = std::int64_t(r.pick({2, -3}));
    return given;
  });
  all_hold(rules::rearrangement, options);
}

TEST_CASE("einsums that are matrix products hold where numbers do not overflow") {
  VerifyOptions options = {.moderate = true, .gradients = true, .cases = 100};
  options.inputs["matrix product by einsum"] = together("equation", [](VerifyRandom& r) -> Captures {
    const std::string_view equation = r.pick<std::string_view>(
        {"ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ij,jk->ki", "bij,bjk->bik", "bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd",
         "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "bsd,de->bse", "bsd,ed->bse", "cbij,bcjk->kbci"});
    std::map<char, std::int64_t> sizes;
    const auto shape_of = [&](std::string_view letters) {
      Shape shape;
      for (const char c : letters)
        shape.push_back(sizes.emplace(c, r.pick<std::int64_t>({1, 2, 3, 4})).first->second);
      return shape;
    };
    const std::size_t comma = equation.find(','), arrow = equation.find('-');
    VerifyTensors tensor(r);
    at::Tensor first = tensor(shape_of(equation.substr(0, comma)));
    at::Tensor second = tensor(shape_of(equation.substr(comma + 1, arrow - comma - 1)));
    return {{"equation", std::string(equation)}, {"x", first}, {"y", second}};
  });
  all_hold(rules::einsums, options);
}
