// Elements as C++: terms, the loads and stores of views that lie anyhow, and loops of their own for what no kernel
// computes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "fxx/codegen/specialised/writer.ipp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI::detail {

/// "hyperbolic_tangent": kernels::Function has more names than enumerator_name looks at.
FXX_INLINE std::string_view name_of_function(kernels::Function function) {
  static constexpr auto names = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<std::string_view, sizeof...(I)>{spelled_value<static_cast<kernels::Function>(I)>()...};
  }(std::make_integer_sequence<int, 128>());
  const std::string_view name = names[static_cast<std::size_t>(function)];
  return name.substr(name.find_last_of(":)") + 1);
}

FXX_INLINE std::vector<SpecialisedWriter::Group> SpecialisedWriter::groups(const View& view, const Frame& frame,
                                                                           int axis) const {
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

FXX_INLINE std::string SpecialisedWriter::index_text(const Group& group, std::int64_t extent, const std::string& axis) {
  std::string text = axis;
  if (group.divisor != 1) text += " / " + std::to_string(group.divisor);
  if (group.divisor * group.size != extent) text += " % " + std::to_string(group.size);
  if (group.stride != 1) text += " * " + std::to_string(group.stride);
  return text;
}

FXX_INLINE SpecialisedWriter::Place SpecialisedWriter::place(const View& view, const Frame& frame) const {
  Place result;
  const int last = static_cast<int>(frame.axes.size()) - 1;
  for (int axis = 0; axis <= last; ++axis) {
    const Frame::Axis& a = frame.axes[static_cast<std::size_t>(axis)];
    const std::vector<Group> parts = groups(view, frame, axis);
    if (axis == last && parts.size() == 1 && parts[0].divisor == 1 && parts[0].size == a.extent) {
      result.along = Place::Along::whole;
      result.stride = parts[0].stride;
      result.offset += " + " + index_text(parts[0], a.extent, a.name);
    } else if (axis == last && in_runs_ && parts.size() > 1 && parts.back().divisor == 1 &&
               parts.back().size % 16 == 0) {
      // No vector, which has 16 elements at most and begins at a multiple of that, reaches beyond a run.
      result.along = Place::Along::whole;
      result.stride = parts.back().stride;
      for (const Group& group : parts) result.offset += " + " + index_text(group, a.extent, a.name);
    } else if (axis == last && !parts.empty()) {
      result.along = Place::Along::scattered;
      if (parts.size() == 1 && parts[0].divisor * parts[0].size == a.extent) {
        result.each = parts[0].divisor;
        result.stride = parts[0].stride;
        result.axis = a.name;
      }
      for (const Group& group : parts)
        result.element += (result.element.empty() ? "" : " + ") + index_text(group, a.extent, "(" + a.name + " + e)");
    } else {
      for (const Group& group : parts) result.offset += " + " + index_text(group, a.extent, a.name);
    }
  }
  return result;
}

FXX_INLINE std::string SpecialisedWriter::load_at(const std::string& from, const Place& at, Dtype dtype,
                                                  plans::Elements elements) {
  using Elements = plans::Elements;
  using Along = Place::Along;
  const std::string where = from + at.offset;
  const std::string one = at.offset.empty() ? "*" + from : from + "[" + at.offset.substr(3) + "]";
  const bool dense = at.along == Along::whole && at.stride == 1, is_float = dtype == Dtype::float32;
  const auto gathered = [&](const std::string& function) {
    return function + "<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return " +
           (at.along == Along::scattered ? at.element : "e * " + text(at.stride)) + "; })";
  };
  if (elements == Elements::integer) include("integers");
  if (at.along == Along::none)
    return elements == Elements::mask      ? "splat_mask(" + where + ")"
           : elements == Elements::integer ? "splat_64(" + one + ")"
           : is_float                      ? "splat(" + one + ")"
                                           : "splat(to_single(" + one + "))";
  if (dense)
    return elements == Elements::mask      ? "load_mask(" + where + ", width)"
           : elements == Elements::integer ? "load_64(" + where + ", width)"
           : is_float                      ? "load_some<width>(" + where + ")"
                                           : "load_as(" + where + ", width)";
  if (elements != Elements::real) return gathered(elements == Elements::mask ? "mask_gathered" : "gathered_64");
  if (at.along == Along::whole) return "load_strided(" + where + ", " + text(at.stride) + ", width)";
  if (at.each > 1 && is_float)
    return "load_repeated<" + text(at.each) + ">(" + where + ", " + at.axis + ", " + text(at.stride) + ", width)";
  return gathered("gathered");
}

FXX_INLINE std::string SpecialisedWriter::lookup(Body& body, const Term& term, const Frame& frame) {
  Place at = place(term.view, frame);
  const std::string table = pointer(body, term.view, false, "table");
  parameter(body, "int&", "call.fault", "fault");
  std::string rows, rows_of_elements;  // of all elements of a vector, and of element `e`
  bool change = false;                 // within a vector
  const auto of_element = [](const Place& place) {
    if (place.along == Place::Along::whole)
      return place.offset + " + e" + (place.stride == 1 ? "" : " * " + text(place.stride));
    return place.offset + (place.element.empty() ? "" : " + " + place.element);
  };
  for (std::size_t i = 0; i < term.operands.size(); ++i) {
    const Term::Dimension& looked_up = term.looked_up[i];
    const View& index = term.operands[i]->view;
    const Place place = this->place(index, frame);
    const std::string number = pointer(body, index, false, "index");
    const auto row_at = [&](const std::string& where) {
      return " + row_of<" + text(looked_up.size) + (looked_up.from_end ? ", true" : "") + ">(" + number + "[" +
             (where.empty() ? "0" : where.substr(3)) + "], fault) * " + text(looked_up.stride);
    };
    rows += row_at(place.offset);
    rows_of_elements += row_at(of_element(place));
    change = change || place.along != Place::Along::none;
  }
  if (change) {
    at.element = (rows_of_elements + of_element(at)).substr(3);
    at.offset.clear();
    at.along = Place::Along::scattered;
    at.each = 0;
  } else {
    at.offset = rows + at.offset;
  }
  return load_at(table, at, buffer_of(term.view).dtype, term.elements);
}

FXX_INLINE std::string SpecialisedWriter::search(Body& body, const Term& term, const Frame& frame) {
  include("searching");
  const Term::Dimension& row = term.looked_up[0];
  const Place at = place(term.view, frame);
  const std::string from = pointer(body, term.view, false, "sorted") + at.offset;
  const std::string of_element = at.along == Place::Along::none    ? "0"
                                 : at.along == Place::Along::whole ? "e * " + text(at.stride)
                                                                   : at.element;
  return "places_among<" + text(row.size) + (row.from_end ? ", true>(" : ", false>(") + from + ", " + text(row.stride) +
         ", " + vector(body, *term.operands[0], frame) + ", [&](int" + (mentions(of_element, "e") ? " e" : "") +
         ") FXX_KERNEL_LAMBDA { return " + of_element + "; }, width)";
}

/// Of floats, written with *.
FXX_INLINE bool is_product(const plans::Term& term) {
  return term.kind == plans::Term::Kind::call && term.function == kernels::Function::multiply &&
         term.operands.back()->elements == plans::Elements::real;
}
/// Functions that begin with no sum of what they get.
FXX_INLINE bool joins_no_product(kernels::Function function) {
  using F = kernels::Function;
  return function == F::multiply || function == F::divide || function == F::maximum || function == F::minimum ||
         function == F::relu || function == F::square_root;
}

/// Functions that take no more instructions than a call would.
FXX_INLINE bool is_few_instructions(kernels::Function function) {
  using F = kernels::Function;
  switch (function) {
    case F::negate:
    case F::absolute:
    case F::square:
    case F::square_root:
    case F::relu:
    case F::maximum:
    case F::minimum:
    case F::multiply_add:
    case F::select: return true;
    default: return function >= F::less && function <= F::logical_not;
  }
}

template <class F>
std::string SpecialisedWriter::sharing(Body& body, const std::vector<const Term*>& terms, const Frame& frame,
                                       const std::string& indent, const F& statements) {
  std::map<const Term*, int> readers;
  std::vector<const Term*> order;  // operands first
  const auto visit = [&](const auto& self, const Term& term) -> void {
    if (++readers[&term] > 1 || term.operands.empty()) return;
    for (const plans::TermPointer& operand : term.operands) self(self, *operand);
    order.push_back(&term);
  };
  for (const Term* term : terms) visit(visit, *term);
  std::string result;
  for (const Term* term : order) {
    if (readers[term] == 1) continue;
    const std::string name = body.values.empty() ? "value" : "value_" + text(std::ssize(body.values) + 1);
    result += indent + "const auto " + name + " = " + (is_product(*term) ? "unfused" : "") +
              vector(body, *term, frame) + ";\n";
    body.values[term] = name;
  }
  result += statements();
  body.values.clear();
  return result;
}

FXX_INLINE std::string SpecialisedWriter::returned(Body& body, const Term& term, const Frame& frame,
                                                   const std::string& indent) {
  return sharing(body, {&term}, frame, indent,
                 [&] { return indent + "return " + vector(body, term, frame) + ";\n"; });
}

FXX_INLINE std::string SpecialisedWriter::expression(Body& body, const Term& term, const Frame& frame) {
  using Kind = Term::Kind;
  if (const auto declared = body.values.find(&term); declared != body.values.end()) return declared->second;
  switch (term.kind) {
    case Kind::result: return "v";
    case Kind::number:
      if (term.elements == plans::Elements::real) return number(term.number);
      include("integers");
      return "splat_64(" + cpp_integer(term.integer) + ")";
    case Kind::load: {
      const std::string from = pointer(body, term.view, false, letter(body));
      return load_at(from, place(term.view, frame), buffer_of(term.view).dtype, term.elements);
    }
    case Kind::convert: {
      include("integers");
      const std::string to_integer = term.narrow ? "narrow_64_of(" : "integer_64_of(";
      return (term.elements == plans::Elements::real ? "real_of_64(" : to_integer) +
             vector(body, *term.operands[0], frame) + ")";
    }
    case Kind::lookup: return lookup(body, term, frame);
    case Kind::search: return search(body, term, frame);
    case Kind::position: {
      include("integers");
      const Place at = place(term.view, frame);
      const std::string first = text(term.view.offset) + at.offset;
      if (at.along == Place::Along::none) return "splat_64(" + first + ")";
      return "positions_64([&](int e) FXX_KERNEL_LAMBDA { return " + first + " + " +
             (at.along == Place::Along::whole ? "e * " + text(at.stride) : at.element) + "; })";
    }
    default: break;
  }
  using F = kernels::Function;
  const bool integers = term.operands.back()->elements == plans::Elements::integer;
  // A product is rounded before what takes it could join it with a sum.
  const auto operand = [&](std::size_t i) {
    const Term& of = *term.operands[i];
    return (!joins_no_product(term.function) && is_product(of) && !body.values.contains(&of) ? "unfused" : "") +
           expression(body, of, frame);
  };
  const auto binary = [&](const char* symbol) {
    const bool numbers = term.operands[0]->kind == Kind::number && term.operands[1]->kind == Kind::number;
    return "(" + (numbers ? "splat(" + operand(0) + ")" : operand(0)) + symbol + operand(1) + ")";
  };
  const auto bounded = [&](const char* function) {
    return function + ("(" + vector(body, *term.operands[0], frame)) + ", " + number(term.operands[1]->number) + ")";
  };
  const bool by_number =
      term.operands.size() == 2 && term.operands[1]->kind == Kind::number && !std::isnan(term.operands[1]->number);
  if (term.function == F::checked_divisor) {
    include("integers");
    parameter(body, "int&", "call.fault", "fault");
    return "divisor_64(" + operand(0) + ", width, fault)";
  }
  if (term.function == F::checked_place) {
    include("integers");
    parameter(body, "int&", "call.fault", "fault");
    return "place_64(" + operand(0) + ", " + cpp_integer(term.operands[1]->integer) + ", width, fault)";
  }
  if (integers) {
    include("integers");
  } else {
    switch (term.function) {
      case F::add: return binary(" + ");
      case F::subtract: return binary(" - ");
      case F::multiply: return binary(" * ");
      case F::divide: return binary(" / ");
      case F::maximum:
        if (by_number) return bounded("no_less");
        break;
      case F::minimum:
        if (by_number) return bounded("no_more");
        break;
      default: break;
    }
  }
  const bool shared = shared_ && in_loop_ && (integers || !is_few_instructions(term.function));
  std::string result = std::string(integers ? "apply_64" : "apply") + (shared ? "_shared" : "") +
                       "<Function::" + std::string(name_of_function(term.function)) + ">(";
  for (std::size_t i = 0; i < term.operands.size(); ++i)
    result += (i ? ", " : "") + (is_product(*term.operands[i]) ? operand(i) : vector(body, *term.operands[i], frame));
  return result + ")";
}

FXX_INLINE std::string SpecialisedWriter::copy_of(Body& body, const View& to, const Term& value, const Frame& frame) {
  const Place from = place(value.view, frame), out = place(to, frame);
  if (from.along == Place::Along::scattered || out.along == Place::Along::scattered)
    fail("a copy whose elements lie scattered");
  const auto stride = [&](const Place& at) { return at.along == Place::Along::none ? "0" : text(at.stride); };
  return "copy_strided<width>(" + pointer(body, value.view, false, letter(body)) + from.offset + ", " + stride(from) +
         ", " + pointer(body, to, true, "out") + out.offset + ", " + stride(out) + ");\n";
}

/// Is it memory of the same type, element by element, of a type other than those that vectors hold?
FXX_INLINE bool SpecialisedWriter::copies(const plans::Store& store) const {
  const Dtype dtype = buffer_of(store.to).dtype;
  return store.value->kind == Term::Kind::load && buffer_of(store.value->view).dtype == dtype &&
         dtype != Dtype::float32 && dtype != Dtype::boolean && dtype != Dtype::int64;
}
/// Are elements of other types made of floats: quantised values for products of bytes, halves, doubles?
FXX_INLINE bool SpecialisedWriter::narrows(const plans::Store& store) const {
  return buffer_of(store.to).dtype != Dtype::float32 && store.value->elements == plans::Elements::real &&
         !copies(store);
}
FXX_INLINE std::string SpecialisedWriter::narrowed(Body& body, const plans::Store& store, const Frame& frame) {
  if (const Dtype dtype = buffer_of(store.to).dtype;
      dtype != Dtype::uint8 && dtype != Dtype::bfloat16 && dtype != Dtype::float16 && dtype != Dtype::float64)
    fail("a computed " + std::string(name_of(dtype)));
  const std::string value = vector(body, *store.value, frame);
  const Place at = place(store.to, frame);
  const std::string where = pointer(body, store.to, true, "out") + at.offset;
  if (at.along == Place::Along::none) return "store_as(" + where + ", " + value + ", Width<1>{});\n";
  if (at.along == Place::Along::whole && at.stride == 1) return "store_as(" + where + ", " + value + ", width);\n";
  return "scattered<width>(" + where + ", [&](int e) FXX_KERNEL_LAMBDA { return " +
         (at.along == Place::Along::whole ? "e * " + text(at.stride) : at.element) + "; }, " + value + ");\n";
}

FXX_INLINE std::string SpecialisedWriter::stores(Body& body, const KernelStep& step, const Frame& frame,
                                                 const std::string& indent) {
  std::vector<const Term*> values;
  for (const plans::Store& store : step.stores) values.push_back(store.value.get());
  return sharing(body, values, frame, indent, [&] { return each_store(body, step, frame, indent); });
}

FXX_INLINE std::string SpecialisedWriter::each_store(Body& body, const KernelStep& step, const Frame& frame,
                                                     const std::string& indent) {
  std::string result;
  for (const plans::Store& store : step.stores) {
    const View& to = store.to;
    const Dtype dtype = buffer_of(to).dtype;
    if (copies(store)) {
      result += indent + copy_of(body, to, *store.value, frame);
      continue;
    }
    if (narrows(store)) {
      result += indent + narrowed(body, store, frame);
      continue;
    }
    std::string value = vector(body, *store.value, frame);
    const std::string out = pointer(body, to, true, "out");
    const Place at = place(to, frame);
    const std::string where = out + at.offset;
    if (store.kept != plans::Store::Kept::all)  // lowering says so of columns that lie behind each other alone
      value = std::string("apply<Function::") + (store.kept == plans::Store::Kept::largest ? "maximum" : "minimum") +
              ">(load_some<width>(" + where + "), " + value + ")";
    result += indent;
    if (dtype != Dtype::float32) {
      const bool mask = dtype == Dtype::boolean, strided = at.along == Place::Along::whole && at.stride != 1;
      if (at.along == Place::Along::scattered || strided)
        result += (mask ? "mask_scattered<width>(" : "scattered_64<width>(") + where +
                  ", [&](int e) FXX_KERNEL_LAMBDA { return " + (strided ? "e * " + text(at.stride) : at.element) +
                  "; }, " + value + ");\n";
      else
        result += (mask ? "store_mask(" : "store_64(") + where + ", " + value + ", " +
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

FXX_INLINE bool SpecialisedWriter::mentions(const std::string& text, const std::string& name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

FXX_INLINE std::string SpecialisedWriter::lambda(const std::vector<std::string>& integers, bool value,
                                                 const std::string& body, const std::string& type,
                                                 const std::string& v) {
  std::string result = "[&](";
  for (const std::string& name : integers) result += mentions(body, name) ? "int " + name + ", " : "int, ";
  if (value) result += type + (mentions(body, v) ? " " + v + ", " : ", ");
  return result + (mentions(body, "width") ? "auto width" : "auto") + ") FXX_KERNEL_LAMBDA {\n" + body;
}

template <class F>
void for_each_term(const plans::Term& term, const F& f) {
  f(term);
  for (const plans::TermPointer& operand : term.operands) for_each_term(*operand, f);
}

/// With its last two axes exchanged.
FXX_INLINE plans::Frame SpecialisedWriter::turned(Frame frame) {
  const int last = static_cast<int>(frame.axes.size()) - 1;
  std::swap(frame.axes[frame.axes.size() - 2], frame.axes.back());
  for (Frame::Place& dim : frame.dims)
    if (dim.axis >= last - 1) dim.axis = 2 * last - 1 - dim.axis;
  return frame;
}
/// Are all elements that it is made of vectors along the last axis, or the same there?
FXX_INLINE bool SpecialisedWriter::is_read_along(const Term& value, const Frame& frame) const {
  bool fits = true;
  for_each_term(value, [&](const Term& term) {
    if (term.kind == Term::Kind::lookup || term.kind == Term::Kind::search) fits = false;
    if (term.kind != Term::Kind::load) return;
    const Place from = place(term.view, frame);
    fits = fits && (from.along == Place::Along::none || (from.along == Place::Along::whole && from.stride == 1));
  });
  return fits;
}

/// The vectors of a copy such as that of planes into pixels: the last axis of the frame, of two to four elements, becomes
/// parts that are interleaved, and the one before it that of vectors. Empty where memory does not lie like that.
FXX_INLINE std::string SpecialisedWriter::interleaved(Body& body, const KernelStep& step, const Frame& frame) {
  if (step.stores.size() != 1 || frame.axes.size() < 2) return {};
  const plans::Store& store = step.stores[0];
  const int parts = static_cast<int>(frame.axes.size()) - 1;
  const Frame::Axis& part = frame.axes.back();
  const Place whole = place(store.to, frame);
  if ((buffer_of(store.to).dtype != Dtype::float32 && !narrows(store)) || part.extent < 2 || part.extent > 4 ||
      frame.axes[frame.axes.size() - 2].extent < 16 || whole.along != Place::Along::whole || whole.stride != 1)
    return {};
  View first = store.to;
  for (std::size_t d = 0; d < frame.dims.size(); ++d)
    if (frame.dims[d].axis == parts) first.strides[d] = 0;
  const Frame along = turned(frame);
  const Place out = place(first, along);
  if (out.along != Place::Along::whole || out.stride != part.extent || !is_read_along(*store.value, along)) return {};
  const std::string value = returned(body, *store.value, along, "      ");
  return "store_interleaved<" + text(part.extent) + ">(" + pointer(body, store.to, true, "out") + out.offset +
         ", [&](int" + (mentions(value, part.name) ? " " + part.name : "") + ") FXX_KERNEL_LAMBDA {\n" + value +
         "    }, width);\n";
}
/// What a transpose is given where the result lies along the last axis of the frame and all that it is made of along the
/// one before: how its rows are read, and its columns written. Empty where memory does not lie like that, or axes are
/// too short for squares of vectors.
FXX_INLINE std::string SpecialisedWriter::transposed(Body& body, const KernelStep& step, const Frame& frame) {
  if (step.stores.size() != 1 || frame.axes.size() < 2) return {};
  const plans::Store& store = step.stores[0];
  const Frame::Axis &last = frame.axes.back(), &before = frame.axes[frame.axes.size() - 2];
  const Place out = place(store.to, frame);
  if (buffer_of(store.to).dtype != Dtype::float32 || store.kept != plans::Store::Kept::all || copies(store) ||
      narrows(store) || last.extent < 8 || before.extent < 16 || out.along != Place::Along::whole || out.stride != 1)
    return {};
  const Frame along = turned(frame);
  bool any = false;  // else there is nothing to turn
  for_each_term(*store.value, [&](const Term& term) {
    any = any || (term.kind == Term::Kind::load && place(term.view, along).along == Place::Along::whole);
  });
  if (!any || !is_read_along(*store.value, along)) return {};
  include("transpose");
  const std::string indent(2 * frame.axes.size(), ' ');
  const std::string value = returned(body, *store.value, along, indent + "  ");
  const std::string put =
      indent + "  store_some<width>(" + pointer(body, store.to, true, "out") + out.offset + ", v);\n" + indent + "}";
  return lambda({last.name, before.name}, false, value) + indent + "}, " +
         lambda({before.name, last.name}, true, put);
}

/// Elements of inputs alone: a loop for each dimension, fewer where the memory of all views lets some be one.
FXX_INLINE std::string SpecialisedWriter::pointwise(Body& body, const KernelStep& step) {
  // The memory of the result gives the order; dimensions that lie behind each other in all views are one.
  const View& out = step.stores[0].to;
  const std::size_t n = out.sizes.size();
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < n; ++d)
    if (out.sizes[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return out.strides[a] > out.strides[b]; });
  std::vector<const View*> views;
  for (const plans::Store& store : step.stores) {
    views.push_back(&store.to);
    for_each_term(*store.value, [&](const Term& term) {
      if (term.kind == Term::Kind::load || term.kind == Term::Kind::lookup || term.kind == Term::Kind::search ||
          term.kind == Term::Kind::position)
        views.push_back(&term.view);
    });
  }
  Frame frame;
  frame.sizes = out.sizes;
  frame.dims.resize(n);
  static constexpr std::string_view names = "ijklmnop";
  std::vector<std::vector<std::size_t>> axes;
  for (std::size_t d : order) {
    bool joins = !axes.empty();
    if (joins)
      for (const View* view : views)
        joins = joins && view->strides[axes.back().back()] == view->strides[d] * view->sizes[d];
    if (joins) axes.back().push_back(d);
    else axes.push_back({d});
  }
  for (std::size_t a = 0; a < axes.size(); ++a) {
    std::int64_t extent = 1;
    for (std::size_t i = axes[a].size(); i-- > 0;) {
      frame.dims[axes[a][i]] = {static_cast<int>(a), extent};
      extent *= out.sizes[axes[a][i]];
    }
    frame.axes.push_back(
        {a < names.size() ? std::string(1, names[a]) : std::string("i").append(std::to_string(a)), extent});
  }
  if (axes.empty()) frame.axes.push_back({"i", 1});
  include("loops");
  std::string loops, indent = "  ";
  const std::string parts = interleaved(body, step, frame);
  const std::string squares = parts.empty() && !shared_ ? transposed(body, step, frame) : std::string();
  const std::size_t last = frame.axes.size() - (parts.empty() && squares.empty() ? 1 : 2);
  // The axis that threads share: the first that is long enough.
  std::size_t shared = last;
  for (std::size_t a = 0; a < last; ++a)
    if (frame.axes[a].extent >= 8) {
      shared = a;
      break;
    }
  std::string closing;
  for (std::size_t a = 0; a < last; ++a) {
    const std::string& name = frame.axes[a].name;
    if (a > 0 && a == shared) closing = std::string(2 * a, ' ') + "}\n";
    if (a == shared)
      loops += indent + "const Range range = part.of(" + text(frame.axes[a].extent) + ");\n" + indent + "for (int " +
               name + " = range.begin; " + name + " < range.end; ++" + name + ")";
    else
      loops += indent + "for (int " + name + " = 0; " + name + " < " + text(frame.axes[a].extent) + "; ++" + name + ")";
    // A declaration needs braces around it when it is not the first.
    if (a + 1 < last && a + 1 == shared) loops += " {\n";
    else loops += "\n";
    indent += "  ";
  }
  const std::string part = shared == last ? "part" : "Part{}";
  if (!squares.empty()) {
    const std::string columns = text(frame.axes[last].extent);
    loops += indent + "transpose<" + text(frame.axes.back().extent) + ", " + columns + ">(" + part + ".of(" + columns +
             ", lanes), " + squares + ");\n";
    return loops + closing;
  }
  in_loop_ = true;
  const std::string inner = parts.empty() ? stores(body, step, frame, indent + "  ") : indent + "  " + parts;
  in_loop_ = false;
  loops += indent + (shared_ ? "pointwise_shared<" : "pointwise<") + text(frame.axes[last].extent) + ">(" + part + ", " +
           lambda({frame.axes[last].name}, false, inner) + indent + "});\n";
  return loops + closing;
}
}  // namespace fxx::inline FXX_ABI::detail
