// The writer of forward functions: what it knows, and what its parts, in the files beside this one, write.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/inputs.hpp"
#include "fxx/codegen/members.hpp"
#include "fxx/codegen/readable.hpp"
#include "fxx/codegen/readable/overloads.ipp"
#include "fxx/codegen/types.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::detail {

[[noreturn]] FXX_INLINE void no_cpp(const Node& node, const std::string& what) {
  throw CodegenError(ErrorId::no_cpp_spelling, "forward_code: " + what, {format_node(node), node.source()});
}

/// A piece of an expression and how tightly it binds.
struct Expression {
  enum Strength { comparison = 1, bit_or, bit_xor, bit_and, sum, product, unary, primary };
  std::string text;
  int strength = primary;
};
class ForwardWriter {
 public:
  ForwardWriter(const Graph& graph, const Owner& owner, const Members& members, const CodeOptions& options)
      : graph_(graph), owner_(owner), members_(members), options_(options), types_(graph, owner), inputs_(graph) {
    for (const Node* node : graph.nodes()) names_.insert(node->name());
  }

  /// "torch::Tensor x, double p = 0.5", without defaults in a definition.
  std::string parameters(bool with_defaults) const;

  std::string result_type() const;

  std::string body(const std::string& indent);

 private:
  /// "double p = 0.5".
  std::string parameter(const Node& node, bool with_default) const;
  /// The name of an input that is a container: one that no node has.
  std::string input_name(const Signature::Input& input) const {
    std::string name = snake_case(input.name);
    while (is_reserved_name(name) || names_.contains(name)) name += '_';
    return name;
  }

  // --- statements ----------------------------------------------------------------------------------------------------

  void plan_releases();

  /// Does an operator write to the value? It takes a variable then, no expression.
  static bool is_written(const Node& node);
  bool nests(const Node& node) const;

  std::string statement(const Node& node);

  /// What `nested`, which is written into an expression, reads is read at `user`, or later.
  void read_at(const Node& user, const Node& nested);
  /// Gives up what the statement reads last, of what the node in it reads.
  void release(const Node& node, const Node& statement, std::string& text);

  // --- expressions ---------------------------------------------------------------------------------------------------

  std::string text_of(const Node& node, int least = 0) const {
    const auto nested = nested_.find(&node);
    if (nested == nested_.end()) return std::string(node.name());
    return nested->second.strength < least ? "(" + nested->second.text + ")" : nested->second.text;
  }
  std::string operand(const Argument& argument, const Type& type, const Node& node, int least) const {
    if (argument.is_node()) return text_of(*argument.node(), least);
    const std::string text = this->argument(argument, type, node);
    return text.starts_with('-') && least > Expression::unary ? "(" + text + ")" : text;
  }

  Expression expression(const Node& node) const;

  std::string arguments(const Node& node, std::span<const Argument> args) const;

  /// Infix operators where C++'s means exactly the operator.
  std::optional<Expression> infix(const Node& node, const Operator& op) const;

  Expression call(const Node& node, const Operator& op, bool as_method) const;
  /// An input that was bound to a constant has that value.
  std::string check_equal(const Node& node) const;
  /// Of numbers: C++'s own, or Python's, which is the same where nothing is negative.
  Expression division(const Node& node, const Operator& op) const;
  std::string scalar_infix(const Node& node, const Operator& op) const;
  /// A function of <cmath> or <algorithm>.
  std::string number_function(const Node& node, const Operator& op) const;
  /// What a tensor says of itself.
  std::string property(const Node& node, const Operator& op) const;

  /// Arguments of a function of LibTorch's C++ API from parameter `first` on; trailing defaults are left out, dtype,
  /// layout, device and pin_memory become TensorOptions. Nothing when C++ would call another overload with any of them.
  std::optional<std::string> schema_arguments(const Node& node, const Operator& op, int first) const;
  WrittenArgument written(const Argument& value, const Type& type, const Node& node) const;
  /// `at::IntArrayRef({1})`: {1} alone may be a number.
  static void give_type(WrittenArgument& list);
  /// `torch::kFloat32`, `torch::kCPU`, `torch::dtype(torch::kFloat32).device(torch::kCPU)`.
  std::string tensor_options(const Node& node, const Operator& op, int first, bool& any) const;

  /// The operator itself, every argument given: for what the C++ API has no name of its own.
  std::string exact_call(const Node& node, const Operator& op) const;
  /// An operator that somebody registered: it has no function of its own, but the dispatcher knows it.
  std::string dispatcher_call(const Node& node, const Operator& op) const;
  /// How the dispatcher's C++ signatures spell a type.
  std::string signature_type(const Node& node, const Operator& op, const Type& type, bool parameter = false) const;
  std::string all_arguments(const Node& node, const Operator& op) const;

  std::string index_part(const Argument& part, bool none_is_slice, const Node& node) const;
  std::string index_list(const Argument& index, bool none_is_slice, const Node& node) const;
  std::string indexed(const Node& node, const Operator& op) const;
  std::string get_item(const Node& node) const;

  std::string argument(const Argument& argument, const Type& type, const Node& node) const {
    if (argument.is_node()) return text_of(*argument.node());
    return immediate(argument, type, node);
  }
  /// A constant, or a container that may hold nodes, for a parameter of this type.
  std::string immediate(const Argument& value, const Type& type, const Node& node) const;

  std::string returned(const Argument& value, const Node& node) const { return argument(value, {}, node); }

  const Graph& graph_;
  const Owner& owner_;
  const Members& members_;
  CodeOptions options_;
  CppTypes types_;
  InputCode inputs_;
  std::set<std::string_view> names_;
  std::vector<const Node*> last_user_;
  std::vector<bool> has_effect_after_;
  std::vector<std::size_t> barrier_of_, occurrences_, place_of_;
  std::map<const Node*, Expression> nested_;
};

}  // namespace fxx::inline FXX_ABI::detail
