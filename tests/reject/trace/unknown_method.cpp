// expect: no member named 'rellu'
#include "fxx/trace/symbolic.hpp"

[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) {
#ifdef FXX_CONTROL
  return x.relu();
#else
  return x.rellu();
#endif
}
