// Faults of traces name the user's file and line where the code has debug information. The code lies in a library of
// its own: the test program has none, which would make each lookup read hundreds of megabytes.
#include "fxx/runtime/cache.hpp"
#include "fxx/runtime/process.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

/// Functions of tensors, each `case` in a line that its comment names.
constexpr std::string_view source = R"(#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
using at::Tensor;
namespace user {
Tensor item(const Tensor& x) { return x.mul(x.max().item<double>()); }    // line 8
Tensor alias(const Tensor& x) { x.set_data(x.relu()); return x; }         // line 9
Tensor elements(const Tensor& x) { return x.mul(x.data_ptr<float>()[0]); }// line 10
Tensor size(const Tensor& x) {
  return x.view({x.size(0), -1});                                         // line 12
}
Tensor found(const Tensor& x) {
  return x.mul(at::nonzero(x).size(0));                                   // line 15
}
Tensor differs(const Tensor& x) {
  if (x.size(0) > 3) return x.exp();                                      // line 18
  return x.sin();                                                         // line 19
}
Tensor wrong(const Tensor& x) {
  return x.relu().add(at::ones({7, 7}));                                  // line 22
}
Tensor fine(const Tensor& x) {
  const Tensor y = x.exp();                                               // line 25
  return y.relu();                                                        // line 26
}
}
)";

struct Functions {
  Functions() {
    BuildRequest request;
    request.source = std::string(source) + "extern \"C\" {\n";
    for (const char* name : {"item", "alias", "elements", "size", "found", "differs", "wrong", "fine"})
      request.source +=
          std::string("void run_") + name + "(const Tensor& x, Tensor& out) { out = user::" + name + "(x); }\n";
    request.source += "}\n";
    const std::string torch = torch_folder();
    request.flags = {"-std=c++17",
                     "-O0",
                     "-g",
                     "-w",
                     "-fno-omit-frame-pointer",
                     "-D_GLIBCXX_USE_CXX11_ABI=" + std::to_string(_GLIBCXX_USE_CXX11_ABI)};
    request.include_folders = {torch + "/include"};
    request.library_folders = {torch + "/lib"};
    request.libraries = {"torch", "torch_cpu", "c10"};
    request.rpaths = {torch + "/lib"};
    request.timeout_seconds = 600;
    library = Library(BuildCache().get_or_build(request));
  }
  std::function<Tensor(Tensor)> operator[](const std::string& name) const {
    auto* const run = library.symbol<void(const Tensor&, Tensor&)>(("run_" + name).c_str());
    return [run](Tensor x) {
      Tensor out;
      run(x, out);
      return out;
    };
  }
  Library library;
};

const Functions& functions() {
  static const Functions made;
  return made;
}

}  // namespace

TEST_CASE("faults of a trace name the user's function, file and line") {
  REQUIRE(find_program("addr2line"));  // comes with the compiler
  const Tensor x = torch::rand({3, 4});
  const auto fault = [&](const std::string& name, const TraceOptions& options = {}) {
    return fault_of<TraceError>([&] { trace(functions()[name], {x}, options); });
  };
  const auto check = [](const Fault& fault, int id, const std::string& place) {
    CAPTURE(fault.text);
    CHECK(fault.id == id);
    CHECK(fault.says(place));
  };
  check(fault("item"), 301, "user::item(...) at source.cpp:8");
  check(fault("alias"), 307, "user::alias(...) at source.cpp:9");
  check(fault("elements"), 320, "user::elements(...) at source.cpp:10");
  check(fault("size", {.strict = true}), 322, "x.size(0) = 3, read by user::size(...) at source.cpp:12");
  check(fault("found", {.strict = true}), 322, "user::found(...) at source.cpp:15");
  const Fault differs = fault("differs", {.dynamic = {{0, 0, "n"}}});
  check(differs, 309, "from user::differs(...) at source.cpp:18");
  CHECK(differs.says("from user::differs(...) at source.cpp:19"));
  CHECK(!differs.says("main"));  // a line each
  // What operators refuse is LibTorch's error, with the place added.
  try {
    trace(functions()["wrong"], {x});
    FAIL("the operator takes it");
  } catch (const c10::Error& error) {
    CHECK(std::string_view(error.what_without_backtrace())
              .find("While tracing 'aten::add.Tensor', called by "
                    "user::wrong(...) at source.cpp:22") != std::string_view::npos);
  }
}

TEST_CASE("reports and stack traces name files and lines") {
  REQUIRE(find_program("addr2line"));  // comes with the compiler
  const Tensor x = torch::rand({3, 4});
  TraceReport report;
  trace(functions()["size"], {x}, {.report = &report});
  REQUIRE(report.sizes.size() == 1);
  CHECK(report.sizes[0].source == "user::size(...) at source.cpp:12");
  const auto gm = trace(functions()["fine"], {x}, {.record_stack_traces = true});
  const std::vector<Node*> calls = gm->graph().find_nodes(Opcode::call_function);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]->meta().stack_trace.find("user::fine(...) at source.cpp:25") != std::string::npos);
  CHECK(calls[1]->meta().stack_trace.find("user::fine(...) at source.cpp:26") != std::string::npos);
}

TEST_CASE("the source of a compiled module names files and lines") {
  REQUIRE(find_program("addr2line"));  // comes with the compiler
  const Tensor x = torch::rand({3, 4});
  const auto gm = trace(functions()["fine"], {x}, {.record_stack_traces = true});
  const support::TemporaryFolder cache;
  const std::string text = fxx::compile(*gm, {x}, {.cache_folder = cache.path()})->source_code();
  CAPTURE(text);
  CHECK(text.find("user::fine(...) at source.cpp:25\n") != std::string::npos);
}
