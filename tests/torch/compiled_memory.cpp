// What compiled modules hold and take while they run: packed weights and the memory between kernels, and hardly more.
// Counts every allocation of the program, LibTorch's too; pages that the system gives in other ways, such as stacks of
// threads, are not in it.
#include <malloc.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "fxx/torch/compile.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/doctest.hpp"

// --- every allocation, before the C library's -------------------------------------------------------------------------

namespace {

std::atomic<std::size_t> held = 0, most_held = 0;

void* counted(void* memory) {
  if (!memory) return nullptr;
  const std::size_t now = held += malloc_usable_size(memory);
  for (std::size_t most = most_held; now > most && !most_held.compare_exchange_weak(most, now);) {
  }
  return memory;
}
void no_longer_counted(void* memory) {
  if (memory) held -= malloc_usable_size(memory);
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);

void* malloc(std::size_t size) noexcept { return counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) noexcept { return counted(__libc_calloc(count, size)); }
void* realloc(void* memory, std::size_t size) noexcept {
  no_longer_counted(memory);
  void* const moved = counted(__libc_realloc(memory, size));
  return !moved && size != 0 ? counted(memory), nullptr : moved;
}
void* memalign(std::size_t alignment, std::size_t size) noexcept { return counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  void* const got = memalign(alignment, size);
  if (!got) return 12;  // ENOMEM
  *memory = got;
  return 0;
}
void free(void* memory) noexcept {
  no_longer_counted(memory);
  __libc_free(memory);
}
}

// --- the tests --------------------------------------------------------------------------------------------------------

namespace {

using at::Tensor;

struct Layers : torch::nn::Module {
  torch::nn::Conv2d first{register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 256, 5)))};
  torch::nn::BatchNorm2d norm{register_module("norm", torch::nn::BatchNorm2d(256))};
  torch::nn::Linear wide{register_module("wide", torch::nn::Linear(1024, 4096))};
  torch::nn::BatchNorm1d wide_norm{register_module("wide_norm", torch::nn::BatchNorm1d(4096))};
  torch::nn::Linear last{register_module("last", torch::nn::Linear(4096, 1000))};

  Tensor forward(Tensor image) {
    const Tensor x = norm(first(image)).relu().flatten(1);
    return last(wide_norm(wide(x)).relu());
  }
};
struct One : torch::nn::Module {
  torch::nn::Linear linear{register_module("linear", torch::nn::Linear(800, 800))};
  Tensor forward(Tensor x) { return linear(x).relu(); }
};
/// A sum of constants, which is folded, and is read by an operator that has no kernel: a product of integers.
struct WithCallBack : torch::nn::Module {
  Tensor counts = register_buffer("counts", at::arange(1 << 20));

  Tensor forward(Tensor n) { return at::gcd(n, counts + 1); }
};

std::size_t bytes_of(const std::vector<Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

/// What every program needs once: tables of operators and rules, LibTorch's own.
void warm_up() {
  struct Tiny : torch::nn::Module {
    torch::nn::Linear linear{register_module("linear", torch::nn::Linear(4, 4))};
    Tensor forward(Tensor x) { return linear(x).relu(); }
  };
  const auto tiny = std::make_shared<Tiny>();
  const Tensor x = at::randn({1, 4});
  fxx::compile(*fxx::trace(*tiny, {x}), {x}, {.threads = 1})->forward(x);
}

/// Compiles, and calls some times with and without tensors.
template <class Net>
void check_memory(const std::shared_ptr<Net>& net, const Tensor& input) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  warm_up();
  net->eval();
  const auto traced = fxx::trace(*net, {input});
  const Tensor expected = traced->forward(input);
  const std::size_t before = held;
  const auto compiled = fxx::compile(*traced, {input}, {.threads = 1});
  CHECK(compiled->called_back().empty());
  const std::size_t own = compiled->weight_bytes() + compiled->workspace_bytes();
  CHECK(held >= before + own);
  most_held = held.load();
  for (int i = 0; i < 3; ++i) CHECK(at::allclose(compiled->forward(input), expected, 1e-4, 1e-4));
  Tensor out = at::zeros_like(expected);
  const void* from[] = {input.const_data_ptr()};
  void* to[] = {out.mutable_data_ptr()};
  for (int i = 0; i < 3; ++i) compiled->run_raw(from, to);
  CHECK(at::allclose(out, expected, 1e-4, 1e-4));
  CAPTURE(own);
  CAPTURE(most_held - before);
  CHECK(static_cast<double>(most_held - before) <= 1.1 * static_cast<double>(own));
  CHECK(static_cast<double>(compiled->weight_bytes()) <= 1.1 * static_cast<double>(bytes_of(net->parameters())));
}

}  // namespace

TEST_CASE("weights are held once, packed; while it runs there is the memory between kernels, and hardly more") {
  check_memory(std::make_shared<Layers>(), at::randn({2, 64, 6, 6}));
}
TEST_CASE("memory is not rounded up to large pages where these would be mostly empty") {
  check_memory(std::make_shared<One>(), at::randn({1, 800}));
}

TEST_CASE("a folded constant that a call back reads is held as long as the module") {
  const at::NoGradGuard no_grad;
  const auto net = std::make_shared<WithCallBack>();
  const Tensor n = at::ones({1}, at::kLong) * 3;
  const auto compiled = fxx::compile(*fxx::trace(*net, {n}), {n}, {.threads = 1});
  REQUIRE(compiled->called_back().size() == 1);
  CHECK(at::equal(compiled->forward(n), at::gcd(at::arange(1 << 20) + 1, n)));
  CHECK(at::equal(net->counts, at::arange(1 << 20)));
}
