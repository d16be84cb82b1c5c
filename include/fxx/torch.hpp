// Everything in one include, with LibTorch: `#include <fxx/torch.hpp>`.
// Cost: heavy; about 20 s, as LibTorch's own torch/torch.h.
#pragma once

#include "fxx/fxx.hpp"
#include "fxx/io/safetensors.hpp"
#include "fxx/torch/compile.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/containers.hpp"
#include "fxx/torch/creation.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/functional.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/indexing.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/nn.hpp"
#include "fxx/torch/script.hpp"
#include "fxx/torch/symbolic_trace.hpp"
#include "fxx/torch/to_folder.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/torch/weights.hpp"
#include "fxx/torch/wrap.hpp"
#include "fxx/trace/math.hpp"
#include "fxx/viz/svg.hpp"
