// Weights from files into modules.
// Main names: load_safetensors. Cost: heavy (torch/nn/module.h).
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

struct LoadOptions {
  /// Entries of the file that the module does not have are passed over when this is set, else they are an error.
  bool allow_unused = false;
  /// Parameters and buffers that the file does not have keep their values when this is set, else they are an error.
  bool allow_missing = false;
};

/// Copies every entry of a safetensors file into the parameter or buffer of the same qualified name, converting dtypes.
/// Returns the names that were passed over. Throws FileError: (E801, E802) for the file, (E803) naming what is missing,
/// unused, of another shape, or of a dtype that does not convert; then the module is as it was. A file of another kind
/// (.pth, .npz, .h5, .gguf, .onnx ...) is named in the message, with what reads it. The file must not be cut off meanwhile
/// (io/file.hpp).
std::vector<std::string> load_safetensors(torch::nn::Module& module, const std::string& path,
                                          const LoadOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/weights.ipp"
#endif
