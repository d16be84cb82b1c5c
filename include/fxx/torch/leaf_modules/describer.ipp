// What describes a module of torch::nn: its operator, what that is given, and the text that constructs it.
#pragma once

#include <torch/nn/modules.h>

#include <algorithm>

#include "fxx/codegen/cpp.hpp"
#include "fxx/error.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/leaf_modules.hpp"

namespace fxx::inline FXX_ABI::detail::leaf {

using namespace torch::nn;  // the types of this namespace are LibTorch's
namespace enumtype = torch::enumtype;

/// Fills a ModuleInfo: the operator with its parts, and the constructor's text.
class Describer {
 public:
  /// Not `whole`: only asks for the names of the tensors, and keeps nothing.
  Describer(ModuleInfo& info, const TensorNames& names, bool whole = true)
      : info_(info), names_(names), whole_(whole) {}

  // --- the operator --------------------------------------------------------------------------------------------------
  Describer& operation(OperatorIndex index) {
    info_.operation = &table_operator(index);
    return *this;
  }
  Describer& input() { return part({.kind = ModuleInfo::Part::Kind::input}); }
  Describer& training() { return part({.kind = ModuleInfo::Part::Kind::training}); }
  Describer& constant(Argument value) {
    return part({.kind = ModuleInfo::Part::Kind::constant, .constant = std::move(value)});
  }
  Describer& tensor(const at::Tensor& value) {
    if (!value.defined()) return constant({});
    return part({.kind = ModuleInfo::Part::Kind::attribute, .attribute = names_(value)});
  }
  /// A call adds one to this tensor besides.
  Describer& counts(const at::Tensor& value) {
    if (value.defined()) info_.counter = names_(value);
    return *this;
  }
  /// More than one operator after all.
  Describer& no_operation() {
    info_.operation = nullptr;
    info_.parts.clear();
    return *this;
  }

  // --- the constructor -----------------------------------------------------------------------------------------------
  template <class... A>
  Describer& construct(const char* options, const A&... arguments) {
    if (!whole_) return *this;
    std::string list;
    ((list += (list.empty() ? "" : ", ") + text(arguments)), ...);
    info_.construct = options[0] ? std::string(options) + "(" + list + ")" : list;
    return *this;
  }
  /// Options that have no text: tensors, functions.
  Describer& unknown(bool when = true) {
    info_.construct_unknown = when;
    return *this;
  }
  Describer& result(const char* type) {
    info_.result = type;
    return *this;
  }
  /// `.name(value)`, when it is not the default.
  template <class T, class D>
  Describer& with(const char* name, const T& value, const D& standard) {
    if (whole_ && text(value) != text(standard)) info_.construct += std::string(".") + name + "(" + text(value) + ")";
    return *this;
  }

  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::string text(double value) { return cpp_double(value); }
  template <std::integral T>
  static std::string text(T value) {
    return cpp_integer(static_cast<std::int64_t>(value));
  }
  static std::string text(const char* value) { return value; }
  static std::string text(const std::string& value) { return value; }
  static std::string text(const std::vector<double>& values) {
    std::string list;
    for (double v : values) list += (list.empty() ? "" : ", ") + text(v);
    return "{" + list + "}";
  }
  static std::string text(const std::vector<std::int64_t>& values) {
    std::string list;
    for (std::int64_t v : values) list += (list.empty() ? "" : ", ") + text(v);
    return "{" + list + "}";
  }
  template <std::size_t D, class T>
  static std::string text(const torch::ExpandingArray<D, T>& values) {
    bool same = true;
    for (std::size_t i = 1; i < D; ++i) same = same && (*values)[i] == (*values)[0];
    return same ? text((*values)[0]) : text(std::vector<std::int64_t>((*values).begin(), (*values).end()));
  }
  template <class T>
  static std::string text(const std::optional<T>& value) {
    return value ? text(*value) : "std::nullopt";
  }

 private:
  Describer& part(ModuleInfo::Part p) {
    if (whole_) info_.parts.push_back(std::move(p));
    return *this;
  }
  ModuleInfo& info_;
  const TensorNames& names_;
  bool whole_;
};

template <std::size_t D, class T>
Argument to_list_argument(const torch::ExpandingArray<D, T>& values) {
  return Argument::list({(*values).begin(), (*values).end()});
}

/// "torch::kNearest".
FXX_INLINE std::string enumerator(const auto& value) { return "torch::" + enumtype::get_enum_name(value); }

}  // namespace fxx::inline FXX_ABI::detail::leaf
