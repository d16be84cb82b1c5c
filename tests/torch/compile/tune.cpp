// tune: ways are measured once for each shape, kept and used again. What is kept is believed where it is whole, and
// makes no result wrong.
#include <filesystem>
#include <fstream>

#include "fxx/codegen/trials.hpp"
#include "fxx/runtime/notebook.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fake.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using support::content_of;
using support::TemporaryFolder;
using torch::Tensor;

namespace {

torch::nn::Conv2d layer(int in, int out, int side, int groups = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, side).padding(side / 2).groups(groups));
}
enum class Parts { few, more, all };
/// Two convolutions of one shape and a product; another product; and a depthwise convolution between products.
struct Layers : torch::nn::Module {
  torch::nn::Conv2d first, second, expand, filter, project;
  torch::nn::Linear head, more;
  Parts parts;
  explicit Layers(Parts of)
      : first(layer(16, 16, 3)),
        second(layer(16, 16, 3)),
        expand(layer(16, 40, 1)),
        filter(layer(40, 40, 3, 40)),
        project(layer(40, 16, 1)),
        head(16, 19),
        more(19, 21),
        parts(of) {
    register_module("first", first), register_module("second", second), register_module("head", head);
    if (parts == Parts::more) register_module("more", more);
    if (parts == Parts::all)
      register_module("expand", expand), register_module("filter", filter), register_module("project", project);
    eval();
  }
  Tensor forward(Tensor x) {
    x = second(first(x).relu()).relu();
    if (parts == Parts::all) x = project(filter(expand(x).relu()).relu());
    x = head(x.permute({0, 2, 3, 1})).tanh();
    return parts == Parts::more ? more(x) : x;
  }
};
/// A net, its graph, and compiling it in a folder.
struct Tuning {
  Layers net;
  Tensor x = torch::randn({1, 16, 11, 6});
  std::shared_ptr<GraphModule> gm;
  Tensor wanted;
  std::string folder;
  explicit Tuning(std::string in, Parts parts = Parts::few)
      : net((torch::manual_seed(43), parts)), folder(std::move(in)) {
    gm = trace(net, {x});
    const torch::NoGradGuard no_grad;
    net.to(torch::kDouble);
    wanted = net.forward(x.to(torch::kDouble));
    net.to(torch::kFloat);
  }
  std::shared_ptr<CompiledModule> compile(CompileOptions options = {}) const {
    options.cache_folder = folder;
    if (options.threads == 0) options.threads = 2;
    return fxx::compile(*gm, {x}, options);
  }
  /// Compiles, and is right.
  std::shared_ptr<CompiledModule> tuned(CompileOptions options = {}) const {
    options.tune = true;
    const auto compiled = compile(options);
    CHECK(compiled->is_current());
    check(*compiled);
    return compiled;
  }
  void check(CompiledModule& compiled) const {
    const torch::NoGradGuard no_grad;
    CHECK(relative_difference(compiled.forward(x).to(torch::kDouble), wanted) <= 1e-5);
  }
  std::set<std::string> shapes(const CompileOptions& options = {}) const {
    std::set<std::string> result;
    for (const TrialSite& site : trial_sites(compile(options)->kernel_plan())) result.insert(site.shape);
    return result;
  }
};
/// Where the ways are.
std::vector<std::string> kept_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("ways-")) files.push_back(entry.path().string());
  return files;
}
std::set<std::string> shapes_of(const Notebook::Notes& notes) {
  std::set<std::string> shapes;
  for (const auto& [key, note] : notes)
    if (!key.starts_with("module ")) shapes.insert(key);
  return shapes;
}

}  // namespace

TEST_CASE("tune: each shape is measured once; its way is kept, and used again") {
  const TemporaryFolder folder;
  const Tuning small(folder.path());
  const std::set<std::string> shapes = small.shapes();
  CHECK(shapes.size() == 2);  // the first two layers have one
  CHECK(kept_in(folder.path()).empty());
  const auto first = small.tuned();
  REQUIRE(kept_in(folder.path()).size() == 1);
  const std::string file = kept_in(folder.path())[0], text = content_of(file);
  const Notebook::Notes notes = Notebook(file).read();
  CHECK(shapes_of(notes) == shapes);
  for (const std::string& shape : shapes) {
    CAPTURE(notes.at(shape));
    CHECK(way_of_text(notes.at(shape).substr(0, notes.at(shape).find(" ("))));
  }
  const auto second = small.tuned();
  CHECK(second->was_cached());
  CHECK(second->source_code() == first->source_code());
  CHECK(content_of(file) == text);

  // Another model that has these shapes and another one.
  const Tuning larger(folder.path(), Parts::more);
  const std::set<std::string> more = larger.shapes();
  CHECK(more.size() == 3);
  larger.tuned();
  CHECK(kept_in(folder.path()).size() == 1);
  const Notebook::Notes now = Notebook(file).read();
  CHECK(shapes_of(now) == more);
  for (const auto& [key, note] : notes) CHECK(now.at(key) == note);

  // Other accuracies are other shapes, other numbers of threads another file.
  const auto exact = small.tuned({.accuracy = Accuracy::exact});
  for (const KernelStep& step : exact->kernel_plan().steps)
    if (const auto* k = std::get_if<plans::Convolution>(&step.kernel))
      CHECK((k->method == plans::Convolution::Method::direct || k->method == plans::Convolution::Method::depthwise));
  CHECK(shapes_of(Notebook(file).read()).size() == more.size() + shapes.size());
  small.tuned({.threads = 1});
  CHECK(kept_in(folder.path()).size() == 2);
}
TEST_CASE("tune: ways that are kept are taken, whatever they are, and results are right") {
  const TemporaryFolder folder;
  const Tuning t(folder.path(), Parts::all);
  t.tuned();
  const std::string file = kept_in(folder.path()).at(0), untuned = t.compile()->source_code();
  const std::set<std::string> shapes = t.shapes();
  // Fake inputs cannot be run, so that nobody finds out whether the ways are faster here.
  const auto compiled_with = [&](const std::string& way) {
    std::filesystem::remove(file);
    Notebook::Notes notes;
    for (const std::string& shape : shapes) notes[shape] = way;
    Notebook(file).add(notes);
    const auto compiled =
        fxx::compile(*t.gm, {fake_like(t.x)}, {.threads = 2, .tune = true, .cache_folder = folder.path()});
    t.check(*compiled);
    CHECK(shapes_of(Notebook(file).read()) == shapes);
    return compiled;
  };
  const auto count = [](const CompiledModule& compiled, const auto& is) {
    return std::ranges::count_if(compiled.kernel_plan().steps, is);
  };
  using Method = plans::Convolution::Method;
  // Of so few layers none is computed in tiles of 4, whatever is kept.
  for (const auto& [way, method, times] : {std::tuple("direct", Method::direct, 2),
                                           {"winograd_2 3x2", Method::winograd_2, 2},
                                           {"winograd_4 12_at_once", Method::winograd_4, 0}}) {
    CAPTURE(way);
    CHECK(count(*compiled_with(way), [&](const KernelStep& step) {
            const auto* k = std::get_if<plans::Convolution>(&step.kernel);
            return k && k->kernel_height == 3 && k->method == method;
          }) == times);
  }
  for (const auto& [way, blocks] : {std::pair("joined", 1), {"apart", 0}}) {
    CAPTURE(way);
    CHECK(count(*compiled_with(way), [](const KernelStep& step) {
            return std::holds_alternative<plans::DepthwiseBlock>(step.kernel);
          }) == blocks);
  }
  // All but the depthwise convolution.
  CHECK(compiled_with("library (1 us instead of 2)")->kernel_plan().called_back().size() == 5);
  for (const char* way : {"by_rows near", "2x1 far alone"}) {
    CAPTURE(way);
    CHECK(compiled_with(way)->source_code() != untuned);
  }
  for (const char* nonsense : {"", "estimated", "winograd_8", "17x2", "0x0", "direct direct", "(1 us)"}) {
    CAPTURE(nonsense);
    CHECK(compiled_with(nonsense)->source_code() == untuned);
  }
  // A copy, which runs nothing, believes what was found of the whole module.
  compiled_with("direct");
  const auto ran = t.tuned();
  const auto copy = std::dynamic_pointer_cast<CompiledModule>(ran->clone());
  REQUIRE(copy);
  CHECK(copy->source_code() == ran->source_code());
  CHECK(copy->was_cached());
}
TEST_CASE("tune: of a damaged file nothing is believed, and all is measured again") {
  const TemporaryFolder folder;
  const Tuning t(folder.path());
  t.tuned();
  const std::string file = kept_in(folder.path()).at(0), text = content_of(file);
  std::string changed = text;
  changed[text.size() / 2] = static_cast<char>(changed[text.size() / 2] ^ 1);
  for (const std::string& rubbish :
       {std::string(), std::string("no line\n"), text.substr(0, text.size() / 2), changed}) {
    CAPTURE(rubbish);
    std::ofstream(file, std::ios::binary) << rubbish;
    t.tuned();
    CHECK(shapes_of(Notebook(file).read()) == t.shapes());
  }
  // Where nothing can be kept, it is measured each time.
  std::filesystem::remove(file);
  std::filesystem::create_directories(file + "/in the way");
  t.tuned();
  CHECK(std::filesystem::is_directory(file));
}
TEST_CASE("tune: nothing that has an effect runs, and what is interpreted is left alone") {
  struct Counting : torch::nn::Module {
    torch::nn::Linear linear{nullptr};
    Tensor calls;
    Counting() {
      linear = register_module("linear", torch::nn::Linear(20, 30));
      calls = register_buffer("calls", torch::zeros({3}));
    }
    Tensor forward(Tensor x) {
      x = linear(x);
      calls.add_(1);
      return torch::masked_select(x, x > 0);
    }
  };
  torch::manual_seed(5);
  const TemporaryFolder folder;
  Counting net;
  const Tensor x = torch::randn({7, 20});
  const auto gm = trace(net, {x});
  const torch::NoGradGuard no_grad;
  const Tensor before = gm->attribute("calls").clone();
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .tune = true, .cache_folder = folder.path()});
  CHECK(same(gm->attribute("calls"), before));
  CHECK(kept_in(folder.path()).size() == 1);
  CHECK(relative_difference(compiled->forward(x), net.forward(x)) <= 1e-5);
}
TEST_CASE("tune: zeros of a trial are no divisors") {
  torch::manual_seed(48);
  const TemporaryFolder folder;
  const Tensor w = torch::randn({24, 16});
  const Tensors in{torch::randn({7, 16}), torch::randint(-50, 50, {7, 24}, torch::kLong),
                   torch::randint(1, 9, {7, 24}, torch::kLong)};
  const auto gm = traced(
      [=](const Tensors& in) { return c10::IValue(torch::linear(in[0], w) + torch::div(in[1], in[2], "floor")); }, in);
  const auto compiled = fxx::compile(*gm, in, {.threads = 1, .tune = true, .cache_folder = folder.path()});
  const torch::NoGradGuard no_grad;
  CHECK(relative_difference(compiled->run(boxed(in)), gm->run(boxed(in))) <= 1e-5);
}
TEST_CASE("tune with example inputs that cannot run: the error of the run, and threads are gone with the module") {
  torch::manual_seed(47);
  const TemporaryFolder folder;
  const Tensor w = torch::randn({16, 16, 3, 3}) * 0.1, table = torch::randn({5, 6});
  const Tensors inputs{torch::randn({1, 16, 11, 6}), torch::tensor({1, 4})};
  const auto gm = traced(
      [=](const Tensors& in) {
        return c10::IValue(
            c10::ivalue::Tuple::create(torch::conv2d(in[0], w, {}, 1, 1), torch::embedding(table, in[1])));
      },
      inputs);
  const Tensors bad{inputs[0], torch::tensor({1, 5})};
  const CompileOptions options{.threads = 3, .tune = true, .cache_folder = folder.path()};
  // The same error whatever ways turn out to be faster.
  std::string error;
  try {
    fxx::compile(*gm, bad, options);
  } catch (const c10::Error& e) {
    error = e.what();
  }
  CAPTURE(error);
  CHECK(error.find("index out of range") != std::string::npos);
  CHECK(error.find("embedding") != std::string::npos);
  CHECK(fxx::compile(*gm, inputs, options)->is_current());
}
