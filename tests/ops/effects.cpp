// ops/effects.hpp: which writes other nodes can see.
#include "fxx/ops/effects.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

using namespace fxx;

namespace {
struct Fresh {
  Graph g;
  Node* x = g.placeholder("x");
  Node* made = g.call_function(ops::add_Tensor, {x, 1});
};
}  // namespace

TEST_CASE("writing to a value that was made for it is nobody's business") {
  Fresh f;
  Node* n = f.g.call_function(ops::relu_, {f.made});
  CHECK(mutates_own_temporary(*n));
  CHECK_FALSE(is_barrier(*n));
  CHECK(is_impure(*n));
  Node* method = f.g.call_method("mul_", {f.g.call_function(ops::neg, {f.x}), 2});
  CHECK(mutates_own_temporary(*method));
}

TEST_CASE("a second user of the value sees the write") {
  Fresh f;
  Node* n = f.g.call_function(ops::relu_, {f.made});
  f.g.call_function(ops::neg, {f.made});
  CHECK_FALSE(mutates_own_temporary(*n));
  CHECK(is_barrier(*n));
}

TEST_CASE("one write after another to the same temporary is seen by nobody either, to an input by all") {
  Fresh f;
  Node* n = f.made;
  for (int i = 0; i < 4; ++i) n = f.g.call_function(ops::relu_, {n});
  CHECK(mutates_own_temporary(*n));
  n = f.x;
  for (int i = 0; i < 4; ++i) n = f.g.call_function(ops::relu_, {n});
  CHECK_FALSE(mutates_own_temporary(*n));
}

TEST_CASE("inputs, attributes, views and results of unknown calls are memory that others may see") {
  Fresh f;
  Graph& g = f.g;
  for (Node* seen : {f.x, g.get_attr("weight"), g.call_function(ops::view, {f.made, Argument::list({-1})}),
                     g.call_function(ops::contiguous, {f.made}),
                     g.call_function(ops::reshape, {f.made, Argument::list({-1})}), g.call_module("layer", {f.x}),
                     g.call_function(register_function("tests::any"), {f.x}), g.call_method("no_such_method", {f.x})}) {
    CAPTURE(format_node(*seen));
    Node* n = g.call_function(ops::relu_, {seen});
    CHECK_FALSE(mutates_own_temporary(*n));
    CHECK(is_barrier(*n));
  }
}

TEST_CASE("one of several results is not a value of its own") {
  Fresh f;
  Node* pieces = f.g.call_function(ops::chunk, {f.made, 2});
  Node* first = f.g.call_function(ops::operator_getitem, {pieces, 0});
  CHECK_FALSE(mutates_own_temporary(*f.g.call_function(ops::relu_, {first})));
}

TEST_CASE("what does not write mutates nothing") {
  Fresh f;
  CHECK_FALSE(mutates_own_temporary(*f.made));
  CHECK_FALSE(mutates_own_temporary(*f.x));
  CHECK_FALSE(mutates_own_temporary(*f.g.call_function(ops::relu_, {})));
}

TEST_CASE("barriers are impure calls; inputs, attributes and the output are none") {
  Fresh f;
  Graph& g = f.g;
  CHECK_FALSE(is_barrier(*f.x));
  CHECK_FALSE(is_barrier(*g.get_attr("weight")));
  CHECK_FALSE(is_barrier(*f.made));
  CHECK_FALSE(is_barrier(*g.call_function(ops::dropout, {f.made, 0.5, true})));
  CHECK(is_barrier(*g.call_module("unknown", {f.made})));
  CHECK(is_barrier(*g.call_method("unknown_", {f.made})));
  CHECK(is_barrier(*g.call_function(register_function("tests::effect", {}, true), {f.made})));
  CHECK(is_barrier(*g.call_function(ops::batch_norm, {f.made, {}, {}, f.made, f.made, true, 0.1, 1e-5, false})));
  CHECK_FALSE(is_barrier(*g.call_function(ops::batch_norm, {f.made, {}, {}, {}, {}, false, 0.1, 1e-5, false})));
  CHECK_FALSE(is_barrier(*g.output(f.made)));
}

// --- memory ---------------------------------------------------------------------------------------------------------

TEST_CASE("the memory of a value is that of the node that made it, through views, parts and calls in place") {
  Fresh f;
  Graph& g = f.g;
  Node* parts = g.call_function(ops::chunk, {f.made, 2});
  Node* in_place = g.call_function(ops::relu_, {g.call_function(ops::view, {f.made, Argument::list({-1})})});
  for (const Node* n : {f.made, parts, in_place, g.call_function(ops::fxx_identity, {in_place})}) {
    CAPTURE(format_node(*n));
    const Memory memory = memory_of(*n);
    CHECK(memory.makers == std::vector<const Node*>{f.made});
    CHECK(memory.certain);
    CHECK_FALSE(memory.shared);
  }
  for (Node* n : {g.call_function(ops::contiguous, {f.made}), g.call_function(ops::operator_getitem, {parts, 0}),
                  g.call_function(ops::dropout, {f.made, 0.5, false}),
                  g.call_function(ops::einsum, {"i", Argument::list({f.made})})}) {
    CAPTURE(format_node(*n));
    const Memory memory = memory_of(*n);
    CHECK_FALSE(memory.certain);  // a copy, perhaps
    CHECK(may_overlap(memory, memory_of(*f.made)));
  }
}

TEST_CASE("memory from outside may be the same, fresh memory is not") {
  Fresh f;
  Graph& g = f.g;
  Node *attribute = g.get_attr("w"), *unknown = g.call_module("layer", {f.made});
  Node* other = g.call_function(ops::neg, {f.x});
  for (const Node* outside : {f.x, attribute, unknown}) {
    CHECK(memory_of(*outside).shared);
    CHECK(may_overlap(memory_of(*outside), memory_of(*f.x)));
    CHECK_FALSE(may_overlap(memory_of(*outside), memory_of(*other)));
  }
  CHECK(may_overlap(memory_of(*unknown), memory_of(*f.made)));  // it may return what it was given
  CHECK_FALSE(may_overlap(memory_of(*f.made), memory_of(*other)));
}

TEST_CASE("too long a chain could lie anywhere") {
  Fresh f;
  Node* n = f.made;
  for (int i = 0; i < 1000; ++i) n = f.g.call_function(ops::t, {n});
  CHECK(memory_of(*n).anywhere);
  CHECK(may_overlap(memory_of(*n), memory_of(*f.g.call_function(ops::neg, {f.x}))));
}

TEST_CASE("what a call writes to") {
  Fresh f;
  Graph& g = f.g;
  Node* view = g.call_function(ops::view, {f.made, Argument::list({-1})});
  CHECK(memory_written_by(*g.call_function(ops::copy_, {view, f.x})).makers == std::vector<const Node*>{f.made});
  CHECK(memory_written_by(*f.made).makers.empty());
  CHECK(memory_written_by(*g.call_function(ops::dropout_, {f.made, 0.5, false})).makers.empty());
  Node* mean = g.get_attr("mean");
  const Memory norm =
      memory_written_by(*g.call_function(ops::batch_norm, {f.made, {}, {}, mean, mean, true, 0.1, 1e-5, false}));
  CHECK(norm.makers == std::vector<const Node*>{mean});
  const Memory unknown = memory_written_by(*g.call_module("layer", {f.made}));
  CHECK(unknown.shared);
  CHECK(may_overlap(unknown, memory_of(*f.made)));
}

TEST_CASE("random numbers are drawn by operators that do, unless their arguments say that they need none") {
  Fresh f;
  Graph& g = f.g;
  Node* const x = f.x;
  const Argument none;
  CHECK(draws_numbers(*g.call_function(ops::rand_like, {x})));
  CHECK(draws_numbers(*g.call_function(ops::bernoulli, {x})));
  CHECK(draws_numbers(*g.call_method("uniform_", {f.made})));
  CHECK_FALSE(draws_numbers(*f.made));
  CHECK_FALSE(draws_numbers(*x));
  CHECK_FALSE(draws_numbers(*g.call_module("layer", {x})));
  CHECK_FALSE(draws_numbers(*g.output(x)));

  CHECK(draws_numbers(*g.call_function(ops::dropout, {x, 0.5, true})));
  CHECK_FALSE(draws_numbers(*g.call_function(ops::dropout, {x, 0.5, false})));
  CHECK_FALSE(draws_numbers(*g.call_function(ops::dropout, {x, 0, true})));
  CHECK(draws_numbers(*g.call_function(ops::dropout, {x, 0.5, f.made})));  // who knows
  CHECK(draws_numbers(*g.call_function(ops::dropout, {x, f.made, true})));
  CHECK(draws_numbers(*g.call_function(ops::native_dropout, {x, 0.5, none})));
  CHECK(draws_numbers(*g.call_function(ops::native_dropout, {x, 0., true})));
  CHECK(draws_numbers(*g.call_function(ops::bernoulli_p, {x, 0.})));
  CHECK(draws_numbers(*g.call_function(ops::rrelu, {x, 0.1, 0.3, true})));
  CHECK_FALSE(draws_numbers(*g.call_function(ops::rrelu, {x, 0.1, 0.3, false})));

  // By keyword, and by default.
  CHECK_FALSE(draws_numbers(*g.call_function(ops::scaled_dot_product_attention, {x, x, x})));
  CHECK_FALSE(draws_numbers(*g.call_function(ops::scaled_dot_product_attention, {x, x, x, none, 0.})));
  CHECK(draws_numbers(*g.call_function(ops::scaled_dot_product_attention, {x, x, x}, {{"dropout_p", 0.1}})));
  const Argument list = Argument::list({x, x});
  CHECK(draws_numbers(*g.call_function(ops::lstm_input, {x, list, list, true, 2, 0.5, true, false, false})));
  CHECK_FALSE(draws_numbers(*g.call_function(ops::lstm_input, {x, list, list, true, 2, 0.5, false, false, false})));
  CHECK_FALSE(draws_numbers(*g.call_function(ops::lstm_input, {x, list, list, true, 2, 0., true, false, false})));
}

TEST_CASE("a user passes memory on when its result lies in it") {
  Fresh f;
  Graph& g = f.g;
  Node* copied = g.call_function(ops::copy_, {f.made, f.x});
  CHECK(passes_on_memory(*copied, *f.made));
  CHECK_FALSE(passes_on_memory(*copied, *f.x));
  CHECK_FALSE(passes_on_memory(*g.call_function(ops::relu, {f.x}), *f.x));
  CHECK(passes_on_memory(*g.call_module("layer", {f.x}), *f.x));
  CHECK_FALSE(passes_on_memory(*g.output(f.x), *f.x));
}
