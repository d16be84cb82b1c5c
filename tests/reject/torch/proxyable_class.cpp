// expect: the type is not of the form Class(Argument, ...)
#include "fxx/torch/wrap.hpp"

struct Box {
  at::Tensor corner;
  explicit Box(at::Tensor c) : corner(std::move(c)) {}
};
#ifdef FXX_CONTROL
inline const auto box = fxx::proxyable<"Box", Box(at::Tensor)>();
#else
inline const auto box = fxx::proxyable<"Box", Box>();
#endif
