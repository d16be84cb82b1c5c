// The call that is taken apart, as the functions of this folder see it: its arguments, and the writing of others.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Results of the call in terms of new nodes; nothing where it stays as it is.
using Parts = std::vector<Argument>;

class Composite {
 public:
  Composite(Graph& graph, const Node& node, const Operator& op) : graph_(graph), node_(node), op_(op) {}

  const Node& node() const { return node_; }
  const Operator& op() const { return op_; }
  /// The argument for a parameter, or its default; None for a parameter that the operator has not.
  Argument operator[](std::string_view name) const {
    const int i = op_.index_of(name);
    return i < 0 ? Argument() : argument_or_default(node_, op_, i);
  }
  Argument operator[](int i) const { return argument_or_default(node_, op_, i); }
  bool flag(std::string_view name) const {
    const Argument given = (*this)[name];
    return given.kind() == Argument::Kind::boolean && given.boolean();
  }
  std::optional<std::int64_t> integer(std::string_view name) const {
    const Argument given = (*this)[name];
    if (given.kind() != Argument::Kind::integer) return {};
    return given.integer();
  }
  /// A list of integers, or one; nothing for all else.
  std::optional<std::vector<std::int64_t>> integers(std::string_view name) const {
    const Argument given = (*this)[name];
    if (given.kind() == Argument::Kind::integer) return std::vector{given.integer()};
    if (!given.is_sequence()) return {};
    std::vector<std::int64_t> result;
    for (const Argument& item : given.items()) {
      if (item.kind() != Argument::Kind::integer) return {};
      result.push_back(item.integer());
    }
    return result;
  }
  /// The tensors of a list; nothing where some are none, or not known.
  std::optional<std::vector<Argument>> tensors(std::string_view name) const {
    const Argument given = (*this)[name];
    if (!given.is_sequence()) return {};
    std::vector<Argument> result;
    for (const Argument& item : given.items()) {
      if (!is_tensor(item)) return {};
      result.push_back(item);
    }
    return result;
  }

  /// Of a tensor whose sizes are known.
  static bool is_tensor(const Argument& value) {
    return value.is_node() && value.node()->tensor_meta() && !value.node()->tensor_meta()->is_dynamic();
  }
  static const std::vector<std::int64_t>& sizes(const Argument& value) { return value.node()->tensor_meta()->shape; }
  static std::int64_t rank(const Argument& value) { return value.node()->tensor_meta()->dim(); }
  static std::int64_t numel(const Argument& value) { return value.node()->tensor_meta()->numel(); }
  static Dtype dtype(const Argument& value) { return value.node()->tensor_meta()->dtype; }
  static bool is_number(const Argument& value, double number) { return value.is_number() && value.number() == number; }
  /// Counted from the front; -1 where there is no such dimension.
  static std::int64_t place_of(std::int64_t dim, std::int64_t rank) {
    if (dim < 0) dim += rank;
    return dim < 0 || dim >= rank ? -1 : dim;
  }

  /// A call of another operator.
  Argument operator()(const Operator& op, std::vector<Argument> arguments, KeywordArguments named = {}) const {
    return graph_.call_function(op, Arguments(arguments), named);
  }
  static Argument list(const std::vector<std::int64_t>& numbers) {
    std::vector<Argument> items(numbers.begin(), numbers.end());
    return Argument::list(std::move(items));
  }

  // What many are made of.
  Argument add(Argument a, Argument b) const { return (*this)(ops::add_Tensor, {std::move(a), std::move(b)}); }
  Argument sub(Argument a, Argument b) const { return (*this)(ops::sub_Tensor, {std::move(a), std::move(b)}); }
  Argument mul(Argument a, Argument b) const { return (*this)(ops::mul_Tensor, {std::move(a), std::move(b)}); }
  Argument div(Argument a, Argument b) const { return (*this)(ops::div_Tensor, {std::move(a), std::move(b)}); }
  Argument times(Argument a, Argument number) const {
    return is_number(number, 1) ? a : (*this)(ops::mul_Scalar, {std::move(a), std::move(number)});
  }
  Argument unsqueeze(Argument a, std::int64_t dim) const { return (*this)(ops::unsqueeze, {std::move(a), dim}); }
  Argument sum(Argument a, std::int64_t dim, bool keep = false) const {
    return (*this)(ops::sum_dim_IntList, {std::move(a), list({dim}), keep});
  }
  /// In the dtype of `like`, as products of matrices have it; `sum` makes all integers int64.
  Argument sum_as(const Argument& like, Argument a, const std::vector<std::int64_t>& dims) const {
    std::vector<Argument> arguments = {std::move(a), list(dims), false};
    const Dtype kept = is_tensor(like) ? dtype(like) : Dtype::int64;
    if (kept != Dtype::int64 && kept != Dtype::boolean && !is_floating_point(kept))
      arguments.emplace_back(kept);
    return (*this)(ops::sum_dim_IntList, std::move(arguments));
  }
  Argument reshape(Argument a, const std::vector<std::int64_t>& to) const {
    return (*this)(ops::reshape, {std::move(a), list(to)});
  }
  Argument permute(Argument a, const std::vector<std::int64_t>& order) const {
    for (std::size_t i = 0; i < order.size(); ++i)
      if (order[i] != static_cast<std::int64_t>(i)) return (*this)(ops::permute, {std::move(a), list(order)});
    return a;
  }
  Argument narrow(Argument a, std::int64_t dim, std::int64_t start, std::int64_t length) const {
    return (*this)(ops::slice_Tensor, {std::move(a), dim, start, start + length});
  }
  /// beta self + alpha product; self does not count where beta is 0.
  Argument added(Argument product, std::string_view self = "self") const {
    const Argument result = times(std::move(product), (*this)["alpha"]);
    if (is_number((*this)["beta"], 0)) return result;
    return add(times((*this)[self], (*this)["beta"]), result);
  }

 private:
  Graph& graph_;
  const Node& node_;
  const Operator& op_;
};

/// Arguments of a call as a function of this folder knows them.
using Decomposition = Parts (*)(const Composite&);
struct NamedDecomposition {
  std::string_view name;
  Decomposition of;
};

}  // namespace fxx::inline FXX_ABI::detail
