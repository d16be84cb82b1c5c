// Joins a depthwise convolution with the pixelwise products before and behind it, so that what is wide between them needs
// some rows of memory and no more; and with what is computed element by element before it, or copied for its padding.
#pragma once

#include "fxx/codegen/lower/images.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Are the rows of the product all pixels of an image, one after the other? `pixels`: rows and columns of that image.
FXX_INLINE bool is_pixelwise(const KernelStep& step, const Convolution& filter, const Sizes& pixels) {
  const auto* k = std::get_if<MatrixProduct>(&step.kernel);
  const Frame& frame = step.frame;
  return k && !keeps_extremes(step) && k->batch == 1 && k->weights.constant && !k->weights.reduced && !k->quantised &&
         frame.sizes.size() == 4 && frame.sizes[0] == filter.images && frame.sizes[2] == pixels[0] &&
         frame.sizes[3] == pixels[1] && k->rows == filter.images * pixels[0] * pixels[1] &&
         k->columns == frame.sizes[1] && frame.dims.size() == 4 && frame.dims[0].divisor == pixels[0] * pixels[1] &&
         frame.dims[1].axis == 1 && frame.dims[2].divisor == pixels[1];
}

/// Is all that it reads of the image's sizes, channels behind each other, or the same for each of them?
FXX_INLINE bool reads_channels(const Term& term, const View& image) {
  if (term.kind == Term::Kind::lookup || term.kind == Term::Kind::search) return false;
  if (term.kind == Term::Kind::load &&
      (term.view.sizes != image.sizes || (term.view.strides[1] != 1 && term.view.strides[1] != 0)))
    return false;
  return std::ranges::all_of(term.operands, [&](const TermPointer& operand) { return reads_channels(*operand, image); });
}
/// Is it computed element by element, all pixels of an image, of what has its channels behind each other too?
FXX_INLINE bool is_elementwise(const KernelStep& step, const View& image) {
  return std::holds_alternative<Pointwise>(step.kernel) && step.frame.sizes == image.sizes && image.sizes.size() == 4 &&
         step.stores[0].kept == Store::Kept::all && reads_channels(*step.stores[0].value, image);
}

/// What lies between two kernels is this large before it is worth a row at a time: about what a core's second cache holds.
/// Below that it is there when the next kernel reads it, and threads, which each make the rows at their border, have more
/// to do.
inline constexpr std::int64_t least_bytes_between = 1 << 20;
/// The kernel that makes rows for a filter keeps a number for each of these on the stack. No filter that is worth
/// joining has as many rows.
inline constexpr std::int64_t most_rows_of_filter = 256;

FXX_INLINE void Lowering::join_rows() {
  // Is this all that is written to the buffer, by step `from`, and nobody but the next step reads it?
  const auto only_between = [&](const View& view, std::size_t from) {
    const Buffer& buffer = buffer_of(view.buffer);
    return buffer.kind == Buffer::Kind::arena && buffer.first == static_cast<int>(from) &&
           buffer.last == static_cast<int>(from) + 1;
  };
  const auto is_large = [&](const View& view) { return buffer_of(view.buffer).bytes() >= least_bytes_between; };
  const auto reads = [](const KernelStep& step, int buffer) {
    bool found = false;
    for (const Store& store : step.stores)
      for_each_load(*store.value, [&](const Term& load) { found = found || load.view.buffer == buffer; });
    return found;
  };
  std::vector<KernelStep> steps = std::move(plan_.steps), joined;
  std::vector<int> number(steps.size());  // of the step that each becomes, or becomes part of
  for (std::size_t i = 0; i < steps.size(); ++i) {
    KernelStep& step = steps[i];
    const auto* filter = std::get_if<Convolution>(&step.kernel);
    number[i] = static_cast<int>(joined.size());
    if (!filter || filter->method != Convolution::Method::depthwise || step.stores.size() != 1 ||
        filter->weights.offset != 0 ||  // part of a filter, which may begin within the image
        (filter->kernel_height - 1) * filter->dilation_height >= most_rows_of_filter) {
      joined.push_back(std::move(step));
      continue;
    }
    DepthwiseBlock block;
    block.filter = *filter;
    const int in = filter->in.buffer;
    const View out = step.stores[0].to;
    // Before: one store of all pixels, with what the filter reads around them.
    if (i > 0 && !joined.empty() && only_between(filter->in, i - 1) && !reads(step, in)) {
      const KernelStep& before = joined.back();
      const View to = before.stores.size() == 1 ? before.stores[0].to : View{};
      const Buffer& buffer = buffer_of(in);
      const bool fits = to.buffer == in && to.sizes == filter->in.sizes && to.sizes[1] == filter->channels &&
                        buffer.image.size() == 4 && buffer.image[3] == filter->channels;
      const bool multiplies = fits && is_pixelwise(before, *filter, {to.sizes[2], to.sizes[3]});
      if (multiplies || (fits && is_elementwise(before, to))) {
        const std::int64_t row = filter->in.strides[2], pixel = filter->in.strides[3],
                           ahead = to.offset - filter->in.offset;
        if (multiplies) block.expand = std::get<MatrixProduct>(before.kernel);
        block.expanded = before.stores[0].value;
        block.expanded_frame = image_frame(to.sizes);
        block.filter.in.buffer = -1;
        block.filter.padding_height = ahead / row;
        block.filter.padding_width = ahead % row / pixel;
      }
    }
    // Behind: reads the results as a matrix of all pixels.
    if (i + 1 < steps.size() && only_between(out, i)) {
      const KernelStep& next = steps[i + 1];
      if (is_pixelwise(next, *filter, {filter->out_height, filter->out_width}) && !reads(next, out.buffer)) {
        const auto& product = std::get<MatrixProduct>(next.kernel);
        if (product.a.buffer == out.buffer && product.a.offset == 0 && product.depth == filter->channels &&
            product.a_row == filter->channels) {
          block.project = product;
          block.filtered = step.stores[0].value;
          block.filtered_frame = step.frame;
        }
      }
    }
    if (block.expanded || block.project) {
      step.shape = shape_of(block);
      step.way = way_of(step.shape);
    }
    const auto is_apart = [&](const View& between) {
      return step.way.method == Way::Method::apart || (step.way.method != Way::Method::joined && !is_large(between));
    };
    const bool expands = block.expanded && !is_apart(filter->in), projects = block.project && !is_apart(out);
    if (block.expanded && !expands) {
      step.joinable.insert(step.joinable.end(), joined.back().nodes.begin(), joined.back().nodes.end());
      block.expand.reset();
      block.expanded.reset();
      block.expanded_frame.reset();
      block.filter = *filter;
    }
    if (block.project && !projects) {
      step.joinable.insert(step.joinable.end(), steps[i + 1].nodes.begin(), steps[i + 1].nodes.end());
      block.project.reset();
      block.filtered.reset();
      block.filtered_frame.reset();
    }
    if (!expands && !projects) {
      joined.push_back(std::move(step));
      continue;
    }
    if (block.expanded) {
      KernelStep& before = joined.back();
      step.nodes.insert(step.nodes.begin(), before.nodes.begin(), before.nodes.end());
      step.flops += before.flops;
      joined.pop_back();
      number[i] = number[i - 1];
    }
    if (block.project) {
      KernelStep& next = steps[++i];
      number[i] = number[i - 1];
      step.nodes.insert(step.nodes.end(), next.nodes.begin(), next.nodes.end());
      step.flops += next.flops;
      step.stores = std::move(next.stores);
      step.frame = image_frame(next.frame.sizes);
    }
    step.kernel = std::move(block);
    joined.push_back(std::move(step));
  }
  if (joined.size() == steps.size()) {
    plan_.steps = std::move(joined);
    return;
  }
  // Who writes and reads a buffer is counted anew.
  for (Buffer& buffer : plan_.buffers) buffer.first = buffer.last = -1;
  for (KernelStep& step : joined) {
    step.bytes = 0;
    add_step(std::move(step));
  }
  std::erase_if(plan_.values, [&](const PlanValue& value) { return buffer_of(value.view.buffer).first < 0; });
  for (PlanValue& value : plan_.values)
    if (value.steps > 0) value.steps = number[static_cast<std::size_t>(value.steps) - 1] + 1;
}

}  // namespace fxx::inline FXX_ABI::plans
