// examples/sentence_search/wordpiece.hpp: against the ids that the `tokenizers` package gives, and at the edges.
//
// Reads minilm.json from FXX_ORACLE_DIR and vocab.txt from FXX_MODEL_DIR, environment variables or macros of the build.
// What needs the vocabulary is skipped, and counted so, where FXX_MODEL_DIR has none: `tools/setup --model` fetches it.
#include "sentence_search/wordpiece.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Ids = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

std::string folder(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

std::string oracle_dir() {
#ifdef FXX_ORACLE_DIR
  return folder("FXX_ORACLE_DIR", FXX_ORACLE_DIR);
#else
  return folder("FXX_ORACLE_DIR", "tests/oracle");
#endif
}

std::string model_dir() {
#ifdef FXX_MODEL_DIR
  return folder("FXX_MODEL_DIR", FXX_MODEL_DIR);
#else
  return folder("FXX_MODEL_DIR", "build/models/all-MiniLM-L6-v2");
#endif
}

bool no_model() { return !std::filesystem::exists(model_dir() + "/vocab.txt"); }

/// A file of its own for each test, gone after it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::random_device random;
    path_ = std::filesystem::temp_directory_path() /
            ("fxx-wordpiece-" + std::to_string(random()) + std::to_string(random()));
    std::ofstream(path_, std::ios::binary) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Ids:                       0      1      2      3      4   5      6       7     8    9  10  11    12 13
const char* const small = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n##a\n##b\na\ne\n##e\nß\n##ß\n";

WordPiece small_tokenizer(std::size_t max_tokens = 256) { return WordPiece(TemporaryFile(small).path(), max_tokens); }

std::string repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// The message of the std::runtime_error that a vocabulary with this text causes, without the name of the file.
std::string complaint(const std::string& text) {
  const TemporaryFile file(text);
  try {
    const WordPiece tokenizer(file.path());
  } catch (const std::runtime_error& e) {
    std::string message = e.what();
    const auto at = message.find(file.path());
    return at == std::string::npos ? "does not name the file: " + message : message.erase(at, file.path().size());
  }
  return "accepted";
}

bool well_formed(const std::string& text) {
  for (std::size_t position = 0; position < text.size();) {
    if (unicode::decode(text, position) == 0xFFFD) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("examples: wordpiece");

TEST_CASE("token ids are those of the reference tokenizer" * doctest::skip(no_model())) {
  const WordPiece tokenizer(model_dir() + "/vocab.txt");
  std::ifstream file(oracle_dir() + "/minilm.json");
  REQUIRE_MESSAGE(file, "no minilm.json in '", oracle_dir(), "'");
  const auto oracle = nlohmann::json::parse(file);
  REQUIRE(oracle.at("cases").size() >= 12);
  std::vector<std::string> texts;
  for (const auto& one : oracle.at("cases")) {
    texts.push_back(one.at("text").get<std::string>());
    CAPTURE(texts.back());
    CHECK(tokenizer.encode(texts.back()) == one.at("ids").get<Ids>());
  }

  const auto batch = tokenizer.encode_batch(texts);
  CHECK(batch.rows == static_cast<std::int64_t>(texts.size()));
  CHECK(batch.columns == oracle.at("max_tokens").get<std::int64_t>());  // the last text is longer and is cut
  for (std::size_t row = 0; row < texts.size(); ++row) {
    auto ids = oracle.at("cases")[row].at("ids").get<Ids>();
    Ids mask(ids.size(), 1);
    ids.resize(static_cast<std::size_t>(batch.columns), 0);
    mask.resize(static_cast<std::size_t>(batch.columns), 0);
    const auto begin = static_cast<std::ptrdiff_t>(row) * batch.columns;
    CHECK(Ids(batch.input_ids.begin() + begin, batch.input_ids.begin() + begin + batch.columns) == ids);
    CHECK(Ids(batch.attention_mask.begin() + begin, batch.attention_mask.begin() + begin + batch.columns) == mask);
  }
}

TEST_CASE("the model's vocabulary" * doctest::skip(no_model())) {
  const WordPiece tokenizer(model_dir() + "/vocab.txt");
  CHECK(tokenizer.size() == 30522);
  CHECK(tokenizer.token(0) == "[PAD]");
  CHECK(tokenizer.token(30521) == "##～");
  CHECK_THROWS_AS(tokenizer.token(30522), std::out_of_range);
  CHECK_THROWS_AS(tokenizer.token(-1), std::out_of_range);
  CHECK(tokenizer.encode("Hello, unaffable World") == Ids{101, 7592, 1010, 14477, 20961, 3468, 2088, 102});
}

TEST_CASE("a text without words is [CLS] [SEP]") {
  const auto tokenizer = small_tokenizer();
  for (const char* text : {"", " ", " \t\r\n\v\f ", "\u00A0\u2003\u3000\u2028", "\u200B\uFEFF", "\u0301", "\xFF\xFE"}) {
    CAPTURE(text);
    CHECK(tokenizer.words(text).empty());
    CHECK(tokenizer.encode(text) == Ids{2, 3});
  }
}

TEST_CASE("words") {
  const auto tokenizer = small_tokenizer();
  const auto words = [&](std::string_view text) { return tokenizer.words(text); };

  SUBCASE("spaces separate, control and format characters vanish") {
    CHECK(words(" a\tb\nc\rd\u00A0e\u2009f\u2028g\u3000h ") == Words{"a", "b", "c", "d", "e", "f", "g", "h"});
    CHECK(words("a\x01z b\x7Fz c\u0085z d\u00ADz e\u200Bz f\uFEFFz g\uE000z h\vz") ==
          Words{"az", "bz", "cz", "dz", "ez", "fz", "gz", "hz"});
    CHECK(words(std::string_view("a\0b", 3)) == Words{"ab"});
  }
  SUBCASE("punctuation marks and ASCII symbols stand alone") {
    CHECK(words("don't!? a+b=c $5 x_y") ==
          Words{"don", "'", "t", "!", "?", "a", "+", "b", "=", "c", "$", "5", "x", "_", "y"});
    CHECK(words("“Hi”—she…") == Words{"“", "hi", "”", "—", "she", "…"});
    CHECK(words("5€ 7°") == Words{"5€", "7°"});        // symbols outside ASCII do not
    CHECK(words("τι\u037E") == Words{"τι", ";"});      // the Greek question mark is a semicolon in disguise
    CHECK(words("a\u2260b") == Words{"a", "=", "b"});  // and the unequal sign an equals sign with an accent
  }
  SUBCASE("lower case, accents off") {
    CHECK(words("ÀÉÎÕÜ çñ ÅÅ Žižek Ħŧ Ǟ ệ Ệ") == Words{"aeiou", "cn", "aa", "zizek", "ħŧ", "a", "e", "e"});
    CHECK(words("e\u0301 E\u0302\u0301") == Words{"e", "e"});
    CHECK(words("İstanbul IĞDIR ß ẞ Æ ǅ") == Words{"istanbul", "igdir", "ß", "ß", "æ", "ǆ"});
    CHECK(words("ΑΘΉΝΑ ᾷ ΣΊΣΥΦΟΣ") == Words{"αθηνα", "α", "σισυφοσ"});
    CHECK(words("Ёлка Й Ї ЃЌ") == Words{"елка", "и", "і", "гк"});
    CHECK(words("Ａ ＡＢｃ 𐐀") == Words{"ａ", "ａｂｃ", "𐐨"});
    CHECK(words("ﬁ ① ﾊﾟ") == Words{"ﬁ", "①", "ﾊﾟ"});  // canonical decompositions only
  }
  SUBCASE("each ideograph is a word, other scripts are not split") {
    CHECK(words("我喜欢tea和𠀀") == Words{"我", "喜", "欢", "tea", "和", "𠀀"});
    CHECK(words("がんばれ カタカナ、ー") == Words{"かんはれ", "カタカナ", "、", "ー"});
    CHECK(words("한글 각") == Words{"\u1112\u1161\u11AB\u1100\u1173\u11AF", "\u1100\u1161\u11A8"});
    CHECK(words("가") == Words{"\u1100\u1161"});
    CHECK(words("שָׁלוֹם مَرحَبًا हिंदी") == Words{"שלום", "مرحبا", "हिदी"});
    CHECK(words("Приветworld你好мир🙂!") == Words{"приветworld", "你", "好", "мир🙂", "!"});
    CHECK(words("👩\u200D🚀 ❤\uFE0F") == Words{"👩🚀", "❤"});
  }
  SUBCASE("names of special tokens are text") {
    CHECK(words("[SEP]") == Words{"[", "sep", "]"});
    CHECK(tokenizer.encode("[SEP]") == Ids{2, 1, 1, 1, 3});
  }
}

TEST_CASE("ill-formed UTF-8 vanishes and takes nothing with it") {
  const auto tokenizer = small_tokenizer();
  // A stray continuation, bytes that never occur, overlong forms, a surrogate, over U+10FFFF, sequences cut short.
  for (const char* bytes : {"\x80", "\xFE", "\xFF", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xE0\x9F\xBF",
                            "\xF0\x80\x80\xAF", "\xF0\x8F\xBF\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80", "\xC3", "\xE4\xBD", "\xF0\x9F", "\xF0\x9F\x99", "\uFFFD"}) {
    const std::string text = bytes;
    CAPTURE(text.size());
    CHECK(tokenizer.words("x" + text + "y") == Words{"xy"});
    CHECK(tokenizer.words(text).empty());
    CHECK(tokenizer.words(text + "é " + text) == Words{"e"});
  }
  CHECK(tokenizer.words("\xC3(") == Words{"("});
  CHECK(tokenizer.words("\uD7FF\uE000\U0010FFFF") == Words{"\uD7FF\U0010FFFF"});  // the ends of the well-formed ranges

  SUBCASE("random bytes") {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> length(0, 40), byte(0, 255);
    for (int i = 0; i < 2000; ++i) {
      std::string text(static_cast<std::size_t>(length(random)), ' ');
      for (char& c : text) c = static_cast<char>(static_cast<unsigned char>(byte(random)));
      for (const auto& word : tokenizer.words(text)) {
        CHECK_FALSE(word.empty());
        CHECK(well_formed(word));
      }
    }
  }
}

TEST_CASE("every code point survives a round trip and is folded once and for all") {
  std::u32string once, twice;
  std::string bytes;
  int lost = 0, unstable = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    bytes.clear();
    unicode::encode(c, bytes);
    std::size_t position = 0;
    if (unicode::decode(bytes, position) != c || position != bytes.size()) ++lost;
    once.clear();
    twice.clear();
    unicode::fold(c, once);
    for (const char32_t letter : once) unicode::fold(letter, twice);
    if (once != twice) ++unstable;
  }
  CHECK(lost == 0);
  CHECK(unstable == 0);
}

TEST_CASE("the tables are sorted, as their search needs") {
  const auto sorted = [](const auto& ranges) {
    return std::is_sorted(std::begin(ranges), std::end(ranges),
                          [](const auto& a, const auto& b) { return a.first < b.first; });
  };
  CHECK(sorted(unicode::marks));
  CHECK(sorted(unicode::punctuation));
  CHECK(sorted(unicode::removed));
  CHECK(sorted(unicode::spaces));
  CHECK(sorted(unicode::ideographs));
  CHECK(sorted(unicode::lower_case));
}

TEST_CASE("pieces") {
  const auto tokenizer = small_tokenizer();
  CHECK(tokenizer.encode("unaffable") == Ids{2, 4, 5, 6, 3});  // "##aff", though "##a" would do
  CHECK(tokenizer.encode("UNABLE a") == Ids{2, 4, 6, 9, 3});
  CHECK(tokenizer.encode("unaffablex") == Ids{2, 1, 3});  // one bad piece spoils the word
  CHECK(tokenizer.encode("aff") == Ids{2, 1, 3});         // "##aff" does not begin a word
  CHECK(tokenizer.encode("##aff") == Ids{2, 1, 1, 1, 3});
  CHECK(tokenizer.encode("z a 中") == Ids{2, 1, 9, 1, 3});
}

TEST_CASE("words over 100 characters, not bytes, are unknown") {
  const auto tokenizer = small_tokenizer();
  CHECK(tokenizer.encode(repeat("a", 100)).size() == 102);
  CHECK(tokenizer.encode(repeat("a", 101)) == Ids{2, 1, 3});
  CHECK(tokenizer.encode(repeat("ß", 100)).size() == 102);
  CHECK(tokenizer.encode(repeat("ß", 101)) == Ids{2, 1, 3});
  CHECK(tokenizer.encode(repeat("e\u0301", 100)).size() == 102);  // counted after the accents went
  CHECK(tokenizer.encode(repeat("a", 1000000) + " a") == Ids{2, 1, 9, 3});
}

TEST_CASE("a sentence that is too long loses its end") {
  CHECK(small_tokenizer().encode(repeat("a ", 254)).size() == 256);
  const auto cut = small_tokenizer().encode(repeat("a ", 1000));
  CHECK(cut.size() == 256);
  CHECK(cut.front() == 2);
  CHECK(cut.back() == 3);
  CHECK(small_tokenizer(4).encode("unaffable") == Ids{2, 4, 5, 3});  // in the middle of a word, too
  CHECK(small_tokenizer(4).encode("a e") == Ids{2, 9, 10, 3});
  CHECK(small_tokenizer(2).encode("a e") == Ids{2, 3});
  CHECK_THROWS_WITH_AS(small_tokenizer(1), "a sentence of at most 1 tokens has no room for [CLS] and [SEP]",
                       std::invalid_argument);
}

TEST_CASE("a batch has one length") {
  const auto tokenizer = small_tokenizer();
  const auto batch = tokenizer.encode_batch({"a", "", "a e un"});
  CHECK(batch.rows == 3);
  CHECK(batch.columns == 5);
  CHECK(batch.input_ids == Ids{2, 9, 3, 0, 0, /**/ 2, 3, 0, 0, 0, /**/ 2, 9, 10, 4, 3});
  CHECK(batch.attention_mask == Ids{1, 1, 1, 0, 0, /**/ 1, 1, 0, 0, 0, /**/ 1, 1, 1, 1, 1});
  CHECK(tokenizer.encode_batch({"a"}, 5).input_ids == Ids{2, 9, 3, 0, 0});
  CHECK(tokenizer.encode_batch({"a e"}, 3).input_ids == Ids{2, 9, 10, 3});  // a length asked for never cuts
  const auto none = tokenizer.encode_batch({}, 0);
  CHECK(none.rows == 0);
  CHECK(none.columns == 0);
  CHECK(none.input_ids.empty());
}

TEST_CASE("vocabulary files") {
  CHECK(complaint(small) == "accepted");
  CHECK(complaint("") == "vocabulary file '' is empty");
  CHECK(complaint("\n") == "vocabulary file '' has no [PAD] among its 1 tokens");
  CHECK(complaint("[UNK]\n[CLS]\n[SEP]\na\n") == "vocabulary file '' has no [PAD] among its 4 tokens");
  CHECK(complaint("[PAD]\n[CLS]\n[SEP]\na\n") == "vocabulary file '' has no [UNK] among its 4 tokens");
  CHECK(complaint("[PAD]\n[UNK]\n[SEP]\na\n") == "vocabulary file '' has no [CLS] among its 4 tokens");
  CHECK(complaint("[PAD]\n[UNK]\n[CLS]\na\n") == "vocabulary file '' has no [SEP] among its 4 tokens");
  CHECK_THROWS_WITH_AS(WordPiece("no/such/vocab.txt"), "vocabulary file 'no/such/vocab.txt' cannot be opened",
                       std::runtime_error);
  CHECK_THROWS_AS(WordPiece(std::filesystem::temp_directory_path().string()), std::runtime_error);  // a folder

  SUBCASE("lines may end in CR LF, the last one in nothing, and [PAD] may have any id") {
    const TemporaryFile file("a\r\n[CLS]\r\n[SEP]\r\n[UNK]\r\n[PAD]\r\nb");
    const WordPiece tokenizer(file.path());
    CHECK(tokenizer.size() == 6);
    CHECK(tokenizer.encode_batch({"a b c"}, 6).input_ids == Ids{1, 0, 5, 3, 2, 4});
  }
}

TEST_SUITE_END();
