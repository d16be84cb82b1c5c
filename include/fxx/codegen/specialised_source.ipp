// Bodies of codegen/specialised_source.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/error.hpp"
#include "fxx/meta/enum_name.hpp"
#include "fxx/version.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// "hyperbolic_tangent": kernels::Function has more names than enumerator_name looks at.
FXX_INLINE std::string_view name_of_function(kernels::Function function) {
  static constexpr auto names = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<std::string_view, sizeof...(I)>{spelled_value<static_cast<kernels::Function>(I)>()...};
  }(std::make_integer_sequence<int, 128>());
  const std::string_view name = names[static_cast<std::size_t>(function)];
  return name.substr(name.find_last_of(":)") + 1);
}

class SpecialisedWriter {
 public:
  SpecialisedWriter(const KernelPlan& plan, const std::string& title) : plan_(plan), title_(title) {}
  SpecialisedSource write();

 private:
  using View = plans::View;
  using Sizes = plans::Sizes;
  using Term = plans::Term;
  using Frame = plans::Frame;

  /// The text of one step's function, and what it is called with.
  struct Body {
    struct Parameter {
      std::string type, name, argument;
    };
    std::vector<Parameter> parameters;
    std::map<std::string, std::string> names;  // by argument
    std::string text;
    int loads = 0;
  };
  /// Elements of a view along one axis: (axis / divisor % size) * stride.
  struct Group {
    std::int64_t divisor, size, stride;
  };

  const plans::Buffer& buffer_of(const View& view) const {
    return plan_.buffers[static_cast<std::size_t>(view.buffer)];
  }
  static std::string number(double value) {
    if (value != value) return "__builtin_nanf(\"\")";
    if (value > 3.4028234663852886e38) return "__builtin_inff()";
    if (value < -3.4028234663852886e38) return "(-__builtin_inff())";
    std::string text = cpp_double(static_cast<double>(static_cast<float>(value)));
    text += "f";
    return value < 0 ? "(" + text + ")" : text;
  }
  static std::string text(std::int64_t value) { return std::to_string(value); }
  static std::string type_of(Dtype dtype) {
    switch (dtype) {
      case Dtype::float32: return "float";
      case Dtype::boolean: return "unsigned char";
      case Dtype::int64: return "std::int64_t";
      case Dtype::int32: return "std::int32_t";
      case Dtype::float64: return "double";
      case Dtype::uint8: return "std::uint8_t";
      case Dtype::int8: return "std::int8_t";
      case Dtype::int16: return "std::int16_t";
      case Dtype::float16:
      case Dtype::bfloat16: return "std::uint16_t";
      case Dtype::complex64: return "__complex__ float";
      case Dtype::complex128: return "__complex__ double";
      default: return "void";
    }
  }

  /// Where a constant stands among the model's tensors; for what packs it.
  std::string attribute(const View& view) const {
    return "static_cast<const float*>(attributes[" + std::to_string(buffer_of(view).number) + "])" +
           (view.offset ? " + " + text(view.offset) : "");
  }
  // --- memory --------------------------------------------------------------------------------------------------------
  /// A constant of the packed weights: declared once for one way to pack it.
  std::string constant(const View& view, const std::string& suffix, const std::string& size, const std::string& pack) {
    const plans::Buffer& buffer = buffer_of(view);
    const std::string key = std::to_string(buffer.number) + "/" + std::to_string(view.offset) + "/" + pack;
    if (const auto known = constants_.find(key); known != constants_.end()) return known->second;
    std::string name = cpp_identifier(plan_.attributes[static_cast<std::size_t>(buffer.number)]) + suffix;
    for (int i = 2; !constant_names_.insert(name).second; ++i)
      name =
          cpp_identifier(plan_.attributes[static_cast<std::size_t>(buffer.number)]) + suffix + "_" + std::to_string(i);
    name += "_at";
    constant_lines_ += "constexpr std::size_t " + name + " = " +
                       (last_constant_.empty() ? std::string("0") : last_constant_ + " + whole(" + last_size_ + ")") +
                       ";\n";
    last_constant_ = name;
    last_size_ = size;
    std::string statement = pack;
    for (std::size_t at; (at = statement.find("$to")) != std::string::npos;)
      statement.replace(at, 3, "weights + " + name);
    for (std::size_t at; (at = statement.find("$from")) != std::string::npos;)
      statement.replace(at, 5, attribute(view));
    pack_lines_ += "  " + statement + ";\n";
    return constants_[key] = name;
  }
  /// Where the buffer begins, for the call of a step.
  std::string base(const View& view, bool written) {
    const plans::Buffer& buffer = buffer_of(view);
    const std::string type = type_of(buffer.dtype), qualified = written ? type : "const " + type;
    using Kind = plans::Buffer::Kind;
    switch (buffer.kind) {
      case Kind::input: return "static_cast<" + qualified + "*>(call.inputs[" + std::to_string(buffer.number) + "])";
      case Kind::output: return "static_cast<" + type + "*>(call.outputs[" + std::to_string(buffer.number) + "])";
      case Kind::constant: {
        const View all{view.buffer, 0, {}, {}};
        const std::string bytes = text(buffer.bytes());
        const std::string name =
            constant(all, "", "(" + bytes + " + 3) / 4",
                     "__builtin_memcpy($to, attributes[" + std::to_string(buffer.number) + "], " + bytes + ")");
        if (type == "float") return "call.weights + " + name;
        return "reinterpret_cast<" + qualified + "*>(call.weights + " + name + ")";
      }
      default: break;
    }
    return "reinterpret_cast<" + type + "*>(call.memory + " + text(buffer.offset) + ")";
  }
  std::string parameter(Body& body, const std::string& type, const std::string& argument, const std::string& wanted) {
    if (const auto known = body.names.find(argument + type); known != body.names.end()) return known->second;
    std::string name = wanted;
    for (int i = 2;
         std::any_of(body.parameters.begin(), body.parameters.end(), [&](const auto& p) { return p.name == name; });
         ++i)
      name = wanted + "_" + std::to_string(i);
    body.parameters.push_back({type, name, argument});
    return body.names[argument + type] = name;
  }
  /// The parameter that points at the view's first element.
  std::string pointer(Body& body, const View& view, bool written, const std::string& wanted) {
    std::string argument = base(view, written);
    if (view.offset) argument += " + " + text(view.offset);
    return parameter(body, (written ? "" : "const ") + type_of(buffer_of(view).dtype) + "*", argument, wanted);
  }
  std::string letter(Body& body) {
    const int i = body.loads++;
    return i < 20 ? std::string(1, static_cast<char>('a' + i)) : "a" + std::to_string(i);
  }

  // --- elements ------------------------------------------------------------------------------------------------------
  std::vector<Group> groups(const View& view, const Frame& frame, int axis) const {
    std::vector<Group> result;
    std::vector<std::size_t> dims;
    for (std::size_t d = 0; d < frame.dims.size(); ++d)
      if (frame.dims[d].axis == axis && frame.sizes[d] != 1) dims.push_back(d);
    std::stable_sort(dims.begin(), dims.end(),
                     [&](std::size_t a, std::size_t b) { return frame.dims[a].divisor > frame.dims[b].divisor; });
    for (std::size_t d : dims) {
      const Group next{frame.dims[d].divisor, frame.sizes[d], view.strides[d]};
      if (!result.empty() && result.back().stride == next.stride * next.size &&
          result.back().divisor == next.divisor * next.size)
        result.back() = {next.divisor, result.back().size * next.size, next.stride};
      else result.push_back(next);
    }
    std::erase_if(result, [](const Group& g) { return g.stride == 0; });
    return result;
  }
  static std::string index_text(const Group& group, std::int64_t extent, const std::string& axis) {
    std::string text = axis;
    if (group.divisor != 1) text += " / " + std::to_string(group.divisor);
    if (group.divisor * group.size != extent) text += " % " + std::to_string(group.size);
    if (group.stride != 1) text += " * " + std::to_string(group.stride);
    return text;
  }
  /// How a vector of the view's elements is reached.
  struct Place {
    std::string offset;  // " + row * 64 + column", without the vector's axis when `along` is not whole
    enum class Along { none, whole, scattered } along = Along::none;
    std::int64_t stride = 1;  // whole: between elements
    std::string element;      // scattered: offset of element i, from the offset
  };
  Place place(const View& view, const Frame& frame) const {
    Place result;
    const int last = static_cast<int>(frame.axes.size()) - 1;
    for (int axis = 0; axis <= last; ++axis) {
      const Frame::Axis& a = frame.axes[static_cast<std::size_t>(axis)];
      const std::vector<Group> parts = groups(view, frame, axis);
      if (axis == last && parts.size() == 1 && parts[0].divisor == 1 && parts[0].size == a.extent) {
        result.along = Place::Along::whole;
        result.stride = parts[0].stride;
        result.offset += " + " + index_text(parts[0], a.extent, a.name);
      } else if (axis == last && !parts.empty()) {
        result.along = Place::Along::scattered;
        for (const Group& group : parts)
          result.element += (result.element.empty() ? "" : " + ") + index_text(group, a.extent, "(" + a.name + " + e)");
      } else {
        for (const Group& group : parts) result.offset += " + " + index_text(group, a.extent, a.name);
      }
    }
    return result;
  }
  std::string load(Body& body, const View& view, const Frame& frame, bool mask) {
    const std::string from = pointer(body, view, false, letter(body));
    const Place at = place(view, frame);
    const std::string where = from + at.offset;
    if (mask) {
      if (at.along == Place::Along::none) return "splat_mask(" + where + ")";
      if (at.along == Place::Along::whole && at.stride == 1) return "load_mask(" + where + ", width)";
      if (at.along == Place::Along::whole) return "mask_gathered<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return e * " + text(at.stride) + "; })";
      return "mask_gathered<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return " + at.element + "; })";
    }
    const bool is_float = buffer_of(view).dtype == Dtype::float32;
    if (at.along == Place::Along::none && !is_float)
      return "splat(static_cast<float>(" + (at.offset.empty() ? "*" + from : from + "[" + at.offset.substr(3) + "]") +
             "))";
    if (at.along == Place::Along::whole && at.stride == 1 && !is_float) return "load_as(" + where + ", width)";
    if (at.along == Place::Along::none)
      return "splat(" + (at.offset.empty() ? "*" + from : from + "[" + at.offset.substr(3) + "]") + ")";
    if (at.along == Place::Along::whole && at.stride == 1) return "load_some<width>(" + where + ")";
    if (at.along == Place::Along::whole) return "load_strided(" + where + ", " + text(at.stride) + ", width)";
    return "gathered<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return " + at.element + "; })";
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw CodegenError(ErrorId::no_cpp_spelling, "specialised_source: " + what);
  }

  std::string expression(Body& body, const Term& term, const Frame& frame) {
    using Kind = Term::Kind;
    switch (term.kind) {
      case Kind::result: return "v";
      case Kind::number: return number(term.number);
      case Kind::load: return load(body, term.view, frame, term.mask);
      case Kind::lookup: {
        const View& index = term.operands[0]->view;
        View column{-1, 0, frame.sizes, Sizes(frame.sizes.size(), 0)};
        column.strides.back() = 1;
        const Place at = place(index, frame), along = place(column, frame);
        const std::string row = pointer(body, index, false, "index");
        const std::string table = pointer(body, term.view, false, "table");
        parameter(body, "int&", "call.fault", "fault");
        const auto row_at = [&](const std::string& where) {
          return "row_of<" + text(term.view.sizes[0]) + ">(" + row + "[" + (where.empty() ? "0" : where.substr(3)) +
                 "], fault) * " + text(term.view.strides[0]);
        };
        if (at.along == Place::Along::none && along.along != Place::Along::scattered)
          return "load_some<width>(" + table + " + " + row_at(at.offset) + along.offset + ")";
        // Rows that change within a vector.
        const auto of_element = [](const Place& place) {
          if (place.along == Place::Along::whole)
            return place.offset + " + e" + (place.stride == 1 ? "" : " * " + text(place.stride));
          return place.offset + (place.element.empty() ? "" : " + " + place.element);
        };
        return "gathered<width>(" + table + ", [&](int e) FXX_KERNEL_LAMBDA { return " + row_at(of_element(at)) +
               of_element(along) + "; })";
      }
      default: break;
    }
    using F = kernels::Function;
    const auto operand = [&](std::size_t i) { return expression(body, *term.operands[i], frame); };
    const auto binary = [&](const char* symbol) {
      const bool numbers = term.operands[0]->kind == Kind::number && term.operands[1]->kind == Kind::number;
      return "(" + (numbers ? "splat(" + operand(0) + ")" : operand(0)) + symbol + operand(1) + ")";
    };
    switch (term.function) {
      case F::add: return binary(" + ");
      case F::subtract: return binary(" - ");
      case F::multiply: return binary(" * ");
      case F::divide: return binary(" / ");
      default: break;
    }
    std::string result = "apply<Function::" + std::string(name_of_function(term.function)) + ">(";
    for (std::size_t i = 0; i < term.operands.size(); ++i) {
      const bool constant = term.operands[i]->kind == Kind::number;
      result += (i ? ", " : "") + (constant ? "splat(" + operand(i) + ")" : operand(i));
    }
    return result + ")";
  }
  /// Elements of other types are only copied.
  std::string copy_of(Body& body, const View& to, const Term& value, const Frame& frame) {
    if (value.kind != Term::Kind::load || buffer_of(value.view).dtype != buffer_of(to).dtype)
      fail("a computed " + std::string(name_of(buffer_of(to).dtype)));
    const Place from = place(value.view, frame), out = place(to, frame);
    if (from.along == Place::Along::scattered || out.along == Place::Along::scattered)
      fail("a copy whose elements lie scattered");
    const auto stride = [&](const Place& at) { return at.along == Place::Along::none ? "0" : text(at.stride); };
    return "copy_strided<width>(" + pointer(body, value.view, false, letter(body)) + from.offset + ", " +
           stride(from) + ", " + pointer(body, to, true, "out") + out.offset + ", " + stride(out) + ");\n";
  }
  std::string stores(Body& body, const KernelStep& step, const Frame& frame, const std::string& indent,
                     const std::vector<View>* views = nullptr) {
    std::string result;
    for (std::size_t i = 0; i < step.stores.size(); ++i) {
      const plans::Store& store = step.stores[i];
      const View& to = views ? (*views)[i] : store.to;
      if (const Dtype dtype = buffer_of(to).dtype; dtype != Dtype::float32 && dtype != Dtype::boolean) {
        result += indent + copy_of(body, to, *store.value, frame);
        continue;
      }
      std::string value = expression(body, *store.value, frame);
      if (store.value->kind == Term::Kind::number) value = "splat(" + value + ")";
      const std::string out = pointer(body, to, true, "out");
      const Place at = place(to, frame);
      const std::string where = out + at.offset;
      const Dtype dtype = buffer_of(to).dtype;
      result += indent;
      if (dtype == Dtype::boolean) {
        const bool strided = at.along == Place::Along::whole && at.stride != 1;
        if (at.along == Place::Along::scattered || strided)
          result += "mask_scattered<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return " +
                    (strided ? "e * " + text(at.stride) : at.element) + "; }, " + value + ");\n";
        else
          result += "store_mask(" + where + ", " + value + ", " +
                    (at.along == Place::Along::none ? "Width<1>{}" : "width") + ");\n";
      } else if (at.along == Place::Along::none) {
        result += "store_some<1>(" + where + ", " + value + ");\n";
      } else if (at.along == Place::Along::whole && at.stride == 1) {
        result += "store_some<width>(" + where + ", " + value + ");\n";
      } else if (at.along == Place::Along::whole) {
        result += "store_strided(" + where + ", " + text(at.stride) + ", " + value + ", width);\n";
      } else {
        result += "scattered<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return " + at.element + "; }, " +
                  value + ");\n";
      }
    }
    return result;
  }
  static bool mentions(const std::string& text, const std::string& name) {
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
    }
    return false;
  }
  /// `[&](int row, int column, real v, auto width)`, naming what the body needs.
  static std::string lambda(const std::vector<std::string>& integers, bool value, const std::string& body) {
    std::string result = "[&](";
    for (const std::string& name : integers) result += mentions(body, name) ? "int " + name + ", " : "int, ";
    if (value) result += mentions(body, "v") ? "real v, " : "real, ";
    return result + (mentions(body, "width") ? "auto width" : "auto") + ") FXX_KERNEL_LAMBDA {\n" + body;
  }

  // --- kernels -------------------------------------------------------------------------------------------------------
  std::string shape(const std::string& type, const std::string& fields, const std::string& stem) {
    const std::string value = type + " " + fields;
    if (const auto known = shapes_.find(value); known != shapes_.end()) return known->second;
    const std::string name = stem + "_" + std::to_string(++shape_counts_[stem]);
    shape_lines_ += "constexpr " + type + " " + name + " = " + fields + ";\n";
    return shapes_[value] = name;
  }
  void scratch(Body& body, const std::string& floats) {
    scratch_.insert(floats);
    parameter(body, "float*", "reinterpret_cast<float*>(call.memory + arena_bytes)", "workspace");
  }
  std::string recurrent(Body& body, const KernelStep& step, const plans::Recurrent& k) {
    include("gemm");
    include("recurrent");
    include("loops");
    const bool lstm = k.kind == plans::Recurrent::Kind::lstm;
    const std::string gates = lstm ? "4" : "3", size = text(k.size), steps = text(k.steps), in_size = text(k.in_size);
    const std::string name =
        shape("RecurrentShape",
              "{.steps = " + steps + ", .size = " + size + (k.backward ? ", .backward = true" : "") + "}", "recurrent");
    const std::string all = gates + " * " + name + ".padded()", stride = text(k.in.strides[0]);
    const std::string in = pointer(body, k.in, false, "in");
    const View &wi = k.input_weights, &ws = k.state_weights;
    const std::string tile = "gemm_tile(" + steps + ", " + all + ", " + stride + ")";
    const std::string input_weights =
        parameter(body, "const float*",
                  "call.weights + " + constant(wi, "", "packed_size(" + all + ", " + in_size + ")",
                                               "pack_weights($to, " + all + ", " + in_size + ", " + tile +
                                                   ", GateWeights{$from, " + size + ", " + gates + ", " +
                                                   text(wi.strides[0]) + ", " + text(wi.strides[1]) + "})"),
                  "w");
    const std::string state_weights = parameter(
        body, "const float*",
        "call.weights + " + constant(ws, "", all + " * " + size,
                                     "pack_recurrent($to, " + size + ", " + gates + ", StateWeights{$from, " + size +
                                         ", " + text(ws.strides[0]) + ", " + text(ws.strides[1]) + "})"),
        "w_state");
    std::string bias;
    if (k.input_bias.buffer >= 0)
      bias = parameter(body, "const float*",
                       "call.weights + " + constant(k.input_bias, "_gates", all,
                                                    "pack_gates($to, $from, " + attribute(k.state_bias) + ", " + size +
                                                        ", " + gates + ", " + (lstm ? "4" : "2") + ")"),
                       "b");
    // Gates of all steps, and the states, which all threads share.
    scratch(body, "(" + steps + " * 4 + 2) * " + name + ".padded()");
    parameter(body, "Barrier&", "barrier", "barrier");
    std::string result = "  constexpr int padded = " + name + ".padded(), row_size = " + gates +
                         " * padded;\n"
                         "  float* const gates = workspace;\n  float* const h = gates + " +
                         steps + " * row_size;\n";
    if (lstm) result += "  float* const c = h + padded;\n";
    result += "  gemm<" + steps + ", row_size, " + in_size + ", " + stride + ">(part, " + in + ", " + input_weights +
              ", [&](int row, int column, real v, auto width) FXX_KERNEL_LAMBDA {\n"
              "    store_some<width>(gates + row * row_size + column, v" +
              (bias.empty() ? "" : " + load_some<width>(" + bias + " + column)") + ");\n  });\n";
    const auto state = [&](const View& view, const std::string& to) {
      const std::string from = view.buffer >= 0 ? pointer(body, view, false, to + "_before") : "";
      return "    for (int i = 0; i < padded; ++i) " + to +
             "[i] = " + (from.empty() ? "0.f" : "i < " + size + " ? " + from + "[i] : 0.f") + ";\n";
    };
    result +=
        "  if (part.index == 0) {\n" + state(k.h, "h") + (lstm ? state(k.c, "c") : "") + "  }\n  barrier.wait();\n";
    std::string arguments = "part, barrier, gates, " + state_weights + ", ";
    if (!lstm) {
      std::string own = "nullptr";
      if (k.state_bias.buffer >= 0) {
        View of_new = k.state_bias;
        of_new.offset += 2 * k.size;
        own = pointer(body, of_new, false, "b_new");
      } else {
        result += "  static constexpr float no_bias[padded] = {};\n";
        own = "no_bias";
      }
      arguments += own + ", ";
    }
    arguments += lstm ? "h, c, " : "h, ";
    const std::string inner = stores(body, step, step.frame, "    ");
    result += "  " + std::string(lstm ? "lstm" : "gru") + "<" + name + ">(" + arguments +
              lambda({"step", "column"}, true, inner) + "  });\n";
    std::string after;
    const auto keep = [&](const View& view, const std::string& from) {
      if (view.buffer >= 0)
        after += "    for (int i = 0; i < " + size + "; ++i) " + pointer(body, view, true, from + "_after") +
                 "[i] = " + from + "[i];\n";
    };
    keep(k.h_out, "h");
    if (lstm) keep(k.c_out, "c");
    if (!after.empty()) result += "  if (part.index == 0) {\n" + after + "  }\n";
    return result;
  }

  std::string group_norm(Body& body, const KernelStep& step, const plans::GroupNorm& k) {
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

  std::string resize(Body& body, const KernelStep& step, const plans::Resize& k) {
    include("copies");
    include("loops");
    const std::string in = pointer(body, k.in, false, "in");
    const std::string name =
        shape("ResizeShape",
              "{.channels = " + text(k.channels) + ", .in_height = " + text(k.in_height) + ", .in_width = " +
                  text(k.in_width) + ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
                  (k.align_corners ? ", .align_corners = true" : "") + (k.exact ? ", .exact = true" : "") +
                  (k.scale_height > 0 ? ", .scale_height = " + cpp_double(k.scale_height) : "") +
                  (k.scale_width > 0 ? ", .scale_width = " + cpp_double(k.scale_width) : "") +
                  ", .in_row = " + text(k.in.strides[2] / k.in.strides[3]) + "}",
              "resize");
    const std::string inner = stores(body, step, step.frame, "      ");
    return "  const Range images = part.of(" + text(k.images) +
           ");\n  for (int image = images.begin; image < images.end; ++image)\n    resize_" +
           std::string(k.kind == plans::Resize::Kind::nearest ? "nearest" : "bilinear") + "<" + name + ">(" + in +
           " + image * " + text(k.in.strides[0]) + ", " + lambda({"y", "x", "channel"}, true, inner) + "    });\n";
  }

  void include(const std::string& header) { headers_.insert("fxx/kernels/" + header + ".hpp"); }

  std::string pointwise(Body& body, const KernelStep& step) {
    // The memory of the result gives the order; dimensions that lie behind each other in all views are one.
    const View& out = step.stores[0].to;
    const std::size_t n = out.sizes.size();
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < n; ++d)
      if (out.sizes[d] != 1) order.push_back(d);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return out.strides[a] > out.strides[b]; });
    std::vector<const View*> views;
    View along{-1, 0, out.sizes, Sizes(n, 0)};  // the column of a table
    if (n) along.strides[n - 1] = 1;
    bool looks_up = false;
    for (const plans::Store& store : step.stores) {
      views.push_back(&store.to);
      each_term(*store.value, [&](const Term& term) {
        if (term.kind == Term::Kind::load) views.push_back(&term.view);
        looks_up = looks_up || term.kind == Term::Kind::lookup;
      });
    }
    if (looks_up) views.push_back(&along);
    Frame frame;
    frame.sizes = out.sizes;
    frame.dims.resize(n);
    static constexpr const char* names[] = {"i", "j", "k", "l", "m", "n", "o", "p"};
    std::vector<std::vector<std::size_t>> axes;
    for (std::size_t d : order) {
      bool joins = !axes.empty();
      if (joins)
        for (const View* view : views)
          joins = joins && view->strides[axes.back().back()] == view->strides[d] * view->sizes[d];
      if (joins) axes.back().push_back(d);
      else axes.push_back({d});
    }
    if (axes.size() > 8) fail("a loop over more than eight dimensions");
    for (std::size_t a = 0; a < axes.size(); ++a) {
      std::int64_t extent = 1;
      for (std::size_t i = axes[a].size(); i-- > 0;) {
        frame.dims[axes[a][i]] = {static_cast<int>(a), extent};
        extent *= out.sizes[axes[a][i]];
      }
      frame.axes.push_back({names[a], extent});
    }
    if (axes.empty()) frame.axes.push_back({"i", 1});
    include("loops");
    std::string loops, indent = "  ";
    const std::size_t last = frame.axes.size() - 1;
    // The axis that threads share: the first that is long enough.
    std::size_t shared = last;
    for (std::size_t a = 0; a < last; ++a)
      if (frame.axes[a].extent >= 8) {
        shared = a;
        break;
      }
    for (std::size_t a = 0; a < last; ++a) {
      const std::string& name = frame.axes[a].name;
      if (a == shared)
        loops += indent + "const Range range = part.of(" + text(frame.axes[a].extent) + ");\n" + indent + "for (int " +
                 name + " = range.begin; " + name + " < range.end; ++" + name + ")";
      else
        loops +=
            indent + "for (int " + name + " = 0; " + name + " < " + text(frame.axes[a].extent) + "; ++" + name + ")";
      // A declaration needs braces around it when it is not the first.
      if (a + 1 < last && a + 1 == shared) loops += " {\n";
      else loops += "\n";
      indent += "  ";
    }
    const std::string inner = stores(body, step, frame, indent + "  ");
    loops += indent + "pointwise<" + text(frame.axes[last].extent) + ">(" + (shared == last ? "part" : "Part{}") +
             ", " + lambda({frame.axes[last].name}, false, inner) + indent + "});\n";
    for (std::size_t a = 0; a + 1 < last; ++a)
      if (a + 1 == shared) loops += std::string(2 * (a + 1), ' ') + "}\n";
    return loops;
  }
  template <class F>
  static void each_term(const Term& term, const F& f) {
    f(term);
    for (const plans::TermPointer& operand : term.operands)
      if (term.kind != Term::Kind::lookup) each_term(*operand, f);
      else f(*operand);
  }

  /// " + matrix * 64", or from a table of offsets that is declared before.
  static std::string offset_of(const Sizes& offsets, const std::string& index, const std::string& table,
                               std::string& declarations) {
    const std::int64_t count = static_cast<std::int64_t>(offsets.size());
    if (count <= 1) return offsets.empty() || offsets[0] == 0 ? "" : " + " + text(offsets[0]);
    const std::int64_t step = offsets[1] - offsets[0];
    std::int64_t run = 1;
    while (run < count && offsets[static_cast<std::size_t>(run)] == offsets[0] + run * step) ++run;
    const std::int64_t outer = run < count ? offsets[static_cast<std::size_t>(run)] : 0;
    bool affine = offsets[0] == 0;
    for (std::int64_t i = 0; i < count; ++i)
      affine = affine && offsets[static_cast<std::size_t>(i)] == i / run * outer + i % run * step;
    if (affine) {
      std::string result;
      if (run < count && outer) result += " + " + index + " / " + text(run) + " * " + text(outer);
      if (step) result += " + " + index + (run < count ? " % " + text(run) : "") + " * " + text(step);
      return result;
    }
    declarations += "  static constexpr std::ptrdiff_t " + table + "[] = {";
    for (std::int64_t i = 0; i < count; ++i)
      declarations += (i ? ", " : "") + text(offsets[static_cast<std::size_t>(i)]);
    declarations += "};\n";
    return " + " + table + "[" + index + "]";
  }

  /// With weights of bfloat16. Many rows become bfloat16 as well, for products of that.
  std::string reduced_product(Body& body, const KernelStep& step, const plans::MatrixProduct& k, const std::string& in) {
    const bool both = k.rows >= 4 && k.depth % 2 == 0;
    const std::string stride = text(both ? k.depth : k.a_row), size = text(k.columns) + ", " + text(k.depth);
    const View& w = k.weights.view;
    const std::string at = constant(w, "_reduced", "(packed_size<Bfloat16>(" + size + ") + 1) / 2",
                                    "pack_weights(reinterpret_cast<Bfloat16*>($to), " + size + ", gemm_tile<Bfloat16>(" +
                                        text(k.rows) + ", " + text(k.columns) + ", " + stride +
                                        "), MatrixWeights{$from, " + text(w.strides[0]) + ", " + text(w.strides[1]) + "})");
    const std::string weights =
        parameter(body, "const Bfloat16*", "reinterpret_cast<const Bfloat16*>(call.weights + " + at + ")", "w");
    std::string result, from = in;
    if (both) {
      scratch(body, text((k.rows * k.depth + 1) / 2));
      parameter(body, "Barrier&", "barrier", "barrier");
      from = "rows";
      result = "  Bfloat16* const rows = reinterpret_cast<Bfloat16*>(workspace);\n  const Range mine = part.of(" +
               text(k.rows) + ");\n  for (int row = mine.begin; row < mine.end; ++row)\n    pointwise<" + text(k.depth) +
               ">(Part{}, [&](int i, auto width) FXX_KERNEL_LAMBDA {\n      store_bfloat16<width>(rows + row * " +
               text(k.depth) + " + i, load_some<width>(" + in + " + row * " + text(k.a_row) +
               " + i));\n    });\n  barrier.wait();\n";
    }
    const std::string inner = stores(body, step, step.frame, "    ");
    return result + "  gemm<" + text(k.rows) + ", " + size + ", " + stride + ">(part, " + from + ", " + weights + ", " +
           lambda({"row", "column"}, true, inner) + "  });\n";
  }

  std::string product(Body& body, const KernelStep& step, const plans::MatrixProduct& k) {
    include("gemm");
    include("loops");
    const std::string sizes = text(k.rows) + ", " + text(k.columns) + ", " + text(k.depth) + ", " + text(k.a_row);
    const std::string tile = "gemm_tile(" + text(k.rows) + ", " + text(k.columns) + ", " + text(k.a_row) + ")";
    const std::string in = pointer(body, k.a, false, "in");
    const View& w = k.weights.view;
    const std::string packed = "packed_size(" + text(k.columns) + ", " + text(k.depth) + ")";
    const auto pack = [&](const std::string& to, const std::string& from) {
      return "pack_weights(" + to + ", " + text(k.columns) + ", " + text(k.depth) + ", " + tile + ", MatrixWeights{" +
             from + ", " + text(w.strides[0]) + ", " + text(w.strides[1]) + "})";
    };
    if (k.weights.reduced) return reduced_product(body, step, k, in);
    if (k.batch == 1 && k.weights.constant) {
      const std::string weights =
          parameter(body, "const float*", "call.weights + " + constant(w, "", packed, pack("$to", "$from")), "w");
      const std::string inner = stores(body, step, step.frame, "    ");
      return "  gemm<" + sizes + ">(part, " + in + ", " + weights + ", " + lambda({"row", "column"}, true, inner) +
             "  });\n";
    }
    const std::string from = pointer(body, w, false, "w");
    scratch(body, packed);
    std::string result =
        "  float* const packed = workspace + part.index * static_cast<std::ptrdiff_t>(" + packed + ");\n";
    if (k.batch == 1) {
      const std::string inner = stores(body, step, step.frame, "    ");
      return result + "  " + pack("packed", from) + ";\n  gemm<" + sizes + ">(part, " + in + ", packed, " +
             lambda({"row", "column"}, true, inner) + "  });\n";
    }
    const std::string a_at = offset_of(k.a_batch, "matrix", "a_at", result),
                      w_at = offset_of(k.weights_batch, "matrix", "w_at", result);
    result += "  const Range matrices = part.of(" + text(k.batch) +
              ");\n  for (int matrix = matrices.begin; matrix < matrices.end; ++matrix) {\n";
    result += "    " + pack("packed", from + w_at) + ";\n";
    const std::string inner = stores(body, step, step.frame, "      ");
    result += "    gemm<" + sizes + ">(Part{}, " + in + a_at + ", packed, " + lambda({"row", "column"}, true, inner) +
              "    });\n  }\n";
    return result;
  }

  std::string convolution(Body& body, const KernelStep& step, const plans::Convolution& k) {
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
          "{.outputs = " + std::string(k.method == Method::winograd_4 ? "4" : "2") +
              ", .channels = " + text(k.channels) + ", .out_channels = " + text(k.out_channels) +
              ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) + ", .in_row = " + row +
              ", .in_pixel = " + pixel + ", .images = " + text(k.images) + ", .in_image = " + image + "}",
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
                    ", .dilation_height = " + text(k.dilation_height) +
                    ", .dilation_width = " + text(k.dilation_width) + ", .padding_height = " + text(k.padding_height) +
                    ", .padding_width = " + text(k.padding_width) + ", .in_row = " + row + ", .in_pixel = " + pixel +
                    ", .images = " + text(k.images) + ", .in_image = " + image + "}",
                "transposed");
      const std::string packed =
          parameter(body, "const float*",
                    "call.weights + " +
                        constant(w, "", name + ".packed()", "pack_transposed($to, " + name + ", " + weights + ")"),
                    "w");
      const std::string inner = stores(body, step, step.frame, "    ");
      return "  transposed_convolution<" + name + ">(part, " + in + ", " + packed + ", " +
             lambda(indices, true, inner) + "  });\n";
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
    const std::string size =
        depthwise ? "packed_size(" + text(k.channels) + ", " + text(k.kernel_height * k.kernel_width) + ")"
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

  std::string pooling(Body& body, const KernelStep& step, const plans::Pooling& k) {
    include("pooling");
    include("loops");
    const std::string in = pointer(body, k.in, false, "in");
    const std::string name =
        shape("PoolShape",
              "{.channels = " + text(k.channels) + ", .in_height = " + text(k.in_height) + ", .in_width = " +
                  text(k.in_width) + ", .out_height = " + text(k.out_height) + ", .out_width = " + text(k.out_width) +
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

  std::string rows(Body& body, const KernelStep& step, const plans::Rows& k) {
    include("rows");
    include("loops");
    using Kind = plans::Rows::Kind;
    const std::string element = expression(body, *k.input, k.read);
    const std::string read = k.kind == Kind::norm
                                 ? "      const real x = " + element + ";\n      return x * x;\n"
                                 : "      return " + (k.input->kind == Term::Kind::number ? "splat(" + element + ")" : element) + ";\n";
    const std::string get = lambda({"column"}, false, read) + "    }";
    std::string result = "  const Range range = part.of(" + text(k.rows) +
                         ");\n  for (int row = range.begin; row < range.end; ++row) {\n";
    const std::string n = "<" + text(k.length) + ">";
    if (k.columns) {
      include("reductions");
      const std::string call = k.kind == Kind::largest    ? "column_largest<"
                               : k.kind == Kind::smallest ? "column_smallest<"
                               : k.kind == Kind::mean     ? "column_means<"
                                                          : "column_sums<";
      const std::string inner = stores(body, step, step.frame, "      ");
      return result + "    " + call + text(k.length) + ", " + text(k.columns) + ">(" + lambda({"k", "column"}, false, read) +
             "    }, " + lambda({"column"}, true, inner) + "    });\n  }\n";
    }
    if (k.reduces()) {
      const std::string call = k.kind == Kind::largest    ? "row_largest"
                               : k.kind == Kind::smallest ? "row_smallest"
                                                          : "row_sum";
      const std::string inner = stores(body, step, step.frame, "    ");
      result += "    const real v = splat(" + std::string(k.kind == Kind::norm ? "__builtin_sqrtf(" : "") + call + n + "(" + get + ")" +
                (k.kind == Kind::mean ? " / " + number(static_cast<double>(k.length)) : k.kind == Kind::norm ? ")" : "") + ");\n";
      if (mentions(inner, "column")) result += "    constexpr int column = 0;\n";
      if (mentions(inner, "width")) result += "    constexpr Width<1> width{};\n";
      result += inner;
    } else {
      const std::string name = k.kind == Kind::softmax       ? "softmax"
                               : k.kind == Kind::log_softmax ? "log_softmax"
                               : k.kind == Kind::layer_norm  ? "layer_norm"
                                                             : "rms_norm";
      const std::string eps = k.kind == Kind::layer_norm || k.kind == Kind::rms_norm ? number(k.eps) + ", " : "";
      const std::string inner = stores(body, step, step.frame, "      ");
      result += "    " + name + n + "(" + eps + get + ", " + lambda({"column"}, true, inner) + "    });\n";
    }
    return result + "  }\n";
  }

  std::string attention(Body& body, const KernelStep& step, const plans::Attention& k) {
    include("attention");
    include("loops");
    const std::string q = pointer(body, k.q, false, "q"), key = pointer(body, k.k, false, "k"),
                      value = pointer(body, k.v, false, "values");
    const std::string name =
        shape("AttentionShape",
              "{.queries = " + text(k.queries) + ", .keys = " + text(k.keys) + ", .size = " + text(k.size) +
                  ", .value_size = " + text(k.value_size) + ", .query_stride = " + text(k.q.strides[0]) +
                  ", .key_stride = " + text(k.k.strides[0]) + ", .value_stride = " + text(k.v.strides[0]) +
                  (k.causal ? ", .causal = true, .from_first = true" : "") + ", .hidden_is_zero = true}",
              "attention");
    // A token or two read the keys where they lie; for more they are packed first.
    const bool few = k.queries <= 2;
    const std::string workspace = name + (few ? ".cache_workspace()" : ".workspace()");
    scratch(body, workspace);
    std::string result;
    const std::string q_at = offset_of(k.q_heads, "head", "q_at", result),
                      k_at = offset_of(k.k_heads, "head", "k_at", result),
                      v_at = offset_of(k.v_heads, "head", "v_at", result);
    result += "  const Range heads = part.of(" + text(k.heads) +
              ");\n  for (int head = heads.begin; head < heads.end; ++head)\n";
    std::string mask = "no_mask";
    if (k.mask) {
      const std::string read = "          return " + expression(body, *k.mask, k.mask_frame) + ";\n";
      mask = lambda({"query", "key"}, false, read) + "        }";
    }
    const std::string inner = stores(body, step, step.frame, "          ");
    result += std::string("    attention") + (few ? "_over_cache<" : "<") + name + ">(" + q + q_at + ", " + key + k_at + ", " + value + v_at + ", " +
              (few ? text(k.keys) + ", " : "") + number(k.scale) + ",\n        workspace + part.index * static_cast<std::ptrdiff_t>(" + workspace +
              "), " + mask + ",\n        " + lambda({"query", "column"}, true, inner) + "        });\n";
    return result;
  }

  // --- the forward ---------------------------------------------------------------------------------------------------
  static std::string stem_of(const KernelStep& step) {
    return match(
        step.kernel, [](const plans::Pointwise&) { return std::string("pointwise"); },
        [](const plans::MatrixProduct&) { return std::string("product"); },
        [](const plans::Convolution& k) {
          using Method = plans::Convolution::Method;
          return std::string(k.method == Method::depthwise    ? "depthwise"
                             : k.method == Method::direct     ? "convolution"
                             : k.method == Method::transposed ? "transposed"
                                                              : "winograd");
        },
        [](const plans::Pooling&) { return std::string("pool"); },
        [](const plans::Rows& k) { return std::string(k.reduces() ? "reduction" : "rows"); },
        [](const plans::Attention&) { return std::string("attention"); },
        [](const plans::Recurrent&) { return std::string("recurrent"); },
        [](const plans::GroupNorm&) { return std::string("group_norm"); },
        [](const plans::Resize&) { return std::string("resize"); },
        [](const plans::CallBack&) { return std::string("call_back"); });
  }
  static std::string end_of_step(int index) {
    return "  end_of_step(call, part, barrier, " + std::to_string(index + 1) + ");\n";
  }
  void step(int index);

  const KernelPlan& plan_;
  std::string title_;
  std::set<std::string> headers_;
  std::map<std::string, std::string> constants_, shapes_, functions_;
  std::set<std::string> constant_names_;
  std::map<std::string, int> shape_counts_, function_counts_;
  std::string constant_lines_, last_constant_, last_size_, pack_lines_, shape_lines_, function_lines_, forward_lines_;
  std::set<std::string> scratch_;
};

FXX_INLINE void SpecialisedWriter::step(int index) {
  const KernelStep& step = plan_.steps[static_cast<std::size_t>(index)];
  std::string names, where;
  for (const Node* node : step.nodes) {
    names += (names.empty() ? "" : ", ") + std::string(node->name());
    if (!node->source().empty()) where = node->source();
  }
  forward_lines_ += "  // " + cpp_comment(names + (where.empty() ? "" : ": " + where)) + "\n";
  if (const auto* back = std::get_if<plans::CallBack>(&step.kernel)) {
    forward_lines_ += "  // " + cpp_comment("no kernel: " + back->why) + "\n  if (part.index == 0) call_back(call, " +
                      std::to_string(index) + ");\n" + end_of_step(index) + "  if (call.fault == 2) return;\n";
    return;
  }
  Body body;
  std::string text;
  for (const plans::Store& store : step.stores) {
    const plans::Buffer& buffer = buffer_of(store.to);
    if (buffer.border.empty() || buffer.first != index) continue;
    include("loops");
    const std::string name = shape(
        "BorderShape",
        "{.images = " + this->text(buffer.image[0]) + ", .rows = " + this->text(buffer.image[1]) +
            ", .pixels = " + this->text(buffer.image[2]) + ", .channels = " + this->text(buffer.image[3]) +
            ", .top = " + this->text(buffer.border.top) + ", .left = " + this->text(buffer.border.left) +
            ", .bottom = " + this->text(buffer.border.bottom) + ", .right = " + this->text(buffer.border.right) + "}",
        "border");
    text += "  clear_border<" + name + ">(part, " + pointer(body, {store.to.buffer, 0, {}, {}}, true, "image") + ");\n";
  }
  text += match(
      step.kernel, [&](const plans::Pointwise&) { return pointwise(body, step); },
      [&](const plans::MatrixProduct& k) { return product(body, step, k); },
      [&](const plans::Convolution& k) { return convolution(body, step, k); },
      [&](const plans::Pooling& k) { return pooling(body, step, k); },
      [&](const plans::Rows& k) { return rows(body, step, k); },
      [&](const plans::Attention& k) { return attention(body, step, k); },
      [&](const plans::GroupNorm& k) { return group_norm(body, step, k); },
      [&](const plans::Recurrent& k) { return recurrent(body, step, k); },
      [&](const plans::Resize& k) { return resize(body, step, k); },
      [&](const plans::CallBack&) { return std::string(); });
  std::string parameters = "Part part", arguments = "part";
  for (const Body::Parameter& p : body.parameters) {
    parameters += ", " + p.type + " " + p.name;
    arguments += ", " + p.argument;
  }
  const std::string definition = "(" + parameters + ") {\n" + text + "}\n";
  auto [known, fresh] = functions_.try_emplace(definition);
  if (fresh) {
    const std::string stem = stem_of(step);
    known->second = stem + "_step_" + std::to_string(++function_counts_[stem]);
    function_lines_ += "[[gnu::noinline]] void " + known->second + definition + "\n";
  }
  forward_lines_ += "  " + known->second + "(" + arguments + ");\n" + end_of_step(index);
}

FXX_INLINE SpecialisedSource SpecialisedWriter::write() {
  include("loops");
  include("module");
  include("parallel");
  include("weights");
  include("loops");
  for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) step(i);
  SpecialisedSource out;
  out.headers.assign(headers_.begin(), headers_.end());
  std::string& text = out.text;
  text = "// Forward of " + cpp_comment(title_) + ", made by fxx " FXX_VERSION_TEXT " for these sizes and weights.\n\n";
  for (const std::string& header : out.headers) text += "#include \"" + header + "\"\n";
  text += "\nnamespace {\n\nusing namespace fxx::kernels;\n\n";
  if (!shape_lines_.empty()) text += shape_lines_ + "\n";
  if (!constant_lines_.empty()) text += "// Where each constant begins, in floats.\n" + constant_lines_;
  text += "constexpr std::size_t weights_size = " +
          (last_constant_.empty() ? std::string("0") : last_constant_ + " + whole(" + last_size_ + ")") + ";\n";
  text += "constexpr std::size_t arena_bytes = " + std::to_string(plan_.arena_bytes) + ";\n";
  std::string most = "0";
  for (const std::string& floats : scratch_) most = "most_of(" + most + ", " + floats + ")";
  text += "constexpr std::size_t scratch_bytes = " +
          (scratch_.empty() ? std::string("0") : "whole(" + most + ") * sizeof(float)") + ";\n\n";
  text += function_lines_;
  if (forward_lines_.find("call_back(call") != std::string::npos)
    text +=
        "[[maybe_unused]] void call_back(ModuleCall& call, int step) {\n  if (call.call_back(&call, step) == 0) return;\n  call.fault = "
        "2;\n  call.step = step;\n}\n\n";
  text +=
      "/// What the next step reads is written.\n"
      "inline void end_of_step(const ModuleCall& call, Part part, Barrier& barrier, int number) {\n"
      "  barrier.wait();\n  note_time(call.times, part, number);\n}\n\n"
      "void forward(ModuleCall& call, Part part, Barrier& barrier) {\n  end_of_step(call, part, barrier, 0);\n" +
      forward_lines_ + "}\n\n}  // namespace\n\n";
  text +=
      "#pragma GCC visibility push(default)\n"
      "extern \"C\" {\n"
      "extern const ModuleInfo fxx_module;\n"
      "const ModuleInfo fxx_module = {module_abi, lanes, \"" FXX_VERSION_TEXT
      "\", arena_bytes, scratch_bytes, weights_size};\n\n"
      "void fxx_pack([[maybe_unused]] const void* const* attributes, [[maybe_unused]] float* weights) {\n" +
      pack_lines_ +
      "}\n"
      "void* fxx_open(int threads) { return new Team(threads); }\n"
      "void fxx_close(void* team) { delete static_cast<Team*>(team); }\n"
      "void fxx_run(void* team, ModuleCall* call) {\n"
      "  Team& threads = *static_cast<Team*>(team);\n"
      "  threads.run([&](Part part) { forward(*call, part, threads.barrier); });\n"
      "}\n"
      "}\n"
      "#pragma GCC visibility pop\n";
  return out;
}

}  // namespace detail

FXX_INLINE SpecialisedSource specialised_source(const KernelPlan& plan, const std::string& title) {
  return detail::SpecialisedWriter(plan, title).write();
}

}  // namespace fxx::inline FXX_ABI
