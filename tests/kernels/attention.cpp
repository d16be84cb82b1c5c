// Attention of one head beside double precision.
#include "fxx/kernels/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f, infinity = std::numeric_limits<float>::infinity();

/// Rows end where their elements do, and so does the last of them. An empty mask adds nothing.
template <AttentionShape Shape>
std::vector<float> computed(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                            float scale, const std::vector<float>& mask) {
  constexpr int columns = Shape.value_size ? Shape.value_size : Shape.size;
  std::vector<float> workspace(Shape.workspace(), untouched), out(Shape.queries * (columns + 1), untouched);
  const auto put = [&](int query, int column, real value, auto width) __attribute__((always_inline)) {
    store_some<width>(out.data() + query * (columns + 1) + column, value);
  };
  if (mask.empty()) {
    attention<Shape>(q.data(), k.data(), v.data(), scale, workspace.data(), no_mask, put);
  } else {
    const auto added = [&](int query, int key, auto width) __attribute__((always_inline)) {
      return load_some<width>(mask.data() + query * Shape.keys + key);
    };
    attention<Shape>(q.data(), k.data(), v.data(), scale, workspace.data(), added, put);
  }
  return out;
}
/// The same over a cache, of which `count` keys and values are there: the arrays end behind them.
template <AttentionShape Shape>
std::vector<float> computed_over_cache(const std::vector<float>& q, const std::vector<float>& k,
                                       const std::vector<float>& v, int count, float scale,
                                       const std::vector<float>& mask) {
  constexpr int columns = Shape.values();
  std::vector<float> workspace(Shape.cache_workspace(), untouched), out(Shape.queries * (columns + 1), untouched);
  const auto put = [&](int query, int column, real value, auto width) __attribute__((always_inline)) {
    store_some<width>(out.data() + query * (columns + 1) + column, value);
  };
  if (mask.empty()) {
    attention_over_cache<Shape>(q.data(), k.data(), v.data(), count, scale, workspace.data(), no_mask, put);
  } else {
    const auto added = [&](int query, int key, auto width) __attribute__((always_inline)) {
      return load_some<width>(mask.data() + query * count + key);
    };
    attention_over_cache<Shape>(q.data(), k.data(), v.data(), count, scale, workspace.data(), added, put);
  }
  return out;
}
std::vector<float> rows(int count, int stride, int size, unsigned seed) {
  return fxx::test::random_floats(static_cast<std::size_t>((count - 1) * stride + size), seed);
}

/// Of the first `count` keys.
template <AttentionShape Shape>
void check_results(const std::vector<float>& out, const std::vector<float>& q, const std::vector<float>& k,
                   const std::vector<float>& v, float scale, const std::vector<float>& mask, int count,
                   const char* what) {
  constexpr int columns = Shape.value_size ? Shape.value_size : Shape.size;
  double worst = 0;
  bool beside = false;
  for (int i = 0; i < Shape.queries; ++i) {
    const int ahead = Shape.from_first ? 0 : count - Shape.queries;
    const int seen = Shape.causal ? std::clamp(i + 1 + ahead, 0, count) : count;
    std::vector<double> weights;
    double most = -INFINITY, total = 0;
    for (int j = 0; j < seen; ++j) {
      double score = 0;
      for (int c = 0; c < Shape.size; ++c) score += double(q[i * Shape.query_stride + c]) * k[j * Shape.key_stride + c];
      weights.push_back(score * scale + (mask.empty() ? 0 : mask[i * count + j]));
      most = std::max(most, weights.back());
    }
    for (double& w : weights) total += w = std::exp(w - most);
    for (int c = 0; c < columns; ++c) {
      double exact = 0;
      for (int j = 0; j < seen; ++j) exact += weights[j] / total * v[j * Shape.value_stride + c];
      const float given = out[i * (columns + 1) + c];
      if (seen == 0 || std::isnan(total)) CHECK((Shape.hidden_is_zero ? given == 0 : std::isnan(given)));
      else worst = std::max(worst, std::isnan(given) ? INFINITY : std::abs(given - exact));
    }
    beside = beside || out[i * (columns + 1) + columns] != untouched;
  }
  double most = 0;
  for (const float x : v) most = std::max(most, std::abs(double(x)));
  // A weight of bfloat16 is wrong by up to a 512th.
  CHECK(fxx::test::within(what, worst / most, Shape.reduced ? 1.2e-3 : 2e-7));
  CHECK_FALSE(beside);
}
/// Every third element hides what it is for, and of query 2 all.
std::vector<float> mask_of(int queries, int keys) {
  std::vector<float> mask = fxx::test::random_floats(static_cast<std::size_t>(queries * keys), 4);
  for (std::size_t i = 0; i < mask.size(); i += 3)
    if (i % keys != 1) mask[i] = -infinity;
  if (queries > 2) std::fill(mask.begin() + 2 * keys, mask.begin() + 3 * keys, -infinity);
  return mask;
}
template <AttentionShape Shape>
void check_attention(bool masked = false) {
  INFO("queries ", Shape.queries, ", keys ", Shape.keys, ", size ", Shape.size, ", values of ", Shape.value_size,
       Shape.causal ? ", causal" : "", Shape.from_first ? " from the first" : "", masked ? ", masked" : "");
  std::vector<float> q = rows(Shape.queries, Shape.query_stride, Shape.size, 1);
  std::vector<float> k = rows(Shape.keys, Shape.key_stride, Shape.size, 2);
  std::vector<float> v = rows(Shape.keys, Shape.value_stride, Shape.values(), 3);
  if (Shape.reduced)
    for (std::vector<float>* numbers : {&q, &k, &v})
      for (float& x : *numbers) x = to_float(to_bfloat16(x));
  const float scale = 1 / std::sqrt(float(Shape.size));
  const std::vector<float> mask = masked ? mask_of(Shape.queries, Shape.keys) : std::vector<float>();
  check_results<Shape>(computed<Shape>(q, k, v, scale, mask), q, k, v, scale, mask, Shape.keys,
                       Shape.reduced ? "attention of bfloat16" : "attention");
}
template <AttentionShape Shape>
void check_cache(bool masked = false) {
  const float scale = 1 / std::sqrt(float(Shape.size));
  const std::vector<float> q = rows(Shape.queries, Shape.query_stride, Shape.size, 1);
  for (const int count : {1, 2, 3, 5, 15, 16, 17, 31, 40, Shape.keys}) {
    if (count > Shape.keys) continue;
    INFO("queries ", Shape.queries, ", keys ", count, ", size ", Shape.size, masked ? ", masked" : "");
    const std::vector<float> k = rows(count, Shape.key_stride, Shape.size, 2);
    const std::vector<float> v = rows(count, Shape.value_stride, Shape.values(), 3);
    const std::vector<float> mask = masked ? mask_of(Shape.queries, count) : std::vector<float>();
    check_results<Shape>(computed_over_cache<Shape>(q, k, v, count, scale, mask), q, k, v, scale, mask, count,
                         "attention_over_cache");
  }
}

}  // namespace

TEST_CASE("attention of awkward sizes is that of double precision, and nothing beside it is written") {
  check_attention<AttentionShape{}>();
  check_attention<AttentionShape{.queries = 3, .keys = 5, .size = 7, .query_stride = 9, .key_stride = 7,
                                 .value_stride = 8}>();
  check_attention<AttentionShape{.queries = 17, .keys = 33, .size = 24, .value_size = 19, .query_stride = 24,
                                 .key_stride = 30, .value_stride = 40}>();
  check_attention<AttentionShape{.queries = 29, .keys = 64, .size = 64, .query_stride = 192, .key_stride = 192,
                                 .value_stride = 192}>();
  check_attention<AttentionShape{.queries = 1, .keys = 100, .size = 32, .query_stride = 32, .key_stride = 32,
                                 .value_stride = 32}>();
}

TEST_CASE("masks are added to scores, minus infinity hides") {
  check_attention<AttentionShape{.queries = 9, .keys = 21, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8}>(true);
  check_attention<AttentionShape{.queries = 16, .keys = 48, .size = 16, .query_stride = 16, .key_stride = 16,
                                 .value_stride = 16}>(true);
}

TEST_CASE("causal attention sees what stands before, whatever stands behind") {
  check_attention<AttentionShape{.queries = 37, .keys = 37, .size = 16, .query_stride = 16, .key_stride = 16,
                                 .value_stride = 16, .causal = true}>();
  check_attention<AttentionShape{.queries = 5, .keys = 40, .size = 12, .query_stride = 12, .key_stride = 12,
                                 .value_stride = 12, .causal = true}>();
  // More queries than keys: the first see nothing.
  check_attention<AttentionShape{.queries = 20, .keys = 7, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8, .causal = true}>();
}

TEST_CASE("a key that is nan is seen by those after it only") {
  constexpr AttentionShape shape{.queries = 30, .keys = 30, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8, .causal = true};
  const std::vector<float> q = rows(30, 8, 8, 1), v = rows(30, 8, 8, 3);
  std::vector<float> k = rows(30, 8, 8, 2);
  k[20 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = computed<shape>(q, k, v, 0.3f, {});
  for (int i = 0; i < 30; ++i) CHECK(std::isnan(out[i * 9]) == (i >= 20));
}

TEST_CASE("causal attention may count from the first key, and what is hidden from all be zero") {
  check_attention<AttentionShape{.queries = 5, .keys = 40, .size = 12, .query_stride = 12, .key_stride = 12,
                                 .value_stride = 12, .causal = true, .from_first = true}>();
  check_attention<AttentionShape{.queries = 20, .keys = 7, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8, .causal = true, .hidden_is_zero = true}>();
  check_attention<AttentionShape{.queries = 9, .keys = 21, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8, .hidden_is_zero = true}>(true);
}

TEST_CASE("many keys are taken in blocks, with the same result") {
  constexpr AttentionShape plain{.queries = 19, .keys = 1301, .size = 20, .value_size = 35, .query_stride = 20,
                                 .key_stride = 23, .value_stride = 35};
  static_assert(plain.in_blocks());
  check_attention<plain>();
  check_attention<plain>(true);
  check_attention<AttentionShape{.queries = 5, .keys = 1100, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8, .hidden_is_zero = true}>(true);
  check_attention<AttentionShape{.queries = 1050, .keys = 1050, .size = 4, .query_stride = 4, .key_stride = 4,
                                 .value_stride = 4, .causal = true}>();
  check_attention<AttentionShape{.queries = 40, .keys = 1536, .size = 4, .query_stride = 4, .key_stride = 4,
                                 .value_stride = 4, .causal = true, .from_first = true}>();
  check_attention<AttentionShape{.queries = 1100, .keys = 1090, .size = 4, .query_stride = 4, .key_stride = 4,
                                 .value_stride = 4, .causal = true}>();
}

TEST_CASE("in blocks a key that is nan, or one that scores far above all, is found wherever it stands") {
  constexpr AttentionShape shape{.queries = 3, .keys = 1300, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8};
  const std::vector<float> q(24, 1.f), v = rows(1300, 8, 8, 3);
  for (const int at : {0, 511, 700, 1299}) {
    CAPTURE(at);
    std::vector<float> k = rows(1300, 8, 8, 2);
    for (int c = 0; c < 8; ++c) k[at * 8 + c] = 100;
    const std::vector<float> far = computed<shape>(q, k, v, 1, {});
    for (int c = 0; c < 8; ++c) CHECK(far[c] == doctest::Approx(v[at * 8 + c]));
    k[at * 8] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(computed<shape>(q, k, v, 1, {})[5]));
  }
}

TEST_CASE("attention with products of bfloat16 loses what weights lose by that") {
  check_attention<AttentionShape{.reduced = true}>();
  check_attention<AttentionShape{.queries = 17, .keys = 33, .size = 7, .value_size = 19, .query_stride = 24,
                                 .key_stride = 30, .value_stride = 40, .reduced = true}>();
  check_attention<AttentionShape{.queries = 29, .keys = 64, .size = 64, .query_stride = 192, .key_stride = 192,
                                 .value_stride = 192, .reduced = true}>();
  check_attention<AttentionShape{.queries = 9, .keys = 21, .size = 8, .value_size = 70, .query_stride = 8,
                                 .key_stride = 8, .value_stride = 70, .hidden_is_zero = true, .reduced = true}>(true);
  check_attention<AttentionShape{.queries = 37, .keys = 37, .size = 16, .query_stride = 16, .key_stride = 16,
                                 .value_stride = 16, .causal = true, .reduced = true}>();
  check_attention<AttentionShape{.queries = 20, .keys = 7, .size = 8, .query_stride = 8, .key_stride = 8,
                                 .value_stride = 8, .causal = true, .reduced = true}>();
  check_attention<AttentionShape{.queries = 19, .keys = 1301, .size = 21, .value_size = 35, .query_stride = 21,
                                 .key_stride = 23, .value_stride = 35, .reduced = true}>(true);
  check_attention<AttentionShape{.queries = 40, .keys = 1535, .size = 4, .query_stride = 4, .key_stride = 4,
                                 .value_stride = 4, .causal = true, .from_first = true, .reduced = true}>();
}

TEST_CASE("large heads and many keys are sums of chains") {
  check_attention<AttentionShape{.queries = 9, .keys = 40, .size = 300, .value_size = 20, .query_stride = 300,
                                 .key_stride = 301, .value_stride = 20}>();
  check_attention<AttentionShape{.queries = 9, .keys = 700, .size = 20, .query_stride = 20, .key_stride = 20,
                                 .value_stride = 20, .causal = true}>();
  check_cache<AttentionShape{.queries = 2, .keys = 1500, .size = 16, .value_size = 50, .query_stride = 16,
                             .key_stride = 16, .value_stride = 50}>();
}

TEST_CASE("attention over a cache is that over the keys that are in it, whatever their number") {
  check_cache<AttentionShape{}>();
  check_cache<AttentionShape{.keys = 64, .size = 64, .query_stride = 64, .key_stride = 64, .value_stride = 64}>();
  check_cache<AttentionShape{.queries = 3, .keys = 50, .size = 19, .value_size = 70, .query_stride = 20,
                             .key_stride = 21, .value_stride = 71}>();
  check_cache<AttentionShape{.queries = 3, .keys = 50, .size = 7, .value_size = 24, .query_stride = 7, .key_stride = 7,
                             .value_stride = 24, .hidden_is_zero = true}>(true);
  check_cache<AttentionShape{.queries = 4, .keys = 50, .size = 16, .query_stride = 16, .key_stride = 16,
                             .value_stride = 16, .causal = true}>();
}

TEST_CASE("masks of booleans hide with minus infinity") {
  integer mask{};
  mask[1] = -1;
  CHECK(visible(mask)[0] == -infinity);
  CHECK(visible(mask)[1] == 0);
}

TEST_CASE("nan and hidden values show where LibTorch's kernel for attention has them") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto query_of_nan = [&]<AttentionShape Shape>() {
    std::vector<float> q = rows(Shape.queries, Shape.query_stride, Shape.size, 1);
    const std::vector<float> k = rows(Shape.keys, Shape.key_stride, Shape.size, 2);
    const std::vector<float> v = rows(Shape.keys, Shape.value_stride, Shape.values(), 3);
    std::fill_n(q.begin() + Shape.query_stride, Shape.size, nan);
    const std::vector<float> out = computed<Shape>(q, k, v, 1, {});
    for (int i = 0; i < Shape.queries; ++i)
      if (i != 1) CHECK(std::isfinite(out[static_cast<std::size_t>(i * (Shape.values() + 1))]));
    return out[static_cast<std::size_t>(Shape.values() + 1)];
  };
  // Fewer keys than fill a vector are taken one by one, and nan is the largest of nothing then.
  constexpr AttentionShape few{.queries = 3, .keys = 5, .size = 4, .query_stride = 4, .key_stride = 4, .value_stride = 4,
                               .hidden_is_zero = true, .flash = 16};
  constexpr AttentionShape more{.queries = 3, .keys = 21, .size = 4, .query_stride = 4, .key_stride = 4,
                                .value_stride = 4, .hidden_is_zero = true, .flash = 16};
  constexpr AttentionShape operators{.queries = 3, .keys = 5, .size = 4, .query_stride = 4, .key_stride = 4,
                                     .value_stride = 4, .hidden_is_zero = true};
  constexpr AttentionShape in_blocks{.queries = 3, .keys = 1301, .size = 4, .query_stride = 4, .key_stride = 4,
                                     .value_stride = 4, .hidden_is_zero = true, .flash = 16};
  CHECK(query_of_nan.operator()<few>() == 0);
  CHECK(std::isnan(query_of_nan.operator()<more>()));
  CHECK(std::isnan(query_of_nan.operator()<operators>()));
  CHECK(std::isnan(query_of_nan.operator()<in_blocks>()));

  // A hidden value that is nan: for queries that see its 512 keys' block.
  const auto finite_rows = [&]<AttentionShape Shape>(int key) {
    const std::vector<float> q = rows(Shape.queries, Shape.query_stride, Shape.size, 1);
    const std::vector<float> k = rows(Shape.keys, Shape.key_stride, Shape.size, 2);
    std::vector<float> v = rows(Shape.keys, Shape.value_stride, Shape.values(), 3);
    v[static_cast<std::size_t>(key * Shape.value_stride)] = nan;
    const std::vector<float> out = computed<Shape>(q, k, v, 1, {});
    int finite = 0;
    for (int i = 0; i < Shape.queries; ++i) {
      finite += std::isfinite(out[static_cast<std::size_t>(i * (Shape.values() + 1))]);
      CHECK(std::isfinite(out[static_cast<std::size_t>(i * (Shape.values() + 1) + 1)]));
    }
    return finite;
  };
  constexpr AttentionShape causal{.queries = 40, .keys = 40, .size = 4, .query_stride = 4, .key_stride = 4,
                                  .value_stride = 4, .causal = true, .from_first = true, .hidden_is_zero = true, .flash = 16};
  constexpr AttentionShape longer{.queries = 600, .keys = 600, .size = 4, .query_stride = 4, .key_stride = 4,
                                  .value_stride = 4, .causal = true, .from_first = true, .hidden_is_zero = true, .flash = 16};
  constexpr AttentionShape longest{.queries = 1100, .keys = 1100, .size = 4, .query_stride = 4, .key_stride = 4,
                                   .value_stride = 4, .causal = true, .from_first = true, .hidden_is_zero = true, .flash = 16};
  CHECK(finite_rows.operator()<causal>(39) == 0);
  CHECK(finite_rows.operator()<longer>(599) == 512);
  CHECK(finite_rows.operator()<longer>(300) == 0);
  CHECK(finite_rows.operator()<longest>(550) == 512);
  CHECK(finite_rows.operator()<longest>(1099) == 1024);
}
