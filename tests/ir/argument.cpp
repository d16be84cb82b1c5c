// ir/argument.hpp: kinds of values, sharing, comparing, walking.
#include "fxx/ir/argument.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;
using Kind = Argument::Kind;

namespace {

/// One value of each kind; the node is `x`.
std::vector<Argument> one_of_each(Node* x) {
  return {Argument(),
          Argument(x),
          true,
          3,
          2.5,
          Dtype::float16,
          Layout::sparse_coo,
          MemoryFormat::channels_last,
          Device{DeviceType::cuda, 1},
          Ellipsis{},
          Complex{1, -2},
          "text",
          Enumerator{"ns::Mode", "fast", 4},
          Range{0, 10, 2},
          Slice{1, x, Argument()},
          Argument::list({1, x}),
          Argument::tuple({x, "a"}),
          Argument::dict({{"k", x}, {2, 3}})};
}

}  // namespace

TEST_CASE("each value has its kind, and gives itself back") {
  Graph g;
  Node* x = g.placeholder("x");
  const std::vector<Argument> all = one_of_each(x);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].kind() == static_cast<Kind>(i));

  CHECK(all[0].is_none());
  CHECK(all[1].node() == x);
  CHECK(all[2].boolean());
  CHECK(all[3].integer() == 3);
  CHECK(all[4].real() == 2.5);
  CHECK(all[5].dtype() == Dtype::float16);
  CHECK(all[6].layout() == Layout::sparse_coo);
  CHECK(all[7].memory_format() == MemoryFormat::channels_last);
  CHECK(all[8].device() == Device{DeviceType::cuda, 1});
  CHECK(all[10].complex() == Complex{1, -2});
  CHECK(all[11].string() == "text");
  CHECK(all[12].enumerator() == Enumerator{"ns::Mode", "fast", 4});
  CHECK(all[13].range() == Range{0, 10, 2});
  CHECK(all[14].slice().stop.node() == x);
  CHECK(all[15].items().size() == 2);
  CHECK(all[16].items()[1].string() == "a");
  CHECK(all[17].entries()[1].value.integer() == 3);
}

TEST_CASE("asking for another kind is an error that names both") {
  Graph g;
  Node* x = g.placeholder("x");
  for (const Argument& value : one_of_each(x)) {
    const Kind kind = value.kind();
    const auto refused = [&](Kind asked, auto&& get) {
      if (kind == asked || (asked == Kind::list && value.is_sequence()) || (asked == Kind::real && value.is_number()))
        return;
      const auto fault = fault_of<GraphError>(get);
      CHECK(fault.id == 112);
      CHECK(fault.says("'" + std::string(name_of(kind)) + "'"));
    };
    refused(Kind::node, [&] { (void)value.node(); });
    refused(Kind::boolean, [&] { (void)value.boolean(); });
    refused(Kind::integer, [&] { (void)value.integer(); });
    refused(Kind::dtype, [&] { (void)value.dtype(); });
    refused(Kind::layout, [&] { (void)value.layout(); });
    refused(Kind::memory_format, [&] { (void)value.memory_format(); });
    refused(Kind::device, [&] { (void)value.device(); });
    refused(Kind::complex, [&] { (void)value.complex(); });
    refused(Kind::string, [&] { (void)value.string(); });
    refused(Kind::enumerator, [&] { (void)value.enumerator(); });
    refused(Kind::range, [&] { (void)value.range(); });
    refused(Kind::slice, [&] { (void)value.slice(); });
    refused(Kind::list, [&] { (void)value.items(); });
    refused(Kind::dict, [&] { (void)value.entries(); });
    refused(Kind::real, [&] { (void)value.number(); });
  }
  CHECK(fault_of([] { (void)Argument(1).real(); }).says("'integer'; 'real' was asked for"));
  CHECK(fault_of([] { (void)Argument(MemoryFormat::preserve_format).string(); }).says("'memory format'; 'string'"));
}

TEST_CASE("C++ numbers of every type become booleans, integers and reals") {
  CHECK(Argument(false).kind() == Kind::boolean);
  CHECK(Argument('a').integer() == 'a');
  CHECK(Argument(std::int8_t{-3}).integer() == -3);
  CHECK(Argument(std::uint32_t{4000000000u}).integer() == 4000000000);
  CHECK(Argument(std::size_t{7}).integer() == 7);
  CHECK(Argument(std::numeric_limits<std::int64_t>::min()).integer() == std::numeric_limits<std::int64_t>::min());
  CHECK(Argument(1.5f).real() == 1.5);
  CHECK(Argument(true).number() == 1.0);
  CHECK(Argument(-4).number() == -4.0);
  CHECK(Argument(0.25).number() == 0.25);
}

TEST_CASE("an empty optional is None, a full one its value; a null pointer is no value") {
  CHECK(Argument(std::nullopt).is_none());
  CHECK(Argument(std::optional<int>{}).is_none());
  CHECK(Argument(std::optional<int>{4}).integer() == 4);
  CHECK(Argument(std::optional<std::string>{"a"}).string() == "a");
  static_assert(!std::is_constructible_v<Argument, std::nullptr_t>);
}

TEST_CASE("predicates group the kinds") {
  Graph g;
  for (const Argument& value : one_of_each(g.placeholder("x"))) {
    const Kind k = value.kind();
    CHECK(value.is_number() == (k == Kind::boolean || k == Kind::integer || k == Kind::real));
    CHECK(value.is_sequence() == (k == Kind::list || k == Kind::tuple));
    CHECK(value.is_container() == (k == Kind::slice || k == Kind::list || k == Kind::tuple || k == Kind::dict));
  }
}

TEST_CASE("a key of a dictionary cannot contain a Node") {
  Graph g;
  Node* x = g.placeholder("x");
  for (const Argument& key : {Argument(x), Argument::tuple({1, x}), Argument(Slice{x, {}, {}})}) {
    const auto fault = fault_of<GraphError>([&] { Argument::dict({{"fine", 1}, {key, 2}}); });
    CHECK(fault.id == 110);
    CHECK(fault.says("cannot contain a Node"));
  }
  CHECK(Argument::dict({{1, x}, {true, x}, {"a", x}}).entries().size() == 3);
}

TEST_CASE("values of one kind and one content are equal") {
  Graph g;
  Node* x = g.placeholder("x");
  const auto a = one_of_each(x), b = one_of_each(x);
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < b.size(); ++k) CHECK((a[i] == b[k]) == (i == k));
}

TEST_CASE("equality sees what text would lose") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(Argument(nan) == Argument(nan));
  CHECK(Argument(nan) == Argument(-nan));
  CHECK(Argument(Complex{nan, 1}) == Argument(Complex{nan, 1}));
  CHECK_FALSE(Argument(0.0) == Argument(-0.0));
  CHECK_FALSE(Argument(Complex{0, 0.0}) == Argument(Complex{0, -0.0}));
  CHECK_FALSE(Argument(1) == Argument(1.0));
  CHECK_FALSE(Argument(1) == Argument(true));
  CHECK_FALSE(Argument::list({1}) == Argument::tuple({1}));
  CHECK_FALSE(Argument::list({1}) == Argument::list({1, 1}));
  CHECK_FALSE(Argument::dict({{"a", 1}, {"b", 2}}) == Argument::dict({{"b", 2}, {"a", 1}}));
  CHECK_FALSE(Argument(Slice{1, 2, 3}) == Argument(Slice{1, 2, 4}));
  CHECK_FALSE(Argument(Device{DeviceType::cuda}) == Argument(Device{DeviceType::cuda, 0}));
  CHECK(Argument::list({Argument::dict({{"k", Slice{1, {}, {}}}})}) ==
        Argument::list({Argument::dict({{"k", Slice{1, {}, {}}}})}));
}

TEST_CASE("copies share one immutable payload") {
  const Argument a = Argument::list({1, Argument::list({2})});
  Argument b = a;
  CHECK(b.items().data() == a.items().data());
  Argument c;
  c = b;
  CHECK(c.items().data() == a.items().data());
  b = 3;  // assigning to one leaves the others as they were
  CHECK(a.items().size() == 2);
  CHECK(c == a);
}

TEST_CASE("moving leaves None; assigning a value to itself keeps it") {
  Argument a = "text";
  const Argument b = std::move(a);
  CHECK(a.is_none());
  CHECK(b.string() == "text");
  Argument c = Argument::list({1, 2});
  Argument& same = c;
  c = same;
  CHECK(c.items().size() == 2);
  c = std::move(same);
  CHECK(c.items().size() == 2);
  Argument d = Argument::list({c});
  d = d.items()[0];  // an item outlives the list that it came from
  CHECK(d == c);
  Argument e = 1;
  e.swap(d);
  CHECK(d.integer() == 1);
  CHECK(e == c);
}

TEST_CASE("two threads may copy and drop one value") {
  const Argument shared = Argument::list({"a", Argument::tuple({1.5, "b"})});
  const auto work = [&] {
    for (int i = 0; i < 20000; ++i) {
      Argument copy = shared;
      const Argument item = copy.items()[1];
      copy = 1;
      if (item.items()[1].string() != "b") std::abort();
    }
  };
  std::thread a(work), b(work);
  a.join();
  b.join();
  CHECK(shared.items()[0].string() == "a");
}

TEST_CASE("visit hands over the value in the type of its kind") {
  Graph g;
  Node* x = g.placeholder("x");
  const auto kind_seen = [](const Argument& argument) {
    return visit(
        argument, [](None) { return Kind::none; }, [](Node*) { return Kind::node; }, [](bool) { return Kind::boolean; },
        [](std::int64_t) { return Kind::integer; }, [](double) { return Kind::real; },
        [](Dtype) { return Kind::dtype; }, [](Layout) { return Kind::layout; },
        [](MemoryFormat) { return Kind::memory_format; }, [](Device) { return Kind::device; },
        [](Ellipsis) { return Kind::ellipsis; }, [](Complex) { return Kind::complex; },
        [](const std::string&) { return Kind::string; }, [](const Enumerator&) { return Kind::enumerator; },
        [](const Range&) { return Kind::range; }, [](const Slice&) { return Kind::slice; },
        [](ListView) { return Kind::list; }, [](TupleView) { return Kind::tuple; },
        [](DictView) { return Kind::dict; });
  };
  for (const Argument& value : one_of_each(x)) CHECK(kind_seen(value) == value.kind());
}

TEST_CASE("for_each_node meets every node, nested ones too, from left to right, repeats included") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  const Argument nested = Argument::list(
      {y, Argument::tuple({x, 1, Argument::dict({{"a", x}, {"b", Argument::list({y})}})}), Slice{x, {}, y}, "x", x});
  std::vector<Node*> seen;
  for_each_node(nested, [&](Node* n) { seen.push_back(n); });
  CHECK(seen == std::vector<Node*>{y, x, x, y, x, y, x});
  for_each_node(Argument("x"), [&](Node*) { FAIL("a string holds no node"); });
}

TEST_CASE("map_nodes replaces nodes and keeps everything else") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  const Argument before =
      Argument::list({x, 1, Argument::tuple({x, "a"}), Argument::dict({{"k", x}, {2, y}}), Slice{x, 3, {}}});
  const Argument after = map_nodes(before, [&](Node* n) { return n == x ? Argument(y) : Argument(7); });
  CHECK(after ==
        Argument::list({y, 1, Argument::tuple({y, "a"}), Argument::dict({{"k", y}, {2, 7}}), Slice{y, 3, {}}}));
  CHECK(before.items()[0].node() == x);
  CHECK(map_nodes(Argument(x), [](Node*) { return Argument(); }).is_none());
}

TEST_CASE("map_nodes shares what holds no node") {
  Graph g;
  Node* x = g.placeholder("x");
  const Argument plain = Argument::list({1, Argument::tuple({2})}), mixed = Argument::list({plain, x});
  const auto keep = [](Node* n) { return Argument(n); };
  CHECK(map_nodes(plain, keep).items().data() == plain.items().data());
  const Argument mapped = map_nodes(mixed, keep);
  CHECK(mapped.items().data() != mixed.items().data());
  CHECK(mapped.items()[0].items().data() == plain.items().data());
}

TEST_CASE("dtypes, layouts, formats and devices have PyTorch's names, numbers and sizes") {
  CHECK(name_of(Dtype::float32) == "float32");
  CHECK(name_of(Dtype::boolean) == "bool");
  CHECK(c10_name_of(Dtype::boolean) == "Bool");
  CHECK(c10_name_of(Dtype::float16) == "Half");
  CHECK(name_of(static_cast<Dtype>(100)) == "");
  CHECK(name_of(Layout::sparse_csr) == "sparse_csr");
  CHECK(c10_name_of(Layout::sparse_coo) == "Sparse");
  CHECK(name_of(MemoryFormat::channels_last_3d) == "channels_last_3d");
  CHECK(c10_name_of(MemoryFormat::channels_last) == "ChannelsLast");
  CHECK(name_of(DeviceType::privateuseone) == "privateuseone");
  CHECK(c10_name_of(DeviceType::cuda) == "CUDA");
  CHECK(element_size(Dtype::float32) == 4);
  CHECK(element_size(Dtype::complex128) == 16);
  CHECK(element_size(Dtype::boolean) == 1);
  CHECK(element_size(static_cast<Dtype>(100)) == 0);
  CHECK(is_floating_point(Dtype::bfloat16));
  CHECK(is_floating_point(Dtype::float8_e4m3fnuz));
  CHECK_FALSE(is_floating_point(Dtype::complex64));
  CHECK_FALSE(is_floating_point(Dtype::int64));
  CHECK(is_complex(Dtype::complex32));
  CHECK_FALSE(is_complex(Dtype::float64));
  CHECK(to_string(Device{DeviceType::cpu}) == "cpu");
  CHECK(to_string(Device{DeviceType::cuda, 1}) == "cuda:1");
  // Every dtype has a name and a size.
  for (int i = 0; i < 128; ++i)
    CHECK((name_of(static_cast<Dtype>(i)) == "") == (element_size(static_cast<Dtype>(i)) == 0));
}

namespace {
/// So many containers of a kind in each other, around this value.
Argument nest_of(int kind, std::uint32_t depth, Argument value) {
  for (std::uint32_t i = 0; i < depth; ++i) switch (kind < 4 ? kind : static_cast<int>(i % 4)) {
      case 0: value = Argument::list({value, 1}); break;
      case 1: value = Argument::tuple({2, value}); break;
      case 2: value = Argument::dict({{"key", value}}); break;
      default: value = Slice{{}, value, 2}; break;
    }
  return value;
}
}  // namespace

TEST_CASE("containers are nested as deep as text holds, and no deeper") {
  for (const int kind : {0, 1, 2, 3, 4}) {
    CAPTURE(kind);
    Graph g;
    Node* x = g.placeholder("x");
    const Argument deepest = nest_of(kind, Argument::most_nested, x);
    g.output(deepest);
    const std::string text = to_string(g);
    const Graph read = parse_graph(text);
    CHECK(to_string(read) == text);
    CHECK(deepest == nest_of(kind, Argument::most_nested, x));
    for (const Argument& inside : {deepest, nest_of(kind, Argument::most_nested, 3)})
      for (const int around : {0, 1, 2, 3}) {
        CHECK(fault_of([&] { (void)nest_of(around, 1, inside); }).id == static_cast<int>(ErrorId::nested_too_deep));
      }
    // However often it is tried: the stack is as before.
    for (int i = 0; i < 1000; ++i) CHECK_THROWS_AS((void)nest_of(kind, 100000, 3), GraphError);
  }
}
