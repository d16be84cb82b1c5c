// TorchScript under a trace: functions that have not run yet, and state that methods keep; values that are known while
// code is traced.
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <random>
#include <sstream>

#include "fxx/torch/build.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/script.hpp"
#include "torch/support.hpp"

using namespace fxx;
using test::same;
using torch::Tensor;

namespace {

/// What the call throws, or nothing.
template <class F>
std::string refusal(F&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}
bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

/// Traces the function, and compares the graph with it; the notes of the trace.
template <class F>
std::vector<std::string> notes_of_equal(const F& function, const Tensor& x) {
  TraceReport report;
  const auto gm = trace([&](Tensor t) { return function(t); }, {x}, TraceOptions{.report = &report});
  CHECK(same(gm->forward(x), function(x)));
  const Tensor other = x.is_floating_point() ? torch::randn_like(x) : x.roll(1);
  CHECK(same(gm->forward(other), function(other)));
  return report.notes;
}

struct HolderImpl : torch::nn::Module {
  fxx::nn::Script script;
  explicit HolderImpl(const torch::jit::Module& module) : script(module) { register_module("script", script); }
  template <class T>
  T forward(T x) {
    return script(x);
  }
};

/// A module with attributes of several kinds, a submodule among them.
torch::jit::Module scripted(const std::string& forward) {
  torch::jit::Module inner("Inner");
  inner.register_attribute("training", c10::BoolType::get(), false);
  inner.register_attribute("n", c10::IntType::get(), 0);
  inner.register_buffer("b", torch::zeros({3, 4}));
  torch::jit::Module module("Counter");
  module.register_attribute("training", c10::BoolType::get(), false);
  module.register_attribute("n", c10::IntType::get(), 0);
  module.register_attribute("f", c10::FloatType::get(), 0.5);
  module.register_attribute("on", c10::BoolType::get(), false);
  module.register_attribute("list", c10::ListType::ofInts(), c10::List<std::int64_t>({1}));
  module.register_attribute("maybe", c10::OptionalType::create(c10::TensorType::get()), c10::IValue());
  module.register_attribute("h", c10::TensorType::get(), torch::zeros({3, 4}));
  module.register_buffer("b", torch::zeros({3, 4}));
  module.register_module("inner", inner);
  module.define("def forward(self, x):\n" + forward);
  return module;
}

}  // namespace

TEST_CASE("values that follow from sizes and dtypes alone are known while code is traced") {
  const std::vector<std::function<Tensor(Tensor)>> functions{
      [](Tensor x) { return x * x.new_ones({1}).item<double>(); },
      [](Tensor x) { return x * torch::_shape_as_tensor(x)[1].item<std::int64_t>(); },
      [](Tensor x) { return x + torch::zeros_like(x).sum().item<double>(); },
      [](Tensor x) { return x + torch::full_like(x, 3).max().item<double>(); },
      [](Tensor x) { return x + torch::empty_like(x).fill_(2).sum().item<double>(); },
      [](Tensor x) { return x + torch::tensor(x.size(0)).item<std::int64_t>(); },
      [](Tensor x) { return x + torch::tensor(x.sizes()).prod().item<std::int64_t>(); },
      [](Tensor x) { return x + torch::arange(12).view_as(x)[0][1].item<std::int64_t>(); },
      [](Tensor x) { return x + torch::arange(3).to(x.scalar_type()).type_as(x).sum().item<double>(); },
      [](Tensor x) { return torch::full_like(x, 2).cumsum(0).equal(torch::full_like(x, 2)) ? x : -x; },
      [](Tensor x) { return x.new_zeros({2}).any().item<bool>() ? x : x + 1; },
      [](Tensor x) { return x * torch::broadcast_tensors({torch::arange(4), x})[0].sum().item<std::int64_t>(); },
      [](Tensor x) { return x * torch::meshgrid({torch::ones({4}), x[0]}, "ij")[0].sum().item<double>(); },
      [](Tensor x) { return x * torch::atleast_2d({x, torch::ones({3})})[1].sum().item<double>(); },
      [](Tensor x) { return x * torch::_foreach_mul({x, torch::ones({3})}, 2)[1].sum().item<double>(); },
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    CAPTURE(i);
    notes_of_equal(functions[i], torch::randn({3, 4}));
  }
  // Elements of inputs decide these.
  for (const auto& f : std::vector<std::function<Tensor(Tensor)>>{
           [](Tensor x) { return x * torch::zeros_like(x).add_(x).sum().item<double>(); },
           [](Tensor x) { return x * torch::_shape_as_tensor(x.nonzero())[0].item<std::int64_t>(); },
           [](Tensor x) { return x * torch::zeros_like(x).copy_(x).max().item<double>(); },
           [](Tensor x) { return x * torch::ones({3, 4}).mul(x).sum().item<double>(); },
           [](Tensor x) { return x * torch::broadcast_tensors({torch::arange(4), x})[1].sum().item<double>(); },
           [](Tensor x) { return x * torch::_foreach_mul({x, torch::ones({3})}, x.sum())[1].sum().item<double>(); },
           [](Tensor x) { return x * torch::rand_like(x).sum().item<double>(); }})
    CHECK(has(refusal([&] { trace([&](Tensor t) { return f(t); }, {torch::randn({3, 4})}); }), "E301"));
}

TEST_CASE("drawn chains of operators give known values exactly when no element of an input reaches them") {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int known = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::vector<int> steps;
    for (int i = 0; i < 4; ++i) steps.push_back(pick(9));
    const auto run = [&](const Tensor& x, bool& reached) {
      Tensor value = x;
      reached = true;
      for (const int step : steps) switch (step) {
          case 0: value = torch::ones_like(value), reached = false; break;
          case 1: value = value.new_full({3, 4}, 2), reached = false; break;
          case 2: value = value.cumsum(0); break;
          case 3: value = value.mul(2).relu(); break;
          case 4: value = torch::where(value > 0, value, torch::zeros_like(value)); break;
          case 5: value = value.t().reshape({3, 4}); break;
          case 6: value = torch::full_like(x, 3).add(value); break;
          case 7: value = torch::arange(12, torch::kFloat).view_as(value), reached = false; break;
          default: value = torch::stack({value, torch::zeros_like(x)}).sum(0);
        }
      return value;
    };
    bool reached = false;
    const auto code = [&](Tensor x) {
      bool here = false;
      return x + run(x, here).sum().item<double>();
    };
    const Tensor x = torch::randn({3, 4});
    run(x, reached);
    if (reached) {
      ++refused;
      CHECK(has(refusal([&] { trace([&](Tensor t) { return code(t); }, {x}); }), "E301"));
    } else {
      ++known;
      notes_of_equal(code, x);
    }
  }
  CHECK(known > 30);
  CHECK(refused > 30);
}

TEST_CASE("packed sequences with lengths from C++ are traced, lengths that are inputs are refused by their name") {
  torch::manual_seed(1);
  torch::nn::GRU gru(torch::nn::GRUOptions(4, 5).batch_first(true).num_layers(2));
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 5).batch_first(true).bidirectional(true));
  const auto through = [&](auto& layer, const Tensor& x, const Tensor& lengths, bool sorted) {
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(x, lengths, true, sorted);
    const auto out = std::get<0>(layer->forward_with_packed_input(packed));
    const auto [padded, ends] = torch::nn::utils::rnn::pad_packed_sequence(out, true);
    return padded * ends[0].template item<std::int64_t>();
  };
  const Tensor x = torch::randn({3, 6, 4});
  for (const bool sorted : {true, false}) {
    CAPTURE(sorted);
    const auto lengths = [=] { return sorted ? torch::tensor({6, 4, 1}) : torch::tensor({2, 6, 3}); };
    for (const std::string& note :
         notes_of_equal([&](const Tensor& t) { return through(gru, t, lengths(), sorted); }, x))
      CHECK_FALSE(has(note, "elements"));
    notes_of_equal([&](const Tensor& t) { return through(lstm, t, lengths(), sorted); }, x);
    const std::string why = refusal([&] {
      trace([&](Tensor t, Tensor l) { return through(gru, t, l, sorted); }, {x, lengths()});
    });
    CHECK(has(why, "pack_padded_sequence"));
    CHECK(has(why, "lengths"));
    CHECK(has(why, "E301"));
  }
}

TEST_CASE("notes tell of sizes that elements decide, and of no others") {
  const Tensor x = torch::tensor({3, 0, 2, 1});
  const auto told = [&](const std::function<Tensor(Tensor)>& f) {
    for (const std::string& note : notes_of_equal(f, x))
      if (has(note, "that the elements of tensors decide")) return true;
    return false;
  };
  const auto read = [](const Tensor& t) { return t.reshape({t.size(0), -1}) * t.size(-1); };
  CHECK_FALSE(told([&](Tensor t) { return read(torch::one_hot(t, 66)); }));
  CHECK(told([&](Tensor t) { return read(torch::one_hot(t)); }));
  CHECK_FALSE(told([&](Tensor t) { return read(torch::nonzero_static(t, 5)); }));
  // Where each element went is told of as many as there are; how often each is there, of as many as are found.
  CHECK_FALSE(told([&](Tensor t) { return read(std::get<1>(torch::_unique2(t, true, true))); }));
  CHECK_FALSE(told([&](Tensor t) { return read(std::get<1>(torch::unique_dim(t, 0, true, true, true))); }));
  CHECK_FALSE(told([&](Tensor t) { return read(std::get<1>(torch::unique_consecutive(t, true))); }));
  CHECK(told([&](Tensor t) { return read(std::get<1>(torch::_unique2(t.masked_select(t > 0), true, true))); }));
  CHECK(told([&](Tensor t) { return read(std::get<2>(torch::_unique2(t, true, true, true))); }));
  CHECK_FALSE(told([&](Tensor t) { return read(t.repeat_interleave(torch::tensor({1, 2, 1, 1}), 0)); }));
  CHECK_FALSE(told([&](Tensor t) { return read(t.index({torch::tensor({true, false, true, true})})); }));
  CHECK_FALSE(told([&](Tensor t) { return read(t.masked_select(torch::tensor({true, false, true, true}))); }));
  CHECK_FALSE(told([&](Tensor t) { return t * torch::nonzero(torch::tensor({1, 2, 0})).size(0); }));
  CHECK_FALSE(told([&](Tensor t) { return t * torch::nonzero(torch::ones_like(t)).size(0); }));
}

TEST_CASE("TorchScript that has not run yet is traced as it is") {
  torch::manual_seed(2);
  const Tensor x = torch::randn({3, 4});
  const auto check = [&](const std::function<Tensor(Tensor)>& run) {
    std::vector<Tensor> results;
    for (int i = 0; i < 2; ++i) {
      TraceReport report;
      const auto gm = trace([&](Tensor t) { return run(t); }, {x}, TraceOptions{.report = &report});
      results.push_back(gm->forward(x));
    }
    // What the compiler computed ahead are ordinary tensors, so it runs after the trace.
    for (const Tensor& result : results) CHECK(same(result, run(x)));
  };
  const std::vector<std::string> bodies{
      "x + torch.zeros([3, 4]) + torch.arange(4) * torch.tensor([1.0, 2.0, 3.0, 4.0]).sum()",
      "x.relu() * torch.ones([4]).cumsum(0) + torch.full([4], 2.0).exp()",
      "x * x.data + torch.atan2(x.data, x).data.sum()",
      "torch.where(x > 0, x, torch.zeros([1])) @ torch.eye(4) + torch.linspace(0, 1, 4)",
      "x[:, torch.tensor([3, 1])].sum(1, True) + float(torch.tensor(2.0)) + x.size(0)"};
  const bool profiling = torch::jit::getProfilingMode(), executor = torch::jit::getExecutorMode();
  for (int mode = 0; mode < 3; ++mode) {
    torch::jit::getProfilingMode() = mode == 0;
    torch::jit::getExecutorMode() = mode < 2;
    for (const std::string& body : bodies) {
      CAPTURE(mode);
      CAPTURE(body);
      const auto unit = torch::jit::compile("def f(x):\n    return " + body + "\n");
      check([&](Tensor t) { return unit->run_method("f", t).toTensor(); });
      const auto make = [&] {
        torch::jit::Module module = scripted("    return self.b + (" + body + ")\n");
        module.eval();
        return module;
      };
      torch::jit::Module fresh = make(), ran = make();
      check([&](Tensor t) { return fresh.forward({t}).toTensor(); });
      for (int i = 0; i < 3; ++i) ran.forward({x});
      check([&](Tensor t) { return ran.forward({t}).toTensor(); });
      std::stringstream file;
      make().save(file);
      torch::jit::Module loaded = torch::jit::load(file), frozen = torch::jit::freeze(make());
      check([&](Tensor t) { return loaded.forward({t}).toTensor(); });
      check([&](Tensor t) { return frozen.forward({t}).toTensor(); });
    }
  }
  torch::jit::getProfilingMode() = profiling;
  torch::jit::getExecutorMode() = executor;
}

TEST_CASE("state of TorchScript modules is carried or refused, and a trace leaves it as it was") {
  const Tensor x = torch::ones({3, 4});
  struct Case {
    const char *name, *forward;
    bool refused;  // by a trace, and by compile
  };
  const std::vector<Case> cases{
      {"'n'", "    self.n = self.n + 1\n    return x * 2 + self.n\n", true},
      {"'f'", "    self.f = self.f * 0.5\n    return x * self.f\n", true},
      {"'on'", "    self.on = not self.on\n    if self.on:\n        return x + 1\n    return x - 1\n", true},
      {"'list'", "    self.list.append(2)\n    return x * len(self.list)\n", true},
      {"'h'", "    self.h = self.h * 0.5 + x\n    return self.h * 2\n", true},
      {"'b'", "    self.b = self.b * 0.5 + x\n    return self.b * 2\n", true},
      {"'maybe'",
       "    m = self.maybe\n    y = x\n    if m is not None:\n        y = m + x\n    self.maybe = y\n    return y\n",
       true},
      {"'inner.n'", "    self.inner.n = self.inner.n + 1\n    return x * 2 + self.inner.n\n", true},
      {"in place", "    self.b.add_(1)\n    return x + self.b\n", false},
      {"attribute in place", "    self.h.add_(x)\n    return x + self.h\n", false},
      {"inner in place", "    self.inner.b.mul_(0.5).add_(x)\n    return x * self.inner.b\n", false},
      {"written first", "    self.h = x * 3\n    return self.h + 1\n", false},
      {"set once", "    self.on = True\n    return x + 1\n", false},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.name));
    std::vector<Tensor> eager;
    torch::jit::Module model = scripted(c.forward);
    for (int i = 0; i < 3; ++i) eager.push_back(model.forward({x}).toTensor().clone());
    const auto agrees = [&](GraphModule& gm) {
      bool all = true;
      for (const Tensor& expected : eager) all = same(gm.forward(x), expected) && all;
      return all;
    };
    const auto is_as_made = [&](const torch::jit::Module& m) {
      return m.attr("n").toInt() == 0 && m.attr("f").toDouble() == 0.5 && !m.attr("on").toBool() &&
             m.attr("list").toIntVector().size() == 1 && m.attr("maybe").isNone() &&
             same(m.attr("h").toTensor(), torch::zeros({3, 4})) && same(m.attr("b").toTensor(), torch::zeros({3, 4})) &&
             m.attr("inner").toModule().attr("n").toInt() == 0;
    };
    for (int way = 0; way < 3; ++way) {
      CAPTURE(way);
      torch::jit::Module m = scripted(c.forward);
      std::shared_ptr<GraphModule> gm;
      const std::string why = refusal([&] {
        TraceReport report;
        const TraceOptions options{.report = &report};
        if (way == 0) gm = symbolic_trace(*std::make_shared<HolderImpl>(m));
        else if (way == 1) gm = trace(std::make_shared<HolderImpl>(m), {x}, options);
        else gm = trace([&](Tensor t) { return m.forward({t}).toTensor(); }, {x}, options);
      });
      CHECK(is_as_made(m));
      CHECK((way > 0 && c.refused) == !gm);
      if (!gm) {
        CHECK(has(why, "state"));
        CHECK(has(why, c.name));
        CHECK(has(why, "E328"));
        continue;
      }
      std::shared_ptr<GraphModule> built;
      if (way != 1) built = build(*gm, {x});
      CHECK(is_as_made(m));
      if (c.refused) {
        const std::string compiled = refusal([&] { compile(*gm, {x}); });
        CHECK(has(compiled, "state"));
        CHECK(has(compiled, c.name));
        CHECK(is_as_made(m));
        CHECK(agrees(built ? *built : *gm));
        continue;
      }
      const auto compiled = compile(*gm, {x});
      CHECK(is_as_made(m));
      CHECK(agrees(way == 0 ? *gm : way == 1 ? *compiled : *built));
    }
  }
}

namespace {
struct Averaging : torch::nn::Module {
  Tensor h = torch::zeros({3, 4});
  Tensor forward(const Tensor& x) {
    h = h * 0.5 + x;
    return h * 2;
  }
};
struct AveragingRegistered : torch::nn::Module {
  Tensor h = register_buffer("h", torch::zeros({3, 4}));
  Tensor forward(const Tensor& x) {
    h = h * 0.5 + x;
    return h * 2;
  }
};
struct Counting : torch::nn::Module {
  int n = 0;
  Tensor forward(const Tensor& x) { return x * 2 + ++n; }
};
struct Keeping : torch::nn::Module {
  Tensor last;
  Tensor forward(const Tensor& x) {
    last = x * 2;
    return last + 1;
  }
};
struct InPlace : torch::nn::Module {
  Tensor h = torch::zeros({3, 4});
  Tensor forward(const Tensor& x) { return x + h.add_(1); }
};
}  // namespace

TEST_CASE("state of C++ modules is refused by compile and build, and carried where operators write to it") {
  const Tensor x = torch::ones({3, 4});
  const auto refused = [&](auto module, const char* named) {
    CAPTURE(std::string(named));
    TraceReport report;
    const auto gm = trace(module, {x}, TraceOptions{.report = &report});
    CHECK(!gm->kept_state().empty());
    CHECK_FALSE(report.notes.empty());
    for (const std::string& why : {refusal([&] { compile(*gm, {x}); }), refusal([&] { build(*gm, {x}); }),
                                   refusal([&] {
                                     compile(*std::dynamic_pointer_cast<GraphModule>(gm->clone()), {x});
                                   })}) {
      CHECK(has(why, "state"));
      CHECK(has(why, named));
      CHECK(has(why, "E328"));
    }
  };
  refused(std::make_shared<AveragingRegistered>(), "'h'");
  refused(std::make_shared<Averaging>(), "no registered buffer");
  refused(std::make_shared<Counting>(), "%add");

  TraceReport report;
  const auto keeping = trace(std::make_shared<Keeping>(), {x}, TraceOptions{.report = &report});
  CHECK(keeping->kept_state().empty());
  CHECK(same(compile(*keeping, {x})->forward(x), x * 2 + 1));

  const auto in_place = std::make_shared<InPlace>();
  const auto gm = trace(in_place, {x}, TraceOptions{.report = &report});
  CHECK(same(in_place->h, torch::ones({3, 4})));  // as after one call
  CHECK(same(gm->forward(x), x + 2));
  CHECK(same(compile(*gm, {x})->forward(x), x + 3));
  CHECK(same(in_place->forward(x), x + 4));
}

namespace {
/// A script with dropout and a batch norm in a submodule, which is in a mode of its own where `mixed` says so.
torch::jit::Module dropping(bool training, bool mixed) {
  torch::jit::Module model("Model"), norm("Norm"), outer("Outer");
  norm.register_attribute("training", c10::BoolType::get(), training);
  norm.register_buffer("mean", torch::zeros({4}));
  norm.register_buffer("var", torch::ones({4}));
  norm.define(R"(
def forward(self, x):
    return torch.batch_norm(x, None, None, self.mean, self.var, self.training, 0.1, 1e-5, False)
)");
  model.register_attribute("training", c10::BoolType::get(), training != mixed);
  model.register_parameter("weight", torch::rand({4, 4}), false);
  model.register_module("norm", norm);
  model.define(R"(
def forward(self, x):
    return torch.dropout(self.norm.forward(torch.matmul(x, self.weight)), 0.5, self.training)
)");
  outer.register_attribute("training", c10::BoolType::get(), training);
  outer.register_parameter("scale", torch::rand({4}).set_requires_grad(true), false);
  outer.register_module("_model", model);
  outer.define(R"(
def forward(self, x):
    y = self._model.forward(x) * self.scale
    if self.training:
        return y + 1
    return torch.dropout(y, 0.5, self.training)
)");
  return outer;
}
/// Flags of all modules, what tensors hold, and whether they require gradients; in eval mode, when nothing has to be put
/// back, how often they were written to as well.
std::string state_of(const torch::jit::Module& module) {
  std::ostringstream out;
  for (const auto& part : module.named_modules())
    out << part.name << " " << part.value.attr("training", true).toBool() << "\n";
  for (const auto& tensor : module.named_attributes(true))
    if (tensor.value.isTensor())
      out << tensor.name << " " << (module.is_training() ? 0 : tensor.value.toTensor()._version()) << " "
          << tensor.value.toTensor().requires_grad() << " " << tensor.value.toTensor().sum().item<double>() << "\n";
  return out.str();
}
/// A script that is no registered submodule, whose flags follow train() all the same.
struct Owning : torch::nn::Module {
  torch::jit::Module script;
  torch::nn::Dropout drop{0.5};
  explicit Owning(torch::jit::Module module) : script(std::move(module)) {
    register_module("drop", drop);
    torch::nn::Module::train(script.is_training());
  }
  void train(bool on) override {
    torch::nn::Module::train(on);
    script.train(on);
  }
  Tensor forward(Tensor x) { return drop(script.forward({x}).toTensor()); }
};
}  // namespace

TEST_CASE("a trace leaves a script's training flags and tensors as they were") {
  const Tensor x = torch::rand({5, 4});
  for (const bool training : {false, true})
    for (const bool mixed : {false, true})
      for (int way = 0; way < 6; ++way)
        for (const int fails : {-1, 0, 1, 2, 4}) {
          CAPTURE(training);
          CAPTURE(mixed);
          CAPTURE(way);
          CAPTURE(fails);
          torch::jit::Module script = dropping(training, mixed);
          const auto holder = std::make_shared<HolderImpl>(script);
          const auto owning = std::make_shared<Owning>(script);
          CHECK(holder->script->is_training() == training);
          if (way == 4) script.train(!training);  // behind the holder's back
          CHECK(holder->script->is_training() == (training != (way == 4)));
          const std::string before = state_of(script);
          int runs = 0;
          const auto code = [&](Tensor t) {
            const Tensor y = way == 3 ? owning->forward(t) : holder->forward(t);
            if (runs++ == fails) throw std::runtime_error("half way");
            return y;
          };
          for (int times = 0; times < (fails < 0 ? 2 : 1); ++times) {
            TraceReport report;
            TraceOptions options{.report = &report};
            torch::manual_seed(3);
            try {
              if (way == 1) options.strict = true;
              if (way == 2) options.dynamic = {{0, 0, "rows"}};
              if (way == 3) trace(owning, code, {x}, options);
              else if (way == 5) trace([&](Tensor t) { return code(t); }, {x}, options);
              else trace(holder, code, {x}, options);
            } catch (const std::exception&) {
              CHECK(fails >= 0);
            }
            CHECK(state_of(script) == before);
            CHECK(holder->is_training());
            CHECK(owning->drop->is_training() == training);
          }
          if (way == 4 || fails >= 0) continue;
          // The flags go on following train() and eval(), of one part alone too.
          holder->script->named_modules()["_model"]->train(!training);
          CHECK(script.attr("_model").toModule().is_training() == !training);
          CHECK(script.attr("_model").toModule().attr("norm").toModule().is_training() == !training);
          CHECK(script.is_training() == training);
          holder->eval();
          CHECK_FALSE(script.is_training());
          CHECK_FALSE(script.attr("_model").toModule().is_training());
        }
}

TEST_CASE("a script's dropout follows the flag of the submodule that it is of") {
  const Tensor x = torch::rand({5, 4});
  const auto holder = std::make_shared<HolderImpl>(dropping(false, false));
  TraceReport report;
  const auto gm = trace(holder, {x}, TraceOptions{.report = &report});
  CHECK(same(gm->forward(x), holder->forward(x)));
  CHECK_FALSE(report.notes.empty());  // forward asks whether it trains
}
