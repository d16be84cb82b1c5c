// Modules that several threads call, make and watch at once. A program of its own, built with ThreadSanitizer from the
// headers alone, so that all of fxx in it is watched, and what it compiles is, too (FXX_KERNEL_FLAGS). LibTorch is not:
// torch/threads.supp says what that leaves out.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "fxx/runtime/process.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/doctest.hpp"
// after doctest
#include "runtime/support.hpp"

using namespace fxx;
using support::TemporaryFolder;
using torch::Tensor;

namespace {

/// Kernels of images, products, rows and loops, with barriers between them.
struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)));
  torch::nn::BatchNorm2d bn = register_module("bn", torch::nn::BatchNorm2d(16));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(16, 40));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({40})));
  Tensor forward(Tensor image) {
    return torch::softmax(norm(fc(torch::relu(bn(conv(image))).mean({2, 3}))), -1);
  }
};
TORCH_MODULE(Net);
/// Writes to a buffer in each call.
struct CountsImpl : torch::nn::Module {
  Tensor count = register_buffer("count", torch::zeros({70}));
  Tensor forward(Tensor x) {
    count.add_(1);
    return x * 0 + count;
  }
};
TORCH_MODULE(Counts);

/// Runs `body(number)` in so many threads, which begin at the same time. What one throws is a failure.
void at_once(int threads, const std::function<void(int)>& body) {
  std::atomic<int> ready = 0, failed = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      const torch::NoGradGuard no_grad;
      ++ready;
      while (ready < threads) std::this_thread::yield();
      try {
        body(t);
      } catch (const std::exception& e) {
        ++failed;
        std::fprintf(stderr, "a thread failed: %s\n", e.what());
      }
    });
  for (std::thread& thread : all) thread.join();
  CHECK(failed == 0);
}
Tensor image(int n) { return torch::linspace(-1, 1 + n, 2 * 3 * 8 * 8).reshape({2, 3, 8, 8}); }
bool near(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && (a - b).abs().max().item<float>() <= 1e-5f;
}

struct Case {
  Net net;
  Tensor images[4], expected[4];
  std::shared_ptr<GraphModule> gm;
  TemporaryFolder cache;
  Case() {
    torch::manual_seed(3);
    net->eval();
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < 4; ++i) expected[i] = net->forward(images[i] = image(i));
    gm = trace(net, {images[0]});
  }
  std::shared_ptr<CompiledModule> compiled(int threads) {
    return fxx::compile(*gm, {images[0]}, {.threads = threads, .cache_folder = cache.path()});
  }
};

}  // namespace

TEST_CASE("the first calls of a graph module come at once, and others read its graph and code") {
  Case c;
  std::atomic<int> wrong = 0;
  at_once(4, [&](int t) {
    for (int i = 0; i < 5; ++i) wrong += !near(c.gm->forward(c.images[t]), c.expected[t]);
    if (t == 0) wrong += c.gm->code().empty();
    if (t == 1) wrong += to_string(c.gm->graph()).empty();
  });
  CHECK(wrong == 0);
}

TEST_CASE("threads compile one graph module at once, and call what they get") {
  Case c;
  std::atomic<int> wrong = 0;
  at_once(3, [&](int t) {
    const auto compiled = c.compiled(1 + t % 2);
    wrong += !near(compiled->run({c.images[t]}).toTensor(), c.expected[t]);
    wrong += !near(c.gm->forward(c.images[t]), c.expected[t]);
  });
  CHECK(wrong == 0);
}

TEST_CASE("calls of a compiled module of several threads, while others ask it and give its memory back") {
  Case c;
  const auto compiled = c.compiled(2);
  std::atomic<int> wrong = 0;
  at_once(4, [&](int t) {
    for (int i = 0; i < 20; ++i) {
      const Tensor out = t % 2 ? compiled->forward(c.images[t]) : compiled->run({c.images[t]}).toTensor();
      wrong += !near(out, c.expected[t]);
      wrong += !compiled->is_current();
      if (t == 3 && i % 5 == 0) compiled->free_workspaces();
      if (t == 2 && i % 5 == 0) wrong += compiled->workspaces() > 64;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("calls without tensors, profiles and copies beside calls") {
  Case c;
  const auto compiled = c.compiled(2);
  std::atomic<int> wrong = 0;
  at_once(3, [&](int t) {
    if (t == 0) wrong += compiled->profile({c.images[0]}, 3).empty();
    if (t == 1) {
      const auto copy = std::dynamic_pointer_cast<CompiledModule>(compiled->clone());
      wrong += !near(copy->run({c.images[1]}).toTensor(), c.expected[1]);
    }
    for (int i = 0; i < 10; ++i) {
      Tensor out = torch::empty({2, 40});
      const void* in[] = {c.images[t].const_data_ptr()};
      void* to[] = {out.data_ptr()};
      compiled->run_raw(in, to);
      wrong += !near(out, c.expected[t]);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a module that changed runs interpreted in all threads at once, and is compiled again by one") {
  Case c;
  const auto compiled = c.compiled(2);
  const torch::NoGradGuard no_grad;
  c.net->fc->bias.add_(1);  // before the threads begin: the results are others, and the kernels are not current
  for (int i = 0; i < 4; ++i) c.expected[i] = c.net->forward(c.images[i]);
  std::atomic<int> wrong = 0;
  at_once(4, [&](int t) {
    if (t == 0) wrong += !near(c.compiled(2)->run({c.images[0]}).toTensor(), c.expected[0]);
    for (int i = 0; i < 5; ++i) wrong += !near(compiled->run({c.images[t]}).toTensor(), c.expected[t]);
    wrong += compiled->is_current();
  });
  CHECK(wrong == 0);
}

TEST_CASE("calls that write to a buffer come one after the other, and none is lost") {
  Counts counts;
  counts->eval();
  const Tensor x = torch::linspace(0, 1, 70);
  const auto gm = trace(counts, {x});
  TemporaryFolder cache;
  {
    const torch::NoGradGuard no_grad;
    counts->count.zero_();
  }
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 2, .cache_folder = cache.path()});
  std::atomic<int> stale = 0;
  at_once(4, [&](int) {
    for (int i = 0; i < 10; ++i) compiled->run({x}), stale += !compiled->is_current();
  });
  CHECK(stale == 0);
  CHECK(counts->count[69].item<float>() == 40);
}

TEST_CASE("a graph with dynamic sizes is compiled for several of them at once, and runs interpreted at others") {
  Net net;
  net->eval();
  const auto gm = trace(net, {image(0)}, {{0, 0, "batch"}});
  TemporaryFolder cache;
  std::atomic<int> wrong = 0;
  at_once(3, [&](int t) {
    const auto of_size = [&](int images) {
      return torch::cat(std::vector<Tensor>(static_cast<std::size_t>(images), image(t)));
    };
    const auto compiled = fxx::compile(*gm, {of_size(1 + t)}, {.threads = 2, .cache_folder = cache.path()});
    for (int i = 1; i < 4; ++i) {
      wrong += !near(compiled->forward(of_size(1 + t)), net->forward(of_size(1 + t)));
      wrong += !near(gm->forward(of_size(i)), net->forward(of_size(i)));
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("each thread traces, rewrites, compiles and calls a module of its own") {
  TemporaryFolder cache;
  std::atomic<int> wrong = 0;
  at_once(3, [&](int t) {
    Net net;
    net->eval();
    const auto gm = trace(net, {image(t)});
    wrong += !near(gm->forward(image(t)), net->forward(image(t)));
    const auto compiled = fxx::compile(*gm, {image(t)}, {.threads = 2, .cache_folder = cache.path()});
    wrong += !near(compiled->run({image(t)}).toTensor(), net->forward(image(t)));
  });
  CHECK(wrong == 0);
}

namespace {

/// What ThreadSanitizer writes when this program runs the case again with these variables.
std::string report_of(const std::string& race, std::vector<std::pair<std::string, std::string>> variables) {
  variables.emplace_back("FXX_RACE", race);
  const ProcessResult result = run_process({"/proc/self/exe", "-tc=races are reported*"},
                                           {.environment = std::move(variables), .timeout_seconds = 300});
  CHECK_FALSE(result.ok());
  return result.output;
}

}  // namespace

TEST_CASE("races are reported: one in fxx, one in a kernel") {
  if (const char* race = std::getenv("FXX_RACE")) {  // run by this same test
    Case c;
    if (std::string_view(race) == "graph") {
      at_once(2, [&](int t) {
        for (int i = 0; i < 200; ++i)
          if (t == 0) c.gm->forward(c.images[0]);
          else c.gm->graph().output_node()->set_args({c.gm->graph().output_node()->arg(0)});
      });
    } else {
      const auto compiled = fxx::compile(*c.gm, {c.images[0]},
                                         {.threads = 2, .tolerance = 1e30, .cache_folder = c.cache.path()});
      for (int i = 0; i < 50; ++i) compiled->run({c.images[0]});
    }
    return;
  }
  const std::string graph = report_of("graph", {});
  CAPTURE(graph);
  CHECK(graph.find("WARNING: ThreadSanitizer: data race") != std::string::npos);
  CHECK(graph.find("GraphModule") != std::string::npos);

  const TemporaryFolder headers;
  std::filesystem::create_directories(headers / "fxx");
  std::filesystem::copy(kernel_headers_folder() + "/fxx/kernels", headers / "fxx/kernels");
  const std::string file = headers / "fxx/kernels/parallel.hpp";
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string broken = text.str();
  // Threads see that all have come to a barrier, but not what these wrote before.
  const std::string words = "__ATOMIC_ACQUIRE) >= target";
  const std::size_t at = broken.find(words);
  REQUIRE(at != broken.npos);
  std::ofstream(file) << broken.replace(at, words.size(), "__ATOMIC_RELAXED) >= target");
  const std::string kernel = report_of("kernel", {{"FXX_INCLUDE", headers.path()}});
  CAPTURE(kernel);
  CHECK(kernel.find("WARNING: ThreadSanitizer: data race") != std::string::npos);
  CHECK(kernel.find("_step_") != std::string::npos);
}
