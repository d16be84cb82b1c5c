#!/usr/bin/env python3
"""Runs an example and checks what it prints.

usage: examples.py PROGRAM prints FILE      its output is that in FILE; times differ from run to run and count as equal
       examples.py PROGRAM search MODEL     the sentence search: an answer, and what it says when something is wrong
                                            with the model in the folder MODEL, or with the question
"""

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# A number with a unit of time, and the spaces before it, which are fewer where the number is longer.
TIME = re.compile(r'\s*\b\d+(\.\d+)? ?(ns|us|ms|s|minutes|seconds|milliseconds|microseconds)\b')


def run(program, *arguments):
    """Runs in a scratch folder, which an example may write into."""
    with tempfile.TemporaryDirectory() as scratch:
        return subprocess.run([program, *arguments], cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors='replace')


def without_times(text):
    return TIME.sub(' <time>', text)


def prints(program, stored):
    """Problems with what `program` prints."""
    done = run(program)
    if done.returncode != 0:
        return 1, [f'exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}']
    stored = pathlib.Path(stored)
    if not stored.is_file():
        return 1, [f'{stored.name} is not there; it should have what the example prints:\n{done.stdout}']
    want, have = (without_times(text).splitlines() for text in (stored.read_text(), done.stdout))
    lines = list(difflib.unified_diff(want, have, stored.name, 'printed', lineterm=''))
    return 1, ['it prints something else:\n' + '\n'.join(lines)] if lines else []


def broken_models(model, scratch):
    """Folders with one fault each, and what the program is to say about it."""
    def copy(name):
        folder = scratch / name.replace(' ', '_')
        folder.mkdir()
        for file in model.iterdir():
            (folder / file.name).symlink_to(file)
        return folder

    def replace(name, file, content):
        folder = copy(name)
        (folder / file).unlink()
        if content is not None:
            (folder / file).write_bytes(content)
        return name, folder, file

    config = (model / 'config.json').read_bytes()
    weights = (model / 'model.safetensors').read_bytes()
    yield 'no folder', scratch / 'nowhere', 'nowhere'
    yield replace('no configuration', 'config.json', None)
    yield replace('configuration cut off', 'config.json', config[:len(config) // 2])
    yield replace('empty configuration', 'config.json', b'')
    yield replace('configuration without sizes', 'config.json', b'{}')
    yield replace('no vocabulary', 'vocab.txt', None)
    yield replace('empty vocabulary', 'vocab.txt', b'')
    yield replace('no weights', 'model.safetensors', None)
    yield replace('weights cut off', 'model.safetensors', weights[:len(weights) // 2])
    yield replace('weights cut off in the header', 'model.safetensors', weights[:100])
    yield replace('empty weights', 'model.safetensors', b'')
    yield replace('weights of something else', 'model.safetensors', b'\x02\0\0\0\0\0\0\0{}')


def search(program, model):
    if not model:
        print('note: the sentence search was not run: there is no model; tools/setup --model fetches it')
        return 0, []
    model = pathlib.Path(model).resolve()
    checks, problems = 0, []

    def refused(name, folder, question, words):
        nonlocal checks
        checks += 1
        done = run(program, str(folder), 'out', *question)
        lines = done.stderr.splitlines()
        fine = len(lines) == 1 and lines[0].startswith('sentence_search: ') and words in lines[0]
        if done.returncode != 1 or not fine:
            problems.append(f'{name}: exit status 1 and one line with "{words}" are expected; exit status '
                            f'{done.returncode} and {len(lines)} lines came:\n{done.stderr[:2000]}')

    with tempfile.TemporaryDirectory() as scratch:
        for name, folder, words in broken_models(model, pathlib.Path(scratch)):
            refused(name, folder, ['how do I bake bread'], words)
        for question in [''], [' \t '], ['\u3000\u00a0'], ['', '', '']:
            refused(f'question {question}', model, question, 'the question is empty')
        refused('question, very long', model, ['how do I bake bread ' * 2000], 'the question has 12002 tokens')
        blocked = pathlib.Path(scratch) / 'file'
        blocked.write_text('')
        checks += 1
        done = run(program, str(model), str(blocked / 'out'), 'hello')
        if done.returncode != 1 or len(done.stderr.splitlines()) != 1 or str(blocked) not in done.stderr:
            problems.append(f'output folder that cannot be made: exit status {done.returncode}\n{done.stderr[:2000]}')

        checks += 1
        done = run(program, str(model), 'out', 'how', 'do', 'I', 'bake', 'bread')
        answer = done.stdout.partition('"how do I bake bread"\n')[2].splitlines()
        if done.returncode != 0 or done.stderr or len(answer) != 3 or 'bake crusty bread' not in answer[0]:
            problems.append(f'bread is not found; exit status {done.returncode}\n{done.stdout}{done.stderr[:2000]}')
    return checks, problems


def main(program, how, argument):
    checks, problems = {'prints': prints, 'search': search}[how](os.path.abspath(program), argument)
    for problem in problems:
        print(f'FAILED {pathlib.Path(program).name}: {problem}')
    print(f'{checks - len(problems)} passed, {len(problems)} failed')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
