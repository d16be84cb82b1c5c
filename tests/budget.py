#!/usr/bin/env python3
"""Compile budgets: every header compiles alone in a compiled build, and what that may cost a user in memory, which
repeats to within 1 %.

usage: budget.py measure RESULT DEPFILE HEADER COMPILER ARGUMENT...   compiles a file that includes HEADER alone
       budget.py check RESULT...      prints the table; exit status 1 when a limit is passed
HEADER `std` is the yardstick: <string> <variant> <vector> <memory>; rules_N.hpp has N rules and applies them. Times are
processor time, shown as a ratio to the yardstick's and never checked.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import results  # noqa: E402

# Headers (the first pattern that fits counts) and the most megabytes that compiling one may take, with g++ 12, in a
# compiled build (FXX_COMPILED_LIB), syntax only.
# Measured, and a tenth on top. A graph and the table of operators take 105 MB together, proxies with the members of a
# tensor 30 MB more than a graph, rules 5 to 50 MB, the larger sets that ship up to 95; most of what the wing takes are
# LibTorch's own headers.
LIMITS = [
    (r'rules_10\.hpp', 175),
    (r'rules_160\.hpp', 237),
    (r'shipped_rules\.hpp', 400),
    (r'fxx/torch\.hpp', 1490),
    (r'fxx/torch/(nn|containers|functional|script)\.hpp', 1430),
    (r'fxx/torch/.*', 1080),
    (r'fxx/fxx\.hpp', 340),
    (r'fxx/rules/all\.hpp', 332),
    (r'fxx/rules/algebra\.hpp', 282),
    (r'fxx/rules/.*', 225),
    (r'fxx/rewrite/replace_pattern\.hpp', 188),  # with proxies
    (r'fxx/rewrite/.*', 200),
    (r'fxx/trace/.*', 145),
    (r'fxx/codegen/.*', 153),
    (r'fxx/ir/detail/storage\.hpp', 150),
    (r'fxx/(ir|ops|passes|viz)/.*', 115),
    (r'fxx/runtime/pool\.hpp', 107),
    (r'fxx/(io|runtime)/.*', 85),
    (r'fxx/[^/]*\.hpp', 64),
    (r'fxx/meta/.*', 46),
    (r'fxx/kernels/.*', 36),
]
ONE_RULE_MORE = 0.46  # megabytes, on the way from rules_10.hpp to rules_160.hpp
GXX = 12  # the limits hold for this major version


def limit_of(header):
    return next((limit for pattern, limit in LIMITS if re.fullmatch(pattern, header)), None)


def measure(result, depfile, header, *command):
    includes = ['string', 'variant', 'vector', 'memory'] if header == 'std' else [header]
    with tempfile.TemporaryDirectory() as scratch:
        source, log = os.path.join(scratch, 'one.cpp'), os.path.join(scratch, 'log')
        pathlib.Path(source).write_text(''.join(f'#include <{i}>\n' for i in includes))
        with open(log, 'w') as output:
            child = subprocess.Popen([*command, '-fsyntax-only', '-MD', '-MF', depfile, '-MT', result, source],
                                     stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        text = pathlib.Path(log).read_text()
    # The scratch file is gone when the build looks at what this depends on.
    if os.path.exists(depfile):
        pathlib.Path(depfile).write_text(pathlib.Path(depfile).read_text().replace(source, ''))
    megabytes, limit = usage.ru_maxrss / 1024, limit_of(header)
    problems = []
    if child.returncode != 0:
        problems = [f'it does not compile:\n{text[:2000]}']
    elif limit is None and header != 'std':
        problems = ['there is no limit for it in tests/budget.py']
    said = subprocess.run([command[0], '-dumpversion'], capture_output=True, text=True).stdout
    results.store(result, depfile, header, problems, megabytes=megabytes, seconds=usage.ru_utime + usage.ru_stime,
                  limit=limit, version=int(said.split('.')[0]))


def check(*files):
    measured = [results.load(f) for f in files]
    yardstick = next(m for m in measured if m['name'] == 'std')
    major = yardstick['version']  # of the compiler that measured, which CXX may have named
    print(f'{"header":44} {"MB":>5} {"limit":>5}  ratio to std of processor time')
    for m in sorted(measured, key=lambda m: m['megabytes'], reverse=True):
        if not m['problems'] and m['limit'] and m['megabytes'] > m['limit'] and major == GXX:
            m['problems'] = [f'compiling it takes {m["megabytes"]:.0f} MB; at most {m["limit"]} MB are allowed']
        print(f'{m["name"]:44} {m["megabytes"]:5.0f} {m["limit"] or "-":>5}  {m["seconds"] / yardstick["seconds"]:.1f}')
    sets = {m['name']: m for m in measured if m['name'].startswith('rules_') and not m['problems']}
    if len(sets) == 2:
        more = (sets['rules_160.hpp']['megabytes'] - sets['rules_10.hpp']['megabytes']) / 150
        print(f'{"one rule more":44} {more:5.2f} {ONE_RULE_MORE:>5}')
        if more > ONE_RULE_MORE and major == GXX:
            sets['rules_160.hpp']['problems'] = [f'one rule more takes {more:.2f} MB; at most {ONE_RULE_MORE} MB are '
                                                 'allowed']
    if major != GXX:
        print(f'note: the limits are for g++ {GXX}; this is g++ {major}, so they are shown and not checked')
    return results.summarise(measured)


if __name__ == '__main__':
    sys.exit({'measure': measure, 'check': check}[sys.argv[1]](*sys.argv[2:]))
