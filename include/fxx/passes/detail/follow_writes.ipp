// The first walk of functionalise: what each node gives and writes, and what can then not be made pure. For
// passes/functionalise.ipp only.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/detail/views.ipp"
#include "fxx/passes/detail/written_memory.ipp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE void GraphWrites::follow(Node& node) {
  ++place_;
  const bool returns = node.opcode() == Opcode::output;
  for (Node* input : node.all_input_nodes()) {
    const int o = object_of_[input->index()];
    if (o < 0) continue;
    record(node).reads.emplace_back(input, o);
    Set& set = set_of(o);
    set.last_use = std::max(set.last_use, returns ? forever : place_);
    set.returned = set.returned || returns;
  }
  match(
      node.op(),
      [&](const Placeholder&) {
        define(node, root(node));
        sets_.back().shared = true;
      },
      [&](const GetAttr& attribute) {
        const auto [known, fresh] = attributes_.emplace(attribute.target, -1);
        if (fresh) {
          known->second = root(node);
          sets_.back().shared = true;
          sets_.back().attribute = attribute.target;
        }
        define(node, known->second);
      },
      [&](const CallFunction& call) {
        if (const auto* function = std::get_if<const UserFunction*>(&call.target)) follow_function(node, **function);
        else follow_operator(node, *std::get<const Operator*>(call.target));
      },
      [&](const CallMethod& call) {
        if (const Operator* op = operator_of(node)) return follow_operator(node, *op);
        unknown(node, has_effect(node), "the method " + call.target + " is not known");
      },
      [&](const CallModule& call) { follow_module(node, call.target); }, [](const Output&) {});
}

/// The result may be any of the arguments, and they may be written to.
FXX_INLINE void GraphWrites::unknown(Node& node, bool writes, const std::string& why) {
  const int made = root(node);
  define(node, made);
  const std::string reason = quoted(node) + " may return it" + (writes ? ", or write to it: " : ": ") + why;
  for (const auto& [input, o] : record(node).reads) {
    join(object(o).set, object(made).set, reason);
    if (writes) set_of(o).writes.push_back(place_);
  }
  fail(set_of(made), reason);
}

FXX_INLINE void GraphWrites::follow_function(Node& node, const UserFunction& function) {
  if (function.expansion) return define(node, root(node));
  if (function.impure) record(node).left = "what " + function.name + " does besides its result is not known";
  unknown(node, function.impure, "what " + function.name + " does is not known");
}

FXX_INLINE void GraphWrites::follow_module(Node& node, const std::string& target) {
  modules_.push_back(&node);
  const ModuleInfo* module = owner_ ? owner_->find_module(target) : nullptr;
  const Operator* op = module ? module->operation : nullptr;
  const bool writes = has_effect(node);
  if (!op) return unknown(node, writes, "what the module " + target + " does is not known");
  if (op->mutates || op->aliases || (has(op->traits, Trait::fresh_view) && !module->training)) {
    if (op->mutates) record(node).left = "it is a call of a module that writes to its input; expand_modules first";
    return unknown(node, op->mutates, "it is a call of a module; expand_modules first");
  }
  if (writes) {
    record(node).left = "the module updates its statistics";
    for (std::size_t i = 0; i < module->parts.size(); ++i)
      if (op->parameters[i].name.starts_with("running_")) trained_.push_back(module->parts[i].attribute);
    if (!module->counter.empty()) trained_.push_back(module->counter);
  }
  define(node, root(node, op->returns.size() > 1 ? Object::Kind::several : Object::Kind::tensor));
}

FXX_INLINE bool GraphWrites::holds_tensors(const Operator& op) {
  return std::any_of(op.returns.begin(), op.returns.end(), [](const Return& r) {
    return r.type.base == ValueType::tensor || r.type.base == ValueType::other;
  });
}

FXX_INLINE void GraphWrites::follow_operator(Node& node, const Operator& op) {
  if (op.mutates) return follow_write(node, op);
  if (has(op.traits, Trait::updates_statistics) && has_effect(node)) {
    record(node).left = "it updates running statistics";
    for (int i = 0; i < op.arity(); ++i) {
      const Argument* given = argument_of(node, op, i);
      const int o = given ? object_of(*given) : -1;
      if (o < 0 || !op.parameters[static_cast<std::size_t>(i)].name.starts_with("running_")) continue;
      Set& set = set_of(o);
      set.writes.push_back(place_);
      fail(set, quoted(node) + " updates it as running statistics");
    }
  }
  if (!holds_tensors(op)) return;
  const bool several = op.returns.size() != 1 || op.returns[0].type.list;
  std::vector<int> sources;
  int at = -1;
  for (int i = 0; i < op.arity(); ++i) {
    if (!may_return(op, i)) continue;
    if (const Argument* given = argument_of(node, op, i)) {
      at = i;
      for_each_node(*given, [&](Node* n) {
        if (object_of_[n->index()] >= 0) sources.push_back(object_of_[n->index()]);
      });
    }
  }
  if (sources.empty()) {
    // An item of what is no tensor, a list of sizes, is none.
    if (at >= 0 && op.returns[0].type.base == ValueType::other) return;
    return define(node, root(node, several ? Object::Kind::several : Object::Kind::tensor));
  }
  const int source = sources[0];
  const bool by_position = at == 0 && !node.args().empty() && node.args()[0].is_node();
  const bool item = op.name_space() == "operator" && op.base_name() == "getitem";
  if (sources.size() > 1 || !by_position || op.returns.size() != 1)
    return unknown(node, false, "it may return several of its arguments");
  const Object given = object(source);
  if (given.kind != Object::Kind::tensor) {
    const auto i = item && node.args().size() == 2 ? views::integer_of(node.args()[1]) : std::nullopt;
    if (!i) return unknown(node, false, "it takes several tensors");
    if (given.kind == Object::Kind::several) {
      // Each result is memory of its own.
      const auto [known, fresh] = items_.emplace(std::pair(source, *i), -1);
      if (fresh && set_of(source).reason.empty()) {
        known->second = root(node);
        object(known->second).whole = false;
      } else if (fresh) {
        known->second = new_object({.set = object(source).set, .meta = meta_of(node), .whole = false}, node);
      }
      return define(node, known->second);
    }
    const Object& base = object(given.parent);
    auto step = views::item(*given.maker, *operator_of(*given.maker), *i, base.meta);
    Object o{.set = base.set, .parent = given.parent, .meta = meta_of(node)};
    if (step) {
      if (o.meta) step->to = o.meta;
      o.steps = {std::move(*step)};
    } else {
      o.parent = source;
      o.steps = {{.op = &op, .args = {*i}, .from = {}, .to = o.meta}};
    }
    return define(node, new_object(std::move(o), node));
  }
  if (item && given.maker->opcode() == Opcode::placeholder && !given.meta && given.maker->type().empty() &&
      node.args().size() == 2 && views::is_whole_number(node.args()[1]))
    return unknown(node, false, "whether " + quoted(*given.maker) + " is a tensor or a list is not known");
  if (several) {
    Object o{.set = given.set, .parent = source, .kind = Object::Kind::list};
    o.steps = {{.op = &op, .args = {node.args().begin() + 1, node.args().end()}}};
    o.steps[0].kwargs.assign(node.kwargs().begin(), node.kwargs().end());
    if (!op.aliases) return unknown(node, false, "whether it returns views is not known");
    return define(node, new_object(std::move(o), node));
  }
  const bool whole = given.parent < 0 && given.whole;
  views::View view = views::view_of(node, op, given.meta, whole, whole && !set_of(source).shared);
  if (view.sharing == views::Sharing::view) {
    // Of another's sizes, which it should still have when the view is made again.
    for (const views::Step& step : view.steps)
      for (const Argument& a : step.args)
        if (const int other = object_of(a); other >= 0 && !views::is_static(step.to))
          sized_by_.emplace_back(given.set, object(other).set);
    if (!view.steps.empty() && view.steps[0].kind == views::Kind::never)
      fail(set_of(source), quoted(node) + " is a view of it that cannot be made from other memory");
    return define(
        node,
        new_object({.set = given.set, .parent = source, .steps = std::move(view.steps), .meta = meta_of(node)}, node));
  }
  const int made = root(node);
  define(node, made);
  object(made).whole = view.sharing == views::Sharing::fresh;
  if (view.sharing == views::Sharing::maybe) {
    links_.emplace_back(object(source).set, object(made).set);
    set_of(source).linked = set_of(made).linked = true;
  }
}

/// The same operator without the mutation.
FXX_INLINE const Operator* GraphWrites::twin_of(const Node& node, const Operator& op) {
  const std::string_view name = op.base_name();
  if (!op.parameters[0].written || !name.ends_with('_') || op.returns.size() != 1) return nullptr;
  for (int i = 1; i < op.arity(); ++i)
    if (op.parameters[static_cast<std::size_t>(i)].written) return nullptr;
  const auto same_parameters = [&](const Operator& other) {
    if (other.mutates || other.parameters.size() != op.parameters.size() || other.returns.size() != 1) return false;
    if (other.returns[0].type != op.returns[0].type) return false;
    for (std::size_t i = 0; i < op.parameters.size(); ++i)
      if (other.parameters[i].name != op.parameters[i].name ||
          other.parameters[i].type.list != op.parameters[i].type.list)
        return false;
    return true;
  };
  const std::string base = std::string(op.name_space()) + "::" + std::string(name.substr(0, name.size() - 1));
  const Argument* second = op.second_is_tensor ? argument_of(node, op, 1) : nullptr;
  if (second && second->is_number()) {
    const Operator* other = resolve_overload(base, node.args(), node.kwargs());
    return other && same_parameters(*other) ? other : nullptr;
  }
  const std::vector<const Operator*> overloads = overloads_of(base);
  const auto same_types = [&](const Operator& other) {
    if (!same_parameters(other)) return false;
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      if (other.parameters[i].type.base != op.parameters[i].type.base) return false;
    }
    return true;
  };
  for (const Operator* other : overloads)
    if (other->overload_name() == op.overload_name() && same_types(*other)) return other;
  for (const Operator* other : overloads)
    if (same_types(*other)) return other;
  return nullptr;
}

/// The operator that gives what this one writes to its last parameters.
FXX_INLINE const Operator* GraphWrites::functional_of(const Operator& op) {
  std::vector<const Parameter*> read, written;
  for (const Parameter& p : op.parameters) (p.written ? written : read).push_back(&p);
  if (written.empty() || read.empty() || op.returns.size() != written.size()) return nullptr;
  for (std::size_t k = 0; k < written.size(); ++k)
    if (written[k]->type != Type{.base = ValueType::tensor} || op.returns[k].alias != written[k]->alias) return nullptr;
  for (const Operator* other : overloads_of(op.name.substr(0, op.name.find('.')))) {
    if (other->mutates || other->parameters.size() != read.size() || other->returns.size() != written.size() ||
        has(other->traits, Trait::random))
      continue;
    bool same = true;
    for (std::size_t i = 0; i < read.size(); ++i)
      same = same && other->parameters[i].name == read[i]->name && other->parameters[i].type == read[i]->type;
    for (const Return& r : other->returns) same = same && r.type == Type{.base = ValueType::tensor};
    if (same) return other;
  }
  return nullptr;
}

FXX_INLINE void GraphWrites::follow_write(Node& node, const Operator& op) {
  using Kind = Write::Kind;
  const std::string_view name = op.base_name();
  Record& mine = record(node);
  std::vector<int> written;
  bool known = true;
  for (int i = 0; i < op.arity(); ++i) {
    if (!op.parameters[static_cast<std::size_t>(i)].written) continue;
    const Argument* given = argument_of(node, op, i);
    if (!given || given->is_none()) continue;
    known = known && given->is_node();
    for_each_node(*given, [&](Node* n) {
      const int o = object_of_[n->index()];
      known = known && o >= 0 && object(o).kind == Object::Kind::tensor;
      if (o >= 0) written.push_back(o);
    });
  }
  const bool one = known && written.size() == 1;
  const bool by_position = !node.args().empty() && node.args()[0].is_node();
  if (op.name_space() == "aten" && name == "requires_grad_") known = false;
  // Operators that change what a tensor is, and not its elements: from here on it is a view of what it was.
  static constexpr std::string_view of_shape[] = {"squeeze_",  "unsqueeze_", "transpose_",  "t_",
                                                  "swapaxes_", "swapdims_",  "as_strided_", "detach_"};
  if (one && op.name_space() == "aten" &&
      std::find(std::begin(of_shape), std::end(of_shape), name) != std::end(of_shape))
    return follow_change_of_shape(node, op, written[0]);

  std::string why;
  Write write{.objects = written};
  if (has(op.traits, Trait::random)) {
    why = "it draws random numbers in place";
  } else if (!known || written.empty()) {
    why =
        name == "requires_grad_" ? "whether a tensor requires gradients is no value" : "what it writes to is not known";
  } else if (op.name_space() == "aten" && (name == "set_" || name == "resize_" || name == "resize_as_")) {
    why = "it gives the tensor other memory";
  } else if (op.name_space() == "aten" && name == "copy_" && by_position) {
    const Argument* source = argument_of(node, op, 1);
    if (source && object_of(*source) >= 0) write.kind = Kind::copy;
    else why = "what it copies is not known";
  } else if (op.name_space() == "aten" && name == "zero_" && by_position) {
    write.kind = Kind::zero;
  } else if ((write.twin = one && by_position ? twin_of(node, op) : nullptr)) {
    write.kind = Kind::twin;
  } else if ((write.twin = functional_of(op)) && write.twin->returns.size() == written.size()) {
    write.kind = Kind::out;
    for (std::size_t k = 0; k < written.size(); ++k)
      if (const std::string wrong = may_resize(node, written, k); !wrong.empty()) why = wrong;
  } else {
    why = "there is no operator that gives what it writes";
  }
  if (write.kind != Kind::none && has_random_twin(write)) why = "it draws random numbers in place";
  if (!why.empty()) return leave(node, written, why, name == "set_" || name.starts_with("resize_"));

  mine.write = write;
  for (int o : written) {
    Set& set = set_of(o);
    set.writes.push_back(place_);
    set.writers.push_back(&node);
    bool detached = false;
    for (int x = o; object(x).parent >= 0; x = object(x).parent)
      for (const views::Step& step : object(x).steps) {
        detached = detached || (step.op && step.op->base_name() == "detach");
        if (!views::has_inverse(step))
          fail(set, quoted(node) + " writes through " + quoted(*object(x).maker) + ", which has no inverse");
      }
    set.under_detach = set.under_detach && detached;
    // A result among several: their list would have to be made again for others.
    if (const Node* of = object(o).maker; object(o).parent < 0 && is_item(*of))
      for (const Node* user : of->args()[0].node()->users())
        if (!is_item(*user))
          fail(set, quoted(node) + " writes to one of several results that " + quoted(*user) + " takes together");
  }
  if (written.size() == 1) return stand_for(node, written[0]);
  const int several = root(node, Object::Kind::several);
  define(node, several);
  for (std::size_t k = 0; k < written.size(); ++k) {
    items_[std::pair(several, static_cast<std::int64_t>(k))] = written[k];
    for (const Node* user : node.users())
      if (!is_item(*user)) fail(set_of(written[k]), quoted(*user) + " takes it together with others");
  }
}

FXX_INLINE bool GraphWrites::is_item(const Node& node) {
  const Operator* op = node.operation();
  return op && op->name_space() == "operator" && op->base_name() == "getitem" && node.args().size() == 2 &&
         node.args()[0].is_node() && node.args()[1].kind() == Argument::Kind::integer && node.args()[1].integer() >= 0;
}

FXX_INLINE bool GraphWrites::has_random_twin(const Write& write) {
  return write.twin && has(write.twin->traits, Trait::random);
}

/// `out` is made as large as it has to be; what else there is of its memory would not see that.
FXX_INLINE std::string GraphWrites::may_resize(const Node& node, const std::vector<int>& written, std::size_t k) const {
  const Object& o = object(written[k]);
  if (written.size() == 1 && o.meta && node.tensor_meta() && o.meta->shape == node.tensor_meta()->shape) return {};
  if (o.parent < 0 && !set_of(written[k]).shared && o.maker->num_users() == 1) return {};
  return "whether its result is of the size of " + quoted(*o.maker) + " is not known";
}

/// The node stays, and with it all that shares the memory that it writes.
FXX_INLINE void GraphWrites::leave(Node& node, const std::vector<int>& written, const std::string& why, bool reshapes) {
  record(node).left = why;
  if (written.size() == 1 && mutates_own_temporary(node)) {
    set_of(written[0]).returned = true;
    return define(node, root(node));
  }
  for (int o : written) {
    Set& set = set_of(o);
    set.writes.push_back(place_);
    set.reshaped = set.reshaped || reshapes;
    fail(set, quoted(node) + " writes to it: " + why);
  }
  if (written.size() == 1) stand_for(node, written[0]);
  else unknown(node, true, why);
}

FXX_INLINE void GraphWrites::follow_change_of_shape(Node& node, const Operator& op, int o) {
  const std::string base = "aten::" + std::string(op.base_name().substr(0, op.base_name().size() - 1));
  const Operator* view = twin_of(node, op);
  Set& set = set_of(o);
  if (!view || node.args().empty() || !node.args()[0].is_node()) return leave(node, {o}, "the view is not known", true);
  // `contiguous` may have given the tensor itself, which then changes too.
  const auto same_tensor = [](const Object& other) {
    return other.parent >= 0 &&
           std::all_of(other.steps.begin(), other.steps.end(), [](const views::Step& s) { return !s.op; });
  };
  if (set.linked || same_tensor(object(o)) || std::any_of(objects_.begin(), objects_.end(), [&](const Object& other) {
        return other.parent == o && same_tensor(other);
      }))
    return leave(node, {o}, "it may change another tensor too", true);
  if (set.shared && object(o).parent < 0) return leave(node, {o}, "it changes what an input is", true);
  views::Step step{.kind = views::Kind::swap, .op = view, .from = object(o).meta, .to = meta_of(node)};
  step.args.assign(node.args().begin() + 1, node.args().end());
  step.kwargs.assign(node.kwargs().begin(), node.kwargs().end());
  if (base == "aten::squeeze" || base == "aten::unsqueeze") step.kind = views::Kind::shape;
  if (base == "aten::detach") step.kind = views::Kind::same;
  if (base == "aten::as_strided") return leave(node, {o}, "it is of any memory", true);
  set.writes.push_back(place_);
  set.writers.push_back(&node);
  set.reshaped = true;
  const int now =
      new_object({.set = object(o).set, .parent = o, .steps = {std::move(step)}, .meta = meta_of(node)}, node);
  // Whatever was this tensor is the view from here on.
  for (int& any : object_of_)
    if (any == o) any = now;
  for (auto& [name, known] : attributes_)
    if (known == o) known = now;
  for (auto& [key, known] : items_)
    if (known == o) known = now;
  stand_for(node, now);
  record(node).write.objects = {now};
}

}  // namespace fxx::inline FXX_ABI::detail
