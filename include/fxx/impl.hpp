// All function bodies of the light layers, for the one translation unit of a compiled build (FXX_COMPILED_LIB).
// Cost: about 3 s; include it once.
#pragma once

#if !defined(FXX_COMPILED_LIB)
#error \
    "fxx/impl.hpp is for compiled builds: define FXX_COMPILED_LIB everywhere, or include fxx/fxx.hpp instead"
#endif

#include "fxx/codegen/built.ipp"
#include "fxx/codegen/cpp.ipp"
#include "fxx/codegen/members.ipp"
#include "fxx/codegen/module_source.ipp"
#include "fxx/codegen/readable.ipp"
#include "fxx/codegen/types.ipp"
#include "fxx/io/file.ipp"
#include "fxx/io/safetensors.ipp"
#include "fxx/ir/argument.ipp"
#include "fxx/ir/graph.ipp"
#include "fxx/ir/parse.ipp"
#include "fxx/ir/print.ipp"
#include "fxx/ops/effects.ipp"
#include "fxx/ops/registry.ipp"
#include "fxx/passes/dead_code.ipp"
#include "fxx/passes/leaf_modules.ipp"
#include "fxx/rewrite/describe.ipp"
#include "fxx/rewrite/matcher.ipp"
#include "fxx/rewrite/rewriter.ipp"
#include "fxx/runtime/backtrace.ipp"
#include "fxx/runtime/cache.ipp"
#include "fxx/runtime/detail/elf.ipp"
#include "fxx/runtime/detail/function_names.ipp"
#include "fxx/runtime/files.ipp"
#include "fxx/runtime/library.ipp"
#include "fxx/runtime/process.ipp"
#include "fxx/runtime/toolchain.ipp"
#include "fxx/trace/proxy.ipp"
#include "fxx/trace/scope.ipp"
#include "fxx/trace/sizes.ipp"
#include "fxx/trace/symbolic.ipp"
#include "fxx/trace/tracer.ipp"
#include "fxx/viz/dot.ipp"
#include "fxx/viz/svg.ipp"
