// expect: a kernel takes one to eight tensors, and no more than eight numbers
#include "fxx/torch/fused.hpp"

using namespace fxx::pattern;

inline constexpr auto eight = x * y * z * w * tensor<"t5"> * tensor<"t6"> * tensor<"t7"> * tensor<"t8">;
#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(eight) >> fused);
#else
inline constexpr auto r = rule<"r">(relu(eight * tensor<"t9">) >> fused);
#endif
