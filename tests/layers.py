#!/usr/bin/env python3
"""Checks the include layering of the library and the form of its files, one line a breach; and checks itself.

usage: layers.py INCLUDE_FOLDER      prints the breaches, then `N passed, N failed`
Every kind of breach is first made in a scratch tree, where it must be found: a check that finds nothing anywhere fails.
"""

import pathlib
import re
import sys
import tempfile

# What a folder of include/fxx may include directly, as in docs/design.md; what those may include is allowed as well.
# 'runtime/abi' stands for the files whose path starts so.
MAY_INCLUDE = {
    'kernels': set(),
    'meta': set(),
    'runtime': set(),
    'ir': {'meta'},
    'ops': {'ir', 'meta'},
    'viz': {'ir', 'runtime'},
    'io': {'ops', 'ir', 'meta'},
    'passes': {'ops', 'ir'},
    'trace': {'ops', 'ir', 'runtime/backtrace'},
    'rewrite': {'trace', 'passes', 'ops', 'ir'},
    'rules': {'rewrite'},
    'codegen': {'rules', 'passes', 'ir', 'ops', 'runtime/abi', 'kernels/expression', 'kernels/tile'},
    'torch': {'codegen', 'rules', 'rewrite', 'trace', 'passes', 'io', 'ops', 'viz', 'ir', 'meta', 'runtime', 'kernels'},
}
OPEN = {'config.hpp', 'fwd.hpp', 'error.hpp', 'version.hpp'}  # open to all but kernels/, which includes nothing of fxx
LIGHT_UMBRELLAS = {'fxx.hpp', 'impl.hpp'}
UMBRELLAS = LIGHT_UMBRELLAS | {'torch.hpp', 'torch/impl.hpp'}  # for users; no header of ours includes one
WING = 'torch'  # the only folder that may include LibTorch
LIBTORCH = re.compile(r'(torch|ATen|c10|caffe2)/')
WHOLE_LIBTORCH = {'torch/torch.h', 'torch/all.h', 'torch/extension.h'}
COSTLY = {'iostream', 'regex', 'filesystem', 'functional', 'complex', 'sstream'}  # in .ipp files only


def allowed(folder, seen=()):
    """Everything that `folder` may include, itself too."""
    if folder in seen:
        sys.exit('layers.py: the table has a cycle: ' + ' -> '.join((*seen, folder)))
    result = {folder}
    for other in MAY_INCLUDE.get(folder, ()):
        result |= allowed(other, (*seen, folder)) if other in MAY_INCLUDE else {other}
    return result


ALLOWED = {folder: allowed(folder) for folder in MAY_INCLUDE}


def includes_of(text):
    """Pairs of line number and included name."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match[1]


def check_include(path, name):
    """What is wrong with including `name` in `path` (both relative), or None."""
    folder = path.split('/')[0] if '/' in path else None
    if name in WHOLE_LIBTORCH:
        return f'<{name}> is the whole of LibTorch, 20 s a file; include the narrow headers'
    if LIBTORCH.match(name):
        if folder == WING or path == 'torch.hpp':
            return None
        return f'<{name}> in a light layer; only {WING}/ may include LibTorch'
    if path.endswith('.hpp') and name in COSTLY and folder != WING:
        return f'<{name}> costs every user; include it in the .ipp'
    if not name.startswith('fxx/'):
        return None
    target = name[4:]
    if path in UMBRELLAS:
        heavy = target.startswith((WING + '/', 'torch.hpp'))
        return f'{target} would bring LibTorch into {path}' if heavy and path in LIGHT_UMBRELLAS else None
    if target in UMBRELLAS:
        return f'{target} is an umbrella, for users; include what is needed'
    if folder is None:
        return None if target in OPEN else f'{path} is open to all layers and may include only {sorted(OPEN)}'
    parts = target.split('/')
    if 'detail' in parts[:-1] and parts[0] != folder:
        return f'{target} is private to {parts[0]}/'
    if target in OPEN and folder != 'kernels':
        return None
    if any(target.startswith(a + '/' if a in MAY_INCLUDE else a) for a in ALLOWED[folder]):
        return None
    return f'{folder}/ may not include {target}; allowed: {", ".join(sorted(ALLOWED[folder] - {folder})) or "nothing"}'


HEADER_ONLY = re.compile(r'^#if defined\(FXX_HEADER_ONLY\)$.*?^#endif$', re.MULTILINE | re.DOTALL)


def reached(root, start):
    """Files that `start` includes in a compiled build, directly or through others."""
    found, todo = set(), [start]
    while todo:
        path = todo.pop()
        if path in found or not (root / path).is_file():
            continue
        found.add(path)
        todo += [name[4:] for _, name in includes_of(HEADER_ONLY.sub('', (root / path).read_text()))
                 if name.startswith('fxx/')]
    return found


def breaches(include):
    root = include / 'fxx'
    found = []
    files = sorted(p for p in root.rglob('*') if p.is_file())
    for file in files:
        path = file.relative_to(root).as_posix()
        folder = path.split('/')[0] if '/' in path else None
        text = file.read_text()
        if file.suffix not in ('.hpp', '.ipp', '.inc'):
            found.append(f'{path}:1: an include folder holds .hpp, .ipp and .inc files')
        if folder is not None and folder not in MAY_INCLUDE:
            found.append(f'{path}:1: {folder}/ is not in the table of tests/layers.py; give it its floor there')
            continue
        if folder is None and path not in OPEN | UMBRELLAS:
            found.append(f'{path}:1: no place of its own; put it into a folder, or into the lists of tests/layers.py')
        if not text.startswith('//'):
            found.append(f'{path}:1: the first line does not say what the file is; start with a // comment')
        if file.suffix != '.inc' and not re.search(r'^#pragma once$', text, re.MULTILINE):
            found.append(f'{path}:1: there is no #pragma once')
        for number, name in includes_of(text):
            problem = check_include(path, name)
            if problem:
                found.append(f'{path}:{number}: {problem}')
            elif name.startswith('fxx/') and not (root / name[4:]).is_file():
                found.append(f'{path}:{number}: there is no {name}')
    # A compiled build has only the bodies that impl.hpp reaches.
    for impl in ('impl.hpp', f'{WING}/impl.hpp'):
        if (root / impl).is_file():
            bodies = {p.relative_to(root).as_posix() for p in files if p.suffix == '.ipp'}
            for path in sorted(b for b in bodies - reached(root, impl) if b.startswith(WING + '/') == ('/' in impl)):
                found.append(f'{path}:1: {impl} does not reach these bodies, so a compiled build lacks them')
    return found


GOOD = '// A header.\n#pragma once\n'
# A file that breaks one rule, its text, and words of the breach.
WRONG = [
    ('ir/a.hpp', GOOD + '#include "fxx/ops/b.hpp"\n', 'ir/ may not include ops/b.hpp'),
    ('runtime/a.hpp', GOOD + '#include "fxx/ir/b.hpp"\n', 'runtime/ may not include ir/b.hpp'),
    ('codegen/a.hpp', GOOD + '#include "fxx/runtime/process.hpp"\n', 'codegen/ may not include runtime/process.hpp'),
    ('kernels/a.hpp', GOOD + '#include "fxx/config.hpp"\n', 'kernels/ may not include config.hpp'),
    ('error.hpp', GOOD + '#include "fxx/ir/b.hpp"\n', 'error.hpp is open to all layers'),
    ('ir/a.hpp', GOOD + '#include <ATen/core/Tensor.h>\n', 'only torch/ may include LibTorch'),
    ('ir/a.hpp', GOOD + '#include <c10/core/Device.h>\n', 'only torch/ may include LibTorch'),
    ('fxx.hpp', GOOD + '#include "fxx/torch/b.hpp"\n', 'would bring LibTorch into fxx.hpp'),
    ('fxx.hpp', GOOD + '#include <ATen/core/Tensor.h>\n', 'only torch/ may include LibTorch'),
    ('torch/a.hpp', GOOD + '#include <torch/torch.h>\n', 'the whole of LibTorch'),
    ('torch/a.hpp', GOOD + '#include <torch/all.h>\n', 'the whole of LibTorch'),
    ('ops/a.hpp', GOOD + '#include "fxx/fxx.hpp"\n', 'is an umbrella'),
    ('torch/a.hpp', GOOD + '#include "fxx/torch.hpp"\n', 'is an umbrella'),
    ('ops/a.hpp', GOOD + '#include "fxx/ir/detail/b.hpp"\n', 'private to ir/'),
    ('ir/a.hpp', GOOD + '#include "fxx/ir/nowhere.hpp"\n', 'there is no fxx/ir/nowhere.hpp'),
    ('ir/a.hpp', '#pragma once\n', 'does not say what the file is'),
    ('ir/a.hpp', '// A header.\n', 'no #pragma once'),
    ('ir/b.ipp', '// Bodies.\n', 'no #pragma once'),
    ('ir/a.ipp', GOOD, 'impl.hpp does not reach these bodies'),
    ('impl.hpp', GOOD + '#include "fxx/ir/b.hpp"\n', 'impl.hpp does not reach these bodies'),
    ('ir/a.h', GOOD, 'holds .hpp, .ipp and .inc files'),
    ('other/a.hpp', GOOD, 'is not in the table'),
    ('other.hpp', GOOD, 'no place of its own'),
    *[('ir/a.hpp', GOOD + f'#include <{name}>\n', f'<{name}> costs every user') for name in sorted(COSTLY)],
]
# A tree that keeps every rule.
RIGHT = {
    'config.hpp': GOOD, 'version.hpp': GOOD, 'impl.hpp': GOOD + '#include "fxx/ir/b.ipp"\n',
    'fxx.hpp': GOOD + '#include "fxx/ops/b.hpp"\n',
    'torch.hpp': GOOD + '#include "fxx/fxx.hpp"\n#include "fxx/torch/b.hpp"\n',
    'ir/b.hpp': GOOD + '#include "fxx/config.hpp"\n#include "fxx/ir/detail/b.hpp"\n#include "fxx/meta/b.hpp"\n'
                '#if defined(FXX_HEADER_ONLY)\n#include "fxx/ir/b.ipp"\n#endif\n',
    'ir/b.ipp': GOOD + '#include <sstream>\n#include "fxx/ir/b.hpp"\n', 'ir/detail/b.hpp': GOOD, 'meta/b.hpp': GOOD,
    'ops/b.hpp': GOOD + '#include "fxx/ir/b.hpp"\n', 'ops/b.inc': '// A list.\n', 'runtime/abi.hpp': GOOD,
    'runtime/process.hpp': GOOD, 'kernels/b.hpp': GOOD,
    'codegen/b.hpp': GOOD + '#include "fxx/runtime/abi.hpp"\n#include "fxx/meta/b.hpp"\n',
    'torch/b.hpp': GOOD + '#include <ATen/core/Tensor.h>\n#include <functional>\n#include "fxx/codegen/b.hpp"\n',
}


def self_test():
    """Failures of the checks themselves."""
    failures = []
    for path, text, words in [(None, None, None), *WRONG]:
        with tempfile.TemporaryDirectory() as scratch:
            tree = dict(RIGHT)
            if path:
                tree[path] = text
            for name, content in tree.items():
                file = pathlib.Path(scratch) / 'fxx' / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            found = breaches(pathlib.Path(scratch))
            if path is None and found:
                failures.append(f'self-test: a tree that keeps every rule is refused: {found}')
            elif path and not (len(found) == 1 and words in found[0] and path in found[0]):
                failures.append(f'self-test: "{words}" in {path} is not found alone, but: {found}')
    return failures, 1 + len(WRONG)


def main(argv):
    failures, checks = self_test()
    found = breaches(pathlib.Path(argv[1]))
    for line in failures + found:
        print(line)
    failed = len(failures) + bool(found)
    print(f'{checks + 1 - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
