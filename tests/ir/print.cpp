// ir/print.hpp: the text of values, nodes and graphs.
#include "fxx/ir/print.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <sstream>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;

TEST_CASE("numbers print as Python prints them") {
  // Values and texts from Python's own repr; at random, at the ends of the range, and where the notation changes.
  const std::pair<double, const char*> table[] = {
      {0x1.4f8b588e368f1p-17, "1e-05"},
      {0x1.a36e2eb1c432dp-14, "0.0001"},
      {0x1.86a0000000000p+16, "100000.0"},
      {0x1.1c37937e08000p+53, "1e+16"},
      {0x1.1c37937e07fffp+53, "9999999999999998.0"},
      {0x1.18b54f22aeb00p+50, "1234567890123456.0"},
      {0x1.5ee2a2eb5a5c4p+53, "1.2345678901234568e+16"},
      {0x1.c6bf526340000p+49, "1000000000000000.0"},
      {0x1.0f0cf064dd592p+73, "1e+22"},
      {0x1.52d02c7e14af6p+76, "1e+23"},
      {0x0.0000000000001p-1022, "5e-324"},
      {0x1.0000000000000p-1022, "2.2250738585072014e-308"},
      {0x1.fffffffffffffp+1023, "1.7976931348623157e+308"},
      {0x1.999999999999ap-4, "0.1"},
      {0x1.3333333333333p-2, "0.3"},
      {0x1.4000000000000p+1, "2.5"},
      {-0x0.0p+0, "-0.0"},
      {0x0.0p+0, "0.0"},
      {0x1.5555555555555p-2, "0.3333333333333333"},
      {-0x1.421f5f40d8376p-23, "-1.5e-07"},
      {0x1.e240c9fbe76c9p+16, "123456.789"},
      {0x1.249ad2594c37dp+332, "1e+100"},
      {0x1.1666666666666p+2, "4.35"},
      {0x1.3333333333334p-2, "0.30000000000000004"},
      {0x1.0000000000000p+53, "9007199254740992.0"},
      {0x1.0000000000000p+63, "9.223372036854776e+18"},
      {-0x0.0000000000003p-1022, "-1.5e-323"},
      {0x1.a36371ea531a8p-14, "9.999e-05"},
      {0x1.02e4b6ce5dc68p-13, "0.00012345"},
      {0x1.0aaaaaaaaaaabp+5, "33.333333333333336"},
      {0x1.4d8399f767c45p+23, "10928588.983213553"},
      {0x1.8fbbcbde5c099p+445, "1.4186613525849614e+134"},
      {-0x1.11fdecb91ce37p-243, "-7.571968556055867e-74"},
      {-0x1.d4330f1446beap+375, "-1.4074705188261364e+113"},
      {-0x1.b8c9ebd69fe29p-401, "-3.3339745473042614e-121"},
      {-0x1.0b125ec1d7da0p-900, "-1.2342180766211395e-271"},
      {-0x1.10dff076ce2efp+371, "-5.126864004244935e+111"},
      {-0x1.5387777330bdbp+107, "-2.1520217579844227e+32"},
      {0x1.1ea36f17fd374p-3, "0.1399601630397701"},
      {0x1.64138a6233255p-811, "1.01853664031722e-244"},
      {__builtin_inf(), "inf"},
      {-__builtin_inf(), "-inf"},
      {__builtin_nan(""), "nan"},
      {-__builtin_nan(""), "nan"},
  };
  for (const auto& [value, text] : table) {
    CHECK(repr(value) == text);
    CHECK(to_string(Argument(value)) == text);
  }
}

TEST_CASE("every number reads back as itself, and looks like no integer") {
  test::Random random(11);
  for (int i = 0; i < test::repeats(200000, 20000); ++i) {
    const double value = std::bit_cast<double>(random.next());
    if (value != value) continue;
    const std::string text = repr(value);
    const double back = std::strtod(text.c_str(), nullptr);
    if (std::bit_cast<std::uint64_t>(back) != std::bit_cast<std::uint64_t>(value) ||
        text.find_first_of(".en") == text.npos) {
      CAPTURE(text);
      FAIL_CHECK("not the same number");
    }
  }
}

TEST_CASE("strings print as Python prints them") {
  const std::pair<std::string_view, const char*> table[] = {
      {"", "''"},
      {"plain", "'plain'"},
      {"it's", "\"it's\""},
      {"say \"hi\"", "'say \"hi\"'"},
      {"both ' and \"", "'both \\' and \"'"},
      {"a\nb\tc\rd", "'a\\nb\\tc\\rd'"},
      {{"\0\x1b\x7f", 3}, "'\\x00\\x1b\\x7f'"},
      {"back\\slash", "'back\\\\slash'"},
      {"é日本", "'é日本'"},
  };
  for (const auto& [value, text] : table) CHECK(repr(value) == text);
}

TEST_CASE("each kind of value has its notation") {
  Graph g;
  Node* x = g.placeholder("x");
  const std::pair<Argument, const char*> table[] = {
      {{}, "None"},
      {x, "%x"},
      {true, "True"},
      {false, "False"},
      {0, "0"},
      {-3, "-3"},
      {INT64_MIN, "-9223372036854775808"},
      {INT64_MAX, "9223372036854775807"},
      {2.0, "2.0"},
      {Dtype::float32, "torch.float32"},
      {Dtype::boolean, "torch.bool"},
      {Dtype::float8_e4m3fn, "torch.float8_e4m3fn"},
      {Layout::strided, "torch.strided"},
      {MemoryFormat::channels_last, "torch.channels_last"},
      {Device{DeviceType::cpu}, "device(type='cpu')"},
      {Device{DeviceType::cuda, 1}, "device(type='cuda', index=1)"},
      {Ellipsis{}, "Ellipsis"},
      {Complex{1, 2}, "(1+2j)"},
      {Complex{1.5, -0.25}, "(1.5-0.25j)"},
      {Complex{1, -0.0}, "(1-0j)"},
      {Complex{-0.0, 1}, "(-0+1j)"},
      {Complex{1e16, 1e-5}, "(1e+16+1e-05j)"},
      {Complex{__builtin_nan(""), __builtin_inf()}, "(nan+infj)"},
      {"it's", "\"it's\""},
      {Enumerator{"ns::Mode", "fast", -4}, "enum('ns::Mode', 'fast', -4)"},
      {Range{0, 10, -2}, "range(0, 10, -2)"},
      {Slice{{}, 3, {}}, "slice(None, 3, None)"},
      {Slice{x, {}, 2}, "slice(%x, None, 2)"},
      {Argument::list({}), "[]"},
      {Argument::list({1, x, Argument::list({2.5})}), "[1, %x, [2.5]]"},
      {Argument::tuple({}), "()"},
      {Argument::tuple({x}), "(%x,)"},
      {Argument::tuple({x, 1}), "(%x, 1)"},
      {Argument::dict({}), "{}"},
      {Argument::dict({{"a", x}, {1, "b"}, {true, {}}}), "{'a': %x, 1: 'b', True: None}"},
  };
  for (const auto& [value, text] : table) CHECK(to_string(value) == text);
  CHECK(to_string(Argument::list({x, "x"}), "") == "[x, 'x']");
  std::ostringstream out;
  out << Argument::tuple({x, 1});
  CHECK(out.str() == "(%x, 1)");
}

TEST_CASE("every dtype, layout, memory format and device type prints under its name") {
#define FXX_CHECK_NAME(name, c10_name, number, ...) \
  CHECK(to_string(Argument(Type_::name)).find(#name) != std::string::npos);
  {
    using Type_ = Layout;
    FXX_LAYOUTS(FXX_CHECK_NAME)
  }
  {
    using Type_ = MemoryFormat;
    FXX_MEMORY_FORMATS(FXX_CHECK_NAME)
  }
#undef FXX_CHECK_NAME
#define FXX_CHECK_NAME(name, c10_name, number, ...) \
  CHECK(to_string(Argument(Device{DeviceType::name})) == "device(type='" #name "')");
  FXX_DEVICE_TYPES(FXX_CHECK_NAME)
#undef FXX_CHECK_NAME
}

TEST_CASE("each opcode has its line") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* typed = g.placeholder("y", {}, "torch::Tensor");
  Node* number = g.placeholder("scale", 2.5);
  Node* w = g.get_attr("layer.weight");
  Node* m = g.call_module("layer", {x});
  Node* add = g.call_function(ops::add_Tensor, {m, w}, {{"alpha", 2}});
  Node* item = g.call_function(ops::operator_getitem, {typed, 0});
  Node* user = g.call_function(register_function("geometry::rotate"), {add},
                               {{"angle", number}, {"centre", Argument::tuple({0, 0})}});
  Node* method = g.call_method("view", {user, -1, 4});
  method->set_type("torch::Tensor");
  Node* none = g.call_method("noop");
  Node* out = g.output(Argument::list({method, item}));

  CHECK(format_node(*x) == "%x : [num_users=1] = placeholder[target=x]");
  CHECK(format_node(*typed) == "%y : torch::Tensor [num_users=1] = placeholder[target=y]");
  CHECK(format_node(*number) == "%scale : [num_users=1] = placeholder[target=scale](default=2.5)");
  CHECK(format_node(*w) == "%layer_weight : [num_users=1] = get_attr[target=layer.weight]");
  CHECK(format_node(*m) == "%layer : [num_users=1] = call_module[target=layer](args = (%x,), kwargs = {})");
  CHECK(format_node(*add) ==
        "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%layer, %layer_weight), kwargs "
        "= {alpha: 2})");
  CHECK(format_node(*item) ==
        "%getitem : [num_users=1] = call_function[target=operator.getitem](args = (%y, 0), kwargs = {})");
  CHECK(format_node(*user) ==
        "%rotate : [num_users=1] = call_function[target=geometry::rotate](args = (%add,), kwargs = {angle: %scale, "
        "centre: (0, 0)})");
  CHECK(format_node(*method) ==
        "%view : torch::Tensor [num_users=1] = call_method[target=view](args = (%rotate, -1, 4), kwargs = {})");
  CHECK(format_node(*none) == "%noop : [num_users=0] = call_method[target=noop](args = (), kwargs = {})");
  CHECK(format_node(*out) == "return [view, getitem]");
  out->set_type("std::vector<torch::Tensor>");
  CHECK(format_node(*out) == "return [view, getitem] : std::vector<torch::Tensor>");
}

TEST_CASE("a graph prints a line a node and its return") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.output(g.call_function(ops::add_Tensor, {relu, relu}));
  const std::string expected =
      "graph():\n"
      "    %x : [num_users=1] = placeholder[target=x]\n"
      "    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,), kwargs = {})\n"
      "    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%relu, %relu), kwargs = {})\n"
      "    return add";
  CHECK(to_string(g) == expected);
  std::ostringstream out;
  out << g << '\n' << *relu;
  CHECK(out.str() == expected + '\n' + format_node(*relu));
  CHECK(to_string(Graph()) == "graph():");
}

TEST_CASE("targets that could be misread are quoted") {
  Graph g;
  CHECK(format_node(*g.placeholder("a]b")) == "%a_b : [num_users=0] = placeholder[target='a]b']");
  CHECK(format_node(*g.get_attr("")) == "%_unnamed : [num_users=0] = get_attr[target='']");
  CHECK(format_node(*g.call_module("layer\n0", {})).find("[target='layer\\n0']") != std::string::npos);
  CHECK(format_node(*g.placeholder("*args")) == "%_args : [num_users=0] = placeholder[target=*args]");
}

TEST_CASE("target texts of functions") {
  CHECK(target_text(CallFunction{&ops::relu.info()}) == "torch.ops.aten.relu.default");
  CHECK(target_text(CallFunction{&ops::add_Tensor.info()}) == "torch.ops.aten.add.Tensor");
  CHECK(target_text(CallFunction{&ops::math_sqrt.info()}) == "math.sqrt");
  CHECK(target_text(CallFunction{&ops::operator_add.info()}) == "operator.add");
  CHECK(target_text(CallFunction{&register_function("a::b::c")}) == "a::b::c");
  CHECK(target_text(Output{}) == "output");
}
