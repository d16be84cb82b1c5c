// ops/registry.hpp: finding, registering and resolving operators; what the arguments of a node say; effects.
#include "fxx/ops/registry.hpp"

#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "fxx/ops/operation.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {

/// A graph with an input of unknown kind and a tensor.
struct Two {
  Graph g;
  Node* x = g.placeholder("x");
  Node* t = g.call_function(ops::relu, {x});
};

std::string resolved(std::string_view base, Arguments args, KeywordArguments kwargs = {}) {
  const Operator* op = resolve_overload(base, args.span(), kwargs.span());
  return op ? std::string(op->name) : "none";
}

Argument parameter(const Node& node, std::string_view name) {
  const Operator& op = *operator_of(node);
  return argument_or_default(node, op, op.index_of(name));
}

}  // namespace

// --- finding and registering -----------------------------------------------------------------------------------------

TEST_CASE("operators are found by qualified name") {
  CHECK(find_operator("aten::add.Tensor")->schema == ops::add_Tensor.info().schema);
  CHECK(find_operator("aten::add") == nullptr);  // every overload of add has a name
  CHECK(find_operator("aten::relu")->overload_name().empty());
  CHECK(find_operator("") == nullptr);
  CHECK(find_operator("relu") == nullptr);
  CHECK(&get_operator("aten::relu") == find_operator("aten::relu"));
  const auto fault = fault_of<OperatorError>([] { (void)get_operator("aten::relux"); });
  CHECK(fault.id == 201);
  CHECK(fault.says("'aten::relux'"));
  CHECK(fault.says("register_operator"));
}

TEST_CASE("overloads come in the order of the table, those registered later behind") {
  std::vector<std::string> names;
  for (const Operator* op : overloads_of("aten::pow")) names.emplace_back(op->name);
  CHECK(names == std::vector<std::string>{"aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar"});
  CHECK(overloads_of("aten::no_such_operator").empty());
  const Operator& mine = register_operator("aten::pow.tests_overload(Tensor self, str how) -> Tensor");
  CHECK(overloads_of("aten::pow").back() == &mine);
}

TEST_CASE("an operator of the user's is registered once and found from then on") {
  const std::string schema = "tests::rotate(Tensor x, float angle=0.5, *, bool degrees=False) -> Tensor";
  const Operator& rotate = register_operator(schema, Trait::pointwise);
  CHECK(find_operator("tests::rotate") == &rotate);
  CHECK(rotate.schema == schema);
  CHECK(rotate.schema.data() != schema.data());
  CHECK(has(rotate.traits, Trait::pointwise));
  CHECK(&register_operator(schema) == &rotate);
  CHECK(overloads_of("tests::rotate") == std::vector<const Operator*>{&rotate});
  const Operator& other = register_operator("tests::rotate.by_tensor(Tensor x, Tensor angle) -> Tensor");
  CHECK(overloads_of("tests::rotate") == std::vector<const Operator*>{&rotate, &other});
}

TEST_CASE("a name is not given to two schemas") {
  register_operator("tests::taken(Tensor x) -> Tensor");
  auto fault = fault_of<OperatorError>([] { register_operator("tests::taken(Tensor y) -> Tensor"); });
  CHECK(fault.id == 204);
  CHECK(fault.says("'tests::taken'"));
  CHECK(fault.says("tests::taken(Tensor x) -> Tensor"));
  fault = fault_of<OperatorError>([] { register_operator("aten::relu(Tensor other) -> Tensor"); });
  CHECK(fault.id == 204);
  CHECK(&register_operator(ops::relu.info().schema) == find_operator("aten::relu"));
}

TEST_CASE("a text that is no schema is refused, and registers nothing") {
  for (const std::string text : {"", "tests::broken", "tests::broken(", "tests::broken(Tensor) -> Tensor",
                                 "broken(Tensor x) -> Tensor", "tests::broken(Tensor x)"}) {
    CAPTURE(text);
    const auto fault = fault_of<OperatorError>([&] { register_operator(text); });
    CHECK(fault.id == 202);
    CHECK(fault.says("ns::name(Type arg=default, ...) -> Type"));
  }
  CHECK(find_operator("tests::broken") == nullptr);
  CHECK(overloads_of("tests::broken").empty());
}

TEST_CASE("the user's functions are one object a name") {
  const UserFunction& f = register_function("tests::shuffle", "\"shuffle.hpp\"", true);
  CHECK(f.name == "tests::shuffle");
  CHECK(f.header == "\"shuffle.hpp\"");
  CHECK(f.impure);
  CHECK(&register_function("tests::shuffle") == &f);
  CHECK(f.impure);
  CHECK(find_function("tests::shuffle") == &f);
  CHECK(find_function("tests::unheard_of") == nullptr);
}

TEST_CASE("threads may register and look up at once; pointers stay good") {
  std::vector<std::thread> threads;
  std::set<const Operator*> found[4];
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&found, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string name = "tests::threaded" + std::to_string(i);
        found[t].insert(&register_operator(name + "(Tensor x) -> Tensor"));
        register_function(name);
        (void)overloads_of("aten::add");
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& set : found) {
    CHECK(set == found[0]);
    CHECK(set.size() == 300);
  }
  CHECK(find_operator("tests::threaded7")->schema == "tests::threaded7(Tensor x) -> Tensor");
}

// --- overloads -------------------------------------------------------------------------------------------------------

TEST_CASE("the overload follows from the kinds of the arguments") {
  Two two;
  CHECK(resolved("aten::add", {two.t, two.t}) == "aten::add.Tensor");
  CHECK(resolved("aten::add", {two.t, 2}) == "aten::add.Scalar");
  CHECK(resolved("aten::add", {two.t, 2.5}) == "aten::add.Scalar");
  CHECK(resolved("aten::add", {two.t, two.x}) == "aten::add.Tensor");  // an unknown value fits the first
  CHECK(resolved("aten::pow", {2, two.t}) == "aten::pow.Scalar");
  CHECK(resolved("aten::split", {two.t, 2}) == "aten::split.Tensor");
  CHECK(resolved("aten::split", {two.t, Argument::list({1, 2})}) == "aten::split.sizes");
  CHECK(resolved("aten::max", {two.t}) == "aten::max");
  CHECK(resolved("aten::max", {two.t, 1}) == "aten::max.dim");
  CHECK(resolved("aten::max", {two.t, two.t}) == "aten::max.other");
  CHECK(resolved("aten::to", {two.t, Dtype::float16}) == "aten::to.dtype");
  CHECK(resolved("aten::to", {two.t, two.t}) == "aten::to.other");
  CHECK(resolved("aten::view", {two.t, Argument::list({-1, 3})}) == "aten::view");
  CHECK(resolved("aten::view", {two.t, Dtype::int32}) == "aten::view.dtype");
  CHECK(resolved("aten::where", {two.t}) == "aten::where");
  CHECK(resolved("aten::where", {two.t, 1, two.t}) == "aten::where.ScalarSelf");
}

TEST_CASE("keywords, defaults and positions are held against the schema") {
  Two two;
  CHECK(resolved("aten::add", {two.t, two.t}, {{"alpha", 2}}) == "aten::add.Tensor");
  CHECK(resolved("aten::add", {two.t}, {{"other", two.t}}) == "aten::add.Tensor");
  CHECK(resolved("aten::add", {two.t, two.t, 2}) == "none");                   // alpha is a keyword there
  CHECK(resolved("aten::add", {two.t, 1, 2}) == "aten::add.Scalar");           // and a position here
  CHECK(resolved("aten::add", {two.t}) == "none");                             // too few
  CHECK(resolved("aten::add", {two.t, two.t}, {{"other", two.t}}) == "none");  // given twice
  CHECK(resolved("aten::add", {two.t, two.t}, {{"beta", 1}}) == "none");       // unknown
  CHECK(resolved("aten::add", {two.t, two.t}, {{"alpha", "two"}}) == "none");  // of another kind
  CHECK(resolved("aten::softmax", {two.t, -1}, {{"dtype", Argument()}}) == "aten::softmax.int");
  CHECK(resolved("aten::no_such_operator", {two.t}) == "none");
}

TEST_CASE("what a producer returns decides where its value fits") {
  Two two;
  Node* size = two.g.call_function(ops::operator_getitem, {two.x, 0});  // anything
  Node* pieces = two.g.call_function(ops::chunk, {two.t, 2});           // a list of tensors
  Node* number = two.g.call_function(ops::math_sqrt, {2.0});            // a float
  CHECK(resolved("aten::add", {two.t, size}) == "aten::add.Tensor");
  CHECK(resolved("aten::add", {two.t, number}) == "aten::add.Scalar");
  CHECK(resolved("aten::cat", {pieces, 1}) == "aten::cat");
  CHECK(resolved("aten::cat", {two.t, 1}) == "none");
  CHECK(resolved("aten::relu", {pieces}) == "none");
  CHECK(resolved("aten::relu", {two.g.get_attr("weight")}) == "aten::relu");
}

TEST_CASE("fits: which kinds a parameter takes") {
  const Type integer{.base = ValueType::integer}, real{.base = ValueType::real}, boolean{.base = ValueType::boolean},
      scalar{.base = ValueType::scalar}, tensor{.base = ValueType::tensor}, string{.base = ValueType::string};
  CHECK(fits(1, integer));
  CHECK_FALSE(fits(1.0, integer));
  CHECK_FALSE(fits(true, integer));
  CHECK(fits(1, real));
  CHECK(fits(1.5, real));
  CHECK(fits(true, boolean));
  CHECK_FALSE(fits(1, boolean));
  for (const Argument& number : {Argument(1), Argument(1.5), Argument(true), Argument(Complex{1, 2})})
    CHECK(fits(number, scalar));
  CHECK_FALSE(fits("1", scalar));
  CHECK_FALSE(fits(1, tensor));
  CHECK(fits("a", string));
  CHECK(fits(Dtype::float16, {.base = ValueType::dtype}));
  CHECK(fits(Layout::strided, {.base = ValueType::layout}));
  CHECK(fits(MemoryFormat::channels_last, {.base = ValueType::memory_format}));
  CHECK(fits(Device{}, {.base = ValueType::device}));
  CHECK(fits(Argument::dict({}), {.base = ValueType::other}));
  CHECK_FALSE(fits({}, integer));
  CHECK(fits({}, {.base = ValueType::integer, .optional = true}));
}

TEST_CASE("fits: lists, one number for all of a sized list, optional items") {
  const Type any{.base = ValueType::integer, .list = true},
      two{.base = ValueType::integer, .list = true, .list_size = 2},
      optional_tensors{.base = ValueType::tensor, .list = true, .optional_items = true};
  Graph g;
  Node* t = g.call_function(ops::zeros, {Argument::list({1})});
  CHECK(fits(Argument::list({1, 2, 3}), any));
  CHECK(fits(Argument::tuple({1, 2}), any));
  CHECK(fits(Argument::list({}), any));
  CHECK_FALSE(fits(Argument::list({1, 2.5}), any));
  CHECK_FALSE(fits(1, any));
  CHECK(fits(1, two));
  CHECK_FALSE(fits(1.5, two));
  CHECK_FALSE(fits({}, two));
  CHECK(fits(Argument::list({t, Argument()}), optional_tensors));
  CHECK_FALSE(fits(Argument::list({t, Argument()}), {.base = ValueType::tensor, .list = true}));
  CHECK(fits({}, {.base = ValueType::tensor, .list = true, .optional = true}));
}

// --- what a node calls -----------------------------------------------------------------------------------------------

TEST_CASE("operator_of gives the operator behind every spelling, and remembers it") {
  Two two;
  CHECK(*operator_of(*two.t) == ops::relu.info());
  Node* method = two.g.call_method("add", {two.t, 2});
  CHECK(method->operation() == nullptr);
  CHECK(*operator_of(*method) == ops::add_Scalar.info());
  CHECK(method->operation() == operator_of(*method));
  method->update_arg(1, two.t);
  CHECK(*operator_of(*method) == ops::add_Tensor.info());
  CHECK(operator_of(*two.g.call_method("no_such_method", {two.t})) == nullptr);
  CHECK(operator_of(*two.g.call_method("add", {two.t})) == nullptr);
  CHECK(operator_of(*two.x) == nullptr);
  CHECK(operator_of(*two.g.get_attr("w")) == nullptr);
  CHECK(operator_of(*two.g.call_module("layer", {two.t})) == nullptr);
  CHECK(operator_of(*two.g.call_function(register_function("tests::of"), {two.t})) == nullptr);
  CHECK(operator_of(*two.g.output(two.t)) == nullptr);
}

TEST_CASE("arguments are found by position or name, or taken from the schema") {
  Two two;
  Node* n = two.g.call_function(ops::conv2d, {two.t, two.x}, {{"stride", Argument::list({2, 2})}});
  const Operator& op = *operator_of(*n);
  CHECK(argument_of(*n, op, 0)->node() == two.t);
  CHECK(argument_of(*n, op, 2) == nullptr);
  CHECK(*argument_of(*n, op, 3) == Argument::list({2, 2}));
  CHECK(parameter(*n, "stride") == Argument::list({2, 2}));
  CHECK(parameter(*n, "bias").is_none());
  CHECK(parameter(*n, "dilation") == Argument::list({1, 1}));
  CHECK(parameter(*n, "groups") == Argument(1));
  CHECK(parameter(*two.g.call_function(ops::gelu, {two.t}), "approximate") == Argument("none"));
  CHECK(parameter(*two.g.call_function(ops::leaky_relu, {two.t}), "negative_slope") == Argument(0.01));
  CHECK(parameter(*two.g.call_method("add", {two.t, two.x}), "alpha") == Argument(1));
}

TEST_CASE("literals become arguments") {
  CHECK(to_argument(Literal{}).is_none());
  CHECK(to_argument({.kind = Literal::Kind::none}).is_none());
  CHECK(to_argument(Literal::of(true)) == Argument(true));
  CHECK(to_argument(Literal::of(3)) == Argument(3));
  CHECK(to_argument(Literal::of(0.5)) == Argument(0.5));
  CHECK(to_argument(Literal::of(std::string_view("a"))) == Argument("a"));
  CHECK(to_argument(parse_literal("[1, 2]")) == Argument::list({1, 2}));
}

TEST_CASE("same_value: what says the same as a default") {
  CHECK(same_value(1, Literal::of(1)));
  CHECK(same_value(1, Literal::of(1.0)));
  CHECK(same_value(1.0, Literal::of(1)));
  CHECK_FALSE(same_value(1, Literal::of(2)));
  CHECK_FALSE(same_value(true, Literal::of(1)));
  CHECK(same_value(true, Literal::of(true)));
  CHECK_FALSE(same_value(1, Literal::of(true)));
  CHECK(same_value({}, {.kind = Literal::Kind::none}));
  CHECK_FALSE(same_value(0, {.kind = Literal::Kind::none}));
  CHECK(same_value("a", Literal::of(std::string_view("a"))));
  CHECK_FALSE(same_value(1, Literal{}));  // there is no default
  const Literal pair = parse_literal("[1, 1]"), mixed = parse_literal("[1, 2]");
  const Type two{.base = ValueType::integer, .list = true, .list_size = 2},
      any{.base = ValueType::integer, .list = true};
  CHECK(same_value(Argument::list({1, 1}), pair, two));
  CHECK(same_value(Argument::tuple({1, 1}), pair, any));
  CHECK(same_value(1, pair, two));
  CHECK(same_value(Argument::list({1}), pair, two));
  CHECK_FALSE(same_value(1, pair, any));
  CHECK_FALSE(same_value(1, mixed, two));
  CHECK(same_value(Argument::list({1, 2}), mixed, two));
  CHECK_FALSE(same_value(Argument::list({2, 1}), mixed, two));
  CHECK_FALSE(same_value(Argument::list({1, 1, 1}), pair, two));
  // `int[2] stride=[]`: the default is what the kernel's sizes are.
  const Literal none = parse_literal("[]");
  CHECK(same_value(Argument::list({}), none, two));
  CHECK_FALSE(same_value(Argument::list({2}), none, two));
  CHECK_FALSE(same_value(Argument::list({2, 2}), none, two));
  CHECK_FALSE(same_value(2, none, two));
  // `int[2] padding=0`: the default is one number for both.
  CHECK(same_value(Argument::list({0, 0}), Literal::of(0), two));
  CHECK(same_value(0, Literal::of(0), two));
  CHECK_FALSE(same_value(Argument::list({0, 1}), Literal::of(0), two));
  CHECK_FALSE(same_value(Argument::list({}), Literal::of(0), two));
}

// --- effects ---------------------------------------------------------------------------------------------------------

TEST_CASE("what must stay although nobody uses it") {
  Two two;
  Graph& g = two.g;
  CHECK(is_impure(*two.x));
  CHECK_FALSE(is_impure(*two.t));
  CHECK_FALSE(is_impure(*g.get_attr("w")));
  CHECK(is_impure(*g.call_function(ops::dropout, {two.t, 0.5, true})));
  CHECK_FALSE(is_impure(*g.call_function(ops::dropout, {two.t, 0.5, true}), false));
  CHECK_FALSE(is_impure(*g.call_function(ops::dropout, {two.t, 0.5, false})));
  CHECK_FALSE(is_impure(*g.call_method("add", {two.t, 1})));
  CHECK(is_impure(*g.call_function(ops::relu_, {two.t})));
  CHECK(is_impure(*g.call_method("mul_", {two.t, 2})));
  CHECK(is_impure(*g.call_method("no_such_method_", {two.t})));
  CHECK_FALSE(is_impure(*g.call_method("no_such_method", {two.t})));
  CHECK_FALSE(is_impure(*g.call_function(register_function("tests::pure"), {two.t})));
  CHECK(is_impure(*g.call_function(register_function("tests::prints", {}, true), {two.t})));
  CHECK(is_impure(*g.call_function(register_operator("tests::log(Tensor x) -> ()"), {two.t})));
  CHECK(is_impure(*g.call_module("unknown", {two.t})));
  CHECK(is_impure(*g.output(two.t)));
}

TEST_CASE("effects that follow from what a schema says and what the operator is called") {
  Two two;
  const auto called = [&](std::string_view schema) -> const Node& {
    return *two.g.call_function(register_operator(schema), {two.t});
  };
  for (const char* schema : {
           "effects::log(Tensor x) -> ()",
           "effects::log.level(Tensor x, int level=0) -> ()",
           "_c10d_functional::all_reduce(Tensor input, Any reduce_op, Any group_name) -> Tensor",
           "_c10d_functional::wait_tensor(Tensor tensor) -> Tensor",
           "_c10d_functional_autograd::all_to_all_single(Tensor input, SymInt[] a, SymInt[] b, Any g) -> Tensor",
           "c10d::barrier(Tensor t, __torch__.torch.classes.c10d.ProcessGroup g, int[] d, bool a, int t=-1) -> "
           "__torch__.torch.classes.c10d.Work",
           "profiler::_record_function_enter_new(str name, str? args=None) -> "
           "__torch__.torch.classes.profiler._RecordFunction",
           "aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor",
           "effects::store(Tensor x, __torch__.torch.classes.effects.Cache cache) -> Tensor",
       }) {
    INFO(schema);
    CHECK(is_impure(called(schema), false));
  }
  // Weights are held, and nothing is done to them.
  CHECK_FALSE(is_impure(called("effects::linear(Tensor x, __torch__.torch.classes.quantized.LinearPackedParamsBase w) "
                               "-> Tensor")));
  CHECK_FALSE(is_impure(called("effects::pack(Tensor w) -> __torch__.torch.classes.effects.Packed")));
  // What takes a generator draws from it.
  const Node& noise = called("effects::noise(Tensor x, *, Generator? generator=None) -> Tensor");
  CHECK(draws_numbers(noise));
  CHECK(is_impure(noise));
  CHECK_FALSE(is_impure(noise, false));
}

TEST_CASE("a batch norm has an effect when it trains, or might") {
  Two two;
  const auto batch_norm = [&](Argument training, Argument statistics) {
    return two.g.call_function(ops::batch_norm, {two.t, {}, {}, statistics, statistics, training, 0.1, 1e-5, false});
  };
  CHECK(is_impure(*batch_norm(true, two.t)));
  CHECK_FALSE(is_impure(*batch_norm(false, two.t)));
  CHECK(is_impure(*batch_norm(two.x, two.t)));
  CHECK_FALSE(is_impure(*batch_norm(true, {})));  // there is nothing to update
}

TEST_CASE("a module is as pure as the operator that its owner says it is") {
  struct Modules final : Owner {
    ModuleInfo relu, norm, two_operators;
    Modules() {
      using Part = ModuleInfo::Part;
      relu.operation = &ops::relu.info();
      relu.parts = {{.kind = Part::Kind::input}};
      norm.operation = &ops::batch_norm.info();
      norm.parts.resize(9);
      norm.parts[5].kind = Part::Kind::training;
    }
    const AttributeInfo* find_attribute(std::string_view) const override { return nullptr; }
    const ModuleInfo* find_module(std::string_view name) const override {
      return name == "relu" ? &relu : name == "norm" ? &norm : name == "block" ? &two_operators : nullptr;
    }
    std::vector<const ModuleInfo*> leaf_modules() const override { return {&relu, &norm, &two_operators}; }
  } modules;
  Two two;
  two.g.set_owning_module(&modules);
  Node* norm = two.g.call_module("norm", {two.t});
  CHECK_FALSE(is_impure(*two.g.call_module("relu", {two.t})));
  CHECK(is_impure(*two.g.call_module("block", {two.t})));
  CHECK(is_impure(*two.g.call_module("missing", {two.t})));
  CHECK_FALSE(is_impure(*norm));
  modules.norm.training = true;
  CHECK(is_impure(*norm));
}
