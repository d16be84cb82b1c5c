// Vectors of int64 beside single numbers: functions, comparisons, memory, rows.
#include "fxx/kernels/integers.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       most = std::numeric_limits<std::int64_t>::max();

std::int64_t wrapped(unsigned long long v) { return static_cast<std::int64_t>(v); }
/// Rounded down.
std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  if (b == -1) return wrapped(-static_cast<unsigned long long>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
std::int64_t rest(std::int64_t a, std::int64_t b) { return b == -1 ? 0 : a % b; }

const std::int64_t some[] = {0,   1,    -1,   2,    3,    -7,        13,           -128,      least,    most,
                             100, -100, 4096, -512, 7777, 1LL << 40, -(1LL << 33), least + 1, most - 1, 5};
constexpr int count = sizeof some / sizeof *some;
/// Vectors of all pairs of the numbers.
template <class Check>
void for_each_pair(const Check& check) {
  for (int shift = 0; shift < count; ++shift)
    for (int at = 0; at < count; at += lanes) {
      std::int64_t a[lanes], b[lanes];
      for (int i = 0; i < lanes; ++i) a[i] = some[(at + i) % count], b[i] = some[(at + i + shift) % count];
      check(a, b, load_64(a, Width<lanes>{}), load_64(b, Width<lanes>{}));
    }
}
template <Function F, class Wanted>
__attribute__((noinline)) void check_function(const Wanted& wanted, bool divides = false) {
  CAPTURE(static_cast<int>(F));
  for_each_pair([&](std::int64_t* a, std::int64_t* b, integer_64 x, integer_64 y) {
    if (divides && std::count(b, b + lanes, 0)) {
      std::replace(b, b + lanes, std::int64_t{0}, std::int64_t{9});
      y = load_64(b, Width<lanes>{});
    }
    const integer_64 v = apply_64<F>(x, y);
    bool same = true;
    for (int i = 0; i < lanes; ++i) same = same && v[i] == wanted(a[i], b[i]);
    CHECK(same);
  });
}
template <Function F, class Wanted>
__attribute__((noinline)) void check_comparison(const Wanted& wanted) {
  CAPTURE(static_cast<int>(F));
  for_each_pair([&](const std::int64_t* a, const std::int64_t* b, integer_64 x, integer_64 y) {
    const integer v = apply_64<F>(x, y);
    const integer_64 chosen = apply_64<Function::select>(v, x, y);
    bool same = true;
    for (int i = 0; i < lanes; ++i) {
      same = same && v[i] == (wanted(a[i], b[i]) ? -1 : 0);
      same = same && chosen[i] == (wanted(a[i], b[i]) ? a[i] : b[i]);
    }
    CHECK(same);
  });
}
template <Function F, class Wanted>
__attribute__((noinline)) void check_single(const Wanted& wanted) {
  CAPTURE(static_cast<int>(F));
  for_each_pair([&](const std::int64_t* a, const std::int64_t*, integer_64 x, integer_64) {
    const integer_64 v = apply_64<F>(x);
    bool same = true;
    for (int i = 0; i < lanes; ++i) same = same && v[i] == wanted(a[i]);
    CHECK(same);
  });
}

template <int N>
void check_rows() {
  CAPTURE(N);
  std::vector<std::int64_t> x(N);
  for (int i = 0; i < N; ++i) x[i] = (i * 37 + 11) % 23 - 11;
  const auto get = [&](int c, auto width) __attribute__((always_inline)) { return load_64(x.data() + c, width); };
  for (const std::int64_t scale : {std::int64_t{1}, std::int64_t{1} << 50}) {
    for (std::int64_t& v : x) v *= scale;
    CHECK(row_sum_64<N>(get) == std::accumulate(x.begin(), x.end(), std::int64_t{0}));
    std::uint64_t product = 1;
    for (const std::int64_t v : x) product *= static_cast<std::uint64_t>(v);
    CHECK(row_product_64<N>(get) == wrapped(product));
    CHECK(row_largest_64<N>(get) == *std::max_element(x.begin(), x.end()));
    CHECK(row_smallest_64<N>(get) == *std::min_element(x.begin(), x.end()));
    CHECK(row_arg_largest_64<N>(get) == std::max_element(x.begin(), x.end()) - x.begin());
    CHECK(row_arg_smallest_64<N>(get) == std::min_element(x.begin(), x.end()) - x.begin());
    std::vector<std::int64_t> sums(N), wanted(N);
    std::partial_sum(x.begin(), x.end(), wanted.begin());
    running_sum_64<N>(
        get, [&](int c, integer_64 v, auto width)
                 __attribute__((always_inline)) { store_64(sums.data() + c, v, width); });
    CHECK((sums == wanted));
  }
  std::fill(x.begin(), x.end(), least);
  CHECK(row_largest_64<N>(get) == least);
  CHECK(row_arg_largest_64<N>(get) == 0);
  x[N - 1] = most;
  CHECK(row_largest_64<N>(get) == most);
  CHECK(row_arg_largest_64<N>(get) == N - 1);
  CHECK(row_smallest_64<N>(get) == (N == 1 ? most : least));
}

}  // namespace

TEST_CASE("functions of integers, which wrap around; quotients are rounded as LibTorch rounds them") {
  using F = Function;
  using Number = unsigned long long;
  check_function<F::add>([](Number a, Number b) { return wrapped(a + b); });
  check_function<F::subtract>([](Number a, Number b) { return wrapped(a - b); });
  check_function<F::multiply>([](Number a, Number b) { return wrapped(a * b); });
  check_function<F::maximum>([](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  check_function<F::minimum>([](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  check_function<F::floor_divide>(floor_of, true);
  check_function<F::remainder>(
      [](Number a, Number b) { return wrapped(a - static_cast<Number>(floor_of(wrapped(a), wrapped(b))) * b); }, true);
  check_function<F::rest_of_division>(rest, true);
  check_function<F::divide>(
      [](std::int64_t a, std::int64_t b) { return b == -1 ? wrapped(-static_cast<Number>(a)) : a / b; }, true);
  check_comparison<F::less>([](std::int64_t a, std::int64_t b) { return a < b; });
  check_comparison<F::less_or_equal>([](std::int64_t a, std::int64_t b) { return a <= b; });
  check_comparison<F::greater>([](std::int64_t a, std::int64_t b) { return a > b; });
  check_comparison<F::greater_or_equal>([](std::int64_t a, std::int64_t b) { return a >= b; });
  check_comparison<F::equal>([](std::int64_t a, std::int64_t b) { return a == b; });
  check_comparison<F::not_equal>([](std::int64_t a, std::int64_t b) { return a != b; });
  check_single<F::negate>([](Number a) { return wrapped(-a); });
  check_single<F::absolute>([](std::int64_t a) { return a < 0 ? wrapped(-static_cast<Number>(a)) : a; });
  check_single<F::square>([](Number a) { return wrapped(a * a); });
  check_single<F::relu>([](std::int64_t a) { return std::max<std::int64_t>(a, 0); });
  check_single<F::sign>([](std::int64_t a) { return std::int64_t{a > 0} - std::int64_t{a < 0}; });
}

TEST_CASE("integers in memory: parts of vectors, of 32 bits, so far apart, anywhere") {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (
        [&](auto width) {
          constexpr int n = decltype(width)::value;
          CAPTURE(n);
          const std::unique_ptr<std::int64_t[]> from(new std::int64_t[n]), to(new std::int64_t[n]);
          const std::unique_ptr<std::int32_t[]> narrow(new std::int32_t[n]);
          for (int i = 0; i < n; ++i) from[i] = some[i], narrow[i] = 5 - 3 * i;
          const integer_64 v = load_64(from.get(), width), w = load_64(narrow.get(), width);
          store_64(to.get(), v, width);
          const auto back = [](int i) { return n - 1 - i; };
          const integer_64 turned = gathered_64<n>(from.get(), back);
          bool same = true;
          for (int i = 0; i < lanes; ++i) {
            same = same && v[i] == (i < n ? some[i] : 0) && w[i] == (i < n ? 5 - 3 * i : 0);
            same = same && turned[i] == (i < n ? some[n - 1 - i] : 0);
            if (i < n) same = same && to[i] == some[i];
          }
          scattered_64<n>(to.get(), back, v);
          for (int i = 0; i < n; ++i) same = same && to[n - 1 - i] == some[i];
          CHECK(same);
        }(Width<I + 1>()),
        ...);
  }(std::make_integer_sequence<int, lanes>());
}

TEST_CASE("integers to floats and back, and to what masks are") {
  for_each_pair([&](const std::int64_t* a, const std::int64_t*, integer_64 x, integer_64) {
    const real v = real_of_64(x);
    bool same = true;
    for (int i = 0; i < lanes; ++i) same = same && v[i] == static_cast<float>(a[i]);
    CHECK(same);
  });
  const float infinity = std::numeric_limits<float>::infinity();
  const std::pair<float, std::int64_t> known[] = {
      {0.f, 0},       {-0.9f, 0},      {2.9f, 2},         {-7.5f, -7},        {0x1p40f, 1LL << 40},
      {1e30f, least}, {-1e30f, least}, {infinity, least}, {-infinity, least}, {0x1.8p62f, 3LL << 61}};
  for (const auto& [from, wanted] : known)
    for (int i = 0; i < lanes; ++i) CHECK(integer_64_of(splat(from))[i] == wanted);
  CHECK(integer_64_of(splat(std::numeric_limits<float>::quiet_NaN()))[0] == least);
  const integer_64 wide = widened_64(detail_of_rows::iota() - 3), all = splat_64(-5);
  for (int i = 0; i < lanes; ++i) {
    CHECK(wide[i] == i - 3);
    CHECK(all[i] == -5);
    CHECK(positions_64([](int e) { return 7 - 2 * e; })[i] == 7 - 2 * i);
  }
}

TEST_CASE("rows of integers: sums, products, extremes, places, running sums") {
  check_rows<1>();
  check_rows<3>();
  check_rows<16>();
  check_rows<17>();
  check_rows<37>();
  check_rows<64>();
  check_rows<1003>();
}
