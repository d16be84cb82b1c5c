// rules::rearrangement: pixels and channels that change places, and what is none of it.
#include "fxx/rules/rearrangement.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using test::shaped;

namespace {

using Shape = std::vector<std::int64_t>;
Argument list_of(const Shape& numbers) {
  return Argument::list(std::vector<Argument>(numbers.begin(), numbers.end()));
}
struct Moved {
  Shape from, split, order, to;
  bool contiguous = false, known = true;
  const Operator& view = ops::reshape;
};
/// What is left of x, split, permuted and joined; an order of two is a transpose.
std::string made(const Moved& moved) {
  const std::string text = test::rewritten_graph(rules::rearrangement, [&](Graph& g) {
    const auto of = [&](Node* node, const Shape& shape) { return moved.known ? shaped(node, shape) : node; };
    Node* x = of(g.placeholder("x"), moved.from);
    Node* parts = of(g.call_function(moved.view, {x, list_of(moved.split)}), moved.split);
    Node* value = moved.order.size() == 2
                      ? g.call_function(ops::transpose_int, {parts, moved.order[0], moved.order[1]})
                      : g.call_function(ops::permute, {parts, list_of(moved.order)});
    if (moved.contiguous) value = g.call_function(ops::contiguous, {value});
    return of(g.call_function(moved.view, {value, list_of(moved.to)}), moved.to);
  });
  return text.find('\n') == text.rfind('\n', text.size() - 2) ? text.substr(0, text.find('\n')) : "";
}

}  // namespace

TEST_CASE("pixels that go from channels to places are a pixel shuffle") {
  const std::string shuffle = "pixel_shuffle = aten::pixel_shuffle(%x, 2)";
  CHECK(made({{2, 12, 5, 7}, {2, 3, 2, 2, 5, 7}, {0, 1, 4, 2, 5, 3}, {2, 3, 10, 14}}) == shuffle);
  CHECK(made({{2, 12, 5, 7}, {2, 3, 2, 2, 5, 7}, {0, 1, -2, 2, -1, 3}, {2, 3, 10, 14}, true, true, ops::view}) ==
        shuffle);
  CHECK(made({{12, 5, 7}, {3, 2, 2, 5, 7}, {0, 3, 1, 4, 2}, {3, 10, 14}}) == shuffle);
  CHECK(made({{-9, 18, 5, 7}, {-9, 2, 3, 3, 5, 7}, {0, 1, 4, 2, 5, 3}, {-9, 2, 15, 21}}) ==
        "pixel_shuffle = aten::pixel_shuffle(%x, 3)");
}

TEST_CASE("pixels that go from places to channels are a pixel unshuffle") {
  const std::string unshuffle = "pixel_unshuffle = aten::pixel_unshuffle(%x, 2)";
  CHECK(made({{2, 3, 10, 14}, {2, 3, 5, 2, 7, 2}, {0, 1, 3, 5, 2, 4}, {2, 12, 5, 7}}) == unshuffle);
  CHECK(made({{3, 10, 14}, {3, 5, 2, 7, 2}, {0, 2, 4, 1, 3}, {12, 5, 7}, true, true, ops::view}) == unshuffle);
}

TEST_CASE("groups that change places with what is in them are a channel shuffle") {
  const std::string shuffle = "channel_shuffle = aten::channel_shuffle(%x, 3)";
  CHECK(made({{2, 12, 5, 7}, {2, 3, 4, 5, 7}, {1, 2}, {2, 12, 5, 7}, true, true, ops::view}) == shuffle);
  CHECK(made({{2, 12, 5, 7}, {2, 3, 4, 35}, {2, 1}, {2, 12, 5, 7}}) == shuffle);
  CHECK(made({{2, 12, 5, 7}, {2, 3, 4, 5, 7}, {0, 2, 1, 3, 4}, {2, 12, 5, 7}}) == shuffle);
  CHECK(made({{-3, 12, -4, -5}, {-3, 3, 4, -4, -5}, {1, 2}, {-3, 12, -4, -5}}) == shuffle);
}

TEST_CASE("what moves other pixels or channels, or is not known, stays") {
  // Channels first by factor, as in ONNX's DepthToSpace.
  CHECK(made({{2, 12, 5, 7}, {2, 2, 2, 3, 5, 7}, {0, 3, 4, 1, 5, 2}, {2, 3, 10, 14}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 2, 2, 5, 7}, {0, 1, 4, 3, 5, 2}, {2, 3, 10, 14}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 2, 2, 5, 7}, {0, 1, 4, 2, 5, 3}, {2, 3, 140}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 2, 2, 5, 7}, {0, 1, 4, 2, 5, 3}, {2, 3, 14, 10}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 2, 3, 2, 5, 7}, {0, 1, 4, 2, 5, 3}, {2, 2, 15, 14}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 2, 2, 5, 7}, {0, 1, 4, 2, 5, 3}, {2, 3, 10, 14}, false, false}) == "");
  CHECK(made({{2, 3, 10, 14}, {2, 3, 5, 2, 7, 2}, {0, 1, 5, 3, 2, 4}, {2, 12, 5, 7}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 4, 5, 7}, {1, 3}, {2, 12, 5, 7}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 4, 5, 7}, {1, 2}, {2, 3, 4, 35}}) == "");
  CHECK(made({{2, 12, 5, 7}, {3, 2, 4, 5, 7}, {1, 2}, {2, 12, 5, 7}}) == "");
  CHECK(made({{2, 12, 5, 7}, {2, 3, 4, 5, 7}, {1, 2}, {2, 12, 5, 7}, false, false}) == "");
}
