#!/usr/bin/env python3
"""Checks that a file compiles without a word, and stores the result (tests/results.py).

usage: compiles.py NAME RESULT DEPFILE COMPILER ARGUMENT...
"""

import subprocess
import sys

sys.dont_write_bytecode = True
import results  # noqa: E402

name, result, depfile, *command = sys.argv[1:]
done = subprocess.run([*command, '-fsyntax-only', '-MD', '-MF', depfile, '-MT', result],
                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
problems = []
if done.returncode != 0 or done.stdout.strip():
    problems = [f'`{" ".join(command)}` gave status {done.returncode}:\n' + done.stdout[:4000]]
results.store(result, depfile, name, problems)
