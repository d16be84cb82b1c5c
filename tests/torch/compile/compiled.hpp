// What the tests of compiled modules share: modules whose forward is a function, compiled and compared with the same in
// double precision, with several numbers of threads.
//
// A module here has many operators and gives all their results, since each library costs the compiler a second or two.
#pragma once

#include <set>

#include "fxx/passes/stable_order.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

namespace fxx::test {

using support::TemporaryFolder;
using torch::Tensor;

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Built libraries of all tests, so that the same text is compiled once.
inline const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path();
}

/// A module whose forward is a function; parameters are those that it was given.
struct Net : torch::nn::Module {
  Forward function;

  Net() : torch::nn::Module("Net") {}
  Tensor parameter(at::IntArrayRef sizes, double scale = 1) {
    return register_parameter("p" + std::to_string(parameters(false).size()), torch::randn(sizes) * scale);
  }
  Tensor constant(const Tensor& value) { return register_buffer("b" + std::to_string(buffers(false).size()), value); }
  template <class Holder>
  Holder module(const Holder& holder) {
    return register_module("m" + std::to_string(children().size()), holder);
  }
};
using NetPointer = std::shared_ptr<Net>;
inline NetPointer net_of(Forward function) {
  auto net = std::make_shared<Net>();
  net->function = std::move(function);
  return net;
}
inline std::shared_ptr<GraphModule> traced_net(Net& net, const Tensors& inputs) {
  net.eval();
  return fxx::detail::trace_module(
      net, true, [&](std::span<const Tensor> in) { return net.function({in.begin(), in.end()}); }, cloned(inputs), {});
}
inline Tensors converted(Tensors tensors, torch::ScalarType from, torch::ScalarType to) {
  for (Tensor& tensor : tensors)
    if (tensor.scalar_type() == from) tensor = tensor.to(to);
  return tensors;
}
/// What the module computes in float64, as the floats nearest to it.
inline Tensors in_double(Net& net, const Tensors& inputs) {
  const torch::NoGradGuard no_grad;
  net.eval();
  // Modules keep their tensors, which are doubles meanwhile.
  std::vector<std::pair<Tensor, Tensor>> floats;
  for (const Tensors& tensors : {net.parameters(), net.buffers()})
    for (const Tensor& tensor : tensors)
      if (tensor.scalar_type() == torch::kFloat) floats.emplace_back(tensor, tensor.detach());
  struct Back {  // also where the function throws
    const decltype(floats)& kept;
    ~Back() {
      for (const auto& [tensor, data] : kept) tensor.set_data(data);
    }
  } back{floats};
  for (const auto& [tensor, data] : floats) tensor.set_data(data.to(torch::kDouble));
  return tensors_of(net.function(converted(cloned(inputs), torch::kFloat, torch::kDouble)));
}
/// The largest error of the results, each relative to its largest value.
inline double error_of(const c10::IValue& given, const Tensors& expected) {
  const Tensors results = tensors_of(given);
  if (results.size() != expected.size()) return infinite;
  double worst = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor given = results[i].scalar_type() == torch::kFloat ? results[i].to(torch::kDouble) : results[i];
    // What integers give is float32 there too.
    const Tensor wanted = expected[i].scalar_type() == torch::kFloat ? expected[i].to(torch::kDouble) : expected[i];
    const bool same = given.is_floating_point() ? difference(given, wanted) < 1e-12 : torch::equal(given, wanted);
    const double error = same ? 0 : !given.is_floating_point() ? infinite : relative_difference(given, wanted);
    if (error > 1e-5) MESSAGE("result ", i, " of sizes ", c10::str(results[i].sizes()), " differs by ", error);
    worst = std::max(worst, error);
  }
  return worst;
}

struct Wanted {
  std::set<std::string> called_back = {};  // names of operators
  double tolerance = 1e-5;
  std::vector<Tensors> more = {};  // inputs of the same sizes
};
inline std::set<std::string> called_back_operators(const CompiledModule& compiled) {
  std::set<std::string> names;
  for (const KernelStep& step : compiled.kernel_plan().steps)
    if (const auto* back = std::get_if<plans::CallBack>(&step.kernel)) {
      const Operator* op = operator_of(*back->nodes.front());
      names.insert(op ? std::string(op->name) : std::string(back->nodes.front()->name()));
    }
  return names;
}
/// Compiles the net for these inputs, runs it on them and on more with one, two and three threads, and exactly.
inline std::shared_ptr<CompiledModule> check(Net& net, const Tensors& inputs, const Wanted& wanted = {}) {
  std::vector<Tensors> all = {inputs};
  all.insert(all.end(), wanted.more.begin(), wanted.more.end());
  std::vector<Tensors> expected;
  for (const Tensors& in : all) expected.push_back(in_double(net, in));
  const auto gm = traced_net(net, inputs);
  std::shared_ptr<CompiledModule> first;
  const torch::NoGradGuard no_grad;
  std::vector<c10::IValue> of_one;
  for (int threads : {1, 2, 3}) {
    CAPTURE(threads);
    const auto compiled =
        fxx::compile(*gm, inputs, {.threads = threads, .tolerance = infinite, .cache_folder = cache()});
    CHECK(compiled->is_current());
    CHECK(compiled->interpreted().empty());
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      const c10::IValue given = compiled->run(boxed(all[i]));
      CHECK(error_of(given, expected[i]) <= wanted.tolerance);
      if (threads == 1) of_one.push_back(given);
      else CHECK(relative_difference(given, of_one[i]) == 0);
    }
    if (!first) first = compiled;
  }
  std::string reasons;
  for (const auto& [name, why] : first->called_back()) reasons += name + ": " + why + "\n";
  CAPTURE(reasons);
  CHECK(called_back_operators(*first) == wanted.called_back);
  const std::string text = first->kernel_plan().to_string();
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == first->kernel_plan().steps.size() + 2);
  const auto exact = fxx::compile(
      *gm, inputs, {.accuracy = Accuracy::exact, .threads = 2, .tolerance = infinite, .cache_folder = cache()});
  CHECK(error_of(exact->run(boxed(inputs)), expected[0]) <= wanted.tolerance);
  return first;
}
inline std::shared_ptr<CompiledModule> check(const Forward& function, const Tensors& inputs,
                                             const Wanted& wanted = {}) {
  return check(*net_of(function), inputs, wanted);
}
/// Several results as one.
inline c10::IValue all_of(Tensors results) {
  std::vector<c10::IValue> values(results.begin(), results.end());
  return c10::ivalue::Tuple::create(std::move(values));
}
/// The same elements in other places.
inline Tensor transposed_copy(const Tensor& t) {
  return t.dim() < 2 ? t.clone() : t.transpose(0, 1).contiguous().transpose(0, 1);
}
inline Tensor sliced_copy(const Tensor& t) {
  std::vector<std::int64_t> sizes = t.sizes().vec();
  for (std::int64_t& size : sizes) size = 2 * size + 1;
  Tensor wide = torch::full(sizes, 99, t.options());
  Tensor part = wide;
  for (std::int64_t d = 0; d < t.dim(); ++d) part = part.slice(d, 1, 2 * t.size(d), 2);
  part.copy_(t);
  return part;
}

}  // namespace fxx::test
