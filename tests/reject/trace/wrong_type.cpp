// expect: Proxy::view(std:: | no matching member function for call to 'view'
#include <string>

#include "fxx/trace/symbolic.hpp"

[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) {
#ifdef FXX_CONTROL
  return x.view({2, x.size(0)});
#else
  return x.view(std::string("2"));
#endif
}
