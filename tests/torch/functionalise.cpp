// Graphs before and after functionalise: random programs of views and writes give the same results, and leave the same
// values in inputs and buffers.
#include "fxx/passes/functionalise.hpp"

#include <string>

#include "fxx/ops/operation.hpp"
#include "fxx/torch/indexing.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

/// One call: an operator by number, the values that it takes, and numbers that say how.
struct Instruction {
  int what = 0;
  std::vector<std::size_t> on;
  std::vector<std::int64_t> with;
};
constexpr int kinds = 58;

at::Tensor item(const Tensors& list, std::int64_t i) { return list[static_cast<std::size_t>(i) % list.size()]; }

/// Runs one; the result is a new value, or one of its arguments.
at::Tensor execute(const Instruction& i, const Tensors& values) {
  at::Tensor x = values[i.on[0]];
  const at::Tensor& y = values[i.on[1]];
  const std::int64_t a = i.with[0], b = i.with[1], c = i.with[2];
  switch (i.what) {
    // views
    case 0: return x.view({-1});
    case 1: return x.reshape({-1});
    case 2: return x.select(a, b);
    case 3: return x.slice(a, b, b + c);
    case 4: return x.slice(a, b, 100, 2);
    case 5: return x.transpose(a, b);
    case 6: return x.unsqueeze(a);
    case 7: return x.squeeze(a);
    case 8: return x.narrow(a, b, c);
    case 9: return x.permute({a, b});
    case 10: return x.diagonal(b % 2);
    case 11: return x.flatten();
    case 12: return x.contiguous();
    case 13: return x.detach();
    case 14: return x.movedim(a, b);
    case 15: return x.view_as(y);
    case 16: return x.unsqueeze(0).expand({2, -1, -1});
    case 17: return x.t();
    case 18: return x.mT();
    case 19: return x.unfold(0, 2, 1);
    case 20: return x.as_strided({2, 2}, {b + 2, 1});
    // writes
    case 21: return x.add_(0.5);
    case 22: return x.mul_(y);
    case 23: return x.relu_();
    case 24: return x.fill_(0.25);
    case 25: return x.zero_();
    case 26: return x.copy_(y);
    case 27: return x.clamp_(-0.5, 0.75);
    case 28: return x.masked_fill_(y > 0, 0.125);
    case 29: return x.tril_(b - 1);
    case 30: return x.cumsum_(a);
    case 31: return x.eq_(y);
    case 32: return x.add_(y, 0.5);
    case 33: return x.unsqueeze_(a);
    case 34: return x.t_();
    case 35: return x.sub_(y.clone());
    case 36: return x.transpose_(a, b);
    case 37: return x.mul_(y.neg());
    case 38: return x.addcmul_(y, y, 0.5);
    case 39: return x.squeeze_(a);
    case 40: return x.logical_not_();
    // new values
    case 41: return x + y;
    case 42: return x.relu();
    case 43: return x.clone();
    case 44: return x * 0.5;
    case 45: return x.sigmoid().view({-1});
    case 46: return x.to(torch::kDouble);
    case 47: return x.to(torch::kFloat);
    // lists of views
    case 48: return item(x.chunk(2, a), b);
    case 49: return x.split(c, a).back();
    case 50: return item(x.unbind(a), b);
    case 51: return torch::cat(x.tensor_split(2, a), a);
    // more writes
    case 52: return x.index_fill_(a, torch::tensor({0}), 0.375);
    case 53: return x.index_put_({torch::tensor({0, 0})}, y.select(0, 0), true);
    case 54: return torch::add_out(x, y, y);
    case 55: return torch::dropout_(x, 0.5, false);
    case 56: return x.view(x.scalar_type() == torch::kDouble ? torch::kLong : torch::kInt);
    default: return x.view(x.scalar_type() == torch::kLong ? torch::kDouble : torch::kFloat);
  }
}
bool writes(int what) { return (what >= 21 && what <= 40) || (what >= 52 && what <= 55); }

/// A program and how many values it starts with.
struct Program {
  std::vector<Instruction> instructions;
  std::vector<std::size_t> returned;
};
Tensors execute(const Program& program, Tensors values) {
  for (const Instruction& i : program.instructions) values.push_back(execute(i, values));
  Tensors out;
  for (std::size_t i : program.returned) out.push_back(values[i]);
  return out;
}

/// Calls that tensors of these sizes allow; those that LibTorch refuses are left out.
Program random_program(Random& random, const Tensors& inputs, std::size_t length) {
  Program program;
  Tensors values = cloned(inputs), twice;
  for (std::size_t tries = 0; program.instructions.size() < length && tries < 20 * length; ++tries) {
    // The last values more often than the first.
    const auto pick = [&] {
      const std::size_t all = values.size();
      return random.chance(2) ? random.below(all) : all - 1 - random.below(std::min<std::size_t>(3, all));
    };
    Instruction i{static_cast<int>(random.below(kinds)), {pick(), pick()}, {}};
    if (random.chance(3)) i.what = 21 + static_cast<int>(random.below(20));
    const at::Tensor &x = values[i.on[0]], &y = values[i.on[1]];
    const auto rank = static_cast<std::size_t>(std::max<std::int64_t>(x.dim(), 1));
    i.with = {static_cast<std::int64_t>(random.below(rank)),
              static_cast<std::int64_t>(random.below(std::max<std::size_t>(rank, 2))),
              static_cast<std::int64_t>(1 + random.below(2))};
    if (x.numel() == 0 || x.dim() > 4) continue;
    // What reads the memory that it writes has no defined result.
    if (writes(i.what) && (i.on[0] != i.on[1] || i.what == 53) && x.storage().is_alias_of(y.storage())) continue;
    if (i.what == 20 && !x.is_contiguous()) continue;
    if (i.what == 54 && x.sizes() != y.sizes()) continue;               // it would get other sizes
    if ((i.what == 16 || i.what == 19) && !random.chance(4)) continue;  // after them little can be written
    const bool of_input =
        std::any_of(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(inputs.size()),
                    [&](const at::Tensor& input) { return input.storage().is_alias_of(x.storage()); });
    const bool by_two_names = std::any_of(
        twice.begin(), twice.end(), [&](const at::Tensor& other) { return other.storage().is_alias_of(x.storage()); });
    if ((of_input || by_two_names) && (i.what == 33 || i.what == 34 || i.what == 36 || i.what == 39)) continue;
    try {
      at::Tensor result = execute(i, values);
      // In a trace it is a tensor of its own.
      if (!writes(i.what) && result.is_same(x)) {
        result = at::alias(result);
        twice.push_back(x);
      }
      values.push_back(result);
      program.instructions.push_back(i);
    } catch (const c10::Error&) {
    }
  }
  for (int k = 0; k < 3; ++k) program.returned.push_back(random.below(values.size()));
  program.returned.push_back(values.size() - 1);
  return program;
}

/// Everything that a run gives: results, then inputs and the buffer as it leaves them.
Tensors outcome(GraphModule& module, Graph& graph, const Tensors& inputs, const at::Tensor& buffer) {
  Tensors given = cloned(inputs);
  const at::Tensor kept = module.attribute("buffer");
  kept.copy_(buffer);
  Interpreter interpreter(module, graph);
  Tensors out = cloned(tensors_of(interpreter.run(boxed(given))));
  for (const at::Tensor& t : given) out.push_back(t.clone());
  out.push_back(kept.clone());
  return out;
}

/// Nothing writes but copies into inputs and attributes, which stand at the end.
bool is_pure(const Graph& graph) {
  bool copies = false;
  for (const Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (op && op->mutates) {
      if (!node->calls(ops::copy_)) return false;
      const Node* target = node->arg(0).node();
      if (target->calls(ops::detach)) target = target->arg(0).node();
      if (target->opcode() != Opcode::placeholder && target->opcode() != Opcode::get_attr) return false;
      copies = true;
    } else if (copies && op && !op->aliases) {
      return false;
    }
  }
  return true;
}

struct ProgramModule : torch::nn::Module {
  const Program& program;
  torch::Tensor buffer;
  ProgramModule(const Program& p, const at::Tensor& b) : program(p), buffer(register_buffer("buffer", b.clone())) {}
  std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor y) { return execute(program, {x, y, buffer}); }
};

}  // namespace

TEST_CASE("random programs of views and writes compute the same once they are functional") {
  const torch::NoGradGuard no_grad;
  Random random(20);
  std::size_t changed = 0, left = 0, pure = 0;
  const int programs = 600;
  for (int n = 0; n < programs; ++n) {
    torch::manual_seed(n);
    const Tensors inputs = {torch::randn({4, 6}), torch::randn({4, 6}, n % 3 == 0 ? torch::kDouble : torch::kFloat)};
    const at::Tensor buffer = torch::randn({6, 4});
    const Program program = random_program(random, {inputs[0], inputs[1], buffer}, 3 + random.below(14));
    ProgramModule module(program, buffer);
    const auto traced = fxx::trace(module, inputs);
    if (!traced->owner().find_attribute("buffer")) traced->register_attribute("buffer", buffer.clone());
    Graph before(traced->graph()), after(traced->graph());
    if (n % 4 == 3)  // of which less is known
      for (Graph* graph : {&before, &after})
        for (Node* node : graph->nodes()) node->clear_tensor_meta();
    CAPTURE(n);
    CAPTURE(to_string(before));
    const FunctionaliseReport report = functionalise(after);
    after.lint();
    CAPTURE(to_string(after));
    changed += report.changed;
    left += report.left.size();
    if (report.left.empty()) {
      ++pure;
      CHECK(is_pure(after));
    }
    const Tensors expected = outcome(*traced, before, inputs, buffer), given = outcome(*traced, after, inputs, buffer);
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_difference(given[i], expected[i]) <= 1e-6);
    }
  }
  MESSAGE(changed << " writes changed, " << left << " left; " << pure << " of " << programs << " graphs are pure");
  CHECK(changed > 1000);
  CHECK(pure > programs / 2);
}

// --- as a forward over proxies writes them ---------------------------------------------------------------------------

namespace {
/// Traces a function of one tensor, and compares; how many writes were left.
template <class F>
std::size_t left_of(F f, const at::Tensor& input) {
  const torch::NoGradGuard no_grad;
  const auto traced = fxx::symbolic_trace(f);
  Graph before(traced->graph()), after(traced->graph());
  const FunctionaliseReport report = functionalise(after);
  after.lint();
  CAPTURE(to_string(before));
  CAPTURE(to_string(after));
  at::Tensor x = input.clone(), y = input.clone();
  Interpreter first(*traced, before), second(*traced, after);
  const c10::IValue expected = first.run({x}), given = second.run({y});
  CHECK(relative_difference(given, expected) <= 1e-6);
  CHECK(same(y, x));
  if (report.left.empty()) CHECK(is_pure(after));
  return report.left.size();
}
}  // namespace

TEST_CASE("what Python's indices write to is written back, as the other views are") {
  using fxx::indexing::Slice;
  using torch::indexing::None;
  const at::Tensor x = torch::randn({4, 6});
  CHECK(left_of(
            [](auto x) {
              auto y = x + 1;
              y[0] = 1;
              return y;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x * 2;
              y.index_put_({Slice(1, 3), 2}, 0.5);
              return y + x;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x * 2;
              y.index_put_({Slice(None, None, 2)}, x.index({Slice(0, 2)}));
              return y;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x * 2;
              auto z = y.index({"...", 1});
              y.mul_(2);
              z.add_(1);
              return y;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              x.index({None, Slice(1, 2)}).mul_(3);
              return x;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x + 1;
              auto c = y.split(2, 0);
              c[1].mul_(2);
              c[0].copy_(c[1]);
              return fxx::cat({y, c[0]});
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x + 1;
              auto v = y.view({-1});
              y.unsqueeze_(0).mul_(2);
              return y.sum() + v;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x.transpose(0, 1);
              y.fill_(2);
              x.add_(y.t());
              return y.relu_();
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto t = empty_like(x);
              t.copy_(x);
              x.mul_(2);
              return t;
            },
            x) == 0);
  CHECK(left_of(
            [](auto x) {
              auto y = x > 0;
              y.logical_not_();
              x.masked_fill_(y, 1);
              x.eq_(x);
              return y;
            },
            x) == 0);
}
