// Tracing modules symbolically: the tracer's hooks, bound and nested inputs, results, scopes, and tracing again.
#include "fxx/codegen/inputs.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rules/activations.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/wrap.hpp"
#include "fxx/trace/hana.hpp"
#include "fxx/trace/transformer.hpp"
#include "graph_text.hpp"
#include "out_of_place.hpp"
#include "torch/support.hpp"

using namespace fxx;
using test::body_of;
using test::fault_of;
using test::same;
using test::text_of;

namespace {

/// A block whose forward takes proxies, so that it can be traced through.
struct BlockImpl : torch::nn::Module {
  fxx::nn::Linear fc{4, 4};
  torch::Tensor scale;
  BlockImpl() {
    register_module("fc", fc);
    scale = register_buffer("scale", torch::full({4}, 2.0));
  }
  template <class T>
  T forward(T x) {
    return relu(fc(x)) * scale;
  }
};
struct Block : fxx::nn::leaf<torch::nn::ModuleHolder<BlockImpl>> {
  using leaf::leaf;
};

struct NetImpl : torch::nn::Module {
  Block first, second;
  fxx::nn::Linear head{4, 3};
  NetImpl() {
    register_module("first", first);
    register_module("second", second);
    register_module("head", head);
  }
  template <class T>
  T forward(T x) {
    return head(first(second(first(x))));
  }
};
TORCH_MODULE(Net);

template <class T>
struct Batch {
  BOOST_HANA_DEFINE_STRUCT(Batch, (T, image), (T, mask));
};

/// Called with values of several types.
struct ScaleImpl : torch::nn::Module {
  template <class T, class S>
  T forward(T x, S by) {
    return x * by;
  }
};
FXX_MODULE(Scale);
struct ScalesImpl : torch::nn::Module {
  Scale scale = register_module("scale", Scale());
  bool whole_first;
  explicit ScalesImpl(bool first) : whole_first(first) {}
  template <class T>
  T forward(T x) {
    if (!whole_first) return scale(x, 0.5) + scale(x, 2) + scale(x, x);
    return scale(x, 2) + scale(x, 0.5) + scale(x, x);
  }
};
/// Traced with a float and with a number that is known only when the graph runs.
struct ScaleByFloatImpl : torch::nn::Module {
  template <class T, class S>
  T forward(T x, S by) {
    return x * by;
  }
};
FXX_MODULE(ScaleByFloat);
struct SwitchImpl : torch::nn::Module {
  template <class T>
  T forward(T x, bool on) {
    return on ? -x : x;
  }
};
FXX_MODULE(Switch);
struct RoundsImpl : torch::nn::Module {
  ScaleByFloat scale = register_module("scale", ScaleByFloat());
  Switch negates = register_module("negates", Switch());
  template <class T>
  T forward(T x) {
    return scale(x, 0.5f) + negates(scale(x, x.size(0) / 3.0), true);
  }
};
struct ModeImpl : torch::nn::Module {
  template <class T>
  T forward(T x, const std::string& mode) {
    return mode == "relu" ? relu(x) : x;
  }
};
FXX_MODULE(Mode);
struct ModesImpl : torch::nn::Module {
  Mode mode = register_module("mode", Mode());
  template <class T>
  T forward(T x) {
    const char* none = "none";
    return mode(x, "relu") + mode(x, none);
  }
};

struct StructuredImpl : torch::nn::Module {
  static constexpr auto input_names = fxx::input_names("xs", "by_name", "mean");
  fxx::nn::Linear fc{4, 2};
  StructuredImpl() { register_module("fc", fc); }
  template <class T>
  Batch<T> forward(const std::vector<T>& xs, const std::map<std::string, T>& by_name, bool mean) {
    T sum = xs[0] + xs[1] * by_name.at("weight");
    return {mean ? fc(sum).mean() : fc(sum).sum(), by_name.at("mask")};
  }
};
TORCH_MODULE(Structured);

struct AskingImpl : torch::nn::Module {
  template <class T>
  T forward(T x) {
    const auto stage = annotate({{"stage", std::string("asking")}});
    return is_tracing() ? relu(x) : -x;
  }
};
struct FrozenImpl : torch::nn::Module {
  Block block;
  FrozenImpl() { register_module("block", block); }
  template <class T>
  T forward(T x) {
    T y = x * 2, z = y;
    const auto parts = y.chunk(2, 1);
    {
      const torch::NoGradGuard no_grad;
      y = block(y);
      z = parts[0] * z.size(0);
    }
    return y + x + z.sum();
  }
};
struct HolderImpl : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::randn({4, 3}));
  torch::Tensor buffer = register_buffer("buffer", torch::ones({3}));
  torch::Tensor plain = torch::full({3}, 7.0);  // registered nowhere: C++ does not know its name
  torch::Tensor taken = register_buffer("_tensor_constant0", torch::zeros({3}));
  template <class T>
  T forward(T x) {
    const torch::Tensor equal = torch::full({3}, 7.0);
    // Sizes of a parameter are numbers, so that code may branch on them.
    T y = weight.size(0) > 3 ? x.matmul(weight) : x;
    return y + buffer + plain + plain * equal + buffer + T(weight).sum() + taken;
  }
};
/// Computes with parameters before a proxy is there.
struct ComputingImpl : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::randn({4, 4}));
  fxx::nn::Linear fc = register_module("fc", fxx::nn::Linear(4, 4));
  int way;
  explicit ComputingImpl(int w) : way(w) {}
  template <class T>
  T forward(T x) {
    const torch::Tensor zeros = torch::zeros({4});
    if (way == 0) return x.matmul(weight * 2);
    if (way == 1) return x + fc(zeros);
    if (way == 2) return x.matmul(weight.detach() * 2);
    const T y = x.matmul(T(weight) * 2);
    return y + fc(T(zeros));
  }
};
struct DictImpl : torch::nn::Module {
  std::map<std::string, Block> blocks;
  DictImpl() {
    for (const char* name : {"snake_case", "PascalCase", "ALL_CAPS"}) register_module(name, blocks[name]);
  }
  template <class T>
  T forward(T x) {
    for (const char* name : {"snake_case", "PascalCase", "ALL_CAPS"}) x = blocks[name](x);
    return x;
  }
};
struct DefaultsImpl : torch::nn::Module {
  template <class Y = double, class Z = double>
  auto forward(Y y = 1, Z z = 2) {
    return y * 10 + z;
  }
};
struct RegularImpl : torch::nn::Module {
  static constexpr auto input_names = fxx::input_names("image", "scale");
  template <class T, class S = double>
  T forward(T x, S scale = 2) {
    return x * scale;
  }
};
struct GraphOuterImpl : torch::nn::Module {
  std::shared_ptr<GraphModule> inner, listed;
  GraphOuterImpl(Net net) {
    inner = register_module("inner", symbolic_trace(net));
    listed = register_module("listed", symbolic_trace([](const std::vector<Proxy>& xs,
                                                         auto y) { return std::tuple(cat(xs, 1), y * xs[0].sum()); },
                                                      concrete_args(input("xs", std::vector{PH, PH}))));
  }
  template <class T>
  T forward(T x) {
    const T y = (*inner)(relu(x));
    const auto [joined, scaled] = listed->template call<std::tuple<T, T>>(std::vector<T>{x, y}, y);
    return joined.sum() + scaled;
  }
};

std::vector<std::string> stacks_of(const Graph& g, Opcode opcode) {
  std::vector<std::string> out;
  for (const Node* node : g.find_nodes(opcode)) out.push_back(node->module_stack().text());
  return out;
}
std::vector<std::string> targets_of(const Graph& g, Opcode opcode) {
  std::vector<std::string> out;
  for (const Node* node : g.find_nodes(opcode)) out.push_back(node->target());
  return out;
}
using Texts = std::vector<std::string>;

}  // namespace

// --- hooks -----------------------------------------------------------------------------------------------------------

TEST_CASE("a tracer gives a graph, apart from the module that is made of it") {
  Net net;
  ModuleTracer tracer;
  Graph graph = tracer.trace(net);
  graph.lint();
  CHECK(targets_of(graph, Opcode::call_module) == Texts{"first.fc", "second.fc", "first.fc", "head"});
  CHECK(targets_of(graph, Opcode::get_attr) == Texts{"first.scale", "second.scale"});  // one for all reads
  CHECK(graph.nodes().front()->type() == "torch::Tensor");
  CHECK(graph.output_node()->type() == "torch::Tensor");
  const GraphModule by_hand(tracer.owner(), true, graph, tracer.constants());
  CHECK(to_string(by_hand.graph()) == to_string(symbolic_trace(net)->graph()));

  CHECK(tracer.path_of_module(*net->second->fc) == "second.fc");
  Block block;
  CHECK(fault_of<TraceError>([&] { (void)tracer.path_of_module(*block); }).id == 303);
  struct Renaming : ModuleTracer {
    std::string path_of_module(const torch::nn::Module& module) override {
      return "net." + ModuleTracer::path_of_module(module);
    }
  };
  CHECK(targets_of(Renaming().trace(net), Opcode::call_module) ==
        Texts{"net.first.fc", "net.second.fc", "net.first.fc", "net.head"});

  const Graph other = tracer.trace(block);  // the same tracer, another root
  CHECK(targets_of(other, Opcode::call_module) == Texts{"fc"});
  CHECK(same_structure(ModuleTracer(tracer).trace(net), graph));
  CHECK(tracer.trace([](auto x) { return relu(x); }).size() == 3);
  CHECK(fault_of<TraceError>([] { (void)ModuleTracer().owner(); }).id == 308);
}

TEST_CASE("modules are traced through, or leaves by their type or their name; leaves run in the graph") {
  Net net;
  const torch::Tensor x = torch::randn({2, 4});
  const auto through = symbolic_trace(net);
  test::check_traced(*net, *through, {{x}});

  const auto types = symbolic_trace_with<LeafTypes<Block>>(net);
  CHECK(targets_of(types->graph(), Opcode::call_module) == Texts{"first", "second", "first", "head"});
  test::check_traced(*net, *types, {{x}});
  CHECK(targets_of(symbolic_trace(net)->graph(), Opcode::call_module).size() == 4);
  CHECK(targets_of(symbolic_trace(net)->graph(), Opcode::call_module)[0] == "first.fc");  // Block is no leaf by that

  struct ByName : ModuleTracer {
    bool is_leaf_module(const torch::nn::Module& module, const std::string& name) override {
      return name == "second" || ModuleTracer::is_leaf_module(module, name);
    }
  };
  const auto named = symbolic_trace_with<ByName>(net);
  CHECK(targets_of(named->graph(), Opcode::call_module) == Texts{"first.fc", "second", "first.fc", "head"});
  test::check_traced(*net, *named, {{x}});

  struct NoLeaves : ModuleTracer {
    bool is_leaf_module(const torch::nn::Module&, const std::string&) override { return false; }
  };
  {
    struct OuterImpl : torch::nn::Module {
      Block inner;
      OuterImpl() { register_module("inner", inner); }
      auto forward(Proxy p) { return inner(p); }
    };
    OuterImpl outer;
    NoLeaves tracer;
    // There is no way through a forward that takes tensors only.
    CHECK(targets_of(tracer.trace(outer), Opcode::call_module) == Texts{"inner.fc"});
  }
  // They can be opened afterwards.
  const auto opened = symbolic_trace_with<NoLeaves>(net);
  CHECK(expand_modules(opened->graph(), opened->owner()) == 4);
  CHECK(targets_of(opened->graph(), Opcode::call_module).empty());
  test::check_traced(*net, *opened, {{x}});
}

TEST_CASE("a leaf whose forward is a template is called with the types of each call") {
  const torch::Tensor x = torch::randn({2, 4});
  for (const bool whole_first : {true, false}) {
    ScalesImpl net(whole_first);
    const auto gm = symbolic_trace_with<LeafTypes<Scale>>(net);
    CHECK(targets_of(gm->graph(), Opcode::call_module) == Texts{"scale", "scale", "scale"});
    test::check_traced(net, *gm, {{x}});
    // Numbers convert as long as nothing is lost.
    CHECK(same(call_module(*net.scale, {x, true}).toTensor(), x));
    const auto fault = fault_of<RunError>([&] { (void)call_module(*net.scale, {x, "two"}); });
    CHECK(fault.id == 702);
    CHECK(fault.says("was never traced with (Tensor [2, 4] float32, "));
  }
  // Where nothing else is known they are rounded, as C++ does it.
  RoundsImpl rounds;
  const auto rounding = symbolic_trace_with<LeafTypes<ScaleByFloat, Switch>>(rounds);
  CHECK(rounding->graph().find_nodes(Opcode::call_module).size() == 3);
  test::check_traced(rounds, *rounding, {{torch::randn({3, 4})}, {torch::randn({5, 4})}});
  CHECK(same(call_module(*rounds.negates, {x, 1}).toTensor(), -x));
  CHECK(same(call_module(*rounds.negates, {x, 0}).toTensor(), x));
  CHECK(fault_of<RunError>([&] { (void)call_module(*rounds.negates, {x, 2}); }).id == 702);
  ModesImpl modes;
  test::check_traced(modes, *symbolic_trace(modes), {{x}});
  const auto leaves = symbolic_trace_with<LeafTypes<Mode>>(modes);
  CHECK(targets_of(leaves->graph(), Opcode::call_module) == Texts{"mode", "mode"});
  test::check_traced(modes, *leaves, {{x}});
}

TEST_CASE("a tensor that gets other sizes or another history in place under a NoGradGuard has them in the graph") {
  const auto sizes = [](auto x) {
    auto y = x * 2;
    {
      const torch::NoGradGuard no_grad;
      y.unsqueeze_(0);
    }
    return y + 1;
  };
  const auto history = [](auto x) {
    auto y = x * 2;
    {
      const torch::NoGradGuard no_grad;
      y.detach_();
    }
    return x * y;
  };
  const auto between = [](auto x) {
    auto y = x * 2, before = y, after = y;
    {
      const torch::NoGradGuard no_grad;
      before = relu(y);
    }
    y.transpose_(0, 1);
    {
      const torch::NoGradGuard no_grad;
      after = relu(y);
    }
    return y + after + before.sum();
  };
  const torch::nn::Module none("None");
  const torch::Tensor x = torch::randn({2, 3});
  const auto check = [&](const auto& f) {
    const auto gm = symbolic_trace(f);
    CAPTURE(to_string(gm->graph()));
    test::check_forward([&](const test::Tensors& t) { return c10::IValue(f(t[0])); }, &none, *gm, {{x}});
  };
  check(sizes);
  check(history);
  check(between);
}

TEST_CASE("a tracer may refuse what writes: methods, functions, and methods of a constant") {
  test::OutOfPlace<ModuleTracer> tracer;
  const torch::Tensor constant = torch::ones({3});
  CHECK_THROWS_WITH(tracer.trace([](auto x) { return x.add_(1); }), "in place");
  CHECK_THROWS_WITH(tracer.trace([](auto x) { return relu_(x); }), "in place");
  CHECK_THROWS_WITH(tracer.trace([&]<class T>(T x) { return T(constant).add_(x); }), "in place");
  CHECK(tracer.trace([&]<class T>(T x) { return T(constant).add(x); }).size() == 4);
  CHECK(same(constant, torch::ones({3})));
}

TEST_CASE("call_module may change what a module is given, and what its value is") {
  struct Changing : ModuleTracer {
    Argument call_module(torch::nn::Module& module, const ModuleForward& forward,
                         std::span<const Argument> args) override {
      const std::string name = path_of_module(module);
      if (name == "second") return args[0];  // dropped
      if (name == "head") {
        const Argument doubled[] = {(Proxy(*this, args[0].node()) * 2).node()};
        return (-Proxy(*this, ModuleTracer::call_module(module, forward, doubled).node())).node();
      }
      const Argument negative[] = {(-Proxy(*this, args[0].node())).node()};
      return forward ? forward(negative) : ModuleTracer::call_module(module, forward, args);
    }
  };
  Net net;
  const auto gm = symbolic_trace_with<Changing>(net);
  gm->graph().lint();
  const torch::Tensor x = torch::randn({2, 4});
  const auto first = [&](const torch::Tensor& t) { return net->first->forward(-t); };
  CHECK(same((*gm)(x), -net->head(first(first(x)) * 2)));

  struct Wrong : ModuleTracer {
    Argument call_module(torch::nn::Module& module, const ModuleForward& forward,
                         std::span<const Argument> args) override {
      return forward ? forward({}) : ModuleTracer::call_module(module, forward, args);
    }
  };
  const auto fault = fault_of<TraceError>([&] { symbolic_trace_with<Wrong>(net); });
  CHECK(fault.says("forward is given 0 arguments; it was called with 1"));
  CHECK(fault.says("Net > first ("));
}

TEST_CASE("nodes know the calls of modules that they came from, repeated calls apart; so do faults") {
  Net net;
  const auto gm = symbolic_trace(net);
  CHECK(stacks_of(gm->graph(), Opcode::call_module) ==
        Texts{"first > first.fc", "second > second.fc", "first@1 > first.fc@1", "head"});
  CHECK(stacks_of(gm->graph(), Opcode::call_function) ==
        Texts{"first", "first", "second", "second", "first@1", "first@1"});
  CHECK(stacks_of(gm->graph(), Opcode::placeholder) == Texts{""});
  const ModuleFrame frame = gm->graph().find_nodes(Opcode::call_module)[0]->module_stack().innermost();
  CHECK(frame.type == "torch::nn::Linear");

  struct BranchingImpl : torch::nn::Module {
    auto forward(Proxy p) { return p.sum() > 0 ? p : -p; }
  };
  struct Branching : fxx::nn::leaf<torch::nn::ModuleHolder<BranchingImpl>> {
    using leaf::leaf;
  };
  struct OuterImpl : torch::nn::Module {
    Branching inner;
    OuterImpl() { register_module("inner", inner); }
    auto forward(Proxy p) { return inner(relu(p)); }
  };
  OuterImpl outer;
  const auto fault = fault_of<TraceError>([&] { symbolic_trace(outer); });
  CHECK(fault.id == 301);
  CHECK(fault.says("Outer > inner ("));
  CHECK_FALSE(is_tracing());

  struct StrayImpl : torch::nn::Module {
    Block stray;  // not registered
    auto forward(Proxy p) { return stray(p); }
  };
  StrayImpl stray;
  const auto missing = fault_of<TraceError>([&] { symbolic_trace(stray); });
  CHECK(missing.id == 303);
  CHECK(missing.says("register it with register_module"));
  CHECK(missing.says("Stray]"));
}

TEST_CASE("code can ask whether it is traced, and say what its nodes are") {
  AskingImpl net;
  const torch::Tensor x = torch::randn({3});
  CHECK(same(net.forward(x), -x));
  const auto gm = symbolic_trace(net);
  CHECK(same((*gm)(x), torch::relu(x)));
  const Node* node = gm->graph().find_nodes(Opcode::call_function)[0];
  REQUIRE(node->meta().custom.size() == 1);
  CHECK(std::any_cast<std::string>(node->meta().custom[0].second) == "asking");
}

TEST_CASE("under a NoGradGuard in forward, operators and modules give values without gradients") {
  FrozenImpl net;
  const torch::Tensor x = torch::randn({2, 4});
  const auto gm = symbolic_trace(net);
  test::check_traced(net, *gm, {{x}});  // with gradients of everything
  CHECK(body_of(gm->graph()) ==
        "mul = aten::mul.Scalar(%x, 2)\nchunk = .chunk(%mul, 2, 1)\ndetach = aten::detach(%mul)\nblock_fc = "
        "block.fc(%detach)\ndetach_1 = aten::detach(%block_fc)\nrelu = aten::relu(%detach_1)\nblock_scale = attribute "
        "block.scale\ndetach_2 = aten::detach(%block_scale)\nmul_1 = aten::mul.Tensor(%relu, %detach_2)\nsize = "
        ".size(%detach, 0)\ngetitem = operator::getitem(%chunk, 0)\ndetach_3 = aten::detach(%getitem)\nmul_2 = "
        "aten::mul.Scalar(%detach_3, %size)\nsum = .sum(%mul_2)\nadd = aten::add.Tensor(%mul_1, %x)\nadd_1 = "
        "aten::add.Tensor(%add, %sum)\nreturn %add_1\n");
  CHECK(same((*symbolic_trace(*gm))(x), net.forward(x)));
  {
    const torch::NoGradGuard no_grad;  // around the whole trace
    CHECK(test::count_of(symbolic_trace(net)->graph(), ops::detach) == 0);
  }
  ModuleTracer lenient;
  lenient.ignore_gradient_mode = true;
  const auto plain = symbolic_trace(net, lenient);
  CHECK(test::count_of(plain->graph(), ops::detach) == 0);
  CHECK(same((*plain)(x), net.forward(x)));

  const auto switched = fault_of<TraceError>([&] {
    const torch::NoGradGuard no_grad;
    symbolic_trace([](auto t) {
      const torch::AutoGradMode on(true);
      return relu(t);
    });
  });
  CHECK(switched.id == 316);
  CHECK(switched.says("switched gradients on, and calls 'torch.ops.aten.relu.default'"));
}

// --- attributes and constants ----------------------------------------------------------------------------------------

TEST_CASE("parameters and buffers are read once, other tensors become constants, one for each tensor") {
  HolderImpl net;
  const auto gm = symbolic_trace(net);
  CHECK(targets_of(gm->graph(), Opcode::get_attr) ==
        Texts{"weight", "buffer", "_tensor_constant1", "_tensor_constant2", "_tensor_constant0"});
  for (const std::string& name : targets_of(gm->graph(), Opcode::get_attr)) CHECK_FALSE(name.starts_with("__"));
  CHECK(gm->attribute("_tensor_constant1").is_same(net.plain));
  test::check_traced(net, *gm, {{torch::randn({2, 4})}});

  ModuleTracer tracer;
  tracer.trace(net);
  CHECK(tracer.get_fresh_qualname("_tensor_constant") == "_tensor_constant3");
  CHECK(tracer.get_fresh_qualname("weight") == "weight0");
  const torch::Tensor captured = torch::randn({3});
  const auto f = symbolic_trace([&](auto x) { return captured.matmul(captured) * x.matmul(captured) + captured; });
  CHECK(targets_of(f->graph(), Opcode::get_attr) == Texts{"_tensor_constant0", "_tensor_constant1"});
}

TEST_CASE("what is computed from parameters alone is no constant: refused, or recorded of values of the trace") {
  const torch::Tensor x = torch::randn({2, 4});
  for (const int way : {0, 1}) {
    CAPTURE(way);
    const auto fault = fault_of<TraceError>([&] {
      ComputingImpl net(way);
      symbolic_trace(net);
    });
    CHECK(fault.id == 324);
    CHECK(fault.says("T(weight)"));
  }
  ComputingImpl frozen(2), net(3);
  CHECK(same((*symbolic_trace(frozen))(x), frozen.forward(x)));
  const auto gm = symbolic_trace(net);
  test::check_traced(net, *gm, {{x}});
  CHECK(targets_of(gm->graph(), Opcode::get_attr) == Texts{"weight", "_tensor_constant0"});
  CHECK(targets_of(gm->graph(), Opcode::call_module) == Texts{"fc"});
  {
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& parameter : net.parameters()) parameter.mul_(3);
  }
  CHECK(same((*gm)(x), net.forward(x)));
}

TEST_CASE("names of nodes are snake case, targets are as they were registered") {
  DictImpl net;
  const auto gm = symbolic_trace_with<LeafTypes<Block>>(net);
  Texts names;
  for (const Node* node : gm->graph().find_nodes(Opcode::call_module)) names.emplace_back(node->name());
  CHECK(names == Texts{"snake_case", "pascal_case", "all_caps"});
  CHECK(targets_of(gm->graph(), Opcode::call_module) == Texts{"snake_case", "PascalCase", "ALL_CAPS"});
  test::check_traced(net, *gm, {{torch::randn({2, 4})}});
}

// --- inputs and results ----------------------------------------------------------------------------------------------

TEST_CASE("an input that is bound is checked when the graph runs") {
  const auto f = [](auto x, bool twice) { return twice ? x * 2 : x; };
  const auto yes = symbolic_trace(f, concrete_args(PH, true)), no = symbolic_trace(f, concrete_args(PH, false));
  const torch::Tensor x = torch::randn({3});
  CHECK(same((*yes)(x, true), x * 2));
  CHECK(same((*no)(x, false), x));
  const auto fault = fault_of<RunError>([&] { (*yes)(x, false); });
  CHECK(fault.id == 703);
  CHECK(fault.says("input 'arg1' was specialised to the value True"));
  CHECK(fault_of<RunError>([&] { (*no)(x, true); }).id == 703);
  CHECK(fault_of<RunError>([&] { Interpreter(*yes).run({x, false}); }).id == 703);
  CHECK(fault_of<RunError>([&] { (*yes)(x); }).id == 701);  // an input all the same

  const auto kinds =
      symbolic_trace([](auto y, int n, double d, const std::string& s,
                        const std::optional<Proxy>& none) { return none ? y : y * n * d * static_cast<int>(s.size()); },
                     concrete_args(PH, 3, 0.5, "text", std::optional<PlaceholderOf<Proxy>>()));
  CHECK(same((*kinds)(x, 3, 0.5, "text", std::nullopt), x * 3 * 0.5 * 4));
  CHECK(same((*kinds)(x, 3.0, 0.5, std::string("text"), torch::Tensor()), x * 3 * 0.5 * 4));  // None
  CHECK(fault_of<RunError>([&] { (*kinds)(x, 4, 0.5, "text", std::nullopt); }).says("arg1"));
  CHECK(fault_of<RunError>([&] { (*kinds)(x, 3, 0.25, "text", std::nullopt); }).says("arg2"));
  CHECK(fault_of<RunError>([&] { (*kinds)(x, 3, 0.5, "else", std::nullopt); }).says("arg3"));
  CHECK(fault_of<RunError>([&] { (*kinds)(x, 3, 0.5, "text", x); }).says("arg4"));
  CHECK(kinds->code().find("TORCH_CHECK(arg1 == 3, \"input 'arg1'") != std::string::npos);
  CHECK(kinds->code().find("TORCH_CHECK(!arg4.defined(), ") != std::string::npos);
  CHECK(kinds->code().starts_with("torch::Tensor forward(torch::Tensor arg0, int64_t arg1, double arg2, std::string "));

  const auto change = [](const auto& t) { return relu(t) + 1; };
  const auto higher = symbolic_trace([](auto y, const auto& g) { return g(y); }, concrete_args(PH, change));
  CHECK(same((*higher)(x, change), torch::relu(x) + 1));
  CHECK(same((*higher)(x), torch::relu(x) + 1));
}

TEST_CASE("inputs with defaults may be left out") {
  DefaultsImpl net;
  const auto gm = symbolic_trace(net, concrete_args(PH_NUMBER.with_default(1.0), PH_NUMBER.with_default(2.0)));
  CHECK(gm->call<double>() == net.forward());
  CHECK(gm->call<double>(5.0) == net.forward(5.0));
  CHECK(gm->call<double>(5.0, 6.0) == net.forward(5.0, 6.0));
  CHECK(gm->code().starts_with("double forward(double arg0 = 1.0, double arg1 = 2.0)"));

  RegularImpl regular;
  const torch::Tensor x = torch::randn({3});
  const auto scaled = symbolic_trace(regular, concrete_args(PH, PH_NUMBER.with_default(2.0)));
  CHECK(same((*scaled)(x), regular.forward(x)));
  CHECK(same((*scaled)(x, 3.0), regular.forward(x, 3.0)));
  CHECK(targets_of(scaled->graph(), Opcode::placeholder) == Texts{"image", "scale"});
  const auto plain = symbolic_trace(regular);  // what is not described keeps its default
  CHECK(same((*plain)(x), regular.forward(x)));
  CHECK(targets_of(plain->graph(), Opcode::placeholder) == Texts{"image"});
  CHECK(targets_of(symbolic_trace(regular, {"photo"})->graph(), Opcode::placeholder) == Texts{"photo"});
}

TEST_CASE("containers and structs are inputs and results as the function has them") {
  Structured net;
  const std::vector<torch::Tensor> xs = {torch::randn({2, 4}), torch::randn({2, 4})};
  const std::map<std::string, torch::Tensor> by_name = {{"weight", torch::randn({2, 4})}, {"mask", torch::ones({2})}};
  const auto gm = symbolic_trace(
      net, concrete_args(std::vector{PH, PH}, std::map<std::string, PlaceholderOf<Proxy>>{{"weight", PH}, {"mask", PH}},
                         true));
  gm->graph().lint();
  CHECK(targets_of(gm->graph(), Opcode::placeholder) ==
        Texts{"xs_1", "xs_2", "by_name_1", "by_name_2", "mean"});  // named by the module
  const Batch<torch::Tensor> expected = net->forward(xs, by_name, true);
  const auto given = gm->call<Batch<torch::Tensor>>(xs, by_name, true);
  CHECK(same(given.image, expected.image));
  CHECK(same(given.mask, expected.mask));
  const auto as_map = gm->call<std::map<std::string, torch::Tensor>>(xs, by_name, true);
  CHECK(same(as_map.at("image"), expected.image));
  const c10::IValue boxed = Interpreter(*gm).run({xs, fxx::detail::box_input(by_name), true});
  CHECK(same(fxx::detail::unbox<Batch<torch::Tensor>>(boxed, "test").image, expected.image));
  CHECK(same(fxx::detail::unbox<Batch<torch::Tensor>>(
                 gm->run_flat({xs[0], xs[1], by_name.at("mask"), by_name.at("weight"), true}), "test")
                 .image,
             expected.image));

  const std::string code = gm->code();
  CHECK(
      code.find("forward(std::vector<torch::Tensor> xs, std::map<std::string, torch::Tensor> by_name, bool mean) {") !=
      std::string::npos);
  CHECK(code.find("  auto xs_2 = std::move(xs.at(1));\n") != std::string::npos);
  CHECK(code.find("  auto by_name_1 = std::move(by_name.at(\"mask\"));\n") != std::string::npos);
  CHECK(code.find("return std::map<std::string, torch::Tensor>{{\"image\", ") != std::string::npos);

  const auto by_flag = symbolic_trace(
      net, concrete_args(std::vector{PH, PH}, std::map<std::string, PlaceholderOf<Proxy>>{{"weight", PH}, {"mask", PH}},
                         input<"mean">(false)));
  CHECK(same(by_flag->call<Batch<torch::Tensor>>(xs, by_name, false).image, net->forward(xs, by_name, false).image));

  const auto wrong = [&](auto&&... inputs) {
    return fault_of<RunError>([&] { gm->call<Batch<torch::Tensor>>(inputs...); });
  };
  CHECK(wrong(xs[0], by_name, true).says("Tensor [2, 4] float32 was given for an input that is a list or tuple of 2"));
  CHECK(wrong(std::vector{xs[0]}, by_name, true).says("a list or tuple of 2"));
  CHECK(wrong(xs, std::map<std::string, torch::Tensor>{{"mask", xs[0]}}, true).says("a dict with the key 'weight'"));
  CHECK(wrong(xs, by_name).says("'mean'"));
  const auto result = fault_of<RunError>([&] { (void)gm->call<torch::Tensor>(xs, by_name, true); });
  CHECK(result.id == 701);
  CHECK(result.says("not one tensor"));
  CHECK(fault_of<RunError>([&] { (void)gm->call<std::vector<torch::Tensor>>(xs, by_name, true); }).says("not a list"));

  // Built, the module still takes containers; the example inputs are those of the placeholders.
  const auto listed = symbolic_trace([](const std::vector<Proxy>& ts, auto y) { return std::tuple(ts[0] * ts[1], y); },
                                     concrete_args(input("ts", std::vector{PH, PH})));
  const auto compiled = build(*listed, {xs[0], xs[1], xs[0]});
  CHECK(compiled->is_current());
  CHECK(same(std::get<0>(compiled->call<std::tuple<torch::Tensor, torch::Tensor>>(xs, xs[1])), xs[0] * xs[1]));

  // Through a struct of inputs, and a copy.
  const auto of_batch = symbolic_trace([](const auto& batch) { return batch.image * batch.mask; },
                                       concrete_args(Batch<PlaceholderOf<Proxy>>{PH, PH}));
  const Batch<torch::Tensor> batch{xs[0], xs[1]};
  CHECK(same(of_batch->call(batch), xs[0] * xs[1]));
  const auto copy = std::dynamic_pointer_cast<GraphModule>(of_batch->clone());
  CHECK(same(copy->call(batch), xs[0] * xs[1]));
  // An input of the graph that is gone, and one that came, leave the others where they are.
  Graph& graph = gm->graph();
  const Node* first = graph.nodes().front();
  {
    const InsertPoint point = graph.inserting_before(graph.find_nodes(Opcode::call_function)[0]);
    Node* more = graph.placeholder("more");
    graph.nodes().front()->replace_all_uses_with(more);
  }
  graph.erase_node(const_cast<Node*>(first));
  const auto edited = gm->call<Batch<torch::Tensor>>(xs, by_name, true, xs[0]);
  CHECK(same(edited.image, expected.image));
}

TEST_CASE("results of every kind come back") {
  const torch::Tensor x = torch::randn({4, 3});
  CHECK(symbolic_trace([](auto) { return "done"; })->call<std::string>(x) == "done");
  CHECK(symbolic_trace([](auto) { return 3; })->call<int>(x) == 3);
  CHECK(symbolic_trace([](auto t) { return t.size(0) * 2; })->call<std::int64_t>(x) == 8);
  CHECK(symbolic_trace([](auto) {})->run({x}).isNone());
  CHECK_FALSE(symbolic_trace([](auto) { return std::nullopt; })->call<std::optional<torch::Tensor>>(x).has_value());
  CHECK(symbolic_trace([] { return std::pair(1, 2.5); })->call<std::pair<int, double>>() == std::pair(1, 2.5));
  CHECK(symbolic_trace([] {})->run({}).isNone());
  CHECK(symbolic_trace([] {})->code() == "void forward() {\n}\n");
  const auto nested = symbolic_trace([](auto t) { return std::tuple(std::vector{t, -t}, std::pair(t.sum(), 7)); });
  const auto [list, pair] = nested->call<std::tuple<std::array<torch::Tensor, 2>, std::pair<torch::Tensor, int>>>(x);
  CHECK(same(list[1], -x));
  CHECK(pair.second == 7);
  CHECK(nested->graph().output_node()->type() ==
        "std::tuple<std::vector<torch::Tensor>, std::tuple<torch::Tensor, int64_t>>");
  const auto [values, indices] =
      symbolic_trace([](auto t) { return topk(t, 2); })->call<std::tuple<torch::Tensor, torch::Tensor>>(x);
  CHECK(same(values, std::get<0>(torch::topk(x, 2))));
  // A struct of several types is a tuple of its members in generated code, which does not know the struct.
  const auto mixed = symbolic_trace([](auto t) { return std::map<std::string, std::vector<Proxy>>{{"a", {t}}}; });
  CHECK(mixed->code().starts_with("std::map<std::string, std::vector<torch::Tensor>> forward(torch::Tensor x)"));
  CHECK(
      symbolic_trace([](auto) { return std::tuple<>(); })->code().starts_with("std::tuple<> forward(torch::Tensor x)"));
  const auto typed = symbolic_trace([](auto image, auto n) { return image.call("area", n); },
                                    concrete_args(input("image", PH.typed("my::Image")), input("n", PH_NUMBER)));
  CHECK(typed->code().find(" forward(my::Image image, double n) {") != std::string::npos);
}

// --- tracing again ---------------------------------------------------------------------------------------------------

TEST_CASE("a GraphModule is traced again: the same graph, with all that was noted") {
  Net net;
  struct Settings : ModuleTracer {
    std::string kept = "first";
    bool is_leaf_module(const torch::nn::Module& module, const std::string& name) override {
      return name == kept || ModuleTracer::is_leaf_module(module, name);
    }
  };
  Settings settings;
  settings.kept = "second";
  const auto gm = symbolic_trace(net, settings), again = symbolic_trace(*gm), third = symbolic_trace(again);
  CHECK(targets_of(gm->graph(), Opcode::call_module) == Texts{"first.fc", "second", "first.fc", "head"});
  for (const auto& retraced : {again, third}) {
    CHECK(to_string(retraced->graph()) == to_string(gm->graph()));
    CHECK(stacks_of(retraced->graph(), Opcode::call_module) == stacks_of(gm->graph(), Opcode::call_module));
    CHECK(retraced->class_name() == gm->class_name());
    REQUIRE(retraced->graph().tracer());
    const auto made = retraced->graph().tracer()->make();
    REQUIRE(dynamic_cast<Settings*>(made.get()));
    CHECK(dynamic_cast<Settings*>(made.get())->kept == "second");
  }
  test::check_traced(*net, *third, {{torch::randn({2, 4})}});
  CHECK(third->attribute("head.weight").is_same(net->head->weight));
  CHECK(symbolic_trace(*gm, {"image"})->graph().nodes().front()->target() == "image");

  // After rules and edits.
  Net other;
  const auto edited = symbolic_trace(other);
  for (Node* node : edited->graph().nodes())
    if (node->calls(ops::relu)) node->set_op(CallFunction{&ops::gelu.info()});
  edited->register_attribute("more", torch::ones({3}));
  Node* output = edited->graph().output_node();
  {
    const InsertPoint point = edited->graph().inserting_before(output);
    output->update_arg(
        0, edited->graph().call_function(ops::add_Tensor, {output->arg(0), edited->graph().get_attr("more")}));
  }
  const auto retraced = symbolic_trace(*edited);
  CHECK(same_structure(retraced->graph(), edited->graph()));
  const torch::Tensor x = torch::randn({2, 4});
  CHECK(same((*retraced)(x), (*edited)(x)));
  const auto silu = symbolic_trace([](auto t) { return t * sigmoid(t); });
  CHECK(rules::activations.apply(*silu).rewrites == 1);
  CHECK(to_string(symbolic_trace(*silu)->graph()) == to_string(silu->graph()));
  CHECK(test::count_of(symbolic_trace(*silu)->graph(), ops::silu) == 1);
}

TEST_CASE("tracing again keeps containers, and may bind inputs") {
  Structured net;
  const std::vector<torch::Tensor> xs = {torch::randn({2, 4}), torch::randn({2, 4})};
  const std::map<std::string, torch::Tensor> by_name = {{"weight", torch::randn({2, 4})}, {"mask", torch::ones({2})}};
  const auto gm = symbolic_trace(
      net, concrete_args(std::vector{PH, PH}, std::map<std::string, PlaceholderOf<Proxy>>{{"weight", PH}, {"mask", PH}},
                         true));
  const auto again = symbolic_trace(*gm);
  REQUIRE(again->graph().signature());
  CHECK(*again->graph().signature() == *gm->graph().signature());
  CHECK(same(again->call<Batch<torch::Tensor>>(xs, by_name, true).image, net->forward(xs, by_name, true).image));
  CHECK(fault_of<RunError>([&] { again->call<Batch<torch::Tensor>>(xs, by_name, false); }).id == 703);

  const auto scaled = symbolic_trace([](auto x, auto scale) { return x * scale; }, concrete_args(PH, PH_NUMBER));
  const auto bound = symbolic_trace(*scaled, concrete_args(PH, 3.0));
  CHECK(body_of(bound->graph()).ends_with("mul = aten::mul.Scalar(%arg0, 3.0)\nreturn %mul\n"));
  CHECK(same((*bound)(xs[0], 3.0), xs[0] * 3));
  CHECK(fault_of<RunError>([&] { (*bound)(xs[0], 4.0); }).id == 703);
  const auto listed = symbolic_trace(*scaled, concrete_args(input("both", std::tuple(PH, PH_NUMBER))));
  CHECK(same(listed->call(std::tuple(xs[0], 5.0)), xs[0] * 5));
  CHECK(fault_of<TraceError>([&] {
          symbolic_trace(*scaled, concrete_args(PH, PH, PH));
        }).says("describes 3 inputs; the graph takes 2"));
}

TEST_CASE("a GraphModule within a module is traced through, or is a leaf where the tracer says so") {
  Net net;
  GraphOuterImpl outer(net);
  const torch::Tensor x = torch::randn({2, 4});
  const auto gm = symbolic_trace(outer);
  CHECK(targets_of(gm->graph(), Opcode::call_module) ==
        Texts{"inner.first.fc", "inner.second.fc", "inner.first.fc", "inner.head"});
  CHECK(targets_of(gm->graph(), Opcode::get_attr) == Texts{"inner.first.scale", "inner.second.scale"});
  CHECK(stacks_of(gm->graph(), Opcode::call_module)[0] == "inner > inner.first > inner.first.fc");
  test::check_traced(outer, *gm, {{x}});

  const auto leaves = symbolic_trace_with<LeafTypes<GraphModule>>(outer);
  CHECK(targets_of(leaves->graph(), Opcode::call_module) == Texts{"inner", "listed"});
  // Each goes by the name of the class that it was traced from.
  const auto calls = leaves->graph().find_nodes(Opcode::call_module);
  REQUIRE(outer.inner->class_name() != outer.listed->class_name());
  CHECK(calls[0]->module_stack().innermost().type == outer.inner->class_name());
  CHECK(calls[1]->module_stack().innermost().type == outer.listed->class_name());
  CHECK(same((*leaves)(x), outer.forward(x)));
  const auto opened = symbolic_trace(*leaves, *std::make_unique<ModuleTracer>());  // and traced again by another tracer
  CHECK(targets_of(opened->graph(), Opcode::call_module)[0] == "inner.first.fc");
  CHECK(same((*opened)(x), outer.forward(x)));
  const auto as_it_was = symbolic_trace(*leaves);
  CHECK(to_string(as_it_was->graph()) == to_string(leaves->graph()));

  const auto alone = fault_of<TraceError>([&] { symbolic_trace([&](auto t) { return (*outer.inner)(t); }); });
  CHECK(alone.id == 303);
}

TEST_CASE("a Transformer makes a module of a module") {
  struct Swap : Transformer {
    using Transformer::Transformer;
    Argument call_function(const CallFunction& op, Arguments args, KeywordArguments kwargs) override {
      if (node().calls(ops::relu)) return gelu(proxy(args.span()[0])).node();
      return Transformer::call_function(op, args, kwargs);
    }
  };
  Net net;
  const auto gm = symbolic_trace(net);
  const torch::Tensor x = torch::randn({2, 4});
  const GraphModule same_module(*gm, Transformer(gm->graph()).transform());
  CHECK(to_string(same_module.graph()) == to_string(gm->graph()));
  GraphModule swapped(*gm, Swap(gm->graph()).transform());
  CHECK(test::count_of(swapped.graph(), ops::relu) == 0);
  const auto block = [](Block& b, const torch::Tensor& t) { return torch::gelu(b->fc(t)) * b->scale; };
  CHECK(same(swapped(x), net->head(block(net->first, block(net->second, block(net->first, x))))));
}
