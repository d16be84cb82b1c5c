// Images and sequences lie channels last, with the borders that are read; convolutions of single channels and pixels.
#include <doctest/doctest.h>

#include "codegen/lower/bounds.hpp"
#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::check_bounds;
using test::kernel_of;
using test::listed;
using test::Net;
using test::stored;

TEST_CASE("images lie channels last, with the border that the convolution behind reads") {
  Net net;
  Node* x = net.input("x", {2, 3, 10, 12});
  Node* first = net.call(ops::relu, {net.convolution(x, 8)}, {2, 8, 10, 12});
  const KernelPlan plan = net.plan_of(net.convolution(first, 4));
  CHECK(plan.steps.size() == 3);
  const View& in = plan.steps[0].stores[0].to;
  CHECK(buffer_of(plan, in).border == Buffer::Border{1, 1, 1, 1});
  CHECK(buffer_of(plan, in).image == Sizes{2, 12, 14, 3});
  CHECK(in.strides == Sizes{12 * 14 * 3, 1, 14 * 3, 3});
  CHECK(in.offset == 15 * 3);
  const auto& convolution = kernel_of<Convolution>(plan.steps[1]);
  CHECK(convolution.method == Convolution::Method::direct);
  CHECK(convolution.in.offset == 0);  // at the first pixel of the border
  CHECK(buffer_of(plan, plan.steps[1].stores[0].to).border == Buffer::Border{1, 1, 1, 1});
  // The caller wants its result as LibTorch lays it out.
  CHECK(plan.steps[2].stores[0].to.strides == dense_strides({2, 4, 10, 12}));
  check_bounds(plan);
}

TEST_CASE("a result that lies channels last in LibTorch is written so") {
  Net net;
  Node* x = net.input("x", {1, 8, 6, 6});
  Node* y = net.convolution(x, 4);
  TensorMeta meta = *y->tensor_meta();
  meta.stride = {4 * 36, 1, 24, 4};
  y->set_tensor_meta(meta);
  CHECK(net.plan_of(y).outputs[0].view.strides == meta.stride);
}

TEST_CASE("convolutions of single channels and of single pixels have kernels of their own") {
  Net net;
  Node* x = net.input("x", {1, 32, 8, 8});
  Node* depthwise = net.convolution(x, 32, 3, 32);
  Node* pixelwise = net.convolution(depthwise, 48, 1);
  const KernelPlan plan = net.plan_of(net.call(ops::relu, {pixelwise}, {1, 48, 8, 8}));
  CHECK(plan.steps.size() == 3);
  CHECK(kernel_of<Convolution>(plan.steps[1]).method == Convolution::Method::depthwise);
  const auto& product = kernel_of<MatrixProduct>(plan.steps[2]);
  CHECK(product.rows == 64);
  CHECK(product.columns == 48);
  CHECK(product.depth == 32);
  check_bounds(plan);
}

namespace {
/// A pixelwise product, a convolution of single channels with stride 2 where `stride` says so, a product with a residual.
struct Bottleneck {
  Net net;
  Node *x = nullptr, *in = nullptr, *expanded = nullptr, *filtered = nullptr, *out = nullptr;
  explicit Bottleneck(std::int64_t side, std::int64_t channels, std::int64_t wide) {
    x = net.input("x", {1, channels, side, side});
    in = net.call(ops::relu, {net.convolution(x, channels)}, {1, channels, side, side});
    expanded = net.call(ops::relu, {net.convolution(in, wide, 1)}, {1, wide, side, side});
    filtered = net.call(ops::relu, {net.convolution(expanded, wide, 3, wide)}, {1, wide, side, side});
    out = net.call(ops::add_Tensor, {in, net.convolution(filtered, channels, 1)}, {1, channels, side, side});
  }
};
}  // namespace

TEST_CASE("what is wide between a convolution of single channels and the products around it is computed by rows") {
  Bottleneck b(64, 16, 96);
  const KernelPlan plan = b.net.plan_of(b.out);
  REQUIRE(plan.steps.size() == 3);
  const auto& block = kernel_of<DepthwiseBlock>(plan.steps[2]);
  REQUIRE(block.expand);
  REQUIRE(block.project);
  CHECK(block.expand->columns == 96);
  CHECK(block.project->depth == 96);
  CHECK(block.filter.in.buffer == -1);
  CHECK(block.filter.padding_height == 1);
  CHECK(block.filter.padding_width == 1);
  CHECK(test::text_of(plan, *block.expanded) == "relu(add(v, conv2_bias))");
  CHECK(test::text_of(plan, *block.filtered) == "relu(add(v, conv3_bias))");
  CHECK(stored(plan, 2) == "add(relu, add(v, conv4_bias))");
  CHECK(plan.steps[2].flops == 2. * 64 * 64 * 96 * (16 + 9 + 16));
  // Neither the wide images nor their border are in memory.
  CHECK(plan.arena_bytes < 64 * 64 * 96 * 4);
  CHECK(plan.to_string().find("product, depthwise, product  3 x 3, 16 -> 96 -> 64 x 64 x 16") != std::string::npos);
  check_bounds(plan);
}

TEST_CASE("what a convolution of single channels reads is computed, or copied for its padding, by rows") {
  const auto steps = [](bool pixels, bool adds) {
    Net net;
    const auto image = [&](const char* name) {
      Node* node = net.input(name, {1, 64, 80, 80});
      TensorMeta meta = *node->tensor_meta();
      if (pixels) meta.stride = {64 * 80 * 80, 1, 64 * 80, 64};
      node->set_tensor_meta(meta);
      return node;
    };
    Node* x = image("x");
    if (adds) x = net.call(ops::relu, {net.call(ops::add_Tensor, {x, image("y")}, {1, 64, 80, 80})}, {1, 64, 80, 80});
    const KernelPlan plan = net.plan_of(net.convolution(x, 64, 3, 64));
    check_bounds(plan);
    std::string all;
    for (const KernelStep& step : plan.steps) {
      const auto* block = std::get_if<DepthwiseBlock>(&step.kernel);
      if (!block) {
        all += "apart, ";
        continue;
      }
      CHECK_FALSE(block->expand);
      CHECK_FALSE(block->project);
      CHECK(block->filter.in.buffer == -1);
      CHECK(block->filter.padding_width == 1);
      all += test::text_of(plan, *block->expanded);
      CHECK(plan.arena_bytes < 80 * 80);
      CHECK(plan.to_string().find("pointwise, depthwise") != std::string::npos);
    }
    return all;
  };
  CHECK(steps(true, false) == "x");
  CHECK(steps(true, true) == "relu(add(x, y))");
  CHECK(steps(false, false) == "apart, apart, ");  // planes are turned by squares of vectors
}

TEST_CASE("small images, and what others read too, stay whole") {
  Bottleneck small(32, 16, 96);
  CHECK(small.net.plan_of(small.out).steps.size() == 5);
  // The product before is returned: only the one behind is joined.
  Bottleneck before(64, 16, 96);
  KernelPlan plan = before.net.plan_of(Argument::tuple({before.out, before.expanded}));
  bool found = false;
  for (const KernelStep& step : plan.steps)
    if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
      found = true;
      CHECK_FALSE(block->expand);
      CHECK(block->project);
      CHECK(block->filter.in.buffer >= 0);
    }
  CHECK(found);
  check_bounds(plan);
  Bottleneck behind(64, 16, 96);
  Node* again = behind.net.call(ops::relu, {behind.filtered}, {1, 96, 64, 64});
  plan = behind.net.plan_of(Argument::tuple({behind.out, again}));
  found = false;
  for (const KernelStep& step : plan.steps)
    if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
      found = true;
      CHECK(block->expand);
      CHECK_FALSE(block->project);
    }
  CHECK(found);
  check_bounds(plan);
}

TEST_CASE("one image serves several convolutions, with the largest of their borders") {
  Net net;
  Node* x = net.input("x", {1, 4, 9, 9});
  Node* r = net.call(ops::relu, {x}, {1, 4, 9, 9});
  Node* small = net.convolution(r, 4, 3);
  Node* large = net.convolution(r, 4, 7);
  const KernelPlan plan = net.plan_of(net.call(ops::add_Tensor, {small, large}, {1, 4, 9, 9}));
  CHECK(plan.steps.size() == 3);
  CHECK(buffer_of(plan, plan.steps[0].stores[0].to).border == Buffer::Border{3, 3, 3, 3});
  CHECK(kernel_of<Convolution>(plan.steps[1]).in.offset == (2 * 15 + 2) * 4);
  CHECK(stored(plan, 2) == "add(conv2d, add(v, conv2_bias))");
}

TEST_CASE("channels of images are put beside each other without a copy") {
  Net net;
  Node* x = net.input("x", {1, 8, 8, 8});
  Node* a = net.call(ops::relu, {net.convolution(x, 16)}, {1, 16, 8, 8});
  Node* b = net.convolution(a, 8);
  Node* whole = net.call(ops::cat, {listed({a, b}), 1}, {1, 24, 8, 8});
  const KernelPlan plan = net.plan_of(net.convolution(whole, 4));
  CHECK(plan.steps.size() == 4);
  const Buffer& image = buffer_of(plan, plan.steps[1].stores[0].to);
  CHECK(image.image == Sizes{1, 10, 10, 24});
  CHECK(&image == &buffer_of(plan, plan.steps[2].stores[0].to));
  CHECK(kernel_of<Convolution>(plan.steps[2]).in.strides[3] == 24);
  check_bounds(plan);
}

TEST_CASE("an image among those of a cat is resized where it lies") {
  Net net;
  Node* x = net.input("x", {1, 8, 8, 8});
  Node* a = net.call(ops::relu, {net.convolution(x, 16)}, {1, 16, 8, 8});
  Node* large = net.call(ops::upsample_nearest2d, {a, listed({16, 16})}, {1, 16, 16, 16});
  Node* whole = net.call(ops::cat, {listed({a, x}), 1}, {1, 24, 8, 8});
  const KernelPlan plan = net.plan_of(Argument::tuple({large, whole}));
  int resized = 0;
  for (const KernelStep& step : plan.steps) {
    CHECK_FALSE(std::holds_alternative<CallBack>(step.kernel));
    const auto* resize = std::get_if<Resize>(&step.kernel);
    if (!resize) continue;
    ++resized;
    CHECK(resize->in.strides[3] == 24);
  }
  CHECK(resized == 1);
  check_bounds(plan);
}

TEST_CASE("sequences are images of one row, with the border that the convolution behind reads") {
  Net net;
  Node* x = net.input("x", {2, 3, 20});
  const auto convolution = [&](Node* from, std::int64_t channels, std::int64_t kernel, std::int64_t padding,
                               std::int64_t dilation = 1) {
    const Sizes in = from->tensor_meta()->shape;
    const std::string name = "w" + std::to_string(net.graph.size());
    return net.call(ops::conv1d,
                    {from, net.weight(name, {channels, in[1], kernel}), Argument{}, 1, listed({padding}), dilation},
                    {in[0], channels, in[2] + 2 * padding - (kernel - 1) * dilation});
  };
  Node* a = net.call(ops::relu, {convolution(x, 8, 3, 1)}, {2, 8, 20});
  Node* b = net.call(ops::relu, {convolution(a, 8, 5, 4, 2)}, {2, 8, 20});
  Node* sum = net.call(ops::add_Tensor, {a, b}, {2, 8, 20});
  Node* pooled = net.call(ops::max_pool1d, {sum, listed({2})}, {2, 8, 10});
  Node* joined = net.call(ops::cat, {listed({pooled, pooled}), 1}, {2, 16, 10});
  const KernelPlan plan = net.plan_of(convolution(joined, 4, 1, 0));
  CHECK(plan.called_back().empty());
  check_bounds(plan);
  REQUIRE(plan.steps.size() == 6);
  CHECK(buffer_of(plan, plan.steps[0].stores[0].to).border == Buffer::Border{0, 1, 0, 1});
  const auto& first = kernel_of<Convolution>(plan.steps[1]);
  CHECK(first.images == 2);
  CHECK(first.out_height == 1);
  CHECK(first.out_width == 20);
  CHECK(first.kernel_height == 1);
  CHECK(first.kernel_width == 3);
  CHECK(first.weights.sizes == Sizes{8, 3, 1, 3});
  CHECK(first.in.sizes == Sizes{2, 3, 1, 20});
  const View& to = plan.steps[1].stores[0].to;
  CHECK(buffer_of(plan, to).image == Sizes{2, 1, 28, 8});
  CHECK(to.sizes == Sizes{2, 8, 20});
  CHECK(to.strides == Sizes{28 * 8, 1, 8});
  CHECK(to.offset == 4 * 8);
  const auto& second = kernel_of<Convolution>(plan.steps[2]);
  CHECK(second.dilation_height == 1);
  CHECK(second.dilation_width == 2);
  CHECK(second.in.offset == 0);
  CHECK(kernel_of<Pooling>(plan.steps[3]).kernel_height == 1);
  CHECK(kernel_of<Pooling>(plan.steps[3]).in_width == 20);
  CHECK(kernel_of<MatrixProduct>(plan.steps[5]).rows == 20);
  CHECK(kernel_of<MatrixProduct>(plan.steps[5]).a_row == 16);
}

TEST_CASE("tokens that are turned are a sequence where they lie") {
  Net net;
  Node* x = net.input("x", {2, 30, 16});
  Node* turned = net.call(ops::transpose_int, {x, 1, 2}, {2, 16, 30});
  Node* y = net.call(ops::conv1d, {turned, net.weight("w", {24, 16, 1})}, {2, 24, 30});
  Node* z = net.call(ops::conv1d, {turned, net.weight("w2", {24, 16, 3})}, {2, 24, 28});
  const KernelPlan plan = net.plan_of(Argument::tuple({net.call(ops::transpose_int, {y, 1, 2}, {2, 30, 24}), z}));
  CHECK(kernel_of<MatrixProduct>(plan.steps[0]).a == View{0, 0, {60, 16}, {16, 1}});
  CHECK(kernel_of<Convolution>(plan.steps[2]).in == View{0, 0, {2, 16, 1, 30}, {480, 1, 480, 16}});
  check_bounds(plan);
}

TEST_CASE("sequences that nobody reads as images stay as they lie: filters of channels, one channel, windows of one") {
  Net net;
  Node* x = net.input("x", {2, 6, 40});
  Node* one = net.input("one", {2, 1, 40});
  const auto filter = [&](Node* from, const char* name, std::int64_t stride, std::int64_t length) {
    return net.call(ops::conv1d,
                    {from, net.weight(name, {6, 1, 3}), Argument{}, stride, listed({1}), 1, 6}, {2, 6, length});
  };
  Node* given = net.call(ops::relu, {filter(x, "w", 2, 20)}, {2, 6, 20});
  Node* thirds = filter(x, "w3", 3, 14);
  Node* wide = net.call(ops::conv1d, {one, net.weight("v", {9, 1, 5}), Argument{}, 1, listed({2}), 1}, {2, 9, 40});
  Node* mixed = net.call(ops::conv1d, {x, net.weight("m", {8, 6, 1})}, {2, 8, 40});
  Node* read = net.call(ops::max_pool1d, {filter(x, "p", 1, 40), listed({2})}, {2, 6, 20});
  const KernelPlan plan = net.plan_of(Argument::tuple({given, wide, mixed, thirds, read}));
  CHECK(plan.called_back().empty());
  check_bounds(plan);
  int filters = 0, images = 0, in_place = 0;
  for (const KernelStep& step : plan.steps) {
    if (const auto* k = std::get_if<Convolution>(&step.kernel)) {
      const bool lies = k->method == Convolution::Method::depthwise_sequences;
      (lies ? filters : images) += 1;
      if (!lies) continue;
      CHECK(k->in == View{0, 0, {2, 6, 1, 40}, {240, 40, 40, 1}});
      CHECK(k->stride_width == 2);
      CHECK(k->padding_width == 1);
      CHECK(step.stores[0].to.strides == Sizes{120, 20, 1});
    } else if (const auto* product = std::get_if<MatrixProduct>(&step.kernel)) {
      ++in_place;
      CHECK(product->batch == 2);
      CHECK(product->columns == 40);
      CHECK(product->weights.view.strides[0] == 1);
      CHECK(product->weights.view.strides[1] == (product->rows == 9 ? 1 : 40));
    }
  }
  CHECK(filters == 1);  // a stride of three, and what is pooled, are images
  CHECK(images == 2);
  CHECK(in_place == 2);
}

TEST_CASE("what is turned round is read from its end, in the loop of who reads it") {
  Net net;
  Node* x = net.input("x", {4, 6});
  Node* flipped = net.call(ops::flip, {x, listed({0, -1})}, {4, 6});
  Node* image = net.input("image", {1, 8, 6, 5});
  Node* mirrored = net.call(ops::flip, {net.convolution(image, 8), listed({3})}, {1, 8, 6, 5});
  const KernelPlan plan =
      net.plan_of(Argument::tuple({net.call(ops::relu, {flipped}, {4, 6}), net.convolution(mirrored, 8)}));
  CHECK(plan.called_back().empty());
  check_bounds(plan);
  REQUIRE(plan.steps.size() == 5);
  CHECK(stored(plan, 3) == "relu(x)");
  CHECK(plan.steps[3].stores[0].value->operands[0]->view == View{0, 23, {4, 6}, {-6, -1}});
  // A convolution reads memory that runs forwards, with a border around it.
  CHECK(stored(plan, 2) == "conv2d");
  CHECK(plan.steps[2].stores[0].value->view.strides[3] == -8);
  CHECK(kernel_of<Convolution>(plan.steps[4]).in.strides[3] == 8);
  CHECK_FALSE(buffer_of(plan, plan.steps[2].stores[0].to).border.empty());
}

TEST_CASE("zeros around an image are its border, and what is padded is seen in the same memory") {
  Net net;
  Node* x = net.input("x", {1, 4, 9, 9});
  Node* a = net.call(ops::relu, {net.convolution(x, 8)}, {1, 8, 9, 9});
  Node* padded = net.call(ops::constant_pad_nd, {a, listed({0, 1, 2, 0})}, {1, 8, 11, 10});
  Node* again = net.call(ops::constant_pad_nd, {padded, listed({3, 0})}, {1, 8, 11, 13});
  Node* pooled = net.call(ops::max_pool2d, {padded, listed({2, 2}), listed({2, 2})}, {1, 8, 5, 5});
  const KernelPlan plan = net.plan_of(Argument::tuple({net.convolution(again, 4, 5), pooled, a}));
  // The convolution reads two more on each side of what is padded, the pool nothing more.
  const View& image = plan.steps[1].stores[0].to;
  CHECK(buffer_of(plan, image).border == Buffer::Border{4, 5, 2, 3});
  CHECK(kernel_of<Convolution>(plan.steps[1]).method == Convolution::Method::direct);
  int readers = 0;
  for (const KernelStep& step : plan.steps) {
    if (const auto* pool = std::get_if<Pooling>(&step.kernel)) {
      ++readers;
      CHECK(pool->in.buffer == image.buffer);
      CHECK(pool->in.offset == (2 * 17 + 5) * 8);
      CHECK(pool->in_height == 11);
    } else if (const auto* k = std::get_if<Convolution>(&step.kernel); k && k->kernel_height == 5) {
      ++readers;
      CHECK(k->in.buffer == image.buffer);
      CHECK(k->in.offset == 0);
    }
  }
  CHECK(readers == 2);
  check_bounds(plan);
}

TEST_CASE("one pixel wide images are rows, lines of one channel are pixels, and edges that meet zeros are left out") {
  const auto kernel_for = [](Sizes in, Sizes weight, Sizes out, Argument padding, std::int64_t dilation = 1,
                             LowerOptions options = {}) {
    Net net;
    Node* x = net.input("x", in);
    Node* w = net.weight("w", weight);
    Node* y = net.call(ops::conv2d, {x, w, Argument(), 1, std::move(padding), dilation, 1}, std::move(out));
    const KernelPlan plan = net.plan_of(y, options);
    check_bounds(plan);
    for (const KernelStep& step : plan.steps)
      if (const auto* k = std::get_if<Convolution>(&step.kernel)) return *k;
    return Convolution{};
  };
  Convolution k = kernel_for({2, 6, 40, 1}, {7, 6, 16, 1}, {2, 7, 25, 1}, 0);
  CHECK(std::array{k.out_height, k.out_width, k.kernel_height, k.kernel_width, k.channels} ==
        std::array<std::int64_t, 5>{1, 25, 1, 16, 6});
  k = kernel_for({2, 1, 40, 12}, {7, 1, 3, 12}, {2, 7, 38, 1}, 0);
  CHECK(std::array{k.out_height, k.out_width, k.kernel_height, k.kernel_width, k.channels} ==
        std::array<std::int64_t, 5>{1, 38, 1, 3, 12});
  // Of 64 taps 15 meet any of the 8 pixels, of 3 x 3 that are 6 apart the middle one.
  k = kernel_for({1, 5, 8, 1}, {7, 5, 64, 1}, {1, 7, 7, 1}, listed({31, 0}));
  CHECK(k.kernel_width == 14);
  CHECK(k.weights.offset == 25);
  k = kernel_for({1, 5, 4, 4}, {7, 5, 3, 3}, {1, 7, 2, 2}, 5, 6);
  CHECK(k.kernel_height == 1);
  CHECK(k.weights.offset == 4);
  // 0 times what is not finite is nan.
  LowerOptions odd;
  odd.finite_weights = false;
  CHECK(kernel_for({1, 5, 8, 1}, {7, 5, 64, 1}, {1, 7, 7, 1}, listed({31, 0}), 1, odd).kernel_width == 64);
}

TEST_CASE("drawn convolutions of padded images, of which slices are read, stay within their buffers") {
  unsigned state = 7;
  const auto drawn = [&](std::int64_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::int64_t>(state >> 8) % below;
  };
  int convolutions = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    Net net;
    const std::int64_t channels = drawn(3) == 0 ? 1 : 16 + drawn(3);
    Sizes in = {1 + drawn(2), channels, 1 + drawn(12), drawn(3) == 0 ? 1 : 1 + drawn(12)};
    const bool sequence = drawn(4) == 0;
    if (sequence) in.erase(in.begin() + 2);
    Node* x = net.input("x", in);
    if (drawn(3) > 0) x = net.call(ops::relu, {x}, in);
    Sizes now = in;
    for (std::int64_t pads = drawn(3); pads > 0; --pads) {
      std::vector<Argument> amounts;
      for (std::size_t d = now.size() - 1; d >= 2; --d)
        for (int side = 0; side < 2; ++side) {
          const std::int64_t amount = drawn(4);
          amounts.emplace_back(amount);
          now[d] += amount;
        }
      x = net.call(ops::constant_pad_nd, {x, listed(amounts)}, now);
    }
    const std::int64_t groups = drawn(4) == 0 ? channels : 1, outputs = groups > 1 ? groups : 16 + drawn(3);
    Sizes weight = {outputs, channels / groups}, out = {now[0], outputs};
    std::vector<Argument> stride, padding, dilation;
    bool fits = true;
    for (std::size_t d = 2; d < now.size(); ++d) {
      const bool wide = d == 3 && drawn(3) == 0;
      const std::int64_t kernel = wide ? now[d] : 1 + drawn(5), by = 1 + drawn(2), apart = wide ? 1 : 1 + drawn(7);
      const std::int64_t around = wide ? 0 : drawn(6), reach = (kernel - 1) * apart + 1;
      weight.push_back(kernel);
      stride.emplace_back(by), padding.emplace_back(around), dilation.emplace_back(apart);
      fits = fits && now[d] + 2 * around >= reach;
      out.push_back((now[d] + 2 * around - reach) / by + 1);
    }
    if (!fits) continue;
    Node* y = net.call(sequence ? ops::conv1d : ops::conv2d,
                       {x, net.weight("w", weight), Argument(), listed(stride), listed(padding), listed(dilation),
                        groups},
                       out);
    for (std::int64_t slices = drawn(3); slices > 0; --slices) {
      const auto d = static_cast<std::size_t>(2 + drawn(static_cast<std::int64_t>(out.size()) - 2));
      const std::int64_t start = drawn(out[d]), end = start + 1 + drawn(out[d] - start);
      out[d] = end - start;
      y = net.call(ops::slice_Tensor, {y, static_cast<std::int64_t>(d), start, end, 1}, out);
    }
    const KernelPlan plan = net.plan_of(Argument::tuple({y, x}));
    CAPTURE(plan.to_string());
    check_bounds(plan);
    for (const KernelStep& step : plan.steps) convolutions += std::holds_alternative<Convolution>(step.kernel);
  }
  CHECK(convolutions > 500);
}
