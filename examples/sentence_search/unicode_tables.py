"""Prints unicode_tables.hpp, what wordpiece.hpp knows of Unicode, from Python's own unicodedata.

Needs Python 3.9 or newer and nothing else; the tables have the Unicode version of that Python (14.0 for 3.11).
Run: python3 unicode_tables.py > unicode_tables.hpp
"""

import unicodedata

WIDTH = 120
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)  # wordpiece.hpp decomposes these by arithmetic
COMPATIBILITY_IDEOGRAPHS = [(0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
# The blocks that BERT's authors list as "CJK characters", each of which becomes a word.
IDEOGRAPHS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)]
# Scripts that a reader of the table is likely to recognise; other characters are written as escapes.
SHOWN = ("LATIN", "GREEK", "CYRILLIC", "HIRAGANA", "KATAKANA")

HEAD = """\
// What wordpiece.hpp knows of Unicode {version}: categories as sorted ranges, lower case, accents. Written by
// unicode_tables.py; edit that one.
//
// Main names: unicode::marks, unicode::punctuation, unicode::removed, unicode::spaces, unicode::ideographs,
// unicode::lower_case, unicode::folds.
// Covered: the categories and the lower case of every code point; the canonical decompositions of every script except
// Hangul (arithmetic, not a table) and the CJK compatibility ideographs (a thousand rare duplicates, which stay as
// they are).
#pragma once

#include <string_view>

namespace unicode {{

struct Range {{
  char32_t first, last;  // both included
}};

/// Every `step`-th code point from `first` to `last` has the lower case `offset` further on.
struct LowerCase {{
  char32_t first, last;
  int step, offset;
}};

/// Every code point of `composed` is `base` with accents, in either case.
struct Fold {{
  std::u32string_view base, composed;
}};"""


def code_points():
    return (c for c in range(0x110000) if c not in SURROGATES)


def category(c):
    return unicodedata.category(chr(c))


def fold(c):
    """Canonical decomposition without its accents, in lower case."""
    bare = "".join(x for x in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(x) != "Mn")
    return "".join(x.lower() for x in bare)


def ranges(points):
    found = []
    for c in points:
        if found and found[-1][1] == c - 1:
            found[-1] = (found[-1][0], c)
        else:
            found.append((c, c))
    return found


def lower_case_runs(lower):
    """Upper case letters come as a block (A-Z) or as every second code point (Latin Extended)."""
    runs = []
    for c, to in sorted(lower.items()):
        for run in runs[-3:]:
            first, last, step, offset = run
            gap = c - last
            if offset == to - c and (gap == step or (first == last and gap in (1, 2))):
                run[1], run[2] = c, gap
                break
        else:
            runs.append([c, c, 1, to - c])
    return runs


def literal(text):
    def spell(x):
        # A character that is not its own normal form would not survive every editor.
        plain = ord(x) < 0x80 or (unicodedata.name(x, "").startswith(SHOWN) and unicodedata.normalize("NFC", x) == x)
        return x if plain else f"\\u{ord(x):04X}" if ord(x) < 0x10000 else f"\\U{ord(x):08X}"

    return [spell(x) for x in text]


def print_table(comment, declaration, items):
    print(f"\n/// {comment}\ninline constexpr {declaration}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            print(line)
            line = "   "
        line += f" {item},"
    print(line + "\n};")


def print_ranges(comment, name, found):
    print_table(comment, f"Range {name}", (f"{{0x{a:X}, 0x{b:X}}}" for a, b in found))


def print_folds(folds):
    def item(base, composed):
        """One initialiser; a long string breaks into several lines."""
        parts, line = [], f'{{U"{"".join(literal(base))}", U"'
        for x in literal(composed):
            if len(line) + len(x) + 8 > WIDTH:
                parts.append(line + '"')
                line = 'U"'
            line += x
        return "\n     ".join(parts + [line + '"}'])

    print_table("Letters with accents by the letter without, the way BERT lower-cases and strips; in no order.",
                "Fold folds", (item(base, composed) for base, composed in sorted(folds.items())))


def main():
    lower, folds = {}, {}
    for c in code_points():
        if c in HANGUL or category(c) == "Mn" or any(a <= c <= b for a, b in COMPATIBILITY_IDEOGRAPHS):
            continue
        folded = fold(c)
        if folded == chr(c):
            continue
        if folded == chr(c).lower():
            lower[c] = ord(folded)
        else:
            folds.setdefault(folded, []).append(chr(c))

    print(HEAD.format(version=unicodedata.unidata_version))
    print_ranges("Accents and other marks that take no room of their own (category Mn).", "marks",
                 ranges(c for c in code_points() if category(c) == "Mn"))
    print_ranges("Category P, and the ASCII symbols, which BERT counts as punctuation.", "punctuation",
                 ranges(c for c in code_points()
                        if category(c)[0] == "P" or (0x20 < c < 0x7F and not chr(c).isalnum())))
    print_ranges("Control, format and private characters (Cc, Cf, Co), and U+FFFD, which stands for unreadable bytes.",
                 "removed", ranges(c for c in code_points()
                                   if (category(c) in ("Cc", "Cf", "Co") and chr(c) not in "\t\n\r") or c == 0xFFFD))
    print_ranges("What separates words.", "spaces",
                 ranges(c for c in code_points() if chr(c) in "\t\n\r" or category(c)[0] == "Z"))
    print_ranges("Ideographs, each of which is a word.", "ideographs", IDEOGRAPHS)
    print_table("Upper case letters without accents.", "LowerCase lower_case",
                (f"{{0x{a:X}, 0x{b:X}, {step}, {offset}}}" for a, b, step, offset in lower_case_runs(lower)))
    print_folds({base: "".join(composed) for base, composed in folds.items()})
    print("\n}  // namespace unicode")


if __name__ == "__main__":
    main()
