// What a traced value says of itself, how parts of it are read and written, calls of methods by name, checks, and
// everything that may be an argument of those.
#include <doctest/doctest.h>

#include <map>
#include <unordered_map>

#include "trace/recorded.hpp"

using namespace fxx;
using test::fault_of;
using test::recorded;

namespace geometry {
enum class Color { red, green };
enum class Far : int { away = 100 };
/// An object with proxies in it, that says what it is in a graph.
struct Box {
  Proxy corner;
  double size;
};
Argument fx_create_arg(Tracer& tracer, const Box& box) {
  return Argument::tuple({tracer.node_of(box.corner), box.size});
}
}  // namespace geometry

// --- what a tensor says of itself ------------------------------------------------------------------------------------

TEST_CASE("sizes and strides are lists of numbers, indexed and unpacked but not walked over") {
  CHECK(recorded([](auto x) { return x.view(x.sizes()); }) ==
        "sizes = prim::sizes(%x)\nview = .view(%x, %sizes)\nreturn %view\n");
  CHECK(recorded([](auto x) {
          const auto sizes = x.sizes();
          return x.expand({sizes[0], sizes.back(), sizes.at(1) * 2});
        }) ==
        "sizes = prim::sizes(%x)\ngetitem = operator::getitem(%sizes, 1)\nmul = operator::mul(%getitem, 2)\n"
        "getitem_1 = operator::getitem(%sizes, 0)\ngetitem_2 = operator::getitem(%sizes, -1)\n"
        "expand = .expand(%x, [%getitem_1, %getitem_2, %mul])\nreturn %expand\n");
  CHECK(recorded([](auto x) {
          const auto [n, m] = fxx::unpack<2>(x.strides());
          return n + m;
        }) ==
        "strides = prim::strides(%x)\ngetitem = operator::getitem(%strides, 0)\n"
        "getitem_1 = operator::getitem(%strides, 1)\nadd = operator::add(%getitem, %getitem_1)\nreturn %add\n");
  CHECK(fault_of<TraceError>([] {
          (void)symbolic_graph([](auto x) {
            for (const auto& size : x.sizes()) x = x + size;
            return x;
          });
        }).id == 302);
}

TEST_CASE("the last item of a list is one item, not the list") {
  CHECK(recorded([](auto x) { return x.chunk(2).back(); }) ==
        "chunk = .chunk(%x, 2)\ngetitem = operator::getitem(%chunk, -1)\nreturn %getitem\n");
  CHECK(recorded([](auto x) { return x.chunk(2)[-1]; }) ==
        "chunk = .chunk(%x, 2)\ngetitem = operator::getitem(%chunk, -1)\nreturn %getitem\n");
}

TEST_CASE("dtype, layout and device go where LibTorch takes them") {
  CHECK(recorded([](auto x, auto y) { return x.to(y.scalar_type()); }, {"x", "y"}) ==
        "dtype = prim::dtype(%y)\nto = .to(%x, %dtype)\nreturn %to\n");
  CHECK(recorded([](auto x, auto y) { return x.to(y.device()); }, {"x", "y"}) ==
        "device_1 = prim::device(%y)\nto = .to(%x, device=%device_1)\nreturn %to\n");
  CHECK(recorded([](auto x, auto y) { return x.to(y.device(), Dtype::float16); }, {"x", "y"}) ==
        "device_1 = prim::device(%y)\nto = .to(%x, %device_1, torch.float16)\nreturn %to\n");
  CHECK(recorded([](auto x, auto y) { return x.to(y.options()); }, {"x", "y"}) ==
        "dtype = prim::dtype(%y)\nlayout = prim::layout(%y)\ndevice_1 = prim::device(%y)\n"
        "to = .to(%x, dtype=%dtype, layout=%layout, device=%device_1)\nreturn %to\n");
  CHECK(recorded([](auto x, auto y) { return x.to(y); }, {"x", "y"}) == "to = .to(%x, %y)\nreturn %to\n");
  CHECK(recorded([](auto x) { return x.cpu().toType(Dtype::int64).data(); }) ==
        "to = .to(%x, device=device(type='cpu'))\nto_1 = .to(%to, torch.int64)\ndetach = .detach(%to_1)\nreturn "
        "%detach\n");
  CHECK(recorded([](auto x) { return x.chalf().pin_memory(); }) ==
        "chalf = .chalf(%x)\npin_memory = .pin_memory(%chalf)\nreturn %pin_memory\n");
}

TEST_CASE("numbers and answers that a tensor has") {
  CHECK(recorded([](auto x) {
          return std::make_tuple(x.nbytes(), x.itemsize(), x.ndimension());
        }).ends_with("return (%nbytes, %itemsize, %dim)\n"));
  CHECK(recorded([](auto x) { return x.hash_tensor(1, true); }) ==
        "hash_tensor = .hash_tensor(%x, 1, keepdim=True)\nreturn %hash_tensor\n");
  CHECK(recorded([](auto x) { return x.storage_offset() * 2; }) ==
        "storage_offset = .storage_offset(%x)\nmul = operator::mul(%storage_offset, 2)\nreturn %mul\n");
  CHECK(recorded([](auto x) { return x.get_device(); }) == "get_device = .get_device(%x)\nreturn %get_device\n");
  CHECK(recorded([](auto x) {
          return std::make_tuple(x.is_cuda(), x.requires_grad(), x.is_floating_point());
        }).ends_with("return (%is_cuda, %requires_grad, %is_floating_point)\n"));
  CHECK(recorded([](auto x) { return x.defined() ? x : -x; }) == "return %x\n");
  for (const auto& branch : {+[](Proxy x) { return x.is_cuda() ? x : -x; },
                             +[](Proxy x) { return x.scalar_type() == Dtype::float32 ? x : -x; },
                             +[](Proxy x) { return x.is_floating_point() ? x : -x; }})
    CHECK(fault_of<TraceError>([&] { (void)symbolic_graph(branch); }).id == 301);
}

// --- parts -----------------------------------------------------------------------------------------------------------

TEST_CASE("indices: numbers of either sign, proxies, slices whose ends are traced, text") {
  CHECK(recorded([](auto x) { return x[-1]; }) == "getitem = operator::getitem(%x, -1)\nreturn %getitem\n");
  CHECK(recorded([](auto x, auto i) { return x[i]; }, {"x", "i"}) ==
        "getitem = operator::getitem(%x, %i)\nreturn %getitem\n");
  CHECK(recorded([](auto x) {
          return x[x.size(0) - 1];
        }).ends_with("getitem = operator::getitem(%x, %sub)\nreturn %getitem\n"));
  CHECK(recorded([](auto x) {
          return x.index({Slice{0, x.size(0)}, "..."});
        }) ==
        "size = .size(%x, 0)\ngetitem = operator::getitem(%x, (slice(0, %size, None), Ellipsis))\nreturn %getitem\n");
  CHECK(recorded([](auto x) { return x["key"]; }) == "getitem = operator::getitem(%x, 'key')\nreturn %getitem\n");
}

TEST_CASE("writing to a part that numbers and slices pick is a view and a write to it") {
  CHECK(recorded([](auto x) {
          return x.index_put_({0, Slice{1}}, x[1]);
        }) ==
        "getitem = operator::getitem(%x, 1)\ngetitem_1 = operator::getitem(%x, (0, slice(1, None, None)))\n"
        "copy_ = .copy_(%getitem_1, %getitem)\nreturn %x\n");
  CHECK(recorded([](auto x) {
          return x.index_put_({"...", 0}, 1.5);
        }) == "getitem = operator::getitem(%x, (Ellipsis, 0))\nfill_ = .fill_(%getitem, 1.5)\nreturn %x\n");
  CHECK(recorded([](auto x) {
          x[0] += 1;
          return x;
        }) == "getitem = operator::getitem(%x, 0)\nadd_ = aten::add_.Scalar(%getitem, 1)\nreturn %x\n");
}

TEST_CASE("writing where tensors pick elements is aten::index_put_, behind a view of what numbers and slices leave") {
  const auto two = [](auto f) { return recorded(f, {"x", "i"}); };
  CHECK(two([](auto x, auto i) { return x.index_put_({i}, x); }) ==
        "index_put_ = .index_put_(%x, [%i], %x)\nreturn %index_put_\n");
  CHECK(two([](auto x, auto i) {
          return x.index_put_({Slice{}, i}, x);
        }) == "index_put_ = .index_put_(%x, [None, %i], %x)\nreturn %index_put_\n");
  CHECK(two([](auto x, auto i) {
          return x.index_put_({i, "..."}, x);
        }) == "index_put_ = .index_put_(%x, [%i], %x)\nreturn %index_put_\n");
  CHECK(two([](auto x, auto i) {
          return x.index_put_({0, Slice{1, 3}, i}, x);
        }) ==
        "getitem = operator::getitem(%x, (0, slice(1, 3, None), slice(None, None, None)))\n"
        "index_put_ = .index_put_(%getitem, [None, %i], %x)\nreturn %x\n");
  CHECK(two([](auto x, auto i) {
          return x.index_put_({std::nullopt, i}, x);
        }) ==
        "getitem = operator::getitem(%x, (None, slice(None, None, None)))\n"
        "index_put_ = .index_put_(%getitem, [None, %i], %x)\nreturn %x\n");
  CHECK(two([](auto x, auto i) { return x.index_put_({i}, 2); }) ==
        "new_full = .new_full(%x, [], 2)\nindex_put_ = .index_put_(%x, [%i], %new_full)\nreturn %index_put_\n");
}

TEST_CASE("a cut behind a tensor that may be a mask of several dimensions is refused when written to") {
  const auto fault = fault_of<TraceError>([] {
    (void)symbolic_graph([](auto x, auto i) { return x.index_put_({i, Slice{0, 3}}, 1); });
  });
  CHECK(fault.id == 305);
  CHECK(fault.says("behind a tensor"));
  CHECK(fault_of<TraceError>([] {
          (void)symbolic_graph([](auto x, auto i) { return x.index_put_({i > 0, 0}, 1); });
        }).id == 305);
  const auto two = [](auto f) { return recorded(f, {"x", "i"}); };
  CHECK(two([](auto x, auto i) {
          return x.index_put_({i, Slice{}}, x);
        }) == "index_put_ = .index_put_(%x, [%i, None], %x)\nreturn %index_put_\n");
  // Positions are of one dimension each.
  CHECK(two([](auto x, auto i) {
          return x.index_put_({i.argsort(), 0}, x);
        }) ==
        "argsort = .argsort(%i)\ngetitem = operator::getitem(%x, (slice(None, None, None), 0))\n"
        "index_put_ = .index_put_(%getitem, [%argsort], %x)\nreturn %x\n");
  // And stay positions when they are viewed, copied or counted on from.
  CHECK(two([](auto x, auto i) {
          return x.index_put_({i.argsort().unsqueeze(1), 0}, x);
        }) ==
        "argsort = .argsort(%i)\nunsqueeze = .unsqueeze(%argsort, 1)\n"
        "getitem = operator::getitem(%x, (slice(None, None, None), 0))\n"
        "index_put_ = .index_put_(%getitem, [%unsqueeze], %x)\nreturn %x\n");
  const auto is_refused = [](auto index) {
    try {
      (void)symbolic_graph([&](auto x, auto i) { return x.index_put_({index(i), Slice{0, 3}}, 1); });
    } catch (const TraceError&) {
      return true;
    }
    return false;
  };
  CHECK_FALSE(is_refused([](auto i) { return i.argmax(1).view(-1); }));
  CHECK_FALSE(is_refused([](auto i) { return (i.argsort() * 2 + i.size(0)).reshape({2, -1}); }));
  CHECK_FALSE(is_refused([](auto i) { return (1 - i.argsort()[0]).remainder(4).clone(); }));
  CHECK_FALSE(is_refused([](auto i) { return i.argsort().chunk(2)[1].cpu(); }));
  CHECK_FALSE(is_refused([](auto i) { return i.to(i.options().dtype(Dtype::int64)).t(); }));
  CHECK(is_refused([](auto i) { return i.to(i.options().dtype(Dtype::uint8)).t(); }));
  CHECK(is_refused([](auto i) { return i.unsqueeze(1); }));
  CHECK(is_refused([](auto i) { return (i.argsort() > 2).t(); }));
  CHECK(is_refused([](auto i) { return i.argsort().to(Dtype::boolean); }));
  CHECK(is_refused([](auto i) { return i.argsort().view(Dtype::uint8); }));
  CHECK(is_refused([](auto i) { return i.argmax() + i; }));  // of bytes where i is a mask of bytes
  CHECK(is_refused([](auto i) { return std::get<0>(i.topk(2)); }));
}

TEST_CASE("a tensor behind an Ellipsis, and a bool beside a tensor, are refused when written to") {
  const auto behind = fault_of<TraceError>([] {
    (void)symbolic_graph([](auto x, auto i) { return x.index_put_({"...", i}, 1); });
  });
  CHECK(behind.id == 305);
  CHECK(behind.says("behind an Ellipsis"));
  const auto flag = fault_of<TraceError>([] {
    (void)symbolic_graph([](auto x, auto i) { return x.index_put_({true, i}, 1); });
  });
  CHECK(flag.id == 305);
  CHECK(flag.says("masked_fill_"));
}

TEST_CASE("a tensor and a list are unpacked into names that are known") {
  CHECK(recorded([](auto x) {
          const auto [a, b] = fxx::unpack<2>(x);
          return a - b;
        }) ==
        "getitem = operator::getitem(%x, 0)\ngetitem_1 = operator::getitem(%x, 1)\n"
        "sub = aten::sub.Tensor(%getitem, %getitem_1)\nreturn %sub\n");
  CHECK(fxx::unpack<2>(std::vector{3, 4})[1] == 4);
}

// --- values that are objects -----------------------------------------------------------------------------------------

TEST_CASE("methods by name, and a value that is called itself") {
  CHECK(recorded([](auto x) { return x.call("area", 2, "cm"); }) == "area = .area(%x, 2, 'cm')\nreturn %area\n");
  CHECK(recorded([](auto f, auto x) { return f(x, 1); }, {"f", "x"}) == "call = .__call__(%f, %x, 1)\nreturn %call\n");
}

TEST_CASE("any value may be an argument: containers of proxies, enums, None, objects that say what they are") {
  const auto given = [](auto f) {
    const std::string text = recorded([f](auto x) { return x.call("f", f(x)); });
    return text.substr(7, text.find(")\nreturn") - 7);
  };
  CHECK(given([](auto x) { return x; }) == "%x, %x");
  CHECK(given([](auto) { return true; }) == "%x, True");
  CHECK(given([](auto) { return 'a'; }) == "%x, 97");
  CHECK(given([](auto) { return std::string("it's"); }) == "%x, \"it's\"");
  CHECK(given([](auto) { return Dtype::int8; }) == "%x, torch.int8");
  CHECK(given([](auto) { return Range{0, 10, 2}; }) == "%x, range(0, 10, 2)");
  CHECK(given([](auto) { return Complex{1, -1}; }) == "%x, (1-1j)");
  CHECK(given([](auto x) { return std::vector{x, x}; }) == "%x, [%x, %x]");
  CHECK(given([](auto x) { return std::array{x, x}; }) == "%x, [%x, %x]");
  CHECK(given([](auto x) { return std::make_tuple(x, 1, "a"); }) == "%x, (%x, 1, 'a')");
  CHECK(given([](auto x) { return std::make_pair(x, std::vector<int>{1}); }) == "%x, (%x, [1])");
  CHECK(given([](auto x) { return std::map<std::string, Proxy>{{"b", x}, {"a", x}}; }) == "%x, {'a': %x, 'b': %x}");
  CHECK(given([](auto x) { return std::map<int, Proxy>{{3, x}}; }) == "%x, {3: %x}");
  CHECK(given([](auto x) {
          return std::unordered_map<std::string, std::vector<Proxy>>{{"a", {x}}};
        }) == "%x, {'a': [%x]}");
  CHECK(given([](auto x) { return std::optional<Proxy>(x); }) == "%x, %x");
  CHECK(given([](auto) { return std::optional<double>(); }) == "%x, None");
  CHECK(given([](auto) { return std::nullopt; }) == "%x, None");
  CHECK(given([](auto) { return geometry::Color::green; }) == "%x, enum('geometry::Color', 'green', 1)");
  CHECK(given([](auto) { return geometry::Far::away; }) == "%x, enum('geometry::Far', '', 100)");
  CHECK(given([](auto x) { return geometry::Box{x, 0.5}; }) == "%x, (%x, 0.5)");
  CHECK(given([](auto x) { return std::vector{geometry::Box{x, 0.5}}; }) == "%x, [(%x, 0.5)]");
}

TEST_CASE("enums and objects with fx_create_arg are results too") {
  CHECK(recorded([](auto x) { return std::make_tuple(x, geometry::Color::red); }) ==
        "return (%x, enum('geometry::Color', 'red', 0))\n");
  CHECK(recorded([](auto x) { return geometry::Box{x, 0.5}; }) == "return (%x, 0.5)\n");
}

TEST_CASE("an undefined proxy is None where a tensor may be left out, and refused where one is needed") {
  CHECK(recorded([](auto x) { return linear(x, x, Proxy()); }) ==
        "linear = aten::linear(%x, %x, None)\nreturn %linear\n");
  CHECK(recorded([](auto x) { return x.call("f", std::make_tuple(Proxy(), 1)); }) ==
        "f = .f(%x, (None, 1))\nreturn %f\n");
  CHECK(recorded([](auto x) { return std::make_tuple(x, Proxy()); }) == "return (%x, None)\n");
  CHECK(recorded([](auto x) {
          Proxy sum;
          for (const auto& y : {x, x * 2}) sum = sum.defined() ? sum + y : y;
          return sum;
        }) == "mul = aten::mul.Scalar(%x, 2)\nadd = aten::add.Tensor(%x, %mul)\nreturn %add\n");
  const auto refused = [](auto f) {
    const auto fault = fault_of<TraceError>([&] { (void)symbolic_graph(f); });
    CHECK(fault.id == 305);
    CHECK(fault.says("undefined tensor"));
  };
  refused([](Proxy x) { return x + Proxy(); });
  refused([](Proxy) { return Proxy().relu(); });
  refused([](Proxy x) { return cat(std::vector{x, Proxy()}); });
  refused([](Proxy x) { return x.view({Proxy().size(0)}); });
  refused([](Proxy) { return Proxy() += 1; });
  refused([](Proxy x) { return x.index({Proxy(), x}); });
  refused([](Proxy x) { return x.to(Proxy().device()); });
  refused([](Proxy) { return geometry::Box{Proxy(), 0.5}; });
  refused([](Proxy x) { return x.node() == Proxy().node() ? x : -x; });
}

TEST_CASE("a dictionary whose key is traced is refused") {
  const auto fault = fault_of<Error>([] {
    (void)symbolic_graph([](auto x) { return x.call("f", std::map<ScalarProxy, int>{{x.size(0), 1}}); });
  });
  CHECK(fault.id == 110);
}

TEST_CASE("keys of a traced dictionary are not known, unless the tracer knows them") {
  const auto fault = fault_of<TraceError>([] {
    (void)symbolic_graph([](auto x) {
      for (const std::string& key : x.keys()) (void)key;
      return x;
    });
  });
  CHECK(fault.id == 302);
  CHECK(fault.says("cannot be iterated"));
  struct Knowing : Tracer {
    using Tracer::Tracer;
    std::vector<std::string> keys(const ProxyBase&) override { return {"a", "b"}; }
  };
  Graph g;
  Knowing tracer(g);
  const Proxy x = tracer.placeholder("x");
  CHECK(x.keys() == std::vector<std::string>{"a", "b"});
}

// --- checks ----------------------------------------------------------------------------------------------------------

TEST_CASE("a check is recorded, of numbers and of tensors, and stays though nobody uses it") {
  CHECK(recorded([](auto x) {
          check(x.size(1) == 5, "five columns");
          fxx::check((x > 0).all(), "positive");
          return x;
        }) ==
        "size = .size(%x, 1)\neq = operator::eq(%size, 5)\n"
        "_assert_scalar = aten::_assert_scalar(%eq, 'five columns')\ngt = aten::gt.Scalar(%x, 0)\nall = .all(%gt)\n"
        "_assert_async = aten::_assert_async.msg(%all, 'positive')\nreturn %x\n");
  const Graph g = symbolic_graph([](auto x) {
    check(x.size(0) > 0, "rows");
    check(x, "any");
    return x;
  });
  std::size_t impure = 0;
  for (const Node* n : g.nodes()) impure += n->opcode() == Opcode::call_function && is_impure(*n);
  CHECK(impure == 2);
}
