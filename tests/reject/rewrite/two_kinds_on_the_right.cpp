// expect: the replacement uses one name as another kind (tensor, number or list) than the pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> mul(relu6(x), tensor<"x">));
inline constexpr auto of_weight = rule<"of weight">(relu(constant<"w">) >> relu6(tensor<"w">));
inline constexpr auto of_call = rule<"of call">(neg(relu(x).as<"r">()) >> neg(abs(tensor<"r">)));
inline constexpr auto whatever = rule<"whatever">(relu(x) >> relu6(value<"x">));
inline constexpr auto of_value = rule<"of value">(add(x, value<"v">) >> sub(x, scalar<"v">));
inline constexpr auto of_rest = rule<"of rest">(cat(list(relu(x), rest<"l">), 1_c) >> stack(sequence<"l">, 1_c));
inline constexpr auto of_size = rule<"of size">(neg(sym_size(x, 0_c).as<"n">()) >> neg(sym_int<"n">));
inline constexpr auto of_parts = rule<"of parts">(getitem(split(x, 2_c, 0_c).as<"p">(), 0_c) >> cat(sequence<"p">));
#else
inline constexpr auto r = rule<"r">(relu(x) >> mul(relu6(x), scalar<"x">));
#endif
