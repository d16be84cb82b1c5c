// Convolutions, pooling and the resizing of images as C++, with the shapes that their kernels are made for.
#pragma once

#include "fxx/codegen/specialised/loops.ipp"
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
  const std::vector<std::string> indices = {"image", "y", "x", "channel"};
  if (k.method == Method::winograd_2 || k.method == Method::winograd_4) {
    include("winograd");
    const std::string name = shape(
        "WinogradShape",
        "{.outputs = " + std::string(k.method == Method::winograd_4 ? "4" : "2") + ", .channels = " + text(k.channels) +
            ", .out_channels = " + text(k.out_channels) + ", .out_height = " + text(k.out_height) +
            ", .out_width = " + text(k.out_width) + ", .in_row = " + row + ", .in_pixel = " + pixel +
            ", .images = " + text(k.images) + ", .in_image = " + image + "}",
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
  include("convolution");
  if (k.method == Method::transposed) {
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
                  ", .in_image = " + image + "}",
              "transposed");
    const std::string packed = parameter(
        body, "const float*",
        "call.weights + " + constant(w, "", name + ".packed()", "pack_transposed($to, " + name + ", " + weights + ")"),
        "w");
    const std::string inner = stores(body, step, step.frame, "    ");
    return "  transposed_convolution<" + name + ">(part, " + in + ", " + packed + ", " + lambda(indices, true, inner) +
           "  });\n";
  }
  const bool depthwise = k.method == Method::depthwise;
  const std::string name =
      shape("ConvolutionShape",
            "{.channels = " + text(depthwise ? k.channels : k.channels / k.groups) +
                ", .out_channels = " + text(depthwise ? k.channels : k.out_channels / k.groups) +
                ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
                ", .kernel_height = " + text(k.kernel_height) + ", .kernel_width = " + text(k.kernel_width) +
                ", .stride_height = " + text(k.stride_height) + ", .stride_width = " + text(k.stride_width) +
                ", .dilation_height = " + text(k.dilation_height) + ", .dilation_width = " + text(k.dilation_width) +
                ", .in_row = " + row + ", .in_pixel = " + pixel + ", .images = " + text(k.images) +
                ", .in_image = " + image + (depthwise ? "" : ", .groups = " + text(k.groups)) + "}",
            depthwise ? "depthwise" : "convolution");
  const std::string size = depthwise
                               ? "packed_size(" + text(k.channels) + ", " + text(k.kernel_height * k.kernel_width) + ")"
                               : name + ".packed()";
  const std::string packed = parameter(
      body, "const float*",
      "call.weights + " +
          constant(w, "", size,
                   (depthwise ? "pack_depthwise($to, " : "pack_convolution($to, ") + name + ", " + weights + ")"),
      "w");
  const std::string inner = stores(body, step, step.frame, "    ");
  return std::string("  ") + (depthwise ? "depthwise_convolution<" : "convolution<") + name + ">(part, " + in + ", " +
         packed + ", " + lambda(indices, true, inner) + "  });\n";
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
          ", .images = " + text(k.images) + ", .in_image = " + text(k.in.strides[0]) + "}",
      "pool");
  const bool all = k.out_height == 1 && k.out_width == 1 && k.kernel_height == k.in_height &&
                   k.kernel_width == k.in_width && k.padding_height == 0 && k.padding_width == 0;
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
          ", .in_row = " + text(k.in.strides[2] / k.in.strides[3]) + "}",
      "resize");
  const std::string inner = stores(body, step, step.frame, "      ");
  return "  const Range images = part.of(" + text(k.images) +
         ");\n  for (int image = images.begin; image < images.end; ++image)\n    resize_" +
         std::string(enumerator_name(k.kind)) + "<" + name + ">(" + in + " + image * " + text(k.in.strides[0]) + ", " +
         lambda({"y", "x", "channel"}, true, inner) + "    });\n";
}

}  // namespace fxx::inline FXX_ABI::detail
