// What a graph does besides its results, and results that are not there: operators called for their effect, random
// numbers that nobody uses, objects of TorchScript classes, undefined tensors. Everywhere a graph runs: interpreted,
// after dead code went, built, compiled, as a project of its own.
//
// One long file: each that includes LibTorch takes 20 s and 1.3 GB to compile.
#include <torch/custom_class.h>

#include <random>

#include "fxx/ops/operation.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/merge_equal.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/script.hpp"
#include "fxx/torch/to_folder.hpp"
#include "fxx/torch/wrap.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

/// What the operators below were told, in order.
std::vector<std::string>& told() {
  static std::vector<std::string> texts;
  return texts;
}
std::string taken() {
  std::string text;
  for (const std::string& t : std::exchange(told(), {})) text += (text.empty() ? "" : " ") + t;
  return text;
}

TORCH_LIBRARY(fxx_effects, m) {
  m.def("log(Tensor x, str what) -> ()", [](const Tensor& x, std::string what) {
    told().push_back(what + std::to_string(x.numel()));
  });
  m.def("noise(Tensor x, *, Generator? generator=None) -> Tensor",
        [](const Tensor& x, std::optional<at::Generator> generator) { return at::rand(x.sizes(), generator, x.options()); });
  m.def("maybe(Tensor x, bool second) -> (Tensor, Tensor)", [](const Tensor& x, bool second) {
    return std::tuple{x * 2, second ? x + 1 : Tensor()};
  });
  m.def("nothing(Tensor x) -> Tensor", [](const Tensor&) { return Tensor(); });
  m.def("either(Tensor x, Tensor y) -> Tensor", [](const Tensor& x, const Tensor& y) { return y.defined() ? x + y : x.neg(); });
}
template <class... A>
auto call(const char* name, A&&... args) {
  torch::jit::Stack stack{c10::IValue(std::forward<A>(args))...};
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(("fxx_effects::" + std::string(name)).c_str(), "");
  for (std::size_t i = stack.size(); i < op.schema().arguments().size(); ++i)
    stack.push_back(*op.schema().arguments()[i].default_value());
  op.callBoxed(stack);
  return stack;
}
void log(const Tensor& x, const std::string& what) { call("log", x, what); }

/// Runs with one seed; after the results come numbers drawn behind them.
Tensors with_seed(const std::function<c10::IValue()>& run) {
  torch::manual_seed(5);
  Tensors results = tensors_of(run());
  results.push_back(torch::rand({3}));
  return results;
}
bool all_same(const Tensors& a, const Tensors& b) {
  bool same_all = a.size() == b.size();
  for (std::size_t i = 0; same_all && i < a.size(); ++i) same_all = same(a[i], b[i]);
  return same_all;
}

}  // namespace

TEST_CASE("what a graph does besides its results stays, and in order, wherever it runs") {
  const Tensor x = torch::randn({4, 3});
  const Forward f = [](const Tensors& in) -> c10::IValue {
    log(in[0], "a");
    const Tensor y = in[0].relu();
    torch::rand_like(y);
    log(y.sum(0), "b");
    F::dropout(y, F::DropoutFuncOptions().p(0.5));
    call("noise", y);
    torch::empty_like(y).uniform_();
    const Tensor z = torch::rand({4, 3}) + y;
    log(z, "a");
    torch::randperm(5);
    return z;
  };
  const Tensors expected = with_seed([&] { return f({x}); });
  taken();
  const auto gm = traced(f, {x});
  eliminate_dead_code(gm->graph());
  merge_equal(gm->graph());
  fold_constants(*gm);
  taken();
  const auto check = [&](const char* what, const std::function<c10::IValue()>& run) {
    INFO(what);
    taken();
    CHECK(all_same(with_seed(run), expected));
    CHECK(taken() == "a12 b3 a12");
  };
  check("graph", [&] { return gm->run({x}); });
  check("interpreter", [&] { return Interpreter(*gm).run({x}); });
  const auto built = fxx::build(*gm, {x}, {.cache_folder = cache()});
  check("built", [&] { return built->run({x}); });
  const auto compiled = compile(*gm, {x}, {.cache_folder = cache()});
  check("compiled", [&] { return compiled->run({x}); });
  const auto back = std::make_shared<GraphModule>(*gm, parse_graph(to_string(gm->graph())), "Read");
  check("read", [&] { return back->run({x}); });
  // The caller may say that random numbers do not matter.
  const std::size_t before = gm->graph().size();
  CHECK(eliminate_dead_code(gm->graph(), false) >= 5);
  CHECK(gm->graph().size() < before);
  taken();
  gm->run({x});
  CHECK(taken() == "a12 b3 a12");
}

TEST_CASE("drawn graphs with effects: results, random numbers and the order of effects are those of eager") {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const unsigned seed = random();
    const Forward f = [seed](const Tensors& in) -> c10::IValue {
      std::mt19937 draw(seed);
      Tensors values = in;
      for (unsigned i = 0; i < 12; ++i) {
        const Tensor v = values[draw() % values.size()];
        switch (draw() % 8) {
          case 0: log(v, std::string(1, static_cast<char>('a' + i))); break;
          case 1: torch::rand_like(v); break;
          case 2: values.push_back(v * torch::rand({3})); break;
          case 3: values.push_back(v.sigmoid() * v); break;
          case 4: values.push_back(call("noise", v)[0].toTensor()); break;
          case 5: torch::empty_like(v).normal_(); break;
          case 6: values.push_back(torch::bernoulli(v.sigmoid())); break;
          default: values.push_back((v + values[0]).tanh());
        }
      }
      return values.back() + values[values.size() / 2];
    };
    CAPTURE(seed);
    const Tensors inputs = {torch::randn({2, 3}), torch::randn({2, 3})};
    taken();
    const Tensors expected = with_seed([&] { return f(inputs); });
    const std::string order = taken();
    const auto gm = traced(f, inputs);
    optimize_for_inference(*gm);
    merge_equal(gm->graph());
    eliminate_dead_code(gm->graph());
    const auto check = [&](GraphModule& module, double tolerance) {
      taken();
      const Tensors results = with_seed([&] { return module.run(boxed(inputs)); });
      CHECK(taken() == order);
      REQUIRE(results.size() == expected.size());
      CHECK(relative_difference(results[0], expected[0]) <= tolerance);
      CHECK(same(results[1], expected[1]));
    };
    check(*gm, 1e-6);
    if (round % 4) continue;
    check(*compile(*gm, inputs, {.cache_folder = cache()}), 1e-5);
  }
}

TEST_CASE("collectives that nobody waits for stay") {
  // LibTorch that was built without them has none.
  const auto operator_of = [](const char* name, const char* schema) -> const Operator& {
    const Operator* found = find_operator(name);
    return found ? *found : register_operator(schema);
  };
  const Operator& reduce = operator_of(
      "_c10d_functional::all_reduce", "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor");
  const Operator& wait =
      operator_of("_c10d_functional::wait_tensor", "_c10d_functional::wait_tensor(Tensor tensor) -> Tensor");
  Graph g;
  Node* const x = g.placeholder("x");
  g.call_function(wait, {g.call_function(reduce, {x, "sum", "0"})});
  g.call_function(reduce, {x, "sum", "0"});
  g.output(x);
  CHECK(merge_equal(g) == 0);
  CHECK(eliminate_dead_code(g) == 0);
}

// --- undefined tensors -----------------------------------------------------------------------------------------------

namespace {
struct AttendingImpl : torch::nn::Module {
  torch::nn::MultiheadAttention attention =
      register_module("attention", torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(8, 2)));
  bool weights = false;
  std::tuple<Tensor, Tensor> forward(Tensor x) { return attention->forward(x, x, x, {}, weights); }
};
struct NothingImpl : torch::nn::Module {
  Tensor forward(Tensor x) {
    x.relu();
    return {};
  }
};
using ManyUndefined = std::tuple<std::vector<Tensor>, std::map<std::string, Tensor>, std::optional<Tensor>, Tensor>;
struct UndefinedImpl : torch::nn::Module {
  ManyUndefined forward(Tensor x) {
    return {{x.relu(), Tensor(), x + 1}, {{"a", Tensor()}, {"b", x * 2}}, Tensor(), Tensor()};
  }
};
}  // namespace

TEST_CASE("an undefined tensor among results is one wherever the module runs") {
  AttendingImpl net;
  net.eval();
  const Tensor x = torch::randn({5, 1, 8});
  const auto expected = net.forward(x);
  REQUIRE_FALSE(std::get<1>(expected).defined());
  const auto gm = trace(net, {x});
  using Pair = std::tuple<Tensor, Tensor>;
  const auto check = [&](GraphModule& module) {
    const Pair result = module.call<Pair>(x);
    CHECK(relative_difference(std::get<0>(result), std::get<0>(expected)) < 1e-5);
    CHECK_FALSE(std::get<1>(result).defined());
    const auto optional = module.call<std::tuple<Tensor, std::optional<Tensor>>>(x);
    CHECK_FALSE(std::get<1>(optional).has_value());
    CHECK_FALSE(module.call<std::vector<Tensor>>(x)[1].defined());
  };
  check(*gm);
  check(*fxx::build(*gm, {x}, {.cache_folder = cache()}));
  check(*compile(*gm, {x}, {.cache_folder = cache()}));
  const c10::IValue interpreted = Interpreter(*gm).run({x});
  CHECK_FALSE(std::get<1>(fxx::detail::unbox<Pair>(interpreted, "test")).defined());
  // One that is all of the result.
  NothingImpl nothing;
  const auto none = trace(nothing, {x});
  CHECK_FALSE(none->forward(x).defined());
  CHECK_FALSE(fxx::build(*none, {x}, {.cache_folder = cache()})->forward(x).defined());
  CHECK_FALSE(compile(*none, {x}, {.cache_folder = cache()})->forward(x).defined());
}

TEST_CASE("undefined tensors in lists, dicts and optionals") {
  UndefinedImpl net;
  const Tensor x = torch::randn({5});
  const auto gm = trace(net, {x});
  const auto check = [&](GraphModule& module) {
    const auto [list, dict, optional, last] = module.call<ManyUndefined>(x);
    REQUIRE(list.size() == 3);
    CHECK(same(list[0], x.relu()));
    CHECK_FALSE(list[1].defined());
    CHECK(same(list[2], x + 1));
    CHECK(dict.size() == 2);
    CHECK_FALSE(dict.at("a").defined());
    CHECK(same(dict.at("b"), x * 2));
    CHECK_FALSE(optional.has_value());
    CHECK_FALSE(last.defined());
  };
  check(*gm);
  check(*fxx::build(*gm, {x}, {.cache_folder = cache()}));
  check(*compile(*gm, {x}, {.cache_folder = cache()}));
}

TEST_CASE("results of operators that are undefined when the graph runs") {
  const Tensor x = torch::randn({2, 3});
  for (const bool second : {false, true}) {
    CAPTURE(second);
    Graph g;
    Node* in = g.placeholder("x");
    Node* pair = g.call_function(get_operator("fxx_effects::maybe"), {in, second});
    Node* first = g.call_function(ops::operator_getitem, {pair, 0});
    Node* other = g.call_function(ops::operator_getitem, {pair, 1});
    Node* none = g.call_function(get_operator("fxx_effects::nothing"), {in});
    Node* either = g.call_function(get_operator("fxx_effects::either"), {first, other});
    Node* relu = g.call_function(ops::relu, {either});
    g.output(Argument::tuple({relu, other, none, Argument::list({other, first})}));
    GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, std::move(g));
    using Results = std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>>;
    const auto check = [&](const c10::IValue& value) {
      const auto [result, maybe, nothing, list] = fxx::detail::unbox<Results>(value, "test");
      CHECK(same(result, second ? torch::relu(x * 2 + (x + 1)) : torch::relu(-(x * 2))));
      CHECK(maybe.defined() == second);
      CHECK_FALSE(nothing.defined());
      REQUIRE(list.size() == 2);
      CHECK(list[0].defined() == second);
      CHECK(list[1].defined());
    };
    check(gm.run({x}));
    check(Interpreter(gm).run({x}));
    check(fxx::build(gm, {x}, {.cache_folder = cache()})->run({x}));
    check(compile(gm, {x}, {.cache_folder = cache()})->run({x}));
  }
  // A mask of three truths says which gradients there are.
  const auto masked = traced(
      [](const Tensors& in) -> c10::IValue {
        const Tensor ones = torch::ones_like(in[0]), mean = in[0].mean(1, true), rstd = torch::ones_like(mean);
        const auto [of_input, of_weight, of_bias] = at::native_layer_norm_backward(
            ones, in[0], {3}, mean, rstd, torch::ones({3}), torch::zeros({3}), {true, false, true});
        return std::tuple{of_input, of_weight, of_bias};
      },
      {x});
  const c10::IValue gradients_of_graph = masked->run({x});
  CHECK(gradients_of_graph.toTupleRef().elements()[1].isNone());
  const auto masked_built = fxx::build(*masked, {x}, {.cache_folder = cache()});
  CHECK(masked_built->called_back().empty());
  CHECK(relative_difference(masked_built->run({x}), gradients_of_graph) == 0);
  // In a trace.
  const auto gm = traced(
      [](const Tensors& in) -> c10::IValue {
        const auto pair = call("maybe", in[0], false);
        return std::tuple{pair[0].toTensor(), pair[1].toTensor(), call("either", in[0], pair[1].toTensor())[0].toTensor()};
      },
      {x});
  using Three = std::tuple<Tensor, Tensor, Tensor>;
  const auto check = [&](GraphModule& module) {
    const auto [a, b, c] = module.call<Three>(x);
    CHECK(same(a, x * 2));
    CHECK_FALSE(b.defined());
    CHECK(same(c, x.neg()));
  };
  check(*gm);
  check(*fxx::build(*gm, {x}, {.cache_folder = cache()}));
  check(*compile(*gm, {x}, {.cache_folder = cache()}));
}

// --- objects of TorchScript ------------------------------------------------------------------------------------------

namespace {
/// Whether it is a class of TorchScript, or a list, an optional or another type of one.
bool holds_class(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::ClassType) return true;
  for (const auto& inside : type.containedTypes())
    if (holds_class(*inside)) return true;
  return false;
}
}  // namespace

TEST_CASE("find_operator and parse_graph know every operator of the dispatcher") {
  std::size_t count = 0, classes = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle) continue;  // it has implementations alone
    const std::string full = c10::str(name);
    INFO(full);
    const Operator* op = find_operator(full);
    REQUIRE(op);
    ++count;
    const c10::FunctionSchema& schema = handle->schema();
    REQUIRE(op->returns.size() == (schema.is_varret() ? 1 : schema.returns().size()));
    REQUIRE(op->parameters.size() == schema.arguments().size());
    for (std::size_t i = 0; i < op->parameters.size(); ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      CHECK(op->parameters[i].name == argument.name());
      const bool is_class = holds_class(*argument.type());
      CHECK(names_class(op->parameters[i].type_text) == is_class);
      classes += is_class;
      CHECK(op->parameters[i].written == (argument.alias_info() && argument.alias_info()->isWrite()));
    }
    if (handle->hasTag(at::Tag::nondeterministic_seeded)) CHECK(has(op->traits, Trait::random));
    if ((schema.returns().empty() && !schema.is_varret()) || schema.is_mutable()) CHECK_FALSE(op->pure());
  }
  CHECK(count > 3000);
  CHECK(classes > 100);
  CHECK(find_operator("aten::no_such_operator") == nullptr);
}

namespace {
c10::IValue run_operator(const char* name, const char* overload, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).callBoxed(stack);
  return stack.empty() ? c10::IValue() : stack[0];
}
}  // namespace

TEST_CASE("operators that take and give objects of TorchScript classes are traced and run") {
  const Tensor x = torch::randn({4, 8}), w = torch::quantize_per_tensor(torch::randn({6, 8}), 0.1, 0, torch::kQInt8);
  const c10::IValue packed = run_operator("quantized::linear_prepack", "", {w, torch::randn({6})});
  const auto linear = [](const Tensor& input, const c10::IValue& weights) {
    return run_operator("quantized::linear_dynamic", "", {input, weights, false}).toTensor();
  };
  const Forward f = [&](const Tensors& in) -> c10::IValue {
    const c10::IValue range = run_operator("profiler::_record_function_enter_new", "", {"block", c10::IValue()});
    const Tensor y = linear(in[0].relu(), packed) + linear(in[0], packed);
    run_operator("profiler::_record_function_exit", "_RecordFunction", {range});
    return y.tanh();
  };
  const auto gm = traced(f, {x});
  const Tensor expected = f({x}).toTensor();
  CHECK(gm->graph().find_nodes(Opcode::get_attr).size() == 1);
  const std::size_t size = gm->graph().size();
  eliminate_dead_code(gm->graph());
  CHECK(gm->graph().size() == size);
  CHECK(same(gm->forward(x), expected));
  CHECK(same(Interpreter(*gm).run({x}).toTensor(), expected));
  CHECK(same(std::dynamic_pointer_cast<GraphModule>(gm->clone())->forward(x), expected));
  CHECK(relative_difference(compile(*gm, {x}, {.cache_folder = cache()})->forward(x), expected) < 1e-5);
  // Built code has tensors alone between its operators and those that it calls back.
  const auto fault = fault_of<CodegenError>([&] { fxx::build(*gm, {x}, {.cache_folder = cache()}); });
  CHECK(fault.id == 501);
  CHECK_MESSAGE(fault.says("gives an object"), fault.text);
  const Graph read = parse_graph(to_string(gm->graph()));
  CHECK(to_string(read) == to_string(gm->graph()));
}

namespace {
/// A class whose methods give values of every kind.
struct Settings : torch::CustomClassHolder {
  double scale() const { return 2.5; }
  double scaled(const Tensor& x) const { return static_cast<double>(x.size(0)); }
  std::int64_t count(const Tensor& x) const { return x.dim() + 1; }
  bool on(const Tensor& x) const { return x.dim() == 2; }
  std::string mode(const Tensor&) const { return "floor"; }
  std::vector<std::int64_t> shape(const Tensor& x) const { return {x.size(1), x.size(0)}; }
  std::tuple<Tensor, double> pair(const Tensor& x) const { return {x + 1, 3}; }
  Tensor tensor(const Tensor& x) const { return x * 3; }
  void note(const Tensor&) const { ++notes; }
  mutable int notes = 0;
};
void bind_settings() {
  static const auto bound = torch::class_<Settings>("fxx_effects_classes", "Settings")
                                .def("scale", &Settings::scale)
                                .def("scaled", &Settings::scaled)
                                .def("count", &Settings::count)
                                .def("on", &Settings::on)
                                .def("mode", &Settings::mode)
                                .def("shape", &Settings::shape)
                                .def("pair", &Settings::pair)
                                .def("tensor", &Settings::tensor)
                                .def("note", &Settings::note);
}
struct SettledImpl : torch::nn::Module {
  fxx::nn::ScriptObject settings;
  explicit SettledImpl(c10::intrusive_ptr<Settings> given) : settings(std::move(given)) {
    register_module("settings", settings);
  }
  template <class T>
  T forward(T x) {
    const auto scale = settings.call("scaled", x), count = settings.call("count", x), on = settings.call("on", x);
    const T y = x * scale + count * x - scale + settings.call("tensor", x) / count;
    return y.add(x, 1) * on + (scale * count) * x;
  }
};
struct CountedImpl : torch::nn::Module {
  fxx::nn::ScriptObject settings;
  explicit CountedImpl(c10::intrusive_ptr<Settings> given) : settings(std::move(given)) {
    register_module("settings", settings);
  }
  template <class T>
  T forward(T x) {
    const auto count = settings.call<std::int64_t>("count", x);
    const T y = x.view(settings.call<std::vector<std::int64_t>>("shape", x));
    return y.unsqueeze(count - 1) * count + settings.call<double>("scaled", x);
  }
};
}  // namespace

TEST_CASE("a method that gives a number is one for the operators that take it") {
  bind_settings();
  const auto settings = c10::make_intrusive<Settings>();
  const Tensor x = torch::randn({3, 4});
  // Of an object that is an input only the run tells what it is.
  const auto gm = symbolic_trace([](auto object, auto t) { return t * object.call("scale") + object.call("count", t); },
                                 {"object", "x"});
  CHECK(same(gm->run({settings, x}).toTensor(), x * 2.5 + 3));
  CHECK(same(Interpreter(*gm).run({settings, x}).toTensor(), x * 2.5 + 3));
  const Tensor half = x.to(torch::kHalf);
  CHECK(same(gm->run({settings, half}).toTensor(), half * 2.5 + 3));
  const auto items = symbolic_trace(
      [](auto object, auto t) {
        const auto pair = object.call("pair", t);
        return pair[0] * pair[1];
      },
      {"object", "x"});
  CHECK(same(items->run({settings, x}).toTensor(), (x + 1) * 3));
  // The caller may say what a method gives: a number, a list, a truth, several values.
  const auto typed = symbolic_trace(
      [](auto object, auto t) {
        const auto count = object.template call<std::int64_t>("count", t);
        const auto turned = t.view(object.template call<std::vector<std::int64_t>>("shape", t));
        const auto pair = object.template call<std::tuple<Tensor, double>>("pair", t);
        return turned.sum(count - 2, object.template call<bool>("on", t)).unsqueeze(count - 3) *
               object.template call<double>("scaled", t) + std::get<0>(pair).sum() * std::get<1>(pair);
      },
      {"object", "x"});
  const Tensor wanted = x.view({4, 3}).sum(1, true).unsqueeze(0) * 3.0 + (x + 1).sum() * 3.0;
  CHECK(same(typed->run({settings, x}).toTensor(), wanted));
  CHECK(same(Interpreter(*typed).run({settings, x}).toTensor(), wanted));
  CountedImpl counted(settings);
  const auto of_member = symbolic_trace(counted);
  CHECK(same(counted.forward(x), x.view({4, 3}).unsqueeze(2) * 3 + 3.0));
  CHECK(same((*of_member)(x), counted.forward(x)));
  CHECK(same(Interpreter(*of_member).run({x}).toTensor(), counted.forward(x)));
  const auto of_member_compiled = compile(*of_member, {x}, {.cache_folder = cache()});
  CHECK(relative_difference(of_member_compiled->forward(x), counted.forward(x)) < 1e-5);
  // Of a member the schema tells.
  SettledImpl net(settings);
  const auto member = symbolic_trace(net);
  const std::string text = to_string(member->graph());
  INFO(text);
  CHECK(text.find("aten.mul.Scalar](args = (%x, %scaled)") != std::string::npos);
  CHECK(text.find("operator.mul](args = (%scaled, %count)") != std::string::npos);
  for (const Node* node : member->graph().nodes())
    if (node->target() == "scaled") CHECK(node->type() == "double");
  const Tensor expected = net.forward(x);
  const double n = 3;
  CHECK(relative_difference(expected, (x * n + 3 * x - n + x * 3 / 3 + x) * 1 + n * 3 * x) < 1e-6);
  CHECK(same((*member)(x), expected));
  CHECK(same(Interpreter(*member).run({x}).toTensor(), expected));
  CHECK(relative_difference(compile(*member, {x}, {.cache_folder = cache()})->forward(x), expected) < 1e-5);
}
