// Positions of nodes: is_before agrees with the list whatever the order of insertion, which make_room must keep
// affordable.
#include <doctest/doctest.h>

#include <algorithm>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "support.hpp"

using namespace fxx;

namespace {

/// Every node is before its successor, and no pair of a sample is told wrong.
void check_order(const Graph& g, test::Random& random) {
  std::vector<const Node*> all;
  const Node* last = nullptr;
  std::size_t wrong = 0;
  for (const Node* n : g.nodes()) {
    if (last && (!last->is_before(*n) || n->is_before(*last))) ++wrong;
    last = n;
    all.push_back(n);
  }
  for (int i = 0; i < 2000; ++i) {
    const std::size_t a = random.below(all.size()), b = random.below(all.size());
    if (all[a]->is_before(*all[b]) != (a < b)) ++wrong;
  }
  CHECK(all.size() == g.size());
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a million inserts before one node") {
  Graph g;
  test::Random random(1);
  Node* x = g.placeholder("x");
  Node* last = g.call_function(ops::relu, {x});
  const auto guard = g.inserting_before(last);
  for (int i = 0; i < test::repeats(1000000, 100000); ++i) g.create_node(GetAttr{"w"});
  check_order(g, random);
}

TEST_CASE("inserts after one node, so that each goes in front of those before it") {
  Graph g;
  test::Random random(2);
  Node* x = g.placeholder("x");
  for (int i = 0; i < test::repeats(300000, 50000); ++i) {
    const auto guard = g.inserting_after(x);
    g.create_node(GetAttr{"w"});
  }
  check_order(g, random);
  CHECK(g.nodes().front() == x);
}

TEST_CASE("inserts at the start") {
  Graph g;
  test::Random random(3);
  for (int i = 0; i < test::repeats(300000, 50000); ++i) {
    const auto guard = g.inserting_before(nullptr);
    g.create_node(GetAttr{"w"});
  }
  check_order(g, random);
}

TEST_CASE("inserts at random places") {
  Graph g;
  test::Random random(4);
  std::vector<Node*> all = {g.placeholder("x")};
  for (int i = 0; i < test::repeats(300000, 50000); ++i) {
    const auto guard = g.inserting_before(all[random.below(all.size())]);
    all.push_back(g.create_node(GetAttr{"w"}));
  }
  check_order(g, random);
}

TEST_CASE("inserts before the newest node and after it in turn: the gap is halved from both sides") {
  Graph g;
  test::Random random(5);
  Node *low = g.placeholder("low"), *high = g.placeholder("high");
  for (int i = 0; i < test::repeats(200000, 50000); ++i) {
    const auto guard = i % 2 ? g.inserting_before(high) : g.inserting_after(low);
    (i % 2 ? high : low) = g.create_node(GetAttr{"w"});
  }
  check_order(g, random);
}

TEST_CASE("appending, with an output behind") {
  Graph g;
  test::Random random(6);
  Node* x = g.placeholder("x");
  g.output(x);
  for (int i = 0; i < test::repeats(300000, 50000); ++i) g.create_node(GetAttr{"w"});
  check_order(g, random);
}

TEST_CASE("many crowded places at once, filled in turn") {
  Graph g;
  test::Random random(7);
  std::vector<Node*> places;
  for (int i = 0; i < 100; ++i) places.push_back(g.placeholder("x"));
  for (int i = 0; i < test::repeats(300000, 50000); ++i) {
    const auto guard = g.inserting_before(places[static_cast<std::size_t>(i) % places.size()]);
    g.create_node(GetAttr{"w"});
  }
  check_order(g, random);
}

TEST_CASE("random moves, compared with a list kept by hand") {
  Graph g;
  test::Random random(8);
  std::vector<Node*> model;
  for (int i = 0; i < 200; ++i) model.push_back(g.placeholder("x"));
  for (int i = 0; i < test::repeats(20000, 5000); ++i) {
    Node *a = model[random.below(model.size())], *b = model[random.below(model.size())];
    if (a == b) continue;
    std::erase(model, a);
    auto at = std::find(model.begin(), model.end(), b);
    if (random.chance(2)) {
      b->prepend(a);
    } else {
      b->append(a);
      ++at;
    }
    model.insert(at, a);
  }
  CHECK(g.nodes().snapshot() == model);
  check_order(g, random);
  g.lint();
}

TEST_CASE("moving the same nodes round and round crowds no place for good") {
  Graph g;
  test::Random random(9);
  Node *a = g.placeholder("a"), *b = g.placeholder("b"), *c = g.placeholder("c");
  for (int i = 0; i < test::repeats(300000, 50000); ++i) {
    b->prepend(c);
    b->append(a);
    b->prepend(a);
    b->append(c);
  }
  CHECK(g.nodes().snapshot() == std::vector<Node*>{a, b, c});
  check_order(g, random);
}

TEST_CASE("positions stay right while nodes are erased and made again") {
  Graph g;
  test::Random random(10);
  std::vector<Node*> all = {g.placeholder("x")};
  for (int i = 0; i < test::repeats(200000, 40000); ++i) {
    if (all.size() > 500 && random.chance(2)) {
      const std::size_t at = 1 + random.below(all.size() - 1);
      g.erase_node(all[at]);
      all[at] = all.back();
      all.pop_back();
      if (random.chance(1000)) g.collect_erased();
    } else {
      const auto guard = g.inserting_before(all[random.below(std::min<std::size_t>(all.size(), 3))]);
      all.push_back(g.create_node(GetAttr{"w"}));
    }
  }
  check_order(g, random);
  g.lint();
}
