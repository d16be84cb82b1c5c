// Elements of other types: what is read and written is what single elements convert to.
#include "fxx/kernels/memory.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), no_number = std::numeric_limits<float>::quiet_NaN();

/// Calls `check(count, width)` for all parts of a vector.
template <class Check>
void for_each_width(const Check& check) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (check(Width<I + 1>()), ...);
  }(std::make_integer_sequence<int, lanes>());
}
/// Reads and writes `numbers` in all parts of vectors: the arrays end where the elements do.
template <class T, class ToFloat, class FromFloat>
void check_type(const std::vector<T>& numbers, const std::vector<float>& floats, const ToFloat& to_float,
                const FromFloat& from_float) {
  for_each_width([&](auto width) {
    const auto count = static_cast<std::size_t>(int(width));
    for (std::size_t first = 0; first + count <= numbers.size(); first += count) {
      const std::unique_ptr<T[]> from(new T[count]);
      std::memcpy(from.get(), numbers.data() + first, count * sizeof(T));
      float got[lanes];
      store(got, load_as(from.get(), width));
      for (std::size_t i = 0; i < static_cast<std::size_t>(lanes); ++i) {
        const float wanted = i < count ? to_float(numbers[first + i]) : 0.f;
        CHECK((got[i] == wanted || (std::isnan(got[i]) && std::isnan(wanted))));
      }
    }
    for (std::size_t first = 0; first + count <= floats.size(); first += count) {
      const std::unique_ptr<T[]> to(new T[count]);
      float given[lanes] = {};
      std::memcpy(given, floats.data() + first, count * sizeof(float));
      store_as(to.get(), load(given), width);
      for (std::size_t i = 0; i < count; ++i) {
        const T wanted = from_float(floats[first + i]);
        CAPTURE(floats[first + i]);
        CHECK(std::memcmp(&to[i], &wanted, sizeof(T)) == 0);
      }
    }
  });
}
std::vector<float> some_floats() {
  std::vector<float> x = fxx::test::random_floats(61, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::ldexp(1.f, static_cast<int>(i % 6));
  for (const float v : {0.f, 1.f, -1.f, 2.5f, -7.9f, 127.f, 255.f}) x.push_back(v);
  return x;
}
/// IEEE 754's half of a double, slowly.
std::uint16_t half_of(double v) {
  const std::uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (std::isnan(v)) return static_cast<std::uint16_t>(sign | 0x7e00);
  const double size = std::abs(v);
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (size == 0) return sign;
  const int exponent = std::max(std::ilogb(size), -14);
  const auto places = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + places);
}
double of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, places = bits & 1023;
  double v = exponent == 0    ? std::ldexp(places, -24)
             : exponent == 31 ? (places ? no_number : infinity)
                              : std::ldexp(1024 + places, exponent - 25);
  return bits & 0x8000 ? -v : v;
}

}  // namespace

TEST_CASE("integers become the nearest floats, and floats are cut off to integers") {
  const auto check = [&]<class T>(std::vector<T> numbers) {
    std::vector<float> floats = some_floats();
    if constexpr (sizeof(T) >= 4)
      for (const float v : {2e9f, -2147483648.f, 16777217.f}) floats.push_back(v);
    if constexpr (sizeof(T) == 8)
      for (const float v : {3e9f, -9.2e18f, 9.2e18f}) floats.push_back(v);
    for (int i = 0; i < 40; ++i) numbers.push_back(static_cast<T>(i * 17));
    check_type<T>(
        numbers, floats, [](T v) { return static_cast<float>(v); },
        [](float v) { return static_cast<T>(static_cast<std::int64_t>(v)); });
  };
  check.operator()<std::int64_t>({0, -1, 16777217, 9007199254740993, -9223372036854775807 - 1, 9223372036854775807});
  check.operator()<std::int32_t>({0, -1, 16777217, 16777219, 2147483647, -2147483647 - 1});
  check.operator()<std::int16_t>({0, -1, 32767, -32768});
  check.operator()<std::uint8_t>({0, 1, 127, 128, 255});
  check.operator()<signed char>({0, 1, 127, -128, -1});
}

TEST_CASE("what integers cannot hold becomes the least, as in LibTorch") {
  const std::vector<float> beyond = {no_number, infinity, -infinity, 1e20f};
  check_type<std::int64_t>({}, beyond, [](auto) { return 0.f; },
                           [](float) { return std::numeric_limits<std::int64_t>::min(); });
  check_type<std::int32_t>({}, beyond, [](auto) { return 0.f; },
                           [](float) { return std::numeric_limits<std::int32_t>::min(); });
}

TEST_CASE("doubles are rounded to the nearest float and come back as they were") {
  const std::vector<double> numbers = {0, 1, -1, 0.1, 1e-40, 1e300, -1e300, 3.4028235677973366e38, 16777217, 16777219,
                                       double(infinity), double(no_number), 1e-46, 0.3, 0.7, 5, 6, 7};
  std::vector<float> floats = some_floats();
  for (const float v : {infinity, -infinity, 1e-45f, 3e38f}) floats.push_back(v);
  check_type<double>(
      numbers, floats, [](double v) { return static_cast<float>(v); }, [](float v) { return double(v); });
}

TEST_CASE("halves of both kinds are exact when read, and rounded to even when written") {
  std::vector<float16> halves;
  std::vector<bfloat16> brains;
  for (int i = 0; i < 65536; i += 7) halves.push_back({static_cast<std::uint16_t>(i)});
  for (int i = 0; i < 65536; i += 7) brains.push_back({static_cast<std::uint16_t>(i)});
  std::vector<float> floats = some_floats();
  for (const float v : {0.f, -0.f, infinity, -infinity, 65504.f, 65519.f, 65520.f, 1e10f, 6.1035156e-5f, 6.09e-5f,
                        3e-8f, 2.9802322e-8f, 5.96e-8f, 8.94e-8f, 1e-40f, -1e-7f, 2049.f, 2051.f, 1.00048828f, 1.00146484f,
                        3.39e38f, 1.00390625f, 1.01171875f})
    floats.push_back(v);
  for (int i = 0; i < 3000; ++i) floats.push_back(std::ldexp(floats[i % 60], i % 50 - 30));
  check_type<float16>(
      halves, floats, [](float16 v) { return static_cast<float>(of_half(v.bits)); },
      [](float v) { return float16{half_of(v)}; });
  check_type<bfloat16>(
      brains, floats,
      [](bfloat16 v) {
        const std::uint32_t bits = static_cast<std::uint32_t>(v.bits) << 16;
        float value;
        std::memcpy(&value, &bits, 4);
        return value;
      },
      [](float v) {
        std::uint32_t bits;
        std::memcpy(&bits, &v, 4);
        const std::uint32_t rest = bits & 0xffff, up = rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1)) ? 1 : 0;
        return bfloat16{static_cast<std::uint16_t>((bits >> 16) + up)};
      });
  std::uint16_t nan_bits[2];
  store_as(reinterpret_cast<float16*>(nan_bits), splat(no_number), Width<1>());
  store_as(reinterpret_cast<bfloat16*>(nan_bits + 1), splat(no_number), Width<1>());
  CHECK((nan_bits[0] & 0x7fff) > 0x7c00);
  CHECK((nan_bits[1] & 0x7fff) > 0x7f80);
}

TEST_CASE("masks are bytes of one and zero, and any other byte holds too") {
  for_each_width([](auto width) {
    const int count = width;
    const std::unique_ptr<std::uint8_t[]> bytes(new std::uint8_t[count]);
    for (int i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i % 3 * 127);
    const integer mask = load_mask(bytes.get(), width);
    for (int i = 0; i < lanes; ++i) CHECK(mask[i] == (i < count && i % 3 ? -1 : 0));
    CHECK(any(mask) == (count > 1));
    CHECK_FALSE(all(mask));
    store_mask(bytes.get(), ~mask, width);
    for (int i = 0; i < count; ++i) CHECK(bytes[i] == (i % 3 ? 0 : 1));
    const std::unique_ptr<bool[]> booleans(new bool[count]);
    float numbers[lanes];
    for (int i = 0; i < lanes; ++i) numbers[i] = i % 4 == 3 ? no_number : static_cast<float>(i % 4);
    store_as(booleans.get(), load(numbers), width);
    for (int i = 0; i < count; ++i) CHECK(booleans[i] == (i % 4 != 0));
    const real read = load_as(booleans.get(), width);
    for (int i = 0; i < lanes; ++i) CHECK(read[i] == (i < count && i % 4 != 0 ? 1.f : 0.f));
  });
}
