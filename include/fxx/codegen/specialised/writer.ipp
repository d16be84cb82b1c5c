// The writer of specialised modules: what it has written so far, and the names in it. Constants, parameters, shapes and
// scratch memory are asked for here, by whatever writes a family of kernels beside this file.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/error.hpp"

namespace fxx::inline FXX_ABI::detail {

class SpecialisedWriter {
 public:
  /// `shared`: functions that loops call are compiled once for all of them, not into each.
  SpecialisedWriter(const KernelPlan& plan, const std::string& title, bool shared = false)
      : plan_(plan), title_(title), shared_(shared) {}
  SpecialisedSource write();
  /// What the compiler takes for loops of elements alone, about; known once all is written.
  double milliseconds_of_loops() const { return milliseconds_of_loops_; }

 private:
  using View = plans::View;
  using Sizes = plans::Sizes;
  using Term = plans::Term;
  using Frame = plans::Frame;

  /// What one step's function is called with, and what it knows it as.
  struct Body {
    struct Parameter {
      std::string type, name, argument;
    };
    std::vector<Parameter> parameters;
    std::map<std::string, std::string> names;  // by argument
    int loads = 0;
    std::map<const Term*, std::string> values = {};  // what stands for terms that are declared where text is being written
  };
  /// What one step, or several, call.
  struct Function {
    std::string name, definition;  // from its parameters on
    double milliseconds;           // that the compiler takes for it, about
  };
  /// Elements of a view along one axis: (axis / divisor % size) * stride.
  struct Group {
    std::int64_t divisor, size, stride;
  };
  /// How a vector of the view's elements is reached.
  struct Place {
    std::string offset;  // " + row * 64 + column", without the vector's axis when `along` is not whole
    enum class Along { none, whole, scattered } along = Along::none;
    std::int64_t stride = 1;  // whole: between elements
    std::string element;      // scattered: offset of element i, from the offset
    std::int64_t each = 0;    // scattered: not 0: so many elements in turn are the same, the next `stride` behind them
    std::string axis;         // then what counts them
  };

  // --- writer.ipp ----------------------------------------------------------------------------------------------------
  [[noreturn]] void fail(const std::string& what) const {
    throw CodegenError(ErrorId::no_cpp_spelling, "specialised_source: " + what);
  }
  const plans::Buffer& buffer_of(const View& view) const {
    return plan_.buffers[static_cast<std::size_t>(view.buffer)];
  }
  static std::string text(std::int64_t value) { return std::to_string(value); }
  static std::string number(double value);
  static std::string type_of(Dtype dtype);
  void include(const std::string& header) { headers_.insert("fxx/kernels/" + header + ".hpp"); }
  /// Where a constant stands among the model's tensors; for what packs it.
  std::string attribute(const View& view) const;
  /// A constant of the packed weights: declared once for one way to pack it.
  std::string constant(const View& view, const std::string& suffix, const std::string& size, const std::string& pack);
  /// Where the next constant may begin.
  std::string end_of_constants() const;
  /// Where the buffer begins, for the call of a step.
  std::string base(const View& view, bool written);
  std::string parameter(Body& body, const std::string& type, const std::string& argument, const std::string& wanted);
  /// The parameter that points at the view's first element.
  std::string pointer(Body& body, const View& view, bool written, const std::string& wanted);
  /// Is it what a function of a step declares itself: an index of a loop, an axis of a frame, what stands beside them?
  /// No parameter has such a name, which would be another thing where it is read. Who writes a loop adds its index.
  static bool is_declared(std::string_view name);
  std::string letter(Body& body) {
    for (;;) {
      const int i = body.loads++;
      std::string name = i < 20 ? std::string(1, static_cast<char>('a' + i)) : 'a' + std::to_string(i);
      if (!is_declared(name)) return name;
    }
  }
  /// The field of a shape that says the tile of sums, where it is said.
  static std::string sums(const plans::Way& way) {
    if (!way.tile.rows) return {};
    return ", .sums = {" + std::to_string(way.tile.rows) + ", " + std::to_string(way.tile.vectors) + "}";
  }
  /// A shape of kernels/, which is a template argument: declared once for the same fields.
  std::string shape(const std::string& type, const std::string& fields, const std::string& stem);
  /// Memory that the step works in, as `workspace`; all steps have the same.
  void scratch(Body& body, const std::string& floats);

  // --- loops.ipp -----------------------------------------------------------------------------------------------------
  std::vector<Group> groups(const View& view, const Frame& frame, int axis) const;
  static std::string index_text(const Group& group, std::int64_t extent, const std::string& axis);
  Place place(const View& view, const Frame& frame) const;
  /// The vector of elements at this place behind `from`.
  std::string load_at(const std::string& from, const Place& at, Dtype dtype, plans::Elements elements);
  std::string lookup(Body& body, const Term& term, const Frame& frame);
  std::string search(Body& body, const Term& term, const Frame& frame);
  std::string expression(Body& body, const Term& term, const Frame& frame);
  /// The same; a number as a vector too.
  std::string vector(Body& body, const Term& term, const Frame& frame) {
    const std::string text = expression(body, term, frame);
    const bool number = term.kind == Term::Kind::number && term.elements == plans::Elements::real;
    return number ? "splat(" + text + ")" : text;
  }
  /// Statements with these terms in them, behind declarations of what is read several times in the terms.
  template <class F>
  std::string sharing(Body& body, const std::vector<const Term*>& terms, const Frame& frame, const std::string& indent,
                      const F& statements);
  /// The end of a function that gives the term.
  std::string returned(Body& body, const Term& term, const Frame& frame, const std::string& indent);
  bool copies(const plans::Store& store) const;
  bool narrows(const plans::Store& store) const;
  std::string narrowed(Body& body, const plans::Store& store, const Frame& frame);
  std::string copy_of(Body& body, const View& to, const Term& value, const Frame& frame);
  /// What the step computes of each element, and where it goes: the body of the innermost loop.
  std::string stores(Body& body, const KernelStep& step, const Frame& frame, const std::string& indent);
  std::string each_store(Body& body, const KernelStep& step, const Frame& frame, const std::string& indent);
  static bool mentions(const std::string& text, const std::string& name);
  /// `[&](int row, int column, real v, auto width)`, naming what the body needs. `type` and `v`: of the value.
  static std::string lambda(const std::vector<std::string>& integers, bool value, const std::string& body,
                            const std::string& type = "real", const std::string& v = "v");
  static Frame turned(Frame frame);
  static Frame in_runs(Frame frame, std::int64_t length);
  std::int64_t length_of_runs(const plans::Rows& k) const;
  bool is_read_along(const Term& value, const Frame& frame) const;
  std::string interleaved(Body& body, const KernelStep& step, const Frame& frame);
  std::string transposed(Body& body, const KernelStep& step, const Frame& frame);
  std::string pointwise(Body& body, const KernelStep& step);
  // --- products.ipp --------------------------------------------------------------------------------------------------
  static std::string offset_of(const Sizes& offsets, const std::string& index, const std::string& table,
                               std::string& declarations);
  std::string product_weights(Body& body, const plans::MatrixProduct& k, const plans::Way& way);
  std::string product(Body& body, const KernelStep& step, const plans::MatrixProduct& k);
  std::string reduced_product(Body& body, const KernelStep& step, const plans::MatrixProduct& k, const std::string& in);
  std::string packed_parameter(Body& body, const View& weights, const std::string& type, const std::string& name,
                               const std::string& count, const std::string& pack);
  std::string dequantised(Body& body, const View& weights, const plans::Quantised& of, std::int64_t columns,
                          const std::string& channel, const std::string& excess);
  std::string quantised_product(Body& body, const KernelStep& step, const plans::MatrixProduct& k,
                                const std::string& in);
  std::string attention(Body& body, const KernelStep& step, const plans::Attention& k);
  std::string recurrent(Body& body, const KernelStep& step, const plans::Recurrent& k);
  // --- images.ipp ----------------------------------------------------------------------------------------------------
  std::string convolution(Body& body, const KernelStep& step, const plans::Convolution& k);
  std::string convolution_shape(const plans::Convolution& k, const plans::Way& way);
  std::string depthwise_weights(Body& body, const plans::Convolution& k, const std::string& shape);
  std::string depthwise_block(Body& body, const KernelStep& step, const plans::DepthwiseBlock& k);
  std::string pooling(Body& body, const KernelStep& step, const plans::Pooling& k);
  std::string resize(Body& body, const KernelStep& step, const plans::Resize& k);
  // --- rows.ipp ------------------------------------------------------------------------------------------------------
  std::string rows(Body& body, const KernelStep& step, const plans::Rows& k);
  static plans::Frame in_one_axis(plans::Frame frame);
  std::string of_columns(Body& body, const plans::Rows& k);
  bool turns_rows(const plans::Rows& k) const;
  std::string columns(Body& body, const KernelStep& step, const plans::Rows& k, const std::string& part);
  std::string group_norm(Body& body, const KernelStep& step, const plans::GroupNorm& k);
  // --- places.ipp ----------------------------------------------------------------------------------------------------
  std::string offset_of_element(const View& view, const Frame& frame) const;
  std::string scatter(Body& body, const KernelStep& step, const plans::Scatter& k);
  std::string bags(Body& body, const KernelStep& step, const plans::Bags& k);
  std::string sort(Body& body, const plans::Sort& k);
  // --- specialised_source.ipp ----------------------------------------------------------------------------------------
  static std::string stem_of(const KernelStep& step);
  double compile_milliseconds(const KernelStep& step, const std::string& text, bool known) const;
  std::string functions(int parts) const;
  std::string forward_function() const;
  /// Whether there are so many steps that one function is not for all of them.
  bool in_pieces() const { return plan_.steps.size() > 256; }
  static std::string end_of_step(int index) {
    return "  end_of_step(call, part, barrier, " + std::to_string(index + 1) + ");\n";
  }
  void tell_nodes(const KernelStep& step);
  int loop_of_call_backs(int index);
  void step(int index);

  const KernelPlan& plan_;
  std::string title_;
  bool shared_ = false;
  bool in_runs_ = false;  // of a row that is reduced, which may be several runs of memory
  bool in_loop_ = false;  // of elements alone, whose functions are shared where any are
  double milliseconds_of_loops_ = 0;
  std::set<std::string> headers_;
  std::map<std::string, std::string> constants_, shapes_, functions_;
  std::set<std::string> constant_names_;
  std::map<std::string, int> shape_counts_, function_counts_;
  std::string constant_lines_, last_constant_, last_size_, pack_lines_, shape_lines_, forward_lines_;
  std::vector<std::size_t> step_begins_;  // in forward_lines_
  std::vector<Function> step_functions_;
  std::set<std::string> scratch_;
};

FXX_INLINE std::string SpecialisedWriter::number(double value) {
  if (value != value) return "__builtin_nanf(\"\")";
  constexpr double endless = 0x1.ffffffp127;  // the least that rounds to an infinity, the largest float being below
  if (value >= endless) return "__builtin_inff()";
  if (value <= -endless) return "(-__builtin_inff())";
  std::string text = cpp_double(static_cast<double>(static_cast<float>(value)));
  text += "f";
  return value < 0 ? "(" + text + ")" : text;
}

FXX_INLINE std::string SpecialisedWriter::type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32: return "float";
    case Dtype::boolean: return "unsigned char";
    case Dtype::int64: return "std::int64_t";
    case Dtype::int32: return "std::int32_t";
    case Dtype::float64: return "double";
    case Dtype::uint8: return "std::uint8_t";
    case Dtype::int8: return "std::int8_t";
    case Dtype::int16: return "std::int16_t";
    case Dtype::float16: return "float16";
    case Dtype::bfloat16: return "Bfloat16";
    case Dtype::complex64: return "__complex__ float";
    case Dtype::complex128: return "__complex__ double";
    default:  // only copied
      switch (element_size(dtype)) {
        case 1: return "std::uint8_t";
        case 2: return "std::uint16_t";
        case 4: return "std::uint32_t";
        default: return "std::uint64_t";
      }
  }
}

FXX_INLINE std::string SpecialisedWriter::attribute(const View& view) const {
  return "static_cast<const float*>(attributes[" + std::to_string(buffer_of(view).number) + "])" +
         (view.offset ? " + " + text(view.offset) : "");
}

FXX_INLINE std::string SpecialisedWriter::end_of_constants() const {
  if (last_constant_.empty()) return "0";
  return last_constant_ + (plan_.guarded ? " + guarded(" : " + whole(") + last_size_ + ")";
}

FXX_INLINE std::string SpecialisedWriter::constant(const View& view, const std::string& suffix, const std::string& size,
                                                   const std::string& pack) {
  const plans::Buffer& buffer = buffer_of(view);
  const std::string key = std::to_string(buffer.number) + "/" + std::to_string(view.offset) + "/" + pack;
  if (const auto known = constants_.find(key); known != constants_.end()) return known->second;
  const std::string identifier = cpp_identifier(plan_.attributes[static_cast<std::size_t>(buffer.number)]);
  std::string name = identifier + suffix;
  for (int i = 2; !constant_names_.insert(name).second; ++i) name = identifier + suffix + "_" + std::to_string(i);
  name += "_at";
  constant_lines_ += "inline constexpr std::size_t " + name + " = " +
                     end_of_constants() + ";\n";
  last_constant_ = name;
  last_size_ = size;
  std::string statement = pack;
  for (std::size_t at; (at = statement.find("$to")) != std::string::npos;)
    statement.replace(at, 3, "weights + " + name);
  for (std::size_t at; (at = statement.find("$from")) != std::string::npos;) statement.replace(at, 5, attribute(view));
  pack_lines_ += "  " + statement + ";\n";
  if (plan_.guarded) pack_lines_ += "  guard(weights + " + name + ", " + size + ");\n";
  return constants_[key] = name;
}

FXX_INLINE std::string SpecialisedWriter::base(const View& view, bool written) {
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

FXX_INLINE bool SpecialisedWriter::is_declared(std::string_view name) {
  static constexpr std::string_view names[] = {
      "part",      "width",      "v",      "e",        "value",   "sums",   "range",    "mine",  // of many
      "i",         "j",          "k",      "l",        "m",       "n",      "o",        "p",     // of elements
      "row",       "column",     "matrix", "matrices", "rows",    "packed", "a_at",     "w_at",  // of products and rows
      "head",      "heads",      "query",  "key",      "q_at",    "k_at",   "v_at",              // of attention
      "direction", "directions", "step",                                                         // of recurrent layers
      "image",     "images",     "y",      "x",        "channel", "pixel",  "filtered",          // of images
      "group",     "place",                                                                      // of places
  };
  return std::ranges::find(names, name) != std::end(names);
}

FXX_INLINE std::string SpecialisedWriter::parameter(Body& body, const std::string& type, const std::string& argument,
                                                    const std::string& wanted) {
  if (const auto known = body.names.find(argument + type); known != body.names.end()) return known->second;
  std::string name = wanted;
  const auto taken = [&] {
    return is_declared(name) || std::ranges::count(body.parameters, name, &Body::Parameter::name);
  };
  for (int i = 2; taken(); ++i) name = wanted + "_" + std::to_string(i);
  body.parameters.push_back({type, name, argument});
  return body.names[argument + type] = name;
}

FXX_INLINE std::string SpecialisedWriter::pointer(Body& body, const View& view, bool written,
                                                  const std::string& wanted) {
  std::string argument = base(view, written);
  if (view.offset) argument += " + " + text(view.offset);
  return parameter(body, (written ? "" : "const ") + type_of(buffer_of(view).dtype) + "*", argument, wanted);
}

FXX_INLINE std::string SpecialisedWriter::shape(const std::string& type, const std::string& fields,
                                                const std::string& stem) {
  const std::string value = type + " " + fields;
  if (const auto known = shapes_.find(value); known != shapes_.end()) return known->second;
  const std::string name = stem + "_" + std::to_string(++shape_counts_[stem]);
  shape_lines_ += "inline constexpr " + type + " " + name + " = " + fields + ";\n";
  return shapes_[value] = name;
}

FXX_INLINE void SpecialisedWriter::scratch(Body& body, const std::string& floats) {
  scratch_.insert(floats);
  parameter(body, "float*", "reinterpret_cast<float*>(call.memory + arena_bytes)", "workspace");
}

}  // namespace fxx::inline FXX_ABI::detail
