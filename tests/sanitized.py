#!/usr/bin/env python3
"""Checks that the sanitizers report what kernels do wrong: kernels are broken on purpose, one fault each.

usage: sanitized.py PROGRAM SOURCE_FOLDER       prints `N passed, N failed`
PROGRAM holds the tests of compiled modules and the runtimes of the sanitizers (tests/meson.build), and finds in its
environment the flags that its modules are compiled with. It is run with a copy of the headers of kernels (FXX_INCLUDE)
in which one place is another, and must end with a report about that. Without a fault it must pass.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CASE = 'buffers between kernels*'  # of torch/compile/calls.cpp
# Memory that was forbidden: "unknown-crash" where the first of the bytes that a vector touches are not.
POISONED = 'AddressSanitizer: (use-after-poison|unknown-crash)'
# What is wrong; the header, its words and what stands in their place; what the report says, as a regular expression.
FAULTS = [
    ('products write whole vectors behind the last column, past a buffer in the arena', 'gemm.hpp',
     'tile.template finish<Last>(', 'tile.template finish<lanes>(', POISONED),
    ('products read a vector too far, past a packed constant', 'gemm.hpp',
     'load_some<Last>(panel + (Vectors - 1) * lanes)', 'load_some<Last>(panel + Vectors * lanes)', POISONED),
    ('loops write a whole vector where less is left, past a result', 'loops.hpp',
     'if (i < mine.end) each(i, Width<N % lanes>{});', 'if (i < mine.end) each(i, Width<lanes>{});',
     'AddressSanitizer: heap-buffer-overflow'),
    ('an int overflows', 'parallel.hpp',
     '++runs_;', 'if (2147483647 + size() > size()) ++runs_;', 'runtime error: signed integer overflow'),
]


def run(program, headers):
    done = subprocess.run([program, '--source-file=*/compile/calls.cpp', f'-tc={CASE}'],
                          env={**os.environ, 'FXX_INCLUDE': str(headers)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    return done.returncode, done.stdout


def problem_of(program, source, fault):
    with tempfile.TemporaryDirectory() as folder:
        headers = pathlib.Path(folder)
        shutil.copytree(source / 'include/fxx/kernels', headers / 'fxx/kernels')
        if not fault:
            status, output = run(program, headers)
            return None if status == 0 else f'without a fault it fails:\n{output[-3000:]}'
        what, header, words, by, report = fault
        file = headers / 'fxx/kernels' / header
        text = file.read_text()
        if text.count(words) != 1:
            return f'{header} has "{words}" {text.count(words)} times; the fault "{what}" needs it once'
        file.write_text(text.replace(words, by))
        status, output = run(program, headers)
        if status != 0 and re.search(report, output):
            return None
        return f'{what}: no report says "{report}"; status {status}:\n{output[-3000:]}'


def main(program, source):
    problems = [problem_of(program, pathlib.Path(source), fault) for fault in [None, *FAULTS]]
    for problem in filter(None, problems):
        print(problem)
    failed = sum(problem is not None for problem in problems)
    print(f'{len(problems) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
