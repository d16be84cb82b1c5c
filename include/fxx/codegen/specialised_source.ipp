// Bodies of codegen/specialised_source.hpp: one step after the other, and the file around them. A file for each family
// of kernels is in codegen/specialised/.
#pragma once

#include "fxx/codegen/specialised/images.ipp"
#include "fxx/codegen/specialised/loops.ipp"
#include "fxx/codegen/specialised/places.ipp"
#include "fxx/codegen/specialised/products.ipp"
#include "fxx/codegen/specialised/rows.ipp"
#include "fxx/codegen/specialised/writer.ipp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/meta/fixed_string.hpp"
#include "fxx/version.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// What the functions of such steps are called.
FXX_INLINE std::string SpecialisedWriter::stem_of(const KernelStep& step) {
  return match(
      step.kernel, [](const plans::Pointwise&) { return std::string("pointwise"); },
      [](const plans::MatrixProduct&) { return std::string("product"); },
      [](const plans::Convolution& k) {
        using Method = plans::Convolution::Method;
        return std::string(k.method == Method::depthwise             ? "depthwise"
                           : k.method == Method::depthwise_sequences ? "depthwise_sequences"
                           : k.method == Method::direct              ? "convolution"
                           : k.method == Method::transposed          ? "transposed"
                                                                     : "winograd");
      },
      [](const plans::DepthwiseBlock&) { return std::string("depthwise_block"); },
      [](const plans::Pooling&) { return std::string("pool"); },
      [](const plans::Rows& k) { return std::string(k.reduces() ? "reduction" : "rows"); },
      [](const plans::Attention&) { return std::string("attention"); },
      [](const plans::Recurrent&) { return std::string("recurrent"); },
      [](const plans::GroupNorm&) { return std::string("group_norm"); },
      [](const plans::Resize&) { return std::string("resize"); },
      [](const plans::Scatter&) { return std::string("scatter"); },
      [](const plans::Bags&) { return std::string("bags"); }, [](const plans::Sort&) { return std::string("sort"); },
      [](const plans::CallBack&) { return std::string("call_back"); });
}

/// What g++ -O2 takes on one core of a server, as was measured: by the kernel, and by how much is computed in its loops.
/// What counts is how long functions take beside each other. `known`: another function has the shape of this one.
FXX_INLINE double SpecialisedWriter::compile_milliseconds(const KernelStep& step, const std::string& text,
                                                          bool known) const {
  if (shared_ && std::holds_alternative<plans::Pointwise>(step.kernel))
    return 6 + static_cast<double>(text.size()) / 300;
  const double kernel = match(
      step.kernel, [](const plans::Pointwise&) { return 20.; }, [](const plans::MatrixProduct&) { return 100.; },
      [&](const plans::Convolution& k) {
        using Method = plans::Convolution::Method;
        return k.is_depthwise()                 ? 80.
               : k.method == Method::direct     ? 110.
               : k.method == Method::transposed ? 200.
               : known                          ? 65.
                                                : 115.;
      },
      [](const plans::DepthwiseBlock& k) {
        return 80. + (k.expand ? 70. : k.expanded ? 20. : 0.) + (k.project ? 70. : 0.);
      },
      [](const plans::Pooling&) { return 30.; }, [](const plans::Rows&) { return 60.; },
      [](const plans::Attention&) { return 300.; }, [](const plans::Recurrent&) { return 300.; },
      [](const plans::GroupNorm&) { return 80.; }, [](const plans::Resize&) { return 80.; },
      [](const plans::Scatter&) { return 50.; }, [](const plans::Bags&) { return 50.; },
      [](const plans::Sort&) { return 100.; }, [](const plans::CallBack&) { return 0.; });
  return kernel + static_cast<double>(text.size()) / 50;
}

/// Says in a comment which nodes a step computes, and where they are from.
FXX_INLINE void SpecialisedWriter::tell_nodes(const KernelStep& step) {
  std::string names, where, module;
  for (const Node* node : step.nodes) {
    names += (names.empty() ? "" : ", ") + std::string(node->name());
    if (!node->source().empty()) where = node->source();
    if (!node->module_stack().empty()) module = node->module_stack().innermost().key();
  }
  if (where.empty()) where = module;  // traces of C++ know no lines unless they were asked to look for them
  forward_lines_ += "  // " + cpp_comment(names + (where.empty() ? "" : ": " + where)) + "\n";
  if (const auto* back = std::get_if<plans::CallBack>(&step.kernel))
    forward_lines_ += "  // " + cpp_comment((back->is_region() ? "interpreted: " : "no kernel: ") + back->why) + "\n";
}

/// Takes the steps that are called back from `index` on together, where they are many: a loop takes the compiler no longer
/// for thousands of them. Returns the step after them, or `index`.
FXX_INLINE int SpecialisedWriter::loop_of_call_backs(int index) {
  constexpr int few = 8;
  const auto is_called_back = [&](int i) {
    return i < static_cast<int>(plan_.steps.size()) &&
           std::holds_alternative<plans::CallBack>(plan_.steps[static_cast<std::size_t>(i)].kernel);
  };
  int end = index;
  while (is_called_back(end)) ++end;
  if (end - index < few) return index;
  step_begins_.push_back(forward_lines_.size());
  for (int i = index; i < end; ++i) tell_nodes(plan_.steps[static_cast<std::size_t>(i)]);
  forward_lines_ += "  for (int step = " + std::to_string(index) + "; step < " + std::to_string(end) +
                    "; ++step) {\n    if (part.index == 0) call_back(call, step);\n"
                    "    end_of_step(call, part, barrier, step + 1);\n    if (has_failed(call, step)) return" +
                    (in_pieces() ? " false" : "") + ";\n  }\n";
  return end;
}

FXX_INLINE void SpecialisedWriter::step(int index) {
  const KernelStep& step = plan_.steps[static_cast<std::size_t>(index)];
  step_begins_.push_back(forward_lines_.size());
  tell_nodes(step);
  if (std::holds_alternative<plans::CallBack>(step.kernel)) {
    forward_lines_ += "  if (part.index == 0) call_back(call, " + std::to_string(index) + ");\n" + end_of_step(index) +
                      "  if (has_failed(call, " + std::to_string(index) + ")) return" + (in_pieces() ? " false" : "") +
                      ";\n";
    return;
  }
  Body body;
  std::string text;
  for (const plans::Store& store : step.stores) {
    const plans::Buffer& buffer = buffer_of(store.to);
    if (buffer.border.empty() || buffer.first != index) continue;
    include("loops");
    const std::string name =
        shape("BorderShape",
              "{.images = " + this->text(buffer.image[0]) + ", .rows = " + this->text(buffer.image[1]) +
                  ", .pixels = " + this->text(buffer.image[2]) + ", .channels = " + this->text(buffer.image[3]) +
                  ", .top = " + this->text(buffer.border.top) + ", .left = " + this->text(buffer.border.left) +
                  ", .bottom = " + this->text(buffer.border.bottom) + ", .right = " + this->text(buffer.border.right) +
                  (buffer.zero ? ", .zero = " + this->text(buffer.zero) : "") + "}",
              "border");
    const std::string place = pointer(body, {store.to.buffer, 0, {}, {}}, true, "bordered");
    text += "  clear_border<" + name + ">(part, " + place + ");\n";
  }
  const std::string stem = stem_of(step);
  const int shapes = shape_counts_[stem];
  text += match(
      step.kernel, [&](const plans::Pointwise&) { return pointwise(body, step); },
      [&](const plans::MatrixProduct& k) { return product(body, step, k); },
      [&](const plans::Convolution& k) { return convolution(body, step, k); },
      [&](const plans::DepthwiseBlock& k) { return depthwise_block(body, step, k); },
      [&](const plans::Pooling& k) { return pooling(body, step, k); },
      [&](const plans::Rows& k) { return rows(body, step, k); },
      [&](const plans::Attention& k) { return attention(body, step, k); },
      [&](const plans::GroupNorm& k) { return group_norm(body, step, k); },
      [&](const plans::Recurrent& k) { return recurrent(body, step, k); },
      [&](const plans::Resize& k) { return resize(body, step, k); },
      [&](const plans::Scatter& k) { return scatter(body, step, k); },
      [&](const plans::Bags& k) { return bags(body, step, k); }, [&](const plans::Sort& k) { return sort(body, k); },
      [&](const plans::CallBack&) { return std::string(); });
  // Who waits for the others would wait forever.
  const bool alone = step.way.alone && std::ranges::none_of(body.parameters, [](const Body::Parameter& p) {
                       return p.type == "Barrier&";
                     });
  std::string parameters = "Part part", arguments = alone ? "Part{}" : "part";
  for (const Body::Parameter& p : body.parameters) {
    parameters += ", " + p.type + " " + p.name;
    arguments += ", " + p.argument;
  }
  const std::string definition = "(" + parameters + ") {\n" + text + "}\n";
  auto [known, fresh] = functions_.try_emplace(definition);
  if (fresh) {
    known->second = stem + "_step_" + std::to_string(++function_counts_[stem]);
    const double milliseconds = compile_milliseconds(step, text, shape_counts_[stem] == shapes);
    if (std::holds_alternative<plans::Pointwise>(step.kernel)) milliseconds_of_loops_ += milliseconds;
    step_functions_.push_back({known->second, definition, milliseconds});
  }
  const std::string call = known->second + "(" + arguments + ");\n" + end_of_step(index);
  forward_lines_ += alone ? "  if (part.index == 0) " + call : "  " + call;
}

/// The functions of all steps; of several parts, each says where it begins in the time that all of them take.
FXX_INLINE std::string SpecialisedWriter::functions(int parts) const {
  double before = 150;  // what all else takes, which is in the first part
  double all = before;
  for (const Function& function : step_functions_) all += function.milliseconds;
  std::string result;
  if (parts > 1) {
    for (const Function& f : step_functions_)
      result += "void " + f.name + f.definition.substr(0, f.definition.find(" {\n")) + ";\n";
    result += "\n";
  }
  for (const Function& f : step_functions_) {
    const std::string text = "[[gnu::noinline]] void " + f.name + f.definition;
    const auto middle = static_cast<int>(1000 * (before + f.milliseconds / 2) / all);
    before += f.milliseconds;
    result += parts > 1 ? "#if FXX_IN_PART(" + std::to_string(middle) + ")\n" + text + "#endif\n\n" : text + "\n";
  }
  return result;
}

/// The function that takes all steps. The compiler's time grows faster than the length of a function (6000 steps that are
/// called back took two minutes), so of many steps each hundred have a function of their own.
FXX_INLINE std::string SpecialisedWriter::forward_function() const {
  const std::string head = "(ModuleCall& call, Part part, Barrier& barrier) {\n";
  const std::string start = "  end_of_step(call, part, barrier, 0);\n";
  if (!in_pieces()) return "void forward" + head + start + forward_lines_ + "}\n\n";
  constexpr std::size_t steps_of_piece = 100;
  std::string pieces, calls;
  for (std::size_t i = 0; i < step_begins_.size(); i += steps_of_piece) {
    const std::size_t next = i + steps_of_piece;
    const std::size_t end = next < step_begins_.size() ? step_begins_[next] : forward_lines_.size();
    const std::string name = "steps_from_" + std::to_string(i);
    pieces += "/// Whether none of them has failed.\n[[gnu::noinline]] bool " + name + head +
              forward_lines_.substr(step_begins_[i], end - step_begins_[i]) + "  return true;\n}\n\n";
    calls += "  if (!" + name + "(call, part, barrier)) return;\n";
  }
  return pieces + "void forward" + head + start + calls + "}\n\n";
}

FXX_INLINE SpecialisedSource SpecialisedWriter::write() {
  include("features");
  include("loops");
  include("module");
  include("parallel");
  include(plan_.guarded ? "guard" : "weights");
  for (int i = 0; i < static_cast<int>(plan_.steps.size());)
    if (const int next = loop_of_call_backs(i); next > i) i = next;
    else step(i++);
  SpecialisedSource out;
  out.headers.assign(headers_.begin(), headers_.end());
  std::string& text = out.text;
  text = "// Forward of " + cpp_comment(title_) + ", made by fxx " FXX_VERSION_TEXT " for these sizes and weights.\n\n";
  for (const std::string& header : out.headers) text += "#include \"" + header + "\"\n";
  // A part takes the headers 0.1 s again, so each is to have some times that.
  double milliseconds = 0;
  for (const Function& function : step_functions_) milliseconds += function.milliseconds;
  out.parts = std::clamp(static_cast<int>(milliseconds / 400), 1, 8);
  if (out.parts > 1)
    text +=
        "\n// May be compiled in FXX_PARTS parts, of which this is number FXX_PART; else all of it is one.\n"
        "#if !defined(FXX_PARTS)\n#define FXX_PARTS 1\n#define FXX_PART 0\n#endif\n"
        "/// Is what begins after so many thousandths of the compiler's time in this part?\n"
        "#define FXX_IN_PART(thousandths) ((thousandths) * FXX_PARTS / 1000 == FXX_PART)\n";
  // Parts call each other's functions, which nobody else sees.
  text += "\nnamespace [[gnu::visibility(\"hidden\")]] steps {\n\nusing namespace fxx::kernels;\n\n";
  if (!shape_lines_.empty()) text += shape_lines_ + "\n";
  if (!constant_lines_.empty()) text += "// Where each constant begins, in floats.\n" + constant_lines_;
  text += "inline constexpr std::size_t weights_size = " + end_of_constants() + ";\n";
  text += "inline constexpr std::size_t arena_bytes = " + std::to_string(plan_.arena_bytes) + ";\n";
  std::string most = "0";
  for (const std::string& floats : scratch_) most = "most_of(" + most + ", " + floats + ")";
  text += "inline constexpr std::size_t scratch_bytes = " +
          (scratch_.empty() ? std::string("0") : "whole(" + most + ") * sizeof(float)") + ";\n\n";
  text += functions(out.parts) + "}  // namespace steps\n\n";
  if (out.parts > 1) text += "#if FXX_PART == 0\n";
  text += "namespace {\n\nusing namespace fxx::kernels;\nusing namespace steps;\n\n";
  if (forward_lines_.find("call_back(call") != std::string::npos)
    text +=
        "/// After a fault nothing that the program sees is written.\n"
        "[[maybe_unused]] void call_back(ModuleCall& call, int step) {\n"
        "  if (call.fault != no_fault || call.call_back(&call, step) == 0) return;\n  call.step = step;\n"
        "  __atomic_store_n(&call.fault, fault_of_call_back, __ATOMIC_RELEASE);\n}\n"
        "/// Has this step failed? The next may have meanwhile, which threads that wait for it have to come to.\n"
        "[[maybe_unused]] bool has_failed(const ModuleCall& call, int step) {\n"
        "  return __atomic_load_n(&call.fault, __ATOMIC_ACQUIRE) == fault_of_call_back && call.step == step;\n}\n\n";
  text +=
      "/// What the next step reads is written.\n"
      "inline void end_of_step(ModuleCall& call, Part part, Barrier& barrier, int number) {\n"
      "  barrier.wait();\n  if (!call.times) return;\n  note_time(call.times, part, number);\n"
      "  if (!call.after_step) return;\n  if (part.index == 0) call.after_step(&call, number);\n"
      "  barrier.wait();\n}\n\n" +
      forward_function() + "}  // namespace\n\n";
  out.hash = hash_of(text);
  text +=
      "#pragma GCC visibility push(default)\n"
      "extern \"C\" {\n"
      "extern const ModuleInfo fxx_module;\n"
      "const ModuleInfo fxx_module = {module_abi, lanes, compiled_features, \"" FXX_VERSION_TEXT "\", " +
      std::to_string(out.hash) +
      "u, arena_bytes, scratch_bytes, weights_size};\n\n"
      "void fxx_pack([[maybe_unused]] const void* const* attributes, [[maybe_unused]] float* weights) {\n" +
      pack_lines_ +
      "}\n"
      "void* fxx_open(int threads, int processors) { return new Team(threads, processors); }\n"
      "void fxx_close(void* team) { delete static_cast<Team*>(team); }\n"
      "void fxx_run(void* team, ModuleCall* call) {\n"
      "  Team& threads = *static_cast<Team*>(team);\n"
      "  threads.run([&](Part part) { forward(*call, part, threads.barrier); });\n"
      "}\n"
      "}\n"
      "#pragma GCC visibility pop\n";
  if (out.parts > 1) text += "#endif\n";
  return out;
}

}  // namespace detail

FXX_INLINE SpecialisedSource specialised_source(const KernelPlan& plan, const std::string& title) {
  // Inlined into each loop, functions of a chain of thousands would take the compiler minutes: 5 ms for each.
  constexpr double longest_of_loops = 2500;
  detail::SpecialisedWriter writer(plan, title);
  SpecialisedSource source = writer.write();
  if (writer.milliseconds_of_loops() <= longest_of_loops) return source;
  return detail::SpecialisedWriter(plan, title, true).write();
}

}  // namespace fxx::inline FXX_ABI
