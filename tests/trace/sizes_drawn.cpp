// Dynamic dimensions: drawn arithmetic of C++ on sizes is solved exactly, or refused; none is taken for another.
#include <doctest/doctest.h>

#include <map>
#include <memory>

#include "fxx/trace/sizes.hpp"
#include "support.hpp"
#include "trace/sized.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

/// An expression over sizes as C++ computes it.
struct Drawn {
  enum class Op : std::uint8_t { size, number, add, sub, mul, div, mod, min, max };
  Op op = Op::number;
  std::int64_t value = 0;  // of a number; which size
  std::shared_ptr<const Drawn> a = nullptr, b = nullptr;

  /// Nothing where C++ divides by zero.
  std::optional<std::int64_t> at(std::span<const std::int64_t> sizes) const {
    if (op == Op::size) return sizes[static_cast<std::size_t>(value)];
    if (op == Op::number) return value;
    const auto x = a->at(sizes), y = b->at(sizes);
    if (!x || !y || ((op == Op::div || op == Op::mod) && *y == 0)) return std::nullopt;
    switch (op) {
      case Op::add: return *x + *y;
      case Op::sub: return *x - *y;
      case Op::mul: return *x * *y;
      case Op::div: return *x / *y;
      case Op::mod: return *x % *y;
      case Op::min: return std::min(*x, *y);
      default: return std::max(*x, *y);
    }
  }
  std::string text() const {
    if (op == Op::size) return value ? "m" : "n";
    if (op == Op::number) return std::to_string(value);
    static const char* const names[] = {"", "", " + ", " - ", " * ", " / ", " % ", " min ", " max "};
    return "(" + a->text() + names[static_cast<int>(op)] + b->text() + ")";
  }
  /// The operators alone: "(n/k)*(n%k)" is "mul(div, mod)".
  std::string kind() const {
    static const char* const names[] = {"n", "k", "add", "sub", "mul", "div", "mod", "min", "max"};
    const std::string own = names[static_cast<int>(op)];
    return a ? own + "(" + a->kind() + ", " + b->kind() + ")" : own;
  }
  bool has_size() const { return op == Op::size || (a && (a->has_size() || b->has_size())); }
};

std::shared_ptr<const Drawn> drawn(test::Random& random, int depth, std::size_t sizes) {
  const auto out = std::make_shared<Drawn>();
  if (depth == 0) {
    if (random.below(5) < 3) {
      out->op = Drawn::Op::size;
      out->value = static_cast<std::int64_t>(random.below(sizes));
    } else {
      const std::int64_t bound = random.chance(2) ? 12 : random.chance(2) ? 100 : 1000;
      out->value = 1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(bound)));
    }
    return out;
  }
  out->op = static_cast<Drawn::Op>(2 + random.below(7));
  // One side at least has the full depth.
  const bool left = random.chance(2), both = random.chance(2);
  out->a = drawn(random, left || both ? depth - 1 : 0, sizes);
  out->b = drawn(random, !left || both ? depth - 1 : 0, sizes);
  return out;
}

}  // namespace

TEST_CASE("drawn arithmetic on sizes, nested two deep: exact at sizes never traced, or refused") {
  test::Random random(35);
  std::map<std::string, int> refused;
  int solved = 0, refusals = 0;
  std::size_t traced = 0;
  const int count = test::repeats(1000, 20);
  for (int i = 0; i < count;) {
    const std::size_t sizes = 1 + random.below(2);
    const auto e = drawn(random, 1 + (random.below(4) > 0), sizes);
    const std::vector<DynamicDim> dims = sizes == 1 ? batch : std::vector<DynamicDim>{{0, 0, "a"}, {0, 1, "b"}};
    // The code divides by zero at none of its sizes.
    bool valid = e->has_size();
    for (std::int64_t n = 2; n < 1200 && valid; ++n) valid = e->at(std::vector{n, n * 37 % 1199 + 2}).has_value();
    if (!valid) continue;
    ++i;
    CAPTURE(e->text());
    const SizeSet given = sizes == 1 ? SizeSet{static_cast<std::int64_t>(2 + random.below(100))}
                                     : SizeSet{static_cast<std::int64_t>(2 + random.below(100)),
                                               static_cast<std::int64_t>(2 + random.below(100))};
    const auto value = [&](const SizeSet& at) { return e->at(at).value_or(0); };
    const auto code = [&](Run& run, Proxy x, Proxy) { return x.view({value(run.sizes), 3}); };
    try {
      const Solved found = solve(code, dims, {given});
      ++solved;
      traced += found.traces.size();
      for (int j = 0; j < 50; ++j) {
        SizeSet at;
        for (std::size_t s = 0; s < sizes; ++s)
          at.push_back(static_cast<std::int64_t>(2 + random.below(random.chance(2) ? 100 : 1500)));
        if (!e->at(at)) continue;
        bool known = false;
        for (const SizedTrace& trace : found.traces) known = known || trace.sizes == at;
        if (!known) check_at(code, found.graph, dims, at);
      }
    } catch (const TraceError& error) {
      CHECK(error.id() == ErrorId::size_not_solved);
      ++refusals;
      ++refused[e->kind()];
    }
  }
  std::string by_kind;
  for (const auto& [kind, times] : refused) by_kind += "\n  " + std::to_string(times) + " " + kind;
  MESSAGE(solved << " solved from " << (solved ? traced / static_cast<std::size_t>(solved) : 0)
                 << " traces on average, " << refusals << " refused:" << by_kind);
  CHECK(refusals * 20 < count);
  CHECK(traced <= 38 * static_cast<std::size_t>(solved));
}
