#!/usr/bin/env python3
"""Checks that no function of kernels/functions.inc takes its vectors apart, element by element.

usage: instructions.py COMPILER INCLUDE    prints `N passed, N failed`: one check for each width of vectors
What compiles and is right may still be ten times as slow: g++ puts operations that it does not have for a vector
together from its elements, without a word. Each function is called in a product that goes into a sum, as in generated
modules and with their flags; halves may be taken apart, which is how double precision is computed with.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = ['-std=c++20', '-O2', '-fno-math-errno', '-fno-trapping-math']
OF_ELEMENTS = re.compile(r'\tv?(?:valign|punpck|unpck|pextr|pinsr|extractps|insertps|permil|shufps)')
SOURCE = """#include "fxx/kernels/loops.hpp"
using namespace fxx::kernels;
template <Function F>
[[gnu::noinline]] void of(const float* a, const float* b, const float* c, float* out) {
  if constexpr (requires { store(out, Call<F>::of(load(a))); })
    store(out, unfused(apply<F>(load(a)) * load(b)) + load(c));
  else if constexpr (requires { store(out, Call<F>::of(load(a), load(b))); })
    store(out, unfused(apply<F>(load(a), load(b)) * load(b)) + load(c));
}
"""


def functions(include):
    text = (include / 'fxx/kernels/expression.hpp').read_text()
    body = re.search(r'enum class Function : \S+ \{(.*?)\};', text, re.S).group(1)
    return re.findall(r'^\s*(\w+),?', re.sub(r'//.*', '', body), re.M)


def problems(compiler, include, processor, names):
    """What is wrong for this processor, a line each."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / 'functions.cpp', pathlib.Path(folder) / 'functions.s'
        source.write_text(SOURCE + ''.join(
            f'template void of<Function::{name}>(const float*, const float*, const float*, float*);\n'
            for name in names))
        done = subprocess.run([compiler, *FLAGS, f'-march={processor}', f'-I{include}', '-S', source, '-o', out],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            return [done.stderr[:2000]]
        text = out.read_text()
    bodies = re.findall(r'^_Z2ofILN3fxx7kernels8FunctionE(\d+)E\S*:\n(.*?)^\t\.size', text, re.M | re.S)
    if len(bodies) != len(names):
        return [f'{len(bodies)} of {len(names)} functions were found in what the compiler wrote']
    wrong = {names[int(number)]: sorted(set(OF_ELEMENTS.findall(body))) for number, body in bodies}
    return [f'{name} takes vectors apart: {" ".join(w.strip() for w in words)}' for name, words in wrong.items() if words]


def main(compiler, include):
    names = functions(pathlib.Path(include))
    found = {processor: problems(compiler, include, processor, names) for processor in ('x86-64-v3', 'x86-64-v4')}
    for processor, lines in found.items():
        for line in lines:
            print(f'FAILED {processor}: {line}')
    failed = sum(bool(lines) for lines in found.values())
    print(f'{len(found) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
