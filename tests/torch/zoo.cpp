// The zoo of models (tests/models), traced as they are, in double precision: results, gradients and random numbers of
// the graphs are those of the modules; graphs are sound, print, parse and copy; their C++, both the readable form and
// the one that build() makes, is compiled and computes the same.
//
// All models have their full depth; few channels and small inputs keep one in milliseconds. What the compiler makes is
// kept in FXX_CACHE_DIR.
#include "../models/all.hpp"
#include "fxx/codegen/module_source.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/runtime/cache.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

/// A model of the zoo in double precision with two sets of inputs.
struct Subject {
  zoo::Model model;
  Tensors inputs, other;

  explicit Subject(const zoo::Entry& entry) : model(zoo::build(entry)) {
    const auto in_double = [](Tensors tensors) {
      for (Tensor& t : tensors)
        if (t.is_floating_point()) t = t.to(torch::kDouble);
      return tensors;
    };
    const torch::NoGradGuard no_grad;
    for (const auto& tensors : {model.module->parameters(), model.module->buffers()})
      for (const Tensor& t : tensors)  // Module::to would take integers along
        if (t.is_floating_point()) t.set_data(t.to(torch::kDouble));
    inputs = in_double(model.inputs());
    other = in_double(model.inputs());
  }

  const torch::nn::Module& module() const { return *model.module; }
  std::shared_ptr<GraphModule> trace(const TraceOptions& options = {}) const {
    return fxx::detail::trace_module(
        *model.module, true,
        [&](std::span<const Tensor> in) {
          return model.forward({in.begin(), in.end()});
        },
        cloned(inputs), options);
  }
  /// The module itself, for what takes modules by their type.
  template <class Impl>
  Impl& as() const {
    return dynamic_cast<Impl&>(*model.module);
  }
};

using Gradients = std::vector<std::pair<std::string, Tensor>>;
/// The same gradients; `given` may lack parameters that have none.
void check_gradients(const Gradients& given, const Gradients& expected) {
  std::set<std::string> names;
  for (const auto& [name, gradient] : given) names.insert(name);
  for (const auto& [name, gradient] : expected) {
    CAPTURE(name);
    CHECK((names.contains(name) || !gradient.defined()));
  }
  const std::map<std::string, Tensor> by_name(expected.begin(), expected.end());
  double largest = 0;
  for (const auto& [name, gradient] : expected)
    if (gradient.defined() && gradient.numel()) largest = std::max(largest, gradient.abs().max().item<double>());
  REQUIRE(largest > 0);
  for (const auto& [name, gradient] : given) {
    CAPTURE(name);
    REQUIRE(by_name.contains(name));
    CHECK(relative_difference(gradient, by_name.at(name)) <= 1e-8);
  }
}

/// `check(entry)` for every model; what one throws does not keep the others from being checked.
void for_each_model(void (*check)(const zoo::Entry&)) {
  for (const zoo::Entry& entry : zoo::models()) {
    SUBCASE(entry.name) {
      try {
        check(entry);
      } catch (const std::exception& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
  }
}

void check_evaluation(const zoo::Entry& entry) {
  const Subject subject(entry);
  const auto gm = subject.trace();
  check_forward(subject.model.forward, nullptr, *gm, {subject.inputs, subject.other}, 1e-10);
  for (const Tensors& inputs : {subject.inputs, subject.other})
    check_gradients(gradients(forward_of(*gm), subject.module(), inputs),
                    gradients(subject.model.forward, subject.module(), inputs));

  const Graph copy = gm->graph();
  copy.lint();
  CHECK(same_structure(copy, gm->graph()));
  CHECK(to_string(copy) == to_string(gm->graph()));
  const auto clone = std::dynamic_pointer_cast<GraphModule>(gm->clone());
  REQUIRE(clone);
  const torch::NoGradGuard no_grad;
  const c10::IValue expected = subject.model.forward(cloned(subject.other));
  for (const auto& parameter : gm->named_parameters()) parameter.value().zero_();
  CHECK(relative_difference(forward_of(*clone)(subject.other), expected) <= 1e-10);
}
TEST_CASE("in evaluation: results and gradients on two inputs, text, copies") { for_each_model(check_evaluation); }

void check_training(const zoo::Entry& entry) {
  const Subject subject(entry);
  subject.model.module->train();
  const Tensors buffers = subject.model.module->buffers(), before = cloned(buffers);
  const auto restore = [&] {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before[i]);
    torch::manual_seed(7);
  };
  const auto gm = subject.trace();
  const auto run = [&](const Forward& forward) {
    restore();
    const torch::NoGradGuard no_grad;
    return std::pair(forward(cloned(subject.other)), cloned(buffers));
  };
  const auto [expected, expected_buffers] = run(subject.model.forward);
  const auto [given, given_buffers] = run(forward_of(*gm));
  CHECK(relative_difference(given, expected) <= 1e-10);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    CHECK(relative_difference(given_buffers[i], expected_buffers[i]) <= 1e-10);
  restore();
  const Gradients by_graph = gradients(forward_of(*gm), subject.module(), subject.other);
  restore();
  check_gradients(by_graph, gradients(subject.model.forward, subject.module(), subject.other));
}
TEST_CASE("in training: the same random numbers, statistics and gradients") { for_each_model(check_training); }

TEST_CASE("what a trace has to tell of each model, in either mode") {
  for_each_model([](const zoo::Entry& entry) {
    for (const bool training : {false, true}) {
      CAPTURE(training);
      const Subject subject(entry);
      subject.model.module->train(training);
      TraceReport report;
      subject.trace({.report = &report});
      std::string told;
      for (const std::string& note : report.notes) told += note + "\n";
      CAPTURE(told);
      if (std::string_view(entry.name) == "swin_t") {  // whose branches are dropped by code, in training alone
        REQUIRE(report.notes.size() == 1);
        CHECK(report.notes[0].find("the code asks whether it trains") != std::string::npos);
        CHECK(told.find(training ? "trains: %empty" : "in eval mode is %empty") != std::string::npos);
      } else {
        CHECK(report.notes.empty());
      }
    }
  });
}

/// A model traced as users trace it; the graph is the one that the other tests look at.
template <class Impl>
void check_public_trace(const std::string& name) {
  CAPTURE(name);
  const auto entry =
      std::find_if(zoo::models().begin(), zoo::models().end(), [&](const zoo::Entry& e) { return e.name == name; });
  REQUIRE(entry != zoo::models().end());
  const Subject subject(*entry);
  auto& module = subject.as<Impl>();
  const auto gm = fxx::trace(module, cloned(subject.inputs));
  CHECK(to_string(gm->graph()) == to_string(subject.trace()->graph()));
  check_traced(module, *gm, {subject.inputs, subject.other}, 1e-5);
}
TEST_CASE("fxx::trace of models with one input, two and three") {
  check_public_trace<zoo::UNetImpl>("unet");
  check_public_trace<zoo::GcnImpl>("gcn");
  check_public_trace<zoo::T5Impl>("t5");
}

TEST_CASE("rewritten by every rule that ships") {
  for_each_model([](const zoo::Entry& entry) {
    const Subject subject(entry);
    const auto gm = subject.trace();
    optimize_for_inference(*gm);
    check_forward(subject.model.forward, nullptr, *gm, {subject.inputs, subject.other}, 1e-10);
  });
}

TEST_CASE("build() of every model") {
  for_each_model([](const zoo::Entry& entry) {
    const Subject subject(entry);
    const auto compiled = build(*subject.trace(), subject.inputs, {.tolerance = 1e-10});
    const torch::NoGradGuard no_grad;
    REQUIRE(compiled->is_current());
    CHECK(relative_difference(forward_of(*compiled)(subject.other), subject.model.forward(cloned(subject.other))) <=
          1e-10);
  });
}

TEST_CASE("compile() of every model: in single precision, beside the model in double precision") {
  for_each_model([](const zoo::Entry& entry) {
    const Subject exact(entry);
    const zoo::Model model = zoo::build(entry);
    const auto in_single = [](Tensors tensors) {
      for (Tensor& t : tensors)
        if (t.is_floating_point()) t = t.to(torch::kFloat);
      return tensors;
    };
    const Tensors inputs = in_single(exact.inputs), other = in_single(exact.other);
    const torch::NoGradGuard no_grad;
    const auto gm = fxx::detail::trace_module(*model.module, true,
                                              [&](std::span<const Tensor> in) {
                                                return model.forward({in.begin(), in.end()});
                                              },
                                              cloned(inputs), {.training_flags = false});
    const auto compiled = compile(*gm, inputs, {.threads = 2});
    REQUIRE(compiled->is_current());
    CHECK(compiled->max_error() < 1e-5);
    const Tensors given = tensors_of(forward_of(*compiled)(other));
    const Tensors expected = tensors_of(exact.model.forward(cloned(exact.other)));
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i)
      CHECK(relative_difference(given[i].to(torch::kDouble), expected[i].to(torch::kDouble)) <= 1e-5);
    CHECK(compiled->interpreted().empty());
    const KernelPlan& plan = compiled->kernel_plan();
    CHECK(plan.called_back().empty());  // all operators of all models have kernels
    const std::string table = plan.to_string();
    CHECK(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')) == plan.steps.size() + 2);
    CHECK(static_cast<double>(plan.arena_bytes) <= 1.1 * static_cast<double>(plan.live_bytes));
  });
}

/// All models as readable C++ in one library: reading LibTorch's headers costs the compiler more than any of them.
using Graphs = std::map<std::string, std::shared_ptr<GraphModule>>;
Library library_of(const Graphs& graphs) {
  BuildRequest request;
  for (const auto& [name, gm] : graphs) {
    const ModuleSource code = module_source(gm->graph(), gm->owner(), name, "torch/torch.h");
    std::string inputs;
    const auto count = gm->graph().find_nodes(Opcode::placeholder).size();
    for (std::size_t k = 0; k < count; ++k) inputs += (k ? ", in[" : "in[") + std::to_string(k) + "]";
    request.source += code.header + code.source + "extern \"C\" void make_" + name +
                      "(std::shared_ptr<torch::nn::Module>& made) { made = std::make_shared<" + name +
                      "Impl>(); }\nextern \"C\" void run_" + name +
                      "(torch::nn::Module& module, const std::vector<at::Tensor>& in, c10::IValue& out) {\n  out = "
                      "static_cast<" +
                      name + "Impl&>(module).forward(" + inputs + ");\n}\n";
  }
  const std::string torch = torch_folder();
  request.flags = {"-std=c++20", "-O0", "-w", "-D_GLIBCXX_USE_CXX11_ABI=" + std::to_string(_GLIBCXX_USE_CXX11_ABI)};
  request.include_folders = {torch + "/include", torch + "/include/torch/csrc/api/include"};
  request.library_folders = {torch + "/lib"};
  request.libraries = {"torch", "torch_cpu", "c10"};
  request.rpaths = {torch + "/lib"};
  request.timeout_seconds = 600;
  return Library(BuildCache().get_or_build(request));
}

/// The zoo, and a model whose batch and length are dynamic.
struct ReadableModels {
  Graphs graphs;
  Library library;

  static const ReadableModels& get() {
    static const ReadableModels models = [] {
      Graphs graphs;
      for (const zoo::Entry& entry : zoo::models()) {
        const Subject subject(entry);
        graphs.emplace(entry.name, subject.trace());
        if (std::string_view(entry.name) == "gpt2_prefill")
          graphs.emplace("gpt2_dynamic", fxx::trace(subject.as<zoo::GptImpl>(), cloned(subject.inputs),
                                                    {{0, 0, "batch", 1}, {0, 1, "time", 2, 32}}));
      }
      Library library = library_of(graphs);
      return ReadableModels{std::move(graphs), std::move(library)};
    }();
    return models;
  }
  /// The module that the C++ makes, with the tensors of the graph's.
  std::shared_ptr<torch::nn::Module> make(const std::string& name) const {
    std::shared_ptr<torch::nn::Module> module;
    library.symbol<void(std::shared_ptr<torch::nn::Module>&)>(("make_" + name).c_str())(module);
    module->eval();
    const auto fill = [](const auto& to, const auto& from) {
      CHECK(to.size() == from.size());
      for (const auto& item : to) {
        CAPTURE(item.key());
        const Tensor* value = from.find(item.key());
        REQUIRE(value);
        item.value().set_data(value->detach().clone());
      }
    };
    const GraphModule& gm = *graphs.at(name);
    fill(module->named_parameters(), gm.named_parameters());
    fill(module->named_buffers(), gm.named_buffers());
    return module;
  }
  Forward forward(const std::string& name, std::shared_ptr<torch::nn::Module> module) const {
    auto* run = library.symbol<void(torch::nn::Module&, const Tensors&, c10::IValue&)>(("run_" + name).c_str());
    return [run, module = std::move(module)](const Tensors& inputs) {
      c10::IValue result;
      run(*module, cloned(inputs), result);
      return result;
    };
  }
};

TEST_CASE("readable C++ of every model compiles; results and gradients are the model's") {
  for_each_model([](const zoo::Entry& entry) {
    const ReadableModels& readable = ReadableModels::get();
    const Subject subject(entry);
    const auto module = readable.make(entry.name);
    const Forward forward = readable.forward(entry.name, module);
    {
      const torch::NoGradGuard no_grad;
      CHECK(relative_difference(forward(subject.other), subject.model.forward(cloned(subject.other))) <= 1e-10);
    }
    check_gradients(gradients(forward, *module, subject.other),
                    gradients(subject.model.forward, subject.module(), subject.other));
  });
}

TEST_CASE("readable C++ of a graph with dynamic sizes is right at sizes that nobody traced") {
  const ReadableModels& readable = ReadableModels::get();
  const GraphModule& gm = *readable.graphs.at("gpt2_dynamic");
  const std::string code = gm.code();
  CAPTURE(code);
  for (const char* words : {"batch = x.size(0)", "time = x.size(1)", "torch::arange(0, time"}) {
    CAPTURE(words);
    CHECK(code.find(words) != std::string::npos);
  }
  const auto entry = std::find_if(zoo::models().begin(), zoo::models().end(),
                                  [](const zoo::Entry& e) { return std::string_view(e.name) == "gpt2_prefill"; });
  const Subject subject(*entry);
  const Forward forward = readable.forward("gpt2_dynamic", readable.make("gpt2_dynamic"));
  const torch::NoGradGuard no_grad;
  for (const auto& [batch, time] : {std::pair<int, int>{2, 9}, {3, 17}, {1, 3}, {7, 2}, {2, 31}, {1, 32}}) {
    CAPTURE(batch);
    CAPTURE(time);
    const Tensors ids{torch::randint(1, 101, {batch, time}, torch::kLong)};
    CHECK(relative_difference(forward(ids), subject.model.forward(ids)) <= 1e-10);
  }
}

TEST_CASE("traced with fake tensors: the graph of the real ones, in evaluation and in training") {
  for_each_model([](const zoo::Entry& entry) {
    for (bool training : {false, true}) {
      const auto graph = [&] {
        const zoo::Model model = zoo::build(entry);
        model.module->train(training);
        const auto gm = fxx::detail::trace_module(*model.module, true,
                                                  [&](std::span<const Tensor> in) {
                                                    return model.forward({in.begin(), in.end()});
                                                  },
                                                  model.inputs(), {});
        gm->graph().lint();
        for (const Tensor& p : gm->parameters()) CHECK(is_fake(p) == is_fake_scope());
        return to_string(gm->graph());
      };
      const std::string real = graph();
      const fxx::fake on;
      CHECK(graph() == real);
    }
  });
}

TEST_CASE("models of published size are traced with fake tensors") {
  for_each_model([](const zoo::Entry& entry) {
    const fxx::fake on;
    const zoo::Model model = zoo::build(entry, zoo::Size::full);
    const auto gm = fxx::detail::trace_module(*model.module, true,
                                              [&](std::span<const Tensor> in) {
                                                return model.forward({in.begin(), in.end()});
                                              },
                                              model.inputs(), {});
    gm->graph().lint();
    CHECK(!gm->parameters().empty());
    for (const Tensor& result : tensors_of(forward_of(*gm)(model.inputs()))) CHECK(is_fake(result));
  });
}

TEST_CASE("models of published size have as many parameters as published") {
  for (const zoo::Entry& entry : zoo::models()) {
    if (entry.parameters == 0) continue;
    CAPTURE(entry.name);
    std::int64_t count = 0;
    for (const Tensor& p : entry.make(true).module->parameters()) count += p.numel();
    CHECK(count == entry.parameters);
  }
}

}  // namespace
