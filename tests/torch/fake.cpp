// Fake tensors as users meet them: models built in a scope, real weights with fake inputs, what is refused and in what
// words, gradients, threads, operators of one's own, and a decoder of 7 billion parameters. One long file: each
// that includes LibTorch takes 20 s and 1.3 GB to compile.
#include "fxx/torch/fake.hpp"

#include <torch/library.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>

#include "../models/llama.hpp"
#include "fxx/codegen/module_source.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;
namespace tnn = torch::nn;

namespace {

Tensor of(std::vector<std::int64_t> sizes, at::ScalarType type = torch::kFloat) { return torch::rand(sizes).to(type); }
/// Warnings of LibTorch's, each with a trace of the stack, would take most of the time.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
} quiet;
const c10::WarningUtils::WarningHandlerGuard no_warnings(&quiet);
/// What a call throws, of whatever class; empty when it throws nothing.
template <class F>
std::string words_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }
const c10::StorageImpl* memory_of(const Tensor& t) { return t.storage().unsafeGetStorageImpl(); }
bool holds(const Tensor& t, double value) { return !is_fake(t) && (t == value).all().item<bool>(); }
/// Bytes of the process that are in memory.
std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0, all = 0;
  file >> all >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}
constexpr std::size_t megabyte = 1 << 20;
const zoo::LlamaConfig small_llama{50, 16, 24, 2, 2};

// --- scopes --------------------------------------------------------------------------------------------------------

TEST_CASE("in a scope factories and constructors of modules make fake tensors, and outside real ones") {
  const std::size_t before = resident();
  {
    const fxx::fake on;
    CHECK(is_fake_scope());
    for (const Tensor& t : {torch::empty({1 << 20, 1 << 12}),
                            torch::zeros({3, 4}),
                            torch::ones({3, 4}, torch::kLong),
                            torch::full({5}, 2.5),
                            torch::rand({2, 3}),
                            torch::randn({2, 3}),
                            torch::randint(5, {4}),
                            torch::randperm(9),
                            torch::arange(7),
                            torch::arange(0., 1., 0.25),
                            torch::linspace(0, 1, 5),
                            torch::logspace(0, 1, 5),
                            torch::eye(3, 4),
                            torch::tril_indices(3, 4),
                            torch::triu_indices(4, 4, 1),
                            torch::hann_window(8),
                            torch::normal(0., 1., {3}),
                            torch::zeros({2}, torch::requires_grad()),
                            torch::empty_strided({2, 3}, {1, 2}),
                            at::empty({3, 4}),
                            torch::zeros({}),
                            torch::zeros({2, 3}).contiguous(),
                            torch::cat({torch::ones({2, 3}), torch::ones({1, 3})})}) {
      CHECK(is_fake(t));
      CHECK(t.is_cpu());
      CHECK(!t.is_meta());
    }
    CHECK((torch::randperm(9).scalar_type() == torch::kLong));
    CHECK(torch::tril_indices(3, 4).sizes() == torch::IntArrayRef{2, 6});
    CHECK(torch::zeros({2}, torch::requires_grad()).requires_grad());
    {
      const fxx::fake off(false);
      CHECK(!is_fake_scope());
      CHECK(!is_fake(torch::zeros({2})));
    }
    CHECK(is_fake_scope());
    CHECK(torch::zeros({2}, torch::kMeta).is_meta());
  }
  CHECK(!is_fake_scope());
  CHECK(!is_fake(torch::zeros({2})));
  CHECK(resident() - before < 64 * megabyte);
}

TEST_CASE("modules of all kinds are built, initialised and run in a scope, with the forms that real ones have") {
  const auto build_and_run = [](bool training) {
    std::vector<std::string> forms;
    const auto note = [&](const Tensor& t) {
      std::ostringstream out;
      out << t.sizes() << t.strides() << t.scalar_type() << t.device() << t.requires_grad() << t.is_contiguous();
      forms.push_back(out.str());
    };
    const auto run = [&](auto module, const Tensor& x) {
      module->train(training);
      for (const Tensor& p : module->parameters()) note(p);
      for (const Tensor& b : module->buffers()) note(b);
      note(module->forward(x));
    };
    const Tensor image = torch::rand({2, 3, 16, 16}), rows = torch::rand({5, 8});
    run(tnn::Linear(8, 4), rows);
    run(tnn::Conv2d(tnn::Conv2dOptions(3, 6, 3).stride(2).padding(1).padding_mode(torch::kReflect)), image);
    run(tnn::ConvTranspose2d(3, 6, 3), image);
    run(tnn::BatchNorm2d(3), image);
    run(tnn::BatchNorm1d(tnn::BatchNormOptions(8).momentum(std::nullopt)), rows);
    run(tnn::InstanceNorm2d(tnn::InstanceNorm2dOptions(3).affine(true).track_running_stats(true)), image);
    run(tnn::GroupNorm(1, 3), image);
    run(tnn::LayerNorm(tnn::LayerNormOptions({8})), rows);
    run(tnn::PReLU(), rows);
    run(tnn::Embedding(tnn::EmbeddingOptions(10, 4).padding_idx(1)), torch::randint(0, 10, {2, 3}));
    run(tnn::EmbeddingBag(10, 4), torch::randint(0, 10, {2, 3}));
    run(tnn::AdaptiveAvgPool2d(3), image);
    run(tnn::Sequential(tnn::Linear(8, 8), tnn::ReLU(), tnn::Dropout(0.5), tnn::Softmax(1)), rows);
    run(tnn::Upsample(tnn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kBilinear)), image);
    run(tnn::TransformerEncoderLayer(tnn::TransformerEncoderLayerOptions(8, 2)), torch::rand({4, 2, 8}));
    tnn::LSTM lstm(8, 6);
    for (const Tensor& p : lstm->parameters()) note(p);
    note(std::get<0>(lstm->forward(torch::rand({3, 2, 8}))));
    for (const auto& init : std::vector<std::function<void(Tensor)>>{
             [](Tensor t) { tnn::init::kaiming_uniform_(t, std::sqrt(5)); },
             [](Tensor t) { tnn::init::kaiming_normal_(t); }, [](Tensor t) { tnn::init::xavier_uniform_(t); },
             [](Tensor t) { tnn::init::xavier_normal_(t); }, [](Tensor t) { tnn::init::normal_(t); },
             [](Tensor t) { tnn::init::uniform_(t); }, [](Tensor t) { tnn::init::constant_(t, 2); },
             [](Tensor t) { tnn::init::eye_(t); }, [](Tensor t) { tnn::init::orthogonal_(t); },
             [](Tensor t) { tnn::init::ones_(t); }}) {
      const Tensor t = torch::empty({6, 4});
      init(t);
      note(t);
    }
    tnn::Linear half(4, 4);
    half->to(torch::kHalf);
    note(half->weight);
    auto copy = std::dynamic_pointer_cast<tnn::LinearImpl>(half->clone());
    note(copy->weight);
    CHECK(is_fake(copy->weight) == is_fake_scope());
    return forms;
  };
  for (bool training : {false, true}) {
    const std::vector<std::string> real = build_and_run(training);
    const fxx::fake on;
    CHECK(build_and_run(training) == real);
  }
}

TEST_CASE("tensors made of C++ values keep them in a scope, and what is computed from them alone does") {
  const fxx::fake on;
  float raw[] = {1, 2, 3};
  for (const Tensor& t :
       {torch::tensor({1.f, 2.f, 3.f}), torch::tensor(std::vector<float>{1, 2, 3}), torch::from_blob(raw, {3})}) {
    CHECK(!is_fake(t));
    CHECK(t.sum().item<float>() == 6);
    CHECK((t * 2).slice(0, 1)[0].item<float>() == 4);
    CHECK(t.clone().data_ptr<float>()[2] == 3);
    CHECK(is_fake(t + torch::ones({3})));
  }
  CHECK(torch::tensor({{1, 2}, {3, 4}})[1][0].item<int>() == 3);
  CHECK(torch::tensor(2.5).item<double>() == 2.5);
  CHECK(torch::scalar_tensor(3).item<double>() == 3);
  {
    const c10::InferenceMode inference;
    CHECK(torch::tensor({4, 5}).sum().item<int>() == 9);
    CHECK(torch::tensor(std::vector<double>{4, 5}).sum().item<double>() == 9);
    CHECK(is_fake(torch::empty({4})));
    CHECK(is_fake(torch::nn::functional::relu(torch::zeros({2}))));
  }
  Tensor mine = torch::tensor({1.f, 2.f});
  mine.add_(1);
  CHECK(mine[1].item<float>() == 3);
  // Written to with unknown values, it has none any more.
  mine.add_(torch::ones({2}));
  CHECK(is_fake(mine));
  CHECK(mine.is_cpu());
  Tensor table = torch::tensor({1.f, 2.f});
  const std::string words = words_of([&] { table[0] = torch::ones({}); });
  CHECK(contains(words, "real memory that other tensors share"));
  CHECK(table[1].item<float>() == 2);
}

TEST_CASE("in a scope a real tensor from outside is read and not written to") {
  const Tensor weight = torch::full({4, 4}, 3.f), count = torch::zeros({}, torch::kLong), matrix = torch::ones({8, 8});
  const fxx::fake on;
  CHECK(holds(weight.t(), 3));
  CHECK(weight.sum().item<float>() == 48);
  CHECK(count.add_(1).is_same(count));
  CHECK(weight.mul_(2).is_same(weight));
  tnn::init::zeros_(weight);
  weight.copy_(torch::full({4, 4}, 5.f));
  CHECK(is_fake(torch::zeros_like(matrix)));
  CHECK(is_fake(matrix.new_empty({3})));
  const fxx::fake off(false);
  CHECK(holds(weight, 3));
  CHECK(holds(count, 0));
}

// --- real and fake together ----------------------------------------------------------------------------------------

TEST_CASE("real weights with fake inputs give fake results, and stay as they were") {
  tnn::Sequential net(tnn::Conv2d(tnn::Conv2dOptions(3, 8, 3).bias(false)), tnn::BatchNorm2d(8), tnn::ReLU(),
                      tnn::AdaptiveAvgPool2d(1), tnn::Flatten(), tnn::Linear(8, 4),
                      tnn::LayerNorm(tnn::LayerNormOptions({4})));
  std::vector<Tensor> before;
  for (const Tensor& p : net->parameters()) before.push_back(p.clone());
  for (const Tensor& b : net->buffers()) before.push_back(b.clone());
  const Tensor x = of({2, 3, 9, 9});
  const auto check_untouched = [&](std::size_t but_counts) {
    std::size_t i = 0, differ = 0;
    for (const Tensor& p : net->parameters()) differ += !torch::equal(p.detach(), before[i++]);
    for (const Tensor& b : net->buffers()) differ += !torch::equal(b, before[i++]);
    CHECK(differ == but_counts);
  };
  for (bool training : {true, false}) {
    net->train(training);
    const fxx::fake on;
    const Tensor y = net->forward(fake_like(x));
    CHECK(is_fake(y));
    CHECK(y.sizes() == torch::IntArrayRef{2, 4});
    CHECK(y.requires_grad());
    CHECK(y.is_cpu());
  }
  check_untouched(0);
  net->train();
  CHECK(is_fake(net->forward(fake_like(x))));
  // Outside of a scope the module counts its batches itself, with real numbers alone.
  check_untouched(1);
}

TEST_CASE("a write of fake values leaves a real tensor as it was and gives it back; shapes are checked") {
  Tensor real = torch::full({2, 3}, 7.f);
  const Tensor fake = fake_like(of({2, 3})), row = fake_like(of({3})),
               index = fake_like(torch::zeros({2}, torch::kLong));
  CHECK(real.add_(fake).is_same(real));
  CHECK(real.copy_(row).is_same(real));
  CHECK(real.masked_fill_(fake > 0, 1).is_same(real));
  CHECK(real.index_put_({index}, row).is_same(real));
  CHECK(real.index_fill_(0, index, 0).is_same(real));
  CHECK(torch::mul_out(real, fake, fake).is_same(real));
  CHECK(torch::abs_out(real, fake).is_same(real));
  real[0].copy_(row);
  real.slice(1, 1) += fake.slice(1, 1);
  CHECK(holds(real, 7));
  CHECK(contains(words_of([&] { real.add_(fake_like(of({4}))); }), "must match the size"));
  CHECK(contains(words_of([&] { real.copy_(fake_like(of({4}))); }), "must match the size"));
  const Fault fault = fault_of<TraceError>([&] {
    Tensor small = torch::zeros({1});
    torch::mul_out(small, fake, fake);
  });
  CHECK(fault.id == 305);
  CHECK(fault.says("aten::mul.out"));
  CHECK(is_fake(torch::where(real > 0, real, fake)));
  CHECK(is_fake(torch::cat({real, fake})));
  CHECK(is_fake(torch::stack({fake, real})));
  CHECK(is_fake(real.matmul(fake.t())));
  CHECK(is_fake(torch::embedding(real, index)));
  CHECK(is_fake(real.index({index})));
  CHECK(is_fake(torch::addmm(real.sum(0), fake, fake.t().matmul(fake))));
  CHECK(is_fake(fake * torch::tensor(2.)));
  CHECK(((fake * torch::tensor(2., torch::kDouble)).scalar_type() == torch::kFloat));
  CHECK(is_fake(fake.view({-1}).expand_as(torch::zeros({5, 6}))));
  // Views of what is real stay so.
  CHECK(memory_of(real.view_as(fake)) == memory_of(real));
  CHECK(holds(real, 7));
}

TEST_CASE("operators act fake outside of a scope and in other threads, and so do the parts of composite ones") {
  const Tensor fake = fake_like(of({3, 4}));
  Tensor other;
  std::thread([&] { other = (fake * 2).softmax(-1); }).join();
  CHECK(is_fake(other));
  CHECK(!is_fake_scope());
  // Each of these makes a tensor of its own in between.
  CHECK(is_fake(torch::linalg_matrix_rank(fake_like(torch::empty({0, 0})))));
  CHECK(is_fake(torch::trapezoid(fake_like(torch::empty({0})))));
  CHECK(is_fake(torch::one_hot(fake_like(torch::zeros({3}, torch::kLong)), 5)));
  CHECK(is_fake(std::get<0>(torch::msort(fake).max(0))));
  const auto [y, state] = tnn::LSTM(tnn::LSTMOptions(4, 6).num_layers(2))->forward(fake_like(of({5, 2, 4})));
  CHECK(is_fake(y));
  CHECK(is_fake(std::get<1>(state)));
  CHECK(!is_fake(torch::zeros({2})));
}

TEST_CASE("fake_like keeps sizes, strides, dtype, device and requires_grad, and its memory is its own") {
  const Tensor image = of({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const Tensor& t :
       {image, image.slice(3, 1, 4, 2), image.transpose(0, 3), of({}), of({0, 3}), of({3}).expand({2, 3}),
        of({4}, torch::kBFloat16), torch::ones({3}, torch::kBool), torch::zeros({2}, torch::kComplexFloat)}) {
    const Tensor fake = fake_like(t);
    CHECK(fake.sizes() == t.sizes());
    CHECK(fake.strides() == t.strides());
    CHECK((fake.scalar_type() == t.scalar_type()));
    CHECK(fake.device() == t.device());
    CHECK(fake.suggest_memory_format() == t.suggest_memory_format());
    CHECK(fake.storage_offset() == 0);
    CHECK(memory_of(fake) != memory_of(fake_like(t)));
  }
  CHECK(fake_like(of({2}).requires_grad_()).requires_grad());
  CHECK(!fake_like(Tensor()).defined());
  CHECK(fake_like(torch::empty({3}, torch::kMeta)).is_cpu());
  CHECK(is_fake(fake_like(fake_like(of({3})))));
  CHECK(fault_of<TraceError>([] { fake_like(torch::eye(3).to_sparse()); }).id == 305);
  CHECK(!is_fake(of({2})));
  CHECK(!is_fake(Tensor()));
  CHECK(!is_fake(torch::empty({2}, torch::kMeta)));
}

TEST_CASE("fake tensors claim devices that the machine does not have, and move between them") {
  const fxx::fake on;
  const Tensor gpu = torch::zeros({2, 3}, torch::kCUDA);
  CHECK(gpu.device() == c10::Device(torch::kCUDA, 0));
  CHECK((gpu + 1).is_cuda());
  CHECK((gpu * torch::tensor(2.)).is_cuda());
  CHECK(gpu.cpu().is_cpu());
  CHECK(torch::ones({2}).to(torch::kCUDA).is_cuda());
  CHECK(gpu.new_zeros({2}).is_cuda());
  CHECK(gpu.t().is_cuda());
  const Tensor image = torch::rand({2, 3, 8, 8}, torch::kCUDA), heads = torch::rand({2, 4, 7, 16}, torch::kCUDA);
  CHECK(torch::scaled_dot_product_attention(heads, heads, heads, {}, 0., true).is_cuda());
  CHECK(torch::scaled_dot_product_attention(heads, heads, heads, torch::ones({7, 7}, gpu.options())).is_cuda());
  tnn::Sequential net(tnn::Conv2d(3, 4, 3), tnn::BatchNorm2d(4), tnn::MaxPool2d(2), tnn::Flatten(), tnn::Linear(36, 5),
                      tnn::LayerNorm(tnn::LayerNormOptions({5})), tnn::Dropout(0.5));
  tnn::LSTM lstm(8, 6);
  tnn::GRU gru(8, 6);
  for (const auto& module : std::vector<std::shared_ptr<tnn::Module>>{net.ptr(), lstm.ptr(), gru.ptr()})
    module->to(torch::kCUDA);
  const Tensor y = net->forward(image);
  CHECK(y.is_cuda());
  for (const Tensor& b : net->buffers()) CHECK(b.is_cuda());
  CHECK(torch::tensor({1, 2}, torch::kCUDA).is_cuda());
  CHECK(y.requires_grad());
  for (const Tensor& t : {std::get<0>(lstm->forward(image[0])), std::get<0>(gru->forward(image[0]))}) {
    CHECK(t.is_cuda());
    CHECK(t.sizes() == torch::IntArrayRef{3, 8, 6});
  }
}

TEST_CASE("to_fake frees a module's memory, keeps what is shared, and the module goes on as a fake one") {
  struct Tied : tnn::Module {
    tnn::Embedding embedding{100, 64};
    tnn::Linear head{tnn::LinearOptions(64, 100).bias(false)};
    tnn::BatchNorm1d norm{64};
    Tensor view;
    Tied() {
      register_module("embedding", embedding);
      register_module("head", head);
      register_module("norm", norm);
      head->weight.set_data(embedding->weight.data());
      view = register_buffer("view", embedding->weight.detach().slice(0, 3, 5).t());
    }
    Tensor forward(Tensor x) { return head(norm(embedding(x))); }
  };
  auto net = std::make_shared<Tied>();
  net->forward(torch::zeros({3}, torch::kLong)).sum().backward();
  const Tensor handle = net->embedding->weight;
  to_fake(*net);
  for (const auto& p : net->named_parameters()) {
    CAPTURE(p.key());
    CHECK(is_fake(p.value()));
    CHECK(p.value().requires_grad());
    CHECK(p.value().is_leaf());
    CHECK(is_fake(p.value().grad()));
    CHECK(p.value().device() == c10::Device(torch::kCPU));
  }
  for (const Tensor& b : net->buffers()) CHECK(is_fake(b));
  CHECK(is_fake(handle));
  CHECK(memory_of(net->head->weight) == memory_of(handle));
  CHECK(memory_of(net->view) == memory_of(handle));
  CHECK(net->view.strides() == torch::IntArrayRef{1, 64});
  CHECK(net->view.storage_offset() == 3 * 64);
  const Tensor y = net->forward(torch::zeros({3}, torch::kLong));
  CHECK(is_fake(y));
  CHECK(y.sizes() == torch::IntArrayRef{3, 100});
  to_fake(*net);
  CHECK(memory_of(net->head->weight) == memory_of(handle));
  // Real memory again.
  net->head->weight.set_data(torch::ones({100, 64}));
  CHECK(holds(net->head->weight.detach(), 1));
}

TEST_CASE("a module of which a part cannot be fake stays as it is") {
  struct Net : tnn::Module {
    tnn::Linear fc{4, 2};
    tnn::Embedding embedding{tnn::EmbeddingOptions(5, 4).sparse(true)};
    Net() {
      register_module("fc", fc);
      register_module("embedding", embedding);
    }
  } net;
  net.fc(net.embedding(torch::zeros({3}, torch::kLong))).sum().backward();
  REQUIRE(net.embedding->weight.grad().is_sparse());
  CHECK(fault_of<TraceError>([&] { to_fake(net); }).id == 305);
  for (const auto& p : net.named_parameters()) {
    CAPTURE(p.key());
    CHECK_FALSE(is_fake(p.value()));
    CHECK_FALSE(is_fake(p.value().grad()));
  }
}

// --- what is refused -----------------------------------------------------------------------------------------------

TEST_CASE("questions about the elements of a fake tensor are refused by the operator's name") {
  const Tensor fake = fake_like(of({3, 4})), one = fake_like(of({}));
  const Tensor mask = fake_like(torch::ones({3, 4}, torch::kBool));
  const std::vector<std::pair<const char*, std::function<void()>>> questions = {
      {"aten::item", [&] { one.item<float>(); }},
      {"aten::is_nonzero", [&] { one.is_nonzero(); }},
      {"torch::where(condition, a, b)",
       [&] {
         if (fake.sum().item<double>() > 0) return;
       }},
      {"aten::equal", [&] { torch::equal(fake, fake.clone()); }},
      {"aten::allclose",
       [&] {
         torch::allclose(fake, of({3, 4}));
       }},
      {"aten::nonzero", [&] { torch::nonzero(fake); }},
      {"aten::where", [&] { torch::where(mask); }},
      {"aten::argwhere", [&] { torch::argwhere(fake); }},
      {"aten::index.Tensor", [&] { fake.index({mask}); }},
      {"masked_fill", [&] { fake.index({mask}); }},
      {"aten::_unique2", [&] { torch::_unique2(fake); }},
      {"aten::unique_consecutive", [&] { torch::unique_consecutive(fake); }},
      {"aten::unique_dim", [&] { torch::unique_dim(fake, 0); }},
      {"aten::masked_select", [&] { fake.masked_select(mask); }},
      {"aten::bincount", [&] { torch::bincount(fake_like(torch::zeros({3}, torch::kLong))); }},
      {"output_size", [&] { torch::repeat_interleave(fake_like(torch::ones({3}, torch::kLong))); }},
      {"aten::repeat_interleave", [&] { fake.repeat_interleave(fake_like(torch::ones({3}, torch::kLong)), 0); }},
      {"_to_sparse", [&] { fake.to_sparse(); }}};
  for (const auto& [name, ask] : questions) {
    CAPTURE(std::string(name));
    const Fault fault = fault_of<TraceError>(ask);
    CHECK(fault.id == 301);
    CAPTURE(fault.text);
    CHECK(fault.says(name));
    CHECK(fault.says("fake tensor"));
    CHECK(fault.says("fxx::fake off(false)"));
  }
  CHECK(is_fake(fake.repeat_interleave(fake_like(torch::ones({3}, torch::kLong)), 0, 7)));
  CHECK(torch::equal(fake, fake));
  CHECK(!torch::equal(fake, of({3})));
  // A mask that chooses where to write asks for nothing.
  CHECK(is_fake(fake.index_put({mask}, torch::tensor(0.f))));
}

Tensor reads_elements(const Tensor& t) { return t.sum().item<float>() > 0 ? t : -t; }
TEST_CASE("the fault names the user's function") {
  const Fault fault = fault_of<TraceError>([] { reads_elements(fake_like(of({3}))); });
  CHECK(fault.says("reads_elements"));
}

TEST_CASE("elements are out of C++'s reach, in words that say why") {
  const Tensor fake = fake_like(of({2, 2}));
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { fake.data_ptr(); }, [&] { fake.data_ptr<float>(); }, [&] { fake.const_data_ptr(); },
           [&] { fake.const_data_ptr<float>(); }, [&] { fake.mutable_data_ptr(); }, [&] { fake.accessor<float, 2>(); },
           [&] { fake.storage().data_ptr(); }, [&] { fake[0].data_ptr<float>(); }, [&] { (fake * 2).data_ptr(); },
           [&] { std::ostringstream() << fake; }, [&] { fake.data().data_ptr(); }}) {
    CHECK(contains(words_of(read), "fake tensor"));
  }
  std::ostringstream file;
  CHECK(contains(words_of([&] { torch::save(fake, file); }), "fake tensor"));
}

// --- operators of one's own ----------------------------------------------------------------------------------------

Tensor pool_on_cpu(const Tensor& x, std::int64_t k) { return x.unfold(-1, k, k).mean(-1).contiguous(); }
std::tuple<Tensor, Tensor> parts_on_cpu(const Tensor& x) { return {x.clone(), x.sum()}; }
Tensor& fill_on_cpu(Tensor& x, double value) { return x.fill_(value); }
Tensor doubled(const Tensor& x) { return x * 2 + torch::zeros({x.size(0)}, x.options()); }

TORCH_LIBRARY(fxx_fake_test, m) {
  m.def("pool(Tensor x, int k) -> Tensor");
  m.def("parts(Tensor x) -> (Tensor, Tensor)");
  m.def("fill_(Tensor(a!) x, float value) -> Tensor(a!)");
  m.def("by_meta(Tensor x) -> Tensor");
  m.def("doubled(Tensor x) -> Tensor", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, doubled));
  m.def("make(int n) -> Tensor");
}
TORCH_LIBRARY_IMPL(fxx_fake_test, CPU, m) {
  m.impl("pool", pool_on_cpu);
  m.impl("parts", parts_on_cpu);
  m.impl("fill_", fill_on_cpu);
  m.impl("by_meta", [](const Tensor& x) { return x.clone(); });
}
TORCH_LIBRARY_IMPL(fxx_fake_test, Meta, m) {
  m.impl("by_meta", [](const Tensor& x) { return x.new_empty({x.size(0), 2}); });
}
TORCH_LIBRARY_IMPL(fxx_fake_test, CompositeExplicitAutograd, m) {
  m.impl("make", [](std::int64_t n) { return torch::ones({n}); });
}
template <class F>
auto own_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string("fxx_fake_test::") + name).c_str(), "").typed<F>();
}

TEST_CASE("an operator without kernel or rule is refused with what to do; a rule says what it gives") {
  const auto pool = own_op<Tensor(const Tensor&, std::int64_t)>("pool");
  const Tensor real = of({2, 12}), fake = fake_like(real);
  const Fault fault = fault_of<TraceError>([&] { pool.call(fake, 3); });
  CHECK(fault.id == 330);
  CHECK(fault.says("'fxx_fake_test::pool'"));
  CHECK(fault.says("fxx::register_shape_rule(\"fxx_fake_test::pool\", ...)"));

  const auto wrong = fault_of<OperatorError>(
      [] { register_shape_rule("fxx_fake_test::pool", [](const Tensor& x, double) { return x; }); });
  CHECK(wrong.id == 203);
  CHECK(wrong.says("fxx_fake_test::pool"));
  register_shape_rule("fxx_fake_test::pool", [](const Tensor& x, std::int64_t k) {
    TORCH_CHECK(k > 0, "pool: k must be positive");
    return x.new_empty({x.size(0), x.size(1) / k});
  });
  const Tensor y = pool.call(fake, 3);
  CHECK(is_fake(y));
  CHECK(y.is_cpu());
  CHECK(y.sizes() == pool.call(real, 3).sizes());
  CHECK(contains(words_of([&] { pool.call(fake, 0); }), "k must be positive"));
  // The last rule holds; a rule may have state.
  const std::int64_t width = 5;
  register_shape_rule("fxx_fake_test::pool", [width](const Tensor& x, std::int64_t) {
    return x.new_empty({x.size(0), width});
  });
  CHECK(pool.call(fake, 3).size(1) == 5);

  const auto parts = own_op<std::tuple<Tensor, Tensor>(const Tensor&)>("parts");
  register_shape_rule("fxx_fake_test::parts", [](const Tensor& x) {
    return std::tuple<Tensor, Tensor>(torch::empty_like(x), x.new_empty({}));
  });
  const auto [a, b] = parts.call(fake);
  CHECK(a.sizes() == real.sizes());
  CHECK(b.dim() == 0);
  CHECK(is_fake(b));

  Tensor target = fake_like(real), kept = real.clone();
  const auto fill = own_op<Tensor&(Tensor&, double)>("fill_");
  register_shape_rule("fxx_fake_test::fill_", [](Tensor& x, double) -> Tensor& { return x; });
  CHECK(fill.call(target, 2.).is_same(target));
  fill.call(kept, 2.);
  CHECK(holds(kept, 2));

  CHECK(own_op<Tensor(const Tensor&)>("by_meta").call(fake).sizes() == torch::IntArrayRef{2, 2});
  CHECK(is_fake(own_op<Tensor(const Tensor&)>("doubled").call(fake_like(of({3})))));
  register_shape_rule("fxx_fake_test::parts", [](const Tensor& x) {
    return std::tuple<Tensor, Tensor>(torch::ones(x.sizes()), torch::zeros({}));
  });
  CHECK(is_fake(std::get<0>(parts.call(fake))));
  CHECK(!is_fake(own_op<Tensor(std::int64_t)>("make").call(3)));
  const fxx::fake on;
  CHECK(is_fake(own_op<Tensor(std::int64_t)>("make").call(3)));
}

// --- gradients -----------------------------------------------------------------------------------------------------

TEST_CASE("gradients flow through fake tensors, in a whole step of training") {
  const auto step = [](bool half) {
    tnn::Sequential net(tnn::Conv2d(3, 4, 3), tnn::BatchNorm2d(4), tnn::GELU(), tnn::MaxPool2d(2), tnn::Flatten(),
                        tnn::Linear(36, 5));
    if (half) net->to(torch::kBFloat16);
    torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-3));
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int i = 0; i < 2; ++i) {
      adam.zero_grad();
      const Tensor x = torch::rand({2, 3, 8, 8}).to(net->parameters()[0].scalar_type()).requires_grad_();
      const Tensor loss = torch::cross_entropy_loss(net->forward(x).to(torch::kFloat), torch::zeros({2}, torch::kLong));
      loss.backward();
      CHECK(x.grad().sizes() == x.sizes());
      adam.step();
      sgd.step();
    }
    std::vector<std::string> forms;
    for (const Tensor& p : net->parameters()) {
      std::ostringstream out;
      out << p.sizes() << p.grad().sizes() << p.grad().strides() << p.grad().scalar_type() << p.grad().device()
          << p.is_leaf();
      forms.push_back(out.str());
      CHECK(is_fake(p.grad()) == is_fake_scope());
    }
    return forms;
  };
  for (bool half : {false, true}) {
    const auto real = step(half);
    const fxx::fake on;
    CHECK(step(half) == real);
  }
  // Real parameters, fake inputs: gradients are fake.
  tnn::Linear linear(4, 4);
  linear->forward(fake_like(of({2, 4}))).sum().backward();
  CHECK(is_fake(linear->weight.grad()));
  CHECK(!is_fake(linear->weight));
  const Tensor x = fake_like(of({3}).requires_grad_());
  const Tensor y = (x * x).sum();
  CHECK(y.grad_fn() != nullptr);
  CHECK(is_fake(torch::autograd::grad({y}, {x}, {}, true, true)[0]));
  CHECK(contains(words_of([&] { x.add_(1); }), "a leaf Variable that requires grad"));
  const torch::NoGradGuard no_grad;
  CHECK(!(x * 2).requires_grad());
}

// --- tracing -------------------------------------------------------------------------------------------------------

TEST_CASE("a graph traced with fakes is the one traced with real tensors, and runs with either") {
  struct Net : tnn::Module {
    tnn::Conv2d conv{tnn::Conv2dOptions(3, 4, 3).padding(1)};
    tnn::BatchNorm2d norm{4};
    tnn::Linear head{4, 2};
    Net() {
      register_module("conv", conv);
      register_module("norm", norm);
      register_module("head", head);
    }
    Tensor forward(Tensor x) {
      x = torch::relu(norm(conv(x)));
      Tensor scratch = torch::empty({x.size(0), 4}), other = torch::empty({4});
      other.fill_(2);
      scratch.copy_(x.mean({2, 3}));
      return head(scratch * torch::tensor({1.f, 2.f, 3.f, 4.f}) + other) * 0.5;
    }
  };
  auto real = std::make_shared<Net>();
  real->eval();
  const Tensor x = of({2, 3, 6, 6});
  const auto expected = trace(real, {x});
  {
    const auto mixed = trace(real, {fake_like(x)});
    CHECK(to_string(mixed->graph()) == to_string(expected->graph()));
    CHECK(relative_difference(mixed->forward(x), real->forward(x)) == 0);
  }
  std::shared_ptr<Net> made;
  std::shared_ptr<GraphModule> gm;
  {
    const fxx::fake on;
    made = std::make_shared<Net>();
    made->eval();
    gm = trace(made, {torch::rand({2, 3, 6, 6})});
  }
  CHECK(to_string(gm->graph()) == to_string(expected->graph()));
  gm->graph().lint();
  const Tensor y = gm->forward(fake_like(x));
  CHECK(is_fake(y));
  CHECK(y.sizes() == torch::IntArrayRef{2, 2});
  Interpreter interpreter(*gm);
  CHECK(is_fake(interpreter.run({fake_like(x)}).toTensor()));
  const auto compiled = build(*gm, {x});
  CHECK(std::isnan(compiled->max_error()));  // there are no numbers to compare
  CHECK(compiled->is_current());
  CHECK(is_fake(compiled->forward(x)));
  // With real memory in place of the fake, the graph computes.
  const auto from = real->named_parameters(), to = made->named_parameters();
  for (const auto& p : from) to[p.key()].set_data(p.value().data());
  const auto buffers = real->named_buffers(), fakes = made->named_buffers();
  for (const auto& b : buffers) fakes[b.key()].set_data(b.value());
  CHECK(relative_difference(gm->forward(x), real->forward(x)) == 0);
  CHECK(compiled->is_current());
  CHECK(relative_difference(compiled->forward(x), real->forward(x)) == 0);
}

TEST_CASE("a graph over fake parameters is printed, checked, copied, edited, generated, saved as text, and runs") {
  std::shared_ptr<zoo::LlamaImpl> net;
  std::shared_ptr<GraphModule> gm;
  {
    const fxx::fake on;
    net = zoo::Llama(small_llama).ptr();
    gm = trace(net, {torch::zeros({2, 7}, torch::kLong)});
  }
  auto real = zoo::Llama(small_llama).ptr();
  const Tensor ids = torch::randint(0, 50, {2, 7});
  const auto expected = trace(real, {ids});
  const std::string text = to_string(gm->graph());
  CHECK(text == to_string(expected->graph()));
  CHECK(to_string(parse_graph(text)) == text);
  CHECK(gm->code() == expected->code());
  const ModuleSource source = module_source(gm->graph(), gm->owner(), "Llama", "torch/torch.h");
  const ModuleSource other = module_source(expected->graph(), expected->owner(), "Llama", "torch/torch.h");
  CHECK(source.header == other.header);
  CHECK(source.source == other.source);
  std::ostringstream printed, printed_real;
  printed << *gm;
  printed_real << *expected;
  CHECK(printed.str() == printed_real.str());

  gm->graph().lint();
  const Graph copy = gm->graph();
  copy.lint();
  CHECK(to_string(copy) == text);
  const auto clone = std::dynamic_pointer_cast<GraphModule>(gm->clone());
  REQUIRE(clone);
  CHECK(to_string(clone->graph()) == text);
  for (const auto& p : clone->named_parameters()) {
    CHECK(is_fake(p.value()));
    CHECK(memory_of(p.value()) != memory_of(gm->named_parameters()[p.key()]));
  }
  // Fake parameters and a real input, or a fake one: the result is fake, in every way of running.
  for (const Tensor& x : {ids, fake_like(ids)}) {
    const Tensor y = gm->forward(x);
    CHECK(is_fake(y));
    CHECK(y.sizes() == torch::IntArrayRef{2, 7, 50});
    CHECK(is_fake(clone->forward(x)));
    Interpreter interpreter(*gm);
    CHECK(is_fake(interpreter.run({x}).toTensor()));
  }
  CHECK(contains(words_of([&] { gm->forward(fake_like(ids).to(torch::kFloat)); }), "embedding"));
  const auto optimized = [](const GraphModule& module) {
    auto copied = std::dynamic_pointer_cast<GraphModule>(module.clone());
    optimize_for_inference(*copied);
    return copied;
  };
  CHECK(to_string(optimized(*gm)->graph()) == to_string(optimized(*expected)->graph()));
  CHECK(is_fake(optimized(*gm)->forward(ids)));
  std::ostringstream file;
  CHECK(contains(words_of([&] { torch::save(gm, file); }), "fake tensor"));

  // Weights that are loaded later compute.
  const auto from = real->named_parameters(), to = gm->named_parameters();
  for (const auto& p : from) to[p.key()].set_data(p.value().data());
  CHECK(relative_difference(gm->forward(ids), real->forward(ids)) == 0);
}

TEST_CASE("real values that are copied into a fake tensor are told to be lost, once") {
  struct Heard : c10::WarningHandler {
    void process(const c10::Warning& warning) override { text += warning.msg(); }
    std::string text;
  } heard;
  const c10::WarningUtils::WarningHandlerGuard listening(&heard);
  const c10::WarningUtils::WarnAlways always;
  const Tensor real = torch::rand({3}), made = fake_like(real);
  const torch::NoGradGuard no_grad;
  made.copy_(made + 1);
  {
    const fxx::fake on;
    made.copy_(real);
  }
  CHECK(heard.text.empty());
  made.copy_(real);
  CHECK(contains(heard.text, "real values were copied into a fake tensor"));
  CHECK(is_fake(made));
}

TEST_CASE("code that asks for elements is refused when it is traced with fakes, by the operator's name") {
  const Tensor x = fake_like(of({3, 4}));
  const std::vector<std::pair<const char*, Forward>> asking = {
      {"item", [](const Tensors& t) { return t[0].sum().item<float>() > 0 ? t[0] : -t[0]; }},
      {"nonzero", [](const Tensors& t) { return torch::nonzero(t[0] > 0).sum(); }},
      {"nonzero", [](const Tensors& t) { return torch::where(t[0] > 0)[0]; }},
      {"nonzero", [](const Tensors& t) { return t[0].index({t[0] > 0}); }},
      {"masked_select", [](const Tensors& t) { return torch::masked_select(t[0], t[0] > 0); }},
      {"unique", [](const Tensors& t) { return std::get<0>(torch::_unique2(t[0])); }}};
  for (const auto& [name, f] : asking) {
    CAPTURE(std::string(name));
    const Fault fault = fault_of<Error>([&, &g = f] { traced(g, {x}); });
    CHECK(fault.id == 301);
    CAPTURE(fault.text);
    CHECK(fault.says(name));
    const fxx::fake on;
    CHECK(fault_of<Error>([&, &g = f] { traced(g, {torch::ones({3, 4})}); }).id == 301);
  }
}

// --- 7 billion parameters ------------------------------------------------------------------------------------------

TEST_CASE("a small decoder traced with fakes is the one traced for real, in both precisions") {
  for (bool fused : {false, true})
    for (at::ScalarType type : {torch::kFloat, torch::kBFloat16}) {
      zoo::LlamaConfig config = small_llama;
      config.fused = fused;
      auto real = zoo::Llama(config).ptr();
      real->to(type);
      const auto expected = trace(real, {torch::randint(0, 50, {2, 7})});
      const fxx::fake on;
      auto made = zoo::Llama(config).ptr();
      made->to(type);
      const auto gm = trace(made, {torch::zeros({2, 7}, torch::kLong)});
      CHECK(to_string(gm->graph()) == to_string(expected->graph()));
    }
}

/// The peak of the process's memory in bytes, from now on: what came before is forgotten.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }
std::size_t peak() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (std::size_t kilobytes = 0; word == "VmHWM:" && file >> kilobytes) return kilobytes << 10;
  return 0;
}

TEST_CASE("a decoder of 7 billion parameters is built and traced in less than a gigabyte") {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  const auto nodes_of = [](zoo::LlamaConfig config, std::int64_t layers) {
    config.num_layers = layers;
    return trace(zoo::Llama(config).ptr(), {torch::zeros({1, 2048}, torch::kLong)})->graph().size();
  };
  for (bool fused : {false, true})
    for (at::ScalarType type : {torch::kFloat, torch::kHalf}) {
      zoo::LlamaConfig config;
      config.fused = fused;
      forget_peak();
      const std::size_t before = peak();
      REQUIRE(before > 0);
      REQUIRE(before < resident() + 64 * megabyte);  // or a growth would not show
      const auto start = Clock::now();
      const fxx::fake on;
      auto net = zoo::Llama(config).ptr();
      net->to(type);
      const double built = seconds(start);
      const auto begin = Clock::now();
      const auto gm = trace(net, {torch::zeros({1, 2048}, torch::kLong)});
      const double traced = seconds(begin);

      gm->graph().lint();
      const std::string text = to_string(gm->graph());
      CHECK(to_string(parse_graph(text)) == text);
      const std::size_t two = nodes_of(config, 2);
      CHECK(gm->graph().size() == two + 30 * (nodes_of(config, 3) - two));
      CHECK(gm->graph().size() > 32 * 40);
      std::int64_t count = 0;
      for (const Tensor& p : gm->parameters()) {
        CHECK(is_fake(p));
        CHECK((p.scalar_type() == type));
        count += p.numel();
      }
      CHECK(count == 6'738'415'616);  // as published
      CHECK(gm->parameters().size() == 32 * 9 + 3);
      // The linear layers of the blocks, the embedding, the head.
      CHECK(called_modules(gm->graph()).size() == 32 * 7 + 2);
      const Tensor y = gm->forward(torch::zeros({1, 2048}, torch::kLong));
      CHECK(is_fake(y));
      CHECK(y.sizes() == torch::IntArrayRef{1, 2048, 32000});
      CHECK((y.scalar_type() == type));
      const std::size_t grown = peak() - before;
      CHECK(grown < 1024 * megabyte);
      std::cout << "decoder of " << count / 1'000'000 << " million parameters, " << gm->graph().size()
                << " nodes: built in " << built << " s, traced in " << traced << " s; the peak of memory grew by "
                << grown / megabyte << " MB\n";
    }
}

}  // namespace
