// rules::attention: ways of writing attention, and what it must not take for one.
#include "fxx/rules/attention.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "fxx/rules/all.hpp"
#include "fxx/rules/inference.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using namespace fxx::functional;
using test::fires;
using test::rewritten;
using test::rewritten_graph;
using test::shaped;

namespace {
const auto made_of = [](auto formula) { return rewritten(rules::attention, formula); };
std::string attention(const char* rest) {
  return std::string("scaled_dot_product_attention = aten::scaled_dot_product_attention(%x, %y, %z, ") + rest +
         ")\nreturn %scaled_dot_product_attention\n";
}
}  // namespace

TEST_CASE("the scores, or the queries, are divided, multiplied or left as they are") {
  CHECK(made_of([](auto q, auto k, auto v) { return softmax(matmul(q, k.transpose(-2, -1)) / 8, -1).matmul(v); }) ==
        attention("scale=0.125"));
  CHECK(made_of([](auto q, auto k, auto v) { return matmul(softmax(q.matmul(k.transpose(-1, -2)) * 0.25, -1), v); }) ==
        attention("scale=0.25"));
  CHECK(made_of([](auto q, auto k, auto v) { return matmul(softmax(matmul(q * 0.5, k.transpose(-2, -1)), -1), v); }) ==
        attention("scale=0.5"));
  CHECK(made_of([](auto q, auto k, auto v) { return matmul(softmax(matmul(q / 4.0, k.transpose(-2, -1)), -1), v); }) ==
        attention("scale=0.25"));
  CHECK(made_of([](auto q, auto k, auto v) { return matmul(softmax(matmul(q, k.transpose(-2, -1)), -1), v); }) ==
        attention("scale=1.0"));
}

TEST_CASE("what is added to the scores is the mask, in the type of the queries") {
  const auto masked = [](auto scores, Dtype mask_type) {
    return rewritten_graph(rules::attention, [&](Graph& g) {
      Node *q = shaped(g.placeholder("q"), {2, 4, 8}), *k = shaped(g.placeholder("k"), {2, 4, 8});
      Node *v = g.placeholder("v"), *mask = shaped(g.placeholder("mask"), {4, 4}, mask_type);
      Node* s = scores(g, q, g.call_function(ops::transpose_int, {k, -2, -1}));
      Node* weights = g.call_function(ops::softmax_int, {g.call_function(ops::add_Tensor, {s, mask}), -1});
      return g.call_function(ops::matmul, {weights, v});
    });
  };
  const auto product = [](Graph& g, Argument a, Node* b) { return g.call_function(ops::matmul, {a, b}); };
  const auto after = [&](const Operator& op, int factor) {
    return [&, factor](Graph& g, Node* q, Node* k) { return g.call_function(op, {product(g, q, k), factor}); };
  };
  const auto before = [&](const Operator& op, int factor) {
    return [&, factor](Graph& g, Node* q, Node* k) { return product(g, g.call_function(op, {q, factor}), k); };
  };
  const auto expected = [](const char* mask, const char* scale) {
    return std::string("scaled_dot_product_attention = aten::scaled_dot_product_attention(%q, %k, %v, ") + mask +
           ", scale=" + scale + ")\nreturn %scaled_dot_product_attention\n";
  };
  CHECK(masked(after(ops::div_Scalar, 4), Dtype::float32) == expected("%mask", "0.25"));
  CHECK(masked(after(ops::mul_Scalar, 2), Dtype::float32) == expected("%mask", "2.0"));
  CHECK(masked(before(ops::div_Scalar, 2), Dtype::float32) == expected("%mask", "0.5"));
  CHECK(masked(before(ops::mul_Scalar, 2), Dtype::float32) == expected("%mask", "2.0"));
  CHECK(masked(product, Dtype::float32) == expected("%mask", "1.0"));
  // A boolean that is added is 0 or 1; as a mask it would hide.
  CHECK(masked(product, Dtype::boolean) == "to = aten::to.other(%mask, %q)\n" + expected("%to", "1.0"));
}

TEST_CASE("sizes that change from call to call are a mask's when they are the same sizes") {
  // Numbers below 0 stand for such sizes.
  const auto fuses = [](std::vector<std::int64_t> query, std::vector<std::int64_t> key,
                        std::vector<std::int64_t> of_mask) {
    const std::string text = rewritten_graph(rules::attention, [&](Graph& g) {
      Node *q = shaped(g.placeholder("q"), query), *k = shaped(g.placeholder("k"), key);
      Node *v = g.placeholder("v"), *mask = shaped(g.placeholder("mask"), of_mask);
      Node* scores = g.call_function(ops::matmul, {q, g.call_function(ops::transpose_int, {k, -2, -1})});
      Node* weights = g.call_function(ops::softmax_int, {g.call_function(ops::add_Tensor, {scores, mask}), -1});
      return g.call_function(ops::matmul, {weights, v});
    });
    return text.find("attention") != std::string::npos;
  };
  CHECK(fuses({-7, 4, -8, 64}, {-7, 4, -9, 64}, {-7, 1, -8, -9}));
  CHECK(fuses({-7, 4, -8, 64}, {-7, 4, -8, 64}, {-7, 1, 1, -8}));
  CHECK(fuses({-7, 4, -8, 64}, {-7, 4, -9, 64}, {-8, -9}));
  CHECK_FALSE(fuses({-7, 4, -8, 64}, {-7, 4, -9, 64}, {-6, 1, -8, -9}));
  CHECK_FALSE(fuses({-7, 4, -8, 64}, {-7, 4, -9, 64}, {-9, -8}));
  CHECK_FALSE(fuses({-7, 4, -8, 64}, {-7, 4, -9, 64}, {5, -9}));
}

TEST_CASE("of a mask whose sizes change, what is filled has the mask's sizes, and no number of today's") {
  const auto filled = [](std::int64_t batch) {
    return rewritten_graph(rules::attention, [&](Graph& g) {
      Node *q = shaped(g.placeholder("q"), {batch, 4, 5, 64}), *k = shaped(g.placeholder("k"), {batch, 4, 5, 64});
      Node *v = g.placeholder("v"), *mask = shaped(g.placeholder("mask"), {batch, 1, 1, 5}, Dtype::boolean);
      Node* scores = g.call_function(ops::matmul, {q, g.call_function(ops::transpose_int, {k, -2, -1})});
      Node* low = g.call_function(ops::masked_fill_Scalar, {scores, mask, -1e9});
      return g.call_function(ops::matmul, {g.call_function(ops::softmax_int, {low, -1}), v});
    });
  };
  const std::string changing = filled(-7), fixed = filled(2);
  for (const std::string& text : {changing, fixed}) CHECK(text.find("scaled_dot_product_attention") != text.npos);
  CHECK(fixed.find("aten::new_zeros(%q, [2, 1, 1, 5])") != fixed.npos);
  CHECK(changing.find("aten::zeros_like(%mask, dtype=torch.float32)") != changing.npos);
  CHECK(changing.find("-7") == changing.npos);
}

TEST_CASE("dimensions counted from the front are known where the rank is") {
  const auto with_rank = [](std::vector<std::int64_t> shape) {
    return rewritten_graph(rules::attention, [&](Graph& g) {
      Node *q = g.placeholder("x"), *k = g.placeholder("y"), *v = g.placeholder("z");
      if (!shape.empty())
        for (Node* n : {q, k, v}) shaped(n, shape);
      Node* scores = g.call_function(ops::matmul, {q, g.call_function(ops::transpose_int, {k, 1, 2})});
      return g.call_function(ops::matmul, {g.call_function(ops::softmax_int, {scores, 2}), v});
    });
  };
  CHECK(with_rank({2, 5, 8}) == attention("scale=1.0"));
  CHECK(with_rank({2, 5, 8, 8}).find("attention") == std::string::npos);
  CHECK(with_rank({}).find("attention") == std::string::npos);
}

TEST_CASE("values of several types, of integers, and none at all are left alone") {
  const auto fuses = [](Dtype query, Dtype key, Dtype value, std::int64_t keys, std::vector<std::int64_t> batch = {2},
                        std::int64_t queries = 5) {
    const std::string text = rewritten_graph(rules::attention, [&](Graph& g) {
      Node *q = shaped(g.placeholder("x"), {2, queries, 8}, query), *k = shaped(g.placeholder("y"), {2, keys, 8}, key);
      batch.insert(batch.end(), {keys, 8});
      Node* v = shaped(g.placeholder("z"), batch, value);
      Node* scores = g.call_function(ops::matmul, {q, g.call_function(ops::transpose_int, {k, 1, 2})});
      return g.call_function(ops::matmul, {g.call_function(ops::softmax_int, {scores, 2}), v});
    });
    return text.find("attention") != std::string::npos;
  };
  constexpr Dtype f32 = Dtype::float32, f16 = Dtype::float16, i64 = Dtype::int64;
  CHECK(fuses(f32, f32, f32, 5));
  CHECK(fuses(f16, f16, f16, 5));
  CHECK_FALSE(fuses(f32, f32, f16, 5));
  CHECK_FALSE(fuses(f16, f32, f32, 5));
  CHECK_FALSE(fuses(i64, i64, i64, 5));
  CHECK_FALSE(fuses(f32, f32, f32, 0));
  CHECK_FALSE(fuses(f32, f32, f32, 0, {2}, 0));
  CHECK_FALSE(fuses(f32, f32, f32, 5, {2}, 0));
  CHECK_FALSE(fuses(f32, f32, f32, 5, {0}));
  CHECK_FALSE(fuses(f32, f32, f32, 5, {2, 2}));
}

TEST_CASE("what is no attention is left alone") {
  const auto stays = [](auto formula) { return !fires(rules::attention, formula); };
  CHECK(stays([](auto q, auto k, auto v) { return matmul(softmax(matmul(q, k.transpose(-2, -1)), -2), v); }));
  CHECK(stays([](auto q, auto k, auto v) { return matmul(softmax(matmul(q, k.transpose(-1, -3)), -1), v); }));
  CHECK(stays([](auto q, auto k, auto v) { return matmul(softmax(matmul(q, k), -1), v); }));
  CHECK(stays([](auto q, auto k, auto v) { return matmul(v, softmax(matmul(q, k.transpose(-2, -1)), -1)); }));
  CHECK(stays([](auto q, auto k, auto v) { return matmul(relu(matmul(q, k.transpose(-2, -1))), v); }));
}

TEST_CASE("dropout on the weights stands in the way until inference takes it away") {
  const auto formula = [](bool train) {
    return [=](auto q, auto k, auto v) {
      return dropout(softmax(matmul(q, k.transpose(-2, -1)), -1), 0.1, train).matmul(v);
    };
  };
  Graph training = symbolic_graph(formula(true), {"x", "y", "z"});
  Graph eval = symbolic_graph(formula(false), {"x", "y", "z"});
  for (Graph* g : {&training, &eval}) {
    CHECK(rules::attention.apply(*g).rewrites == 0);
    rules::inference.apply(*g);
  }
  CHECK(rules::attention.apply(training).rewrites == 0);
  CHECK(rewritten(rules::attention, eval) == attention("scale=1.0"));
}

TEST_CASE("weights that are returned too are still computed") {
  CHECK(rewritten_graph(
            rules::attention,
            [](Graph& g) {
              Node *q = g.placeholder("x"), *k = g.placeholder("y"), *v = g.placeholder("z");
              Node* scores = g.call_function(ops::matmul, {q, g.call_function(ops::transpose_int, {k, -1, -2})});
              Node* weights = g.call_function(ops::softmax_int, {scores, -1});
              return Argument::tuple({g.call_function(ops::matmul, {weights, v}), weights});
            }) ==
        "transpose = aten::transpose.int(%y, -1, -2)\nmatmul = aten::matmul(%x, %transpose)\n"
        "softmax = aten::softmax.int(%matmul, -1)\n"
        "scaled_dot_product_attention = aten::scaled_dot_product_attention(%x, %y, %z, scale=1.0)\n"
        "return (%scaled_dot_product_attention, %softmax)\n");
}

TEST_CASE("keys are transposed by mT, permute or transpose, and scaled, as queries are") {
  CHECK(made_of([](auto q, auto k, auto v) { return matmul(softmax(matmul(q, k.mT()) / 8, -1), v); }) ==
        attention("scale=0.125"));
  CHECK(made_of([](auto q, auto k, auto v) {
          return matmul(softmax(matmul(q, k.permute({0, 1, 3, 2})), -1), v);
        }) == attention("scale=1.0"));
  CHECK(made_of([](auto q, auto k, auto v) {
          return matmul(softmax(matmul(q, k.permute({0, 2, 3, 1})), -1), v);
        }) == "permute_1 = aten::permute(%y, [0, 2, 1, 3])\nscaled_dot_product_attention = "
              "aten::scaled_dot_product_attention(%x, %permute_1, %z, scale=1.0)\n"
              "return %scaled_dot_product_attention\n");
  CHECK(made_of([](auto q, auto k, auto v) {
          return matmul(softmax(matmul(q * 0.5, (k * 0.5).transpose(-2, -1)), -1), v);
        }) == attention("scale=0.25"));
  CHECK(made_of([](auto q, auto k, auto v) {
          return matmul(softmax(matmul(q * 0.5, k.transpose(-2, -1) * 0.5), -1), v);
        }) == attention("scale=0.25"));
  CHECK(made_of([](auto q, auto k, auto v) { return matmul(softmax(matmul(q, k.transpose(-2, -1) / 4), -1), v); }) ==
        attention("scale=0.25"));
}

TEST_CASE("heads that permute splits off are found, also after transposes were put together") {
  const auto made = [](const auto& rules, int spelling, std::vector<std::int64_t> mask = {}) {
    Graph g;
    const auto permuted = [&](Node* n, std::vector<std::int64_t> order) {
      std::vector<std::int64_t> shape;
      for (const std::int64_t at : order) shape.push_back(n->tensor_meta()->shape[static_cast<std::size_t>(at)]);
      return shaped(g.call_function(ops::permute, {n, Argument::list({order.begin(), order.end()})}), shape);
    };
    Node* q = permuted(shaped(g.placeholder("q"), {2, 5, 4, 8}), {0, 2, 1, 3});
    Node* k = shaped(g.placeholder("k"), {2, 7, 4, 8});
    Node* v = permuted(shaped(g.placeholder("v"), {2, 7, 4, 8}), {0, 2, 1, 3});
    Node* keys = permuted(k, {0, 2, 3, 1});
    if (spelling == 1)
      keys = shaped(g.call_function(ops::transpose_int, {permuted(k, {0, 2, 1, 3}), -1, -2}), {2, 4, 8, 7});
    Node* scores = shaped(g.call_function(ops::matmul, {q, keys}), {2, 4, 5, 7});
    scores = shaped(g.call_function(ops::div_Scalar, {scores, 8.0}), {2, 4, 5, 7});
    if (!mask.empty())
      scores = shaped(g.call_function(ops::add_Tensor, {scores, shaped(g.placeholder("mask"), mask)}), {2, 4, 5, 7});
    Node* weights = shaped(g.call_function(ops::softmax_int, {scores, -1}), {2, 4, 5, 7});
    g.output(shaped(g.call_function(ops::matmul, {weights, v}), {2, 4, 5, 8}));
    rules.apply(g);
    g.lint();
    return test::body_of(g);
  };
  const std::string keys = "aten::permute(%k, [0, 2, 1, 3])\n";
  for (const int spelling : {0, 1}) {
    CAPTURE(spelling);
    for (const std::string& text : {made(rules::attention, spelling), made(rules::all, spelling)}) {
      CHECK(text.find(keys) != text.npos);
      CHECK(text.find("scaled_dot_product_attention(%permute") != text.npos);
      CHECK(text.find("softmax") == text.npos);
    }
    // The mask is as large as the scores, or broadcasts to them.
    CHECK(made(rules::all, spelling, {2, 1, 1, 7}).find("softmax") == std::string::npos);
    CHECK(made(rules::all, spelling, {2, 1, 5, 4}).find("softmax") != std::string::npos);
  }
}

TEST_CASE("bmm is a matrix product too") {
  CHECK(made_of([](auto q, auto k, auto v) {
          return bmm(softmax(bmm(q, k.transpose(1, 2)), -1), v);
        }).find("scaled_dot") == std::string::npos);  // of how many dimensions?
  CHECK(made_of([](auto q, auto k, auto v) { return bmm(softmax(bmm(q, k.transpose(-1, -2)) / 8, -1), v); }) ==
        attention("scale=0.125"));
  CHECK(made_of([](auto q, auto k, auto v) { return bmm(softmax(bmm(q * 0.25, k.mT()), -1), v); }) ==
        attention("scale=0.25"));
}

TEST_CASE("what is filled with minus infinity is a boolean mask") {
  const auto made = [](Dtype type, double low, bool seen) {
    return rewritten_graph(rules::attention, [&](Graph& g) {
      Node *q = shaped(g.placeholder("x"), {2, 4, 8}), *k = shaped(g.placeholder("y"), {2, 4, 8});
      Node *v = g.placeholder("z"), *mask = shaped(g.placeholder("mask"), {4, 4}, type);
      Node* scores = g.call_function(
          ops::div_Scalar, {g.call_function(ops::matmul, {q, g.call_function(ops::transpose_int, {k, -2, -1})}), 4});
      Node* filled = seen ? g.call_function(ops::where_ScalarOther, {mask, scores, low})
                          : g.call_function(ops::masked_fill_Scalar, {scores, mask, low});
      return g.call_function(ops::matmul, {g.call_function(ops::softmax_int, {filled, -1}), v});
    });
  };
  const double low = -std::numeric_limits<double>::infinity();
  CHECK(made(Dtype::boolean, low, false) ==
        "logical_not = aten::logical_not(%mask)\n" + attention("%logical_not, scale=0.25"));
  CHECK(made(Dtype::boolean, low, true) == attention("%mask, scale=0.25"));
  CHECK(made(Dtype::boolean, -1e4, false).find("scaled_dot") == std::string::npos);
  CHECK(made(Dtype::uint8, low, false).find("scaled_dot") == std::string::npos);
}

TEST_CASE("dropout that trains goes into the operator, where one asks for it") {
  const auto formula = [](auto q, auto k, auto v) {
    return dropout(softmax(matmul(q, k.transpose(-2, -1)) / 4, -1), 0.1, true).matmul(v);
  };
  CHECK_FALSE(fires(rules::attention, formula));
  CHECK(rewritten(rules::attention_dropout, formula) == attention("None, 0.1, scale=0.25"));
  CHECK_FALSE(fires(rules::attention_dropout, [](auto q, auto k, auto v) {
    return dropout(softmax(matmul(q, k.transpose(-2, -1)), -1), 0.1, false).matmul(v);
  }));
}

namespace {

struct Grouped {
  std::int64_t queries = 8, keys = 2, copies = 4, dim = -3;
  bool repeated = false, sliced = false, known = true;
};
/// Attention of 8 heads on keys of 2, each of which is copied.
std::string grouped(const Grouped& given) {
  return test::fired_on(rules::attention, [&](Graph& g) {
    using Shape = std::vector<std::int64_t>;
    const auto of = [&](Node* node, const Shape& shape) { return given.known ? shaped(node, shape) : node; };
    const auto list = [](const Shape& shape) {
      return Argument::list(std::vector<Argument>(shape.begin(), shape.end()));
    };
    Node* q = of(g.placeholder("q"), {3, given.queries, 5, 16});
    const auto copied = [&](const char* name) {
      Node* one = of(g.placeholder(name), {3, given.keys, 7, 16});
      const Shape many = {3, given.keys * given.copies, 7, 16};
      if (given.repeated)
        return of(g.call_function(ops::repeat_interleave_self_int, {one, given.copies, given.dim}), many);
      Shape wide = {3, given.keys, 7, 16};
      const auto at = static_cast<std::size_t>(given.dim < 0 ? given.dim + 5 : given.dim);
      wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(at), 1);
      const Argument all = Slice{};
      Node* raised = given.sliced
                         ? g.call_function(ops::operator_getitem, {one, Argument::tuple({all, all, Argument()})})
                         : g.call_function(ops::unsqueeze, {one, given.dim});
      of(raised, wide);
      wide[at] = given.copies;
      Node* expanded = of(g.call_function(ops::expand, {raised, list(wide)}), wide);
      return of(g.call_function(ops::reshape, {expanded, list(many)}), many);
    };
    Node *k = copied("k"), *v = copied("v");
    return g.call_function(ops::scaled_dot_product_attention, {q, k, v, {}, 0.0, true}, {{"scale", 0.5}});
  });
}

}  // namespace

TEST_CASE("keys and values of which each head is repeated are grouped") {
  const std::string repeated = "attention, grouped keys, repeated: 1";
  const std::string expanded = "attention, grouped keys, expanded: 1";
  CHECK(grouped({.repeated = true}) == repeated);
  CHECK(grouped({.dim = 1, .repeated = true}) == repeated);
  CHECK(grouped({.dim = 2}) == expanded);
  CHECK(grouped({.dim = -3}) == expanded);
  CHECK(grouped({.dim = 2, .sliced = true}) == expanded);
  CHECK(test::rewritten_graph(rules::attention, [](Graph& g) {
          Node* q = shaped(g.placeholder("q"), {3, 4, 5, 16});
          Node *k = shaped(g.placeholder("k"), {3, 2, 7, 16}), *v = shaped(g.placeholder("v"), {3, 2, 7, 16});
          const auto twice = [&](Node* x) { return g.call_function(ops::repeat_interleave_self_int, {x, 2, 1}); };
          Node* keys = g.call_function(ops::transpose_int, {twice(k), -2, -1});
          Node* weights = g.call_function(ops::softmax_int, {g.call_function(ops::matmul, {q, keys}), -1});
          return g.call_function(ops::matmul, {weights, twice(v)});
        }) ==
        "scaled_dot_product_attention = aten::scaled_dot_product_attention(%q, %k, %v, None, 0.0, False, scale=1.0, "
        "enable_gqa=True)\nreturn %scaled_dot_product_attention\n");
}

TEST_CASE("keys that are repeated in another way, or of which nothing is known, are no groups") {
  CHECK(grouped({.dim = -2, .repeated = true}) == "");
  CHECK(grouped({.queries = 16, .repeated = true}) == "");
  CHECK(grouped({.repeated = true, .known = false}) == "");
  CHECK(grouped({.dim = 1}) == "");  // k1 k2 k1 k2 ..., not k1 k1 k1 k1 k2 ...
  CHECK(grouped({.known = false}) == "");
  CHECK(grouped({.queries = 2, .copies = 1, .dim = 2}) == "");
}

TEST_CASE("factors of keys go to the queries, and below masks, where attention may be") {
  const auto made = [](bool constant, auto formula) {
    return test::fired_on(rules::attention_scores, [&](Graph& g) {
      Node* q = shaped(g.placeholder("q"), {2, 4, 8});
      Node* k = constant ? test::attribute(g, "k", {2, 4, 8}) : shaped(g.placeholder("k"), {2, 4, 8});
      return formula(g, q, k);
    });
  };
  const auto scaled = [](const Operator* behind) {
    return [=](Graph& g, Node* q, Node* k) {
      Node* keys = g.call_function(ops::transpose_int, {g.call_function(ops::mul_Scalar, {k, 0.5}), -2, -1});
      Node* product = g.call_function(ops::matmul, {q, keys});
      if (!behind) return product;
      if (*behind == ops::relu.info()) return g.call_function(*behind, {product});
      return g.call_function(ops::matmul, {g.call_function(*behind, {product, -1}), q});
    };
  };
  CHECK(made(false, scaled(nullptr)) == "scale of keys to queries, transposed last: 1");
  CHECK(made(false, scaled(&ops::softmax_int.info())) == "scale of keys to queries, transposed last: 1");
  CHECK(made(false, scaled(&ops::relu.info())) == "");
  CHECK(made(true, scaled(&ops::softmax_int.info())) == "");
  // The factor of the queries goes with it, unless these are written to before they are multiplied.
  const auto text = [](bool writes) {
    return test::rewritten_graph(rules::attention_scores, [=](Graph& g) {
      Node *q = shaped(g.placeholder("q"), {2, 4, 8}), *k = shaped(g.placeholder("k"), {2, 4, 8});
      Node* queries = shaped(g.call_function(ops::mul_Scalar, {q, 2.0}), {2, 4, 8});
      if (writes) g.call_function(ops::add__Scalar, {q, 1});
      Node* keys = g.call_function(ops::transpose_int, {g.call_function(ops::mul_Scalar, {k, 0.5}), -2, -1});
      return g.call_function(ops::matmul, {queries, keys});
    });
  };
  CHECK(text(false).find("aten::mul.Scalar(%q, 1.0)") != std::string::npos);
  CHECK(text(true).find("aten::mul.Scalar(%q, 1.0)") == std::string::npos);
  const auto masked = [](double factor, double fill) {
    return [=](Graph& g, Node* q, Node* k) {
      Node* mask = g.call_function(ops::gt_Scalar, {k, 0});
      return g.call_function(ops::mul_Scalar, {g.call_function(ops::masked_fill_Scalar, {q, mask, fill}), factor});
    };
  };
  const double low = -std::numeric_limits<double>::infinity();
  CHECK(made(false, masked(0.5, low)) == "scale before the mask: 1");
  CHECK(made(false, masked(-0.5, low)) == "");
  CHECK(made(false, masked(0.5, -1e9)) == "");
}
