// expect: a parameter or a result of the schema is not of the form
#include "fxx/ops/operation.hpp"

#ifdef FXX_CONTROL
constexpr const fxx::Operator& f = fxx::op<"my::f(Tensor a, int b=1) -> Tensor">;
static_assert(f.arity() == 2);
#else
constexpr const fxx::Operator& f = fxx::op<"my::f(Tensor a, int=1) -> Tensor">;
#endif
