// Tracer: the hooks through which everything is recorded, appending to graphs, functions of the user's.
#include "fxx/trace/tracer.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/trace/input.hpp"
#include "out_of_place.hpp"
#include "trace/recorded.hpp"

using namespace fxx;
using test::body_of;
using test::fault_of;
using test::text_of;

namespace {

/// A tensor of some other library, as the LibTorch wing makes its own known.
struct ForeignTensor {
  int number;
};
/// A value type that converts.
struct Size2 {
  std::int64_t height, width;
};

}  // namespace

namespace fxx::inline FXX_ABI {
template <>
struct argument_traits<ForeignTensor> {
  static constexpr ValueType type = ValueType::tensor;
  static constexpr bool list = false;
};
template <>
struct argument_traits<Size2> {
  static constexpr ValueType type = ValueType::integer;
  static constexpr bool list = true;
  static Argument convert(const Size2& size) { return Argument::list({size.height, size.width}); }
};
}  // namespace fxx::inline FXX_ABI

// --- hooks -----------------------------------------------------------------------------------------------------------

TEST_CASE("every node passes through create_node, which may change it") {
  struct Counting : Tracer {
    using Tracer::Tracer;
    int made = 0;
    Node* create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                      std::source_location where) override {
      ++made;
      if (const auto* method = std::get_if<CallMethod>(&op); method && method->target == "relu")
        op = CallFunction{&ops::gelu.info()};
      Node* node = Tracer::create_node(std::move(op), args, kwargs, name, where);
      node->set_module_stack({{}, {"scope"}});
      return node;
    }
  };
  Graph g;
  Counting tracer(g);
  const Proxy x = tracer.placeholder("x");
  const Proxy y = (x.relu() + 1).chunk(2)[1][0];
  tracer.create_node(Output{}, {y.node()}, {}, {}, {});
  CHECK(tracer.made == static_cast<int>(g.size()));
  CHECK(body_of(g) ==
        "gelu = aten::gelu(%x)\nadd = aten::add.Scalar(%gelu, 1)\nchunk = .chunk(%add, 2)\ngetitem = "
        "operator::getitem(%chunk, 1)\n"
        "getitem_1 = operator::getitem(%getitem, 0)\nreturn %getitem_1\n");
  for (const Node* n : g.nodes()) CHECK(n->module_stack().text() == "scope");
}

TEST_CASE("to_bool, to_number and iter may decide instead of throwing") {
  struct Knowing : Tracer {
    using Tracer::Tracer;
    int lists = 0;
    bool to_bool(const ProxyBase&) override { return true; }
    Argument to_number(const ProxyBase&) override { return 3; }
    void iter(const ProxyBase&) override { ++lists; }
  };
  Graph g;
  Knowing tracer(g);
  const Proxy x = tracer.placeholder("x");
  CHECK((x > 0 ? 1 : 2) == 1);
  CHECK_FALSE(!x);
  const int n = x.size(0);
  CHECK(n == 3);
  CHECK(x.size(0) > 2);
  CHECK(x.size(0) == 3.0);
  CHECK(4 <= x.size(0));  // to_bool says yes to everything
  CHECK(x.item<float>() == 3.0f);
  for (const Proxy& part : x.chunk(2)) (void)part;
  CHECK(tracer.lists > 0);
}

TEST_CASE("create_arg says what each value becomes") {
  struct Doubling : Tracer {
    using Tracer::Tracer;
    Argument create_arg(const Operand& value) override {
      const Argument made = Tracer::create_arg(value);
      return made.kind() == Argument::Kind::integer ? Argument(2 * made.integer()) : made;
    }
  };
  Graph g;
  Doubling tracer(g);
  const Proxy x = tracer.placeholder("x");
  x.view({3, 4}).add(5).index({6}).softmax(-1);
  CHECK(body_of(g) ==
        "view = .view(%x, [6, 8])\nadd = .add(%view, 10)\ngetitem = operator::getitem(%add, (12,))\nsoftmax = "
        ".softmax(%getitem, -2)\n");
}

TEST_CASE("a tensor of the host library is an attribute, where the tracer has a module to keep it") {
  struct Keeping : Tracer {
    using Tracer::Tracer;
    Node* attribute(const void* tensor) override {
      return create_node(GetAttr{"constant" + std::to_string(static_cast<const ForeignTensor*>(tensor)->number)}, {},
                         {}, {}, {});
    }
  };
  const ForeignTensor tensor{7};
  Graph g;
  Keeping tracer(g);
  const Proxy x = tracer.placeholder("x");
  functional::cat({x + tensor, tensor * x, linear(x, tensor, {})});
  CHECK(g.find_nodes(Opcode::get_attr, "constant7").size() == 3);
  g.lint();

  Graph other;
  Tracer bare(other);
  const Proxy y = bare.placeholder("y");
  const auto fault = fault_of<TraceError>([&] { (void)(y + tensor); });
  CHECK(fault.id == 305);
  CHECK(fault.says("trace a module"));
}

TEST_CASE("types of the user's become arguments by argument_traits") {
  Graph g;
  Tracer tracer(g);
  const Proxy x = tracer.placeholder("x");
  adaptive_avg_pool2d(x, Size2{2, 3});
  CHECK(body_of(g) == "adaptive_avg_pool2d = aten::adaptive_avg_pool2d(%x, [2, 3])\n");
  CHECK(to_argument(tracer, std::make_tuple(Size2{1, 2}, x)) == Argument::tuple({Argument::list({1, 2}), x.node()}));
}

TEST_CASE("inputs are made by a hook, which may name, type and order them in another way, but not lose one") {
  struct Naming : Tracer {
    bool loses = false;
    std::vector<Node*> create_args_for_root(std::span<const InputLeaf> inputs) override {
      std::vector<InputLeaf> changed(inputs.begin(), inputs.end());
      for (InputLeaf& input : changed) {
        input.name = "in_" + input.name;
        if (!input.bound) input.default_value = 0;
      }
      if (loses) changed.pop_back();
      return Tracer::create_args_for_root(changed);
    }
  };
  Naming tracer;
  const Graph g = tracer.trace([](auto x, int n) { return x + n; }, concrete_args(input("x"), 4));
  CHECK(text_of(g).starts_with("input in_x = 0\ninput in_arg1\ncheck_equal = fxx::check_equal(%in_arg1, 4, "));
  const Graph nested = tracer.trace([](const std::vector<Proxy>& xs) { return cat(xs); },
                                    concrete_args(input("xs", std::vector{PH, PH})));
  REQUIRE(nested.signature());
  CHECK(nested.signature()->leaves() == std::vector<std::string_view>{"in_xs_1", "in_xs_2"});
  tracer.loses = true;
  const auto fault = fault_of<TraceError>([&] { tracer.trace([](auto x, auto y) { return x + y; }); });
  CHECK(fault.id == 305);
  CHECK(fault.says("1 placeholders were given back; there are 2 inputs"));
}

TEST_CASE("create_proxy makes all that the function sees, and proxy may put another node in the place of one") {
  struct Doubling : Tracer {
    int seen = 0;
    Node* create_proxy(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                       std::source_location where) override {
      ++seen;
      return Tracer::create_proxy(std::move(op), args, kwargs, name, where);
    }
    Node* proxy(Node* node) override {
      if (node->opcode() != Opcode::call_method) return node;
      return create_node(CallFunction{&ops::neg.info()}, {node});
    }
  };
  Doubling tracer;
  CHECK(body_of(tracer.trace([](auto x) { return x.relu() + 1; })) ==
        "relu = .relu(%x)\nneg = aten::neg(%relu)\nadd = aten::add.Scalar(%neg, 1)\nreturn %add\n");
  CHECK(tracer.seen == 3);  // the input, relu, add
}

TEST_CASE("a tracer may refuse what it does not like") {
  test::OutOfPlace<Tracer> tracer;
  CHECK_THROWS_WITH(tracer.trace([](auto x) { return x.add_(1); }), "in place");
  CHECK_THROWS_WITH(tracer.trace([](auto x) { return functional::relu_(x); }), "in place");
  CHECK_THROWS_WITH(tracer.trace([](auto x) { return x += 1; }), "in place");
  CHECK(tracer.trace([](auto x) { return x + 1; }).size() == 3);
}

TEST_CASE("check_mutable_operations refuses what writes to an argument, however it is spelled") {
  Tracer strict;
  strict.options.check_mutable_operations = true;
  const auto refused = [&](auto f) {
    const auto fault = fault_of<TraceError>([&] { strict.trace(f); });
    CAPTURE(fault.text);
    return fault.id == 315 && fault.says("writes to its argument");
  };
  CHECK(refused([](auto x) { return x.add_(1); }));
  CHECK(refused([](auto x) { return functional::relu_(x); }));
  CHECK(refused([](auto x) { return x *= 2; }));
  CHECK(refused([](auto x) { x[0] = 1; }));
  CHECK_FALSE(refused([](auto x) { return (x.add(1) * 2).view({-1})[0]; }));
  CHECK(Tracer().trace([](auto x) { return x.add_(1); }).size() == 3);
}

// --- one trace after another -----------------------------------------------------------------------------------------

TEST_CASE("a tracer traces one function after another, and again after one that failed") {
  Tracer tracer;
  const auto relu_of = [](auto x) { return x.relu(); };
  const Graph first = tracer.trace(relu_of);
  CHECK(body_of(first) == "relu = .relu(%x)\nreturn %relu\n");
  CHECK(fault_of<TraceError>([&] { tracer.trace([](auto x) { return x > 0 ? x : -x; }); }).id == 301);
  CHECK_FALSE(is_tracing());
  CHECK(Tracer::current() == nullptr);
  const Graph again = tracer.trace(relu_of);
  CHECK(same_structure(first, again));
  CHECK(fault_of<TraceError>([&] { (void)tracer.graph(); }).id == 308);
  bool traced = false;
  tracer.trace([&](auto x) {
    traced = is_tracing() && Tracer::current() == &tracer && x.tracer().graph().size() == 1;
    return x;
  });
  CHECK(traced);
}

TEST_CASE("a trace within a trace has a tracer of its own") {
  Tracer outer;
  Graph inner;
  const Graph g = outer.trace([&](auto x) {
    inner = symbolic_graph([](auto y) { return y.neg(); });
    CHECK(Tracer::current() == &outer);
    return x.relu();
  });
  CHECK(body_of(g) == "relu = .relu(%x)\nreturn %relu\n");
  CHECK(body_of(inner) == "neg = .neg(%x)\nreturn %neg\n");
  const auto fault = fault_of<TraceError>([&] {
    outer.trace([&](auto x) {
      outer.trace([](auto y) { return y; });
      return x;
    });
  });
  CHECK(fault.says("at work already"));
  CHECK(outer.trace([](auto x) { return x; }).size() == 2);
}

TEST_CASE("a copy of a tracer, before or after a trace, has its settings and traces the same") {
  struct Tagging : Tracer {
    std::string tag;
    Node* create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                      std::source_location where) override {
      Node* node = Tracer::create_node(std::move(op), args, kwargs, name, where);
      node->meta().custom.emplace_back("tag", tag);
      return node;
    }
  };
  const auto tags = [](const Graph& g) {
    std::string text;
    for (const Node* n : g.nodes()) text += std::any_cast<std::string>(n->meta().custom.at(0).second);
    return text;
  };
  const auto f = [](auto x, auto y) { return (x + y).relu().sin(); };
  Tagging tracer;
  tracer.tag = "a";
  tracer.options.check_mutable_operations = true;
  Tagging before = tracer;
  const Graph g = tracer.trace(f);
  Tagging after = tracer;
  for (Tagging* copy : {&before, &after}) {
    const Graph again = copy->trace(f);
    CHECK(same_structure(again, g));
    CHECK(tags(again) == "aaaaaa");
    CHECK(fault_of<TraceError>([&] { copy->trace([](auto x) { return x.add_(1); }); }).id == 315);
  }
  after.tag = "b";
  CHECK(tags(after.trace(f)) == "bbbbbb");
  CHECK(tags(tracer.trace(f)) == "aaaaaa");
}

TEST_CASE("a graph remembers how it was traced, and so do its copies") {
  struct Own : Tracer {
    int setting = 0;
    detail::Shared<const TracerFactory> factory() const override { return remember(*this); }
  };
  Own own;
  own.setting = 5;
  own.options.record_stack_traces = true;
  Graph g = own.trace([](auto x) { return x; });
  own.setting = 6;  // of later traces
  const Graph copy = g, moved = std::move(g);
  for (const Graph* graph : {&copy, &moved}) {
    REQUIRE(graph->tracer());
    const detail::Shared<Tracer> made = graph->tracer()->make();
    const auto* same = dynamic_cast<Own*>(made.get());
    REQUIRE(same);
    CHECK(same->setting == 5);
    CHECK(same->options.record_stack_traces);
  }
  const Graph plain = symbolic_graph([](auto x) { return x; });
  REQUIRE(plain.tracer());
  CHECK(plain.tracer()->make()->options == TracerOptions());
  struct Forgetting : Tracer {};
  CHECK_FALSE(Forgetting().trace([](auto x) { return x; }).tracer());  // its type is known to nobody but the caller
  CHECK_FALSE(Graph().tracer());
}

// --- what is noted on nodes ------------------------------------------------------------------------------------------

namespace notes {
[[gnu::noinline]] Proxy activation(const Proxy& x) { return relu(x) + 1; }
}  // namespace notes

TEST_CASE("with record_stack_traces, every node but the output has the user's frames, innermost last") {
  Tracer tracer;
  tracer.options.record_stack_traces = true;
  const Graph g = tracer.trace([](auto x) { return notes::activation(x).size(0); });
  for (const Node* node : g.nodes()) {
    CAPTURE(format_node(*node));
    const std::string& trace = node->meta().stack_trace;
    if (node->opcode() == Opcode::output) {
      CHECK(trace.empty());
      continue;
    }
    REQUIRE_FALSE(trace.empty());
    CHECK(("\n" + trace).find("\nfxx::") == std::string::npos);
    CHECK(trace.find("_Unwind") == std::string::npos);
    const std::string last = trace.substr(trace.rfind('\n') + 1);
    const bool in_activation = node->name() == "relu" || node->name() == "add";
    CHECK((last.find("activation") != std::string::npos) == in_activation);
    if (last.find(" at ") != std::string::npos) CHECK(last.find("tracer.cpp:") != std::string::npos);
    CHECK(node->source() == last);
  }
  Graph appended;
  const Node* x = appended.placeholder("x");
  GraphAppendingTracer appending(appended);
  appending.options.record_stack_traces = true;
  const Node* made = notes::activation({appending, const_cast<Node*>(x)}).node();
  CHECK(made->meta().stack_trace.find("activation") != std::string::npos);
  CHECK(x->meta().stack_trace.empty());
  CHECK(Tracer().trace([](auto y) { return y; }).nodes().front()->meta().stack_trace.empty());
}

TEST_CASE("annotations are noted on the nodes made within them; inner ones add, and hold under the same key") {
  const auto noted = [](const Proxy& value) {
    std::string text;
    for (const auto& [key, any] : value.node()->meta().custom) text += key + std::to_string(std::any_cast<int>(any));
    return text;
  };
  symbolic_graph([&](auto x) {
    CHECK(noted(x).empty());
    {
      const auto outer = annotate({{"stage", 1}, {"block", 2}});
      const Proxy a = relu(x);
      CHECK(noted(a) == "stage1block2");
      {
        const auto inner = annotate({{"stage", 3}, {"part", 4}});
        CHECK(noted(relu(a)) == "stage3part4block2");
        CHECK(noted(symbolic_graph([](auto y) { return y; }).size() ? relu(a) : a) == "stage3part4block2");
      }
      CHECK(noted(a.neg()) == "stage1block2");
    }
    CHECK(noted(relu(x)).empty());
    return x;
  });
  const auto nothing = annotate({{"stage", 1}});  // a trace is not touched by what surrounds it
  CHECK(symbolic_graph([](auto x) { return x; }).nodes().front()->meta().custom.empty());
}

TEST_CASE("nodes know the calls of modules that they came from, and faults name them") {
  std::string fault;
  const Graph g = symbolic_graph([&](auto x) {
    const ModuleScope encoder("encoder", "Encoder");
    Proxy y = relu(x);
    for (std::uint32_t call = 0; call < 2; ++call) {
      const ModuleScope layer("encoder.0", "Layer", call);
      y = relu(y);
      y = y * 2;
    }
    fault = fault_of<TraceError>([&] { (void)static_cast<bool>(y > 0); }).text;
    return y;
  });
  std::vector<std::string> stacks;
  for (const Node* node : g.nodes()) stacks.push_back(node->module_stack().text());
  CHECK(stacks == std::vector<std::string>{"", "encoder", "encoder > encoder.0", "encoder > encoder.0",
                                           "encoder > encoder.0@1", "encoder > encoder.0@1", "encoder", ""});
  CHECK(fault.find(", in encoder (Encoder)]") != std::string::npos);
}

// --- plain C++ around a trace ----------------------------------------------------------------------------------------

TEST_CASE("branches and loops over plain values are decided while tracing: two settings give two graphs") {
  const auto graph_with = [](int layers, bool scaled) {
    return body_of(symbolic_graph([&](auto x) {
      Proxy y = x;
      for (int i = 0; i < layers; ++i) y = relu(y);
      if (scaled) y = y * 2;
      return y;
    }));
  };
  CHECK(graph_with(1, false) == "relu = aten::relu(%x)\nreturn %relu\n");
  CHECK(graph_with(2, true) ==
        "relu = aten::relu(%x)\nrelu_1 = aten::relu(%relu)\nmul = aten::mul.Scalar(%relu_1, 2)\nreturn %mul\n");
}

TEST_CASE("what a wrapper around a function does is recorded, and guards in it make no difference") {
  struct Guard {
    bool& open;
    explicit Guard(bool& o) : open(o) { open = true; }
    ~Guard() { open = false; }
  };
  bool open = false;
  const auto decorated = [](auto f) { return [=](auto x) { return relu(f(relu(x))); }; };
  const Graph g = symbolic_graph(decorated([&](auto x) {
    const Guard guard(open);
    CHECK(open);
    return x.neg();
  }));
  CHECK_FALSE(open);
  CHECK(body_of(g) == "relu = aten::relu(%x)\nneg = .neg(%relu)\nrelu_1 = aten::relu(%neg)\nreturn %relu_1\n");
}

// --- appending -------------------------------------------------------------------------------------------------------

TEST_CASE("GraphAppendingTracer records at the insertion point of an existing graph") {
  Graph g = symbolic_graph([](auto x) { return x.relu(); });
  Node* relu = g.nodes().front()->next();
  GraphAppendingTracer tracer(g);
  {
    const InsertPoint point = g.inserting_after(relu);
    const Proxy value(tracer, relu);
    relu->replace_all_uses_with((value * 2).node(), [](const Node* user) { return user->opcode() == Opcode::output; });
  }
  CHECK(body_of(g) == "relu = .relu(%x)\nmul = aten::mul.Scalar(%relu, 2)\nreturn %mul\n");
  g.lint();
}

TEST_CASE("appending takes no name that the graph has, and a copy of the tracer appends to the same graph") {
  Graph g = symbolic_graph([](auto x) { return relu(x); });
  Node* relu_node = g.nodes().front()->next();
  GraphAppendingTracer tracer(g);
  const GraphAppendingTracer copy = tracer;
  const Proxy first = relu(Proxy(tracer, relu_node));
  CHECK(first.node()->name() == "relu_1");
  CHECK(&copy.graph() == &g);
  CHECK(g.nodes().back()->opcode() == Opcode::output);
  CHECK(first.node()->next() == g.output_node());
  CHECK_FALSE(is_tracing());
  g.lint();
}

TEST_CASE("an item that was erased is made again") {
  Graph g;
  Tracer tracer(g);
  const ListProxy parts = tracer.placeholder("x").chunk(2);
  Node* first = parts[0].node();
  CHECK(parts[0].node() == first);
  g.erase_node(first);
  CHECK(parts[0].node() != first);
  g.lint();
}

TEST_CASE("placeholders take defaults and types") {
  Graph g;
  Tracer tracer(g);
  tracer.placeholder("x", {}, "torch::Tensor");
  tracer.placeholder("p", Argument(0.5), "double");
  tracer.placeholder("n", Argument());
  CHECK(text_of(g) == "input x\ninput p = 0.5\ninput n = None\n");
  CHECK(g.nodes().front()->type() == "torch::Tensor");
  CHECK(g.nodes().front()->next()->type() == "double");
}

// --- functions of the user's -----------------------------------------------------------------------------------------

TEST_CASE("a function of the user's is recorded with all arguments by position") {
  const UserFunction& blend = register_function("tests::trace::blend", "\"blend.hpp\"");
  Graph g;
  Tracer tracer(g);
  const Proxy x = tracer.placeholder("x");
  const functional::TensorArg tensor(x);
  const functional::ScalarArg number(0.25);
  const functional::OptionalTensorArg nothing(std::nullopt);
  const Operand* const operands[] = {&tensor, &nothing, &number};
  Node* node = tracer.call_function(blend, operands);
  CHECK(text_of(*node) == "tests::trace::blend(%x, None, 0.25)");
  CHECK(node->name() == "blend");
  CHECK(std::string_view(node->location().file_name()).ends_with("trace/tracer.cpp"));
}

TEST_CASE("an operator that the table does not have is recorded like one that it has") {
  const Operator& rotate =
      register_operator("tests::trace_rotate(Tensor x, float angle=0.5, *, bool degrees=False) -> Tensor");
  Graph g;
  Tracer tracer(g);
  const Proxy x = tracer.placeholder("x");
  const functional::TensorArg tensor(x);
  const functional::RealArg angle(2), left_out;
  const functional::BoolArg degrees(true);
  const Operand *const all[] = {&tensor, &angle, &degrees}, *const gap[] = {&tensor, &left_out, &degrees};
  CHECK(text_of(*tracer.call_function(rotate, all)) == "tests::trace_rotate(%x, 2, degrees=True)");
  CHECK(text_of(*tracer.call_function(rotate, gap)) == "tests::trace_rotate(%x, degrees=True)");
}

// --- values of other traces ------------------------------------------------------------------------------------------

TEST_CASE("a value of one trace is refused in another, as an argument, inside lists, and as a result") {
  Graph first, second;
  Tracer here(first), there(second);
  const Proxy x = here.placeholder("x"), y = there.placeholder("y");
  const std::size_t before = first.size();
  const auto refused = [&](auto f) {
    const auto fault = fault_of<TraceError>(f);
    CAPTURE(fault.text);
    return fault.id == 304 && fault.says("another trace") && fault.says("node %y");
  };
  CHECK(refused([&] { (void)(x + y); }));
  CHECK(refused([&] { (void)x.add(y); }));
  CHECK(refused([&] { (void)functional::cat({x, y}); }));
  CHECK(refused([&] { (void)x.index({0, y}); }));
  CHECK(refused([&] { (void)to_argument(here, y); }));
  CHECK(refused([&] { (void)to_argument(here, std::make_tuple(x, y)); }));
  CHECK(refused([&] { (void)to_argument(here, std::vector{y}); }));
  CHECK(refused([&] { (void)symbolic_graph([&](auto) { return y; }); }));
  CHECK(first.size() == before);
}
