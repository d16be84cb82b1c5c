// Bodies of rewrite/spelling.hpp.
#pragma once

#include <string>
#include <string_view>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/spelling.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {
/// The number takes the place of a tensor: the overload for numbers, when it has the same parameters.
FXX_INLINE std::uint64_t id_of_overload_for_numbers(const Node& node, const Operator& op) {
  const Operator* other = resolve_overload(op.name.substr(0, op.name.find('.')), node.args(), node.kwargs());
  if (!other || other->parameters.size() != op.parameters.size()) return op.means;
  for (std::size_t i = 0; i < op.parameters.size(); ++i)
    if (other->parameters[i].name != op.parameters[i].name) return op.means;
  return other->means;
}
FXX_INLINE bool is_constant_within(const Node& node, int& steps) {
  if (node.opcode() == Opcode::get_attr) return true;
  const Operator* op = node.operation();
  if (steps-- <= 0 || !op || has_effect(node) || has(op->traits, Trait::random)) return false;
  for (const Node* input : node.all_input_nodes())
    if (!is_constant_within(*input, steps)) return false;
  return true;
}
/// Is `value` computed from `input` by operators of which none gives a dtype of the same kind and fewer bits than it
/// takes? Looks through a bounded number of them.
FXX_INLINE bool is_as_wide(const Node& value, const Node& input, int& steps) {
  if (&value == &input) return true;
  const Operator* op = operator_of(value);
  if (steps-- <= 0 || !op || !has(op->traits, Trait::pointwise)) return false;
  for (const Node* from : value.all_input_nodes()) {
    if (is_as_wide(*from, input, steps)) return true;
    if (op->mutates) break;  // what is written to keeps its dtype, whatever the others have
  }
  return false;
}
/// Would `twin` give a value of the dtype that the node writes to? `half.add_(single)` stays half, and
/// `half.add(single)` does not; `eq_` gives numbers. A dtype of another kind than `add` would give, `add_` refuses when
/// it runs, so numbers and the written tensor itself change nothing. Of other tensors either the dtypes are known, or
/// what is written to was computed from them.
FXX_INLINE bool keeps_dtype(const Node& node, const Operator& twin) {
  const Node& written = *argument_of(node, *operator_of(node), 0)->node();
  const TensorMeta* self = written.tensor_meta();
  if (gives_booleans(twin)) return self && self->dtype == Dtype::boolean;
  const auto kind = [](Dtype d) {
    return d == Dtype::boolean ? 0 : is_complex(d) ? 3 : is_floating_point(d) ? 2 : 1;
  };
  if (twin.base_name() == "cumsum" || twin.base_name() == "cumprod")  // of integers they give int64
    return self && (kind(self->dtype) > 1 || self->dtype == Dtype::int64);
  // Others that are listed, such as addmm, take tensors of one dtype.
  const bool promotes = has(twin.traits, Trait::pointwise) || !has(twin.traits, Trait::function | Trait::method);
  for (const Node* input : node.all_input_nodes()) {
    const TensorMeta* other = input->tensor_meta();
    if (!self || !other) {
      const Operator* maker = operator_of(*input);
      const bool number = maker && maker->returns.size() == 1 && maker->returns[0].type.base != ValueType::tensor &&
                          maker->returns[0].type.base != ValueType::other;
      int steps = 16;
      if (promotes && !number && !is_as_wide(written, *input, steps)) return false;
      continue;
    }
    if (other->dtype == self->dtype) continue;
    const int above = kind(other->dtype) - kind(self->dtype);
    if (other->dim() == 0 && self->dim() > 0 && above <= 0) continue;  // counts only where it is of a higher kind
    const int size = element_size(self->dtype), given = element_size(other->dtype);
    const bool fits = above == 0 ? given < size : above < 0 && (!is_complex(self->dtype) || 2 * given <= size);
    if (!fits) return false;
  }
  return true;
}
/// The operator that does the same and writes to nothing; null where there is none. It may give another dtype.
FXX_INLINE const Operator* functional_twin(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || !op->mutates || op->parameters.empty() || !op->parameters[0].written) return nullptr;
  if (!op->base_name().ends_with('_')) return nullptr;
  std::string name(op->name_space());
  name.append("::").append(op->base_name().substr(0, op->base_name().size() - 1));
  const Argument* second = op->parameters.size() > 1 ? argument_of(node, *op, 1) : nullptr;
  const bool number = second && second->is_number() && op->second_is_tensor;
  const auto takes_the_same = [&](const Operator* twin, bool types) {
    if (!twin || twin->mutates || twin->parameters.size() != op->parameters.size()) return false;
    for (std::size_t i = 0; i < op->parameters.size(); ++i) {
      const Parameter &mine = op->parameters[i], &others = twin->parameters[i];
      if (others.name != mine.name || (types && others.type.base != mine.type.base)) return false;
    }
    return true;
  };
  if (!number) {
    std::string full = name;
    if (!op->overload_name().empty()) full.append(".").append(op->overload_name());
    if (const Operator* twin = find_operator(full); takes_the_same(twin, true)) return twin;
  }
  // Overloads may be called otherwise: what is pow_.Scalar in place is pow.Tensor_Scalar.
  const Operator* twin = resolve_overload(name, node.args(), node.kwargs());
  return takes_the_same(twin, !number) ? twin : nullptr;
}
}  // namespace detail

FXX_INLINE const ModuleInfo* module_info(const Node& node) {
  const Owner* owner = node.graph().owning_module();
  const CallModule* call = std::get_if<CallModule>(&node.op());
  return owner && call ? owner->find_module(call->target) : nullptr;
}

FXX_INLINE std::string_view module_option(const Node& node, std::string_view option) {
  const ModuleInfo* info = module_info(node);
  if (!info) return {};
  if (info->construct_unknown && info->construct.empty()) return "?";  // it may be set to anything
  const std::string_view all = info->construct;
  // Options follow each other on the outermost level; what stands in brackets is their values.
  int depth = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    depth += all[i] == '(' || all[i] == '{';
    depth -= all[i] == ')' || all[i] == '}';
    if (depth || all[i] != '.' || all.substr(i + 1, option.size()) != option) continue;
    const std::size_t from = i + 1 + option.size();
    if (from >= all.size() || all[from] != '(') continue;
    std::size_t to = from;
    for (int open = 0; to < all.size(); ++to) {
      open += (all[to] == '(') - (all[to] == ')');
      if (open == 0) return all.substr(from + 1, to - from - 1);
    }
  }
  return {};
}

FXX_INLINE std::optional<bool> trains(const Node& node) {
  if (const ModuleInfo* info = module_info(node)) return info->training;
  const Operator* op = operator_of(node);
  if (!op) return {};
  for (const std::string_view name : {"train", "training"})
    if (const int at = op->index_of(name); at >= 0) {
      const Argument flag = argument_or_default(node, *op, at);
      if (flag.kind() == Argument::Kind::boolean) return flag.boolean();
    }
  return {};
}

FXX_INLINE std::uint64_t operator_id(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op) {
    const ModuleInfo* info = module_info(node);
    return info ? hash_of(info->type) : 0;
  }
  if (op->second_is_tensor) [[unlikely]] {
    const Argument* second = argument_of(node, *op, 1);
    if (second && second->is_number()) return detail::id_of_overload_for_numbers(node, *op);
  }
  return op->means;
}

FXX_INLINE std::uint64_t functional_id(const Node& node) {
  if (!mutates_own_temporary(node)) return 0;
  const Operator* twin = detail::functional_twin(node);
  return twin && detail::keeps_dtype(node, *twin) ? twin->means : 0;
}
FXX_INLINE std::string_view why_no_twin(const Node& node, std::uint64_t id) {
  const Operator* twin = detail::functional_twin(node);
  if (!twin || twin->means != id) return {};
  if (!mutates_own_temporary(node)) return "what it writes to others see, too";
  return detail::keeps_dtype(node, *twin) ? std::string_view() : "the two give the same dtype only perhaps";
}

FXX_INLINE bool is_size_value(const Argument& value) {
  if (value.kind() == Argument::Kind::integer) return true;
  if (!value.is_node()) return false;
  const Operator* op = operator_of(*value.node());
  if (!op || op->returns.size() != 1) return false;
  const Type& type = op->returns[0].type;
  return (type.base == ValueType::integer && !type.list) ||
         (op->name_space() == "operator" && op->base_name() != "getitem" && !value.node()->tensor_meta());
}

FXX_INLINE bool is_constant_value(const Node& node) {
  int steps = 256;
  return detail::is_constant_within(node, steps);
}

}  // namespace fxx::inline FXX_ABI::rewrite
