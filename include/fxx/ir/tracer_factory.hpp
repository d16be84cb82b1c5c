// How a graph was traced, so that it can be traced again in the same way. Graphs carry one; what it makes is known in
// trace/ only.
//
// Main names: TracerFactory. Cost: light. After torch.fx graph.py _tracer_cls, 2.13.
#pragma once

#include "fxx/ir/detail/shared.hpp"

namespace fxx::inline FXX_ABI {

class Tracer;

class TracerFactory : public detail::Box {
 public:
  virtual ~TracerFactory() = default;
  /// A tracer with the settings of the one that traced.
  virtual detail::Shared<Tracer> make() const = 0;
};

}  // namespace fxx::inline FXX_ABI
