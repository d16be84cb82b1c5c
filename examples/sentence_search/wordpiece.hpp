// The WordPiece tokenizer of the uncased BERT models: text to the token ids that the model reads.
//
// Main names: WordPiece, TokenBatch.
// Two steps, after Devlin et al., 2018. Words: unreadable and control characters go, accents go, letters become lower
// case, words end at spaces; each punctuation mark and each Chinese, Japanese or Korean ideograph is a word. Pieces:
// each word is cut from the left into the longest entries of the vocabulary, where "##ing" is an "ing" inside a word.
// unicode_tables.hpp says which characters of Unicode are covered. Names of special tokens in a text ("[SEP]") are text
// like any other. Needs the standard library only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "unicode_tables.hpp"

namespace unicode {

template <std::size_t N>
bool contains(const Range (&ranges)[N], char32_t c) {
  const auto after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                      [](char32_t value, const Range& range) { return value < range.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

/// The code point at `position`, which moves behind it. Ill-formed bytes (cut short, overlong, surrogates, over
/// U+10FFFF) are U+FFFD, one for each longest start of a sequence that could have become well-formed.
inline char32_t decode(std::string_view text, std::size_t& position) {
  constexpr char32_t unreadable = 0xFFFD;
  const auto lead = static_cast<unsigned char>(text[position++]);
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return unreadable;
  const int following = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  // The second byte has a narrower range after some leads: that is what shuts out overlong forms and surrogates.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t c = lead & (0x3F >> following);
  for (int i = 0; i < following; ++i, ++position, low = 0x80, high = 0xBF) {
    if (position == text.size()) return unreadable;
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < low || byte > high) return unreadable;
    c = c << 6 | (byte & 0x3F);
  }
  return c;
}

inline void encode(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) {
    put(c);
    return;
  }
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// Appends `c` without accents and in lower case: nothing for an accent, several letters for a Korean syllable.
inline void fold(char32_t c, std::u32string& out) {
  static const auto with_accents = [] {
    std::unordered_map<char32_t, std::u32string_view> map;
    for (const auto& fold : folds) {
      for (const char32_t composed : fold.composed) map.emplace(composed, fold.base);
    }
    return map;
  }();
  if (contains(marks, c)) return;
  if (const auto found = with_accents.find(c); found != with_accents.end()) {
    out += found->second;
    return;
  }
  if (c >= 0xAC00 && c <= 0xD7A3) {  // Hangul: a leading consonant, a vowel and perhaps a trailing consonant
    const char32_t syllable = c - 0xAC00;
    out += static_cast<char32_t>(0x1100 + syllable / (21 * 28));
    out += static_cast<char32_t>(0x1161 + syllable / 28 % 21);
    if (syllable % 28 != 0) out += static_cast<char32_t>(0x11A7 + syllable % 28);
    return;
  }
  for (const auto& run : lower_case) {
    if (c < run.first) break;
    if (c <= run.last && (c - run.first) % static_cast<char32_t>(run.step) == 0) {
      out += static_cast<char32_t>(static_cast<std::int64_t>(c) + run.offset);
      return;
    }
  }
  out += c;
}

}  // namespace unicode

/// Sentences of one length, row by row: `rows` x `columns`.
struct TokenBatch {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> attention_mask;  // 1 for a token, 0 for padding
};

class WordPiece {
 public:
  /// `vocabulary`: a file with one token a line, whose number counted from 0 is its id. `max_tokens`: the longest
  /// sentence, [CLS] and [SEP] included; all-MiniLM-L6-v2 was trained with 256 of the 512 positions that it has.
  /// Errors: std::runtime_error when the file cannot be read, is empty, or lacks [PAD], [UNK], [CLS] or [SEP];
  /// std::invalid_argument when max_tokens is below 2.
  explicit WordPiece(const std::string& vocabulary, std::size_t max_tokens = 256);

  /// Words and punctuation marks, cleaned and in lower case.
  std::vector<std::string> words(std::string_view text) const;

  /// [CLS], the pieces of `text`, [SEP]: 2 to max_tokens ids. What is too long loses its end, before [SEP].
  std::vector<std::int64_t> encode(std::string_view text) const;

  /// All texts, padded on the right to the longest of them, or to `columns` when that is more.
  TokenBatch encode_batch(const std::vector<std::string>& texts, std::size_t columns = 0) const;

  /// Number of tokens in the vocabulary.
  std::size_t size() const { return tokens_.size(); }

  /// The token with this id. Errors: std::out_of_range.
  const std::string& token(std::int64_t id) const { return tokens_.at(static_cast<std::size_t>(id)); }

 private:
  /// Finds by std::string_view without a copy.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::int64_t special(std::string_view token, const std::string& vocabulary) const;
  void append_pieces(std::string_view word, std::vector<std::int64_t>& ids) const;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
  std::size_t max_tokens_, longest_ = 0;
  std::int64_t pad_ = 0, unk_ = 0, cls_ = 0, sep_ = 0;
};

inline WordPiece::WordPiece(const std::string& vocabulary, std::size_t max_tokens) : max_tokens_(max_tokens) {
  if (max_tokens < 2) {
    throw std::invalid_argument("a sentence of at most " + std::to_string(max_tokens) +
                                " tokens has no room for [CLS] and [SEP]");
  }
  std::ifstream file(vocabulary);
  if (!file) throw std::runtime_error("vocabulary file '" + vocabulary + "' cannot be opened");
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    longest_ = std::max(longest_, line.size());
    ids_.insert_or_assign(line, static_cast<std::int64_t>(tokens_.size()));
    tokens_.push_back(std::move(line));
  }
  if (file.bad()) throw std::runtime_error("vocabulary file '" + vocabulary + "' cannot be read");
  if (tokens_.empty()) throw std::runtime_error("vocabulary file '" + vocabulary + "' is empty");
  pad_ = special("[PAD]", vocabulary);
  unk_ = special("[UNK]", vocabulary);
  cls_ = special("[CLS]", vocabulary);
  sep_ = special("[SEP]", vocabulary);
}

inline std::int64_t WordPiece::special(std::string_view token, const std::string& vocabulary) const {
  const auto found = ids_.find(token);
  if (found != ids_.end()) return found->second;
  throw std::runtime_error("vocabulary file '" + vocabulary + "' has no " + std::string(token) + " among its " +
                           std::to_string(tokens_.size()) + " tokens");
}

inline std::vector<std::string> WordPiece::words(std::string_view text) const {
  std::vector<std::string> found;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) found.push_back(std::exchange(word, {}));
  };
  std::u32string folded;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = unicode::decode(text, position);
    if (unicode::contains(unicode::removed, c)) continue;
    if (unicode::contains(unicode::spaces, c)) {
      end_word();
      continue;
    }
    const bool ideograph = unicode::contains(unicode::ideographs, c);
    folded.clear();
    unicode::fold(c, folded);
    // Looked at after folding: the Greek question mark becomes a semicolon.
    for (const char32_t letter : folded) {
      const bool alone = ideograph || unicode::contains(unicode::punctuation, letter);
      if (alone) end_word();
      unicode::encode(letter, word);
      if (alone) end_word();
    }
  }
  end_word();
  return found;
}

inline void WordPiece::append_pieces(std::string_view word, std::vector<std::int64_t>& ids) const {
  constexpr std::ptrdiff_t max_characters = 100;  // as in BERT: longer words are noise, and searching them is slow
  const auto starts_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  if (std::count_if(word.begin(), word.end(), starts_character) > max_characters) {
    ids.push_back(unk_);
    return;
  }
  const std::size_t before = ids.size();
  std::string piece;
  for (std::size_t begin = 0; begin < word.size();) {
    const std::string_view prefix = begin == 0 ? "" : "##";
    std::size_t length = std::min(word.size() - begin, longest_);
    piece.assign(prefix).append(word, begin, length);
    auto found = ids_.find(piece);
    while (found == ids_.end() && length > 1) {
      piece.pop_back();
      --length;
      found = ids_.find(piece);
    }
    if (found == ids_.end()) {  // one piece that has no entry makes the whole word unknown
      ids.resize(before);
      ids.push_back(unk_);
      return;
    }
    ids.push_back(found->second);
    begin += length;
  }
}

inline std::vector<std::int64_t> WordPiece::encode(std::string_view text) const {
  std::vector<std::int64_t> ids{cls_};
  for (const auto& word : words(text)) {
    if (ids.size() >= max_tokens_) break;
    append_pieces(word, ids);
  }
  ids.resize(std::min(ids.size(), max_tokens_ - 1));
  ids.push_back(sep_);
  return ids;
}

inline TokenBatch WordPiece::encode_batch(const std::vector<std::string>& texts, std::size_t columns) const {
  std::vector<std::vector<std::int64_t>> rows;
  for (const auto& text : texts) {
    rows.push_back(encode(text));
    columns = std::max(columns, rows.back().size());
  }
  TokenBatch batch;
  batch.rows = static_cast<std::int64_t>(rows.size());
  batch.columns = static_cast<std::int64_t>(columns);
  batch.input_ids.reserve(rows.size() * columns);
  batch.attention_mask.reserve(rows.size() * columns);
  for (const auto& row : rows) {
    const std::size_t padding = columns - row.size();
    batch.input_ids.insert(batch.input_ids.end(), row.begin(), row.end());
    batch.input_ids.insert(batch.input_ids.end(), padding, pad_);
    batch.attention_mask.insert(batch.attention_mask.end(), row.size(), 1);
    batch.attention_mask.insert(batch.attention_mask.end(), padding, 0);
  }
  return batch;
}
