#!/usr/bin/env python3
"""Measures what rules cost the compiler.

usage: compile.py FIGURE...     prints a JSON object: figure -> milliseconds, seconds or megabytes
       compile.py --shipped     prints the source that applies every rule set of fxx/rules/
Figures, for each COMPILER that is installed, g++ or clang++: COMPILER/rule and COMPILER/rule/memory (one rule more:
the slope of a line through files of 10, 20, 40, 80 and 160 rules), COMPILER/160 and COMPILER/160/memory (a whole file
of that many), COMPILER/shipped and COMPILER/shipped/memory (a file that applies every rule set of fxx/rules/),
COMPILER/library and COMPILER/library/memory (the same sets as the compiled library has them).
Files are light ones of a compiled build (FXX_COMPILED_LIB), compiled at -O0 from preprocessor to object. Times are
processor time, the least of three rounds in which all files take turns.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import rulesets  # noqa: E402

ROUNDS = 3
SIZES = (10, 20, 40, 80, 160)
INCLUDE = pathlib.Path(__file__).resolve().parent.parent / 'include'
CLANGS = ['clang++-20', 'clang++-19', 'clang++-18', 'clang++-17', 'clang++-16', 'clang++']


def is_new_enough(clang):
    """Version 16 or newer: what is older does not compile the library."""
    said = subprocess.run([clang, '-dumpversion'], capture_output=True, text=True).stdout
    return int(re.match(r'\d*', said).group() or 0) >= 16


def find_compilers():
    """The one that CXX names, and for the other kind what is found."""
    named = next((word for word in shlex.split(os.environ.get('CXX', '')) if pathlib.Path(word).stem != 'ccache'), None)
    is_clang = named and 'clang' in subprocess.run([named, '--version'], capture_output=True, text=True).stdout
    clang = next((c for c in ([named] if is_clang else CLANGS) if shutil.which(c) and is_new_enough(c)), None)
    return {'g++': named if named and not is_clang else 'g++'} | ({'clang++': clang} if clang else {})


def shipped_source():
    """A file that applies every rule set of the headers, and so every rule once: sets made of other sets are left out.
    """
    headers = sorted(h for h in (INCLUDE / 'fxx/rules').glob('*.hpp') if h.name not in ('all.hpp', 'library.hpp'))
    lines = [f'#include "fxx/rules/{header.name}"' for header in headers]
    lines += ['template <class T>', 'void use(const T& set, fxx::Graph& g) {',
              '  if constexpr (requires { set.apply(g); }) set.apply(g);', '}', 'inline void all(fxx::Graph& g) {']
    for header in headers:
        text = re.sub(r'^namespace (\w+) \{$.*?^\}  // namespace \1$', '', header.read_text(), flags=re.M | re.S)
        names = re.findall(r'^inline constexpr auto (\w+) = \[\] \{', text, re.M)
        lines += [f'  use(fxx::rules::{name}, g);' for name in names]
    return '\n'.join([*lines, '}', ''])


LIBRARY = """#include "fxx/ir/graph.hpp"
#include "fxx/rules/library.hpp"
void all(fxx::Graph& g) {
  for (const fxx::rewrite::AnyRuleset& set : fxx::rules::library()) set.apply(g);
}
"""


def compile_once(compiler, source, scratch):
    """(processor seconds, peak megabytes)"""
    command = [compiler, '-std=c++20', '-O0', '-DFXX_COMPILED_LIB', f'-I{INCLUDE}', '-c', source, '-o',
               str(scratch / 'one.o')]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f'bench: {" ".join(command)} failed:\n{errors[:2000]}')
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def slope(xs, ys):
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)


def measure(names):
    wanted = {name.split('/')[0] for name in names}
    compilers = {name: program for name, program in find_compilers().items() if name in wanted}
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        sources = {size: rulesets.as_header(size) for size in SIZES} | {'shipped': shipped_source(), 'library': LIBRARY}
        for name, text in sources.items():  # not as headers: what applies the rules is compiled too
            text = text.replace('#pragma once\n', '').replace('inline auto', 'auto').replace('inline void', 'void')
            (scratch / f'{name}.cpp').write_text(text + '\n')
        best = {}
        for _ in range(ROUNDS):
            for compiler, program in compilers.items():
                for name in sources:
                    cost = compile_once(program, str(scratch / f'{name}.cpp'), scratch)
                    best[compiler, name] = tuple(map(min, best.get((compiler, name), cost), cost))
        for compiler in compilers:
            for i, suffix in enumerate(('', '/memory')):
                values = [best[compiler, size][i] for size in SIZES]
                figures[f'{compiler}/rule{suffix}'] = slope(SIZES, values) * (1000 if i == 0 else 1)
                figures[f'{compiler}/160{suffix}'] = values[-1]
                for name in ('shipped', 'library'):
                    figures[f'{compiler}/{name}{suffix}'] = best[compiler, name][i]
            print(compiler, best, file=sys.stderr)
    return {name: figures[name] for name in names if name in figures}


if __name__ == '__main__':
    print(shipped_source() if sys.argv[1:] == ['--shipped'] else json.dumps(measure(sys.argv[1:])))
