// Bodies of codegen/way.hpp.
#pragma once

#include <charconv>

#include "fxx/codegen/way.hpp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::string plans::Way::to_string() const {
  std::string text;
  const auto add = [&](std::string_view word) { (text += text.empty() ? "" : " ") += word; };
  if (method != Method::estimated) add(enumerator_name(method));
  if (tile.rows) add(std::to_string(tile.rows) + "x" + std::to_string(tile.vectors));
  if (at_once) add(std::to_string(at_once) + "_at_once");
  if (by_rows) add("by_rows");
  if (distance != Distance::estimated) add(enumerator_name(distance));
  if (packed != Packed::estimated) add(enumerator_name(packed));
  if (alone) add("alone");
  return text.empty() ? "estimated" : text;
}

FXX_INLINE std::optional<plans::Way> way_of_text(std::string_view text) {
  using plans::Way;
  Way way;
  const auto take_number = [](std::string_view& word) {
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    word.remove_prefix(static_cast<std::size_t>(end - word.data()));
    return error == std::errc() ? value : 0;
  };
  const auto take_name = [](std::string_view word, auto& value, auto last) {
    for (int i = 1; i <= static_cast<int>(last); ++i)
      if (const auto named = static_cast<std::remove_reference_t<decltype(value)>>(i); enumerator_name(named) == word) {
        value = named;
        return true;
      }
    return false;
  };
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.empty()) return {};
    if (word == "by_rows") {
      way.by_rows = true;
    } else if (word == "alone") {
      way.alone = true;
    } else if (word[0] >= '1' && word[0] <= '9') {
      const int number = take_number(word);
      if (word == "_at_once") {
        way.at_once = number;
      } else if (word.starts_with('x')) {
        word.remove_prefix(1);
        way.tile = {number, take_number(word)};
      }
    } else if (!take_name(word, way.method, Way::Method::library) &&
               !take_name(word, way.distance, Way::Distance::far)) {
      take_name(word, way.packed, Way::Packed::bfloat16);
    }
  }
  // Whatever was not understood is missing now. No processor has registers for more than a tile of 32 vectors.
  if (way.to_string() != text || (way.tile.rows && !kernels::fits_registers(way.tile, 32))) return {};
  return way;
}

}  // namespace fxx::inline FXX_ABI
