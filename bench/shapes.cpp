// Layers in 200 drawn shapes of those that models have, each beside LibTorch's own operator (oneDNN, for most) and
// OpenVINO, in turns within this process: products, convolutions of one and two dimensions, reductions.
//
// usage: bench_shapes --list FOLDER [--count N]
//        bench_shapes --serve FOLDER [--count N] [--openvino LIBRARY]
//   --list    leaves weights in FOLDER and prints a JSON object a shape, of which shapes.py makes the peers' models
//   --serve   reads numbers of shapes, a line each; at each prints microseconds of one turn, by side: the least of
//             some calls. The first turn of a shape compiles it, compares results with double precision, and leaves
//             these and the input in FOLDER
//        bench_shapes --plan NUMBER
//   --plan    prints the steps of a shape with their times
// All sides take a tensor and give one, with one thread; images lie channels last, sequences as LibTorch has them.
#include <dlfcn.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fxx/torch.hpp"

namespace {
using torch::Tensor;
using Json = nlohmann::ordered_json;
using Sizes = std::vector<std::int64_t>;

struct Shape {
  std::string kind;  // product, conv2d, conv1d, reduction
  Sizes input, weight = {};
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  std::string function = {};  // of a reduction
  Sizes dims = {};

  std::string name() const {
    const auto text = [](const Sizes& sizes) {
      std::string all;
      for (const std::int64_t size : sizes) {
        if (!all.empty()) all += 'x';
        all += std::to_string(size);
      }
      return all;
    };
    std::string name = kind + " " + (function.empty() ? "" : function + " ") + text(input);
    if (!weight.empty()) name += " by " + text(weight);
    if (!dims.empty()) name += " over " + text(dims);
    if (stride > 1) name += ", stride " + std::to_string(stride);
    if (dilation > 1) name += ", dilation " + std::to_string(dilation);
    if (groups > 1) name += ", " + std::to_string(groups) + " groups";
    return name;
  }
  Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias) const {
    if (kind == "product") return torch::linear(x, w, bias);
    if (kind == "conv2d") return torch::conv2d(x, w, bias, stride, padding, dilation, groups);
    if (kind == "conv1d")
      return torch::conv1d(x, w, bias, at::IntArrayRef{stride}, at::IntArrayRef{padding}, at::IntArrayRef{dilation},
                           groups);
    if (function == "amax") return x.amax(dims);
    if (function == "sum") return x.sum(dims);
    return x.mean(dims);
  }
  double flops() const {
    const double of_input = std::accumulate(input.begin(), input.end(), 1., std::multiplies<>());
    if (kind == "product") return 2 * of_input * static_cast<double>(weight[0]);
    if (weight.empty()) return of_input;
    const double all = std::accumulate(weight.begin(), weight.end(), 1., std::multiplies<>());
    return 2 * of_input / static_cast<double>(input[1]) * all / std::pow(stride, kind == "conv2d" ? 2 : 1);
  }
};

/// The same at every run.
std::vector<Shape> drawn_shapes(std::size_t count) {
  std::mt19937 random(20261127);
  const auto one_of = [&](const Sizes& of) { return of[random() % of.size()]; };
  std::vector<Shape> shapes;
  while (shapes.size() < count) {
    Shape s;
    const unsigned kind = random() % 20;
    if (kind < 6) {
      s.kind = "product";
      const Sizes widths = {32, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1000, 1024, 1280, 1536, 2048, 3072, 4096};
      s.input = {one_of({1, 1, 2, 4, 8, 16, 32, 49, 64, 100, 128, 196, 197, 256, 384, 512, 1024}), one_of(widths)};
      s.weight = {one_of(widths), s.input[1]};
      if (random() % 6 == 0) s.weight[0] = one_of({1, 2, 5, 10, 21, 80});
    } else if (kind < 12) {
      s.kind = "conv2d";
      const std::int64_t size = one_of({7, 8, 14, 16, 20, 28, 32, 40, 56, 64, 80, 112, 160, 224});
      const std::int64_t kernel = one_of({1, 1, 3, 3, 3, 3, 5, 7});
      const Sizes channels = size >= 112  ? Sizes{3, 16, 24, 32, 64}
                             : size >= 28 ? Sizes{16, 24, 32, 40, 64, 96, 128, 192, 256}
                                          : Sizes{64, 96, 128, 160, 256, 384, 512, 960};
      s.input = {one_of({1, 1, 1, 2, 4}), one_of(channels), size,
                 random() % 4 ? size : one_of({size, size * 2, 1, size / 2})};
      s.weight = {one_of(channels), s.input[1], kernel, s.input[3] == 1 ? 1 : kernel};
      if (random() % 5 == 0) {
        s.groups = s.weight[0] = s.input[1];
        s.weight[1] = 1;
      } else if (random() % 10 == 0 && s.input[1] % 8 == 0 && s.weight[0] % 8 == 0) {
        s.groups = 8;
        s.weight[1] /= 8;
      }
      if (kernel > 1 || random() % 3 == 0) s.stride = one_of({1, 1, 1, 2});
      if (kernel == 3 && s.stride == 1 && random() % 6 == 0) s.dilation = 2;
      s.padding = s.input[3] == 1 ? 0 : kernel / 2 * s.dilation;
    } else if (kind < 16) {
      s.kind = "conv1d";
      s.input = {one_of({1, 1, 2, 8}), one_of({1, 16, 32, 40, 64, 80, 128, 256, 384, 512}),
                 one_of({50, 100, 160, 250, 500, 1000, 1500, 3000, 4000, 16000})};
      s.weight = {one_of({16, 32, 64, 80, 128, 256, 384, 512}), s.input[1], one_of({1, 3, 3, 3, 5, 7, 9, 15, 31, 64})};
      s.stride = one_of({1, 1, 1, 2, 4});
      if (s.weight[2] == 3) s.dilation = one_of({1, 1, 2, 4, 8, 16});
      if (s.input[1] > 1 && random() % 6 == 0) {
        s.groups = s.weight[0] = s.input[1];
        s.weight[1] = 1;
      }
      s.padding = s.weight[2] / 2 * s.dilation;
      if (s.input[2] <= (s.weight[2] - 1) * s.dilation) continue;
    } else {
      s.kind = "reduction";
      s.function = std::vector<std::string>{"amax", "sum", "mean"}[random() % 3];
      s.input.resize(2 + random() % 3);
      for (std::int64_t& size : s.input) size = one_of({3, 8, 16, 32, 49, 64, 100, 128, 196, 256, 512, 768, 1024});
      while (s.dims.empty() || s.dims.size() == s.input.size()) {
        s.dims.clear();
        for (std::size_t d = 0; d < s.input.size(); ++d)
          if (random() % 2) s.dims.push_back(static_cast<std::int64_t>(d));
      }
    }
    const double elements = std::accumulate(s.input.begin(), s.input.end(), 1., std::multiplies<>());
    if (s.flops() < 2e3 || s.flops() > 1e9 || elements > 3e6) continue;
    shapes.push_back(std::move(s));
  }
  return shapes;
}

struct Tensors {
  Tensor input, weight, bias;
};
/// The same for a shape wherever they are made.
Tensors tensors_of(const Shape& shape, std::size_t number) {
  torch::manual_seed(number + 1);
  Tensors t;
  t.input = torch::randn(shape.input);
  if (shape.kind == "conv2d") t.input = t.input.contiguous(at::MemoryFormat::ChannelsLast);
  if (shape.weight.empty()) return t;
  t.weight = torch::randn(shape.weight) / std::sqrt(static_cast<double>(shape.weight[1]));
  t.bias = torch::randn({shape.weight[0]});
  return t;
}

/// OpenVINO through its C interface, whose functions are looked up: nothing of it is needed to build this.
class OpenVino {
  using Any = void*;
  struct Dimensions {
    std::int64_t rank;
    std::int64_t* dims;
  };
  template <class F>
  F function(const char* name) const {
    const auto found = reinterpret_cast<F>(dlsym(library_, name));
    if (!found) throw std::runtime_error(std::string("OpenVINO has no ") + name);
    return found;
  }
  static void check(int status, const char* what) {
    if (status != 0) throw std::runtime_error(std::string(what) + " returns " + std::to_string(status));
  }

 public:
  explicit OpenVino(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(dlerror());
    check(function<int (*)(Any*)>("ov_core_create")(&core_), "ov_core_create");
  }
  /// The model as a function of tensors, whose memory it reads and writes where it lies.
  std::function<Tensor(const Tensor&)> load(const std::string& file, const Tensor& input, const Tensor& result) const {
    Any model = nullptr, compiled = nullptr, request = nullptr, given = nullptr;
    check(function<int (*)(Any, const char*, const char*, Any*)>("ov_core_read_model")(core_, file.c_str(), nullptr,
                                                                                       &model),
          "ov_core_read_model");
    check(function<int (*)(Any, Any, const char*, std::size_t, Any*, ...)>("ov_core_compile_model")(
              core_, model, "CPU", 6, &compiled, "PERFORMANCE_HINT", "LATENCY", "INFERENCE_NUM_THREADS", "1",
              "INFERENCE_PRECISION_HINT", "f32"),
          "ov_core_compile_model");
    check(function<int (*)(Any, Any*)>("ov_compiled_model_create_infer_request")(compiled, &request),
          "ov_compiled_model_create_infer_request");
    check(function<int (*)(Any, Any*)>("ov_infer_request_get_input_tensor")(request, &given), "get_input_tensor");
    int type = 0;
    check(function<int (*)(Any, int*)>("ov_tensor_get_element_type")(given, &type), "ov_tensor_get_element_type");
    const auto create = function<int (*)(int, Dimensions, void*, Any*)>("ov_tensor_create_from_host_ptr");
    const auto destroy = function<void (*)(Any)>("ov_tensor_free");
    const auto set_input = function<int (*)(Any, Any)>("ov_infer_request_set_input_tensor");
    const auto set_output = function<int (*)(Any, Any)>("ov_infer_request_set_output_tensor");
    const auto infer = function<int (*)(Any)>("ov_infer_request_infer");
    // As the model has them: images with channels behind.
    const auto in_memory = [](const Tensor& t) {
      Sizes sizes = t.sizes().vec();
      if (t.dim() == 4 && !t.is_contiguous()) sizes = {sizes[0], sizes[2], sizes[3], sizes[1]};
      return sizes;
    };
    const auto format = result.suggest_memory_format();
    return [=, of_input = in_memory(input), of_result = in_memory(result),
            sizes = result.sizes().vec()](const Tensor& x) mutable {
      Tensor y = at::empty(sizes, at::TensorOptions(at::kFloat).memory_format(format));
      Any in = nullptr, out = nullptr;
      check(create(type, {static_cast<std::int64_t>(of_input.size()), of_input.data()}, x.data_ptr(), &in), "input");
      check(create(type, {static_cast<std::int64_t>(of_result.size()), of_result.data()}, y.data_ptr(), &out),
            "output");
      check(set_input(request, in), "ov_infer_request_set_input_tensor");
      check(set_output(request, out), "ov_infer_request_set_output_tensor");
      check(infer(request), "ov_infer_request_infer");
      destroy(in), destroy(out);
      return y;
    };
  }

 private:
  void* library_;
  Any core_ = nullptr;
};

/// A shape with all that computes it.
struct Opened {
  Tensors tensors;
  std::map<std::string, std::function<void()>> sides;
  Json said;
};
/// Microseconds of a call, the least of some.
double microseconds_of(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count() * 1e6;
  };
  auto start = Clock::now();
  call();
  double least = since(start);
  const int n = least > 20 ? 1 : static_cast<int>(20 / std::max(least, 0.1)) + 1;
  double all = 0;
  for (int i = 0; i < 5 || (all < 10'000 && i < 2000); ++i) {
    start = Clock::now();
    for (int j = 0; j < n; ++j) call();
    const double took = since(start);
    all += took;
    least = std::min(least, took / n);
  }
  return least;
}

/// The module is what the compiled one watches.
std::pair<std::shared_ptr<torch::nn::Module>, std::shared_ptr<fxx::CompiledModule>> compiled_layer(const Shape& shape,
                                                                                                   const Tensors& t) {
  auto module = std::make_shared<torch::nn::Module>("Layer");
  if (t.weight.defined()) {
    module->register_parameter("weight", t.weight);
    module->register_parameter("bias", t.bias);
  }
  module->eval();
  const auto gm = fxx::detail::trace_module(
      *module, true, [&](std::span<const Tensor> in) { return c10::IValue(shape.forward(in[0], t.weight, t.bias)); },
      {t.input}, {});
  return {module, fxx::compile(*gm, {t.input}, {.threads = 1})};
}

std::unique_ptr<Opened> open(const Shape& shape, std::size_t number, const std::string& folder,
                             const OpenVino* openvino) {
  auto opened = std::make_unique<Opened>();
  opened->tensors = tensors_of(shape, number);
  const Tensors& t = opened->tensors;
  const auto wide = [](const Tensor& x) { return x.defined() ? x.to(torch::kDouble) : x; };
  const Tensor exact = shape.forward(wide(t.input), wide(t.weight), wide(t.bias));
  const Tensor eager = shape.forward(t.input, t.weight, t.bias);
  const auto error_of = [&](const Tensor& y) {
    return ((y.to(torch::kDouble) - exact).abs().max() / exact.abs().max()).item<double>();
  };
  // For shapes.py, as they lie in memory.
  const auto leave = [&](const char* name, const Tensor& tensor) {
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(static_cast<const char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  };
  leave("input", t.input);
  leave("exact", exact.to(torch::kFloat).contiguous(eager.suggest_memory_format()));
  opened->said["error"]["libtorch"] = error_of(eager);
  opened->sides["libtorch"] = [&t, shape] { shape.forward(t.input, t.weight, t.bias); };

  const auto [module, compiled] = compiled_layer(shape, t);
  opened->said["error"]["fxx"] = error_of(compiled->forward(t.input));
  opened->sides["fxx"] = [compiled = compiled, module = module, &t] { compiled->forward(t.input); };

  const std::string file = folder + "/" + std::to_string(number) + ".xml";
  if (openvino && std::ifstream(file)) {
    const auto run = openvino->load(file, t.input, eager);
    opened->said["error"]["openvino"] = error_of(run(t.input));
    opened->sides["openvino"] = [run, &t]() mutable { run(t.input); };
  }
  return opened;
}

void list(const std::vector<Shape>& shapes, const std::string& folder) {
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Shape& s = shapes[i];
    const Tensors t = tensors_of(s, i);
    const Tensor y = s.forward(t.input, t.weight, t.bias);
    for (const auto& [suffix, tensor] : {std::pair{".weight", t.weight}, {".bias", t.bias}})
      if (tensor.defined())
        std::ofstream(folder + "/" + std::to_string(i) + suffix, std::ios::binary)
            .write(static_cast<const char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    Json line = {{"shape", i},         {"name", s.name()},       {"kind", s.kind},       {"input", s.input},
                 {"weight", s.weight}, {"stride", s.stride},     {"padding", s.padding}, {"dilation", s.dilation},
                 {"groups", s.groups}, {"function", s.function}, {"dims", s.dims},       {"output", y.sizes().vec()}};
    std::cout << line.dump() << std::endl;
  }
}

void serve(const std::vector<Shape>& shapes, const std::string& folder, const OpenVino* openvino) {
  std::map<std::size_t, std::unique_ptr<Opened>> all;
  for (std::size_t number; std::cin >> number && number < shapes.size();) {
    Json line = {{"shape", number}};
    try {
      std::unique_ptr<Opened>& opened = all[number];
      if (!opened) {
        all.clear();  // one at a time, so that all that is in memory is its own
        all[number] = open(shapes[number], number, folder, openvino);
      }
      Opened& now = *all[number];
      line.update(now.said);
      for (auto& [side, call] : now.sides) line["us"][side] = microseconds_of(call);
    } catch (const std::exception& error) {
      line["why"] = error.what();
    }
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string to_list, to_serve, library;
  std::size_t count = 200;
  int to_plan = -1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i], value = argv[i + 1];
    if (word == "--list") to_list = value;
    else if (word == "--serve") to_serve = value;
    else if (word == "--openvino") library = value;
    else if (word == "--plan") to_plan = std::atoi(argv[i + 1]);
    else if (word == "--count") count = std::stoul(value);
    else return std::fprintf(stderr, "%s: %s is not understood\n", argv[0], argv[i]), 2;
  }
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const std::vector<Shape> shapes = drawn_shapes(count);
  if (to_plan >= 0) {
    const auto number = static_cast<std::size_t>(to_plan);
    const Tensors t = tensors_of(shapes.at(number), number);
    const auto [module, compiled] = compiled_layer(shapes[number], t);
    std::puts(compiled->kernel_plan().to_string(compiled->profile({t.input}, 100)).c_str());
    return 0;
  }
  if (!to_list.empty()) return list(shapes, to_list), 0;
  std::unique_ptr<OpenVino> openvino;
  if (!library.empty()) openvino = std::make_unique<OpenVino>(library);
  serve(shapes, to_serve, openvino.get());
}
