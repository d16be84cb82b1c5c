// expect: an input cannot be bound to a tensor; trace a callable that captures the tensor
#include "fxx/trace/symbolic.hpp"

struct HostTensor {};
template <>
struct fxx::argument_traits<HostTensor> {
  static constexpr ValueType type = ValueType::tensor;
  static constexpr bool list = false;
};

[[maybe_unused]] static void f() {
  const auto add = [](auto x, const auto& y) { return x + y; };
  const HostTensor mask;
#ifdef FXX_CONTROL
  (void)fxx::symbolic_graph([&](auto x) { return add(x, mask); });
#else
  (void)fxx::symbolic_graph(add, fxx::concrete_args(fxx::PH, mask));
#endif
}
