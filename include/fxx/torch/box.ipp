// Bodies of torch/box.hpp.
#pragma once

#include "fxx/error.hpp"
#include "fxx/torch/box.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE void cannot_unbox(const c10::IValue& value, const char* where, const std::string& wanted) {
  throw RunError(ErrorId::input_mismatch, std::string(where) + ": the graph returns " + describe(value) + ", not " +
                                              wanted + "; call<R>() with what its output is, or run(), gives it");
}

FXX_INLINE const c10::IValue* find_member(const c10::IValue& dict, std::string_view name) {
  if (!dict.isGenericDict()) return nullptr;
  for (const auto& entry : dict.toGenericDict())
    if (entry.key().isString() && entry.key().toStringRef() == name) return &entry.value();
  return nullptr;
}

}  // namespace fxx::inline FXX_ABI::detail
