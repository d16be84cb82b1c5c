// Bodies of codegen/lower.hpp: the walk over the graph, and which function lowers which operator. A file for each family
// of operators is in codegen/lower/.
#pragma once

#include <algorithm>

#include "fxx/codegen/arena.hpp"
#include "fxx/codegen/lower/aliases.ipp"
#include "fxx/codegen/lower/attention.ipp"
#include "fxx/codegen/lower/called_back.ipp"
#include "fxx/codegen/lower/composed.ipp"
#include "fxx/codegen/lower/estimate.ipp"
#include "fxx/codegen/lower/images.ipp"
#include "fxx/codegen/lower/join_rows.ipp"
#include "fxx/codegen/lower/lookups.ipp"
#include "fxx/codegen/lower/lowering.ipp"
#include "fxx/codegen/lower/memory.ipp"
#include "fxx/codegen/lower/patches.ipp"
#include "fxx/codegen/lower/pointwise.ipp"
#include "fxx/codegen/lower/products.ipp"
#include "fxx/codegen/lower/quantised.ipp"
#include "fxx/codegen/lower/recurrent.ipp"
#include "fxx/codegen/lower/rows.ipp"
#include "fxx/codegen/lower/scatter.ipp"
#include "fxx/codegen/lower/sorting.ipp"
#include "fxx/codegen/lower/strides.ipp"
#include "fxx/codegen/lower/terms.ipp"
#include "fxx/codegen/lower/views.ipp"
#include "fxx/codegen/lower/ways.ipp"

namespace fxx::inline FXX_ABI {

namespace plans {

FXX_INLINE void Lowering::placeholder(const Node& node) {
  const TensorMeta& meta = meta_of(node);
  const int buffer = add_buffer(Buffer::Kind::input, node, meta.dtype, meta.numel());
  plan_.buffers.back().number = static_cast<int>(plan_.inputs.size());
  const View view{buffer, 0, meta.shape, strides_in_memory(node)};
  plan_.inputs.push_back(view);
  set_view(node, view, meta.dtype);
}

FXX_INLINE void Lowering::attribute(const Node& node, const GetAttr& target) {
  if (owner_.find_module(target.target)) return;
  const AttributeInfo* info = owner_.find_attribute(target.target);
  const TensorMeta& meta = info ? info->meta : meta_of(node);
  int buffer = add_constant(node, target.target, meta.dtype, meta.numel());
  const int number = buffer_of(buffer).number;
  for (const auto& [copy, constant] : renewed_)
    if (buffer_of(constant).number == number) buffer = copy;
  // Whoever packs it sees it dense.
  set_view(node, {buffer, 0, meta.shape, dense_strides(meta.shape)}, meta.dtype);
}

FXX_INLINE void Lowering::require_countable(const Node& node) const {
  const auto inputs = node.all_input_nodes();
  const auto countable = [](const Node* n) { return is_countable(*n); };
  // What is only seen otherwise lies where it is, and who computes with it is asked.
  const bool is_seen = std::ranges::any_of(inputs, [&](const Node* input) { return passes_on_memory(node, *input); }) &&
                       std::ranges::none_of(node.users(), [](const Node* u) { return u->opcode() == Opcode::output; });
  if (!is_seen && !(countable(&node) && std::ranges::all_of(inputs, countable)))
    throw NoKernel{"more elements than an int counts"};
}

FXX_INLINE void Lowering::call(const Node& node) {
  const Operator* op = known_operator(node);
  std::string why;
  try {
    if (node.opcode() == Opcode::call_module || !op) throw NoKernel{"not an operator"};
    if (op->base_name() == "getitem") return get_item(node);
    require_countable(node);
    const auto known = handlers().find(op->name);
    if (known != handlers().end()) {
      (this->*known->second)(node, *op);
    } else if (!pointwise(node, *op) && !composed(node, *op)) {
      throw NoKernel{"no kernel"};
    }
    if (!written_.empty() &&
        std::ranges::none_of(node.all_input_nodes(), [&](const Node* n) { return passes_on_memory(node, *n); }))
      lie_as_written(node);
    return compute_once(node);
  } catch (const NoKernel& reason) {
    why = reason.why;
  }
  CallBack kernel;
  kernel.nodes = with_items(node);
  kernel.why = why;
  call_back(std::move(kernel));
}

FXX_INLINE void Lowering::output(const Node& node) {
  // plan_.outputs were laid out at the start; here they are filled.
  std::size_t next = 0;
  for_each_node(node.arg(0), [&](Node* result) {
    PlanOutput& output = plan_.outputs[next++];
    if (output.input >= 0) return;
    if (const auto kept = kept_.find(result); kept != kept_.end()) {
      output = {.kept = kept->second};
      return;
    }
    const Value::Kind kind = value_of(*result).kind;
    if (kind != Value::Kind::view && kind != Value::Kind::pending)
      fail(node, "'" + std::string(result->name()) + "' is not one tensor");
    const View from = view_of(*result);
    if (plan_.outputs[next - 1].buffer >= 0) return;
    const TensorMeta& meta = meta_of(*result);
    const int buffer = add_buffer(Buffer::Kind::output, *result, meta.dtype, meta.numel());
    plan_.buffers.back().number = static_cast<int>(next - 1);
    PlanOutput& made = plan_.outputs[next - 1];
    made.buffer = buffer;
    made.view = {buffer, 0, meta.shape, strides_in_memory(*result)};
    Value copy;
    copy.dtype = meta.dtype;
    copy.term = load_of(from, elements_of(meta.dtype));
    copy.nodes = {result};
    emit(std::move(copy), made.view);
    plan_.values.push_back({result, plan_.outputs[next - 1].view, steps()});
  });
}

FXX_INLINE KernelPlan Lowering::lower() {
  if (const Node* result = graph_.output_node()) {
    std::unordered_map<const Node*, int> inputs;
    int number = 0;
    for (const Node* node : graph_.nodes())
      if (node->opcode() == Opcode::placeholder) inputs[node] = number++;
    std::vector<const Node*> seen;
    for_each_node(result->arg(0), [&](Node* node) {
      PlanOutput output;
      if (const auto input = inputs.find(node); input != inputs.end()) output.input = input->second;
      // The first to ask gets the memory, the others a copy: marked by the node's number until it has some.
      else if (std::find(seen.begin(), seen.end(), node) == seen.end())
        output.view.buffer = -2 - static_cast<int>(node->index());
      seen.push_back(node);
      plan_.outputs.push_back(std::move(output));
    });
  }
  for (const Node* node : graph_.nodes()) {
    const Operator* op = operator_of(*node);
    writes_ = writes_ || (op ? op->mutates
                             : node->opcode() == Opcode::call_module || node->opcode() == Opcode::call_function ||
                                   node->opcode() == Opcode::call_method);
    if (may_write_memory(*node)) written_.push_back(memory_written_by(*node));
  }
  for (const Region& region : options_.regions)
    for (std::size_t i = 0; i < region.nodes.size(); ++i) regions_[region.nodes[i]] = i == 0 ? &region : nullptr;
  for (const Node* node : graph_.nodes()) {
    if (const auto found = regions_.find(node); found != regions_.end()) {
      if (found->second) interpret(*found->second);
      continue;
    }
    if (items_.contains(node)) continue;
    match(
        node->op(), [&](const Placeholder&) { placeholder(*node); },
        [&](const GetAttr& target) { attribute(*node, target); }, [&](const CallFunction&) { call(*node); },
        [&](const CallMethod&) { call(*node); }, [&](const CallModule&) { call(*node); },
        [&](const Output&) { output(*node); });
  }
  note_last_readers();
  note_values();
  join_rows();
  plan_.weights_stay = weights_stay_;
  for (KernelStep& step : plan_.steps) step.expected = expected_seconds(step, options_.processor, flops_per_byte());
  return std::move(plan_);
}

FXX_INLINE const std::unordered_map<std::string_view, Lowering::Handler>& Lowering::handlers() {
  static const std::unordered_map<std::string_view, Handler> all = {
      {"aten::contiguous", &Lowering::same},
      {"aten::clone", &Lowering::same},
      {"aten::detach", &Lowering::same},
      {"aten::alias", &Lowering::same},
      {"aten::lift_fresh", &Lowering::same},
      {"aten::dropout", &Lowering::same},
      {"aten::feature_dropout", &Lowering::same},
      {"aten::to.dtype", &Lowering::same},
      {"aten::to.dtype_layout", &Lowering::same},
      {"aten::to.device", &Lowering::same},
      {"aten::to.other", &Lowering::same},
      {"aten::type_as", &Lowering::same},
      {"aten::_to_copy", &Lowering::same},
      {"aten::positive", &Lowering::same},
      {"aten::real", &Lowering::same},
      {"aten::conj", &Lowering::same},
      {"aten::conj_physical", &Lowering::same},
      {"aten::resolve_conj", &Lowering::same},
      {"aten::resolve_neg", &Lowering::same},
      {"aten::lift", &Lowering::same},
      {"aten::alpha_dropout", &Lowering::same},
      {"aten::feature_alpha_dropout", &Lowering::same},
      {"aten::view", &Lowering::reshape},
      {"aten::reshape", &Lowering::reshape},
      {"aten::_unsafe_view", &Lowering::reshape},
      {"aten::view_as", &Lowering::reshape},
      {"aten::reshape_as", &Lowering::reshape},
      {"aten::flatten.using_ints", &Lowering::reshape},
      {"aten::unflatten.int", &Lowering::reshape},
      {"aten::unsqueeze", &Lowering::reshape},
      {"aten::squeeze", &Lowering::reshape},
      {"aten::squeeze.dim", &Lowering::reshape},
      {"aten::squeeze.dims", &Lowering::reshape},
      {"aten::permute", &Lowering::permute},
      {"aten::transpose.int", &Lowering::transpose},
      {"aten::t", &Lowering::transpose},
      {"aten::diagonal", &Lowering::diagonal},
      {"aten::linalg_diagonal", &Lowering::diagonal},
      {"aten::unfold", &Lowering::unfold},
      {"aten::expand", &Lowering::expand},
      {"aten::expand_as", &Lowering::expand},
      {"aten::slice.Tensor", &Lowering::slice},
      {"aten::narrow", &Lowering::narrow},
      {"aten::select.int", &Lowering::select},
      {"aten::split.Tensor", &Lowering::split},
      {"aten::split.sizes", &Lowering::split},
      {"aten::split_with_sizes", &Lowering::split},
      {"aten::chunk", &Lowering::split},
      {"aten::unbind.int", &Lowering::unbind},
      {"aten::cat", &Lowering::concatenate},
      {"aten::stack", &Lowering::concatenate},
      {"aten::masked_fill.Scalar", &Lowering::masked_fill},
      {"aten::masked_fill.Tensor", &Lowering::masked_fill},
      {"aten::div.Tensor_mode", &Lowering::divide},
      {"aten::div.Scalar_mode", &Lowering::divide},
      {"aten::triu", &Lowering::triangle},
      {"aten::tril", &Lowering::triangle},
      {"aten::embedding", &Lowering::embedding},
      {"aten::gather", &Lowering::select_places},
      {"aten::index_select", &Lowering::select_places},
      {"aten::index.Tensor", &Lowering::index},
      {"aten::embedding_bag", &Lowering::embedding_bag},
      {"aten::embedding_bag.padding_idx", &Lowering::embedding_bag},
      {"aten::one_hot", &Lowering::one_hot},
      {"aten::scatter.src", &Lowering::scatter},
      {"aten::scatter.value", &Lowering::scatter},
      {"aten::scatter.reduce", &Lowering::scatter},
      {"aten::scatter.value_reduce", &Lowering::scatter},
      {"aten::scatter_add", &Lowering::scatter},
      {"aten::scatter_reduce.two", &Lowering::scatter},
      {"aten::index_add", &Lowering::scatter},
      {"aten::index_copy", &Lowering::scatter},
      {"aten::index_fill.int_Scalar", &Lowering::scatter},
      {"aten::index_fill.int_Tensor", &Lowering::scatter},
      {"aten::index_reduce", &Lowering::scatter},
      {"aten::index_put", &Lowering::index_put},
      {"aten::linear", &Lowering::linear},
      {"aten::addmm", &Lowering::addmm},
      {"aten::mm", &Lowering::addmm},
      {"aten::bmm", &Lowering::matmul},
      {"aten::matmul", &Lowering::matmul},
      {"aten::conv1d", &Lowering::convolution},
      {"aten::conv1d.padding", &Lowering::convolution},
      {"aten::conv2d", &Lowering::convolution},
      {"aten::conv2d.padding", &Lowering::convolution},
      {"aten::convolution", &Lowering::convolution},
      {"aten::max_pool1d", &Lowering::pool},
      {"aten::max_pool2d", &Lowering::pool},
      {"aten::avg_pool1d", &Lowering::pool},
      {"aten::avg_pool2d", &Lowering::pool},
      {"aten::adaptive_avg_pool1d", &Lowering::adaptive_pool},
      {"aten::adaptive_avg_pool2d", &Lowering::adaptive_pool},
      {"aten::adaptive_max_pool1d", &Lowering::adaptive_max_pool},
      {"aten::adaptive_max_pool2d", &Lowering::adaptive_max_pool},
      {"aten::softmax.int", &Lowering::softmax},
      {"aten::_softmax", &Lowering::softmax},
      {"aten::log_softmax.int", &Lowering::softmax},
      {"aten::_log_softmax", &Lowering::softmax},
      {"aten::layer_norm", &Lowering::layer_norm},
      {"aten::rms_norm", &Lowering::layer_norm},
      {"aten::sum", &Lowering::reduce},
      {"aten::sum.dim_IntList", &Lowering::reduce},
      {"aten::mean", &Lowering::reduce},
      {"aten::mean.dim", &Lowering::reduce},
      {"aten::amax", &Lowering::reduce},
      {"aten::amin", &Lowering::reduce},
      {"aten::max", &Lowering::reduce},
      {"aten::min", &Lowering::reduce},
      {"aten::prod", &Lowering::reduce},
      {"aten::prod.dim_int", &Lowering::reduce},
      {"aten::any", &Lowering::reduce},
      {"aten::any.dim", &Lowering::reduce},
      {"aten::any.dims", &Lowering::reduce},
      {"aten::all", &Lowering::reduce},
      {"aten::all.dim", &Lowering::reduce},
      {"aten::all.dims", &Lowering::reduce},
      {"aten::argmax", &Lowering::reduce},
      {"aten::argmin", &Lowering::reduce},
      {"aten::logsumexp", &Lowering::reduce},
      {"aten::max.dim", &Lowering::extremes},
      {"aten::min.dim", &Lowering::extremes},
      {"aten::var", &Lowering::variance},
      {"aten::var.dim", &Lowering::variance},
      {"aten::var.correction", &Lowering::variance},
      {"aten::std", &Lowering::variance},
      {"aten::std.dim", &Lowering::variance},
      {"aten::std.correction", &Lowering::variance},
      {"aten::var_mean", &Lowering::variance},
      {"aten::var_mean.dim", &Lowering::variance},
      {"aten::var_mean.correction", &Lowering::variance},
      {"aten::std_mean", &Lowering::variance},
      {"aten::std_mean.dim", &Lowering::variance},
      {"aten::std_mean.correction", &Lowering::variance},
      {"aten::cumsum", &Lowering::running},
      {"aten::cumprod", &Lowering::running},
      {"aten::sort", &Lowering::sort},
      {"aten::sort.stable", &Lowering::sort},
      {"aten::argsort", &Lowering::sort},
      {"aten::argsort.stable", &Lowering::sort},
      {"aten::topk", &Lowering::sort},
      {"aten::bucketize.Tensor", &Lowering::search},
      {"aten::searchsorted.Tensor", &Lowering::search},
      {"aten::isin.Tensor_Tensor", &Lowering::is_in},
      {"aten::norm.Scalar", &Lowering::norm},
      {"aten::norm.ScalarOpt_dim", &Lowering::norm},
      {"aten::linalg_vector_norm", &Lowering::norm},
      {"aten::slice_scatter", &Lowering::scatter_slice},
      {"aten::select_scatter", &Lowering::scatter_slice},
      {"aten::pad", &Lowering::pad},
      {"aten::constant_pad_nd", &Lowering::pad},
      {"aten::repeat", &Lowering::repeat},
      {"aten::tile", &Lowering::repeat},
      {"aten::repeat_interleave.self_int", &Lowering::repeat},
      {"aten::reflection_pad1d", &Lowering::pad_around},
      {"aten::reflection_pad2d", &Lowering::pad_around},
      {"aten::replication_pad1d", &Lowering::pad_around},
      {"aten::replication_pad2d", &Lowering::pad_around},
      {"aten::pixel_shuffle", &Lowering::shuffle_pixels},
      {"aten::pixel_unshuffle", &Lowering::shuffle_pixels},
      {"aten::im2col", &Lowering::im2col},
      {"aten::col2im", &Lowering::col2im},
      {"aten::roll", &Lowering::roll},
      {"aten::flip", &Lowering::flip},
      {"aten::fliplr", &Lowering::flip},
      {"aten::flipud", &Lowering::flip},
      {"aten::zeros", &Lowering::constant},
      {"aten::ones", &Lowering::constant},
      {"aten::full", &Lowering::constant},
      {"aten::zeros_like", &Lowering::constant},
      {"aten::ones_like", &Lowering::constant},
      {"aten::full_like", &Lowering::constant},
      {"aten::new_zeros", &Lowering::constant},
      {"aten::new_ones", &Lowering::constant},
      {"aten::new_full", &Lowering::constant},
      {"aten::empty.memory_format", &Lowering::constant},
      {"aten::empty_like", &Lowering::constant},
      {"aten::new_empty", &Lowering::constant},
      {"aten::fill.Scalar", &Lowering::fill},
      {"aten::fill.Tensor", &Lowering::fill},
      {"aten::logical_and", &Lowering::logic},
      {"aten::logical_or", &Lowering::logic},
      {"aten::logical_xor", &Lowering::logic},
      {"aten::logical_not", &Lowering::logic},
      {"aten::bitwise_and.Tensor", &Lowering::logic},
      {"aten::bitwise_and.Scalar", &Lowering::logic},
      {"aten::bitwise_or.Tensor", &Lowering::logic},
      {"aten::bitwise_or.Scalar", &Lowering::logic},
      {"aten::bitwise_xor.Tensor", &Lowering::logic},
      {"aten::bitwise_xor.Scalar", &Lowering::logic},
      {"aten::bitwise_not", &Lowering::logic},
      {"aten::elu", &Lowering::elu},
      {"aten::fake_quantize_per_tensor_affine", &Lowering::fake_quantize},
      {"aten::fake_quantize_per_tensor_affine_cachemask", &Lowering::fake_quantize},
      {"aten::conv_transpose1d", &Lowering::transposed_convolution},
      {"aten::conv_transpose2d.input", &Lowering::transposed_convolution},
      {"aten::upsample_nearest1d", &Lowering::resize},
      {"aten::upsample_nearest1d.vec", &Lowering::resize},
      {"aten::_upsample_nearest_exact1d", &Lowering::resize},
      {"aten::upsample_linear1d", &Lowering::resize},
      {"aten::upsample_linear1d.vec", &Lowering::resize},
      {"aten::upsample_nearest2d", &Lowering::resize},
      {"aten::upsample_nearest2d.vec", &Lowering::resize},
      {"aten::_upsample_nearest_exact2d", &Lowering::resize},
      {"aten::upsample_bilinear2d", &Lowering::resize},
      {"aten::upsample_bilinear2d.vec", &Lowering::resize},
      {"aten::batch_norm", &Lowering::batch_norm},
      {"aten::group_norm", &Lowering::group_norm},
      {"aten::lstm.input", &Lowering::recurrent},
      {"aten::gru.input", &Lowering::recurrent},
      {"aten::scaled_dot_product_attention", &Lowering::attention},
  };
  return all;
}

}  // namespace plans

FXX_INLINE KernelPlan lower(const Graph& graph, const Owner& owner, const LowerOptions& options) {
  KernelPlan plan = plans::Lowering(graph, owner, options).lower();
  place_buffers(plan, options.guarded);
  return plan;
}

}  // namespace fxx::inline FXX_ABI
