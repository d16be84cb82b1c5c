// How the library is built: header-only, or its function bodies compiled once.
//
// Header-only is the default: every `x.hpp` ends by including `x.ipp`, whose functions are inline. With
// FXX_COMPILED_LIB defined, the bodies are left out; one translation unit includes <fxx/impl.hpp> (and one
// <fxx/torch/impl.hpp> when the LibTorch wing is used), and everything links against it.
// The mode and the version are part of the namespace, so mixing two of them fails when linking, not when running.
// Cost: light.
#pragma once

#include "fxx/version.hpp"

#if defined(FXX_COMPILED_LIB)
#define FXX_INLINE
#define FXX_ABI v0_1_lib
#else
#define FXX_HEADER_ONLY 1
#define FXX_INLINE inline
#define FXX_ABI v0_1
#endif

namespace fxx::inline FXX_ABI {}
