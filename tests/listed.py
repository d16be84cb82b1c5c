#!/usr/bin/env python3
"""Checks that every .cpp file of the tests, examples and benchmarks is built by something: Meson builds what is listed.

usage: listed.py SOURCE_FOLDER BUILD_FOLDER
"""

import json
import pathlib
import sys

source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
built = set()
for target in json.loads((build / 'meson-info/intro-targets.json').read_text()):
    for group in target['target_sources']:
        built |= {pathlib.Path(f).resolve() for f in group.get('sources', [])}
elsewhere = {'tests/reject', 'tests/consumer'}  # compiled by scripts, which take what is there
missing = []
for file in sorted(f for folder in ('tests', 'examples', 'bench') for f in (source / folder).rglob('*.cpp')):
    path = file.relative_to(source).as_posix()
    if file.resolve() not in built and not any(path.startswith(e + '/') for e in elsewhere):
        missing.append(f'{path} is in no list of {path.split("/")[0]}/meson.build, so nothing builds it')
print(*missing, sep='\n' if missing else '')
print(f'{int(not missing)} passed, {int(bool(missing))} failed')
sys.exit(bool(missing))
