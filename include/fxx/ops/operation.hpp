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
  constexpr std::string_view text() const { return {schema, size}; }
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
inline constexpr SchemaSize schema_size = measure_schema(row_of(Key).text());

/// What the compiler makes of a schema.
template <std::size_t Parameters, std::size_t Returns>
struct SchemaParts {
  std::array<Parameter, Parameters> parameters{};
  std::array<Return, Returns> returns{};
  Operator op{};
  bool well_formed = false;
};
/// Its lists are set by operator_of, when they are where they stay. Not consteval, here and below: clang evaluates such
/// a call by itself, and once more with what it initialises.
template <std::size_t Parameters, std::size_t Returns>
constexpr SchemaParts<Parameters, Returns> parse_parts(const TableRow& row, const SchemaSize& size) {
  SchemaParts<Parameters, Returns> p;
  if (size.well_formed)
    p.well_formed = read_schema(row.text(), row.traits, p.parameters.data(), p.returns.data(), p.op).well_formed;
  return p;
}
template <auto Key>
inline constexpr auto schema_parts =
    parse_parts<schema_size<Key>.parameters, schema_size<Key>.returns>(row_of(Key), schema_size<Key>);

template <bool Form, bool Parts>
consteval void schema_is_well_formed() {
  static_assert(Form, "fxx::op: the schema is not of the form \"ns::name(Type arg=default, ...) -> Type\"");
  static_assert(Parts || !Form,
                "fxx::op: a parameter or a result of the schema is not of the form \"Type name=default\"");
}
template <bool Form, bool Parts, std::size_t Parameters, std::size_t Returns>
constexpr Operator operator_of(const SchemaParts<Parameters, Returns>& parts) {
  schema_is_well_formed<Form, Parts>();
  Operator op = parts.op;
  op.parameters = {parts.parameters.data(), Parameters};
  op.returns = {parts.returns.data(), Returns};
  return op;
}
/// What the compiler knows of an operator.
template <auto Key>
inline constexpr Operator parsed =
    operator_of<schema_size<Key>.well_formed, schema_parts<Key>.well_formed>(schema_parts<Key>);

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
