// Bodies of torch/recurrent.hpp.
#pragma once

#include <torch/nn/modules/rnn.h>

#include <algorithm>

#include "fxx/ir/names.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/recurrent.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// What a recurrent module calls its operator with, besides input and state.
struct RecurrentCall {
  std::vector<std::string> weights;  // qualified names
  bool has_biases = true, bidirectional = false, batch_first = false, training = false, relu = false;
  std::int64_t num_layers = 1;
  double dropout = 0;
};

template <class Impl>
bool describe_recurrent_call(const torch::nn::Module& module, const ModuleOwner& owner, RecurrentCall& call) {
  const auto* impl = dynamic_cast<const Impl*>(&module);
  if (!impl) return false;
  const auto& options = impl->options_base;
  for (const at::Tensor& weight : impl->all_weights()) call.weights.push_back(owner.name_of(weight));
  call.has_biases = options.bias();
  call.bidirectional = options.bidirectional();
  call.batch_first = options.batch_first();
  call.training = impl->is_training();
  call.relu = std::holds_alternative<torch::enumtype::kRNN_RELU>(options.mode());
  call.num_layers = options.num_layers();
  call.dropout = options.dropout();
  return true;
}

/// A tensor of zeros that nothing but `user` reads, so nothing wrote to it.
FXX_INLINE bool is_own_zeros(const Argument& argument, const Node& user) {
  return argument.is_node() && argument.node()->calls(table_operator(OperatorIndex::zeros)) &&
         std::all_of(argument.node()->users().begin(), argument.node()->users().end(),
                     [&](const Node* n) { return n == &user; });
}

}  // namespace detail

FXX_INLINE std::size_t reroll_recurrent(Graph& graph, const ModuleOwner& owner,
                                        const std::map<std::string, std::string, std::less<>>& known) {
  using namespace torch::nn;
  std::size_t rerolled = 0;
  for (Node* node : graph.nodes().snapshot()) {
    const Operator* op = node->opcode() == Opcode::call_function ? node->operation() : nullptr;
    if (!op || op->overload_name() != "input" || node->args().size() != op->parameters.size()) continue;
    const bool lstm = op->base_name() == "lstm", gru = op->base_name() == "gru";
    if (!lstm && !gru && op->base_name() != "rnn_tanh" && op->base_name() != "rnn_relu") continue;
    if (const auto told = known.find(node->name()); told != known.end() && told->second.empty()) continue;

    // The module that the first weight belongs to; it must have all of them.
    std::vector<std::string> weights;
    for (const Argument& weight : node->arg(2).items()) {
      const auto* attribute = weight.is_node() ? std::get_if<GetAttr>(&weight.node()->op()) : nullptr;
      weights.push_back(attribute ? attribute->target : "");
    }
    const std::size_t dot = weights.empty() ? std::string::npos : weights[0].rfind('.');
    if (dot == std::string::npos) continue;
    const std::string name = weights[0].substr(0, dot);
    const std::shared_ptr<Module> module = owner.module(name);
    detail::RecurrentCall call;
    if (!module || !(lstm  ? detail::describe_recurrent_call<LSTMImpl>(*module, owner, call)
                     : gru ? detail::describe_recurrent_call<GRUImpl>(*module, owner, call)
                           : detail::describe_recurrent_call<RNNImpl>(*module, owner, call)))
      continue;
    if (call.weights != weights || call.relu != (op->base_name() == "rnn_relu") ||
        !(node->arg(3) == Argument(call.has_biases)) || !(node->arg(4) == Argument(call.num_layers)) ||
        !(node->arg(5) == Argument(call.dropout)) || !(node->arg(6) == Argument(call.training)) ||
        !(node->arg(7) == Argument(call.bidirectional)) || !(node->arg(8) == Argument(call.batch_first)))
      continue;

    // A user of the results other than getitem sees a tuple of another shape.
    const Operator& getitem = table_operator(OperatorIndex::operator_getitem);
    const std::vector<Node*> users = node->users().snapshot();
    if (lstm && !std::all_of(users.begin(), users.end(), [&](const Node* user) {
          return user->calls(getitem) && user->args().size() == 2 && user->arg(1).kind() == Argument::Kind::integer;
        }))
      continue;

    const Argument state = node->arg(1);
    const std::span<const Argument> states = lstm ? state.items() : std::span<const Argument>(&state, 1);
    const bool zeros =
        std::all_of(states.begin(), states.end(), [&](const Argument& s) { return detail::is_own_zeros(s, *node); });
    std::vector<Argument> args{node->arg(0)};
    if (!zeros) args.push_back(lstm ? Argument::tuple({states.begin(), states.end()}) : state);
    const std::vector<Node*> before = node->all_input_nodes().snapshot();
    if (is_made_from(node->name(), op->base_name())) node->rename(name);
    node->set_op(CallModule{name});
    node->set_args_kwargs(args, {});
    for (Node* input : before)
      if (!input->is_erased() && input->num_users() == 0 &&
          (input->opcode() == Opcode::get_attr || input->calls(table_operator(OperatorIndex::zeros))))
        graph.erase_node(input);
    if (lstm) {
      // Of (output, h, c) the module makes (output, (h, c)).
      Node* pair = nullptr;
      for (Node* user : users) {
        const std::int64_t given = user->arg(1).integer(), item = given < 0 ? given + 3 : given;
        if (item == 0) {
          user->update_arg(1, 0);
          continue;
        }
        if (!pair) {
          const InsertPoint point = graph.inserting_after(node);
          pair = graph.call_function(getitem, {node, 1});
        }
        user->set_args({pair, item - 1});
      }
    }
    ++rerolled;
  }
  return rerolled;
}

}  // namespace fxx::inline FXX_ABI
