// The operators of ops/table.inc as constants: `graph.call_function(ops::relu, {x})`.
//
// All are of one type, which holds a number: a type each took the compiler five times the memory. A schema is parsed by
// the compiler where a pattern uses the operator, and not before.
// Main names: Operation, info_of, ops::*, op<"schema">. Cost: light.
#pragma once

#include <array>

#include "fxx/ops/operator_index.hpp"
#include "fxx/ops/schema.hpp"

namespace fxx::inline FXX_ABI {

/// An operator of the table. It converts to `const Operator&`, which is what graphs take.
struct Operation {
  OperatorIndex index;
  operator const Operator&() const { return table_operator(index); }
  const Operator& info() const { return table_operator(index); }
};
namespace ops {
#define FXX_OP(function_, name_, schema_, traits_) inline constexpr Operation name_{OperatorIndex::name_};
#include "fxx/ops/table.inc"
#undef FXX_OP
}  // namespace ops

namespace detail {
struct TableRow {
  const char* schema;  // with its size, which the compiler would count letter by letter
  std::uint16_t size;
  Trait traits;
};
namespace table {
using enum Trait;
inline constexpr TableRow rows[] = {
#define FXX_OP(function_, name_, schema_, traits_) {schema_, sizeof(schema_) - 1, traits_},
#include "fxx/ops/table.inc"
#undef FXX_OP
};
}  // namespace table
constexpr const TableRow& row_of(OperatorIndex index) { return table::rows[static_cast<std::size_t>(index)]; }

// `Key` is an OperatorIndex, or an object of OperationOf.
template <auto Key>
inline constexpr TableRow row = row_of(Key);
template <auto Key>
inline constexpr std::string_view schema_of = {row<Key>.schema, row<Key>.size};
template <auto Key>
inline constexpr SchemaSize schema_size = measure_schema(schema_of<Key>);

/// What the compiler makes of one schema.
template <auto Key>
struct SchemaParts {
  std::array<Parameter, schema_size<Key>.parameters> parameters{};
  std::array<Return, schema_size<Key>.returns> returns{};
  Operator op{};
  bool well_formed = false;
};
template <auto Key>
consteval SchemaParts<Key> parse_parts() {
  SchemaParts<Key> p;
  if constexpr (schema_size<Key>.well_formed)
    p.well_formed = parse_schema(schema_of<Key>, row<Key>.traits, p.parameters.data(), p.returns.data(), p.op);
  p.op.parameters = {};  // they point into this local; operator_of sets them
  p.op.returns = {};
  return p;
}
template <auto Key>
inline constexpr SchemaParts<Key> schema_parts = parse_parts<Key>();

template <auto Key>
consteval Operator operator_of() {
  static_assert(schema_size<Key>.well_formed,
                "fxx::op: the schema is not of the form \"ns::name(Type arg=default, ...) -> Type\"");
  static_assert(schema_parts<Key>.well_formed || !schema_size<Key>.well_formed,
                "fxx::op: a parameter or a result of the schema is not of the form \"Type name=default\"");
  Operator op = schema_parts<Key>.op;
  op.parameters = {schema_parts<Key>.parameters.data(), schema_parts<Key>.parameters.size()};
  op.returns = {schema_parts<Key>.returns.data(), schema_parts<Key>.returns.size()};
  return op;
}
/// What the compiler knows of an operator.
template <auto Key>
inline constexpr Operator parsed = operator_of<Key>();

/// An operator from its schema, as an object that is a template argument too.
template <fixed_string Schema, Trait Traits>
struct OperationOf {
  constexpr operator const Operator&() const { return parsed<OperationOf{}>; }
  constexpr const Operator& info() const { return parsed<OperationOf{}>; }
};
template <fixed_string Schema, Trait Traits>
constexpr TableRow row_of(OperationOf<Schema, Traits>) {
  return {Schema.text, static_cast<std::uint16_t>(Schema.view().size()), Traits};
}

constexpr OperatorIndex key_of(Operation op) { return op.index; }
template <fixed_string Schema, Trait Traits>
constexpr OperationOf<Schema, Traits> key_of(OperationOf<Schema, Traits> op) {
  return op;
}
template <class T>
inline constexpr bool is_operation = false;
template <>
inline constexpr bool is_operation<Operation> = true;
template <fixed_string Schema, Trait Traits>
inline constexpr bool is_operation<OperationOf<Schema, Traits>> = true;
}  // namespace detail

/// An operator as a template argument: `ops::relu`, or `op<"...">`.
template <auto Op>
concept AnOperation = detail::is_operation<std::remove_const_t<decltype(Op)>>;

/// What the compiler knows of an operator, a constant with static storage: `info_of<ops::relu>.arity()`.
template <auto Op>
  requires AnOperation<Op>
inline constexpr const Operator& info_of = detail::parsed<detail::key_of(Op)>;

/// An operator from its schema, for those that the table does not list: `op<"my::rotate(Tensor x, float angle) ->
/// Tensor">`.
template <fixed_string Schema, Trait Traits = Trait::none>
inline constexpr detail::OperationOf<Schema, Traits> op{};

}  // namespace fxx::inline FXX_ABI
