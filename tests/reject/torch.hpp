// What the cases of torch/ include.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include "fxx/torch/creation.hpp"
#include "fxx/torch/functional.hpp"
#include "fxx/torch/fused.hpp"
#include "fxx/torch/nn.hpp"
#include "fxx/torch/symbolic_trace.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/torch/types.hpp"
#include "fxx/torch/wrap.hpp"
