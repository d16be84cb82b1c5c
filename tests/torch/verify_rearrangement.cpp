// Rule sets that want shapes that suit each other, checked by running: rules::rearrangement, rules::einsums,
// rules::rotary.
#include <ATen/ops/view_as_complex.h>

#include "fxx/rules/einsum.hpp"
#include "fxx/rules/rearrangement.hpp"
#include "fxx/rules/rotary.hpp"
#include "torch/verified.hpp"

using namespace fxx;
using fxx::test::all_hold;
using fxx::test::together;
using fxx::test::VerifyTensors;

namespace {
using Shape = std::vector<std::int64_t>;
using Captures = std::map<std::string, c10::IValue>;
const VerifyOptions shipped = {.gradients = true, .cases = 100};

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
  VerifyOptions options = shipped;
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
  all_hold("rearrangement", rules::rearrangement, options);
}

TEST_CASE("einsums that are matrix products hold where numbers do not overflow") {
  VerifyOptions options = shipped;
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
  all_hold("einsums", rules::einsums, options);
}

TEST_CASE("rotary embeddings hold") {
  // x with an even last dimension 2h, cut by slices; `pairs`: into even and odd places.
  const auto turned = [](bool pairs, bool half_angles) {
    return together("x", [=](VerifyRandom& r) -> Captures {
      const auto h = r.pick<std::int64_t>({1, 2, 3}), length = r.pick<std::int64_t>({1, 2, 4});
      Shape shape = {length, 2 * h};
      for (std::size_t n = r.below(3); n > 0; --n) shape.insert(shape.begin(), r.pick<std::int64_t>({1, 2, 3}));
      const Shape angles = {r.chance(70) ? length : 1, half_angles ? h : r.chance(80) ? 2 * h : 1};
      VerifyTensors tensor(r);
      const auto last = [&](std::int64_t rank) { return r.chance(50) ? -1 : rank - 1; };
      const auto rank = static_cast<std::int64_t>(shape.size());
      const auto none_or = [&](std::int64_t v) { return r.chance(50) ? c10::IValue() : c10::IValue(v); };
      return {{"x", tensor(shape)}, {"cos", tensor(angles)}, {"sin", tensor(angles)}, {"dim", last(rank)},
              {"half", h}, {"low dim", last(rank)}, {"low start", none_or(0)},
              {"low end", pairs ? none_or(2 * h) : c10::IValue(h)}, {"high dim", last(rank)},
              {"high start", pairs ? std::int64_t(1) : h}, {"high end", none_or(2 * h)},
              {"joined", last(pairs ? rank + 1 : rank)}, {"from", r.chance(50) ? -2 : rank - 1}, {"to", last(rank + 1)},
              {"shape", shape}};
    });
  };
  VerifyOptions options = shipped;
  options.inputs["one of each pair"] = together("x", [](VerifyRandom& r) -> Captures {
    const auto h = r.pick<std::int64_t>({1, 2, 3}), length = r.pick<std::int64_t>({1, 2, 4});
    Shape shape = {length, 2 * h};
    for (std::size_t n = r.below(3); n > 0; --n) shape.insert(shape.begin(), r.pick<std::int64_t>({1, 2, 3}));
    Shape sizes = shape;
    sizes.back() = r.chance(50) ? h : -1;
    sizes.push_back(2);
    return {{"x", VerifyTensors(r)(shape)}, {"sizes", sizes}, {"place", std::int64_t(r.chance(50))},
            {"dim", r.chance(50) ? std::int64_t(-1) : static_cast<std::int64_t>(shape.size())}};
  });
  options.inputs["rotary embedding, halves"] = turned(false, false);
  options.inputs["rotary embedding, both halves"] = turned(false, true);
  options.inputs["rotary embedding, pairs"] = turned(true, false);
  options.inputs["rotary embedding, both of pairs"] = turned(true, true);
  options.inputs["rotary embedding, complex"] = together("x", [](VerifyRandom& r) -> Captures {
    const auto h = r.pick<std::int64_t>({1, 2, 3}), length = r.pick<std::int64_t>({1, 2, 4});
    VerifyTensors tensor(r);
    const at::Tensor x = r.chance(50) ? tensor({2, length, 2 * h}) : tensor({length, 2, 2 * h}).transpose(0, 1);
    return {{"x", x}, {"sizes", Shape{2, length, h, 2}},
            {"factor", at::view_as_complex(tensor({length, h, 2}).contiguous())}, {"from", std::int64_t(2)},
            {"to", std::int64_t(3)}, {"shape", Shape{2, length, 2 * h}}};
  });
  all_hold("rotary", rules::rotary, options);
}
