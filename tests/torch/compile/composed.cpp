// Specialised modules: operators that are written down as others, by terms and by graphs; what is in order, and searches;
// beside LibTorch in double precision. One long file: each that includes LibTorch takes 20 s and 1.3 GB to compile.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

// --- element by element ----------------------------------------------------------------------------------------------

Tensors composed_of(const Tensor& x, const Tensor& y, const Tensor& weight) {
  const Tensor unit = x.sigmoid(), positive = x.abs() + 0.1;
  return {torch::addcmul(x, y, y),
          torch::addcmul(x, y, x, 2.5),
          torch::addcdiv(x, y, y.abs() + 1),
          torch::addcdiv(x, y, y.abs() + 1, -3),
          torch::lerp(x, y, 0.3),
          torch::lerp(x, y, 0.75),
          torch::lerp(x, y, unit),
          torch::threshold(x, 0.2, -7),
          torch::hardshrink(x, 0.4),
          torch::softshrink(x, 0.4),
          torch::rrelu(x),
          torch::prelu(x, weight),
          torch::prelu(x, weight.slice(0, 0, 1)),
          torch::nan_to_num(x).clamp(-3.4e38, 3.4e38),  // the largest float is 3.403e38; that of the reference another
          torch::isfinite(torch::nan_to_num(x)),
          torch::nan_to_num(x, 1.5, 9, -8),
          torch::logit(unit),
          torch::logit(unit * 1.2 - 0.1, 1e-3),
          torch::logit(unit, 0.6),
          torch::sinc(x),
          x.frac(),
          torch::deg2rad(x * 90),
          torch::rad2deg(x),
          torch::round(x * 7, 0),
          torch::round(x * 7, 2),
          torch::round(x * 700, -1),
          torch::angle(x),
          torch::hypot(x, y),
          torch::fmax(x, y),
          torch::fmin(x, y),
          torch::ldexp(x, (y * 3).round()),
          torch::logaddexp(x, y),
          torch::logaddexp2(x, y),
          torch::xlogy(x, positive),
          torch::xlogy(x, 2.5),
          torch::xlogy(2.5, positive),
          torch::special_xlog1py(x, positive),
          torch::special_entr(x),
          torch::special_ndtr(x),
          torch::heaviside(x, y),
          torch::copysign(x, y),
          torch::copysign(x, -2),
          torch::signbit(x),
          torch::isposinf(x),
          torch::isneginf(x),
          torch::isclose(x, y),
          torch::isclose(x, y, 0.1, 0.2, true),
          torch::isin(x, 0.5),
          positive.pow(2.5),
          x.pow(5),
          positive.pow(-3),
          torch::pow(2.5, x),
          torch::remainder(2.5, positive),
          torch::where(x > y, torch::full({}, 2., x.options()), x),
          torch::where(x > y, 2, 3) + x,
          torch::multiply(x, y),
          torch::subtract(x, y, 2),
          torch::divide(x, positive),
          torch::true_divide(x, positive),
          torch::divide(x, positive, "floor"),
          torch::absolute(x),
          torch::negative(x),
          torch::positive(x),
          torch::fix(x * 3),
          torch::sgn(x),
          torch::arctan(x),
          torch::arcsinh(x),
          torch::arctan2(x, positive),
          torch::special_erf(x),
          torch::special_expit(x),
          torch::greater(x, y),
          torch::less_equal(x, y),
          torch::not_equal(x, 0.5),
          torch::clip(x, -0.5, 0.4),
          torch::clip(x, y, std::nullopt),
          torch::conj(x) + 1,
          torch::glu(x, 1),
          torch::glu(torch::cat({x, y}, 0), 0)};
}
TEST_CASE("functions that are made of others, over sizes that fill no vector, strides, infinities and nan") {
  torch::manual_seed(70);
  const Forward f = [](const Tensors& in) { return all_of(composed_of(in[0], in[1], in[2])); };
  const Tensor weight = torch::rand({18});
  const Tensor x = torch::randn({5, 18}), y = torch::randn({5, 18});
  Tensor special = torch::randn({5, 18}), beside = torch::randn({5, 18});
  const double values[] = {infinite, -infinite, not_a_number, 0., -0., 0.5, 1., -1.};
  for (int i = 0; i < 8; ++i)
    for (int k = 0; k < 8; ++k) special[i / 2][i % 2 * 8 + k] = values[i], beside[i / 2][i % 2 * 8 + k] = values[k];
  check(f, {x, y, weight},
        {.more = {{transposed_copy(y), sliced_copy(x), weight}, {special, beside, weight}, {x, x, weight}}});
}

TEST_CASE("numbers that round to the largest float are that, and only larger ones are infinite") {
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    return all_of({torch::nan_to_num(x, 0., 3.4028235e38, -3.4028235e38), torch::nan_to_num(x * 0) * 3.4028235e38,
                   x > 3.40282347e38, x < -3.40282347e38, x > 3.5e38});
  };
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::tensor({infinite, -infinite, 0., 1.}, torch::kFloat);
  const auto gm = traced_net(*net_of(f), {x});
  const auto compiled = fxx::compile(*gm, {x}, {.cache_folder = cache()});
  const Tensors given = tensors_of(compiled->run({x})), wanted = tensors_of(gm->run({x}));
  REQUIRE(given.size() == wanted.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::equal(given[i], wanted[i]));
  }
  CHECK(called_back_operators(*compiled).empty());
}

TEST_CASE("logic of booleans written as arithmetic") {
  torch::manual_seed(71);
  check(
      [](const Tensors& in) {
        const Tensor &m = in[0], &n = in[1];
        return all_of({m * n, m + n, m & n, m | n, m ^ n, torch::maximum(m, n), torch::minimum(m, n), m.logical_not(),
                       torch::fmax(m, n), torch::fmin(m, n),
                       torch::where(m, n, m), m.to(torch::kLong) + n, (m * n).sum(), torch::count_nonzero(m),
                       torch::count_nonzero(m, std::optional<std::int64_t>(1))});
      },
      {torch::rand({4, 19}) > 0.5, torch::rand({4, 19}) > 0.5});
  check([](const Tensors& in) { return torch::add(in[0], in[1], 0); },
        {torch::rand({4, 19}) > 0.5, torch::rand({4, 19}) > 0.5}, {.called_back = {"aten::add.Tensor"}});
}

// --- graphs ----------------------------------------------------------------------------------------------------------

TEST_CASE("einsum: products of matrices, sums, diagonals, each with each, in any order, with dots") {
  torch::manual_seed(72);
  check(
      [](const Tensors& in) {
        const Tensor &a = in[0], &b = in[1], &c = in[2], &v = in[3], &q = in[4];
        // [2, 3, 5, 7], [2, 3, 7, 4], [3, 7], [5], [6, 6]
        const auto e = [](const char* equation, std::vector<Tensor> tensors) {
          return torch::einsum(equation, tensors);
        };
        return all_of({e("bhij,bhjk->bhik", {a, b}),
                       e("bhij,bhjk->bkhi", {a, b}),
                       e("bhij,hj->bhi", {a, c}),
                       e("bhij,hj->bih", {a, c}),
                       e("bhij,i->bhj", {a, v}),
                       e("bhij,bhjk->hik", {a, b}),
                       e("bhij,bhjk->ik", {a, b}),
                       e("bhij,bhik->bhjk", {a, a}),
                       e("bhij,cgij->bhcg", {a, a}),
                       e("bhij,bhjk->", {a, b}),
                       e("bhij->hb", {a}),
                       e("bhij->jihb", {a}),
                       e("ii->i", {q}),
                       e("ii->", {q}),
                       e("ii,i->i", {q, q[0]}),
                       e("i,j->ij", {v, v}),
                       e("i,j->ji", {v, q[1]}),
                       e("i,i->", {v, v}),
                       e("i,i->i", {v, v}),
                       e("ij,kj,k->i", {c, c, v.slice(0, 0, 3)}),
                       e("...ij,...jk->...ik", {a, b}),
                       e("...j,hj", {a, c}),
                       e("...->...", {a}),
                       e("b...j->...b", {a}),
                       e("bhij,jk->bhik", {a, c.t()}),
                       e("bhij,ko->bo", {a, c}),
                       e("ij,jk", {q, q}),
                       e("nd,nd->n", {c, c}) * 2,
                       e("ij,j->i", {q, q[2]}).softmax(0)});
      },
      {torch::randn({2, 3, 5, 7}), torch::randn({2, 3, 7, 4}), torch::randn({3, 7}), torch::randn({5}),
       torch::randn({6, 6})});
}

TEST_CASE("products with vectors, sums of products, outer products, distances, norms") {
  torch::manual_seed(73);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &y = in[1], &v = in[2], &w = in[3], &b = in[4], &rows = in[5];
    // [4, 7], [5, 7], [7], [4], [3, 4, 7], [31, 7]
    const Tensor three = x.slice(1, 0, 3), other = y.slice(0, 0, 4).slice(1, 2, 5);
    return all_of({torch::matmul(x, v),
                   torch::matmul(w, x),
                   torch::matmul(v, v),
                   torch::matmul(b, v) + 1,
                   torch::matmul(w, b),
                   torch::mv(x, v).relu(),
                   torch::dot(v, v),
                   torch::vdot(v, v),
                   torch::inner(x, y),
                   torch::inner(b, v),
                   torch::outer(v, w),
                   torch::ger(w, v),
                   torch::addmv(w, x, v),
                   torch::addmv(w, x, v, 0.5, 2),
                   torch::addr(torch::zeros({4, 7}, x.options()), w, v, 2, 3),
                   torch::baddbmm(w.slice(0, 0, 1), b, b.transpose(1, 2)),
                   torch::baddbmm(b.select(2, 0).unsqueeze(1), b, b.transpose(1, 2), 0.5, 2),
                   torch::baddbmm(torch::full({}, not_a_number, x.options()), b, b.transpose(1, 2), 0, 2),
                   torch::addbmm(x.slice(1, 0, 4), b, b.transpose(1, 2)),
                   torch::linalg_vecdot(x, y.slice(0, 0, 4)),
                   torch::linalg_matmul(x, y.t()),
                   torch::chain_matmul({x, y.t(), y}),
                   torch::linalg_multi_dot({v, y.t(), y, x.t(), w}),
                   torch::tensordot(b, x, {1, 2}, {0, 1}),
                   torch::tensordot(b, b, {0}, {0}),
                   torch::bilinear(x, y.slice(0, 0, 4), torch::stack({y, y * 2}).repeat({1, 2, 1}).slice(1, 0, 7),
                                   w.slice(0, 0, 2)),
                   torch::cross(three, other, 1),
                   torch::linalg_cross(three, other),
                   x.slice(1, 0, 4).trace(),
                   torch::pairwise_distance(x, y.slice(0, 0, 4)),
                   torch::pairwise_distance(x, y.slice(0, 0, 4), 1, 1e-3, true),
                   torch::dist(x, y.slice(0, 0, 4)),
                   torch::dist(x, y.slice(0, 0, 4), 1),
                   torch::cosine_similarity(x, y.slice(0, 0, 4)),
                   torch::cosine_similarity(b, x.unsqueeze(0), 2),
                   torch::cosine_similarity(x.slice(1, 0, 1), x, 1),
                   torch::cosine_similarity(x, x.slice(0, 1, 2), 1),
                   torch::cdist(x, y),
                   torch::cdist(x, y, 1),
                   torch::cdist(b, x.unsqueeze(0), infinite),
                   torch::cdist(rows, x) + 1,
                   x.norm(),
                   x.norm(1),
                   x.norm(infinite, 1),
                   x.norm(-infinite, {0}),
                   x.norm(0, {0, 1}),
                   x.norm(3, {1}, true),
                   torch::linalg_vector_norm(x, 2.5, {{0}}),
                   torch::linalg_norm(x),
                   torch::linalg_norm(x, 1, {{1}}),
                   torch::frobenius_norm(x, {0, 1}),
                   F::normalize(x, F::NormalizeFuncOptions().p(1).dim(0))});
  };
  const auto make = [] {
    return Tensors{torch::randn({4, 7}), torch::randn({5, 7}),    torch::randn({7}),
                   torch::randn({4}),    torch::randn({3, 4, 7}), torch::randn({31, 7})};
  };
  Tensors turned = make();
  for (Tensor& t : turned) t = transposed_copy(t);
  check(f, make(), {.more = {turned}});
}

TEST_CASE("other views, parts, and what is put beside each other") {
  torch::manual_seed(74);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &v = in[1], &w = in[2], &n = in[3], &q = in[4];  // [4, 6, 5], [4], [3], [4, 6], [6, 6]
    Tensors results = {x.mT(),
                       torch::adjoint(x),
                       n.mT(),
                       x.numpy_T(),
                       torch::swapaxes(x, 0, 2),
                       torch::swapdims(x, 1, 2),
                       torch::movedim(x, 0, 2),
                       torch::movedim(x, {0, 1}, {2, 0}),
                       torch::moveaxis(x, 2, 0),
                       torch::ravel(x) * 2,
                       torch::broadcast_to(v.unsqueeze(1), {4, 3}),
                       torch::atleast_2d(v),
                       torch::atleast_3d(v),
                       torch::atleast_3d(n),
                       torch::hstack({n, n + 1}),
                       torch::hstack({v, w}),
                       torch::vstack({v, v * 2}),
                       torch::row_stack({n, n}),
                       torch::dstack({v, v}),
                       torch::column_stack({v, n.to(v.scalar_type())}),
                       torch::concatenate({x, x}, 2),
                       torch::narrow_copy(x, 1, 2, 3),
                       x.diagonal(),
                       x.diagonal(1, 1, 2),
                       x.diagonal(-2, 0, 1) + 1,
                       torch::diag(q),
                       torch::diag(q, 2),
                       torch::diag(v),
                       torch::diag(v, 2),
                       torch::diag(v, -1),
                       torch::diag_embed(x.select(2, 0)),
                       torch::diag_embed(x.select(2, 0), 1),
                       torch::diag_embed(n, -2),
                       torch::diagflat(w),
                       x.unfold(1, 3, 2),
                       x.unfold(2, 2, 1) * 2,
                       torch::matmul(x.unfold(1, 3, 1), w),
                       torch::diff(x),
                       torch::diff(x, 2, 1),
                       torch::diff(n, 1, 1, n.slice(1, 0, 1)),
                       torch::rot90(x, 1, {0, 1}),
                       torch::rot90(x, 2, {1, 2}),
                       torch::rot90(x, -1, {0, 2}),
                       x.repeat_interleave(3),
                       torch::channel_shuffle(x.unsqueeze(3), 3),
                       x.select(0, 1).to(torch::kLong).to(n),
                       torch::fliplr(q)};
    for (const std::vector<Tensor>& parts :
         {torch::tensor_split(x, 4, 1), torch::tensor_split(x, {1, 4}, 2), torch::hsplit(x, 3),
          torch::vsplit(x, {1, 3}), torch::dsplit(x, 5), torch::unsafe_chunk(x, 2, 1), torch::unsafe_split(x, 4, 1),
          torch::broadcast_tensors({v.unsqueeze(1), w}), torch::meshgrid({v, w}), torch::meshgrid({v, w}, "xy"),
          torch::atleast_2d({v, x})})
      for (const Tensor& part : parts) results.push_back(part * 2);
    return all_of(std::move(results));
  };
  check(f, {torch::randn({4, 6, 5}), torch::randn({4}), torch::randn({3}), torch::randint(-9, 9, {4, 6}),
            torch::randn({6, 6})});
}

TEST_CASE("images whose pixels become channels and back, windows of images and their sums") {
  torch::manual_seed(75);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({8, 12, 3, 3}, 0.2), b = net->parameter({8}), v = net->parameter({5, 2, 3, 3}, 0.3);
  net->function = [=](const Tensors& in) {
    const Tensor& x = in[0];  // [2, 12, 6, 4]
    const auto fold = [](const Tensor& x, std::vector<std::int64_t> size, std::vector<std::int64_t> kernel,
                         std::vector<std::int64_t> dilation, std::vector<std::int64_t> padding,
                         std::vector<std::int64_t> stride) {
      return torch::col2im(x, size, kernel, dilation, padding, stride);
    };
    const Tensor image = torch::conv2d(x, w, b, 1, 1).relu();
    const Tensor windows = torch::im2col(image, {3, 2}, {1, 2}, {1, 1}, {2, 1});
    return all_of({torch::pixel_shuffle(x, 2), torch::pixel_shuffle(image, 2) * 2,
                   torch::conv2d(torch::pixel_shuffle(image, 2), v, {}, 1, 1), torch::pixel_unshuffle(x, 2),
                   torch::pixel_unshuffle(image, 2).relu(),
                   torch::conv2d(torch::pixel_shuffle(torch::pixel_unshuffle(x, 2), 2), w),
                   torch::im2col(x, {3, 3}, {1, 1}, {0, 0}, {1, 1}), windows,
                   torch::matmul(w.flatten(1).slice(1, 0, 48), windows),
                   fold(windows, {6, 4}, {3, 2}, {1, 2}, {1, 1}, {2, 1}),
                   fold(x.view({2, 12, 24}), {12, 8}, {2, 2}, {1, 1}, {0, 0}, {2, 2}),
                   fold(x.view({2, 12, 24}), {13, 9}, {2, 2}, {1, 1}, {0, 0}, {2, 2}) + 1});
  };
  const Tensor x = torch::randn({2, 12, 6, 4});
  check(*net, {x}, {.more = {{transposed_copy(x)}}});
}

TEST_CASE("layers that are others, cells, recurrent layers of many sequences") {
  torch::manual_seed(76);
  auto net = std::make_shared<Net>();
  const auto lstm_cell = net->module(torch::nn::LSTMCell(5, 7));
  const auto gru_cell = net->module(torch::nn::GRUCell(torch::nn::GRUCellOptions(5, 7).bias(false)));
  const auto cell = net->module(torch::nn::RNNCell(5, 7));
  const auto relu_cell = net->module(torch::nn::RNNCell(torch::nn::RNNCellOptions(5, 7).nonlinearity(torch::kReLU)));
  const auto lstm = net->module(torch::nn::LSTM(torch::nn::LSTMOptions(5, 6).num_layers(2).bidirectional(true)));
  const auto gru = net->module(torch::nn::GRU(torch::nn::GRUOptions(5, 6).batch_first(true)));
  const auto rnn = net->module(torch::nn::RNN(torch::nn::RNNOptions(5, 6).num_layers(2)));
  const auto relu_rnn = net->module(torch::nn::RNN(
      torch::nn::RNNOptions(5, 6).nonlinearity(torch::kReLU).bidirectional(true).batch_first(true).bias(false)));
  const auto norm = net->module(torch::nn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(4).affine(true)));
  const auto tracked =
      net->module(torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(4).track_running_stats(true)));
  const auto prelu = net->module(torch::nn::PReLU(torch::nn::PReLUOptions().num_parameters(4)));
  net->function = [=](const Tensors& in) {
    const Tensor &x = in[0], &h = in[1], &c = in[2], &many = in[3], &image = in[4];
    // [3, 5], [3, 7], [3, 7], [4, 19, 5], [2, 4, 6, 5]
    const auto [state, memory] = lstm_cell.ptr()->forward(x, std::tuple(h, c));
    const auto [out, last] = lstm.ptr()->forward(many);
    const auto [gated, gates] = gru.ptr()->forward(many.transpose(0, 1));
    const auto [simple, simple_last] = rnn.ptr()->forward(many.slice(1, 0, 3));
    const auto [both, both_last] = relu_rnn.ptr()->forward(many.transpose(0, 1));
    const auto pooled = F::max_pool2d(image, F::MaxPool2dFuncOptions(2));
    return all_of({state,
                   memory,
                   gru_cell.ptr()->forward(x, h),
                   cell.ptr()->forward(x, h),
                   relu_cell.ptr()->forward(x),
                   out,
                   std::get<0>(last),
                   std::get<1>(last),
                   gated,
                   gates,
                   simple,
                   simple_last,
                   both,
                   both_last,
                   norm.ptr()->forward(image),
                   F::instance_norm(image) * 2,
                   tracked.ptr()->forward(image.select(3, 1)),
                   prelu.ptr()->forward(image),
                   pooled,
                   std::get<0>(torch::max_pool2d_with_indices(image, 2)),
                   torch::alpha_dropout(x, 0.5, false) + 1});
  };
  check(*net, {torch::randn({3, 5}), torch::randn({3, 7}), torch::randn({3, 7}), torch::randn({4, 19, 5}),
               torch::randn({2, 4, 6, 5})});
}

TEST_CASE("losses and reductions that are others") {
  torch::manual_seed(77);
  check(
      [](const Tensors& in) {
        const Tensor &x = in[0], &y = in[1], &target = in[2], &nan = in[3];  // [5, 6], [5, 6], [5] of 0 to 5, [5, 6]
        const Tensor p = x.sigmoid(), q = y.sigmoid(), log = x.log_softmax(1);
        Tensors results = {torch::nansum(nan),
                           torch::nansum(nan, 1),
                           torch::nanmean(nan, {0}, true),
                           std::get<0>(torch::aminmax(x)),
                           std::get<1>(torch::aminmax(x, 1, true)),
                           torch::count_nonzero(x),
                           torch::msort(x),
                           std::get<0>(x.kthvalue(2, 0)),
                           std::get<0>(x.kthvalue(3, 1, true)),
                           x.median(),
                           std::get<0>(x.median(1)),
                           nan.median(),
                           std::get<0>(nan.median(0, true)),
                           target.median()};
        for (const std::int64_t how : {0, 1, 2})
          for (const Tensor& t :
               {torch::mse_loss(x, y, how), torch::l1_loss(x, y, how), torch::smooth_l1_loss(x, y, how, 0.5),
                torch::huber_loss(x, y, how, 0.7), torch::binary_cross_entropy(p, q, {}, how),
                torch::binary_cross_entropy(p, q, q, how), torch::binary_cross_entropy_with_logits(x, q, {}, {}, how),
                torch::binary_cross_entropy_with_logits(x, q, q, p[0] + 1, how), torch::kl_div(log, q, how),
                torch::kl_div(log, y, how, true), torch::cross_entropy_loss(x, target, {}, how),
                torch::cross_entropy_loss(x, target, {}, how, 2), torch::nll_loss(log, target, {}, how)})
            results.push_back(t);
        return all_of(std::move(results));
      },
      {torch::randn({5, 6}), torch::randn({5, 6}), torch::randint(6, {5}),
       torch::randn({5, 6}).masked_fill(torch::rand({5, 6}) > 0.8, not_a_number)});
}

// --- order -----------------------------------------------------------------------------------------------------------

TEST_CASE("elements in order, the first of them, and where they stood: of equal ones those that stand first") {
  torch::manual_seed(78);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &n = in[1], &w = in[2],
                 &wide = in[3];  // [3, 40, 5], [3, 40] of few, of 32 bits, [2, 1500]
    Tensors results;
    const auto both = [&](const std::tuple<Tensor, Tensor>& pair) {
      results.push_back(std::get<0>(pair));
      results.push_back(std::get<1>(pair));
    };
    for (const bool down : {false, true}) {
      both(x.sort(1, down));
      both(x.sort(-1, down));
      both((x * 2).sort(0, down));
      both(n.sort(-1, down));
      both(w.sort(true, 0, down));
      both(wide.sort(-1, down));
      both(torch::topk(x, 3, 1, down));
      both(torch::topk(x, 5, 2, down));
      both(torch::topk(wide, 7, -1, down));
      both(torch::topk(wide, 300, -1, down));
      both(torch::topk(n, 4, 1, down));
      results.push_back(n.argsort(1, down));
      results.push_back(x.argsort(true, 1, down) + 1);
    }
    const auto [best, where] = torch::topk(wide.softmax(-1), 5);
    results.push_back(best / best.sum(-1, true));
    results.push_back(torch::gather(wide, 1, where));
    return all_of(std::move(results));
  };
  const auto make = [](std::int64_t few) {
    Tensor x = few ? torch::randint(-few, few, {3, 40, 5}).to(torch::kFloat) : torch::randn({3, 40, 5});
    Tensor wide = few ? torch::randint(-few, few, {2, 1500}).to(torch::kFloat) : torch::randn({2, 1500});
    return Tensors{x, torch::randint(-3, 3, {3, 40}), torch::randint(-1000, 1000, {3, 40}).to(torch::kInt), wide};
  };
  Tensors special = make(0);
  special[3].index_put_({0, 7}, not_a_number);
  special[3].index_put_({0, 9}, not_a_number);
  special[3].index_put_({1, 9}, infinite);
  special[0].index_put_({1, 9}, -infinite);
  // LibTorch's are stable when they are told to be; the others keep no order among equals.
  const Tensors in = make(0);
  const auto gm = traced_net(*net_of(f), in);
  Graph ordered(gm->graph());
  REQUIRE(keep_order_of_equals(ordered, Orders::sorts_and_tops) > 0);
  const GraphModule reference(*gm, ordered, "Ordered");
  const torch::NoGradGuard no_grad;
  for (const int threads : {1, 3}) {
    const auto compiled = fxx::compile(*gm, in, {.threads = threads, .cache_folder = cache()});
    CHECK(called_back_operators(*compiled) == std::set<std::string>());
    for (Tensors inputs : {in, make(2), make(4), special}) {
      for (const bool turned : {false, true}) {
        if (turned)
          for (Tensor& t : inputs) t = transposed_copy(t);
        const Tensors given = tensors_of(compiled->run(boxed(inputs)));
        const Tensors wanted = tensors_of(const_cast<GraphModule&>(reference).run(boxed(inputs)));
        REQUIRE(given.size() == wanted.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
          CAPTURE(i);
          CHECK(difference(given[i], wanted[i]) <= (i + 2 < given.size() ? 0 : 1e-6));
        }
      }
    }
  }
}

TEST_CASE("sorted transposes and images that lie channels last leave the graph as LibTorch's do") {
  torch::manual_seed(79);
  const Forward f = [](const Tensors& in) {
    const auto [values, places] = in[0].t().sort(-1);
    const auto [of_image, where] = in[1].sort(-1, true);
    return all_of({values, places, in[0].t().argsort(-1, false), of_image, where, std::get<0>(in[1].sort(1)),
                   std::get<0>(in[0].t().topk(2, -1))});
  };
  const Tensors in = {torch::randn({4, 5}), torch::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)};
  const auto compiled = check(f, in, {.more = {{torch::randn({4, 5}), torch::randn({2, 3, 4, 5})}}});
  CHECK(called_back_operators(*compiled).empty());
}

TEST_CASE("a graph is compared with elements that keep their order, so equal ones make no difference") {
  const auto gm = traced_net(*net_of([](const Tensors& in) {
    const auto [values, places] = in[0].sort(1);
    const auto [best, where] = torch::topk(in[0], 30, 1);
    return all_of({values, places, best, where, in[0].argsort(std::int64_t(0))});
  }),
                             {torch::zeros({4, 100})});
  const auto compiled = fxx::compile(*gm, {torch::zeros({4, 100})}, {.cache_folder = cache()});
  CHECK(compiled->max_error() == 0);
  const Tensors given = tensors_of(compiled->run({torch::ones({4, 100})}));
  CHECK(torch::equal(given[1], torch::arange(100).expand({4, 100})));
  CHECK(torch::equal(given[3], torch::arange(30).expand({4, 30})));
}

TEST_CASE("searches among what is in order, and among a few others") {
  torch::manual_seed(79);
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &edges = in[1], &rows = in[2], &n = in[3];  // [4, 19], [9], [4, 33], [4, 19]
    const Tensor steps = torch::arange(-4, 5, n.options());
    return all_of({torch::bucketize(x, edges), torch::bucketize(x, edges, false, true) + 1,
                   torch::bucketize(x.exp(), edges, true), torch::bucketize(n, steps), torch::searchsorted(edges, x),
                   torch::searchsorted(rows, x, false, true), torch::searchsorted(rows, x, true, false, "left"),
                   torch::searchsorted(rows, x.slice(1, 0, 1)), torch::embedding(rows.t(), torch::bucketize(x, edges)),
                   torch::isin(n, steps.slice(0, 0, 3)), torch::isin(x, edges, false, true), torch::isin(n, 2)});
  };
  Tensor x = torch::randn({4, 19});
  x[0][3] = not_a_number;
  x[0][4] = infinite;
  const Tensor edges = std::get<0>(torch::randn({9}).sort());
  x[1][2] = edges[4];
  check(f, {x, edges, std::get<0>(torch::randn({4, 33}).sort(1)), torch::randint(-6, 6, {4, 19})});
}

TEST_CASE("softmax and sums of short rows, and of dimensions before the last") {
  torch::manual_seed(80);
  check(
      [](const Tensors& in) {
        // [97, 7], [3, 130, 40], [2, 5, 9, 11], [4, 6, 49], [1000, 3], [3, 64, 8]
        const Tensor &x = in[0], &y = in[1], &z = in[2], &w = in[3], row = in[3].select(0, 1).select(0, 2);
        const Tensor &few = in[4], &narrow = in[5];
        return all_of({x.softmax(1),
                       x.log_softmax(1),
                       (x * 2).softmax(1).relu(),
                       x.sum(1),
                       x.mean(1, true) + 1,
                       x.amax({1}),
                       x.amin({1}),
                       x.argmax(1),
                       x.argmin(1),
                       x.prod(1),
                       x.var(1),
                       x.norm(2, {1}),
                       (x > 0).any(1),
                       (x > -1).all(1),
                       x.norm(3, {1}),
                       x.t().contiguous().t().softmax(1),
                       x.slice(1, 0, 1).softmax(1),
                       x.slice(1, 0, 1).mean(1),
                       y.softmax(1),
                       y.log_softmax(1),
                       y.softmax(0),
                       y.sum(1),
                       y.norm(2, {1}),
                       w.sum({0, 2}),
                       w.mean({0, 2}),
                       (w * 2 - 1).relu().amax({0, 2}),
                       w.var({0, 2}),
                       w.norm(2, {0, 2}),
                       (w > 2).any(2).any(0),
                       (w + row).sum({0, 2}),
                       z.softmax(1),
                       (z + 1).softmax(1) * 2,
                       z.log_softmax(2),
                       z.sum(1),
                       z.mean({1, 2}),
                       z.flatten(2).softmax(0),
                       few.sum(0),
                       (few * 2 + 1).amax({0}),
                       few.norm(3, {0}),
                       few.norm(2, {0}),
                       few.argmax(0),
                       few.var(0),
                       few.slice(1, 0, 2).mean(0),
                       (few > 0).any(0),
                       narrow.mean({0, 1}),
                       narrow.sum(1).relu(),
                       narrow.amin({1}),
                       narrow.prod(1),
                       narrow.slice(1, 0, 1).sum({0, 1})});
      },
      {torch::randn({97, 7}), torch::randn({3, 130, 40}), torch::randn({2, 5, 9, 11}), torch::randn({4, 6, 49}),
       torch::randn({1000, 3}), torch::randn({3, 64, 8})},
      {.more = {{torch::randn({97, 7}).masked_fill(torch::rand({97, 7}) > 0.7, -infinite),
                 torch::randn({3, 130, 40}) * 30, transposed_copy(torch::randn({2, 5, 9, 11})),
                 torch::randn({4, 6, 49}) + 100, transposed_copy(torch::randn({1000, 3})),
                 torch::randn({3, 64, 8}).masked_fill(torch::rand({3, 64, 8}) > 0.99, NAN)}}});
}

}  // namespace

TEST_CASE("tensors of nine to twelve dimensions, however they lie") {
  torch::manual_seed(92);
  const std::vector<std::int64_t> nine = {2, 3, 2, 2, 3, 2, 2, 2, 3}, turned = {8, 3, 0, 5, 7, 1, 4, 2, 6};
  const std::vector<std::int64_t> twelve(12, 2), crossed = {11, 2, 9, 4, 7, 6, 5, 8, 3, 10, 1, 0};
  check(
      [=](const Tensors& in) {
        const Tensor t = in[0].permute(turned), u = in[1].permute(crossed);
        return all_of({t * 2 + 1,
                       t.reshape({-1}),
                       t.contiguous(),
                       (t + in[2]).relu(),
                       t.sum(4) + 1,
                       t.mean({0, 3, 5}),
                       t.softmax(2),
                       t.amax(-1, true) - t,
                       t.argmax(1),
                       torch::layer_norm(t, {t.size(8)}),
                       t.cumsum(3),
                       torch::cat({t, t.flip({0})}, 5),
                       torch::where(t > 0, t, t.neg()),
                       torch::matmul(t, in[3]),
                       std::get<0>(t.sort(0)),
                       u,
                       u.exp(),
                       u.slice(3, 1).transpose(0, 5) * in[4],
                       u.reshape({64, 64}).matmul(u.reshape({64, 64})),
                       in[1].view({4, 1024}) * 3});
      },
      {torch::randn(nine), torch::randn(twelve), torch::randn({3, 1, 1, 2, 1, 3, 1, 1, 1}), torch::randn({2, 3}),
       torch::randn({2})});
}

TEST_CASE("exact: factors stay outside of weights and of each other") {
  torch::manual_seed(93);
  const Tensor w = torch::randn({4, 3, 3, 3}) * 1e-30, gamma = torch::rand({4}) * 1e-20 + 1e-20, zero = torch::zeros({4});
  const auto net = net_of({});
  const Tensor weight = net->constant(w), scale = net->constant(gamma), mean = net->constant(zero),
               variance = net->constant(torch::ones({4})), line = net->constant(torch::randn({5, 6}) * 1e-30);
  net->function = [=](const Tensors& in) {
    const Tensor image = torch::conv2d(in[0], weight, {}, 1, 1);
    return all_of({torch::batch_norm(image, scale, mean, mean, variance, false, 0.1, 1e-5, false),
                   torch::linear(in[1], line) * 1e-20, in[1] * 1e20 * 1e-20});
  };
  const Tensors in = {torch::randn({1, 3, 6, 6}) * 1e30, torch::randn({2, 6}) * 1e30};
  const auto gm = traced_net(*net, in);
  const torch::NoGradGuard no_grad;
  // Products of weights and factors are 0 in float32.
  CHECK_THROWS_AS(fxx::compile(*gm, in, {.cache_folder = cache()}), LoadError);
  const auto compiled = fxx::compile(*gm, in, {.accuracy = Accuracy::exact, .cache_folder = cache()});
  const Tensors given = tensors_of(compiled->run(boxed(in))), wanted = tensors_of(gm->run(boxed(in)));
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(relative_difference(given[i], wanted[i]) <= 1e-6);
  CHECK(given[2].isinf().any().item<bool>());
}
