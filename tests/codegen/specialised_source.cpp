// The text of specialised modules: the same for the same plan, safe whatever names it is made from; compiled with the
// warnings that count as errors, and run beside plain loops.
#include "fxx/codegen/specialised_source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/loaded.hpp"
#include "codegen/lowered.hpp"

using namespace fxx;
using plans::Sizes;
using test::check_near;
using test::listed;
using test::Loaded;
using test::Net;
using test::numbers;

namespace {

std::size_t count(const std::string& text, std::string_view words) {
  std::size_t n = 0;
  for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++n;
  return n;
}
/// Convolution of 3 x 3 with padding 1, its bias added.
std::vector<double> convolved(const std::vector<double>& x, const std::vector<float>& w, const std::vector<float>& b,
                              int channels, int out, int height, int width) {
  std::vector<double> y(static_cast<std::size_t>(out * height * width));
  for (int o = 0; o < out; ++o)
    for (int i = 0; i < height; ++i)
      for (int j = 0; j < width; ++j) {
        double sum = b[o];
        for (int c = 0; c < channels; ++c)
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s) {
              const int h = i + r - 1, v = j + s - 1;
              if (h >= 0 && v >= 0 && h < height && v < width)
                sum += x[(c * height + h) * width + v] * w[((o * channels + c) * 3 + r) * 3 + s];
            }
        y[(o * height + i) * width + j] = sum;
      }
  return y;
}

}  // namespace

TEST_CASE("the same plan gives the same bytes, and equal steps share a function") {
  const auto make = [](std::string_view first) {
    Net net;
    Node* x = net.input(first, {8, 32});
    for (int i = 0; i < 4; ++i) {
      const std::string layer = "layers." + std::to_string(i);
      Node* y = net.call(ops::linear, {x, net.weight(layer + ".weight", {32, 32}), net.weight(layer + ".bias", {32})},
                         {8, 32});
      x = net.call(ops::relu, {y}, {8, 32});
    }
    return specialised_source(net.plan_of(x), "Net");
  };
  const SpecialisedSource one = make("x"), two = make("x");
  CHECK(one.text == two.text);
  CHECK(one.text.starts_with("// Forward of Net, made by fxx"));
  CHECK(count(one.text, "[[gnu::noinline]] void product_step_") == 1);
  CHECK(count(one.text, "  product_step_1(part, ") == 4);
  CHECK(count(one.text, "\n#include \"fxx/kernels/") == one.headers.size());
  CHECK(count(one.text, "#include") == one.headers.size());
}

TEST_CASE("each step has the names of its nodes and the line they were written in, or else their module") {
  Net net;
  Node* x = net.input("x", {8, 32});
  Node* y = net.call(ops::linear, {x, net.weight("w", {32, 32}), net.weight("b", {32})}, {8, 32});
  Node* z = net.call(ops::relu, {y}, {8, 32});
  z->set_location(std::source_location::current());
  const std::string line = std::to_string(z->location().line());
  Node* sum = net.call(ops::sum, {z}, {});
  sum->set_module_stack(ModuleStack(ModuleStack({}, {.name = "head"}), {.name = "head.total", .call = 1}));
  Node* last = net.call(ops::sort, {x, 1, true}, {8, 32});
  last->meta().stack_trace = "main() at main.cpp:3\nuser::step(...) at model.cpp:7\n";
  const std::string text = specialised_source(net.plan_of(listed({sum, net.item(last, 0, {8, 32})})), "Net").text;
  CAPTURE(text);
  CHECK(text.find("specialised_source.cpp:" + line + "\n") != text.npos);
  CHECK(text.find("// sum: head.total@1\n") != text.npos);
  CHECK(text.find(": user::step(...) at model.cpp:7\n") != text.npos);
}

TEST_CASE("a source that takes long is in parts, which give the same results as all in one") {
  // Convolutions of every kind, two of one shape among them.
  Net net;
  Node* x = net.input("x", {1, 16, 12, 12});
  Node* y = x;
  for (const std::int64_t channels : {16, 16, 24, 32, 32, 20}) {
    y = net.call(ops::relu, {net.convolution(y, channels)}, {1, channels, 12, 12});
    y = net.call(ops::relu, {net.convolution(y, channels, 1)}, {1, channels, 12, 12});
  }
  y = net.convolution(y, 20, 3, 20);
  const KernelPlan plan = net.plan_of(y);
  const SpecialisedSource source = specialised_source(plan, "Net");
  CHECK(source.parts > 1);
  CHECK(source.parts <= 8);
  CHECK(source.text == specialised_source(plan, "Net").text);
  CHECK(count(source.text, "#if FXX_IN_PART(") == count(source.text, "\n[[gnu::noinline]] void "));

  std::vector<std::vector<float>> memory;
  std::vector<const void*> attributes;
  for (const std::string& name : plan.attributes) {
    const AttributeInfo* info = net.owner.find_attribute(name);
    REQUIRE(info);
    std::size_t elements = 1;
    for (const std::int64_t size : info->meta.shape) elements *= static_cast<std::size_t>(size);
    memory.push_back(numbers(elements, memory.size() + 1));
    for (float& w : memory.back()) w /= 8;
    attributes.push_back(memory.back().data());
  }
  const std::vector<float> in = numbers(16 * 12 * 12, 99);
  const auto results = [&](int parts) {
    std::vector<float> out(20 * 12 * 12, -1.f);
    Loaded(plan, attributes, parts).run({in.data()}, {out.data()});
    return out;
  };
  const std::vector<float> whole = results(0);
  CHECK(std::count(whole.begin(), whole.end(), whole[0]) < 20 * 12 * 12 / 2);
  // More parts than functions, too: some have nothing in them.
  for (const int parts : {1, 2, 3, 40}) CHECK((results(parts) == whole));
}

TEST_CASE("a source that is compiled quickly is in one part") {
  Net net;
  Node* x = net.input("x", {4, 8});
  const SpecialisedSource source = specialised_source(net.plan_of(net.call(ops::relu, {x}, {4, 8})), "Net");
  CHECK(source.parts == 1);
  CHECK(count(source.text, "FXX_PART") == 0);
}

TEST_CASE("names and titles that hold code stay comments and identifiers") {
  Net net;
  const std::string bad = "a*/ int x = 1; //\\\n#error \"no\"?\?/\n$to$from\x01";
  Node* x = net.input(bad, {4, 8});
  Node* y = net.call(ops::linear, {x, net.weight(bad, {8, 8}), net.weight("class", {8})}, {4, 8});
  Node* z = net.call(ops::linear, {y, net.weight("a.b", {8, 8}), net.weight("a_b", {8})}, {4, 8});
  z = net.call(ops::linear, {z, net.weight("weights", {8, 8}), net.weight("7 call_back(call", {8})}, {4, 8});
  z->rename(bad);
  net.graph.output(net.call(ops::relu, {z}, {4, 8}));
  const KernelPlan plan = net.plan();
  const std::string text = specialised_source(plan, bad).text;
  CAPTURE(text);
  CHECK(text.find("\n#error") == text.npos);
  CHECK(text.find("\\\n") == text.npos);
  CHECK(text.find("$") == text.find("$to$from"));  // in the title alone, a comment
  const std::vector<float> w = numbers(64, 1), b = numbers(8, 2), in = numbers(32, 3);
  std::vector<float> out(32);
  Loaded(plan, {w.data(), b.data(), w.data(), b.data(), w.data(), b.data()}).run({in.data()}, {out.data()});
  std::vector<double> wanted(in.begin(), in.end());
  for (int layer = 0; layer < 3; ++layer) {
    std::vector<double> next(32);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 8; ++j) {
        next[i * 8 + j] = b[j];
        for (int k = 0; k < 8; ++k) next[i * 8 + j] += wanted[i * 8 + k] * w[j * 8 + k];
      }
    wanted = next;
  }
  for (double& v : wanted) v = std::max(v, 0.);
  check_near(out, wanted);
}

TEST_CASE("products with weights of bfloat16, and with rows of bfloat16, far and near") {
  for (const bool products : {false, true})
    for (const int rows : {1, 7, 14, 33})
      for (const int size : {34, 640}) {
        CAPTURE(products);
        CAPTURE(rows);
        CAPTURE(size);
        const auto n = static_cast<std::size_t>(rows), k = static_cast<std::size_t>(size), columns = std::size_t{41};
        Net net;
        Node* x = net.input("x", {rows, size});
        Node* y = net.call(ops::linear, {x, net.weight("w", {41, size}), net.weight("b", {41})}, {rows, 41});
        net.weight("large", {size, size});  // so that there are many weights, or few
        const KernelPlan plan =
            net.plan_of(y, {.accuracy = Accuracy::fast, .processor = {.bfloat16_products = products}});
        const auto& product = std::get<plans::MatrixProduct>(plan.steps.at(0).kernel);
        CHECK((product.weights.distance == kernels::Distance::near) == (size == 34));
        CHECK(product.weights.reduced == (products || rows < (size == 34 ? 4 : 16)));
        CHECK(product.reduced_rows == (products && rows >= 4));
        const std::vector<float> w = numbers(columns * k, 1), b = numbers(columns, 2), in = numbers(n * k, 3);
        std::vector<float> out(n * columns);
        Loaded(plan, {w.data(), b.data()}).run({in.data()}, {out.data()});
        std::vector<double> wanted(n * columns);
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < columns; ++j) {
            wanted[i * columns + j] = b[j];
            for (std::size_t l = 0; l < k; ++l)
              wanted[i * columns + j] += static_cast<double>(in[i * k + l]) * w[j * k + l];
          }
        check_near(out, wanted, 0.01);
      }
}

TEST_CASE("a matrix that is made while running is read where it lies by few rows, and packed for more") {
  for (const bool turned : {false, true})
    for (const int rows : {1, 4, 5, 32, 33})
      for (const int batch : {1, 3}) {
        CAPTURE(turned);
        CAPTURE(rows);
        CAPTURE(batch);
        constexpr int depth = 19, columns = 37;
        Net net;
        Node* x = net.input("x", {batch, rows, depth});
        Node* y = turned ? net.input("y", {batch, columns, depth}) : net.input("y", {batch, depth, columns});
        Node* other = turned ? net.call(ops::transpose_int, {y, 1, 2}, {batch, depth, columns}) : y;
        Node* product = net.call(ops::bmm, {x, other}, {batch, rows, columns});
        const KernelPlan plan = net.plan_of(net.call(ops::relu, {product}, {batch, rows, columns}));
        REQUIRE(plan.steps.size() == 1);
        using Reading = plans::MatrixProduct::Reading;
        const Reading reading = turned ? (rows <= 4 ? Reading::by_columns : Reading::packed)
                                       : (rows <= 32 ? Reading::by_rows : Reading::packed);
        CHECK(std::get<plans::MatrixProduct>(plan.steps[0].kernel).reading == reading);
        CHECK(plan.to_string().find(reading == Reading::by_columns ? "product of two by columns  "
                                    : reading == Reading::by_rows  ? "product of two by rows  "
                                                                   : "product of two  ") != std::string::npos);
        // A tile that is said is what it is packed for.
        const KernelPlan tiled = net.plan({.ways = {{plan.steps[0].shape, {.tile = {1, 1}}}}});
        CHECK(std::get<plans::MatrixProduct>(tiled.steps.at(0).kernel).reading == Reading::packed);
        const std::string text = specialised_source(plan, "Net").text;
        CHECK((text.find("matmul_by_columns<") != text.npos) == (turned && rows <= 4));
        CHECK((text.find("matmul_by_rows<") != text.npos) == (!turned && rows <= 32));
        CHECK((text.find(turned ? "pack_columns<" : "pack_rows<") != text.npos) == (rows > (turned ? 4 : 32)));
        const std::vector<float> in = numbers(static_cast<std::size_t>(batch * rows * depth), 1),
                                 by = numbers(static_cast<std::size_t>(batch * depth * columns), 2);
        std::vector<float> out(static_cast<std::size_t>(batch * rows * columns));
        Loaded(plan, {}).run({in.data(), by.data()}, {out.data()});
        std::vector<double> wanted;
        for (int b = 0; b < batch; ++b)
          for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) {
              double sum = 0;
              for (int k = 0; k < depth; ++k)
                sum += static_cast<double>(in[static_cast<std::size_t>((b * rows + i) * depth + k)]) *
                       by[static_cast<std::size_t>(turned ? (b * columns + j) * depth + k : (b * depth + k) * columns + j)];
              wanted.push_back(std::max(sum, 0.));
            }
        check_near(out, wanted);
      }
}

TEST_CASE("fast: attention multiplies numbers of bfloat16 where the processor does, but for a few queries") {
  for (const bool products : {false, true})
    for (const int queries : {3, 4, 37}) {
      CAPTURE(products);
      CAPTURE(queries);
      const int heads = 3, keys = 29, size = 17;
      Net net;
      Node* q = net.input("q", {1, heads, queries, size});
      Node* k = net.input("k", {1, heads, keys, size});
      Node* v = net.input("v", {1, heads, keys, size});
      Node* y = net.call(ops::scaled_dot_product_attention, {q, k, v}, {1, heads, queries, size});
      const KernelPlan plan =
          net.plan_of(y, {.accuracy = Accuracy::fast, .processor = {.bfloat16_products = products}});
      CHECK(std::get<plans::Attention>(plan.steps.at(0).kernel).reduced == (products && queries >= 4));
      const auto count = [&](int rows) { return static_cast<std::size_t>(heads * rows * size); };
      const std::vector<float> a = numbers(count(queries), 1), b = numbers(count(keys), 2), c = numbers(count(keys), 3);
      std::vector<float> out(count(queries));
      Loaded(plan, {}).run({a.data(), b.data(), c.data()}, {out.data()});
      std::vector<double> wanted(out.size());
      const auto at = [](const std::vector<float>& from, int row, int column) {
        return static_cast<double>(from[static_cast<std::size_t>(row * size + column)]);
      };
      for (int row = 0; row < heads * queries; ++row) {
        const int first = row / queries * keys;
        std::vector<double> weights;
        double sum = 0;
        for (int key = 0; key < keys; ++key) {
          double score = 0;
          for (int i = 0; i < size; ++i) score += at(a, row, i) * at(b, first + key, i);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          sum += weights.back();
        }
        for (int key = 0; key < keys; ++key)
          for (int i = 0; i < size; ++i)
            wanted[static_cast<std::size_t>(row * size + i)] +=
                weights[static_cast<std::size_t>(key)] / sum * at(c, first + key, i);
      }
      check_near(out, wanted, products && queries >= 4 ? 0.01 : 1e-5);
    }
}

TEST_CASE("images: borders are zero, parts of a cat lie beside each other, residuals are added") {
  Net net;
  Node* x = net.input("x", {1, 3, 7, 9});
  Node* a = net.call(ops::relu, {net.convolution(x, 5)}, {1, 5, 7, 9});
  Node* b = net.call(ops::add_Tensor, {net.convolution(a, 5), a}, {1, 5, 7, 9});
  Node* whole = net.call(ops::cat, {listed({a, b}), 1}, {1, 10, 7, 9});
  Node* y = net.convolution(whole, 4);
  Node* mask = net.call(ops::gt_Scalar, {net.convolution(y, 4), 0.25}, {1, 4, 7, 9}, Dtype::boolean);
  const KernelPlan plan = net.plan_of(Argument::tuple({y, mask}));
  const std::vector<float> in = numbers(3 * 63, 1);
  std::vector<std::vector<float>> w = {numbers(135, 2), numbers(5, 3), numbers(225, 4), numbers(5, 5),
                                       numbers(360, 6), numbers(4, 7), numbers(144, 8), numbers(4, 9)};
  std::vector<const void*> attributes;
  for (const auto& tensor : w) attributes.push_back(tensor.data());
  std::vector<float> out(4 * 63);
  std::vector<unsigned char> chosen(4 * 63, 7);
  Loaded(plan, attributes).run({in.data()}, {out.data(), chosen.data()});
  std::vector<double> first = convolved({in.begin(), in.end()}, w[0], w[1], 3, 5, 7, 9);
  for (double& v : first) v = std::max(v, 0.);
  std::vector<double> second = convolved(first, w[2], w[3], 5, 5, 7, 9);
  for (std::size_t i = 0; i < second.size(); ++i) second[i] += first[i];
  first.insert(first.end(), second.begin(), second.end());
  const std::vector<double> wanted = convolved(first, w[4], w[5], 10, 4, 7, 9);
  check_near(out, wanted);
  const std::vector<double> last = convolved(wanted, w[6], w[7], 4, 4, 7, 9);
  int wrong = 0;
  for (std::size_t i = 0; i < last.size(); ++i)
    wrong += std::abs(last[i] - 0.25) > 1e-3 && chosen[i] != (last[i] > 0.25 ? 1 : 0);
  CHECK(wrong == 0);
}

TEST_CASE("sequences: zeros before and behind, strides, groups; and what is read from the end") {
  Net net;
  Node* x = net.input("x", {2, 4, 19});
  Node* first = net.call(ops::conv1d, {x, net.weight("w", {6, 2, 3}), net.weight("b", {6}), 1, 1, 1, 2}, {2, 6, 19});
  Node* r = net.call(ops::relu, {first}, {2, 6, 19});
  Node* flipped = net.call(ops::flip, {r, listed({2, 1})}, {2, 6, 19});
  Node* second = net.call(ops::conv1d, {flipped, net.weight("w2", {5, 6, 4}), Argument{}, 2, 3, 2}, {2, 5, 10});
  const KernelPlan plan = net.plan_of(Argument::tuple({second, net.call(ops::exp, {flipped}, {2, 6, 19})}));
  CHECK(plan.called_back().empty());
  const std::vector<float> in = numbers(152, 1), w = numbers(36, 2), b = numbers(6, 3), w2 = numbers(120, 4);
  std::vector<float> out(100), other(228);
  Loaded(plan, {w.data(), b.data(), w2.data()}).run({in.data()}, {out.data(), other.data()});
  std::vector<double> turned(228), wanted(100), exponentials(228);
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int i = 0; i < 19; ++i) {
        double sum = b[o];
        for (int c = 0; c < 2; ++c)
          for (int s = 0; s < 3; ++s)
            if (const int at = i + s - 1; at >= 0 && at < 19)
              sum += static_cast<double>(in[(n * 4 + o / 3 * 2 + c) * 19 + at]) * w[(o * 2 + c) * 3 + s];
        const int to = (n * 6 + 5 - o) * 19 + 18 - i;
        turned[to] = std::max(sum, 0.);
        exponentials[to] = std::exp(turned[to]);
      }
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 5; ++o)
      for (int i = 0; i < 10; ++i)
        for (int c = 0; c < 6; ++c)
          for (int s = 0; s < 4; ++s)
            if (const int at = 2 * i + 2 * s - 3; at >= 0 && at < 19)
              wanted[(n * 5 + o) * 10 + i] += turned[(n * 6 + c) * 19 + at] * w2[(o * 6 + c) * 4 + s];
  check_near(out, wanted);
  check_near(other, exponentials);
}

TEST_CASE("planes become pixels a vector of each at a time") {
  for (const std::int64_t channels : {2, 3, 4, 5}) {
    CAPTURE(channels);
    Net net;
    Node* x = net.input("x", {1, channels, 5, 37});
    Node* doubled = net.call(ops::add_Tensor, {x, x}, {1, channels, 5, 37});
    const KernelPlan plan = net.plan_of(net.convolution(doubled, 6));
    CHECK(count(specialised_source(plan, "Net").text, "store_interleaved") == (channels < 5 ? 1 : 0));
    const auto c = static_cast<std::size_t>(channels);
    const std::vector<float> in = numbers(c * 185, 1), w = numbers(6 * c * 9, 2), b = numbers(6, 3);
    std::vector<float> out(6 * 185);
    Loaded(plan, {w.data(), b.data()}).run({in.data()}, {out.data()});
    std::vector<double> twice(in.begin(), in.end());
    for (double& v : twice) v *= 2;
    check_near(out, convolved(twice, w, b, static_cast<int>(channels), 6, 5, 37));
  }
}

TEST_CASE("many planes become pixels a square of vectors at a time, one image or several") {
  struct Case {
    std::int64_t images, channels, pixels;
  };
  // Short axes are read element by element.
  for (const auto& [images, channels, pixels] :
       {Case{1, 8, 16}, Case{1, 37, 50}, Case{3, 16, 66}, Case{9, 18, 20}, Case{1, 7, 185}, Case{2, 40, 15}}) {
    CAPTURE(channels);
    CAPTURE(pixels);
    Net net;
    const Sizes from = {images, channels, pixels}, to = {images, pixels, channels};
    Node *x = net.input("x", from), *row = net.input("row", {pixels}), *column = net.input("column", {channels, 1});
    Node* sum = net.call(ops::add_Tensor, {net.call(ops::mul_Tensor, {x, row}, from), column}, from);
    Node* turned = net.call(ops::transpose_int, {sum, 1, 2}, to);
    const KernelPlan plan = net.plan_of(net.call(ops::contiguous, {turned}, to));
    CHECK((count(specialised_source(plan, "Net").text, "transpose<") > 0) == (channels >= 8 && pixels >= 16));
    const auto p = static_cast<std::size_t>(pixels), c = static_cast<std::size_t>(channels);
    const std::size_t all = static_cast<std::size_t>(images) * c * p;
    const std::vector<float> in = numbers(all, 1), r = numbers(p, 2), k = numbers(c, 3);
    std::vector<float> out(all, -1);
    Loaded(plan, {}).run({in.data(), r.data(), k.data()}, {out.data()});
    std::vector<double> wanted(all);
    for (std::size_t i = 0; i < all; ++i)
      wanted[(i / (c * p) * p + i % p) * c + i / p % c] = static_cast<double>(in[i]) * r[i % p] + k[i / p % c];
    check_near(out, wanted);
  }
}

TEST_CASE("views with any strides, masks, numbers of other types and copies") {
  Net net;
  Node* x = net.input("x", {6, 20});
  Node* ids = net.input("ids", {20, 6}, Dtype::int64);
  Node* keep = net.input("keep", {20, 6}, Dtype::boolean);
  Node* turned = net.call(ops::transpose_int, {x, 0, 1}, {20, 6});
  Node* back = net.call(ops::transpose_int, {keep, 0, 1}, {6, 20}, Dtype::boolean);
  Node* chosen = net.call(ops::where_self, {back, x, net.call(ops::neg, {x}, {6, 20})}, {6, 20});
  Node* numbered = net.call(ops::to_dtype, {ids, Dtype::float32}, {20, 6});
  Node* sum = net.call(ops::add_Tensor, {turned, numbered}, {20, 6});
  Node* third = net.call(ops::slice_Tensor, {ids, 0, 0, 20, 3}, {7, 6}, Dtype::int64);
  Node* column = net.call(ops::select_int, {keep, 1, 2}, {20}, Dtype::boolean);
  Node* doubled = net.call(ops::expand, {net.call(ops::slice_Tensor, {x, 1, 0, 1}, {6, 1}), listed({6, 5})}, {6, 5});
  Node* least = net.call(ops::gt_Scalar, {x, 0.5}, {6, 20}, Dtype::boolean);
  Node* other = net.call(ops::flip, {back, listed({1})}, {6, 20}, Dtype::boolean);
  Node* mask = net.call(ops::where_self, {least, back, other}, {6, 20}, Dtype::boolean);
  Node* filled = net.call(ops::masked_fill_Scalar, {mask, least, true}, {6, 20}, Dtype::boolean);
  Node* last = net.call(ops::flip, {ids, listed({0, 1})}, {20, 6}, Dtype::int64);
  const KernelPlan plan =
      net.plan_of(Argument::tuple({chosen, sum, third, column, doubled, third, mask, filled, last}));
  CHECK(plan.called_back().empty());
  const std::vector<float> in = numbers(120, 1);
  std::vector<std::int64_t> given(120);
  std::vector<unsigned char> kept(120);
  for (int i = 0; i < 120; ++i) {
    given[i] = (std::int64_t{1} << 40) * (i % 7 == 0) + i;
    kept[i] = i % 3 == 0;
  }
  std::vector<float> a(120), b(120), d(30);
  std::vector<std::int64_t> c(42), again(42);
  std::vector<unsigned char> e(20, 9), f(120, 9), g(120, 9);
  std::vector<std::int64_t> h(120);
  Loaded(plan, {}).run({in.data(), given.data(), kept.data()},
                       {a.data(), b.data(), c.data(), e.data(), d.data(), again.data(), f.data(), g.data(), h.data()});
  int wrong = 0;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 20; ++j) {
      wrong += a[i * 20 + j] != (kept[j * 6 + i] ? in[i * 20 + j] : -in[i * 20 + j]);
      wrong += b[j * 6 + i] != in[i * 20 + j] + static_cast<float>(given[j * 6 + i]);
      wrong += e[j] != kept[j * 6 + 2];
      const bool more = in[i * 20 + j] > 0.5f;
      wrong += f[i * 20 + j] != kept[more ? j * 6 + i : (19 - j) * 6 + i];
      wrong += g[i * 20 + j] != (more ? 1 : f[i * 20 + j]);
      wrong += h[i * 20 + j] != given[119 - i * 20 - j];
      if (j < 5) wrong += d[i * 5 + j] != in[i * 20];
      if (j < 7) wrong += c[j * 6 + i] != given[j * 3 * 6 + i];
    }
  CHECK(wrong == 0);
  CHECK((c == again));
}

TEST_CASE("what an expression reads several times is declared, in every kind of loop") {
  Net net;
  Node* x = net.input("x", {6, 40});
  const auto twice = [&](Node* of, plans::Sizes sizes) {  // y + relu(y) of y = exp(x), times y
    Node* y = net.call(ops::exp, {of}, sizes);
    Node* sum = net.call(ops::add_Tensor, {y, net.call(ops::relu, {y}, sizes)}, sizes);
    return net.call(ops::mul_Tensor, {sum, y}, sizes);
  };
  Node* h = net.call(ops::linear, {x, net.weight("w", {40, 40}), net.weight("b", {40})}, {6, 40});
  Node* gate = net.call(ops::mul_Tensor, {h, net.call(ops::sigmoid, {h}, {6, 40})}, {6, 40});
  Node* rows = net.call(ops::softmax_int, {twice(x, {6, 40}), -1}, {6, 40});
  Node* sums = net.call(ops::sum_dim_IntList, {twice(x, {6, 40}), listed({1})}, {6});
  const KernelPlan plan = net.plan_of(Argument::tuple({twice(x, {6, 40}), gate, rows, sums}));
  const SpecialisedSource source = specialised_source(plan, "Net");
  CAPTURE(source.text);
  CHECK(plan.steps.size() == 4);
  CHECK(count(source.text, "const auto value = ") == 4);
  CHECK(count(source.text, "apply<Function::exponential>") == 3);
  const std::vector<float> in = numbers(240, 1), w = numbers(1600, 2), bias = numbers(40, 3);
  std::vector<float> a(240), b(240), c(240), d(6);
  Loaded(plan, {w.data(), bias.data()}).run({in.data()}, {a.data(), b.data(), c.data(), d.data()});
  std::vector<double> as(240), bs(240), cs(240), ds(6);
  for (int i = 0; i < 6; ++i) {
    double all = 0;
    for (int j = 0; j < 40; ++j) {
      const double y = std::exp(static_cast<double>(in[i * 40 + j]));
      as[i * 40 + j] = 2 * y * y;
      ds[i] += 2 * y * y;
      all += std::exp(2 * y * y);
      double sum = bias[j];
      for (int k = 0; k < 40; ++k) sum += static_cast<double>(in[i * 40 + k]) * w[j * 40 + k];
      bs[i * 40 + j] = sum / (1 + std::exp(-sum));
    }
    for (int j = 0; j < 40; ++j) cs[i * 40 + j] = std::exp(as[i * 40 + j]) / all;
  }
  check_near(a, as);
  check_near(b, bs);
  check_near(c, cs);
  check_near(d, ds);
}

TEST_CASE("softmax over any dimension, sums, rows of a table, and an index that no row has") {
  Net net;
  Node* ids = net.input("ids", {5}, Dtype::int64);
  Node* rows = net.call(ops::embedding, {net.weight("table", {9, 20}), ids}, {5, 20});
  Node* x = net.call(ops::mul_Tensor, {rows, net.input("y", {20})}, {5, 20});
  Node* along = net.call(ops::softmax_int, {x, 1}, {5, 20});
  Node* down = net.call(ops::softmax_int, {along, 0}, {5, 20});
  Node* total = net.call(ops::sum_dim_IntList, {down, listed({1})}, {5});
  const KernelPlan plan = net.plan_of(Argument::tuple({down, total}));
  CHECK(plan.called_back().empty());
  const std::vector<float> table = numbers(180, 1), y = numbers(20, 2);
  std::vector<std::int64_t> given = {8, 0, 3, 3, 1};
  std::vector<float> out(100), sums(5);
  Loaded loaded(plan, {table.data()});
  loaded.run({given.data(), y.data()}, {out.data(), sums.data()});
  std::vector<double> wanted(100), wanted_sums(5);
  for (int i = 0; i < 5; ++i) {
    double sum = 0;
    for (int j = 0; j < 20; ++j) sum += wanted[i * 20 + j] = std::exp(double(table[given[i] * 20 + j]) * y[j]);
    for (int j = 0; j < 20; ++j) wanted[i * 20 + j] /= sum;
  }
  for (int j = 0; j < 20; ++j) {
    double sum = 0;
    for (int i = 0; i < 5; ++i) sum += wanted[i * 20 + j] = std::exp(wanted[i * 20 + j]);
    for (int i = 0; i < 5; ++i) wanted_sums[i] += wanted[i * 20 + j] /= sum;
  }
  check_near(out, wanted);
  check_near(sums, wanted_sums);
  given[2] = 9;
  loaded.run({given.data(), y.data()}, {out.data(), sums.data()}, nullptr, 1);
}

TEST_CASE("integers: arithmetic, places in rows and columns, running sums, elements at places") {
  Net net;
  Node* n = net.input("n", {6, 21}, Dtype::int64);
  Node* x = net.input("x", {6, 21});
  Node* keep = net.input("keep", {6, 21}, Dtype::boolean);
  const auto integers = [&](const Operator& op, std::vector<Argument> arguments, Sizes sizes = {6, 21}) {
    return net.call(op, std::move(arguments), std::move(sizes), Dtype::int64);
  };
  Node* sum = integers(ops::add_Tensor, {integers(ops::remainder_Scalar, {n, 5}), n, 3});
  Node* chosen = integers(ops::where_self, {keep, sum, integers(ops::neg, {n})});
  Node* row = integers(ops::argmax, {x, 1}, {6});
  Node* column = integers(ops::argmin, {x, 0}, {21});
  Node* counted = integers(ops::cumsum, {keep, 1});
  Node* any = net.call(ops::any_dim, {keep, 0}, {21}, Dtype::boolean);
  Node* picked = net.call(ops::gather, {x, 1, integers(ops::remainder_Scalar, {n, 21})}, {6, 21});
  Node* spread = net.call(ops::var_correction, {x, listed({1})}, {6});
  const KernelPlan plan = net.plan_of(Argument::tuple({chosen, row, column, counted, any, picked, spread}));
  CHECK(plan.called_back().empty());
  const std::vector<float> in = numbers(126, 1);
  std::vector<std::int64_t> given(126), a(126), b(6), c(21), d(126);
  std::vector<unsigned char> kept(126), e(21, 9);
  for (int i = 0; i < 126; ++i) {
    given[i] = (std::int64_t{1} << 50) * (i % 4 == 0) + 11 * i - 400;
    kept[i] = i % 3 == 0 && i % 21 != 6;
  }
  std::vector<float> f(126), g(6);
  Loaded(plan, {}).run({given.data(), in.data(), kept.data()},
                       {a.data(), b.data(), c.data(), d.data(), e.data(), f.data(), g.data()});
  const auto rest = [](std::int64_t v, std::int64_t by) { return ((v % by) + by) % by; };
  int wrong = 0;
  std::vector<double> variances(6);
  for (int i = 0; i < 6; ++i) {
    int best = 0, before = 0;
    double mean = 0;
    for (int j = 0; j < 21; ++j) {
      const int at = i * 21 + j;
      if (in[at] > in[i * 21 + best]) best = j;
      mean += in[at] / 21.;
      wrong += a[at] != (kept[at] ? rest(given[at], 5) + 3 * given[at] : -given[at]);
      wrong += d[at] != (before += kept[at]);
      wrong += f[at] != in[i * 21 + rest(given[at], 21)];
    }
    wrong += b[i] != best;
    for (int j = 0; j < 21; ++j) variances[i] += (in[i * 21 + j] - mean) * (in[i * 21 + j] - mean) / 20;
  }
  for (int j = 0; j < 21; ++j) {
    int least = 0, found = 0;
    for (int i = 0; i < 6; ++i) {
      if (in[i * 21 + j] < in[least * 21 + j]) least = i;
      found |= kept[i * 21 + j];
    }
    wrong += c[j] != least || e[j] != found;
  }
  CHECK(wrong == 0);
  check_near(g, variances);
}

TEST_CASE("what has no kernel is called back by the number of its step, between the others") {
  Net net;
  Node* x = net.input("x", {1, 8, 4, 4});
  Node* r = net.call(ops::exp, {x}, {1, 8, 4, 4});
  const KernelPlan plan = net.plan_of(net.convolution(net.call(ops::i0, {r}, {1, 8, 4, 4}), 2));
  REQUIRE(plan.called_back().size() == 1);
  const std::vector<float> in = numbers(128, 1), w = numbers(144, 2), b = numbers(2, 3);
  std::vector<float> out(32);
  Loaded loaded(plan, {w.data(), b.data()});
  static const KernelPlan* now;
  now = &loaded.plan();
  loaded.run({in.data()}, {out.data()}, [](kernels::ModuleCall* call, int step) {
    const auto& back = test::kernel_of<plans::CallBack>(now->steps[static_cast<std::size_t>(step)]);
    const auto at = [&](const plans::View& view) {
      CHECK(view.strides == Sizes{128, 16, 4, 1});
      return reinterpret_cast<float*>(call->memory + test::buffer_of(*now, view).offset) + view.offset;
    };
    const float* from = at(back.inputs[0].view);
    float* to = at(back.outputs[0].view);
    for (int i = 0; i < 128; ++i) to[i] = std::sin(3.14159265f * from[i]) / (3.14159265f * from[i]);
    return 0;
  });
  std::vector<double> wanted(128);
  for (int i = 0; i < 128; ++i) {
    const double at = 3.14159265358979 * std::exp(double(in[i]));
    wanted[i] = std::sin(at) / at;
  }
  check_near(out, convolved(wanted, w, b, 8, 2, 4, 4));
  // A call back that fails ends the forward.
  loaded.run(
      {in.data()}, {out.data()}, [](kernels::ModuleCall*, int) { return 1; }, 2);
}

TEST_CASE("tensors without elements, single numbers and graphs without steps compile") {
  Net net;
  Node* x = net.input("x", {0, 5});
  Node* n = net.input("n", {});
  Node* none = net.call(ops::relu, {x}, {0, 5});
  Node* one = net.call(ops::mul_Scalar, {n, 3}, {});
  const KernelPlan plan = net.plan_of(Argument::tuple({none, one, n}));
  const float three = 3;
  float nine = 0, nothing = 0;
  Loaded(plan, {}).run({&nothing, &three}, {&nothing, &nine, nullptr});
  CHECK(nine == 9);
  Net empty;
  const KernelPlan itself = empty.plan_of(empty.input("x", {4}));
  CHECK(itself.steps.empty());
  Loaded(itself, {}).run({&three}, {nullptr});
}
