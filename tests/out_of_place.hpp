// A tracer that refuses what writes to its operand, for the tests of either kind of tracer.
#pragma once

#include <stdexcept>

#include "fxx/trace/tracer.hpp"

namespace fxx::test {

template <class Base>
struct OutOfPlace : Base {
  Node* create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                    std::source_location where) override {
    const auto* call = std::get_if<CallFunction>(&op);
    const auto* target = call ? std::get_if<const Operator*>(&call->target) : nullptr;
    const auto* method = std::get_if<CallMethod>(&op);
    if ((target && (*target)->base_name().ends_with('_')) || (method && method->target.ends_with('_')))
      throw std::runtime_error("in place");
    return Base::create_node(std::move(op), args, kwargs, name, where);
  }
};

}  // namespace fxx::test
