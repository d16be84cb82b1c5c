// Readable forward functions: what each kind of node and value is written as.
#include "fxx/codegen/readable.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "listed_owner.hpp"

using namespace fxx;

namespace {

const test::ListedOwner nobody;

template <class F>
std::string code(F f, const CodeOptions& options = {.release_values = false}) {
  std::vector<std::string> names = {"x", "y", "z"};
  names.resize(static_cast<std::size_t>(detail::proxy_arity<F>()));
  return forward_code(symbolic_graph(f, names), nobody, options);
}
/// The expression that the only call of a traced function is written as.
template <class F>
std::string expression(F f) {
  const std::string text = code(f), start = "  auto ";
  const std::size_t at = text.rfind(" = ", text.rfind(";\n  return"));
  return text.substr(at + 3, text.rfind(";\n  return") - at - 3);
}
/// The same in one line: everything that is used once stands where it is used.
template <class F>
std::string nested(F f) {
  const std::string text = code(f, {.release_values = false, .nest_expressions = true});
  const std::size_t at = text.find("  return ");
  return text.substr(at + 9, text.rfind(";\n}") - at - 9);
}
/// How a value is returned.
std::string returned(Argument value) {
  Graph g;
  g.output(std::move(value));
  const std::string text = forward_code(g, nobody);
  const std::size_t at = text.find("return ");
  return text.substr(0, text.find(' ')) + "|" + text.substr(at + 7, text.rfind(";\n}") - at - 7);
}
}  // namespace

// --- whole functions ------------------------------------------------------------------------------------------------

TEST_CASE("one statement a node; values are given up after their last use") {
  CHECK(code([](auto x, auto y) { return relu(x.matmul(y)) + x; }, {}) ==
        "torch::Tensor forward(torch::Tensor x, torch::Tensor y) {\n"
        "  auto matmul = x.matmul(y);  y.reset();\n"
        "  auto relu = torch::relu(matmul);  matmul.reset();\n"
        "  auto add = relu + x;  relu.reset(); x.reset();\n"
        "  return add;\n"
        "}\n");
}

TEST_CASE("modules, their attributes and attributes of the graph's own") {
  test::ListedOwner owner({"scale", "block.fc.weight", "0.weird name"}, {});
  owner.add(
      ModuleInfo{.name = "block.fc", .type = "torch::nn::Linear", .construct = {}, .operation = &ops::linear.info()});
  Graph g;
  Node* x = g.placeholder("x");
  Node* fc = g.call_module("block.fc", {x});
  Node* product = g.call_function(ops::mul_Tensor, {fc, g.get_attr("scale")});
  Node* sum = g.call_function(
      ops::add_Tensor,
      {g.call_function(ops::mul_Tensor, {product, g.get_attr("block.fc.weight")}), g.get_attr("0.weird name")});
  g.output(sum);
  g.set_owning_module(&owner);
  CHECK(forward_code(g, owner, {.release_values = false, .nest_expressions = true}) ==
        "torch::Tensor forward(torch::Tensor x) {\n"
        "  auto add = this->block_fc(x) * this->scale * this->block_fc->weight + this->m_0_weird_name;\n"
        "  return add;\n"
        "}\n");
}

TEST_CASE("attributes inside a module of the user's: parameters and buffers") {
  test::ListedOwner owner({"leaf.weight"}, {});
  owner.add(AttributeInfo{.name = "leaf.table", .kind = AttributeInfo::Kind::buffer, .meta = {}});
  owner.add(ModuleInfo{.name = "leaf", .type = "Leaf", .construct = {}});
  Graph g;
  Node* leaf = g.call_module("leaf", {g.placeholder("x")});
  Node* product = g.call_function(ops::mul_Tensor, {leaf, g.get_attr("leaf.weight")});
  g.output(g.call_function(ops::add_Tensor, {product, g.get_attr("leaf.table")}));
  const std::string text = forward_code(g, owner, {.release_values = false, .nest_expressions = true});
  CHECK(text.find("torch::Tensor(this->leaf->named_parameters()[\"weight\"])") != text.npos);
  CHECK(text.find("torch::Tensor(this->leaf->named_buffers()[\"table\"])") != text.npos);
}

TEST_CASE("inputs with defaults and types, results of several kinds") {
  Graph g;
  Node* x = g.placeholder("x");
  g.placeholder("mask", Argument());
  g.placeholder("p", 0.5);
  g.placeholder("sizes", {}, "std::vector<int64_t>");
  g.output(Argument::tuple({x, Argument::list({x, x})}));
  CHECK(forward_code(g, nobody, {.release_values = false}) ==
        "std::tuple<torch::Tensor, std::vector<torch::Tensor>> forward(torch::Tensor x, torch::Tensor mask = {}, "
        "double p = 0.5, "
        "std::vector<int64_t> sizes) {\n"
        "  return std::make_tuple(x, std::vector<torch::Tensor>{x, x});\n"
        "}\n");
}

TEST_CASE("what nobody uses is a statement; nothing returned is void") {
  Graph g;
  Node* x = g.placeholder("x");
  g.call_function(ops::relu_, {x});
  g.output({});
  CHECK(forward_code(g, nobody, {.release_values = false}) ==
        "void forward(torch::Tensor x) {\n  torch::relu_(x);\n}\n");
}

// --- calls ----------------------------------------------------------------------------------------------------------

TEST_CASE("numbers: arithmetic, comparison and functions as C++ has them") {
  const auto of_size = [](auto f) { return expression([f](auto x) { return f(x.size(0)); }); };
  using std::abs, std::floor, std::max, std::pow, std::sqrt;
  CHECK(of_size([](auto n) { return n * 2 + 1; }) == "mul + 1");
  CHECK(of_size([](auto n) { return 2 * n; }) == "(2 * size)");
  CHECK(of_size([](auto n) { return n % 3; }) == "size % 3");
  CHECK(of_size([](auto n) { return 1.0 / n; }) == "static_cast<double>(1.0) / size");
  CHECK(of_size([](auto n) { return n > 2; }) == "size > 2");
  CHECK(of_size([](auto n) { return 2 == n; }) == "(2 == size)");
  CHECK(of_size([](auto n) { return sqrt(n); }) == "std::sqrt(size)");
  CHECK(of_size([](auto n) { return pow(n, 2); }) == "std::pow(size, 2)");
  CHECK(of_size([](auto n) { return abs(n); }) == "std::abs(size)");
  CHECK(of_size([](auto n) { return max(n, 4); }) == "std::max<int64_t>(size, 4)");
  CHECK(of_size([](auto n) { return max(n * 0.5, 4); }) == "std::max<double>(mul, 4)");
  CHECK(of_size([](auto n) { return floor(n * 0.5); }) == "std::floor(mul)");
  CHECK(of_size([](auto n) { return to_int(n * 0.5); }) == "static_cast<int64_t>(mul)");
}

TEST_CASE("division: C++'s as it is, Python's rounds down where something may be negative") {
  const auto of_size = [](auto f) { return expression([f](auto x) { return f(x.size(0)); }); };
  CHECK(of_size([](auto n) { return n / 2; }) == "size / 2");
  CHECK(of_size([](auto n) { return 100 / n; }) == "(100 / size)");
  CHECK(of_size([](auto n) { return (n - 10) / 4; }) == "sub / 4");
  CHECK(of_size([](auto n) { return (n - 10) % 4; }) == "sub % 4");
  CHECK(of_size([](auto n) { return n / -4; }) == "size / -4");
  CHECK(of_size([](auto n) { return -7 % n; }) == "(-7 % size)");
  // Graphs that came from Python, or that somebody wrote: of a size, of one less 10, and of half of that.
  const auto divided = [](const Operator& op, auto operands) {
    Graph g;
    Node* size = g.call_method("size", {g.placeholder("x"), 0});
    Node* sub = g.call_function(ops::operator_sub, {size, 10});
    Node* half = g.call_function(ops::operator_mul, {sub, 0.5});
    half->rename("half");
    const auto [a, b] = operands(size, sub, half);
    Node* made = g.call_function(op, {a, b});
    g.output(made);
    const std::string text = forward_code(g, nobody, {.release_values = false});
    const std::string start = "auto " + std::string(made->name()) + " = ";
    const std::size_t at = text.find(start) + start.size();
    return text.substr(at, text.find(";\n", at) - at);
  };
  // What is printed is compiled here too, so that its value can be compared.
  struct Printed {
    std::string text;
    double (*value)(std::int64_t size, std::int64_t sub, double half);
  };
#define FXX_PRINTED(expression)                                                  \
  Printed {                                                                      \
    #expression, [](std::int64_t size, std::int64_t sub, double half) {          \
      return (void)size, (void)sub, (void)half, static_cast<double>(expression); \
    }                                                                            \
  }
  const auto check_division = [&](const Operator& op, auto operands, const Printed& printed) {
    CAPTURE(printed.text);
    CHECK(divided(op, operands) == printed.text);
    for (std::int64_t size = 1; size < 22; ++size) {
      const std::int64_t sub = size - 10;
      const auto [a, b] = operands(size, sub, static_cast<double>(sub) * 0.5);
      if (b == 0) continue;
      const double x = static_cast<double>(a), y = static_cast<double>(b);
      const bool whole = std::is_integral_v<decltype(a)>, rest = op.base_name() == "mod" || op.base_name() == "modulus";
      const double quotient = op.name_space() == "operator" ? std::floor(x / y) : whole ? std::trunc(x / y) : x / y;
      const double expected = !rest ? quotient : op.base_name() == "mod" ? x - y * quotient : std::fmod(x, y);
      CAPTURE(size);
      CHECK(printed.value(size, sub, static_cast<double>(sub) * 0.5) == expected);
    }
  };
  const auto whole = [](auto size, auto, auto) { return std::pair(size, 4); };
  const auto less = [](auto, auto sub, auto) { return std::pair(sub, 4); };
  const auto by_size = [](auto size, auto sub, auto) { return std::pair(sub, size); };
  const auto by_less = [](auto size, auto sub, auto) { return std::pair(size, sub); };
  const auto by_negative = [](auto, auto sub, auto) { return std::pair(sub, -4); };
  const auto negative = [](auto size, auto, auto) { return std::pair(-7, size); };
  const auto real = [](auto, auto, auto half) { return std::pair(half, 2); };
  check_division(ops::operator_floordiv, whole, FXX_PRINTED(size / 4));
  check_division(ops::operator_mod, whole, FXX_PRINTED(size % 4));
  check_division(ops::operator_floordiv, less, FXX_PRINTED(sub / 4 - (sub % 4 < 0)));
  check_division(ops::operator_mod, less, FXX_PRINTED(sub % 4 + (sub % 4 < 0 ? 4 : 0)));
  check_division(ops::operator_floordiv, by_size, FXX_PRINTED(sub / size - (sub % size < 0)));
  check_division(ops::operator_mod, by_size, FXX_PRINTED(sub % size + (sub % size < 0 ? size : 0)));
  check_division(ops::operator_floordiv, by_less,
                 FXX_PRINTED(size / sub - (size % sub != 0 && (size < 0) != (sub < 0))));
  check_division(ops::operator_mod, by_less,
                 FXX_PRINTED(size % sub + (size % sub != 0 && (size < 0) != (sub < 0) ? sub : 0)));
  check_division(ops::operator_floordiv, by_negative, FXX_PRINTED(sub / -4 - (sub % -4 != 0 && (sub < 0) != (-4 < 0))));
  check_division(ops::operator_mod, by_negative,
                 FXX_PRINTED(sub % -4 + (sub % -4 != 0 && (sub < 0) != (-4 < 0) ? -4 : 0)));
  check_division(ops::operator_floordiv, negative, FXX_PRINTED(-7 / size - (-7 % size < 0)));
  check_division(ops::operator_mod, negative, FXX_PRINTED(-7 % size + (-7 % size < 0 ? size : 0)));
  check_division(ops::operator_floordiv, real,
                 FXX_PRINTED(std::round((half - std::fmod(half, 2)) / 2) - (std::fmod(half, 2) < 0)));
  check_division(ops::operator_mod, real, FXX_PRINTED(std::fmod(half, 2) + (std::fmod(half, 2) < 0 ? 2 : 0)));
  check_division(ops::std_divides, less, FXX_PRINTED(sub / 4));
  check_division(ops::std_modulus, less, FXX_PRINTED(sub % 4));
  check_division(ops::std_divides, real, FXX_PRINTED(half / 2));
#undef FXX_PRINTED
  CHECK(divided(ops::std_modulus, real) == "std::fmod(half, 2)");
  // All sizes as a list, as Python asks for them.
  Graph g;
  Node* sizes = g.call_method("size", {g.placeholder("x")});
  g.output(g.call_function(ops::operator_floordiv, {g.call_function(ops::operator_getitem, {sizes, 0}), 2}));
  CHECK(forward_code(g, nobody).find("= getitem / 2;") != std::string::npos);
}

TEST_CASE("what a tensor says of itself, and tensors made like it") {
  CHECK(expression([](auto x) { return x.view(x.sizes()); }) == "x.view(sizes)");
  CHECK(expression([](auto x) { return x.sizes(); }) == "x.sizes().vec()");
  CHECK(expression([](auto x) { return x.sizes()[1]; }) == "sizes[1]");
  CHECK(expression([](auto x) { return x.sizes().back(); }) == "sizes.end()[-1]");
  CHECK(expression([](auto x) { return x.scalar_type(); }) == "x.scalar_type()");
  CHECK(expression([](auto x) { return x.device(); }) == "x.device()");
  CHECK(expression([](auto x) { return x.nbytes(); }) == "static_cast<int64_t>(x.nbytes())");
  CHECK(expression([](auto x) {
          return fxx::zeros({x.size(0), 2}, x.scalar_type());
        }) == "torch::zeros({size, 2}, torch::dtype(dtype))");
  CHECK(expression([](auto x) { return x.to(x.device()); }) == "x.to(torch::device(device_1))");
  CHECK(code([](auto x) { return x.sizes(); }).starts_with("std::vector<int64_t> forward("));
  CHECK(code([](auto x) { return x.scalar_type(); }).starts_with("torch::Dtype forward("));
  CHECK(code([](auto x) { return x.size(0) > 2; }).starts_with("bool forward("));
  CHECK(code([](auto x) { return x.size(0) * 0.5; }).starts_with("double forward("));
}

TEST_CASE("checks are TORCH_CHECK") {
  const std::string text = code([](auto x) {
    check(x.size(1) == 5, "it's five");
    check(x.sum() > 0, "positive");
    return x;
  });
  CHECK(text.find("  TORCH_CHECK(eq, \"it's five\");\n") != text.npos);
  CHECK(text.find("  TORCH_CHECK(torch::is_nonzero(gt), \"positive\");\n") != text.npos);
}

TEST_CASE("functions and methods as people call them, trailing defaults left out") {
  CHECK(expression([](auto x) { return softmax(x, -1); }) == "torch::softmax(x, -1)");
  CHECK(expression([](auto x) { return x.flatten(1, -1); }) == "x.flatten(1)");
  CHECK(expression([](auto x) { return gelu(x, "tanh"); }) == "torch::gelu(x, \"tanh\")");
  CHECK(expression([](auto x) { return conv2d(x, x, {}, 2, 1); }) == "torch::conv2d(x, x, {}, {2}, {1})");
  // {0} alone might be the name of a padding.
  CHECK(expression([](auto x) { return conv2d(x, x, {}, 2, 0, 2); }) ==
        "torch::conv2d(x, x, {}, {2}, at::IntArrayRef({0}), {2})");
  CHECK(expression([](auto x) { return x.clamp(std::nullopt, 6.0); }) == "x.clamp(std::nullopt, 6.0)");
  CHECK(expression([](auto x) { return x.to(Dtype::bfloat16); }) == "x.to(torch::kBFloat16)");
  CHECK(expression([](auto x) { return zeros_like(x, Dtype::float64); }) == "torch::zeros_like(x, torch::kFloat64)");
  CHECK(expression([](auto x) { return cat(std::vector{x, x}, 1); }) == "torch::cat({x, x}, 1)");
}

TEST_CASE("how a tensor is to be made") {
  const auto made = [](const auto& op, std::vector<Argument> arguments, std::vector<KeywordArgument> options) {
    Graph g;
    Node* x = g.placeholder("x");
    if (&op.info() == &ops::zeros_like.info()) arguments.insert(arguments.begin(), Argument(x));
    g.output(g.call_function(op, arguments, options));
    const std::string code = forward_code(g, nobody, {.release_values = false, .nest_expressions = true});
    const auto from = code.find("return ") + 7;
    return code.substr(from, code.find(';') - from);
  };
  const Argument size = Argument::list({2}), strided = Layout::strided, cpu = Device{DeviceType::cpu, -1};
  CHECK(made(ops::zeros, {size}, {{"dtype", Dtype::int64}}) == "torch::zeros({2}, torch::kInt64)");
  CHECK(made(ops::zeros, {size}, {{"layout", strided}}) == "torch::zeros({2})");
  CHECK(made(ops::zeros, {size}, {{"device", cpu}}) == "torch::zeros({2}, torch::kCPU)");
  CHECK(made(ops::zeros, {size}, {{"dtype", Dtype::float32}, {"layout", strided}, {"device", cpu}}) ==
        "torch::zeros({2}, torch::dtype(torch::kFloat32).device(torch::kCPU))");
  CHECK(made(ops::zeros, {size}, {{"layout", Layout::sparse_coo}}) ==
        "torch::zeros({2}, torch::layout(c10::Layout::Sparse))");
  CHECK(made(ops::zeros, {size}, {{"pin_memory", true}}) == 
        "torch::zeros({2}, torch::TensorOptions().pinned_memory(true))");
  // The layout of the other tensor is the default here.
  CHECK(made(ops::zeros_like, {}, {{"layout", strided}}) ==
        "torch::zeros_like(x, torch::layout(c10::Layout::Strided))");
}

TEST_CASE("an index that may have no dimensions is given to the operator, which does not take it for a number") {
  const auto indexed = [](std::optional<std::vector<std::int64_t>> shape) {
    Graph g;
    Node *x = g.placeholder("x"), *i = g.placeholder("i");
    if (shape) i->set_tensor_meta({.shape = *shape, .stride = {}, .dtype = Dtype::int64});
    g.output(g.call_function(ops::index_Tensor, {x, Argument::list({Argument(), i})}));
    const std::string text = forward_code(g, nobody, {.release_values = false, .nest_expressions = true});
    return text.substr(text.find("return ") + 7, text.find(";\n}") - text.find("return ") - 7);
  };
  CHECK(indexed(std::vector<std::int64_t>{3}) == "x.index({torch::indexing::Slice(), i})");
  for (const auto& shape : {std::optional(std::vector<std::int64_t>{}), std::optional<std::vector<std::int64_t>>()})
    CHECK(indexed(shape) == "torch::index(x, c10::List<std::optional<at::Tensor>>({{}, i}))");
}

TEST_CASE("parts of tensors, lists and tuples") {
  CHECK(expression([](auto x) { return x[2]; }) == "x[2]");
  CHECK(expression([](auto x) {
          return x.index({Ellipsis{}, std::nullopt, 0, Slice{1, std::nullopt, 2}, Slice{}});
        }) ==
        "x.index({torch::indexing::Ellipsis, torch::indexing::None, 0, torch::indexing::Slice(1, "
        "torch::indexing::None, 2), "
        "torch::indexing::Slice()})");
  CHECK(nested([](auto x) { return x.chunk(2)[1]; }) == "chunk[1]");
  CHECK(nested([](auto x) { return std::get<1>(x.max(0)); }) == "std::get<1>(max)");
  CHECK(nested([](auto x) { return std::get<0>(topk(x, 3)); }) == "std::get<0>(topk)");
  // The last, as Python counts; all sizes, as Python asks for them.
  Graph g;
  Node* x = g.placeholder("x");
  Node* places = g.call_function(ops::operator_getitem, {g.call_function(ops::sort, {x}), -1});
  g.output(Argument::tuple({places, g.call_method("size", {x})}));
  const std::string text = forward_code(g, nobody, {.release_values = false});
  CHECK(text.starts_with("std::tuple<torch::Tensor, std::vector<int64_t>> forward("));
  CHECK(text.find("std::get<1>(sort);") != text.npos);
  CHECK(text.find("auto size = x.sizes().vec();") != text.npos);
}

TEST_CASE("operators bind as in C++") {
  CHECK(nested([](auto x, auto y, auto z) { return (x + y) * z; }) == "(x + y) * z");
  CHECK(nested([](auto x, auto y, auto z) { return x + y * z; }) == "x + y * z");
  CHECK(nested([](auto x, auto y, auto z) { return x - (y - z); }) == "x - (y - z)");
  CHECK(nested([](auto x, auto y, auto z) { return x - y - z; }) == "x - y - z");
  CHECK(nested([](auto x, auto y, auto z) { return x / (y * z); }) == "x / (y * z)");
  CHECK(nested([](auto x, auto y) { return -(x + y); }) == "-(x + y)");
  CHECK(nested([](auto x) { return -(-x); }) == "-(-x)");
  CHECK(nested([](auto x) { return x - -2; }) == "x - -2");
  CHECK(nested([](auto x, auto y) { return (x + y).relu(); }) == "(x + y).relu()");
  CHECK(nested([](auto x, auto y) { return (x < y) & (x > 0); }) == "(x < y) & (x > 0)");
  CHECK(nested([](auto x) { return (-x).abs(); }) == "(-x).abs()");
  // Python's `&` binds tighter than `==`, C++'s does not.
  CHECK(nested([](auto x) { return (x & 1) == 0; }) == "(x & 1) == 0");
  CHECK(nested([](auto x, auto y, auto z) { return z == (x | y); }) == "z == (x | y)");
  CHECK(nested([](auto x, auto y, auto z) { return (x ^ y) < z; }) == "(x ^ y) < z");
  CHECK(nested([](auto x, auto y, auto z) { return (x == y) < z; }) == "(x == y) < z");
  CHECK(nested([](auto x, auto y, auto z) { return x != (y <= z); }) == "x != (y <= z)");
  CHECK(nested([](auto x, auto y, auto z) { return x + y > y * z; }) == "x + y > y * z");
  CHECK(nested([](auto x, auto y, auto z) { return (x & (y | z)) ^ z; }) == "x & (y | z) ^ z");
}

TEST_CASE("a value that is passed on as it is keeps its parentheses") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* same = g.call_function(*find_operator("fxx::identity"), {g.call_function(ops::neg, {x})});
  g.output(g.call_method("abs", {same}));
  CHECK(forward_code(g, nobody, {.release_values = false, .nest_expressions = true}).find("return (-x).abs();") !=
        std::string::npos);
}

TEST_CASE("values that are put where indices tell: a dimension without indices is written as the operator has it") {
  const auto code_of = [](const char* method, Argument indices, std::vector<Argument> more = {}) {
    Graph g;
    Node *x = g.placeholder("x"), *rows = g.placeholder("rows"), *v = g.placeholder("v");
    std::vector<Argument> items;
    for (const Argument& item : indices.items()) items.push_back(item.is_none() ? Argument() : Argument(rows));
    std::vector<Argument> arguments = {x, Argument::list(items), v};
    arguments.insert(arguments.end(), more.begin(), more.end());
    g.output(g.call_method(method, arguments));
    const std::string text = forward_code(g, nobody, {.release_values = false});
    return text.substr(text.find(" = x.") + 3, text.find(";\n  return") - text.find(" = x.") - 3);
  };
  CHECK(code_of("index_put_", Argument::list({0})) == "x.index_put_({rows}, v, false)");
  CHECK(code_of("index_put_", Argument::list({{}, 0})) ==
        "x.index_put_(c10::List<std::optional<at::Tensor>>({{}, rows}), v, false)");
  CHECK(code_of("index_put", Argument::list({0, {}, 0}), {true}) ==
        "x.index_put(c10::List<std::optional<at::Tensor>>({rows, {}, rows}), v, true)");
}

TEST_CASE("modules that draw random numbers draw them in the order of the graph") {
  test::ListedOwner owner;
  for (const char* name : {"first", "second"}) {
    ModuleInfo& module = owner.add(ModuleInfo{.name = name, .type = "torch::nn::Dropout", .construct = {}});
    module.operation = find_operator("aten::dropout");
    module.parts = {test::input(), test::constant_part(0.5), test::training_part()};
    module.training = true;
  }
  Graph g;
  g.set_owning_module(&owner);
  Node* x = g.placeholder("x");
  Node *first = g.call_module("first", {x}), *second = g.call_module("second", {x});
  g.output(g.call_function(ops::sub_Tensor, {second, first}));
  CHECK(forward_code(g, owner, {.release_values = false, .nest_expressions = true}) ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto first = this->first(x);\n"
        "  auto second = this->second(x);\n  return second - first;\n}\n");
}

TEST_CASE("an expression is not nested across what changes memory, nor when it is used twice") {
  CHECK(code(
            [](auto x) {
              const auto y = x + 1;
              x.mul_(2);
              return y * x;
            },
            {.release_values = false, .nest_expressions = true}) ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto add = x + 1;\n  x.mul_(2);\n  return add * x;\n}\n");
  CHECK(code(
            [](auto x) {
              const auto y = x + 1;
              return y * y;
            },
            {.release_values = false, .nest_expressions = true}) ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto add = x + 1;\n  return add * add;\n}\n");
}

TEST_CASE("a value is given up behind the statement that what reads it is written into") {
  const CodeOptions both{.release_values = true, .nest_expressions = true};
  CHECK(code(
            [](auto x) {
              const auto n = relu(x), m = tanh(x);
              return (n + m) * m;
            },
            both) ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto tanh = torch::tanh(x);\n"
        "  return (torch::relu(x) + tanh) * tanh;\n}\n");
  CHECK(code(
            [](auto x, auto y) {
              const auto sum = relu(x) * y + tanh(x);
              return sum * sum;
            },
            both) ==
        "torch::Tensor forward(torch::Tensor x, torch::Tensor y) {\n"
        "  auto add = torch::relu(x) * y + torch::tanh(x);  x.reset(); y.reset();\n  return add * add;\n}\n");
  // Several are written one into the other.
  CHECK(code(
            [](auto x) {
              const auto n = -relu(x), m = tanh(x);
              return (n + m) * m;
            },
            both) ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto tanh = torch::tanh(x);\n"
        "  return (-torch::relu(x) + tanh) * tanh;\n}\n");
  CHECK(code(
            [](auto x) {
              const auto large = (-relu(x)).abs();
              return large * large;
            },
            both) ==
        "torch::Tensor forward(torch::Tensor x) {\n  auto abs = (-torch::relu(x)).abs();  x.reset();\n"
        "  return abs * abs;\n}\n");
}

// --- values ---------------------------------------------------------------------------------------------------------

TEST_CASE("values of every kind") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(returned(3) == "int64_t|3");
  CHECK(returned(std::numeric_limits<std::int64_t>::min()) == "int64_t|(-9223372036854775807 - 1)");
  CHECK(returned(-0.0) == "double|-0.0");
  CHECK(returned(std::numeric_limits<double>::quiet_NaN()) == "double|std::numeric_limits<double>::quiet_NaN()");
  CHECK(returned(-infinity) == "double|-std::numeric_limits<double>::infinity()");
  CHECK(returned(true) == "bool|true");
  CHECK(returned("a\"b\n\\") == R"(std::string|"a\"b\012\\")");
  CHECK(returned(Complex{-0.0, infinity}) ==
        "c10::complex<double>|c10::complex<double>(-0.0, std::numeric_limits<double>::infinity())");
  CHECK(returned(Dtype::int8) == "torch::Dtype|torch::kInt8");
  CHECK(returned(Argument::list({1, 2})) == "std::vector<int64_t>|std::vector<int64_t>{1, 2}");
  CHECK(returned(Argument::dict({{"a\"", 1}, {"b", 2}})).ends_with(R"({{"a\"", 1}, {"b", 2}})"));
}

TEST_CASE("containers in containers") {
  const std::string text = returned(Argument::tuple({1, Argument::tuple({2.5, "x"}), Argument::list({})}));
  CHECK(text.find("std::make_tuple(1, std::make_tuple(2.5, \"x\"), ") != std::string::npos);
}

TEST_CASE("none in a tuple is an undefined tensor, of whose type C++ is sure") {
  CHECK(returned(Argument::tuple({1, Argument()})).ends_with("|std::make_tuple(1, torch::Tensor())"));
  CHECK(returned(Argument::tuple({Argument::tuple({2.5, Argument()}), 1}))
            .ends_with("|std::make_tuple(std::make_tuple(2.5, torch::Tensor()), 1)"));
  CHECK(returned(Argument::dict({{"a", 1}, {"b", Argument()}})).ends_with("|std::make_tuple(1, torch::Tensor())"));
}

TEST_CASE("odd values as arguments") {
  CHECK(expression([](auto x) { return x.mul(std::numeric_limits<double>::infinity()); }) ==
        "x.mul(std::numeric_limits<double>::infinity())");
  CHECK(expression([](auto x) { return x * -0.0; }) == "x * -0.0");
  CHECK(expression([](auto x) { return x.add(std::numeric_limits<std::int64_t>::min()); }) ==
        "x.add((-9223372036854775807 - 1))");
  CHECK(expression([](auto x) { return x.reshape({}); }) == "x.reshape(at::IntArrayRef())");
  CHECK(expression([](auto x) { return x.sum({0, 1}); }).find("{0, 1}") != std::string::npos);
  CHECK(expression([](auto x) {
          return einsum("i,j->ij", std::vector{x, x});
        }) == "torch::einsum(\"i,j->ij\", {x, x})");
}
