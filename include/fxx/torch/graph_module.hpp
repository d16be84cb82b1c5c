// A graph as a module: a real torch::nn::Module whose forward is what the graph says.
//
// It holds what the graph refers to, by reference: parameters are shared with the module it was traced from, autograd
// goes through it, it fits into Sequential, it can be saved, cloned, moved, put in eval mode. It runs at once, without
// a compiler, and follows edits of its graph by itself.
// Main names: GraphModule. Cost: heavy (torch/nn/module.h). After torch.fx graph_module.py, 2.13.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/rewrite/rewriter.hpp"
#include "fxx/torch/box.hpp"
#include "fxx/torch/module_owner.hpp"
#include "fxx/torch/plan.hpp"

namespace fxx::inline FXX_ABI {

class GraphModule;
class Proxy;

namespace detail {

/// A call of a GraphModule in a trace; in torch/symbolic_trace.hpp.
template <class R, class... A>
R call_traced(GraphModule& module, const A&... inputs);

/// A boxed value for each placeholder of the graph, out of one for each input.
std::vector<c10::IValue> flatten_inputs(const Graph& graph, std::vector<c10::IValue> inputs);

/// The module in a holder or a shared pointer; null for an empty one.
template <class M>
const torch::nn::Module* address_of(const M& module) {
  if constexpr (requires { module.is_empty(); }) return module.is_empty() ? nullptr : module.ptr().get();
  else return module.get();
}

}  // namespace detail

class GraphModule : public torch::nn::Module {
 public:
  using Attribute = std::variant<at::Tensor, std::shared_ptr<torch::nn::Module>>;

  /// Takes from `root` the attributes and modules that the graph refers to, with their names. Throws GraphError (E108)
  /// when one is missing.
  GraphModule(const torch::nn::Module& root, Graph graph, std::string class_name = {});
  /// Likewise, with tensors and modules beside those of `root`, such as constants that tracing met.
  GraphModule(const torch::nn::Module& root, Graph graph, std::string class_name,
              const std::map<std::string, Attribute>& more);
  /// Likewise, from a module that was walked already; `training` is its mode.
  GraphModule(const ModuleOwner& root, bool training, Graph graph, const std::map<std::string, Attribute>& more = {});
  /// Likewise from a mapping of qualified names (torch.fx: root given as a dict).
  GraphModule(const std::map<std::string, Attribute>& root, Graph graph, std::string class_name = "GraphModule");

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  /// Replaces the graph; attributes that it refers to must be there already.
  void set_graph(Graph graph);
  /// Not needed after edits of the graph, which are noticed at the next call. Looks again what the module has, checks
  /// the graph and makes it ready now (torch.fx: recompile).
  void recompile();

  /// Forward as C++ source, one statement a node.
  std::string code() const;

  // --- running -------------------------------------------------------------------------------------------------------
  /// The tensors that the graph takes, in order; the tensor that it returns. This is what Sequential and AnyModule
  /// call. Throws RunError (E701) when inputs do not fit, or the graph returns something else: call() gives that.
  at::Tensor forward(const at::Tensor& input0 = {}, const at::Tensor& input1 = {}, const at::Tensor& input2 = {},
                     const at::Tensor& input3 = {}, const at::Tensor& input4 = {}, const at::Tensor& input5 = {},
                     const at::Tensor& input6 = {}, const at::Tensor& input7 = {});
  /// Called with proxies, it is traced through, or recorded where the tracer says that it is a leaf.
  template <class... A>
  auto operator()(A&&... inputs) {
    if constexpr ((detail::holds_proxies<std::remove_cvref_t<A>> || ...))
      return call<Proxy>(std::forward<A>(inputs)...);
    else return call<at::Tensor>(std::forward<A>(inputs)...);
  }
  /// Any inputs, any result, among them containers and structs as the traced function had them:
  /// `auto [values, indices] = gm->call<std::tuple<at::Tensor, at::Tensor>>(x)`. Throws RunError (E701) when the graph
  /// returns something else. In a trace, inputs and the result are proxies, or containers of them.
  template <class R = at::Tensor, class... A>
  R call(A&&... inputs) {
    if constexpr ((detail::holds_proxies<std::remove_cvref_t<A>> || ...)) {
      return detail::call_traced<R>(*this, inputs...);
    } else {
      return detail::unbox<R>(run({detail::box_input(std::forward<A>(inputs))...}), "GraphModule::call");
    }
  }
  /// The general form: a boxed value for each input. Containers are boxed as lists, tuples and dicts; an undefined
  /// tensor is an input left out. Values are freed after their last use, those of `inputs` too.
  c10::IValue run(std::vector<c10::IValue> inputs);
  /// Likewise, with a value for each placeholder: containers are taken apart already.
  virtual c10::IValue run_flat(std::vector<c10::IValue> inputs);

  // --- attributes and modules, by qualified name ---------------------------------------------------------------------
  /// The tensor of that name. Throws GraphError (E108) when there is none.
  at::Tensor attribute(std::string_view name) const;
  /// Registers a tensor, making the modules in between; `parameter` ones require gradients from then on. Throws
  /// GraphError (E108) when the name is taken.
  void register_attribute(const std::string& name, at::Tensor tensor, bool parameter = false);
  /// A name that is not taken: `stem`0, `stem`1, ...
  std::string fresh_name(std::string_view stem) const;
  /// Null when there is none.
  std::shared_ptr<torch::nn::Module> submodule(std::string_view name) const;
  /// Makes the modules in between as needed. False when the name is taken.
  bool add_submodule(const std::string& name, std::shared_ptr<torch::nn::Module> module);
  /// False when there is none.
  bool delete_submodule(const std::string& name);
  /// Drops modules and attributes that the graph no longer refers to; buffers directly in this module stay, since
  /// LibTorch has no way to unregister them.
  void delete_all_unused_submodules();

  // LibTorch's own; the next call sees what they did. What is done in the modules inside, or to a torch::nn::Module&,
  // is seen after recompile().
  at::Tensor& register_parameter(std::string name, at::Tensor tensor, bool requires_grad = true);
  at::Tensor& register_buffer(std::string name, at::Tensor tensor);
  /// A holder or a shared pointer. Throws GraphError (E113), as add_submodule does, for a module that is or holds this one.
  template <class M>
  auto register_module(std::string name, M module) {
    refuse_cycle(name, detail::address_of(module));
    auto registered = torch::nn::Module::register_module(std::move(name), std::move(module));
    changed();
    return registered;
  }
  template <class M>
  auto replace_module(const std::string& name, M module) {
    refuse_cycle(name, detail::address_of(module));
    auto replaced = torch::nn::Module::replace_module(name, std::move(module));
    changed();
    return replaced;
  }
  void unregister_module(const std::string& name);

  const ModuleOwner& owner() const;
  /// Looks whether other tensors were assigned to members of layers (`bn->running_mean = ...`), which graphs read as the
  /// layers do. Every call looks, and so does what takes the module's tensors: saving, copies, rules, folders.
  void follow_members() const;
  /// The class of the module that was traced.
  const std::string& class_name() const { return class_name_; }

  /// What tells that the traced code keeps state from run to run which the graph does not have; empty when nothing does.
  /// `compile` and `build` refuse such a graph, because its results are the code's in the first run only.
  const std::string& kept_state() const { return kept_state_; }
  void set_kept_state(std::string what) { kept_state_ = std::move(what); }

  /// Deep: graph, parameters, buffers, submodules; nothing is shared.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;
  void pretty_print(std::ostream& stream) const override;

  // LibTorch's own, of the tensors that forward reads: where another was assigned to a member of a layer than the layer
  // has registered, the member. save() and clone() warn of it; load() and to() register it.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({0, torch::nn::AnyValue(at::Tensor())}, {1, torch::nn::AnyValue(at::Tensor())},
                           {2, torch::nn::AnyValue(at::Tensor())}, {3, torch::nn::AnyValue(at::Tensor())},
                           {4, torch::nn::AnyValue(at::Tensor())}, {5, torch::nn::AnyValue(at::Tensor())},
                           {6, torch::nn::AnyValue(at::Tensor())}, {7, torch::nn::AnyValue(at::Tensor())})
  /// Lets go of the interpreter's plan, which is made again for who calls it.
  void forget_plan();
  /// The member of a layer whose tensor the graph reads under that name; null when it is no such member. It lives as long
  /// as this module has the name.
  const at::Tensor* member_read(std::string_view name) const;

 private:
  /// Throws when the module that is to be called `name` is or holds this one.
  void refuse_cycle(const std::string& name, const torch::nn::Module* module) const;
  class Registration;
  /// A tensor that was taken from a layer without the layer: it is what the layer's member is.
  struct Followed {
    std::string name;
    std::shared_ptr<torch::nn::Module> layer;
    const at::Tensor* member;
    at::Tensor was;
  };
  void follow(std::string_view name, const ModuleOwner& root);
  /// follow_members() for who holds the mutex.
  void follow_members_locked() const;
  void take_from(const ModuleOwner& root, const std::map<std::string, Attribute>& more);
  std::shared_ptr<const Plan> plan();
  void changed();

  /// What the graph is told of its owner: looked up when it is asked for, which is a walk over the module.
  struct LazyOwner final : Owner {
    const GraphModule& module;
    explicit LazyOwner(const GraphModule& m) : module(m) {}
    const AttributeInfo* find_attribute(std::string_view name) const override {
      return module.owner().find_attribute(name);
    }
    const ModuleInfo* find_module(std::string_view name) const override { return module.owner().find_module(name); }
    std::vector<const ModuleInfo*> leaf_modules() const override { return module.owner().leaf_modules(); }
    std::string class_name() const override { return module.class_name(); }
  };

  LazyOwner lazy_owner_{*this};
  mutable std::vector<Followed> followed_;
  Graph graph_;
  std::string class_name_, kept_state_;
  mutable std::mutex mutex_;  // guards what is made on demand
  mutable std::shared_ptr<ModuleOwner> owner_;
  mutable std::shared_ptr<const Plan> plan_;
  mutable std::map<std::string, std::size_t> next_names_;  // the numbers that fresh_name() tries first
};

namespace detail {
/// Throws RunError (E328) for a graph whose traced code keeps state. `caller`: "compile".
void refuse_kept_state(const GraphModule& module, const char* caller);
}  // namespace detail

/// Applies a rule set: calls of leaf modules are matched as the operators that they are, and stay calls where no rule
/// fired.
template <class Ruleset>
rewrite::RewriteReport apply_rules(GraphModule& module, const Ruleset& rules, const rewrite::RewriteOptions& options);

namespace detail {
/// The module in a holder, a pointer, or the module itself.
template <class M>
decltype(auto) unwrap_module(M& module) {
  if constexpr (requires {
                  module.ptr();
                  *module;
                })
    return *module;
  else if constexpr (requires {
                       *module;
                       module.get();
                     })
    return *module;
  else return (module);
}

std::string class_name_of(const torch::nn::Module& module);

/// Opens leaf modules for rewriting and closes what is left of them afterwards.
class ModuleExpansion {
 public:
  /// Calls of modules of these classes stay as they are: rules speak of them.
  explicit ModuleExpansion(GraphModule& module, std::span<const std::string_view> but = {});
  ~ModuleExpansion();
  /// Opens those too. False when there were none.
  bool open_rest();
  /// Of what nearly matched, before and after that: a rule that speaks of modules came nearest before.
  static void keep_nearest(const rewrite::RewriteReport& before, rewrite::RewriteReport& after);

 private:
  GraphModule& module_;
  std::map<std::string, std::string, std::less<>> parameterless_;
};
}  // namespace detail

namespace detail {
/// Graphs call GraphModules as they call modules of torch.nn.
template <class M>
void know_graph_module() {
  static const bool known = [] {
    register_module_call(typeid(M), [](torch::nn::Module& module, std::vector<c10::IValue> args) {
      return dynamic_cast<GraphModule&>(module).run(std::move(args));
    });
    return true;
  }();
  (void)known;
}
}  // namespace detail

template <class Ruleset>
rewrite::RewriteReport apply_rules(GraphModule& module, const Ruleset& rules, const rewrite::RewriteOptions& options) {
  const std::size_t before = module.graph().size();
  const std::vector<std::string_view> classes = rules.module_classes();
  rewrite::RewriteReport report;
  // A module that a rule speaks of by its class is one first, and an operator for the other rules then. What these make
  // may be what the first ones look for. The limit is that of all rounds: two rules may undo each other by way of it.
  std::size_t left = options.limit;
  const auto apply = [&] {
    rewrite::RewriteOptions of_round = options;
    of_round.limit = left;
    rewrite::RewriteReport round = rules.apply(module.graph(), of_round);
    left -= round.rewrites;
    round.stopped_at_limit = round.stopped_at_limit || (left == 0 && !classes.empty());
    return round;
  };
  for (bool again = true; again;) {
    detail::ModuleExpansion expansion(module, classes);
    if (left == 0) left = 1000 + 100 * module.graph().size();  // as where no limit is given to rewriting itself
    rewrite::RewriteReport round = apply();
    again = !round.stopped_at_limit && !classes.empty() && expansion.open_rest();
    if (again) {
      rewrite::RewriteReport opened = apply();
      again = opened.rewrites > 0 && !opened.stopped_at_limit;
      detail::ModuleExpansion::keep_nearest(round, opened);
      round.add(std::move(opened));
    }
    report.add(std::move(round));
  }
  report.nodes_before = before;
  report.nodes_after = module.graph().size();
  return report;
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/graph_module.ipp"
#endif
