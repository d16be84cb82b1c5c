// What operators give for fake tensors is what they give for real ones, in sizes, strides, dtype, device and gradients;
// and what is refused for real ones is refused for fake ones. One long file: each
// that includes LibTorch takes 20 s and 1.3 GB to compile.
#include "fxx/torch/shape_rules.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "fxx/torch/fake.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;
namespace F = torch::nn::functional;
namespace tnn = torch::nn;

namespace {

/// Warnings of LibTorch's, each with a trace of the stack, would take most of the time.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
} quiet;
const c10::WarningUtils::WarningHandlerGuard no_warnings(&quiet);

// --- comparing -----------------------------------------------------------------------------------------------------

/// Everything but the elements: "float [2, 3] strides [3, 1] cpu grad". Strides of dimensions of one element say
/// nothing.
std::string form_of(const Tensor& t) {
  if (!t.defined()) return "undefined";
  std::ostringstream out;
  out << t.scalar_type() << " " << t.sizes() << " strides [";
  for (std::int64_t d = 0; d < t.dim() && t.numel() > 0; ++d)
    if (t.size(d) > 1) out << " " << t.stride(d);
  out << " ] offset " << (t.numel() > 0 ? t.storage_offset() : 0) << " " << t.device()
      << (t.requires_grad() ? " grad" : "") << (t.is_contiguous() ? " contiguous" : "")
      << (t.is_contiguous(at::MemoryFormat::ChannelsLast) ? " last" : "") << (t.is_conj() ? " conj" : "")
      << (t.is_leaf() ? "" : " inner");
  return out.str();
}
std::string form_of(const Tensors& tensors) {
  std::string text;
  for (const Tensor& t : tensors) text += form_of(t) + "\n";
  return text;
}
/// A copy of the same strides.
Tensor copy_of(const Tensor& t) {
  if (!t.defined()) return t;
  const torch::NoGradGuard no_grad;
  Tensor copy = torch::empty_strided(t.sizes(), t.strides(), t.options());
  if (t.is_non_overlapping_and_dense()) copy.copy_(t);
  else copy = t.detach();
  return copy.set_requires_grad(t.requires_grad());
}
Tensors each(const Tensors& tensors, Tensor (*f)(const Tensor&)) {
  Tensors out;
  for (const Tensor& t : tensors) out.push_back(f(t));
  return out;
}
/// What a call gives, or "throws".
struct Outcome {
  std::string form, error;
  Tensors tensors;
};
Outcome outcome_of(const Forward& f, const Tensors& inputs) {
  Outcome out;
  try {
    out.tensors = tensors_of(f(inputs));
    out.form = form_of(out.tensors);
  } catch (const c10::Error& e) {  // to write its trace of the stack takes milliseconds
    out.form = "throws\n";
    out.error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    out.form = "throws\n";
    out.error = e.what();
  }
  return out;
}
/// Real and fake inputs give results of one form, or are both refused (where `checked`); and the inputs themselves keep
/// one form.
bool check_same(const std::string& what, const Forward& f, const Tensors& inputs, bool checked = true) {
  const Tensors real = each(inputs, copy_of), fakes = each(inputs, fake_like);
  const Outcome expected = outcome_of(f, real), given = outcome_of(f, fakes);
  if (!checked && expected.form == "throws\n") return false;
  // What is refused may have resized `out` before.
  const bool inputs_same = expected.form == "throws\n" || form_of(real) == form_of(fakes);
  bool same = expected.form == given.form && inputs_same;
  for (const Tensor& t : given.tensors) same = same && (!t.defined() || is_fake(t));
  if (!same) {
    INFO(what << "\ninputs\n"
              << form_of(inputs) << "real\n"
              << expected.form << expected.error << "\nfake\n"
              << given.form << given.error << "\ninputs after\n"
              << form_of(real) << form_of(fakes));
    CHECK(same);
  }
  return same && expected.form != "throws\n";
}
struct Case {
  const char* name;
  Forward f;
  bool checked = true;
};
#define FXX_CASE(expression)                                                \
  Case {                                                                    \
    #expression, [](const Tensors& t) -> c10::IValue { return expression; } \
  }
/// By a kernel for meta tensors of LibTorch's own, which takes more than that for the CPU does: dtypes, indices.
#define FXX_THEIRS(expression)                                                     \
  Case {                                                                           \
    #expression, [](const Tensors& t) -> c10::IValue { return expression; }, false \
  }
c10::IValue all_of(Tensors tensors) { return c10::IValue(std::move(tensors)); }
template <class... T>
c10::IValue all_of(const std::tuple<T...>& tensors) {
  return std::apply([](const auto&... t) { return all_of(Tensors{t...}); }, tensors);
}

/// Every case on every set of inputs. Each case must work on one of them at least, or nothing was compared.
void check_cases(const std::vector<Case>& cases, const std::vector<Tensors>& inputs) {
  for (const Case& c : cases) {
    bool any = false;
    for (const Tensors& in : inputs) any = check_same(c.name, c.f, in, c.checked) || any;
    CAPTURE(std::string(c.name));
    CHECK(any);
  }
}
Tensor of(std::vector<std::int64_t> sizes, at::ScalarType type = torch::kFloat) {
  const Tensor t = torch::rand(sizes) * 4;
  return type == torch::kComplexFloat ? torch::complex(t, t) : t.to(type);
}
/// Shapes and layouts that are easily got wrong.
Tensors awkward(at::ScalarType type = torch::kFloat) {
  const Tensor image = of({2, 3, 5, 7}, type);
  return {of({}, type),
          of({0}, type),
          of({1}, type),
          of({7}, type),
          of({3, 0, 5}, type),
          of({2, 3, 5}, type),
          of({5, 3}, type).t(),
          of({2, 3, 5}, type).permute({2, 0, 1}),
          of({4, 6}, type).slice(1, 0, 6, 2),
          of({1, 5}, type).expand({3, 5}),
          image,
          image.contiguous(at::MemoryFormat::ChannelsLast),
          of({1, 3, 1, 1}, type).contiguous(at::MemoryFormat::ChannelsLast),
          of({2, 2, 3, 3, 3}, type).contiguous(at::MemoryFormat::ChannelsLast3d),
          of({13, 1, 1}, type)};
}
std::vector<Tensors> alone(const Tensors& tensors) {
  std::vector<Tensors> out;
  for (const Tensor& t : tensors) out.push_back({t});
  return out;
}
/// Each with itself and with one that broadcasts or does not.
std::vector<Tensors> pairs(const Tensors& tensors) {
  std::vector<Tensors> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.push_back({tensors[i], tensors[i]});
    out.push_back({tensors[i], tensors[(i + 1) % tensors.size()]});
    out.push_back({tensors[i], tensors[0]});
    if (tensors[i].dim() > 1) out.push_back({tensors[i], tensors[i].select(0, 0)});
  }
  return out;
}

// --- operators -----------------------------------------------------------------------------------------------------

TEST_CASE("every shape rule is for an operator that LibTorch has, whose arguments it reads") {
  const auto& rules = fxx::detail::shape_rules();
  CHECK(rules.size() > 150);
  for (const auto& [name, rule] : rules) {
    const auto dot = name.find('.');
    const std::string overload(dot == name.npos ? "" : name.substr(dot + 1));
    CAPTURE(std::string(name));
    const std::string base(name.substr(0, dot)), whole = base.find("::") == base.npos ? "aten::" + base : base;
    CHECK(c10::Dispatcher::singleton().findSchema(c10::OperatorName(whole, overload)).has_value());
  }
}

TEST_CASE("operators over elements give the same form, for every dtype and layout") {
  const std::vector<Case> unary = {FXX_CASE(t[0].abs()),
                                   FXX_CASE(t[0].angle()),
                                   FXX_CASE(t[0].conj()),
                                   FXX_CASE(t[0].isnan()),
                                   FXX_CASE(t[0].relu()),
                                   FXX_CASE(t[0].exp()),
                                   FXX_CASE(t[0] + 1),
                                   FXX_CASE(t[0] * 2.5),
                                   FXX_CASE(1 - t[0]),
                                   FXX_CASE(t[0].to(torch::kHalf)),
                                   FXX_CASE(t[0].logical_not()),
                                   FXX_CASE(t[0].nan_to_num()),
                                   FXX_CASE(t[0].sigmoid()),
                                   FXX_CASE(t[0].clone()),
                                   FXX_CASE(t[0].contiguous()),
                                   FXX_CASE(torch::zeros_like(t[0])),
                                   FXX_CASE(torch::rand_like(t[0])),
                                   FXX_CASE(t[0].new_empty({3, 2})),
                                   FXX_CASE(t[0].logit()),
                                   FXX_CASE(t[0].mvlgamma(2)),
                                   FXX_THEIRS(t[0] > 1),
                                   FXX_CASE(torch::bernoulli(t[0] * 0)),
                                   FXX_CASE(torch::poisson(t[0])),
                                   FXX_THEIRS(torch::dropout(t[0], 0.5, true)),
                                   FXX_CASE(torch::native_dropout(t[0], 0.5, true)),
                                   FXX_CASE(torch::frexp(t[0])),
                                   FXX_THEIRS(torch::where(t[0] > 1, t[0], t[0] * 2)),
                                   FXX_THEIRS(torch::where(t[0] > 1, t[0], 2)),
                                   FXX_CASE(torch::hardswish(t[0])),
                                   FXX_CASE(torch::hardtanh(t[0])),
                                   FXX_THEIRS(torch::gelu(t[0])),
                                   FXX_THEIRS(torch::silu(t[0])),
                                   FXX_CASE(torch::log_sigmoid(t[0])),
                                   FXX_CASE(torch::rrelu(t[0], 0.1, 0.3, true)),
                                   FXX_THEIRS(torch::softmax(t[0], -1)),
                                   FXX_THEIRS(torch::log_softmax(t[0], 0, torch::kDouble)),
                                   FXX_CASE(t[0].pow(2)),
                                   FXX_THEIRS(t[0].clamp(0, 1)),
                                   FXX_THEIRS(t[0].masked_fill(t[0] > 1, 3)),
                                   FXX_THEIRS(t[0].remainder(2)),
                                   FXX_CASE(t[0].floor_divide(2)),
                                   FXX_CASE(torch::remainder(5, t[0] + 1)),
                                   FXX_CASE(torch::rsub(t[0], t[0])),
                                   FXX_THEIRS(torch::glu(t[0], -1)),
                                   FXX_THEIRS(t[0].cumsum(0)),
                                   FXX_CASE(t[0].logcumsumexp(0)),
                                   FXX_THEIRS(t[0].cummax(0)),
                                   FXX_CASE(t[0].to(torch::kCPU)),
                                   FXX_CASE(t[0].type_as(t[0])),
                                   FXX_THEIRS(torch::polygamma(1, t[0])),
                                   FXX_THEIRS(t[0].bitwise_left_shift(1)),
                                   FXX_CASE(t[0].__lshift__(1)),
                                   FXX_CASE(t[0].view_as(t[0]))};
  for (at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt,
                              torch::kBool, torch::kByte, torch::kComplexFloat}) {
    for (const Case& c : unary)
      for (const Tensor& t : awkward(type))
        check_same(std::string(c.name) + " " + c10::toString(type), c.f, {t}, c.checked);
  }
  const std::vector<Case> binary = {FXX_CASE(t[0] + t[1]),
                                    FXX_CASE(t[0] / t[1]),
                                    FXX_CASE(t[0].floor_divide(t[1] + 1)),
                                    FXX_CASE(t[0] == t[1]),
                                    FXX_CASE(t[0].logical_and(t[1])),
                                    FXX_CASE(t[0].logical_or(t[1])),
                                    FXX_CASE(t[0].logical_xor(t[1])),
                                    FXX_CASE(torch::prelu(t[0], t[1])),
                                    FXX_CASE(t[0].to(torch::kLong).__lshift__(t[1].to(torch::kLong))),
                                    FXX_CASE(torch::rsub(t[0], t[1])),
                                    FXX_CASE(torch::complex(t[0], t[1])),
                                    FXX_CASE(torch::polar(t[0], t[1])),
                                    FXX_THEIRS(torch::atan2(t[0], t[1])),
                                    FXX_THEIRS(torch::where(t[0] > t[1], t[0], t[1])),
                                    FXX_THEIRS(torch::lerp(t[0], t[1], 0.5)),
                                    FXX_CASE(torch::cat({t[0], t[1]}, 0)),
                                    FXX_CASE(torch::stack({t[0], t[1]}, 0)),
                                    FXX_THEIRS(torch::maximum(t[0], t[1])),
                                    FXX_CASE(torch::huber_loss(t[0], t[1])),
                                    FXX_CASE(torch::huber_loss(t[0], t[1], 0)),
                                    FXX_CASE(torch::binary_cross_entropy(t[0] / 4, t[1] / 4)),
                                    FXX_CASE(torch::binary_cross_entropy(t[0] / 4, t[1] / 4, {}, 0)),
                                    FXX_THEIRS(torch::mse_loss(t[0], t[1])),
                                    FXX_THEIRS(torch::smooth_l1_loss(t[0], t[1], 0)),
                                    FXX_CASE(torch::dot(t[0], t[1])),
                                    FXX_CASE(torch::take(t[0], t[1].to(torch::kLong) * 0))};
  check_cases(binary, pairs(awkward()));
  std::vector<Tensors> mixed;  // dtypes are promoted
  for (at::ScalarType a : {torch::kFloat, torch::kLong, torch::kBool, torch::kHalf, torch::kComplexFloat})
    for (at::ScalarType b : {torch::kDouble, torch::kInt, torch::kBFloat16})
      for (const Tensor& t : {of({2, 3}, b), of({}, b)}) mixed.push_back({of({2, 3}, a), t});
  for (const Case& c : binary)
    for (const Tensors& in : mixed) check_same(c.name, c.f, in, c.checked);
}

TEST_CASE("reductions, order and statistics give the same form") {
  const std::vector<Case> cases = {FXX_CASE(t[0].sum()),
                                   FXX_CASE(t[0].sum({0}, true)),
                                   FXX_CASE(t[0].mean(-1)),
                                   FXX_CASE(t[0].prod()),
                                   FXX_CASE(t[0].prod(0)),
                                   FXX_CASE(t[0].prod(torch::kDouble)),
                                   FXX_CASE(torch::nansum(t[0])),
                                   FXX_CASE(torch::nansum(t[0], {0}, true)),
                                   FXX_CASE(t[0].max()),
                                   FXX_CASE(t[0].min()),
                                   FXX_CASE(all_of(t[0].max(0))),
                                   FXX_CASE(t[0].median()),
                                   FXX_CASE(all_of(t[0].median(-1))),
                                   FXX_CASE(t[0].nanmedian()),
                                   FXX_CASE(all_of(t[0].nanmedian(0, true))),
                                   FXX_CASE(all_of(t[0].mode(-1))),
                                   FXX_CASE(all_of(t[0].kthvalue(1, 0))),
                                   FXX_CASE(all_of(t[0].kthvalue(3, -1, true))),
                                   FXX_CASE(t[0].std()),
                                   FXX_CASE(t[0].var({0}, true)),
                                   FXX_CASE(all_of(torch::std_mean(t[0]))),
                                   FXX_CASE(all_of(torch::var_mean(t[0], {0}, true, true))),
                                   FXX_CASE(t[0].count_nonzero()),
                                   FXX_CASE(t[0].count_nonzero(at::IntArrayRef{0})),
                                   FXX_CASE(t[0].trace()),
                                   FXX_CASE(t[0].histc(10)),
                                   FXX_CASE(all_of(torch::histogram(t[0], 5))),
                                   FXX_THEIRS(all_of(t[0].sort(0))),
                                   FXX_THEIRS(all_of(t[0].topk(1, -1))),
                                   FXX_THEIRS(t[0].argsort(0, false)),
                                   FXX_THEIRS(t[0].argmax()),
                                   FXX_THEIRS(t[0].argmax(0, true)),
                                   FXX_THEIRS(t[0].norm()),
                                   FXX_THEIRS(t[0].norm(2, 0)),
                                   FXX_THEIRS(t[0].logsumexp(0)),
                                   FXX_CASE(t[0].all()),
                                   FXX_CASE(t[0].any(0)),
                                   FXX_THEIRS(t[0].amax({0})),
                                   FXX_THEIRS(all_of(torch::aminmax(t[0]))),
                                   FXX_CASE(torch::multinomial(t[0] + 1, 2)),
                                   FXX_CASE(torch::multinomial(t[0] + 1, 9, true)),
                                   FXX_THEIRS(t[0].cumprod(0)),
                                   FXX_CASE(torch::bucketize(t[0], torch::rand({3}))),
                                   FXX_CASE(t[0].diff())};
  check_cases(cases, alone(awkward()));
  for (at::ScalarType type : {torch::kLong, torch::kBool, torch::kHalf, torch::kComplexFloat})
    for (const Case& c : cases)
      for (const Tensor& t : awkward(type))
        check_same(std::string(c.name) + " " + c10::toString(type), c.f, {t}, c.checked);
  check_cases({FXX_CASE(torch::searchsorted(t[0], t[1])), FXX_CASE(torch::searchsorted(t[0], t[1], true)),
               FXX_CASE(torch::searchsorted(t[0], 0.5)), FXX_CASE(torch::bucketize(t[1], t[0])),
               FXX_CASE(all_of(torch::histogram(t[1], t[0])))},
              {{of({4}), of({2, 3})},
               {of({2, 4}), of({2, 3})},
               {of({3, 4}), of({2, 3})},
               {of({4}), of({})},
               {of({4}), of({5, 3}).t()}});
}

TEST_CASE("views share memory as those of real tensors, and what moves elements gives the same form") {
  const std::vector<Case> views = {FXX_CASE(t[0].view({-1})),
                                   FXX_CASE(t[0].reshape({-1})),
                                   FXX_CASE(t[0].flatten()),
                                   FXX_CASE(t[0].transpose(0, -1)),
                                   FXX_CASE(t[0].slice(0, 1)),
                                   FXX_CASE(t[0].slice(-1, 0, 9, 2)),
                                   FXX_CASE(t[0].select(0, 0)),
                                   FXX_CASE(t[0].unsqueeze(0)),
                                   FXX_CASE(t[0].squeeze()),
                                   FXX_CASE(t[0].detach()),
                                   FXX_CASE(t[0].expand({2, -1, -1, -1, -1, -1})),
                                   FXX_CASE(t[0].unfold(-1, 2, 1)),
                                   FXX_CASE(t[0].diagonal()),
                                   FXX_CASE(t[0].view(torch::kInt)),
                                   FXX_CASE(t[0].t()),
                                   FXX_CASE(t[0].alias()),
                                   FXX_CASE(t[0].movedim(0, -1)),
                                   FXX_CASE(t[0][0]),
                                   FXX_CASE(all_of(t[0].unbind(0))),
                                   FXX_CASE(all_of(t[0].chunk(2, -1))),
                                   FXX_CASE(all_of(t[0].split(2))),
                                   FXX_THEIRS(t[0].as_strided({2, 2}, {1, 2})),
                                   FXX_CASE(t[0].index({"...", 0})),
                                   FXX_CASE(t[0].unflatten(-1, {1, -1})),
                                   FXX_CASE(torch::real(t[0])),
                                   FXX_CASE(t[0].narrow(0, 0, 1)),
                                   FXX_CASE(t[0].swapaxes(0, -1)),
                                   FXX_CASE(t[0].mT()),
                                   FXX_CASE(t[0].data()),
                                   FXX_CASE(t[0].variable_data())};
  const Tensors shapes = awkward();
  check_cases(views, alone(shapes));
  for (const Case& c : views)
    for (const Tensor& t : shapes) {
      const Tensor fake = fake_like(t), real = copy_of(t);
      const Outcome a = outcome_of(c.f, {real}), b = outcome_of(c.f, {fake});
      for (std::size_t i = 0; i < a.tensors.size(); ++i) {
        CAPTURE(c.name);
        CHECK((a.tensors[i].storage().unsafeGetStorageImpl() == real.storage().unsafeGetStorageImpl()) ==
              (b.tensors[i].storage().unsafeGetStorageImpl() == fake.storage().unsafeGetStorageImpl()));
        CHECK(a.tensors[i].is_view() == b.tensors[i].is_view());
      }
    }
  check_cases(
      {FXX_CASE(t[0].roll(2)), FXX_CASE(t[0].roll({-1}, {0})), FXX_CASE(t[0].roll({1, 2}, {0, -1})),
       FXX_CASE(t[0].flip({0})), FXX_CASE(t[0].flip({0, -1})), FXX_CASE(t[0].rot90()),
       FXX_CASE(t[0].repeat({2, 1, 1, 3, 1})), FXX_CASE(torch::channel_shuffle(t[0], 3)),
       FXX_CASE(torch::pixel_shuffle(t[0], 1)), FXX_CASE(t[0].tril()), FXX_CASE(t[0].triu(1)),
       FXX_CASE(torch::narrow_copy(t[0], 0, 0, 1)), FXX_CASE(t[0].repeat_interleave(3)),
       FXX_CASE(t[0].repeat_interleave(2, 0)), FXX_CASE(torch::constant_pad_nd(t[0], {1, 2})),
       FXX_CASE(torch::block_diag({t[0], t[0]})), FXX_CASE(t[0].diag_embed()),
       FXX_CASE(torch::cartesian_prod({t[0], t[0]})), FXX_CASE(torch::im2col(t[0], {2, 2}, {1, 1}, {1, 1}, {2, 1}))},
      alone(shapes));
  check_cases({FXX_CASE(torch::col2im(t[0], {5, 6}, {2, 3}, {1, 1}, {0, 1}, {1, 2}))},
              {{of({1, 12, 12})}, {of({12, 12})}, {of({2, 18, 12})}, {of({2, 18, 13})}, {of({2, 17, 12})}});
}

TEST_CASE("indices and embeddings give the same form, and values of the wrong dtype are refused") {
  const Tensor index = torch::zeros({3}, torch::kLong), row = torch::zeros({1, 3}, torch::kLong);
  std::vector<Tensors> inputs;
  for (const Tensor& t : awkward())
    for (const Tensor& i : {index, row, torch::tensor(0), index.to(torch::kInt), index.to(torch::kFloat)})
      inputs.push_back({t, i});
  check_cases(
      {FXX_CASE(t[0].index_select(0, t[1])), FXX_CASE(t[0].index_select(-1, t[1])),
       FXX_THEIRS(t[0].index({t[1].flatten()})), FXX_THEIRS(t[0].index({torch::indexing::Slice(), t[1].flatten()})),
       FXX_THEIRS(t[0].index_put({t[1]}, torch::tensor(1.f))), FXX_CASE(t[0].take(t[1])),
       FXX_CASE(t[0].index_fill(0, t[1], 3)), FXX_CASE(t[0].index_fill(0, t[1], torch::tensor(2.f))),
       FXX_THEIRS(t[0].gather(0, t[1].expand(t[0].sizes()) * 0)), FXX_CASE(torch::embedding(t[0], t[1])),
       FXX_THEIRS(t[0].index_add(0, t[1], t[0].index_select(0, t[1]))),
       FXX_THEIRS(t[0].put(t[1], torch::zeros_like(t[1]).to(torch::kFloat)))},
      inputs);
  check_cases(
      {FXX_THEIRS(t[0].gather(1, t[1])), FXX_THEIRS(t[0].scatter(1, t[1], t[0])), FXX_THEIRS(t[0].scatter(0, t[1], 2)),
       FXX_THEIRS(t[0].scatter_add(1, t[1], t[0])), FXX_THEIRS(t[0].scatter_reduce(1, t[1], t[0], "amax")),
       FXX_THEIRS(torch::take_along_dim(t[0], t[1], 1))},
      {{of({3, 4}), torch::zeros({3, 2}, torch::kLong)},
       {of({3, 4}), torch::zeros({4, 4}, torch::kLong)},
       {of({4, 3}).t(), torch::zeros({1, 4}, torch::kLong)},
       {of({3}), torch::zeros({3}, torch::kLong)}});
  const Tensor ids = torch::randint(0, 9, {2, 4}), flat = ids.flatten(), offsets = torch::tensor({0, 2, 5});
  for (at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kHalf})
    for (std::int64_t mode : {0, 1, 2})
      for (bool last : {false, true})
        for (const Tensor& scales : {Tensor(), of({8}, type)})
          check_same("embedding_bag",
                     [=](const Tensors& t) {
                       return all_of(torch::embedding_bag(t[0], t[1], t[2], false, mode, false, t[3], last));
                     },
                     {of({9, 5}, type), flat, offsets, scales});
  check_cases({FXX_CASE(torch::nonzero_static(t[0], 5)), FXX_CASE(torch::repeat_interleave(t[1], 12)),
               FXX_CASE(t[0].repeat_interleave(t[1], 0, 6))},
              {{of({3, 4}), torch::tensor({1, 2, 3})}});
}

// --- convolutions, pools, norms ------------------------------------------------------------------------------------

TEST_CASE("convolutions of every kind give the same form, forward and backward, or are both refused") {
  Random random(7);
  int worked = 0;
  for (int round = 0; round < 400; ++round) {
    const auto pick = [&](std::initializer_list<std::int64_t> values) {
      return *(values.begin() + random.below(values.size()));
    };
    const std::size_t dims = 1 + random.below(3);
    const bool transposed = random.chance(3);
    const std::int64_t groups = pick({1, 1, 1, 2, 3}), in = groups * pick({1, 2, 5}), out = groups * pick({1, 3});
    const at::ScalarType type = random.chance(4) ? torch::kDouble : random.chance(6) ? torch::kBFloat16 : torch::kFloat;
    std::vector<std::int64_t> x{pick({1, 2, 5}), random.chance(12) ? in + 1 : in}, w, stride, padding, dilation, extra;
    w = transposed ? std::vector<std::int64_t>{in, out / groups} : std::vector<std::int64_t>{out, in / groups};
    for (std::size_t d = 0; d < dims; ++d) {
      x.push_back(pick({1, 4, 7, 11}));
      w.push_back(pick({1, 2, 3, 5}));
      stride.push_back(pick({1, 2, 3}));
      padding.push_back(pick({0, 0, 1, 2}));
      dilation.push_back(pick({1, 1, 2}));
      extra.push_back(transposed ? pick({0, 0, 1}) : 0);
    }
    Tensor input = of(x, type), weight = of(w, type);
    const auto last = [&](const Tensor& t) {
      return t.dim() == 4   ? t.contiguous(at::MemoryFormat::ChannelsLast)
             : t.dim() == 5 ? t.contiguous(at::MemoryFormat::ChannelsLast3d)
                            : t;
    };
    if (random.chance(3)) input = last(input);
    if (random.chance(5)) weight = last(weight);
    const Tensor bias = random.chance(3) ? Tensor() : of({random.chance(15) ? out + 1 : out}, type);
    const bool grad = random.chance(2);
    input.set_requires_grad(grad);
    weight.set_requires_grad(grad);
    worked += check_same("convolution",
                         [=](const Tensors& t) {
                           const Tensor y = torch::convolution(t[0], t[1], t[2], stride, padding, dilation, transposed,
                                                               extra, groups);
                           if (!grad) return all_of({y});
                           const auto gradients = torch::autograd::grad({y}, {t[0], t[1]}, {torch::ones_like(y)});
                           return all_of({y, gradients[0], gradients[1]});
                         },
                         {input, weight, bias});
  }
  CHECK(worked > 150);
  CHECK(worked < 400);
  check_cases({FXX_CASE(torch::conv_tbc(t[0], t[1], t[2], 1)),
               FXX_CASE(torch::conv1d(t[0].permute({1, 2, 0}), t[1].permute({2, 1, 0}), t[2], 1, "same"))},
              {{of({5, 2, 3}), of({3, 3, 4}), of({4})}, {of({5, 2, 3}), of({3, 2, 4}), of({4})}});
  check_cases({FXX_CASE(torch::conv2d(t[0], t[1])), FXX_CASE(torch::conv2d(t[0], t[1], {}, 1, "same")),
               FXX_CASE(torch::thnn_conv2d(t[0], t[1], {3, 3}, {}, {1, 1}, {0, 1})),
               FXX_CASE(torch::slow_conv_dilated2d(t[0], t[1], {3, 3}, {}, {1, 1}, {1, 1}, {2, 2})),
               FXX_CASE(torch::mkldnn_convolution(t[0], t[1], {}, {1, 1}, {1, 1}, {1, 1}, 1))},
              {{of({2, 3, 8, 9}), of({4, 3, 3, 3})},
               {of({3, 8, 9}), of({4, 3, 3, 3})},
               {of({0, 3, 8, 9}), of({4, 3, 3, 3})},
               {of({2, 3, 2, 9}), of({4, 3, 3, 3})},
               {of({2, 3, 8, 9}, torch::kLong), of({4, 3, 3, 3})}});
  const auto fused = [](const Tensors& t) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "binary");
    c10::Stack stack = {t[0], t[2], t[1], c10::IValue(), "add"};
    op.callBoxed(stack);
    return stack[0];
  };
  CHECK(check_same("_linear_pointwise.binary", fused, {of({2, 5, 3}), of({4, 3}), of({2, 5, 4})}));
  CHECK(check_same("_linear_pointwise.binary", fused, {of({3, 2}).t(), of({3, 4}).t(), of({2, 4})}));
  CHECK(check_same("_linear_pointwise.binary", fused, {of({6, 3}), of({4, 3}), of({1, 4})}));
  for (const Tensors& refused :
       {Tensors{of({2, 5}), of({4, 3}), of({2, 4})}, {of({6, 3}), of({4, 3}), of({4})},
        {of({2, 5, 3}), of({4, 3}), of({1, 1, 4})}, {of({2, 3}, torch::kDouble), of({4, 3}, torch::kDouble),
                                                     of({2, 4}, torch::kDouble)}})
    CHECK_FALSE(check_same("_linear_pointwise.binary", fused, refused));
  check_cases({FXX_CASE(torch::slow_conv3d(t[0], t[1], {2, 2, 2}, {}, {1, 1, 2}, {0, 0, 1})),
               FXX_CASE(torch::slow_conv_dilated3d(t[0], t[1], {2, 2, 2}, {}, {1, 1, 1}, {0, 0, 0}, {2, 2, 2})),
               FXX_CASE(torch::slow_conv_transpose3d(t[0], t[1].transpose(0, 1), {2, 2, 2}, {}, {2, 2, 2}, {0, 0, 0},
                                                     {1, 1, 1}, {1, 1, 1}))},
              {{of({2, 3, 5, 5, 5}), of({4, 3, 2, 2, 2})}, {of({3, 5, 5, 5}), of({4, 3, 2, 2, 2})}});
}

TEST_CASE("pools, padding and sampling give the same form") {
  const Tensor image = of({2, 3, 9, 7}), volume = of({2, 3, 5, 6, 7});
  std::vector<Tensors> images =
      alone({image, image.contiguous(at::MemoryFormat::ChannelsLast), image[0], of({0, 3, 9, 7}), of({2, 0, 9, 7}),
             of({2, 3, 9, 7}, torch::kDouble), of({2, 3, 9, 7}, torch::kBFloat16), of({1, 1, 1, 1}), of({2, 3}),
             of({2, 3, 9, 7}, torch::kLong), of({2, 9, 3, 7}).transpose(1, 2)});
  check_cases(
      {FXX_CASE(torch::adaptive_avg_pool2d(t[0], {1, 1})), FXX_CASE(torch::adaptive_avg_pool2d(t[0], {4, 3})),
       FXX_CASE(torch::adaptive_avg_pool2d(t[0], {0, 2})), FXX_THEIRS(all_of(torch::adaptive_max_pool2d(t[0], {2, 3}))),
       FXX_THEIRS(torch::avg_pool2d(t[0], 2)), FXX_THEIRS(torch::max_pool2d(t[0], 3, 2, 1)),
       FXX_THEIRS(torch::max_pool1d(t[0], 2)), FXX_THEIRS(all_of(torch::max_pool2d_with_indices(t[0], {2, 2}, {1, 2}))),
       FXX_CASE(torch::reflection_pad2d(t[0], {1, 2, 3, 0})), FXX_CASE(torch::replication_pad2d(t[0], {1, 2, 3, 0})),
       FXX_THEIRS(torch::upsample_nearest2d(t[0], {4, 20})),
       FXX_THEIRS(torch::upsample_bilinear2d(t[0], {4, 20}, true)),
       FXX_THEIRS(torch::upsample_bicubic2d(t[0], {18, 14}, false)),
       FXX_THEIRS(F::interpolate(
           t[0], F::InterpolateFuncOptions().scale_factor(std::vector<double>{2, 1.5}).mode(torch::kBilinear))),
       FXX_CASE(torch::adaptive_avg_pool1d(t[0], 3)), FXX_THEIRS(torch::avg_pool1d(t[0], 2)),
       FXX_CASE(torch::group_norm(t[0], 1))},
      images);
  check_cases({FXX_CASE(torch::adaptive_avg_pool3d(t[0], {2, 3, 4})), FXX_CASE(torch::max_pool3d(t[0], 2)),
               FXX_CASE(all_of(torch::max_pool3d_with_indices(t[0], {2, 3, 2}, {1, 2, 2}, {1, 1, 0}, 1, true))),
               FXX_THEIRS(torch::avg_pool3d(t[0], 2)), FXX_CASE(torch::replication_pad3d(t[0], {1, 1, 0, 2, 1, 0})),
               FXX_THEIRS(torch::upsample_trilinear3d(t[0], {4, 5, 9}, false))},
              alone({volume, volume[0], volume.contiguous(at::MemoryFormat::ChannelsLast3d), of({2, 3, 1, 1, 1}),
                     image[0][0], of({2, 3, 5, 6, 7}, torch::kDouble)}));
  check_cases({FXX_CASE(torch::grid_sampler_2d(t[0], t[1], 0, 0, false)), FXX_CASE(F::grid_sample(t[0], t[1]))},
              {{image, of({2, 4, 5, 2})},
               {image, of({2, 4, 5, 3})},
               {image, of({1, 4, 5, 2})},
               {image.contiguous(at::MemoryFormat::ChannelsLast), of({2, 4, 5, 2})},
               {image, of({2, 4, 5, 2}, torch::kDouble)},
               {of({2, 3, 9, 7}, torch::kHalf), of({2, 4, 5, 2}, torch::kHalf)},
               {of({2, 3, 9, 7}, torch::kLong), of({2, 4, 5, 2}, torch::kLong)},
               {of({0, 3, 9, 7}), of({0, 4, 5, 2}, torch::kDouble)}});
  check_cases({FXX_CASE(torch::grid_sampler_3d(t[0], t[1], 0, 0, false))},
              {{volume, of({2, 4, 5, 6, 3})},
               {volume, of({2, 4, 5, 3})},
               {volume, of({2, 4, 5, 6, 3}, torch::kDouble)},
               {of({2, 3, 5, 6, 7}, torch::kLong), of({2, 4, 5, 6, 3}, torch::kLong)},
               {of({0, 3, 5, 6, 7}, torch::kLong), of({0, 4, 5, 6, 3}, torch::kLong)},
               {of({0, 3, 5, 6, 7}), of({0, 4, 5, 6, 3}, torch::kDouble)}});
  check_cases({FXX_CASE(torch::max_unpool2d(std::get<0>(torch::max_pool2d_with_indices(t[0], 2)),
                                            std::get<1>(torch::max_pool2d_with_indices(t[0], 2)), {9, 7}))},
              alone({image, image[0], image.contiguous(at::MemoryFormat::ChannelsLast)}));
  check_cases({FXX_CASE(torch::max_unpool3d(std::get<0>(torch::max_pool3d_with_indices(t[0], 2)),
                                            std::get<1>(torch::max_pool3d_with_indices(t[0], 2)), {5, 6, 7}, {2, 2, 2},
                                            {0, 0, 0}))},
              alone({volume, volume[0]}));
}

TEST_CASE("normalisations give the same form in training and evaluation, with statistics or none, in any dtype") {
  for (const Tensor& shape :
       {of({4, 3}), of({4, 3, 5}), of({2, 3, 5, 7}), of({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast),
        of({2, 3, 2, 2, 2}), of({5, 2, 3}).permute({1, 2, 0}), of({3})})
    for (at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kBFloat16})
      for (bool training : {false, true})
        for (bool statistics : {false, true})
          for (bool affine : {false, true}) {
            const Tensor x = shape.to(type).set_requires_grad(affine),
                         ones = of({3}, type == torch::kBFloat16 ? torch::kFloat : type);
            check_same("batch_norm",
                       [=](const Tensors& t) -> c10::IValue {
                         return torch::batch_norm(t[0], t[1], t[1], t[2], t[2].defined() ? t[2].clone() : t[2],
                                                  training, 0.1, 1e-5, true);
                       },
                       {x, affine ? ones : Tensor(), statistics ? ones : Tensor()});
            if (training || statistics)
              check_same("native_batch_norm",
                         [=](const Tensors& t) {
                           return all_of(torch::native_batch_norm(t[0], t[1], t[1], t[2], t[2], training, 0.1, 1e-5));
                         },
                         {x, affine ? ones : Tensor(), statistics ? ones : Tensor()});
            check_same("instance_norm",
                       [=](const Tensors& t) -> c10::IValue {
                         return torch::instance_norm(t[0], t[1], t[1], {}, {}, true, 0.1, 1e-5, true);
                       },
                       {x, affine ? ones : Tensor()});
            check_same("group_norm",
                       [](const Tensors& t) -> c10::IValue { return torch::group_norm(t[0], 3, t[1], t[1]); },
                       {x, affine ? ones : Tensor()});
            check_same("group_norm", [](const Tensors& t) -> c10::IValue { return torch::group_norm(t[0], 2); }, {x});
          }
  const Tensor x = of({2, 3, 4, 5});
  for (const Tensor& t :
       {x, x.transpose(1, 2), x.to(torch::kBFloat16), x.to(torch::kLong), x.contiguous(at::MemoryFormat::ChannelsLast)})
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{5}, {4, 5}, {3, 4, 5}, {4}, {}}) {
      check_same("native_layer_norm",
                 [=](const Tensors& in) { return all_of(torch::native_layer_norm(in[0], shape, {}, {}, 1e-5)); }, {t});
      check_same("layer_norm",
                 [=](const Tensors& in) -> c10::IValue { return torch::layer_norm(in[0], shape, in[1], in[1]); },
                 {t, of(shape, t.scalar_type())});
      check_same("rms_norm", [=](const Tensors& in) -> c10::IValue { return torch::rms_norm(in[0], shape); }, {t});
    }
}

// --- attention, recurrence -----------------------------------------------------------------------------------------

TEST_CASE("attention and recurrent layers give the same form") {
  const Tensor q = of({2, 4, 6, 8}), k = of({2, 4, 9, 8});
  std::vector<Tensors> inputs = {{q, k, Tensor()},
                                 {q, k, of({6, 9})},
                                 {q.transpose(1, 2), q.transpose(1, 2), Tensor()},
                                 {of({2, 6, 4, 8}).transpose(1, 2), k, Tensor()},
                                 {q[0], k[0], Tensor()},
                                 {q, k, torch::ones({2, 1, 6, 9}, torch::kBool)},
                                 {q.to(torch::kBFloat16), k.to(torch::kBFloat16), Tensor()},
                                 {q.to(torch::kDouble), k.to(torch::kDouble), Tensor()},
                                 {of({2, 4, 0, 8}), k, Tensor()},
                                 {q, of({2, 4, 9, 7}), Tensor()},
                                 {of({1, 1, 1, 8}), of({1, 1, 1, 8}), Tensor()}};
  for (const Tensors& in : std::vector<Tensors>(inputs))
    inputs.push_back(
        {in[0].detach().clone().set_requires_grad(true), in[1].detach().clone().set_requires_grad(true), in[2]});
  const auto with_gradients = [](const Tensors& t, const Tensor& y) {
    if (!y.requires_grad()) return all_of({y});
    const auto gradients = torch::autograd::grad({y}, {t[0], t[1]}, {torch::ones_like(y)});
    return all_of({y, gradients[0], gradients[1]});
  };
  for (const Tensors& in : inputs)
    for (bool causal : {false, true})
      check_same(
          "scaled_dot_product_attention",
          [=](const Tensors& t) {
            return with_gradients(t, torch::scaled_dot_product_attention(
                                         t[0], t[1], t[1], t[2].defined() && !causal ? t[2] : Tensor(), 0, causal));
          },
          in);
  for (bool batch_first : {false, true})
    for (bool bidirectional : {false, true})
      for (bool bias : {false, true})
        for (at::ScalarType type : {torch::kFloat, torch::kDouble})
          for (const Tensor& x : {of({3, 5, 4}, type), of({1, 1, 4}, type), of({5, 4}, type), of({3, 5, 6}, type)}) {
            tnn::LSTM lstm(
                tnn::LSTMOptions(4, 6).num_layers(2).bidirectional(bidirectional).batch_first(batch_first).bias(bias));
            tnn::GRU gru(
                tnn::GRUOptions(4, 6).num_layers(2).bidirectional(bidirectional).batch_first(batch_first).bias(bias));
            tnn::RNN rnn(tnn::RNNOptions(4, 6).bidirectional(bidirectional).batch_first(batch_first).bias(bias));
            lstm->to(type), gru->to(type), rnn->to(type);
            const torch::NoGradGuard no_grad;
            check_same("LSTM",
                       [=](const Tensors& t) mutable {
                         const auto [y, state] = lstm->forward(t[0]);
                         return all_of({y, std::get<0>(state), std::get<1>(state)});
                       },
                       {x});
            check_same("GRU", [=](const Tensors& t) mutable { return all_of(gru->forward(t[0])); }, {x});
            check_same("RNN", [=](const Tensors& t) mutable { return all_of(rnn->forward(t[0])); }, {x});
          }
  const Tensor w = of({24, 4}).set_requires_grad(true), r = of({24, 6}).set_requires_grad(true),
               b = of({24}).set_requires_grad(true);
  check_same("lstm, backward",
             [](const Tensors& t) {
               const Tensor y = std::get<0>(
                   torch::lstm(t[0], {t[4], t[4]}, {t[1], t[2], t[3], t[3]}, true, 1, 0., true, false, false));
               const auto gradients = torch::autograd::grad({y}, {t[1], t[2], t[3]}, {torch::ones_like(y)});
               return all_of({y, gradients[0], gradients[1], gradients[2]});
             },
             {of({3, 5, 4}), w, r, b, of({1, 5, 6})});
  check_same("lstm_cell",
             [](const Tensors& t) {
               return all_of(torch::lstm_cell(t[0], {t[4], t[4]}, t[1], t[2], t[3], t[3]));
             },
             {of({5, 4}), w, r, b, of({5, 6})});
  // Lengths are read, so they stay real.
  const Tensor lengths = torch::tensor({5, 3, 2});
  check_same("pack_padded_sequence",
             [=](const Tensors& t) {
               const auto packed = tnn::utils::rnn::pack_padded_sequence(t[0], lengths);
               CHECK(!is_fake(packed.batch_sizes()));
               return all_of({packed.data(), std::get<0>(tnn::utils::rnn::pad_packed_sequence(packed))});
             },
             {of({5, 3, 4})});
  tnn::TransformerEncoderLayer encoder(tnn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16));
  tnn::MultiheadAttention attention(8, 2);
  check_same("TransformerEncoderLayer", [=](const Tensors& t) mutable -> c10::IValue { return encoder->forward(t[0]); },
             {of({5, 3, 8})});
  check_same("MultiheadAttention",
             [=](const Tensors& t) mutable { return all_of(attention->forward(t[0], t[0], t[0])); }, {of({5, 3, 8})});
}

// --- losses, linear algebra, Fourier transforms --------------------------------------------------------------------

TEST_CASE("losses give the same form, forward and backward") {
  const auto backward = [](const Tensors& t, const Tensor& y) {
    const auto gradients = torch::autograd::grad({y}, {t[0]}, {torch::ones_like(y)});
    return all_of({y, gradients[0]});
  };
  const Tensor classes = torch::tensor({1, 0, 2});
  std::vector<Tensors> inputs = {{of({3, 4}), classes},
                                 {of({3, 4}, torch::kDouble), classes},
                                 {of({4, 3}).t(), classes},
                                 {of({4}), torch::tensor(2)},
                                 {of({3, 4}), of({3, 4})},
                                 {of({3, 4}), torch::tensor({1, 0})},
                                 {of({3, 4, 2, 5}), torch::zeros({3, 2, 5}, torch::kLong)},
                                 {of({3, 4, 6}), torch::zeros({3, 6}, torch::kLong)},
                                 {of({3, 4}), torch::zeros({3, 4}, torch::kLong)},
                                 {of({0, 4}), torch::zeros({0}, torch::kLong)}};
  for (Tensors& in : inputs) in[0] = in[0].detach().set_requires_grad(true);
  for (std::int64_t reduction : {0, 1, 2}) {
    const std::vector<Case> cases = {
        {"cross_entropy",
         [=](const Tensors& t) { return backward(t, torch::cross_entropy_loss(t[0], t[1], {}, reduction)); }},
        {"nll_loss_nd", [=](const Tensors& t) { return backward(t, torch::nll_loss_nd(t[0], t[1], {}, reduction)); }},
        {"multi_margin_loss",
         [=](const Tensors& t) { return backward(t, torch::multi_margin_loss(t[0], t[1], 1, 1, {}, reduction)); }},
        {"multilabel_margin_loss",
         [=](const Tensors& t) { return backward(t, torch::multilabel_margin_loss(t[0], t[1], reduction)); }},
        {"mse_loss", [=](const Tensors& t) { return backward(t, torch::mse_loss(t[0], t[1], reduction)); }},
        {"l1_loss", [=](const Tensors& t) { return backward(t, torch::l1_loss(t[0], t[1], reduction)); }},
        {"smooth_l1_loss", [=](const Tensors& t) { return backward(t, torch::smooth_l1_loss(t[0], t[1], reduction)); }},
        {"huber_loss", [=](const Tensors& t) { return backward(t, torch::huber_loss(t[0], t[1], reduction)); }},
        {"binary_cross_entropy",
         [=](const Tensors& t) {
           return backward(t, torch::binary_cross_entropy(t[0].sigmoid(), t[1].sigmoid(), {}, reduction));
         }},
        {"binary_cross_entropy_with_logits",
         [=](const Tensors& t) {
           return backward(t, torch::binary_cross_entropy_with_logits(t[0], t[1], {}, {}, reduction));
         }},
        {"kl_div", [=](const Tensors& t) { return backward(t, torch::kl_div(t[0], t[1], reduction)); }},
        {"soft_margin_loss",
         [=](const Tensors& t) { return backward(t, torch::soft_margin_loss(t[0], t[1], reduction)); }}};
    check_cases(cases, inputs);
    check_same("ctc_loss",
               [=](const Tensors& t) {
                 return backward(t, torch::ctc_loss(t[0].log_softmax(2), t[1], at::IntArrayRef{8, 6},
                                                    at::IntArrayRef{3, 2}, 0, reduction));
               },
               {of({8, 2, 5}).set_requires_grad(true), torch::randint(1, 5, {2, 3})});
    check_same("ctc_loss, refused",
               [=](const Tensors& t) {
                 return backward(t, torch::ctc_loss(t[0].log_softmax(2), t[1], at::IntArrayRef{9, 6},
                                                    at::IntArrayRef{3, 2}, 0, reduction));
               },
               {of({8, 2, 5}).set_requires_grad(true), torch::randint(1, 5, {2, 3})});
  }
}

TEST_CASE("losses refuse the dtypes that they refuse for real tensors, with elements and without") {
  std::vector<Tensors> inputs, targets;
  for (const std::int64_t count : {3, 0})
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kLong})
      for (const auto target : {torch::kLong, torch::kInt, torch::kByte, torch::kFloat})
        for (const auto weight : {torch::kFloat, torch::kDouble})
          inputs.push_back({of({count, 4, 2, 5}, type), torch::zeros({count, 2, 5}, target), of({4}, weight)});
  check_cases(
      {FXX_CASE(all_of(torch::nll_loss2d_forward(t[0], t[1], t[2], 0, -100))),
       FXX_CASE(all_of(torch::nll_loss2d_forward(t[0], t[1], t[2], 1, -100))),
       FXX_CASE(all_of(torch::nll_loss2d_forward(t[0], t[1], {}, 0, -100))),
       FXX_CASE(all_of(torch::nll_loss2d_forward(t[0], t[1], {}, 2, -100))),
       FXX_CASE(torch::multi_margin_loss(t[0].select(3, 0).select(2, 0), t[1].select(2, 0).select(1, 0), 1, 1, t[2])),
       FXX_CASE(torch::multi_margin_loss(t[0].select(3, 0).select(2, 0), t[1].select(2, 0).select(1, 0))),
       FXX_CASE(all_of(torch::multilabel_margin_loss_forward(t[0].select(3, 0).select(2, 0),
                                                             t[1].flatten(1).slice(1, 0, 4), 1)))},
      inputs);
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16})
    for (const auto target : {torch::kLong, torch::kInt, torch::kShort, torch::kByte, torch::kFloat})
      targets.push_back({of({8, 2, 5}, type), torch::ones({2, 3}, target)});
  check_cases({FXX_CASE(all_of(torch::_ctc_loss(t[0], t[1], at::IntArrayRef{8, 6}, at::IntArrayRef{3, 2})))}, targets);
}

TEST_CASE("products, distances and factorisations give the same form") {
  const Tensor square = torch::eye(4) + of({4, 4}) * 0.01, batch = square.expand({2, 3, 4, 4}).contiguous();
  std::vector<Tensors> pairs_of_matrices = {{of({3, 4}), of({4, 5})},
                                            {of({4, 3}).t(), of({5, 4}).t()},
                                            {of({4}), of({4})},
                                            {of({2, 3, 4}), of({4, 5})},
                                            {of({2, 3, 4}), of({2, 4, 5})},
                                            {of({3, 4}), of({4})},
                                            {of({2, 1, 3, 4}), of({5, 4, 6})},
                                            {of({0, 4}), of({4, 5})},
                                            {of({3, 4}), of({3, 5})},
                                            {of({3, 4}, torch::kHalf), of({4, 5}, torch::kHalf)},
                                            {of({3, 4}, torch::kLong), of({4, 5}, torch::kLong)},
                                            {of({3, 4}), of({4, 5}, torch::kDouble)},
                                            {of({}), of({4})}};
  check_cases(
      {FXX_THEIRS(torch::matmul(t[0], t[1])), FXX_THEIRS(torch::mm(t[0], t[1])), FXX_THEIRS(torch::bmm(t[0], t[1])),
       FXX_THEIRS(torch::mv(t[0], t[1])), FXX_CASE(torch::dot(t[0], t[1])), FXX_CASE(torch::vdot(t[0], t[1])),
       FXX_THEIRS(torch::linear(t[0], t[1].t())), FXX_CASE(torch::outer(t[0], t[1])), FXX_CASE(torch::kron(t[0], t[1])),
       FXX_THEIRS(torch::addmm(t[0].new_zeros({5}), t[0], t[1])),
       FXX_CASE(torch::addbmm(t[0].new_zeros({}), t[0], t[1])), FXX_THEIRS(torch::einsum("ij,jk->ik", {t[0], t[1]})),
       FXX_THEIRS(torch::tensordot(t[0], t[1], {-1}, {0}))},
      pairs_of_matrices);
  check_cases(
      {FXX_CASE(torch::cdist(t[0], t[1])), FXX_CASE(torch::cdist(t[0], t[1], 1.5)), FXX_CASE(torch::pdist(t[0])),
       FXX_CASE(torch::cosine_similarity(t[0], t[1], -1)), FXX_CASE(torch::pairwise_distance(t[0], t[1]))},
      {{of({3, 4}), of({3, 4})},
       {of({2, 3, 4}), of({5, 4})},
       {of({3, 4}), of({3, 5})},
       {of({4}), of({4})},
       {of({1, 4}), of({1, 4})},
       {of({0, 4}), of({0, 4})}});
  check_cases({FXX_THEIRS(torch::linalg_cholesky(t[0])),
               FXX_THEIRS(torch::cholesky(t[0].matmul(t[0].mT()))),
               FXX_THEIRS(torch::linalg_inv(t[0])),
               FXX_THEIRS(all_of(torch::linalg_eigh(t[0]))),
               FXX_THEIRS(all_of(torch::linalg_eig(t[0]))),
               FXX_CASE(torch::linalg_eigvals(t[0])),
               FXX_THEIRS(all_of(torch::linalg_qr(t[0]))),
               FXX_THEIRS(all_of(torch::linalg_svd(t[0], false))),
               FXX_THEIRS(torch::linalg_det(t[0])),
               FXX_CASE(torch::matrix_exp(t[0])),
               FXX_THEIRS(torch::linalg_solve(t[0], t[0])),
               FXX_CASE(all_of(torch::geqrf(t[0]))),
               FXX_CASE(torch::linalg_solve_triangular(t[0], t[0], true)),
               FXX_THEIRS(torch::linalg_pinv(t[0])),
               FXX_CASE(torch::linalg_householder_product(t[0], t[0].select(-1, 0).slice(-1, 0, t[0].size(-1)))),
               FXX_CASE(torch::cholesky_inverse(t[0])),
               FXX_THEIRS(torch::cholesky_solve(t[0], t[0])),
               FXX_THEIRS(all_of(torch::linalg_slogdet(t[0]))),
               FXX_CASE(std::get<0>(torch::linalg_lstsq(t[0], t[0], {}, "gels"))),
               FXX_THEIRS(all_of(torch::linalg_lu_factor(t[0]))),
               FXX_CASE(torch::ormqr(t[0], t[0].select(-1, 0), t[0]))},
              alone({square, batch, square.t(), square.to(torch::kDouble), of({4, 3}), of({2, 5, 3}), of({3, 5}),
                     of({0, 4, 4}), of({4}), square.to(torch::kLong), square.to(torch::kComplexFloat)}));
}

TEST_CASE("Fourier transforms give the same form") {
  const std::vector<Case> cases = {
      FXX_CASE(torch::fft_fft(t[0])),     FXX_CASE(torch::fft_fft(t[0], {}, 0)),
      FXX_CASE(torch::fft_rfft(t[0])),    FXX_CASE(torch::fft_rfft(t[0], 9, 0)),
      FXX_CASE(torch::fft_irfft(t[0])),   FXX_CASE(torch::fft_irfft(t[0], 7, 0)),
      FXX_CASE(torch::fft_fft2(t[0])),    FXX_CASE(torch::fft_rfftn(t[0])),
      FXX_CASE(torch::fft_irfftn(t[0])),  FXX_CASE(torch::fft_fftn(t[0], {}, {{0, -1}})),
      FXX_CASE(torch::fft_ifft(t[0], 3)), FXX_CASE(torch::fft_fftshift(t[0])),
      FXX_CASE(torch::fft_hfft(t[0])),    FXX_CASE(torch::fft_irfftn(t[0], {}, {{-1, 0}}))};
  for (at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kLong, torch::kComplexFloat})
    for (const Case& c : cases)
      for (const Tensor& t : awkward(type))  // MKL refuses empty batches
        if (t.numel() > 0) check_same(std::string(c.name) + " " + c10::toString(type), c.f, {t}, c.checked);
  check_cases({FXX_CASE(torch::stft(t[0], 8, 4, 8, torch::ones({8}), false, true, true)),
               FXX_CASE(torch::stft(t[0], 16, {}, {}, {}, false, std::optional<bool>(), true))},
              alone({of({40}), of({2, 40})}));
}

// --- in place, out= ------------------------------------------------------------------------------------------------

TEST_CASE("operators in place change sizes and strides as for real tensors, and give the tensor itself") {
  const std::vector<Case> cases = {FXX_CASE(t[0].add_(1)),
                                   FXX_THEIRS(t[0].relu_()),
                                   FXX_CASE(t[0].mul_(t[0])),
                                   FXX_CASE(t[0].fill_(3)),
                                   FXX_CASE(t[0].zero_()),
                                   FXX_CASE(t[0].t_()),
                                   FXX_CASE(t[0].transpose_(0, -1)),
                                   FXX_CASE(t[0].squeeze_()),
                                   FXX_CASE(t[0].unsqueeze_(0)),
                                   FXX_CASE(t[0].resize_({5, 4})),
                                   FXX_THEIRS(t[0].copy_(torch::ones({1}))),
                                   FXX_THEIRS(t[0].uniform_()),
                                   FXX_THEIRS(t[0].normal_()),
                                   FXX_THEIRS(t[0].bernoulli_(0.5)),
                                   FXX_CASE(t[0].as_strided_({1}, {1})),
                                   FXX_THEIRS(t[0].clamp_(0, 1)),
                                   FXX_CASE(t[0].add_(torch::ones({9, 9, 9}))),
                                   FXX_CASE(t[0].masked_fill_(t[0] > 1, 2)),
                                   FXX_CASE(t[0].index_fill_(0, torch::tensor({0}), 2)),
                                   FXX_THEIRS(t[0].random_(5)),
                                   FXX_CASE(t[0].floor_divide_(2)),
                                   FXX_CASE(t[0].logical_not_()),
                                   FXX_CASE(t[0].swapaxes_(0, -1)),
                                   FXX_CASE(t[0].set_(torch::ones({2, 2}))),
                                   FXX_CASE(t[0].resize_as_(torch::ones({3, 3}))),
                                   FXX_CASE(t[0].exp_().add_(t[0])),
                                   FXX_CASE(t[0].slice(0, 0, 1).fill_(1)),
                                   FXX_THEIRS(t[0].index_put_({torch::tensor({0})}, torch::tensor(2.f))),
                                   FXX_THEIRS(t[0].cumsum_(0)),
                                   FXX_CASE(t[0].tril_()),
                                   FXX_THEIRS(t[0].exponential_()),
                                   FXX_THEIRS(t[0].logit_()),
                                   FXX_CASE(t[0].abs_()),
                                   FXX_THEIRS(t[0].floor_divide_(t[0]))};
  // set_ takes the memory of a tensor, which has to be fake as well.
  for (const Case& c : cases)
    for (const Tensor& t : awkward()) {
      const bool shares = std::string(c.name).find("set_(") != std::string::npos &&
                          std::string(c.name).find("resize") == std::string::npos;
      if (!shares) check_same(c.name, c.f, {t}, c.checked);
      if (shares || t.dim() == 0) continue;
      const Tensor fake = fake_like(t);
      const Outcome given = outcome_of(c.f, {fake});
      if (given.form != "throws\n" && std::string(c.name).find("slice") == std::string::npos)
        CHECK(given.tensors[0].is_same(fake));
    }
  check_cases({FXX_CASE(t[0].set_(t[1]))}, {{of({2, 3}), of({4, 5}).t()}, {of({0}), of({7})}});
  const Tensor a = fake_like(of({2, 3})), b = fake_like(of({4}));
  a.set_(b);
  CHECK(a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl());
  b.resize_({9, 9});
  CHECK(a.storage().nbytes() == 81 * 4);
}

TEST_CASE("out= takes the result's size, keeps its strides when it fits, and is refused in another dtype") {
  const auto out_cases =
      [](at::ScalarType type) {
        return std::vector<std::pair<const char*, std::function<Tensor(Tensor&, const Tensor&)>>>{
            {"abs", [](Tensor& o, const Tensor& t) { return torch::abs_out(o, t); }},
            {"add", [](Tensor& o, const Tensor& t) { return torch::add_out(o, t, t); }},
            {"logical_and", [](Tensor& o, const Tensor& t) { return torch::logical_and_out(o, t, t); }},
            {"index_select",
             [](Tensor& o, const Tensor& t) {
               return torch::index_select_out(o, t, 0, torch::tensor({1, 0, 1}));
             }},
            {"adaptive_avg_pool2d",
             [](Tensor& o, const Tensor& t) { return torch::adaptive_avg_pool2d_out(o, t, {2, 2}); }},
            {"nansum", [](Tensor& o, const Tensor& t) { return torch::nansum_out(o, t, {0}); }},
            {"std", [](Tensor& o, const Tensor& t) { return torch::std_out(o, t, {0}); }},
            {"take", [](Tensor& o, const Tensor& t) { return torch::take_out(o, t, torch::tensor({{1, 0}})); }},
            {"where", [](Tensor& o, const Tensor& t) { return torch::where_out(o, t > 0, t, t); }},
            {"im2col",
             [](Tensor& o, const Tensor& t) { return torch::im2col_out(o, t, {2, 2}, {1, 1}, {0, 0}, {1, 1}); }},
            {"reflection_pad2d",
             [](Tensor& o, const Tensor& t) { return torch::reflection_pad2d_out(o, t, {1, 1, 1, 1}); }},
            {"hardswish", [](Tensor& o, const Tensor& t) { return torch::hardswish_out(o, t); }},
            {"max", [](Tensor& o, const Tensor& t) { return torch::max_out(o, t); }}};
        (void)type;
      };
  const torch::NoGradGuard no_grad;
  std::map<std::string, int> compared;  // of these four tensors
  for (const Tensor& t :
       {of({2, 3, 5, 7}), of({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast), of({3, 4, 5}), of({})})
    for (const auto& [name, f] : out_cases(torch::kFloat)) {
      int& count = compared[name];
      Tensor none;
      try {
        none = torch::empty({0});
        none = f(none, t);
      } catch (const std::exception&) {
        continue;
      }
      ++count;
      const Tensor turned = none.dim() > 1 ? torch::empty_like(none.transpose(0, 1).contiguous()).transpose(0, 1)
                                           : torch::empty_like(none);
      for (const Tensor& out : {torch::empty({0}), torch::empty_like(none), turned, torch::empty({3, 3}),
                                torch::empty({0}, torch::kLong), torch::empty({0}, torch::kDouble)}) {
        check_same(name,
                   [&, &g = f](const Tensors& in) {
                     Tensor o = in[0];
                     const Tensor result = g(o, in[1]);
                     CHECK(result.is_same(o));
                     return all_of({o});
                   },
                   {out, t});
      }
      // Real tensors are left as they are, given back, and not resized.
      Tensor real = torch::full_like(none, 7), small = torch::full({0}, 7.f);
      CHECK(f(real, fake_like(t)).is_same(real));
      CHECK((real == 7).all().item<bool>());
      if (none.sizes() != small.sizes()) {
        const Fault fault = fault_of<TraceError>([&, &g = f] { g(small, fake_like(t)); });
        CAPTURE(name);
        CHECK(fault.id == 305);
        CHECK(fault.says("would resize a real tensor"));
        CHECK(small.numel() == 0);
      }
    }
  for (const auto& [name, count] : compared) CHECK_MESSAGE(count >= 2, name, " takes ", count, " of the tensors");
}

// --- what has no rule ----------------------------------------------------------------------------------------------

/// Operators of LibTorch that a CPU can run and that nothing gives sizes for: without rule, kernel for meta tensors, or
/// parts.
std::set<std::string> without_rule() {
  using c10::DispatchKey;
  std::set<std::string> names;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !name.name.starts_with("aten::") || !op->hasKernelForDispatchKey(DispatchKey::CPU)) continue;
    bool has = fxx::detail::find_shape_rule(name) || fxx::detail::find_shape_rule_without_out(name) ||
               fxx::detail::is_data_dependent(name);
    for (DispatchKey key :
         {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
          DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeImplicitAutograd})
      has = has || op->hasKernelForDispatchKey(key);
    if (!has) names.insert(name.name.substr(6));
  }
  return names;
}

TEST_CASE("the page on fake tensors lists the operators without a rule, and no others") {
  const char* folder = std::getenv("FXX_SOURCE_DIR");
  REQUIRE(folder);
  std::ifstream file(std::string(folder) + "/docs/fake_tensors.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::size_t start = page.find("## Operators without a rule"), table = page.find("|---|", start);
  REQUIRE(table != page.npos);
  std::set<std::string> listed;
  for (std::size_t at = table; (at = page.find('`', at)) != page.npos && page.find("\n\n", table) > at;) {
    const std::size_t end = page.find('`', at + 1);
    listed.insert(page.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  CHECK(!listed.empty());
  const std::set<std::string> expected = without_rule();
  std::string missing, surplus;
  for (const std::string& name : expected)
    if (!listed.contains(name)) missing += name + " ";
  for (const std::string& name : listed)
    if (!expected.contains(name)) surplus += name + " ";
  CHECK(missing == "");
  CHECK(surplus == "");
}

}  // namespace
