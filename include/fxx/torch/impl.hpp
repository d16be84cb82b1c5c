// All function bodies of the LibTorch wing, for the one translation unit of a compiled build (FXX_COMPILED_LIB).
// Cost: about 30 s and 1.4 GB; include it once.
#pragma once

#if !defined(FXX_COMPILED_LIB)
#error "fxx/torch/impl.hpp is for compiled builds: define FXX_COMPILED_LIB everywhere, or include fxx/torch.hpp instead"
#endif

#include "fxx/torch/autograd_watch.ipp"
#include "fxx/torch/box.ipp"
#include "fxx/torch/compile.ipp"
#include "fxx/torch/containers.ipp"
#include "fxx/torch/dispatch_tracer.ipp"
#include "fxx/torch/execute.ipp"
#include "fxx/torch/fake.ipp"
#include "fxx/torch/fold_constants.ipp"
#include "fxx/torch/functional.ipp"
#include "fxx/torch/graph_module.ipp"
#include "fxx/torch/interpreter.ipp"
#include "fxx/torch/leaf_modules.ipp"
#include "fxx/torch/module_owner.ipp"
#include "fxx/torch/nn.ipp"
#include "fxx/torch/plan.ipp"
#include "fxx/torch/recurrent.ipp"
#include "fxx/torch/script.ipp"
#include "fxx/torch/shape_rules.ipp"
#include "fxx/torch/symbolic_trace.ipp"
#include "fxx/torch/to_folder.ipp"
#include "fxx/torch/trace.ipp"
#include "fxx/torch/traced_constants.ipp"
#include "fxx/torch/traced_tensor.ipp"
#include "fxx/torch/training_flags.ipp"
#include "fxx/torch/unboxed.ipp"
#include "fxx/torch/values.ipp"
#include "fxx/torch/weights.ipp"
