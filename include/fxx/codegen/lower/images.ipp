// Lowering of convolutions and pooling.
#pragma once

#include "fxx/codegen/lower/estimate.ipp"
#include "fxx/codegen/lower/products.ipp"

namespace fxx::inline FXX_ABI::plans {

/// What a convolution is called with, in two dimensions.
struct ConvolutionCall {
  const Node *input = nullptr, *weight = nullptr, *bias = nullptr;
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1}, groups = 1;
};

/// Can it be computed directly and by Winograd's algorithm? Of few channels no vectors are filled.
FXX_INLINE bool has_methods(const ConvolutionCall& call, const Sizes& weight, Accuracy accuracy) {
  const bool plain = call.stride[0] == 1 && call.stride[1] == 1 && call.dilation[0] == 1 && call.dilation[1] == 1;
  return call.groups == 1 && plain && weight[2] == 3 && weight[3] == 3 && weight[0] >= 16 && weight[1] >= 16 &&
         accuracy != Accuracy::exact;
}
/// How it is computed, and so how much of its input's surroundings it reads.
FXX_INLINE Convolution::Method Lowering::method_of(const Node& node, const ConvolutionCall& call) const {
  using Method = Convolution::Method;
  const Sizes &in = sizes_of(*call.input), &weight = sizes_of(*call.weight), &out = sizes_of(node);
  if (call.groups > 1) return call.groups == in[1] && out[1] == in[1] ? Method::depthwise : Method::direct;
  if (weight[2] == 1 && weight[3] == 1 && call.stride[0] == 1 && call.stride[1] == 1 && call.padding[0] == 0 &&
      call.padding[1] == 0)
    return Method::pixelwise;
  if (!has_methods(call, weight, options_.accuracy)) return Method::direct;
  if (const auto said = options_.methods.find(node.name()); said != options_.methods.end())
    for (const Method method : {Method::direct, Method::winograd_2, Method::winograd_4})
      if (said->second == method) return method;
  Convolution kernel;
  kernel.images = out[0];
  kernel.channels = in[1];
  kernel.out_channels = out[1];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  const auto cost = [&](Method method) {
    kernel.method = method;
    return cost_of(kernel, flops_per_byte());
  };
  Method best = Method::direct;
  for (const Method method : {Method::winograd_2, Method::winograd_4})
    if (cost(method) < cost(best)) best = method;
  return best;
}
FXX_INLINE Buffer::Border border_of(const ConvolutionCall& call, const Sizes& in, const Sizes& weight, const Sizes& out,
                                    Convolution::Method method) {
  Buffer::Border border{call.padding[0], call.padding[1], 0, 0};
  std::int64_t rows, pixels;
  if (method == Convolution::Method::winograd_4 || method == Convolution::Method::winograd_2) {
    const std::int64_t side = method == Convolution::Method::winograd_4 ? 4 : 2;
    rows = (out[2] + side - 1) / side * side + 2;
    pixels = (out[3] + side - 1) / side * side + 2;
  } else {
    rows = (out[2] - 1) * call.stride[0] + (weight[2] - 1) * call.dilation[0] + 1;
    pixels = (out[3] - 1) * call.stride[1] + (weight[3] - 1) * call.dilation[1] + 1;
  }
  border.bottom = std::max<std::int64_t>(0, rows - border.top - in[2]);
  border.right = std::max<std::int64_t>(0, pixels - border.left - in[3]);
  return border;
}

FXX_INLINE bool is_transposed(const Node& node) {
  const Operator* op = operator_of(node);
  return op && op->name == "aten::conv_transpose2d.input";
}
/// What a transposed convolution reads beside its input's rows.
FXX_INLINE Buffer::Border border_of_transposed(const ConvolutionCall& call, const Sizes& in, const Sizes& weight,
                                               const Sizes& out) {
  const std::int64_t before = (weight[3] - 1) * call.dilation[1] - call.padding[1];
  const std::int64_t after = (out[3] - 1 + call.padding[1]) / call.stride[1] - (in[3] - 1);
  return {0, before > 0 ? before / call.stride[1] : 0, 0, std::max<std::int64_t>(after, 0)};
}

/// The call that a node makes when it is a convolution of images for which there is a kernel.
FXX_INLINE std::optional<ConvolutionCall> convolution_call(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || (op->name != "aten::conv2d" && op->name != "aten::convolution" && !is_transposed(node))) return {};
  const auto get = [&](std::string_view name) { return argument_or_default(node, *op, op->index_of(name)); };
  ConvolutionCall call;
  const Argument input = get("input"), weight = get("weight"), bias = get("bias"), groups = get("groups");
  if (!input.is_node() || !weight.is_node() || groups.kind() != Argument::Kind::integer) return {};
  if (!input.node()->tensor_meta() || !weight.node()->tensor_meta() || !node.tensor_meta()) return {};
  call.input = input.node();
  call.weight = weight.node();
  call.bias = bias.is_node() ? bias.node() : nullptr;
  call.groups = groups.integer();
  if (op->index_of("transposed") >= 0 && get("transposed").boolean()) return {};
  const auto pair = [&](std::string_view name, std::int64_t(&to)[2]) {
    const Argument value = get(name);
    if (value.kind() == Argument::Kind::integer) to[0] = to[1] = value.integer();
    else if (value.is_sequence() && !value.items().empty()) {
      for (std::size_t i = 0; i < 2; ++i) {
        const Argument& item = value.items()[std::min(i, value.items().size() - 1)];
        if (item.kind() != Argument::Kind::integer) return false;
        to[i] = item.integer();
      }
    } else {
      return false;
    }
    return true;
  };
  if (!pair("stride", call.stride) || !pair("padding", call.padding) || !pair("dilation", call.dilation)) return {};
  const TensorMeta &in = *call.input->tensor_meta(), &w = *call.weight->tensor_meta(), &out = *node.tensor_meta();
  if (in.dim() != 4 || w.dim() != 4 || in.is_dynamic() || out.is_dynamic() || in.dtype != Dtype::float32 ||
      out.numel() == 0 || in.numel() == 0)
    return {};
  if (is_transposed(node) && call.groups > 1) return {};
  return call;
}

/// The largest border that a convolution among the users of the value reads.
FXX_INLINE Buffer::Border Lowering::border_wanted(const Node& node) const {
  Buffer::Border border;
  for (const Node* user : node.users()) {
    const std::optional<ConvolutionCall> call = convolution_call(*user);
    if (!call || call->input != &node) continue;
    const Sizes &in = sizes_of(node), &weight = sizes_of(*call->weight), &out = sizes_of(*user);
    border = border.around(is_transposed(*user) ? border_of_transposed(*call, in, weight, out)
                                                : border_of(*call, in, weight, out, method_of(*user, *call)));
  }
  return border;
}

/// The image channels last with this border at least: where it lies, or a copy.
FXX_INLINE View Lowering::image_of(const Node& node, const Buffer::Border& border) {
  const View view = view_of(node);
  const auto fits = [&](const View& at) {
    if (at.strides[1] != 1 && at.sizes[1] != 1) return false;
    const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(at.buffer)];
    if (buffer.image.empty()) {
      // Somebody else's: rows of pixels of any length, if nothing around it is needed.
      return border.empty() && at.strides[3] >= at.sizes[1] && at.strides[2] % at.strides[3] == 0;
    }
    return buffer.border.top >= border.top && buffer.border.left >= border.left &&
           buffer.border.bottom >= border.bottom && buffer.border.right >= border.right &&
           at.strides[2] % at.strides[3] == 0 &&
           at.sizes[2] == buffer.image[1] - buffer.border.top - buffer.border.bottom &&
           at.sizes[3] == buffer.image[2] - buffer.border.left - buffer.border.right;
  };
  if (fits(view)) return view;
  if (const auto placed = images_.find(&node); placed != images_.end() && fits(placed->second)) return placed->second;
  const View to = place_image(node, sizes_of(node), border.around(border_wanted(node)));
  Value copy;
  copy.term = load_of(view);
  copy.nodes = {&node};
  emit(std::move(copy), to);
  images_[&node] = to;
  return to;
}

FXX_INLINE Frame image_frame(const Sizes& sizes) {
  Frame frame;
  frame.axes = {{"image", sizes[0]}, {"y", sizes[2]}, {"x", sizes[3]}, {"channel", sizes[1]}};
  frame.dims = {{0, 1}, {3, 1}, {1, 1}, {2, 1}};
  frame.sizes = sizes;
  return frame;
}

FXX_INLINE void Lowering::convolution(const Node& node, const Operator&) {
  require_float(node);
  const std::optional<ConvolutionCall> call = convolution_call(node);
  if (!call) throw NoKernel{"a convolution of this kind"};
  const Sizes &in = sizes_of(*call->input), &weight = sizes_of(*call->weight), &out = sizes_of(node);
  const Convolution::Method method = method_of(node, *call);
  const Buffer::Border border = border_of(*call, in, weight, out, method);
  Convolution kernel;
  kernel.method = method;
  if (has_methods(*call, weight, options_.accuracy)) kernel.node = &node;
  kernel.in = image_of(*call->input, border);
  kernel.weights = view_of(*call->weight);
  if (plan_.buffers[static_cast<std::size_t>(kernel.weights.buffer)].kind != Buffer::Kind::constant)
    throw NoKernel{"a convolution whose weights are computed"};
  TermPointer term = result_term();
  if (call->bias) term = call_of(kernels::Function::add, {term, bias_term(*call->bias, out, 1)});
  const double flops = 2. * static_cast<double>(product(out)) * static_cast<double>(weight[1] * weight[2] * weight[3]);
  if (method == Convolution::Method::pixelwise) {
    // Every pixel by itself: a matrix product, if pixels lie at one distance.
    const View& view = kernel.in;
    const View pixels{view.buffer,
                      view.offset,
                      {in[0], in[2], in[3], in[1]},
                      {view.strides[0], view.strides[2], view.strides[3], view.strides[1]}};
    if (const std::optional<View> rows = reshaped(pixels, {in[0] * in[2] * in[3], in[1]});
        rows && (rows->strides[1] == 1 || in[1] == 1)) {
      MatrixProduct matrix;
      matrix.rows = rows->sizes[0];
      matrix.columns = out[1];
      matrix.depth = in[1];
      matrix.a = *rows;
      matrix.a_row = rows->strides[0];
      const View& w = kernel.weights;
      matrix.weights.view = {w.buffer, w.offset, {out[1], in[1]}, {w.strides[0], w.strides[1]}};
      Frame frame;
      frame.sizes = out;
      frame.axes = {{"row", matrix.rows}, {"column", out[1]}};
      frame.dims = {{0, out[2] * out[3]}, {1, 1}, {0, out[3]}, {0, 1}};
      choose_weights(matrix);
      return set_root(node, std::move(matrix), std::move(frame), flops, {0, 2, 3, 1}, std::move(term));
    }
    kernel.method = Convolution::Method::direct;
  }
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.out_channels = out[1];
  kernel.groups = call->groups;
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  kernel.kernel_height = weight[2];
  kernel.kernel_width = weight[3];
  kernel.stride_height = call->stride[0];
  kernel.stride_width = call->stride[1];
  kernel.dilation_height = call->dilation[0];
  kernel.dilation_width = call->dilation[1];
  kernel.in.offset -= call->padding[0] * kernel.in.strides[2] + call->padding[1] * kernel.in.strides[3];
  set_root(node, std::move(kernel), image_frame(out), flops, {0, 2, 3, 1}, std::move(term));
}

FXX_INLINE void Lowering::transposed_convolution(const Node& node, const Operator&) {
  require_float(node);
  const std::optional<ConvolutionCall> call = convolution_call(node);
  if (!call) throw NoKernel{"a transposed convolution of this kind"};
  const Sizes &in = sizes_of(*call->input), &weight = sizes_of(*call->weight), &out = sizes_of(node);
  const Buffer::Border border = border_of_transposed(*call, in, weight, out);
  Convolution kernel;
  kernel.method = Convolution::Method::transposed;
  kernel.in = image_of(*call->input, border);
  kernel.in.offset -= border.left * kernel.in.strides[3];
  const View w = view_of(*call->weight);
  if (plan_.buffers[static_cast<std::size_t>(w.buffer)].kind != Buffer::Kind::constant)
    throw NoKernel{"a convolution whose weights are computed"};
  kernel.weights = {w.buffer,
                    w.offset,
                    {w.sizes[1], w.sizes[0], w.sizes[2], w.sizes[3]},
                    {w.strides[1], w.strides[0], w.strides[2], w.strides[3]}};
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.out_channels = out[1];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  kernel.kernel_height = weight[2];
  kernel.kernel_width = weight[3];
  kernel.stride_height = call->stride[0];
  kernel.stride_width = call->stride[1];
  kernel.dilation_height = call->dilation[0];
  kernel.dilation_width = call->dilation[1];
  kernel.padding_height = call->padding[0];
  kernel.padding_width = call->padding[1];
  TermPointer term = result_term();
  if (call->bias) term = call_of(kernels::Function::add, {term, bias_term(*call->bias, out, 1)});
  const double flops = 2. * static_cast<double>(product(in)) * static_cast<double>(weight[1] * weight[2] * weight[3]);
  set_root(node, std::move(kernel), image_frame(out), flops, {0, 2, 3, 1}, std::move(term));
}

/// Nearest and bilinear, by sizes or factors.
FXX_INLINE void Lowering::resize(const Node& node, const Operator& op) {
  require_float(node);
  const Node& input = operand(node, op, op.parameters[0].name);
  const Sizes &in = sizes_of(input), &out = sizes_of(node);
  if (in.size() != 4 || product(out) == 0) throw NoKernel{"images without a batch"};
  Resize kernel;
  const std::string_view name = op.base_name();
  kernel.kind = name == "upsample_bilinear2d" ? Resize::Kind::bilinear : Resize::Kind::nearest;
  kernel.exact = name == "_upsample_nearest_exact2d";
  if (op.index_of("align_corners") >= 0) kernel.align_corners = argument(node, op, "align_corners").boolean();
  if (op.index_of("scale_factors") >= 0) {
    const Argument factors = argument(node, op, "scale_factors");
    if (factors.is_sequence() && factors.items().size() == 2 && factors.items()[0].is_number() &&
        factors.items()[1].is_number()) {
      kernel.scale_height = factors.items()[0].number();
      kernel.scale_width = factors.items()[1].number();
    }
  } else {
    const Argument h = argument(node, op, "scales_h"), w = argument(node, op, "scales_w");
    if (h.is_number()) kernel.scale_height = h.number();
    if (w.is_number()) kernel.scale_width = w.number();
  }
  kernel.in = image_of(input, {});
  if (kernel.in.strides[3] != in[1]) throw NoKernel{"an image whose pixels do not lie behind each other"};
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = in[2];
  kernel.in_width = in[3];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  set_root(node, std::move(kernel), image_frame(out), static_cast<double>(product(out)), {0, 2, 3, 1});
}

/// A batch norm that infers: a scale and a shift for each channel.
FXX_INLINE void Lowering::batch_norm(const Node& node, const Operator& op) {
  require_float(node);
  using F = kernels::Function;
  const Node& input = operand(node, op, "input");
  if (argument(node, op, "training").boolean()) throw NoKernel{"a batch norm in training"};
  const Node *weight = optional_operand(node, op, "weight"), *bias = optional_operand(node, op, "bias");
  const Node *mean = optional_operand(node, op, "running_mean"), *variance = optional_operand(node, op, "running_var");
  const Sizes& sizes = sizes_of(node);
  if (!mean || !variance || sizes.size() < 2) throw NoKernel{"a batch norm without statistics"};
  require_float(input);
  Joined joined = join({&input}, sizes);
  TermPointer scale =
      call_of(F::reciprocal_root,
              {call_of(F::add, {bias_term(*variance, sizes, 1), number_of(argument(node, op, "eps").number())})});
  if (weight) scale = call_of(F::multiply, {scale, bias_term(*weight, sizes, 1)});
  TermPointer term =
      call_of(F::multiply, {call_of(F::subtract, {term_of(input, sizes), bias_term(*mean, sizes, 1)}), scale});
  if (bias) term = call_of(F::add, {term, bias_term(*bias, sizes, 1)});
  set_pending(node, joined.root, std::move(term), std::move(joined.nodes));
}

FXX_INLINE void Lowering::group_norm(const Node& node, const Operator& op) {
  require_float(node);
  using F = kernels::Function;
  const Node& input = operand(node, op, "input");
  const Node *weight = optional_operand(node, op, "weight"), *bias = optional_operand(node, op, "bias");
  const Sizes sizes = sizes_of(node);
  if (sizes.size() < 3 || product(sizes) == 0) throw NoKernel{"a group norm of no pixels"};
  GroupNorm kernel;
  kernel.images = sizes[0];
  kernel.channels = sizes[1];
  kernel.groups = integer(argument(node, op, "num_groups"));
  kernel.pixels = product(sizes) / (sizes[0] * sizes[1]);
  kernel.eps = argument(node, op, "eps").number();
  // The kernel asks three times for each element: what computes it comes before.
  View view = view_of(input);
  if (sizes.size() == 4) view = image_of(input, {});
  kernel.input = load_of(view);
  Frame frame;
  frame.sizes = sizes;
  frame.axes = {{"image", sizes[0]}, {"pixel", kernel.pixels}, {"channel", sizes[1]}};
  frame.dims.resize(sizes.size());
  frame.dims[0] = {0, 1};
  frame.dims[1] = {2, 1};
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 2;) {
    frame.dims[d] = {1, step};
    step *= sizes[d];
  }
  kernel.read = frame;
  TermPointer term = result_term();
  if (weight) term = call_of(F::multiply, {term, bias_term(*weight, sizes, 1)});
  if (bias) term = call_of(F::add, {term, bias_term(*bias, sizes, 1)});
  Sizes order = {0};
  for (std::size_t d = 2; d < sizes.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
  order.push_back(1);
  set_root(node, std::move(kernel), std::move(frame), 8. * static_cast<double>(product(sizes)), std::move(order),
           std::move(term));
}

/// max_pool2d and avg_pool2d.
FXX_INLINE void Lowering::pool(const Node& node, const Operator& op) {
  require_float(node);
  const Node& input = operand(node, op, "self");
  const Sizes &in = sizes_of(input), &out = sizes_of(node);
  if (in.size() != 4 || product(out) == 0 || product(in) == 0) throw NoKernel{"images without a batch"};
  const Sizes size = integers(argument(node, op, "kernel_size"), 2),
              padding = integers(argument(node, op, "padding"), 2);
  Sizes stride = integers(argument(node, op, "stride"));
  if (stride.empty()) stride = size;
  if (stride.size() == 1) stride.push_back(stride[0]);
  Sizes dilation = {1, 1};
  Pooling kernel;
  if (op.base_name() == "max_pool2d") {
    dilation = integers(argument(node, op, "dilation"), 2);
  } else {
    if (!argument(node, op, "divisor_override").is_none()) throw NoKernel{"a divisor of its own"};
    if (argument(node, op, "ceil_mode").boolean()) throw NoKernel{"ceil_mode"};
    kernel.kind =
        argument(node, op, "count_include_pad").boolean() ? Pooling::Kind::mean : Pooling::Kind::mean_of_valid;
  }
  kernel.in = image_of(input, {});
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = in[2];
  kernel.in_width = in[3];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  kernel.kernel_height = size[0];
  kernel.kernel_width = size[1];
  kernel.stride_height = stride[0];
  kernel.stride_width = stride[1];
  kernel.padding_height = padding[0];
  kernel.padding_width = padding[1];
  kernel.dilation_height = dilation[0];
  kernel.dilation_width = dilation[1];
  const double flops = static_cast<double>(product(out) * size[0] * size[1]);
  set_root(node, std::move(kernel), image_frame(out), flops, {0, 2, 3, 1});
}

FXX_INLINE void Lowering::adaptive_pool(const Node& node, const Operator& op) {
  require_float(node);
  const Node& input = operand(node, op, "self");
  const Sizes &in = sizes_of(input), &out = sizes_of(node);
  if (in.size() != 4 || product(out) == 0 || in[2] % out[2] != 0 || in[3] % out[3] != 0)
    throw NoKernel{"windows of several sizes"};
  Pooling kernel;
  kernel.kind = Pooling::Kind::mean;
  kernel.in = image_of(input, {});
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = in[2];
  kernel.in_width = in[3];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  kernel.kernel_height = kernel.stride_height = in[2] / out[2];
  kernel.kernel_width = kernel.stride_width = in[3] / out[3];
  set_root(node, std::move(kernel), image_frame(out), static_cast<double>(product(in)), {0, 2, 3, 1});
}

/// The mean over all pixels, when the image lies channels last.
FXX_INLINE bool Lowering::mean_of_image(const Node& node, const Node& input, const Sizes& dims) {
  const Sizes& in = sizes_of(input);
  if (in.size() != 4 || dims != Sizes{2, 3}) return false;
  const View view = view_of(input);
  if (!lies_channels_last(view)) return false;
  Pooling kernel;
  kernel.kind = Pooling::Kind::mean;
  kernel.in = image_of(input, {});
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = kernel.kernel_height = kernel.stride_height = in[2];
  kernel.in_width = kernel.kernel_width = kernel.stride_width = in[3];
  Frame frame = image_frame({in[0], in[1], 1, 1});
  if (sizes_of(node).size() == 2) {
    frame.dims.resize(2);
    frame.sizes.resize(2);
  }
  set_root(node, std::move(kernel), std::move(frame), static_cast<double>(product(in)));
  return true;
}

}  // namespace fxx::inline FXX_ABI::plans
