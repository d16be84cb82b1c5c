// The parser on texts that are nearly right: it gives a valid graph or throws a fault of ours, and never crashes.
// The sanitized build of this program shows that it touches no memory that is not its own.
#include <doctest/doctest.h>

#include <algorithm>

#include "ir/random_graph.hpp"

using namespace fxx;

namespace {

/// True when the text was taken. Anything but a fault of ours passes through and fails the test.
bool taken(const std::string& text) {
  try {
    const Graph g = parse_graph(text);
    g.lint();
    (void)to_string(g);
    return true;
  } catch (const GraphError&) {
  } catch (const OperatorError&) {
  }
  return false;
}

}  // namespace

TEST_CASE("mutated texts: changed, missing, doubled and exchanged pieces") {
  test::Random random(23);
  const std::string_view tokens[] = {"%",
                                     "[",
                                     "]",
                                     "(",
                                     ")",
                                     "{",
                                     "}",
                                     ",",
                                     ", ",
                                     ": ",
                                     " : ",
                                     "=",
                                     "'",
                                     "\"",
                                     "\\",
                                     "\n",
                                     "-",
                                     "0",
                                     "e",
                                     ".",
                                     "None",
                                     "True",
                                     "torch.",
                                     "device(type='",
                                     "slice(",
                                     "range(",
                                     "enum(",
                                     "inf",
                                     "nan",
                                     "return ",
                                     "graph():",
                                     "[num_users=",
                                     "] = ",
                                     "call_function",
                                     "placeholder",
                                     "output",
                                     "[target=",
                                     "args = (",
                                     "kwargs = {",
                                     "(default=",
                                     "9223372036854775808",
                                     "\\x",
                                     "j)",
                                     std::string_view("\0", 1),
                                     "\xff",
                                     "%x"};
  int accepted = 0;
  const int rounds = test::repeats(60000, 8000);
  for (int i = 0; i < rounds; ++i) {
    std::string text = to_string(test::random_graph(random, 1 + random.below(4)));
    for (std::size_t changes = 1 + random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(text.size() + 1), length = random.below(6);
      switch (random.below(6)) {
        case 0: text.erase(std::min(at, text.size()), length); break;
        case 1: text.insert(at, tokens[random.below(std::size(tokens))]); break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(random.next());
          break;
        case 3: text.insert(at, text.substr(random.below(text.size() + 1), 1 + random.below(40))); break;
        case 4: text.resize(at); break;
        default: {
          const std::size_t from = random.below(text.size() + 1);
          const std::string piece = text.substr(from, length);
          text.erase(std::min(from, text.size()), length);
          text.insert(std::min(at, text.size()), piece);
        }
      }
    }
    accepted += taken(text);
  }
  // Both ways happen, so the mutations are neither harmless nor hopeless.
  CHECK(accepted > rounds / 100);
  CHECK(accepted < rounds - rounds / 100);
}

TEST_CASE("texts of tokens in any order") {
  test::Random random(29);
  const std::string_view tokens[] = {
      "graph():\n",  "    ",        "%x",         "%y",        " : ",           "[num_users=1] = ",
      "placeholder", "call_method", "[target=x]", "(args = (", "), kwargs = {", "})",
      "\n",          "1",           "'a'",        ", ",        "return ",       "x",
      "[",           "]",           "(",          ")",         "(default="};
  for (int i = 0; i < test::repeats(60000, 10000); ++i) {
    std::string text = "graph():\n    %x : [num_users=1] = placeholder[target=x]\n";
    for (std::size_t k = random.below(20); k > 0; --k) text += tokens[random.below(std::size(tokens))];
    taken(text);
  }
}

TEST_CASE("random bytes") {
  test::Random random(31);
  for (int i = 0; i < test::repeats(20000, 5000); ++i) {
    std::string text = random.chance(2) ? "graph():\n    %" : "";
    for (std::size_t k = random.below(60); k > 0; --k) text += static_cast<char>(random.next());
    CHECK_FALSE(taken(text));
  }
}
