#!/usr/bin/env python3
"""Writes the overload sets that follow from the operator table (include/fxx/ops/table.inc).

ops/functions.inc: FXX_FUNCTION(name, tag::operator...), one line per function name, for patterns and for dispatch by name.

Run it after changing the table; `--check` says whether the files are up to date instead (the tests do).
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "include" / "fxx"
LINE = re.compile(r'^FXX_OP\((\w+), (\w+), R"\((.*)\)", ([\w| ]+)\)$')
HEAD = "// Made from ops/table.inc by tools/generate_functions.py; change the table, not this file.\n// clang-format off\n"


def read_table():
    operators = []
    for number, line in enumerate((ROOT / "ops" / "table.inc").read_text().splitlines(), 1):
        if not line.startswith("FXX_OP"):
            continue
        match = LINE.match(line)
        if not match:
            sys.exit(f"ops/table.inc:{number}: not of the form FXX_OP(function, name, R\"(schema)\", traits)")
        operators.append(match.groups())
    return operators


def functions(operators):
    by_name = {}
    for function, tag, _, _ in operators:
        by_name.setdefault(function, []).append(tag)
    return HEAD + "".join(f"FXX_FUNCTION({name}, {', '.join('tag::' + t for t in tags)})\n" for name, tags in by_name.items())


def main():
    operators = read_table()
    files = {ROOT / "ops" / "functions.inc": functions(operators)}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT.parent.parent)} is not what ops/table.inc gives; run tools/generate_functions.py")
        sys.exit(bool(stale))
    for path in stale:
        path.write_text(files[path])
        print(f"wrote {path.relative_to(ROOT.parent.parent)}")


if __name__ == "__main__":
    main()
