// The light half of the library in one include: graphs, operators, rules, proxies, passes, generated code. No LibTorch.
// Cost: light; about 1 s compiled (FXX_COMPILED_LIB), 3 s header-only.
#pragma once

#include "fxx/codegen/built.hpp"
#include "fxx/codegen/module_source.hpp"
#include "fxx/codegen/readable.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/graph.hpp"
#include "fxx/ir/parse.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/trace/symbolic.hpp"
#include "fxx/version.hpp"
#include "fxx/viz/dot.hpp"
