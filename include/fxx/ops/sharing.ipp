// Bodies of ops/sharing.hpp.
#pragma once

#include <string_view>
#include <unordered_set>

#include "fxx/ops/registry.hpp"
#include "fxx/ops/rotary_embedding.hpp"
#include "fxx/ops/sharing.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The value, and the users of what is found that follow it.
template <class N, class Follows>
std::vector<N*> found_behind(N& value, std::size_t most, const Follows& follows) {
  std::vector<N*> found = {&value};
  std::unordered_set<const Node*> seen = {&value};
  for (std::size_t i = 0; i < found.size() && found.size() < most; ++i)
    for (N* user : found[i]->users()) {
      if (found.size() >= most) break;
      if (follows(*user, *found[i]) && seen.insert(user).second) found.push_back(user);
    }
  return found;
}

}  // namespace detail

FXX_INLINE std::vector<const Node*> sharing_memory(const Node& value, std::size_t most) {
  return detail::found_behind(value, most, passes_on_memory);
}

FXX_INLINE bool reaches_output(const Node& value) {
  for (const Node* node : sharing_memory(value))
    for (const Node* user : node->users())
      if (user->opcode() == Opcode::output) return true;
  return false;
}

FXX_INLINE bool keeps_layout(const Node& user, const Node& value) {
  if (passes_on_memory(user, value)) return true;
  if (is_rotary_embedding(user)) return true;
  const Operator* op = user.opcode() == Opcode::output ? nullptr : operator_of(user);
  if (!op) return false;
  const std::string_view name = op->base_name();
  // A copy into a format that the call names lies as the format says.
  if (const int at = op->index_of("memory_format"); at >= 0 && name != "contiguous") {
    const Argument format = argument_or_default(user, *op, at);
    if (!format.is_none() && format != Argument(MemoryFormat::preserve_format)) return false;
  }
  if (has(op->traits, Trait::pointwise)) return true;
  if (name.ends_with("_like")) return true;
  for (const std::string_view copy : {"clone", "to", "_to_copy", "type_as", "dropout", "alpha_dropout",
                                      "feature_dropout", "flip", "sort", "argsort"})
    if (name == copy) return true;
  return false;
}

FXX_INLINE bool gives_order(const Operator& op) {
  for (const std::string_view name : {"matmul", "mm", "bmm", "linear", "addmm", "baddbmm", "mv", "addmv", "contiguous"})
    if (op.base_name() == name) return true;
  return false;
}

FXX_INLINE bool keeps_order(const Operator& op) {
  if (has(op.traits, Trait::pointwise) || gives_order(op)) return true;
  for (const std::string_view name :
       {"sum",        "mean",           "var",         "std",         "amax",
        "amin",       "prod",           "all",         "any",         "argmax",
        "argmin",     "logsumexp",      "norm",        "linalg_vector_norm",
        "softmax",    "_softmax",       "log_softmax", "_log_softmax", "layer_norm",
        "rms_norm",   "group_norm",     "clone",       "reshape",     "view",
        "_unsafe_view", "flatten",      "unflatten",   "squeeze",     "unsqueeze",
        "embedding",  "cat",            "stack"})
    if (op.base_name() == name) return true;
  return false;
}

FXX_INLINE std::vector<Node*> lying_alike(Node& value, std::size_t most) {
  return detail::found_behind(value, most, keeps_layout);
}

}  // namespace fxx::inline FXX_ABI
