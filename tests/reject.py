#!/usr/bin/env python3
"""Checks a file that must not compile: it is refused for the right reason, in few words, and its legal twin compiles.

A case is tests/reject/<folder>/<case>.cpp. Its first line reads `// expect: words`. As it stands the compiler must
refuse it with exactly one error, which has these words, in at most 30 lines of output, of rules in at most 20 of g++'s.
`// expect first: words` is for mistakes that LibTorch's headers have something to say about as well: the first error
has the words. Where the words are the compiler's own, ` | ` stands between those of g++ and those of clang. With
FXX_CONTROL defined, the file is a legal twin and must compile without a word, which shows that nothing else in it was
wrong.

usage: reject.py CASE RESULT DEPFILE COMPILER... -- PRECOMPILED... -- ARGUMENT...
Each compiler gets the same arguments. Where there is something precompiled (X.hpp.gch), the headers that the folder's
cases include, it reads that first; what fails with it counts only if it fails without.
"""

import itertools
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import results  # noqa: E402

MAX_LINES = 30
MAX_LINES_OF_RULES = 20  # from g++


def compile_case(command, case, *more):
    done = subprocess.run([*command, '-fsyntax-only', *more, case], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, 'LC_ALL': 'C'})
    return done.returncode, done.stdout


def problems_of(words, alone, case, command, depfile, result):
    compiler = pathlib.Path(command[0]).name
    status, output = compile_case(command, case, '-DFXX_CONTROL', '-MD', '-MF', depfile, '-MT', result)
    if status != 0 or output.strip():
        return [f'{compiler}: the legal twin (FXX_CONTROL) does not compile without a word:\n{output[:3000]}']
    status, output = compile_case(command, case)
    if status == 0:
        return [f'{compiler}: it compiles, but should not']
    problems = []
    errors = [line for line in output.splitlines() if re.search(r'\b(fatal )?error: ', line)]
    of_each = words.split(' | ')
    wanted = of_each[-1] if 'clang' in compiler else of_each[0]
    if not errors or wanted not in errors[0]:
        problems.append(f'{compiler}: the first error does not say "{wanted}"')
    if alone and len(errors) != 1:
        problems.append(f'{compiler}: {len(errors)} errors; one mistake should give one')
    lines = len(output.strip().splitlines())
    of_rules = pathlib.Path(case).parent.name == 'rewrite' or pathlib.Path(case).name.startswith(('fused_', 'verify_'))
    rule = of_rules and 'clang' not in compiler
    most = 2 * MAX_LINES if not alone else MAX_LINES_OF_RULES if rule else MAX_LINES
    if lines > most:
        problems.append(f'{compiler}: {lines} lines of output; at most {most} are borne')
    if problems:
        problems[-1] += '\n' + output[:3000]
    return problems


def main(argv):
    case, result, depfile, *rest = argv[1:]
    compilers, rest = rest[:rest.index('--')], rest[rest.index('--') + 1:]
    precompiled, arguments = rest[:rest.index('--')], rest[rest.index('--') + 1:]
    name = '/'.join(pathlib.Path(case).parts[-2:])
    first = pathlib.Path(case).read_text().split('\n', 1)[0]
    match = re.fullmatch(r'// expect( first)?: (.+)', first.strip())
    problems = []
    if not match:
        problems.append('the first line is not "// expect: words"')
    else:
        for compiler, headers in itertools.zip_longest(compilers, precompiled):
            def check(*more):
                return problems_of(match[2], not match[1], case, [compiler, *arguments, *more], depfile, result)
            first = ['-Winvalid-pch', '-include', headers.removesuffix('.gch')] if headers else []
            found = check(*first)
            problems += check() if found and first else found
    results.store(result, depfile, name, problems)


if __name__ == '__main__':
    main(sys.argv)
