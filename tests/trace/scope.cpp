// Scopes: whether a thread traces, and within which modules.
#include "fxx/trace/scope.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "fxx/error.hpp"

using namespace fxx;

TEST_CASE("is_tracing tells whether this thread traces, through nested traces and past their ends") {
  CHECK_FALSE(is_tracing());
  {
    const detail::TracingScope outer;
    CHECK(is_tracing());
    {
      const detail::TracingScope inner;
      CHECK(is_tracing());
    }
    CHECK(is_tracing());
    bool elsewhere = true;
    std::thread([&] { elsewhere = is_tracing(); }).join();
    CHECK_FALSE(elsewhere);
  }
  CHECK_FALSE(is_tracing());
}

TEST_CASE("a trace that ends by an exception leaves nothing behind") {
  CHECK_THROWS_AS(
      [] {
        const detail::TracingScope tracing(nullptr, "Net");
        const ModuleScope block("block", "Block");
        const auto stage = annotate({{"stage", 1}});
        throw 1;
      }(),
      int);
  CHECK_FALSE(is_tracing());
  CHECK(traced_modules().empty());
}

TEST_CASE("the modules being traced, outermost first; a trace within a trace has its own") {
  CHECK(traced_modules().empty());
  const detail::TracingScope tracing(nullptr, "Net");
  CHECK(traced_modules() == "Net");
  {
    const ModuleScope encoder("encoder", "Encoder"), layer("encoder.0");
    CHECK(traced_modules() == "Net > encoder (Encoder) > encoder.0");
    {
      const detail::TracingScope another;
      CHECK(traced_modules().empty());
      const ModuleScope other("other", "Other");
      CHECK(traced_modules() == "other (Other)");
    }
    CHECK(layer.outer() == &encoder);
    CHECK(traced_modules() == "Net > encoder (Encoder) > encoder.0");
  }
  CHECK(traced_modules() == "Net");
}

TEST_CASE("a fault says within which modules it happened") {
  const TraceError fault(ErrorId::data_dependent, "f: wrong", {"%x", "g() at m.cpp:1", "Net > fc (Linear)"});
  CHECK(std::string(fault.what()) == "fxx::f: wrong [E301, node %x, from g() at m.cpp:1, in Net > fc (Linear)]");
  CHECK(fault.modules() == "Net > fc (Linear)");
  CHECK(std::string(TraceError(ErrorId::data_dependent, "f: wrong", {.modules = "Net"}).what()) ==
        "fxx::f: wrong [E301, in Net]");
}
