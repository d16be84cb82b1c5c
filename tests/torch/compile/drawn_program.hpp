// Random programs of tensors: some hundred operators over whatever sizes come up, views that are written to, results
// that share memory, each call chosen so that LibTorch takes it and float32 tells its result from rounding.
//
// The same seed gives the same program. A program that fails is reduced to the calls that it takes to fail, as text.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "torch/compile/compiled.hpp"

namespace fxx::test {

/// A call of a program: what it gives of the values before it.
struct DrawnCall {
  std::string text;
  std::function<Tensors(const Tensors&)> run;
};
struct DrawnProgram {
  Tensors inputs;
  std::vector<std::optional<DrawnCall>> calls;  // nothing: one that was left out
  std::vector<std::size_t> results;             // how many values each call gives
  std::vector<std::size_t> returned;

  /// All values, those that were left out undefined.
  Tensors values(Tensors given) const {
    for (std::size_t k = 0; k < calls.size(); ++k)
      if (calls[k]) {
        const Tensors more = calls[k]->run(given);
        if (more.size() != results[k]) throw std::runtime_error("another number of results");
        given.insert(given.end(), more.begin(), more.end());
      } else {
        given.resize(given.size() + results[k]);
      }
    return given;
  }
  Tensors operator()(Tensors given) const {
    const Tensors all = values(std::move(given));
    Tensors out;
    for (std::size_t k : returned) {
      if (!all[k].defined()) throw std::runtime_error("a value that was left out");
      out.push_back(all[k]);
    }
    return out;
  }
  std::string text() const {
    std::string out;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      out += c10::str("v", k, " = input ", inputs[k].scalar_type(), inputs[k].sizes(), "\n");
    std::size_t first = inputs.size();
    for (std::size_t k = 0; k < calls.size(); first += results[k++])
      if (calls[k]) {
        out += c10::str("v", first);
        if (results[k] != 1) out += c10::str("..v", first + results[k] - 1);
        out += " = " + calls[k]->text + "\n";
      }
    out += "return";
    for (std::size_t k : returned) out += c10::str(" v", k);
    return out + "\n";
  }
};

/// Draws programs. Weights are parameters of `net`, whose function is the program.
class ProgramDrawer {
 public:
  ProgramDrawer(std::uint64_t seed, Net& net) : random_(seed), net_(net) { torch::manual_seed(seed); }

  DrawnProgram draw(std::size_t length) {
    const torch::NoGradGuard no_grad;
    const auto size = [&] { return static_cast<std::int64_t>(1 + random_.below(random_.chance(4) ? 17 : 6)); };
    const std::int64_t n = size(), c = size(), h = size(), w = size();
    program_.inputs = {torch::randn({n, c, h, w}), torch::randn({h, w})};
    if (random_.chance(2)) program_.inputs.push_back(torch::randn({n, h, c * 2}));
    if (random_.chance(3)) program_.inputs.push_back(torch::randint(-5, 9, {n, w}, torch::kLong));
    if (random_.chance(3)) program_.inputs.push_back(torch::randn({n, c, h, w}) > 0.3);
    if (random_.chance(4)) program_.inputs.push_back(torch::randn({}));
    refresh();
    for (std::size_t tries = 0; program_.calls.size() < length && tries < 12 * length; ++tries) {
      std::optional<DrawnCall> call;
      try {
        call = drawn();
        if (!call) continue;
        program_.results.push_back(call->run(values_).size());
      } catch (const std::exception&) {
        refresh();
        continue;
      }
      program_.calls.push_back(std::move(call));
      if (!refresh()) {
        program_.calls.pop_back();
        program_.results.pop_back();
        refresh();
      }
    }
    for (std::size_t k = 1 + random_.below(5); k > 0; --k) program_.returned.push_back(recent());
    program_.returned.push_back(values_.size() - 1);
    return program_;
  }

 private:
  /// Runs what there is in float32 and in double precision; false where results differ by more than rounding does.
  bool refresh() {
    try {
      values_ = program_.values(cloned(program_.inputs));
      net_.function = [&](const Tensors& in) { return all_of(program_.values(in)); };
      const Tensors exact = in_double(net_, program_.inputs);
      for (std::size_t k = 0; k < values_.size(); ++k) {
        const Tensor& value = values_[k];
        if (value.numel() > 20000 || value.numel() == 0 || value.dim() > 5) return false;
        if (!value.is_floating_point()) {
          if (!torch::equal(value, exact[k])) return false;
          if (value.scalar_type() == torch::kLong && value.abs().max().item<std::int64_t>() > 100000) return false;
          continue;
        }
        if (!value.isfinite().all().item<bool>() || value.abs().max().item<double>() > 1e4) return false;
        if (relative_difference(value.to(torch::kDouble), exact[k].to(torch::kDouble)) > 1e-5) return false;
      }
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  // --- what is chosen ------------------------------------------------------------------------------------------------
  std::int64_t number(std::int64_t from, std::int64_t to) {  // both included
    return from + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(to - from + 1)));
  }
  double real() { return static_cast<double>(number(-12, 12)) / 8; }
  /// The last values more often than the first.
  std::size_t recent() {
    const std::size_t all = values_.size();
    return random_.chance(3) ? random_.below(all) : all - 1 - random_.below(std::min<std::size_t>(5, all));
  }
  template <class Holds>
  std::optional<std::size_t> such(Holds holds) {
    for (int k = 0; k < 12; ++k)
      if (const std::size_t at = recent(); holds(values_[at])) return at;
    return std::nullopt;
  }
  std::optional<std::size_t> floats() {
    return such([](const Tensor& t) { return t.is_floating_point(); });
  }
  std::optional<std::size_t> floats(std::int64_t least, std::int64_t most = 9) {
    return such(
        [=](const Tensor& t) { return t.scalar_type() == torch::kFloat && t.dim() >= least && t.dim() <= most; });
  }
  /// One that this goes together with.
  std::optional<std::size_t> beside(std::size_t x, bool into = false) {
    return such([&](const Tensor& t) {
      const Tensor& to = values_[x];
      if (into && (t.dim() > to.dim() || t.storage().is_alias_of(to.storage()))) return false;
      for (std::int64_t d = 1; d <= std::min(t.dim(), to.dim()); ++d)
        if (t.size(-d) != to.size(-d) && t.size(-d) != 1 && (into || to.size(-d) != 1)) return false;
      return true;
    });
  }
  std::int64_t dimension(std::size_t x) {
    const std::int64_t rank = std::max<std::int64_t>(values_[x].dim(), 1);
    return number(-rank, rank - 1);
  }
  std::int64_t size(std::size_t x, std::int64_t d) { return values_[x].dim() == 0 ? 1 : values_[x].size(d); }
  std::vector<std::int64_t> dimensions(std::size_t x) {
    std::vector<std::int64_t> dims;
    for (std::int64_t d = 0; d < values_[x].dim(); ++d)
      if (random_.chance(2)) dims.push_back(random_.chance(2) ? d : d - values_[x].dim());
    if (dims.empty()) dims.push_back(values_[x].dim() == 0 ? 0 : dimension(x));
    if (random_.chance(3)) std::reverse(dims.begin(), dims.end());
    return dims;
  }
  Tensor weight(at::IntArrayRef sizes, std::int64_t inner) {
    return net_.parameter(sizes, 1 / std::sqrt(static_cast<double>(inner)));
  }

  static std::string v(std::size_t k) { return "v" + std::to_string(k); }
  template <class F>
  static DrawnCall one(std::string text, F f) {
    return {std::move(text), [f](const Tensors& v) { return Tensors{f(v)}; }};
  }

  std::optional<DrawnCall> drawn() {
    switch (random_.below(15)) {
      case 12: return rare();
      case 13: return module();
      case 14: return whole_number();
      case 0:
      case 1: return unary();
      case 2:
      case 3: return binary();
      case 4: return reduction();
      case 5:
      case 6: return view();
      case 7: return list();
      case 8: return random_.chance(2) ? writing() : std::nullopt;
      case 9: return product();
      case 10: return image();
      default: return other();
    }
  }

  std::optional<DrawnCall> unary() {
    struct Unary {
      const char* name;
      Tensor (*f)(const Tensor&);
    };
    static const Unary all[] = {
        {"relu", [](const Tensor& x) { return x.relu(); }},
        {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }},
        {"tanh", [](const Tensor& x) { return x.tanh(); }},
        {"abs", [](const Tensor& x) { return x.abs(); }},
        {"neg", [](const Tensor& x) { return -x; }},
        {"exp of clamp", [](const Tensor& x) { return x.clamp(-4, 4).exp(); }},
        {"sin", [](const Tensor& x) { return x.sin(); }},
        {"cos", [](const Tensor& x) { return x.cos(); }},
        {"square", [](const Tensor& x) { return x.square(); }},
        {"sqrt(abs + 0.1)", [](const Tensor& x) { return (x.abs() + 0.1).sqrt(); }},
        {"rsqrt(square + 0.5)", [](const Tensor& x) { return (x * x + 0.5).rsqrt(); }},
        {"1 / (abs + 0.5)", [](const Tensor& x) { return 1 / (x.abs() + 0.5); }},
        {"erf", [](const Tensor& x) { return x.erf(); }},
        {"gelu", [](const Tensor& x) { return torch::gelu(x); }},
        {"gelu tanh", [](const Tensor& x) { return torch::gelu(x, "tanh"); }},
        {"gelu by hand", [](const Tensor& x) { return x * 0.5 * (1 + (x / std::sqrt(2.)).erf()); }},
        {"silu", [](const Tensor& x) { return torch::silu(x); }},
        {"silu by hand", [](const Tensor& x) { return x * x.sigmoid(); }},
        {"hardswish", [](const Tensor& x) { return torch::hardswish(x); }},
        {"hardsigmoid", [](const Tensor& x) { return torch::hardsigmoid(x); }},
        {"hardtanh", [](const Tensor& x) { return torch::hardtanh(x, -0.5, 0.75); }},
        {"relu6", [](const Tensor& x) { return torch::relu6(x); }},
        {"leaky_relu", [](const Tensor& x) { return torch::leaky_relu(x, 0.2); }},
        {"elu", [](const Tensor& x) { return torch::elu(x, 1.5); }},
        {"softplus", [](const Tensor& x) { return torch::softplus(x); }},
        {"mish", [](const Tensor& x) { return torch::mish(x); }},
        {"log1p(abs)", [](const Tensor& x) { return x.abs().log1p(); }},
        {"clamp", [](const Tensor& x) { return x.clamp(-0.5, 0.75); }},
        {"clamp_min", [](const Tensor& x) { return x.clamp_min(0.25); }},
        {"clone", [](const Tensor& x) { return x.clone(); }},
        {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
        {"x * 0.5", [](const Tensor& x) { return x * 0.5; }},
        {"x + 1", [](const Tensor& x) { return x + 1; }},
        {"1 - x", [](const Tensor& x) { return 1 - x; }},
        {"x / 3", [](const Tensor& x) { return x / 3; }},
        {"pow 2", [](const Tensor& x) { return x.pow(2); }},
        {"pow 3", [](const Tensor& x) { return x.pow(3); }},
        {"x + x", [](const Tensor& x) { return x + x; }},
        {"x * x", [](const Tensor& x) { return x * x; }},
        {"detach", [](const Tensor& x) { return x.detach(); }},
        {"dropout", [](const Tensor& x) { return torch::dropout(x, 0.5, false); }},
        {"zeros_like + x", [](const Tensor& x) { return torch::zeros_like(x) + x; }},
        {"x * ones", [](const Tensor& x) { return x * torch::ones({1}, x.options()); }},
        {"log_sigmoid", [](const Tensor& x) { return torch::log_sigmoid(x); }},
        {"cumsum", [](const Tensor& x) { return x.cumsum(-1); }},
        {"cumsum 0", [](const Tensor& x) { return x.cumsum(0); }},
        {"sign", [](const Tensor& x) { return x.sign(); }},
        {"floor", [](const Tensor& x) { return (x * 3).floor(); }},
    };
    const auto x = floats();
    if (!x) return std::nullopt;
    const Unary& chosen = all[random_.below(std::size(all))];
    return one(std::string(chosen.name) + "(" + v(*x) + ")",
               [x = *x, f = chosen.f](const Tensors& v) { return f(v[x]); });
  }

  std::optional<DrawnCall> binary() {
    struct Binary {
      const char* name;
      Tensor (*f)(const Tensor&, const Tensor&, double);
    };
    static const Binary all[] = {
        {"add", [](const Tensor& x, const Tensor& y, double) { return x + y; }},
        {"add alpha", [](const Tensor& x, const Tensor& y,
                         double a) { return x.add(y.to(x.scalar_type()), x.is_floating_point() ? a : 2); }},
        {"sub", [](const Tensor& x, const Tensor& y, double) { return x - y.to(x.scalar_type()); }},
        {"mul", [](const Tensor& x, const Tensor& y, double) { return x * y; }},
        {"div", [](const Tensor& x, const Tensor& y, double) { return x / (y.abs() + 0.5); }},
        {"maximum", [](const Tensor& x, const Tensor& y, double) { return torch::maximum(x, y); }},
        {"minimum", [](const Tensor& x, const Tensor& y, double) { return torch::minimum(x, y); }},
        {"atan2", [](const Tensor& x, const Tensor& y, double) { return torch::atan2(x, y.abs() + 0.5); }},
        {"where x > a", [](const Tensor& x, const Tensor& y, double a) { return torch::where(x > a, x, y); }},
        {"where y > a", [](const Tensor& x, const Tensor& y, double a) { return torch::where(y > a, x, a); }},
        {"x > a", [](const Tensor& x, const Tensor&, double a) { return x > a; }},
        {"x > y", [](const Tensor& x, const Tensor& y, double) { return x > y; }},
        {"x <= y", [](const Tensor& x, const Tensor& y, double) { return x <= y; }},
        {"lerp", [](const Tensor& x, const Tensor& y, double a) { return torch::lerp(x, y, a); }},
        {"addcmul", [](const Tensor& x, const Tensor& y, double a) { return torch::addcmul(x, y, x, a); }},
        {"masked_fill", [](const Tensor& x, const Tensor& y, double a) { return x.masked_fill(y > a, 0.25); }},
        {"pow",
         [](const Tensor& x, const Tensor& y, double) { return (x.abs() + 0.25).clamp_max(2).pow(y.clamp(-2, 2)); }},
        {"x * bool", [](const Tensor& x, const Tensor& y, double) { return x * (y > 0); }},
        {"x + int", [](const Tensor& x, const Tensor& y, double) { return x + (y * 2).to(torch::kInt); }},
        {"and", [](const Tensor& x, const Tensor& y, double a) { return (x > a).logical_and(y < a); }},
        {"xor", [](const Tensor& x, const Tensor& y, double a) { return (x > a) ^ (y > a).logical_not(); }},
        {"mse", [](const Tensor& x, const Tensor& y, double) { return (x - y.to(x.scalar_type())).square().mean(); }},
        {"cosine", [](const Tensor& x, const Tensor& y, double) { return torch::cosine_similarity(x, y, -1); }},
    };
    const auto x = such([](const Tensor&) { return true; });
    const auto y = x ? beside(*x) : x;
    if (!y) return std::nullopt;
    const Binary& chosen = all[random_.below(std::size(all))];
    const double a = real();
    return one(c10::str(chosen.name, "(", v(*x), ", ", v(*y), ", ", a, ")"),
               [x = *x, y = *y, a, f = chosen.f](const Tensors& v) { return f(v[x], v[y], a); });
  }

  std::optional<DrawnCall> reduction() {
    const auto x = floats();
    if (!x) return std::nullopt;
    const std::vector<std::int64_t> dims = dimensions(*x);
    const std::int64_t d = dims[0];
    const bool keep = random_.chance(2);
    const std::string how = c10::str("(", v(*x), ", ", at::IntArrayRef(dims), ", ", keep, ")");
    const auto of = [&](const char* name, auto f) {
      return one(name + how,
                 [x = *x, dims, keep, d, f](const Tensors& v) { return f(v[x], at::IntArrayRef(dims), keep, d); });
    };
    switch (random_.below(20)) {
      case 0:
        return of("sum", [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.sum(dims, keep); });
      case 1:
        return of("mean", [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.mean(dims, keep); });
      case 2:
        return of("amax", [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.amax(dims, keep); });
      case 3:
        return of("amin", [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.amin(dims, keep); });
      case 4:
        return of("var",
                  [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.var(dims, false, keep); });
      case 5:
        return of("std", [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) {
          return (x.var(dims, false, keep) + 0.1).sqrt();
        });
      case 6:
        return of("logsumexp",
                  [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.logsumexp(dims, keep); });
      case 7: return of("softmax", [](const Tensor& x, auto, auto, std::int64_t d) { return x.softmax(d); });
      case 8: return of("log_softmax", [](const Tensor& x, auto, auto, std::int64_t d) { return x.log_softmax(d); });
      case 9:
        return of("max.dim",
                  [](const Tensor& x, auto, bool keep, std::int64_t d) { return std::get<0>(x.max(d, keep)); });
      case 10: return of("argmax", [](const Tensor& x, auto, bool keep, std::int64_t d) { return x.argmax(d, keep); });
      case 11:
        return of("norm", [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return x.norm(2, dims, keep); });
      case 12:
        return of("any", [](const Tensor& x, auto, bool keep, std::int64_t d) { return (x > 0.5).any(d, keep); });
      case 13:
        return of("sum of bools",
                  [](const Tensor& x, at::IntArrayRef dims, bool keep, auto) { return (x > 0).sum(dims, keep); });
      case 14: return of("sum of all", [](const Tensor& x, auto...) { return x.sum(); });
      case 15: return of("mean of all", [](const Tensor& x, auto...) { return x.mean(); });
      case 16:
        return of("layer norm by hand", [](const Tensor& x, auto...) {
          const Tensor m = x.mean(-1, true);
          return (x - m) * ((x - m).square().mean(-1, true) + 1e-2).rsqrt();
        });
      case 17:
        return of("softmax by hand", [](const Tensor& x, auto, auto, std::int64_t d) {
          const Tensor e = (x - x.amax(d, true)).exp();
          return e / e.sum(d, true);
        });
      case 18:
        return of("normalize",
                  [](const Tensor& x, auto, auto, std::int64_t d) { return x / x.norm(2, {d}, true).clamp_min(0.1); });
      default:
        return of("prod",
                  [](const Tensor& x, auto, bool keep, std::int64_t d) { return x.clamp(-1.25, 1.25).prod(d, keep); });
    }
  }

  std::optional<DrawnCall> view() {
    const auto x = such([](const Tensor&) { return true; });
    if (!x) return std::nullopt;
    const std::int64_t rank = values_[*x].dim(), d = dimension(*x), e = dimension(*x), s = size(*x, d);
    const std::int64_t from = number(-s, s - 1), count = number(1, s), step = number(1, 3);
    const auto of = [&](std::string text, auto f) {
      return one(v(*x) + "." + text, [x = *x, f](const Tensors& v) { return f(v[x]); });
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random_.below(k)]);
    switch (random_.below(24)) {
      case 0: return of(c10::str("transpose(", d, ", ", e, ")"), [=](const Tensor& x) { return x.transpose(d, e); });
      case 1: return of(c10::str("permute(", order, ")"), [=](const Tensor& x) { return x.permute(order); });
      case 2:
        return of(c10::str("slice(", d, ", ", from, ", none, ", step, ")"),
                  [=](const Tensor& x) { return x.slice(d, from, std::nullopt, step); });
      case 3: return of(c10::str("select(", d, ", ", from, ")"), [=](const Tensor& x) { return x.select(d, from); });
      case 4:
        return of(c10::str("narrow(", d, ", ", count, ")"),
                  [=](const Tensor& x) { return x.narrow(d, s - count, count); });
      case 5: return of(c10::str("unsqueeze(", d, ")"), [=](const Tensor& x) { return x.unsqueeze(d); });
      case 6: return of("squeeze", [](const Tensor& x) { return x.squeeze(); });
      case 7: return of(c10::str("squeeze(", d, ")"), [=](const Tensor& x) { return x.squeeze(d); });
      case 8: return of("flatten", [](const Tensor& x) { return x.flatten(); });
      case 9:
        return of(c10::str("flatten(", std::min(d, e), ")"),
                  [=](const Tensor& x) { return x.flatten(std::min(d, e), -1); });
      case 10:
        return of(c10::str("flip(", d, ", ", e, ")"), [=](const Tensor& x) {
          return d == e ? x.flip({d}) : x.flip({d, e});
        });
      case 11: return of(c10::str("roll(", from, ", ", d, ")"), [=](const Tensor& x) { return x.roll(from, d); });
      case 12:
        return of("expand", [=](const Tensor& x) {
          std::vector<std::int64_t> sizes = x.sizes().vec();
          for (std::int64_t& size : sizes) size = size == 1 ? 3 : -1;
          sizes.insert(sizes.begin(), 2);
          return x.expand(sizes);
        });
      case 13:
        return of(c10::str("repeat ", d), [=](const Tensor& x) {
          std::vector<std::int64_t> repeats(static_cast<std::size_t>(x.dim()), 1);
          repeats.at(static_cast<std::size_t>(d < 0 ? d + x.dim() : d)) = 2;
          return x.repeat(repeats);
        });
      case 14: {
        // Two sizes that are taken apart in another way.
        std::int64_t all = values_[*x].numel(), first = 1;
        for (std::int64_t k = 2; k <= all; ++k)
          if (all % k == 0 && random_.chance(3)) {
            first = k;
            break;
          }
        return of(c10::str("reshape(", first, ", -1)"), [=](const Tensor& x) { return x.reshape({first, -1}); });
      }
      case 15: return of(c10::str("view(", s, ", -1)"), [=](const Tensor& x) { return x.view({s, -1}); });
      case 16: return of(c10::str("movedim(", d, ", ", e, ")"), [=](const Tensor& x) { return x.movedim(d, e); });
      case 17: return of("diagonal", [=](const Tensor& x) { return x.diagonal(0, -2, -1); });
      case 18:
        return of(c10::str("unfold(", d, ", ", count, ", ", step, ")"),
                  [=](const Tensor& x) { return x.unfold(d, count, step); });
      case 19:
        return of(c10::str("repeat_interleave(2, ", d, ")"),
                  [=](const Tensor& x) { return x.repeat_interleave(2, d); });
      case 20:
        return of(c10::str("unflatten(", d, ")"), [=](const Tensor& x) {
          return x.unflatten(d, {s % 2 == 0 ? 2 : 1, -1});
        });
      case 21: return of("mT", [](const Tensor& x) { return x.dim() < 2 ? x : x.mT(); });
      case 22:
        return of(c10::str("index_select(", d, ")"),
                  [=](const Tensor& x) { return x.index_select(d, torch::arange(count, torch::kLong).flip({0})); });
      default:
        return of("to channels last", [](const Tensor& x) { return x.contiguous(torch::MemoryFormat::ChannelsLast); });
    }
  }

  std::optional<DrawnCall> list() {
    const auto x = such([](const Tensor& t) { return t.dim() > 0; });
    if (!x) return std::nullopt;
    const std::int64_t d = dimension(*x), s = size(*x, d), count = number(1, std::min<std::int64_t>(s, 4));
    const auto of = [&](std::string text, auto f) {
      return DrawnCall{v(*x) + "." + text, [x = *x, f](const Tensors& v) { return f(v[x]); }};
    };
    const auto like = such([&](const Tensor& t) {
      if (t.dim() != values_[*x].dim()) return false;
      for (std::int64_t k = 0; k < t.dim(); ++k)
        if (t.size(k) != values_[*x].size(k) && k != d && k != d + t.dim()) return false;
      return true;
    });
    const std::size_t y = like.value_or(*x);
    switch (random_.below(8)) {
      case 0: return of(c10::str("chunk(", count, ", ", d, ")"), [=](const Tensor& x) { return x.chunk(count, d); });
      case 1: return of(c10::str("split(", count, ", ", d, ")"), [=](const Tensor& x) { return x.split(count, d); });
      case 2:
        return of(c10::str("tensor_split(", count, ", ", d, ")"),
                  [=](const Tensor& x) { return x.tensor_split(count, d); });
      case 3:
        if (s > 5) return std::nullopt;
        return of(c10::str("unbind(", d, ")"), [=](const Tensor& x) { return x.unbind(d); });
      case 4:
      case 5:
        return one(c10::str("cat(", v(*x), ", ", v(y), ", ", d, ")"), [x = *x, y, d](const Tensors& v) {
          return torch::cat({v[x], v[y]}, d);
        });
      case 6:
        return one(c10::str("cat(", v(y), ", ", v(*x), ", ", v(y), ", ", d, ")"), [x = *x, y, d](const Tensors& v) {
          return torch::cat({v[y], v[x], v[y]}, d);
        });
      default:
        return one(c10::str("stack(", v(*x), ", ", v(y), ", ", d, ")"), [x = *x, y, d](const Tensors& v) {
          return torch::stack({v[x], v[y]}, d);
        });
    }
  }

  std::optional<DrawnCall> writing() {
    const auto x = floats();
    const auto y = x ? beside(*x, true) : x;
    if (!y) return std::nullopt;
    const std::int64_t d = dimension(*x), s = size(*x, d), at = number(0, s - 1);
    const double a = real();
    const auto of = [&](std::string text, auto f) {
      return one(v(*x) + "." + text + "  with " + v(*y),
                 [x = *x, y = *y, f](const Tensors& v) { return f(v[x], v[y]); });
    };
    switch (random_.below(14)) {
      case 0: return of("add_(y)", [](Tensor x, const Tensor& y) { return x.add_(y); });
      case 1: return of("mul_(y)", [](Tensor x, const Tensor& y) { return x.mul_(y); });
      case 2: return of(c10::str("add_(", a, ")"), [=](Tensor x, const Tensor&) { return x.add_(a); });
      case 3: return of("relu_", [](Tensor x, const Tensor&) { return x.relu_(); });
      case 4: return of("copy_(y)", [](Tensor x, const Tensor& y) { return x.copy_(y); });
      case 5: return of(c10::str("fill_(", a, ")"), [=](Tensor x, const Tensor&) { return x.fill_(a); });
      case 6:
        return of(c10::str("select(", d, ", ", at, ").mul_(", a, ")"), [=](Tensor x, const Tensor&) {
          x.select(d, at).mul_(a);
          return x;
        });
      case 7:
        return of(c10::str("slice(", d, ", ", at, ").copy_(0.5)"), [=](Tensor x, const Tensor&) {
          x.slice(d, at).fill_(0.5);
          return x.slice(d, 0, at + 1);
        });
      case 8:
        return of(c10::str("masked_fill_(y > ", a, ")"),
                  [=](Tensor x, const Tensor& y) { return x.masked_fill_(y > a, 0.125); });
      case 9: return of("clamp_(-1, 0.5)", [=](Tensor x, const Tensor&) { return x.clamp_(-1, 0.5); });
      case 10: return of("sigmoid_", [=](Tensor x, const Tensor&) { return x.sigmoid_(); });
      case 11:
        return of("transpose.add_(row)", [=](Tensor x, const Tensor&) {
          x.transpose(-1, d).add_(torch::arange(x.size(d), x.options()) * 0.25);
          return x;
        });
      case 12: return of("zero_", [=](Tensor x, const Tensor&) { return x.zero_(); });
      default:
        return of("index_put_", [=](Tensor x, const Tensor&) {
          return x.index_put_({torch::zeros({2}, torch::kLong)}, torch::ones({}, x.options()));
        });
    }
  }

  std::optional<DrawnCall> product() {
    const auto x = floats(1);
    if (!x) return std::nullopt;
    const Tensor& t = values_[*x];
    const std::int64_t k = t.size(-1), n = number(1, random_.chance(3) ? 40 : 9);
    const auto of = [&](std::string text, auto f) {
      return one(text + "(" + v(*x) + ")", [x = *x, f](const Tensors& v) { return f(v[x]); });
    };
    switch (random_.below(12)) {
      case 0:
      case 1: {
        const Tensor w = weight({n, k}, k), b = random_.chance(3) ? Tensor() : weight({n}, 1);
        return of(c10::str("linear ", n, b.defined() ? " bias " : ""),
                  [=](const Tensor& x) { return torch::linear(x, w, b); });
      }
      case 2: {
        const Tensor w = weight({k, n}, k);
        return of(c10::str("matmul ", n), [=](const Tensor& x) { return torch::matmul(x, w); });
      }
      case 3: return of("x @ x.mT", [](const Tensor& x) { return torch::matmul(x, x.transpose(-2, -1)) / 4; });
      case 4: {
        const Tensor w = weight({k}, k);
        return of("matmul vector", [=](const Tensor& x) { return torch::matmul(x, w); });
      }
      case 5: {
        const Tensor w = weight({n, t.size(-2)}, t.size(-2));
        return of(c10::str("w matmul x ", n), [=](const Tensor& x) { return torch::matmul(w, x); });
      }
      case 6: {
        const Tensor w = weight({k, n}, k), b = weight({n}, 1);
        return of(c10::str("addmm ", n), [=](const Tensor& x) { return torch::addmm(b, x, w, 0.5, 2); });
      }
      case 7: {
        const Tensor w = weight({k}, 1), b = weight({k}, 1);
        return of("layer_norm", [=](const Tensor& x) { return torch::layer_norm(x, {x.size(-1)}, w, b, 1e-2); });
      }
      case 8: {
        const auto y =
            such([&](const Tensor& u) { return u.scalar_type() == torch::kFloat && u.dim() >= 1 && u.size(-1) == k; });
        if (!y) return std::nullopt;
        return one(c10::str("matmul(", v(*x), ", ", v(*y), ".mT)"), [x = *x, y = *y](const Tensors& v) {
          return torch::matmul(v[x], v[y].dim() < 2 ? v[y] : v[y].transpose(-2, -1)) / 4;
        });
      }
      case 9: {
        const bool causal = random_.chance(2);
        return of(c10::str("attention ", causal), [=](const Tensor& x) {
          return at::scaled_dot_product_attention(x, x * 0.5, x + 0.25, {}, 0, causal);
        });
      }
      case 10: {
        const auto y = such([&](const Tensor& u) { return u.scalar_type() == torch::kFloat && u.dim() == t.dim(); });
        if (!y || t.dim() < 3) return std::nullopt;
        return one(c10::str("attention by hand(", v(*x), ", ", v(*y), ")"), [x = *x, y = *y](const Tensors& v) {
          return torch::matmul((torch::matmul(v[x], v[y].transpose(-2, -1)) / 2).softmax(-1), v[y]);
        });
      }
      default: {
        const Tensor w = weight({k}, 1);
        return of("rms_norm", [=](const Tensor& x) { return x * (x.square().mean(-1, true) + 1e-2).rsqrt() * w; });
      }
    }
  }

  std::optional<DrawnCall> image() {
    const auto x = floats(4, 4);
    if (!x) return std::nullopt;
    const Tensor& t = values_[*x];
    const std::int64_t c = t.size(1), kernel = number(1, 3), stride = number(1, 2), padding = number(0, 1);
    const auto of = [&](std::string text, auto f) {
      return one(text + "(" + v(*x) + ")", [x = *x, f](const Tensors& v) { return f(v[x]); });
    };
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2: {
        const std::int64_t groups = random_.chance(3) ? c : 1, n = groups * number(1, 9),
                           dilation = random_.chance(4) ? 2 : 1;
        const Tensor w = weight({n, c / groups, kernel, kernel}, kernel * kernel * c / groups);
        const Tensor b = random_.chance(3) ? Tensor() : weight({n}, 1);
        return of(c10::str("conv2d ", w.sizes(), " stride ", stride, " padding ", padding, " dilation ", dilation,
                           " groups ", groups, " "),
                  [=](const Tensor& x) { return torch::conv2d(x, w, b, stride, padding, dilation, groups); });
      }
      case 3: {
        const Tensor w = weight({c}, 1), b = weight({c}, 1), m = weight({c}, 1),
                     s = net_.constant(torch::rand({c}) + 0.5);
        return of("batch_norm",
                  [=](const Tensor& x) { return torch::batch_norm(x, w, b, m, s, false, 0.1, 1e-3, false); });
      }
      case 4:
        return of(c10::str("max_pool2d ", kernel, " ", stride),
                  [=](const Tensor& x) { return torch::max_pool2d(x, kernel, stride, kernel / 2 * padding); });
      case 5:
        return of(c10::str("avg_pool2d ", kernel, " ", stride), [=](const Tensor& x) {
          return torch::avg_pool2d(x, kernel, stride, kernel / 2 * padding, false, stride == 1);
        });
      case 6:
        return of("adaptive_avg_pool2d", [=](const Tensor& x) {
          return torch::adaptive_avg_pool2d(x, {kernel, stride});
        });
      case 7: return of("global mean", [](const Tensor& x) { return x.mean({2, 3}, true); });
      case 8:
        return of("upsample nearest", [](const Tensor& x) {
          return torch::upsample_nearest2d(x, {x.size(2) * 2, x.size(3) * 2});
        });
      case 9:
        return of("upsample bilinear", [=](const Tensor& x) {
          return torch::upsample_bilinear2d(x, {x.size(2) * 2, x.size(3) + 1}, stride == 1);
        });
      case 10:
        return of("pad", [=](const Tensor& x) { return torch::constant_pad_nd(x, {1, padding, 0, kernel}, 0.5); });
      case 11:
        return of("pad negative", [=](const Tensor& x) {
          return torch::constant_pad_nd(x, {1, -1, 0, 0, 0, padding}, 0);
        });
      case 12: {
        const Tensor w = weight({c, number(1, 5), kernel, kernel}, kernel * kernel * c);
        return of(c10::str("conv_transpose2d ", w.sizes(), " ", stride),
                  [=](const Tensor& x) { return torch::conv_transpose2d(x, w, {}, stride, padding); });
      }
      case 13: {
        const std::int64_t groups = c % 2 == 0 ? 2 : 1;
        const Tensor w = weight({c}, 1), b = weight({c}, 1);
        return of("group_norm", [=](const Tensor& x) { return torch::group_norm(x, groups, w, b, 1e-2); });
      }
      case 14: return of("pixel_unshuffle", [](const Tensor& x) { return torch::pixel_unshuffle(x, 2); });
      default: {
        const Tensor w = weight({c, 1, 1}, 1);
        return of("x * channels", [=](const Tensor& x) { return x * w; });
      }
    }
  }

  std::optional<DrawnCall> other() {
    const auto x = floats(1);
    if (!x) return std::nullopt;
    const std::int64_t d = dimension(*x), s = size(*x, d);
    const auto of = [&](std::string text, auto f) {
      return one(text + "(" + v(*x) + ")", [x = *x, f](const Tensors& v) { return f(v[x]); });
    };
    switch (random_.below(14)) {
      case 0: return of("tril", [](const Tensor& x) { return x.tril(); });
      case 1: return of("triu", [](const Tensor& x) { return x.triu(1); });
      case 2: return of("arange * x", [=](const Tensor& x) { return torch::arange(x.size(-1), x.options()) * x; });
      case 3:
        return of("embedding", [w = weight({7, 3}, 1)](const Tensor& x) {
          return torch::embedding(w, (x * 2).to(torch::kLong).remainder(7));
        });
      case 4:
        return of("gather", [=](const Tensor& x) { return x.gather(d, torch::zeros_like(x, torch::kLong) + (s - 1)); });
      case 5:
        return of("topk", [=](const Tensor& x) { return std::get<0>(x.topk(std::max<std::int64_t>(s / 2, 1), d)); });
      case 6: return of("sort", [=](const Tensor& x) { return std::get<0>(x.sort(d, true)); });
      case 7: return of("glu", [=](const Tensor& x) { return torch::glu(torch::cat({x, x * 2}, d), d); });
      case 8: return of("one_hot", [=](const Tensor& x) { return torch::one_hot((x > 0).to(torch::kLong), 3); });
      case 9:
        return of("scatter", [=](const Tensor& x) { return x.scatter(d, torch::zeros_like(x, torch::kLong), 0.5); });
      case 10: return of("index", [=](const Tensor& x) { return x.index({torch::tensor({0, 0})}); });
      case 11: return of("to double", [=](const Tensor& x) { return x.to(torch::kDouble); });
      case 12: return of("new_zeros cat", [=](const Tensor& x) { return torch::cat({x, x.new_zeros(x.sizes())}, d); });
      default: return of("full + x", [=](const Tensor& x) { return torch::full_like(x, 0.5).add_(x); });
    }
  }

  std::optional<DrawnCall> rare() {
    const auto x = floats(1);
    if (!x) return std::nullopt;
    const Tensor& t = values_[*x];
    const std::int64_t d = dimension(*x), s = size(*x, d), k = t.size(-1), n = number(1, 7);
    const double a = real();
    const auto of = [&](std::string text, auto f) {
      return one(text + "(" + v(*x) + ")", [x = *x, f](const Tensors& v) { return f(v[x]); });
    };
    const auto another =
        such([&](const Tensor& u) { return u.scalar_type() == torch::kFloat && u.sizes() == t.sizes(); });
    const std::size_t y = another.value_or(*x);
    const auto of_two = [&](std::string text, auto f) {
      return one(text + "(" + v(*x) + ", " + v(y) + ")", [x = *x, y, f](const Tensors& v) { return f(v[x], v[y]); });
    };
    const auto places = [](const Tensor& x, std::int64_t below) { return (x * 7).to(torch::kLong).remainder(below); };
    switch (random_.below(46)) {
      case 0: return of("einsum", [](const Tensor& x) { return torch::einsum("...i,...i->...", {x, x}); });
      case 1:
        return of_two("einsum", [](const Tensor& x, const Tensor& y) {
          return torch::einsum("...i,...j->...ij", {x, y});
        });
      case 2:
        return of_two("addcdiv",
                      [=](const Tensor& x, const Tensor& y) { return torch::addcdiv(x, y, y.abs() + 1, a); });
      case 3:
        return of_two("lerp tensor", [](const Tensor& x, const Tensor& y) { return torch::lerp(x, y, y.sigmoid()); });
      case 4:
        return of_two("clamp by tensors", [](const Tensor& x, const Tensor& y) { return x.clamp(-y.abs(), y.abs()); });
      case 5: return of("cummax", [=](const Tensor& x) { return std::get<0>(x.cummax(d)); });
      case 6: return of("logcumsumexp", [=](const Tensor& x) { return x.logcumsumexp(d); });
      case 7: return of("cumprod", [=](const Tensor& x) { return x.clamp(-1.5, 1.5).cumprod(d); });
      case 8:
        return DrawnCall{c10::str("var_mean(", v(*x), ", ", d, ")"), [x = *x, d](const Tensors& v) {
                           const auto [var, mean] = torch::var_mean(v[x], {d}, false, true);
                           return Tensors{var, mean};
                         }};
      case 9:
        return DrawnCall{c10::str("aminmax(", v(*x), ", ", d, ")"), [x = *x, d](const Tensors& v) {
                           const auto [low, high] = torch::aminmax(v[x], d, true);
                           return Tensors{low, high};
                         }};
      case 10: return of("kthvalue", [=](const Tensor& x) { return std::get<0>(x.kthvalue((s + 1) / 2, d)); });
      case 11: return of("median", [=](const Tensor& x) { return std::get<0>(x.median(d, true)); });
      case 12:
        return of_two("index_add", [=](const Tensor& x, const Tensor& y) {
          return x.index_add(d, torch::zeros({s}, torch::kLong), y);
        });
      case 13:
        return of_two("scatter_add",
                      [=](const Tensor& x, const Tensor& y) { return x.scatter_add(d, places(y, s), y); });
      case 14:
        return of_two("scatter", [=](const Tensor& x, const Tensor& y) {
          return x.scatter(d, torch::zeros_like(y, torch::kLong), a);
        });
      case 15: return of_two("gather", [=](const Tensor& x, const Tensor& y) { return x.gather(d, places(y, s)); });
      case 16:
        return of_two("take_along",
                      [=](const Tensor& x, const Tensor& y) { return torch::take_along_dim(x, y.argsort(d), d); });
      case 17:
        return of("index with places",
                  [=](const Tensor& x) { return x.index({places(x.flatten().slice(0, 0, 3), x.size(0))}); });
      case 18:
        return of_two("outer", [](const Tensor& x, const Tensor& y) {
          return torch::outer(x.flatten().slice(0, 0, 7), y.flatten().slice(0, 0, 5));
        });
      case 19: return of_two("cdist", [](const Tensor& x, const Tensor& y) { return torch::cdist(x, y + 1); });
      case 20: return of("diag_embed", [](const Tensor& x) { return torch::diag_embed(x); });
      case 21: return of("rot90", [](const Tensor& x) { return x.rot90(1, {0, -1}); });
      case 22:
        return of("nan_to_num", [](const Tensor& x) { return (x / (x > 0).to(x.scalar_type())).nan_to_num(1, 2, -3); });
      case 23: return of_two("hypot", [](const Tensor& x, const Tensor& y) { return torch::hypot(x, y + 0.25); });
      case 24: return of_two("logaddexp", [](const Tensor& x, const Tensor& y) { return torch::logaddexp(x, y); });
      case 25:
        return of_two("tensordot",
                      [=](const Tensor& x, const Tensor& y) { return torch::tensordot(x, y, {d}, {d}) / 4; });
      case 26:
        return of_two("bmm", [](const Tensor& x, const Tensor& y) { return torch::bmm(x, y.transpose(1, 2)) / 4; });
      case 27:
        return of_two("baddbmm", [](const Tensor& x, const Tensor& y) {
          return torch::baddbmm(torch::ones({1}, x.options()), x, y.mT(), 0.5, 0.25);
        });
      case 28:
        return of_two("masked attention", [](const Tensor& x, const Tensor& y) {
          return at::scaled_dot_product_attention(x, y, x, torch::ones({x.size(-2), x.size(-2)}, torch::kBool).tril());
        });
      case 29:
        return of_two("attention with bias", [](const Tensor& x, const Tensor& y) {
          return at::scaled_dot_product_attention(x, y, y, (x.narrow(-1, 0, 1) * 0.5), 0, false, 0.3);
        });
      case 30: {
        if (t.dim() != 3) return std::nullopt;
        const std::int64_t c = t.size(1), kernel = number(1, 3), stride = number(1, 2);
        const Tensor w = weight({n, c, kernel}, kernel * c), b = weight({n}, 1);
        return of(c10::str("conv1d ", w.sizes(), " ", stride),
                  [=](const Tensor& x) { return torch::conv1d(x, w, b, stride, 1); });
      }
      case 31: return of("max_pool1d", [=](const Tensor& x) { return torch::max_pool1d(x, 2, 1); });
      case 32: return of("avg_pool1d", [=](const Tensor& x) { return torch::avg_pool1d(x, 2, 1); });
      case 33:
        return of("avg_pool2d ceil", [=](const Tensor& x) { return torch::avg_pool2d(x, 2, 2, 0, true, false); });
      case 34: return of("max_pool2d dilated", [=](const Tensor& x) { return torch::max_pool2d(x, 2, 1, 0, 2, true); });
      case 35:
        return of("bicubic", [=](const Tensor& x) {
          return torch::upsample_bicubic2d(x, {x.size(2) + 2, x.size(3) * 2}, false);
        });
      case 36: return of("reflection pad", [](const Tensor& x) { return torch::reflection_pad1d(x, {1, 0}); });
      case 37: return of("replication pad", [](const Tensor& x) { return torch::replication_pad2d(x, {1, 0, 2, 1}); });
      case 38: return of("im2col", [](const Tensor& x) { return torch::im2col(x, {2, 2}, {1, 1}, {1, 1}, {1, 1}); });
      case 39:
        return of("instance_norm",
                  [](const Tensor& x) { return torch::instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-2, false); });
      case 40:
        return of("bucketize",
                  [](const Tensor& x) { return torch::bucketize(x, torch::arange(5, x.options()) / 2 - 1.1); });
      case 41:
        return of("heads", [=](const Tensor& x) {
          return x.reshape({x.size(0), -1, k % 2 == 0 ? 2 : 1, k % 2 == 0 ? k / 2 : k}).transpose(1, 2);
        });
      case 42:
        return of("merge heads", [=](const Tensor& x) {
          return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
        });
      case 43:
        return of_two("dist", [](const Tensor& x, const Tensor& y) { return torch::pairwise_distance(x, y + 0.5); });
      case 44:
        return of("rotate half", [=](const Tensor& x) {
          return torch::cat({-x.slice(-1, k / 2), x.slice(-1, 0, k / 2)}, -1);
        });
      default: return of("renorm", [=](const Tensor& x) { return x.renorm(2, d, 1.5); });
    }
  }

  /// Layers of torch::nn, whose weights are their own.
  std::optional<DrawnCall> module() {
    const auto x = floats(2);
    if (!x) return std::nullopt;
    const Tensor& t = values_[*x];
    const std::int64_t k = t.size(-1), c = t.size(1), n = number(1, 12);
    const auto of = [&](std::string text, auto layer) {
      net_.module(layer)->eval();
      return one(text + " layer(" + v(*x) + ")",
                 [x = *x, layer = layer.ptr()](const Tensors& v) { return layer->forward(v[x]); });
    };
    switch (random_.below(9)) {
      case 0: return of("Linear", torch::nn::Linear(k, n));
      case 1: return of("LayerNorm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({k}).eps(1e-2)));
      case 2:
        if (t.dim() != 4) return std::nullopt;
        return of("Conv2d", torch::nn::Conv2d(torch::nn::Conv2dOptions(c, n, 3).padding(1)));
      case 3:
        if (t.dim() != 4) return std::nullopt;
        return of("BatchNorm2d", torch::nn::BatchNorm2d(c));
      case 4:
        if (t.dim() != 3) return std::nullopt;
        return of("BatchNorm1d", torch::nn::BatchNorm1d(c));
      case 5: {
        if (t.dim() != 3) return std::nullopt;
        torch::nn::LSTM layer(torch::nn::LSTMOptions(k, n).batch_first(true).bidirectional(n % 2 == 0));
        net_.module(layer);
        return one("LSTM layer(" + v(*x) + ")",
                   [x = *x, layer = layer.ptr()](const Tensors& v) { return std::get<0>(layer->forward(v[x])); });
      }
      case 6: {
        if (t.dim() != 3) return std::nullopt;
        torch::nn::GRU layer(torch::nn::GRUOptions(k, n));
        net_.module(layer);
        return DrawnCall{"GRU layer(" + v(*x) + ")", [x = *x, layer = layer.ptr()](const Tensors& v) {
                           const auto [out, state] = layer->forward(v[x]);
                           return Tensors{out, state};
                         }};
      }
      case 7: {
        if (t.dim() != 3 || k % 2 != 0) return std::nullopt;
        torch::nn::MultiheadAttention layer(torch::nn::MultiheadAttentionOptions(k, 2));
        net_.module(layer);
        return one("MultiheadAttention layer(" + v(*x) + ")", [x = *x, layer = layer.ptr()](const Tensors& v) {
          return std::get<0>(layer->forward(v[x], v[x], v[x]));
        });
      }
      default:
        return of("Linear, ReLU, Linear",
                  torch::nn::Sequential(torch::nn::Linear(k, n), torch::nn::ReLU(), torch::nn::Linear(n, 3)));
    }
  }

  std::optional<DrawnCall> whole_number() {
    const auto x = such([](const Tensor& t) { return !t.is_floating_point(); });
    const auto y = x ? beside(*x) : x;
    if (!y) return std::nullopt;
    const std::int64_t d = dimension(*x), n = number(1, 5);
    const auto of = [&](std::string text, auto f) {
      return one(c10::str(text, "(", v(*x), ", ", v(*y), ", ", n, ")"),
                 [x = *x, y = *y, f](const Tensors& v) { return f(v[x], v[y]); });
    };
    switch (random_.below(24)) {
      case 0:
        return of("floor_divide", [=](const Tensor& x, const Tensor&) { return x.to(torch::kLong).floor_divide(n); });
      case 1: return of("remainder", [=](const Tensor& x, const Tensor&) { return x.to(torch::kLong).remainder(n); });
      case 2: return of("fmod", [=](const Tensor& x, const Tensor&) { return x.to(torch::kInt).fmod(n); });
      case 3:
        return of("shift",
                  [=](const Tensor& x, const Tensor&) { return x.to(torch::kInt).__lshift__(n).__rshift__(2); });
      case 4: return of("and", [](const Tensor& x, const Tensor& y) { return x & (y > 0).to(x.scalar_type()); });
      case 5: return of("or", [](const Tensor& x, const Tensor& y) { return x | (y > 0); });
      case 6: return of("not", [](const Tensor& x, const Tensor&) { return ~x; });
      case 7: return of("sum", [=](const Tensor& x, const Tensor&) { return x.sum(d); });
      case 8: return of("cumsum", [=](const Tensor& x, const Tensor&) { return x.cumsum(d); });
      case 9: return of("max", [=](const Tensor& x, const Tensor&) { return x.amax(d, true); });
      case 10: return of("to float", [](const Tensor& x, const Tensor&) { return x.to(torch::kFloat); });
      case 11: return of("to short", [](const Tensor& x, const Tensor&) { return x.to(torch::kShort); });
      case 12: return of("to byte", [](const Tensor& x, const Tensor&) { return x.to(torch::kByte); });
      case 13: return of("eq", [=](const Tensor& x, const Tensor& y) { return x == y.to(x.scalar_type()); });
      case 14: return of("ne", [=](const Tensor& x, const Tensor&) { return x != n; });
      case 15:
        return of("where", [](const Tensor& x, const Tensor& y) { return torch::where(x > 0, y, -y.to(torch::kInt)); });
      case 16: return of("masked_fill", [=](const Tensor& x, const Tensor& y) { return y.masked_fill(x != 0, n); });
      case 17: return of("times", [=](const Tensor& x, const Tensor& y) { return x * y; });
      case 18: return of("half", [=](const Tensor& x, const Tensor&) { return x * 0.5; });
      case 19: return of("mean", [=](const Tensor& x, const Tensor&) { return x.to(torch::kFloat).mean(d, true); });
      case 20: return of("sort", [=](const Tensor& x, const Tensor&) { return std::get<0>(x.sort(d)); });
      case 21: return of("any", [=](const Tensor& x, const Tensor&) { return x.any(d); });
      case 22: return of("all", [=](const Tensor& x, const Tensor&) { return x.all(); });
      default: return of("divide", [=](const Tensor& x, const Tensor&) { return x / n; });
    }
  }

  Random random_;
  Net& net_;
  DrawnProgram program_;
  Tensors values_;
};

/// Leaves out what it does not take for `fails` to hold.
inline DrawnProgram reduced(DrawnProgram program, const std::function<bool(const DrawnProgram&)>& fails) {
  for (std::size_t k = program.returned.size(); k-- > 0 && program.returned.size() > 1;) {
    DrawnProgram less = program;
    less.returned.erase(less.returned.begin() + static_cast<std::ptrdiff_t>(k));
    if (fails(less)) program = less;
  }
  for (std::size_t k = program.calls.size(); k-- > 0;) {
    DrawnProgram less = program;
    less.calls[k].reset();
    if (fails(less)) program = less;
  }
  return program;
}

}  // namespace fxx::test
