// Bodies of torch/graph_module.hpp.
#pragma once

#include <algorithm>
#include <ostream>
#include <unordered_map>

#include "fxx/codegen/readable.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A module that only holds others: the steps of a dotted path.
struct Container : torch::nn::Module {
  Container() : torch::nn::Module("Container") {}
};

FXX_INLINE std::pair<std::string_view, std::string> split_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return {"", std::string(name)};
  return {name.substr(0, dot), std::string(name.substr(dot + 1))};
}

FXX_INLINE torch::nn::Module* find_child(torch::nn::Module& module, const std::string& name) {
  for (const auto& child : module.named_children())
    if (child.key() == name) return child.value().get();
  return nullptr;
}

FXX_INLINE at::Tensor clone_tensor(const at::Tensor& tensor, const std::optional<torch::Device>& device) {
  if (!tensor.defined()) return tensor;
  at::NoGradGuard no_grad;
  at::Tensor copy = device ? tensor.detach().to(*device, tensor.scalar_type(), false, true) : tensor.detach().clone();
  return copy.set_requires_grad(tensor.requires_grad());
}
/// Copies tensors and children of `from` into `to`, which is empty.
FXX_INLINE void clone_members(const torch::nn::Module& from, torch::nn::Module& to,
                              const std::optional<torch::Device>& device) {
  for (const auto& item : from.named_parameters(false))
    to.register_parameter(item.key(), clone_tensor(item.value(), device), item.value().requires_grad());
  for (const auto& item : from.named_buffers(false)) to.register_buffer(item.key(), clone_tensor(item.value(), device));
  for (const auto& child : from.named_children()) {
    if (dynamic_cast<const Container*>(child.value().get())) {
      auto copy = std::make_shared<Container>();
      copy->train(child.value()->is_training());
      clone_members(*child.value(), *copy, device);
      to.register_module(child.key(), std::move(copy));
    } else {
      to.register_module(child.key(), child.value()->clone(device));
    }
  }
}

/// Gives the layers of a copy what their originals have as members and did not register, which LibTorch does not copy.
FXX_INLINE void clone_assigned(const torch::nn::Module& from, torch::nn::Module& to,
                               const std::optional<torch::Device>& device) {
  std::map<std::string, TensorMember> differing;
  for (const auto& [name, member] : differing_members(from)) differing.emplace(name, member);
  if (differing.empty()) return;
  to.apply([&](const std::string& path, torch::nn::Module& module) {
    for (const TensorMember& copy : tensor_members(module)) {
      const auto found = differing.find(path + (path.empty() ? "" : ".") + std::string(copy.name));
      if (found == differing.end()) continue;
      *copy.member = clone_tensor(*found->second.member, device);
      if (copy.registered) *copy.registered = *copy.member;
    }
  });
}
/// Puts another tensor in the place of one that is registered.
FXX_INLINE void set_registered(const torch::nn::Module& module, const std::string& name, const at::Tensor& tensor) {
  for (const auto* registered : {&registered_parameters(module), &registered_buffers(module)})
    if (const at::Tensor* place = registered->find(name)) const_cast<at::Tensor&>(*place) = tensor;
}
FXX_INLINE void warn_of_members(const torch::nn::Module& module, std::string_view who, std::string_view takes) {
  if (const std::string note = note_of_members(module, who, takes); !note.empty()) TORCH_WARN(note);
}

/// What the module calls itself: a graph goes by the name of the class that it was traced from.
FXX_INLINE std::string class_name_of(const torch::nn::Module& module) {
  const auto* graph_module = dynamic_cast<const GraphModule*>(&module);
  return graph_module ? graph_module->class_name() : module_type_name(module);
}

/// Names that a graph refers to, in their order, each once; texts of its nodes.
FXX_INLINE std::vector<std::string_view> referred_names(const Graph& graph) {
  std::vector<std::string_view> names;
  for (const Node* node : graph.nodes()) {
    if (const auto* attribute = std::get_if<GetAttr>(&node->op())) names.push_back(attribute->target);
    if (const auto* call = std::get_if<CallModule>(&node->op())) names.push_back(call->target);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace detail

/// Registers by qualified name, making the modules in between. LibTorch copies all children to look one up, so what was
/// made here is remembered: ten thousand names cost what ten thousand insertions do.
/// Names have to outlive it.
class GraphModule::Registration {
 public:
  explicit Registration(GraphModule& module) {
    made_.emplace("", Step{&module, false});
    empty_ = module.children().empty() && module.parameters(false).empty() && module.buffers(false).empty();
  }

  /// Passed over where something of that name is registered already.
  void add(std::string_view name, const std::shared_ptr<torch::nn::Module>& module) {
    auto [path, last] = detail::split_name(name);
    const Step parent = at(path);
    if (!known(parent) && detail::find_child(*parent.module, last)) return;
    if (made_.emplace(name, Step{module.get(), true}).second) parent.module->register_module(std::move(last), module);
  }
  void add(std::string_view name, const at::Tensor& tensor, bool parameter) {
    auto [path, last] = detail::split_name(name);
    const Step parent = at(path);
    torch::nn::Module& into = *parent.module;
    if (!known(parent) && (into.named_parameters(false).contains(last) || into.named_buffers(false).contains(last)))
      return;
    if (parameter) into.register_parameter(std::move(last), tensor, tensor.requires_grad());
    else into.register_buffer(std::move(last), tensor);
  }

 private:
  struct Step {
    torch::nn::Module* module;
    bool given;  // it may have members of its own
  };
  /// Is everything in the module what was added here?
  bool known(const Step& step) const { return empty_ && !step.given; }

  Step at(std::string_view path) {
    if (const auto found = made_.find(path); found != made_.end()) return found->second;
    auto [parent_path, name] = detail::split_name(path);
    const Step parent = at(parent_path);
    if (!known(parent))
      if (torch::nn::Module* child = detail::find_child(*parent.module, name))
        return made_.emplace(path, Step{child, true}).first->second;
    // While it has no children, train() reaches nobody else: modules that are shared keep their own flags.
    auto container = std::make_shared<detail::Container>();
    container->train(parent.module->is_training());
    torch::nn::Module* made = parent.module->register_module(std::move(name), std::move(container)).get();
    return made_.emplace(path, Step{made, false}).first->second;
  }

  std::unordered_map<std::string_view, Step> made_;
  bool empty_;  // at the start
};

FXX_INLINE GraphModule::GraphModule(const torch::nn::Module& root, Graph graph, std::string class_name)
    : GraphModule(root, std::move(graph), std::move(class_name), {}) {}
FXX_INLINE GraphModule::GraphModule(const torch::nn::Module& root, Graph graph, std::string class_name,
                                    const std::map<std::string, Attribute>& more)
    : GraphModule(ModuleOwner(root, class_name.empty() ? detail::class_name_of(root) : std::move(class_name)),
                  root.is_training(), std::move(graph), more) {
  if (const auto* traced = dynamic_cast<const GraphModule*>(&root)) {
    kept_state_ = traced->kept_state_;
    const std::vector<std::string_view> names = detail::referred_names(graph_);
    for (const Followed& followed : traced->followed_)
      if (std::binary_search(names.begin(), names.end(), std::string_view(followed.name))) followed_.push_back(followed);
  }
}
FXX_INLINE GraphModule::GraphModule(const ModuleOwner& root, bool training, Graph graph,
                                    const std::map<std::string, Attribute>& more)
    : torch::nn::Module("GraphModule"), graph_(std::move(graph)), class_name_(root.class_name()) {
  detail::know_graph_module<GraphModule>();
  train(training);  // before there are children, whose flags are their own
  take_from(root, more);
  graph_.set_owning_module(&lazy_owner_);
}
FXX_INLINE GraphModule::GraphModule(const std::map<std::string, Attribute>& root, Graph graph, std::string class_name)
    : torch::nn::Module("GraphModule"), graph_(std::move(graph)), class_name_(std::move(class_name)) {
  detail::know_graph_module<GraphModule>();
  const std::vector<std::string_view> names = detail::referred_names(graph_);
  const auto is_needed = [&](const std::string& name) { return std::binary_search(names.begin(), names.end(), name); };
  Registration into(*this);
  // Modules first: attributes inside them need no registering.
  for (const auto& [name, attribute] : root)
    if (const auto* module = std::get_if<std::shared_ptr<torch::nn::Module>>(&attribute); module && is_needed(name))
      into.add(name, *module);
  for (const auto& [name, attribute] : root)
    if (const auto* tensor = std::get_if<at::Tensor>(&attribute); tensor && is_needed(name))
      into.add(name, *tensor, tensor->requires_grad());
  graph_.set_owning_module(&lazy_owner_);
}

FXX_INLINE void GraphModule::take_from(const ModuleOwner& root, const std::map<std::string, Attribute>& more) {
  Registration into(*this);
  std::vector<std::string_view> tensors;
  for (const std::string_view name : detail::referred_names(graph_)) {
    if (const auto module = root.module(name)) into.add(name, module);
    else tensors.push_back(name);
  }
  for (const std::string_view name : tensors) {
    if (const auto extra = more.find(std::string(name)); extra != more.end()) {
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_same_v<decltype(value), const at::Tensor&>) into.add(name, value, false);
            else into.add(name, value);
          },
          extra->second);
      continue;
    }
    const at::Tensor tensor = root.tensor(name);
    if (!tensor.defined())
      throw GraphError(ErrorId::attribute_missing, "GraphModule: the graph refers to '" + std::string(name) +
                                                       "', which " + root.class_name() +
                                                       " does not have; register it as a parameter, buffer or module");
    into.add(name, tensor, root.is_parameter(name));
    follow(name, root);
  }
}

FXX_INLINE void GraphModule::changed() {
  graph_.set_owning_module(&lazy_owner_);
  std::lock_guard lock(mutex_);
  owner_.reset();
  plan_.reset();
}

FXX_INLINE void GraphModule::forget_plan() {
  std::lock_guard lock(mutex_);
  plan_.reset();
}

FXX_INLINE void GraphModule::follow_members() const {
  std::lock_guard lock(mutex_);
  follow_members_locked();
}
FXX_INLINE void GraphModule::follow_members_locked() const {
  bool same = !owner_ || owner_->is_current();
  for (Followed& followed : followed_) {
    if (followed.member->is_same(followed.was)) continue;
    same = false;
    followed.was = *followed.member;
    const auto [path, last] = detail::split_name(followed.name);
    const torch::nn::Module* container = this;
    for (std::size_t at = 0; container && at <= path.size();) {
      const std::size_t dot = std::min(path.find('.', at), path.size());
      container = detail::find_child(*const_cast<torch::nn::Module*>(container), std::string(path.substr(at, dot - at)));
      at = dot + 1;
    }
    // Anything else that has taken the place by now has tensors of its own.
    if (dynamic_cast<const detail::Container*>(container)) detail::set_registered(*container, last, *followed.member);
  }
  if (same) return;
  owner_.reset();
  plan_.reset();
}
FXX_INLINE void GraphModule::follow(std::string_view name, const ModuleOwner& root) {
  if (const at::Tensor* member = root.member(name))
    followed_.push_back({std::string(name), root.module(detail::split_name(name).first), member, *member});
}
FXX_INLINE const at::Tensor* GraphModule::member_read(std::string_view name) const {
  for (const Followed& followed : followed_)
    if (followed.name == name) return followed.member;
  return owner().member(name);
}

FXX_INLINE const ModuleOwner& GraphModule::owner() const {
  std::lock_guard lock(mutex_);
  if (!owner_) owner_ = std::make_shared<ModuleOwner>(*this, class_name_);
  return *owner_;
}

FXX_INLINE void GraphModule::set_graph(Graph graph) {
  graph.set_owning_module(&lazy_owner_);
  graph.lint();
  graph_ = std::move(graph);
}

FXX_INLINE void GraphModule::recompile() {
  changed();
  graph_.lint();
  (void)plan();
}

FXX_INLINE std::string GraphModule::code() const {
  follow_members();
  return forward_code(graph_, owner());
}

FXX_INLINE std::shared_ptr<const Plan> GraphModule::plan() {
  std::lock_guard lock(mutex_);
  follow_members_locked();
  if (!owner_) owner_ = std::make_shared<ModuleOwner>(*this, class_name_);
  if (!plan_ || plan_->version() != graph_.version()) plan_ = std::make_shared<const Plan>(graph_, *owner_);
  return plan_;
}

FXX_INLINE std::vector<c10::IValue> detail::flatten_inputs(const Graph& graph, std::vector<c10::IValue> inputs) {
  const fxx::Signature* signature = graph.signature();
  if (!signature) return inputs;
  std::vector<std::string> targets;
  for (const Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) targets.push_back(node->target());
  const auto part = [](const c10::IValue& value, const Structure& structure, std::size_t i) -> c10::IValue {
    const auto fail = [&](const std::string& wanted) {
      throw RunError(ErrorId::input_mismatch, "GraphModule: " + describe(value) + " was given for an input that is " +
                                                  wanted + "; give what the module was traced with");
    };
    const std::size_t size = structure.items.size();
    if (value.isTensor() && !value.toTensor().defined()) return value;  // left out
    if (structure.kind == Structure::Kind::dict) {
      if (!value.isGenericDict()) fail("a dict of " + std::to_string(size));
      const auto dict = value.toGenericDict();
      const auto found = dict.find(to_ivalue(structure.keys[i]));
      if (found == dict.end()) fail("a dict with the key " + to_string(structure.keys[i]));
      return found->value();
    }
    if (value.isTuple() && value.toTupleRef().size() == size) return value.toTupleRef().elements()[i];
    if (!value.isList() || value.toListRef().size() != size) fail("a list or tuple of " + std::to_string(size));
    return value.toListRef()[i];
  };
  std::vector<c10::IValue> out;
  for (auto& value : take_apart<c10::IValue>(*signature, targets, inputs, part))
    out.push_back(value ? std::move(*value) : c10::IValue(at::Tensor()));
  return out;
}

FXX_INLINE c10::IValue GraphModule::run(std::vector<c10::IValue> inputs) {
  return run_flat(detail::flatten_inputs(graph_, std::move(inputs)));
}
FXX_INLINE c10::IValue GraphModule::run_flat(std::vector<c10::IValue> inputs) { return plan()->run(inputs); }

FXX_INLINE at::Tensor GraphModule::forward(const at::Tensor& input0, const at::Tensor& input1, const at::Tensor& input2,
                                           const at::Tensor& input3, const at::Tensor& input4, const at::Tensor& input5,
                                           const at::Tensor& input6, const at::Tensor& input7) {
  const at::Tensor* all[] = {&input0, &input1, &input2, &input3, &input4, &input5, &input6, &input7};
  std::size_t given = std::size(all);
  while (given > 0 && !all[given - 1]->defined()) --given;
  std::vector<c10::IValue> inputs;
  for (std::size_t i = 0; i < given; ++i) inputs.emplace_back(*all[i]);
  return detail::unbox<at::Tensor>(run(std::move(inputs)), "GraphModule::forward");
}

FXX_INLINE at::Tensor GraphModule::attribute(std::string_view name) const {
  follow_members();
  const at::Tensor tensor = owner().tensor(name);
  if (!tensor.defined())
    throw GraphError(ErrorId::attribute_missing,
                     "GraphModule::attribute: there is no tensor '" + std::string(name) + "' in " + class_name_);
  return tensor;
}
FXX_INLINE void GraphModule::register_attribute(const std::string& name, at::Tensor tensor, bool parameter) {
  if (owner().tensor(name).defined() || owner().module(name))
    throw GraphError(ErrorId::attribute_missing, "GraphModule::register_attribute: the name '" + name +
                                                     "' is taken; fresh_name() gives one that is not");
  if (parameter) tensor.set_requires_grad(true);
  const std::string_view path = detail::split_name(name).first;
  const bool makes_modules = !path.empty() && !owner().module(path);
  Registration(*this).add(name, tensor, parameter);
  if (!makes_modules)
    return owner_->add(name, tensor, parameter ? AttributeInfo::Kind::parameter : AttributeInfo::Kind::buffer);
  changed();  // the modules in between have names that are taken now
}
FXX_INLINE std::string GraphModule::fresh_name(std::string_view stem) const {
  std::size_t* next = nullptr;
  {
    std::lock_guard lock(mutex_);
    next = &next_names_[std::string(stem)];
  }
  for (;; ++*next) {
    std::string name = std::string(stem) + std::to_string(*next);
    if (!owner().tensor(name).defined() && !owner().module(name)) return name;
  }
}
FXX_INLINE at::Tensor& GraphModule::register_parameter(std::string name, at::Tensor tensor, bool requires_grad) {
  at::Tensor& registered = torch::nn::Module::register_parameter(std::move(name), std::move(tensor), requires_grad);
  changed();
  return registered;
}
FXX_INLINE at::Tensor& GraphModule::register_buffer(std::string name, at::Tensor tensor) {
  at::Tensor& registered = torch::nn::Module::register_buffer(std::move(name), std::move(tensor));
  changed();
  return registered;
}
FXX_INLINE void GraphModule::unregister_module(const std::string& name) {
  torch::nn::Module::unregister_module(name);
  changed();
}
FXX_INLINE std::shared_ptr<torch::nn::Module> GraphModule::submodule(std::string_view name) const {
  return owner().module(name);
}

FXX_INLINE void GraphModule::refuse_cycle(const std::string& name, const torch::nn::Module* module) const {
  if (!module || !detail::holds(*module, *this)) return;
  throw GraphError(ErrorId::nested_too_deep,
                   "GraphModule: '" + name + "' cannot be a submodule of " + class_name_ + ", because it " +
                       (module == this ? "is that module itself" : "holds that module") +
                       "; a module that calls itself never ends. Register a module that does not hold it");
}

FXX_INLINE bool GraphModule::add_submodule(const std::string& name, std::shared_ptr<torch::nn::Module> module) {
  if (owner().module(name) || owner().tensor(name).defined()) return false;
  refuse_cycle(name, module.get());
  Registration(*this).add(name, module);
  changed();
  return true;
}
FXX_INLINE bool GraphModule::delete_submodule(const std::string& name) {
  if (!owner().module(name)) return false;
  const auto [path, last] = detail::split_name(name);
  (path.empty() ? *this : *owner().module(path)).unregister_module(last);
  changed();
  return true;
}

FXX_INLINE void GraphModule::delete_all_unused_submodules() {
  // Containers are rebuilt from what the graph refers to; leaf modules keep what is inside them.
  const std::vector<std::string_view> names = detail::referred_names(graph_);
  const ModuleOwner from(*this, class_name_);
  for (const std::string& child : named_children().keys()) torch::nn::Module::unregister_module(child);
  Registration into(*this);
  for (const std::string_view name : names)
    if (const auto module = from.module(name)) into.add(name, module);
  for (const std::string_view name : names)
    if (const at::Tensor tensor = from.tensor(name); tensor.defined()) {
      into.add(name, tensor, from.is_parameter(name));
      follow(name, from);
    }
  for (const std::string& parameter : named_parameters(false).keys())
    if (!std::binary_search(names.begin(), names.end(), std::string_view(parameter))) parameters_.erase(parameter);
  changed();
}

FXX_INLINE std::shared_ptr<torch::nn::Module> GraphModule::clone(const std::optional<torch::Device>& device) const {
  const detail::NestedCall call("GraphModule::clone: modules");
  follow_members();
  detail::warn_of_members(*this, "GraphModule::clone", "the copy has these");
  auto copy = std::make_shared<GraphModule>(std::map<std::string, Attribute>{}, Graph(), class_name_);
  copy->train(is_training());
  detail::clone_members(*this, *copy, device);
  detail::clone_assigned(*this, *copy, device);
  copy->graph_ = graph_;
  copy->kept_state_ = kept_state_;
  copy->changed();
  return copy;
}

FXX_INLINE void detail::refuse_kept_state(const GraphModule& module, const char* caller) {
  if (module.kept_state().empty()) return;
  throw RunError(ErrorId::keeps_state,
                 caller + (": the code that was traced keeps state from run to run, which its graph does not: " +
                           module.kept_state()) +
                     ". Make the state an input and a result of forward, or a registered buffer that operators write "
                     "to in place (add_, copy_)");
}

FXX_INLINE void GraphModule::save(torch::serialize::OutputArchive& archive) const {
  detail::warn_of_members(*this, "GraphModule::save", "these are saved");
  const detail::MembersRegistered members(*this);
  torch::nn::Module::save(archive);
}
FXX_INLINE void GraphModule::load(torch::serialize::InputArchive& archive) {
  detail::register_members(*this);
  torch::nn::Module::load(archive);
}
FXX_INLINE void GraphModule::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  detail::register_members(*this);
  torch::nn::Module::to(device, dtype, non_blocking);
}
FXX_INLINE void GraphModule::to(torch::Dtype dtype, bool non_blocking) {
  detail::register_members(*this);
  torch::nn::Module::to(dtype, non_blocking);
}
FXX_INLINE void GraphModule::to(torch::Device device, bool non_blocking) {
  detail::register_members(*this);
  torch::nn::Module::to(device, non_blocking);
}

FXX_INLINE void GraphModule::pretty_print(std::ostream& stream) const { stream << class_name_; }

FXX_INLINE detail::ModuleExpansion::ModuleExpansion(GraphModule& module, std::span<const std::string_view> but)
    : module_(module) {
  module.follow_members();
  parameterless_ = parameterless_calls(module.graph(), module.owner());
  expand_modules(module.graph(), module.owner(), but);
}
FXX_INLINE bool detail::ModuleExpansion::open_rest() { return expand_modules(module_.graph(), module_.owner()) > 0; }
FXX_INLINE void detail::ModuleExpansion::keep_nearest(const rewrite::RewriteReport& before,
                                                      rewrite::RewriteReport& after) {
  std::erase_if(after.near_misses, [&](const auto& later) {
    return later.node.empty() && std::any_of(before.near_misses.begin(), before.near_misses.end(), [&](const auto& miss) {
             return miss.rule == later.rule && !miss.node.empty();
           });
  });
}
FXX_INLINE detail::ModuleExpansion::~ModuleExpansion() {
  reroll_modules(module_.graph(), module_.owner(), parameterless_);
}

}  // namespace fxx::inline FXX_ABI
