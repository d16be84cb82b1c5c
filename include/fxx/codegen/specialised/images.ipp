// Convolutions, pooling and the resizing of images as C++, with the shapes that their kernels are made for.
#pragma once

#include "fxx/codegen/specialised/loops.ipp"
#include "fxx/codegen/specialised/products.ipp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string SpecialisedWriter::convolution(Body& body, const KernelStep& step, const plans::Convolution& k) {
  include("loops");
  using Method = plans::Convolution::Method;
  const std::string row = text(k.in.strides[2] / k.in.strides[3]), pixel = text(k.in.strides[3]),
                    image = text(k.in.strides[0]);
  const std::string in = pointer(body, k.in, false, "in");
  const View& w = k.weights;
  const std::string weights = "ImageWeights{$from, " + text(w.strides[0]) + ", " + text(w.strides[1]) + ", " +
                              text(w.strides[2]) + ", " + text(w.strides[3]) + "}";
  if (k.method == Method::depthwise_sequences) {
    include("depthwise");
    const std::string name = shape(
        "SequenceShape",
        "{.channels = " + text(k.channels) + ", .length = " + text(k.in.sizes[3]) + ", .out_length = " +
            text(k.out_width) + ", .kernel = " + text(k.kernel_width) + ", .stride = " + text(k.stride_width) +
            ", .dilation = " + text(k.dilation_width) + ", .before = " + text(k.padding_width) + ", .images = " +
            text(k.images) + ", .in_channel = " + text(k.in.strides[1]) + ", .in_image = " + image + "}",
        "sequences");
    scratch(body, name + ".workspace()");
    const std::string own = "workspace + part.index * static_cast<std::ptrdiff_t>(" + name + ".workspace())";
    const std::string filter = pointer(body, w, false, "w"), inner = stores(body, step, step.frame, "    ");
    return "  depthwise_sequences<" + name + ">(part, " + in + ", " + filter + ", " + own + ", " +
           lambda({"image", "channel", "x"}, true, inner) + "  });\n";
  }
  const std::vector<std::string> indices = {"image", "y", "x", "channel"};
  if (k.method == Method::winograd_2 || k.method == Method::winograd_4) {
    include("winograd");
    const std::string name = shape(
        "WinogradShape",
        "{.outputs = " + std::string(k.method == Method::winograd_4 ? "4" : "2") + ", .channels = " + text(k.channels) +
            ", .out_channels = " + text(k.out_channels) + ", .out_height = " + text(k.out_height) +
            ", .out_width = " + text(k.out_width) + ", .in_row = " + row + ", .in_pixel = " + pixel +
            ", .images = " + text(k.images) + ", .in_image = " + image + sums(step.way) +
            (step.way.at_once ? ", .at_once = " + text(step.way.at_once) : "") + "}",
        "winograd");
    const std::string packed = parameter(
        body, "const float*",
        "call.weights + " + constant(w, "", name + ".packed()", "pack_winograd<" + name + ">($to, " + weights + ")"),
        "w");
    scratch(body, name + ".workspace()");
    const std::string inner = stores(body, step, step.frame, "    ");
    return "  winograd<" + name + ">(part, " + in + ", " + packed + ", workspace, " + lambda(indices, true, inner) +
           "  });\n";
  }
  if (k.method == Method::transposed) {
    include("convolution");
    const View& from = k.in;
    const std::string name =
        shape("TransposedShape",
              "{.channels = " + text(k.channels) + ", .out_channels = " + text(k.out_channels) +
                  ", .in_height = " + text(from.sizes[2]) + ", .in_width = " + text(from.sizes[3]) +
                  ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
                  ", .kernel_height = " + text(k.kernel_height) + ", .kernel_width = " + text(k.kernel_width) +
                  ", .stride_height = " + text(k.stride_height) + ", .stride_width = " + text(k.stride_width) +
                  ", .dilation_height = " + text(k.dilation_height) + ", .dilation_width = " + text(k.dilation_width) +
                  ", .padding_height = " + text(k.padding_height) + ", .padding_width = " + text(k.padding_width) +
                  ", .in_row = " + row + ", .in_pixel = " + pixel + ", .images = " + text(k.images) +
                  ", .in_image = " + image + sums(step.way) + (step.way.by_rows ? ", .order = Order::rows" : "") + "}",
              "transposed");
    const std::string packed = parameter(
        body, "const float*",
        "call.weights + " + constant(w, "", name + ".packed()", "pack_transposed($to, " + name + ", " + weights + ")"),
        "w");
    const std::string inner = stores(body, step, step.frame, "    ");
    return "  transposed_convolution<" + name + ">(part, " + in + ", " + packed + ", " + lambda(indices, true, inner) +
           "  });\n";
  }
  const std::string name = convolution_shape(k, step.way);
  if (k.quantised) {
    const std::string integers = "QuantisedImageWeights{" + weights + ", " + attribute(k.quantised.scales) + "}";
    const std::string packed = packed_parameter(body, w, "std::int8_t", "w", name + ".packed<std::int8_t>()",
                                                "pack_convolution($to, " + name + ", " + integers + ")");
    const std::string inner =
        dequantised(body, w, k.quantised, k.out_channels, "channel",
                    "pack_excess($to, " + name + ", " + text(k.quantised.zero) + ", " + integers + ")") +
        stores(body, step, step.frame, "    ");
    return "  convolution<" + name + ">(part, " + in + ", " + packed + ", " +
           lambda(indices, true, inner, "integer", "sums") + "  });\n";
  }
  if (k.reduced) {
    const std::string packed = packed_parameter(body, w, "Bfloat16", "w", name + ".packed<Bfloat16>()",
                                                "pack_convolution($to, " + name + ", " + weights + ")");
    const std::string inner = stores(body, step, step.frame, "    ");
    return "  convolution<" + name + ">(part, reinterpret_cast<const Bfloat16*>(" + in + "), " + packed + ", " +
           lambda(indices, true, inner) + "  });\n";
  }
  const bool depthwise = k.method == Method::depthwise;
  const std::string packed =
      depthwise ? depthwise_weights(body, k, name)
                : parameter(body, "const float*",
                            "call.weights + " + constant(w, "", name + ".packed()",
                                                         "pack_convolution($to, " + name + ", " + weights + ")"),
                            "w");
  const std::string inner = stores(body, step, step.frame, "    ");
  return std::string("  ") + (depthwise ? "depthwise_convolution<" : "convolution<") + name + ">(part, " + in + ", " +
         packed + ", " + lambda(indices, true, inner) + "  });\n";
}

/// The ConvolutionShape of a convolution that is computed directly, or of single channels.
FXX_INLINE std::string SpecialisedWriter::convolution_shape(const plans::Convolution& k, const plans::Way& way) {
  include("convolution");
  const bool depthwise = k.method == plans::Convolution::Method::depthwise;
  return shape("ConvolutionShape",
               "{.channels = " + text(depthwise ? k.channels : k.channels / k.groups) +
                   ", .out_channels = " + text(depthwise ? k.channels : k.out_channels / k.groups) +
                   ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
                   ", .kernel_height = " + text(k.kernel_height) + ", .kernel_width = " + text(k.kernel_width) +
                   ", .stride_height = " + text(k.stride_height) + ", .stride_width = " + text(k.stride_width) +
                   ", .dilation_height = " + text(k.dilation_height) + ", .dilation_width = " + text(k.dilation_width) +
                   ", .in_row = " + text(k.in.strides[2] / k.in.strides[3]) + ", .in_pixel = " + text(k.in.strides[3]) +
                   ", .images = " + text(k.images) + ", .in_image = " + text(k.in.strides[0]) +
                   (depthwise ? "" : ", .groups = " + text(k.groups) + sums(way)) +
                   (!depthwise && way.distance == plans::Way::Distance::near ? ", .weights = Distance::near" : "") +
                   (!depthwise && way.by_rows ? ", .order = Order::rows" : "") + "}",
               depthwise ? "depthwise" : "convolution");
}

FXX_INLINE std::string SpecialisedWriter::depthwise_weights(Body& body, const plans::Convolution& k,
                                                            const std::string& shape) {
  include("depthwise");
  const View& w = k.weights;
  const std::string pack = "pack_depthwise($to, " + shape + ", ImageWeights{$from, " + text(w.strides[0]) + ", " +
                           text(w.strides[1]) + ", " + text(w.strides[2]) + ", " + text(w.strides[3]) + "})";
  const std::string size = "packed_size(" + text(k.channels) + ", " + text(k.kernel_height * k.kernel_width) + ")";
  return parameter(body, "const float*", "call.weights + " + constant(w, "", size, pack), "w");
}

/// A row of the products, then of the filter, then of the products behind it; what is between them is the part's own
/// scratch memory: rows that are made, then one that is filtered.
FXX_INLINE std::string SpecialisedWriter::depthwise_block(Body& body, const KernelStep& step,
                                                          const plans::DepthwiseBlock& k) {
  include("gemm");
  include("loops");
  const plans::Convolution& filter = k.filter;
  const std::string name = convolution_shape(filter, {}), channels = text(filter.channels);
  const std::vector<std::string> indices = {"image", "y", "x", "channel"};
  // A row of a product as one of its own; its weights stay in the caches from row to row.
  const auto of_row = [](plans::MatrixProduct product, std::int64_t pixels) {
    product.rows = pixels;
    product.weights.distance = kernels::Distance::near;
    return product;
  };
  const auto gemm = [&](const plans::MatrixProduct& product, const std::string& from, const std::string& weights,
                        const std::string& inner) {
    return "        gemm<" + sizes_of_product(product) + way_of_product(product, {}) + ">(Part{}, " + from + ", " +
           weights + ", " + lambda({"x", "channel"}, true, inner) + "        });\n";
  };
  const auto rows_lambda = [&](const std::string& more, const std::string& inner) {
    return std::string("[&](") + (mentions(inner, "image") ? "int image, " : "int, ") +
           (mentions(inner, "y") ? "int y" : "int") + more + ") FXX_KERNEL_LAMBDA {\n" + inner + "      }";
  };
  std::string scratch_size, make, in;
  if (k.expand) {
    const plans::MatrixProduct product = of_row(*k.expand, k.expanded_frame->sizes[3]);
    const std::string from = pointer(body, product.a, false, "in"), weights = product_weights(body, product, {});
    const std::int64_t row = product.rows * product.a_row, height = k.expanded_frame->sizes[2];
    const std::string at = from + (filter.images > 1 ? " + image * " + text(height * row) : "") + " + y * " + text(row);
    const std::string inner = sharing(body, {k.expanded.get()}, *k.expanded_frame, "          ", [&] {
      return "          store_some<width>(row + x * " + channels + " + channel, " +
             vector(body, *k.expanded, *k.expanded_frame) + ");\n";
    });
    make = rows_lambda(", float* row", gemm(product, at, weights, inner));
  } else if (k.expanded) {
    const std::string inner = sharing(body, {k.expanded.get()}, *k.expanded_frame, "            ", [&] {
      return "            store_some<width>(row + x * " + channels + " + channel, " +
             vector(body, *k.expanded, *k.expanded_frame) + ");\n";
    });
    make = rows_lambda(", float* row", "        for (int x = 0; x < " + text(k.expanded_frame->sizes[3]) +
                                           "; ++x)\n          pointwise<" + channels + ">(Part{}, " +
                                           lambda({"channel"}, false, inner) + "          });\n");
  } else {
    in = pointer(body, filter.in, false, "in");
  }
  if (k.expanded) scratch_size = "made_rows(" + name + ")";
  const std::string weights = depthwise_weights(body, filter, name);
  std::string result, inner, done = "[](int, int) {}";
  if (k.project) {
    // Behind the rows that are made.
    result = "  float* const filtered = rows" + (k.expanded ? " + " + scratch_size : "") + ";\n";
    inner = sharing(body, {k.filtered.get()}, *k.filtered_frame, "        ", [&] {
      return "        store_some<width>(filtered + x * " + channels + " + channel, " +
             vector(body, *k.filtered, *k.filtered_frame) + ");\n";
    });
    scratch_size += (k.expanded ? " + " : "") + text(filter.out_width * filter.channels);
    const plans::MatrixProduct product = of_row(*k.project, filter.out_width);
    const std::string projected = product_weights(body, product, {});
    done = rows_lambda("", gemm(product, "filtered", projected, stores(body, step, step.frame, "          ")));
  } else {
    inner = stores(body, step, step.frame, "        ");
  }
  scratch(body, scratch_size);
  std::string rows =
      "  float* const rows = workspace + part.index * static_cast<std::ptrdiff_t>(" + scratch_size + ");\n";
  std::string call = "  depthwise_by_rows<" + name;
  if (k.expanded)
    call += ", MadeRows{.height = " + text(k.expanded_frame->sizes[2]) +
            ", .width = " + text(k.expanded_frame->sizes[3]) + ", .above = " + text(filter.padding_height) +
            ", .before = " + text(filter.padding_width) + "}>(\n      part, " + weights + ", rows,\n      " + make +
            ",\n      ";
  else call += ">(\n      part, " + in + ", " + weights + ",\n      ";
  return rows + result + call + lambda(indices, true, inner) + "      },\n      " + done + ");\n";
}

FXX_INLINE std::string SpecialisedWriter::pooling(Body& body, const KernelStep& step, const plans::Pooling& k) {
  include("pooling");
  include("loops");
  const std::string in = pointer(body, k.in, false, "in");
  const std::string name = shape(
      "PoolShape",
      "{.channels = " + text(k.channels) + ", .in_height = " + text(k.in_height) + ", .in_width = " + text(k.in_width) +
          ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
          ", .kernel_height = " + text(k.kernel_height) + ", .kernel_width = " + text(k.kernel_width) +
          ", .stride_height = " + text(k.stride_height) + ", .stride_width = " + text(k.stride_width) +
          ", .padding_height = " + text(k.padding_height) + ", .padding_width = " + text(k.padding_width) +
          ", .dilation_height = " + text(k.dilation_height) + ", .dilation_width = " + text(k.dilation_width) +
          ", .in_row = " + text(k.in.strides[2] / k.in.strides[3]) + ", .in_pixel = " + text(k.in.strides[3]) +
          ", .images = " + text(k.images) + ", .in_image = " + text(k.in.strides[0]) +
          (k.adaptive ? ", .adaptive = true" : "") + (k.divisor != 0 ? ", .divisor = " + text(k.divisor) : "") + "}",
      "pool");
  const bool all = k.out_height == 1 && k.out_width == 1 && k.kernel_height == k.in_height &&
                   k.kernel_width == k.in_width && k.padding_height == 0 && k.padding_width == 0 && k.divisor == 0;
  std::string call;
  if (k.kind == plans::Pooling::Kind::largest) call = "max_pool<" + name + ">";
  else if (all) call = "average_of_all<" + name + ">";
  else call = "average_pool<" + name + (k.kind == plans::Pooling::Kind::mean ? ">" : ", false>");
  const std::string inner = stores(body, step, step.frame, "    ");
  return "  " + call + "(part, " + in + ", " + lambda({"image", "y", "x", "channel"}, true, inner) + "  });\n";
}

FXX_INLINE std::string SpecialisedWriter::resize(Body& body, const KernelStep& step, const plans::Resize& k) {
  include("copies");
  include("loops");
  const std::string in = pointer(body, k.in, false, "in");
  const std::string name = shape(
      "ResizeShape",
      "{.channels = " + text(k.channels) + ", .in_height = " + text(k.in_height) + ", .in_width = " + text(k.in_width) +
          ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
          (k.align_corners ? ", .align_corners = true" : "") + (k.exact ? ", .exact = true" : "") +
          (k.scale_height > 0 ? ", .scale_height = " + cpp_double(k.scale_height) : "") +
          (k.scale_width > 0 ? ", .scale_width = " + cpp_double(k.scale_width) : "") +
          ", .in_row = " + text(k.in.strides[2] / k.in.strides[3]) + ", .in_pixel = " + text(k.in.strides[3]) + "}",
      "resize");
  const std::string inner = stores(body, step, step.frame, "      ");
  return "  const Range images = part.of(" + text(k.images) +
         ");\n  for (int image = images.begin; image < images.end; ++image)\n    resize_" +
         std::string(enumerator_name(k.kind)) + "<" + name + ">(" + in + " + image * " + text(k.in.strides[0]) + ", " +
         lambda({"y", "x", "channel"}, true, inner) + "    });\n";
}

}  // namespace fxx::inline FXX_ABI::detail
