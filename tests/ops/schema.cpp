// ops/schema.hpp: schemas and literals taken apart, at compile time and while running.
#include "fxx/ops/schema.hpp"

#include <doctest/doctest.h>

#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using Kind = Literal::Kind;

namespace {

/// A schema with the room that its parts need. The text is copied to a block of its exact size, so that the sanitized
/// build sees a step beyond it.
struct Parsed {
  explicit Parsed(std::string_view schema, Trait traits = Trait::none)
      : size(schema.size()), text(new char[schema.size()]) {
    std::memcpy(text.get(), schema.data(), size);
    const std::string_view exact(text.get(), size);
    const SchemaSize measured = measure_schema(exact);
    well_formed = measured.well_formed;
    if (!well_formed) return;
    parameters.resize(measured.parameters);
    returns.resize(measured.returns);
    well_formed = parse_schema(exact, traits, parameters.data(), returns.data(), op);
  }
  std::size_t size;
  std::unique_ptr<char[]> text;
  std::vector<Parameter> parameters;
  std::vector<Return> returns;
  Operator op;
  bool well_formed = false;
};

Type type_of(const std::string& text) {
  const Parsed p("t::f(" + text + " x) -> ()");
  REQUIRE(p.well_formed);
  return p.op.parameters[0].type;
}

constexpr Parameter first_parameter(std::string_view schema) {
  Parameter parameters[4];
  Return returns[4];
  Operator op;
  return measure_schema(schema).well_formed && parse_schema(schema, Trait::none, parameters, returns, op)
             ? parameters[0]
             : Parameter{};
}

}  // namespace

TEST_CASE("a schema is taken apart") {
  const Parsed p(
      "my::conv.overload(Tensor(a!) self, Tensor? bias=None, SymInt[2] stride=[1, 2], *, Scalar alpha=1, str mode=\"a, "
      "b) -> c\") -> "
      "(Tensor(a!), Tensor[] rest)",
      Trait::random);
  REQUIRE(p.well_formed);
  const Operator& op = p.op;
  CHECK(op.name == "my::conv.overload");
  CHECK(op.id == hash_of("my::conv.overload"));
  CHECK(op.name_space() == "my");
  CHECK(op.base_name() == "conv");
  CHECK(op.overload_name() == "overload");
  CHECK(op.schema.size() == p.size);
  CHECK(op.arity() == 5);
  CHECK(op.required == 1);
  CHECK(op.positional == 3);
  CHECK(op.traits == Trait::random);
  CHECK(op.mutates);
  CHECK(op.aliases);
  CHECK_FALSE(op.pure());
  CHECK(op.index_of("stride") == 2);
  CHECK(op.index_of("nothing") == -1);

  CHECK(op.parameters[0].name == "self");
  CHECK(op.parameters[0].written);
  CHECK(op.parameters[0].alias == 'a');
  CHECK_FALSE(op.parameters[0].has_default());
  CHECK(op.parameters[1].type == Type{.base = ValueType::tensor, .optional = true});
  CHECK(op.parameters[1].standard.kind == Kind::none);
  CHECK(op.parameters[2].type == Type{.base = ValueType::integer, .list = true, .symbolic = true, .list_size = 2});
  CHECK(op.parameters[2].default_text == "[1, 2]");
  CHECK(op.parameters[2].standard.count == 2);
  CHECK_FALSE(op.parameters[2].keyword_only);
  CHECK(op.parameters[3].keyword_only);
  CHECK(op.parameters[3].standard == Literal::of(1));
  CHECK(op.parameters[4].standard == Literal::of(std::string_view("a, b) -> c")));

  REQUIRE(op.returns.size() == 2);
  CHECK(op.returns[0].written);
  CHECK(op.returns[1].name == "rest");
  CHECK(op.returns[1].type == Type{.base = ValueType::tensor, .list = true});
}

TEST_CASE("every type of a schema is told apart") {
  CHECK(type_of("Tensor") == Type{.base = ValueType::tensor});
  CHECK(type_of("Tensor?") == Type{.base = ValueType::tensor, .optional = true});
  CHECK(type_of("Tensor[]") == Type{.base = ValueType::tensor, .list = true});
  CHECK(type_of("Tensor?[]") == Type{.base = ValueType::tensor, .list = true, .optional_items = true});
  CHECK(type_of("Tensor[]?") == Type{.base = ValueType::tensor, .list = true, .optional = true});
  CHECK(type_of("int[2]?") == Type{.base = ValueType::integer, .list = true, .optional = true, .list_size = 2});
  CHECK(type_of("SymInt[1]") == Type{.base = ValueType::integer, .list = true, .symbolic = true, .list_size = 1});
  CHECK(type_of("Scalar") == Type{.base = ValueType::scalar});
  CHECK(type_of("float") == Type{.base = ValueType::real});
  CHECK(type_of("bool[3]") == Type{.base = ValueType::boolean, .list = true, .list_size = 3});
  CHECK(type_of("str?") == Type{.base = ValueType::string, .optional = true});
  CHECK(type_of("ScalarType") == Type{.base = ValueType::dtype});
  CHECK(type_of("Layout") == Type{.base = ValueType::layout});
  CHECK(type_of("MemoryFormat") == Type{.base = ValueType::memory_format});
  CHECK(type_of("Device") == Type{.base = ValueType::device});
  CHECK(type_of("Generator?") == Type{.base = ValueType::generator, .optional = true});
  CHECK(type_of("Any").base == ValueType::other);
  CHECK(type_of("Stream").base == ValueType::other);
  CHECK(type_of("Tensor(a -> *)") == Type{.base = ValueType::tensor});
}

TEST_CASE("schemas are parsed by the compiler") {
  static_assert(measure_schema("a::b(Tensor x, *, int y=3) -> (Tensor, int)").parameters == 2);
  static_assert(measure_schema("a::b(Tensor x, *, int y=3) -> (Tensor, int)").returns == 2);
  static_assert(measure_schema("a::b() -> ()").well_formed);
  static_assert(measure_schema("a::b() -> ()").returns == 0);
  static_assert(first_parameter("a::b(Tensor(a!)? self=None) -> ()").written);
  static_assert(first_parameter("a::b(float eps=1e-05) -> ()").standard.real == 1e-05);
  static_assert(first_parameter("a::b(int[2] stride=[1, 1]) -> ()").standard.items[1] == 1);
}

TEST_CASE("purity and aliasing follow from the schema and the traits") {
  CHECK(Parsed("t::f(Tensor a) -> Tensor").op.pure());
  CHECK(Parsed("t::f(Tensor a) -> Tensor", Trait::random).op.pure());
  CHECK_FALSE(Parsed("t::f(Tensor a) -> Tensor", Trait::impure).op.pure());
  CHECK_FALSE(Parsed("t::f(Tensor(a!) a) -> Tensor(a!)").op.pure());
  CHECK_FALSE(Parsed("t::f(Tensor a, *, Tensor(a!) out) -> Tensor(a!)").op.pure());
  CHECK(Parsed("t::f(Tensor(a) a) -> Tensor(a)").op.aliases);
  CHECK(Parsed("t::f(Tensor(a) a) -> Tensor(a)").op.pure());
  CHECK_FALSE(Parsed("t::f(Tensor a) -> Tensor").op.aliases);
  CHECK(Parsed("t::f(Tensor(a -> *) a) -> Tensor(a)[]").op.aliases);
  CHECK(Parsed("t::f(Tensor(a) a) -> (Tensor, Tensor(a) b)").op.aliases);
}

TEST_CASE("texts that are no schema are refused") {
  for (const std::string text : {"",
                                 "f",
                                 "a::b",
                                 "a::b(",
                                 "a::b()",
                                 "a::b() ->",
                                 "a::b() -> ",
                                 "a::b) -> ()",
                                 "(",
                                 "()",
                                 "::",
                                 "a::",
                                 "::b() -> ()",
                                 "b() -> ()",
                                 "a::() -> ()",
                                 "a::b(Tensor) -> Tensor",
                                 "a::b(Tensor x, ) -> Tensor",
                                 "a::b(Tensor x y) -> Tensor",
                                 "a::b(Tensor x Tensor y) -> Tensor",
                                 "a::b(Tensor( x) -> Tensor",
                                 "a::b(int[ x) -> Tensor",
                                 "a::b(int[z] x) -> Tensor",
                                 "a::b(Tensor x-y) -> Tensor",
                                 "a::b(Tensor x) - Tensor",
                                 "a::b(Tensor x)-> Tensor",
                                 "a::b(=3) -> Tensor",
                                 "a::b(, Tensor x) -> Tensor"}) {
    CAPTURE(text);
    CHECK_FALSE(Parsed(text).well_formed);
  }
  const std::string whole = "my::f(Tensor(a!) self, SymInt[2] stride=[1, 2], *, str mode=\"a, b\") -> Tensor(a!)";
  CHECK(Parsed(whole).well_formed);
  for (std::size_t size = 0; size < whole.find("-> ") + 4; ++size) {
    CAPTURE(size);
    CHECK_FALSE(Parsed(whole.substr(0, size)).well_formed);
  }
}

TEST_CASE("one result may have a name without brackets") {
  const Parsed named("a::b(Tensor x) -> Tensor(a!) Y");
  REQUIRE(named.well_formed);
  REQUIRE(named.op.returns.size() == 1);
  CHECK(named.op.returns[0].name == "Y");
  CHECK(named.op.returns[0].type == Type{.base = ValueType::tensor});
  CHECK(named.op.returns[0].written);
}

TEST_CASE("results that are none are refused") {
  for (const std::string text :
       {"a::b(Tensor x) -> (", "a::b(Tensor x) -> (Tensor", "a::b(Tensor x) -> (Tensor,", "a::b(Tensor x) -> (Tensor, ",
        "a::b(Tensor x) -> Tensor,", "a::b(Tensor x) -> Tensor a b", "a::b(Tensor x) -> Tensor ",
        "a::b(Tensor x) -> (Tensor, )", "a::b(Tensor x) -> (Tensor) x", "a::b(Tensor x) -> (Tensor]",
        "a::b(Tensor x) -> (Tensor a b)", "!::b() -> ()", "a b::c() -> ()"}) {
    CAPTURE(text);
    CHECK(test::holds_in_child([&] { return !Parsed(text).well_formed; }));
  }
}

TEST_CASE("a closing bracket that nothing opened is refused") {
  CHECK(test::holds_in_child([] {
    alarm(10);  // it takes no time, or for ever
    return !Parsed("a::b(Tensor x] -> Tensor").well_formed;
  }));
}

TEST_CASE("as many results are written as were measured") {
  std::vector<Parameter> parameters(8);
  std::vector<Return> returns(8);
  Operator op;
  const std::string_view text = "a::f() -> (Tensor(\"!), Tensor b)";
  const SchemaSize size = measure_schema(text);
  if (size.well_formed && parse_schema(text, Trait::none, parameters.data(), returns.data(), op))
    CHECK(op.returns.size() == size.returns);
}

TEST_CASE("changed schemas are read or refused, within their text") {
  CHECK(test::holds_in_child([] {
    alarm(60);
    test::Random random(41);
    const std::string schemas[] = {
        "my::f(Tensor(a!) self, SymInt[2] stride=[1, 2], *, str mode=\"a, b\") -> (Tensor(a!), Tensor? b)",
        "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1]) -> Tensor",
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", "a::b() -> ()"};
    const std::string_view tokens[] = {"(", ")",  "[", "]",  ",",    " ",      "=", "?", "!",  "\"", "'",
                                       ":", "::", "*", "->", " -> ", "Tensor", "9", "a", ")(", "()"};
    int accepted = 0;
    const int rounds = test::repeats(100000, 30000);
    for (int i = 0; i < rounds; ++i) {
      std::string text = schemas[random.below(std::size(schemas))];
      for (std::size_t changes = 1 + random.below(3); changes > 0; --changes) {
        const std::size_t at = random.below(text.size() + 1);
        switch (random.below(4)) {
          case 0: text.erase(at, random.below(5)); break;
          case 1: text.insert(at, tokens[random.below(std::size(tokens))]); break;
          case 2: text.resize(at); break;
          default:
            if (at < text.size()) text[at] = static_cast<char>(random.next());
        }
      }
      accepted += Parsed(text).well_formed;
    }
    return accepted > rounds / 50 && accepted < rounds - rounds / 50;
  }));
}

TEST_CASE("literals are read") {
  static_assert(parse_literal("None").kind == Kind::none);
  static_assert(parse_literal("True") == Literal::of(true));
  static_assert(parse_literal("False") == Literal::of(false));
  static_assert(parse_literal("3") == Literal::of(3));
  static_assert(parse_literal("-17") == Literal::of(-17));
  static_assert(parse_literal("0.5").real == 0.5);
  static_assert(parse_literal("1.").kind == Kind::real);
  static_assert(parse_literal("1e-05").real == 1e-05);
  static_assert(parse_literal("-1.5e-3").real == -1.5e-3);
  static_assert(parse_literal("1e10").real == 1e10);
  static_assert(parse_literal("2E+3").real == 2000.0);
  static_assert(parse_literal("\"none\"").string == "none");
  static_assert(parse_literal("'a'").string == "a");
  static_assert(parse_literal("\"\"").kind == Kind::string);
  static_assert(parse_literal("[]").kind == Kind::integers && parse_literal("[]").count == 0);
  static_assert(parse_literal("[0, -1]").count == 2 && parse_literal("[0, -1]").items[1] == -1);
  static_assert(parse_literal("[1,2,3,4]").count == 4);
  for (const std::string text : {"",
                                 "-",
                                 "+",
                                 "abc",
                                 "contiguous_format",
                                 "[1, 2, 3, 4, 5]",
                                 "[1.5]",
                                 "[a]",
                                 "[1",
                                 "1]",
                                 "\"open",
                                 "'a\"",
                                 "\"",
                                 "1.2.3",
                                 "1e",
                                 "0x10",
                                 "1 2",
                                 "99999999999999999999",
                                 "Mean",
                                 "none",
                                 "true"}) {
    CAPTURE(text);
    CHECK(parse_literal(text).kind == Kind::other);
  }
}

TEST_CASE("an exponent alone is no number") {
  CHECK(parse_literal("e5").kind == Kind::other);
  CHECK(parse_literal("-e5").kind == Kind::other);
  CHECK(parse_literal(".").kind == Kind::other);
}

TEST_CASE("defaults of real numbers are the nearest doubles") {
  CHECK(parse_literal("0.1").real == 0.1);
  CHECK(parse_literal("0.33333333333333331").real == 0.33333333333333331);
  CHECK(parse_literal("0.125").real == 0.125);
  CHECK(parse_literal("0.01").real == 0.01);
  CHECK(parse_literal("1e-08").real == 1e-08);
  CHECK(parse_literal("1e-12").real == 1e-12);
}

TEST_CASE("literals are equal as PyTorch sees it") {
  CHECK(Literal::of(1) == Literal::of(1.0));
  CHECK_FALSE(Literal::of(1) == Literal::of(true));
  CHECK_FALSE(Literal::of(1) == Literal::of(2));
  CHECK(Literal::of(std::string_view("a")) == Literal::of(std::string_view("a")));
  CHECK_FALSE(Literal::of(std::string_view("a")) == Literal::of(std::string_view("b")));
  CHECK(parse_literal("[1, 2]") == parse_literal("[1,2]"));
  CHECK_FALSE(parse_literal("[1, 2]") == parse_literal("[1, 3]"));
  CHECK_FALSE(parse_literal("[1]") == parse_literal("[1, 1]"));
  CHECK_FALSE(parse_literal("what?") == parse_literal("what?"));  // an unreadable default equals nothing
  CHECK(parse_literal("None") == parse_literal("None"));
}

// --- literals are the nearest doubles --------------------------------------------------------------------------------

static_assert(fxx::parse_literal("1e30").real == 1e30);
static_assert(fxx::parse_literal("1e-38").real == 1e-38);
static_assert(fxx::parse_literal("-3.4028234663852886e38").real == std::numeric_limits<float>::lowest());
static_assert(fxx::parse_literal("9007199254740993.0").real == 9007199254740992.0);  // a tie goes to the even one
static_assert(fxx::parse_literal("9007199254740993.0000000000000000000000000001").real == 9007199254740994.0);
static_assert(fxx::parse_literal("1.7976931348623157e308").real == std::numeric_limits<double>::max());
static_assert(fxx::parse_literal("2.2250738585072014e-308").real == std::numeric_limits<double>::min());
static_assert(fxx::parse_literal("5e-324").real == std::numeric_limits<double>::denorm_min());
static_assert(fxx::parse_literal("2e-324").real == 0);
static_assert(fxx::parse_literal("1e309").kind == fxx::Literal::Kind::other);
static_assert(fxx::parse_literal("9223372036854775807").integer == INT64_MAX);
static_assert(fxx::parse_literal("9223372036854775808").kind == fxx::Literal::Kind::other);
static_assert(fxx::parse_literal("1'000.5").real == 1000.5);
static_assert(fxx::parse_literal("-9223372036854775808").integer == INT64_MIN);
static_assert(fxx::parse_literal("-9223372036854775809").kind == fxx::Literal::Kind::other);
static_assert(fxx::parse_literal("1e+").kind == fxx::Literal::Kind::other);
static_assert(fxx::parse_literal("0x1p-3").real == 0.125);
static_assert(fxx::parse_literal("-0x1.Fp3").real == -15.5);
static_assert(fxx::parse_literal("0X.8P+1").real == 1);
static_assert(fxx::parse_literal("0x1'0.0'8p0").real == 16.03125);
static_assert(fxx::parse_literal("0x1.fffffffffffffp1023").real == std::numeric_limits<double>::max());
static_assert(fxx::parse_literal("0x1.fffffffffffff7p1023").real == std::numeric_limits<double>::max());
static_assert(fxx::parse_literal("0x1.fffffffffffff8p1023").kind == fxx::Literal::Kind::other);
static_assert(fxx::parse_literal("0x1p1024").kind == fxx::Literal::Kind::other);
static_assert(fxx::parse_literal("0x1p-1074").real == std::numeric_limits<double>::denorm_min());
static_assert(fxx::parse_literal("0x1p-1075").real == 0);
static_assert(fxx::parse_literal("0x1.000000000000000000000001p-1075").real == std::numeric_limits<double>::denorm_min());
static_assert(fxx::parse_literal("0x1.00000000000008p0").real == 1);  // a tie
static_assert(fxx::parse_literal("0x1.00000000000018p0").real == 0x1.0000000000002p0);
static_assert(fxx::parse_literal("0x1.000000000000080000000000000001p0").real == 0x1.0000000000001p0);

TEST_CASE("hexadecimal numbers that C++ does not have are none") {
  for (const char* text : {"0x", "0x1", "0x1.8", "0xp1", "0x.p1", "0x1p", "0x1p+", "0x1pf", "0x1..8p1", "0x1.8p1.0", "0xg p1",
                           "x1p1", "1x1p1", "0x'1p1", "0x1p'1", "0x1p0x1", "-0x", "0x-1p1", "00x1p1", "0x 1p1"}) {
    CAPTURE(text);
    CHECK(fxx::parse_literal(text).kind == fxx::Literal::Kind::other);
  }
}

TEST_CASE("drawn hexadecimal literals are the doubles that strtod reads") {
  fxx::test::Random random(7);
  int wrong = 0, ties = 0;
  for (int i = 0, count = fxx::test::repeats(1'000'000, 20'000); i < count; ++i) {
    std::string digits;
    // Few digits that are not 0, so that halves of the last place come up.
    const std::size_t length = 1 + random.below(random.chance(20) ? 60 : 18), point = random.below(length + 1);
    for (std::size_t k = 0; k < length; ++k) {
      if (k == point) digits += '.';
      digits += "0123456789abcdefABCDEF80808000ff"[random.below(32)];
    }
    const int magnitude = random.chance(30) ? -1040 : random.chance(30) ? 1000 : 0;
    const int exponent = magnitude + static_cast<int>(random.below(120)) - 60;
    const std::string text = (random.chance(50) ? "0x" : "0X") + digits + (exponent >= 0 && random.chance(50) ? "P+" : "p") +
                             std::to_string(exponent);
    // strtod of glibc 2.36 rounds some denormal numbers with zeros at their ends down.
    double expected = std::strtod(text.c_str(), nullptr), read = 0;
    const std::string bare = digits + "p" + std::to_string(exponent);
    if (std::from_chars(bare.data(), bare.data() + bare.size(), read, std::chars_format::hex).ec == std::errc()) expected = read;
    const fxx::Literal literal = fxx::parse_literal(text);
    if (expected > std::numeric_limits<double>::max()) wrong += literal.kind != fxx::Literal::Kind::other;
    else wrong += literal.kind != fxx::Literal::Kind::real || literal.real != expected;
    ties += std::strtold(text.c_str(), nullptr) != static_cast<long double>(expected);
    if (point == 1 && length > 2 && expected <= std::numeric_limits<double>::max()) {
      std::string separated = text;
      separated.insert(5, "'");
      wrong += fxx::parse_literal(separated).real != expected;
    }
  }
  CHECK(wrong == 0);
  CHECK(ties > 1000);
}

TEST_CASE("integers that doubles do not tell apart differ") {
  using fxx::Literal;
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK_FALSE(Literal::of(large) == Literal::of(large - 1));
  CHECK_FALSE(Literal::of(large) == Literal::of(0x1p53));
  CHECK(Literal::of(large - 1) == Literal::of(0x1p53));
  CHECK(Literal::of(0x1p53) == Literal::of(large - 1));
  CHECK_FALSE(Literal::of(std::numeric_limits<std::int64_t>::max()) == Literal::of(0x1p63));
  CHECK(Literal::of(std::numeric_limits<std::int64_t>::min()) == Literal::of(-0x1p63));
  CHECK_FALSE(Literal::of(std::int64_t{0}) == Literal::of(std::numeric_limits<double>::quiet_NaN()));
  CHECK_FALSE(Literal::of(1) == Literal::of(true));
}

TEST_CASE("drawn literals are the doubles that strtod reads") {
  fxx::test::Random random(5);
  int wrong = 0;
  for (int i = 0, count = fxx::test::repeats(1'000'000, 20'000); i < count; ++i) {
    std::string text;
    if (i % 3 == 0) {
      double value = 0;
      const std::uint64_t bits = random.next() & ~(std::uint64_t{1} << 63);
      std::memcpy(&value, &bits, sizeof value);
      if (!(value <= std::numeric_limits<double>::max())) continue;
      char printed[64];
      std::snprintf(printed, sizeof printed, "%.*e", static_cast<int>(random.below(20)) + 1, value);
      text = printed;
    } else {
      const std::size_t digits = 1 + random.below(random.chance(50) ? 900 : 30), point = random.below(digits);
      for (std::size_t k = 0; k < digits; ++k) {
        if (k == point && k > 0) text += '.';
        text += static_cast<char>('0' + random.below(10));
      }
      text += "e" + std::to_string(static_cast<int>(random.below(660)) - 340);
    }
    const double expected = std::strtod(text.c_str(), nullptr);
    const fxx::Literal literal = fxx::parse_literal(text);
    if (expected > std::numeric_limits<double>::max()) wrong += literal.kind != fxx::Literal::Kind::other;
    else wrong += literal.kind != fxx::Literal::Kind::real || literal.real != expected;
  }
  CHECK(wrong == 0);
}

TEST_CASE("classes, tuples, dicts and any number of values stand in schemas") {
  const Parsed p(
      "c10d::allreduce_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup? group, Dict(str, (int, Tensor)[]) "
      "sizes, Future(t) when, bool async_op=True) -> (Tensor[], __torch__.torch.classes.c10d.Work work)");
  REQUIRE(p.well_formed);
  REQUIRE(p.op.arity() == 5);
  CHECK(p.parameters[0].type == Type{.base = ValueType::tensor, .list = true});
  CHECK(p.parameters[0].type_text == "Tensor[]");
  CHECK(p.parameters[1].type == Type{.base = ValueType::other, .optional = true});
  CHECK(p.parameters[1].type_text == "__torch__.torch.classes.c10d.ProcessGroup?");
  CHECK(names_class(p.parameters[1].type_text));
  CHECK(p.parameters[2].type == Type{});
  CHECK(p.parameters[2].type_text == "Dict(str, (int, Tensor)[])");
  CHECK(p.parameters[2].name == "sizes");
  CHECK(p.parameters[3].alias == 0);
  CHECK(p.parameters[4].standard == Literal::of(true));
  REQUIRE(p.returns.size() == 2);
  CHECK(p.returns[1].type_text == "__torch__.torch.classes.c10d.Work");
  CHECK(p.returns[1].name == "work");
  CHECK(has(p.op.traits, Trait::impure));
  CHECK_FALSE(names_class("Tensor(a!)?[]"));
  CHECK(Parsed("t::any(...) -> ...").well_formed);
  CHECK(Parsed("t::any(str self, ...) -> (str)").op.arity() == 1);
  CHECK(Parsed("t::nested(((int, int), str)[] x) -> ((int, int), Tensor)").returns.size() == 2);
  const Parsed text(R"(t::text(str a="\"\'\\", str b=", ") -> Tensor)");
  REQUIRE(text.well_formed);
  CHECK(text.parameters[1].default_text == "\", \"");
  for (const char* broken : {"t::f((int x) -> ()", "t::f(Dict(str x) -> ()", "t::f(Dict(str, \"int) x) -> ()",
                             "t::f(.. x, ...y) -> ()", "t::f() -> (Tensor"})
    CHECK_FALSE(Parsed(broken).well_formed);
}
