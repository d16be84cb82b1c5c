// rules::einsums: equations that are matrix products, and those that are more.
#include "fxx/rules/einsum.hpp"

#include <doctest/doctest.h>

#include "fxx/rules/attention.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using test::shaped;

namespace {

using Shape = std::vector<std::int64_t>;
/// What is left of einsum(equation, [x, y]).
std::string made(const char* equation, Shape x, Shape y, Dtype type = Dtype::float32) {
  return test::rewritten_graph(rules::einsums, [&](Graph& g) {
    Node *a = g.placeholder("x"), *b = g.placeholder("y");
    if (!x.empty()) shaped(a, x), shaped(b, y, type);
    return g.call_function(ops::einsum, {equation, Argument::list({a, b})});
  });
}

}  // namespace

TEST_CASE("an einsum that is a matrix product is one") {
  CHECK(made("ij,jk->ik", {2, 3}, {3, 4}) == "matmul = aten::matmul(%x, %y)\nreturn %matmul\n");
  CHECK(made("bij, bjk -> bik", {5, 2, 3}, {5, 3, 4}) == "matmul = aten::matmul(%x, %y)\nreturn %matmul\n");
  CHECK(made("bhqk,bhkd->bhqd", {-5, 2, -6, -7}, {-5, 2, -7, 8}) ==
        "matmul = aten::matmul(%x, %y)\nreturn %matmul\n");
  CHECK(made("bhqd,bhkd->bhqk", {5, 2, 3, 4}, {5, 2, 6, 4}) ==
        "transpose = aten::transpose.int(%y, -2, -1)\nmatmul = aten::matmul(%x, %transpose)\nreturn %matmul\n");
  CHECK(made("Bji,Bjk->Bik", {5, 3, 2}, {5, 3, 4}) ==
        "transpose = aten::transpose.int(%x, -2, -1)\nmatmul = aten::matmul(%transpose, %y)\nreturn %matmul\n");
  CHECK(made("ij,jk->ki", {2, 3}, {3, 4}) ==
        "transpose = aten::transpose.int(%y, -2, -1)\ntranspose_1 = aten::transpose.int(%x, -2, -1)\n"
        "matmul = aten::matmul(%transpose, %transpose_1)\nreturn %matmul\n");
  CHECK(made("bsd,ed->bse", {5, 2, 3}, {4, 3}) ==
        "transpose = aten::transpose.int(%y, -2, -1)\nmatmul = aten::matmul(%x, %transpose)\nreturn %matmul\n");
}

TEST_CASE("dimensions in another order are permuted") {
  CHECK(made("bqhd,bkhd->bhqk", {5, 2, 3, 4}, {5, 6, 3, 4}) ==
        "permute = aten::permute(%x, [0, 2, 1, 3])\npermute_1 = aten::permute(%y, [0, 2, 1, 3])\n"
        "transpose = aten::transpose.int(%permute_1, -2, -1)\nmatmul = aten::matmul(%permute, %transpose)\n"
        "return %matmul\n");
  CHECK(made("bhqk,bkhd->bqhd", {5, 3, 2, 6}, {5, 6, 3, 4}) ==
        "permute = aten::permute(%y, [0, 2, 1, 3])\nmatmul = aten::matmul(%x, %permute)\n"
        "permute_1 = aten::permute(%matmul, [0, 2, 1, 3])\nreturn %permute_1\n");
}

TEST_CASE("an einsum that is more, or may be, stays") {
  const auto stays = [](const char* equation, Shape x, Shape y, Dtype type = Dtype::float32) {
    return made(equation, x, y, type).starts_with("einsum = ");
  };
  CHECK(stays("ij,jk", {2, 3}, {3, 4}));
  CHECK(stays("ii,ij->ij", {3, 3}, {3, 4}));
  CHECK(stays("...ij,...jk->...ik", {5, 2, 3}, {5, 3, 4}));
  CHECK(stays("ij,kl->ijkl", {2, 3}, {3, 4}));
  CHECK(stays("ij,ij->ij", {2, 3}, {2, 3}));
  CHECK(stays("ij,ij->", {2, 3}, {2, 3}));
  CHECK(stays("ij,jk->i", {2, 3}, {3, 4}));
  CHECK(stays("ij,j->i", {2, 3}, {3}));
  CHECK(stays("abij,abij->ab", {2, 3, 4, 5}, {2, 3, 4, 5}));
  CHECK(stays("bijc,bjck->bik", {5, 2, 3, 4}, {5, 3, 4, 2}));  // two are summed
  CHECK(stays("ij,jk->ik", {2, 1}, {3, 4}));                     // a one that is stretched
  CHECK(stays("ij,jk->ik", {2, 3}, {3, 4}, Dtype::float16));
  CHECK(stays("ij,jk->ik", {}, {}));
}

TEST_CASE("attention by einsum is found after it") {
  const auto attention = [](const char* scores, const char* values, Shape shape) {
    Graph g;
    Node *q = shaped(g.placeholder("x"), shape), *k = shaped(g.placeholder("y"), shape);
    Node* v = shaped(g.placeholder("z"), shape);
    Node* products = g.call_function(ops::einsum, {scores, Argument::list({q, k})});
    Node* weights = shaped(g.call_function(ops::softmax_int, {g.call_function(ops::div_Scalar, {products, 8}), -1}),
                           {2, 3, 5, 5});
    g.output(g.call_function(ops::einsum, {values, Argument::list({weights, v})}));
    return rewrite::phases(rules::einsums, rules::attention).apply(g).to_string();
  };
  const std::string found = "matrix product by einsum: 2, attention, divided: 1";
  CHECK(attention("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", {2, 3, 5, 64}) == found);
  CHECK(attention("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", {2, 5, 3, 64}) == found);
}
