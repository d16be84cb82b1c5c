// ops/table.inc against LibTorch: every operator of ATen's is registered there under the same schema, letter for letter.
#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>

#include <sstream>

#include "fxx/ops/registry.hpp"

namespace {

constexpr std::string_view schemas[] = {
#define FXX_OP(function_, name_, schema_, traits_) schema_,
#include "fxx/ops/table.inc"
#undef FXX_OP
};

}  // namespace

TEST_CASE("schemas of the table are those that LibTorch registers") {
  std::size_t compared = 0;
  for (const std::string_view text : schemas) {
    const fxx::Operator& op = *fxx::find_operator(text.substr(0, text.find('(')));
    if (op.name_space() != "aten") continue;  // Python's operators and our own
    CAPTURE(std::string(text));
    const auto found = c10::Dispatcher::singleton().findSchema(
        {"aten::" + std::string(op.base_name()), std::string(op.overload_name())});
    REQUIRE(found.has_value());
    std::ostringstream registered;
    registered << found->schema();
    CHECK(registered.str() == text);
    ++compared;
  }
  CHECK(compared > 800);
}

TEST_CASE("what fxx reads from a schema is what LibTorch reads") {
  for (const std::string_view text : schemas) {
    const fxx::Operator& op = *fxx::find_operator(text.substr(0, text.find('(')));
    if (op.name_space() != "aten") continue;
    CAPTURE(std::string(text));
    const auto found = c10::Dispatcher::singleton().findSchema(
        {"aten::" + std::string(op.base_name()), std::string(op.overload_name())});
    REQUIRE(found.has_value());
    const c10::FunctionSchema& schema = found->schema();
    REQUIRE(schema.arguments().size() == op.parameters.size());
    CHECK(schema.returns().size() == op.returns.size());
    CHECK(schema.is_mutable() == op.mutates);
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      const c10::Argument& theirs = schema.arguments()[i];
      const fxx::Parameter& ours = op.parameters[i];
      CHECK(theirs.name() == ours.name);
      CHECK(theirs.kwarg_only() == ours.keyword_only);
      CHECK(theirs.default_value().has_value() == ours.has_default());
      CHECK((theirs.alias_info() && theirs.alias_info()->isWrite()) == ours.written);
      CHECK((theirs.type()->kind() == c10::TypeKind::OptionalType) == ours.type.optional);
    }
  }
}
