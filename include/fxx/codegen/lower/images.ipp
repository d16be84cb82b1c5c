// Lowering of convolutions and pooling. A sequence [batch, channels, length] is an image of one row.
#pragma once

#include <cmath>

#include "fxx/codegen/lower/estimate.ipp"
#include "fxx/codegen/lower/products.ipp"
#include "fxx/codegen/lower/rows.ipp"
#include "fxx/codegen/lower/standing.ipp"

namespace fxx::inline FXX_ABI::plans {

/// What a convolution is called with, in two dimensions, whatever its own are.
struct ConvolutionCall {
  const Node *input = nullptr, *weight = nullptr, *bias = nullptr;
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1}, groups = 1;
  std::int64_t kernel[2] = {1, 1}, first[2] = {0, 0};  // what is computed of the filter, and where that begins in it
  /// One pixel wide: computed as the one row that it is when turned, since tiles of sums are pixels of a row.
  bool column = false;
  bool lines = false;  // of one channel, a line at a time: its pixels are the channels of a column
};

/// Zeros that the node puts around its input, which is an image or a sequence; nothing where it is no such padding.
FXX_INLINE std::optional<Buffer::Border> zeros_around(const Node& node) {
  const Operator* op = known_operator(node);
  if (!op || (op->name != "aten::pad" && op->name != "aten::constant_pad_nd")) return {};
  const auto get = [&](std::string_view name) { return argument_or_default(node, *op, op->index_of(name)); };
  const Argument input = get("self"), pad = get("pad"), value = get("value");
  if (!input.is_node() || !pad.is_sequence()) return {};
  if (op->index_of("mode") >= 0)
    if (const Argument mode = get("mode"); mode.kind() != Argument::Kind::string || mode.string() != "constant")
      return {};
  if (!value.is_none() && (!value.is_number() || value.number() != 0 || std::signbit(value.number()))) return {};
  const TensorMeta *in = input.node()->tensor_meta(), *out = node.tensor_meta();
  if (!in || !out || in->is_dynamic() || out->is_dynamic() || !is_image(in->shape) || in->dtype != Dtype::float32 ||
      in->numel() == 0 || !is_countable(node))
    return {};
  std::int64_t amounts[4] = {};  // left, right, top, bottom
  const std::size_t most = in->dim() == 3 ? 2 : 4;
  for (std::size_t i = 0; i < pad.items().size(); ++i) {
    const Argument& item = pad.items()[i];
    if (item.kind() != Argument::Kind::integer || item.integer() < 0 || (i >= most && item.integer() != 0)) return {};
    if (i < most) amounts[i] = item.integer();
  }
  const Buffer::Border border{amounts[2], amounts[0], amounts[3], amounts[1]};
  if (border.empty()) return {};
  return border;
}
FXX_INLINE const Node& padded_input(const Node& pad) {
  const Operator& op = *known_operator(pad);
  return *argument_or_default(pad, op, op.index_of("self")).node();
}
/// Where padding is padded again, all of it.
FXX_INLINE Buffer::Border all_zeros_around(const Node& node) {
  Buffer::Border all;
  const Node* image = &node;
  while (const std::optional<Buffer::Border> zeros = zeros_around(*image)) {
    all = all.outside(*zeros);
    image = &padded_input(*image);
  }
  return all;
}

FXX_INLINE Convolution Lowering::convolution_of(const Node& node, const ConvolutionCall& call) const {
  const Sizes in = image_sizes(sizes_of(*call.input)), out = image_sizes(sizes_of(node));
  Convolution kernel;
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.out_channels = out[1];
  kernel.groups = call.groups;
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  kernel.kernel_height = call.kernel[0];
  kernel.kernel_width = call.kernel[1];
  kernel.stride_height = call.stride[0];
  kernel.stride_width = call.stride[1];
  kernel.dilation_height = call.dilation[0];
  kernel.dilation_width = call.dilation[1];
  if (call.lines) {
    kernel.channels = in[3];
    kernel.kernel_width = 1;
  }
  if (call.column) {
    std::swap(kernel.out_height, kernel.out_width);
    std::swap(kernel.kernel_height, kernel.kernel_width);
    std::swap(kernel.stride_height, kernel.stride_width);
    std::swap(kernel.dilation_height, kernel.dilation_width);
  }
  kernel.alone =
      options_.accuracy == Accuracy::standard && has_winograd(kernel) && !takes_bytes(node) && is_alone(node);
  return kernel;
}
FXX_INLINE bool Lowering::is_alone(const Node& convolution) const {
  if (options_.alone) return *options_.alone;
  const auto [known, fresh] = alone_.try_emplace(&convolution, false);
  if (fresh) known->second = stands_alone(convolution);
  return known->second;
}
/// How it is computed, and so how much of its input's surroundings it reads.
FXX_INLINE Convolution::Method Lowering::method_of(const Node& node, const ConvolutionCall& call) const {
  using Method = Convolution::Method;
  Convolution kernel = convolution_of(node, call);
  if (call.groups > 1)
    return call.groups == kernel.channels && kernel.out_channels == kernel.channels ? Method::depthwise
                                                                                    : Method::direct;
  const Way& way = options_.ways.empty() ? Way{} : way_of(shape_of(kernel));
  const Sizes in = image_sizes(sizes_of(*call.input)), out = image_sizes(sizes_of(node));
  if (call.kernel[0] == 1 && call.kernel[1] == 1 && call.stride[0] == 1 && call.stride[1] == 1 &&
      call.padding[0] == 0 && call.padding[1] == 0 && in[2] == out[2] && in[3] == out[3])
    return way.method == Way::Method::direct && !takes_bytes(node) ? Method::direct : Method::pixelwise;
  if (!has_winograd(kernel) || options_.accuracy == Accuracy::exact || !options_.finite_weights || takes_bytes(node))
    return Method::direct;
  if (way.method == Way::Method::direct) return Method::direct;
  if (way.method == Way::Method::winograd_2) return Method::winograd_2;
  if (way.method == Way::Method::winograd_4 && !kernel.alone) return Method::winograd_4;
  const auto cost = [&](Method method) {
    kernel.method = method;
    kernel.reduced = method == Method::direct && could_be_reduced(call);
    return cost_of(kernel, flops_per_byte());
  };
  Method best = Method::direct;
  if (cost(Method::winograd_2) < cost(best)) best = Method::winograd_2;
  if (!kernel.alone && cost(Method::winograd_4) < cost(best)) best = Method::winograd_4;
  return best;
}
FXX_INLINE Buffer::Border border_of(const ConvolutionCall& call, const Sizes& in, const Sizes& out,
                                    Convolution::Method method) {
  Buffer::Border border;
  std::int64_t rows, pixels;
  if (method == Convolution::Method::winograd_4 || method == Convolution::Method::winograd_2) {
    const std::int64_t side = method == Convolution::Method::winograd_4 ? 4 : 2;
    rows = (out[2] + side - 1) / side * side + 2;
    pixels = (out[3] + side - 1) / side * side + 2;
  } else {
    rows = (out[2] - 1) * call.stride[0] + (call.kernel[0] - 1) * call.dilation[0] + 1;
    pixels = (out[3] - 1) * call.stride[1] + (call.kernel[1] - 1) * call.dilation[1] + 1;
  }
  border.top = std::max<std::int64_t>(0, call.padding[0]);
  border.left = std::max<std::int64_t>(0, call.padding[1]);
  border.bottom = std::max<std::int64_t>(0, rows - call.padding[0] - in[2]);
  border.right = std::max<std::int64_t>(0, pixels - call.padding[1] - in[3]);
  return border;
}

FXX_INLINE bool Lowering::could_be_reduced(const ConvolutionCall& call) const {
  const Sizes& weight = sizes_of(*call.weight);
  const std::int64_t depth = product(weight) / weight[0];
  return options_.accuracy == Accuracy::fast && options_.processor.bfloat16_products && call.groups == 1 &&
         call.weight->opcode() == Opcode::get_attr && fewer_bits_pay(16, weight[0], depth, true);
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
  if (!is_convolution(node)) return {};
  const Operator* op = operator_of(node);
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
  const TensorMeta &in = *call.input->tensor_meta(), &w = *call.weight->tensor_meta(), &out = *node.tensor_meta();
  if ((in.dim() != 4 && in.dim() != 3) || w.dim() != in.dim() || in.is_dynamic() || out.is_dynamic() ||
      in.dtype != Dtype::float32 || out.numel() == 0 || in.numel() == 0)
    return {};
  const std::size_t first = in.dim() == 3 ? 1 : 0;  // a sequence has but the second number
  const auto pair = [&](std::string_view name, std::int64_t(&to)[2]) {
    const Argument value = get(name);
    for (std::size_t i = first; i < 2; ++i) {
      Argument item = value;
      if (value.is_sequence() && !value.items().empty())
        item = value.items()[std::min(i - first, value.items().size() - 1)];
      if (item.kind() != Argument::Kind::integer) return false;
      to[i] = item.integer();
    }
    return true;
  };
  if (!pair("stride", call.stride) || !pair("dilation", call.dilation)) return {};
  if (const Argument padding = get("padding"); padding.kind() == Argument::Kind::string) {
    if (padding.string() != "same" && padding.string() != "valid") return {};
    const Sizes kernel = image_sizes(w.shape);
    for (std::size_t i = first; i < 2 && padding.string() == "same"; ++i)
      call.padding[i] = (kernel[i + 2] - 1) * call.dilation[i] / 2;  // of an odd number the rest is behind
  } else if (!pair("padding", call.padding)) {
    return {};
  }
  if (is_transposed(node) && call.groups > 1) return {};
  const Sizes filter = image_sizes(w.shape), of = image_sizes(in.shape), to = image_sizes(out.shape);
  for (std::size_t i = 0; i < 2; ++i) call.kernel[i] = filter[i + 2];
  if (!is_transposed(node) && to[3] == 1 && to[2] > 1 && call.padding[1] == 0) {
    call.column = of[3] == 1 && filter[3] == 1;
    call.lines = of[3] > 1 && filter[3] == of[3] && call.dilation[1] == 1 && of[1] == 1 && call.groups == 1;
    call.column = call.column || call.lines;
  }
  return call;
}

/// The same without the edges of the filter that meet nothing but zeros around the image, wherever it is.
FXX_INLINE std::optional<ConvolutionCall> Lowering::call_of_convolution(const Node& node) const {
  std::optional<ConvolutionCall> call = convolution_call(node);
  if (!call || is_transposed(node) || !options_.finite_weights) return call;
  const Sizes out = image_sizes(sizes_of(node));
  Sizes in = image_sizes(sizes_of(*call->input));
  const Buffer::Border zeros = all_zeros_around(*call->input);
  in[2] -= zeros.top + zeros.bottom;
  in[3] -= zeros.left + zeros.right;
  const std::int64_t before[2] = {call->padding[0] + zeros.top, call->padding[1] + zeros.left};
  const auto whole = [](std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : 0; };
  for (std::size_t i = 0; i < 2; ++i) {
    if (call->lines && i == 1) continue;
    const std::int64_t first = whole(before[i] - (out[i + 2] - 1) * call->stride[i], call->dilation[i]);
    const std::int64_t end = std::min(call->kernel[i], whole(in[i + 2] + before[i], call->dilation[i]));
    if (first >= end) continue;  // nothing is left
    call->first[i] = first;
    call->kernel[i] = end - first;
    call->padding[i] -= first * call->dilation[i];
  }
  return call;
}

FXX_INLINE bool Lowering::is_endless(const Node& weight) const {
  const auto* attribute = std::get_if<GetAttr>(&weight.op());
  return attribute && std::ranges::count(options_.endless_weights, attribute->target) > 0;
}

FXX_INLINE bool Lowering::calls_library(const Node& node, const ConvolutionCall& call) const {
  if (options_.ways.empty()) return false;
  Convolution kernel = convolution_of(node, call);
  if (is_transposed(node)) kernel.method = Convolution::Method::transposed;
  return !takes_bytes(node) && is_left_to_library(kernel);
}

/// Does a kernel of images read the node, or what is computed of it element by element?
FXX_INLINE bool Lowering::is_read_as_image(const Node& node, int depth) const {
  return std::ranges::any_of(users_of(node), [&](const Node* user) {
    if (const auto call = convolution_call(*user)) return call->input == &node;
    const Operator* op = known_operator(*user);
    if (!op) return false;
    const std::string_view name = op->base_name();
    if (name.starts_with("max_pool") || name.starts_with("avg_pool")) return true;
    return depth > 0 && (zeros_around(*user) || is_pointwise(*user) || name.starts_with("fake_quantize")) &&
           is_read_as_image(*user, depth - 1);
  });
}
FXX_INLINE bool Lowering::becomes_border(const Node& pad) const {
  return zeros_around(pad) && is_read_as_image(pad, 4) && !is_written(pad) && !is_written(padded_input(pad));
}
FXX_INLINE void Lowering::pad_by_border(const Node& node) {
  const Node& input = padded_input(node);
  const Buffer::Border zeros = *zeros_around(node);
  View view = image_of(input, zeros.outside(border_wanted(node)));
  view.offset -= zeros.top * view.strides[2] + zeros.left * view.strides[3];
  view.sizes[2] += zeros.top + zeros.bottom;
  view.sizes[3] += zeros.left + zeros.right;
  if (sizes_of(node).size() == 3) {
    view.sizes.erase(view.sizes.begin() + 2);
    view.strides.erase(view.strides.begin() + 2);
  }
  set_view(node, std::move(view), Dtype::float32);
}

/// The largest border that a convolution among the users of the value reads.
FXX_INLINE Buffer::Border Lowering::border_wanted(const Node& node, Dtype as) const {
  Buffer::Border border;
  for (const Node* user : users_of(node)) {
    if (as == Dtype::float32 && becomes_border(*user)) {
      // The padded image is this one with its border, and reads what is around that.
      border = border.around(zeros_around(*user)->outside(border_wanted(*user)));
      continue;
    }
    const std::optional<ConvolutionCall> call = call_of_convolution(*user);
    if (!call || call->input != &node || read_as(*user) != as || calls_library(*user, *call)) continue;
    const Sizes in = image_sizes(sizes_of(node)), weight = image_sizes(sizes_of(*call->weight)),
                out = image_sizes(sizes_of(*user));
    border = border.around(is_transposed(*user) ? border_of_transposed(*call, in, weight, out)
                                                : border_of(*call, in, out, method_of(*user, *call)));
  }
  return border;
}

FXX_INLINE View Lowering::as_image(const View& of) const {
  View view = with_row(of);
  if (const Sizes& image = buffer_of(view.buffer).image; view.sizes[2] == 1)
    view.strides[2] =
        !image.empty() && image[3] == view.strides[3] ? image[2] * image[3] : view.sizes[3] * view.strides[3];
  else if (view.sizes[3] == 1) view.strides[3] = image.empty() ? view.strides[2] : image[3];
  return view;
}

FXX_INLINE Dtype Lowering::read_as(const Node& convolution) const {
  if (takes_bytes(convolution)) return Dtype::uint8;
  const std::optional<ConvolutionCall> call = call_of_convolution(convolution);
  if (!call || is_transposed(convolution) || !could_be_reduced(*call) || calls_library(convolution, *call) ||
      method_of(convolution, *call) != Convolution::Method::direct)
    return Dtype::float32;
  const Way& way = way_of(shape_of(convolution_of(convolution, *call)));
  return way.packed == Way::Packed::float32 ? Dtype::float32 : Dtype::bfloat16;
}

FXX_INLINE bool Lowering::only_reduced(const Node& node) const {
  return is_image(sizes_of(node)) && std::ranges::all_of(node.users(), [&](const Node* user) {
           return !regions_.contains(user) && is_convolution(*user) && convolution_call(*user) &&
                  convolution_call(*user)->input == &node && read_as(*user) == Dtype::bfloat16;
         });
}

FXX_INLINE View Lowering::reduced_image(const Node& node) {
  if (const auto known = reduced_.find(&node); known != reduced_.end()) return known->second;
  Value value;
  if (value_of(node).kind == Value::Kind::pending && only_reduced(node)) {
    value = value_of(node);
  } else {
    value.kind = Value::Kind::pending;
    value.term = load_of(view_of(node));
    value.nodes = {&node};
  }
  value.dtype = Dtype::bfloat16;
  const View to = place_image(node, sizes_of(node), border_wanted(node, Dtype::bfloat16), Dtype::bfloat16);
  emit(std::move(value), to);
  return reduced_[&node] = to;
}

/// The image, or sequence, channels last with this border at least: where it lies, or a copy.
FXX_INLINE View Lowering::image_of(const Node& node, const Buffer::Border& border) {
  const View view = as_image(view_of(node));
  const bool sequence = sizes_of(node).size() == 3;
  const auto fits = [&](const View& at) {
    if (at.strides[1] != 1 && at.sizes[1] != 1) return false;
    for (const std::size_t d : {0, 2})
      if (at.sizes[d] != 1 && at.strides[d] == 0) return false;  // to kernels, 0 is what is usual
    const Buffer& buffer = buffer_of(at.buffer);
    // Somebody else's: rows of pixels of any length, if nothing around it is needed.
    if (buffer.image.empty() || (sequence && border.empty()))
      return border.empty() && at.strides[3] >= at.sizes[1] && at.strides[2] % at.strides[3] == 0;
    const Sizes& image = buffer.image;
    if (at.strides[3] != image[3] || at.strides[2] != image[2] * image[3]) return false;
    // What lies around it, all of which is border where it has all that is none.
    const std::int64_t first = at.offset / image[3] % (image[1] * image[2]);
    Buffer::Border around{first / image[2], first % image[2], 0, 0};
    around.bottom = image[1] - around.top - at.sizes[2];
    around.right = image[2] - around.left - at.sizes[3];
    return around.around(border) == around && buffer.border.around(around) == buffer.border;
  };
  if (fits(view)) return view;
  if (const auto placed = images_.find(&node); placed != images_.end() && fits(placed->second)) return placed->second;
  const View to = place_image(node, image_sizes(sizes_of(node)), border.around(border_wanted(node)));
  Value copy;
  copy.term = load_of(view);
  copy.nodes = {&node};
  emit(std::move(copy), to);
  images_[&node] = to;
  return to;
}

FXX_INLINE Frame image_frame(const Sizes& sizes) {
  Frame frame;
  const Sizes image = image_sizes(sizes);
  frame.axes = {{"image", image[0]}, {"y", image[2]}, {"x", image[3]}, {"channel", image[1]}};
  frame.dims = {{0, 1}, {3, 1}, {1, 1}, {2, 1}};
  if (sizes.size() == 3) frame.dims.erase(frame.dims.begin() + 2);
  frame.sizes = sizes;
  return frame;
}
/// Dimensions from the outermost in memory.
FXX_INLINE Sizes channels_last(const Sizes& sizes) { return sizes.size() == 3 ? Sizes{0, 2, 1} : Sizes{0, 2, 3, 1}; }
/// Two numbers, of images; of sequences the second, and this before it.
FXX_INLINE Sizes two_numbers(Sizes numbers, const Sizes& sizes, std::int64_t of_row) {
  if (sizes.size() == 3) numbers.insert(numbers.begin(), of_row);
  else if (numbers.size() == 1) numbers.push_back(numbers[0]);
  return numbers;
}
/// Is the tensor what this operator calls a batch of images, or of sequences?
FXX_INLINE void require_batch(const Operator& op, const Sizes& sizes) {
  if (sizes.size() != (op.base_name().ends_with("1d") ? 3 : 4)) throw NoKernel{"images without a batch"};
}

/// Of a convolution, as those of an image.
FXX_INLINE View Lowering::image_weights(const Node& node) {
  const View view = view_of(node);
  if (buffer_of(view.buffer).kind != Buffer::Kind::constant) throw NoKernel{"a convolution whose weights are computed"};
  return with_row(view);
}

/// Does the caller get the value, or what is computed of it element by element, and nothing else?
FXX_INLINE bool Lowering::is_only_given(const Node& node, int depth) const {
  return std::ranges::all_of(node.users(), [&](const Node* user) {
    return user->opcode() == Opcode::output ||
           (depth > 0 && is_pointwise(*user) && user->tensor_meta() && user->tensor_meta()->shape == sizes_of(node) &&
            is_only_given(*user, depth - 1));
  });
}
/// A filter of each channel along sequences that lie and are wanted with times behind each other.
FXX_INLINE bool Lowering::filter_where_it_lies(const Node& node, const ConvolutionCall& call) {
  const Sizes &sizes = sizes_of(node), in = image_sizes(sizes_of(*call.input)), out = image_sizes(sizes);
  const std::int64_t stride = call.stride[1];
  if (sizes.size() != 3 || call.groups != in[1] || in[1] != out[1] || in[1] == 1 || out[3] < 16 ||
      (stride != 1 && stride != 2 && stride != 4) || (call.kernel[1] - 1) * call.dilation[1] > 1024 ||
      call.padding[1] < 0 || takes_bytes(node) || value_of(*call.input).kind == Value::Kind::pending ||
      !is_only_given(node, 4))
    return false;
  const View from = as_image(view_of(*call.input)), weights = image_weights(*call.weight);
  if (from.strides[3] != 1 || from.strides[1] < from.sizes[3] ||
      weights.strides[0] != call.kernel[1] || (call.kernel[1] > 1 && weights.strides[3] != 1))
    return false;
  Convolution kernel = convolution_of(node, call);
  kernel.method = Convolution::Method::depthwise_sequences;
  kernel.in = from;
  kernel.padding_width = call.padding[1];
  kernel.weights = weights;
  TermPointer term = result_term();
  if (call.bias) term = call_of(kernels::Function::add, {term, bias_term(*call.bias, sizes, 1)});
  Frame frame;
  frame.sizes = sizes;
  frame.axes = {{"image", out[0]}, {"channel", out[1]}, {"x", out[3]}};
  frame.dims = {{0, 1}, {1, 1}, {2, 1}};
  const double flops = 2. * static_cast<double>(product(out) * call.kernel[1]);
  set_root(node, std::move(kernel), std::move(frame), flops, {}, std::move(term));
  return true;
}
/// A sequence of one channel, or of windows of one element, that lies and is wanted with times behind each other: weights
/// times a matrix whose rows are the sequence from each element of the window on, with times in vectors. Nothing is
/// turned then, nor copied but for padding.
FXX_INLINE bool Lowering::convolution_where_it_lies(const Node& node, const ConvolutionCall& call) {
  const Sizes &sizes = sizes_of(node), in = image_sizes(sizes_of(*call.input)), out = image_sizes(sizes);
  const bool single = call.kernel[1] == 1 && in[3] == out[3] && call.padding[1] == 0;
  if (sizes.size() != 3 || call.groups != 1 || call.stride[1] != 1 || !(single || in[1] == 1) || out[3] < 16 ||
      options_.accuracy == Accuracy::fast || takes_bytes(node) || !is_only_given(node, 4) ||
      value_of(*call.input).kind == Value::Kind::pending)
    return false;
  View weights = image_weights(*call.weight);
  const std::size_t depth = single ? 1 : 3;
  if (buffer_of(weights.buffer).kind != Buffer::Kind::constant || (weights.sizes[depth] > 1 && weights.strides[depth] != 1))
    return false;
  MatrixProduct matrix;
  matrix.batch = in[0];
  matrix.rows = out[1];
  matrix.columns = out[3];
  matrix.depth = single ? in[1] : call.kernel[1];
  View from;
  if (in[1] == 1) {
    from = image_of(*call.input, border_of(call, in, out, Convolution::Method::direct));
    from.offset -= call.padding[1] * from.strides[3];
    if (from.strides[3] != 1) return false;
  } else {
    from = as_image(view_of(*call.input));
    if (from.strides[3] != 1 || from.strides[1] < from.sizes[3]) return false;
  }
  weights.offset += call.first[1] * weights.strides[3];
  matrix.a = {weights.buffer, weights.offset, {matrix.rows, matrix.depth}, {weights.strides[0], 1}};
  matrix.a_row = weights.strides[0];
  matrix.weights.constant = false;
  matrix.weights.view = {
      from.buffer, from.offset, {matrix.columns, matrix.depth}, {1, in[1] == 1 ? call.dilation[1] : from.strides[1]}};
  for (std::int64_t image = 0; image < in[0]; ++image) {
    matrix.a_batch.push_back(0);
    matrix.weights_batch.push_back(image * from.strides[0]);
  }
  TermPointer term = result_term();
  if (call.bias) term = call_of(kernels::Function::add, {term, bias_term(*call.bias, sizes, 1)});
  const double flops = 2. * static_cast<double>(product(out) * matrix.depth);
  choose_weights(matrix, way_of(shape_of(matrix)));
  if (in[1] == 1) matrix.reading = MatrixProduct::Reading::by_rows;  // it is much smaller than what is made of it
  Frame frame;
  frame.sizes = sizes;
  if (matrix.batch > 1) {
    frame.axes = {{"matrix", matrix.batch}, {"row", matrix.rows}, {"column", matrix.columns}};
    frame.dims = {{0, 1}, {1, 1}, {2, 1}};
  } else {
    frame.axes = {{"row", matrix.rows}, {"column", matrix.columns}};
    frame.dims = {{0, matrix.rows}, {0, 1}, {1, 1}};
  }
  set_root(node, std::move(matrix), std::move(frame), flops, {}, std::move(term));
  return true;
}

FXX_INLINE void Lowering::convolution(const Node& node, const Operator&) {
  require_float(node);
  std::optional<ConvolutionCall> call = call_of_convolution(node);
  if (!call) throw NoKernel{"a convolution of this kind"};
  const Sizes in = image_sizes(sizes_of(*call->input)), out = image_sizes(sizes_of(node)), &sizes = sizes_of(node);
  if (calls_library(node, *call)) throw NoKernel{std::string(left_to_library)};
  if ((call->padding[0] != 0 || call->padding[1] != 0) && is_endless(*call->weight))
    throw NoKernel{"weights that are not finite, and zeros around the image"};
  if (convolution_where_it_lies(node, *call) || filter_where_it_lies(node, *call)) return;
  const Convolution::Method method = method_of(node, *call);
  const Buffer::Border border = border_of(*call, in, out, method);
  Convolution kernel = convolution_of(node, *call);
  kernel.method = method;
  const Dtype as = read_as(node);
  const bool bytes = as == Dtype::uint8;
  if (bytes) kernel.quantised = quantised_layer(node, *call->input, out[1]);
  kernel.reduced = as == Dtype::bfloat16;
  kernel.in = bytes            ? as_image(bytes_.at(call->input))
              : kernel.reduced ? as_image(reduced_image(*call->input))
                               : image_of(*call->input, border);
  if (call->lines && kernel.in.strides[3] != 1) {
    call->column = call->lines = false;
    Convolution plain = convolution_of(node, *call);
    plain.method = kernel.method;
    plain.quantised = kernel.quantised;
    plain.reduced = kernel.reduced;
    plain.in = std::move(kernel.in);
    kernel = std::move(plain);
  }
  kernel.weights = image_weights(*call->weight);
  for (std::size_t i = 0; i < 2; ++i) {
    kernel.weights.offset += call->first[i] * kernel.weights.strides[i + 2];
    kernel.weights.sizes[i + 2] = call->kernel[i];
  }
  TermPointer term = result_term();
  if (call->bias) term = call_of(kernels::Function::add, {term, bias_term(*call->bias, sizes, 1)});
  const double flops = 2. * static_cast<double>(product(out)) *
                       static_cast<double>(kernel.weights.sizes[1] * call->kernel[0] * call->kernel[1]);
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
      frame.sizes = sizes;
      frame.axes = {{"row", matrix.rows}, {"column", out[1]}};
      frame.dims = {{0, out[2] * out[3]}, {1, 1}, {0, out[3]}, {0, 1}};
      if (sizes.size() == 3) frame.dims.erase(frame.dims.begin() + 2);
      matrix.quantised = kernel.quantised;
      std::string shape = shape_of(kernel);
      choose_weights(matrix, way_of(shape));
      return set_root(node, std::move(matrix), std::move(frame), flops, channels_last(sizes), std::move(term), {},
                      std::move(shape));
    }
    kernel.method = Convolution::Method::direct;
  }
  kernel.in.offset -= call->padding[0] * kernel.in.strides[2] + call->padding[1] * kernel.in.strides[3];
  const Buffer::Border zeros = all_zeros_around(*call->input);
  kernel.in.sizes[2] -= zeros.top + zeros.bottom;
  kernel.in.sizes[3] -= zeros.left + zeros.right;
  Frame frame = image_frame(sizes);
  if (call->column) {
    for (View* view : {&kernel.in, &kernel.weights}) {
      if (call->lines) {
        view->sizes[1] = view->sizes[3];
        view->strides[1] = view->strides[3];
        view->sizes[3] = 1;
      }
      std::swap(view->sizes[2], view->sizes[3]);
      view->strides[3] = view->strides[2];
      view->strides[2] = view->sizes[3] * view->strides[3];
    }
    std::swap(frame.axes[1].extent, frame.axes[2].extent);
    std::swap(frame.dims[2], frame.dims[3]);
  }
  set_root(node, std::move(kernel), std::move(frame), flops, channels_last(sizes), std::move(term));
}

/// The term for a slice of what it is of, which begins there; nothing where it reads what has other sizes.
FXX_INLINE TermPointer slice_of(const TermPointer& term, const Sizes& sizes, std::size_t dim, std::int64_t start,
                                std::int64_t length, std::unordered_map<const Term*, TermPointer>& known) {
  if (const auto found = known.find(term.get()); found != known.end()) return found->second;
  Term made = *term;
  for (TermPointer& operand : made.operands)
    if (operand = slice_of(operand, sizes, dim, start, length, known); !operand) return {};
  if (!made.view.sizes.empty()) {
    if (made.view.sizes != sizes) return {};
    made.view.offset += start * made.view.strides[dim];
    made.view.sizes[dim] = length;
  }
  return known[term.get()] =
             term->operands.empty() && term->view.sizes.empty() ? term : std::make_shared<const Term>(std::move(made));
}
/// Of a convolution whose slice alone is read, as behind one that is causal and padded on both sides, the slice is what
/// is computed.
FXX_INLINE bool Lowering::convolve_slice(const Node& node, const Node& input, std::size_t dim, std::int64_t start) {
  const Value& value = value_of(input);
  const auto* whole = value.root ? std::get_if<Convolution>(&value.root->kernel) : nullptr;
  const Sizes &from = sizes_of(input), &sizes = sizes_of(node);
  if (value.kind != Value::Kind::pending || !whole || input.num_users() != 1 || is_written(input) || is_written(node) ||
      value.root->frame.sizes != from || product(sizes) == 0 || whole->method == Convolution::Method::transposed)
    return false;
  // Winograd's algorithm reads whole tiles, which end in the border where the first begins at the first pixel.
  using Method = Convolution::Method;
  if (start != 0 && (whole->method == Method::winograd_2 || whole->method == Method::winograd_4)) return false;
  Root root = *value.root;
  const int axis = root.frame.dims[dim].axis;
  if ((axis != 1 && axis != 2) || root.frame.dims[dim].divisor != 1) return false;
  std::unordered_map<const Term*, TermPointer> known;
  TermPointer term = slice_of(value.term, from, dim, start, sizes[dim], known);
  if (!term) return false;
  auto& kernel = std::get<Convolution>(root.kernel);
  if (axis == 1) {
    kernel.out_height = sizes[dim];
    kernel.in.offset += start * kernel.stride_height * kernel.in.strides[2];
  } else {
    kernel.out_width = sizes[dim];
    kernel.in.offset += start * kernel.stride_width * kernel.in.strides[3];
  }
  root.frame.sizes = sizes;
  root.frame.axes[static_cast<std::size_t>(axis)].extent = sizes[dim];
  root.flops *= static_cast<double>(sizes[dim]) / static_cast<double>(from[dim]);
  root.shape = shape_of(root.kernel);
  std::vector<const Node*> nodes = value.nodes;
  value_of(input) = {};
  set_pending(node, std::make_shared<const Root>(std::move(root)), std::move(term), std::move(nodes));
  return true;
}

FXX_INLINE void Lowering::transposed_convolution(const Node& node, const Operator&) {
  require_float(node);
  const std::optional<ConvolutionCall> call = convolution_call(node);
  if (!call) throw NoKernel{"a transposed convolution of this kind"};
  if (is_endless(*call->weight)) throw NoKernel{"weights that are not finite, and zeros around the image"};
  const Sizes in = image_sizes(sizes_of(*call->input)), weight = image_sizes(sizes_of(*call->weight)),
              out = image_sizes(sizes_of(node)), &sizes = sizes_of(node);
  const Buffer::Border border = border_of_transposed(*call, in, weight, out);
  Convolution kernel = convolution_of(node, *call);
  kernel.method = Convolution::Method::transposed;
  require_no_library(kernel);
  kernel.in = image_of(*call->input, border);
  kernel.in.offset -= border.left * kernel.in.strides[3];
  const View w = image_weights(*call->weight);
  kernel.weights = {w.buffer,
                    w.offset,
                    {w.sizes[1], w.sizes[0], w.sizes[2], w.sizes[3]},
                    {w.strides[1], w.strides[0], w.strides[2], w.strides[3]}};
  kernel.padding_height = call->padding[0];
  kernel.padding_width = call->padding[1];
  TermPointer term = result_term();
  if (call->bias) term = call_of(kernels::Function::add, {term, bias_term(*call->bias, sizes, 1)});
  const double flops = 2. * static_cast<double>(product(in)) * static_cast<double>(weight[1] * weight[2] * weight[3]);
  set_root(node, std::move(kernel), image_frame(sizes), flops, channels_last(sizes), std::move(term));
}

/// Nearest and bilinear, by sizes or factors.
FXX_INLINE void Lowering::resize(const Node& node, const Operator& op) {
  require_float(node);
  const Node& input = operand(node, op, op.parameters[0].name);
  const Sizes &sizes = sizes_of(node), in = image_sizes(sizes_of(input)), out = image_sizes(sizes);
  require_batch(op, sizes);
  if (product(out) == 0 || product(in) == 0) throw NoKernel{"images of nothing"};
  Resize kernel;
  const std::string_view name = op.base_name();
  kernel.kind = name.find("linear") != name.npos ? Resize::Kind::bilinear : Resize::Kind::nearest;
  kernel.exact = name.starts_with("_upsample_nearest_exact");
  if (op.index_of("align_corners") >= 0) kernel.align_corners = argument(node, op, "align_corners").boolean();
  if (op.index_of("scale_factors") >= 0) {
    const Argument factors = argument(node, op, "scale_factors");
    if (factors.is_sequence() && factors.items().size() == sizes.size() - 2 && factors.items().front().is_number() &&
        factors.items().back().is_number()) {
      if (sizes.size() == 4) kernel.scale_height = factors.items().front().number();
      kernel.scale_width = factors.items().back().number();
    }
  } else {
    const Argument w = argument(node, op, sizes.size() == 3 ? "scales" : "scales_w");
    if (w.is_number()) kernel.scale_width = w.number();
    if (sizes.size() == 4)
      if (const Argument h = argument(node, op, "scales_h"); h.is_number()) kernel.scale_height = h.number();
  }
  // With as many pixels as before, or twice as many, it depends on the layout whether LibTorch minds the factor.
  const auto is_ignored = [](std::int64_t from, std::int64_t to, double factor) {
    return factor > 0 && ((to == from && factor != 1) || (to == 2 * from && factor != 2));
  };
  if (kernel.kind == Resize::Kind::nearest && !kernel.exact &&
      (is_ignored(in[2], out[2], kernel.scale_height) || is_ignored(in[3], out[3], kernel.scale_width)))
    throw NoKernel{"a factor that is not that of the sizes"};
  kernel.in = image_of(input, {});
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = in[2];
  kernel.in_width = in[3];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  set_root(node, std::move(kernel), image_frame(sizes), static_cast<double>(product(out)), channels_last(sizes));
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

/// max_pool and avg_pool.
FXX_INLINE void Lowering::pool(const Node& node, const Operator& op) {
  require_float(node);
  const Node& input = operand(node, op, "self");
  const Sizes &sizes = sizes_of(node), in = image_sizes(sizes_of(input)), out = image_sizes(sizes);
  require_batch(op, sizes);
  if (product(out) == 0 || product(in) == 0) throw NoKernel{"images of nothing"};
  const auto pair = [&](std::string_view name, std::int64_t of_row) {
    return two_numbers(integers(argument(node, op, name)), sizes, of_row);
  };
  const Sizes size = pair("kernel_size", 1), padding = pair("padding", 0);
  const Sizes stride = integers(argument(node, op, "stride")).empty() ? size : pair("stride", 1);
  Sizes dilation = {1, 1};
  Pooling kernel;
  if (op.base_name().starts_with("max_pool")) {
    dilation = pair("dilation", 1);
  } else {
    if (op.index_of("divisor_override") >= 0)
      if (const Argument divisor = argument(node, op, "divisor_override"); !divisor.is_none())
        kernel.divisor = divisor.integer();
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
  set_root(node, std::move(kernel), image_frame(sizes), flops, channels_last(sizes));
}

/// The mean of one row as that of several, as far as it has divisors: sums of many pixels swallow the later ones.
FXX_INLINE void sum_in_rows(Pooling& kernel) {
  if (kernel.in_height != 1 || kernel.out_width != 1) return;
  std::int64_t rows = 1;
  for (std::int64_t i = 2; i * i <= kernel.in_width; ++i)
    if (kernel.in_width % i == 0) rows = i;
  kernel.in_height = kernel.kernel_height = kernel.stride_height = rows;
  kernel.in_width = kernel.kernel_width = kernel.stride_width = kernel.in_width / rows;
  kernel.in.sizes[2] = kernel.in_height;
  kernel.in.sizes[3] = kernel.in_width;
  kernel.in.strides[2] = kernel.in_width * kernel.in.strides[3];
}
/// Pooling to a size.
FXX_INLINE void Lowering::pool_to_size(const Node& node, const Node& input, Pooling::Kind kind) {
  require_float(node);
  const Sizes &sizes = sizes_of(node), in = image_sizes(sizes_of(input)), out = image_sizes(sizes);
  if (product(out) == 0 || product(in) == 0) throw NoKernel{"images of nothing"};
  Pooling kernel;
  kernel.adaptive = in[2] % out[2] != 0 || in[3] % out[3] != 0;
  kernel.kind = kind;
  kernel.in = image_of(input, {});
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = in[2];
  kernel.in_width = in[3];
  kernel.out_height = out[2];
  kernel.out_width = out[3];
  kernel.kernel_height = kernel.stride_height = (in[2] + out[2] - 1) / out[2];
  kernel.kernel_width = kernel.stride_width = (in[3] + out[3] - 1) / out[3];
  if (kind == Pooling::Kind::mean && !kernel.adaptive) sum_in_rows(kernel);
  set_root(node, std::move(kernel), image_frame(sizes), static_cast<double>(product(in)), channels_last(sizes));
}
FXX_INLINE void Lowering::adaptive_pool(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  require_batch(op, sizes_of(input));
  pool_to_size(node, input, Pooling::Kind::mean);
}
/// Of the two results the first.
FXX_INLINE void Lowering::adaptive_max_pool(const Node& node, const Operator& op) {
  const Node& input = operand(node, op, "self");
  require_batch(op, sizes_of(input));
  for (const Node* user : node.users())
    if (user->args().size() != 2 || user->arg(1).kind() != Argument::Kind::integer || user->arg(1).integer() != 0)
      throw NoKernel{"the places of what is largest"};
  with_results(node, {[&](const Node& values) { pool_to_size(values, input, Pooling::Kind::largest); }});
}

/// The mean over all pixels, when the image lies channels last.
FXX_INLINE bool Lowering::mean_of_image(const Node& node, const Node& input, const Sizes& dims) {
  const Sizes& sizes = sizes_of(input);
  if (meta_of(input).dtype != Dtype::float32) return false;
  if (!is_image(sizes) || dims != last_dims(sizes.size(), sizes.size() - 2)) return false;
  // The mean over rows of any other tensor takes what is computed of it into its loop.
  const Value& value = value_of(input);
  if (sizes.size() == 3 && value.kind == Value::Kind::pending && !(value.root && is_image_kernel(*value.root)))
    return false;
  const View view = view_of(input);
  if (!lies_channels_last(view)) return false;
  const Sizes in = image_sizes(sizes);
  Pooling kernel;
  kernel.kind = Pooling::Kind::mean;
  kernel.in = image_of(input, {});
  kernel.images = in[0];
  kernel.channels = in[1];
  kernel.in_height = kernel.kernel_height = kernel.stride_height = in[2];
  kernel.in_width = kernel.kernel_width = kernel.stride_width = in[3];
  sum_in_rows(kernel);
  Frame frame = image_frame({in[0], in[1], 1, 1});
  frame.dims.resize(sizes_of(node).size());
  frame.sizes.resize(sizes_of(node).size());
  set_root(node, std::move(kernel), std::move(frame), static_cast<double>(product(in)));
  return true;
}

}  // namespace fxx::inline FXX_ABI::plans
