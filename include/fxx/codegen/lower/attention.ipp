// Lowering of scaled_dot_product_attention.
#pragma once

#include <algorithm>
#include <cmath>

#include "fxx/codegen/lower/memory.ipp"
#include "fxx/codegen/lower/ways.ipp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE void Lowering::attention(const Node& node, const Operator& op) {
  require_float(node);
  const Node& query = operand(node, op, "query");
  const Node& key = operand(node, op, "key");
  const Node& value = operand(node, op, "value");
  const Node* mask = optional_operand(node, op, "attn_mask");
  for (const Node* input : {&query, &key, &value}) require_float(*input);
  if (argument(node, op, "dropout_p").number() != 0) throw NoKernel{"dropout"};
  const Sizes &q = sizes_of(query), &k = sizes_of(key), &v = sizes_of(value), &out = sizes_of(node);
  const std::size_t n = out.size();
  if (n < 2 || q.size() != n || k.size() != n || v.size() != n || product(q) == 0 || product(out) == 0 || k[n - 2] == 0)
    throw NoKernel{"attention of these sizes"};
  plans::Attention kernel;
  kernel.queries = q[n - 2];
  kernel.keys = k[n - 2];
  kernel.size = q[n - 1];
  kernel.value_size = v[n - 1];
  kernel.causal = argument(node, op, "is_causal").boolean();
  // A token or two wait for the keys to be read. A vector for each element of a head stands on the stack while keys are
  // packed, 64 kB at most.
  kernel.reduced = options_.accuracy == Accuracy::fast && options_.processor.bfloat16_products && kernel.queries >= 4 &&
                   kernel.size <= 1024;
  const Argument scale = argument(node, op, "scale");
  kernel.scale = scale.is_number() ? scale.number() : 1 / std::sqrt(static_cast<double>(kernel.size));
  const Sizes heads(out.begin(), out.end() - 2);
  kernel.heads = product(heads);
  const auto written = std::ranges::find(options_.attention, node.name(), &WrittenAttention::node);
  kernel.softmax = written != options_.attention.end();
  if (mask) kernel.mask = result_term();
  require_no_library(kernel);
  // Other calls LibTorch computes by products and softmax.
  const auto is_dense = [&](const Node& input) { return !meta_of(input).stride.empty() && meta_of(input).stride.back() == 1; };
  const bool same_heads = std::equal(k.begin(), k.begin() + 2, v.begin()) && q[0] == k[0];
  const std::size_t mask_rank = mask ? sizes_of(*mask).size() : 2;
  if (!kernel.softmax && n == 4 && same_heads && kernel.size == kernel.value_size &&
      (mask_rank == 2 || mask_rank == 4) && is_dense(query) && is_dense(key) && is_dense(value))
    kernel.flash = options_.libtorch_lanes > 0 ? options_.libtorch_lanes : 8;
  // LibTorch's kernel hides by minus infinity what it then multiplies with the scale.
  if (kernel.causal && kernel.flash > 0 && !(kernel.scale > 0)) throw NoKernel{"causal attention with this scale"};
  const bool grouped = op.index_of("enable_gqa") >= 0 && argument(node, op, "enable_gqa").boolean();
  const auto read = [&](const Node& input, Sizes& offsets) {
    View view = view_of(input);
    if (view.strides[n - 1] != 1 && view.sizes[n - 1] != 1) {
      const Sizes& sizes = sizes_of(input);
      const int buffer = add_buffer(Buffer::Kind::arena, input, Dtype::float32, product(sizes));
      Value copy;
      copy.term = load_of(view);
      copy.nodes = {&node};
      view = {buffer, 0, sizes, dense_strides(sizes)};
      emit(std::move(copy), view);
    }
    offsets.assign(static_cast<std::size_t>(kernel.heads), 0);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      for (std::size_t d = heads.size(); d-- > 0;) {
        std::int64_t index = rest % heads[d];
        rest /= heads[d];
        if (grouped && d + 1 == heads.size()) index /= heads[d] / view.sizes[d];
        else if (view.sizes[d] == 1) index = 0;
        else if (view.sizes[d] != heads[d]) throw NoKernel{"heads that do not fit"};
        offsets[i] += index * view.strides[d];
      }
    }
    return View{view.buffer, view.offset, {view.sizes[n - 2], view.sizes[n - 1]}, {view.strides[n - 2], 1}};
  };
  kernel.q = read(query, kernel.q_heads);
  kernel.k = read(key, kernel.k_heads);
  kernel.v = read(value, kernel.v_heads);
  Frame frame;
  frame.sizes = out;
  frame.axes = {{"head", kernel.heads}, {"query", kernel.queries}, {"column", kernel.value_size}};
  frame.dims.resize(n);
  std::int64_t step = 1;
  for (std::size_t d = heads.size(); d-- > 0;) {
    frame.dims[d] = {0, step};
    step *= heads[d];
  }
  frame.dims[n - 2] = {1, 1};
  frame.dims[n - 1] = {2, 1};
  if (mask && kernel.causal) throw NoKernel{"a mask for causal attention"};
  // As operators, causal attention adds minus infinity to the scores that it hides: nan of those that are nan or infinite.
  const bool adds = kernel.causal && kernel.flash == 0 && options_.accuracy != Accuracy::fast;
  if (mask || adds) {
    Sizes sizes = out;
    sizes[n - 1] = kernel.keys;
    kernel.mask_frame = frame;
    kernel.mask_frame.sizes = sizes;
    kernel.mask_frame.axes[2] = {"key", kernel.keys};
    if (adds) {
      kernel.causal = false;
      kernel.mask = call_of(kernels::Function::select,
                            {call_of(kernels::Function::less_or_equal, {column_less_row(sizes), integer_of(0)}),
                             number_of(0), number_of(-INFINITY)});
    }
  }
  if (mask) {
    Sizes sizes = out;
    sizes[n - 1] = kernel.keys;
    if (meta_of(*mask).dtype != Dtype::boolean && meta_of(*mask).dtype != Dtype::float32)
      throw NoKernel{"a mask of " + std::string(name_of(meta_of(*mask).dtype))};
    const bool chooses = meta_of(*mask).dtype == Dtype::boolean;
    view_of(*mask);  // computed once for all heads
    kernel.mask = term_of(*mask, sizes);
    const double hidden = kernel.softmax ? written->fill : -INFINITY;
    if (chooses) kernel.mask = call_of(kernels::Function::select, {kernel.mask, number_of(0), number_of(hidden)});
    kernel.mask_replaces = chooses && kernel.softmax;
  }
  const double flops =
      2. * static_cast<double>(kernel.heads * kernel.queries * kernel.keys * (kernel.size + kernel.value_size));
  // Heads of one token lie beside each other, as whoever puts them together again wants them.
  Sizes order;
  if (n == 4) order = {0, 2, 1, 3};
  set_root(node, std::move(kernel), std::move(frame), flops, std::move(order));
}

}  // namespace fxx::inline FXX_ABI::plans
