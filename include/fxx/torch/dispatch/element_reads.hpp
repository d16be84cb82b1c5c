// Which results of an operator depend on the elements of which arguments, and not on their sizes and dtypes alone.
//
// Main names: detail::ElementReads. Cost: includes "fxx/ir/op.hpp"; an operator's class is looked up once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "fxx/ir/op.hpp"

namespace fxx::inline FXX_ABI::detail {

class ElementReads {
 public:
  /// The results, as bits, that elements of the argument reach. `sized_by_elements`: elements decide its sizes, which
  /// then count where a result has them.
  std::uint32_t results_that_read(const Operator& op, std::size_t argument, bool sized_by_elements);
  /// Whether the operator gives a list of tensors, each of which has the elements of the tensors at its own place of the
  /// lists that are given.
  bool each_by_itself(const Operator& op);

 private:
  /// An argument of which the operator reads less than all.
  struct Less {
    int argument = -1;  // -1: there is none
    std::uint32_t results = ~0u;
    bool sizes = true;  // it reads sizes, and not dtype and device alone
    bool each_by_itself = false;
  };
  static Less less_of(const Operator& op);
  const Less& known(const Operator& op);

  std::unordered_map<const Operator*, Less> known_;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/element_reads.ipp"
#endif
