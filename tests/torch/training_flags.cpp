// Whether traced code trains: flags of operators follow the modules that they came from. One long file: each that
// includes LibTorch takes 20 s and 1.3 GB to compile.
#include <map>

#include "fxx/ops/operation.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;
using torch::Tensor;

namespace {

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear fc{6, 6};
  torch::nn::Dropout first{0.3}, second{0.3};
  BlockImpl() {
    register_module("fc", fc);
    register_module("first", first), register_module("second", second);
  }
  // In another order than they are registered, and one of them twice.
  Tensor forward(Tensor x) { return second(fc(second(x))) + first(x); }
};
TORCH_MODULE(Block);

struct Net : torch::nn::Module {
  torch::nn::Sequential blocks{Block(), Block(), torch::nn::Dropout2d(0.3), torch::nn::AlphaDropout(0.3)};
  torch::nn::ReLU relu{};
  Net() { register_module("blocks", blocks), register_module("relu", relu); }
  Tensor forward(Tensor x) {
    x = F::dropout(x, F::DropoutFuncOptions().p(0.25).training(is_training()));
    x = relu(blocks->forward(x.view({2, 3, 4, 6})));
    return torch::dropout(x, 0.5, false);
  }
};

/// The same numbers as the module, drawn in the same order.
template <class M>
void check_same_draws(M& net, GraphModule& gm, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  const Tensor expected = net.forward(x);
  torch::manual_seed(3);
  CHECK(same(gm(x), expected));
}

TEST_CASE("dropout is the call of its module again, traced in either mode, and follows train() and eval()") {
  for (const bool training : {true, false}) {
    CAPTURE(training);
    Net net;
    net.train(training);
    const Tensor x = torch::rand({24, 6});
    torch::manual_seed(7);
    const Tensor next_number = torch::rand({3});
    TraceReport report;
    const auto gm = trace(net, {x}, {.report = &report});
    CHECK(report.notes.empty());
    CHECK(net.is_training() == training);
    CHECK(called_modules(gm->graph()) == std::set<std::string>{"blocks.0.fc", "blocks.0.first", "blocks.0.second",
                                                               "blocks.1.fc", "blocks.1.first", "blocks.1.second",
                                                               "blocks.2", "blocks.3", "_dropout0"});
    CHECK(count_of(gm->graph(), ops::dropout) == 1);  // the one with a flag of its own
    for (const bool later : {true, false, true}) {
      net.train(later);
      gm->train(later);
      check_same_draws(net, *gm, x);
    }
    // Parts of the model keep a mode of their own.
    net.train();
    gm->train();
    net.blocks[1]->as<Block>()->second->eval();
    gm->submodule("blocks.1.second")->eval();
    check_same_draws(net, *gm, x);
    CHECK(gm->code().find("_dropout0") != std::string::npos);
    CHECK(same_structure(parse_graph(to_string(gm->graph())), gm->graph()));
  }
}

TEST_CASE("finding out whose flags they are leaves statistics, the next random numbers and modes as they were") {
  struct Counts : torch::nn::Module {
    torch::nn::BatchNorm1d norm{4};
    torch::nn::Dropout drop{0.5}, frozen{0.5};
    int runs = 0;
    Counts() { register_module("norm", norm), register_module("drop", drop), register_module("frozen", frozen); }
    Tensor forward(Tensor x) { return ++runs, frozen(drop(norm(x))); }
  } net;
  net.frozen->eval();
  torch::manual_seed(5);
  const Tensor x = torch::rand({3, 4});
  Counts other;
  {
    const torch::NoGradGuard no_grad;
    other.frozen->eval();
    torch::manual_seed(6);
    other.forward(x);
  }
  const Tensor expected_next = torch::rand({2});
  torch::manual_seed(6);
  const auto gm = trace(net, {x});
  CHECK(same(torch::rand({2}), expected_next));
  CHECK(same(net.norm->running_mean, other.norm->running_mean));
  CHECK(net.norm->num_batches_tracked.item<std::int64_t>() == 1);
  CHECK(net.drop->is_training());
  CHECK(!net.frozen->is_training());
  CHECK(called_modules(gm->graph()) == std::set<std::string>{"norm", "drop", "frozen"});
  // When nobody asks for flags, the code is run once.
  const int before = net.runs;
  trace(net, {x}, {.training_flags = false});
  CHECK(net.runs == before + 1);
}

TEST_CASE("where the module cannot be told, the flag stays, and a note says so") {
  const Tensor x = torch::rand({3, 4});
  const auto notes_of = [&](auto&& module) {
    TraceReport report;
    const auto gm = trace(module, {x}, {.report = &report});
    REQUIRE(report.notes.size() == 1);
    CHECK(report.notes[0].find("dropout") != std::string::npos);
    CHECK(report.to_string().find(report.notes[0]) != std::string::npos);
    return report.notes[0];
  };
  torch::nn::Dropout captured(0.5);
  CHECK(notes_of([&](Tensor t) { return captured(t); }).find("no module's") != std::string::npos);
  struct Branches : torch::nn::Module {
    torch::nn::Dropout drop{0.5};
    Branches() { register_module("drop", drop); }
    Tensor forward(Tensor t) { return is_training() ? torch::dropout(drop(t.exp()), 0.5, true) : drop(t); }
  } branches;
  branches.eval();
  TraceReport both;
  trace(branches, {x}, {.report = &both});
  REQUIRE(both.notes.size() == 2);
  CHECK(both.notes[0].find("asks whether it trains") != std::string::npos);
  CHECK(both.notes[1].find("other operators") != std::string::npos);
  CHECK(both.notes[1].find("[E326") != std::string::npos);
  struct Mixes : torch::nn::Module {
    torch::nn::Dropout drop{0.5};
    Mixes() { register_module("drop", drop); }
    Tensor forward(Tensor t) { return torch::dropout(t, 0.5, is_training() && drop->is_training()); }
  } mixes;
  CHECK(notes_of(mixes).find("several training flags") != std::string::npos);
  struct Freezes : torch::nn::Module {
    torch::nn::Dropout drop{0.5};
    Freezes() { register_module("drop", drop); }
    void train(bool on) override {
      torch::nn::Module::train(on);
      drop->eval();
    }
    Tensor forward(Tensor t) { return drop(t); }
  } freezes;
  TraceReport report;
  const auto gm = trace(freezes, {x}, {.report = &report});
  CHECK(called_modules(gm->graph()) == std::set<std::string>{"drop"});
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].find("frozen") != std::string::npos);
  // torch::nn has no module for it.
  struct InPlace : torch::nn::Module {
    Tensor forward(Tensor t) {
      Tensor y = t * 1;
      torch::alpha_dropout_(y, 0.5, is_training());
      return y;
    }
  } in_place;
  CHECK(notes_of(in_place).find("alpha_dropout_") != std::string::npos);
  // Called twice at once, its counts are one chain, and no call of the module again.
  struct Twice : torch::nn::Module {
    torch::nn::BatchNorm1d norm{4};
    Twice() { register_module("norm", norm); }
    Tensor forward(Tensor t) { return norm(norm(t)); }
  } twice;
  const auto twofold = trace(twice, {x}, {.report = &report});
  CHECK(count_of(twofold->graph(), ops::batch_norm) == 2);
  REQUIRE(report.notes.size() == 2);
  CHECK(report.notes[0].find("batch_norm") != std::string::npos);
}

TEST_CASE("code that asks whether it trains is told apart from modules that follow train() by themselves") {
  const Tensor x = torch::rand({4, 3, 6, 6});
  struct Auxiliary : torch::nn::Module {
    torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 3, 1)};
    torch::nn::BatchNorm2d norm{3};
    int runs = 0;
    std::function<Tensor(const Auxiliary&, Tensor)> rest;
    Auxiliary() { register_module("conv", conv), register_module("norm", norm); }
    Tensor forward(Tensor t) {
      ++runs;
      return rest(*this, norm(conv(t)));
    }
  } net;
  using Rest = std::function<Tensor(const Auxiliary&, Tensor)>;
  const auto notes_in = [&](bool training, Rest rest) {
    net.rest = std::move(rest);
    net.train(training);
    const Tensor mean = net.norm->running_mean.clone();
    TraceReport report;
    trace(net, {x}, {.report = &report});
    // One run is what the module has seen, in the mode that it was in.
    CHECK(net.is_training() == training);
    CHECK(net.norm->is_training() == training);
    CHECK((difference(net.norm->running_mean, mean) != 0) == training);
    return report.notes;
  };
  const Rest plain = [](const Auxiliary&, Tensor t) { return torch::relu(t); };
  const Rest branches = [](const Auxiliary& a, Tensor t) { return a.is_training() ? t + 1 : t * 2; };
  const Rest less = [](const Auxiliary& a, Tensor t) { return a.is_training() ? t : t.relu(); };
  const Rest number = [](const Auxiliary& a, Tensor t) { return t * (a.is_training() ? 0.5 : 1.0); };
  const Rest leaky = [](const Auxiliary& a, Tensor t) { return torch::rrelu(t, 0.1, 0.3, a.is_training()); };
  const Rest other_input = [](const Auxiliary& a, Tensor t) {
    const Tensor u = t.exp(), v = t.sin();
    return a.is_training() ? u * u + v : u * v + v;
  };
  for (const bool training : {false, true}) {
    CAPTURE(training);
    CHECK(notes_in(training, plain).empty());
    for (const auto& [rest, words] : {std::pair{branches, training ? "add" : "mul"}, std::pair{less, "relu"},
                                      std::pair{number, "mul"}, std::pair{other_input, "mul"}}) {
      const std::vector<std::string> notes = notes_in(training, rest);
      REQUIRE(notes.size() == 1);
      CAPTURE(notes[0]);
      CHECK(notes[0].find("asks whether it trains") != std::string::npos);
      CHECK(notes[0].find(words) != std::string::npos);
      CHECK(notes[0].find(training ? "in train mode is" : "in eval mode is") != std::string::npos);
    }
    // A flag that operators are given is followed or told of as a flag.
    const std::vector<std::string> flags = notes_in(training, leaky);
    REQUIRE(flags.size() == 1);
    CAPTURE(flags[0]);
    CHECK(flags[0].find("the training flag of %rrelu") != std::string::npos);
    CHECK(flags[0].find(training ? "stays true" : "stays false") != std::string::npos);
    CHECK(flags[0].find("it is that of the module itself") != std::string::npos);
  }
  // A constant that differs counts as an operator that does.
  const auto filled = [](float with) {
    Tensor made = torch::empty({1});
    *made.data_ptr<float>() = with;
    return made;
  };
  const Rest constant = [&](const Auxiliary& a, Tensor t) { return t * filled(a.is_training() ? 0.5f : 1.f); };
  const std::vector<std::string> of_constant = notes_in(false, constant);
  REQUIRE(of_constant.size() == 1);
  CAPTURE(of_constant[0]);
  CHECK(of_constant[0].find("asks whether it trains: the constant '_tensor_constant0' in eval mode is one of other "
                            "values in train mode") != std::string::npos);
  // Code that is never twice the same says nothing of modes.
  int calls = 0;
  for (const Rest& counts : {Rest([&](const Auxiliary&, Tensor t) { return t * static_cast<double>(++calls); }),
                             Rest([&](const Auxiliary&, Tensor t) { return t * torch::tensor({1.f * ++calls}); }),
                             Rest([&](const Auxiliary&, Tensor t) { return t * filled(1.f * ++calls); })}) {
    const std::vector<std::string> again = notes_in(false, counts);
    REQUIRE(again.size() == 1);
    CAPTURE(again[0]);
    CHECK(again[0].find("does something else when it runs again") != std::string::npos);
  }
  // Nobody is told of random constants, of constants that are not numbers, or of sizes moved into bounds.
  CHECK(notes_in(false, [none = filled(NAN)](const Auxiliary&, Tensor t) { return t * none; }).empty());
  CHECK(notes_in(false, [&](const Auxiliary&, Tensor t) { return t * filled(NAN); }).empty());
  net.rest = [](const Auxiliary&, Tensor t) { return t + torch::rand({1}); };
  TraceReport report;
  trace(net, {x}, {.freeze_random = true, .report = &report});
  CHECK(report.notes.empty());
  net.rest = [](const Auxiliary&, Tensor t) { return t.view({t.size(0), -1}); };
  trace(net, {x.slice(0, 0, 1)}, {{0, 0, "batch"}}, {.report = &report});
  CHECK(report.notes.empty());
  // Which value a name has in a result counts too.
  struct Named : torch::nn::Module {
    std::map<std::string, Tensor> forward(Tensor t) {
      const Tensor u = t.exp(), v = t.sin();
      return {{"a", is_training() ? u : v}, {"b", is_training() ? v : u}};
    }
  } named;
  trace(named, {x}, {.report = &report});
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].find("asks whether it trains") != std::string::npos);
  // Nobody is told when nobody asks, and of code that fails in the other mode.
  net.rest = branches;
  const int before = net.runs;
  trace(net, {x}, {.training_flags = false});
  CHECK(net.runs == before + 1);
  CHECK(notes_in(false, [](const Auxiliary& a, Tensor t) {
          TORCH_CHECK(!a.is_training(), "for inference only");
          return t * 2;
        }).empty());
}

TEST_CASE("further runs leave buffers as they are, in memory and for autograd, whatever these are like") {
  struct Buffers : torch::nn::Module {
    Tensor expanded = register_buffer("expanded", torch::ones({1}).expand({4}));
    torch::nn::BatchNorm1d norm{4};
    Buffers() { register_module("norm", norm); }
    Tensor forward(Tensor t) { return norm(t) * expanded; }
  } net;
  net.eval();
  const Tensor x = torch::rand({3, 4}), z = x.clone().requires_grad_();
  const Tensor before = net.forward(z);
  TraceReport report;
  trace(net, {x}, {.report = &report});
  CHECK(report.notes.empty());
  before.sum().backward();  // what it saved was not written to
  CHECK(z.grad().defined());
  std::shared_ptr<Buffers> inference;
  {
    const c10::InferenceMode mode;
    inference = std::make_shared<Buffers>();
    inference->eval();
  }
  const torch::NoGradGuard no_grad;
  const Tensors buffers = inference->buffers(), left = cloned(buffers);
  CHECK(same((*trace(*inference, {x}))(x), inference->forward(x)));
  for (std::size_t i = 0; i < buffers.size(); ++i) CHECK(same(buffers[i], left[i]));
}

TEST_CASE("recurrent modules are calls again: they follow train(), make their state for any batch, give all results") {
  struct Tagger : torch::nn::Module {
    torch::nn::LSTM lstm{torch::nn::LSTMOptions(5, 4).num_layers(2).dropout(0.5).bidirectional(true)};
    torch::nn::GRU gru{torch::nn::GRUOptions(8, 3).batch_first(true).bias(false)};
    Tagger() { register_module("lstm", lstm), register_module("gru", gru); }
    std::tuple<Tensor, Tensor, Tensor> forward(Tensor x, Tensor h) {
      const auto [output, state] = lstm(x);
      const auto [again, last] = lstm(x, std::tuple(std::get<0>(state), h));
      return {std::get<0>(gru(output + again)), std::get<1>(last), std::get<0>(state)};
    }
  } net;
  const Tensor x = torch::rand({6, 2, 5}), h = torch::rand({4, 2, 4});
  TraceReport report;
  const auto gm = trace(net, {x, h}, {.report = &report});
  CHECK(report.notes.empty());
  CHECK(called_modules(gm->graph()) == std::set<std::string>{"lstm", "gru"});
  CHECK(count_of(gm->graph(), ops::zeros) == 0);
  const auto same_results = [&](const Tensor& in, const Tensor& hidden) {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(4);
    const c10::IValue expected = fxx::detail::box_result(net.forward(in, hidden));
    torch::manual_seed(4);
    CHECK(relative_difference(gm->run({in, hidden}), expected) == 0);
  };
  for (const bool later : {true, false}) {
    net.train(later);
    gm->train(later);
    same_results(x, h);
    same_results(torch::rand({3, 7, 5}), torch::rand({4, 7, 4}));
  }
  // With weights or options that are not the module's, it stays the operator.
  struct ByHand : torch::nn::Module {
    torch::nn::GRU gru{torch::nn::GRUOptions(5, 3)};
    ByHand() { register_module("gru", gru); }
    Tensor forward(Tensor x) {
      return std::get<0>(torch::gru(x, torch::zeros({1, 2, 3}), gru->all_weights(), true, 1, 0.0, false, false, true));
    }
  } by_hand;
  by_hand.eval();
  CHECK(called_modules(trace(by_hand, {torch::rand({2, 6, 5})})->graph()).empty());
}

TEST_CASE("attention of torch::nn drops out as its module says") {
  struct Attends : torch::nn::Module {
    torch::nn::MultiheadAttention attention{torch::nn::MultiheadAttentionOptions(8, 2).dropout(0.4)};
    torch::nn::TransformerEncoderLayer layer{torch::nn::TransformerEncoderLayerOptions(8, 2).dropout(0.2)};
    Attends() { register_module("attention", attention), register_module("layer", layer); }
    Tensor forward(Tensor x) { return layer(std::get<0>(attention(x, x, x))); }
  } net;
  net.eval();
  const Tensor x = torch::rand({5, 2, 8});
  TraceReport report;
  const auto gm = trace(net, {x}, {.report = &report});
  CHECK(report.notes.empty());
  for (const bool later : {true, false}) {
    net.train(later);
    gm->train(later);
    check_same_draws(net, *gm, x);
  }
}

/// A module that calls one of torch::nn.
struct Calls : torch::nn::Module {
  std::function<Tensor(Tensor)> call;
  template <class Holder>
  explicit Calls(Holder m) : call([m](Tensor t) mutable { return m(t); }) {
    register_module("m", m);
  }
  Tensor forward(Tensor t) { return call(t); }
};

/// The same result, the same values in the input and the same buffers afterwards, of the same state and random numbers.
template <class M>
void check_same_effects(M& net, GraphModule& gm, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const Tensors buffers = net.buffers(), before = cloned(buffers);
  const auto run = [&](auto&& forward) {
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before[i]);
    torch::manual_seed(3);
    Tensors left{x.clone()};
    left.push_back(forward(left[0]));
    for (const Tensor& buffer : buffers) left.push_back(buffer.clone());
    return left;
  };
  const Tensors expected = run([&](const Tensor& t) { return net.forward(t); }), given = run(gm);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(same(given[i], expected[i]));
  }
}

TEST_CASE("norms without weights or statistics, and RReLU, follow train() and eval(), traced in either mode") {
  using torch::nn::BatchNormOptions, torch::nn::InstanceNormOptions, torch::nn::RReLUOptions;
  const auto check = [](const std::string& name, const auto& module, const Tensor& x, bool is_call = true) {
    for (const bool training : {true, false}) {
      CAPTURE(name);
      CAPTURE(training);
      Calls net(module);
      net.train(training);
      TraceReport report;
      const auto gm = trace(net, {x.clone()}, {.report = &report});
      CHECK(report.notes.empty());
      CHECK(called_modules(gm->graph()) == (is_call ? std::set<std::string>{"m"} : std::set<std::string>{}));
      for (const bool later : {true, false, true}) {
        net.train(later);
        gm->train(later);
        check_same_effects(net, *gm, x);
      }
    }
  };
  const Tensor v = torch::randn({5, 4}) * 2 + 1, l = torch::randn({2, 4, 6}) * 2 + 1;
  const Tensor i = torch::randn({2, 4, 5, 5}) * 2 + 1;
  check("BatchNorm1d without weights", torch::nn::BatchNorm1d(BatchNormOptions(4).affine(false)), v);
  check("BatchNorm2d without statistics", torch::nn::BatchNorm2d(BatchNormOptions(4).track_running_stats(false)), i);
  // Nothing that a module could be known by, and nothing that train() changes.
  check("BatchNorm2d with neither",
        torch::nn::BatchNorm2d(BatchNormOptions(4).affine(false).track_running_stats(false)), i, false);
  check("InstanceNorm1d with statistics", torch::nn::InstanceNorm1d(InstanceNormOptions(4).track_running_stats(true)),
        l);
  check("InstanceNorm2d with both",
        torch::nn::InstanceNorm2d(InstanceNormOptions(4).affine(true).track_running_stats(true).momentum(0.3)), i);
  check("InstanceNorm2d with weights", torch::nn::InstanceNorm2d(InstanceNormOptions(4).affine(true)), i);
  check("RReLU", torch::nn::RReLU(RReLUOptions().lower(0.1).upper(0.3)), v);
  check("RReLU in place", torch::nn::RReLU(RReLUOptions().inplace(true)), v);
}

TEST_CASE("norms of torch::nn::functional that are given a module's flag keep it, and a note says whose it is") {
  struct Functional : torch::nn::Module {
    torch::nn::Dropout part{0.5};
    Tensor mean = register_buffer("mean", torch::zeros({4})), var = register_buffer("var", torch::ones({4}));
    Tensor weight = register_parameter("weight", torch::rand({4})), bias = register_parameter("bias", torch::rand({4}));
    bool instance = false, of_part = false;
    Functional() { register_module("part", part); }
    Tensor forward(Tensor t) {
      const bool flag = of_part ? part->is_training() : is_training();
      if (instance)
        return F::instance_norm(
            t,
            F::InstanceNormFuncOptions().running_mean(mean).running_var(var).weight(weight).bias(bias).use_input_stats(
                flag));
      return F::batch_norm(t, mean, var, F::BatchNormFuncOptions().weight(weight).bias(bias).training(flag));
    }
  } net;
  const Tensor x = torch::randn({3, 4, 5}) * 2 + 1;
  for (const bool instance : {false, true})
    for (const bool of_part : {false, true})
      for (const bool training : {false, true}) {
        CAPTURE(instance);
        CAPTURE(of_part);
        CAPTURE(training);
        net.instance = instance, net.of_part = of_part;
        net.train(training);
        TraceReport report;
        const auto gm = trace(net, {x}, {.report = &report});
        REQUIRE(report.notes.size() == 1);
        CAPTURE(report.notes[0]);
        for (const char* words : {instance ? "the training flag of %instance_norm" : "the training flag of %batch_norm",
                                  training ? "stays true whatever" : "stays false whatever",
                                  of_part ? "it is that of 'part'" : "it is that of the module itself"}) {
          CAPTURE(words);
          CHECK(report.notes[0].find(words) != std::string::npos);
        }
        check_same_effects(net, *gm, x);
        gm->train(!training);  // the graph's alone: it goes on as it was traced
        check_same_effects(net, *gm, x);
      }
}

TEST_CASE("functional calls with a flag of their own keep it, though the tensors are those of a module") {
  struct Frozen : torch::nn::Module {
    torch::nn::BatchNorm2d bn{4}, live{4};
    torch::nn::InstanceNorm2d instance{torch::nn::InstanceNorm2dOptions(4).affine(true).track_running_stats(true)};
    torch::nn::LSTM lstm{torch::nn::LSTMOptions(5, 3).num_layers(2).dropout(0.5)};
    Frozen() {
      register_module("bn", bn), register_module("live", live), register_module("instance", instance);
      register_module("lstm", lstm);
    }
    Tensor forward(Tensor t) {
      t = F::batch_norm(t, bn->running_mean, bn->running_var,
                        F::BatchNormFuncOptions().weight(bn->weight).bias(bn->bias));
      t = F::instance_norm(live(t), F::InstanceNormFuncOptions()
                                        .running_mean(instance->running_mean)
                                        .running_var(instance->running_var)
                                        .weight(instance->weight)
                                        .bias(instance->bias)
                                        .use_input_stats(false));
      const Tensor none = torch::zeros({2, 4, 3});
      return std::get<0>(torch::lstm(t.mean(2), {none, none}, lstm->all_weights(), true, 2, 0.5, false, false, false));
    }
  } net;
  const Tensor x = torch::randn({3, 4, 5, 5}) * 2 + 1;
  for (const bool training : {false, true}) {
    CAPTURE(training);
    net.train(training);
    TraceReport report;
    const auto gm = trace(net, {x}, {.report = &report});
    CHECK(report.notes.empty());
    for (const bool rewritten : {false, true}) {
      CAPTURE(rewritten);
      if (rewritten) {
        fxx::detail::ModuleExpansion{*gm};
        gm->recompile();
      }
      CHECK(called_modules(gm->graph()) == std::set<std::string>{"live"});
      for (const bool later : {true, false, true}) {
        net.train(later);
        gm->train(later);
        check_same_effects(net, *gm, x);
      }
      net.train(training);
      gm->train(training);
    }
  }
  // A module that is in another mode than the rest has its own flag all the same.
  struct Parts : torch::nn::Module {
    torch::nn::BatchNorm2d bn{4}, live{4};
    Parts() { register_module("bn", bn), register_module("live", live); }
    Tensor forward(Tensor t) { return live(bn(t)); }
  } parts;
  for (const bool training : {false, true}) {
    parts.train(training);
    parts.bn->train(!training);
    CHECK(called_modules(trace(parts, {x})->graph()) == std::set<std::string>{"bn", "live"});
    CHECK(parts.bn->is_training() == !training);
  }
}

TEST_CASE("a functional dropout of channels gets the module that takes inputs of so many dimensions") {
  struct Drops : torch::nn::Module {
    torch::nn::Dropout2d part{0.4};
    bool volumes = false, of_part = false;
    Drops() { register_module("part", part); }
    Tensor forward(Tensor t) {
      const bool flag = of_part ? part->is_training() : is_training();
      if (volumes) return F::dropout3d(t, F::Dropout3dFuncOptions().p(0.4).training(flag));
      return F::dropout2d(t, F::Dropout2dFuncOptions().p(0.4).training(flag));
    }
  } net;
  const Tensor images = torch::rand({3, 4, 2, 2}), volumes = torch::rand({3, 4, 2, 2, 2});
  TraceReport report;
  const auto follows = [&](const Tensor& x) {
    const auto gm = trace(net, {x}, {.report = &report});
    for (const bool later : {true, false}) {
      net.train(later);
      gm->train(later);
      check_same_draws(net, *gm, x);
    }
    net.train();
    return report.notes.empty();
  };
  CHECK(follows(images));
  CHECK(follows(images[0]));
  net.volumes = true;
  CHECK(follows(volumes));
  CHECK(follows(volumes[0]));
  // The flag is that of a module for images.
  net.of_part = true;
  const auto gm = trace(net, {volumes}, {.report = &report});
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].find("feature_dropout") != std::string::npos);
  check_same_draws(net, *gm, volumes);
  // No module drops whole samples.
  struct Samples : torch::nn::Module {
    Tensor forward(Tensor t) { return torch::feature_dropout(t, 0.4, is_training()); }
  } samples;
  const auto of_samples = trace(samples, {images[0]}, {.report = &report});
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].find("feature_dropout") != std::string::npos);
  check_same_draws(samples, *of_samples, images[0]);
}

TEST_CASE("an operator with the tensors of a module that would compute something else is no call of it") {
  struct OtherDims : torch::nn::Module {
    torch::nn::BatchNorm2d bn{4};
    OtherDims() { register_module("bn", bn); }
    Tensor forward(Tensor t) {
      return F::batch_norm(
          t, bn->running_mean, bn->running_var,
          F::BatchNormFuncOptions().weight(bn->weight).bias(bn->bias).training(bn->is_training()));
    }
  } dims;
  dims.eval();
  const Tensor x = torch::randn({3, 4});
  TraceReport report;
  const auto gm = trace(dims, {x}, {.report = &report});
  CHECK(called_modules(gm->graph()).empty());
  CHECK(report.notes.size() == 1);
  CHECK(same((*gm)(x), dims.forward(x)));
  struct OtherFunction : torch::nn::Module {
    torch::nn::RNN rnn{torch::nn::RNNOptions(4, 3).nonlinearity(torch::kReLU)};
    bool tanh = true;
    OtherFunction() { register_module("rnn", rnn); }
    Tensor forward(Tensor t) {
      const Tensor state = torch::zeros({1, 2, 3});
      const bool flag = is_training();
      return std::get<0>(tanh ? torch::rnn_tanh(t, state, rnn->all_weights(), true, 1, 0.0, flag, false, false)
                              : torch::rnn_relu(t, state, rnn->all_weights(), true, 1, 0.0, flag, false, false));
    }
  } function;
  const Tensor sequence = torch::randn({6, 2, 4});
  for (const bool tanh : {true, false}) {
    CAPTURE(tanh);
    function.tanh = tanh;
    const auto traced = trace(function, {sequence}, {.report = &report});
    CHECK(called_modules(traced->graph()) == (tanh ? std::set<std::string>{} : std::set<std::string>{"rnn"}));
    CHECK(same((*traced)(sequence), function.forward(sequence)));
  }
}

/// Parameters get other values, in place or as other memory; both sides see them.
void load_other_weights(torch::nn::Module& module, bool in_place) {
  const torch::NoGradGuard no_grad;
  for (Tensor& p : module.parameters())
    if (in_place) p.uniform_(-1, 1);
    else p.set_data(torch::rand_like(p));
}

TEST_CASE("a module with the weight of another is the operator, which copies keep tied") {
  struct Tied : torch::nn::Module {
    torch::nn::Linear in = nullptr, out = nullptr;
    explicit Tied(bool bias)
        : in(register_module("in", torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(bias)))),
          out(register_module("out", torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(bias)))) {
      out->weight = in->weight;
    }
    Tensor forward(Tensor t) { return out(in(t).relu()); }
  };
  const Tensor x = torch::randn({3, 4});
  for (const bool bias : {true, false}) {
    CAPTURE(bias);
    Tied net(bias);
    TraceReport report;
    const auto gm = trace(net, {x}, {.report = &report});
    CHECK(report.notes.empty());
    // Without a bias nothing tells the two apart.
    CHECK(called_modules(gm->graph()) == std::set<std::string>{"in"});
    CHECK(count_of(gm->graph(), ops::linear) == (bias ? 1 : 0));
    CHECK(gm->parameters().size() == (bias ? 3 : 1));
    check_traced(net, *gm, {{x}});
    for (const bool in_place : {true, false})
      for (torch::nn::Module* loaded : {static_cast<torch::nn::Module*>(&net), static_cast<torch::nn::Module*>(&*gm)}) {
        load_other_weights(*loaded, in_place);
        CHECK(same((*gm)(x), net.forward(x)));
      }
    const auto copy = std::dynamic_pointer_cast<GraphModule>(gm->clone());
    REQUIRE(copy);
    CHECK(same((*copy)(x), net.forward(x)));
    load_other_weights(*copy, true);
    Tied other(bias);
    other.in->weight.set_data(copy->attribute("in.weight"));
    if (bias)
      other.in->bias.set_data(copy->attribute("in.bias")), other.out->bias.set_data(copy->attribute("out.bias"));
    CHECK(same((*copy)(x), other.forward(x)));
  }
}

TEST_CASE("a module under two names is called by the first, trains as it does, and has one set of weights") {
  struct Twice : torch::nn::Module {
    torch::nn::Linear fc{4, 4};
    torch::nn::BatchNorm1d norm{4};
    torch::nn::Dropout drop{0.5};
    Twice() {
      register_module("fc", fc), register_module("norm", norm), register_module("drop", drop);
      register_module("fc_again", fc), register_module("norm_again", norm), register_module("drop_again", drop);
    }
    Tensor forward(Tensor t) { return drop(norm(fc(t))); }
  };
  const Tensor x = torch::randn({5, 4});
  for (const bool training : {true, false}) {
    CAPTURE(training);
    Twice net;
    net.train(training);
    TraceReport report;
    const auto gm = trace(net, {x}, {.report = &report});
    CHECK(report.notes.empty());
    CHECK(called_modules(gm->graph()) == std::set<std::string>{"fc", "norm", "drop"});
    for (const bool later : {false, true}) {
      net.train(later);
      gm->train(later);
      load_other_weights(later ? static_cast<torch::nn::Module&>(net) : *gm, later);
      check_same_effects(net, *gm, x);
    }
    const auto copy = std::dynamic_pointer_cast<GraphModule>(gm->clone());
    REQUIRE(copy);
    gm->eval(), copy->eval(), net.eval();
    CHECK(same((*copy)(x), net.forward(x)));
  }
}

}  // namespace

// --- how often the code runs, and what is left of it -------------------------------------------------------------------

namespace {

/// A cache of keys whose place is a number of C++, and what else a class may keep from call to call.
template <class Base>
struct Caching : Base {
  Tensor cache, sums = torch::zeros({4});  // the second is not registered
  torch::nn::Linear key{nullptr};
  torch::nn::Dropout drop{nullptr};
  std::int64_t place = 0;
  int calls = 0;
  std::vector<int> sizes;
  std::map<std::string, double> settings{{"scale", 1}};

  Caching() { reset(); }
  void reset() {
    cache = this->register_buffer("cache", torch::zeros({64, 4}));
    key = this->register_module("key", torch::nn::Linear(4, 4));
    drop = this->register_module("drop", torch::nn::Dropout(0.5));
  }
  Tensor forward(Tensor x) {
    ++calls;
    sizes.push_back(static_cast<int>(x.dim()));
    settings["scale"] *= 2;
    sums.add_(1);
    cache.slice(0, place, place + 1).copy_(key(x).mean(0, true));
    place += 1;
    return drop(x) + cache.slice(0, 0, place).sum(0);
  }
};
struct CachingCloneable : Caching<torch::nn::Cloneable<CachingCloneable>> {
  void reset() override { Caching::reset(); }
};
struct CachingPlain : Caching<torch::nn::Module> {};
/// Of a class that is derived from one that can be copied: its own members are none of that one's.
struct CachingDerived : CachingCloneable {
  int own = 0;
  Tensor forward(Tensor x) {
    ++own;
    return CachingCloneable::forward(x);
  }
};
struct Virtual : torch::nn::Cloneable<Virtual> {
  torch::nn::Dropout drop{nullptr};
  Virtual() { reset(); }
  void reset() override { drop = register_module("drop", torch::nn::Dropout(0.5)); }
  virtual Tensor forward(Tensor x) { return drop(x); }
};
struct VirtualCounting : Virtual {
  int calls = 0;
  Tensor forward(Tensor x) override { return ++calls, Virtual::forward(x); }
};
struct Counting : torch::nn::Cloneable<Counting> {  // whose count decides nothing
  int calls = 0;
  torch::nn::Linear layer{nullptr};
  Counting() { reset(); }
  void reset() override { layer = register_module("layer", torch::nn::Linear(4, 4)); }
  Tensor forward(Tensor x) { return ++calls, layer(x); }
};

}  // namespace

TEST_CASE("a module whose class is cloneable is after a trace as after one call, whatever ran again") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::rand({3, 4});
  for (int way = 0; way < 4; ++way)
    for (const bool training : {false, true}) {
      CAPTURE(way);
      CAPTURE(training);
      torch::manual_seed(4);
      CachingCloneable net;
      torch::manual_seed(4);
      CachingCloneable once;
      net.train(training);
      once.train(training);
      for (int before = 0; before < 3; ++before) net.forward(x), once.forward(x);
      TraceReport report;
      TraceOptions options{.report = &report};
      if (way == 1) options.strict = true;
      torch::manual_seed(5);
      std::shared_ptr<GraphModule> gm;
      if (way == 2) gm = trace(net, {x}, {{0, 0, "rows"}}, options);
      else if (way == 3) gm = trace(net, [&](Tensor t) { return net.forward(t); }, {x}, options);
      else gm = trace(net, {x}, options);
      const Tensor next_number = torch::rand({2});
      torch::manual_seed(5);
      once.forward(x);
      CHECK(same(torch::rand({2}), next_number));
      CHECK(net.calls == once.calls);
      CHECK(net.place == once.place);
      CHECK(net.sizes == once.sizes);
      CHECK(net.settings == once.settings);
      CHECK(same(net.cache, once.cache));
      CHECK(same(net.sums, once.sums));
      CHECK(net.is_training() == training);
      CHECK(net.drop->is_training() == training);
      CHECK(report.runs > 1);
      CHECK(report.members_restored);
      CHECK(report.to_string().find("the code ran " + std::to_string(report.runs) + " times in the trace; what the "
                                    "further runs did was undone") != std::string::npos);
      // It goes on from there.
      net.eval();
      once.eval();
      CHECK(same(net.forward(x), once.forward(x)));
    }
}

TEST_CASE("dynamic sizes are told from runs that all start from the members of the first one") {
  const torch::NoGradGuard no_grad;
  CachingCloneable net;
  net.eval();
  const auto gm = trace(net, {torch::rand({6, 4})}, {{0, 0, "rows"}});
  for (const int rows : {1, 5, 9}) {
    CachingCloneable fresh;
    fresh.eval();
    fresh.key = net.key;
    net.cache.zero_();
    const Tensor x = torch::rand({rows, 4});
    CHECK(same((*gm)(x), fresh.forward(x)));
  }
}

TEST_CASE("of other classes the report says how often the code ran, and a note where that shows") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::rand({3, 4});
  CachingPlain net;
  TraceReport report;
  trace(net, {x}, {.report = &report});
  CHECK(static_cast<std::size_t>(net.calls) == report.runs);
  CHECK(report.runs > 1);
  CHECK_FALSE(report.members_restored);
  // What operators write to is as after one call all the same.
  CHECK(same(net.sums, torch::ones({4})));
  CHECK(net.cache.slice(0, 1).abs().max().item<float>() == 0);
  bool told = false;
  for (const std::string& note : report.notes)
    told = told || note.find("the code ran " + std::to_string(report.runs) + " times in the trace; registered") !=
                       std::string::npos;
  CHECK(told);
  CachingPlain single;
  trace(single, {x}, {.training_flags = false, .report = &report});
  CHECK(single.calls == 1);
  CHECK(report.runs == 1);
  CHECK(report.members_restored);
  CHECK(report.to_string().find("times in the trace") == std::string::npos);

  Counting counting;
  trace(counting, {x}, {.report = &report});
  CHECK(counting.calls == 1);
  CHECK(report.notes.empty());
  // A trace that throws tells it as well.
  CachingPlain throwing;
  report = {};
  int left = 3;
  const auto throws_later = [&](Tensor t) {
    if (left-- == 0) throw std::runtime_error("later");
    return throwing.forward(t);
  };
  CHECK_THROWS(trace(throwing, throws_later, {x}, {.check_mutable_operations = true, .strict = true, .report = &report}));
  CHECK(static_cast<std::size_t>(throwing.calls) <= report.runs);
  CHECK(report.runs > 0);
  CHECK((report.runs == 1 || !report.members_restored));
  // A class that is derived from one that can be copied, given as itself and as that one.
  CachingDerived derived;
  trace(derived, {x}, {.report = &report});
  CHECK_FALSE(report.members_restored);
  CHECK(static_cast<std::size_t>(derived.own) == report.runs);
  VirtualCounting counts;
  for (const bool shared : {false, true}) {
    counts.calls = 0;
    if (shared) trace(std::shared_ptr<Virtual>(std::shared_ptr<Virtual>(), &counts), {x}, {.report = &report});
    else trace(static_cast<Virtual&>(counts), {x}, {.report = &report});
    CHECK(static_cast<std::size_t>(counts.calls) == report.runs);
    CHECK((report.runs == 1 || !report.members_restored));
  }
  // A module of another class inside keeps what it keeps.
  auto inside = torch::nn::Sequential(std::make_shared<CachingPlain>());
  trace(inside, {x}, {.report = &report});
  CHECK_FALSE(report.members_restored);
  torch::nn::Sequential plain(torch::nn::Linear(4, 4), torch::nn::ReLU());
  trace(plain, {x}, {.report = &report});
  CHECK(report.members_restored);
}
