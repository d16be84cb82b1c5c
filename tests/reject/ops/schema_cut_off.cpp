// expect: the schema is not of the form
#include "fxx/ops/operation.hpp"

#ifdef FXX_CONTROL
constexpr const fxx::Operator& f = fxx::op<"my::f(Tensor a) -> Tensor">;
static_assert(f.arity() == 1);
#else
constexpr const fxx::Operator& f = fxx::op<"my::f(Tensor a">;
#endif
