// The zoo: models as LibTorch users write them, ready to be run, traced and measured.
//
// Main names: models(), build(), Model, Size. Ordinary LibTorch, nothing of fxx. `Size::full` is the published model;
// `Size::small` has all of its layers, but few channels and small inputs, so that it runs in double precision in
// milliseconds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bert.hpp"
#include "dcgan.hpp"
#include "densenet.hpp"
#include "diffusion.hpp"
#include "dlrm.hpp"
#include "gnn.hpp"
#include "gpt.hpp"
#include "mixer.hpp"
#include "mobilenet_v3.hpp"
#include "resnet.hpp"
#include "swin.hpp"
#include "t5.hpp"
#include "taggers.hpp"
#include "transformers.hpp"
#include "unet.hpp"
#include "vit.hpp"

namespace zoo {

using Tensors = std::vector<Tensor>;
enum class Size { small, full };

struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<c10::IValue(const Tensors&)> forward;  // of the module
  std::function<Tensors()> inputs;                     // drawn anew at each call, of the same shapes
};
struct Entry {
  const char* name;
  Model (*make)(bool full);
  int64_t parameters = 0;  // of the published model, where it is small enough to be made just to count them
};

namespace detail {
template <class Impl, std::size_t... I>
Model model(std::shared_ptr<Impl> module, std::function<Tensors()> inputs, std::index_sequence<I...>) {
  const auto forward = [module](const Tensors& in) { return c10::IValue(module->forward(in.at(I)...)); };
  return {module, forward, std::move(inputs)};
}
/// A model whose forward takes this many tensors.
template <std::size_t Inputs, class Holder>
Model model(const Holder& holder, std::function<Tensors()> inputs) {
  return model(holder.ptr(), std::move(inputs), std::make_index_sequence<Inputs>());
}
inline std::function<Tensors()> images(std::vector<int64_t> shape) {
  return [=] { return Tensors{torch::rand(shape)}; };
}
inline Tensor ids(int64_t vocabulary, std::vector<int64_t> shape) { return torch::randint(1, vocabulary, shape); }
/// Ones, with zeros at the end of the last row.
inline Tensor padding_mask(int64_t batch, int64_t length) {
  auto mask = torch::ones({batch, length}, torch::kLong);
  mask.index_put_({-1, Slice(length * 2 / 3, None)}, 0);
  return mask;
}

inline Model gpt(bool full, bool decode) {
  const GptConfig c = full ? GptConfig() : GptConfig{101, 32, 48, 12, 12, 0.1};
  const int64_t length = full ? 128 : 9;
  if (!decode) return model<1>(Gpt(c), [=] { return Tensors{ids(c.vocab_size, {2, length})}; });
  return model<2>(Gpt(c), [=] {
    return Tensors{ids(c.vocab_size, {2, 1}), torch::randn({c.n_layer, 2, 2, c.n_head, length, c.n_embd / c.n_head})};
  });
}
inline Model dlrm(bool full) {
  DlrmConfig c;
  if (!full) c.max_rows = 50;
  const int64_t batch = full ? 128 : 5, looked_up = 3 * batch;
  return model<3>(Dlrm(c), [=] {
    Tensors indices, offsets;
    for (const auto rows : c.rows) {
      indices.push_back(torch::randint(std::min(rows, c.max_rows), {looked_up}));
      const auto later = std::get<0>(torch::randint(looked_up, {batch - 1}).sort());
      offsets.push_back(torch::cat({torch::zeros({1}, torch::kLong), later}));
    }
    return Tensors{torch::randn({batch, 13}), torch::stack(indices), torch::stack(offsets)};
  });
}
/// Nodes' features and edges, of Cora's size when full.
inline std::function<Tensors()> graph(bool full) {
  const int64_t nodes = full ? 2708 : 40, features = full ? 1433 : 30, edges = full ? 10556 : 150;
  return [=] { return Tensors{torch::rand({nodes, features}), torch::randint(nodes, {2, edges})}; };
}
}  // namespace detail

inline const std::vector<Entry>& models() {
  using namespace detail;
  static const std::vector<Entry> list = {
      {"resnet50",
       [](bool full) {
         return full ? model<1>(ResNet(), images({1, 3, 224, 224}))
                     : model<1>(ResNet(std::vector<int64_t>{3, 4, 6, 3}, 16, 10), images({2, 3, 64, 64}));
       },
       25557032},
      {"mobilenet_v3_large",
       [](bool full) {
         return full ? model<1>(MobileNetV3(), images({1, 3, 224, 224}))
                     : model<1>(MobileNetV3(0.5, 10), images({2, 3, 64, 64}));
       },
       5483032},
      {"densenet121",
       [](bool full) {
         return full ? model<1>(DenseNet(), images({1, 3, 224, 224}))
                     : model<1>(DenseNet(8, std::vector<int64_t>{6, 12, 24, 16}, 16, 10), images({2, 3, 64, 64}));
       },
       7978856},
      {"unet",
       [](bool full) {
         return full ? model<1>(UNet(), images({1, 1, 256, 256})) : model<1>(UNet(1, 2, 8), images({2, 1, 50, 42}));
       }},
      {"vit_b_16",
       [](bool full) {
         return full ? model<1>(VisionTransformer(), images({1, 3, 224, 224}))
                     : model<1>(VisionTransformer(VitConfig{64, 16, 48, 12, 12, 96, 10}), images({2, 3, 64, 64}));
       }},
      {"swin_t",
       [](bool full) {
         SwinConfig c;
         if (!full) c.dim = 24;
         return model<1>(Swin(c), full ? images({1, 3, 224, 224}) : images({2, 3, 112, 84}));
       },
       27520698},
      {"mlp_mixer",
       [](bool full) {
         return full ? model<1>(Mixer(), images({1, 3, 224, 224}))
                     : model<1>(Mixer(MixerConfig{64, 16, 48, 12, 24, 96, 10}), images({2, 3, 64, 64}));
       }},
      {"bert",
       [](bool full) {
         const BertConfig c = full ? BertConfig() : BertConfig{100, 48, 12, 12, 96, 32, 2};
         const int64_t length = full ? 128 : 12;
         return model<3>(BertForPreTraining(c), [=] {
           return Tensors{ids(c.vocab_size, {2, length}), torch::randint(2, {2, length}), padding_mask(2, length)};
         });
       }},
      {"gpt2_prefill", [](bool full) { return gpt(full, false); }},
      {"gpt2_decode", [](bool full) { return gpt(full, true); }},
      {"t5",
       [](bool full) {
         const T5Config c = full ? T5Config() : T5Config{100, 32, 8, 64, 6, 4};
         const int64_t length = full ? 128 : 24, target = full ? 64 : 20;
         return model<3>(T5(c), [=] {
           return Tensors{ids(c.vocab_size, {2, length}), padding_mask(2, length), ids(c.vocab_size, {2, target})};
         });
       }},
      {"lstm_tagger",
       [](bool full) {
         const int64_t words = full ? 20000 : 50, length = full ? 40 : 7;
         return model<2>(full ? LstmTagger() : LstmTagger(words, 5, 10, 8), [=] {
           return Tensors{ids(words, {4, length}) * padding_mask(4, length), torch::randint(5, {4, length})};
         });
       }},
      {"gru_tagger",
       [](bool full) {
         const int64_t words = full ? 20000 : 50, length = full ? 40 : 7;
         return model<1>(full ? GruTagger() : GruTagger(words, 5, 10, 8), [=] {
           return Tensors{ids(words, {length, 4})};
         });
       }},
      {"transformer_lm",
       [](bool full) {
         const int64_t words = full ? 28782 : 60, length = full ? 35 : 9;
         return model<1>(full ? TransformerLm() : TransformerLm(words, 16, 2, 20), [=] {
           return Tensors{ids(words, {length, 2})};
         });
       }},
      {"translator",
       [](bool full) {
         const int64_t words = full ? 37000 : 60, length = full ? 40 : 9, target = full ? 30 : 7;
         return model<2>(full ? Translator() : Translator(words, 32, 8, 48), [=] {
           const auto source = ids(words, {length, 2}) * padding_mask(2, length).t();
           return Tensors{source, ids(words, {target, 2})};
         });
       }},
      {"dcgan",
       [](bool full) {
         return model<1>(full ? Generator() : Generator(100, 8), [=] {
           return Tensors{torch::randn({full ? 16 : 2, 100})};
         });
       },
       3576704},
      {"dlrm", dlrm},
      {"diffusion_unet",
       [](bool full) {
         const DiffusionConfig c = full ? DiffusionConfig() : DiffusionConfig{4, 32, 8, 24};
         const int64_t size = full ? 64 : 16, words = full ? 77 : 5;
         return model<3>(DiffusionUNet(c), [=] {
           return Tensors{torch::randn({2, 4, size, size}), torch::randint(1000, {2}),
                          torch::randn({2, words, c.context})};
         });
       }},
      {"gcn", [](bool full) { return model<2>(full ? Gcn() : Gcn(30), graph(full)); }, 23063},
      {"gat", [](bool full) { return model<2>(full ? Gat() : Gat(30), graph(full)); }, 92373},
  };
  return list;
}

/// A model with weights that are the same in every run, in evaluation mode. Statistics of batch norms, scales and
/// biases are away from the zeros and ones that they start with, which would hide mistakes.
inline Model build(const Entry& entry, Size size = Size::small) {
  torch::manual_seed(20);
  auto model = entry.make(size == Size::full);
  const torch::NoGradGuard no_grad;
  for (const auto& buffer : model.module->named_buffers()) {
    if (buffer.key().ends_with("running_mean")) buffer.value().uniform_(-0.3, 0.3);
    if (buffer.key().ends_with("running_var")) buffer.value().uniform_(0.6, 1.5);
  }
  for (auto& parameter : model.module->parameters()) {
    if (parameter.dim() == 1) parameter += torch::empty_like(parameter).uniform_(-0.3, 0.3);
  }
  model.module->eval();
  return model;
}

}  // namespace zoo
