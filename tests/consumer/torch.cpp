// A user's program that needs LibTorch to compile, to link and to be found when it runs.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_ops.h>

#include "fxx/version.hpp"

int main() { return at::_ops::ones::call({2, 3}, {}, {}, {}, {}).numel() == 6 ? 0 : 1; }
