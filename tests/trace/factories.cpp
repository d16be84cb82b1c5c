// Functions of namespace fxx that argument-dependent lookup does not find: what makes tensors, and lists in braces.
#include <doctest/doctest.h>

#include "trace/recorded.hpp"

using namespace fxx;
using test::fault_of;
using test::recorded;

TEST_CASE("sizes of an input make tensors") {
  CHECK(recorded([](auto x) {
          return fxx::zeros({x.size(0), 4});
        }) == "size = .size(%x, 0)\nzeros = aten::zeros([%size, 4])\nreturn %zeros\n");
  CHECK(recorded([](auto x) { return fxx::ones(x.size(0)); }) ==
        "size = .size(%x, 0)\nones = aten::ones([%size])\nreturn %ones\n");
  CHECK(recorded([](auto x) { return fxx::empty(x.sizes()); }) ==
        "sizes = prim::sizes(%x)\nempty = aten::empty.memory_format(%sizes)\nreturn %empty\n");
  CHECK(recorded([](auto x) {
          return fxx::full(std::vector{x.size(0), x.size(0)}, 0.5);
        }).ends_with("full = aten::full([%size, %size_1], 0.5)\nreturn %full\n"));
  CHECK(recorded([](auto x) { return fxx::arange(x.size(0)); }) ==
        "size = .size(%x, 0)\narange = aten::arange(%size)\nreturn %arange\n");
  CHECK(recorded([](auto x) { return fxx::arange(1, x.size(0)); }) ==
        "size = .size(%x, 0)\narange = aten::arange.start(1, %size)\nreturn %arange\n");
  CHECK(recorded([](auto x) { return fxx::arange(0, x.size(0), 2); }) ==
        "size = .size(%x, 0)\narange = aten::arange.start_step(0, %size, 2)\nreturn %arange\n");
  CHECK(recorded([](auto x) { return fxx::eye(x.size(0)); }) ==
        "size = .size(%x, 0)\neye = aten::eye(%size)\nreturn %eye\n");
  CHECK(recorded([](auto x) { return fxx::eye(3, x.size(0)); }) ==
        "size = .size(%x, 0)\neye = aten::eye.m(3, %size)\nreturn %eye\n");
  CHECK(recorded([](auto x) { return fxx::linspace(0, 1.5, x.size(0)); }) ==
        "size = .size(%x, 0)\nlinspace = aten::linspace(0, 1.5, %size)\nreturn %linspace\n");
  CHECK(recorded([](auto x) { return fxx::tril_indices(x.size(0), 4, -1); }) ==
        "size = .size(%x, 0)\ntril_indices = aten::tril_indices(%size, 4, -1)\nreturn %tril_indices\n");
  CHECK(recorded([](auto x) { return fxx::hann_window(x.size(0), false); }) ==
        "size = .size(%x, 0)\nhann_window = aten::hann_window.periodic(%size, False)\nreturn %hann_window\n");
}

TEST_CASE("random tensors of traced sizes are recorded, and so are drawn in every run") {
  for (const Graph& g : {symbolic_graph([](auto x) {
                           return fxx::rand({x.size(0), 2});
                         }),
                         symbolic_graph([](auto x) {
                           return fxx::randn({x.size(0), 2});
                         }),
                         symbolic_graph([](auto x) { return fxx::randint(10, {x.size(0)}); }),
                         symbolic_graph([](auto x) { return fxx::randint(5, 10, {x.size(0)}); }),
                         symbolic_graph([](auto x) { return fxx::randperm(x.size(0)); }),
                         symbolic_graph([](auto x) { return fxx::normal(0.0, 1.0, {x.size(0)}); })}) {
    const Node* made = g.output_node()->arg(0).node();
    CAPTURE(format_node(*made));
    REQUIRE(made->operation() != nullptr);
    CHECK(has(made->operation()->traits, Trait::random));
  }
}

TEST_CASE("options: a dtype or a device alone, the options of a tensor, replaced in part") {
  CHECK(recorded([](auto x) { return fxx::zeros({x.size(0)}, Dtype::int64); }) ==
        "size = .size(%x, 0)\nzeros = aten::zeros([%size], dtype=torch.int64)\nreturn %zeros\n");
  CHECK(recorded([](auto x) { return fxx::zeros({2}, x.device()); }) ==
        "device_1 = prim::device(%x)\nzeros = aten::zeros([2], device=%device_1)\nreturn %zeros\n");
  CHECK(recorded([](auto x) { return fxx::zeros({2}, x.scalar_type()); }) ==
        "dtype = prim::dtype(%x)\nzeros = aten::zeros([2], dtype=%dtype)\nreturn %zeros\n");
  CHECK(recorded([](auto x) { return fxx::zeros({2}, x.options()); }) ==
        "dtype = prim::dtype(%x)\nlayout = prim::layout(%x)\ndevice_1 = prim::device(%x)\n"
        "zeros = aten::zeros([2], dtype=%dtype, layout=%layout, device=%device_1)\nreturn %zeros\n");
  CHECK(
      recorded([](auto x) {
        return fxx::zeros({2}, x.options().dtype(Dtype::int32).device(Device{DeviceType::cpu}).layout(Layout::strided));
      }) ==
      "zeros = aten::zeros([2], dtype=torch.int32, layout=torch.strided, device=device(type='cpu'))\nreturn %zeros\n");
  CHECK(recorded([](auto x) {
          return fxx::ones({2}, x.options().dtype(Dtype::float64).requires_grad(true));
        }).ends_with("requires_grad_ = .requires_grad_(%ones, True)\nreturn %requires_grad_\n"));
  CHECK(recorded([](auto x) { return fxx::ones({2}, x.options().pinned_memory()); }).find("pin_memory=True") !=
        std::string::npos);
  // Options taken apart again.
  CHECK(recorded([](auto x) {
          const auto options = x.options().dtype(Dtype::int32);
          const auto dtype = options.dtype();  // in statements: compilers differ in the order of arguments
          const auto device = options.device();
          return std::make_tuple(dtype, device);
        }) == "identity = fxx::identity(torch.int32)\ndevice_1 = prim::device(%x)\nreturn (%identity, %device_1)\n");
}

TEST_CASE("factories like a tensor take the same options") {
  CHECK(recorded([](auto x) { return zeros_like(x, Dtype::int64); }) ==
        "zeros_like = aten::zeros_like(%x, dtype=torch.int64)\nreturn %zeros_like\n");
  CHECK(recorded([](auto x) { return empty_like(x, {}, MemoryFormat::preserve_format); }) ==
        "empty_like = aten::empty_like(%x, memory_format=torch.preserve_format)\nreturn %empty_like\n");
  CHECK(recorded([](auto x) { return full_like(x, 2, x.options().dtype(Dtype::boolean)); }).find("dtype=torch.bool") !=
        std::string::npos);
  CHECK(recorded([](auto x) { return x.new_full({x.size(0)}, 7, Dtype::int64); }) ==
        "size = .size(%x, 0)\nnew_full = .new_full(%x, [%size], 7, dtype=torch.int64)\nreturn %new_full\n");
}

TEST_CASE("what holds no proxy at all belongs to the trace that runs, and is refused outside of one") {
  CHECK(recorded([](auto x) {
          return x + fxx::zeros({2, 2});
        }) == "zeros = aten::zeros([2, 2])\nadd = aten::add.Tensor(%x, %zeros)\nreturn %add\n");
  const auto fault = fault_of<TraceError>([] { (void)fxx::zeros({2, 2}); });
  CHECK(fault.id == 308);
  CHECK(fault.says("torch::"));
}

TEST_CASE("lists of tensors in braces") {
  CHECK(recorded([](auto x) {
          return fxx::cat({x, x.relu()}, 1);
        }) == "relu = .relu(%x)\ncat = aten::cat([%x, %relu], 1)\nreturn %cat\n");
  CHECK(recorded([](auto x) { return fxx::stack({x, x}); }) == "stack = aten::stack([%x, %x])\nreturn %stack\n");
  CHECK(recorded([](auto x) {
          return fxx::einsum("ij,kj->ik", {x, x});
        }) == "einsum = aten::einsum('ij,kj->ik', [%x, %x])\nreturn %einsum\n");
  CHECK(recorded([](auto x) {
          return fxx::meshgrid({x, x}, "ij")[1];
        }) ==
        "meshgrid = aten::meshgrid.indexing([%x, %x], indexing='ij')\ngetitem = operator::getitem(%meshgrid, 1)\n"
        "return %getitem\n");
  CHECK(recorded([](auto x) { return fxx::cat(x.chunk(2)); }) ==
        "chunk = .chunk(%x, 2)\ncat = aten::cat(%chunk)\nreturn %cat\n");
}
