// Tracing at the dispatcher where it is easily got wrong: code that cannot be a graph, code that fails, writes, makes
// views, or runs in several threads; and the table of operators against what LibTorch registers. One long file: each
// that includes LibTorch takes 20 s and 1.3 GB to compile.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorIterator.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <malloc.h>

#include <sstream>
#include <thread>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/torch/fake.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }
/// Nothing is left switched on in this thread.
bool is_off() {
  return !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::DeferredInit) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::DeferredInit) && c10::GradMode::is_enabled();
}
/// Traced with the first inputs, a function gives the same results for all.
void check_function(const Forward& f, const std::vector<Tensors>& inputs) {
  const auto gm = traced(f, inputs[0]);
  CHECK(is_off());
  check_forward([&](const Tensors& in) { return f(cloned(in)); }, nullptr, *gm, inputs);  // f may write to its inputs
}
void check_function(const Forward& f, const std::vector<std::int64_t>& sizes) {
  check_function(f, {{torch::randn(sizes)}, {torch::randn(sizes)}});
}

// --- control flow that depends on data -----------------------------------------------------------------------------

Tensor decides_by_value(const Tensor& x) { return x.sum().item<double>() > 0 ? x : -x; }
Tensor calls_what_decides(const Tensor& x) { return decides_by_value(x * 2) + 1; }

TEST_CASE("code that asks for a traced value is refused, naming the user's function and the value") {
  const Tensor x = torch::rand({3});
  const Fault fault =
      fault_of<TraceError>([&] { traced([](const Tensors& t) { return calls_what_decides(t[0]); }, {x}); });
  CHECK(fault.id == 301);
  CHECK(fault.says("decides_by_value"));
  CHECK(contains(fault.node, "%sum"));
  CHECK(is_off());
  const std::vector<std::pair<const char*, Forward>> asking = {
      {"item", [](const Tensors& t) { return t[0] * t[0].max().item<float>(); }},
      {"item", [](const Tensors& t) { return t[0].narrow(0, 0, t[0].argmax().item<std::int64_t>() + 1); }},
      {"is_nonzero", [](const Tensors& t) { return t[0].mean().is_nonzero() ? t[0] : -t[0]; }},
      {"equal", [](const Tensors& t) { return torch::equal(t[0], t[0].clone()) ? t[0] : -t[0]; }},
      {"allclose", [](const Tensors& t) { return torch::allclose(t[0], torch::zeros({3})) ? t[0] : -t[0]; }},
      {"item", [](const Tensors& t) { return torch::rand({}).item<double>() > 0.5 ? t[0] : -t[0]; }}};
  for (const auto& [name, f] : asking) {
    CAPTURE(name);
    const Fault refused = fault_of<TraceError>([&, &g = f] { traced(g, {x}); });
    CHECK(refused.id == 301);
    CHECK(refused.says(name));
    CHECK(is_off());
  }
  struct Gate : torch::nn::Module {
    Tensor gate = register_parameter("gate", torch::ones({1}));
    Tensor forward(Tensor t) { return gate.item<float>() > 0 ? t : -t; }
  } gate;
  const Fault by_parameter = fault_of<TraceError>([&] { trace(gate, {x}); });
  CHECK(by_parameter.id == 301);
  CHECK(by_parameter.says("Gate"));
}

TEST_CASE("a value that was written through another view of its memory is as unknown as what was written") {
  const auto id_of = [](const Forward& f) { return fault_of<TraceError>([&] { traced(f, {torch::rand({3})}); }).id; };
  CHECK(id_of([](const Tensors& t) {
          const Tensor c = torch::zeros({2}), part = c[0];
          c.add_(t[0].sum());
          return t[0] * part.item<float>();
        }) == 301);
  CHECK(id_of([](const Tensors& t) {
          const Tensor c = torch::zeros({2}), part = c[0];
          part.add_(t[0].sum());
          return t[0] * c[0].item<float>();
        }) == 301);
  // What is computed from the memory is so too.
  CHECK(id_of([](const Tensors& t) {
          const Tensor c = torch::zeros({2, 3});
          c[0].copy_(t[0]);
          return t[0] * c.sum().item<float>();
        }) == 301);
  // Written by an operator that gives nothing back.
  CHECK(id_of([](const Tensors& t) {
          const Tensors sums = {torch::zeros({1})}, parts = {t[0].sum().view({1})};
          at::_foreach_add_(sums, parts);
          return t[0] * sums[0].item<float>();
        }) == 301);
  // Asked under a handle that the trace has not seen.
  const Tensor captured = torch::zeros({});
  CHECK(id_of([&](const Tensors& t) {
          captured.copy_(t[0].sum());
          return t[0] * captured.data().item<float>();
        }) == 301);
  struct Totals : torch::nn::Module {
    Tensor total = register_buffer("total", torch::ones({}));
    bool counts = false;
    Tensor forward(Tensor t) {
      if (counts) total.add_(t.sum());
      return t * total.data().item<float>();
    }
  } totals;
  const Tensor x = torch::rand({3});
  CHECK(same((*trace(totals, {x}))(x), x));
  totals.counts = true;
  CHECK(fault_of<TraceError>([&] { trace(totals, {x}); }).id == 301);
  // Under a guard it passes no gradients on.
  const Forward cut = [](const Tensors& t) {
    const Tensor c = torch::zeros({2, 3});
    c[0].copy_(t[0]);
    const torch::NoGradGuard no_grad;
    const Tensor sum = c.sum();
    const torch::AutoGradMode on(true);
    return t[0] * sum;
  };
  const torch::nn::Module none("None");
  check_forward(cut, &none, *traced(cut, {x}), {{x}});
}

TEST_CASE("questions that do not depend on the inputs are answered: sizes, dtypes, constants, a tensor and itself") {
  check_function(
      [](const Tensors& t) {
        Tensor y = t[0];
        if (y.dim() == 2 && y.size(1) > 2 && y.is_contiguous() && y.scalar_type() == torch::kFloat) y = y.t();
        if (torch::tensor({3}).item<int>() == 3 && torch::arange(4).sum().item<int>() == 6) y = y + 1;
        const Tensor ones = torch::ones({3}), rows = ones.expand_as(t[0]);  // which gives it sizes, and no values
        if (ones.sum().item<float>() == 3) y = y + rows.sum();
        return torch::equal(t[0], t[0]) ? y * y.numel() : y;
      },
      {2, 3});
}

// --- code that fails -----------------------------------------------------------------------------------------------

TEST_CASE("random numbers are drawn in every run, or frozen; operators that write are refused when asked") {
  const auto f = [](Tensor x) { return x + torch::rand({3}) + torch::randn({1}).exp() + torch::rand_like(x); };
  const Tensor x = torch::zeros({3});
  const auto recorded = trace(f, {x});
  CHECK(!same((*recorded)(x), (*recorded)(x)));
  torch::manual_seed(2);
  const Tensor expected = f(x);
  torch::manual_seed(2);
  CHECK(same((*recorded)(x), expected));
  const auto frozen = trace(f, {x}, {.freeze_random = true});
  CHECK(frozen->buffers().size() == 2);
  CHECK(!same((*frozen)(x), (*frozen)(x)));  // rand_like is made of x
  CHECK(count_of(frozen->graph(), ops::rand) == 0);

  const auto writes = [](Tensor t) {
    Tensor y = t.exp();
    y.mul_(2);
    return y;
  };
  const Fault fault = fault_of<TraceError>([&] { trace(writes, {x}, {.check_mutable_operations = true}); });
  CHECK(fault.id == 315);
  CHECK(fault.says("aten::mul_"));
  const auto writes_out = [](Tensor t) {
    Tensor y = torch::empty({3});
    torch::add_out(y, t, t);
    return y;
  };
  const Fault out = fault_of<TraceError>([&] { trace(writes_out, {x}, {.check_mutable_operations = true}); });
  CHECK(out.id == 315);
  CHECK(out.says("aten::add.out"));
  // What LibTorch's own front end writes is put together again before.
  torch::nn::Linear fc(3, 3);
  CHECK(trace(fc, {torch::rand({2, 2, 3})}, {.check_mutable_operations = true})->graph().size() == 5);
}

TEST_CASE(
    "faults say where: the operator, the function and line, the modules; nodes know the modules of their parameters") {
  struct InnerImpl : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 3));
    Tensor forward(Tensor x) {
      x = fc(x);
      return x * x.max().item<float>();
    }
  };
  TORCH_MODULE(Inner);
  struct Outer : torch::nn::Module {
    Inner inner = register_module("inner", Inner());
    bool asks = true;
    Tensor forward(Tensor x) { return asks ? inner(x.exp()) : inner->fc(x.exp()); }
  } outer;
  const Tensor x = torch::rand({2, 3});
  const Fault fault = fault_of<TraceError>([&] { trace(outer, {x}); });
  CHECK(fault.id == 301);
  CHECK(fault.says("aten::item"));
  CHECK(fault.says("%max"));
  CHECK(fault.says("InnerImpl::forward"));
  CHECK(fault.says("Outer, last in inner.fc (torch::nn::Linear)"));
  CHECK(fault.says("decide before tracing"));
  outer.asks = false;
  const auto gm = trace(outer, {x});
  const std::vector<Node*> calls = gm->graph().find_nodes(Opcode::call_module);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0]->module_stack().text() == "inner > inner.fc");
}

TEST_CASE("code can ask whether it is traced, say what its nodes are, and in which module they are") {
  struct Net : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 3));
    Tensor forward(Tensor x) {
      x = x.exp();
      const auto stage = annotate({{"stage", 1}});
      x = fc(x);
      const ModuleScope act("act", "Activation");
      return is_tracing() ? torch::relu(x) : -x;
    }
  } net;
  const Tensor x = torch::rand({2, 3});
  CHECK(same(net.forward(x), -net.fc(x.exp())));
  const auto gm = trace(net, {x});
  CHECK(same((*gm)(x), torch::relu(net.fc(x.exp()))));
  const auto stage_of = [](const Node* node) {
    const auto& custom = node->meta().custom;
    return custom.empty() ? 0 : std::any_cast<int>(custom[0].second);
  };
  const std::vector<Node*> functions = gm->graph().find_nodes(Opcode::call_function);
  REQUIRE(functions.size() == 2);
  CHECK(stage_of(functions[0]) == 0);
  CHECK(stage_of(gm->graph().find_nodes(Opcode::call_module)[0]) == 1);
  CHECK(stage_of(functions[1]) == 1);
  CHECK(functions[1]->module_stack().text() == "act");
}

TEST_CASE("parameters and captured tensors are read once, equal ones apart") {
  const Tensor captured = torch::ones({3}), equal = torch::ones({3});
  struct Net : torch::nn::Module {
    Tensor weight = register_parameter("weight", torch::rand({3}));
    Tensor one, other;
    Tensor forward(Tensor x) { return (x * weight + one) * one + weight + other; }
  } net;
  net.one = captured, net.other = equal;
  const auto gm = trace(net, {torch::rand({3})});
  std::vector<std::string> read;
  for (const Node* node : gm->graph().find_nodes(Opcode::get_attr)) read.push_back(node->target());
  CHECK(read == std::vector<std::string>{"weight", "_tensor_constant0", "_tensor_constant1"});
  check_traced(net, *gm, {{torch::rand({3})}, {torch::randn({3})}});
}

TEST_CASE("attention of torch::nn may be called across: it asks whether query and key are equal, and needs no answer") {
  torch::nn::MultiheadAttention attention(8, 2);
  const Forward across = [&](const Tensors& t) { return std::get<0>(attention(t[0], t[1], t[1])); };
  for (const int length : {5, 7}) {
    const Tensors in{torch::rand({5, 2, 8}), torch::rand({length, 2, 8})};
    const auto gm = traced(across, in);
    CHECK(difference((*gm)(in[0], in[1]), across(in).toTensor()) <= 1e-6);
  }
  // Asked by other code, it is a question about values, unless sizes or dtypes answer it.
  const Forward equal = [](const Tensors& t) { return torch::equal(t[0], t[1]) ? t[0] * 2 : t[1]; };
  CHECK(fault_of<TraceError>([&] { traced(equal, {torch::ones({2}), torch::ones({2})}); }).id == 301);
  CHECK(traced(equal, {torch::ones({2}), torch::ones({3})})->graph().size() == 3);
}

Tensor fails_in_an_operator(const Tensor& x) { return torch::matmul(x, torch::ones({4})); }

TEST_CASE("what forward throws passes as it is, the tracer is off afterwards, and the next trace works") {
  const Tensor x = torch::rand({3});
  struct Mine {
    int number;
  };
  int caught = 0;
  try {
    traced(
        [](const Tensors& t) -> c10::IValue {
          (void)(t[0] + 1);
          throw Mine{7};
        },
        {x});
  } catch (const Mine& e) {
    caught = e.number;
  }
  CHECK(caught == 7);
  CHECK(is_off());
  std::string text;
  try {
    traced([](const Tensors& t) { return fails_in_an_operator(t[0]); }, {x});
  } catch (const c10::Error& e) {
    text = e.what_without_backtrace();
  }
  CHECK(contains(text, "size"));
  CHECK(contains(text, "While tracing 'aten::matmul', called by"));
  CHECK(contains(text, "fails_in_an_operator"));
  CHECK(is_off());
  const Tensor unseen = x * 2 + 1;
  const auto gm = traced([](const Tensors& t) { return t[0].exp(); }, {x});
  CHECK(gm->graph().size() == 3);
  CHECK(same((*gm)(x), x.exp()));
}

TEST_CASE("wrong inputs to trace: too many, too few, undefined, more than a call can take") {
  const Tensor x = torch::rand({3});
  const auto f = [](Tensor a, Tensor b) { return a + b; };
  CHECK(fault_of<TraceError>([&] { trace(f, {x}); }).id == 305);
  CHECK(fault_of<TraceError>([&] { trace(f, {x, x, x}); }).id == 305);
  const Fault fault = fault_of<TraceError>([&] { trace(f, {x, Tensor()}, {.input_names = {"left", "right"}}); });
  CHECK(fault.id == 305);
  CHECK(fault.says("'right'"));
  CHECK(fault_of<TraceError>([&] { trace(f, Tensors(13, x)); }).id == 305);
  CHECK(is_off());
  // Names that are the same, or mean something else in C++.
  const auto gm = trace(f, {x, x + 1}, {.input_names = {"int", "int"}});
  CHECK(same((*gm)(x, x + 1), x + (x + 1)));
  CHECK_FALSE(contains(gm->code(), "Tensor int,"));
}

// --- inputs and results --------------------------------------------------------------------------------------------

TEST_CASE("one tensor given twice is two inputs; inputs may share memory, or be parameters") {
  const Tensor x = torch::rand({3});
  const auto gm = traced([](const Tensors& t) { return t[0] - t[1]; }, {x, x});
  CHECK(same((*gm)(x, x * 3), x - x * 3));
  struct Scales : torch::nn::Module {
    Tensor w = register_parameter("w", torch::rand({3}));
    Tensor forward(Tensor t) { return t * w; }
  } scales;
  const auto of_parameter = trace(scales, {scales.w});
  CHECK(same((*of_parameter)(x), x * scales.w));
  const Tensor matrix = torch::rand({2, 3});
  const auto of_views = trace([](Tensor a, Tensor b) { return a + b; }, {matrix, matrix[0]});
  CHECK(same((*of_views)(matrix, x), matrix + x));
}

TEST_CASE("results: inputs, parameters, constants, one value twice, nothing, numbers and texts, nested") {
  const Tensor captured = torch::rand({2, 3});
  check_function([](const Tensors& t) { return t[0]; }, {2, 3});
  check_function([](const Tensors& t) { return std::vector<Tensor>{t[0], t[0], t[0] + 1, t[0]}; }, {2, 3});
  check_function([&](const Tensors&) { return captured; }, {2, 3});
  check_function([](const Tensors& t) { return t[0].chunk(2, 1)[1]; }, {2, 3});
  const auto nested = [](Tensor t) {
    const Tensor y = t.relu();
    return std::tuple(std::map<std::string, std::vector<Tensor>>{{"b", {y, t}}, {"a", {}}}, std::optional<Tensor>(), 3,
                      2.5, true, std::string("text \"quoted\"\n"), std::pair(y, std::tuple(t.sum())),
                      std::optional<Tensor>(y));
  };
  const auto gm = trace(nested, {captured});
  check_traced(nested, *gm, {{captured}, {captured - 0.5}});
  const auto elements = gm->run({captured}).toTupleRef().elements().vec();
  CHECK(elements[1].isNone());
  CHECK(elements[2].toInt() == 3);
  CHECK(elements[3].toDouble() == 2.5);
  CHECK(elements[4].toBool());
  CHECK(elements[5].toStringRef() == "text \"quoted\"\n");
  CHECK(elements[6].toTupleRef().elements()[1].isTuple());
  // LibTorch's own containers.
  const auto dict = [](Tensor t) {
    c10::Dict<std::string, Tensor> out;
    out.insert("twice", t * 2);
    return std::tuple(out, c10::List<Tensor>({t.exp()}));
  };
  check_traced(dict, *trace(dict, {captured}), {{captured}, {captured - 0.5}});
  CHECK(trace(dict, {captured})->run({captured}).toTupleRef().elements()[0].toGenericDict().contains("twice"));
  // Forward that gives nothing back.
  struct Writes : torch::nn::Module {
    Tensor seen = register_buffer("seen", torch::zeros({2, 3}));
    void forward(Tensor t) { seen.copy_(t); }
  } writes;
  const auto writing = trace(writes, {captured});
  CHECK(writing->run({captured * 2}).isNone());
  CHECK(same(writes.seen, captured * 2));
}

TEST_CASE("a callable beside its module keeps parameters and training flags; alone it is told what it loses") {
  struct Net : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 3));
    torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
    Tensor forward(const Tensor& t, double scale) { return drop(fc(t)) * scale; }
  } net;
  net.eval();
  const Tensor x = torch::rand({2, 3});
  const auto call = [&](const Tensor& t) { return net.forward(t, 2.0); };
  TraceReport report;
  const auto gm = trace(net, call, {x}, {.report = &report});
  CHECK(report.notes.empty());
  CHECK(gm->parameters().size() == 2);
  CHECK(gm->graph().find_nodes(Opcode::call_module).size() == 2);
  CHECK(same((*gm)(x), call(x)));
  gm->train();
  CHECK(!same((*gm)(x), call(x)));
  trace(call, {x}, {.report = &report});
  REQUIRE(report.notes.size() >= 1);
  CHECK(contains(report.notes.back(), "constants of the graph"));
  CHECK(contains(report.notes.back(), "Pass their module beside the callable"));
  CHECK(trace(std::make_shared<Net>(), [](const Tensor& t) { return t * 2; }, {x})->graph().size() == 3);
}

struct Opaque {
  Tensor value;
};

TEST_CASE("an object of a class that graphs do not know is no result") {
  const Fault fault = fault_of<TraceError>([] { trace([](Tensor t) { return Opaque{t}; }, {torch::rand({2})}); });
  CHECK(fault.id == 306);
  CHECK(fault.says("BOOST_HANA_DEFINE_STRUCT"));
}

// --- writing and views ---------------------------------------------------------------------------------------------

TEST_CASE("in-place operators, views, and writing through views are what they were") {
  using torch::indexing::Slice;
  const std::vector<Forward> writing = {[](const Tensors& t) {
                                          t[0].add_(1);
                                          return t[0];
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0].clone();
                                          y.mul_(2).relu_();
                                          return std::vector<Tensor>{y, t[0]};
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0].view(-1);
                                          y.mul_(2);
                                          return std::vector<Tensor>{t[0], y.sum()};
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0] * 1;
                                          y[0] = 5;
                                          y.index_put_({Slice(), 1}, 7);
                                          return y;
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0] * 1;
                                          const Tensor before = y + 0;
                                          y.t().select(0, 2).zero_();
                                          return std::vector<Tensor>{before, y};
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = torch::empty({4, 3});
                                          torch::add_out(y, t[0], t[0] * 2);
                                          return y;
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = torch::zeros({4, 3});
                                          y.copy_(t[0]);
                                          y.index({Slice(1, 3)}).copy_(t[0].index({Slice(0, 2)}));
                                          return y;
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0].detach().clone();
                                          y.masked_fill_(y > 0, -1).clamp_min_(-0.5);
                                          return y;
                                        },
                                        [](const Tensors& t) {
                                          const auto parts = t[0].clone().unbind(0);
                                          parts[1].add_(parts[0]);
                                          return torch::stack(parts);
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0].expand({2, 4, 3}).contiguous();
                                          y.select(0, 1).neg_();
                                          return y.permute({2, 0, 1});
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0] + 0;
                                          y.t_();
                                          y.unsqueeze_(0);
                                          return y.contiguous();
                                        },
                                        [](const Tensors& t) {
                                          Tensor y = t[0] + 0;
                                          for (int i = 0; i < 4; ++i) y[i] += y[(i + 1) % 4];
                                          return y;
                                        }};
  for (std::size_t i = 0; i < writing.size(); ++i) {
    CAPTURE(i);
    check_function(writing[i], {4, 3});
  }
  // The caller's tensor is written to, by the graph as by the code.
  const Tensor x = torch::rand({4, 3});
  const auto gm = traced(writing[0], {x});
  Tensor given = x.clone();
  const Tensor result = (*gm)(given);
  CHECK(same(given, x + 1));
  CHECK(result.is_alias_of(given));
}

TEST_CASE("inputs of other kinds: complex, whole and boolean numbers, halves, without elements or dimensions") {
  const auto kinds = [](at::ScalarType type, const Forward& f) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{2, 3}, {0, 3}, {}})
      check_function(f, {{(torch::randn(sizes) * 3).to(type)}, {(torch::randn(sizes) * 3).to(type)}});
  };
  kinds(torch::kComplexDouble, [](const Tensors& t) { return torch::real(t[0] * c10::complex<double>(1, 2)) + 1; });
  kinds(torch::kLong,
        [](const Tensors& t) { return (t[0] * 3 / 2 + torch::bitwise_right_shift(t[0], 1)).to(torch::kInt) - 1; });
  kinds(torch::kBool,
        [](const Tensors& t) { return torch::where(~t[0], t[0].to(torch::kFloat) * 2, torch::full({}, 5.0)); });
  kinds(torch::kBFloat16,
        [](const Tensors& t) { return torch::softmax(t[0] / 3, -1) * std::numeric_limits<double>::infinity(); });
  kinds(torch::kByte, [](const Tensors& t) { return t[0].sum() + t[0]; });
}

TEST_CASE("one number for all dimensions is what was given, also where the default is none") {
  const auto two = [](std::vector<std::int64_t> sizes) {
    return std::vector<Tensors>{{torch::randn(sizes)}, {torch::randn(sizes)}};
  };
  const std::vector<Tensors> images = two({1, 3, 12, 12}), rows = two({1, 3, 12}), volumes = two({1, 2, 6, 6, 6});
  check_function([](const Tensors& t) { return torch::avg_pool2d(t[0], 4, 2); }, images);
  check_function([](const Tensors& t) { return torch::max_pool2d(t[0], 4, 2) * torch::max_pool2d(t[0], {4, 4}, {2}); },
                 images);
  check_function([](const Tensors& t) { return torch::max_pool1d(t[0], 4, 3) + torch::avg_pool1d(t[0], 4, 3); }, rows);
  check_function([](const Tensors& t) { return torch::max_pool3d(t[0], 3, 1) - torch::avg_pool3d(t[0], 3, 1); }, volumes);
  check_function([](const Tensors& t) { return torch::upsample_nearest2d(t[0], {24, 24}) + 1; }, images);
}

// --- memory that the tracer does not see ---------------------------------------------------------------------------

TEST_CASE("a captured tensor that shares memory with an example is refused, and both are named") {
  const Tensor table = torch::rand({8, 3}), first = table.slice(0, 0, 4), second = table.slice(0, 4, 8);
  for (const Tensor& captured : {first, second}) {
    const auto f = [captured](Tensor t) { return t + captured; };
    const Fault fault = fault_of<TraceError>([&] { trace(f, {second}); });
    CHECK(fault.id == 307);
    CHECK(fault.says("captured"));
    CHECK(fault.says("shares its memory with input"));
    CHECK(is_off());
    CHECK(same((*trace(f, {second.clone()}))(first), first + captured));
  }
}

TEST_CASE("a default that is 0 does not stand for -0") {
  const auto f = [](Tensor t) { return 1 / torch::constant_pad_nd(t, {1, 1}, -0.0); };
  const Tensor x = torch::rand({3}) + 1;
  CHECK(same((*trace(f, {x}))(x), f(x)));
}

TEST_CASE("data() of a traced value is detach(); so is that of a parameter") {
  const Tensor x = torch::rand({3});
  const std::vector<std::pair<const char*, Forward>> forwards{
      {"data", [](const Tensors& t) { return t[0] * (t[0] + 1).data() * t[0].data(); }},
      {"variable_data", [](const Tensors& t) { return t[0] * (t[0] + 1).variable_data(); }},
      {"tensor_data", [](const Tensors& t) { return t[0] * (t[0] + 1).tensor_data(); }},
      {"unused", [](const Tensors& t) { return (t[0] + 1).data(), t[0] * 2; }},
      {"written to",
       [](const Tensors& t) {
         const Tensor y = t[0] * 2;
         y.data().mul_(3).slice(0, 1).add_(1);
         return y + 1;
       }},
      {"written to after it was taken", [](const Tensors& t) {
         Tensor y = t[0] * 2;
         const Tensor data = y.data();
         y.add_(t[0]);
         return data * t[0];
       }}};
  for (const auto& [name, forward] : forwards) {
    CAPTURE(name);
    const auto gm = traced(forward, {x});
    check_forward(forward, nullptr, *gm, {{x}, {torch::rand({3})}});
    const torch::nn::Module none("None");
    const auto given = gradients(forward_of(*gm), none, {x}), expected = gradients(forward, none, {x});
    CHECK(difference(given[0].second, expected[0].second) <= 1e-6);
  }
  const Forward elsewhere = [](const Tensors& t) {
    Tensor data;
    std::thread([&] { data = t[0].data(); }).join();
    return data * 2;
  };
  CHECK(fault_of<TraceError>([&] { traced(elsewhere, {x}); }).id == 321);
  CHECK(is_off());
  struct ReadsData : torch::nn::Module {
    Tensor w = register_parameter("w", torch::rand({3}));
    Tensor forward(Tensor t) { return t * w.data() + w; }
  } reads;
  const auto gm = trace(reads, {x});
  check_traced(reads, *gm, {{x}});
  {
    const torch::NoGradGuard no_grad;
    reads.w.fill_(3);
  }
  CHECK(same((*gm)(x), x * 3 + 3));
}

TEST_CASE("a generator of one's own has no place in a graph; the default one has") {
  const Tensor x = torch::rand({3});
  const auto own = at::make_generator<at::CPUGeneratorImpl>(5);
  const Fault fault =
      fault_of<TraceError>([&] { traced([&](const Tensors& t) { return t[0] + torch::rand({3}, own); }, {x}); });
  CHECK(fault.id == 305);
  CHECK(fault.says("generator"));
  const auto standard = at::detail::getDefaultCPUGenerator();
  const auto gm = traced([&](const Tensors& t) { return t[0] + torch::rand({3}, standard); }, {x});
  CHECK_FALSE(same((*gm)(x), (*gm)(x)));
}

// --- random numbers ------------------------------------------------------------------------------------------------

TEST_CASE("dropout in training draws the numbers that the module draws, and others at each call") {
  struct Drops : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(8, 8));
    torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.4));
    Tensor forward(Tensor t) { return drop(fc(drop(t))) + 0.1 * torch::randn_like(t); }
  } drops;
  const Tensor x = torch::randn({4, 8});
  torch::manual_seed(1);
  const auto gm = trace(drops, {x});
  const torch::NoGradGuard no_grad;
  for (int seed = 0; seed < 3; ++seed) {
    torch::manual_seed(seed);
    const Tensor expected = drops.forward(x);
    torch::manual_seed(seed);
    CHECK(same((*gm)(x), expected));
    CHECK_FALSE(same((*gm)(x), expected));
  }
}

// --- traces in traces, threads -------------------------------------------------------------------------------------

TEST_CASE("batch norm in training is the call of its module, counts with it, and follows eval()") {
  struct Net : torch::nn::Module {
    torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3).bias(false)));
    torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(3));
    torch::Tensor forward(torch::Tensor x) { return torch::relu(norm(conv(x))); }
  } net;
  const torch::Tensor x = torch::randn({4, 2, 6, 6});
  const auto gm = trace(net, {x});
  CHECK(called_modules(gm->graph()) == std::set<std::string>{"conv", "norm"});
  CHECK(gm->graph().size() == 5);
  CHECK(net.norm->num_batches_tracked.item<std::int64_t>() == 1);  // tracing ran it

  const auto before = net.norm->running_mean.clone();
  const auto eager = [&] {
    const auto result = net.forward(x);
    net.norm->running_mean.copy_(before);
    return result;
  };
  net.norm->running_mean.copy_(before);
  CHECK(same((*gm)(x), eager()));
  CHECK(net.norm->num_batches_tracked.item<std::int64_t>() == 3);
  CHECK(rules::inference.apply(*gm).rewrites == 0);
  gm->eval();
  CHECK_FALSE(net.norm->is_training());
  CHECK(same((*gm)(x), net.forward(x)));
  CHECK(net.norm->num_batches_tracked.item<std::int64_t>() == 3);
}

TEST_CASE("a list of numbers in the code is one constant, however LibTorch fills it") {
  const auto text = [](auto f) { return to_string(trace(f, {torch::ones({2, 2})})->graph()); };
  CHECK(text([](torch::Tensor x) {
          return x + torch::tensor({{1, 2}, {3, 4}});
        }) ==
        "graph():\n"
        "    %x : torch::Tensor [num_users=1] = placeholder[target=x]\n"
        "    %_tensor_constant0 : [num_users=1] = get_attr[target=_tensor_constant0]\n"
        "    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %_tensor_constant0), "
        "kwargs = {})\n"
        "    return add");
  const auto f = [](torch::Tensor x) {
    const auto two = torch::tensor({0.5, 2.0}), one = torch::tensor({int64_t{1} << 53 | 1})[0];
    auto flags = torch::empty({2}, torch::kBool), half = torch::empty({2}), none = torch::tensor({}, torch::kLong);
    flags[0].fill_(true), flags[1].fill_(false);
    half[0].fill_(1.0);
    const auto first = half[0] + 1;  // reads it when only a half is there
    half[1].fill_(first);
    return std::make_tuple(two.to(torch::kFloat) * x, one, flags, half, none,
                           torch::tensor({c10::complex<double>(1, 2)}), torch::tensor({1.0f}).add_(x));
  };
  const auto gm = trace(
      [&](torch::Tensor x) {
        const auto [a, b, c, d, e, g, h] = f(x);
        return std::vector<torch::Tensor>{a, b, c, d, e, g, h};
      },
      {torch::rand({1})});
  for (const auto& x : {torch::rand({1}), torch::rand({1})}) {
    const auto [a, b, c, d, e, g, h] = f(x);
    const auto given = gm->run({x}).toTensorVector();
    const std::vector<torch::Tensor> expected = {a, b, c, d, e, g, h};
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      CHECK(same(given[i], expected[i]));
    }
  }
}

TEST_CASE("a filled list with a memory format, and a copy of one, are not the list itself") {
  const Forward formatted = [](const Tensors& t) {
    const Tensor c =
        torch::empty({1, 2, 2, 1}, torch::dtype(t[0].dtype()).memory_format(torch::MemoryFormat::ChannelsLast));
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) c[0][i][j][0].fill_(i + j * 3);
    return t[0] + c.as_strided({4}, {1});
  };
  check_function(formatted, {{torch::rand({4})}, {torch::rand({4})}});
  const Forward copied = [](const Tensors& t) {
    const Tensor c = torch::empty({2});
    c[0].fill_(1), c[1].fill_(2);
    const Tensor d = c.to(torch::TensorOptions(), false, /*copy=*/true);
    d.add_(t[0]);
    return std::vector<Tensor>{c, d};
  };
  check_function(copied, {{torch::rand({2})}, {torch::rand({2})}});
}

TEST_CASE("constants are kept as they are when they are met: memory of others, what is written to, what C++ filled") {
  const auto same_again = [](auto f) {
    const auto gm = trace(f, {torch::randn({4})});
    for (int i = 0; i < 2; ++i) {
      const torch::Tensor x = torch::randn({4});
      CHECK(same((*gm)(x), f(x)));
    }
  };
  same_again([](torch::Tensor x) {
    std::vector<float> values = {1, 2, 3, 4};
    return x * torch::from_blob(values.data(), {4});
  });
  same_again([](torch::Tensor x) {
    torch::Tensor h = torch::tensor({1.f, 2.f, 3.f, 4.f});
    h += x;
    return h;
  });
  same_again([](torch::Tensor x) {
    torch::Tensor order = torch::empty({4}, torch::kLong);
    for (std::int64_t i = 0; i < 4; ++i) order.data_ptr<std::int64_t>()[i] = 3 - i;
    return x.index_select(0, order);
  });
  same_again([](torch::Tensor x) {
    torch::Tensor order = torch::empty({4}, torch::kInt);
    for (int i = 0; i < 4; ++i) order.data_ptr<int>()[i] = 3 - i;
    return x.index_select(0, order.to(torch::kLong));
  });
  same_again([](torch::Tensor x) {
    torch::Tensor weights = torch::empty({4});
    for (int i = 0; i < 4; ++i) weights.data_ptr<float>()[i] = static_cast<float>(i);
    return x * weights.add_(1);
  });
  // What operators write is no constant.
  same_again([](torch::Tensor x) {
    torch::Tensor m = torch::empty({2, 4});
    m[0].copy_(x), m[1].fill_(2);
    return m * 2;
  });
}

TEST_CASE("a constant that forward makes and returns is the caller's to write to, one that it captured is itself") {
  const Tensor captured = torch::ones({2}), x = torch::rand({2});
  const auto f = [&](Tensor t) {
    const Tensor filled = torch::empty({2});
    filled.data_ptr<float>()[0] = filled.data_ptr<float>()[1] = 3;
    return std::vector<Tensor>{t + 1, torch::tensor({1.f, 2.f}), filled.view({2, 1}), captured};
  };
  const auto gm = trace(f, {x});
  const Tensors first = tensors_of(gm->run({x}));
  for (std::size_t i = 0; i < 3; ++i) first[i].add_(1);
  const Tensors second = tensors_of(gm->run({x})), expected = f(x);
  REQUIRE(second.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(same(second[i], expected[i]));
  }
  CHECK(second[3].is_alias_of(captured));
}

TEST_CASE("memory that C++ fills: read and written through views, in parts, again and again") {
  const auto same_again = [](auto f) {
    const auto gm = trace(f, {torch::randn({4})});
    gm->graph().lint();
    for (int i = 0; i < 2; ++i) {
      const torch::Tensor x = torch::randn({4});
      CHECK(same((*gm)(x), f(x)));
    }
    return gm;
  };
  const auto fill = [](const Tensor& t, float from) {
    for (std::int64_t i = 0; i < t.numel(); ++i) t.data_ptr<float>()[i] = from + static_cast<float>(i);
  };
  const auto is_constant = [](const GraphModule& gm) {
    for (const Node* node : gm.graph().nodes())
      if (node->operation() && node->operation()->base_name() == "empty") return false;
    return true;
  };
  // Written through a view of it, whole and in part.
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 1);
    c.view({2, 2}).add_(1);
    return c * x;
  })));
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 1);
    c[1] = 7, c.slice(0, 2, 3).copy_(x.slice(0, 0, 1));
    return c * x;
  })));
  // The view was there before.
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({4}), v = c.view({2, 2});
    fill(c, 1);
    const Tensor y = v.sum(0);
    c.mul_(2);
    return torch::cat({y, v.view({4}) * x});
  })));
  // Filled between two parts that operators write.
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({2, 2});
    fill(c, 5);
    c[0].copy_(x.slice(0, 0, 2));
    return c * 2;
  })));
  // Overwritten by an operator, what C++ wrote is gone; read without being written, it is what it happens to be.
  CHECK(!is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 1);
    return c.copy_(x) + 1;
  })));
  CHECK(!is_constant(*same_again([&](Tensor x) { return torch::zeros_like(torch::empty({4})) + x; })));
  // A buffer of C++'s, used again and again.
  same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    Tensor sum = x;
    for (int i = 0; i < 3; ++i) {
      fill(c, static_cast<float>(i));
      sum = sum + c + c;
    }
    return sum;
  });
  // Copies of what C++ filled.
  same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 2);
    const Tensor d = c.to(torch::kDouble), e = c.contiguous();
    d.add_(1);
    return e + d.to(torch::kFloat) * x;
  });
  // Random operators that read what they write do not overwrite it.
  const auto dropped = trace(
      [&](Tensor x) {
        Tensor c = torch::empty({4});
        fill(c, 1);
        return torch::dropout_(c, 0.5, true) + x;
      },
      {torch::zeros({4})});
  CHECK(is_constant(*dropped));
  const Tensor kept = (*dropped)(torch::zeros({4}));
  CHECK(same(kept * (kept - torch::tensor({2.f, 4.f, 6.f, 8.f})), torch::zeros({4})));
  // What only has the sizes of fresh memory is not made of it, and nobody's memory is marked.
  const Tensor bias = torch::rand({4}), before = bias.clone();
  same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    c.copy_(bias.expand_as(c) + x.type_as(c) + x.reshape_as(c));
    return c;
  });
  CHECK(same(bias, before));
  same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 1);
    return x.type_as(c) + torch::einsum("i,i->i", {c, x}) + x.reshape_as(c);
  });
  // Operators in place, and with out, read what they do not write; views read where they begin.
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor mask = torch::empty({4}, torch::kBool);
    for (int i = 0; i < 4; ++i) mask.data_ptr<bool>()[i] = i % 2 == 0;
    return (x * 1).masked_fill_(mask, -1e9);
  })));
  same_again([&](Tensor x) {
    const Tensor c = torch::empty({4}), y = x * 1;
    Tensor out = torch::empty({4});
    fill(c, 1);
    y.add_(c);
    fill(c, 5);
    y[0].copy_(c[1]);
    fill(c, 9);
    return torch::add_out(out, y, c);
  });
  same_again([&](Tensor x) {
    const Tensor start = torch::empty({}, torch::kLong);
    start.data_ptr<std::int64_t>()[0] = 1;
    return x.narrow(0, start, 2);
  });
  // Other sizes are no other values, and what is made of the memory itself needs them.
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 1);
    c.resize_({2, 2});
    return c.view({4}) * x;
  })));
  CHECK(is_constant(*same_again([&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 3);
    return c.fill_(c[0]) * x;
  })));
  // Overlapping and odd memory.
  same_again([&](Tensor x) {
    const Tensor c = torch::empty_strided({4}, {0});
    c.data_ptr<float>()[0] = 3;
    return c * x;
  });
  same_again([&](Tensor x) {
    const Tensor c = torch::empty_strided({2, 2}, {8, 1});
    c.data_ptr<float>()[0] = c.data_ptr<float>()[1] = c.data_ptr<float>()[8] = c.data_ptr<float>()[9] = 3;
    return c.reshape({4}) * x;
  });
  same_again([&](Tensor x) {
    const Tensor c = torch::empty({4}, torch::kBool);
    for (int i = 0; i < 4; ++i) c.data_ptr<bool>()[i] = i % 2 == 0;
    return torch::where(c, x, -x);
  });
  // An operator after a second filling has nothing to write to.
  const auto twice = [&](Tensor x) {
    const Tensor c = torch::empty({4});
    fill(c, 1);
    const Tensor y = x + c;
    fill(c, 2);
    return c.add_(y);
  };
  const Fault fault = fault_of<TraceError>([&] { trace(twice, {torch::randn({4})}); });
  CHECK(fault.id == 320);
  CHECK(fault.says("second time"));
}

TEST_CASE("operators that give nested tensors are refused by name") {
  const Fault fault = fault_of<TraceError>([] {
    traced(
        [](const Tensors& t) {
          return torch::_nested_tensor_from_tensor_list({t[0], t[0] * 2});
        },
        {torch::rand({3})});
  });
  CHECK(fault.id == 305);
  CHECK(fault.says("_nested_tensor_from_tensor_list"));
  CHECK(is_off());
}

TEST_CASE("sparse inputs are refused by name") {
  const Tensor dense = torch::eye(3);
  for (const Tensor& x : {dense.to_sparse(), dense.to_sparse_csr()}) {
    const Fault fault = fault_of<TraceError>([&] {
      trace([](Tensor a) { return a.matmul(torch::ones({3, 3})); }, {x});
    });
    CHECK(fault.says("'x'"));
    CHECK(fault.says("Sparse"));
    CHECK(is_off());
  }
}

TEST_CASE("set_data of a traced value is refused") {
  const auto f = [](torch::Tensor x) {
    torch::Tensor o = x.clone();
    o.set_data(x * 2);
    return o * 2;
  };
  CHECK(fault_of([&] { trace(f, {torch::randn({4})}); }).says("set_data()"));
  // Nor may a tensor of a module get it, which is how Module::to() converts parameters.
  struct Converts : torch::nn::Module {
    torch::nn::Linear fc{4, 4};
    Tensor seen = register_buffer("seen", torch::zeros({4}));
    bool all = false;
    Converts() { register_module("fc", fc); }
    Tensor forward(Tensor x) {
      if (all) fc->to(torch::kDouble);
      else seen.set_data(x * 2);
      return seen + fc->weight[0];
    }
  } converts;
  for (const bool all : {false, true}) {
    converts.all = all;
    CHECK(fault_of<TraceError>([&] { trace(converts, {torch::randn({4})}); }).id == 307);
    CHECK(is_off());
  }
}

TEST_CASE("a write to a parameter happens once, as in one run of the code") {
  struct Halves : torch::nn::Module {
    Tensor p = register_parameter("p", torch::full({2}, 8.F));
    Tensor seen = register_buffer("seen", torch::zeros({2}));
    Tensor forward(Tensor x) {
      const torch::NoGradGuard no_grad;
      p.mul_(0.5);
      p.view({2, 1}).sub_(1);
      seen.add_(1);
      return x + p;
    }
  } halves;
  const auto gm = trace(halves, {torch::ones({2})});
  CHECK(torch::equal(halves.p, torch::full({2}, 3.F)));
  CHECK(torch::equal(halves.seen, torch::ones({2})));
  CHECK(halves.p.requires_grad());
  CHECK(torch::equal((*gm)(torch::ones({2})), torch::full({2}, 1.5F)));
  // Nor do the runs that look for sizes write to it.
  Halves probed;
  TraceReport report;
  trace(probed, {torch::ones({2})}, {.strict = true, .report = &report});
  CHECK(torch::equal(probed.p, torch::full({2}, 3.F)));
}

TEST_CASE("a view of a buffer that was made before the trace is read; writing through it is refused") {
  struct Rows : torch::nn::Module {
    Tensor table = register_buffer("table", torch::rand({3, 4})), row = table[1];
    bool writes = false;
    Tensor forward(Tensor x) {
      if (writes) row.add_(1);
      return x * row + table[0];
    }
  } rows;
  const Tensor x = torch::rand({4});
  const auto gm = trace(rows, {x});
  rows.table.mul_(2);
  CHECK(same((*gm)(x), rows.forward(x)));
  rows.writes = true;
  CHECK(fault_of<TraceError>([&] { trace(rows, {x}); }).id == 307);
  // It follows what forward writes to the buffer.
  struct Average : torch::nn::Module {
    Tensor stats = register_buffer("stats", torch::zeros({2, 4})), mean = stats[0];
    Tensor forward(Tensor t) {
      const Tensor y = t - mean;
      stats.mul_(0.9).add_(t.mean(0));
      return y;
    }
  } average, eager;
  const Tensor batch = torch::rand({3, 4});
  const auto averaging = trace(average, {batch});
  eager.forward(batch);
  for (int i = 0; i < 3; ++i) CHECK(same((*averaging)(batch), eager.forward(batch)));
}

TEST_CASE("what nobody uses but has an effect stays: statistics of a batch norm, the next random numbers") {
  struct Net : torch::nn::Module {
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
    torch::Tensor forward(torch::Tensor x) { return norm(x * 2), x * 2; }
  } net;
  const torch::Tensor x = torch::randn({3, 4});
  const auto gm = trace(net, {x});
  const torch::Tensor before = net.norm->running_mean.clone();
  (*gm)(x);
  CHECK_FALSE(torch::equal(net.norm->running_mean, before));

  const auto draws = [](torch::Tensor x) { return torch::randn({3, 8}).mul(2), torch::rand_like(x); };
  const auto drawing = trace(draws, {x});
  torch::manual_seed(1);
  const torch::Tensor expected = draws(x);
  torch::manual_seed(1);
  CHECK(same((*drawing)(x), expected));
}

TEST_CASE("a trace inside a trace: both graphs are whole") {
  std::shared_ptr<GraphModule> inner;
  const Forward f = [&](const Tensors& t) {
    const Tensor y = t[0].exp();
    inner = traced([](const Tensors& u) { return u[0].neg() * 2; }, {torch::ones({3})});
    const Tensor z = (*inner)(y);
    // One that fails on the way.
    CHECK(fault_of<TraceError>([&] {
            traced([](const Tensors& u) { return u[0] * u[0].item<float>(); }, {torch::ones({})});
          }).id == 301);
    return z + 1;
  };
  const Tensor x = torch::rand({3});
  const auto outer = traced(f, {x});
  CHECK(is_off());
  CHECK(same((*outer)(x), x.exp().neg() * 2 + 1));
  CHECK(same((*inner)(x), x.neg() * 2));
  CHECK(outer->buffers().empty());
  CHECK(count_of(inner->graph(), ops::neg) == 1);
  CHECK(count_of(outer->graph(), ops::neg) == 1);
  CHECK(count_of(inner->graph(), ops::exp) == 0);
}

TEST_CASE("threads trace at once, while others compute unwatched") {
  const Tensor x = torch::rand({16});
  std::atomic<int> wrong = 0;
  std::atomic<bool> done = false;
  std::thread unwatched([&] {
    while (!done) wrong += !same(x + x, x * 2);
  });
  std::vector<std::thread> tracing;
  for (int n = 1; n <= 4; ++n)
    tracing.emplace_back([&, n] {
      for (int round = 0; round < 10; ++round) {
        const auto gm = traced(
            [&](const Tensors& t) {
              Tensor y = t[0];
              for (int i = 0; i < n * 10; ++i) y = y * 1.01 + n;
              return y;
            },
            {x});
        wrong += gm->graph().size() != static_cast<std::size_t>(20 * n + 2);
        Tensor y = x;
        for (int i = 0; i < n * 10; ++i) y = y * 1.01 + n;
        wrong += !same((*gm)(x), y);
      }
    });
  for (std::thread& thread : tracing) thread.join();
  done = true;
  unwatched.join();
  CHECK(wrong == 0);
}

TEST_CASE("operators that another thread calls with traced tensors are refused; its other results are constants") {
  const Tensor x = torch::rand({3});
  for (const bool used : {true, false}) {
    const Forward computes = [used](const Tensors& t) {
      Tensor y;
      std::thread([&] { y = t[0] * 2; }).join();
      CHECK(y.dim() == 1);  // the thread itself goes on undisturbed
      return used ? y + t[0] : t[0];
    };
    const Fault fault = fault_of<TraceError>([&] { traced(computes, {x}); });
    CHECK(fault.id == 321);
    CHECK(fault.says("aten::mul"));
    CHECK(is_off());
  }
  const Forward constant = [](const Tensors& t) {
    Tensor y;
    std::thread([&] { y = torch::full({3}, 2.f); }).join();
    return y + t[0];
  };
  const auto gm = traced(constant, {x});
  CHECK(same((*gm)(x), x + 2));
}

TEST_CASE("elements of a traced tensor are out of C++'s reach, those of constants and parameters are not") {
  const Tensor x = torch::rand({3});
  const auto refused = [&](const Forward& f) {
    const Fault fault = fault_of<TraceError>([&] { traced(f, {x}); });
    CHECK(fault.id == 320);
    CHECK(is_off());
    return fault;
  };
  const Fault fault = refused([](const Tensors& t) { return t[0] * t[0].data_ptr<float>()[0]; });
  CHECK(fault.says("%x"));
  CHECK(fault.says("operator()"));
  CHECK(fault.says("TORCH_LIBRARY"));
  refused([](const Tensors& t) { return t[0] * t[0].accessor<float, 1>()[1]; });
  refused([](const Tensors& t) { return (t[0] + 1) * static_cast<double>(t[0].storage().nbytes()); });
  refused([](const Tensors& t) {
    const Tensor z = torch::zeros({3});  // filled by C++ over what an operator wrote
    z.data_ptr<float>()[1] = 3;
    return t[0] * z;
  });
  refused([](const Tensors& t) {
    const Tensor z = torch::empty({3});
    z.copy_(t[0]);
    return t[0] * z.data_ptr<float>()[0];
  });
  refused([](const Tensors& t) { return t[0] + torch::from_blob(t[0].data_ptr(), {3}); });
  // Behind the checks of LibTorch, its own error has the words.
  const auto refused_by_storage = [&](const Forward& f) {
    std::string text;
    try {
      traced(f, {x});
    } catch (const std::exception& error) {
      text = error.what();
    }
    CHECK(contains(text, "E320"));
    CHECK(is_off());
  };
  refused_by_storage([](const Tensors& t) {
    const void* const data = t[0].unsafeGetTensorImpl()->unsafe_storage().data();
    return t[0] * (data ? 2 : 3);
  });
  refused_by_storage([](const Tensors& t) {
    const Tensor out = torch::empty({3});
    const Tensor in = t[0] * 2;
    auto iterator = at::TensorIteratorConfig().add_output(out).add_input(in).build();
    iterator.for_each([](char**, const std::int64_t*, std::int64_t) {});
    return out;
  });
  struct Reads : torch::nn::Module {
    Tensor w = register_parameter("w", torch::rand({3}));
    Tensor forward(Tensor t) { return t * w.data_ptr<float>()[0]; }
  } reads;
  CHECK(same((*trace(reads, {x}))(x), x * reads.w.data_ptr<float>()[0]));
}

TEST_CASE("traced tensors that the code keeps are ordinary ones afterwards") {
  struct Keeps : torch::nn::Module {
    Tensor sum, view;
    Tensor forward(Tensor x) {
      sum = sum.defined() ? sum + x : x * 1;
      view = sum.slice(0, 1);
      return sum * 2;
    }
  } keeps;
  const Tensor x = torch::rand({3});
  const auto gm = trace(keeps, {x});
  CHECK(same(keeps.sum, x));
  CHECK(keeps.sum.is_contiguous());
  CHECK(keeps.sum.data_ptr<float>()[2] == x[2].item<float>());
  CHECK(keeps.view.storage().is_alias_of(keeps.sum.storage()));
  CHECK(same(keeps.sum.data(), x));
  keeps.view.fill_(7);
  CHECK(keeps.sum[1].item<float>() == 7);
  const Tensor before = keeps.sum.clone();
  CHECK(same(keeps.forward(x), (before + x) * 2));
  const Tensor z = keeps.sum.clone().requires_grad_();
  (z * keeps.sum).sum().backward();
  CHECK(same(z.grad(), keeps.sum));
}

TEST_CASE("sparse and quantised tensors that the code keeps work afterwards, in the next trace as well") {
  struct Keeps : torch::nn::Module {
    Tensor sparse, quantised;
    Tensor forward(Tensor x) {
      if (!sparse.defined()) {
        sparse = x.to_sparse();
        quantised = torch::quantize_per_tensor(x, 0.5, 0, torch::kQInt8);
      }
      return torch::mm(sparse, x) + quantised.dequantize();
    }
  } keeps;
  const Tensor x = torch::eye(3), y = torch::rand({3, 3});
  TraceReport report;
  const auto gm = trace(keeps, {x}, {.report = &report});
  CHECK(contains(report.to_string(), "holds on to"));
  CHECK(same((*gm)(x), x + x));
  CHECK(keeps.sparse.is_sparse());
  CHECK(same(keeps.sparse.to_dense(), x));
  CHECK(same(keeps.quantised.int_repr(), (x * 2).to(torch::kChar)));
  CHECK(same(keeps.forward(y), y + x));
  const auto next = trace(keeps, {y});
  CHECK(same((*next)(x), x + x));
  CHECK(is_off());
}

TEST_CASE("a tensor that gets other sizes in place under a NoGradGuard has them in the graph") {
  const Forward sizes = [](const Tensors& t) {
    const Tensor y = t[0] * 2;
    {
      const torch::NoGradGuard no_grad;
      y.unsqueeze_(0);
    }
    return y + 1;
  };
  const Forward history = [](const Tensors& t) {
    const Tensor y = t[0] * 2;
    {
      const torch::NoGradGuard no_grad;
      y.detach_();
    }
    return t[0] * y;
  };
  const torch::nn::Module none("None");
  const Tensor x = torch::rand({2, 3});
  for (const Forward& f : {sizes, history}) check_forward(f, &none, *traced(f, {x}), {{x}, {torch::rand({2, 3})}});
}

TEST_CASE("a NoGradGuard inside forward: values the same, gradients cut off where the code cuts them") {
  struct Cuts : torch::nn::Module {
    Tensor w = register_parameter("w", torch::rand({3}, torch::kDouble)),
           ema = register_buffer("ema", torch::rand({3}, torch::kDouble));
    Tensor forward(Tensor x) {
      Tensor scale;
      {
        const torch::NoGradGuard no_grad;
        scale = (x * w).exp().sum();
        scale += x[0];
        ema.mul_(0.5).add_(w * 0.5);
      }
      return x * w / scale + ema;
    }
  } net;
  const Tensor x = torch::rand({3}, torch::kDouble);
  const Tensor before = net.ema.clone();
  const auto gm = trace(net, {x});
  const auto restart = [&] {
    const torch::NoGradGuard no_grad;
    net.ema.copy_(before);
  };
  const auto outcome = [&](auto&& forward) {
    restart();
    net.w.mutable_grad() = Tensor();
    const Tensor in = x.clone().requires_grad_();
    const Tensor out = forward(in);
    (out * torch::arange(1, 4, torch::kDouble)).sum().backward();
    return std::tuple(out.detach(), in.grad(), net.w.grad(), net.ema.clone());
  };
  const auto [a, b, c, d] = outcome([&](const Tensor& in) { return net.forward(in); });
  const auto [e, f, g, h] = outcome([&](const Tensor& in) { return (*gm)(in); });
  CHECK(same(a, e));
  CHECK(same(b, f));
  CHECK(same(c, g));
  CHECK(same(d, h));
  CHECK(count_of(gm->graph(), ops::detach) >= 2);
  // Traced without gradients altogether, nothing is cut off.
  const torch::NoGradGuard no_grad;
  CHECK(count_of(trace(net, {x})->graph(), ops::detach) == 0);
}

TEST_CASE("autocast, function transforms, gradients inside forward and values computed before are refused") {
  const Tensor x = torch::rand({3});
  const auto id_of = [&](const Forward& f) { return fault_of<TraceError>([&] { traced(f, {x}); }).id; };
  const auto autocast = [](bool on) { at::autocast::set_autocast_enabled(at::kCPU, on); };
  autocast(true);
  CHECK(id_of([](const Tensors& t) { return t[0] * 2; }) == 323);
  autocast(false);
  CHECK(id_of([&](const Tensors& t) {
          autocast(true);
          try {
            return t[0] * 2;
          } catch (...) {
            autocast(false);
            throw;
          }
        }) == 323);
  CHECK(id_of([](const Tensors& t) {
          const Tensor y = t[0] * 2;
          y.sum().backward();
          return y;
        }) == 325);
  CHECK(id_of([](const Tensors& t) {
          const Tensor y = t[0].requires_grad_().exp();
          return torch::autograd::grad({y.sum()}, {t[0]})[0];
        }) == 325);
  const Tensor w = torch::rand({3}).requires_grad_(), computed = w * 2;
  CHECK(id_of([&](const Tensors& t) { return t[0] * computed; }) == 324);
  CHECK(id_of([&](const Tensors& t) { return t[0] * computed.detach(); }) == 0);
  CHECK(id_of([&](const Tensors& t) { return t[0] * w; }) == 0);
  CHECK(is_off());
}

struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& grads) {
    return {grads[0] * 3};  // not what autograd would have made of forward
  }
};

TEST_CASE("a torch::autograd::Function in forward would lose its backward: it is refused, outside it works") {
  const Tensor x = torch::rand({3});
  const auto uses_function = [](const Tensors& t) { return Doubled::apply(t[0].exp()) + 1; };
  const Fault fault = fault_of<TraceError>([&] { traced(uses_function, {x}); });
  CHECK(fault.id == 325);
  CHECK(fault.says("torch::autograd::Function"));
  CHECK(is_off());
  const auto check_outside = [&] {
    const Tensor z = x.clone().requires_grad_();
    Doubled::apply(z).sum().backward();
    CHECK(same(z.grad(), torch::full({3}, 3.f)));
  };
  check_outside();
  // In a trace within a trace, and after it in the outer one.
  const auto inner = [&](const Tensors& t) {
    traced([](const Tensors& u) { return u[0] * 2; }, {torch::rand({2})});
    return uses_function(t);
  };
  CHECK(fault_of<TraceError>([&] { traced(inner, {x}); }).id == 325);
  // Threads of the code's own are none of the trace's.
  const auto gm = traced(
      [&](const Tensors& t) {
        std::thread(check_outside).join();
        return t[0] * 2;
      },
      {x});
  CHECK(same((*gm)(x), x * 2));
}

Tensor doubled_with_gradient(const Tensor& x) { return Doubled::apply(x); }
Tensor doubled_plainly(const Tensor& x) { return x * 2; }
std::int64_t count_positive(const Tensor& x) { return (x > 0).sum().item<std::int64_t>(); }
Tensor add_first(const Tensor& x) { return x + *x.data_ptr<float>(); }
std::tuple<Tensor, std::int64_t> halve_and_count(const Tensor& x) { return {x / 2, count_positive(x)}; }
TORCH_LIBRARY(fxx_trace_test, m) {
  m.def("doubled(Tensor x) -> Tensor");
  m.def("count(Tensor x) -> int");
  m.def("halved(Tensor x) -> (Tensor, int)");
  m.def("first_added(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(fxx_trace_test, CPU, m) {
  m.impl("doubled", &doubled_plainly);
  m.impl("count", &count_positive);
  m.impl("halved", &halve_and_count);
  m.impl("first_added", &add_first);
}
TORCH_LIBRARY_IMPL(fxx_trace_test, Autograd, m) { m.impl("doubled", &doubled_with_gradient); }

TEST_CASE("an operator whose kernel is an autograd function is one node, and has its backward") {
  const auto doubled = [](const Tensors& t) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fxx_trace_test::doubled", "");
    return op.typed<Tensor(const Tensor&)>().call(t[0].exp());
  };
  const Tensor x = torch::rand({3});
  const auto gm = traced(doubled, {x});
  CHECK(gm->graph().size() == 4);
  const Tensor z = x.clone().requires_grad_();
  (*gm)(z).sum().backward();
  CHECK(same(z.grad(), x.exp() * 3));
}

TEST_CASE("an operator of one's own may read the elements of what it is given") {
  const auto added = [](const Tensors& t) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fxx_trace_test::first_added", "");
    return op.typed<Tensor(const Tensor&)>().call(t[0] * 2);
  };
  const auto gm = traced(added, {torch::rand({3})});
  const Tensor x = torch::rand({3});
  CHECK(same((*gm)(x), x * 2 + x[0] * 2));
}

TEST_CASE("numbers that operators make of elements are refused, beside tensors as well; those of constants are not") {
  const auto count = [](const Tensor& x) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fxx_trace_test::count", "");
    return op.typed<std::int64_t(const Tensor&)>().call(x);
  };
  const auto halved = [](const Tensor& x) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fxx_trace_test::halved", "");
    return op.typed<std::tuple<Tensor, std::int64_t>(const Tensor&)>().call(x);
  };
  const Tensor x = torch::rand({2, 3});
  const auto refused = [&](const char* name, const Forward& f) {
    CAPTURE(name);
    const Fault fault = fault_of<TraceError>([&] { traced(f, {x}); });
    CHECK(fault.id == 301);
    CHECK(fault.says(name));
    CHECK(is_off());
  };
  refused("fxx_trace_test::count", [&](const Tensors& t) { return t[0] * count(t[0]); });
  refused("fxx_trace_test::halved", [&](const Tensors& t) {
    const std::tuple<Tensor, std::int64_t> result = halved(t[0]);
    return std::get<0>(result) * std::get<1>(result);
  });
  refused("aten::_choose_qparams_per_tensor", [](const Tensors& t) {
    const std::tuple<double, std::int64_t> scale_and_zero = at::_choose_qparams_per_tensor(t[0]);
    return t[0] * std::get<0>(scale_and_zero) + std::get<1>(scale_and_zero);
  });
  refused("aten::_nnz", [](const Tensors& t) { return t[0] * t[0].to_sparse()._nnz(); });
  const auto gm = traced(
      [&](const Tensors& t) {
        return t[0] * count(torch::ones({3})) * static_cast<std::int64_t>(t[0].is_same_size(t[0] + 1));
      },
      {x});
  CHECK(same((*gm)(x), x * 3));
}

TEST_CASE("operators that give a tensor and a list of them: each item is what it was") {
  const Forward f = [](const Tensors& t) {
    const std::vector<std::int64_t> bins = {2, 3};
    const auto result = torch::histogramdd(t[0], bins);
    return std::vector<Tensor>{std::get<1>(result)[1], std::get<0>(result), std::get<1>(result)[0]};
  };
  const auto gm = traced(f, {torch::rand({5, 2})});
  const Tensor x = torch::rand({7, 2});
  CHECK(relative_difference(gm->run({x}), f({x})) == 0);
}

using torch::indexing::Slice;

TEST_CASE("sizes that elements decide are told when the code reads them, and refused under strict") {
  const Tensor x = torch::tensor({1.f, -2.f, 3.f, -4.f, 5.f});
  const auto notes_of = [&](auto&& f) {
    TraceReport report;
    trace(f, {x}, {.report = &report});
    return report.notes;
  };
  const auto told = [&](std::string_view what, auto f) {
    CAPTURE(what);
    const std::vector<std::string> notes = notes_of(f);
    REQUIRE(notes.size() == 1);
    CHECK(contains(notes[0], what));
    CHECK(contains(notes[0], "elements"));
    const Fault strict = fault_of<TraceError>([&] { trace(f, {x}, {.strict = true}); });
    CHECK(strict.id == 322);
    CHECK(strict.says(what));
    CHECK(is_off());
  };
  told("nonzero.size(0) = 3", [](Tensor t) { return t.sum() / (t > 0).nonzero().size(0); });
  told(".size(0) = 3", [](Tensor t) { return t.masked_select(t > 0).view({t.masked_select(t > 0).size(0), 1}); });
  told("index.size(0) = 3", [](Tensor t) {
    const Tensor positive = t.index({t > 0});
    Tensor sum = torch::zeros({});
    for (std::int64_t i = 0; i < positive.size(0); ++i) sum = sum + positive[i];
    return sum;
  });
  told("mul.numel() = 3", [](Tensor t) { return (t.index({t > 0}) * 2).numel() > 2 ? t * 2 : t; });
  told(".size(0) = 5", [](Tensor t) { return std::get<0>(torch::_unique(t)).size(0) > 1 ? t * 2 : t; });
  told("where[0].size(0) = 3", [](Tensor t) { return t * torch::where(t > 0)[0].size(0); });
  told("repeat_interleave.size(0)",
       [](Tensor t) { return t.sum() * t.repeat_interleave(t.abs().to(torch::kLong)).size(0); });
  const auto silent = [&](auto f) { CHECK(notes_of(f).empty()); };
  silent([](Tensor t) { return t.index({t > 0}).view({-1, 1}).sum(); });
  silent([](Tensor t) { return t.index({torch::tensor({0, 2})}).view({2, 1}) * t.size(0); });
  silent([](Tensor t) { return t.repeat_interleave(2).view({t.size(0), 2}); });
  silent([](Tensor t) { return t.sum() * t.repeat_interleave(torch::arange(5)).size(0); });  // known repeats
  silent([](Tensor t) { return torch::where(t > 0, t, -t).view({t.size(0), 1}); });
  // Only the dimension that elements decided, and what goes on having its size.
  silent([](Tensor t) {
    const Tensor rows = t.view({5, 1}).expand({5, 7}).index({t > 0});
    return rows.view({-1, rows.size(1)}).sum(0) + t.sum();
  });
  silent([](Tensor t) {
    const Tensor columns = t.view({1, 5}).expand({7, 5}).index({Slice(), t > 0});
    return columns.sum(1) * columns.size(0);
  });
  told("index.size(1) = 3", [](Tensor t) {
    return t.view({1, 5}).expand({7, 5}).index({Slice(), t > 0}).size(1) > 2 ? t * 2 : t;
  });
  silent([](Tensor t) {  // a mixture of experts
    const Tensor out = torch::zeros({5, 4}), rows = t.view({5, 1}).expand({5, 4});
    const Tensor chosen = (t > 0).nonzero().view(-1);
    out.index_add_(0, chosen, rows.index_select(0, chosen) * 2);
    return out.view({out.size(0), 2, out.size(1) / 2});
  });
  silent([](Tensor t) {
    Tensor out = torch::zeros({5});
    torch::index_out(out, t, c10::List<std::optional<Tensor>>({torch::tensor({1, 0, 2})}));
    return out * t.size(0);
  });
}

TEST_CASE("what the graph does not do in its next run is told: values that the code keeps, seeds") {
  struct Cache : torch::nn::Module {
    Tensor keys;
    Tensor forward(Tensor x) {
      keys = keys.defined() ? torch::cat({keys, x}) : x * 1;
      return keys.sum(0);
    }
  } cache;
  TraceReport report;
  const Tensor x = torch::rand({2, 3});
  trace(cache, {x}, {.report = &report});
  REQUIRE(report.notes.size() == 1);
  CHECK(contains(report.notes[0], "holds on to %mul"));
  trace([](Tensor t) { return t.exp() + t; }, {x}, {.report = &report});
  CHECK(report.notes.empty());
  trace(
      [](Tensor t) {
        torch::manual_seed(static_cast<std::uint64_t>(123));
        return t + torch::rand({2, 3});
      },
      {x}, {.report = &report});
  REQUIRE(report.notes.size() == 1);
  CHECK(contains(report.notes[0], "manual_seed"));
  trace([](Tensor t) { return t + torch::rand({2, 3}); }, {x}, {.report = &report});
  CHECK(report.notes.empty());
}

TEST_CASE("forward that registers or replaces parameters is refused the first time, and traced the next") {
  struct Lazy : torch::nn::Module {
    Tensor weight;
    Tensor forward(Tensor x) {
      if (!weight.defined()) weight = register_parameter("weight", torch::rand({x.size(1), 2}));
      return torch::matmul(x, weight);
    }
  } lazy;
  const Tensor x = torch::rand({2, 3});
  const Fault fault = fault_of<TraceError>([&] { trace(lazy, {x}); });
  CHECK(fault.id == 327);
  CHECK(fault.says("'weight'"));
  Lazy ready;
  ready.forward(x);
  CHECK(same((*trace(ready, {x}))(x), ready.forward(x)));
  struct Replaces : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 3));
    Tensor forward(Tensor x) { return (fc = replace_module("fc", torch::nn::Linear(3, 3)))(x); }
  } replaces;
  CHECK(fault_of<TraceError>([&] { trace(replaces, {x}); }).id == 327);
  Lazy dynamic;
  CHECK(fault_of<TraceError>([&] { trace(dynamic, {x}, {{0, 0, "batch"}}); }).id == 327);
}

TEST_CASE("a buffer that is written to where no operator is recorded is refused; what is recorded is not") {
  struct Counts : torch::nn::Module {
    Tensor count = register_buffer("count", torch::zeros({3}));
    std::function<void(Tensor&)> write;
    Tensor forward(Tensor x) {
      write(count);
      return x + count;
    }
  } counts;
  const Tensor x = torch::rand({2, 3});
  counts.write = [](Tensor& count) { std::thread([&] { count.add_(1); }).join(); };
  const Fault fault = fault_of<TraceError>([&] { trace(counts, {x}); });
  CHECK(fault.id == 321);
  CHECK(fault.says("'count'"));
  CHECK(is_off());
  counts.write = [](Tensor& count) { count.add_(1), count.view({3})[0].mul_(2), count.detach().sub_(1); };
  counts.count.zero_();
  const auto gm = trace(counts, {x});
  Counts again;
  again.write = counts.write;
  again.forward(x);
  CHECK(same((*gm)(x), again.forward(x)));
  // Writes are known in the memory that set_ exchanges as well.
  counts.write = [](Tensor& count) {
    count.set_(torch::ones({3}));
    count.add_(1);
  };
  const auto exchanged = trace(counts, {x});
  CHECK(same((*exchanged)(x), x + 2));
  counts.write = [](Tensor& count) {
    count.set_(torch::ones({3}));
    std::thread([&] { count.add_(1); }).join();
  };
  CHECK(fault_of<TraceError>([&] { trace(counts, {x}); }).id == 321);
}

TEST_CASE("a trace of a million operators holds at most 400 bytes a node") {
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const auto chain = [](std::size_t nodes) {
    return [nodes](Tensor x) {
      for (std::size_t i = 0; i < nodes / 4; ++i) x = ((x.relu() + x) * 2).add(x);
      return x;
    };
  };
  const Tensor x = fake_like(torch::rand({2, 3}));
  trace(chain(1000), {x});
  const std::size_t before = allocated();
  const auto gm = trace(chain(1'000'000), {x});
  CHECK(gm->graph().size() > 1'000'000);
  CHECK(allocated() - before <= 400 * gm->graph().size());
}

TEST_CASE("a run at other sizes that fails says which inputs had others when the graph was made") {
  const auto f = [](Tensor x, Tensor y) { return x.view({x.size(0), 2, 2}) + y; };
  const auto gm = trace(f, {torch::rand({3, 4}), torch::rand({2})}, {.input_names = {"image", "offset"}});
  const auto text_of = [&](Tensors inputs) -> std::string {
    try {
      (*gm)(inputs[0], inputs[1]);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return {};
  };
  const std::string text = text_of({torch::rand({5, 4}), torch::rand({2})});
  CHECK(contains(text, "Input 'image' has the sizes [5, 4]; the graph was made with [3, 4]"));
  CHECK(!contains(text, "'offset'"));
  CHECK(contains(text_of({torch::rand({3, 4}), torch::rand({3})}), "Input 'offset' has the sizes [3]"));
  CHECK(text_of({torch::rand({3, 4}), torch::rand({1})}).empty());
}

TEST_CASE("inference mode: traced in it, or in part, the graph computes what the module does") {
  const Tensor x = torch::rand({3});
  const Forward f = [](const Tensors& t) {
    Tensor scale;
    {
      const c10::InferenceMode inference;
      scale = t[0].exp();
    }
    return t[0] * 2 + t[0].sin() + scale;  // a product would save it for the backward pass, which LibTorch refuses
  };
  const torch::nn::Module none("None");
  const auto mixed = traced(f, {x});
  check_forward(f, &none, *mixed, {{x}, {torch::rand({3})}});
  const auto given = gradients(forward_of(*mixed), none, {x});
  REQUIRE(given.size() == 1);
  CHECK(relative_difference(given[0].second, torch::linspace(-1, 1, 3) * (2 + x.cos())) <= 1e-6);
  const c10::InferenceMode inference;
  const Tensor z = torch::rand({3});
  const auto gm = traced([](const Tensors& t) { return (t[0] * 2).add_(1).view({3, 1}); }, {z});
  CHECK(same((*gm)(z), (z * 2 + 1).view({3, 1})));
}

TEST_CASE("gradients switched on inside: the results' are the code's, or the trace says that a graph cannot") {
  struct Net : torch::nn::Module {
    torch::nn::Linear a = register_module("a", torch::nn::Linear(3, 3)),
                      b = register_module("b", torch::nn::Linear(3, 3));
    std::tuple<Tensor, Tensor, Tensor> forward(Tensor x) {
      const torch::NoGradGuard off;
      const Tensor y = a(x).sin();
      Tensor z;
      {
        const torch::AutoGradMode on(true);
        z = b(x) * y;
      }
      return {y, z, z + x};
    }
  } net;
  const Tensor x = torch::rand({2, 3});
  const auto gm = trace(net, {x});
  check_traced(net, *gm, {{x}, {torch::rand({2, 3})}});  // with gradients of everything
  const auto requiring = [](const c10::IValue& results) {
    std::vector<bool> out;
    for (const Tensor& t : tensors_of(results)) out.push_back(t.requires_grad());
    return out;
  };
  const std::vector<bool> expected = requiring(fxx::detail::box_result(net.forward(x)));
  CHECK(expected == std::vector<bool>{false, true, false});
  CHECK(requiring(gm->run({x})) == expected);

  // Under a guard around the trace, such code still has gradients, and a graph that runs under one has none.
  const auto on = [](const Tensors& t) {
    const Tensor y = t[0].exp();
    const torch::AutoGradMode on(true);
    return y + t[0].relu();
  };
  const auto refused = [&](const Forward& f) {
    const Fault fault = fault_of<TraceError>([&] { traced(f, {x}); });
    CAPTURE(fault.text);
    CHECK(fault.id == 316);
    CHECK(fault.says("switched gradients on, and calls 'aten::relu'"));
    CHECK(fault.says("Trace without the guard around it"));
  };
  {
    const torch::NoGradGuard no_grad;
    refused(on);
    CHECK(fault_of<TraceError>([&] { trace(net, {x}); }).id == 316);
    // Guards that no operator sees, or that say what is so already, are nobody's business.
    traced(
        [](const Tensors& t) {
          { const torch::AutoGradMode on(true); }
          const torch::NoGradGuard off;
          return t[0].relu();
        },
        {x});
  }
  CHECK(is_off());
  const c10::InferenceMode inference;
  const auto of_inference = traced(on, {x});  // which has no gradients, whatever is switched on in it
  CHECK(requiring(of_inference->run({x})) == std::vector<bool>{false});
  CHECK(same((*of_inference)(x), on({x})));
  refused([](const Tensors& t) {
    const c10::InferenceMode left(false);
    return t[0].relu();
  });
}

TEST_CASE("a long trace: addresses of tensors that are gone come again and mean something else") {
  check_function(
      [](const Tensors& t) {
        Tensor y = t[0], kept = t[0].sin();
        for (int i = 0; i < 3000; ++i) {
          y = (y * 0.999).add_(0.001);
          if (i % 500 == 0) y = y + kept;
        }
        return y;
      },
      std::vector<std::int64_t>{3});
}

TEST_CASE("options: operators as the dispatcher sees them, no leaf modules, lines of the user's code") {
  struct Net : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 2));
    Tensor forward(Tensor t) { return torch::relu(fc(t)); }
  } net;
  const Tensor x = torch::rand({4, 3});
  const auto leaves = trace(net, {x});
  const auto operators = trace(net, {x}, {.leaf_modules = false});
  const auto raw = trace(net, {x}, {.reroll_operators = false, .leaf_modules = false});
  CHECK(called_modules(leaves->graph()) == std::set<std::string>{"fc"});
  CHECK(called_modules(operators->graph()).empty());
  CHECK(count_of(operators->graph(), ops::linear) == 1);
  CHECK(count_of(raw->graph(), ops::addmm) == 1);
  for (const auto& gm : {leaves, operators, raw}) check_traced(net, *gm, {{x}, {torch::randn({4, 3})}});
  const auto lines = trace(net, {x}, {.record_stack_traces = true});
  for (const Node* node : lines->graph().find_nodes(Opcode::call_function)) {
    CAPTURE(format_node(*node));
    CHECK(contains(node->meta().stack_trace, "forward"));
  }
}

// --- the table of operators ----------------------------------------------------------------------------------------

constexpr std::string_view schemas[] = {
#define FXX_OP(function_, name_, schema_, traits_) schema_,
#include "fxx/ops/table.inc"
#undef FXX_OP
};

TEST_CASE("schemas of the table are those that LibTorch registers") {
  std::size_t compared = 0;
  for (const std::string_view text : schemas) {
    const fxx::Operator& op = *fxx::find_operator(text.substr(0, text.find('(')));
    if (op.name_space() != "aten") continue;  // Python's operators and our own
    CAPTURE(std::string(text));
    const auto found = c10::Dispatcher::singleton().findSchema(
        {"aten::" + std::string(op.base_name()), std::string(op.overload_name())});
    REQUIRE(found.has_value());
    std::ostringstream registered;
    registered << found->schema();
    CHECK(registered.str() == text);
    ++compared;
  }
  CHECK(compared > 800);
}

TEST_CASE("what fxx reads from a schema is what LibTorch reads") {
  for (const std::string_view text : schemas) {
    const fxx::Operator& op = *fxx::find_operator(text.substr(0, text.find('(')));
    if (op.name_space() != "aten") continue;
    CAPTURE(std::string(text));
    const auto found = c10::Dispatcher::singleton().findSchema(
        {"aten::" + std::string(op.base_name()), std::string(op.overload_name())});
    REQUIRE(found.has_value());
    const c10::FunctionSchema& schema = found->schema();
    REQUIRE(schema.arguments().size() == op.parameters.size());
    CHECK(schema.returns().size() == op.returns.size());
    CHECK(schema.is_mutable() == op.mutates);
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      const c10::Argument& theirs = schema.arguments()[i];
      const fxx::Parameter& ours = op.parameters[i];
      CHECK(theirs.name() == ours.name);
      CHECK(theirs.kwarg_only() == ours.keyword_only);
      CHECK(theirs.default_value().has_value() == ours.has_default());
      CHECK((theirs.alias_info() && theirs.alias_info()->isWrite()) == ours.written);
      CHECK((theirs.type()->kind() == c10::TypeKind::OptionalType) == ours.type.optional);
    }
  }
}

}  // namespace
