// The operators of ops/table.inc as constants: `graph.call_function(ops::relu, {x})`.
//
// Each is an empty object of its own type; its schema is parsed by the compiler when it is first used, and not before.
// Main names: Operation, info_of, ops::*, op<"schema">. Cost: light.
#pragma once

#include <array>

#include "fxx/ops/schema.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
template <class Tag>
inline constexpr std::string_view schema_of = {Tag::schema, sizeof(Tag::schema) - 1};
template <class Tag>
inline constexpr SchemaSize schema_size = measure_schema(schema_of<Tag>);

/// What the compiler makes of one schema.
template <class Tag>
struct SchemaParts {
  std::array<Parameter, schema_size<Tag>.parameters> parameters{};
  std::array<Return, schema_size<Tag>.returns> returns{};
  Operator op{};
  bool well_formed = false;
};
template <class Tag>
consteval SchemaParts<Tag> parse_parts() {
  SchemaParts<Tag> p;
  if constexpr (schema_size<Tag>.well_formed)
    p.well_formed = parse_schema(schema_of<Tag>, Tag::traits, p.parameters.data(), p.returns.data(), p.op);
  p.op.parameters = {};  // they point into this local; operator_of sets them
  p.op.returns = {};
  return p;
}
template <class Tag>
inline constexpr SchemaParts<Tag> schema_parts = parse_parts<Tag>();

template <class Tag>
consteval Operator operator_of() {
  static_assert(schema_size<Tag>.well_formed,
                "fxx::op: the schema is not of the form \"ns::name(Type arg=default, ...) -> Type\"");
  static_assert(schema_parts<Tag>.well_formed || !schema_size<Tag>.well_formed,
                "fxx::op: a parameter or a result of the schema is not of the form \"Type name=default\"");
  Operator op = schema_parts<Tag>.op;
  op.parameters = {schema_parts<Tag>.parameters.data(), schema_parts<Tag>.parameters.size()};
  op.returns = {schema_parts<Tag>.returns.data(), schema_parts<Tag>.returns.size()};
  return op;
}
}  // namespace detail

/// The operator of a tag, which has `schema` and `traits`; a constant with static storage.
template <class Tag>
inline constexpr Operator info_of = detail::operator_of<Tag>();

/// An operator as an object. It converts to `const Operator&`, which is what graphs take.
template <class Tag>
struct Operation {
  using tag = Tag;
  constexpr operator const Operator&() const { return info_of<Tag>; }
  static constexpr const Operator& info() { return info_of<Tag>; }
};

/// Tags of the operators in the table. Types of patterns carry them, so their names stay short.
namespace ops::tag {
using enum Trait;  // here, once: a lambda an operator costs 30 KB each
// An array: a string_view would have the compiler count the letters of every schema, half a second for all of them.
#define FXX_OP(function_, name_, schema_, traits_) \
  struct name_ {                                   \
    static constexpr char schema[] = schema_;      \
    static constexpr Trait traits = traits_;       \
  };
#include "fxx/ops/table.inc"
#undef FXX_OP
}  // namespace ops::tag

namespace ops {
#define FXX_OP(function_, name_, schema_, traits_) inline constexpr Operation<tag::name_> name_{};
#include "fxx/ops/table.inc"
#undef FXX_OP
}  // namespace ops

namespace detail {
template <fixed_string Schema, Trait Traits>
struct schema_tag {
  static constexpr auto& schema = Schema.text;
  static constexpr Trait traits = Traits;
};
}  // namespace detail

/// An operator from its schema, for those that the table does not list: `op<"my::rotate(Tensor x, float angle) ->
/// Tensor">`.
template <fixed_string Schema, Trait Traits = Trait::none>
inline constexpr Operation<detail::schema_tag<Schema, Traits>> op{};

}  // namespace fxx::inline FXX_ABI
