// expect: a value of this type has no place in a graph
#include "fxx/torch/wrap.hpp"

struct Box {
  at::Tensor corner;
};
inline const auto make_box = fxx::proxyable<"Box", Box(at::Tensor)>();
inline const auto moved = fxx::wrap<"moved">([](const Box& box, const at::Tensor& x) { return box.corner + x; });

[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) {
#ifdef FXX_CONTROL
  return moved(make_box(x), x);
#else
  return moved(Box{at::Tensor()}, x);
#endif
}
