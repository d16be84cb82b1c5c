#!/usr/bin/env python3
"""Adds up what the tests of one `meson test` printed: a line a test, the output of those that failed, the count last.

Many cases are counted several times: plain, with sanitizers, for other instructions, with another compiler. How many do is
said, and so is what was skipped or could not be checked.

usage: summary.py TESTLOG_JSON STATUS       exit status 1 when something failed; STATUS is that of `meson test`
"""

import json
import pathlib
import re
import sys

AGAIN = re.compile(r'_sanitized$|^sanitized_(?!reports)|_threads$|^clang_(?!light|bodies|wing)'
                   r'|^kernels_(avx2|avx512|bfloat16|vnni|vnni512|aarch64)$')
COUNTS = (
    re.compile(r'^\[doctest\] test cases: +\d+ \| +(?P<passed>\d+) passed \| +(?P<failed>\d+) failed', re.MULTILINE),
    re.compile(r'^(?P<passed>\d+) passed, (?P<failed>\d+) failed$', re.MULTILINE),
)


def plain(text):
    return re.sub(r'\x1b\[[0-9;]*m', '', text)


def main(log, status):
    passed = failed = again = 0
    failures, notes, rows = [], [], []
    for line in pathlib.Path(log).read_text().splitlines():
        test = json.loads(line)
        name = test['name'].split(' - ')[-1].split(':')[-1]
        output = plain(test.get('stdout') or '')
        found = [m for pattern in COUNTS for m in pattern.finditer(output)]
        good, bad = (int(found[-1]['passed']), int(found[-1]['failed'])) if found else (0, 0)
        if test['result'] != 'OK' and bad == 0 or not found:
            bad += 1  # it crashed, hung, or never said how it went
        if bad:
            failures.append((name, test, output))
        passed, failed = passed + good, failed + bad
        again += good + bad if AGAIN.search(name) else 0
        of_test = re.findall(r'^note: .*$', output, re.MULTILINE)
        notes += [f'{name}: {m}' for m in of_test]
        skipped = sum(m.startswith('note: skipped: ') for m in of_test)
        rows.append(f'  {"FAILED" if bad else "ok":6}  {name:26} {good:5} passed, {bad} failed'
                    + (f', {skipped} skipped' if skipped else ''))
    for name, test, output in failures:
        print(f'--- {name}: {test["result"]}, exit status {test["returncode"]}')
        print(output.rstrip()[-20000:])
        errors = plain(test.get('stderr') or '').rstrip()
        if errors:
            print(errors[-8000:])
    print(*sorted(rows), sep='\n')
    for note in notes:
        print(note)
    unchecked = [note for note in notes if 'note: skipped: ' not in note]
    if notes:
        print(f'{len(notes) - len(unchecked)} cases were skipped, and {len(unchecked)} notes say what was not checked')
    if again:
        print(f'{again} of the cases below are others run again: with sanitizers, threads, another compiler or processor')
    if status != '0' and not failed:
        print(f'the tests ended with status {status} and none of them failed: they did not all run')
        failed = 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not (passed or notes) else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
