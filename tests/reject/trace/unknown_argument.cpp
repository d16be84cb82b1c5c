// expect: a value of this type has no place in a graph
#include "fxx/trace/symbolic.hpp"

struct Unknown {
  int number = 0;
};
#ifdef FXX_CONTROL
[[maybe_unused]] static fxx::Argument fx_create_arg(fxx::Tracer&, const Unknown& u) { return u.number; }
#endif
[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) { return x.call("method", Unknown()); }
