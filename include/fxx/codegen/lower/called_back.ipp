// What no kernel covers: one operator, or a region, over memory like any other and values that the program keeps.
#pragma once

#include <algorithm>

#include "fxx/codegen/lower/memory.ipp"
#include "fxx/ops/effects.hpp"
#include "fxx/passes/regions.hpp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE std::vector<const Node*> Lowering::with_items(const Node& node) const {
  std::vector<const Node*> nodes = {&node};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->tensor_meta()) continue;
    for (const Node* user : nodes[i]->users()) {
      if (!item_taken(*user)) fail(node, "'" + std::string(nodes[i]->name()) + "' is not a tensor, and used as a whole");
      nodes.push_back(user);
    }
  }
  return nodes;
}

FXX_INLINE void Lowering::interpret(const Region& region) {
  CallBack kernel;
  kernel.nodes.assign(region.nodes.begin(), region.nodes.end());
  kernel.reasons = region.reasons;
  const std::size_t shown = 3;
  for (std::size_t i = 0; i < std::min(kernel.nodes.size(), shown); ++i)
    kernel.why += (i ? ", " : "") + std::string(kernel.nodes[i]->name());
  if (kernel.nodes.size() > shown) kernel.why += " and " + std::to_string(kernel.nodes.size() - shown) + " more";
  call_back(std::move(kernel));
}

FXX_INLINE void Lowering::renew_attributes(CallBack& kernel) {
  std::vector<int> numbers;
  for (const CallBack::Value& input : kernel.inputs) {
    if (input.view.buffer < 0 || buffer_of(input.view.buffer).kind != Buffer::Kind::constant) continue;
    const Buffer constant = buffer_of(input.view.buffer);
    const int number = constant.number;
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) continue;
    numbers.push_back(number);
    const auto is_of_it = [&](const Value& value) {
      if (value.kind != Value::Kind::view || value.view.buffer < 0) return false;
      const auto known = renewed_.find(value.view.buffer);
      const Buffer& buffer = buffer_of(known == renewed_.end() ? value.view.buffer : known->second);
      return buffer.kind == Buffer::Kind::constant && buffer.number == number;
    };
    bool later = false, read = false;
    for (const Node* other : graph_.nodes()) {
      if (std::find(kernel.nodes.begin(), kernel.nodes.end(), other) != kernel.nodes.end()) {
        later = true;
      } else if (later) {
        const auto* attribute = std::get_if<GetAttr>(&other->op());
        read = read || (attribute && attribute->target == plan_.attributes[static_cast<std::size_t>(number)]);
        for (const Node* from : other->all_input_nodes()) {
          const Value& value = value_of(*from);
          read = read || is_of_it(value) || std::any_of(value.items.begin(), value.items.end(), is_of_it);
        }
      }
    }
    if (!read) continue;
    // Both lie dense, so views of one are views of the other.
    const Sizes all = {constant.elements};
    const int copy = add_buffer(Buffer::Kind::arena, *kernel.nodes.front(), constant.dtype, constant.elements);
    for (Value& value : values_) {
      if (is_of_it(value)) value.view.buffer = copy;
      for (Value& item : value.items)
        if (is_of_it(item)) item.view.buffer = copy;
    }
    renewed_[copy] = input.view.buffer;
    kernel.renewed.emplace_back(View{input.view.buffer, 0, all, {1}}, View{copy, 0, all, {1}});
  }
}

FXX_INLINE std::vector<const Node*> Lowering::add_views(CallBack& kernel) const {
  std::vector<const Node*> whole, views;
  const auto is_inside = [&](const Node* node) {
    return std::find(kernel.nodes.begin(), kernel.nodes.end(), node) != kernel.nodes.end();
  };
  for (const Node* node : kernel.nodes) {
    if (!looks_around(*node)) continue;
    const Argument* self = argument_of(*node, *operator_of(*node), 0);
    const Node* value = self && self->is_node() ? self->node() : nullptr;
    while (value) {
      const auto inputs = value->all_input_nodes();
      const auto of = std::find_if(inputs.begin(), inputs.end(),
                                   [&](const Node* input) { return passes_on_memory(*value, *input); });
      if (of == inputs.end()) {
        if (!is_inside(value)) whole.push_back(value);
        break;
      }
      if (!is_inside(value) && std::find(views.begin(), views.end(), value) == views.end()) {
        if (may_write_memory(*value))
          fail(*node, "reads the memory around '" + std::string(value->name()) + "', which is written to");
        views.push_back(value);
      }
      value = *of;
    }
  }
  if (views.empty()) return whole;
  std::sort(views.begin(), views.end(), [](const Node* a, const Node* b) { return a->is_before(*b); });
  std::vector<std::string> reasons(views.size(), "a view, and memory around it is read");
  if (!kernel.is_region()) kernel.reasons.assign(kernel.nodes.size(), kernel.why);
  reasons.insert(reasons.end(), kernel.reasons.begin(), kernel.reasons.end());
  kernel.reasons = std::move(reasons);
  kernel.nodes.insert(kernel.nodes.begin(), views.begin(), views.end());
  return whole;
}

FXX_INLINE std::optional<CallBack::Value> Lowering::given(const Node& input, bool in_memory, bool with_all_around) {
  if (const auto kept = kept_.find(&input); kept != kept_.end()) return CallBack::Value{&input, {}, kept->second};
  const std::string name(input.name());
  const Value::Kind kind = value_of(input).kind;
  if (kind == Value::Kind::tuple) fail(input, "'" + name + "' is not a tensor, and needed to call back");
  if (kind == Value::Kind::none) {
    if (input.opcode() == Opcode::get_attr) return {};
    fail(input, "'" + name + "' is not a tensor, and needed to call back");
  }
  View view = view_of(input);
  if (in_memory) {
    const Sizes strides = strides_in_memory(input);
    if (with_all_around && meta_of(input).stride != strides)
      fail(input, "the memory around '" + name + "' is read, and it is a part of another tensor");
    if (view.strides != strides) {
      const int buffer = add_buffer(Buffer::Kind::arena, input, value_of(input).dtype, view.numel());
      const View copy{buffer, 0, view.sizes, strides};
      copy_to(input, view, copy);
      view = copy;
    }
  }
  // It gets the attribute itself.
  if (const auto known = renewed_.find(view.buffer); known != renewed_.end()) view.buffer = known->second;
  return CallBack::Value{&input, std::move(view)};
}

/// Random numbers that take the layout of an operand are drawn in the order of memory.
FXX_INLINE bool sees_memory(const Node& node) {
  return looks_at_memory(node) || (draws_numbers(node) && !has_effect(node));
}

FXX_INLINE void Lowering::call_back(CallBack kernel) {
  const std::vector<const Node*> whole = add_views(kernel);
  const auto is_inside = [inside = std::unordered_set<const Node*>(kernel.nodes.begin(), kernel.nodes.end())](
                             const Node* node) { return inside.contains(node); };
  // What writes to memory must find all readers before it served.
  const bool writes =
      std::any_of(kernel.nodes.begin(), kernel.nodes.end(), [](const Node* n) { return may_write_memory(*n); });
  if (writes)
    for (std::size_t i = 0; i < pending_.size(); ++i)
      if (value_of(*pending_[i]).kind == Value::Kind::pending) view_of(*pending_[i]);
  std::unordered_set<const Node*> known;
  for (const Node* node : kernel.nodes)
    for (const Node* input : node->all_input_nodes())
      if (!is_inside(input) && known.insert(input).second)
        if (const bool all = std::find(whole.begin(), whole.end(), input) != whole.end();
            std::optional<CallBack::Value> value = given(*input, all || sees_memory(*node), all))
          kernel.inputs.push_back(std::move(*value));
  // What writes in place gives what it has written to.
  for (const Node* node : kernel.nodes) {
    const Node* self = written_operand(*node);
    if (self && !looks_at_memory(*node)) value_of(*node) = value_of(*self);
  }
  if (writes) {
    renew_attributes(kernel);
    images_.clear();  // copies of what it may write to
    reduced_.clear();
  }
  for (const Node* node : kernel.nodes) {
    const auto users = node->users();
    if (value_of(*node).kind != Value::Kind::none || std::all_of(users.begin(), users.end(), is_inside)) continue;
    CallBack::Value output{node};
    if (node->tensor_meta()) {
      Value value;
      value.kind = Value::Kind::view;
      value.dtype = meta_of(*node).dtype;
      value.view = output.view = place(*node, {.dtype = value.dtype});
      value.steps = steps() + 1;
      value_of(*node) = std::move(value);
    } else {
      output.kept = kept_[node] = plan_.kept++;
    }
    kernel.outputs.push_back(std::move(output));
  }
  KernelStep step;
  if (kernel.is_region()) step.nodes = kernel.nodes;
  else step.nodes = {kernel.nodes.front()};
  items_.insert(kernel.nodes.begin() + 1, kernel.nodes.end());
  step.kernel = std::move(kernel);
  add_step(std::move(step));
}

FXX_INLINE void Lowering::note_values() {
  // Memory may be given to a node before the steps that write to it are made.
  std::map<std::pair<const Node*, int>, int> written;  // after so many steps
  for (int i = 0; i < steps(); ++i) {
    const KernelStep& step = plan_.steps[static_cast<std::size_t>(i)];
    for (const Store& store : step.stores)
      for (const Node* node : step.nodes) written[{node, store.to.buffer}] = i + 1;
  }
  for (const Node* node : graph_.nodes()) {
    const Value& value = value_of(*node);
    if (value.kind != Value::Kind::view || value.steps < 0 || value.view.buffer < 0) continue;
    const Buffer& buffer = buffer_of(value.view.buffer);
    if (buffer.kind != Buffer::Kind::arena && buffer.kind != Buffer::Kind::output) continue;
    int there = std::max(value.steps, buffer.first + 1);
    if (const auto last = written.find({node, value.view.buffer}); last != written.end())
      there = std::max(there, last->second);
    plan_.values.push_back({node, value.view, there});
  }
}

FXX_INLINE void Lowering::note_last_readers() {
  std::vector<bool> read(static_cast<std::size_t>(plan_.kept));
  for (const PlanOutput& output : plan_.outputs)
    if (output.kept >= 0) read[static_cast<std::size_t>(output.kept)] = true;
  for (auto step = plan_.steps.rbegin(); step != plan_.steps.rend(); ++step)
    if (auto* back = std::get_if<CallBack>(&step->kernel))
      for (CallBack::Value& input : back->inputs)
        if (input.kept >= 0) {
          input.last = !read[static_cast<std::size_t>(input.kept)];
          read[static_cast<std::size_t>(input.kept)] = true;
        }
}

}  // namespace fxx::inline FXX_ABI::plans
