// Verification of compiled modules, a step at a time: models that it has to accept, and wrong kernels that it has to
// refuse.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fxx/runtime/cache.hpp"
#include "fxx/torch/quantise.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

std::shared_ptr<CompiledModule> compiled(const Forward& function, const Tensors& inputs, CompileOptions options = {}) {
  options.cache_folder = cache();
  if (options.threads == 0) options.threads = 1;
  return fxx::compile(*traced_net(*net_of(function), inputs), inputs, options);
}

Tensor enlarged(const Tensor& x, std::vector<std::int64_t> sizes) {
  return torch::upsample_bilinear2d(x, sizes, false, {}, {});
}

}  // namespace

TEST_CASE("examples of zeros and of constants, whose variance cancels, are accepted") {
  torch::manual_seed(1);
  torch::nn::Linear layer(24, 24);
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({24}));
  torch::nn::GroupNorm group(4, 24);
  const torch::NoGradGuard no_grad;
  for (const double value : {0., 0.1, 1 / 3., 1e4}) {
    CAPTURE(value);
    const Forward net = [&](const Tensors& in) -> c10::IValue {
      const Tensor x = in[0];
      const Tensor apart = (x - x.mean(-1, true)) / (x.var({-1}, false, true) + 1e-12).sqrt();
      return all_of(
          {norm(x), norm(layer(x)), apart, group(x.transpose(0, 1).unsqueeze(0)), torch::softmax(layer(x), -1)});
    };
    CHECK_NOTHROW(compiled(net, {torch::full({7, 24}, value)}));
  }
}

TEST_CASE("results that are nothing but rounding are accepted, each beside its own magnitude") {
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  for (const double value : {-3.3, 0.1, 1e-20, 7e5}) {
    CAPTURE(value);
    // Norms of one value throughout are the rounding of its mean, which the large result beside them has nothing of.
    const Forward net = [](const Tensors& in) {
      const Tensor x = in[0], image = x.reshape({1, 4, 8, 32});
      return all_of({torch::instance_norm(image, {}, {}, {}, {}, true, 0.1, 1e-5, false), torch::group_norm(image, 2),
                     x * 1e3, torch::instance_norm(image * 3, {}, {}, {}, {}, true, 0.1, 1e-5, false)});
    };
    CHECK_NOTHROW(compiled(net, {torch::full({32, 32}, value)}));
  }
  // A cosine of 1 is more than 1, or less, by a rounding.
  const Tensor w = torch::randn({32, 32});
  for (int seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    torch::manual_seed(seed);
    CHECK_NOTHROW(compiled(
        [&](const Tensors& in) {
          const Tensor y = torch::linear(in[0], w), c = torch::cosine_similarity(y, y, -1);
          const Tensor rest = y.mean(-1) - y.sum(-1) / 32;
          return all_of({torch::acos(c), torch::sqrt(1 - c), torch::log(1 - c), torch::acosh(c), torch::atanh(c),
                         torch::atan2(rest, -c), 1 / rest, rest.sign() * 3});
        },
        {torch::randn({40, 32})}));
  }
}

TEST_CASE("where an operator of the interpreter's overflows inside, its value is accepted") {
  // LibTorch's layer_norm squares what it subtracts from 0.
  CHECK_NOTHROW(compiled([](const Tensors& in) { return c10::IValue(torch::layer_norm(in[0], {32})); },
                         {torch::full({32, 32}, 1e20)}));
}

TEST_CASE("results whose number of elements a rounding decides are accepted") {
  torch::manual_seed(2);
  const torch::NoGradGuard no_grad;
  const Tensor table = torch::randn({40, 16});
  const Tensor image = torch::randint(0, 4, {1, 1, 9, 7}).to(torch::kFloat) / 3;
  CHECK_NOTHROW(compiled(
      [](const Tensors& in) -> c10::IValue {
        return std::get<0>(torch::unique_consecutive(enlarged(in[0], {23, 31}).flatten()));
      },
      {image}));
  CHECK_NOTHROW(compiled(
      [](const Tensors& in) -> c10::IValue {
        const Tensor x = in[0] / in[0].norm(2, {-1}, true);
        return all_of({torch::nonzero((x * x).sum(-1) >= 1), torch::nonzero(x.matmul(x.t()) >= 1)});
      },
      {table}));
}

TEST_CASE("int8 models of token ids and of images are accepted") {
  torch::manual_seed(3);
  const torch::NoGradGuard no_grad;
  for (int seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    torch::manual_seed(seed);
    torch::nn::Embedding table(50, 32);
    torch::nn::Linear a(32, 64), b(64, 32), head(32, 20);
    torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({32}));
    const auto net = net_of([&](const Tensors& in) -> c10::IValue {
      Tensor x = table(in[0]);
      for (int i = 0; i < 3; ++i) x = norm(x + b(torch::gelu(a(x))));
      return head(x);
    });
    net->module(table), net->module(a), net->module(b), net->module(head), net->module(norm);
    const Tensor ids = torch::randint(0, 50, {2, 12});
    const auto quantised = quantise(*traced_net(*net, {ids}), {{ids}, {torch::randint(0, 50, {2, 12})}});
    CHECK_NOTHROW(fxx::compile(*quantised, {ids}, {.threads = 1, .cache_folder = cache()}));
  }
  for (int seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    torch::manual_seed(seed);
    torch::nn::Conv2d a(torch::nn::Conv2dOptions(3, 32, 3).padding(1)),
        b(torch::nn::Conv2dOptions(32, 32, 3).padding(1)), c(torch::nn::Conv2dOptions(32, 64, 3).stride(2)),
        d(torch::nn::Conv2dOptions(64, 64, 1));
    torch::nn::Linear head(64, 10);
    const auto net = net_of([&](const Tensors& in) -> c10::IValue {
      const Tensor x = torch::relu(b(torch::relu(a(in[0]))));
      return head(torch::relu(d(torch::relu(c(x)))).mean({2, 3}));
    });
    net->module(a), net->module(b), net->module(c), net->module(d), net->module(head);
    const Tensor image = torch::randint(0, 256, {1, 3, 24, 24}).to(torch::kFloat) / 255;
    const auto quantised = quantise(*traced_net(*net, {image}), {{image}});
    CHECK_NOTHROW(fxx::compile(*quantised, {image}, {.threads = 1, .cache_folder = cache()}));
  }
}

namespace {

/// A model of one family of kernels.
struct Family {
  Forward function;
  Tensors inputs;
  bool quantised = false;
};
/// A fault that is put into a kernel: other words in a header, or in the generated source where there is no file.
struct Mutant {
  const char *family, *fault, *file, *words, *by;
};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string replaced(std::string text, const std::string& words, const std::string& by) {
  const std::size_t at = text.find(words);
  if (at == text.npos) return {};
  return text.replace(at, words.size(), by);
}
std::string content_of_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Mutants {
 public:
  Mutants() {
    torch::manual_seed(11);
    const torch::NoGradGuard no_grad;
    const auto random = [](at::IntArrayRef sizes) { return torch::randn(sizes) / 2; };
    {
      const Tensor w = random({19, 33}), b = random({19});
      families_["product"] = {[=](const Tensors& in) { return c10::IValue(torch::linear(in[0], w, b)); },
                              {random({21, 33})}};
      families_["product that hardly counts"] = {
          [=](const Tensors& in) {
            return c10::IValue(torch::softmax(torch::linear(in[0], w, b), -1) * 1e-9 + 1);
          },
          {random({21, 33})}};
    }
    {
      torch::nn::Linear layer(65, 48);
      families_["product of bytes"] = {
          [=](const Tensors& in) mutable { return c10::IValue(layer(in[0])); }, {random({2, 65})}, true};
    }
    {
      const Tensor w = random({24, 6, 3, 3}), b = random({24});
      families_["convolution"] = {[=](const Tensors& in) { return c10::IValue(torch::conv2d(in[0], w, b, 2, 1)); },
                                  {random({1, 6, 13, 61})}};
    }
    {
      const Tensor w = random({19, 1, 3, 3}), b = random({19});
      families_["depthwise"] = {[=](const Tensors& in) { return c10::IValue(torch::conv2d(in[0], w, b, 1, 1, 1, 19)); },
                                {random({1, 19, 9, 11})}};
    }
    {
      const Tensor w = random({64, 64, 3, 3}) / 8;
      const auto twice = [=](const Tensors& in) {
        return c10::IValue(torch::conv2d(torch::relu(torch::conv2d(in[0], w, {}, 1, 1)), w, {}, 1, 1));
      };
      families_["winograd"] = {twice, {random({1, 64, 28, 28})}};
      const auto often = [=](const Tensors& in) {
        Tensor x = in[0];
        for (int i = 0; i < 12; ++i) x = torch::relu(torch::conv2d(x, w, {}, 1, 1)) + 0.01;
        return c10::IValue(x);
      };
      families_["winograd of 4"] = {often, {random({1, 64, 28, 28})}};
    }
    families_["pooling"] = {[](const Tensors& in) {
                              return all_of({torch::max_pool2d(in[0], 3, 2, 1), torch::avg_pool2d(in[0], 3, 2, 1)});
                            },
                            {random({1, 19, 11, 9})}};
    families_["reduction"] = {[](const Tensors& in) {
                                return all_of({in[0].sum(-1), in[0].argmax(-1), in[0].var({-1})});
                              },
                              {random({7, 45})}};
    {
      const Tensor w = random({45}), b = random({45});
      families_["rows"] = {[=](const Tensors& in) {
                             return all_of({torch::softmax(in[0], -1), torch::layer_norm(in[0], {45}, w, b)});
                           },
                           {random({7, 45})}};
    }
    families_["group norm"] = {[](const Tensors& in) { return c10::IValue(torch::group_norm(in[0], 4)); },
                               {random({1, 16, 7, 5})}};
    families_["attention"] = {
        [](const Tensors& in) { return c10::IValue(torch::scaled_dot_product_attention(in[0], in[1], in[2])); },
        {random({1, 2, 11, 16}), random({1, 2, 21, 16}), random({1, 2, 21, 16})}};
    {
      torch::nn::GRU layer(12, 19);
      families_["recurrent"] = {[=](const Tensors& in) mutable { return c10::IValue(std::get<0>(layer(in[0]))); },
                                {random({6, 2, 12})}};
    }
    families_["resize"] = {[](const Tensors& in) {
                             return c10::IValue(enlarged(in[0], {13, 17}));
                           },
                           {random({1, 3, 6, 7})}};
    {
      const Tensor to = torch::randint(0, 5, {12});
      families_["running sum"] = {[](const Tensors& in) { return c10::IValue(in[0].cumsum(-1)); }, {random({7, 45})}};
    {
      const Tensor bounds = torch::linspace(-1, 1, 9);
      families_["search"] = {[=](const Tensors& in) { return c10::IValue(torch::bucketize(in[0], bounds)); },
                             {random({7, 45})}};
    }
    families_["nearest"] = {[](const Tensors& in) { return c10::IValue(torch::upsample_nearest2d(in[0], {13, 17})); },
                            {random({1, 3, 6, 7})}};
    families_["scatter"] = {[=](const Tensors& in) { return c10::IValue(torch::index_add(in[0], 0, to, in[1])); },
                              {random({5, 19}), random({12, 19})}};
    }
    {
      const Tensor table = random({20, 19}), at = torch::randint(0, 20, {12}),
                   from = torch::tensor({0, 3, 7}, torch::kLong);
      families_["bags"] = {
          [=](const Tensors& in) { return c10::IValue(std::get<0>(torch::embedding_bag(in[0], at, from))); }, {table}};
    }
    families_["sort"] = {[](const Tensors& in) {
                           return all_of({std::get<0>(in[0].sort(-1)), std::get<1>(in[0].topk(5, -1))});
                         },
                         {random({40, 47})}};
    families_["pointwise"] = {[](const Tensors& in) { return c10::IValue(torch::tanh(in[0]) * 2 + in[1]); },
                              {random({45}), random({45})}};
    families_["copy"] = {[](const Tensors& in) {
                           return all_of({torch::cat({in[0].transpose(0, 1), in[1]}, 1)});
                         },
                         {random({9, 13}), random({13, 5})}};
  }

  std::string refusal(const Mutant& mutant) {
    const Family& family = families_.at(mutant.family);
    const auto net = net_of(family.function);
    auto traced = traced_net(*net, family.inputs);
    const Accuracy accuracy = Accuracy::standard;
    if (family.quantised) traced = quantise(*traced, {family.inputs});
    const TemporaryFolder folder, headers, elsewhere;
    const auto compile = [&] {
      return fxx::compile(*traced, family.inputs, {.accuracy = accuracy, .threads = 1, .cache_folder = folder.path()});
    };
    std::string source, path;
    {
      const auto right = compile();
      source = right->source_code();
      path = right->library_path();
    }
    std::string include = kernel_headers_folder();
    if (mutant.file) {
      std::filesystem::create_directories(headers / "fxx");
      std::filesystem::copy(include + "/fxx/kernels", headers / "fxx/kernels");
      include = headers.path();
      const std::string file = headers / "fxx/kernels/" + mutant.file;
      const std::string text = replaced(content_of_file(file), mutant.words, mutant.by);
      if (text.empty()) return "the words are not in the header";
      std::ofstream(file) << text;
    } else {
      const std::string text = replaced(source, mutant.words, mutant.by);
      if (text.empty()) return "the words are not in:\n" + source;
      source = text;
    }
    const BuildRequest request{
        .source = source,
        .flags = {"-std=c++20", "-O1", "-march=native", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math"},
        .include_folders = {include}};
    support::put_in_place_of_entry(folder_of(path), folder_of(BuildCache(elsewhere.path()).get_or_build(request)));
    try {
      if (!compile()->was_cached()) return "the mutant was not loaded";
      return "accepted";
    } catch (const LoadError& refused) {
      return refused.id() == ErrorId::result_differs ? "" : refused.what();
    }
  }

 private:
  std::map<std::string, Family> families_;
};

}  // namespace

TEST_CASE("wrong kernels are refused, of every family" * doctest::timeout(600)) {
  constexpr Mutant mutants[] = {
      {"product", "the last product of a sum is dropped", "gemm.hpp",
       "for (int k = 0; k < depth; ++k) {\n      ahead.next();",
       "for (int k = 0; k + 1 < depth; ++k) {\n      ahead.next();"},
      {"product", "the vectors of a tile change places", "gemm.hpp", "finish(r, v * lanes, sums[r][v], Width<lanes>{})",
       "finish(r, v * lanes, sums[r][Vectors - 1 - v], Width<lanes>{})"},
      {"product", "the bias is lost", nullptr, " + load_some<width>(a + column)", ""},
      {"product that hardly counts", "the bias is lost", nullptr, " + load_some<width>(a + column)", ""},
      {"product of bytes", "products that fill no 32 bits are dropped", "gemm.hpp",
       "else if (k < depth) some(Width<1>{}, k);\n    }\n  }", "}\n  }"},
      {"convolution", "the stride between pixels is 1", "convolution.hpp",
       "static_cast<std::ptrdiff_t>(x) * Shape.stride_width) *", "static_cast<std::ptrdiff_t>(x)) *"},
      {"convolution", "the border is not cleared on the right", "loops.hpp", "if constexpr (Shape.right > 0) clear(",
       "if constexpr (Shape.right > 9999) clear("},
      {"depthwise", "the filter is turned round", "depthwise.hpp", "s * Shape.dilation_width) * pixel",
       "(Shape.kernel_width - 1 - s) * Shape.dilation_width) * pixel"},
      {"winograd", "a point of the transform is lost", "winograd.hpp", "(m[1] - m[2]) - m[3];", "(m[1] - m[2]);"},
      {"winograd of 4", "a point of the transform of 4 is lost", "winograd.hpp", "(fb3 * v + m[5])", "(fb3 * v)"},
      {"pooling", "the last column of a window is dropped", "pooling.hpp",
       "for (int s = 0; s < Shape.kernel_width; ++s) {", "for (int s = 0; s + 1 < Shape.kernel_width; ++s) {"},
      {"reduction", "the tail of a row is dropped", "reductions.hpp", "if constexpr (N > whole)\n    total = Combine{}",
       "if constexpr (N > 99999)\n    total = Combine{}"},
      {"reduction", "the place is that of the vector before", "reductions.hpp", "place = better ? index : place;",
       "place = better ? index - lanes : place;"},
      {"rows", "a softmax is not divided by its sum", "rows.hpp",
       "put(c, unfused(row(c, width) * factor), width); });\n  } else",
       "put(c, unfused(row(c, width)), width); });\n  } else"},
      {"rows", "the variance is divided by one element more", "rows.hpp", "spread.squares * (1.f / N) + eps",
       "spread.squares * (1.f / (N + 1)) + eps"},
      {"group norm", "groups of half the channels", nullptr, ".groups = 4", ".groups = 8"},
      {"attention", "the last key is not seen", nullptr, ".keys = 21", ".keys = 20"},
      {"recurrent", "the bias is lost", "recurrent.hpp", "sum + load_some<width>(own.bias + column)", "sum"},
      {"resize", "the lower row is the upper one", "copies.hpp", "static_cast<std::ptrdiff_t>(rows.second)",
       "static_cast<std::ptrdiff_t>(rows.first)"},
      {"scatter", "what stands there already is lost", "scatter.hpp", "How == Combine::add) return before + v;",
       "How == Combine::add) return v;"},
      {"bags", "the last row of a bag is dropped", "bags.hpp", "for (std::int64_t i = begin; i < end; ++i) {",
       "for (std::int64_t i = begin; i + 1 < end; ++i) {"},
      {"sort", "the last element of a run is not sorted", "sorting.hpp", "for (int i = first + 1; i < end; ++i) {",
       "for (int i = first + 1; i + 1 < end; ++i) {"},
      {"sort", "the tail of a row is not among the largest", "sorting.hpp", "for (; i < Shape.length; ++i) take(i);",
       ";"},
      {"running sum", "the sum of the vectors before is lost", "copies.hpp", "total = high[lanes / 2 - 1];", ""},
      {"search", "the last half is not looked at", "searching.hpp", "left = N; left > 0;", "left = N; left > 1;"},
      {"nearest", "the column before is taken", "copies.hpp", "Shape.exact>(x, along)",
       "Shape.exact>(x > 0 ? x - 1 : x, along)"},
      {"pointwise", "the tail is dropped", "loops.hpp", "if (i < mine.end) each(i, Width<N % lanes>{});", ";"},
      {"copy", "rows lie one element too near", nullptr, "a + i + j * 13, 13, width", "a + i + j * 13, 12, width"},
  };
  Mutants all;
  for (const Mutant& mutant : mutants) {
    const std::string family = mutant.family, fault = mutant.fault;
    CAPTURE(family);
    CAPTURE(fault);
    CHECK(all.refusal(mutant) == "");
  }
}
