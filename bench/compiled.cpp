// What whole compiled models cost, and what the peers that LibTorch itself runs cost: AOTInductor's packages and frozen
// TorchScript, called from C++ as fxx is.
//
// usage: bench_compiled [--threads N] [--only MODEL[,MODEL]] [--accuracy exact|standard|fast|int8] [--build FOLDER]
//                       [--march PROCESSOR] [--tune yes] [--entry tensors|raw]
//                       [--peer PEER --folder FOLDER] [--plan yes]
//        bench_compiled --traces FOLDER [--only MODEL[,MODEL]]
//        bench_compiled --peak [--threads N] [--march PROCESSOR]
//   --peer    an AOTInductor package (aoti, aoti_max, aoti_bf16 ...) or torchscript, of what peers/compiled.py left in
//             FOLDER, instead of fxx
//   --build   seconds from a graph to a loaded module instead; FOLDER is an empty one to build in
//   --march   the processor that fxx compiles for instead of this one, such as haswell
//   --tune    the ways of computing steps are measured before, or found where they were kept
//   --entry   how fxx is called: with tensors, which it checks and whose results it allocates, as AOTInductor, TorchScript
//             and most others are called (the default), or raw, with places for inputs and results that are made once,
//             as OpenVINO, ONNX Runtime with bindings, MNN and LiteRT are
//   --plan    the steps of each model with their times instead, as text
//   --traces  leaves the models' traces, weights and inputs in FOLDER instead (traced.hpp)
//   --peak    floating point operations a second that this processor reaches with so many threads, with AVX2 alone for
//             haswell
// Prints a JSON object a line, as peers/compiled.py does: model, threads, ms (the least of at least ten calls), error
// (largest, relative to the largest value of each result, against the same model in double precision), flops, megabytes
// (packed weights, workspace, the most that the program has while it runs but for results, what it had before and what
// the first compiled model of a program brings),
// reference (mean magnitude of each result in double precision: tells that both sides have the same model); or model,
// threads and why there are no figures.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "compiled_models.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/quantise.hpp"

namespace {
using bench::Tensors;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Settings {
  int threads = 1;
  std::set<std::string> only = {};
  std::string accuracy = "standard", march = "native", build_folder = {}, peer = {}, folder = {}, traces = {};
  bool plan = false, tune = false, raw = false;
};

// --- what is timed ---------------------------------------------------------------------------------------------------

/// A model made ready, by fxx or by a peer.
struct Subject {
  virtual ~Subject() = default;
  virtual void call() = 0;
  /// What a call returns.
  virtual Tensors results() = 0;
  /// What else is worth a line.
  virtual nlohmann::json facts() { return nlohmann::json::object(); }
};

void flatten(const c10::IValue& value, Tensors& out) {
  if (value.isTensor()) out.push_back(value.toTensor());
  else if (value.isTuple())
    for (const c10::IValue& v : value.toTupleRef().elements()) flatten(v, out);
  else
    for (const c10::IValue& v : value.toListRef()) flatten(v, out);
}

/// Bytes of a line of /proc/self/status, such as "RssAnon"; 0 where there is none.
double status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == name + ":" && status >> kilobytes) return 1024 * kilobytes;
  return 0;
}
/// Bytes of memory that no file backs, which the program has now; what is free in its heap goes back before.
double memory_now() {
  ::malloc_trim(0);
  return status_bytes("RssAnon");
}
/// What every program with a compiled model has once, and not each model: the tables of rules, kernels and
/// decompositions.
void warm_up(const Settings& settings) {
  struct Tiny : torch::nn::Module {
    torch::nn::Linear linear{register_module("linear", torch::nn::Linear(4, 4))};
    at::Tensor forward(at::Tensor x) { return linear(x).relu(); }
  };
  const auto tiny = std::make_shared<Tiny>();
  const at::Tensor x = at::ones({1, 4});
  fxx::compile(*fxx::trace(*tiny, {x}), {x}, {.threads = 1, .march = settings.march})->forward(x);
}
/// The most that it had while the function ran.
template <class F>
double most_memory(F&& f) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // begins to look for the most anew
  f();
  return status_bytes("VmHWM") - status_bytes("RssFile");
}

class Compiled final : public Subject {
 public:
  Compiled(const bench::Instance& model, const Settings& settings) : inputs_(model.inputs), raw_(settings.raw) {
    if (settings.build_folder.empty()) {  // else nothing is to be warm
      // What LibTorch keeps for its own convolutions is not ours, and the table of operators is the process's.
      {
        const at::NoGradGuard no_grad;
        model.forward(model.inputs);
      }
      model.trace(model.inputs, {});
      warm_up(settings);
    }
    memory_before_ = memory_now();
    auto graph_module = model.trace(model.inputs, {});
    if (settings.accuracy == "int8") {  // the model then is what it is quantised to, whose weights are its own
      graph_module = fxx::quantise(*graph_module, {model.inputs});
      memory_before_ = memory_now();
    }
    // Its own check is against the interpreter in single precision; what counts here is the error against double.
    const fxx::CompileOptions options{.accuracy = settings.accuracy == "exact"  ? fxx::Accuracy::exact
                                                  : settings.accuracy == "fast" ? fxx::Accuracy::fast
                                                                                : fxx::Accuracy::standard,
                                      .tolerance = 0.1,
                                      .tune = settings.tune,
                                      .march = settings.march,
                                      .cache_folder = settings.build_folder};
    const auto start = Clock::now();
    module_ = fxx::compile(*graph_module, model.inputs, options);
    seconds_ = seconds_since(start);
    flatten(module_->run_flat({model.inputs.begin(), model.inputs.end()}), results_);
    for (auto& result : results_) {
      result = at::full_like(result, std::numeric_limits<double>::quiet_NaN());  // to see that it is written
      to_.push_back(result.data_ptr());
    }
    for (const auto& input : inputs_) from_.push_back(input.data_ptr());
  }
  void call() override {
    if (raw_) module_->run_raw(from_.data(), to_.data());
    else last_ = module_->run_flat({inputs_.begin(), inputs_.end()});
  }
  Tensors results() override {
    call();
    if (raw_) return results_;
    Tensors found;
    flatten(last_, found);
    return found;
  }
  nlohmann::json facts() override {
    double flops = 0;
    double results = 0;  // are the caller's
    for (const auto& result : results_) results += static_cast<double>(result.nbytes());
    last_ = {};  // a caller's, too
    const auto raw = [&] { module_->run_raw(from_.data(), to_.data()); };
    raw();
    const double most = most_memory([&] {
      for (int i = 0; i < 3; ++i) raw();
    });
    for (const fxx::KernelStep& step : module_->kernel_plan().steps) flops += step.flops;
    return {{"build_s", seconds_},
            {"cached", module_->was_cached()},
            {"called_back", module_->called_back().size()},
            {"weights_mb", module_->weight_bytes() / 1e6},
            {"workspace_mb", module_->workspace_bytes() / 1e6},
            {"memory_mb", (most - memory_before_ - results) / 1e6},
            {"flops", flops}};
  }
  std::string plan() const { return module_->kernel_plan().to_string(module_->profile(inputs_, 20)); }

 private:
  Tensors inputs_;  // whose memory the calls read
  std::shared_ptr<fxx::CompiledModule> module_;
  bool raw_;
  c10::IValue last_;  // what the last call with tensors gave
  Tensors results_;   // what raw calls write
  std::vector<const void*> from_;
  std::vector<void*> to_;
  double seconds_ = 0, memory_before_ = 0;
};

class Package final : public Subject {
 public:
  Package(const bench::Instance& model, const std::string& path)
      : inputs_(model.inputs), loader_(path, "model", /*run_single_threaded=*/true) {}
  void call() override { loader_.run(inputs_); }
  Tensors results() override { return loader_.run(inputs_); }

 private:
  Tensors inputs_;
  torch::inductor::AOTIModelPackageLoader loader_;
};

class Script final : public Subject {
 public:
  Script(const bench::Instance& model, const std::string& path) : inputs_(model.inputs.begin(), model.inputs.end()) {
    auto module = torch::jit::freeze(torch::jit::load(path));
    module_ = torch::jit::optimize_for_inference(module);
    forward_ = module_.get_method("forward");
  }
  void call() override { (*forward_)(inputs_); }
  Tensors results() override {
    Tensors found;
    flatten((*forward_)(inputs_), found);
    return found;
  }

 private:
  std::vector<c10::IValue> inputs_;
  torch::jit::Module module_;
  std::optional<torch::jit::Method> forward_;
};

/// Where files of a model lie: FOLDER/resnet18_b8.
std::string stem_of(const std::string& folder, std::string model) {
  std::replace(model.begin(), model.end(), '/', '_');
  return folder + "/" + model;
}

std::unique_ptr<Subject> make_ready(const std::string& name, const bench::Instance& model, const Settings& settings) {
  const std::string file = stem_of(settings.folder, name);
  if (settings.peer.empty()) return std::make_unique<Compiled>(model, settings);
  if (settings.peer == "torchscript") return std::make_unique<Script>(model, file + ".pt");
  return std::make_unique<Package>(model,
                                   file + "." + settings.peer + "." + std::to_string(settings.threads) + "t.pt2");
}

// --- figures ---------------------------------------------------------------------------------------------------------

/// The least milliseconds of a call: of ten calls at least, for half a second; of four where each takes more than a
/// second, since there are rounds. Short ones are timed several at once: reading the clock takes as long as they do.
double least_milliseconds(Subject& subject) {
  double least = std::numeric_limits<double>::infinity();
  const auto turn = [&](int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) subject.call();
    return seconds_since(start) / calls;
  };
  least = turn(1);
  const bool slow = least > 1;
  for (int i = 0; i < 2 && !slow; ++i) least = turn(1);
  const int calls = least > 20e-6 ? 1 : static_cast<int>(20e-6 / std::max(least, 1e-8)) + 1;
  const auto start = Clock::now();
  for (int i = 0; i < (slow ? 3 : 10) || (seconds_since(start) < 0.5 && i < 20000); ++i)
    least = std::min(least, turn(calls));
  return least * 1e3;
}

Tensors exact_results(const bench::Entry& entry) {
  const bench::Instance model = entry.make_double();
  Tensors results;
  flatten(model.forward(model.inputs), results);
  return results;
}

double error_of(const Tensors& got, const Tensors& exact) {
  if (got.size() != exact.size()) throw std::runtime_error("so many results: " + std::to_string(got.size()));
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto y = got[i].to(at::kDouble);
    if (y.sizes() != exact[i].sizes()) throw std::runtime_error("a result has another shape");
    const double error = (y - exact[i]).abs().max().item<double>() / exact[i].abs().max().item<double>();
    // A maximum loses nan on this side of the comparison.
    worst = error <= worst ? worst : error;
  }
  return worst;
}

/// Leaves the model as files, for the peers. In double precision only the graph, since the weights are the same.
nlohmann::json write_trace(const bench::Entry& entry, const std::string& folder) {
  const std::string stem = stem_of(folder, entry.name);
  {
    const fxx::fake on;
    const bench::Instance model = entry.make_double();
    bench::write_graph(stem + ".double.graph", *model.trace(model.inputs, bench::plain_trace));
  }
  const bench::Instance model = entry.make();
  bench::write_trace(stem, *model.trace(model.inputs, bench::plain_trace), model.inputs);
  return {{"model", entry.name}};
}

nlohmann::json figures(const bench::Entry& entry, const Settings& settings) {
  nlohmann::json line = {{"model", entry.name}, {"threads", settings.threads}};
  if (!settings.peer.empty()) line["peer"] = settings.peer;
  try {
    const bool is_build = !settings.build_folder.empty();
    const Tensors exact = is_build ? Tensors() : exact_results(entry);  // first: its weights are gone again
    const bench::Instance model = entry.make();
    const auto subject = make_ready(entry.name, model, settings);
    line.update(subject->facts());
    if (is_build) return line;
    line["error"] = error_of(subject->results(), exact);
    if (settings.peer.empty()) {
      Tensors eager;
      flatten(model.forward(model.inputs), eager);
      line["eager_error"] = error_of(eager, exact);
    }
    line["ms"] = least_milliseconds(*subject);
    if (settings.peer.empty()) {
      line["entry"] = settings.raw ? "raw" : "tensors";
      for (const auto& y : exact) line["reference"].push_back(y.abs().mean().item<double>());
    }
  } catch (const c10::Error& e) {
    line["why"] = e.what_without_backtrace();
  } catch (const std::exception& e) {
    line["why"] = e.what();
  }
  return line;
}

// --- the processor's peak --------------------------------------------------------------------------------------------

/// A chain of multiply-adds in each of twelve registers of `Vector`, enough to hide their latency; never called but
/// from functions that may use such registers.
template <class Vector>
[[gnu::always_inline]] inline float multiply_add(int turns, float scale, float shift) {
  constexpr int registers = 12;
  Vector sums[registers];
  for (int r = 0; r < registers; ++r) sums[r] = Vector{} + static_cast<float>(r);
  const Vector a = Vector{} + scale, b = Vector{} + shift;
  for (int i = 0; i < turns; ++i) {
#pragma GCC unroll 12
    for (int r = 0; r < registers; ++r) sums[r] = sums[r] * a + b;
  }
  Vector sum = sums[0];
  for (int r = 1; r < registers; ++r) sum += sums[r];
  return sum[0];
}
#if defined(__x86_64__)
using Vector16 = float __attribute__((vector_size(64)));
using Vector8 = float __attribute__((vector_size(32)));
__attribute__((target("avx512f,fma"))) float run_avx512(int turns, float a, float b) {
  return multiply_add<Vector16>(turns, a, b);
}
__attribute__((target("avx2,fma"))) float run_avx2(int turns, float a, float b) {
  return multiply_add<Vector8>(turns, a, b);
}
#endif
using Vector4 = float __attribute__((vector_size(16)));
float run_plain(int turns, float a, float b) { return multiply_add<Vector4>(turns, a, b); }

/// Billions of floating point operations a second with so many threads at once, the best of some turns.
nlohmann::json peak(int threads, bool wide) {
  float (*run)(int, float, float) = run_plain;
  volatile float scale = 0.999f, shift = 0.001f;  // not known to the compiler, which would fold
  int lanes = 4;
  const char* name = "plain";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) run = run_avx2, lanes = 8, name = "AVX2";
  if (wide && __builtin_cpu_supports("avx512f")) run = run_avx512, lanes = 16, name = "AVX512";
#endif
  constexpr int turns = 500'000;
  double best = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<double> seconds(static_cast<std::size_t>(threads));
    std::vector<std::thread> workers;
    for (double& s : seconds)
      workers.emplace_back([&s, run, a = float{scale}, b = float{shift}] {
        const auto start = Clock::now();
        volatile float sink = run(turns, a, b);
        static_cast<void>(sink);
        s = seconds_since(start);
      });
    for (auto& worker : workers) worker.join();
    best = std::max(best, 2.0 * 12 * lanes * turns * threads / *std::max_element(seconds.begin(), seconds.end()));
  }
  return {{"peak_gflops", best * 1e-9}, {"threads", threads}, {"instructions", name}};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool only_peak = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--peak") {
      only_peak = true;
    } else {
      const std::string value = i + 1 < argc ? argv[++i] : "";
      if (word == "--threads" && std::atoi(value.c_str()) > 0) settings.threads = std::atoi(value.c_str());
      else if (word == "--accuracy" && (value == "exact" || value == "standard" || value == "fast" || value == "int8"))
        settings.accuracy = value;
      else if (word == "--march") settings.march = value;
      else if (word == "--build") settings.build_folder = value;
      else if (word == "--peer") settings.peer = value;
      else if (word == "--plan") settings.plan = value == "yes";
      else if (word == "--tune") settings.tune = value == "yes";
      else if (word == "--entry" && (value == "tensors" || value == "raw")) settings.raw = value == "raw";
      else if (word == "--folder") settings.folder = value;
      else if (word == "--traces") settings.traces = value;
      else if (word == "--only") {
        std::istringstream names(value);
        for (std::string name; std::getline(names, name, ',');) settings.only.insert(name);
      } else {
        std::fprintf(stderr, "%s: %s %s is not understood\n", argv[0], word.c_str(), value.c_str());
        return 2;
      }
    }
  }
  const auto print = [](const nlohmann::json& line) {
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  };
  if (only_peak) {
    print(peak(settings.threads, settings.march != "haswell"));
    return 0;
  }
  at::set_num_threads(settings.threads);
  const torch::NoGradGuard no_grad;
  for (const bench::Entry& entry : bench::compiled_models()) {
    if (!settings.only.empty() && !settings.only.contains(entry.name)) continue;
    if (settings.plan) std::printf("%s\n%s\n", entry.name.c_str(), Compiled(entry.make(), settings).plan().c_str());
    else if (!settings.traces.empty()) print(write_trace(entry, settings.traces));
    else print(figures(entry, settings));
  }
}
