// Random programs, each traced, printed and read again, rewritten by all rules, made functional and compiled: results,
// and what is left in the inputs, are those of LibTorch every time.
//
// To look for what these do not find: FXX_DRAWN=FIRST:COUNT takes the programs of other seeds, and compiles them all.
#include <cstdlib>

#include "fxx/ir/parse.hpp"
#include "fxx/passes/functionalise.hpp"
#include "fxx/rules/library.hpp"
#include "torch/compile/drawn_program.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

using Run = std::function<c10::IValue(const Tensors&)>;
Run of_module(GraphModule& module) {
  return [&module](const Tensors& in) { return module.run(boxed(in)); };
}
/// What a program gives, and what it leaves in its inputs.
Tensors outcome(const Run& run, const Tensors& inputs) {
  const Tensors given = cloned(inputs);
  Tensors out = cloned(tensors_of(run(given)));
  for (const Tensor& t : given) out.push_back(t.clone());
  return out;
}
/// What LibTorch gives for some inputs, and in double precision.
struct Expected {
  Tensors inputs, eager, exact;

  /// Where `run` gives something else, both times; empty: nowhere.
  std::string differs(const Run& run, double tolerance) const {
    for (int times = 0; times < 2; ++times)
      if (std::string difference = differs(outcome(run, inputs), tolerance); !difference.empty()) return difference;
    return "";
  }

 private:
  std::string differs(const Tensors& given, double tolerance) const {
    if (given.size() != eager.size()) return "another number of results";
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (given[k].sizes() != eager[k].sizes() || given[k].scalar_type() != eager[k].scalar_type())
        return c10::str("result ", k, " is ", given[k].scalar_type(), given[k].sizes(), " instead of ",
                        eager[k].scalar_type(), eager[k].sizes());
      const double error = relative_difference(given[k], eager[k]);
      const double to_exact = relative_difference(given[k].to(torch::kDouble), exact[k].to(torch::kDouble));
      if (!(std::min(error, to_exact) <= tolerance)) return c10::str("result ", k, " differs by ", error);
    }
    return "";
  }
};
/// Returns nothing where LibTorch refuses the program, as it refuses a view of memory that lies otherwise.
std::optional<Expected> expected_of(Net& net, const DrawnProgram& program, const Tensors& inputs) {
  net.function = [&](const Tensors& in) { return all_of(program(in)); };
  try {
    Expected out{inputs, outcome(net.function, inputs), in_double(net, inputs)};
    for (std::size_t k = out.exact.size(); k < out.eager.size(); ++k) out.exact.push_back(out.eager[k]);
    return out;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}
/// Others of the same sizes, that lie otherwise.
Tensors other_inputs(const Tensors& inputs) {
  Tensors out;
  for (const Tensor& in : inputs) out.push_back(in.is_floating_point() ? sliced_copy(in * 0.75) : in.clone());
  return out;
}

/// How many inputs the programs were compared on; a program has two.
struct Compared {
  std::size_t programs = 0, second_inputs = 0, compiled = 0;
};

/// Returns the first thing that is wrong with how a program is treated, after the name of the step; empty: nothing.
std::string fault_of_program(Net& net, const DrawnProgram& program, bool compiles, Compared* compared = nullptr) {
  const torch::NoGradGuard no_grad;
  const auto first = expected_of(net, program, program.inputs);
  auto second = expected_of(net, program, other_inputs(program.inputs));
  if (!second) {  // other numbers that lie as the first do
    Tensors others;
    for (const Tensor& in : program.inputs) others.push_back(in.is_floating_point() ? in * 0.75 : in.clone());
    second = expected_of(net, program, others);
  }
  if (!first) return "";
  if (compared) ++compared->programs, compared->second_inputs += second.has_value(), compared->compiled += compiles;
  const auto differ = [&](const Run& run, double tolerance) {
    const std::string difference = first->differs(run, tolerance);
    return difference.empty() && second ? second->differs(run, tolerance) : difference;
  };
  std::string step = "trace";
  try {
    const auto gm = traced_net(net, program.inputs);
    step = "run";
    if (const std::string d = differ(of_module(*gm), 0); !d.empty()) return step + ": " + d;
    step = "text";
    const std::string text = to_string(gm->graph());
    if (to_string(parse_graph(text)) != text) return step + ": read again it is another";
    for (const bool by_rules : {true, false}) {
      step = by_rules ? "rules" : "functionalise";
      const auto copy = std::dynamic_pointer_cast<GraphModule>(gm->clone());
      if (by_rules) rules::apply_all(*copy);
      else functionalise(copy->graph(), &copy->owner());
      copy->graph().lint();
      if (const std::string d = differ(of_module(*copy), by_rules ? 1e-4 : 1e-6); !d.empty())
        return step + ": " + d + "\n" + to_string(copy->graph());
    }
    if (!compiles) return "";
    step = "compile";
    const auto compiled = fxx::compile(*gm, cloned(program.inputs),
                                       {.threads = 2, .tolerance = 1e30, .cache_folder = cache()});
    if (!compiled->is_current()) return step + ": it is not current";
    if (const std::string d = differ(of_module(*compiled), 1e-4); !d.empty())
      return step + ": " + d + "\n" + compiled->kernel_plan().to_string();
    return "";
  } catch (const std::exception& e) {
    return step + ": " + e.what();
  }
}

}  // namespace

TEST_CASE("random programs compute the same, however they are run") {
  std::uint64_t first = 1, count = 300, compiled = 40;
  if (const char* wanted = std::getenv("FXX_DRAWN")) {
    const std::string text = wanted;
    first = std::stoull(text);
    count = compiled = std::stoull(text.substr(text.find(':') + 1));
  }
  std::size_t calls = 0;
  Compared compared;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Net net;
    const DrawnProgram program = ProgramDrawer(seed, net).draw(10 + seed % 30);
    calls += program.calls.size();
    const bool compiles = seed < first + compiled;
    const std::string fault = fault_of_program(net, program, compiles, &compared);
    if (fault.empty()) continue;
    const auto step_of = [](const std::string& text) { return text.substr(0, text.find(':')); };
    const DrawnProgram less = reduced(program, [&](const DrawnProgram& tried) {
      return step_of(fault_of_program(net, tried, compiles)) == step_of(fault);
    });
    FAIL_CHECK("seed ", seed, ": ", fault_of_program(net, less, compiles), "\n", less.text());
  }
  MESSAGE(compared.programs, " programs of ", calls, " calls compared, ", compared.second_inputs,
          " of them on second inputs, too, and ", compared.compiled, " compiled");
  CHECK(calls > 10 * count);
  CHECK(compared.programs == count);
  CHECK(compared.second_inputs > 0.95 * static_cast<double>(count));
}
