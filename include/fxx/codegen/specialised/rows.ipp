// Softmax, norms and reductions as C++: kernels that take what is computed for their input into their loops.
#pragma once

#include "fxx/codegen/specialised/loops.ipp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string SpecialisedWriter::rows(Body& body, const KernelStep& step, const plans::Rows& k) {
  include("rows");
  include("loops");
  using Kind = plans::Rows::Kind;
  const std::string element = expression(body, *k.input, k.read);
  const std::string read =
      k.kind == Kind::norm
          ? "      const real x = " + element + ";\n      return x * x;\n"
          : "      return " + (k.input->kind == Term::Kind::number ? "splat(" + element + ")" : element) + ";\n";
  const std::string get = lambda({"column"}, false, read) + "    }";
  std::string result =
      "  const Range range = part.of(" + text(k.rows) + ");\n  for (int row = range.begin; row < range.end; ++row) {\n";
  const std::string n = "<" + text(k.length) + ">";
  if (k.columns) {
    include("reductions");
    const std::string call = k.kind == Kind::largest    ? "column_largest<"
                             : k.kind == Kind::smallest ? "column_smallest<"
                             : k.kind == Kind::mean     ? "column_means<"
                                                        : "column_sums<";
    const std::string inner = stores(body, step, step.frame, "      ");
    return result + "    " + call + text(k.length) + ", " + text(k.columns) + ">(" +
           lambda({"k", "column"}, false, read) + "    }, " + lambda({"column"}, true, inner) + "    });\n  }\n";
  }
  if (k.reduces()) {
    const std::string call = k.kind == Kind::largest    ? "row_largest"
                             : k.kind == Kind::smallest ? "row_smallest"
                                                        : "row_sum";
    const std::string inner = stores(body, step, step.frame, "    ");
    result += "    const real v = splat(" + std::string(k.kind == Kind::norm ? "__builtin_sqrtf(" : "") + call + n +
              "(" + get + ")" +
              (k.kind == Kind::mean   ? " / " + number(static_cast<double>(k.length))
               : k.kind == Kind::norm ? ")"
                                      : "") +
              ");\n";
    if (mentions(inner, "column")) result += "    constexpr int column = 0;\n";
    if (mentions(inner, "width")) result += "    constexpr Width<1> width{};\n";
    result += inner;
  } else {
    const std::string name(enumerator_name(k.kind));  // softmax, log_softmax, layer_norm, rms_norm
    const std::string eps = k.kind == Kind::layer_norm || k.kind == Kind::rms_norm ? number(k.eps) + ", " : "";
    const std::string inner = stores(body, step, step.frame, "      ");
    result += "    " + name + n + "(" + eps + get + ", " + lambda({"column"}, true, inner) + "    });\n";
  }
  return result + "  }\n";
}

FXX_INLINE std::string SpecialisedWriter::group_norm(Body& body, const KernelStep& step, const plans::GroupNorm& k) {
  include("rows");
  include("loops");
  const std::string read = "      return " + expression(body, *k.input, k.read) + ";\n";
  const std::string get = lambda({"pixel", "channel"}, false, read) + "    }";
  const std::string inner = stores(body, step, step.frame, "      ");
  const std::string name = shape(
      "GroupShape",
      "{.pixels = " + text(k.pixels) + ", .channels = " + text(k.channels) + ", .groups = " + text(k.groups) + "}",
      "groups");
  return "  const Range images = part.of(" + text(k.images) +
         ");\n  for (int image = images.begin; image < images.end; ++image)\n    group_norm<" + name + ">(" +
         number(k.eps) + ", " + get + ", " + lambda({"pixel", "channel"}, true, inner) + "    });\n";
}

}  // namespace fxx::inline FXX_ABI::detail
