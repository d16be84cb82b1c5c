// Spellings of names and constants: whatever the text, what comes out is one token or one literal.
#include "fxx/codegen/cpp.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "codegen/macros.hpp"
#include "fxx/runtime/process.hpp"
#include "not_checked.hpp"
#include "runtime/support.hpp"
#include "support.hpp"

using namespace fxx;

TEST_CASE("names become identifiers") {
  const std::pair<std::string, std::string> names[] = {{"conv1", "conv1"},
                                                       {"layer1.0.conv1", "layer1_0_conv1"},
                                                       {"0.weight", "m_0_weight"},
                                                       {"", "m_"},
                                                       {"a b", "a_b"},
                                                       {"class", "class_"},
                                                       {"a__b", "a_b"},
                                                       {"_Upper", "m__Upper"},
                                                       {"x; evil(\"y\") //", "x_evil_y_"},
                                                       {"\xC3\xA9t\xC3\xA9", "_t_"},
                                                       {"line\nbreak", "line_break"},
                                                       {"int", "int_"},
                                                       {"EOF", "EOF_m"},
                                                       {"M_PI", "M_PI_m"},
                                                       {"M_PIf64", "M_PIf64_m"},
                                                       {"C10_UTIL_FLAGS_H_", "C10_UTIL_FLAGS_H_m"},
                                                       {"stdin", "stdin_"},
                                                       {"errno", "errno_"},
                                                       {"I", "I_m"},
                                                       {"W", "W"},
                                                       {"W_ih", "W_ih"},
                                                       {"SYS_read", "SYS_read_m"},
                                                       {"block.0.EOF", "block_0_EOF"},
                                                       {"co_await", "co_await_"}};
  for (const auto& [name, identifier] : names) {
    CAPTURE(name);
    CHECK(cpp_identifier(name) == identifier);
    CHECK(is_cpp_name(cpp_identifier(name)));
  }
}

TEST_CASE("any bytes make an identifier") {
  test::Random random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string name(random.below(12), '\0');
    for (char& c : name) c = static_cast<char>(random.next());
    CAPTURE(name);
    CHECK(is_cpp_name(cpp_identifier(name)));
  }
}

TEST_CASE("no macro of the headers that generated code includes is what a name becomes") {
  const support::TemporaryFolder folder;
  std::string source;
  const std::string include = std::string(std::getenv("FXX_SOURCE_DIR")) + "/include";
  for (const auto& header : std::filesystem::directory_iterator(include + "/fxx/kernels"))
    if (header.path().extension() == ".hpp") source += "#include \"" + header.path().string() + "\"\n";
  for (const char* header : {"algorithm", "cmath", "exception", "iostream", "limits", "map", "string", "tuple", "vector",
                             "cstdio", "cstdlib", "csignal", "cinttypes", "climits", "cfloat", "cerrno", "cassert"})
    source += "#include <" + std::string(header) + ">\n";
  folder.file("all.cpp", source);
  if (!find_program("g++")) test::not_checked("macros of g++: it is not installed");
  if (!find_program("clang++-16") && !find_program("clang++"))
    test::not_checked("macros of clang: neither clang++-16 nor clang++ is installed");
  for (const char* compiler : {"g++", "clang++-16", "clang++"})
    for (const char* standard : {"-std=c++20", "-std=gnu++20"}) {
      if (!find_program(compiler)) continue;
      const ProcessResult result =
          run_process({compiler, standard, "-O2", "-march=native", "-pthread", "-dM", "-E", "-I" + include, folder / "all.cpp"},
                      {.output_limit = std::size_t{64} << 20});
      REQUIRE_MESSAGE(result.ok(), result.output);
      test::check_macros(result.output, 3000);
    }
}

TEST_CASE("classes may be named in capitals, but not as macros are, nor as keywords") {
  for (const char* good : {"Net", "MLP", "GPT2", "VAE", "I2", "ResNet18", "net", "W", "UNET"}) CHECK(is_cpp_class_name(good));
  for (const char* bad : {"", "class", "1Net", "a b", "EOF", "NULL", "INFINITY", "M_PI", "NAN", "TORCH_CHECK", "TORCH_MODULE",
                          "stdin", "errno", "assert", "SYS_read", "A__B", "_Net", "a.b"})
    CHECK_FALSE(is_cpp_class_name(bad));
}

TEST_CASE("strings are one literal, whatever they hold") {
  CHECK(cpp_string("") == R"("")");
  CHECK(cpp_string("plain") == R"("plain")");
  CHECK(cpp_string("a\"b\\c") == R"("a\"b\\c")");
  CHECK(cpp_string("\n\t") == R"("\012\011")");
  CHECK(cpp_string(std::string_view("\0001", 2)) == R"("\0001")");
  CHECK(cpp_string("\?\?/") == R"("\077\077/")");
  CHECK(cpp_string("\xC3\xA9") == R"("\303\251")");
  CHECK(cpp_string("%s */ //") == R"("%s */ //")");
}

TEST_CASE("real numbers read back as the same") {
  CHECK(cpp_double(1) == "1.0");
  CHECK(cpp_double(-0.0) == "-0.0");
  CHECK(cpp_double(0.1) == "0.1");
  CHECK(cpp_double(1e300) == "1e+300");
  CHECK(cpp_double(std::numeric_limits<double>::quiet_NaN()) == "std::numeric_limits<double>::quiet_NaN()");
  CHECK(cpp_double(std::numeric_limits<double>::infinity()) == "std::numeric_limits<double>::infinity()");
  CHECK(cpp_double(-std::numeric_limits<double>::infinity()) == "-std::numeric_limits<double>::infinity()");
  test::Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::bit_cast<double>(random.next());
    if (value != value || value - value != 0) continue;
    const std::string text = cpp_double(value);
    CAPTURE(text);
    CHECK(std::strtod(text.c_str(), nullptr) == value);
    CHECK(text.find_first_of(".e") != std::string::npos);  // not the literal of an integer
  }
}

TEST_CASE("whole numbers of 64 bits; the smallest has no literal") {
  CHECK(cpp_integer(0) == "0");
  CHECK(cpp_integer(-3) == "-3");
  CHECK(cpp_integer(std::numeric_limits<std::int64_t>::max()) == "9223372036854775807");
  CHECK(cpp_integer(std::numeric_limits<std::int64_t>::min()) == "(-9223372036854775807 - 1)");
}

TEST_CASE("comments end where the line does") {
  CHECK(cpp_comment("a\nevil();\r\\") == "a evil();  ");
  CHECK(cpp_comment("\?\?/") == "  /");
}

TEST_CASE("names and types of C++ and nothing else") {
  for (const char* name : {"a", "std::abs", "my::deep::name_1"}) CHECK(is_cpp_name(name));
  for (const char* name : {"", "1a", "a b", "a::", "::a", "a:b", "a()", "a;b", "a::1", "a\n"})
    CHECK_FALSE(is_cpp_name(name));
  for (const char* type : {"int", "std::vector<torch::Tensor>", "const std::map<std::string, int64_t>&", "float*"})
    CHECK(is_cpp_type(type));
  for (const char* type : {"", "int, int", "a>b<", "std::vector<int", "f()", "int; evil", "a{", "a\nb", "a\"b"})
    CHECK_FALSE(is_cpp_type(type));
}
