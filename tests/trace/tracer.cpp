// Tracer: the hooks through which everything is recorded, appending to graphs, functions of the user's.
#include "fxx/trace/tracer.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
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
  CHECK_FALSE(4 <= x.size(0));
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
