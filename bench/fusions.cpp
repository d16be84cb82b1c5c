// What the shipped rules find in the zoo of models (tests/models), for bench/peers/freezing.py to set beside what
// Inductor's freezing passes find in the same.
//
// usage: bench_fusions FOLDER   writes NAME.graph, a trace in torch.fx's notation, and NAME.pt, a dictionary of its
// parameters, buffers and inputs ("input 0"), for every model into FOLDER, and prints a JSON object: model -> what
// fired, how often; "nodes": before and after.
#include <fstream>
#include <iostream>
#include <map>

#include "../tests/models/all.hpp"
#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_convolution.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/torch.hpp"

namespace {

using Counts = std::map<std::string, std::size_t>;

std::shared_ptr<fxx::GraphModule> traced(const zoo::Model& model) {
  return fxx::detail::trace_module(*model.module, true,
                                   [&](std::span<const at::Tensor> in) {
                                     return model.forward({in.begin(), in.end()});
                                   },
                                   model.inputs(), {.leaf_modules = false, .training_flags = false});
}

void write(const std::string& path, const fxx::GraphModule& gm, const zoo::Tensors& inputs) {
  std::ofstream(path + ".graph") << fxx::to_string(gm.graph()) << "\n";
  c10::Dict<std::string, at::Tensor> tensors;
  for (const fxx::Node* node : gm.graph().nodes())
    if (node->opcode() == fxx::Opcode::get_attr)
      tensors.insert_or_assign(node->target(), gm.attribute(node->target()).detach().clone());
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors.insert("input " + std::to_string(i), inputs[i]);
  const std::vector<char> bytes = torch::pickle_save(tensors);
  std::ofstream(path + ".pt", std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A family of siblings counts for each of its members.
template <class Rules>
void count(Counts& counts, fxx::GraphModule& gm, const Rules& rules) {
  for (const auto& firing : rules.apply(gm, {.record = true}).firings) ++counts[firing.rule];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_fusions FOLDER\n";
    return 2;
  }
  std::cout << "{";
  const char* before_model = "\n";
  for (const zoo::Entry& entry : zoo::models()) {
    const zoo::Model model = zoo::build(entry);
    const auto gm = traced(model);
    write(std::string(argv[1]) + "/" + entry.name, *gm, model.inputs());
    const std::size_t before = gm->graph().size();
    Counts counts;
    count(counts, *gm, fxx::rules::inference);
    count(counts, *gm, fxx::rules::activations);
    count(counts, *gm, fxx::rules::attention);
    count(counts, *gm, fxx::phases(fxx::rules::merge_activation, fxx::rules::merge_linear));
    count(counts, *gm, fxx::rules::merge_convolution);
    counts["constants folded"] = fxx::fold_constants(*gm);
    std::cout << before_model << "  \"" << entry.name << "\": {\"nodes\": [" << before << ", " << gm->graph().size()
              << "]";
    for (const auto& [rule, times] : counts) std::cout << ", \"" << rule << "\": " << times;
    std::cout << "}";
    before_model = ",\n";
  }
  std::cout << "\n}\n";
}
