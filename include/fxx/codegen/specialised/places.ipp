// Elements that go to places which tensors tell, and bags of rows, as C++.
#pragma once

#include "fxx/codegen/specialised/loops.ipp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI::detail {

/// " + row * 64 + column": of one element, whichever axis vectors have.
FXX_INLINE std::string SpecialisedWriter::offset_of_element(const View& view, const Frame& frame) const {
  std::string result;
  for (std::size_t axis = 0; axis < frame.axes.size(); ++axis)
    for (const Group& group : groups(view, frame, static_cast<int>(axis)))
      result += " + " + index_text(group, frame.axes[axis].extent, frame.axes[axis].name);
  return result;
}

FXX_INLINE std::string SpecialisedWriter::scatter(Body& body, const KernelStep& step, const plans::Scatter& k) {
  include("scatter");
  include("loops");
  const Frame& frame = step.frame;
  const plans::Store& store = step.stores[0];
  const bool has_columns = frame.axes.size() == 3;
  const auto is_along_columns = [&](const View& view) { return !groups(view, frame, 2).empty(); };
  bool whole_rows = has_columns;
  View to = store.to;  // without its columns, where rows go as a whole
  if (has_columns) {
    const Place at = place(to, frame);
    whole_rows = at.along == Place::Along::whole && at.stride == 1;
    for (const plans::TermPointer& index : k.indices) whole_rows = whole_rows && !is_along_columns(index->view);
    if (whole_rows)
      for (std::size_t d = 0; d < frame.dims.size(); ++d)
        if (frame.dims[d].axis == 2) to.strides[d] = 0;
  }
  const std::string out = pointer(body, store.to, true, "out");
  parameter(body, "int&", "call.fault", "fault");
  std::string rows, offset;
  for (std::size_t i = 0; i < k.indices.size(); ++i) {
    const Term::Dimension& looked_up = k.looked_up[i];
    const View& index = k.indices[i]->view;
    const std::string numbers = pointer(body, index, false, "index"), at = offset_of_element(index, frame);
    const std::string name = k.indices.size() == 1 ? "place" : "place_" + std::to_string(i + 1);
    rows += "    const std::ptrdiff_t " + name + " = row_of<" + text(looked_up.size) +
            (looked_up.from_end ? ", true" : "") + ">(" + numbers + "[" + (at.empty() ? "0" : at.substr(3)) +
            "], fault);\n";
    offset += (i ? " + " : "") + name + (looked_up.stride == 1 ? "" : " * " + text(looked_up.stride));
  }
  offset += offset_of_element(to, frame);
  const std::string destination =
      rows + "    return Destination{" + (k.indices.size() == 1 ? "place" : "place_1") + ", " + offset + "};\n";
  const std::string value = returned(body, *store.value, frame, "    ");
  const auto integer = [](const std::string& name, const std::string& in) {
    return mentions(in, name) ? "int " + name : std::string("int");
  };
  std::string places = "[&](" + integer("group", destination) + ", " + integer("row", destination);
  if (!whole_rows) places += ", " + (has_columns ? integer("column", destination) : "int");
  const std::string get = "[&](" + integer("group", value) + ", " + integer("row", value) + ", " +
                          (has_columns ? integer("column", value) : "int") +
                          (mentions(value, "width") ? ", auto width" : ", auto");
  const std::string name =
      shape("ScatterShape",
            "{.groups = " + text(frame.axes[0].extent) + ", .rows = " + text(frame.axes[1].extent) + ", .columns = " +
                text(has_columns ? frame.axes[2].extent : 1) + ", .places = " + text(k.looked_up[0].size) + "}",
            "places");
  return std::string("  ") + (whole_rows ? "scatter_rows" : "scatter_elements") +
         "<Combine::" + std::string(enumerator_name(k.kind)) + ", " + name + ">(part, " + out + ", " + places +
         ") FXX_KERNEL_LAMBDA {\n" + destination + "  }, " + get + ") FXX_KERNEL_LAMBDA {\n" + value + "  });\n";
}

FXX_INLINE std::string SpecialisedWriter::bags(Body& body, const KernelStep& step, const plans::Bags& k) {
  include("bags");
  const std::string name = shape("BagShape",
                                 "{.bags = " + text(k.bags) + ", .columns = " + text(k.columns) +
                                     ", .count = " + text(k.count) + ", .row_stride = " + text(k.table.strides[0]) +
                                     (k.left_out >= 0 ? ", .left_out = " + text(k.left_out) : "") +
                                     (k.last_offset ? ", .last_offset = true" : "") + "}",
                                 "bags");
  const std::string indices = pointer(body, k.indices, false, "indices");
  const std::string offsets = pointer(body, k.offsets, false, "offsets");
  const std::string weights = k.weights.buffer < 0 ? "Unweighted{}" : pointer(body, k.weights, false, "weights");
  const std::string table = pointer(body, k.table, false, "table");
  const std::string rows = parameter(body, "std::int64_t", text(k.table.sizes[0]), "table_rows");
  parameter(body, "int&", "call.fault", "fault");
  const std::string inner = stores(body, step, step.frame, "    ");
  return "  combine_bags<Bag::" + std::string(enumerator_name(k.kind)) + ", " + name + ">(part, " + indices + ", " +
         offsets + ", " + weights + ", " + table + ", " + rows + ", fault, " + lambda({"row", "column"}, true, inner) +
         "  });\n";
}

FXX_INLINE std::string SpecialisedWriter::sort(Body& body, const plans::Sort& k) {
  include("sorting");
  const std::string name = shape("SortShape",
                                 "{.rows = " + text(k.rows) + ", .length = " + text(k.length) +
                                     (k.count < k.length ? ", .count = " + text(k.count) : "") +
                                     (k.descending ? ", .descending = true" : "") + "}",
                                 "order");
  const std::string type = type_of(buffer_of(k.in).dtype);
  const std::string in = pointer(body, k.in, false, "in");
  const auto result = [&](const View& view, const std::string& wanted) {
    return view.buffer < 0 ? "nullptr" : pointer(body, view, true, wanted);
  };
  const std::string values = result(k.values, "values"), places = result(k.places, "places");
  const std::string stride = text(k.rows > 1 ? k.in.strides[0] : k.length);
  const std::string outputs = (values == "nullptr" ? "static_cast<" + type + "*>(nullptr)" : values) + ", " + places;
  if (k.by_best) return "  top_rows<" + name + ">(part, " + in + ", " + stride + ", " + outputs + ");\n";
  const std::string floats = "sort_workspace<" + type + ">(" + text(k.length) + ")";
  scratch(body, floats);
  return "  sort_rows<" + name + ">(part, " + in + ", " + stride +
         ", workspace + part.index * static_cast<std::ptrdiff_t>(" + floats + "), " + outputs + ");\n";
}

}  // namespace fxx::inline FXX_ABI::detail
