// ops/table.inc: every line is a schema, named as it should be, and the same in the constants as in the registry.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

using namespace fxx;

namespace {

struct Line {
  std::string_view function, constant;
  const Operator& op;
};

const std::vector<Line>& table() {
  static const std::vector<Line> lines = {
#define FXX_OP(function_, name_, schema_, traits_) {#function_, #name_, ops::name_.info()},
#include "fxx/ops/table.inc"
#undef FXX_OP
  };
  return lines;
}

}  // namespace

TEST_CASE("no operator stands in the table twice") {
  std::set<std::string_view> names, schemas;
  std::set<std::uint64_t> ids;
  for (const Line& line : table()) {
    CAPTURE(line.constant);
    CHECK(names.insert(line.op.name).second);
    CHECK(schemas.insert(line.op.schema).second);
    CHECK(ids.insert(line.op.id).second);
    CHECK(line.op.id != 0);
  }
  CHECK(names.size() > 800);
}

TEST_CASE("constants are named after name and overload, functions after the name") {
  for (const Line& line : table()) {
    CAPTURE(line.op.name);
    std::string name(line.op.base_name());
    CHECK(line.function == name);
    if (!line.op.overload_name().empty()) name += "_" + std::string(line.op.overload_name());
    if (line.op.name_space() != "aten") name = std::string(line.op.name_space()) + "_" + name;
    CHECK(line.constant == name);
  }
}

TEST_CASE("the registry has every line as the compiler made it") {
  for (const Line& line : table()) {
    CAPTURE(line.op.name);
    const Operator* known = find_operator(line.op.name);
    REQUIRE(known != nullptr);
    CHECK(*known == line.op);
    CHECK(known->schema == line.op.schema);
    CHECK(known->traits == line.op.traits);
    CHECK(known->required == line.op.required);
    CHECK(known->positional == line.op.positional);
    CHECK(known->mutates == line.op.mutates);
    CHECK(known->aliases == line.op.aliases);
    REQUIRE(known->parameters.size() == line.op.parameters.size());
    for (std::size_t i = 0; i < known->parameters.size(); ++i) {
      const Parameter &a = known->parameters[i], &b = line.op.parameters[i];
      CHECK(a.name == b.name);
      CHECK(a.type == b.type);
      CHECK(a.keyword_only == b.keyword_only);
      CHECK(a.written == b.written);
      CHECK(a.alias == b.alias);
      CHECK(a.default_text == b.default_text);
      CHECK(a.standard.kind == b.standard.kind);
    }
    REQUIRE(known->returns.size() == line.op.returns.size());
    for (std::size_t i = 0; i < known->returns.size(); ++i) CHECK(known->returns[i].type == line.op.returns[i].type);
    CHECK(&table_operator(static_cast<OperatorIndex>(&line - table().data())) == known);
  }
}

TEST_CASE("every default is understood") {
  for (const Line& line : table())
    for (const Parameter& p : line.op.parameters) {
      CAPTURE(line.op.schema);
      CAPTURE(p.name);
      CHECK(p.standard.kind != Literal::Kind::other);
      CHECK(p.has_default() == !p.default_text.empty());
    }
}

TEST_CASE("every parameter and result has a type that is known, but for containers of anything") {
  for (const Line& line : table()) {
    if (line.op.name == "operator::getitem" || line.op.name_space() == "fxx") continue;
    CAPTURE(line.op.schema);
    for (const Parameter& p : line.op.parameters) CHECK(p.type.base != ValueType::other);
    for (const Return& r : line.op.returns) CHECK(r.type.base != ValueType::other);
  }
}

TEST_CASE("names tell what is written: a trailing underscore mutates self, and nothing else does") {
  for (const Line& line : table()) {
    CAPTURE(line.op.schema);
    const bool in_place = line.op.base_name().ends_with('_') && !line.op.base_name().ends_with("__");
    CHECK(line.op.mutates == in_place);
    if (in_place) {
      CHECK(line.op.parameters[0].written);
      CHECK(line.op.aliases);
    }
  }
}

TEST_CASE("a commutative operator has two parameters of one type in front") {
  for (const Line& line : table()) {
    if (!has(line.op.traits, Trait::commutative)) continue;
    CAPTURE(line.op.schema);
    REQUIRE(line.op.arity() >= 2);
    CHECK(line.op.parameters[0].type == line.op.parameters[1].type);
    CHECK_FALSE(line.op.mutates);
  }
}

TEST_CASE("an in-place operator has its functional twin in the table") {
  std::set<std::string_view> names;
  for (const Line& line : table()) names.insert(line.op.base_name());
  // Those that only fill: there is nothing to compute from.
  const std::set<std::string_view> alone = {
      "fill_",        "zero_",         "copy_",   "uniform_",       "random_",
      "exponential_", "geometric_",    "cauchy_", "normal_",        "log_normal_",
      "detach_",      "resize_",       "set_",    "requires_grad_", "embedding_renorm_",
      "resize_as_",   "fill_diagonal_"};
  for (const Line& line : table()) {
    if (!line.op.mutates || alone.contains(line.op.base_name())) continue;
    std::string_view twin = line.op.base_name();
    twin.remove_suffix(1);
    CAPTURE(line.op.name);
    CHECK(names.contains(twin));
  }
}
