#!/usr/bin/env python3
"""Finds LibTorch: an unpacked one or the folder of an installed torch package. Nothing is imported or written.

usage: find_torch.py [FOLDER]
Looks in FOLDER only, when it is given; else in Torch_DIR, in CMAKE_PREFIX_PATH, and in the torch of the `python3` that
stands first in PATH. Prints the folder and the version, one a line; exit status 1 with the reason when there is none.
"""

import os
import pathlib
import re
import subprocess
import sys

VERSION = '2.13'  # major and minor, the one that the library is written and tested against
MARK = pathlib.PurePath('include/torch/csrc/api/include/torch/version.h')  # stands in every LibTorch


def version_in(folder):
    """The version that the headers in `folder` state, or None."""
    for header in ('include/torch/headeronly/version.h', str(MARK)):
        try:
            text = (folder / header).read_text(errors='replace')
        except OSError:
            continue
        numbers = [re.search(rf'#define TORCH_VERSION_{part} (\d+)', text) for part in ('MAJOR', 'MINOR', 'PATCH')]
        if all(numbers):
            return '.'.join(n[1] for n in numbers)
    return None


def torch_of_python():
    """The folder of the torch package that `python3` would import, or None."""
    code = ('import importlib.util as u, sys; s = u.find_spec("torch"); '
            'sys.stdout.write(s.submodule_search_locations[0] if s and s.origin else "")')
    try:
        done = subprocess.run(['python3', '-c', code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=60,
                              env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout or None


def candidates(argv):
    """Pairs of where a folder was named and the folder."""
    if len(argv) > 1 and argv[1]:
        yield 'the folder given', argv[1]
        return
    if os.environ.get('Torch_DIR'):
        yield 'Torch_DIR', os.environ['Torch_DIR']
    for path in re.split('[:;]', os.environ.get('CMAKE_PREFIX_PATH', '')):
        if path:
            yield 'CMAKE_PREFIX_PATH', path
    package = torch_of_python()
    if package:
        yield "python3's torch", package


def main(argv):
    reasons = []
    for source, named in candidates(argv):
        start = pathlib.Path(named).expanduser().absolute()
        # Torch_DIR and CMAKE_PREFIX_PATH may name <folder>/share/cmake/Torch or <folder>/share/cmake.
        folder = next((f for f in (start, start / 'torch', *list(start.parents)[:3]) if (f / MARK).is_file()), None)
        if folder is None:
            if source != 'CMAKE_PREFIX_PATH':  # which is mostly about other packages
                reasons.append(f'{source}, {named}, holds no LibTorch')
            continue
        version = version_in(folder)
        if not version or not version.startswith(VERSION + '.'):
            reasons.append(f'{source}, {folder}, is LibTorch {version}, not {VERSION}')
        elif not (folder / 'lib/libtorch_cpu.so').is_file():
            reasons.append(f'{source}, {folder}, has no lib/libtorch_cpu.so')
        else:
            print(folder, version, sep='\n')
            return 0
    print('; '.join(reasons) or 'neither Torch_DIR, CMAKE_PREFIX_PATH nor python3 has a LibTorch', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main(sys.argv))
