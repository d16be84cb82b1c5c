// ir/parse.hpp: printed graphs read back; whatever else a text holds is refused with line and column.
#include "fxx/ir/parse.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using test::Fault;
using test::fault_of;

namespace {

Fault refusal(std::string_view text) {
  return fault_of([&] { parse_graph(text); });
}

/// The argument of a call that is printed so.
Argument value(const std::string& text) {
  const Graph g =
      parse_graph("graph():\n    %f : [num_users=0] = call_method[target=f](args = (" + text + ",), kwargs = {})\n");
  return g.nodes().back()->arg(0);
}

const std::string head = "graph():\n    %x : [num_users=1] = placeholder[target=x]\n";

}  // namespace

TEST_CASE("a printed graph reads back as the same text") {
  const std::string text =
      head +
      "    %y : std::vector<torch::Tensor> [num_users=0] = placeholder[target=y](default=None)\n"
      "    %layer_weight : [num_users=1] = get_attr[target=layer.weight]\n"
      "    %add : [num_users=2] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %layer_weight), "
      "kwargs = {alpha: 2})\n"
      "    %layer : [num_users=1] = call_module[target=layer](args = (%add,), kwargs = {})\n"
      "    %view : torch::Tensor [num_users=1] = call_method[target=view](args = (%layer, -1, 4), kwargs = {})\n"
      "    return {'a': view, 2: [add, (1, 'b')]} : Result";
  const Graph g = parse_graph(text);
  CHECK(to_string(g) == text);
  g.lint();
  CHECK(g.output_node()->type() == "Result");
  CHECK(g.nodes().front()->next()->arg(0).is_none());
  CHECK(g.find_nodes(Opcode::call_function)[0]->operation() == find_operator("aten::add.Tensor"));
}

TEST_CASE("every kind of value is read") {
  CHECK(value("None").is_none());
  CHECK(value("True") == Argument(true));
  CHECK(value("False") == Argument(false));
  CHECK(value("0") == Argument(0));
  CHECK(value("-9223372036854775808") == Argument(INT64_MIN));
  CHECK(value("9223372036854775807") == Argument(INT64_MAX));
  CHECK(value("2.0") == Argument(2.0));
  CHECK(value("-0.0") == Argument(-0.0));
  CHECK(value("1e-05") == Argument(1e-05));
  CHECK(value("1e+16") == Argument(1e+16));
  CHECK(value("5e-324") == Argument(5e-324));
  CHECK(value("1.7976931348623157e+308") == Argument(1.7976931348623157e+308));
  CHECK(value("inf") == Argument(__builtin_inf()));
  CHECK(value("-inf") == Argument(-__builtin_inf()));
  CHECK(value("nan") == Argument(__builtin_nan("")));
  CHECK(value("torch.float32") == Argument(Dtype::float32));
  CHECK(value("torch.bool") == Argument(Dtype::boolean));
  CHECK(value("torch.sparse_csr") == Argument(Layout::sparse_csr));
  CHECK(value("torch.mkldnn") == Argument(Layout::mkldnn));
  CHECK(value("torch.preserve_format") == Argument(MemoryFormat::preserve_format));
  CHECK(value("device(type='cpu')") == Argument(Device{DeviceType::cpu}));
  CHECK(value("device(type='cuda', index=3)") == Argument(Device{DeviceType::cuda, 3}));
  CHECK(value("Ellipsis") == Argument(Ellipsis{}));
  CHECK(value("(1+2j)") == Argument(Complex{1, 2}));
  CHECK(value("(1.5-0.25j)") == Argument(Complex{1.5, -0.25}));
  CHECK(value("(2-infj)") == Argument(Complex{2, -__builtin_inf()}));
  CHECK(value("(nan+1e-05j)") == Argument(Complex{__builtin_nan(""), 1e-05}));
  CHECK(value("'text'") == Argument("text"));
  CHECK(value("\"it's\"") == Argument("it's"));
  CHECK(value("'\\x00\\n\\r\\t\\\\\\'\\\"'") == Argument(std::string("\0\n\r\t\\'\"", 7)));
  CHECK(value("enum('ns::Mode', 'fast', -4)") == Argument(Enumerator{"ns::Mode", "fast", -4}));
  CHECK(value("range(0, 10, -2)") == Argument(Range{0, 10, -2}));
  CHECK(value("slice(None, 3, None)") == Argument(Slice{{}, 3, {}}));
  CHECK(value("[]") == Argument::list({}));
  CHECK(value("()") == Argument::tuple({}));
  CHECK(value("(1,)") == Argument::tuple({1}));
  CHECK(value("[1, (2, [3]), {'a': 4}]") ==
        Argument::list({1, Argument::tuple({2, Argument::list({3})}), Argument::dict({{"a", 4}})}));
  CHECK(value("{}") == Argument::dict({}));
  CHECK(value("{1: 'a', True: None, 'k': {'l': 2.5}}") ==
        Argument::dict({{1, "a"}, {true, {}}, {"k", Argument::dict({{"l", 2.5}})}}));
}

TEST_CASE("complex numbers keep the sign of a zero") {
  CHECK(value("(-0+1j)") == Argument(Complex{-0.0, 1}));
  CHECK(value("(1-0j)") == Argument(Complex{1, -0.0}));
}

TEST_CASE("a tuple may begin with a complex number") {
  CHECK(value("((1+2j),)") == Argument::tuple({Complex{1, 2}}));
  CHECK(value("((1+2j), 3)") == Argument::tuple({Complex{1, 2}, 3}));
  CHECK(value("(((1+2j), 3), (4-5j))") == Argument::tuple({Argument::tuple({Complex{1, 2}, 3}), Complex{4, -5}}));
}

TEST_CASE("a tuple may begin with a string that ends like a complex number") {
  for (const Argument& tuple : {Argument::tuple({"j)"}), Argument::tuple({"j)'"}), Argument::tuple({"1+2j)", "j)'"})})
    CHECK(value(to_string(tuple)) == tuple);
}

TEST_CASE("names, not only kinds, are read: every dtype, layout, format and device") {
#define FXX_CHECK_ROUND_TRIP(name, c10_name, number, ...) \
  CHECK(value(to_string(Argument(Type_::name))) == Argument(Type_::name));
  {
    using Type_ = Dtype;
    FXX_DTYPES(FXX_CHECK_ROUND_TRIP)
  }
  {
    using Type_ = Layout;
    FXX_LAYOUTS(FXX_CHECK_ROUND_TRIP)
  }
  {
    using Type_ = MemoryFormat;
    FXX_MEMORY_FORMATS(FXX_CHECK_ROUND_TRIP)
  }
#undef FXX_CHECK_ROUND_TRIP
#define FXX_CHECK_ROUND_TRIP(name, c10_name, number, ...) \
  CHECK(value(to_string(Argument(Device{DeviceType::name, 0}))) == Argument(Device{DeviceType::name, 0}));
  FXX_DEVICE_TYPES(FXX_CHECK_ROUND_TRIP)
#undef FXX_CHECK_ROUND_TRIP
}

TEST_CASE("blank space around the graph is fine") {
  const std::string body = "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return x";
  for (const std::string& text : {body, body + "\n", "\n\n  " + body + "\n\n", body + "  \r\n"})
    CHECK(same_structure(parse_graph(text), parse_graph(body)));
}

TEST_CASE("quoted targets are read") {
  for (const std::string target : {"a]b", "", "x\ny", "it's", "a \\ b", "\xc3\xa9"}) {
    Graph g;
    g.get_attr(target);
    CHECK(parse_graph(to_string(g)).nodes().front()->target() == target);
  }
}

TEST_CASE("a graph without an output reads back") {
  const Graph g = parse_graph(head);
  CHECK(g.size() == 1);
  CHECK(fault_of([&] { g.output_node(); }).id == 107);
}

TEST_CASE("an empty graph reads back") { CHECK(parse_graph(to_string(Graph())).size() == 0); }

TEST_CASE("user counts of the text are not believed") {
  const Graph g = parse_graph("graph():\n    %x : [num_users=77] = placeholder[target=x]\n    return x");
  CHECK(g.nodes().front()->num_users() == 1);
}

TEST_CASE("Python's modules and the user's functions are found") {
  register_function("tests::parsed");
  const Graph g =
      parse_graph(head +
                  "    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%x, 0), kwargs = {})\n"
                  "    %sqrt : [num_users=1] = call_function[target=math.sqrt](args = (%getitem,), kwargs = {})\n"
                  "    %parsed : [num_users=1] = call_function[target=tests::parsed](args = (%sqrt,), kwargs = {})\n"
                  "    return parsed");
  CHECK(*g.find_nodes(Opcode::call_function)[0]->operation() == ops::operator_getitem.info());
  CHECK(*g.find_nodes(Opcode::call_function)[1]->operation() == ops::math_sqrt.info());
  CHECK(g.find_nodes(Opcode::call_function)[2]->operation() == nullptr);
}

TEST_CASE("another resolver may be given") {
  struct Only final : TargetResolver {
    const Operator* find_operator(std::string_view name) const override {
      return name == "my::op" ? &ops::neg.info() : nullptr;
    }
    const UserFunction* find_function(std::string_view) const override { return nullptr; }
  } only;
  const std::string text =
      "graph():\n    %f : [num_users=0] = call_function[target=torch.ops.my.op.default](args = (), kwargs = {})\n";
  CHECK(parse_graph(text, only).nodes().front()->operation() == &ops::neg.info());
  CHECK(refusal(text).id == 201);
}

TEST_CASE("a target that nobody registered is an operator error that names it") {
  const auto call = [](const std::string& target) {
    return fault_of<OperatorError>([&] {
      parse_graph(head + "    %f : [num_users=0] = call_function[target=" + target + "](args = (), kwargs = {})\n");
    });
  };
  for (const std::string target : {"torch.ops.aten.no_such_operator.default", "torch.ops.aten.add.NoSuchOverload",
                                   "operator.no_such", "no_such_function", "''", "'relu'"}) {
    const Fault fault = call(target);
    CHECK(fault.id == 201);
    CHECK(fault.says("register it"));
  }
  CHECK(call("torch.ops.aten.no_such_operator.default").says("'torch.ops.aten.no_such_operator.default'"));
}

TEST_CASE("malformed texts are refused with line and column") {
  struct Row {
    std::string text;
    int line, column;
    const char* words;
  };
  const std::string call = head + "    %f : [num_users=0] = call_method[target=f]";
  const Row table[] = {
      {"", 1, 1, "expected 'graph():'"},
      {"   \n  ", 2, 3, "expected 'graph():'"},
      {"graf():\n", 1, 1, "expected 'graph():'"},
      {"graph(:\n", 1, 1, "expected 'graph():'"},
      {"graph():\n", 2, 1, "cut off"},
      {"graph():\n    x : [num_users=0]", 2, 5, "expected a node"},
      {"graph():\n    %", 2, 6, "expected a name"},
      {"graph():\n    % x", 2, 6, "expected a name"},
      {"graph():\n    %x", 2, 7, "expected ' : '"},
      {"graph():\n    %x: [num_users=0]", 2, 7, "expected ' : '"},
      {"graph():\n    %x : ", 2, 10, "expected '[num_users='"},
      {"graph():\n    %x : int\n [num_users=0] = placeholder[target=x]", 2, 10, "expected '[num_users='"},
      {"graph():\n    %x : [num_users=] = placeholder[target=x]", 2, 21, "expected an integer"},
      {"graph():\n    %x : [num_users=a] = placeholder[target=x]", 2, 21, "expected an integer"},
      {"graph():\n    %x : [num_users=99999999999999999999] = placeholder[target=x]", 2, 21, "expected an integer"},
      {"graph():\n    %x : [num_users=1 = placeholder[target=x]", 2, 22, "expected '] = '"},
      {"graph():\n    %x : [num_users=1] = ", 2, 26, "expected a name"},
      {"graph():\n    %x : [num_users=1] = placeholder", 2, 37, "expected '[target='"},
      {"graph():\n    %x : [num_users=1] = placeholder[target=x", 2, 45, "expected ']'"},
      {"graph():\n    %x : [num_users=1] = placeholder[target='x]", 2, 48, "not closed"},
      {"graph():\n    %x : [num_users=1] = placeholder[target='\\q']", 2, 47, "unknown escape"},
      {"graph():\n    %x : [num_users=1] = placeholder[target='\\x1']", 2, 48, "two hexadecimal digits"},
      {"graph():\n    %x : [num_users=1] = placeholder[target=x](default=)", 2, 56, "expected a name"},
      {"graph():\n    %x : [num_users=1] = placeholder[target=x](default=1", 2, 57, "expected ')'"},
      {"graph():\n    %x : [num_users=1] = placeholder[target=x] more", 2, 47, "end of the line"},
      {"graph():\n    %x : [num_users=1] = input[target=x]", 2, 41, "unknown opcode 'input'"},
      {head + "    %x : [num_users=1] = placeholder[target=x]\n", 3, 6, "stands further up already"},
      {head + "    %X : [num_users=1] = placeholder[target=x]\n", 3, 6, "'X' cannot name a node"},
      {head + "    %for : [num_users=1] = placeholder[target=x]\n", 3, 6, "'for' cannot name a node"},
      {head + "    %1a : [num_users=1] = placeholder[target=x]\n", 3, 6, "'1a' cannot name a node"},
      {head + "    %__a : [num_users=1] = placeholder[target=x]\n", 3, 6, "'__a' cannot name a node"},
      {call, 3, 47, "expected '(args = ('"},
      {call + "(args = (%x, kwargs = {})\n", 3, 60, "expected a value"},
      {call + "(args = (%x,), kwargs = })\n", 3, 60, "expected ', kwargs = {'"},
      {call + "(args = (%x,), kwargs = {)\n", 3, 72, "expected a name"},
      {call + "(args = (%x,), kwargs = {a 1})\n", 3, 73, "expected ': '"},
      {call + "(args = (%x,), kwargs = {a: 1 b: 2})\n", 3, 76, "expected ', '"},
      {call + "(args = (%x,), kwargs = {a: 1}\n", 3, 77, "expected ')'"},
      {call + "(args = (%x 1), kwargs = {})\n", 3, 58, "expected ','"},
      {call + "(args = (%x,1), kwargs = {})\n", 3, 59, "expected ' '"},
      {call + "(args = (%y,), kwargs = {})\n", 3, 57, "'y' is used before it has been defined"},
      {call + "(args = (%f,), kwargs = {})\n", 3, 57, "'f' is used before it has been defined"},
      {call + "(args = (x,), kwargs = {})\n", 3, 56, "expected a value"},
      {call + "(args = (nil,), kwargs = {})\n", 3, 56, "expected a value"},
      {call + "(args = ([1,), kwargs = {})\n", 3, 59, "expected ' '"},
      {call + "(args = ('a,), kwargs = {})\n", 3, 74, "not closed"},
      {call + "(args = (\"a',), kwargs = {})\n", 3, 75, "not closed"},
      {call + "(args = ('a\nb',), kwargs = {})\n", 3, 58, "not closed"},
      {call + "(args = (--1,), kwargs = {})\n", 3, 56, "expected an integer"},
      {call + "(args = (-,), kwargs = {})\n", 3, 56, "expected an integer"},
      {call + "(args = (+1,), kwargs = {})\n", 3, 56, "expected a name"},
      {call + "(args = (9223372036854775808,), kwargs = {})\n", 3, 56, "expected an integer of 64 bits"},
      {call + "(args = (1e999,), kwargs = {})\n", 3, 56, "expected a number"},
      {call + "(args = (torch.float31,), kwargs = {})\n", 3, 56, "no dtype, layout or memory format"},
      {call + "(args = (torch,), kwargs = {})\n", 3, 56, "expected a value"},
      {call + "(args = (device('cpu'),), kwargs = {})\n", 3, 62, "expected '(type=''"},
      {call + "(args = (device(type='abacus'),), kwargs = {})\n", 3, 77, "no device type 'abacus'"},
      {call + "(args = (device(type='cuda', index=128),), kwargs = {})\n", 3, 86, "between 0 and 127"},
      {call + "(args = (slice(1, 2),), kwargs = {})\n", 3, 66, "expected ', '"},
      {call + "(args = (range(0, 1.5, 1),), kwargs = {})\n", 3, 66, "expected ', '"},
      {call + "(args = (enum('a', b, 1),), kwargs = {})\n", 3, 66, "expected a quoted text"},
      {call + "(args = ({1 2},), kwargs = {})\n", 3, 58, "expected ': '"},
      {call + "(args = ({1: 2, 3},), kwargs = {})\n", 3, 64, "expected ': '"},
      {call + "(args = ({%x: 1},), kwargs = {})\n", 3, 57, "key of a dictionary cannot contain a node"},
      {call + "(args = ({1: 2, (3, [%x]): 1},), kwargs = {})\n", 3, 63, "key of a dictionary cannot contain a node"},
      {call + "(args = (%x,), kwargs = {a: 1, b: 2, a: 3})\n", 3, 84, "keyword argument 'a' is given twice"},
      {call + "(args = ((1+j),), kwargs = {})\n", 3, 59, "expected a number"},
      {head + "    return", 3, 5, "expected a node"},
      {head + "    return ", 3, 12, "expected a name"},
      {head + "    return y", 3, 12, "'y' is used before it has been defined"},
      {head + "    return x y", 3, 14, "text follows"},
      {head + "    return x\n    return x", 4, 5, "text follows"},
      {head + "    return x\n    %y : [num_users=0] = placeholder[target=y]", 4, 5, "text follows"},
  };
  for (const Row& row : table) {
    CAPTURE(row.text);
    const Fault fault = refusal(row.text);
    CHECK(fault.id == 111);
    const std::string place = "line " + std::to_string(row.line) + ", column " + std::to_string(row.column);
    CAPTURE(fault.text);
    CHECK((fault.says(place + ",") || fault.says(place + ":")));
    CHECK(fault.says(row.words));
  }
}

TEST_CASE("a text cut off anywhere is refused or gives a shorter graph, never the whole one") {
  const std::string text = head +
                           "    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, "
                           "%x), kwargs = {alpha: 2})\n"
                           "    return (add, 'text')";
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    bool smaller = false;
    try {
      smaller = parse_graph(text.substr(0, size)).size() < 3;
    } catch (const Error&) {
      smaller = true;
    }
    CHECK(smaller);
  }
}

TEST_CASE("containers nested beyond all reason are refused, not followed") {
  for (const std::string open : {"[", "(", "{1: ", "slice("}) {
    CAPTURE(open);
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += open;
    const Fault fault = refusal(head + "    %f : [num_users=0] = call_method[target=f](args = (" + deep);
    CHECK(fault.id == 111);
    CHECK(fault.says("nested more than"));
  }
  std::string fine(40, '[');
  fine += std::string(40, ']');
  CHECK(value(fine).is_sequence());
}

TEST_CASE("characters that no text holds are refused, not misread") {
  for (int c = 0; c < 256; ++c) {
    const std::string text = std::string("graph():\n    ") + static_cast<char>(c) +
                             "x : [num_users=1] = placeholder[target=x]\n    return x";
    if (c == '%') CHECK(parse_graph(text).size() == 2);
    else CHECK(refusal(text).id == 111);
  }
}
