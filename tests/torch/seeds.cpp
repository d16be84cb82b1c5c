// Every example of a traced module in the documentation of torch.fx, as it is in C++: symbolically (path 1, a templated
// forward) and at the dispatcher (path 2, an ordinary one). Where C++ differs from Python, the test says what fxx does.
#include <iostream>
#include <sstream>

#include "fxx/rewrite/functions.hpp"
#include "fxx/torch/wrap.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

std::string tabular(const Graph& graph) {
  std::ostringstream out;
  graph.print_tabular(out);
  return out.str();
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// --- the overview --------------------------------------------------------------------------------------------------

/// "Simple module for demonstration", as path 1 wants it: the same words, over any tensor type.
struct MyModuleImpl : torch::nn::Module {
  torch::Tensor param = register_parameter("param", torch::rand({3, 4}));
  fxx::nn::Linear linear = register_module("linear", fxx::nn::Linear(4, 5));
  template <class T>
  T forward(T x) {
    return linear(x + param).clamp(0.0, 1.0);
  }
};
/// The same as any LibTorch user writes it.
struct MyPlainModuleImpl : torch::nn::Module {
  torch::Tensor param = register_parameter("param", torch::rand({3, 4}));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 5));
  torch::Tensor forward(torch::Tensor x) { return linear(x + param).clamp(0.0, 1.0); }
};

TEST_CASE("the first module of the overview: graph, code and result") {
  MyModuleImpl module;
  const auto symbolic_traced = symbolic_trace(module);
  CHECK(to_string(symbolic_traced->graph()) ==
        R"(graph():
    %x : torch::Tensor [num_users=1] = placeholder[target=x]
    %param : [num_users=1] = get_attr[target=param]
    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %param), kwargs = {})
    %linear : [num_users=1] = call_module[target=linear](args = (%add,), kwargs = {})
    %clamp : [num_users=1] = call_method[target=clamp](args = (%linear, 0.0, 1.0), kwargs = {})
    return clamp : torch::Tensor)");
  CHECK(symbolic_traced->code() ==
        R"(torch::Tensor forward(torch::Tensor x) {
  auto param = this->param;
  auto add = x + param;  x.reset(); param.reset();
  auto linear = this->linear(add);  add.reset();
  auto clamp = linear.clamp(0.0, 1.0);  linear.reset();
  return clamp;
}
)");
  check_traced(module, *symbolic_traced, {{torch::rand({3, 4})}, {torch::randn({3, 4})}, {torch::randn({2, 3, 4})}});

  MyPlainModuleImpl plain;
  const auto traced = trace(plain, {torch::rand({3, 4})});
  CHECK(to_string(traced->graph()) ==
        R"(graph():
    %x : torch::Tensor [num_users=1] = placeholder[target=x]
    %param : [num_users=1] = get_attr[target=param]
    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %param), kwargs = {})
    %linear : [num_users=1] = call_module[target=linear](args = (%add,), kwargs = {})
    %clamp : [num_users=1] = call_function[target=torch.ops.aten.clamp.default](args = (%linear, 0.0, 1.0), kwargs = {})
    return clamp)");
  check_traced(plain, *traced, {{torch::rand({3, 4})}, {torch::randn({3, 4})}, {torch::randn({2, 3, 4})}});
}

// --- a quick primer on graphs --------------------------------------------------------------------------------------

struct PrimerImpl : torch::nn::Module {
  torch::Tensor param = register_parameter("param", torch::rand({3, 4}));
  fxx::nn::Linear linear = register_module("linear", fxx::nn::Linear(4, 4));
  template <class T>
  std::tuple<T, T> forward(T x) {
    return topk(sum(linear(x + linear->weight).relu(), -1), 3);
  }
};
struct PlainPrimerImpl : torch::nn::Module {
  torch::Tensor param = register_parameter("param", torch::rand({3, 4}));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 4));
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
    return torch::topk(torch::sum(linear(x + linear->weight).relu(), -1), 3);
  }
};

TEST_CASE("the module of the primer as a table; its opcodes answer what inputs, operations and results are") {
  PrimerImpl module;
  const auto gm = symbolic_trace(module);
  CHECK(tabular(gm->graph()) ==
        R"(opcode         name           target                args                kwargs
-------------  -------------  --------------------  ------------------  ------
placeholder    x              x                     ()                  {}
get_attr       linear_weight  linear.weight         ()                  {}
call_function  add            aten.add.Tensor       (x, linear_weight)  {}
call_module    linear         linear                (add,)              {}
call_method    relu           relu                  (linear,)           {}
call_function  sum            aten.sum.dim_IntList  (relu, -1)          {}
call_function  topk           aten.topk.default     (sum, 3)            {}
output         output         output                (topk,)             {}
)");
  std::vector<Opcode> opcodes;
  for (const Node* node : gm->graph().nodes()) opcodes.push_back(node->opcode());
  using enum Opcode;
  CHECK((opcodes == std::vector{placeholder, get_attr, call_function, call_module, call_method, call_function,
                                call_function, output}));
  // `param` is registered but not used: the graph has no word of it, so the GraphModule does not take it.
  CHECK_FALSE(gm->named_parameters().contains("param"));
  check_traced(module, *gm, {{torch::randn({4, 4})}, {torch::randn({5, 4, 4})}});

  const auto x = torch::randn({4, 4});
  const auto [values, indices] = gm->call<std::tuple<at::Tensor, at::Tensor>>(x);
  const auto [expected_values, expected_indices] = module.forward(x);
  CHECK(same(values, expected_values));
  CHECK(same(indices, expected_indices));

  PlainPrimerImpl plain;
  const auto traced = trace(plain, {torch::randn({4, 4})});
  CHECK(tabular(traced->graph()) ==
        R"(opcode         name           target                args                kwargs
-------------  -------------  --------------------  ------------------  ------
placeholder    x              x                     ()                  {}
get_attr       linear_weight  linear.weight         ()                  {}
call_function  add            aten.add.Tensor       (x, linear_weight)  {}
call_module    linear         linear                (add,)              {}
call_function  relu           aten.relu.default     (linear,)           {}
call_function  sum            aten.sum.dim_IntList  (relu, [-1])        {}
call_function  topk           aten.topk.default     (sum, 3)            {}
output         output         output                (topk,)             {}
)");
  check_traced(plain, *traced, {{torch::randn({4, 4})}, {torch::randn({4, 4})}});
}

// --- direct graph manipulation -------------------------------------------------------------------------------------

struct AddImpl : torch::nn::Module {
  template <class T>
  T forward(T x, T y) {
    return add(x, y);
  }
};

TEST_CASE("replacing add by mul: a transform from a module to a module") {
  const auto transform = [](const torch::nn::Module& m, const Graph& traced) {
    Graph graph = traced;
    for (Node* node : graph.nodes())
      if (node->opcode() == Opcode::call_function && node->operation() && *node->operation() == ops::add_Tensor)
        node->set_op(CallFunction{&ops::mul_Tensor.info()});
    graph.lint();
    return std::make_shared<GraphModule>(m, std::move(graph));
  };
  AddImpl m;
  const auto x = torch::randn({3, 4}), y = torch::randn({3, 4});
  for (const auto& traced :
       {symbolic_trace(m), trace([](torch::Tensor a, torch::Tensor b) { return torch::add(a, b); }, {x, y})}) {
    const auto transformed = transform(m, traced->graph());
    CHECK(same((*transformed)(x, y), x * y));
    CHECK(same((*traced)(x, y), x + y));  // the one that it was made from is as it was
    CHECK(contains(transformed->code(), "arg0 * arg1"));
  }
}

TEST_CASE("editing the graph of a GraphModule in place: recompile is not needed, and does no harm") {
  AddImpl m;
  const auto gm = symbolic_trace(m);
  const auto x = torch::randn({3}), y = torch::randn({3});
  CHECK(same((*gm)(x, y), x + y));
  gm->graph().find_nodes(Opcode::call_function)[0]->set_op(CallFunction{&ops::sub_Tensor.info()});
  CHECK(same((*gm)(x, y), x - y));
  gm->recompile();
  CHECK(same((*gm)(x, y), x - y));
}

TEST_CASE("appending a relu behind every node that adds") {
  AddImpl m;
  const auto traced = symbolic_trace(m);
  Graph& graph = traced->graph();
  for (Node* node : graph.find_nodes(Opcode::call_function)) {
    const InsertPoint point = graph.inserting_after(node);
    Node* new_node = graph.call_function(ops::relu, {node});
    // All uses but that of the relu itself, which the guide's own code turns into a circle.
    node->replace_all_uses_with(new_node, [&](const Node* user) { return user != new_node; });
  }
  graph.lint();
  const auto x = torch::randn({3, 4}), y = torch::randn({3, 4});
  CHECK(same((*traced)(x, y), torch::relu(x + y)));
}

TEST_CASE("the guide's own code for that, to the letter, makes a node its own argument, and lint says so") {
  AddImpl m;
  const auto traced = symbolic_trace(m);
  Node* node = traced->graph().find_nodes(Opcode::call_function)[0];
  {
    const InsertPoint point = traced->graph().inserting_after(node);
    Node* new_node = traced->graph().call_function(ops::relu, {node});
    node->replace_all_uses_with(new_node);
  }
  CHECK(fault_of<GraphError>([&] { traced->recompile(); }).id == 104);
}

TEST_CASE("wrapping the output in an activation function") {
  const auto traced = trace([](torch::Tensor x) { return x * 2; }, {torch::rand({2})});
  Node* output = traced->graph().output_node();
  const InsertPoint point = traced->graph().inserting_before(output);
  output->update_arg(0, traced->graph().call_function(ops::tanh, {output->arg(0)}));
  const auto x = torch::randn({4});
  CHECK(same((*traced)(x), torch::tanh(x * 2)));
}

// --- subgraph rewriting --------------------------------------------------------------------------------------------

TEST_CASE("replace_pattern's basic use: pattern and replacement are one rule, checked by the compiler") {
  const auto m = [](auto x, auto w1, auto w2) {
    auto val1 = neg(w1);
    auto m1 = cat(std::vector{val1, w2}).sum();
    auto val2 = neg(w1);
    auto m2 = cat(std::vector{val2, w2}).sum();
    return x + max(m1) + max(m2);
  };
  const auto eager = [](torch::Tensor x, torch::Tensor w1, torch::Tensor w2) {
    return x + 2 * torch::max(torch::stack({w1, w2}));
  };
  const auto x = torch::randn({2, 3}), w1 = torch::randn({2, 3}), w2 = torch::randn({2, 3});
  using namespace fxx::pattern;
  constexpr auto rules =
      ruleset(rule<"cat to stack">(sum(cat(list(neg(fxx::pattern::x), y))) >> stack(list(fxx::pattern::x, y))));
  const auto by_trace =
      trace([&](torch::Tensor a, torch::Tensor b, torch::Tensor c) { return m(a, b, c); }, {x, w1, w2});
  const auto by_symbols = symbolic_trace(m);
  for (const auto& gm : {by_trace, by_symbols}) {
    CHECK(rules.apply(*gm)["cat to stack"] == 2);
    CHECK(count_of(gm->graph(), ops::stack) == 2);
    CHECK(count_of(gm->graph(), ops::cat) == 0);
    CHECK(count_of(gm->graph(), ops::neg) == 0);
    CHECK(relative_difference((*gm)(x, w1, w2), eager(x, w1, w2)) < 1e-6);
  }
}

// --- proxies and retracing -----------------------------------------------------------------------------------------

/// The guide's decompose(): every relu becomes (x > 0) * x, which is written as ordinary code over proxies.
Graph decompose(const Graph& graph) {
  const auto relu_decomposition = [](const Proxy& x) { return (x > 0) * x; };
  Graph new_graph;
  GraphAppendingTracer tracer(new_graph);
  std::map<const Node*, Node*> env;
  for (const Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (op && *op == ops::relu) env[node] = relu_decomposition(Proxy(tracer, env.at(node->arg(0).node()))).node();
    else env[node] = new_graph.node_copy(*node, [&](Node* input) { return env.at(input); });
  }
  new_graph.lint();
  return new_graph;
}

TEST_CASE("decomposing relu by running its rule on proxies") {
  MyPlainModuleImpl model;
  struct Net : torch::nn::Module {
    torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 5));
    torch::Tensor forward(torch::Tensor x) { return torch::relu(linear(torch::relu(x)) - 0.1) + x.sum(); }
  } net;
  const auto traced = trace(net, {torch::randn({3, 4})});
  GraphModule decomposed(*traced, decompose(traced->graph()));
  CHECK(count_of(decomposed.graph(), ops::relu) == 0);
  CHECK(count_of(decomposed.graph(), ops::gt_Scalar) == 2);
  check_traced(net, decomposed, {{torch::randn({3, 4})}, {torch::randn({7, 4})}}, 1e-6);
  // A method is decomposed as the function that it is.
  PrimerImpl primer;
  CHECK(count_of(decompose(symbolic_trace(primer)->graph()), ops::gt_Scalar) == 1);
}

TEST_CASE("inverting a chain of invertible functions") {
  const auto f = [](auto x) { return exp(tan(x)); };
  const auto gm = symbolic_trace(f);
  const std::map<std::string_view, const Operator*> inverse = {
      {"aten::sin", &ops::asin.info()}, {"aten::tan", &ops::atan.info()}, {"aten::exp", &ops::log.info()}};
  Graph inverted;
  Node* value = inverted.placeholder("y");
  for (const Node* node : gm->graph().nodes().reversed())
    if (const Operator* op = operator_of(*node)) value = inverted.call_function(*inverse.at(op->name), {value});
  inverted.output(value);
  GraphModule back(*gm, std::move(inverted));
  const auto x = torch::rand({10}, torch::kDouble);
  CHECK(difference(back((*gm)(x)), x) < 1e-12);
}

TEST_CASE("inlining one graph into another where it calls it") {
  Graph inner = symbolic_graph([](auto a, auto b) { return relu(a) * b; });
  const auto outer = symbolic_trace([](auto x) { return neg(x) + 1; });
  Node* minus = outer->graph().find_nodes(Opcode::call_function)[0];
  std::map<const Node*, Argument> values;
  const auto placeholders = inner.find_nodes(Opcode::placeholder);
  values[placeholders[0]] = minus;
  values[placeholders[1]] = minus->arg(0);
  const InsertPoint point = outer->graph().inserting_after(minus);
  std::vector<Node*> users = minus->users().snapshot();
  const Argument result = outer->graph().graph_copy(inner, values);
  for (Node* user : users) user->replace_input_with(minus, result.node());
  outer->graph().lint();
  const auto x = torch::randn({6});
  CHECK(same((*outer)(x), torch::relu(-x) * x + 1));
}

TEST_CASE("a graph is traced again: the same program, whichever way it was made") {
  MyModuleImpl module;
  const auto first = symbolic_trace(module);
  const auto second = trace(*first, {torch::rand({3, 4})});
  const auto third = trace(second, {torch::rand({3, 4})});
  CHECK(same_structure(second->graph(), third->graph()));
  CHECK(called_modules(second->graph()) == std::set<std::string>{"linear"});
  CHECK(second->class_name() == first->class_name());
  const auto x = torch::randn({3, 4});
  CHECK(same((*third)(x), module.forward(x)));
}

// --- the interpreter pattern ---------------------------------------------------------------------------------------

/// The guide's ShapeProp, as a class over Interpreter.
class MyShapeProp : public Interpreter {
 public:
  using Interpreter::Interpreter;
  std::map<std::string, std::pair<std::vector<std::int64_t>, at::ScalarType>> found;

 private:
  c10::IValue run_node(Node& node) override {
    c10::IValue result = Interpreter::run_node(node);
    if (result.isTensor())
      found[std::string(node.name())] = {result.toTensor().sizes().vec(), result.toTensor().scalar_type()};
    return result;
  }
};

TEST_CASE("shapes and dtypes of all values by interpreting, with one's own class and with the library's") {
  PrimerImpl module;
  const auto gm = symbolic_trace(module);
  const auto x = torch::randn({7, 4, 4});
  MyShapeProp mine(*gm);
  mine.run({x});
  CHECK(mine.found.at("x").first == std::vector<std::int64_t>{7, 4, 4});
  CHECK(mine.found.at("linear_weight").first == std::vector<std::int64_t>{4, 4});
  CHECK(mine.found.at("relu").first == std::vector<std::int64_t>{7, 4, 4});
  CHECK(mine.found.at("sum").first == std::vector<std::int64_t>{7, 4});
  CHECK_FALSE(mine.found.contains("topk"));  // a tuple

  ShapeProp(*gm).propagate({x.to(torch::kFloat32)});
  for (const Node* node : gm->graph().nodes()) {
    CAPTURE(format_node(*node));
    const auto known = mine.found.find(std::string(node->name()));
    REQUIRE((node->tensor_meta() != nullptr) == (known != mine.found.end()));
    if (!node->tensor_meta()) continue;
    CHECK(node->tensor_meta()->shape == known->second.first);
    CHECK((to_scalar_type(node->tensor_meta()->dtype) == known->second.second));
  }
}

/// The example in the documentation of Interpreter.
class NegSigmSwapInterpreter : public Interpreter {
 public:
  using Interpreter::Interpreter;
  c10::IValue call_function(const CallFunction& op, Values args, KeywordValues kwargs) override {
    const auto* target = std::get_if<const Operator*>(&op.target);
    if (target && **target == ops::sigmoid) return torch::neg(args[0].toTensor());
    return Interpreter::call_function(op, std::move(args), std::move(kwargs));
  }
  c10::IValue call_method(const CallMethod& op, Values args, KeywordValues kwargs) override {
    if (op.target == "neg") return args[0].toTensor().sigmoid();
    return Interpreter::call_method(op, std::move(args), std::move(kwargs));
  }
};
/// The example in the documentation of Transformer: the same exchange, as a new graph.
Graph neg_sigm_swapped(const Graph& graph) {
  Graph swapped;
  GraphAppendingTracer tracer(swapped);
  std::map<const Node*, Node*> env;
  for (const Node* node : graph.nodes()) {
    const auto input = [&] { return Proxy(tracer, env.at(node->arg(0).node())); };
    if (node->opcode() == Opcode::call_function && *node->operation() == ops::sigmoid) env[node] = neg(input()).node();
    else if (node->opcode() == Opcode::call_method && node->target() == "neg") env[node] = input().sigmoid().node();
    else env[node] = swapped.node_copy(*node, [&](Node* n) { return env.at(n); });
  }
  return swapped;
}

TEST_CASE("exchanging neg and sigmoid while interpreting, and by transforming") {
  const auto gm = symbolic_trace([](auto x) { return sigmoid(x).neg(); });
  const auto input = torch::randn({3, 4});
  CHECK(same((*gm)(input), -torch::sigmoid(input)));
  CHECK(same(NegSigmSwapInterpreter(*gm).run({input}).toTensor(), torch::neg(input).sigmoid()));
  GraphModule transformed(*gm, neg_sigm_swapped(gm->graph()));
  CHECK(same(transformed(input), torch::neg(input).sigmoid()));
}

// --- debugging: printing -------------------------------------------------------------------------------------------

TEST_CASE("printing the code of x + y, its graph and its table") {
  const auto traced = symbolic_trace([](auto x, auto y) { return x + y; }, {"x", "y"});
  CHECK(traced->code() ==
        "torch::Tensor forward(torch::Tensor x, torch::Tensor y) {\n  auto add = x + y;  x.reset(); y.reset();\n"
        "  return add;\n}\n");
  const std::string text = to_string(traced->graph());
  CHECK(contains(
      text, "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %y), kwargs = {})"));
  CHECK(contains(tabular(traced->graph()), "call_function  add     aten.add.Tensor  (x, y)  {}"));
  std::ostringstream out;
  out << traced->graph();
  CHECK(out.str() == text);
}

struct HoldsX : torch::nn::Module {
  torch::Tensor x = register_buffer("x", torch::randn({3}));
  torch::Tensor forward(torch::Tensor y) { return x + y; }
};

TEST_CASE("printing a module that reads an attribute: `x = self.x`") {
  HoldsX m;
  const auto traced = trace(m, {torch::randn({3})}, {.input_names = {"y"}});
  CHECK(traced->code() ==
        "torch::Tensor forward(torch::Tensor y) {\n  auto x = this->x;\n  auto add = x + y;  x.reset(); y.reset();\n"
        "  return add;\n}\n");
  std::ostringstream out;
  out << *traced;
  CHECK(contains(out.str(), "HoldsX"));
}

// --- limitations: control flow -------------------------------------------------------------------------------------

torch::Tensor func_to_trace(torch::Tensor x) {
  if ((x.sum() > 0).item<bool>()) return torch::relu(x);
  return torch::neg(x);
}

TEST_CASE("dynamic control flow is refused, naming the value and the function that branches on it") {
  Fault fault = fault_of<TraceError>([] {
    symbolic_trace([](auto x) {
      if (x.sum() > 0) return relu(x);
      return neg(x);
    });
  });
  CHECK(fault.id == 301);
  CHECK(fault.says("symbolically traced variables cannot be used as inputs to control flow"));
  CHECK(contains(fault.node, "%gt"));
  fault = fault_of<TraceError>([] { trace(func_to_trace, {torch::rand({3})}); });
  CHECK(fault.id == 301);
  CHECK(contains(fault.node, "%gt"));
  CHECK(fault.says("func_to_trace"));
}

TEST_CASE("a branch on a size: refused where sizes are symbolic, decided where they are numbers") {
  const Fault fault = fault_of<TraceError>([] {
    symbolic_trace([](auto x) {
      const std::int64_t dim0 = x.size(0);
      if (dim0 == 3) return relu(x);
      return neg(x);
    });
  });
  CHECK(fault.id == 301);
  CHECK(contains(fault.node, "size"));
  const auto by_size = [](torch::Tensor x) { return x.size(0) == 3 ? torch::relu(x) : torch::neg(x); };
  const auto x = torch::randn({3}), y = torch::randn({4});
  CHECK(same((*trace(by_size, {x}))(x), torch::relu(x)));
  CHECK(same((*trace(by_size, {y}))(y), torch::neg(y)));
}

struct WithActivationImpl : torch::nn::Module {
  bool do_activation;
  fxx::nn::Linear linear = register_module("linear", fxx::nn::Linear(512, 512));
  explicit WithActivationImpl(bool activate) : do_activation(activate) {}
  template <class T>
  T forward(T x) {
    x = linear(x);
    // This if-statement is static: its condition does not depend on any input.
    if (do_activation) x = relu(x);
    return x;
  }
};

TEST_CASE("static control flow: two instances, two graphs") {
  WithActivationImpl without_activation(false), with_activation(true);
  CHECK(
      symbolic_trace(without_activation)->code() ==
      "torch::Tensor forward(torch::Tensor x) {\n  auto linear = this->linear(x);  x.reset();\n  return linear;\n}\n");
  CHECK(symbolic_trace(with_activation)->code() ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto linear = this->linear(x);  x.reset();\n"
        "  auto relu = torch::relu(linear);  linear.reset();\n  return relu;\n}\n");
  for (auto* module : {&without_activation, &with_activation}) {
    check_traced(*module, *symbolic_trace(*module), {{torch::randn({2, 512})}});
    const auto plain = trace([&](torch::Tensor x) { return module->forward(x); }, {torch::randn({2, 512})});
    CHECK(count_of(plain->graph(), ops::relu) == (module->do_activation ? 1 : 0));
  }
}

TEST_CASE("a flag among the arguments is bound by a lambda (torch.fx: concrete_args)") {
  const auto f = [](auto x, bool flag) {
    if (flag) return x * 1;
    return x * 2;
  };
  const auto x = torch::randn({3});
  for (const bool flag : {true, false}) {
    const auto by_symbols = symbolic_trace([&](auto t) { return f(t, flag); });
    const auto by_trace = trace([&](torch::Tensor t) { return f(t, flag); }, {x});
    CHECK(same((*by_symbols)(x), flag ? x : x * 2));
    CHECK(same((*by_trace)(x), flag ? x : x * 2));
  }
}

// --- functions that are none of torch's ----------------------------------------------------------------------------

inline const auto len = fxx::wrap<"example::len">([](const torch::Tensor& x) { return x.size(0); }, "\"example.hpp\"");

TEST_CASE("len and sqrt: a wrapped function and a function of numbers are recorded as calls") {
  const auto normalize = [](const auto& x) { return x / sqrt(len(x)); };
  const auto traced = symbolic_trace([&](Proxy x) { return normalize(x); });
  CHECK(traced->code() ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto len = ::example::len(x);\n  auto sqrt = std::sqrt(len);\n"
        "  auto div = x / sqrt;  x.reset();\n  return div;\n}\n");
  for (const std::int64_t size : {1, 3, 16}) {
    const auto x = torch::rand({size, 4});
    CHECK(same((*traced)(x), x / std::sqrt(static_cast<double>(size))));
  }
  // Called with a tensor, a wrapped function is the function itself.
  CHECK(len(torch::rand({5, 2})) == 5);
  // Without a wrapper there is len() of the tensor itself, which stays symbolic too.
  const auto by_size = symbolic_trace([](Proxy x) { return x / sqrt(x.size(0)); });
  CHECK(same((*by_size)(torch::ones({4, 2})), torch::full({4, 2}, 0.5)));
}

inline const auto torch_randn = fxx::wrap<"example::torch_randn">(
    [](const torch::Tensor& x, std::int64_t n) { return torch::randn({n}, x.options()); });

TEST_CASE("tensor constructors: fixed when a proxy never reaches them, recorded at the dispatcher") {
  const auto x = torch::randn({3, 4});
  // The guide's module for a custom tracer.
  const auto with_ones = [](auto t) { return relu(t) + torch::ones({3, 4}); };
  const auto fixed = symbolic_trace(with_ones);
  CHECK(same(fixed->attribute("_tensor_constant0"), torch::ones({3, 4})));
  CHECK(same((*fixed)(x), torch::relu(x) + 1));
  const auto recorded = trace([&](torch::Tensor t) { return with_ones(t); }, {x});
  CHECK(count_of(recorded->graph(), ops::ones) == 1);
  CHECK(recorded->buffers().empty());
  CHECK(same((*recorded)(x), torch::relu(x) + 1));

  // One random value for all calls, or one for each.
  const auto with_noise = [](auto t) { return t + torch::rand({3, 4}); };
  const auto frozen = symbolic_trace(with_noise);
  CHECK(same((*frozen)(x), (*frozen)(x)));
  const auto drawn = trace([&](torch::Tensor t) { return with_noise(t); }, {x});
  CHECK_FALSE(same((*drawn)(x), (*drawn)(x)));
  torch::manual_seed(7);
  const auto expected = with_noise(x);
  torch::manual_seed(7);
  CHECK(same((*drawn)(x), expected));

  // The workaround: a wrapped function.
  const auto wrapped = symbolic_trace([](Proxy t) { return t + torch_randn(t, 4); });
  CHECK_FALSE(same((*wrapped)(x), (*wrapped)(x)));
  // Sizes of the input need nothing of the kind.
  const auto like = symbolic_trace([](auto t) { return t + ones_like(t); });
  CHECK(same((*like)(torch::ones({5})), torch::full({5}, 2.0)));
}

// --- customising tracing -------------------------------------------------------------------------------------------

struct MySpecialSubmoduleImpl : torch::nn::Module {
  template <class T>
  T forward(T x) {
    return neg(x);
  }
  at::Tensor forward(at::Tensor x) { return torch::neg(x); }
};
TORCH_MODULE(MySpecialSubmodule);
struct HasSubmoduleImpl : torch::nn::Module {
  fxx::nn::Linear linear = register_module("linear", fxx::nn::Linear(3, 4));
  fxx::nn::leaf<MySpecialSubmodule> submod = register_module("submod", fxx::nn::leaf<MySpecialSubmodule>());
  template <class T>
  T forward(T x) {
    return submod(linear(x));
  }
};

/// Keeps modules of one's own as calls, notes what it is asked, and tags the nodes.
class MyCustomTracer : public ModuleTracer {
 public:
  using ModuleTracer::ModuleTracer;
  bool is_leaf_module(const torch::nn::Module& module, const std::string& name) override {
    return name == "submod" || ModuleTracer::is_leaf_module(module, name);
  }
  Node* create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                    std::source_location where) override {
    Node* node = ModuleTracer::create_node(std::move(op), args, kwargs, name, where);
    node->meta().custom.emplace_back("tag", std::string("mine"));
    return node;
  }
};

TEST_CASE("leaf modules: those of torch::nn by default, others by one's own tracer") {
  HasSubmoduleImpl module;
  const auto traced = symbolic_trace(module);
  CHECK(traced->code() ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto linear = this->linear(x);  x.reset();\n"
        "  auto neg = -linear;  linear.reset();\n  return neg;\n}\n");
  const auto x = torch::randn({2, 3});
  CHECK(same((*traced)(x), -module.linear(x)));

  const auto custom = symbolic_trace_with<MyCustomTracer>(module);
  CHECK(called_modules(custom->graph()) == std::set<std::string>{"linear", "submod"});
  for (const Node* node : custom->graph().nodes()) {
    CAPTURE(format_node(*node));
    REQUIRE(node->meta().custom.size() == 1);
    CHECK(std::any_cast<std::string>(node->meta().custom[0].second) == "mine");
  }
  // Its forward is an overload set, so what calls it is registered by hand.
  fxx::detail::register_leaf_call(typeid(MySpecialSubmoduleImpl), [](torch::nn::Module& m, Values args) -> c10::IValue {
    return dynamic_cast<MySpecialSubmoduleImpl&>(m).forward(args.at(0).toTensor());
  });
  CHECK(same((*custom)(x), -module.linear(x)));
}

// --- the training flag ---------------------------------------------------------------------------------------------

struct DropoutReproImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    return torch::nn::functional::dropout(x, torch::nn::functional::DropoutFuncOptions().training(is_training()));
  }
};
struct DropoutRepro2Impl : torch::nn::Module {
  fxx::nn::Dropout drop = register_module("drop", fxx::nn::Dropout());
  template <class T>
  T forward(T x) {
    return drop(x);
  }
};

TEST_CASE("dropout follows train() and eval(), written as a function that is given the flag, or as a module") {
  // Where torch.fx bakes the flag of the function, tracing at the dispatcher finds out whose it is.
  DropoutReproImpl repro;
  const auto followed = trace(repro, {torch::randn({5, 3})});
  const auto x = torch::randn({5, 3});
  CHECK_FALSE(same((*followed)(x), x));
  followed->eval();
  CHECK(same((*followed)(x), x));
  const auto baked = trace(repro, {x}, {.training_flags = false});
  CHECK(contains(baked->code(), "torch::dropout(x, 0.5, true)"));
  baked->eval();
  CHECK_FALSE(same((*baked)(x), x));

  DropoutRepro2Impl repro2;
  const auto traced = symbolic_trace(repro2);
  CHECK(traced->code() ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto drop = this->drop(x);  x.reset();\n  return drop;\n}\n");
  CHECK_FALSE(same((*traced)(x), x));
  traced->eval();
  CHECK(same((*traced)(x), x));
  traced->train();
  CHECK_FALSE(same((*traced)(x), x));
}

}  // namespace
