// Softmax, norms and reductions as C++: kernels that take what is computed for their input into their loops.
#pragma once

#include "fxx/codegen/specialised/loops.ipp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI::detail {

/// What a reduction puts together to the name of its kernel: "row_" + this.
FXX_INLINE std::string_view word_of_reduction(plans::Rows::Kind kind) {
  return kind == plans::Rows::Kind::mean ? "sum" : enumerator_name(kind);
}
/// What its result is, in a row and in columns.
FXX_INLINE std::string type_of_result(const plans::Rows& k) {
  using Kind = plans::Rows::Kind;
  if (k.kind == Kind::any || k.kind == Kind::all) return "integer";
  const bool place = k.kind == Kind::arg_largest || k.kind == Kind::arg_smallest;
  return place || k.input->elements == plans::Elements::integer ? "integer_64" : "real";
}

/// Does its kernel take rows as runs? Others look for places, or keep the row.
FXX_INLINE bool takes_runs(plans::Rows::Kind kind) {
  using Kind = plans::Rows::Kind;
  constexpr Kind all[] = {Kind::sum, Kind::mean, Kind::product,  Kind::largest,   Kind::smallest,
                          Kind::any, Kind::all,  Kind::variance, Kind::deviation, Kind::norm};
  return std::find(std::begin(all), std::end(all), kind) != std::end(all);
}
/// Fewer columns fill no four vectors, wherever the module is to run.
inline constexpr std::int64_t most_narrow_columns = 32;
/// With what is reduced and the columns, the last two axes, as one.
FXX_INLINE plans::Frame SpecialisedWriter::in_one_axis(Frame frame) {
  const int last = static_cast<int>(frame.axes.size()) - 1;
  const std::int64_t columns = frame.axes.back().extent;
  for (Frame::Place& dim : frame.dims)
    if (dim.axis == last - 1) dim.divisor *= columns;
    else if (dim.axis == last) dim.axis = last - 1;
  frame.axes.pop_back();
  frame.axes.back().extent *= columns;
  frame.axes.back().name = "column";
  return frame;
}
/// What reductions of columns ask for: elements of several columns; where rows are short, of several rows that are
/// turned; where several rows fit into a vector and lie behind each other, of all of them.
FXX_INLINE std::string SpecialisedWriter::of_columns(Body& body, const plans::Rows& k) {
  if (k.input->elements == plans::Elements::real && k.columns <= most_narrow_columns && takes_runs(k.kind) &&
      !k.is_spread()) {
    const Frame one = in_one_axis(k.read);
    if (is_read_along(*k.input, one))
      return "rows_behind<" + text(k.columns) + ">(" +
             lambda({"column"}, false, returned(body, *k.input, one, "      ")) + "    })";
  }
  return lambda({"k", "column"}, false, returned(body, *k.input, k.read, "      ")) + "    }";
}
/// Are rows short and do they lie in memory one after the other, so that vectors of them are turned in registers?
FXX_INLINE bool SpecialisedWriter::turns_rows(const plans::Rows& k) const {
  return k.reduces() && k.columns && k.length >= 5 && k.length <= 16 && k.input->elements == plans::Elements::real &&
         !is_read_along(*k.input, k.read) && is_read_along(*k.input, turned(k.read));
}

/// Of rows whose columns lie behind each other, `k.columns` of them. `part`: what is done of the columns.
FXX_INLINE std::string SpecialisedWriter::columns(Body& body, const KernelStep& step, const plans::Rows& k,
                                                  const std::string& part) {
  using Kind = plans::Rows::Kind;
  const bool turns = turns_rows(k);
  const std::string get = turns ? "[&](int k, int, auto) FXX_KERNEL_LAMBDA { return elements[k]; }" : of_columns(body, k);
  std::string inner = stores(body, step, step.frame, "      ");
  if (turns) inner = "      const int column = first + of_block;\n" + inner;
  std::string type = type_of_result(k), name, more, before;
  switch (k.kind) {
    case Kind::sum: name = "column_sums"; break;
    case Kind::mean: name = "column_means"; break;
    case Kind::product: name = "column_products"; break;
    case Kind::variance:
      name = "column_moments";
      more = number(k.correction) + ", ";
      type = "real, real";
      break;
    case Kind::deviation:
      name = "column_deviations";
      more = number(k.correction) + ", ";
      break;
    case Kind::norm:
      name = "column_norms";
      before = number(k.p) + ", ";
      break;
    default: name = "column_" + std::string(enumerator_name(k.kind));
  }
  if (k.input->elements == plans::Elements::integer) name += "_64";
  const bool place = k.kind == Kind::arg_largest || k.kind == Kind::arg_smallest;
  const std::vector<std::string> of =
      turns         ? std::vector<std::string>{"of_block"}
      : k.reduces() ? std::vector<std::string>{"column"}
                    : std::vector<std::string>{"k", "column"};
  const std::string put = (place ? "put_widened(" : "") + lambda(of, true, inner, type) + "    }" + (place ? ")" : "");
  if (!turns)
    return "    " + name + "<" + text(k.length) + ", " + text(k.columns) + ">(" + before + get + ", " + more + put + ", " +
           part + ");\n";
  include("transpose");
  return "    rows_as_columns<" + text(k.columns) + ", " + text(k.length) + ">(" + part + ".of(" + text(k.columns) +
         ", lanes), " + lambda({"column", "k"}, false, returned(body, *k.input, turned(k.read), "      ")) +
         "    }, [&](const real* elements, int first, auto count) FXX_KERNEL_LAMBDA {\n    " + name + "<" +
         text(k.length) + ", count>(" + before + get + ", " + more + put + ");\n    });\n";
}

/// With a last axis of so many elements, and one of runs before it.
FXX_INLINE plans::Frame SpecialisedWriter::in_runs(Frame frame, std::int64_t length) {
  const int last = static_cast<int>(frame.axes.size()) - 1;
  Frame::Axis run = frame.axes.back();
  run.name = "run";
  run.extent /= length;
  frame.axes.back().extent = length;
  frame.axes.insert(frame.axes.end() - 1, std::move(run));
  for (Frame::Place& dim : frame.dims) {
    if (dim.axis != last) continue;
    if (dim.divisor < length) dim.axis = last + 1;
    else dim.divisor /= length;
  }
  return frame;
}
/// Of a reduced row that lies in runs, each of them vectors and a rest; 0 for all others.
FXX_INLINE std::int64_t SpecialisedWriter::length_of_runs(const plans::Rows& k) const {
  if (k.columns || !takes_runs(k.kind) || k.input->elements != plans::Elements::real || is_read_along(*k.input, k.read))
    return 0;
  const int last = static_cast<int>(k.read.axes.size()) - 1;
  for (std::size_t d = 0; d < k.read.dims.size(); ++d) {
    const std::int64_t length = k.read.dims[d].divisor;
    if (k.read.dims[d].axis != last || length < 8 || length >= k.length) continue;
    bool splits = true;  // no dimension is in both
    for (std::size_t other = 0; other < k.read.dims.size(); ++other) {
      const std::int64_t divisor = k.read.dims[other].divisor;
      if (k.read.dims[other].axis == last)
        splits = splits && (divisor % length == 0 || divisor * k.read.sizes[other] <= length);
    }
    if (splits && is_read_along(*k.input, in_runs(k.read, length))) return length;
  }
  return 0;
}

FXX_INLINE std::string SpecialisedWriter::rows(Body& body, const KernelStep& step, const plans::Rows& k) {
  include("rows");
  include("loops");
  using Kind = plans::Rows::Kind;
  in_runs_ = k.reduces() && !k.columns;
  const std::int64_t run = length_of_runs(k);
  const std::string type = type_of_result(k);
  const std::string read = k.columns ? "" : returned(body, *k.input, run ? in_runs(k.read, run) : k.read, "      ");
  in_runs_ = false;
  if (type == "integer_64") include("integers");
  const std::string get = run ? "in_runs<" + text(run) + ">(" + lambda({"run", "column"}, false, read) + "    })"
                              : lambda({"column"}, false, read) + "    }";
  // Where there are few groups of columns, threads share the columns of each.
  const bool few = k.columns && k.rows < 8;
  std::string result = few ? "  for (int row = 0; row < " + text(k.rows) + "; ++row) {\n"
                           : "  const Range range = part.of(" + text(k.rows) +
                                 ");\n  for (int row = range.begin; row < range.end; ++row) {\n";
  const std::string n = (k.input->elements == plans::Elements::integer ? "_64<" : "<") + text(k.length) + ">";
  if (k.columns) {
    include("reductions");
    result += columns(body, step, k, few ? "part" : "Part{}");
  } else if (k.reduces()) {
    std::string value = "row_" + std::string(word_of_reduction(k.kind)) + n + "(" +
                        (k.kind == Kind::norm ? number(k.p) + ", " : "") + get +
                        (k.is_spread() ? ", " + number(k.correction) : "") + ")";
    if (k.kind == Kind::mean) value += " / " + number(static_cast<double>(k.length));
    const std::string inner = stores(body, step, step.frame, "    ");
    result += "    const " + type + " v = " +
              (type == "integer"      ? "integer{} - " + value
               : type == "integer_64" ? "splat_64(" + value + ")"
                                      : "splat(" + value + ")") +
              ";\n";
    if (mentions(inner, "column")) result += "    constexpr int column = 0;\n";
    if (mentions(inner, "width")) result += "    constexpr Width<1> width{};\n";
    result += inner;
  } else {
    const std::string name(enumerator_name(k.kind));  // softmax, log_softmax, layer_norm, rms_norm, running_sum, ...
    const std::string eps = k.kind == Kind::layer_norm || k.kind == Kind::rms_norm ? number(k.eps) + ", " : "";
    const std::string inner = stores(body, step, step.frame, "      ");
    result += "    " + name + n + "(" + eps + get + ", " + lambda({"column"}, true, inner, type) + "    });\n";
  }
  return result + "  }\n";
}

FXX_INLINE std::string SpecialisedWriter::group_norm(Body& body, const KernelStep& step, const plans::GroupNorm& k) {
  include("rows");
  include("loops");
  const std::string read = returned(body, *k.input, k.read, "      ");
  const std::string get = lambda({"pixel", "channel"}, false, read) + "    }";
  const std::string inner = stores(body, step, step.frame, "      ");
  const std::string name = shape(
      "GroupShape",
      "{.pixels = " + text(k.pixels) + ", .channels = " + text(k.channels) + ", .groups = " + text(k.groups) + "}",
      "groups");
  scratch(body, name + ".workspace()");
  return "  const Range images = part.of(" + text(k.images) +
         ");\n  for (int image = images.begin; image < images.end; ++image)\n    group_norm<" + name + ">(" +
         number(k.eps) + ", workspace + part.index * " + name + ".workspace(), " + get + ", " + lambda({"pixel", "channel"}, true, inner) + "    });\n";
}

}  // namespace fxx::inline FXX_ABI::detail
