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

/// Written and read as integers of fewer bits.
template <class T, int N>
void check_narrow(integer_64 v, Width<N> width) {
  const std::unique_ptr<T[]> to(new T[N]), scattered(new T[N]);
  store_64(to.get(), v, width);
  scattered_64<N>(scattered.get(), [](int i) { return N - 1 - i; }, v);
  const integer_64 back = load_64(to.get(), width), gathered = gathered_64<N>(to.get(), [](int i) { return i; });
  bool same = true;
  for (int i = 0; i < lanes; ++i) {
    const T wanted = i < N ? static_cast<T>(v[i]) : T{0};
    if (i < N) same = same && to[i] == wanted && scattered[N - 1 - i] == wanted;
    same = same && back[i] == wanted && gathered[i] == wanted;
  }
  CHECK(same);
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
  check_function<F::bitwise_and>([](Number a, Number b) { return wrapped(a & b); });
  check_function<F::bitwise_or>([](Number a, Number b) { return wrapped(a | b); });
  check_function<F::bitwise_xor>([](Number a, Number b) { return wrapped(a ^ b); });
  check_function<F::shift_left>([](Number a, Number b) { return b < 64 ? wrapped(a << b) : 0; });
  check_function<F::shift_right>([](std::int64_t a, Number b) { return a >> std::min<Number>(b, 63); });
  check_single<F::bitwise_not>([](std::int64_t a) { return ~a; });
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
          for (int i = 0; i < n; ++i) from[i] = some[i];
          const integer_64 v = load_64(from.get(), width);
          store_64(to.get(), v, width);
          check_narrow<std::int32_t>(v, width);
          check_narrow<std::int16_t>(v, width);
          check_narrow<std::int8_t>(v, width);
          check_narrow<std::uint8_t>(v, width);
          const auto back = [](int i) { return n - 1 - i; };
          const integer_64 turned = gathered_64<n>(from.get(), back);
          bool same = true;
          for (int i = 0; i < lanes; ++i) {
            same = same && v[i] == (i < n ? some[i] : 0);
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

TEST_CASE("a divisor that is 0, and a place that is none, are faults where they are among the elements") {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (
        [&](auto width) {
          constexpr int n = decltype(width)::value;
          for (int at = 0; at < lanes; ++at) {
            integer_64 y = positions_64([&](int i) { return i == at ? 0 : i - 40; });
            int fault = no_fault;
            const integer_64 divisor = divisor_64(y, width, fault);
            CHECK(fault == (at < n ? fault_of_division : no_fault));
            CHECK(divisor[at] == 1);
            if (at > 0) CHECK(divisor[0] == -40);
            for (const std::int64_t wrong : {std::int64_t{99}, std::int64_t{-1}, least, most}) {
              y = positions_64([&](int i) { return i == at ? wrong : i; });
              fault = no_fault;
              const integer_64 place = place_64(y, 99, width, fault);
              CHECK(fault == (at < n ? fault_of_index : no_fault));
              CHECK(place[at] == 0);
              if (at > 0) CHECK(place[at - 1] == at - 1);
            }
          }
          int fault = no_fault;
          CHECK(place_64(splat_64(98), 99, width, fault)[n - 1] == 98);
          CHECK(divisor_64(splat_64(-1), width, fault)[n - 1] == -1);
          CHECK(fault == no_fault);
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
  for (const auto& [from, wanted] : std::initializer_list<std::pair<float, std::int64_t>>{
           {1.75f, 1}, {-1.75f, -1}, {2147483520.f, 2147483520}, {3e9f, -2147483648LL}, {-infinity, -2147483648LL}})
    for (int i = 0; i < lanes; ++i) CHECK(narrow_64_of(splat(from))[i] == wanted);
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
