// Bodies of codegen/trials.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "fxx/codegen/arena.hpp"
#include "fxx/codegen/lower.hpp"
#include "fxx/codegen/lower/images.ipp"
#include "fxx/codegen/lower/terms.ipp"
#include "fxx/codegen/trials.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

using NodeSet = std::unordered_set<const Node*>;

/// The nodes, and those between them, which compute nothing themselves.
FXX_INLINE NodeSet with_what_is_between(const Graph& graph, const std::vector<const Node*>& nodes) {
  NodeSet result(nodes.begin(), nodes.end()), behind = result;
  for (const Node* node : graph.nodes())
    if (node->opcode() != Opcode::output &&
        std::ranges::any_of(node->all_input_nodes(), [&](const Node* input) { return behind.contains(input); }))
      behind.insert(node);
  for (const Node* node : graph.nodes().reversed())
    if (behind.contains(node) &&
        std::ranges::any_of(node->users(), [&](const Node* user) { return result.contains(user); }))
      result.insert(node);
  return result;
}

/// Some nodes of a graph as one of their own.
class Extract {
 public:
  Extract(const Graph& from, const std::vector<const Node*>& nodes)
      : nodes_(with_what_is_between(from, nodes)), graph_(std::make_unique<Graph>()) {
    graph_->set_owning_module(from.owning_module());
    for (const Node* node : nodes_) images_ = images_ || plans::is_convolution(*node);
    std::vector<Argument> results;
    for (const Node* node : from.nodes()) {
      if (!nodes_.contains(node)) continue;
      Node* const copy = copy_of(*node);
      if (std::ranges::any_of(node->users(), [&](const Node* user) { return !nodes_.contains(user); }))
        results.emplace_back(copy);
    }
    // Inputs leave as well, so that they are in memory before anybody reads them.
    results.insert(results.end(), written_.begin(), written_.end());
    graph_->output(Argument::tuple(std::move(results)));
  }
  std::unique_ptr<Graph> graph() && { return std::move(graph_); }
  /// Is this a copy of one of the nodes?
  bool has(const Node* node) const { return copies_.contains(node); }

 private:
  /// As steps of the model lie: images channels last.
  void lay_out(Node* node) const {
    if (!node->tensor_meta() || !images_ || !plans::is_image(node->tensor_meta()->shape)) return;
    TensorMeta meta = *node->tensor_meta();
    const plans::Sizes order = plans::channels_last(meta.shape);
    meta.stride.assign(meta.shape.size(), 1);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(order[i]);
      meta.stride[d] = step;
      step *= meta.shape[d];
    }
    node->set_tensor_meta(meta);
  }
  Node* copy_of(const Node& node) {
    Node* const copy = graph_->node_copy(node, [&](Node* input) { return value_of(*input); });
    lay_out(copy);
    known_[&node] = copy;
    copies_.insert(copy);
    return copy;
  }
  /// In the new graph.
  Node* value_of(const Node& node) {
    if (const auto known = known_.find(&node); known != known_.end()) return known->second;
    Node* value = nullptr;
    if (node.opcode() == Opcode::get_attr || fake_quantize_of(node)) {
      value = graph_->node_copy(node, [&](Node* input) { return value_of(*input); });
      lay_out(value);
    } else {
      value = graph_->placeholder(node.name());
      if (node.tensor_meta()) value->set_tensor_meta(*node.tensor_meta());
      lay_out(value);
      if (node.tensor_meta() && node.tensor_meta()->dtype == Dtype::float32) {
        Node* const given = value;
        value = graph_->call_function(ops::relu, {given});
        value->set_tensor_meta(*given->tensor_meta());
        written_.emplace_back(value);
      }
    }
    return known_[&node] = value;
  }

  NodeSet nodes_, copies_;
  std::unique_ptr<Graph> graph_;
  bool images_ = false;
  std::unordered_map<const Node*, Node*> known_;
  std::vector<Argument> written_;
};

/// Puts plans behind each other, with memory of their own.
class Trials {
 public:
  explicit Trials(TrialPlan& to) : to_(to), plan_(to.plan) {}

  /// Buffers, inputs, outputs and attributes; returns the steps, which are to be added.
  std::vector<KernelStep> take(KernelPlan part) {
    const int base = static_cast<int>(plan_.buffers.size());
    const int inputs = static_cast<int>(plan_.inputs.size()), outputs = static_cast<int>(plan_.outputs.size());
    for (plans::Buffer& buffer : part.buffers) {
      using Kind = plans::Buffer::Kind;
      if (buffer.kind == Kind::input) buffer.number += inputs;
      if (buffer.kind == Kind::output) buffer.number += outputs;
      if (buffer.kind == Kind::constant)
        buffer.number = attribute(part.attributes[static_cast<std::size_t>(buffer.number)]);
      plan_.buffers.push_back(std::move(buffer));
    }
    const auto move_view = [&](plans::View& view) {
      if (view.buffer >= 0) view.buffer += base;
    };
    std::map<plans::TermPointer, plans::TermPointer> moved_terms;
    const auto move_term = [&](plans::TermPointer& term) {
      if (term) term = moved(term, base, moved_terms);
    };
    std::int64_t at = 0;
    const auto place = [&](const plans::View& view, std::vector<std::int64_t>& places, std::int64_t& most) {
      places.push_back(at);
      const plans::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(view.buffer)];
      at += (buffer.bytes() + 63) / 64 * 64;
      most = std::max(most, at);
    };
    for (plans::View& view : part.inputs) {
      move_view(view);
      place(view, to_.input_at, to_.input_bytes);
      plan_.inputs.push_back(view);
    }
    at = 0;
    for (PlanOutput& output : part.outputs) {
      if (output.buffer >= 0) output.buffer += base;
      if (output.input >= 0) output.input += inputs;
      move_view(output.view);
      if (output.buffer >= 0) place(output.view, to_.output_at, to_.output_bytes);
      else to_.output_at.push_back(0);
      plan_.outputs.push_back(std::move(output));
    }
    for (KernelStep& step : part.steps) {
      plans::for_each_operand(step.kernel, move_view, move_term);
      for (plans::Store& store : step.stores) move_view(store.to), move_term(store.value);
    }
    return std::move(part.steps);
  }
  int add(const KernelStep& step) {
    plan_.steps.push_back(step);
    return static_cast<int>(plan_.steps.size()) - 1;
  }
  /// When all steps are there: who uses which buffer, and where they lie.
  void finish(bool guarded) {
    for (plans::Buffer& buffer : plan_.buffers) buffer.first = buffer.last = -1;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      plans::for_each_view(plan_.steps[i], [&](const plans::View& view) {
        if (view.buffer < 0) return;
        plans::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(view.buffer)];
        if (buffer.first < 0) buffer.first = static_cast<int>(i);
        buffer.last = static_cast<int>(i);
      });
    }
    place_buffers(plan_, guarded);
  }

 private:
  int attribute(const std::string& name) {
    const auto known = std::ranges::find(plan_.attributes, name);
    const auto number = static_cast<int>(known - plan_.attributes.begin());
    if (known == plan_.attributes.end()) plan_.attributes.push_back(name);
    return number;
  }
  /// What is one term stays one: `known`.
  static plans::TermPointer moved(const plans::TermPointer& term, int base,
                                  std::map<plans::TermPointer, plans::TermPointer>& known) {
    if (const auto found = known.find(term); found != known.end()) return found->second;
    plans::Term result = *term;
    if (result.view.buffer >= 0) result.view.buffer += base;
    for (plans::TermPointer& operand : result.operands) operand = moved(operand, base, known);
    return known[term] = std::make_shared<const plans::Term>(std::move(result));
  }

  TrialPlan& to_;
  KernelPlan& plan_;
};

/// Writes zeros where the steps will write: there the model's caches hold what lay in that memory before.
FXX_INLINE std::vector<KernelStep> clearing(const KernelPlan& plan, const std::vector<KernelStep>& steps) {
  std::vector<int> buffers;
  const auto add = [&](const plans::View& view) {
    if (view.buffer >= 0 && plan.buffers[static_cast<std::size_t>(view.buffer)].dtype == Dtype::float32 &&
        std::ranges::find(buffers, view.buffer) == buffers.end())
      buffers.push_back(view.buffer);
  };
  for (const KernelStep& step : steps) {
    for (const plans::Store& store : step.stores) add(store.to);
    if (const auto* back = std::get_if<plans::CallBack>(&step.kernel))
      for (const plans::CallBack::Value& value : back->outputs) add(value.view);
  }
  std::vector<KernelStep> result;
  for (const int buffer : buffers) {
    const std::int64_t elements = plan.buffers[static_cast<std::size_t>(buffer)].elements;
    KernelStep step;
    step.kernel = plans::Pointwise{};
    step.frame.sizes = {elements};
    step.stores.push_back({{buffer, 0, {elements}, {1}}, plans::number_of(0)});
    result.push_back(std::move(step));
  }
  return result;
}

/// Sums of so many bytes, in rows that threads share.
FXX_INLINE std::unique_ptr<Graph> reading_graph(std::int64_t bytes) {
  constexpr std::int64_t row = 4096;
  const std::int64_t rows = std::max<std::int64_t>(bytes / (row * 4), 1);
  auto graph = std::make_unique<Graph>();
  const auto sized = [](Node* node, plans::Sizes shape) {
    TensorMeta meta;
    meta.stride = plans::dense_strides(shape);
    meta.shape = std::move(shape);
    node->set_tensor_meta(meta);
    return node;
  };
  Node* const memory = sized(graph->placeholder("memory"), {rows, row});
  Node* const sums = sized(graph->call_function(ops::sum_dim_IntList, {memory, Argument::list({Argument(1)})}), {rows});
  graph->output(sums);
  return graph;
}

/// Divides integers by some that inputs give, in whose place a trial has zeros.
FXX_INLINE bool divides_by_inputs(const Node* node) {
  static constexpr std::string_view names[] = {"div", "divide", "floor_divide", "remainder", "fmod"};
  const Operator* op = operator_of(*node);
  if (!op || op->arity() < 2 || std::ranges::find(names, op->base_name()) == std::end(names)) return false;
  const Argument* divisor = argument_of(*node, *op, 1);
  return divisor && divisor->is_node() && divisor->node()->opcode() != Opcode::get_attr && node->tensor_meta() &&
         plans::is_integer(node->tensor_meta()->dtype);
}
}  // namespace detail

FXX_INLINE std::vector<TrialSite> trial_sites(const KernelPlan& plan) {
  std::vector<TrialSite> sites;
  for (const KernelStep& step : plan.steps) {
    if (step.shape.empty() || std::ranges::any_of(sites, [&](const TrialSite& s) { return s.shape == step.shape; }))
      continue;
    TrialSite site{step.shape, step.nodes, {}};
    if (const auto* k = std::get_if<plans::Convolution>(&step.kernel)) site.alone = k->alone;
    site.nodes.insert(site.nodes.end(), step.joinable.begin(), step.joinable.end());
    if (std::ranges::any_of(site.nodes, &detail::divides_by_inputs)) continue;
    sites.push_back(std::move(site));
  }
  return sites;
}

// Here, where graphs are complete types.
FXX_INLINE TrialPlan::TrialPlan() = default;
FXX_INLINE TrialPlan::TrialPlan(TrialPlan&&) noexcept = default;
FXX_INLINE TrialPlan& TrialPlan::operator=(TrialPlan&&) noexcept = default;
FXX_INLINE TrialPlan::~TrialPlan() = default;

FXX_INLINE TrialPlan trial_plan(const Graph& graph, const Owner& owner, const LowerOptions& options,
                                const std::vector<TrialSite>& sites, std::int64_t between, bool cold) {
  TrialPlan trials;
  detail::Trials all(trials);
  trials.graphs.push_back(detail::reading_graph(between));
  const std::vector<KernelStep> reading = all.take(lower(*trials.graphs.back(), owner));
  for (std::size_t s = 0; s < sites.size(); ++s) {
    const TrialSite& site = sites[s];
    for (std::size_t w = 0; w < site.ways.size(); ++w) {
      detail::Extract extract(graph, site.nodes);
      LowerOptions tried = options;
      tried.ways = {{site.shape, site.ways[w]}};
      tried.alone = site.alone;  // as it was in the whole graph
      tried.regions.clear();  // none of their nodes is in it
      std::unique_ptr<Graph> own = std::move(extract).graph();
      KernelPlan plan = lower(*own, owner, tried);
      const auto counts = [&](const KernelStep& step) {
        return std::ranges::any_of(step.nodes, [&](const Node* node) { return extract.has(node); });
      };
      const bool library = site.ways[w].method == plans::Way::Method::library;
      if (std::ranges::none_of(plan.steps, [&](const KernelStep& step) {
            const auto* back = std::get_if<plans::CallBack>(&step.kernel);
            return library ? back && back->why == left_to_library : step.shape == site.shape;
          }))
        continue;
      Trial trial{s, w, static_cast<int>(trials.plan.outputs.size()), {}};
      std::vector<KernelStep> steps = all.take(std::move(plan));
      // What comes behind them hands inputs out.
      while (!steps.empty() && !counts(steps.back())) steps.pop_back();
      trials.graphs.push_back(std::move(own));
      if (!cold)
        for (const KernelStep& step : steps) all.add(step);
      for (const KernelStep& step : reading) all.add(step);
      for (const KernelStep& step : detail::clearing(trials.plan, steps)) all.add(step);
      for (const KernelStep& step : steps)
        if (const int number = all.add(step); counts(step)) trial.steps.push_back(number);
      trials.trials.push_back(std::move(trial));
    }
  }
  all.finish(options.guarded);
  return trials;
}

}  // namespace fxx::inline FXX_ABI
