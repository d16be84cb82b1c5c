// Specialised modules: integers of 8 to 64 bits, bit by bit, conversions between dtypes, divisions by tensors; beside
// LibTorch, to the last bit.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

/// Arithmetic of one dtype, with values at both ends of it.
Tensors functions_of(const Tensor& a, const Tensor& b, const Tensor& m, const Tensor& x) {
  const Tensor divisor = b.masked_fill(b == 0, 3);
  Tensors results = {a + b,
                     a - b,
                     a * b,
                     torch::add(a, b, 3),
                     a + 100,
                     1 - a,
                     a * 7,
                     a.square(),
                     a.pow(3),
                     a.pow(5),
                     a.pow(0),
                     a.neg(),
                     a.abs(),
                     a.sign(),
                     a.relu(),
                     a.clamp(2, 90),
                     a.clamp_min(3),
                     torch::maximum(a, b),
                     torch::minimum(a, b),
                     a.floor_divide(divisor),
                     a.remainder(divisor),
                     torch::fmod(a, divisor),
                     torch::div(a, divisor, "trunc"),
                     torch::div(a, divisor, "floor"),
                     torch::div(a, 3, "trunc"),
                     torch::floor_divide(a, 3),
                     a / divisor,
                     a & b,
                     a | b,
                     a ^ b,
                     a.bitwise_not(),
                     a & 5,
                     torch::bitwise_left_shift(a, b & 7),
                     torch::bitwise_right_shift(a, b & 7),
                     torch::bitwise_left_shift(a, 3),
                     torch::bitwise_right_shift(a, 2),
                     a == b,
                     a < b,
                     a >= 5,
                     torch::where(m, a, b),
                     a.masked_fill(m, 4),
                     a * m,
                     a + x,
                     a * 0.5,
                     a.exp(),
                     torch::addcmul(a, a, b, 2),
                     torch::threshold(a, 3, 7),
                     a.sum(),
                     a.sum(1),
                     a.prod(0),
                     a.max(),
                     a.amin({0}),
                     a.argmax(1),
                     std::get<0>(a.max(0)),
                     a.any(1),
                     a.all(),
                     a.cumsum(1),
                     a.t().contiguous(),
                     a.t().reshape({-1}),
                     torch::cat({a, b}, 1),
                     torch::stack({a, b, a}, 2),
                     torch::roll(a, {2}, {1}),
                     a.flip({1}),
                     a.repeat({2, 1}),
                     torch::constant_pad_nd(a, {1, 2}, 9),
                     torch::zeros_like(a),
                     torch::full_like(a, 11) + b,
                     a.gather(1, b.to(torch::kLong).abs().remainder(a.size(1))),
                     a.index_select(0, torch::tensor({1, 0})),
                     a.triu(1),
                     torch::isin(a, 5)};
  for (const auto to :
       {torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kFloat, torch::kBool})
    results.push_back((a + 1).to(to));
  return results;
}
TEST_CASE("integers of each width: arithmetic that wraps around, comparisons, choices, sums, places, conversions") {
  torch::manual_seed(60);
  for (const auto& [dtype, least, most] : {std::tuple{torch::kByte, 0L, 255L},
                                           {torch::kChar, -128L, 127L},
                                           {torch::kShort, -32768L, 32767L},
                                           {torch::kInt, -2147483647L - 1, 2147483647L},
                                           {torch::kLong, -(1L << 40), 1L << 40}}) {
    const std::string of = c10::toString(dtype);
    CAPTURE(of);
    const auto make = [&, dtype = dtype, least = least, most = most](bool small) {
      Tensor a = small ? torch::randint(0, 9, {3, 19}) : torch::randint(least, most, {3, 19});
      Tensor b = small ? torch::randint(0, 9, {3, 19}) : torch::randint(least, most, {3, 19});
      a[0][0] = least;
      a[0][1] = most;
      b[0][0] = most;
      b[1][3] = least;
      return Tensors{a.to(dtype), b.to(dtype), torch::rand({3, 19}) > 0.5, torch::randn({3, 19})};
    };
    Tensors turned = make(false), sliced = make(true);
    for (Tensor& t : turned) t = transposed_copy(t);
    for (Tensor& t : sliced) t = sliced_copy(t);
    // exp of large numbers is infinite in float32, and float64 knows it.
    const Forward f = [](const Tensors& in) {
      Tensors results = functions_of(in[0], in[1], in[2], in[3]);
      for (Tensor& t : results)
        if (t.is_floating_point()) t = t.clamp(-1e6, 1e6);
      return all_of(results);
    };
    check(f, make(true), {.more = {make(false), turned, sliced}});
  }
}

TEST_CASE("integers of different widths together, and what they are indices of") {
  torch::manual_seed(61);
  check(
      [](const Tensors& in) {
        const Tensor &byte = in[0], &small = in[1], &word = in[2], &n = in[3], &x = in[4];
        return all_of({byte + small,
                       byte * word,
                       small - n,
                       word + n,
                       word == n,
                       byte < small,
                       torch::where(n > 2, word, n),
                       torch::maximum(word, n),
                       word.to(torch::kLong) + n,
                       (byte & 3) + word,
                       byte / 2,
                       byte / word.abs().clamp_min(1),
                       (word > 3) & (byte > 2),
                       word.logical_and(byte),
                       word * x,
                       x + byte,
                       word & n,
                       torch::bitwise_left_shift(word, n.abs().remainder(4)),
                       torch::embedding(x, word.abs().remainder(4)),
                       x.index({word.abs().remainder(4)}),
                       x.index_select(0, word[0].abs().remainder(4)),
                       x.gather(1, n.abs().remainder(5)),
                       byte.to(torch::kFloat) / 255,
                       byte.to(x.scalar_type()) * x,
                       word.pow(2).sum(),
                       word.to(torch::kChar).sum(0),
                       (word > 0).to(torch::kInt) + 1,
                       torch::full_like(word, 5) - byte});
      },
      {torch::randint(0, 256, {4, 5}).to(torch::kByte), torch::randint(-100, 100, {4, 5}).to(torch::kChar),
       torch::randint(-1000, 1000, {4, 5}).to(torch::kInt), torch::randint(-9, 9, {4, 5}), torch::randn({4, 5})});
}

TEST_CASE("to halves and doubles and back, and copies of what has no arithmetic") {
  torch::manual_seed(62);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &half = in[1], &brain = in[2], &wide = in[3], &n = in[4], &m = in[5];
    return all_of({x.to(torch::kFloat).to(torch::kHalf),
                   x.to(torch::kFloat).to(torch::kBFloat16),
                   x.to(torch::kFloat).to(torch::kDouble),
                   (x.to(torch::kFloat) * 3).to(torch::kHalf).to(torch::kFloat),
                   (x.to(torch::kFloat) * 3).to(torch::kBFloat16).to(torch::kFloat) + 1,
                   x.to(torch::kFloat).to(torch::kDouble).to(torch::kFloat) * 2,
                   half.to(torch::kFloat) * 2,
                   brain.to(torch::kFloat).relu(),
                   wide.to(torch::kFloat) + 1,
                   half.to(torch::kInt),
                   brain.to(torch::kLong),
                   half.to(torch::kBool),
                   half.to(torch::kDouble),
                   half.to(torch::kBFloat16),
                   wide.to(torch::kHalf),
                   wide.to(torch::kBFloat16),
                   n.to(torch::kHalf),
                   n.to(torch::kByte).to(torch::kHalf),
                   n.to(torch::kByte).to(torch::kDouble),
                   m.to(torch::kHalf),
                   m.to(torch::kDouble),
                   half.t().contiguous(),
                   wide.t().contiguous(),
                   wide.t().reshape({-1}),
                   half.t().to(torch::kFloat),
                   half.flip({1}).to(torch::kFloat),
                   wide.flip({0, 1}),
                   wide.flip({1}).to(torch::kFloat) + 1,
                   x.to(torch::kFloat).to(half.scalar_type()).to(n),
                   n.to(half).to(torch::kFloat),
                   x.to(torch::kFloat).type_as(brain)});
  };
  const auto make = [] {
    Tensor x = torch::randn({3, 19}) * 100;
    x[0][0] = infinite;
    x[0][1] = not_a_number;
    x[1][1] = 1e30;
    x[1][2] = 1e-7;
    x[1][3] = 1e-30;
    Tensor wide = x.to(torch::kDouble) * 1.0000001;
    return Tensors{x,
                   (torch::randn({3, 19}) * 50).to(torch::kHalf),
                   (torch::randn({3, 19}) * 50).to(torch::kBFloat16),
                   wide,
                   torch::randint(0, 200, {3, 19}),
                   torch::rand({3, 19}) > 0.5};
  };
  const Tensors in = make();
  Tensors turned = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  const auto gm = traced_net(*net_of(f), in);
  const torch::NoGradGuard no_grad;
  for (const int threads : {1, 2}) {
    const auto compiled = fxx::compile(*gm, in, {.threads = threads, .tolerance = infinite, .cache_folder = cache()});
    CHECK(called_back_operators(*compiled) == std::set<std::string>());
    for (const Tensors& inputs : {in, make(), turned}) {
      const Tensors given = tensors_of(compiled->run(boxed(inputs))), wanted = tensors_of(gm->run(boxed(inputs)));
      REQUIRE(given.size() == wanted.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        CAPTURE(i);
        CHECK((given[i].scalar_type() == wanted[i].scalar_type()));
        CHECK(difference(given[i], wanted[i]) == 0);
      }
    }
  }
}

TEST_CASE("tensors of every dtype: what only moves elements has kernels, all else is called back") {
  torch::manual_seed(63);
  using Move = Tensor (*)(const Tensor&);
  const std::vector<Move> moves = {
      [](const Tensor& t) { return t.t(); },
      [](const Tensor& t) { return t.t().contiguous(); },
      [](const Tensor& t) { return t.slice(1, 1, 4).reshape({-1}); },
      [](const Tensor& t) {
        return torch::cat({t, t.slice(0, 0, 1)}, 0);
      },
      [](const Tensor& t) {
        return torch::stack({t.t(), t.t()}, 1);
      },
      [](const Tensor& t) { return t.flip({1}); },
      [](const Tensor& t) { return t.roll(1, 0); },
      [](const Tensor& t) {
        return t.repeat({2, 1});
      },
      [](const Tensor& t) {
        return t.unsqueeze(1).expand({4, 3, 5}).clone();
      },
      [](const Tensor& t) { return t.diagonal().clone(); },
      [](const Tensor& t) {
        return torch::constant_pad_nd(t, {1, 2});
      },
      [](const Tensor& t) { return torch::zeros_like(t); },
      [](const Tensor& t) { return torch::full_like(t, 1); },
      [](const Tensor& t) { return t.slice_scatter(t.slice(1, 1, 3), 1, 2, 4); },
      [](const Tensor& t) {
        return t.index_select(0, torch::tensor({2, 0}));
      },
      [](const Tensor& t) {
        return torch::embedding(t, torch::tensor({2, 0}));
      },
      [](const Tensor& t) {
        return t.index({torch::tensor({1, 1, 3})});
      },
      [](const Tensor& t) {
        return t.gather(0, torch::zeros({1, 5}, torch::kLong));
      },
      [](const Tensor& t) { return t.masked_fill(torch::ones({5}, torch::kBool), 1); },
      [](const Tensor& t) {
        return torch::where(torch::ones({4, 1}, torch::kBool), t, t.flip({0}));
      },
      [](const Tensor& t) {
        return t.scatter(0, torch::zeros({1, 5}, torch::kLong), t);
      },
      [](const Tensor& t) { return t.unfold(1, 2, 1).contiguous(); },
      [](const Tensor& t) { return t.to(torch::kFloat) + 1; },
      [](const Tensor& t) { return t.to(torch::kFloat).to(t.scalar_type()); },
      [](const Tensor& t) { return t + t; },
      [](const Tensor& t) { return t == t; },
      [](const Tensor& t) { return t.sum(); },
      [](const Tensor& t) { return t.relu(); },
      [](const Tensor& t) { return std::get<0>(t.sort(1)); },
      [](const Tensor& t) { return torch::matmul(t, t.t()); },
  };
  for (const auto dtype : {torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kBool,
                           torch::kHalf, torch::kBFloat16, torch::kDouble, torch::kUInt16, torch::kUInt32,
                           torch::kUInt64, torch::kFloat8_e5m2, torch::kFloat8_e4m3fn, torch::kFloat8_e5m2fnuz,
                           torch::kFloat8_e4m3fnuz, torch::kComplexHalf, torch::kComplexFloat, torch::kComplexDouble}) {
    const std::string of = c10::toString(dtype);
    CAPTURE(of);
    const Tensor x = (torch::rand({4, 5}) * 9).to(dtype);
    // Those that LibTorch has for this dtype.
    std::vector<Move> known;
    for (const Move move : moves) {
      try {
        const torch::NoGradGuard no_grad;
        move(x), move(transposed_copy(x));
        known.push_back(move);
      } catch (const c10::Error&) {
      }
    }
    CHECK(known.size() >= 8);
    const auto gm = traced(
        [&](const Tensors& in) {
          Tensors results;
          for (const Move move : known) results.push_back(move(in[0]));
          return all_of(results);
        },
        {x});
    const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
    for (const Tensor& input : {x, (torch::rand({4, 5}) * 9).to(dtype), transposed_copy(x)}) {
      const Tensors given = tensors_of(compiled->run({input})), wanted = tensors_of(gm->run({input}));
      REQUIRE(given.size() == wanted.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        CAPTURE(i);
        CHECK((given[i].scalar_type() == wanted[i].scalar_type()));
        const auto bits = [](const Tensor& t) {
          return t.is_complex() ? torch::view_as_real(t.to(torch::kComplexDouble).resolve_conj()) : t;
        };
        CHECK(same(bits(given[i]), bits(wanted[i])));
      }
    }
  }
}

TEST_CASE("constants that are conjugates, or negatives, of what lies in memory are packed as what they are") {
  torch::manual_seed(64);
  const Tensor w = torch::randn({2, 3}, torch::kComplexFloat), v = torch::randn({2, 3}), minus_v = torch::_neg_view(v);
  const auto f = [=](const Tensors& in) {
    return all_of({torch::cat({in[0], w.conj()}), torch::cat({in[1], torch::_neg_view(v)}),
                   torch::stack({in[1], minus_v}), torch::rand({2})});
  };
  const Tensors in{torch::randn({2, 3}, torch::kComplexFloat), torch::randn({2, 3})};
  const auto gm = traced(f, in);
  const auto compiled = fxx::compile(*gm, in, {.cache_folder = cache()});  // what draws numbers is not verified
  const torch::NoGradGuard no_grad;
  const Tensors given = tensors_of(compiled->run(boxed(in))), wanted = tensors_of(f(in));
  REQUIRE(given.size() == 4);
  CHECK(same(torch::view_as_real(given[0]), torch::view_as_real(wanted[0].resolve_conj())));
  CHECK(same(given[1], wanted[1]));
  CHECK(same(given[2], wanted[2]));
}

TEST_CASE("conversions that floats would spoil, and arithmetic of doubles, are called back") {
  check(
      [](const Tensors& in) {
        const Tensor wide = in[1].to(torch::kDouble);
        return all_of({wide.to(torch::kLong), in[0].to(torch::kDouble), wide.to(torch::kBool), wide * 2 + 1});
      },
      {torch::randint(-9, 9, {4, 5}) * (std::int64_t(1) << 40), torch::randn({4, 5})},
      {.called_back = {"aten::to.dtype", "aten::mul.Scalar", "aten::add.Scalar"}});
}

TEST_CASE("numbers that the other side's dtype does not have are what that makes of them") {
  using With = Tensor (*)(const Tensor&, std::int64_t);
  const With functions[] = {[](const Tensor& a, std::int64_t n) { return a == n; },
                            [](const Tensor& a, std::int64_t n) { return a != n; },
                            [](const Tensor& a, std::int64_t n) { return a < n; },
                            [](const Tensor& a, std::int64_t n) { return a >= n; },
                            [](const Tensor& a, std::int64_t n) { return a > n; },
                            [](const Tensor& a, std::int64_t n) { return a.clamp_min(n); },
                            [](const Tensor& a, std::int64_t n) { return a.clamp_max(n); },
                            [](const Tensor& a, std::int64_t n) { return a.clamp(n, n + 5); },
                            [](const Tensor& a, std::int64_t n) { return a & n; },
                            [](const Tensor& a, std::int64_t n) { return a | n; },
                            [](const Tensor& a, std::int64_t n) { return a ^ n; },
                            [](const Tensor& a, std::int64_t n) { return (a | n) > 3; },
                            [](const Tensor& a, std::int64_t n) { return a + n; },
                            [](const Tensor& a, std::int64_t n) { return a * n; },
                            [](const Tensor& a, std::int64_t n) { return torch::full_like(a, 7) - n; },
                            [](const Tensor& a, std::int64_t n) { return a.remainder(n); },
                            [](const Tensor& a, std::int64_t n) { return torch::fmod(a, n); },
                            [](const Tensor& a, std::int64_t n) { return torch::floor_divide(a, n); },
                            [](const Tensor& a, std::int64_t n) { return torch::div(a, n, "trunc"); }};
  int tried = 0;
  for (const auto dtype : {torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong}) {
    const std::string of = c10::toString(dtype);
    CAPTURE(of);
    const Tensor a = torch::tensor({0, 1, 2, 3, 100, 127, 128, 200, 254, 255, 5, 7}).to(dtype);
    // Some functions wrap such a number around, others throw.
    std::vector<std::pair<With, std::int64_t>> taken;
    for (const std::int64_t n : {-1L, -3L, 5L, 200L, 300L, 40000L, 3000000001L, 3L - (1L << 32)})
      for (const With function : functions) try {
          function(a, n);
          taken.emplace_back(function, n);
        } catch (const std::exception&) {
        }
    tried += static_cast<int>(taken.size());
    const Forward f = [&](const Tensors& in) {
      const Tensor &x = in[0], &zero_dim = in[1], &wide = in[2];
      Tensors results = {x > zero_dim,
                         x == zero_dim,
                         torch::maximum(x, zero_dim),
                         x.remainder(zero_dim),
                         x + zero_dim,
                         torch::minimum(zero_dim, x),
                         torch::fmod(x, zero_dim),
                         x.floor_divide(zero_dim),
                         x & zero_dim,
                         wide > x,
                         zero_dim < wide,
                         torch::maximum(wide, x)};
      for (const auto& [function, n] : taken) results.push_back(function(x, n));
      return all_of(results);
    };
    const auto with = [&](std::int64_t n) {
      return Tensors{a, torch::tensor(n), torch::tensor({-1, 0, 300, 255, 7, 128, -128, 1, 2, 3, 4, 5}, torch::kLong)};
    };
    std::vector<Tensors> more;
    for (const std::int64_t n : {-3L, -1L, (1L << 33) + 5, 261L, 200L}) try {
        f(with(n));
        more.push_back(with(n));
      } catch (const std::exception&) {
      }
    CHECK(more.size() >= 2);
    check(f, with(3), {.more = more});
  }
  CHECK(tried > 500);
}

TEST_CASE("what a narrow dtype does not hold is cut before the next operator sees it") {
  const Forward f = [](const Tensors& in) {
    const Tensor &bytes = in[0], &ints = in[1], &mask = in[2];
    const Tensor filled = bytes.clone().fill_(-1);
    return all_of({bytes.sum({1}, false, torch::kByte).to(torch::kFloat), bytes.sum({0}, false, torch::kByte) > 100,
                   ints.prod(1, false, torch::kInt).to(torch::kFloat), ints.cumsum(1, torch::kInt) > 0,
                   ints.cumprod(1, torch::kInt).to(torch::kLong) + 1, ints.sum(torch::kInt).to(torch::kLong),
                   bytes.masked_fill(mask, -1).to(torch::kFloat), bytes.masked_fill(mask, -3) > 200,
                   bytes.masked_fill(mask, torch::tensor(-2)).to(torch::kFloat), filled.to(torch::kFloat),
                   torch::full_like(bytes, -1).to(torch::kLong), ints.to(torch::kChar).masked_fill(mask, 100) * 1});
  };
  const Tensor none = torch::zeros({2, 3}, torch::kBool), some = torch::tensor({1, 0, 1, 0, 0, 1}).view({2, 3}) == 1;
  check(f, {torch::ones({2, 3}, torch::kByte), torch::ones({2, 3}, torch::kInt), none},
        {.called_back = {"aten::cumprod"},
         .more = {{torch::full({2, 3}, 100, torch::kByte), torch::full({2, 3}, 2000000000, torch::kInt), some},
                  {torch::full({2, 3}, 255, torch::kByte), torch::full({2, 3}, -2000000011, torch::kInt), some}}});
}

TEST_CASE("floats that 32 bits cannot hold are the least number of those, as LibTorch's instructions have it") {
  const Tensor x = torch::tensor({1.5, -2.5, 2147483520., -3e9, 3e9, infinite, -infinite, not_a_number, 7e18, 0.}).to(torch::kFloat);
  const Forward f = [](const Tensors& in) {
    return all_of({in[0].to(torch::kInt), in[0].to(torch::kInt) + 1, in[0].to(torch::kInt) < 0});
  };
  check(f, {torch::linspace(-3, 3, 10)}, {.more = {{x}}});
}

TEST_CASE("products with vectors keep the dtype, sums of elements do not") {
  torch::manual_seed(95);
  const Forward f = [](const Tensors& in) {
    const Tensor &m = in[0], &v = in[1], &w = in[2];
    return all_of({torch::matmul(m, v), torch::dot(v, v), torch::mv(m, v), torch::einsum("i,i->", {v, v}),
                   torch::einsum("ij,j->i", {m, v}), torch::einsum("ij,ij->i", {m, m}), torch::inner(m, v),
                   torch::addmv(w, m, v), torch::vdot(v, v), m.sum(1), m.trace(), torch::einsum("ij->i", {m})});
  };
  for (const auto dtype : {torch::kByte, torch::kShort, torch::kInt, torch::kLong}) {
    CAPTURE(c10::toString(dtype));
    const auto drawn = [&](std::vector<std::int64_t> sizes) { return torch::randint(0, 200, sizes).to(dtype); };
    check(f, {drawn({3, 4}), drawn({4}), drawn({3})}, {.more = {{drawn({3, 4}), drawn({4}), drawn({3})}}});
  }
}

TEST_CASE("limits of hardtanh are integers beside integers") {
  const Forward f = [](const Tensors& in) {
    return all_of({F::hardtanh(in[0], F::HardtanhFuncOptions().min_val(-2).max_val(3)),
                   F::hardtanh(in[0], F::HardtanhFuncOptions().min_val(-2.75).max_val(3.75)).to(torch::kFloat),
                   torch::hardtanh(in[0])});
  };
  for (const auto dtype : {torch::kChar, torch::kShort, torch::kInt, torch::kLong})
    check(f, {torch::randint(-9, 9, {4, 5}).to(dtype)});
}

TEST_CASE("an integer divided by zero is one error, and the module works afterwards") {
  torch::manual_seed(63);
  const Forward f = [](const Tensors& in) {
    return all_of({in[0].floor_divide(in[1]), in[0].remainder(in[1]) + 1, torch::fmod(in[0], in[1]),
                   torch::div(in[0], in[1], "trunc"), (in[0].floor_divide(in[1]) * 2).sum(1)});
  };
  const Tensors in{torch::randint(-9, 10, {4, 19}), torch::randint(1, 5, {4, 19})};
  const auto compiled = check(f, in);
  const Tensors expected = in_double(*net_of(f), in);
  for (int i = 0; i < 3; ++i) {
    Tensors bad = cloned(in);
    bad[1][3][7 + 5 * i] = 0;
    const Fault fault = fault_of<RunError>([&] { compiled->run(boxed(bad)); });
    CHECK(fault.id == 702);
    CHECK(fault.says("divided by zero"));
    CHECK(error_of(compiled->run(boxed(in)), expected) == 0);
  }
}

Tensors functions_of_integers(const Tensor& n, const Tensor& k, const Tensor& m, const Tensor& x) {
  const Tensor rows = torch::arange(n.size(0), n.options()).unsqueeze(1);
  return {n + 1,
          n - k,
          3 - n,
          torch::add(n, k, 2),
          torch::rsub(n, k, -3),
          n * k,
          -n,
          n.abs(),
          n.square(),
          n.pow(3),
          n.sign(),
          n.relu(),
          n + m,
          m * n,
          m + 2,
          n.floor_divide(3),
          torch::floor_divide(n, -4),
          n.remainder(5),
          n % -3,
          n.fmod(4),
          n.fmod(-7),
          n.remainder(-1),
          n.floor_divide(-1),
          torch::maximum(n, k),
          torch::minimum(n, k),
          n.clamp(-2, 2),
          n.clamp_min(0),
          n.clamp_max(1) + k,
          torch::clamp(n, k, k + 3),
          n > k,
          n >= 1,
          n<k + 1, n <= -1, n == k, n != 2, n> 0.5,
          n < x,
          n.flip({1}),
          n.flip({0, 1}) + k,
          n.flip({0}).sum(0),
          m.flip({1}),
          (n > 0).flip({0}) & m,
          m.t().flip({1}),
          torch::where(m, n > 1, n < k),
          torch::where(n > k, m, m.logical_not()).flip({0}),
          torch::where(m, n > 1, true),
          torch::where(n > 0, false, m),
          torch::where(n.select(1, 0).unsqueeze(1) > 0, m, x > 0),
          torch::where(torch::where(m, n > 1, n < k), torch::where(n > 0, x > 0, m), m ^ (k > 0)),
          torch::where(torch::where(m, n > 1, n < k), x, -x),
          torch::where(m, n > 1, n < k).any(1),
          torch::where(m, n > 1, n < k).all(1),
          torch::where(m, n > 1, n < k).sum(1),
          m.masked_fill(n > 1, true),
          m.masked_fill(n > 1, 0),
          (n > k).masked_fill(m, (n > 2)[0][0]),
          torch::bitwise_and(n > 1, m),
          torch::bitwise_or(n > 1, m) | (x > 1),
          torch::bitwise_xor(n > 1, m),
          torch::bitwise_not(m),
          torch::bitwise_and(m, true),
          torch::bitwise_or(n > 1, true),
          torch::bitwise_xor(m, true),
          m.to(torch::kLong).masked_fill(m, 3),
          m == (n > 1),
          m != m.logical_not(),
          (n > 1) & m,
          n.logical_not(),
          torch::logical_and(n, x),
          torch::logical_xor(x > 0, n),
          torch::where(m, n, k * 2),
          torch::where(n > k, n, 7),
          torch::where(m, x, n),
          n.masked_fill(m, -9),
          n.masked_fill(n == 2, 1) + rows,
          n.to(x.scalar_type()) * 0.5,
          n + 0.5,
          n * x,
          n / k.abs().clamp_min(1),
          n.exp(),
          (n * 2).to(x.scalar_type()),
          (x * 5).to(torch::kLong),
          (x * 5).to(torch::kLong) + n,
          x.to(torch::kBool),
          n.to(torch::kBool),
          m.to(torch::kLong),
          (n > 0).to(torch::kLong) * 2,
          n.t() + k.t(),
          (n * 2).t().contiguous(),
          n.t().reshape({-1}),
          m.t().reshape({-1}),
          torch::cat({n, k + 1, n}, 1),
          torch::cat({n.t(), k.t()}, 0),
          torch::cat({m, n > 0}, 0),
          torch::stack({n, k}, 1),
          torch::constant_pad_nd(n, {1, 2}, -1),
          torch::constant_pad_nd(m, {1, 0, 0, 1}, true),
          torch::roll(n, {2}, {1}),
          torch::select_scatter(n, k.select(1, 0), 1, 2),
          torch::slice_scatter(n, k.slice(1, 0, 2), 1, 1, 3),
          torch::zeros_like(n) + k,
          torch::full({3}, 5, n.options()) * 2,
          torch::ones_like(m),
          n.new_full({2}, std::numeric_limits<std::int64_t>::min()),
          n.sum(),
          n.sum(0),
          n.sum({1}, true),
          m.sum(),
          m.sum(1) + 1,
          n.prod(1),
          n.max(),
          n.min(),
          n.amax({0}),
          std::get<0>(n.max(1)),
          std::get<1>(n.max(1)),
          std::get<1>(n.min(0)),
          n.argmax(1),
          n.argmin(0),
          n.argmax(),
          n.any(),
          n.all(1),
          m.any(0),
          m.all(),
          n.any(0, true),
          n.cumsum(1),
          n.cumsum(0),
          m.cumsum(1),
          m.to(torch::kLong).cumsum(-1) - 1,
          (m.cumsum(1) * m).to(torch::kLong) + 1,
          n.softmax(1, x.scalar_type())};
}
TEST_CASE("integers: arithmetic, comparisons, choices, conversions, copies, sums, over sizes and strides") {
  torch::manual_seed(33);
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{{5, 19}, {3, 4}, {2, 33}}) {
    const auto make = [&] {
      return Tensors{torch::randint(-9, 10, sizes), torch::randint(-9, 10, sizes), torch::rand(sizes) > 0.5,
                     torch::randn(sizes)};
    };
    const Tensors in = make();
    Tensors turned = make(), sliced = make(), large = make();
    for (Tensor& t : turned) t = transposed_copy(t);
    for (Tensor& t : sliced) t = sliced_copy(t);
    large[0] = large[0] * (std::int64_t(1) << 40) + 1;
    large[0][0][1] = std::numeric_limits<std::int64_t>::min();
    large[0][1][2] = std::numeric_limits<std::int64_t>::max();
    const Forward f = [](const Tensors& in) { return all_of(functions_of_integers(in[0], in[1], in[2], in[3])); };
    check(f, in, {.called_back = {"aten::softmax.int"}, .more = {turned, sliced}});
    if (sizes[0] == 5) check(f, turned, {.called_back = {"aten::softmax.int"}});
    // What integers alone give is exact.
    const Forward exact = [](const Tensors& in) {
      Tensors results;
      for (const Tensor& t : functions_of_integers(in[0], in[1], in[2], in[3]))
        if (!t.is_floating_point()) results.push_back(t);
      return all_of(results);
    };
    check(exact, in, {.more = {large}});
  }
}

}  // namespace
