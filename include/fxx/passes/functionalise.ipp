// Bodies of passes/functionalise.hpp.
//
// Two walks. The first follows every tensor: which views of which memory there are, and who writes to it through which
// of them. Memory that is written in a way that has no pure form is left alone, with all that may be the same memory.
// The second edits: a write makes a new value for the view that it names, and through the inverses of its steps one for
// the tensor that it is a view of, up to the whole memory; every other view of that memory is then out of date, and is
// made again from the new whole where somebody reads it. The first walk changes nothing, so what it throws leaves the
// graph as it was.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fxx/ir/names.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/detail/follow_writes.ipp"
#include "fxx/passes/detail/views.ipp"
#include "fxx/passes/detail/written_memory.ipp"
#include "fxx/passes/functionalise.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The dtype that LibTorch computes in, of tensors with dimensions; none where it is not worth to know.
FXX_INLINE std::optional<Dtype> promoted(Dtype a, Dtype b) {
  if (a == b) return a;
  const auto category = [](Dtype d) {
    return d == Dtype::boolean ? 0 : is_complex(d) ? 3 : is_floating_point(d) ? 2 : 1;
  };
  if (category(a) != category(b)) {
    const Dtype higher = category(a) > category(b) ? a : b, lower = higher == a ? b : a;
    if (is_complex(higher) && is_floating_point(lower)) return {};
    return higher;
  }
  const auto plain = [](Dtype d) {
    return d == Dtype::float16 || d == Dtype::bfloat16 || d == Dtype::float32 || d == Dtype::float64 ||
           d == Dtype::int8 || d == Dtype::int16 || d == Dtype::int32 || d == Dtype::int64;
  };
  if (!plain(a) || !plain(b)) return {};
  if (element_size(a) == element_size(b)) return Dtype::float32;  // float16 and bfloat16
  return element_size(a) > element_size(b) ? a : b;
}

/// Takes away calls in place that do nothing, as dropout_ does that does not train.
FXX_INLINE std::size_t erase_idle_calls(Graph& graph) {
  std::size_t erased = 0;
  for (Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (!op || !op->mutates || !has(op->traits, Trait::idle_in_eval) || has_effect(*node)) continue;
    const Argument* given = op->parameters[0].written ? argument_of(*node, *op, 0) : nullptr;
    if (!given || !given->is_node()) continue;
    node->replace_all_uses_with(given->node());
    graph.erase_node(node);
    ++erased;
  }
  return erased;
}

class Functionaliser : GraphWrites {
 public:
  Functionaliser(Graph& graph, const Owner* owner) : GraphWrites(graph, owner), changed_(graph.index_bound()) {}

  FunctionaliseReport run() {
    FunctionaliseReport report;
    for (Node* node : graph_.nodes())
      if (const std::string* why = reason_of(*node)) report.left.push_back({node, *why});
    const bool any = std::any_of(sets_.begin(), sets_.end(), [&](const Set& s) { return is_pure(s); });
    if (!any || is_functional()) return report;
    for (Node* node : graph_.nodes().snapshot()) edit(*node, report);
    sweep();
    return report;
  }

 private:
  Node* call(const Operator& op, const std::vector<Argument>& args, const std::vector<KeywordArgument>& kwargs,
             const views::Meta& meta) {
    Node* node = graph_.call_function(op, args, kwargs);
    node->set_location(at_->location());
    node->set_module_stack(at_->module_stack());
    if (meta) node->set_tensor_meta(*meta);
    return node;
  }
  auto caller() {
    return [this](const Operator& op, const std::vector<Argument>& args, const std::vector<KeywordArgument>& kwargs,
                  const views::Meta& meta) { return call(op, args, kwargs, meta); };
  }

  /// The node that holds the tensor's value here.
  Node* current(int i) {
    Object& o = object(i);
    Set& set = set_of(i);
    if (o.version == set.version) return o.value;
    Node* value = current(o.parent);
    for (const views::Step& step : o.steps) value = views::apply(step, value, caller(), copied_back_);
    o.value = value;
    o.version = set.version;
    return value;
  }
  /// Gives the tensor a new value, and through it all that it is a view of. `in_order`: its elements lie as those of
  /// the value before.
  void assign(int i, Node* value, bool in_order) {
    struct Level {
      int object;
      std::vector<Node*> before;  // each step; null where nobody asks
    };
    std::vector<Level> levels;
    for (int x = i; object(x).parent >= 0; x = object(x).parent) {
      const Object& o = object(x);
      Level level{x, std::vector<Node*>(o.steps.size())};
      const bool any = std::any_of(o.steps.begin(), o.steps.end(), views::needs_before);
      Node* before = any ? current(o.parent) : nullptr;
      for (std::size_t k = 0; any && k < o.steps.size(); ++k) {
        level.before[k] = before;
        if (k + 1 < o.steps.size()) before = views::apply(o.steps[k], before, caller());
      }
      levels.push_back(std::move(level));
    }
    Set& set = set_of(i);
    ++set.version;
    const auto put = [&](int x, Node* v) {
      object(x).value = v;
      object(x).version = set.version;
    };
    put(i, value);
    bool disordered = false;
    for (const Level& level : levels) {
      const Object& o = object(level.object);
      for (std::size_t k = o.steps.size(); k-- > 0;) {
        const views::Step& step = o.steps[k];
        if (views::writes_into_copy(step)) in_order = true, disordered = false;
        disordered = disordered || (!in_order && (step.kind == views::Kind::swap || step.kind == views::Kind::permute));
        value = views::take_back(
            step, [&] { return level.before[k]; }, value, caller());
      }
      // What is left alone asks for views by strides: they stay as they were.
      const Object& base = object(o.parent);
      if (disordered && base.parent < 0 && views::is_contiguous(base.meta).value_or(true))
        value = call(ops::contiguous, {value}, {}, base.meta);
      put(o.parent, value);
    }
  }

  /// The dtype of what the operator gives, where it should be that of `self`; none when it may be another.
  std::optional<Dtype> dtype_of(const Node& node, const Operator& op, const views::Meta& self) const {
    if (gives_booleans(op)) return Dtype::boolean;
    const bool listed = has(op.traits, Trait::function) || has(op.traits, Trait::method);
    if (op.base_name() == "cumsum" || op.base_name() == "cumprod") {
      const Argument given = argument_or_default(node, op, op.index_of("dtype"));
      if (given.kind() == Argument::Kind::dtype) return given.dtype();
      if (!self) return {};
      return is_floating_point(self->dtype) || is_complex(self->dtype) ? self->dtype : Dtype::int64;
    }
    if (!self) return {};
    if (listed && !has(op.traits, Trait::pointwise)) return self->dtype;  // takes tensors of one dtype
    std::optional<Dtype> dtype = self->dtype;
    bool first = true;
    for (const Node* input : node.all_input_nodes()) {
      if (std::exchange(first, false) || !dtype) continue;
      if (!input->tensor_meta()) {
        if (!views::gives_number(*input)) dtype.reset();
        continue;
      }
      const TensorMeta& other = *input->tensor_meta();
      const auto both = promoted(*dtype, other.dtype);
      // A tensor without dimensions counts only where it is of a higher kind.
      const auto kind = [](Dtype d) {
        return d == Dtype::boolean ? 0 : is_complex(d) ? 3 : is_floating_point(d) ? 2 : 1;
      };
      if (other.dim() == 0 && self->dim() > 0 && kind(other.dtype) <= kind(*dtype)) continue;
      dtype = both;
    }
    return dtype;
  }
  static bool takes_other_tensors(const Node& node) {
    return std::any_of(node.all_input_nodes().begin(), node.all_input_nodes().end(),
                       [&](const Node* n) { return n != node.args()[0].node() && !views::gives_number(*n); });
  }
  /// `value` in the dtype of `self`, whose value was `old`.
  Node* converted(Node* value, const views::Meta& self, Node* old) {
    if (self) return call(ops::to_dtype, {value, self->dtype}, {}, self);
    return call(ops::type_as, {value, old}, {}, self);
  }

  Node* pure_twin(Node& node, const Write& write) {
    const Object& self = object(write.objects[0]);
    Node* old = current(write.objects[0]);
    const std::vector<Argument> args(node.args().begin(), node.args().end());
    const std::vector<KeywordArgument> kwargs(node.kwargs().begin(), node.kwargs().end());
    const auto dtype = dtype_of(node, *write.twin, self.meta);
    views::Meta meta = self.meta;
    if (meta && views::is_contiguous(meta) != true) meta->stride.clear();
    const bool keeps = dtype && self.meta && *dtype == self.meta->dtype;
    const bool for_sure = keeps || (!self.meta && !gives_booleans(*write.twin) && !takes_other_tensors(node) &&
                                    !write.twin->base_name().starts_with("cum"));
    if (meta && dtype) meta->dtype = *dtype;
    else if (meta && !for_sure) meta.reset();
    Node* value = call(*write.twin, args, kwargs, meta);
    if (for_sure) return value;
    Node* cast = converted(value, self.meta, old);
    if (self.meta && views::is_contiguous(self.meta) != true) {
      TensorMeta loose = *self.meta;
      loose.stride.clear();
      cast->set_tensor_meta(loose);
    }
    return cast;
  }
  Node* pure_copy(Node& node, const Write& write) {
    const int o = write.objects[0];
    const Object& self = object(o);
    Node* old = current(o);
    const Operator& op = *operator_of(node);
    Node* source = argument_of(node, op, 1)->node();
    const views::Meta from = meta_of(*source);
    Node* value = source;
    bool own = false, expands = false;
    if (!from || !self.meta) {
      value = call(ops::type_as, {value, old}, {},
                   self.meta && from ? views::reshaped(*self.meta, from->shape) : views::Meta());
    } else if (from->device != self.meta->device || from->dtype != self.meta->dtype) {
      views::Meta meta = views::reshaped(*self.meta, from->shape);
      if (views::is_contiguous(from) == true) meta->stride = from->stride;
      value = from->device == self.meta->device
                  ? call(ops::to_dtype, {value, self.meta->dtype}, {}, meta)
                  : call(ops::to_device, {value, self.meta->device, self.meta->dtype}, {}, meta);
      own = true;
    }
    views::Meta after = self.meta;
    if (after) after->stride.clear();
    if (!from || !self.meta || from->shape != self.meta->shape) {
      expands = true;
      value = views::is_static(self.meta) ? call(ops::expand, {value, views::shape_argument(*self.meta)}, {}, after)
                                          : call(ops::expand_as, {value, old}, {}, after);
    }
    // A scatter copies anyway. Else the value is memory of its own where somebody could tell.
    for (int x = o; object(x).parent >= 0; x = object(x).parent)
      for (const views::Step& step : object(x).steps)
        if (views::writes_into_copy(step)) return value;
    views::Meta laid_out = self.meta;
    if (views::is_static(laid_out)) laid_out->stride = views::contiguous_stride(laid_out->shape);
    const Object* given = nullptr;
    for (const auto& [input, read] : record(node).reads)
      if (current_or(input, read) == source) given = &object(read);
    const Set* memory = given ? &sets_[static_cast<std::size_t>(find(given->set))] : nullptr;
    const bool may_change = !memory || memory->linked || (!memory->reason.empty() && !memory->writes.empty());
    if ((!own || expands) && (may_change || set_of(o).returned))
      return call(ops::clone, {value}, {{"memory_format", MemoryFormat::contiguous_format}}, laid_out);
    if (expands || views::is_contiguous(meta_of(*value)) != true) return call(ops::contiguous, {value}, {}, laid_out);
    return value;
  }
  Node* current_or(Node* node, int o) { return is_pure(o) ? current(o) : node; }

  /// Who takes the item and knows what it is; null when nobody does.
  static const Node* taker_of(const Node& node, std::size_t i) {
    for (const Node* user : node.users())
      if (item_taken(*user) == static_cast<std::int64_t>(i) && user->tensor_meta()) return user;
    return nullptr;
  }

  /// Puts the new values in the place of the write.
  void edit_write(Node& node, const Write& write) {
    const std::uint32_t first_fresh = graph_.index_bound();
    const auto named = [&](Node* value) {
      if (value->index() < first_fresh) return;
      const Operator& op = *operator_of(node);
      if (!is_made_from(node.name(), op.base_name())) value->swap_names(node);
      if (node.has_meta()) value->meta() = node.meta();
      if (!node.type().empty()) value->set_type(node.type());
    };
    if (write.kind == Write::Kind::out) {
      const Operator& op = *operator_of(node);
      std::vector<Argument> args;
      std::vector<KeywordArgument> kwargs;
      int k = 0;
      for (int i = 0; i < op.arity(); ++i) {
        if (op.parameters[static_cast<std::size_t>(i)].written) continue;
        const Parameter& p = write.twin->parameters[static_cast<std::size_t>(k)];
        const Argument* given = argument_of(node, op, i);
        if (given && !p.keyword_only && static_cast<int>(args.size()) == k) args.push_back(*given);
        else if (given) kwargs.push_back({p.name, *given});
        ++k;
      }
      const bool one = write.objects.size() == 1;
      Node* result = call(*write.twin, args, kwargs, {});
      std::vector<Node*> values;
      for (std::size_t i = 0; i < write.objects.size(); ++i) {
        Node* value = one ? result : call(ops::operator_getitem, {result, static_cast<std::int64_t>(i)}, {}, {});
        views::Meta self = object(write.objects[i]).meta;
        if (self && one && node.tensor_meta()) self = meta_of(node);
        const Node* item = one ? nullptr : taker_of(node, i);
        if (self && item) self = meta_of(*item);
        values.push_back(converted(value, self, current(write.objects[i])));
        // It is made as large as what is written to it, which nobody knows here.
        if (!one && !item) values.back()->clear_tensor_meta();
      }
      for (std::size_t i = 0; i < values.size(); ++i) assign(write.objects[i], values[i], false);
      if (one) named(values[0]);
      return;
    }
    const int o = write.objects[0];
    Node* value = nullptr;
    bool in_order = false;
    if (write.kind == Write::Kind::zero) {
      views::Meta meta = object(o).meta;
      if (meta && views::is_contiguous(meta) != true) meta->stride.clear();
      value = call(ops::zeros_like, {current(o)}, {}, meta);
      in_order = true;
    } else if (write.kind == Write::Kind::copy) {
      value = pure_copy(node, write);
    } else {
      value = pure_twin(node, write);
      in_order = has(write.twin->traits, Trait::pointwise) || write.twin->base_name() == "fill";
    }
    named(value);
    assign(o, value, in_order);
  }

  void edit(Node& node, FunctionaliseReport& report) {
    at_ = &node;
    const InsertPoint point = graph_.inserting_before(&node);
    if (node.opcode() == Opcode::output) return edit_output(node, report);
    Record& mine = record(node);
    std::vector<std::pair<Node*, Node*>> replaced;
    for (const auto& [input, o] : mine.reads) {
      if (input->index() < changed_.size() && changed_[input->index()]) changed_[node.index()] = true;
      if (!is_pure(o)) continue;
      if (Node* now = current(o); now != input) replaced.emplace_back(input, now);
    }
    replace_inputs(node, replaced);
    if (!replaced.empty()) changed_[node.index()] = true;
    const int made = mine.defines >= 0 ? mine.defines : mine.stands_for;
    if (made < 0) return;
    const bool pure = is_pure(made);
    if (!mine.write.objects.empty() && is_pure(mine.write.objects[0])) {
      gone_.push_back(&node);
      ++report.changed;
      if (mine.write.kind == Write::Kind::none) remap(object(made), replaced);
      else edit_write(node, mine.write);
      return;
    }
    if (mine.stands_for >= 0) {
      if (pure) gone_.push_back(&node);
      return;
    }
    Object& o = object(made);
    if (o.maker != &node && is_pure(made)) {  // another name of what is there: an attribute, a result among several
      if (is_item(node) && record(*node.args()[0].node()).write.objects.size() > 1) gone_.push_back(&node);
      return;
    }
    if (pure) {
      remap(o, replaced);
      o.value = &node;
      o.version = set_of(made).version;
      if (changed_[node.index()] && std::any_of(o.steps.begin(), o.steps.end(), views::minds_strides)) o.version = -1;
    }
    // Where values before it are others their strides may be too, and it is a view of them no more.
    const Set& set = set_of(made);
    if (changed_[node.index()] && o.parent >= 0 && (set.reason.empty() || set.writes.empty())) free_of_strides(node);
  }
  using Replaced = std::vector<std::pair<Node*, Node*>>;
  /// All at once: what one becomes may be what another was.
  static void replace_nodes(std::span<Argument> args, std::span<KeywordArgument> kwargs, const Replaced& replaced) {
    const auto now = [&](Node* n) -> Argument {
      for (const auto& [before, after] : replaced)
        if (n == before) return after;
      return n;
    };
    for (Argument& a : args) a = map_nodes(a, now);
    for (KeywordArgument& k : kwargs) k.value = map_nodes(k.value, now);
  }
  static void replace_inputs(Node& node, const Replaced& replaced) {
    if (replaced.empty()) return;
    std::vector<Argument> args(node.args().begin(), node.args().end());
    std::vector<KeywordArgument> kwargs(node.kwargs().begin(), node.kwargs().end());
    replace_nodes(args, kwargs, replaced);
    node.set_args_kwargs(args, kwargs);
  }
  /// The arguments of its steps are those of its node.
  static void remap(Object& o, const Replaced& replaced) {
    if (replaced.empty()) return;
    for (views::Step& step : o.steps) replace_nodes(step.args, step.kwargs, replaced);
  }
  static void free_of_strides(Node& node) {
    const Operator* op = operator_of(node);
    if (!op || op->name_space() != "aten" || node.args().size() != 2 || !node.kwargs().empty()) return;
    const std::vector<Argument> args(node.args().begin(), node.args().end());
    if (op->name == "aten::view") node.set_op(CallFunction{&ops::reshape.info()});
    else if (op->name == "aten::view_as") node.set_op(CallFunction{&ops::reshape_as.info()});
  }

  void edit_output(Node& node, FunctionaliseReport& report) {
    std::vector<int> written;
    for (std::size_t s = 0; s < sets_.size(); ++s)
      if (const Set& set = sets_[s]; is_pure(set) && set.shared && set.version > 0) written.push_back(set.root);
    const auto is_written = [&](int o) { return is_pure(o) && set_of(o).shared && set_of(o).version > 0; };
    for (const auto& [input, o] : record(node).reads)
      if (is_pure(o) && !is_written(o)) node.replace_input_with(input, current(o));
    // What is read after the first copy must not lie in memory that is copied to.
    const auto overwritten = [&](const Node& value) {
      const Memory memory = memory_of(value);
      return memory.anywhere || std::any_of(memory.makers.begin(), memory.makers.end(), [&](const Node* maker) {
               return std::any_of(written.begin(), written.end(), [&](int o) {
                 return maker == object(o).maker ||
                        (maker->opcode() == Opcode::get_attr && maker->op() == object(o).maker->op());
               });
             });
    };
    if (!written.empty()) {
      std::vector<Node*> returned;
      for (Node* input : node.all_input_nodes().snapshot()) {
        const auto read = std::find_if(record(node).reads.begin(), record(node).reads.end(),
                                       [&](const auto& r) { return r.first == input; });
        if (read == record(node).reads.end() || !is_written(read->second)) returned.push_back(input);
      }
      for (Node* input : returned)
        if (overwritten(*input)) node.replace_input_with(input, call(ops::clone, {input}, {}, meta_of(*input)));
      std::vector<Node*> values;
      for (int o : written) {
        Node* value = current(o);
        values.push_back(overwritten(*value) ? call(ops::clone, {value}, {}, meta_of(*value)) : value);
      }
      for (std::size_t i = 0; i < written.size(); ++i) {
        Object& o = object(written[i]);
        Set& set = set_of(written[i]);
        Node* target = set.under_detach ? call(ops::detach, {o.maker}, {}, meta_of(*o.maker)) : o.maker;
        call(ops::copy_, {target, values[i]}, {}, meta_of(*o.maker));
        ++report.copied_back;
        ++set.version;
        o.value = o.maker;
        o.version = set.version;
      }
    }
    copied_back_ = true;
    Replaced replaced;
    for (const auto& [input, o] : record(node).reads)
      if (is_written(o))
        if (Node* now = current(o); now != input) replaced.emplace_back(input, now);
    replace_inputs(node, replaced);
  }

  /// Takes away what was replaced, and what only that used.
  void sweep() {
    for (auto node = gone_.rbegin(); node != gone_.rend(); ++node)
      if ((*node)->num_users() == 0) graph_.erase_node(*node);
    for (Node* node : graph_.nodes().reversed()) {
      if (node->num_users() || node->opcode() == Opcode::placeholder || node->opcode() == Opcode::output) continue;
      const bool fresh = node->index() >= object_of_.size();
      if (!fresh && !is_pure(object_of_[node->index()])) continue;
      const Operator* op = operator_of(*node);
      if ((op && has(op->traits, Trait::random)) || has_effect(*node)) continue;
      if (!op && node->opcode() != Opcode::get_attr) continue;
      graph_.erase_node(node);
    }
  }

  std::vector<bool> changed_;  // by index: computed from other values than before
  std::vector<Node*> gone_;
  Node* at_ = nullptr;
  bool copied_back_ = false;  // from here on views are of inputs and attributes themselves
};

}  // namespace detail

FXX_INLINE FunctionaliseReport functionalise(Graph& graph, const Owner* owner) {
  graph.lint();
  if (!graph.may_have_effects()) return {};
  const std::size_t idle = detail::erase_idle_calls(graph);
  FunctionaliseReport report = detail::Functionaliser(graph, owner).run();
  report.changed += idle;
  return report;
}

}  // namespace fxx::inline FXX_ABI
