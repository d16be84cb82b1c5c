// Models of the zoo (tests/models) for the benchmarks: traced, and written for peers/traced_models.py to read back as
// torch.fx graphs.
//
// Main names: trace_of(), write_trace(), write_graph(), plain_trace. Cost: heavy (torch/torch.h).
#pragma once

#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../tests/models/all.hpp"
#include "fxx/torch.hpp"

namespace bench {

/// Of operators alone, in the mode that the model is in.
inline const fxx::TraceOptions plain_trace{.leaf_modules = false, .training_flags = false};

inline std::shared_ptr<fxx::GraphModule> trace_of(const zoo::Model& model, const zoo::Tensors& inputs,
                                                  const fxx::TraceOptions& options) {
  return fxx::detail::trace_module(
      *model.module, true,
      [&](std::span<const at::Tensor> in) {
        return model.forward({in.begin(), in.end()});
      },
      inputs, options);
}

/// In torch.fx's notation.
inline void write_graph(const std::string& path, const fxx::GraphModule& gm) {
  std::ofstream(path) << fxx::to_string(gm.graph()) << "\n";
}

/// Writes PATH.graph, and PATH.safetensors, its parameters and buffers by name and its inputs as "input 0".
inline void write_trace(const std::string& path, const fxx::GraphModule& gm, const zoo::Tensors& inputs) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::set<std::string> names;
  for (const fxx::Node* node : gm.graph().nodes())
    if (node->opcode() == fxx::Opcode::get_attr && names.insert(std::string(node->target())).second)
      tensors.emplace_back(node->target(), gm.attribute(node->target()).detach().contiguous());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors.emplace_back("input " + std::to_string(i), inputs[i].contiguous());
  std::vector<fxx::SafetensorsEntry> entries;
  for (const auto& [name, t] : tensors)
    entries.push_back({name,
                       fxx::to_dtype(t.scalar_type()),
                       t.sizes().vec(),
                       {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  fxx::write_safetensors(path + ".safetensors", entries);
  write_graph(path + ".graph", gm);
}

}  // namespace bench
