#!/usr/bin/env python3
"""Lists the files under a folder that end in one of the given suffixes, sorted, one a line, which Meson cannot do.

usage: list.py FOLDER SUFFIX...      e.g.  list.py include .hpp .ipp
"""

import pathlib
import sys

root = pathlib.Path(sys.argv[1])
for path in sorted(root.rglob('*')):
    if path.name.endswith(tuple(sys.argv[2:])):
        print(path.relative_to(root).as_posix())
