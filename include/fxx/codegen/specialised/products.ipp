// Matrix products, attention and recurrent layers as C++: what packs its weights, and calls kernels/gemm.hpp and those
// that are made of it.
#pragma once

#include "fxx/codegen/specialised/loops.ipp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI::detail {

/// " + matrix * 64", or from a table of offsets that is declared before.
FXX_INLINE std::string SpecialisedWriter::offset_of(const Sizes& offsets, const std::string& index,
                                                    const std::string& table, std::string& declarations) {
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
  for (std::int64_t i = 0; i < count; ++i) declarations += (i ? ", " : "") + text(offsets[static_cast<std::size_t>(i)]);
  declarations += "};\n";
  return " + " + table + "[" + index + "]";
}

/// What gemm's template arguments end with, where it is not what they are by themselves.
FXX_INLINE std::string way_of_product(const plans::MatrixProduct& k, const plans::Way& way) {
  std::string text;
  if (way.by_rows) text = ", Order::rows";
  if (k.weights.distance != kernels::Distance::far || way.by_rows)
    text = ", Distance::" + std::string(enumerator_name(k.weights.distance)) + text;
  if (way.tile.rows || !text.empty())
    text = ", TileShape{" +
           (way.tile.rows ? std::to_string(way.tile.rows) + ", " + std::to_string(way.tile.vectors) : "") + "}" + text;
  return text;
}
/// The tile that weights are packed for, of which only the width counts.
FXX_INLINE std::string packed_tile(const std::string& element, const std::string& sizes, const plans::Way& way) {
  if (way.tile.rows) return "TileShape{.vectors = " + std::to_string(way.tile.vectors) + "}";
  return "gemm_tile" + element + "(" + sizes + ")";
}

/// With weights of bfloat16.
FXX_INLINE std::string SpecialisedWriter::reduced_product(Body& body, const KernelStep& step,
                                                          const plans::MatrixProduct& k, const std::string& in) {
  const std::string stride = text(k.reduced_rows ? k.depth : k.a_row), size = text(k.columns) + ", " + text(k.depth);
  const View& w = k.weights.view;
  const std::string at =
      constant(w, "_reduced", "(packed_size<Bfloat16>(" + size + ") + 1) / 2",
               "pack_weights(reinterpret_cast<Bfloat16*>($to), " + size + ", " +
                   packed_tile("<Bfloat16>", text(k.rows) + ", " + text(k.columns) + ", " + stride, step.way) +
                   ", MatrixWeights{$from, " + text(w.strides[0]) + ", " + text(w.strides[1]) + "})");
  const std::string weights =
      parameter(body, "const Bfloat16*", "reinterpret_cast<const Bfloat16*>(call.weights + " + at + ")", "w");
  std::string result, from = in;
  if (k.reduced_rows) {
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
  return result + "  gemm<" + text(k.rows) + ", " + size + ", " + stride + way_of_product(k, step.way) + ">(part, " +
         from + ", " + weights + ", " + lambda({"row", "column"}, true, inner) + "  });\n";
}

/// gemm's first template arguments.
FXX_INLINE std::string sizes_of_product(const plans::MatrixProduct& k) {
  return std::to_string(k.rows) + ", " + std::to_string(k.columns) + ", " + std::to_string(k.depth) + ", " +
         std::to_string(k.a_row);
}
FXX_INLINE std::string packed_size_of(const plans::MatrixProduct& k) {
  return "packed_size(" + std::to_string(k.columns) + ", " + std::to_string(k.depth) + ")";
}
FXX_INLINE std::string tile_of_product(const plans::MatrixProduct& k, const plans::Way& way) {
  return packed_tile("",
                     std::to_string(k.rows) + ", " + std::to_string(k.columns) + ", " + std::to_string(k.a_row) +
                         (k.weights.distance == kernels::Distance::near ? ", Distance::near" : ""),
                     way);
}
/// The call that packs its weights.
FXX_INLINE std::string pack_of_product(const plans::MatrixProduct& k, const plans::Way& way, const std::string& to,
                                       const std::string& from) {
  const plans::Sizes& strides = k.weights.view.strides;
  return "pack_weights(" + to + ", " + std::to_string(k.columns) + ", " + std::to_string(k.depth) + ", " +
         tile_of_product(k, way) + ", MatrixWeights{" + from + ", " + std::to_string(strides[0]) + ", " +
         std::to_string(strides[1]) + "})";
}
/// The same in each call of the module, by vectors where the matrix lies row by row or column by column.
FXX_INLINE std::string pack_while_running(const plans::MatrixProduct& k, const plans::Way& way, const std::string& to,
                                          const std::string& from) {
  const plans::Sizes& strides = k.weights.view.strides;
  const bool by_rows = strides[0] == 1, by_columns = strides[1] == 1;
  if (!by_rows && !by_columns) return pack_of_product(k, way, to, from);
  return std::string(by_rows ? "pack_rows<" : "pack_columns<") + std::to_string(k.columns) + ", " +
         std::to_string(k.depth) + ", " + std::to_string(strides[by_rows ? 1 : 0]) + ", " + tile_of_product(k, way) +
         ">(Part{}, " + to + ", " + from + ")";
}
/// The product with such a matrix, up to what becomes of its sums, by this part. Read where it lies, or packed
/// before.
FXX_INLINE std::string product_of_two(const plans::MatrixProduct& k, const plans::Way& way, const std::string& part,
                                      const std::string& a, const std::string& from, const std::string& indent) {
  using Reading = plans::MatrixProduct::Reading;
  if (k.reading == Reading::packed)
    return indent + pack_while_running(k, way, "packed", from) + ";\n" + indent + "gemm<" + sizes_of_product(k) +
           way_of_product(k, way) + ">(" + part + ", " + a + ", packed, ";
  const bool by_rows = k.reading == Reading::by_rows;
  return indent + (by_rows ? "matmul_by_rows<" : "matmul_by_columns<") + sizes_of_product(k) + ", " +
         std::to_string(k.weights.view.strides[by_rows ? 1 : 0]) + ">(" + part + ", " + a + ", " + from + ", ";
}
/// The parameter that points at constant weights, packed.
FXX_INLINE std::string SpecialisedWriter::product_weights(Body& body, const plans::MatrixProduct& k,
                                                          const plans::Way& way) {
  return parameter(
      body, "const float*",
      "call.weights + " + constant(k.weights.view, "", packed_size_of(k), pack_of_product(k, way, "$to", "$from")),
      "w");
}

/// A parameter that points at `count` integers or floats which are packed of constant weights.
FXX_INLINE std::string SpecialisedWriter::packed_parameter(Body& body, const View& weights, const std::string& type,
                                                           const std::string& name, const std::string& count,
                                                           const std::string& pack) {
  // Packed weights are counted in floats.
  const std::string floats = type == "std::int8_t" ? "(" + count + " + 3) / 4"
                             : type == "Bfloat16"  ? "(" + count + " + 1) / 2"
                                                   : count;
  const std::string suffix = name != "w" ? "_" + name : type == "Bfloat16" ? "_reduced" : "_integers";
  const std::string to = type == "float" ? "$to" : "reinterpret_cast<" + type + "*>($to)";
  std::string statement = pack, argument = "call.weights + ";
  statement.replace(statement.find("$to"), 3, to);
  argument += constant(weights, suffix, floats, statement);
  if (type != "float") argument = "reinterpret_cast<const " + type + "*>(" + argument + ")";
  return parameter(body, "const " + type + "*", argument, name);
}
/// What becomes of the sums of products of bytes in columns, which `channel` counts: floats that they stand for, `v`.
/// `excess`: the call that packs what they have too much.
FXX_INLINE std::string SpecialisedWriter::dequantised(Body& body, const View& weights, const plans::Quantised& of,
                                                      std::int64_t columns, const std::string& channel,
                                                      const std::string& excess) {
  const std::string scales = packed_parameter(
      body, weights, "float", "scales", text(columns),
      "pack_scales($to, " + text(columns) + ", " + number(of.scale) + ", " + attribute(of.scales) + ")");
  const std::string too_much = packed_parameter(body, weights, "std::int32_t", "excess", text(columns), excess);
  return "    const real v = dequantised<width>(sums, " + too_much + " + " + channel + ", " + scales + " + " + channel +
         ");\n";
}

/// Of bytes and integers.
FXX_INLINE std::string SpecialisedWriter::quantised_product(Body& body, const KernelStep& step,
                                                            const plans::MatrixProduct& k, const std::string& in) {
  const View& w = k.weights.view;
  const std::string size = text(k.columns) + ", " + text(k.depth), rows = text(k.rows) + ", " + size,
                    integers = "QuantisedWeights{$from, " + text(w.strides[0]) + ", " + text(w.strides[1]) + ", " +
                               attribute(k.quantised.scales) + "}";
  const std::string weights = packed_parameter(
      body, w, "std::int8_t", "w", "packed_size<std::int8_t>(" + size + ")",
      "pack_weights($to, " + size + ", " + packed_tile("<std::int8_t>", rows, step.way) + ", " + integers + ")");
  const std::string inner =
      dequantised(body, w, k.quantised, k.columns, "column",
                  "pack_excess($to, " + size + ", " + text(k.quantised.zero) + ", " + integers + ")") +
      stores(body, step, step.frame, "    ");
  return "  gemm<" + rows + ", " + text(k.a_row) + way_of_product(k, step.way) + ">(part, " + in + ", " + weights +
         ", " + lambda({"row", "column"}, true, inner, "integer", "sums") + "  });\n";
}

FXX_INLINE std::string SpecialisedWriter::product(Body& body, const KernelStep& step, const plans::MatrixProduct& k) {
  include("gemm");
  include("loops");
  const std::string sizes = sizes_of_product(k), packed = packed_size_of(k);
  const std::string in = pointer(body, k.a, false, "in");
  const View& w = k.weights.view;
  if (k.quantised) return quantised_product(body, step, k, in);
  if (k.weights.reduced) return reduced_product(body, step, k, in);
  if (k.batch == 1 && k.weights.constant) {
    const std::string weights = product_weights(body, k, step.way);
    const std::string inner = stores(body, step, step.frame, "    ");
    // What keeps one element of each column wants all rows in one part.
    plans::Way way = step.way;
    const bool keeps = keeps_extremes(step);
    if (keeps) way.by_rows = false;
    return std::string(keeps ? "  gemm_by_panels<" : "  gemm<") + sizes + way_of_product(k, way) + ">(part, " + in +
           ", " + weights + ", " + lambda({"row", "column"}, true, inner) + "  });\n";
  }
  include("matmul");
  const std::string from = pointer(body, w, false, "w");
  std::string result;
  if (k.reading == plans::MatrixProduct::Reading::packed) {
    scratch(body, packed);
    result = "  float* const packed = workspace + part.index * static_cast<std::ptrdiff_t>(" + packed + ");\n";
  }
  if (k.batch == 1) {
    const std::string inner = stores(body, step, step.frame, "    ");
    return result + product_of_two(k, step.way, "part", in, from, "  ") + lambda({"row", "column"}, true, inner) +
           "  });\n";
  }
  const std::string a_at = offset_of(k.a_batch, "matrix", "a_at", result),
                    w_at = offset_of(k.weights_batch, "matrix", "w_at", result);
  result += "  const Range matrices = part.of(" + text(k.batch) +
            ");\n  for (int matrix = matrices.begin; matrix < matrices.end; ++matrix) {\n";
  const std::string inner = stores(body, step, step.frame, "      ");
  result += product_of_two(k, step.way, "Part{}", in + a_at, from + w_at, "    ") +
            lambda({"row", "column"}, true, inner) + "    });\n  }\n";
  return result;
}

FXX_INLINE std::string SpecialisedWriter::attention(Body& body, const KernelStep& step, const plans::Attention& k) {
  include("attention");
  include("loops");
  const std::string q = pointer(body, k.q, false, "queries"), key = pointer(body, k.k, false, "keys"),
                    value = pointer(body, k.v, false, "values");
  const std::string name =
      shape("AttentionShape",
            "{.queries = " + text(k.queries) + ", .keys = " + text(k.keys) + ", .size = " + text(k.size) +
                ", .value_size = " + text(k.value_size) + ", .query_stride = " + text(k.q.strides[0]) +
                ", .key_stride = " + text(k.k.strides[0]) + ", .value_stride = " + text(k.v.strides[0]) +
                (k.causal ? ", .causal = true, .from_first = true" : "") +
                (k.softmax ? "" : ", .hidden_is_zero = true") + (k.mask_replaces ? ", .mask_replaces = true" : "") +
                (k.reduced ? ", .reduced = true" : "") + (k.flash > 0 ? ", .flash = " + text(k.flash) + "}" : "}"),
            "attention");
  // A token reads the keys where they lie, two do where a head lies in one piece; for more they are packed first.
  const bool dense = k.k.strides[0] == k.size && k.v.strides[0] == k.value_size;
  const bool few = k.queries == 1 || (k.queries == 2 && dense);
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
  result += std::string("    attention") + (few ? "_over_cache<" : "<") + name + ">(" + q + q_at + ", " + key + k_at +
            ", " + value + v_at + ", " + (few ? text(k.keys) + ", " : "") + number(k.scale) +
            ",\n        workspace + part.index * static_cast<std::ptrdiff_t>(" + workspace + "), " + mask +
            ",\n        " + lambda({"query", "column"}, true, inner) + "        });\n";
  return result;
}

FXX_INLINE std::string SpecialisedWriter::recurrent(Body& body, const KernelStep& step, const plans::Recurrent& k) {
  include("gemm");
  include("recurrent");
  include("loops");
  const bool lstm = k.kind == plans::Recurrent::Kind::lstm, forward = !k.directions.front().backward,
             backward = k.directions.back().backward;
  const std::string gates = lstm ? "4" : "3", size = text(k.size), in_size = text(k.in_size),
                    stride = text(k.in.strides[0]);
  const std::string name = shape(
      "RecurrentShape",
      "{.steps = " + text(k.steps) + ", .batch = " + text(k.batch) + ", .in_size = " + in_size +
          ", .in_stride = " + stride + ", .size = " + size + ", .state_stride = " + text(k.directions[0].h.strides[0]) +
          (forward ? "" : ", .forward = false") + (backward ? ", .backward = true" : "") + "}",
      "recurrent");
  const std::string all = gates + " * " + name + ".padded()";
  const std::string tile = "gemm_tile(" + name + ".together() * " + name + ".batch, " + all + ", " + stride + ")";
  const std::string in = pointer(body, k.in, false, "in");
  scratch(body, name + ".workspace(" + gates + ")");
  parameter(body, "Barrier&", "barrier", "barrier");
  std::string result = "  const RecurrentDirection directions[] = {\n";
  for (const plans::Recurrent::Direction& own : k.directions) {
    const View &wi = own.input_weights, &ws = own.state_weights;
    const auto packed = [&](const View& from, const std::string& suffix, const std::string& floats,
                            const std::string& pack, const std::string& wanted) {
      return parameter(body, "const float*", "call.weights + " + constant(from, suffix, floats, pack), wanted);
    };
    const auto both = [&](const std::string& input, const std::string& state) {
      return "pack_gates($to, " + input + ", " + state + ", " + size + ", " + gates + ", " + (lstm ? "4" : "2") + ")";
    };
    // Zeros where there are none, somewhere beside the weights.
    const bool biases = own.input_bias.buffer >= 0;
    const std::string w =
        packed(wi, "", "packed_size(" + all + ", " + in_size + ")",
               "pack_weights($to, " + all + ", " + in_size + ", " + tile + ", GateWeights{$from, " + size + ", " +
                   gates + ", " + text(wi.strides[0]) + ", " + text(wi.strides[1]) + "})",
               "w");
    const std::string b = biases ? packed(own.input_bias, "_gates", all, both("$from", attribute(own.state_bias)), "b")
                                 : packed(wi, "_no_bias", all, both("nullptr", "nullptr"), "b");
    const std::string w_state = packed(ws, "", all + " * " + size,
                                       "pack_recurrent($to, " + size + ", " + gates + ", StateWeights{$from, " + size +
                                           ", " + text(ws.strides[0]) + ", " + text(ws.strides[1]) + "})",
                                       "w_state");
    std::string new_bias = "nullptr";
    if (!lstm && biases) {
      View of_new = own.state_bias;
      of_new.offset += 2 * k.size;
      new_bias =
          packed(of_new, "_new", name + ".padded()", "pack_gates($to, $from, nullptr, " + size + ", 1, 1)", "b_new");
    }
    result += "      {" + w + ", " + b + ", " + w_state + ", " + new_bias;
    const auto state = [&](const View& view, bool written, const std::string& wanted) {
      result += ", " + (view.buffer >= 0 ? pointer(body, view, written, wanted) : "nullptr");
    };
    state(own.h, false, "h");
    state(own.c, false, "c");
    state(own.h_out, true, "h_after");
    state(own.c_out, true, "c_after");
    result += "},\n";
  }
  const std::string inner = stores(body, step, step.frame, "    ");
  return result + "  };\n  " + std::string(enumerator_name(k.kind)) + "<" + name + ">(part, barrier, " + in +
         ", directions, workspace, " + lambda({"direction", "step", "row", "column"}, true, inner) + "  });\n";
}

}  // namespace fxx::inline FXX_ABI::detail
