// Which kernels are faster here, found by running them; for torch/compile.ipp.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "fxx/meta/enum_name.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/torch/compile/call.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

inline constexpr plans::Convolution::Method tuned_methods[] = {
    plans::Convolution::Method::direct, plans::Convolution::Method::winograd_2, plans::Convolution::Method::winograd_4};

/// A line a node: its name and a method.
FXX_INLINE std::string text_of(const ConvolutionMethods& methods) {
  std::string text;
  for (const auto& [name, method] : methods) text += name + " " + std::string(enumerator_name(method)) + "\n";
  return text;
}
/// Nothing when the text does not say a method for each of these nodes and no others: it was cut off, or is not ours.
FXX_INLINE std::optional<ConvolutionMethods> methods_of(const std::string& text,
                                                        const std::vector<std::string>& names) {
  ConvolutionMethods methods;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (space == line.npos) return {};
    const auto* method = std::ranges::find_if(tuned_methods, [&](plans::Convolution::Method m) {
      return enumerator_name(m) == std::string_view(line).substr(space + 1);
    });
    if (method == std::end(tuned_methods)) return {};
    methods.insert_or_assign(line.substr(0, space), *method);
  }
  if (methods.size() != names.size()) return {};
  for (const std::string& name : names)
    if (!methods.contains(name)) return {};
  return methods;
}

}  // namespace detail

FXX_INLINE KernelPlan CompiledModule::tuned(KernelPlan plan, const Graph& graph, LowerOptions lowering,
                                            const std::vector<at::Tensor>& example_inputs,
                                            const CompileOptions& options) {
  std::vector<std::string> names;
  for (const KernelStep& step : plan.steps)
    if (const auto* convolution = std::get_if<plans::Convolution>(&step.kernel); convolution && convolution->node)
      names.emplace_back(convolution->node->name());
  // What has an effect is not run more often than asked for.
  if (names.empty() || changes_something_ ||
      std::ranges::any_of(example_inputs, [](const at::Tensor& tensor) { return is_fake(tensor); }))
    return plan;
  const BuildCache cache = detail::cache_of(options);
  const BuildRequest request = detail::request_for(specialised_source(plan, class_name()), options);
  const std::string kept =
      cache.folder() + "/" + BuildCache::entry_name(Toolchain::find(), request) + "-tuned-" + std::to_string(threads_);
  if (const auto text = files::read_file(kept)) {
    if (const auto methods = detail::methods_of(*text, names)) {
      lowering.methods = *methods;
      return lower(graph, prepared_->owner(), lowering);
    }
  }
  std::map<std::string, double> least;
  ConvolutionMethods best;
  for (const plans::Convolution::Method method : detail::tuned_methods) {
    for (const std::string& name : names) lowering.methods[name] = method;
    take(lower(graph, prepared_->owner(), lowering), options);
    const std::vector<double> seconds = profile(example_inputs, 20);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const auto* convolution = std::get_if<plans::Convolution>(&kernels_.steps[i].kernel);
      if (!convolution || !convolution->node) continue;
      const std::string name(convolution->node->name());
      if (const auto [at, is_new] = least.try_emplace(name, seconds[i]); is_new || seconds[i] < at->second) {
        at->second = seconds[i];
        best[name] = method;
      }
    }
  }
  // Where it cannot be kept, it is measured again.
  std::string aside = cache.folder() + "/aside-tuned-XXXXXX";
  if (const files::Descriptor made(::mkstemp(aside.data())); made) {
    if (files::write_file(aside, detail::text_of(best)) != 0 || ::rename(aside.c_str(), kept.c_str()) != 0)
      ::unlink(aside.c_str());
  }
  lowering.methods = best;
  return lower(graph, prepared_->owner(), lowering);
}

}  // namespace fxx::inline FXX_ABI
