// Indices as LibTorch writes them, of tensors and of proxies: `using namespace fxx::indexing;` in place of
// torch::indexing.
//
// `x.index({Slice(1, n), None, "..."})`, `x.index_put_({Slice(), i}, 0)` then mean the same for both. torch::indexing's
// own types work with proxies too; only a slice whose ends are traced (`n = x.size(0)`) needs the Slice of this header.
// Main names: indexing::Slice, None, Ellipsis. Cost: heavy (ATen/TensorIndexing.h).
#pragma once

#include <ATen/TensorIndexing.h>

#include "fxx/torch/types.hpp"
#include "fxx/trace/proxy.hpp"
#include "fxx/trace/tracer.hpp"

namespace fxx::inline FXX_ABI {

template <>
struct argument_traits<at::indexing::Slice> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  /// Ends that were left out are None.
  static Argument convert(const at::indexing::Slice& slice) {
    const auto end = [](const c10::SymInt& value, std::int64_t left_out) {
      const std::int64_t known = value.guard_int(__FILE__, __LINE__);
      return known == left_out ? Argument() : Argument(known);
    };
    const Argument step = end(slice.step(), 1);
    const bool back = step.kind() == Argument::Kind::integer && step.integer() < 0;
    return fxx::Slice{end(slice.start(), back ? at::indexing::INDEX_MAX : 0),
                      end(slice.stop(), back ? at::indexing::INDEX_MIN : at::indexing::INDEX_MAX), step};
  }
};
template <>
struct argument_traits<at::indexing::EllipsisIndexType> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  static Argument convert(at::indexing::EllipsisIndexType) { return Ellipsis{}; }
};
template <>
struct argument_traits<at::indexing::TensorIndex> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  template <class F>
  static void visit(const at::indexing::TensorIndex& index, F&& f) {
    if (index.is_tensor()) f(index.tensor());
    else if (index.is_slice()) f(index.slice());
    else if (index.is_boolean()) f(index.boolean());
    else if (index.is_integer()) f(index.integer().guard_int(__FILE__, __LINE__));
    else if (index.is_ellipsis()) f(at::indexing::Ellipsis);
    else f(Argument());
  }
};

namespace indexing {

using at::indexing::Ellipsis;
using at::indexing::None;

/// A slice, for tensors and for proxies; its ends may be traced numbers.
struct Slice : fxx::Slice {
  Slice() = default;
  template <class Start, class Stop = std::nullopt_t, class Step = std::nullopt_t>
  explicit Slice(const Start& from, const Stop& to = std::nullopt, const Step& by = std::nullopt)
      : fxx::Slice{Argument(from), Argument(to), Argument(by)} {}
  /// For an index of a tensor. Throws TraceError (E305) when an end is traced, which a tensor has no place for.
  operator at::indexing::TensorIndex() const {
    const auto end = [](const Argument& value) {
      if (value.is_node())
        throw TraceError(ErrorId::unsupported_argument,
                         "indexing::Slice: a traced number cuts a tensor of C++, which takes numbers only; make it a "
                         "value of the trace, T(tensor).index({...}) with T the type of x",
                         Tracer::context(value.node()));
      return value.is_none() ? std::optional<c10::SymInt>() : std::optional(c10::SymInt(value.integer()));
    };
    return at::indexing::Slice(end(start), end(stop), end(step));
  }
};

}  // namespace indexing

template <>
struct argument_traits<indexing::Slice> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  static Argument convert(const indexing::Slice& slice) { return fxx::Slice(slice); }
};

}  // namespace fxx::inline FXX_ABI
