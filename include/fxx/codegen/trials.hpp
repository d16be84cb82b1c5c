// A plan that computes steps of another plan in each of their ways, beside each other, for whoever measures them.
//
// Each shape is taken out of the graph by itself: the nodes of its first step, with inputs that are written anew before
// they are read, as the step before it does in the model. Before what is measured, as many bytes are read as the model
// reads between two calls of a step, and what will be written is cleared, so that caches hold what they hold there.
// Main names: TrialSite, trial_sites, TrialPlan, trial_plan. Cost: light; linear in the graph, for each way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/ir/fwd.hpp"

namespace fxx::inline FXX_ABI {

struct LowerOptions;

/// A shape, and the ways that are tried.
struct TrialSite {
  std::string shape;
  std::vector<const Node*> nodes;  // of the first step that has it, with those that may be joined to it
  std::vector<plans::Way> ways;
  bool alone = false;  // Convolution::alone
};

/// One way of one site.
struct Trial {
  std::size_t site = 0, way = 0;  // their numbers
  int result = 0;                 // the number of the plan's output that it computes, the first if there are several
  std::vector<int> steps;         // those that count, in the plan
};

struct TrialPlan {
  TrialPlan();
  TrialPlan(TrialPlan&&) noexcept;
  TrialPlan& operator=(TrialPlan&&) noexcept;
  ~TrialPlan();

  KernelPlan plan;
  std::vector<Trial> trials;  // of a way that cannot be had there is none
  /// Where inputs and outputs begin, of those one after the other that have memory at the same time, in bytes. Inputs
  /// are floats, which are to be ordinary numbers, and others, which may be zeros.
  std::vector<std::int64_t> input_at, output_at;
  std::int64_t input_bytes = 0, output_bytes = 0;
  std::vector<std::unique_ptr<Graph>> graphs;  // whose nodes the plan has
};

/// Of the plan's steps those that have a shape, each shape once, without ways. Not those with a division of integers by
/// what is no constant: it may be zero in a trial.
std::vector<TrialSite> trial_sites(const KernelPlan& plan);

/// `graph`, `owner` and `options` are those that the plan was made of, `weights_stay` is what it says. `between`: bytes
/// that are read before each trial; `cold`: they are more than any cache holds.
TrialPlan trial_plan(const Graph& graph, const Owner& owner, const LowerOptions& options,
                     const std::vector<TrialSite>& sites, std::int64_t between, bool cold);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/trials.ipp"
#endif
