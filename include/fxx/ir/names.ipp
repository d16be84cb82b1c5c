// Bodies of ir/names.hpp and ir/detail/names.hpp: what a node may be called, and names that are unique.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>

#include "fxx/ir/detail/names.hpp"
#include "fxx/ir/names.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::string snake_case(std::string_view text) {
  std::string out(2 * text.size(), '\0');  // at most an underscore before each
  char* end = out.data();
  bool after_lower = false;
  for (char c : text) {
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    if (upper && after_lower) *end++ = '_';
    *end++ = upper ? static_cast<char>(c - 'A' + 'a') : lower || digit ? c : '_';
    after_lower = lower;
  }
  out.resize(static_cast<std::size_t>(end - out.data()));
  // Two leading underscores belong to the compiler.
  const std::size_t first = out.find_first_not_of('_');
  if (first == out.npos) return "_unnamed";
  if (first >= 2) out.erase(0, first);
  if (out[0] >= '0' && out[0] <= '9') out.insert(0, "_");
  return out;
}

FXX_INLINE bool is_made_from(std::string_view name, std::string_view base) {
  const std::string stem = snake_case(base);
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name.empty() || (name.size() > 1 && name[0] == '_' && name.find_first_not_of("0123456789", 1) == name.npos);
}

namespace detail {
/// Whether a name begins as those of the compiler's intrinsics do, many of which are macros: "_mm512_slli_epi32".
FXX_INLINE bool is_intrinsic(std::string_view name) {
  constexpr std::string_view beginnings[] = {"_mm",     "_kand",  "_knot",   "_kor",   "_kshift", "_kxnor",
                                             "_kxor",   "_m_p",   "_tile_",  "_bit_scan_", "_bswap", "_cvts",
                                             "_lrot",   "_rot",   "_rdpmc",  "_rdtsc", "_popcnt", "_xabort"};
  for (const std::string_view beginning : beginnings)
    if (name.starts_with(beginning)) return true;
  return false;
}
}  // namespace detail

FXX_INLINE bool is_reserved_name(std::string_view name) {
  static constexpr auto words = [] {
    std::array sorted = std::to_array<std::string_view>(
        {// C++ keywords and alternative tokens
         "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
         "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
         "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete",
         "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
         "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
         "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
         "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct",
         "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
         "typeof", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
         // names that generated code uses
         "at", "c10", "fxx", "forward", "int64_t", "main", "std", "torch",
         // macros in lower case of the headers that generated code includes, and of others of the system's
         "alloca", "assert", "assert_perror", "be16toh", "be32toh", "be64toh", "errno", "htobe16", "htobe32", "htobe64",
         "htole16", "htole32", "htole64", "htonl", "htons", "i386", "issubnormal", "iscanonical", "iseqsig", "le16toh",
         "le32toh", "le64toh", "linux", "major", "makedev", "math_errhandling", "minor", "ntohl", "ntohs", "offsetof",
         "pthread_cleanup_pop", "pthread_cleanup_pop_restore_np", "pthread_cleanup_push",
         "pthread_cleanup_push_defer_np", "s6_addr", "s_addr", "sa_handler", "sa_sigaction", "sched_priority",
         "setjmp", "si_addr", "si_addr_lsb", "si_arch", "si_band", "si_call_addr", "si_fd", "si_int", "si_lower",
         "si_overrun", "si_pid", "si_pkey", "si_ptr", "si_status", "si_stime", "si_syscall", "si_timerid", "si_uid",
         "si_upper", "si_utime", "si_value", "sigev_notify_attributes", "sigev_notify_function", "sigmask",
         "sigsetjmp", "st_atime", "st_ctime", "st_mtime", "stderr", "stdin", "stdout", "strdupa", "strndupa",
         "timeradd", "timerclear", "timercmp", "timerisset", "timersub", "unix", "va_arg", "va_copy", "va_end",
         "va_start",
         // words of the printed form
         "device", "inf", "nan", "range", "slice"});
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }();
  // By size, the letters that such words begin with, as bits: nearly every name is let pass here.
  static constexpr auto letters = [] {
    std::array<std::uint32_t, 32> bits{};
    for (const std::string_view word : words) bits[word.size()] |= std::uint32_t{1} << (word[0] & 31);
    return bits;
  }();
  if (name.starts_with('_') && detail::is_intrinsic(name)) return true;
  if (name.empty() || name.size() >= letters.size() || !(letters[name.size()] >> (name[0] & 31) & 1)) return false;
  return std::binary_search(words.begin(), words.end(), name);
}

namespace detail {

FXX_INLINE std::size_t NameTable::find(std::string_view name, std::uint32_t hash) const {
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at].text && !(slots_[at].hash == hash && std::string_view(slots_[at].text, slots_[at].size) == name))
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

FXX_INLINE void NameTable::insert(std::string_view name, std::uint64_t hash) {
  if (10 * (used_ + 1) > 7 * slots_.size()) {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.text) slots_[find({slot.text, slot.size}, slot.hash)] = slot;
  }
  const auto short_hash = static_cast<std::uint32_t>(hash);
  slots_[find(name, short_hash)] = {name.data(), static_cast<std::uint32_t>(name.size()), short_hash};
  ++used_;
}

/// Is it what snake_case makes of it? Most candidates are names of operators, which are.
FXX_INLINE bool is_snake_case(std::string_view text) {
  bool letters = false;
  for (char c : text) {
    const bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '_') return false;
    letters = letters || letter;
  }
  return letters && !(text[0] >= '0' && text[0] <= '9') && !text.starts_with("__");
}

FXX_INLINE std::string_view NameTable::create(std::string_view candidate, Arena& arena) {
  // Most candidates are names of operators that have had calls before: the next number, and nothing to look up.
  Recent& lately = recent(candidate.data());
  if (lately.base == candidate && lately.numbers && !lately.numbers->beyond) {
    Numbers& numbers = *lately.numbers;
    numbers.last = ++numbers.all;
    char ending[21] = "_";
    const char* const end = std::to_chars(ending + 1, std::end(ending), numbers.all).ptr;
    return arena.store(lately.base, {ending, static_cast<std::size_t>(end - ending)});
  }
  std::string made;
  if (!is_snake_case(candidate)) candidate = made = snake_case(candidate);
  // "x_3" is number 3 of the base "x". Whatever number a base had last, it counts on from there.
  std::string_view base = candidate;
  std::uint64_t number = 0;
  if (candidate.back() >= '0' && candidate.back() <= '9') {
    const std::size_t end = candidate.find_last_not_of("0123456789");
    if (end != candidate.npos && end > 0 && candidate[end] == '_' && candidate.size() - end < 19) {
      base = candidate.substr(0, end);
      for (char c : candidate.substr(end + 1)) number = number * 10 + static_cast<std::uint64_t>(c - '0');
    }
  }
  const bool numbered = base.size() != candidate.size();
  const bool plain = numbered && candidate[base.size() + 1] != '0';  // as it is written here; "x_03" is another name
  const std::uint64_t base_hash = hash_of(base);
  const auto hash_with = [&](std::string_view ending) { return hash_of(ending, base_hash); };
  std::uint64_t hash = hash_with(candidate.substr(base.size()));
  auto numbers = numbered ? numbers_.find({base, base_hash}) : numbers_.end();
  const bool known = plain ? numbers != numbers_.end() && (number <= numbers->second.all ||
                                                           (numbers->second.beyond && in_slots(candidate, hash)))
                           : in_slots(candidate, hash);
  if (!numbered && !known && !is_reserved_name(candidate)) {
    const std::string_view kept = arena.store(candidate);
    insert(kept, hash);
    return kept;
  }
  if (!numbered) numbers = numbers_.find({base, base_hash});
  if (numbers == numbers_.end()) numbers = numbers_.emplace(Base{arena.store(base), base_hash}, Numbers()).first;
  if (!numbered && made.empty()) lately = {numbers->first.text, &numbers->second};
  auto& [last, all, beyond] = numbers->second;
  std::string text;
  bool in_turn = plain && number == all + 1;
  if (!numbered || known) {
    number = last;
    text.assign(base) += '_';
    for (;;) {
      number = std::max(number, all) + 1;
      text.resize(base.size() + 1);
      char digits[20];
      text.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
      hash = hash_with(std::string_view(text).substr(base.size()));
      if (!beyond || !in_slots(text, hash)) break;
      if (number == all + 1) all = number;
    }
    candidate = text;
    in_turn = number == all + 1;
  }
  last = number;
  const std::string_view kept = arena.store(candidate);
  if (in_turn) {
    all = number;
  } else {
    insert(kept, hash);
    beyond = true;
  }
  return kept;
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
