#!/usr/bin/env python3
"""Results of checks that run while building, one small file each, so that an unchanged check is not run again.

usage: results.py FILE...    prints what failed, then `N passed, N failed`; exit status 1 when something failed
A check calls `store`. What it depends on besides its inputs it names in a dependency file, as a compiler does.
"""

import json
import os
import pathlib
import sys


def store(path, depfile, name, problems, **more):
    """Writes the result of one check. A failed one is dated to 1970, by which tests/run knows what to try again."""
    path, depfile = pathlib.Path(path), pathlib.Path(depfile)
    if not depfile.exists():  # a compiler that fails writes none
        depfile.write_text(f'{path}:\n')
    path.write_text(json.dumps({'name': name, 'problems': problems, **more}))
    if problems:
        os.utime(path, (0, 0))


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def summarise(results):
    """Prints the problems and the count; returns the exit status."""
    for result in results:
        for problem in result['problems']:
            print(f'FAILED {result["name"]}: {problem}')
    failed = sum(bool(r['problems']) for r in results)
    print(f'{len(results) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(summarise([load(path) for path in sys.argv[1:]]))
