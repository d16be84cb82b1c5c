// A graph as a project of its own: source that a person would write, weights, a build file.
//
// Main names: to_folder, FolderOptions. What it writes needs LibTorch and a compiler, nothing of ours.
// Cost: heavy (torch/nn/module.h). After torch.fx graph_module.py to_folder, 2.13.
#pragma once

#include <string>
#include <vector>

#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

struct FolderOptions {
  /// Inputs to keep with the project, and what the module makes of them in eval mode: its program checks itself with
  /// those.
  std::vector<at::Tensor> example_inputs = {};
};

/// Writes `name`.h, `name`.cpp (in snake case; main_model.h where that would be the program's or a target of Meson's),
/// main.cpp, weights.pt, meson.build, meson.options, README.md into `folder`, made when it is not there. It builds with
/// `meson setup build && meson compile -C build`. Files are written aside and renamed; others in the folder stay. What
/// running the examples writes to the module's buffers is put back. Throws CodegenError (E501) for what has no C++
/// form, before anything is written; (E502) when the folder cannot be written.
void to_folder(GraphModule& module, const std::string& folder, const std::string& name,
               const FolderOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/to_folder.ipp"
#endif
