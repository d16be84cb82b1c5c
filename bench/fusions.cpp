// What the shipped rules find in the zoo of models (tests/models), for bench/peers/freezing.py to set beside what
// Inductor's freezing passes find in the same.
//
// usage: bench_fusions FOLDER   writes the trace of every model into FOLDER, and prints a JSON object: model -> what
// fired, how often; "nodes": before and after.
#include <iostream>
#include <map>

#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_convolution.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/onednn.hpp"
#include "traced.hpp"

namespace {

using Counts = std::map<std::string, std::size_t>;

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
    const zoo::Tensors inputs = model.inputs();
    const auto gm = bench::trace_of(model, inputs, bench::plain_trace);
    bench::write_trace(std::string(argv[1]) + "/" + entry.name, *gm, inputs);
    const std::size_t before = gm->graph().size();
    Counts counts;
    count(counts, *gm, fxx::rules::inference);
    count(counts, *gm, fxx::rules::activations);
    count(counts, *gm, fxx::rules::attention);
    count(counts, *gm, fxx::phases(fxx::rules::merge_activation, fxx::rules::merge_linear));
    count(counts, *gm, fxx::rules::merge_convolution);
    counts["constants folded"] = fxx::fold_constants(*gm);
    const std::size_t after = gm->graph().size();
    count(counts, *gm, fxx::rules::onednn);
    std::cout << before_model << "  \"" << entry.name << "\": {\"nodes\": [" << before << ", " << after << "]";
    for (const auto& [rule, times] : counts) std::cout << ", \"" << rule << "\": " << times;
    std::cout << "}";
    before_model = ",\n";
  }
  std::cout << "\n}\n";
}
