// Graphs that are made pure: what takes the place of writes, what is read after them, what is left and why. That
// results are the same is tested with LibTorch, in torch/functionalise.cpp.
#include "fxx/passes/functionalise.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "graph_text.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;
using test::body_of;

namespace {
/// A traced function once it is functional. Nothing is left.
template <class F>
std::string functional_text(F f) {
  Graph g = symbolic_graph(f);
  const FunctionaliseReport report = functionalise(g);
  g.lint();
  CHECK(report.left.empty());
  const std::string once = body_of(g);
  CHECK(functionalise(g).changed == 0);
  CHECK(body_of(g) == once);
  return once;
}
/// Why the only write of a function is left; the graph stays as it was.
template <class F>
std::string left(F f) {
  Graph g = symbolic_graph(f);
  const std::string before = body_of(g);
  const FunctionaliseReport report = functionalise(g);
  g.lint();
  CHECK(body_of(g) == before);
  CHECK(report.changed == 0);
  REQUIRE(report.left.size() == 1);
  return report.left[0].reason;
}
TensorMeta meta(std::vector<std::int64_t> shape, Dtype dtype = Dtype::float32) {
  TensorMeta m{.shape = shape, .stride = std::vector<std::int64_t>(shape.size()), .dtype = dtype};
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0; next *= shape[i]) m.stride[i] = next;
  return m;
}
Node* with(Node* node, const TensorMeta& m) {
  node->set_tensor_meta(m);
  return node;
}
}  // namespace

// --- writes to a whole tensor ----------------------------------------------------------------------------------------

TEST_CASE("an operator in place becomes its twin, and later readers read what it gives") {
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          y.relu_();
          return y * 2;
        }) ==
        "add = aten::add.Scalar(%x, 1)\nrelu = aten::relu(%add)\nmul = aten::mul.Scalar(%relu, 2)\nreturn %mul\n");
  CHECK(functional_text([](auto x) { return (x + 1).clamp_(0, 1).mul_(2); }) ==
        "add = aten::add.Scalar(%x, 1)\nclamp = aten::clamp(%add, 0, 1)\nmul = aten::mul.Scalar(%clamp, 2)\n"
        "return %mul\n");
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          y.zero_();
          return y;
        }) == "add = aten::add.Scalar(%x, 1)\nzeros_like = aten::zeros_like(%add)\nreturn %zeros_like\n");
}

TEST_CASE("an input gets its new value at the end, once, and is returned as itself") {
  CHECK(functional_text([](auto x) {
          x.relu_();
          x.mul_(2);
          return x;
        }) == "relu = aten::relu(%x)\nmul = aten::mul.Scalar(%relu, 2)\ncopy_ = aten::copy_(%x, %mul)\nreturn %x\n");
  CHECK(functional_text([](auto x) {
          auto v = x.view({-1});
          x.add_(1);
          return v;
        }) ==
        "add = aten::add.Scalar(%x, 1)\ncopy_ = aten::copy_(%x, %add)\nview_1 = aten::view(%x, [-1])\n"
        "return %view_1\n");
}

TEST_CASE("attributes of one name are one tensor") {
  Graph g;
  Node* x = g.placeholder("x");
  g.call_function(ops::add__Scalar, {g.get_attr("steps"), 1});
  Node* sum = g.call_function(ops::add_Tensor, {x, g.get_attr("steps")});
  g.output(sum);
  const FunctionaliseReport report = functionalise(g);
  g.lint();
  CHECK(report.changed == 1);
  CHECK(report.copied_back == 1);
  CHECK(body_of(g) ==
        "steps = attribute steps\nadd_1 = aten::add.Scalar(%steps, 1)\nadd = aten::add.Tensor(%x, %add_1)\n"
        "copy_ = aten::copy_(%steps, %add_1)\nreturn %add\n");
}

TEST_CASE("values that change places are kept apart from the copies that they are written back by") {
  Graph g = symbolic_graph([](auto x, auto y) {
    auto t = functional::empty_like(x);
    t.copy_(x);
    x.copy_(y);
    y.copy_(t);
    return x;
  });
  for (Node* node : g.nodes())
    if (node->opcode() != Opcode::output) node->set_tensor_meta(meta({2, 3}));
  CHECK(functionalise(g).left.empty());
  g.lint();
  CHECK(body_of(g) ==
        "clone = aten::clone(%arg1, memory_format=torch.contiguous_format)\nclone_1 = aten::clone(%arg0)\n"
        "copy__3 = aten::copy_(%arg0, %clone)\ncopy__4 = aten::copy_(%arg1, %clone_1)\nreturn %arg0\n");
}

TEST_CASE("what is written keeps its dtype and its sizes") {
  Graph g;
  Node *x = with(g.placeholder("x"), meta({2, 3})), *y = with(g.placeholder("y"), meta({3}, Dtype::float64));
  Node* z = with(g.call_function(ops::add_Scalar, {x, 1}), meta({2, 3}));
  with(g.call_function(ops::mul__Tensor, {z, y}), meta({2, 3}));
  with(g.call_function(ops::eq__Scalar, {z, 0}), meta({2, 3}));
  with(g.call_function(ops::add__Tensor, {z, x}), meta({2, 3}));
  with(g.call_function(ops::copy_, {z, y}), meta({2, 3}));
  g.output(z);
  CHECK(functionalise(g).changed == 4);
  g.lint();
  CHECK(body_of(g) ==
        "to_2 = aten::to.dtype(%y, torch.float32)\nexpand = aten::expand(%to_2, [2, 3])\n"
        "clone = aten::clone(%expand, memory_format=torch.contiguous_format)\nreturn %clone\n");
  CHECK(g.output_node()->arg(0).node()->tensor_meta()->shape == std::vector<std::int64_t>{2, 3});

  Graph h;
  Node *a = with(h.placeholder("a"), meta({2, 3})), *b = with(h.placeholder("b"), meta({3}, Dtype::float64));
  Node* c = with(h.call_function(ops::add_Scalar, {a, 1}), meta({2, 3}));
  Node* written = with(h.call_function(ops::mul__Tensor, {c, b}), meta({2, 3}));
  h.output(h.call_function(ops::add__Tensor, {written, a}));
  functionalise(h);
  CHECK(body_of(h) ==
        "add = aten::add.Scalar(%a, 1)\nmul = aten::mul.Tensor(%add, %b)\n"
        "to = aten::to.dtype(%mul, torch.float32)\nadd_1 = aten::add.Tensor(%to, %a)\nreturn %add_1\n");
  for (const Node* node : h.nodes()) {
    if (node->opcode() == Opcode::output) continue;
    REQUIRE(node->tensor_meta());
    CHECK(node->tensor_meta()->dtype ==
          (node->name() == "mul" || node->name() == "b" ? Dtype::float64 : Dtype::float32));
  }
}

TEST_CASE("what is written to `out` is what the operator gives") {
  const Operator& into =
      register_operator("aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)");
  Graph g;
  Node* x = with(g.placeholder("x"), meta({2, 3}));
  Node* out = with(g.call_function(ops::empty_like, {x}), meta({2, 3}));
  Node* view = with(g.call_function(ops::view, {out, Argument::list({6})}), meta({6}));
  with(g.call_function(into, {x, x}, {{"alpha", 2}, {"out", out}}), meta({2, 3}));
  g.output(view);
  CHECK(functionalise(g).left.empty());
  g.lint();
  CHECK(body_of(g) ==
        "add_1 = aten::add.Tensor(%x, %x, alpha=2)\nto = aten::to.dtype(%add_1, torch.float32)\n"
        "reshape = aten::reshape(%to, [6])\nreturn %reshape\n");
}

TEST_CASE("several `out`s that are empty get the sizes of what is taken from them") {
  const Operator& into = register_operator(
      "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> "
      "(Tensor(a!) values, Tensor(b!) indices)");
  Graph g;
  Node* x = with(g.placeholder("x"), meta({2, 3}));
  Node* values = with(g.call_function(ops::empty_like, {x}), meta({0}));
  Node* places = with(g.call_function(ops::empty_like, {x}), meta({0}, Dtype::int64));
  Node* both = g.call_function(into, {x, 1}, {{"max", values}, {"max_values", places}});
  Node* first = with(g.call_function(ops::operator_getitem, {both, 0}), meta({2}));
  Node* second = with(g.call_function(ops::operator_getitem, {both, 1}), meta({2}, Dtype::int64));
  g.output(Argument::tuple({first, second}));
  CHECK(functionalise(g).left.empty());
  g.lint();
  for (const Argument& result : g.output_node()->arg(0).items()) {
    REQUIRE(result.node()->tensor_meta());
    CHECK(result.node()->tensor_meta()->shape == std::vector<std::int64_t>{2});
  }
}

// --- views -----------------------------------------------------------------------------------------------------------

TEST_CASE("a write to a part is scattered into the whole") {
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          y[0] = 1;
          return y;
        }) ==
        "add = aten::add.Scalar(%x, 1)\ngetitem = operator::getitem(%add, 0)\n"
        "fill = aten::fill.Scalar(%getitem, 1)\nselect_scatter = aten::select_scatter(%add, %fill, 0, 0)\n"
        "return %select_scatter\n");
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          y.diagonal().mul_(2);
          return y;
        }).find("aten::diagonal_scatter(%add, %mul, 0, 0, 1)") != std::string::npos);
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          y.narrow(1, 2, 3).relu_();
          return y;
        }).find("aten::slice_scatter(%add, %relu, 1, 2, 5, 1)") != std::string::npos);
}

TEST_CASE("views that are read after a write are made again, through views of views") {
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          auto v = y.view({-1});
          y.mul_(2);
          return v;
        }) ==
        "add = aten::add.Scalar(%x, 1)\nmul = aten::mul.Scalar(%add, 2)\nreshape = aten::reshape(%mul, [-1])\n"
        "return %reshape\n");
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          auto parts = y.split(2, 0);
          parts[1].transpose(0, 1).relu_();
          return parts[0] + y;
        }) ==
        "add = aten::add.Scalar(%x, 1)\nsplit = .split(%add, 2, 0)\ngetitem = operator::getitem(%split, 1)\n"
        "transpose = .transpose(%getitem, 0, 1)\nrelu = aten::relu(%transpose)\n"
        "transpose_1 = aten::transpose.int(%relu, 0, 1)\n"
        "slice_scatter = aten::slice_scatter(%add, %transpose_1, 0, 2, 4, 1)\n"
        "split_1 = aten::split.Tensor(%slice_scatter, 2, 0)\ngetitem_1 = operator::getitem(%split_1, 0)\n"
        "add_1 = aten::add.Tensor(%getitem_1, %slice_scatter)\nreturn %add_1\n");
}

TEST_CASE("operators that change what a tensor is are views from there on") {
  CHECK(functional_text([](auto x) {
          auto y = x + 1;
          y.unsqueeze_(0);
          return y.mul_(2);
        }) ==
        "add = aten::add.Scalar(%x, 1)\nunsqueeze = aten::unsqueeze(%add, 0)\n"
        "mul = aten::mul.Scalar(%unsqueeze, 2)\nreturn %mul\n");
}

TEST_CASE("what may be a copy or a view matters only where somebody could tell") {
  CHECK(functional_text([](auto x) { return (x + 1).reshape({-1}).mul_(2); }) ==
        "add = aten::add.Scalar(%x, 1)\nreshape = .reshape(%add, [-1])\nmul = aten::mul.Scalar(%reshape, 2)\n"
        "return %mul\n");
  CHECK(left([](auto x) {
          auto y = x + 1;
          y.reshape({-1}).mul_(2);
          return y;
        }) == "whether %reshape is a copy or the same memory is not known");
  Graph g;  // strides tell
  Node* x = with(g.placeholder("x"), meta({2, 3}));
  Node* y = with(g.call_function(ops::add_Scalar, {x, 1}), meta({2, 3}));
  Node* flat = with(g.call_function(ops::reshape, {y, Argument::list({6})}), meta({6}));
  with(g.call_function(ops::mul__Scalar, {flat, 2}), meta({6}));
  g.output(y);
  CHECK(functionalise(g).left.empty());
  CHECK(body_of(g) ==
        "add = aten::add.Scalar(%x, 1)\nreshape = aten::reshape(%add, [6])\n"
        "mul = aten::mul.Scalar(%reshape, 2)\nreshape_1 = aten::reshape(%mul, [2, 3])\n"
        "return %reshape_1\n");
}

TEST_CASE("one number is flattened as a view") {
  Graph g;
  Node* x = with(g.placeholder("x"), meta({2}));
  Node* y = with(g.call_function(ops::add_Scalar, {x, 1}), meta({2}));
  Node* one = with(g.call_function(ops::select_int, {y, 0, 1}), meta({}));
  Node* flat = with(g.call_function(ops::flatten_using_ints, {one}), meta({1}));
  with(g.call_function(ops::mul__Scalar, {y, 2}), meta({2}));
  g.output(flat);
  CHECK(functionalise(g).left.empty());
  CHECK(body_of(g) ==
        "add = aten::add.Scalar(%x, 1)\nmul = aten::mul.Scalar(%add, 2)\n"
        "select_1 = aten::select.int(%mul, 0, 1)\nreshape = aten::reshape(%select_1, [1])\n"
        "return %reshape\n");
}

// --- what is left ----------------------------------------------------------------------------------------------------

TEST_CASE("memory that is written in a way without a pure form stays, with all that shares it") {
  CHECK(left([](auto x) {
          auto y = x + 1;
          y.unfold(0, 2, 1).mul_(2);
          return y;
        }) == "%mul_ writes through %unfold, which has no inverse");
  CHECK(left([](auto x) { return (x + 1).set_(x); }) == "it gives the tensor other memory");
  Graph g = symbolic_graph([](auto x) {
    auto y = x + 1, z = x + 2;
    y.unfold(0, 2, 1).mul_(2);
    y.relu_();
    z.relu_();
    return y + z;
  });
  const FunctionaliseReport report = functionalise(g);
  CHECK(report.changed == 1);
  CHECK(report.left.size() == 2);
}

TEST_CASE("a view by numbers that the tensor has no place for has no inverse") {
  const auto reason = [](auto view) {
    Graph g;
    Node* x = with(g.placeholder("x"), meta({4, 3}));
    Node* y = with(g.call_function(ops::add_Scalar, {x, 1}), meta({4, 3}));
    g.call_function(ops::mul__Scalar, {view(g, y), 2});
    g.output(y);
    const FunctionaliseReport report = functionalise(g);
    CHECK(report.changed + report.left.size() == 1);
    return report.left.empty() ? std::string() : report.left[0].reason;
  };
  for (const Argument& dims : {Argument::list({7, 0}), Argument::list({0, 0}), Argument::list({-3, 0}),
                               Argument::list({0, -2}), Argument::list({0, INT64_MIN}), Argument::list({0, 2.0})}) {
    CAPTURE(to_string(dims));
    CHECK(reason([&](Graph& g, Node* y) { return g.call_function(ops::permute, {y, dims}); }) ==
          "%mul_ writes through %permute, which has no inverse");
  }
  CHECK(reason([](Graph& g, Node* y) { return g.call_function(ops::permute, {y, Argument::list({-1, 0})}); }).empty());
  CHECK(reason([](Graph& g, Node* y) {
          return g.call_function(*find_operator("operator::getitem"),
                                 {y, Argument::tuple({0, 0, 0, 0, 0, Ellipsis{}, {}})});
        }) == "%mul_ writes through %getitem, which has no inverse");
}

TEST_CASE("one of very many parts is found without counting them") {
  Graph g;
  Node* x = with(g.placeholder("x"), meta({5}));
  Node* y = with(g.call_function(ops::add_Scalar, {x, 1}), meta({5}));
  const Argument sections = std::int64_t{1} << 60;
  Node* parts = g.call_function(*find_operator("aten::tensor_split.sections"), {y, sections});
  Node* part = g.call_function(*find_operator("operator::getitem"), {parts, 4});
  g.call_function(ops::mul__Scalar, {part, 2});
  g.output(y);
  CHECK(functionalise(g).left.empty());
  CHECK(body_of(g).ends_with("slice_scatter = aten::slice_scatter(%add, %mul, 0, 4, 5, 1)\nreturn %slice_scatter\n"));
}

TEST_CASE("random numbers that are drawn in place keep their place; what is done with them is pure") {
  Graph g = symbolic_graph([](auto x) {
    auto n = functional::empty_like(x).normal_(0, 1);
    return n.mul_(2);
  });
  const FunctionaliseReport report = functionalise(g);
  REQUIRE(report.left.size() == 1);
  CHECK(report.left[0].reason == "it draws random numbers in place");
  CHECK(body_of(g) ==
        "empty_like = aten::empty_like(%x)\nnormal_ = .normal_(%empty_like, 0, 1)\n"
        "mul = aten::mul.Scalar(%normal_, 2)\nreturn %mul\n");
}

TEST_CASE("what trains, and what is not known, is a barrier") {
  Graph g;
  Node *x = g.placeholder("x"), *mean = g.get_attr("mean"), *var = g.get_attr("var");
  g.call_function(ops::mul__Scalar, {mean, 0.5});
  Node* norm = g.call_function(ops::batch_norm, {x, {}, {}, mean, var, true, 0.1, 1e-5, false});
  g.output(norm);
  FunctionaliseReport report = functionalise(g);
  CHECK(report.changed == 0);
  REQUIRE(report.left.size() == 2);
  CHECK(report.left[0].reason == "%batch_norm updates it as running statistics");
  CHECK(report.left[1].reason == "it updates running statistics");

  Graph h;
  Node* y = h.call_function(ops::add_Scalar, {h.placeholder("x"), 1});
  h.call_function(ops::relu_, {y});
  h.call_function(register_function("tests::functionalise::effect", {}, true), {y});
  h.output(y);
  report = functionalise(h);
  CHECK(report.changed == 0);
  CHECK(report.left.size() == 2);
}

TEST_CASE("an attribute that a module may read is written where it was") {
  const auto writes_left = [](const char* attribute) {
    Graph g;
    test::ListedOwner owner;
    g.set_owning_module(&owner);
    Node* x = g.placeholder("x");
    g.call_function(ops::add__Scalar, {g.get_attr(attribute), 1});
    g.output(g.call_module("block", {x}));
    for (const char* name : {"block.bias", "other.bias"})
      owner.add({.name = name, .kind = AttributeInfo::Kind::buffer, .meta = {}});
    owner.add(ModuleInfo{.name = "block", .type = {}, .construct = {}});
    return functionalise(g).left.size();
  };
  CHECK(writes_left("block.bias") == 1);
  CHECK(writes_left("other.bias") == 0);
}

TEST_CASE("an operator of the user's that writes has a twin when there is one of its name") {
  register_operator("functionalise_tests::scale(Tensor self, float by) -> Tensor");
  const Operator& in_place = register_operator("functionalise_tests::scale_(Tensor(a!) self, float by) -> Tensor(a!)");
  const Operator& alone = register_operator("functionalise_tests::spin_(Tensor(a!) self) -> Tensor(a!)");
  Graph g;
  Node* x = g.placeholder("x");
  Node *y = g.call_function(ops::add_Scalar, {x, 1}), *z = g.call_function(ops::add_Scalar, {x, 2});
  g.call_function(in_place, {y, 2.0});
  g.call_function(alone, {z});
  g.output(g.call_function(ops::add_Tensor, {y, z}));
  const FunctionaliseReport report = functionalise(g);
  CHECK(report.changed == 1);
  REQUIRE(report.left.size() == 1);
  CHECK(report.left[0].reason == "there is no operator that gives what it writes");
}

// --- what nodes carry ------------------------------------------------------------------------------------------------

TEST_CASE("names that say something, places and notes go on") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* y = g.call_function(ops::add_Scalar, {x, 1});
  Node* written = g.create_node(CallFunction{&ops::relu_.info()}, {y}, {}, "hidden");
  written->meta().stack_trace = "model.cpp:3";
  written->set_module_stack(ModuleStack({}, {.name = "block"}));
  g.output(y);
  functionalise(g);
  const Node* relu = g.output_node()->arg(0).node();
  CHECK(relu->calls(ops::relu));
  CHECK(relu->name() == "hidden");
  CHECK(relu->meta().stack_trace == "model.cpp:3");
  CHECK(relu->module_stack().text() == "block");
}

TEST_CASE("graphs that are wrong are refused as they are; those that write nothing stay") {
  Graph g = symbolic_graph([](auto x) { return x.relu().view({-1}); });
  const std::string before = body_of(g);
  CHECK(functionalise(g).changed == 0);
  CHECK(body_of(g) == before);
  Graph h;
  Node* x = h.placeholder("x");
  Node* y = h.call_function(ops::relu_, {h.call_function(ops::neg, {x})});
  h.output(y);
  x->prepend(y);
  CHECK(test::fault_of<GraphError>([&] { functionalise(h); }).id == 104);
}
