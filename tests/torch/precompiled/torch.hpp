// LibTorch's header, compiled once for all tests that include it: half of the time that they take the compiler. It needs
// no guard, which the compiler would complain of here.
#include <torch/torch.h>
