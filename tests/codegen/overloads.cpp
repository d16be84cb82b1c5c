// Readable forward functions: arguments are written so that C++ calls the overload that the node calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "fxx/codegen/readable.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "listed_owner.hpp"

using namespace fxx;

namespace {
const test::ListedOwner nobody;
}  // namespace

TEST_CASE("C++ calls the overload that is meant: defaults tell it, or the type of a list, or it is named") {
  const auto called = [](const auto& op, std::vector<Argument> arguments, std::vector<KeywordArgument> options = {}) {
    Graph g;
    Node* x = g.placeholder("x");
    arguments.insert(arguments.begin(), Argument(x));
    g.output(g.call_function(op, arguments, options));
    const std::string text = forward_code(g, nobody, {.release_values = false, .nest_expressions = true});
    const auto from = std::min(text.find("return "), text.find("auto "));
    const auto start = text[from] == 'r' ? from + 7 : text.find(" = ", from) + 3;
    return text.substr(start, text.find(';') - start);
  };
  const Argument one = Argument::list({1}), two = Argument::list({1, 2});
  // An operator that is another object than the table's, as patterns have it, is the same.
  const Operator copy = ops::clamp_max.info();
  CHECK(called(copy, {1}) == "torch::clamp_max(x, 1)");
  CHECK(called(ops::var_dim, {one, true}) == "torch::var(x, {1}, true)");
  CHECK(called(ops::var_dim, {Argument::list({-1}), true, false}) == "torch::var(x, {-1}, true)");
  CHECK(called(ops::var_correction, {one}) == "torch::var(x, {1}, std::nullopt)");
  CHECK(called(ops::var_correction, {one}, {{"correction", 2}}) == "at::_ops::var_correction::call(x, {1}, 2, false)");
  CHECK(called(ops::std, {true}) == "torch::std(x, true)");
  CHECK(called(ops::sort_stable, {}, {{"stable", true}}) == "torch::sort(x, true, -1, false)");
  CHECK(called(ops::sort_stable, {}, {{"stable", true}, {"dim", 0}}) == "torch::sort(x, true, 0, false)");
  CHECK(called(ops::tensor_split_indices, {one}) == "torch::tensor_split(x, at::IntArrayRef({1}))");
  CHECK(called(ops::hsplit_array, {one}) == "torch::hsplit(x, at::IntArrayRef({1}))");
  CHECK(called(ops::count_nonzero_dim_IntList, {one}) == "torch::count_nonzero(x, at::IntArrayRef({1}))");
  CHECK(called(ops::linalg_pinv_atol_rtol_float, {}, {{"atol", 0.5}}) == "torch::linalg_pinv(x, 0.5, std::nullopt)");
  CHECK(called(ops::linalg_pinv_atol_rtol_float, {}, {{"atol", 0.5}, {"rtol", 0.25}}) ==
        "torch::linalg_pinv(x, 0.5, 0.25, false)");
  CHECK(called(ops::repeat_interleave_Tensor, {}, {{"output_size", 6}}) ==
        "at::_ops::repeat_interleave_Tensor::call(x, 6)");
  // A literal 0 might be a text, and a list of one tensor that tensor; torch::normal takes numbers alone.
  CHECK(called(ops::linalg_norm, {0, one}) == "at::_ops::linalg_norm::call(x, 0, {1}, false, std::nullopt)");
  CHECK(called(ops::normal_Tensor_float, {2.0}) == "at::_ops::normal_Tensor_float::call(x, 2.0, std::nullopt)");
  const Graph listed = symbolic_graph([](auto x) { return fxx::atleast_1d(std::vector{x})[0]; }, {"x"});
  CHECK(forward_code(listed, nobody).find("torch::atleast_1d(at::TensorList({x}))") != std::string::npos);
  // What is not ambiguous stays as people write it.
  CHECK(called(ops::tensor_split_indices, {two}) == "torch::tensor_split(x, {1, 2})");
  CHECK(called(ops::sum_dim_IntList, {one}) == "torch::sum(x, {1})");
  CHECK(called(ops::sort, {0}) == "torch::sort(x, 0)");
  CHECK(called(ops::max_dim, {0}) == "torch::max(x, 0)");
  CHECK(called(ops::all, {}) == "torch::all(x)");
  CHECK(called(ops::histogram_bin_ct, {100}, {{"range", Argument::list({0.5, 1.0})}}) ==
        "torch::histogram(x, 100, at::ArrayRef<double>({0.5, 1.0}))");
  // The object of a method is LibTorch's `self`.
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  g.output(g.call_method("where", {x, y, y}));
  CHECK(forward_code(g, nobody).find("torch::where(x, y, y)") != std::string::npos);
}
