// Bodies of rules/spellings.hpp.
#pragma once

#include "fxx/rules/spellings.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace spelling_rules {

FXX_INLINE Argument reduced_over_one(const Match& m, const Operator& op) {
  return m.call(op, {m[x], Argument::list({m[d]}), m[keep]});
}

FXX_INLINE bool puts_back(const Match& m) {
  const auto over = integers_of(m[dims]);
  const std::int64_t rank = rank_of(m[x]);
  return rank > 0 && over && over->size() == 1 && m.node(tensor<"reduced">)->num_users() == 1 &&
         dimension_of((*over)[0], rank) >= 0 && dimension_of((*over)[0], rank) == dimension_of(m[d], rank);
}

FXX_INLINE Argument keep_dimension(const Match& m) {
  const Node& call = *m.node(tensor<"reduced">);
  const Operator& op = *operator_of(call);
  const auto at = static_cast<std::size_t>(op.index_of("keepdim"));
  std::vector<Argument> args(call.args().begin(), call.args().end());
  std::vector<KeywordArgument> kwargs;
  for (const KeywordArgument& k : call.kwargs())
    if (k.key != "keepdim") kwargs.push_back(k);
  if (at < args.size()) args[at] = true;
  else kwargs.push_back({"keepdim", true});
  return m.call(op, args, kwargs);
}

FXX_INLINE bool is_real(const Match& m) { return is_single_or_double(m[x]); }

}  // namespace spelling_rules

}  // namespace fxx::inline FXX_ABI::rules
