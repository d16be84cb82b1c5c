// The pretrained sentence encoder against embeddings that an independent PyTorch program computed (oracle/minilm.py): as
// it is, traced, rewritten, compiled, in single and double precision; and files of weights that do not fit.
//
// Reads minilm.json from FXX_ORACLE_DIR and the model from FXX_MODEL_DIR. Without a model, which `tools/setup --model`
// fetches, what needs one is skipped, and counted so.
#include "../examples/sentence_search/bert.hpp"
#include "fxx/io/safetensors.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/weights.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using support::TemporaryFolder;

namespace {

std::string folder(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}
std::string model_file(const char* name) { return folder("FXX_MODEL_DIR") + "/" + name; }
bool have_model() { return std::filesystem::exists(model_file("model.safetensors")); }

struct Case {
  at::Tensor ids, embedding;  // [1, length] of int64; [1, hidden] of float64
  at::Tensor mask() const { return torch::ones_like(ids); }
  /// Ids and mask, padded to a length.
  Tensors padded(std::int64_t length) const {
    const auto by = torch::nn::functional::PadFuncOptions({0, length - ids.size(1)});
    return {torch::nn::functional::pad(ids, by), torch::nn::functional::pad(mask(), by)};
  }
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::ifstream file(folder("FXX_ORACLE_DIR") + "/minilm.json");
    REQUIRE(file);
    std::vector<Case> out;
    const auto json = nlohmann::json::parse(file);
    for (const auto& entry : json.at("cases"))
      out.push_back({torch::tensor(entry.at("ids").get<std::vector<std::int64_t>>()).unsqueeze(0),
                     torch::tensor(entry.at("embedding").get<std::vector<double>>(), torch::kDouble).unsqueeze(0)});
    REQUIRE(out.size() >= 10);
    return out;
  }();
  return all;
}

SentenceEncoder pretrained() {
  SentenceEncoder encoder(BertConfig::read(model_file("config.json")));
  load_safetensors(*encoder, model_file("model.safetensors"), {.allow_unused = true});
  encoder->eval();
  return encoder;
}

TEST_CASE("embeddings in single precision: eager, traced, rewritten, compiled, padded and not" *
          doctest::skip(!have_model())) {
  const torch::NoGradGuard no_grad;
  SentenceEncoder encoder = pretrained();
  constexpr std::int64_t length = 64;
  const auto traced = trace(encoder, cases()[0].padded(length));
  const auto optimised = trace(encoder, cases()[1].padded(length));
  const OptimizeReport report = optimize_for_inference(*optimised);
  CHECK(report.stages[0].fired == "dropout: 19");
  CHECK(report.stages[1].fired == "gelu: 6");
  CHECK(report.stages[2].fired == "attention, divided, masked: 6");
  CHECK(report.stages[3].fired == "merge linears: 6");
  const TemporaryFolder cache;
  const auto compiled = compile(*optimised, cases()[2].padded(length), {.cache_folder = cache.path()});
  CHECK(compiled->is_current());
  CHECK(compiled->max_error() < 1e-6);

  double largest = 0, padding = 0;
  for (const Case& c : cases()) {
    CAPTURE(c.ids.size(1));
    const auto difference_of = [&](const at::Tensor& given) {
      return difference(given.to(torch::kDouble), c.embedding);
    };
    const at::Tensor eager = encoder(c.ids, c.mask());
    CHECK(difference_of(eager) < 1e-5);
    CHECK(difference_of((*trace(encoder, {c.ids, c.mask()}))(c.ids, c.mask())) < 1e-5);
    largest = std::max(largest, difference_of(eager));
    if (c.ids.size(1) > length) continue;
    const Tensors in = c.padded(length);
    padding = std::max(padding, difference(encoder(in[0], in[1]), eager));
    CHECK(difference_of((*traced)(in[0], in[1])) < 1e-5);
    CHECK(difference_of((*optimised)(in[0], in[1])) < 1e-5);
    CHECK(difference_of((*compiled)(in[0], in[1])) < 1e-5);
  }
  CHECK(padding < 1e-6);
  CHECK(largest > 0);  // the oracle computes in double precision, so it cannot be the same numbers
}

TEST_CASE("embeddings in double precision: eager, traced and rewritten" * doctest::skip(!have_model())) {
  const torch::NoGradGuard no_grad;
  SentenceEncoder encoder = pretrained();
  encoder->to(torch::kDouble);
  for (const Case& c : cases()) {
    CAPTURE(c.ids.size(1));
    CHECK(difference(encoder(c.ids, c.mask()), c.embedding) < 1e-9);
    const auto traced = trace(encoder, {c.ids, c.mask()});
    CHECK(difference((*traced)(c.ids, c.mask()), c.embedding) < 1e-9);
    optimize_for_inference(*traced);
    CHECK(difference((*traced)(c.ids, c.mask()), c.embedding) < 1e-9);
  }
}

// --- weights that do not fit ---------------------------------------------------------------------------------------

struct SmallImpl : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 2));
  at::Tensor steps = register_buffer("steps", torch::tensor({5, 6}));
};

/// Entries of tensors, which must be contiguous and outlive them.
std::vector<SafetensorsEntry> entries_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, t] : tensors)
    entries.push_back({name,
                       to_dtype(t.scalar_type()),
                       t.sizes().vec(),
                       {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  return entries;
}
using Named = std::vector<std::pair<std::string, at::Tensor>>;
Named fitting() {
  return {{"fc.weight", torch::randn({2, 3})}, {"fc.bias", torch::randn({2})}, {"steps", torch::tensor({7, 8})}};
}

/// What loading the file says; the module must be as it was.
Fault refusal(const std::string& path, const LoadOptions& options = {}) {
  SmallImpl module;
  const auto before = cloned({module.fc->weight, module.fc->bias, module.steps});
  const Fault fault = fault_of<FileError>([&] { load_safetensors(module, path, options); });
  CHECK(same(module.fc->weight, before[0]));
  CHECK(same(module.fc->bias, before[1]));
  CHECK(same(module.steps, before[2]));
  CHECK(fault.says(path));
  return fault;
}

TEST_CASE("weights that fit are copied into the parameters that are there, and converted") {
  const TemporaryFolder folder;
  Named tensors = fitting();
  tensors[1].second = tensors[1].second.to(torch::kHalf);
  tensors[2].second = tensors[2].second.to(torch::kInt32);
  write_safetensors(folder / "weights", entries_of(tensors));
  SmallImpl module;
  const at::Tensor weight = module.fc->weight;
  CHECK(load_safetensors(module, folder / "weights").empty());
  CHECK(module.fc->weight.is_same(weight));
  CHECK(weight.requires_grad());
  CHECK(same(weight, tensors[0].second));
  CHECK(same(module.fc->bias, tensors[1].second.to(torch::kFloat)));
  CHECK(same(module.steps, torch::tensor({7, 8})));
}

TEST_CASE(
    "files of weights that are missing, cut off, or hold other weights: one clear error, and nothing is changed") {
  const TemporaryFolder folder;
  const auto written = [&](const Named& tensors) {
    write_safetensors(folder / "weights", entries_of(tensors));
    return folder / "weights";
  };
  CHECK(refusal(folder / "nowhere").id == 801);
  CHECK(refusal(folder.path()).id == 801);
  const std::string whole = support::content_of(written(fitting()));
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{40}, whole.size() - 1}) {
    CAPTURE(size);
    CHECK(refusal(folder.file("cut", whole.substr(0, size))).id == 802);
  }

  Named tensors = fitting();
  tensors[0].second = torch::randn({3, 2});
  Fault fault = refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("'fc.weight' with shape [3, 2]"));
  CHECK(fault.says("[2, 3]"));

  tensors = fitting();
  tensors.erase(tensors.begin());
  fault = refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("fc.weight"));
  {
    SmallImpl module;
    const at::Tensor before = module.fc->weight.detach().clone();
    CHECK(load_safetensors(module, folder / "weights", {.allow_missing = true}).empty());
    CHECK(same(module.fc->weight, before));
    CHECK(same(module.fc->bias, tensors[0].second));
  }

  tensors = fitting();
  tensors.emplace_back("more.weight", torch::ones({1}));
  fault = refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("more.weight"));
  {
    SmallImpl module;
    CHECK(load_safetensors(module, folder / "weights", {.allow_unused = true}) ==
          std::vector<std::string>{"more.weight"});
    CHECK(same(module.fc->weight, tensors[0].second));
  }

  // Numbers that the module's type cannot hold.
  tensors = fitting();
  tensors[2].second = torch::tensor({7.5, 8.5});
  fault = refusal(written(tensors));
  CHECK(fault.id == 803);
  CHECK(fault.says("steps"));
  CHECK(fault.says("float32"));
}

TEST_CASE("the model's own file, cut off or with a weight of another shape" * doctest::skip(!have_model())) {
  BertConfig config = BertConfig::read(model_file("config.json"));
  const TemporaryFolder folder;
  std::filesystem::copy_file(model_file("model.safetensors"), folder / "cut");
  std::filesystem::resize_file(folder / "cut", 50'000'000);
  config.num_hidden_layers = 1;
  SentenceEncoder encoder(config);
  const at::Tensor before = encoder->embeddings->layer_norm->weight.detach().clone();
  Fault fault = fault_of<FileError>([&] { load_safetensors(*encoder, folder / "cut", {.allow_unused = true}); });
  CHECK(fault.id == 802);
  CHECK(fault.says(folder / "cut"));
  fault = fault_of<FileError>([&] { load_safetensors(*encoder, model_file("model.safetensors")); });
  CHECK(fault.id == 803);
  config.intermediate_size = 1000;
  SentenceEncoder narrow(config);
  fault =
      fault_of<FileError>([&] { load_safetensors(*narrow, model_file("model.safetensors"), {.allow_unused = true}); });
  CHECK(fault.id == 803);
  CHECK(fault.says("encoder.layer.0.intermediate.dense.weight"));
  CHECK(same(encoder->embeddings->layer_norm->weight, before));
}

}  // namespace
